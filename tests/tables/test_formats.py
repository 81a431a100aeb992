"""Every format of files: what is written comes back, and what is damaged or too large is refused in one line."""

import gzip
import logging
import zipfile
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tabsynth import Hierarchical, InputError, Schema, read_table, write_table
from tabsynth.drafting.drafts import draft_schema
from tabsynth.errors import TableError
from tabsynth.schema import Column
from tabsynth.tables import limits, workbooks
from tabsynth.tables.files import read_any, suffix
from tabsynth.tables.labelled import with_labels
from tabsynth.tables.parquet_files import write_parquet_parts

ONE: dict[str, Any] = {"kind": "categorical", "nulls": True}
SCHEMA = Schema(
    [
        Column(name="text", dtype="str", categories=("007", "=1+1", "é,;\t|\n€"), **ONE),
        Column(name="real", kind="numeric", dtype="float64", low=-1e4, high=1e4, nulls=True),
        Column(name="whole", kind="numeric", dtype="Int64", low=0, high=2**40, nulls=True),
        Column(name="yes", kind="categorical", dtype="bool", categories=(False, True)),
        Column(name="short", kind="numeric", dtype="float32", low=0, high=9),
        Column(name="day", kind="date", dtype="str", low="2020-01-01", high="2020-12-31"),
        Column(
            name="seen",
            kind="datetime",
            dtype="datetime64[us]",
            low="2020-01-01",
            high="2020-12-31 23:59:59",
            nulls=True,
        ),
        Column(name="code", dtype="category", categories=(0.5, 1.5), **ONE),
    ]
)
TABLE = pd.DataFrame(
    {
        "text": pd.Series(["é,;\t|\n€", None, "007", "=1+1"], dtype="str"),
        "real": [-1234.5, np.nan, 0.1 + 0.2, 1000],
        "whole": pd.array([2**40, None, 0, 1], dtype="Int64"),
        "yes": [True, False, True, True],
        "short": pd.Series([0.1, 1, 2, 3.5], dtype="float32"),
        "day": pd.Series(["2020-02-29"] * 4, dtype="str"),
        "seen": pd.to_datetime(
            ["2020-02-29 10:11:12", None, "2020-03-01 00:00:00", "2020-12-31 23:59:59"]
        ).astype("datetime64[us]"),
        "code": pd.Series([0.5, None, 1.5, 0.5], dtype=pd.CategoricalDtype([0.5, 1.5])),
    }
)
NAMES = (
    *("t.csv", "t.tsv", "t.txt", "t.TSV.gz", "t.v2.csv.zst"),
    "t.parquet",
)


@pytest.mark.parametrize("name", NAMES)
def test_what_is_written_comes_back(name: str, tmp_path: Path) -> None:
    for decimal in (None, ","):
        write_table(TABLE, tmp_path / name, formulas="keep", decimal=decimal, overwrite=True)
        read = read_table(tmp_path / name, SCHEMA, decimal=decimal)
        pd.testing.assert_frame_equal(read, TABLE)
        assert [f.name for f in tmp_path.iterdir()] == [name]
    assert read_any(tmp_path / name).shape == TABLE.shape


