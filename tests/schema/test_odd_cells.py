"""Every conversion of a cell is total, and a function of that cell: null, ``other``, the nearest bound, or an InputError."""

import datetime
import math
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from odd_cells import CELLS, NUMBERS, ODD_CELLS, arrow_extremes, objects

from tabsynth import Hierarchical, InputError, Schema
from tabsynth.schema import Column, time_texts
from tabsynth.schema.cells import OtherObject, with_plain_cells
from tabsynth.tables.frames import to_pandas

FACTS: dict[str, list[dict[str, Any]]] = {
    "numeric": [
        *(
            {"dtype": dtype, "low": 0, "high": 99, "nulls": True}
            for dtype in ("Int64", "UInt8", "float64", "Float64", "float32")
        ),
        {"dtype": "int64", "low": 0, "high": 99},
        {"dtype": "float64", "low": 0, "high": 99, "resolution": 1, "missing": {"-8": "refused"}},
        {"dtype": "object", "low": 0, "high": 99, "resolution": 1, "missing": {"N": "refused"}},
    ],
    "date": [
        {"dtype": dtype, "low": "2000-01-01", "high": "2030-12-31", "nulls": True}
        for dtype in ("datetime64[ns]", "datetime64[s]", "str", "object")
    ]
    + [{"dtype": "str", "format": "%d/%m/%Y", "low": "2000-01-01", "high": "2030-12-31"}],
    "datetime": [
        {"dtype": dtype, "low": "2000-01-01", "high": "2030-12-31", "nulls": True}
        for dtype in (
            "datetime64[ns]",
            "datetime64[us, Europe/Berlin]",
            "datetime64[s, UTC]",
            "str",
        )
    ],
    "time": [{"dtype": dtype, "nulls": True} for dtype in ("str", "object")],
    "duration": [
        {"dtype": dtype, "low": "0 days", "high": "100 days", "nulls": True}
        for dtype in ("timedelta64[ns]", "timedelta64[s]", "str")
    ],
    "period": [
        {"dtype": dtype, "low": "2000-01", "high": "2030-01", "nulls": True}
        for dtype in ("period[M]", "period[D]")
    ],
}
LISTS: list[dict[str, Any]] = [
    {"dtype": "str", "categories": ("a", "other", "2020-01-01"), "nulls": True},
    {"dtype": "object", "categories": (1, 2), "nulls": True},
    {"dtype": "object", "categories": (1, 2), "missing": {"N": "refused", "-8": "no answer"}},
    {"dtype": "category", "categories": ("a", "b"), "nulls": True},
    {"dtype": "category", "categories": (1, 2, 3), "nulls": True},
    {"dtype": "Int64", "categories": (1, 2, 3), "nulls": True},
    {"dtype": "int8", "categories": (1, 2)},
    {"dtype": "float64", "categories": (1.0, 2.5), "nulls": True},
    {"dtype": "float32", "categories": (0.1, 2.5), "nulls": True},
    {"dtype": "boolean", "categories": (False, True), "nulls": True},
]
TREES: list[dict[str, Any]] = [
    {"dtype": "str", "codes": ("1", "12", "a", "T"), "levels": (1,), "nulls": True},
    {"dtype": "Int64", "codes": (1, 12, 3), "levels": (1,), "nulls": True},
]
ALL_COLUMNS = [
    *(
        Column(name="v", kind=kind, clip=clip, **facts)
        for kind, all_facts in FACTS.items()
        for facts in all_facts
        for clip in (False, True)
    ),
    *(
        Column(name="v", kind="categorical", **facts, other=other)
        for facts in LISTS
        for other in (None, facts["categories"][0])
    ),
    *(
        Hierarchical(name="v", **facts, shorten=shorten, other=other)
        for facts in TREES
        for shorten in (False, True)
        for other in (None, facts["codes"][0])
    ),
]
# The first few have every kind among them.
COLUMNS = [column for first in range(6) for column in ALL_COLUMNS[first::6]]
FEW = len(ALL_COLUMNS[::6])
WAYS = {"encode": lambda c, v: c.encode(v), "convert": lambda c, v: c.encode(c.convert(v))}


def named(column: Column) -> str:
    more = {
        "clip": getattr(column, "clip", None),
        "other": column.other,
        "missing": len(column.missing),
    }
    return f"{column.kind} {column.dtype} " + " ".join(f"{k}={v}" for k, v in more.items() if v)


