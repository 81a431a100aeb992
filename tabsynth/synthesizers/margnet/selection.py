"""The selection of what MargNet counts, and how coarsely: from public sizes and hints, and from earlier releases.

After PrivSyn (Zhang et al. 2021, USENIX Security): pairs are scored by their distance from
independence, and those are counted whose distance is worth the noise; values too rare for the noise are
counted in groups.

Triples of columns may matter where none of their pairs does, such as in an exclusive or. Each column has a few codes of +1 and -1 for
its values. For all pairs and triples of columns, one release has the sums over the rows of the products of their signs. What such a sum
of three columns shows beyond those of their pairs is an interaction. Sums of products of signs are the Fourier coefficients of
contingency tables (Barak et al. 2007, PODS). An exclusive or of two even columns is in a single one of them, of which it is as large as
the number of rows. In a table of counts it is spread over all cells.

NOTE[DIFF] All that is scored is counted at once: PrivSyn's greedy choice is by the noise of counts alone,
ours gives counts the share of their noise that is left after a fit to all of them together.
NOTE[DIFF] PrivSyn merges all rare values of a column in one group; ours merges neighbours, in several groups.
NOTE[DIFF] The strongest pairs that connect all columns, a maximum spanning tree of the scores as in MST (McKenna, Miklau, Sheldon 2021), have
a larger share of the budget where counts are noisy. Predictions of a column from others depend on these pairs most.
"""

import heapq
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any, Protocol, Self, TypeVar

import numpy as np
import torch
from torch import Tensor

from tabsynth._typing import JsonObject
from tabsynth._validate import quote
from tabsynth.errors import InputError
from tabsynth.privacy.noise.counts import Groups, Measured, by_value, cells_of, number_of
from tabsynth.schema.column import Column
from tabsynth.schema.constraints import Order
from tabsynth.schema.schema import Schema
from tabsynth.synthesizers.margnet.config import MargNetConfig
from tabsynth.synthesizers.margnet.declared import TableCounts, is_list
from tabsynth.synthesizers.margnet.grids import GridCounts

# Of the errors of counts of given columns: a root's columns, which the model of its children is given. Together with the root's
# share of 0.4 in place of 0.5 it takes the pairs of persons' columns from a distance of 0.079 to 0.070 at ε = 1:
# reports/units/linked.md. By itself it was measured on visits alone, where it changes nothing beyond the spread of seeds.
GIVEN_WEIGHT = 0.1
# Of the errors of the sets of a workload, and of the target's pairs; other sets weigh 1.
WORKLOAD_WEIGHT = 15.0
WEIGHTS_IMPORTANCE = 15.0  # of the errors of counts with the classes of survey weights
ONE_WAY_NOISE = 0.03  # mean L1/2 noise of a column's counts, as a share of the rows, above which columns are counted again
# Pairs that are taken to be counted, for groups of values; all pairs where these are fewer.
PAIRS_PER_COLUMN = 3.0
MAX_GROUP = 0.03  # share of the rows: an unordered value of more is never merged, and a group of values needs no more
TREE_WEIGHT = 5.0  # of the errors of pairs in the maximum spanning tree of the scores, so of the strongest that connect all columns
TREE_NOISE = 0.05  # mean L1/2 noise of counts of pairs, as a share of the rows, up to which pairs of the tree weigh 1, too
MAX_TRIPLES = 120
# Triples are counted where their mean L1 noise is at most this share of the rows.
TRIPLES_NOISE = 0.3

# Tensors of a model file.
KEPT = ("measured.counts", "measured.pairs", "measured.triples", "measured.grids")
MOST_KEPT = 4_000_000  # cells of counts in a model file: 32 MB
GROUPS = 4  # of the values of a column, in its signs: a sum modulo k of low and high values shows in four, not in two
CODES = 3  # of signs of each column; see sign_codes
MAX_ORDER = 7  # the most columns whose signs are multiplied …
MAX_SUMS = 3900  # … where there are no more sums than this: all sets of up to 7 of 12 columns, and triples of up to 19
MAX_RELATED = 3  # relations of four and more columns that are counted
CLEAR_SUM = 3.0  # standard deviations of a sum of signs that says something of larger sets
BISECTIONS = 40  # of moments, which are between -1 and 1
LEAST_SHARE = 1e-6  # of the rows in a cell
REACH = 2.0  # standard deviations
LEAST_STD = 0.1  # in counts: what exact counts are weighed by


