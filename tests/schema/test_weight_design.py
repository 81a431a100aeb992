"""Survey weights of a schema: declared by a person, clipped at a public cap, and never learned."""

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tabsynth import Numeric, Schema
from tabsynth.design import MOST_WEIGHTED, Design
from tabsynth.encoding import TableEncoder
from tabsynth.encoding.rows import codes_of, weights_of
from tabsynth.errors import InputError
from tabsynth.privacy.noise.counts import by_value, count_rows

COLUMNS = [Numeric(name="a", dtype="int64", low=0, high=3), Numeric(name="b", dtype="int64", low=0, high=2)]  # fmt: skip
SCHEMA = Schema(COLUMNS, weight="w", max_weight=9)
KEY = bytes(16)


def table(weights: list[float]) -> pd.DataFrame:
    rng = np.random.default_rng(len(weights))
    n = len(weights)
    return pd.DataFrame({"a": rng.integers(0, 4, n), "b": rng.integers(0, 3, n), "w": weights})


@settings(max_examples=40)
@given(st.lists(st.integers(0, 14), max_size=30))
def test_counts_of_whole_weights_are_those_of_repeated_rows(weights: list[int]) -> None:
    frame = table([float(w) for w in weights]).astype({"a": "int64", "b": "int64"})
    encoder, groups = TableEncoder(SCHEMA), by_value(SCHEMA.sizes)
    weighted = encoder.to_rows(frame, KEY)
    times = np.minimum(np.array(weights, dtype=int), 9)
    repeated = codes_of(weighted)[np.repeat(np.arange(len(weights)), times)]
    for columns in ((0,), (1,), (0, 1)):
        ours, theirs = (count_rows(rows, columns, groups) for rows in (weighted, repeated))
        assert np.array_equal(ours, theirs)


@settings(max_examples=40)
@given(
    st.lists(st.floats(0, 1e6), min_size=1, max_size=20),
    st.floats(1e-3, 1e6),
    st.integers(0, 19),
)
def test_one_row_adds_at_most_the_cap(weights: list[float], cap: float, which: int) -> None:
    schema = Schema(COLUMNS, weight="w", max_weight=cap)
    frame = table(weights)
    rows = [TableEncoder(schema).to_rows(f, KEY) for f in (frame, frame.drop(which % len(frame)))]
    one, other = (count_rows(r, (0, 1), by_value(schema.sizes)) for r in rows)
    assert 0 <= np.abs(one - other).sum() <= cap
    # In the arithmetic of the sums: all are multiples of one power of two.
    step = schema.design.step
    assert step is not None and (one / step == np.rint(one / step)).all()
    assert cap / step <= 2.0**24 and math.frexp(step)[0] == 0.5


def test_what_a_row_weighs_does_not_depend_on_others() -> None:
    alone = weights_of(TableEncoder(SCHEMA).to_rows(table([2.3]), KEY))
    mixed = pd.DataFrame({"a": [0, 1], "b": [0, 1], "w": ["2.3", "nonsense"]})
    assert alone is not None and alone[0] == pytest.approx(2.3, abs=1e-5)
    assert Design(weight="w", max_weight=9).weights(mixed[:1])[0] == alone[0]


@pytest.mark.parametrize("value", [-1.0, None, math.inf, math.nan, "many"])
def test_a_weight_that_is_none_is_named(value: object) -> None:
    frame = table([1.0, 2.0, 3.0]).astype({"w": object})
    frame.loc[1, "w"] = value
    with pytest.raises(
        InputError, match=r"Column 'w' has (weight .*|a null), and weights are numbers from 0"
    ):
        TableEncoder(SCHEMA).to_rows(frame, KEY)


def test_the_column_is_needed_by_fits_and_not_by_samples() -> None:
    with pytest.raises(InputError, match="lacks column 'w', the weight of the schema"):
        TableEncoder(SCHEMA).to_rows(table([1.0]).drop(columns="w"), KEY)
    TableEncoder(SCHEMA).to_index(table([1.0]).drop(columns="w"))


@pytest.mark.parametrize(
    ("given_", "says"),
    [
        ({"weight": "w"}, "weight= goes with max_weight="),
        ({"max_weight": 3}, "max_weight= goes with weight="),
        ({"weight": "w", "max_weight": 0}, "max_weight"),
        ({"weight": "w", "max_weight": -3}, "max_weight"),
        ({"weight": "w", "max_weight": 1e10}, "from 9.5e-07 to 1e\\+09"),
        ({"weight": "a", "max_weight": 3}, "is the weight and among the columns that are learned"),
        ({"weight": "", "max_weight": 3}, "Expected weight to be the name of a column"),
        ({"weight": "w", "max_weight": 3, "unit": "w", "max_rows_per_unit": 2}, "both weight and unit"),
    ],
)  # fmt: skip
def test_declarations_that_cannot_be(given_: dict[str, object], says: str) -> None:
    with pytest.raises(InputError, match=says):
        Schema(COLUMNS, **given_)


def test_so_many_weighted_rows_add_up_exactly() -> None:
    """The largest weights of as many rows as may be declared are below 2⁵³ steps."""
    for cap in (1e-6, 0.3, 1.0, 300.0, 1e9):
        step = Design(weight="w", max_weight=cap).step
        assert step is not None and 2 * MOST_WEIGHTED * cap / step <= 2.0**53
