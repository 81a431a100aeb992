"""The command line of PATE: fit, sample of a class, refusals."""

import contextlib
import json

import pandas as pd
import pytest
from command_lines import FIT, make_people, make_schema, refused, run
from typer.testing import CliRunner

from tabsynth import PATEACGAN, Schema, load
from tabsynth.cli import app
from tabsynth.privacy.certificate.verification import verify
from tabsynth.synthesizers.method import with_settings
from tabsynth.synthesizers.pate.config import PATEConfig

pytestmark = pytest.mark.usefixtures("accounting_in_no_time", "few_attacks")


@pytest.fixture
def folder(tmp_path):
    make_schema().save(tmp_path / "schema.json")
    make_people().to_csv(tmp_path / "people.csv", index=False)
    return tmp_path


ACGAN = (*FIT, "--method", "pate-acgan", "--epsilon", "2")


@pytest.mark.slow
def test_from_a_table_to_rows_of_a_class(folder):
    """The installed command, end to end: price, fit, rows of one class, certificate."""
    words = [
        "--set",
        "class_column=job",
        "--set",
        "teacher_count=30",
        "--set",
        "queries=300",
    ]
    words += ("--time-limit", "8s")
    done = run(*ACGAN, *words, "--accept-drafted-domain", cwd=folder)
    assert "300 labels by 30 teachers" in done.stdout
    run("sample", "model.tabsynth", "-n", "40", "-o", "two.csv", "--where", "job=2", cwd=folder)
    with contextlib.chdir(folder):  # in this process: starting Python costs seconds
        for words in (("-o", "null.csv", "--where", "job=N"), ("-o", "all.csv")):
            done = CliRunner().invoke(app, ["sample", "model.tabsynth", "-n", "40", *words])
            assert done.exit_code == 0, done.output
    assert set(pd.read_csv(folder / "two.csv")["job"]) == {2}
    assert pd.read_csv(folder / "null.csv", na_values=["N"])["job"].isna().all()
    assert pd.read_csv(folder / "all.csv", na_values=["N"])["job"].nunique() > 1
    assert verify(folder / "two.csv").consistent
    certificate = json.loads((folder / "two.csv.certificate.json").read_text())
    purposes = [m["purpose"] for m in certificate["mechanisms"]]
    assert purposes == ["one-way counts", "autoencoder", "votes"]
    refused(
        *["sample", "model.tabsynth", "-n", "4", "-o", "t.csv", "--where", "job=7"],
        cwd=folder,
        says="7",
    )
    words = ("-n", 30, "-o", "some.csv", "--where", "job=2", "--where", "job=3", "--where", "sex=m")
    run("sample", "model.tabsynth", *words, cwd=folder)
    some = pd.read_csv(folder / "some.csv")
    assert set(some["job"]) <= {2, 3} and set(some["sex"]) == {"m"} and len(some) == 30


@pytest.mark.slow
def test_the_networks_of_pate_acgan(folder):
    words = (
        "--set",
        "class_column=sex",
        "--set",
        "teachers=networks",
        "--set",
        "teacher_count=3",
        "--time-limit",
        "1s",
    )
    done = run(*ACGAN, *words, "--set", "queries=400", "--accept-drafted-domain", cwd=folder)
    assert "400 labels by 3 teachers" in done.stdout
    loaded = load(folder / "model.tabsynth")
    assert loaded.teachers == "networks"
    purposes = [m["purpose"] for m in loaded.certificate()["mechanisms"]]
    assert purposes == ["one-way counts", "autoencoder", "votes", "class votes"]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ((), "class_column=COLUMN"),
        (("--set", "class_column=nobody"), "nobody"),
        (("--set", "class_column=age"), "numeric"),
        (("--set", "class_column=sex", "--set", "teacher_count=0"), "teacher_count"),
        (
            ("--set", "class_column=sex", "--set", "teacher_count=900", "--rows", "400"),
            "--rows 400",
        ),
        (("--set", "class_column=sex", "--set", "teachers=paper"), ["teachers", "networks"]),
    ],
)
def test_refusals_of_pate_acgan(folder, words, says):
    refused(*ACGAN, *words, cwd=folder, says=says)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--set", "teachers=paper"), "teachers"),
        (("--set", "class_column=sex"), ["pate-gan", "no setting 'class_column'"]),
        (("--set", "step_rule=bam"), "no setting 'step_rule'"),
        (("--set", "queries=1"), "queries"),
    ],
)
def test_refusals_of_pate_gan(folder, words, says):
    refused(*FIT, "--method", "pate-gan", "--epsilon", "2", *words, cwd=folder, says=says)


@pytest.mark.parametrize(("text", "nulls"), [("N", ("N",)), ("", ("", "N"))])
def test_a_null_for_a_class_that_has_none(folder, text, nulls):
    """What was typed is shown, not what stands for it."""
    config = with_settings(
        PATEConfig(),
        generator__latent_dim=3,
        generator__hidden=(4,),
        queries=9,
        round_steps=2,
        marginals__features=9,
    )
    schema = Schema(make_schema().columns, null_values=nulls)
    model = PATEACGAN(schema, epsilon=3, class_column="sex", teacher_count=9, config=config)
    model.fit(make_people()).save(folder / "model.tabsynth")
    words = ("sample", "model.tabsynth", "-n", "4", "-o", "t.csv", "--where", f"sex={text}")
    refused(*words, cwd=folder, says=f"column 'sex' has no value {text!r}, which stands for null")
