"""MargNet: noisy counts of columns, pairs and triples, then a generator that is fitted to them."""

import logging
import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property, partial
from typing import Any, ClassVar, Self

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from tabsynth._random import Randomness
from tabsynth._typing import JsonObject
from tabsynth._validate import quote
from tabsynth.encoding.table import Layout, TableEncoder
from tabsynth.errors import BudgetError, FileFormatError, InputError
from tabsynth.privacy.accounting.accountants import GAUSSIAN_FILTER, gaussian_mu
from tabsynth.privacy.accounting.mechanisms import Gaussian, NoPrivacy
from tabsynth.privacy.ledger.ledger import Ledger, PrivateTable
from tabsynth.schema.constraints import Derived
from tabsynth.schema.linked import LinkedSchema, read_table_schema
from tabsynth.schema.schema import Schema, Zero
from tabsynth.synthesizers.conditions import Condition
from tabsynth.synthesizers.estimator import Synthesizer
from tabsynth.synthesizers.margnet.config import MargNetConfig
from tabsynth.synthesizers.margnet.declared import (
    KEPT_TABLES,
    DeclaredTable,
    declared_tables,
    file_of_tables,
    tables_of_file,
)
from tabsynth.synthesizers.margnet.estimation import STAGE, ZERO_STEPS, ZEROS, MargNetFit
from tabsynth.synthesizers.margnet.measurement import PrivateMarginals, Task
from tabsynth.synthesizers.margnet.prior import Posterior, stated_use, with_public
from tabsynth.synthesizers.margnet.selection import KEPT, Measurements, parsed_workload
from tabsynth.synthesizers.margnet.weighting import WeightedColumns
from tabsynth.synthesizers.method import (
    FittedModel,
    PlannedSpend,
    Sampler,
    TableMethod,
    Trained,
    read_settings,
)
from tabsynth.synthesizers.mixture import Box, Mixture, disjoint_boxes
from tabsynth.tables.counter import RowCounter, check_values
from tabsynth.training.loop import INTERRUPTED, TIME_LIMIT, TrainingMonitor

logger = logging.getLogger(__name__)

HINTS = ("workload", "target", "tables")  # public, in the configuration of a model
# Settings in model files of version 0.2.0, which are constants now. None of them changes what a fitted model gives.
FORMER_SETTINGS = {
    "clear_components", "clear_dependence", "continuation", "counts_time", "entropy", "interaction_groups",
    "least_interaction", "max_group", "max_group_in_triples", "max_interactions", "max_merged_in_triples", "max_public",
    "max_smoothing_noise", "max_triples", "min_entropy", "mixture_drift", "noisy_dependence", "one_way_noise",
    "pairs_per_column", "prior_classes", "prior_group", "prior_group_noise", "prior_least_share", "prior_steps", "prior_unexplained",
    "rows_tolerance", "tree_noise", "tree_weight", "triples_noise", "weight_groups", "weighted_one_way_share",
    "weights_importance", "workload_weight", "zero_rate", "zero_steps",
}  # fmt: skip
POSSIBLE = 0.9  # share of possible rows below which leaving out the others is worth a warning
# Of a fit with a target: what the names of its first stages begin with, and their share of a time limit.
FIRST, FIRST_TIME = "first ", 0.4
MOVED = 0.005  # of the distribution that impossible rows may have, to be left out in place of being exchanged
RARE_CONDITION = 0.01  # the probability below which rows are drawn given a condition on nodes
ROUNDING = 1e-9  # relative: the cost, computed by bisection, does not exceed the budget


