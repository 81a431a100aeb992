"""Linked tables at the command line: fit, sample and verify folders; bad input is one line and exit code 2."""

import json

import pandas as pd
import pytest
from command_lines import refused, run
from linked_tables import schema, tables

from tabsynth import LinkedSchema
from tabsynth.synthesizers.linked import network


@pytest.fixture(autouse=True, scope="module")
def few_contexts():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(network, "CONTEXTS", 64)
        patch.setattr(network, "MOST_STEPS", 5)
        patch.setattr("tabsynth.synthesizers.linked.generator.GROUPS", 50)
        yield


def write(folder, given=None, linked=None):
    """A folder of tables, and the linked schema beside it."""
    (folder / "real").mkdir()
    for name, table in (tables(40) if given is None else given).items():
        table.to_csv(folder / "real" / f"{name}.csv", index=False)
    (linked or schema()).save(folder / "linked.json")


def fit(folder, *more, code=0):
    words = ["fit", "real", "--linked", "linked.json", "--epsilon", "2", "-o", "model"]
    return run(*words, *more, cwd=folder, code=code)


@pytest.mark.parametrize(
    "option", [("--schema", "linked.json"), ("--set", "class_column=sex"), ("--public-source", "x")]
)
def test_options_of_one_table_are_refused(tmp_path, option):
    write(tmp_path)
    done = fit(tmp_path, *option, code=2)
    assert f"Linked tables take no {option[0]}" in done.stderr


@pytest.mark.slow
def test_fit_sample_verify(tmp_path):
    write(tmp_path)
    done = fit(tmp_path)
    assert "patients: one-way counts" in done.stdout
    assert "protects one row of patients with its records in the other tables" in done.stdout
    assert "of the rows of patients have more rows of stays than are used" in done.stdout
    run("sample", "model", "-o", "made", "-n", "50", cwd=tmp_path)
    made = {name: pd.read_csv(tmp_path / "made" / f"{name}.csv") for name in schema().names}
    assert len(made["patients"]) == 50
    assert made["stays"]["patient"].isin(made["patients"]["patient"]).all()
    assert made["events"]["stay"].isin(made["stays"]["stay"]).all()
    done = run("verify", "made", cwd=tmp_path, code=4)
    unit = "Privacy unit: one row of table patients with its records in the other tables; at most"
    assert done.stdout.count(f"{unit} these were used: of table stays the first ") == 3
    states = json.loads(run("verify", "made", "--json", cwd=tmp_path, code=4).stdout)
    assert {item["state"] for item in states.values()} == {"not authenticated"}
    stays = tmp_path / "made" / "stays.csv"
    stays.write_text(stays.read_text() + "999,1,3,a\n")
    run("verify", "made", cwd=tmp_path, code=2)
    done = run("sample", "model", "-o", "made", cwd=tmp_path, code=2)
    assert "is there already" in done.stderr
    for where, says in (
        ("sex=f", "Expected --where patients.COLUMN"),
        ("patients.sex=z", "has no value 'z'"),
        ("stays.ward=a", "Expected --where patients.COLUMN"),
    ):
        done = run("sample", "model", "-o", "more", "--where", where, cwd=tmp_path, code=2)
        assert says in done.stderr and not (tmp_path / "more").exists()
    words = ("--where", "patients.sex=f", "--where", "patients.sex=m")
    run("sample", "model", "-o", "all", "-n", "40", *words, cwd=tmp_path)
    assert set(pd.read_csv(tmp_path / "all" / "patients.csv")["sex"]) == {"f", "m"}
    run("sample", "model", "-o", "some", "-n", "40", *words[:2], cwd=tmp_path)
    assert set(pd.read_csv(tmp_path / "some" / "patients.csv")["sex"]) == {"f"}
    for option, says in (
        (("--max-draws", "9"), "Linked tables take no --max-draws; leave it out."),
        (("--weights", "population"), "released no total of survey weights"),
        (("--implicates", "3"), "Linked tables take no --implicates; leave it out."),
        (("--implicates", "0"), "Linked tables take no --implicates; leave it out."),
    ):
        done = run("sample", "model", "-o", "more", *option, cwd=tmp_path, code=2)
        assert says in done.stderr
    run("keygen", "key", cwd=tmp_path)
    run("sample", "model", "-o", "signed", "-n", "9", "--sign", "key", cwd=tmp_path)
    run("verify", "signed", "--key", "key.pub", cwd=tmp_path)


def orphan(given):
    given["stays"].loc[given["stays"].index[0], "patient"] = 5


def twice(given):
    given["patients"] = pd.concat([given["patients"], given["patients"][:1]])


def null_key(given):
    given["stays"] = given["stays"].astype({"patient": "Int64"})
    given["stays"].loc[given["stays"].index[0], "patient"] = pd.NA


