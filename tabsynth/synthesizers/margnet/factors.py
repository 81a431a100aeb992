"""The factor model of noisy counts: what a fit of a wide table starts from.

Columns are independent given some normal factors, each as a multinomial logistic regression on these. A tree has one neighbour's part of
what many columns say of each other; where all are of a few causes, as the diagnoses of patients, the noise of their pairs is averaged.

After softImpute (Mazumder, Hastie, Tibshirani 2010, "Spectral Regularization Algorithms for Learning Large Incomplete Matrices", JMLR 11),
with the shrinkage of Gavish and Donoho (2017), "Optimal Shrinkage of Singular Values", IEEE Transactions on Information Theory 63(4).
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Self

import numpy as np

from tabsynth.privacy.noise.counts import Groups, in_groups, number_of

TURNS = 15  # of filling in pairs that were not counted, and those of a column with itself
CLEAR_DIRECTION = (
    1.2  # over the largest of noise alone: pairs that were not counted are no random ones
)
MOMENT_STEPS = 40  # to the regressions of the columns on the factors
# Of the mean of the factors given a value: its length, over that of a value that one direction decides.
LONGEST_MEAN = 0.95
TINY = 1e-12  # a probability that is not quite 0, or 1


@dataclass(frozen=True, eq=False)
class FactorModel:
    """The factor model of the columns of a table.

    Attributes
    ----------
    shares : sequence of ndarray, shape (size,)
        The distribution of the values of each column.
    groups : Groups
        Of the values of each column, in pairs.
    means : ndarray, shape (groups of all columns, factors)
        Of the factors, given a value.
    """

    shares: Sequence[np.ndarray]
    groups: Groups
    means: np.ndarray

    @classmethod
    def of(
        cls,
        shares: Sequence[np.ndarray],
        groups: Groups,
        departures: Mapping[tuple[int, ...], np.ndarray],
        noise: Mapping[tuple[int, ...], float],
        most: int,
    ) -> Self:
        """Return the model of the directions of all pairs together that are above their noise.

        Parameters
        ----------
        shares, groups
            As the attributes.
        departures : mapping of a pair to ndarray, shape (groups of each column)
            The noisy departures of pairs from independent columns, as shares of the rows.
        noise : mapping of a pair to float
            The standard deviation of each of its cells.
        most : int
            The number of factors, at most.
        """
        p = np.concatenate([in_groups(q, [g]) for q, g in zip(shares, groups, strict=True)])
        spans = _spans(groups)
        table = np.full((len(p), len(p)), np.nan, dtype=np.float32)
        variance = 0.0  # of the noise of all cells
        for (a, b), departure in departures.items():
            centred = departure - departure.mean(axis=0)
            centred -= centred.mean(axis=1, keepdims=True)
            table[spans[a], spans[b]], table[spans[b], spans[a]] = centred, centred.T
            variance += 2 * noise[a, b] ** 2 * (len(centred) - 1) * (len(centred[0]) - 1)
        edge = 2 * math.sqrt(variance / max(1, len(p) - len(groups)))  # the largest of noise alone
        clear = CLEAR_DIRECTION * edge
        missing = np.isnan(table)
        table[missing] = 0.0
        shape = (len(p), min(most, len(p)))
        directions = np.random.default_rng(0).standard_normal(shape, dtype=np.float32)
        for _ in range(TURNS):
            directions = np.linalg.qr(table @ directions)[0]
            values, turned = np.linalg.eigh(directions.T @ table @ directions)
            directions = directions @ turned
            values = np.where(values > clear, np.sqrt(np.maximum(values**2 - edge**2, 0)), 0)
            table[missing] = ((directions * values) @ directions.T)[missing]
        above = values > 0
        means = directions[:, above] * np.sqrt(values[above]) / p[:, None]
        normal = NormalDist()
        q = p.clip(TINY, 1 - TINY).tolist()
        longest = np.array([LONGEST_MEAN * normal.pdf(normal.inv_cdf(of)) / of for of in q])
        lengths = np.linalg.norm(means, axis=1).clip(TINY)
        return cls(shares, groups, means * np.minimum(1.0, longest / lengths)[:, None])

    def components(self, count: int, rng: np.random.Generator) -> np.ndarray:
        """Return components of a mixture that is near the model, shape (count, values of all columns): draws of the factors."""
        factors = rng.standard_normal((count, self.means.shape[1]))
        left, _, right = np.linalg.svd(factors - factors.mean(axis=0), full_matrices=False)
        factors = left @ right * math.sqrt(count)
        blocks = []
        for p, group, span in zip(self.shares, self.groups, _spans(self.groups), strict=True):
            share, means = in_groups(p, [group]), self.means[span]
            slopes, levels = means, np.log(share)
            for _ in range(MOMENT_STEPS):
                logits = factors @ slopes.T + levels
                given = np.exp(logits - logits.max(axis=1, keepdims=True))
                given /= given.sum(axis=1, keepdims=True)
                levels = levels + np.log(share / given.mean(axis=0).clip(TINY))
                slopes = slopes + means - given.T @ factors / (count * share[:, None])
            blocks.append((given / share)[:, group] * p)
        return np.concatenate(blocks, axis=1)


def _spans(groups: Groups) -> list[slice]:
    """Return the groups of each column among those of all."""
    ends = np.cumsum([number_of(group) for group in groups]).tolist()
    return [slice(a, b) for a, b in zip([0, *ends], ends, strict=False)]
