"""Accountants: ε of a composition, Rényi curves, and privacy filters. Opacus is used only here.

An event is a Poisson-subsampled Gaussian, (noise multiplier σ, sampling rate q, count), or a noisy vote.
Adjacency is add or remove one record. Full-batch Gaussians (q = 1) compose exactly into one; where votes
are among them, all is composed by RDP.

An accountant such as PRV or PLD composes a list of mechanisms whose parameters were fixed before the first of
them ran. Where a later mechanism depends on an earlier output, the ε of the list that came about is no bound:
the choice of the list leaks too. A *privacy filter* (Rogers, Roth, Ullman, Vadhan 2016) has a budget that is
fixed first, and admits a mechanism only while the budget covers all that were admitted. Then everything
together is (ε, δ)-differentially private, however each was chosen. A filter says nothing of a smaller ε for
what was spent up to some moment: that needs an odometer.
"""

import math
import warnings
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import version

import numpy as np

from tabsynth._typing import JsonObject
from tabsynth._validate import in_range, one_of, positive, quote
from tabsynth.errors import BudgetError, FileFormatError
from tabsynth.privacy.accounting.mechanisms import (
    EXACT_BINARY,
    GAUSSIAN,
    Mechanism,
    NoisyVote,
    NoPrivacy,
    SubsampledGaussian,
    is_private,
    steps_of,
    without_thresholds,
)

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
NODES = 20_001  # of the integral of a Gaussian's loss
FAR = -30.0  # from here down the logarithm of the normal distribution function is a series


@lru_cache(maxsize=512)
def vote_curve(vote: NoisyVote, orders: tuple[float, ...] = ORDERS) -> np.ndarray:
    """Return the RDP of one answer at ``orders``, shape (orders,); see :class:`NoisyVote` for what is proved."""
    alpha = np.array(orders)
    if vote.accounting == EXACT_BINARY:
        curve = np.minimum(_binary_curve(vote, alpha), gaussian_curve(vote.noise, alpha))
    elif vote.accounting == "gaussian":
        curve = gaussian_curve(vote.noise, alpha)
    else:
        curve = np.minimum(2 * alpha / vote.noise**2, 2 / vote.noise)  # λ = 1/noise
    curve.flags.writeable = False
    return curve


def gaussian_curve(noise_multiplier: float, alpha: np.ndarray) -> np.ndarray:
    """Return the RDP of one Gaussian, noise over sensitivity given."""
    return alpha / (2 * noise_multiplier**2)


def rdp(mechanism: Mechanism, order: float) -> float:
    """Return an upper bound of the Rényi divergence of one use of a mechanism, at one order above 1.

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
    """Return the RDP of a Poisson-subsampled Gaussian for adding or removing one record, at any order above 1.

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
    from scipy.special import logsumexp

    sigma = noise_multiplier
    unsampled = order / (2 * sigma**2)
    step = 2 * math.pi * min(0.99 * math.pi * sigma**2, sigma) / EXACTNESS
    low, high = -TAILS * sigma, order + TAILS * sigma
    if (high - low) / step > MOST_NODES:
        return unsampled
    x = np.arange(low, high + step, step)
    tilted = np.logaddexp(math.log1p(-rate), math.log(rate) + (2 * x - 1) / (2 * sigma**2))
    density = math.log(step) - x**2 / (2 * sigma**2) - math.log(sigma * math.sqrt(2 * math.pi))
    moment = max(0.0, float(logsumexp(density + order * tilted)))
    slack = QUADRATURE_SLACK * order / (order - 1)
    return min(unsampled, moment / (order - 1) * (1 + RELATIVE_SLACK) + slack)


