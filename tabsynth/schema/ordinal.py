"""Ordinal columns: a list of values in their order."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from tabsynth.schema.categorical import Categorical
from tabsynth.schema.column import with_null


@dataclass(frozen=True, kw_only=True)
class Ordinal(Categorical):
    """A column whose values are listed in their order, such as school grades.

    Parameters are those of :class:`~tabsynth.Categorical`; ``categories`` begins with the least value.
    """

    kind: str = "ordinal"

    ordered: ClassVar[bool] = True

    def scores(self) -> np.ndarray | None:
        """Return the values themselves where all are numbers, else their ranks; NaN for null."""
        if all(isinstance(v, int | float) and not isinstance(v, bool) for v in self.categories):
            return with_null(np.array(self.categories, dtype=float), self.nulls)
        return super().scores()
