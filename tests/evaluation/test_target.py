"""A named column: AUROC, AUPRC and calibration; coefficients and the overlap of their intervals."""

import math

import numpy as np
import pytest
from evaluated import SIZES, drawn, related, tables
from sklearn.linear_model import LinearRegression
from sklearn.metrics import average_precision_score, roc_auc_score

from tabsynth.evaluation import Columns, EvaluationConfig, measure
from tabsynth.evaluation.utility import inference as inferring
from tabsynth.evaluation.utility.inference import inference, interval_overlap, least_squares
from tabsynth.evaluation.utility.target import (
    area_under_roc,
    auprc,
    auroc,
    average_precision,
    calibration_error,
    train_on_synthetic,
)


@pytest.mark.parametrize("seed", range(5))
def test_curves_are_scikit_learns(seed):
    rng = np.random.default_rng(seed)
    score = rng.integers(0, 6, 80) / 6  # with ties
    positive = rng.random(80) < 0.2 + 0.5 * score
    assert area_under_roc(score, positive) == pytest.approx(roc_auc_score(positive, score))
    result = average_precision(score, positive)
    assert result == pytest.approx(average_precision_score(positive, score))


def test_means_over_values_are_weighted():
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 3, 200)
    chances = rng.dirichlet([1, 1, 1], 200)
    each = [roc_auc_score(truth == v, chances[:, v]) for v in range(3)]
    counts = np.bincount(truth)
    assert auroc(chances, truth) == pytest.approx(np.average(each, weights=counts))
    each = [average_precision_score(truth == v, chances[:, v]) for v in range(3)]
    assert auprc(chances, truth) == pytest.approx(np.average(each, weights=counts))
    assert math.isnan(auroc(chances, np.zeros(200, dtype=int)))


def test_calibration_by_hand():
    chances = np.array([[0.9, 0.1]] * 4 + [[0.35, 0.65]] * 2)
    truth = np.array([0, 0, 0, 1, 1, 1])
    # Four rows sure by .9 and right in 3 of 4; two sure by .65 and right in both.
    assert calibration_error(chances, truth) == pytest.approx((4 * 0.15 + 2 * 0.35) / 6)


@pytest.mark.slow
@pytest.mark.parametrize("boosting", [False, True])
def test_synthetic_rows_teach_as_real_ones_do(boosting):
    created = drawn(rows=(900, 900, 900))
    rng = np.random.default_rng(0)
    result = train_on_synthetic(created, created.control, 0, rng, boosting=boosting)
    assert len(result) == 3 * (1 + boosting)
    for metric in result:
        assert metric.low <= metric.value <= metric.high
        if metric.better == "higher":
            assert metric.value > 0.8 and metric.baseline.value < 0.65 and metric.best > 0.8
            assert metric.value == pytest.approx(metric.best, abs=0.06)
        else:
            assert metric.value < 0.15


def test_one_value_and_no_other_column():
    train = np.zeros((30, 2), dtype=int)
    created = tables(train, train, train, sizes=(2, 2))
    rng = np.random.default_rng(0)
    result = train_on_synthetic(created, created.control, 0, rng)
    assert math.isnan(result[0].value) and result[2].value == 0
    assert result[0].best is None and result[2].best == 0
    assert result[0].reading.endswith("fitted on the training table: not known.")
    assert not any("nan" in metric.reading for metric in result)
    one = tables(train[:, :1], train[:, :1], train[:, :1], sizes=(2,))
    assert len(train_on_synthetic(one, one.control, 0, rng)) == 3
    assert inference(created, 0) == []


def test_least_squares_is_scikit_learns():
    rng = np.random.default_rng(1)
    x = np.column_stack([np.ones(200), rng.normal(size=(200, 3))])
    y = x @ [1, 2, 0, -1] + rng.normal(size=200)
    beta, error = least_squares(x, y)
    model = LinearRegression().fit(x[:, 1:], y)
    np.testing.assert_allclose(beta, [model.intercept_, *model.coef_], rtol=1e-5)
    residual = y - model.predict(x[:, 1:])
    cov = np.linalg.inv(x.T @ x) * (residual @ residual) / 196
    np.testing.assert_allclose(error, np.sqrt(np.diag(cov)), rtol=1e-5)


def test_logistic_regression_is_at_its_maximum():
    rng = np.random.default_rng(2)
    x = np.column_stack([np.ones(500), rng.normal(size=(500, 2))])
    y = (rng.random(500) < 1 / (1 + np.exp(-x @ [0.3, 1.0, -0.5]))).astype(float)
    beta, error = inferring.logistic(x, y)
    chance = 1 / (1 + np.exp(-x @ beta))
    np.testing.assert_allclose(x.T @ (y - chance), 0, atol=1e-4)
    information = (x * (chance * (1 - chance))[:, None]).T @ x
    np.testing.assert_allclose(error, np.sqrt(np.diag(np.linalg.inv(information))), rtol=1e-4)


