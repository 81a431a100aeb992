"""The command ``evaluate`` with survey weights and designs: what it writes, and what it refuses in one line."""

import contextlib
import json

import numpy as np
import pandas as pd
import pytest
from command_lines import make_people, make_schema, refused, run
from typer.testing import CliRunner

from tabsynth import MargNet, Schema, evaluate
from tabsynth.cli import app
from tabsynth.errors import InputError
from tabsynth.evaluation import EvaluationConfig
from tabsynth.report.summary import equal_rows
from tabsynth.synthesizers import MargNetConfig

pytestmark = pytest.mark.usefixtures("accounting_in_no_time", "few_attacks")

WORDS = ("evaluate", "--real", "people.csv", "--synthetic", "made.csv", "--schema", "schema.json")


def surveyed(rows=160, seed=0):
    """People with weights, and a column that the schema does not have."""
    rng = np.random.default_rng(seed)
    people = make_people(rows, seed)
    people["PWGTP"] = np.where(people["sex"] == "f", 10, 30) + rng.integers(0, 5, rows)
    people["block"] = np.arange(rows) // 10 % 3
    return people


def only(people, *names):
    return people[["sex", "age", "job", *names]]


@pytest.fixture
def folder(tmp_path):
    make_schema().save(tmp_path / "schema.json")
    surveyed().to_csv(tmp_path / "people.csv", index=False)
    make_people(160, 1).to_csv(tmp_path / "made.csv", index=False)
    only(surveyed(80, 2), "PWGTP").to_csv(tmp_path / "holdout.csv", index=False)
    return tmp_path


def written(folder):
    return json.loads((folder / "out" / "metrics.json").read_text())["evaluation"]


@pytest.mark.slow
def test_weights_are_in_the_report(folder):
    people = only(surveyed(), "PWGTP")
    people.to_csv(folder / "people.csv", index=False)
    done = run(*WORDS, "--weight", "PWGTP", "-o", "out", cwd=folder)
    assert "the survey weights of PWGTP: the training rows stand for" in done.stdout
    assert "synthetic rows count equally" in done.stdout and "confidential" in done.stdout
    result = written(folder)
    assert result["weights"]["name"] == "PWGTP" and result["weights"]["self_weighting"] is True
    assert result["weights"]["population"] == people["PWGTP"].sum()
    expected = people["PWGTP"][people["sex"] == "f"].sum() / people["PWGTP"].sum()
    shares = next(c for c in result["columns"] if c["column"] == "sex")["real"]
    assert shares[0] == pytest.approx(expected)


@pytest.mark.slow
def test_a_synthetic_table_with_weights_states_a_population(folder):
    only(surveyed(), "PWGTP").to_csv(folder / "people.csv", index=False)
    make_people(160, 1).assign(PWGTP=20.5).to_csv(folder / "made.csv", index=False)
    run(*WORDS, "--weight", "PWGTP", "-o", "out", cwd=folder)
    result = written(folder)
    assert not result["weights"]["self_weighting"]


@pytest.mark.slow
def test_the_weight_of_the_schema_is_the_default(tmp_path):
    schema = Schema(make_schema().columns, null_values=("N",), weight="PWGTP", max_weight=40)
    people, made, holdout = only(surveyed(), "PWGTP"), make_people(160, 1), surveyed(80, 2)
    about = {"schema": schema, "config": EvaluationConfig(m=20, k=(1,))}
    report = evaluate(people, made, only(holdout, "PWGTP"), **about)
    plain = Schema(make_schema().columns, null_values=("N",))
    named = evaluate(
        people,
        made,
        only(holdout, "PWGTP"),
        **{**about, "schema": plain},
        weights="PWGTP",
    )
    assert report.evaluation.weights == named.evaluation.weights
    effective = report.evaluation.weights.effective
    assert f"as much as {effective['holdout']:,.0f} rows of equal weights" in equal_rows(
        report.evaluation
    )
    frames = [item.to_frame()["value"] for item in (report, named)]
    pd.testing.assert_series_equal(*frames)
    unweighted = evaluate(only(people), made, **{**about, "schema": plain}, label="plain")
    assert unweighted.evaluation.weights is None
    with pytest.raises(InputError, match=r"weights to be the name of a column, got \[1, 2, 3\]"):
        evaluate(only(people), made, schema=plain, weights=[1, 2, 3])


def test_rows_that_are_left_out_take_their_weights_along():
    schema = make_schema()
    strict = Schema(
        schema.columns,
        null_values=("N",),
        impossible=[{"sex": ["f"], "job": [3]}],
        violations="drop",
        weight="w",
        max_weight=9,
    )
    people = make_people(200, 0)
    people["w"] = 2.0
    broken = people.assign(w=7.0)[people["sex"] == "f"].head(20)
    broken["job"] = 3
    both = pd.concat([broken, people]).set_index(np.arange(220)[::-1])
    about = {"schema": strict, "config": EvaluationConfig(m=5, k=(1,))}
    made = make_people(100, 1)
    report, clean = (evaluate(table, made, **about).evaluation for table in (both, people))
    assert report.weights.population == clean.weights.population == 400
    assert report["tvd2"].value == clean["tvd2"].value
    (rule,) = report.rules
    assert rule.training == 20 and rule.training_share == pytest.approx(140 / 540)
    assert np.isclose(report.columns[0].real, clean.columns[0].real).all()


