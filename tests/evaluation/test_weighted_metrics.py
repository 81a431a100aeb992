"""Metrics of weighted tables: integer weights are as good as rows that are repeated so many times."""

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from evaluated import NAMES, SIZES, related, tables, weighted
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score, f1_score, roc_auc_score

from tabsynth import Schema
from tabsynth.evaluation import Columns, EvaluationConfig, independent_columns, measure
from tabsynth.evaluation.column_summaries import column_summaries, heaping, moments
from tabsynth.evaluation.metric import Weights, weighted_wilson, wilson
from tabsynth.evaluation.results import reference_scale
from tabsynth.evaluation.utility.associations import correlation_difference, correlations
from tabsynth.evaluation.utility.columns import rare_coverage
from tabsynth.evaluation.utility.constraints import rule_checks, violations
from tabsynth.evaluation.utility.marginals import distance, k_marginal, percentile_bins
from tabsynth.evaluation.utility.prediction import (
    dimension_wise_prediction,
    f1_scores,
    fold_rare,
    probabilities,
)
from tabsynth.evaluation.utility.propensity import propensity, tree
from tabsynth.evaluation.utility.subgroups import subgroup_gap
from tabsynth.evaluation.utility.target import (
    auprc,
    auroc,
    logistic,
    train_on_synthetic,
)
from tabsynth.evaluation.weighting import WeightedRows, variance_of_mean
from tabsynth.schema import Column


def integers(rng, rows):
    """Weights from 0 to 4, of which 0 leaves a row out."""
    weights = rng.integers(0, 5, rows).astype(float)
    weights[0] = 1.0
    return weights


def repeated(table, weights):
    return np.repeat(table, weights.astype(int), axis=0)


def both(seed, rows=(120, 80, 60)):
    """Weighted tables, and the same with rows repeated; and the same weighted by ones."""
    rng = np.random.default_rng(seed)
    given_tables = [related(rng, n) for n in rows]
    weights = [integers(rng, n) for n in rows]
    whole = [repeated(t, w) for t, w in zip(given_tables, weights, strict=True)]
    one = weighted(*given_tables, weights)
    two = replace(tables(*whole), baseline=one.baseline)
    ones = weighted(*whole, [np.ones(len(t)) for t in whole])
    return one, two, replace(ones, baseline=one.baseline)


def values(metric):
    def known(*figures):
        return [math.nan if x is None else x for x in figures]

    parts = {part.name: known(part.value, part.holdout, part.baseline) for part in metric.parts}
    references = [math.nan if e is None else e.value for e in (metric.holdout, metric.baseline)]
    return metric.value, references, parts


def same(one, other, **tolerance):
    (a, b, parts), (c, d, other_parts) = values(one), values(other)
    assert a == pytest.approx(c, nan_ok=True, **tolerance)
    assert b == pytest.approx(d, nan_ok=True, **tolerance)
    common = parts.keys() & other_parts.keys()  # of equally bad parts any may be listed
    assert len(common) >= 0.8 * len(parts)
    for name in common:
        assert parts[name] == pytest.approx(other_parts[name], nan_ok=True, **tolerance)


@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_integer_weights_are_repeated_rows(seed):
    one, two, ones = both(seed)
    same(rare_coverage(one), rare_coverage(two))
    same(k_marginal(one), k_marginal(ones))
    for i, sets in enumerate([[(0,), (3,)], [(0, 1), (2, 3)], [(0, 1, 3)]]):
        for a, b in zip(one.with_weights, two.with_weights, strict=True):
            first = distance(one.weighted_train, a, sets, NAMES, SIZES)
            second = distance(two.weighted_train, b, sets, NAMES, SIZES)
            assert first.mean.value == pytest.approx(second.mean.value), i
            assert first.mean.high > second.mean.high  # there are fewer people than repeated rows
    folded = fold_rare([one.train[:, 3:] * 7], (300,), one.weights.train)
    assert folded[1] == (100,)


