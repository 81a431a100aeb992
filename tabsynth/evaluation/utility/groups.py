"""The relations between rows of linked tables: group sizes, siblings, sequences, and parents with children.

Each figure compares what is counted once for each item: a group, a pair of siblings, a run of consecutive siblings, or a
child with its parent. Siblings are the rows of one parent. The distance is total variation over the cells of an item's
columns, a mean over sets of columns, as in :mod:`tabsynth.evaluation.utility.marginals`.

With survey weights an item counts as its root does.

The intervals are normal, from the influence of each root with its other records (delta method for a ratio of totals of
clusters; Cochran 1977, *Sampling Techniques*, chapter 6): items of one root are not independent.
"""

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter

import numpy as np

from tabsynth.evaluation.definitions import Definition, definition_of
from tabsynth.evaluation.grouped import (
    Level,
    LevelColumns,
    Levels,
    sizes_of_groups,
    weights_of_level,
    weights_of_roots,
    with_ancestors,
)
from tabsynth.evaluation.metric import (
    GROUPS,
    SHOWN_PARTS,
    Compared,
    Metric,
    group_numbers,
    jackknife,
    worst_first,
)
from tabsynth.evaluation.results import Distances, Estimate
from tabsynth.evaluation.utility.marginals import distance
from tabsynth.evaluation.weighting import WeightedRows

LARGEST_SIZE = 100  # larger groups are counted together
OTHERS = 49  # siblings that a row of a larger group is paired with
LAST_POSITION = 9  # later rows of a group are counted with it
GROUP_SIZE = definition_of("group_size")
BETWEEN_LEVELS = definition_of("between_levels")
SIBLING_PAIRS = definition_of("sibling_pairs")
SIBLING_DIFFERENCES = definition_of("sibling_differences")
POSITION = definition_of("position")
SEQUENCES = definition_of("transitions")


@dataclass(frozen=True)
class Counted:
    """A way to count linked tables: items of their rows, in clusters by root, and the sets of the items' columns that are compared."""

    items: Callable[[Levels], WeightedRows]
    sets: Sequence[tuple[int, ...]]
    sizes: Sequence[int]
    names: Sequence[str]


@dataclass(frozen=True)
class _Child:
    """A table below another one, in the training tables and in those that are compared with them."""

    train: Levels
    compared: Compared[Levels]
    columns: Mapping[str, LevelColumns]
    table: str

    @property
    def about(self) -> LevelColumns:
        return self.columns[self.table]

    def level(self, levels: Levels) -> Level:
        return levels[self.table]

    def metric(
        self, definition: Definition, counted: Counted, *, key: str = "", title: str = ""
    ) -> Metric:
        """Return the mean distance of the items of the training tables from those of each of the others."""

        def weigh(levels: Levels) -> WeightedRows:
            items, weights = counted.items(levels), weights_of_roots(levels)
            if weights is None:
                return items
            return replace(items, weights=items.each * weights[items.clusters])

        real, sets = weigh(self.train), counted.sets
        compared = self.compared.map(
            lambda levels: distance(real, weigh(levels), sets, counted.names, counted.sizes)
        )
        parts = compared.parts(
            [" × ".join(marginal.columns) for marginal in compared.synthetic.marginals],
            lambda item: [marginal.value for marginal in item.marginals],
        )
        return Metric(
            definition,
            *compared.map(lambda item: item.mean),
            worst_first(parts, "lower", SHOWN_PARTS),
            key=f"{self.table}.{key or definition.keys[0]}",
            title=title or f"{definition.name}, {self.table}",
            of_relations=definition is not GROUP_SIZE,
            details=Distances(
                max(map(len, sets)), compared.synthetic, compared.baseline, compared.holdout
            ),
        )


def group_metrics(
    train: Levels,
    compared_tables: Compared[Levels],
    columns: Mapping[str, LevelColumns],
    table: str,
    rng: np.random.Generator,
) -> list[Metric]:
    """Return all metrics of the relation between the rows of one table and those of its parent.

    Metrics of siblings are left out where no group of the training tables has two rows, and those of sequences where
    rows have no order.

    Parameters
    ----------
    train : dict of str to Level
    compared_tables : Compared of dict of str to Level
        The synthetic tables, real tables of roots that no synthesizer saw, and tables of independent children.
    """
    child = _Child(train, compared_tables, columns, table)
    metrics = [_sizes(child), _parents_and_children(child)]
    if len(train[table]) and train[table].position.max() > 0:
        metrics += [_pairs(child), *_differences(child, rng)]
        if child.about.ordered:
            metrics += _sequences(child)
    return metrics


