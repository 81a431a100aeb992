"""Values of files and tables, one by one, as a column's dtype has them."""

import math
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd

from tabsynth._validate import native, quote
from tabsynth.errors import InputError
from tabsynth.schema.cells import base_dtype, plain
from tabsynth.schema.facts import ColumnFacts
from tabsynth.schema.number_texts import one_group, plain_number

TRUE_TEXTS, FALSE_TEXTS = ("True", "true", "TRUE", "1"), ("False", "false", "FALSE", "0")


def parse_text(column: ColumnFacts, text: str) -> Any:
    """Return the value that a text of a file stands for, in the type of the column's dtype."""
    base = column.value_type
    try:
        if base in ("int", "float"):
            text = plain_number(text) or text
            number = float(text)
            # Python also reads 1_000, nan and inf, which no table means as a number.
            if "_" in text or math.isnan(number) or math.isinf(number):
                raise ValueError
            if base == "float":
                return number
            exact = Decimal(text.strip())  # a float may be the rounding of another whole number
            integer = int(exact)
            if exact != integer:
                raise ValueError
        elif base == "bool":
            if text not in TRUE_TEXTS + FALSE_TEXTS:
                raise ValueError
            return text in TRUE_TEXTS
        else:
            return text
    except (ValueError, ArithmeticError):
        return not_of_type(column, text)
    return within_dtype(column, integer)


def convert_value(column: ColumnFacts, value: object) -> Any:
    """Return a value as a number or truth value of the column's dtype."""
    base = base_dtype(column.value_dtype)
    value = native(value)
    if isinstance(value, str):
        return parse_text(column, value)
    if isinstance(value, int | float | Decimal):
        check_exact(column, value)
        finite = isinstance(value, int) or math.isfinite(value)
        if base == "int" and finite and value == int(value):
            return within_dtype(column, int(value))
        if base == "float" and finite:
            largest = float(np.finfo(column.value_dtype.lower()).max)
            if -largest <= value <= largest:
                return float(value)
            substitute = _nearest(column, value)
            return not_of_type(column, value) if substitute is None else substitute
        if base == "bool" and value in (0, 1):
            return bool(value)
    return not_of_type(column, value)


def all_within(column: ColumnFacts, values: pd.Series) -> bool:
    """Return whether all whole numbers fit the column's dtype."""
    present = values.dropna()
    limits = np.iinfo(column.value_dtype.lower())
    return len(present) == 0 or all(
        limits.min <= int(end) <= limits.max for end in (present.min(), present.max())
    )


def within_dtype(column: ColumnFacts, number: int) -> Any:
    """Return a whole number that fits the column's dtype, or what the column takes in its place."""
    if base_dtype(column.value_dtype) != "int":
        return number
    limits = np.iinfo(column.value_dtype.lower())
    if limits.min <= number <= limits.max:
        return number
    substitute = _nearest(column, number)
    if substitute is None:
        raise InputError(
            f"Column {quote(column.name)} does not fit dtype {column.dtype}: {quote(number)} is not in"
            f" [{limits.min}, {limits.max}]; correct the value, or declare another dtype."
        )
    return substitute


def _nearest(column: ColumnFacts, number: float | Decimal) -> Any:
    """Return what stands for a number that the dtype cannot hold: ``other``, or where values are clipped the nearest bound."""
    if column.other is None and getattr(column, "clip", False):
        return plain(column.from_amounts(np.array([float(number)])).iloc[0])
    return column.other


def check_exact(column: ColumnFacts, value: object, dtype: str = "float64") -> None:
    """Raise InputError for a float that may be the rounding of another whole number than the category it equals.

    From 2**53 on, floats skip whole numbers (from 2**24 on in float32): where a table was read into floats,
    different categories have become one. ``dtype`` is that of the table's floats.
    """
    if not isinstance(value, float) or value - value != 0:
        return
    short = np.dtype(dtype).type
    if abs(value) < 2.0 ** (np.finfo(short).nmant + 1) or column.value_type != "int":
        return
    with np.errstate(over="ignore"):
        near = any(short(number) == value for number in column.categories)
    if near:
        raise InputError(
            f"Column {quote(column.name)}: {quote(value)} is a float so large that it may stand for"
            " several whole numbers; read the column as Int64, or as text, not as floats."
        )


def not_of_type(column: ColumnFacts, value: object) -> Any:
    """Return ``other`` for a value of another type than the column's, or InputError."""
    if column.other is not None:
        return column.other
    if isinstance(value, str) and one_group(value):
        raise InputError(
            f"Column {quote(column.name)}: {quote(value)} may be a whole number or a fraction; name the decimal mark"
            " with decimal=, or as 'decimal' in the schema."
        )
    types = {"int": "a whole number", "float": "a number", "bool": "true or false"}
    expected = types.get(column.value_type, f"a value of kind {column.kind}")
    raise InputError(
        f"Column {quote(column.name)}: {quote(value)} is not {expected}; correct it, or add it to"
        " the schema's null_values if it stands for a missing value."
    )


def outside(column: ColumnFacts, value: object) -> InputError:
    """Return the error for a value outside the declared categories."""
    return InputError(
        f"Column {quote(column.name)}: {quote(value)} is outside its declared categories; correct"
        " it, declare it in the schema, or declare an 'other' category to take such values."
    )


def each(column: ColumnFacts, cells: np.ndarray, convert: Callable[[Any], Any]) -> list[Any]:
    """Return each cell converted, equal ones of one type once."""
    converted: dict[Any, Any] = {}
    out = []
    for cell in cells:
        key = (type(cell), cell)
        try:
            hash(key)
        except TypeError:  # of a list, for example
            raise outside(column, cell) from None
        if key not in converted:
            converted[key] = convert(cell)
        out.append(converted[key])
    return out