def no_order(given):
    del given["events"]["number"]


def undeclared(given):
    given["events"].loc[given["events"].index[0], "code"] = "z"


def learned_key(given):
    given["stays"]["more"] = 1


BAD = {
    orphan: "patient='5', which is no key of table 'patients'",
    twice: "twice; each row needs a key of its own",
    null_key: "has a null in column 'patient' of its keys",
    no_order: "lacks column 'number' of its keys",
    undeclared: "'code'",
    learned_key: "'more'",
}


@pytest.mark.parametrize("change", BAD)
def test_bad_tables_are_one_line(tmp_path, change):
    given = tables(12)
    change(given)
    write(tmp_path, given)
    done = fit(tmp_path, code=2)
    assert BAD[change] in done.stderr and len(done.stderr.strip().splitlines()) == 1
    assert not (tmp_path / "model").exists()


def test_problems_of_values_and_keys_are_told_together(tmp_path):
    given = tables(12)
    undeclared(given)
    orphan(given)
    twice(given)
    write(tmp_path, given)
    done = fit(tmp_path, code=2)
    lines = done.stderr.strip().splitlines()
    assert lines[0] == "error: the set of tables has 3 problems:" and len(lines) == 4
    for change in (undeclared, orphan, twice):
        assert BAD[change] in done.stderr


@pytest.mark.slow
def test_parents_without_children_are_taken(tmp_path):
    given = tables(12)
    write(tmp_path, {**given, "stays": given["stays"][:0], "events": given["events"][:0]})
    fit(tmp_path, "--time-limit", "2s")
    run("sample", "model", "-o", "made", "-n", "9", cwd=tmp_path)
    assert len(pd.read_csv(tmp_path / "made" / "patients.csv")) == 9


def test_a_missing_table_and_a_wrong_folder(tmp_path):
    write(tmp_path)
    (tmp_path / "real" / "events.csv").unlink()
    assert "has no file for table 'events'" in fit(tmp_path, code=2).stderr
    words = ["--linked", "linked.json", "--epsilon", "2", "-o", "model"]
    assert "is no folder" in run("fit", "linked.json", *words, cwd=tmp_path, code=2).stderr


def test_a_cycle_of_tables(tmp_path):
    write(tmp_path)
    data = json.loads((tmp_path / "linked.json").read_text())
    data["tables"]["patients"]["keys"] |= {
        "parent": "stays",
        "parent_key": "stay",
        "max_children": 1,
    }
    (tmp_path / "linked.json").write_text(json.dumps(data))
    assert "form a cycle" in fit(tmp_path, code=2).stderr


def test_unsorted_and_repeated_orders_and_a_household_of_two_hundred_are_taken(tmp_path):
    given = tables(15, most=2)
    extra = pd.DataFrame({"stay": range(10_000, 10_200), "patient": 1000, "day": 5, "ward": "a"})
    given["stays"] = pd.concat([given["stays"], extra]).sample(frac=1, random_state=1)
    given["events"]["number"] = 1
    write(tmp_path, given)
    done = fit(tmp_path, "--time-limit", "2s")
    assert "of the rows of patients have more rows of stays than are used" in done.stdout


def test_a_linked_schema_is_drafted_from_a_folder(tmp_path):
    """For review and privately; options of one table are refused, and what names leave open needs an option."""
    for name, table in tables().items():
        (tmp_path / "in").mkdir(exist_ok=True)
        table.to_csv(tmp_path / "in" / f"{name}.csv", index=False)
    draft = ("schema", "draft", "in", "--linked", "-o", "linked.json")
    keys = ("--key", "patients=patient", "--key", "stays=stay", "--max-children", "stays=4")
    refused(*draft, cwd=tmp_path, says="Expected one table that refers to no other")
    refused("schema", "draft", "in", "-o", "x.json", *keys, cwd=tmp_path, says="go with --linked")
    refused(*draft, *keys, "--rows", "3", cwd=tmp_path, says="takes no --decimal")
    refused(*draft, "--max-children", "stays=x", cwd=tmp_path, says="like stays=20")
    done = run(*draft, *keys, "--min-count", "2", cwd=tmp_path)
    assert "  - stays: at most 4 rows of one row of patients, by patient; 2 columns" in done.stdout
    linked = LinkedSchema.load(tmp_path / "linked.json")
    assert linked.keys["events"].to_dict() == {
        "parent": "stays",
        "parent_key": "stay",
        "max_children": 20,
    }
    assert linked.keys["stays"].max_children == 4 and linked.tables["stays"].names == (
        "day",
        "ward",
    )
    private = run(*draft, *keys, "--epsilon", "60", "--overwrite", cwd=tmp_path)
    assert "(60, 1e-05)-differential privacy for adding or removing a row of" in private.stdout
    assert LinkedSchema.load(tmp_path / "linked.json").released
