"""The codebook of released tables in two standards: CSVW of the W3C, and DDI Codebook 2.5.

Both state the schema, which is public, and the names of the columns. They hold no statistic of the tables.

Sources: *Metadata Vocabulary for Tabular Data* (W3C Recommendation, 17 December 2015); DDI Codebook 2.5 (DDI Alliance,
2012), whose schema fixes the order of the elements.
"""

import csv
import re
from typing import Any

from tabsynth._typing import JsonObject
from tabsynth.dossier.material import Material, Table
from tabsynth.report.page import render
from tabsynth.schema.column import Column
from tabsynth.tables.delimited import SEPARATORS

MOST_LISTED = 200  # categories that CSVW lists as a pattern; DDI lists all
# Characters that XML 1.0 does not have.
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_SIGNS = re.compile(r"([\\.\[\](){}*+?^$|])")  # of regular expressions
_TEXTS = {"bool": "boolean", "int": "integer", "float": "number"}


def csvw(material: Material) -> JsonObject:
    """Return CSVW metadata of the tables that are delimited text, JSON-ready: of one table, or a group of tables."""
    answers = material.answers
    about = {
        "dc:title": answers.name,
        "dc:description": answers.description,
        "dc:publisher": ", ".join(answers.curators),
        "dc:issued": answers.published,
        "dc:license": answers.license,
    }
    described = [_table(table, material) for table in material.tables if table.is_text]
    context = "http://www.w3.org/ns/csvw"
    if len(described) == 1:
        return {"@context": context, **described[0], **about}
    return {"@context": context, **about, "tables": described}


def _table(table: Table, material: Material) -> JsonObject:
    columns = [_column(table, name, number) for number, name in enumerate(table.header, 1)]
    names = {column["titles"]: column["name"] for column in columns}
    schema: JsonObject = {"columns": columns}
    keys = table.keys
    if keys is not None and keys.key in names:
        schema["primaryKey"] = names[keys.key]
    if keys is not None and keys.parent_key in names:
        parent = next(t for t in material.tables if t.stem == keys.parent)
        parent_key = parent.keys.key if parent.keys is not None else None
        target = _column(parent, str(parent_key), parent.header.index(str(parent_key)) + 1)["name"]
        schema["foreignKeys"] = [
            {
                "columnReference": names[keys.parent_key],
                "reference": {"resource": parent.name, "columnReference": target},
            }
        ]
    return {
        "url": table.name,
        "dialect": {"delimiter": _separator(table), "header": True, "encoding": "utf-8"},
        "tableSchema": schema,
    }


def _separator(table: Table) -> str:
    """Return the separator by which the first line of the file has the names of the columns."""
    with table.file.open(encoding="utf-8-sig", newline="") as file:
        line = file.readline()
    for separator in SEPARATORS:
        if tuple(next(csv.reader([line], delimiter=separator), [])) == table.header:
            return separator
    return ","


def _column(table: Table, name: str, number: int) -> JsonObject:
    plain = re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_]*", name)
    out: JsonObject = {"name": name if plain else f"column_{number}", "titles": name}
    column = table.column(name)
    if column is None:
        kind = "string" if table.keys is not None else "number"
        kind = "integer" if name in table.whole else kind
        out |= {"datatype": kind, "dc:description": table.role(name)}
        return out
    if column.description:
        out["dc:description"] = column.description
    out["datatype"] = _datatype(column, table.schema.decimal)
    if column.nulls:
        out["null"] = [*dict.fromkeys(("", *table.schema.null_values))]
    else:
        out["required"] = True
    return out


def _datatype(column: Column, decimal: str | None) -> str | JsonObject:
    """Return the type of a column's values, with their bounds or their list."""
    kind = _TEXTS.get(column.value_type, "string")
    facts = column.to_dict()
    if column.kind == "date" and column.value_type == "text" and not facts.get("format"):
        kind = "date"
    if kind == "boolean":
        return {"base": "boolean", "format": "True|False"}
    out: JsonObject = {"base": kind}
    values = list(column.categories)
    if kind in ("integer", "number"):
        ends: list[Any] = [*values] if values else [facts.get("low"), facts.get("high")]
        ends += [reason for reason in column.reasons if isinstance(reason, int | float)]
        if all(isinstance(end, int | float) for end in ends):
            out |= {"minimum": min(ends), "maximum": max(ends)}
        if kind == "number" and decimal == ",":
            out["format"] = {"decimalChar": ","}
    elif values and len(values) <= MOST_LISTED and not column.missing:
        out["format"] = "|".join(_SIGNS.sub(r"\\\1", str(value)) for value in values)
    elif kind == "date" and not column.missing:
        for name, end in (("minimum", facts.get("low")), ("maximum", facts.get("high"))):
            if end is not None:
                out[name] = str(end)
    return out if len(out) > 1 else kind


def ddi(material: Material) -> str:
    """Return a DDI codebook of all tables, as XML text."""
    text = render(
        "dossier/codebook.xml",
        answers=material.answers,
        certificate=material.certificate,
        statement=material.statement,
        tables=material.tables,
        measure=measurement,
    )
    return _NOT_XML.sub("\ufffd", text) + "\n"


def measurement(column: Column) -> dict[str, str]:
    """Return the attributes of DDI that say how a column is measured."""
    measured = column.kind == "numeric"
    out = {"intrvl": "contin" if measured else "discrete"}
    if column.categories:
        out["nature"] = "ordinal" if column.ordered else "nominal"
    elif measured:
        out["nature"] = "ratio"
        step = column.to_dict().get("resolution")
        if column.value_type == "int" or (isinstance(step, int | float) and step == int(step)):
            out["dcml"] = "0"
        elif isinstance(step, float):
            out["dcml"] = str(len(f"{step:.10f}".rstrip("0").split(".")[1]))
    return out
