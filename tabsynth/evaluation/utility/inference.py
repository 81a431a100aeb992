"""Would a statistician reach the same conclusions? Coefficients and their confidence intervals.

One regression of a named column on all others, fitted by maximum likelihood on both tables: least
squares for numbers, logistic for categories (the commonest value against all others). Overlap of
the two intervals of a coefficient: mean of its shares of either interval (Karr et al. 2006), 1 where
they are equal, below 0 where they are apart.

With survey weights both are fitted by weighted equations, and the standard errors of all tables are those of Binder
(1983): they hold for rows that were drawn with unequal probabilities, and do not assume that the model is right.
"""

import math
import warnings
from dataclasses import dataclass
from functools import partial
from operator import itemgetter

import numpy as np

from tabsynth.evaluation.definitions import Definition
from tabsynth.evaluation.metric import SHOWN_PARTS, Metric, Tables
from tabsynth.evaluation.results import Z95, Estimate, mean_of_shares
from tabsynth.evaluation.weighting import WeightedRows, counts

MAX_VALUES = 12  # of a category that enters as dummies: of more, the commonest, and others
LEAST = 10  # training rows with a dummy, else it does not enter
ITERATIONS = 40
RIDGE = 1e-8
SEPARATED = 25  # a larger coefficient has no maximum
_of_coefficients = partial(
    Definition,
    better="higher",
    best=1.0,
    interval="The choice of coefficients, as if they were independent; no drawing of rows",
    source="Karr et al. 2006, The American Statistician 60; Snoke et al. 2018",
)
OVERLAP = _of_coefficients(
    name="Overlap of confidence intervals",
    keys=("ci_overlap",),
    meaning="One regression of the target on all other columns is fitted on both tables. The figure is the mean overlap of"
    " the 95% intervals of its coefficients. Numbers: linear; else logistic, the commonest value against the others.",
    formula="½ (length of the overlap / length of one interval + length of the overlap / length of the other)",
    range="−1 to 1; below 0 the intervals are apart",
    reference="Best is 1: the intervals are equal.",
    caveat="Standard errors from synthetic rows that are treated as real are too small; see docs/how-to/valid-inference.md.",
)
CONCLUSIONS = _of_coefficients(
    name="Coefficients with the same conclusion",
    keys=("same_conclusions",),
    meaning="Share of the coefficients of the same regression that lead to the same conclusion in both tables: the same"
    " sign and significant at 5%, or not significant in both.",
    range="0 to 1",
    caveat="Coefficients that are not significant in either table count as equal, so many weak ones raise it.",
)


@dataclass(frozen=True)
class Terms:
    """The columns of a design matrix, fixed by the training table: (column, values or None)."""

    names: tuple[str, ...]
    places: tuple[tuple[int, int | None], ...]
    centres: tuple[float, ...]
    scales: tuple[float, ...]


def inference(tables: Tables, column: int) -> list[Metric]:
    """Return the mean overlap of coefficients' 95% intervals, and share of equal conclusions at 5%.

    A conclusion is a coefficient's sign, where its interval excludes 0, else none. Empty where the
    training table gives nothing to explain, or nothing to explain it by.
    """
    terms = design_terms(tables, column)
    answer, numeric = _answer(tables, column)
    fit = least_squares if numeric else logistic

    def fit_table(table: WeightedRows) -> tuple[np.ndarray, np.ndarray]:
        y = answer[table.codes[:, column]]
        answered = table.at(np.isfinite(y))
        weights = answered.weights
        if tables.weights is not None and weights is None:  # the same kind of errors for all tables
            weights = np.ones(len(answered))
        return fit(design(answered.codes, tables.scores, terms), y[np.isfinite(y)], weights)

    finite_answers = answer[tables.weighted_train.codes[:, column]]
    finite_answers = finite_answers[np.isfinite(finite_answers)]
    if not terms.names or not len(finite_answers) or np.ptp(finite_answers) == 0:
        return []
    real = fit_table(tables.weighted_train)
    if not _has_interval(real).any():
        return []

    agreements = tables.with_weights.map(lambda table: _agreement(real, fit_table(table)))
    parts = agreements.parts(terms.names, lambda agreement: agreement[2])
    parts = sorted((p for p in parts if math.isfinite(p.value)), key=lambda part: part.value)
    model = "linear" if numeric else "logistic"
    note = f"The model is a {model} regression of {tables.names[column]}."
    return [
        Metric(OVERLAP, *agreements.map(itemgetter(0)), tuple(parts[:SHOWN_PARTS]), note=note),
        Metric(CONCLUSIONS, *agreements.map(itemgetter(1)), note=note),
    ]