@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_correlations_are_those_of_repeated_rows(seed):
    rng = np.random.default_rng(seed)
    weights = integers(rng, 150)
    numbers = np.where(rng.random((150, 3)) < 0.1, np.nan, rng.normal(size=(150, 3)))
    result = correlations(numbers, np.zeros(150, int), weights)[0]
    expected = pd.DataFrame(repeated(numbers, weights)).corr().to_numpy()
    np.testing.assert_allclose(result, expected, atol=1e-9)


@settings(max_examples=8, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_scores_of_weighted_test_rows_are_scikit_learns(seed):
    rng = np.random.default_rng(seed)
    truth, weights = rng.integers(0, 3, 80), integers(rng, 80)
    guess = np.where(rng.random(80) < 0.6, truth, rng.integers(0, 3, 80))
    result = f1_scores(truth, guess, 3, weights[:, None])[:, 0]
    whole, guesses = repeated(truth, weights), repeated(guess, weights)
    for i, average in enumerate(("weighted", "macro")):
        assert result[i] == pytest.approx(
            f1_score(whole, guesses, average=average, zero_division=0)
        )
    chances = rng.dirichlet(np.ones(3), 80).round(1)
    for score in (auroc, auprc):
        kept = weights > 0
        assert score(chances[kept], truth[kept], weights[kept]) == pytest.approx(
            score(repeated(chances, weights), whole)
        )
    one = (truth == 1)[weights > 0]
    column, w = chances[weights > 0, 1], weights[weights > 0]
    if 0 < one.sum() < len(one):
        expected = roc_auc_score(one, column, sample_weight=w)
        assert auroc(np.column_stack([1 - column, column]), one.astype(int), w) == pytest.approx(
            expected
        )
        expected = average_precision_score(one, column, sample_weight=w)
        assert auprc(np.column_stack([1 - column, column]), one.astype(int), w) == pytest.approx(
            expected * (w[one].sum() / w.sum())
            + average_precision_score(~one, 1 - column, sample_weight=w)
            * (1 - w[one].sum() / w.sum())
        )


def test_classifiers_are_fitted_with_weights():
    rng = np.random.default_rng(2)
    fit, test, weights = related(rng, 400), related(rng, 300), integers(rng, 400)
    kept = weights > 0
    rows, w = fit[kept], weights[kept]
    whole = repeated(fit, weights)
    for column in range(3):
        ours = probabilities(logistic, rows, test, column, SIZES, w).argmax(1)
        assert (ours == probabilities(logistic, whole, test, column, SIZES).argmax(1)).mean() > 0.99
    others, sizes = [1, 2, 3], SIZES[1:]
    chances = logistic(rows[:, others], rows[:, 0], test[:, others], sizes, 3, w)
    expected = logistic(whole[:, others], whole[:, 0], test[:, others], sizes, 3)
    np.testing.assert_allclose(chances, expected, atol=1e-3)
    assert (
        np.abs(chances - logistic(rows[:, others], rows[:, 0], test[:, others], sizes, 3)).max()
        > 0.01
    )
    flipped = np.where(fit[:, 2] == 1, 1e-6, 1.0)  # almost nobody has this value
    assert (probabilities(logistic, fit, test, 2, SIZES, flipped).argmax(1) == 0).all()


def test_the_share_of_rows_that_break_the_schema_is_weighted():
    rng = np.random.default_rng(6)
    hits, weights = rng.random((50, 2)) < 0.2, integers(rng, 50)
    fits = np.ones(50, dtype=bool)
    one = violations(hits, fits, ["x", "y"], [], weights)
    whole = repeated(hits, weights)
    other = violations(whole, np.ones(len(whole), dtype=bool), ["x", "y"], [])
    assert one.value == pytest.approx(other.value)
    assert {p.name: p.value for p in one.parts} == pytest.approx(
        {p.name: p.value for p in other.parts}
    )
    assert one.low < one.value < one.high and one.high - one.low > other.high - other.low
    equal = weighted_wilson(hits[:, 0], np.full(50, 3.0))
    plain = wilson(int(hits[:, 0].sum()), 50)
    assert (equal.value, equal.low, equal.high) == pytest.approx(
        (plain.value, plain.low, plain.high)
    )


AGE = Column(name="age", kind="numeric", dtype="float64", low=0, high=99, bins=20, nulls=True)
KIND = Column(name="kind", kind="categorical", dtype="str", categories=tuple("abc"))
FACTS = Schema(
    [AGE, KIND], constraints=[{"if": {"kind": ["a"]}, "then": {"age": {"low": 0, "high": 49.5}}}]
)


def people(rng, rows):
    ages = np.where(
        rng.random(rows) < 0.4, rng.integers(0, 10, rows) * 10, rng.integers(0, 99, rows)
    )
    ages = np.where(rng.random(rows) < 0.1, np.nan, ages)
    return pd.DataFrame({"age": ages.astype(float), "kind": rng.choice(list("abc"), rows)})


@settings(max_examples=8, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_summaries_of_columns_are_those_of_repeated_rows(seed):
    rng = np.random.default_rng(seed)
    frames = [people(rng, rows) for rows in (150, 90)]
    weights = tuple(integers(rng, len(frame)) for frame in frames)
    whole = [
        frame.loc[np.repeat(frame.index, w.astype(int))]
        for frame, w in zip(frames, weights, strict=True)
    ]

    def codes(frame):
        return np.stack([c.encode(frame[c.name]) for c in FACTS.columns], axis=1)

    scores = [column.scores() for column in FACTS.columns]
    one = column_summaries(FACTS, *map(codes, frames), scores, None, weights)
    two = column_summaries(FACTS, *map(codes, whole), scores)
    for a, b in zip(one, two, strict=True):
        assert a.labels == b.labels and a.distance == pytest.approx(b.distance)
        assert a.real == pytest.approx(b.real) and a.synthetic == pytest.approx(b.synthetic)
    for (a, b), n in zip(zip(one[0].moments, two[0].moments, strict=True), weights, strict=True):
        assert a.mean == pytest.approx(b.mean)
        assert a.deviation == pytest.approx(b.deviation, rel=0.02)  # the divisor is of rows
        assert n.sum() > 0
    found = heaping(AGE, *(f["age"] for f in frames), weights)
    other = heaping(AGE, *(f["age"] for f in whole))
    if found is not None and other is not None and len(found.multiples) == len(other.multiples):
        for a, b in zip(found.multiples, other.multiples, strict=True):
            assert (a.label, a.real, a.synthetic) == (
                b.label,
                pytest.approx(b.real),
                pytest.approx(b.synthetic),
            )
    rows = rule_checks(FACTS, *frames, weights)
    for a, b in zip(rows, rule_checks(FACTS, *whole), strict=True):
        assert a.training_share == pytest.approx(b.training_share)
        assert a.synthetic_share == pytest.approx(b.synthetic_share)


def test_quantiles_are_the_least_that_reach_a_share():
    rng = np.random.default_rng(1)
    numbers, weights = rng.normal(size=200), integers(rng, 200)
    found = moments(numbers, weights).quantiles
    expected = np.quantile(
        repeated(numbers, weights), (0.05, 0.25, 0.5, 0.75, 0.95), method="inverted_cdf"
    )
    np.testing.assert_allclose(found, expected)
    scores, index = (np.arange(60.0),), rng.integers(0, 60, (200, 1))
    (bins,) = percentile_bins(index, (60,), scores, weights)
    whole = repeated(index, weights).ravel()
    cuts = np.unique(np.quantile(whole, np.arange(1, 20) / 20, method="inverted_cdf"))
    expected = np.searchsorted(cuts, np.arange(60))
    np.testing.assert_array_equal(bins, np.unique(expected, return_inverse=True)[1])


def biased(rng, rows, size=30_000):
    """A sample in which some people are four times as likely, with its weights, and a fair sample."""
    population = related(rng, size)
    chance = np.where((population[:, 0] == 2) | (population[:, 1] == 3), 4.0, 1.0)
    drawn = rng.choice(size, rows, p=chance / chance.sum())
    return population[drawn], 100.0 / chance[drawn], population[rng.choice(size, rows)]


@pytest.mark.slow
def test_a_fair_sample_is_told_from_a_weighted_one_as_chance_has_it():
    """The mean ratio is 1 whatever the weights go with; without weights the tables are far apart."""
    ratios, plain = [], []
    for seed in range(24):
        rng = np.random.default_rng(seed)
        train, weights, fair = biased(rng, 700)
        each = np.concatenate([weights / weights.mean(), np.ones(700)])
        ratios.append(tree(train, fair, rng, each).value)
        if seed < 3:
            plain.append(tree(train, fair, rng).value)
    assert np.mean(ratios) == pytest.approx(1, abs=4 * np.std(ratios) / math.sqrt(24))
    assert np.min(plain) > 1.5 and np.mean(plain) > 1.8 * np.mean(ratios)


def test_what_weights_correct_is_seen_by_every_metric():
    """A fair sample is near to a weighted one, and far from the same rows without weights."""
    rng = np.random.default_rng(11)
    train, weights, fair = biased(rng, 2_500)
    right = weighted(train, fair, None, (weights, None, None))
    wrong = tables(train, fair)

    def figures(created):
        found = [k_marginal(created), *correlation_difference(created, np.random.default_rng(0))]
        found.append(propensity(created, np.random.default_rng(0)))
        found.append(subgroup_gap(created, 2, np.random.default_rng(0)))
        out = {metric.key: metric.value for metric in found}
        out["k_marginal"] = 1000 - out["k_marginal"]
        gaps = distance(
            created.weighted_train, created.with_weights.synthetic, [(0,), (1,)], NAMES, SIZES
        )
        return out | {"tvd": gaps.mean.value}

    near, far = figures(right), figures(wrong)
    for key in ("k_marginal", "tvd", "pmse_tree"):
        assert near[key] < 0.6 * far[key], key
    for key in ("pearson", "subgroup_gap_c"):
        assert near[key] < max(0.06, far[key]), key


def test_the_baseline_has_the_weighted_shares():
    rng = np.random.default_rng(0)
    train, weights, _ = biased(rng, 500)
    for rows in (200, 500, 1_300):
        made = independent_columns(train, rows, rng, weights)
        assert made.shape == (rows, 4)
        for j, size in enumerate(SIZES):
            shares = np.bincount(train[:, j], weights, size) / weights.sum()
            assert np.abs(np.bincount(made[:, j], minlength=size) - rows * shares).max() < 1 + 1e-6
    made = independent_columns(train, 500, rng, weights)
    assert abs(np.corrcoef(made[:, 0], made[:, 3])[0, 1]) < 0.15
    assert (
        np.sort(independent_columns(train, 500, rng, np.ones(500)), axis=0)
        == np.sort(train, axis=0)
    ).all()


def test_the_variance_of_a_weighted_mean():
    rng = np.random.default_rng(3)
    numbers, weights = rng.normal(size=300), rng.gamma(2.0, 3.0, 300)
    assert variance_of_mean(numbers) == pytest.approx(numbers.var() / 300)
    assert variance_of_mean(numbers, np.full(300, 9.0)) == pytest.approx(numbers.var() / 300)
    drawn = rng.integers(0, 300, (4_000, 300))
    means = (weights * numbers)[drawn].sum(axis=1) / weights[drawn].sum(axis=1)
    assert variance_of_mean(numbers, weights) == pytest.approx(means.var(), rel=0.12)


OPTIONS = {"config": EvaluationConfig(m=20, k=(1, 5))}


@pytest.mark.slow
def test_every_metric_is_the_same_at_every_scale_of_weights():
    """Metrics of utility depend on whose weights are whose; attacks count people, and use none."""
    rng = np.random.default_rng(0)
    train, weights, fair = biased(rng, 240)
    holdout, kept, _ = biased(rng, 160)
    scores = tuple(np.arange(s, dtype=float) if s > 2 else None for s in SIZES)
    columns = Columns(names=NAMES, sizes=SIZES, scores=scores, target=0)

    def run(of_train, of_holdout):
        of_tables = Weights(train=of_train, holdout=of_holdout)
        return measure(train, fair, holdout, columns=columns, weights=of_tables, **OPTIONS)

    one, other = run(weights, kept), run(7.3 * weights, 7.3 * kept)
    assert [metric.key for metric in one.metrics] == [metric.key for metric in other.metrics]
    for a, b in zip(one.metrics, other.metrics, strict=True):
        same(a, b, rel=1e-6, abs=1e-9)
        assert (a.low, a.high) == pytest.approx((b.low, b.high), rel=1e-5, abs=1e-8, nan_ok=True)
    effective = one.weights.effective
    assert effective["train"] == pytest.approx(weights.sum() ** 2 / np.square(weights).sum())
    assert one.reference_scale == pytest.approx(reference_scale(*effective.values()))
    assert other.weights.population == pytest.approx(7.3 * one.weights.population)
    mixed = run(rng.permutation(weights), rng.permutation(kept))
    for a, b in zip(one.metrics, mixed.metrics, strict=True):
        unused = a.kind != "utility" or a.key == "rare_coverage"
        assert unused or a.value != b.value, a.key
        if a.kind != "utility":
            assert a.synthetic == b.synthetic or math.isnan(a.synthetic.low), a.key


def test_predictions_on_weighted_test_rows_are_scikit_learns():
    rng = np.random.default_rng(7)
    train, weights, fair = biased(rng, 300)
    test, of_test, _ = biased(rng, 250)
    result = dimension_wise_prediction(
        WeightedRows(train, weights),
        fair,
        [fair, fair],
        WeightedRows(test, of_test),
        Columns(names=NAMES, sizes=SIZES),
        rng,
    )
    column = result.columns[0]
    for table, w, found in (
        (train, weights / weights.mean(), column.train),
        (fair, None, column.synthetic),
    ):
        guess = probabilities(logistic, table, test, 0, SIZES, w).argmax(1)
        for average in ("weighted", "macro"):
            expected = f1_score(test[:, 0], guess, average=average, sample_weight=of_test)
            assert getattr(found, average).value == pytest.approx(expected)


def test_the_target_is_learned_and_tested_with_weights():
    rng = np.random.default_rng(9)
    train, weights, fair = biased(rng, 400)
    holdout, kept, _ = biased(rng, 300)
    created = weighted(train, fair, holdout, (weights, None, None), numeric=False)
    half = len(holdout) // 2
    of_tables = Weights(train=weights, reference=kept[:half], control=kept[half:])
    created = replace(created, reference=holdout[:half], control=holdout[half:], weights=of_tables)
    found = train_on_synthetic(created, created.weighted_control, 0, rng)[0]
    others = [1, 2, 3]
    chances = logistic(fair[:, others], fair[:, 0], holdout[half:][:, others], SIZES[1:], 3)
    truth, w = holdout[half:, 0], kept[half:]
    each = [roc_auc_score(truth == v, chances[:, v], sample_weight=w) for v in range(3)]
    assert found.value == pytest.approx(np.average(each, weights=np.bincount(truth, w)))
    of_train = logistic(
        train[:, others],
        train[:, 0],
        holdout[half:][:, others],
        SIZES[1:],
        3,
        weights / weights.mean(),
    )
    each = [roc_auc_score(truth == v, of_train[:, v], sample_weight=w) for v in range(3)]
    assert found.best == pytest.approx(np.average(each, weights=np.bincount(truth, w)))
