"""Column by column: probabilities of values, and whether rare values are there at all."""

import math
from operator import itemgetter

import numpy as np

from tabsynth.evaluation.definitions import definition_of
from tabsynth.evaluation.metric import (
    GROUPS,
    SHOWN_PARTS,
    Metric,
    Part,
    Tables,
    group_numbers,
    jackknife,
    wilson,
)
from tabsynth.evaluation.results import Estimate
from tabsynth.evaluation.weighting import WeightedRows, counts

RARE = 0.01  # share of the training rows: a rarer value counts as rare
PROBABILITY = definition_of("dimension_wise_probability")
COVERAGE = definition_of("rare_coverage")


def dimension_wise_probability(tables: Tables, rng: np.random.Generator) -> Metric:
    """Return correlation of all values' probabilities in both tables: the scatter plot of medGAN.

    A dimension is one value of one column (one bit of the one-hot codes).
    """
    real = tables.weighted_train
    train = _shares(real, tables.sizes, group_numbers(len(real), rng))

    def measure(other: WeightedRows) -> tuple[np.ndarray, Estimate]:
        shares = _shares(other, tables.sizes, group_numbers(len(other), rng))
        r = _correlation(train, shares)
        n = min(len(other), len(real))
        return shares[0], jackknife(float(r[0]), r[1:], n, -1.0, 1.0)

    measured = tables.with_weights.map(measure)
    gaps = np.abs(train[0] - measured.synthetic[0])
    parts = []
    for i in np.argsort(-gaps)[:SHOWN_PARTS]:
        j = int(np.searchsorted(np.cumsum(tables.sizes), i, side="right"))
        value = int(i) - sum(tables.sizes[:j])
        parts.append(Part(f"{tables.names[j]} = {tables.labels[j][value]}", float(gaps[i])))
    return Metric(PROBABILITY, *measured.map(itemgetter(1)), tuple(parts), of_relations=False)


def _shares(table: WeightedRows, sizes: tuple[int, ...], group: np.ndarray) -> np.ndarray:
    """Return shares of all values of all columns, of all rows and without each group; (1 + groups, values)."""
    columns, weights = [], table.effective_weights
    for j, size in enumerate(sizes):
        each = counts(group * size + table.codes[:, j], GROUPS * size, weights)
        each = each.reshape(GROUPS, size).astype(float)
        total = each.sum(axis=0, keepdims=True)
        columns.append(np.concatenate([total, total - each]))
    rows = columns[0].sum(axis=1, keepdims=True)
    return np.concatenate(columns, axis=1) / np.where(rows > 0, rows, 1)


def _correlation(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return the correlations of the rows of two matrices; where one is constant, 1 if they are equal, else 0."""
    a0, b0 = a - a.mean(axis=1, keepdims=True), b - b.mean(axis=1, keepdims=True)
    scale = np.sqrt((a0**2).sum(axis=1) * (b0**2).sum(axis=1))
    equal = np.isclose(a, b).all(axis=1).astype(float)
    return np.divide((a0 * b0).sum(axis=1), scale, out=equal, where=scale > 1e-15)


def rare_coverage(tables: Tables) -> Metric:
    """Return the share of rare values of the training table that occur in the other table at all."""
    real = tables.weighted_train
    limit = RARE * (len(real) if real.weights is None else float(real.weights.sum()))
    rare = []
    for j, size in enumerate(tables.sizes):
        sums = counts(real.codes[:, j], size, real.weights)
        rare.append(np.flatnonzero((sums > 0) & (sums < limit)))

    def measure(other: WeightedRows) -> list[bool]:
        hits = (np.isin(values, other.codes[:, j]) for j, values in enumerate(rare))
        return [bool(hit) for column in hits for hit in column]

    coverage = tables.with_weights.map(measure)
    places = [(j, int(v)) for j, values in enumerate(rare) for v in values]
    missing = [
        Part(
            f"{tables.names[j]} = {tables.labels[j][v]}", 0.0, n=int((real.codes[:, j] == v).sum())
        )
        for (j, v), hit in zip(places, coverage.synthetic, strict=True)
        if not hit
    ]
    missing.sort(key=lambda part: -part.n)
    nothing = Estimate(math.nan, math.nan, math.nan, 0)
    shares = coverage.map(lambda hits: wilson(sum(hits), len(hits)) if hits else nothing)
    return Metric(COVERAGE, *shares, tuple(missing[:SHOWN_PARTS]), of_relations=False)
