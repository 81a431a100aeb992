"""Attacks against brute force; they find a planted copy, and nothing where nothing is."""

import math

import numpy as np
import pytest
from evaluated import tables
from scipy import sparse
from sklearn.metrics import roc_auc_score

from tabsynth.evaluation.attacks.anonymeter import (
    alike,
    anonymeter,
    find_links,
    meeting,
    risk,
    singling_predicates,
)
from tabsynth.evaluation.attacks.gower import STEPS, GowerSearch
from tabsynth.evaluation.attacks.membership import (
    KERNEL,
    area,
    bandwidth,
    membership,
    precision,
    surroundings,
)

SIZES = (5,) * 6


def random_table(rng, rows, sizes=SIZES):
    return np.stack([rng.integers(0, s, rows) for s in sizes], axis=1)


def three(seed, copy):
    rng = np.random.default_rng(seed)
    train, fresh, holdout = (random_table(rng, n) for n in (300, 300, 600))
    created = tables(train, train if copy else fresh, holdout, sizes=SIZES)
    return created, train[:150], created.control[:150]


def run_all(seed, copy):
    created, people, controls = three(seed, copy)
    rng = np.random.default_rng(seed)
    results = [
        *membership(created, people, controls, rng),
        *anonymeter(created, people, controls, rng),
    ]
    return {metric.key: metric for metric in results}


def test_a_copy_is_found_by_all_and_its_references_are_not():
    result = run_all(0, copy=True)
    for key in ("presence", "density_ratio", "singling_out", "linkability"):
        metric = result[key]
        assert metric.kind == "privacy" and metric.low > metric.best + 0.1, key
        for reference in (metric.holdout, metric.baseline):
            assert reference.low < metric.low and abs(reference.value - metric.best) < 0.15, key


@pytest.mark.slow
def test_an_honest_table_is_within_its_intervals():
    """Of 5 tables that leak nothing, few intervals exclude nothing."""
    out = {}
    for seed in range(5):
        for key, metric in run_all(seed, copy=False).items():
            if metric.kind == "privacy":
                out.setdefault(key, []).append(metric.low <= metric.best <= metric.high)
    assert all(np.mean(hits) >= 0.75 for hits in out.values()), out
    # Five attacks on the same tables go together: 0.95 of 25 has a wide spread.
    assert np.mean([hit for hits in out.values() for hit in hits]) >= 0.85


def test_area_is_the_mann_whitney_statistic():
    rng = np.random.default_rng(0)
    a, b = rng.integers(0, 5, 40).astype(float), rng.integers(0, 4, 30).astype(float)
    truth = np.repeat([1, 0], [40, 30])
    result = area(a, b)
    assert result.value == pytest.approx(roc_auc_score(truth, np.concatenate([a, b])))
    assert area(np.ones(5), np.zeros(5)).value == 1.0 and area(np.ones(5), np.zeros(5)).low < 1
    assert area(np.ones(5), np.ones(5)).value == 0.5


def test_the_interval_of_an_area_covers():
    covered = []
    for seed in range(300):
        rng = np.random.default_rng(seed)
        result = area(rng.normal(1, 1, 60), rng.normal(0, 1, 80))
        covered.append(result.low <= 0.7602 <= result.high)  # Phi(1 / sqrt 2)
    assert 0.91 <= np.mean(covered) <= 0.985


def unordered(table, sizes):
    return GowerSearch(table, sizes, (None,) * len(sizes))


def test_distances_and_densities_by_hand():
    table, records = np.array([[0, 0], [0, 1], [1, 1]]), np.array([[0, 0], [1, 0]])
    searched, rng = unordered(table, (2, 2)), np.random.default_rng(0)
    result = surroundings(records, searched, rng)
    assert result.columns.tolist() == [0, 1] and result.steps.tolist() == [0, STEPS]
    assert np.isnan(result.density).all()
    result = surroundings(records, searched, rng, 3.0 * STEPS)  # 0.1 for every column that differs
    np.testing.assert_allclose(np.exp(result.density), [(1 + 0.1 + 0.01) / 3, (0.2 + 0.01) / 3])
    assert bandwidth(np.array([0.0, 0.0, 9.0])) == STEPS and bandwidth(np.array([5.0, 7.0])) == 6


def test_the_density_of_an_outlier_is_finite():
    searched = unordered(np.zeros((4, 300), int), (2,) * 300)
    result = surroundings(np.ones((1, 300), int), searched, np.random.default_rng(0), 1.0)
    assert result.density == pytest.approx(300 * STEPS * math.log(KERNEL))