@dataclass(frozen=True)
class Workload:
    """Optional, data-independent hints. They decide what is counted, and with which share of the budget.

    Attributes
    ----------
    sets : tuple of tuple of int
        Pairs and triples of column positions, each in rising order. They are counted in any case.
    target : int, optional
        A column to be predicted from the others: its pairs are important, and counted if they are
        worth it.
    columns : tuple of int
        Columns whose own counts are important.
    given : tuple of int
        Columns whose own counts matter little (``GIVEN_WEIGHT``), because the model is given their values.
    classes : int, optional
        The column of the classes of survey weights: its pairs are counted in any case.
    """

    sets: tuple[tuple[int, ...], ...] = ()
    target: int | None = None
    columns: tuple[int, ...] = ()
    given: tuple[int, ...] = ()
    classes: int | None = None

    def names(self, columns: Sequence[int]) -> bool:
        """Return whether a set is named, or a part of one that is, or a pair with the classes of weights."""
        if len(columns) == 2 and self.classes in columns:
            return True
        return any(set(columns) <= set(named) for named in self.sets)

    def importance(self, sets: Sequence[tuple[int, ...]]) -> np.ndarray:
        """Return weights of the errors of sets of columns, shape (sets,)."""
        important = [
            columns[0] in self.columns
            if len(columns) == 1
            else self.target in columns or any(set(columns) <= set(named) for named in self.sets)
            for columns in sets
        ]
        classed = [len(columns) > 1 and self.classes in columns for columns in sets]
        is_given = [len(columns) == 1 and columns[0] in self.given for columns in sets]
        hinted = np.where(important, WORKLOAD_WEIGHT, np.where(is_given, GIVEN_WEIGHT, 1.0))
        return np.where(classed, np.maximum(hinted, WEIGHTS_IMPORTANCE), hinted)


@dataclass(frozen=True, eq=False)
class Resolution:
    """Groups of the values of every column, by the set of columns that is counted.

    Attributes
    ----------
    values : Groups
        Each value by itself: of single columns.
    pairs, triples : Groups
    """

    values: Groups
    pairs: Groups
    triples: Groups

    @classmethod
    def by_value(cls, sizes: Sequence[int]) -> Self:
        """Return each value by itself, in all counts."""
        groups = by_value(sizes)
        return cls(groups, groups, groups)

    def of(self, columns: Sequence[int]) -> Groups:
        """Return the groups that a set of columns is counted in."""
        return {1: self.values, 2: self.pairs}.get(len(columns), self.triples)

    def narrow(self, paired: set[int]) -> Self:
        """Return one group for all values of the other columns: of what is left out no matrix is held."""
        pairs, triples = (
            [g if j in paired else np.zeros_like(g) for j, g in enumerate(by)]
            for by in (self.pairs, self.triples)
        )
        return replace(self, pairs=pairs, triples=triples)


class Domain(Protocol):
    """The domain of the counts: columns that merge their values into groups, and their numbers of codes."""

    @property
    def columns(self) -> Sequence[Any]:
        """The modelled columns."""
        ...

    @property
    def sizes(self) -> Sequence[int]:
        """Their numbers of codes."""
        ...


