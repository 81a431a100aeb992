"""One ledger over every read of private rows. It is asked before the data is touched (R7)."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from tabsynth._validate import between, integer, positive, shown
from tabsynth.errors import BudgetError, FileFormatError
from tabsynth.privacy.accounting import Spend, epsilon_of, rdp_epsilon
from tabsynth.privacy.mechanisms import Mechanism, mechanism_from, steps_of

# What is asked for may be exceeded by rounding of floats, and by nothing else.
SLACK = 1e-9
MOST_USES = 10**15  # that a file may list


@dataclass
class Account:
    """What one purpose may spend: ``granted`` uses of ``mechanism``, of which ``spent`` are gone."""

    purpose: str
    mechanism: Mechanism
    granted: int
    spent: int = 0
    details: dict[str, Any] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """A line of the certificate: what was spent, not what was granted."""
        sigma, rate, _ = steps_of(self.mechanism, 1)
        return {
            "purpose": self.purpose,
            "mechanism": self.mechanism.name,
            "noise_multiplier": sigma,
            "sampling_rate": rate,
            "count": self.spent,
            "details": dict(self.details),
        }


class Ledger:
    """The budget (ε, δ) of a table, and every account that draws on it.

    Parameters
    ----------
    epsilon : float
        The limit; ``math.inf`` allows reads without noise.
    delta : float

    Formal guarantees
    -----------------
    The composition of all that is *granted* never exceeds (ε, δ), by the accountant of
    :mod:`tabsynth.privacy.accounting`; a use beyond what was granted raises before the data is read.
    Nothing is ever un-spent: a use counts from the moment it is asked for.
    """

    def __init__(self, epsilon: float, delta: float) -> None:
        self.epsilon = positive("epsilon", epsilon, finite=False)
        self.delta = between("delta", delta, 0, 1, low_open=True, high_open=True)
        self.accounts: list[Account] = []

    def open(
        self,
        purpose: str,
        mechanism: Mechanism,
        count: int,
        details: dict[str, Any] | None = None,
    ) -> Account:
        """Grant ``count`` uses of a mechanism, or refuse.

        Raises
        ------
        BudgetError
            If everything granted so far and this together would pass ε.
        """
        integer("count", count, least=0)
        if not self._affords(mechanism, count):
            total = epsilon_of([*self._granted(), (mechanism, count)], self.delta)
            raise BudgetError(
                f"{purpose}: would bring epsilon to {total:.4g}, past the budget of"
                f" {self.epsilon:g} (delta={self.delta:g}); nothing was read."
            )
        account = Account(purpose, mechanism, count, details=dict(details or {}))
        self.accounts.append(account)
        return account

    def _granted(self) -> list[Spend]:
        return [(a.mechanism, a.granted) for a in self.accounts]

    def _affords(self, mechanism: Mechanism, count: int) -> bool:
        if math.isinf(self.epsilon) or count == 0:
            return True
        together = [*self._granted(), (mechanism, count)]
        # RDP is quick and never below the exact ε: what it allows needs no second look.
        limit = self.epsilon * (1 + SLACK)
        return (
            rdp_epsilon(together, self.delta) <= limit or epsilon_of(together, self.delta) <= limit
        )

    def spend(self, account: Account) -> None:
        """Write off one use of an account: called before the data is read.

        Raises
        ------
        BudgetError
            If the account has no use left.
        """
        if not any(account is known for known in self.accounts):
            raise BudgetError(f"{account.purpose}: this account is not on the ledger.")
        if account.spent >= account.granted:
            raise BudgetError(
                f"{account.purpose}: all {account.granted} uses are spent; nothing was read."
            )
        account.spent += 1

    def close(self) -> None:
        """Give back what was granted and not used, so that a later fit may have it."""
        for account in self.accounts:
            account.granted = account.spent

    @property
    def spent(self) -> float:
        """ε at ``delta`` of everything spent so far."""
        return epsilon_of([(a.mechanism, a.spent) for a in self.accounts], self.delta)

    def spends(self) -> list[Spend]:
        """Everything spent so far, as the accountant takes it."""
        return [(a.mechanism, a.spent) for a in self.accounts if a.spent]

    def to_list(self) -> list[dict[str, Any]]:
        """The accounts that were used, JSON-ready."""
        return [account.to_dict() for account in self.accounts if account.spent]

    @classmethod
    def from_list(cls, epsilon: float, delta: float, items: Sequence[Any]) -> "Ledger":
        """A ledger on which ``items`` are already spent."""
        ledger = cls(epsilon, delta)
        for item in items:
            mechanism = mechanism_from(item)
            count = item.get("count")
            if isinstance(count, bool) or not isinstance(count, int) or not 0 <= count <= MOST_USES:
                raise FileFormatError(f"A mechanism is listed with count={shown(count)}.")
            details = item.get("details") or {}
            if not isinstance(details, dict):
                raise FileFormatError(f"A mechanism is listed with details={shown(details)}.")
            ledger.accounts.append(
                Account(str(item.get("purpose")), mechanism, count, count, dict(details))
            )
        return ledger
