"""A named column: AUROC and AUPRC; coefficients and the overlap of their intervals."""

import math

import numpy as np
import pytest
from evaluated import drawn, tables
from sklearn.metrics import average_precision_score, roc_auc_score

from tabsynth.evaluation import Columns, EvaluationConfig, measure
from tabsynth.evaluation.utility.target import (
    area_under_roc,
    auprc,
    auroc,
    average_precision,
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


@pytest.mark.slow
def test_synthetic_rows_teach_as_real_ones_do():
    created = drawn(rows=(900, 900, 900))
    rng = np.random.default_rng(0)
    result = train_on_synthetic(created, created.control, 0, rng)
    assert len(result) == 2
    for metric in result:
        assert metric.low <= metric.value <= metric.high
        assert metric.value > 0.8 and metric.baseline.value < 0.65 and metric.best > 0.8
        assert metric.value == pytest.approx(metric.best, abs=0.06)


def test_one_value_and_no_other_column():
    train = np.zeros((30, 2), dtype=int)
    created = tables(train, train, train, sizes=(2, 2))
    rng = np.random.default_rng(0)
    result = train_on_synthetic(created, created.control, 0, rng)
    assert math.isnan(result[0].value) and result[0].best is None
    assert result[0].reading.endswith("fitted on the training table: not known.")
    assert not any("nan" in metric.reading for metric in result)
    one = tables(train[:, :1], train[:, :1], train[:, :1], sizes=(2,))
    assert len(train_on_synthetic(one, one.control, 0, rng)) == 2


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
    auroc_, auprc_ = train_on_synthetic(created, created.control, 0, np.random.default_rng(0))
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
