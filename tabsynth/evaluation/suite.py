"""All metrics on one synthetic table, in order, from the tables' category codes."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tabsynth.evaluation.attacks.anonymeter import anonymeter
from tabsynth.evaluation.attacks.disclosure import attribute_disclosure, disclosure_metric
from tabsynth.evaluation.attacks.membership import membership
from tabsynth.evaluation.attacks.nearest import draw_rows
from tabsynth.evaluation.attacks.reconstruction import reconstruction
from tabsynth.evaluation.baseline import independent_columns, verdict
from tabsynth.evaluation.config import EvaluationConfig
from tabsynth.evaluation.inputs import overlap
from tabsynth.evaluation.metric import (
    Columns,
    Evaluation,
    Metric,
    Tables,
    Weights,
    at_equal_rows,
    halves,
)
from tabsynth.evaluation.results import WeightsUsed, reference_scale
from tabsynth.evaluation.utility.associations import correlation_difference
from tabsynth.evaluation.utility.columns import rare_coverage
from tabsynth.evaluation.utility.marginals import distance_metric, distances, k_marginal
from tabsynth.evaluation.utility.prediction import (
    dimension_wise_prediction,
    prediction_metrics,
)
from tabsynth.evaluation.utility.propensity import propensity
from tabsynth.evaluation.utility.subgroups import subgroup_gap
from tabsynth.evaluation.utility.target import train_on_synthetic
from tabsynth.evaluation.weighting import WeightedRows, weighted_rows

BASELINES = 4  # shuffles fitted in prediction, to know what chance alone scores
TEST_SHARE = 0.3  # of the training table, where there is no hold-out
MAX_DISCLOSED = 1000  # records in each group of attribute disclosure
MAX_RECONSTRUCTED = 4000  # people in each group of attribute reconstruction
MAX_ATTACKED = 500  # records in each group of the attacks beside attribute disclosure


def measure(
    train: np.ndarray,
    synthetic: np.ndarray,
    holdout: np.ndarray | None,
    columns: Columns,
    *,
    weights: Weights | None = None,
    config: EvaluationConfig | None = None,
    extra: Sequence[Metric] = (),
) -> Evaluation:
    """Return every metric of utility and every attack, and the verdict.

    Without a hold-out, prediction is tested on 30% of the training table: the classifiers of the
    training table and the baseline do not see these rows, but the synthesizer did. Attacks that need
    a control group are then left out.

    Parameters
    ----------
    train, synthetic, holdout : ndarray, shape (rows, columns), int64
        Category codes. ``holdout`` may be None.
    columns : Columns
    weights : Weights, optional
        Survey weights of the rows of ``train``, ``synthetic`` and ``holdout``, for every metric of utility. The
        attacks count people, each of whom is one row, and use no weights.
    config : EvaluationConfig, optional
    extra : sequence of Metric
        Metrics of what category codes do not show, to be listed with the others.
    """
    config = config or EvaluationConfig()
    seed, m, sizes = config.random_state, config.m or MAX_DISCLOSED, columns.sizes
    rng = np.random.default_rng(seed)
    of_train = None if weights is None else weights.train
    baselines = [
        independent_columns(train, len(synthetic), rng, of_train) for _ in range(BASELINES)
    ]
    draws = np.random.default_rng([seed, 1])
    tables = _tables((train, synthetic, holdout), baselines[0], columns, weights, draws, seed)
    real, compared = tables.weighted_train, tables.with_weights
    ways = tuple(
        distances(
            real,
            (compared.synthetic, compared.baseline, compared.holdout),
            order,
            names=columns.names,
            sizes=sizes,
            seed=seed,
            progress=config.stage(f"{order}-way marginals"),
        )
        for order in range(1, min(3, len(sizes)) + 1)
    )
    utility = _of_utility(tables, draws, seed)
    config.report_progress("relations")
    controls = None
    if holdout is not None:
        controls = weighted_rows(holdout, None if weights is None else weights.holdout)
    fit, test = _fit_and_test(real, controls, rng)
    if holdout is None:
        baselines = [
            independent_columns(fit.codes, len(synthetic), rng, fit.weights)
            for _ in range(BASELINES)
        ]
    predicted = dimension_wise_prediction(
        fit, compared.synthetic, baselines, test, tables, rng, progress=config.stage("prediction")
    )
    # Without a hold-out, the synthesizer was fitted on the test rows.
    prediction = replace(predicted, seen=tables.holdout is None)
    if columns.target is not None:
        if tables.control is not None:
            shown, rows = tables, tables.weighted_control
        else:  # the classifiers of the training table and of the baseline do not see the test rows
            of_fit = None if weights is None else replace(weights, train=fit.each)
            shown = replace(tables, train=fit.codes, baseline=baselines[0], weights=of_fit)
            rows = test
        utility += train_on_synthetic(shown, rows, columns.target, draws)
    disclosure = attribute_disclosure(
        train,
        synthetic,
        holdout,
        sizes=sizes,
        k=config.k,
        m=m,
        rng=rng,
        progress=config.stage("disclosure"),
    )
    attacks = [disclosure_metric(disclosure, tables, config.k, draws)]
    attacks += _attacks(tables, min(m, MAX_ATTACKED), draws, config)
    if tables.control is not None:
        count = config.m or MAX_RECONSTRUCTED
        attacks += reconstruction(tables, count, np.random.default_rng([seed, 5]))
        config.report_progress("reconstruction")
    counts = {"train": len(train), "synthetic": len(synthetic), "test": len(test)}
    counts["holdout"] = 0 if holdout is None else len(holdout)
    used = None if weights is None else weights_used(tables)
    scale = 1.0
    if holdout is not None:
        lengths = map(len, (train, synthetic, holdout))
        scale = reference_scale(*(lengths if used is None else used.effective.values()))
    metrics = (
        *map(distance_metric, ways),
        *prediction_metrics(prediction),
        *utility,
        *extra,
        *attacks,
    )
    return Evaluation(
        rows=counts,
        metrics=tuple(at_equal_rows(metric, scale) for metric in metrics),
        verdict=verdict(prediction, ways, scale),
        overlap=None if holdout is None else overlap(train, holdout),
        weights=used,
    )


def weights_used(tables: Tables) -> WeightsUsed:
    """Return the sums and effective numbers of the weights of tables."""
    weights, compared = tables.weights, tables.with_weights
    assert weights is not None
    effective = {
        "train": tables.weighted_train.effective,
        "synthetic": compared.synthetic.effective,
        "holdout": 0.0 if compared.holdout is None else compared.holdout.effective,
    }
    return WeightsUsed("weights", float(weights.train.sum()), effective, weights.synthetic is None)


def _tables(
    rows: tuple[np.ndarray, np.ndarray, np.ndarray | None],
    baseline: np.ndarray,
    columns: Columns,
    weights: Weights | None,
    rng: np.random.Generator,
    seed: int,
) -> Tables:
    """Return the tables of one evaluation: the hold-out in two random halves, and as many of its rows as are compared.

    Of a larger hold-out these are as many as the synthetic table has; for a smaller one figures are corrected.
    """
    train, synthetic, holdout = rows
    places: dict[str, np.ndarray | None] = dict.fromkeys(("holdout", "reference", "control"))
    if holdout is not None:
        numbers = np.arange(len(holdout))
        places["reference"], places["control"] = halves(numbers, rng)
        drawn = np.random.default_rng([seed, 3])
        places["holdout"] = draw_rows(numbers, len(synthetic), drawn)

    def parts(values: np.ndarray | None) -> dict[str, Any]:
        return {
            name: None if at is None or values is None else values[at]
            for name, at in places.items()
        }

    return Tables(
        train=train,
        synthetic=synthetic,
        baseline=baseline,
        **parts(holdout),
        **vars(columns),
        weights=None if weights is None else replace(weights, **parts(weights.holdout)),
    )


def _of_utility(tables: Tables, rng: np.random.Generator, seed: int) -> list[Metric]:
    """Return the metrics that need no test rows."""
    return [
        k_marginal(tables, seed=seed),
        *correlation_difference(tables, rng),
        propensity(tables, rng),
        rare_coverage(tables),
        *(subgroup_gap(tables, column, rng) for column in tables.by),
    ]


def _attacks(
    tables: Tables, m: int, rng: np.random.Generator, config: EvaluationConfig
) -> list[Metric]:
    """Return the metrics of membership and of Anonymeter's two attacks; none without a control group."""
    if tables.control is None:
        return []
    people, controls = (t[rng.permutation(len(t))[:m]] for t in (tables.train, tables.control))
    metrics = membership(tables, people, controls, rng)
    config.report_progress("attacks", 0.5)
    metrics += anonymeter(tables, people, controls, rng)
    config.report_progress("attacks")
    return metrics


def _fit_and_test(
    train: WeightedRows, holdout: WeightedRows | None, rng: np.random.Generator
) -> tuple[WeightedRows, WeightedRows]:
    """Return the rows that the train classifier is fitted on, and those that all are tested on."""
    if holdout is not None:
        return train, holdout
    order = rng.permutation(len(train))
    cut = round(TEST_SHARE * len(train))
    if cut == 0 or cut == len(train):  # a table of one row has nothing to split
        return train, train
    return train.at(order[cut:]), train.at(order[:cut])
