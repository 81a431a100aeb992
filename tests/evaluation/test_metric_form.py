"""The one form of metrics: intervals, parts, and the jackknife."""

import math

import numpy as np
import pytest
from scipy import stats

from tabsynth._files import json_ready
from tabsynth.evaluation import Metric, Part
from tabsynth.evaluation.definitions import Definition
from tabsynth.evaluation.metric import halves, jackknife, wilson, worst_first
from tabsynth.evaluation.results import Estimate


@pytest.mark.parametrize(("hits", "trials"), [(0, 7), (3, 10), (10, 10), (249, 1000)])
def test_wilson_solves_the_score_equation(hits, trials):
    """The ends p of the interval are where |hits/trials − p| is z standard errors of p."""
    estimate = wilson(hits, trials)
    assert estimate.value == hits / trials and estimate.n == trials
    z = stats.norm.ppf(0.975)
    for end in (estimate.low, estimate.high):
        if 0 < end < 1:
            error = math.sqrt(end * (1 - end) / trials)
            assert abs(estimate.value - end) == pytest.approx(z * error, rel=1e-9)
    assert estimate.low <= estimate.value <= estimate.high
    assert (estimate.low == 0) == (hits == 0) and (estimate.high == 1) == (hits == trials)
    assert math.isnan(wilson(0, 0).value) and wilson(0, 0).high == 1.0


def test_the_jackknife_of_a_mean_is_its_standard_error():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=2_000)
    group = np.arange(2_000) % 20
    replicates = np.array([rows[group != g].mean() for g in range(20)])
    result = jackknife(float(rows.mean()), replicates, len(rows))
    half = stats.t.ppf(0.975, 19) * rows.std() / math.sqrt(2_000)
    assert (result.high - result.low) / 2 == pytest.approx(half, rel=0.35)
    assert math.isnan(jackknife(1.0, replicates, 10).low)
    assert math.isnan(jackknife(1.0, np.array([np.nan] * 20), 2_000).low)


def test_the_jackknife_covers():
    covered = []
    for seed in range(300):
        rng = np.random.default_rng(seed)
        rows = rng.exponential(size=200)
        replicates = np.array([rows[np.arange(200) % 20 != g].mean() for g in range(20)])
        result = jackknife(float(rows.mean()), replicates, 200)
        covered.append(result.low <= 1 <= result.high)
    assert 0.9 <= np.mean(covered) <= 0.985


def test_halves_are_apart_and_whole():
    rows = np.arange(7)[:, None]
    one, other = halves(rows, np.random.default_rng(0))
    assert sorted([*one.ravel(), *other.ravel()]) == list(range(7)) and len(one) == 3
    assert halves(rows[:1], np.random.default_rng(0)) == (None, None)
    assert halves(None, np.random.default_rng(0)) == (None, None)


def metric(value, baseline, better="lower", kind="utility", **changes):
    around = [Estimate(x, x - 0.1, x + 0.1, 5) for x in (value, baseline)]
    facts = {"name": "t", "keys": ("k",), "meaning": "", "range": "", "caveat": "", "source": "c"}
    definition = Definition(**facts, better=better, kind=kind)
    return Metric(definition, around[0], baseline=around[1], **changes)


def test_below_the_floor():
    assert metric(0.9, 0.5).below_baseline and not metric(0.65, 0.5).below_baseline
    assert (
        metric(0.1, 0.5, "higher").below_baseline and not metric(0.9, 0.5, "higher").below_baseline
    )
    assert not metric(0.9, 0.5, of_relations=False).below_baseline
    assert not metric(0.9, 0.5, kind="privacy").below_baseline
    result = metric(0.9, 0.5)
    assert (result.value, result.low, result.high, result.n) == (0.9, 0.8, 1.0, 5)
    assert json_ready(result)["synthetic"]["value"] == 0.9


def test_worst_first():
    parts = [Part("x", 0.2), Part("nan", math.nan), Part("y", 0.9), Part("z", 0.5)]
    assert [p.name for p in worst_first(parts, "lower", 4)] == ["y", "z", "x", "nan"]
    assert [p.name for p in worst_first(parts, "higher", 2)] == ["x", "z"]
