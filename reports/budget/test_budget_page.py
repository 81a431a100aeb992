"""The page of budgets is of its results."""

import math
from pathlib import Path

import pytest

from tabsynth.privacy.accounting.accountants import gaussian_mu

PAGE = Path(__file__).with_name("README.md")


def test_the_budget_page_is_of_its_results(script):
    """And the closed form of Gaussians gives the figure that it prints for them."""
    budget = script("budget")
    rows = budget.STUDY.rows()
    assert budget.page(rows) == PAGE.read_text("utf-8")
    assert rows.keys() == budget.SETTINGS.keys() and len(rows) == 20
    row = budget.measure(("one MargNet fit", 1.0))
    assert row.items() <= rows["one MargNet fit, ε = 1"].items()
    assert row["noise_factor_gaussian"] == 1.0
    order = row["order"]
    rho = 1.0 - math.log1p(-1 / order) + math.log(1e-5 * order) / (order - 1)
    factor = gaussian_mu(1.0, 1e-5) / math.sqrt(2 * rho / order)
    assert row["noise_factor_renyi"] == pytest.approx(factor, abs=1e-3)