def test_separated_data_end_with_wide_errors():
    x = np.column_stack([np.ones(40), np.repeat([-1.0, 1.0], 20)])
    beta, error = inferring.logistic(x, np.repeat([0.0, 1.0], 20))
    assert np.isfinite(beta).all() and error[1] > 10


def test_overlap_by_hand():
    z = 1.959963984540054
    a = np.array([0.0]), np.array([1 / z])  # from -1 to 1
    for centre, expected in ((0.0, 1.0), (1.0, 0.5), (2.0, 0.0), (3.0, -0.5), (9.0, -1.0)):
        b = np.array([centre]), np.array([1 / z])
        assert interval_overlap(a, b)[0] == pytest.approx(expected)
    wide = np.array([0.0]), np.array([2 / z])  # twice as wide: all of the one, half of the other
    assert interval_overlap(a, wide)[0] == pytest.approx(0.75)
    assert interval_overlap(a, (np.array([0.0]), np.array([np.nan])))[0] == -1


def test_conclusions_by_hand():
    """Of an intercept, which is not judged, and three coefficients with errors of 1."""
    ones = np.ones(4)
    real = np.array([9.0, 2.0, -2.0, 0.1]), ones
    other = np.array([-9.0, 2.5, 2.0, -0.3]), ones
    overlap, same, each = inferring._agreement(real, other)
    assert same.value == pytest.approx(2 / 3) and same.n == 3  # +, and none; not −
    assert overlap.value == pytest.approx(interval_overlap(real, other)[1:].mean())
    np.testing.assert_allclose(each, interval_overlap(real, other)[1:])
    # +; none, not −; none, for there is no interval.
    flat = np.array([0.0, 2.0, -1.9, 3.0]), np.array([1.0, 1.0, 1.0, np.nan])
    assert inferring._agreement(real, flat)[1].value == pytest.approx(2 / 3)


@pytest.mark.parametrize("column", [2, 3])
def test_conclusions_agree_with_a_fresh_sample_and_not_with_the_floor(column):
    created = drawn(seed=3, rows=(2_000, 2_000, 2_000))
    overlap, same = inference(created, column)
    assert overlap.value > 0.4 > overlap.baseline.value and same.value > 0.7
    equal, agreed = inference(tables(created.train, created.train), column)
    assert equal.value == pytest.approx(1) and agreed.value == 1
    names = [part.name for part in equal.parts]
    assert len(names) == equal.n and SIZES[0] == 3


def test_all_null_numbers_are_not_explained():
    rng = np.random.default_rng(0)
    train = related(rng, 50)
    created = tables(train, train)
    scores = (*created.scores[:3], np.full(30, np.nan))
    created = type(created)(**{**vars(created), "scores": scores})
    assert isinstance(inference(created, 3), list)


def test_without_a_holdout_the_best_is_not_of_rows_that_were_learned():
    """Labels that nothing tells: a model knows those it was fitted on, and guesses others."""
    rng = np.random.default_rng(0)
    train = np.stack([rng.integers(0, s, 300) for s in (2, 40, 40)], axis=1)
    measured = measure(
        train,
        train,
        None,
        Columns(names="abc", sizes=(2, 40, 40), target=0),
        config=EvaluationConfig(m=5, k=(1,)),
    )
    metric = measured["target_auroc_logistic"]
    assert metric.value > 0.8  # the synthetic table is the training table: it holds the test rows
    assert metric.best < 0.65 and metric.baseline.value < 0.65
    assert "ones that the synthesizer was fitted on" in metric.reading


def test_each_value_is_a_part():
    created = drawn(rows=(600, 500, 400))
    auroc_, auprc_, calibration = train_on_synthetic(
        created, created.control, 0, np.random.default_rng(0)
    )
    assert not calibration.parts
    counts = {"012"[v]: n for v, n in enumerate(np.bincount(created.control[:, 0]))}
    for metric in (auroc_, auprc_):
        assert {part.name: part.n for part in metric.parts} == counts
        for name in ("value", "baseline", "holdout"):
            whole = getattr(metric, "synthetic" if name == "value" else name).value
            each = [getattr(part, name) for part in metric.parts]
            weights = [part.n for part in metric.parts]
            assert np.average(each, weights=weights) == pytest.approx(whole)
    values = [part.value for part in auprc_.parts]
    assert values == sorted(values)
