"""Pages of the reports whose rows are the benchmark's: they are whole while runs are missing, and say so."""

import importlib.util
import json
import math
import shutil
import sys
from dataclasses import replace
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "reports" / "benchmark"))
import prediction  # noqa: E402
import store  # noqa: E402
from config import Run  # noqa: E402

from tabsynth.privacy.accounting.accountants import gaussian_mu  # noqa: E402

FIGURES = dict.fromkeys(prediction.NAMES, 0.5)
COST = {"cpu_seconds": 2.0, "seconds": 2.0, "peak_mib": 300.0, "spent": 0.9}


def script(name: str, patch: pytest.MonkeyPatch):
    """A report's run.py as a module, its folder on the path as when it is run."""
    path = ROOT / "reports" / name / "run.py"
    patch.syspath_prepend(str(path.parent))
    spec = importlib.util.spec_from_file_location(f"{name}_run", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def report(monkeypatch):
    return script("pate", monkeypatch)


def test_margnets_page_says_what_is_missing_and_what_is_below_the_floor(tmp_path, monkeypatch):
    margnet = script("margnet", monkeypatch)
    config = replace(margnet.CONFIG, store=tmp_path / "results.json")
    monkeypatch.setattr(margnet, "HERE", tmp_path)
    monkeypatch.setattr(margnet, "CONFIG", config)
    shutil.copy(ROOT / "reports" / "margnet" / "template.md", tmp_path)
    figures = dict.fromkeys(margnet.FIGURES, 0.5) | {"disclose_s1": 0.4, "control_s1": 0.3}
    rows = {
        "hospital-shuffled": {"table": "hospital"} | figures | {"dwpre_macro_mean": 0.45},
    }
    for system, epsilon, macro in (("margnet", 1.0, 0.4), ("margnet", 2.0, 0.6), ("aim", 1.0, 0.5)):
        run = Run("hospital", system, epsilon, 0)
        rows[run.key] = vars(run) | COST | figures | {"dwpre_macro_mean": macro}
    rows[Run("hospital", "aim", 1.0, 0).key] |= {"cpu_seconds": 9.0}
    stopped = Run("adult", "aim", 1.0, 0)
    rows[stopped.key] = vars(stopped) | {"stopped": store.NOT_DONE + "1,200 CPU s"}
    for epsilon in (1.0, 8.0):
        run = Run("adult", "margnet", epsilon, 0)
        rows[run.key] = vars(run) | COST | figures
    store.add(config.store, rows)
    margnet.write_readme()
    page = (tmp_path / "README.md").read_text("utf-8")
    assert "<!--" not in page
    assert (
        "Macro F1 is below theirs (0.450) in 1 of 3 cells that were run: **MargNet** at ε = 1 (0.400)"
        in page
    )
    assert "weighted F1 is not below theirs (0.500) in any of 3 cells" in page
    assert "| Adult, 14 columns | 2 | +10.0 ± 0.0 | – | +10.0 | – | +10.0 | 2 of 2 | 0.2 |" in page
    assert "4 of **MargNet**'s 4 cells are above the control's interval" in page
    assert (
        "| 4.5 | 1 not done, 1 not tried |" in page
    )  # AIM's time over MargNet's, cells it did not end
    assert page.count("- MST: ε = 0.5, 1, 2, 8, seeds 0, 1, 2") == 4  # every table
    assert "| AIM | 1 | not done in 1,200 CPU s |" in page
    assert "| AIM | 2 | not tried (not done at ε = 1) |" in page
    assert "- **MargNet**: ε = 0.5, 8, seeds 0, 1, 2; ε = 1, 2, seeds 1, 2" in page


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
    told = page()
    assert "| PATE-GAN | 1 | 0.850 ± 0.071 | 0.500 ± 0.000 | 0.500 ± 0.000 | 2 | 800 | 2 |" in told
    assert "Of 120 runs 3 ended, 1 were stopped, 14 more were not tried for that." in told
    assert (
        "**102 are still to be made** (PATE-GAN 28, PATE-GAN, `paper` 30, PATE-ACGAN 29, DP-WGAN 15)"
        in told
    )
    assert "- PATE-GAN: ε = 1, seeds 2, 3, 4; ε = 8, 20, seeds 0, 1, 2, 3, 4" in told
    assert "ahead at 0 of 1 ε, by -0.050 AUROC on average" in told
    assert (
        "| DP-WGAN | 1 | not done in 1,200 CPU s |" in told
        and "| DP-WGAN | 8 | not tried (not done at ε = 1) |" in told
    )
    widths = {line.count("|") for line in told.splitlines() if line.startswith("| DP-WGAN")}
    assert widths == {9}
    store.add(config.store, {r.key: vars(r) | COST | FIGURES for r in config.runs()})
    assert "All runs of this table were made." in page() and "still to be made" not in page()


def test_the_study_of_teachers_keeps_its_rows_and_nothing_else(report):
    rows = json.loads((ROOT / "reports" / "pate" / "results.json").read_text("utf-8"))
    assert rows.keys() <= {run.key for run in report.STUDY} and len(rows) >= 6
    assert len(report.STUDY) == 36 and report.STUDY[0].key == "census-50-eps1-seed0"


def test_the_budget_page_is_of_its_results(monkeypatch):
    """And the closed form of Gaussians gives the figure that it prints for them."""
    found = script("budget", monkeypatch)
    folder = ROOT / "reports" / "budget"
    results = json.loads((folder / "results.json").read_text("utf-8"))
    assert found.page(results) == (folder / "README.md").read_text("utf-8")
    assert len(results["rows"]) == 2 * len(found.PROJECTS) == 20
    again = found.measured("one MargNet fit", found.PROJECTS["one MargNet fit"], 1.0)
    assert again == results["rows"][0] and again["noise_factor_gaussian"] == 1.0
    order = again["order"]
    rho = 1.0 - math.log1p(-1 / order) + math.log(1e-5 * order) / (order - 1)
    factor = gaussian_mu(1.0, 1e-5) / math.sqrt(2 * rho / order)
    assert again["noise_factor_renyi"] == pytest.approx(factor, abs=1e-3)


def test_the_page_of_gans_marks_unknown_code_and_says_what_is_missing(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "run", None)  # so that it is as before, after the test
    monkeypatch.delitem(sys.modules, "run")  # another report's, of the same name
    gans = script("gans", monkeypatch)
    shutil.copy(ROOT / "reports" / "gans" / "template.md", tmp_path)
    monkeypatch.setattr(gans, "HERE", tmp_path)
    monkeypatch.setattr(gans, "RESULTS", tmp_path / "results.json")
    rows = {}
    for name, epsilon, seed, tvd in (
        ("dp-gan-clusters", 1.0, 0, 0.25),
        ("dp-gan-clusters", 1.0, 1, 0.35),
        ("dp-wgan-sat", 8.0, 0, 0.25),
        ("tried-advanced-0.003-0.0005-mean", 1.0, 0, 0.25),
    ):
        rows[f"{name}-eps{epsilon:g}-seed{seed}"] = {
            "system": name,
            "epsilon": epsilon,
            "seed": seed,
            "spent": 0.9,
            "fit_seconds": 2.0,
            "yardstick": dict.fromkeys(gans.MEASURES, 0.5) | {"tvd2": tvd},
            "critic_per_generator": None,
        }
        if name == "dp-gan-clusters":
            rows[f"{name}-eps{epsilon:g}-seed{seed}"]["code"] = "0" * 12
    gans.RESULTS.write_text(json.dumps(rows))
    gans.write_readme()
    page = (tmp_path / "README.md").read_text("utf-8")
    assert "<!--" not in page
    assert "| DP-GAN advanced-clusters | 1 | 0.900 | 0.500 ± 0.000 | 0.300 ± 0.071 |" in page
    assert "| DP-WGAN with DP-SAT † | 8 | 0.900 | 0.500 | 0.250 |" in page
    assert (
        "DP-GAN advanced-clusters, ε = 1, seeds 2; DP-GAN advanced-clusters, ε = 8, seeds 0, 1, 2;"
        in page
    )
    assert (
        "DP-WGAN with DP-SAT, ε = 1, seeds 0, 1, 2; DP-WGAN with DP-SAT, ε = 8, seeds 1, 2;" in page
    )
    assert "| `advanced` | 0.003 | 0.0005 | mean | 1 | 0.500 | 0.250 |" in page
