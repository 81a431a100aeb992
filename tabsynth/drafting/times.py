"""Drafts of columns of dates, times and durations."""

import datetime
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from tabsynth._typing import JsonObject
from tabsynth._validate import quote
from tabsynth.drafting.source import DraftSource, LeftOut
from tabsynth.schema.cells import base_dtype
from tabsynth.schema.column import Column
from tabsynth.schema.temporal import (
    Date,
    Datetime,
    Duration,
    Period,
    Temporal,
    Time,
    microseconds_of,
)
from tabsynth.schema.time_texts import MICROSECONDS_A_DAY, instants_of

WIDEST_DATES = ("1700-01-01", "2250-12-31")
WIDEST_DURATIONS = ("-36500 days", "36500 days")
# Bounds as text, from a column and two numbers of its units: at or outside them, and rounder.
Rounding = Callable[[Any, int, int], tuple[str, str]]


def draft_date(source: DraftSource) -> Column | None:
    """Draft a column of days without a time of day, in a format of the table or in a dtype of dates."""
    values, facts = source.values, _facts_of_format(Date, source)
    if base_dtype(source.dtype) == "datetime":
        if getattr(values.dtype, "tz", None) is not None:
            return None
    elif facts is None and not all(type(value) is datetime.date for value in values):
        return None
    facts = facts or {}
    numbers = instants_of(values, facts.get("format"))
    if np.isnan(numbers).any() or (numbers % MICROSECONDS_A_DAY != 0).any():
        return None
    return _draft_bounded(Date, source, WIDEST_DATES, _whole_years, **facts)


def draft_datetime(source: DraftSource) -> Column | None:
    """Draft a column of instants, in a format of the table or in a dtype of instants."""
    facts = _facts_of_format(Datetime, source)
    if facts is None and base_dtype(source.dtype) != "datetime":
        return None
    facts = facts or {}
    numbers = instants_of(source.values, facts.get("format"))
    if np.isnan(numbers).any():
        return None
    units = [unit for unit in ("1min", "1s") if not (numbers % microseconds_of(unit, "")).any()]
    if "%f" not in facts.get("format", ""):
        facts |= {"resolution": units[0] if units else "1ms"}
    return _draft_bounded(Datetime, source, WIDEST_DATES, _whole_years, **facts)


def draft_time(source: DraftSource) -> Column | None:
    """Draft a column of times of day, whose bounds are the whole day."""
    facts = _facts_of_format(Time, source)
    if facts is None and all(isinstance(value, datetime.time) for value in source.values):
        seconds = source.values.map(str).str.count(":").max() > 1
        facts = {"resolution": "1s" if seconds else "1min"}
    return None if facts is None else Time(**facts, **source.facts)


def draft_duration(source: DraftSource) -> Column | None:
    """Draft a column of a dtype of durations."""
    if base_dtype(source.dtype) != "timedelta":
        return None

    def whole_days(column: Duration, low: int, high: int) -> tuple[str, str]:
        day = MICROSECONDS_A_DAY // column.unit_length
        return f"{low // day} days", f"{-(-high // day)} days"

    return _draft_bounded(Duration, source, WIDEST_DURATIONS, whole_days)


def draft_period(source: DraftSource) -> Column | None:
    """Draft a column of months in a format of the table, or of a dtype of periods."""
    facts = _facts_of_format(Period, source)
    if facts is None and base_dtype(source.dtype) != "period":
        return None
    return _draft_bounded(Period, source, WIDEST_DATES, None, **(facts or {}))


def review_temporal(column: Temporal) -> list[str]:
    """Return what a person must check in a draft of dates or times, a line each."""
    return [
        f"{quote(column.name)}: bounds {column.low} to {column.high} were read off this table; declare those"
        " of the period that it covers."
    ]


def _whole_years(column: Temporal, low: int, high: int) -> tuple[str, str]:
    end = "-12-31 23:59" if isinstance(column, Datetime) else "-12-31"
    return f"{column.text_of(low)[:4]}-01-01", f"{column.text_of(high)[:4]}{end}"


def _draft_bounded(
    kind: type[Temporal],
    source: DraftSource,
    widest: tuple[str, str],
    rounding: Rounding | None,
    **facts: Any,
) -> Column:
    """Draft a column with bounds that ``min_count`` rows lie outside of, rounded outwards."""
    min_count = source.min_count
    wide = kind(low=widest[0], high=widest[1], clip=True, **facts, **source.facts)
    numbers = np.sort(wide.amounts(source.values))
    if np.isnan(numbers).any():
        raise LeftOut(f"not all of its values are {kind.kind}s")
    if len(numbers) < 2 * min_count and min_count > 1:
        raise LeftOut(f"fewer than {2 * min_count} rows have a value")
    place = min(min_count - 1, len(numbers) - 1)
    ends = sorted([numbers[place], numbers[-1 - place]])
    low, high = map(wide.text_of, ends) if rounding is None else rounding(wide, *map(int, ends))
    return replace(wide, low=low, high=high, clip=min_count > 1)


def _facts_of_format(kind: type[Temporal], source: DraftSource) -> JsonObject | None:
    """Return the facts of the format that reads all values, if it is one of the kind."""
    if source.time_format is None or source.time_format[0] is not kind:
        return None
    return dict(source.time_format[1])
