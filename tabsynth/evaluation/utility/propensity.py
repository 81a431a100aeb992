"""Can a classifier tell the synthetic rows from the real ones? The propensity score's mean square.

pMSE = mean (p̂ − c)², with p̂ the estimated chance that a row is synthetic and c the share of such rows
(Woo et al. 2009). Even a perfect table scores above 0, so the figure is its ratio to what a perfect
table would score (Snoke, Raab, Nowok, Dibben & Slavković 2018): 1 is perfect, 10 is bad.

The classifier is a tree, which sees relations between columns. Its expectation is found by permuting the labels, so that a
perfect table is another sample of the population. A table nearer than another sample scores below 1.

NOTE[DIFF]: Snoke et al. hold the real table fixed. Here the sampling of both tables counts, as permuted labels have it.

The interval is about what other samples of the same two populations would score, with the classifier
fitted again. A perfect table's ratio is taken for a χ² over its degrees of freedom d; of other tables the
noncentral χ², whose ratio R has variance (2/d)(1 + 2(R − 1)). 2/d is the variance of the permuted ratios. The variance of
the rows' scores under one fit is added to it.

With survey weights each table's weights have the mean 1, the tree is fitted with them, and squares are weighted.
Both tables then have as many rows, c = ½, for which permuted labels have the variance that a perfect table has whatever
the weights go with.
"""

import math

import numpy as np
from scipy import stats
from sklearn.tree import DecisionTreeClassifier

from tabsynth.evaluation.definitions import definition_of
from tabsynth.evaluation.metric import Metric, Tables
from tabsynth.evaluation.results import Estimate
from tabsynth.evaluation.utility.prediction import sample_rows
from tabsynth.evaluation.weighting import WeightedRows, variance_of_mean

MAX_ROWS = 8_000  # of each table
PERMUTATIONS = 10
LEAF = 0.01  # of the rows: the smallest leaf of the tree

RATIO = definition_of("pmse_tree")


def propensity(tables: Tables, rng: np.random.Generator) -> Metric:
    """Return the pMSE ratio of a classification tree."""

    def measure(other: WeightedRows) -> Estimate:
        both = (tables.weighted_train, other)
        if tables.weights is None:
            real, synthetic = (sample_rows(t, MAX_ROWS, rng) for t in both)
            return tree(real.codes, synthetic.codes, rng)
        limit = min(MAX_ROWS, *map(len, both))
        real, synthetic = (sample_rows(t, limit, rng) for t in both)
        weights = np.concatenate([t.each / t.each.mean() for t in (real, synthetic)])
        return tree(real.codes, synthetic.codes, rng, weights)

    return Metric(RATIO, *tables.with_weights.map(measure))


def tree(
    real: np.ndarray,
    synthetic: np.ndarray,
    rng: np.random.Generator,
    weights: np.ndarray | None = None,
) -> Estimate:
    """Return the ratio for a classification tree on category codes, its null by permuted labels.

    ``weights``: of the real, then of the synthetic rows, of mean 1 each; there are as many of both.
    """
    both = np.concatenate([real, synthetic]).astype(np.float32)
    label = np.repeat([0, 1], [len(real), len(synthetic)])
    share = len(synthetic) / len(label)
    null = np.array(
        [
            np.average(
                _tree_squares(both, rng.permutation(label), share, rng, weights), weights=weights
            )
            for _ in range(PERMUTATIONS)
        ]
    )
    mean, quantile = float(null.mean()), float(stats.t.ppf(0.975, PERMUTATIONS - 1))
    # Of one more ratio, over a mean of so few.
    spread = float(null.std(ddof=1)) * math.sqrt(1 + 1 / PERMUTATIONS) / mean if mean > 0 else 0.0
    squares = _tree_squares(both, label, share, rng, weights)
    return _ratio(squares, mean, spread, quantile, weights)


def _tree_squares(
    rows: np.ndarray,
    label: np.ndarray,
    share: float,
    rng: np.random.Generator,
    weights: np.ndarray | None = None,
) -> np.ndarray:
    leaf = max(5, round(LEAF * len(rows)))
    model = DecisionTreeClassifier(min_samples_leaf=leaf, random_state=int(rng.integers(2**31)))
    model.fit(rows, label, weights)
    return (model.predict_proba(rows)[:, 1] - share) ** 2


def _ratio(
    squares: np.ndarray,
    null: float,
    spread: float,
    quantile: float,
    weights: np.ndarray | None,
) -> Estimate:
    """Return the mean of ``squares`` over ``null``; ``spread`` is the deviation of a perfect table's ratio."""
    n = len(squares)
    if null <= 0:  # nothing that a classifier could split on: the tables are equal for it
        return Estimate(math.nan, math.nan, math.nan, n)
    value = float(np.average(squares, weights=weights)) / null
    refits = spread**2 * (1 + 2 * max(0.0, value - 1))
    rows = variance_of_mean(squares, weights) / null**2
    half = quantile * math.sqrt(refits + rows)
    return Estimate(value, max(0.0, value - half), value + half, n)
