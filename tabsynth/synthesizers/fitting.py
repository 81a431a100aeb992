"""The plan of a fit, the session that carries it out (ledger, checkpoint, project), and what a certificate says of it."""

import logging
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np

from tabsynth._random import Randomness
from tabsynth._validate import shown
from tabsynth.drafting.private_schema import OPTIONS, draft_on_ledger, draft_share, release_name
from tabsynth.encoding.rows import PrivateRows
from tabsynth.errors import BudgetError, FileFormatError, InputError
from tabsynth.privacy.accounting.accountants import RENYI, Spend, epsilon_of
from tabsynth.privacy.accounting.calibration import UNSPENT
from tabsynth.privacy.accounting.mechanisms import (
    Mechanism,
    SubsampledGaussian,
    mechanism_from,
)
from tabsynth.privacy.certificate.certificate import (
    EXACT,
    ON_GPU,
    code,
    condition,
    interrupted_claim,
    rounded_up,
    unchanged_facts,
    unchanged_of,
    versions,
)
from tabsynth.privacy.certificate.completeness import LISTED
from tabsynth.privacy.ledger.journal import MOST_USES
from tabsynth.privacy.ledger.ledger import EARLIER, Account, Ledger, as_earlier, recorder
from tabsynth.privacy.ledger.project import ProjectLedger, check_same_ledger
from tabsynth.schema.design import NO_DESIGN, neighbour_of
from tabsynth.schema.schema import Schema
from tabsynth.training.checkpoint import INDEX, Checkpoint, LostRelease, read_index
from tabsynth.training.loop import INTERRUPTED, TrainingMonitor

WEAK_EPSILON, WEAK_DELTA = 20.0, 1e-3  # past them a plan warns
# Parameters that a certificate states, where a method has them.
STATED = ("preset", "variant", "label")


@dataclass(frozen=True, kw_only=True)
class PlannedSpend:
    """One mechanism, how often it will be used, and on what."""

    purpose: str
    mechanism: Mechanism
    count: int

    def __str__(self) -> str:
        return f"{self.purpose}: {self.mechanism.in_words(self.count)}"


@dataclass(frozen=True, kw_only=True)
class Plan:
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
        """The plan in plain words, a line each."""
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
            other = "" if self.rows_declared else "; declare rows (--rows) for another number"
            out.append(
                f"takes about {duration(self.seconds)} on {self.device} for {whose} {self.rows:,} rows{other}"
            )
        elif self.time_limit is not None:
            out.append(f"stops at the time limit of {duration(self.time_limit)}")
        return [*out, *self.notes]

    def __str__(self) -> str:
        return f"{self.method}:\n" + "\n".join(f"  {line}" for line in self.lines())


def planned(spends: Sequence[PlannedSpend], earlier: Ledger) -> Ledger:
    """A ledger on which a plan is spent, after what was spent earlier: for its ε and its accountant."""
    ledger = Ledger.from_list(earlier.epsilon, earlier.delta, earlier.before())
    ledger.accounts += [Account(s.purpose, s.mechanism, s.count, s.count) for s in spends]
    return ledger


def complete_plan(
    model: Any,
    spends: Sequence[PlannedSpend],
    earlier: Ledger,
    rows: int,
    seconds: float | None,
) -> Plan:
    """The plan of a fit: its cost on top of what was spent earlier, and what else to know.

    ``rows`` is the number that ``seconds``, the estimated time, is for.
    """
    whole = planned(spends, earlier)
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
        time_limit=model.time_limit,
        notes=tuple(_plan_notes(model, spends, seconds, whole)),
        adjacency=model.schema.design.adjacency,
    )


