"""Columns of dates, times and durations: amounts of a unit between declared bounds, whose codes are cells.

Each kind converts its values to whole numbers of a unit, such as days since 1970, and back; cells, bounds and
groups are those of a :class:`~tabsynth.Numeric` column of these numbers.
"""

import datetime
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
import pandas as pd
from pandas.errors import OutOfBoundsTimedelta

from tabsynth._typing import JsonObject
from tabsynth._validate import check_text, quote, quote_text
from tabsynth.errors import InputError
from tabsynth.schema.cells import base_dtype, is_null, is_range, range_ends
from tabsynth.schema.column import (
    Column,
    JsonTypes,
    check_nulls,
    domain_with_missing,
    fill_missing,
    label_of,
)
from tabsynth.schema.conditions import Restriction, has_no
from tabsynth.schema.facts import Cells
from tabsynth.schema.numeric import Numeric
from tabsynth.schema.reading import each

MICROSECONDS_A_DAY = 86_400_000_000
MICROSECONDS_AN_HOUR = MICROSECONDS_A_DAY // 24
FARTHEST = 106_751_991 * MICROSECONDS_A_DAY  # microseconds of whole days that 64 bits hold
EPOCH, MICROSECOND = datetime.datetime(1970, 1, 1), datetime.timedelta(microseconds=1)
# The first and the last microsecond of Python's dates, since 1970.
YEARS = (
    (datetime.datetime.min - EPOCH) // MICROSECOND,
    (datetime.datetime.max - EPOCH) // MICROSECOND,
)


