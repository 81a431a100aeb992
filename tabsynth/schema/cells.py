"""Cells of tables as values that every conversion takes, and their texts; and dtypes of columns, by what their values are."""

import datetime
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from numbers import Integral, Real
from typing import Any, TypeGuard

import numpy as np
import pandas as pd

from tabsynth._typing import JsonMapping
from tabsynth._validate import native
from tabsynth.errors import InputError
from tabsynth.schema.number_texts import distinct_parts, floats_of

LARGEST_FLOAT = float(np.finfo(np.float64).max)
# Whole numbers of fewer bits than that are floats.
_EXPONENT = math.frexp(LARGEST_FLOAT)[1]
_PLAIN = {
    bool, float, type(None), type(pd.NA), type(pd.NaT), np.datetime64, np.timedelta64,
    datetime.date, datetime.datetime, datetime.time, datetime.timedelta, pd.Timedelta,
}  # fmt: skip
OBJECT = "<object>"  # the text of every list and other object


def plain(value: object) -> Any:
    """Return a cell's value in Python's own type, with None for NaN and ``pd.NA``."""
    value = native(value)
    nan = isinstance(value, float) and math.isnan(value)
    return None if value is pd.NA or nan else value


def is_range(value: object) -> TypeGuard[JsonMapping]:
    """Return whether a value of a condition is a range ``{"low": a, "high": b}``."""
    return isinstance(value, Mapping) and set(value) == {"low", "high"}


def range_ends(value: JsonMapping) -> tuple[Any, Any]:
    """Return both ends of a range, in Python's own types."""
    return plain(value["low"]), plain(value["high"])


def is_null(value: object) -> bool:
    """Return whether a scalar stands for a missing value."""
    return bool(pd.api.types.is_scalar(value) and pd.isna(value))


@dataclass(frozen=True)
class OtherObject:
    """A cell that is no number, truth value or time, and no text that a file could hold.

    Attributes
    ----------
    text : str
        What the object is for people: valid Unicode.
    exact : bool
        Whether ``text`` is ``str`` of the object. Otherwise objects that differ may have the same text.
    cell : object
        The object.
    """

    text: str
    exact: bool
    cell: Any = field(compare=False)

    def __repr__(self) -> str:
        """Return the representation for a person."""
        return self.text


def with_plain_cells(values: pd.Series) -> pd.Series:
    """Return a column of objects with cells that every conversion takes; the same Series where they are already.

    Returns
    -------
    Series, shape (n,)
        Texts, ``bool``, ``int`` and ``float`` within the range of 64-bit floats, finite ``Decimal``, missing values, and
        dates and times stay. Other numbers become these: of numbers beyond every float the largest float, of NaNs null.
        What is none of them, such as a list or a text that is not valid Unicode, becomes an :class:`OtherObject`, which no
        schema declares.

    Formal guarantees
    -----------------
    Each cell of the result is a function of the cell in its place.
    """
    if isinstance(values.dtype, pd.CategoricalDtype):
        listed = pd.Series(values.dtype.categories)
        return (
            values
            if with_plain_cells(listed) is listed
            else with_plain_cells(values.astype(object))
        )
    if values.dtype != object and getattr(values.dtype, "storage", None) != "python":
        return values
    cells = values.to_numpy(dtype=object)
    if all(map(_is_plain, cells)):
        return values
    converted = np.empty(len(cells), dtype=object)
    for row, cell in enumerate(cells):
        converted[row] = cell if _is_plain(cell) else _plain(cell)
    return pd.Series(converted, index=values.index, name=values.name, dtype=object)


def _is_plain(cell: Any) -> bool:
    kind = type(cell)
    if kind is str:
        return cell.isascii() or _is_unicode(cell)
    if kind is int:
        return bool(cell.bit_length() < _EXPONENT)
    if kind is Decimal:
        return bool(cell.is_finite() and cell.adjusted() < 308)
    if kind is pd.Timestamp or kind is pd.Period:
        return 1 <= cell.year <= 9999
    return kind in _PLAIN


def _plain(cell: object) -> Any:
    """Return what takes the place of a cell that is not plain."""
    if isinstance(cell, np.bool_):
        return bool(cell)
    if isinstance(cell, pd.Timestamp):
        return cell.to_datetime64()
    if isinstance(cell, Real | Decimal):
        return _number(cell)
    if isinstance(cell, str) and _is_unicode(cell):
        return str.__str__(cell)
    return _other(cell)


