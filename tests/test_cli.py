"""The command line end to end: the main job, and everything a user can get wrong."""

import contextlib
import json

import pandas as pd
import pytest
import typer
from command_lines import FIT, FIT_GAN, make_people, make_schema, refused, run
from typer.testing import CliRunner

from tabsynth.cli import app, main
from tabsynth.synthesizers.method import read_model, write_model

pytestmark = pytest.mark.usefixtures("accounting_in_no_time", "few_attacks")


@pytest.fixture
def folder(tmp_path):
    make_schema().save(tmp_path / "schema.json")
    make_people().to_csv(tmp_path / "people.csv", index=False)
    make_people(seed=1).to_csv(tmp_path / "holdout.csv", index=False)
    return tmp_path


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    """One fitted model for all tests that only need one."""
    folder = tmp_path_factory.mktemp("fitted")
    make_schema().save(folder / "schema.json")
    make_people().to_csv(folder / "people.csv", index=False)
    make_people(seed=1).to_csv(folder / "holdout.csv", index=False)
    done = run(*FIT, "--epsilon", 2, cwd=folder)
    (folder / "plan.txt").write_text(done.stdout)
    return folder


@pytest.mark.slow
def test_fit_prints_its_privacy_cost_first(fitted):
    text = (fitted / "plan.txt").read_text()
    plan = text[: text.index("Private:")]
    for words in ("1 release", "sensitivity", "epsilon = ", "delta = 1e-05", "takes about"):
        assert words in plan
    assert "Private: (1.99" in text or "Private: (2," in text


@pytest.mark.slow
def test_the_main_job(fitted):
    run("sample", "model.tabsynth", "-n", 500, "-o", "synthetic.csv", cwd=fitted)
    table = pd.read_csv(fitted / "synthetic.csv", dtype={"job": "Int64"})
    assert list(table.columns) == ["sex", "age", "job"]
    assert len(table) == 500
    assert table["age"].between(0, 99).all()
    certificate = json.loads((fitted / "synthetic.csv.certificate.json").read_text())
    assert certificate["private"] is True
    assert 1.98 <= certificate["epsilon"] <= 2
    assert certificate["table"]["rows"] == 500
    unsigned = run("verify", "synthetic.csv", cwd=fitted, code=4).stdout
    assert "consistent, not authenticated" in unsigned and "Private" not in unsigned
    done = run(
        *("evaluate", "--real", "people.csv", "--synthetic", "synthetic.csv"),
        *("--holdout", "holdout.csv", "--schema", "schema.json", "-o", "report"),
        cwd=fitted,
    )
    assert "independent columns" in done.stdout
    metrics = json.loads((fitted / "report" / "metrics.json").read_text())
    assert metrics["evaluation"]["certificate"]["epsilon"] == certificate["epsilon"]
    assert (
        metrics["evaluation"]["authenticated"] is False
        and "nobody vouches for this claim" in done.stdout
    )
    assert "confidential" in (fitted / "report" / "report.html").read_text()


def test_a_signed_table_is_authenticated_by_its_signers_key(fitted):
    for name in ("key", "other"):
        run("keygen", name, cwd=fitted)
    words = ("sample", "model.tabsynth", "-n", 60, "-o", "signed.csv", "--sign", "key")
    run(*words, cwd=fitted)
    result = run("verify", "signed.csv", "--key", "key.pub", cwd=fitted)
    assert result.stdout.splitlines()[-1].startswith("Private: (")
    run("verify", "signed.csv", cwd=fitted, code=4)
    refused("verify", "signed.csv", "--key", "other.pub", cwd=fitted, says="the key given is")
    words = ("evaluate", "--real", "people.csv", "--synthetic", "signed.csv")
    words = (*words, "--schema", "schema.json", "--epsilon", 0.5)
    refused(*words, "-o", "no", "--key", "other.pub", cwd=fitted, says="the key given is")
    done = run(*words, "-o", "vouched", "--key", "key.pub", cwd=fitted)
    metrics = json.loads((fitted / "vouched" / "metrics.json").read_text())
    assert metrics["authenticated"] is True and "nobody vouches" not in done.stdout
    (fitted / "signed.csv.certificate.json").unlink()
    refused(
        *words, "-o", "no", "--key", "key.pub", cwd=fitted, says="There is no certificate beside"
    )


