"""R22 of drafts: of the rows of a file no type, no message and no kind of sample follows, but by the noisy sums.

A table is read and drafted, and the same is replayed for a table with one row more: a row of nulls, of fractions, of long
texts, of large numbers or of values of another form, in every column.
"""

import datetime as dt
import math
import warnings
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import torch
from pyarrow import csv as arrow_csv
from pyarrow import parquet
from record_replay import replay
from typer.testing import CliRunner

from tabsynth import InputError, MargNet, Schema, draft_private, read_table
from tabsynth.auditing.replay import Note, ReplayResult, replay_run
from tabsynth.cli.commands import app
from tabsynth.drafting import draft_schema
from tabsynth.drafting.private_schema import INFERRED, draft_on_ledger
from tabsynth.errors import DraftWarning
from tabsynth.privacy.accounting.accountants import gaussian_mu
from tabsynth.privacy.ledger.ledger import Ledger
from tabsynth.schema.conforming import conform
from tabsynth.synthesizers.margnet.config import MargNetConfig
from tabsynth.tables.files import read_any
from tabsynth.tables.frames import DECLARED as DECLARED_TYPES
from tabsynth.tables.frames import to_pandas

torch.set_num_threads(1)
ROWS = 150
Cells = dict[str, list[Any]]
Reader = Callable[[Path], Any]
ZONE = dt.UTC
RNG = np.random.default_rng(0)


def few(*values: Any) -> list[Any]:
    return [values[i] for i in RNG.integers(0, len(values), ROWS)]


def day(number: int) -> dt.date:
    return dt.date(2018, 1, 1) + dt.timedelta(days=number)


def instant(number: int) -> dt.datetime:
    return dt.datetime(2018, 1, 1, 3) + dt.timedelta(hours=5 * number)


NUMBERS, DAYS = RNG.integers(0, 90, ROWS).tolist(), RNG.integers(0, 400, ROWS).tolist()
# By column: its Arrow type, its cells, and the cells of further rows: a null first, then odd ones.
ARROW: dict[str, tuple[pa.DataType, list[Any], list[Any]]] = {
    "whole": (pa.int64(), NUMBERS, [None, 2**62, -1]),
    "narrow": (pa.int32(), NUMBERS, [None, 2**31 - 1, -1]),
    "byte": (pa.int8(), NUMBERS, [None, 127, -128]),
    "code": (pa.int64(), few(1, 2), [None, 3, 2**53 + 1]),
    "real": (pa.float64(), [n / 4 for n in NUMBERS], [None, 1e300, 0.123456789]),
    "whole real": (pa.float64(), [float(n) for n in NUMBERS], [None, 0.5, float("nan")]),
    "short real": (pa.float32(), [n / 4 for n in NUMBERS], [None, 0.1, 1e30]),
    "truth": (pa.bool_(), few(True, False), [None, True, False]),
    "text": (pa.string(), few("a", "b"), [None, "long " * 900, "7"]),
    "wide text": (pa.large_string(), few("a", "b"), [None, "True", "1.5"]),
    "listed": (pa.dictionary(pa.int8(), pa.string()), few("a", "b"), [None, "new", "é"]),
    "numbers": (pa.string(), few("1", "2", "30"), [None, "0.5", "seven"]),
    "day": (pa.date32(), [day(n) for n in DAYS], [None, day(-(10**5)), day(10**6)]),
    "instant": (pa.timestamp("us"), [instant(n) for n in DAYS], [None, instant(10**5), instant(0)]),
    "second": (pa.timestamp("s"), [instant(n) for n in DAYS], [None, dt.datetime(1, 1, 1), instant(0)]),
    "zoned": (
        pa.timestamp("ms", "UTC"),
        [instant(n).replace(tzinfo=ZONE) for n in DAYS],
        [None, dt.datetime(9999, 1, 1, tzinfo=ZONE), instant(0).replace(tzinfo=ZONE)],
    ),
    "clock": (pa.time64("us"), [dt.time(n % 24, 30) for n in DAYS], [None, dt.time(1, 2, 3, 4), dt.time()]),
    "length": (pa.duration("s"), [dt.timedelta(hours=n) for n in NUMBERS], [None, dt.timedelta(days=9**6), dt.timedelta()]),
    "amount": (pa.decimal128(20, 2), [Decimal(n) / 4 for n in NUMBERS], [None, Decimal("0.01"), Decimal(10) ** 17]),
}  # fmt: skip
ODD = ("nulls", "first", "second")