def _binary_curve(vote: NoisyVote, alpha: np.ndarray) -> np.ndarray:
    """Return max over j of D_α(Bern(p_j)‖Bern(p_{j+1})); by p_{K−j} = 1 − p_j that is its reverse's too."""
    from scipy.special import log_ndtr

    z = (np.arange(vote.teachers + 1) - vote.teachers / 2) / vote.noise
    yes, no = log_ndtr(z), log_ndtr(-z)  # logs of p_j and 1 − p_j, exact far into the tails
    log_moments = np.empty(len(alpha))
    block = max(1, CELLS // vote.teachers)
    for start in range(0, len(alpha), block):
        a = alpha[start : start + block, None]
        of_yes = a * yes[:-1] + (1 - a) * yes[1:]
        of_no = a * no[:-1] + (1 - a) * no[1:]
        log_moments[start : start + block] = np.logaddexp(of_yes, of_no).max(axis=1)
    slack = ABSOLUTE_SLACK * alpha / (alpha - 1)
    return np.maximum(log_moments / (alpha - 1), 0) * (1 + RELATIVE_SLACK) + slack


def most_uses(curve: np.ndarray, epsilon: float, delta: float) -> int:
    """Return how often a mechanism of this curve at ``ORDERS`` may be used within (epsilon, delta)."""
    low, high = 0, MOST_USES
    while high - low > 1:
        middle = (low + high) // 2
        fits = epsilon_of_curve(middle * curve, ORDERS, delta) <= epsilon
        low, high = (middle, high) if fits else (low, middle)
    return low


def epsilon_of_curve(curve: np.ndarray, orders: Sequence[float], delta: float) -> float:
    """Return the least ε at ``delta`` that an RDP curve allows, infinite where it allows none.

    Balle et al. 2020, *Hypothesis testing interpretations and Rényi differential privacy*, Theorem 21:
    the conversion that opacus uses.
    """
    alpha = np.asarray(orders)
    epsilons = curve - (math.log(delta) + np.log(alpha)) / (alpha - 1) + np.log1p(-1 / alpha)
    epsilons = epsilons[np.isfinite(epsilons)]
    return max(0.0, float(epsilons.min())) if epsilons.size else math.inf


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
SUBSAMPLED_ORDERS = [
    1.5,
    1.75,
    2.5,
    3.5,
    *map(float, range(2, 64)),
    80.0,
    128.0,
    256.0,
    512.0,
    1024.0,
]
# Accountants, each with the library that does the arithmetic.
PRV, RDP, VOTES = ("PRV", "opacus"), ("RDP", "opacus"), ("RDP", "tabsynth")
PLD, EXACT, NONE = ("PLD", "tabsynth"), ("exact Gaussian", "tabsynth"), ("none", "")


def epsilon_of(spends: Iterable[Spend], delta: float) -> float:
    """Return an upper bound of ε at ``delta`` for the composition of all ``spends``.

    PRV accounting (Gopi, Lee, Wutschitz 2021, arXiv:2106.02848) through opacus, whose upper bound
    exceeds the exact ε by about 0.3%; our own PLD where PRV would need a grid of millions of points for
    that (ε below 0.2, very many steps) or δ is below 1e-9; the exact formula where all are full-batch Gaussians; RDP where
    ε is past 40, or a noisy vote with a curve of its own is among them. Infinite where any spend has
    no noise, 0 where nothing was spent.
    """
    in_range("delta", delta, 0, 1, low_open=True, high_open=True)
    return _compose(spends, delta, "best")[0]


def rdp_epsilon(spends: Iterable[Spend], delta: float) -> float:
    """Return the looser ε of the RDP accountant: for checks, and where no other accountant has an answer."""
    return _compose(spends, delta, "rdp")[0]


def accountant_of(spends: Iterable[Spend], delta: float) -> dict[str, str]:
    """Return the accountant that :func:`epsilon_of` takes for ``spends``: its name, library and version."""
    name, library = _compose(spends, delta, "best")[1]
    return {"name": name, **({"library": library, "version": version(library)} if library else {})}


def _compose(spends: Iterable[Spend], delta: float, kind: str) -> tuple[float, tuple[str, str]]:
    """Return ε, and by which accountant."""
    listed = [(mechanism, count) for mechanism, count in spends if count > 0]
    listed, delta = without_thresholds(listed, delta)
    if delta <= 0:
        return math.inf, NONE
    if not all(is_private(mechanism) for mechanism, _ in listed):
        return math.inf, NONE
    votes: dict[NoisyVote, int] = {}
    events = []
    for mechanism, count in listed:
        if isinstance(mechanism, NoisyVote) and mechanism.accounting != GAUSSIAN:
            votes[mechanism] = votes.get(mechanism, 0) + count
        else:
            events.append(steps_of(mechanism, count))
    return _epsilon(tuple(_merge(events)), frozenset(votes.items()), delta, kind)


def _merge(events: Iterable[Event]) -> list[Event]:
    """Return events in a canonical order, the full-batch Gaussians merged into one."""
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
    events: tuple[Event, ...], votes: frozenset[Vote], delta: float, kind: str
) -> tuple[float, tuple[str, str]]:
    if not events and not votes:
        return 0.0, NONE
    if votes:
        return _rdp(events, votes, delta), VOTES
    if kind == "best" and all(rate == 1.0 for _, rate, _ in events):
        return gaussian_epsilon(1 / events[0][0], delta), EXACT
    rdp = _rdp(events, votes, delta)
    if kind == "rdp" or rdp > PRV_LIMIT:
        return rdp, RDP
    if delta >= LEAST_DELTA and least_error(events, rdp, delta) <= RELATIVE_ERROR * rdp:
        epsilon, name = prv_epsilon(events, delta, RELATIVE_ERROR * rdp), PRV
    else:
        # Imported late, as scipy is above: a claim of Gaussians on the whole table needs neither.
        from tabsynth.privacy.accounting.pld import pld_epsilon

        epsilon, name = pld_epsilon(map(spend_of, events), delta), PLD
    return (epsilon, name) if epsilon <= rdp else (rdp, RDP)


