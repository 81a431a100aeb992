"""What a fit will cost, in ε and in time: a few steps of each stage on made-up rows, scaled up."""

import math
import time
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from tabsynth._random import Randomness
from tabsynth.plan import Plan, PlannedSpend, duration, planned
from tabsynth.privacy.calibration import UNSPENT
from tabsynth.privacy.certificate import condition
from tabsynth.privacy.ledger import Ledger
from tabsynth.training.loop import Watch

if TYPE_CHECKING:
    from tabsynth.synthesizers.base import Synthesizer

NOMINAL_ROWS = 20_000  # what times are estimated for where the caller declares no number of rows
TRIAL_STEPS = 11
TRIAL_ROWS = 100_000
WEAK_EPSILON, WEAK_DELTA = 20.0, 1e-3


def priced(
    model: "Synthesizer", spends: list[PlannedSpend], earlier: Ledger, estimate_time: bool
) -> Plan:
    """The plan of a fit: its cost on top of what was spent earlier, its time, what else to know."""
    whole = planned(spends, earlier)
    rows = model.rows or NOMINAL_ROWS
    seconds = estimated_seconds(model, spends, rows) if estimate_time else None
    return Plan(
        method=model.method,
        spends=tuple(spends),
        epsilon=whole.spent,
        delta=model.delta,
        accountant=whole.accountant()["name"],
        rows=rows,
        rows_declared=model.rows is not None,
        device=str(model._device()),
        seconds=seconds,
        at_most=model.stops_early,
        notes=tuple(_notes(model, spends, seconds, whole)),
    )


def _unspent(whole: Ledger) -> list[str]:
    """A line where the plan leaves part of its budget over."""
    if math.isinf(whole.epsilon):
        return []
    share = whole.filter.share(whole.spends()) if whole.adaptive else whole.spent / whole.epsilon
    left = 1 - share
    return (
        [f"note: {left:.1%} of epsilon = {whole.epsilon:g} is not used up"]
        if left > UNSPENT
        else []
    )


def _notes(
    model: "Synthesizer", spends: list[PlannedSpend], seconds: float | None, whole: Ledger
) -> list[str]:
    """What a person should know before they start."""
    notes = _unspent(whole)
    drafted = model.schema.drafted
    if drafted and math.isfinite(model.epsilon):
        notes.append(
            f"CONDITIONAL: this epsilon holds only if {condition(drafted)}; it was copied from the rows"
            " of a table"
        )
    if WEAK_EPSILON < model.epsilon < math.inf:
        notes.append(f"note: epsilon above {WEAK_EPSILON:g} promises little to anyone in the table")
    if model.delta > WEAK_DELTA:
        notes.append(f"note: delta above {WEAK_DELTA:g} lets whole records leak with that chance")
    limit = model.time_limit
    if seconds is not None and limit is not None and seconds > limit:
        charged = any(spend.count > 1 for spend in spends)
        notes.append(
            f"the time limit of {duration(limit)} {'may' if model.stops_early else 'will'} stop it"
            f" early, with fewer steps{'; steps that are not taken are not charged' * charged}"
        )
    return [*notes, *model._notes(spends)]


def estimated_seconds(model: "Synthesizer", spends: list[PlannedSpend], rows: int) -> float:
    """Seconds that a fit of ``rows`` rows will take here. No private row is touched."""
    sizes, made_up = model.schema.sizes, min(rows, TRIAL_ROWS)
    rng = np.random.default_rng(0)
    index = np.stack([rng.integers(0, size, made_up) for size in sizes], axis=1)
    few = [replace(s, count=min(s.count, TRIAL_STEPS)) for s in spends]
    times: dict[str, list[float]] = {}
    watch = Watch(progress=lambda stage, *_: times.setdefault(stage, []).append(time.monotonic()))
    started = time.monotonic()
    ledger = Ledger(math.inf, model.delta)
    model._train(index, few, ledger, Randomness(0), watch, most=TRIAL_STEPS)
    private, public = time.monotonic() - started, 0.0
    charged = {s.purpose: s.count for s in spends}
    for stage, steps in {**charged, **model._free_steps()}.items():
        stamps = times.get(stage, [])
        if len(stamps) >= TRIAL_STEPS:
            # The first steps warm up (imports, allocators): they say nothing of the others.
            left = (steps - TRIAL_STEPS) * (stamps[-1] - stamps[2]) / (len(stamps) - 3)
            if stage in charged:
                private += left
            else:  # such steps read no rows
                tried = stamps[-1] - stamps[0]
                private, public = private - tried, public + tried + left
    return private * rows / made_up + public
