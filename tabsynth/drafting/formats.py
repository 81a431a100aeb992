"""Formats of values: what the text of one cell tells of its column, and what is public of a column without a declared type."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from tabsynth._validate import MAX_TEXT
from tabsynth.drafting.identifiers import NAMES, PROSE, look_of, named_for_time
from tabsynth.drafting.time_formats import TIME_CLASSES, UNKNOWN_TIMES, time_class
from tabsynth.schema.cells import OBJECT, base_dtype, texts_of
from tabsynth.schema.column import MAX_CATEGORIES
from tabsynth.schema.number_texts import decimal_mark, floats_of, one_group, plain_number

NUMBER = "number"  # what is public of a numeric column of which no file declares the type

# Formats of values. A column of numbers or times has only some of them.
NULL, WHOLE, LONG_WHOLE, BOOL, LENGTH = "null", "whole", "long whole", "bool", "length of time"
DECIMALS = tuple(f"decimals {n}" for n in range(1, 7))
COMMA_DECIMALS = tuple(f"decimals {n} after a comma" for n in range(1, 7))
ONE_COMMA, ONE_POINT = "1,234", "1.234"  # a fraction or thousands, as the decimal mark says
REAL, IDENTIFIER, LONG_TEXT = "real", "identifier", "long text"
CODE, SHORT, OTHER_OBJECT = "code", "text", "object"
NUMBERS = (WHOLE, LONG_WHOLE, *DECIMALS, REAL)
WORDS = (NAMES, LONG_TEXT, SHORT)  # which may stand among numbers or dates in place of a value
MOST_WORDS = 0.5  # of the rows: such words
WORD = "a text in place of a value"  # what such a word is said to stand for
ELSEWHERE = "far from all other values"  # the same of a value beyond the ends
FORMAT_NAMES = (
    NULL, WHOLE, LONG_WHOLE, *DECIMALS, *COMMA_DECIMALS, ONE_COMMA, ONE_POINT, REAL, BOOL, LENGTH, IDENTIFIER, NAMES,
    LONG_TEXT, CODE, SHORT, OTHER_OBJECT, *UNKNOWN_TIMES, *TIME_CLASSES,
)  # fmt: skip
_FORMAT_CODES = {name: code for code, name in enumerate(FORMAT_NAMES)}
_WHOLE = re.compile(r"[+-]?(0|[1-9]\d{0,14})")
_NUMBER = re.compile(r"[+-]?(\d{1,15}|(?=\.\d))(?:\.(\d*))?(?:[eE][+-]?\d{1,3})?")
_CODE = re.compile(r"(?=.*\d)\w[\w./-]*")  # such as V57, 12A and 01067
_LENGTH = re.compile(r"-?\d+ days?( [+-]?\d{1,2}:\d{2}:\d{2}(\.\d{1,6})?)?")
LONG_DIGITS = 7  # of a whole number that may number records
_LONG_TIMES = (
    "%Y%m%d",
    "%Y%m%d%H%M%S",
    "seconds since 1970-01-01",
    "milliseconds since 1970-01-01",
)


def public_dtype(dtype: str) -> str:
    """Return what is public of a column of which no file declares the type: whether it is numeric, text, time or none of these.

    Parameters
    ----------
    dtype : str
        Of the column as it is, which pandas may have inferred from the rows.

    Returns
    -------
    str
        :data:`NUMBER`; ``"str"``, for truth values too, which pandas reads as objects beside a null; or a dtype of times in
        microseconds, with their time zone; or the first word of an unsupported dtype, such as ``"interval"``.
    """
    base = base_dtype(dtype)
    if base in ("int", "float"):
        return NUMBER
    if base in ("text", "category", "bool"):
        return "str"
    if base == "unsupported":  # the rest may be of the rows, as in interval[int64, right]
        word = re.split(r"\W", dtype.lower())[0]
        return word if base_dtype(word) == base else base
    return re.sub(r"^(datetime64|timedelta64)\[\w+", r"\1[us", dtype)


def declared_categories(values: pd.Series, nulls: Sequence[str]) -> tuple[str, ...] | None:
    """Return the texts but nulls that an ordered categorical declares, none if only an order; None for other columns.

    Programs that take categories from the rows sort them, so that a list in this order may be of the rows.
    """
    if not isinstance(values.dtype, pd.CategoricalDtype) or not values.dtype.ordered:
        return None
    listed = values.dtype.categories.tolist()
    texts = all(isinstance(text, str) and len(text) <= MAX_TEXT for text in listed)
    if not texts or len(listed) > MAX_CATEGORIES or listed == sorted(listed):
        return ()
    return tuple(text for text in listed if text not in nulls)


def decimal_of(formats: Mapping[str, Mapping[str, float]], clear: float) -> str | None:
    """Return the decimal mark of a table by its released formats: a comma where one column clearly has such fractions."""

    def some(names: Sequence[str]) -> bool:
        return any(counts[name] > clear for counts in formats.values() for name in names)

    if some(COMMA_DECIMALS):
        return ","
    return "." if some((ONE_COMMA,)) else None


def without_marks(
    counts: Mapping[str, float], decimal: str | None, clear: float
) -> dict[str, float]:
    """Return released formats of a column with the marks told apart: whole numbers, and numbers of some decimals."""
    out = dict(counts)
    for point, comma in zip(DECIMALS, COMMA_DECIMALS, strict=True):
        out[point] += if_clear(out.pop(comma), clear)
    for form, mark in ((ONE_COMMA, ","), (ONE_POINT, ".")):
        name = DECIMALS[2] if mark == (decimal or ".") else WHOLE
        out[name] += if_clear(out.pop(form), clear)
    return out


def if_clear(count: float, clear: float) -> float:
    """Return a noisy number of rows, or 0 where it may be noise alone."""
    return count if count > clear else 0.0


def without_times(counts: Mapping[str, float]) -> dict[str, float]:
    """Return numbers of rows by format with those of whole numbers that may be dates as what they are besides."""
    out = dict(counts)
    for name, times in TIME_CLASSES.items():
        if times.formats[0].of_numbers:
            out[LONG_WHOLE if times.formats[0].layout in _LONG_TIMES else WHOLE] += out.pop(
                name, 0.0
            )
    return out


def _formats_of(values: pd.Series, nulls: Sequence[str], named_for_time: bool) -> list[str]:
    """Return the format of each distinct value, a function of that value, of the dtype and of the column's name alone."""
    if base_dtype(str(values.dtype)) in ("datetime", "timedelta", "period"):
        return [SHORT] * len(values)
    return [_format(cell, nulls, named_for_time) for cell in values]


