"""The page of estimates is of its rows, and estimates are as near as the documentation says."""

from pathlib import Path

import estimates


def test_estimates_of_time_are_within_a_factor_of_two():
    rows = estimates.STUDY.rows()
    assert estimates.page(rows) == Path(estimates.__file__).with_name("estimates.md").read_text()
    ratios = {key: row["told"] / row["taken"] for key, row in rows.items()}
    assert ratios and all(0.5 <= ratio <= 2 for ratio in ratios.values()), ratios
