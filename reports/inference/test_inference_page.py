"""The page follows from the stored rows, and the formulas that intervals are compared with are those of textbooks."""

import numpy as np
import pandas as pd
import pytest
from analysed import linear, logistic, means
from coverage_page import page


def test_counts_of_letters():
    row = {
        "classes": {
            "OLS": {
                "covered": "110-",
                "naive": 1,
                "control": 3,
                "z": [0.0, 1.0],
                "wider": [1.0, 1.5],
            },
            "three-way cells": {"covered": "--", "naive": 0, "z": [0.0, 0.0]},
        },
        "code": "x",
    }
    text = page({"census-1-0": row, "census-1-1": row})
    assert "| census: OLS | 75% | 66.7 ± 0.0% | 33.3% | – | – | – |" in text
    assert "three-way cells" not in text  # no fit supports one
    assert (
        "66.7% of all intervals cover the truth. Textbook intervals cover it in 100.0% of cases if"
        " they are computed from the private table, and in 33.3% if from one synthetic table."
        in text
    )
    assert "Too few fits for the coverage of single statistics." in text
    many = page({f"census-1-{seed}": row for seed in range(30)})
    assert "The lowest coverage of a single statistic is 0%, of 3 that 30 fits" in many
    assert "Median widths are 1.00 to 1.00 times" in many
    pooled = {
        "classes": {"OLS": ["110", "01"], "logistic": ["", "1"]},
        "cpu_seconds": 7,
        "code": "x",
    }
    text = page({"implicates-census-1-0": pooled, "implicates-census-1-1": pooled})
    assert "| census: OLS | 66.7 ± 0.0% | 50.0% | – | – |" in text
    assert "| census: logistic | – | 100.0% | – | – |" in text


def test_the_page_says_which_regressions_have_no_textbook_interval():
    row = {
        "draws": 50,
        "intervals": 400,
        "covered": 381,
        "missing": {"job,sex": 30},
        "constant": {"job[4]": 29, "age[1]": 3},
        "sizes": {"job[4]": 1200, "age[1]": 5},
        "code": "x",
    }
    text = page({"textbook-census-50": row, "textbook-hospital-50": {**row, "missing": {}}})
    assert text.count("without a maximum-likelihood estimate") == 1
    assert "In 30 of 50 private census tables, the logistic regression on job and sex" in text
    assert "The category is job[4] in 29 of them (1,200 rows in the population)." in text
    assert "in these 50 tables, it covers 95.2%." in text


def test_a_category_with_one_outcome_leaves_no_estimate():
    """Complete separation: the likelihood grows with the coefficient of the category."""
    table = pd.DataFrame({"y": [0, 1, 0, 1, 1, 1], "job": list("aabbcc"), "x": [0, 1, 0, 1, 1, 0]})
    regression = logistic({"y": 1}, "job")
    assert regression.constant(table) == ["job[c]"]
    with pytest.raises(np.linalg.LinAlgError):
        regression.naive(table)
    less = table[:4]
    assert regression.constant(less) == [] and list(regression.naive(less)[0]) == pytest.approx(
        [0, 0], abs=1e-9
    )
    assert logistic({"y": 1}, "x", numeric=("x",)).constant(table) == []


def test_naive_errors_are_those_of_textbooks():
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"g": rng.integers(0, 2, 500), "x": rng.normal(0, 1, 500)})
    table["y"] = 2 + 3 * table["g"] + rng.normal(0, 1, 500)
    values, errors = means("y", "g").naive(table)
    assert values.loc[1] == pytest.approx(table["y"][table["g"] == 1].mean())
    assert errors.loc[1] == pytest.approx(table["y"][table["g"] == 1].sem())
    beta, _ = linear("y", "g", "x", numeric=("x",)).naive(table)
    design = np.column_stack([np.ones(500), table["g"], table["x"]])
    assert np.allclose(beta, np.linalg.lstsq(design, table["y"], rcond=None)[0])
    odds, error = logistic({"g": 1}, "x", numeric=("x",)).naive(table)
    p = 1 / (1 + np.exp(-(odds["intercept"] + odds["x"] * table["x"])))
    assert abs((table["g"] - p).sum()) < 1e-6 and abs(((table["g"] - p) * table["x"]).sum()) < 1e-6
    assert error["x"] == pytest.approx(1 / np.sqrt(500 * 0.25), rel=0.1)
