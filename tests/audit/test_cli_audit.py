"""``tabsynth audit``: its exit codes, its page and its JSON file."""

import json

import numpy as np
import pytest
from command_lines import refused
from typer.testing import CliRunner

from tabsynth.audit import blackbox, registry
from tabsynth.audit.page import render, strip, verdict
from tabsynth.audit.results import INVALID, NOT_REFUTED, REFUTED, AuditResult, judged, write_json
from tabsynth.cli import app
from tabsynth.training.bounds import Bounds


def audit(*words):
    return CliRunner().invoke(app, ["audit", *map(str, words)])


def result(**changes):
    facts = {
        "kind": "white-box",
        "method": "dp-gan",
        "part": "critic",
        "verdict": NOT_REFUTED,
        "sentence": "Not refuted.",
        "epsilon_claimed": 8.0,
        "delta": 1e-5,
        "epsilon_lower": 2.0,
        "mu_claimed": 1.6,
        "mu_estimate": 1.5,
        "mu_lower": 1.2,
        "confidence": 0.999,
        "runs": 100,
        "power": "Little.",
    }
    return AuditResult(**{**facts, **changes})


def test_a_claim_that_holds(tmp_path):
    """Exit code 0, a page of its own, and figures that a certificate can carry."""
    out = tmp_path / "new" / "folder"
    done = audit("--method", "pate-gan", "--epsilon", 8, "--runs", 100, "-o", out)
    assert done.exit_code == 0, done.output
    assert "Not refuted" in done.output and "Page:" in done.output
    found = json.loads((out / "audit.json").read_text())
    assert found["format"] == "tabsynth-audit/1"
    one = found["results"][0]
    assert one["method"] == "pate-gan" and one["confidence"] == 0.999
    assert one["epsilon_lower"] <= one["epsilon_claimed"]
    assert one["created"] and one["versions"]["tabsynth"]
    page = (out / "audit.html").read_text()
    assert "(8, 1e-05)-differential privacy" in page
    assert one["sentence"] in page and one["power"] in page
    for outside in ("http://", "https://", "<script", "url("):
        assert outside not in page


def test_a_claim_that_does_not_hold_has_exit_code_1(tmp_path, monkeypatch):
    right = Bounds.noise_scales
    monkeypatch.setattr(Bounds, "noise_scales", lambda self: right(self) / 3)
    done = audit("--method", "dp-gan", "--epsilon", 8, "--runs", 400, "-o", tmp_path)
    assert done.exit_code == 1, done.output
    found = json.loads((tmp_path / "audit.json").read_text())["results"]
    assert REFUTED in [item["verdict"] for item in found]
    assert "contradict what is claimed" in (tmp_path / "audit.html").read_text()


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--method", "magic", "--epsilon", "1"), "--method"),
        (("--method", "margnet", "--epsilon", "0"), "epsilon"),
        (("--method", "margnet", "--epsilon", "inf"), "finite"),
        (("--method", "margnet", "--epsilon", "1", "--delta", "1"), "delta"),
        (("--method", "margnet", "--epsilon", "1", "--runs", "3"), "runs"),
        (("--method", "margnet", "--epsilon", "1", "--case", "best"), "case"),
        (("--method", "margnet", "--epsilon", "1", "--kind", "red-box"), "--kind"),
    ],
)
def test_bad_input_has_exit_code_2(tmp_path, words, says):
    refused("audit", *words, "-o", "out", cwd=tmp_path, says=says)


def test_votes_have_no_one_run_audit(tmp_path):
    words = ("--method", "pate-gan", "--epsilon", 1, "--kind", "one-run", "-o", tmp_path)
    done = audit(*words)
    assert done.exit_code == 2 and "no one-run audit" in done.stderr


def test_interrupted(tmp_path, monkeypatch):
    def stopped(asked):
        raise KeyboardInterrupt

    monkeypatch.setitem(registry.AUDITS, "black-box", stopped)
    words = ("--method", "margnet", "--epsilon", 1, "--kind", "black-box", "-o", tmp_path)
    done = audit(*words)
    assert done.exit_code == 130
    assert "kept" in done.stderr and "Traceback" not in done.stderr


def test_kinds_share_a_result(tmp_path, monkeypatch):
    """The registry: every audit takes the same request, and gives results that a page can show."""
    assert set(registry.QUICK) <= set(registry.AUDITS)
    rng = np.random.default_rng(0)
    monkeypatch.setattr(blackbox, "small_fit", lambda *_: lambda table: rng.integers(0, 2, (9, 4)))
    asked = registry.Asked(method="pate-gan", epsilon=8.0, folder=tmp_path, runs=20)
    for kind in ("white-box", "black-box"):
        for found in registry.AUDITS[kind](asked):
            assert isinstance(found, AuditResult) and found.kind == kind
            assert found.part in render([found], "pate-gan", 8.0, 1e-5)
    assert [p.name for p in tmp_path.iterdir()] == ["black-box-pate-gan-average.jsonl"]


def test_verdicts():
    assert judged(2.0, 1.0) == REFUTED
    assert judged(0.5, 1.0) == NOT_REFUTED
    assert judged(0.5, 1.0, 1.1, 1.0, 1.2) == REFUTED
    assert judged(0.5, 1.0, 0.1, 1.0, 0.84) == INVALID
    assert judged(0.5, 1.0, 0.1, 1.0, 0.86) == NOT_REFUTED
    assert verdict([result(), result(verdict=REFUTED)])[0] == "bad"
    assert verdict([result(), result(verdict=INVALID)])[0] == "mixed"
    assert verdict([result()])[0] == "good"


def test_page_escapes_what_it_is_given(tmp_path):
    evil = "<b>&\"'"
    page = render([result(part=evil, sentence=evil, power=evil)], evil, 8.0, 1e-5)
    assert "<b>" not in page and "&lt;b&gt;" in page
    write_json([result(epsilon_lower=float("inf"))], tmp_path / "audit.json")
    assert json.loads((tmp_path / "audit.json").read_text())["results"][0]["epsilon_lower"] == "inf"
    words = strip(result())
    assert "claimed 1.6" in words and "at least 1.2" in words and "seen 1.5" in words
    # A replay has no figures, and no strip.
    bare = result(kind="replay", epsilon_claimed=None, mu_claimed=None, runs=None, confidence=None)
    assert strip(bare) == ""
    assert "replay" in render([bare], "dp-gan", 8.0, 1e-5)
