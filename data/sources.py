"""The source tables of the tables that ship, in the form of their public schemas."""

import re
from pathlib import Path

import pandas as pd

from tabsynth import InputError, Schema
from tabsynth._validate import quote
from tabsynth.tables.files import read_any

IDENTIFIERS = ("encounter_id", "patient_nbr")
DIAGNOSES = ("diag_1", "diag_2", "diag_3")

# First and last ICD-9 category of each group: Strack et al. 2014, "Impact of HbA1c measurement on
# hospital readmission rates", BioMed Research International 2014, 781670, Table 2.
_ICD9 = (
    (140, 239, "Neoplasms"),
    (250, 250, "Diabetes"),
    (390, 459, "Circulatory"),
    (460, 519, "Respiratory"),
    (520, 579, "Digestive"),
    (580, 629, "Genitourinary"),
    (710, 739, "Musculoskeletal"),
    (785, 785, "Circulatory"),
    (786, 786, "Respiratory"),
    (787, 787, "Digestive"),
    (788, 788, "Genitourinary"),
    (800, 999, "Injury"),
)


def prepare_census(path: str | Path, schema: Schema) -> pd.DataFrame:
    """Return the schema's columns of a NIST ACS Data Excerpts file, other columns left out."""
    return _as_table(read_any(path, schema.null_values), path, schema)


def prepare_hospital(path: str | Path, schema: Schema) -> pd.DataFrame:
    """Return the UCI hospital table without its identifiers, diagnoses recoded to nine groups."""
    raw = read_any(path, schema.null_values)
    for name in DIAGNOSES:
        if name in raw.columns:
            groups = {code: icd9_group(code) for code in raw[name].dropna().unique()}
            raw[name] = raw[name].map(groups)
    return _as_table(raw.drop(columns=list(IDENTIFIERS), errors="ignore"), path, schema)


def _as_table(raw: pd.DataFrame, path: str | Path, schema: Schema) -> pd.DataFrame:
    for name in schema.names:
        if name not in raw.columns:
            raise InputError(
                f"{path} lacks column {quote(name)}; is it the published source table?"
            )
    return pd.DataFrame({c.name: c.parse(raw[c.name]) for c in schema.columns})


def icd9_group(code: str) -> str:
    """Return the group of an ICD-9 code, by Table 2 of Strack et al. 2014.

    Supplementary codes (V, E) and everything outside the listed ranges are ``Other``.

    Examples
    --------
    >>> icd9_group("250.83"), icd9_group("428"), icd9_group("V27"), icd9_group("8")
    ('Diabetes', 'Circulatory', 'Other', 'Other')
    """
    match = re.fullmatch(r"(\d{1,3})(\.\d*)?", code.strip())
    number = int(match[1]) if match else -1
    return next((group for low, high, group in _ICD9 if low <= number <= high), "Other")
