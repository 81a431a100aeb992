"""The one seam that every mechanism passes, so that an audit can record a run and replay it (R1).

Without a recorder, as in every ordinary fit, what passes comes back as it is. With one, each mechanism
shows its exact value just before its noise and goes on with the value that it is given back. See
:mod:`tabsynth.audit.replay`.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Protocol

from tabsynth.privacy.mechanisms import is_private

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from tabsynth.privacy.ledger import Account


class Recorder(Protocol):
    """What looks on while private rows are read."""

    def read(self, account: "Account", uses: int) -> None:
        """Rows are about to be read, for so many uses of an account."""

    def exact(
        self, account: "Account", values: Sequence[Any], stds: Sequence[float], uses: int
    ) -> list[Any]:
        """As :func:`exact`."""

    def batch(self, rows: int, rate: float, generator: "torch.Generator") -> "Tensor":
        """Row numbers of a Poisson batch, by coins that each record keeps."""

    def uniform(self, rows: int, columns: int, generator: "torch.Generator") -> "Tensor | None":
        """Uniform numbers for the next rows of that batch; None of another generator."""

    def teachers(self, numbers: "Sequence[Tensor]") -> None:
        """What each teacher knows, a row of each tensor its own: a record changes one teacher (R15)."""

    def note(self, what: str, value: Any) -> None:
        """Something that must follow from releases alone: a release, or the state after a step."""


_RECORDER: ContextVar[Recorder | None] = ContextVar("recorder", default=None)


def recorder() -> Recorder | None:
    """The recorder of this run; None in every ordinary one."""
    return _RECORDER.get()


@contextmanager
def recorded_by(known: Recorder) -> Iterator[None]:
    """Let ``known`` look on within this block."""
    token = _RECORDER.set(known)
    try:
        yield
    finally:
        _RECORDER.reset(token)


def exact(
    account: "Account", values: Sequence[Any], stds: Sequence[float], uses: int = 1
) -> list[Any]:
    """Exact values on their way to the noise: as they are, or as a recorder gives them back.

    Parameters
    ----------
    account : Account
        What pays. One without privacy is not recorded.
    values : sequence of array, Tensor or float
        All that is released together.
    stds : sequence of float
        The standard deviation of the noise on each (or Laplace's scale).
    uses : int
        Where more than one, each row of the values is a release of its own.
    """
    known = _RECORDER.get()
    if known is None or not is_private(account.mechanism):
        return list(values)
    return known.exact(account, values, stds, uses)