def test_precision_is_the_share_of_true_claims():
    assert precision(np.array([1.0, 1.0, 1.0, 0.0]), np.array([1.0, 0.0, 0.0, 0.0])) == 0.75
    assert math.isnan(precision(np.zeros(3), np.zeros(3)))


def test_presence_has_medgans_precision_and_sensitivity():
    created, people, controls = three(0, copy=True)
    result = membership(created, people, controls, np.random.default_rng(0))[0]
    parts = {part.name: part.value for part in result.parts}
    for radius in range(4):
        near = [
            ((g[:, None] != created.synthetic[None]).sum(axis=2) <= radius).any(axis=1)
            for g in (people, controls)
        ]
        true, false = near[0].sum(), near[1].sum()  # as many people as controls
        assert parts[f"precision within {radius}"] == pytest.approx(true / (true + false))
        assert parts[f"sensitivity within {radius}"] == pytest.approx(true / len(people))
    assert parts["sensitivity within 0"] == 1 and parts["precision within 0"] > 0.9


def test_risk_is_the_papers_formula():
    attack, control = np.repeat([1.0, 0.0], [60, 40]), np.repeat([1.0, 0.0], [20, 80])
    result = risk(attack, control)
    assert result.value == pytest.approx((0.6 - 0.2) / (1 - 0.2))
    errors = [math.sqrt((p * (1 - p) * 100 + 0.5) / 100**2) for p in (0.6, 0.2)]
    half = math.hypot(errors[0] / 0.8, errors[1] * 0.4 / 0.64)
    assert result.high - result.value == pytest.approx(1.959963984540054 * half)
    assert risk(attack, attack).value == 0 and risk(np.ones(5), np.ones(5)).value == 0


def test_linkability_by_brute_force():
    rng = np.random.default_rng(1)
    table, records = random_table(rng, 40), random_table(rng, 50)
    sides, searched = np.arange(6) % 2 == 0, unordered(table, SIZES)
    for k in (1, 6, 40):
        ours = np.mean([find_links(records, searched, sides, rng, k).mean() for _ in range(20)])
        theirs = []
        for record in np.tile(records, (20, 1)):
            near = []
            for side in (sides, ~sides):
                distance = (table[:, side] != record[side]).sum(axis=1)
                near.append(set(np.lexsort([rng.random(40), distance])[:k].tolist()))
            theirs.append(bool(near[0] & near[1]))
        assert ours == pytest.approx(np.mean(theirs), abs=0.06)


def test_predicates_single_out_one_row():
    rng = np.random.default_rng(3)
    sizes, ordered = (3, 40, 3), [False, True, False]
    table = random_table(rng, 200, sizes)
    result = singling_predicates(table, sizes, ordered, 50, rng)
    assert len(result) >= 20
    for predicate in result:
        hits = np.ones(200, dtype=bool)
        for j, sign, value in predicate:
            assert sign in ((">=", "<=") if j == 1 else ("==",))
            column = table[:, j]
            hits &= {"==": column == value, ">=": column >= value, "<=": column <= value}[sign]
        assert hits.sum() == 1
        assert (meeting([predicate], table).toarray() == hits).all()
    assert singling_predicates(np.zeros((9, 3), int), sizes, ordered, 5, rng) == []


@pytest.mark.slow
def test_the_interval_of_singling_out_covers():
    """Predicates of related columns overlap: as if they were independent, 0 was covered 88 times of 100."""
    columns = np.random.default_rng(9).normal(size=(3, 8))
    sizes, ordered = (10,) * 8, [True] * 8
    covered, alone = [], []
    for seed in range(25):
        rng = np.random.default_rng(seed)
        noise = rng.normal(size=(3, 300, 8))
        drawn = rng.normal(size=(3, 300, 3)) @ columns + 0.7 * noise
        people, others, table = np.clip(drawn + 5, 0, 9).astype(int)
        predicates = singling_predicates(table, sizes, ordered, 300, rng)
        met = [meeting(predicates, group) for group in (people, others, table)]
        one, other = ((hits.sum(axis=1) == 1).astype(float) for hits in met[:2])
        near = alike(sparse.hstack(met))
        brute = np.hstack([hits.toarray() for hits in met])
        lengths = np.sqrt(brute.sum(1))
        np.testing.assert_allclose(near.toarray(), brute @ brute.T / lengths / lengths[:, None])
        result, plain = risk(one, other, near), risk(one, other)
        covered.append(result.low <= 0 <= result.high)
        alone.append(plain.low <= 0 <= plain.high)
        assert result.value == plain.value
    assert np.mean(covered) >= 0.9 and np.mean(covered) >= np.mean(alone)


def copies(table):
    return table
