"""Croissant 1.1 metadata of released tables, with their provenance in PROV-O.

Croissant is the format of MLCommons for data sets of machine learning
(https://docs.mlcommons.org/croissant/docs/croissant-spec-1.1.html), a JSON-LD vocabulary on schema.org. Provenance is
stated by terms of W3C's PROV-O, as section "Provenance Representation" of the specification has it.
"""

import json
import re

from tabsynth._typing import JsonObject
from tabsynth.dossier.material import Material, Table
from tabsynth.evaluation.claims import section_of
from tabsynth.privacy.certificate.certificate import rounded_up
from tabsynth.report.page import packaged_text

VERSION = "http://mlcommons.org/croissant/1.1"
FORMATS = {".csv": "text/csv", ".tsv": "text/tab-separated-values", ".txt": "text/plain"}
FORMATS |= {".parquet": "application/x-parquet"}
TYPES = {"int": "sc:Integer", "float": "sc:Float", "bool": "sc:Boolean"}


def croissant(material: Material) -> JsonObject:
    """Return the metadata, JSON-ready."""
    answers = material.answers
    organisations = [{"@type": "sc:Organization", "name": name} for name in answers.curators]
    out: JsonObject = {
        "@context": json.loads(packaged_text("dossier/croissant-context.json")),
        "@type": "sc:Dataset",
        "name": answers.name,
        "description": answers.description,
        "conformsTo": VERSION,
        "license": answers.license,
        "creator": organisations,
        "publisher": organisations,
        "datePublished": answers.published,
        "dateCreated": str(material.certificate["created"]),
        "version": "1.0.0",
        "citeAs": f"{', '.join(answers.curators)} ({answers.published[:4]}). {answers.name}. Synthetic data.",
        "keywords": ["synthetic data", "differential privacy"],
        "usageInfo": answers.use,
        "spatialCoverage": answers.region,
        **({"url": answers.url} if answers.url else {}),
        **provenance(material),
        "distribution": [_file(table) for table in material.tables],
    }
    sets = [_records(table, material) for table in material.tables if _readable(table)]
    return out | ({"recordSet": sets} if sets else {})


def _file_id(table: Table) -> str:
    return _identity(table.name, f"table-{table.sha256[:12]}")


def _identity(name: str, other: str) -> str:
    """Return a name as an identifier, which has no spaces; ``other`` where it is none."""
    return name if re.fullmatch(r"[A-Za-z0-9_.-]+", name) else other


def _readable(table: Table) -> bool:
    """Return whether a reader of Croissant finds the columns of the file."""
    return table.file.suffix.lower() in (".csv", ".tsv", ".parquet")


def _file(table: Table) -> JsonObject:
    suffix = table.file.suffix.lower()
    return {
        "@type": "cr:FileObject",
        "@id": _file_id(table),
        "name": table.name,
        "description": f"Synthetic table of {table.rows:,} rows and {len(table.header)} columns.",
        "contentUrl": table.name,
        "encodingFormat": FORMATS.get(suffix, "application/octet-stream"),
        "sha256": table.sha256,
    }


def provenance(material: Material) -> JsonObject:
    """Return how the tables were made, in PROV-O: the activity, the confidential source, and who is responsible."""
    certificate, answers = material.certificate, material.answers
    code = section_of(certificate, "code").get("sha256")
    versions = section_of(certificate, "versions")
    epsilon, delta = material.total
    what = "synthesis" if material.report is None else "synthesis, published figures included,"
    label = (
        f"({rounded_up(epsilon)}, {delta:g})-differentially private {what} by method {certificate['method']},"
        f" {certificate['adjacency']}"
    )
    software: JsonObject = {
        "@type": "prov:SoftwareAgent",
        "prov:label": f"tabsynth {versions.get('tabsynth', '')}".strip(),
        **({"prov:value": f"SHA-256 of its code: {code}"} if code else {}),
    }
    source = {
        "@type": "prov:Entity",
        "@id": "confidential-table",
        "prov:label": f"Confidential table, not published: {answers.population}",
    }
    curators = [{"@type": "prov:Organization", "prov:label": name} for name in answers.curators]
    return {
        "prov:wasDerivedFrom": source,
        "prov:wasAttributedTo": curators,
        "prov:wasGeneratedBy": {
            "@type": "prov:Activity",
            "prov:label": label,
            "prov:endedAtTime": certificate["created"],
            "prov:used": {"@id": "confidential-table"},
            "prov:wasAssociatedWith": [software, *curators],
        },
    }


def _records(table: Table, material: Material) -> JsonObject:
    identity = f"{_file_id(table)}-rows"
    out: JsonObject = {
        "@type": "cr:RecordSet",
        "@id": identity,
        "name": f"Rows of {table.name}",
        "description": f"The rows of {table.name}.",
        "field": [
            _field(table, name, f"{identity}/{_identity(name, f'column_{place}')}", material)
            for place, name in enumerate(table.header, 1)
        ],
    }
    if table.keys is not None and table.keys.key is not None:
        parts = [
            {"@id": f"{identity}/{_identity(part, f'column_{table.header.index(part) + 1}')}"}
            for part in table.keys.key_columns
        ]
        out["key"] = parts if len(parts) > 1 else parts[0]
    return out


def _field(table: Table, name: str, identity: str, material: Material) -> JsonObject:
    column, keys = table.column(name), table.keys
    description = table.role(name) if column is None else column.description or column.domain()
    out: JsonObject = {
        "@type": "cr:Field",
        "@id": identity,
        "name": name,
        "description": description,
        "dataType": _type(table, name),
        "source": {"fileObject": {"@id": _file_id(table)}, "extract": {"column": name}},
    }
    if keys is not None and keys.parent is not None and name in keys.parent_columns:
        # By file: mlcroissant 1.1 cannot follow a reference to a field that has one itself.
        parent = next(table for table in material.tables if table.stem == keys.parent)
        assert parent.keys is not None  # it has a child
        file = {"@id": _file_id(parent)}
        of = parent.keys.key_columns[keys.parent_columns.index(name)]
        out["references"] = {"fileObject": file, "extract": {"column": of}}
    return out


def _type(table: Table, name: str) -> str:
    """Return the type of values; whole numbers with nulls are real numbers to most readers, and mixed columns are text."""
    column = table.column(name)
    if column is None:
        unlisted = "sc:Integer" if name in table.whole else "sc:Float"
        return "sc:Text" if table.keys is not None and name not in table.whole else unlisted
    if column.kind == "date" and not column.missing:
        return "sc:Date"
    kind = TYPES.get(column.value_type, "sc:Text")
    if column.nulls and kind == "sc:Integer":
        return "sc:Float"
    return "sc:Text" if column.nulls and kind == "sc:Boolean" else kind