@pytest.mark.slow
def test_a_report_to_publish_and_columns_that_are_asked_for(fitted):
    run("sample", "model.tabsynth", "-n", 60, "-o", "public.csv", cwd=fitted)
    words = ("evaluate", "--real", "people.csv", "--synthetic", "public.csv")
    words = (*words, "--schema", "schema.json")
    done = run(*words, "-o", "published", "--epsilon", 0.5, cwd=fitted)
    assert "The figures alone cost (0.49" in done.stdout and "together within" not in done.stdout
    assert "neither the table nor any other report" in done.stderr
    result = json.loads((fitted / "published" / "metrics.json").read_text())
    assert result["format"] == "tabsynth-published-report/3" and result["epsilon"] <= 0.5
    run(*words, "-o", "asked", "--target", "sex", "--by", "sex", "--weight", "age", cwd=fitted)
    metrics = json.loads((fitted / "asked" / "metrics.json").read_text())["evaluation"]["metrics"]
    assert {"target_auroc_logistic", "subgroup_gap_sex"} <= {metric["key"] for metric in metrics}
    refused(*words, "-o", "no", "--by", "nobody", cwd=fitted, says="--by nobody is no column")
    words = (*words, "--holdout", "people.csv", "--known", "nobody")
    refused(*words, "-o", "no", cwd=fitted, says="--known nobody is no column")
    priced = (*words, "-o", "no", "--epsilon", 0.5)
    refused(*priced, "--holdout", "people.csv", cwd=fitted, says="leave out --holdout")
    refused(*priced, "--target", "sex", "--by", "sex", cwd=fitted, says="--target, --by")


def test_parquet_in_and_out(fitted):
    make_people().to_parquet(fitted / "people.parquet")
    words = ("fit", "people.parquet", "--schema", "schema.json", "-o", "p.tabsynth")
    run(*words, "--epsilon", 1, "--time-limit", "0.5s", "--rows", 400, cwd=fitted)
    run("sample", "p.tabsynth", "-n", 50, "-o", "s.parquet", cwd=fitted)
    table = pd.read_parquet(fitted / "s.parquet")
    assert [str(d) for d in table.dtypes] == ["str", "int64", "Int64"]


def test_same_seed_same_table_and_the_certificate_says_seeded(folder):
    for name in ("a", "b"):
        out = f"{name}.tabsynth"
        words = ("fit", "people.csv", "--schema", "schema.json", "--epsilon", 1, "-o", out)
        run(*words, "--seed", 7, "--rows", 400, cwd=folder)
        run("sample", out, "-n", 200, "-o", f"{name}.csv", "--seed", 3, cwd=folder)
    assert (folder / "a.csv").read_bytes() == (folder / "b.csv").read_bytes()
    certificate = json.loads((folder / "a.csv.certificate.json").read_text())
    assert certificate["private"] is False
    assert "seeded" in certificate["statement"]


@pytest.mark.slow
def test_time_limit_gives_a_valid_model_and_a_smaller_epsilon(folder):
    # A tenth of a second cannot hold the planned steps, whatever the machine.
    done = run(*FIT_GAN, "--epsilon", 8, "--time-limit", "0.1s", cwd=folder)
    assert "Stopped early: time limit" in done.stdout
    run("sample", "model.tabsynth", "-n", 10, "-o", "s.csv", cwd=folder)
    certificate = json.loads((folder / "s.csv.certificate.json").read_text())
    assert certificate["epsilon"] < 7.9
    run("verify", "s.csv", cwd=folder, code=4)


def test_infinite_epsilon_says_not_private(folder):
    done = run(*FIT, "--epsilon", "inf", "--time-limit", "0.5s", "--rows", 400, cwd=folder)
    assert "NOT private" in done.stdout
    assert "Not private" in done.stdout.splitlines()[-2]


