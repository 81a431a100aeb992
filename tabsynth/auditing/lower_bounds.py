"""What errors of an attack say of a claim: lower bounds of ε and μ, and the power of the test.

A test between two neighbours has a false positive rate α and a false negative rate β. Under
(ε, δ)-DP, 1 − β ≤ e^ε α + δ and 1 − α ≤ e^ε β + δ (Kairouz, Oh, Viswanath 2015); under μ-Gaussian DP,
Φ⁻¹(1 − α) − Φ⁻¹(β) ≤ μ (Dong, Roth, Su 2019). So upper bounds of both rates are lower bounds of ε and μ.
"""

import math
from dataclasses import dataclass

import numpy as np
from scipy import stats

CONFIDENCE = 0.999


@dataclass(frozen=True, kw_only=True)
class Errors:
    """Errors of one test on runs in both worlds.

    Attributes
    ----------
    false_positives, without : int
        Runs that were taken for runs with the canary, of so many without it.
    false_negatives, with_canary : int
        Runs that were taken for runs without it, of so many with it.
    """

    false_positives: int
    without: int
    false_negatives: int
    with_canary: int

    def upper(self, confidence: float) -> tuple[float, float]:
        """Upper bounds of both rates, which hold together with ``confidence``."""
        each = (1 + confidence) / 2
        return (
            upper_rate(self.false_positives, self.without, each),
            upper_rate(self.false_negatives, self.with_canary, each),
        )


def upper_rate(count: int, trials: int, confidence: float) -> float:
    """Clopper–Pearson: the one-sided upper bound of a rate that was seen ``count`` times."""
    return float(upper_rates(np.array([count]), trials, confidence)[0])


def upper_rates(counts: np.ndarray, trials: int, confidence: float) -> np.ndarray:
    """:func:`upper_rate` of each of several counts."""
    found = stats.beta.ppf(confidence, counts + 1, np.maximum(trials - counts, 1))
    return np.where(counts >= trials, 1.0, found)


def lower_rate(count: int, trials: int, confidence: float) -> float:
    """Clopper–Pearson: the one-sided lower bound."""
    return 1 - upper_rate(trials - count, trials, confidence)


def mu_of(false_positive: float, false_negative: float) -> float:
    """Φ⁻¹(1 − α) − Φ⁻¹(β): the least μ at which a Gaussian mechanism allows both rates; at least 0."""
    if false_positive >= 1 or false_negative >= 1:
        return 0.0
    return max(0.0, float(stats.norm.isf(false_positive) - stats.norm.ppf(false_negative)))


def epsilon_of(false_positive: float, false_negative: float, delta: float) -> float:
    """The least ε at which (ε, δ)-DP allows both rates; at least 0."""
    found = [0.0]
    for one, other in (
        (false_positive, false_negative),
        (false_negative, false_positive),
    ):
        hit = 1 - delta - other
        if hit > 0:
            found.append(math.inf if one == 0 else math.log(hit / one))
    return max(found)


@dataclass(frozen=True, kw_only=True)
class Bound:
    """What a test found: lower bounds at ``confidence``, and the errors that they follow from."""

    mu: float
    epsilon: float
    threshold: float
    errors: Errors
    confidence: float


def bounded(
    without: np.ndarray, with_canary: np.ndarray, delta: float, confidence: float = CONFIDENCE
) -> Bound:
    """Lower bounds of μ and ε from statistics of runs in both worlds.

    The first half of each world chooses the threshold, and the other half counts errors: so the bounds
    hold with ``confidence``, whatever the statistic.

    Parameters
    ----------
    without, with_canary : ndarray, shape (runs,)
        Greater where the canary seems to be there. Runs are independent; at least 2 in each world.
    """
    middle = len(without) // 2, len(with_canary) // 2
    threshold = best_threshold(without[: middle[0]], with_canary[: middle[1]], confidence)
    held = without[middle[0] :], with_canary[middle[1] :]
    errors = errors_at(threshold, *held)
    upper = errors.upper(confidence)
    return Bound(
        mu=mu_of(*upper),
        epsilon=epsilon_of(*upper, delta),
        threshold=threshold,
        errors=errors,
        confidence=confidence,
    )


def errors_at(threshold: float, without: np.ndarray, with_canary: np.ndarray) -> Errors:
    """Errors of "the canary is there if the statistic is above ``threshold``"."""
    return Errors(
        false_positives=int((without > threshold).sum()),
        without=len(without),
        false_negatives=int((with_canary <= threshold).sum()),
        with_canary=len(with_canary),
    )


