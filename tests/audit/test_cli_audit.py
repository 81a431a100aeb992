"""``tabsynth audit``: its exit codes, its page and its JSON file."""

import json
import logging

import pytest
from command_lines import refused
from typer.testing import CliRunner

from tabsynth.auditing import canaries, registry, replay_audit
from tabsynth.auditing.outcomes import (
    INCONCLUSIVE,
    NOT_REFUTED,
    REFUTED,
    AuditResult,
    certificate_entries,
    decide_verdict,
    write_json,
)
from tabsynth.auditing.replay import NeighbourReplay, ReplayResult
from tabsynth.auditing.replay_audit import audit_by_replay, summarize_replays
from tabsynth.auditing.request import AuditRequest
from tabsynth.auditing.run_trace import MechanismCall
from tabsynth.cli import app
from tabsynth.errors import FileFormatError, InputError
from tabsynth.privacy.certificate.certificate import code
from tabsynth.synthesizers.margnet.estimator import MargNetMethod
from tabsynth.training.clipping import Bounds


@pytest.fixture(autouse=True)
def few_neighbours(monkeypatch):
    """Of replays: an outlier added, and the same removed."""
    right = replay_audit.neighbours
    monkeypatch.setattr(replay_audit, "neighbours", lambda *args: right(*args)[:2])


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


@pytest.mark.slow
def test_a_claim_that_holds(tmp_path):
    """Exit code 0, and figures that a certificate can carry."""
    out = tmp_path / "new" / "folder"
    done = audit("--method", "pate-gan", "--epsilon", 8, "--runs", 100, "-o", out)
    assert done.exit_code == 0, done.output
    assert "No evidence against the claim" in done.output and "Results:" in done.output
    actual = json.loads((out / "audit.json").read_text())
    assert actual["format"] == "tabsynth-audit/1"
    one = actual["results"][0]
    assert one["method"] == "pate-gan" and one["confidence"] == 0.999
    assert one["epsilon_lower"] <= one["epsilon_claimed"]
    assert one["created"] and one["versions"]["tabsynth"] and one["code"] == code()["sha256"]
    assert one["sentence"] and one["power"]
    assert [item["kind"] for item in actual["results"]] == [*["white-box"] * 4, "replay"]
    played = actual["results"][-1]
    assert played["details"]["first_difference"] is None and played["runs"] == 2
    assert 0.9 < played["details"]["worst_move"] <= 1 + 1e-4
    assert "in 2 of 2 replays" in done.output


@pytest.mark.slow
def test_a_claim_that_does_not_hold_has_exit_code_1(tmp_path, monkeypatch):
    right = Bounds.noise_scales
    monkeypatch.setattr(Bounds, "noise_scales", lambda self: right(self) / 3)
    monkeypatch.setattr(canaries, "STEPS", 2)
    words = ("--method", "dp-gan", "--epsilon", 8, "--runs", 400, "--kind", "white-box")
    done = audit(*words, "-o", tmp_path)
    assert done.exit_code == 1, done.output
    actual = json.loads((tmp_path / "audit.json").read_text())["results"]
    assert REFUTED in [item["verdict"] for item in actual]


def test_a_replay_that_differs_has_exit_code_1(tmp_path, monkeypatch):
    """A count of the rows that is reports without noise is named, on the screen and in the file."""
    right = MargNetMethod.train

    def reports(self, table, *rest):
        logging.getLogger("tabsynth.fit").debug("%d rows", len(table))
        return right(self, table, *rest)

    monkeypatch.setattr(MargNetMethod, "train", reports)
    words = ("--method", "margnet", "--epsilon", 8, "--kind", "replay", "--seeds", 2)
    done = audit(*words, "-o", tmp_path)
    assert done.exit_code == 1, done.output
    (actual,) = json.loads((tmp_path / "audit.json").read_text())["results"]
    assert actual["verdict"] == REFUTED and actual["runs"] == actual["details"]["differ"] == 4
    assert "log record of tabsynth.fit" in actual["details"]["first_difference"]
    assert "outlier added, seed 0: log record of tabsynth.fit" in done.output


def line(move, difference=None, kind="copy"):
    moved = MechanismCall(purpose="counts", uses=1, move=move, distance=move, deviation=1.0)
    actual = ReplayResult(mechanisms=(moved,), first_difference=difference, compared=9)
    return NeighbourReplay(method="margnet", kind=kind, change="added", seed=0, result=actual)


def test_replays_in_one_result():
    assert summarize_replays([line(0.2), line(1.0)], "margnet", 8.0, 1e-5).verdict == NOT_REFUTED
    blind = summarize_replays([line(0.2)], "margnet", 8.0, 1e-5)
    assert blind.verdict == INCONCLUSIVE and "Inconclusive" in blind.sentence
    actual = summarize_replays([line(1), line(2, "<x> is 1, not 0", "null")], "margnet", 8.0, 1e-5)
    assert actual.is_refuted and actual.details["worst_move"] == 2
    assert actual.details["first_difference"] == "null added, seed 0: <x> is 1, not 0"
    assert [n["differ"] for n in actual.details["neighbours"]] == [0, 1]


