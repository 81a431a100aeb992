"""The plan of a fit, to be read before it starts: mechanisms, privacy cost, warnings, and time as measured on made-up rows."""

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from tabsynth._random import Randomness
from tabsynth._shown import Shown, html_table, wrapped
from tabsynth._threads import limit_threads
from tabsynth.design import NO_DESIGN
from tabsynth.encoding.rows import PrivateRows, Rows, codes_of
from tabsynth.methods import CRITIC
from tabsynth.privacy.accounting.calibration import UNSPENT
from tabsynth.privacy.certificate.certificate import condition, unchanged_facts, unchanged_of
from tabsynth.privacy.ledger.ledger import Account, Ledger
from tabsynth.schema.schema import Schema
from tabsynth.synthesizers.method import NOMINAL_ROWS, Method, PlannedSpend
from tabsynth.training.loop import TrainingMonitor

WEAK_EPSILON, WEAK_DELTA = 20.0, 1e-3  # past them a plan warns
SHORT = 60.0  # seconds: under a shorter time limit no time is spent on an estimate
TRIAL_STEPS = 11
TRIAL_ROWS = 100_000
# Of made-up rows: how unequal values are, and how far columns depend on each other. With these the steps of a fit
# take about as long as on the tables of reports/tables, where uniform rows take up to ten times as long.
POWER, CLASSES, DEPENDENT, MODES = 1.5, 8, 0.6, 3


@dataclass(frozen=True, kw_only=True)
class Plan(Shown):
    """The privacy cost of a fit, to be read before it starts.

    Attributes
    ----------
    spends : tuple of PlannedSpend
    epsilon, delta : float
        The privacy cost of the whole fit.
    accountant : str
        Name of the accountant.
    seconds : float or None
        Estimated on this machine, for a table of ``rows`` rows.
    time_limit : float or None
        Seconds after which the fit stops.
    adjacency : str
        What neighbouring tables differ by.
    rows : int
        The number of rows the estimate is for: what the caller declared, or a nominal one. It is
        never that of the private table.
    notes : tuple of str
        Warnings to be read before the fit.
    """

    method: str
    spends: tuple[PlannedSpend, ...]
    epsilon: float
    delta: float
    accountant: str
    rows: int
    rows_declared: bool
    device: str
    seconds: float | None = None
    time_limit: float | None = None
    notes: tuple[str, ...] = ()
    adjacency: str = NO_DESIGN.adjacency

    def lines(self) -> list[str]:
        """Return the plan in plain words, a line each."""
        out = [str(spend) for spend in self.spends]
        if math.isinf(self.epsilon):
            out.append("spends epsilon = inf: NOT private")
        else:
            out.append(
                f"spends epsilon = {self.epsilon:.4g} at delta = {self.delta:g}"
                f" ({self.accountant} accountant, {self.adjacency})"
            )
        if self.seconds is not None:
            whose = "the declared" if self.rows_declared else "a table of"
            other = "" if self.rows_declared else "; declare rows= for another number"
            out.append(
                f"takes about {duration(self.seconds)} on {self.device} for {whose} {self.rows:,} rows{other}"
            )
        elif self.time_limit is not None:
            out.append(f"stops at the time limit of {duration(self.time_limit)}")
        return [*out, *self.notes]

    def _repr_lines(self) -> list[str]:
        number = len(self.spends)
        others = self.lines()[number:]
        listed = [str(spend) for spend in self.spends[:3]]
        listed += [f"… {number - 3} more mechanisms"] * (number > 3)
        return wrapped([f"Plan of {self.method}: {others[0]}", *others[1:], *listed])

    def _repr_html_(self) -> str:
        """Return the mechanisms as an HTML table, with the cost and all warnings below it."""
        rows = [(s.purpose, s.mechanism.in_words(s.count)) for s in self.spends]
        others = self.lines()[len(rows) :]
        return html_table(f"Plan of {self.method}", [("purpose", "mechanism"), *rows], others)

    def __str__(self) -> str:
        """Return it in words."""
        return f"{self.method}:\n" + "\n".join(f"  {line}" for line in self.lines())