def code_of(column: Column, values: pd.Series, way: str) -> int | None:
    """The code of the only value; None where it is refused in one line."""
    try:
        (code,) = WAYS[way](column, values)
    except InputError as error:
        assert "\n" not in str(error)
        return None
    assert 0 <= code < column.size
    return int(code)


def check_by_itself(column: Column, cells: pd.Series, way: str) -> None:
    """Each cell has a code, or is refused; and has that same code beside all others that have one, in whatever order."""
    alone = [code_of(column, cells.iloc[[row]], way) for row in range(len(cells))]
    taken = [row for row, code in enumerate(alone) if code is not None]
    for rows in (taken, taken[::-1]):
        together = WAYS[way](column, cells.iloc[rows].reset_index(drop=True))
        assert together.tolist() == [alone[row] for row in rows]


@pytest.mark.slow(cases=FEW * len(WAYS))
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("column", COLUMNS, ids=named)
def test_each_cell_is_converted_or_refused_by_itself(column: Column, way: str) -> None:
    check_by_itself(column, with_plain_cells(objects(ODD_CELLS)), way)


@pytest.mark.hypothesis
@settings(max_examples=60)
@given(
    column=st.sampled_from(COLUMNS),
    cells=st.lists(CELLS, min_size=1, max_size=4),
    way=st.sampled_from(sorted(WAYS)),
)
def test_any_cells_are_converted_or_refused_by_themselves(
    column: Column, cells: list[Any], way: str
) -> None:
    check_by_itself(column, with_plain_cells(objects(cells)), way)


def extremes() -> list[pd.Series]:
    numbers = np.array([-(2**63) + 1, -1, 2**53, 2**63 - 1])
    times = [
        pd.Series(numbers.view(f"{kind}[{unit}]"))
        for kind in ("datetime64", "timedelta64")
        for unit in ("s", "us", "ns")
    ]
    zones = [values.dt.tz_localize("UTC") for values in (times[0], times[2])]
    periods = [
        pd.Series(pd.PeriodIndex.from_ordinals([0, 600, 10**10, -(10**10)], freq=freq))
        for freq in "MD"
    ]
    others = [
        pd.Series([2**64 - 1, 5], dtype="uint64"),
        pd.Series([math.inf, -math.inf, math.nan, -0.0, 5], dtype="float16"),
        pd.Series([math.inf, math.nan, 1e308, 5e-324, 5]),
        pd.Series([1j, 5]),
        pd.Series(pd.IntervalIndex.from_breaks([0, 1, 2])),
        pd.Series(pd.Categorical(objects([1, "a", (1, 2), Decimal("2")]))),
        pd.Series(["a\0", "a", "1"], dtype="str"),
    ]
    return [*times, *zones, *periods, *others]


@pytest.mark.slow(cases=FEW)
@pytest.mark.parametrize("column", COLUMNS, ids=named)
def test_extremes_of_every_dtype(column: Column) -> None:
    for values in extremes():
        for way in WAYS:
            check_by_itself(column, to_pandas(pd.DataFrame({"v": values}))["v"], way)


ARROW = arrow_extremes()


def in_utc(values: pd.Series) -> list[str]:
    """Cells as texts; pandas cannot move the last instants to a zone."""
    if getattr(values.dtype, "tz", None) is not None:
        values = values.dt.tz_convert("UTC").dt.tz_localize(None)
    return [*map(str, values.to_numpy() if values.dtype.kind in "mM" else values.astype(object))]


@pytest.mark.parametrize("text", ARROW)
def test_extremes_of_every_arrow_type(text: str) -> None:
    """Each row is converted by itself, whatever library the table is of; then a column takes or refuses it by itself."""
    array = ARROW[text]
    cells = to_pandas(pa.table({"v": array}))["v"]
    backed = pd.DataFrame({"v": pd.Series(pd.arrays.ArrowExtensionArray(array))})
    for row in range(len(array)):
        alone = to_pandas(pa.table({"v": array[row : row + 1]}))["v"]
        assert alone.dtype == cells.dtype
        (cell,) = in_utc(alone)
        assert cell == in_utc(cells)[row] == in_utc(to_pandas(backed)["v"])[row]
    for column in COLUMNS[:FEW]:
        check_by_itself(column, cells, "convert")


DAYS = Column(name="v", kind="date", dtype="object", low="2000-01-01", high="9999-12-31", clip=True)


