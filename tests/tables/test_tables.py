"""Tables in and out of files: exact round trips, and one-line refusals of every damaged file."""

import warnings
from pathlib import Path
from typing import Any

import linked_tables
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tabsynth import InputError, Schema, read_table, write_table
from tabsynth.schema import Column
from tabsynth.tables.files import read_any, read_folder, read_linked
from tabsynth.tables.formulas import is_formula
from tabsynth.tables.frames import to_pandas

ONE: dict[str, Any] = {"kind": "categorical", "nulls": True}
SCHEMA = Schema(
    [
        Column(name="text", dtype="str", categories=("x", "007", "a,b", 'q"', "é\nü"), **ONE),
        Column(name="string", dtype="string", categories=("x", "True"), **ONE),
        Column(name="object", dtype="object", categories=(True, False), **ONE),
        Column(name="cat", dtype="category", categories=("lo", "hi"), **ONE),
        Column(name="ord", kind="ordinal", dtype="category", categories=(3, 1, 2), nulls=True),
        Column(name="bool", kind="categorical", dtype="bool", categories=(False, True)),
        Column(name="boolean", dtype="boolean", categories=(False, True), **ONE),
        Column(name="int8", kind="numeric", dtype="int8", low=-5, high=5),
        Column(name="Int64", kind="numeric", dtype="Int64", low=0, high=2**60, nulls=True),
        Column(name="UInt8", dtype="UInt8", categories=(0, 255), **ONE),
        Column(name="float32", kind="numeric", dtype="float32", low=0, high=1, nulls=True),
        Column(name="float64", kind="numeric", dtype="float64", low=-1e9, high=1e9, nulls=True),
        Column(name="Float64", kind="numeric", dtype="Float64", low=0, high=1, nulls=True),
    ]
)


def a_table() -> pd.DataFrame:
    lo_hi = pd.CategoricalDtype(["lo", "hi"])
    order = pd.CategoricalDtype([3, 1, 2], ordered=True)
    return pd.DataFrame(
        {
            "text": pd.Series(["007", None, "é\nü"], dtype="str"),
            "string": pd.Series(["True", None, "x"], dtype="string"),
            "object": pd.Series([True, None, False], dtype="object"),
            "cat": pd.Series(["hi", None, "lo"], dtype=lo_hi),
            "ord": pd.Series([1, None, 3], dtype=order),
            "bool": [True, False, True],
            "boolean": pd.array([True, None, False], dtype="boolean"),
            "int8": pd.Series([-5, 0, 5], dtype="int8"),
            "Int64": pd.array([2**60, None, 2**53 + 1], dtype="Int64"),
            "UInt8": pd.array([255, None, 0], dtype="UInt8"),
            "float32": pd.Series([0.1, None, 1], dtype="float32"),
            "float64": [0.1 + 0.2, np.nan, -1e9],
            "Float64": pd.array([0.1, None, 1], dtype="Float64"),
        }
    )


@pytest.mark.parametrize("name", ["t.csv", "t.parquet", "T.CSV"])
def test_every_dtype_comes_back_from_a_file(name: str, tmp_path: Path) -> None:
    write_table(a_table(), tmp_path / name)
    pd.testing.assert_frame_equal(read_table(tmp_path / name, SCHEMA), a_table())
    assert [f.name for f in tmp_path.iterdir()] == [name]  # no temporary file is left


@settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    texts=st.lists(
        st.none() | st.text(st.characters(codec="utf-8", exclude_characters="\0\r"), min_size=1),
        min_size=1,
        max_size=6,
    ).filter(any),
    width=st.integers(1, 2),
    suffix=st.sampled_from(["csv", "parquet"]),
)
def test_any_text_comes_back(texts: list[Any], width: int, suffix: str, tmp_path: Path) -> None:
    """Texts with commas, quotes, line breaks, spaces; nulls; also alone in their row."""
    categories = tuple(dict.fromkeys(text for text in texts if text is not None))
    names = ["a", "b"][:width]
    schema = Schema(
        [Column(name=n, dtype="str", categories=categories, **ONE) for n in names], [""]
    )
    table = pd.DataFrame({n: pd.Series(texts, dtype="str") for n in names})
    write_table(table, tmp_path / f"t.{suffix}", formulas="keep", overwrite=True)
    pd.testing.assert_frame_equal(read_table(tmp_path / f"t.{suffix}", schema), table)


