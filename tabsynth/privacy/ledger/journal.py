"""A write-ahead journal of a ledger: each charge is on disk before a row is read.

One JSON object a line, in the order of the events::

    {"record": "ledger", "format": "tabsynth-ledger/1", "epsilon": 1.0, "delta": 1e-05, "chain": …}
    {"record": "open", "account": 0, "run": …, "purpose": …, "mechanism": …, "granted": 2000, …}
    {"record": "reserve", "account": 0, "spent": 31, "chain": …}
    {"record": "settle", "account": 0, "spent": 12, "chain": …}
    {"record": "close", "account": 0, "spent": 12, "chain": …}

``spent`` is a total, not a difference. ``reserve`` raises it, before the uses; ``settle`` and ``close``
bring it down to what was really used, which only the process that used it can know. ``chain`` is the
SHA-256 of the line and of the chain before it, so that a line that was changed, lost or moved shows; it
is no signature. A file may hold the accounts of several fits, distinguished by ``run``, as a project's ledger
does (:mod:`tabsynth.privacy.ledger.project`); a line of kind ``run`` says what one of them is.
"""

import hashlib
import json
import math
import os
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import ClassVar

from tabsynth._files import fsync_folder
from tabsynth._typing import JsonMapping, JsonObject
from tabsynth._validate import quote
from tabsynth.errors import FileFormatError, InputError
from tabsynth.privacy.accounting.mechanisms import Mechanism, mechanism_from

try:
    import fcntl
except ImportError:  # not a POSIX system: then there is no lock, and without it no journal
    fcntl = None  # type: ignore[assignment]

OTHER_PATH = "wait for it, or use another path"


def unlock(fd: int) -> None:
    """Let go of the lock, also where a process that was forked meanwhile still has the file open."""
    if fcntl is not None:
        fcntl.flock(fd, fcntl.LOCK_UN)


def open_locked(path: Path, flags: int = os.O_CREAT, remedy: str = OTHER_PATH) -> int:
    """Return a file to read and append to, for this process alone."""
    if fcntl is None:
        raise InputError("A ledger on disk needs file locks, which this system does not have.")
    try:
        fd = os.open(path, os.O_RDWR | os.O_CLOEXEC | flags, 0o600)
    except OSError as error:
        raise InputError(f"Cannot open ledger {path}: {error.strerror}.") from None
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(fd)
        raise InputError(f"Ledger {path} is in use by another fit; {remedy}.") from None
    return fd


FORMAT = "tabsynth-ledger/1"
MAX_BYTES = 256 * 2**20
MOST_USES = 10**15  # that a file may list


@dataclass(frozen=True)
class Entry:
    """An account as the file has it; ``spent`` counts all that was reserved."""

    number: int
    run: str
    purpose: str
    mechanism: Mechanism
    granted: int
    details: JsonObject = field(default_factory=dict)
    spent: int = 0
    closed: bool = False


@dataclass(frozen=True)
class RunEntry:
    """A run that has begun, and what it says of itself."""

    run: str
    about: JsonObject


