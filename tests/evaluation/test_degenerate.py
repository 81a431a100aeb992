"""Every metric on tables that have nothing to measure: constant, one row, disjoint, all null."""

import json
import math
import warnings

import numpy as np
import pytest

from tabsynth._files import json_ready
from tabsynth.evaluation import Columns, EvaluationConfig, measure
from tabsynth.evaluation.charged import charged_metrics, uses
from tabsynth.evaluation.metric import Weights
from tabsynth.evaluation.utility.constraints import violations
from tabsynth.privacy.accounting.mechanisms import Gaussian
from tabsynth.privacy.ledger.ledger import Ledger, PrivateTable
from tabsynth.report.summary import summarise

NAMES, SIZES = ("a", "b", "c", "w"), (3, 4, 2, 6)
SCORES = (None, np.arange(4.0), None, np.array([1.0, 2.0, 3.0, 4.0, 5.0, np.nan]))
ALL = Columns(names=NAMES, sizes=SIZES, scores=SCORES, target=0, by=(0, 2))
KEYS = {
    *("tvd1", "tvd2", "tvd3", "k_marginal", "pearson"),
    *("prediction_weighted", "prediction_macro"),
    *("pmse_tree", "rare_coverage"),
    *("subgroup_gap_a", "subgroup_gap_c"),
    *("target_auroc_logistic", "target_auprc_logistic"),
}
ATTACKS = {
    *("attribute_disclosure", "presence", "density_ratio"),
    *("singling_out", "linkability", "reconstruction"),
}


def constant(rows, value=0):
    return np.full((rows, 4), value)


def all_null(rows):
    return np.tile([s - 1 for s in SIZES], (rows, 1))


def weights(*tables):
    """Weights of all rows, none of which says anything."""
    of_tables = [None if t is None else 1.0 + np.arange(len(t)) % 3 for t in tables]
    return Weights(**dict(zip(("train", "synthetic", "holdout"), of_tables, strict=False)))


def mixed(rows, seed=0):
    rng = np.random.default_rng(seed)
    return np.stack([rng.integers(0, s, rows) for s in SIZES], axis=1)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("train", "synthetic", "holdout"),
    [
        (constant(40), constant(30), constant(30)),
        (constant(1), constant(1), constant(1)),
        (constant(40), constant(30, 1), constant(30)),  # disjoint
        (all_null(40), all_null(30), all_null(30)),
        (mixed(40), constant(1), mixed(2, 1)),
        (mixed(60), all_null(30), mixed(30, 1)),
        (constant(30), mixed(60), constant(3)),
        (constant(1), mixed(30), mixed(30, 1)),
        (mixed(80), mixed(80), None),
    ],
)
def test_every_metric_has_its_form(train, synthetic, holdout):
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        measured = measure(
            train,
            synthetic,
            holdout,
            ALL,
            weights=weights(train, synthetic, holdout),
            config=EvaluationConfig(m=20, k=(1, 5)),
        )
    keys = [metric.key for metric in measured.metrics]
    controlled = holdout is not None and len(holdout) > 1
    assert len(keys) == len(set(keys))
    attacks = ATTACKS if controlled else {"attribute_disclosure"}
    assert set(keys) == KEYS | attacks
    for metric in measured.metrics:
        assert metric.citation and metric.reading and metric.title
        assert "nan" not in metric.reading.split() and "nan." not in metric.reading
        value = metric.synthetic
        if np.isfinite(value.low):
            assert value.low <= value.value + 1e-9 and value.value <= value.high + 1e-9
        assert measured[metric.key] is metric
    json.dumps(json_ready(measured.to_dict()), allow_nan=False)
    assert not any("nan" in said.lower().split() for said in summarise(measured))
    with pytest.raises(KeyError):
        measured["nonsense"]


@pytest.mark.slow
def test_disjoint_and_equal_tables_are_at_the_ends():
    def run(a, b):
        about = {"columns": ALL, "config": EvaluationConfig(m=5, k=(1,))}
        return measure(a, b, None, weights=weights(a, b), **about)

    apart, equal = run(constant(40), constant(40, 1)), run(mixed(40), mixed(40))
    assert apart["k_marginal"].value == 0 and equal["k_marginal"].value == 1000
    for order in (1, 2, 3):
        assert apart[f"tvd{order}"].value == 1 and equal[f"tvd{order}"].value == 0
    assert equal["pearson"].value == pytest.approx(0, abs=1e-12)
    assert equal["rare_coverage"].n == 0


@pytest.mark.parametrize("private", [constant(40), constant(1), all_null(40), mixed(40)])
@pytest.mark.parametrize("synthetic", [constant(30, 1), constant(1), all_null(30)])
def test_charged_figures_have_their_form(private, synthetic):
    ledger = Ledger(math.inf, 1e-5)
    result = charged_metrics(
        PrivateTable(private, ledger),
        ledger.open("report", Gaussian(noise_multiplier=5.0), uses(4)),
        synthetic,
        Columns(names=NAMES, sizes=SIZES, scores=SCORES),
        rng=np.random.default_rng(0),
    )
    for metric in result:
        assert metric.low <= metric.value <= metric.high
        if metric.key.startswith("tvd"):
            assert 0 <= metric.value <= 1


def test_no_row_or_every_row_breaks_the_schema():
    none = violations(np.zeros((5, 0), dtype=bool), np.ones(5, dtype=bool), [], [])
    assert (none.value, none.parts) == (0, ()) and none.low == 0 < none.high < 1
    every = violations(np.ones((1, 2), dtype=bool), np.ones(1, dtype=bool), ["a", "b"], [])
    assert every.value == 1 and [part.n for part in every.parts] == [1, 1]
