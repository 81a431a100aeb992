"""Estimates are as near as the documentation says."""

import estimates


def test_estimates_of_time_are_within_a_factor_of_two():
    rows = estimates.STUDY.rows()
    ratios = {key: row["told"] / row["taken"] for key, row in rows.items()}
    assert ratios and all(0.5 <= ratio <= 2 for ratio in ratios.values()), ratios