def _rdp(events: Sequence[Event], votes: Collection[Vote], delta: float) -> float:
    """Compose by RDP, which adds up order by order, whatever the mechanisms are."""
    # A sampled Gaussian is slow at many orders; votes are not.
    sampled = any(rate < 1 for _, rate, _ in events)
    orders = ORDERS if votes and not sampled else tuple(SUBSAMPLED_ORDERS)
    total = np.zeros(len(orders))
    for sigma, rate, count in events:
        total += count * _gaussian_curve(sigma, rate, orders)
    for vote, count in votes:
        total += count * vote_curve(vote, orders)
    return epsilon_of_curve(total, orders, delta)


@lru_cache(maxsize=512)
def _gaussian_curve(sigma: float, rate: float, orders: tuple[float, ...]) -> np.ndarray:
    if rate == 1.0:
        return gaussian_curve(sigma, np.array(orders))
    # Imported late: it takes seconds, and not every command needs it.
    from opacus.accountants.analysis.rdp import compute_rdp

    with np.errstate(all="ignore"):
        return np.asarray(compute_rdp(q=rate, noise_multiplier=sigma, steps=1, orders=[*orders]))


def least_error(events: Iterable[Event], rdp: float, delta: float) -> float:
    """Return the error that PRV can keep on a grid of ``MOST_POINTS``, whose width follows from ``rdp``."""
    steps = sum(count for _, _, count in events)
    return 2 * (1.5 * rdp + 3) * math.sqrt(steps * math.log(12_000 / delta) / 2) / MOST_POINTS


def spend_of(event: Event) -> Spend:
    """Return the event as a ledger has it."""
    sigma, rate, count = event
    return SubsampledGaussian(noise_multiplier=sigma, sampling_rate=rate), count


def prv_epsilon(events: Sequence[Event], delta: float, error: float) -> float:
    """Return PRV's upper bound, at most ``2 error`` above the exact ε; infinite where it finds none."""
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
            epsilon = float(
                accountant.get_epsilon(delta, eps_error=error, delta_error=delta / 1000)
            )
        except (RuntimeError, ValueError, MemoryError):
            return math.inf
    return epsilon if math.isfinite(epsilon) and epsilon >= 0 else math.inf


# By math alone: accounting of Gaussians imports no scipy.


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


def gaussian_delta(mu: float, epsilon: float) -> float:
    """Return the exact δ of a Gaussian mechanism with sensitivity/σ = ``mu`` (Balle & Wang 2018, Theorem 8)."""
    lower = math.exp(min(epsilon + log_normal_cdf(-mu / 2 - epsilon / mu), 0.0))
    return normal_cdf(mu / 2 - epsilon / mu) - lower


@lru_cache(maxsize=4096)
def gaussian_epsilon(mu: float, delta: float) -> float:
    """Return the exact ε of a Gaussian mechanism with sensitivity/σ = ``mu`` at ``delta``."""
    if gaussian_delta(mu, 0.0) <= delta:
        return 0.0
    top = 1.0
    while gaussian_delta(mu, top) > delta:
        top *= 2
    return bisect(lambda e: gaussian_delta(mu, e) - delta, 0.0, top, 1e-12)[1] + 1e-9


def integrated_gaussian_epsilon(mu: float, delta: float) -> float:
    """Return :func:`gaussian_epsilon` without its formula: δ(ε) is the integral of φ(x)(1 − e^{ε − L(x)}) where the loss L is above ε.

    The loss of x standard deviations is μ²/2 + μx, and the integral is taken by the trapezoidal rule.
    """

    def excess(epsilon: float) -> float:
        start = epsilon / mu - mu / 2
        t, step = np.linspace(0.0, max(0.0, -start) + TAILS, NODES, retstep=True)
        density = np.exp(-((start + t) ** 2) / 2) / math.sqrt(2 * math.pi)
        return float((density * -np.expm1(-mu * t)).sum() * step) - delta

    top = 1.0
    while excess(top) > 0:
        top *= 2
    return bisect(excess, 0.0, top, 1e-9 * top)[1] if excess(0.0) > 0 else 0.0