@dataclass(frozen=True, kw_only=True)
class Temporal(Column):
    """The base class of the kinds of dates, times and durations.

    Parameters
    ----------
    name, kind, dtype, nulls, provenance, source, description, labels
        As of :class:`~tabsynth.schema.Column`.
    low, high : str
        Bounds, both included, as text.
    bins, breaks, clip
        As of :class:`~tabsynth.Numeric`; ``breaks`` are texts like the bounds.
    """

    low: str | None = None
    high: str | None = None
    bins: int | None = None
    breaks: tuple[str, ...] = ()
    clip: bool = False

    json_types: ClassVar[JsonTypes] = {
        "low": str,
        "high": str,
        "bins": int,
        "breaks": list,
        "clip": bool,
    }
    copied_facts: ClassVar[tuple[str, ...]] = ("low", "high", "breaks")
    ordered: ClassVar[bool] = True
    example: ClassVar[str] = ""
    axis_kind: ClassVar[str] = "date"  # as of :meth:`Column.axis`
    object_range: ClassVar[tuple[int, int]] = YEARS  # microseconds of texts and Python's objects

    # What a kind defines.

    def _amounts(self, values: pd.Series) -> np.ndarray:
        """Return units of values without nulls, shape (n,) float64; NaN for what is no value of the kind."""
        raise NotImplementedError

    def _values(self, numbers: np.ndarray) -> pd.Series:
        """Return values of whole numbers of units, in the column's dtype."""
        raise NotImplementedError

    # Facts.

    def _check(self, where: str) -> None:
        object.__setattr__(self, "breaks", tuple(self.breaks))
        if self.low is None or self.high is None:
            raise InputError(f"{where}: declare low and high, such as {self.example!r}.")
        for text in (self.low, self.high, *self.breaks):
            check_text(where, text)
        if self.units.cells < 1:  # made here, so that it refuses what it cannot be made of
            raise InputError(f"{where}: declare low and high.")
        first, last = self._dtype_range
        if not first <= self.units.bounds[0] <= self.units.bounds[1] <= last:
            raise InputError(
                f"{where}: dtype {self.dtype} cannot hold all values from {self.low} to {self.high}; narrow the bounds,"
                " or declare a dtype of another unit, such as datetime64[us]."
            )

    @cached_property
    def unit_length(self) -> int:
        """Microseconds of a unit: of the resolution, or of a day."""
        return microseconds_of(getattr(self, "resolution", "1D"), f"column {quote(self.name)}")

    @property
    def _dtype_range(self) -> tuple[float, float]:
        """The least and the largest number of units that values of the dtype have."""
        first, last = _limits(self.dtype, self.object_range)
        return -(-first // self.unit_length), last // self.unit_length

    def unit_of(self, text: object, where: str) -> int:
        """Return the number of units of one value, of the column's type or a text as the bounds are.

        Raises
        ------
        InputError
        """
        cell = np.empty(1, dtype=object)
        cell[0] = text
        single = pd.Series(cell, dtype=object)
        number = self._amounts(single)[0]
        if np.isnan(number) and getattr(self, "format", None) is not None:
            iso: JsonObject = {"format": None}
            number = replace(self, **iso).amounts(single)[0]
        if np.isnan(number):
            raise InputError(
                f"{where}: {quote_text(text)} is no {self.kind}; write it like {self.example!r}."
            )
        return int(number)

    @cached_property
    def units(self) -> Numeric:
        """The column of whole numbers of units."""
        where = f"column {quote(self.name)}"
        low, high, *breaks = (self.unit_of(t, where) for t in (self.low, self.high, *self.breaks))
        if low > high:
            raise InputError(f"{where}: low={self.low} is after high={self.high}.")
        return Numeric(
            name=self.name,
            dtype="Int64",
            nulls=self.nulls,
            low=low,
            high=high,
            bins=self.bins,
            breaks=tuple(breaks),
            clip=self.clip,
        )

    def text_of(self, number: float) -> str:
        """Return a number of units as text."""
        return str(self._values(np.array([int(number)], dtype=np.int64)).iloc[0])

    @property
    def cells(self) -> int:
        """Number of cells."""
        return self.units.cells

    def label(self, code: int) -> str:
        """Return the first and the last value of a cell."""
        if code >= self.cells:
            return super().label(code)
        first, last = (self.text_of(ends[code]) for ends in self.units.cell_ends())
        return label_of(self.labels, first) if first == last else f"{first} to {last}"

    def domain(self, limit: int = 8) -> str:
        """Implement :meth:`Column.domain`."""
        return domain_with_missing(self, f"{self.kind}s from {self.low} to {self.high}", limit)

    def scores(self) -> np.ndarray:
        """Return midpoints of the cells in units; NaN for missing values."""
        return fill_missing(self, self.units.scores()[: self.cells], np.nan)

    def axis(self) -> tuple[str, np.ndarray]:
        """Implement :meth:`Column.axis`; a unit begins at its value."""
        return self._on_axis(self.units.edges() + 0.5)

    def _on_axis(self, units: np.ndarray) -> tuple[str, np.ndarray]:
        """Return the kind of axis, and numbers of units on it."""
        width = MICROSECONDS_A_DAY if self.axis_kind == "date" else MICROSECONDS_AN_HOUR
        return self.axis_kind, units * self.unit_length / width

    def strict(self) -> Self:
        """Implement :meth:`Column.strict`: without ``clip``."""
        return replace(self, clip=False)

    # Amounts.

    def from_amounts(self, amounts: np.ndarray) -> pd.Series:
        """Implement :meth:`Column.from_amounts`."""
        nulls = np.isnan(amounts)
        low, high = self.units.bounds
        numbers = np.clip(np.where(nulls, low, np.round(amounts)), low, high).astype(np.int64)
        return self._with_nulls(numbers, nulls)

    def code_amounts(self) -> tuple[np.ndarray, np.ndarray]:
        """Implement :meth:`Column.code_amounts`."""
        return self.units.code_amounts()

    @property
    def amount_step(self) -> float | None:
        """One unit."""
        return 1.0

    # Values to codes and back.

    def _encode(self, values: pd.Series) -> np.ndarray:
        """Implement :meth:`Column.encode`: the cell of each value."""
        numbers = self._amounts(values)
        if np.isnan(numbers).any():
            raise self._not_of_type(values.iloc[int(np.isnan(numbers).argmax())])
        low, high = self.units.bounds
        outside = (numbers < low) | (numbers > high)
        if outside.any() and not self.clip:
            raise self._outside_bounds(values.iloc[int(outside.argmax())])
        return self.units.encode(pd.Series(numbers))

    def _outside_bounds(self, value: object) -> InputError:
        return InputError(
            f"Column {quote(self.name)}: {quote_text(value)} is outside its declared bounds, {self.low}"
            f" to {self.high}; correct it, widen the bounds, or declare clip=true."
        )

    def placing(self, database_type: str) -> Cells | None:
        """Implement :meth:`Column.placing`: a cell begins where its first unit does."""
        first = self.units.cell_steps()[0][1:].astype(np.int64) + int(self.units.bounds[0])
        low, high = (int(bound) for bound in self.units.bounds)
        try:
            starts = tuple(self._start(database_type, int(unit)) for unit in first)
            ends = self._start(database_type, low), self._last(database_type, high)
        except (OverflowError, ValueError):  # beyond what Python's dates hold
            return None
        return None if None in ends else Cells(starts, *ends, self.clip)

    def _start(self, database_type: str, unit: int) -> Any:
        """Return the first moment of a unit, in a type of a database; None where the type does not hold the kind."""
        return None

    def _last(self, database_type: str, unit: int) -> Any:
        """Return the last moment of a unit, at microseconds."""
        return None

    def _not_of_type(self, value: object) -> InputError:
        return InputError(
            f"Column {quote(self.name)}: {quote_text(value)} is no {self.kind}; correct it, write it like"
            f" {self.example!r}, or add it to the schema's null_values if it stands for a missing value."
        )

    def _decode(
        self, codes: np.ndarray, rng: np.random.Generator, within: Any, details: np.ndarray | None
    ) -> pd.Series:
        """Return uniform draws of whole units within each cell."""
        drawn = self.units.decode(codes, rng, within)
        nulls = drawn.isna().to_numpy()
        numbers = drawn.fillna(self.units.low).to_numpy(dtype=np.int64)
        return self._with_nulls(numbers, nulls)

    def _with_nulls(self, numbers: np.ndarray, nulls: np.ndarray) -> pd.Series:
        check_nulls(self, nulls)
        values = self._values(numbers)
        if nulls.any():
            values = values.mask(pd.Series(nulls, index=values.index))
        return values.rename(self.name)

    # Values of files and tables.

    def _convert(self, values: pd.Series, texts: bool) -> pd.Series:
        """Convert as :meth:`Column.convert`; with ``clip``, a value that the dtype does not hold becomes the nearest bound."""
        nulls = values.isna().to_numpy()
        numbers = self.amounts(values)
        wrong = np.isnan(numbers) & ~nulls
        if wrong.any():
            raise self._not_of_type(values.iloc[int(wrong.argmax())])
        (first, last), (low, high) = self._dtype_range, self.units.bounds
        before, after = numbers < first, numbers > last
        if (before | after).any() and not self.clip:
            raise self._outside_bounds(values.iloc[int((before | after).argmax())])
        numbers = np.where(before, low, np.where(after, high, np.where(nulls, low, numbers)))
        return self._with_nulls(numbers.astype(np.int64), nulls).set_axis(values.index)

    # Conditions and combinations of values.

    def _restriction(self, values: Sequence[Any], where: str) -> Restriction:
        """Implement :meth:`Column.restriction`."""
        first, last = self.units.bounds
        units: list[Any] = []
        for value in values:
            if is_null(value) and self.nulls:
                units.append(None)
                continue
            ends = range_ends(value) if is_range(value) else (value, value)
            try:
                low, high = (self.unit_of(end, where) for end in ends)
            except InputError:
                raise has_no(self, value, where) from None
            if not first <= low <= high <= last:
                raise has_no(self, value, where)
            units.append({"low": low, "high": high} if is_range(value) else low)
        restriction = self.units.restriction(units, where)
        admits_units = restriction.admits
        if admits_units is None:
            return restriction

        def admits(values: pd.Series) -> np.ndarray:
            return admits_units(pd.Series(self.amounts(values)).astype("Int64"))

        return replace(restriction, admits=admits)


def _microseconds(times: np.ndarray) -> np.ndarray:
    """Return microseconds of numpy's times or lengths of time, shape (n,) float64, rounded down; at most :data:`FARTHEST`."""
    numbers, unit = times.astype("int64"), np.datetime_data(times.dtype)[0]
    if unit == "ns":
        microseconds = numbers // 1_000
    else:
        size = {"us": 1, "ms": 1_000, "s": 1_000_000}[unit]
        microseconds = np.clip(numbers, -FARTHEST // size, FARTHEST // size) * size
    return np.where(np.isnat(times), np.nan, microseconds)


def _limits(dtype: str, of_objects: tuple[int, int]) -> tuple[int, int]:
    """Return the least and the largest microsecond that a dtype holds; ``of_objects``: those of texts and Python's objects."""
    if base_dtype(dtype) == "text":
        return of_objects
    largest = (2**63 - 1) // 1_000 if "64[ns" in dtype else FARTHEST
    # Zones are known of Python's years; a day is more than any of them moves a time.
    if "," in dtype:
        smallest, greatest = YEARS[0] + MICROSECONDS_A_DAY, YEARS[1] - MICROSECONDS_A_DAY
        return max(-largest, smallest), min(largest, greatest)
    return -largest, largest


def instants_of(values: pd.Series, form: str | None) -> np.ndarray:
    """Return microseconds since 1970, shape (n,) float64, NaN for what is no date or time; zones are UTC."""
    if base_dtype(str(values.dtype)) != "datetime":
        return _instants_of_cells(values.astype(object), form)
    if getattr(values.dtype, "tz", None) is not None:
        values = values.dt.tz_convert("UTC").dt.tz_localize(None)
    return _microseconds(values.to_numpy())


def _instants_of_cells(cells: pd.Series, form: str | None) -> np.ndarray:
    """Return :func:`instants_of` of texts and of Python's dates, each by itself."""
    texts = cells.map(lambda cell: isinstance(cell, str)).to_numpy(dtype=bool)
    out = np.full(len(cells), np.nan)
    if texts.any():
        out[texts] = _of_texts(cells[texts], form)
    for place in np.flatnonzero(~texts):
        out[place] = _of_object(cells.iloc[place])
    return out


def _of_texts(texts: pd.Series, form: str | None) -> np.ndarray:
    def read(values: object) -> Any:
        return pd.to_datetime(values, format=form or "ISO8601", errors="coerce", utc=True)

    times = read(texts).dt.tz_localize(None).to_numpy()
    numbers = _microseconds(times)
    if np.datetime_data(times.dtype)[0] == "ns":
        # Where one text has nanoseconds, pandas reads all of them as such, and none of the year 9999.
        unread = np.flatnonzero(np.isnan(numbers))
        single = {
            text: _microseconds(read([text]).tz_localize(None).to_numpy())[0]
            for text in dict.fromkeys(texts.iloc[unread])
        }
        numbers[unread] = [single[text] for text in texts.iloc[unread]]
    # Digits alone, as 2020 or 20200131, are dates in ISO 8601, but may be any number.
    if form is None:
        bare = texts.str.fullmatch(r"\s*[+-]?\d+\s*").to_numpy(dtype=bool)
        numbers[bare] = np.nan
    return numbers


def _of_object(cell: Any) -> float:
    """Return the microseconds since 1970 of one object, as :func:`instants_of`."""
    if isinstance(cell, np.datetime64) and not np.isnat(cell):
        try:
            cell = pd.Timestamp(cell).to_datetime64()
        except (ValueError, OverflowError):  # of more years than 64 bits of seconds have
            return float(math.copysign(FARTHEST, int(cell.astype("int64"))))
        return float(_microseconds(np.array([cell]))[0])
    if not isinstance(cell, datetime.date) or cell is pd.NaT:
        return math.nan
    if isinstance(cell, pd.Timestamp):
        cell = cell.to_pydatetime(warn=False)
    if not isinstance(cell, datetime.datetime):
        cell = datetime.datetime.combine(cell, datetime.time())
    moved = cell.utcoffset() or datetime.timedelta(0)
    return float((cell.replace(tzinfo=None) - EPOCH - moved) // MICROSECOND)


def _check_format(column: Any, where: str) -> None:
    """Raise InputError for a format of texts that dates cannot be written and read by."""
    form = column.format
    if form is None:
        return
    check_text(where, form)
    if base_dtype(column.dtype) != "text":
        raise InputError(f"{where}: format is of columns of text, and its dtype is {column.dtype}.")
    instant = datetime.datetime(2020, 11, 23)
    try:
        read = datetime.datetime.strptime(instant.strftime(form), form)
    except (ValueError, re.error):
        read = None
    if read is None or read.date() != instant.date():
        raise InputError(
            f"{where}: format {quote(form)} does not give back a date that it wrote; name year, month and"
            " day, as in '%d/%m/%Y'."
        )


@dataclass(frozen=True, kw_only=True)
class Date(Temporal):
    """A column of days between two dates.

    Parameters
    ----------
    name, kind, dtype, nulls, provenance, source, description, labels, bins, clip
        As of :class:`~tabsynth.Numeric`; the dtype is ``datetime64[ns]`` (or another unit), text, or
        ``object`` for Python's dates.
    low, high : str
        Dates as ``"2015-01-01"``.
    breaks : tuple of str
        Dates at which cells begin.
    format : str, optional
        How texts are written, for :meth:`datetime.date.strftime`. Default: ISO 8601, 2015-01-31.

    Examples
    --------
    >>> from tabsynth import Date
    >>> visit = Date(name="visit", dtype="str", low="2020-01-01", high="2020-12-31", bins=12)
    >>> visit.label(0)
    '2020-01-01 to 2020-01-31'
    """

    kind: str = "date"
    format: str | None = None

    dtypes: ClassVar[tuple[str, ...]] = ("datetime", "text")
    json_types: ClassVar[JsonTypes] = {**Temporal.json_types, "format": str}
    example: ClassVar[str] = "2020-01-31"

    def _check(self, where: str) -> None:
        _check_format(self, where)
        super()._check(where)

    def _amounts(self, values: pd.Series) -> np.ndarray:
        instants = instants_of(values, self.format)
        return np.where(instants % MICROSECONDS_A_DAY == 0, instants / MICROSECONDS_A_DAY, np.nan)

    def _values(self, numbers: np.ndarray) -> pd.Series:
        days = pd.Series(numbers.astype("datetime64[D]").astype("datetime64[s]"))
        if base_dtype(self.dtype) == "datetime":
            return days.astype(self.dtype)
        if self.dtype == "object":
            return pd.Series(days.dt.date.to_numpy(), dtype=object)
        return days.dt.strftime(self.format or "%Y-%m-%d").astype(self.dtype)

    def _start(self, database_type: str, unit: int) -> Any:
        if database_type != "date":  # an instant may have a time of day, which is refused
            return None
        return datetime.date(1970, 1, 1) + datetime.timedelta(days=unit)

    _last = _start

    def text_of(self, number: float) -> str:
        """Return the date in ISO 8601."""
        return str(np.datetime64(int(number), "D"))


@dataclass(frozen=True, kw_only=True)
class Datetime(Temporal):
    """A column of instants: a day and a time of day, with or without a time zone.

    Parameters
    ----------
    name, kind, dtype, nulls, provenance, source, description, labels, bins, clip
        As of :class:`~tabsynth.Numeric`; the dtype is ``datetime64[ns]``, ``datetime64[ns, Europe/Berlin]`` or
        text. Cells of a column with a time zone are intervals of UTC.
    low, high : str
        As ``"2015-01-01 00:00"``; of a column with a time zone in UTC, unless they name an offset.
    breaks : tuple of str
    format : str, optional
        How texts are written. Default: ISO 8601.
    resolution : str, optional
        The unit of values, as pandas writes a timedelta: ``"1min"``. Finer values are rounded down to it.
        Default: ``"1s"``.
    """

    kind: str = "datetime"
    format: str | None = None
    resolution: str = "1s"

    dtypes: ClassVar[tuple[str, ...]] = ("datetime", "text")
    json_types: ClassVar[JsonTypes] = {**Temporal.json_types, "format": str, "resolution": str}
    example: ClassVar[str] = "2020-01-31 08:30:00"

    def _check(self, where: str) -> None:
        _check_format(self, where)
        super()._check(where)

    def _amounts(self, values: pd.Series) -> np.ndarray:
        return np.floor(instants_of(values, self.format) / self.unit_length)

    def _values(self, numbers: np.ndarray) -> pd.Series:
        instants = (numbers * self.unit_length).astype("datetime64[us]")
        series = pd.Series(instants)
        if base_dtype(self.dtype) != "datetime":
            layout = "%Y-%m-%d %H:%M:%S"
            if self.unit_length % 1_000_000:
                layout += ".%f"
            return series.dt.strftime(self.format or layout).astype(self.dtype)
        zone = re.fullmatch(r"datetime64\[\w+, (.+)\]", self.dtype)
        if zone is None:
            return series.astype(self.dtype)
        return series.dt.tz_localize("UTC").dt.tz_convert(zone[1]).astype(self.dtype)

    def _start(self, database_type: str, unit: int) -> Any:
        zones = {"datetime": None, "datetime with zone": datetime.UTC}
        if database_type not in zones:
            return None
        moment = datetime.timedelta(microseconds=unit * self.unit_length)
        return datetime.datetime(1970, 1, 1, tzinfo=zones[database_type]) + moment

    def _last(self, database_type: str, unit: int) -> Any:
        following = self._start(database_type, unit + 1)
        return None if following is None else following - datetime.timedelta(microseconds=1)

    def text_of(self, number: float) -> str:
        """Return the instant in ISO 8601."""
        instant = np.datetime64(int(number) * self.unit_length, "us")
        return str(pd.Timestamp(instant))


@dataclass(frozen=True, kw_only=True)
class Time(Temporal):
    """A column of times of day, as text such as 08:30 or as Python's ``datetime.time``.

    Parameters
    ----------
    name, kind, dtype, nulls, provenance, source, description, labels, bins, breaks, clip
        As of :class:`~tabsynth.Numeric`; the dtype is text, or ``object`` for Python's times.
    low, high : str
        Default: the whole day.
    resolution : {"1min", "1s"}
        The unit of values; texts have seconds if it is ``"1s"``.
    """

    kind: str = "time"
    low: str | None = "00:00"
    high: str | None = "23:59:59"
    resolution: str = "1min"

    dtypes: ClassVar[tuple[str, ...]] = ("text",)
    json_types: ClassVar[JsonTypes] = {**Temporal.json_types, "resolution": str}
    example: ClassVar[str] = "08:30"
    axis_kind: ClassVar[str] = "time"

    def _check(self, where: str) -> None:
        if self.resolution not in ("1min", "1s"):
            raise InputError(
                f"{where}: expected resolution 1min or 1s, got {quote(self.resolution)}."
            )
        super()._check(where)

    def _amounts(self, values: pd.Series) -> np.ndarray:
        form = re.compile(r"([01]\d|2[0-3]|\d):([0-5]\d)(?::([0-5]\d)(?:\.\d+)?)?")

        def seconds(value: object) -> float:
            if isinstance(value, datetime.time):
                value = value.isoformat()
            match = form.fullmatch(value.strip()) if isinstance(value, str) else None
            if match is None:
                return np.nan
            return int(match[1]) * 3600 + int(match[2]) * 60 + int(match[3] or 0)

        numbers = np.array(each(self, values.to_numpy(dtype=object), seconds), dtype=float)
        return np.floor(numbers * 1_000_000 / self.unit_length)

    def _values(self, numbers: np.ndarray) -> pd.Series:
        seconds = numbers.astype(np.int64) * (self.unit_length // 1_000_000)
        times = [datetime.time(s // 3600, s // 60 % 60, s % 60) for s in seconds.tolist()]
        if self.dtype == "object":
            return pd.Series(times, dtype=object)
        form = "%H:%M" if self.resolution == "1min" else "%H:%M:%S"
        return pd.Series([t.strftime(form) for t in times], dtype=object).astype(self.dtype)


@dataclass(frozen=True, kw_only=True)
class Duration(Temporal):
    """A column of lengths of time, of dtype ``timedelta64[ns]`` or as text such as "2 days 03:00:00".

    Parameters
    ----------
    name, kind, dtype, nulls, provenance, source, description, labels, bins, breaks, clip
        As of :class:`~tabsynth.Numeric`.
    low, high : str
        As pandas writes a timedelta: ``"0 days"``, ``"12h"``.
    resolution : str
        The unit of values. Default: ``"1s"``.
    """

    kind: str = "duration"
    resolution: str = "1s"

    dtypes: ClassVar[tuple[str, ...]] = ("timedelta", "text")
    json_types: ClassVar[JsonTypes] = {**Temporal.json_types, "resolution": str}
    quantitative: ClassVar[bool] = True
    example: ClassVar[str] = "2 days 03:00:00"
    axis_kind: ClassVar[str] = "duration"
    object_range: ClassVar[tuple[int, int]] = (-FARTHEST, FARTHEST)

    def _amounts(self, values: pd.Series) -> np.ndarray:
        if base_dtype(str(values.dtype)) == "timedelta":
            lengths = _microseconds(values.to_numpy())
        else:
            lengths = np.array(each(self, values.to_numpy(dtype=object), _length_of), dtype=float)
        return np.floor(lengths / self.unit_length)

    def _values(self, numbers: np.ndarray) -> pd.Series:
        lengths = pd.Series((numbers * self.unit_length).astype("timedelta64[us]"))
        if base_dtype(self.dtype) == "timedelta":
            return lengths.astype(self.dtype)
        return lengths.map(str).astype(self.dtype)


@dataclass(frozen=True, kw_only=True)
class Period(Temporal):
    """A column of calendar periods, of a dtype such as ``period[M]``.

    Parameters
    ----------
    name, kind, dtype, nulls, provenance, source, description, labels, bins, breaks, clip
        As of :class:`~tabsynth.Numeric`; the frequency is that of the dtype.
    low, high : str
        As pandas writes a period: ``"2015-01"``, ``"2015Q1"``, ``"2015"``.
    """

    kind: str = "period"

    dtypes: ClassVar[tuple[str, ...]] = ("period",)
    example: ClassVar[str] = "2020-01"

    @cached_property
    def unit_length(self) -> int:
        """One: periods are counted, whatever their lengths."""
        return 1

    def _frequency(self) -> str:
        return self.dtype[len("period[") : -1]

    def _amounts(self, values: pd.Series) -> np.ndarray:
        def ordinal(value: object) -> float:
            try:
                year = isinstance(value, int) and not isinstance(value, bool)
                period = pd.Period(str(value) if year else value, freq=self._frequency())
            except (ValueError, TypeError, OverflowError):
                return np.nan
            return np.nan if period is pd.NaT else period.ordinal

        return np.array(each(self, values.to_numpy(dtype=object), ordinal), dtype=float)

    def _values(self, numbers: np.ndarray) -> pd.Series:
        array = pd.PeriodIndex.from_ordinals(numbers.astype(np.int64), freq=self._frequency())
        return pd.Series(array).astype(self.dtype)

    def _on_axis(self, units: np.ndarray) -> tuple[str, np.ndarray]:
        first = np.floor(units).astype(np.int64)  # a cell ends where the next period begins
        starts = pd.PeriodIndex.from_ordinals(first, freq=self._frequency()).to_timestamp()
        day = np.timedelta64(MICROSECONDS_A_DAY, "us")
        return "date", (starts.to_numpy() - np.datetime64(0, "s")) / day


def _length_of(value: object) -> float:
    """Return the microseconds of one length of time; NaN for what is none."""
    if isinstance(value, datetime.timedelta) and not isinstance(value, pd.Timedelta):
        return float(min(max(value // MICROSECOND, -FARTHEST), FARTHEST))
    if not isinstance(value, str | pd.Timedelta | np.timedelta64) or (
        isinstance(value, str) and re.fullmatch(r"\s*[+-]?\d+\s*", value)
    ):
        return math.nan
    try:
        length = pd.Timedelta(value)
        if length is pd.NaT:
            return math.nan
        return float(_microseconds(np.array([length.to_timedelta64()]))[0])
    except (ValueError, OverflowError) as error:
        if isinstance(value, str) or not isinstance(error, OverflowError | OutOfBoundsTimedelta):
            return math.nan
        return float(math.copysign(FARTHEST, int(value.astype("int64"))))


def microseconds_of(resolution: object, where: str) -> int:
    """Return microseconds of a unit.

    Raises
    ------
    InputError
    """
    try:
        unit = (
            pd.Timedelta(resolution) // pd.Timedelta(1, "us") if isinstance(resolution, str) else 0
        )
    except ValueError:
        unit = 0
    if not unit >= 1:  # NaN of an empty text
        raise InputError(
            f"{where}: expected resolution like '1s', '1min' or '1h', got {quote(resolution)}."
        )
    return int(unit)
