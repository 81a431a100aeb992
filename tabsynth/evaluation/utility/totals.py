"""Population totals of a weighted table: what a census bureau publishes from it.

A synthetic table that carries a column of weights that is not learned states a population by their sum. Where the
weights are a column like any other, a table of another length is scaled to the training table's, as its user would do
it; so is a hold-out. A self-weighting table states no population: its totals are scaled to the training table's.
"""

from operator import itemgetter

import numpy as np

from tabsynth.evaluation.definitions import definition_of
from tabsynth.evaluation.metric import (
    GROUPS,
    SHOWN_PARTS,
    Compared,
    Metric,
    Part,
    Tables,
    group_numbers,
    jackknife,
)
from tabsynth.evaluation.results import Estimate
from tabsynth.evaluation.weighting import WeightedRows

POPULATION = definition_of("population_total")
TOTALS = definition_of("weighted_totals")


def population_totals(tables: Tables, rng: np.random.Generator) -> list[Metric]:
    """Return the relative error of the population total, and of the weighted totals of all values of columns.

    ``tables`` has weights. The first metric is left out where the synthetic table is self-weighting. Independent
    columns are self-weighting, and have the totals of the training table by construction.
    """
    weights = tables.weights
    assert weights is not None
    columns = [j for j in range(len(tables.sizes)) if j != weights.column]
    train = _totals(tables.weighted_train, columns, tables.sizes, rng, 1.0)

    def measure(other: WeightedRows, scale: float) -> tuple[np.ndarray, Estimate, Estimate]:
        totals = _totals(other, columns, tables.sizes, rng, scale)
        n = min(len(other), len(tables.train))
        train_totals = np.where(train[:, 0] > 0, train[:, 0], np.nan)
        error = np.abs(totals[:, 0] / train_totals - 1)
        # Half the sum of absolute differences over the total: the share that would have to move.
        moved = 0.5 * np.abs(totals[:, 1:] - train[:, 1:]).sum(axis=1)
        moved /= train_totals * max(1, len(columns))
        return (
            totals[0],
            jackknife(float(error[0]), error[1:], n, 0.0),
            jackknife(float(moved[0]), moved[1:], n, 0.0),
        )

    compared, scales = tables.with_weights, population_scales(tables)
    metrics = Compared(
        measure(compared.synthetic, scales.synthetic),
        None if compared.holdout is None else measure(compared.holdout, scales.holdout or 1.0),
        measure(compared.baseline, scales.baseline),
    )
    names = [f"{tables.names[j]} = {label}" for j in columns for label in tables.labels[j]]
    out = []
    if weights.synthetic is not None:
        of_population = metrics.map(itemgetter(1))
        out.append(
            Metric(POPULATION, of_population.synthetic, of_population.holdout, of_relations=False)
        )
    gaps = np.abs(metrics.synthetic[0][1:] - train[0, 1:])
    parts = tuple(Part(names[i], float(gaps[i])) for i in np.argsort(-gaps)[:SHOWN_PARTS])
    out.append(Metric(TOTALS, *metrics.map(itemgetter(2)), parts, of_relations=False))
    return out


def population_scales(tables: Tables) -> Compared[float]:
    """Return the factors that make the weighted sums of each table totals of the population."""
    weights, compared = tables.weights, tables.with_weights
    assert weights is not None
    population = float(weights.train.sum())
    holdout = None
    if tables.holdout is not None and compared.holdout is not None:
        rows = len(tables.train) / len(tables.holdout)
        holdout = population / len(compared.holdout) if weights.holdout is None else rows
    synthetic = 1.0
    if weights.synthetic is None:
        synthetic = population / len(tables.synthetic)
    elif weights.column is not None:
        synthetic = len(tables.train) / len(tables.synthetic)
    return Compared(synthetic, holdout, population / len(tables.baseline))


def _totals(
    table: WeightedRows,
    columns: list[int],
    sizes: tuple[int, ...],
    rng: np.random.Generator,
    scale: float,
) -> np.ndarray:
    """Return the sum of weights and that of every value; of all rows and without each group, as of all rows.

    Shape (1 + groups, 1 + values).
    """
    group = group_numbers(len(table), rng)
    weight = table.each
    parts = [np.bincount(group, weight, GROUPS)[:, None]]
    for j in columns:
        sums = np.bincount(group * sizes[j] + table.codes[:, j], weight, GROUPS * sizes[j])
        parts.append(sums.reshape(GROUPS, sizes[j]))
    by_group = np.concatenate(parts, axis=1)
    lengths = np.bincount(group, minlength=GROUPS)
    total = by_group.sum(axis=0, keepdims=True)
    remaining = np.concatenate([[len(table)], len(table) - lengths])
    rows = scale * len(table) / np.maximum(remaining, 1)
    return np.concatenate([total, total - by_group]) * rows[:, None]
