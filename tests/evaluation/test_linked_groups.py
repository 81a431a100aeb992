"""Metrics of groups against counts by hand, and wide rows against the tables they were made of."""

import itertools
import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from linked_levels import THREE, TWO, drawn, level

from tabsynth.evaluation.grouped import (
    independent_children,
    of_roots,
    wide_rows,
    wide_slots,
    with_ancestors,
)
from tabsynth.evaluation.metric import Compared
from tabsynth.evaluation.utility.groups import (
    OTHERS,
    group_metrics,
    sibling_pairs,
)
from tabsynth.evaluation.utility.marginals import distance as tvd
from tabsynth.evaluation.weighting import WeightedRows

SEEDS = st.integers(0, 2**32 - 1)


def members(levels, table="people"):
    """The rows of each root that has some, as lists of tuples, in order."""
    out = {}
    for codes, parent in zip(levels[table].codes.tolist(), levels[table].parent, strict=True):
        out.setdefault(int(parent), []).append(tuple(codes))
    return out


def distance(one, other):
    """Half the sum of absolute differences of two weighted counts, each over its total."""
    totals = [sum(counts.values()) for counts in (one, other)]
    if not all(totals):
        return float(totals[0] != totals[1])
    cells = set(one) | set(other)
    return sum(abs(one[c] / totals[0] - other[c] / totals[1]) for c in cells) / 2


def by_hand(levels, key):
    """For each metric its counters, one for each set of columns, from lists of members."""
    groups = members(levels)
    homes = levels["homes"].codes.tolist()
    if key == "group_size":
        return [Counter(len(groups.get(i, [])) for i in range(len(homes)))]
    if key == "between_levels":
        return [
            Counter((homes[i][a], person[b]) for i, group in groups.items() for person in group)
            for a in range(2)
            for b in range(2)
        ]
    if key == "sibling_pairs":
        out = []
        for a, b in ((0, 0), (0, 1), (1, 1)):
            counts = Counter()
            for group in groups.values():
                for i, j in itertools.permutations(range(len(group)), 2):
                    counts[group[i][a], group[j][b]] += 1 / (len(group) - 1)
            out.append(counts)
        return out
    if key == "position":
        return [
            Counter((i, person[a]) for group in groups.values() for i, person in enumerate(group))
            for a in range(2)
        ]
    length = {"transitions": 2, "trigrams": 3}[key]
    return [
        Counter(
            tuple(person[a] for person in group[i : i + length])
            for group in groups.values()
            for i in range(len(group) - length + 1)
        )
        for a in range(2)
    ]


@settings(max_examples=25, deadline=None)
@given(SEEDS, SEEDS)
def test_metrics_are_distances_of_counts(one, other):
    rngs = [np.random.default_rng(seed) for seed in (one, other)]
    train, made = drawn(rngs[0], 12), drawn(rngs[1], 9)
    compared = Compared(made, None, independent_children(train, TWO, rngs[0]))
    metrics = {
        m.key.removeprefix("people."): m
        for m in group_metrics(train, compared, TWO, "people", rngs[1])
    }
    for key, metric in metrics.items():
        assert metric.best == 0 and metric.better == "lower" and 0 <= metric.value <= 1
        if key == "sibling_differences":
            continue
        counts = [by_hand(levels, key) for levels in (train, made, compared.baseline)]
        for estimate, which in ((metric.synthetic, 1), (metric.baseline, 2)):
            expected = np.mean(
                [distance(a, b) for a, b in zip(counts[0], counts[which], strict=True)]
            )
            assert estimate.value == pytest.approx(expected, abs=1e-12), key


@settings(max_examples=25, deadline=None)
@given(SEEDS, SEEDS)
def test_differences_are_those_of_all_pairs(one, other):
    tables = [drawn(np.random.default_rng(seed), 15) for seed in (one, other)]
    rng = np.random.default_rng(0)
    metrics = group_metrics(tables[0], Compared(tables[1], None, tables[0]), TWO, "people", rng)
    found = [m for m in metrics if m.key == "people.sibling_differences"]
    score = TWO["people"].scores[0]
    curves = []
    for levels in tables:
        apart, weights = [], []
        for group in members(levels).values():
            for one_, other_ in itertools.permutations(group, 2):
                gap = abs(score[one_[0]] - score[other_[0]])
                if math.isfinite(gap):
                    apart.append(gap)
                    weights.append(1 / (len(group) - 1))
        curves.append((np.array(apart), np.array(weights)))
    if not found or not all(len(apart) for apart, _ in curves):
        return
    shares = [
        [weights[apart <= x].sum() / weights.sum() for x in range(6)] for apart, weights in curves
    ]
    assert found[0].value == pytest.approx(np.abs(np.subtract(*shares)).max())
    assert found[0].baseline.value == pytest.approx(0, abs=1e-12)


