"""The HealthDCAT-AP record of released OMOP tables, as JSON-LD, with a dictionary of their variables.

HealthDCAT-AP is the profile of DCAT-AP by which the European Health Data Space describes data sets (Regulation (EU) 2025/327,
Article 77). Names and obligations are those of its release 8, access level PUBLIC
(https://code.europa.eu/healthdataeu/healthdcat-ap). Variables are a CSVW table group, as ``healthdcatap:hasVariables`` asks.
"""

from tabsynth._typing import JsonObject
from tabsynth.dossier.croissant import FORMATS, provenance
from tabsynth.dossier.material import Material, Table
from tabsynth.schema.column import Column

EHDS = "http://data.europa.eu/eli/reg/2025/327/oj"
EU, HEALTH = "http://publications.europa.eu/resource/authority", "https://hdeu-dcat.data.health.europa.eu/resource/authority"  # fmt: skip
CONTEXT = {
    "adms": "http://www.w3.org/ns/adms#", "csvw": "http://www.w3.org/ns/csvw#", "cv": "http://data.europa.eu/m8g/",
    "dcat": "http://www.w3.org/ns/dcat#", "dcatap": "http://data.europa.eu/r5r/", "dct": "http://purl.org/dc/terms/",
    "dpv": "https://w3id.org/dpv#", "foaf": "http://xmlns.com/foaf/0.1/", "prov": "http://www.w3.org/ns/prov#",
    "healthdcatap": "http://healthdataportal.eu/ns/health#", "xsd": "http://www.w3.org/2001/XMLSchema#",
}  # fmt: skip
TYPES = {"int": "integer", "float": "decimal", "bool": "boolean"}
LISTED = 60  # labels of a variable that its description lists


def healthdcat(material: Material) -> JsonObject:
    """Return the record, JSON-ready."""
    answers = material.answers
    curators: JsonObject = {"@type": "foaf:Agent", "foaf:name": ", ".join(answers.curators)}
    if answers.contact:  # which the profile asks of a publisher
        agent = {"dct:publisher": curators | {"cv:contactPoint": _contact(answers.contact)}}
    else:
        agent = {"dct:creator": curators}
    records = sum(table.rows for table in material.tables)
    person = next(table for table in material.tables if table.stem == "person")
    out: JsonObject = {
        "@context": CONTEXT,
        "@id": answers.url or f"urn:sha256:{person.sha256}",
        "@type": "dcat:Dataset",
        "dct:title": answers.name,
        "dct:description": f"{answers.description} Synthetic data: no row is that of a person.",
        "dct:identifier": answers.url or f"sha256:{person.sha256}",
        "dct:accessRights": {"@id": f"{EU}/access-right/PUBLIC"},
        "dcatap:applicableLegislation": {"@id": EHDS},
        "dcat:theme": {"@id": f"{EU}/data-theme/HEAL"},
        "dct:type": {"@id": f"{EU}/dataset-type/SYNTHETIC_DATA"},
        "dct:issued": {"@type": "xsd:date", "@value": answers.published},
        **agent,
        "dct:conformsTo": {"@id": f"{HEALTH}/standard/OMOP-CDM"},
        "dct:provenance": {
            "@type": "dct:ProvenanceStatement",
            "http://www.w3.org/2000/01/rdf-schema#label": str(material.certificate["statement"]),
        },
        "dcat:keyword": ["synthetic data", "differential privacy", "OMOP"],
        "dpv:hasPurpose": {"@type": "dpv:Purpose", "dct:description": answers.use},
        "prov:wasGeneratedBy": {
            k: v for k, v in provenance(material)["prov:wasGeneratedBy"].items() if k != "prov:used"
        },
        "healthdcatap:healthCategory": {"@id": f"{HEALTH}/healthcategories/EHRS"},
        "healthdcatap:populationCoverage": answers.population,
        "healthdcatap:numberOfRecords": _number(records),
        "healthdcatap:numberOfUniqueIndividuals": _number(person.rows),
        "healthdcatap:hasStructuredData": True,
        "healthdcatap:hasVariables": {
            "@type": "csvw:TableGroup",
            "dct:title": f"Variables of {answers.name}",
            "csvw:table": [_table(table) for table in material.tables],
        },
        "dcat:distribution": [_distribution(table, answers.license) for table in material.tables],
    }
    if answers.access_body:
        body = {"@type": "foaf:Agent", "foaf:name": answers.access_body}
        out["healthdcatap:hdab"] = body | {"cv:contactPoint": _contact(answers.access_body)}
    return out


def _number(value: int) -> JsonObject:
    return {"@type": "xsd:nonNegativeInteger", "@value": str(value)}


def _contact(text: str) -> JsonObject:
    """Return a contact point: the address among the words of a text, else the text."""
    mail = next((word.strip("<>(),;") for word in text.split() if "@" in word), None)
    page = next((word.strip("<>(),;") for word in text.split() if "://" in word), None)
    out: JsonObject = {"@type": "cv:ContactPoint"}
    if page is not None:
        out["cv:contactPage"] = {"@id": page}
    return out | {"cv:email": mail or text}


def _distribution(table: Table, license_text: str) -> JsonObject:
    form = FORMATS.get(table.file.suffix.lower(), "application/octet-stream")
    return {
        "@type": "dcat:Distribution",
        "dct:title": table.name,
        "dcatap:applicableLegislation": {"@id": EHDS},
        "dcat:accessURL": {"@id": table.name},
        "dcat:mediaType": {"@id": f"http://www.iana.org/assignments/media-types/{form}"},
        "dct:license": {"@type": "dct:LicenseDocument", "dct:title": license_text},
        "dcat:byteSize": _number(table.file.stat().st_size),
    }


def _table(table: Table) -> JsonObject:
    return {
        "@type": "csvw:Table",
        "dct:title": table.stem,
        "csvw:url": {"@id": table.name},
        "csvw:column": [_column(table, name) for name in table.header],
    }


def _column(table: Table, name: str) -> JsonObject:
    column = table.column(name)
    return {
        "@type": "csvw:Column",
        "csvw:name": name,
        "csvw:title": name.replace("_", " "),
        "csvw:datatype": "integer" if column is None else _type(column),
        "dct:description": table.role(name) if column is None else _description(column),
    }


def _type(column: Column) -> str:
    return "date" if column.kind == "date" else TYPES.get(column.value_type, "string")


def _description(column: Column) -> str:
    """Return what a variable may be, with the names of its concepts."""
    text = column.description or f"{column.domain()}."
    names = {str(code): label for code, label in (column.labels or {}).items()}
    if not names:
        return text
    listed = "; ".join(f"{code} = {label}" for code, label in [*names.items()][:LISTED])
    return f"{text} {listed}{'; …' if len(names) > LISTED else ''}"