def arrow_table(more: int | None, names: list[str]) -> pa.Table:
    """The table, or that with one of the further rows of every column."""
    arrays = {}
    for name in names:
        kind, cells, further = ARROW[name]
        cells = cells if more is None else [*cells, further[more]]
        if pa.types.is_dictionary(kind):
            arrays[name] = pa.array(cells, kind.value_type).dictionary_encode().cast(kind)
        else:
            arrays[name] = pa.array(cells, kind)
    return pa.table(arrays)


def write_arrow(path: Path, more: int | None) -> None:
    parquet.write_table(arrow_table(more, [*ARROW]), path)


# Texts of cells, as they stand in a file that declares no types.
TEXTS: dict[str, tuple[list[str], list[str]]] = {
    "whole": ([str(n) for n in NUMBERS], ["", "12.5", "1e300"]),
    "code": (few("1", "2"), ["", "3", "-8"]),
    "number": (few("1234567", "7654321"), ["", "1234568", "12.5"]),
    "real": ([str(n / 4) for n in NUMBERS], ["", "0.123456789", "9" * 30]),
    "truth": (few("True", "False"), ["", "False", "True"]),
    "text": (few("a", "b"), ["", "long " * 900, "7"]),
    "legacy": (few("c", "d"), ["", "é", "€"]),  # in bytes that are not UTF-8
    "same": (["x"] * ROWS, ["x", "x", "x"]),  # rows without any cell are no rows of a workbook
    "day": ([str(day(n)) for n in DAYS], ["", "9000-12-31", "2019-01-01"]),
    "instant": ([str(instant(n)) for n in DAYS], ["", "2019-01-01 00:00:00.000000001", "1700-01-01 00:00:00"]),
}  # fmt: skip


def write_texts(path: Path, more: int | None) -> None:
    """Rows of text; in workbooks cells of the types that Python gives them."""
    cells = {n: c if more is None else [*c, f[more]] for n, (c, f) in TEXTS.items()}
    if path.suffix == ".xlsx":
        openpyxl = pytest.importorskip("openpyxl", reason="openpyxl is not installed")
        book = openpyxl.Workbook()
        for row in [[*cells], *zip(*cells.values(), strict=True)]:
            book.active.append([_typed(cell) for cell in row])
        book.save(path)
        return
    sep, encoding = ("\t", "cp1252") if ".tsv" in path.name else (",", None)
    pd.DataFrame(cells).to_csv(path, index=False, sep=sep, encoding=encoding)


def _typed(text: str) -> Any:
    for kind in (int, float, dt.datetime.fromisoformat):
        try:
            return kind(text)
        except ValueError:
            continue
    return {"True": True, "False": False, "": None}.get(text, text)


LABELLED: dict[str, tuple[str, str, list[Any], list[Any]]] = {
    "whole": ("F8.0", "%8.0g", NUMBERS, [None, 2**31 - 200, -1]),
    "real": ("F8.2", "%9.0g", [n / 4 for n in NUMBERS], [None, 1e300, 0.1]),
    "text": ("A60", "%60s", few("a", "b"), ["", "long " * 10, "7"]),
    "day": ("DATE11", "%td", [day(n) for n in DAYS], [None, dt.date(9000, 1, 1), day(0)]),
    "instant": ("DATETIME20", "%tc", [instant(n) for n in DAYS], [None, dt.datetime(1600, 1, 1), instant(0)]),
    "sortable": ("YMDHMS16", "%tC", [instant(n) for n in DAYS], [None, instant(10**5), instant(0)]),
    "clock": ("TIME8", "%tcHH:MM:SS", [dt.time(n % 24, 30) for n in DAYS], [None, dt.time(1, 2, 3, 5000), dt.time()]),
}  # fmt: skip


