"""The forms in which a table comes in, so that a replay goes through every reader.

A reader must make of each row what the row and the schema say, whatever the other rows are. Neighbours of
:func:`read_table_of` show where one does not: all its columns take nulls, and some have whole numbers beyond
2**53, which floats cannot tell apart.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from tabsynth.schema.column import Column
from tabsynth.schema.schema import Schema
from tabsynth.tables.files import read_table, write_table
from tabsynth.tables.parquet_counter import ParquetCounter

LARGE = 2**53  # the first whole number whose successor is no float
READ_SCHEMA = Schema(
    [
        Column(name="code", kind="categorical", dtype="Int64", nulls=True, categories=(LARGE, LARGE + 1)),
        Column(
            name="wide", kind="categorical", dtype="UInt64", nulls=True, other=0, categories=(0, 2**63, 2**63 + 1)
        ),
        Column(name="flag", kind="categorical", dtype="boolean", nulls=True, categories=(False, True)),
        Column(name="text", kind="categorical", dtype="str", nulls=True, other="o", categories=("1.0", "x", "o")),
        Column(name="level", kind="ordinal", dtype="category", nulls=True, categories=("low", "high")),
        Column(name="amount", kind="numeric", dtype="Int64", nulls=True, clip=True, low=0, high=9),
        Column(name="share", kind="numeric", dtype="float64", nulls=True, clip=True, low=0, high=1, bins=4),
    ]
)  # fmt: skip
Form = Callable[[pd.DataFrame, Schema, Path], Any]


def read_table_of(rows: int, seed: int) -> pd.DataFrame:
    """Made-up rows of ``READ_SCHEMA`` without a null."""
    rng = np.random.default_rng([seed, rows])
    columns = {}
    for column in READ_SCHEMA.columns:
        if column.categories:
            codes = rng.integers(0, len(column.categories), rows)
            values: Any = [column.categories[code] for code in codes]
        else:
            values = rng.integers(0, 10, rows) if column.name == "amount" else rng.random(rows)
        dtype: Any = column.dtype
        if dtype == "category":
            dtype = pd.CategoricalDtype(list(column.categories), ordered=True)
        columns[column.name] = pd.Series(values, dtype=dtype)
    return pd.DataFrame(columns)


def _arrow(table: pd.DataFrame) -> Any:
    """Without pandas' notes on its dtypes, which other programs do not write."""
    import pyarrow as pa

    return pa.Table.from_pandas(table, preserve_index=False).replace_schema_metadata()


def _write(table: pd.DataFrame, path: Path) -> None:
    from pyarrow import parquet

    parquet.write_table(_arrow(table), path)


def _polars(table: pd.DataFrame, schema: Schema, folder: Path) -> Any:
    import polars

    return polars.from_arrow(_arrow(table))


def _objects(table: pd.DataFrame, schema: Schema, folder: Path) -> pd.DataFrame:
    return table.astype(object).where(table.notna(), None)


def _file(name: str, **options: Any) -> Form:
    def form(table: pd.DataFrame, schema: Schema, folder: Path) -> pd.DataFrame:
        write_table(table, folder / name, formulas="keep", overwrite=True, **options)
        return read_table(folder / name, schema, decimal=options.get("decimal"))

    return form


def _parquet(table: pd.DataFrame, schema: Schema, folder: Path) -> pd.DataFrame:
    _write(table, folder / "table.parquet")
    return read_table(folder / "table.parquet", schema)


def _folder(table: pd.DataFrame, schema: Schema, folder: Path) -> ParquetCounter:
    for part, rows in enumerate((table[: len(table) // 2], table[len(table) // 2 :])):
        _write(rows, folder / f"{part}.parquet")
    return ParquetCounter(folder)


def _lazy(table: pd.DataFrame, schema: Schema, folder: Path) -> Any:
    import polars

    _write(table, folder / "table.parquet")
    return polars.scan_parquet(folder / "table.parquet")


def _duckdb(table: pd.DataFrame, schema: Schema, folder: Path) -> Any:
    import duckdb

    _write(table, folder / "table.parquet")
    return duckdb.connect().read_parquet(str(folder / "table.parquet"))


def _arrow_backed(table: pd.DataFrame, schema: Schema, folder: Path) -> pd.DataFrame:
    frame: pd.DataFrame = _arrow(table).to_pandas(types_mapper=pd.ArrowDtype)
    return frame


# From a DataFrame, its schema and an empty folder to the table as that reader gives it.
FORMS: Mapping[str, Form] = {
    "pandas": lambda table, schema, folder: table,
    "pandas, Python objects": _objects,
    "pandas, Arrow-backed": _arrow_backed,
    "pyarrow": lambda table, schema, folder: _arrow(table),
    "polars": _polars,
    "CSV": _file("table.csv"),
    "compressed text, decimal commas": _file("table.tsv.gz", decimal=","),
    "Excel": _file("table.xlsx"),
    "Parquet": _parquet,
    "Parquet folder": _folder,
    "polars, lazy": _lazy,
    "DuckDB": _duckdb,
}
COUNTED = ("Parquet folder", "polars, lazy", "DuckDB")  # forms of which only counts are seen