def _sizes(child: _Child) -> Metric:
    """Compare the numbers of children."""
    parent = child.about.parent
    assert parent is not None

    def items(levels: Levels) -> WeightedRows:
        sizes = np.minimum(sizes_of_groups(levels, child.columns, child.table), LARGEST_SIZE)
        return WeightedRows(sizes[:, None], np.ones(len(sizes)), levels[parent].root)

    counted = Counted(items, [(0,)], (LARGEST_SIZE + 1,), ("rows",))
    return child.metric(GROUP_SIZE, counted, title=f"Group size, {child.table} of {parent}")


def _parents_and_children(child: _Child) -> Metric:
    """Compare each column of a child with each column of every table above it."""
    columns, table = child.columns, child.table
    _, origin = with_ancestors(child.train, columns, table)
    below = [i for i, (name, _) in enumerate(origin) if name == table]
    sets = [(i, j) for i, (name, _) in enumerate(origin) if name != table for j in below]
    names = tuple(f"{name}.{columns[name].names[j]}" for name, j in origin)

    def items(levels: Levels) -> WeightedRows:
        codes, _ = with_ancestors(levels, columns, table)
        return WeightedRows(codes, np.ones(len(codes)), levels[table].root)

    counted = Counted(items, sets, [columns[name].sizes[j] for name, j in origin], names)
    return child.metric(BETWEEN_LEVELS, counted)