def margnet(
    marginals: PrivateMarginals,
    layout: Layout,
    zeros: Sequence[Zero],
    rng: torch.Generator,
    device: torch.device | str,
    monitor: TrainingMonitor,
) -> tuple[MargNetFit, Measurements, Posterior | None]:
    """Run the method in six steps: declared tables, one-way counts, selection, joint counts, estimation, mixture.

    The first four read private rows, each through Gaussian mechanisms; the others process the releases, and the codes of
    a public table. Where there is a target, a first estimation shows how much of it pairs leave, and what is counted last.
    """
    config, public = marginals.config, marginals.task.public
    tables = marginals.declared_counts()
    one_way = marginals.one_way(tables)
    selection = marginals.select(one_way)
    measured = marginals.joint(one_way, selection, tables)
    if marginals.task.targeted:
        pairs_alone = MargNetFit(layout, config, measured, rng, device, zeros)
        pairs_alone.fit(monitor, FIRST, FIRST_TIME)
        # This fit decides what is counted; the model is that of the other one.
        if monitor.stopped == TIME_LIMIT:
            monitor.stopped = None
        learned, taken = pairs_alone.mixture(), len(pairs_alone.errors)
        measured = marginals.joint_again(one_way, selection, tables, learned)
        if monitor.stopped == INTERRUPTED:  # another fit would take no step
            start = learned.matrix()
            estimate = MargNetFit(layout, config, measured, rng, device, zeros, start, taken)
            estimate.errors = pairs_alone.errors
            return estimate, measured, None
    domain = marginals.task.domain
    prior = None if public is None else with_public(public, domain, measured, config)
    target = measured
    if prior is not None:
        target = replace(measured, counts=prior.counts, resolution=prior.resolution)
    estimate = MargNetFit(layout, config, target, rng, device, zeros)
    if prior is None or prior.clarity:
        estimate.fit(monitor)
    return estimate, measured, prior  # estimate.mixture() is the generator, or a part of it


def boxes_of(
    generator: Mixture, encoder: TableEncoder, condition: Condition | None = None
) -> list[Box]:
    """Return the disjoint boxes that a condition and the schema's structural zeros leave.

    The condition's alone, where the zeros cut it into too many: impossible rows are then to be mended.

    Raises
    ------
    InputError
        For a condition that the schema declares impossible or that has probability 0 in the fitted
        mixture.
    """
    boxes = disjoint_boxes(encoder.zeros, None if condition is None else condition.box)
    if boxes is None:
        boxes = [{} if condition is None else condition.box]
    subject = "Every row" if condition is None else str(condition)
    if not boxes:
        raise InputError(f"{subject} is impossible by the schema; change one of its values.")
    if generator.log_probability(boxes) == -np.inf:
        raise InputError(
            f"{subject} is of probability 0 in the fitted model; give it fewer columns or more values."
        )
    return boxes


def boxes_to_sample(
    generator: Mixture, encoder: TableEncoder, condition: Condition | None
) -> list[Box]:
    """Return :func:`boxes_of`, or everything where there is no condition and leaving out zeros would move single columns.

    Of zeros with more than ``MOVED`` of the distribution, rows are drawn as well, and mended by exchanges of entries,
    which leave the distribution of each column as it is.
    """
    boxes = boxes_of(generator, encoder, condition)
    moved = 1 - math.exp(generator.log_probability(boxes))
    everything = condition is None or not condition.box
    return [{}] if everything and moved > MOVED else boxes


def warn_of_impossible(generator: Mixture, encoder: TableEncoder) -> None:
    """Say so where a mixture, as of a fit that was stopped early, holds many impossible rows."""
    boxes = disjoint_boxes(encoder.zeros)
    possible = 1.0 if boxes is None else math.exp(generator.log_probability(boxes))
    if possible < POSSIBLE:
        logger.warning(
            "%.0f%% of the fitted distribution is rows that the schema declares impossible. Entries of such rows are"
            " exchanged with others, so that relations of columns are off: give the fit more time.",
            100 * (1 - possible),
        )