def _number(cell: Any) -> Any:
    """Return a number in Python's types; None for a NaN."""
    try:
        if isinstance(cell, Integral):
            integer = int(cell)
            return integer if _is_plain(integer) else math.copysign(LARGEST_FLOAT, integer)
        if isinstance(cell, Decimal) and cell.is_nan():
            return None
        number = float(cell)
    except OverflowError:  # of a fraction
        return LARGEST_FLOAT if cell > 0 else -LARGEST_FLOAT
    except Exception:  # of what people define
        return _other(cell)
    if math.isinf(number) and isinstance(cell, Decimal) and cell.is_finite():
        return math.copysign(LARGEST_FLOAT, number)
    return None if math.isnan(number) else number


def _other(cell: object) -> OtherObject:
    if isinstance(cell, OtherObject):  # of a table that was converted before
        return cell
    try:
        text = str(cell)
    except Exception:  # of what people define, and of lists of long numbers
        return OtherObject(f"<{type(cell).__name__}>", False, cell)
    if _is_unicode(text):
        return OtherObject(text, True, cell)
    return OtherObject(text.encode("utf-8", "backslashreplace").decode(), False, cell)


def texts_of(values: pd.Series) -> np.ndarray:
    """Return the text of each cell by :func:`text_of`, shape (n,); None for a null."""
    if (parts := distinct_parts(values)) is not None:
        return np.array([*texts_of(parts[1]), None], dtype=object)[parts[0]]
    if values.dtype.kind in "iuf":
        codes, once = pd.factorize(floats_of(values))
        return np.array([*map(text_of, once), None], dtype=object)[codes]
    cells = values.to_numpy(dtype=object)
    texts = np.full(len(values), None, dtype=object)
    for row in np.flatnonzero(values.notna().to_numpy()):
        texts[row] = text_of(cells[row])
    return texts


def text_of(cell: object) -> str:
    """Return the text of a cell by its value alone, whatever type a program chose for its column.

    A null beside 7 makes it 7.0, also as the end of an interval, and a decimal beside others has as many decimals as these.
    All lists and other objects have one text: the numbers in a list may have become floats for another row.
    """
    if type(cell) is str:  # first, for most cells are texts
        return cell
    if isinstance(cell, OtherObject):
        if isinstance(cell.cell, str):
            return cell.text
        return text_of(cell.cell) if isinstance(cell.cell, pd.Interval) else OBJECT
    if isinstance(cell, pd.Interval):
        opening, closing = "[("[cell.open_left], "])"[cell.open_right]
        return f"{opening}{text_of(cell.left)}, {text_of(cell.right)}{closing}"
    if isinstance(cell, Real | Decimal) and not isinstance(cell, bool | np.timedelta64):
        number = float(cell)
        return str(int(number) if number.is_integer() and abs(number) < 2**64 else number)
    return str(cell)


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def base_dtype(dtype: str) -> str:
    """Return ``"int"``, ``"float"``, ``"bool"``, ``"text"``, ``"category"``, ``"datetime"``, ``"timedelta"``, ``"period"``.

    ``"unsupported"`` for every other pandas dtype name.
    """
    name = dtype.lower()
    if re.match(r"u?int(\d|$)", name):  # and no interval
        return "int"
    if name.startswith(("float", "double")):
        return "float"
    if name.startswith("bool"):
        return "bool"
    if name == "category":
        return "category"
    if name in ("str", "string", "object"):
        return "text"
    if name.startswith(("datetime64", "timedelta64")):
        return name[: name.index("64")]
    return "period" if name.startswith("period[") else "unsupported"


def in_dtype(values: pd.Series, dtype: object) -> pd.Series:
    """Return values of dtype object in another one. pandas 2 has no dtype of texts, and writes missing ones as ``"None"``."""
    converted = values.astype(dtype)
    if dtype == "str" and converted.dtype == object:
        converted = converted.where(values.notna(), None)
    return converted


def with_nulls(dtype: str) -> str:
    """Return the dtype of the same values that holds missing ones, too."""
    if re.fullmatch(r"u?int\d+", dtype):
        return dtype.replace("int", "Int").replace("uI", "UI")
    return "boolean" if dtype == "bool" else dtype


def check_range(dtype: str, where: str, low: Any, high: Any) -> None:
    """Raise InputError for values between ``low`` and ``high`` that a dtype of whole numbers cannot hold."""
    match = re.match(r"(u?)int(\d+)", dtype.lower())
    if match is None:
        return
    limits = np.iinfo(match[0])
    if low < limits.min or high > limits.max:
        raise InputError(
            f"{where}: dtype {dtype} holds [{limits.min}, {limits.max}], and its values"
            f" are declared in [{low}, {high}]; use a wider dtype."
        )
