"""``tabsynth counts``, end to end: from a fit to files of counts, whose certificate verifies, and to a dossier that lists relations."""

import pandas as pd
import pytest
import yaml
from command_lines import FIT, make_people, make_schema, refused, run

from tabsynth import MargNet, load, read_table
from tabsynth.cli.options import column_names
from tabsynth.report.certificates import relations
from tabsynth.synthesizers import MargNetConfig

CLAIM = "Private: (2, 1e-05)-differential privacy for adding or removing one record"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("counts")
    make_schema().save(folder / "schema.json")
    make_people(2000).to_csv(folder / "people.csv", index=False)
    run(*FIT, "--epsilon", 2, "--time-limit", "1s", cwd=folder)
    (folder / "people.csv").unlink()  # counts read no private row
    return folder


def test_what_was_measured_is_said(folder):
    lines = run("counts", "model.tabsynth", cwd=folder).stdout.splitlines()
    assert lines[0].startswith("Measured, with noise: each column; each pair of columns")
    assert lines[1] == "From the model only: no pair of columns."
    assert lines[2].startswith("Not supported: relations of three and more columns")
    table = load(folder / "model.tabsynth").counts()
    assert lines[3].startswith(f"{table['table'].nunique()} tables of {len(table)} cells in all")
    assert lines[4].startswith(CLAIM)


def test_a_table_is_printed(folder):
    lines = run("counts", "model.tabsynth", "--by", "job, sex", cwd=folder).stdout.splitlines()
    assert lines[0].split()[:3] == ["job", "sex", "noisy"] and len(lines) == 1 + 4 * 2 + 1
    table = load(folder / "model.tabsynth").counts(["job", "sex"])
    assert lines[1].split() == [*map(str, table.iloc[0])]
    lines = run("counts", "model.tabsynth", "--by", "sex,age,job", cwd=folder).stdout.splitlines()
    assert lines[1].split()[-1] in ("model", "measured", "itself")
    assert any("more cells" in line for line in lines) == (len(lines) > 51)


@pytest.mark.parametrize("name", ["counts.csv", "counts.parquet"])
def test_a_file_has_its_certificate_and_is_not_replaced(folder, name):
    done = run("counts", "model.tabsynth", "-o", name, cwd=folder)
    table = load(folder / "model.tabsynth").counts()
    assert done.stdout.splitlines()[0] == f"Table: {name} ({len(table)} cells)"
    assert CLAIM in done.stdout
    read = pd.read_parquet(folder / name) if name.endswith("t") else pd.read_csv(folder / name)
    assert read["estimate"].tolist() == table["estimate"].tolist()
    assert list(read) == list(table)
    assert "Claimed: ε = 2" in run("verify", name, cwd=folder, code=4).stdout
    refused("counts", "model.tabsynth", "-o", name, cwd=folder, says=f"{name} is there already")
    run("counts", "model.tabsynth", "--by", "sex", "-o", name, "--overwrite", cwd=folder)
    assert len(read_table(folder / name)) == 2


def test_a_name_with_a_comma_is_in_quotes():
    assert column_names('age, "income, net" ,sex') == ["age", "income, net", "sex"]
    assert column_names("age") == ["age"] and column_names("") == [""]


def test_mistakes_are_one_line(folder):
    for words, says in (
        (("--by", "height"), "names column 'height', which the schema does not have"),
        (("--by", "sex,sex"), "names column 'sex' twice"),
        (("--by", ""), "names column '', which the schema does not have"),
        (("-o", "counts.pdf"), "counts.pdf: tables are written as .csv"),
        (("-o", "model.tabsynth.csv/x.csv"), "there is no folder"),
    ):
        refused("counts", "model.tabsynth", *words, cwd=folder, says=says)
    refused("counts", "none.tabsynth", cwd=folder, says="Cannot read model none.tabsynth")


def test_relations_stand_in_the_dossier(folder):
    """For readers, between the accuracy of the table and the reasons; counts themselves are no table of a dossier."""
    run("sample", "model.tabsynth", "-o", "synthetic.csv", cwd=folder)
    names = ("name", "description", "use", "region", "license", "population", "unit")
    answers = dict.fromkeys((*names, "justification", "preparation", "access"), "a")
    answers |= {"curators": ["b"], "published": "2026-11-25", "schema": "schema.json"}
    (folder / "release.yaml").write_text(yaml.safe_dump(answers))
    run("release", "synthetic.csv", "-o", "dossier", cwd=folder)
    page = (folder / "dossier" / "privacy-statement.html").read_text("utf-8")
    assert "Which relations between columns the tables keep" in page
    assert "<td>each column; each pair of columns" in page
    run("counts", "model.tabsynth", "-o", "numbers.csv", cwd=folder)
    says = "numbers.csv holds counts, and a dossier is of a synthetic table"
    refused("release", "numbers.csv", "-o", "other", cwd=folder, says=says)


def test_relations_of_a_certificate():
    columns = ["a", "b", "c", "d"]

    def texts(counted):
        return dict(relations({"training": {"counted": counted}}, columns))

    some = texts([["a", "b"], ["b", "a"], ["a", "d"], ["b", "c", "d"]])
    assert some["Measured, with noise"] == "each column; a × b, d; b × c, d; c × d; b × c × d"
    assert some["From the model only"] == "a × c"
    assert texts([])["Measured, with noise"] == "each column"
    assert texts([])["From the model only"] == "a × b, c, d; b × c, d; c × d"
    for odd in ("a", None, {"a": 1}):
        assert texts(odd) == {}
    assert texts([["x", "y"], 3, [["a"], "b"], ["c", {}]])["Measured, with noise"] == "each column"
    assert relations({}, columns) == []


def test_a_file_has_the_decimal_mark_of_the_schema(tmp_path):
    """As a sample has it."""
    schema = make_schema().with_decimal(",")
    schema.save(tmp_path / "schema.json")
    make_people().to_csv(tmp_path / "people.csv", index=False, na_rep="N")
    model = MargNet(schema, epsilon=1.0, config=MargNetConfig(steps=2)).fit(make_people())
    model.save(tmp_path / "model")
    run("counts", "model", "--by", schema.names[0], "-o", "new.csv", cwd=tmp_path)
    head, row = (tmp_path / "new.csv").read_text().splitlines()[:2]
    assert head.split(";")[1] == "noisy" and "," in row.split(";")[1]
