"""What is counted, and how coarsely."""

import math
from itertools import combinations
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar

from tabsynth import Schema
from tabsynth.privacy.noise.counts import by_value, shares_by_cells
from tabsynth.schema import Column
from tabsynth.synthesizers.margnet import measurement, selection
from tabsynth.synthesizers.margnet.config import MargNetConfig
from tabsynth.synthesizers.margnet.measurement import PrivateMarginals
from tabsynth.synthesizers.margnet.selection import (
    Resolution,
    Workload,
    chance_distance,
    clear_triples,
    groups_of,
    least_rows,
    pairs_within,
    share_of_columns,
    spanning_tree,
    triples_within,
    weighted_tree,
    worth_counting,
)
from tabsynth.table_errors import _counts_of_fit

CONFIG = MargNetConfig()

ROOM = 1_000_000  # cells, for all triples


def test_pairs_within_the_limits() -> None:
    """All pairs, but for those of too many cells."""

    def within(sizes: list[int], *limits: int) -> list[tuple[int, int]]:
        return pairs_within(by_value(sizes), *limits)

    assert within([3, 4, 2], 100, 100) == [(0, 1), (0, 2), (1, 2)]
    assert within([30, 40, 2], 100, 100) == [(0, 2), (1, 2)]
    # The widest are left alone, one by one, until the others fit.
    assert within([9, 3, 9, 4], 100, 16) == [(1, 2), (1, 3), (2, 3)]
    assert within([9, 3, 9, 4], 100, 7) == [(1, 3)]
    assert within([5], 100, 1) == []


@settings(max_examples=80, deadline=None)
@given(
    weights=st.lists(st.floats(0, 1), min_size=1, max_size=40),
    least=st.floats(0, 0.2),
    nulls=st.booleans(),
    coarsest=st.sampled_from([selection.MAX_GROUP, measurement.MAX_GROUP_IN_TRIPLES]),
)
def test_groups_of_ordered_values(
    weights: list[float], least: float, nulls: bool, coarsest: float
) -> None:
    """Neighbours, of enough rows each; null by itself; no gap."""
    shares = (np.array([*weights, 0.3] if nulls else weights) + 1e-6) / (sum(weights) + 1)
    values = tuple(range(len(weights)))
    column = Column(name="a", kind="ordinal", dtype="Int64", nulls=nulls, categories=values)
    groups = groups_of(column, shares, least, coarsest=coarsest)
    inner = groups[: len(weights)]
    assert inner[0] == 0 and set(np.diff(inner)) <= {0, 1}
    if nulls:
        assert groups[-1] == inner[-1] + 1
    holdout = np.bincount(inner, weights=shares[: len(weights)])
    assert len(holdout) == 1 or holdout.min() >= min(least, coarsest) - 1e-12
    if least == 0:
        assert len(holdout) == len(weights)


@settings(max_examples=80, deadline=None)
@given(
    weights=st.lists(st.floats(0.001, 1), min_size=1, max_size=30),
    least=st.floats(0, 0.3),
    most=st.floats(0, 1),
    coarsest=st.sampled_from([selection.MAX_GROUP, measurement.MAX_GROUP_IN_TRIPLES]),
)
def test_groups_of_unordered_values(
    weights: list[float], least: float, most: float, coarsest: float
) -> None:
    """Neighbours among the rarest values are merged: below the least and the coarsest, a small part in all."""
    shares = np.array(weights) / sum(weights)
    values = tuple(range(len(weights)))
    column = Column(name="a", kind="categorical", dtype="int64", categories=values)
    groups = groups_of(column, shares, least, most, coarsest)
    assert sorted(set(groups)) == list(range(groups.max() + 1))
    merged = np.bincount(groups)[groups] > 1
    assert shares[merged].sum() <= most + 1e-12
    assert (shares[merged] < min(least, coarsest)).all()
    # The rarest of all, but for one that is a group by itself between full ones.
    rare = np.argsort(shares, kind="stable")[
        : merged.sum() + (~merged & (shares < min(least, coarsest))).sum()
    ]
    assert set(np.flatnonzero(merged)) <= set(rare)
    assert (np.diff(groups[np.sort(np.flatnonzero(merged))]) >= 0).all()  # neighbours
    totals = np.bincount(groups[merged], shares[merged])[np.unique(groups[merged])]
    assert len(totals) < 2 or totals.min() >= min(least, coarsest) - 1e-12


