"""Dates, times and durations: round trips, bounds, parsing of files, drafts."""

import datetime

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tabsynth import Date, Datetime, Duration, Period, Schema, Time
from tabsynth.drafting.drafts import draft_schema
from tabsynth.drafting.time_formats import TIME_FORMATS, TimeFormat, reason_of_times, time_class
from tabsynth.errors import InputError

RNG = np.random.default_rng(0)
COLUMNS = {
    "date": Date(name="a", dtype="datetime64[ns]", low="2001-03-05", high="2019-12-31", nulls=True),
    "text": Date(name="a", dtype="str", low="2001-03-05", high="2001-04-05", nulls=True),
    "german": Date(name="a", dtype="str", low="2001-03-05", high="2019-01-01", format="%d.%m.%Y"),
    "object": Date(name="a", dtype="object", low="1890-01-01", high="2019-01-01"),
    "instant": Datetime(name="a", dtype="datetime64[us]", low="2020-01-01", high="2021-01-01"),
    "zone": Datetime(
        name="a",
        dtype="datetime64[ns, Europe/Berlin]",
        low="2020-01-01",
        high="2021-01-01",
        resolution="1min",
        nulls=True,
    ),
    "instant as text": Datetime(name="a", dtype="str", low="2020-01-01", high="2020-02-01"),
    "time": Time(name="a", dtype="str", nulls=True),
    "python time": Time(name="a", dtype="object", low="08:00", high="18:00", resolution="1s"),
    "duration": Duration(name="a", dtype="timedelta64[ns]", low="0h", high="90 days", nulls=True),
    "duration as text": Duration(name="a", dtype="str", low="-1 days", high="9 days"),
    "days in digits": Date(
        name="a", dtype="Int64", low="2001-03-05", high="2019-12-31", format="%Y%m%d", nulls=True
    ),
    "days of a workbook": Date(
        name="a", dtype="int64", low="2001-03-05", high="2019-12-31", format="days since 1899-12-30"
    ),
    "seconds": Datetime(
        name="a",
        dtype="float64",
        low="2020-01-01",
        high="2021-01-01",
        format="seconds since 1970-01-01",
    ),
    "offsets": Datetime(
        name="a",
        dtype="str",
        low="2020-01-01",
        high="2021-01-01",
        format="%Y-%m-%dT%H:%M:%S.%f%:z",
        resolution="1ms",
        zone="Europe/Berlin",
    ),
    "short": Datetime(
        name="a",
        dtype="str",
        low="2020-01-01",
        high="2021-01-01",
        format="%-m/%-d/%Y %-I:%M %p",
        resolution="1min",
    ),
    "month of letters": Date(
        name="a", dtype="str", low="2001-03-05", high="2019-12-31", format="%d%^b%Y"
    ),
    "twelve hours": Time(name="a", dtype="str", format="%I:%M %p", nulls=True),
    "month": Period(name="a", dtype="str", low="2001-01", high="2020-12", format="%m/%Y"),
    "period": Period(name="a", dtype="period[M]", low="2001-01", high="2020-12", nulls=True),
    "quarter": Period(name="a", dtype="period[Q-DEC]", low="2001Q1", high="2020Q4"),
}


@pytest.mark.parametrize("kind", COLUMNS)
def test_decoded_values_have_the_dtype_and_encode_to_their_codes(kind: str) -> None:
    column = COLUMNS[kind]
    codes = np.repeat(np.arange(column.size), 7)
    values = column.decode(codes, RNG)
    assert str(values.dtype) == column.dtype
    np.testing.assert_array_equal(column.encode(values), codes)
    # As a file holds them: text.
    texts = (
        values.astype(object)
        .where(values.notna(), None)
        .map(lambda v: None if v is None else str(v))
    )
    read = column.parse(texts.astype("str"))
    assert str(read.dtype) == column.dtype
    np.testing.assert_array_equal(column.encode(read), codes)


@pytest.mark.parametrize("kind", COLUMNS)
def test_amounts_come_back(kind: str) -> None:
    column = COLUMNS[kind]
    values = column.decode(RNG.integers(0, column.size, 200), RNG)
    pd.testing.assert_series_equal(column.from_amounts(column.amounts(values)), values)


@given(st.dates(datetime.date(2001, 3, 5), datetime.date(2019, 12, 31)))
def test_a_date_is_in_its_cell(day: datetime.date) -> None:
    column = COLUMNS["date"]
    code = int(column.encode(pd.Series([pd.Timestamp(day)]))[0])
    first, _, last = column.label(code).partition(" to ")
    assert first <= day.isoformat() <= (last or first)


def test_texts_come_back_as_they_were_written() -> None:
    """With the offsets of summer and winter, without zeros in front, and as many digits of a second as the unit needs."""
    texts = {
        "offsets": ["2020-07-01T12:30:00.120+02:00", "2020-12-01T00:00:00.000+01:00"],
        "short": ["1/5/2020 2:07 PM", "12/25/2020 12:00 AM"],
        "month of letters": ["09DEC2003"],
        "twelve hours": ["12:00 AM", "02:30 PM"],
        "month": ["03/2004"],
        "days in digits": [20031209],
        "days of a workbook": [40000],
        "seconds": [1577923200],
    }
    for kind, values in texts.items():
        column = COLUMNS[kind]
        back = column.from_amounts(column.amounts(pd.Series(values, dtype=object)))
        assert back.tolist() == values, kind


