"""OMOP databases by all ways in: the same rows give the same tables, the same schema and the same model; what is refused or left out."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from linked_tables import TINY
from omop_database import database, vocabulary
from pyarrow import parquet

from tabsynth import InputError, LinkedMargNet
from tabsynth.omop import schema as of_schema
from tabsynth.omop.database import is_omop, read_omop
from tabsynth.omop.schema import omop_schema
from tabsynth.synthesizers.linked import network

CONDITIONS, VISITS = "condition_occurrence", "visit_occurrence"


@pytest.fixture(scope="module")
def given():
    """Tables of a few persons with nulls, in the types that a program has for them."""
    tables = database(30, seed=3) | vocabulary()
    for name in (CONDITIONS, "measurement"):
        visits = tables[name]["visit_occurrence_id"].astype("Int64")
        tables[name]["visit_occurrence_id"] = visits.mask(np.arange(len(visits)) % 7 == 0)
    days = tables["drug_exposure"]["days_supply"].astype("Int64")
    tables["drug_exposure"]["days_supply"] = days.mask(np.arange(len(days)) % 5 == 0)
    for table in tables.values():
        for column in table.filter(regex="_date$"):
            table[column] = pd.to_datetime(table[column]).dt.date
    return tables


def folder(path, tables, write):
    path.mkdir()
    for name, table in tables.items():
        write(table, path / name)
    return path


def as_csv(table, path):
    table.to_csv(f"{path}.csv", index=False)


def as_parquet(table, path):
    table.to_parquet(f"{path}.parquet")


def as_parts(table, path):
    """Write a table as Spark does: a folder with a part of the rows in each file, in any order."""
    path.mkdir()
    arrow = pa.Table.from_pandas(table.sample(frac=1, random_state=0), preserve_index=False)
    for number, rows in enumerate((arrow[::2], arrow[1::2])):
        parquet.write_table(rows, path / f"part-{number:05}.snappy.parquet")
    (path / "_SUCCESS").touch()


def in_duckdb(path, tables):
    duckdb = pytest.importorskip("duckdb")
    with duckdb.connect(str(path)) as connection:
        connection.execute("CREATE SCHEMA hospital")
        for name, table in tables.items():
            connection.register("rows", pa.Table.from_pandas(table, preserve_index=False))
            connection.execute(f"CREATE TABLE hospital.{name} AS SELECT * FROM rows")
    return path


WAYS = {
    "csv": lambda path, tables: folder(path, tables, as_csv),
    "parquet": lambda path, tables: folder(path, tables, as_parquet),
    "parts": lambda path, tables: folder(path, tables, as_parts),
    "duckdb": in_duckdb,
    "pyarrow": lambda path, tables: {n: pa.Table.from_pandas(t) for n, t in tables.items()},
    "upper case, moments": lambda path, tables: folder(path, {n.upper(): with_moments(t) for n, t in tables.items()}, as_parquet),
}  # fmt: skip


def with_moments(table):
    """Return a table with names in upper case, numbers as decimals and dates as moments."""
    out = table.copy()
    for column in out.filter(regex="_date$"):
        out[column] = pd.to_datetime(out[column]) + pd.Timedelta(hours=13)
    return out.rename(columns=str.upper)


@pytest.mark.parametrize("way", [way for way in WAYS if way != "csv"])
def test_the_same_rows_are_the_same_database(given, tmp_path, monkeypatch, way):
    monkeypatch.setattr(of_schema, "new_name", lambda: "name of a release")
    first = read_omop(WAYS["csv"](tmp_path / "csv", given))
    second = read_omop(WAYS[way](tmp_path / "other", given))
    for name, table in first.tables.items():
        pd.testing.assert_frame_equal(table, second.tables[name])
    one, other = (omop_schema(d, 3.0, random_state=0) for d in (first, second))
    assert one.to_dict() == other.to_dict() and is_omop(one)


@pytest.mark.slow
def test_the_same_rows_give_the_same_model(given, tmp_path, monkeypatch):
    monkeypatch.setattr(of_schema, "new_name", lambda: "name of a release")
    monkeypatch.setattr(network, "CONTEXTS", 64)
    monkeypatch.setattr("tabsynth.synthesizers.linked.generator.GROUPS", 50)
    made = []
    for way in ("csv", "parts", "duckdb"):
        read = read_omop(WAYS[way](tmp_path / way, given))
        schema = omop_schema(read, 3.0, random_state=0)
        model = LinkedMargNet(schema, epsilon=3.0, config=TINY, random_state=0, device="cpu")
        made.append(model.fit(read.tables).sample(20, random_state=1))
    for tables in made[1:]:
        for name, table in tables.items():
            pd.testing.assert_frame_equal(table, made[0][name])


def test_records_without_a_visit_are_left_out(given):
    read = read_omop(given)
    for name in (CONDITIONS, "measurement"):
        assert len(read.tables[name]) == given[name]["visit_occurrence_id"].notna().sum()
        assert len(read.tables[name]) < len(given[name])
    schema = omop_schema(read, 3.0, random_state=0)
    assert schema.keys[CONDITIONS].orphans == "drop"
    assert any(
        "without a row of their parent" in n
        for n in LinkedMargNet(schema, epsilon=3.0).plan().notes
    )


def test_identifiers_and_free_text_are_not_collected(given):
    duckdb = pytest.importorskip("duckdb")
    connection = duckdb.connect()
    connection.execute("SET python_enable_replacements = false")
    lazy = {}
    for name, table in given.items():
        text = table.assign(person_source_value=1) if name == "person" else table
        relation = connection.from_arrow(pa.Table.from_pandas(text, preserve_index=False))
        if name == "person":  # whoever reads this column fails
            relation = relation.project(
                "* EXCLUDE (person_source_value), error('read') AS person_source_value"
            )
        lazy[name] = relation
    assert len(read_omop(lazy).tables["person"]) == 30


def one_year(given, version):
    return given | {"cdm_source": pd.DataFrame({"CDM_VERSION": [version]})}


@pytest.mark.parametrize("version", ["v5.4", "CDM v5.4.1", "5.4", None])
def test_the_version_of_the_cdm(given, version):
    assert read_omop(one_year(given, version)).where == "The database"


@pytest.mark.parametrize("version", ["v5.3", "CDM v5.3.1", "6.0"])
def test_another_version_is_refused(given, version):
    with pytest.raises(InputError, match=r"tabsynth reads CDM 5\.4: convert the database first"):
        read_omop(one_year(given, version))


def with_value(given, name, column, value, row=0):
    table = given[name].astype({column: object})
    table.loc[row, column] = value
    return given | {name: table}


BAD = [
    (lambda g: given_with_twice(g), "Table person has column 'person_id' twice; drop one."),
    (lambda g: with_value(g, VISITS, "person_id", 7), "Table visit_occurrence has person_id=7, which is no row of table person; add what is missing, or take the rows out."),
    (lambda g: with_value(g, CONDITIONS, "visit_occurrence_id", 7), "which is no row of table visit_occurrence; add what is missing, or empty the cell: records without a visit are left out."),
    (lambda g: with_value(g, CONDITIONS, "person_id", None, row=1), "Table condition_occurrence has a null in column 'person_id'"),
    (lambda g: with_value(g, VISITS, "visit_end_date", None), "Table visit_occurrence has a null in column 'visit_end_date'"),
    (lambda g: with_value(g, "person", "year_of_birth", None), "Table person has a null in column 'year_of_birth'"),
    (lambda g: with_value(g, "death", "death_date", "1890-01-01"), "Table death has death_date='1890-01-01'"),
    (lambda g: g | {"PERSON": g["person"]}, "The database has several tables 'person'; give one of them."),
    (lambda g: 7, "Expected a folder, a DuckDB file or a dict of tables, got int."),
]  # fmt: skip


def given_with_twice(given):
    return given | {"person": given["person"].assign(PERSON_ID=1)}


@pytest.mark.parametrize(("change", "says"), BAD)
def test_bad_tables_are_refused_in_one_line(given, change, says):
    with pytest.raises(InputError) as refusal:
        read_omop(change(given))
    assert says in str(refusal.value) and len(str(refusal.value).splitlines()) == 1


def test_a_null_concept_is_that_no_concept_matches(given):
    read = read_omop(with_value(given, CONDITIONS, "condition_concept_id", None, row=1))
    ids = given[CONDITIONS]["condition_occurrence_id"]
    row = read.tables[CONDITIONS]["condition_occurrence_id"] == ids[1]
    assert read.tables[CONDITIONS].loc[row, "condition_concept_id"].tolist() == [0]


def test_ids_keep_their_digits(given, tmp_path):
    large = 2**60
    tables = {n: t.assign(person_id=t["person_id"] + large) if "person_id" in t else t for n, t in given.items()}  # fmt: skip
    read = read_omop(WAYS["parts"](tmp_path / "parts", tables))
    assert (read.tables["person"]["person_id"] == given["person"]["person_id"] + large).all()


def test_parts_of_other_types_are_refused(given, tmp_path):
    place = WAYS["parts"](tmp_path / "parts", given)
    people = given["person"].astype({"year_of_birth": "float64"})
    people.to_parquet(place / "person" / "part-00002.parquet")
    with pytest.raises(
        InputError, match="column 'year_of_birth' is of another type than in part-00000"
    ):
        read_omop(place)


def test_a_file_of_another_program_is_no_database(tmp_path):
    (tmp_path / "cdm.duckdb").write_text("no database")
    with pytest.raises(
        InputError, match="name a folder, or a DuckDB file that no program has open"
    ):
        read_omop(tmp_path / "cdm.duckdb")
    with pytest.raises(InputError, match="there is no such file; name a folder, or a DuckDB file"):
        read_omop(tmp_path / "none")


def test_a_database_with_a_table_in_two_schemas(given, tmp_path):
    path = in_duckdb(tmp_path / "cdm.duckdb", given)
    duckdb = pytest.importorskip("duckdb")
    with duckdb.connect(str(path)) as connection:
        connection.execute("CREATE TABLE main.death AS SELECT * FROM hospital.death")
    with pytest.raises(InputError, match="has several tables 'death'; give one of them"):
        read_omop(path)
