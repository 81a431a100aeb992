"""A first schema, read off a table, and the list of what a person must review in it.

Everything here looks at the table itself, so a drafted schema is not public: its columns carry the
provenance ``drafted`` until a person has replaced what they say by facts from a public source.

A draft limits what it copies. Columns that identify people or records are left out
(:mod:`tabsynth.drafting.identifiers`); a category is listed only if at least ``min_count`` rows have it; a bound,
a break or a resolution does not follow fewer rows than that. This is no differential privacy.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import singledispatch

import numpy as np
import pandas as pd

from tabsynth._validate import integer, quote
from tabsynth.drafting.catalogue import catalogue
from tabsynth.drafting.categories import draft_categorical, draft_ordinal, review_categorical
from tabsynth.drafting.formats import (
    DECIMALS,
    MOST_WORDS,
    NUMBERS,
    REAL,
    WORDS,
    decimal_of,
    format_counts,
    without_marks,
    without_times,
)
from tabsynth.drafting.identifiers import identifying_categories, identifying_name, reason_of_name
from tabsynth.drafting.numbers import draft_numeric, review_numeric
from tabsynth.drafting.source import DraftSource, LeftOut
from tabsynth.drafting.summary import group_reasons
from tabsynth.drafting.times import (
    draft_date,
    draft_datetime,
    draft_duration,
    draft_period,
    draft_time,
    review_temporal,
)
from tabsynth.errors import InputError
from tabsynth.schema.categorical import Categorical
from tabsynth.schema.cells import base_dtype, with_nulls
from tabsynth.schema.column import Column, check_dtype
from tabsynth.schema.hierarchical import Hierarchical
from tabsynth.schema.linked import SchemaLike, read_table_schema
from tabsynth.schema.number_texts import number_format, numbers_of, with_mark
from tabsynth.schema.numeric import Numeric
from tabsynth.schema.schema import DEFAULT_NULL_VALUES, Schema, duplicates
from tabsynth.schema.temporal import Temporal
from tabsynth.tables.frames import declared_types, to_pandas

MIN_COUNT = 10  # rows that a category must have to be listed


def draft_schema(
    table: object,
    null_values: Sequence[str] = DEFAULT_NULL_VALUES,
    min_count: int = MIN_COUNT,
    decimal: str | None = None,
) -> Schema:
    """Draft a schema from a table; texts that are all numbers become numbers.

    Parameters
    ----------
    table : DataFrame
        Of pandas, or any that narwhals reads.
    null_values : sequence of str
        Texts that mean null in CSV files.
    min_count : int
        Number of rows that a category must have to be listed. Rarer ones become ``other``; a column of
        which no category has so many rows is left out, and so is a numeric column with fewer than twice
        as many values. With 1 every category is listed, and bounds are exact extremes: of public tables
        only.
    decimal : {".", ","}, optional
        The decimal mark of texts that are numbers. By default the one that more of them show.

    Returns
    -------
    Schema
        Columns that identify people or records are not among its columns but in ``left_out``, each with
        the reason.

    Raises
    ------
    InputError
        For an empty table, duplicate columns or an unsupported dtype, and if every column would be left
        out, as columns without any value are.
    """
    integer("min_count", min_count)
    frame = to_pandas(table)
    for name in duplicates([str(name) for name in frame.columns]):
        raise InputError(f"The table has column {quote(name)} twice; rename or drop one.")
    if len(frame) == 0 or len(frame.columns) == 0:
        raise InputError("The table has no rows; give one with at least one row.")
    columns: list[Column] = []
    left_out: list[dict[str, str]] = []
    mark = _decimal_mark(frame) if decimal is None else decimal
    of_file = bool(declared_types(frame))  # which has nullable dtypes, with nulls or without
    for label in frame.columns:
        values = _numpy_dtype(frame[label]) if of_file else frame[label]
        try:
            columns.append(_draft(str(label), values, tuple(null_values), min_count, mark))
        except LeftOut as reason:
            left_out.append({"name": str(label), "reason": str(reason)})
    if not columns:
        first = left_out[0]
        raise InputError(
            f"The draft leaves out every column of the table, {quote(first['name'])} because"
            f" {first['reason']}; declare by hand the columns that may be learned."
        )
    return Schema(columns, null_values, left_out=left_out, decimal=mark)


def draft_public(values: pd.Series) -> Column:
    """Return a column as drafted from a table that is public: every value is listed, whatever it looks like."""
    return _column(str(values.name), values, DEFAULT_NULL_VALUES, 1)


def review(schema: SchemaLike) -> list[str]:
    """Return what a person must check in a drafted schema, a line each; columns that were left out come first.

    No line shows a value of a column that was left out. The schema may be given as a dict or the path of its file.
    """
    schema = read_table_schema(schema)
    out = [
        f"{line}. To use it, declare the column by hand." for line in group_reasons(schema.left_out)
    ]
    grouped = [c.name for c in schema.columns if c.provenance == "drafted" and c.other is not None]
    if grouped:
        out.append(
            f"Values of few rows are not listed, and taken together as 'other', in {len(grouped)} of the"
            f" columns: {', '.join(map(quote, grouped))}."
        )
    if schema.decimal is not None and schema.drafted:
        out.append(
            f"Texts such as 1,234 and 1.234 are read with {quote(schema.decimal)} as the decimal mark; if that is wrong,"
            " draft again with --decimal."
        )
    for column in schema.columns:
        if column.provenance == "drafted":
            out += review_column(column)
    return out


def _numpy_dtype(values: pd.Series) -> pd.Series:
    """Return whole numbers and truth values without a null in numpy's dtypes."""
    dtype = str(values.dtype)
    nullable = dtype == "boolean" or re.fullmatch(r"U?Int\d+", dtype)
    if not nullable or values.isna().any():
        return values
    return values.astype("bool" if dtype == "boolean" else dtype.lower())


