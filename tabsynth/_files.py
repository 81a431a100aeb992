"""Files in and out, with limits. What is written goes to a temporary file and is renamed: never half."""

import hashlib
import json
import math
import os
import re
import shutil
import stat
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from tabsynth._typing import JsonObject
from tabsynth._validate import native, quote
from tabsynth.errors import FileFormatError, InputError, TabsynthError

# Limits of a JSON file: an untrusted one takes no memory or time that its size does not show.
MAX_JSON_BYTES = 16 * 2**20
MAX_JSON_VALUES = 2_000_000
MAX_JSON_DEPTH = 64
MAX_DIGITS = 308  # of a whole number: all of them are floats too
OWNER_ONLY = 0o600  # the mode of a confidential file
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


@contextmanager
def writing(target: Path) -> Iterator[None]:
    """Raise an InputError that names ``target`` where the system does not let it be written."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        if not target.parent.exists():
            reason = f"there is no folder {target.parent}; create it, or name another file"
        raise InputError(f"Cannot write {target}: {reason}.") from None


@contextmanager
def replacing(
    path: str | Path, *, overwrite: bool = False, confidential: bool = False
) -> Iterator[Path]:
    """Yield a temporary path; on success it becomes ``path``, on failure it is removed.

    A file that is there already is refused unless ``overwrite``. A ``confidential`` file is for its owner alone,
    whatever the mode of the file that it replaces.
    """
    target = Path(path)
    with writing(target):
        _refuse_present(target, overwrite)
        handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name[:40]}.")
        os.close(handle)
        temporary = Path(name)
        try:
            yield temporary
            if confidential:
                mode = OWNER_ONLY
            else:
                mode = target.stat().st_mode & 0o777 if target.exists() else 0o666 & ~_umask()
            temporary.chmod(mode)
            _refuse_present(target, overwrite)  # it may have come while this file was written
            os.replace(temporary, target)
        finally:
            temporary.unlink(missing_ok=True)


@contextmanager
def new_folder(path: str | Path) -> Iterator[Path]:
    """Yield a temporary folder; on success it becomes ``path``, which must not be there, on failure it is removed."""
    target = Path(path)
    if target.exists():
        raise InputError(f"{target} is there already; name a folder that is not.")
    with writing(target):
        temporary = Path(tempfile.mkdtemp(dir=target.parent, prefix=f".{target.name[:40]}."))
        try:
            yield temporary
            temporary.chmod(0o777 & ~_umask())
            os.rename(temporary, target)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)


def check_output(
    path: str | Path, *, overwrite: bool = False, others: Iterable[Path | None] = ()
) -> None:
    """Refuse an output path early, before hours of work are spent on what it should hold.

    ``others`` are files that are read, and that are written besides: no output takes their place, even with ``overwrite``.
    """
    target = Path(path)
    for other in others:
        if other is not None and is_same_file(target, other):
            raise InputError(
                f"{target} is read by this command or written by it already; name another file."
            )
    with writing(target):
        _refuse_present(target, overwrite)
        tempfile.NamedTemporaryFile(dir=target.parent, prefix=".tabsynth.").close()


def is_same_file(path: str | Path, other: str | Path) -> bool:
    """Return whether two paths name one file, which need not exist yet."""
    try:
        return os.path.samefile(path, other)
    except OSError:  # one is missing
        return os.path.realpath(path) == os.path.realpath(other)


def _refuse_present(target: Path, overwrite: bool) -> None:
    if target.is_dir():
        raise InputError(f"Cannot write {target}: it is a folder; name a file.")
    if not overwrite and os.path.lexists(target):
        raise InputError(
            f"{target} is there already; name another file, or replace it with overwrite=True."
        )


def size_of(
    path: str | Path, what: str, limit: int, error: type[TabsynthError] = FileFormatError
) -> int:
    """Return bytes of a regular file of at most ``most``: a pipe or a device may never end."""
    try:
        status = os.stat(path)
    except OSError as cause:
        raise error(f"Cannot read {what} {path}: {cause.strerror}.") from None
    if stat.S_ISDIR(status.st_mode):
        raise error(f"Cannot read {what} {path}: Is a directory.")
    if not stat.S_ISREG(status.st_mode):
        raise error(f"Cannot read {what} {path}: it is not a regular file.")
    if status.st_size > limit:
        raise error(f"{path}: larger than {limit:,} bytes; not a {what}.")
    return status.st_size


def read_json(path: str | Path, what: str) -> Any:
    """Return the JSON value of a UTF-8 file; ``what`` it should be is named in errors."""
    return parse_json(read_json_text(path, what), path, what)


def read_json_text(path: str | Path, what: str) -> str:
    """Return the text of a UTF-8 file of at most :data:`MAX_JSON_BYTES`, without its byte order mark."""
    size_of(path, what, MAX_JSON_BYTES)
    try:
        with open(path, "rb") as file:
            return file.read(MAX_JSON_BYTES + 1).decode("utf-8-sig")
    except OSError as error:
        raise FileFormatError(f"Cannot read {what} {path}: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise FileFormatError(f"{path} is not a {what}: not valid JSON.") from None


def parse_json(text: str, path: str | Path, what: str) -> Any:
    """Return a JSON value as RFC 8259 has it, of bounded size: finite numbers, no key twice, Unicode texts.

    Raises
    ------
    FileFormatError
        Naming ``path`` and ``what`` it should be.
    """
    reason = "not valid JSON"
    try:
        if len(text) > MAX_JSON_BYTES or sum(map(text.count, ",:[{")) > MAX_JSON_VALUES:
            raise _Refused(f"more than {MAX_JSON_VALUES:,} values or {MAX_JSON_BYTES:,} characters")
        value = json.loads(
            text,
            object_pairs_hook=_object,
            parse_int=_integer,
            parse_float=_finite,
            parse_constant=_finite,
        )
        _check_depth(value)
        if _SURROGATE.search(text):  # half a character: no file could hold it
            json.dumps(value, ensure_ascii=False).encode()
        return value
    except _Refused as error:
        reason = str(error)
    except json.JSONDecodeError as error:
        reason += f", line {error.lineno}, column {error.colno}: {error.msg}"
    except (ValueError, RecursionError):
        pass
    raise FileFormatError(f"{path} is not a {what}: {reason}.") from None


def position(text: str, path: Sequence[str | int], key: bool = False) -> tuple[int, int]:
    """Return the line and column, from 1, of a value in a JSON text that :func:`parse_json` takes.

    Parameters
    ----------
    text : str
    path : sequence of str and int
        Keys and places that lead to the value; as much of it as there is.
    key : bool
        Whether the last key of the path is meant rather than its value.
    """
    place = _skip_space(text, 0)
    for step, name in enumerate(path):
        member = _member(text, place, name, key and step == len(path) - 1)
        if member is None:
            break
        place = member
    return text.count("\n", 0, place) + 1, place - text.rfind("\n", 0, place)


def _skip_space(text: str, place: int) -> int:
    while place < len(text) and text[place] in " \t\r\n":
        place += 1
    return place


def _member(text: str, place: int, name: str | int, of_key: bool) -> int | None:
    """Return the place where a member of the object or list at ``place`` begins: its value or its key."""
    decoder, kind = json.JSONDecoder(), text[place : place + 1]
    if kind not in ("{", "["):
        return None
    place, number = _skip_space(text, place + 1), 0
    while place < len(text) and text[place] not in "]}":
        begin, label = place, number
        if kind == "{":
            label, place = decoder.raw_decode(text, place)
            place = _skip_space(text, _skip_space(text, place) + 1)
        if label == name:
            return begin if of_key else place
        _, place = decoder.raw_decode(text, place)
        place, number = _skip_space(text, place), number + 1
        if text[place : place + 1] == ",":
            place = _skip_space(text, place + 1)
    return None


class _Refused(ValueError):
    """JSON by its grammar, but not JSON that we read."""


def _object(pairs: list[tuple[str, object]]) -> JsonObject:
    """Make an object, and refuse equal keys: readers differ in which they take, so that a file could say two things."""
    members = dict(pairs)
    if len(members) < len(pairs):
        counts = Counter(key for key, _ in pairs)
        raise _Refused(f"key {quote(counts.most_common(1)[0][0])} is given twice")
    return members


def _integer(text: str) -> int:
    if len(text) > MAX_DIGITS:
        raise _Refused(f"a number of more than {MAX_DIGITS} digits")
    return int(text)


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise _Refused(f"{quote(text)} is not a finite number")
    return number


def _check_depth(value: Any) -> None:
    level = [value]
    for _ in range(MAX_JSON_DEPTH + 1):
        level = [container for container in level if isinstance(container, dict | list)]
        if not level:
            return
        level = [
            item
            for container in level
            for item in (container.values() if isinstance(container, dict) else container)
        ]
    raise _Refused(f"nested more than {MAX_JSON_DEPTH} deep")


def json_ready(value: object, not_finite: Callable[[float], object] = lambda _: None) -> Any:
    """Return a value as JSON has it: dicts with text keys, lists, texts, finite numbers, truth values and None.

    Parameters
    ----------
    value : object
        Objects with a method ``to_dict`` become what it returns; of types that JSON lacks, the text is taken.
    not_finite : callable
        What stands for an infinite number and for NaN; by default None.
    """
    if isinstance(value, dict):
        return {str(key): json_ready(item, not_finite) for key, item in value.items()}
    if isinstance(value, np.ndarray):
        return json_ready(value.tolist(), not_finite)
    if isinstance(value, list | tuple):
        return [json_ready(item, not_finite) for item in value]
    if hasattr(value, "to_dict"):
        return json_ready(value.to_dict(), not_finite)
    value = native(value)
    if isinstance(value, float) and not math.isfinite(value):
        return not_finite(value)
    if value is None or isinstance(value, bool | int | float | str):
        return value
    return str(value)


def write_text(
    path: str | Path,
    text: str,
    *,
    overwrite: bool = False,
    confidential: bool = False,
    paid: bool = False,
) -> None:
    """Write UTF-8 text as :func:`write_bytes` writes bytes."""
    write_bytes(path, text.encode(), overwrite=overwrite, confidential=confidential, paid=paid)


def write_bytes(
    path: str | Path,
    content: bytes,
    *,
    overwrite: bool = False,
    confidential: bool = False,
    paid: bool = False,
) -> None:
    """Write a file, whole or not at all; ``overwrite`` and ``confidential`` as of :func:`replacing`.

    What is ``paid`` had a privacy cost and is not lost: where ``path`` does not take it, it is written to a temporary
    folder.

    Raises
    ------
    InputError
        If ``path`` cannot be written, such as on a full disk, or is there already. Of what is ``paid``, the error names the
        file in the temporary folder.
    """
    try:
        with replacing(path, overwrite=overwrite, confidential=confidential) as temporary:
            temporary.write_bytes(content)
    except InputError as error:
        if not paid:
            raise
        raise InputError(f"{error} {_write_elsewhere(Path(path).name, content)}") from None


def _write_elsewhere(name: str, content: bytes) -> str:
    """Write a file to a new temporary folder, for its owner alone, and say where it is."""
    for place in (tempfile.gettempdir(), Path.home()):
        try:
            kept = Path(tempfile.mkdtemp(dir=place, prefix="tabsynth-"), name)
            kept.write_bytes(content)
        except OSError:
            continue
        return f"It had a privacy cost, so it was written to {kept}; move it."
    return "No temporary folder takes it either."


def sha256(path: str | Path) -> str:
    """Return the SHA-256 of a file, hexadecimal."""
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
