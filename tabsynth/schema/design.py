"""The survey weights of the rows of a table, and the unit that privacy protects, as they are read from rows."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from tabsynth._validate import quote
from tabsynth.design import DeclaredDesign
from tabsynth.schema.cells import OtherObject
from tabsynth.schema.number_texts import numbers_of


@dataclass(frozen=True, kw_only=True)
class Design(DeclaredDesign):
    """The columns of a table that say what its rows stand for, and how they are read from it."""

    def problems(
        self, table: pd.DataFrame, decimal: str | None = None, *, needed: bool = False
    ) -> list[tuple[str, Any, str]]:
        """Return what a table has in these columns that cannot be used: column, value and message of each problem.

        ``needed``: whether it must have the columns, as a table to be fitted does.
        """
        out: list[tuple[str, Any, str]] = []
        names = [str(name) for name in table.columns]
        for name in self.names if needed else ():
            if name not in names:
                what = "weight" if name == self.weight else "unit"
                out.append(
                    (
                        name,
                        None,
                        f"The table lacks column {quote(name)}, the {what} of the schema; add it.",
                    )
                )
        if self.weight in names:
            weights = table.iloc[:, names.index(self.weight)]
            wrong = ~(numbers_of(weights, decimal=decimal) >= 0)  # NaN is wrong, too
            if wrong.any():
                value = weights.iloc[int(wrong.argmax())]
                out.append(
                    (
                        self.weight,
                        value,
                        f"Column {quote(self.weight)} has {'a null' if pd.isna(value) else f'weight {quote(value)}'}, and weights"
                        " are numbers from 0; correct it, or take the row out.",
                    )
                )
        if self.unit in names and table.iloc[:, names.index(self.unit)].isna().any():
            out.append(
                (
                    self.unit,
                    None,
                    f"Column {quote(self.unit)} has a null, and each row is of a unit; give each such row a unit of"
                    " its own.",
                )
            )
        elif self.unit in names:
            value = ambiguous_unit(table.iloc[:, names.index(self.unit)])
            if value is not None:
                why = "is too large for a float to tell from others"
                why = why if isinstance(value, float) else "may stand for several units"
                out.append(
                    (
                        self.unit,
                        value,
                        f"Column {quote(self.unit)} has unit {quote(value)}, which {why}; give units"
                        " as whole numbers or texts.",
                    )
                )
        return out

    def weights(self, table: pd.DataFrame, decimal: str | None = None) -> np.ndarray:
        """Return weights of a table without problems, clipped at the cap, in multiples of :attr:`step`, shape (n,) float64."""
        cap, step = float(self.max_weight or 0), self.step or 1.0
        return np.asarray(
            np.floor(np.minimum(self._read_weights(table, decimal), cap) / step) * step
        )

    def above_cap(self, table: pd.DataFrame, decimal: str | None = None) -> np.ndarray:
        """Return which rows of a table without problems have a weight above the cap, bool, shape (n,)."""
        return np.asarray(self._read_weights(table, decimal) > float(self.max_weight or 0))

    def _read_weights(self, table: pd.DataFrame, decimal: str | None) -> np.ndarray:
        names = [str(name) for name in table.columns]
        return numbers_of(table.iloc[:, names.index(str(self.weight))], decimal=decimal)


def ambiguous_unit(units: pd.Series) -> Any:
    """Return the first unit that may stand for several, such as a float that several whole numbers became; None if there is none."""
    limit = 2.0**24 if units.dtype == np.float32 else 2.0**53
    for unit in units:
        if isinstance(unit, float | np.floating) and limit <= abs(float(unit)) < math.inf:
            return float(unit)
        if isinstance(unit, OtherObject) and not unit.exact:
            return unit
    return None


NO_DESIGN = Design()
