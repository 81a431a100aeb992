"""Numeric columns ⇄ value numbers: the cells between declared bounds, null last."""

import numpy as np
import pandas as pd

from tabsynth._validate import shown
from tabsynth.errors import InputError
from tabsynth.schema import Column, base_dtype
from tabsynth.tables import nulls_refused, with_dtype


def to_index(column: Column, values: pd.Series) -> np.ndarray:
    """The cell of each value, null last; shape (n,) int64. Row by row (R3).

    Raises
    ------
    InputError
        Naming the column and the value: not a number, infinite, or outside the declared bounds
        (unless ``clip``).
    """
    if base_dtype(str(values.dtype)) not in ("int", "float"):
        found = values.dropna()
        shown_value = shown(found.iloc[0]) if len(found) else str(values.dtype)
        raise InputError(
            f"Column {shown(column.name)} holds {shown_value} where the schema declares numbers;"
            " read the file with tabsynth.read_table, or convert the column with astype."
        )
    numbers = values.to_numpy(dtype=np.float64, na_value=np.nan)
    nulls = np.isnan(numbers)
    if nulls.any() and not column.nulls:
        raise InputError(nulls_refused(column))
    assert column.low is not None and column.high is not None
    known = np.where(nulls, column.low, numbers)
    bad = np.isinf(known) if column.clip else (known < column.low) | (known > column.high)
    if bad.any():
        value = known[bad.argmax()]
        raise InputError(
            f"Column {shown(column.name)}: {value:g} is outside its declared bounds"
            f" [{column.low:g}, {column.high:g}]; correct it, widen the bounds, or declare"
            " clip=true."
        )
    known = np.clip(known, column.low, column.high)
    edges = column.edges()
    cells = np.clip(np.searchsorted(edges, known, side="right") - 1, 0, len(edges) - 2)
    return np.where(nulls, len(edges) - 1, cells).astype(np.int64)


def from_index(column: Column, index: np.ndarray, rng: np.random.Generator) -> pd.Series:
    """Uniform draws within each cell, on the declared resolution; a Series of the column's dtype."""
    assert column.low is not None and column.high is not None
    edges = column.edges()
    nulls = index == len(edges) - 1
    cell = np.where(nulls, 0, index)
    left, right = edges[cell], edges[cell + 1]
    step = column.step
    if step is None:
        numbers = left + (right - left) * rng.random(len(index))
        numbers = np.minimum(numbers, np.nextafter(right, -np.inf))
        numbers = np.where(cell == len(edges) - 2, np.minimum(numbers, column.high), numbers)
    else:
        first = np.round((left + step / 2 - column.low) / step)
        count = np.round((right - left) / step)
        rank = first + np.floor(rng.random(len(index)) * count)
        # Decimal rounding takes off the dust of step * rank, e.g. 0.1 * 3.
        numbers = np.round(column.low + step * rank, 12)
        numbers = np.clip(numbers, column.low, column.high)
    if base_dtype(column.dtype) == "int":
        whole = np.empty(len(index), dtype=object)
        whole[:] = [int(number) for number in np.round(numbers)]
        return with_dtype(column, whole, nulls)
    return with_dtype(column, numbers.astype(object), nulls)
