"""Drafted schemas: what they make of a table, and what they tell a person to review."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tabsynth import InputError, Schema, read_table, write_table
from tabsynth.drafting import draft_schema, review
from tabsynth.encoding import TableEncoder
from tabsynth.tables import read_any


def drafted(values: object, **kwargs: object) -> tuple[str, str, bool]:
    column = draft_schema(pd.DataFrame({"a": pd.Series(values, **kwargs)}))["a"]  # type: ignore[call-overload]
    assert column.provenance == "drafted"
    return column.kind, column.dtype, column.nulls


def test_kinds_and_dtypes() -> None:
    many = list(range(100))
    assert drafted(["x", "y", None]) == ("categorical", "str", True)
    assert drafted(["x"], dtype="string") == ("categorical", "string", False)
    assert drafted(["1", "2"]) == ("categorical", "int64", False)
    assert drafted(["1", None, "3", "2"]) == ("ordinal", "Int64", True)
    assert drafted(list(map(str, many))) == ("numeric", "int64", False)
    assert drafted(["007", "12"]) == ("categorical", "str", False)
    assert drafted(["1.5", "2"]) == ("numeric", "float64", False)
    assert drafted(["1", "x"]) == ("categorical", "str", False)
    assert drafted(many) == ("numeric", "int64", False)
    assert drafted([*many, None]) == ("numeric", "float64", True)
    assert drafted([*many, None], dtype=object) == ("numeric", "Int64", True)
    assert drafted([1, 2, 3], dtype="int8") == ("ordinal", "int8", False)
    assert drafted([1, None], dtype="Int64") == ("categorical", "Int64", True)
    assert drafted([0.5, 1.5], dtype="float32") == ("numeric", "float32", False)
    assert drafted([True, False]) == ("categorical", "bool", False)
    assert drafted([True, None], dtype="boolean") == ("categorical", "boolean", True)
    assert drafted(["b", "a"], dtype="category") == ("categorical", "category", False)
    order = pd.CategoricalDtype(["lo", "mid", "hi"], ordered=True)
    assert drafted(["hi", "lo"], dtype=order) == ("ordinal", "category", False)


def test_facts() -> None:
    order = pd.CategoricalDtype(["lo", "mid", "hi"], ordered=True)
    table = pd.DataFrame(
        {
            "o": pd.Series(["hi", "lo"] * 20, dtype=order),
            "n": np.linspace(-1.25, 7.5, 40),
            "k": np.arange(40) - 3,
            "w": np.arange(40) * 1.0,
        }
    )
    schema = draft_schema(table, ("", "?"))
    assert schema["o"].categories == ("lo", "mid", "hi")
    assert (schema["n"].low, schema["n"].high, schema["n"].resolution) == (-1.25, 7.5, None)
    assert (schema["k"].low, schema["k"].high, schema["k"].resolution) == (-3, 36, 1)
    assert (schema["w"].dtype, schema["w"].resolution) == ("float64", 1)
    assert schema.null_values == ("", "?")


@pytest.mark.parametrize(
    ("table", "part"),
    [
        (pd.DataFrame({"a": []}), "has no rows"),
        (pd.DataFrame(index=[0]), "has no rows"),
        (pd.DataFrame([[1, 2]], columns=["a", "a"]), "column 'a' twice"),
        (pd.DataFrame([[1, 2]], columns=[1, "1"]), "column '1' twice"),
        (pd.DataFrame({"a": [None, None]}), "Column 'a' holds only nulls"),
        (pd.DataFrame({"a": [1.5, np.inf]}), "Column 'a' holds an infinite value"),
        (pd.DataFrame({"a": pd.to_datetime(["2020-01-01"])}), "column 'a': dtype 'datetime64"),
        (pd.DataFrame({"a": [1 + 2j]}), "column 'a': dtype 'complex128'"),
        (pd.DataFrame({"a": [pd.Timestamp("2020-01-01").date()]}), "column 'a'"),
        (pd.DataFrame({"a": [b"x"]}), "column 'a'"),
        (pd.DataFrame({"a": ["x", 1]}, dtype=object), "a mix of text and numbers"),
        (pd.DataFrame({"a": ["x", ""]}), "category '', which null_values reads as null"),
    ],
)
def test_refusals_are_one_line(table: pd.DataFrame, part: str) -> None:
    with pytest.raises(InputError) as caught:
        draft_schema(table)
    assert part in str(caught.value) and "\n" not in str(caught.value)


def test_review_names_every_drafted_column() -> None:
    rows = 2_000
    table = pd.DataFrame(
        {
            "id": [f"p{i}" for i in range(rows)],
            "town": [f"t{i % 1_500}" for i in range(rows // 2)] * 2,
            "one": "x",
            "two": ["x", "y"] * (rows // 2),
            "n": np.linspace(0, 1, rows),
        }
    )
    many = pd.DataFrame({"many": [f"t{i % 1_200}" for i in range(rows * 2)]})
    schema = draft_schema(table)
    lines = review(schema, rows) + review(draft_schema(many), rows * 2)
    expected = {
        "id": "an identifier? Drop it",
        "one": "constant here",
        "two": "2 categories seen in this table (categorical)",
        "n": "bounds [0, 1] are this table's own extremes",
        "many": "1200 categories; group them",
    }
    for name, part in expected.items():
        (line,) = [line for line in lines if line.startswith(f"{name!r}:")]
        assert part in line and "\n" not in line
    declared = Schema.from_dict(
        {
            **schema.to_dict(),
            "columns": [{**c.to_dict(), "provenance": "declared"} for c in schema.columns],
        }
    )
    assert review(declared, rows) == []


CELL = st.none() | st.sampled_from(["x", "y", "007", "1", "-2", "3.5", "1e3", "True", " ", "a,b"])


@settings(
    max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(cells=st.lists(st.tuples(CELL, CELL), min_size=1, max_size=30))
def test_a_drafted_table_encodes_and_comes_back(
    cells: list[tuple[str | None, ...]], tmp_path: Path
) -> None:
    """What was drafted from a CSV file reads that file, and encodes it."""
    table = pd.DataFrame(cells, columns=["a", "b"], dtype="str")
    if table.isna().all().any():
        return
    write_table(table, tmp_path / "t.csv")
    schema = draft_schema(read_any(tmp_path / "t.csv"))
    typed = read_table(tmp_path / "t.csv", schema)
    encoder = TableEncoder(schema)
    index = encoder.to_index(typed)
    back = encoder.from_index(index, np.random.default_rng(0))
    discrete = [c.name for c in schema.columns if c.kind != "numeric"]
    pd.testing.assert_frame_equal(back[discrete], typed[discrete])


def test_a_space_that_only_strip_knows() -> None:
    """Found by fuzzing: the unit separator is a space to str.strip, and to no reader of numbers."""
    schema = draft_schema(pd.DataFrame({"a": ["\x1f.5", "1.5"]}))
    assert (schema["a"].low, schema["a"].high) == (0.5, 1.5)
