"""An OMOP database at the command line: fit, sample, release; bad input is one line and exit code 2, and nothing is spent."""

import json
import shutil

import pandas as pd
import pytest
from command_lines import run
from linked_tables import TINY
from omop_database import write

from tabsynth import LinkedMargNet
from tabsynth.synthesizers.linked import network

VISIT = "visit_occurrence"
RECORDS = {
    "condition_occurrence": "condition_start_date",
    "drug_exposure": "drug_exposure_start_date",
    "procedure_occurrence": "procedure_date",
    "measurement": "measurement_date",
}


@pytest.fixture(autouse=True, scope="module")
def few_contexts():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(network, "CONTEXTS", 64)
        patch.setattr(network, "MOST_STEPS", 5)
        patch.setattr("tabsynth.synthesizers.linked.generator.GROUPS", 50)
        make = LinkedMargNet.make_method

        def make_tiny(self, schema):
            self.config = TINY
            return make(self, schema)

        patch.setattr(LinkedMargNet, "make_method", make_tiny)
        yield


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with the database of a few persons, which no test changes."""
    folder = tmp_path_factory.mktemp("omop")
    write(folder / "omop", 60, seed=3)
    return folder


ANSWERS = """name: Synthetic patients
description: Records of patients of a made-up hospital.
curators: [A hospital]
use: Tests of programs for the OMOP Common Data Model.
region: Nowhere
published: 2026-11-28
license: CC0-1.0
population: Nobody; the database is made up.
unit: a person
justification: A test.
preparation: nothing
access: Nobody needs access to a made-up database.
schema: made.schema.json
access_body: "The access body of Nowhere, access@example.org"
"""


def copy_of(place, tmp_path):
    shutil.copytree(place / "omop", tmp_path / "omop")
    return tmp_path / "omop"


def fit(folder, *more, code=0, source="omop"):
    words = ["fit", source, "--omop", "--epsilon", "3", "-o", "model"]
    return run(*words, *more, cwd=folder, code=code)


def edit(folder, name, change):
    path = folder / f"{name}.csv"
    table = pd.read_csv(path, sep="\t" if name.isupper() else ",", dtype=object)
    change(table).to_csv(path, index=False, sep="\t" if name.isupper() else ",")


def without(*columns):
    return lambda table: table.drop(columns=list(columns))


def with_value(column, value, row=0):
    def change(table):
        table.loc[row, column] = value
        return table

    return change


def with_rows(number):
    """Return a change that adds rows of the first person."""
    return lambda table: pd.concat(
        [table, table.iloc[[0] * number].assign(measurement_id=range(10**6, 10**6 + number))]
    )


BAD = [
    (VISIT, lambda t: t.assign(admitting_source_concept_id=0), "column 'admitting_source_concept_id', which is of CDM 5.3"),
    ("drug_exposure", None, "has no table 'drug_exposure'; add it"),
    ("person", without("year_of_birth"), "Table person lacks column 'year_of_birth', which CDM 5.4 asks for; add it."),
    ("condition_occurrence", with_value("condition_concept_id", "4711"), "condition_concept_id=4711, which is no standard concept of domain 'Condition'"),
    ("condition_occurrence", with_value("condition_concept_id", "flu"), "condition_concept_id='flu', which is not a whole number; correct it."),
    (VISIT, with_value("visit_start_date", "1800-01-01"), "visit_start_date='1800-01-01' of person_id=10001, before year_of_birth="),
    (VISIT, with_value("visit_end_date", "soon"), "visit_end_date='soon', which is not a date, such as 2019-12-31; correct it."),
    (VISIT, with_value("visit_end_date", "20190304"), "visit_end_date='20190304', which is not a date, such as 2019-12-31; correct it."),
    (VISIT, with_value("visit_end_date", "13/04/2019"), "visit_end_date='13/04/2019', which is not a date, such as 2019-12-31; correct it."),
    ("condition_occurrence", with_value("condition_concept_id", "99999999999999999999"), "which is not a whole number; correct it."),
    ("measurement", with_rows(10_000), "rows of person_id="),
    ("person", lambda t: pd.concat([t, t[:1]]), "has key person_id='10001' twice"),
    ("CONCEPT", lambda t: t[:0], "has no standard concept (standard_concept 'S')"),
    ("CONCEPT", lambda t: t[t["domain_id"] != "Drug"], "has no standard concept of domain 'Drug', which column drug_concept_id takes"),
    ("CONCEPT", without("domain_id"), "table CONCEPT lacks column 'domain_id'"),
    ("condition_occurrence", with_value("visit_occurrence_id", "7"), "has visit_occurrence_id=7, which is no row of table visit_occurrence; add what is missing, or empty the cell"),
    (VISIT, with_value("person_id", "7"), "has person_id=7, which is no row of table person; add what is missing, or take the rows out."),
    (VISIT, with_value("visit_end_date", None), "has a null in column 'visit_end_date', which CDM 5.4 does not allow; fill it in, or take the row out."),
    ("person", with_value("year_of_birth", "1800"), "1800 is outside its declared bounds [1900, 2039]"),
    ("person", lambda t: t.assign(PERSON_ID=1), "Table person has column 'person_id' twice; drop one."),
    ("death", with_value("death_date", "1890-01-01"), "Table death has death_date='1890-01-01' of person_id="),
    ("condition_occurrence", with_value("person_id", "10002"), "has person_id='10002' in a row of visit_occurrence_id="),
]  # fmt: skip


@pytest.mark.parametrize(("name", "change", "says"), BAD)
def test_bad_databases_are_refused_before_anything_is_charged(place, tmp_path, name, change, says):
    folder = copy_of(place, tmp_path)
    if change is None:
        (folder / f"{name}.csv").unlink()
    else:
        edit(folder, name, change)
    ledger = ("--ledger", "ledger.jsonl")
    run("ledger", "create", "ledger.jsonl", "--epsilon", "9", "--unit", "person_id", cwd=tmp_path)
    before = (tmp_path / "ledger.jsonl").read_bytes()
    done = fit(tmp_path, *ledger, code=2)
    assert says in done.stderr and len(done.stderr.strip().splitlines()) == 1
    assert "Traceback" not in done.stderr and not (tmp_path / "model").exists()
    assert (tmp_path / "ledger.jsonl").read_bytes() == before


def test_a_project_without_room_for_the_fit_is_charged_no_selection(place, tmp_path):
    copy_of(place, tmp_path)
    run("ledger", "create", "ledger.jsonl", "--epsilon", "2", "--unit", "person_id", cwd=tmp_path)
    before = (tmp_path / "ledger.jsonl").read_bytes()
    done = fit(tmp_path, "--ledger", "ledger.jsonl", code=2)
    assert "limit" in done.stderr and not (tmp_path / "model").exists()
    assert (tmp_path / "ledger.jsonl").read_bytes() == before


def test_the_version_that_a_database_states(place, tmp_path):
    folder = copy_of(place, tmp_path)
    pd.DataFrame({"cdm_version": ["v6.0.0"]}).to_csv(folder / "cdm_source.csv", index=False)
    done = fit(tmp_path, code=2)
    assert "cdm_source has cdm_version='v6.0.0'; tabsynth reads CDM 5.4" in done.stderr


FILES = {
    "person.csv": (b"", "person.csv is empty; a table has a header"),
    "death.csv": (b"person_id,death_date\n1\n", "death.csv, line 2: 1 cells under a header of 2"),
    "death.parquet": (b"nothing", "has death.csv, death.parquet for table 'death'; expected one"),
    "visit_occurrence.csv": (b"\x1f\x8b\x08", "is no text, but a gzip file (.gz)"),
    "CONCEPT.csv": (b"concept_id\tconcept_name\n1\n", "give the file of an Athena download"),
}


@pytest.mark.parametrize("name", FILES)
def test_files_that_cannot_be_read(place, tmp_path, name):
    folder = copy_of(place, tmp_path)
    content, says = FILES[name]
    (folder / name).write_bytes(content)
    done = fit(tmp_path, code=2)
    assert says in done.stderr and len(done.stderr.strip().splitlines()) == 1
    assert not (tmp_path / "model").exists()


def test_tables_that_are_missing_are_named_together(place, tmp_path):
    (tmp_path / "omop").mkdir()
    done = fit(tmp_path, code=2)
    assert done.stderr.count("add it: a table with its columns and no rows will do") == 7
    shutil.copy(place / "omop" / "person.csv", tmp_path / "omop")
    assert fit(tmp_path, code=2).stderr.count("has no table") == 6


def odd(folder):
    """Edit what hospitals have, and what is no error: moments, nulls, records outside their visit, a death before a visit."""
    for path in [*folder.glob("*.csv")]:
        table = pd.read_csv(path, sep="\t" if path.stem.isupper() else ",", dtype=object)
        for column in table.filter(regex="_date$") if path.stem.islower() else ():
            table[column] = table[column] + " 13:45:00"
        if "visit_occurrence_id" in table and path.stem != VISIT:
            table.loc[::5, "visit_occurrence_id"] = None
        if path.stem == "condition_occurrence":
            table.loc[::7, "condition_concept_id"] = None
            table.loc[::3, "condition_start_date"] = "2037-01-01"
        if path.stem == VISIT:
            table.loc[3, "visit_end_date"] = "2019-01-01"
        if path.stem == "death":
            table["death_date"] = "2018-01-01"
        if path.stem == "measurement":
            table = with_rows(9_000)(table)
        path.unlink()
        table = table[:0] if path.stem == "procedure_occurrence" else table
        table.rename(columns=str.upper).to_csv(path.with_stem(path.stem.upper()), index=False)


@pytest.mark.slow
def test_databases_as_hospitals_have_them(place, tmp_path):
    odd(copy_of(place, tmp_path))
    done = fit(tmp_path)
    assert "measurement without a row of their parent are left out" in done.stdout
    assert (
        "at most 40 rows of visit_occurrence for each row of person, 1 row of death" in done.stdout
    )
    assert "0.0% to 100.0%" not in done.stdout
    run("sample", "model", "-o", "made", "-n", "50", cwd=tmp_path)
    check(read(tmp_path / "made"))


@pytest.mark.slow
def test_a_database_of_persons_alone(place, tmp_path):
    folder = copy_of(place, tmp_path)
    for name in (VISIT, "death", *RECORDS):
        edit(folder, name, lambda t: t[:0])
    fit(tmp_path)
    run("sample", "model", "-o", "made", "-n", "20", cwd=tmp_path)
    made = read(tmp_path / "made")
    assert len(made["person"]) == 20
    check(made)
    done = run("counts", "model", "-o", "counts.csv", cwd=tmp_path, code=2)
    assert "method linked-margnet keeps no noisy counts" in done.stderr
    assert not (tmp_path / "counts.csv").exists()


@pytest.mark.slow
def test_a_thousand_persons(tmp_path):
    """No orphan, no date out of order, and each concept is of the vocabulary."""
    write(tmp_path / "omop", 1_000, seed=5)
    fit(tmp_path, "--save-schema", "made.schema.json")
    run("sample", "model", "-o", "made", cwd=tmp_path)
    made = read(tmp_path / "made")
    standard = pd.read_csv(tmp_path / "omop" / "CONCEPT.csv", sep="\t")
    check(made, {*standard["concept_id"][standard["standard_concept"] == "S"]})
    assert 900 < len(made["person"]) < 1_100 and all(len(table) for table in made.values())
    (tmp_path / "release.yaml").write_text(f"{ANSWERS}contact: desk@example.org\n")
    run("release", "made", "-o", "dossier", cwd=tmp_path)
    record = json.loads((tmp_path / "dossier" / "healthdcat-ap.jsonld").read_text())
    assert record["dct:publisher"]["cv:contactPoint"]["cv:email"] == "desk@example.org"
    run("verify", "dossier", cwd=tmp_path, code=4)


@pytest.mark.slow
def test_an_evaluation_reads_the_database_as_the_fit(tmp_path):
    """Null concepts, and records without a visit, are none for the schema."""
    write(tmp_path / "omop", 12, seed=3)
    for name in ("procedure_occurrence", "measurement", "drug_exposure"):
        edit(tmp_path / "omop", name, lambda t: t[:20])
    odd(tmp_path / "omop")
    fit(tmp_path, "--save-schema", "omop.schema.json")
    run("sample", "model", "-o", "made", "-n", "20", cwd=tmp_path)
    words = ("--real", "omop", "--synthetic", "made", "--schema", "omop.schema.json")
    run("evaluate", *words, "-o", "report", cwd=tmp_path)
    assert (tmp_path / "report" / "table-measurement.html").exists()


@pytest.mark.parametrize(
    "options",
    [("--linked", "x.json"), ("--schema", "x.json"), ("--set", "steps=3"), ("--checkpoint", "c"), ("--sep", ";")],
)  # fmt: skip
def test_options_that_a_database_does_not_take(place, options):
    done = fit(place, *options, code=2)
    assert f"An OMOP database takes no {options[0]}" in done.stderr


def test_a_vocabulary_needs_a_database(place):
    words = ("fit", "omop/person.csv", "--epsilon", "1", "-o", "model", "--vocabulary", "omop")
    assert "--vocabulary goes with --omop" in run(*words, cwd=place, code=2).stderr


def check(tables, concepts=None):
    """What every synthetic database holds."""
    person = tables["person"].set_index("person_id")
    visit = tables[VISIT].set_index("visit_occurrence_id")
    assert person.index.is_unique and visit.index.is_unique
    assert visit["person_id"].isin(person.index).all()
    assert (visit["visit_start_date"] <= visit["visit_end_date"]).all()
    born = visit["person_id"].map(person["year_of_birth"])
    assert (visit["visit_start_date"].str[:4].astype(int) >= born).all()
    for name, column in RECORDS.items():
        of = tables[name]["visit_occurrence_id"].map(visit["visit_start_date"])
        until = tables[name]["visit_occurrence_id"].map(visit["visit_end_date"])
        assert ((tables[name][column] >= of) & (tables[name][column] <= until)).all()
        same = tables[name]["visit_occurrence_id"].map(visit["person_id"])
        assert (tables[name]["person_id"] == same).all()
    last = tables["death"]["person_id"].map(visit.groupby("person_id")["visit_end_date"].max())
    assert (last.isna() | (tables["death"]["death_date"] >= last)).all()
    assert tables["death"]["person_id"].is_unique
    if concepts is not None:
        for table in tables.values():
            for column in table.filter(like="concept_id"):
                assert set(table[column]) <= concepts | {0}


def read(folder):
    return {path.stem: pd.read_csv(path) for path in folder.glob("*.csv")}


@pytest.mark.slow
def test_fit_sample_and_release(place, tmp_path):
    copy_of(place, tmp_path)
    done = fit(tmp_path, "--save-schema", "made.schema.json")
    assert (
        "Concepts are known from CONCEPT, or selected privately in columns with more than 100,000; 20%"
        in done.stdout
    )
    run("sample", "model", "-o", "made", "-n", "80", cwd=tmp_path)
    made = read(tmp_path / "made")
    standard = pd.read_csv(tmp_path / "omop" / "CONCEPT.csv", sep="\t")
    check(made, {*standard["concept_id"][standard["standard_concept"] == "S"]})
    real = read(tmp_path / "omop")
    for name, table in made.items():
        assert set(table.columns) <= set(real[name].columns) and len(made["person"]) == 80
        assert not any(c.endswith("source_value") or c == "sig" for c in table.columns)
    done = run("verify", "made", cwd=tmp_path, code=4)
    assert done.stdout.count("Claimed: ε = 3, δ = 1e-05") == 7
    certificate = json.loads((tmp_path / "made" / "death.csv.certificate.json").read_text())
    assert (
        certificate["epsilon"] <= 3
        and "condition_occurrence.condition_concept_id" in certificate["public"]["released"]
    )
    purposes = [item["purpose"] for item in certificate["mechanisms"]]
    assert any("schema: concepts of persons" in purpose for purpose in purposes)
    (tmp_path / "release.yaml").write_text(ANSWERS)
    run("release", "made", "-o", "dossier", cwd=tmp_path)
    record = json.loads((tmp_path / "dossier" / "healthdcat-ap.jsonld").read_text())
    assert record["dct:conformsTo"]["@id"].endswith("/standard/OMOP-CDM")
    assert record["healthdcatap:numberOfUniqueIndividuals"]["@value"] == "80"
    assert record["healthdcatap:hdab"]["cv:contactPoint"]["cv:email"] == "access@example.org"
    # The profile takes no publisher without a contact.
    assert record["dct:creator"]["foaf:name"] == "A hospital" and "dct:publisher" not in record
    group = record["healthdcatap:hasVariables"]["csvw:table"]
    listed = {t["dct:title"]: [c["csvw:name"] for c in t["csvw:column"]] for t in group}
    assert listed == {name: [*table.columns] for name, table in made.items()}
    sex = next(c for t in group for c in t["csvw:column"] if c["csvw:name"] == "gender_concept_id")
    assert "8532 = FEMALE" in sex["dct:description"]
    for item in (record, *record["dcat:distribution"]):  # what release 8 of the profile asks for
        assert item["dcatap:applicableLegislation"]["@id"].startswith("http://data.europa.eu/eli/")
    run("verify", "dossier", cwd=tmp_path, code=4)
    (tmp_path / "dossier" / "healthdcat-ap.jsonld").unlink()
    assert "healthdcat-ap.jsonld" in run("verify", "dossier", cwd=tmp_path, code=2).stderr


@pytest.mark.slow
def test_a_duckdb_file_without_a_vocabulary(place, tmp_path):
    duckdb = pytest.importorskip("duckdb")
    with duckdb.connect(str(tmp_path / "cdm.duckdb")) as connection:
        for path in (place / "omop").glob("*.csv"):
            if not path.stem.isupper():
                connection.execute(f"CREATE TABLE {path.stem} AS SELECT * FROM '{path}'")
    done = fit(tmp_path, source="cdm.duckdb")
    assert "Concepts are selected privately" in done.stdout
    run("sample", "model", "-o", "made", "-n", "40", cwd=tmp_path)
    tables = [pd.read_csv(p) for p in (place / "omop").glob("*.csv") if not p.stem.isupper()]
    known = {c for t in tables for column in t.filter(like="concept_id") for c in t[column]}
    made = read(tmp_path / "made")
    check(made, known)
