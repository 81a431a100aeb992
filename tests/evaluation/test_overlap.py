"""Rows of the hold-out that are in the training table, too."""

import numpy as np
import pytest

from tabsynth.evaluation.inputs import overlap, same_rows


def rows(n, seed=0, size=50):
    return np.random.default_rng(seed).integers(0, size, (n, 3))


@pytest.mark.parametrize("size", [2, 6, 50])
def test_counts_are_those_of_python(size):
    train, holdout = rows(80, 0, size), rows(60, 1, size)
    expected = [tuple(row) for row in train]
    result = overlap(train, holdout)
    assert result.in_training == sum(tuple(row) in expected for row in holdout)
    assert result.repeated == sum(expected.count(row) > 1 for row in expected)
    assert (result.training, result.holdout) == (80, 60)


@pytest.mark.parametrize("size", [2, 4, 8, 16, 50])
def test_fresh_samples_are_not_suspected(size):
    """Whether few rows are repeated in the population, or nearly all."""
    for seed in range(20):
        result = overlap(rows(300, 2 * seed, size), rows(200, 2 * seed + 1, size))
        assert not result.suspicious and not result.all_known


@pytest.mark.parametrize("share", [0.2, 0.5])
def test_a_holdout_with_training_rows_is_suspected(share):
    train, fresh = rows(300), rows(200, 1)
    taken = int(200 * share)
    result = overlap(train, np.concatenate([train[:taken], fresh[taken:]]))
    assert result.suspicious and not result.all_known
    assert overlap(train, train[:100]).all_known


def test_same_rows_in_whatever_order():
    table = rows(40)
    assert same_rows(table, table[::-1])
    assert not same_rows(table, table[:39]) and not same_rows(table, rows(40, 1))
    assert not same_rows(table[[0, 0, 1]], table[[0, 1, 1]])
