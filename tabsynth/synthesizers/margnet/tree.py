"""The tree model of noisy counts: what most fits start from, and what no time limit leaves one below.

A maximum spanning tree of the pairs by mutual information (Chow and Liu 1968, "Approximating Discrete Probability Distributions with
Dependence Trees", IEEE Transactions on Information Theory 14(3)): each column depends on one other. It follows from the counts of its
pairs without any step of a fit.

NOTE[DIFF] The counts of the pairs are those with most of the noise shrunk, so that pairs of noise alone are independent.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from tabsynth.privacy.noise.counts import Groups, in_groups, number_of
from tabsynth.synthesizers.margnet.selection import spanning_tree

LEAST_LIFT = 1e-3  # of a pair of values: its probability over that of independent columns
ADJUSTMENTS = 10  # of the pairs of the tree to the distributions of their columns, by iterative proportional fitting
# Of a component of the tree: the weight of the values that were drawn. The rest are distributions given the neighbours that were drawn.
DRAWN = 0.3


@dataclass(frozen=True, eq=False)
class TreeModel:
    """The tree model of the columns of a table.

    Attributes
    ----------
    shares : sequence of ndarray, shape (size,)
        The distribution of the values of each column.
    groups : Groups
        Of the values of each column, in pairs.
    joints : dict of a pair to ndarray, shape (groups of each column)
        The joint distribution of the pairs of the tree, or of a forest.
    """

    shares: Sequence[np.ndarray]
    groups: Groups
    joints: dict[tuple[int, int], np.ndarray]

    @classmethod
    def of(
        cls,
        shares: Sequence[np.ndarray],
        groups: Groups,
        departures: Mapping[tuple[int, ...], np.ndarray],
    ) -> Self:
        """Return the tree of most mutual information.

        Parameters
        ----------
        shares, groups
            As the attributes.
        departures : mapping of a pair to ndarray, shape (groups of each column)
            The departures of pairs from independent columns, as shares of the rows.
        """
        of_groups = [in_groups(p, [g]) for p, g in zip(shares, groups, strict=True)]
        joints, information = dict[tuple[int, int], np.ndarray](), list[float]()
        for (a, b), departure in departures.items():
            independent = np.outer(of_groups[a], of_groups[b])
            joint = np.maximum(independent + departure, LEAST_LIFT * independent)
            joints[a, b] = joint / joint.sum()
            information.append(float((joints[a, b] * np.log(joints[a, b] / independent)).sum()))
        edges = spanning_tree([*joints], information)
        for a, b in edges:
            for _ in range(ADJUSTMENTS):
                joints[a, b] *= (of_groups[a] / joints[a, b].sum(axis=1))[:, None]
                joints[a, b] *= of_groups[b] / joints[a, b].sum(axis=0)
        return cls(shares, groups, {edge: joints[edge] for edge in edges})

    def components(self, count: int, rng: np.random.Generator) -> np.ndarray:
        """Return components of a mixture that is near the tree model, shape (count, values of all columns).

        Each is of a row that is drawn from the tree: in part its values, in part the distribution of each column given the values of its
        neighbours in the tree. The first alone would need many more components, the second has weaker dependences.
        """
        codes = self.draw(count, rng)
        of_groups = [in_groups(p, [g]) for p, g in zip(self.shares, self.groups, strict=True)]
        logs = [np.tile(np.log(p), (count, 1)) for p in of_groups]
        for (a, b), joint in self.joints.items():
            lift = np.log(joint / np.outer(of_groups[a], of_groups[b]))
            logs[a] += lift[:, codes[:, b]].T
            logs[b] += lift[codes[:, a]]
        blocks = []
        for j, (p, group) in enumerate(zip(self.shares, self.groups, strict=True)):
            given = np.exp(logs[j] - logs[j].max(axis=1, keepdims=True))
            given *= (1 - DRAWN) / given.sum(axis=1, keepdims=True)
            given[np.arange(count), codes[:, j]] += DRAWN
            blocks.append((given / of_groups[j])[:, group] * p)
        return np.concatenate(blocks, axis=1)

    def draw(self, rows: int, rng: np.random.Generator) -> np.ndarray:
        """Draw rows of groups of values, shape (rows, columns), with as little chance as rows that are whole leave."""
        codes = np.zeros((rows, len(self.shares)), dtype=np.int64)
        neighbours: dict[int, list[tuple[int, np.ndarray]]] = {}
        for (a, b), joint in self.joints.items():
            neighbours.setdefault(a, []).append((b, joint))
            neighbours.setdefault(b, []).append((a, joint.T))
        drawn = set[int]()
        for root, (p, group) in enumerate(zip(self.shares, self.groups, strict=True)):
            if root in drawn:
                continue
            codes[:, root] = _draw_given(in_groups(p, [group])[None], codes[:, root], rng)
            waiting = [root]
            while waiting:
                parent = waiting.pop()
                drawn.add(parent)
                for child, joint in neighbours.get(parent, ()):
                    if child not in drawn:
                        codes[:, child] = _draw_given(joint, codes[:, parent], rng)
                        waiting.append(child)
        return codes

    def draw_values(self, rows: int, rng: np.random.Generator) -> np.ndarray:
        """Draw rows of values, shape (rows, columns): those of :meth:`draw`, and a value of each group by the shares of its values."""
        codes = self.draw(rows, rng)
        for j, (p, group) in enumerate(zip(self.shares, self.groups, strict=True)):
            of_group = np.zeros((number_of(group), len(p)))
            of_group[group, np.arange(len(p))] = p
            codes[:, j] = _draw_given(of_group, codes[:, j], rng)
        return codes


def _draw_given(joint: np.ndarray, given: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Draw values given those of another column, shape (rows,): among rows that are given the same each value has its share, rounded."""
    upto = joint.cumsum(axis=1)
    upto /= upto[:, -1:]
    order = np.lexsort((rng.random(len(given)), given))
    count = np.bincount(given, minlength=len(joint))
    place = np.arange(len(given)) - (count.cumsum() - count)[given[order]]
    level = (place + rng.random(len(given))) / count[given[order]]
    flat = (upto + np.arange(len(joint))[:, None]).ravel()
    values = np.empty_like(given)
    spot = np.searchsorted(flat, given[order] + level, side="right")
    values[order] = np.minimum(spot - given[order] * joint.shape[1], joint.shape[1] - 1)
    return values