def test_pairs_of_a_large_group_are_capped_and_spread():
    size = 4 * OTHERS
    rows, siblings, weights = sibling_pairs(level(np.arange(size + 3), [0] * size + [1] * 2 + [2]))
    assert np.bincount(rows, weights).tolist() == pytest.approx([1.0] * (size + 2))
    assert (rows != siblings).all()
    large = rows < size
    assert (np.bincount(rows[large]) == OTHERS).all() and (siblings[large] < size).all()
    first = siblings[rows == 0]
    assert len(set(first)) == OTHERS and first.max() - first.min() > 0.9 * size
    assert set(zip(rows[~large], siblings[~large], strict=True)) == {
        (size, size + 1),
        (size + 1, size),
    }


def test_intervals_know_that_items_of_a_root_go_together():
    """Each root has 8 equal items: the interval is that of as many roots, not of eight times as many."""
    rng = np.random.default_rng(0)
    estimates = []
    for _ in range(200):
        roots = [(rng.random(200) < share).astype(int) for share in (0.5, 0.7)]
        items = [
            WeightedRows(np.repeat(r, 8)[:, None], np.ones(1600), np.repeat(np.arange(200), 8))
            for r in roots
        ]
        estimates.append(tvd(*items, [(0,)], ["a"], [2]).mean)
    covered = np.mean([e.low <= 0.2 <= e.high for e in estimates])
    assert 0.9 < covered < 0.99
    spread = np.std([e.value for e in estimates])
    assert np.mean([(e.high - e.low) / 2 for e in estimates]) == pytest.approx(
        1.96 * spread, rel=0.2
    )


def test_equal_tables_and_tables_with_nothing_in_common():
    train = drawn(np.random.default_rng(1), 40)
    none = {**train, "people": level(np.zeros((0, 2)), [])}
    rng = np.random.default_rng(0)
    compared = Compared(train, train, none)
    for metric in group_metrics(train, compared, TWO, "people", rng):
        values = [metric.value, metric.holdout.value]
        assert values == pytest.approx([0, 0], abs=1e-12), metric.key
        assert metric.baseline.value > 0.5, metric.key
    keys = {m.key for m in group_metrics(none, Compared(train, None, none), TWO, "people", rng)}
    assert keys == {"people.group_size", "people.between_levels"}


def test_independent_children_keep_tables_and_sizes_only():
    train = drawn(np.random.default_rng(2), 400)
    dealt = independent_children(train, TWO, np.random.default_rng(3))
    rng = np.random.default_rng(0)
    metrics = {
        m.key: m for m in group_metrics(train, Compared(dealt, None, dealt), TWO, "people", rng)
    }
    assert metrics["people.group_size"].value == 0
    assert not metrics["people.group_size"].of_relations
    assert sorted(dealt["people"].codes.tolist()) == sorted(train["people"].codes.tolist())
    for key in ("between_levels", "sibling_pairs", "transitions"):
        assert metrics[f"people.{key}"].value > 0.05, key


def wide_by_hand(levels, table, row, slots):
    """The codes of a row and of its children's slots; None where there is no row."""
    about = THREE[table]
    out = [
        about.sizes[j] if row is None else levels[table].codes[row, j]
        for j in range(len(about.sizes))
    ]
    for child in (name for name, inner in THREE.items() if inner.parent == table):
        rows = [] if row is None else np.flatnonzero(levels[child].parent == row).tolist()
        if not THREE[child].ordered:
            rows.sort(key=lambda i: tuple(levels[child].codes[i]))
        out.append(min(len(rows), slots[child] + 1))
        for slot in range(slots[child]):
            out += wide_by_hand(levels, child, rows[slot] if slot < len(rows) else None, slots)
    return out


@pytest.mark.parametrize("slots", [{"people": 4, "visits": 3}, {"people": 2, "visits": 1}])
def test_a_wide_row_holds_the_codes_of_its_root_and_of_each_slot(slots):
    levels = drawn(np.random.default_rng(0), 10, THREE)
    wide = wide_rows(levels, THREE, slots)
    assert (wide.codes < wide.sizes).all()
    assert wide.codes.tolist() == [wide_by_hand(levels, "homes", i, slots) for i in range(10)]


def test_slots_follow_the_bound_the_tables_and_the_width():
    levels = drawn(np.random.default_rng(0), 30, THREE, most=4)
    assert wide_slots(levels, THREE) == {"people": 4, "visits": 2}
    narrow = wide_slots(levels, THREE, limit=12)
    wide = wide_rows(levels, THREE, narrow)
    assert len(wide.sizes) <= 12 and min(narrow.values()) >= 1


def test_roots_are_taken_with_all_that_hangs_on_them():
    levels = drawn(np.random.default_rng(4), 20, THREE)
    chosen = np.array([7, 3, 19])
    part = of_roots(levels, THREE, chosen)
    groups, kept = members(levels), members(part)
    assert kept == {i: groups[root] for i, root in enumerate(chosen) if root in groups}
    assert part["visits"].root.max() <= 2
    codes, origin = with_ancestors(part, THREE, "visits")
    assert [name for name, _ in origin] == ["homes", "homes", "people", "people", "visits"]
    for row, parent in zip(codes, part["visits"].parent, strict=True):
        assert row[2:4].tolist() == part["people"].codes[parent].tolist()
        home = part["people"].parent[parent]
        assert row[:2].tolist() == part["homes"].codes[home].tolist()
