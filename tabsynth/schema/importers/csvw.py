"""CSVW: W3C metadata of tables in CSV, of one table."""

import re
from collections.abc import Iterator, Sequence

from tabsynth._typing import JsonObject
from tabsynth._validate import quote
from tabsynth.errors import FileFormatError
from tabsynth.schema.column import KINDS
from tabsynth.schema.importers.declaration import Declaration, bound, identifier, text_of

_INTEGERS = (
    "integer|long|int|short|byte|gYear|(nonNegative|positive|unsigned)(Integer|Long|Int|Short|Byte)"
)
_NUMBERS = "number|decimal|double|float"
_LITERALS = re.compile(r"[^\\.\[\](){}*+?^$]+")  # a pattern that is alternatives of plain texts
TEMPORAL = {"date": "date", "dateTime": "datetime", "datetime": "datetime", "time": "time"}


def matches(data: object) -> bool:
    """Return whether a JSON value is CSVW metadata."""
    return isinstance(data, dict) and "csvw" in str(data.get("@context", ""))


def _table(data: JsonObject, where: str) -> JsonObject:
    tables = data.get("tables", [data])
    if not isinstance(tables, list) or len(tables) != 1 or not isinstance(tables[0], dict):
        raise FileFormatError(f"{where} describes several tables; save the metadata of one alone.")
    schema = tables[0].get("tableSchema", data.get("tableSchema"))
    if not isinstance(schema, dict) or not isinstance(schema.get("columns"), list):
        raise FileFormatError(f"{where}: CSVW metadata must have a tableSchema with columns.")
    return schema


def null_values(data: JsonObject, where: str) -> Sequence[str]:
    """Return texts that mean null in any column."""
    table = _table(data, where)
    out: list[str] = []
    for item in (data, table, *table["columns"]):
        values = item.get("null", []) if isinstance(item, dict) else []
        out += [values] if isinstance(values, str) else [v for v in values if isinstance(v, str)]
    return [*dict.fromkeys(out)]


def declarations(data: JsonObject, where: str) -> Iterator[Declaration]:
    """Return what the metadata states of each column that is not virtual.

    Raises
    ------
    FileFormatError
    """
    table = _table(data, where)
    key = table.get("primaryKey", [])
    keys = [key] if isinstance(key, str) else key
    for item in table["columns"]:
        if isinstance(item, dict) and item.get("virtual") is True:
            continue
        title = _text(item.get("titles", item.get("name"))) if isinstance(item, dict) else None
        if title is None:
            raise FileFormatError(f"{where}: a column must have a name, got {quote(item)}.")
        if keys == [item.get("name")]:
            yield identifier(title)
        else:
            yield Declaration(name=title, facts=_facts(item))


def _facts(item: JsonObject) -> JsonObject:
    datatype = item.get("datatype", "string")
    datatype = datatype if isinstance(datatype, dict) else {"base": datatype}
    base, form = str(datatype.get("base", "string")), datatype.get("format")
    facts: JsonObject = {"nulls": item.get("required") is not True}
    facts["description"] = _text(item.get("dc:description", item.get("rdfs:comment")))
    low = datatype.get("minimum", datatype.get("minInclusive"))
    high = datatype.get("maximum", datatype.get("maxInclusive"))
    if re.fullmatch(_INTEGERS, base) or re.fullmatch(_NUMBERS, base):
        facts |= {
            "kind": "numeric",
            "dtype": "int64" if re.fullmatch(_INTEGERS, base) else "float64",
        }
        facts |= {"low": bound(low), "high": bound(high)}
    elif base == "boolean" and form is None:
        facts |= {"categories": [False, True], "dtype": "bool"}
    elif base in TEMPORAL and TEMPORAL[base] in KINDS:
        facts |= {"kind": TEMPORAL[base], "dtype": "str", "low": low, "high": high}
    elif isinstance(form, str) and _LITERALS.fullmatch(form) and "|" in form:
        facts |= {"categories": form.split("|"), "dtype": "str"}
    return facts


def _text(value: object) -> str | None:
    """Return a text, the first of a list, or one of those by language."""
    if isinstance(value, dict):
        value = next(iter(value.values()), None)
    if isinstance(value, list):
        value = next(iter(value), None)
    return text_of(value)
