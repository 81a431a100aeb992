"""Run traces: the recorded outputs of a run on private rows, and its replay on a neighbouring dataset.

Values are compared as lists of named leaves, so that the first difference has a name.
"""

import logging
import math
import types
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from tabsynth.privacy.accounting.mechanisms import NoisyVote, is_private, of_sum
from tabsynth.privacy.ledger.ledger import Account, Labels, Values

Leaf = tuple[str, str]  # the path of a value, and its short text or the digest of its bytes

SHOWN = 60  # characters of a leaf in a message
# Attributes in which a torch module keeps its parts; they are left out of names.
_INNER = ("_parameters", "_buffers", "_modules")
_DATED = ("created",)  # of a certificate; the time is public


def leaves(value: object, path: str = "") -> list[Leaf]:
    """Return the leaves of nested dicts, lists, arrays, tensors, frames, modules and plain objects, in order."""
    return list(_walk(value, path, ()))


def difference(recorded: list[Leaf], replayed: list[Leaf]) -> str | None:
    """Describe the first leaf that differs; None if all are equal."""
    for (path, text), (name, other_text) in zip(recorded, replayed, strict=False):
        if path != name:
            return f"{name or 'a value'} is in the place of {path or 'a value'}"
        if text != other_text:
            return f"{path or 'the value'} is {_cut(other_text)}, not {_cut(text)}"
    if len(recorded) != len(replayed):
        extra, verb = (
            (recorded, "is missing") if len(recorded) > len(replayed) else (replayed, "is new")
        )
        return f"{extra[min(len(recorded), len(replayed))][0] or 'a value'} {verb}"
    return None