def _has_interval(fitted: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    """Return which coefficients, the intercept aside, have an interval."""
    errors = fitted[1][1:]
    return np.isfinite(errors) & (errors > 0)


def _agreement(
    real: tuple[np.ndarray, np.ndarray], other: tuple[np.ndarray, np.ndarray]
) -> tuple[Estimate, Estimate, np.ndarray]:
    """Return the mean overlap, share of equal conclusions, and each coefficient's overlap (NaN: not judged)."""
    judged = _has_interval(real)
    overlap = interval_overlap(real, other)[1:][judged]
    same = _conclusions(*real)[1:][judged] == _conclusions(*other)[1:][judged]
    n = len(overlap)
    mean = float(overlap.mean())
    half = Z95 * float(overlap.std(ddof=1)) / math.sqrt(n) if n > 1 else math.nan
    full = np.full(len(judged), np.nan)
    full[judged] = overlap
    interval = Estimate(mean, max(-1.0, mean - half), min(1.0, mean + half), n)
    return interval, mean_of_shares(same.astype(float)), full


def _answer(tables: Tables, column: int) -> tuple[np.ndarray, bool]:
    """Return the number that each value of the column counts as, shape (size,), and whether these are numbers."""
    values = tables.scores[column]
    if values is not None and np.isfinite(values).sum() > 2:
        return values, True
    real = tables.weighted_train
    commonest = counts(real.codes[:, column], tables.sizes[column], real.weights).argmax()
    return (np.arange(tables.sizes[column]) == commonest).astype(float), False


def design_terms(tables: Tables, column: int) -> Terms:
    """Return the terms of a design: numbers standardised, categories as dummies against the commonest value."""
    names, centres, scales = [], [], []
    real = tables.weighted_train
    places: list[tuple[int, int | None]] = []
    for j, name in enumerate(tables.names):
        if j == column:
            continue
        numbers = tables.scores[j]
        if numbers is not None and np.isfinite(numbers).sum() > 2:
            values = numbers[real.codes[:, j]]
            finite_rows = np.isfinite(values)
            finite = values[finite_rows]
            if len(finite) and finite.std() > 0:
                each = None if real.weights is None else real.weights[finite_rows]
                centre = float(np.average(finite, weights=each))
                names.append(name)
                places.append((j, None))
                centres.append(centre)
                scales.append(math.sqrt(np.average((finite - centre) ** 2, weights=each)))
            continue
        rows = counts(real.codes[:, j], tables.sizes[j])
        common = counts(real.codes[:, j], tables.sizes[j], real.weights)
        for v in np.argsort(-common, kind="stable")[1:MAX_VALUES]:
            if rows[v] >= LEAST:
                names.append(f"{name} = {tables.labels[j][int(v)]}")
                places.append((j, int(v)))
                centres.append(0.0)
                scales.append(1.0)
    return Terms(tuple(names), tuple(places), tuple(centres), tuple(scales))


def design(table: np.ndarray, scores: tuple[np.ndarray | None, ...], terms: Terms) -> np.ndarray:
    """Return the design matrix with an intercept first; a null number counts as the mean."""
    out = np.ones((len(table), 1 + len(terms.places)))
    for i, (j, value) in enumerate(terms.places):
        if value is None:
            numbers = scores[j]
            assert numbers is not None
            z = (numbers[table[:, j]] - terms.centres[i]) / terms.scales[i]
            out[:, i + 1] = np.nan_to_num(z)
        else:
            out[:, i + 1] = table[:, j] == value
    return out


def least_squares(
    x: np.ndarray, y: np.ndarray, weights: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Return coefficients and standard errors of least squares; NaN errors where not identified.

    With ``weights``, shape (rows,) of any scale, the errors are those of :func:`_robust`.
    """
    n, p = x.shape
    if n <= p:
        return np.zeros(p), np.full(p, np.nan)
    weighted = x if weights is None else x * (weights / weights.mean())[:, None]
    beta, cov = _solve(weighted.T @ x, weighted.T @ y)
    residual = y - x @ beta
    if weights is not None:
        return beta, _errors(_robust(cov, weighted * residual[:, None]), 1.0, x)
    variance = float(residual @ residual) / (n - p)
    return beta, _errors(cov, variance, x)


def logistic(
    x: np.ndarray, y: np.ndarray, weights: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Return coefficients and standard errors of a logistic regression, by Newton's method.

    Separated data have no maximum: there the steps stop and the errors are large, as they should be.
    With ``weights``, shape (rows,) of any scale, the errors are those of :func:`_robust`, unless data are separated.
    """
    n, p = x.shape
    if n <= p or y.min() == y.max():
        return np.zeros(p), np.full(p, np.nan)
    beta = np.zeros(p)
    cov = np.eye(p)
    each = np.ones(n) if weights is None else weights / weights.mean()
    for _ in range(ITERATIONS):
        chance = 1 / (1 + np.exp(-np.clip(x @ beta, -30, 30)))
        weight = each * np.maximum(chance * (1 - chance), 1e-10)
        step, cov = _solve((x * weight[:, None]).T @ x, x.T @ (each * (y - chance)))
        size = float(np.abs(step).max())
        beta = beta + step * min(1.0, 5.0 / max(size, 1e-12))
        if size < 1e-8 or float(np.abs(beta).max()) > SEPARATED:
            break
    if weights is not None and float(np.abs(beta).max()) <= SEPARATED:
        cov = _robust(cov, x * (each * (y - chance))[:, None])
    return beta, _errors(cov, 1.0, x)


def _robust(inverse: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """Return covariance of coefficients by linearisation, of rows that are drawn independently, with replacement.

    Binder 1983, "On the variances of asymptotically normal estimators from complex surveys".

    Parameters
    ----------
    inverse : ndarray, shape (terms, terms)
        Of the information matrix.
    scores : ndarray, shape (rows, terms)
        Of each row, times its weight.
    """
    n = len(scores)
    return np.asarray(n / (n - 1) * inverse @ (scores.T @ scores) @ inverse)


def _solve(gram: np.ndarray, right: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    ridge = RIDGE * max(float(np.trace(gram)) / len(gram), 1e-12)
    inverse = np.linalg.inv(gram + ridge * np.eye(len(gram)))
    return inverse @ right, inverse


def _errors(cov: np.ndarray, variance: float, x: np.ndarray) -> np.ndarray:
    """Return standard errors; NaN for a term that is constant in this table, whose effect it cannot tell."""
    errors = np.sqrt(np.maximum(np.diag(cov) * variance, 0))
    constant = np.ptp(x, axis=0) == 0
    constant[0] = False
    errors[constant] = np.nan
    return errors


def interval_overlap(
    a: tuple[np.ndarray, np.ndarray], b: tuple[np.ndarray, np.ndarray]
) -> np.ndarray:
    """Return karr et al.'s overlap for each coefficient; −1 where it is below, or b has no interval."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        low = np.maximum(a[0] - Z95 * a[1], b[0] - Z95 * b[1])
        high = np.minimum(a[0] + Z95 * a[1], b[0] + Z95 * b[1])
        shared = high - low
        overlap = 0.5 * (shared / (2 * Z95 * a[1]) + shared / (2 * Z95 * b[1]))
    return np.where(np.isfinite(overlap), np.maximum(overlap, -1.0), -1.0)


def _conclusions(beta: np.ndarray, error: np.ndarray) -> np.ndarray:
    """Return the sign of a coefficient that differs from 0 at 5%, else 0."""
    significant = np.abs(beta) > Z95 * np.nan_to_num(error, nan=np.inf)
    return np.where(significant, np.sign(beta), 0.0)
