"""Column by column: probabilities of values, and whether rare values are there at all."""

import math
from operator import itemgetter

import numpy as np

from tabsynth.evaluation.metric import (
    GROUPS,
    SHOWN_PARTS,
    UTILITY,
    Metric,
    Part,
    Tables,
    clipped,
    group_numbers,
    jackknifed,
    wilson,
)
from tabsynth.evaluation.results import Estimate

RARE = 0.01  # share of the training rows: a rarer value counts as rare
PROBABILITY = "Choi et al. 2017 (medGAN), arXiv:1703.06490; interval: Kott 2001"
COVERAGE = "Category coverage as in SDMetrics (DataCebo), of rare values; Wilson 1927"


def dimension_wise_probability(tables: Tables, rng: np.random.Generator) -> Metric:
    """Correlation of all values' probabilities in both tables: the scatter plot of medGAN.

    A dimension is one value of one column (one bit of the one-hot codes).
    """
    train = _shares(tables.train, tables.sizes, group_numbers(len(tables.train), rng))

    def measure(other: np.ndarray) -> tuple[np.ndarray, Estimate]:
        shares = _shares(other, tables.sizes, group_numbers(len(other), rng))
        r = _correlation(train, shares)
        n = min(len(other), len(tables.train))
        return shares[0], clipped(jackknifed(float(r[0]), r[1:], n), -1.0, 1.0)

    measured = tables.compared.map(measure)
    gaps = np.abs(train[0] - measured.synthetic[0])
    parts = []
    for i in np.argsort(-gaps)[:SHOWN_PARTS]:
        j = int(np.searchsorted(np.cumsum(tables.sizes), i, side="right"))
        value = int(i) - sum(tables.sizes[:j])
        parts.append(Part(f"{tables.names[j]} = {tables.labels[j][value]}", float(gaps[i])))
    return Metric(
        "dimension_wise_probability",
        "Dimension-wise probability",
        UTILITY,
        *measured.map(itemgetter(1)),
        "higher",
        1.0,
        "Correlation of the probabilities of all values in the two tables. Independent columns have it"
        " right by construction: it says nothing of relations. Parts: differences of probability.",
        PROBABILITY,
        tuple(parts),
        of_relations=False,
        sampling_power=1.0,
    )


def _shares(table: np.ndarray, sizes: tuple[int, ...], group: np.ndarray) -> np.ndarray:
    """Shares of all values of all columns, of all rows and without each group; (1 + groups, values)."""
    columns = []
    for j, size in enumerate(sizes):
        counts = np.bincount(group * size + table[:, j], minlength=GROUPS * size)
        counts = counts.reshape(GROUPS, size).astype(float)
        total = counts.sum(axis=0, keepdims=True)
        columns.append(np.concatenate([total, total - counts]))
    counts = np.concatenate(columns, axis=1)
    rows = np.maximum(columns[0].sum(axis=1, keepdims=True), 1)
    return counts / rows


def _correlation(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Of the rows of two matrices; where one is constant, 1 if they are equal, else 0."""
    a0, b0 = a - a.mean(axis=1, keepdims=True), b - b.mean(axis=1, keepdims=True)
    scale = np.sqrt((a0**2).sum(axis=1) * (b0**2).sum(axis=1))
    equal = np.isclose(a, b).all(axis=1).astype(float)
    return np.divide((a0 * b0).sum(axis=1), scale, out=equal, where=scale > 1e-15)


def rare_coverage(tables: Tables) -> Metric:
    """Share of rare values of the training table that occur in the other table at all."""
    counts = [np.bincount(tables.train[:, j], minlength=s) for j, s in enumerate(tables.sizes)]
    limit = RARE * len(tables.train)
    rare = [np.flatnonzero((count > 0) & (count < limit)) for count in counts]

    def measure(other: np.ndarray) -> list[bool]:
        return [bool(hit) for j, values in enumerate(rare) for hit in np.isin(values, other[:, j])]

    coverage = tables.compared.map(measure)
    places = [(j, int(v)) for j, values in enumerate(rare) for v in values]
    missing = [
        Part(f"{tables.names[j]} = {tables.labels[j][v]}", 0.0, n=int(counts[j][v]))
        for (j, v), hit in zip(places, coverage.synthetic, strict=True)
        if not hit
    ]
    missing.sort(key=lambda part: -part.n)
    return Metric(
        "rare_coverage",
        "Rare values that occur",
        UTILITY,
        *coverage.map(_covered),
        "higher",
        1.0 if places else None,
        "Share of the values held by fewer than 1% of the training rows that occur in the table at"
        " all. Under strong privacy some must be missing: one person's value may not show.",
        COVERAGE,
        tuple(missing[:SHOWN_PARTS]),
        of_relations=False,
    )


def _covered(hits: list[bool]) -> Estimate:
    if not hits:
        return Estimate(math.nan, math.nan, math.nan, 0)
    return wilson(sum(hits), len(hits))
