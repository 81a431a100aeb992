"""The American Community Survey's public use microdata (PUMS), from the US Census Bureau.

The ten columns of the source document: P. Jutras-Dubé, "DP-WGAN" (Maryland, four PUMAs), §3.1. Their
domains are those of the PUMS data dictionary of 2019, which no file is looked at for; only the list
of PUMAs, and columns that the dictionary here lacks, come from the downloaded file, which is public.
"""

import re
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pandas as pd
from acs_dictionary import DICTIONARY, FIPS
from acs_files import ZippedCsv, download

from tabsynth._validate import integer, one_of, quote
from tabsynth.drafting.drafts import draft_public
from tabsynth.encoding import TableEncoder
from tabsynth.errors import InputError
from tabsynth.schema.column import Column
from tabsynth.schema.schema import Schema, duplicates

CENSUS_URL = "https://www2.census.gov/programs-surveys/acs/data/pums"
PERIODS = ("1-Year", "3-Year", "5-Year")
FIRST_YEAR = 2007
SOURCE_COLUMNS = (
    "NP",
    "HHT",
    "HINCP",
    "HUPAC",
    "WIF",
    "AGEP",
    "SEX",
    "ESR",
    "RAC1P",
    "PUMA",
)
FILE_SOURCE = "ACS PUMS file, public"


def fetch_acs(
    state: str = "MD",
    year: int = 2019,
    columns: Sequence[str] = SOURCE_COLUMNS,
    *,
    period: str = "1-Year",
    base_url: str = CENSUS_URL,
    cache: str | Path | None = None,
) -> tuple[pd.DataFrame, Schema]:
    """Download a state's ACS microdata: one row a person, household columns joined to each.

    Parameters
    ----------
    state : str
        Two letters, e.g. ``"MD"``.
    year : int
        Last year of the period.
    columns : sequence of str
        PUMS names, of the person or the household file.
    period : {"1-Year", "3-Year", "5-Year"}
    base_url : str
    cache : path, optional
        A folder where the zip files are kept, and taken from without the network if they are there.

    Returns
    -------
    table : DataFrame
        The columns in the given order; nulls where PUMS has a blank, e.g. in group quarters.
    schema : Schema
        Public: domains of the data dictionary; PUMAs and further columns as in the public file.

    Raises
    ------
    InputError
        Unknown state, year, period or column, no network, no such file, or a damaged one.
    """
    code = one_of("state", str(state).upper(), FIPS)
    integer("year", year, least=FIRST_YEAR)
    one_of("period", period, PERIODS)
    names = _check_names(columns)
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder if cache is None else cache)
        address = f"{base_url.rstrip('/')}/{year}/{period}"
        persons = _file("p", code, year, address, place / f"acs-{year}-{period}-csv_p{code}.zip")
        household_names = [name for name in names if name not in persons.header]
        texts = persons.read({"SERIALNO", *names} - set(household_names))
        if household_names:
            homes = _file("h", code, year, address, place / f"acs-{year}-{period}-csv_h{code}.zip")
            texts = _with_households(texts, homes, household_names)
    return _with_types(texts, names)


def _file(kind: str, code: str, year: int, address: str, path: Path) -> ZippedCsv:
    """Return the person (``p``) or household (``h``) file of a state, fetched unless it is kept."""
    if not path.exists():
        download(f"{address}/csv_{kind}{code.lower()}.zip", path)
    # psam_p24.csv since 2017, ss12pmd.csv before.
    return ZippedCsv(path, rf"(psam_{kind}{FIPS[code]}|ss{year % 100:02}{kind}{code})\.csv")


def _check_names(columns: Sequence[str]) -> tuple[str, ...]:
    if isinstance(columns, str) or not columns or not all(isinstance(c, str) for c in columns):
        raise InputError(f"Expected columns to be a list of PUMS names, got {quote(columns)}.")
    for name in duplicates(tuple(columns)):
        raise InputError(f"columns names {quote(name)} twice; drop one.")
    if "SERIALNO" in columns:
        raise InputError("columns names 'SERIALNO', an identifier; leave it out.")
    return tuple(columns)


def _with_households(persons: pd.DataFrame, file: ZippedCsv, names: Sequence[str]) -> pd.DataFrame:
    """Return persons with the columns of their household; households without persons are left out."""
    for name in ("SERIALNO", *names):
        if name not in file.header:
            raise InputError(f"The ACS files have no column {quote(name)}; check its PUMS name.")
    households = file.read(("SERIALNO", *names))
    for what, frame in (("person", persons), ("household", households)):
        if "SERIALNO" not in frame.columns or frame["SERIALNO"].isna().any():
            raise InputError(f"The ACS {what} file lacks a SERIALNO to join by; fetch it again.")
    if households["SERIALNO"].duplicated().any():
        raise InputError("The ACS household file lists a SERIALNO twice; fetch it again.")
    orphans = ~persons["SERIALNO"].isin(households["SERIALNO"])
    if orphans.any():
        raise InputError(
            f"The ACS household file lacks the household of {int(orphans.sum())} persons; the two"
            " files do not belong together, so fetch them again."
        )
    return persons.merge(households, on="SERIALNO", how="left")


def _with_types(texts: pd.DataFrame, names: Sequence[str]) -> tuple[pd.DataFrame, Schema]:
    if len(texts) == 0:
        raise InputError("The ACS person file has no rows; fetch it again.")
    schema = Schema([DICTIONARY.get(name) or _from_file(texts[name]) for name in names])
    table = pd.DataFrame({c.name: c.parse(texts[c.name]) for c in schema.columns})
    TableEncoder(schema).to_index(
        table, "ACS table"
    )  # refuses by name what is not in the dictionary
    return table, schema


def _from_file(texts: pd.Series) -> Column:
    """Return a column that the dictionary here lacks, its domain as found in the public file."""
    name = str(texts.name)
    if re.fullmatch(r"PUMA\d*", name):
        areas = tuple(sorted(texts.dropna().unique()))
        return Column(
            name=name,
            kind="categorical",
            dtype="str",
            nulls=bool(texts.isna().any()),
            categories=areas,
            source=FILE_SOURCE,
            description="Public use microdata area, as listed in the file",
        )
    return replace(draft_public(texts), provenance="declared", source=FILE_SOURCE)
