"""Schemas: what they refuse, and that they come back from JSON as they were."""

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tabsynth import InputError, Schema, TabsynthError
from tabsynth.encoding import TableEncoder
from tabsynth.errors import FileFormatError
from tabsynth.schema import Column, Design, TableKeys
from tabsynth.schema.schema_file import column_from

TEXT: dict[str, Any] = {
    "name": "a",
    "kind": "categorical",
    "dtype": "str",
    "categories": ("x", "y"),
}
NUMBER: dict[str, Any] = {"name": "a", "kind": "numeric", "dtype": "float64", "low": 0, "high": 9}
MOMENT: dict[str, Any] = {
    **{"name": "a", "kind": "datetime", "dtype": "str"},
    **{"low": "2020-01-01", "high": "2021-01-01"},
}


def refused(message: str) -> bool:
    return "\n" not in message and len(message) < 400


@pytest.mark.parametrize(
    ("change", "part"),
    [
        ({"name": ""}, "name must be text"),
        ({"name": 3}, "name must be text"),
        (
            {"kind": "nominal"},
            "kind of column 'a' to be one of text, identifier, categorical, ordinal, numeric",
        ),
        ({"provenance": "guessed"}, "provenance of column 'a'"),
        ({"dtype": "complex128"}, "'complex128' is not supported"),
        ({"dtype": "int13"}, "pandas knows no dtype 'int13'"),
        ({"dtype": None}, "is not supported"),
        ({"categories": ()}, "column 'a': declare at least one category"),
        ({"categories": ("x", "x")}, "'x' is listed twice"),
        ({"dtype": "int64", "categories": (1, 1.0)}, "listed twice"),
        ({"categories": ("x", None)}, "None is not text, number or bool"),
        ({"dtype": "float64", "categories": (float("nan"),)}, "nan is not text, number or bool"),
        ({"dtype": "float64", "categories": (float("inf"),)}, "inf is not text, number or bool"),
        ({"categories": tuple(map(str, range(100_001)))}, "100001 categories; at most 100000"),
        ({"other": "z"}, "other='z' is not among its categories"),
        ({"categories": (1, 2)}, "dtype str cannot hold category 1"),
        ({"dtype": "int64"}, "dtype int64 cannot hold category 'x'"),
        ({"dtype": "int64", "categories": (1, 2.5)}, "dtype int64 cannot hold category 2.5"),
        ({"dtype": "bool", "categories": (0, 1)}, "dtype bool cannot hold category 0"),
        ({"dtype": "object", "categories": ("x", 1)}, "cannot hold a mix of text and numbers"),
        ({"dtype": "category", "categories": ("x", 1)}, "cannot hold a mix of text and numbers"),
        ({"dtype": "int8", "categories": (1, 128)}, "dtype int8 holds [-128, 127]"),
        ({"dtype": "int64", "categories": (1,), "nulls": True}, "use Int64"),
        ({"dtype": "bool", "categories": (True,), "nulls": True}, "use boolean"),
    ],
)
def test_discrete_columns_are_refused_in_one_line(change: dict[str, Any], part: str) -> None:
    with pytest.raises(InputError) as caught:
        Column(**{**TEXT, **change})
    assert part in str(caught.value) and refused(str(caught.value))