def test_rare_values_are_merged_in_the_order_of_their_codes() -> None:
    """Common values by themselves, in several groups the rest: neighbours, and at the end a group that is large enough."""
    shares = np.array([0.01, 0.5, 0.01, 0.02, 0.02, 0.4, 0.02, 0.01, 0.005, 0.005])
    column = Column(name="a", kind="categorical", dtype="int64", categories=tuple(range(10)))
    groups = groups_of(column, shares, 0.03)
    assert groups.tolist() == [2, 0, 2, 2, 3, 1, 3, 3, 3, 3]
    # Where no more than 3.5% of the rows may be merged, only the four rarest are.
    assert groups_of(column, shares, 0.03, 0.035).tolist() == [6, 0, 6, 1, 2, 3, 4, 5, 6, 6]


def test_the_strongest_pairs_have_a_larger_share() -> None:
    """Shares of a tree's pairs follow from a weight of ``TREE_WEIGHT``; what they sum to does not change."""
    cells, pairs = np.array([6, 8, 12]), [(0, 1), (0, 2), (1, 2)]
    marginals: Any = SimpleNamespace(workload=Workload(), config=CONFIG)
    by = Resolution.by_value([2, 3, 4])
    _, shares, _ = PrivateMarginals.shares(marginals, [(pairs, 0.7)], by, tree=[(0, 2)])
    costs = (np.array([1.0, selection.TREE_WEIGHT, 1.0]) * cells) ** (2 / 3)
    np.testing.assert_allclose(shares, 0.7 * costs / costs.sum())
    assert selection.TREE_WEIGHT > 1


