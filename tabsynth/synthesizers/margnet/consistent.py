"""Consistent estimates of the measured tables, with standard errors: the noisy counts of a fit as a product.

Each cell of a measured table has Gaussian noise of known variance. Estimates are linear in the noisy counts and unbiased, and their
variance follows from that of the noise. They do not use the fitted mixture, whose smoothing is a bias of unknown size.

One-way counts are fitted to the margins of all measured tables by generalised least squares, given one total. Each larger table is
the sum of parts, as in the analysis of variance: of the total, of single columns, of pairs, and so on. The part of a set of columns has
margins of 0, and its noise is independent of that of other sets. All tables that contain these columns in the same groups of values
share it, and its estimate is their mean, weighted by the inverse of their variances. Two tables thus have the same sums over the
columns that only one of them has. Where all counts are by value, these are the best linear unbiased estimates (Xiao et al. 2023, "An
Optimal and Scalable Matrix Mechanism for Noisy Marginals under Convex Loss Functions").

NOTE[DIFF] That paper has one set of values for each column. Here triples may be counted in other groups than pairs. The part of a pair in a
triple then agrees with the table of the pair in the finest groups that are coarser than both, and has the triples' own counts within
these.

All of it is post-processing of released counts: it reads no private row.
"""

import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import reduce
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from tabsynth._validate import quote
from tabsynth.errors import InputError
from tabsynth.privacy.noise.counts import Groups, Z, number_of
from tabsynth.schema.column import Column
from tabsynth.synthesizers.margnet.declared import TableCounts, declared_tables, possible_cells
from tabsynth.synthesizers.margnet.grids import GridCounts
from tabsynth.synthesizers.margnet.selection import Measurements
from tabsynth.synthesizers.margnet.tabulated import expected_table, label_components
from tabsynth.synthesizers.method import FittedModel

MEASURED, ALONE, MODEL = "measured", "measured, by itself", "model"
ROUNDING = 1 / 12  # the variance of the rounding of noisy counts to whole numbers
LEAST = 1e-12  # the variance of counts without noise
MOST_COLUMNS = 8  # of a table that is consistent with all tables of fewer of its columns
DIGITS = 3  # of estimates
Set = tuple[int, ...]


class Part(NamedTuple):
    """The part of a table that only some of its columns together show: its sum over each of them is 0.

    Attributes
    ----------
    values, variance : ndarray, shape (groups of each column)
        The variance is that of the noise on joint counts of these columns.
    noise : float
        The variance of a cell of these counts.
    links : sequence of ndarray, shape (groups, groups of the other table)
        For each column, from a table in other groups whose values the part has taken; empty without one.
    """

    values: np.ndarray
    variance: np.ndarray
    noise: float
    links: Sequence[np.ndarray] = ()


def variance_of(std: float) -> float:
    """Return the variance of a noisy count, with its rounding."""
    return std**2 + ROUNDING if std else LEAST


def in_same_groups(table: GridCounts, columns: Set, groups: Groups) -> bool:
    """Return whether a table has these columns, in these groups of their values."""
    own = dict(zip(table.columns, table.groups, strict=True))
    return all(j in own and np.array_equal(own[j], g) for j, g in zip(columns, groups, strict=True))


def _outer(vectors: Sequence[np.ndarray]) -> np.ndarray:
    return reduce(np.multiply.outer, vectors)


def _along(values: np.ndarray, axes: Sequence[int], order: int) -> np.ndarray:
    """Return an array with its axes at ``axes`` of ``order`` ones; the others have length 1."""
    return np.expand_dims(values, tuple(a for a in range(order) if a not in axes))


