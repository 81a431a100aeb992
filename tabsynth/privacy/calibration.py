"""The noise that a budget asks for: the accountant, inverted."""

import math
from collections.abc import Callable, Sequence

from scipy.optimize import brentq

from tabsynth._validate import positive, real
from tabsynth.errors import BudgetError
from tabsynth.privacy.accounting import Spend, epsilon_of, gaussian_epsilon, rdp_epsilon
from tabsynth.privacy.mechanisms import Gaussian, Mechanism, steps_of

TOLERANCE = 0.004  # calibration spends between (1 - TOLERANCE) ε and ε
LEAST_NOISE, MOST_NOISE = 0.2, 1e6
SMALL = 0.05  # ε at which RDP is too loose to share a budget out by


def calibrate(build: Callable[[float], Sequence[Spend]], epsilon: float, delta: float) -> float:
    """The smallest noise multiplier whose composition stays within (``epsilon``, ``delta``).

    Parameters
    ----------
    build : callable
        From a noise multiplier to everything that will be spent, fixed parts included.

    Returns
    -------
    float
        Rounded towards more privacy: the composition spends between 99.6% and 100% of ``epsilon``.

    Raises
    ------
    BudgetError
        If even enormous noise does not help: the fixed parts alone spend the budget.
    """
    positive("epsilon", real("epsilon", epsilon))

    def excess(log_sigma: float, road: Callable[[Sequence[Spend], float], float]) -> float:
        """log(spent / ε): at most 0 where the plan keeps the budget."""
        return math.log(max(road(build(math.exp(log_sigma)), delta), 1e-12) / epsilon)

    low, high = math.log(LEAST_NOISE), math.log(MOST_NOISE)
    if excess(high, rdp_epsilon) > 0 and excess(high, epsilon_of) > 0:
        raise BudgetError(
            f"No noise up to {MOST_NOISE:,.0f} keeps this plan within epsilon={epsilon:g}: raise"
            " epsilon, ask for fewer steps or labels, or lower the shares of what is spent before."
        )
    if excess(low, epsilon_of) <= 0:
        return LEAST_NOISE
    # RDP is fast and never below PRV: start from its answer, then follow the secant of log ε
    # against log σ, whose slope is near -1, keeping [low, high] as a bracket.
    if excess(high, rdp_epsilon) < 0 < excess(low, rdp_epsilon):
        guess = brentq(excess, low, high, args=(rdp_epsilon,), xtol=1e-4) + 1e-4
    else:
        guess = high
    aim, slope = -TOLERANCE / 2, -1.0
    last: tuple[float, float] | None = None
    while high - low > 1e-6:
        found = excess(guess, epsilon_of)
        if -TOLERANCE <= found <= 0:
            high = guess
            break
        low, high = (guess, high) if found > 0 else (low, guess)
        if last is not None and guess != last[0] and found != last[1]:
            slope = (found - last[1]) / (guess - last[0])
        last = (guess, found)
        guess = guess + (aim - found) / (slope if slope < -0.05 else -1.0)
        if not low < guess < high:
            guess = (low + high) / 2
    return math.ceil(math.exp(high) * 1e4) / 1e4


def matching_noise(
    mechanism: Callable[[float], Mechanism], count: int, mu: float, delta: float
) -> float:
    """The noise multiplier at which ``count`` uses cost what one Gaussian of ``mu`` costs, by RDP.

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
    """As :func:`calibrate`, by the RDP accountant: quicker, and more noise than is needed.

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
    return math.ceil(math.exp(brentq(excess, low, high, xtol=1e-9)) * 1e4 + 1) / 1e4
