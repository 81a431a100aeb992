"""In which groups of values the counts of each set of columns are."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from tabsynth.privacy.counts import Groups, by_value


@dataclass(frozen=True, eq=False)
class Resolution:
    """Groups of the values of every column, by the set of columns that is counted.

    Attributes
    ----------
    values : Groups
        Each value by itself: of single columns.
    pairs, triples : Groups
    fine : Groups
        Of the pairs in ``strong``.
    strong : frozenset of pairs
    """

    values: Groups
    pairs: Groups
    triples: Groups
    fine: Groups
    strong: frozenset[tuple[int, ...]] = frozenset()

    @classmethod
    def by_value(cls, sizes: Sequence[int]) -> Self:
        """Each value by itself, in all counts."""
        whole = by_value(sizes)
        return cls(whole, whole, whole, whole)

    def of(self, columns: Sequence[int]) -> Groups:
        """The groups that a set of columns is counted in."""
        if tuple(columns) in self.strong:
            return self.fine
        return {1: self.values, 2: self.pairs}.get(len(columns), self.triples)

    def narrowed(self, paired: set[int]) -> Self:
        """One group for all values of the other columns, and fine ones in strong pairs alone.

        Of what is left out no matrix is held.
        """
        strong = {j for pair in self.strong for j in pair}
        pairs, triples, fine = (
            [g if j in kept else np.zeros_like(g) for j, g in enumerate(by)]
            for by, kept in ((self.pairs, paired), (self.triples, paired), (self.fine, strong))
        )
        return replace(self, pairs=pairs, triples=triples, fine=fine)
