"""The tables of an OMOP database: from a folder of files, a DuckDB file or data frames, with the checks of the CDM."""

import tomllib
from collections.abc import Collection, Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import narwhals as nw
import numpy as np
import pandas as pd

from tabsynth._typing import JsonObject
from tabsynth._validate import quote
from tabsynth.encoding.linked import refuse
from tabsynth.errors import InputError, one_line
from tabsynth.omop.vocabulary import ANCESTOR, CONCEPT, NEEDED, Vocabulary, read_concepts
from tabsynth.schema.linked import LinkedSchema
from tabsynth.schema.schema import Schema, duplicates
from tabsynth.tables.databases import open_duckdb, relation_of
from tabsynth.tables.files import find_file, read_any
from tabsynth.tables.frames import to_pandas

MOST_RECORDS = 10_000  # of one person in one table: so many are taken for an error of the extract
SOURCE, VISIT = "cdm_source", "visit_occurrence"


@lru_cache(maxsize=1)
def cdm() -> JsonObject:
    """Return the public facts of the CDM 5.4, as ``cdm54.toml`` beside this file states them."""
    return tomllib.loads(Path(__file__).with_name("cdm54.toml").read_text("utf-8"))


@dataclass(frozen=True)
class OmopDatabase:
    """The tables of a database that a fit reads, and its vocabulary.

    Attributes
    ----------
    tables : dict of str to DataFrame
        The keys and the modelled columns: whole numbers, numbers, and dates as texts.
    vocabulary : Vocabulary or None
    where : str
        The folder or file.
    extra : dict of str to list of str
        By table, columns that the CDM does not have.
    """

    tables: dict[str, pd.DataFrame]
    vocabulary: Vocabulary | None
    where: str
    extra: dict[str, list[str]]


def read_omop(
    source: str | Path | Mapping[str, Any], vocabulary: str | Path | None = None
) -> OmopDatabase:
    """Read the seven tables of an OMOP database, without identifiers of people and free text.

    Rows come in the order of their keys. Records without a visit, whose ``visit_occurrence_id`` is null, are left out.

    Parameters
    ----------
    source : path or mapping of str to DataFrame
        A folder with a file for each table, or with a folder of Parquet files for each, as Spark writes a database; a DuckDB
        file; or the tables by name, of pandas, Polars, PyArrow, DuckDB or Spark. Rows of lazy tables are collected without the
        columns that are left out.
    vocabulary : path, optional
        A folder with CONCEPT, and perhaps CONCEPT_ANCESTOR. Default: ``source``, where it has them.

    Raises
    ------
    InputError
        Naming table, column and value of what is not as the CDM says, all together.
    """
    facts = cdm()
    names = [*facts["tables"], SOURCE, *(() if vocabulary is not None else NEEDED)]
    frames, where = _frames(source, names)
    concepts = None if vocabulary is None else Vocabulary.read(vocabulary)
    if vocabulary is not None and concepts is None:
        raise InputError(
            f"{vocabulary} has no CONCEPT file; name the folder of an Athena download."
        )
    if CONCEPT in frames:
        concepts = Vocabulary(frames[CONCEPT], frames.get(ANCESTOR), f"{where}: CONCEPT")
    _check_version(frames, where)
    problems: list[str] = []
    tables, extra = {}, {}
    for name, of in facts["tables"].items():
        if name not in frames:
            problems.append(
                f"{where} has no table {quote(name)}; add it: a table with its columns and no rows will do."
            )
            continue
        known = {of.get(k) for k in ("key", "parent_key", "inherited")}
        known |= {*of["columns"], *_left_out(name)}
        extra[name] = [c for c in frames[name].columns if c not in known]
        tables[name] = _typed(name, of, frames[name], problems)
    refuse(problems, "the database")
    for name, table in tables.items():
        key = facts["tables"][name].get("key", "person_id")
        tables[name] = table.sort_values(key, kind="stable", ignore_index=True)
    _check_rows(tables, problems)
    refuse(problems, "the database")
    return OmopDatabase(tables, concepts, where, extra)


