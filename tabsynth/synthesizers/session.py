"""The session of one fit: ledger, project, checkpoint, schema, randomness, time and progress."""

import json
import logging
import math
import time
import warnings
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import asdict, is_dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Protocol, Self

import numpy as np
import pandas as pd
from rich.console import Console

from tabsynth._files import sha256
from tabsynth._progress import progress_bar
from tabsynth._random import Randomness
from tabsynth._threads import limit_threads
from tabsynth._typing import JsonObject
from tabsynth._validate import in_range, integer, name_of, native, one_of, positive, quote
from tabsynth.design import MOST_WEIGHTED, NO_DESIGN, Design, neighbour_of
from tabsynth.drafting.budget import RELATIONS_SHARE, draft_share, mu_of_share
from tabsynth.drafting.private_schema import (
    OPTIONS,
    RELATIONS,
    check_design,
    draft_on_ledger,
    release_name,
)
from tabsynth.drafting.relation_search import find_relations
from tabsynth.encoding.rows import key_of
from tabsynth.errors import BudgetError, FileFormatError, InputError, PlanWarning
from tabsynth.methods import CRITIC, count_uses
from tabsynth.privacy.accounting.accountants import RENYI, Spend, epsilon_of
from tabsynth.privacy.accounting.mechanisms import SubsampledGaussian, mechanism_from
from tabsynth.privacy.certificate.certificate import (
    EXACT,
    ON_GPU,
    code,
    epsilon_to_json,
    interrupted_claim,
    rounded_up,
    versions,
)
from tabsynth.privacy.certificate.completeness import LISTED
from tabsynth.privacy.ledger.journal import MOST_USES
from tabsynth.privacy.ledger.ledger import EARLIER, Ledger, as_earlier, recorder
from tabsynth.privacy.ledger.project import ProjectLedger, check_same_ledger
from tabsynth.schema.column import Column
from tabsynth.schema.linked import AnySchemaLike, LinkedSchema, read_schema
from tabsynth.schema.schema import Schema
from tabsynth.synthesizers.method import (
    MAX_ROWS,
    FittedModel,
    Method,
    PlannedSpend,
    Trained,
    device_of,
    json_default,
    read_model,
)
from tabsynth.synthesizers.plan import Plan, complete_plan, steps_in_time
from tabsynth.tables.counter import RowCounter
from tabsynth.tables.frames import TableKind, to_pandas
from tabsynth.training.checkpoint import INDEX, Checkpoint, LostRelease, check_same, read_index
from tabsynth.training.loop import INTERRUPTED, Progress, TrainingMonitor

MAX_EPSILON = 10_000.0  # past it "private" is an empty word
LEAST_LIMIT = 1e-3  # seconds: of a fit for which the reading of its table has left no time
DRAFTED = "drafted by the fit"  # in place of a schema's hash
# Parameters that may change when an interrupted fit is resumed.
NOT_BOUND = ("schema", "random_state", "time_limit", "device", "verbose")
# Parameters that a certificate states, where a method has them.
STATED = ("preset", "variant", "class_column")
# Parameters with values of a schema, which a fit that drafts one cannot take.
SPEAKS_OF_SCHEMA = ("public", "class_shares", "tables")
logger = logging.getLogger(__name__)


class Estimator(Protocol):
    """The parameters of a fit, and what earlier fits left: see :class:`Synthesizer`."""

    method: ClassVar[str]
    ledger_: Ledger
    seeded_: bool
    model_: FittedModel[Any]
    schema: AnySchemaLike | None
    epsilon: float
    delta: float
    rows: int | None
    time_limit: float | None
    planned_steps: tuple[str, int]
    accept_drafted_domain: bool
    draft_options: Mapping[str, Any] | None
    random_state: int | None
    device: str
    verbose: bool

    def get_params(self, deep: bool = ...) -> dict[str, Any]:
        """Return the parameters by name."""

    def make_method(self, schema: Schema | LinkedSchema) -> Method:
        """Make the method for a schema."""


