"""The part of a column that helpers use, and the comparisons by which Spark finds the codes of its values.

Columns import these helpers, so the helpers cannot import columns. :meth:`tabsynth.schema.column.Column.placing` returns
the comparisons, which follow from the schema alone. ``tabsynth/tables/engines.py`` makes an expression of them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, Self

import numpy as np
import pandas as pd

Value = str | int | float | bool


class ColumnFacts(Protocol):
    """The part of :class:`tabsynth.schema.column.Column` that helpers use."""

    @property
    def name(self) -> str:
        """The name."""

    @property
    def kind(self) -> str:
        """The name of the kind."""

    @property
    def dtype(self) -> str:
        """The dtype in tables."""

    @property
    def nulls(self) -> bool:
        """True if it may hold nulls."""

    @property
    def missing(self) -> Mapping[str, str]:
        """The reasons for missing."""

    @property
    def cells(self) -> int:
        """Number of codes of values."""

    @property
    def ordered(self) -> bool:
        """True if codes have an order."""

    @property
    def quantitative(self) -> bool:
        """True if values are amounts."""

    @property
    def categories(self) -> tuple[Value, ...]:
        """The listed values."""

    @property
    def other(self) -> Value | None:
        """The value that takes undeclared ones."""

    @property
    def reasons(self) -> tuple[Any, ...]:
        """The values that stand for reasons for missing."""

    @property
    def value_type(self) -> str:
        """The type of values."""

    @property
    def value_dtype(self) -> str:
        """The dtype of values without reasons for missing."""

    @property
    def amount_step(self) -> float | None:
        """The step between amounts."""

    def domain(self) -> str:
        """Return what values the column has, for people."""

    def strict(self) -> Self:
        """Return the column that takes declared values only."""

    def encode(self, values: pd.Series) -> np.ndarray:
        """Return codes of values."""

    def code_amounts(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the least and the largest amount of each code."""

    def from_amounts(self, amounts: np.ndarray) -> pd.Series:
        """Return values of amounts."""


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
