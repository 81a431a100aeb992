"""Suggested rules: in schema files, not held in samples, moved to the constraints by a person."""

import json

import pytest
from command_lines import refused, run

from tabsynth import Categorical, Numeric, Schema
from tabsynth.errors import FileFormatError, InputError

COLUMNS = [
    Categorical(name="sex", dtype="str", categories=("f", "m")),
    Categorical(name="pregnant", dtype="str", categories=("no", "yes")),
    Numeric(name="dbp", dtype="int64", low=30, high=160),
    Numeric(name="sbp", dtype="int64", low=60, high=240),
]
SUGGESTED = [
    {"rule": {"order": ["dbp", "sbp"]}, "share": 0.002},
    {"rule": {"if": {"pregnant": ["yes"]}, "then": {"sex": ["f"]}}, "share": 0.0},
]
RELEASED = {
    "mechanisms": [
        {
            "purpose": "suggested rules",
            "mechanism": "Gaussian",
            "noise_multiplier": 20.0,
            "count": 1,
            "details": {},
        }
    ],
    "seeded": False,
}
SCHEMA = Schema(COLUMNS, suggested=SUGGESTED, released=RELEASED)


def test_a_schema_file_keeps_suggestions(tmp_path) -> None:
    SCHEMA.save(tmp_path / "s.json")
    loaded = Schema.load(tmp_path / "s.json")
    assert loaded.fingerprint() == SCHEMA.fingerprint()
    assert json.loads((tmp_path / "s.json").read_text())["suggested"] == SUGGESTED
    assert [rule.text for rule in loaded.suggested_rules] == [
        "dbp <= sbp",
        "if pregnant is yes then sex is f",
    ]
    assert not loaded.rules and not loaded.has_rules and loaded.learned is loaded
    assert loaded.select(["sex", "pregnant"]).suggested == (SUGGESTED[1],)
    assert Schema(COLUMNS).fingerprint() != SCHEMA.fingerprint()


@pytest.mark.parametrize(
    ("suggested", "says"),
    [
        ({"rule": 1}, "to be a list"),
        ([{"rule": {"order": ["dbp", "sbp"]}}], "suggested[0]: expected a dict with the rule"),
        ([{"rule": {"order": ["dbp", "sbp"]}, "share": 1.5}], "from 0 to 1"),
        ([{"rule": {"order": ["dbp", "sbpp"]}, "share": 0}], "suggested[0]: the schema has no"),
    ],
)
def test_what_cannot_be_a_suggestion_is_refused(suggested, says: str) -> None:
    with pytest.raises(InputError) as error:
        Schema(COLUMNS, suggested=suggested, released=RELEASED)
    assert says in str(error.value)


def test_suggestions_without_their_cost_are_refused() -> None:
    with pytest.raises(InputError, match="does not list the mechanisms"):
        Schema(COLUMNS, suggested=SUGGESTED)
    with pytest.raises(FileFormatError, match="suggested must be a list"):
        Schema.from_dict({**SCHEMA.to_dict(), "suggested": 3})


def test_a_person_accepts_suggestions(tmp_path) -> None:
    SCHEMA.save(tmp_path / "s.json")
    said = run(
        "schema", "declare", "s.json", "--accept-suggested", 2, "-o", "t.json", cwd=tmp_path
    )  # fmt: skip
    assert "suggested: removed" in said.stdout and "constraints: added" in said.stdout
    changed = Schema.load(tmp_path / "t.json")
    assert changed.constraints == (SUGGESTED[1]["rule"],) and changed.suggested == (SUGGESTED[0],)
    assert changed.released == RELEASED
    run("schema", "declare", "s.json", "--accept-suggested", "all", cwd=tmp_path)
    assert len(Schema.load(tmp_path / "s.json").rules) == 2
    refused(
        "schema", "declare", "t.json", "--accept-suggested", 5, cwd=tmp_path, says="from 1 to 1"
    )


def test_rules_of_a_dropped_column_go_with_it(tmp_path) -> None:
    ruled = Schema(
        COLUMNS, constraints=[SUGGESTED[1]["rule"]], suggested=SUGGESTED[:1], released=RELEASED
    )
    ruled.save(tmp_path / "s.json")
    run("schema", "declare", "s.json", "--drop", "sex", "--drop", "dbp", cwd=tmp_path)
    changed = Schema.load(tmp_path / "s.json")
    assert not changed.constraints and not changed.suggested
