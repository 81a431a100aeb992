"""Rényi differential privacy of each mechanism, order by order, and the ε that a curve of orders means."""

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from scipy.special import log_ndtr, logsumexp

from tabsynth.privacy.mechanisms import EXACT_BINARY, Mechanism, NoisyVote, NoPrivacy

# Orders where curves are cheap: α − 1 from 0.001, for a large ε, to 10⁶, where a curve is as good as
# pure ε. A best order between two of them costs less than 0.02% of ε.
ORDERS = tuple(float(order) for order in 1 + np.geomspace(1e-3, 1e6, 600))
MOST_USES = 10**15
CELLS = 2**20  # of one block of orders × counts
# What rounding may take off a divergence, given back: some units in the last place of 1, and of itself.
ABSOLUTE_SLACK, RELATIVE_SLACK = 4e-15, 1e-9
# Of the divergence of a sampled Gaussian: nodes of the quadrature, standard deviations beyond its peaks, and
# the exponent of its error; beyond so many nodes the divergence without sampling is taken.
MOST_NODES, TAILS, EXACTNESS = 2**21, 12.0, 40.0
QUADRATURE_SLACK = 1e-12


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


def rdp(mechanism: Mechanism, order: float) -> float:
    """An upper bound of the Rényi divergence of one use of a mechanism, at one order above 1.

    Infinite without noise. Sources: Mironov 2017 for Gaussians, :func:`sampled_rdp` for sampled ones,
    :class:`NoisyVote` for votes.
    """
    if isinstance(mechanism, NoPrivacy):
        return math.inf
    if isinstance(mechanism, NoisyVote):
        return float(vote_curve(mechanism, (order,))[0])
    if mechanism.sampling_rate == 1:
        return order / (2 * mechanism.noise_multiplier**2)
    return sampled_rdp(mechanism.noise_multiplier, mechanism.sampling_rate, order)


@lru_cache(maxsize=512)
def sampled_rdp(noise_multiplier: float, rate: float, order: float) -> float:
    """RDP of a Poisson-subsampled Gaussian for adding or removing one record, at any order above 1.

    It is log E[(1 − q + q e^{(2x − 1)/(2σ²)})^α] / (α − 1), x ~ N(0, σ²), for the larger direction is that of
    the mixture against the Gaussian (Mironov, Talwar, Zhang 2019, Theorem 5). At most α/(2σ²), which holds
    without sampling.

    Notes
    -----
    The expectation is an integral over the real line, taken by the trapezoidal rule with step h. The
    integrand is analytic for |Im x| < πσ², where 1 − q + q e^{…} is never a negative number. At Im x = a its
    modulus is at most e^{a²/(2σ²)} times the integrand at Re x. So the error is at most
    2e^{a²/(2σ²)}/(e^{2πa/h} − 1) of the integral (Trefethen, Weideman 2014, Theorem 5.1). With a ≤ σ and
    2πa/h = 40 that is 1.5·10⁻¹⁷. Beyond 12 σ below 0 and above α the integrand falls at least as a Gaussian of
    deviation σ, so that less than 10⁻²⁶ of the integral is left out. What rounding may
    take off is given back.
    """
    sigma = noise_multiplier
    whole = order / (2 * sigma**2)
    step = 2 * math.pi * min(0.99 * math.pi * sigma**2, sigma) / EXACTNESS
    low, high = -TAILS * sigma, order + TAILS * sigma
    if (high - low) / step > MOST_NODES:
        return whole
    x = np.arange(low, high + step, step)
    tilted = np.logaddexp(math.log1p(-rate), math.log(rate) + (2 * x - 1) / (2 * sigma**2))
    density = math.log(step) - x**2 / (2 * sigma**2) - math.log(sigma * math.sqrt(2 * math.pi))
    moment = max(0.0, float(logsumexp(density + order * tilted)))
    slack = QUADRATURE_SLACK * order / (order - 1)
    return min(whole, moment / (order - 1) * (1 + RELATIVE_SLACK) + slack)


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
