"""Ordinal columns: a list of values in their order."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from tabsynth.schema.categorical import Categorical
from tabsynth.schema.column import fill_missing


@dataclass(frozen=True, kw_only=True)
class Ordinal(Categorical):
    """A column whose values are listed in their order, such as school grades.

    Parameters are those of :class:`~tabsynth.Categorical`; ``categories`` begins with the least value.
    """

    kind: str = "ordinal"

    ordered: ClassVar[bool] = True

    def scores(self) -> np.ndarray | None:
        """Return the values themselves where all are numbers, else their ranks; NaN for missing values."""
        if all(isinstance(v, int | float) and not isinstance(v, bool) for v in self.categories):
            return fill_missing(self, np.array(self.categories, dtype=float), np.nan)
        return super().scores()
