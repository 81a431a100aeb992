"""Dates and times as files write them: in formats of :meth:`datetime.datetime.strftime`, and as numbers since a day.

Besides strftime's own directives a format may have ``%-d``, ``%-m``, ``%-H`` and ``%-I``, which write no leading zero,
``%^b``, such as DEC, and ``%:z``, an offset such as +01:00. ``days since 1899-12-30`` and the same with ``seconds`` or ``milliseconds`` are numbers.
"""

import datetime
import math
import re
from collections.abc import Callable
from decimal import Decimal
from functools import lru_cache
from numbers import Real
from typing import Any

import numpy as np
import pandas as pd

from tabsynth.schema.cells import base_dtype, text_of
from tabsynth.schema.number_texts import distinct_parts, number_of, once_each

MICROSECONDS_A_DAY = 86_400_000_000
FARTHEST = 106_751_991 * MICROSECONDS_A_DAY  # microseconds of whole days that 64 bits hold
ALWAYS_NANOSECONDS = (
    int(pd.__version__.partition(".")[0]) < 3
)  # of the times that pandas reads from texts
EPOCH, MICROSECOND = datetime.datetime(1970, 1, 1), datetime.timedelta(microseconds=1)
_SINCE = re.compile(r"(days|seconds|milliseconds) since (\d{4}-\d{2}-\d{2})")
_UNITS = {"days": MICROSECONDS_A_DAY, "seconds": 1_000_000, "milliseconds": 1_000}
# Directives that pandas does not write: from moments, and the microseconds of their unit, to texts.
_WRITTEN: dict[str, Callable[[pd.Series, int], pd.Series]] = {
    "%-d": lambda moments, unit: moments.dt.day.map(str),
    "%-m": lambda moments, unit: moments.dt.month.map(str),
    "%-H": lambda moments, unit: moments.dt.hour.map(str),
    "%-I": lambda moments, unit: ((moments.dt.hour - 1) % 12 + 1).map(str),
    "%^b": lambda moments, unit: moments.dt.strftime("%b").str.upper(),
    "%f": lambda moments, unit: moments.dt.strftime("%f").str[: _digits(unit)],
    "%:z": lambda moments, unit: moments.dt.strftime("%z").str.replace(
        r"(\d\d)$", r":\1", regex=True
    ),
}
_DIRECTIVES = re.compile(r"(%-[dmHI]|%\^b|%f|%:z)")


@lru_cache(maxsize=256)
def scale_of(form: str) -> tuple[int, int] | None:
    """Return the microseconds of 1 and the moment of 0, since 1970, of a format of numbers; None for other formats.

    Raises
    ------
    ValueError
        For a day that no calendar has.
    """
    match = _SINCE.fullmatch(form)
    if match is None:
        return None
    zero = datetime.datetime.fromisoformat(match[2])
    return _UNITS[match[1]], (zero - EPOCH) // MICROSECOND


def is_numeric(form: str) -> bool:
    """Return whether a format is one of whole numbers: since a day, or digits that begin with the year."""
    return scale_of(form) is not None or re.fullmatch(r"%Y(%[mdHMS])*", form) is not None


