"""Metrics in one frame, charged figures, and rows that break the schema."""

import json
import math
import re

import numpy as np
import pandas as pd
import pytest
from markupsafe import escape
from report_tables import HOSTILE, PATH, certificate, schema, table

from tabsynth import BudgetError, InputError, Schema, evaluate, evaluate_private
from tabsynth.encoding import TableEncoder
from tabsynth.evaluation import Columns, EvaluationConfig
from tabsynth.evaluation.charged import charged_metrics, total_gap, uses
from tabsynth.evaluation.inputs import rows_sha256
from tabsynth.evaluation.publishing import ALONE
from tabsynth.evaluation.utility.marginals import column_sets
from tabsynth.evaluation.weighting import WeightedRows
from tabsynth.privacy.accounting.mechanisms import Gaussian, NoPrivacy
from tabsynth.privacy.certificate.attached import attach
from tabsynth.privacy.certificate.verification import Verification
from tabsynth.privacy.ledger.ledger import Ledger, PrivateTable

REAL, HOLDOUT = table(300, 0), table(200, 2)
LABEL = "honest | <b>"


def report(synthetic, label, **changes):
    real = changes.pop("real", REAL)
    options = {
        "schema": schema(),
        "config": EvaluationConfig(m=30, k=(1, 5)),
        "label": label,
        **changes,
    }
    return evaluate(real, synthetic, HOLDOUT, **options)


@pytest.fixture(scope="module")
def copy():
    return report(REAL, "copy")


def test_the_digest_is_of_the_real_rows_in_any_order(copy):
    one = copy.evaluation.real_sha256
    assert one == copy.to_dict()["evaluation"]["real_sha256"]
    real, kept = index(REAL), index(HOLDOUT)
    rng = np.random.default_rng(0)
    assert rows_sha256(rng.permutation(real), rng.permutation(kept)) == one
    changed = real.copy()
    changed[7, 1] = (changed[7, 1] + 1) % 3
    for tables in ((changed, kept), (real, None), (kept, real), (real[1:], kept), (real, kept[1:])):
        assert rows_sha256(*tables) != one
    # The same values in every column, otherwise joined.
    assert rows_sha256(np.stack([rng.permutation(c) for c in real.T], axis=1), kept) != one


def test_every_metric_in_one_frame(copy):
    frame = copy.to_frame()
    assert {"value", "low", "high", "n", "holdout", "baseline", "citation"} <= set(frame.columns)
    assert frame["citation"].str.len().min() > 5 and frame.index.is_unique
    assert frame.loc["presence", "low"] > 0.5
    assert any("SUCCEED" in sentence for sentence in copy.summary())


@pytest.mark.slow
def test_asked_columns_are_measured():
    result = report(table(300, 1), "x", target="mean", by=PATH, weights=PATH)
    keys = set(result.to_frame().index)
    assert {f"subgroup_gap_{PATH}", "target_auroc_logistic"} <= keys
    assert any(f"No group of {PATH} is seen" in sentence for sentence in result.summary())


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"target": "no"}, "target='no'"),
        ({"by": [PATH, "no"]}, "by='no'"),
        ({"weights": HOSTILE}, "among the weights of column"),
    ],
)
def test_refusals(options, words):
    with pytest.raises(InputError, match=words):
        report(table(20, 1), "x", **options)


@pytest.mark.parametrize("option", ["epsilon", "delta", "ledger"])
def test_a_confidential_report_has_no_privacy_cost(option):
    with pytest.raises(TypeError, match=option):
        report(table(20, 1), "x", **{option: 1.0})


@pytest.mark.parametrize("option", ["holdout", "target", "random_state"])
def test_a_published_report_takes_no_confidential_option(option):
    with pytest.raises(TypeError, match=option):
        evaluate_private(REAL, table(20, 1), schema=schema(), epsilon=1.0, **{option: 0})


