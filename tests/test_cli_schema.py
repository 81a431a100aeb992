"""``tabsynth schema`` at the command line: check, import, edit and diff."""

import json

import pandas as pd
import pytest
from command_lines import refused, run

from tabsynth import Schema
from tabsynth.schema import Column
from tabsynth.schema.editing import differences

SCHEMA = Schema(
    [
        Column(name="age", kind="numeric", dtype="int64", low=0, high=99),
        Column(name="sex", kind="categorical", dtype="str", categories=("f", "m")),
    ]
)


@pytest.fixture
def folder(tmp_path):
    SCHEMA.save(tmp_path / "schema.json")
    good = pd.DataFrame({"age": [i % 9 * 10 for i in range(360)], "sex": ["f", "m"] * 180})
    good.to_csv(tmp_path / "good.csv", index=False)
    good.assign(age=[*range(90)] * 3 + [7] * 88 + [200, 300], sex="x").to_csv(
        tmp_path / "bad.csv", index=False
    )
    good.assign(age=[*range(90)] * 3 + [7] * 88 + [200, 300]).to_parquet(tmp_path / "bad.parquet")
    return tmp_path


def test_check_lists_every_problem_in_a_line_each(folder):
    assert run("schema", "check", "good.csv", "schema.json", cwd=folder).stdout.startswith(
        "good.csv fits schema.json"
    )
    done = run("schema", "check", "bad.csv", "schema.json", cwd=folder, code=2)
    lines = done.stdout.splitlines()
    assert [line.split(":")[0] for line in lines] == ["Column 'age'", "Column 'sex'"]
    assert "200" in lines[0] and "1 other value" in lines[0] and "'x'" in lines[1]
    assert done.stderr == "error: bad.csv does not fit schema.json: 2 problems, listed above.\n"
    done = run("schema", "check", "bad.parquet", "schema.json", cwd=folder, code=2)
    assert len(done.stdout.splitlines()) == 1


def test_a_draft_is_written_as_before(folder):
    done = run("schema", "draft", "good.csv", "-o", "draft.json", cwd=folder)
    assert done.stdout.startswith("Drafted draft.json: 2 columns.")
    assert Schema.load(folder / "draft.json").drafted == ("age", "sex")
    commands = ("draft", "check", "import", "declare")
    assert all(name in run("schema", "--help", cwd=folder).stdout for name in commands)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("draft", "none.csv", "-o", "x.json"), "none.csv"),
        (("check", "good.csv", "none.json"), "none.json"),
        (("check", "good.csv", "good.csv"), "not valid JSON"),
    ],
)
def test_what_is_refused(folder, words, says):
    refused("schema", *words, cwd=folder, says=says)


def test_a_misspelt_key_stops_a_fit(folder):
    text = json.loads((folder / "schema.json").read_text())
    (folder / "schema.json").write_text(json.dumps({**text, "imposible": []}, indent=1))
    words = ("fit", "good.csv", "--schema", "schema.json", "--epsilon", 1, "-o", "m")
    refused(*words, cwd=folder, says="unknown key 'imposible'")


def test_import(folder):
    (folder / "book.csv").write_text("name,kind,dtype\nid,identifier,str\nage,,\nsex,,\n")
    words = ("schema", "import", "book.csv", "-o", "new.json")
    refused(*words, cwd=folder, says="2 of 3 columns")
    words = (*words, "--bounds", "age=0..120", "--values", "sex=f,m", "--drop", "id")
    assert "2 columns" in run(*words, cwd=folder).stdout
    schema = Schema.load(folder / "new.json")
    assert schema.names == ("age", "sex") and schema.names_left_out == ("id",)


def test_edit_and_diff(folder):
    rows = [
        {"id": 10**8 + 7 * i, "age": i % 80, "sex": "fm"[i % 2], "code": i % 3} for i in range(400)
    ]
    pd.DataFrame(rows).to_csv(folder / "t.csv", index=False)
    run("schema", "draft", "t.csv", "-o", "draft.json", cwd=folder)
    facts = json.loads((folder / "draft.json").read_text())
    age = next(column for column in facts["columns"] if column["name"] == "age")
    age["high"] = 120
    age["copied_from_private_rows"].remove("high")
    (folder / "draft.json").write_text(json.dumps(facts))
    words = ("--all", "--source", "codebook 2019", "--drop", "code")
    said = run("schema", "declare", "draft.json", *words, "-o", "new.json", cwd=folder).stdout
    assert "Facts of columns 'age', 'sex' are declared, unchanged from a draft of the rows" in said
    schema = Schema.load(folder / "new.json")
    assert "high" not in schema["age"].facts_from_rows
    assert "resolution" in schema["age"].facts_from_rows
    assert "categories" not in schema["sex"].facts_from_rows  # of the catalogue
    assert schema.drafted == () and {c.source for c in schema.columns} == {"codebook 2019"}
    assert schema.names == ("age", "sex") and set(schema.names_left_out) == {"id", "code"}
    assert schema["age"].to_dict()["high"] == 120
    assert Schema.load(folder / "draft.json").drafted == ("age", "sex", "code")
    lines = differences(Schema.load(folder / "draft.json"), schema)
    assert "column 'code': removed" in lines
    assert any(line.startswith("left_out: ") for line in lines)
    words = "declared, unchanged from a draft of the rows (dtype, nulls)"
    assert f"column 'sex', provenance: 'drafted' -> '{words}'" in lines
    run("schema", "check", "t.csv", "new.json", cwd=folder)


def test_edit_in_place_changes_kinds(folder):
    done = run("schema", "declare", "schema.json", "--kind", "sex=ordinal", cwd=folder)
    assert "column 'sex', kind: 'categorical' -> 'ordinal'" in done.stdout
    assert Schema.load(folder / "schema.json")["sex"].kind == "ordinal"


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("declare", "schema.json", "--drop", "height"), "no column 'height'"),
        (("declare", "schema.json", "--all"), "need a source"),
        (("declare", "schema.json", "--kind", "age"), "Expected --kind like COLUMN=VALUE"),
        (("declare", "schema.json", "--kind", "age=number"), "kind of column 'age' to be one of"),
        (("declare", "schema.json", "--kind", "age=text", "--kind", "age=date"), "'age' twice"),
        (("declare", "schema.json", "--kind", "sex=numeric", "--kind", "age=date"), "2 columns"),
        (("import", "c.csv", "-o", "x.json", "--bounds", "age=0-120"), "Expected --bounds like"),
        (("declare", "schema.json", "--drop", "age", "--drop", "sex"), "at least one column"),
        (("declare", "none.json", "--drop", "age"), "none.json"),
        (("import", "good.csv", "-o", "x.json"), "no format that can be imported"),
    ],
)
def test_what_the_tools_refuse(folder, words, says):
    before = (folder / "schema.json").read_bytes()
    refused("schema", *words, cwd=folder, says=says)
    assert (folder / "schema.json").read_bytes() == before


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("draft", "good.csv"), "--out"),
        (("draft", "good.csv", "-o", "x.json", "--drop", "age"), "--drop"),
        (("good.csv", "-o", "x.json"), "good.csv"),
    ],
)
def test_what_a_subcommand_needs_is_said_in_one_line(folder, words, says):
    said = run("schema", *words, cwd=folder, code=2).stderr
    assert said.startswith("error: ") and says in said and len(said.splitlines()) == 1