def texts_of_instants(
    instants: np.ndarray, form: str, unit: int, zone: str | None = None
) -> np.ndarray:
    """Return instants as texts or numbers, shape (n,) objects.

    Parameters
    ----------
    instants : int array, shape (n,)
        Microseconds since 1970.
    form : str
    unit : int
        Microseconds of a unit of the instants: ``%f`` has as many digits as it needs.
    zone : str, optional
        The time zone in which the texts are, of instants in UTC.
    """
    scale = scale_of(form)
    if scale is not None:
        return ((instants - scale[1]) // scale[0]).astype(object)
    places, distinct = pd.factorize(instants)
    moments = pd.Series(distinct.astype("datetime64[us]"))
    if "%z" in form or "%:z" in form:
        moments = moments.dt.tz_localize("UTC").dt.tz_convert(zone or "UTC")
    texts = pd.Series("", index=moments.index, dtype=object)
    for part in filter(None, _DIRECTIVES.split(form)):
        write = _WRITTEN.get(part)
        written = moments.dt.strftime(part) if write is None else write(moments, unit)
        texts = texts + written.astype(object)
    return texts.to_numpy(dtype=object)[places]


def _digits(unit: int) -> int:
    """Return how many decimals of a second a unit needs; six where it needs none."""
    return next((n for n in range(1, 6) if unit % 10 ** (6 - n) == 0 and unit % 1_000_000), 6)


def microseconds(times: np.ndarray) -> np.ndarray:
    """Return microseconds of numpy's times or lengths of time, shape (n,) float64, rounded down; at most :data:`FARTHEST`."""
    numbers, unit = times.astype("int64"), np.datetime_data(times.dtype)[0]
    if unit == "ns":
        microseconds = numbers // 1_000
    else:
        size = {"us": 1, "ms": 1_000, "s": 1_000_000}[unit]
        microseconds = np.clip(numbers, -FARTHEST // size, FARTHEST // size) * size
    return np.where(np.isnat(times), np.nan, microseconds)


def instants_of(values: pd.Series, form: str | None = None) -> np.ndarray:
    """Return microseconds since 1970, shape (n,) float64, NaN for what is no date or time; zones are UTC.

    Texts and numbers are read in the format ``form``, and where that does not read them in ISO 8601.
    """
    if base_dtype(str(values.dtype)) == "datetime":
        if getattr(values.dtype, "tz", None) is not None:
            values = values.dt.tz_convert("UTC").dt.tz_localize(None)
        return microseconds(values.to_numpy())
    if (parts := distinct_parts(values)) is not None:
        return np.append(instants_of(parts[1], form), np.nan)[parts[0]]
    cells = values.astype(object)
    instants = np.full(len(cells), np.nan) if form is None else instants_in(cells, form)
    unread = np.isnan(instants)
    texts = unread & cells.map(lambda cell: isinstance(cell, str)).to_numpy(dtype=bool)
    if texts.any():
        instants[texts] = _of_texts(cells[texts], "ISO8601")
        # Digits alone, as 2020 or 20200131, are dates in ISO 8601, but may be any number.
        bare = cells.where(texts, "").str.fullmatch(r"\s*[+-]?\d+\s*").to_numpy(dtype=bool)
        instants[bare] = np.nan
    for place in np.flatnonzero(unread & ~texts):
        instants[place] = _of_object(cells.iloc[place])
    return instants


def instants_in(cells: pd.Series, form: str) -> np.ndarray:
    """Return :func:`instants_of` of texts and numbers in a format, NaN for all other cells; of times of day since 1900."""
    scale = scale_of(form)
    if scale is not None:
        number = once_each(number_of)
        return np.array([number(cell) * scale[0] + scale[1] for cell in cells], dtype=float)
    numbers = cells.map(lambda cell: isinstance(cell, Real | Decimal)).to_numpy(dtype=bool)
    cells = cells.where(~numbers, cells.map(text_of))
    texts = cells.map(lambda cell: isinstance(cell, str)).to_numpy(dtype=bool)
    instants = np.full(len(cells), np.nan)
    if texts.any():
        plain = re.sub("%[-:^]", "%", form)
        instants[texts] = _of_texts(cells[texts].str.strip(), plain)
    return instants


def _of_texts(texts: pd.Series, form: str) -> np.ndarray:
    """Return instants of texts in a format of :func:`pandas.to_datetime`."""

    def read(values: object) -> Any:
        return pd.to_datetime(values, format=form, errors="coerce", utc=True)

    times = read(texts).dt.tz_localize(None).to_numpy()
    numbers = microseconds(times)
    if np.datetime_data(times.dtype)[0] == "ns":
        # Where one text has nanoseconds, pandas 3 reads all of them as such, and none of the year 9999; pandas 2 always does.
        unread = np.flatnonzero(np.isnan(numbers))
        single = {
            text: _of_far_text(text, form)
            if ALWAYS_NANOSECONDS
            else microseconds(read([text]).tz_localize(None).to_numpy())[0]
            for text in dict.fromkeys(texts.iloc[unread])
        }
        numbers[unread] = [single[text] for text in texts.iloc[unread]]
    return numbers


def _of_far_text(text: str, form: str) -> float:
    """Return the instant of a text that nanoseconds do not reach, NaN of others."""
    read = datetime.datetime
    try:
        moment = read.fromisoformat(text) if form == "ISO8601" else read.strptime(text, form)
    except ValueError:
        return math.nan
    instant = _of_object(moment)
    first, last = (float(end.value // 1_000) for end in (pd.Timestamp.min, pd.Timestamp.max))
    return math.nan if first <= instant <= last else instant


def _of_object(cell: Any) -> float:
    """Return the microseconds since 1970 of one object, as :func:`instants_of`."""
    if isinstance(cell, np.datetime64) and not np.isnat(cell):
        try:
            cell = pd.Timestamp(cell).to_datetime64()
        except (ValueError, OverflowError):  # of more years than 64 bits of seconds have
            return float(math.copysign(FARTHEST, int(cell.astype("int64"))))
        return float(microseconds(np.array([cell]))[0])
    if not isinstance(cell, datetime.date) or cell is pd.NaT:
        return math.nan
    if isinstance(cell, pd.Timestamp):
        cell = cell.to_pydatetime(warn=False)
    if not isinstance(cell, datetime.datetime):
        cell = datetime.datetime.combine(cell, datetime.time())
    moved = cell.utcoffset() or datetime.timedelta(0)
    return float((cell.replace(tzinfo=None) - EPOCH - moved) // MICROSECOND)
