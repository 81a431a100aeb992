"""Columns of numbers and times from noisy releases: bounds, common values and heaping."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import pandas as pd

from tabsynth._typing import JsonObject
from tabsynth.drafting.formats import (
    BOOL,
    DECIMALS,
    IDENTIFIER,
    LENGTH,
    LONG_TEXT,
    LONG_WHOLE,
    NAMES,
    NULL,
    NUMBER,
    OTHER_OBJECT,
    REAL,
    WHOLE,
    Distinct,
    if_clear,
    without_times,
)
from tabsynth.drafting.identifiers import LOOK_LIKE_IDENTIFIERS, RECORD_NUMBERS
from tabsynth.drafting.released_columns import (
    AT_THIS_BUDGET,
    CLEAR,
    FORMAT,
    TOO_FEW_VALUES,
    ColumnDraft,
    Question,
    TextDraft,
)
from tabsynth.drafting.time_formats import TIME_CLASSES, reason_of_times, time_format
from tabsynth.schema.categorical import Categorical
from tabsynth.schema.cells import base_dtype, with_nulls
from tabsynth.schema.column import Column
from tabsynth.schema.number_texts import numbers_of
from tabsynth.schema.numeric import DEFAULT_BINS, MAX_STEPS, Numeric, off_steps
from tabsynth.schema.temporal import Datetime, Duration, Period, Temporal, Time
from tabsynth.schema.time_texts import instants_of, is_numeric

IDENTIFYING = (
    0.05  # of the rows: values that look like identifiers, above which a column is left out
)
PROSE = 0.5  # of the rows: names of persons, or free text
NUMERIC = 0.95  # of the rows with a value: numbers, for a column of numbers
MANTISSAS = (1, 1.5, 2, 3, 4, 5, 6, 8)
POWERS = range(-6, 16)  # of ten, of the grid of numbers
EACH = 128  # whole steps between bounds, below which each has a cell of its own: they may be codes
HEAPS = (1000, 100, 10, 5)  # steps whose multiples people may prefer
HEAPED = 0.05  # of the rows: multiples that are more than those of evenly spread numbers
TIMES = 4.7  # standard deviations of its noise, as FORMAT, of formats of dates and times, which are many
FAR = 5.0  # standard deviations of its noise: the same as CLEAR, of decimals, and of cells far from others: there are many, and one that is wrong costs most
NEAR = 4  # cells beyond the bounds that are not far
SHAPES = 3  # the round that asks how numbers of many steps are distributed
WIDE = "wide cells"  # what the rounds after that ask for where no cell was clear


@dataclass(eq=False, kw_only=True)
class GridDraft(ColumnDraft):
    """Numbers or dates: bounds on a fixed grid, and for numbers with many steps also common values and heaping.

    Common values are asked for until two rounds have found none: each number that is asked for costs all others.
    ``grid`` are edges of cells, in numbers or units; ``commonest`` is the cell with most rows in the round that released the
    bounds.
    ``counts`` of the cells, where numbers have many steps. ``coarse``: for each cell the first of the wider cell that it is
    in, to be asked for where single cells have too few rows.
    """

    grid: np.ndarray
    numbers: Callable[[pd.Series, Sequence[str]], np.ndarray]
    coarse: np.ndarray | None = None
    decimals: int | None = 0
    bounds: tuple[int, int] | None = None
    commonest: int = 0
    counts: np.ndarray = field(default_factory=lambda: np.zeros(len(GRID_OF_NUMBERS)))
    common: set[float] = field(default_factory=set)
    in_vain: int = 0
    heaping: tuple[int, ...] = ()

    @property
    def step(self) -> float | None:
        """The resolution of the numbers; None for reals, and where floats cannot tell all steps between the bounds apart."""
        if self.decimals is None:
            return None
        step = 10.0**-self.decimals
        if self.bounds is None:
            return step
        width = self.grid[self.bounds[1] + 1] - self.grid[self.bounds[0]]
        return step if width / step <= MAX_STEPS else None

    @property
    def many_steps(self) -> bool:
        """True if single numbers do not have cells of their own."""
        if self.step is None or self.bounds is None or self.grid[0] != GRID_OF_NUMBERS[0]:
            return False
        low, high = self.ends()
        return (high - low) / self.step >= EACH

    def ends(self) -> tuple[float, float]:
        """Return the least and the largest number on a step within the released cells."""
        assert self.bounds is not None
        first, last = self.bounds
        low, high = float(self.grid[first]), float(self.grid[last + 1])
        if self.step is not None:
            low = math.ceil(low / self.step - 1e-6) * self.step
            # The upper edge of a cell belongs to the next one; 0 has a cell of its own.
            top = math.ceil(high / self.step - 1e-6) - 1
            high = 0.0 if self.grid[last] == 0 else top * self.step
            low, high = (round(end, 9) for end in (low, max(low, high)))
        return low, high

    def within(self, low: float, high: float) -> bool:
        """Return whether the outermost released cells have numbers from ``low`` to ``high``."""
        assert self.bounds is not None
        first, last = self.bounds
        return bool(self.grid[first + 1] > low and self.grid[last] <= high)

    def questions(self, column: Distinct, number: int) -> list[Question]:
        """See :meth:`ColumnDraft.questions`."""
        missing = self._missing(column.values)
        numbers = np.append(self.numbers(column.values, self.null_values), np.nan)
        cells = np.searchsorted(self.grid, numbers, side="right") - 1
        inside = ~missing & ~np.isnan(numbers) & (cells >= 0) & (cells < len(self.grid) - 1)
        wide = self.coarse is not None and self.bounds is None and number > SHAPES
        if wide and self.coarse is not None:
            cells = self.coarse[np.clip(cells, 0, len(self.coarse) - 1)]
        keys = np.where(inside, cells, -1)
        if self.bounds is not None:
            keys[(cells >= self.bounds[0]) & (cells <= self.bounds[1])] = -1
        null = len(self.grid) - 1
        if not self.nulls:
            keys[missing] = null
        questions = [Question(self.name, keys, null + 1, about=WIDE if wide else "cells")]
        if not self.many_steps:
            return questions
        assert self.step is not None and self.bounds is not None
        inside &= (cells >= self.bounds[0]) & (cells <= self.bounds[1])
        steps = np.rint(np.where(inside, numbers, 0) / self.step)
        if self.in_vain < 2:
            rounded = np.round(steps * self.step, 9)
            new = inside & ~np.isin(rounded, list(self.common))
            values, places = np.unique(rounded[new], return_inverse=True)
            keys = np.full(len(numbers), -1)
            keys[new] = places
            common = values.tolist()
            questions.append(Question(self.name, keys, len(values), common, "common values"))
        if number == SHAPES:
            shape = np.where(inside, cells, -1)
            questions.append(Question(self.name, shape, len(self.grid) - 1, about="shape"))
            classes = np.full(len(numbers), len(HEAPS))
            for code in range(len(HEAPS) - 1, -1, -1):
                classes[steps % HEAPS[code] == 0] = code
            classes[~inside | (steps == 0)] = -1
            questions.append(Question(self.name, classes, len(HEAPS) + 1, about="heaping"))
        return questions

    def learn(
        self, question: Question, sums: np.ndarray, std: float, clear: np.ndarray, purpose: str
    ) -> None:
        """See :meth:`ColumnDraft.learn`."""
        if question.about in ("cells", WIDE):
            self.source("bounds", purpose)
            if not self.nulls:
                self.source("nulls", purpose)
                self.nulls = bool(clear[-1])
            limits = np.full(len(self.grid) - 1, FAR * std)
            cells = []
            if self.bounds is not None:
                cells = list(self.bounds)
                limits[max(0, cells[0] - NEAR) : cells[1] + NEAR + 1] = 0
            cells += np.flatnonzero(clear[:-1] & (sums[:-1] > limits)).tolist()
            if cells and question.about == WIDE and self.coarse is not None:
                cells.append(int(np.flatnonzero(self.coarse == max(cells))[-1]))
            if cells and self.bounds is None:
                self.commonest = int(np.argmax(sums[:-1]))
            if cells:
                self.bounds = min(cells), max(cells)
        elif question.about == "shape":
            self.source("cells", purpose)
            self.counts = np.where(clear, sums, 0.0)
        elif question.about == "common values":
            assert question.values is not None
            self.source("common values", purpose)
            new = {float(question.values[i]) for i in np.flatnonzero(clear).tolist()}
            self.common |= new
            self.in_vain = 0 if new else self.in_vain + 1
            near = {round(c + self.step, 9) for c in self.common if self.step} & self.common
            if 2 * len(near) > len(self.common):  # amounts, which cells represent as well
                self.common, self.in_vain = set(), 2
        else:
            self.source("heaping", purpose)
            self.heaping = _heaps(np.maximum(sums, 0), CLEAR * std)

    def rest(self, column: Distinct) -> Question | None:
        """Return which rows have a value that is not within the bounds."""
        if self.bounds is None:
            return None
        numbers = np.append(self.numbers(column.values, self.null_values), np.nan)
        low, high = self.ends()
        outside = ~self._missing(column.values) & ~((numbers >= low) & (numbers <= high))
        return Question(self.name, np.where(outside, 0, -1), 1)

    def column(self) -> Column | str:
        """See :meth:`ColumnDraft.column`."""
        if self.bounds is None:
            return f"no range of its values has enough rows {AT_THIS_BUDGET}"
        return self.make(self.facts)


def _heaps(sums: np.ndarray, clear: float) -> tuple[int, ...]:
    """Return those of ``HEAPS`` of which there are more multiples than of evenly spread multiples of the next finer one.

    ``sums`` are of multiples of each but of no coarser one, and of all other numbers last.
    """
    total, finer, multiples = float(sums.sum()), 1, float(sums.sum())
    heaps: list[int] = []
    for place in range(len(HEAPS) - 1, -1, -1):
        here = float(sums[: place + 1].sum())
        expected = multiples * finer / HEAPS[place]
        if here - expected > max(HEAPED * total, clear):
            heaps.insert(0, HEAPS[place])
            finer, multiples = HEAPS[place], here
    return tuple(heaps)


def draft_of(
    name: str,
    dtype: str,
    formats: Mapping[str, float],
    clear: float,
    nulls: tuple[str, ...],
    decimal: str | None,
) -> ColumnDraft | str:
    """Return what is asked of a column's values, or why it is left out, from its public dtype and released formats alone.

    Parameters
    ----------
    dtype : str
        That of the file, or of :func:`public_dtype`.
    formats : mapping
        Noisy numbers of rows by format.
    clear : float
        Above it a number is taken to be of rows.
    decimal : str or None
        The decimal mark of texts.
    """
    base = base_dtype(dtype)
    limits = dict.fromkeys(TIME_CLASSES, clear * TIMES / FORMAT)
    by_format = {
        f: if_clear(count, limits.get(f, clear)) for f, count in formats.items() if f != NULL
    }
    present = sum(by_format.values())
    if not present:
        return TOO_FEW_VALUES
    of_time = time_format(by_format, NUMERIC * present)
    counts = without_times(by_format)
    share = {f: count / present for f, count in counts.items()}
    facts: JsonObject = {"name": name, "nulls": formats[NULL] > clear, "null_values": nulls}
    if base == "timedelta":
        return _draft_lengths(facts, dtype)
    if base in ("datetime", "period"):
        return _draft_dates(facts, Period if base == "period" else Datetime, dtype, {})
    if share[IDENTIFIER] > IDENTIFYING:
        return LOOK_LIKE_IDENTIFIERS
    if share[NAMES] + share[LONG_TEXT] > PROSE:
        return "its values look like names of persons or free text"
    if share[OTHER_OBJECT] > PROSE:
        return "its values are lists or other objects"
    if of_time is not None:
        kind, of_kind = of_time
        if not is_numeric(of_kind.get("format", "")):
            dtype = "str"
        elif base not in ("int", "float"):
            dtype = "int64"
        if kind is Time:
            return ColumnDraft(**facts, dtype=dtype, make=lambda facts: Time(**facts, **of_kind))
        return _draft_dates(facts, kind, dtype, of_kind)
    numbers = [WHOLE, LONG_WHOLE, *DECIMALS, REAL]
    if base in ("int", "float") or dtype == NUMBER or sum(share[f] for f in numbers) > NUMERIC:
        if share[LONG_WHOLE] > PROSE:
            return RECORD_NUMBERS
        return _draft_numbers(facts, dtype, formats, clear, decimal)
    if share[LENGTH] > NUMERIC:
        return _draft_lengths(facts, "str")
    if share[BOOL] > NUMERIC and not {"True", "False"} & {*nulls}:
        return ColumnDraft(
            **facts,
            dtype=_dtype_for_nulls("bool", facts),
            make=lambda facts: Categorical(**facts, categories=(False, True)),
        )
    reason = reason_of_times(by_format) or f"no value has enough rows {AT_THIS_BUDGET}"
    return TextDraft(**facts, dtype="str", make=lambda facts: reason)


def _dtype_for_nulls(dtype: str, facts: JsonObject) -> str:
    """Return a dtype of whole numbers or truth values: pandas' nullable one only where nulls were released."""
    return with_nulls(dtype) if facts["nulls"] else dtype


