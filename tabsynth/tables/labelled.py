"""Rows of labelled SPSS (.sav) and Stata (.dta) files, and the labels of their values, through pyreadstat."""

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from tabsynth._validate import MAX_COLUMNS
from tabsynth.errors import InputError, one_line
from tabsynth.schema.importers.labelled import declarations, reader
from tabsynth.schema.schema import Schema
from tabsynth.tables.limits import Limits

if TYPE_CHECKING:
    from pyreadstat import metadata_container

SUFFIXES = (".sav", ".dta")
# From the type that the file declares for a variable to a dtype that holds each of its values and a null.
_DTYPES = {
    "int8": "Int8",
    "int16": "Int16",
    "int32": "Int32",
    "float": "float32",
    "double": "float64",
}
# Formats of SPSS and Stata with which pyreadstat gives dates and times in place of numbers.
_INSTANTS = re.compile(r"(DATETIME|YMDHMS)[\d.]*|%t[cC]")
_DAYS_OR_CLOCKS = re.compile(
    r"([AEJS]?DATE|D?TIME)[\d.]*|%d|%td|%tdD_m_Y|%tdCCYY-NN-DD|%tcHH:MM(:SS)?"
)
_TEXT = 8  # bytes that a variable without a stated width takes


def read_labelled(path: str | Path, ending: str, null_values: tuple[str, ...]) -> pd.DataFrame:
    """Read the codes of a file, not their labels; user-defined missing values and ``null_values`` are nulls.

    Dtypes follow from the types that the file declares.

    Raises
    ------
    InputError
    """
    limits, read = Limits(path), reader(path, ending == ".sav")
    try:
        _, about = read(str(path), metadataonly=True)
        width = sum(
            max(_TEXT, about.variable_storage_width.get(n) or 0) for n in about.column_names
        )
        if len(about.column_names) > MAX_COLUMNS:
            raise InputError(
                f"{path} has {len(about.column_names):,} columns; at most {MAX_COLUMNS:,} are read."
            )
        # The number of rows that a file states may be missing, or wrong.
        row_limit = min(
            limits.bytes // max(1, width), limits.cells // max(1, len(about.column_names))
        )
        frame, about = read(str(path), row_limit=row_limit + 1)
        nulls = list({"", *null_values})
        columns = {
            j: _in_declared_dtype(frame.iloc[:, j], about, nulls) for j in range(frame.shape[1])
        }
    except InputError:
        raise
    except Exception as error:  # pyreadstat has no common base for "this is no such file"
        raise InputError(f"{path} cannot be read: {one_line(error).rstrip('.')}.") from None
    if len(frame) > row_limit:
        limits.check(unpacked=limits.bytes + 1)
    return pd.DataFrame(columns, index=frame.index).set_axis(list(about.column_names), axis=1)


def _in_declared_dtype(
    values: pd.Series, about: "metadata_container", nulls: list[str]
) -> pd.Series:
    """Return a column in the dtype of its declared type and format; dates and times of day as ISO 8601 texts.

    pyreadstat gives objects where a whole number or a time is missing, so the dtype that it gives says nothing.
    """
    declared = about.readstat_variable_types[values.name]
    form = about.original_variable_types[values.name] or ""
    if declared.startswith("string"):
        texts = values.astype("str")
        return texts.where(~texts.isin(nulls))
    if _INSTANTS.fullmatch(form):
        return values.astype("datetime64[us]")
    if _DAYS_OR_CLOCKS.fullmatch(form):
        return values.map(str, na_action="ignore").astype("str")  # ISO 8601
    return values.astype(_DTYPES.get(declared, "float64"))


def with_labels(schema: Schema, path: Path) -> Schema:
    """Return the schema with the descriptions of a file's variables and the labels of their listed values, if the file has such.

    They are facts of a file of SPSS or Stata, as names are.
    """
    if path.suffix.lower() not in SUFFIXES:
        return schema
    with open(path, "rb") as file:
        head = file.read(16)
    stated: dict[str, Mapping[str, Any]] = {
        item.name: item.facts for item in declarations(path, head)
    }
    columns = []
    for column in schema.columns:
        facts = stated.get(column.name, {})
        labels = facts.get("labels", {})
        listed = {str(value): labels.get(_code(value)) for value in column.categories}
        labelled = {value: text for value, text in listed.items() if text is not None}
        columns.append(replace(column, labels=labelled, description=facts.get("description")))
    return schema.replace(columns=columns)


def _code(value: object) -> str:
    """Return a category as the labels of a file name it: 1.0 as 1."""
    return str(int(value) if isinstance(value, float) and value.is_integer() else value)
