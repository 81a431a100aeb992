"""The accountant: ε of a composition. Opacus is used only here.

An event is a Poisson-subsampled Gaussian, (noise multiplier σ, sampling rate q, count), or a noisy vote.
Adjacency is add or remove one record. Full-batch Gaussians (q = 1) compose exactly into one; where votes
are among them, all is composed by RDP.
"""

import math
import warnings
from collections.abc import Iterable, Sequence
from functools import lru_cache
from importlib.metadata import version

import numpy as np
from scipy.optimize import brentq
from scipy.stats import norm

from tabsynth._validate import between, positive
from tabsynth.errors import BudgetError
from tabsynth.privacy import renyi
from tabsynth.privacy.mechanisms import (
    GAUSSIAN,
    Mechanism,
    NoisyVote,
    SubsampledGaussian,
    is_private,
    steps_of,
)
from tabsynth.privacy.pld import pld_epsilon

Spend = tuple[Mechanism, int]
Event = tuple[float, float, int]
Vote = tuple[NoisyVote, int]

PRV_LIMIT = 40.0  # past this ε PRV does not fit in memory
LEAST_DELTA = (
    1e-9  # below it rounding in opacus' FFT, which is not tilted, outweighs the tail of PRV
)
RELATIVE_ERROR = 0.003  # of ε, added by PRV on the safe side
MOST_POINTS = 2**21  # of PRV's grid: with more it takes minutes, and the library's own PLD seconds
# Orders of RDP: whole ones are quick, and the best order is rarely below 2.
ORDERS = [1.5, 1.75, 2.5, 3.5, *map(float, range(2, 64)), 80.0, 128.0, 256.0, 512.0, 1024.0]
# Accountants, each with the library that does the arithmetic.
PRV, RDP, VOTES = ("PRV", "opacus"), ("RDP", "opacus"), ("RDP", "tabsynth")
PLD, EXACT, NONE = ("PLD", "tabsynth"), ("exact Gaussian", "tabsynth"), ("none", "")


def epsilon_of(spends: Iterable[Spend], delta: float) -> float:
    """An upper bound of ε at ``delta`` for the composition of all ``spends``.

    PRV accounting (Gopi, Lee, Wutschitz 2021, arXiv:2106.02848) through opacus, whose upper bound
    exceeds the exact ε by about 0.3%; our own PLD where PRV would need a grid of millions of points for
    that (ε below 0.2, very many steps) or δ is below 1e-9; the exact formula where all are full-batch Gaussians; RDP where
    ε is past 40, or a noisy vote with a curve of its own is among them. Infinite where any spend has
    no noise, 0 where nothing was spent.
    """
    between("delta", delta, 0, 1, low_open=True, high_open=True)
    return _composed(spends, delta, "best")[0]


def rdp_epsilon(spends: Iterable[Spend], delta: float) -> float:
    """The looser ε of the RDP accountant: a second road for checks, and a bound that always ends."""
    return _composed(spends, delta, "rdp")[0]


def accountant_of(spends: Iterable[Spend], delta: float) -> dict[str, str]:
    """Which accountant :func:`epsilon_of` takes for ``spends``: its name, library and version."""
    name, library = _composed(spends, delta, "best")[1]
    return {"name": name, **({"library": library, "version": version(library)} if library else {})}


def _composed(spends: Iterable[Spend], delta: float, road: str) -> tuple[float, tuple[str, str]]:
    """ε, and by which accountant."""
    listed = [(mechanism, count) for mechanism, count in spends if count > 0]
    if not all(is_private(mechanism) for mechanism, _ in listed):
        return math.inf, NONE
    votes: dict[NoisyVote, int] = {}
    events = []
    for mechanism, count in listed:
        if isinstance(mechanism, NoisyVote) and mechanism.accounting != GAUSSIAN:
            votes[mechanism] = votes.get(mechanism, 0) + count
        else:
            events.append(steps_of(mechanism, count))
    return _epsilon(tuple(_merged(events)), frozenset(votes.items()), delta, road)


def _merged(events: Iterable[Event]) -> list[Event]:
    """Events in a canonical order, the full-batch Gaussians merged into one."""
    squared = 0.0
    sampled: dict[tuple[float, float], int] = {}
    for sigma, rate, count in events:
        if rate == 1.0:
            squared += count / sigma**2
        else:
            sampled[sigma, rate] = sampled.get((sigma, rate), 0) + count
    out = [(sigma, rate, count) for (sigma, rate), count in sorted(sampled.items())]
    return ([(squared**-0.5, 1.0, 1)] if squared else []) + out