@given(
    st.sampled_from([known for known in TIME_FORMATS if known.kind is not Period]),
    st.datetimes(datetime.datetime(1950, 1, 1), datetime.datetime(2090, 1, 1)),
)
def test_every_format_of_drafts_reads_what_it_writes(
    known: TimeFormat, moment: datetime.datetime
) -> None:
    bounds = {} if known.kind is Time else {"low": "1950-01-01", "high": "2090-12-31"}
    dtype = "int64" if known.of_numbers else "str"
    column = known.kind(name="a", dtype=dtype, **bounds, **known.facts)
    unit = column.unit_of(moment.time().isoformat() if known.kind is Time else moment.date(), "a")
    text = str(column.from_amounts(pd.Series([unit], dtype=float).to_numpy()).iloc[0])
    assert known.pattern.fullmatch(text) and time_class(text) is not None
    assert column.amounts(pd.Series([text], dtype=object)).tolist() == [unit]


def test_labels_and_cells_are_those_of_the_calendar() -> None:
    column = Date(
        name="a",
        dtype="str",
        low="2020-01-01",
        high="2020-12-31",
        breaks=("2020-02-01", "2020-12-25"),
    )
    assert [column.label(code) for code in range(3)] == [
        "2020-01-01 to 2020-01-31",
        "2020-02-01 to 2020-12-24",
        "2020-12-25 to 2020-12-31",
    ]


@pytest.mark.parametrize(
    ("column", "value", "says"),
    [
        (
            "date",
            "2000-01-01",
            "'2000-01-01' is outside its declared bounds, 2001-03-05 to 2019-12-31",
        ),
        ("text", "05.03.2001", "'05.03.2001' is no date; correct it, write it like '2020-01-31'"),
        ("text", "2001-02-30", "is no date"),
        ("text", "20010310", "is no date"),
        ("text", "2001-03-10 12:00", "is no date"),
        ("time", "24:00", "is no time"),
        ("duration as text", "soon", "is no duration"),
        ("instant", "2020-13-01", "is no datetime"),
        ("text", None, None),
    ],
)
def test_other_values_are_refused_in_one_line(column: str, value: str, says: str | None) -> None:
    values = pd.Series([value], dtype=object)
    if says is None:
        assert COLUMNS[column].encode(values) == [COLUMNS[column].cells]
        return
    with pytest.raises(InputError) as error:
        COLUMNS[column].encode(values)
    assert says in str(error.value) and "Column 'a'" in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("facts", "says"),
    [
        ({"low": "2020-02-30"}, "'2020-02-30' is no date"),
        ({"low": None}, "declare low and high"),
        ({"low": "2022-01-01"}, "low=2022-01-01 is after high=2021-01-01"),
        ({"format": "%d.%m"}, "does not give back a date"),
        ({"dtype": "bool"}, "a date column cannot have dtype 'bool'"),
        ({"dtype": "int64"}, "whole numbers are a date in a format such as '%Y%m%d'"),
        ({"dtype": "int64", "format": "%d%m%Y"}, "whole numbers are a date in a format"),
    ],
)
def test_facts_that_contradict_are_refused(facts: dict, says: str) -> None:
    with pytest.raises(InputError, match=says):
        Date(**{"name": "a", "dtype": "str", "low": "2020-01-01", "high": "2021-01-01", **facts})


def test_values_beyond_the_bounds_are_clipped_where_that_is_declared() -> None:
    column = Date(name="a", dtype="str", low="2020-01-01", high="2020-12-31", clip=True)
    codes = column.encode(pd.Series(["1999-01-01", "2031-01-01"]))
    assert codes.tolist() == [0, column.cells - 1]


@pytest.mark.parametrize("kind", COLUMNS)
def test_a_schema_file_keeps_the_column(kind: str) -> None:
    schema = Schema([COLUMNS[kind]])
    assert Schema.from_dict(schema.to_dict()).columns == schema.columns


def test_conditions_are_ranges_of_dates() -> None:
    column = COLUMNS["text"]
    part = column.restriction([{"low": "2001-03-10", "high": "2001-03-11"}])
    codes = RNG.choice(np.flatnonzero(part.shares), 50)
    assert set(column.decode(codes, RNG, part.within)) == {"2001-03-10", "2001-03-11"}
    with pytest.raises(InputError, match="column 'a' has no value"):
        column.restriction(["1999-01-01"])


def test_a_public_draft_finds_the_kinds() -> None:
    days = pd.Timestamp("2019-02-03") + pd.to_timedelta(np.arange(100), "D")
    table = pd.DataFrame(
        {
            "visit": days,
            "when": days.strftime("%Y-%m-%d"),
            "at": days + pd.Timedelta("8h"),
            "stay": pd.to_timedelta(np.arange(100) % 9, "D"),
            "clock": [f"{h % 24:02}:30" for h in range(100)],
            "month": pd.PeriodIndex(days, freq="M"),
        }
    )
    schema = draft_schema(table, min_count=1)
    kinds = {column.name: column.kind for column in schema.columns}
    assert kinds == {
        "visit": "date",
        "when": "date",
        "at": "datetime",
        "stay": "duration",
        "clock": "time",
        "month": "period",
    }
    assert (schema["when"].low, schema["when"].high) == ("2019-01-01", "2019-12-31")  # type: ignore[attr-defined]


@pytest.mark.parametrize("mark", ["/", "."])
def test_a_reason_names_dates_with_the_mark_that_they_have(mark: str) -> None:
    for text, form in (
        ("16/11/01", "DD/MM/YY"),
        ("16/11/2001 ca. 7:15", "DD/MM/YYYY"),
        ("2001/11/16 ca. 7:15", "YYYY/MM/DD"),
    ):
        name = time_class(text.replace("/", mark))
        assert name is not None and form.replace("/", mark) in name
        reason = reason_of_times({name: 90.0, "text": 10.0})
        assert reason is not None and f"such as {name}); declare" in reason