@dataclass(frozen=True, eq=False)
class Measurements:
    """All noisy counts of a fit. The rest of the fit is post-processing of them.

    Attributes
    ----------
    counts : list of Measured
        Of every column, value by value; of pairs and triples of columns, group by group.
    rows : float
        Estimated or declared.
    resolution : Resolution
    tables : sequence of TableCounts
        Of declared tables.
    grids : sequence of GridCounts
        Of tables of four and more columns.
    """

    counts: list[Measured]
    rows: float
    resolution: Resolution
    tables: Sequence[TableCounts] = ()
    grids: Sequence[GridCounts] = ()

    def facts(self) -> JsonObject:
        """Return what a model file says of the counts, JSON-ready: the number of rows, each set of columns, its noise."""
        sets = [[list(m.columns), m.std] for m in self.counts]
        grids = [[list(grid.columns), grid.std] for grid in self.grids]
        return {"rows": self.rows, "sets": sets} | ({"grids": grids} if grids else {})

    def tensors(self) -> dict[str, Tensor]:
        """Return the counts in one row, and the groups of values that they are in; nothing of more than ``MOST_KEPT`` cells."""
        of_grids = [group for grid in self.grids for group in grid.groups]
        by = (self.resolution.pairs, self.resolution.triples, *([of_grids] if of_grids else []))
        groups = (np.concatenate(of) for of in by)
        counts = np.concatenate([cells.ravel() for cells in self.cells])
        tensors = map(torch.from_numpy, (counts, *(g.astype(np.int64) for g in groups)))
        return dict(zip(KEPT, tensors, strict=False))

    @property
    def keepable(self) -> bool:
        """True where the counts are few enough for a model file."""
        return sum(cells.size for cells in self.cells) <= MOST_KEPT

    @property
    def cells(self) -> list[np.ndarray]:
        """The counts alone, of sets of columns and of grids."""
        return [m.counts for m in self.counts] + [grid.counts for grid in self.grids]

    @classmethod
    def of_file(
        cls, facts: JsonObject, tensors: Mapping[str, Tensor], sizes: Sequence[int]
    ) -> Self:
        """Invert :meth:`facts` and :meth:`tensors`.

        Raises
        ------
        ValueError
            If they do not belong together, or not to columns of these sizes.
        """
        flat, pairs, triples = (tensors[name].numpy() for name in KEPT[:3])
        resolution = Resolution(
            by_value(sizes), *(_split_groups(g, range(len(sizes)), sizes) for g in (pairs, triples))
        )
        counts, grids, start = list[Measured](), list[GridCounts](), 0
        in_grids = facts.get("grids", ())
        of_grids = tensors[KEPT[3]].numpy() if in_grids else np.zeros(0, int)
        columns_of_grids = [j for columns, _ in in_grids for j in columns]
        groups_of_grids = iter(_split_groups(of_grids, columns_of_grids, sizes))
        for i, (columns, std) in enumerate([*facts["sets"], *in_grids]):
            most = 3 if i < len(facts["sets"]) else len(sizes)
            if not 1 <= len(columns) <= most or sorted(set(columns)) != columns or columns[0] < 0:
                raise ValueError("a set of columns is none")
            by = [resolution.of(columns)[j] for j in columns]
            if i >= len(facts["sets"]):
                by = [next(groups_of_grids) for _ in columns]
            end = start + math.prod(map(number_of, by))
            cells = flat[start:end].reshape([number_of(group) for group in by])
            if i < len(facts["sets"]):
                counts.append(Measured(tuple(columns), cells, float(std)))
            else:
                grids.append(GridCounts(tuple(columns), tuple(by), cells, float(std)))
            start = end
        rows = float(facts["rows"])
        stds = [m.std for m in counts] + [grid.std for grid in grids]
        whole = start == len(flat) and bool(np.isfinite(flat).all())
        whole &= [m.columns for m in counts[: len(sizes)]] == [(j,) for j in range(len(sizes))]
        if not whole or not 1 <= rows < math.inf or not all(0 <= std < math.inf for std in stds):
            raise ValueError("counts and sets of columns differ")
        return cls(counts, rows, resolution, grids=grids)


def _split_groups(groups: np.ndarray, columns: Sequence[int], sizes: Sequence[int]) -> Groups:
    """Return the groups of the values of some columns, which lie one after the other.

    Raises
    ------
    ValueError
        If they are none.
    """
    by = np.split(groups, np.cumsum([sizes[j] for j in columns])[:-1]) if len(columns) else []
    for group, j in zip(by, columns, strict=True):
        if (
            group.dtype != np.int64
            or group.shape != (sizes[j],)
            or set(group) != set(range(number_of(group)))
        ):
            raise ValueError("groups of values are no groups")
    return by


