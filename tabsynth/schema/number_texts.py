"""Numbers as files write them: decimal and thousands marks, currency and percent signs.

Each text is read by itself, by a mark that was declared for the whole table or, without one, only where the text has one
meaning. ``1,234.50``, ``1.234,50``, ``1'234.50``, ``1,5``, ``1,234,567``, ``$ 3.40`` and ``12 %`` have one; ``1,234`` may be
1234 or 1.234. Percent signs are removed: 12 % is 12.
"""

import math
import re
from collections.abc import Callable, Collection
from decimal import Decimal
from numbers import Real
from typing import Any

import numpy as np
import pandas as pd

from tabsynth._typing import JsonObject

DECIMAL_MARKS = (".", ",")
NUMBER_TEXT = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,3})?")
LONGEST = 64  # characters of a text that may be a number
_SPACES = " \u00a0\u2009\u202f'\u2019"  # between groups of three digits, besides the other mark
_CURRENCIES = (*"$¢£¤¥", *map(chr, range(0x20A0, 0x20C1)), "USD", "EUR", "GBP", "CHF")
_CURRENCY = f"(?:{'|'.join(map(re.escape, _CURRENCIES))})"
_SPACE = "[ \u00a0\u2009\u202f]?"
_SIGNS = [(sign, space) for sign in (*_CURRENCIES, "%") for space in ("", *_SPACE[1:-2])]
# Numbers with a sign of a currency on one side, or with one of percent, and a decimal point.
NUMBER_FORMATS = (
    *(f"{{}}{space}{sign}" for sign, space in _SIGNS),
    *(f"{sign}{space}{{}}" for sign, space in _SIGNS if sign != "%"),
)
_SIGNED = re.compile(
    rf"([+-]?)(?:({_CURRENCY}){_SPACE})?([+-]?)(\d[\d.,{_SPACES}]*?)(?:{_SPACE}({_CURRENCY}|%))?",
    re.ASCII,
)
_PLAIN = re.compile(r"[+-]?\d+(?:\.\d*)?", re.ASCII)
_SPACED = re.compile(
    rf"([1-9]\d{{0,2}}(?:([{_SPACES}])\d{{3}})(?:\2\d{{3}})*)(?:[.,](\d+))?", re.ASCII
)
_BOTH = re.compile(r"([1-9]\d{0,2}(?:([.,])\d{3})+)(?!\2)[.,](\d*)", re.ASCII)
_GROUPS = re.compile(r"[1-9]\d{0,2}(?:([.,])\d{3})(?:\1\d{3})+", re.ASCII)
_ONE_GROUP = re.compile(r"[1-9]\d{0,2}([.,])\d{3}", re.ASCII)
_ONE_MARK = re.compile(r"(\d+)(?:,(\d+)|\.(\d*))", re.ASCII)


def plain_number(text: str, decimal: str | None = None) -> str | None:
    """Return a number in the form ``-1234.5``; None for a text that is none, or that has two meanings.

    Parameters
    ----------
    text : str
    decimal : {".", ","}, optional
        The declared decimal mark: it decides what ``1,234`` and ``1.234`` are. Without one, ``1,234`` is taken for no
        number, and ``1.234`` for 1.234.
    """
    return _parts(text, decimal)[0]


def decimal_mark(text: str) -> str | None:
    """Return the decimal mark that a text shows by itself, by a fraction or by the other mark between thousands; else None."""
    return _parts(text, None)[1]


def one_group(text: str) -> str | None:
    """Return the mark of a number such as ``1,234`` or ``1.234``, which may be a decimal mark or one of thousands; else None."""
    signed = _split_sign(text)
    match = _ONE_GROUP.fullmatch(signed[1]) if signed else None
    return match[1] if match else None


def number_format(text: str) -> str:
    """Return how a number is written with its sign of a currency or percent; ``"{}"`` without one."""
    match = _SIGNED.fullmatch(text.strip()) if len(text) <= LONGEST else None
    if match is None:
        return "{}"
    before, after = match.string[: match.start(4)], match.string[match.end(4) :]
    return before.strip("+-\u2212") + "{}" + after


def with_mark(form: str, decimal: str | None) -> str:
    """Return a format of numbers with a decimal comma, ``{,}``, where that is the decimal mark."""
    return form.replace("{}", "{,}") if decimal == "," else form


def with_plain_numbers(values: pd.Series, decimal: str | None) -> pd.Series:
    """Return values whose texts are in the form of :func:`plain_number` where they are numbers; all others as they are."""
    if pd.api.types.is_numeric_dtype(values.dtype):
        return values
    plain = once_each(
        lambda value: plain_number(value, decimal) if isinstance(value, str) else None
    )

    def plain_or_same(value: object) -> Any:
        number = plain(value)
        return value if number is None else number

    return values.astype(object).map(plain_or_same)


