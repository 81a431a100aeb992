"""Files as they come, at the command line: a private fit without a schema, and what cannot be read."""

import contextlib
import json

import numpy as np
import pandas as pd
import pytest
from command_lines import FIT, make_people, make_schema, refused, run
from typer.testing import CliRunner

from tabsynth import InputError, MargNet, Schema, draft_private, read_table
from tabsynth.cli import app
from tabsynth.drafting import draft_schema
from tabsynth.synthesizers.margnet.config import MargNetConfig

pytestmark = pytest.mark.usefixtures("accounting_in_no_time", "few_attacks")

N = 1500
QUICK = MargNetConfig(components=20, latent_dim=5, hidden=(8,), steps=20)


def clinic():
    """What a clinic exports: numbers with marks, question marks for missing values, and umlauts."""
    rng = np.random.default_rng(0)
    weight = rng.normal(75, 12, N).clip(40, 130).round(1)
    share = [f"{p} %" for p in rng.integers(0, 101, N)]
    cost = [f"€ {c:,.2f}".translate({44: ".", 46: ","}) for c in rng.gamma(2, 900, N)]
    return pd.DataFrame(
        {
            "Stätte": rng.choice(["Zürich", "Bern"], N, p=[0.6, 0.4]),
            "Gewicht": [f"{w:.1f}".replace(".", ",") for w in weight],
            "Kosten": cost,
            "Anteil": np.where(rng.random(N) < 0.2, "?", share),
            "leer": "?",
        }
    )


def check_draft(schema):
    assert schema.decimal == "," and {"?", "NA"} <= set(schema.null_values)
    assert {column.name: column.kind for column in schema.columns} == {
        "Stätte": "categorical",
        "Gewicht": "numeric",
        "Kosten": "numeric",
        "Anteil": "numeric",
    }
    assert {"Zürich", "Bern"} <= set(schema["Stätte"].categories) and schema["Anteil"].nulls
    assert schema["Gewicht"].low >= 30 and schema["Gewicht"].high <= 150
    assert 5_000 <= schema["Kosten"].high <= 20_000 and schema["Kosten"].resolution == 0.01
    assert [item["name"] for item in schema.left_out] == ["leer"]


def semicolons(table, path):
    path.write_bytes(table.to_csv(index=False, sep=";").encode("cp1252"))


FORMS = {
    "t.csv": semicolons,
    "t.tsv": lambda table, path: table.to_csv(path, index=False, sep="\t"),
    "t.txt": lambda table, path: table.to_csv(path, index=False, sep="|", encoding="utf-16"),
    "t.csv.gz": lambda table, path: table.to_csv(path, index=False),
    "t.xlsx": lambda table, path: table.to_excel(path, index=False),
    "t.parquet": lambda table, path: table.to_parquet(path, index=False),
}


@pytest.mark.parametrize("name", FORMS)
def test_drafts_of_every_format(name, tmp_path):
    FORMS[name](clinic(), tmp_path / name)
    for extra in ((), ("--epsilon", 20, "--overwrite")):
        said = run("schema", "draft", name, "-o", "s.json", "--null", "?", *extra, cwd=tmp_path)
        assert "'leer': left out" in said.stdout
        check_draft(Schema.load(tmp_path / "s.json"))
    said = run("schema", "check", name, "s.json", cwd=tmp_path)
    assert "fits" in said.stdout


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    folder = tmp_path_factory.mktemp("clinic")
    semicolons(clinic(), folder / "t.csv")
    fit = ("fit", "t.csv", "--epsilon", 20, "--null", "?", "-o", "m", "--save-schema", "s.json")
    said = run(*fit, "--rows", N, "--time-limit", "0.5s", cwd=folder)
    assert "the header is not UTF-8. Such lines are read as Windows-1252" in said.stderr
    assert "'leer': left out" in said.stdout
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("name", ["s.csv", "s.tsv", "s.csv.gz", "s.parquet"])
def test_synthetic_tables_of_other_formats(name, fitted):
    schema = Schema.load(fitted / "s.json")
    check_draft(schema)
    run("sample", "m", "-n", 200, "-o", name, cwd=fitted)
    run("verify", name, cwd=fitted, code=4)
    table = read_table(fitted / name, schema)
    assert len(table) == 200 and abs(table["Gewicht"].mean() - 75) < 20
    if name == "s.csv":
        first, second, *_ = (fitted / name).read_text().splitlines()
        assert first == "Stätte;Gewicht;Kosten;Anteil" and "," in second
        assert json.loads((fitted / "s.csv.certificate.json").read_text())["private"]
        piped = ("sample", "m", "-n", 20, "-o", "p.csv", "--sep", "|")
        refused(*piped, "--decimal", ".", cwd=fitted, says="'Kosten' has decimal mark ','")
        run(*piped, "--decimal", ",", cwd=fitted)
        lines = (fitted / "p.csv").read_text().splitlines()
        assert lines[0].count("|") == 3 and "," in lines[1] and "." not in lines[1]
        run("verify", "p.csv", cwd=fitted, code=4)
        evaluate = ("evaluate", "--real", "t.csv", "--synthetic", "s.csv", "--schema", "s.json")
        run(*evaluate, "--encoding", "cp1252", "--sep", ";", "-o", "r", cwd=fitted)
    refused("sample", "m", "-n", 5, "-o", "q.csv", "--sep", "^", cwd=fitted, says="to be one of")
    refused("sample", "m", "-n", 5, "-o", "q.parquet", "--sep", ";", cwd=fitted, says="--sep")
    refused("sample", "m", "-n", 5, "-o", "q.xlsx", cwd=fitted, says="tables are written as .csv")


