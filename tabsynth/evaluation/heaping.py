"""Heaping: round numbers that people prefer when they read a scale or state an amount, in both tables.

Roberts & Brewer 2001, "Measures and tests of heaping in discrete quantitative distributions", Journal of Applied
Statistics 28. What is compared here are plain shares of multiples.
"""

import numpy as np
import pandas as pd

from tabsynth.evaluation.results import Heaping, Share
from tabsynth.evaluation.weighting import mean_share, quantiles, shares
from tabsynth.schema.column import labelled
from tabsynth.schema.numeric import STEP_TOLERANCE, Numeric

MULTIPLES = (0.5, 1.0, 5.0, 10.0, 50.0, 100.0, 1000.0)
COMMON = 5  # most common values that are listed
# A column is clearly heaped at a multiple if, among its values that are multiples of the next finer one, the share e that
# would be multiples by chance is exceeded by e (1 - e), and by this much. Zero and the most common value do not count,
# since they may be common for other reasons.
MORE = 0.05
MIN_STEPS = 5  # multiples between the 1% and the 99% quantile
MIN_VALUES = 20


def heaping(
    column: Numeric,
    real: pd.Series,
    synthetic: pd.Series,
    weights: tuple[np.ndarray | None, np.ndarray | None] = (None, None),
) -> Heaping | None:
    """Return the heaping of a column in two tables; None where it is neither declared nor clear in the real values.

    Parameters
    ----------
    column : Numeric
    real, synthetic : Series, shape (rows,) each
        In the column's dtype; nulls are left out.
    weights : tuple of (ndarray or None)
        Of the rows of both.
    """
    numbers, each = [], []
    for values, weight in zip((real, synthetic), weights, strict=True):
        amounts = column.amounts(values)
        used = np.isfinite(amounts) if weight is None else np.isfinite(amounts) & (weight > 0)
        numbers.append(amounts[used])
        each.append(None if weight is None else weight[used])
    chosen = column.heaping or clear_multiples(numbers[0], column.step, each[0])
    if not chosen or not all(map(len, numbers)):
        return None
    both = list(zip(numbers, each, strict=True))
    multiples = [
        Share(f"multiples of {multiple:g}", *(_share(part, multiple, w) for part, w in both))
        for multiple in chosen
    ]
    distinct, of_values = _shares(numbers[0], each[0])
    first = np.argsort(-of_values, kind="stable")[:COMMON]
    common = [
        Share(
            labelled(column.labels, f"{distinct[i]:.10g}"),
            float(of_values[i]),
            mean_share(np.isclose(numbers[1], distinct[i]), each[1]),
        )
        for i in first
    ]
    return Heaping(tuple(multiples), tuple(common))


def clear_multiples(
    numbers: np.ndarray, step: float | None, weights: np.ndarray | None = None
) -> tuple[float, ...]:
    """Return the numbers whose multiples are clearly preferred among some values, the coarsest first."""

    def those(kept: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
        return values[kept], None if each is None else each[kept]

    values, each = numbers, weights
    values, each = those(values != 0)
    if len(values) < MIN_VALUES:
        return ()
    distinct, of_values = _shares(values, each)
    values, each = those(values != distinct[of_values.argmax()])
    if not len(values):
        return ()
    low, high = quantiles(values, (0.01, 0.99), each)
    finest, clear = step or 0.0, [0.0]
    for multiple in MULTIPLES:
        finer = clear[-1] or finest
        nested = finer == 0 or bool(_is_multiple(np.array([multiple]), finer)[0])
        if multiple <= finer or not nested or (high - low) / multiple < MIN_STEPS:
            continue
        among, of_among = those(_is_multiple(values, finer)) if finer else (values, each)
        even = finer / multiple
        if len(among) and _share(among, multiple, of_among) > even + max(MORE, even * (1 - even)):
            clear.append(multiple)
    return tuple(clear[:0:-1])


def _share(numbers: np.ndarray, multiple: float, weights: np.ndarray | None) -> float:
    return mean_share(_is_multiple(numbers, multiple), weights)


def _shares(numbers: np.ndarray, weights: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """Return the different numbers, and the (weighted) share of each."""
    distinct, inverse = np.unique(numbers, return_inverse=True)
    return distinct, shares(inverse, len(distinct), weights)


def _is_multiple(numbers: np.ndarray, multiple: float) -> np.ndarray:
    ratio = numbers / multiple
    return np.asarray(np.abs(ratio - np.round(ratio)) < STEP_TOLERANCE)
