"""Intervals of a survey's design, against R's ``survey``, closed forms, and estimates that are computed anew.

The schools are the samples ``apiclus1`` and ``apistrat`` of California's Academic Performance Index 2000, the ambulances
are ``scd`` of Levy & Lemeshow; both come with R's ``survey``. The figures of R are those of ``survey`` 4.5 on R 4.6.1, in
test/r_reference/ of github.com/xKDR/Survey.jl: est_basic.csv, proportions.csv, confint.csv, jackknife_parity.csv and
brr_scd_results.csv.
"""

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from evaluated import related, weighted
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from tabsynth.evaluation.utility.survey import (
    LEAST_ROWS,
    Linearised,
    Replicated,
    survey_estimates,
)

# Of each sampled district the kinds of its schools (elementary, high, middle) and their index; of each stratum the weight.
SCHOOLS = json.loads((Path(__file__).parent / "schools.json").read_text())
DISTRICTS = [(item["kinds"], item["index"]) for item in SCHOOLS["districts"]]
STRATA = [(item["weight"], item["index"]) for item in SCHOOLS["strata"]]
KINDS = np.array(["EHM".index(kind) for kinds, _ in DISTRICTS for kind in kinds])
INDEX = np.array([index for _, schools in DISTRICTS for index in schools], dtype=float)
DISTRICT = np.repeat(np.arange(len(DISTRICTS)), [len(kinds) for kinds, _ in DISTRICTS])
WEIGHT = np.full(len(INDEX), float(np.float32(33.847)))  # R has it in single precision


def test_a_cluster_sample_is_as_r_has_it():
    design = Linearised(WEIGHT, clusters=DISTRICT)
    mean, error = design.mean(INDEX)
    assert (mean, error) == pytest.approx((644.169398907104, 23.7790107208869), rel=1e-9)
    assert design.degrees == 14
    half = stats.t.ppf(0.975, design.degrees) * error
    ends = (593.168493261091, 695.170304553117)
    assert (mean - half, mean + half) == pytest.approx(ends, rel=1e-9)
    assert design.total(INDEX) == pytest.approx((3989985.46570206, 907398.705597438), rel=1e-6)
    shares, errors = design.shares(KINDS, 3)
    np.testing.assert_allclose(
        shares, [0.78688524590164, 0.0765027322404372, 0.136612021857924], rtol=1e-9
    )
    np.testing.assert_allclose(
        errors, [0.0468025716133837, 0.0270798559291773, 0.0299472342965665], rtol=1e-9
    )


def test_a_stratified_sample_is_as_r_has_it():
    index = np.array([value for _, schools in STRATA for value in schools], dtype=float)
    sizes = [len(schools) for _, schools in STRATA]
    weights = np.repeat([float(np.float32(weight)) for weight, _ in STRATA], sizes)
    stratum = np.repeat(np.arange(3), sizes)
    design = Linearised(weights, strata=stratum)
    mean, error = design.mean(index)
    assert (mean, error) == pytest.approx((662.287363159321, 9.53613229692516), rel=1e-9)
    half = stats.t.ppf(0.975, design.degrees) * error
    ends = (643.481356593217, 681.093369725425)
    assert (mean - half, mean + half) == pytest.approx(ends, rel=1e-9)
    assert design.total(index) == pytest.approx((4102207.89961815, 59066.8030470024), rel=1e-9)
    shares, errors = design.shares(stratum, 3)  # of the strata, whose sizes are fixed by the design
    np.testing.assert_allclose(shares, [0.713755237067748, 0.121892157602242, 0.164352605330011])
    assert errors.max() < 1e-9


def test_the_jackknife_is_as_r_has_it():
    count = len(DISTRICTS)
    replicates = np.column_stack(
        [WEIGHT * (left != DISTRICT) * count / (count - 1) for left in range(count)]
    )
    design = Replicated(WEIGHT, replicates, (count - 1) / count)
    assert design.mean(INDEX) == pytest.approx((644.169398907104, 26.5997137220988), rel=1e-9)
    assert design.total(INDEX) == pytest.approx((3989985.46570206, 907398.705597438), rel=1e-6)
    assert design.degrees == 14


def test_balanced_repeated_replication_is_as_r_has_it():
    replicates = np.array(
        [[2, 0, 2, 0], [0, 2, 0, 2], [2, 2, 0, 0], [0, 0, 2, 2], [2, 0, 0, 2], [0, 2, 2, 0]]
    )
    design = Replicated(np.ones(6), replicates, 1 / 4)
    alive = np.array([25.0, 24, 30, 49, 80, 70])
    arrests = np.array([120.0, 78, 185, 228, 670, 530])
    assert design.mean(alive) == pytest.approx((46.3333333333333, 3.58236421003411))
    assert design.total(alive) == pytest.approx((278, 21.4941852602047))
    assert design.mean(arrests) == pytest.approx((301.833333333333, 25.3930217885851))
    strata = Linearised(np.ones(6), strata=np.repeat([0, 1, 2], 2))  # of totals it is the same
    assert strata.total(alive) == pytest.approx((278, 21.4941852602047))


