"""The population total of a weighted table.

A synthetic table that carries a column of weights that is not learned states a population by their sum. Where the
weights are a column like any other, a table of another length is scaled to the training table's, as its user would do
it; so is a hold-out.
"""

import numpy as np

from tabsynth.evaluation.definitions import definition_of
from tabsynth.evaluation.metric import GROUPS, Metric, Tables, group_numbers, jackknife
from tabsynth.evaluation.results import Estimate
from tabsynth.evaluation.weighting import WeightedRows

POPULATION = definition_of("population_total")


def population_total(tables: Tables, rng: np.random.Generator) -> Metric:
    """Return the relative error of the population total of a table whose synthetic rows have weights."""
    weights, compared = tables.weights, tables.with_weights
    assert weights is not None
    train = _totals(tables.weighted_train, rng, 1.0)

    def measure(other: WeightedRows, scale: float) -> Estimate:
        error = np.abs(_totals(other, rng, scale) / np.where(train > 0, train, np.nan) - 1)
        return jackknife(float(error[0]), error[1:], min(len(other), len(tables.train)), 0.0)

    rows, holdout = len(tables.train), None
    if compared.holdout is not None:
        total = float(weights.train.sum()) if weights.holdout is None else rows
        holdout = measure(compared.holdout, total / len(compared.holdout))
    scale = 1.0 if weights.column is None else rows / len(tables.synthetic)
    return Metric(POPULATION, measure(compared.synthetic, scale), holdout, of_relations=False)


def _totals(table: WeightedRows, rng: np.random.Generator, scale: float) -> np.ndarray:
    """Return the sum of weights of all rows and without each group, as of all rows; shape (1 + groups,)."""
    group = group_numbers(len(table), rng)
    sums = np.bincount(group, table.each, GROUPS)
    remaining = len(table) - np.bincount(group, minlength=GROUPS)
    all_but_one = (sums.sum() - sums) / np.maximum(remaining, 1)
    return scale * np.append(sums.sum(), len(table) * all_but_one)
