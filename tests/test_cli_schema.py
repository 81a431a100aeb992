"""``tabsynth schema`` at the command line: check, import, export, edit and diff."""

import json

import pandas as pd
import pytest
from command_lines import refused, run

from tabsynth import Column, Schema

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
    assert run("schema", "good.csv", "--check", "schema.json", cwd=folder).stdout.startswith(
        "good.csv fits schema.json"
    )
    done = run("schema", "bad.csv", "--check", "schema.json", cwd=folder, code=2)
    lines = done.stdout.splitlines()
    assert [line.split(":")[0] for line in lines] == [
        "Column 'age'",
        "Column 'age'",
        "Column 'sex'",
    ]
    assert "200" in lines[0] and "300" in lines[1] and "'x'" in lines[2]
    assert done.stderr == "error: bad.csv does not fit schema.json: 3 problems, listed above.\n"
    done = run("schema", "bad.parquet", "--check", "schema.json", cwd=folder, code=2)
    assert len(done.stdout.splitlines()) == 2


def test_a_draft_is_written_as_before(folder):
    done = run("schema", "good.csv", "-o", "draft.json", cwd=folder)
    assert done.stdout.startswith("Drafted draft.json: 2 columns.")
    assert Schema.load(folder / "draft.json").drafted == ("age", "sex")
    assert "--check" in run("schema", "--help", cwd=folder).stdout


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ((), "Name a table"),
        (("good.csv",), "-o"),
        (("none.csv", "-o", "x.json"), "none.csv"),
        (("good.csv", "--check", "none.json"), "none.json"),
        (("good.csv", "--check", "good.csv"), "not valid JSON"),
    ],
)
def test_what_is_refused(folder, words, says):
    refused("schema", *words, cwd=folder, says=says)


def test_a_misspelt_key_stops_a_fit(folder):
    text = json.loads((folder / "schema.json").read_text())
    (folder / "schema.json").write_text(json.dumps({**text, "imposible": []}, indent=1))
    words = ("fit", "good.csv", "--schema", "schema.json", "--epsilon", 1, "-o", "m")
    refused(*words, cwd=folder, says="unknown key 'imposible'")
