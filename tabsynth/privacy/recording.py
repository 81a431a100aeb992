"""The one seam that every mechanism passes, so that an audit can record a run and replay it (R1).

Without a recorder, as in every ordinary fit, what passes comes back as it is. With one, each mechanism
shows its exact value just before its noise and goes on with the value that it is given back. See
:mod:`tabsynth.audit.replay`.
"""

import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
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
        self,
        account: "Account",
        values: Sequence[Any],
        stds: Sequence[float],
        uses: int,
        units: Sequence[float],
    ) -> list[Any]:
        """As :func:`exact`."""

    def batch(self, rows: int, rate: float, generator: "torch.Generator") -> "Tensor":
        """Row numbers of a Poisson batch, by coins that each record keeps."""

    def places(self, room: int) -> "Tensor":
        """Places of that batch's rows among ``room``, or in order where they are more."""

    def uniform(self, rows: int, columns: int, generator: "torch.Generator") -> "Tensor | None":
        """Uniform numbers for the next places of that batch; None of another generator."""

    def teachers(self, numbers: "Sequence[Tensor]") -> None:
        """What each teacher knows, a row of each tensor its own: a record changes one teacher (R15)."""

    def note(self, what: str, value: Any) -> None:
        """Something that must follow from releases alone: a release, a file, or the state after a step."""

    def name(self) -> str:
        """As :func:`new_name`: the same in a run and in its replay."""


_RECORDER: ContextVar[Recorder | None] = ContextVar("recorder", default=None)


def recorder() -> Recorder | None:
    """The recorder of this run; None in every ordinary one."""
    return _RECORDER.get()


def note(what: str, value: Any) -> None:
    """Tell a recorder, if there is one, of what must follow from releases alone."""
    if (known := _RECORDER.get()) is not None:
        known.note(what, value)


def new_name() -> str:
    """A random name, of a run on a ledger for example; in a recorded run one that its replay has too."""
    known = _RECORDER.get()
    return secrets.token_hex(8) if known is None else known.name()


def now() -> str:
    """The time to tell, UTC, ISO 8601; in a recorded run it stands still, for files carry it."""
    moment = datetime.now(UTC) if _RECORDER.get() is None else datetime.fromtimestamp(0, UTC)
    return moment.isoformat(timespec="seconds")


@contextmanager
def recorded_by(known: Recorder) -> Iterator[None]:
    """Let ``known`` look on within this block."""
    token = _RECORDER.set(known)
    try:
        yield
    finally:
        _RECORDER.reset(token)


def exact(
    account: "Account",
    values: Sequence[Any],
    stds: Sequence[float],
    uses: int = 1,
    units: Sequence[float] | None = None,
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
    units : sequence of float, optional
        How large the certificate's unit is for each value: sensitivity and noise in that unit are those that
        it states. 1 by default.
    """
    account.check_process()
    known = _RECORDER.get()
    if known is None or not is_private(account.mechanism):
        return list(values)
    return known.exact(account, values, stds, uses, [1.0] * len(stds) if units is None else units)
