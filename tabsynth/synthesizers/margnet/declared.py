"""Declared tables: noisy counts at each level of a hierarchy, the consistent tables that are fitted to them, and their rounding.

After the TopDown algorithm of the 2020 US census (Abowd et al. 2022, "The 2020 Census Disclosure Avoidance System TopDown
Algorithm"). A table is counted at each level of the hierarchy of its first column, such as PUMA, state and nation, and each level
has the same share of the budget. Weighted least squares in two passes over the tree make the levels consistent (Hay et al. 2010,
"Boosting the Accuracy of Differentially Private Histograms Through Consistency"). From the top down, counts are then projected on
those that are not negative and add up to the level above. All of it is post-processing of the noisy counts.

NOTE[DIFF] TopDown solves an integer program for rounded counts. Here synthetic rows are drawn in any number, so that tables are
rounded for each sample, by systematic sampling along the tree. Each count of the tree is rounded down or up, and its expectation is
the fitted count, as in the controlled rounding of Cox (1987, "A Constructive Procedure for Unbiased Controlled Rounding").
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeGuard

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from tabsynth._typing import JsonObject
from tabsynth._validate import quote
from tabsynth.errors import InputError
from tabsynth.privacy.noise.counts import number_of
from tabsynth.schema.constraints import Derived
from tabsynth.schema.hierarchical import Hierarchical
from tabsynth.schema.schema import Schema, Zero
from tabsynth.synthesizers.margnet.grids import GridCounts

LEAST_ERROR = 0.1  # of a model's counts, in units of the noise: above 0, so that variances are
FURTHER = 10  # part of the limit of cells that a table after the first has


@dataclass(frozen=True, eq=False)
class DeclaredTable:
    """A table that must be accurate: groups of the values of some modelled columns, and the levels of its first column.

    Attributes
    ----------
    names : tuple of str
        Columns of the schema, modelled ones or such as follow from one modelled column by a table.
    columns : tuple of int
        For each the place of the modelled column.
    groups : tuple of ndarray, shape (size,)
        For each the group of every code of the modelled column.
    labels : tuple of tuple of str
        For each what its groups are called.
    levels : tuple of ndarray, shape (size,)
        Groups of the codes of the first column, from those of the table to a single one. Each is within the next.
    level_names : tuple of str
    """

    names: tuple[str, ...]
    columns: tuple[int, ...]
    groups: tuple[np.ndarray, ...]
    labels: tuple[tuple[str, ...], ...]
    levels: tuple[np.ndarray, ...]
    level_names: tuple[str, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        """Numbers of groups of the columns."""
        return tuple(number_of(group) for group in self.groups)

    def groups_at(self, level: int) -> tuple[np.ndarray, ...]:
        """Return for each column the group of every code, at a level of the hierarchy."""
        return (self.levels[level], *self.groups[1:])

    def shape_at(self, level: int) -> tuple[int, ...]:
        """Return numbers of groups of the columns at a level."""
        return (number_of(self.levels[level]), *self.shape[1:])

    def parents(self) -> list[np.ndarray]:
        """Return for each level but the last the group of the next level that every group is in."""
        out = []
        for fine, coarse in zip(self.levels, self.levels[1:], strict=False):
            parent = np.zeros(number_of(fine), dtype=np.int64)
            parent[fine] = coarse
            out.append(parent)
        return out

    def cells(self, codes: np.ndarray) -> np.ndarray:
        """Return the number of the cell of each row of codes, shape (n,)."""
        index = [group[codes[:, j]] for j, group in zip(self.columns, self.groups, strict=True)]
        return np.ravel_multi_index(index, self.shape)

    def frame(self, counts: np.ndarray) -> pd.DataFrame:
        """Return counts of cells, shape ``shape``, with a row for each cell: what its groups are called, and ``count``."""
        index = pd.MultiIndex.from_product(self.labels, names=self.names)
        return pd.Series(counts.ravel(), index=index, name="count").reset_index()

    def sums(self, counts: np.ndarray) -> list[np.ndarray]:
        """Return counts of cells, shape ``shape``, summed to each level, from the table itself to the last."""
        out = [counts]
        for parent in self.parents():
            coarse = np.zeros((int(parent.max()) + 1, *counts.shape[1:]))
            np.add.at(coarse, parent, out[-1])
            out.append(coarse)
        return out

    def possible(self, zeros: Sequence[Zero]) -> np.ndarray:
        """Return which cells hold possible values, bool, shape ``shape``: those that no structural zero covers as a whole."""
        return possible_cells(self.columns, self.groups, zeros)


def possible_cells(
    columns: Sequence[int], groups: Sequence[np.ndarray], zeros: Sequence[Zero]
) -> np.ndarray:
    """Return which cells of a table hold possible values: bool, of a length along each axis that is the number of its groups."""
    out = np.ones([number_of(group) for group in groups], dtype=bool)
    for zero in zeros:
        if set(zero) <= set(columns):
            covered = np.ones(out.shape, dtype=bool)
            for axis, (j, group) in enumerate(zip(columns, groups, strict=True)):
                mask = zero.get(j, np.ones(len(group), dtype=bool))
                impossible = np.bincount(group, ~mask) == 0
                covered &= np.expand_dims(
                    impossible, tuple(i for i in range(out.ndim) if i != axis)
                )
            out &= ~covered
    return out


@dataclass(frozen=True, eq=False)
class TableCounts:
    """Noisy counts of a declared table at each of its levels.

    Attributes
    ----------
    table : DeclaredTable
    counts : tuple of ndarray, shape ``table.shape_at(level)``
    stds : tuple of float
        Of the noise on each cell, by level.
    """

    table: DeclaredTable
    counts: tuple[np.ndarray, ...]
    stds: tuple[float, ...]

    @property
    def grids(self) -> list[GridCounts]:
        """The counts of each level."""
        return [
            GridCounts(self.table.columns, self.table.groups_at(level), counts, std)
            for level, (counts, std) in enumerate(zip(self.counts, self.stds, strict=True))
        ]

    def with_noise(self, rng: np.random.Generator) -> "TableCounts":
        """Add noise of the same size again, as implicates need it."""
        drawn = zip(self.counts, self.stds, strict=True)
        counts = (c + std * rng.standard_normal(c.shape) for c, std in drawn)
        return replace(self, counts=tuple(counts))

    def fit(
        self, rows: float, zeros: Sequence[Zero] = (), expected: np.ndarray | None = None
    ) -> np.ndarray:
        """Return the table that is consistent with all levels, not negative and of so many rows; shape ``table.shape``.

        Parameters
        ----------
        rows : float
        zeros : sequence of Zero
        expected : ndarray, shape ``table.shape``, optional
            Counts of the cells that a model expects, of sum ``rows``. The noisy counts of cells are then moved to these, as far as their noise
            explains the distance (the empirical Bayes estimate of how far the model is off).
        """
        shape, parents = self.table.shape, self.table.parents()
        flat = [c.reshape(len(c), -1) for c in self.counts]
        stds = list(self.stds)
        if not all(stds):  # without noise
            return self.counts[0] * (rows / max(self.counts[0].sum(), 1.0))
        if expected is not None:
            near = expected.reshape(flat[0].shape)
            distance = float(np.square(flat[0] - near).mean())
            off = max(distance - stds[0] ** 2, LEAST_ERROR**2 * stds[0] ** 2)
            weight = off / (off + stds[0] ** 2)  # of the noisy counts
            flat[0] = near + weight * (flat[0] - near)
            stds[0] *= math.sqrt(weight)
        possible = self.table.possible(zeros).reshape(len(flat[0]), -1)
        estimates, variances = least_squares(flat, stds, parents, rows)
        return not_negative(estimates, variances, parents, rows, possible).reshape(shape)


def least_squares(
    counts: Sequence[np.ndarray],
    stds: Sequence[float],
    parents: Sequence[np.ndarray],
    rows: float,
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Return consistent estimates of counts at all levels of a tree, by weighted least squares, of a given sum.

    One pass up the tree combines each count with the sum of those below it, and one pass down distributes what is left. It is
    exact for noise that is independent and has one variance at each level.

    Parameters
    ----------
    counts : sequence of ndarray, shape (groups of the level, cells)
        From the leaves to a single group. Cells are trees of their own.
    stds : sequence of float
        Positive, by level.
    parents : sequence of ndarray
        For each level but the last the group of the next level.
    rows : float
        The sum of all cells.

    Returns
    -------
    estimates : list of ndarray, shape of ``counts``
    variances : list of ndarray, shape (groups of the level,)
        Of estimates from below alone, by which differences are distributed.
    """
    up, variances = [counts[0]], [np.full(len(counts[0]), stds[0] ** 2)]
    for level_counts, std, parent in zip(counts[1:], stds[1:], parents, strict=True):
        below = np.zeros_like(level_counts)
        np.add.at(below, parent, up[-1])
        variance = np.bincount(parent, variances[-1])
        weight = variance / (variance + std**2)  # of the level's own count
        up.append(weight[:, None] * level_counts + (1 - weight[:, None]) * below)
        variances.append(weight * std**2)
    down = [up[-1] + (rows - up[-1].sum()) / up[-1].size]
    for level in reversed(range(len(parents))):
        parent, variance = parents[level], variances[level]
        below = np.zeros_like(down[0])
        np.add.at(below, parent, up[level])
        share = variance / np.bincount(parent, variance)[parent]
        down.insert(0, up[level] + share[:, None] * (down[0] - below)[parent])
    return down, variances


