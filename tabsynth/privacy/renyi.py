"""Rényi differential privacy of noisy votes, order by order, and the ε that a curve of orders means."""

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from scipy.special import log_ndtr

from tabsynth.privacy.mechanisms import EXACT_BINARY, NoisyVote

# Orders where curves are cheap: α − 1 from 0.001, for a large ε, to 10⁶, where a curve is as good as
# pure ε. A best order between two of them costs less than 0.02% of ε.
ORDERS = tuple(float(order) for order in 1 + np.geomspace(1e-3, 1e6, 600))
MOST_USES = 10**15
CELLS = 2**20  # of one block of orders × counts
# What rounding may take off a divergence, given back: some units in the last place of 1, and of itself.
ABSOLUTE_SLACK, RELATIVE_SLACK = 4e-15, 1e-9


@lru_cache(maxsize=512)
def vote_curve(vote: NoisyVote, orders: tuple[float, ...] = ORDERS) -> np.ndarray:
    """RDP of one answer at ``orders``, shape (orders,); see :class:`NoisyVote` for what is proved."""
    alpha = np.array(orders)
    if vote.accounting == EXACT_BINARY:
        found = np.minimum(_binary_curve(vote, alpha), gaussian_curve(vote.noise, alpha))
    elif vote.accounting == "gaussian":
        found = gaussian_curve(vote.noise, alpha)
    else:
        found = np.minimum(2 * alpha / vote.noise**2, 2 / vote.noise)  # λ = 1/noise
    found.flags.writeable = False
    return found


def gaussian_curve(noise_multiplier: float, alpha: np.ndarray) -> np.ndarray:
    """RDP of one Gaussian, noise over sensitivity given."""
    return alpha / (2 * noise_multiplier**2)


def _binary_curve(vote: NoisyVote, alpha: np.ndarray) -> np.ndarray:
    """max over j of D_α(Bern(p_j)‖Bern(p_{j+1})); by p_{K−j} = 1 − p_j that is its reverse's too."""
    z = (np.arange(vote.teachers + 1) - vote.teachers / 2) / vote.noise
    yes, no = log_ndtr(z), log_ndtr(-z)  # logs of p_j and 1 − p_j, exact far into the tails
    found = np.empty(len(alpha))
    block = max(1, CELLS // vote.teachers)
    for start in range(0, len(alpha), block):
        a = alpha[start : start + block, None]
        of_yes = a * yes[:-1] + (1 - a) * yes[1:]
        of_no = a * no[:-1] + (1 - a) * no[1:]
        found[start : start + block] = np.logaddexp(of_yes, of_no).max(axis=1)
    slack = ABSOLUTE_SLACK * alpha / (alpha - 1)
    return np.maximum(found / (alpha - 1), 0) * (1 + RELATIVE_SLACK) + slack


def most_uses(curve: np.ndarray, epsilon: float, delta: float) -> int:
    """How often a mechanism of this curve at ``ORDERS`` may be used within (epsilon, delta)."""
    low, high = 0, MOST_USES
    while high - low > 1:
        middle = (low + high) // 2
        fits = epsilon_of_curve(middle * curve, ORDERS, delta) <= epsilon
        low, high = (middle, high) if fits else (low, middle)
    return low


def epsilon_of_curve(curve: np.ndarray, orders: Sequence[float], delta: float) -> float:
    """The least ε at ``delta`` that an RDP curve allows, infinite where it allows none.

    Balle et al. 2020, *Hypothesis testing interpretations and Rényi differential privacy*, Theorem 21:
    the conversion that opacus uses.
    """
    alpha = np.asarray(orders)
    found = curve - (math.log(delta) + np.log(alpha)) / (alpha - 1) + np.log1p(-1 / alpha)
    found = found[np.isfinite(found)]
    return max(0.0, float(found.min())) if found.size else math.inf
