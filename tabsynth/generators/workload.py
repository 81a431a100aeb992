"""What a user wants most of a synthetic table: sets of columns, and a column to predict."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

IMPORTANCE = 15.0  # of what is named, in units of what is not


@dataclass(frozen=True)
class Workload:
    """Public wishes. They decide what is counted, and with which part of the budget.

    Attributes
    ----------
    sets : tuple of tuple of int
        Pairs and triples of column positions, each in rising order. They are counted in any case.
    target : int, optional
        A column to be predicted from the others: its pairs are important, and counted if they are
        worth it.
    """

    sets: tuple[tuple[int, ...], ...] = ()
    target: int | None = None

    def names(self, columns: Sequence[int]) -> bool:
        """Whether a set is named, or a part of one that is."""
        return any(set(columns) <= set(wanted) for wanted in self.sets)

    def importance(self, sets: Sequence[tuple[int, ...]]) -> np.ndarray:
        """Weights of the errors of sets of columns, shape (sets,)."""
        found = [
            len(columns) > 1 and (self.target in columns or self.names(columns)) for columns in sets
        ]
        return np.where(found, IMPORTANCE, 1.0)