Pair = tuple[int, int]
Triple = tuple[int, int, int]
Columns = TypeVar("Columns", bound=tuple[int, ...])

DEFAULTS = MargNetConfig()
NOTHING_NAMED = Workload()


def pairs_within(
    groups: Groups, max_cells: int, max_width: int, workload: Workload = NOTHING_NAMED
) -> list[Pair]:
    """Return all pairs of columns within the limits.

    The columns of most groups are left out, one by one, until the others together have at most
    ``max_width`` groups, but for those that a workload's sets name; and so are pairs of more than
    ``max_cells`` cells.
    """
    sizes = [number_of(group) for group in groups]
    paired = set(range(len(sizes)))
    named = {j for columns in workload.sets for j in columns}
    for j in sorted(paired - named, key=lambda j: (-sizes[j], j)):
        if sum(sizes[i] for i in paired) <= max_width:
            break
        paired.remove(j)
    pairs = combinations(sorted(paired), 2)
    return [(a, b) for a, b in pairs if sizes[a] * sizes[b] <= max_cells]


def share_of_columns(
    noise: float,
    sizes: Sequence[int],
    cells: Sequence[int],
    rows: float,
    config: MargNetConfig = DEFAULTS,
) -> float:
    """Return the part of the budget of pairs and triples that goes to one-way counts again.

    As much as brings their noise down to ``ONE_WAY_NOISE``; nothing where the first counts do, which had
    ``one_way_share`` of the budget. But no more than is best for all pairs of columns together: with a part s, the noise
    of columns is in every pair, a/√s in all, and that of counts of pairs in those that are counted, with so
    many ``cells`` each, b/√(1−s). The sum is least where s/(1−s) = (a/b)^(2/3).

    ``noise`` is that of all counts of pairs and triples together.
    """
    column, pair = (_mean_error(noise, of, rows) for of in (sizes, cells))
    share = (column / ONE_WAY_NOISE) ** 2
    if share <= config.one_way_share:
        return 0.0
    ratio = (math.comb(len(sizes), 2) * column / (len(cells) * pair)) ** (2 / 3)
    return min(share, ratio / (1 + ratio))


def _mean_error(noise: float, cells: Sequence[int], rows: float) -> float:
    """Return the mean L1/2 noise of counts, as a share of the rows, where all the budget is theirs."""
    total = _total_error(noise, (np.array(cells) ** (2 / 3)).sum())
    return float(total / (2 * len(cells) * rows))


def _total_error(noise: float, costs: Any) -> Any:
    """Return the mean total of w · L1 noise of counts with shares ∝ (w · cells)^(2/3), of which ``costs`` is the sum."""
    return math.sqrt(2 / math.pi) * noise * costs**1.5


def least_rows(noise: float, columns: int, pairs: int, config: MargNetConfig = DEFAULTS) -> float:
    """Return the number of rows that a group of values should have: ``group_noise`` times the noise of a pair's counts.

    ``noise`` is that of all counts of pairs together; ``PAIRS_PER_COLUMN`` pairs for each column share it.
    """
    shared = max(1, min(pairs, PAIRS_PER_COLUMN * columns))
    return config.group_noise * noise * math.sqrt(shared)


def groups_of(
    column: Column,
    shares: np.ndarray,
    least_share: float,
    merged: float = 1.0,
    coarsest: float = MAX_GROUP,
) -> np.ndarray:
    """Return groups of a column's values, shape (size,), of at least ``least_share`` of the rows each, or ``coarsest``.

    Neighbours are merged where the column has an order (null stays by itself); else the rarest values,
    as long as they are no more than ``merged`` of all rows.
    """
    return column.groups(shares, min(least_share, coarsest), merged)


def chance_distance(expected: np.ndarray) -> float:
    """Return the L1 distance of the counts of independent columns from ``expected``, by chance alone."""
    return float(np.sqrt(2 / np.pi * np.clip(expected, 0, None)).sum())


