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
        ("sex", "x"),
        ("sex", None),
        ("edu", 9),
        (None, None),
    ]
    assert "'email' that the schema does not know" in str(problems[0])
    assert str(problems[1]).startswith("Column 'age': 200 is outside its declared bounds [0, 99]; ")
    for problem in problems[1:3]:
        assert str(problem).endswith(". The same holds for 1 other value.")
    assert "same holds" not in str(problems[3])
    assert "declares impossible" in problems[-1].message  # the third row, whose sex is null
    assert all("\n" not in str(problem) for problem in problems)
    lacking = SCHEMA.validate(table[["sex"]][:1])
    assert [p.column for p in lacking] == ["age", "edu"] and "lacks column" in str(lacking[0])
    twice = pd.concat([GOOD, GOOD[["sex"]]], axis=1)
    assert ["twice" in str(problem) for problem in SCHEMA.validate(twice)] == [True]
    assert "no rows" in str(SCHEMA.validate(GOOD[:0])[0])


def test_texts_of_a_file_are_parsed() -> None:
    texts = pd.DataFrame({"age": ["5", "seven", "1.5"], "sex": "f", "edu": ["1", None, "4"]})
    problems = SCHEMA.validate(texts, parse=True)
    assert [(p.column, p.value) for p in problems] == [
        ("age", "seven"),
        ("edu", "4"),
    ]
    assert "other value." in str(problems[0])  # 1.5
    assert {p.column for p in SCHEMA.validate(texts)} == {"age", "edu"}  # numbers are declared


@pytest.mark.parametrize(
    ("count", "others"), [(1, ""), (3, "2 other values."), (50, "at least 10 other values.")]
)
def test_a_line_counts_values_with_the_same_problem(count: int, others: str) -> None:
    """Different values, however many rows have one; up to ten, so that an error says no more of a table."""
    table = pd.concat([GOOD.iloc[[0] * count].assign(age=range(100, 100 + count))] * 2)
    (problem,) = SCHEMA.validate(table)
    assert problem.value == 100
    assert str(problem).endswith(f"The same holds for {others}" if others else "clip=true.")


def test_texts_for_numbers_are_one_line_for_each_column() -> None:
    names = [f"x{i}" for i in range(8)]
    schema = Schema(
        [Column(name=name, kind="numeric", dtype="float64", low=0, high=99) for name in names]
    )
    table = pd.DataFrame({name: [f"{i},5" for i in range(60)] for name in names})
    problems = schema.validate(table)
    assert [(p.column, p.value) for p in problems] == [(name, "0,5") for name in names]
    expected = "Column 'x7' holds '0,5' where the schema declares numbers; read the file with tabsynth.read_table"
    assert str(problems[7]).startswith(expected) and "at least 10 other" in str(problems[7])
    with pytest.raises(InputError) as caught:
        TableEncoder(schema).to_index(table)
    assert len(str(caught.value).splitlines()) == 10  # the first, how many, and eight
    with pytest.raises(InputError) as caught:  # of one column, too
        TableEncoder(schema.select(["x7"])).to_index(table[["x7"]])
    assert str(caught.value) == str(problems[7])


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
    assert {p.value for p in problems} <= set(values) - {"f", "m"}
    assert bool(problems) == bool(set(values) - {"f", "m"})
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
