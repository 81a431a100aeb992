"""Numeric columns: numbers between declared bounds, whose codes are cells.

A column with a *resolution* (of whole numbers: 1, if none is declared) has values on a grid of steps: its cells
begin and end between two steps, and decoding draws a step. Without one, decoding draws a real number.
"""

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import partial
from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np
import pandas as pd

from tabsynth._validate import integer, native, positive, quote, real
from tabsynth.errors import InputError
from tabsynth.schema.categorical import Categorical
from tabsynth.schema.cells import base_dtype, check_range, is_null, is_range, range_ends
from tabsynth.schema.column import (
    MAX_CATEGORIES,
    Column,
    JsonTypes,
    check_nulls,
    domain_with_missing,
    fill_missing,
    label_of,
)
from tabsynth.schema.conditions import Restriction, has_no
from tabsynth.schema.missing import with_reasons
from tabsynth.schema.number_texts import NUMBER_FORMATS, with_plain_numbers

DEFAULT_BINS = 64
MAX_STEPS = 2.0**52  # of the resolution between the bounds: past it, floats skip some
COUNT_TOLERANCE = 1e-9  # of a step: by how much the last one may lie beyond the upper bound
STEP_TOLERANCE = 1e-6  # of a step: how far a number may lie off one, as 0.1 * 3 does
WRITTEN_DECIMALS = 12  # of numbers that are written as decimals; a third has more
MAX_DECIMALS = 300  # that a rounding may name
COUNTED_STEPS = 1_000  # values of a cell that are looked at one by one for multiples
HEAPED_DRAWS = 20  # of a value in a cell until it is a multiple, or none, as it should be
SHORT_FLOATS = ("float16", "float32")
MAX_EXACT = 2.0**53  # whole numbers up to which all are floats


class StepRanges:
    """Some of a column's steps, in order, from ranges: pairs of a first and a last step.

    Steps are not listed one by one: a column may have 2**52 of them.
    """

    def __init__(self, ranges: Iterable[tuple[float, float]]) -> None:
        merged: list[list[float]] = []
        for first, last in sorted(ranges):
            if merged and first <= merged[-1][1]:
                merged[-1][1] = max(merged[-1][1], last + 1)
            else:
                merged.append([first, last + 1])
        self._ends = np.array(merged, dtype=np.float64)
        self._before = np.append(
            0.0, np.diff(self._ends).cumsum()
        )  # steps of the ranges before each

    def below(self, steps: np.ndarray) -> np.ndarray:
        """Return how many of them are below each of ``steps``."""
        counts = np.stack([self._before[:-1], self._before[1:]], axis=1)
        return np.interp(steps, self._ends.ravel(), counts.ravel())

    def at(self, places: np.ndarray) -> np.ndarray:
        """Return the steps at some places, the first at place 0."""
        number = np.searchsorted(self._before, places, side="right") - 1
        return self._ends[number, 0] + places - self._before[number]


