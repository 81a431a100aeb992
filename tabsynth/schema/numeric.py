"""Numeric columns: numbers between declared bounds, whose codes are cells.

A column with a *resolution* (of whole numbers: 1, if none is declared) has values on a grid of steps: its cells
begin and end between two steps, and decoding draws a step. Without one, decoding draws a real number.
"""

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np
import pandas as pd

from tabsynth._validate import integer, positive, real, shown
from tabsynth.errors import InputError
from tabsynth.schema.categorical import Categorical
from tabsynth.schema.cells import is_null, is_range, range_ends
from tabsynth.schema.column import MAX_CATEGORIES, Column, JsonTypes, labelled, with_null
from tabsynth.schema.conditions import code_of, has_no, undeclared
from tabsynth.schema.dtypes import base_dtype, check_range
from tabsynth.schema.placing import Cells

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

    dtypes: ClassVar[tuple[str, ...]] = ("int", "float")
    json_types: ClassVar[JsonTypes] = {
        "low": (int, float),
        "high": (int, float),
        "bins": int,
        "breaks": list,
        "resolution": (int, float),
        "clip": bool,
        "heaping": list,
    }
    copied_facts: ClassVar[tuple[str, ...]] = ("low", "high", "breaks", "resolution", "heaping")
    ordered: ClassVar[bool] = True
    quantitative: ClassVar[bool] = True

    def _check(self, where: str) -> None:
        object.__setattr__(self, "breaks", tuple(self.breaks))
        if self.low is None or self.high is None:
            raise InputError(f"{where}: declare finite bounds, low and high.")
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
        if base_dtype(self.dtype) == "int":
            if any(number % 1 for number in (low, high, self.step or 1)):
                raise InputError(
                    f"{where}: low, high and resolution of a column of whole numbers must be whole,"
                    f" got {low:g}, {high:g} and {self.step:g}; or use dtype float64."
                )
            check_range(self.dtype, where, self.low, self.high)
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
    def bounds(self) -> tuple[float, float]:
        """``low`` and ``high``."""
        assert self.low is not None and self.high is not None
        return self.low, self.high

    @property
    def step(self) -> float | None:
        """The declared resolution; 1 for whole numbers; None for reals without one."""
        if self.resolution is None and base_dtype(self.dtype) == "int":
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

    def steps_between(self, low: float, high: float) -> tuple[float, float]:
        """Return the first and the last step from one number to another, both included; first > last: none."""
        assert self.low is not None and self.step is not None
        tolerance = np.full(2, STEP_TOLERANCE * self.step)
        if self.dtype.lower() in SHORT_FLOATS:  # whose 0.1 is a little more, or less
            tolerance += np.finfo(self.dtype.lower()).eps * np.abs([low, high])
        first, last = np.round((np.array([low, high]) - self.low) / self.step)
        first += self.numbers_at(first) < low - tolerance[0]
        last -= self.numbers_at(last) > high + tolerance[1]
        return float(first), float(last)

    # Labels, scores, groups.

    def label(self, code: int) -> str:
        """Return the least and the largest value of a cell; of one value what ``labels`` says of it."""
        if code == self.cells:
            return "null"
        low, high = (ends[code] for ends in self.cell_ends())
        return labelled(self.labels, f"{low:.10g}") if low == high else f"{low:.10g}–{high:.10g}"

    def domain(self, limit: int = 8) -> str:
        """Implement :meth:`Column.domain`."""
        whole = "whole " if base_dtype(self.dtype) == "int" else ""
        text = f"{whole}numbers from {self.low:.10g} to {self.high:.10g}"
        if self.resolution is not None and not (whole and self.step == 1):
            text += f" in steps of {self.resolution:.10g}"
        return f"{text} and None" if self.nulls else text

    def scores(self) -> np.ndarray:
        """Return midpoints of the cells; NaN for null."""
        edges = self.edges()
        return with_null((edges[:-1] + edges[1:]) / 2, self.nulls)

    def axis(self) -> tuple[str, np.ndarray]:
        """Implement :meth:`Column.axis`; a value with steps is as wide as a step."""
        return "number", self.edges()

    # Values to codes and back.

    def strict(self) -> Self:
        """Implement :meth:`Column.strict`: without ``clip``."""
        return replace(self, clip=False)

    def encode(self, values: pd.Series) -> np.ndarray:
        """Implement :meth:`Column.encode`: the cell of each number.

        Refused are what is no number, infinities, and numbers outside the declared bounds, unless ``clip``.
        """
        if base_dtype(str(values.dtype)) not in ("int", "float"):
            # Value by value: unique() would take True for 1.0 where a row holds that as well.
            wrong = [value for value in values.dropna() if not _is_number(value)]
            if wrong:
                raise InputError(
                    f"Column {shown(self.name)} holds {shown(wrong[0])} where the schema declares"
                    " numbers; read the file with tabsynth.read_table, or convert the column with"
                    " astype."
                )
            values = values.astype(object).where(values.notna(), np.nan)
        try:
            numbers = values.to_numpy(dtype=np.float64, na_value=np.nan)
        except OverflowError:
            raise InputError(
                f"Column {shown(self.name)} holds an integer beyond any float, of more than 300 digits;"
                " correct it."
            ) from None
        nulls = self.check_nulls(np.isnan(numbers))
        low, high = self.bounds
        numbers = np.where(nulls, low, numbers)
        least, largest = self._bounds_in(str(values.dtype))
        bad = np.isinf(numbers) if self.clip else (numbers < least) | (numbers > largest)
        if bad.any():
            value = numbers[bad.argmax()]
            raise InputError(
                f"Column {shown(self.name)}: {value:g} is outside its declared bounds"
                f" [{low:g}, {high:g}]; correct it, widen the bounds, or declare"
                " clip=true."
            )
        if base_dtype(self.dtype) == "int" and (numbers % 1 != 0).any():
            value = numbers[(numbers % 1 != 0).argmax()]
            raise InputError(
                f"Column {shown(self.name)}: {value:g} is no whole number, and the schema declares dtype"
                f" {self.dtype}; round it, or declare float64."
            )
        numbers = np.clip(numbers, low, high)
        edges = self.edges()
        cells = np.clip(np.searchsorted(edges, numbers, side="right") - 1, 0, len(edges) - 2)
        return np.where(nulls, len(edges) - 1, cells).astype(np.int64)

    def placing(self, held: str) -> Cells | None:
        """Implement :meth:`Column.placing`: in numbers of 64-bit floats. Of whole numbers only where the type holds no others."""
        whole, own = base_dtype(self.dtype) == "int", self.dtype.lower()
        if held != "int" and (whole or held not in ("float32", "float64")):
            return None
        if own in SHORT_FLOATS and held != own:  # rounded before they are compared
            return None
        low, high = (float(bound) for bound in self._bounds_in(own))
        return Cells(tuple(self.edges()[1:-1].tolist()), low, high, self.clip)

    def _bounds_in(self, dtype: str) -> tuple[float, float]:
        """Return the declared bounds as a table of ``dtype`` has them: 0.1 is a little more in float32."""
        low, high = self.bounds
        if dtype.lower() not in SHORT_FLOATS:
            return low, high
        short = np.array([low, high]).astype(dtype.lower()).astype(np.float64)
        return min(low, short[0]), max(high, short[1])

    def decode(
        self, codes: np.ndarray, rng: np.random.Generator, within: StepRanges | None = None
    ) -> pd.Series:
        """Return uniform draws within each cell, on the declared resolution; a Series of the column's dtype.

        ``within``: the only steps of a column with a resolution that are drawn; each cell of ``codes`` has one.
        """
        low, high = self.bounds
        edges = self.edges()
        nulls = codes == len(edges) - 1
        cell = np.where(nulls, 0, codes)
        left, right = edges[cell], edges[cell + 1]
        if self.step is None:
            numbers = left + (right - left) * rng.random(len(codes))
            numbers = np.minimum(numbers, np.nextafter(right, -np.inf))
            numbers = np.where(cell == len(edges) - 2, np.minimum(numbers, high), numbers)
        else:
            first, count = (of_cells[cell] for of_cells in self.cell_steps())
            if within is None:
                steps = first + np.floor(rng.random(len(codes)) * count)
            else:
                place, stop = within.below(first), within.below(first + count)
                steps = within.at(place + np.floor(rng.random(len(codes)) * (stop - place)))
            numbers = np.clip(self.numbers_at(steps), low, high)
        if base_dtype(self.dtype) == "int":
            return self._whole_series(np.round(numbers), nulls)
        if self.dtype.lower() in SHORT_FLOATS:
            numbers = self._narrowed(numbers, left, right)
        if self.dtype not in ("float64", *SHORT_FLOATS):
            return self.to_series(numbers.astype(object), nulls)
        numbers[self.check_nulls(nulls)] = np.nan
        return pd.Series(numbers, dtype=self.dtype, name=self.name)

    def _whole_series(self, numbers: np.ndarray, nulls: np.ndarray) -> pd.Series:
        """Return a Series of the column's dtype from whole numbers in floats, shape (n,)."""
        known = re.fullmatch(r"U?Int\d+|u?int\d+", self.dtype)
        if known is None or max(map(abs, self.bounds)) > MAX_EXACT:
            whole = np.empty(len(numbers), dtype=object)
            whole[:] = [int(number) for number in numbers]
            return self.to_series(whole, nulls)
        self.check_nulls(nulls)
        values = numbers.astype(self.dtype.lower())
        if self.dtype == self.dtype.lower():
            return pd.Series(values, name=self.name)
        return pd.Series(pd.arrays.IntegerArray(values, nulls), name=self.name)

    def _narrowed(self, numbers: np.ndarray, left: np.ndarray, right: np.ndarray) -> np.ndarray:
        """Return numbers in the column's short floats, moved back into the cell that rounding took them from."""
        low, high = self.bounds
        short = numbers.astype(self.dtype.lower())
        over = (short >= right) | (short > high)
        short = np.where(over, np.nextafter(short, short.dtype.type(-np.inf)), short)
        under = (short < left) | (short < low)
        return np.where(under, np.nextafter(short, short.dtype.type(np.inf)), short)

    def keep_given(self, decoded: pd.Series, given: pd.Series, where: np.ndarray) -> pd.Series:
        """Implement :meth:`Column.keep_given`; given numbers are clipped as :meth:`encode` does."""
        nulls = decoded.isna().to_numpy()
        kept = where & ~nulls
        values = np.array(decoded, dtype=object)
        numbers = list(given[kept])
        if self.clip:  # not by the table's own dtype, which may not hold the bounds
            low, high = self.bounds
            numbers = [min(max(number, low), high) for number in numbers]
        values[kept] = numbers
        return self.to_series(values, nulls)

    def substitute(self, number: Any) -> Any:
        """Return the nearest bound where values are clipped, else None."""
        if not self.clip:
            return None
        bound = self.bounds[0 if number < self.bounds[0] else 1]
        return int(bound) if base_dtype(self.dtype) == "int" else float(bound)

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

        ``len(heaping)`` for other values and for null.
        """
        numbers = values.to_numpy(dtype=np.float64, na_value=np.nan)
        if self.clip:
            numbers = np.clip(numbers, *self.bounds)
        codes = np.full(len(numbers), len(self.heaping), dtype=np.int64)
        for code in reversed(range(len(self.heaping))):
            ratio = numbers / self.heaping[code]
            codes[np.abs(ratio - np.round(ratio)) < STEP_TOLERANCE] = code
        return codes

    def detail_possible(self) -> np.ndarray:
        """Return whether a cell has a value of each code of :meth:`detail_codes`, bool, shape (size, len(heaping) + 1).

        Of cells with many values all are said to be possible; null has the last one.
        """
        possible = np.ones((self.size, len(self.heaping) + 1), dtype=bool)
        first, count = self.cell_steps()
        for cell in np.flatnonzero(count <= COUNTED_STEPS):
            steps = first[cell] + np.arange(count[cell])
            found = self.detail_codes(pd.Series(self.numbers_at(steps)))
            possible[cell] = np.isin(np.arange(possible.shape[1]), found)
        possible[self.cells :, :-1] = False
        return possible

    def decode_detailed(
        self, codes: np.ndarray, heaps: np.ndarray, rng: np.random.Generator, within: Any = None
    ) -> pd.Series:
        """Implement :meth:`decode`, of values that are multiples as :meth:`detail_codes` says, where the cell has any.

        Parameters
        ----------
        codes, heaps : ndarray, shape (n,)
        rng : Generator
        within : StepRanges, optional
            As of :meth:`decode`; values then are any that it allows.
        """
        values = self.decode(codes, rng, within)
        if within is not None:
            return values
        lows, highs = self.code_amounts()
        amounts = values.to_numpy(dtype=np.float64, na_value=np.nan).copy()
        left = np.flatnonzero((codes < self.cells) & (heaps != self.detail_codes(values)))
        for _ in range(HEAPED_DRAWS):
            if not len(left):
                break
            cells, wanted = codes[left], heaps[left]
            drawn = self.decode(cells, rng).to_numpy(dtype=np.float64, na_value=np.nan).copy()
            for code, multiple in enumerate(self.heaping):
                first = np.ceil(lows[cells] / multiple - STEP_TOLERANCE)
                count = np.floor(highs[cells] / multiple + STEP_TOLERANCE) - first + 1
                heaped = multiple * (first + np.floor(rng.random(len(left)) * count))
                drawn = np.where((wanted == code) & (count > 0), heaped, drawn)
            fits = self.detail_codes(pd.Series(drawn)) == wanted
            amounts[left[fits]] = drawn[fits]
            left = left[~fits]
        return self.from_amounts(amounts)

    # Amounts, for rules between columns.

    def from_amounts(self, amounts: np.ndarray) -> pd.Series:
        """Implement :meth:`Column.from_amounts`, on the declared steps."""
        nulls = np.isnan(amounts)
        low, high = self.bounds
        numbers = np.clip(np.where(nulls, low, amounts), low, high)
        if self.step is not None:
            numbers = np.clip(self.numbers_at(np.round((numbers - low) / self.step)), low, high)
        if base_dtype(self.dtype) != "int":
            return self.to_series(numbers.astype(object), nulls)
        whole = np.empty(len(numbers), dtype=object)
        whole[:] = [int(number) for number in np.round(numbers)]
        return self.to_series(whole, nulls)

    def code_amounts(self) -> tuple[np.ndarray, np.ndarray]:
        """Implement :meth:`Column.code_amounts`."""
        lows, highs = self.cell_ends()
        return np.maximum(lows, self.bounds[0]), np.minimum(highs, self.bounds[1])

    @property
    def amount_step(self) -> float | None:
        """The :attr:`Column.amount_step`: the resolution."""
        return self.step

    # Conditions and combinations of values.

    def _declared_number(self, value: Any, where: str) -> float:
        """Return a number within the bounds; InputError for everything else."""
        low, high = self.bounds
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if not number or not low <= value <= high:
            raise undeclared(self, value, where)
        return float(value)

    def code_range(self, low: Any, high: Any, where: str) -> tuple[int, int]:
        """Implement :meth:`Column.code_range`: the cells between two numbers."""
        given = low
        low, high = self._declared_number(low, where), self._declared_number(high, where)
        if low > high:
            raise InputError(f"{where}: low={shown(given)} is above high.")
        firsts, lasts = self.cell_ends()
        lasts[-1] = self.bounds[1]
        first, last = int(np.abs(firsts - low).argmin()), int(np.abs(lasts - high).argmin())
        if first > last:  # both ends are nearest to one inner edge
            first = last = int((np.abs(firsts - low) + np.abs(lasts - high)).argmin())
        tolerance = STEP_TOLERANCE * np.diff(self.edges())
        if abs(firsts[first] - low) > tolerance[first] or abs(lasts[last] - high) > tolerance[last]:
            raise InputError(
                f"{where}: the range {low:.10g} to {high:.10g} cuts through a cell of the column; the"
                f" nearest of whole cells is {firsts[first]:.10g} to {lasts[last]:.10g}. Use it, or"
                " change bins or breaks."
            )
        return first, last

    def declared_codes(self, values: Sequence[Any], where: str) -> np.ndarray:
        """Implement :meth:`Column.declared_codes`: a cell is filled only if all its numbers are listed."""
        numbers = np.unique([self._declared_number(value, where) for value in values])
        step = self.step
        if step is None:
            raise InputError(
                f"{where}: its cells hold more than single numbers; give a range"
                " {'low': a, 'high': b} of whole cells."
            )
        low = self.bounds[0]
        if off_steps(numbers, low, step).any():
            raise InputError(f"{where}: its values are steps of {step:g} above {low:g}.")
        edges = self.edges()
        cells, counts = np.unique(
            np.searchsorted(edges, numbers, side="right") - 1, return_counts=True
        )
        partly = counts < np.round((edges[cells + 1] - edges[cells]) / step)
        if partly.any():
            raise InputError(
                f"{where}: only a part of the cell {self.label(int(cells[partly.argmax()]))} is listed;"
                " list all of its numbers, give a range of whole cells, or change bins or breaks."
            )
        return cells

    def restriction(self, values: Sequence[Any]) -> tuple[np.ndarray, StepRanges | None]:
        """Implement :meth:`Column.restriction`; a number or range of a column with steps allows some steps of a cell."""
        numbers = [value for value in values if not is_null(value)]
        if self.step is None or not numbers:
            return super().restriction(values)
        within = StepRanges([self._step_range(value) for value in numbers])
        begin, count = self.cell_steps()
        shares = (within.below(begin + count) - within.below(begin)) / count
        if self.nulls:
            shares = np.append(shares, len(numbers) < len(values))
        elif len(numbers) < len(values):
            raise has_no(self, next(value for value in values if is_null(value)))
        return shares, within

    def satisfies(
        self, values: pd.Series, shares: np.ndarray, within: StepRanges | None
    ) -> np.ndarray:
        """Implement :meth:`Column.satisfies`, step by step."""
        kept = super().satisfies(values, shares, within)
        if within is None:
            return kept
        amounts = self.amounts(values)
        steps = np.round((np.nan_to_num(amounts) - self.bounds[0]) / self.step)
        return np.where(np.isnan(amounts), kept, within.below(steps + 1) > within.below(steps))

    def _step_range(self, value: Any) -> tuple[float, float]:
        """Return the first and the last step of a range or a number; one without any is refused."""
        if is_range(value):
            where = f"where: column {shown(self.name)}"
            low, high = (self._declared_number(end, where) for end in range_ends(value))
        else:
            code_of(self, value)
            low = high = float(value)
        first, last = self.steps_between(low, high)
        if first > last:
            raise has_no(self, value)
        return first, last

    def stated(self, value: Any) -> Any:
        """Implement :meth:`Column.stated`; a number of a column without steps stands for its cell."""
        if self.step is not None or is_range(value) or is_null(value):
            return super().stated(value)
        edges, cell = self.edges(), code_of(self, value)
        return {"low": float(edges[cell]), "high": float(min(edges[cell + 1], self.bounds[1]))}


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
