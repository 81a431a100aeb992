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


def test_a_plan_shows_bounds_without_a_table(folder):
    words = ("plan", "--method", "margnet", "--rows", 5000, "--epsilon", 1, "--bounds", "1,3,2")
    assumed = ("--rows-per-unit", "1:0.5,2:0.3,4:0.2")
    said = run(*words, "--schema", "s.json", *assumed, cwd=folder).stdout
    assert "Bounds of the rows of one patient" in said and "No table was read" in said
    data = json.loads(run(*words, "--unit", "who", *assumed, "--json", cwd=folder).stdout)
    one, two, three = data["bounds"]
    assert data["unit"] == "who" and [b["bound"] for b in data["bounds"]] == [1, 2, 3]
    assert two["noise"] == pytest.approx(2 * one["noise"]) and three["relative"] == 3
    mean = 0.5 + 0.6 + 0.8
    assert one["rows_left_out"] == pytest.approx((0.3 + 3 * 0.2) / mean)
    assert three["rows_left_out"] == pytest.approx(0.2 / mean)
    assert [b["units_bounded"] for b in data["bounds"]] == pytest.approx([0.5, 0.2, 0.2])
    mean = ("--rows-per-unit", 1.25, "--json")
    data = json.loads(run(*words, "--unit", "who", *mean, cwd=folder).stdout)
    law = [0.8 * 0.2**k for k in range(60)]  # geometric from 1, with mean 1.25
    beyond = [sum(max(0, k + 1 - b) * p for k, p in enumerate(law)) / 1.25 for b in (1, 2, 3)]
    assert [b["rows_left_out"] for b in data["bounds"]] == pytest.approx(beyond)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--bounds", "1,2"), "--bounds needs the unit"),
        (("--unit", "who"), "give --bounds"),
        (("--unit", "who", "--bounds", "1,x"), "Expected whole numbers in --bounds, got 'x'"),
        (("--unit", "who", "--bounds", "0"), "max_rows_per_unit"),
        (("--unit", "who", "--bounds", "1", "--rows-per-unit", "1:0.5"), "add up to 0.5, not to 1"),
        (("--unit", "who", "--bounds", "1", "--rows-per-unit", "1:2,2:-1"), "share of units with"),
        (("--unit", "who", "--bounds", "1", "--rows-per-unit", "1:1,1:0"), "gives 1 rows twice"),
        (("--unit", "who", "--bounds", "1", "--rows-per-unit", "0.5"), "of 1 or more, got 0.5"),
        (("--unit", "who", "--bounds", "1", "--rows-per-unit", "many"), "or a mean like 1.2"),
    ],
)
def test_plans_of_no_bounds_are_refused(folder, words, says):
    plan = ("plan", "--method", "margnet", "--rows", 100, "--epsilon", 1)
    refused(*plan, *words, cwd=folder, says=says)


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
