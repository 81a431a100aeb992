"""Distances that know order: against Gower's by numpy, and what attacks find with them."""

import numpy as np
import pytest
from evaluated import tables
from hypothesis import given, settings
from hypothesis import strategies as st

from tabsynth.evaluation.attacks.anonymeter import anonymeter, find_links
from tabsynth.evaluation.attacks.gower import STEPS, GowerSearch, places, right
from tabsynth.evaluation.attacks.membership import membership, surroundings
from tabsynth.evaluation.metric import Tables

CELLS = 100


def plain(table, scores, **others):
    sizes = tuple(int(table[:, j].max()) + 1 if s is None else len(s) for j, s in enumerate(scores))
    parts = {"synthetic": table, "holdout": None, "reference": None, "control": None} | others
    about = {"names": ("x",) * len(sizes), "labels": ((),) * len(sizes)}
    return Tables(train=table, baseline=table, sizes=sizes, scores=tuple(scores), **parts, **about)


def share(scores, table, a, b):
    """One column's part of the distance, by its definition."""
    if scores is None:
        return (a != b).astype(float)
    values = scores[a], scores[b]
    used = scores[np.unique(table)]
    width = np.nanmax(used) - np.nanmin(used) if np.isfinite(used).any() else 0.0
    with np.errstate(invalid="ignore", divide="ignore"):
        out = np.sqrt(np.abs(values[0] - values[1]) / width)
    return np.where(a == b, 0.0, np.where(np.isnan(out), 1.0, out))


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32 - 1), st.lists(st.sampled_from("cnNt"), min_size=1, max_size=6))
def test_distances_are_gowers(seed, kinds):
    rng = np.random.default_rng(seed)
    scores = []
    for kind in kinds:  # categorical, numeric, numeric with null, of a long tail
        numbers = np.sort(rng.normal(size=9)) if kind in "nN" else 10.0 ** np.arange(9)
        scores.append(None if kind == "c" else np.append(numbers, np.nan if kind == "N" else 1e9))
    table = np.stack([rng.integers(0, 10, 30) for _ in kinds], axis=1)
    created = plain(table, scores)
    searched = GowerSearch(table, created.sizes, places(created))
    for record in table[:5]:
        parts = [
            share(s, table[:, j], np.full(30, record[j]), table[:, j]) for j, s in enumerate(scores)
        ]
        result = searched.distance(searched.differs(record)) / STEPS
        np.testing.assert_allclose(result, np.sum(parts, axis=0), atol=len(kinds) / STEPS)
        assert ((result == 0) == (table == record).all(axis=1)).all()


def test_short_scales_and_nulls_by_hand():
    scores = np.array([1.0, 2.0, 5.0, np.nan])
    table = np.arange(4)[:, None]
    created = plain(table, [scores])
    searched = GowerSearch(table, (4,), places(created))
    assert searched.differs(np.array([0]))[0].tolist() == [0, 60, 120, 120]  # roots of 0, 1/4, 1
    assert searched.differs(np.array([3]))[0].tolist() == [120, 120, 120, 0]
    for only in (0, 3):  # one value, or null alone: no range
        (place,) = places(plain(np.full((5, 1), only), [scores]))
        assert place.shape == (4,) and np.isnan(place[3])


def test_an_ordered_guess_is_right_within_five_percent_of_the_range():
    place = np.append(np.linspace(0, 1, 101), np.nan)
    guess, truth = np.array([55, 56, 45, 101, 101, 50]), np.array([50, 50, 50, 101, 50, 101])
    assert right(place, guess, truth).tolist() == [True, False, True, True, False, False]
    assert right(None, np.array([1, 2]), np.array([1, 1])).tolist() == [True, False]


def test_wide_tables_do_not_overflow():
    sizes = (2,) * 600
    searched = GowerSearch(np.zeros((3, 600), int), sizes, (None,) * 600)
    assert searched.distance(searched.differs(np.ones(600, int))).tolist() == [600 * STEPS] * 3


def moved(table, rng):
    """Every value one cell up, down or where it was: all but an exact copy."""
    return np.clip(table + rng.integers(-1, 2, table.shape), 0, CELLS - 1)


def attacked(change, columns=6, seed=0):
    rng = np.random.default_rng(seed)
    sizes = (CELLS,) * columns
    train, fresh, holdout = (rng.integers(0, CELLS, (n, columns)) for n in (300, 300, 600))
    created = tables(train, change(train, rng) if change else fresh, holdout, sizes=sizes)
    groups = train[:150], created.control[:150]
    results = [*membership(created, *groups, rng), *anonymeter(created, *groups, rng)]
    return {metric.key: metric for metric in results}


def test_a_copy_moved_by_a_cell_is_called_a_leak():
    result = attacked(moved)
    assert result["presence"].value > 0.97 and result["density_ratio"].value > 0.97
    assert result["linkability"].value > 0.9
    for key in ("presence", "density_ratio", "linkability"):
        for reference in (result[key].holdout, result[key].baseline):
            assert abs(reference.value - result[key].best) < 0.15, key
    # What counting unequal values sees of it: nothing.
    parts = {part.name: part.value for part in result["presence"].parts}
    assert parts["area by the number of attributes that differ"] < 0.8


@pytest.mark.slow
def test_an_honest_table_of_numbers_is_within_its_intervals():
    hits = [
        metric.low <= metric.best <= metric.high
        for seed in range(6)
        for metric in attacked(None, 4, seed).values()
        if metric.kind == "privacy"
    ]
    assert np.mean(hits) >= 0.85


def test_linkability_by_sorting():
    rng = np.random.default_rng(1)
    table, records = rng.integers(0, 50, (60, 4)), rng.integers(0, 50, (30, 4))
    scores = [rng.normal(size=50).cumsum() for _ in range(4)]  # hardly a tie
    created = plain(table, scores, synthetic=records)
    searched = GowerSearch(table, created.sizes, places(created))
    parts = np.stack([searched.differs(record) for record in records]).astype(int)
    sides = np.array([True, False, True, False])
    linked_ = find_links(records, searched, sides, rng, 5)
    for i in range(len(records)):
        orders = [np.sort(parts[i, side].sum(axis=0)) for side in (sides, ~sides)]
        near = [
            np.flatnonzero(parts[i, side].sum(axis=0) <= order[4])
            for side, order in zip((sides, ~sides), orders, strict=True)
        ]
        if all(order[4] < order[5] for order in orders):  # no tie at the edge
            assert linked_[i] == (len(np.intersect1d(*near)) > 0)


@pytest.mark.parametrize("width", [None, 50.0])
def test_nearest_rows_do_not_depend_on_the_density(width):
    rng = np.random.default_rng(2)
    table = rng.integers(0, 9, (40, 3))
    created = plain(table, [np.arange(9.0)] * 3)
    result = surroundings(table[:6], GowerSearch(table, created.sizes, places(created)), rng, width)
    assert (result.steps == 0).all() and (result.columns == 0).all()
