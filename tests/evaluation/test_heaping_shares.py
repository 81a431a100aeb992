"""Heaping and broken rules of both tables in an evaluation."""

import numpy as np
import pandas as pd
import pytest

from tabsynth import Categorical, Numeric, Schema, evaluate
from tabsynth.evaluation import EvaluationConfig
from tabsynth.evaluation.column_summaries import clear_multiples, heaping

PRESSURE = Numeric(name="sbp", dtype="Int64", low=60, high=260, nulls=True)


def pressures(share: float, rows: int = 2_000, seed: int = 0) -> pd.Series:
    """Of which so many were read as multiples of 10."""
    rng = np.random.default_rng(seed)
    exact = np.clip(rng.normal(130, 18, rows), 60, 260).round()
    values = np.where(rng.random(rows) < share, 10 * np.round(exact / 10), exact)
    return pd.Series(values, dtype="Int64").mask(pd.Series(rng.random(rows) < 0.05))


def test_shares_of_multiples_are_those_of_the_values() -> None:
    real, synthetic = pressures(0.9), pressures(0.0, seed=1)
    found = heaping(PRESSURE, real, synthetic)
    assert found is not None
    tens, fives = found.multiples
    assert (tens.label, fives.label) == ("multiples of 10", "multiples of 5")
    assert tens.real == pytest.approx(float((real.dropna() % 10 == 0).mean()))
    assert fives.synthetic == pytest.approx(float((synthetic.dropna() % 5 == 0).mean()))
    assert found.gap == pytest.approx(tens.real - tens.synthetic)


def test_even_numbers_of_any_spread_are_not_heaped() -> None:
    rng = np.random.default_rng(0)
    assert heaping(PRESSURE, pressures(0.0), pressures(0.0)) is None
    assert clear_multiples(rng.poisson(3, 3_000).astype(float), 1.0) == ()
    assert (
        clear_multiples(np.where(rng.random(3_000) < 0.9, 0, rng.integers(0, 9_999, 3_000)), 1.0)
        == ()
    )
    assert clear_multiples(rng.normal(0, 30, 3_000), None) == ()
    assert clear_multiples(np.zeros(50), 1.0) == ()


def test_whole_numbers_among_decimals_and_rounded_amounts_are_heaped() -> None:
    rng = np.random.default_rng(0)
    weights = rng.normal(80, 12, 3_000).round(1)
    whole = np.where(rng.random(3_000) < 0.9, weights.round(), weights)
    assert 1.0 in clear_multiples(whole, 0.1) and 10.0 not in clear_multiples(whole, 0.1)
    incomes = rng.lognormal(10, 0.7, 3_000)
    assert 1000.0 in clear_multiples(incomes.round(-3), 1.0)
    assert clear_multiples(pressures(0.3).dropna().to_numpy(dtype=float), 1.0)[-1] == 5.0


def test_declared_heaping_is_shown_even_where_the_table_has_none() -> None:
    declared = Numeric(name="sbp", dtype="Int64", low=60, high=260, nulls=True, heaping=(20,))
    found = heaping(declared, pressures(0.0), pressures(0.0, seed=1))
    assert found is not None and [share.label for share in found.multiples] == ["multiples of 20"]


def test_an_evaluation_counts_broken_rules_of_both_tables() -> None:
    columns = [
        Numeric(name="low", dtype="int64", low=0, high=9),
        Numeric(name="high", dtype="int64", low=0, high=9),
        Categorical(name="sex", dtype="str", categories=("f", "m"), labels={"f": "female"}),
        Categorical(name="pregnant", dtype="str", categories=("no", "yes"), nulls=True),
    ]
    schema = Schema(
        columns,
        impossible=[{"low": [9], "sex": ["m"]}],
        constraints=[
            {"order": ["low", "high"]},
            {"if": {"sex": ["m"]}, "then": {"pregnant": [None]}},
        ],
    )
    rng = np.random.default_rng(0)

    def table(rows: int, broken: int) -> pd.DataFrame:
        lows = np.where(np.arange(rows) < broken, 5, 1)
        sex = rng.choice(["f", "m"], rows)
        pregnant = pd.Series(np.where(np.arange(rows) < 2 * broken, "no", None), dtype="str")
        return pd.DataFrame(
            {"low": lows, "high": 3, "sex": pd.Series(sex, dtype="str"), "pregnant": pregnant}
        )

    real, synthetic = table(200, 0), table(100, 7)
    found = evaluate(
        real, synthetic, schema=schema, config=EvaluationConfig(m=5, k=(1,))
    ).evaluation.rules
    assert found[0].text == "low <= high" and found[2].text.startswith("never low in ")
    assert found[1].text == "if sex is m then pregnant is null"
    order, men, never = found
    assert (order.synthetic, order.training, order.synthetic_share) == (7, 0, 0.07)
    assert (never.synthetic, never.training) == (0, 0)
    count = int(((synthetic["sex"] == "m") & synthetic["pregnant"].notna()).sum())
    assert men.synthetic == count > 0
