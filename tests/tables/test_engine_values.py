"""One unusual value at a time: DuckDB, Polars and Parquet files take or refuse it as a DataFrame is."""

import datetime
import math
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tabsynth import Hierarchical, InputError, Schema
from tabsynth.schema import Column
from tabsynth.tables import RowCounter
from tabsynth.tables.counter import check_values
from tabsynth.tables.engines import EngineCounter
from tabsynth.tables.frames import to_pandas
from tabsynth.tables.parquet_counter import ParquetCounter

BESIDE = Column(name="beside", kind="categorical", dtype="str", categories=("x", "y"))
FIRST, LAST = datetime.date(1, 1, 1), datetime.date(9999, 12, 31)
EARLY = datetime.datetime(1, 1, 1)
LATE = datetime.datetime(9999, 12, 31, 23, 59, 59, 999_999)
DAY, MOMENT = datetime.date(2001, 2, 3), datetime.datetime(2001, 2, 3)
WEEK = datetime.timedelta(days=7)


def column(kind: str, dtype: str, **facts: Any) -> Column:
    return Column(name="v", kind=kind, dtype=dtype, **facts)


def times(
    kind: str, units: tuple[str, ...], held: pa.DataType, usual: Any, values: list[Any]
) -> list[Any]:
    low, high = ("2000-01-01", "2004-12-31") if kind != "duration" else ("0 days", "30 days")
    return [
        (
            column(kind, dtype, bins=4, low=low, high=high, clip=clip, nulls=True),
            held,
            usual,
            values,
        )
        for dtype in units
        for clip in (True, False)
    ]


DATES = ("datetime64[ns]", "datetime64[us]", "datetime64[s]", "str", "object")
INSTANTS = ("datetime64[ns]", "datetime64[us]", "datetime64[ns, UTC]", "str")
LENGTHS = ("timedelta64[ns]", "timedelta64[us]", "timedelta64[s]")
ZONE = datetime.timezone(datetime.timedelta(hours=2))
REALS = [math.nan, math.inf, -math.inf, 1e308, -0.0, 5.0, math.nextafter(5, 6), 5e-324, None]
WHOLE = [2**63 - 1, -(2**63), 2**53 + 1, 99, 100, -1, -8, None]
TEXTS = [
    "",
    " a",
    "A",
    "e\u0301",
    "é",
    "\0",
    "a\0",
    "a\0b",
    "NaN",
    "other",
    "\U0001f600",
    "x" * 20_000,
    None,
]
CASES = [
    *((column("numeric", dtype, bins=4, low=-5, high=5, clip=clip, nulls=nulls), held, 1.5, REALS)
      for dtype, held in (("float64", pa.float64()), ("float32", pa.float32()), ("float32", pa.float64()))
      for clip in (True, False) for nulls in (True, False)),
    *((column("numeric", "Int64", bins=4, low=0, high=99, clip=clip, nulls=True, missing={"-8": "refused"}), pa.int64(), 7, WHOLE)
      for clip in (True, False)),
    (column("numeric", "UInt8", bins=4, low=0, high=99, clip=True, nulls=True), pa.uint64(), 7, [2**64 - 1, 2**63, None]),
    *((column("numeric", dtype, bins=4, low=0, high=99, clip=True, nulls=True), pa.decimal128(30, 2), Decimal("7.00"),
       [Decimal("9" * 20), Decimal("-1.00"), Decimal("7.25"), None]) for dtype in ("float64", "Int64")),
    *((column("categorical", "str", categories=("a", "b", "é"), other=other, nulls=nulls), pa.string(), "a", TEXTS)
      for other in ("b", None) for nulls in (True, False)),
    *((column("categorical", "Int64", categories=(1, 2, 3), other=other, nulls=True), pa.int64(), 1, WHOLE)
      for other in (1, None)),
    (column("categorical", "float64", categories=(1.0, 2.0, 3.5), nulls=True), pa.float64(), 1.0,
     [math.nan, 3.5, math.inf, math.nextafter(1, 2), None]),
    (column("categorical", "boolean", categories=(False, True), nulls=True), pa.bool_(), True, [False, None]),
    (column("ordinal", "int64", categories=(1, 2, 3)), pa.int64(), 1, [3, 4, None]),
    *times("date", DATES, pa.date32(), DAY, [FIRST, LAST, None]),
    *times("date", DATES, pa.timestamp("us"), MOMENT, [EARLY, datetime.datetime(9999, 12, 31), LATE, None]),
    *times("datetime", INSTANTS, pa.timestamp("us"), MOMENT, [EARLY, LATE, None]),
    *times("datetime", INSTANTS, pa.timestamp("s"), MOMENT, [EARLY, LATE.replace(microsecond=0)]),
    *times("datetime", INSTANTS, pa.timestamp("us", "UTC"), MOMENT.replace(tzinfo=datetime.UTC),
           [EARLY.replace(tzinfo=datetime.UTC), LATE.replace(tzinfo=datetime.UTC), None]),
    *times("date", ("str", "object", "datetime64[ns]"), pa.string(), "2001-02-03",
           ["", "x", "0001-01-01", "9999-12-31", "2001-1-1", " 2001-01-01", "2001-02-30", None]),
    *times("datetime", INSTANTS, pa.string(), "2001-02-03", ["9999-12-31", "2001-02-03 00:00:00.123456789", "x", None]),
    *times("duration", LENGTHS, pa.duration("us"), WEEK, [datetime.timedelta(days=10**6), -WEEK, None]),
    *((column("time", "str", bins=4, nulls=True, low="08:00", high="20:00", clip=clip), pa.time64("us"), datetime.time(9),
       [datetime.time(0), datetime.time(23, 59, 59, 999_999), None]) for clip in (True, False)),
    *((Hierarchical(name="v", dtype="str", codes=("A", "A1", "A11", "B"), levels=(1, 2), shorten=shorten, other=other, nulls=True),
       pa.string(), "A", ["A1x", "", "Z", "a1", "A11\0", None]) for shorten in (True, False) for other in ("B", None)),
]  # fmt: skip


