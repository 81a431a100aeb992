"""The only handle on private rows: no read without an account that pays for it."""

from typing import Generic, TypeVar

from tabsynth.privacy.ledger import Account, Ledger
from tabsynth.privacy.recording import recorder

T = TypeVar("T")


class PrivateTable(Generic[T]):
    """Private rows behind the ledger.

    Parameters
    ----------
    rows : array or tensor
        The rows, in any form that the mechanisms take.
    ledger : Ledger

    Formal guarantees
    -----------------
    The rows, and their number, come out only through :meth:`read`, which writes off a use on the
    ledger first; if the ledger refuses, nothing is read. It has no length (R14).
    """

    def __init__(self, rows: T, ledger: Ledger) -> None:
        self.__rows = rows
        self.ledger = ledger
        self.reads = 0

    def read(self, account: Account, uses: int = 1) -> T:
        """The rows, for one use of ``account``, or several at once (asked first, read then)."""
        self.ledger.spend(account, uses)
        self.reads += 1
        if (known := recorder()) is not None:
            known.read(account, uses)
        return self.__rows

    def __repr__(self) -> str:
        return f"PrivateTable(reads={self.reads})"
