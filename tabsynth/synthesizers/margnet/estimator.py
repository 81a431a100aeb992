"""MargNet: noisy counts of columns, pairs and triples, then a generator that is fitted to them."""

import logging
import math
from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from dataclasses import asdict, dataclass, replace
from functools import partial
from importlib import import_module
from typing import Any, ClassVar, Self

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from tabsynth._random import Randomness
from tabsynth._validate import shown
from tabsynth.encoding import TableEncoder
from tabsynth.encoding.table import Layout
from tabsynth.errors import BudgetError, FileFormatError, InputError
from tabsynth.privacy.accounting.accountants import GAUSSIAN_FILTER, gaussian_mu
from tabsynth.privacy.accounting.mechanisms import Gaussian, NoPrivacy
from tabsynth.privacy.ledger.ledger import Ledger, PrivateTable
from tabsynth.schema.constraints import Derived
from tabsynth.schema.schema import Schema, Zero, refuse_no_rows
from tabsynth.synthesizers.base import (
    Sampler,
    Synthesizer,
    Trained,
    check_provenance,
    check_size,
)
from tabsynth.synthesizers.conditions import Condition
from tabsynth.synthesizers.fitting import PlannedSpend
from tabsynth.synthesizers.margnet.conditioning import (
    boxes_of,
    boxes_to_sample,
    complete_table,
    warn_of_impossible,
)
from tabsynth.synthesizers.margnet.config import MargNetConfig
from tabsynth.synthesizers.margnet.declared import (
    KEPT_TABLES,
    DeclaredTable,
    declared_tables,
    file_of_tables,
    tables_of_file,
)
from tabsynth.synthesizers.margnet.estimation import STAGE, ZERO_STEPS, ZEROS, MargNetFit
from tabsynth.synthesizers.margnet.measurement import (
    KEPT,
    Measurements,
    PrivateMarginals,
    stages,
)
from tabsynth.synthesizers.margnet.prior import Posterior, stated_use, with_public
from tabsynth.synthesizers.margnet.selection import parsed_workload
from tabsynth.synthesizers.margnet.weighting import WeightedColumns
from tabsynth.synthesizers.mixture import Mixture, disjoint_boxes
from tabsynth.tables.counter import RowCounter, check_values
from tabsynth.tables.frames import to_pandas
from tabsynth.training.loop import TrainingMonitor

logger = logging.getLogger(__name__)

# Settings in model files of version 0.2.0, which are constants now. None of them changes what a fitted model gives.
FORMER_SETTINGS = {
    "clear_components", "clear_dependence", "continuation", "counts_time", "entropy", "interaction_groups",
    "least_interaction", "max_group", "max_group_in_triples", "max_interactions", "max_merged_in_triples", "max_public",
    "max_smoothing_noise", "max_triples", "min_entropy", "mixture_drift", "noisy_dependence", "one_way_noise",
    "pairs_per_column", "prior_classes", "prior_group", "prior_group_noise", "prior_least_share", "prior_steps",
    "rows_tolerance", "tree_noise", "tree_weight", "triples_noise", "weight_groups", "weighted_one_way_share",
    "weights_importance", "workload_weight", "zero_rate", "zero_steps",
}  # fmt: skip
RARE_CONDITION = 0.01  # the probability below which rows are drawn given a condition on nodes
MOST_OF_VALUES = 0.5  # groups of a column's values by a derived column, to be counted as well
ROUNDING = 1e-9  # relative: the cost, computed by bisection, does not exceed the budget


def margnet(
    marginals: PrivateMarginals,
    layout: Layout,
    zeros: Sequence[Zero],
    config: MargNetConfig,
    rng: torch.Generator,
    device: torch.device | str,
    monitor: TrainingMonitor,
    public: np.ndarray | None = None,
) -> tuple[MargNetFit, Measurements, Posterior | None]:
    """The method in six steps: declared tables, one-way counts, selection, joint counts, estimation, mixture.

    The first four read private rows, each through one Gaussian mechanism; the others process the releases, and the codes of
    a public table.
    """
    tables = marginals.declared()
    one_way = marginals.one_way(tables)
    selection = marginals.select(one_way)
    measured = marginals.joint(one_way, selection, tables)
    prior = None if public is None else with_public(public, marginals.schema, measured, config)
    counts, resolution = measured.counts, measured.resolution
    if prior is not None:
        counts, resolution = prior.counts, prior.resolution
    estimate = MargNetFit(
        layout, config, counts, measured.rows, rng, resolution, device, zeros, tables
    )
    if prior is None or prior.clarity:
        estimate.fit(monitor)
    return estimate, measured, prior  # estimate.mixture() is the generator, or a part of it