def not_negative(
    estimates: Sequence[np.ndarray],
    variances: Sequence[np.ndarray],
    parents: Sequence[np.ndarray],
    rows: float,
    possible: np.ndarray,
) -> np.ndarray:
    """Return leaves that are not negative and near to consistent estimates, shape of the first of these; level by level from the top.

    Each group's children are projected on what is not negative and adds up to it, with the distances weighted by their
    variances. Cells that are not ``possible`` are 0.
    """
    allowed = [possible]
    for parent in parents:
        parent_possible = np.zeros((int(parent.max()) + 1, possible.shape[1]), dtype=bool)
        np.logical_or.at(parent_possible, parent, allowed[-1])
        allowed.append(parent_possible)
    top = estimates[-1]
    even = np.ones(top.size)
    above = project_values(top.reshape(-1, 1), even, np.array([rows]), allowed[-1].reshape(-1, 1))
    above = above.reshape(top.shape)
    for level in reversed(range(len(parents))):
        parent, below = parents[level], np.empty_like(estimates[level])
        for group, total in enumerate(above):
            of = np.flatnonzero(parent == group)
            below[of] = project_values(
                estimates[level][of], variances[level][of], total, allowed[level][of]
            )
        above = below
    return above


def project_values(
    values: np.ndarray, variances: np.ndarray, totals: np.ndarray, allowed: np.ndarray
) -> np.ndarray:
    """Return the nearest values that are not negative and have given sums, with squared distances over ``variances``.

    Parameters
    ----------
    values : ndarray, shape (children, cells)
    variances : ndarray, shape (children,)
    totals : ndarray, shape (cells,)
        Not negative; 0 where no child is allowed.
    allowed : ndarray of bool, shape of ``values``
        The others are 0.
    """
    ratio = np.where(allowed, values / variances[:, None], -np.inf)
    order = np.argsort(-ratio, axis=0)
    ordered = np.take_along_axis(np.where(allowed, values, 0.0), order, axis=0)
    weights = np.take_along_axis(np.where(allowed, variances[:, None], 0.0), order, axis=0)
    ratio = np.take_along_axis(ratio, order, axis=0)
    spread = np.maximum(weights.cumsum(axis=0), np.finfo(float).tiny)
    shifts = (ordered.cumsum(axis=0) - totals) / spread
    last = np.where(ratio > shifts, np.arange(len(values))[:, None], -1).max(axis=0)
    shift = np.take_along_axis(shifts, np.maximum(last, 0)[None], axis=0)[0]
    out = np.maximum(values - shift * variances[:, None], 0.0)
    return np.where(allowed & (last >= 0), out, 0.0)


