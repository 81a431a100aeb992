"""Linked tables as category codes: rows in the order of their parents, and one wide row for each root."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from tabsynth.evaluation.baseline import drawn_by_weight
from tabsynth.evaluation.metric import Columns
from tabsynth.evaluation.weighting import effective_rows

MAX_WIDE = 400  # columns of a wide row


@dataclass(frozen=True, kw_only=True)
class Level:
    """One of several linked tables as category codes.

    Rows of one parent are next to each other, and in their order; parents are in the order of their own level.

    Attributes
    ----------
    codes : ndarray, shape (rows, columns), int64
    parent : ndarray, shape (rows,), int64
        The row of the parent's level that each row belongs to; of the root's level the row itself.
    root : ndarray, shape (rows,), int64
        The row of the root's level that each row belongs to.
    weights : ndarray, shape (rows,), float64, or None
        Of the root's level alone: its survey weights, which count for its other records. None: all count the same.
    """

    codes: np.ndarray
    parent: np.ndarray
    root: np.ndarray
    weights: np.ndarray | None = None

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.codes)

    @property
    def position(self) -> np.ndarray:
        """The position of each row among the rows of its parent, from 0; shape (rows,)."""
        first = np.searchsorted(self.parent, self.parent, side="left")
        return np.arange(len(self)) - first


@dataclass(frozen=True, kw_only=True)
class LevelColumns(Columns):
    """The meaning of the codes of one of several linked tables.

    Attributes
    ----------
    parent : str or None
        The parent of this table; None for the root.
    ordered : bool
        Whether the rows of one parent have an order.
    most : int
        A bound on the rows of one parent; 1 for the root.
    """

    parent: str | None = None
    ordered: bool = False
    most: int = 1


Levels = Mapping[str, Level]  # by table, parents before their children


def weights_of_roots(levels: Levels) -> np.ndarray | None:
    """Return the survey weights of the rows of the root, shape (roots,); None where all count the same."""
    return next(iter(levels.values())).weights


def weights_of_level(levels: Levels, table: str) -> np.ndarray | None:
    """Return the weight of each row of a table, shape (rows,): that of its root. None where all count the same."""
    weights = weights_of_roots(levels)
    return None if weights is None else weights[levels[table].root]


def effective_roots(levels: Levels) -> float:
    """Return the effective number of rows of the root: see :func:`tabsynth.evaluation.weighting.effective_rows`."""
    root = next(iter(levels.values()))
    return effective_rows(root.weights, len(root))


def with_weight(levels: Levels, columns: Mapping[str, LevelColumns]) -> Levels:
    """Return the tables without the roots that stand for nobody, and their other records."""
    weights = weights_of_roots(levels)
    if weights is None or (weights > 0).all():
        return levels
    return of_roots(levels, columns, np.flatnonzero(weights > 0))


def sizes_of_groups(levels: Levels, columns: Mapping[str, LevelColumns], table: str) -> np.ndarray:
    """Return how many rows of a table each row of its parent's has, 0 included; shape (parents,)."""
    parent = columns[table].parent
    assert parent is not None
    return np.bincount(levels[table].parent, minlength=len(levels[parent]))


def of_roots(
    levels: Levels, columns: Mapping[str, LevelColumns], roots: np.ndarray
) -> dict[str, Level]:
    """Return the given rows of the root's level, each once and in that order, with their other records."""
    chosen: dict[str, np.ndarray] = {}
    out: dict[str, Level] = {}
    for table, level in levels.items():
        parent = columns[table].parent
        if parent is None:
            rows = np.asarray(roots)
            parents, root = np.arange(len(rows)), np.arange(len(rows))
        else:
            place = np.full(len(levels[parent]), -1)
            place[chosen[parent]] = np.arange(len(chosen[parent]))
            children = np.flatnonzero(place[level.parent] >= 0)
            rows = children[np.argsort(place[level.parent[children]], kind="stable")]
            parents = place[level.parent[rows]]
            root = out[parent].root[parents]
        chosen[table] = rows
        weights = None if level.weights is None else level.weights[rows]
        out[table] = Level(codes=level.codes[rows], parent=parents, root=root, weights=weights)
    return out


def independent_children(
    levels: Levels, columns: Mapping[str, LevelColumns], rng: np.random.Generator
) -> dict[str, Level]:
    """Return the tables with the rows of each child assigned again at random to all groups, whose sizes stay.

    Rows are kept whole, and so is every table by itself. What is lost are the relations within groups and between
    tables. With survey weights the rows of a child are drawn in proportion to theirs, systematically, so that weighted
    shares stay those of the population: a row whose new root is heavy counts more than it did.
    """

    def assign(table: str) -> np.ndarray:
        weights = weights_of_level(levels, table)
        if weights is None or not weights.any():
            return rng.permutation(len(levels[table]))
        return rng.permutation(drawn_by_weight(weights, len(weights), rng))

    return {
        table: level
        if columns[table].parent is None
        else replace(level, codes=level.codes[assign(table)])
        for table, level in levels.items()
    }


