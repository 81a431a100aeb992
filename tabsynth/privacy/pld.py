"""ε by privacy loss distributions on a grid: a second accountant, independent of opacus.

A pair of distributions (P, Q) that dominates a mechanism is its loss log(P/Q) under P. Each loss is put on
a grid so that it still dominates (Doroshenko, Ghazi, Kamath, Kumar, Manurangsi 2022, *Connect the dots*,
arXiv:2207.04380): a loss between two points goes to both of them, and its mass under P and under Q is
kept. Losses add up under composition, by FFT; pairs that dominate compose to one that does (Zhu, Dong,
Wang 2022, arXiv:2106.08567, Theorem 10). Everything that a computer leaves out (the tail of a loss, what
wraps around in the FFT, rounding) is counted on the side of a larger δ, so ε is an upper bound.
"""

import math
from collections.abc import Iterable, Sequence

import numpy as np
from scipy.fft import irfft, next_fast_len, rfft
from scipy.optimize import minimize_scalar
from scipy.special import logsumexp

from tabsynth._validate import between
from tabsynth.privacy.losses import Loss, SampledGaussian, binary_votes, randomised_response
from tabsynth.privacy.mechanisms import (
    EXACT_BINARY,
    GAUSSIAN,
    Mechanism,
    NoisyVote,
    is_private,
    steps_of,
)

Counted = tuple[Loss, int]

CELLS = 2**18  # of a grid, at most …
LEAST_CELLS = 2**14  # … and at least
DEVIATIONS = 20.0  # width of the grid, in standard deviations of the composed loss
VARIANCE = 1e-4  # a step's cell² over its variance: ε grows by some 1e-4 to 1e-3 of itself
TAIL = 1e-5  # of δ, given away for the tails of all losses together
LEAST_NOISE = 0.05  # below it a single step's loss has no place on a grid
ROUNDING = 2.0**-50


def pld_epsilon(spends: Iterable[tuple[Mechanism, int]], delta: float) -> float:
    """An upper bound of ε at ``delta`` for the composition of all ``spends``.

    A Poisson-subsampled Gaussian is accounted in both directions, a record more and a record less, and
    the worse one counts; of votes see :mod:`tabsynth.privacy.losses`. Infinite where a spend has no noise,
    or so little that its ε is far past 100; 0 where nothing was spent.
    """
    between("delta", delta, 0, 1, low_open=True, high_open=True)
    listed = [(mechanism, count) for mechanism, count in spends if count > 0]
    if not all(is_private(mechanism) for mechanism, _ in listed):
        return math.inf
    squared, sampled, others = _sorted_out(listed)
    if any(sigma < LEAST_NOISE for sigma, _ in sampled) or squared > LEAST_NOISE**-2:
        return math.inf
    if others is None:
        return math.inf
    found = 0.0
    for removed in (True, False):
        pairs: list[Counted] = list(others)
        if squared:
            pairs.append((SampledGaussian(squared**-0.5, 1.0, removed), 1))
        pairs += [(SampledGaussian(s, q, removed), count) for (s, q), count in sampled.items()]
        if pairs:
            found = max(found, _composed(pairs, delta))
        if not sampled:
            break  # all others are alike in both directions
    return found


def _sorted_out(
    listed: Sequence[tuple[Mechanism, int]],
) -> tuple[float, dict[tuple[float, float], int], list[Counted] | None]:
    """Σ count/σ² of Gaussians on the whole table, sampled ones by (σ, q), and the losses of votes."""
    squared, sampled = 0.0, dict[tuple[float, float], int]()
    votes = dict[NoisyVote, int]()
    for mechanism, count in listed:
        if isinstance(mechanism, NoisyVote) and mechanism.accounting != GAUSSIAN:
            votes[mechanism] = votes.get(mechanism, 0) + count
            continue
        sigma, rate, count = steps_of(mechanism, count)
        if rate == 1.0:
            squared += count / sigma**2
        else:
            sampled[sigma, rate] = sampled.get((sigma, rate), 0) + count
    others: list[Counted] = []
    for vote, count in votes.items():
        make = binary_votes if vote.accounting == EXACT_BINARY else randomised_response
        parts = make(vote, count)
        if parts is None:
            return squared, sampled, None
        others += parts
    return squared, sampled, others


def _composed(pairs: Sequence[Counted], delta: float) -> float:
    """ε of losses that add up, ``count`` times each."""
    tail = max(TAIL * delta / sum(count for _, count in pairs), 1e-300)
    counts = np.array([float(count) for _, count in pairs])
    coarse = [loss.points(tail) for loss, _ in pairs]
    masses = [loss.masses(points)[0] for (loss, _), points in zip(pairs, coarse, strict=True)]
    tilt = _tilt(coarse, masses, counts, delta)
    moments = [_tilted(p, m, tilt) for p, m in zip(coarse, masses, strict=True)]
    spread = math.sqrt(
        sum(n * _variance(p, q) for n, p, (q, _) in zip(counts, coarse, moments, strict=True))
    )
    if not math.isfinite(spread):
        return math.inf
    single = max(float(points[-1] - points[0]) for points in coarse)
    spread = max(spread, single / 1000)  # tilted as far as that, all may lie on one loss
    width = DEVIATIONS * spread + single
    step = min(math.sqrt(VARIANCE / counts.sum()) * spread, width / LEAST_CELLS)
    step = max(step, width / CELLS)
    cells = int(next_fast_len(math.ceil(width / step) + 2, real=True))
    return _on_grid(pairs, coarse, (tilt, tilt + DEVIATIONS / (2 * spread)), step, cells, delta)