_SIZES = np.array([m * 10.0**power for power in POWERS for m in MANTISSAS])
GRID_OF_NUMBERS: np.ndarray = np.concatenate([-_SIZES[::-1], [0.0, 1e-9], _SIZES])


def _draft_numbers(
    facts: JsonObject,
    dtype: str,
    formats: Mapping[str, float],
    clear: float,
    mark: str | None,
) -> ColumnDraft:
    """Return the decimals that a clear number of rows has; rows with more are rounded."""
    decimals: int | None = 0
    for n, form in enumerate(DECIMALS, start=1):
        if formats[form] > clear * FAR / FORMAT:
            decimals = n
    if formats[REAL] > clear * FAR / FORMAT:
        decimals = None
    of_integers = dtype.lower() if base_dtype(dtype) == "int" else "int64"
    real = dtype if base_dtype(dtype) == "float" else None

    def make(facts: JsonObject) -> Column | str:
        of_decimals = _dtype_for_nulls(of_integers, facts) if decimals == 0 else "float64"
        return _column_of_numbers(facts | {"dtype": real or of_decimals}, draft)

    draft = GridDraft(
        **facts,
        dtype=dtype,
        grid=GRID_OF_NUMBERS,
        numbers=partial(numbers_of, decimal=mark),
        decimals=decimals,
        make=make,
    )
    return draft


