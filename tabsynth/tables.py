"""Tables in and out of files, CSV or Parquet by suffix, with the dtypes and nulls of their schema."""

import math
import re
from pathlib import Path
from typing import Any

import narwhals as nw
import numpy as np
import pandas as pd

from tabsynth._dtypes import base_dtype
from tabsynth._files import replacing
from tabsynth._formulas import HANDLINGS, escape_formulas, refuse_formulas, unescaped
from tabsynth._raw_tables import one_line, read_csv_text, read_parquet
from tabsynth._validate import one_of, shown
from tabsynth.columns import Column
from tabsynth.errors import InputError
from tabsynth.schema import DEFAULT_NULL_VALUES, Schema

SUFFIXES = (".csv", ".parquet")
_TRUE, _FALSE = ("True", "true", "TRUE", "1"), ("False", "false", "FALSE", "0")


def suffix(path: str | Path) -> str:
    """``.csv`` or ``.parquet``; anything else is refused."""
    found = Path(path).suffix.lower()
    if found not in SUFFIXES:
        raise InputError(f"{path}: tables are .csv or .parquet files, by their suffix.")
    return found


def to_pandas(table: Any, what: str = "table") -> pd.DataFrame:
    """A pandas DataFrame from any eager DataFrame that narwhals knows (polars, pyarrow, …)."""
    if isinstance(table, pd.DataFrame):
        return table
    try:
        return nw.from_native(table, eager_only=True).to_pandas()
    except TypeError:
        raise InputError(f"The {what} must be a DataFrame, got {type(table).__name__}.") from None


def read_table(path: str | Path, schema: Schema) -> pd.DataFrame:
    """Read a table with the columns, dtypes and null texts of ``schema``.

    Raises
    ------
    InputError
        Naming the column and the value that do not fit.
    """
    frame = read_any(path, schema.null_values)
    as_text = suffix(path) == ".csv"
    if as_text:
        frame.columns = [unescaped(name, schema.names) for name in frame.columns]
    schema.check_columns(frame, str(path))
    series = {c.name: as_declared(c, frame[c.name], as_text) for c in schema.columns}
    return pd.DataFrame(series, columns=list(schema.names))


def read_any(path: str | Path, null_values: tuple[str, ...] = DEFAULT_NULL_VALUES) -> pd.DataFrame:
    """Read a table without a schema; the columns of a CSV file come as text."""
    if suffix(path) == ".parquet":
        return read_parquet(path)
    return read_csv_text(path, null_values)


def as_declared(column: Column, values: pd.Series, as_text: bool = False) -> pd.Series:
    """A column as read from a file, in the dtype that the schema declares."""
    if as_text:
        return parse_text(column, values)
    if str(values.dtype) == column.dtype and column.dtype != "category":
        return values
    found, wanted = base_dtype(str(values.dtype)), base_dtype(column.dtype)
    if wanted == "text" and found != "text":
        return values  # numbers never become texts by themselves: the encoder refuses them by name
    if (found, wanted) == ("float", "int"):
        known = values.dropna()
        for number in known[known % 1 != 0][:1]:
            raise InputError(_no_number(column, number, "a whole number"))
    if column.dtype == "category" and column.other is not None:  # pandas would make nulls of others
        listed = values.isna() | values.isin(list(column.categories))
        values = values.astype(object).where(listed, column.other)
    return with_dtype(column, values.astype(object).to_numpy(), values.isna().to_numpy())


def parse_text(column: Column, texts: pd.Series) -> pd.Series:
    """Texts of one column (nulls as NaN) to the column's dtype.

    A text that is no number where one is declared is refused by column and value; where the column
    declares ``other``, it goes there.
    """
    nulls = texts.isna().to_numpy()
    base = value_base(column)
    known = column.positions
    distinct = {
        text: _parse(column, unescaped(text, known), base) for text in texts[~nulls].unique()
    }
    if column.dtype == "category" and column.other is not None:
        distinct = {t: v if v in known else column.other for t, v in distinct.items()}
    values = np.empty(len(texts), dtype=object)
    values[~nulls] = [distinct[text] for text in texts[~nulls]]
    values[nulls] = None
    return with_dtype(column, values, nulls)