BAD_TABLES = {
    "empty file": ("", "people.csv"),
    "missing column": ("sex,age\nf,1\n", "'job'"),
    "extra column": ("sex,age,job,zip\nf,1,1,9\n", "'zip'"),
    "duplicate column": ("sex,age,age,job\nf,1,1,1\n", "'age'"),
    "text for a number": ("sex,age,job\nf,old,1\n", ["'age'", "'old'"]),
    "unseen category": ("sex,age,job\nx,1,1\n", ["'sex'", "'x'"]),
    "past the bounds": ("sex,age,job\nf,100,1\n", ["'age'", "100"]),
    "infinite": ("sex,age,job\nf,inf,1\n", ["'age'", "inf"]),
    "huge": ("sex,age,job\nf,1e38,1\n", "'age'"),
    "null where none is allowed": ("sex,age,job\n,1,1\n", "'sex'"),
    "all null": ("sex,age,job\nf,,1\nm,,2\n", "'age'"),
    "ragged": ("sex,age,job\nf,1\n", "people.csv"),
    "latin-1": ("sex,age,job\nf\xe9,1,1\n", "'fé'"),
    "no encoding": ("sex,age,job\nf\x81,1,1\n", "UTF-8"),
    "binary": ("\x00\x01\x02\xff\xfe", "people.csv"),
}


@pytest.mark.parametrize("name", BAD_TABLES)
def test_bad_tables(folder, name):
    text, says = BAD_TABLES[name]
    (folder / "people.csv").write_bytes(text.encode("latin-1"))
    refused(*FIT, "--epsilon", 1, "--rows", 10, cwd=folder, says=says)


@pytest.mark.slow
@pytest.mark.parametrize("rows", ["", "f,1,1\n"])
def test_tables_of_no_row_and_of_one_are_fitted_alike(folder, rows):
    """R25: that a fit succeeds must not tell a table of one record from an empty one."""
    (folder / "few.csv").write_text("sex,age,job\n" + rows)
    fit = ("fit", "few.csv", "--schema", "schema.json", "--epsilon", 1, "-o", "model")
    run(*fit, "--time-limit", "0.5s", cwd=folder)
    run("sample", "model", "-n", 30, "-o", "s.csv", cwd=folder)
    assert len(pd.read_csv(folder / "s.csv")) == 30
    run("verify", "s.csv", cwd=folder, code=4)


def test_bad_paths(folder):
    refused("fit", "nowhere.csv", *FIT[2:], "--epsilon", 1, cwd=folder, says="nowhere.csv")
    refused("fit", "people.xlsx", *FIT[2:], "--epsilon", 1, cwd=folder, says="people.xlsx")
    refused(
        *("fit", "people.csv", "--schema", "schema.json", "--epsilon", 1, "-o", "no/such/m"),
        cwd=folder,
        says="no/such/m",
    )
    refused(
        *("fit", "people.csv", "--schema", "people.csv", "--epsilon", 1, "-o", "m"),
        cwd=folder,
        says="people.csv",
    )
    refused("sample", "people.csv", "-n", 5, "-o", "s.csv", cwd=folder, says="people.csv")
    refused("sample", "nowhere", "-n", 5, "-o", "s.csv", cwd=folder, says="nowhere")
    refused("verify", "people.csv", cwd=folder, says="certificate")
    (folder / "file").write_text("")
    evaluate = ("evaluate", "--real", "people.csv", "--synthetic", "holdout.csv")
    words = (*evaluate, "--schema", "schema.json", "-o")
    refused(*words, "file/report", cwd=folder, says="file/report")


def test_bad_sample_sizes_and_suffixes(fitted):
    refused("sample", "model.tabsynth", "-n", 0, "-o", "s.csv", cwd=fitted, says="n")
    refused("sample", "model.tabsynth", "-n", 5, "-o", "s.doc", cwd=fitted, says=".csv")
    refused("sample", "model.tabsynth", "-n", 5, "-o", "s.sav", cwd=fitted, says=".csv")