def _left_out(name: str) -> list[str]:
    """Return the columns of a table of the CDM that are left out."""
    listed = cdm()["tables"].get(name, {}).get("left_out", {})
    return [column for columns in listed.values() for column in columns]


def _frames(source: Any, names: list[str]) -> tuple[dict[str, pd.DataFrame], str]:
    """Return the tables of a source that are there, with names of columns in lower case; and what messages call it."""
    if isinstance(source, Mapping):
        return _by_name(source.items(), names, "The database"), "The database"
    if not isinstance(source, str | Path):
        raise InputError(
            f"Expected a folder, a DuckDB file or a dict of tables, got {type(source).__name__}."
        )
    place, where = Path(source), str(source)
    if place.is_dir():
        files = [(name, find_file(place, name)) for name in names]
        found = (
            (name, read_concepts(path, name) if name in NEEDED else read_any(path))
            for name, path in files
            if path is not None
        )
        return _by_name(found, names, where), where
    connection, places = open_duckdb(place)
    with closing(connection):
        wanted = [place for place in places if place[1].lower() in names]
        relations = ((place[1], relation_of(connection, source, place)) for place in wanted)
        return _by_name(relations, names, where), where


def _by_name(
    tables: Iterable[tuple[Any, Any]], names: Collection[str], where: str
) -> dict[str, pd.DataFrame]:
    """Return those tables that have one of the names, with names in lower case."""
    out: dict[str, pd.DataFrame] = {}
    for name, table in ((str(name).lower(), table) for name, table in tables):
        if name in out:
            raise InputError(f"{where} has several tables {quote(name)}; give one of them.")
        if name in names:
            frame = to_pandas(_collected(name, table), f"table {name}")
            out[name] = frame.set_axis([str(c).lower() for c in frame.columns], axis=1)
            for column in duplicates(out[name].columns):
                raise InputError(f"Table {name} has column {quote(column)} twice; drop one.")
    return out


def _collected(name: str, table: Any) -> Any:
    """Return a lazy table as rows, without the columns that are left out; any other table as it is."""
    frame = nw.from_native(table, pass_through=True)
    if not isinstance(frame, nw.LazyFrame):
        return table
    try:
        columns = [c for c in frame.collect_schema().names() if c.lower() not in _left_out(name)]
        return frame.select(columns).collect("pyarrow").to_native()
    except Exception as error:  # each engine has errors of its own
        raise InputError(f"Cannot read table {name}: {one_line(error)}; correct it.") from None


def is_omop(schema: Schema | LinkedSchema) -> bool:
    """Return whether a schema is that of an OMOP database."""
    return isinstance(schema, LinkedSchema) and {*schema.names} == {*cdm()["tables"]}


def _check_version(frames: Mapping[str, pd.DataFrame], where: str) -> None:
    """Refuse a database of another version of the CDM, by what it says of itself and by its columns."""
    facts = cdm()
    version = facts["version"]
    versions = frames[SOURCE].get("cdm_version") if SOURCE in frames else None
    for stated in () if versions is None else versions.dropna().astype(str).str.strip().str.lower():
        if not stated.removeprefix("cdm").strip().removeprefix("v").startswith(version):
            raise InputError(
                f"{where}: table cdm_source has cdm_version={quote(stated)}; tabsynth reads CDM {version}: convert the"
                " database first."
            )
    for place, other in facts["other_versions"].items():
        table, column = place.split(".")
        if table in frames and column in frames[table].columns:
            raise InputError(
                f"{where}: table {table} has column {quote(column)}, which is of CDM {other}; tabsynth reads CDM {version}:"
                " convert the database first."
            )