def _draft(
    name: str, values: pd.Series, null_values: Sequence[str], min_count: int, decimal: str | None
) -> Column:
    """Return a column of a table, or why it is left out."""
    if (reason := reason_of_name(name)) is not None:
        raise LeftOut(reason)
    if not values.notna().any():
        raise LeftOut("all of its values are missing")
    if len({isinstance(value, str) for value in values.dropna().astype(object)}) > 1:
        raise LeftOut("some of its values are texts, and some are not")
    column = _column(name, values, null_values, min_count, leave_out=True, decimal=decimal)
    reason = identifying(column)
    if reason is not None:
        raise LeftOut(reason)
    return column


def _column(
    name: str,
    values: pd.Series,
    null_values: Sequence[str],
    min_count: int,
    leave_out: bool = False,
    decimal: str | None = None,
) -> Column:
    """Return a column of the kind that takes the values; the arguments are those of :class:`DraftSource`."""
    present = values.dropna().reset_index(drop=True)
    if any(isinstance(value, list | dict | np.ndarray) for value in present.head(1)):
        raise InputError(f"Column {quote(name)} holds lists or records; unfold it into columns.")
    nulls, written = bool(values.isna().any()), "{}"
    if len(present) == 0:
        raise InputError(
            f"Column {quote(name)} holds only nulls; drop it, or declare its categories by hand."
        )
    words: dict[str, int] = {}
    if base_dtype(str(values.dtype)) == "text":
        present = texts = present.infer_objects()
        numbers = _numbers(texts, name, decimal)
        if numbers is not None and (leave_out or len(numbers) == len(texts)):
            present = numbers
            words = texts.drop(present.index).value_counts().sort_index().to_dict()
            formats = set(map(number_format, texts[present.index].unique()))
            written = formats.pop() if len(formats) == 1 else written
    dtype = str(present.dtype) if present.dtype != values.dtype else str(values.dtype)
    if nulls:
        dtype = with_nulls(dtype)
    check_dtype(dtype, f"column {quote(name)}")
    source = DraftSource(
        name=name,
        values=present,
        dtype=dtype,
        nulls=nulls,
        null_values=null_values,
        min_count=min_count,
        leave_out=leave_out,
        format=with_mark(written, decimal),
        words=words,
    )
    if words:
        if source.time_format is None and (column := draft_numeric(source)) is not None:
            return column
        source = replace(source, values=texts, dtype=str(values.dtype), format="{}", words={})
    drafts = (draft(source) for draft in reversed(DRAFTS.values()))
    column = next((draft for draft in drafts if draft is not None), None)
    if column is None:
        raise InputError(f"No kind of column takes {quote(name)}, of dtype {dtype}; drop it.")
    return column


def _decimal_mark(table: pd.DataFrame) -> str | None:
    """Return the decimal mark of the columns whose texts are all numbers; None where these leave it open."""
    texts = (
        table[name].dropna() for name in table if base_dtype(str(table.dtypes[name])) == "text"
    )
    counts = {str(values.name): format_counts(values, str(values.name)) for values in texts}
    return decimal_of({name: c for name, c in counts.items() if _are_numbers(c, None)}, 0.0)


def _are_numbers(counts: Mapping[str, float], decimal: str | None) -> bool:
    """Return whether all values are numbers, but for words that at most half of the rows have, by their formats."""
    numbers = without_times(without_marks(counts, decimal, 0.0))
    words, rows = sum(counts[form] for form in WORDS), sum(counts.values())
    return words < MOST_WORDS * rows and sum(numbers[form] for form in NUMBERS) + words == rows


def _numbers(texts: pd.Series, name: str, decimal: str | None) -> pd.Series | None:
    """Return texts as numbers, without words among them; None if any other is no number, a code, has leading zeros or is long."""
    if not all(isinstance(value, str) for value in texts) or catalogue().names_code(name):
        return None
    counts = format_counts(texts, name)
    if not _are_numbers(counts, decimal):
        return None
    numbers = pd.Series(numbers_of(texts, (), decimal or "."), texts.index).dropna()
    fractions = without_marks(counts, decimal, 0.0)
    is_whole = not any(fractions[form] for form in (*DECIMALS, REAL))
    return numbers.astype("int64") if is_whole else numbers


# By kind: a column from a table's column; None where its values are not of the kind. The last one is tried first.
DRAFTS: dict[str, Callable[[DraftSource], Column | None]] = {
    "categorical": draft_categorical,
    "ordinal": draft_ordinal,
    "numeric": draft_numeric,
    "period": draft_period,
    "duration": draft_duration,
    "time": draft_time,
    "datetime": draft_datetime,
    "date": draft_date,
}


@singledispatch
def review_column(column: Column) -> list[str]:
    """Return what a person must check in a draft of the column, a line each."""
    return [f"{quote(column.name)}: {column.domain()} in this table; declare the public domain."]


review_column.register(Categorical, review_categorical)
review_column.register(Numeric, review_numeric)
review_column.register(Temporal, review_temporal)


@review_column.register
def _(column: Hierarchical) -> list[str]:
    return [f"{quote(column.name)}: {len(column.codes)} codes; list those of the codebook."]


def identifying(column: Column) -> str | None:
    """Return why a column seems to identify people or records, in a clause without a value; None if it does not."""
    listed = column.categories if isinstance(column, Categorical) else ()
    return identifying_name(column) or identifying_categories(column.name, listed, column.other)
