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
from tabsynth.schema.numeric import Numeric
from tabsynth.schema.reading import each
from tabsynth.schema.time_texts import (
    EPOCH,
    FARTHEST,
    MICROSECOND,
    MICROSECONDS_A_DAY,
    instants_in,
    instants_of,
    is_numeric,
    microseconds,
    texts_of_instants,
)

MICROSECONDS_AN_HOUR = MICROSECONDS_A_DAY // 24
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
    coarsest: ClassVar[int] = MICROSECONDS_A_DAY  # microseconds that a format tells apart
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
        self._check_format(where)
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

    def _check_format(self, where: str) -> None:
        """Raise InputError for a format that does not read what it writes, and for numbers without a format."""
        form, of_numbers = getattr(self, "format", None), base_dtype(self.dtype) in ("int", "float")
        if form is None and not of_numbers:
            return
        check_text(where, form)
        if form is None or (of_numbers and not is_numeric(form)):
            raise InputError(
                f"{where}: whole numbers are a {self.kind} in a format such as '%Y%m%d' or 'days since 1899-12-30'."
            )
        if not of_numbers and base_dtype(self.dtype) != "text":
            raise InputError(
                f"{where}: format is of columns of text and of whole numbers, and its dtype is {self.dtype}."
            )
        unit = self.unit_of(self.example, where)
        try:
            read = self._amounts(self._values(np.array([unit], dtype=np.int64)))[0]
        except (ValueError, re.error):
            read = np.nan
        if not abs(read - unit) * self.unit_length < self.coarsest:
            parts = "hour and minute" if self.axis_kind == "time" else "year, month and day"
            raise InputError(
                f"{where}: format {quote(form)} does not give back a {self.kind} that it wrote; name {parts}, as in"
                f" {'%H:%M' if self.axis_kind == 'time' else '%d/%m/%Y'!r}."
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

    def _written(self, moments: np.ndarray, form: str, zone: str | None = None) -> pd.Series:
        """Return numpy's moments in a format, in the dtype of the column."""
        instants = moments.astype("datetime64[us]").astype(np.int64)
        cells = texts_of_instants(instants, form, self.unit_length, zone)
        if base_dtype(self.dtype) in ("int", "float"):
            cells = cells.astype(np.int64)
        return pd.Series(cells).astype(self.dtype)

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


def _limits(dtype: str, of_objects: tuple[int, int]) -> tuple[int, int]:
    """Return the least and the largest microsecond that a dtype holds; ``of_objects``: those of texts and Python's objects."""
    if base_dtype(dtype) in ("text", "int", "float"):
        return of_objects
    largest = (2**63 - 1) // 1_000 if "64[ns" in dtype else FARTHEST
    # Zones are known of Python's years; a day is more than any of them moves a time.
    if "," in dtype:
        smallest, greatest = YEARS[0] + MICROSECONDS_A_DAY, YEARS[1] - MICROSECONDS_A_DAY
        return max(-largest, smallest), min(largest, greatest)
    return -largest, largest


@dataclass(frozen=True, kw_only=True)
class Date(Temporal):
    """A column of days between two dates.

    Parameters
    ----------
    name, kind, dtype, nulls, provenance, source, description, labels, bins, clip
        As of :class:`~tabsynth.Numeric`; the dtype is ``datetime64[ns]`` (or another unit), text, one of whole numbers, or
        ``object`` for Python's dates.
    low, high : str
        Dates as ``"2015-01-01"``.
    breaks : tuple of str
        Dates at which cells begin.
    format : str, optional
        How texts and numbers are written: see :mod:`tabsynth.schema.time_texts`. Default: ISO 8601, 2015-01-31. Numbers need
        one, such as ``%Y%m%d`` or ``days since 1899-12-30``. Texts in ISO 8601 are read under any format.

    Examples
    --------
    >>> from tabsynth import Date
    >>> visit = Date(name="visit", dtype="str", low="2020-01-01", high="2020-12-31", bins=12)
    >>> visit.label(0)
    '2020-01-01 to 2020-01-31'
    """

    kind: str = "date"
    format: str | None = None

    dtypes: ClassVar[tuple[str, ...]] = ("datetime", "text", "int", "float")
    json_types: ClassVar[JsonTypes] = {**Temporal.json_types, "format": str}
    example: ClassVar[str] = "2020-01-31"

    def _amounts(self, values: pd.Series) -> np.ndarray:
        instants = instants_of(values, self.format)
        return np.where(instants % MICROSECONDS_A_DAY == 0, instants / MICROSECONDS_A_DAY, np.nan)

    def _values(self, numbers: np.ndarray) -> pd.Series:
        days = numbers.astype("datetime64[D]").astype("datetime64[s]")
        if base_dtype(self.dtype) == "datetime":
            return pd.Series(days).astype(self.dtype)
        if self.dtype == "object":
            return pd.Series(pd.Series(days).dt.date.to_numpy(), dtype=object)
        return self._written(days, self.format or "%Y-%m-%d")

    def text_of(self, number: float) -> str:
        """Return the date in ISO 8601."""
        return str(np.datetime64(int(number), "D"))


@dataclass(frozen=True, kw_only=True)
class Datetime(Temporal):
    """A column of instants: a day and a time of day, with or without a time zone.

    Parameters
    ----------
    name, kind, dtype, nulls, provenance, source, description, labels, bins, clip
        As of :class:`~tabsynth.Numeric`; the dtype is ``datetime64[ns]``, ``datetime64[ns, Europe/Berlin]``,
        text or one of whole numbers. Cells of a column with a time zone are intervals of UTC.
    low, high : str
        As ``"2015-01-01 00:00"``; of a column with a time zone in UTC, unless they name an offset.
    breaks : tuple of str
    format : str, optional
        As of :class:`~tabsynth.Date`: ``"%Y-%m-%dT%H:%M:%S%:z"``, ``"seconds since 1970-01-01"``. ``%f`` has as many digits
        as the resolution needs. Default: ISO 8601.
    resolution : str, optional
        The unit of values, as pandas writes a timedelta: ``"1min"``. Finer values are rounded down to it.
        Default: ``"1s"``.
    zone : str, optional
        The time zone in which texts with an offset (``%z``, ``%:z``) are written, such as ``"Europe/Berlin"`` or
        ``"+01:00"``. Default: UTC.
    """

    kind: str = "datetime"
    format: str | None = None
    resolution: str = "1s"
    zone: str | None = None

    dtypes: ClassVar[tuple[str, ...]] = ("datetime", "text", "int", "float")
    json_types: ClassVar[JsonTypes] = {
        **Temporal.json_types,
        "format": str,
        "resolution": str,
        "zone": str,
    }
    example: ClassVar[str] = "2020-01-31 08:30:00"

    def _check(self, where: str) -> None:
        if self.zone is not None:
            check_text(where, self.zone)
            if not re.search("%:?z", self.format or ""):
                raise InputError(
                    f"{where}: zone is of texts with an offset; declare a format with %z or %:z."
                )
            try:
                pd.Timestamp(0).tz_localize(self.zone)
            except (KeyError, ValueError, OSError):
                raise InputError(
                    f"{where}: no time zone is {quote(self.zone)}; write one like 'Europe/Berlin' or '+01:00'."
                ) from None
        super()._check(where)

    def _amounts(self, values: pd.Series) -> np.ndarray:
        return np.floor(instants_of(values, self.format) / self.unit_length)

    def _values(self, numbers: np.ndarray) -> pd.Series:
        instants = (numbers * self.unit_length).astype("datetime64[us]")
        if base_dtype(self.dtype) != "datetime":
            layout = "%Y-%m-%d %H:%M:%S" + ".%f" * bool(self.unit_length % 1_000_000)
            return self._written(instants, self.format or layout, self.zone)
        series = pd.Series(instants)
        zone = re.fullmatch(r"datetime64\[\w+, (.+)\]", self.dtype)
        if zone is None:
            return series.astype(self.dtype)
        return series.dt.tz_localize("UTC").dt.tz_convert(zone[1]).astype(self.dtype)

    def text_of(self, number: float) -> str:
        """Return the instant in ISO 8601."""
        instant = np.datetime64(int(number) * self.unit_length, "us")
        return str(pd.Timestamp(instant))


@dataclass(frozen=True, kw_only=True)
class Time(Temporal):
    """A column of times of day, as text such as 14:30 or as Python's ``datetime.time``.

    Parameters
    ----------
    name, kind, dtype, nulls, provenance, source, description, labels, bins, breaks, clip
        As of :class:`~tabsynth.Numeric`; the dtype is text, or ``object`` for Python's times.
    low, high : str
        Default: the whole day.
    resolution : {"1min", "1s"}
        The unit of values; texts have seconds if it is ``"1s"``.
    format : str, optional
        As of :class:`~tabsynth.Date`: ``"%I:%M %p"``. Default: ISO 8601.
    """

    kind: str = "time"
    low: str | None = "00:00"
    high: str | None = "23:59:59"
    resolution: str = "1min"
    format: str | None = None

    dtypes: ClassVar[tuple[str, ...]] = ("text",)
    json_types: ClassVar[JsonTypes] = {**Temporal.json_types, "resolution": str, "format": str}
    example: ClassVar[str] = "14:30"
    axis_kind: ClassVar[str] = "time"
    coarsest: ClassVar[int] = 60_000_000

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
        if self.format is not None:
            read = instants_in(values.astype(object), self.format) % MICROSECONDS_A_DAY / 1_000_000
            numbers = np.where(np.isnan(read), numbers, read)
        return np.floor(numbers * 1_000_000 / self.unit_length)

    def _values(self, numbers: np.ndarray) -> pd.Series:
        moments = (numbers.astype(np.int64) * self.unit_length).astype("datetime64[us]")
        if self.dtype == "object" and self.format is None:
            return pd.Series(pd.Series(moments).dt.time.to_numpy(), dtype=object)
        layout = "%H:%M" if self.resolution == "1min" else "%H:%M:%S"
        return self._written(moments, self.format or layout)


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
            lengths = microseconds(values.to_numpy())
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
    """A column of calendar periods, of a dtype such as ``period[M]``, or months and years as text or whole numbers.

    Parameters
    ----------
    name, kind, dtype, nulls, provenance, source, description, labels, bins, breaks, clip
        As of :class:`~tabsynth.Numeric`; the frequency is that of the dtype.
    low, high : str
        As pandas writes a period: ``"2015-01"``, ``"2015Q1"``, ``"2015"``.
    format : str, optional
        As of :class:`~tabsynth.Date`, of texts and numbers, which need one: ``"%Y-%m"`` and ``"%Y%m"`` of months, ``"%Y"`` of
        years.
    """

    kind: str = "period"
    format: str | None = None

    dtypes: ClassVar[tuple[str, ...]] = ("period", "text", "int", "float")
    json_types: ClassVar[JsonTypes] = {**Temporal.json_types, "format": str}
    example: ClassVar[str] = "2020-01"
    coarsest: ClassVar[int] = 1

    @cached_property
    def unit_length(self) -> int:
        """One: periods are counted, whatever their lengths."""
        return 1

    def _check_format(self, where: str) -> None:
        if self.format is None and base_dtype(self.dtype) == "text":
            raise InputError(f"{where}: periods that are text need a format, such as '%Y-%m'.")
        super()._check_format(where)

    def _frequency(self) -> str:
        if self.format is not None:
            return "M" if re.search("%-?[mbB]", self.format) else "Y"
        return self.dtype[len("period[") : -1]

    def _amounts(self, values: pd.Series) -> np.ndarray:
        if self.format is not None:
            numbers = np.full(len(values), np.nan)
            instants = instants_of(values, self.format)
            read = ~np.isnan(instants)
            moments = instants[read].astype("datetime64[us]")
            numbers[read] = moments.astype(f"datetime64[{self._frequency()}]").astype(np.int64)
            return numbers

        def ordinal(value: object) -> float:
            try:
                year = isinstance(value, int) and not isinstance(value, bool)
                period = pd.Period(str(value) if year else value, freq=self._frequency())
            except (ValueError, TypeError, OverflowError):
                return np.nan
            return np.nan if period is pd.NaT else period.ordinal

        return np.array(each(self, values.to_numpy(dtype=object), ordinal), dtype=float)

    def _values(self, numbers: np.ndarray) -> pd.Series:
        if self.format is not None:
            return self._written(numbers.astype(f"datetime64[{self._frequency()}]"), self.format)
        array = pd.PeriodIndex.from_ordinals(numbers.astype(np.int64), freq=self._frequency())
        return pd.Series(array).astype(self.dtype)

    def text_of(self, number: float) -> str:
        """Return the period as pandas writes it."""
        return str(pd.Period(ordinal=int(number), freq=self._frequency()))

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
        return float(microseconds(np.array([length.to_timedelta64()]))[0])
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