def variance_of_cells(table: DeclaredTable, stds: Sequence[float]) -> float:
    """Return the mean variance of the estimates of :func:`least_squares` of a table's cells, in squared rows; their sum is given."""
    parents = table.parents()
    nothing = [np.zeros((number_of(level), 1)) for level in table.levels]
    _, variances = least_squares(nothing, stds, parents, 0.0)
    other_cells = math.prod(table.shape[1:])
    above = variances[-1] * (1 - 1 / other_cells)
    for level in reversed(range(len(parents))):
        parent, variance = parents[level], variances[level]
        share = variance / np.bincount(parent, variance)[parent]
        above = variance * (1 - share) + share**2 * above[parent]
    return float(above.mean())


def round_within(
    values: np.ndarray, table: DeclaredTable, rows: int, rng: np.random.Generator
) -> np.ndarray:
    """Return whole numbers of sum ``rows`` whose sums at each level are the scaled values', rounded down or up; unbiased.

    Systematic sampling along the tree: with the cells in the order of the tree, each count of each level is a run of
    neighbours. The order among the children of a group is random.

    Parameters
    ----------
    values : ndarray, shape ``table.shape``
        Not negative.
    """
    flat = values.reshape(len(values), -1)
    leaf = np.zeros(len(values), dtype=np.int64)
    keys = []
    for level in table.levels[:-1]:
        leaf[table.levels[0]] = level
        keys.append(rng.random((int(level.max()) + 1, flat.shape[1]))[leaf].ravel())
    column = np.tile(rng.permutation(flat.shape[1]), len(flat))
    order = np.lexsort((*keys, column))
    return systematic(flat.ravel()[order], rows, rng, order).reshape(values.shape)


