"""Published figures of weighted tables: replays with rows of large weights, exact values, and what is stated."""

import json
import math
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from record_replay import neighbours
from replay_published import replay_published
from replayed_tables import EPSILON, SCHEMA, frame
from systems import make_tiny_model
from systems.form import with_unit, with_weight

from tabsynth import evaluate_private
from tabsynth.design import Design
from tabsynth.encoding import TableEncoder
from tabsynth.encoding.rows import Rows
from tabsynth.errors import InputError
from tabsynth.evaluation import publishing
from tabsynth.evaluation.charged import charged_metrics, uses
from tabsynth.evaluation.inputs import meaning
from tabsynth.evaluation.utility.marginals import column_sets, distance
from tabsynth.evaluation.weighting import WeightedRows
from tabsynth.privacy.accounting.mechanisms import NoPrivacy
from tabsynth.privacy.ledger.ledger import Ledger, PrivateTable

torch.set_num_threads(1)
pytestmark = pytest.mark.usefixtures("accounting_in_no_time")
CAP = 30.0
WEIGHTED = with_weight(SCHEMA, CAP)
OF_UNITS = with_weight(with_unit(SCHEMA, 2), 0.5)


def table(rows: int = 60) -> pd.DataFrame:
    return frame(rows).assign(weight=np.arange(rows) % 40)


def fitted(name: str) -> Any:
    return make_tiny_model(name, SCHEMA, epsilon=EPSILON)


@pytest.fixture(scope="module")
def made() -> pd.DataFrame:
    model = fitted("margnet, weights").fit(table())
    sample: pd.DataFrame = model.sample(50, random_state=1, weights="population")
    return sample


@pytest.mark.slow
def test_a_row_of_any_weight_changes_releases_alone(made: pd.DataFrame) -> None:
    moves = []
    for pair in neighbours(frame(60), WEIGHTED)[::2]:
        result = replay_published(pair.table, pair.neighbour, made, WEIGHTED, epsilon=1.0, seed=2)
        assert result.first_difference is None, (pair.kind, result.first_difference)
        assert [m.purpose for m in result.mechanisms] == ["report"] * uses(4, weighted=True)
        moves += [m.move for m in result.mechanisms[1:]]
    assert 0.9 < max(moves) <= 1 + 1e-9