@pytest.mark.parametrize(
    ("change", "part"),
    [
        ({"low": None}, "declare finite bounds"),
        ({"high": float("inf")}, "declare finite bounds"),
        ({"low": -1e308, "high": 1e308}, "declare finite bounds"),
        ({"low": "0"}, "low of column 'a' to be a number"),
        ({"high": float("nan")}, "high of column 'a' to be a number"),
        ({"high": 10**400}, "high of column 'a' to be a number"),
        ({"low": 10}, "low=10 is above high=9"),
        ({"resolution": 0}, "resolution of column 'a' > 0"),
        ({"resolution": -1}, "resolution of column 'a' > 0"),
        ({"resolution": float("inf")}, "resolution of column 'a' > 0"),
        ({"bins": 0}, "bins of column 'a'"),
        ({"bins": 2.5}, "bins of column 'a'"),
        ({"bins": 100_001}, "bins in [1, 100000]"),
        ({"breaks": (1, 2), "bins": 3}, "declare bins or breaks, not both"),
        ({"breaks": (0, 1)}, "rise above low=0 and not pass high=9; got 0 after 0"),
        ({"breaks": (3, 2)}, "got 2 after 3"),
        ({"breaks": (3, 3)}, "got 3 after 3"),
        ({"breaks": (3, 10)}, "got 10 after 3"),
        ({"breaks": (9,)}, "got 9 after 0"),
        ({"breaks": (float("inf"),)}, "got inf after 0"),
        ({"breaks": (float("nan"),)}, "breaks of column 'a' to be a number"),
        ({"breaks": ("1",)}, "breaks of column 'a' to be a number"),
        ({"breaks": (True,)}, "breaks of column 'a' to be a number"),
        ({"breaks": tuple(np.linspace(1e-9, 1, 100_000))}, "fewer than 100000 breaks"),
        ({"dtype": "int64", "breaks": (1.5,)}, "no step of 1 above 0"),
        ({"resolution": 0.5, "breaks": (1.25,)}, "no step of 0.5 above 0"),
        ({"dtype": "str"}, "a numeric column cannot have dtype 'str'"),
        ({"dtype": "bool"}, "a numeric column cannot have dtype 'bool'"),
        ({"dtype": "int64", "low": 0.5}, "must be whole, got 0.5, 9 and 1"),
        ({"dtype": "int64", "resolution": 0.5}, "must be whole"),
        ({"dtype": "uint8", "low": -1}, "dtype uint8 holds [0, 255]"),
        ({"dtype": "Int8", "high": 128}, "dtype Int8 holds [-128, 127]"),
    ],
)
def test_numeric_columns_are_refused_in_one_line(change: dict[str, Any], part: str) -> None:
    with pytest.raises(InputError) as caught:
        Column(**{**NUMBER, **change})
    assert part in str(caught.value) and refused(str(caught.value))


def test_schemas_are_refused_in_one_line() -> None:
    column = Column(**TEXT)
    with pytest.raises(InputError, match="at least one column"):
        Schema([])
    with pytest.raises(InputError, match="column 'a' twice"):
        Schema([column, column])
    with pytest.raises(InputError, match=r"no column 'z'; it has \['a'\]"):
        Schema([column])["z"]
    # What reads as null cannot be a category: it would silently turn into one on the way back.
    with pytest.raises(InputError, match="category 'x', which null_values reads as null"):
        Schema([column], null_values=["x"])
    with pytest.raises(InputError, match="category '', which null_values"):
        Schema([Column(**{**TEXT, "categories": ("", "x")})], null_values=[])


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("", "not valid JSON"),
        ("{", "not valid JSON"),
        ("[" * 100_000, "not valid JSON"),
        ("[]", "got 'list'"),
        ('{"format": "tabsynth-schema/9"}', "got 'tabsynth-schema/9'"),
        ('{"columns": {}}', "columns must be a list"),
        ('{"columns": [], "null_values": [1]}', "null_values[0] must be text"),
        ('{"columns": []}', "at least one column"),
        ('{"columns": [1]}', "a column must be an object"),
        ('{"columns": [{"name": "a"}]}', "lacks 'kind'"),
        ('{"columns": [{"name": "a", "colour": 1}]}', "unknown key 'colour'"),
        ('{"columns": [{"name": "a", "kind": "numeric", "low": "0"}]}', "low='0', of a wrong type"),
        (
            '{"columns": [{"name": "a", "kind": "numeric", "low": true}]}',
            "low=True, of a wrong type",
        ),
        ('{"columns": [{"name": "a", "categories": "xy"}]}', "of a wrong type"),
        ('{"columns": [{"name": "a", "kind": "numeric", "breaks": 3}]}', "of a wrong type"),
        (
            '{"columns": [{"name": "a", "kind": "ordinal", "dtype": "str", "categories": [[]]}]}',
            "[]",
        ),
        (
            '{"columns": [{"name": "a", "kind": "ordinal", "dtype": "str", "labels": {"x": 1}}]}',
            "labels.x=1, of a wrong type: expected text",
        ),
        (
            '{"columns": [{"name": "a", "kind": "numeric", "dtype": "int64", "low": 1e999}]}',
            "'1e999' is not a finite number",
        ),
    ],
)
def test_bad_schema_files_are_refused_in_one_line(text: str, part: str, tmp_path: Path) -> None:
    file = tmp_path / "schema.json"
    file.write_text(text.replace('{"columns"', '{"format": "tabsynth-schema/1", "columns"'))
    with pytest.raises(TabsynthError) as caught:
        Schema.load(file)
    assert part in str(caught.value) and refused(str(caught.value))