def write_labelled(path: Path, more: int | None) -> None:
    pyreadstat = pytest.importorskip("pyreadstat", reason="pyreadstat is not installed")
    columns, formats = {}, {}
    for name, (spss, stata, cells, further) in LABELLED.items():
        values = cells if more is None else [*cells, further[more]]
        dtype = {"whole": "Int32", "real": "float64", "text": "str"}.get(name, object)
        if name in ("instant", "sortable"):
            dtype = "datetime64[us]"
        columns[name] = pd.Series(values, dtype=dtype)
        formats[name] = spss if path.suffix == ".sav" else stata
    write = pyreadstat.write_sav if path.suffix == ".sav" else pyreadstat.write_dta
    write(pd.DataFrame(columns), path, variable_format=formats)


FILES: dict[str, Callable[[Path, int | None], None]] = {
    "t.parquet": write_arrow,
    **dict.fromkeys(("t.csv", "t.tsv.gz", "t.xlsx"), write_texts),
    **dict.fromkeys(("t.sav", "t.dta"), write_labelled),
}


def polars_of(path: Path) -> Any:
    polars = pytest.importorskip("polars", reason="polars is not installed")
    return polars.read_csv(path, try_parse_dates=True, infer_schema_length=None)


INFERRING: dict[str, Reader] = {
    "pandas": pd.read_csv,
    "pandas, times": lambda path: _with_times(pd.read_csv(path)),
    "pandas, nullable": lambda path: pd.read_csv(path, dtype_backend="numpy_nullable"),
    "pandas, Arrow-backed": lambda path: pd.read_csv(path, dtype_backend="pyarrow"),
    "pandas, converted": lambda path: pd.read_csv(path).convert_dtypes(),
    "pandas, categories": lambda path: pd.read_csv(path).astype({"number": "category", "text": "category"}),
    "pandas, objects": lambda path: pd.read_csv(path).astype(dict.fromkeys(["code", "number"], object)),
    "pandas, small": lambda path: pd.read_csv(path).apply(_small),
    "pyarrow": arrow_csv.read_csv,
    "polars": polars_of,
}  # fmt: skip


def _with_times(table: pd.DataFrame) -> pd.DataFrame:
    return table.assign(instant=pd.to_datetime(table["instant"], format="ISO8601"))


def _small(values: pd.Series) -> pd.Series:
    is_number = pd.api.types.is_numeric_dtype(values) and values.dtype != bool
    return pd.to_numeric(values, downcast="integer") if is_number else values


def drafted(read: Reader, table: Path, neighbour: Path, epsilon: float = 20.0) -> ReplayResult:
    """A replay of reading and drafting, with all that is said."""

    def run(path: Path, note: Note) -> None:
        ledger = Ledger(epsilon, 1e-5)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            rows = read(path)
            schema = draft_on_ledger(rows, gaussian_mu(epsilon, 0.9e-5), ledger, random_state=3)
        note("messages", [str(item.message) for item in caught])
        note("schema", schema.to_dict())
        note("ledger", ledger.to_list())

    return replay_run(run, table, neighbour)


def pair_of(name: str, write: Callable[..., None], odd: str, folder: Path) -> tuple[Path, Path]:
    """The files of two neighbours, of one name."""
    paths = []
    for part, more in (("table", None), ("neighbour", ODD.index(odd))):
        (folder / part).mkdir()
        paths.append(folder / part / name)
        write(paths[-1], more)
    return paths[0], paths[1]


@pytest.mark.slow
@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize("name", FILES)
def test_one_row_shows_in_noisy_sums_alone(name: str, odd: str, tmp_path: Path) -> None:
    table, neighbour = pair_of(name, FILES[name], odd, tmp_path)
    frames = [read_table(path) for path in (table, neighbour)]
    pd.testing.assert_series_equal(frames[0].dtypes, frames[1].dtypes)
    assert frames[0].attrs == frames[1].attrs and len(frames[1]) == ROWS + 1
    for one, other in ((table, neighbour), (neighbour, table)):
        result = drafted(read_table, one, other)
        assert result.passes, result.first_difference
        assert 0.9 < result.worst_move <= 1 + 1e-9 and result.compared > 100


