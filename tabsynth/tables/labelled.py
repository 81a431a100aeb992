"""Rows of labelled SPSS (.sav) and Stata (.dta) files, and the labels of their values, through pyreadstat."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd

from tabsynth._validate import MAX_COLUMNS
from tabsynth.errors import InputError, one_line
from tabsynth.schema.importers.labelled import declarations
from tabsynth.schema.schema import Schema
from tabsynth.tables.limits import Limits

SUFFIXES = (".sav", ".dta")
# From the type that the file declares for a variable to a dtype that holds each of its values and a null.
_DTYPES = {
    "int8": "Int8",
    "int16": "Int16",
    "int32": "Int32",
    "float": "float32",
    "double": "float64",
}
_TEXT = 8  # bytes that a variable without a stated width takes


def read_labelled(path: str | Path, ending: str, null_values: tuple[str, ...]) -> pd.DataFrame:
    """Read the codes of a file, not their labels; user-defined missing values and ``null_values`` are nulls.

    Dtypes follow from the types that the file declares.

    Raises
    ------
    InputError
    """
    limits = Limits(path)
    try:
        import pyreadstat
    except ImportError:
        raise InputError(
            f"{path}: SPSS and Stata files need pyreadstat; install it with pip install 'tabsynth[labelled]'."
        ) from None
    read = pyreadstat.read_sav if ending == ".sav" else pyreadstat.read_dta
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
        most = min(limits.bytes // max(1, width), limits.cells // max(1, len(about.column_names)))
        frame, about = read(str(path), row_limit=most + 1)
    except InputError:
        raise
    except Exception as error:  # pyreadstat has no common base for "this is no such file"
        raise InputError(f"{path} cannot be read: {one_line(error).rstrip('.')}.") from None
    if len(frame) > most:
        limits.check(unpacked=limits.bytes + 1)
    nulls = list({"", *null_values})
    columns = {
        j: _declared(frame.iloc[:, j], about.readstat_variable_types[name], nulls)
        for j, name in enumerate(about.column_names)
    }
    return pd.DataFrame(columns, index=frame.index).set_axis(list(about.column_names), axis=1)


def _declared(values: pd.Series, declared: str, nulls: list[str]) -> pd.Series:
    """A column in the dtype of the declared type; dates and times of day as ISO 8601 texts."""
    if declared == "string":
        texts = values.astype("str")
        return texts.where(~texts.isin(nulls))
    if pd.api.types.is_numeric_dtype(values.dtype):
        return values.astype(_DTYPES.get(declared, "float64"))
    if pd.api.types.is_datetime64_dtype(values.dtype):
        return values.astype("datetime64[us]")
    return values.map(str, na_action="ignore").astype("str")  # ISO 8601


def with_labels(schema: Schema, path: Path) -> Schema:
    """The schema with the descriptions of a file's variables and the labels of their listed values."""
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
        kept = {value: text for value, text in listed.items() if text is not None}
        columns.append(replace(column, labels=kept, description=facts.get("description")))
    return replace(schema, columns=tuple(columns))


def _code(value: Any) -> str:
    """A category as the labels of a file name it: 1.0 as 1."""
    return str(int(value) if isinstance(value, float) and value.is_integer() else value)
