"""Units and weights at the command line where there is no schema yet: drafts, fits that draft, and what is refused."""

import json

import numpy as np
import pandas as pd
import pytest
from command_lines import refused, run

from tabsynth import Schema

UNIT = ("--unit", "patient", "--max-rows-per-unit", 2)
WEIGHT = ("--weight", "w", "--max-weight", 20)
FIT = ("fit", "stays.csv", "--epsilon", 1, "-o", "m")


@pytest.fixture
def folder(tmp_path):
    rng = np.random.default_rng(0)
    who = np.repeat(np.arange(400), rng.integers(1, 5, 400))
    table = pd.DataFrame(
        {
            "patient": [f"p{i}" for i in who],
            "ward": rng.choice(["a", "b"], len(who)),
            "days": rng.integers(1, 4, len(who)),
            "w": rng.integers(1, 30, len(who)),
        }
    )
    table.to_csv(tmp_path / "stays.csv", index=False)
    return tmp_path


def test_a_private_draft_has_a_unit_and_a_weight(folder):
    run("ledger", "create", "l", "--epsilon", 3, "--unit", "patient", cwd=folder)
    words = ("schema", "draft", "stays.csv", "--epsilon", 2, "-o", "s.json")
    said = run(*words, *UNIT, *WEIGHT, "--ledger", "l", cwd=folder)
    assert "privacy for adding or removing all records of one 'patient'. Its cost" in said.stdout
    schema = Schema.load(folder / "s.json")
    assert schema.names == ("ward", "days") and (schema.unit, schema.weight) == ("patient", "w")
    assert (schema.max_rows_per_unit, schema.max_weight) == (2, 20)
    assert schema.released["unit"] == "patient"
    assert "p1" not in (folder / "s.json").read_text()
    # A draft of single records does not become one of units, nor the other way round.
    plain = ("schema", "draft", "stays.csv", "--epsilon", 2, "-o", "plain.json")
    run(*plain, cwd=folder)
    unit = json.loads((folder / "s.json").read_text())["unit"]
    for name, change, of in (
        ("plain.json", lambda facts: facts.update(unit=unit), "one record"),
        ("s.json", lambda facts: facts.pop("unit"), "all records of one 'patient'"),
    ):
        facts = json.loads((folder / name).read_text())
        change(facts)
        (folder / "edited.json").write_text(json.dumps(facts))
        fit = (*FIT, "--schema", "edited.json")
        refused(*fit, cwd=folder, says=f"protects {of}, and a fit with it would protect")


def test_a_copied_draft_has_a_unit(folder):
    run("schema", "draft", "stays.csv", "-o", "s.json", *UNIT, cwd=folder)
    schema = Schema.load(folder / "s.json")
    assert schema.names == ("ward", "days", "w") and schema.design.rows == 2


@pytest.mark.slow
def test_a_fit_without_a_schema_protects_the_unit(folder):
    run("ledger", "create", "l", "--epsilon", 1, "--unit", "patient", cwd=folder)
    words = (*FIT, *UNIT, *WEIGHT, "--time-limit", "1s", "--ledger", "l", "--save-schema", "s.json")
    said = run(*words, cwd=folder).stdout
    assert "it was drafted privately" in said
    assert "protects units, the values of column 'patient': at most 2 rows of each" in said
    assert "weighted by 'w', clipped at 20" in said
    assert "for adding or removing all records of one 'patient'" in said
    assert Schema.load(folder / "s.json").design.bound == 40
    run("sample", "m", "-n", 40, "-o", "t.csv", "--weights", "population", cwd=folder)
    assert list(pd.read_csv(folder / "t.csv")) == ["ward", "days", "w"]
    said = run("verify", "t.csv", cwd=folder, code=4).stdout
    assert "all rows of the fitted table with one value of column 'patient'; at most 2" in said


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ((*FIT, "--unit", "patient"), "--unit goes with --max-rows-per-unit; declare both"),
        ((*FIT, "--max-weight", 3), "--max-weight goes with --weight"),
        ((*FIT, *UNIT[2:], "--unit", "who"), "lacks column 'who', the unit of the schema"),
        ((*FIT, "--schema", "s.json", *UNIT), "--unit goes without --schema"),
        ((*FIT, "--schema", "s.json", *WEIGHT), "--weight goes without --schema"),
        ((*FIT, "--linked", "l.json", *UNIT), "--unit"),
        ((*FIT, *UNIT, "--weight", "patient", "--max-weight", 3), "is both weight and unit"),
        (
            ("schema", "draft", "stays.csv", "-o", "n.json", *UNIT[2:], "--unit", "who"),
            "lacks column 'who', the unit of the schema; add it, or name another: ",
        ),
    ],
)
def test_what_does_not_go_together_is_refused(folder, words, says):
    run("schema", "draft", "stays.csv", "-o", "s.json", cwd=folder)
    refused(*words, cwd=folder, says=says)


def test_bad_units_and_weights_are_refused_in_one_line(folder):
    table = pd.read_csv(folder / "stays.csv").astype(object)
    table.loc[3, "patient"], table.loc[5, "w"] = None, -2
    table.to_csv(folder / "stays.csv", index=False)
    run("ledger", "create", "l", "--epsilon", 3, "--unit", "patient", cwd=folder)
    before = (folder / "l").read_bytes()
    both = ["Column 'patient' has a null", "Column 'w' has weight '-2'"]
    draft = ("schema", "draft", "stays.csv", "--epsilon", 2, "-o", "n.json")
    for words in (FIT, draft):
        refused(*words, *UNIT, *WEIGHT, "--ledger", "l", cwd=folder, says=both)
    assert (folder / "l").read_bytes() == before
