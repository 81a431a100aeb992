"""`evaluate` and what its report says and writes."""

import json
import math
from dataclasses import fields

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from report_tables import certificate, page, report, schema, table

from tabsynth import InputError
from tabsynth.encoding import TableEncoder
from tabsynth.evaluation import EvaluationConfig, independent_columns
from tabsynth.privacy.certificate.attached import attach
from tabsynth.privacy.certificate.verification import Verification
from tabsynth.report import Report, evaluate, evaluate_private
from tabsynth.report.certificates import NO_CERTIFICATE
from tabsynth.report.page import NOTICE


def measured(**options):
    """A report on other tables or with other settings."""
    tables = {"real": table(200, 0), "synthetic": table(150, 1), "holdout": table(100, 2)}
    tables = {name: options.pop(name, given) for name, given in tables.items()}
    names = {field.name for field in fields(EvaluationConfig)} & set(options)
    config = EvaluationConfig(**{"m": 40, "k": (1, 5), **{n: options.pop(n) for n in names}})
    return evaluate(*tables.values(), schema=schema(), config=config, **options)


@pytest.fixture(scope="module")
def made():
    return report(certificate=certificate())


def test_summary_in_plain_words(made):
    sentences = made.summary()
    assert made.evaluation.verdict.text == "better than independent columns"
    assert sentences[0].startswith("This report is confidential.")
    assert "cannot be cleared for publication" in sentences[1] and "ε = 0.997" in sentences[1]
    assert sentences[2].startswith("Relations between columns are ")
    assert sentences[3].startswith("The synthetic table is better than independent columns")
    assert "are too small" in sentences[-1]
    assert "confidential" in NOTICE and "not covered by ε" in NOTICE


def test_shuffled_columns_are_called_so():
    real = table(300, 0)
    encoder, rng = TableEncoder(schema()), np.random.default_rng(1)
    baseline = encoder.from_index(independent_columns(encoder.to_index(real), 300, rng), rng)
    result = measured(real=real, synthetic=baseline)
    assert result.evaluation.verdict.text == "no better than independent columns"
    assert "histogram would serve as well" in result.summary()[3]


@pytest.mark.slow
def test_planted_copy_is_called_a_leak():
    real = table(200, 0)
    result = measured(real=real, synthetic=real, m=200)
    assert any("ARE guessed better" in sentence for sentence in result.summary())
    assert result.evaluation.distances[0].synthetic.mean.value == 0
    ratios = [column.ratio.weighted.value for column in result.evaluation.prediction.columns]
    assert ratios == pytest.approx([1] * len(ratios), abs=0.02)


def test_without_holdout_it_says_so():
    text = " ".join(measured(holdout=None).summary())
    assert "it is unknown how much of this is leakage" in text
    assert "no hold-out was given" in text and "rows that the synthesizer saw" in text
    assert "nothing is claimed" in text


def test_json_round_trip_without_nan(made, tmp_path):
    path = tmp_path / "report.json"
    made.to_json(path)

    def refuse(name):
        raise AssertionError(name)

    result = json.loads(path.read_text("utf-8"), parse_constant=refuse)
    assert result == made.to_dict()
    assert result["format"] == "tabsynth-report/5" and result["notice"] == NOTICE
    assert result["evaluation"]["certificate"]["epsilon"] == 0.997
    details = {metric["key"]: metric["details"] for metric in result["evaluation"]["metrics"]}
    assert len(details["attribute_disclosure"]["cells"]) == 3 * 2
    for marginal in result["evaluation"]["columns"]:
        assert sum(marginal["real"]) == pytest.approx(1)
        assert sum(marginal["synthetic"]) == pytest.approx(1)
        assert len(marginal["labels"]) == len(marginal["real"]) >= len(marginal["spans"])


@pytest.mark.slow
def test_degenerate_table_gives_null_not_nan(tmp_path):
    one = table(1, 0)
    result = measured(
        real=one, synthetic=table(1, 3), holdout=None, certificate={"epsilon": math.inf}
    )
    path = tmp_path / "report.json"
    result.to_json(path)
    assert "NaN" not in path.read_text() and "Infinity" not in path.read_text()
    result.to_html(tmp_path / "report.html")


def test_certificate_comes_with_the_table():
    synthetic = table(150, 1)
    assert report(synthetic=synthetic).evaluation.certificate is None
    attach(synthetic, certificate())
    result = report(synthetic=synthetic)
    assert (
        result.evaluation.certificate == synthetic.attrs["certificate"]
        and not result.evaluation.authenticated
    )
    assert {**result.evaluation.certificate, "table": None} == {**certificate(), "table": None}
    other = report(synthetic=synthetic, certificate={"epsilon": 3})
    assert other.evaluation.certificate == {"epsilon": 3}


@pytest.mark.slow
def test_other_data_frames_and_column_order():
    real, synthetic = table(120, 0), table(80, 1)
    expected = measured(real=real, synthetic=synthetic)
    arrow = pa.Table.from_pandas(synthetic)
    result = measured(real=real[list(reversed(real.columns))], synthetic=arrow)
    assert result.evaluation.metrics == expected.evaluation.metrics
    assert result.evaluation.columns == expected.evaluation.columns