def test_rows_that_break_the_schema_are_counted():
    created = table(100, 1)
    created.loc[:4, "mean"] = 500
    facts = schema().to_dict()
    combination = {PATH: [3], "mean": {"low": 0, "high": 120}}
    declared = schema().select([PATH])
    assert declared.names == (PATH,)
    strict = Schema.from_dict({**facts, "impossible": [combination]})
    possible = REAL[(REAL[PATH] != 3) | REAL["mean"].isna()]
    evaluation = evaluate(possible, created, schema=strict, config=EvaluationConfig(m=20, k=(1,)))
    broken = created.iloc[5:]
    count = int(((broken[PATH] == 3) & broken["mean"].notna()).sum())
    metric = evaluation.evaluation["violations"]
    assert metric.value == pytest.approx((count + 5) / 100) and evaluation.evaluation.left_out == 5
    assert any("BREAK the schema" in s and "5 rows hold" in s for s in evaluation.summary())
    assert evaluation.evaluation.rows["synthetic"] == 95
    with pytest.raises(InputError, match="impossible"):
        evaluate(REAL, created, schema=strict)
    with pytest.raises(InputError, match="500"):
        evaluate(REAL, created.iloc[:3], schema=schema())


def index(frame):
    return TableEncoder(schema()).to_index(frame)


def charged(sigma_mechanism, private, public, epsilon=math.inf, seed=0):
    ledger = Ledger(epsilon, 1e-5)
    guarded = PrivateTable(private, ledger)
    account = ledger.open("report", sigma_mechanism, uses(4))
    columns = Columns(names=schema().names, sizes=schema().sizes)
    result = charged_metrics(guarded, account, public, columns, rng=np.random.default_rng(seed))
    assert guarded.reads == account.spent == uses(4)
    return {metric.key: metric for metric in result}


def test_without_noise_charged_figures_are_the_exact_ones():
    private, public = index(REAL), index(table(150, 1))
    result = charged(NoPrivacy(), private, public)
    exact = report(table(150, 1), "x").evaluation
    for key in ("tvd1", "tvd2", "tvd3"):
        assert result[key].value == pytest.approx(exact[key].value)
    assert result["rows"].value == 300


def test_one_record_moves_each_figure_by_one_at_most():
    rng = np.random.default_rng(0)
    private, public = WeightedRows(index(REAL)), WeightedRows(index(table(80, 1)))
    worst = 0.0
    for _ in range(40):
        drop = private.at(np.arange(len(private)) != rng.integers(len(private)))
        sets = column_sets(4, int(rng.integers(1, 4)))
        rows = float(rng.uniform(1, 600))
        gaps = [total_gap(t, public, sets, schema().sizes, rows) for t in (private, drop)]
        worst = max(worst, abs(gaps[0] - gaps[1]) / len(sets))
    assert 0.1 < worst <= 1 + 1e-9


def test_the_noise_is_that_of_the_account_and_its_interval_covers():
    private, public = index(REAL), index(table(150, 1))
    exact = charged(NoPrivacy(), private, public)
    rows, covered = [], []
    for seed in range(150):
        result = charged(Gaussian(noise_multiplier=5.0), private, public, seed=seed)
        rows.append(result["rows"].value)
        covered += [result[k].low <= exact[k].value <= result[k].high for k in ("tvd2", "tvd3")]
    assert np.std(rows) == pytest.approx(5.0, rel=0.2) and np.mean(rows) == pytest.approx(
        300, abs=2
    )
    assert np.mean(covered) >= 0.95


def consistent(**changes):
    """One Gaussian of σ = 3.7306, or two of √2 σ, is ε = 1 at δ = 1e-5."""
    once = {"mechanism": "gaussian", "noise_multiplier": 3.7307 * 2**0.5, "count": 1}
    once |= {"sampling_rate": 1.0, "details": {}}
    mechanisms = [{"purpose": name, **once} for name in ("one-way counts", "joint counts")]
    listed = {"method": "margnet", "mechanisms": mechanisms, "epsilon": 1.0}
    return certificate(**{**listed, **changes})


@pytest.mark.slow
def test_a_published_report_adds_up(tmp_path):
    created = table(300, 1)
    attach(created, consistent())
    result = evaluate_private(REAL, created, schema=schema(), epsilon=0.5)
    assert 0.49 < result.evaluation.epsilon <= 0.5
    listed = Ledger.from_list(math.inf, 1e-5, result.evaluation.mechanisms)
    assert listed.spent == pytest.approx(result.evaluation.epsilon)
    assert sum(item["count"] for item in result.evaluation.mechanisms) == uses(4)
    second = evaluate_private(REAL, created, schema=schema(), epsilon=0.5)
    assert (
        second.to_frame()["value"].tolist() != result.to_frame()["value"].tolist()
    )  # never seeded
    result.to_html(tmp_path / "p.html", overwrite=True)
    result.to_json(tmp_path / "p.json", overwrite=True)
    text = (tmp_path / "p.html").read_text()
    assert "adding or removing one record" in text and HOSTILE not in text
    assert json.loads((tmp_path / "p.json").read_text())["delta"] == 1e-5
    assert isinstance(result.to_frame(), pd.DataFrame)