def sibling_pairs(level: Level, limit: int = OTHERS) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return each row with its siblings: (row, sibling, weight), one entry for each ordered pair.

    The weights of a row sum to 1, so that large groups count by their rows. In a group of more than ``limit`` + 1 rows
    each row is paired with ``limit`` siblings at regular distances in the group.
    """
    first = np.searchsorted(level.parent, level.parent, side="left")
    size = np.searchsorted(level.parent, level.parent, side="right") - first
    position = np.arange(len(level)) - first
    rows, siblings, weights = [], [], []
    for step in range(1, min(int(size.max(initial=1)) - 1, limit) + 1):
        here = np.flatnonzero(size > step)
        pairs = np.minimum(size[here] - 1, limit)
        # 1, 2, … in small groups; spread over the whole of a large one.
        offset = np.where(size[here] - 1 <= limit, step, step * (size[here] - 1) // limit)
        rows.append(here)
        siblings.append(first[here] + (position[here] + offset) % size[here])
        weights.append(1 / pairs)
    if not rows:
        empty = np.zeros(0, dtype=np.int64)
        return empty, empty, np.zeros(0)
    return np.concatenate(rows), np.concatenate(siblings), np.concatenate(weights)


def _pairs(child: _Child) -> Metric:
    """Compare the columns of a random row with those of a random sibling."""
    about = child.about
    width = len(about.names)

    def items(levels: Levels) -> WeightedRows:
        level = child.level(levels)
        rows, siblings, weights = sibling_pairs(level)
        codes = np.concatenate([level.codes[rows], level.codes[siblings]], axis=1)
        return WeightedRows(codes, weights, level.root[rows])

    sets = [(i, width + j) for i, j in itertools.combinations_with_replacement(range(width), 2)]
    names = (*about.names, *(f"sibling's {name}" for name in about.names))
    return child.metric(SIBLING_PAIRS, Counted(items, sets, about.sizes * 2, names))


def _differences(child: _Child, rng: np.random.Generator) -> list[Metric]:
    """Measure how far apart siblings are in each column whose values have an order."""
    ordered = [(j, score) for j, score in enumerate(child.about.scores) if score is not None]
    if not ordered:
        return []
    drawn = _apart(child, child.train, ordered, rng)
    compared = child.compared.map(lambda levels: _apart(child, levels, ordered, rng))
    tables = [drawn, *(item for item in compared if item is not None)]
    grids = [
        np.unique(np.concatenate(parts))
        for parts in zip(*([d for d, *_ in t] for t in tables), strict=True)
    ]
    curves = [_cumulative(*part, grid) for part, grid in zip(drawn, grids, strict=True)]
    lengths = iter(len(child.level(t)) for t in child.compared if t is not None)

    def compare(other: Apart) -> tuple[np.ndarray, Estimate]:
        gaps = np.array(
            [
                np.abs(curve - _cumulative(*part, grid)).max(axis=1, initial=0.0)
                for curve, part, grid in zip(curves, other, grids, strict=True)
            ]
        )
        mean, n = gaps.mean(axis=0), min(len(child.level(child.train)), next(lengths))
        return gaps[:, 0], jackknife(float(mean[0]), mean[1:], n, 0.0, 1.0)

    figures = compared.map(compare)
    names = [child.about.names[j] for j, _ in ordered]
    parts = figures.parts(names, itemgetter(0), len(child.level(child.compared.synthetic)))
    return [
        Metric(
            SIBLING_DIFFERENCES,
            *figures.map(itemgetter(1)),
            worst_first(parts, "lower", SHOWN_PARTS),
            key=f"{child.table}.sibling_differences",
            title=f"{SIBLING_DIFFERENCES.name}, {child.table}",
        )
    ]


Apart = list[tuple[np.ndarray, np.ndarray, np.ndarray]]


def _apart(
    child: _Child,
    levels: Levels,
    ordered: Sequence[tuple[int, np.ndarray]],
    rng: np.random.Generator,
) -> Apart:
    """Return absolute differences of pairs without nulls, their weights and jackknife groups, for each ordered column."""
    level, of_rows = child.level(levels), weights_of_level(levels, child.table)
    rows, siblings, weights = sibling_pairs(level)
    weights = weights if of_rows is None else weights * of_rows[rows]
    roots = int(level.root.max(initial=-1)) + 1
    groups = group_numbers(roots, rng)[level.root[rows]] if len(rows) else rows
    out = []
    for j, score in ordered:
        values = score[level.codes[:, j]]
        apart = np.abs(values[rows] - values[siblings])
        finite = np.isfinite(apart)
        out.append((apart[finite], weights[finite], groups[finite]))
    return out


def _cumulative(
    apart: np.ndarray, weights: np.ndarray, groups: np.ndarray, grid: np.ndarray
) -> np.ndarray:
    """Return cumulative shares on the grid, of all pairs and without each group; shape (1 + groups, grid)."""
    cells = np.searchsorted(grid, apart) + len(grid) * groups
    counts = np.bincount(cells, weights, minlength=len(grid) * GROUPS).reshape(GROUPS, len(grid))
    total = counts.sum(axis=0)
    counts = np.concatenate([total[None], total - counts])
    sums = counts.sum(axis=1, keepdims=True)
    return np.cumsum(counts, axis=1) / np.where(sums > 0, sums, 1.0)


def _sequences(child: _Child) -> list[Metric]:
    """Compare columns at each place of a group, and the values of consecutive rows."""
    about = child.about
    width = len(about.names)

    def runs(length: int) -> Callable[[Levels], WeightedRows]:
        def items(levels: Levels) -> WeightedRows:
            level = child.level(levels)
            last = np.arange(length - 1, max(len(level), length - 1))
            last = last[level.parent[last] == level.parent[last - length + 1]]
            parts = [level.codes[last - length + 1 + i] for i in range(length)]
            return WeightedRows(np.concatenate(parts, axis=1), np.ones(len(last)), level.root[last])

        return items

    def places(levels: Levels) -> WeightedRows:
        level = child.level(levels)
        position = np.minimum(level.position, LAST_POSITION)
        codes = np.concatenate([position[:, None], level.codes], axis=1)
        return WeightedRows(codes, np.ones(len(level)), level.root)

    sets: list[tuple[int, ...]] = [(0, 1 + j) for j in range(width)]
    sizes, names = (LAST_POSITION + 1, *about.sizes), ["position", *about.names]
    metrics = [child.metric(POSITION, Counted(places, sets, sizes, names))]
    longest = child.level(child.train).position.max(initial=0) + 1
    for length, key, title in (
        (2, "transitions", "Transitions"),
        (3, "trigrams", "Runs of three"),
    ):
        if longest >= length:
            sets = [tuple(range(j, length * width, width)) for j in range(width)]
            names = [f"{name}, row {i + 1}" for i in range(length) for name in about.names]
            counted = Counted(runs(length), sets, about.sizes * length, names)
            title = f"{title}, {child.table}"
            metrics.append(child.metric(SEQUENCES, counted, key=key, title=title))
    return metrics