@pytest.mark.parametrize("rows", [0, 1, 2])
@pytest.mark.parametrize("name", FILES)
def test_a_column_without_a_value_has_the_dtype_of_the_file(
    name: str, rows: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether there is a row, and whether any has a value, shows in no dtype."""
    write = FILES[name]
    write(tmp_path / name, None)
    dtypes = read_table(tmp_path / name).dtypes
    for column, (kind, _, further) in [*ARROW.items()]:
        monkeypatch.setitem(ARROW, column, (kind, [None] * rows, further))
    for column, (cells, further) in [*TEXTS.items()]:
        empty = cells[:rows] if column == "same" else [""] * rows
        monkeypatch.setitem(TEXTS, column, (empty, further))
    for column, (*formats, _, further) in [*LABELLED.items()]:
        if column in ("day", "clock"):  # of which pyreadstat writes texts where all are missing
            monkeypatch.delitem(LABELLED, column)
        else:
            monkeypatch.setitem(LABELLED, column, (*formats, [further[0]] * rows, further))
    write(tmp_path / name, None)
    empty = read_table(tmp_path / name)
    assert len(empty) == rows
    pd.testing.assert_series_equal(empty.dtypes, dtypes[empty.columns])


@pytest.mark.slow(cases=10)
@pytest.mark.parametrize("form", INFERRING)
@pytest.mark.parametrize("odd", ODD)
def test_inferred_dtypes_show_in_nothing(form: str, odd: str, tmp_path: Path) -> None:
    """Where all columns stay numeric, text or time, whatever else the program inferred."""
    table, neighbour = pair_of("t.csv", write_texts, odd, tmp_path)
    for one, other in ((table, neighbour), (neighbour, table)):
        result = drafted(INFERRING[form], one, other)
        assert result.passes, result.first_difference
        assert 0.9 < result.worst_move <= 1 + 1e-9 and result.compared > 100


def test_the_neighbours_have_other_dtypes(tmp_path: Path) -> None:
    """Else the replays of inferred dtypes would test nothing."""
    pairs = {}
    for odd in ODD:
        (tmp_path / odd).mkdir()
        pairs[odd] = pair_of("t.csv", write_texts, odd, tmp_path / odd)
    for form, read in INFERRING.items():
        both = [[to_pandas(read(path)).dtypes.map(str) for path in pairs[o]] for o in ODD]
        assert any((one != other).any() for one, other in both), form


def beside(cells: Any, **columns: Any) -> pd.DataFrame:
    """A DataFrame of cells beside a column of texts."""
    return pd.DataFrame(
        {"x": cells, **columns, "o": ["a", "b"] * (len(cells) // 2) + ["a"] * (len(cells) % 2)}
    )


def in_library(library: Any, cells: list[Any]) -> Any:
    texts = beside(cells)["o"].tolist()
    if library is pa:
        return pa.table({"x": pa.array(cells), "o": texts})
    polars = pytest.importorskip("polars", reason="polars is not installed")
    return polars.DataFrame({"x": cells, "o": texts}, strict=False)


LARGE_DECIMALS = [Decimal(10**6 + 7 * n) for n in NUMBERS]
# By what changes: how cells become a column, cells, and one more, of which pandas, pyarrow or polars infer another type.
RETYPED: dict[str, tuple[Callable[[list[Any]], Any], list[Any], Any]] = {
    "interval, null": (lambda cells: beside(pd.cut(pd.Series(cells), [0, 18, 40, 90])), [n + 1 for n in NUMBERS], None),
    "interval as object": (
        lambda cells: beside(pd.Series(list(pd.cut(pd.Series(cells), [0, 18, 40, 90])), dtype=object)),
        [n + 1 for n in NUMBERS],
        None,
    ),
    "interval of floats": (lambda cells: beside(pd.cut(pd.Series(cells), [0, 9, 90])), [n + 1 for n in NUMBERS], 0.5),
    "interval column": (
        lambda cells: beside(pd.arrays.IntervalArray.from_arrays(pd.Series(cells), pd.Series(cells) + 1)), NUMBERS, 0.5,
    ),
    "dates": (lambda cells: beside(pd.Series(cells, dtype="category")), few(day(1), day(2)), None),
    "moments": (lambda cells: beside(pd.Series(cells, dtype="category")), few(instant(1), instant(2)), pd.Timestamp(1)),
    "lengths": (
        lambda cells: beside(pd.Series(cells, dtype="category")),
        few(dt.timedelta(1), dt.timedelta(2)),
        pd.Timedelta("1ns"),
    ),
    "truth values": (lambda cells: beside(pd.Series(cells, dtype="category")), few(True, False), None),
    "tuples": (lambda cells: beside(pd.Series(cells, dtype="category")), few((1, 2), (3, 4)), (1, 0.5)),
    "whole categories": (lambda cells: beside(pd.Series(cells).astype("category")), few(1, 2**52 + 1), None),
    "short categories": (lambda cells: beside(_short(cells).astype("category")), few(0.1, 0.25), 1e300),
    "short floats": (lambda cells: beside(_short(cells)), [n / 10 for n in NUMBERS], 1e300),
    "short nullable floats": (lambda cells: beside(_short(cells).convert_dtypes()), [n / 10 for n in NUMBERS], 1e300),
    "short objects": (lambda cells: beside(pd.Series(cells).astype(object)), NUMBERS, None),
    "sparse": (lambda cells: beside(pd.Series(pd.arrays.SparseArray(cells, fill_value=0))), NUMBERS, 0.5),
    **{
        f"{name}, {module}": (lambda cells, m=module: in_library(pa if m == "pyarrow" else None, cells), cells, more)
        for module in ("pyarrow", "polars")
        for name, cells, more in (
            ("decimals of whole numbers", LARGE_DECIMALS, Decimal("0.5")),
            ("decimals", [Decimal(n) / 4 for n in NUMBERS], Decimal("0.001")),
            ("lists", few([1, 2], [3, 4]), [0.5]),
            ("structs", few({"a": 1}, {"a": 2}), {"a": 1, "b": 2}),
        )
    },
}  # fmt: skip


def _short(cells: list[Any]) -> pd.Series:
    return pd.to_numeric(pd.Series(cells), downcast="float")


@pytest.mark.parametrize("case", RETYPED)
def test_the_text_of_a_cell_follows_from_that_cell(case: str) -> None:
    """Whatever type its column has by another row, of which categories, formats and reasons say nothing."""
    made, cells, more = RETYPED[case]
    tables: list[Any] = [made(cells), made([*cells, more])]
    for one, other in (tables, tables[::-1]):
        result = drafted(lambda table: table, one, other)
        assert result.passes, result.first_difference
        assert result.worst_move <= 1 + 1e-9


RANKS = pd.CategoricalDtype(["low", "mid", "high", "n/a", "never"], ordered=True)


@pytest.mark.parametrize("more", ["never", "n/a", None])
@pytest.mark.parametrize("in_order_of", ["a person", "pandas"])
def test_what_ordered_categories_say_is_of_no_row(in_order_of: str, more: str | None) -> None:
    """Neither which categories rows have, nor a list that pandas took from the rows."""
    cells = few("low", "high", "low", "mid")
    tables = []
    for column in (cells, [*cells, more]):
        values = pd.Series(column, dtype="category").cat.as_ordered()
        tables.append(beside(values.astype(RANKS) if in_order_of == "a person" else values))
    assert (tables[0]["x"].dtype == tables[1]["x"].dtype) == (
        more is None or in_order_of != "pandas"
    )
    for one, other in (tables, tables[::-1]):
        result = drafted(lambda table: table, one, other)
        assert result.passes, result.first_difference
        assert 0.9 < result.worst_move <= 1 + 1e-9


def test_a_list_is_no_category() -> None:
    for library in (pa, None):
        for case in ("lists", "structs"):
            module = "pyarrow" if library is pa else "polars"
            with pytest.warns(UserWarning, match="read_table"):
                schema = draft_private(
                    RETYPED[f"{case}, {module}"][0](RETYPED[f"{case}, {module}"][1]), 20.0
                )
            assert [item["reason"] for item in schema.left_out] == [
                "its values are lists or other objects"
            ]


@pytest.mark.parametrize("null", [None, 30])
def test_intervals_have_one_text_in_drafts_and_fits(null: int | None) -> None:
    table = beside(pd.cut(pd.Series([*[n + 1 for n in NUMBERS], null]), [0, 18, 40, 90]))
    with pytest.warns(UserWarning, match="read_table"):
        schema = draft_private(table, 60.0, random_state=0)
    assert {"(0, 18]", "(18, 40]", "(40, 90]"} <= set(schema["x"].categories)
    assert set(conform(table, schema)["x"][:-1]) == {"(0, 18]", "(18, 40]", "(40, 90]"}


@pytest.mark.slow(cases=0)
@pytest.mark.parametrize(
    ("form", "odd"),
    [("t.parquet", "nulls"), ("t.dta", "nulls"), ("pandas", "nulls"), ("pyarrow", "first")],
)
def test_fits_that_draft(form: str, odd: str, tmp_path: Path) -> None:
    """The model, its file, its certificate and its samples, which are DataFrames of the library of the table."""
    name = form if form in FILES else "t.csv"
    paths = pair_of(name, FILES[name], odd, tmp_path)
    tables = [INFERRING.get(form, read_table)(path) for path in paths]
    config = MargNetConfig(components=20, latent_dim=5, hidden=(8,), steps=5)
    model = MargNet(epsilon=60.0, device="cpu", config=config)
    for one, other in (tables, tables[::-1]):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = replay(model, one, other)
        assert result.passes, result.first_difference
        assert 0.9 < result.worst_move <= 1 + 1e-9


DECLARED = {
    "whole": "int64",
    "narrow": "int32",
    "byte": "int8",
    "code": "int64",
    "real": "float64",
    "whole real": "float64",
    "short real": "float32",
    "truth": "bool",
    "text": "str",
    "wide text": "str",
    "listed": "str",
    "numbers": "int64",
    "day": "str",
    "instant": "datetime64[us]",
    "second": "datetime64[s]",
    "zoned": "datetime64[ms, UTC]",
    "clock": "str",
    "length": "timedelta64[s]",
    "amount": "float64",
}
NULLABLE = {"int64": "Int64", "int32": "Int32", "int8": "Int8", "bool": "boolean"}


def silently_drafted(table: Any, epsilon: float = 500.0) -> Schema:
    """The draft of a table, which warns of nothing that pandas may have inferred."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", DraftWarning)
        return draft_private(table, epsilon)


