"""The unit of a schema: what it may be, its form in a file, and edits that declare it."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

from tabsynth import InputError, Schema
from tabsynth.design import Design
from tabsynth.errors import TabsynthError
from tabsynth.schema import Column
from tabsynth.schema.editing import Edit, differences, edit

COLUMNS = [
    Column(name=n, kind="ordinal", dtype="int64", categories=(1, 2, 3)) for n in ("a", "b", "who")
]
SCHEMA = Schema(COLUMNS[:2], unit="who", max_rows_per_unit=5)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"unit": "who"}, "unit= goes with max_rows_per_unit="),
        ({"max_rows_per_unit": 3}, "max_rows_per_unit= goes with unit="),
        ({"unit": "", "max_rows_per_unit": 3}, "Expected unit to be the name of a column"),
        ({"unit": 7, "max_rows_per_unit": 3}, "Expected unit to be the name of a column"),
        ({"unit": "who", "max_rows_per_unit": 0}, "max_rows_per_unit"),
        ({"unit": "who", "max_rows_per_unit": 2.5}, "max_rows_per_unit"),
        ({"unit": "who", "max_rows_per_unit": True}, "max_rows_per_unit"),
        ({"unit": "who", "max_rows_per_unit": 10_001}, "from 1 to 10,000"),
        (
            {"unit": "a", "max_rows_per_unit": 3},
            "is the unit and among the columns that are learned",
        ),
        (
            {"unit": "w", "max_rows_per_unit": 3, "weight": "w", "max_weight": 2.0},
            "is both weight and unit",
        ),
    ],
)
def test_what_is_no_unit_is_refused_in_one_line(given: Any, message: str) -> None:
    with pytest.raises(InputError, match=message) as error:
        Schema(COLUMNS[:2], **given)
    assert "\n" not in str(error.value)


def test_the_file_has_the_unit(tmp_path: Any) -> None:
    SCHEMA.save(tmp_path / "s.json")
    again = Schema.load(tmp_path / "s.json")
    assert again == SCHEMA and again.design == Design(unit="who", max_rows_per_unit=5)
    assert again.to_dict()["unit"] == {"column": "who", "max_rows": 5}
    assert again.fingerprint() == SCHEMA.fingerprint()
    others = [Schema(COLUMNS[:2]), Schema(COLUMNS[:2], unit="who", max_rows_per_unit=4)]
    assert len({SCHEMA.fingerprint(), *(s.fingerprint() for s in others)}) == 3
    assert "who" not in SCHEMA.names and "who" not in SCHEMA.learned.names
    assert SCHEMA.learned.unit == SCHEMA.comparable.unit == "who"


@pytest.mark.parametrize(
    "unit", ["who", {"column": "who"}, {"column": "who", "max_rows": "5"}, [1]]
)
def test_a_file_with_another_form_is_refused(unit: Any) -> None:
    with pytest.raises(TabsynthError) as error:
        Schema.from_dict({**SCHEMA.to_dict(), "unit": unit})
    said = str(error.value)
    assert "\n" not in said and ("unit" in said or "max_rows" in said)


def test_tables_are_checked_with_all_other_problems() -> None:
    """A null unit is among the problems of a table, and a table to be compared need not have the column."""
    table = pd.DataFrame({"a": [1, 9], "b": [1, 2], "who": ["x", None]})
    problems = SCHEMA.validate(table)
    assert {p.column for p in problems} == {"a", "who"}
    assert "each row is of a unit; give each such row a unit of its own" in str(problems)
    assert not SCHEMA.validate(table[["a", "b"]].replace(9, 3))


def test_edits_keep_the_unit() -> None:
    before = Schema(COLUMNS[:2])
    after = Schema(COLUMNS[:2], unit="who", max_rows_per_unit=5)
    assert any("unit" in line for line in differences(before, after))
    assert edit(after, Edit(drop=["b"])).unit == "who"


def test_large_floats_are_problems_of_the_unit() -> None:
    table = pd.DataFrame({"a": [1], "b": [1], "who": np.array([2.0**60])})
    assert "too large for a float" in str(SCHEMA.validate(table))
