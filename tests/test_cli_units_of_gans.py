"""GANs and PATE under a unit of privacy, from the table to a verified sample, at the command line."""

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
    Schema(COLUMNS, unit="patient", max_rows_per_unit=2).save(tmp_path / "s.json")
    return tmp_path


def sampled(folder):
    """Fields of the certificate of a sample; the command says whom it protects."""
    run("sample", "m", "-n", 40, "-o", "t.csv", cwd=folder)
    assert list(pd.read_csv(folder / "t.csv")) == ["ward", "days"]
    said = run("verify", "t.csv", cwd=folder, code=4).stdout
    assert "all rows of the fitted table with one value of column 'patient'; at most 2" in said
    text = (folder / "t.csv.certificate.json").read_text()
    assert '"p1' not in text
    return json.loads(text)


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
def test_a_schema_with_a_unit(folder, method):
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
