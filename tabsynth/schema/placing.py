"""The expression by which a database finds the category code of a value: comparisons that follow from the schema alone.

A column says it by :meth:`tabsynth.schema.column.Column.placing`, for values of a type that a database has.
``tabsynth/tables/engines.py`` makes an expression of it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, eq=False)
class Cells:
    """Codes of amounts: the number of the cell that a value lies in.

    Attributes
    ----------
    starts : tuple
        The least value of each cell but the first, in rising order.
    low, high : number, date, datetime or time
        The least and the largest declared value.
    clip : bool
        Whether other values, but infinities, are of the first or the last cell; else they have no code.
    apart : dict of int
        Codes of single numbers that are no amounts.
    """

    starts: tuple[Any, ...]
    low: Any
    high: Any
    clip: bool
    apart: Mapping[float, int] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Listed:
    """Codes of listed values.

    Attributes
    ----------
    codes : dict of int
        By value.
    other : int or None
        The code of all other values; None: they have no code.
    """

    codes: Mapping[Any, int]
    other: int | None


Placing = Cells | Listed