def worth_counting(
    pairs: Sequence[Columns],
    distances: np.ndarray,
    groups: Groups,
    noise: float,
    workload: Workload = NOTHING_NAMED,
    config: MargNetConfig = DEFAULTS,
) -> list[Columns]:
    """Return the pairs whose distance from independence, in rows, is worth the noise of counting them.

    With shares ∝ (w · cells)^(2/3), counts of pairs with c₁, c₂, … cells and importances w₁, w₂, … have a
    mean total of w · error of √(2/π) σ (Σ (wᵢcᵢ)^(2/3))^(3/2); a pair that is not counted is wrong by its
    distance. The sum is least for some number of the pairs with the highest w · distance / (wc)^(2/3).
    Those that the workload names are counted in any case.
    """
    named = np.array([workload.names(pair) for pair in pairs])
    importance = workload.importance(pairs)
    worth = importance * np.clip(distances, 0, None)
    costs = (importance * [cells_of(pair, groups) for pair in pairs]) ** (2 / 3)
    order = np.lexsort((-importance * distances / costs, ~named))
    gains = worth[order].cumsum()
    errors = config.residual_noise * _total_error(noise, costs[order].cumsum())
    net = np.concatenate([[0.0], gains - errors])  # of the first 0, 1, 2, … pairs
    forced = int(named.sum())
    return sorted(pairs[i] for i in order[: forced + int(np.argmax(net[forced:]))])


def weighted_tree(
    pairs: Sequence[Pair],
    distances: Sequence[float],
    groups: Groups,
    noise: float,
    rows: float,
) -> list[Pair]:
    """Return the pairs whose errors weigh ``TREE_WEIGHT``: the spanning tree's where noise hides what others show, else none.

    ``noise`` is that of all counts of pairs and triples together, in rows.
    """
    cells = [cells_of(pair, groups) for pair in pairs]
    if not pairs or _mean_error(noise, cells, rows) <= TREE_NOISE:
        return []
    return spanning_tree(pairs, distances)


def spanning_tree(pairs: Sequence[Pair], distances: Sequence[float]) -> list[Pair]:
    """Return the pairs of the largest distances that connect all columns of ``pairs`` without a cycle (Kruskal 1956)."""
    part = {j: j for pair in pairs for j in pair}  # of a column, another one of its part, or itself
    tree = list[Pair]()
    for i in np.argsort(-np.asarray(distances), kind="stable"):
        ends = list(pairs[i])
        for end, j in enumerate(ends):
            while part[j] != j:
                part[j] = j = part[part[j]]
            ends[end] = j
        if ends[0] != ends[1]:
            part[ends[0]] = ends[1]
            tree.append(pairs[i])
    return sorted(tree)


def triples_within(pairs: Sequence[Pair], groups: Groups, max_cells: int) -> list[Triple]:
    """Return triples of columns whose three pairs are all among ``pairs``."""
    sizes = [number_of(group) for group in groups]
    after: dict[int, set[int]] = {}
    for a, b in pairs:
        after.setdefault(a, set()).add(b)
    return [
        (a, b, c)
        for a, b in sorted(pairs)
        for c in sorted(after[a] & after.get(b, set()))
        if sizes[a] * sizes[b] * sizes[c] <= max_cells
    ]


def share_of_triples(
    pairs: float, triples: float, max_share: float = DEFAULTS.triples_share
) -> float:
    """Return the triples' part of the budget of pairs and triples, from their importances in all."""
    return max_share * min(1.0, triples / pairs)


def clear_triples(
    triples: Sequence[Triple],
    worth: np.ndarray,
    groups: Groups,
    noise: float,
    pairs: float,
    most_cells: int,
    workload: Workload = NOTHING_NAMED,
    config: MargNetConfig = DEFAULTS,
    forced: Sequence[Triple] = (),
) -> list[Triple]:
    """Return the triples of most ``worth``, if the noise leaves their counts clear; else those that are named or ``forced``.

    Of triples of one worth those are taken whose columns have been taken least; what is not named has
    ``most_cells`` in all.

    ``noise`` is that of all counts of pairs and triples together, as a share of the rows; ``pairs`` is
    the importance of all pairs.
    """
    named = {t for t in triples if t in forced or workload.names(t)}
    unnamed = [i for i, triple in enumerate(triples) if triple not in named]
    candidates = [triples[i] for i in unnamed]
    sizes = [number_of(group) for group in groups]  # once: triples may be millions
    cells = [sizes[a] * sizes[b] * sizes[c] for a, b, c in candidates]
    first = _first(candidates, worth[unnamed], cells, MAX_TRIPLES - len(named), most_cells)
    chosen = sorted([*named, *first])
    if not chosen or not config.triples_share:
        return []
    importance = workload.importance(chosen)
    costs = (importance * [cells_of(triple, groups) for triple in chosen]) ** (2 / 3)
    std = noise / math.sqrt(share_of_triples(pairs, importance.sum(), config.triples_share))
    error = _total_error(std, costs.sum())
    return chosen if error <= TRIPLES_NOISE * importance.sum() else sorted(named)


