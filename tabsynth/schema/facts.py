"""The part of a column that helpers use: columns import these helpers, so the helpers cannot import columns."""

from collections.abc import Mapping
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

    def cell_of(self, number: object) -> object:
        """Return a number as a column of texts has it."""

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
