"""The advantage and the odds that ε and δ leave to somebody who attacks one record.

The attacker knows everything but whether one record (one unit of privacy) is in the table, and sees the release. Two
bounds hold for every such attacker, whatever else they know:

* Advantage: the largest difference of true and false positive rate. It is the total variation distance of the release with
  and without the record, which is δ(0) of the privacy curve δ(ε) (Kulynych, Gomez, Kaissis, du Pin Calmon, Troncoso 2024,
  arXiv:2407.02191). From one point (ε, δ) alone it is at most (e^ε − 1 + 2δ)/(e^ε + 1) (Kairouz, Oh, Viswanath 2015).
* Odds: by Bayes' rule the release multiplies the attacker's odds that the record is in the table by e^L, where L is the
  privacy loss. For pure ε-differential privacy L is at most ε, which gives the table of posterior beliefs of Wood et al. 2018
  (*Differential privacy: a primer for a non-technical audience*). With δ it may be more, with a small probability.
  This probability is not δ: a Gaussian release of (1, 1e-5) has L > 1 with probability 1.6e-4. So :func:`attack_bounds`
  states a factor together with the probability of exceeding it.

Notes
-----
The probability that L is above ε' is bounded as follows. For every ε < ε', with P the law under which the truth is drawn,
δ(ε) ≥ E_P[max(0, 1 − e^{ε−L})] ≥ P(L > ε')(1 − e^{ε−ε'}). So with η = P(L > ε') bounded by a probability that is chosen
first, ε' = ε − log(1 − δ(ε)/η) is enough, for the best of all ε with δ(ε) < η.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache

import numpy as np

from tabsynth._typing import JsonObject
from tabsynth._validate import in_range
from tabsynth.errors import InputError
from tabsynth.privacy.accounting.accountants import (
    GAUSSIAN_FILTER,
    PrivacyFilter,
    Spend,
    gaussian_delta,
    gaussian_epsilon,
)
from tabsynth.privacy.accounting.mechanisms import (
    GAUSSIAN,
    NoisyVote,
    is_private,
    steps_of,
    without_thresholds,
)

# By what bounds were computed; a certificate states it.
CURVE, EXACT, ORDER, POINT = (
    "privacy loss distribution",
    "exact Gaussian",
    "one Rényi order",
    "epsilon and delta alone",
)
PRIORS = (0.01, 0.1, 0.5)  # whose posterior probabilities are stated
EXCEPTIONS = 10  # times δ: the probability with which odds may rise further
ROUGH = 0.1  # the δ near which a curve is computed first, for δ(0)
POINTS = 400  # of the curve, from 0 to 2ε
NEAR = 1e-5  # δ of a group near which a curve is closest
MOST_EXPONENT = 700.0  # of odds that a float holds


@dataclass(frozen=True, kw_only=True)
class AttackBounds:
    """Upper bounds on what any attacker learns of one record, or of one unit of privacy.

    Attributes
    ----------
    advantage : float
        Of deciding whether the record is in the table: true positive rate minus false positive rate, from 0 to 1.
    odds : float
        The factor by which odds for or against it rise at most, 1 or more.
    exception : float
        The probability with which odds may rise by more than that factor; 0 for none.
    basis : str
        What they follow from: a privacy curve, or (ε, δ) alone, which is looser.
    """

    advantage: float
    odds: float
    exception: float
    basis: str

    def posterior(self, prior: float) -> float:
        """Return the largest probability that an attacker ends with who began with ``prior``, of any event about the record.

        Raises
        ------
        InputError
            For a prior that is no probability between 0 and 1.
        """
        in_range("prior", prior, 0, 1, low_open=True, high_open=True)
        return self.odds * prior / (self.odds * prior + 1 - prior)

    def to_dict(self) -> JsonObject:
        """Return a JSON-ready mapping, as a certificate states it."""
        return asdict(self)

    def lines(self, what: str = "one record") -> list[str]:
        """Return the bounds in words; ``what`` is protected."""
        beliefs = ", ".join(
            f"from {percent(prior)} to {percent(self.posterior(prior))}" for prior in PRIORS
        )
        return [
            f"Attacker's advantage: at most {rounded_up(self.advantage)}. Of two equally likely tables, with and without {what},"
            f" an attacker names the right one in at most {self.share_of_right_guesses} of cases; guessing is right in 50%"
            f" (from: {self.basis})",
            f"Attacker's belief: odds rise at most {rounded_up(self.odds)}-fold, such as {beliefs}{self.exception_clause}",
        ]

    @property
    def share_of_right_guesses(self) -> str:
        """The share of right decisions, as a percentage, of an attacker to whom both tables are equally likely."""
        return percent((1 + self.advantage) / 2)

    @property
    def exception_clause(self) -> str:
        """The clause after the factor of the odds: the probability of exceeding it; empty where it is 0."""
        return f", except with probability {rounded_up(self.exception)}" if self.exception else ""


def rounded_up(value: float, digits: int = 3) -> str:
    """Return a bound with few digits, never rounded down."""
    if value <= 0 or not math.isfinite(value):
        return f"{value:g}"
    unit = 10.0 ** (math.floor(math.log10(value)) - digits + 1)
    upper = math.ceil(value / unit - 1e-9) * unit
    return f"{upper:,.0f}" if upper >= 1000 else f"{upper:.{digits}g}"


def percent(share: float) -> str:
    """Return a probability as a percentage with a decimal, never rounded down, and 100% only for certainty."""
    upper = math.ceil(1000 * share - 1e-9) / 10
    return f"{100 * share:.7g}%" if upper >= 100 > 100 * share else f"{upper:g}%"


def attack_bounds(
    spends: Iterable[Spend],
    epsilon: float,
    delta: float,
    kept_by: PrivacyFilter | None = None,
    inexact: float = 0.0,
) -> AttackBounds | None:
    """Return bounds for the composition of all ``spends``; None where ε is infinite.

    Parameters
    ----------
    spends : iterable of (Mechanism, int)
    epsilon, delta : float
        What is claimed of them: bounds that follow from it alone are taken where they are smaller.
    kept_by : PrivacyFilter, optional
        The filter that composed them, where the plan of some may depend on outputs of others. Then only its budget has a
        curve.
    inexact : float
        The total variation distance of the noise from the noise that is accounted for; it is added to the advantage twice.
    """
    listed = tuple(sorted(((m, n) for m, n in spends if n), key=repr))
    if math.isinf(epsilon):
        return None
    bounds = _bounds(listed, float(epsilon), float(delta), kept_by)
    if not inexact:
        return bounds
    return AttackBounds(
        advantage=min(1.0, bounds.advantage + 2 * inexact),
        odds=bounds.odds,
        exception=bounds.exception,
        basis=bounds.basis,
    )


def claimed_bounds(epsilon: float, delta: float) -> AttackBounds:
    """Return bounds that hold for everything that is (epsilon, delta)-differentially private."""
    exception = EXCEPTIONS * delta
    rise = epsilon - math.log1p(-1 / EXCEPTIONS) if delta else epsilon
    return AttackBounds(
        advantage=_advantage(epsilon, delta),
        odds=_factor(rise) if exception < 1 else math.inf,
        exception=exception if exception < 1 else 0.0,
        basis=POINT,
    )


def epsilon_of_advantage(advantage: float, delta: float, *, gaussian: bool = False) -> float:
    """Return the largest ε at ``delta`` at which no attacker has more than ``advantage``.

    Parameters
    ----------
    advantage : float
        Between ``delta`` and 1.
    delta : float
    gaussian : bool
        Whether all noise is Gaussian, on the whole table: then more is allowed, by the exact curve. What thresholds of a
        draft take of δ is allowed for.

    Raises
    ------
    InputError
        For an advantage that δ alone exceeds.
    """
    in_range("max_advantage", advantage, 0, 1, low_open=True, high_open=True)
    in_range("delta", delta, 0, 1, low_open=True, high_open=True)
    if advantage <= 2 * delta:
        raise InputError(
            f"Expected max_advantage above {2 * delta:g}, which delta={delta:g} alone allows, got {advantage:g}; lower delta."
        )
    if not gaussian:
        return math.log((1 + advantage - 2 * delta) / (1 - advantage))
    from scipy.special import ndtri

    mu = 2 * float(ndtri((1 + advantage - delta) / 2))
    return gaussian_epsilon(mu, delta)


def _advantage(epsilon: float, delta: float) -> float:
    """Return (e^ε − 1 + 2δ)/(e^ε + 1), 1 at most."""
    return min(1.0, math.tanh(epsilon / 2) + 2 * delta / (1 + math.exp(min(epsilon, 700.0))))


def _factor(rise: float) -> float:
    """Return e^rise, or infinity where that is more than a float can hold."""
    return math.exp(rise) if rise < MOST_EXPONENT else math.inf


@lru_cache(maxsize=256)
def _bounds(
    spends: tuple[Spend, ...], epsilon: float, delta: float, kept_by: PrivacyFilter | None
) -> AttackBounds:
    point = claimed_bounds(epsilon, delta)
    if not spends:
        return point
    grid = np.linspace(0.0, 2 * epsilon, POINTS)
    if kept_by is not None:
        deltas, basis = _filter_bounds(kept_by, spends, grid)
        deltas += max(0.0, delta - kept_by.delta)
    else:
        plain, delta_left = without_thresholds(spends, delta)
        deltas, basis = _compose(plain, grid, delta)
        deltas += max(0.0, delta - delta_left)
    advantage = min(_advantage(float(e), float(d)) for e, d in zip(grid, deltas, strict=True))
    if advantage >= point.advantage:
        advantage, basis = point.advantage, POINT
    odds = point.odds
    possible = deltas < point.exception
    if possible.any():
        rises = grid[possible] - np.log1p(-deltas[possible] / point.exception)
        odds = min(odds, _factor(float(rises.min())))
    return AttackBounds(advantage=advantage, odds=odds, exception=point.exception, basis=basis)


def _compose(spends: Sequence[Spend], epsilons: np.ndarray, delta: float) -> tuple[np.ndarray, str]:
    """Return δ at each ε of mechanisms whose parameters were fixed before the first of them ran."""
    if not all(is_private(mechanism) for mechanism, _ in spends):
        return np.ones(len(epsilons)), POINT
    mu = whole_table_mu(spends)
    if mu is not None:
        return np.array([gaussian_delta(mu, e) for e in epsilons]), EXACT
    from tabsynth.privacy.accounting.pld import pld_delta

    deltas = pld_delta(spends, epsilons, near=delta)
    # δ(0) is far from ``delta``, and the grid of losses is accurate near one δ.
    rough = float(pld_delta(spends, np.zeros(1), near=ROUGH)[0])
    deltas[0] = min(deltas[0], rough)
    if rough < ROUGH / 10:
        deltas[0] = min(deltas[0], float(pld_delta(spends, np.zeros(1), near=max(rough, delta))[0]))
    return deltas, CURVE


def whole_table_mu(spends: Sequence[Spend]) -> float | None:
    """Return μ of all ``spends`` together; None if they are not all Gaussians on the whole table."""
    of_sums = all(
        is_private(m) and (not isinstance(m, NoisyVote) or m.accounting == GAUSSIAN)
        for m, _ in spends
    )
    events = [steps_of(mechanism, count) for mechanism, count in spends] if of_sums else []
    if not events or any(rate != 1.0 for _, rate, _ in events):
        return None
    return math.sqrt(math.fsum(count / sigma**2 for sigma, _, count in events))


def _filter_bounds(
    kept_by: PrivacyFilter, spends: Sequence[Spend], epsilons: np.ndarray
) -> tuple[np.ndarray, str]:
    """Return δ at each ε of all that a filter admits."""
    used = max(kept_by.budget, kept_by.use_of(spends))
    if kept_by.composition == GAUSSIAN_FILTER:
        return np.array([gaussian_delta(math.sqrt(used), e) for e in epsilons]), EXACT
    order = float(kept_by.order or 2.0)
    logs = (order - 1) * (used + math.log1p(-1 / order) - epsilons) - math.log(order)
    return np.exp(np.minimum(logs, 0.0)), ORDER
