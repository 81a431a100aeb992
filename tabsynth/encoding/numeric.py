"""Numeric columns ⇄ value numbers: the cells between declared bounds, null last."""

from numbers import Real

import numpy as np
import pandas as pd

from tabsynth._dtypes import base_dtype
from tabsynth._validate import shown
from tabsynth.columns import Column
from tabsynth.encoding.steps import Runs, numbers_at, steps_of_cells
from tabsynth.errors import InputError
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
        # Value by value: unique() would take True for 1.0 where a row holds that as well.
        wrong = [value for value in values.dropna() if not _is_number(value)]
        if wrong:
            raise InputError(
                f"Column {shown(column.name)} holds {shown(wrong[0])} where the schema declares"
                " numbers; read the file with tabsynth.read_table, or convert the column with"
                " astype."
            )
        values = values.astype(object).where(values.notna(), np.nan)
    try:
        numbers = values.to_numpy(dtype=np.float64, na_value=np.nan)
    except OverflowError:
        raise InputError(
            f"Column {shown(column.name)} holds an integer beyond any float, of more than 300 digits;"
            " correct it."
        ) from None
    nulls = np.isnan(numbers)
    if nulls.any() and not column.nulls:
        raise InputError(nulls_refused(column))
    assert column.low is not None and column.high is not None
    known = np.where(nulls, column.low, numbers)
    low, high = _bounds(column, str(values.dtype))
    bad = np.isinf(known) if column.clip else (known < low) | (known > high)
    if bad.any():
        value = known[bad.argmax()]
        raise InputError(
            f"Column {shown(column.name)}: {value:g} is outside its declared bounds"
            f" [{column.low:g}, {column.high:g}]; correct it, widen the bounds, or declare"
            " clip=true."
        )
    if base_dtype(column.dtype) == "int" and (known % 1 != 0).any():
        value = known[(known % 1 != 0).argmax()]
        raise InputError(
            f"Column {shown(column.name)}: {value:g} is no whole number, and the schema declares dtype"
            f" {column.dtype}; round it, or declare float64."
        )
    known = np.clip(known, column.low, column.high)
    edges = column.edges()
    cells = np.clip(np.searchsorted(edges, known, side="right") - 1, 0, len(edges) - 2)
    return np.where(nulls, len(edges) - 1, cells).astype(np.int64)


def _bounds(column: Column, dtype: str) -> tuple[float, float]:
    """The declared bounds as a table of ``dtype`` has them: 0.1 is a little more in float32."""
    assert column.low is not None and column.high is not None
    if dtype.lower() not in ("float16", "float32"):
        return column.low, column.high
    short = np.array([column.low, column.high]).astype(dtype.lower()).astype(np.float64)
    return min(column.low, short[0]), max(column.high, short[1])


def _is_number(value: object) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool | np.bool_)


def from_index(
    column: Column, index: np.ndarray, rng: np.random.Generator, asked: Runs | None = None
) -> pd.Series:
    """Uniform draws within each cell, on the declared resolution; a Series of the column's dtype.

    ``asked``: the only steps of a column with a resolution that are drawn; each cell of ``index`` has one.
    """
    assert column.low is not None and column.high is not None
    edges = column.edges()
    nulls = index == len(edges) - 1
    cell = np.where(nulls, 0, index)
    left, right = edges[cell], edges[cell + 1]
    if column.step is None:
        numbers = left + (right - left) * rng.random(len(index))
        numbers = np.minimum(numbers, np.nextafter(right, -np.inf))
        numbers = np.where(cell == len(edges) - 2, np.minimum(numbers, column.high), numbers)
    else:
        first, count = (of_cells[cell] for of_cells in steps_of_cells(column))
        if asked is None:
            steps = first + np.floor(rng.random(len(index)) * count)
        else:
            place, stop = asked.below(first), asked.below(first + count)
            steps = asked.at(place + np.floor(rng.random(len(index)) * (stop - place)))
        numbers = np.clip(numbers_at(column, steps), column.low, column.high)
    if base_dtype(column.dtype) == "int":
        whole = np.empty(len(index), dtype=object)
        whole[:] = [int(number) for number in np.round(numbers)]
        return with_dtype(column, whole, nulls)
    if column.dtype.lower() in ("float32", "float16"):
        numbers = _narrowed(numbers, column, left, right)
    return with_dtype(column, numbers.astype(object), nulls)


def _narrowed(
    numbers: np.ndarray, column: Column, left: np.ndarray, right: np.ndarray
) -> np.ndarray:
    """Numbers in the column's short floats, stepped back into the cell that rounding took them from."""
    short = numbers.astype(column.dtype.lower())
    over = (short >= right) | (short > column.high)
    short = np.where(over, np.nextafter(short, short.dtype.type(-np.inf)), short)
    under = (short < left) | (short < column.low)
    return np.where(under, np.nextafter(short, short.dtype.type(np.inf)), short)