@pytest.mark.parametrize("nulls", [False, True])
def test_drafts_take_the_types_of_the_file(nulls: bool, tmp_path: Path) -> None:
    """And nullable dtypes where nulls are released."""
    table = arrow_table(None, [*ARROW])
    if nulls:
        columns = [pa.nulls(60, field.type) for field in table.schema]
        table = pa.concat_tables([table, pa.table(columns, schema=table.schema)])
    parquet.write_table(table, tmp_path / "t.parquet")
    schema = silently_drafted(read_table(tmp_path / "t.parquet"), math.inf)
    for name, dtype in {**DECLARED, "second": "datetime64[ms]"}.items():  # Parquet has no seconds
        wanted = NULLABLE.get(dtype, dtype) if nulls else dtype
        assert (schema[name].dtype, schema[name].nulls) == (wanted, nulls), name
    assert schema.released is not None
    assert schema.released["public"][2:] == ["types that the file declares"]


def test_edits_of_rows_declare_no_types(tmp_path: Path) -> None:
    """The declaration goes with the table; pandas' dtypes of edited columns do not count."""
    names = ["whole", "narrow", "whole real", "truth", "text", "instant", "real"]
    parquet.write_table(arrow_table(None, names), tmp_path / "t.parquet")
    table = read_table(tmp_path / "t.parquet")
    wanted = [column.dtype for column in silently_drafted(table).columns]
    for edited in (
        table.convert_dtypes(),
        table.astype({"whole": "float64", "narrow": "int64", "whole real": "int64"}),
        table.astype(dict.fromkeys(("truth", "text"), object)),
        table.sample(frac=1, random_state=1).reset_index(drop=True),
        table.assign(instant=table["instant"].astype("datetime64[ns]")),
        pd.concat([table[:70], table[70:]], ignore_index=True),
    ):
        assert [column.dtype for column in silently_drafted(edited).columns] == wanted
    halves = silently_drafted(table.assign(narrow=table["narrow"] / 2))  # whole numbers no more
    assert halves["narrow"].dtype == "float64"
    with pytest.warns(UserWarning, match="read_table"):
        other = draft_private(table.assign(narrow=table["text"], real=table["narrow"]), 500.0)
    assert other["narrow"].dtype == "str" and other["real"].dtype == "float64"
    assert other.released is not None
    assert other.released["public"][2:] == [
        "types that the file declares",
        "which columns are numeric, text or time",
    ]