def test_pairs_of_the_tree_weigh_more_where_counts_are_noisy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The mean L1/2 noise of three pairs of 6, 8 and 12 cells, by its definition, on either side of the limit."""
    pairs, groups = [(0, 1), (0, 2), (1, 2)], Resolution.by_value([2, 3, 4]).pairs
    cells = np.array([6, 8, 12])
    stds = 10 / np.sqrt(cells ** (2 / 3) / (cells ** (2 / 3)).sum())
    noise = float((cells * stds * math.sqrt(2 / math.pi) / 2).mean() / 1000)
    for limit, tree in ((0.99 * noise, [(0, 1), (1, 2)]), (1.01 * noise, [])):
        monkeypatch.setattr(selection, "TREE_NOISE", limit)
        assert weighted_tree(pairs, [3.0, 1.0, 2.0], groups, 10.0, 1000.0) == tree
    assert weighted_tree([], [], groups, 10.0, 1000.0) == []


@settings(max_examples=60, deadline=None)
@given(st.integers(2, 6), st.integers(0, 10_000))
def test_spanning_tree(columns: int, seed: int) -> None:
    """Against all trees: the largest sum of distances, and all columns connected."""
    rng = np.random.default_rng(seed)
    every = list(combinations(range(columns), 2))
    distances = {
        pair: float(d) for pair, d in zip(every, rng.normal(0, 100, len(every)), strict=True)
    }
    tree = spanning_tree(every, [distances[pair] for pair in every])
    assert len(tree) == columns - 1 and set(tree) <= set(every)

    def connected(pairs: tuple[tuple[int, int], ...]) -> bool:
        seen = {0}
        for _ in pairs:
            seen |= {j for pair in pairs for j in pair if seen & set(pair)}
        return len(seen) == columns

    assert connected(tuple(tree))
    if columns <= 5:
        sums = [
            sum(distances[pair] for pair in pairs)
            for pairs in combinations(every, columns - 1)
            if connected(pairs)
        ]
        assert sum(distances[pair] for pair in tree) == pytest.approx(max(sums))


def test_a_spanning_tree_of_some_pairs() -> None:
    """Of pairs that leave columns apart, one tree of each part; of none, none."""
    assert spanning_tree([], []) == []
    assert spanning_tree([(0, 3), (1, 2), (1, 4), (2, 4)], [5.0, 1.0, -2.0, 3.0]) == [
        (0, 3),
        (1, 2),
        (2, 4),
    ]


def test_groups_at_much_noise() -> None:
    """However high the noise: in pairs groups need no more than 3% of the rows, in triples no more than 5%."""
    values = tuple(range(100))
    columns = [Column(name=n, kind="ordinal", dtype="int64", categories=values) for n in "abcd"]
    _, by = _counts_of_fit(Schema(columns), 1000, 0.1, 1e-5, [])
    for pairs, triples in zip(by.pairs, by.triples, strict=True):
        assert np.bincount(pairs).tolist() == [3] * 32 + [4]
        assert np.bincount(triples).tolist() == [5] * 20


def test_least_rows_follow_the_noise() -> None:
    assert least_rows(2.0, 10, 45) == pytest.approx(18 * 2 * math.sqrt(30))
    assert least_rows(2.0, 10, 5) == pytest.approx(18 * 2 * math.sqrt(5))
    assert least_rows(0.0, 10, 45) == 0


def test_distance_by_chance() -> None:
    """Against independent draws: counts around what is expected, many cells."""
    rng = np.random.default_rng(0)
    expected = rng.uniform(20, 60, (30, 20))
    results = [np.abs(rng.poisson(expected) - expected).sum() for _ in range(40)]
    assert chance_distance(expected) == pytest.approx(np.mean(results), rel=0.01)


@settings(max_examples=60, deadline=None)
@given(
    sizes=st.lists(st.integers(2, 6), min_size=2, max_size=5),
    noise=st.floats(0.5, 60),
    seed=st.integers(0, 99),
)
def test_the_pairs_that_are_worth_it(sizes: list[int], noise: float, seed: int) -> None:
    """The error that the choice expects is the least of all prefixes of the ranking, none included."""
    pairs = list(combinations(range(len(sizes)), 2))
    distances = np.random.default_rng(seed).exponential(100, len(pairs))
    groups = [np.arange(size) for size in sizes]
    cells = {p: sizes[p[0]] * sizes[p[1]] for p in pairs}
    expected = dict(zip(pairs, distances, strict=True))

    def error(chosen: list[tuple[int, int]]) -> float:
        total = sum(cells[p] ** (2 / 3) for p in chosen) ** 1.5
        left = sum(expected[p] for p in pairs if p not in chosen)
        return CONFIG.residual_noise * math.sqrt(2 / math.pi) * noise * total + left

    chosen = worth_counting(pairs, distances, groups, noise)
    ranked = sorted(pairs, key=lambda p: -expected[p] / cells[p] ** (2 / 3))
    best = min(error(ranked[:k]) for k in range(len(pairs) + 1))
    assert error(chosen) == pytest.approx(best)


def test_a_pair_that_is_named_takes_no_other_away() -> None:
    """What is counted in any case costs its noise, whatever else is counted."""
    groups, pairs = [np.arange(4)] * 8, [(0, 1), *combinations(range(2, 8), 2)]
    distances = np.array([0.0, *np.full(len(pairs) - 1, 1000.0)])
    noise = 3.0
    alone = worth_counting(pairs, distances, groups, noise)
    assert alone == pairs[1:]
    assert worth_counting(pairs, distances, groups, noise, Workload(sets=((0, 1),))) == pairs


def test_nothing_is_worth_much_noise() -> None:
    groups = [np.arange(4)] * 3
    pairs = [(0, 1), (0, 2), (1, 2)]
    assert worth_counting(pairs, np.array([5.0, -3.0, 1.0]), groups, 1e6) == []
    assert worth_counting(pairs, np.array([5.0, -3.0, 1.0]), groups, 0.0) == [(0, 1), (1, 2)]


def test_triples() -> None:
    """All three pairs are counted; all or none, by the noise; the ones of most worth."""
    pairs = list(combinations(range(4), 2))
    assert triples_within(pairs, by_value([2] * 4), 100) == list(combinations(range(4), 3))
    assert triples_within(pairs[1:], by_value([2] * 4), 100) == [(0, 2, 3), (1, 2, 3)]
    assert triples_within(pairs, by_value([2, 2, 2, 20]), 8) == [(0, 1, 2)]
    groups = [np.arange(4)] * 12
    triples = list(combinations(range(12), 3))
    worth = np.arange(len(triples), dtype=float)
    assert (
        clear_triples(triples, worth, groups, 1e-9, 66, ROOM) == triples[-selection.MAX_TRIPLES :]
    )
    # Where all are worth the same, all columns alike.
    uses = np.bincount(np.ravel(clear_triples(triples, 0 * worth, groups, 1e-9, 66, ROOM)))
    assert uses.sum() == 3 * selection.MAX_TRIPLES and uses.max() - uses.min() <= 3
    limit = (
        selection.TRIPLES_NOISE
        * selection.MAX_TRIPLES
        * math.sqrt(CONFIG.triples_share * math.pi / 2)
    )
    limit /= (selection.MAX_TRIPLES * 64 ** (2 / 3)) ** 1.5
    assert (
        len(clear_triples(triples, worth, groups, 0.999 * limit, 66, ROOM)) == selection.MAX_TRIPLES
    )
    assert clear_triples(triples, worth, groups, 1.001 * limit, 66, ROOM) == []
    # Half of the share.
    assert clear_triples(triples, worth, groups, 0.999 * limit, 240, ROOM) == []
    assert clear_triples([], np.zeros(0), groups, 0.0, 66, ROOM) == []


@settings(max_examples=60, deadline=None)
@given(data=st.data(), columns=st.integers(3, 9), room=st.integers(0, 2000))
def test_which_triples_are_first(data: st.DataObject, columns: int, room: int) -> None:
    """One by one: of those that have room the one of most worth, then of columns taken least, then the first."""
    sizes = data.draw(st.lists(st.integers(1, 9), min_size=columns, max_size=columns))
    left = list(combinations(range(columns), 3))
    many = {"min_size": len(left), "max_size": len(left)}
    worth = np.array(data.draw(st.lists(st.sampled_from([0.0, 0.5, 1.0]), **many)))
    result = clear_triples(left, worth, by_value(sizes), 0.0, 66, room)
    value, taken = dict(zip(left, worth, strict=True)), list[tuple[int, int, int]]()
    uses = np.zeros(columns)
    while left:
        best = min(left, key=lambda t: (-value[t], uses[list(t)].sum(), t))
        left.remove(best)
        cells = math.prod(sizes[j] for j in best)
        if cells <= room and len(taken) < selection.MAX_TRIPLES:
            room -= cells
            uses[list(best)] += 1
            taken.append(best)
    assert result == sorted(taken)


@settings(max_examples=40, deadline=None)
@given(
    sizes=st.lists(st.integers(2, 30), min_size=2, max_size=12),
    cells=st.lists(st.integers(4, 900), min_size=1, max_size=66),
    noise=st.floats(0.1, 50),
    rows=st.floats(100, 20_000),
)
def test_columns_are_counted_again_as_far_as_needed(
    sizes: list[int], cells: list[int], noise: float, rows: float
) -> None:
    """The mean L1/2 noise of a column is what is tolerated, or all pairs of columns would lose by more."""
    cells = cells[: math.comb(len(sizes), 2)]

    def error(of: list[int], part: float) -> float:
        stds = noise / np.sqrt(np.array(shares_by_cells(of)) * part)
        return float((math.sqrt(2 / math.pi) * np.array(of) * stds / 2 / rows).mean())

    def of_all(part: float) -> float:
        everything = math.comb(len(sizes), 2)
        return everything * error(sizes, part) + len(cells) * error(cells, 1 - part)

    share = share_of_columns(noise, sizes, cells, rows)
    if not share:
        assert error(sizes, selection.DEFAULTS.one_way_share) <= selection.ONE_WAY_NOISE * (
            1 + 1e-9
        )
        return
    best = minimize_scalar(of_all, bounds=(1e-4, 1 - 1e-4), method="bounded").x
    assert error(sizes, share) >= selection.ONE_WAY_NOISE * (1 - 1e-9)
    assert share <= best + 1e-3
    if share < best - 1e-3:
        assert error(sizes, share) == pytest.approx(selection.ONE_WAY_NOISE)


def test_columns_are_not_counted_again_without_noise() -> None:
    assert share_of_columns(0.0, [4, 5], [20], 100.0) == 0


def test_a_set_of_columns_has_its_groups() -> None:
    values, pairs, triples = ([np.full(3, i)] * 3 for i in range(3))
    by = Resolution(values, pairs, triples)
    assert by.of((0,)) is values and by.of((0, 2)) is pairs and by.of((0, 1, 2)) is triples
    left = by.narrow({1})
    assert left.pairs[0].tolist() == [0, 0, 0] and left.pairs[1] is pairs[1]
    assert left.triples[0].tolist() == [0, 0, 0] and left.triples[1] is triples[1]
    assert left.of((0,)) is values


def test_what_is_named_is_counted() -> None:
    groups = by_value([4] * 5)
    pairs = list(combinations(range(5), 2))
    workload = Workload(sets=((1, 4), (0, 2, 3)))
    named = [(0, 2), (0, 3), (1, 4), (2, 3)]
    assert [p for p in pairs if workload.names(p)] == named
    assert worth_counting(pairs, np.full(10, -1.0), groups, 1e6, workload) == named
    triples = triples_within(pairs, groups, 100)
    assert clear_triples(triples, np.zeros(10), groups, 1e6, 10, ROOM, workload) == [(0, 2, 3)]
    everything = clear_triples(triples, np.zeros(10), groups, 1e-9, 10, ROOM, workload)
    assert (0, 2, 3) in everything and len(everything) == 10
    # One-way counts are never important by themselves, pairs of a target are.
    sets = [(2,), (0, 1), (1, 2), (0, 1, 2)]
    singles = [(0,), (1,), (0, 1)]
    assert Workload(columns=(1,)).importance(singles).tolist() == [1, selection.WORKLOAD_WEIGHT, 1]
    assert Workload(target=2).importance(sets).tolist() == [
        1,
        1,
        selection.WORKLOAD_WEIGHT,
        selection.WORKLOAD_WEIGHT,
    ]
    assert workload.importance([(0,), (0, 3), (0, 1)]).tolist() == [1, selection.WORKLOAD_WEIGHT, 1]


def test_a_target_makes_its_pairs_worth_more() -> None:
    """Of two pairs of one distance, at a noise at which one is worth it, that of the target is taken."""
    groups = by_value([4] * 4)
    pairs, distances = [(0, 1), (2, 3)], np.array([100.0, 100.0])
    noise = 100 / (CONFIG.residual_noise * math.sqrt(2 / math.pi) * 16)
    assert worth_counting(pairs, distances, groups, 2 * noise) == []
    assert worth_counting(pairs, distances, groups, 0.9 * noise, Workload(target=3)) == [(2, 3)]
