"""Rubin's rules against their formulas, and by simulation."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from tabsynth import InputError
from tabsynth.inference import pool

Q, U = [1.0, 2.0, 4.0], [0.5, 0.7, 0.6]


def test_rubins_rule():
    total, df = 0.6 + 4 / 3 * 7 / 3, 2 * (1 + 0.6 / (4 / 3 * 7 / 3)) ** 2
    out = pool(Q, U, confidence=0.9).iloc[0]
    assert out["estimate"] == pytest.approx(7 / 3)
    assert out["standard_error"] == pytest.approx(np.sqrt(total))
    assert out["df"] == pytest.approx(df)
    width = stats.t.ppf(0.95, df) * np.sqrt(total)
    assert out["high"] - out["estimate"] == pytest.approx(width)


def test_equal_estimates_have_the_variance_within():
    out = pool([3.0, 3.0], [4.0, 4.0]).iloc[0]
    assert out["standard_error"] == 2.0 and np.isinf(out["df"])


def test_series_are_pooled_by_name():
    one, other = pd.Series({"a": 1.0, "b": 5.0}), pd.Series({"b": 7.0, "a": 2.0})
    out = pool([one, other], [one * 0 + 1, other * 0 + 1])
    assert list(out.index) == ["a", "b"]
    assert out["estimate"].tolist() == [1.5, 6.0]


def test_rubins_rule_covers_a_mean_with_noise():
    """A mean is released with noise; imputations draw the noise again."""
    rng = np.random.default_rng(0)
    inside = 0
    for _ in range(400):
        sample = rng.normal(0, 1, 50).mean() + rng.normal(0, 0.2)
        draws = sample + rng.normal(0, 0.2, 20)
        out = pool(draws, np.full(20, 1 / 50)).iloc[0]
        inside += out["low"] <= 0 <= out["high"]
    assert 0.92 <= inside / 400 <= 0.98


@pytest.mark.parametrize(
    ("estimates", "variances", "message"),
    [
        ([1.0], [1.0], "two implicates or more, got 1"),
        (3.0, 1.0, "two implicates or more, got 0"),
        ([1.0, 2.0], [1.0, -1.0], "negative"),
        ([1.0, 2.0], [1.0, 1.0, 1.0], "as many variances"),
        ([1.0, np.nan], [1.0, 1.0], "implicate 2 are not"),
        ([1.0, "x"], [1.0, 1.0], "implicate 2 are not"),
        ([[1.0, 2.0], [1.0]], [[1.0, 2.0], [1.0]], "1 of implicate 2 and 2 of the first"),
        ([pd.Series({"a": 1.0}), pd.Series({"b": 1.0})], [1.0, 1.0], "implicate 2 are not"),
    ],
)
def test_bad_input_is_one_line(estimates, variances, message):
    with pytest.raises(InputError, match=message) as error:
        pool(estimates, variances)
    assert "\n" not in str(error.value)