def best_threshold(without: np.ndarray, with_canary: np.ndarray, confidence: float) -> float:
    """The threshold with the highest bound of μ on the runs that choose it, of 200 quantiles of theirs.

    Where they are too few for any bound, the one with the fewest errors.
    """
    both = np.concatenate([without, with_canary])
    candidates = np.unique(np.quantile(both, np.linspace(0, 1, 201), method="lower"))
    n, m = len(without), len(with_canary)
    positives = n - np.searchsorted(np.sort(without), candidates, side="right")
    negatives = np.searchsorted(np.sort(with_canary), candidates, side="right")
    each = (1 + confidence) / 2
    bounds = stats.norm.isf(upper_rates(positives, n, each)) - stats.norm.ppf(
        upper_rates(negatives, m, each)
    )
    return float(candidates[np.lexsort((positives / n + negatives / m, -bounds.clip(0)))[0]])


def separation(without: np.ndarray, with_canary: np.ndarray) -> float:
    """μ̂: the distance of the means of both worlds, in units of their (pooled) standard deviation."""
    spread = math.sqrt((without.var(ddof=1) + with_canary.var(ddof=1)) / 2)
    gap = float(with_canary.mean() - without.mean())
    if spread == 0:
        return math.inf if gap > 0 else 0.0
    return gap / spread


def standard_error(without: np.ndarray, with_canary: np.ndarray) -> float:
    """Of :func:`separation`, about: that of the means."""
    return math.sqrt(1 / len(without) + 1 / len(with_canary))


def power(true_mu: float, claimed_mu: float, runs: int, confidence: float = CONFIDENCE) -> float:
    """The chance that a claim of μ is refuted, where the mechanism really has ``true_mu``.

    Exact for a Gaussian statistic, a threshold midway and ``runs`` runs a world that count errors (not
    those that choose the threshold).
    """
    rate = float(stats.norm.cdf(-true_mu / 2))
    counts = np.arange(runs + 1)
    upper = upper_rates(counts, runs, (1 + confidence) / 2)
    # Of α, the greatest β that still refutes: Φ(Φ⁻¹(1 − α) − μ).
    most = stats.norm.cdf(stats.norm.isf(upper) - claimed_mu)
    refuting = np.searchsorted(upper, most, side="left") - 1  # the greatest count of the other side
    chance = stats.binom.pmf(counts, runs, rate)
    return float((chance * stats.binom.cdf(refuting, runs, rate)).sum())


def detectable(claimed_mu: float, runs: int, confidence: float = CONFIDENCE) -> float:
    """How many times too small the noise must be for the test to find it 19 times in 20."""
    low, high = 1.0, 2.0
    while power(high * claimed_mu, claimed_mu, runs, confidence) < 0.95:
        high *= 2
        if high > 1e6:
            return math.inf
    for _ in range(30):
        middle = (low + high) / 2
        found = power(middle * claimed_mu, claimed_mu, runs, confidence) >= 0.95
        low, high = (low, middle) if found else (middle, high)
    return high


def ceiling(runs: int, delta: float, confidence: float = CONFIDENCE) -> float:
    """The greatest lower bound of ε that ``runs`` runs a world can give: no error in any of them."""
    rate = upper_rate(0, runs, (1 + confidence) / 2)
    return epsilon_of(rate, rate, delta)


def one_run_p_value(canaries: int, guesses: int, right: int, epsilon: float, delta: float) -> float:
    """The chance of so many right guesses, or more, under (ε, δ)-DP (Steinke, Nasr, Jagielski 2023).

    Their Theorem 5.2. Each of ``canaries`` records is in or out by a fair coin of its own; a guess is made
    for ``guesses`` of them, after one run. With f(v) = P[Binomial(r, e^ε/(1 + e^ε)) ≥ v],
    P[right ≥ v] ≤ f(v) + 2mδ · max_{1 ≤ i ≤ m} (f(v − i) − f(v))/i.
    """
    if not 0 <= right <= guesses <= canaries:
        raise ValueError("expected 0 <= right <= guesses <= canaries")
    chance = 1 / (1 + math.exp(-epsilon))
    beyond = float(stats.binom.sf(right - 1, guesses, chance))
    if delta == 0 or right == 0:
        return min(1.0, beyond)
    steps = np.arange(1, right + 1)  # past v = 0, f is 1 and only i grows
    more = np.cumsum(stats.binom.pmf(right - steps, guesses, chance))
    return float(min(1.0, beyond + 2 * canaries * delta * float((more / steps).max())))


def one_run_epsilon(
    canaries: int, guesses: int, right: int, delta: float, confidence: float = CONFIDENCE
) -> float:
    """The least ε that so many right guesses of one run do not refute at ``confidence``."""
    miss = 1 - confidence
    if one_run_p_value(canaries, guesses, right, 0.0, delta) >= miss:
        return 0.0
    low, high = 0.0, 1.0
    while one_run_p_value(canaries, guesses, right, high, delta) < miss:
        low, high = high, 2 * high
        if high > 64:
            return high
    for _ in range(50):
        middle = (low + high) / 2
        below = one_run_p_value(canaries, guesses, right, middle, delta) < miss
        low, high = (middle, high) if below else (low, middle)
    return low
