"""What a fit will spend, known before a private row is touched."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from tabsynth.privacy.ledger import Account, Ledger
from tabsynth.privacy.mechanisms import Mechanism


@dataclass(frozen=True, kw_only=True)
class PlannedSpend:
    """One mechanism, how often it will be used, and on what."""

    purpose: str
    mechanism: Mechanism
    count: int

    def __str__(self) -> str:
        return f"{self.purpose}: {self.mechanism.in_words(self.count)}"


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The price of a fit, for a person to read first.

    Attributes
    ----------
    spends : tuple of PlannedSpend
    epsilon, delta : float
        What the whole fit will spend.
    accountant : str
        Which accountant says so.
    seconds : float or None
        Estimated on this machine, for a table of ``rows`` rows.
    at_most : bool
        Whether the fit may be done before.
    rows : int
        The number of rows the estimate is for: what the caller declared, or a nominal one. It is
        never that of the private table.
    notes : tuple of str
        What else a person should know before they start.
    """

    method: str
    spends: tuple[PlannedSpend, ...]
    epsilon: float
    delta: float
    accountant: str
    rows: int
    rows_declared: bool
    device: str
    seconds: float | None = None
    at_most: bool = False
    notes: tuple[str, ...] = ()

    def lines(self) -> list[str]:
        """The plan in plain words, a line each."""
        out = [str(spend) for spend in self.spends]
        if math.isinf(self.epsilon):
            out.append("spends epsilon = inf: NOT private")
        else:
            out.append(
                f"spends epsilon = {self.epsilon:.4g} at delta = {self.delta:g}"
                f" ({self.accountant} accountant, add or remove one record)"
            )
        if self.seconds is not None:
            whose = "the declared" if self.rows_declared else "a table of"
            out.append(
                f"takes about {duration(self.seconds)}{' at most' * self.at_most} on {self.device}"
                f" for {whose} {self.rows:,} rows"
            )
        return [*out, *self.notes]

    def __str__(self) -> str:
        return f"{self.method}:\n" + "\n".join(f"  {line}" for line in self.lines())


def planned(spends: Sequence[PlannedSpend], earlier: Ledger) -> Ledger:
    """A ledger on which a plan is spent, after what was spent earlier: for its ε and its accountant."""
    ledger = Ledger.from_list(earlier.epsilon, earlier.delta, earlier.before())
    ledger.accounts += [Account(s.purpose, s.mechanism, s.count, s.count) for s in spends]
    return ledger


def duration(seconds: float) -> str:
    """Seconds in words: ``45 s``, ``3 min``, ``2.1 h``."""
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    if seconds < 5400:
        return f"{round(seconds / 60)} min"
    return f"{seconds / 3600:.1f} h"
