"""The associations between columns, in both tables: Pearson's r and Cramér's V.

Each is computed for every pair of columns in the training table and in the other one; the metric is
the mean absolute difference. V is corrected for the bias that few rows give it, since tables of different lengths are
compared, after Bergsma 2013, "A bias-correction for Cramér's V and Tschuprow's T".
"""

import math
from operator import itemgetter

import numpy as np

from tabsynth.evaluation.definitions import Definition, definition_of
from tabsynth.evaluation.metric import (
    GROUPS,
    SHOWN_PARTS,
    Metric,
    Tables,
    group_numbers,
    jackknife,
    worst_first,
)
from tabsynth.evaluation.results import Estimate
from tabsynth.evaluation.utility.marginals import column_sets
from tabsynth.evaluation.utility.prediction import fold_rare
from tabsynth.evaluation.weighting import WeightedRows, counts

PEARSON = definition_of("pearson")
CRAMER = definition_of("cramers_v")


def associations(tables: Tables, rng: np.random.Generator, *, seed: int = 0) -> list[Metric]:
    """Return the mean absolute differences of r (numbers only) and V over pairs."""
    present = [t for t in (tables.weighted_train, *tables.with_weights) if t is not None]
    folded, sizes = fold_rare([t.codes for t in present], tables.sizes, present[0].weights)
    pairs = column_sets(len(sizes), 2, seed) if len(sizes) > 1 else []
    groups = [group_numbers(len(table), rng) for table in folded]
    names = [f"{tables.names[i]} × {tables.names[j]}" for i, j in pairs]
    metrics = []
    if pairs:
        by_table = []
        for table, rows, group in zip(folded, present, groups, strict=True):
            weights = rows.effective_weights
            of_pairs = (pair_counts(table, i, j, sizes, group, weights) for i, j in pairs)
            by_table.append(np.array([cramers_v(counts_of_pair) for counts_of_pair in of_pairs]))
        metrics.append(_metric(CRAMER, names, by_table, tables))
    numeric = [
        (name, s) for name, s in zip(tables.names, tables.scores, strict=True) if s is not None
    ]
    if len(numeric) > 1:
        places = [tables.names.index(name) for name, _ in numeric]
        upper = np.triu_indices(len(numeric), 1)
        values = []
        for rows, group in zip(present, groups, strict=True):
            numbers = [s[rows.codes[:, j]] for j, (_, s) in zip(places, numeric, strict=True)]
            matrices = correlations(np.stack(numbers, axis=1), group, rows.mean_one)
            values.append(np.stack([matrix[upper] for matrix in matrices], axis=1))
        names = [f"{numeric[i][0]} × {numeric[j][0]}" for i, j in zip(*upper, strict=True)]
        metrics.append(_metric(PEARSON, names, values, tables))
    return metrics


def _metric(
    definition: Definition, names: list[str], values: list[np.ndarray], tables: Tables
) -> Metric:
    """Return a metric of values of shape (pairs, 1 + groups), of the training table and of each other one."""
    remaining = iter(values[1:])

    def compare(table: WeightedRows) -> tuple[np.ndarray, Estimate]:
        gaps = np.abs(values[0] - next(remaining))
        n, mean = min(len(table), len(tables.weighted_train)), gaps.mean(axis=0)
        return gaps[:, 0], jackknife(float(mean[0]), mean[1:], n, low=0.0)

    compared = tables.with_weights.map(compare)
    parts = compared.parts(names, itemgetter(0), len(tables.synthetic))
    worst = worst_first(parts, "lower", SHOWN_PARTS)
    return Metric(definition, *compared.map(itemgetter(1)), worst)


def pair_counts(
    table: np.ndarray,
    i: int,
    j: int,
    sizes: tuple[int, ...],
    group: np.ndarray,
    weights: np.ndarray | None = None,
) -> np.ndarray:
    """Return counts of two columns: of all rows, then without each group; shape (1 + groups, size, size).

    ``weights``, shape (rows,): of each row; their sum is the number of rows that V is corrected for.
    """
    shape = (GROUPS, sizes[i], sizes[j])
    cells = (group * sizes[i] + table[:, i]) * sizes[j] + table[:, j]
    each = counts(cells, math.prod(shape), weights).reshape(shape).astype(float)
    total = each.sum(axis=0, keepdims=True)
    return np.concatenate([total, total - each if weights is None else _others(each)])


def _others(each: np.ndarray) -> np.ndarray:
    """Return the sum of all groups but each, without the rounding of a difference, which leaves no cell empty."""
    occupied = each > 0
    without = each.sum(axis=0) - each
    return np.where(occupied.sum(axis=0) > occupied, without, 0.0)


def cramers_v(table: np.ndarray) -> np.ndarray:
    """Return bergsma's V of tables of counts, shape (…, a, b) to (…); 0 where a column is constant."""
    n = table.sum(axis=(-2, -1))
    rows, columns = table.sum(axis=-1), table.sum(axis=-2)
    expected = rows[..., :, None] * columns[..., None, :]
    terms = np.divide(table**2, expected, out=np.zeros_like(table), where=expected > 0)
    phi2 = terms.sum(axis=(-2, -1)) - 1
    a, b = (rows > 0).sum(axis=-1), (columns > 0).sum(axis=-1)
    less = np.maximum(n - 1, 1)
    phi2 = np.maximum(0, phi2 - (a - 1) * (b - 1) / less)
    smaller = np.minimum(a - (a - 1) ** 2 / less, b - (b - 1) ** 2 / less) - 1
    ratio = np.divide(phi2, smaller, out=np.zeros_like(phi2), where=smaller > 0)
    return np.sqrt(np.minimum(1.0, ratio))


def correlations(
    numbers: np.ndarray, group: np.ndarray, weights: np.ndarray | None = None
) -> np.ndarray:
    """Return Pearson's r over the rows where both are known: of all rows, then without each group.

    0 where a column is constant.

    Parameters
    ----------
    numbers : ndarray, shape (rows, columns)
        NaN where there is none.
    weights : ndarray, shape (rows,), optional

    Returns
    -------
    ndarray, shape (1 + groups, columns, columns)
    """
    finite = np.isfinite(numbers)
    centre = np.where(finite, numbers, 0.0).sum(axis=0) / np.maximum(finite.sum(axis=0), 1)
    x = np.where(finite, numbers - centre, 0.0)
    mask = finite.astype(float)
    each = np.ones(len(x)) if weights is None else weights

    def sums(part: np.ndarray) -> np.ndarray:
        a, m = x[part], mask[part]
        wa, wm = (each[part, None] * item for item in (a, m))
        return np.stack([wm.T @ m, wa.T @ m, wm.T @ a, (wa * a).T @ m, wm.T @ (a * a), wa.T @ a])

    by_group = np.stack([sums(group == g) for g in range(GROUPS)])
    total = by_group.sum(axis=0, keepdims=True)
    n, si, sj, sii, sjj, sij = np.moveaxis(np.concatenate([total, total - by_group]), 1, 0)
    count = np.where(n > 0, n, 1)
    covariance = sij / count - si * sj / count**2
    variances = (sii / count - (si / count) ** 2) * (sjj / count - (sj / count) ** 2)
    scale = np.sqrt(np.maximum(variances, 0))
    tiny = 1e-12 * max(1.0, float(np.abs(x).max(initial=0)) ** 2)
    r = np.divide(covariance, scale, out=np.zeros_like(scale), where=scale > tiny)
    return np.clip(r, -1, 1)