@pytest.mark.parametrize("attribute", ["{", "[1]", '{"a": 3}', 7, None])
def test_damaged_declarations_are_none(attribute: Any) -> None:
    table = pd.DataFrame({"a": [1.0, 2.0] * 50})
    table.attrs[DECLARED_TYPES] = attribute
    with pytest.warns(UserWarning, match="read_table"):
        assert draft_private(table, 500.0)["a"].dtype == "int64"


def test_truth_values_are_drafted_alike_in_any_dtype() -> None:
    truths = few(True, False)
    columns: list[pd.Series] = [
        pd.Series(truths),
        pd.Series(truths, dtype="boolean"),
        pd.Series(truths, dtype=object),
        pd.Series(truths, dtype="category"),
        pd.Series(truths).map(str),
    ]
    drafts = []
    for column in columns:
        for values in (column, pd.concat([column, pd.Series([None], dtype=column.dtype)])[:ROWS]):
            with pytest.warns(UserWarning, match="numeric, text or time"):
                drafts.append(draft_private(values.to_frame("a"), 20.0, random_state=0))
    assert all(draft == drafts[0] for draft in drafts) and drafts[0]["a"].dtype == "bool"


def test_a_number_beside_texts_has_one_text() -> None:
    """pandas reads a part of a long file as whole numbers, or as floats where a value is missing there."""
    cells = few(1, 2, "a", "b")
    floats = [float(cell) if isinstance(cell, int) else cell for cell in cells]
    tables = [pd.DataFrame({"a": pd.Series(part, dtype=object)}) for part in (cells, floats)]
    drafts = [draft_private(table, 500.0, random_state=0) for table in tables]
    assert drafts[0] == drafts[1] and drafts[0]["a"].categories == ("1", "2", "a", "b")
    for table in tables:
        assert conform(table, drafts[0])["a"].tolist() == [str(cell) for cell in cells]


