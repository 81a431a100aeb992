"""The tables of the comparison: benchmark files of data/README.md, their schemas, and one split each."""

import json
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

ROOT = Path(__file__).resolve().parents[2]
sys.path += [str(ROOT / "data"), str(ROOT / "reports")]
from benchmark_data import data_file  # noqa: E402
from sources import prepare_hospital  # noqa: E402

from tabsynth import Schema, read_table  # noqa: E402
from tabsynth.schema import Column  # noqa: E402

CENSUS = Schema.load(ROOT / "data" / "census.schema.json")
TRAIN = 0.7  # of the rows; the split of the evaluation protocol
NIST = "NIST Diverse Communities Data Excerpts, data dictionary (ACS 2018-2019)"
ADULT = "UCI Adult, the published domain of its discretised form"
ADULT_ORDERED = (
    "age",
    "fnlwgt",
    "education-num",
    "capital-gain",
    "capital-loss",
    "hours-per-week",
)


@dataclass(frozen=True)
class Table:
    """A table to compare synthesizers on.

    Attributes
    ----------
    title : str
    schema : callable
        Its public schema.
    rows : callable
        From the schema to all private rows.
    target : str or None
        The column that a user would predict.
    """

    title: str
    schema: Callable[[], Schema]
    rows: Callable[[Schema], pd.DataFrame]
    target: str | None = None

    def split(self) -> tuple[Schema, pd.DataFrame, pd.DataFrame]:
        """Return the schema, the training rows and the test rows."""
        schema = self.schema()
        rows = self.rows(schema)
        order = np.random.default_rng(0).permutation(len(rows))
        cut = int(TRAIN * len(rows))
        return schema, rows.iloc[order[:cut]], rows.iloc[order[cut:]]


def table_of_files(title: str, schema: Path, rows: Path) -> Table:
    """Return a user's table, from a schema file and a CSV or Parquet file of rows."""
    return Table(title, lambda: Schema.load(schema), lambda declared: read_table(rows, declared))


def categories_column(
    name: str, values: str, *, ordered: bool = False, nulls: bool = False
) -> Column:
    """Return a column of the categories in a text, separated by spaces."""
    return Column(
        name=name,
        kind="ordinal" if ordered else "categorical",
        dtype="str",
        categories=tuple(values.split()),
        nulls=nulls,
        source=NIST,
    )


def numeric_column(
    name: str, low: float, high: float, dtype: str = "int64", **facts: object
) -> Column:
    """Return a numeric column of the census excerpts."""
    facts = {"resolution": 1.0, "clip": True, "source": NIST} | facts
    return Column(name=name, kind="numeric", dtype=dtype, low=low, high=high, **facts)  # type: ignore[arg-type]


def census_24() -> Schema:
    """Return the schema of all columns of the excerpts; the industry codes are those of the other three files."""
    files = ("census_national_2018", "census_ma_2018", "census_ma_2019")
    codes = {
        code
        for name in files
        for code in pd.read_csv(data_file(f"{name}.csv"), dtype=str, keep_default_na=False)["INDP"]
    }
    industries = [*sorted(codes - {"N"}), "other"]
    further = [
        categories_column("HISP", "0 1 2 3 4"),
        categories_column("NOC", " ".join(map(str, range(20))), ordered=True, nulls=True),
        categories_column("HOUSING_TYPE", "1 2 3"),
        numeric_column("DENSITY", 16.3, 52864.7, "float64", resolution=None),
        Column(
            name="INDP",
            kind="categorical",
            dtype="str",
            categories=tuple(industries),
            other="other",
            nulls=True,
            source=NIST + ", codes of its other three files",
        ),
        numeric_column("PINCP", -9000, 200_000, "Int64", nulls=True),
        numeric_column("POVPIP", 0, 501, "Int64", nulls=True),
        categories_column("DVET", "1 2 3 4 5 6", ordered=True, nulls=True),
        categories_column("DREM", "1 2", nulls=True),
        categories_column("DPHY", "1 2", nulls=True),
        categories_column("DEYE", "1 2"),
        categories_column("DEAR", "1 2"),
        numeric_column("PWGTP", 0, 500),
        numeric_column("WGTP", 0, 500),
    ]
    return Schema([*CENSUS.columns, *further], null_values=("", "N"))


def adult() -> Schema:
    """Return the schema of Adult."""
    sizes = json.loads(data_file("adult_domain.json").read_text())
    return Schema(
        [
            Column(
                name=name,
                kind="ordinal" if name in ADULT_ORDERED else "categorical",
                dtype="int64",
                categories=tuple(range(size)),
                source=ADULT,
            )
            for name, size in sizes.items()
        ]
    )


def census_rows(schema: Schema, name: str = "census_national_2019.csv") -> pd.DataFrame:
    """Return the schema's columns of a census file."""
    raw = pd.read_csv(data_file(name), dtype=str, keep_default_na=False)
    return parse_rows(raw[list(schema.names)], schema)


def adult_rows(schema: Schema) -> pd.DataFrame:
    """Return the rows of Adult."""
    return parse_rows(pd.read_csv(data_file("adult.csv"), dtype=str), schema)


def parse_rows(raw: pd.DataFrame, schema: Schema) -> pd.DataFrame:
    """Return rows as :func:`tabsynth.read_table` reads them from a file."""
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch) / "rows.csv"
        raw.to_csv(path, index=False)
        return read_table(path, schema)


TABLES = {
    "census": Table("census, 10 columns", lambda: CENSUS, census_rows),
    "adult": Table("Adult, 14 columns", adult, adult_rows),
    "census-24": Table("census, 24 columns", census_24, census_rows),
    "hospital": Table(
        "hospital, 48 columns",
        lambda: Schema.load(ROOT / "data" / "hospital.schema.json"),
        lambda schema: prepare_hospital(data_file("diabetes_hospital_5000.csv"), schema),
    ),
}
