"""Structural zeros of a schema: what they mean, what is refused, JSON, tables that break them."""

import json
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tabsynth import InputError, Schema
from tabsynth.encoding import TableEncoder
from tabsynth.errors import FileFormatError
from tabsynth.schema import Column
from tabsynth.schema.schema import zeros

AGE = Column(name="AGEP", kind="numeric", dtype="int64", low=0, high=99, bins=20)
MARRIED = Column(
    name="MSP", kind="categorical", dtype="str", categories=("1", "2", "6"), nulls=True
)
SCHOOL = Column(name="EDU", kind="ordinal", dtype="Int64", categories=(1, 2, 3, 4), nulls=True)
SHARE = Column(name="S", kind="numeric", dtype="float64", low=0, high=1, bins=10)
COLUMNS = [AGE, MARRIED, SCHOOL, SHARE]
CHILD = {"AGEP": list(range(15)), "MSP": ["1", "2"]}
MORE = {"AGEP": {"low": 0, "high": 4}, "EDU": {"low": 2, "high": 4}, "S": {"low": 0.3, "high": 1}}


def people(**changes: Any) -> pd.DataFrame:
    parameters = {"AGEP": [3, 40], "MSP": ["6", "1"], "EDU": [1, 3], "S": [0.1, 0.5]}
    return pd.DataFrame({**parameters, **changes})


def test_what_a_combination_means() -> None:
    """By category codes: lists, ranges, nulls; the cells of a number are 0–4, 5–9, …"""
    child, more, adult = zeros(
        COLUMNS, [CHILD, MORE, {"AGEP": {"low": 15, "high": 99}, "MSP": (None,)}]
    )
    assert np.flatnonzero(child[0]).tolist() == [0, 1, 2]
    assert child[1].tolist() == [True, True, False, False]
    assert more[0].sum() == 1 and more[2].tolist() == [False, True, True, True, False]
    assert np.flatnonzero(more[3]).tolist() == [3, 4, 5, 6, 7, 8, 9]
    assert adult[0].tolist() == [False] * 3 + [True] * 17
    assert adult[1].tolist() == [False, False, False, True]


@pytest.mark.parametrize(
    ("impossible", "part"),
    [
        (5, "Expected impossible to be a list of dicts, got 5"),
        ([["AGEP"]], "impossible[0]: expected a dict of two or more columns"),
        ([CHILD, {"MSP": ["1"]}], "impossible[1]: expected a dict of two or more columns"),
        ([{**CHILD, "JOB": [1]}], "the schema has no column 'JOB'"),
        ([{**CHILD, "MSP": []}], "expected a list of values or a range, got []"),
        ([{**CHILD, "MSP": "1"}], "expected a list of values or a range, got '1'"),
        ([{**CHILD, "MSP": ["3"]}], "column 'MSP' has no value '3'; it has '1', '2', '6' and"),
        ([{**CHILD, "MSP": [1]}], "has no value 1;"),
        ([{**CHILD, "MSP": [["1"]]}], "has no value ['1'];"),
        ([{**CHILD, "MSP": {"low": "1", "high": "2"}}], "no order; list the values"),
        ([{**CHILD, "EDU": {"low": 3, "high": 2}}], "low=3 is above high"),
        ([{**CHILD, "EDU": {"low": 3}}], "expected a range to be {'low': a, 'high': b}"),
        ([{**CHILD, "EDU": {"low": 0, "high": 3}}], "has no value 0"),
        ([{**CHILD, "AGEP": [None]}], "has no value None; it has whole numbers"),
        ([{**CHILD, "AGEP": [3]}], "only a part of the cell 0–4 is listed; list all"),
        ([{**CHILD, "AGEP": [0, 1, 2, 3, 3]}], "only a part of the cell 0–4"),
        ([{**CHILD, "AGEP": [100]}], "has no value 100; it has whole numbers from 0 to 99"),
        ([{**CHILD, "AGEP": ["3"]}], "has no value '3'"),
        ([{**CHILD, "AGEP": [2.5]}], "has no value 2.5; it has whole numbers"),
        ([{**CHILD, "AGEP": {"low": 0, "high": 15}}], "only a part of the cell 15–19 is listed"),
        ([{**CHILD, "S": [0.5]}], "give a range of whole cells"),
        ([{**CHILD, "S": {"low": 0.25, "high": 1}}], "nearest of whole cells is 0.2 to 1"),
    ],
)
def test_wrong_combinations_are_one_line(impossible: Any, part: str) -> None:
    with pytest.raises(InputError) as caught:
        Schema(COLUMNS, impossible=impossible)
    assert part in str(caught.value)
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 300


