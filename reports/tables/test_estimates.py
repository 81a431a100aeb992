"""The page of estimates is of its rows, and estimates are as near as the documentation says."""

import importlib.util
from pathlib import Path

HERE = Path(__file__).parent


def test_estimates_of_time_are_within_a_factor_of_two():
    spec = importlib.util.spec_from_file_location("tables_estimates", HERE / "estimates.py")
    estimates = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(estimates)
    rows = estimates.STUDY.rows()
    assert estimates.page(rows) == (HERE / "estimates.md").read_text("utf-8")
    ratios = {key: row["told"] / row["taken"] for key, row in rows.items()}
    assert ratios and all(0.5 <= ratio <= 2 for ratio in ratios.values()), ratios
