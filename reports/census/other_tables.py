"""Two more tables for the report: the document's own ten columns, and the nearest of the data excerpts.

``maryland``
    The document's columns, downloaded from the US Census Bureau by :func:`tabsynth.datasets.fetch_acs`.
    The document names neither the year nor its four areas; ``--pumas`` and ``--year`` choose them.
``nearest``
    Of the NIST data excerpts, five areas of Massachusetts in 2018 and 2019: one state and few areas, as
    in the document. ``NEAREST`` says which column stands for which.
"""

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

sys.path.append(str(Path(__file__).resolve().parents[2] / "data"))
from benchmark_data import data_file

from tabsynth import Schema
from tabsynth._validate import one_of
from tabsynth.datasets import fetch_acs
from tabsynth.schema import Column

# The document's column, and the one of the excerpts that stands for it.
NEAREST = {
    "HINCP": "POVPIP",
    "NP": "NPF",
    "AGEP": "AGEP",
    "RAC1P": "RAC1P",
    "ESR": "INDP_CAT",
    "SEX": "SEX",
    "WIF": "OWN_RENT",
    "HUPAC": "NOC",
    "HHT": "MSP",
    "PUMA": "PUMA",
}
WHY = {
    "HINCP": "household income; here family income over the poverty line, in eleven groups",
    "NP": "persons in the household; here in the family, null without one",
    "AGEP": "the same",
    "RAC1P": "the same",
    "ESR": "employment status; here the industry, null for who has not worked for five years",
    "SEX": "the same",
    "WIF": "workers in the family: no counterpart; here whether the home is owned or rented",
    "HUPAC": "presence and age of children; here their number",
    "HHT": "type of household; here marital status",
    "PUMA": "four areas of Maryland; here five of Massachusetts",
}
DICTIONARY = "NIST Diverse Communities Data Excerpts, data dictionary (ACS 2018-2019)"
AREAS = ("25-00503", "25-00703", "25-01000", "25-01300", "25-02800")
# Household income in the ten brackets of the Census Bureau's table S1901, in dollars.
BRACKETS = (10_000, 15_000, 25_000, 35_000, 50_000, 75_000, 100_000, 150_000, 200_000)


def nearest(declared: Schema) -> tuple[pd.DataFrame, Schema]:
    """Rows of two benchmark files, and their schema; ``declared`` is that of the national table."""
    files = [data_file(f"census_ma_{year}.csv") for year in (2018, 2019)]
    texts = pd.concat([pd.read_csv(f, dtype=str, keep_default_na=False) for f in files])
    texts = texts[list(NEAREST.values())].replace("N", "").reset_index(drop=True)
    share = pd.to_numeric(texts["POVPIP"]) // 50  # 0 to 9, and 10 for 500 percent and more
    texts["POVPIP"] = share.astype("Int64").astype("string").fillna("")
    columns = [_nearest_column(name, declared) for name in NEAREST.values()]
    return _typed(texts, columns), Schema(columns)


def _nearest_column(name: str, declared: Schema) -> Column:
    if name == "PUMA":
        return replace(declared["PUMA"], categories=AREAS, labels={})
    numbers = {"POVPIP": range(11), "NOC": range(20)}
    if name not in numbers:
        return declared[name]
    return Column(
        name=name,
        kind="ordinal",
        dtype="Int64",
        nulls=True,
        categories=tuple(numbers[name]),
        source=DICTIONARY,
    )


def maryland(
    year: int, period: str, pumas: list[str] | None, cache: Path | None
) -> tuple[pd.DataFrame, Schema]:
    """The document's ten columns; four areas, by default the first four of the file."""
    table, schema = fetch_acs("MD", year, period=period, cache=cache)
    areas = [str(area) for area in schema["PUMA"].categories]
    chosen = tuple(one_of("an area of pumas", area, areas) for area in pumas or areas[:4])
    table = table[table["PUMA"].isin(chosen)].reset_index(drop=True)
    income = table["HINCP"].to_numpy(dtype=float, na_value=np.nan)
    group = pd.Series(np.searchsorted(BRACKETS, income, side="right"), dtype="Int64")
    table["HINCP"] = group.mask(np.isnan(income))
    bracket = replace(
        Column(
            name="HINCP", kind="ordinal", dtype="Int64", nulls=True, categories=tuple(range(10))
        ),
        source=schema["HINCP"].source,
        description="Household income, by the brackets of table S1901",
    )
    area = replace(schema["PUMA"], categories=chosen)
    changed = {"HINCP": bracket, "PUMA": area}
    return table, Schema([changed.get(c.name, c) for c in schema.columns])


def _typed(texts: pd.DataFrame, columns: list[Column]) -> pd.DataFrame:
    """Text cells in the dtypes of the columns, the empty one as null."""
    parts = {}
    for column in columns:
        cells = texts[column.name]
        numbers = column.dtype != "str"
        result = pd.to_numeric(cells).astype("Int64") if numbers else cells
        parts[column.name] = result.astype(column.dtype)
    return pd.DataFrame(parts)
