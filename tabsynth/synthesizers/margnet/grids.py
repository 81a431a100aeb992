"""Tables of four and more columns: of all columns, of a relation that only so many columns show together, and of a target.

Where all columns together have few cells for the noise, the whole table is counted. Where signs of columns show a relation of four and
more, such as an exclusive or, these columns are counted together, each in two groups.

Pairs and triples say little of a target that depends on many columns. Grids of a target are tables of it and six other columns, each
split in two at a random value. Together they show what the target depends on, as the trees of a random forest do (Breiman 2001,
"Random Forests", Machine Learning 45). The splits follow from noisy one-way counts and from random numbers that are the same in every fit.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from tabsynth.privacy.noise.counts import Measured, average, in_groups, number_of
from tabsynth.synthesizers.mixture import Mixture

GRIDS = 32  # of a target
MOST_PART = 0.8  # of the budget of joint counts: all grids together
CUT_COLUMNS = 6  # of each grid, beside the target
RELATED_PART = 0.15  # of the budget of joint counts: each relation that signs show
# Of the budget of joint counts: the whole table, where its noise in L1 is no larger share of the rows. A sixth of the error of a random
# table of seven bits and 10,000 rows is left at ε = 1, and 80 to 90% of that of four columns of the census.
WHOLE_PART, WHOLE_NOISE = 0.3, 0.3
AT_ONCE = 2**22  # cells of components that are in memory at a time, or those of one
OUTSIDE = 0.02  # of the odds of a value outside the cell that a component begins in
CUTS = (0.25, 0.75)  # the share of the rows below a cut: in between


@dataclass(frozen=True, eq=False)
class Grid:
    """A table of several columns in groups of their values.

    Attributes
    ----------
    columns : tuple of int
        In rising order.
    groups : tuple of ndarray, shape (size,)
        For each column the group of every code.
    part : float
        Of the budget of the counts that it is among.
    related : bool
        Whether the columns are known to have a relation, so that a fit begins with it.
    """

    columns: tuple[int, ...]
    groups: tuple[np.ndarray, ...]
    part: float
    related: bool = False

    def expected(self, mixture: Mixture, rows: float) -> np.ndarray:
        """Return the counts that a mixture of components of equal shares expects, shape (groups of each column)."""
        p = mixture.probabilities.double().cpu().numpy()
        sizes = [number_of(group) for group in self.groups]
        cells = np.zeros(math.prod(sizes))
        for some in np.array_split(p, math.ceil(len(p) * len(cells) / AT_ONCE)):
            of = np.full((len(some), 1), rows / len(p))
            for j, group in zip(self.columns, self.groups, strict=True):
                block = mixture.layout.blocks[j]
                of_groups = in_groups(some[:, block.start : block.stop].T, [group]).T
                of = (of[:, :, None] * of_groups[:, None]).reshape(len(some), -1)
            cells += of.sum(axis=0)
        return cells.reshape(sizes)


@dataclass(frozen=True, eq=False)
class GridCounts:
    """Noisy counts of a table of several columns in groups of their values.

    Attributes
    ----------
    columns, groups, related
        As of :class:`Grid`.
    counts : ndarray, shape (groups of each column)
    std : float
        Of the noise on each cell.
    """

    columns: tuple[int, ...]
    groups: tuple[np.ndarray, ...]
    counts: np.ndarray
    std: float
    related: bool = False

    def averaged(self, other: Self) -> Self:
        """Return the counts of two releases as one: weighted by the inverse of their variances."""
        both = [Measured(grid.columns, grid.counts, grid.std) for grid in (self, other)]
        counted = average(*both)
        return replace(self, counts=counted.counts, std=counted.std)

    def with_noise(self, rng: np.random.Generator) -> Self:
        """Add noise of the same size again, as implicates need it."""
        return replace(self, counts=self.counts + self.std * rng.standard_normal(self.counts.shape))


def parts_of(grids: Sequence[Grid], most: float = MOST_PART) -> tuple[float, list[float]]:
    """Return the part of a budget that all grids have, at most ``most``, and the part of each."""
    wanted = math.fsum(grid.part for grid in grids)
    part = min(wanted, most)
    return part, [part * grid.part / wanted for grid in grids]


def cut_values(shares: np.ndarray, ordered: bool, rng: np.random.Generator) -> np.ndarray:
    """Return two groups of a column's values, shape (size,): below and above a cut, in the order of the values or in a random one.

    A column of one value has one group.
    """
    order = np.arange(len(shares)) if ordered else rng.permutation(len(shares))
    upto = shares[order].cumsum()[:-1] / shares.sum()
    group = np.zeros(len(shares), dtype=np.int64)
    if len(upto):
        group[order[np.abs(upto - rng.uniform(*CUTS)).argmin() + 1 :]] = 1
    return group


def target_grids(
    target: int,
    target_group: np.ndarray,
    others: Sequence[int],
    shares: Sequence[np.ndarray],
    ordered: Sequence[bool],
) -> list[Grid]:
    """Return tables of a target and ``CUT_COLUMNS`` of the other columns, each cut in two at random; none for less than three others.

    Chance is the same in each fit: nothing here follows from the rows, save by earlier releases.

    Parameters
    ----------
    target : int
    target_group : ndarray, shape (size of the target,)
        Groups of its values.
    others : sequence of int
        Columns to choose from.
    shares : sequence of ndarray, shape (size,)
        A distribution of the values of each column.
    ordered : sequence of bool
        Whether the values of a column have an order.
    """
    if len(others) < 3:
        return []
    rng, grids = np.random.default_rng(0), list[Grid]()
    for _ in range(GRIDS):
        cut = rng.permutation(others)[:CUT_COLUMNS].tolist()
        by = {j: cut_values(shares[j], ordered[j], rng) for j in cut} | {target: target_group}
        columns = tuple(sorted(by))
        grids.append(Grid(columns, tuple(by[j] for j in columns), 1 / GRIDS))
    return grids


def related_grids(related: Sequence[tuple[int, ...]], signs: Sequence[np.ndarray]) -> list[Grid]:
    """Return the tables of columns that have a relation, each column in two groups by its signs.

    Parameters
    ----------
    related : sequence of tuple of int
        Columns in rising order.
    signs : sequence of ndarray, shape (size,)
        Of every column: +1 or -1 for each value.
    """
    groups = [(of < 0).astype(np.int64) for of in signs]
    return [
        Grid(columns, tuple(groups[j] for j in columns), RELATED_PART, related=True)
        for columns in related
    ]


def whole_grid(sizes: Sequence[int], noise: float, rows: float, max_cells: int) -> Grid | None:
    """Return the table of all columns, value by value, where its noise is at most ``WHOLE_NOISE`` of the rows in L1; else None.

    Nor where it has more than ``max_cells``, as without noise it may. ``noise`` is that of all joint counts together, in rows.
    """
    cells = math.prod(sizes)
    error = math.sqrt(2 / math.pi / WHOLE_PART) * noise
    if cells > max_cells or error * cells > WHOLE_NOISE * rows:
        return None
    columns = tuple(range(len(sizes)))
    return Grid(columns, tuple(np.arange(size) for size in sizes), WHOLE_PART, related=True)


def begin_in_cells(
    probabilities: np.ndarray,
    starts: Sequence[int],
    grid: GridCounts,
    cells: np.ndarray,
    rng: np.random.Generator,
) -> None:
    """Move components of a mixture to the cells of a grid, in place: each to one, and to a cell as many as its share.

    Gradients do not lead there: where no smaller set of the columns shows a relation, independent columns are a saddle of the loss.

    Parameters
    ----------
    probabilities : ndarray, shape (components, values of all columns)
    starts : sequence of int
        Of the values of each column.
    grid : GridCounts
    cells : ndarray, shape of its counts
        The distribution of the cells.
    """
    count = len(probabilities)
    level = (rng.permutation(count) + rng.random()) / count
    cell = np.searchsorted(cells.ravel().cumsum() / cells.sum(), level).clip(max=cells.size - 1)
    for j, group, of in zip(
        grid.columns, grid.groups, np.unravel_index(cell, cells.shape), strict=True
    ):
        block = probabilities[:, starts[j] : starts[j] + len(group)]
        inside = np.where(group == of[:, None], 1.0, OUTSIDE)
        block *= inside
        block /= block.sum(axis=1, keepdims=True)