def _plan_notes(
    model: Any, spends: Sequence[PlannedSpend], seconds: float | None, whole: Ledger
) -> list[str]:
    """Warnings to be read before the fit."""
    notes = [*model._design_notes(), *_unspent(whole)]
    drafted = model.schema.drafted
    if drafted and math.isfinite(model.epsilon):
        notes.append(
            f"CONDITIONAL: this epsilon holds only if {condition(drafted)}; it was copied from the rows"
            " of a table"
        )
    if sentence := unchanged_of(unchanged_facts(model.schema.unchanged_facts)):
        notes.append(f"note: {sentence}")
    if WEAK_EPSILON < model.epsilon < math.inf:
        notes.append(f"note: epsilon above {WEAK_EPSILON:g} promises little to anyone in the table")
    if model.delta > WEAK_DELTA:
        notes.append(
            f"note: delta above {WEAK_DELTA:g} is large; choose it well below one over the number of rows"
        )
    limit = model.time_limit
    if seconds is not None and limit is not None and seconds > limit:
        charged = any(spend.count > 1 for spend in spends)
        notes.append(
            f"the time limit of {duration(limit)} {'may' if model.stops_early else 'will'} stop it"
            f" early, with fewer steps{'; steps that are not taken are not charged' * charged}"
        )
    return [*notes, *model._notes(spends)]


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


def duration(seconds: float) -> str:
    """Seconds in words: ``45 s``, ``3 min``, ``2.1 h``."""
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    if seconds < 5400:
        return f"{round(seconds / 60)} min"
    return f"{seconds / 3600:.1f} h"


logger = logging.getLogger(__name__)


def check_sources(model: Any, project: ProjectLedger | None) -> None:
    """Refuse what a project's ledger cannot count, and what would be counted nowhere."""
    # A recorded run is seeded so that it can be replayed, on a ledger that is thrown away.
    if project is not None and model._seeded() and recorder() is None:
        project.refuse_seed("A seeded fit")
    unit = model._design.unit
    if project is not None:
        project.check_unit(unit)
    sources: list[tuple[str, Any, Any]] = []
    for what, before in (
        ("What this synthesizer was fitted to", model),
        ("warm_start", getattr(model, "warm_start", None)),
    ):
        source_ledger: Ledger | None = getattr(before, "ledger_", None)
        if source_ledger is not None and source_ledger.spends():
            if source_ledger.unit != unit:
                raise InputError(
                    f"{what} protects {neighbour_of(source_ledger.unit)}, and this fit {neighbour_of(unit)}; their"
                    " privacy costs do not add up. Give both the same unit, or fit a new synthesizer."
                )
            # A draft has no schema yet, but the options that the design is of.
            used = model._design if model.schema is None else model.schema.contributions
            if before is model and source_ledger.contributions not in (None, used):
                raise InputError(
                    "What this synthesizer was fitted to has other bounds of a unit, or another cap of weights, and a"
                    " certificate states one for all charges. Give both fits the same, or fit a new synthesizer."
                )
            sources.append((what, source_ledger.project, source_ledger.run))
    released = getattr(model.schema, "released", None)
    if released is not None:
        sources.append((release_name(released), released.get("project"), released.get("run")))
    for what, project_id, run in sources:
        check_same_ledger(what, project_id, run, project)