def planned_ledger(spends: Sequence[PlannedSpend], earlier: Ledger) -> Ledger:
    """Return a ledger on which a plan is spent, after what was spent earlier: for its ε and its accountant."""
    ledger = Ledger.from_list(earlier.epsilon, earlier.delta, earlier.before())
    ledger.accounts += [Account(s.purpose, s.mechanism, s.count, s.count) for s in spends]
    return ledger


def complete_plan(
    method: Method,
    spends: Sequence[PlannedSpend],
    earlier: Ledger,
    time_limit: float | None,
    estimate_time: bool,
) -> Plan:
    """Return the plan of a fit: its cost on top of what was spent earlier, and what else to know.

    The time is estimated for ``method.rows``, or for a nominal number of rows, unless the limit is short or steps follow from
    a time budget.
    """
    seconds = None
    estimate_time = estimate_time and isinstance(method.schema, Schema)
    if estimate_time and method.time_budget is None and (time_limit is None or time_limit >= SHORT):
        seconds = estimate_seconds(method, spends, method.rows or NOMINAL_ROWS)
    ledger = planned_ledger(spends, earlier)
    return Plan(
        method=method.name,
        spends=tuple(spends),
        epsilon=ledger.spent,
        delta=method.delta,
        accountant=ledger.accountant()["name"],
        rows=method.rows or NOMINAL_ROWS,
        rows_declared=method.rows is not None,
        device=str(method.device),
        seconds=seconds,
        time_limit=time_limit,
        notes=tuple(_plan_notes(method, spends, seconds, time_limit, ledger)),
        adjacency=method.schema.design.adjacency,
    )


def _plan_notes(
    method: Method,
    spends: Sequence[PlannedSpend],
    seconds: float | None,
    limit: float | None,
    ledger: Ledger,
) -> list[str]:
    notes = [*method.design_notes(), *_unspent_notes(ledger)]
    drafted = method.schema.drafted
    if drafted and math.isfinite(method.epsilon):
        notes.append(
            f"CONDITIONAL: this epsilon holds only if {condition(drafted)}; it was copied from the rows"
            " of a table"
        )
    if sentence := unchanged_of(unchanged_facts(method.schema.unchanged_facts)):
        notes.append(f"note: {sentence}")
    if WEAK_EPSILON < method.epsilon < math.inf:
        notes.append(f"note: epsilon above {WEAK_EPSILON:g} promises little to anyone in the table")
    if method.delta > WEAK_DELTA:
        notes.append(
            f"note: delta above {WEAK_DELTA:g} is large; choose it well below one over the number of rows"
        )
    budget = method.time_budget
    if budget is not None and limit is not None and limit <= budget:
        notes.append(
            f"note: the time limit of {duration(limit)} ends the fit before its time budget of {duration(budget)} is used;"
            " leave the limit out, or give more than the budget"
        )
    if seconds is not None and limit is not None and seconds > limit:
        charged = any(spend.count > 1 for spend in spends)
        notes.append(
            f"the time limit of {duration(limit)} {'may' if method.stops_early else 'will'} stop it"
            f" early, with fewer steps{'; steps that are not taken are not charged' * charged}"
        )
    return [*notes, *method.notes(spends)]


def _unspent_notes(ledger: Ledger) -> list[str]:
    if math.isinf(ledger.epsilon):
        return []
    adaptive = ledger.adaptive
    share = ledger.filter.share(ledger.spends()) if adaptive else ledger.spent / ledger.epsilon
    unspent = 1 - share
    if unspent <= UNSPENT:
        return []
    return [f"note: {unspent:.1%} of epsilon = {ledger.epsilon:g} is not used up"]


def duration(seconds: float) -> str:
    """Return seconds in words: ``45 s``, ``3 min``, ``2.1 h``."""
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    if seconds < 5400:
        return f"{round(seconds / 60)} min"
    return f"{seconds / 3600:.1f} h"


