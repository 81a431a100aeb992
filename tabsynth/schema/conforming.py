"""Tables made to fit columns that a private draft released.

Such a draft promises nothing for every row: a value may be of another kind than most, or one that was not released.
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from tabsynth.schema.categorical import Ordinal
from tabsynth.schema.cells import base_dtype, texts_of
from tabsynth.schema.column import Column
from tabsynth.schema.hierarchical import Hierarchical
from tabsynth.schema.missing import convert_values
from tabsynth.schema.number_texts import numbers_of
from tabsynth.schema.numeric import Numeric
from tabsynth.schema.schema import Schema
from tabsynth.schema.temporal import Temporal
from tabsynth.tables.frames import to_pandas


def truths_of(values: pd.Series) -> np.ndarray:
    """Return values as 1 and 0, shape (n,), NaN for what is no truth value."""
    if base_dtype(str(values.dtype)) == "bool":
        return values.astype("boolean").to_numpy(dtype=float, na_value=np.nan)
    lower = values.astype(object).map(lambda v: str(v).strip().lower())
    return np.where(lower == "true", 1.0, np.where(lower == "false", 0.0, np.nan))


def conform(table: object, schema: Schema) -> pd.DataFrame:
    """Return a table whose released columns hold declared values only; what a row becomes depends on that row alone.

    Of a released column a draft promises nothing for every row: a value that is none of its kind becomes null, or
    where the column has no nulls its lower bound or its category ``other``.
    """
    frame = to_pandas(table)
    released = {c.name: c for c in schema.columns if c.provenance == "released"}
    if not released:
        return frame
    series = {
        i: _conform_column(released[name], frame.iloc[:, i], schema.null_values, schema.decimal)
        if name in released
        else frame.iloc[:, i]
        for i, name in enumerate(map(str, frame.columns))
    }
    return pd.DataFrame(series, index=frame.index).set_axis(frame.columns, axis=1)


def _conform_column(
    column: Column, values: pd.Series, nulls: Sequence[str], decimal: str | None
) -> pd.Series:
    return convert_values(
        column, values, lambda others: _conform_values(column, others, nulls, decimal)
    )


def _conform_values(
    column: Column, values: pd.Series, nulls: Sequence[str], decimal: str | None
) -> pd.Series:
    """Return values without reasons for missing as :func:`conform` does."""
    if isinstance(column, Numeric):
        numbers = numbers_of(values, nulls, decimal or column.decimal)
        if not column.nulls:
            numbers = np.where(np.isnan(numbers), column.bounds[0], numbers)
        return column.from_amounts(numbers).set_axis(values.index)
    if isinstance(column, Temporal):
        present = values
        if base_dtype(str(values.dtype)) in ("text", "category"):
            present = values.where(~values.isin(list(nulls)))
        amounts = column.amounts(present)
        if not column.nulls:
            amounts = np.where(np.isnan(amounts), column.units.bounds[0], amounts)
        return column.from_amounts(amounts).set_axis(values.index)
    if column.value_type == "bool":
        truths = truths_of(values)
        if not column.nulls:
            truths = np.where(np.isnan(truths), 0.0, truths)
        cells = np.array([None if np.isnan(t) else bool(t) for t in truths], dtype=object)
        return column.to_series(cells, np.isnan(truths)).set_axis(values.index)
    if isinstance(column, Ordinal) and column.value_type in ("int", "float"):
        return _nearest(column, values, numbers_of(values, nulls, decimal))
    texts = texts_of(values)
    null_texts = frozenset(nulls)
    missing = values.isna().to_numpy() | np.array([t in null_texts for t in texts], dtype=bool)
    if isinstance(column, Hierarchical):
        present = pd.Series(texts, dtype=object).mask(missing, column.other)
        texts = column.convert(present).to_numpy(dtype=object)
    positions = column.positions
    if column.value_type == "int":
        texts = numbers_of(values, nulls, decimal).astype(object)
        texts = np.array([int(t) if t == t and t == int(t) else None for t in texts], dtype=object)
    texts = np.array([t if t in positions else column.other for t in texts], dtype=object)
    if not column.nulls:
        texts[missing] = column.other
    return column.to_series(texts, missing & column.nulls).set_axis(values.index)


def _nearest(column: Ordinal, values: pd.Series, numbers: np.ndarray) -> pd.Series:
    """Return the listed number that is nearest to each; the first one for what is no number, if the column has no nulls."""
    listed = np.array(column.categories, dtype=float)
    places = np.searchsorted((listed[1:] + listed[:-1]) / 2, numbers)
    missing = np.isnan(numbers)
    places[missing] = 0
    nearest = np.array(column.categories, dtype=object)[places]
    return column.to_series(nearest, missing & column.nulls).set_axis(values.index)
