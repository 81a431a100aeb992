"""Survey weights in MargNet: a column of weight classes is modelled with the others, and the rows are then raked.

A row with the largest weight moves a weighted count as far as hundreds of rows. But it moves a count of rows by 1 alone, and
which class its weight is in is a fact of the row like any other. So all counts are of rows, and the cap costs no noise.
Counts of each column with the classes are important ones: they get a larger share of the budget.

The fitted mixture has a distribution of classes in each component, and so a mean weight. Weighted by these, its columns have
the distributions of the population. The mixture of the rows is then raked to them, which leaves a mixture: iterative
proportional fitting (Deming and Stephan 1940; Deville, Särndal and Sautory 1993) of all columns at once. All of it is
post-processing.

NOTE[DIFF] Components might be weighted by their mean weights alone. Raking has the smaller error of pairs of columns in noisy
counts, because the mean weight of a component is noisy. It assumes that the weight is a product of factors of columns; weights
that follow from interactions of columns leave an error that no budget takes away.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import torch

from tabsynth.encoding.rows import Rows
from tabsynth.encoding.table import Block, Layout, codebook
from tabsynth.privacy.noise.counts import Measured, interval
from tabsynth.synthesizers.margnet.config import MargNetConfig
from tabsynth.synthesizers.margnet.selection import Workload
from tabsynth.synthesizers.method import Population
from tabsynth.synthesizers.mixture import Mixture

CLASSES = 40  # classes of weights below the cap, as many as keep the error of their midpoints below that of noise
WEIGHT_GROUPS = 5  # of these classes in counts with other columns
# Of the privacy budget: the size of the population follows from the counts of the classes.
ONE_WAY_SHARE = 0.15
SWEEPS = 30  # of iterative proportional fitting
LEAST = 1e-12  # of probabilities and mean weights that are divided by


@dataclass(frozen=True)
class WeightClasses:
    """Classes of weights, in their order: of equal width in the root of the weight, and the cap by itself.

    Attributes
    ----------
    cap : float
        Public.
    most_groups : int
        In counts with other columns.
    """

    cap: float
    most_groups: int = WEIGHT_GROUPS

    ordered = True
    size = CLASSES + 1

    @property
    def means(self) -> np.ndarray:
        """The weight that each class stands for, shape (size,): the middle of its bounds, or the cap."""
        return self.bounds.mean(axis=0)

    @property
    def bounds(self) -> np.ndarray:
        """The least and the largest weight of each class, shape (2, size)."""
        ends = self.cap * (np.arange(CLASSES + 1) / CLASSES) ** 2
        return np.array([ends, [*ends[1:], self.cap]])

    def codes(self, weights: np.ndarray) -> np.ndarray:
        """Return the class of each weight from 0 to the cap, shape (n,), int64."""
        return np.floor(CLASSES * np.sqrt(weights / self.cap)).astype(np.int64)

    def groups(self, shares: np.ndarray, least_share: float, merged: float) -> np.ndarray:
        """Return ``most_groups`` groups within which the weights of rows differ little.

        They are the leaves of a regression tree of the classes' numbers, and so of roots of weights: its splits take most
        off the squared error of rows.
        """
        from sklearn.tree import (
            DecisionTreeRegressor,  # it takes half a second, and few tables have weights
        )

        numbers = np.arange(self.size)
        tree = DecisionTreeRegressor(max_leaf_nodes=self.most_groups, random_state=0)
        leaves = tree.fit(numbers[:, None], numbers, shares).apply(numbers[:, None])
        return np.cumsum(np.diff(leaves, prepend=leaves[0]) != 0)


@dataclass(frozen=True, eq=False)
class WeightedColumns:
    """The learned columns, and the classes of weights as the last one.

    Attributes
    ----------
    learned : sequence
        Columns that merge their values into groups, with numbers of codes.
    classes : WeightClasses
    config : MargNetConfig
        With the share of the budget of one-way counts that is meant for weighted rows.
    """

    learned: Sequence[Any]
    classes: WeightClasses
    config: MargNetConfig

    @classmethod
    def of(cls, learned: Sequence[Any], cap: float, config: MargNetConfig) -> Self:
        """Make them by the settings of a fit."""
        classes = WeightClasses(float(cap))
        return cls(learned, classes, replace(config, one_way_share=ONE_WAY_SHARE))

    @property
    def columns(self) -> list[Any]:
        """The learned columns and the classes."""
        return [*self.learned, self.classes]

    @property
    def sizes(self) -> list[int]:
        """Their numbers of codes."""
        return [column.size for column in self.columns]

    def rows(self, rows: Rows) -> Rows:
        """Return rows with their class as a last column, and without their weight: each counts once."""
        assert rows.weights is not None
        codes = self.classes.codes(rows.weights)
        return Rows(np.column_stack([rows.codes, codes]), None, rows.units)

    def workload(self, workload: Workload) -> Workload:
        """Add the counts of each column and the classes, which are made in any case."""
        last = len(self.learned)
        return replace(workload, classes=last)

    def layout(self, layout: Layout) -> Layout:
        """Add the block of the classes to the layout of the learned columns."""
        book, head = codebook(self.classes.size, "one-hot")
        width = layout.width
        block = Block("", width, width + self.classes.size, head, book)
        return Layout((*layout.blocks, block))

    def of_rows(self, mixture: Mixture, layout: Layout) -> Mixture:
        """Return the mixture of the rows without the classes, which has the given layout."""
        out = Mixture(layout, len(mixture.probabilities)).to(mixture.probabilities.device)
        return out.set(mixture.probabilities[:, : layout.width])

    def of_population(self, mixture: Mixture, layout: Layout, rows: float) -> tuple[Mixture, float]:
        """Return the mixture of the population, without the classes, and the size of the population, at least 1.

        Parameters
        ----------
        mixture : Mixture
            Of the rows, with their classes.
        layout : Layout
            Without them.
        rows : float
            The number of rows.
        """
        every = mixture.probabilities.double().cpu().numpy()
        blocks = [every[:, block.start : block.stop] for block in mixture.layout.blocks]
        heavy = np.maximum(blocks.pop() @ self.classes.means, LEAST * self.classes.cap)
        margins = [heavy @ block / heavy.sum() for block in blocks]
        raked, shares = _rake(blocks, margins)
        out = Mixture(layout, len(every), shared=True).to(mixture.probabilities.device)
        p, s = (torch.from_numpy(x).float() for x in (np.concatenate(raked, axis=1), shares))
        return out.set(p, s), max(1.0, rows * float(heavy.mean()))

    def within_interval(self, total: float, counts: Sequence[Measured]) -> Population:
        """Return the size of the population, moved into its 95% interval, with the interval.

        The interval follows from the noise of the counts of classes, and from their widths. A fit that ended early may be
        outside.
        """
        by_class = [m for m in counts if m.columns == (len(self.learned),)]
        best = min(by_class, key=lambda m: m.std)
        low, high = (
            interval(float(best.counts @ ends), best.std * float(np.linalg.norm(ends)))
            for ends in self.classes.bounds
        )
        ends = (low[0], high[1])
        return Population(total=max(1.0, float(np.clip(total, *ends))), interval=ends)


def _rake(
    blocks: Sequence[np.ndarray], margins: Sequence[np.ndarray]
) -> tuple[list[np.ndarray], np.ndarray]:
    """Return a mixture of product distributions, times factors of the values of each column that give these margins.

    Parameters
    ----------
    blocks : sequence of ndarray, shape (components, size)
        Distributions of the columns.
    margins : sequence of ndarray, shape (size,)

    Returns
    -------
    blocks : list of ndarray
    shares : ndarray, shape (components,)
    """
    out, shares = list(blocks), np.full(len(blocks[0]), 1 / len(blocks[0]))
    for _ in range(SWEEPS):
        for j, margin in enumerate(margins):
            tilted = out[j] * (margin / np.maximum(shares @ out[j], LEAST))
            mass = np.maximum(tilted.sum(axis=1), LEAST)
            out[j] = tilted / mass[:, None]
            shares = shares * mass / (shares @ mass)
    return out, shares
