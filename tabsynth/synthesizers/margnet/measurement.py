"""The noisy marginals that MargNet measures: one-way counts, scores of pairs, counts of pairs and triples.

Each stage is one Gaussian mechanism with its share of the privacy budget. What it measures follows from the
schema and from the releases of earlier stages.
"""

import logging
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import combinations
from typing import Any

import numpy as np

from tabsynth._typing import JsonObject
from tabsynth.design import NO_DESIGN, Design
from tabsynth.encoding.rows import PrivateRows, SharedRows
from tabsynth.errors import InputError
from tabsynth.privacy.accounting.mechanisms import of_sum
from tabsynth.privacy.ledger.ledger import Account, PrivateTable
from tabsynth.privacy.noise.counts import (
    Groups,
    Measured,
    NoisyCounts,
    average,
    cells_of,
    count_rows,
    count_sets,
    in_groups,
    interval,
    noise_of_total,
    probabilities,
    shares_by_cells,
    stated_count,
    total_rows,
)
from tabsynth.privacy.noise.samplers import Bits
from tabsynth.synthesizers.margnet.config import MargNetConfig
from tabsynth.synthesizers.margnet.declared import DeclaredTable, TableCounts
from tabsynth.synthesizers.margnet.estimation import departures
from tabsynth.synthesizers.margnet.grids import (
    MOST_PART,
    Grid,
    GridCounts,
    parts_of,
    related_grids,
    target_grids,
    whole_grid,
)
from tabsynth.synthesizers.margnet.selection import (
    MAX_GROUP,
    NOTHING_NAMED,
    TREE_WEIGHT,
    Domain,
    Measurements,
    Pair,
    Resolution,
    Triple,
    Workload,
    chance_distance,
    clear_triples,
    groups_of,
    high_interactions,
    interacting,
    interactions,
    largest_order,
    least_rows,
    pairs_within,
    share_of_columns,
    share_of_triples,
    sign_codes,
    spanning_tree,
    triples_within,
    weighted_tree,
    worth_counting,
)
from tabsynth.synthesizers.margnet.tree import TreeModel
from tabsynth.synthesizers.method import PlannedSpend
from tabsynth.synthesizers.mixture import Mixture
from tabsynth.tables.counter import RowCounter
from tabsynth.training.loop import TrainingMonitor

