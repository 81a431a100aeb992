"""Schemas as the metadata of other programs."""

from collections.abc import Callable
from typing import Any

from tabsynth.schema.column import Column
from tabsynth.schema.schema import Schema

# What each kind is in other formats; kinds that these do not know are text.
SDTYPES = {"numeric": "numerical", "date": "datetime", "datetime": "datetime", "identifier": "id"}
SDTYPES |= {"categorical": "categorical", "ordinal": "categorical"}
FIELD_TYPES = {"int": "integer", "float": "number", "bool": "boolean"}
TEMPORAL_TYPES = ("date", "datetime", "time", "duration")


def to_sdv(schema: Schema) -> dict[str, Any]:
    """SDV metadata (version ``V1``) of one table named ``table``.

    SDV metadata has no place for categories, bounds, null texts and columns that are left out.
    """
    columns = {column.name: _sdv(column) for column in schema.columns}
    return {
        "METADATA_SPEC_VERSION": "V1",
        "tables": {"table": {"columns": columns}},
        "relationships": [],
    }


def _sdv(column: Column) -> dict[str, Any]:
    if column.value_type == "bool":
        return {"sdtype": "boolean"}
    out = {"sdtype": SDTYPES.get(column.kind, "unknown")}
    if out["sdtype"] == "numerical":
        out["computer_representation"] = "Int64" if column.value_type == "int" else "Float"
    if out["sdtype"] == "datetime" and getattr(column, "format", None):
        out["datetime_format"] = column.format  # type: ignore[attr-defined]
    return out


def to_frictionless(schema: Schema) -> dict[str, Any]:
    """A frictionless Table Schema; categories with labels are in the form of its version 2."""
    return {
        "$schema": "https://datapackage.org/profiles/2.0/tableschema.json",
        "fields": [_field(column) for column in schema.columns],
        "missingValues": list(schema.null_values),
    }


def _field(column: Column) -> dict[str, Any]:
    of_time = column.kind in TEMPORAL_TYPES
    out: dict[str, Any] = {"name": column.name}
    out["type"] = column.kind if of_time else FIELD_TYPES.get(column.value_type, "string")
    if column.description:
        out["description"] = column.description
    rules: dict[str, Any] = {} if column.nulls else {"required": True}
    if column.kind == "identifier":
        rules["unique"] = True
    if column.categories:
        values = list(column.categories)
        if column.labels:
            labels = column.labels
            out["categories"] = [{"value": v, "label": labels.get(str(v), str(v))} for v in values]
        elif column.ordered:
            out["categories"] = values
        rules["enum"] = values
        if column.ordered:
            out["categoriesOrdered"] = True
    facts = column.to_dict()
    rules |= {
        rule: facts[end]
        for end, rule in (("low", "minimum"), ("high", "maximum"))
        if facts.get(end) is not None
    }
    return out | ({"constraints": rules} if rules else {})


EXPORTS: dict[str, Callable[[Schema], dict[str, Any]]] = {
    "sdv": to_sdv,
    "frictionless": to_frictionless,
}
