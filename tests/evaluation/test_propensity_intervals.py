"""The pMSE ratios against counts, and their intervals: of other samples, of classifiers fitted anew."""

import numpy as np
import pytest
from evaluated import related

from tabsynth.evaluation.utility import propensity
from tabsynth.evaluation.utility.propensity import tree


def changed(rng, rows, share):
    """As the other tables, but in some rows two columns are drawn anew."""
    table = related(rng, rows)
    moved = rng.random(rows) < share
    table[moved, 1] = rng.integers(0, 4, moved.sum())
    table[moved, 3] = rng.integers(0, 10, moved.sum())
    return table


@pytest.mark.slow
@pytest.mark.parametrize("share", [0.0, 0.3])
def test_interval_covers_the_ratio_of_other_samples(share):
    """Of a perfect table that is 1; of another one, the mean over many samples."""
    results = []
    for seed in range(30):
        rng = np.random.default_rng(seed)
        results.append(tree(related(rng, 500), changed(rng, 500, share), rng))
    values = np.array([e.value for e in results])
    truth = 1.0 if share == 0 else values.mean()
    assert share == 0 or truth > 1.5
    assert np.mean([e.low <= truth <= e.high for e in results]) >= 0.85
    half = np.mean([e.high - e.value for e in results])
    assert 0.75 < half / (2 * values.std(ddof=1)) < 1.7
    assert all(0 <= e.low <= e.value <= e.high for e in results)


def by_counts(real, synthetic, size):
    """The pMSE of one column: the chance of a value is the synthetic share of the rows that hold it."""
    a, b = (np.bincount(table[:, 0], minlength=size) for table in (real, synthetic))
    share = b.sum() / (a.sum() + b.sum())
    return ((a + b) * (b / (a + b) - share) ** 2).sum() / (a.sum() + b.sum()), share


@pytest.mark.parametrize("size", [2, 5])
def test_of_one_column_it_follows_from_counts(size):
    rng = np.random.default_rng(0)
    real = rng.integers(0, size, (600, 1))
    synthetic = np.minimum(rng.integers(0, size, (300, 1)), rng.integers(0, size, (300, 1)))
    wanted, share = by_counts(real, synthetic, size)
    null = (size - 1) * (1 - share) * share / 900
    both = np.concatenate([real, synthetic]).astype(np.float32)
    squares = propensity._tree_squares(both, np.repeat([0, 1], [600, 300]), share, rng)
    assert squares.mean() == pytest.approx(wanted)
    # Its null is drawn, ten times.
    assert tree(real, synthetic, rng).value == pytest.approx(wanted / null, rel=0.9)