@pytest.mark.parametrize("columns", ["a", "ab"])
def test_rows_of_spaces_are_rows(columns: str, tmp_path: Path) -> None:
    table = pd.DataFrame({n: pd.Series([" ", "x", None, "\t"], dtype="str") for n in columns})
    write_table(table, tmp_path / "t.csv", formulas="keep")
    pd.testing.assert_frame_equal(read_any(tmp_path / "t.csv"), table)


AB = Schema(
    [
        Column(name="a", kind="categorical", dtype="str", categories=("x", "é"), nulls=True),
        Column(name="b", kind="numeric", dtype="Int64", low=0, high=99, nulls=True),
    ]
)


@pytest.mark.parametrize(
    ("content", "part"),
    [
        (b"", "is empty"),
        (b"\n\n", "is empty"),
        (b"\xef\xbb\xbf", "is empty"),
        (b"a,b\nx\n", "line 2: 1 cells under a header of 2"),
        (b"a,b\nx,1,\n", "line 2: 3 cells under a header of 2"),
        (b"a,b\nx,1\nx,1,2\nx,1\n", "line 3: 3 cells under a header of 2"),
        (b"a,b\nx,1\nx\n", "line 3: 1 cells under a header of 2"),
        (b'a,b\n"x\n', "is not a CSV table"),
        (b'a,b\n"x"y,1\n', "is not a CSV table: line 2: ',' expected after"),
        (b"a,b,a\nx,1,x\n", "column 'a' twice"),
        (b'""\nx\n', "column 1 has no name"),
        (b"a,\nx,1\n", "column 2 has no name"),
        (b",Unnamed: 0\nx,1\n", "column 'Unnamed: 0' twice"),
        (b"a,c\nx,1\n", "lacks column 'b'"),
        (b"a,b,c\nx,1,2\n", "column 'c' that the schema does not know"),
        (b"a,b;c\nx;1\n", "commas or semicolons"),
        (b"a:b\nx:1\n", "is the separator right"),
        (b"a,b\nx,\x81\n", "is not UTF-8"),
        ("a,b\nx,1\n".encode("utf-16")[:-1], "is not utf-16"),
        (b"\x89PNG\r\n\x1a\n\x00\x00\xff", "is not"),
        (b"PK\x03\x04\x14\x00\x00\x00\x08\x00", "t.csv is no text, but an Excel workbook"),
        (b"\x1f\x8b\x08\x00", "is no text, but a gzip file (.gz); give it the suffix"),
        (b"%PDF-1.7\n", "is no text, but a PDF document"),
        (b"PAR1\x15\x04", "is no text, but a Parquet file"),
        (b"PAR1,b\n1,2\n", "lacks column 'a'"),
        (b"a,b\nx,\x00\n", "line 2 holds a NUL"),
        (b"a,b\nx,1.5\n", "Column 'b': '1.5' is not a whole number"),
        (b"a,b\nx,1_0\n", "'1_0' is not a whole number"),
        (b"a,b\nx,inf\n", "'inf' is not a whole number"),
        (b"a,b\nx,one\n", "'one' is not a whole number"),
        (b"a,b\nx,99999999999999999999\n", "Column 'b' does not fit dtype Int64"),
    ],
)
def test_damaged_csv_files_are_refused_in_one_line(
    content: bytes, part: str, tmp_path: Path
) -> None:
    file = tmp_path / "t.csv"
    file.write_bytes(content)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(InputError) as caught:
            read_table(file, AB)
    first, *others = str(caught.value).split("\n")
    assert part in first and (not others or "has 2 problems" in others[0])


