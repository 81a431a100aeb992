"""Files in and out, with limits. What is written goes to a temporary file and is renamed: never half."""

import hashlib
import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tabsynth.errors import FileFormatError, InputError

MAX_JSON_BYTES = 64 * 2**20


@contextmanager
def replacing(path: str | Path) -> Iterator[Path]:
    """Yield a temporary path; on success it takes the place of ``path``, on failure it is removed."""
    target = Path(path)
    try:
        _refuse_folder(target)
        handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name[:40]}.")
        os.close(handle)
    except OSError as error:
        raise InputError(f"Cannot write {target}: {error.strerror}.") from None
    temporary = Path(name)
    try:
        yield temporary
        mode = target.stat().st_mode & 0o777 if target.exists() else 0o666 & ~_umask()
        temporary.chmod(mode)
        os.replace(temporary, target)
    except OSError as error:
        raise InputError(f"Cannot write {target}: {error.strerror or error}.") from None
    finally:
        temporary.unlink(missing_ok=True)


def check_writable(path: str | Path) -> None:
    """Refuse an output path early, before hours of work are spent on what it should hold."""
    target = Path(path)
    try:
        _refuse_folder(target)
        with tempfile.NamedTemporaryFile(dir=target.parent, prefix=".tabsynth."):
            pass
    except OSError as error:
        raise InputError(f"Cannot write {target}: {error.strerror}.") from None


def _refuse_folder(target: Path) -> None:
    if target.is_dir():
        raise InputError(f"Cannot write {target}: it is a folder; name a file.")


def read_json(path: str | Path, what: str, *, strict: bool = False) -> Any:
    """The JSON value of a small UTF-8 file; ``what`` it should be is named in errors.

    ``strict`` refuses what JSON does not know, NaN and infinity, and an object with a name twice.
    """
    file = Path(path)
    try:
        if file.stat().st_size > MAX_JSON_BYTES:
            raise FileFormatError(f"{file}: larger than {MAX_JSON_BYTES:,} bytes; not a {what}.")
        hooks: dict[str, Any] = {"parse_constant": _refuse, "object_pairs_hook": _once}
        return json.loads(file.read_text("utf-8-sig"), **hooks if strict else {})
    except OSError as error:
        raise FileFormatError(f"Cannot read {what} {file}: {error.strerror}.") from None
    except FileFormatError:
        raise
    except (ValueError, RecursionError):
        raise FileFormatError(f"{file} is not a {what}: not valid JSON.") from None


def _refuse(text: str) -> None:
    raise ValueError(text)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a name twice")
    return found


def write_text(path: str | Path, text: str) -> None:
    """Write UTF-8 text, whole or not at all."""
    with replacing(path) as temporary:
        temporary.write_text(text, "utf-8")


def sha256(path: str | Path) -> str:
    """SHA-256 of a file, hexadecimal."""
    try:
        with open(path, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise InputError(f"Cannot read {path}: {error.strerror}.") from None


def fsync_folder(path: Path) -> None:
    """Make new names in a folder last through a crash."""
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