def value_base(column: Column) -> str:
    """What the values of a column are: ``int``, ``float``, ``bool`` or ``text``."""
    base = base_dtype(column.dtype)
    if base != "category" and column.dtype.lower() != "object":
        return base
    kinds = {type(value) for value in column.categories}
    return next((k.__name__ for k in (float, int, bool) if k in kinds), "text")


def _parse(column: Column, text: str, base: str) -> Any:
    try:
        if base in ("int", "float"):
            number = float(text)
            # Python also reads 1_000, nan and inf, which no table means as a number.
            if "_" in text or math.isnan(number) or math.isinf(number):
                raise ValueError
            if base == "float":
                return number
            if number != int(number):
                raise ValueError
            return int(text) if re.fullmatch(r"[+-]?\d+", text.strip()) else int(number)
        if base == "bool":
            if text not in _TRUE + _FALSE:
                raise ValueError
            return text in _TRUE
        return text
    except (ValueError, OverflowError):
        if column.other is not None:
            return column.other
        kind = {"int": "a whole number", "float": "a number", "bool": "true or false"}[base]
        raise InputError(_no_number(column, text, kind)) from None


def _no_number(column: Column, value: Any, kind: str) -> str:
    return (
        f"Column {shown(column.name)}: {shown(value)} is not {kind}; correct it, or add it to"
        " the schema's null_values if it stands for a missing value."
    )


def with_dtype(column: Column, values: np.ndarray, nulls: np.ndarray) -> pd.Series:
    """A Series of the column's dtype from Python values; ``nulls`` is a mask, shape (n,)."""
    if nulls.any() and not column.nulls:
        raise InputError(nulls_refused(column))
    filled = values.copy()
    filled[nulls] = np.nan if base_dtype(column.dtype) == "float" else None
    series = pd.Series(filled, dtype="object", name=column.name)
    if column.dtype == "category":
        return series.astype(_categories_of(column, series))
    try:
        return series.astype(column.dtype)
    except (TypeError, ValueError, OverflowError) as error:
        raise InputError(
            f"Column {shown(column.name)} does not fit dtype {column.dtype}: {one_line(error)};"
            " correct the value, or declare another dtype."
        ) from None


def _categories_of(column: Column, series: pd.Series) -> pd.CategoricalDtype:
    """The dtype of a category column; refuses the values that pandas would turn into nulls."""
    for value in series.dropna().unique():
        if value not in column.categories:
            raise InputError(outside(column, value))
    return pd.CategoricalDtype(list(column.categories), ordered=column.kind == "ordinal")


def outside(column: Column, value: Any) -> str:
    """The one line for a value outside the declared categories."""
    return (
        f"Column {shown(column.name)}: {shown(value)} is outside its declared categories; correct"
        " it, declare it in the schema, or declare an 'other' category to take such values."
    )


def nulls_refused(column: Column) -> str:
    """The one line for a null where the schema allows none."""
    return (
        f"Column {shown(column.name)} has a null, and the schema allows none there; fill it, or"
        " declare nulls=true."
    )


def write_table(table: pd.DataFrame, path: str | Path, *, formulas: str = "refuse") -> None:
    """Write a table as CSV or Parquet by suffix, whole or not at all.

    ``attrs`` are not written: a certificate belongs in a file of its own, beside the table and with its hash
    (:meth:`tabsynth.MargNet.sample_to`).

    Parameters
    ----------
    table : DataFrame
    path : path
    formulas : {"refuse", "escape", "keep"}
        What becomes of texts in a CSV file that a spreadsheet would run as formulas: they begin with
        ``= + - @``, a tab or a line break, and are no plain numbers. ``refuse``: the table is not
        written. ``escape``: an apostrophe comes before them; :func:`read_table` takes it off again.
        ``keep``: they are written as they are.

    Raises
    ------
    InputError
    """
    kind = suffix(path)
    one_of("formulas", formulas, HANDLINGS)
    if kind == ".csv" and formulas == "refuse":
        refuse_formulas(table)
    if kind == ".csv" and formulas == "escape":
        table = escape_formulas(table)
    with replacing(path) as temporary:
        if kind == ".csv":
            table.to_csv(temporary, index=False, na_rep="")
        else:
            bare = table.copy(deep=False)
            bare.attrs = {}  # pandas would write them into the file, unsigned
            bare.to_parquet(temporary, engine="pyarrow", index=False)