SPAN: dict[str, Any] = {"low": "2000-01-01", "high": "2004-12-31"}
WHOLE = [f"{sign}{size}" for sign in ("int", "uint", "Int", "UInt") for size in (8, 16, 32, 64)]
UNITS = ("s", "ms", "us", "ns")
DTYPES: list[tuple[str, str, dict[str, Any]]] = [
    *(("numeric", dtype, {"low": 0, "high": 99}) for dtype in WHOLE),
    *(("numeric", f"{real}{size}", {"low": 0, "high": 9}) for real in ("float", "Float") for size in (32, 64)),
    *(("categorical", dtype, {"categories": ("a", "b")}) for dtype in ("str", "string", "object", "category")),
    *(("categorical", dtype, {"categories": (1, 2)}) for dtype in ("int8", "Int64", "UInt16", "category", "object")),
    *(("categorical", dtype, {"categories": (0.5, 2.0)}) for dtype in ("float32", "float64", "Float64", "category")),
    *(("categorical", dtype, {"categories": (False, True)}) for dtype in ("bool", "boolean", "category", "object")),
    *(("ordinal", dtype, {"categories": ("a", "b")}) for dtype in ("str", "category")),
    *(("hierarchical", dtype, {"codes": codes, "levels": (1,)})
      for dtype, codes in (("str", ("1", "12")), ("Int64", (1, 12)))),
    *(("date", dtype, SPAN) for dtype in (*(f"datetime64[{unit}]" for unit in UNITS), "str", "string", "object")),
    *(("datetime", f"datetime64[{unit}{zone}]", SPAN) for unit in UNITS for zone in ("", ", Europe/Berlin")),
    *(("datetime", dtype, SPAN) for dtype in ("str", "string")),
    *(("time", dtype, {}) for dtype in ("str", "string", "object")),
    *(("duration", dtype, {"low": "0h", "high": "9h"}) for dtype in (*(f"timedelta64[{unit}]" for unit in UNITS), "str")),
    *(("period", f"period[{unit}]", {"low": "2000", "high": "2004"}) for unit in ("Y-DEC", "Q-DEC", "M", "W-SUN", "D", "h")),
]  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "dtype", "facts"), DTYPES, ids=[f"{kind} {dtype}" for kind, dtype, _ in DTYPES]
)
def test_every_dtype_comes_back_from_every_format(
    kind: str, dtype: str, facts: dict[str, Any], tmp_path: Path
) -> None:
    """With nulls, and where all cells are null."""
    nulls = not dtype.startswith(("int", "uint")) and dtype != "bool"
    of = {"hierarchical": Hierarchical}.get(kind, partial(Column, kind=kind))
    column = of(name="v", dtype=dtype, nulls=nulls, **facts)
    codes = np.append(np.arange(column.size), column.size - 1)
    table = column.decode(codes, np.random.default_rng(0)).to_frame("v")
    for ending in (".csv", ".parquet"):
        path = tmp_path / f"t{ending}"
        for first in (0, len(table) - 2):
            part = table[first:].reset_index(drop=True)
            write_table(part, path, overwrite=True)
            back = read_table(path, Schema([column]))["v"]
            assert back.dtype == part["v"].dtype
            np.testing.assert_array_equal(column.encode(back), codes[first:], err_msg=ending)
            assert read_any(path).shape == part.shape  # as verify reads it


def test_parts_of_a_file_have_periods_as_texts(tmp_path: Path) -> None:
    months = pd.PeriodIndex(["2000-01", None, "2001-12"], freq="M")
    tables = [pd.DataFrame({"v": months}), pd.DataFrame({"v": months[1:2]})]
    write_parquet_parts(tables, tmp_path / "t.parquet")
    column = Column(name="v", kind="period", dtype="period[M]", low="2000", high="2004", nulls=True)
    back = read_table(tmp_path / "t.parquet", Schema([column]))["v"]
    pd.testing.assert_series_equal(back, pd.Series([*months, pd.NaT], name="v", dtype="period[M]"))


@pytest.mark.parametrize("sep", [",", ";", "tab", "\\t", "|"])
def test_separators_are_found_by_the_header(sep: str, tmp_path: Path) -> None:
    write_table(TABLE, tmp_path / "t.csv", formulas="keep", sep=sep)
    pd.testing.assert_frame_equal(read_table(tmp_path / "t.csv", SCHEMA), TABLE)
    names = {name: f"{name}{extra}" for name, extra in zip(TABLE, ";,|\t;,|\t", strict=True)}
    write_table(
        TABLE.rename(columns=names), tmp_path / "t.csv", formulas="keep", sep=sep, overwrite=True
    )
    assert [*read_any(tmp_path / "t.csv").columns] == [*names.values()]


def test_a_header_with_two_meanings_asks(tmp_path: Path) -> None:
    file = tmp_path / "t.csv"
    file.write_text("a,b;c\n1,2;3\n")
    with pytest.raises(InputError, match="commas or semicolons; name the separator with sep="):
        read_any(file)
    assert [*read_any(file, sep=";").columns] == ["a,b", "c"]
    for sep in ("", "ab", '"', "\n", "é"):
        with pytest.raises(InputError, match="one character"):
            read_any(file, sep=sep)
    file.write_text("a:b\n1:2\n")
    with pytest.raises(InputError, match="single column, 'a:b'; is the separator right"):
        read_any(file, ask=True)
    assert read_any(file, sep=":", ask=True).shape == (1, 2)
    assert read_any(file, sep=",", ask=True).shape == (1, 1)
    with pytest.raises(InputError, match="is the separator right"):
        read_table(file, SCHEMA)