def test_a_simple_sample_has_the_closed_form():
    rng = np.random.default_rng(0)
    values, cells = rng.normal(size=300), rng.integers(0, 4, 300)
    design = Linearised(np.full(300, 7.5))
    assert design.mean(values) == pytest.approx((values.mean(), stats.sem(values)))
    shares, errors = design.shares(cells, 4)
    np.testing.assert_allclose(shares, np.bincount(cells) / 300)
    np.testing.assert_allclose(errors, np.sqrt(shares * (1 - shares) / 299))
    total, error = design.total(np.ones(300))
    assert (total, error) == pytest.approx((2250, 0), abs=1e-6)


def by_hand(weights, strata, clusters, influence):
    """Σ_h n/(n − 1) Σ_c (u − ū)², cluster by cluster."""
    variance = 0.0
    for stratum in np.unique(strata):
        inside = strata == stratum
        sums = [
            (weights * influence)[inside & (clusters == cluster)].sum()
            for cluster in np.unique(clusters[inside])
        ]
        n = len(sums)
        variance += n / (n - 1) * np.square(np.array(sums) - np.mean(sums)).sum()
    return math.sqrt(variance)


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_linearisation_by_hand(seed):
    rng = np.random.default_rng(seed)
    clusters = np.sort(rng.integers(0, 9, 60))
    strata = clusters // 3
    clusters = np.unique(clusters, return_inverse=True)[1]
    few = [s for s in range(3) if len(np.unique(clusters[strata == s])) < 2]
    strata[np.isin(strata, few)] = next(s for s in range(3) if s not in few)
    strata = np.unique(strata, return_inverse=True)[1]
    weights = rng.gamma(2.0, 20.0, 60) * (rng.random(60) < 0.9)
    values = rng.normal(size=60)
    values[rng.random(60) < 0.2] = np.nan
    design = Linearised(weights, strata, clusters)
    known = np.isfinite(values)
    mean = np.average(values[known], weights=weights[known])
    residual = np.where(known, values - mean, 0.0) / weights[known].sum()
    expected = by_hand(weights, strata, clusters, residual)
    assert design.mean(values) == pytest.approx((mean, expected))
    cells = rng.integers(-1, 3, 60)  # −1: in none of them
    shares, errors = design.shares(cells, 3)
    for cell in range(3):
        share = weights[cells == cell].sum() / weights.sum()
        influence = ((cells == cell) - share) / weights.sum()
        assert shares[cell] == pytest.approx(share)
        assert errors[cell] == pytest.approx(by_hand(weights, strata, clusters, influence))


def test_replicates_are_estimates_computed_anew():
    rng = np.random.default_rng(3)
    weights, cells = rng.gamma(2.0, 20.0, 200), rng.integers(-1, 4, 200)
    replicates = weights[:, None] * rng.normal(1.0, 0.6, (200, 80))  # some are negative, as in ACS
    assert (replicates < 0).any()
    values = np.where(rng.random(200) < 0.1, np.nan, rng.normal(5.0, 1.0, 200))
    design = Replicated(weights, replicates)
    shares, errors = design.shares(cells, 4)

    def share(weight):
        return np.array([weight[cells == cell].sum() for cell in range(4)]) / weight.sum()

    squares = sum(np.square(share(column) - share(weights)) for column in replicates.T)
    np.testing.assert_allclose(shares, share(weights))
    np.testing.assert_allclose(errors, np.sqrt(4 / 80 * squares))
    known = np.isfinite(values)
    means = [np.average(values[known], weights=column[known]) for column in replicates.T]
    mean = np.average(values[known], weights=weights[known])
    expected = math.sqrt(4 / 80 * np.square(np.array(means) - mean).sum())
    assert design.mean(values) == pytest.approx((mean, expected))
    assert design.degrees == 79


def test_linearisation_is_the_bootstrap_of_clusters():
    rng = np.random.default_rng(5)
    cluster = np.repeat(np.arange(60), 10)
    weights = rng.gamma(4.0, 10.0, 600)
    values = rng.normal(size=60)[cluster] + rng.normal(size=600)
    _, error = Linearised(weights, clusters=cluster).mean(values)
    sums = np.bincount(cluster, weights * values), np.bincount(cluster, weights)
    drawn = rng.integers(0, 60, (4_000, 60))
    means = sums[0][drawn].sum(axis=1) / sums[1][drawn].sum(axis=1)
    assert error == pytest.approx(means.std(), rel=0.1)
    simple = Linearised(weights).mean(values)[1]
    assert error > 1.5 * simple  # whoever ignores the clusters is too sure