def _column_of_numbers(facts: JsonObject, draft: GridDraft) -> Column | str:
    """Take as bounds those of the outermost grid cells with clearly any rows; skewed columns keep the grid's cells."""
    low, high = draft.ends()
    step = draft.step
    if base_dtype(facts["dtype"]) == "int":
        if step is None:
            return "its whole numbers have too wide a range"
        limits = np.iinfo(facts["dtype"].lower())
        if not draft.within(limits.min, limits.max):  # changed since the file was read
            facts, limits = facts | {"dtype": _dtype_for_nulls("int64", facts)}, np.iinfo("int64")
        low, high = (int(min(max(end, limits.min), limits.max)) for end in (low, high))
        meaningful = not {str(low), str(high)} & {*draft.null_values}
        if high - low == 1 and meaningful:  # a rare one of two codes is no end
            commonest = (low, high)[int(draft.grid[draft.commonest] >= high)]
            return Categorical(**facts, categories=(low, high), other=commonest)
    breaks = _breaks(draft.grid, draft.counts, low, high, step)
    if draft.common and step is not None:
        breaks = _with_common(breaks, draft.common, low, high, step)
    if step is not None:  # floats of many digits are off the steps
        breaks = tuple(b for b in breaks if not off_steps(np.array(b), low, step))
    if breaks and base_dtype(facts["dtype"]) == "int":
        breaks = tuple(int(b) for b in breaks)
    steps = 0 if step is None else round((high - low) / step) + 1
    bins = steps if DEFAULT_BINS < steps <= EACH and not breaks else None
    heaping = tuple(round(h * step, 9) for h in draft.heaping) if step is not None else ()
    return Numeric(
        **facts,
        low=low,
        high=high,
        resolution=step,
        bins=bins,
        breaks=breaks,
        heaping=heaping,
        clip=True,
    )


