"""A codebook in CSV: a row for each column of the table. ``docs/how-to/schema-tools.md`` describes it."""

import csv
import io
from collections.abc import Iterator

from tabsynth._typing import JsonObject
from tabsynth._validate import quote
from tabsynth.errors import FileFormatError, one_line
from tabsynth.schema.column import KINDS
from tabsynth.schema.editing import number
from tabsynth.schema.importers.declaration import Declaration, codes, text_of

HEADERS: tuple[str, ...] = ("name", "kind", "dtype", "values", "low", "high", "resolution", "bins")
HEADERS += ("nulls", "clip", "other", "label", "source")
_YES, _NO = ("yes", "true", "1", "y"), ("no", "false", "0", "n", "")


def _rows(text: str) -> tuple[list[str], list[list[str]]]:
    first = text.split("\n", 1)[0]
    separator = max(",;\t", key=first.count)
    rows = [row for row in csv.reader(io.StringIO(text), delimiter=separator) if any(row)]
    return ([cell.strip().lower() for cell in rows[0]] if rows else []), rows[1:]


def matches(text: str) -> bool:
    """Return whether a text is a CSV table with a column ``name`` and one of kinds, values or bounds."""
    try:
        header, _ = _rows(text)
    except csv.Error:
        return False
    return "name" in header and bool({"kind", "values", "low"} & set(header))


def declarations(text: str, where: str) -> Iterator[Declaration]:
    """Return what the codebook states of each column.

    Raises
    ------
    FileFormatError
        Naming the line and the cell that cannot be read.
    """
    try:
        header, rows = _rows(text)
    except csv.Error as error:
        raise FileFormatError(f"{where} is not a CSV table: {one_line(error)}.") from None
    unknown = [name for name in header if name not in HEADERS]
    if unknown or len(set(header)) < len(header):
        raise FileFormatError(
            f"{where}: unknown or repeated header {quote(unknown[0] if unknown else header)}; known are"
            f" {', '.join(HEADERS)}."
        )
    for line, row in enumerate(rows, 2):
        if len(row) > len(header):
            raise FileFormatError(f"{where}, row {line}: more cells than headers.")
        cells = dict(zip(header, (cell.strip() for cell in row), strict=False))
        if not cells.get("name"):
            raise FileFormatError(f"{where}, row {line}: the column has no name.")
        yield Declaration(name=cells["name"], facts=_facts(cells, f"{where}, row {line}"))


def _facts(cells: dict[str, str], where: str) -> JsonObject:
    facts: JsonObject = {"nulls": _truth(cells, "nulls", where)}
    if cells.get("clip"):
        facts["clip"] = _truth(cells, "clip", where)
    kind = cells.get("kind", "").lower()
    if kind and kind not in KINDS:
        raise FileFormatError(f"{where}: kind {quote(kind)} is none of {', '.join(KINDS)}.")
    facts |= {key: cells[key] for key in ("dtype", "source") if cells.get(key)}
    facts |= {"kind": kind} if kind else {}
    facts["description"] = text_of(cells.get("label", ""))
    for key in ("low", "high", "resolution", "bins"):
        if cells.get(key):
            value = number(cells[key])
            facts[key] = cells[key] if value is None else value
    pairs = [part.partition("=") for part in cells.get("values", "").split("|") if part.strip()]
    if pairs:
        values = [value.strip() for value, _, _ in pairs]
        text = facts.get("dtype") in ("str", "string", "object")
        facts["categories"] = values if text else codes(values)
        facts["labels"] = {v.strip(): label.strip() for v, _, label in pairs if label.strip()}
        other = cells.get("other")
        if other in values:
            facts["other"] = facts["categories"][values.index(other)]
        elif other:
            raise FileFormatError(f"{where}: other {quote(other)} is none of its values.")
    return facts


def _truth(cells: dict[str, str], key: str, where: str) -> bool:
    text = cells.get(key, "").lower()
    if text not in (*_YES, *_NO):
        raise FileFormatError(f"{where}: expected {key} to be yes or no, got {quote(text)}.")
    return text in _YES
