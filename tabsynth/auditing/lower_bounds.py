"""Lower bounds of ε and μ from the error rates of an attack, and the power of that test.

A test between two neighbouring datasets has a false positive rate α and a false negative rate β. Under
(ε, δ)-DP, 1 − β ≤ e^ε α + δ and 1 − α ≤ e^ε β + δ (Kairouz, Oh, Viswanath 2015); under μ-Gaussian DP,
Φ⁻¹(1 − α) − Φ⁻¹(β) ≤ μ (Dong, Roth, Su 2019). So upper bounds of both rates are lower bounds of ε and μ.
"""

import math
from dataclasses import dataclass

import numpy as np
from scipy import optimize, stats

CONFIDENCE = 0.999


@dataclass(frozen=True, kw_only=True)
class Errors:
    """Errors of one test on runs on both datasets.

    Attributes
    ----------
    false_positives, runs_without : int
        Runs without the canary that were classified as runs with it, and all runs without it.
    false_negatives, runs_with : int
        Runs with the canary that were classified as runs without it, and all runs with it.
    """

    false_positives: int
    runs_without: int
    false_negatives: int
    runs_with: int

    def rate_upper_bounds(self, confidence: float) -> tuple[float, float]:
        """Return upper bounds of both error rates that hold jointly with ``confidence``."""
        each = (1 + confidence) / 2
        return (
            rate_upper_bound(self.false_positives, self.runs_without, each),
            rate_upper_bound(self.false_negatives, self.runs_with, each),
        )


def rate_upper_bound(count: int, trials: int, confidence: float) -> float:
    """Return the one-sided upper bound of a rate by Clopper and Pearson."""
    return float(rate_upper_bounds(np.array([count]), trials, confidence)[0])


def rate_upper_bounds(counts: np.ndarray, trials: int, confidence: float) -> np.ndarray:
    """Return :func:`rate_upper_bound` of each of several counts."""
    bounds = stats.beta.ppf(confidence, counts + 1, np.maximum(trials - counts, 1))
    return np.where(counts >= trials, 1.0, bounds)


def rate_lower_bound(count: int, trials: int, confidence: float) -> float:
    """Return the one-sided lower bound of a rate by Clopper and Pearson."""
    return 1 - rate_upper_bound(trials - count, trials, confidence)


def mu_from_rates(false_positive: float, false_negative: float) -> float:
    """Return Φ⁻¹(1 − α) − Φ⁻¹(β), the smallest μ ≥ 0 at which μ-Gaussian DP allows both error rates."""
    if false_positive >= 1 or false_negative >= 1:
        return 0.0
    return max(0.0, float(stats.norm.isf(false_positive) - stats.norm.ppf(false_negative)))


def epsilon_from_rates(false_positive: float, false_negative: float, delta: float) -> float:
    """Return the smallest ε ≥ 0 at which (ε, δ)-DP allows both error rates."""
    bounds = [0.0]
    for first_rate, second_rate in (
        (false_positive, false_negative),
        (false_negative, false_positive),
    ):
        hit = 1 - delta - second_rate
        if hit > 0:
            bounds.append(math.inf if first_rate == 0 else math.log(hit / first_rate))
    return max(bounds)


@dataclass(frozen=True, kw_only=True)
class LowerBounds:
    """Lower bounds of μ and ε at ``confidence``, with the threshold and the errors that give them."""

    mu: float
    epsilon: float
    threshold: float
    errors: Errors
    confidence: float


def estimate_bounds(
    without: np.ndarray, with_canary: np.ndarray, delta: float, confidence: float = CONFIDENCE
) -> LowerBounds:
    """Estimate lower bounds of μ and ε from a test statistic on both neighbouring datasets.

    The first half of the runs on each dataset chooses the threshold and the other half counts errors, so the
    bounds hold with ``confidence`` for any statistic.

    Parameters
    ----------
    without, with_canary : ndarray, shape (runs,)
        Statistics of independent runs, at least 2 on each dataset; larger values indicate the canary.
    """
    middle = len(without) // 2, len(with_canary) // 2
    threshold = choose_threshold(without[: middle[0]], with_canary[: middle[1]], confidence)
    errors = count_errors(threshold, without[middle[0] :], with_canary[middle[1] :])
    upper = errors.rate_upper_bounds(confidence)
    return LowerBounds(
        mu=mu_from_rates(*upper),
        epsilon=epsilon_from_rates(*upper, delta),
        threshold=threshold,
        errors=errors,
        confidence=confidence,
    )


