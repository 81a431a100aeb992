"""Total variation distances against counting by hand."""

import itertools
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tabsynth.evaluation.utility import marginals
from tabsynth.evaluation.utility.marginals import column_sets, distance, distances


def table(rng, rows, sizes):
    return np.stack([rng.integers(0, size, rows) for size in sizes], axis=1)


def by_hand(a, b, columns):
    p = Counter(tuple(row[list(columns)]) for row in a)
    q = Counter(tuple(row[list(columns)]) for row in b)
    return 0.5 * sum(abs(p[c] / len(a) - q[c] / len(b)) for c in p.keys() | q.keys())


@settings(max_examples=25, deadline=None)
@given(
    st.integers(0, 2**32 - 1),
    st.lists(st.integers(1, 4), min_size=1, max_size=4),
    st.integers(1, 12),
    st.integers(1, 12),
    st.integers(1, 3),
    st.booleans(),
)
def test_agrees_with_counting(seed, sizes, rows_a, rows_b, order, sparse):
    order = min(order, len(sizes))
    rng = np.random.default_rng(seed)
    a, b = table(rng, rows_a, sizes), table(rng, rows_b, sizes)
    names = [f"c{j}" for j in range(len(sizes))]
    sets = list(itertools.combinations(range(len(sizes)), order))
    with pytest.MonkeyPatch.context() as patch:
        if sparse:
            patch.setattr(marginals, "DENSE_CELLS", 0)
        result = distance(a, b, sets, names, sizes)
    expected = [by_hand(a, b, columns) for columns in sets]
    np.testing.assert_allclose([m.value for m in result.marginals], expected, atol=1e-12)
    assert result.mean.value == pytest.approx(np.mean(expected))
    assert [m.columns for m in result.marginals] == [tuple(names[j] for j in s) for s in sets]
    assert 0 <= result.mean.low <= result.mean.value + 1e-12
    assert result.mean.value <= result.mean.high + 1e-12 <= 1 + 2e-12


def test_equal_and_disjoint_tables():
    a = np.array([[0, 0], [0, 1]])
    sets = [(0, 1)]
    assert distance(a, a, sets, "ab", (4, 4)).mean.value == 0
    assert distance(a, a + 2, sets, "ab", (4, 4)).mean.value == 1


def test_huge_domains_need_no_cube():
    rng = np.random.default_rng(0)
    sizes = (100_000,) * 3
    a, b = table(rng, 500, sizes), table(rng, 400, sizes)
    result = distance(a, b, [(0, 1, 2)], "abc", sizes)
    assert result.mean.value == pytest.approx(by_hand(a, b, (0, 1, 2)))
    assert result.mean.value == 1.0


def test_interval_covers_the_drawing_of_rows():
    """Tables drawn from two known populations: the interval must cover the true distance."""
    p, q = np.array([0.5, 0.3, 0.2]), np.array([0.2, 0.3, 0.5])
    covered = []
    for seed in range(300):
        rng = np.random.default_rng(seed)
        a = rng.choice(3, 400, p=p)[:, None]
        b = rng.choice(3, 300, p=q)[:, None]
        mean = distance(a, b, [(0,)], "a", (3,)).mean
        covered.append(mean.low <= 0.3 <= mean.high)
    assert 0.91 <= np.mean(covered) <= 0.985


def test_sets_are_those_of_the_yardstick():
    sets = list(itertools.combinations(range(10), 3))
    chosen = np.random.default_rng(0).choice(len(sets), 60, replace=False)
    assert column_sets(10, 3) == [sets[i] for i in chosen]
    assert column_sets(10, 2) == list(itertools.combinations(range(10), 2))
    assert len(column_sets(48, 3)) == 60 and len(column_sets(48, 2)) == 1128
    many = column_sets(400, 3)
    assert len(set(many)) == 60 and all(a < b < c for a, b, c in many)
    assert many == column_sets(400, 3) != column_sets(400, 3, seed=1)


def test_distances_of_all_three():
    rng = np.random.default_rng(0)
    train, other = table(rng, 50, (2, 3)), table(rng, 60, (2, 3))
    calls = []
    result = distances(
        train, (train, other, None), 2, names="ab", sizes=(2, 3), progress=calls.append
    )
    assert result.order == 2 and result.synthetic.mean.value == 0 and result.holdout is None
    assert result.baseline.mean.n == 60 and calls[-1] == 1.0
