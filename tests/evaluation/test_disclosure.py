"""Attribute disclosure against a brute force that follows the paper's words."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tabsynth.evaluation.attacks.disclosure import (
    Attack,
    attribute_disclosure,
    hit_shares,
    majorities,
    unknown_levels,
)


def table(rng, rows, sizes):
    return np.stack([rng.integers(0, size, rows) for size in sizes], axis=1)


def brute_force(records, synthetic, sizes, s, k, rng):
    """Share of hits with Euclidean distance of one-hot codes, ties of all kinds at random."""
    hits = []
    eye = [np.eye(size) for size in sizes]
    for record in records:
        unknown = rng.permutation(len(sizes))[:s]
        known_columns = [j for j in range(len(sizes)) if j not in unknown]
        distance = np.zeros(len(synthetic))
        for j in known_columns:
            distance += ((eye[j][synthetic[:, j]] - eye[j][record[j]]) ** 2).sum(axis=1)
        order = np.lexsort([rng.random(len(synthetic)), np.sqrt(distance)])[:k]
        for j in unknown:
            votes = np.bincount(synthetic[order, j], minlength=sizes[j])
            guess = rng.choice(np.flatnonzero(votes == votes.max()))
            hits.append(guess == record[j])
    return np.mean(hits)


@pytest.mark.slow
def test_agrees_with_brute_force_where_nothing_is_tied():
    # Distinct distances: record i differs from row r in exactly r known columns, for any s below.
    rng = np.random.default_rng(0)
    sizes = (5,) * 6
    synthetic, records = table(rng, 40, sizes), table(rng, 30, sizes)
    for s in (1, 3, 5):
        for k in (1, 7, 40):
            attack = Attack(synthetic, sizes, (s,), (k,))
            ours = np.mean(
                [hit_shares(records, attack, np.random.default_rng(i)).mean() for i in range(30)]
            )
            theirs = np.mean([brute_force(records, synthetic, sizes, s, k, rng) for _ in range(30)])
            assert ours == pytest.approx(theirs, abs=0.05), (s, k)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 12), st.integers(1, 4))
def test_majorities_are_modes(seed, neighbours, size):
    rng = np.random.default_rng(seed)
    votes = rng.integers(0, size, (5, neighbours))
    result = majorities(votes, size, (1, 3, 50), rng)
    np.testing.assert_array_equal(result[:, 0], votes[:, 0])
    for row, guesses in zip(votes, result, strict=True):
        for first, guess in zip((1, 3, 50), guesses, strict=True):
            counts = np.bincount(row[:first], minlength=size)
            assert counts[guess] == counts.max()


def test_ties_are_broken_at_random():
    rng = np.random.default_rng(0)
    votes = np.tile([0, 1], (1, 5))
    guesses = [int(majorities(votes, 2, (10,), rng)[0, 0]) for _ in range(400)]
    assert 0.4 < np.mean(guesses) < 0.6
    # Ties of distance: every row is equally near, the unknown value is 1 in half of them.
    synthetic = np.array([[0, 0], [0, 1]])
    attack = Attack(synthetic, (1, 2), (1,), (1,))
    records = np.array([[0, 1]] * 2_000)
    shares = hit_shares(records, attack, rng)
    # The unknown column is the second one half of the time; the first is always guessed right.
    assert shares.std() > 0.3
    assert shares.mean() == pytest.approx(0.75, abs=0.04)


def test_planted_copy_leaks_and_unseen_rows_do_not():
    rng = np.random.default_rng(1)
    sizes = (6,) * 6
    train, holdout, fresh = (table(rng, 400, sizes) for _ in range(3))
    settings_ = {"sizes": sizes, "k": (1, 5), "m": 200}
    copy = attribute_disclosure(train, train, holdout, rng=rng, **settings_)
    cell = copy.cells[0]
    assert (cell.s, cell.k) == (1, 1)
    assert cell.leakage.low > 0 and cell.target.low > cell.control.high
    assert cell.target.value == pytest.approx(1.0, abs=0.05)
    assert copy.mean.leakage.low > 0
    honest = attribute_disclosure(train, fresh, holdout, rng=rng, **settings_)
    assert honest.mean.leakage.low <= 0 <= honest.mean.leakage.high
    assert honest.cells[0].exposed.value > honest.cells[0].target.high


@pytest.mark.slow
def test_intervals_cover_95_percent():
    """Leakage of an honest table is 0: its interval must say so in about 95% of draws."""
    sizes = (3,) * 4
    covered = []
    for seed in range(60):
        rng = np.random.default_rng(seed)
        train, holdout, fresh = (table(rng, 80, sizes) for _ in range(3))
        result = attribute_disclosure(train, fresh, holdout, sizes=sizes, k=(1,), m=60, rng=rng)
        leakage = result.cells[0].leakage
        covered.append(leakage.low <= 0 <= leakage.high)
    assert 0.88 <= np.mean(covered) <= 1.0


def test_without_holdout_there_is_no_control():
    rng = np.random.default_rng(2)
    train = table(rng, 50, (3, 3))
    result = attribute_disclosure(train, train, None, sizes=(3, 3), k=(1, 100), m=10, rng=rng)
    assert result.controls == 0 and result.targets == 10
    assert all(cell.control is None and cell.leakage is None for cell in result.cells)


@pytest.mark.parametrize("rows", [1, 3])
def test_fewer_synthetic_rows_than_neighbours(rows):
    rng = np.random.default_rng(3)
    train, synthetic = table(rng, 20, (4, 4, 4)), table(rng, rows, (4, 4, 4))
    result = attribute_disclosure(
        train, synthetic, train, sizes=(4, 4, 4), k=(1, 5, 100), m=1000, rng=rng
    )
    assert len(result.cells) == 2 * 3 and result.targets == 20
    by_k = {cell.k: cell.target.value for cell in result.cells if cell.s == 2}
    assert set(by_k) == {1, 5, 100}
    if rows == 1:
        assert by_k[1] == by_k[5] == by_k[100]


def test_one_column_has_no_grid():
    train = np.zeros((5, 1), dtype=np.int64)
    rng = np.random.default_rng(0)
    result = attribute_disclosure(train, train, train, sizes=(1,), k=(1,), m=5, rng=rng)
    assert result.cells == () and result.mean is None and result.guess == 1.0


def test_many_columns_thin_the_grid():
    assert unknown_levels(10) == tuple(range(1, 10))
    assert unknown_levels(48) == tuple(range(1, 48))
    levels = unknown_levels(200)
    assert len(levels) == 63 and levels[0] == 1 and levels[-1] == 199
    rng = np.random.default_rng(0)
    sizes = (2,) * 20
    train = table(rng, 30, sizes)
    calls = []
    result = attribute_disclosure(
        train, train, train, sizes=sizes, k=(1,), m=30, rng=rng, progress=calls.append
    )
    assert len(result.cells) == 19 and calls[-1] == 1.0 and calls == sorted(calls)