def test_unreadable_schema_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(FileFormatError, match="No such file"):
        Schema.load(tmp_path / "none.json")
    with pytest.raises(FileFormatError, match="Is a directory"):
        Schema.load(tmp_path)
    (tmp_path / "latin.json").write_bytes('{"é": 1}'.encode("latin-1"))
    with pytest.raises(FileFormatError, match="not valid JSON"):
        Schema.load(tmp_path / "latin.json")


def test_a_byte_order_mark_is_no_hindrance(tmp_path: Path) -> None:
    schema = Schema([Column(**TEXT)])
    (tmp_path / "s.json").write_text(schema.to_json(), "utf-8-sig")
    assert Schema.load(tmp_path / "s.json") == schema


NAMES = st.text(st.characters(codec="utf-8"), min_size=1, max_size=8)
SMALL = st.text(st.characters(codec="utf-8"), max_size=8)


@st.composite
def any_columns(draw: st.DrawFn) -> Column:
    common = {
        "name": draw(NAMES),
        "provenance": draw(st.sampled_from(["declared", "drafted"])),
        "source": draw(st.none() | SMALL),
        "description": draw(st.none() | SMALL),
    }
    if draw(st.booleans()):
        low, high = sorted(draw(st.tuples(*[st.floats(-1e12, 1e12)] * 2)))
        if low < high and draw(st.booleans()):
            inner = st.floats(low, high, exclude_min=True, exclude_max=True)
            cells: dict[str, Any] = {"breaks": sorted(draw(st.sets(inner, max_size=5)))}
            return Column(kind="numeric", dtype="float64", low=low, high=high, **cells, **common)
        return Column(
            kind="numeric",
            dtype=draw(st.sampled_from(["float64", "Float64"])),
            low=low,
            high=high,
            nulls=draw(st.booleans()),
            clip=draw(st.booleans()),
            bins=draw(st.none() | st.integers(1, 99)),
            # Coarse enough for floats to tell its steps apart between the bounds.
            resolution=draw(
                st.none() | st.floats(max(1e-6, (high - low) / 2**40), 1e6 + high - low)
            ),
            **common,
        )
    values: st.SearchStrategy[Any]
    dtype, values = draw(
        st.sampled_from(
            [
                ("str", st.text(st.characters(codec="utf-8"), min_size=1, max_size=5)),
                ("Int64", st.integers(-(2**62), 2**62)),
                ("float64", st.floats(allow_nan=False, allow_infinity=False)),
                ("boolean", st.booleans()),
            ]
        )
    )
    categories = draw(st.lists(values, min_size=1, max_size=6, unique=True))
    return Column(
        kind=draw(st.sampled_from(["categorical", "ordinal"])),
        dtype=dtype,
        nulls=draw(st.booleans()),
        categories=tuple(categories),
        other=draw(st.none() | st.sampled_from(categories)),
        labels=draw(st.dictionaries(SMALL, SMALL, max_size=3)),
        **common,
    )


@settings(max_examples=60, deadline=None)
@given(columns=st.lists(any_columns(), min_size=1, max_size=4, unique_by=lambda c: c.name))
def test_json_round_trip(columns: list[Column]) -> None:
    # Longer than any category drawn: a category that reads as null is refused, and tested elsewhere.
    schema = Schema(columns, null_values=["\x00 null \x00"])
    back = Schema.from_dict(json.loads(schema.to_json()))
    assert back == schema and back.fingerprint() == schema.fingerprint()
    assert back.to_json() == schema.to_json()
    assert [type(v) for c in back.columns for v in c.categories] == [
        type(v) for c in columns for v in c.categories
    ]


