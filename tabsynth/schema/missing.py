"""Several reasons for missing in one column, kept apart: "not applicable, a child", "refused".

Each has a category code: after those of the values, before that of null. In tables a reason is a text or a sentinel such as
-8, and comes back as it went in.

Formal guarantees
-----------------
Value by value, as :class:`tabsynth.schema.Column` promises: whether a value is a reason follows from the schema and from
that value.
"""

from collections.abc import Callable, Mapping

import numpy as np
import pandas as pd

from tabsynth._validate import check_text, native, quote
from tabsynth.errors import InputError
from tabsynth.schema.cells import base_dtype, in_dtype, is_null, plain
from tabsynth.schema.facts import ColumnFacts

MOST_REASONS = 100
NUMBERS = ("int", "float")


def check_reasons(missing: Mapping[str, str], where: str) -> None:
    """Raise InputError for what cannot be reasons of any column."""
    if len(missing) > MOST_REASONS:
        raise InputError(f"{where}: at most {MOST_REASONS} reasons for missing are supported.")
    for key, text in missing.items():
        if not isinstance(key, str) or not isinstance(text, str) or not key:
            raise InputError(
                f"{where}: expected missing to be a dict of texts, such as {{'-8': 'refused'}}; got"
                f" {quote(key)}: {quote(text)}."
            )
        check_text(where, key)
        check_text(where, text)


def reason_value(column: ColumnFacts, key: str) -> object:
    """Return the value that stands for a reason in tables, in the type of the column's dtype."""
    base = base_dtype(column.dtype)
    try:
        if base == "int":
            return int(key)
        if base == "float":
            return float(key)
        if base == "datetime":
            return pd.Series([key], dtype="str").astype(column.dtype).iloc[0]
        if base == "timedelta":
            return pd.Timedelta(key)
        if base == "period":
            return pd.Period(key, freq=column.dtype[len("period[") : -1])
        if column.value_type in NUMBERS and column.dtype.lower() in ("object", "category"):
            return int(key) if float(key).is_integer() else float(key)
    except ValueError:
        if base not in ("text", "category"):
            raise InputError(
                f"column {quote(column.name)}: dtype {column.dtype} cannot hold {quote(key)}, which stands for a"
                " missing value; declare dtype object, or a sentinel of the dtype."
            ) from None
    if base == "bool":
        raise InputError(
            f"column {quote(column.name)}: dtype {column.dtype} cannot hold reasons for missing; declare dtype object."
        )
    return key


# Which values are reasons.


def missing_codes(column: ColumnFacts, values: pd.Series) -> np.ndarray:
    """Return the code of each reason and null, shape (n,) int64; -1 for values.

    That of null is the one after the reasons, also where the column declares no nulls.
    """
    places = reason_places(column, values)
    codes = np.where(places >= 0, column.cells + places, -1)
    nulls = values.isna().to_numpy()
    if isinstance(values.dtype, pd.Float32Dtype | pd.Float64Dtype):  # which may hold NaN, too
        nulls = np.isnan(values.to_numpy(dtype=np.float64, na_value=np.nan))
    codes[nulls] = column.cells + len(column.missing)
    return codes


def reason_places(column: ColumnFacts, values: pd.Series) -> np.ndarray:
    """Return the place of the reason that each value stands for, shape (n,); -1 for other values and null."""
    places = np.full(len(values), -1, dtype=np.int64)
    if not column.missing:
        return places
    if base_dtype(str(values.dtype)) not in ("text", "category", "unsupported"):
        for place, reason in enumerate(column.reasons):
            if not isinstance(reason, str):
                places[(values == reason).to_numpy(dtype=bool, na_value=False)] = place
        return places
    answers: dict[object, int] = {}
    for row, cell in enumerate(values.astype(object).to_numpy()):
        try:
            kind_and_cell = (type(cell), cell)
            if kind_and_cell not in answers:
                answers[kind_and_cell] = reason_place(column, cell)
            places[row] = answers[kind_and_cell]
        except TypeError:  # a list, for example, which the kind refuses
            continue
    return places


def reason_place(column: ColumnFacts, cell: object) -> int:
    """Return the place of the reason that a value stands for; -1 for other values, ranges and null."""
    cell = native(cell)
    if is_null(cell) or isinstance(cell, bool | Mapping):
        return -1
    number = _number(cell) if isinstance(cell, str) else cell
    for place, (key, reason) in enumerate(zip(column.missing, column.reasons, strict=True)):
        if str(cell) == key or _equal(number, reason):
            return place
    return -1


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _equal(cell: object, reason: object) -> bool:
    """Return whether a cell that is no text is the value of a reason."""
    try:
        return bool(cell is not None and not isinstance(reason, str) and cell == reason)
    except (TypeError, ValueError):
        return False


# Values with reasons among them.


def convert_values(
    column: ColumnFacts, values: pd.Series, convert: Callable[[pd.Series], pd.Series]
) -> pd.Series:
    """Return values, of which those that are no reasons are converted, in the column's dtype."""
    if not column.missing and column.value_dtype == column.dtype:
        return convert(values)
    places = reason_places(column, values)
    return with_reasons(column, convert(values[places < 0]), places).set_axis(values.index)


def with_reasons(column: ColumnFacts, values: pd.Series, places: np.ndarray) -> pd.Series:
    """Return values of the column's ``value_dtype`` and, where ``places`` is not -1, reasons; in the column's dtype."""
    cells = np.empty(len(places), dtype=object)
    reasons = np.empty(len(column.reasons) + 1, dtype=object)
    reasons[:-1] = column.reasons
    cells[:] = reasons[places]
    plain_cells = values.astype(object).to_numpy()
    if base_dtype(column.dtype) == "text" and column.value_dtype != column.dtype:
        plain_cells = [column.cell_of(plain(cell)) for cell in plain_cells]
    cells[places < 0] = plain_cells
    if column.dtype == "category":
        dtype = pd.CategoricalDtype([*column.categories, *column.reasons], ordered=column.ordered)
        cells[pd.isna(cells)] = None
        return pd.Series(pd.Categorical(cells, dtype=dtype), name=column.name)
    return in_dtype(pd.Series(cells, dtype=object, name=column.name), column.dtype)