def count_errors(threshold: float, without: np.ndarray, with_canary: np.ndarray) -> Errors:
    """Count the errors of the test that finds the canary where the statistic is above ``threshold``."""
    return Errors(
        false_positives=int((without > threshold).sum()),
        runs_without=len(without),
        false_negatives=int((with_canary <= threshold).sum()),
        runs_with=len(with_canary),
    )


def choose_threshold(without: np.ndarray, with_canary: np.ndarray, confidence: float) -> float:
    """Choose the quantile of these runs that gives the highest lower bound of μ on them.

    If the runs are too few for a positive bound, choose the quantile with the fewest errors.
    """
    both = np.concatenate([without, with_canary])
    candidates = np.unique(np.quantile(both, np.linspace(0, 1, 201), method="lower"))
    n, m = len(without), len(with_canary)
    positives = n - np.searchsorted(np.sort(without), candidates, side="right")
    negatives = np.searchsorted(np.sort(with_canary), candidates, side="right")
    each = (1 + confidence) / 2
    bounds = stats.norm.isf(rate_upper_bounds(positives, n, each)) - stats.norm.ppf(
        rate_upper_bounds(negatives, m, each)
    )
    return float(candidates[np.lexsort((positives / n + negatives / m, -bounds.clip(0)))[0]])


def estimate_mu(without: np.ndarray, with_canary: np.ndarray) -> float:
    """Return μ̂, the distance of the means on both datasets in units of their pooled standard deviation."""
    spread = math.sqrt((without.var(ddof=1) + with_canary.var(ddof=1)) / 2)
    gap = float(with_canary.mean() - without.mean())
    if spread == 0:
        return math.inf if gap > 0 else 0.0
    return gap / spread


def mu_standard_error(without: np.ndarray, with_canary: np.ndarray) -> float:
    """Return the approximate standard error of :func:`estimate_mu`."""
    return math.sqrt(1 / len(without) + 1 / len(with_canary))


def power(true_mu: float, claimed_mu: float, runs: int, confidence: float = CONFIDENCE) -> float:
    """Return the probability that the claim ``claimed_mu`` is refuted if the mechanism has ``true_mu``.

    It is exact for a Gaussian statistic, a threshold in the middle, and ``runs`` runs on each dataset that count
    errors (without the runs that choose the threshold).
    """
    rate = float(stats.norm.cdf(-true_mu / 2))
    counts = np.arange(runs + 1)
    upper = rate_upper_bounds(counts, runs, (1 + confidence) / 2)
    # For each α the largest β that still refutes the claim: Φ(Φ⁻¹(1 − α) − μ).
    allowed_rates = stats.norm.cdf(stats.norm.isf(upper) - claimed_mu)
    # The greatest count of the other side.
    refuting = np.searchsorted(upper, allowed_rates, side="left") - 1
    chance = stats.binom.pmf(counts, runs, rate)
    return float((chance * stats.binom.cdf(refuting, runs, rate)).sum())


def detectable_noise_ratio(claimed_mu: float, runs: int, confidence: float = CONFIDENCE) -> float:
    """Return how many times too small the noise must be for a detection probability of 95%."""

    def missing_power(logarithm: float) -> float:
        return 0.95 - power(math.exp(logarithm) * claimed_mu, claimed_mu, runs, confidence)

    limit = math.log(1e6)
    if missing_power(limit) > 0:
        return math.inf
    return math.exp(optimize.brentq(missing_power, 0.0, limit))


def largest_bound(runs: int, delta: float, confidence: float = CONFIDENCE) -> float:
    """Return the largest lower bound of ε that ``runs`` runs on each dataset can give: with no error."""
    rate = rate_upper_bound(0, runs, (1 + confidence) / 2)
    return epsilon_from_rates(rate, rate, delta)