def least_noise(earlier: Ledger) -> float:
    """Return the noise multiplier of one Gaussian mechanism that uses up what a ledger has left.

    Raises
    ------
    BudgetError
        If that is nothing.
    """
    if not earlier.adaptive:  # one Gaussian alone has its exact noise
        return (1 + ROUNDING) / gaussian_mu(earlier.epsilon, earlier.delta)
    mu_left = earlier.filter.mu_left(earlier.spends())
    if mu_left == 0:
        raise BudgetError(
            f"What was spent before leaves nothing of epsilon={earlier.epsilon:g}; raise epsilon=."
        )
    return (1 + ROUNDING) / mu_left


def settings_from(config: JsonObject) -> MargNetConfig:
    """Return the settings that the configuration of a model states."""
    settings = {name: value for name, value in config.items() if name not in HINTS}
    return read_settings(MargNetConfig(), settings, FORMER_SETTINGS)


@dataclass(frozen=True, kw_only=True)
class MargNetModel(FittedModel[TableEncoder]):
    """A fitted mixture, which is sampled given conditions, and the noisy counts that it was fitted to."""

    def sampler(self, condition: Condition | None) -> tuple[Sampler, bool]:
        """Return a sampler of codes by Bayes' rule, given a condition, and whether its rows satisfy that."""
        generator: Mixture = self.generator
        if self.tables:
            return self._sampler_of_tables(condition)
        boxes = boxes_to_sample(generator, self.encoder, condition)
        draw = partial(generator.sample, boxes=boxes)
        if condition is None or not condition.box:
            return draw, True
        # Which codes of a node rows have is held by exchanges among rows of all nodes.
        detailed = condition.leaves_details(self.encoder.whole)
        if detailed and generator.log_probability(boxes) > math.log(RARE_CONDITION):
            everything = boxes_of(generator, self.encoder)
            return partial(generator.sample, boxes=everything), False
        return draw, True

    def _sampler_of_tables(
        self, condition: Condition | None, *, rounded: bool = True
    ) -> tuple[Sampler, bool]:
        """Return a sampler that draws the cells of the declared tables first, then the other columns of each row."""
        from tabsynth.synthesizers.margnet.tabulated import TabulatedRows

        detailed = condition is not None and condition.leaves_details(self.encoder.whole)
        within = {} if condition is None or detailed else condition.box
        rows = float(self.row_count or 1)
        draw = TabulatedRows(
            self.generator, self.encoder, self.tables, rows, within, rounded=rounded
        )
        return draw, not detailed

    def stream_sampler(self) -> Sampler:
        """Return a sampler whose rows are independent given the component, without rounding.

        Of declared tables each part agrees with them.
        """
        if self.tables:
            return self._sampler_of_tables(None, rounded=False)[0]
        generator: Mixture = self.generator
        boxes = boxes_to_sample(generator, self.encoder, None)
        return partial(generator.sample, boxes=boxes, rounded=False)

    def lacks(self) -> str:
        """Return what the model does not hold of that from which implicates follow, in a clause; empty if nothing."""
        if self.encoder.whole.design:
            return "this model has survey weights or a unit"
        if self.measured is None:
            return "this model holds no noisy counts: its file is of an earlier version, or there are too many"
        if self.generator.shares is not None:
            return "this model is of a public table, which its file does not hold"
        return ""

    def counts(self, by: str | Sequence[str] | None) -> pd.DataFrame:
        """Return the measured tables with standard errors."""
        if self.measured is None:
            raise InputError(
                "This model holds no noisy counts: it has survey weights, its file is of an earlier version, or there are more"
                " than 4,000,000; fit it again without weights, or with fewer triples."
            )
        from tabsynth.synthesizers.margnet.consistent import counts_of

        return counts_of(self, by, settings_from(self.config).max_cells)

    def implicates(self, count: int, random_state: int | None) -> Iterator[Self]:
        """Yield models whose mixtures are fitted again to the noisy counts with new noise."""
        if lacking := self.lacks():
            raise InputError(f"There are no implicates, as {lacking}; leave out implicates=.")
        measured = self.measured
        from tabsynth.synthesizers.margnet import implicates

        clear = implicates.associations_shown(measured.counts) >= implicates.LEAST_SHOWN
        if not clear:
            logger.warning(
                "Most pairs of columns have counts that are mostly noise. Implicates vary less than that noise, so that pooled"
                " intervals of more than one column cover too little: prefer the functions of tabsynth.inference."
            )
        weight = implicates.SUMS_WEIGHT if clear else 0.0
        encoder, settings = self.encoder, settings_from(self.config)
        scores = [column.scores() for column in encoder.schema.columns]
        for i in range(count):
            # Streams of their own: the draws must not repeat those of samples.
            seed = None if random_state is None else (random_state + 1) * 2**66 + i
            noise = Randomness(seed).numpy()
            tables = [table.with_noise(noise) for table in self.tables]
            mixture = implicates.implicate(
                self.generator, measured, settings, encoder.zeros, noise, scores, tables, weight
            )
            yield replace(self, generator=mixture, tables=tables)

    def file_facts(self) -> JsonObject:
        """Return what a model file says besides the weights."""
        measured = {} if self.measured is None else {"measured": self.measured.facts()}
        tables = {"tables": file_of_tables(self.tables)[0]} if self.tables else {}
        return super().file_facts() | measured | tables

    def file_tensors(self) -> dict[str, Tensor]:
        """Return the tensors of a model file."""
        measured = {} if self.measured is None else self.measured.tensors()
        tables = {KEPT_TABLES: file_of_tables(self.tables)[1]} if self.tables else {}
        return super().file_tensors() | measured | tables


