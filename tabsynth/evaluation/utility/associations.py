"""The difference of Pearson's r between two tables, a mean over pairs of columns of numbers."""

from operator import itemgetter

import numpy as np

from tabsynth.evaluation.definitions import definition_of
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
from tabsynth.evaluation.weighting import WeightedRows

PEARSON = definition_of("pearson")


def correlation_difference(tables: Tables, rng: np.random.Generator) -> list[Metric]:
    """Return the mean absolute difference of r over pairs of columns of numbers; none where there are fewer than two."""
    present = [t for t in (tables.weighted_train, *tables.with_weights) if t is not None]
    groups = [group_numbers(len(table), rng) for table in present]
    numeric = [
        (j, name, s)
        for j, (name, s) in enumerate(zip(tables.names, tables.scores, strict=True))
        if s is not None
    ]
    if len(numeric) < 2:
        return []
    upper = np.triu_indices(len(numeric), 1)
    values = []
    for rows, group in zip(present, groups, strict=True):
        numbers = np.stack([s[rows.codes[:, j]] for j, _, s in numeric], axis=1)
        matrices = correlations(numbers, group, rows.mean_one)
        values.append(np.stack([matrix[upper] for matrix in matrices], axis=1))
    names = [f"{numeric[i][1]} × {numeric[j][1]}" for i, j in zip(*upper, strict=True)]
    remaining = iter(values[1:])

    def compare(table: WeightedRows) -> tuple[np.ndarray, Estimate]:
        gaps = np.abs(values[0] - next(remaining))
        n, mean = min(len(table), len(tables.weighted_train)), gaps.mean(axis=0)
        return gaps[:, 0], jackknife(float(mean[0]), mean[1:], n, low=0.0)

    compared = tables.with_weights.map(compare)
    parts = compared.parts(names, itemgetter(0), len(tables.synthetic))
    return [Metric(PEARSON, *compared.map(itemgetter(1)), worst_first(parts, "lower", SHOWN_PARTS))]


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