@pytest.mark.parametrize("kind", [pa.date32(), pa.date64()])
def test_arrow_dates_that_python_lacks_are_beyond_every_bound(kind: pa.DataType) -> None:
    first, last = (datetime.date.min, datetime.date.max)
    per_day = 1 if kind == pa.date32() else 86_400_000
    numbers = [((day - datetime.date(1970, 1, 1)).days) * per_day for day in (first, last)]
    numbers = [numbers[0] - 1, *numbers, numbers[1] + per_day, -1]
    whole = pa.int32() if kind == pa.date32() else pa.int64()
    cells = to_pandas(pa.table({"v": pa.array(numbers, whole).view(kind)}))["v"]
    assert cells.tolist() == [
        *(np.datetime64("0000-12-31"), first, last, np.datetime64("10000-01-01")),
        datetime.date(1969, 12, 31),
    ]
    for row, cell in enumerate((0, 0, DAYS.cells - 1, DAYS.cells - 1)):
        assert code_of(DAYS, cells.iloc[[row]], "convert") == cell
        taken = row == 2
        assert (code_of(DAYS.strict(), cells.iloc[[row]], "encode") is not None) == taken


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_arrow_times_of_day(unit: str) -> None:
    """Nanoseconds are cut off. What lies beyond a day is a length of time, which no column of times takes."""
    size = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[unit]
    whole, kind = (pa.int32(), pa.time32(unit)) if size < 10**4 else (pa.int64(), pa.time64(unit))
    numbers = [0, 86_400 * size - 1, 86_400 * size, -1, 3_601 * size + (unit == "ns")]
    cells = to_pandas(pa.table({"v": pa.array(numbers, whole).view(kind)}))["v"]
    last = 999_999 // max(10**6 // size, 1) * max(10**6 // size, 1) if size > 1 else 0
    assert cells[[0, 1, 4]].tolist() == [
        datetime.time(0),
        datetime.time(23, 59, 59, last),
        datetime.time(1, 0, 1),
    ]
    assert [type(cell) for cell in cells[[2, 3]]] == [datetime.timedelta] * 2
    column = Column(name="v", kind="time", dtype="object", clip=True)
    taken = [code_of(column, cells.iloc[[row]], "encode") is not None for row in range(5)]
    assert taken == [True, True, False, False, True]


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.string_view()])
def test_arrow_texts_that_are_not_valid_are_named(kind: pa.DataType) -> None:
    texts = pa.array([b"a", b"\xff"], pa.binary()).cast(
        pa.binary_view() if kind == pa.string_view() else pa.large_binary()
        if kind == pa.large_string() else pa.binary()
    )  # fmt: skip
    with pytest.raises(InputError, match="'v' holds a text that is not valid UTF-8"):
        to_pandas(pa.table({"v": texts.view(kind)}))


