"""Schemas as the metadata of other programs."""

from collections.abc import Callable
from functools import partial

from tabsynth._typing import JsonObject
from tabsynth._validate import one_of
from tabsynth.schema.column import COPIED, Column
from tabsynth.schema.schema import Schema
from tabsynth.schema.temporal import Date, Datetime

# What each kind is in other formats; kinds that these do not know are text.
SDTYPES = {"numeric": "numerical", "date": "datetime", "datetime": "datetime", "identifier": "id"}
SDTYPES |= {"categorical": "categorical", "ordinal": "categorical"}
SDV_VERSIONS = ("V1", "V2")
SDV_VALUES = 500  # SDV lists at most so many categories
FIELD_TYPES = {"int": "integer", "float": "number", "bool": "boolean"}
OWN = "tabsynth:"  # before the names of properties that frictionless does not know
PROVENANCE, RELEASED = f"{OWN}provenance", f"{OWN}released"
TEMPORAL_TYPES = ("date", "datetime", "time", "duration")


def to_sdv(schema: Schema, version: str = "V1") -> JsonObject:
    """Return SDV metadata of one table named ``table``, as SDV, SDMetrics and SDGym take it.

    Parameters
    ----------
    schema : Schema
    version : {"V1", "V2"}
        ``V1`` is that of SDV 1. It states types, and has no place for categories, bounds, null texts and columns that
        are left out. ``V2`` is that of SDV 2. It has categories, their order, bounds, decimal places and whether a
        value may be missing, too.

    Raises
    ------
    InputError
        For another version.
    """
    one_of("version", version, SDV_VERSIONS)
    state = _sdv if version == "V1" else _sdv_2
    return {
        "METADATA_SPEC_VERSION": version,
        "tables": {"table": {"columns": {column.name: state(column) for column in schema.columns}}},
        "relationships": [],
    }


def _sdv(column: Column) -> JsonObject:
    if column.value_type == "bool":
        return {"sdtype": "boolean"}
    out = {"sdtype": SDTYPES.get(column.kind, "unknown")}
    if out["sdtype"] == "numerical":
        out["computer_representation"] = "Int64" if column.value_type == "int" else "Float"
    if isinstance(column, Date | Datetime) and column.format:
        out["datetime_format"] = column.format
    return out


def _sdv_2(column: Column) -> JsonObject:
    """Return the metadata of SDV 2: with the facts of the schema, as far as its metadata has a place for them."""
    out = _sdv(column)
    out.pop("computer_representation", None)
    out["range_is_nullable"] = column.nulls
    if column.kind in ("ordinal", "hierarchical"):
        out["sdtype"] = "ordinal" if column.ordered else "categorical"
    if out["sdtype"] in ("categorical", "ordinal"):
        many = len(column.categories) > SDV_VALUES or not column.categories
        out["high_cardinality"] = many
        return out if many else out | {"range_values": list(column.categories)}
    facts = column.to_dict()
    if out["sdtype"] == "numerical":
        # SDV 2 takes for granted that a value without a fraction has no decimal places.
        places = 0 if column.value_type == "int" else _decimal_places(facts.get("resolution"))
        if places is not None:
            out["decimal_places"] = places
    if out["sdtype"] in ("numerical", "datetime") and not facts.get("missing"):
        ends = {"range_min": facts.get("low"), "range_max": facts.get("high")}
        out |= {name: end for name, end in ends.items() if end is not None}
    return out


def _decimal_places(resolution: object) -> int | None:
    """Return how many decimal places multiples of a resolution have, such as 2 of 0.25; None without one."""
    if not resolution:
        return None
    return next((p for p in range(16) if float(resolution * 10**p).is_integer()), None)


def to_frictionless(schema: Schema) -> JsonObject:
    """Return a frictionless Table Schema; categories with labels are in the form of its version 2.

    Properties that begin with ``tabsynth:`` say what was drafted or released, so that an import keeps it.
    """
    return {
        "$schema": "https://datapackage.org/profiles/2.0/tableschema.json",
        "fields": [_field(column) | _trace(column) for column in schema.columns],
        "missingValues": list(schema.null_values),
        **({} if schema.released is None else {RELEASED: schema.released}),
    }


def _trace(column: Column) -> JsonObject:
    """Return where the facts of a column are from, unless a person declared all of them."""
    provenance = {} if column.provenance == "declared" else {PROVENANCE: column.provenance}
    return provenance | (
        {f"{OWN}{COPIED}": list(column.facts_from_rows)} if column.facts_from_rows else {}
    )


def _field(column: Column) -> JsonObject:
    of_time = column.kind in TEMPORAL_TYPES
    out: JsonObject = {"name": column.name}
    out["type"] = column.kind if of_time else FIELD_TYPES.get(column.value_type, "string")
    if column.description:
        out["description"] = column.description
    rules: JsonObject = {} if column.nulls else {"required": True}
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


EXPORTS: dict[str, Callable[[Schema], JsonObject]] = {
    "sdv": to_sdv,
    "sdv-v2": partial(to_sdv, version="V2"),
    "frictionless": to_frictionless,
}