def interacting(
    sizes: Mapping[Triple, float],
    groups: Groups,
    noise: float,
    pairs: int,
    workload: Workload = NOTHING_NAMED,
    config: MargNetConfig = DEFAULTS,
) -> list[Triple]:
    """Return the triples whose interaction is worth the noise of counting them, of at most ``MAX_TRIPLES``.

    ``sizes`` are interactions in rows; ``noise`` is that of all counts of pairs and triples together, in rows, and ``pairs`` the number
    of pairs that share it.
    """
    largest = sorted(sizes, key=lambda triple: -sizes[triple])[:MAX_TRIPLES]
    if not largest or not config.triples_share:
        return []
    share = share_of_triples(max(pairs, len(largest)), len(largest), config.triples_share)
    distances = np.array([sizes[triple] for triple in largest])
    return worth_counting(largest, distances, groups, noise / math.sqrt(share), workload, config)


def _first(
    triples: Sequence[Triple],
    worth: np.ndarray,
    cells: Sequence[int],
    max_triples: int,
    most_cells: int,
) -> list[Triple]:
    """Return the first triples by worth, then by how often their columns are among those before, that have room."""
    uses: Counter[int] = Counter()
    chosen, room = list[Triple](), most_cells
    heap = [(-w, 0, t, c) for w, t, c in zip(worth.tolist(), triples, cells, strict=True)]
    heapq.heapify(heap)
    while heap and len(chosen) < max_triples:
        lost, counted_uses, triple, size = heap[0]
        used = sum(uses[j] for j in triple)
        if used > counted_uses:  # uses only grow, so that what is held is never too late
            heapq.heapreplace(heap, (lost, used, triple, size))
            continue
        heapq.heappop(heap)
        if size <= room:
            room -= size
            chosen.append(triple)
            uses.update(triple)
    return chosen


def sign_codes(share: np.ndarray) -> np.ndarray:
    """Return three codes of +1 and -1 for the values of a column, shape (3, values).

    The values are in at most ``GROUPS`` groups of neighbours, with as even shares of the rows as these allow; few values stay by
    themselves. The codes are low and high values, outer and inner ones (of four groups the first and the last; of three the first), and
    values in even and odd places. Of three values each code has another one alone; of two values all codes are the same.
    """
    places = np.arange(len(share))
    group = places
    if len(share) > GROUPS:
        middle = (share.cumsum() - share / 2) / share.sum()
        group = np.unique((GROUPS * middle).astype(int), return_inverse=True)[1]
    low = 2 * group <= group.max()
    return np.where([low, group % (GROUPS - 1) == 0, places % 2 == 0], 1.0, -1.0)


def from_pairs(ones: np.ndarray, twos: np.ndarray) -> np.ndarray:
    """Return the mean product of three columns of signs without an interaction of all three, given those of one and two of them.

    It is where the cells of the 2 x 2 x 2 table have a three-way odds ratio of 1 (Bartlett 1935), by bisection.

    Parameters
    ----------
    ones : ndarray, shape (..., 3)
        The mean sign of each column.
    twos : ndarray, shape (..., 3)
        The mean products of the first two columns, of the first and the last, and of the last two. May be noisy: where no table
        has them, the result is between the bounds that they contradict.

    Returns
    -------
    ndarray, shape (...)
        From -1 to 1.
    """
    signs = np.array(list(np.ndindex(2, 2, 2))).T * -2.0 + 1
    products = np.array([signs[a] * signs[b] for a, b in combinations(range(3), 2)])
    # Eight times the shares, without the mean product of all three.
    cells, three = 1 + ones @ signs + twos @ products, signs.prod(axis=0)
    up, down = (np.moveaxis(cells[..., three == sign], -1, 0) for sign in (1, -1))
    low, high = np.clip(-up.min(axis=0), -1, 1), np.clip(down.min(axis=0), -1, 1)
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        positive, negative = (
            math.prod(np.maximum(c, LEAST_SHARE)) for c in (up + middle, down - middle)
        )
        less = positive < negative
        low, high = np.where(less, middle, low), np.where(less, high, middle)
    return (low + high) / 2


