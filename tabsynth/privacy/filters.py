"""Privacy filters: a budget (ε, δ) that holds although mechanisms are chosen by what earlier ones released.

An accountant such as PRV or PLD composes a list of mechanisms whose parameters were fixed before the first of
them ran. Where a later mechanism depends on an earlier output, the ε of the list that came about is no bound:
the choice of the list leaks too. A *privacy filter* (Rogers, Roth, Ullman, Vadhan 2016) has a budget that is
fixed first, and admits a mechanism only while the budget covers all that were admitted. Then everything
together is (ε, δ)-differentially private, however each was chosen. A filter says nothing of a smaller ε for
what was spent up to some moment: that needs an odometer.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

import numpy as np

from tabsynth._validate import between, one_of, positive, shown
from tabsynth.errors import BudgetError, FileFormatError
from tabsynth.privacy import renyi
from tabsynth.privacy.accounting import Spend, gaussian_epsilon, gaussian_mu
from tabsynth.privacy.mechanisms import GAUSSIAN as GAUSSIAN_VOTE
from tabsynth.privacy.mechanisms import Mechanism, NoisyVote, NoPrivacy

RENYI, GAUSSIAN = "renyi", "gaussian"
COMPOSITIONS = (RENYI, GAUSSIAN)
NAMES = {RENYI: "Rényi filter", GAUSSIAN: "Gaussian filter"}
SOURCES = {
    RENYI: "Feldman, Zrnic 2021; Lécuyer 2021",
    GAUSSIAN: "Smith, Thakurta 2022",
}
SLACK = 1e-9  # of the budget: what rounding of sums may exceed it by


@dataclass(frozen=True, kw_only=True)
class PrivacyFilter:
    """What (ε, δ) admits of mechanisms that may depend on all earlier outputs.

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
        """The filter of a budget.

        Raises
        ------
        BudgetError
            If the filter admits no noise at all within so small a budget.
        """
        positive("epsilon", epsilon, finite=False)
        between("delta", delta, 0, 1, low_open=True, high_open=True)
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
        """Of one use, in the unit of :attr:`budget`.

        Raises
        ------
        BudgetError
            Of ``"gaussian"``, for a mechanism that it does not cover.
        """
        if isinstance(mechanism, NoPrivacy):
            return math.inf
        if self.order is not None:
            return renyi.rdp(mechanism, self.order)
        if self.composition == RENYI:  # an infinite budget: nothing is counted
            return 0.0
        if isinstance(mechanism, NoisyVote):
            covered, noise = mechanism.accounting == GAUSSIAN_VOTE, mechanism.noise
        else:
            covered, noise = mechanism.sampling_rate == 1, mechanism.noise_multiplier
        if not covered:
            raise BudgetError(
                f"A Gaussian filter admits Gaussian noise on the whole table only, and no {mechanism.name}:"
                " use method margnet, or a ledger made with --composition renyi."
            )
        return 1 / noise**2

    def used(self, spends: Iterable[Spend]) -> float:
        """Σ of costs, in the unit of :attr:`budget`."""
        return math.fsum(count * self.cost(mechanism) for mechanism, count in spends if count)

    def share(self, spends: Iterable[Spend]) -> float:
        """The part of the budget that ``spends`` take: 1 is all of it."""
        used = self.used(spends)
        if math.isinf(self.epsilon):
            return 0.0
        return used / self.budget

    def admits(self, spends: Iterable[Spend]) -> bool:
        """Whether the budget covers all of ``spends`` together."""
        return math.isinf(self.epsilon) or self.share(spends) <= 1 + SLACK

    def claim(self, spends: Sequence[Spend]) -> float:
        """The ε that may be claimed at ``delta``: that of the budget, or more where it is exceeded.

        Never less: how much is spent at some moment follows from the outputs.
        """
        if self.admits(spends):
            return self.epsilon if any(count for _, count in spends) else 0.0
        used = self.used(spends)
        if not math.isfinite(used):
            return math.inf
        if self.order is None:
            return gaussian_epsilon(math.sqrt(used), self.delta)
        return renyi.epsilon_of_curve(np.array([used]), (self.order,), self.delta)

    def mu_left(self, spends: Iterable[Spend]) -> float:
        """1/σ of the largest Gaussian on the whole table that the filter still admits; 0 for none."""
        left = self.budget - self.used(spends)
        if left <= 0 or math.isinf(left):
            return max(0.0, left)
        return math.sqrt(left if self.order is None else 2 * left / self.order)

    def accountant(self) -> dict[str, Any]:
        """As a certificate names what gave its ε."""
        order = {} if self.order is None else {"order": self.order}
        return {
            "name": NAMES[self.composition],
            **order,
            "library": "tabsynth",
            "version": version("tabsynth"),
        }

    def to_dict(self) -> dict[str, Any]:
        """As a certificate states the composition of a project."""
        return {
            "name": NAMES[self.composition],
            "order": self.order,
            "source": SOURCES[self.composition],
        }


def rdp_budget(epsilon: float, delta: float, order: float) -> float:
    """The ρ with which RDP(order) ≤ ρ implies (epsilon, delta): Balle et al. 2020, Theorem 21."""
    return float(epsilon - np.log1p(-1 / order) + (math.log(delta) + math.log(order)) / (order - 1))


def order_of(epsilon: float, delta: float) -> float:
    """The Rényi order of a budget: the one at which the largest single Gaussian fits.

    It depends on (epsilon, delta) alone, so it is fixed with the budget.

    Raises
    ------
    BudgetError
        If no order leaves any budget.
    """
    orders = np.array(renyi.ORDERS)
    budgets = np.array([rdp_budget(epsilon, delta, order) for order in renyi.ORDERS])
    best = int(np.argmax(budgets / orders))
    if budgets[best] <= 0:
        raise BudgetError(
            f"A Rényi filter has no order for epsilon={epsilon:g} at delta={delta:g}: raise one of them."
        )
    return float(orders[best])


def check_order(order: Any, epsilon: float) -> float | None:
    """The order that a ledger's first line has; FileFormatError if there can be no such one."""
    if order is None and math.isinf(epsilon):
        return None
    most = renyi.ORDERS[-1]
    if isinstance(order, bool) or not isinstance(order, int | float) or not 1 < order <= most:
        raise FileFormatError(f"A Rényi order must be above 1, got {shown(order)}.")
    return float(order)
