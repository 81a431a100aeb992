"""Columns of dates, times of day and lengths of time from noisy releases."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from tabsynth._typing import JsonObject
from tabsynth.drafting.formats import ELSEWHERE
from tabsynth.drafting.partition import (
    EACH,
    Partition,
    Split,
    coarse_edges,
    edges_of_numbers,
    round_numbers,
)
from tabsynth.drafting.released_lines import END, LineDraft
from tabsynth.errors import InputError
from tabsynth.schema.cells import base_dtype, with_nulls
from tabsynth.schema.column import Column
from tabsynth.schema.numeric import DEFAULT_BINS
from tabsynth.schema.temporal import Date, Datetime, Duration, Period, Temporal, Time
from tabsynth.schema.time_texts import instants_of

DAY = 86_400  # seconds
# Seconds of which instants and lengths of time may be multiples, and the resolution of a column of which all are.
RESOLUTIONS = {DAY: "1D", 3600: "1h", 900: "15min", 300: "5min", 60: "1min"}
FIRST_YEARS = np.arange("1900", "2101", 10, dtype="datetime64[Y]")  # of the first cells
# Numbers of months and days of the parts of cells.
PARTS = ((60, "M"), (24, "M"), (12, "M"), (6, "M"), (3, "M"), (1, "M"), (7, "D"), (1, "D"))


@dataclass(eq=False, kw_only=True)
class TimeDraft(LineDraft):
    """The draft of a column of dates or times.

    Attributes
    ----------
    plain : Temporal
        A column of the kind with the widest bounds, in ISO 8601. Positions are its units: days of dates, seconds of others.
    of_kind : dict
        Facts of the kind, such as its format.
    """

    plain: Temporal
    of_kind: JsonObject = field(default_factory=dict)
    step: float | None = 1.0

    def positions(self, values: pd.Series) -> np.ndarray:
        """Implement :meth:`LineDraft.positions`."""
        if isinstance(self.plain, Date | Datetime):
            instants = instants_of(values, self.of_kind.get("format"))
            units = np.floor(instants / self.plain.unit_length)
        else:
            units = self.plain.amounts(values)
        return np.clip(units, *self.plain.units.bounds)

    def between(
        self, low: float, high: float, breaks: Sequence[float], far: Sequence[float]
    ) -> Column | str:
        """Implement :meth:`LineDraft.between`; far values, such as 9999-12-31, are reasons for missing."""
        length = self.multiple * (self.step or 1.0)
        steps = round((high - low) / length) + 1
        facts = self.facts | {
            "dtype": with_nulls(self.dtype) if self.nulls else self.dtype,
            "low": self.plain.text_of(low),
            "high": self.plain.text_of(high),
            "breaks": tuple(self.plain.text_of(start) for start in breaks),
            "bins": steps if DEFAULT_BINS < steps <= EACH and not breaks else None,
            "clip": True,
            "missing": self.missing,
            **self.of_kind,
        }
        if self.multiple > 1:
            facts["resolution"] = RESOLUTIONS[round(length)]
        if far:
            ends = (self.plain.text_of(end) for end in (min(low, *far), max(high, *far)))
            facts["missing"] |= self._reasons(
                facts | dict(zip(("low", "high"), ends, strict=True)), far
            )
        return type(self.plain)(**facts)

    def _reasons(self, facts: JsonObject, far: Sequence[float]) -> dict[str, str]:
        """Return reasons for missing by the text that stands for each in tables; none that the dtype cannot hold."""
        try:
            column = type(self.plain)(**facts)
        except InputError:
            return {}
        units = np.array(far) * self.plain.unit_length // column.unit_length
        texts = [str(value) for value in column.from_amounts(units)]
        return {text: ELSEWHERE for text in texts if text not in self.null_values}


@dataclass(eq=False, kw_only=True)
class PeriodDraft(TimeDraft):
    """The draft of a column of calendar periods: positions are those of their first moments, in seconds."""

    def positions(self, values: pd.Series) -> np.ndarray:
        """Implement :meth:`LineDraft.positions`."""
        if base_dtype(str(values.dtype)) == "period":
            values = values.map(_first_moment).astype(object)
        return super().positions(values)

    def between(
        self, low: float, high: float, breaks: Sequence[float], far: Sequence[float]
    ) -> Column | str:
        """Implement :meth:`LineDraft.between`."""
        first, last = (self.plain.text_of(end)[:10] for end in (low, high))
        facts = self.facts | {"dtype": with_nulls(self.dtype) if self.nulls else self.dtype}
        facts |= {"low": first, "high": last, "missing": self.missing}
        return Period(**facts, clip=True, **self.of_kind)


def draft_times(
    facts: JsonObject, kind: type[Temporal], dtype: str, of_kind: JsonObject
) -> LineDraft:
    """Return the draft of dates, instants, periods or times of day; ``of_kind`` are facts of the kind, such as its format."""
    name = facts["name"]
    if kind is Time:
        plain: Temporal = Time(
            name=name, dtype="str", nulls=True, resolution="1s", format=of_kind.get("format")
        )
        hours = Partition(np.arange(25) * 3600.0, round_numbers(3600.0), lambda low, high: 3600.0)
        return TimeDraft(
            **facts,
            dtype=dtype,
            plain=plain,
            of_kind=of_kind,
            partition=hours,
            shape_edges=hours.edges,
            covers_all=True,
        )
    of_days = kind is Date
    shortest = pd.Timedelta(of_kind.get("resolution", "1s")).total_seconds()
    step = 1.0 if kind is not Datetime else max(1.0, shortest)
    ends: JsonObject = {"low": "0001-01-01", "high": "9999-12-31"}
    plain = (Date if of_days else Datetime)(name=name, dtype="datetime64[us]", nulls=True, **ends)
    day = 1 if of_days else DAY
    cells = Partition(
        FIRST_YEARS.astype("datetime64[D]").astype(float) * day,
        _calendar(day),
        lambda low, high: max(day, END * (high - low)),
    )
    return (PeriodDraft if kind is Period else TimeDraft)(
        **facts,
        dtype=dtype,
        plain=plain,
        of_kind=of_kind,
        partition=cells,
        shape_edges=cells.edges,
        covers_all=kind is Period,
        dense=kind is Period,
        step=step,
        multiples=_multiples(step) if kind is Datetime else (),
    )


def draft_lengths(facts: JsonObject, dtype: str) -> LineDraft:
    """Return the draft of lengths of time."""
    plain = Duration(
        name=facts["name"], dtype=dtype, nulls=True, low="-36500 days", high="36500 days"
    )
    edges = edges_of_numbers(1.0)
    cells = Partition(
        edges[np.abs(edges) <= plain.units.bounds[1]],
        round_numbers(1.0),
        lambda low, high: max(1.0, END * (high - low)),
        coarse_edges(1.0),
    )
    return TimeDraft(
        **facts,
        dtype=dtype,
        plain=plain,
        partition=cells,
        shape_edges=edges,
        covers_all=True,
        multiples=_multiples(1.0),
    )


def _multiples(step: float) -> tuple[int, ...]:
    """Return the resolutions in numbers of steps of some seconds, the coarsest first."""
    return tuple(round(seconds / step) for seconds in RESOLUTIONS if seconds > step)


def _calendar(day: int) -> Split:
    """Return a split of cells at the beginnings of months or, below that, of days; positions are ``day`` a day."""

    def split(low: float, high: float, parts: int) -> np.ndarray:
        first, last = (np.datetime64(int(end // day), "D") for end in (low, high))
        best = np.array([], dtype="datetime64[D]")
        for number, unit in PARTS:
            starts = np.arange("1900", last, dtype=f"datetime64[{unit}]")[::number]
            inner = starts[starts.astype("datetime64[D]") > first].astype("datetime64[D]")
            if len(best) and len(inner) >= parts:
                break
            best = inner
        return best.astype(float) * day

    return split


def _first_moment(period: pd.Period) -> object:
    """Return the moment when a period begins; NaT for one that no date has."""
    try:
        return period.to_timestamp()
    except (ValueError, OverflowError):
        return pd.NaT
