"""The noise that a budget asks for: the accountant, inverted."""

import logging
import math
from collections.abc import Callable, Sequence

from tabsynth._validate import positive, real
from tabsynth.errors import BudgetError
from tabsynth.privacy.accounting.accountants import (
    PrivacyFilter,
    Spend,
    epsilon_of,
    gaussian_epsilon,
    rdp_epsilon,
)
from tabsynth.privacy.accounting.mechanisms import Gaussian, Mechanism, steps_of

TOLERANCE = 0.004  # calibration spends between (1 - TOLERANCE) ε and ε
UNSPENT = 0.01  # of ε: where more is left over, a warning says so
# Below 0.001 even one step of a small batch is past ε = 10⁵.
LEAST_NOISE, MOST_NOISE = 1e-3, 1e6
SMALL = 0.05  # ε at which RDP is too loose to share a budget out by
logger = logging.getLogger(__name__)


def calibrate(
    build: Callable[[float], Sequence[Spend]],
    epsilon: float,
    delta: float,
    kept_by: PrivacyFilter | None = None,
) -> float:
    """Return the smallest noise multiplier whose composition stays within (``epsilon``, ``delta``).

    Parameters
    ----------
    build : callable
        From a noise multiplier to everything that will be spent, fixed parts included.
    kept_by : PrivacyFilter, optional
        Composes instead of the accountant: for fixed parts that were spent before the rest was planned.

    Returns
    -------
    float
        Rounded towards more privacy: the composition spends between 99% and 100% of ``epsilon``. Where no noise
        of at least 0.001 does, because the accountant's ε jumps or stays below, a warning is logged that says
        how much is left over.

    Raises
    ------
    BudgetError
        If even enormous noise does not help: the fixed parts alone spend the budget.
    """
    positive("epsilon", real("epsilon", epsilon))
    if kept_by is not None:
        return _filling(build, kept_by)

    def excess(log_sigma: float, accountant: Callable[[Sequence[Spend], float], float]) -> float:
        """Return log(spent / ε): at most 0 where the plan keeps the budget."""
        return math.log(max(accountant(build(math.exp(log_sigma)), delta), 1e-12) / epsilon)

    low, high = math.log(LEAST_NOISE), math.log(MOST_NOISE)
    if excess(high, rdp_epsilon) > 0 and excess(high, epsilon_of) > 0:
        raise BudgetError(
            f"No noise up to {MOST_NOISE:,.0f} keeps this plan within epsilon={epsilon:g}: raise"
            " epsilon, ask for fewer steps or labels, or lower the shares of what is spent before."
        )
    if excess(low, epsilon_of) <= 0:
        _warn_of_unspent(math.exp(excess(low, epsilon_of)), epsilon)
        return LEAST_NOISE
    # RDP is fast and never below PRV: start from its answer, then follow the secant of log ε
    # against log σ, whose slope is near -1, keeping [low, high] as a bracket.
    if excess(high, rdp_epsilon) < 0 < excess(low, rdp_epsilon):
        guess = _root(lambda log_sigma: excess(log_sigma, rdp_epsilon), low, high, 1e-4) + 1e-4
    else:
        guess = high
    aim, slope = -TOLERANCE / 2, -1.0
    last: tuple[float, float] | None = None
    excess_epsilon = -math.inf
    while high - low > 1e-6:
        excess_epsilon = excess(guess, epsilon_of)
        if -TOLERANCE <= excess_epsilon <= 0:
            high = guess
            break
        low, high = (guess, high) if excess_epsilon > 0 else (low, guess)
        if last is not None and guess != last[0] and excess_epsilon != last[1]:
            slope = (excess_epsilon - last[1]) / (guess - last[0])
        last = (guess, excess_epsilon)
        guess = guess + (aim - excess_epsilon) / (slope if slope < -0.05 else -1.0)
        if not low < guess < high:
            guess = (low + high) / 2
    noise = _rounded_up(math.exp(high))
    if not -TOLERANCE <= excess_epsilon <= 0:  # no noise was found that spends just the budget
        _warn_of_unspent(math.exp(excess(math.log(noise), epsilon_of)), epsilon)
    return noise


def _root(function: Callable[[float], float], low: float, high: float, tolerance: float) -> float:
    # Imported late, and quicker than bisection: an accountant takes a part of a second.
    from scipy.optimize import brentq

    return float(brentq(function, low, high, xtol=tolerance))


def _rounded_up(noise: float) -> float:
    """Round up to four digits after the point, or to four that count."""
    scale = 10.0 ** max(4, 3 - math.floor(math.log10(noise)))
    return math.ceil(noise * scale) / scale


def _warn_of_unspent(share: float, epsilon: float) -> None:
    if share < 1 - UNSPENT:
        logger.warning(
            "%.1f%% of epsilon=%g cannot be spent: no noise multiplier was found at which the accountant comes"
            " closer; ask for less, or for another number of steps or batch size.",
            100 * (1 - share),
            epsilon,
        )


def _filling(build: Callable[[float], Sequence[Spend]], kept_by: PrivacyFilter) -> float:
    """See :func:`calibrate`, by the share of a filter's budget."""

    def excess(log_sigma: float) -> float:
        return math.log(max(kept_by.share(build(math.exp(log_sigma))), 1e-300))

    low, high = math.log(LEAST_NOISE), math.log(MOST_NOISE)
    if excess(high) >= 0:
        raise BudgetError(
            f"What was spent before leaves nothing of epsilon={kept_by.epsilon:g}: raise epsilon=, or spend less"
            " before."
        )
    if excess(low) <= 0:
        _warn_of_unspent(math.exp(excess(low)), kept_by.epsilon)
        return LEAST_NOISE
    return _rounded_up(math.exp(_root(excess, low, high, 1e-9) + 2e-9))


def matching_noise(
    mechanism: Callable[[float], Mechanism], count: int, mu: float, delta: float
) -> float:
    """Return the noise multiplier at which ``count`` uses cost what one Gaussian of ``mu`` costs, by RDP.

    For sharing a budget out, where speed matters more than the last percent: what is spent in all is
    accounted by :func:`epsilon_of` in any case. Below ε = 0.05 RDP runs out of orders, and the limit of
    many steps is taken, μ² = count q²(e^{1/σ²} − 1) (Bu, Dong, Long, Su 2020, Corollary 4).
    """
    if gaussian_epsilon(mu, delta) < SMALL:
        _, rate, _ = steps_of(mechanism(1.0), 1)
        return 1 / math.sqrt(math.log1p(mu**2 / (rate**2 * count)))
    target = rdp_epsilon([(Gaussian(noise_multiplier=1 / mu), 1)], delta)
    return noise_by_rdp(lambda s: [(mechanism(s), count)], target, delta)


def noise_by_rdp(build: Callable[[float], Sequence[Spend]], epsilon: float, delta: float) -> float:
    """See :func:`calibrate`, by the RDP accountant: quicker, and more noise than is needed.

    Raises
    ------
    BudgetError
        If RDP finds no noise that keeps the budget.
    """

    def excess(log_sigma: float) -> float:
        return rdp_epsilon(build(math.exp(log_sigma)), delta) - epsilon

    low, high = math.log(LEAST_NOISE), math.log(MOST_NOISE)
    if excess(low) <= 0:
        return LEAST_NOISE
    if excess(high) > 0:
        raise BudgetError(f"By RDP no noise keeps this plan within epsilon={epsilon:g}.")
    return _rounded_up(math.exp(_root(excess, low, high, 1e-9) + 1e-4))
