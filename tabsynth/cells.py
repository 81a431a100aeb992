"""The cells that a numeric column is counted in: equally wide, or begun where its schema says."""

import math
from collections.abc import Sequence

import numpy as np

from tabsynth._validate import real
from tabsynth.errors import InputError

DEFAULT_BINS = 64
DUST = 1e-9  # of a step: by how much less there may be of the last one
OFF = 1e-6  # of a step: from here on a number lies on none


def steps_in(low: float, high: float, step: float) -> int:
    """How many values there are between the bounds, both included."""
    return math.floor((high - low) / step + DUST) + 1


def off_steps(numbers: np.ndarray, low: float, step: float) -> np.ndarray:
    """Which numbers are no steps above ``low``; the shape of ``numbers``, bool."""
    ranks = (numbers - low) / step
    return np.abs(ranks - np.round(ranks)) > OFF


def equal_edges(low: float, high: float, step: float | None, bins: int | None) -> np.ndarray:
    """Edges of cells of one width, or, where their values are steps, of whole steps."""
    if step is None:
        return np.linspace(low, max(high, np.nextafter(low, np.inf)), (bins or DEFAULT_BINS) + 1)
    steps = steps_in(low, high, step)
    cells = min(bins or DEFAULT_BINS, steps)
    return _between_steps(low, step, np.round(np.linspace(0, steps, cells + 1)))


def edges_at(low: float, high: float, step: float | None, breaks: Sequence[float]) -> np.ndarray:
    """Edges of cells of which the first begins at ``low`` and each other one at a break."""
    if step is None:
        return np.array([low, *breaks, high], dtype=np.float64)
    first = np.round((np.array(breaks) - low) / step)
    return _between_steps(low, step, np.array([0, *first, steps_in(low, high, step)]))


def _between_steps(low: float, step: float, first: np.ndarray) -> np.ndarray:
    """Cells start and end between two steps of the grid, so that no value lies on an edge."""
    return low + step * (first - 0.5)


def check_breaks(
    where: str, low: float, high: float, step: float | None, breaks: Sequence[float]
) -> None:
    """InputError unless they rise from ``low`` to ``high`` and lie on the steps, if there are any."""
    before = low
    for number in (real(f"breaks of {where}", number) for number in breaks):
        if not before < number <= high or (step is None and number == high):
            raise InputError(
                f"{where}: breaks must rise above low={low:g} and not pass high={high:g}; got"
                f" {number:g} after {before:g}."
            )
        if step is not None and off_steps(np.array(number), low, step):
            raise InputError(
                f"{where}: a cell cannot begin at {number:g}, which is no step of {step:g} above {low:g};"
                " move the break, or change the resolution."
            )
        before = number
