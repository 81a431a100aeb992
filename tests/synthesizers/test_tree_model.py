"""The tree model of noisy counts, which a fit of MargNet starts from."""

from itertools import combinations

import numpy as np
import pytest

from tabsynth.privacy.noise.counts import by_value, count_rows, in_groups
from tabsynth.synthesizers.margnet.selection import spanning_tree
from tabsynth.synthesizers.margnet.tree import TreeModel

SIZES = (4, 3, 2, 3)
CHAIN = ((2, 0), (0, 3), (3, 1))  # each column follows from the one before


def chain(seed: int = 0) -> np.ndarray:
    """The joint distribution of four columns, each of which depends on one other alone."""
    random = np.random.default_rng(seed)
    joint = np.zeros(SIZES)
    steps = {(a, b): random.dirichlet(np.full(SIZES[b], 0.6), SIZES[a]) for a, b in CHAIN}
    first = random.dirichlet(np.full(SIZES[2], 3.0))
    for cell in np.ndindex(*SIZES):
        joint[cell] = first[cell[2]] * np.prod([steps[a, b][cell[a], cell[b]] for a, b in CHAIN])
    return joint


def pair_of(joint: np.ndarray, a: int, b: int) -> np.ndarray:
    return joint.sum(axis=tuple({*range(len(SIZES))} - {a, b}))


def tree_of(joint: np.ndarray, groups: list[np.ndarray] | None = None) -> TreeModel:
    shares = [joint.sum(axis=tuple({*range(len(SIZES))} - {j})) for j in range(len(SIZES))]
    by = by_value(SIZES) if groups is None else groups
    departures = {
        (a, b): in_groups(pair_of(joint, a, b) - np.outer(shares[a], shares[b]), [by[a], by[b]])
        for a, b in combinations(range(len(SIZES)), 2)
    }
    return TreeModel.of(shares, by, departures)


@pytest.mark.parametrize("seed", range(3))
def test_a_chain_is_its_own_tree(seed: int) -> None:
    """Rows of the tree have the joint distribution of all columns; edges are counted to the row, others by chance."""
    joint = chain(seed)
    tree = tree_of(joint)
    assert {*tree.joints} == {(0, 2), (0, 3), (1, 3)}
    rows = 20_000
    codes = tree.draw(rows, np.random.default_rng(1))
    counts = count_rows(codes, range(len(SIZES)), by_value(SIZES))
    assert np.abs(counts / rows - joint).sum() / 2 < 0.02
    for a, b in tree.joints:
        expected = rows * pair_of(joint, a, b)
        assert np.abs(counts.sum(axis=tuple({0, 1, 2, 3} - {a, b})) - expected).max() < 6


def test_components_have_the_pairs_of_the_tree() -> None:
    """Also those of columns that are not neighbours, and with values in groups; each component is a product of distributions."""
    joint, groups = chain(), [*by_value(SIZES)]
    groups[1] = np.array([0, 1, 1])
    tree = tree_of(joint, groups)
    p = tree.components(4000, np.random.default_rng(0))
    blocks = np.split(p, np.cumsum(SIZES)[:-1], axis=1)
    for block, share in zip(blocks, tree.shares, strict=True):
        np.testing.assert_allclose(block.sum(axis=1), 1.0)
        np.testing.assert_allclose(block.mean(axis=0), share, atol=0.02)
    for a, b in combinations(range(len(SIZES)), 2):
        independent = np.outer(tree.shares[a], tree.shares[b])
        wanted = in_groups(pair_of(joint, a, b), [groups[a], groups[b]])
        found = in_groups(blocks[a].T @ blocks[b] / len(p), [groups[a], groups[b]])
        apart = np.abs(wanted - in_groups(independent, [groups[a], groups[b]])).sum()
        assert np.abs(found - wanted).sum() < 0.35 * apart + 0.02


def test_columns_without_pairs_are_independent() -> None:
    joint = chain()
    shares = tree_of(joint).shares
    tree = TreeModel.of(shares, by_value(SIZES), {})
    assert tree.joints == {}
    codes = tree.draw(9000, np.random.default_rng(0))
    for a, b in combinations(range(len(SIZES)), 2):
        found = count_rows(codes, (a, b), by_value(SIZES)) / len(codes)
        np.testing.assert_allclose(found, np.outer(shares[a], shares[b]), atol=0.02)


def test_a_spanning_tree_is_the_one_of_most_distance() -> None:
    """Among all trees of five columns, by trying all sets of four pairs; of two parts without a pair, one tree each."""
    pairs = list(combinations(range(5), 2))
    distances = np.random.default_rng(3).random(len(pairs))
    weight = dict(zip(pairs, distances, strict=True))

    def connected(edges: tuple[tuple[int, int], ...]) -> bool:
        reached = {0}
        for _ in edges:
            reached |= {j for edge in edges if reached & {*edge} for j in edge}
        return len(reached) == 5

    trees = [edges for edges in combinations(pairs, 4) if connected(edges)]
    best = max(trees, key=lambda edges: sum(weight[e] for e in edges))
    assert spanning_tree(pairs, distances.tolist()) == sorted(best)
    assert spanning_tree([(0, 1), (2, 4)], [0.0, 1.0]) == [(0, 1), (2, 4)]
    assert spanning_tree([], []) == []