def systematic(
    values: np.ndarray, rows: int, rng: np.random.Generator, order: np.ndarray
) -> np.ndarray:
    """Return whole numbers of sum ``rows`` by systematic sampling of values in an order, put back in their places."""
    upto = values.cumsum()
    upto *= rows / upto[-1]
    ends = np.floor(np.append(upto[:-1], rows) + rng.random())
    counts = np.empty(len(values), dtype=np.int64)
    counts[order] = np.diff(ends, prepend=0)
    return counts


# In a model file.

KEPT_TABLES = "tables.counts"


def file_of_tables(tables: Sequence[TableCounts]) -> tuple[JsonObject, Tensor]:
    """Return noisy counts of declared tables as facts, JSON-ready, and one tensor."""
    counts = np.concatenate([counts.ravel() for t in tables for counts in t.counts])
    return {"noise": [list(t.stds) for t in tables]}, torch.from_numpy(counts)


def tables_of_file(
    tables: Sequence[DeclaredTable], facts: JsonObject, flat: Tensor | None
) -> list[TableCounts]:
    """Invert :func:`file_of_tables`.

    Raises
    ------
    ValueError
        If the facts and the tensor do not belong together, or not to these tables.
    """
    shapes = [[t.shape_at(level) for level in range(len(t.levels))] for t in tables]
    cells = [math.prod(shape) for levels in shapes for shape in levels]
    if flat is None or flat.shape != (sum(cells),) or flat.dtype != torch.float64:
        raise ValueError("counts and declared tables differ")
    parts = iter(np.split(flat.numpy(), np.cumsum(cells)[:-1]))
    out = list[TableCounts]()
    for table, levels, noise in zip(tables, shapes, facts["noise"], strict=True):
        stds = tuple(map(float, noise))
        if len(stds) != len(levels) or not all(0 <= std < math.inf for std in stds):
            raise ValueError("noise and levels differ")
        out.append(TableCounts(table, tuple(next(parts).reshape(s) for s in levels), stds))
    return out


# What is declared.


