"""The hospital table as it comes: all 50 columns, identifiers and ICD-9 codes included."""

import pandas as pd
from tables import ROOT, data_file

from tabsynth import Hierarchical, Identifier, Schema, read_table
from tabsynth.datasets.shipped import DIAGNOSES, IDENTIFIERS
from tabsynth.schema.column import Column
from tabsynth.schema.schema import DEFAULT_NULL_VALUES
from tabsynth.tables.files import read_any

FILE = "diabetes_hospital_5000.csv"
NULLS = (*DEFAULT_NULL_VALUES, "?")  # as of --null "?"
ICD9 = "ICD-9-CM: three-character categories, and the subclassification of diabetes"


def icd9_codes() -> tuple[str, ...]:
    """Three-character categories 1 to 999, V01 to V91 and E800 to E999, and all codes below 250."""
    diabetes = [f"250.{kind}{control}" for kind in range(10) for control in ("", *range(4))]
    numbers = [str(number) for number in range(1, 1000)]
    external = [f"E{number}" for number in range(800, 1000)]
    return (*numbers, *diabetes, *(f"V{number:02}" for number in range(1, 92)), *external)


def schema() -> Schema:
    """The declared schema of data/, with identifiers that are never read and diagnoses as codes in a hierarchy."""
    public = Schema.load(ROOT / "data" / "hospital.schema.json")
    identifiers = [Identifier(name=name, dtype="int64") for name in IDENTIFIERS]
    return Schema([*identifiers, *map(_with_codes, public.columns)], public.null_values)


def _with_codes(column: Column) -> Column:
    if column.name not in DIAGNOSES:
        return column
    codes = (*icd9_codes(), "other")
    return Hierarchical(
        name=column.name, dtype="str", nulls=True, codes=codes, levels=(1, 3), shorten=True, other="other", source=ICD9,
    )  # fmt: skip


def texts(train: pd.DataFrame) -> pd.DataFrame:
    """Some of the rows with all 50 columns, as the file has them."""
    return read_any(data_file(FILE), NULLS).loc[train.index]


def rows(declared: Schema) -> pd.DataFrame:
    """All rows of the file, read as a user reads them."""
    return read_table(data_file(FILE), declared)