@dataclass(frozen=True, kw_only=True, eq=False)
class MargNetMethod(TableMethod):
    """The method of :class:`MargNet`.

    Attributes
    ----------
    config : MargNetConfig
    workload, target, tables
        As in :class:`MargNet`.
    """

    stops_early: ClassVar[bool] = True
    composition: ClassVar[str] = GAUSSIAN_FILTER
    no_design: ClassVar[tuple[str, ...]] = ()
    model_class: ClassVar[type[FittedModel[Any]]] = MargNetModel

    config: MargNetConfig
    workload: Sequence[Sequence[str]] | None = None
    target: str | None = None
    tables: Sequence[Sequence[str]] | None = None

    @cached_property
    def declared_tables(self) -> list[DeclaredTable]:
        """The declared tables."""
        if self.tables is None:
            return []
        return declared_tables(self.schema, self.tables, self.config.max_cells)

    @cached_property
    def weighted_columns(self) -> WeightedColumns | None:
        """The columns with the classes of survey weights; None where rows have none."""
        cap = self.schema.design.max_weight
        if cap is None:
            return None
        return WeightedColumns.of(self.schema.learned.columns, cap, self.config)

    def check_settings(self) -> None:
        """Refuse settings that cannot be used."""
        if self.public is not None and self.schema.weight is not None:
            raise InputError(
                "MargNet takes no public table for rows with survey weights; leave out public=, or the weight."
            )
        # A column too large for one-hot codes is refused here.
        if disjoint_boxes(self.encoder.zeros) == []:
            raise InputError("The schema declares all rows impossible; take a combination out.")
        parsed_workload(self.schema, self.workload, self.target, self.config)
        if self.declared_tables:
            self._check_tables()
        _ = self.task.stages  # refused before any spending

    def _check_tables(self) -> None:
        """Refuse declared tables beside what they do not go with."""
        if self.schema.weight is not None:
            raise InputError(
                "Declared tables are of rows that count once; leave out tables=, or take the weight out of the schema."
            )
        if self.public is not None:
            raise InputError(
                "MargNet takes declared tables or a public table, not both; leave out tables= or public=."
            )

    def encode_rows(self, table: object, key: bytes) -> Any:
        """Return category codes, with weights and units where these are declared, or a counter of rows."""
        if self.public is not None and table is self.public:
            raise InputError("public= is the private table itself; give a table that is public.")
        if not isinstance(table, RowCounter):
            return super().encode_rows(table, key)
        if self.schema.design:
            raise InputError(
                "Counts do not show the weight or the unit of rows; fit a DataFrame, or take them out of the schema."
            )
        learned = self.schema.learned
        ordered = not all(isinstance(rule, Derived) for rule in self.schema.rules)
        if ordered or not set(learned.names) <= set(self.schema.names):
            raise InputError(
                "Counts do not show which rows break a rule, nor differences, heaping and codes below the nodes of a long"
                " hierarchy; fit a DataFrame, or take these out of the schema."
            )
        table.check(learned)
        check_values(learned, table)
        return table

    def plan(self, earlier: Ledger) -> list[PlannedSpend]:
        """Return one Gaussian mechanism for each stage, which together use up what a ledger has left."""
        noise = least_noise(earlier) if math.isfinite(self.epsilon) else None
        return [
            PlannedSpend(
                purpose=purpose,
                mechanism=NoPrivacy()
                if noise is None
                else Gaussian(noise_multiplier=noise / math.sqrt(share)),
                count=1,
            )
            for purpose, share in self.task.stages.items()
        ]

    @cached_property
    def task(self) -> Task:
        """The counts of a fit."""
        weighted = self.weighted_columns
        workload = parsed_workload(self.schema, self.workload, self.target, self.config)
        return Task(
            domain=weighted or self.schema.learned,
            config=self.config if weighted is None else weighted.config,
            workload=workload if weighted is None else weighted.workload(workload),
            rows=self.rows,
            design=self.schema.design,
            tables=self.declared_tables,
            public=self.public_index,
        )

    def free_steps(self) -> dict[str, int]:
        """Return the number of steps of each stage of the generator's fit."""
        zeros = {ZEROS: ZERO_STEPS} if self.schema.learned.impossible else {}
        steps = {STAGE: self.config.steps, **zeros}
        first = {FIRST + stage: count for stage, count in steps.items()}
        return (first if self.task.targeted else {}) | steps

    def train(
        self,
        rows: Any,
        spends: Sequence[PlannedSpend],
        ledger: Ledger,
        randomness: Randomness,
        monitor: TrainingMonitor,
    ) -> Trained:
        """Count rows with noise, and fit a mixture to the counts."""
        noise, init_rng = randomness.noise(), randomness.torch()
        encoder, weighted, layout = self.encoder, self.weighted_columns, self.encoder.layout
        if weighted is not None:
            rows, layout = weighted.rows(rows), weighted.layout(layout)
        # A trial is of made-up rows, which no public table is like; their number is another.
        fits = monitor.trial_steps is None
        task = self.task if fits else replace(self.task, rows=None, public=None)
        marginals = PrivateMarginals(task, PrivateTable(rows, ledger), spends, noise, monitor)
        estimate, measured, prior = margnet(
            marginals, layout, encoder.zeros, init_rng, self.device, monitor
        )
        generator, population = estimate.mixture(), None
        if prior is not None:
            generator = prior.with_rows(generator)
        if weighted is not None:
            generator, total = weighted.of_population(generator, encoder.layout, measured.rows)
            population = weighted.within_interval(total, measured.counts)
        if fits and encoder.zeros:
            warn_of_impossible(generator, encoder)
        return Trained(
            generator=generator,
            curves=estimate.curves,
            rows=measured.rows,
            population=population,
            measured=measured if weighted is None and measured.keepable else None,
            tables=measured.tables,
            notes={} if task.public is None else stated_use(prior),
            likely_steps={} if fits else self._likely_steps(estimate),
            reached=(estimate.reached() if fits and prior is None else {})
            | self._counted(measured),
        )

    def _counted(self, measured: Measurements) -> JsonObject:
        """Return the sets of columns that were counted together, by name, without the classes of weights and the cuts of a target."""
        names = self.schema.learned.names
        sets = [m.columns for m in measured.counts if len(m.columns) > 1]
        sets += [grid.columns for grid in measured.grids if grid.related]
        sets += [t.table.columns for t in measured.tables]
        return {"counted": [[names[j] for j in s] for s in sets if max(s) < len(names)]}

    def _likely_steps(self, estimate: MargNetFit) -> dict[str, int]:
        """Return the steps that each stage will likely take: those of a first fit are about those of the other."""
        likely = estimate.likely_steps()
        first = {FIRST + stage: steps for stage, steps in likely.items()}
        return (first if self.task.targeted else {}) | likely

    def public_facts(self, trained: Trained) -> JsonObject:
        """Return the public facts that a certificate states, JSON-ready."""
        facts = super().public_facts(trained) | self._hints()
        if trained.notes:
            facts["public_table"] |= trained.notes
        return facts

    def _hints(self) -> JsonObject:
        """Return workload, target, and declared tables if there are any; JSON-ready."""
        workload = None if self.workload is None else [list(names) for names in self.workload]
        hints: JsonObject = {"workload": workload, "target": self.target}
        return hints | ({"tables": [list(names) for names in self.tables]} if self.tables else {})

    def configuration(self) -> JsonObject:
        """Return what rebuilds an untrained generator, JSON-ready."""
        return {**self._hints(), **asdict(self.config)}

    def size(self) -> int:
        """Return the number of weights of one component, which a generator has at least."""
        return self.encoder.layout.width

    def make_empty(self) -> Mixture:
        """Make an untrained generator, for the weights of a file."""
        return Mixture(self.encoder.layout, shared=self.schema.weight is not None)

    def restore(
        self, facts: JsonObject, tensors: dict[str, Tensor], path: object
    ) -> FittedModel[TableEncoder]:
        """Rebuild the fitted model, with the noisy counts; older files have none."""
        counts = {name: tensors[name] for name in KEPT if name in tensors}
        flat = tensors.get(KEPT_TABLES)
        weights = {n: t for n, t in tensors.items() if n not in {*KEPT, KEPT_TABLES}}
        model = super().restore(facts, weights, path)
        try:
            if self.tables:
                tables = tables_of_file(self.declared_tables, facts["tables"], flat)
                model = replace(model, tables=tables)
            if counts:
                sizes = self.encoder.schema.sizes
                measured = Measurements.of_file(facts["measured"], counts, sizes)
                model = replace(model, measured=measured)
        except (InputError, KeyError, TypeError, ValueError, IndexError, OverflowError):
            raise FileFormatError(f"{path}: the model's noisy counts are damaged.") from None
        return model


