"""Readers under damaged files: each input is read in this process, under a clock and a limit of memory."""

import contextlib
import io
import logging
import random
import resource
import signal
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tabsynth import TabsynthError
from tabsynth.errors import TableError

# What the library logs, such as the encoding of a line, is no output of its own.
logging.getLogger("tabsynth").addHandler(logging.NullHandler())
SECONDS = 2.0  # an input may take
MEMORY = 500 * 2**20  # bytes that an input may add to what the process ever held
LONGEST = 600  # characters of a line of a refusal
MOST_LINES = 110


class TookTooLong(BaseException):
    """Past every handler of a reader."""


@dataclass
class Tally:
    """What became of the inputs of one reader."""

    inputs: int = 0
    accepted: int = 0
    refused: int = 0
    seconds: float = 0.0
    slowest: float = 0.0
    findings: list[dict[str, Any]] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return {
            **{"inputs": self.inputs, "accepted": self.accepted, "refused": self.refused},
            **{"seconds": round(self.seconds, 1), "slowest_seconds": round(self.slowest, 3)},
            "findings": len(self.findings),
        }


@contextlib.contextmanager
def clock(seconds: float) -> Iterator[None]:
    """Raise :class:`TookTooLong` in the main thread after so many seconds of this process's own time."""

    def ring(number: int, frame: Any) -> None:
        raise TookTooLong

    before = signal.signal(signal.SIGPROF, ring)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def outcome(read: Callable[[], object]) -> tuple[str, str]:
    """``accepted``, ``refused`` or a finding in a word, and what was said."""
    said, most = io.StringIO(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    result = "accepted", ""
    try:
        with (
            clock(SECONDS),
            contextlib.redirect_stderr(said),
            contextlib.redirect_stdout(said),
            warnings.catch_warnings(),
        ):
            warnings.simplefilter("error")
            read()
    except TabsynthError as error:
        text = str(error)
        parts = [error.first, *error.problems] if isinstance(error, TableError) else [text]
        clean = len(parts) < MOST_LINES and all(
            "\n" not in part and len(part) < LONGEST for part in parts
        )
        result = ("refused" if clean else "long refusal"), text
    except TookTooLong:
        result = "hang", "".join(traceback.format_exc(limit=-6))
    except Exception:
        result = "exception", "".join(traceback.format_exc(limit=-6))
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - most) * 1024
    if grown > MEMORY:
        return "memory", f"{grown:,} bytes; {result}"
    if said.getvalue():
        return "noise", said.getvalue()[:500]
    return result


def fuzz(
    reader: str,
    make: Callable[[random.Random], Any],
    read: Callable[[Any], object],
    inputs: int,
    seed: int,
    saved: Path | None = None,
    first: int = 0,
) -> Tally:
    """Read ``inputs`` damaged files from number ``first`` on, each made from (seed, number), so that any can be made again."""
    tally = Tally()
    for number in range(first, first + inputs):
        created = make(random.Random(f"{reader} {seed} {number}"))
        started = time.process_time()
        word, said = outcome(lambda made=created: read(made))  # type: ignore[misc]
        took = time.process_time() - started
        tally.inputs += 1
        tally.seconds += took
        tally.slowest = max(tally.slowest, took)
        if word in ("accepted", "refused"):
            setattr(tally, word, getattr(tally, word) + 1)
            continue
        tally.findings.append({"number": number, "kind": word, "said": said})
        if saved is not None and isinstance(created, bytes):
            saved.mkdir(parents=True, exist_ok=True)
            (saved / f"{reader}-{seed}-{number}").write_bytes(created)
    return tally