class FitSession:
    """The session of one fit. It alone opens accounts of the ledger, and it holds the files of the fit while it is open.

    Parameters
    ----------
    estimator : Synthesizer
        Its parameters are read; it receives ``ledger_`` and ``seeded_`` when the session ends, whatever came of the fit.
    checkpoint : path, optional
        The checkpoint: opened where it exists, else made when the table is about to be read.
    ledger : path, optional
        The project's ledger: locked while the session is open, and the only file with the fit's accounts.

    Attributes
    ----------
    schema : Schema or LinkedSchema or None
        Given, read from a file or a dict, or drafted on the ledger.
    method : Method or None
        The method for that schema.
    declared : Method or None
        The same before the steps of a time budget are known.
    spends : list of PlannedSpend
        The plan.
    steps : int or None
        The number of private steps that follows from a time budget, once it is known.
    interrupted : bool
        Whether a person ended the training.
    """

    def __init__(
        self,
        estimator: Estimator,
        *,
        checkpoint: str | Path | None = None,
        ledger: str | Path | None = None,
    ) -> None:
        self.started = time.monotonic()
        self.estimator = estimator
        self.path = None if checkpoint is None else Path(checkpoint)
        self.project_path = ledger
        self.earlier: Ledger | None = getattr(estimator, "ledger_", None)
        self.schema = None if estimator.schema is None else read_schema(estimator.schema)
        self.release_charged = self._find_release()
        self.declared: Method | None = None
        self.method: Method | None = None
        self.steps: int | None = None
        self.ledger = Ledger(math.inf, 0.5)  # until a budget is checked
        self.charged: Ledger | None = None  # where something was charged, or may have been
        self.spends: list[PlannedSpend] = []
        self.project: ProjectLedger | None = None
        self.checkpoint: Checkpoint | None = None
        self.interrupted = False

    def __enter__(self) -> Self:
        """Open the session."""
        return self

    def __exit__(self, *exception: object) -> None:
        """Close the session, and unlock its files."""
        estimator, charged = self.estimator, self.charged
        try:
            if charged is not None:
                estimator.ledger_, estimator.seeded_ = charged, self.is_seeded
                # The model of an earlier fit, if this one has left none, states what was charged too.
                model: FittedModel[Any] | None = getattr(estimator, "model_", None)
                if model is not None and model.ledger is not charged:
                    estimator.model_ = replace(model, ledger=charged, seeded=self.is_seeded)
        finally:
            for file in (self.checkpoint, self.project):
                if file is not None:
                    file.release()

    @property
    def is_seeded(self) -> bool:
        """True where any part of this fit, or an earlier one, is seeded: a known seed allows the noise to be subtracted."""
        released = getattr(self.schema, "released", None) or {}
        return bool(
            self.estimator.random_state is not None
            or getattr(self.estimator, "seeded_", False)
            or released.get("seeded")
            or (self.checkpoint is not None and self.checkpoint.is_seeded)
        )

    @property
    def design(self) -> Design:
        """The design of the rows: as the schema declares it, or the options of its draft."""
        if self.schema is None:
            return Design.among(dict(self.estimator.draft_options or {}))
        return self.schema.design

    # Before the fit.

    def check(self) -> None:
        """Refuse what a fit refuses before it sees a table, with a project's ledger what passes its limit."""
        check_domain(self._make_method())
        if self.project_path is not None:
            self._open()

    @limit_threads()
    def plan(self, *, estimate_time: bool) -> Plan:
        """Return the privacy cost of a fit, before a private row is read."""
        self._make_method()
        if self.path is not None and (self.path / INDEX).exists():
            index, ours = read_index(self.path / INDEX), self._binding()
            check_same(self.path, {k: v for k, v in index["fit"].items() if k in ours}, ours)
            self.steps = count_uses(index["plan"] or (), CRITIC)
        self._plan(self._ledger_after(self._earlier_spends()))
        return self._complete_plan(estimate_time)

    def _complete_plan(self, estimate_time: bool) -> Plan:
        assert self.method is not None
        times = self.estimator.time_limit, estimate_time
        return complete_plan(self.method, self.spends, self.ledger, *times)

    def _make_method(self) -> Method:
        """Make the method for the schema; refuse parameters that cannot be used."""
        schema = self.schema
        if schema is None:
            raise InputError("Expected schema to be a Schema, got none; only fit drafts one.")
        check_parameters(self.estimator, self.design)
        declared = schema.design.parameters()
        for name, value in dict(self.estimator.draft_options or {}).items():
            if value is not None and declared.get(name, value) != value:
                raise InputError(
                    f"draft_options has {name}={quote(value)}, and the schema {name}={quote(declared[name])}; declare it in"
                    " the schema."
                )
        self.declared = self.method = self.estimator.make_method(schema)
        self.method.check()
        return self.method

    # The fit.

    @limit_threads()
    def fit(self, table: object, *, progress: Progress | None = None) -> FittedModel[Any]:
        """Fit the table by the plan, or restore the model of a complete fit from the checkpoint.

        Parameters
        ----------
        table : DataFrame, RowCounter or dict of DataFrame
        progress : callable, optional
        """
        if self.schema is None:
            table, kind = self._open_and_draft(table)
        else:
            kind = self._check_before().kind_of(table)
            self._open()
        if self.is_finished:
            return self._restore()
        method, verbose = self.method, self.estimator.verbose
        assert method is not None
        if verbose or logger.isEnabledFor(logging.INFO):
            plan = self._complete_plan(verbose)
            logger.info("%s", plan)
            if verbose:
                console = Console(stderr=True)
                console.print(str(plan), markup=False, highlight=False, soft_wrap=True)
        for note in method.notes(self.spends):
            if note.startswith("note: "):  # others state facts
                warnings.warn(note.removeprefix("note: "), PlanWarning, stacklevel=4)
        rows = method.encode_rows(table, key_of(self.estimator.random_state))
        self._open_checkpoint()
        limit = self.estimator.time_limit
        deadline = None if limit is None else self.started + limit
        bar = progress_bar(True, progress) if verbose else nullcontext(progress)
        with bar as shown_progress:
            monitor = TrainingMonitor(progress=shown_progress, deadline=deadline)
            trained = self.train(method, rows, monitor)
        fitted: FittedModel[Any] = method.model_class(
            **vars(trained),
            method=method.name,
            encoder=method.encoder,
            config=method.configuration(),
            table_kind=kind,
            ledger=self.ledger,
            facts=self._facts(method, trained, monitor),
            seeded=self.is_seeded,
        )
        if monitor.stopped is None and self.checkpoint is not None:
            self.checkpoint.finish(partial(fitted.save, overwrite=True))
        self.interrupted = monitor.stopped == INTERRUPTED
        return fitted

    def _check_before(self) -> Method:
        """Check method and domain."""
        method = self._make_method()
        check_domain(method)
        columns = () if isinstance(method.schema, LinkedSchema) else method.schema.columns
        names = [column.name for column in columns if column.kind == "identifier"]
        if names and method.schema.unit is None:
            logger.warning(
                "the schema declares identifier %s and no unit, so the fit protects single rows; if somebody may have several,"
                " declare the unit (this follows from the schema alone)",
                ", ".join(map(quote, names)),
            )
        return method

    def train(self, method: Method, rows: object, monitor: TrainingMonitor) -> Trained:
        """Train by the plan; after a crash that lost a charged release, by a new plan for the remaining budget."""
        while True:
            if self.project is not None:
                self.project.begin(self.ledger.run, method.name)
            self.ledger.unit = method.schema.unit
            self.ledger.contributions = method.schema.contributions
            self.charged = self.ledger
            monitor.checkpoint = self.checkpoint
            try:
                return method.train(rows, self.spends, self.ledger, self._randomness(), monitor)
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
        """Make a new plan for the remaining budget."""
        assert self.checkpoint is not None
        logger.warning(
            "%s: charged, but lost in a crash; the rest of the budget is planned again", lost
        )
        self.checkpoint.start_over()
        try:
            self._adopt()
        except BudgetError as error:
            raise BudgetError(
                f"A crash lost the {lost} that were charged, and the rest of the budget does not suffice to repeat them:"
                f" {error}"
            ) from None

    def _randomness(self) -> Randomness:
        """Return streams of this part of the fit: never those of an earlier part, whose noise is drawn."""
        seed = self.estimator.random_state
        resumes = 0 if self.checkpoint is None else self.checkpoint.resumes
        return Randomness(None if seed is None else int(seed) + (resumes << 128))

    def _restore(self) -> FittedModel[Any]:
        """Return the model that the finished checkpoint holds."""
        assert self.checkpoint is not None
        path = self.checkpoint.model()
        facts, tensors = read_model(path)
        method = self.method
        if method is None:  # the fit has drafted the schema
            method = self.estimator.make_method(Schema.from_dict(facts.get("schema"), str(path)))
        fitted = replace(method.restore(facts, tensors, path), ledger=self.ledger)
        self.charged = self.ledger
        logger.info("%s: the fit was complete; its model is restored", self.path)
        return fitted

    # A draft of the schema.

    def _open_and_draft(self, table: object) -> tuple[pd.DataFrame, TableKind]:
        """Draft a schema privately, for a part of the budget, and plan the fit for the remaining budget."""
        estimator = self.estimator
        if isinstance(table, RowCounter):
            raise InputError("A draft of a schema needs rows; declare a schema to fit counts.")
        for name in SPEAKS_OF_SCHEMA:
            if getattr(estimator, name, None) is not None:
                raise InputError(f"{name} needs a schema; a fit that drafts one does not take it.")
        options = dict(estimator.draft_options or {})
        names = (*OPTIONS, *NO_DESIGN.parameters())
        for name in options.keys() - set(names):
            raise InputError(
                f"draft_options has {quote(name)}; its options are {', '.join(names)}."
            )
        one_of(f"draft_options[{RELATIONS!r}]", options.get(RELATIONS, True), (True, False))
        # Types of a DataFrame of any library may have been inferred: as in its draft, they are not public.
        kind, frame = TableKind(TableKind.of(table).library), to_pandas(table)
        check_design(frame, self.design, options.get("decimal"))
        check_parameters(estimator, self.design)
        nominal = estimator.make_method(nominal_schema(frame, self.design))
        nominal.check()
        self._open()
        if not self.is_finished:
            self.schema = self.draft(frame, nominal)
            self.release_charged = self.earlier is not None
            self._make_method()
            if self.checkpoint is not None:
                self._adopt()
            else:  # adaptively, so that filters compose
                self._plan(self._ledger_after(as_earlier(self.ledger.to_list())))
        return frame, kind

    def draft(self, table: pd.DataFrame, nominal: Method) -> Schema:
        """Return the schema that this fit releases first, charged as all else is; from the checkpoint if that has it.

        A draft of which a crash lost the result is made again, for a part of what is left. ``nominal`` is a method for
        the columns' names, by whose plan a project's ledger admits both draft and fit.
        """
        estimator, design = self.estimator, self.design
        self._open_checkpoint()
        if self.checkpoint is not None:
            drafted = self.checkpoint.schema()
            if drafted is not None:
                return Schema.from_dict(drafted, str(self.path))
            if self.checkpoint.has_charges:
                logger.warning(
                    "the draft of the schema: charged, but lost in a crash; it is made again"
                )
                self.checkpoint.start_over()
                self.ledger = self.checkpoint.ledger()
            self.checkpoint.begin(None, seeded=self.is_seeded)
        self._check_unspent(self.ledger)
        mu = draft_share(estimator.epsilon, estimator.delta, table.shape[1] - len(design.names))
        options = {n: v for n, v in dict(estimator.draft_options or {}).items() if n in OPTIONS}
        search = options.pop(RELATIONS, True)
        of_relations = mu_of_share(estimator.epsilon, estimator.delta, RELATIONS_SHARE * search)
        composition = nominal.composition
        if self.project is not None:
            if self.project.filter.composition == RENYI:
                composition = RENYI  # what the project does not admit is not planned

            def spends_after(ledger: Ledger) -> list[Spend]:
                return [(spend.mechanism, spend.count) for spend in nominal.plan(ledger)]

            total = math.hypot(mu, of_relations)
            self.project.admit_draft(self.ledger, total, composition, spends_after)
        self.ledger.unit = design.unit
        self.charged = self.ledger  # what a draft spends is spent, whatever comes of the fit
        seed = estimator.random_state
        if seed is not None:  # neither the noise of the fit, nor that of a draft that was lost
            resumes = 0 if self.checkpoint is None else self.checkpoint.resumes
            seed = int(seed) + (1 << 127) + (resumes << 128)
        schema = draft_on_ledger(
            table,
            mu,
            self.ledger,
            random_state=seed,
            composition=composition,
            design=design,
            saves=True,
            rows=estimator.rows,
            **options,
        )
        if search:
            seed = None if seed is None else seed + (1 << 126)
            related = find_relations(table, schema, of_relations, self.ledger, seed)
            try:
                estimator.make_method(related).check()
                schema = related
            except InputError:  # the method needs a column that follows from others
                schema = related.replace(constraints=(), violations=schema.violations)
        if self.checkpoint is not None:
            self.checkpoint.keep_schema(schema.to_dict())
        return schema

    # Ledger, project and checkpoint.

    @property
    def is_finished(self) -> bool:
        """True where the checkpoint holds the model of a fit that has ended as planned."""
        return self.checkpoint is not None and self.checkpoint.is_finished

    def _open(self) -> None:
        """Open the files of the fit, and plan it; without a schema there is no plan yet."""
        self.project = None if self.project_path is None else ProjectLedger(self.project_path)
        self._check_sources()
        if self.path is not None and (self.path / INDEX).exists():
            self._open_checkpoint()
            return
        self.ledger = self._ledger_after(self._earlier_spends())
        if self.method is not None:
            self._plan(self.ledger)

    def _check_sources(self) -> None:
        """Refuse what a project's ledger cannot count, and what would be counted nowhere."""
        project, unit = self.project, self.design.unit
        # A recorded run is seeded so that it can be replayed, on a ledger that is thrown away.
        if project is not None and self.is_seeded and recorder() is None:
            project.refuse_seed("A seeded fit")
        if project is not None:
            project.check_unit(unit)
        before, what = self.earlier, "What this synthesizer was fitted to"
        if before is not None and before.spends():
            if before.unit != unit:
                raise InputError(
                    f"{what} protects {neighbour_of(before.unit)}, and this fit {neighbour_of(unit)}; their"
                    " privacy costs do not add up. Give both the same unit, or fit a new synthesizer."
                )
            # A draft has no schema yet, but the options that the design is of.
            used = self.design if self.schema is None else self.schema.contributions
            if before.contributions not in (None, used):
                raise InputError(
                    f"{what} has other bounds of a unit, or another cap of weights, and a certificate states one for all"
                    " charges. Give both fits the same, or fit a new synthesizer."
                )
            check_same_ledger(what, before.project, before.run, project)
        released = getattr(self.schema, "released", None)
        if released is not None:
            run = released.get("run")
            check_same_ledger(release_name(released), released.get("project"), run, project)

    def _earlier_spends(self) -> list[JsonObject]:
        """Return what counts as spent before this fit begins, as a ledger lists it."""
        released = getattr(self.schema, "released", None)
        spends = [] if self.earlier is None else as_earlier(self.earlier.to_list())
        if released is not None and not self.release_charged:
            spends += as_earlier(released["mechanisms"])
        return spends

    def _find_release(self) -> bool:
        """Return whether earlier fits of the estimator have charged the release of the schema: this very one."""
        schema: Any = self.schema
        released = getattr(schema, "released", None)
        if self.earlier is None or not released:
            return False
        listed = as_earlier(self.earlier.to_list())
        for item in as_earlier(released["mechanisms"]):
            if item not in listed:
                return False
            listed.remove(item)
        # Two drafts of one table may be charged alike: their names tell them apart, or in a schema of version 0.2 their facts.
        model = getattr(self.estimator, "model_", None)
        if model is None:
            return True
        name, fitted = released.get("release"), model.encoder.whole
        if name is not None:
            return bool((fitted.released or {}).get("release") == name)
        return all(c in fitted.columns for c in schema.columns if c.provenance == "released")

    def _ledger_after(self, spends: list[JsonObject]) -> Ledger:
        """Return a ledger on which these spends are charged: the project's, where there is one."""
        epsilon, delta = self.estimator.epsilon, self.estimator.delta
        if self.project is None:
            ledger = Ledger.from_list(epsilon, delta, spends)
        else:
            ledger = self.project.ledger(epsilon, delta, earlier=spends)
        self._check_unspent(ledger)
        return ledger

    def _check_unspent(self, ledger: Ledger) -> None:
        """Refuse a ledger that leaves nothing for another fit.

        The ε that the message names is that of the model's certificate. The filter that composes it with another fit needs
        more noise for the same ε than an accountant of a fixed list.
        """
        if ledger.used_up:
            before = self.earlier
            spent = epsilon_of(ledger.spends(), ledger.delta) if before is None else before.spent
            raise BudgetError(
                f"This synthesizer has already spent epsilon={rounded_up(spent)} of {ledger.epsilon:g};"
                " another fit of the same rows adds to it: raise epsilon= to pay for both, or fit a"
                " sklearn.base.clone of it and count both budgets."
            )

    def _open_checkpoint(self) -> None:
        """Open the checkpoint, or make it where the table is sound and about to be read; if there is to be one."""
        path, project = self.path, self.project
        if path is None or self.checkpoint is not None:
            return
        bound = self._binding()
        if project is not None:
            bound["ledger"] = project.project
        self.checkpoint = Checkpoint(
            path,
            epsilon=self.estimator.epsilon,
            delta=self.estimator.delta,
            fit=bound,
            earlier=self._before(path),
            journal=project,
        )
        self._adopt()

    def _adopt(self) -> None:
        """Take ledger and plan from the checkpoint; make the plan where it has none."""
        checkpoint = self.checkpoint
        assert checkpoint is not None
        self.ledger = checkpoint.ledger()
        if checkpoint.is_finished or self.method is None:
            return
        if checkpoint.plan is None:
            self._check_unspent(self.ledger)
            self._plan(self.ledger)
        else:
            self.spends = [_spend_from(item) for item in checkpoint.plan]
            self._plan_steps(count_uses(checkpoint.plan, CRITIC))
            self._check_project()
        checkpoint.begin([_spend_item(s) for s in self.spends], seeded=self.is_seeded)

    def _plan(self, ledger: Ledger) -> None:
        assert self.method is not None
        self.ledger = ledger
        self._plan_steps(self.steps)
        self.spends = self.method.plan(ledger)
        self._check_project()

    def _plan_steps(self, steps: int | None) -> None:
        """Give the method the private steps of its time budget, if it has one: as planned before, or as measured.

        They are measured once for an estimator, so that its plan is that of its fit.
        """
        declared, estimator = self.declared, self.estimator
        if declared is None or declared.time_budget is None:
            return
        if not steps:
            fit = json.dumps([self._binding(), str(declared.device)])
            if getattr(estimator, "planned_steps", ("", 0))[0] != fit:
                plan = declared.plan(self.ledger)
                estimator.planned_steps = fit, steps_in_time(declared, plan)
            steps = estimator.planned_steps[1]
        self.steps, self.method = steps, declared.with_steps(steps)

    def _check_project(self) -> None:
        """Refuse a plan that would pass the project's limit, before anything of it is read."""
        if self.project is not None:
            plan = [(spend.mechanism, spend.count) for spend in self.spends]
            self.project.check(self.ledger.run, plan)

    def _before(self, path: Path) -> list[JsonObject]:
        """Return what was spent before the fit that the checkpoint is of."""
        ledger = self.ledger if self.earlier is None else self.earlier
        index = path / INDEX
        if ledger.journal is not None and index.exists():
            facts = read_index(index)
            # This object began, or continued, the very same fit: that is not spent twice.
            if ledger.run in (facts["run"], *facts.get("given_up", [])):
                return ledger.of_run(EARLIER)
        return self._earlier_spends()

    def _binding(self) -> JsonObject:
        """Return which fit this is, JSON-ready: a checkpoint of another one is refused. Of public facts only."""
        estimator = self.estimator
        parameters = estimator.get_params(deep=False)
        options = {
            name: value
            for name, value in parameters.items()
            if name not in NOT_BOUND
            and (value is None or isinstance(value, bool | int | float | str | np.generic))
        }
        facts: JsonObject = {"method": estimator.method, **options}
        facts["epsilon"] = epsilon_to_json(estimator.epsilon)
        if self.method is None:
            # It is drafted: all follows from the parameters, and from what is released.
            unnamed = parameters.keys() - {*NOT_BOUND, *options}
            other_values = {name: value for name, value in parameters.items() if name in unnamed}
            facts |= {"schema": DRAFTED, "parameters": other_values}
        else:
            facts |= (self.declared or self.method).binding()
        return dict(json.loads(json.dumps(facts, default=_bound_value)))

    # The certificate.

    def _facts(self, method: Method, trained: Trained, monitor: TrainingMonitor) -> JsonObject:
        """Return what a certificate says besides the ledger: of the fit, of the plan, and of the project's ledger."""
        parameters = self.estimator.get_params(deep=False)
        configs = sorted(
            name
            for name, value in parameters.items()
            if name.endswith("config") and value is not None
        )
        before = [
            {n: v for n, v in item.items() if n in (*LISTED, "count")}
            for item in self.ledger.before()
        ]
        facts = {
            "settings": {
                **{name: parameters[name] for name in STATED if name in parameters},
                **method.settings(),
                "own_configuration": configs,
            },
            "public": method.public_facts(trained),
            "versions": versions(),
            "code": code(),
            "noise": noise_facts(method, self.ledger),
            "training": {"stopped": monitor.stopped, **method.training_facts(trained)},
            "plan": {"before": before, "fit": [_spend_item(spend) for spend in self.spends]},
        }
        if self.project is not None:
            facts["project"] = self.project.statement(self.ledger.run)
        return facts


