"""Schema files: the published JSON Schema, and errors with line and column."""

import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

import tabsynth.schema
from tabsynth import InputError, Schema
from tabsynth._files import position
from tabsynth.errors import FileFormatError
from tabsynth.schema import Column
from tabsynth.schema.categorical import Ordinal
from tabsynth.schema.column import KINDS, fact_names, register
from tabsynth.schema.schema_file import TOP_LEVEL

PUBLISHED = Path(tabsynth.schema.__file__).with_name("schema-file.schema.json")
ROOT = Path(__file__).parents[2]
_spec = importlib.util.spec_from_file_location(
    "json_schema", ROOT / "docs/reference/json_schema.py"
)
assert _spec is not None and _spec.loader is not None
_program = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_program)
json_schema = _program.json_schema
COLUMN: dict[str, Any] = {"name": "a", "kind": "numeric", "dtype": "int64", "low": 0, "high": 9}
FILE: dict[str, Any] = {"format": "tabsynth-schema/1", "columns": [COLUMN]}


def test_the_published_file_is_that_of_the_code() -> None:
    """In a process of its own: other tests register kinds."""
    script = (
        "import json; from json_schema import json_schema as s; print(json.dumps(s(), indent=2))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=ROOT / "docs/reference",
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(PUBLISHED.read_text("utf-8")) == json.loads(done.stdout), (
        "run: python docs/reference/json_schema.py"
    )


def test_the_bundled_schema_files_are_valid() -> None:
    validator = Draft202012Validator(json_schema())
    Draft202012Validator.check_schema(json_schema())
    for path in (ROOT / "data").glob("*.schema.json"):
        assert [*validator.iter_errors(json.loads(path.read_text("utf-8")))] == []


@pytest.mark.parametrize(
    "change",
    [
        {"colums": []},
        {"null_values": "NA"},
        {"columns": []},
        {"columns": [{**COLUMN, "lo": 1}]},
        {"columns": [{**COLUMN, "low": "0"}]},
        {"columns": [{**COLUMN, "kind": "numerical"}]},
        {"columns": [{**COLUMN, "categories": [1]}]},
        {"columns": [{"name": "a", "dtype": "int64"}]},
    ],
)
def test_the_published_schema_refuses_what_the_code_refuses(change: dict[str, Any]) -> None:
    data = {**FILE, **change}
    assert [*Draft202012Validator(json_schema()).iter_errors(data)]
    with pytest.raises(ValueError):
        Schema.from_dict(data)
    assert not [*Draft202012Validator(json_schema()).iter_errors(FILE)]
    assert Schema.from_dict(FILE).names == ("a",)


def test_every_fact_is_described_and_every_key_is_known() -> None:
    for kind, form in json_schema()["$defs"].items():
        assert set(form["properties"]) >= set(fact_names(KINDS[kind]))
    low = json_schema()["$defs"]["numeric"]["properties"]["low"]
    assert low["type"] == ["number", "null"] and low["description"].startswith("Bounds")
    schema = Schema(
        [Column(**COLUMN), Column(**{**COLUMN, "name": "b"})],
        impossible=[{"a": [1], "b": [1]}],
        left_out=[{"name": "m", "reason": "r"}],
    )
    assert set(schema.to_dict()) <= {*TOP_LEVEL, "columns"}


def test_a_kind_registered_later_adds_its_facts() -> None:
    class Level(Ordinal):
        kind = "level"
        json_types = {**Ordinal.json_types, "unit": str}  # noqa: RUF012

    register(Level)
    try:
        form = json_schema()
        assert form["$defs"]["level"]["properties"]["kind"] == {"enum": ["level"]}
        assert {"const": "level"} in [
            rule["if"]["properties"]["kind"]
            for rule in form["properties"]["columns"]["items"]["allOf"]
        ]
        data = {**FILE, "columns": [{**COLUMN, "kind": "level", "categories": 5}]}
        with pytest.raises(FileFormatError, match="categories=5, of a wrong type"):
            Schema.from_dict(data)
    finally:
        del KINDS["level"]
    with pytest.raises(FileFormatError, match="got 'level'"):
        Schema.from_dict(data)


TEXT = """{
  "format": "tabsynth-schema/1",
  "colums": [],
  "columns": [
    {"name": "a", "kind": "numeric", "dtype": "int64", "low": 0, "high": 9},
    {"name": "b", "kind": "numeric", "dtype": "int64", "low": "0", "hihg": 9},
    {"name": "c", "kind": "number", "dtype": "int64"}, 7
  ]
}
"""


def test_errors_name_line_and_column_of_every_problem(tmp_path: Path) -> None:
    (tmp_path / "s.json").write_text(TEXT)
    with pytest.raises(FileFormatError) as caught:
        Schema.load(tmp_path / "s.json")
    message = str(caught.value)
    lines = TEXT.split("\n")
    for line, part, says in (
        (3, '"colums"', "unknown key 'colums'"),
        (6, '"0"', "column 'b' has low='0', of a wrong type: expected a number"),
        (6, '"hihg"', "column 'b' has unknown key 'hihg'"),
        (7, '"number"', "expected kind of column 'c' to be one of numeric"),
        (7, "7", "a column must be an object, got 7"),
    ):
        place = f"line {line}, column {lines[line - 1].rindex(part) + 1}: "
        assert re.search(re.escape(place) + ".*" + re.escape(says), message), (place, message)
    assert "\n" not in message


def test_a_file_that_is_no_json_names_the_place(tmp_path: Path) -> None:
    (tmp_path / "s.json").write_text('{\n  "format": "tabsynth-schema/1",\n  "columns": [}\n')
    with pytest.raises(FileFormatError, match="not valid JSON, line 3, column 15"):
        Schema.load(tmp_path / "s.json")


@pytest.mark.parametrize(
    ("fact", "error", "says"),
    [
        ('"kind": "numeric", "low": 9, "high": 1', InputError, "low=9 is above high=1"),
        ('"kind": "ordinal", "categories": [1, [2]]', InputError, "category [2] is not text"),
    ],
)
def test_facts_that_contradict_each_other_name_the_line(
    fact: str, error: type[ValueError], says: str, tmp_path: Path
) -> None:
    column = json.dumps(COLUMN)
    text = f'{{"format": "tabsynth-schema/1",\n"columns": [{column},\n {{"name": "b", "dtype": "int64", {fact}}}]}}'
    (tmp_path / "s.json").write_text(text)
    with pytest.raises(error) as caught:
        Schema.load(tmp_path / "s.json")
    assert says in str(caught.value) and "s.json, line 3: column 'b'" in str(caught.value)


def test_a_long_list_of_problems_is_cut() -> None:
    columns = [{**COLUMN, "name": str(i), "lo": 1} for i in range(50)]
    with pytest.raises(FileFormatError) as caught:
        Schema.from_dict({**FILE, "columns": columns})
    assert str(caught.value).count("unknown key") == 5 and "and more" in str(caught.value)


def test_positions() -> None:
    text = '{"a\\"": [1, {"b" : true}],\n "c": "x"}'
    assert position(text, ["c"]) == (2, 7) and position(text, ["c"], key=True) == (2, 2)
    assert position(text, ['a"', 1, "b"]) == (1, text.index("true") + 1)
    assert position(text, ['a"', 5]) == (1, text.index("[") + 1)
    assert position(text, []) == (1, 1) and position("[]", [0]) == (1, 1)


def test_an_editor_may_name_the_json_schema() -> None:
    data = {"$schema": "schema-file.schema.json", **FILE}
    assert Schema.from_dict(data) == Schema.from_dict(FILE)
