"""The page of MargNet is whole while runs are missing, and says so."""

import math
import shutil
import sys
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from tabsynth.privacy.accounting.accountants import gaussian_mu
from tabsynth.synthesizers.margnet.config import MargNetConfig

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "reports" / "benchmark"))
import store  # noqa: E402
from config import Run  # noqa: E402

COST = {"cpu_seconds": 2.0, "seconds": 2.0, "peak_mib": 300.0, "spent": 0.9}


def test_margnets_page_says_what_is_missing_and_what_is_below_the_baseline(
    tmp_path, monkeypatch, script
):
    margnet = script("margnet")
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


class ScoringRunner:
    """A runner whose score of each column is given."""

    def __init__(self, macro):
        self.macro, self.scored_tables = macro, []

    def scored(self, table, folder, synthetic):
        self.scored_tables.append((table, len(pd.read_csv(synthetic))))
        return {"dwpre": self.macro}, None


def test_the_share_of_nearly_constant_columns_in_macro_f1(tmp_path, script):
    """Columns with one value in at least 99% of the rows, and their part of the mean over all columns."""
    folder = tmp_path / "hospital"
    folder.mkdir()
    rows = pd.DataFrame(
        {
            "constant": ["a"] * 200,
            "just": ["a"] * 198 + ["b"] * 2,
            "less": ["a"] * 197 + ["b"] * 3,
            "even": ["a", "b"] * 100,
        }
    )
    rows.to_csv(folder / "train.csv", index=False)
    runner = ScoringRunner({"constant": 1.0, "just": 0.5, "less": 0.4, "even": 0.3})
    row = script("margnet").constant_columns(runner, folder)
    assert row == {"table": "hospital", "columns": 4, "constant": 2, "part": 1.5 / 4}
    assert runner.scored_tables == [("hospital", 200)]


def test_what_nearly_constant_columns_do_to_macro_f1_is_that_of_the_row(script):
    margnet = script("margnet")
    row = {"table": "hospital", "columns": 50, "constant": 12, "part": 0.234}
    text = margnet.chance_in_macro({margnet.CONSTANT_KEY: row})
    assert text.startswith("In 12 of its 50 columns, one value has at least 99% of the rows.")
    # Half of the F1 of one of 50 columns is 0.01 of the mean.
    assert "make 0.234 of" in text and text.endswith("changes the mean by 0.010.")
    assert "not measured" in margnet.chance_in_macro({})


def test_the_noise_of_scores(script):
    """Against the closed form: one Gaussian of the whole budget, its share of it, and the root of the number of pairs."""
    margnet = script("margnet")
    noise = math.sqrt(1128 / MargNetConfig().scores_share) / gaussian_mu(0.5, 1e-5)
    assert f" and {noise:,.0f} of 3,499 rows (hospital, 48 columns)." in margnet.noise_of_scores()


@pytest.mark.data(
    *(f"census_{area}.csv" for area in ("national_2018", "national_2019", "ma_2018", "ma_2019")),
    "diabetes_hospital_5000.csv",
)
def test_the_shapes_of_wide_tables(script):
    margnet = script("margnet")
    assert margnet.WIDE_SHAPES.keys() == {table for table, _ in margnet.WIDE_CELLS}
    for table, shape in margnet.WIDE_SHAPES.items():
        schema, train, _ = margnet.TABLES[table].split()
        assert (len(train), len(schema.names)) == shape


def test_the_code_of_each_epsilon_is_stated(script, monkeypatch):
    margnet = script("margnet")
    rows = [("a1", 0.5), ("a1", 1.0), ("b2", 8.0), ("b2", 8.0), (None, 2.0)]
    stored = {
        str(i): {"table": "census", "system": "margnet", "epsilon": e} | ({"code": c} if c else {})
        for i, (c, e) in enumerate(rows)
    }
    monkeypatch.setattr(margnet, "load_results", lambda: stored)
    text = margnet.codes("census")
    assert text.endswith("`a1` at ε = 0.5, 1; one whose hash was not kept at ε = 2; `b2` at ε = 8.")
    assert margnet.codes("adult").endswith("none yet.")