Set = tuple[int, ...]
# The unit of the sums of counts, as a certificate states it.
OF_SETS = "counts of each set of columns, scaled by the root of its share of the budget"
ONE_WAY, SCORES, JOINT = "one-way counts", "scores of pairs", "joint counts"
INTERACTIONS, TABLES = "sign interactions", "declared tables"
DEPARTURE, AGAIN = "departure from the pairs", "joint counts again"
AGAIN_PART = 0.7  # of the budget of joint counts, where a target is given: what follows on how far pairs say all of it
DEPARTURE_PART = 0.005  # the same: how far they do
CLEAR_DEPARTURE = 0.3  # L1 distance of tables of a target from what pairs leave, beyond chance, as a share of the rows
WIDE_SUMS = 500  # signs of larger sets: as many double the share of the signs
# Share of the rows, in L1/2, of an interaction that a triple is counted for.
LEAST_INTERACTION = 0.1
MAX_GROUP_IN_TRIPLES = 0.05  # as ``MAX_GROUP``
# The largest share of all rows whose values of an unordered column are merged.
MAX_MERGED_IN_TRIPLES = 0.5
ROWS_TOLERANCE = 6.0  # standard deviations of the noisy counts from a declared number of rows, beyond which it is rejected
logger = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True, eq=False)
class Task:
    """The counts to be made of one table: its columns, and the public facts and hints that decide what is counted.

    Attributes
    ----------
    domain : Domain
        The modelled columns.
    config : MargNetConfig
    workload : Workload
    rows : int, optional
        The number of rows, where it is public.
    design : Design
        How many rows one unit adds at most.
    name : str
        What purposes begin with, where a fit measures several tables.
    first : int
        The first column that is modelled; of pairs of columns before it there are no counts.
    last : int, optional
        The first column that has no pairs. Default: all have.
    tables : sequence of DeclaredTable
        They are counted at each of their levels.
    public : ndarray, shape (rows, columns), int, optional
        Codes of a public table that is a prior of the counts: the budget may follow it.
    doubt : float
        Standard deviations of the noise of scores that are taken off each score before pairs are chosen; scores are then at most
        what the shares of the columns' values allow.
    """

    domain: Domain
    config: MargNetConfig
    workload: Workload = NOTHING_NAMED
    rows: int | None = None
    design: Design = NO_DESIGN
    name: str = ""
    first: int = 0
    last: int | None = None
    tables: Sequence[DeclaredTable] = ()
    public: np.ndarray | None = None
    doubt: float = 0.0

    @property
    def end(self) -> int:
        """The first column that has no pairs, or the number of columns."""
        return len(self.domain.columns) if self.last is None else self.last

    @property
    def order(self) -> int:
        """The most columns whose signs are multiplied; 0 for none, and 3 where some columns have no pairs."""
        columns = len(self.domain.columns)
        return min(largest_order(columns), columns if self.whole else 3)

    @property
    def whole(self) -> bool:
        """True where all columns are counted with each other, and rows alike."""
        every = not self.first and self.end == len(self.domain.columns)
        return every and self.workload.classes is None

    @property
    def targeted(self) -> bool:
        """True where a target may be counted with several columns at once: with three others at least, and no public table."""
        enough = self.order > 0 and len(self.domain.columns) > 3
        return enough and self.whole and self.workload.target is not None and self.public is None

    @property
    def stages(self) -> dict[str, float]:
        """The stages by name and their shares of the budget.

        Columns without pairs may leave no triple with three pairs, and so no signs.
        """
        config, columns = self.config, len(self.domain.columns)
        shares = {ONE_WAY: 1.0}
        if columns > 1:
            scored = math.comb(columns, 2) > config.max_unscored
            early = {SCORES: config.scores_share} if scored else {}
            # The second and third column of a triple are among those that are modelled and have pairs.
            has_triples = self.end >= 3 and self.end - self.first >= 2
            if config.interactions_share and has_triples and self.order:
                wide = sum(math.comb(columns, order) for order in range(4, self.order + 1))
                early[INTERACTIONS] = config.interactions_share * (1 + wide / WIDE_SUMS)
            joint = 1 - config.one_way_share - sum(early.values())
            if joint <= 0:
                raise InputError(
                    f"The shares of the config leave nothing of the budget for joint counts: {1 - joint:.2f} of it goes to one-way counts,"
                    f" {' and '.join(early)}; lower one_way_share, scores_share or interactions_share."
                )
            shares = {ONE_WAY: config.one_way_share, **early, JOINT: joint}
            if self.targeted:
                parts = {DEPARTURE: DEPARTURE_PART * joint, AGAIN: AGAIN_PART * joint}
                shares |= {JOINT: joint - sum(parts.values()), **parts}
        if not self.tables:
            return shares
        remaining = {stage: (1 - config.tables_share) * share for stage, share in shares.items()}
        return {TABLES: config.tables_share, **remaining}


@dataclass(frozen=True, eq=False)
class OneWay:
    """Noisy one-way counts.

    Attributes
    ----------
    counts : list of Measured
        Of every column, value by value.
    rows : float
        Estimated or declared.
    rows_std : float
        Standard deviation of the noise on ``rows``; 0 where these are declared.
    """

    counts: list[Measured]
    rows: float
    rows_std: float = 0.0


@dataclass(frozen=True, eq=False)
class Selection:
    """The sets of columns that are counted jointly, and their groups of values.

    Attributes
    ----------
    pairs, triples : list
        Column positions, each in rising order.
    resolution : Resolution
    tree : list
        The pairs of the maximum spanning tree of the scores, where their errors weigh more.
    grids : list of Grid
        Tables of four and more columns.
    """

    pairs: list[Pair]
    triples: list[Triple]
    resolution: Resolution
    tree: list[Pair] = field(default_factory=list)
    grids: list[Grid] = field(default_factory=list)


def count_records(
    schema: Any,
    rows: PrivateRows | SharedRows | RowCounter,
    sets: Sequence[Set],
    groups: Sequence[Groups],
) -> Iterable[np.ndarray]:
    """Return exact counts of sets of columns; of a table that counts its own rows in one request."""
    if isinstance(rows, RowCounter):
        return rows.count_all(schema, sets, groups)
    if isinstance(rows, SharedRows):  # a unit adds 1 at most to each set of columns
        codes, times = rows.codes, rows.shares
        return (count_rows(codes, s, by, times) for s, by in zip(sets, groups, strict=True))
    return count_sets(rows, sets, groups)


