"""Labelled SPSS and Stata files: the value labels of their variables. No row of theirs is read."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tabsynth._typing import JsonObject
from tabsynth.errors import FileFormatError, InputError, one_line
from tabsynth.schema.importers.declaration import Declaration, text_of

SPSS, STATA = (b"$FL2", b"$FL3"), b"<stata_dta>"
OLD_STATA = range(0x69, 0x77)  # the first byte is the version, 105 to 118


def matches(head: bytes, path: Path) -> bool:
    """Return whether the first bytes of a file are those of an SPSS or a Stata file."""
    old = path.suffix.lower() == ".dta" and len(head) > 0 and head[0] in OLD_STATA
    return head.startswith((*SPSS, STATA)) or old


def reader(path: str | Path, of_spss: bool) -> Any:
    """Return the function of pyreadstat that reads files of SPSS, or of Stata.

    Raises
    ------
    InputError
        Where pyreadstat is not installed.
    """
    try:
        import pyreadstat
    except ImportError:
        raise InputError(
            f"{path}: SPSS and Stata files need pyreadstat; install it with pip install 'tabsynth[labelled]'."
        ) from None
    return pyreadstat.read_sav if of_spss else pyreadstat.read_dta


def declarations(path: Path, head: bytes) -> Iterator[Declaration]:
    """Return what the file states of each variable.

    Raises
    ------
    InputError
        As :func:`reader`.
    FileFormatError
    """
    read = reader(path, head.startswith(SPSS))
    try:
        _, about = read(str(path), metadataonly=True, user_missing=True)
    except Exception as error:  # pyreadstat has no common base for "this is no such file"
        raise FileFormatError(f"{path} cannot be read: {one_line(error)}") from None
    for name in about.column_names:
        yield Declaration(name=name, facts=_facts(name, about))


def _facts(name: str, about: Any) -> JsonObject:
    labels = about.variable_value_labels.get(name, {})
    missing = about.missing_ranges.get(name, [])
    present = {_code(v): label for v, label in labels.items() if not _in_ranges(v, missing)}
    facts: JsonObject = {"nulls": True}
    facts["description"] = text_of(about.column_names_to_labels.get(name))
    measure = about.variable_measure.get(name)
    # On a scale, labels explain single values and do not list all of them.
    if present and measure != "scale":
        facts |= {"kind": "ordinal" if measure == "ordinal" else "categorical"}
        facts |= {"categories": [*present], "labels": {str(v): str(x) for v, x in present.items()}}
    return facts


def _in_ranges(value: Any, ranges: Any) -> bool:
    """Return whether a value is one of those that the file declares missing."""
    text = isinstance(value, str)
    alike = [r for r in ranges if isinstance(r["lo"], str) == text]
    return any(r["lo"] <= value <= r["hi"] for r in alike)


def _code(value: object) -> Any:
    return int(value) if isinstance(value, float) and value.is_integer() else value