def _with_common(
    breaks: tuple[float, ...], common: set[float], low: float, high: float, step: float
) -> tuple[float, ...]:
    """Return breaks with a cell of its own for each common value."""
    if not breaks:
        steps = round((high - low) / step) + 1
        starts = np.rint(np.linspace(0, steps, DEFAULT_BINS + 1))[1:-1] * step + low
    else:
        starts = np.array(breaks)
    values = np.array(sorted(common))
    edges = np.unique(np.rint(np.concatenate([starts, values, values + step]) / step))
    edges = np.unique(np.round(edges * step, 9))
    return tuple(edges[(edges > low) & (edges <= high)].tolist())


def _breaks(
    grid: np.ndarray, counts: np.ndarray, low: float, high: float, step: float | None
) -> tuple[float, ...]:
    """Return the grid's edges between the bounds, where they divide the rows more evenly than equal cells; else none."""
    if step is not None and (high - low) / step < EACH:
        return ()
    inside = np.flatnonzero((grid[:-1] >= low - 1e-9) & (grid[:-1] <= high))
    starts, total = [], 0.0
    for cell in inside:
        start = grid[cell] if step is None else round(math.ceil(grid[cell] / step - 1e-6) * step, 9)
        within = start <= high if step is not None else start < high
        if total > 0 and start > low and within and start not in starts:
            starts.append(float(start))
            total = 0.0
        total += float(counts[cell])
    if not starts or len(starts) >= DEFAULT_BINS:
        return ()
    # How likely two rows are to share a cell, with rows spread evenly within the grid's cells.
    points = np.concatenate(
        [grid[c] + (grid[c + 1] - grid[c]) * (np.arange(16) + 0.5) / 16 for c in inside[:-1]]
        or [np.array([low])]
    )
    weights = np.repeat(counts[inside[:-1]], 16)[: len(points)]
    if weights.sum() <= 0:
        return ()
    shared = []
    for edges in (
        np.array([low, *starts, max(high, starts[-1]) + 1e-9]),
        np.linspace(low, high, DEFAULT_BINS + 1),
    ):
        part = np.histogram(points, edges, weights=weights)[0] / weights.sum()
        shared.append(float(np.square(part).sum()))
    return tuple(starts) if shared[0] <= 0.75 * shared[1] else ()