@dataclass(frozen=True, kw_only=True)
class Numeric(Column):
    """A column of numbers between declared bounds. Its codes are cells; null is the last one.

    Parameters
    ----------
    name, kind, dtype, nulls, provenance, source, description, labels
        As of :class:`~tabsynth.schema.Column`; the dtype is one of whole numbers or reals.
    low, high : float
        Bounds, both included.
    bins : int, optional
        Equal-width cells between the bounds. Default: one cell for each step of ``resolution`` where
        there are at most 64 of them, else 64.
    breaks : tuple of float, optional
        Instead of ``bins``: where cells begin, in rising order, besides the first, which begins at ``low``.
        For columns that are skewed, and for single values that many rows have: in whole numbers from -500
        on, (0, 1, 1000) keeps 0 apart from what is below it and from 1 to 999.
    resolution : float, optional
        The step of the values (1 for whole numbers): values are multiples of it above ``low``.
    clip : bool
        Whether a value outside the bounds is moved to the nearest one; else it is refused.
    heaping : tuple of float
        Numbers whose multiples people prefer, the coarsest first, such as (10, 5) of blood pressures. How many values
        are such multiples is learned beside the cells, as one more column, and values within a cell follow it.
    format : str, optional
        How tables write numbers as texts: with a decimal point (``{}``) or comma (``{,}``), and at most one sign of a currency
        or of percent, such as ``"${}"`` and ``"{,} %"``. The dtype is then one of text, and the resolution says how many
        decimals are written. There are no marks between thousands; texts that are read may have them.

    Examples
    --------
    >>> from tabsynth import Numeric
    >>> Numeric(name="age", dtype="int64", low=0, high=99, bins=20).label(3)
    '15–19'
    """

    kind: str = "numeric"
    low: float | None = None
    high: float | None = None
    bins: int | None = None
    breaks: tuple[float, ...] = ()
    resolution: float | None = None
    clip: bool = False
    heaping: tuple[float, ...] = ()
    format: str | None = None

    dtypes: ClassVar[tuple[str, ...]] = ("int", "float")
    json_types: ClassVar[JsonTypes] = {
        "low": (int, float),
        "high": (int, float),
        "bins": int,
        "breaks": list,
        "resolution": (int, float),
        "clip": bool,
        "heaping": list,
        "format": str,
    }
    copied_facts: ClassVar[tuple[str, ...]] = tuple(
        fact for fact in json_types if fact not in ("bins", "clip")
    )
    ordered: ClassVar[bool] = True
    quantitative: ClassVar[bool] = True

    def _check(self, where: str) -> None:
        object.__setattr__(self, "breaks", tuple(self.breaks))
        if self.low is None or self.high is None:
            raise InputError(f"{where}: declare finite bounds, low and high.")
        if self.value_dtype != self.dtype and self.resolution is None:
            raise InputError(
                f"{where}: numbers of dtype {self.dtype} need a resolution, such as 1 for whole numbers."
            )
        is_text = base_dtype(self.dtype) == "text"
        form = (self.format or "{}").replace("{,}", "{}")
        if form not in ("{}", *NUMBER_FORMATS) or (self.format is not None and not is_text):
            raise InputError(
                f"{where}: expected a format such as '{{}}', '${{}}' or '{{,}} %', with a decimal comma in the last and at most"
                f" one sign of a currency or of percent, and dtype str; got {quote(self.format)} and {self.dtype}."
            )
        low, high = real(f"low of {where}", self.low), real(f"high of {where}", self.high)
        if not math.isfinite(high - low):
            raise InputError(f"{where}: declare finite bounds, low and high.")
        if low > high:
            raise InputError(f"{where}: low={low:g} is above high={high:g}.")
        if low < -(2**63) or high >= 2**64:  # whole numbers that numpy has no dtype for
            object.__setattr__(self, "low", low)
            object.__setattr__(self, "high", high)
        if self.resolution is not None:
            step = positive(f"resolution of {where}", self.resolution)
            if (high - low) / step > MAX_STEPS:
                raise InputError(
                    f"{where}: resolution={step:g} is too fine for bounds [{low:g}, {high:g}]; declare"
                    " a coarser one, or none."
                )
        if self.bins is not None and integer(f"bins of {where}", self.bins) > MAX_CATEGORIES:
            raise InputError(f"{where}: expected bins in [1, {MAX_CATEGORIES}], got {self.bins}.")
        if self.value_type == "int":
            if any(number % 1 for number in (low, high, self.step or 1)):
                raise InputError(
                    f"{where}: low, high and resolution of a column of whole numbers must be whole,"
                    f" got {low:g}, {high:g} and {self.step:g}; or use dtype float64."
                )
            check_range(self.value_dtype, where, self.low, self.high)
        if self.breaks:
            self._check_breaks(where)
        object.__setattr__(self, "heaping", tuple(self.heaping))
        before = math.inf
        for multiple in (positive(f"heaping of {where}", number) for number in self.heaping):
            unit = self.step
            if (
                unit is None
                or multiple >= before
                or multiple <= unit
                or off_steps(np.array(multiple), 0, unit)
            ):
                raise InputError(
                    f"{where}: heaping must fall and be multiples of the resolution, as (10, 5) of whole numbers;"
                    f" got {multiple:g}."
                )
            before = multiple

    def _check_breaks(self, where: str) -> None:
        """Raise InputError unless breaks rise from ``low`` to ``high`` and lie on the steps, if there are any."""
        if self.bins is not None:
            raise InputError(f"{where}: declare bins or breaks, not both.")
        if len(self.breaks) >= MAX_CATEGORIES:
            raise InputError(f"{where}: expected fewer than {MAX_CATEGORIES} breaks.")
        (low, high), step = self.bounds, self.step
        before = low
        for number in (real(f"breaks of {where}", number) for number in self.breaks):
            if not before < number <= high or (step is None and number == high):
                raise InputError(
                    f"{where}: breaks must rise above low={low:g} and not pass high={high:g}; got"
                    f" {number:g} after {before:g}."
                )
            if step is not None and off_steps(np.array(number), low, step):
                raise InputError(
                    f"{where}: a cell cannot begin at {number:g}, which is no step of {step:g} above"
                    f" {low:g}; move the break, or change the resolution."
                )
            before = number

    # Bounds, steps and cells.

    @property
    def value_dtype(self) -> str:
        """The :attr:`Column.value_dtype`: of numbers beside texts, or of a format, ``Int64`` or ``Float64``."""
        plain = not self.missing and self.format is None
        if plain or base_dtype(self.dtype) not in ("text", "category"):
            return self.dtype
        numbers = (self.low, self.high, self.resolution)
        are_whole = all(n is None or (isinstance(n, int | float) and n % 1 == 0) for n in numbers)
        return "Int64" if are_whole else "Float64"

    @property
    def decimal(self) -> str | None:
        """The decimal mark of the format, where it writes decimals."""
        if self.format is None or not (self.step or 1.0) % 1:
            return None
        return "," if "{,}" in self.format else "."

    @property
    def bounds(self) -> tuple[float, float]:
        """``low`` and ``high``."""
        assert self.low is not None and self.high is not None
        return self.low, self.high

    @property
    def step(self) -> float | None:
        """The declared resolution; 1 for whole numbers; None for reals without one."""
        if self.resolution is None and self.value_type == "int":
            return 1.0
        return self.resolution

    def edges(self) -> np.ndarray:
        """Return edges of the cells, shape (cells + 1,)."""
        (low, high), step = self.bounds, self.step
        if not self.breaks:
            return equal_edges(low, high, step, self.bins)
        if step is None:
            return np.array([low, *self.breaks, high], dtype=np.float64)
        first = np.round((np.array(self.breaks) - low) / step)
        return _between_steps(low, step, np.array([0, *first, step_count(low, high, step)]))

    @property
    def cells(self) -> int:
        """Number of cells."""
        return len(self.edges()) - 1

    def cell_ends(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the least and the largest value of each cell, shape (cells,) each."""
        edges, half = self.edges(), (self.step or 0.0) / 2
        return edges[:-1] + half, edges[1:] - half

    def cell_steps(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the first step of each cell, and how many it has; shape (cells,) each."""
        assert self.step is not None
        edges, step = self.edges(), self.step
        first = np.round((edges[:-1] + step / 2 - self.bounds[0]) / step)
        return first, np.round(np.diff(edges) / step)

    def numbers_at(self, steps: np.ndarray | float) -> np.ndarray:
        """Return the numbers at some steps."""
        assert self.low is not None and self.step is not None
        # Decimal rounding takes off the rounding error of step * rank, e.g. 0.1 * 3.
        digits = max(_decimals(self.low), _decimals(self.step))
        if digits > WRITTEN_DECIMALS:
            digits = min(12 + max(0, -math.floor(math.log10(self.step))), MAX_DECIMALS)
        return np.round(self.low + self.step * np.asarray(steps), digits)

    def steps_between(self, low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the first and the last steps from some numbers to others, both included; first > last: none."""
        assert self.low is not None and self.step is not None
        tolerance = np.full((2, *np.shape(low)), STEP_TOLERANCE * self.step)
        if self.value_dtype.lower() in SHORT_FLOATS:  # whose 0.1 is a little more, or less
            tolerance += np.finfo(self.value_dtype.lower()).eps * np.abs([low, high])
        first, last = np.round((np.array([low, high]) - self.low) / self.step)
        first = first + (self.numbers_at(first) < low - tolerance[0])
        last = last - (self.numbers_at(last) > high + tolerance[1])
        return first, last

    # Labels, scores, groups.

    def label(self, code: int) -> str:
        """Return the least and the largest value of a cell; of one value what ``labels`` says of it."""
        if code >= self.cells:
            return super().label(code)
        low, high = (ends[code] for ends in self.cell_ends())
        return label_of(self.labels, f"{low:.10g}") if low == high else f"{low:.10g}–{high:.10g}"

    def domain(self, limit: int = 8) -> str:
        """Implement :meth:`Column.domain`."""
        adjective = "whole " if self.value_type == "int" else ""
        text = f"{adjective}numbers from {self.low:.10g} to {self.high:.10g}"
        if self.resolution is not None and not (adjective and self.step == 1):
            text += f" in steps of {self.resolution:.10g}"
        return domain_with_missing(self, text, limit)

    def scores(self) -> np.ndarray:
        """Return midpoints of the cells; NaN for missing values."""
        edges = self.edges()
        return fill_missing(self, (edges[:-1] + edges[1:]) / 2, np.nan)

    def axis(self) -> tuple[str, np.ndarray]:
        """Implement :meth:`Column.axis`; a value with steps is as wide as a step."""
        return "number", self.edges()

    # Values to codes and back.

    def strict(self) -> Self:
        """Implement :meth:`Column.strict`: without ``clip``."""
        return replace(self, clip=False)

    def _encode(self, values: pd.Series) -> np.ndarray:
        """Implement :meth:`Column.encode`: the cell of each number.

        Refused are what is no number, infinities, and numbers outside the declared bounds, unless ``clip``.
        """
        values = self._numbers(values)
        try:
            numbers = values.to_numpy(dtype=np.float64)
        except OverflowError:
            raise InputError(
                f"Column {quote(self.name)} holds an integer beyond any float, of more than 300 digits;"
                " correct it."
            ) from None
        low, high = self.bounds
        lowest, largest = self._bounds_in(str(values.dtype))
        bad = np.isinf(numbers) if self.clip else (numbers < lowest) | (numbers > largest)
        if bad.any():
            value = numbers[bad.argmax()]
            raise InputError(
                f"Column {quote(self.name)}: {value:g} is outside its declared bounds"
                f" [{low:g}, {high:g}]; correct it, widen the bounds, or declare"
                " clip=true."
            )
        if self.value_type == "int" and (numbers % 1 != 0).any():
            value = numbers[(numbers % 1 != 0).argmax()]
            raise InputError(
                f"Column {quote(self.name)}: {value:g} is no whole number, and the schema declares dtype"
                f" {self.dtype}; round it, or declare float64."
            )
        numbers = np.clip(numbers, low, high)
        edges = self.edges()
        cells = np.clip(np.searchsorted(edges, numbers, side="right") - 1, 0, len(edges) - 2)
        return cells.astype(np.int64)

    def _numbers(self, values: pd.Series) -> pd.Series:
        """Return values without nulls, all of which are numbers; those of a column that holds texts, too, may be texts."""
        if self.value_dtype != self.dtype:
            values = self._convert(with_plain_numbers(values, self.decimal), texts=False)
        if base_dtype(str(values.dtype)) not in ("int", "float"):
            # Value by value: unique() would take True for 1.0 where a row holds that as well.
            wrong = [value for value in values if not _is_number(value)]
            if wrong:
                raise InputError(
                    f"Column {quote(self.name)} holds {quote(wrong[0])} where the schema declares"
                    " numbers; read the file with tabsynth.read_table, or convert the column with"
                    " astype."
                )
        return values

    def cell_of(self, number: object) -> object:
        """Extend :meth:`Column.cell_of` by the format."""
        if self.format is None or not isinstance(number, int | float):
            return super().cell_of(number)
        digits = f"{abs(number):.{_decimals(self.step or 1.0)}f}".replace(".", self.decimal or ".")
        return "-" * (number < 0) + self.format.replace("{,}", "{}").replace("{}", digits)

    def _bounds_in(self, dtype: str) -> tuple[float, float]:
        """Return the declared bounds as a table of ``dtype`` has them: 0.1 is a little more in float32."""
        low, high = self.bounds
        if dtype.lower() not in SHORT_FLOATS:
            return low, high
        short = np.array([low, high]).astype(dtype.lower()).astype(np.float64)
        return min(low, short[0]), max(high, short[1])

    def _decode(
        self,
        codes: np.ndarray,
        rng: np.random.Generator,
        within: StepRanges | None,
        details: np.ndarray | None,
    ) -> pd.Series:
        """Return uniform draws within each cell, on the declared resolution.

        ``within``: the only steps of a column with a resolution that are drawn; each cell of ``codes`` has one. Values are
        multiples as ``details`` say, where the cell has any and ``within`` does not limit them.
        """
        values = self._draw(codes, rng, within)
        if details is None or within is not None:
            return values
        return self._with_heaps(values, codes, details, rng)

    def _draw(
        self, codes: np.ndarray, rng: np.random.Generator, within: StepRanges | None = None
    ) -> pd.Series:
        low, high = self.bounds
        edges = self.edges()
        nulls = codes == len(edges) - 1
        cell = np.where(nulls, 0, codes)
        low_edge, high_edge = edges[cell], edges[cell + 1]
        if self.step is None:
            numbers = low_edge + (high_edge - low_edge) * rng.random(len(codes))
            numbers = np.minimum(numbers, np.nextafter(high_edge, -np.inf))
            numbers = np.where(cell == len(edges) - 2, np.minimum(numbers, high), numbers)
        else:
            first, count = (of_cells[cell] for of_cells in self.cell_steps())
            if within is None:
                steps = first + np.floor(rng.random(len(codes)) * count)
            else:
                place, stop = within.below(first), within.below(first + count)
                steps = within.at(place + np.floor(rng.random(len(codes)) * (stop - place)))
            numbers = np.clip(self.numbers_at(steps), low, high)
        if self.value_type == "int":
            return self._whole_series(np.round(numbers), nulls)
        if self.value_dtype.lower() in SHORT_FLOATS:
            numbers = self._narrow(numbers, low_edge, high_edge)
        if self.value_dtype not in ("float64", *SHORT_FLOATS):
            return self.to_series(numbers.astype(object), nulls)
        numbers[check_nulls(self, nulls)] = np.nan
        return pd.Series(numbers, dtype=self.value_dtype, name=self.name)

    def _whole_series(self, numbers: np.ndarray, nulls: np.ndarray) -> pd.Series:
        """Return a Series of the column's dtype from whole numbers in floats, shape (n,)."""
        sized = re.fullmatch(r"U?Int\d+|u?int\d+", self.value_dtype)
        if sized is None or max(map(abs, self.bounds)) > MAX_EXACT:
            integers = np.empty(len(numbers), dtype=object)
            integers[:] = [int(number) for number in numbers]
            return self.to_series(integers, nulls)
        check_nulls(self, nulls)
        values = numbers.astype(self.value_dtype.lower())
        if self.value_dtype == self.value_dtype.lower():
            return pd.Series(values, name=self.name)
        return pd.Series(pd.arrays.IntegerArray(values, nulls), name=self.name)

    def _narrow(
        self, numbers: np.ndarray, low_edge: np.ndarray, high_edge: np.ndarray
    ) -> np.ndarray:
        """Return numbers in the column's short floats, moved back into the cell that rounding took them from."""
        low, high = self.bounds
        short = numbers.astype(self.value_dtype.lower())
        over = (short >= high_edge) | (short > high)
        short = np.where(over, np.nextafter(short, short.dtype.type(-np.inf)), short)
        under = (short < low_edge) | (short < low)
        return np.where(under, np.nextafter(short, short.dtype.type(np.inf)), short)

    # Heaping.

    @property
    def detail(self) -> Categorical | None:
        """The :attr:`Column.detail`: whether values are multiples that people prefer."""
        if not self.heaping:
            return None
        categories = (*(f"multiple of {number:g}" for number in self.heaping), "other")
        return Categorical(name=f"{self.name} (heaping)", dtype="str", categories=categories)

    def detail_codes(self, values: pd.Series) -> np.ndarray:
        """Return for each value the place in ``heaping`` of the first number it is a multiple of, shape (n,) int64.

        ``len(heaping)`` for other and missing values.
        """
        numbers = self.amounts(values)
        if self.clip:
            numbers = np.clip(numbers, *self.bounds)
        codes = np.full(len(numbers), len(self.heaping), dtype=np.int64)
        for code in reversed(range(len(self.heaping))):
            ratio = numbers / self.heaping[code]
            codes[np.abs(ratio - np.round(ratio)) < STEP_TOLERANCE] = code
        return codes

    def detail_possible(self) -> np.ndarray:
        """Return whether a cell has a value of each code of :meth:`detail_codes`, bool, shape (size, len(heaping) + 1).

        Of cells with many values all are said to be possible; missing values have the last one.
        """
        places = np.arange(len(self.heaping) + 1)
        possible = np.ones((self.cells, len(places)), dtype=bool)
        first, count = self.cell_steps()
        for cell in np.flatnonzero(count <= COUNTED_STEPS):
            steps = first[cell] + np.arange(count[cell])
            heaps = self.detail_codes(pd.Series(self.numbers_at(steps)))
            possible[cell] = np.isin(places, heaps)
        return fill_missing(self, possible, places == places[-1])

    def _with_heaps(
        self, values: pd.Series, codes: np.ndarray, heaps: np.ndarray, rng: np.random.Generator
    ) -> pd.Series:
        """Return values of codes, drawn again until they are multiples as :meth:`detail_codes` says, where the cell has any."""
        lows, highs = self.code_amounts()
        amounts = values.to_numpy(dtype=np.float64, na_value=np.nan).copy()
        misfits = np.flatnonzero((codes < self.cells) & (heaps != self.detail_codes(values)))
        for _ in range(HEAPED_DRAWS):
            if not len(misfits):
                break
            cells, targets = codes[misfits], heaps[misfits]
            drawn = self._draw(cells, rng).to_numpy(dtype=np.float64, na_value=np.nan).copy()
            for code, multiple in enumerate(self.heaping):
                first = np.ceil(lows[cells] / multiple - STEP_TOLERANCE)
                count = np.floor(highs[cells] / multiple + STEP_TOLERANCE) - first + 1
                heaped = multiple * (first + np.floor(rng.random(len(misfits)) * count))
                drawn = np.where((targets == code) & (count > 0), heaped, drawn)
            fits = self.detail_codes(pd.Series(drawn)) == targets
            amounts[misfits[fits]] = drawn[fits]
            misfits = misfits[~fits]
        return self._at_amounts(amounts)

    # Amounts, for rules between columns.

    def _amounts(self, values: pd.Series) -> np.ndarray:
        """Implement :meth:`Column.amounts`."""
        return self._numbers(values).to_numpy(dtype=np.float64)

    def from_amounts(self, amounts: np.ndarray) -> pd.Series:
        """Implement :meth:`Column.from_amounts`, on the declared steps."""
        values = self._at_amounts(amounts)
        if self.value_dtype == self.dtype:
            return values
        return with_reasons(self, values, np.full(len(values), -1))

    def _at_amounts(self, amounts: np.ndarray) -> pd.Series:
        nulls = np.isnan(amounts)
        low, high = self.bounds
        numbers = np.clip(np.where(nulls, low, amounts), low, high)
        if self.step is not None:
            numbers = np.clip(self.numbers_at(np.round((numbers - low) / self.step)), low, high)
        if self.value_type != "int":
            return self.to_series(numbers.astype(object), nulls)
        integers = np.empty(len(numbers), dtype=object)
        integers[:] = [int(number) for number in np.round(numbers)]
        return self.to_series(integers, nulls)

    def code_amounts(self) -> tuple[np.ndarray, np.ndarray]:
        """Implement :meth:`Column.code_amounts`."""
        lows, highs = self.cell_ends()
        return np.maximum(lows, self.bounds[0]), np.minimum(highs, self.bounds[1])

    @property
    def amount_step(self) -> float | None:
        """The :attr:`Column.amount_step`: the resolution."""
        return self.step

    # Conditions and combinations of values.

    def _restriction(self, values: Sequence[Any], where: str) -> Restriction:
        """Implement :meth:`Column.restriction`; of a column with steps a number or range may allow a part of a cell."""
        shares, partly = np.zeros(self.cells), np.zeros(self.cells, dtype=bool)
        numbers = [value for value in values if not is_null(value)]
        ends = [self._ends(value, where) for value in numbers]
        nulls = len(ends) < len(values)
        if nulls and not self.nulls:
            raise has_no(self, None, where)
        within = None
        if self.step is None:
            for value, (low, high) in zip(numbers, ends, strict=True):
                if is_range(value):
                    first, last = self._whole_cells(low, high, where)
                    shares[first : last + 1] = 1
                else:
                    cell = np.searchsorted(self.edges()[1:-1], low, side="right")
                    shares[cell], partly[cell] = 1, True
        elif ends:
            within = StepRanges(self._steps_of(numbers, ends, where))
            begin, count = self.cell_steps()
            shares = (within.below(begin + count) - within.below(begin)) / count
            partly = (shares > 0) & (shares < 1)
        if self.nulls:
            shares, partly = np.append(shares, nulls), np.append(partly, False)
        if within is None:
            return Restriction(shares > 0, partly)
        return Restriction(shares, partly, within, admits=partial(self._admits, within))

    def _ends(self, value: object, where: str) -> tuple[float, float]:
        """Return both ends of a range of numbers within the bounds; a number is both."""
        ends = range_ends(value) if is_range(value) else (native(value),) * 2
        for end in ends:
            if not _is_number(end) or not self.bounds[0] <= end <= self.bounds[1]:
                raise has_no(self, end, where)
        low, high = map(float, ends)
        if low > high:
            raise InputError(
                f"{where}: column {quote(self.name)}: low={quote(ends[0])} is above high."
            )
        return low, high

    def _steps_of(
        self, values: Sequence[Any], ends: Sequence[tuple[float, float]], where: str
    ) -> Iterable[tuple[float, float]]:
        """Return the first and the last step of each range; one without any is refused."""
        first, last = self.steps_between(*np.array(ends).T)
        if (first > last).any():
            raise has_no(self, values[int((first > last).argmax())], where)
        return zip(first.tolist(), last.tolist(), strict=True)

    def _whole_cells(self, low: float, high: float, where: str) -> tuple[int, int]:
        """Return the first and the last cell of a range."""
        firsts, lasts = self.cell_ends()
        lasts[-1] = self.bounds[1]
        first, last = int(np.abs(firsts - low).argmin()), int(np.abs(lasts - high).argmin())
        if first > last:  # both ends are nearest to one inner edge
            first = last = int((np.abs(firsts - low) + np.abs(lasts - high)).argmin())
        tolerance = STEP_TOLERANCE * np.diff(self.edges())
        if abs(firsts[first] - low) > tolerance[first] or abs(lasts[last] - high) > tolerance[last]:
            raise InputError(
                f"{where}: the range {low:.10g} to {high:.10g} cuts through a cell of column {quote(self.name)}; the"
                f" nearest of whole cells is {firsts[first]:.10g} to {lasts[last]:.10g}. Use it, or"
                " change bins or breaks."
            )
        return first, last

    def _admits(self, within: StepRanges, values: pd.Series) -> np.ndarray:
        """Return which values are at one of some steps, or missing."""
        amounts = self.amounts(values)
        steps = np.round((np.nan_to_num(amounts) - self.bounds[0]) / (self.step or 1.0))
        return np.isnan(amounts) | (within.below(steps + 1) > within.below(steps))


def step_count(low: float, high: float, step: float) -> int:
    """Return how many steps there are between the bounds, both included."""
    return math.floor((high - low) / step + COUNT_TOLERANCE) + 1


def off_steps(numbers: np.ndarray, low: float, step: float) -> np.ndarray:
    """Return which numbers are no steps above ``low``; the shape of ``numbers``, bool."""
    ranks = (numbers - low) / step
    return np.abs(ranks - np.round(ranks)) > STEP_TOLERANCE


def equal_edges(low: float, high: float, step: float | None, bins: int | None) -> np.ndarray:
    """Return edges of cells of one width, or, where their values are steps, of whole steps."""
    if step is None:
        return np.linspace(low, max(high, np.nextafter(low, np.inf)), (bins or DEFAULT_BINS) + 1)
    steps = step_count(low, high, step)
    cells = min(bins or DEFAULT_BINS, steps)
    return _between_steps(low, step, np.round(np.linspace(0, steps, cells + 1)))


def _between_steps(low: float, step: float, first: np.ndarray) -> np.ndarray:
    """Return edges half a step below the first steps of cells, so that no value lies on an edge."""
    return low + step * (first - 0.5)


def _decimals(number: float) -> int:
    """Return how many decimals a number has as it is written."""
    exponent = Decimal(repr(float(number))).normalize().as_tuple().exponent
    return max(0, -int(exponent))


def _is_number(value: object) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool | np.bool_ | np.timedelta64)