@pytest.mark.parametrize("weight", [None, "weight"])
def test_published_figures_are_printed_with_their_intervals(weight, tmp_path):
    """Each says that its interval is one of 95%, and numbers of rows and of people are whole."""
    created, facts = table(300, 1), schema()
    real = REAL if weight is None else REAL.assign(**{weight: 2.5})
    if weight is not None:
        facts = Schema(facts.columns, weight=weight, max_weight=4.0)
    claim = consistent(public={"schema_sha256": facts.fingerprint()})
    result = evaluate_private(real, created, schema=facts, epsilon=0.5, certificate=claim)
    result.to_html(tmp_path / "p.html", overwrite=True)
    text = (tmp_path / "p.html").read_text("utf-8")
    shown = [metric for metric in result.evaluation.metrics if metric.kind == "shown"]
    assert len(shown) == (1 if weight is None else 2)
    for metric in result.evaluation.metrics:
        number = r"[\d,]+" if metric in shown else r"[\d,.]+"
        about = "about " if metric in shown else ""
        figure = rf"{about}{number} \(95%: {number} to {number}\)"
        (line,) = [s for s in result.summary() if s.startswith(f"{metric.title}: ")]
        assert re.fullmatch(rf".*?: {figure}(; its independent columns {figure})?\.", line), line
        assert re.search(figure, text)
    assert not re.search(r"\([\d,.]+ to [\d,.]+\)", text)


def test_a_report_without_a_ledger_states_its_own_cost_alone(tmp_path, caplog):
    """Two of them do not know of each other, nor of the table: nothing is stated of all together."""
    created = table(300, 1)
    attach(created, consistent())
    for label in ("first", "second"):
        caplog.clear()
        with caplog.at_level("WARNING"):
            result = evaluate_private(REAL, created, schema=schema(), epsilon=0.5, label=label)
        assert [record.getMessage() for record in caplog.records] == [ALONE]
        assert result.to_dict()["statement"].startswith(
            "The figures alone cost (0.499, 1e-05)-differential"
        )
        result.to_html(tmp_path / "p.html", overwrite=True)
        result.to_json(tmp_path / "p.json", overwrite=True)
        message = json.loads((tmp_path / "p.json").read_text())
        assert (
            message["warnings"][0] == ALONE
            and "it includes neither the table nor any other" in ALONE
        )
        assert "budget" not in message and "total_epsilon" not in message
        for text in (result.to_dict()["statement"], message["statement"]):
            assert "together" not in text and "budget" not in text
        page = (tmp_path / "p.html").read_text()
        assert f"Warning: {escape(ALONE)}" in page
        assert f"Warning: {ALONE}" in result.summary()


def test_the_claim_beside_published_figures_is_authenticated_or_said_not_to_be():
    for authenticated in (False, True):
        given = Verification(consistent(), 1.0, authenticated=authenticated)
        result = evaluate_private(
            REAL, table(50, 1), schema=schema(), epsilon=1.0, certificate=given
        )
        unauthenticated = any("nobody vouches" in text for text in result.to_dict()["warnings"])
        assert (
            unauthenticated is not authenticated
            and result.to_dict()["authenticated"] is authenticated
        )


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (None, "certificate"),
        (consistent(seeded=True), "certificate"),
        (consistent(public={"schema_sha256": "00"}), "another schema"),
        (consistent(mechanisms=[]), "no mechanisms"),
        (consistent(method="dp-wgan"), "charges 'critic'"),
        (consistent(epsilon=0.5), "claims epsilon=0.5"),
    ],
)
def test_what_is_not_public_is_not_published(given, words):
    with pytest.raises(InputError, match=words):
        evaluate_private(REAL, table(50, 1), schema=schema(), epsilon=1.0, certificate=given)


def test_a_ledger_that_refuses_reads_nothing():
    ledger = Ledger(0.01, 1e-5)
    with pytest.raises(BudgetError):
        ledger.open("report", Gaussian(noise_multiplier=0.1), uses(4))
