"""A fresh real sample of weakly related columns is further away than independent columns are."""

import math
from dataclasses import replace

import numpy as np
import pytest

from tabsynth.evaluation import Columns, EvaluationConfig, distances, independent_columns, measure
from tabsynth.evaluation.baseline import INCONCLUSIVE, verdict
from tabsynth.evaluation.metric import at_equal_rows
from tabsynth.evaluation.results import (
    BaselineComparison,
    Estimate,
    reference_scale,
    scale_distance,
    worse,
)
from tabsynth.evaluation.utility.marginals import distance, distance_metric
from tabsynth.report.summary import summarise

D, SIZES = 20, (2,) * 20
NAMES = tuple(f"c{j}" for j in range(D))


def unrelated(rng, rows, share=0.2):
    return (rng.random((rows, D)) < share).astype(int)


def pairs(train, synthetic, holdout, rng):
    baseline = independent_columns(train, len(synthetic), rng)
    return distances(train, (synthetic, baseline, holdout), 2, names=NAMES, sizes=SIZES)


@pytest.fixture(scope="module")
def samples():
    rng = np.random.default_rng(1)
    return tuple(unrelated(rng, 600) for _ in range(3))


@pytest.mark.slow
def test_a_fresh_sample_is_not_called_worse(samples):
    measured = measure(
        *samples, Columns(names=NAMES, sizes=SIZES, by=(0,)), config=EvaluationConfig(m=2, k=(1,))
    )
    pair = measured["tvd2"]
    # The finding itself: below the baseline beyond both intervals, as is the fresh sample by its value.
    assert pair.low > pair.baseline.high and pair.holdout.value > pair.baseline.value
    assert pair.inconclusive and not pair.below_baseline and not pair.worse_than_holdout
    assert not any(metric.below_baseline for metric in measured.metrics)
    assert [c.conclusive for c in measured.verdict.comparisons if "distance" in c.metric] == [
        False
    ] * 2
    said = summarise(measured)
    assert "other real people are no nearer than independent columns" in said[2]
    assert "too weakly related for so few rows to tell" in said[3]
    assert not any("WORSE" in sentence for sentence in said)
    below = next(sentence for sentence in said if sentence.startswith("Below independent columns"))
    assert "pairs of columns" in below and "so is the hold-out reference" in below
    assert "that reference" not in below
    assert any("No group of c0 is seen to fare worse" in sentence for sentence in said)


@pytest.mark.slow
def test_without_a_holdout_it_is_said_not_to_be_known(samples):
    measured = measure(
        *samples[:2], None, Columns(names=NAMES, sizes=SIZES), config=EvaluationConfig(m=2, k=(1,))
    )
    assert measured["tvd2"].below_baseline and not measured["tvd2"].inconclusive
    assert [c.conclusive for c in measured.verdict.comparisons if "distance" in c.metric] == [
        None
    ] * 2
    said = summarise(measured)
    assert "no hold-out was given" in said[2] and "Without a hold-out it cannot be known" in said[3]
    worse = next(sentence for sentence in said if sentence.startswith("WORSE"))
    assert "Without a hold-out it cannot be known" in worse


@pytest.mark.slow
def test_a_table_that_is_worse_than_a_fresh_sample_too_is_told_so(samples):
    rng = np.random.default_rng(2)
    measured = measure(
        samples[0],
        unrelated(rng, 600, 0.4),
        samples[2],
        Columns(names=NAMES, sizes=SIZES),
        config=EvaluationConfig(m=2, k=(1,)),
    )
    assert measured["tvd2"].inconclusive and measured["tvd2"].worse_than_holdout
    below = next(s for s in summarise(measured) if s.startswith("Below independent columns"))
    assert "worse than that reference, too, beyond chance" in below


