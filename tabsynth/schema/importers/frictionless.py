"""Frictionless Table Schema, by itself or in a data package with one table."""

from collections.abc import Iterator, Sequence
from typing import Any

from tabsynth._typing import JsonObject
from tabsynth._validate import quote
from tabsynth.errors import FileFormatError
from tabsynth.schema.column import COPIED, KINDS
from tabsynth.schema.importers.declaration import (
    Declaration,
    bound,
    text_of,
)

# Properties of files that tabsynth 0.2 exported: what was drafted or released, so that an import keeps it.
OWN = "tabsynth:"
PROVENANCE, RELEASED = f"{OWN}provenance", f"{OWN}released"
DTYPES = {"integer": "int64", "year": "int64", "number": "float64", "boolean": "bool"}
TEMPORAL = {"date": "date", "datetime": "datetime", "time": "time", "duration": "duration"}
_IDENTIFYING = ("email", "uri", "uuid", "binary")


def matches(data: object) -> bool:
    """Return whether a JSON value is a Table Schema or a data package."""
    return isinstance(data, dict) and (
        isinstance(data.get("fields"), list) or isinstance(data.get("resources"), list)
    )


def _table(data: JsonObject, where: str) -> JsonObject:
    if isinstance(data.get("fields"), list):
        return data
    resources = [r.get("schema") for r in data["resources"] if isinstance(r, dict)]
    tables: list[JsonObject] = [table for table in resources if isinstance(table, dict)]
    if len(tables) != 1 or not isinstance(tables[0].get("fields"), list):
        raise FileFormatError(
            f"{where} describes {len(tables)} tables; save the schema of one table alone."
        )
    return tables[0]


def null_values(data: JsonObject, where: str) -> Sequence[str]:
    """Return texts that mean null; the empty one by default."""
    declared = _table(data, where).get("missingValues", [""])
    values = [v.get("value") if isinstance(v, dict) else v for v in declared]
    return [value for value in values if isinstance(value, str)]


def released_of(data: JsonObject, where: str) -> Any:
    """Return what the private draft of a schema that tabsynth 0.2 exported released; None without one."""
    return _table(data, where).get(RELEASED)


def declarations(data: JsonObject, where: str) -> Iterator[Declaration]:
    """Return what the Table Schema states of each field.

    Raises
    ------
    FileFormatError
    """
    table = _table(data, where)
    key = table.get("primaryKey", [])
    keys = {key} if isinstance(key, str) else {k for k in key if isinstance(k, str)}
    for field in table["fields"]:
        if not isinstance(field, dict) or not isinstance(field.get("name"), str):
            raise FileFormatError(
                f"{where}: a field must be an object with a name, got {quote(field)}."
            )
        yield _declaration(field, len(keys) == 1 and field["name"] in keys)


def _declaration(field: JsonObject, key: bool) -> Declaration:
    name, kind = field["name"], field.get("type", "string")
    rules = field.get("constraints")
    rules = rules if isinstance(rules, dict) else {}
    if key or rules.get("unique") is True or field.get("format") in _IDENTIFYING:
        return Declaration(name=name, facts={"kind": "identifier", "dtype": "str"})
    described = text_of(field.get("description")) or text_of(field.get("title"))
    required = rules.get("required") is True
    facts: JsonObject = {"nulls": not required, "description": described}
    if PROVENANCE in field:
        facts |= {"provenance": field[PROVENANCE], "source": None}
    facts |= {COPIED: field[f"{OWN}{COPIED}"]} if f"{OWN}{COPIED}" in field else {}
    listed = field.get("categories", rules.get("enum"))
    if kind in DTYPES:
        facts["dtype"] = DTYPES[kind]
    if isinstance(listed, list):
        values = [item.get("value") if isinstance(item, dict) else item for item in listed]
        labelled = [
            item for item in listed if isinstance(item, dict) and text_of(item.get("label"))
        ]
        facts["labels"] = {str(item["value"]): item["label"] for item in labelled}
        facts["kind"] = "ordinal" if field.get("categoriesOrdered") is True else "categorical"
        facts["categories"] = values
    elif kind == "boolean":
        facts |= {"kind": "categorical", "categories": [False, True]}
    elif kind in ("integer", "number", "year"):
        facts["kind"] = "numeric"
        if "minimum" in rules and "maximum" in rules:
            facts |= {"low": bound(rules["minimum"]), "high": bound(rules["maximum"])}
    elif TEMPORAL.get(kind) in KINDS:
        facts |= {"kind": TEMPORAL[kind], "dtype": "str"}
        facts |= {"low": rules.get("minimum"), "high": rules.get("maximum")}
    return Declaration(name=name, facts=facts)
