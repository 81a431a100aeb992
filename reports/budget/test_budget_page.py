"""The results of budgets are those of a closed form."""

import math

import pytest

from tabsynth.privacy.accounting.accountants import gaussian_mu


def test_the_closed_form_of_gaussians_gives_the_stored_figure(script):
    budget = script("budget")
    rows = budget.STUDY.rows()
    assert rows.keys() == budget.SETTINGS.keys() and len(rows) == 20
    row = budget.measure(("one MargNet fit", 1.0))
    assert row.items() <= rows["one MargNet fit, ε = 1"].items()
    assert row["noise_factor_gaussian"] == 1.0
    order = row["order"]
    rho = 1.0 - math.log1p(-1 / order) + math.log(1e-5 * order) / (order - 1)
    factor = gaussian_mu(1.0, 1e-5) / math.sqrt(2 * rho / order)
    assert row["noise_factor_renyi"] == pytest.approx(factor, abs=1e-3)