def noise_of_pairs(ones: np.ndarray, twos: np.ndarray, std: float) -> np.ndarray:
    """Return the standard deviation of :func:`from_pairs` by noise of ``std`` on each of ``twos``, shape (...).

    By the changes that noise of ``REACH`` standard deviations makes, up or down: derivatives are too low where cells are almost empty.
    """
    ways = REACH * std * np.concatenate([np.eye(3), -np.eye(3)])
    moved = from_pairs(ones, twos + ways.reshape(-1, *(1,) * (ones.ndim - 1), 3))
    changes = abs(moved - from_pairs(ones, twos))
    return np.sqrt(np.square(np.maximum(*np.split(changes, 2)) / REACH).sum(axis=0))


def interactions(
    sums: Mapping[tuple[int, ...], np.ndarray],
    std: float,
    means: Sequence[np.ndarray],
    rows: float,
    least_noise: float,
    least_share: float,
) -> dict[tuple[int, ...], float]:
    """Return the triples with a clear interaction of at least the share ``least_share`` of the rows, in L1/2, and that in L1 and rows.

    It is clear where one of the codes differs from what the pairs show by ``least_noise`` standard deviations of noise and of chance.

    Parameters
    ----------
    sums : dict of ndarray, shape (codes,)
        Over the rows, of the products of the signs of three columns and of all their pairs.
    std : float
        Standard deviation of the noise on each.
    means : sequence of ndarray, shape (codes,)
        The mean signs of every column of the table.
    rows : float
    least_noise, least_share : float
    """
    triples = [columns for columns in sums if len(columns) == 3]
    if not triples:
        return {}
    ones = np.array([[means[j] for j in t] for t in triples]).swapaxes(1, 2)
    twos = np.array([[sums[pair] for pair in combinations(t, 2)] for t in triples]).swapaxes(1, 2)
    one_sum = math.hypot(std, math.sqrt(rows))  # noise and chance
    expected = rows * from_pairs(ones, twos / rows)
    noise = np.hypot(one_sum, rows * noise_of_pairs(ones, twos / rows, one_sum / rows))
    difference = np.abs(np.array([sums[triple] for triple in triples]) - expected)
    clear = difference >= np.maximum(least_noise * noise, 2 * least_share * rows)
    sizes = np.where(clear, difference, 0.0).max(axis=1)
    return {t: float(size) for t, size in zip(triples, sizes, strict=True) if size}


def largest_order(columns: int) -> int:
    """Return the most columns whose products of signs are summed, of so many columns; 0 where not even all triples are.

    There are at most ``MAX_SUMS`` sums, ``CODES`` of each pair and triple and one of each larger set.
    """
    order, sums = 0, CODES * math.comb(columns, 2)
    for more in range(3, min(columns, MAX_ORDER) + 1):
        sums += math.comb(columns, more) * (CODES if more == 3 else 1)
        if sums <= MAX_SUMS:
            order = more
    return order


