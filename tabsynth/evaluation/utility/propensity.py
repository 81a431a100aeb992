"""Can a classifier tell the synthetic rows from the real ones? The propensity score's mean square.

pMSE = mean (p̂ − c)², with p̂ the estimated chance that a row is synthetic and c the share of such rows
(Woo et al. 2009). Even a perfect table scores above 0, so the figure is its ratio to what a perfect
table would score (Snoke, Raab, Nowok, Dibben & Slavković 2018): 1 is perfect, 10 is bad.

Two classifiers: a logistic regression on main effects, whose expectation is known in closed form; and
a tree, which sees relations between columns, whose expectation is found by permuting the labels.
Independent columns pass the first and fail the second.

NOTE[DIFF]: Snoke et al. hold the real table fixed, (k − 1)(1 − c)² c / N with k coefficients and N rows.
Here a perfect table is another sample of the population, and the sampling of both tables counts: (k − 1)(1 − c) c / N, which
is also what permuted labels give. A table nearer than another sample scores below 1.

The interval is about what other samples of the same two populations would score, with the classifier
fitted again. A perfect table's ratio is a χ² over its degrees of freedom d = k − 1; of other tables the
noncentral χ², whose ratio R has variance (2/d)(1 + 2(R − 1)). The tree has no d: there 2/d is the
variance of the permuted ratios. The variance of the rows' scores under one fit is added to it.

With survey weights each table's weights have the mean 1, classifiers are fitted with them, and squares are weighted.
Both tables then have as many rows, c = ½, for which permuted labels have the variance that a perfect table has whatever
the weights go with. The expectation for main effects is tr(A⁻¹B)/4N, with A the weighted covariance of the dummies and B
the same with squared weights: by the delta method as below, and (k − 1)/4N where all weights are 1.
"""

import math
import warnings
from collections.abc import Callable

import numpy as np
from scipy import sparse, stats
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier

from tabsynth.evaluation.definitions import TWO_TABLES, Definition
from tabsynth.evaluation.metric import Metric, Tables
from tabsynth.evaluation.results import Z95, Estimate
from tabsynth.evaluation.utility.prediction import fold_rare, one_hot, sample_rows
from tabsynth.evaluation.weighting import WeightedRows, variance_of_mean

MAX_ROWS = 8_000  # of each table
PERMUTATIONS = 10
LEAF = 0.01  # of the rows: the smallest leaf of the tree

# classifier(real, synthetic, sizes, rng, weights): the ratio of two tables of category codes
Classifier = Callable[
    [np.ndarray, np.ndarray, tuple[int, ...], np.random.Generator, np.ndarray | None], Estimate
]
RATIO = Definition(
    name="pMSE ratio",
    keys=("pmse_main_effects", "pmse_tree"),
    meaning="How well a classifier tells synthetic from training rows. It is the mean squared propensity score over the"
    " value expected of another sample of the same population. One classifier is a logistic regression on main effects;"
    " the other is a classification tree, which sees relations.",
    formula="mean (p̂ − c)² / expected value; p̂ is the estimated chance that a row is synthetic, c the share of such rows",
    range="0 upwards",
    better="closest",
    best=1.0,
    reference="Best is 1: above, the tables differ; below, the table is nearer to the training rows than other real rows are.",
    interval=f"{TWO_TABLES}, with the classifier fitted again",
    caveat="Main effects do not detect independent columns. Ratios of different numbers of rows are not comparable,"
    " because they grow with the rows.",
    source="Woo et al. 2009; Snoke et al. 2018, J. R. Stat. Soc. A 181",
)


