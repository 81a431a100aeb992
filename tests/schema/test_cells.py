"""Cells of numeric columns, against a search of their breaks value by value."""

from bisect import bisect_right
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tabsynth import InputError, Schema
from tabsynth.encoding import TableEncoder
from tabsynth.schema import Column

RNG = np.random.default_rng(0)
INCOME = Column(
    name="income", kind="numeric", dtype="int64", low=-500, high=10**6, breaks=(0, 1, 1000, 10**6)
)


def encoded(column: Column, numbers: Any) -> np.ndarray:
    encoder = TableEncoder(Schema([column]))
    return encoder.to_index(pd.DataFrame({column.name: numbers}, dtype=column.dtype))[:, 0]


@settings(max_examples=60, deadline=None)
@given(data=st.data(), low=st.integers(-50, 50), steps=st.integers(1, 200))
def test_whole_numbers_lie_where_a_search_finds_them(
    data: st.DataObject, low: int, steps: int
) -> None:
    high = low + steps
    breaks = sorted(data.draw(st.sets(st.integers(low + 1, high), min_size=1, max_size=8)))
    column = Column(name="n", kind="numeric", dtype="int64", low=low, high=high, breaks=breaks)
    numbers = np.arange(low, high + 1)
    cells = encoded(column, numbers)
    assert cells.tolist() == [bisect_right(breaks, number) for number in numbers]
    assert column.size == len(breaks) + 1
    # Every value of a cell is drawn, and no other.
    back = TableEncoder(Schema([column])).from_index(np.repeat(cells, 40)[:, None], RNG)["n"]
    np.testing.assert_array_equal(encoded(column, back), np.repeat(cells, 40))


@settings(max_examples=60, deadline=None)
@given(
    breaks=st.sets(st.floats(-1, 1, exclude_min=True, exclude_max=True), min_size=1, max_size=8),
    numbers=st.lists(st.floats(-1, 1), min_size=1, max_size=30),
)
def test_reals_lie_where_a_search_finds_them(breaks: set[float], numbers: list[float]) -> None:
    column = Column(
        name="x", kind="numeric", dtype="float64", low=-1, high=1, breaks=tuple(sorted(breaks))
    )
    for number in [*numbers, *breaks, -1.0, 1.0]:
        assert encoded(column, [number]).tolist() == [bisect_right(sorted(breaks), number)]


def test_a_single_value_keeps_its_rows() -> None:
    """What cells are for: 0 and the top code come back as they were."""
    rows = np.array([-500, -1, 0, 0, 0, 1, 999, 1000, 999_999, 10**6, 10**6])
    cells = encoded(INCOME, rows)
    assert cells.tolist() == [0, 0, 1, 1, 1, 2, 2, 3, 3, 4, 4]
    back = TableEncoder(Schema([INCOME])).from_index(cells[:, None], RNG)["income"].to_numpy()
    assert ((back == 0) == (rows == 0)).all() and ((back == 10**6) == (rows == 10**6)).all()


def test_ranges_of_whole_cells() -> None:
    """The tolerance is a narrow cell's own, not that of the mean cell, which is 250,000 wide."""
    for low, high, cells in [(0, 0, [1]), (1, 10**6, [2, 3, 4])]:
        assert INCOME.mask({"low": low, "high": high}, "x").nonzero()[0].tolist() == cells
    for low, high in [(2, 999), (0, 998), (-499, 0), (1, 999_998)]:
        with pytest.raises(InputError, match="only a part of the cell"):
            INCOME.mask({"low": low, "high": high}, "x")