def is_model_of(checkpoint: Path, model: Path) -> bool:
    """Return whether a file is a model of the fit that a checkpoint resumes: what it ended with, or one that stopped early."""
    if not (checkpoint / INDEX).is_file() or not model.is_file():
        return False
    if sha256(model) == read_index(checkpoint / INDEX)["model"]:
        return True
    try:
        facts, _ = read_model(model)
    except FileFormatError:
        return False
    of_fit = facts.get("facts")
    training = of_fit.get("training") if isinstance(of_fit, dict) else None
    return isinstance(training, dict) and bool(training.get("stopped"))


def check_parameters(estimator: Estimator, design: Design) -> None:
    """Refuse wrong values of the parameters that all methods have, but the schema."""
    positive("epsilon", estimator.epsilon, finite=False)
    if MAX_EPSILON < estimator.epsilon < math.inf:
        raise InputError(
            f"Expected epsilon of at most {MAX_EPSILON:g}, got epsilon={estimator.epsilon:g}; for a run"
            " without privacy say so: epsilon=inf."
        )
    in_range("delta", estimator.delta, 0, 1, low_open=True, high_open=True)
    if estimator.rows is not None:
        integer("rows", estimator.rows)
        in_range("rows", estimator.rows, 1, MAX_ROWS)
        if design.weight is not None and estimator.rows > MOST_WEIGHTED:
            raise InputError(
                f"Expected rows of at most {MOST_WEIGHTED:,} with survey weights, whose sums are exact up to there;"
                f" got {estimator.rows:,}."
            )
    if estimator.time_limit is not None:
        positive("time_limit", estimator.time_limit)
    if estimator.random_state is not None:
        integer("random_state", estimator.random_state, least=0)
    device_of(estimator.device)