@pytest.mark.parametrize("work", ["draft", "fit"])
def test_one_warning_says_what_is_public(work: str) -> None:
    table = pd.DataFrame({"a": NUMBERS, "b": few("x", "y"), "c": [n / 4 for n in NUMBERS]})
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        if work == "draft":
            draft_private(table, 20.0)
        else:
            MargNet(epsilon=60.0, device="cpu", config=MargNetConfig(steps=2)).fit(table)
    assert [str(item.message) for item in caught if item.category is UserWarning] == [INFERRED]


@pytest.mark.slow
def test_the_command_line_infers_nothing(tmp_path: Path) -> None:
    for name in ("t.csv", "t.parquet"):
        FILES[name](tmp_path / name, None)
        with warnings.catch_warnings():
            warnings.simplefilter("error", UserWarning)
            out = tmp_path / f"{name}.json"
            invoked = CliRunner().invoke(
                app, ["schema", "draft", str(tmp_path / name), "--epsilon", "500", "-o", str(out)]
            )
        assert invoked.exit_code == 0, invoked.output
        in_python = silently_drafted(read_table(tmp_path / name))
        assert [c.dtype for c in Schema.load(out).columns] == [c.dtype for c in in_python.columns]


def test_a_table_without_a_schema_is_read_as_the_file_has_it(tmp_path: Path) -> None:
    for name, write in FILES.items():
        write(tmp_path / name, None)
        table = read_table(tmp_path / name)
        pd.testing.assert_frame_equal(table, read_any(tmp_path / name))
    with pytest.raises(InputError, match="decimal= needs a schema"):
        read_table(tmp_path / "t.csv", decimal=",")


def test_review_drafts_declare_dtypes_of_what_is_there(tmp_path: Path) -> None:
    """A schema to review takes numpy's dtypes where no value is missing."""
    for more, wanted in ((None, ["int64", "bool"]), (0, ["Int64", "boolean"])):
        parquet.write_table(arrow_table(more, ["code", "truth"]), tmp_path / "t.parquet")
        schema = draft_schema(read_table(tmp_path / "t.parquet"))
        assert [column.dtype for column in schema.columns] == wanted