def declined(*words, cwd, says):
    """As ``refused``, beside the remark that there is no certificate."""
    (cwd / "made.csv.certificate.json").unlink(missing_ok=True)
    before = sorted(path.name for path in cwd.rglob("*"))
    with contextlib.chdir(cwd):
        done = CliRunner().invoke(app, [*map(str, words)])
    assert done.exit_code == 2, (done.output, done.exception)
    lines = [line for line in done.stderr.splitlines() if line.strip()]
    lines = [line for line in lines if not line.startswith("There is no certificate beside")]
    assert len(lines) == 1 and lines[0].startswith("error: "), done.stderr
    for text in [says] if isinstance(says, str) else says:
        assert text in lines[0]
    assert sorted(path.name for path in cwd.rglob("*")) == before


BAD = [
    ({"PWGTP": -3}, ["training table has '-3' among the weights of column 'PWGTP'", "1 such row"]),
    ({"PWGTP": None}, ["training table has a null among the weights of column 'PWGTP'"]),
    ({"PWGTP": "many"}, ["'many' among the weights of column 'PWGTP'", "numbers from 0"]),
    ({"PWGTP": "inf"}, ["'inf' among the weights of column 'PWGTP'"]),
]


@pytest.mark.parametrize(("value", "says"), BAD)
@pytest.mark.parametrize("table", ["people.csv", "holdout.csv", "made.csv"])
def test_bad_weights_are_refused_in_one_line(folder, value, says, table):
    names = {"people.csv": "training", "holdout.csv": "hold-out", "made.csv": "synthetic"}
    only(surveyed(), "PWGTP").to_csv(folder / "people.csv", index=False)
    frame = only(surveyed(80, 2), "PWGTP").astype(object)
    frame.loc[7, "PWGTP"] = value["PWGTP"]
    frame.to_csv(folder / table, index=False)
    says = [says[0].replace("training", names[table]), *says[1:]]
    words = (*WORDS, "--holdout", "holdout.csv", "--weight", "PWGTP", "-o", "out")
    declined(*words, cwd=folder, says=says)


@pytest.mark.parametrize("table", ["people.csv", "holdout.csv", "made.csv"])
def test_weights_that_are_all_zero_are_refused(folder, table):
    only(surveyed(), "PWGTP").to_csv(folder / "people.csv", index=False)
    only(surveyed(80, 2), "PWGTP").assign(PWGTP=0).to_csv(folder / table, index=False)
    words = (*WORDS, "--holdout", "holdout.csv", "--weight", "PWGTP", "-o", "out")
    declined(*words, cwd=folder, says="has only weights of 0 in column 'PWGTP'")


def test_a_column_of_weights_that_is_missing_is_refused(folder):
    only(surveyed()).to_csv(folder / "people.csv", index=False)
    says = "The training table has no column 'WGTP' (weights)"
    declined(*WORDS, "--weight", "WGTP", "-o", "out", cwd=folder, says=says)


def test_columns_that_nobody_named_are_still_refused(folder):
    only(surveyed(), "PWGTP", "block").to_csv(folder / "people.csv", index=False)
    words = (*WORDS, "--weight", "PWGTP", "-o", "out")
    declined(*words, cwd=folder, says="column 'block' that the schema")


def test_a_column_of_texts_has_no_weights():
    with pytest.raises(InputError, match=r"'[fm]' among the weights of column 'sex'"):
        evaluate(make_people(60), make_people(60, 1), schema=make_schema(), weights="sex")


@pytest.mark.slow
def test_a_published_report_of_weights(folder):
    """Weights are those of the schema, whose cap is public; the synthetic table may carry its own."""
    schema = Schema(make_schema().columns, null_values=("N",), weight="PWGTP", max_weight=40)
    schema.save(folder / "schema.json", overwrite=True)
    people = only(surveyed(), "PWGTP")
    people.to_csv(folder / "people.csv", index=False)
    few = MargNetConfig(components=40, steps=100, hidden=(16,), latent_dim=8)
    model = MargNet(schema, epsilon=40.0, rows=160, config=few).fit(people)
    model.save(folder / "model")
    run(
        "sample",
        "model",
        "-n",
        90,
        "-o",
        "made.csv",
        "--weights",
        "population",
        "--overwrite",
        cwd=folder,
    )
    words = (*WORDS, "--epsilon", 30)
    done = run(*words, "--weight", "PWGTP", "-o", "out", cwd=folder)
    assert "Population of the training table: " in done.stdout
    written = json.loads((folder / "out" / "metrics.json").read_text())
    values = {metric["key"]: metric["synthetic"] for metric in written["metrics"]}
    assert written["weight"] == {"column": "PWGTP", "max": 40}
    assert values["population"]["value"] == pytest.approx(people["PWGTP"].sum(), rel=0.2)
    says = "declare 'age' in the schema"
    refused(*words, "--weight", "age", "-o", "no", cwd=folder, says=says)
    people.assign(PWGTP=-1).to_csv(folder / "people.csv", index=False)
    refused(*words, "-o", "no", cwd=folder, says="Column 'PWGTP' has weight")
