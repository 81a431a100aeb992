"""The codebook of released tables in two standards: CSVW of the W3C, and DDI Codebook 2.5.

Both state the schema, which is public, and the names of the columns. They hold no statistic of the tables.

Sources: *Metadata Vocabulary for Tabular Data* (W3C Recommendation, 17 December 2015); DDI Codebook 2.5 (DDI Alliance,
2012), whose schema fixes the order of the elements.
"""

import csv
import re
from typing import Any
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from tabsynth.dossier.material import Material, Table
from tabsynth.schema.column import Column
from tabsynth.tables.delimited import SEPARATORS
from tabsynth.tables.files import TEXT

DDI = "ddi:codebook:2_5"
MOST_LISTED = 200  # categories that CSVW lists as a pattern; DDI lists all
# Characters that XML 1.0 does not have.
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_SIGNS = re.compile(r"([\\.\[\](){}*+?^$|])")  # of regular expressions
_TEXTS = {"bool": "boolean", "int": "integer", "float": "number"}


def csvw(material: Material) -> dict[str, Any]:
    """Return CSVW metadata of the tables that are delimited text, JSON-ready: of one table, or a group of tables."""
    answers = material.answers
    about = {
        "dc:title": answers.name,
        "dc:description": answers.description,
        "dc:publisher": ", ".join(answers.curators),
        "dc:issued": answers.published,
        "dc:license": answers.license,
    }
    described = [_described(table, material) for table in material.tables if is_text(table)]
    context = "http://www.w3.org/ns/csvw"
    if len(described) == 1:
        return {"@context": context, **described[0], **about}
    return {"@context": context, **about, "tables": described}


def is_text(table: Table) -> bool:
    """Return whether a table is a file of delimited text that is not packed."""
    return table.file.suffix.lower() in TEXT


def _described(table: Table, material: Material) -> dict[str, Any]:
    columns = [_column(table, name, number) for number, name in enumerate(table.header, 1)]
    names = {column["titles"]: column["name"] for column in columns}
    schema: dict[str, Any] = {"columns": columns}
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


def _column(table: Table, name: str, number: int) -> dict[str, Any]:
    plain = re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_]*", name)
    out: dict[str, Any] = {"name": name if plain else f"column_{number}", "titles": name}
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


def _datatype(column: Column, decimal: str | None) -> Any:
    """Return the type of a column's values, with their bounds or their list."""
    kind = _TEXTS.get(column.value_type, "string")
    facts = column.to_dict()
    if column.kind == "date" and column.value_type == "text" and not facts.get("format"):
        kind = "date"
    if kind == "boolean":
        return {"base": "boolean", "format": "True|False"}
    out: dict[str, Any] = {"base": kind}
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
    answers = material.answers
    root = Element(
        "codeBook",
        {"xmlns": DDI, "version": "2.5", "{http://www.w3.org/XML/1998/namespace}lang": "en"},
    )
    study = SubElement(root, "stdyDscr")
    citation = SubElement(study, "citation")
    _add(SubElement(citation, "titlStmt"), "titl", answers.name)
    authors = SubElement(citation, "rspStmt")
    for author in answers.curators:
        _add(authors, "AuthEnty", author)
    production = SubElement(citation, "prodStmt")
    for curator in answers.curators:
        _add(production, "producer", curator)
    _add(production, "copyright", f"Licence: {answers.license}")
    created = str(material.certificate["created"])[:10]
    _add(production, "prodDate", created, date=created)
    version = str(material.certificate["versions"].get("tabsynth", ""))
    _add(production, "software", "tabsynth", version=version)
    distribution = SubElement(citation, "distStmt")
    if answers.contact:
        _add(distribution, "contact", answers.contact)
    _add(distribution, "distDate", answers.published, date=answers.published)
    information = SubElement(study, "stdyInfo")
    _add(information, "abstract", answers.description)
    summary = SubElement(information, "sumDscr")
    _add(summary, "geogCover", answers.region)
    _add(summary, "anlyUnit", answers.unit)
    _add(summary, "universe", answers.population)
    _add(summary, "dataKind", "Synthetic data, made under differential privacy")
    use = SubElement(SubElement(study, "dataAccs"), "useStmt")
    _add(use, "conditions", f"Licence: {answers.license}. Intended use: {answers.use}")
    _add(use, "disclaimer", material.statement)
    for number, table in enumerate(material.tables, 1):
        text = SubElement(SubElement(root, "fileDscr", ID=f"F{number}"), "fileTxt")
        _add(text, "fileName", table.name)
        dimensions = SubElement(text, "dimensns")
        _add(dimensions, "caseQnty", str(table.rows))
        _add(dimensions, "varQnty", str(len(table.header)))
        _add(text, "fileType", "delimited text" if is_text(table) else table.file.suffix)
    data = SubElement(root, "dataDscr")
    for number, table in enumerate(material.tables, 1):
        for place, name in enumerate(table.header, 1):
            _variable(data, table, name, f"F{number}", f"F{number}V{place}")
    indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + tostring(root, "unicode") + "\n"


def _variable(data: Any, table: Table, name: str, file: str, identity: str) -> None:
    column = table.column(name)
    facts = {} if column is None else column.to_dict()
    attributes = {"ID": identity, "name": _xml(name), "files": file}
    of_numbers = column is not None and column.value_type in ("int", "float")
    if column is None:
        variable = SubElement(data, "var", attributes)
        _add(variable, "labl", table.role(name))
        return
    measured = column.kind == "numeric"
    attributes["intrvl"] = "contin" if measured else "discrete"
    if column.categories:
        attributes["nature"] = "ordinal" if column.ordered else "nominal"
    elif measured:
        attributes["nature"] = "ratio"
        step = facts.get("resolution")
        whole = column.value_type == "int" or (isinstance(step, int | float) and step == int(step))
        if whole:
            attributes["dcml"] = "0"
        elif isinstance(step, float):
            attributes["dcml"] = str(len(f"{step:.10f}".rstrip("0").split(".")[1]))
    variable = SubElement(data, "var", attributes)
    _add(variable, "labl", column.description or name)
    low, high = facts.get("low"), facts.get("high")
    if not column.categories and low is not None and high is not None:
        valid = SubElement(variable, "valrng")
        SubElement(valid, "range", {"min": str(low), "max": str(high)})
    for value in column.categories:
        label = column.labels.get(str(value))
        _category(variable, str(value), label)
    for reason, meaning in column.missing.items():
        _category(variable, reason, meaning or None, missing="Y")
    kind = "numeric" if of_numbers else "character"
    SubElement(variable, "varFormat", {"type": kind, "schema": "other"})
    if column.source:
        _add(variable, "notes", f"Source of what is declared: {column.source}")


def _category(variable: Any, value: str, label: str | None, **attributes: str) -> None:
    category = SubElement(variable, "catgry", attributes)
    _add(category, "catValu", value)
    if label:
        _add(category, "labl", label)


def _add(parent: Any, name: str, text: str, **attributes: str) -> None:
    element = SubElement(parent, name, {k: _xml(v) for k, v in attributes.items()})
    element.text = _xml(text)


def _xml(text: str) -> str:
    return _NOT_XML.sub("\ufffd", text)