@pytest.fixture
def folder(tmp_path):
    make_schema().save(tmp_path / "schema.json")
    make_people().to_csv(tmp_path / "people.csv", index=False)
    return tmp_path


def problems(*words, cwd):
    """Exit code 2, and the lines of the problems below the first line."""
    with contextlib.chdir(cwd):
        done = CliRunner().invoke(app, [*map(str, words)])
    assert done.exit_code == 2, (done.output, done.exception)
    first, *lines = done.stderr.strip().splitlines()
    assert first.startswith("error: ") and first.endswith(f"has {len(lines)} problems:")
    assert all(line.startswith("- ") for line in lines)
    return lines


def test_all_problems_of_a_table_come_together(folder):
    rows = "".join(f"f,{age},1\n" for age in ("old", 100, 101, *range(1000, 1020)))
    (folder / "people.csv").write_text(f"sex,age,job\n{rows}x,1,7\nm,2,9\n")
    lines = problems(*FIT, "--epsilon", 1, "--rows", 10, cwd=folder)
    assert [sum(f"'{name}'" in line for line in lines) for name in ("sex", "age", "job")] == [
        1,
        2,
        1,
    ]
    assert not (folder / "model.tabsynth").exists()
    make_people(seed=1).to_csv(folder / "synthetic.csv", index=False)
    words = ("evaluate", "--real", "people.csv", "--synthetic", "synthetic.csv", "-o", "r")
    assert problems(*words, "--schema", "schema.json", cwd=folder) == lines
    done = run("schema", "check", "people.csv", "schema.json", cwd=folder, code=2)
    assert done.stdout.splitlines() == [line[2:] for line in lines]


def test_all_problems_of_a_dataframe_come_together():
    table = make_people(50)
    table["sex"] = table["sex"].replace("f", "x")
    table.loc[3, "age"] = 1000
    with pytest.raises(InputError) as caught:
        MargNet(make_schema(), epsilon=1.0, config=QUICK).fit(table)
    assert len(caught.value.problems) == 2 and "'x'" in str(caught.value)


@pytest.mark.parametrize(
    ("names", "says"),
    [
        ([0, 1, 2], "a column 0 whose name is no text; rename it"),
        (
            pd.MultiIndex.from_product([["a"], ["sex", "age", "job"]]),
            "names of 2 levels; join them",
        ),
        (["sex", "age", None], "whose name is no text"),
    ],
)
def test_names_that_are_no_texts_are_not_renamed(names, says):
    table = make_people(50).set_axis(names, axis=1)
    for work in (
        MargNet(epsilon=1.0, config=QUICK).fit,
        MargNet(make_schema(), epsilon=1.0, config=QUICK).fit,
        draft_schema,
        make_schema().validate,
        lambda frame: draft_private(frame, 1.0),
    ):
        with pytest.raises(InputError, match=says):
            work(table)


@pytest.mark.slow
def test_a_duplicated_index_is_no_matter():
    """Rows are taken in their order, whatever the index."""
    table, twice = make_people(300), make_people(300).set_axis([0, 1, 2] * 100)
    for schema in (make_schema(), None):
        samples = [
            MargNet(schema, epsilon=20.0, rows=300, config=QUICK, random_state=1).fit(t).sample(50)
            for t in (table, twice)
        ]
        pd.testing.assert_frame_equal(*samples)
    assert draft_schema(twice) == draft_schema(table) and make_schema().validate(twice) == []