def high_interactions(
    sums: Mapping[tuple[int, ...], float],
    std: float,
    means: Sequence[float],
    rows: float,
    least_noise: float,
    least_share: float,
) -> list[tuple[int, ...]]:
    """Return sets of four columns and more with a clear interaction of all, at most ``MAX_RELATED``, the largest first.

    It is clear where the mean product of the signs, each less its mean, is ``least_noise`` standard deviations of noise and of chance, and
    twice what the products of clear ones of two parts may leave. So a relation is found that no smaller set shows.

    Parameters
    ----------
    sums : dict of float
        Over the rows, of the products of the signs of sets of two and more columns.
    std : float
        Standard deviation of the noise on each.
    means : sequence of float
        The mean sign of every column.
    rows, least_noise, least_share : float
        As in :func:`interactions`.
    """
    clear = dict[tuple[int, ...], float]()  # mean products of signs less their means
    found = dict[tuple[int, ...], float]()
    known = {columns: total / rows for columns, total in sums.items()}
    known |= {(j,): mean for j, mean in enumerate(means)} | {(): 1.0}
    one_sum = math.hypot(std, math.sqrt(rows)) / rows  # noise and chance
    for columns in sorted(sums, key=len):
        moment = variance = 0.0
        for part in (p for n in range(len(columns) + 1) for p in combinations(columns, n)):
            weight = math.prod(-means[j] for j in columns if j not in part)
            moment += weight * known[part]
            variance += (len(part) > 1) * weight**2
        if abs(moment) < CLEAR_SUM * one_sum * math.sqrt(variance):
            continue
        clear[columns] = moment
        if len(columns) < 4:
            continue
        expected = 0.0  # what smaller sets may leave
        for n in range(2, len(columns) // 2 + 1):
            for part in combinations(columns, n):
                other = tuple(j for j in columns if j not in part)
                expected += abs(clear.get(part, 0.0) * clear.get(other, 0.0))
        least = max(least_noise * one_sum * math.sqrt(variance), 2 * least_share)
        if abs(moment) >= max(least, 2 * expected):
            found[columns] = abs(moment)
    return sorted(found, key=lambda columns: (-found[columns], columns))[:MAX_RELATED]


def parsed_workload(
    schema: Schema, workload: object, target: object, config: MargNetConfig = DEFAULTS
) -> Workload:
    """Return sets of columns and a target, by position among the modelled columns.

    Raises
    ------
    InputError
        For an unknown or repeated column, one that is not modelled, a set of other than two or three, one of three where triples have
        no share of the budget, and a set that may have more than ``config.max_cells`` cells.
    """
    sets, max_cells = [], config.max_cells
    if workload is not None and not is_list(workload):
        raise InputError(
            f"Expected workload to be a list of tuples of columns, got {quote(workload)}."
        )
    for names in () if workload is None else workload:
        if not is_list(names) or not 2 <= len(set(map(str, names))) == len(names) <= 3:
            raise InputError(
                f"Expected each set of workload to name two or three different columns, got"
                f" {quote(names)}."
            )
        columns = tuple(sorted(_position(schema, name, "workload") for name in names))
        if len(columns) == 3 and not config.triples_share:
            raise InputError(
                f"The workload's set {quote(names)} has three columns, and triples_share=0 in the config leaves no budget for it;"
                " raise triples_share, or name pairs."
            )
        cells = math.prod(schema.learned.sizes[j] for j in columns)
        if cells > max_cells:
            raise InputError(
                f"The workload's set {quote(names)} may have {cells:,} cells, past max_cells={max_cells:,};"
                " name fewer columns, or raise max_cells in the config."
            )
        sets.append(columns)
    position = None if target is None else _position(schema, target, "target")
    return Workload(tuple(sets), position)


def _position(schema: Schema, name: object, where: str) -> int:
    names = schema.learned.names
    if not isinstance(name, str) or name not in (*names, *schema.names):
        raise InputError(
            f"The {where} names column {quote(name)}, which the schema does not have; its columns are"
            f" {', '.join(names[:8])}{', …' if len(names) > 8 else ''}."
        )
    if name in names:
        return names.index(name)
    rule = schema.makers.get(name)
    instead, remedy = "is not modelled", "leave it out"
    if isinstance(rule, Order) and rule.difference is not None:
        instead, remedy = "is modelled by a difference", f"name {quote(rule.difference.name)}"
    elif rule is not None:
        other_names = [quote(other) for other in rule.names if other != name]
        instead, remedy = "follows from others by a rule", f"name {' and '.join(other_names)}"
    raise InputError(f"The {where} names column {quote(name)}, which {instead}; {remedy}.")