@settings(max_examples=60, deadline=None)
@given(column=any_columns())
def test_every_code_has_a_label_of_its_own_place(column: Column) -> None:
    labels = [column.label(code) for code in range(column.size)]
    assert all(isinstance(label, str) for label in labels)
    if column.nulls:
        assert labels[-1] == "null"
    if column.kind == "numeric":
        edges = column.edges()
        assert len(edges) - 1 + column.nulls == column.size
        assert np.isfinite(edges).all() and (np.diff(edges) >= 0).all()
    else:
        cells = [column.labels.get(str(v), str(v)) for v in column.categories]
        assert labels[: len(cells)] == cells


@pytest.mark.parametrize(
    ("change", "labels"),
    [
        ({"dtype": "int64", "high": 3}, ["0", "1", "2", "3"]),
        ({"dtype": "int64", "bins": 5}, ["0–1", "2–3", "4–5", "6–7", "8–9"]),
        ({"dtype": "int64", "high": 0}, ["0"]),
        ({"bins": 2}, ["0–4.5", "4.5–9"]),
        ({"breaks": (1, 2.5)}, ["0–1", "1–2.5", "2.5–9"]),
        ({"dtype": "int64", "breaks": (1, 8, 9)}, ["0", "1–7", "8", "9"]),
        ({"resolution": 0.5, "breaks": (0.5, 1.5)}, ["0", "0.5–1", "1.5–9"]),
        ({"resolution": 0.5, "high": 1}, ["0", "0.5", "1"]),
        (
            {"dtype": "int64", "low": 10**6, "high": 10**6 + 3, "bins": 2},
            ["1000000–1000001", "1000002–1000003"],
        ),
    ],
)
def test_labels_of_numeric_cells(change: dict[str, Any], labels: list[str]) -> None:
    column = Column(**{**NUMBER, **change})
    assert [column.label(i) for i in range(column.size)] == labels


def test_schema_access() -> None:
    schema = Schema([Column(**TEXT), Column(**{**NUMBER, "name": "b", "provenance": "drafted"})])
    assert schema.names == ("a", "b") and schema.sizes == (2, 64) and schema.drafted == ("b",)
    assert schema.select(["b"]).names == ("b",)
    assert schema.null_values[0] == ""
    other = Schema([Column(**{**TEXT, "categories": ("y", "x")}), schema["b"]])
    assert other.fingerprint() != schema.fingerprint()


def test_saving_writes_the_whole_file_or_none(tmp_path: Path) -> None:
    schema = Schema([Column(**TEXT)])
    schema.save(tmp_path / "s.json")
    assert [f.name for f in tmp_path.iterdir()] == ["s.json"]
    with pytest.raises(InputError, match="Cannot write"):
        schema.save(tmp_path / "none" / "s.json")


def test_what_was_copied_is_marked_in_the_file_and_is_no_fact_of_its_own(tmp_path: Path) -> None:
    """Each drafted column says which of its facts are copies, the file says so once at its top."""
    columns = [Column(**TEXT), Column(**{**NUMBER, "name": "b", "provenance": "drafted"})]
    schema = Schema(columns, left_out=[{"name": "mrn", "reason": "its name"}])
    result = schema.to_dict()
    assert list(result)[:2] == ["format", "copied_from_private_rows"]
    assert "do not publish this file" in result["copied_from_private_rows"]
    assert "copied_from_private_rows" not in result["columns"][0]
    copied = result["columns"][1]["copied_from_private_rows"]
    assert set(copied) >= {"low", "high", "dtype", "nulls"}
    schema.save(tmp_path / "s.json")
    assert Schema.load(tmp_path / "s.json") == schema
    for part in (result, result["columns"][1]):
        del part["copied_from_private_rows"]
    second = Schema.from_dict(result)
    assert second == schema and second.fingerprint() == schema.fingerprint()
    result["columns"][1]["provenance"] = "declared"
    declared = Schema.from_dict(result)
    assert "copied_from_private_rows" not in declared.to_json()
    assert declared.fingerprint() != schema.fingerprint()