@dataclass(kw_only=True, eq=False, repr=False)
class MargNet(Synthesizer):
    """A generator fitted to noisy one-, two- and three-way counts, after MargNet, GEM and PrivSyn.

    Parameters
    ----------
    schema : Schema, dict or path
        The public facts of the table; columns of at most 4,096 values, ``other`` takes the rest.
    epsilon : float
        The budget; ``math.inf`` for a run without privacy.
    delta : float
    rows : int, optional
        The exact number of rows, where it is public. Else, or where the noisy counts refute it, which a
        warning says, it follows from these at no further privacy cost.
    time_limit : float, optional
        Seconds; the generator's fit stops there, with a valid model. It saves no budget: all of it
        is spent on the counts, which come first.
    accept_drafted_domain : bool
        Fit although the schema was drafted from a table; the certificate says so.
    draft_options : dict, optional
        For a fit without a schema: ``null_values``, texts that mean null, and ``decimal``, the decimal mark of texts;
        ``relations``, by default True, whether 3% of the budget (in μ²) is for a search for relations between columns, which
        then hold in all synthetic rows; ``weight``, ``max_weight``, ``unit`` and ``max_rows_per_unit``, which the drafted
        schema declares.
    random_state : int, optional
        Makes the run reproducible; its certificate then says "not private: seeded".
    device : {"auto", "cpu", "cuda"}
    verbose : bool
        A progress bar on stderr, if that is a terminal.
    workload : list of tuples of str, optional
        Pairs and triples of columns that matter most: they are counted in any case, with a larger share of
        the budget. An optional, data-independent hint: do not derive it from the private table.
    target : str, optional
        A column that is to be predicted from the others: its pairs get a larger share. A hint, too.
    tables : list of tuples of str, optional
        Tables that must be accurate, such as ``[("PUMA", "AGE_GROUP", "SEX")]``: they are counted with a share of the budget of their
        own (``config.tables_share``), and synthetic rows agree with the fitted tables up to rounding. Columns are modelled, or
        follow from one modelled column by a table of the schema. The first column of a table is counted at each level of its
        hierarchy too: derived columns that follow from it, such as the state of a PUMA, nodes of codes, and all together. Public:
        do not derive it from the private table.
    public : DataFrame, optional
        A table of the same schema that you declare public, such as last year's release: the prior of all counts. Noisy
        counts say how far it is off, and it is left out where it is too far. Its rows get no protection: synthetic rows may
        equal them. It is not compared with the private rows.
    public_source : str, optional
        Where ``public`` is from and why it is public, for the certificate; needed with it.
    config : MargNetConfig, optional

    Formal guarantees
    -----------------
    Private rows are read by up to seven Gaussian mechanisms: counts of declared tables, one-way counts, in a wide table scores of
    pairs of columns, in a table of 3 to 19 columns sums of sign interactions of three and more columns, and counts of pairs and triples (of
    single columns again where their noise is still high, or no pair is worth it; of larger sets that signs show, or all columns of few
    cells). With a target, the distance of its tables from what pairs leave and then counts of these, or joint counts again, follow. What each of them reads, and
    with which share of the budget, follows from the schema, from a public table, and from the releases before it. Together they are exactly (epsilon, delta)-DP for adding or removing one record, and all
    the rest, the fit, its samples and the model file, is post-processing.
    """

    method: ClassVar[str] = "margnet"

    workload: Sequence[Sequence[str]] | None = None
    target: str | None = None
    tables: Sequence[Sequence[str]] | None = None
    public: Any = None
    public_source: str | None = None
    config: MargNetConfig | None = None

    def fitted_tables(self) -> list[pd.DataFrame]:
        """Return the declared tables as fitted: what a sample agrees with, scaled to its number of rows.

        Returns
        -------
        list of DataFrame
            For each table of ``tables`` a row for each cell: the labels of its values, and ``count``, of sum ``rows_``. Counts
            are not whole numbers.
        """
        from tabsynth.synthesizers.margnet.tabulated import fitted_tables

        self._check_fitted()
        model = self.model_
        fitted = fitted_tables(
            model.tables, float(self.rows_ or 1), model.generator, model.encoder.zeros
        )
        return [of.table.frame(counts) for of, counts in zip(model.tables, fitted, strict=True)]

    def make_method(self, schema: Schema | LinkedSchema) -> MargNetMethod:
        """Make the method for a schema."""
        if self.config is not None and not isinstance(self.config, MargNetConfig):
            raise InputError(f"Expected config to be a MargNetConfig, got {quote(self.config)}.")
        return MargNetMethod(
            **self.shared_settings(),
            schema=read_table_schema(schema),
            config=self.config or MargNetConfig(),
            workload=self.workload,
            target=self.target,
            tables=self.tables,
            public=self.public,
            public_source=self.public_source,
        )

    @classmethod
    def parameters_from(cls, schema: Schema, facts: JsonObject) -> JsonObject:
        """Return the parameters of a fit from the facts of its model file."""
        config = facts["config"]
        hints = {name: config[name] for name in ("workload", "target")}
        if "tables" in config:
            hints["tables"] = config["tables"]
        return {**hints, "config": settings_from(config)}
