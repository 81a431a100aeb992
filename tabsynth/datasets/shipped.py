"""The synthetic tables that ship with the package, and how their sources are recoded."""

from pathlib import Path

import pandas as pd

from tabsynth.errors import InputError
from tabsynth.schema.schema import Schema
from tabsynth.tables.files import read_table

PACKAGE = Path(__file__).resolve().parents[1]
# In an installed package; in a checkout they lie at the top level.
DATA = PACKAGE / "data" if (PACKAGE / "data").is_dir() else PACKAGE.parent / "data"


def load_census(folder: str | Path | None = None) -> tuple[pd.DataFrame, Schema]:
    """Return the synthetic census table (ten columns, one person a row) and its public schema.

    Made by ``data/make.py`` from the NIST ACS Data Excerpts; its certificate lies beside it.

    Parameters
    ----------
    folder : path, optional
        Where ``census.csv`` and ``census.schema.json`` lie. Default: the table that ships.

    Raises
    ------
    InputError
        If the table is not in ``folder``.
    """
    return _load("census", folder)


def load_hospital(folder: str | Path | None = None) -> tuple[pd.DataFrame, Schema]:
    """Return the synthetic hospital table (48 columns, one encounter a row) and its public schema.

    As :func:`load_census`; made from the UCI table Diabetes 130-US hospitals.
    """
    return _load("hospital", folder)


def _load(name: str, folder: str | Path | None) -> tuple[pd.DataFrame, Schema]:
    place = DATA if folder is None else Path(folder)
    table, schema = place / f"{name}.csv", place / f"{name}.schema.json"
    for file in (schema, table):
        if not file.is_file():
            raise InputError(
                f"{file} is not there; give the folder that holds {table.name} and {schema.name}."
            )
    public = Schema.load(schema)
    return read_table(table, public), public