def made_up_rows(sizes: Sequence[int], rows: int, rng: np.random.Generator) -> np.ndarray:
    """Make up category codes of rows, shape (rows, columns): skewed columns that depend on a hidden class.

    Parameters
    ----------
    sizes : sequence of int
        Number of codes of each column.
    rows : int
    rng : Generator
    """
    hidden = rng.integers(0, CLASSES, rows)
    columns = []
    for size in sizes:
        shares = 1 / np.arange(1, size + 1) ** POWER
        codes = rng.choice(size, rows, p=shares / shares.sum())
        shift = rng.integers(0, min(size, MODES), CLASSES)[hidden]
        columns.append((codes + shift * (rng.random(rows) < DEPENDENT)) % size)
    return np.stack(columns, axis=1)


class Speed(NamedTuple):
    """The seconds that a fit takes here, as measured on made-up rows: for its steps, and for all else."""

    steps: float
    other: float


def estimate_seconds(method: Method, spends: Sequence[PlannedSpend], rows: int) -> float:
    """Estimate the seconds that a fit of ``rows`` rows will take here. No private row is touched."""
    return sum(measure_speed(method, spends, rows))


def steps_in_time(method: Method, spends: Sequence[PlannedSpend]) -> int:
    """Return how many of the critic's steps the time budget of a method allows, by its speed on made-up rows.

    They are at most those of the plan; other stages get as many times fewer. No private row is touched: the number follows
    from the schema, the declared or a nominal number of rows, and the speed of the machine.

    Parameters
    ----------
    method : TableMethod
    spends : sequence of PlannedSpend
        Its plan without a time budget.
    """
    assert method.time_budget is not None
    steps = next(s.count for s in spends if s.purpose == CRITIC)
    speed = measure_speed(method, spends, method.rows or NOMINAL_ROWS)
    share = (method.time_budget - speed.other) / max(speed.steps, 1e-9)
    return max(0, math.floor(steps * min(1.0, share)))


@limit_threads()
def measure_speed(method: Method, spends: Sequence[PlannedSpend], rows: int) -> Speed:
    """Measure the speed of a fit of ``rows`` rows in a trial of a few steps on made-up rows. No private row is touched.

    Parameters
    ----------
    method : TableMethod
    spends : sequence of PlannedSpend
        Its plan.
    """
    assert isinstance(method.schema, Schema)
    made_up, rng = min(rows, TRIAL_ROWS), np.random.default_rng(0)
    index: PrivateRows = made_up_rows(method.schema.learned.sizes, made_up, rng)
    if (cap := method.schema.design.max_weight) is not None:
        index = Rows(codes_of(index), cap * rng.random(made_up) ** POWER)
    few = [replace(s, count=min(s.count, TRIAL_STEPS)) for s in spends]
    times: dict[str, list[float]] = {}
    monitor = TrainingMonitor(
        progress=lambda stage, *_: times.setdefault(stage, []).append(time.monotonic()),
        trial_steps=TRIAL_STEPS,
    )
    started = time.monotonic()
    ledger = Ledger(math.inf, method.delta)
    trial = method.train(index, few, ledger, Randomness(0), monitor)
    private, public = time.monotonic() - started, 0.0
    charged, of_private, of_public = {s.purpose: s.count for s in spends}, 0.0, 0.0
    for stage, steps in {**charged, **method.free_steps(), **trial.likely_steps}.items():
        stamps = times.get(stage, [])
        if len(stamps) >= TRIAL_STEPS:
            # The first steps warm up (imports, allocators): they say nothing of the others.
            each = (stamps[-1] - stamps[2]) / (len(stamps) - 3)
            if stage in charged:
                private, of_private = private - TRIAL_STEPS * each, of_private + steps * each
            else:  # such steps read no rows
                tried = stamps[-1] - stamps[0]
                private, public = private - tried, public + tried - TRIAL_STEPS * each
                of_public += steps * each
    scale = rows / made_up
    return Speed(of_private * scale + of_public, private * scale + public)