@lru_cache(maxsize=4096)
def _epsilon(
    events: tuple[Event, ...], votes: frozenset[Vote], delta: float, road: str
) -> tuple[float, tuple[str, str]]:
    if not events and not votes:
        return 0.0, NONE
    if votes:
        return _rdp_with_votes(events, votes, delta), VOTES
    if road == "best" and all(rate == 1.0 for _, rate, _ in events):
        return gaussian_epsilon(1 / events[0][0], delta), EXACT
    rdp = _rdp(events, delta)
    if road == "rdp" or rdp > PRV_LIMIT:
        return rdp, RDP
    if delta >= LEAST_DELTA and least_error(events, rdp, delta) <= RELATIVE_ERROR * rdp:
        found, name = prv_epsilon(events, delta, RELATIVE_ERROR * rdp), PRV
    else:
        found, name = pld_epsilon(map(spend_of, events), delta), PLD
    return (found, name) if found <= rdp else (rdp, RDP)


def _rdp_with_votes(events: Sequence[Event], votes: Iterable[Vote], delta: float) -> float:
    """RDP adds up order by order, whatever the mechanisms are."""
    # Of sampled Gaussians opacus is quick at few orders; without them there may be many.
    orders = renyi.ORDERS if all(rate == 1.0 for _, rate, _ in events) else tuple(ORDERS)
    total = np.zeros(len(orders))
    for sigma, rate, count in events:
        total += count * _gaussian_curve(sigma, rate, orders)
    for vote, count in votes:
        total += count * renyi.vote_curve(vote, orders)
    return renyi.epsilon_of_curve(total, orders, delta)


@lru_cache(maxsize=512)
def _gaussian_curve(sigma: float, rate: float, orders: tuple[float, ...]) -> np.ndarray:
    if rate == 1.0:
        return renyi.gaussian_curve(sigma, np.array(orders))
    from opacus.accountants.analysis.rdp import compute_rdp

    with np.errstate(all="ignore"):
        return np.asarray(compute_rdp(q=rate, noise_multiplier=sigma, steps=1, orders=[*orders]))


def _rdp(events: Sequence[Event], delta: float) -> float:
    # Imported late: it takes seconds, and not every command needs it.
    from opacus.accountants import RDPAccountant

    accountant = RDPAccountant()
    accountant.history = list(events)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return max(0.0, float(accountant.get_epsilon(delta, alphas=ORDERS)))


def least_error(events: Iterable[Event], rdp: float, delta: float) -> float:
    """The error that PRV can keep on a grid of ``MOST_POINTS``, whose width follows from ``rdp``."""
    steps = sum(count for _, _, count in events)
    return 2 * (1.5 * rdp + 3) * math.sqrt(steps * math.log(12_000 / delta) / 2) / MOST_POINTS


def spend_of(event: Event) -> Spend:
    """The event as a ledger has it."""
    sigma, rate, count = event
    return SubsampledGaussian(noise_multiplier=sigma, sampling_rate=rate), count


def prv_epsilon(events: Sequence[Event], delta: float, error: float) -> float:
    """PRV's upper bound, at most ``2 error`` above the exact ε; infinite where it finds none."""
    from opacus.accountants import PRVAccountant

    # Its mesh as opacus chooses it, on an interval that is never shorter than from -1 to 1.
    steps = sum(count for _, _, count in events)
    mesh = error / math.sqrt(steps * math.log(12_000 / delta) / 2)
    if len(events) * 2 / mesh > 8 * MOST_POINTS:  # a grid for each: gigabytes
        return math.inf  # the caller has the RDP bound
    accountant = PRVAccountant()
    accountant.history = list(events)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            found = float(accountant.get_epsilon(delta, eps_error=error, delta_error=delta / 1000))
        except (RuntimeError, ValueError, MemoryError):
            return math.inf
    return found if math.isfinite(found) and found >= 0 else math.inf


def gaussian_delta(mu: float, epsilon: float) -> float:
    """Exact δ of a Gaussian mechanism with sensitivity/σ = ``mu`` (Balle & Wang 2018, Theorem 8)."""
    upper = norm.cdf(mu / 2 - epsilon / mu)
    lower = math.exp(min(epsilon + norm.logcdf(-mu / 2 - epsilon / mu), 0.0))
    return float(upper - lower)


def gaussian_epsilon(mu: float, delta: float) -> float:
    """Exact ε of a Gaussian mechanism with sensitivity/σ = ``mu`` at ``delta``."""
    if gaussian_delta(mu, 0.0) <= delta:
        return 0.0
    top = 1.0
    while gaussian_delta(mu, top) > delta:
        top *= 2
    return float(brentq(lambda e: gaussian_delta(mu, e) - delta, 0.0, top, xtol=1e-10)) + 1e-9


def gaussian_mu(epsilon: float, delta: float) -> float:
    """The μ = sensitivity/σ of the single Gaussian mechanism that is exactly (ε, δ).

    μ² adds up under composition of full-batch Gaussians, so it is the unit in which a budget is
    shared out.
    """
    positive("epsilon", epsilon)
    low, high = 1e-6, 1.0
    if gaussian_epsilon(low, delta) > epsilon:
        raise BudgetError(
            f"No noise keeps epsilon={epsilon:g} at delta={delta:g}; raise one of them."
        )
    while gaussian_epsilon(high, delta) < epsilon:
        high *= 2
    return float(brentq(lambda m: gaussian_epsilon(m, delta) - epsilon, low, high, xtol=1e-12))