WORDS = "name;town\nJosé;Zürich\nAnn;Bern\n"


@pytest.mark.parametrize(
    ("encoding", "named"),
    [
        *(("utf-8", False), ("utf-8-sig", False), ("utf-16", False), ("utf-32", False)),
        *(("latin-1", False), ("cp1252", False), ("utf-16-le", True), ("mac-roman", True)),
        ("latin-1", True),
    ],
)
def test_encodings(encoding: str, named: bool, tmp_path: Path) -> None:
    for ends in ("\n", "\r\n", "\r"):
        (tmp_path / "t.csv").write_bytes(WORDS.replace("\n", ends).encode(encoding))
        table = read_any(tmp_path / "t.csv", encoding=encoding if named else None)
        assert table.to_dict("list") == {"name": ["José", "Ann"], "town": ["Zürich", "Bern"]}


def test_a_line_in_another_encoding_changes_no_other(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Each line is decoded by itself: neighbours differ in one row, whatever bytes it has."""
    rows = [f"{i};é {i}".encode() for i in range(50)]
    before = None
    for other in (
        b"50;x",
        "50;ü".encode(),
        "50;ü".encode("latin-1"),
        b"50;\xc3(",
        "50;Ã¼".encode(),
    ):
        (tmp_path / "t.csv").write_bytes(b"\n".join([b"a;b", *rows[:25], other, *rows[25:]]))
        with caplog.at_level(logging.WARNING):
            table = read_any(tmp_path / "t.csv").drop(index=25)
        before = table if before is None else before
        pd.testing.assert_frame_equal(table, before)
    assert not caplog.text  # a message would say something of a row
    (tmp_path / "t.csv").write_bytes("é;b\n1;2\n".encode("latin-1"))
    with caplog.at_level(logging.WARNING):
        assert [*read_any(tmp_path / "t.csv")] == ["é", "b"]
    assert "the header is not UTF-8" in caplog.text


@settings(
    max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(other=st.binary(max_size=12))
@example(other=b"\x81")
@example(other=b"\xff\xfe")
@example(other=b"a\xe2\x82")
def test_any_bytes_in_a_row_change_no_other(other: bytes, tmp_path: Path) -> None:
    row = b'"' + other.replace(b'"', b"") + b'",z'
    (tmp_path / "t.csv").write_bytes(b"a,b\n\xe9,1\n" + row + b"\n\xc3\xa9,2\n")
    try:
        table = read_any(tmp_path / "t.csv", ())
    except InputError:
        return
    assert table.iloc[[0, 2]].to_numpy().tolist() == [["é", "1"], ["é", "2"]]


def test_bytes_that_no_encoding_has(tmp_path: Path) -> None:
    file = tmp_path / "t.csv"
    file.write_bytes(b"a,b\nx,1\n\x81,2\n")
    with pytest.raises(
        InputError, match=r"line 3 is not UTF-8 text, and not Windows-1252; .*encoding="
    ):
        read_any(file)
    with pytest.raises(InputError, match="line 3 is not utf-8 text"):
        read_any(file, encoding="utf-8")
    for name in ("no-such", "hex", ""):
        with pytest.raises(InputError, match="encoding to be one that Python knows"):
            read_any(file, encoding=name)
    file.write_bytes("a,b\nx,1\n".encode("utf-16")[:-1])
    with pytest.raises(InputError, match="is not utf-16 text"):
        read_any(file)


PACKERS: dict[str, Any] = {
    ".gz": gzip.compress,
    ".zst": lambda data: pa.compress(data, codec="zstd", asbytes=True),
}


@pytest.mark.parametrize("packing", PACKERS)
def test_damaged_and_huge_compressed_files(
    packing: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / f"t.csv{packing}"
    whole = PACKERS[packing]("\n".join(["a,b", *(f"{i},x{i * i}" for i in range(2000))]).encode())
    file.write_bytes(whole)
    assert read_any(file).shape == (2000, 2)
    for damaged in (whole[: len(whole) // 2], b"a,b\n1,2\n", whole[:4], b""):
        file.write_bytes(damaged)
        with pytest.raises(InputError, match=r"is not a whole|is empty"):
            read_any(file)
    monkeypatch.setattr(limits, "FREE_BYTES", 100_000)
    file.write_bytes(PACKERS[packing](b"a,b\n" + b"1,2\n" * 100_000))
    with pytest.raises(InputError, match="no table that we read"):
        read_any(file)


def test_members_of_a_compressed_file_are_one_table(tmp_path: Path) -> None:
    parts = [PACKERS[".gz"](part) for part in (b"a,b\n1,2\n", b"3,4\n")]
    (tmp_path / "t.csv.gz").write_bytes(b"".join(parts))
    assert read_any(tmp_path / "t.csv.gz").shape == (2, 2)


def test_the_same_table_gives_the_same_bytes(tmp_path: Path) -> None:
    for packing in ("", *PACKERS):
        for name in ("one", "two"):
            write_table(TABLE, tmp_path / f"{name}.csv{packing}", formulas="keep")
        one, two = (tmp_path / f"{name}.csv{packing}" for name in ("one", "two"))
        assert one.read_bytes() == two.read_bytes()


@pytest.mark.parametrize(
    "name", [n for n in NAMES if Path(n).suffix.lower() not in (".csv", ".tsv", ".txt")]
)
def test_truncated_files(name: str, tmp_path: Path) -> None:
    file = tmp_path / name
    write_table(TABLE, file, formulas="keep")
    whole = file.read_bytes()
    for content in (whole[: len(whole) // 2], whole[:10], b"", b"a,b\n1,2\n"):
        file.write_bytes(content)
        with pytest.raises(InputError) as caught:
            read_table(file, SCHEMA)
        assert name in str(caught.value) and "\n" not in str(caught.value)


# Excel.


def workbook(path: Path, rows: list[list[Any]], sheets: tuple[str, ...] = ("Sheet1",)) -> Path:
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    book.remove(book.active)
    for name in sheets:
        sheet = book.create_sheet(name)
        for row in rows:
            sheet.append(row)
    book.save(path)
    return path


def test_cells_of_a_sheet_are_read_one_by_one(tmp_path: Path) -> None:
    import datetime as dt

    rows = [
        ["a", "b", 2019, None],
        [1, "x", True],
        [1.5, "?", dt.datetime(2020, 2, 29)],
        [None, None, None],
        ["#N/A", None, None],
        ["1,5", None, dt.datetime(2020, 2, 29, 10, 30)],
        [3.0, "=1+1", dt.time(8, 30)],
    ]
    table = read_any(workbook(tmp_path / "t.xlsx", rows), ("?",))
    assert [*table.columns] == ["a", "b", "2019"]
    assert table["a"].dropna().tolist() == ["1", "1.5", "1,5", "3"]
    days = ["True", "2020-02-29", "2020-02-29 10:30:00", "08:30:00"]
    assert table["2019"].dropna().tolist() == days and table.loc[2].isna().all()
    assert table["b"].tolist()[0] == "x" and len(table) == 5  # a formula without a value is null


def test_sheets_are_named(tmp_path: Path) -> None:
    file = workbook(tmp_path / "t.xlsx", [["a", "b"], [1, 2]], ("one", "two"))
    with pytest.raises(InputError, match="several sheets; name one of 'one, two' with sheet="):
        read_any(file)
    with pytest.raises(InputError, match="has no sheet 'three'"):
        read_any(file, sheet="three")
    assert read_any(file, sheet="two").shape == (1, 2)
    wide = workbook(tmp_path / "w.xlsx", [["a", "b"], [1, 2, 3]])
    with pytest.raises(InputError, match="row 2: it has cells to the right"):
        read_any(wide)
    with pytest.raises(InputError, match="is empty"):
        read_any(workbook(tmp_path / "e.xlsx", []))


def test_workbooks_are_not_written(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"t.xlsx: tables are written as .csv, .tsv or .txt files"):
        write_table(TABLE[["yes"]], tmp_path / "t.xlsx")
    assert not [*tmp_path.iterdir()]


def test_escaped_texts_of_a_workbook_are_read_as_they_were(tmp_path: Path) -> None:
    schema = Schema([Column(name="a", dtype="str", categories=("=1+1", "x"), **ONE)])
    file = workbook(tmp_path / "t.xlsx", [["a"], ["'=1+1"], ["x"]])
    assert read_table(file, schema)["a"].tolist() == ["=1+1", "x"]


def test_workbooks_that_unpack_to_too_much(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = workbook(tmp_path / "t.xlsx", [["a", "b"], [1, 2]])
    with zipfile.ZipFile(file, "a", zipfile.ZIP_DEFLATED) as book:
        book.writestr("xl/media/zeros", b"0" * 10**7)
    assert read_any(file).shape == (1, 2)
    monkeypatch.setattr(limits, "FREE_BYTES", 10**6)
    with pytest.raises(InputError, match="no table that we read"):
        read_any(file)


def test_a_sheet_that_states_endless_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workbooks, "ROWS", 10_000)
    file = workbook(tmp_path / "t.xlsx", [["a", "b"], [1, 2]])
    with zipfile.ZipFile(file) as book:
        parts = {name: book.read(name) for name in book.namelist()}
    name = "xl/worksheets/sheet1.xml"
    parts[name] = parts[name].replace(b'<row r="2"', b'<row r="99999999999"')
    assert b"99999999999" in parts[name]
    with zipfile.ZipFile(file, "w") as book:
        for part, data in parts.items():
            book.writestr(part, data)
    with pytest.raises(InputError, match="larger than an Excel sheet"):
        read_any(file)


def test_excel_files_need_openpyxl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "openpyxl", None)
    (tmp_path / "t.xlsx").write_bytes(b"PK")
    with pytest.raises(InputError, match=r"pip install 'tabsynth\[excel\]'"):
        read_any(tmp_path / "t.xlsx")


# SPSS and Stata.


@pytest.mark.parametrize("ending", [".sav", ".dta"])
def test_labelled_files(ending: str, tmp_path: Path) -> None:
    pyreadstat = pytest.importorskip("pyreadstat")
    file = tmp_path / f"t{ending}"
    n = 200
    table = pd.DataFrame(
        {
            "sex": pd.Series(([1, 2] * n)[:n], dtype="int32"),
            "town": (["Bern", "?"] * n)[:n],
            "weight": [40 + (i * 37 % 500) / 10 for i in range(n)],
            "seen": pd.to_datetime(["2020-01-01 10:00", "2020-02-01 11:30"] * (n // 2)),
        }
    )
    write = pyreadstat.write_sav if ending == ".sav" else pyreadstat.write_dta
    labels = {"variable_value_labels": {"sex": {1: "male", 2: "female", 3: "other"}}}
    write(table, str(file), column_labels={"sex": "Sex at birth"}, **labels)
    read = read_any(file, ("?",))
    assert read["town"].isna().sum() == n / 2 and str(read.dtypes["seen"]) == "datetime64[us]"
    schema = with_labels(draft_schema(read), file)
    assert [*schema["sex"].labels.values()] == ["male", "female"]
    assert {str(c) for c in schema["sex"].categories} == set(schema["sex"].labels)
    assert schema["sex"].description == "Sex at birth"
    assert read_table(file, Schema(schema.columns, ["", "?"])).shape == (n, 4)
    file.write_bytes(file.read_bytes()[:200])
    with pytest.raises(InputError, match="cannot be read"):
        read_any(file)
    with pytest.raises(InputError, match=r"tables are written as \.csv"):
        write_table(table, file)


def test_labelled_files_that_unpack_to_too_much(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pyreadstat = pytest.importorskip("pyreadstat")
    file = tmp_path / "t.sav"
    pyreadstat.write_sav(pd.DataFrame({"a": [1.0] * 20_000}), str(file), compress=True)
    assert len(read_any(file)) == 20_000
    monkeypatch.setattr(limits, "FREE_BYTES", 10_000)
    monkeypatch.setattr(limits, "UNPACKED_PER_BYTE", 0)
    with pytest.raises(InputError, match="no table that we read"):
        read_any(file)


# Names, and all problems at once.


@pytest.mark.parametrize(
    "name",
    [
        "t.doc",
        "t",
        "t.gz",
        "t.feather",
        "t.parquet.gz",
        ".csv",
        "t.csv.zip",
        "t.csv.xz",
        "t.csv.bz2",
    ],
)
def test_other_suffixes_are_refused(name: str) -> None:
    with pytest.raises(InputError, match=r"tables are \.csv, \.tsv"):
        suffix(name)


@pytest.mark.parametrize(
    ("name", "option"),
    [("t.parquet", "sep"), ("t.parquet", "encoding"), ("t.csv", "sheet"), ("t.xlsx", "encoding")],
)
def test_options_that_a_format_does_not_have(name: str, option: str, tmp_path: Path) -> None:
    (tmp_path / name).touch()
    with pytest.raises(InputError, match=f"takes {option}="):
        read_table(tmp_path / name, SCHEMA, **{option: ","})


def test_all_problems_of_a_file_come_together(tmp_path: Path) -> None:
    file = tmp_path / "t.csv"
    schema = SCHEMA.select(["real", "whole", "yes"])
    rows = "\n".join(f"{value},{value},true" for value in ["x", "y", 10**6, *"abcdefghijklm"])
    file.write_text(f"real,whole,ja\n{rows}\n")
    with pytest.raises(TableError) as caught:
        read_table(file, schema)
    problems = caught.value.problems
    assert any("'ja'" in line for line in problems) and any("'yes'" in line for line in problems)
    (line,) = (line for line in problems if "'whole'" in line)
    assert "'x' is not a whole number" in line and line.endswith("at least 10 other values.")
    assert str(caught.value).splitlines()[1].endswith(f"has {len(problems)} problems:")


def test_the_decimal_mark_of_the_schema_and_of_the_option(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("real;x\n1.234;1\n1,5;1\n")
    column = Column(name="x", kind="numeric", dtype="int64", low=0, high=9)
    schema = Schema([SCHEMA["real"], column], decimal=",")
    assert read_table(tmp_path / "t.csv", schema)["real"].tolist() == [1234, 1.5]
    free = Schema(schema.columns)
    assert read_table(tmp_path / "t.csv", free, decimal=",")["real"].tolist() == [1234, 1.5]
    assert read_table(tmp_path / "t.csv", free)["real"].tolist() == [1.234, 1.5]
    with pytest.raises(InputError, match="declares decimal mark"):
        read_table(tmp_path / "t.csv", schema, decimal=".")


def test_numbers_have_the_decimals_of_the_others_beside_a_comma(tmp_path: Path) -> None:
    """Amounts have two; more than two look like thousands, and one of three decimals pads no other."""
    table = pd.DataFrame(
        {
            "amount": [0.0, 12.0, -25.5, 1312.25],
            "listed": pd.Categorical([1.25, 2.0, 2.0, None]),
            "mixed": ["k.A.", 2.5, None, 7.25],
            "whole": [1.0, 2.0, None, 3.0],
            "three": [0.125, 0.5, 2.0, 1.25],
            "small": [1e-05, 0.5, 0.25, float("inf")],
        }
    )
    write_table(table, tmp_path / "t.csv", decimal=",")
    assert (tmp_path / "t.csv").read_text().splitlines()[1:] == [
        "0,00;1,25;k.A.;1,0;0,125;1e-05",
        "12,00;2,00;2,50;2,0;0,5;0,5",
        "-25,50;2,00;;;2,0;0,25",
        "1312,25;;7,25;3,0;1,25;inf",
    ]


def test_one_row_decides_no_decimal_mark(tmp_path: Path) -> None:
    """What 1.234 becomes does not depend on the other rows."""
    schema = Schema([SCHEMA["real"], SCHEMA["whole"]])
    for other in ("1,5", "7.25", "1.234.567,5", "", "$3"):
        (tmp_path / "t.csv").write_text(f"real;whole\n1.234;1\n{other};2\n")
        assert read_table(tmp_path / "t.csv", schema)["real"][0] == 1.234
        (tmp_path / "t.csv").write_text(f"real;whole\n1,234;1\n{other};2\n")
        with pytest.raises(InputError, match="name the decimal mark"):
            read_table(tmp_path / "t.csv", schema)


def test_rows_decide_no_separator(tmp_path: Path) -> None:
    """A row with many other separators leaves the others as they are."""
    (tmp_path / "t.csv").write_text("a;b\nx;1\n,,,,,;2\n")
    assert read_any(tmp_path / "t.csv")["b"].tolist() == ["1", "2"]
