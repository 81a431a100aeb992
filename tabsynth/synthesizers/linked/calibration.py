"""Calibration: choose rows of the root, with all their records, so that noisy counts of profiles hold.

More rows of the root are drawn than are asked for, and some are chosen. The chance of each is that of a logistic model of its
profile, which is the calibration estimator of Deville and Särndal (1992, doi:10.1080/01621459.1992.10475217) with the
logit distance, and a penalty for the noise of the counts. All of it is post-processing of noisy counts.

NOTE[DIFF] A calibration estimator meets its totals exactly; these are noisy, so a ridge term lets them differ by some of their
noise, as in Beaumont and Bocci 2008 (Survey Methodology 34). Rows are chosen, not weighted.
"""

import numpy as np
import scipy.sparse as sp
from scipy.optimize import minimize
from scipy.special import expit, logit

DRAWN = 8  # times as many rows as are asked for
TRUST = 0.03  # of the drawn rows against the counts: how much one of them tells of the population, in rows
STEPS = 1_000  # of the optimiser
LARGEST = 10.0  # log-odds that one count adds: of exact counts that cannot be met, they would grow without end
PASSES, CANDIDATES = 3, 10  # of exchanges, and rows that each chosen one may be exchanged for
ALIKE = 0.5  # the most that the log-odds of rows that are exchanged differ


def fit_chances(
    features: sp.csr_matrix, counts: np.ndarray, stds: np.ndarray, n: int
) -> np.ndarray:
    """Return coefficients of a logistic model of the chance that a row is chosen, shape (1 + counts,), the constant first.

    Parameters
    ----------
    features : csr_matrix, shape (rows, counts)
        What each row adds to each count.
    counts, stds : ndarray, shape (counts,)
        Noisy counts of ``n`` rows, and the standard deviations of their noise.
    n : int
        How many rows are chosen; fewer than there are.
    """
    with_constant = _with_constant(features)
    transposed = with_constant.T.tocsr()
    wanted = np.concatenate([[n], counts])
    penalty = TRUST * np.concatenate([[0.0], stds**2])
    base = n / features.shape[0]
    squares = np.asarray(with_constant.multiply(with_constant).sum(axis=0)).ravel()
    scale = 1 / np.sqrt(squares * base * (1 - base) + penalty + 1e-9)

    def loss(scaled: np.ndarray) -> tuple[float, np.ndarray]:
        theta = scaled * scale
        odds = with_constant @ theta
        value = np.logaddexp(0, odds).sum() - wanted @ theta + penalty @ theta**2 / 2
        return float(value), (transposed @ expit(odds) - wanted + penalty * theta) * scale

    start = np.zeros(len(wanted))
    start[0] = logit(base) / scale[0]
    options = {"maxiter": STEPS, "maxfun": 2 * STEPS, "ftol": 1e-12}
    most = np.append(np.inf, np.full(len(counts), LARGEST)) / scale
    bounds = np.column_stack([-most, most])
    result = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds, options=options)
    theta: np.ndarray = result.x * scale
    return theta


def choose(
    features: sp.csr_matrix, theta: np.ndarray, n: int, rng: np.random.Generator
) -> np.ndarray:
    """Return the numbers of ``n`` rows, chosen by the chances of the model, in rising order.

    They are drawn systematically (Madow 1949), and some are then exchanged for others of about the same chance, so that the
    sums of their features come near to what is expected of them.
    """
    odds = _with_constant(features) @ theta
    chances = _chances(odds, n)
    order = rng.permutation(len(odds))
    steps = np.floor(chances[order].cumsum() + rng.random() * (1 - 1e-9))
    chosen = np.zeros(len(odds), dtype=bool)
    chosen[order[np.diff(steps, prepend=0.0) > 0]] = True
    surplus = int(chosen.sum()) - n  # of one row at most, by rounding
    if surplus > 0:
        chosen[rng.choice(np.flatnonzero(chosen), surplus, replace=False)] = False
    elif surplus < 0:
        chosen[rng.choice(np.flatnonzero(~chosen), -surplus, replace=False)] = True
    _exchange(features, chances, odds, chosen, rng)
    return np.flatnonzero(chosen)


def _with_constant(features: sp.csr_matrix) -> sp.csr_matrix:
    return sp.hstack([np.ones((features.shape[0], 1)), features], format="csr")


def _chances(odds: np.ndarray, n: int) -> np.ndarray:
    """Return chances that sum to ``n``: those of the log-odds, moved by a constant."""
    low, high = -100.0, 100.0
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if expit(odds + middle).sum() < n else (low, middle)
    chances: np.ndarray = expit(odds + high)
    return chances


def _exchange(
    features: sp.csr_matrix,
    chances: np.ndarray,
    odds: np.ndarray,
    chosen: np.ndarray,
    rng: np.random.Generator,
) -> None:
    """Exchange chosen rows for others where that brings the sums of features nearer to what is expected."""
    expected = np.asarray(features.T @ chances).ravel()
    weights = 1 / np.maximum(expected, 1.0)
    surplus_of = np.asarray(features.T @ chosen.astype(float)).ravel() - expected
    starts, columns, values = features.indptr, features.indices, features.data

    def of(row: int) -> tuple[np.ndarray, np.ndarray]:
        part = slice(starts[row], starts[row + 1])
        return columns[part], values[part]

    def change(row: int, sign: int) -> float:
        at, by = of(row)
        return float((weights[at] * by * (2 * sign * surplus_of[at] + by)).sum())

    for row in np.tile(np.flatnonzero(chosen), PASSES).tolist():
        if not chosen[row]:
            continue
        candidates = rng.integers(0, len(odds), CANDIDATES)
        alike = np.abs(odds[candidates] - odds[row]) < ALIKE
        candidates = candidates[alike & ~chosen[candidates]]
        out = change(row, -1)
        at, by = of(row)
        surplus_of[at] -= by
        gains = [out + change(int(other), 1) for other in candidates]
        if gains and min(gains) < 0:
            other = int(candidates[int(np.argmin(gains))])
            chosen[row], chosen[other] = False, True
            at, by = of(other)
        surplus_of[at] += by