def check_domain(method: Method) -> None:
    """Refuse a fit on drafted columns that identify people, and a private fit on others unless confirmed.

    Only the schema is read, whoever drafted or edited it.
    """
    method.check_identifiers()
    drafted = method.schema.drafted
    if math.isfinite(method.epsilon) and drafted and not method.accept_drafted_domain:
        raise InputError(
            f"The schema's column {quote(drafted[0])} was drafted from a table, so it"
            " may hold private facts; declare it from a public source, or confirm with"
            " accept_drafted_domain=True."
        )


def nominal_schema(table: pd.DataFrame, design: Design) -> Schema:
    """Return a schema with the names of a table's columns, which are public, and no fact of its rows.

    It serves for what must be refused before a draft is charged.
    """
    columns = [
        Column(name=str(name), kind="categorical", dtype="str", categories=("a", "b"))
        for name in table.columns
        if str(name) not in design.names
    ]
    return Schema(columns, **design.parameters())


def noise_facts(method: Method, ledger: Ledger) -> JsonObject:
    """Return how noise was made in a fit."""
    on_gpu = method.device.type != "cpu" and any(
        isinstance(mechanism, SubsampledGaussian) for mechanism, _ in ledger.spends()
    )
    return dict(ON_GPU if on_gpu else EXACT)


