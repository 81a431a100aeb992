"""What a run does with private rows, written down; and the same run played back on other rows."""

import logging
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tabsynth.auditing.replay_leaves import Leaf, difference, leaves
from tabsynth.privacy.accounting.mechanisms import NoisyVote, is_private, of_sum
from tabsynth.privacy.ledger.ledger import Account

ROUNDING = 1e-6  # of a sensitivity: standard deviations come in float32


@dataclass(frozen=True, kw_only=True)
class Mechanism:
    """One call of a mechanism.

    Attributes
    ----------
    purpose : str
        Of the account that paid.
    uses : int
        Releases of one call, each with noise of its own: the questions of a round of votes.
    move : float
        How far its input lay from that of the neighbour, in sensitivities; the farthest of its uses.
    distance : float
        The same, in the certificate's unit.
    deviation : float
        Standard deviation of its noise (Laplace's scale of votes), in the certificate's unit; not a number if
        it is not the same for all that is released together.
    """

    purpose: str
    uses: int
    move: float
    distance: float
    deviation: float


class Coins:
    """A record's coins for every batch: the same wherever it stands, and whoever else is there.

    A record that only one of the two tables holds is in every batch, so that what it does is seen. Where
    there are several, inputs may move by as many sensitivities.

    Parameters
    ----------
    table, neighbour : ndarray, shape (rows, columns), int64
        Value numbers.
    seed : int
    """

    def __init__(self, table: np.ndarray, neighbour: np.ndarray, seed: int) -> None:
        known: dict[tuple[bytes, int], int] = {}
        self.records = [
            torch.tensor(_records(index, known), dtype=torch.int64) for index in (table, neighbour)
        ]
        self.count, self.seed = len(known), seed
        held = torch.zeros(self.count, dtype=torch.int64)
        for records in self.records:
            held[records] += 1
        self.alone = held < 2

    def toss(self, number: int, columns: int) -> Tensor:
        """Uniform numbers of every record, shape (records, columns), the same for the same number."""
        return torch.rand(self.count, columns, generator=self.stream(number, 0))

    def stream(self, number: int, part: int) -> torch.Generator:
        """What else is drawn for a batch: the same for the same number and part of it."""
        words = np.random.SeedSequence([self.seed, number, part]).generate_state(2)
        return torch.Generator().manual_seed(int(words[0]) << 32 | int(words[1]))


def _records(index: np.ndarray, known: dict[tuple[bytes, int], int]) -> list[int]:
    """The number of the record in each place: of what it holds, and which of its equals it is."""
    seen: dict[bytes, int] = {}
    found = []
    for row in np.ascontiguousarray(index):
        held = row.tobytes()
        seen[held] = seen.get(held, 0) + 1
        found.append(known.setdefault((held, seen[held]), len(known)))
    return found