@pytest.mark.parametrize(
    "content",
    [
        "a,b\nx,1\né,\n",
        "b,a\r\n1,x\r\n,é\r\n",
        "\ufeffa,b\nx,1.0\n\né, \n",
        '"a","b"\n"x","1"\n"é",""',
    ],
)
def test_csv_dialects_that_are_understood(content: str, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_bytes(content.encode())
    schema = Schema(AB.columns, null_values=[" "])
    table = read_table(tmp_path / "t.csv", schema)
    assert table["a"].tolist() == ["x", "é"] and table["b"].isna().tolist() == [False, True]
    assert table["b"][0] == 1 and table.dtypes.astype(str).tolist() == ["str", "Int64"]


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_a_table_may_have_no_rows(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"t.{suffix}"
    write_table(a_table()[:0], path)
    pd.testing.assert_frame_equal(read_table(path, SCHEMA), a_table()[:0])
    (tmp_path / "one.csv").write_text("a\n")
    assert read_table(tmp_path / "one.csv", Schema(AB.columns[:1])).shape == (0, 1)


def test_null_texts_are_the_schemas(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("a,b\nNA,?\nN,7\n")
    columns = [Column(name="a", dtype="str", categories=("NA", "N"), **ONE), AB["b"]]
    table = read_table(tmp_path / "t.csv", Schema(columns, null_values=["?"]))
    assert table["a"].tolist() == ["NA", "N"] and table["b"].isna().tolist() == [True, False]


def test_nulls_are_refused_where_none_are_declared(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("a,b\n,1\n")
    column = Column(name="a", kind="categorical", dtype="str", categories=("x",))
    with pytest.raises(InputError, match="Column 'a' has a null"):
        read_table(tmp_path / "t.csv", Schema([column, AB["b"]]))


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_unseen_categories_are_never_nulls(suffix: str, tmp_path: Path) -> None:
    """pandas turns what a CategoricalDtype lacks into nulls, silently; we name it."""
    file = tmp_path / f"t.{suffix}"
    write_table(pd.DataFrame({"c": ["lo", "mid"]}), file)
    column: dict[str, Any] = {"name": "c", "dtype": "category", "categories": ("lo", "hi"), **ONE}
    with pytest.raises(InputError, match="Column 'c': 'mid' is outside its declared categories"):
        read_table(file, Schema([Column(**column)]))
    if suffix == "csv":
        table = read_table(file, Schema([Column(**column, other="hi")]))
        assert table["c"].tolist() == ["lo", "hi"]


def test_parquet_comes_in_the_declared_dtypes(tmp_path: Path) -> None:
    file = tmp_path / "t.parquet"
    pq.write_table(pa.table({"b": [1.0, None], "a": ["x", None]}), file)
    table = read_table(file, AB)
    assert table.dtypes.astype(str).tolist() == ["str", "Int64"] and table["b"][0] == 1
    for bad, part in ((1.5, "1.5 is not a whole number"), (np.inf, "inf is not a whole number")):
        pq.write_table(pa.table({"b": [bad], "a": ["x"]}), file)
        with pytest.raises(InputError, match=f"Column 'b': {part}"):
            read_table(file, AB)
    pq.write_table(pa.table({"b": ["one"], "a": ["x"]}), file)
    with pytest.raises(InputError, match="Column 'b': 'one' is not a whole number"):
        read_table(file, AB)


@pytest.mark.parametrize("content", [b"", b"PAR1", b"a,b\nx,1\n", b"PAR1" + b"\x00" * 50 + b"PAR1"])
def test_damaged_parquet_files_are_refused(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "t.parquet").write_bytes(content)
    with pytest.raises(InputError) as caught:
        read_table(tmp_path / "t.parquet", AB)
    assert "t.parquet" in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["t.doc", "t", "t.csv.zip", ".csv"])
def test_other_suffixes_are_refused(name: str, tmp_path: Path) -> None:
    for work in (lambda p: read_table(p, AB), read_any, lambda p: write_table(a_table(), p)):
        with pytest.raises(InputError, match=r"tables are \.csv, \.tsv"):
            work(tmp_path / name)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_missing_files_and_folders_are_refused(suffix: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"Cannot read .*No such file"):
        read_table(tmp_path / f"none.{suffix}", AB)
    (tmp_path / f"folder.{suffix}").mkdir()
    with pytest.raises(InputError, match=r"holds no \.parquet file; name the folder"):
        read_table(tmp_path / f"folder.{suffix}", AB)
    (tmp_path / "file").write_text("")
    # Tests may run as root, whom no mode stops; a parent that is a file or missing stops anyone.
    for place in (tmp_path / "none", tmp_path / "file"):
        with pytest.raises(InputError, match="Cannot write"):
            write_table(a_table(), place / f"t.{suffix}")
    with pytest.raises(InputError, match="it is a folder"):
        write_table(a_table(), tmp_path / f"folder.{suffix}")


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_a_failed_write_leaves_the_old_file(
    suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / f"t.{suffix}"
    write_table(a_table(), file)
    before = file.read_bytes()

    def half(*_: Any, **options: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(pd.DataFrame, "to_csv", half)
    monkeypatch.setattr(pq, "write_table", half)
    with pytest.raises(InputError, match=r"Cannot write .*No space left on device\."):
        write_table(a_table(), file, overwrite=True)
    assert file.read_bytes() == before and list(tmp_path.iterdir()) == [file]


@pytest.mark.parametrize(
    "text", ["=1+1", "+x", "-x", "@sum", "\tx", "=", "-5", "+1e3", "- ", "x=1"]
)
def test_formulas(text: str, tmp_path: Path) -> None:
    runs = text not in ("=", "-5", "+1e3", "x=1")
    assert is_formula(text) == runs
    table = pd.DataFrame({"a": pd.Series([text, None]).astype("category"), "b": [text, "y"]})
    file = tmp_path / "t.csv"
    if runs:
        with pytest.raises(InputError, match="would run as a formula") as caught:
            write_table(table, file)
        assert "Column 'a'" in str(caught.value) and not file.exists()
        with pytest.raises(InputError, match="would run as a formula"):
            write_table(pd.DataFrame({text: [1]}), file)
        write_table(table, file, formulas="keep")
    write_table(table, tmp_path / "t.parquet")  # Parquet is no spreadsheet


def test_other_dataframes_come_in() -> None:
    table = to_pandas(pa.table({"a": ["x", None], "b": [1, 2]}))
    assert isinstance(table, pd.DataFrame) and table["b"].tolist() == [1, 2]
    assert table["a"].isna().tolist() == [False, True]
    same = a_table()
    assert to_pandas(same) is same
    for wrong in ({"a": [1]}, [1], "t.csv", None, np.zeros((2, 2)), pd.Series([1])):
        with pytest.raises(InputError, match="must be a DataFrame, got") as caught:
            to_pandas(wrong)
        assert "\n" not in str(caught.value)


def test_linked_tables_are_files_or_folders_of_parquet_files(tmp_path: Path) -> None:
    tables = linked_tables.tables(12)
    for name, table in tables.items():
        if name == "events":
            table.to_csv(tmp_path / "events.csv", index=False)
            continue
        (tmp_path / name).mkdir()
        for number, rows in enumerate((table[:3], table[3:])):
            rows.to_parquet(tmp_path / name / f"part-{number}.parquet", index=False)
        (tmp_path / name / "_SUCCESS").touch()
    (tmp_path / "notes").mkdir()  # no table
    read = read_linked(tmp_path, linked_tables.schema())
    drafted = read_folder(tmp_path, ())
    assert {*drafted} == {*tables}
    for name, table in tables.items():
        for found in (read[name], drafted[name]):
            assert (
                found[[*table.columns]].astype(str).to_numpy().tolist()
                == table.astype(str).to_numpy().tolist()
            )
    (tmp_path / "stays.csv").touch()
    with pytest.raises(InputError, match=r"has stays, stays.csv for table 'stays'; expected one"):
        read_linked(tmp_path, linked_tables.schema())