def _typed(name: str, of: JsonObject, frame: pd.DataFrame, problems: list[str]) -> pd.DataFrame:
    """Return the keys and the modelled columns of a table in their types."""
    out: dict[str, pd.Series] = {}
    keys = [of[k] for k in ("key", "parent_key", "inherited") if k in of]
    if of.get("parent") == VISIT and of["parent_key"] in frame:
        of_visits = frame[of["parent_key"]]
        frame = frame[of_visits.notna() & (of_visits.astype("string") != "")]
    for column in (*keys, *of["columns"]):
        needed = column in keys or of["columns"][column].get("required", False)
        if column not in frame.columns:
            if needed:
                problems.append(
                    f"Table {name} lacks column {quote(column)}, which CDM {cdm()['version']} asks for; add it."
                )
            continue
        values = frame[column]
        fact = {} if column in keys else of["columns"][column]
        if "date" in fact:
            out[column], wrong = _dates(values)
            what = "a date, such as 2019-12-31"
        else:
            numbers = pd.to_numeric(values, errors="coerce")
            wrong = numbers.isna() & values.notna()
            if not fact.get("real"):
                most = 2**53 if numbers.dtype.kind == "f" else 2**63 - 1  # larger ones lose digits
                wrong |= numbers.notna() & ((numbers % 1 != 0) | (numbers > most))
            what = "a number" if fact.get("real") else "a whole number"
            if not wrong.any():
                out[column] = numbers.astype("float64" if fact.get("real") else "Int64")
                if "domain" in fact:
                    out[column] = out[column].fillna(cdm()["no_concept"])
        if wrong.any():
            value = values[wrong].iloc[0]
            problems.append(
                f"Table {name} has {column}={quote(value)}, which is not {what}; correct it."
            )
        elif needed and out[column].isna().any():
            problems.append(
                f"Table {name} has a null in column {quote(column)}, which CDM {cdm()['version']} does not allow; fill it in,"
                " or take the row out."
            )
    return pd.DataFrame(out, index=frame.index)


def _dates(values: pd.Series) -> tuple[pd.Series, pd.Series]:
    """Return dates as ISO texts, and which values are none."""
    moments = pd.to_datetime(values.astype("string").str[:10], errors="coerce", format="%Y-%m-%d")
    texts = moments.dt.strftime("%Y-%m-%d").astype(object).where(moments.notna(), None)
    return texts, moments.isna() & values.notna() & (values != "")


def _check_rows(tables: Mapping[str, pd.DataFrame], problems: list[str]) -> None:
    """Note keys of no row, events before birth, and persons with more records than are read."""
    facts = cdm()["tables"]
    person = tables["person"].drop_duplicates("person_id").set_index("person_id")["year_of_birth"]
    for name, table in tables.items():
        if name == "person" or not len(table):
            continue
        of = facts[name]
        key, parent = of["parent_key"], of["parent"]
        lost = table[key][~table[key].isin(tables[parent][facts[parent]["key"]])].unique()
        if len(lost):
            more = (
                f" and {len(lost) - 1:,} more, which are no rows"
                if len(lost) > 1
                else ", which is no row"
            )
            remedy = (
                "empty the cell: records without a visit are left out"
                if parent == VISIT
                else "take the rows out"
            )
            problems.append(
                f"Table {name} has {key}={quote(lost[0])}{more} of table {parent}; add what is missing, or {remedy}."
            )
        records = table["person_id"].value_counts()
        if int(records.iloc[0]) >= MOST_RECORDS:
            problems.append(
                f"Table {name} has {int(records.iloc[0]):,} rows of person_id={quote(records.index[0])}, and fewer than"
                f" {MOST_RECORDS:,} of one person are read: correct person_id, or keep those that a fit uses, the first of each"
                " visit."
            )
        for column, fact in of["columns"].items():
            if "date" not in fact or column not in table:
                continue
            years = pd.to_numeric(table[column].str[:4]).to_numpy(dtype=float)
            born = table["person_id"].map(person).to_numpy(dtype=float, na_value=np.nan)
            if (early := years < born).any():
                at = int(early.argmax())
                problems.append(
                    f"Table {name} has {column}={quote(table[column].iloc[at])} of person_id={quote(table['person_id'].iloc[at])},"
                    f" before year_of_birth={int(born[at])}; correct one of them, or take the row out."
                )
                break