class Journal:
    """An append-only, fsynced file of what a ledger grants and spends, open for one process at a time.

    Parameters
    ----------
    path : path
        Made if it is missing, for the owner's eyes only (mode 0600).
    epsilon, delta : float
        The limit of the ledger. A file that exists must have the same.

    Formal guarantees
    -----------------
    :meth:`reserve` returns after the operating system has said that the line is on the disk. Whatever
    kills the process, a later reader finds at least what was used. A last line without its end is one
    whose writer never got that answer, so it was never acted upon: it is dropped. Damage anywhere else
    is refused, not repaired. Only the process that opened the file writes to it: one that was forked meanwhile is
    refused, and does not let go of the lock.

    Raises
    ------
    InputError
        If another process has the file open, or it cannot be written.
    FileFormatError
        If the file is damaged, not a ledger, or of another limit.
    """

    # Whether fits of other limits are in it too: then all that one of them sees of the others is a sum.
    shared: ClassVar[bool] = False
    limit: tuple[float, float]  # (epsilon, delta)

    def __init__(self, path: str | Path, epsilon: float, delta: float) -> None:
        self.limit = (epsilon, delta)
        self._start(Path(path), open_locked(Path(path)))

    def _start(self, path: Path, fd: int) -> None:
        """Read what there is, or write the first line."""
        self.path = path
        self.entries: dict[int, Entry] = {}
        self.run_facts: dict[str, JsonObject] = {}
        self.chains: set[str] = set()  # all so far, so that a moment can be found again
        self._tip = (0, "")  # where the next line begins, and the chain up to there
        self._next = 0
        self._fd, self._process = fd, os.getpid()
        try:
            self._read()
            if self._tip[0] == 0:
                self._append(self._header())
                fsync_folder(self.path.parent)
        except BaseException:
            self.release()
            raise

    def _header(self) -> JsonObject:
        epsilon, delta = self.limit
        limit = {"epsilon": "inf" if epsilon == float("inf") else epsilon, "delta": delta}
        return {"record": "ledger", "format": FORMAT, **limit}

    @property
    def chain(self) -> str:
        """Stands for all that the file says up to now."""
        return self._tip[1]

    def check_admitted(
        self,
        run: str,
        spends: Sequence[tuple[Mechanism, int]],
        what: str = "the plan",
        *,
        alone: bool | None = None,
    ) -> None:
        """Refuse what the limit of a project does not cover; the journal of one fit leaves that to the fit."""

    def thresholds_left(self) -> float:
        """Return what a project has left of δ for thresholds of drafts; the journal of one fit leaves that to the fit."""
        return math.inf

    def note_run(self, run: str, about: JsonMapping) -> None:
        """Note what a run is, once; ``about`` is JSON-ready."""
        if run not in self.run_facts:
            self._append({"record": "run", "run": run, "about": dict(about)})

    def open(
        self,
        run: str,
        purpose: str,
        mechanism: JsonObject,
        granted: int,
        details: JsonObject,
    ) -> int:
        """Note a new account; returns its number. ``mechanism`` is JSON-ready."""
        # Never given twice, even if an interrupt comes between the file and what we remember of it.
        number, self._next = self._next, self._next + 1
        record = {"record": "open", "account": number, "run": run, "purpose": purpose}
        self._append({**record, **mechanism, "granted": granted, "details": details})
        return number

    def reserve(self, number: int, spent: int) -> None:
        """Count ``spent`` uses of an account as gone; returns when that is on the disk."""
        self._append({"record": "reserve", "account": number, "spent": spent})

    def settle(self, number: int, spent: int) -> None:
        """Give back what was reserved and, as this process knows, not used."""
        self._append({"record": "settle", "account": number, "spent": spent})

    def close(self, number: int, spent: int) -> None:
        """See :meth:`settle`; the account will not be used again."""
        self._append({"record": "close", "account": number, "spent": spent})

    def note_spent(self, run: str, items: Sequence[JsonMapping]) -> None:
        """Note what was spent elsewhere, as :meth:`Ledger.to_list` gives it.

        Where a crash cut an earlier call with the same items short, this one goes on.
        """
        recorded = [entry for entry in self.entries.values() if entry.run == run]
        for i, item in enumerate(items):
            about = mechanism_from(dict(item)).to_dict()
            if i < len(recorded):
                number = recorded[i].number
            else:
                number = self.open(run, item["purpose"], about, item["count"], item["details"])
            if not self.entries[number].closed:
                self.reserve(number, item["count"])
                self.close(number, item["count"])

    def close_all(self, but: Collection[str] = ()) -> None:
        """Close all accounts but those of some runs; what is reserved stays spent."""
        for entry in list(self.entries.values()):
            if not entry.closed and entry.run not in but:
                self.close(entry.number, entry.spent)

    def release(self) -> None:
        """Let others open the file."""
        if self._fd >= 0:
            if os.getpid() == self._process:
                unlock(self._fd)
            os.close(self._fd)
            self._fd = -1

    def check_process(self) -> None:
        """Refuse a process that was forked from the one that opened the file.

        Raises
        ------
        InputError
        """
        if os.getpid() != self._process:
            raise InputError(
                f"Ledger {self.path} was opened by process {self._process}; process {os.getpid()}, which was"
                " forked from it, cannot write to it."
            )

    def _append(self, record: JsonObject) -> None:
        self.check_process()
        end, chain = self._tip
        entry = self._parse(record, first=end == 0)
        chained = _chain_hash(chain, record)
        line = _line(record, chained)
        try:
            os.ftruncate(self._fd, end)  # drops what a failed or interrupted call left
            written = 0
            while written < len(line):
                written += os.pwrite(self._fd, line[written:], end + written)
            os.fsync(self._fd)
        except OSError as error:
            raise InputError(
                f"Cannot write ledger {self.path}: {error.strerror}; nothing was read."
            ) from None
        except KeyboardInterrupt:
            # Nothing was granted: the file is to say what this process, and so the certificate, knows.
            os.ftruncate(self._fd, end)
            raise
        self._apply(entry, end + len(line), chained)

    def _apply(self, entry: Entry | RunEntry | None, end: int, chain: str) -> None:
        self._tip = (end, chain)
        self.chains.add(chain)
        if isinstance(entry, RunEntry):
            self.run_facts[entry.run] = entry.about
        elif entry is not None:
            self.entries[entry.number] = entry
            self._next = max(self._next, entry.number + 1)

    def _read(self) -> None:
        size = os.fstat(self._fd).st_size
        if size > MAX_BYTES:
            raise FileFormatError(f"{self.path}: larger than {MAX_BYTES:,} bytes; not a ledger.")
        data = os.pread(self._fd, size, 0)
        self._check_begun(data)
        for number, line in enumerate(data.split(b"\n")[:-1], 1):
            end, chain = self._tip
            try:
                record = json.loads(line)
                chain_hash = record.pop("chain")
                if chain_hash != _chain_hash(chain, record) or line + b"\n" != _line(
                    record, chain_hash
                ):
                    raise ValueError("not what was written")
                entry = self._parse(record, first=end == 0)
            except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
                if isinstance(error, FileFormatError) and end == 0:
                    raise
                raise FileFormatError(
                    f"Ledger {self.path} is damaged at line {number}; it cannot say what is spent."
                ) from None
            self._apply(entry, end + len(line) + 1, chain_hash)

    def _check_begun(self, data: bytes) -> None:
        """Refuse a file without a line that is not the beginning of ours: it would be written over."""
        if b"\n" in data:
            return
        header = self._header()
        if not _line(header, _chain_hash("", header)).startswith(data):
            raise FileFormatError(f"{self.path} is not a ledger, nor the beginning of this one.")

    def _parse(self, record: JsonObject, *, first: bool) -> Entry | RunEntry | None:
        """Return the account as a record leaves it; ValueError, TypeError or KeyError if it makes no sense."""
        kind = record["record"]
        if (kind == "ledger") != first:
            raise ValueError("a header belongs in the first line, and nowhere else")
        if first:
            self._check_limit(record)
            return None
        if kind == "run":
            return RunEntry(str(record["run"]), dict(record["about"]))
        number = _uses(record["account"], MOST_USES)
        if kind == "open":
            if number <= next(reversed(self.entries), -1):
                raise ValueError("an account's number is larger than those before it")
            return Entry(
                number,
                str(record["run"]),
                str(record["purpose"]),
                mechanism_from(record),
                _uses(record["granted"], MOST_USES),
                dict(record["details"]),
            )
        entry = self.entries[number]
        spent = _uses(record["spent"], entry.granted)
        if kind not in ("reserve", "settle", "close") or entry.closed:
            raise ValueError("of no known kind, or of a closed account")
        if spent < entry.spent if kind == "reserve" else spent > entry.spent:
            raise ValueError("a reservation never lowers the total, and nothing else raises it")
        return replace(entry, spent=spent, closed=kind == "close")

    def _check_limit(self, record: JsonObject) -> None:
        if record.get("format") != FORMAT:
            raise FileFormatError(
                f"{self.path}: expected format {FORMAT!r}, got {quote(record.get('format'))}."
            )
        for name in ("epsilon", "delta"):
            value = self._header()[name]
            if record.get(name) != value:
                raise FileFormatError(
                    f"Ledger {self.path} has {name}={quote(record.get(name))}, not {value}."
                )


def _uses(value: object, largest: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= largest:
        raise ValueError(f"{value} uses")
    return value


def _line(record: JsonObject, chain: str) -> bytes:
    return json.dumps({**record, "chain": chain}, sort_keys=True).encode() + b"\n"


def _chain_hash(chain: str, record: JsonObject) -> str:
    body = json.dumps(record, sort_keys=True, allow_nan=False)
    return hashlib.sha256(f"{chain}\n{body}".encode()).hexdigest()[:32]
