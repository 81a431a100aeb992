"""The commands on the made-up table of hospital stays as a clinic exports it, and its declared schema."""

import json

import made_up_table as made_up
import pandas as pd
import pytest
from command_lines import run

from tabsynth import MargNet, Schema
from tabsynth.tables.files import read_any

pytestmark = pytest.mark.usefixtures("accounting_in_no_time", "few_attacks")


@pytest.fixture(scope="module")
def table():
    return made_up.rows(1_500)


@pytest.mark.slow
def test_two_commands_make_a_private_table_of_a_messy_file(table, tmp_path):
    made_up.write_messy(table, tmp_path / "stays.csv")
    told = run("fit", "stays.csv", "--epsilon", 3, "--null", "?", "-o", "m", "--save-schema", "s",
               cwd=tmp_path)  # fmt: skip
    assert "Private: (3, 1e-05)" in told.stdout
    assert (
        "Windows-1252" not in told.stdout + told.stderr
    )  # the header is ASCII, and of rows nothing is said
    run("sample", "m", "-n", 400, "-o", "synthetic.csv", cwd=tmp_path)
    written = (tmp_path / "synthetic.csv").read_text("utf-8") + (tmp_path / "s").read_text("utf-8")
    for name in made_up.IDENTIFYING:
        assert not any(str(value) in written for value in table[name].unique()), name
    made = pd.read_csv(tmp_path / "synthetic.csv", sep=";", decimal=",")
    assert not set(made_up.IDENTIFYING) & set(made) and len(made) == 400
    kinds = {c["name"]: c["kind"] for c in json.loads((tmp_path / "s").read_text())["columns"]}
    for name in ("weight_kg", "sbp", "age"):
        assert kinds[name] == "numeric" and pd.api.types.is_numeric_dtype(made[name]), name
    for name in ("cost_care", "cost_total"):
        assert kinds[name] == "numeric"
        assert made[name].str.fullmatch(r"-?\d+,\d\d €").all(), name
    assert (
        kinds["admit"] == "datetime"
        and pd.to_datetime(made["admit"]).dt.year.isin([2023, 2024]).all()
    )


def test_encodings_of_the_messy_file_read_alike(table, tmp_path):
    few = table.head(60)
    made_up.write_messy(few, tmp_path / "a.csv")
    made_up.write_messy(few, tmp_path / "b.csv", "utf-16")
    first, second = (read_any(tmp_path / name, ["?"]) for name in ("a.csv", "b.csv"))
    assert first.equals(second)
    assert (
        list(first) == list(few) and first["patient_name"].tolist() == few["patient_name"].tolist()
    )


def test_the_declared_schema_fits_the_table(table):
    schema = made_up.schema()
    assert schema.validate(table) == [] and table["trial_arm"].isna().all()
    assert not any(rule.violations(table).any() for rule in schema.rules)
    assert Schema.from_dict(schema.to_dict()) == schema
    kinds = {column.kind for column in schema.columns}
    assert kinds >= {
        "identifier",
        "text",
        "date",
        "datetime",
        "time",
        "duration",
        "period",
        "hierarchy",
    }


@pytest.mark.slow
def test_a_declared_fit_keeps_rules_and_dtypes(table):
    schema = made_up.schema()
    made = MargNet(schema, epsilon=1, random_state=0).fit(table).sample(500)
    assert not any(rule.violations(made).any() for rule in schema.rules)
    assert (made.dtypes == table.dtypes.reindex(made.columns)).all()
    assert not set(table["mrn"]) & set(made["mrn"]) and made["encounter_id"].is_unique
