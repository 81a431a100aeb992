"""The record of a release for OpenDP's registry of deployments of differential privacy.

The form is that of ``schemas/deployments-schema.yaml`` of https://github.com/opendp/deployments-registry-data, of which
``registry.schema.json`` is a copy without its descriptions. Tiers are the registry's: 1 basic, 2 parameters, 3 implementation.
"""

import json
import re
from collections.abc import Collection, Mapping
from functools import lru_cache
from pathlib import Path

from tabsynth._typing import JsonObject
from tabsynth.dossier.answers import read_yaml
from tabsynth.dossier.material import Material
from tabsynth.errors import FileFormatError
from tabsynth.evaluation.claims import items_of, section_of
from tabsynth.privacy.accounting.attackers import percent
from tabsynth.privacy.accounting.attackers import rounded_up as short
from tabsynth.privacy.certificate.certificate import conditional_of

MOST_NAMED = 30
SEVERAL_ROWS = (
    " A unit with several rows has a weaker guarantee, which these parameters do not state."
)
# As version 0.2 wrote it.
FORMER_ROWS = (
    " A unit with several rows has a weaker guarantee: with g rows of at least g times epsilon."
)
# What a program may change in a record without changing what it says of privacy.
FIGURES = (
    ("basic",),
    ("dp_variant", "variant_name"),
    ("privacy_loss", "privacy_unit"),
    ("privacy_loss", "privacy_unit_details"),
    ("privacy_loss", "privacy_parameters"),
    ("deployment_model", "model_name"),
    ("deployment_model", "release_type"),
    ("deployment_model", "data_source_type"),
    ("deployment_model", "access_type"),
    ("implementation", "justification"),
    ("administrative", "registry_authors"),
)


@lru_cache(maxsize=1)
def schema() -> JsonObject:
    """Return the JSON Schema of a record."""
    return dict(json.loads(Path(__file__).with_name("registry.schema.json").read_text("utf-8")))


def slug(name: str, curators: tuple[str, ...], published: str) -> str:
    """Return the address of a record, as the registry's own program makes it."""
    parts = (name, "-".join(curators), published.split("-")[0])
    cleaned = "_".join(re.sub(r"\W+", "_", part.lower()) for part in parts)
    return cleaned.replace("_", "-")


def record(material: Material) -> JsonObject:
    """Return the record of tier 3, ready for YAML."""
    answers, certificate = material.answers, material.certificate
    basic = {
        "name": answers.name,
        "data_curators": list(answers.curators),
        "intended_use": answers.use,
        "data_product_type": "Synthetic data",
        "data_product_region": answers.region,
        "description": answers.description,
        "publication_date": answers.published,
        **({"data_product_sector": answers.sector} if answers.sector else {}),
    }
    epsilon, delta = material.total
    links = [answers.url] if answers.url else []
    sources = "; ".join([*links, *answers.links])
    return {
        "url_slug": slug(answers.name, answers.curators, answers.published),
        "status": "Draft",
        "tier": 3,
        "deployment": {
            "basic": basic,
            "dp_variant": {
                "variant_name": "Approximate DP",
                "data_domain": _domain(material),
                "unprotected_quantities": " ".join(material.exclusions),
            },
            "privacy_loss": {
                "privacy_unit": material.unit,
                "privacy_unit_details": f"{_sentence(certificate['privacy_unit'])} Neighbouring tables:"
                f" {certificate['adjacency']}.{SEVERAL_ROWS if material.by_row else ''}",
                "privacy_parameters": {"epsilon": epsilon, "delta": delta},
                "privacy_parameters_details": _parameters(material),
            },
            "deployment_model": _model(material),
            "accounting": {
                "post_processing": "The tables are sampled from a model that has noised releases only; sampling, and what"
                " holds rules between columns in sampled rows, reads no confidential row.",
                "composition": f"{_sentence(certificate['composition'])} Accountant:"
                f" {section_of(certificate, 'accountant').get('name')}."
                f"{_project(material)}",
            },
            "implementation": {
                "preprocessing_and_hyperparameter_tuning": _preparation(material),
                "mechanisms": _mechanisms(material),
                "justification": answers.justification,
            },
            "administrative": {
                **({"sources": sources} if sources else {}),
                "notes": _notes(material),
                "registry_authors": list(answers.authors),
            },
        },
    }


def read_record(text: str, where: str) -> JsonObject:
    """Return the record of a file, of the registry's form.

    Raises
    ------
    FileFormatError
        Naming the first field that is wrong.
    """
    data = read_yaml(text, where)
    check(data, where)
    return dict(data)


def check(data: object, where: str) -> None:
    """Refuse what the registry's schema does not allow.

    Raises
    ------
    FileFormatError
    """
    from jsonschema import Draft7Validator

    validator = Draft7Validator(schema(), format_checker=Draft7Validator.FORMAT_CHECKER)
    for error in validator.iter_errors(data):
        place = ".".join(map(str, error.absolute_path)) or "its fields"
        raise FileFormatError(f"{where}: {place}: {' '.join(error.message.split())[:160]}.")