def interrupted_cost(estimator: Estimator) -> str:
    """Return a sentence on the cost of an interrupted fit: of the model that it left, or without one of its budget."""
    ledger: Ledger | None = getattr(estimator, "ledger_", None)
    model: FittedModel[Any] | None = getattr(estimator, "model_", None)
    if ledger is None or not ledger.spends():
        return "Nothing was charged."
    if model is None:
        # What a person saw may have decided how much was charged, which only a filter covers.
        charged = "What was charged stays charged"
        if ledger.project is not None:
            return f"{charged}, and the project ledger counts it."
        return f"{charged}: count epsilon={rounded_up(ledger.epsilon)}, its budget."
    claim = interrupted_claim(ledger.spent, model.facts.get("project"))
    return f"{claim[0].upper()}{claim[1:]}."


def _spend_item(spend: PlannedSpend) -> JsonObject:
    item = {"purpose": spend.purpose, **spend.mechanism.to_dict(), "count": spend.count}
    return {name: native(value) for name, value in item.items()}


def _spend_from(item: JsonObject) -> PlannedSpend:
    purpose, count = item.get("purpose"), item.get("count")
    if not isinstance(purpose, str) or type(count) is not int or not 0 <= count <= MOST_USES:
        raise FileFormatError(f"The checkpoint's plan has a part that cannot be: {quote(item)}.")
    return PlannedSpend(purpose=purpose, mechanism=mechanism_from(item), count=count)


def _bound_value(value: object) -> object:
    """Convert a configuration to a dict, a callable to its name, a number of numpy to Python's; see :func:`json_default`."""
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    return name_of(value) if callable(value) else json_default(value)