def derived_groups(schema: Schema) -> list[tuple[int, np.ndarray]]:
    """Of derived columns: the number of the modelled column that each follows from, and the groups of its values."""
    names, out = schema.learned.names, []
    for rule in schema.makers.values():
        if not isinstance(rule, Derived) or rule.lookup is None or len(rule.sources) > 1:
            continue
        if rule.sources[0].name in names:
            group = np.unique(rule.lookup, return_inverse=True)[1]
            if 1 < group.max() + 1 <= MOST_OF_VALUES * len(group):
                out.append((names.index(rule.sources[0].name), group))
    return out


def least_noise(earlier: Ledger) -> float:
    """The noise multiplier of one Gaussian mechanism that uses up what a ledger has left.

    Raises
    ------
    BudgetError
        If that is nothing.
    """
    if not earlier.adaptive:  # one Gaussian alone has its exact noise
        return (1 + ROUNDING) / gaussian_mu(earlier.epsilon, earlier.delta)
    left = earlier.filter.mu_left(earlier.spends())
    if left == 0:
        raise BudgetError(
            f"What was spent before leaves nothing of epsilon={earlier.epsilon:g}; raise epsilon."
        )
    return (1 + ROUNDING) / left


@dataclass(kw_only=True, eq=False, repr=False)
class MargNet(Synthesizer):
    """A generator fitted to noisy one-, two- and three-way counts, after MargNet, GEM and PrivSyn.

    Parameters
    ----------
    schema : Schema
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
        ``weight``, ``max_weight``, ``unit`` and ``max_rows_per_unit``, which the drafted schema declares.
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
    provenance : str, optional
        Where ``public`` is from and why it is public, for the certificate; needed with it.
    config : MargNetConfig, optional

    Formal guarantees
    -----------------
    Private rows are read by up to five Gaussian mechanisms: counts of declared tables, one-way counts, in a wide table scores of
    pairs of columns, in a table of 3 to 19 columns sums of signs of triples, and counts of pairs and triples (of
    single columns again where their noise is still high, or no pair is worth it). What each of them reads, and
    with which share of the budget, follows from the schema, from a public table, and from the releases before it. Together they are exactly (epsilon, delta)-DP for adding or removing one record, and all
    the rest, the fit, its samples and the model file, is post-processing.
    """

    method: ClassVar[str] = "margnet"
    stops_early: ClassVar[bool] = True
    composition: ClassVar[str] = GAUSSIAN_FILTER
    no_design: ClassVar[tuple[str, ...]] = ()

    workload: Sequence[Sequence[str]] | None = None
    target: str | None = None
    tables: Sequence[Sequence[str]] | None = None
    public: Any = None
    provenance: str | None = None
    config: MargNetConfig | None = None

    def complete(
        self, table: Any, *, nulls: str = "fill", random_state: int | None = None
    ) -> pd.DataFrame:
        """Fill in a partial table: the rest of each row is drawn given its cells, exactly.

        It costs no privacy of the fitted table: a completion is post-processing of the model. But the
        partial rows may be private themselves. The result holds their cells as they are, and its other
        cells depend on them. You are responsible for protecting the result; it carries no certificate.

        Parameters
        ----------
        table : DataFrame
            Some of the schema's columns, in any order. A missing column is filled in whole.
        nulls : {"fill", "keep"}
            Whether nulls in the table are cells to fill in, or values. A null that is meant as a value
            cannot be distinguished from one to be filled: it is one or the other in the whole table. A cell
            that is filled in may get a null, where the schema allows it.
        random_state : int, optional
            As in :meth:`Synthesizer.sample`.

        Returns
        -------
        DataFrame
            The schema's columns, order and dtypes; the index of ``table``. Given cells are kept, but
            those that the schema's ``other`` or ``clip`` takes come out as what it makes of them.

        Raises
        ------
        InputError
            For a column or a value that the schema does not declare, and for a row whose cells it
            declares impossible, or that has no completion in the model.
        """
        self._check_fitted()
        frame = to_pandas(table, "partial table")
        frame = frame.set_axis([str(name) for name in frame.columns], axis=1)
        check_size(max(len(frame), 1), len(self.encoder_.schema.columns))
        for_codes, for_cells = self._streams(random_state)
        return complete_table(
            self.trained_.generator, self.encoder_, frame, nulls, for_codes, for_cells
        )

    def fitted_tables(self) -> list[pd.DataFrame]:
        """The declared tables as fitted: what a sample agrees with, scaled to its number of rows.

        Returns
        -------
        list of DataFrame
            For each table of ``tables`` a row for each cell: the labels of its values, and ``count``, of sum ``rows_``. Counts
            are not whole numbers.
        """
        self._check_fitted()
        tables = self.trained_.tables
        fitted = import_module("tabsynth.synthesizers.margnet.tabulated").fitted_tables(
            tables, float(self.rows_ or 1), self.trained_.generator, self.encoder_.zeros
        )
        return [of.table.frame(counts) for of, counts in zip(tables, fitted, strict=True)]

    def _sampler(self, condition: Condition | None) -> tuple[Sampler, bool]:
        """As :meth:`Synthesizer._sampler`: by Bayes' rule from the mixture, given the condition."""
        generator: Mixture = self.trained_.generator
        if self.trained_.tables:
            return self._sampler_of_tables(condition)
        boxes = boxes_to_sample(generator, self.encoder_, condition)
        draw = partial(generator.sample, boxes=boxes)
        if condition is None or not condition.box:
            groups = derived_groups(self.encoder_.whole)
            return partial(generator.in_groups, draw, groups), True
        # Which codes of a node rows have is held by exchanges among rows of all nodes.
        detailed = condition.leaves_details(self.encoder_.whole)
        if detailed and generator.log_probability(boxes) > math.log(RARE_CONDITION):
            everything = boxes_of(generator, self.encoder_)
            return partial(generator.sample, boxes=everything), False
        return draw, True

    def _sampler_of_tables(
        self, condition: Condition | None, *, rounded: bool = True
    ) -> tuple[Sampler, bool]:
        """As :meth:`_sampler`, of a fit with declared tables: the cells of these first, then the rest of each row."""
        trained, encoder = self.trained_, self.encoder_
        detailed = condition is not None and condition.leaves_details(encoder.whole)
        within = {} if condition is None or detailed else condition.box
        draw = import_module("tabsynth.synthesizers.margnet.tabulated").TabulatedRows(
            trained.generator,
            encoder,
            trained.tables,
            float(self.rows_ or 1),
            within,
            rounded=rounded,
        )
        return draw, not detailed

    def _stream_sampler(self) -> Sampler:
        """As :meth:`Synthesizer._stream_sampler`: rows are independent given the component, without rounding.

        Of declared tables each part agrees with them.
        """
        if self.trained_.tables:
            return self._sampler_of_tables(None, rounded=False)[0]
        generator: Mixture = self.trained_.generator
        boxes = boxes_to_sample(generator, self.encoder_, None)
        draw = partial(generator.sample, boxes=boxes, rounded=False)
        return partial(generator.in_groups, draw, derived_groups(self.encoder_.whole))

    def _implicates(self, count: int, random_state: int | None) -> Iterator[Self]:
        """As :meth:`Synthesizer._implicates`: of mixtures that are fitted again to the noisy counts with new noise."""
        measured = self.trained_.measured
        if measured is None:
            raise InputError(
                "Implicates follow from noisy counts, and this model holds none: it has survey weights or a unit, its file is"
                " of an earlier version, or there are too many; leave implicates (--implicates) out."
            )
        if self.trained_.generator.shares is not None:
            raise InputError(
                "A model with a public table has no implicates; leave implicates (--implicates) out, or fit without public (--public)."
            )
        implicates = import_module("tabsynth.synthesizers.margnet.implicates")
        clear = implicates.associations_shown(measured.counts) >= implicates.LEAST_SHOWN
        if not clear:
            logger.warning(
                "Most pairs of columns have counts that are mostly noise. Implicates vary less than that noise, so that pooled"
                " intervals of more than one column cover too little: prefer the functions of tabsynth.inference."
            )
        weight = implicates.SUMS_WEIGHT if clear else 0.0
        names = self.encoder_.schema.names
        # What implicates do not vary: associations of columns that were not counted together.
        counted = [[names[j] for j in m.columns] for m in measured.counts if len(m.columns) > 1]
        training = {**self.facts_["training"], "counted": counted}
        scores = [column.scores() for column in self.encoder_.schema.columns]
        for i in range(count):
            # Streams of their own: the draws must not repeat those of samples.
            seed = None if random_state is None else (random_state + 1) * 2**66 + i
            noise = Randomness(seed).numpy()
            zeros, trained, model = self.encoder_.zeros, self.trained_, copy(self)
            tables = [table.with_noise(noise) for table in trained.tables]
            mixture = implicates.implicate(
                trained.generator, measured, self._settings(), zeros, noise, scores, tables, weight
            )
            model.trained_ = replace(trained, generator=mixture, tables=tables)
            model.facts_ = {**self.facts_, "training": training}
            yield model

    def _settings(self) -> MargNetConfig:
        return MargNetConfig() if self.config is None else self.config

    def _check(self) -> None:
        if self.config is not None and not isinstance(self.config, MargNetConfig):
            raise InputError(f"Expected config to be a MargNetConfig, got {shown(self.config)}.")
        check_provenance(self.public, self.provenance)
        if self.public is None and self.provenance is not None:
            raise InputError("provenance goes with a public table: give public.")
        if self.public is not None and self.schema.weight is not None:
            raise InputError(
                "MargNet takes no public table for rows with survey weights; leave out public, or the weight."
            )
        encoder = TableEncoder(self.schema)  # a column too large for one-hot codes is refused here
        if disjoint_boxes(encoder.zeros) == []:
            raise InputError("The schema declares all rows impossible; take a combination out.")
        parsed_workload(self.schema, self.workload, self.target, self._settings())
        if self._tables():
            self._check_tables()
        self._public_index(encoder)  # refused before any spending

    def _tables(self) -> list[DeclaredTable]:
        if self.tables is None:
            return []
        return declared_tables(self.schema, self.tables, self._settings().max_cells)

    def _check_tables(self) -> None:
        """Refuse declared tables beside what they do not go with."""
        if self.schema.weight is not None:
            raise InputError(
                "Declared tables are of rows that count once; leave out tables (--table), or take the weight out of the schema."
            )
        if self.public is not None:
            raise InputError(
                "MargNet takes declared tables or a public table, not both; leave out tables (--table) or public (--public)."
            )

    def _public_index(self, encoder: TableEncoder) -> np.ndarray | None:
        if self.public is None:
            return None
        index = encoder.to_index(to_pandas(self.public, "public table"), "public table")
        refuse_no_rows(len(index), "public table")
        return index

    def _public_facts(self) -> dict[str, Any] | None:
        facts = super()._public_facts()
        if facts is None:
            return None
        return {**facts, "provenance": self.provenance, "overlap": "declined: not counted"}

    def _rows(self, encoder: TableEncoder, table: Any) -> Any:
        if self.public is not None and table is self.public:
            raise InputError("public is the private table itself; give a table that is public.")
        if not isinstance(table, RowCounter):
            return super()._rows(encoder, table)
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
        most, cells = table.most_cells, self._settings().max_cells
        if most is not None and cells > most:
            raise InputError(f"This table returns at most {most:,} cells; got max_cells={cells:,}.")
        table.check(learned)
        check_values(learned, table)
        return table

    def _spends(self, earlier: Ledger) -> list[PlannedSpend]:
        noise = least_noise(earlier) if math.isfinite(self.epsilon) else None
        return [
            PlannedSpend(
                purpose=purpose,
                mechanism=NoPrivacy()
                if noise is None
                else Gaussian(noise_multiplier=noise / math.sqrt(share)),
                count=1,
            )
            for purpose, share in self._stages().items()
        ]

    def _stages(self) -> dict[str, float]:
        weighted = self._weighted()
        if weighted is not None:
            return stages(weighted, weighted.config)
        return stages(self.schema.learned, self._settings(), tables=bool(self.tables))

    def _weighted(self) -> WeightedColumns | None:
        """The columns with the classes of survey weights; None where rows have none."""
        cap = self.schema.design.max_weight
        if cap is None:
            return None
        return WeightedColumns.of(self.schema.learned.columns, cap, self._settings())

    def _free_steps(self) -> dict[str, int]:
        zeros = {ZEROS: ZERO_STEPS} if self.schema.learned.impossible else {}
        return {STAGE: self._settings().steps, **zeros}

    def _train(
        self,
        index: Any,
        spends: list[PlannedSpend],
        ledger: Ledger,
        randomness: Randomness,
        monitor: TrainingMonitor,
    ) -> Trained:
        noise, init_rng = randomness.noise(), randomness.torch()
        config, encoder = self._settings(), TableEncoder(self.schema)
        workload = parsed_workload(self.schema, self.workload, self.target, config)
        layout, weighted = encoder.layout, self._weighted()
        if weighted is not None:
            index, layout = weighted.rows(index), weighted.layout(layout)
            workload, config = weighted.workload(workload), weighted.config
        # A trial is of made-up rows, which no public table is like.
        fits = monitor.trial_steps is None
        public = self._public_index(encoder) if fits else None
        marginals = PrivateMarginals(
            PrivateTable(index, ledger),
            weighted or self.schema.learned,
            config,
            self.rows if fits else None,  # a trial's table has another number of rows
            spends,
            ledger,
            noise,
            monitor,
            workload,
            derived_groups(self.schema),
            self.schema.design,
            tables=self._tables(),
            public=public,
        )
        estimate, measured, prior = margnet(
            marginals,
            layout,
            encoder.zeros,
            config,
            init_rng,
            self._device(),
            monitor,
            public,
        )
        generator, population, population_interval = estimate.mixture(), None, None
        if prior is not None:
            generator = prior.with_rows(generator)
        if weighted is not None:
            generator, population = weighted.of_population(generator, encoder.layout, measured.rows)
            population, population_interval = weighted.within_interval(population, measured.counts)
        if fits and encoder.zeros:
            warn_of_impossible(generator, encoder)
        return Trained(
            generator=generator,
            curves=estimate.curves,
            rows=measured.rows,
            population=population,
            population_interval=population_interval,
            measured=measured if not self.schema.design and measured.keepable else None,
            tables=measured.tables,
            notes={} if public is None else stated_use(prior, measured.followed),
            likely_steps={} if fits else estimate.likely_steps(),
        )

    def _facts(self, monitor: TrainingMonitor, trained: Trained) -> dict[str, Any]:
        facts = super()._facts(monitor, trained)
        facts["public"] |= self._hints()
        if trained.notes:
            facts["public"]["public_table"] |= trained.notes
        return facts

    def _hints(self) -> dict[str, Any]:
        """Workload, target, and declared tables if there are any; JSON-ready."""
        workload = None if self.workload is None else [list(names) for names in self.workload]
        hints: dict[str, Any] = {"workload": workload, "target": self.target}
        return hints | ({"tables": [list(names) for names in self.tables]} if self.tables else {})

    def _config(self) -> dict[str, Any]:
        return {**self._hints(), **asdict(self._settings())}

    @classmethod
    def _from_config(cls, schema: Schema, config: Mapping[str, Any], **shared: Any) -> "MargNet":
        shared.pop("encoding")  # always one-hot
        hints = {name: config[name] for name in ("workload", "target")}
        if "tables" in config:
            hints["tables"] = config["tables"]
        settings: dict[str, Any] = {
            k: tuple(v) if isinstance(v, list) else v
            for k, v in config.items()
            if k not in hints and k not in FORMER_SETTINGS
        }
        return cls(schema, config=MargNetConfig(**settings), **hints, **shared)

    def _file_facts(self) -> dict[str, Any]:
        measured, tables = self.trained_.measured, self.trained_.tables
        facts = super()._file_facts() | ({} if measured is None else {"measured": measured.facts()})
        return facts | ({"tables": file_of_tables(tables)[0]} if tables else {})

    def _file_tensors(self) -> dict[str, Tensor]:
        measured, tables = self.trained_.measured, self.trained_.tables
        tensors = super()._file_tensors() | ({} if measured is None else measured.tensors())
        return tensors | ({KEPT_TABLES: file_of_tables(tables)[1]} if tables else {})

    @classmethod
    def _from_file(cls, facts: Mapping[str, Any], weights: dict[str, Tensor], path: Any) -> Self:
        """As :meth:`Synthesizer._from_file`, with the noisy counts; older files have none."""
        kept = {name: weights.pop(name) for name in KEPT if name in weights}
        flat = weights.pop(KEPT_TABLES, None)
        model = super()._from_file(facts, weights, path)
        if model.tables:
            try:
                tables = tables_of_file(model._tables(), facts["tables"], flat)
            except (InputError, KeyError, TypeError, ValueError, OverflowError):
                raise FileFormatError(f"{path}: the model's declared tables are damaged.") from None
            model.trained_ = replace(model.trained_, tables=tables)
        if kept:
            try:
                sizes = model.encoder_.schema.sizes
                measured = Measurements.of_file(facts["measured"], kept, sizes)
            except (KeyError, TypeError, ValueError, IndexError, OverflowError):
                raise FileFormatError(f"{path}: the model's noisy counts are damaged.") from None
            model.trained_ = replace(model.trained_, measured=measured)
        return model

    def _size(self) -> int:
        return self.encoder_.layout.width  # of one component at least

    def _empty(self) -> Mixture:
        return Mixture(self.encoder_.layout, shared=self.schema.weight is not None)
