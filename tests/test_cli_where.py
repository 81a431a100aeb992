"""`tabsynth sample --where`: rows that satisfy a condition, from the command line."""

import contextlib
import json

import pandas as pd
import pytest
from command_lines import make_people, make_schema, refused, run
from typer.testing import CliRunner

from tabsynth import DPWGAN, MargNet
from tabsynth.cli import app
from tabsynth.synthesizers.adversarial.critic import WGANConfig
from tabsynth.synthesizers.margnet.config import MargNetConfig
from tabsynth.synthesizers.method import with_settings

SAMPLE = ("sample", "margnet.tabsynth", "-n", 40, "-o", "s.csv", "--overwrite")


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """A model of margnet and one of another method, small and without a budget."""
    folder = tmp_path_factory.mktemp("models")
    few = MargNetConfig(components=10, latent_dim=4, hidden=(8,), steps=10)
    parameters = {"epsilon": float("inf"), "rows": 400}
    MargNet(make_schema(), config=few, **parameters).fit(make_people()).save(
        folder / "margnet.tabsynth"
    )
    few = with_settings(
        WGANConfig(),
        generator__latent_dim=4,
        generator__hidden=(8,),
        critic__hidden=(8,),
        step__count=2,
    )
    other = DPWGAN(make_schema(), config=few, autoencoder=None, **parameters)
    other.fit(make_people()).save(folder / "other.tabsynth")
    return folder


def test_rows_of_a_condition(models):
    where = ("--where", "sex=f", "--where", "job=1", "--where", "job=N", "--where", "age=42")
    where += ("--where", "age=46..57")
    with contextlib.chdir(models):
        done = CliRunner().invoke(app, [*map(str, (*SAMPLE, *where))])
    assert done.exit_code == 0, done.output
    created = pd.read_csv(models / "s.csv", dtype={"job": "Int64"})
    assert len(created) == 40 and set(created["sex"]) == {"f"}
    assert set(created["job"].dropna()) == {1} and created["job"].isna().any()
    assert set(created["age"]) <= {42, *range(46, 58)} and created["age"].nunique() > 5
    certificate = json.loads((models / "s.csv.certificate.json").read_text())
    assert certificate["condition"] == {
        "sex": ["f"],
        "job": [1, None],
        "age": [42, {"low": 46, "high": 57}],
    }
    with contextlib.chdir(models):  # it is of the table, and does not hide that it was changed
        assert CliRunner().invoke(app, ["verify", "s.csv"]).exit_code == 5  # it is seeded


def test_a_range_of_ordered_values(models):
    with contextlib.chdir(models):
        done = CliRunner().invoke(app, [*map(str, SAMPLE), "--where", "job=2..3"])
    assert done.exit_code == 0, done.output
    assert set(pd.read_csv(models / "s.csv")["job"]) == {2, 3}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("sex", "Expected --where COLUMN=VALUE, got 'sex'"),
        ("job=4", "column 'job' has no value 4; it has 1, 2, 3 and None"),
        ("job=one", "column 'job' has no value 'one'"),
        ("age=100", "column 'age' has no value 100; it has whole numbers from 0 to 99"),
        ("sex=N", "column 'sex' has no value 'N', which stands for null; it has 'f', 'm'"),
        ("age=50..40", "column 'age': low=50 is above high"),
        ("job=3..1", "low=3 is above high"),
        ("job=1..4", "column 'job' has no value 4"),
        ("sex=f..m", "column 'sex' has no value 'f..m'"),
        ("town=3", "where names column 'town'"),
    ],
)
def test_wrong_conditions_of_a_command(models, text, says):
    refused(*SAMPLE, "--where", text, cwd=models, says=says)


def test_other_methods_draw_until_enough_rows_satisfy_a_condition(models):
    words = ("sample", "other.tabsynth", "-n", 25, "-o", "o.csv", "--overwrite", "--where", "sex=f")
    run(*words, "--where", "age=40..60", "--where", "job=1", "--where", "job=N", cwd=models)
    made = pd.read_csv(models / "o.csv", dtype={"job": "Int64"})
    assert len(made) == 25 and set(made["sex"]) == {"f"} and made["age"].between(40, 60).all()
    assert set(made["job"].dropna()) <= {1}
    certificate = json.loads((models / "o.csv.certificate.json").read_text())
    assert certificate["condition"] == {
        "sex": ["f"],
        "age": [{"low": 40, "high": 60}],
        "job": [1, None],
    }
    words = (
        "sample",
        "other.tabsynth",
        "-n",
        90,
        "-o",
        "s.csv",
        "--overwrite",
        "--where",
        "age=42",
    )
    says = (
        "The condition {'age': 42} is too rare: of 500 rows that were drawn",
        "90 were asked for",
        "--max-draws",
    )
    refused(*words, "--max-draws", 500, cwd=models, says=says)
    refused(*words, "--max-draws", 0, cwd=models, says="--max-draws to be a whole number")


@pytest.mark.parametrize("model", ["margnet.tabsynth", "other.tabsynth"])
def test_by_default_a_sample_has_the_rows_of_the_fit(models, model):
    done = run("sample", model, "-o", "d.csv", "--overwrite", cwd=models)
    assert "d.csv (400 rows)" in done.stdout and len(pd.read_csv(models / "d.csv")) == 400
