"""The page of PATE is whole while runs are missing, and says so."""

import json
import shutil
import sys
from dataclasses import replace
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "reports" / "benchmark"))
import prediction  # noqa: E402
import store  # noqa: E402
from config import Run  # noqa: E402

FIGURES = dict.fromkeys(prediction.NAMES, 0.5)
COST = {"cpu_seconds": 2.0, "seconds": 2.0, "peak_mib": 300.0, "spent": 0.9}


@pytest.fixture
def report(script):
    return script("pate")


def test_pates_page_says_what_is_missing(report, tmp_path, monkeypatch):
    shutil.copy(ROOT / "reports" / "pate" / "template.md", tmp_path)
    config = replace(report.CONFIG, store=tmp_path / "results.json")
    monkeypatch.setattr(report, "HERE", tmp_path)
    monkeypatch.setattr(report, "CONFIG", config)

    def page() -> str:
        report.write_readme()
        return (tmp_path / "README.md").read_text("utf-8")

    assert "<!--" not in page()
    assert "**120 are still to be made** (PATE-GAN 30," in page()
    assert "rests on no run of the tables above" in page()
    rows = {}
    for system, seed, auroc in (("pate-gan", 0, 0.8), ("pate-gan", 1, 0.9), ("pate-acgan", 0, 0.8)):
        run = Run("adult", system, 1.0, seed)
        rows[run.key] = vars(run) | COST | FIGURES | {"tstr_auroc": auroc, "teachers": 800}
    old = Run("adult", "dp-wgan", 1.0, 0)  # of the benchmark, without the scores
    rows[old.key] = vars(old) | COST | {"tvd2": 0.1}
    run = Run("hospital", "dp-wgan", 1.0, 0)
    rows[run.key] = vars(run) | {"stopped": store.NOT_DONE + "1,200 CPU s"}
    store.add(config.store, rows)
    text = page()
    assert "| PATE-GAN | 1 | 0.850 ± 0.071 | 0.500 ± 0.000 | 0.500 ± 0.000 | 2 | 800 | 2 |" in text
    assert "Of 120 runs 3 ended, 1 were stopped, 14 more were not tried for that." in text
    assert (
        "**102 are still to be made** (PATE-GAN 28, PATE-GAN, `paper` 30, PATE-ACGAN 29, DP-WGAN 15)"
        in text
    )
    assert "- PATE-GAN: ε = 1, seeds 2, 3, 4; ε = 8, 20, seeds 0, 1, 2, 3, 4" in text
    assert "ahead at 0 of 1 ε, by -0.050 AUROC on average" in text
    assert (
        "| DP-WGAN | 1 | not done in 1,200 CPU s |" in text
        and "| DP-WGAN | 8 | not tried (not done at ε = 1) |" in text
    )
    widths = {line.count("|") for line in text.splitlines() if line.startswith("| DP-WGAN")}
    assert widths == {9}
    store.add(config.store, {r.key: vars(r) | COST | FIGURES for r in config.runs()})
    assert "All runs of this table were made." in page() and "still to be made" not in page()


def test_the_study_of_teachers_keeps_its_rows_and_nothing_else(report):
    rows = json.loads((ROOT / "reports" / "pate" / "results.json").read_text("utf-8"))
    assert rows.keys() <= {run.key for run in report.STUDY} and len(rows) >= 6
    assert len(report.STUDY) == 36 and report.STUDY[0].key == "census-50-eps1-seed0"