FAR = [("0001-01-01", 0), ("9999-12-31", -1)]


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("kind", ["date", "datetime"])
@pytest.mark.parametrize(("text", "cell"), FAR)
def test_far_times_are_the_nearest_bound_in_every_unit(
    kind: str, unit: str, text: str, cell: int
) -> None:
    """Of the years 1 and 9999, and of those that only seconds reach, whatever the table's type and that of the column."""
    column = Column(
        name="v",
        kind=kind,
        dtype=f"datetime64[{unit}]",
        low="2000-01-01",
        high="2004-12-31",
        clip=True,
    )
    moment = datetime.datetime.fromisoformat(text)
    tables = [
        pd.Series(np.array([text], dtype=f"datetime64[{other}]")) for other in ("s", "ms", "us")
    ]
    far = np.datetime64(2**62 // 10**6 * (-1 if cell == 0 else 1) // 86_400 * 86_400 * 100, "s")
    tables += [pd.Series(np.array([far])), objects([moment]), objects([text]), objects([far])]
    tables += [objects([moment.date()])] if kind == "date" else []
    for values in tables:
        assert (
            code_of(column, values, "encode")
            == code_of(column, values, "convert")
            == range(column.cells)[cell]
        )
        refused = column.strict()
        assert code_of(refused, values, "encode") is code_of(refused, values, "convert") is None


def test_numbers_beyond_short_floats_are_the_nearest_bound() -> None:
    column = Column(name="v", kind="numeric", dtype="float32", low=-5, high=0, clip=True)
    for number, cell in ((1e308, -1), (-1e308, 0), (10**400, -1)):
        values = with_plain_cells(objects([number]))
        for way in WAYS:
            assert code_of(column, values, way) == range(column.cells)[cell]
            assert code_of(column.strict(), values, way) is None


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_long_durations_are_the_nearest_bound(unit: str) -> None:
    column = Column(
        name="v",
        kind="duration",
        dtype=f"timedelta64[{unit}]",
        low="0 days",
        high="9 days",
        clip=True,
    )
    days = datetime.timedelta(days=10**6)
    for way in WAYS:
        for length in (datetime.timedelta.max, np.timedelta64(10**18, "s"), days):
            assert code_of(column, objects([length]), way) == column.cells - 1
        for length in (datetime.timedelta.min, np.timedelta64(-(10**18), "s"), -days):
            assert code_of(column, objects([length]), way) == 0


@pytest.mark.parametrize("always", [False, True])
def test_a_text_with_nanoseconds_changes_no_other_text(
    always: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor where pandas reads all texts as nanoseconds, which do not reach the whole years 1677 and 2262."""
    monkeypatch.setattr(time_texts, "ALWAYS_NANOSECONDS", always)
    far = ["9999-12-31", "0001-01-01", "1677-03-01", "2262-12-31"]
    texts = [*far, "2010-01-01", *([] if always else ["2500-01", "2500-W01-1"])]
    alone = time_texts.instants_of(pd.Series(texts, dtype=object))
    more = pd.Series([*texts, "2020-01-01 00:00:00.123456789"], dtype=object)
    assert np.array_equal(time_texts.instants_of(more)[:-1], alone, equal_nan=True)
    assert np.isfinite(alone[:5]).all()
    column = Column(
        name="v", kind="datetime", dtype="str", low="2000-01-01", high="2030-12-31", clip=True
    )
    beside = pd.Series([*far, "2020-01-01 00:00:00.123456789"], dtype=object)
    assert column.encode(beside)[:4].tolist() == [63, 0, 0, 63]


@pytest.mark.parametrize(
    ("dtype", "high"),
    [("datetime64[ns]", "9999-12-31"), ("datetime64[ns, UTC]", "2300-01-01")],
)
def test_bounds_that_the_dtype_cannot_hold_are_refused(dtype: str, high: str) -> None:
    with pytest.raises(InputError, match="cannot hold all values"):
        Column(name="v", kind="datetime", dtype=dtype, low="2000-01-01", high=high)


LARGEST = float(np.finfo(float).max)


@pytest.mark.parametrize(
    ("cell", "plain"),
    [
        (10**400, LARGEST),
        (-(10**4000), -LARGEST),
        (2**70, 2**70),
        (Decimal("1e999999"), LARGEST),
        (Decimal("-Infinity"), -math.inf),
        (Decimal("sNaN"), None),
        (Decimal("1.50"), Decimal("1.50")),
        (np.float32(0.5), 0.5),
        (np.int8(3), 3),
        (np.bool_(True), True),
        (np.str_("a"), "a"),
        (pd.Timestamp(np.datetime64("2000000-01-01", "s")), np.datetime64("2000000-01-01", "s")),
    ],
)
def test_cells_become_plain(cell: Any, plain: Any) -> None:
    (found,) = with_plain_cells(objects([cell]))
    assert found == plain and type(found) is type(plain)


@pytest.mark.parametrize("cell", [[1], (1, [2]), b"a", "\ud800", 1j, object, pd.Interval(0, 1)])
def test_other_objects_are_nothing_that_is_declared(cell: Any) -> None:
    (found,) = with_plain_cells(objects([cell]))
    assert isinstance(found, OtherObject) and hash(found) == hash(
        with_plain_cells(objects([cell]))[0]
    )
    assert found.text.encode() and found.exact == (cell != "\ud800")
    schema = Schema(
        [Column(name="v", kind="categorical", dtype="str", categories=("a", "[1]", "b'a'"))]
    )
    (problem,) = schema.validate(pd.DataFrame({"v": objects([cell])}))
    assert problem.value is cell


def test_plain_tables_stay_the_same_objects() -> None:
    frame = pd.DataFrame(
        {"a": ["x"], "b": objects([1]), "c": objects(["é"]), "d": pd.Categorical(["u"])}
    )
    assert to_pandas(frame) is frame


def test_numbers_are_no_times() -> None:
    """numpy's times in nanoseconds are whole numbers to Python."""
    column = Column(name="v", kind="categorical", dtype="Int64", categories=(1, 2))
    for cell in (np.datetime64(1, "ns"), np.timedelta64(1, "ns")):
        for way in WAYS:
            assert code_of(column, objects([cell]), way) is None
    assert {type(cell) for cell in NUMBERS} >= {int, float, Decimal}
