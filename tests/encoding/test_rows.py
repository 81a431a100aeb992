"""Rows of units: what is used of one unit follows from that unit and the key alone."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from record_replay import units_of

from tabsynth import InputError, Schema
from tabsynth.encoding import TableEncoder
from tabsynth.encoding.rows import Rows, name_of, names_of, rows_within_bound
from tabsynth.schema import Column

KEY, OTHER = b"0123456789abcdef", b"fedcba9876543210"
COLUMN = Column(name="a", kind="ordinal", dtype="int64", categories=tuple(range(50)))


def schema(most: int = 2, **more: Any) -> Schema:
    return Schema([COLUMN], unit="who", max_rows_per_unit=most, **more)


def used(table: pd.DataFrame, most: int = 2, key: bytes = KEY) -> dict[int, list[int]]:
    """The codes that are used, by the hash of their unit."""
    rows = TableEncoder(schema(most)).to_rows(table, key)
    assert isinstance(rows, Rows) and rows.units is not None
    out: dict[int, list[int]] = {}
    for unit, code in zip(rows.units.tolist(), rows.codes[:, 0].tolist(), strict=True):
        out.setdefault(unit, []).append(code)
    return out


def table_of(rows: list[tuple[Any, int]]) -> pd.DataFrame:
    who = pd.Series([name for name, _ in rows]) if rows else pd.Series([], dtype=object)
    return pd.DataFrame({"who": who, "a": pd.Series([code for _, code in rows], dtype="int64")})


UNITS = st.one_of(st.integers(0, 4), st.sampled_from(["0", "x", "y", "1.5"]), st.just(1.5))
ROWS = st.lists(st.tuples(UNITS, st.integers(0, 49)), max_size=25)


@settings(max_examples=40)
@given(
    ROWS, ROWS, st.lists(st.integers(0, 49), min_size=1, max_size=6), st.integers(1, 4), st.data()
)
def test_other_units_change_nothing_for_a_unit(
    before: list[Any], after: list[Any], own: list[int], most: int, data: Any
) -> None:
    """Whatever other units are there, of whatever type, and wherever the rows stand, the same rows are used."""
    results = []
    for others in (before, after):
        rows, place = list(others), 0
        for code in own:  # in their order, anywhere among the others
            place = data.draw(st.integers(place, len(rows)))
            rows.insert(place, (7, code))
            place += 1
        results.append(used(table_of(rows), most))
    alone = used(table_of([(7, code) for code in own]), most)
    ((unit, kept),) = alone.items()
    assert [result[unit] for result in results] == [kept, kept]
    assert len(kept) == min(len(own), most)
    for result in results:
        assert all(len(codes) <= most for codes in result.values())


@settings(max_examples=40)
@given(ROWS, st.integers(1, 3))
def test_a_unit_moves_counts_by_at_most_its_bound(rows: list[Any], most: int) -> None:
    """A unit more, with however many rows, adds at most the bound in L1."""
    codes = list(range(5)) * 2
    whole = [*rows[: len(rows) // 2], *((-1, code) for code in codes), *rows[len(rows) // 2 :]]
    counts = [
        np.bincount(
            np.concatenate([[0], *map(np.array, used(t, most).values())]).astype(int), minlength=50
        )
        for t in (table_of(rows), table_of(whole))
    ]
    assert np.abs(counts[1] - counts[0]).sum() == most
    assert (counts[1] >= counts[0]).all()


def test_the_key_chooses_rows_evenly() -> None:
    """Each of four rows of a unit is one of the two in half of the units; another key chooses others."""
    names = np.repeat([str(i) for i in range(4_000)], 4).astype(object)
    kept = rows_within_bound(names, 2, KEY).reshape(-1, 4)
    assert (kept.sum(1) == 2).all()
    assert np.abs(kept.mean(0) - 0.5).max() < 4 * 0.5 / 4_000**0.5
    pairs = np.unique(kept, axis=0, return_counts=True)[1]
    assert len(pairs) == 6 and np.abs(pairs / 4_000 - 1 / 6).max() < 0.03
    assert (rows_within_bound(names, 2, KEY).reshape(-1, 4) == kept).all()
    assert (
        0.25 < (rows_within_bound(names, 2, OTHER).reshape(-1, 4) == kept).all(1).mean() * 2 < 0.42
    )
    assert (rows_within_bound(names, 2, bytes([*KEY[:-1], 1])).reshape(-1, 4) != kept).any()


def test_a_unit_is_its_value_whatever_dtype_its_column_has() -> None:
    for values in (
        [7, 8],
        [7.0, 8.0],
        pd.array([7, 8], dtype="Int64"),
        np.array([7, 8], "float32"),
    ):
        assert names_of(pd.Series(values)).tolist() == ["7", "8"]
    assert names_of(pd.Series([7, "7.0", 1.5, 2**60 + 1], dtype=object)).tolist() == [
        "7",
        "7.0",
        "1.5",
        str(2**60 + 1),
    ]
    assert name_of(float("inf")) == "inf" and name_of("\ud800") == "\ud800"
    assert len(rows_within_bound(np.array(["\ud800"], dtype=object), 1, KEY)) == 1


def test_units_are_numbered_by_their_hashes() -> None:
    rows = TableEncoder(schema(3)).to_rows(table_of([("x", 1), ("y", 2), ("x", 3)]), KEY)
    names, unit_of_row = units_of(rows) or (None, None)
    assert len(names) == 2 and (np.diff(names.astype(object)) > 0).all()
    assert unit_of_row[0] == unit_of_row[2] != unit_of_row[1]
    assert units_of(np.zeros((2, 1), dtype=int)) is None
    assert units_of(Rows(np.zeros((2, 1), dtype=int), np.ones(2))) is None


def test_tables_without_rows_or_units() -> None:
    empty = TableEncoder(schema()).to_rows(table_of([]), KEY)
    assert len(empty) == 0 and isinstance(empty, Rows)
    with pytest.raises(
        InputError, match="lacks column 'who', the unit of the schema; add it"
    ) as error:
        TableEncoder(schema()).to_rows(pd.DataFrame({"a": [1]}), KEY)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("null", [None, np.nan, pd.NA, pd.NaT])
def test_a_null_is_no_unit(null: Any) -> None:
    with pytest.raises(InputError, match="Column 'who' has a null, and each row is of a unit"):
        TableEncoder(schema()).to_rows(pd.DataFrame({"a": [1, 2], "who": ["x", null]}), KEY)


@pytest.mark.parametrize(("value", "dtype"), [(2.0**53, "float64"), (2.0**24, "float32")])
def test_floats_that_may_be_several_units_are_refused(value: float, dtype: str) -> None:
    """A column that comes in floats has lost which unit a row was of."""
    table = pd.DataFrame({"a": [1, 2], "who": np.array([1, value], dtype=dtype)})
    with pytest.raises(InputError, match=r"Column 'who' has unit .*, which is too large"):
        TableEncoder(schema()).to_rows(table, KEY)
    sound = table.assign(who=np.array([1, value - 1], dtype=dtype))
    assert len(TableEncoder(schema()).to_rows(sound, KEY)) == 2