def declared_tables(
    schema: Schema, tables: object, max_cells: int, what: str = "Declared table"
) -> list[DeclaredTable]:
    """Return the tables that a fit is to declare, from names of columns.

    Parameters
    ----------
    schema : Schema
        The whole schema, with derived columns.
    tables : sequence of sequence of str
    max_cells : int
        Of the first table; further ones have at most a tenth of it, because they are combined with those before them.
    what : str
        What an error calls a table.

    Raises
    ------
    InputError
        For an unknown or repeated column, one that is not counted, two that follow from the same one, and too many cells.
    """
    if not is_list(tables):
        raise InputError(f"Expected tables to be a list of lists of columns, got {quote(tables)}.")
    limits = [max_cells, *[max_cells // FURTHER] * (len(tables) - 1)]
    return [
        _parse_table(schema, names, limit, what)
        for names, limit in zip(tables, limits, strict=False)
    ]


def _parse_table(schema: Schema, names: object, max_cells: int, what: str) -> DeclaredTable:
    listed = ",".join(map(str, names)) if is_list(names) else names
    where = f"{what} {quote(listed)}"
    if not is_list(names) or not names:
        raise InputError(f"{where} must be a list of columns; name at least one.")
    for i, name in enumerate(names):
        if not isinstance(name, str) or name not in schema.names:
            few = f"{', '.join(schema.names[:8])}{', …' if len(schema.names) > 8 else ''}"
            raise InputError(
                f"{where} names column {quote(name)}, which the schema does not have; its columns are {few}."
            )
        if name in names[:i]:
            raise InputError(f"{where} names column {quote(name)} twice; name it once.")
    sources = [_find_source(schema, name) for name in names]
    columns = list[int]()
    for name, source in zip(names, sources, strict=True):
        if source is None:
            raise InputError(
                f"{where} names column {quote(name)}, which is not modelled and does not follow from one modelled column"
                " by a table; name columns that do."
            )
        if source[0] in columns:
            other = names[columns.index(source[0])]
            raise InputError(
                f"{where} names columns {quote(other)} and {quote(name)}, which follow from the same column; name one."
            )
        columns.append(source[0])
    codes = [source[1] for source in sources if source is not None]
    groups = [_number_groups(of) for of in codes]
    cells = math.prod(number_of(group) for group in groups)
    if cells > max_cells:
        raise InputError(
            f"{where} has {cells:,} cells, past the limit of {max_cells:,}; name fewer columns or columns of fewer values, or raise max_cells in the config"
            f" (tables after the first have a {FURTHER}th of it)."
        )
    levels = _levels(schema, names[0], columns[0], groups[0])
    return DeclaredTable(
        tuple(names),
        tuple(columns),
        tuple(groups),
        tuple(
            tuple(schema[name].label(int(code)) for code in np.unique(of))
            for name, of in zip(names, codes, strict=True)
        ),
        tuple(level for _, level in levels),
        tuple(name for name, _ in levels),
    )


def _find_source(schema: Schema, name: str) -> tuple[int, np.ndarray] | None:
    """Return the place of the modelled column that a column follows from, and the column's code for each of its codes; None if there is none."""
    if name in schema.learned.names and name not in schema.makers:
        place = schema.learned.names.index(name)
        return place, np.arange(schema.learned.sizes[place])
    rule = schema.makers.get(name)
    if not isinstance(rule, Derived) or rule.lookup is None or len(rule.sources) > 1:
        return None
    source = _find_source(schema, rule.sources[0].name)
    return None if source is None else (source[0], rule.lookup[source[1]])


def _number_groups(codes: np.ndarray) -> np.ndarray:
    """Return groups of equal codes, numbered from 0 without a gap."""
    return np.unique(codes, return_inverse=True)[1]


def _levels(
    schema: Schema, name: str, place: int, group: np.ndarray
) -> list[tuple[str, np.ndarray]]:
    """Return the hierarchy of a column: itself, what it decides among derived columns and nodes, and all its values together.

    Of groups that do not nest, those of more groups are taken.
    """
    coarser = list[tuple[str, np.ndarray]]()
    for other in schema.makers:
        source = _find_source(schema, other)
        if source is not None and source[0] == place:
            coarser.append((other, _number_groups(source[1])))
    column = schema.learned.columns[place]
    if isinstance(column, Hierarchical):
        coarser += _nodes(column)
    coarser.sort(key=lambda item: -number_of(item[1]))
    levels = [(name, group)]
    for other, level in coarser:
        if 1 < number_of(level) < number_of(levels[-1][1]) and _within(levels[-1][1], level):
            levels.append((other, level))
    return [*levels, ("all", np.zeros_like(group))]


def _nodes(column: Hierarchical) -> Iterator[tuple[str, np.ndarray]]:
    """Return groups of the codes of a column by their nodes, level by level."""
    paths = [*column.nodes[0], *[("null",)] * column.nulls]
    for depth in range(max(map(len, paths)) - 1, 0, -1):
        parts = [path[:depth] for path in paths]
        numbers: Mapping[tuple[str, ...], int] = {p: i for i, p in enumerate(dict.fromkeys(parts))}
        yield f"{column.name}, level {depth}", np.array([numbers[part] for part in parts])


def _within(fine: np.ndarray, coarse: np.ndarray) -> bool:
    """Return whether all codes of each fine group have one coarse group."""
    return len(set(zip(fine.tolist(), coarse.tolist(), strict=True))) == number_of(fine)


def is_list(value: object) -> TypeGuard[Sequence[Any]]:
    """Return whether a value is a sequence other than a text."""
    return isinstance(value, Sequence) and not isinstance(value, str)
