"""The tables of an OMOP database: from a folder of files, a DuckDB file or data frames, with the checks of the CDM."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from tabsynth._typing import JsonObject
from tabsynth._validate import quote
from tabsynth.encoding.linked import refuse
from tabsynth.errors import InputError, one_line
from tabsynth.omop.vocabulary import ANCESTOR, CONCEPT, Vocabulary
from tabsynth.tables.files import find_file, read_any

MOST_RECORDS = 10_000  # of one person in one table: an error of the extract
SOURCE = "cdm_source"


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
    source: str | Path | Mapping[str, pd.DataFrame], vocabulary: str | Path | None = None
) -> OmopDatabase:
    """Read the seven tables of an OMOP database, without identifiers of people and free text.

    Parameters
    ----------
    source : path or mapping of str to DataFrame
        A folder with a file for each table, a DuckDB file, or the tables by name.
    vocabulary : path, optional
        A folder with CONCEPT, and perhaps CONCEPT_ANCESTOR. Default: ``source``, where it has them.

    Raises
    ------
    InputError
        Naming table, column and value of what is not as the CDM says, all together.
    """
    facts = cdm()
    frames, where = _frames(source, [*facts["tables"], SOURCE, CONCEPT, ANCESTOR])
    if vocabulary is not None:
        of_folder = Vocabulary.read(vocabulary)
        if of_folder is None:
            raise InputError(
                f"{vocabulary} has no CONCEPT file; name the folder of an Athena download."
            )
    else:
        of_folder = None
        if CONCEPT in frames:
            of_folder = Vocabulary(frames[CONCEPT], frames.get(ANCESTOR), f"{where}: CONCEPT")
    _check_version(frames, where)
    problems: list[str] = []
    tables, extra = {}, {}
    for name, of in facts["tables"].items():
        if name not in frames:
            problems.append(
                f"{where} has no table {quote(name)}; add it: a table with its columns and no rows will do."
            )
            continue
        known = {*of["columns"], *(c for listed in of["left_out"].values() for c in listed)}
        known |= {of.get("key"), of.get("parent_key"), of.get("inherited")} - {None}
        extra[name] = [c for c in frames[name].columns if c not in known]
        tables[name] = _typed(name, of, frames[name], problems)
    refuse(problems, "the database")
    _check_rows(tables, problems)
    refuse(problems, "the database")
    return OmopDatabase(tables, of_folder, where, extra)


def _frames(source: Any, names: list[str]) -> tuple[dict[str, pd.DataFrame], str]:
    """Return the tables of a source that are there, with names of columns in lower case; and what messages call it."""
    if isinstance(source, Mapping):
        found, where = {str(n).lower(): t for n, t in source.items()}, "The database"
    elif Path(source).is_dir():
        files = {name: find_file(Path(source), name) for name in names}
        found = {name: read_any(path) for name, path in files.items() if path is not None}
        where = str(source)
    else:
        found, where = _duckdb_frames(Path(source), names), str(source)
    frames = {n: t.rename(columns=lambda c: str(c).lower()) for n, t in found.items() if n in names}
    return frames, where


def _duckdb_frames(path: Path, names: list[str]) -> dict[str, pd.DataFrame]:
    if not path.is_file():
        raise InputError(f"Cannot read {path}: there is no such folder or DuckDB file.")
    try:
        import duckdb
    except ModuleNotFoundError:
        raise InputError("A DuckDB file needs duckdb; install tabsynth[duckdb].") from None
    try:
        with duckdb.connect(str(path), read_only=True) as connection:
            connection.execute("SET python_enable_replacements = false")
            rows = connection.execute(
                "SELECT table_schema, table_name FROM information_schema.tables"
            ).fetchall()
            places = {str(n).lower(): (s, n) for s, n in rows}
            return {
                name: connection.execute(
                    'SELECT * FROM "{}"."{}"'.format(*(p.replace('"', '""') for p in places[name]))
                ).df()
                for name in names
                if name in places
            }
    except duckdb.Error as error:
        raise InputError(
            f"Cannot read {path}: {one_line(error)}; name a folder, or a DuckDB file that no program has open."
        ) from None


def _check_version(frames: Mapping[str, pd.DataFrame], where: str) -> None:
    """Refuse a database of another version of the CDM, by what it says of itself and by its columns."""
    facts = cdm()
    version = facts["version"]
    if SOURCE in frames and "cdm_version" in frames[SOURCE] and len(frames[SOURCE]):
        stated = str(frames[SOURCE]["cdm_version"].iloc[0]).strip().lower()
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
    """Note events before birth, and persons with more records than a person has."""
    person = tables["person"].drop_duplicates("person_id").set_index("person_id")["year_of_birth"]
    for name, table in tables.items():
        if name == "person" or not len(table):
            continue
        records = table["person_id"].value_counts()
        if int(records.iloc[0]) >= MOST_RECORDS:
            problems.append(
                f"Table {name} has {int(records.iloc[0]):,} rows of person_id={quote(records.index[0])}; nobody has"
                f" {MOST_RECORDS:,}: correct person_id, or take the person out."
            )
        for column, fact in cdm()["tables"][name]["columns"].items():
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
