"""Edits of many columns at once, and differences between schemas."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_schema import any_columns

from tabsynth import InputError, Schema
from tabsynth.schema import Column
from tabsynth.schema.editing import Edit, differences, edit, parse_bounds, parse_values

AGE = Column(name="age", kind="numeric", dtype="int64", low=0, high=79, provenance="drafted")
SEX = Column(name="sex", kind="categorical", dtype="str", categories=("f", "m"), other="m")
SCHEMA = Schema(
    [AGE, SEX, Column(**{**SEX.to_dict(), "name": "b"})], impossible=[{"sex": ["f"], "b": ["m"]}]
)

COLUMNS = st.lists(any_columns(), min_size=1, max_size=3, unique_by=lambda c: c.name)


@given(first=COLUMNS, second=COLUMNS)
def test_schemas_differ_where_they_are_not_equal(first: list[Column], second: list[Column]) -> None:
    one, other = (Schema(columns, null_values=["\x00 null \x00"]) for columns in (first, second))
    assert differences(one, one) == []
    assert bool(differences(one, other)) == (one.to_json() != other.to_json())


@given(columns=COLUMNS)
def test_declaring_changes_provenance_and_nothing_else(columns: list[Column]) -> None:
    schema = Schema(columns, null_values=["\x00 null \x00"])
    declared = edit(schema, Edit(declare=schema.names, source="codebook"))
    assert declared.drafted == () and {c.source for c in declared.columns} == {"codebook"}
    own = {"provenance", "source", "copied_from_private_rows"}
    for before, after in zip(schema.columns, declared.columns, strict=True):
        facts = (column.to_dict().items() for column in (before, after))
        assert len({str([(k, v) for k, v in items if k not in own]) for items in facts}) == 1


def test_one_column_is_declared_and_others_are_not() -> None:
    changed = edit(SCHEMA, Edit(facts={"age": {"low": 0, "high": 99}}))
    assert changed.drafted == ("age",) and changed["age"].to_dict()["high"] == 99
    assert edit(SCHEMA, Edit(declare=["age"], source="s")).drafted == ()
    assert edit(SCHEMA, Edit(declare=["sex"], source="s")).drafted == ("age",)


def test_a_dropped_column_takes_its_combinations_along() -> None:
    changed = edit(SCHEMA, Edit(drop=["b"]))
    assert changed.impossible == () and changed.names_left_out == ("b",)
    assert edit(SCHEMA, Edit(drop=["age"])).impossible == SCHEMA.impossible
    assert edit(changed, Edit(drop=["b"])) == changed
    with pytest.raises(InputError, match="leaves out 'b'"):
        edit(changed, Edit(facts={"b": {"kind": "ordinal"}}))


def test_all_columns_that_cannot_be_made_come_together() -> None:
    with pytest.raises(InputError) as caught:
        edit(SCHEMA, Edit(facts={"age": {"low": 9, "high": 1}, "sex": {"kind": "numeric"}}))
    message = str(caught.value)
    assert "2 columns" in message and "low=9" in message and "column 'sex'" in message


def test_new_values_keep_other_only_where_it_is_one_of_them() -> None:
    assert edit(SCHEMA, Edit(facts={"sex": {"categories": ["f", "m", "x"]}}))["sex"].other == "m"
    changed = Schema(SCHEMA.columns[:2])
    assert edit(changed, Edit(facts={"sex": {"categories": ["f", "x"]}}))["sex"].other is None


def test_bounds_and_values_of_the_command_line() -> None:
    assert parse_bounds("0..120") == (0, 120) and parse_bounds("-1.5..2") == (-1.5, 2)
    assert parse_bounds("2020-01-01..2021-12-31") == ("2020-01-01", "2021-12-31")
    assert parse_values('a, "b, c",d') == ["a", "b, c", "d"]
    for text in ("5", "..5", "5.."):
        with pytest.raises(InputError, match="Expected bounds like"):
            parse_bounds(text)


def test_missing_values() -> None:
    changed = edit(SCHEMA, Edit(facts={"age": {"nulls": True}, "b": {"nulls": True}}))
    assert changed["age"].nulls and changed["age"].dtype == "Int64" and changed["b"].dtype == "str"
    assert not edit(changed, Edit(facts={"age": {"nulls": False}}))["age"].nulls