def test_columns_that_are_left_out_may_be_in_tables() -> None:
    schema = Schema([Column(**TEXT)], left_out=[{"name": "mrn", "reason": "its name"}])
    assert schema.names_left_out == ("mrn",) and schema.names == ("a",)
    assert schema.fingerprint() != Schema([Column(**TEXT)]).fingerprint()
    value = schema["a"].categories[0]
    for frame in (pd.DataFrame({"a": [value], "mrn": [7]}), pd.DataFrame({"a": [value]})):
        schema.check_columns(frame)
        assert TableEncoder(schema).to_index(frame).shape == (1, 1)
    with pytest.raises(InputError, match="'other' that the schema does not know"):
        schema.check_columns(pd.DataFrame({"a": [value], "mrn": [7], "other": [1]}))
    assert schema.select(["a"]) == schema


@pytest.mark.parametrize(
    ("left_out", "says"),
    [
        ("mrn", "Expected left_out to be a list"),
        (["mrn"], r"left_out\[0\](: expected a dict| must be an object)"),
        ([{"name": "mrn"}], "the name of a column and the reason"),
        ([{"name": 5, "reason": "x"}], "expected name to be text"),
        ([{"name": "mrn", "reason": ""}], "expected reason to be text"),
        ([{"name": "a", "reason": "x"}], "'a' is among the schema's columns, too"),
        ([{"name": "m", "reason": "x"}] * 2, "'m' twice"),
        ([{"name": "m" * 20_000, "reason": "x"}], "longer than"),
    ],
)
def test_what_cannot_be_left_out(left_out: Any, says: str) -> None:
    with pytest.raises(InputError, match=says):
        Schema([Column(**TEXT)], left_out=left_out)
    with pytest.raises(
        TabsynthError, match=says if isinstance(left_out, list) else "must be a list"
    ):
        Schema.from_dict({**Schema([Column(**TEXT)]).to_dict(), "left_out": left_out})


@pytest.mark.parametrize(
    "facts",
    [
        {**NUMBER, "low": np.int64(0), "high": np.float32(9)},
        {**NUMBER, "bins": np.int64(3)},
        {**NUMBER, "breaks": (np.int64(3), np.float32(4.5))},
        {**NUMBER, "resolution": np.float32(0.5), "heaping": [np.int8(3)]},
        {**TEXT, "dtype": "int64", "categories": tuple(np.arange(3)), "other": np.int64(2)},
    ],
)
def test_numbers_of_numpy_are_those_of_python(facts: dict[str, Any], tmp_path: Path) -> None:
    """A minimum that pandas computed is a bound that a file, a certificate and a fingerprint can state."""
    design = Design(
        **{"weight": "w", "max_weight": np.float32(3)},
        **{"unit": "u", "max_rows_per_unit": np.int64(4)},
    )
    schema = Schema([Column(**facts)], **design.parameters())
    schema.save(tmp_path / "schema.json")
    assert Schema.load(tmp_path / "schema.json") == schema
    keys = TableKeys(key="id", parent="p", parent_key="pid", max_children=np.int64(2))
    assert type(keys.max_children) is int


@pytest.mark.parametrize(
    ("facts", "says"),
    [
        ({}, "a column lacks 'name' and 'kind' and 'dtype'"),
        ({**NUMBER, 1: 2}, "column 'a' has unknown key 1"),
        ({**NUMBER, "low": np.int64(0)}, "column 'a' has low=0, of a wrong type"),
        ({**NUMBER, "low": Fraction(1, 2)}, "column 'a' has low=Fraction"),
        (
            {**NUMBER, "bins": 3.0},
            "column 'a' has bins=3.0, of a wrong type: expected a whole number",
        ),
        ({**MOMENT, "resolution": ""}, "column 'a': expected resolution like '1s'"),
    ],
)
def test_facts_of_python_are_checked_as_those_of_a_file(facts: dict[str, Any], says: str) -> None:
    with pytest.raises(TabsynthError) as error:
        column_from(facts, "here")
    assert says in str(error.value) and "\n" not in str(error.value)
