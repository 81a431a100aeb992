"""The operating system's entropy as the tests see it: a stream that is the same in every run.

Fits without ``random_state`` draw their noise and their batches from ``os.urandom``. An assertion on such a
fit would then hold in most runs only. In a test, and in what a fixture prepares, ``os.urandom`` gives bits
that follow from the name of the test or of the fixture; so the outcome depends neither on chance nor on the
order of the tests. Elsewhere, and in every process that a test starts, the entropy is the system's.

``TABSYNTH_TEST_ENTROPY`` adds a word to the names, for other draws; ``system`` leaves the entropy alone.
"""

import contextlib
import hashlib
import os
import random
from collections.abc import Iterator

WORD = os.environ.get("TABSYNTH_TEST_ENTROPY", "")


class Entropy:
    """Stands in for ``os.urandom`` in this process."""

    def __init__(self) -> None:
        self.system, self.process = os.urandom, os.getpid()
        self.name, self.calls = "", 0

    def urandom(self, size: int) -> bytes:
        """The next ``size`` bytes of the current name; the system's own without a name or after a fork."""
        if not self.name or os.getpid() != self.process:
            return self.system(size)
        self.calls += 1
        return hashlib.shake_256(f"{WORD}/{self.name}/{self.calls}".encode()).digest(size)

    @contextlib.contextmanager
    def of(self, name: str) -> Iterator[None]:
        """Within it, bits follow from ``name``; afterwards the stream before it continues."""
        before = self.name, self.calls
        self.name, self.calls = name, 0
        try:
            yield
        finally:
            self.name, self.calls = before


ENTROPY = Entropy()
if WORD != "system":
    os.urandom = ENTROPY.urandom
    random._urandom = ENTROPY.urandom  # type: ignore[attr-defined]  # what ``secrets`` reads
