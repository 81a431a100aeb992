"""Categorical and ordinal columns ⇄ value numbers."""

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
import pandas as pd

from tabsynth._validate import shown
from tabsynth.columns import Column
from tabsynth.errors import InputError
from tabsynth.tables import check_exact, nulls_refused, outside, value_base, with_dtype


def to_index(column: Column, values: pd.Series) -> np.ndarray:
    """Positions in ``column.categories``, null last; shape (n,) int64.

    Row by row: what one row holds never changes what another becomes (R3).

    Raises
    ------
    InputError
        Naming the column and the first value outside the declared domain, unless it has ``other``.
    """
    nulls = values.isna().to_numpy()
    if nulls.any() and not column.nulls:
        raise InputError(nulls_refused(column))
    codes, distinct = _distinct(column, values, nulls)
    short = _short_float(values.dtype)
    positions = {_key(value): i for i, value in enumerate(_in_dtype(column, values.dtype))}
    other = None if column.other is None else column.categories.index(column.other)
    table = np.empty(len(distinct) + 1, dtype=np.int64)
    table[-1] = len(column.categories)  # factorize marks a null by -1
    for i, value in enumerate(distinct):
        check_exact(column, _plain(value), short or "float64")
        place = positions.get(_key(value), other)
        if place is None:
            raise InputError(_outside(column, value))
        table[i] = place
    return table[codes]


def _distinct(
    column: Column, values: pd.Series, nulls: np.ndarray
) -> tuple[np.ndarray, Sequence[Any]]:
    """For each row the number of its value among the distinct ones, -1 for null; and these."""
    if values.dtype != object or pd.api.types.infer_dtype(values, skipna=True) == "string":
        return pd.factorize(values, use_na_sentinel=True)
    # Values of several types: by Python's equality, which is exact between whole numbers and floats.
    numbers: dict[Any, int] = {}
    distinct: list[Any] = []
    codes = np.full(len(values), -1, dtype=np.int64)
    cells = values.to_numpy()
    for row in np.flatnonzero(~nulls):
        value = cells[row]
        if not isinstance(value, Hashable):
            raise InputError(_outside(column, value))
        codes[row] = numbers.setdefault(_key(value), len(distinct))
        if codes[row] == len(distinct):
            distinct.append(value)
    return codes, distinct


def from_index(column: Column, index: np.ndarray) -> pd.Series:
    """Inverse of :func:`to_index`: a Series of the column's dtype."""
    values = np.empty(len(column.categories) + 1, dtype=object)
    values[:-1] = column.categories
    values[-1] = None
    return with_dtype(column, values[index], index == len(column.categories))


def _short_float(dtype: Any) -> str | None:
    """``float16`` or ``float32``, for columns of such floats."""
    name = str(dtype).lower()
    return name if name in ("float16", "float32") else None


def _in_dtype(column: Column, dtype: Any) -> list[Any]:
    """The categories as the table's dtype has them: 0.1 is another number in float32."""
    if _short_float(dtype):
        return [
            value if isinstance(value, str) else dtype.type(value) for value in column.categories
        ]
    return list(column.categories)


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def _key(value: Any) -> Any:
    """Equal for values that are the same fact: 1, 1.0 and numpy's 1, but not the text "1"."""
    value = _plain(value)
    return value if isinstance(value, str) else ("number", value)


def _outside(column: Column, value: Any) -> str:
    name = f"Column {shown(column.name)}"
    text = isinstance(value, str)
    if text != (value_base(column) == "text") and value_base(column) in ("text", "int", "float"):
        kind = "text" if value_base(column) == "text" else "numbers"
        return (
            f"{name} holds {shown(value)} where the schema declares {kind}; read the file with"
            " tabsynth.read_table, or convert the column with astype."
        )
    return outside(column, value)
