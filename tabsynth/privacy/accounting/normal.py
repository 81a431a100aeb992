"""The normal distribution and the root of an equation, by ``math`` alone: accounting of Gaussians imports no scipy."""

import math
from collections.abc import Callable

FAR = -30.0  # from here down the logarithm of the distribution function is a series


def normal_cdf(x: float) -> float:
    """Return Φ(x), the distribution function of the standard normal distribution."""
    return 0.5 * math.erfc(-x / math.sqrt(2))


def log_normal_cdf(x: float) -> float:
    """Return log Φ(x), also where Φ(x) is no float above 0: there by its asymptotic series, to a relative 10⁻¹²."""
    if x > FAR:
        return math.log(normal_cdf(x))
    y = 1 / (x * x)
    series = -y + 3 * y**2 - 15 * y**3 + 105 * y**4
    return -(x * x) / 2 - math.log(-x * math.sqrt(2 * math.pi)) + math.log1p(series)


def bisect(
    function: Callable[[float], float], low: float, high: float, width: float
) -> tuple[float, float]:
    """Return the ends of an interval of at most ``width`` that holds the root of a monotone function.

    Parameters
    ----------
    function : callable
        Its values at ``low`` and at ``high`` have different signs, or one of an increasing function is 0.
    low, high : float
    width : float
        Where two floats are further apart, the ends are two neighbouring floats.
    """
    positive = function(low) > 0
    while high - low > width:
        middle = (low + high) / 2
        if not low < middle < high:
            break
        value = function(middle)
        same_side = value != 0 and (value > 0) == positive
        low, high = (middle, high) if same_side else (low, middle)
    return low, high
