"""Units of privacy at the command line: declare, plan, fit, verify; what is refused in one line."""

import json

import numpy as np
import pandas as pd
import pytest
from command_lines import refused, run

from tabsynth import Schema
from tabsynth.schema import Column

pytestmark = pytest.mark.usefixtures("accounting_in_no_time", "few_attacks")

COLUMNS = [
    Column(name="ward", kind="categorical", dtype="str", categories=("a", "b")),
    Column(name="days", kind="ordinal", dtype="int64", categories=(1, 2, 3)),
]


@pytest.fixture
def folder(tmp_path):
    rng = np.random.default_rng(0)
    who = np.repeat(np.arange(300), rng.integers(1, 5, 300))
    table = pd.DataFrame(
        {
            "patient": [f"p{i}" for i in who],
            "ward": rng.choice(["a", "b"], len(who)),
            "days": rng.integers(1, 4, len(who)),
        }
    )
    table.to_csv(tmp_path / "stays.csv", index=False)
    patient = Column(name="patient", kind="categorical", dtype="str", categories=("p1", "p2"))
    Schema([patient, *COLUMNS]).save(tmp_path / "plain.json")
    Schema(COLUMNS, unit="patient", max_rows_per_unit=2).save(tmp_path / "s.json")
    return tmp_path


METHODS = {
    "dp-wgan": ("--rows", 700, "--set", "step_rule=bam"),
    "dp-gan": ("--set", "variant=basic"),
    "pate-gan": ("--set", "teacher_count=10", "--set", "queries=200"),
    "pate-acgan": [
        "--set",
        "teacher_count=10",
        "--set",
        "queries=200",
        "--set",
        "class_column=ward",
    ],
}


def sampled(folder):
    """Fields of the certificate of a sample; the command says whom it protects."""
    run("sample", "m", "-n", 40, "-o", "t.csv", cwd=folder)
    assert list(pd.read_csv(folder / "t.csv")) == ["ward", "days"]
    said = run("verify", "t.csv", cwd=folder, code=4).stdout
    assert "all rows of the fitted table with one value of column 'patient'; at most 2" in said
    text = (folder / "t.csv.certificate.json").read_text()
    assert '"p1' not in text
    return json.loads(text)


QUICK = ("--epsilon", 1, "--time-limit", "1s")
FIT = ("fit", "stays.csv", "--schema", "s.json", *QUICK, "-o", "m")


@pytest.mark.slow
def test_from_a_schema_to_a_verified_table(folder):
    said = run("ledger", "create", "l", "--epsilon", 2, "--unit", "patient", cwd=folder)
    assert "add or remove all records of one 'patient'" in said.stdout
    said = run(*FIT, "--ledger", "l", cwd=folder)
    assert "protects units, the values of column 'patient': at most 2 rows" in said.stdout
    assert "for adding or removing all records of one 'patient'" in said.stdout
    said = run("ledger", "show", "l", cwd=folder)
    assert "Privacy unit: all records of one 'patient'" in said.stdout
    assert sampled(folder)["project"]["unit"] == "patient"


def test_bad_units_are_refused_in_one_line_with_all_else(folder):
    table = pd.read_csv(folder / "stays.csv")
    table.drop(columns="patient").to_csv(folder / "stays.csv", index=False)
    refused(*FIT, cwd=folder, says="lacks column 'patient', the unit of the schema; add it")
    table.loc[3, "patient"] = None
    table.to_csv(folder / "stays.csv", index=False)
    refused(*FIT, cwd=folder, says="Column 'patient' has a null, and each row is of a unit")
    table.loc[5, "days"] = 7
    table.to_csv(folder / "stays.csv", index=False)
    lines = run(*FIT, cwd=folder, code=2).stderr.splitlines()
    assert "the table has 2 problems" in lines[0] and len(lines) == 3
    assert "Column 'days': 7" in lines[1] and "Column 'patient' has a null" in lines[2]
    assert not (folder / "m").exists()


def test_ledgers_of_other_units_are_refused(folder):
    run("ledger", "create", "l", "--epsilon", 2, cwd=folder)
    refused(*FIT, "--ledger", "l", cwd=folder, says="Ledger l protects one record")


@pytest.mark.slow
def test_a_fit_warns_by_the_schema_alone(folder):
    patient = {"name": "patient", "kind": "identifier", "dtype": "str", "provenance": "declared"}
    facts = Schema(COLUMNS).to_dict()
    facts["columns"].append(patient)
    (folder / "i.json").write_text(json.dumps(facts))
    words = ("fit", "stays.csv", "--schema", "i.json", *QUICK, "-o", "m")
    said = run(*words, cwd=folder)
    assert "identifier 'patient' and no unit" in said.stderr


@pytest.mark.slow
def test_published_figures_protect_the_unit(folder):
    fit = ("fit", "stays.csv", "--schema", "s.json", "--epsilon", 3, "-o", "m")
    run(*fit, "--time-limit", "1s", cwd=folder)
    run("sample", "m", "-n", 200, "-o", "t.csv", cwd=folder)
    words = ("evaluate", "--real", "stays.csv", "--synthetic", "t.csv", "--schema", "s.json")
    said = run(*words, "--epsilon", 1, "-o", "r", cwd=folder).stdout
    assert "privacy for adding or removing all records of one 'patient'" in said
    metrics = json.loads((folder / "r" / "metrics.json").read_text())
    assert metrics["unit"] == "patient" and metrics["epsilon"] <= 1
    table = pd.read_csv(folder / "stays.csv").drop(columns="patient")
    table.to_csv(folder / "stays.csv", index=False)
    refused(*words, "--epsilon", 1, "-o", "q", cwd=folder, says="lacks column 'patient', the unit")


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
def test_gans_and_pate_protect_a_unit(folder, method):
    words = ("fit", "stays.csv", "--schema", "s.json", "--epsilon", 2, "--time-limit", "1s")
    said = run(*words, "--method", method, *METHODS[method], "-o", "m", cwd=folder).stdout
    assert "protects units, the values of column 'patient': at most 2 rows of each" in said
    assert "for adding or removing all records of one 'patient'" in said
    certificate = sampled(folder)
    assert certificate["epsilon"] <= 2 and certificate["method"] == method
    for item in certificate["mechanisms"]:
        if item["purpose"] == "one-way counts":
            assert item["sensitivity"]["value"] >= 2


@pytest.mark.slow
def test_with_a_ledger_a_checkpoint_and_a_drafted_schema(folder):
    run("ledger", "create", "l", "--epsilon", 4, "--unit", "patient", cwd=folder)
    words = ("fit", "stays.csv", "--method", "dp-wgan", "--epsilon", 3, "--time-limit", "1s")
    words = (*words, "--ledger", "l", "--checkpoint", "c", "-o", "m")
    unit = ("--unit", "patient", "--max-rows-per-unit", 2)
    run(*words, *unit, cwd=folder)
    certificate = sampled(folder)
    assert certificate["project"]["unit"] == "patient"
    assert certificate["mechanisms"][0]["purpose"] == "schema: formats of columns"
    # Another bound is another fit, and is no continuation of this one.
    refused(*words, *unit[:3], 3, cwd=folder, says="another fit")


def test_what_takes_batches_of_many_rows_is_refused(folder):
    Schema(COLUMNS, unit="patient", max_rows_per_unit=200).save(folder / "many.json")
    words = ("fit", "stays.csv", "--schema", "many.json", "--epsilon", 2, "--method", "dp-wgan")
    refused(*words, "-o", "m", cwd=folder, says="rows-per-unit")