class Tape:
    """A :class:`tabsynth.privacy.ledger.ledger.Recorder`: of a run, or of its replay where ``recorded`` is given.

    In a replay each mechanism goes on with the exact value that was recorded: with the same seed it
    releases what it released, if its noise is independent of the rows. All else is compared as it comes.

    Parameters
    ----------
    coins : Coins, optional
        Where the run draws batches.
    recorded : Tape, optional
    """

    def __init__(self, coins: Coins | None = None, recorded: "Tape | None" = None) -> None:
        self.coins, self.recorded = coins, recorded
        self._most = 1 if coins is None else int(coins.alone.sum())
        self.events: list[tuple[str, list[Leaf]]] = []
        self.values: list[list[Any]] = []
        self.taught: list[list[Tensor]] = []
        self.mechanisms: list[Mechanism] = []
        self.difference: str | None = None
        self.compared = 0
        self._owed: dict[str, int] = {}
        self._tosses = self._place = self._names = 0
        self._picked: Tensor | None = None
        self._private: torch.Generator | None = None

    # What the library calls.

    def read(self, account: Account, uses: int) -> None:
        """As :meth:`Recorder.read`."""
        if is_private(account.mechanism):
            self._owed[account.purpose] = self._owed.get(account.purpose, 0) + uses

    def exact(
        self,
        account: Account,
        values: Sequence[Any],
        stds: Sequence[float],
        uses: int,
        units: Sequence[float],
    ) -> list[Any]:
        """As :meth:`Recorder.exact`."""
        number, own = len(self.values), [_copy(value) for value in values]
        label = f"mechanism {number + 1} ({account.purpose})"
        owed = self._owed.get(account.purpose, 0) - uses
        if owed < 0:
            self.differs(f"{label}: releases what no charged read has paid for")
        self._owed[account.purpose] = max(0, owed)
        self.values.append(own)
        shapes = [np.shape(v) for v in own]
        about = {"uses": uses, "noise": list(stds), "units": list(units), "shapes": shapes}
        same = self._compare(label, leaves(about))
        move = distance = 0.0
        if self.recorded is not None and same:
            known = self.recorded.values[number]
            move = _multiplier(account) * _apart(own, known, stds, uses)
            distance = _apart(own, known, units, uses)
            if not move <= self._most * (1 + ROUNDING):
                self.differs(
                    f"{label}: its input moved by {move:.4g} sensitivities, not {self._most} at most"
                )
            own = [_copy(value) for value in known]
        self.mechanisms.append(
            Mechanism(
                purpose=account.purpose,
                uses=uses,
                move=move,
                distance=distance,
                deviation=_common(stds, units),
            )
        )
        return [_copy(value) for value in own]

    def batch(self, rows: int, rate: float, generator: torch.Generator) -> Tensor:
        """As :meth:`Recorder.batch`."""
        records = self._records()
        if len(records) != rows:
            raise ValueError(f"a step reads {rows} rows of a table of {len(records)}")
        self._tosses, self._place, self._private = self._tosses + 1, 0, generator
        assert self.coins is not None
        drawn = self.coins.toss(self._tosses, 1)[:, 0]
        places = torch.nonzero(((drawn < rate) | self.coins.alone)[records]).squeeze(1)
        self._picked = records[places]
        return places

    def places(self, room: int) -> Tensor:
        """As :meth:`Recorder.places`: records of both tables come first, so that they have the same place."""
        assert self.coins is not None and self._picked is not None
        count = len(self._picked)
        rng = self.coins.stream(self._tosses, 0)
        drawn = torch.randperm(room, generator=rng) if count <= room else torch.arange(count)
        order = torch.argsort(self._picked + self.coins.count * self.coins.alone[self._picked])
        places = torch.empty(count, dtype=torch.int64)
        places[order] = drawn[:count]
        return places

    def uniform(self, rows: int, columns: int, generator: torch.Generator) -> Tensor | None:
        """As :meth:`Recorder.uniform`."""
        if generator is not self._private or self.coins is None:
            return None
        self._place += 1  # a batch may come in parts
        rng = self.coins.stream(self._tosses, self._place)
        return torch.rand(rows, columns, generator=rng).to(generator.device)

    def teachers(self, numbers: Sequence[Tensor]) -> None:
        """As :meth:`Recorder.teachers`."""
        turn, own = len(self.taught), [_copy(tensor) for tensor in numbers]
        label = f"teachers, round {turn + 1}"
        self.taught.append(own)
        if not self._compare(label, leaves([list(t.shape) for t in own])) or self.recorded is None:
            return
        changed = torch.zeros(len(own[0]), dtype=torch.bool)
        for one, other in zip(own, self.recorded.taught[turn], strict=True):
            changed |= (one != other).flatten(1).any(1).cpu()
        count = int(changed.sum())
        if count > self._most:
            self.differs(f"{label}: {count} of {len(changed)} changed, not {self._most} at most")

    def note(self, what: str, value: Any) -> None:
        """As :meth:`Recorder.note`."""
        for purpose, owed in self._owed.items():
            if owed:
                self.differs(f"{purpose}: rows were read and passed no mechanism before {what}")
        self._owed.clear()
        self._compare(what, leaves(value))

    def name(self) -> str:
        """As :meth:`Recorder.name`."""
        self._names += 1
        return f"{self._names:016x}"

    # The comparison.

    def end(self) -> None:
        """The run is over."""
        self.note("the end", None)
        if self.recorded is not None and len(self.events) < len(self.recorded.events):
            self.differs(f"{self.recorded.events[len(self.events)][0]}: did not come")

    def _compare(self, label: str, found: list[Leaf]) -> bool:
        """Whether this event is the one that was recorded."""
        number = len(self.events)
        self.events.append((label, found))
        if self.recorded is None:
            return True
        if number >= len(self.recorded.events):
            self.differs(f"{label}: came after the recorded run had ended")
            return False
        name, known = self.recorded.events[number]
        self.compared += len(found)
        what = f"came where {name} did" if name != label else difference(known, found)
        if what is not None:
            self.differs(f"{label}: {what}")
        return what is None

    def differs(self, what: str) -> None:
        """Keep the first difference."""
        if self.difference is None:
            self.difference = what

    def _records(self) -> Tensor:
        if self.coins is None:
            raise ValueError("this run draws batches, and no coins were given")
        return self.coins.records[int(self.recorded is not None)]


def _copy(value: Any) -> Any:
    if isinstance(value, Tensor):
        return value.detach().clone()
    return np.array(value) if isinstance(value, np.ndarray) else value


def _apart(own: Sequence[Any], known: Sequence[Any], scales: Sequence[float], uses: int) -> float:
    """‖own − known‖, each value in a scale of its own; the farthest of the uses."""
    squares = np.zeros(uses)
    with np.errstate(all="ignore"):  # without noise any move is infinite, and not a number if none
        for one, other, scale in zip(own, known, scales, strict=True):
            gap = (_array(one) - _array(other)).reshape(uses, -1) / np.float64(scale)
            squares += (gap**2).sum(1)
    return math.sqrt(squares.max()) if len(squares) else 0.0


def _multiplier(account: Account) -> float:
    """Standard deviations of the noise in a sensitivity."""
    mechanism = account.mechanism
    if isinstance(mechanism, NoisyVote):
        return mechanism.noise
    return of_sum(mechanism).noise_multiplier


def _common(stds: Sequence[float], units: Sequence[float]) -> float:
    """The standard deviation in its unit, if it is one for all values."""
    with np.errstate(all="ignore"):
        found = np.asarray(stds, dtype=np.float64) / np.asarray(units, dtype=np.float64)
    alike = len(found) > 0 and np.allclose(found, found[0], rtol=10 * ROUNDING, atol=0)
    return float(found[0]) if alike else math.nan


def _array(value: Any) -> np.ndarray:
    return np.asarray(value.cpu() if isinstance(value, Tensor) else value, dtype=np.float64)


@contextmanager
def logged(tape: Tape) -> Iterator[None]:
    """Every record of the library's loggers is noted, whatever their level."""
    logger = logging.getLogger("tabsynth")

    class Noted(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            tape.note(f"log record of {record.name}", [record.levelname, record.getMessage()])

    handler, before = Noted(), (logger.level, logger.propagate)
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    logger.propagate = False  # what nobody asked to see is not shown
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(before[0])
        logger.propagate = before[1]
