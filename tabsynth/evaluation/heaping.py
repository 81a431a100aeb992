"""Heaping: round numbers that people prefer when they read a scale or state an amount, in both tables.

Roberts & Brewer 2001, "Measures and tests of heaping in discrete quantitative distributions", Journal of Applied
Statistics 28. What is compared here are plain shares of multiples.
"""

import numpy as np
import pandas as pd

from tabsynth.evaluation.results import Heaping, Share
from tabsynth.schema.numeric import STEP_TOLERANCE, Numeric

MULTIPLES = (0.5, 1.0, 5.0, 10.0, 50.0, 100.0, 1000.0)
COMMON = 5  # most common values that are listed
# A column is clearly heaped at a multiple if, among its values that are multiples of the next finer one, the share e that
# would be multiples by chance is exceeded by e (1 - e), and by this much. Zero and the most common value do not count,
# since they may be common for other reasons.
MORE = 0.05
MIN_STEPS = 5  # multiples between the 1% and the 99% quantile
MIN_VALUES = 20


def heaping(column: Numeric, real: pd.Series, synthetic: pd.Series) -> Heaping | None:
    """Heaping of a column in two tables; None where it is neither declared nor clear in the real values.

    Parameters
    ----------
    column : Numeric
    real, synthetic : Series, shape (rows,) each
        In the column's dtype; nulls are left out.
    """
    numbers = [column.amounts(values) for values in (real, synthetic)]
    numbers = [part[np.isfinite(part)] for part in numbers]
    chosen = column.heaping or clear_multiples(numbers[0], column.step)
    if not chosen or not all(map(len, numbers)):
        return None
    multiples = [
        Share(f"multiples of {multiple:g}", *(_share(part, multiple) for part in numbers))
        for multiple in chosen
    ]
    values, counts = np.unique(numbers[0], return_counts=True)
    first = np.argsort(-counts, kind="stable")[:COMMON]
    common = [
        Share(
            column.labelled(f"{values[i]:.10g}"),
            float(counts[i] / len(numbers[0])),
            float(np.isclose(numbers[1], values[i]).mean()),
        )
        for i in first
    ]
    return Heaping(tuple(multiples), tuple(common))


def clear_multiples(numbers: np.ndarray, step: float | None) -> tuple[float, ...]:
    """The numbers whose multiples are clearly preferred among some values, the coarsest first."""
    values = numbers[numbers != 0]
    if len(values) < MIN_VALUES:
        return ()
    distinct, counts = np.unique(values, return_counts=True)
    values = values[values != distinct[counts.argmax()]]
    if not len(values):
        return ()
    low, high = np.quantile(values, (0.01, 0.99))
    finest, found = step or 0.0, [0.0]
    for multiple in MULTIPLES:
        finer = found[-1] or finest
        whole = finer == 0 or bool(_is_multiple(np.array([multiple]), finer)[0])
        if multiple <= finer or not whole or (high - low) / multiple < MIN_STEPS:
            continue
        among = values[_is_multiple(values, finer)] if finer else values
        even = finer / multiple
        if len(among) and _share(among, multiple) > even + max(MORE, even * (1 - even)):
            found.append(multiple)
    return tuple(found[:0:-1])


def _share(numbers: np.ndarray, multiple: float) -> float:
    return float(_is_multiple(numbers, multiple).mean())


def _is_multiple(numbers: np.ndarray, multiple: float) -> np.ndarray:
    ratio = numbers / multiple
    return np.asarray(np.abs(ratio - np.round(ratio)) < STEP_TOLERANCE)