def test_damaged_model(fitted):
    data = (fitted / "model.tabsynth").read_bytes()
    (fitted / "cut.tabsynth").write_bytes(data[: len(data) // 2])
    refused("sample", "cut.tabsynth", "-n", 5, "-o", "s.csv", cwd=fitted, says="cut.tabsynth")
    newer = data.replace(b"tabsynth-model/1", b"tabsynth-model/9")
    (fitted / "newer.tabsynth").write_bytes(newer)
    refused("sample", "newer.tabsynth", "-n", 5, "-o", "s.csv", cwd=fitted, says="tabsynth-model/9")


def test_a_schema_drafted_from_the_table_is_refused_until_confirmed(folder):
    run("schema", "draft", "people.csv", "-o", "draft.json", "--null", "N", cwd=folder)
    words = ("fit", "people.csv", "--schema", "draft.json", "--epsilon", 1, "-o", "m.tabsynth")
    refused(*words, cwd=folder, says=["'sex'", "--accept-drafted-domain"])
    run(*words, "--accept-drafted-domain", "--time-limit", "0.5s", "--rows", 400, cwd=folder)
    run("sample", "m.tabsynth", "-n", 5, "-o", "s.csv", cwd=folder)
    certificate = json.loads((folder / "s.csv.certificate.json").read_text())
    assert certificate["public"]["accepted_drafted_domain"] is True
    assert certificate["public"]["drafted"] == ["sex", "age", "job"]


def test_evaluate_refuses_a_table_of_another_schema(folder):
    pd.DataFrame({"sex": ["f"], "job": [1]}).to_csv(folder / "other.csv", index=False)
    words = ("evaluate", "--real", "people.csv", "--synthetic", "other.csv")
    refused(*words, "--schema", "schema.json", "-o", "report", cwd=folder, says="'age'")


def test_the_holdout_must_be_other_people(folder):
    words = ("evaluate", "--real", "people.csv", "--synthetic", "holdout.csv")
    words = (*words, "--schema", "schema.json", "-o", "report", "--holdout")
    for path, whose in (("people.csv", "training"), ("holdout.csv", "synthetic")):
        with contextlib.chdir(folder):
            done = CliRunner().invoke(app, [*words, path])
        assert done.exit_code == 2
        assert f"rows of the {whose} table" in done.stderr
        assert not (folder / "report").exists()


def test_what_the_parser_refuses_is_a_line_with_the_value_and_where_help_is(tmp_path):
    fit = ("fit", "people.csv", "--schema", "schema.json")
    for words, says in (
        ((*fit, "--epsilon", "abc"), "Invalid value for '--epsilon'"),
        ((*fit, "--epsilon", "abc"), "got 'abc'. See tabsynth fit --help."),
        (fit, "Missing option '--epsilon'. See tabsynth fit --help."),
        ((*fit, "--epsilom", "1"), "No such option: --epsilom. Did you mean --epsilon? See"),
        ((*fit, "-e", "1"), "No such option: -e. Did you mean --epsilon? See tabsynth fit"),
        ((*fit, "-z"), "No such option: -z. See tabsynth fit --help."),
        ((*fit, "--label", "sex"), "No such option: --label. A setting of a method is written as"),
        (
            ("sample", "m", "--label", "x"),
            "No such option: --label. See tabsynth sample",
        ),
        (("fitt",), "No such command 'fitt'."),
        (("fitt",), " See tabsynth --help."),
        (("plan", "--method"), "'--method' requires an argument."),
    ):
        done = run(*words, cwd=tmp_path, code=2)
        (line,) = done.stderr.splitlines()
        assert line.startswith("error: ") and says in line and done.stdout == ""
    done = run("ledger", cwd=tmp_path, code=2)  # nothing said: the help
    assert "Usage: tabsynth ledger" in done.stdout and done.stderr == ""
    assert run("--help", cwd=tmp_path).stderr == ""


def test_an_aborted_question_is_a_line(monkeypatch, capsys):
    def aborted(**_):
        raise typer.Abort

    monkeypatch.setattr("tabsynth.cli.app", aborted)
    with pytest.raises(SystemExit, match="1"):
        main()
    assert capsys.readouterr().err == "error: Aborted.\n"


def test_inputs_are_never_written_over(folder):
    words = ("fit", "people.csv", "--schema", "schema.json", "--epsilon", 1, "-o")
    for out in ("people.csv", "schema.json", "./people.csv"):
        refused(*words, out, cwd=folder, says="is read by this command")
    refused(
        "schema", "draft", "people.csv", "-o", "people.csv", cwd=folder, says="people.csv is read"
    )
    assert (folder / "people.csv").read_text().startswith("sex,age,job")


def test_a_table_is_not_left_without_its_certificate(fitted):
    (fitted / "c.csv.certificate.json").mkdir()
    refused("sample", "model.tabsynth", "-n", 5, "-o", "c.csv", cwd=fitted, says="c.csv.cert")
    long = "x" * 251 + ".csv"
    refused("sample", "model.tabsynth", "-n", 5, "-o", long, cwd=fitted, says="Cannot write")
    refused("sample", "model.tabsynth", "-n", 10**12, "-o", "s.csv", cwd=fitted, says="in parts")


def test_a_flipped_bit_and_a_model_of_another_schema(fitted):
    data = bytearray((fitted / "model.tabsynth").read_bytes())
    data[-9] ^= 1
    (fitted / "bit.tabsynth").write_bytes(data)
    refused("sample", "bit.tabsynth", "-n", 5, "-o", "s.csv", cwd=fitted, says="checksum")
    facts, weights = read_model(fitted / "model.tabsynth")
    facts["schema"]["columns"][0]["categories"] = ["a", "b"]
    facts.pop("format")
    write_model(fitted / "other.tabsynth", facts, weights)
    says = "its schema is not the one"
    refused("sample", "other.tabsynth", "-n", 5, "-o", "s.csv", cwd=fitted, says=says)


def test_a_constant_column_and_one_row_are_safe(folder):
    (folder / "people.csv").write_text("sex,age,job\nf,1,1\n")
    run(*FIT, "--epsilon", 1, "--time-limit", "0.5s", "--rows", 400, cwd=folder)
    run("sample", "model.tabsynth", "-n", 5, "-o", "s.csv", cwd=folder)


@pytest.mark.slow
def test_strange_names_and_values_are_safe(tmp_path):
    """A path, a script and a formula in names and cells: text to us, never anything else."""
    frame = pd.DataFrame(
        {"../../x": ["<script>alert(1)</script>", "b"] * 60, "[red]y": ["p", "q"] * 60}
    )
    frame.to_csv(tmp_path / "t.csv", index=False)
    run("schema", "draft", "t.csv", "-o", "s.json", cwd=tmp_path)
    words = ("fit", "t.csv", "--schema", "s.json", "--epsilon", 1, "-o", "m", "--rows", 120)
    run(*words, "--accept-drafted-domain", "--time-limit", "0.5s", cwd=tmp_path)
    run("sample", "m", "-n", 50, "-o", "o.csv", cwd=tmp_path)
    words = ("evaluate", "--real", "t.csv", "--synthetic", "o.csv", "--schema", "s.json")
    run(*words, "-o", "r", cwd=tmp_path)
    html = (tmp_path / "r" / "report.html").read_text()
    assert "<script>alert" not in html
    assert "&lt;script&gt;" in html
    assert not list(tmp_path.parent.glob("x*"))


def test_formulas_are_not_written_unasked(tmp_path):
    frame = pd.DataFrame({"a": ["=cmd|' /C calc'!A0", "b"] * 40, "n": [-1, 2] * 40})
    frame.to_csv(tmp_path / "t.csv", index=False)
    run("schema", "draft", "t.csv", "-o", "s.json", cwd=tmp_path)
    words = ("fit", "t.csv", "--schema", "s.json", "--epsilon", 8, "-o", "m", "--rows", 80)
    run(*words, "--accept-drafted-domain", "--time-limit", "0.5s", cwd=tmp_path)
    refused("sample", "m", "-n", 50, "-o", "o.csv", cwd=tmp_path, says=["'a'", "formula"])
    refused(
        *("sample", "m", "-n", 50, "-o", "o.csv", "--formulas", "no"), cwd=tmp_path, says="escape"
    )
    run("sample", "m", "-n", 50, "-o", "o.csv", "--formulas", "keep", cwd=tmp_path)
    assert "\n=cmd|" in (tmp_path / "o.csv").read_text()
    run("sample", "m", "-n", 50, "-o", "o.csv", "--formulas", "escape", "--overwrite", cwd=tmp_path)
    text = (tmp_path / "o.csv").read_text()
    assert "\n'=cmd|" in text and "\n=cmd|" not in text and ",-1\n" in text
    run("verify", "o.csv", cwd=tmp_path, code=3)  # of what was written; its domains were drafted
    run("sample", "m", "-n", 50, "-o", "o.parquet", cwd=tmp_path)
