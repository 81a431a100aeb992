"""Values that a record may have to test code that reads tables."""

from functools import singledispatch

import numpy as np

from tabsynth.schema.categorical import Categorical, Ordinal
from tabsynth.schema.column import Column
from tabsynth.schema.hierarchical import Hierarchical
from tabsynth.schema.numeric import Numeric
from tabsynth.schema.temporal import Temporal

UNDECLARED_TEXT = "unheard of"
LONG_TEXT = "long " * 1000
LARGE_INTEGER = 2**53 + 1  # the first whole number that is no float


def edge_cases(column: Column, counts: np.ndarray, above: bool) -> dict[str, object]:
    """Return values that a record may have to test code that reads tables.

    Parameters
    ----------
    column : Column
    counts : ndarray, shape (size,)
        How many rows have each code.
    above : bool
        Where two values would do: the larger one.

    Returns
    -------
    dict
        ``outlier``: a rare or extreme declared value. ``lowest``, ``highest``: the ends of an order.
        ``undeclared``, ``extreme``: a value outside the declared ones, and one that few types hold, where the
        column takes undeclared values. A key is missing where there is no such value.
    """
    return of_kind(column, counts[: column.cells], above)


@singledispatch
def of_kind(column: Column, counts: np.ndarray, above: bool) -> dict[str, object]:
    """Return :func:`edge_cases` of a kind; ``counts`` are those of values."""
    return {}


@of_kind.register
def _(column: Categorical, counts: np.ndarray, above: bool) -> dict[str, object]:
    cases: dict[str, object] = {"outlier": column.categories[counts.argmin()]}
    if column.other is not None:
        extreme = LONG_TEXT if column.value_type == "text" else LARGE_INTEGER
        cases |= {"undeclared": UNDECLARED_TEXT, "extreme": extreme}
    if isinstance(column, Ordinal):
        cases |= {"lowest": column.categories[0], "highest": column.categories[-1]}
    return cases


@of_kind.register
def _(column: Hierarchical, counts: np.ndarray, above: bool) -> dict[str, object]:
    cases: dict[str, object] = {
        "outlier": column.codes[int((column.nodes[1] == counts.argmin()).argmax())]
    }
    if column.other is not None and column.value_type == "text":
        cases |= {"undeclared": UNDECLARED_TEXT, "extreme": LONG_TEXT}
    return cases


@of_kind.register
def _(column: Numeric, counts: np.ndarray, above: bool) -> dict[str, object]:
    low, high = column.bounds
    cases: dict[str, object] = {"outlier": high if above else low, "lowest": low, "highest": high}
    if column.clip:
        beyond = high - low + 1
        cases["undeclared"] = high + beyond if above else low - beyond
        cases["extreme"] = LARGE_INTEGER
    return cases


@of_kind.register
def _(column: Temporal, counts: np.ndarray, above: bool) -> dict[str, object]:
    ends = column.from_amounts(np.array(column.units.bounds, dtype=float))
    lowest, highest = ends.iloc[0], ends.iloc[1]
    return {"outlier": highest if above else lowest, "lowest": lowest, "highest": highest}