def _cut(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= SHOWN else line[: SHOWN - 1] + "…"


def _walk(value: object, path: str, above: tuple[int, ...]) -> Iterator[Leaf]:
    text = _plain(value)
    if text is not None:
        yield path, text
        return
    if id(value) in above:
        yield path, "itself"
        return
    above = (*above, id(value))
    if isinstance(value, pd.DataFrame):
        yield from _walk(dict(value.attrs), _join(path, "attrs"), above)
        for name in value.columns:
            yield _join(path, str(name)), _column(value[name])
        return
    if isinstance(value, list | tuple):
        parts: Iterator[tuple[str, object]] = ((f"[{i}]", part) for i, part in enumerate(value))
    elif isinstance(value, Mapping):
        parts = ((str(name), part) for name, part in value.items())
    else:
        yield path, type(value).__qualname__
        parts = _attributes(value)
    for name, part in parts:
        if name not in _DATED:
            yield from _walk(part, path if name in _INNER else _join(path, name), above)


def _plain(value: object) -> str | None:
    """Return the text of a leaf; None of what has parts."""
    if value is None or isinstance(value, bool | int | float | complex | str | np.generic):
        return repr(value)
    if isinstance(value, bytes | bytearray):
        return f"{len(value)} bytes {_digest(value)}"
    if isinstance(value, np.ndarray):
        data = repr(value.tolist()).encode() if value.dtype.hasobject else value.tobytes()
        return f"{value.dtype} {value.shape} {_digest(data)}"
    if isinstance(value, torch.Tensor):
        array = value.detach().cpu().contiguous().numpy()
        return f"{array.dtype} {array.shape} {_digest(array.tobytes())}"
    if isinstance(value, pd.Series | pd.Index):
        return _column(value)
    if isinstance(value, torch.Generator):
        return f"generator {_digest(value.get_state().numpy().tobytes())}"
    if isinstance(value, np.random.Generator):
        return f"generator {_digest(repr(value.bit_generator.state).encode())}"
    if isinstance(value, set | frozenset):
        return repr(sorted(map(repr, value)))
    if isinstance(value, type | types.FunctionType | types.MethodType | types.ModuleType):
        return getattr(value, "__qualname__", getattr(value, "__name__", ""))
    if isinstance(value, torch.device | torch.dtype | np.dtype):
        return str(value)
    return None


def _attributes(value: object) -> Iterator[tuple[str, object]]:
    yield from getattr(value, "__dict__", {}).items()
    for kind in type(value).__mro__:
        slots = kind.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if not name.startswith("__") and hasattr(value, name):
                yield name, getattr(value, name)


def _column(values: pd.Series | pd.Index) -> str:
    cells = repr(np.asarray(values, dtype=object).tolist()).encode()
    return f"{values.dtype} {len(values)} {_digest(cells)}"


def _digest(data: bytes | bytearray) -> str:
    return blake2b(data, digest_size=8).hexdigest()


def _join(path: str, name: str) -> str:
    return f"{path}{name}" if not path or name.startswith("[") else f"{path}.{name}"


ROUNDING = 1e-6  # relative; standard deviations are float32


@dataclass(frozen=True, kw_only=True)
class MechanismCall:
    """One call of a mechanism.

    Attributes
    ----------
    purpose : str
        Of the account that was charged.
    uses : int
        Releases of one call with independent noise, such as the questions of a round of votes.
    move : float
        Distance between its inputs on both datasets, in sensitivities; the largest of its uses.
    distance : float
        The same distance in the certificate's unit.
    deviation : float
        Standard deviation of its noise (for Laplace votes the scale), in the certificate's unit; NaN if the values
        that are released together have different ones.
    """

    purpose: str
    uses: int
    move: float
    distance: float
    deviation: float


class RecordRandomness:
    """The random numbers of each record, independent of its position and of all other records.

    A record that only one of the two datasets contains is in every batch, so that its effect shows. If there are
    several such records, inputs may change by as many sensitivities. Where the schema declares a unit, a record is a
    unit with all of its rows that are used; they are numbered in the order of their hashes.

    Parameters
    ----------
    table, neighbour : sequence of bytes
        What each record of the dataset consists of.
    seed : int

    Attributes
    ----------
    unmatched : Tensor, shape (records,), bool
        True for each record that only one of the two datasets has.
    most : int
        The number of sensitivities by which an input may change: that of unmatched records, unless the caller sets another.
    """

    def __init__(self, table: Sequence[bytes], neighbour: Sequence[bytes], seed: int) -> None:
        numbers: dict[tuple[bytes, int], int] = {}
        self.records = [
            torch.tensor(_records(contents, numbers), dtype=torch.int64)
            for contents in (table, neighbour)
        ]
        self.count, self.seed = len(numbers), seed
        occurrences = torch.zeros(self.count, dtype=torch.int64)
        for records in self.records:
            occurrences[records] += 1
        self.unmatched = occurrences < 2
        self.most = int(self.unmatched.sum())

    def uniforms(self, number: int, columns: int) -> Tensor:
        """Return uniform numbers of every record, shape (records, columns); the same for the same batch number."""
        return torch.rand(self.count, columns, generator=self.generator_of(number, 0))

    def generator_of(self, number: int, part: int) -> torch.Generator:
        """Return the generator for all other draws of a part of a batch; the same for the same numbers."""
        words = np.random.SeedSequence([self.seed, number, part]).generate_state(2)
        return torch.Generator().manual_seed(int(words[0]) << 32 | int(words[1]))


def _records(contents: Sequence[bytes], numbers: dict[tuple[bytes, int], int]) -> list[int]:
    """Return the number of each record, from its content and its rank among equal records."""
    ranks: dict[bytes, int] = {}
    out = []
    for content in contents:
        ranks[content] = ranks.get(content, 0) + 1
        out.append(numbers.setdefault((content, ranks[content]), len(numbers)))
    return out


class RunTrace:
    """A :class:`tabsynth.privacy.ledger.ledger.Recorder` of a run, or of its replay if ``recorded`` is given.

    In a replay each mechanism continues with the recorded exact value. With the same seed it then has the same
    release, if its noise is independent of the rows. Everything else is compared as it occurs.

    Parameters
    ----------
    randomness : RecordRandomness, optional
        Needed for a run that draws batches.
    recorded : RunTrace, optional
        The trace of the run that is replayed.
    """

    def __init__(
        self, randomness: RecordRandomness | None = None, recorded: "RunTrace | None" = None
    ) -> None:
        self.randomness, self.recorded = randomness, recorded
        self._max_changed = 1 if randomness is None else randomness.most
        self.events: list[tuple[str, list[Leaf]]] = []
        self.values: list[list[Any]] = []
        self.labels: list[list[Any]] = []
        self._unmatched_labels: dict[str, list[set[object]]] = {}
        self.teacher_data: list[list[Tensor]] = []
        self.mechanisms: list[MechanismCall] = []
        self.difference: str | None = None
        self.compared = 0
        self._unreleased_uses: dict[str, int] = {}
        self._batches = self._batch_part = self._names = 0
        self._batch_records: Tensor | None = None
        self._private: torch.Generator | None = None

    # The Recorder protocol, which the library calls.

    def read(self, account: Account, uses: int) -> None:
        """See :meth:`Recorder.read`."""
        if is_private(account.mechanism):
            self._unreleased_uses[account.purpose] = (
                self._unreleased_uses.get(account.purpose, 0) + uses
            )

    def exact(
        self,
        account: Account,
        labels: Labels,
        values: Values,
        stds: Sequence[float],
        uses: int,
        units: Sequence[float],
        of_selection: bool = False,
    ) -> tuple[list[Any], list[Any]]:
        """See :meth:`Recorder.exact`: a replay goes on with the recorded labels and values.

        An entry that one dataset lacks is 0 there. Where the recorded run has it, :meth:`note_passed` tests that its
        label does not become an output.
        """
        number, copies = len(self.values), [_copy(value) for value in values]
        names = [None if part is None else list(part) for part in labels]
        label = f"mechanism {number + 1} ({account.purpose})"
        unreleased = self._unreleased_uses.get(account.purpose, 0) - uses
        if unreleased < 0:
            self.report_difference(f"{label}: released without a charged read")
        self._unreleased_uses[account.purpose] = max(0, unreleased)
        self.values.append(copies)
        self.labels.append(names)
        shapes = [
            np.shape(v) if n is None else "labelled" for n, v in zip(names, copies, strict=True)
        ]
        call = {"uses": uses, "noise": list(stds), "units": list(units), "shapes": shapes}
        same = self._compare(label, leaves(call))
        move = distance = 0.0
        if self.recorded is not None and same:
            recorded = self.recorded.values[number]
            before = self.recorded.labels[number]
            pairs = [_align(*parts) for parts in zip(names, copies, before, recorded, strict=True)]
            ours, theirs = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
            measure = _range if of_selection else _distance
            move = _multiplier(account) * measure(ours, theirs, stds, uses)
            distance = measure(ours, theirs, units, uses)
            self._unmatched_labels[account.purpose] = [
                set(current) ^ set(earlier)
                for current, earlier in zip(names, before, strict=True)
                if current is not None
            ]
            if not move <= self._max_changed * (1 + ROUNDING):
                self.report_difference(
                    f"{label}: its input moved by {move:.4g} sensitivities, not {self._max_changed} at most"
                )
            names, copies = list(before), [_copy(value) for value in recorded]
        self.mechanisms.append(
            MechanismCall(
                purpose=account.purpose,
                uses=uses,
                move=move,
                distance=distance,
                deviation=_common_deviation(stds, units),
            )
        )
        return names, [_copy(value) for value in copies]

    def note_passed(self, purpose: str, labels: Labels) -> None:
        """See :meth:`Recorder.note_passed`: none may be a label that only one dataset has.

        Such a label passes the threshold with a probability of at most the threshold's part of δ.
        """
        self._compare(f"labels that passed the threshold of {purpose}", leaves(list(labels)))
        for released, unmatched in zip(
            labels, self._unmatched_labels.get(purpose, ()), strict=False
        ):
            if set(released) & unmatched:
                self.report_difference(
                    f"{purpose}: a label that only one dataset has passed the threshold"
                )

    def batch(self, rows: int, rate: float, generator: torch.Generator) -> Tensor:
        """See :meth:`Recorder.batch`."""
        records = self._records()
        if len(records) != rows:
            raise ValueError(f"a step reads {rows} rows of a table of {len(records)}")
        self._batches, self._batch_part, self._private = self._batches + 1, 0, generator
        assert self.randomness is not None
        drawn = self.randomness.uniforms(self._batches, 1)[:, 0]
        places = torch.nonzero(((drawn < rate) | self.randomness.unmatched)[records]).squeeze(1)
        self._batch_records = records[places]
        return places

    def places(self, room: int, counts: Tensor | None = None) -> Tensor:
        """See :meth:`Recorder.places`: records of both tables come first, so that they have the same place."""
        assert self.randomness is not None and self._batch_records is not None
        records = self._batch_records
        if counts is not None:
            records = records.repeat_interleave(counts)
        count = len(records)
        rng = self.randomness.generator_of(self._batches, 0)
        drawn = torch.randperm(room, generator=rng) if count <= room else torch.arange(count)
        order = torch.argsort(
            records + self.randomness.count * self.randomness.unmatched[records], stable=True
        )
        places = torch.empty(count, dtype=torch.int64)
        places[order] = drawn[:count]
        return places

    def uniform(self, rows: int, columns: int, generator: torch.Generator) -> Tensor | None:
        """See :meth:`Recorder.uniform`."""
        if generator is not self._private or self.randomness is None:
            return None
        self._batch_part += 1  # a batch may be drawn in parts
        rng = self.randomness.generator_of(self._batches, self._batch_part)
        return torch.rand(rows, columns, generator=rng).to(generator.device)

    def teachers(self, numbers: Sequence[Tensor]) -> None:
        """See :meth:`Recorder.teachers`."""
        turn, copies = len(self.teacher_data), [_copy(tensor) for tensor in numbers]
        label = f"teachers, round {turn + 1}"
        self.teacher_data.append(copies)
        if (
            not self._compare(label, leaves([list(t.shape) for t in copies]))
            or self.recorded is None
        ):
            return
        changed = torch.zeros(len(copies[0]), dtype=torch.bool)
        for current, earlier in zip(copies, self.recorded.teacher_data[turn], strict=True):
            changed |= (current != earlier).flatten(1).any(1).cpu()
        count = int(changed.sum())
        if count > self._max_changed:
            self.report_difference(
                f"{label}: {count} of {len(changed)} changed, not {self._max_changed} at most"
            )

    def note(self, what: str, value: object) -> None:
        """See :meth:`Recorder.note`."""
        for purpose, unreleased in self._unreleased_uses.items():
            if unreleased:
                self.report_difference(
                    f"{purpose}: rows were read, and no mechanism was called before {what}"
                )
        self._unreleased_uses.clear()
        self._compare(what, leaves(value))

    def name(self) -> str:
        """See :meth:`Recorder.name`."""
        self._names += 1
        return f"{self._names:016x}"

    # The comparison.

    def end(self) -> None:
        """End the run."""
        self.note("the end", None)
        if self.recorded is not None and len(self.events) < len(self.recorded.events):
            self.report_difference(f"{self.recorded.events[len(self.events)][0]}: is missing")

    def _compare(self, label: str, event_leaves: list[Leaf]) -> bool:
        """Return whether this event equals the recorded one."""
        number = len(self.events)
        self.events.append((label, event_leaves))
        if self.recorded is None:
            return True
        if number >= len(self.recorded.events):
            self.report_difference(f"{label}: occurred after the end of the recorded run")
            return False
        name, recorded = self.recorded.events[number]
        self.compared += len(event_leaves)
        what = f"in the place of {name}" if name != label else difference(recorded, event_leaves)
        if what is not None:
            self.report_difference(f"{label}: {what}")
        return what is None

    def report_difference(self, what: str) -> None:
        """Keep the first difference."""
        if self.difference is None:
            self.difference = what

    def _records(self) -> Tensor:
        if self.randomness is None:
            raise ValueError("this run draws batches, so it needs a RecordRandomness")
        return self.randomness.records[int(self.recorded is not None)]


def _copy(value: Any) -> Any:
    if isinstance(value, Tensor):
        return value.detach().clone()
    return np.array(value) if isinstance(value, np.ndarray) else value


def _align(
    labels: list[Any] | None, values: Any, before: list[Any] | None, recorded: Any
) -> tuple[Any, Any]:
    """Return both arrays with an entry for each label of either; 0 where one has none."""
    if labels is None or before is None:
        return values, recorded
    union = {label: i for i, label in enumerate(dict.fromkeys([*labels, *before]))}
    pair = np.zeros((2, len(union)))
    for row, (names, entries) in enumerate(((labels, values), (before, recorded))):
        pair[row, [union[name] for name in names]] = _array(entries)
    return pair[0], pair[1]


def _distance(
    ours: Sequence[Any], theirs: Sequence[Any], scales: Sequence[float], uses: int
) -> float:
    """Return ‖ours − theirs‖ with each value divided by its scale; the largest of the uses."""
    squares = np.zeros(uses)
    with np.errstate(all="ignore"):  # without noise any move is infinite, and not a number if none
        for value, recorded, scale in zip(ours, theirs, scales, strict=True):
            gap = (_array(value) - _array(recorded)).reshape(uses, -1) / np.float64(scale)
            squares += (gap**2).sum(1)
    return math.sqrt(squares.max()) if len(squares) else 0.0


def _range(ours: Sequence[Any], theirs: Sequence[Any], scales: Sequence[float], uses: int) -> float:
    """Return the range of ours − theirs divided by their scale, the largest of the uses."""
    largest = 0.0
    for value, recorded, scale in zip(ours, theirs, scales, strict=True):
        gap = (_array(value) - _array(recorded)).reshape(uses, -1) / scale
        largest = max(largest, float(np.ptp(gap, axis=1).max()))
    return largest


def _multiplier(account: Account) -> float:
    """Return the standard deviation of the noise in units of the sensitivity."""
    mechanism = account.mechanism
    if isinstance(mechanism, NoisyVote):
        return mechanism.noise
    return of_sum(mechanism).noise_multiplier


def _common_deviation(stds: Sequence[float], units: Sequence[float]) -> float:
    """Return the standard deviation in the certificate's unit if all values have the same, else NaN."""
    with np.errstate(all="ignore"):
        ratios = np.asarray(stds, dtype=np.float64) / np.asarray(units, dtype=np.float64)
    equal = len(ratios) > 0 and np.allclose(ratios, ratios[0], rtol=10 * ROUNDING, atol=0)
    return float(ratios[0]) if equal else math.nan


def _array(value: object) -> np.ndarray:
    return np.asarray(value.cpu() if isinstance(value, Tensor) else value, dtype=np.float64)


@contextmanager
def record_logs(trace: RunTrace) -> Iterator[None]:
    """Record all log messages of the library, at every level, within a ``with`` block."""
    logger = logging.getLogger("tabsynth")

    class TraceHandler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            trace.note(f"log record of {record.name}", [record.levelname, record.getMessage()])

    handler, before = TraceHandler(), (logger.level, logger.propagate)
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    logger.propagate = False  # debug messages are not shown
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(before[0])
        logger.propagate = before[1]
