"""Cells that a DataFrame may hold and that programs seldom expect, for tests of all that reads tables."""

import datetime
import fractions
import uuid
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from hypothesis import strategies as st

ZONE = datetime.timezone(datetime.timedelta(hours=14))


class Unreadable:
    """An object that has no text."""

    def __str__(self) -> str:
        raise RuntimeError("no text")

    __repr__ = __str__


NUMBERS = [
    1, 1.0, True, 10**400, -(10**400), 10**5000, 2**63, 2**64, -(2**63) - 1, 2**53 + 1, 1e308, 5e-324, -0.0, float("inf"), float("-inf"),
    float("nan"), False, np.float32(0.1), np.float16(7), np.int8(3), np.uint64(2**64 - 1), np.bool_(True),
    np.longdouble("1e400"), Decimal("1.50"), Decimal("NaN"), Decimal("sNaN"), Decimal("-Infinity"), Decimal("1e999999"),
    Decimal("1e-999999"), fractions.Fraction(1, 3), fractions.Fraction(10**400), 3 + 1j, np.complex128(1j),
]  # fmt: skip
TIMES = [
    datetime.date(1, 1, 1), datetime.date(9999, 12, 31), datetime.datetime(1, 1, 1, tzinfo=ZONE),
    datetime.datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=datetime.UTC), datetime.datetime(2020, 1, 1),
    pd.Timestamp("2020-01-01 12:00", tz="America/New_York"), pd.Timestamp(np.datetime64("2000000-01-01", "s")), pd.NaT,
    np.datetime64("NaT"), np.datetime64("2000000", "Y"), np.datetime64(10**17, "D"), np.datetime64(5, "as"),
    datetime.time(8), datetime.time(8, tzinfo=ZONE), datetime.timedelta.max, datetime.timedelta.min, pd.Timedelta("1ns"),
    np.timedelta64(10**18, "s"), np.timedelta64(3, "Y"), np.timedelta64(1, "ns"), np.datetime64(1, "ns"), np.timedelta64("NaT"), pd.Period("2020-01", "M"),
    pd.Period(ordinal=10**10, freq="D"), pd.Period("2020", "Y"),
]  # fmt: skip
TEXTS = [
    "", " ", "a", "a\0", "a\0b", "\ud800", "x\udfffy", "é", "e\u0301", "٣", " 12", "12\u00a0", "1_000", "1e400", "-1e400",
    "nan", "inf", "-Infinity", "NaT", "None", "NA", "True", "0x1A", "1,234", "9" * 5000, "long " * 4000, "2020-01-01",
    "0001-01-01", "9999-12-31", "2020-01-01 00:00:00.123456789", "2020-02-30", "2020-01-01T00:00:00+14:00", "12020-01-01",
    "1000000 days", "1 days 00:00:00.000000001", "08:30", "24:00", "2020-01", "2020Q1", np.str_("b"), "\U0001f600", "\r\n",
    "now", "today", "18446744073709551615", "-5", "other",
]  # fmt: skip
OBJECTS = [
    [1, 2], [], {"a": 1}, {1}, (1, [2]), (1, 2), b"1", b"\xff", bytearray(b"a"), np.array([1, 2]), np.array(1), pd.Series([1]),
    pd.Interval(0, 1), uuid.UUID(int=5), Unreadable(), object, Ellipsis, range(3), pd.DataFrame({"a": [1]}), [10**5000],
]  # fmt: skip
MISSING = [None, pd.NA, float("nan")]
ODD_CELLS: list[Any] = [*NUMBERS, *TIMES, *TEXTS, *OBJECTS, *MISSING]
CELLS = st.one_of(
    st.sampled_from(range(len(ODD_CELLS))).map(ODD_CELLS.__getitem__),
    st.text(st.characters(), max_size=8),
    st.integers(),
    st.floats(),
    st.decimals(allow_nan=True),
    st.datetimes(timezones=st.none() | st.just(ZONE)),
    st.dates(),
    st.timedeltas(),
)


def arrow_extremes() -> dict[str, pa.Array]:
    """By Arrow type: the least and the largest values that its bits hold, some between, and null."""
    short = pa.array([-(2**31), -1, 0, 5, 86_400, 2**31 - 1, None], pa.int32())
    long = pa.array([-(2**63), -(2**63) + 1, -1, 0, 1_001, 86_400_000_000, 2**63 - 1, None])
    units = ("s", "ms", "us", "ns")
    kinds = [
        *(pa.date32(), pa.date64(), pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns")),
        *(pa.timestamp(unit, zone) for unit in units for zone in (None, "UTC", "Europe/Berlin", "+14:00")),
        *map(pa.duration, units),
        *(pa.int32(), pa.uint32(), pa.int64(), pa.uint64()),
    ]  # fmt: skip
    arrays = [(short if kind.bit_width == 32 else long).view(kind) for kind in kinds]
    for kind in (pa.decimal128(38, 0), pa.decimal128(38, 38), pa.decimal256(76, 0), pa.decimal256(76, 76)):  # fmt: skip
        largest = Decimal((0, (9,) * kind.precision, -kind.scale))
        arrays.append(pa.array([largest.copy_negate(), largest, Decimal(0), None], kind))
    for kind in (pa.float16(), pa.float32(), pa.float64()):
        cells = [float("-inf"), float("inf"), float("nan"), -0.0, 5.0, 6e-8, 65_504.0, None]
        arrays.append(pa.array([None if c is None else np.float16(c) for c in cells], pa.float16()).cast(kind))  # fmt: skip
    days, times = arrays[0], arrays[5]
    arrays.append(pa.DictionaryArray.from_arrays(pa.array(range(len(days))), days))
    arrays.append(pa.ListArray.from_arrays(list(range(len(days) + 1)), days))
    arrays.append(pa.StructArray.from_arrays([times], ["t"]))
    return {str(array.type): array for array in arrays}


def objects(cells: list[Any]) -> pd.Series:
    """A column of dtype object that holds just these cells."""
    values = np.empty(len(cells), dtype=object)
    for row, cell in enumerate(cells):
        values[row] = cell
    return pd.Series(values, dtype=object)