def counts_in_memory(schema: Schema, table: pa.Table) -> list[np.ndarray] | None:
    """Counts of each column and of both; None where the table is refused."""
    frame = to_pandas(table)
    try:
        codes = [c.encode(c.convert(frame[c.name])) for c in schema.columns]
    except InputError:
        return None
    both = np.zeros(schema.sizes)
    np.add.at(both, tuple(codes), 1)
    return [both.sum(axis=1), both.sum(axis=0), both]


def engines(table: pa.Table, path: Path) -> dict[str, RowCounter]:
    """The table in each engine. DuckDB has no lengths of time: its intervals have months."""
    pq.write_table(table, path)
    counters: dict[str, RowCounter] = {
        "Parquet": ParquetCounter(path),
        "Polars": EngineCounter(pl.scan_parquet(path)),
    }
    if not pa.types.is_duration(table.schema.field("v").type):
        counters["DuckDB"] = EngineCounter(duckdb.from_arrow(table))
    return counters


@pytest.mark.parametrize("case", range(len(CASES)))
def test_values_are_taken_or_refused_as_in_memory(case: int, tmp_path: Path) -> None:
    of, held, usual, values = CASES[case]
    schema = Schema([of, BESIDE])

    def table(some: list[Any]) -> pa.Table:
        beside = ["x", "y"] * (len(some) + 1)
        return pa.table({"v": pa.array([*some, usual], held), "beside": beside[: len(some) + 1]})

    taken = [value for value in values if counts_in_memory(schema, table([value])) is not None]
    wanted = counts_in_memory(schema, table(taken))
    assert wanted is not None
    for name, rows in engines(table(taken), tmp_path / "taken.parquet").items():
        rows.check(schema)
        check_values(schema, rows)
        found = rows.count_all(schema, [(0,), (1,), (0, 1)])
        for one, other in zip(found, wanted, strict=True):
            np.testing.assert_array_equal(one, other, err_msg=f"{name}: {of} of {held}")
    for value in values:
        if any(value is other for other in taken):
            continue
        for name, rows in engines(table([value]), tmp_path / "refused.parquet").items():
            rows.check(schema)
            with pytest.raises(InputError) as error:
                check_values(schema, rows)
            assert "changed" not in str(error.value), f"{name}: {of} of {held}: {value!r}"


def test_the_years_1_and_9999_are_clipped_in_a_folder_of_files(tmp_path: Path) -> None:
    clipped = column("datetime", "datetime64[ns]", low="2000-01-01", high="2004-12-31", clip=True)
    for number, moment in enumerate((EARLY, MOMENT, LATE)):
        pq.write_table(
            pa.table({"v": pa.array([moment], pa.timestamp("us"))}), tmp_path / f"{number}.parquet"
        )
    (counts,) = ParquetCounter(tmp_path).count_all(Schema([clipped]), [(0,)])
    assert counts[0] == counts[-1] == 1 and counts.sum() == 3