def test_progress_of_replays_counts_all_seeds():
    reports = []
    audit_by_replay(
        AuditRequest(
            method="margnet", epsilon=60.0, seeds=2, progress=lambda *now: reports.append(now)
        )
    )
    assert reports == [("replay", done, 4) for done in (1, 2, 3, 4)]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--method", "magic", "--epsilon", "1"), "--method"),
        (("--method", "margnet", "--epsilon", "0"), "epsilon"),
        (("--method", "margnet", "--epsilon", "inf"), "finite"),
        (("--method", "margnet", "--epsilon", "1", "--delta", "1"), "delta"),
        (("--method", "margnet", "--epsilon", "1", "--runs", "3"), "runs"),
        (("--method", "margnet", "--epsilon", "1", "--kind", "red-box"), "--kind"),
        (("--method", "margnet", "--epsilon", "1", "--seeds", "0"), "seeds"),
    ],
)
def test_bad_input_has_exit_code_2(tmp_path, words, says):
    refused("audit", *words, "-o", "out", cwd=tmp_path, says=says)


def test_interrupted(tmp_path, monkeypatch):
    def stopped(requested):
        raise KeyboardInterrupt

    monkeypatch.setitem(registry.AUDITS, "replay", stopped)
    words = ("--method", "margnet", "--epsilon", 1, "--kind", "replay", "-o", tmp_path)
    done = audit(*words)
    assert done.exit_code == 130
    assert "run the same command again" in done.stderr and "Traceback" not in done.stderr


def test_kinds_share_a_result():
    """The registry: every audit takes the same request, and gives results of its kind."""
    assert registry.list_kinds("margnet") == tuple(registry.AUDITS)
    requested = AuditRequest(method="margnet", epsilon=8.0, runs=20)
    for kind, run in registry.AUDITS.items():
        for actual in run(requested):
            assert isinstance(actual, AuditResult) and actual.kind == kind


def test_verdicts():
    assert decide_verdict(2.0, 1.0) == REFUTED
    assert decide_verdict(0.5, 1.0) == NOT_REFUTED
    assert decide_verdict(0.5, 1.0, 1.1, 1.0, 1.2, 1.0) == REFUTED
    assert decide_verdict(0.5, 1.0, 0.1, 1.0, 0.84, 1.0) == INCONCLUSIVE
    assert decide_verdict(0.5, 1.0, 0.1, 1.0, 0.86, 1.0) == NOT_REFUTED


def test_an_infinite_bound_is_a_text_in_json(tmp_path):
    write_json([result(epsilon_lower=float("inf"))], tmp_path / "audit.json")
    assert json.loads((tmp_path / "audit.json").read_text())["results"][0]["epsilon_lower"] == "inf"


def test_a_certificate_takes_audits_of_its_own_claim(tmp_path):
    """A part may claim less; a whole fit claims what is certified; what claims nothing is no audit."""
    own = [
        result(epsilon_claimed=1.9),
        result(part="whole fit", epsilon_claimed=7.98),
        result(part="whole fit, mode B", epsilon_claimed=7.99),
        result(kind="replay", part="all that a fit shows", epsilon_lower=None),
    ]
    write_json(own, tmp_path / "audit.json")
    data = json.loads((tmp_path / "audit.json").read_text())
    kept = certificate_entries(data, "audit.json", "dp-gan", 8.0, 1e-5)
    assert [item["epsilon_claimed"] for item in kept] == [1.9, 7.98, 7.99, 8.0]
    for item in kept:
        assert item["code"] == code()["sha256"] and item["versions"]["tabsynth"]
    others = [{"epsilon_claimed": 8.2}, {"method": "margnet"}, {"part": "whole fit", "delta": 0.1}]
    others += [
        {"kind": kind, "epsilon_claimed": 0.001} for kind in ("replay", "black-box", "one-run")
    ]
    others += [
        {"part": part, "epsilon_claimed": 1.0} for part in ("whole fit", "whole fit, mode B")
    ]
    for changes in others:
        item = result(**changes).to_dict()
        with pytest.raises(
            InputError, match="tabsynth audit --method dp-gan --epsilon 8 --delta 1e-05"
        ) as reports:
            certificate_entries({"results": [item]}, "audit.json", "dp-gan", 8.0, 1e-5)
        assert "\n" not in str(reports.value)
    for nothing in (None, "8", True, float("nan")):
        item = {**result().to_dict(), "epsilon_claimed": nothing}
        with pytest.raises((InputError, FileFormatError), match="epsilon"):
            certificate_entries({"results": [item]}, "audit.json", "dp-gan", 8.0, 1e-5)
    del item["epsilon_claimed"]
    with pytest.raises(FileFormatError, match="no number as epsilon_claimed"):
        certificate_entries({"results": [item]}, "audit.json", "dp-gan", 8.0, 1e-5)