def with_ancestors(
    levels: Levels, columns: Mapping[str, LevelColumns], table: str
) -> tuple[np.ndarray, list[tuple[str, int]]]:
    """Return the codes of a table beside those of all tables above it, and of which table and column each is.

    Returns
    -------
    codes : ndarray, shape (rows, columns of all)
        The root comes first, the table itself last.
    origin : list of (str, int)
    """
    parts = [(table, levels[table].codes)]
    rows, at = levels[table].parent, columns[table].parent
    while at is not None:
        parts.insert(0, (at, levels[at].codes[rows]))
        rows, at = levels[at].parent[rows], columns[at].parent
    origin = [(name, j) for name, codes in parts for j in range(codes.shape[1])]
    return np.concatenate([codes for _, codes in parts], axis=1), origin


def wide_slots(
    levels: Levels, columns: Mapping[str, LevelColumns], limit: int = MAX_WIDE
) -> dict[str, int]:
    """Return how many rows of one parent a wide row has room for, by table.

    As many as its bound and its largest group, fewer where wide rows would have more than ``limit`` columns: then the
    table with the most slots loses one after the other. A table keeps one slot at least.
    """
    slots = {}
    for table, about in columns.items():
        if about.parent is not None:
            largest = int(sizes_of_groups(levels, columns, table).max(initial=1))
            slots[table] = max(1, min(about.most, largest))
    while _width(columns, slots) > limit and max(slots.values()) > 1:
        slots[max(slots, key=lambda name: slots[name])] -= 1
    return slots


def _width(columns: Mapping[str, LevelColumns], slots: Mapping[str, int]) -> int:
    total, rows = 0, dict[str, int]()
    for table, about in columns.items():
        rows[table] = 1 if about.parent is None else rows[about.parent] * slots[table]
        total += rows[table] * (len(about.names) + sum(c.parent == table for c in columns.values()))
    return total


@dataclass(frozen=True, kw_only=True)
class Wide(Columns):
    """One wide row for each root: its own codes, the sizes of its groups, and the codes of the rows in each slot.

    Attributes
    ----------
    codes : ndarray, shape (roots, columns)
        The code after the last one of a column stands for a row that is not there.
    """

    codes: np.ndarray


def wide_rows(
    levels: Levels, columns: Mapping[str, LevelColumns], slots: Mapping[str, int]
) -> Wide:
    """Return one row for each row of the root's level. What has no slot is left out, but counted in the size of its group.

    Rows of one parent without an order are sorted by their codes, so that equal groups have equal wide rows. A size
    counts up to one more than there are slots.
    """
    root = next(table for table, about in columns.items() if about.parent is None)
    parts: list[np.ndarray] = []
    names: list[str] = []
    sizes: list[int] = []
    scores: list[np.ndarray | None] = []

    def add(table: str, rows: np.ndarray, path: tuple[int, ...]) -> None:
        """Append the columns of one slot; ``rows`` of the table, -1 where there is none; shape (roots,)."""
        about, level = columns[table], levels[table]
        there = rows >= 0
        label = ".".join([table, *map(str, (number + 1 for number in path))])
        for j, name in enumerate(about.names):
            codes = np.full(len(rows), about.sizes[j])
            codes[there] = level.codes[rows[there], j]
            parts.append(codes)
            names.append(f"{label}.{name}")
            sizes.append(about.sizes[j] + (about.parent is not None))
            score = about.scores[j]
            absent = [] if about.parent is None else [np.nan]
            scores.append(None if score is None else np.concatenate([score, absent]))
        for child, inner in columns.items():
            if inner.parent != table:
                continue
            counts = sizes_of_groups(levels, columns, child)
            first = np.concatenate([[0], np.cumsum(counts)[:-1]])
            order = (
                _canonical(levels[child]) if not inner.ordered else np.arange(len(levels[child]))
            )
            size = np.zeros(len(rows), dtype=np.int64)
            size[there] = np.minimum(counts[rows[there]], slots[child] + 1)
            parts.append(size)
            names.append(f"{label}.rows of {child}")
            sizes.append(slots[child] + 2)
            scores.append(np.arange(slots[child] + 2, dtype=float))
            for slot in range(slots[child]):
                below = np.full(len(rows), -1)
                full = size > slot
                below[full] = order[first[rows[full]] + slot]
                add(child, below, (*path, slot))

    add(root, np.arange(len(levels[root])), ())
    return Wide(
        codes=np.stack(parts, axis=1),
        names=tuple(names),
        sizes=tuple(sizes),
        scores=tuple(scores),
    )


def _canonical(level: Level) -> np.ndarray:
    """Return rows sorted by their codes within each parent; shape (rows,)."""
    return np.lexsort([*level.codes.T[::-1], level.parent])