def gaussian_mu(epsilon: float, delta: float) -> float:
    """Return the μ = sensitivity/σ of the single Gaussian mechanism that is exactly (ε, δ).

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
    return bisect(lambda m: gaussian_epsilon(m, delta) - epsilon, low, high, 1e-15)[0]


RENYI, GAUSSIAN_FILTER = "renyi", "gaussian"
COMPOSITIONS = (RENYI, GAUSSIAN_FILTER)
NAMES = {RENYI: "Rényi filter", GAUSSIAN_FILTER: "Gaussian filter"}
SOURCES = {
    RENYI: "Feldman, Zrnic 2021; Lécuyer 2021",
    GAUSSIAN_FILTER: "Smith, Thakurta 2022",
}
SLACK = 1e-9  # of the budget: what rounding of sums may exceed it by


@dataclass(frozen=True, kw_only=True)
class PrivacyFilter:
    """A privacy filter: the mechanisms that (ε, δ) admits, each of which may depend on all earlier outputs.

    Attributes
    ----------
    epsilon, delta : float
        The budget, fixed before the first output; an infinite ε admits everything.
    composition : {"renyi", "gaussian"}
    order : float or None
        Rényi order α > 1 of ``"renyi"`` at a finite ε; see :func:`order_of`.

    Formal guarantees
    -----------------
    Neighbouring tables differ in one record, added or removed. All mechanisms together are
    (epsilon, delta)-DP if each was admitted by :meth:`admits`, with all before it, before it ran.

    * ``"renyi"`` takes every mechanism with a finite Rényi divergence. *Theorem* (Feldman, Zrnic 2021, the
      Rényi privacy filter; Lécuyer 2021): fix α > 1 and ρ. If mechanism t has RDP(α) of at most ρ_t given all
      earlier outputs, ρ_t being known before it runs, and Σ ρ_t ≤ ρ always, then all together have RDP(α) ≤ ρ.
      *Proof.* Let P and Q be the laws of all outputs on two neighbours, and N_t the product over i ≤ t of
      (dP_i/dQ_i)^α e^{−(α−1)ρ_i}, each factor given the past. Given the past, the expectation under Q of the
      next factor is at most 1, since ρ_t is known by then. So N is a supermartingale under Q, E_Q[N] ≤ 1,
      and with Σ ρ_i ≤ ρ the expectation of (dP/dQ)^α is at most e^{(α−1)ρ}. ∎ RDP(α) ≤ ρ implies (ε, δ) by
      Balle et al. 2020, Theorem 21, with ρ = ε − log((α−1)/α) + (log δ + log α)/(α−1). The proof needs one α
      that is fixed with the budget: the best order for the list that came about depends on the outputs.
    * ``"gaussian"`` takes Gaussian mechanisms on the whole table, and votes accounted as such, and refuses all
      others. *Theorem* (Smith, Thakurta 2022): if mechanism t is μ_t-GDP given all earlier outputs, and
      Σ μ_t² ≤ μ² always, then all together are μ-GDP. *Proof.* One use is a function of the increment
      of a Brownian motion of drift 0 or 1 over a time μ_t² = 1/σ_t², whose length follows from the path so far.
      Total time is at most μ², so all outputs are a function of the path up to there, for which its end point
      N(b μ², μ²), b ∈ {0, 1}, is sufficient. ∎ No budget is lost against the exact composition.
    """

    epsilon: float
    delta: float
    composition: str = RENYI
    order: float | None = None

    @classmethod
    def of(cls, epsilon: float, delta: float, composition: str = RENYI) -> "PrivacyFilter":
        """Return the filter of a budget.

        Raises
        ------
        BudgetError
            If the filter admits no noise at all within so small a budget.
        """
        positive("epsilon", epsilon, finite=False)
        in_range("delta", delta, 0, 1, low_open=True, high_open=True)
        one_of("composition", composition, COMPOSITIONS)
        order = None
        if composition == RENYI and math.isfinite(epsilon):
            order = order_of(epsilon, delta)
        return cls(epsilon=epsilon, delta=delta, composition=composition, order=order)

    @property
    def budget(self) -> float:
        """ρ of ``"renyi"``, μ² of ``"gaussian"``; infinite with ε."""
        if math.isinf(self.epsilon):
            return math.inf
        if self.order is not None:
            return rdp_budget(self.epsilon, self.delta, self.order)
        return float(gaussian_mu(self.epsilon, self.delta) ** 2)

    def cost(self, mechanism: Mechanism) -> float:
        """Return the cost of one use, in the unit of :attr:`budget`.

        Raises
        ------
        BudgetError
            Of ``"gaussian"``, for a mechanism that it does not cover.
        """
        if isinstance(mechanism, NoPrivacy):
            return math.inf
        if self.order is not None:
            return rdp(mechanism, self.order)
        if self.composition == RENYI:  # an infinite budget: nothing is counted
            return 0.0
        if isinstance(mechanism, NoisyVote):
            covered, noise = mechanism.accounting == GAUSSIAN, mechanism.noise
        else:
            covered, noise = mechanism.sampling_rate == 1, mechanism.noise_multiplier
        if not covered:
            raise BudgetError(
                f"A Gaussian filter admits Gaussian noise on the whole table only, and no {mechanism.name}:"
                " use method margnet, or a ledger made with composition='renyi'."
            )
        return 1 / noise**2

    def use_of(self, spends: Iterable[Spend]) -> float:
        """Return Σ of costs, in the unit of :attr:`budget`."""
        return math.fsum(count * self.cost(mechanism) for mechanism, count in spends if count)

    def share(self, spends: Iterable[Spend]) -> float:
        """Return the part of the budget that ``spends`` take: 1 is all of it."""
        used = self.use_of(spends)
        if math.isinf(self.epsilon):
            return 0.0
        return used / self.budget

    def admits(self, spends: Iterable[Spend]) -> bool:
        """Return True if the budget covers all of ``spends`` together."""
        return math.isinf(self.epsilon) or self.share(spends) <= 1 + SLACK

    def claim(self, spends: Sequence[Spend]) -> float:
        """Return the ε that may be claimed at ``delta``: that of the budget, or more where it is exceeded.

        Never less: how much is spent at some moment follows from the outputs.
        """
        if self.admits(spends):
            return self.epsilon if any(count for _, count in spends) else 0.0
        used = self.use_of(spends)
        if not math.isfinite(used):
            return math.inf
        if self.order is None:
            return gaussian_epsilon(math.sqrt(used), self.delta)
        return epsilon_of_curve(np.array([used]), (self.order,), self.delta)

    def mu_left(self, spends: Iterable[Spend]) -> float:
        """Return 1/σ of the largest Gaussian on the whole table that the filter still admits; 0 for none."""
        budget_left = self.budget - self.use_of(spends)
        if budget_left <= 0 or math.isinf(budget_left):
            return max(0.0, budget_left)
        return math.sqrt(budget_left if self.order is None else 2 * budget_left / self.order)

    def accountant(self) -> JsonObject:
        """Return the filter as a certificate names what gave its ε."""
        order = {} if self.order is None else {"order": self.order}
        return {
            "name": NAMES[self.composition],
            **order,
            "library": "tabsynth",
            "version": version("tabsynth"),
        }

    def to_dict(self) -> JsonObject:
        """Return the filter as a certificate states the composition of a project."""
        return {
            "name": NAMES[self.composition],
            "order": self.order,
            "source": SOURCES[self.composition],
        }


def rdp_budget(epsilon: float, delta: float, order: float) -> float:
    """Return the ρ with which RDP(order) ≤ ρ implies (epsilon, delta): Balle et al. 2020, Theorem 21."""
    return float(epsilon - np.log1p(-1 / order) + (math.log(delta) + math.log(order)) / (order - 1))


def order_of(epsilon: float, delta: float) -> float:
    """Return the Rényi order of a budget: the one at which the largest single Gaussian fits.

    It depends on (epsilon, delta) alone, so it is fixed with the budget.

    Raises
    ------
    BudgetError
        If no order leaves any budget.
    """
    orders = np.array(ORDERS)
    budgets = np.array([rdp_budget(epsilon, delta, order) for order in ORDERS])
    best = int(np.argmax(budgets / orders))
    if budgets[best] <= 0:
        raise BudgetError(
            f"A Rényi filter has no order for epsilon={epsilon:g} at delta={delta:g}: raise one of them."
        )
    return float(orders[best])


def check_order(order: object, epsilon: float) -> float | None:
    """Return the order that a ledger's first line has; FileFormatError if there can be no such one."""
    if order is None and math.isinf(epsilon):
        return None
    largest = ORDERS[-1]
    if isinstance(order, bool) or not isinstance(order, int | float) or not 1 < order <= largest:
        raise FileFormatError(f"A Rényi order must be above 1, got {quote(order)}.")
    return float(order)