def test_impossible_in_json() -> None:
    """They come back as they were; a file without them is as it was before there were any."""
    schema = Schema(COLUMNS, impossible=[CHILD, MORE])
    back = Schema.from_dict(json.loads(schema.to_json()))
    assert back == schema and back.fingerprint() == schema.fingerprint()
    assert back.impossible[0] == {"AGEP": tuple(range(15)), "MSP": ("1", "2")}
    plain = Schema(COLUMNS)
    assert "impossible" not in plain.to_dict() and plain.fingerprint() != schema.fingerprint()
    assert plain.fingerprint().startswith("92cd1355c67abf59")  # as it was before
    with pytest.raises(FileFormatError, match="impossible must be a list"):
        Schema.from_dict({**plain.to_dict(), "impossible": {}})
    assert schema.select(["S", "MSP", "AGEP"]).impossible == schema.impossible[:1]


def test_numpy_and_pandas_values_are_plain() -> None:
    given = [{"AGEP": range(5), "MSP": [pd.NA, "1"]}, {"EDU": [np.int64(2), np.nan], "MSP": ["1"]}]
    schema = Schema(COLUMNS, impossible=given)
    assert json.loads(schema.to_json())["impossible"] == [
        {"AGEP": [0, 1, 2, 3, 4], "MSP": [None, "1"]},
        {"EDU": [2, None], "MSP": ["1"]},
    ]


def test_impossible_rows_are_refused_in_tables() -> None:
    """As an undeclared category is, by the columns and the combination."""
    encoder = TableEncoder(Schema(COLUMNS, impossible=[CHILD, MORE]))
    assert len(encoder.to_index(people())) == 2
    with pytest.raises(InputError) as caught:
        encoder.to_index(people(MSP=["1", "1"]))
    assert str(caught.value) == (
        "The table has a row with {'AGEP': 0–4, 'MSP': 1}, which the schema declares impossible;"
        " correct it, or take the combination out of the schema."
    )
    assert len(encoder.to_index(people(EDU=[2, 3]))) == 2  # S is the third of that combination
    with pytest.raises(InputError) as caught:
        encoder.to_index(people(EDU=[2, 3], S=[0.35, 0.5]), "private table")
    assert "private table has a row with {'AGEP': 0–4, 'EDU': 2, 'S': 0.3–0.4}" in str(caught.value)


@settings(max_examples=60, deadline=None)
@given(
    bins=st.integers(1, 12),
    high=st.integers(0, 30),
    cells=st.data(),
)
def test_lists_and_ranges_of_whole_cells_agree(bins: int, high: int, cells: st.DataObject) -> None:
    """Of whole numbers: all numbers of some neighbouring cells, listed or as a range."""
    column = Column(name="n", kind="numeric", dtype="int64", low=0, high=high, bins=bins)
    first = cells.draw(st.integers(0, column.size - 1))
    last = cells.draw(st.integers(first, column.size - 1))
    numbers = np.arange(high + 1)
    edges = column.edges()
    holdout = numbers[(numbers > edges[first]) & (numbers < edges[last + 1])].tolist()
    both = [
        {"n": holdout, "MSP": ["1"]},
        {"n": {"low": holdout[0], "high": holdout[-1]}, "MSP": ["1"]},
    ]
    listed, ranged = zeros([column, MARRIED], Schema([column, MARRIED], impossible=both).impossible)
    np.testing.assert_array_equal(listed[0], ranged[0])
    assert np.flatnonzero(listed[0]).tolist() == list(range(first, last + 1))