class PrivateMarginals:
    """The noisy marginals of one fit. Only this class reads private rows, and each read is charged first.

    Parameters
    ----------
    task : Task
    table : PrivateTable of int array, shape (n, columns), or of RowCounter
        Category codes, or a source that counts them.
    spends : sequence of PlannedSpend
        The privacy cost of each stage of the task.
    bits : Bits
        Random bits of the noise.
    monitor : TrainingMonitor
        Its checkpoint keeps each release.
    """

    def __init__(
        self,
        task: Task,
        table: PrivateTable[Any],
        spends: Sequence[PlannedSpend],
        bits: Bits,
        monitor: TrainingMonitor,
    ) -> None:
        self.task, self.table, self.bits, self.monitor = task, table, bits, monitor
        self.config, self.workload, self.design = task.config, task.workload, task.design
        self.spends = {
            spend.purpose.removeprefix(task.name): spend
            for spend in spends
            if spend.purpose.startswith(task.name)
        }
        sizes = task.domain.sizes
        self.counts: NoisyCounts[Any] = NoisyCounts(
            table, sizes, partial(count_records, task.domain), bound=float(task.design.rows)
        )
        self.columns: list[Set] = [(j,) for j in range(len(sizes))]
        self.whole = Resolution.by_value(sizes)

    def declared_counts(self) -> list[TableCounts]:
        """Return noisy counts of the declared tables at each of their levels, with equal shares of that budget."""
        if TABLES not in self.spends:
            return []
        tables = self.task.tables
        levels = [(table, level) for table in tables for level in range(len(table.levels))]
        groups = [self._groups_of(table.columns, table.groups_at(level)) for table, level in levels]
        details = {
            "tables": [",".join(table.names) for table in tables],
            "levels": len(levels),
        }
        account = self._open(TABLES, details)
        sets = [table.columns for table, _ in levels]
        measured = self._release(account, sets, [1 / len(levels)] * len(levels), groups)
        out, start = list[TableCounts](), 0
        for table in tables:
            of_table = measured[start : start + len(table.levels)]
            out.append(
                TableCounts(
                    table, tuple(m.counts for m in of_table), tuple(m.std for m in of_table)
                )
            )
            start += len(of_table)
        return out

    def _groups_of(self, columns: Sequence[int], groups: Sequence[np.ndarray]) -> Groups:
        """Return groups of all columns, of which some have their own."""
        own = dict(zip(columns, groups, strict=True))
        return [own.get(j, g) for j, g in enumerate(self.whole.values)]

    def one_way(self, tables: Sequence[TableCounts] = ()) -> OneWay:
        """Return noisy counts of the values of each column, and the number of rows, which those of declared tables show too."""
        account = self._open(ONE_WAY, {"columns": len(self.columns)})
        singles = self._count(account, [(self.columns, 1.0)], self.whole)
        levels = [
            Measured(t.table.columns, counts, std)
            for t in tables
            for counts, std in zip(t.counts, t.stds, strict=True)
        ]
        rows = self._total([*singles, *levels])
        std = 0.0 if rows == self.task.rows else noise_of_total([*singles, *levels])
        return OneWay(singles, rows, std)

    def select(self, one_way: OneWay) -> Selection:
        """Return the pairs and triples to count; in a wide table by noisy scores of all pairs.

        Triples whose signs show an interaction are counted in any case, with all pairs of their columns: a mixture that is fitted
        to such triples has false dependence in pairs of these columns that are not counted.
        """
        if JOINT not in self.spends:
            return Selection([], [], self.whole)
        rows, cells = one_way.rows, self.config.max_cells
        shares = [probabilities(m.counts.ravel(), rows, m.std) for m in one_way.counts]
        noise, by = self._joint_noise(), self.resolution(one_way)
        pairs = pairs_within(by.pairs, cells, self.config.max_width, self.workload)
        pairs = [pair for pair in pairs if self.task.first <= pair[1] < self.task.end]
        distances, chosen, tree = dict.fromkeys(pairs, 0.0), pairs, list[Pair]()
        if SCORES in self.spends:
            account = self._open(SCORES, {"pairs": len(pairs)})
            if not pairs:  # charged all the same: a charge must not follow from a release
                self.monitor.once(account.purpose, lambda: self._without_release(account))
        if SCORES in self.spends and pairs:
            expected = [rows * in_groups(s, [g]) for s, g in zip(shares, by.pairs, strict=True)]
            scores = self._scores(account, pairs, expected, by.pairs)
            distances = dict(zip(pairs, scores, strict=True))
            chosen = worth_counting(pairs, scores, by.pairs, noise, self.workload, self.config)
            strength = [distances[pair] for pair in chosen]
            tree = weighted_tree(chosen, strength, by.pairs, noise, rows)
        sizes, grids = self._interactions(rows, shares, pairs, by.triples)
        forced = interacting(sizes, by.triples, noise, len(chosen), self.workload, self.config)
        related = {j for triple in forced for j in triple}
        chosen = sorted({*chosen, *(pair for pair in pairs if related.intersection(pair))})
        triples = self._triples(chosen, distances, by.triples, noise / rows, forced)
        if self.task.whole and len(self.columns) > 3:
            whole = whole_grid(self.task.domain.sizes, noise, rows, cells)
            grids = [whole] if whole else grids
        return Selection(chosen, triples, by, tree, grids)

    def tree(self, shares: Sequence[np.ndarray], rows: float) -> TreeModel:
        """Return the tree model of the pairs that noisy scores select, by noisy counts of these alone.

        Parameters
        ----------
        shares : sequence of ndarray, shape (size,)
            The distribution of the values of each column, released before.
        rows : float
            The number of rows, public or released before.
        """
        if JOINT not in self.spends:  # of one column there are no pairs
            return TreeModel(shares, self.whole.values, {})
        columns = self.task.domain.columns
        least = least_rows(self._joint_noise(), len(columns), len(columns) - 1) / rows
        by = [groups_of(column, p, least) for column, p in zip(columns, shares, strict=True)]
        pairs = pairs_within(by, self.config.max_cells, self.config.max_width)
        expected = [rows * in_groups(p, [g]) for p, g in zip(shares, by, strict=True)]
        scoring, counting = self._open(SCORES, {}), self._open(JOINT, {})
        if not pairs:  # charged all the same: a charge must not follow from a release
            for account in (scoring, counting):
                self.monitor.once(account.purpose, partial(self._without_release, account))
            return TreeModel(shares, by, {})
        edges = spanning_tree(pairs, list(self._scores(scoring, pairs, expected, by)))
        parts = shares_by_cells([cells_of(edge, by) for edge in edges])
        measured = self._release(counting, edges, parts, [by] * len(edges))
        counts = Measurements(measured, rows, Resolution(self.whole.values, by, by))
        apart = departures(counts, shares)
        return TreeModel.of(shares, by, {pair: d.shrunk / rows for pair, d in apart.items()})

    def _interactions(
        self,
        rows: float,
        shares: Sequence[np.ndarray],
        pairs: Sequence[Pair],
        by: Groups,
    ) -> tuple[dict[Triple, float], list[Grid]]:
        """Return clear interactions of three columns, in rows, and tables of more columns that have one.

        By signs of all triples of ``pairs`` that may be counted in groups ``by``, and of all larger sets.
        """
        if INTERACTIONS not in self.spends:
            return {}, []
        signs = [sign_codes(share) for share in shares]
        triples = triples_within(pairs, by, self.config.max_cells)
        paired = sorted({j for pair in pairs for j in pair})
        few = set(triples)  # what larger sets show beyond smaller ones needs all of these
        wide = [
            s
            for order in range(4, self.task.order + 1)
            for s in combinations(paired, order)
            if few.issuperset(combinations(s, 3))
        ]
        details = {"triples": len(triples), **({"larger sets": len(wide)} if wide else {})}
        account = self._open(INTERACTIONS, details)
        if not [*triples, *wide]:  # charged all the same: a charge must not follow from a release
            self.monitor.once(account.purpose, lambda: self._without_release(account))
            return {}, []
        sets: list[Set] = [
            *sorted({pair for t in triples for pair in combinations(t, 2)}),
            *triples,
        ]

        def release() -> dict[str, np.ndarray]:
            sums, of_wide = self.counts.contrasts(account, sets, signs, self.bits, wide)
            return {"sums": sums, "wide": of_wide}

        released = self.monitor.once(account.purpose, release)
        of_sets = dict(zip(sets, released["sums"], strict=True))
        number = released["sums"].size + len(wide)
        std = account.whole_table_noise * self.design.rows * math.sqrt(number)
        means = [of @ share for of, share in zip(signs, shares, strict=True)]
        limits = (self.config.interaction_noise, LEAST_INTERACTION)
        sizes = interactions(of_sets, std, means, rows, *limits)
        first = {columns: float(of[0]) for columns, of in of_sets.items()}
        first |= zip(wide, released["wide"].tolist(), strict=True)
        related = high_interactions(first, std, [float(of[0]) for of in means], rows, *limits)
        grids = related_grids(related, [of[0] for of in signs])
        return {triple: sizes[triple] for triple in triples if triple in sizes}, grids

    def joint(
        self, one_way: OneWay, selection: Selection, tables: Sequence[TableCounts] = ()
    ) -> Measurements:
        """Return noisy counts of the selected pairs and triples, with those of single columns, and of declared tables."""
        if JOINT not in self.spends:
            return Measurements(one_way.counts, one_way.rows, selection.resolution, tables)
        self._counted = self._joint(JOINT, one_way.rows, selection)
        return self._together(one_way, selection, tables)

    def joint_again(
        self,
        one_way: OneWay,
        selection: Selection,
        tables: Sequence[TableCounts],
        pairs_alone: Mixture,
    ) -> Measurements:
        """Return the counts with those of tables of the target and several columns, where pairs leave much of these; else counted twice.

        Parameters
        ----------
        pairs_alone : Mixture
            Fitted to the joint counts.
        """
        grids = self._target_grids(one_way, selection.resolution.pairs)
        sets = [grid.columns for grid in grids]
        groups = [self._groups_of(grid.columns, grid.groups) for grid in grids]
        rows = one_way.rows
        expected = [grid.expected(pairs_alone, rows) for grid in grids]
        account = self._open(DEPARTURE, {"grids": len(grids)})

        def release() -> dict[str, np.ndarray]:
            distance = self.counts.mean_distance(account, sets, expected, self.bits, groups)
            by_chance = np.mean([chance_distance(of) for of in expected])
            return {"distance": np.array(distance), "by chance": np.array(by_chance)}

        # A resumed fit may fit the pairs further, and must not choose other counts than those that it has.
        kept = self.monitor.once(account.purpose, release)
        distance, by_chance = float(kept["distance"]), float(kept["by chance"])
        counts, related = self._counted
        if distance - by_chance >= CLEAR_DEPARTURE * rows:
            _, of_target = self._with_grids(AGAIN, {}, ([], [], []), grids, 1.0)
            self._counted = counts, [*related, *of_target]
        else:
            again, related_again = self._joint(AGAIN, rows, selection)
            self._counted = (
                [average(*both) for both in zip(counts, again, strict=True)],
                [a.averaged(b) for a, b in zip(related, related_again, strict=True)],
            )
        return self._together(one_way, selection, tables)

    def _target_grids(self, one_way: OneWay, by: Groups) -> list[Grid]:
        """Return tables of the target, in groups, and several of the other columns."""
        target, columns = self.workload.target, self.task.domain.columns
        assert target is not None
        shares = [probabilities(m.counts.ravel(), one_way.rows, m.std) for m in one_way.counts]
        others = [j for j in range(len(columns)) if j != target]
        ordered = [bool(column.ordered) for column in columns]
        return target_grids(target, by[target], others, shares, ordered)

    def _together(
        self, one_way: OneWay, selection: Selection, tables: Sequence[TableCounts]
    ) -> Measurements:
        """Return all counts so far."""
        joint, grids = self._counted
        repeated: dict[Set, Measured] = {m.columns: m for m in joint if len(m.columns) == 1}
        singles = [average(m, repeated[m.columns]) if repeated else m for m in one_way.counts]
        counts = [*singles, *(m for m in joint if len(m.columns) > 1)]
        paired = {j for pair in selection.pairs for j in pair}
        by = selection.resolution.narrow(paired)
        return Measurements(counts, one_way.rows, by, tables, grids)

    def _without_release(self, account: Account) -> dict[str, np.ndarray]:
        """Charge one use of an account that releases nothing."""
        self.table.ledger.spend(account)
        return {}

    def _joint_noise(self) -> float:
        """Return the noise of all counts of pairs and triples together, in rows; of both times, where they may be counted twice."""
        stages = [self.spends[stage] for stage in (JOINT, AGAIN) if stage in self.spends]
        multipliers = [of_sum(spend.mechanism).noise_multiplier for spend in stages]
        if not all(multipliers):  # without noise
            return 0.0
        return self.design.rows * sum(m**-2 for m in multipliers) ** -0.5

    def _total(self, singles: Sequence[Measured]) -> float:
        """Return the declared number of rows, or where there is none, or the counts refute it, the counted one."""
        counted = total_rows(singles)
        if self.task.rows is None:
            return counted
        std = noise_of_total(singles)
        if abs(self.task.rows - counted) <= ROWS_TOLERANCE * std:
            return float(self.task.rows)
        logger.warning(
            "rows=%d is declared, but the noisy counts hold %s rows: that number is used; correct rows=, or leave it out.",
            self.task.rows,
            stated_count(counted, interval(counted, std)),
        )
        return counted

    def _joint(
        self, stage: str, rows: float, selection: Selection
    ) -> tuple[list[Measured], list[GridCounts]]:
        """Return counts of pairs and triples, of columns again where their noise is still too high, and of grids."""
        batches = self.batches(rows, selection)
        names = {1: "columns", 2: "pairs", 3: "triples"}
        details = {"columns": 0, "pairs": 0, "triples": 0}
        details |= {names[len(sets[0])]: len(sets) for sets, _ in batches}
        counted = self.shares(batches, selection.resolution, tree=selection.tree)
        return self._with_grids(stage, details, counted, selection.grids)

    def _with_grids(
        self,
        stage: str,
        details: JsonObject,
        counted: tuple[Sequence[Set], Sequence[float], Sequence[Groups]],
        grids: Sequence[Grid],
        most: float = MOST_PART,
    ) -> tuple[list[Measured], list[GridCounts]]:
        """Return counts of sets of columns, with their shares and groups, and of grids, which have ``most`` of the budget at most."""
        sets, shares, groups = counted
        part, parts = parts_of(grids, most)
        measured = self._release(
            self._open(stage, {**details, **({"grids": len(grids)} if grids else {})}),
            [*sets, *(grid.columns for grid in grids)],
            [*((1 - part) * share for share in shares), *parts],
            [*groups, *(self._groups_of(grid.columns, grid.groups) for grid in grids)],
        )
        of_grids = zip(grids, measured[len(sets) :], strict=True)
        return measured[: len(sets)], [
            GridCounts(g.columns, g.groups, m.counts, m.std, g.related) for g, m in of_grids
        ]

    def batches(self, rows: float, selection: Selection) -> list[tuple[Sequence[Set], float]]:
        """Return the sets of the joint counts, in batches, and the part of their budget that each batch has.

        If no pair is selected, the columns seem independent, and the whole budget goes to one-way counts.
        """
        pairs, triples, by = selection.pairs, selection.triples, selection.resolution
        noise = self._joint_noise()
        columns_part = 1.0
        if pairs:
            cells = [cells_of(pair, by.of(pair)) for pair in pairs]
            columns_part = share_of_columns(noise, self.task.domain.sizes, cells, rows, self.config)
        of_pairs, of_triples = (
            float(self.workload.importance(sets).sum()) for sets in (pairs, triples)
        )
        max_part = self.config.triples_share
        part = share_of_triples(of_pairs, of_triples, max_part) if pairs else 0.0
        batches: list[tuple[Sequence[Set], float]] = [
            (self.columns, columns_part),
            (pairs, (1 - columns_part) * (1 - part)),
            (triples, (1 - columns_part) * part),
        ]
        return [(sets, part) for sets, part in batches if part]

    def resolution(self, one_way: OneWay) -> Resolution:
        """Return groups by what the noise of pairs allows."""
        rows, noise = one_way.rows, self._joint_noise()
        shares = [probabilities(m.counts.ravel(), rows, m.std) for m in one_way.counts]

        def groups(least_share: float, coarsest: float, merged: float = 1.0) -> Groups:
            columns = zip(self.task.domain.columns, shares, strict=True)
            return [
                groups_of(column, share, least_share, merged, coarsest) for column, share in columns
            ]

        number = len(self.columns)
        least_share = least_rows(noise, number, math.comb(number, 2), self.config) / rows
        largest = MAX_GROUP_IN_TRIPLES
        fine = groups(least_share, MAX_GROUP)
        coarse = groups(largest, largest, MAX_MERGED_IN_TRIPLES)
        return Resolution(self.whole.values, fine, coarse)

    def _triples(
        self,
        pairs: Sequence[Pair],
        distances: Mapping[Pair, float],
        coarse: Groups,
        noise: float,
        forced: Sequence[Triple],
    ) -> list[Triple]:
        """Return triples worth counting: ``forced`` ones, and of pairs far from independence, or of all columns alike if not scored."""
        triples = triples_within(pairs, coarse, self.config.max_cells)
        worth = np.array(
            [distances[a, b] + distances[a, c] + distances[b, c] for a, b, c in triples]
        )
        worth *= self.workload.importance(triples)
        weight = float(self.workload.importance(pairs).sum())
        room = self.config.max_triple_cells
        return clear_triples(
            triples, worth, coarse, noise, weight, room, self.workload, self.config, forced
        )

    def _open(self, stage: str, details: JsonObject) -> Account:
        spend = self.spends[stage]
        unit = OF_SETS
        if stage == SCORES:
            unit = "L1 distances of the counts of all pairs from independence, over √pairs"
        if stage == DEPARTURE:
            unit = "mean L1 distance of the counts of tables of the target from what pairs leave"
        if stage == INTERACTIONS:
            unit = "sums over the rows of products of signs, over the root of their number"
        details = {"l2_sensitivity": float(self.design.rows), "unit": unit, **details}
        return self.table.ledger.open(self.task.name + stage, spend.mechanism, spend.count, details)

    def _count(
        self,
        account: Account,
        batches: Sequence[tuple[Sequence[Set], float]],
        by: Resolution,
    ) -> list[Measured]:
        """Make one release, or take what a checkpoint kept of it; arguments as of :meth:`shares`."""
        return self._release(account, *self.shares(batches, by))

    def _release(
        self,
        account: Account,
        sets: Sequence[Set],
        shares: Sequence[float],
        groups: Sequence[Groups],
    ) -> list[Measured]:
        """Release counts of sets of columns, or return what a checkpoint kept of them."""

        def release() -> dict[str, np.ndarray]:
            measured = self.counts.measure(account, sets, shares, self.bits, groups)
            counts = {str(i): m.counts for i, m in enumerate(measured)}
            return {**counts, "std": np.array([m.std for m in measured])}

        released = self.monitor.once(account.purpose, release)
        return [
            Measured(columns, released[str(i)], float(std))
            for i, (columns, std) in enumerate(zip(sets, released["std"], strict=True))
        ]

    def shares(
        self,
        batches: Sequence[tuple[Sequence[Set], float]],
        by: Resolution,
        tree: Sequence[Pair] = (),
    ) -> tuple[list[Set], list[float], list[Groups]]:
        """Return all sets of columns of a release, the share of its budget that each has, and the groups that it is counted in.

        A batch is sets of columns and their part of the account's budget. Pairs of ``tree`` weigh ``TREE_WEIGHT`` at least.
        """
        sets, shares = list[Set](), list[float]()
        groups = list[Groups]()
        for columns, part in batches:
            cells = [cells_of(s, by.of(s)) for s in columns]
            strong = np.array([s in tree for s in columns])
            importance = self.workload.importance(columns)
            importance = np.maximum(importance, TREE_WEIGHT * strong)
            sets += columns
            groups += [by.of(s) for s in columns]
            shares += [part * share for share in shares_by_cells(cells, importance)]
        return sets, shares, groups

    def _scores(
        self,
        account: Account,
        pairs: Sequence[Pair],
        expected: Sequence[np.ndarray],
        groups: Groups,
    ) -> np.ndarray:
        """Return distances of pairs from independence, in rows, less what chance alone makes of the rows."""

        def independent(pair: tuple[int, ...]) -> np.ndarray:
            a, b = (expected[j] for j in pair)
            return np.outer(a, b) / a.sum()

        def release() -> dict[str, np.ndarray]:
            distances = self.counts.distances(account, pairs, independent, self.bits, groups)
            return {"distances": distances}

        distances = self.monitor.once(account.purpose, release)["distances"]
        by_chance = np.array([chance_distance(independent(pair)) for pair in pairs])
        if not self.task.doubt:
            return distances - by_chance
        noise = account.whole_table_noise * self.design.rows * math.sqrt(len(pairs))
        # Given one of its values, a column with shares p is at most 1 - p away from its distribution, in total variation.
        limits = [2 * (of.sum() - (of**2).sum() / of.sum()) for of in expected]
        limits_of_pairs = [min(limits[a], limits[b]) for a, b in pairs]
        return np.minimum(distances - by_chance - self.task.doubt * noise, limits_of_pairs)
