"""The page of budgets is of its results."""

import json
import math
from pathlib import Path

import pytest

from tabsynth.privacy.accounting.accountants import gaussian_mu

ROOT = Path(__file__).resolve().parents[2]


def test_the_budget_page_is_of_its_results(monkeypatch, script):
    """And the closed form of Gaussians gives the figure that it prints for them."""
    result = script("budget")
    folder = ROOT / "reports" / "budget"
    results = json.loads((folder / "results.json").read_text("utf-8"))
    assert result.page(results) == (folder / "README.md").read_text("utf-8")
    assert len(results["rows"]) == 2 * len(result.PROJECTS) == 20
    second = result.measured("one MargNet fit", result.PROJECTS["one MargNet fit"], 1.0)
    assert second == results["rows"][0] and second["noise_factor_gaussian"] == 1.0
    order = second["order"]
    rho = 1.0 - math.log1p(-1 / order) + math.log(1e-5 * order) / (order - 1)
    factor = gaussian_mu(1.0, 1e-5) / math.sqrt(2 * rho / order)
    assert second["noise_factor_renyi"] == pytest.approx(factor, abs=1e-3)