def differences(stated: JsonObject, expected: JsonObject) -> list[str]:
    """Return figures and answers of a record that are not those of the certificate and of ``release.yaml``."""
    wrong = []
    for path in FIGURES:
        value, expected_value = (_value(data, ("deployment", *path)) for data in (stated, expected))
        if isinstance(value, str):
            value = value.replace(FORMER_ROWS, SEVERAL_ROWS)
        if value != expected_value:
            wrong.append(".".join(path))
    return wrong


def _value(data: object, path: tuple[str, ...]) -> object:
    """Return the value of a field of a record; None where it has none."""
    for name in path:
        data = data.get(name) if isinstance(data, Mapping) else None
    return data


def _sentence(text: object) -> str:
    words = str(text).strip()
    return f"{words[:1].upper()}{words[1:]}{'' if words.endswith('.') else '.'}"


def _list_names(names: Collection[str]) -> str:
    listed = ", ".join(f"`{name}`" for name in list(names)[:MOST_NAMED])
    return listed + (f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else "")


def _domain(material: Material) -> str:
    columns = sum(len(table.header) for table in material.tables)
    tables = "one table" if len(material.tables) == 1 else f"{len(material.tables)} linked tables"
    return (
        f"{_sentence(material.answers.population)} Tables of any number of rows whose columns ({columns} in {tables}) have the"
        f" categories and bounds of the published schema (schema.json, SHA-256 {material.public.get('schema_sha256')})."
    )


def _parameters(material: Material) -> str:
    bounds = material.bounds
    return (
        f"{_sentence(material.statement)} With all of these files, no attacker's true positive rate of deciding whether a unit is in the"
        f" confidential table exceeds their false positive rate by more than {short(bounds.advantage)} ({bounds.basis}). Odds rise at most"
        f" {short(bounds.odds)}-fold, from 50% to {percent(bounds.posterior(0.5))} at most{bounds.exception_clause}."
    )


def _model(material: Material) -> JsonObject:
    answers = material.answers
    plans = _sentence(answers.plans) if answers.plans else "No further release is announced."
    return {
        "model_name": "Central",
        "model_name_details": "A trusted curator holds the confidential table, fits a generator under differential privacy, and"
        " publishes synthetic tables that were sampled from it.",
        "actors": f"The curator ({', '.join(answers.curators)}) sees the confidential table and is trusted with it."
        f" {_sentence(answers.access)} Everybody else sees the published files only; the guarantee holds against them whatever"
        " else they know, and however many of them share what they know.",
        "release_type": answers.releases,
        "release_type_details": f"{plans}{_project(material)}",
        "data_source_type": answers.data,
        "data_source_type_details": "A fit reads one state of the confidential table.",
        "access_type": "Non-interactive",
        "access_type_details": "Nobody queries the confidential table; the published tables can be used without limit, as"
        " post-processing.",
    }


def _project(material: Material) -> str:
    within = (
        f" All fits and reports under one project ledger are together within {material.project}."
    )
    return within if material.project else ""


def _preparation(material: Material) -> str:
    drafted = conditional_of(material.public)
    facts = "The schema was declared from public sources."
    if material.public.get("released"):
        facts = f"Facts of columns were released by a private draft, which is charged: {_list_names(material.public['released'])}."
    if drafted:
        facts = (
            f"Facts of columns were copied from a table without a charge: {_list_names(drafted)}."
        )
    return (
        f"{_sentence(material.answers.preparation)} {facts} Settings of the method were fixed before the fit; what it derived from"
        " rows is among its mechanisms."
    )


def _mechanisms(material: Material) -> str:
    certificate = material.certificate
    lines = [
        f"Method {certificate['method']} of tabsynth. Mechanisms that read confidential rows:",
        "",
    ]
    lines += [
        "- {purpose}: {count} × {mechanism}, noise: {noise}; sampling: {sampling}".format(**item)
        for item in material.mechanisms
    ]
    versions = ", ".join(f"{k} {v}" for k, v in section_of(certificate, "versions").items())
    noise_of_fit, code = section_of(certificate, "noise"), section_of(certificate, "code")
    lines += [
        "",
        f"Noise: {noise_of_fit.get('generator', 'not stated')}; {noise_of_fit.get('law', 'law not stated')}, against floating-point"
        " attacks.",
        f"Software: {versions}; SHA-256 of the code of tabsynth: {code.get('sha256', 'not stated')}.",
        f"Access to the confidential table: {material.answers.access}",
    ]
    return "\n".join(lines)


def _notes(material: Material) -> str:
    files = ", ".join(f"{table.name} (SHA-256 {table.sha256})" for table in material.tables)
    audits = items_of(material.certificate.get("audit"))
    signed = "The certificate is signed." if material.certificate.get("signature") else ""
    tried = f"Audits attached to the certificate: {len(audits)}." if audits else ""
    return " ".join(part for part in (f"Published files: {files}.", signed, tried) if part)