def number_of(value: object, decimal: str | None = None) -> float:
    """Return a value as a number; NaN for what is none, and for infinities and what no float holds."""
    if isinstance(value, str):
        value = plain_number(value, decimal) or value.strip()
        if "_" in value:  # Python reads 1_000
            return math.nan
    elif not isinstance(value, Real | Decimal) or isinstance(value, np.timedelta64):
        return math.nan
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return math.nan
    return number if math.isfinite(number) else math.nan


def distinct_parts(values: pd.Series) -> tuple[np.ndarray, pd.Series] | None:
    """Return the place of each cell among the distinct values, -1 for a null, and these; None but for texts and categories."""
    if isinstance(values.dtype, pd.CategoricalDtype):
        return values.cat.codes.to_numpy(), pd.Series(values.cat.categories)
    if isinstance(values.dtype, pd.StringDtype):
        places, once = pd.factorize(values.astype(object))
        return places, pd.Series(once, dtype=object)
    return None


def numbers_of(
    values: pd.Series, nulls: Collection[str] = (), decimal: str | None = None
) -> np.ndarray:
    """Return values as numbers, shape (n,), NaN for what is none; texts by the declared decimal mark, if there is one."""
    if (parts := distinct_parts(values)) is not None:
        return np.append(numbers_of(parts[1], nulls, decimal), np.nan)[parts[0]]
    if values.dtype.kind in "iuf":
        numbers = floats_of(values)
        numbers[~np.isfinite(numbers)] = np.nan
        return numbers
    null_texts = frozenset(nulls)
    number = once_each(
        lambda value: (
            math.nan
            if isinstance(value, str) and value in null_texts
            else number_of(value, decimal)
        )
    )
    return np.array([number(value) for value in values.astype(object)], dtype=float)


def floats_of(values: pd.Series) -> np.ndarray:
    """Return a numeric column in 64 bits, shape (n,), NaN for null; shorter floats by their shortest text, such as 0.1.

    Programs choose the width of floats by the rows: one large number makes all of them longer.
    """
    width: int = values.dtype.itemsize
    if values.dtype.kind == "f" and width < 8:
        short = values.to_numpy(dtype=f"float{8 * width}", na_value=np.nan)
        return short.astype(str).astype(float)
    return values.to_numpy(dtype=float, na_value=np.nan).copy()


def once_each(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return a function of texts that remembers what it gave, as long as it is kept itself; other values are asked each time."""
    answers: JsonObject = {}

    def recall(value: object) -> Any:
        if not isinstance(value, str):
            return function(value)
        if value not in answers:
            answers[value] = function(value)
        return answers[value]

    return recall


def _split_sign(text: str) -> tuple[str, str] | None:
    """Return the sign and the digits with their marks; None for what is no number."""
    if len(text) > LONGEST:
        return None
    match = _SIGNED.fullmatch(text.strip().replace("\u2212", "-"))
    if match is None or (match[1] and match[3]) or (match[2] and match[5]):
        return None
    return match[1] or match[3], match[4]


def _parts(text: str, decimal: str | None) -> tuple[str | None, str | None]:
    """Return the plain number, and the decimal mark that the text shows."""
    if decimal is None and len(text) <= LONGEST and _PLAIN.fullmatch(text):
        return text, "." if one_group(text) is None and "." in text else None
    signed = _split_sign(text)
    if signed is None:
        return None, None
    sign, digits = signed
    if digits.isdigit():
        return sign + digits, None
    if match := _SPACED.fullmatch(digits):
        mark = None if match[3] is None else digits[-len(match[3]) - 1]
        return _join(sign, match[1], match[3]), mark
    if match := _BOTH.fullmatch(digits):
        return _join(sign, match[1], match[3]), "," if match[2] == "." else "."
    if match := _GROUPS.fullmatch(digits):
        return _join(sign, digits, None), "," if match[1] == "." else "."
    if match := _ONE_GROUP.fullmatch(digits):
        if decimal is None and match[1] == ",":
            return None, None
        before, _, after = digits.partition(match[1])
        as_fraction = match[1] == (decimal or ".")
        return (_join(sign, before, after) if as_fraction else sign + before + after), None
    if match := _ONE_MARK.fullmatch(digits):
        return _join(sign, match[1], match[2] or match[3]), "," if match[2] else "."
    return None, None


def _join(sign: str, integer: str, fraction: str | None) -> str:
    number = sign + "".join(c for c in integer if c.isdigit())
    return f"{number}.{fraction}" if fraction else number