@pytest.mark.slow
def test_weights_of_a_unit_count_together() -> None:
    real = frame(60).assign(unit=np.arange(60) // 4, weight=0.3)
    model = fitted("margnet, weights of units, scored pairs").fit(real)
    sample, moves = model.sample(50, random_state=1), []
    for pair in neighbours(frame(60), OF_UNITS)[1::5]:
        result = replay_published(pair.table, pair.neighbour, sample, OF_UNITS, epsilon=1.0)
        assert result.first_difference is None, (pair.kind, result.first_difference)
        moves += [m.move for m in result.mechanisms[1:]]
    assert 0.9 < max(moves) <= 1 + 1e-9


def without_cap(*given: Any, **options: Any) -> Any:
    return charged_metrics(*given, **{**options, "design": Design(weight="weight", max_weight=1.0)})


def unclipped(codes: Any, given: Any, *_: Any) -> Rows:
    return Rows(codes, given["weight"].to_numpy(float))


@pytest.mark.parametrize(
    ("name", "wrong"), [("charged_metrics", without_cap), ("rows_of", unclipped)]
)
def test_mistakes_are_found(
    name: str, wrong: Any, made: pd.DataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(publishing, name, wrong)
    pairs = [pair for pair in neighbours(frame(60), WEIGHTED) if pair.change == "added"]
    heavy = max(pairs, key=lambda pair: pair.neighbour["weight"].max())
    result = replay_published(heavy.table, heavy.neighbour, made, WEIGHTED, epsilon=1.0)
    assert (result.first_difference or "").startswith("mechanism 2 (report): its input moved by")


def figures(rows: Any, public: Any, design: Design) -> dict[str, float]:
    """Without noise."""
    ledger = Ledger(math.inf, 1e-5)
    weighted = design.weight is not None
    metrics = charged_metrics(
        PrivateTable(rows, ledger),
        ledger.open("report", NoPrivacy(), uses(4, weighted)),
        public,
        meaning(SCHEMA),
        rng=np.random.default_rng(0),
        design=design,
    )
    return {metric.key: metric.value for metric in metrics}


def test_figures_are_those_of_the_weighted_table() -> None:
    """As the metrics of the evaluation, and as of a table in which each row is repeated."""
    encoder, rng = TableEncoder(SCHEMA), np.random.default_rng(1)
    codes, public = (encoder.to_index(frame(n, n)) for n in (60, 80))
    weights = rng.integers(0, 6, 60).astype(float)
    design = Design(weight="w", max_weight=6.0)
    of_rows = figures(np.repeat(codes, weights.astype(int), axis=0), public, Design())
    of_weights = figures(Rows(codes, weights), public, design)
    for key in ("tvd1", "tvd2", "tvd3"):
        assert of_weights[key] == pytest.approx(of_rows[key], rel=1e-6)
    assert (of_weights["rows"], of_weights["population"]) == (60, weights.sum())
    synthetic = WeightedRows(public, rng.uniform(0.5, 4, 80))
    of_both = figures(Rows(codes, weights), synthetic, design)
    names, sizes = SCHEMA.names, SCHEMA.sizes
    for order in (1, 2, 3):
        sets = column_sets(4, order)
        other = distance(WeightedRows(codes, weights), synthetic, sets, names, sizes)
        assert of_both[f"tvd{order}"] == pytest.approx(other.mean.value, abs=1e-6)


def test_a_report_is_of_clipped_weights_and_says_so(made: pd.DataFrame, tmp_path: Any) -> None:
    report = evaluate_private(table(), made, schema=WEIGHTED, epsilon=200.0)
    values = {metric.key: metric for metric in report.evaluation.metrics}
    clipped = np.minimum(table()["weight"], CAP).sum()
    assert abs(values["population"].synthetic.value - clipped) < 0.15 * clipped
    assert "above 30 counts as that" in values["population"].reading
    assert "Share of the population" in values["tvd2"].reading
    assert report.to_dict()["weight"] == {"column": "weight", "max": CAP}
    report.to_html(tmp_path / "r.html")
    assert "Population of the training table" in (tmp_path / "r.html").read_text()
    json.dumps(report.to_dict(), allow_nan=False)


def test_a_synthetic_table_without_weights_counts_its_rows(made: pd.DataFrame) -> None:
    plain = fitted("margnet, weights").fit(table()).sample(50, random_state=1)
    report = evaluate_private(table(), plain, schema=WEIGHTED, epsilon=50.0)
    assert (report.evaluation.weight, report.evaluation.max_weight) == ("weight", CAP)
    alone = fitted("margnet").fit(frame(60)).sample(20, random_state=1)
    assert "weight" not in evaluate_private(frame(60), alone, schema=SCHEMA, epsilon=50.0).to_dict()


def test_weights_that_cannot_be_used_are_refused(made: pd.DataFrame) -> None:
    options: dict[str, Any] = {"schema": WEIGHTED, "epsilon": 1.0}
    for value, says in ((-1.0, "has weight -1.0"), (math.nan, "has a null, and weights")):
        wrong = table().assign(weight=[value, *range(59)])
        with pytest.raises(InputError, match=says):
            evaluate_private(wrong, made, **options)
    with pytest.raises(InputError, match="lacks column 'weight', the weight of the schema"):
        evaluate_private(frame(60), made, **options)
    zeros, certificate = made.assign(weight=0.0), made.attrs["certificate"]
    certificate = {name: part for name, part in certificate.items() if name != "table"}
    with pytest.raises(InputError, match="only weights of 0"):
        evaluate_private(table(), zeros, **options, certificate=certificate)


def test_a_table_whose_weights_are_all_zero_is_released(made: pd.DataFrame) -> None:
    """Zero is a weight like any other, so nothing is refused because of it."""
    report = evaluate_private(table().assign(weight=0), made, schema=WEIGHTED, epsilon=50.0)
    assert all(math.isfinite(metric.value) for metric in report.evaluation.metrics)