def propensity(tables: Tables, rng: np.random.Generator) -> list[Metric]:
    """Return the pMSE ratios of a logistic regression on main effects and of a classification tree."""
    metrics = []
    classifiers: tuple[tuple[str, str, Classifier], ...] = (
        ("pmse_main_effects", "main effects", main_effects),
        ("pmse_tree", "tree", tree),
    )
    for key, name, ratio in classifiers:

        def measure(other: WeightedRows, ratio: Classifier = ratio) -> Estimate:
            both = (tables.weighted_train, other)
            if tables.weights is None:
                rows = [sample_rows(t, MAX_ROWS, rng).codes for t in both]
                return ratio(rows[0], rows[1], tables.sizes, rng, None)
            limit = min(MAX_ROWS, *map(len, both))
            real, synthetic = (sample_rows(t, limit, rng) for t in both)
            weights = np.concatenate([t.each / t.each.mean() for t in (real, synthetic)])
            return ratio(real.codes, synthetic.codes, tables.sizes, rng, weights)

        metrics.append(
            Metric(
                RATIO,
                *tables.with_weights.map(measure),
                key=key,
                title=f"pMSE ratio, {name}",
                of_relations=ratio is tree,
            )
        )
    return metrics


def main_effects(
    real: np.ndarray,
    synthetic: np.ndarray,
    sizes: tuple[int, ...],
    rng: np.random.Generator,
    weights: np.ndarray | None = None,
) -> Estimate:
    """Return the ratio for a logistic regression on one-hot codes; its null is known, and draws nothing.

    ``weights``: of the real, then of the synthetic rows, of mean 1 each; there are as many of both.
    """
    del rng
    both, sizes = fold_rare([np.concatenate([real, synthetic])], sizes)
    codes = _dummies(both[0], sizes)
    label = np.repeat([0, 1], [len(real), len(synthetic)])
    share = len(synthetic) / len(label)
    if codes.shape[1] == 0:
        return Estimate(math.nan, math.nan, math.nan, len(label))
    # Next to no penalty: the expectation in closed form is that of maximum likelihood.
    model = LogisticRegression(C=1e4, max_iter=200, tol=1e-5)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(codes, label, weights)
    score = model.predict_proba(codes)[:, 1]
    null = expected_pmse(codes.shape[1] + 1, share, len(label))
    if weights is not None:
        null = weighted_pmse(codes, weights)
    return _ratio((score - share) ** 2, null, math.sqrt(2 / codes.shape[1]), Z95, weights)


def expected_pmse(coefficients: int, share: float, rows: int) -> float:
    """Return (k − 1)(1 − c) c / N, of two samples of one population; ``coefficients`` counts the intercept.

    By the delta method: p̂ − c ≈ c(1 − c) xᵀβ̂, and β̂ of centred x has variance (c(1 − c) XᵀX)⁻¹, so that
    the sum of squares has expectation c(1 − c)·trace(I) over the k − 1 slopes.
    """
    return (coefficients - 1) * (1 - share) * share / rows


def weighted_pmse(codes: sparse.csr_matrix, weights: np.ndarray) -> float:
    """Return tr(A⁻¹B)/4N, of two samples of one population with as many rows and weights of mean 1 each.

    The score (1/N) Σ ±½ wᵢxᵢ has the covariance B/4N, and the sum of squares is quadratic in it.
    """
    n = len(weights)
    centre = np.asarray(codes.T @ weights).ravel() / n

    def second(each: np.ndarray) -> np.ndarray:
        first = np.asarray(codes.T @ each).ravel() / n
        products = (codes.multiply(each[:, None]).T @ codes).toarray() / n
        products -= np.outer(first, centre) + np.outer(centre, first)
        return products + each.mean() * np.outer(centre, centre)

    a, b = second(weights), second(weights**2)
    a[np.diag_indices_from(a)] += 1e-9
    return float(np.trace(np.linalg.solve(a, b))) / (4 * n)


def _dummies(table: np.ndarray, sizes: tuple[int, ...]) -> sparse.csr_matrix:
    """Return one-hot codes of values that occur, without the commonest of each column."""
    codes = one_hot(table, sizes)
    counts = np.asarray(codes.sum(axis=0)).ravel()
    keep = counts > 0
    start = 0
    for size in sizes:
        keep[start + int(counts[start : start + size].argmax())] = False
        start += size
    return codes[:, np.flatnonzero(keep)]


def tree(
    real: np.ndarray,
    synthetic: np.ndarray,
    sizes: tuple[int, ...],
    rng: np.random.Generator,
    weights: np.ndarray | None = None,
) -> Estimate:
    """Return the ratio for a classification tree on category codes, its null by permuted labels.

    ``weights`` as of :func:`main_effects`.
    """
    del sizes
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
