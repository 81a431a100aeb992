"""The page of GANs is whole while runs are missing, and says so."""

import json
import shutil
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_the_page_of_gans_marks_unknown_code_and_says_what_is_missing(
    tmp_path, monkeypatch, script
):
    monkeypatch.setitem(sys.modules, "run", None)  # so that it is as before, after the test
    monkeypatch.delitem(sys.modules, "run")  # another report's, of the same name
    gans = script("gans")
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
