"""Argument checks, in one place. A message names the argument, the value and what was expected."""

import math
from collections.abc import Collection, Iterable, Sequence
from difflib import get_close_matches
from numbers import Integral, Real
from typing import Any

import numpy as np

from tabsynth.errors import InputError

MAX_TEXT = 10_000  # characters of a name, a category or a label: a sampled table repeats them
MAX_COLUMNS = 10_000  # of a schema or a table
MAX_LAYERS = 100  # hidden ones of a network


def native(value: Any) -> Any:
    """Return a number of numpy's in Python's own type; anything else as it is, times in nanoseconds included."""
    number = isinstance(value, np.generic) and not isinstance(value, np.datetime64 | np.timedelta64)
    return value.item() if number else value


def make_fields_native(item: Any) -> None:
    """Replace numpy's numbers in the fields of a frozen dataclass by Python's own, which JSON has, also in lists and tuples."""
    for name, value in vars(item).copy().items():
        plain = type(value)(map(native, value)) if type(value) in (list, tuple) else native(value)
        object.__setattr__(item, name, plain)


def name_of(thing: object) -> str:
    """Return the name of a class or a function, or that of the class of any other object."""
    return str(getattr(thing, "__qualname__", type(thing).__qualname__))


def quote(value: object, limit: int = 60) -> str:
    """Return ``repr`` on one line, cut to ``limit`` characters."""
    value = native(value)
    try:
        text = repr(value[:limit] if isinstance(value, str | list) else value)
    except Exception:  # of whole numbers with thousands of digits, and of what people define
        text = f"<{type(value).__name__}>"
    text = " ".join(text.split())
    return text if len(text) <= limit else text[: limit - 1] + "…"


def nearest(text: str, values: Sequence[str]) -> str:
    """Return the values that are spelled like a text, or else the first ones, in one line."""
    near = get_close_matches(text, values, 3) or values[:5]
    return ", ".join(near) + ", …" * (len(near) < len(values))


def quote_text(value: object) -> str:
    """Return :func:`quote` of a value's text; of the value itself where Python writes none, as of years beyond 9999."""
    try:
        return quote(str(value))
    except Exception:  # of what people define, too
        return quote(value)


def real(name: str, value: Any) -> float:
    """Return any real number but NaN."""
    try:
        if not isinstance(value, bool) and isinstance(value, Real) and not math.isnan(value):
            return float(value)
    except OverflowError:  # a whole number that no float reaches
        pass
    raise InputError(f"Expected {name} to be a number, got {name}={quote(value)}.")


def positive(name: str, value: Any, *, finite: bool = True) -> float:
    """Return a number > 0; ``finite=False`` admits infinity."""
    number = real(name, value)
    if number <= 0 or (finite and math.isinf(number)):
        raise InputError(f"Expected {name} > 0, got {name}={quote(value)}.")
    return number


def in_range(
    name: str,
    value: Any,
    low: float,
    high: float,
    *,
    low_open: bool = False,
    high_open: bool = False,
) -> float:
    """Return a number in [low, high], with either end open on request."""
    number = real(name, value)
    below = number <= low if low_open else number < low
    above = number >= high if high_open else number > high
    if below or above:
        span = f"{'(' if low_open else '['}{low:g}, {high:g}{')' if high_open else ']'}"
        raise InputError(f"Expected {name} in {span}, got {name}={quote(value)}.")
    return number


def integer(name: str, value: Any, *, least: int = 1) -> int:
    """Return a whole number of at least ``least``."""
    if isinstance(value, bool) or not isinstance(value, Integral) or int(value) < least:
        raise InputError(f"Expected {name} to be a whole number >= {least}, got {quote(value)}.")
    return int(value)


def one_of(name: str, value: Any, allowed: Collection[Any]) -> Any:
    """Return one of the ``allowed`` values."""
    if value not in allowed:
        choices = ", ".join(map(str, allowed))
        raise InputError(f"Expected {name} to be one of {choices}; got {quote(value)}.")
    return value


def list_first(texts: Iterable[str], limit: int) -> str:
    """Return a list in one line, of at most ``limit`` texts and how many more there are."""
    first = list(texts)
    more = f" and {len(first) - limit} more" if len(first) > limit else ""
    return ", ".join(first[:limit]) + more


def widths(name: str, values: Any) -> None:
    """Return hidden widths of a network, a whole number >= 1 each."""
    if not isinstance(values, list | tuple):
        raise InputError(f"Expected {name} to be a tuple of widths, got {quote(values)}.")
    if len(values) > MAX_LAYERS:
        raise InputError(f"Expected {name} of at most {MAX_LAYERS} layers, got {len(values):,}.")
    for value in values:
        integer(name, value)


def check_text(where: str, text: Any) -> None:
    """Refuse a text that no table could hold: too long, with a NUL, or no Unicode."""
    if not isinstance(text, str):
        return
    if len(text) > MAX_TEXT:
        raise InputError(f"{where}: {quote(text)} is longer than {MAX_TEXT:,} characters; cut it.")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InputError(f"{where}: {quote(text)} holds half a character; correct it.") from None
