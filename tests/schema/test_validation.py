"""``Schema.validate`` finds every problem of a table at once; ``draft_schema`` drafts the schema of any table."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tabsynth import InputError, Schema, load_census
from tabsynth.drafting.drafts import draft_schema
from tabsynth.encoding import TableEncoder
from tabsynth.schema import Column

SCHEMA = Schema(
    [
        Column(name="age", kind="numeric", dtype="int64", low=0, high=99, bins=100),
        Column(name="sex", kind="categorical", dtype="str", categories=("f", "m")),
        Column(name="edu", kind="ordinal", dtype="Int64", categories=(1, 2, 3), nulls=True),
    ],
    impossible=[{"age": {"low": 0, "high": 14}, "edu": [3]}],
    left_out=[{"name": "mrn", "reason": "its name"}],
)
GOOD = pd.DataFrame({"age": [5, 70], "sex": ["f", "m"], "edu": pd.array([1, None], dtype="Int64")})


def test_a_table_that_fits_has_no_problem() -> None:
    assert SCHEMA.validate(GOOD) == [] and SCHEMA.validate(GOOD.assign(mrn=[7, 8])) == []
    assert SCHEMA.validate(pl.DataFrame(GOOD.to_dict("list"))) == []
    table, schema = load_census()
    assert schema.validate(table) == []


def test_all_problems_come_together() -> None:
    table = pd.DataFrame(
        {
            "sex": ["f", "x", None, "y", "x"],
            "edu": pd.array([1, 9, 3, 3, 2], dtype="Int64"),
            "age": [200, 5, 6, -1, 50],
            "email": "a@b.c",
        }
    )
    problems = SCHEMA.validate(table)
    assert [(p.column, p.value) for p in problems] == [
        ("email", None),
        ("age", 200),
        ("age", -1),
        ("sex", "x"),
        ("sex", None),
        ("sex", "y"),
        ("edu", 9),
        (None, None),
    ]
    assert "not in the schema" in str(problems[0])
    assert "declares impossible" in problems[-1].message  # the third row, whose sex is null
    assert all("\n" not in str(problem) for problem in problems)
    lacking = SCHEMA.validate(table[["sex"]][:1])
    assert [p.column for p in lacking] == ["age", "edu"] and "is missing" in str(lacking[0])
    twice = pd.concat([GOOD, GOOD[["sex"]]], axis=1)
    assert ["twice" in str(problem) for problem in SCHEMA.validate(twice)] == [True]
    assert "no rows" in str(SCHEMA.validate(GOOD[:0])[0])


def test_texts_of_a_file_are_parsed() -> None:
    texts = pd.DataFrame({"age": ["5", "seven", "1.5"], "sex": "f", "edu": ["1", None, "4"]})
    problems = SCHEMA.validate(texts, parse=True)
    assert [(p.column, p.value) for p in problems] == [
        ("age", "seven"),
        ("age", "1.5"),
        ("edu", "4"),
    ]
    assert {p.column for p in SCHEMA.validate(texts)} == {"age", "edu"}  # numbers are declared


def test_the_list_of_values_is_cut() -> None:
    table = GOOD.iloc[[0] * 50].assign(age=range(100, 150))
    problems = SCHEMA.validate(table)
    assert len(problems) == 11 and "more of its values" in str(problems[-1])


def test_cells_of_several_types() -> None:
    column = Column(name="a", kind="numeric", dtype="float64", low=0, high=5)
    cells = pd.Series([1, True, 1.0, [2], "x", None], dtype=object)
    problems = Schema([column]).validate(pd.DataFrame({"a": cells}))
    assert [p.value for p in problems] == [True, [2], "x", None]


@given(st.lists(st.sampled_from(["f", "m", "x", "y", None, 1]), min_size=1, max_size=30))
def test_a_table_without_a_problem_is_one_that_a_fit_takes(values: list[object]) -> None:
    column = Column(name="s", kind="categorical", dtype="str", categories=("f", "m"))
    table = pd.DataFrame({"s": pd.Series(values, dtype=object)})
    problems = Schema([column]).validate(table)
    assert {p.value for p in problems} == set(values) - {"f", "m"}
    if problems:
        with pytest.raises(InputError):
            TableEncoder(Schema([column])).to_index(table)
    else:
        TableEncoder(Schema([column])).to_index(table)


def test_a_draft_in_python() -> None:
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"age": rng.integers(0, 90, 500), "sex": rng.choice(["f", "m"], 500)})
    drafted = draft_schema(table, min_count=20)
    assert drafted == draft_schema(table, min_count=20) and drafted.drafted == ("age", "sex")
    assert drafted.validate(table) == []
    assert draft_schema(pl.from_pandas(table)).names == ("age", "sex")