def _tilt(
    points: Sequence[np.ndarray], masses: Sequence[np.ndarray], counts: np.ndarray, delta: float
) -> float:
    """θ at which Markov's bound on E[e^{θ·loss}] gives the least ε: where the composed loss matters.

    As RDP is converted, order θ + 1: Balle et al. 2020, Theorem 21.
    """

    def bound(log_theta: float) -> float:
        theta = math.exp(log_theta)
        moments = [_tilted(p, m, theta)[1] for p, m in zip(points, masses, strict=True)]
        most = theta * math.log(theta) - (1 + theta) * math.log1p(theta)  # of e^{−θl}(1 − e^{−l})
        return (float(counts @ moments) - math.log(delta) + most) / theta

    widest = max(float(np.abs(p).max()) for p in points)
    top = math.log(1e3) - math.log(max(widest, 1e-290)) + math.log(max(1.0, -math.log(delta)))
    found = minimize_scalar(
        bound, bounds=(top - 60, top), method="bounded", options={"xatol": 1e-2}
    )
    return math.exp(float(found.x))


def _tilted(points: np.ndarray, masses: np.ndarray, theta: float) -> tuple[np.ndarray, float]:
    """Masses times e^{θ·loss}, of sum 1, and the logarithm of what they were divided by."""
    with np.errstate(divide="ignore"):
        logs = np.log(masses) + theta * points
    total = float(logsumexp(logs))
    return np.exp(logs - total), total


def _variance(points: np.ndarray, chances: np.ndarray) -> float:
    return float(chances @ (points - chances @ points) ** 2)


def _on_grid(
    pairs: Sequence[Counted],
    coarse: Sequence[np.ndarray],
    tilts: tuple[float, float],
    step: float,
    cells: int,
    delta: float,
) -> float:
    """The FFT of losses tilted by the first tilt: its rounding is small beside the masses that decide.

    The second tilt bounds the mass beyond the grid.
    """
    spectrum = np.ones(cells // 2 + 1, dtype=complex)
    first, mean, moments, infinite, total = 0, 0.0, np.zeros(2), 0.0, 0
    for (loss, count), points in zip(pairs, coarse, strict=True):
        low, high = math.floor(points[0] / step), math.ceil(points[-1] / step)
        grid = np.arange(low, high + 1) * step
        masses, at_infinity = loss.masses(grid)
        (chances, *_), log_moments = zip(*(_tilted(grid, masses, t) for t in tilts), strict=True)
        wrapped = np.bincount(np.arange(len(grid)) % cells, chances, cells)
        spectrum *= rfft(wrapped) ** count
        first, total = first + count * low, total + count
        mean += count * float(chances @ grid)
        moments += count * np.array(log_moments)
        infinite += count * at_infinity
    bottom = math.floor(mean / step) - cells // 2
    composed = np.roll(irfft(spectrum, cells), (first - bottom) % cells)
    rounding = ROUNDING * (total + math.log2(cells)) * float(np.abs(spectrum).mean())
    # NOTE: what wraps around adds to the cells, never takes away: an upper bound on each of them.
    composed = np.maximum(composed, 0.0) + rounding
    losses = (bottom + np.arange(cells)) * step
    logs = np.log(composed) + moments[0] - tilts[0] * losses
    beyond = float(
        (moments - np.array(tilts) * (losses[-1] + step)).min()
    )  # Markov, by either tilt
    return _epsilon(losses, logs, infinite + math.exp(min(beyond, 0.0)), step, delta)


def _epsilon(
    losses: np.ndarray, logs: np.ndarray, infinite: float, step: float, delta: float
) -> float:
    """The least ε ≥ 0 at which δ(ε) = infinite + Σ_{l > ε} e^{logs}(1 − e^{ε−l}) is at most ``delta``.

    In e^ε that is piecewise linear, with the slope −S, S(ε) = Σ_{l > ε} e^{logs−l}: summed from the top,
    nothing cancels.
    """
    if infinite >= delta:
        return math.inf
    slopes = np.logaddexp.accumulate((logs - losses)[::-1])[::-1]  # log Σ_{k ≥ i} e^{logs − l}
    log_step = math.log(math.expm1(step))
    drops = slopes[1:] + losses[:-1] + log_step  # log of δ(l_i) − δ(l_{i+1})
    deltas = np.append(np.logaddexp.accumulate(drops[::-1])[::-1], -np.inf)
    goal = math.log(delta - infinite)
    i = int(np.searchsorted(-deltas, -goal))  # the first at which δ is small enough
    if i == 0:
        return max(0.0, float(losses[0]))
    # Back from l_i towards l_{i-1}, along the line in e^ε.
    part = -math.expm1(float(min(deltas[i] - goal, 0.0)))
    back = part * math.exp(min(goal - float(slopes[i]) - float(losses[i]), 0.0))
    return max(0.0, float(losses[i]) + math.log1p(-min(back, -math.expm1(-step))))
