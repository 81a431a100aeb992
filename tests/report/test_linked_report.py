"""The report of linked tables: words, Markdown, and a page that escapes what it shows."""

import sys
from dataclasses import replace
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "evaluation"))

from linked_levels import SCHEMA, frames

from tabsynth import evaluate
from tabsynth.evaluation import EvaluationConfig
from tabsynth.report import Report


@pytest.fixture(scope="module")
def report():
    given = frames(0, 100), frames(1, 100), frames(2, 100)
    return evaluate(
        *given, schema=SCHEMA, label="made <b>", config=EvaluationConfig(each_table=False, m=30)
    )


def test_the_words_of_a_report(report, tmp_path):
    assert report.reports == {}
    words = report.summary()
    assert words[0].startswith("The synthetic tables may not be published. No certificate")
    assert "every row has its parent" in words[1]
    assert any(line.startswith("Pairs of siblings, people: 0.") for line in words)
    assert "no evidence of leakage, which proves nothing" in words[-1].replace("\n", " ")
    frame = report.to_frame()
    assert frame.loc["people.orphans", "value"] == 0
    assert frame.loc["people.group_size", "best"] == 0
    report.to_html(tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    assert "made &lt;b&gt;" in page and "<b>" not in page


def test_a_leak_and_a_claim_are_named(report):
    evaluation = report.evaluation
    presence = evaluation["homes.presence"]
    leak = replace(presence, synthetic=replace(presence.synthetic, value=0.9, low=0.85, high=0.95))
    metrics = tuple(leak if m is presence else m for m in evaluation.metrics)
    claimed = {"private": True, "epsilon": 1.0, "privacy_unit": "one row of table homes"}
    words = Report(replace(evaluation, metrics=metrics, certificate=claimed)).summary()
    assert words[0].startswith(
        "The synthetic tables cannot be cleared for publication. The certificate that came with the table claims ε = 1"
    )
    signed = replace(evaluation, certificate=claimed, authenticated=True)
    words_of_signed = Report(signed).summary()
    assert words_of_signed[0].startswith("The synthetic tables may be published.")
    assert "unit: one row of table homes" in words_of_signed[0]
    assert words[-1].startswith("Evidence of leakage: Presence disclosure")