def surveyed(rows=3_000, seed=0):
    """A weighted sample, and a self-weighting one of the same population."""
    rng = np.random.default_rng(seed)
    population = related(rng, 40_000)
    chance = np.where(population[:, 0] == 2, 3.0, 1.0)
    drawn = rng.choice(len(population), rows, p=chance / chance.sum())
    train, synthetic = population[drawn], population[rng.choice(len(population), rows)]
    return train, synthetic, 13.0 / chance[drawn]


def test_estimates_of_a_good_table_are_within_and_of_an_unweighted_copy_are_not():
    train, synthetic, weights = surveyed()
    created = weighted(train, synthetic, train[:900], (weights, None, weights[:900]))
    result, metrics = survey_estimates(created, Linearised(weights), [1, 3])
    assert [metric.key for metric in metrics] == ["survey_share", "survey_pair", "survey_number"]
    for metric in metrics:
        assert metric.value > 0.65 and metric.best == 1.0
        assert metric.low <= metric.value <= metric.high <= 1
        assert metric.holdout is not None and metric.baseline is not None
    assert metrics[0].baseline.value > 0.99 and not metrics[0].of_relations
    assert metrics[1].baseline.value < 0.6 and metrics[1].of_relations
    copy = replace(created, synthetic=train)  # as if all rows counted the same
    _, wrong = survey_estimates(copy, Linearised(weights), [1, 3])
    assert wrong[0].value < 0.5 and wrong[1].value < 0.5 and wrong[2].value == 0
    same = replace(copy, weights=replace(copy.weights, synthetic=weights))
    right, ideal = survey_estimates(same, Linearised(weights), [1, 3])
    assert [metric.value for metric in ideal] == [1, 1, 1] and right.inside == right.judged
    assert right.judged["number"] == 5  # the population, and two means and totals
    assert result.judged["number"] == 4  # a self-weighting table states no population
    first = result.estimates["share"][0]
    assert first.errors_away == max(e.errors_away for e in result.estimates["share"])
    assert all(e.real.n >= LEAST_ROWS for e in result.estimates["pair"])


def test_shares_within_the_interval_by_hand():
    train, synthetic, weights = surveyed(400, 1)
    created = weighted(train, synthetic, None, (weights, None, None))
    result, _ = survey_estimates(created, Linearised(weights), [])
    quantile, total = stats.t.ppf(0.975, 399), weights.sum()
    few = 0
    for i, j in ((0, 1), (1, 3), (0, 3)):
        for a in range(created.sizes[i]):
            for b in range(created.sizes[j]):
                hit = (train[:, i] == a) & (train[:, j] == b)
                few += 0 < hit.sum() < LEAST_ROWS
                if hit.sum() < LEAST_ROWS:
                    continue
                share = weights[hit].sum() / total
                residual = weights * (hit - share) / total
                error = math.sqrt(400 / 399 * np.square(residual).sum())
                name = f"{created.names[i]} = {a}, {created.names[j]} = {b}"
                (item,) = [e for e in result.estimates["pair"] if e.name == name]
                assert (item.real.value, item.error) == pytest.approx((share, error))
                assert item.real.low == pytest.approx(max(0.0, share - quantile * error))
                own = ((synthetic[:, i] == a) & (synthetic[:, j] == b)).mean()
                assert item.synthetic == pytest.approx(own)
                assert item.inside == (abs(own - share) <= quantile * error)
    assert 0 < few <= result.too_few["pair"]


@pytest.mark.slow
def test_intervals_of_a_stratified_cluster_sample_cover():
    """Of 300 samples, the interval of a share and of a mean contains the population's in about 95%."""
    rng = np.random.default_rng(8)
    cluster = np.repeat(np.arange(600), 12)
    stratum = cluster // 200
    effect = rng.normal(size=600)[cluster] + stratum
    values = effect + rng.normal(size=len(cluster))
    cells = (values > 1.2).astype(int)
    covered = []
    for _ in range(300):
        chosen = np.concatenate(
            [rng.choice(np.arange(200) + 200 * s, size) for s, size in enumerate((8, 15, 25))]
        )
        rows = np.concatenate([np.flatnonzero(cluster == c) for c in chosen])
        own = np.repeat(np.arange(len(chosen)), 12)
        weights = np.repeat([25.0, 200 / 15, 8.0], [8, 15, 25])[own]
        design = Linearised(weights, strata=stratum[rows], clusters=own)
        quantile = stats.t.ppf(0.975, design.degrees)
        mean, error = design.mean(values[rows])
        share, errors = design.shares(cells[rows], 2)
        covered.append(
            (
                abs(mean - values.mean()) <= quantile * error,
                abs(share[1] - cells.mean()) <= quantile * errors[1],
            )
        )
    assert (np.mean(covered, axis=0) > 0.91).all() and (np.mean(covered, axis=0) < 0.99).all()
