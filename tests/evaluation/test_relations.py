"""k-marginal score, correlations, probabilities, coverage, propensity, totals: by a second road."""

import itertools

import numpy as np
import pandas as pd
import pytest
from evaluated import SIZES, drawn, related, tables

from tabsynth.evaluation.utility.associations import correlation_difference, correlations
from tabsynth.evaluation.utility.columns import rare_coverage
from tabsynth.evaluation.utility.marginals import k_marginal, marginal_sets, percentile_bins
from tabsynth.evaluation.utility.propensity import propensity


def nist(target, other, region=None):
    """The formula in its own words, over data frames that are binned already."""
    gaps = []
    names = [n for n in target if n != region]
    for pair in itertools.combinations(names, 2):
        columns = [*([region] if region else []), *pair]
        p, q = (df.groupby(columns).size() / len(df) for df in (target, other))
        gaps.append(p.subtract(q, fill_value=0).abs().sum())
    return 500 * (2 - np.mean(gaps))


@pytest.mark.parametrize("region", [None, "PUMA"])
def test_k_marginal_is_nists_formula(region):
    rng = np.random.default_rng(0)
    train, other = related(rng, 500), related(rng, 300)
    created = tables(train, other, related(rng, 200))
    names = ("PUMA", "b", "c", "d") if region else created.names
    created = type(created)(**{**vars(created), "names": names})
    result = k_marginal(created)
    bins = percentile_bins(train, SIZES, created.scores)
    assert [int(b.max()) + 1 for b in bins[:3]] == [3, 4, 2] and bins[3].max() < 20
    cuts = np.percentile(train[:, 3], np.arange(5, 100, 5))
    frames = [
        pd.DataFrame(t, columns=names).assign(d=np.searchsorted(np.unique(cuts), t[:, 3]))
        for t in (train, other)
    ]
    assert result.value == pytest.approx(nist(*frames, region))
    assert result.low < result.value < result.high and result.best == 1000
    assert result.baseline.value < result.value


def test_marginals_that_are_scored():
    assert marginal_sets("abc") == [(0, 1), (0, 2), (1, 2)]
    assert marginal_sets(["x", "PUMA", "y"]) == [(1, 0, 2)]
    many = marginal_sets([f"c{i}" for i in range(30)])
    assert len(many) == 200 == len(set(many)) and all(a < b for a, b in many)
    assert len(marginal_sets([f"c{i}" for i in range(29)])) == 29 * 28 // 2
    assert marginal_sets(["x"]) == [(0,)] == marginal_sets(["PUMA"])


def test_null_is_a_bin_of_its_own():
    scores = (np.append(np.arange(40.0), np.nan),)
    (bins,) = percentile_bins(np.arange(41)[:, None], (41,), scores)
    assert bins[40] == bins.max() == 20 and (np.bincount(bins)[:20] == 2).all()
    (bins,) = percentile_bins(np.full((5, 1), 40), (41,), scores)  # all null
    assert set(bins[:40].tolist()) == {0} and bins[40] == 1


def test_correlations_are_pandas():
    rng = np.random.default_rng(2)
    numbers = rng.normal(size=(300, 4))
    numbers[:, 1] += numbers[:, 0] * 1e4
    numbers[rng.random((300, 4)) < 0.2] = np.nan
    numbers[:, 3] = 7.0
    group = np.arange(300) % 20
    result = correlations(numbers, group)
    for i, rows in ((0, slice(None)), (5, group != 4)):
        expected = pd.DataFrame(numbers[rows]).corr().fillna(0).to_numpy()
        np.testing.assert_allclose(result[i][:3, :3], expected[:3, :3], atol=1e-9)
        assert not result[i][3].any()


def test_correlations_of_a_fresh_sample_and_of_shuffled_columns():
    created = drawn(rows=(3_000, 3_000, 3_000))
    (metric,) = correlation_difference(created, np.random.default_rng(0))
    assert metric.value < 0.06 and metric.baseline.low > metric.high
    assert metric.low <= metric.value <= metric.high and metric.parts
    same = tables(created.train, created.train)
    (metric,) = correlation_difference(same, np.random.default_rng(0))
    assert metric.value == pytest.approx(0, abs=1e-12) and metric.holdout is None


def test_rare_values_by_hand():
    train = np.array([[0], [0], [1], [1], [1], [2]] * 50 + [[3], [4]])
    other = np.array([[0], [1], [3]] * 40)
    created = tables(train, other, sizes=(6,))
    rare = rare_coverage(created)
    assert (rare.value, rare.n) == (0.5, 2) and [p.name for p in rare.parts] == ["a = 4"]


def test_a_tree_tells_independent_columns_apart():
    created = drawn(rows=(1_500, 1_500, 1_500))
    ratio = propensity(created, np.random.default_rng(0))
    assert 0.7 < ratio.value < 1.5 and ratio.baseline.value > 4 and ratio.of_relations
