"""reports/trust: the records say what its page says, and nothing in them contradicts a claim."""

import json
import runpy
from pathlib import Path

TRUST = Path(__file__).resolve().parents[2] / "reports" / "trust"
MUTANTS = TRUST.parents[1] / "tests" / "mutants"


def record(name):
    return json.loads((TRUST / f"{name}.json").read_text("utf-8"))


def test_audits_hold():
    found = {name: entry["results"] for name, entry in record("audits").items()}
    for name, results in found.items():
        for r in results:
            assert r["verdict"] == "not refuted", name
            assert float(r["epsilon_lower"]) <= r["epsilon_claimed"], name
            assert r["mu_claimed"] is None or r["mu_lower"] <= r["mu_claimed"], name
    for method in ("dp-wgan", "dp-gan", "margnet"):
        (whole,) = (r for r in found[f"white-box {method} 8"] if r["part"] == "whole fit")
        assert whole["mu_estimate"] >= 0.9 * whole["mu_claimed"]


def test_replays_pass():
    cells = [c for s in record("replays")["systems"].values() for c in s["neighbours"].values()]
    assert cells and all(cell["passed"] == cell["runs"] > 0 for cell in cells)


def test_mutants_are_killed():
    known = record("mutants")["mutants"]
    assert known.keys() == {path.stem for path in MUTANTS.glob("*.toml")}
    assert {found["outcome"] for found in known.values()} == {"killed"}


def test_page_is_what_the_records_make():
    page = runpy.run_path(str(TRUST / "run.py"))["page"]()
    assert page == (TRUST / "README.md").read_text("utf-8")
