"""The steps of a numeric column that has a resolution: 0 is its lower bound, 1 the next number, …"""

import math
from collections.abc import Iterable
from decimal import Decimal

import numpy as np

from tabsynth.columns import Column

DECIMALS = 12  # of numbers that are written as decimals; a third has more
MOST_DIGITS = 300  # that a decimal rounding may name
DUST = 1e-6  # of a step: what a number may lie off it, as 0.1 * 3 does


def steps_of_cells(column: Column) -> tuple[np.ndarray, np.ndarray]:
    """The first step of each cell, and how many it has; shape (cells,) each."""
    assert column.low is not None and column.step is not None
    edges, step = column.edges(), column.step
    first = np.round((edges[:-1] + step / 2 - column.low) / step)
    return first, np.round(np.diff(edges) / step)


def numbers_at(column: Column, steps: np.ndarray | float) -> np.ndarray:
    """The numbers at some steps."""
    assert column.low is not None and column.step is not None
    # Decimal rounding takes off the dust of step * rank, e.g. 0.1 * 3.
    digits = max(_decimals(column.low), _decimals(column.step))
    if digits > DECIMALS:
        digits = min(12 + max(0, -math.floor(math.log10(column.step))), MOST_DIGITS)
    return np.round(column.low + column.step * np.asarray(steps), digits)


def _decimals(number: float) -> int:
    """How many a number has as it is written."""
    exponent = Decimal(repr(float(number))).normalize().as_tuple().exponent
    return max(0, -int(exponent))


def steps_between(column: Column, low: float, high: float) -> tuple[float, float]:
    """The first and the last step from one number to another, both included; first > last: none."""
    assert column.low is not None and column.step is not None
    dust = np.full(2, DUST * column.step)
    if column.dtype.lower() in ("float16", "float32"):  # whose 0.1 is a little more, or less
        dust += np.finfo(column.dtype.lower()).eps * np.abs([low, high])
    first, last = np.round((np.array([low, high]) - column.low) / column.step)
    first += numbers_at(column, first) < low - dust[0]
    last -= numbers_at(column, last) > high + dust[1]
    return float(first), float(last)


class Runs:
    """Some of a column's steps, in order, from runs of them: pairs of a first and a last step.

    They are not listed one by one: a column may have 2**52 of them.
    """

    def __init__(self, runs: Iterable[tuple[float, float]]) -> None:
        merged: list[list[float]] = []
        for first, last in sorted(runs):
            if merged and first <= merged[-1][1]:
                merged[-1][1] = max(merged[-1][1], last + 1)
            else:
                merged.append([first, last + 1])
        self._ends = np.array(merged, dtype=np.float64)
        self._before = np.append(0.0, np.diff(self._ends).cumsum())  # steps of the runs before each

    def below(self, steps: np.ndarray) -> np.ndarray:
        """How many of them are below each of ``steps``."""
        counts = np.stack([self._before[:-1], self._before[1:]], axis=1)
        return np.interp(steps, self._ends.ravel(), counts.ravel())

    def at(self, places: np.ndarray) -> np.ndarray:
        """Those at some places, the first at place 0."""
        run = np.searchsorted(self._before, places, side="right") - 1
        return self._ends[run, 0] + places - self._before[run]
