"""The file of a project's ledger: a journal with the project's limit, never made by a slip in its name."""

import math
import os
from collections.abc import Mapping
from pathlib import Path
from stat import S_ISREG
from typing import Any, ClassVar

from tabsynth._validate import between, positive, shown
from tabsynth.errors import FileFormatError, InputError
from tabsynth.privacy.journal import Journal
from tabsynth.privacy.locked_file import open_locked

FORMAT = "tabsynth-project-ledger/1"


class SharedJournal(Journal):
    """The file; ``new`` is the first line of one that does not exist yet."""

    shared: ClassVar[bool] = True

    def __init__(
        self, path: Path, new: Mapping[str, Any] | None = None, *, locked: bool = True
    ) -> None:
        self._new = new
        self.project, self.table = "", ""
        self._start(path, _opened(path, new is not None, locked))

    def _header(self) -> dict[str, Any]:
        if self._new is None:
            raise FileFormatError(
                f"{self.path} holds no ledger. If one was there, restore it from a copy: a new one"
                " forgets what is spent. Else name another file."
            )
        return {"record": "ledger", "format": FORMAT, **self._new}

    def _check_limit(self, record: dict[str, Any]) -> None:
        if record.get("format") != FORMAT:
            raise FileFormatError(
                f"{self.path}: expected format {FORMAT!r}, got {shown(record.get('format'))}."
            )
        epsilon = math.inf if record["epsilon"] == "inf" else record["epsilon"]
        positive("epsilon", epsilon, finite=False)
        between("delta", record["delta"], 0, 1, low_open=True, high_open=True)
        self.limit = (float(epsilon), float(record["delta"]))
        self.project, self.table = str(record["project"]), str(record["table"])


def _opened(path: Path, new: bool, locked: bool) -> int:
    if new and path.exists():
        raise InputError(f"{path} exists already; a ledger is never made anew in its place.")
    if not new and not path.exists():
        raise InputError(f"There is no ledger {path}; {_how_to_make(path)}")
    if locked:
        wait = "it keeps the ledger until it ends: wait for it"
        fd = open_locked(path, os.O_CREAT | os.O_EXCL if new else 0, wait)
    else:
        try:
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except OSError as error:
            raise InputError(f"Cannot open ledger {path}: {error.strerror}.") from None
    if not S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise InputError(f"Cannot open ledger {path}: not a file.")
    return fd


def _how_to_make(path: Path) -> str:
    return f"make one: tabsynth ledger create {path} --epsilon E"