def test_a_small_holdout_excuses_no_table():
    """Twenty rows are far from everything; a fresh sample of 600 would not be."""
    rng = np.random.default_rng(3)

    def related(rows):
        first = rng.integers(0, 2, (rows, 1))
        return np.where(rng.random((rows, D)) < 0.4, first, rng.integers(0, 2, (rows, D)))

    train, few = related(600), related(20)
    bad = np.ones((600, D), dtype=int)
    pair = pairs(train, bad, few, rng)
    assert pair.holdout.mean.value > pair.baseline.mean.value
    scale = reference_scale(600, 600, 20)
    metric = at_equal_rows(distance_metric(pair), scale)
    assert metric.below_baseline and distance_metric(pair).inconclusive
    (row,) = verdict(replace(_NOBODY, columns=()), [pair], scale).comparisons
    assert row.conclusive and not row.better


def test_a_larger_fresh_sample_is_as_near_as_its_scale_says():
    """Counted anew at the larger size, it is no nearer than that, and not much further."""
    rng = np.random.default_rng(4)
    sets = [(i, j) for i in range(D) for j in range(i)]
    few, many = [], []
    for _ in range(10):
        train = unrelated(rng, 1_000)
        for rows, result in ((250, few), (1_000, many)):
            fresh = unrelated(rng, rows)
            result.append(distance(train, fresh, sets, NAMES, SIZES).mean.value)
    scale = reference_scale(1_000, 1_000, 250)
    assert scale == pytest.approx(math.sqrt(2 / 5))
    assert np.mean(many) == pytest.approx(scale * np.mean(few), rel=0.1)
    assert reference_scale(1_000, 250, 1_000) == 1
    assert scale_distance(900, 1_000, 0.5) == 950 and scale_distance(0.3, None, 0.5) == 0.3


def test_what_cannot_be_told_counts_only_in_favour():
    rng = np.random.default_rng(5)
    train, holdout = unrelated(rng, 300), unrelated(rng, 300)
    nobody = replace(_NOBODY, columns=())
    own = verdict(nobody, [pairs(train, train, holdout, rng)])
    assert own.text == "better than independent columns" and own.comparisons[0].conclusive is False
    fresh = verdict(nobody, [pairs(train, unrelated(rng, 300), holdout, rng)])
    assert fresh.text == INCONCLUSIVE
    assert isinstance(fresh.comparisons[0], BaselineComparison)


_NOBODY = measure(
    np.zeros((1, 1), int),
    np.zeros((1, 1), int),
    None,
    Columns(names=("c0",), sizes=(1,)),
    config=EvaluationConfig(m=1, k=(1,)),
).prediction


def test_the_holdout_reference_is_compared_at_equal_rows():
    """A hold-out of fewer rows is not further away by its size; of a larger one as many rows are used."""
    rng = np.random.default_rng(6)
    train, other = unrelated(rng, 800), unrelated(rng, 800)
    about = {"columns": Columns(names=NAMES, sizes=SIZES), "config": EvaluationConfig(m=2, k=(1,))}
    results = {n: measure(train, other, unrelated(rng, n), **about) for n in (200, 800, 3_000)}
    values = {
        n: [result[key].holdout.value for key in ("tvd1", "tvd2")] for n, result in results.items()
    }
    for rows in (200, 3_000):
        assert values[rows] == pytest.approx(values[800], rel=0.25), rows
    few = results[200]
    measured_at = few.distances[1].holdout.mean.value
    assert few["tvd2"].holdout.value == pytest.approx(few["tvd2"].reference_scale * measured_at)
    assert few["pmse_tree"].sampling_power == 0 and measured_at > 1.3 * values[800][1]


def test_the_closest_to_the_best_value_is_better():
    near, above, below = (Estimate(v, v - 0.1, v + 0.1, 9) for v in (1.05, 2.0, 0.3))
    assert worse(above, near, "closest", 1.0) and worse(below, near, "closest", 1.0)
    assert not worse(near, above, "closest", 1.0) and not worse(near, near, "closest", 1.0)
    assert worse(above, below, "closest", 1.0)
