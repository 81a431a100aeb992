"""Ordinal columns: a list of values in their order."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from tabsynth.schema.categorical import Categorical


@dataclass(frozen=True, kw_only=True)
class Ordinal(Categorical):
    """A column whose values are listed in their order, such as school grades.

    Parameters are those of :class:`~tabsynth.Categorical`; ``categories`` begins with the least value.
    """

    kind: str = "ordinal"

    ordered: ClassVar[bool] = True

    def scores(self) -> np.ndarray | None:
        """The values themselves where all are numbers, else their ranks; NaN for null."""
        if all(isinstance(v, int | float) and not isinstance(v, bool) for v in self.categories):
            return self._with_null(np.array(self.categories, dtype=float))
        return super().scores()

    def edge_cases(self, counts: np.ndarray, above: bool) -> dict[str, Any]:
        """As :meth:`Column.edge_cases`."""
        ends = {"lowest": self.categories[0], "highest": self.categories[-1]}
        return {**super().edge_cases(counts, above), **ends}