class ConsistentCounts:
    """Estimates of tables from the noisy counts of single columns, pairs and triples, and of larger tables in the same groups.

    Parameters
    ----------
    measured : Measurements
    sizes : sequence of int
        Numbers of values of the columns.
    rows : float, optional
        The number of rows, where it is public.

    Attributes
    ----------
    tables, alone : list of GridCounts
        The tables whose estimates are consistent, and those in other groups of values, which are not among them.
    total, total_variance : float
        The estimated number of rows.
    """

    def __init__(
        self, measured: Measurements, sizes: Sequence[int], rows: float | None = None
    ) -> None:
        of = measured.resolution.of
        self.tables = [
            GridCounts(m.columns, tuple(of(m.columns)[j] for j in m.columns), m.counts, m.std)
            for m in measured.counts
        ]
        within = [grid for grid in measured.grids if self._is_within(grid)]
        self.alone = [grid for grid in measured.grids if grid not in within]
        self.tables += within
        self.by_columns = {table.columns: table for table in self.tables}
        self.larger = [table for table in self.tables if len(table.columns) > 2]
        self._parts = dict[tuple[Set, tuple[bytes, ...]], Part]()
        self._sums = dict[tuple[int, bytes], tuple[np.ndarray, np.ndarray]]()
        self._fit_columns(sizes, rows)

    def _is_within(self, grid: GridCounts) -> bool:
        """Return whether a table has the groups of all tables of its columns."""
        inside = [t for t in self.tables if set(t.columns) <= set(grid.columns)]
        same = all(in_same_groups(grid, t.columns, t.groups) for t in inside)
        return same and len(grid.columns) <= MOST_COLUMNS

    def _fit_columns(self, sizes: Sequence[int], rows: float | None) -> None:
        """Fit the one-way counts and the total to the margins of all tables."""
        noise = [variance_of(table.std) for table in self.tables]
        information = [np.eye(size) / v for size, v in zip(sizes, noise, strict=False)]
        target = [t.counts / v for t, v in zip(self.tables[: len(sizes)], noise, strict=False)]
        totals = np.zeros(2)  # the sum of estimates by their precision, and of precisions
        for table, v in zip(self.tables[len(sizes) :], noise[len(sizes) :], strict=True):
            totals += np.array([table.counts.sum(), 1.0]) / (v * table.counts.size)
            for axis, (j, group) in enumerate(zip(table.columns, table.groups, strict=True)):
                sums = np.moveaxis(table.counts, axis, 0).reshape(number_of(group), -1).sum(axis=1)
                weight = len(sums) / (v * table.counts.size)
                # The sum over the groups is counted in the total.
                information[j] += weight * ((group[:, None] == group) - 1 / len(sums))
                target[j] += weight * (sums - sums.mean())[group]
        covariances = [np.linalg.inv(of) for of in information]
        towards = [covariance.sum(axis=1) for covariance in covariances]
        self.columns = [c @ t for c, t in zip(covariances, target, strict=True)]
        self.slopes = [of / of.sum() for of in towards]
        for counts, of in zip(self.columns, towards, strict=True):
            totals += np.array([counts.sum(), 1.0]) / of.sum()
        self.total, self.total_variance = float(totals[0] / totals[1]), float(1 / totals[1])
        if rows is not None:
            self.total, self.total_variance = float(rows), 0.0
        for counts, slope in zip(self.columns, self.slopes, strict=True):
            counts += slope * (self.total - counts.sum())
        # Given the total.
        self.covariances = [
            c - np.outer(s, t) for c, s, t in zip(covariances, self.slopes, towards, strict=True)
        ]

    def sums(self, j: int, group: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the matrix that sums values of a column over groups, and its product with the covariance."""
        key = j, group.tobytes()
        if key not in self._sums:
            matrix = np.eye(number_of(group))[:, group]
            self._sums[key] = matrix, matrix @ self.covariances[j]
        return self._sums[key]

    def part(self, columns: Set, groups: Groups) -> Part:
        """Return the part of a set of at least two columns, in groups of the values of each."""
        key = columns, tuple(group.tobytes() for group in groups)
        if key not in self._parts:
            self._parts[key] = self._estimate_part(columns, groups)
        return self._parts[key]

    def _estimate_part(self, columns: Set, groups: Groups) -> Part:
        table = self.by_columns.get(columns)
        values, precision = np.zeros([number_of(group) for group in groups]), 0.0
        for source in {id(t): t for t in (table, *self.larger) if t is not None}.values():
            if in_same_groups(source, columns, groups):
                others = tuple(i for i, j in enumerate(source.columns) if j not in columns)
                weight = values.size / (variance_of(source.std) * source.counts.size)
                values, precision = (
                    values + weight * source.counts.sum(axis=others),
                    precision + weight,
                )
        values, noise = values / precision, 1 / precision
        for axis in range(values.ndim):
            values = values - values.mean(axis=axis, keepdims=True)
        variance = noise * _outer([np.full(n, 1 - 1 / n) for n in values.shape])
        if table is None or in_same_groups(table, columns, groups):
            return Part(values, variance, noise)
        # In groups that are coarser than both, the part is that of the other table.
        links, shared = list[np.ndarray](), list[np.ndarray]()
        for group, other in zip(groups, table.groups, strict=True):
            size = number_of(group)
            union, of_other = label_components(group, other, (size, number_of(other)))
            same = union[:, None] == union
            shared.append(same / same.sum(axis=1) - 1 / size)
            links.append((union[:, None] == of_other) / same.sum(axis=1)[:, None] - 1 / size)
        values = values - shared[0] @ values @ shared[1]
        values += links[0] @ self.estimate(table)[0] @ links[1].T
        own = self.part(columns, table.groups).noise
        variance += own * _outer([link.var(axis=1) * link.shape[1] for link in links])
        return Part(values, variance - noise * _outer([np.diag(s) for s in shared]), noise, links)

    def estimate(self, table: GridCounts) -> tuple[np.ndarray, np.ndarray]:
        """Return the estimates of the cells of a table and their variances, each of the shape of its counts."""
        shape, order = table.counts.shape, len(table.columns)
        if order == 1:
            (j,) = table.columns
            variance = np.diag(self.covariances[j]) + self.total_variance * self.slopes[j] ** 2
            return self.columns[j], variance
        even = 1 / table.counts.size
        of_total = np.full(shape, (1 - order) * even)  # how much of each cell is of the total
        values, variance = self.total * of_total, np.zeros(shape)
        # By axis, how much is of the column: a matrix, its product with the covariance, and a factor of it.
        terms: list[list[tuple[np.ndarray, np.ndarray, np.ndarray]]] = [[] for _ in shape]
        for axes in (a for size in range(2, order + 1) for a in combinations(range(order), size)):
            columns, groups = zip(*((table.columns[a], table.groups[a]) for a in axes), strict=True)
            part, share = self.part(columns, groups), even * math.prod(shape[a] for a in axes)
            values += share * _along(part.values, axes, order)
            variance += share**2 * _along(part.variance, axes, order)
            if part.links:
                means = [link.mean(axis=1) for link in part.links]
                of_total -= share * _along(_outer(means), axes, order)
                for i, link in enumerate(part.links):
                    sums = self.sums(columns[i], self.by_columns[columns].groups[i])
                    factor = share * _along(means[1 - i], [axes[1 - i]], order)
                    terms[axes[i]].append((*(link @ m for m in sums), factor))
        for a, (j, group) in enumerate(zip(table.columns, table.groups, strict=True)):
            terms[a].append((*self.sums(j, group), np.array(even * shape[a])))
            values += even * shape[a] * _along(terms[a][-1][0] @ self.columns[j], [a], order)
            for matrix, product, factor in terms[a]:
                of_total += factor * _along(matrix @ self.slopes[j], [a], order)
                for other, _, second in terms[a]:
                    variance += factor * second * _along((product * other).sum(axis=1), [a], order)
        return values, variance + self.total_variance * of_total**2


def estimate_by_levels(of: TableCounts) -> tuple[np.ndarray, np.ndarray]:
    """Return the best linear unbiased estimates of a declared table by the counts of its levels, and their variances."""
    group = np.arange(len(of.counts[0]))
    information, target = np.zeros((len(group), len(group))), np.zeros((len(group), 1))
    for parent, counts, std in zip([group, *of.table.parents()], of.counts, of.stds, strict=True):
        group = parent[group]
        information += (group[:, None] == group) / variance_of(std)
        target = target + counts.reshape(len(counts), -1)[group] / variance_of(std)
    covariance = np.linalg.inv(information)
    values = covariance @ target
    variance = np.broadcast_to(np.diag(covariance)[:, None], values.shape)
    return values.reshape(of.counts[0].shape), variance.reshape(of.counts[0].shape)


def labels_of(column: Column, group: np.ndarray) -> list[str]:
    """Return what each group of a column's values is called, by its values."""
    out = []
    for codes in (np.flatnonzero(group == g) for g in range(number_of(group))):
        names = [column.label(int(code)) for code in codes]
        run = column.ordered and codes[-1] - codes[0] == len(codes) - 1 > 0
        out.append(f"{names[0]} to {names[-1]}" if run else " | ".join(names))
    return out


def _frame(
    labels: Mapping[str, Sequence[str]],
    values: np.ndarray,
    variance: np.ndarray,
    source: str,
    noisy: np.ndarray | None = None,
    std: float = np.nan,
) -> pd.DataFrame:
    """Return a row for each cell, by the labels of the groups of each column."""
    index = pd.MultiIndex.from_product(labels.values(), names=[*labels])
    value, error = values.ravel(), np.sqrt(variance.ravel())
    numbers = {
        "noisy": np.nan if noisy is None else noisy.ravel(),
        "noise": math.sqrt(variance_of(std)),
        "estimate": value,
        "standard_error": error,
        "low": np.maximum(value - Z * error, 0),
        "high": np.maximum(value + Z * error, 0),
    }
    return pd.DataFrame(numbers, index=index).round(DIGITS).assign(source=source)


def frames(model: FittedModel[Any], consistent: ConsistentCounts) -> Iterator[pd.DataFrame]:
    """Yield the measured tables of a model, and then those with estimates by themselves, of which declared ones are the last.

    Cells that the schema makes impossible are 0.
    """
    schema, zeros = model.encoder.schema, model.encoder.zeros
    for table in (*consistent.tables, *consistent.alone):
        parts = zip(table.columns, table.groups, strict=True)
        labels = {schema.names[j]: labels_of(schema.columns[j], group) for j, group in parts}
        alone = table in consistent.alone
        values, variance = (
            (table.counts, np.full(table.counts.shape, variance_of(table.std)))
            if alone
            else consistent.estimate(table)
        )
        cells = possible_cells(table.columns, table.groups, zeros)
        source = ALONE if alone else MEASURED
        yield _frame(labels, values * cells, variance * cells, source, table.counts, table.std)
    for of in model.tables:
        labels = dict(zip(of.table.names, map(list, of.table.labels), strict=True))
        cells = of.table.possible(zeros)
        values, variance = (each * cells for each in estimate_by_levels(of))
        yield _frame(labels, values, variance, ALONE, of.counts[0], of.stds[0])


def counts_of(model: FittedModel[Any], by: object, max_cells: int) -> pd.DataFrame:
    """Return what :meth:`tabsynth.MargNet.counts` returns."""
    declared = model.facts["public"]["rows"]
    public = declared == model.measured.rows and not model.encoder.whole.design  # else refuted
    rows = declared if public else None
    consistent = ConsistentCounts(model.measured, model.encoder.schema.sizes, rows)
    if by is None:
        total = np.array([consistent.total]), np.array([consistent.total_variance])
        rows = _frame({"": ["all rows"]}, *total, MEASURED)
        tables = [rows.reset_index(names="table"), *map(_in_rows, frames(model, consistent))]
        widest = max(tables, key=lambda table: table.shape[1])
        return pd.concat(tables, ignore_index=True)[[*widest]]
    names = [[by] if isinstance(by, str) else by]
    (of,) = declared_tables(model.encoder.whole, names, sys.maxsize, "Table")
    same = [t for t in frames(model, consistent) if {*t.index.names} == {*of.names}]
    if not same:
        (of,) = declared_tables(model.encoder.whole, names, max_cells, "Table")
        expected = consistent.total * expected_table(of, model.generator)
        expected = expected * of.possible(model.encoder.zeros)
        labels = dict(zip(of.names, of.labels, strict=True))
        same = [_frame(labels, expected, np.full(expected.shape, np.nan), MODEL)]
    if taken := {*of.names} & {*same[-1]}:
        raise InputError(
            f"Column {quote(min(taken))} has the name of a column of the result; leave out by=, and take its table from all."
        )
    return same[-1].reset_index()[[*of.names, *same[-1]]]


def _in_rows(table: pd.DataFrame) -> pd.DataFrame:
    """Return a table with the names of its columns in rows, so that tables of different columns go below each other."""
    parts: dict[str, Any] = {"table": " × ".join(table.index.names)}
    for i, name in enumerate(table.index.names):
        parts |= {f"column_{i + 1}": name, f"value_{i + 1}": table.index.get_level_values(i)}
    return pd.DataFrame({**parts, **table.reset_index(drop=True)})