_YEARS = np.arange("1900", "2101", dtype="datetime64[Y]")


def _draft_dates(
    facts: JsonObject, kind: type[Temporal], dtype: str, of_kind: JsonObject
) -> ColumnDraft:
    """Draft dates and times: bounds are years, or decades. ``of_kind`` are facts of the kind, such as its format."""

    def numbers(values: pd.Series, nulls: Sequence[str]) -> np.ndarray:
        if base_dtype(str(values.dtype)) == "period":
            values = values.map(_first_moment).astype(object)
        return instants_of(values, of_kind.get("format"))

    def make(facts: JsonObject) -> Column:
        assert draft.bounds is not None
        low = str(_YEARS[draft.bounds[0]].astype("datetime64[D]"))
        last = _YEARS[draft.bounds[1] + 1].astype("datetime64[D]") - np.timedelta64(1, "D")
        high = f"{last} 23:59:59" if kind is Datetime else str(last)
        facts = facts | {"dtype": _dtype_for_nulls(facts["dtype"], facts)}
        return kind(**facts, low=low, high=high, clip=True, **of_kind)

    grid = _YEARS.astype("datetime64[us]").astype("int64").astype(float)
    decades = np.arange(len(grid) - 1) // 10 * 10
    draft = GridDraft(**facts, dtype=dtype, grid=grid, coarse=decades, numbers=numbers, make=make)
    return draft


def _first_moment(period: pd.Period) -> object:
    """Return the moment when a period begins; NaT for one that no date has."""
    try:
        return period.to_timestamp()
    except (ValueError, OverflowError):
        return pd.NaT


def _draft_lengths(facts: JsonObject, dtype: str) -> ColumnDraft:
    """Draft lengths of time: bounds are powers of ten of a second."""
    edges = np.array([-(10.0**p) for p in range(8, -1, -1)] + [0.0] + [10.0**p for p in range(9)])
    wide = Duration(
        name=facts["name"], dtype=dtype, nulls=True, low="-36500 days", high="36500 days"
    )

    def make(facts: JsonObject) -> Column:
        assert draft.bounds is not None
        low, high = edges[draft.bounds[0]], edges[draft.bounds[1] + 1]
        return Duration(**facts, low=f"{int(low)}s", high=f"{int(high)}s", clip=True)

    def numbers(values: pd.Series, nulls: Sequence[str]) -> np.ndarray:
        return wide.amounts(values)

    draft = GridDraft(**facts, dtype=dtype, grid=edges, numbers=numbers, make=make)
    return draft
