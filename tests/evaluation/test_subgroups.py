"""The gap between groups: found where there is one, not seen where there is none."""

import math
from collections import Counter
from itertools import combinations

import numpy as np
import pytest
from evaluated import related, tables

from tabsynth.evaluation import Columns, EvaluationConfig, measure
from tabsynth.evaluation.utility.marginals import distance
from tabsynth.evaluation.utility.subgroups import BLOCKS, _resample, subgroup_gap
from tabsynth.report.summary import summarise


def summary(train, synthetic):
    columns = Columns(names=tuple("abcd"), sizes=(3, 4, 2, 30), by=(0,))
    config = EvaluationConfig(m=2, k=(1,))
    return " ".join(summarise(measure(train, synthetic, None, columns, config=config)))


def test_a_minority_that_fares_worse_is_found():
    rng = np.random.default_rng(4)
    train, synthetic = related(rng, 3_000), related(rng, 3_000)
    fair = subgroup_gap(tables(train, synthetic), 0, np.random.default_rng(0))
    wrong = synthetic.copy()
    group = np.flatnonzero(wrong[:, 0] == 2)
    wrong[group, 1] = rng.permutation(wrong[group, 1] * 0 + 3)
    unfair = subgroup_gap(tables(train, wrong), 0, np.random.default_rng(0))
    assert fair.value < 0.02 < 0.2 < unfair.low <= unfair.value
    assert unfair.parts[0].name == "2" and unfair.parts[0].value > 0.3
    compared = unfair.details
    assert compared.worst.name == "2" and compared.worst.distance == unfair.parts[0].value
    assert compared.worst.rows == int((train[:, 0] == 2).sum()) and compared.gap == unfair.synthetic
    assert compared.worst.distance - compared.best.distance == pytest.approx(unfair.value)
    assert compared.unequal and compared.too_small == () and compared.groups == 3
    assert fair.details.unequal is (fair.low > 0)
    gone = subgroup_gap(tables(train, synthetic[synthetic[:, 0] != 1]), 0, rng)
    assert gone.parts[0].name == "1" and gone.parts[0].value == 1.0
    assert gone.high == 1.0 and unfair.baseline.low <= unfair.baseline.value <= unfair.baseline.high


def test_no_group_is_seen_to_fare_worse_in_fresh_samples():
    """All groups alike: 95% of the intervals must reach down to 0."""
    reached = []
    for seed in range(25):
        rng = np.random.default_rng(seed)
        gap = subgroup_gap(tables(related(rng, 400), related(rng, 400), related(rng, 300)), 1, rng)
        for estimate in (gap.synthetic, gap.holdout, gap.baseline):
            assert 0 <= estimate.low <= estimate.value <= estimate.high <= 1
        reached += [gap.low == 0, gap.holdout.low == 0]
    assert np.mean(reached) >= 0.9


@pytest.mark.parametrize("rows", [300, 3 * BLOCKS])
def test_resampled_distances_spread_as_those_of_new_samples_do(rows):
    sets, judged = [(0, 2), (0, 3), (2, 3)], np.arange(3)
    values, spreads = [], []
    for seed in range(60):
        rng = np.random.default_rng(seed)
        created = tables(related(rng, rows), related(rng, rows))
        both = [[t[t[:, 1] == v] for t in (created.train, created.synthetic)] for v in judged]
        values.append(
            [distance(a, b, sets, created.names, created.sizes).mean.value for a, b in both]
        )
        if seed < 10:
            second = _resample(created, created.with_weights.synthetic, 1, judged, sets, rng)
            assert second.shape == (3, 100)
            spreads.append(second.std(axis=1))
    ratio = np.mean(spreads, axis=0) / np.std(values, axis=0)
    # Near 0 a distance that is resampled spreads somewhat more than one of new samples does.
    assert (ratio > 0.75).all() and (ratio < 2).all()


def test_small_groups_are_named():
    rng = np.random.default_rng(0)
    train, synthetic = related(rng, 300), related(rng, 300)
    train = np.concatenate([train[train[:, 0] != 1], train[train[:, 0] == 1][:7]])
    gap = subgroup_gap(tables(train, synthetic), 0, rng)
    assert gap.reading.endswith("Groups with too few training rows: 1.")
    assert [p.name for p in gap.parts[:2]] != ["1"] and gap.parts[2].name == "1"
    assert gap.parts[2].n == 7 and math.isnan(gap.parts[2].value) and gap.value >= 0
    assert (gap.details.groups, gap.details.too_small) == (3, ("1",))
    none = subgroup_gap(tables(train[:5], synthetic), 0, rng)
    assert math.isnan(none.value) and math.isnan(none.baseline.value) and none.parts
    assert none.details.worst is None and none.details.best is None and not none.details.unequal
    said = summary(train, synthetic)
    assert "Too small to judge: 1." in said and "fares worst" not in said
    said = summary(train, synthetic[synthetic[:, 0] != 0])
    assert "Of the groups of a, 0 (" in said and "fares worst, with a distance of 1.000" in said


def test_one_group_is_not_too_small():
    rng = np.random.default_rng(0)
    train = related(rng, 300)
    train[:, 0] = 1
    said = summary(train, train)
    assert "All training rows are of one group of a" in said and "Too small" not in said


def test_the_gap_is_that_of_counts():
    """Mean distance of pairs within each group, less that of two random halves of the same rows."""
    rng = np.random.default_rng(5)
    train, synthetic = related(rng, 900), related(rng, 900)
    moved = synthetic[:, 0] == 2
    synthetic[moved, 2] = rng.integers(0, 2, moved.sum())

    def mean_distance(one, other):
        results = []
        for i, j in combinations((1, 2, 3), 2):
            shares = [Counter(zip(t[:, i], t[:, j], strict=True)) for t in (one, other)]
            cells = set(shares[0]) | set(shares[1])
            gaps = (abs(shares[0][c] / len(one) - shares[1][c] / len(other)) for c in cells)
            results.append(sum(gaps) / 2)
        return np.mean(results)

    beyond = []
    for group in range(3):
        one, other = (t[t[:, 0] == group] for t in (train, synthetic))
        pool, chance = np.concatenate([one, other]), []
        for _ in range(60):
            drawn = pool[rng.permutation(len(pool))]
            chance.append(mean_distance(drawn[: len(one)], drawn[len(one) :]))
        beyond.append(max(0.0, mean_distance(one, other) - np.mean(chance)))
    gap = subgroup_gap(tables(train, synthetic), 0, rng)
    assert gap.value == pytest.approx(max(beyond) - min(beyond), abs=0.02) and gap.value > 0.06
    assert gap.parts[0].name == "2"