def _format(cell: str | float, nulls: Sequence[str], named_for_time: bool) -> str:
    if cell == OBJECT:
        return OTHER_OBJECT
    text = cell.strip() if isinstance(cell, str) else number_text(cell)
    if isinstance(cell, str) and (cell in nulls or text in nulls):
        return NULL
    if _WHOLE.fullmatch(text):
        return time_class(text, named_for_time) or _whole_format(text)
    if isinstance(cell, str) and (marked := _marked_format(text)) is not None:
        return marked
    match = _NUMBER.fullmatch(text)
    if match and not (len(match[1]) > 1 and match[1][0] == "0"):
        decimals = len((match[2] or "").rstrip("0"))
        if "e" in text.lower() or decimals > len(DECIMALS):
            return REAL
        return DECIMALS[decimals - 1] if decimals else _whole_format(match[1])
    if text.lower() in ("true", "false"):
        return BOOL
    if (name := time_class(text, named_for_time)) is not None:
        return name
    if _LENGTH.fullmatch(text):
        return LENGTH
    short = CODE if _CODE.fullmatch(text) else SHORT
    return {None: short, NAMES: NAMES, PROSE: LONG_TEXT}.get(look_of(text), IDENTIFIER)


def _marked_format(text: str) -> str | None:
    """Return the format of a number with a comma, thousands marks or a sign of currency or percent; else None."""
    mark = one_group(text)
    plain = plain_number(text, ".")
    if plain is None or (plain == text and mark is None) or look_of(text) is not None:
        return None
    if mark is not None:
        return ONE_COMMA if mark == "," else ONE_POINT
    integer, _, fraction = plain.partition(".")
    if not _WHOLE.fullmatch(integer):
        return None
    if not fraction:
        return _whole_format(integer)
    names = COMMA_DECIMALS if decimal_mark(text) == "," else DECIMALS
    return names[min(len(fraction), len(names)) - 1]


def _whole_format(text: str) -> str:
    return LONG_WHOLE if len(text.lstrip("+-")) >= LONG_DIGITS else WHOLE


def number_text(number: float) -> str:
    """Return a number as tables write it."""
    if math.isfinite(number) and number == int(number) and abs(number) < 1e15:
        return str(int(number))
    return repr(number)


@dataclass(frozen=True, eq=False)
class Distinct:
    """A private column as its distinct values, shape (m,), and for each row the place of its own; m for null."""

    codes: np.ndarray
    values: pd.Series


def distinct(values: pd.Series) -> Distinct:
    """Return the distinct values, by row whatever the dtype: numbers as floats, all others but times as texts."""
    base = base_dtype(str(values.dtype))
    if base in ("int", "float"):
        values = pd.Series(floats_of(values))
    elif base in ("text", "category", "bool"):
        values = pd.Series(texts_of(values), dtype=object)
    codes, once = pd.factorize(values, sort=True)
    return Distinct(np.where(codes < 0, len(once), codes), pd.Series(once))


def format_counts(values: pd.Series, name: str) -> dict[str, float]:
    """Return the exact number of rows of each format, of values without nulls."""
    column = distinct(values)
    codes = format_codes(column, name, ())[column.codes]
    return dict(
        zip(FORMAT_NAMES, np.bincount(codes, minlength=len(FORMAT_NAMES)).tolist(), strict=True)
    )


def format_codes(column: Distinct, name: str, nulls: Sequence[str]) -> np.ndarray:
    """Return the format of each distinct value, and of null; shape (m + 1,)."""
    formats = [*_formats_of(column.values, nulls, named_for_time(name)), NULL]
    return np.array([_FORMAT_CODES[form] for form in formats], dtype=np.int64)
