"""A fresh real sample of weakly related columns is further away than shuffled columns are."""

import math
from dataclasses import replace

import numpy as np
import pytest

from tabsynth.evaluation import Columns, distances, measure, shuffled
from tabsynth.evaluation.floor import UNTOLD, verdict
from tabsynth.evaluation.marginals import distance
from tabsynth.evaluation.results import Comparison, fresh_scale, scaled
from tabsynth.evaluation.summing import distant
from tabsynth.report.summary import summarise

D, SIZES = 20, (2,) * 20
NAMES = tuple(f"c{j}" for j in range(D))


def unrelated(rng, rows, share=0.2):
    return (rng.random((rows, D)) < share).astype(int)


def pairs(train, synthetic, holdout, rng):
    floor = shuffled(train, len(synthetic), rng)
    return distances(train, (synthetic, floor, holdout), 2, names=NAMES, sizes=SIZES)


@pytest.fixture(scope="module")
def samples():
    rng = np.random.default_rng(1)
    return tuple(unrelated(rng, 600) for _ in range(3))


@pytest.mark.slow
def test_a_fresh_sample_is_not_called_worse(samples):
    found = measure(*samples, names=NAMES, sizes=SIZES, m=2, k=(1,), columns=Columns(by=(0,)))
    pair = found["tvd2"]
    # The finding itself: below the floor beyond both intervals, as is the fresh sample by its value.
    assert pair.low > pair.floor.high and pair.fresh.value > pair.floor.value
    assert pair.untold and not pair.below_floor and not pair.worse_than_fresh
    assert not any(metric.below_floor for metric in found.metrics)
    assert [c.telling for c in found.verdict.comparisons if "distance" in c.metric] == [False] * 2
    said = summarise(found, None)
    assert "too weakly related for so few rows to tell" in said[0]
    assert not any("WORSE" in sentence for sentence in said)
    below = next(sentence for sentence in said if sentence.startswith("Below shuffled columns"))
    assert "pairs of columns" in below and "so is a fresh real sample" in below
    assert "that sample" not in below
    assert any("No group of c0 is seen to fare worse" in sentence for sentence in said)


@pytest.mark.slow
def test_without_a_holdout_it_is_said_not_to_be_known(samples):
    found = measure(*samples[:2], None, names=NAMES, sizes=SIZES, m=2, k=(1,))
    assert found["tvd2"].below_floor and not found["tvd2"].untold
    assert [c.telling for c in found.verdict.comparisons if "distance" in c.metric] == [None] * 2
    said = summarise(found, None)
    assert "Without a hold-out it cannot be known" in said[0]
    worse = next(sentence for sentence in said if sentence.startswith("WORSE"))
    assert "Without a hold-out it cannot be known" in worse


@pytest.mark.slow
def test_a_table_that_is_worse_than_a_fresh_sample_too_is_told_so(samples):
    rng = np.random.default_rng(2)
    found = measure(
        samples[0], unrelated(rng, 600, 0.4), samples[2], names=NAMES, sizes=SIZES, m=2, k=(1,)
    )
    assert found["tvd2"].untold and found["tvd2"].worse_than_fresh
    below = next(s for s in summarise(found, None) if s.startswith("Below shuffled columns"))
    assert "worse than that sample, too, beyond chance" in below


def test_a_small_holdout_excuses_no_table():
    """Twenty rows are far from everything; a fresh sample of 600 would not be."""
    rng = np.random.default_rng(3)

    def related(rows):
        first = rng.integers(0, 2, (rows, 1))
        return np.where(rng.random((rows, D)) < 0.4, first, rng.integers(0, 2, (rows, D)))

    train, few = related(600), related(20)
    bad = np.ones((600, D), dtype=int)
    pair = pairs(train, bad, few, rng)
    assert pair.fresh.mean.value > pair.floor.mean.value
    scale = fresh_scale(600, 600, 20)
    metric = replace(distant(pair), fresh_scale=scale)
    assert metric.below_floor and distant(pair).untold
    (row,) = verdict(replace(_NOBODY, columns=()), [pair], scale).comparisons
    assert row.telling and not row.better


def test_a_larger_fresh_sample_is_as_near_as_its_scale_says():
    """Counted anew at the larger size, it is no nearer than that, and not much further."""
    rng = np.random.default_rng(4)
    sets = [(i, j) for i in range(D) for j in range(i)]
    few, many = [], []
    for _ in range(10):
        train = unrelated(rng, 1_000)
        for rows, found in ((250, few), (1_000, many)):
            fresh = unrelated(rng, rows)
            found.append(distance(train, fresh, sets, NAMES, SIZES).mean.value)
    scale = fresh_scale(1_000, 1_000, 250)
    assert scale == pytest.approx(math.sqrt(2 / 5))
    assert np.mean(many) == pytest.approx(scale * np.mean(few), rel=0.1)
    assert fresh_scale(1_000, 250, 1_000) == 1
    assert scaled(900, 1_000, 0.5) == 950 and scaled(0.3, None, 0.5) == 0.3


def test_what_cannot_be_told_counts_only_in_favour():
    rng = np.random.default_rng(5)
    train, holdout = unrelated(rng, 300), unrelated(rng, 300)
    nobody = replace(_NOBODY, columns=())
    own = verdict(nobody, [pairs(train, train, holdout, rng)])
    assert own.text == "better than shuffled columns" and own.comparisons[0].telling is False
    fresh = verdict(nobody, [pairs(train, unrelated(rng, 300), holdout, rng)])
    assert fresh.text == UNTOLD
    assert isinstance(fresh.comparisons[0], Comparison)


_NOBODY = measure(
    np.zeros((1, 1), int), np.zeros((1, 1), int), None, names=("c0",), sizes=(1,), m=1, k=(1,)
).prediction