def test_columns_of_mixed_types(folder):
    mixed = pd.DataFrame({"a": [1, "x", 2.5, None, True, "1"] * 60, "b": ["u", "v"] * 180})
    assert {"u", "v"} <= set(draft_private(mixed, 20.0, random_state=0)["b"].categories)
    drafted = draft_schema(mixed)
    assert drafted.names == ("b",)
    reason = "some of its values are texts, and some are not"
    assert drafted.left_out == ({"name": "a", "reason": reason},)
    schema = make_schema()
    table = make_people(50).astype(object)
    table.loc[3, "age"] = "old"
    with pytest.raises(InputError, match="'old'"):
        MargNet(schema, epsilon=1.0, config=QUICK).fit(table)


DAMAGED = {
    "t.csv": b"",
    "t.tsv": b"\n",
    "t.csv.gz": b"\x1f\x8b\x08",
    "t.parquet": b"PAR1\x00",
    "t.xlsx": b"PK\x03\x04",
    "t.sav": b"$FL2",
}


@pytest.mark.parametrize("name", DAMAGED)
def test_damaged_files_are_one_line(name, tmp_path):
    (tmp_path / name).write_bytes(DAMAGED[name])
    make_schema().save(tmp_path / "schema.json")
    refused("schema", "draft", name, "-o", "s.json", cwd=tmp_path, says=name)
    refused("fit", name, "--epsilon", 1, "-o", "m", cwd=tmp_path, says=name)
    words = ("fit", name, "--schema", "schema.json", "--epsilon", 1, "-o", "m")
    refused(*words, cwd=tmp_path, says=name)


def test_a_file_that_parses_into_one_column_asks(tmp_path):
    (tmp_path / "t.csv").write_text("a:b\n1:2\n" * 20)
    for words in (
        ("schema", "draft", "t.csv", "-o", "s"),
        ("fit", "t.csv", "--epsilon", 1, "-o", "m"),
    ):
        refused(*words, cwd=tmp_path, says="is the separator right? Name it with --sep")
        refused(*words, "--sep", "xx", cwd=tmp_path, says="one character")
        refused(*words, "--encoding", "no", cwd=tmp_path, says="encoding")
        refused(*words, "--decimal", ";", cwd=tmp_path, says="--decimal")
    run("schema", "draft", "t.csv", "-o", "s", "--sep", ":", cwd=tmp_path)
    assert Schema.load(tmp_path / "s").names == ("a", "b")


def test_a_column_of_one_value_and_one_without_any(tmp_path):
    table = pd.DataFrame({"a": ["x"] * 200, "b": ["?"] * 200, "c": ["1", "2"] * 100})
    table.to_csv(tmp_path / "t.csv", index=False)
    said = run(
        "schema", "draft", "t.csv", "-o", "s", "--null", "?", "--null", "-9", cwd=tmp_path
    ).stdout
    assert "'b': left out, all of its values are missing" in said
    schema = Schema.load(tmp_path / "s")
    assert schema.names == ("a", "c") and {"?", "-9", "NA", ""} <= set(schema.null_values)
    words = ("fit", "t.csv", "--schema", "s", "--epsilon", 1, "-o", "m", "--null", "?")
    refused(*words, cwd=tmp_path, says="--null goes without --schema")
    fit = ("fit", "t.csv", "--epsilon", 20, "--rows", 200, "--null", "?", "-o", "m")
    run(*fit, "--time-limit", "0.2s", cwd=tmp_path)
    run("sample", "m", "-n", 50, "-o", "s.csv", cwd=tmp_path)
    assert set(pd.read_csv(tmp_path / "s.csv", dtype=str)["a"]) <= {"x", "other"}


def test_a_table_whose_every_column_is_an_identifier(tmp_path):
    table = pd.DataFrame({"mrn": range(300), "email": [f"p{i}@x.example" for i in range(300)]})
    table.to_csv(tmp_path / "t.csv", index=False)
    refused("schema", "draft", "t.csv", "-o", "s", cwd=tmp_path, says="leaves out every column")
    refused("fit", "t.csv", "--epsilon", 1, "-o", "m", cwd=tmp_path, says="release no column")


def test_options_that_do_not_go_with_the_table(folder):
    (folder / "parts").mkdir()
    pd.DataFrame({"a": [1]}).to_parquet(folder / "parts" / "1.parquet")
    fit = ("fit", "parts", "--schema", "schema.json", "--epsilon", 1, "-o", "m")
    refused(*fit, "--sep", ";", cwd=folder, says="folder of Parquet files takes no --sep")
    refused(*FIT, "--epsilon", 1, "--sheet", "one", cwd=folder, says="takes --sheet")
