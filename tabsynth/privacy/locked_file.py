"""A ledger's file, open for one process at a time."""

import os
from pathlib import Path

from tabsynth.errors import InputError

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
    """A file to read and append to, for this process alone."""
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
