"""Numbers as the tables show them."""

import math

import numpy as np
from scipy.stats import t as student


def mean_sd(x: np.ndarray, unit: float = 1.0, digits: int = 2) -> str:
    return f"{unit * x.mean():.{digits}f} ± {unit * x.std(ddof=1):.{digits}f}"


def interval(x: np.ndarray) -> tuple[float, float, float]:
    """Mean of paired differences and its 95% interval by Student's t."""
    half = student.ppf(0.975, len(x) - 1) * x.std(ddof=1) / math.sqrt(len(x))
    return float(x.mean()), float(x.mean() - half), float(x.mean() + half)


def interval_text(x: np.ndarray, unit: float, digits: int = 2) -> str:
    mean, low, high = (unit * v for v in interval(x))
    bold = "**" if low > 0 or high < 0 else ""
    return f"{bold}{mean:+.{digits}f}{bold} [{low:+.{digits}f}, {high:+.{digits}f}]"


def shown(epsilon: float) -> str:
    return "∞" if math.isinf(epsilon) else f"{epsilon:g}"