def test_progress_goes_from_stage_to_stage():
    calls = []
    measured(progress=lambda stage, share: calls.append((stage, share)))
    assert {stage for stage, _ in calls} >= {"1-way marginals", "prediction", "disclosure"}
    assert calls[-1] == ("reconstruction", 1.0)


def test_same_tables_same_report(made):
    second = measured()
    assert made.evaluation.metrics == second.evaluation.metrics
    assert made.evaluation.columns == second.evaluation.columns
    assert isinstance(second, Report)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"synthetic": table(5, 0).drop(columns="mean")}, ["synthetic table", "'mean'"]),
        ({"synthetic": table(5, 0).assign(extra=1)}, ["synthetic table", "'extra'"]),
        ({"real": table(0, 0)}, ["training table", "no rows"]),
        ({"holdout": table(5, 0).assign(mean=500)}, ["hold-out table", "'mean'", "500"]),
        ({"synthetic": [1, 2]}, ["synthetic table", "list"]),
        ({"m": 0}, ["m", "0"]),
        ({"k": ()}, ["k", "()"]),
        ({"k": 5}, ["k", "5"]),
        ({"k": (1, 0)}, ["k", "0"]),
        ({"random_state": -1}, ["random_state", "-1"]),
        ({"random_state": None}, ["random_state", "None"]),
        ({"certificate": "yes"}, ["certificate", "'yes'"]),
    ],
)
def test_refusals_name_the_thing(options, words):
    with pytest.raises(InputError) as caught:
        measured(**options)
    text = str(caught.value)
    assert "\n" not in text
    for word in words:
        assert word in text


def test_schema_and_holdout_are_checked():
    real = table(10, 0)
    with pytest.raises(InputError, match="schema"):
        evaluate(real, real, schema=7)
    with pytest.raises(InputError, match="rows of the training table"):
        evaluate(real, real, real, schema=schema())


@pytest.mark.slow
def test_files_are_written_whole_or_refused(made, tmp_path):
    for write in (made.to_html, made.to_json):
        with pytest.raises(InputError):
            write(tmp_path / "missing" / "report")
    assert list(tmp_path.iterdir()) == []


def test_tables_are_left_as_they_were():
    real, synthetic = table(60, 0), table(50, 1)
    before = real.copy(), synthetic.copy()
    measured(real=real, synthetic=synthetic)
    pd.testing.assert_frame_equal(real, before[0])
    pd.testing.assert_frame_equal(synthetic, before[1])


@pytest.mark.parametrize("share", [0.5, 1.0])
def test_training_rows_in_another_order_are_no_holdout(share):
    real = table(200, 0)
    with pytest.raises(InputError, match="holds the rows of the training table"):
        measured(real=real, holdout=real.sample(frac=share, random_state=0))


@pytest.mark.slow
def test_some_training_rows_in_the_holdout_are_told(made):
    real = table(200, 0)
    mixed = pd.concat([real[:60], table(40, 2)])
    assert any(text.startswith("BEWARE: ") for text in measured(real=real, holdout=mixed).summary())
    assert not any("BEWARE" in text for text in made.summary())


def test_a_certificate_of_other_content_is_not_used(caplog):
    """The attrs of a sample, on the rows of the real table: pandas keeps them when cells are replaced."""
    synthetic = table(150, 1)
    attach(synthetic, certificate())
    for column in synthetic.columns:
        synthetic[column] = table(150, 0)[column].to_numpy()
    with caplog.at_level("WARNING"):
        result = measured(synthetic=synthetic)
    assert result.evaluation.certificate is None and NO_CERTIFICATE in result.summary()[1]
    assert len(caplog.records) == 1 and "is not used" in caplog.records[0].getMessage()
    with pytest.raises(InputError, match="without a certificate"):
        evaluate_private(table(200, 0), synthetic, schema=schema(), epsilon=1.0)
    with pytest.raises(InputError, match="without a certificate"):
        given = synthetic.attrs["certificate"]
        evaluate_private(table(200, 0), synthetic, schema=schema(), epsilon=1.0, certificate=given)


@pytest.mark.slow
def test_only_a_checked_signature_makes_a_claim_a_fact(tmp_path):
    """Summary, page and JSON show the claim of an unauthenticated certificate as one."""
    listed = certificate()
    texts = {}
    for authenticated in (False, True):
        result = report(certificate=Verification(listed, 0.997, authenticated=authenticated))
        texts[authenticated] = page(result, tmp_path)
        assert result.to_dict()["evaluation"]["authenticated"] is authenticated
        text = " ".join(result.summary())
        assert ("nobody vouches for this claim" in text) is not authenticated
        assert ("The given key checks the signature" in text) is authenticated
    statement = listed["statement"]
    assert statement in texts[True] and statement not in texts[False]
    assert "nobody vouches for this claim" in texts[False]
    assert "nobody vouches for this claim" not in texts[True]
    # A dict is never authenticated, whatever it holds; a refused one is no certificate.
    assert report(certificate={**listed, "authenticated": True}).evaluation.authenticated is False
    with pytest.raises(InputError, match="was refused: it is forged"):
        measured(certificate=Verification(listed, 0.997, problems=("it is forged",)))