class Run:
    """The ledger and the plan of a fit; locks the checkpoint while it is open.

    Parameters
    ----------
    model : Synthesizer
        One without a schema has no plan until :meth:`draft` and :meth:`go_on` were called.
    path : path, optional
        The checkpoint: opened now if it is there, else made when the fit starts.
    ledger : path, optional
        The project's ledger: held from now on, and the only file with the fit's accounts.
    """

    def __init__(
        self, model: Any, path: str | Path | None, ledger: str | Path | None = None
    ) -> None:
        self.model = self._given = model
        self.path = None if path is None else Path(path)
        self.checkpoint: Checkpoint | None = None
        self.ledger = Ledger(model.epsilon, model.delta)
        self.spends: list[PlannedSpend] = []
        self.project = None if ledger is None else ProjectLedger(ledger)
        try:
            check_sources(self.model, self.project)
            if self.path is not None and (self.path / INDEX).exists():
                self._open(self.path)
            elif model.schema is None:
                self.ledger = self._fresh()
            else:
                self._plan(self._fresh())
        except BaseException:
            self.release()
            raise

    def _fresh(self) -> Ledger:
        """The ledger of a fit without a checkpoint."""
        model = self.model
        if self.project is None:
            return model._earlier()
        ledger = self.project.ledger(model.epsilon, model.delta, earlier=model._earlier_spends())
        check_left(ledger, model)
        return ledger

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.release()

    def release(self) -> None:
        """Unlock the files."""
        if self.checkpoint is not None:
            self.checkpoint.release()
        if self.project is not None:
            self.project.release()

    @property
    def seeded(self) -> bool:
        """Whether any part of this fit, or an earlier fit of the model, was."""
        kept = self.checkpoint is not None and self.checkpoint.seeded
        return kept or self.model._seeded()

    @property
    def finished(self) -> bool:
        """Whether the checkpoint holds the model of a fit that has ended whole."""
        return self.checkpoint is not None and self.checkpoint.finished

    def start(self) -> None:
        """Make the checkpoint, if there is to be one: the table is sound, and about to be read."""
        if self.path is not None and self.checkpoint is None:
            self._open(self.path)

    def draft(self, table: Any, after: Callable[[Ledger], Sequence[Spend]]) -> Schema:
        """The schema that this fit releases first, charged as all else is; from the checkpoint if that has it.

        A draft of which a crash lost the result is made again, for a part of what is left.

        Parameters
        ----------
        table : DataFrame
            The private rows.
        after : callable
            From a ledger that has the draft on it to a plan of the fit, for a project's ledger to admit both.
        """
        self.start()
        if self.checkpoint is not None:
            kept = self.checkpoint.schema()
            if kept is not None:
                return Schema.from_dict(kept, str(self.path))
            if self.checkpoint.begun:
                logger.warning(
                    "the draft of the schema: charged, but lost in a crash; it is made again"
                )
                self.checkpoint.start_over()
                self.ledger = self.checkpoint.ledger()
            self.checkpoint.begin(None, seeded=self.seeded)
        check_left(self.ledger, self.model)
        design = self.model._design
        drafted = table.shape[1] - len(design.names)
        mu = draft_share(self.model.epsilon, self.model.delta, drafted)
        composition = self.model.composition
        if self.project is not None:
            if (
                self.project.filter.composition == RENYI
            ):  # what the project does not admit is not planned
                composition = RENYI
            self.project.admit_draft(self.ledger, mu, composition, after)
        self.ledger.unit = design.unit
        self.model.ledger_ = self.ledger  # what a draft spends is spent, whatever comes of the fit
        seed = self.model.random_state
        if seed is not None:  # neither the noise of the fit, nor that of a draft that was lost
            resumes = 0 if self.checkpoint is None else self.checkpoint.resumes
            seed = int(seed) + (1 << 127) + (resumes << 128)
        options = {n: v for n, v in dict(self.model.draft_options or {}).items() if n in OPTIONS}
        schema = draft_on_ledger(
            table,
            mu,
            self.ledger,
            random_state=seed,
            composition=composition,
            design=design,
            **options,
        )
        if self.checkpoint is not None:
            self.checkpoint.keep_schema(schema.to_dict())
        return schema

    def go_on(self, model: Any) -> None:
        """Plan the fit of ``model``, which has the drafted schema: adaptively, so that filters compose."""
        self.model = model
        if self.checkpoint is not None:
            self._adopt(self.checkpoint)
            return
        before = as_earlier(self.ledger.to_list())
        if self.project is not None:
            ledger = self.project.ledger(model.epsilon, model.delta, earlier=before)
        else:
            ledger = Ledger.from_list(model.epsilon, model.delta, before)
        check_left(ledger, model)
        self._plan(ledger)

    def train(self, index: PrivateRows, monitor: TrainingMonitor) -> Any:
        """Train by the plan; after a crash that lost a charged release, by a new plan for the rest of the budget."""
        while True:
            if self.project is not None:
                self.project.begin(self.ledger.run, self.model.method)
            self.ledger.unit = self.model.schema.unit
            self.ledger.contributions = self.model.schema.contributions
            self.model.ledger_ = self.ledger
            monitor.checkpoint = self.checkpoint
            try:
                return self.model._train(
                    index, self.spends, self.ledger, self._randomness(), monitor
                )
            except LostRelease as lost:
                what = str(lost)
            except KeyboardInterrupt:
                monitor.stopped = INTERRUPTED
                raise
            finally:
                self.ledger.close(
                    resumable=self.checkpoint is not None, whole_plan=monitor.stopped == INTERRUPTED
                )
            self._start_over(what)

    def _start_over(self, lost: str) -> None:
        """Make a new plan for the rest of the budget."""
        assert self.checkpoint is not None
        logger.warning(
            "%s: charged, but lost in a crash; the rest of the budget is planned again", lost
        )
        self.checkpoint.start_over()
        try:
            self._adopt(self.checkpoint)
        except BudgetError as error:
            raise BudgetError(
                f"A crash lost the {lost} that were charged, and the rest of the budget does not suffice to repeat them:"
                f" {error}"
            ) from None

    def facts(self) -> dict[str, Any]:
        """Return what a certificate says of the plan, and of the project's ledger if there is one.

        The plan: what was spent before it was made, and what it grants.
        """
        before = [
            {n: v for n, v in item.items() if n in (*LISTED, "count")}
            for item in self.ledger.before()
        ]
        facts = {"plan": {"before": before, "fit": [_item(spend) for spend in self.spends]}}
        if self.project is not None:
            facts["project"] = self.project.statement(self.ledger.run)
        return facts

    def restore_model(self) -> None:
        """Make the model the one that the finished checkpoint holds."""
        assert self.checkpoint is not None
        self.model._restore(self.checkpoint.model(), self.ledger)
        logger.info("%s: the fit was complete; its model is restored", self.path)

    def _randomness(self) -> Randomness:
        """Streams of this part of the fit: never those of an earlier part, whose noise is drawn."""
        seed = self.model.random_state
        resumes = 0 if self.checkpoint is None else self.checkpoint.resumes
        return Randomness(None if seed is None else int(seed) + (resumes << 128))

    def _open(self, path: Path) -> None:
        model, project = self.model, self.project
        bound = model._binding()
        if project is not None:
            bound["ledger"] = project.project
        self.checkpoint = Checkpoint(
            path,
            epsilon=model.epsilon,
            delta=model.delta,
            fit=bound,
            earlier=self._before(path),
            journal=None if project is None else project.journal,
        )
        try:
            self._adopt(self.checkpoint)
        except BaseException:
            self.checkpoint.release()
            raise

    def _adopt(self, checkpoint: Checkpoint) -> None:
        """Take ledger and plan from the checkpoint; make the plan where it has none."""
        self.ledger = checkpoint.ledger()
        if checkpoint.finished or self.model.schema is None:
            return
        if checkpoint.plan is None:
            check_left(self.ledger, self.model)
            self._plan(self.ledger)
        else:
            self.spends = [_spend(item) for item in checkpoint.plan]
            self._check_project()
        checkpoint.begin([_item(s) for s in self.spends], seeded=self.seeded)

    def _plan(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self.spends = self.model._spends(ledger)
        self._check_project()

    def _check_project(self) -> None:
        """Refuse a plan that would pass the project's limit, before anything of it is read."""
        if self.project is not None:
            plan = [(spend.mechanism, spend.count) for spend in self.spends]
            self.project.check(self.ledger.run, plan)

    def _before(self, path: Path) -> list[dict[str, Any]]:
        """What this model spent before the fit that the checkpoint is of."""
        ledger: Ledger = getattr(self._given, "ledger_", self.ledger)
        index = path / INDEX
        if ledger.journal is not None and index.exists():
            facts = read_index(index)
            # This object began, or continued, the very same fit: that is not spent twice.
            if ledger.run in (facts["run"], *facts.get("given_up", [])):
                return ledger.of_run(EARLIER)
        return self._given._earlier_spends()


def check_left(ledger: Ledger, model: Any) -> None:
    """Refuse a ledger that leaves nothing for another fit of a model.

    The ε that the message names is that of the model's certificate. The filter that composes it with another fit needs
    more noise for the same ε than an accountant of a fixed list.
    """
    if ledger.used_up:
        before: Ledger | None = getattr(model, "ledger_", None)
        spent = epsilon_of(ledger.spends(), ledger.delta) if before is None else before.spent
        raise BudgetError(
            f"This synthesizer has already spent epsilon={rounded_up(spent)} of {ledger.epsilon:g};"
            " another fit of the same rows adds to it: raise epsilon to pay for both, or fit a"
            " sklearn.base.clone of it and count both budgets."
        )


def interrupted_cost(model: Any) -> str:
    """Return a sentence on the cost of an interrupted fit: of the model that it left, or without one of its budget."""
    ledger: Ledger | None = getattr(model, "ledger_", None)
    if ledger is None or not ledger.spends():
        return "Nothing was charged."
    if not hasattr(model, "trained_"):
        # What a person saw may have decided how much was charged, which only a filter covers.
        charged = "What was charged stays charged"
        if ledger.project is not None:
            return f"{charged}, and the project ledger counts it."
        return f"{charged}: count epsilon={rounded_up(ledger.epsilon)}, its budget."
    claim = interrupted_claim(ledger.spent, model.facts_.get("project"))
    return f"{claim[0].upper()}{claim[1:]}."


def _item(spend: PlannedSpend) -> dict[str, Any]:
    item = {"purpose": spend.purpose, **spend.mechanism.to_dict(), "count": spend.count}
    # Parameters may be numbers of numpy, which JSON does not take.
    return {n: v.item() if isinstance(v, np.generic) else v for n, v in item.items()}


def _spend(item: dict[str, Any]) -> PlannedSpend:
    purpose, count = item.get("purpose"), item.get("count")
    if not isinstance(purpose, str) or type(count) is not int or not 0 <= count <= MOST_USES:
        raise FileFormatError(f"The checkpoint's plan has a part that cannot be: {shown(item)}.")
    return PlannedSpend(purpose=purpose, mechanism=mechanism_from(item), count=count)


def stated_facts(model: Any, monitor: TrainingMonitor, trained: Any) -> dict[str, Any]:
    """What a certificate says of a fit besides the ledger; ``trained`` is what training resulted in."""
    drafted = model.schema.drafted
    released = [c.name for c in model.schema.columns if c.provenance == "released"]
    of_schema = sorted(
        {str(item["purpose"]) for item in (model.schema.released or {}).get("mechanisms", ())}
    )
    made = model.schema.generated
    names = {c.name for c in made}
    unread = [name for name in model.schema.names if name not in names]
    return {
        "settings": stated_settings(model),
        "public": {
            "schema_sha256": model.schema.fingerprint(),
            "declared": [c.name for c in made if c.provenance == "declared"],
            "drafted": list(drafted),
            **({"released": released} if released else {}),
            **({"schema_mechanisms": of_schema} if of_schema else {}),
            **unchanged_facts(model.schema.unchanged_facts),
            "left_out": [*model.schema.names_left_out, *unread],
            "sources": {c.name: c.source for c in made if c.provenance == "declared"},
            "accepted_drafted_domain": bool(drafted) and model.accept_drafted_domain,
            "rows": None if model.rows is None else int(model.rows),
            **({"design": model.schema.design.stated()} if model.schema.design else {}),
            "public_table": model._public_facts(),
        },
        "versions": versions(),
        "code": code(),
        "noise": noise_facts(model),
        "training": {"stopped": monitor.stopped, "curves": trained.curves},
    }


def stated_settings(model: Any) -> dict[str, Any]:
    """The settings of the method, all of them fixed before the fit.

    ``own_configuration`` names the configurations that were given in place of the preset's or the default.
    """
    given = model.get_params(deep=False)
    return {
        **{name: given[name] for name in STATED if name in given},
        **model._stated(),
        "own_configuration": sorted(
            name for name, value in given.items() if name.endswith("config") and value is not None
        ),
    }


def noise_facts(model: Any) -> dict[str, Any] | None:
    """How noise was made in this fit, and in the one that it started from; None if that one does not say."""
    on_gpu = model._device().type != "cpu" and any(
        isinstance(mechanism, SubsampledGaussian) for mechanism, _ in model.ledger_.spends()
    )
    start = getattr(model, "warm_start", None)
    before = EXACT if start is None else getattr(start, "facts_", {}).get("noise")
    return dict(ON_GPU) if on_gpu else before and dict(before)
