"""SDV metadata: of a single table, of one table in a file of several versions, of SDV 2, and of SDV before 1.0.

SDV metadata of version 1 states types, and neither categories nor ranges. That of version 2, and some other files,
carry ranges or values that were detected in a table. They are taken with the provenance ``drafted``, unless the column or the file says
``"public": true``.
"""

from collections.abc import Iterator

from tabsynth._typing import JsonObject
from tabsynth._validate import quote
from tabsynth.errors import FileFormatError
from tabsynth.schema.column import KINDS
from tabsynth.schema.importers.declaration import Declaration, bound, identifier

VERSIONS = ("SINGLE_TABLE_V1", "MULTI_TABLE_V1", "V1", "V2")
_LOW = ("range_min", "min_value", "minimum", "min", "low")
_HIGH = ("range_max", "max_value", "maximum", "max", "high")
_VALUES = ("range_values", "order", "categories", "values")
_WHOLE = ("int", "uint")
OTHER_TYPES = ("boolean", "categorical", "ordinal", "numerical", "datetime", "unknown")


def matches(data: object) -> bool:
    """Return whether a JSON value is SDV metadata."""
    if not isinstance(data, dict):
        return False
    old = isinstance(data.get("fields"), dict)
    return data.get("METADATA_SPEC_VERSION") in VERSIONS or "SCHEMA_VERSION" in data or old


def declarations(data: JsonObject, where: str) -> Iterator[Declaration]:
    """Return what the metadata states of each column.

    Raises
    ------
    FileFormatError
        For metadata of several tables, or without columns.
    """
    table = data
    if isinstance(data.get("tables"), dict):
        if len(data["tables"]) != 1:
            raise FileFormatError(
                f"{where} describes {len(data['tables'])} tables; save the metadata of one table alone."
            )
        (table,) = data["tables"].values()
    columns = table.get("columns", table.get("fields")) if isinstance(table, dict) else None
    if not isinstance(columns, dict) or not all(isinstance(c, dict) for c in columns.values()):
        raise FileFormatError(f"{where}: SDV metadata must have an object of columns.")
    keys = {table.get("primary_key"), table.get("sequence_key")} - {None}
    keys |= {key for key in table.get("alternate_keys", []) if isinstance(key, str)}
    public = data.get("public") is True or table.get("public") is True
    for name, item in columns.items():
        yield _declaration(name, item, name in keys, public or item.get("public") is True, where)


def _declaration(name: str, item: JsonObject, key: bool, public: bool, where: str) -> Declaration:
    sdtype = item.get("sdtype", item.get("type"))
    if not isinstance(sdtype, str):
        raise FileFormatError(f"{where}: column {quote(name)} has no sdtype.")
    if key or item.get("pii") is True or sdtype in ("id", "text") or sdtype not in OTHER_TYPES:
        what = (
            "a key of the table" if key else f"of sdtype {sdtype}, which identifies or is free text"
        )
        return identifier(name, f"SDV metadata says that it is {what}")
    facts: JsonObject = {"nulls": True}
    detected = {} if public else {"provenance": "drafted", "source": None}
    values = next((item[k] for k in _VALUES if isinstance(item.get(k), list)), None)
    low, high = (next((item[k] for k in keys if k in item), None) for keys in (_LOW, _HIGH))
    if sdtype == "boolean":
        # Its values are those of the type, and not of the rows.
        facts = {
            "nulls": True,
            "kind": "categorical",
            "dtype": "boolean",
            "categories": [False, True],
        }
    elif values is not None:
        kind = "ordinal" if "order" in item or sdtype == "ordinal" else "categorical"
        facts |= {"kind": kind, "categories": values, **detected}
    elif sdtype == "numerical":
        form = str(item.get("computer_representation", item.get("subtype", ""))).lower()
        if item.get("decimal_places") == 0:  # SDV 2
            form = "int64"
        facts["kind"] = "numeric"
        facts["dtype"] = "Int64" if form.startswith(_WHOLE) else "float64"
        if None not in (bound(low), bound(high)):
            facts |= {"low": bound(low), "high": bound(high), **detected}
            if not form:
                del facts["dtype"]
    elif sdtype == "datetime" and "datetime" in KINDS:
        facts |= {"kind": "datetime", "dtype": "str"}
        facts["format"] = item.get("datetime_format", item.get("format"))
        if low is not None or high is not None:
            facts |= {"low": low, "high": high, **detected}
    return Declaration(name=name, facts=facts)
