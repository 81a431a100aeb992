"""R22: what a row becomes depends on that row alone, through every reader and file format."""

from collections import Counter
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from record_replay import KINDS, neighbours, replay
from replay_readers import COUNTED, FORMS, LARGE, READ_SCHEMA, read_table_of

from tabsynth import InputError, MargNet, Schema, read_table
from tabsynth.encoding import TableEncoder
from tabsynth.privacy.noise.counts import by_value, count_rows
from tabsynth.schema import Column
from tabsynth.synthesizers.estimator import as_counter
from tabsynth.synthesizers.margnet.config import MargNetConfig
from tabsynth.tables import RowCounter
from tabsynth.tables.frames import to_pandas
from tabsynth.tables.parquet_counter import ParquetCounter

torch.set_num_threads(1)
TABLE, ENCODER = read_table_of(40, 0), TableEncoder(READ_SCHEMA)
PAIRS = [pair for pair in neighbours(TABLE, READ_SCHEMA, seed=3) if pair.change == "added"]
COLUMNS = [(0,), (1,), (2,), (3,), (4,), (5,), (6,), (0, 3), (1, 5, 6)]


@pytest.fixture(params=FORMS)
def form(request: pytest.FixtureRequest) -> str:
    libraries = {
        "polars": "polars",
        "polars, lazy": "polars",
        "DuckDB": "duckdb",
        "Excel": "openpyxl",
    }
    for name, library in libraries.items():
        if request.param == name:
            pytest.importorskip(library, reason=f"{library} is not installed")
    return request.param


def in_form(form: str, table: pd.DataFrame, folder: Path) -> Any:
    folder.mkdir()
    return FORMS[form](table, READ_SCHEMA, folder)


def rows_of(read: Any) -> Counter[Any]:
    """The records as category codes; of a counter, what it answers about sets of columns."""
    read = as_counter(read)
    if isinstance(read, RowCounter):
        counts = read.count_all(READ_SCHEMA, COLUMNS)
        return Counter(
            {
                (c, cell): int(result[cell])
                for c, result in zip(COLUMNS, counts, strict=True)
                for cell in zip(*np.nonzero(result), strict=True)
            }
        )
    return Counter(map(tuple, ENCODER.to_index(to_pandas(read))))


def test_all_kinds_of_record_are_there() -> None:
    assert [pair.kind for pair in PAIRS] == list(KINDS)
    (null,) = (pair for pair in PAIRS if pair.kind == "null")
    assert not null.table.isna().any(axis=None) and null.neighbour.isna().any().all()


@pytest.mark.slow
@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.kind)
def test_one_record_changes_no_other(form: str, pair: Any, tmp_path: Path) -> None:
    """All others come in as the very values that they are, and the one as it does alone."""
    one, more = (
        rows_of(in_form(form, table, tmp_path / name))
        for name, table in (("table", pair.table), ("neighbour", pair.neighbour))
    )
    extra = 1 if form not in COUNTED else len(COLUMNS)
    assert more.total() == one.total() + extra
    assert (more - one).total() == extra and not one - more
    index = ENCODER.to_index(pair.table)
    if form in COUNTED:
        for columns in COLUMNS:
            exact = count_rows(index, columns, by_value(READ_SCHEMA.sizes))
            assert {cell: n for (c, cell), n in one.items() if c == columns} == {
                cell: exact[cell] for cell in zip(*np.nonzero(exact), strict=True)
            }
    else:
        assert one == Counter(map(tuple, index))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["null", "extreme"])
def test_replays_through_every_reader(form: str, kind: str, tmp_path: Path) -> None:
    """R1 from the file on: no mechanism's input moves by more than its sensitivity, and nothing else does."""
    (pair,) = (pair for pair in PAIRS if pair.kind == kind)
    config = MargNetConfig(components=20, latent_dim=5, hidden=(8,), steps=5)
    model = MargNet(READ_SCHEMA, epsilon=60.0, device="cpu", config=config)
    tables = [
        in_form(form, table, tmp_path / name)
        for name, table in (("table", pair.table), ("neighbour", pair.neighbour))
    ]
    result = replay(model, *tables)
    assert result.passes, result.first_difference
    assert 0.9 < result.worst_move <= 1 + 1e-9


@pytest.mark.slow
def test_an_empty_table_through_every_reader(form: str, tmp_path: Path) -> None:
    """R25: it is read and fitted as its neighbour of one row."""
    config = MargNetConfig(components=20, latent_dim=5, hidden=(8,), steps=5)
    model = MargNet(READ_SCHEMA, epsilon=60.0, device="cpu", config=config)
    tables = [in_form(form, TABLE[:rows], tmp_path / str(rows)) for rows in (0, 1)]
    for one, other in (tables, tables[::-1]):
        result = replay(model, one, other)
        assert result.passes, result.first_difference
        assert 0.9 < result.worst_move <= 1 + 1e-9


def test_files_of_other_types_change_no_row(tmp_path: Path) -> None:
    """A file with floats, as pandas writes whole numbers beside a null, leaves those of other files alone."""
    schema = Schema([READ_SCHEMA["code"], READ_SCHEMA["amount"]])
    pd.DataFrame({"code": [LARGE] * 3 + [LARGE + 1] * 2, "amount": range(5)}).to_parquet(
        tmp_path / "0.parquet"
    )
    alone = ParquetCounter(tmp_path).count_all(schema, [(0,)])[0]
    pd.DataFrame({"code": [np.nan], "amount": [7.0]}).to_parquet(tmp_path / "1.parquet")
    counter = ParquetCounter(tmp_path)
    result, amounts = counter.count_all(schema, [(0,), (1,)])
    assert alone.tolist() == [3, 2, 0] and result.tolist() == [3, 2, 1]
    assert amounts[7] == 1
    groups = by_value(schema.sizes)  # and of the values themselves, which a user may ask for
    np.testing.assert_array_equal(counter.count_all(schema, [(0,)], [groups])[0], result)


@pytest.mark.parametrize(
    ("dtype", "first"), [("float64", 2**53), ("float32", 2**24), ("Float64", 2**53)]
)
def test_floats_that_may_be_several_codes_are_refused(dtype: str, first: int) -> None:
    """A frame that comes in floats has lost which code a row had: no row is guessed."""
    column = Column(
        name="c", kind="categorical", dtype="Int64", categories=(1, first - 1, first, first + 1)
    )
    encoder = TableEncoder(Schema([column]))
    sound = pd.DataFrame({"c": pd.Series([1, first - 1], dtype=dtype)})
    assert encoder.to_index(sound)[:, 0].tolist() == [0, 1]
    for code in (first, first + 1):
        lost = pd.DataFrame({"c": pd.Series([1, code], dtype=dtype)})
        for table in (lost, lost.astype(object)) if dtype != "float32" else (lost,):
            with pytest.raises(
                InputError, match=r"Column 'c': .*may stand for several whole"
            ) as error:
                encoder.to_index(table)
            assert "Int64" in str(error.value) and "\n" not in str(error.value)


@pytest.mark.parametrize("dtype", ["Int64", "category"])
def test_floats_in_files_are_not_guessed_either(dtype: str, tmp_path: Path) -> None:
    codes = (1, LARGE, LARGE + 1)
    column = Column(name="c", kind="categorical", dtype=dtype, nulls=True, categories=codes)
    path = tmp_path / "t.parquet"
    pd.DataFrame({"c": [1.0, None]}).to_parquet(path)
    assert read_table(path, Schema([column]))["c"].astype(object)[0] == 1
    pd.DataFrame({"c": [1.0, float(LARGE), None]}).to_parquet(path)
    with pytest.raises(InputError, match=r"Column 'c': .*may stand for several whole"):
        read_table(path, Schema([column]))


@pytest.mark.parametrize(
    ("text", "number"), [("9007199254740993.0", LARGE + 1), ("9.007199254740993e15", LARGE + 1)]
)
def test_texts_of_numbers_are_exact(text: str, number: int, tmp_path: Path) -> None:
    """Read as a float, the text would be another code."""
    (tmp_path / "t.csv").write_text(f"code\n{text}\n{LARGE}\n")
    table = read_table(tmp_path / "t.csv", Schema([READ_SCHEMA["code"]]))
    assert table["code"].tolist() == [number, LARGE]


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_numbers_past_the_dtype_go_where_the_schema_says(suffix: str, tmp_path: Path) -> None:
    """To ``other``, to the bound of a clipped column, or the row is refused by its value; others stay."""
    past = 2**63
    one: dict[str, Any] = {"dtype": "Int64", "nulls": True}
    other = Column(name="n", kind="categorical", categories=(LARGE, LARGE + 1, -1), other=-1, **one)
    clipped = Column(name="n", kind="numeric", low=0, high=9, clip=True, **one)
    plain = Column(name="n", kind="categorical", categories=(LARGE, LARGE + 1), **one)
    frame = pd.DataFrame({"n": pd.array([LARGE + 1, past, None], dtype="UInt64")})
    path = tmp_path / f"t.{suffix}"
    frame.to_csv(path, index=False) if suffix == "csv" else frame.to_parquet(path, index=False)
    if suffix == "csv":
        path.write_text(f'n\n{LARGE + 1}\n{past}\n""\n')
    assert read_table(path, Schema([other]))["n"].tolist() == [LARGE + 1, -1, pd.NA]
    assert read_table(path, Schema([clipped]))["n"].tolist() == [LARGE + 1, 9, pd.NA]
    with pytest.raises(InputError, match=f"Column 'n' does not fit dtype Int64: {past} is not in"):
        read_table(path, Schema([plain]))


@pytest.mark.parametrize(
    ("dtype", "values", "codes", "says"),
    [
        ("Int64", ["1", None], [0, 2], None),
        ("Int64", ["one"], [], "'one' is not a whole number"),
        ("boolean", ["false", "true"], [0, 1], None),
        ("boolean", ["False", "no"], [], "'no' is not true or false"),
        ("boolean", [0, 1, None], [0, 1, 2], None),
        ("boolean", [2], [], "2 is not true or false"),
        ("float64", [b"1"], [], "is not a number"),
    ],
)
def test_other_types_in_parquet_are_read_value_by_value(
    dtype: str, values: list[Any], codes: list[int], says: str | None
) -> None:
    """``"False"`` is not true, as pandas has it, nor is 2."""
    expected = {"Int64": (1, 2), "boolean": (False, True), "float64": (1.0, 2.0)}[dtype]
    column = Column(name="c", kind="categorical", dtype=dtype, nulls=True, categories=expected)
    frame = to_pandas(pa.table({"c": values}))
    if says is not None:
        with pytest.raises(InputError, match=says):
            column.convert(frame["c"])
        return
    result = column.convert(frame["c"])
    assert str(result.dtype) == dtype
    assert TableEncoder(Schema([column])).to_index(result.to_frame())[:, 0].tolist() == codes


def test_equal_objects_of_several_types_are_one_category() -> None:
    """Rows of a column of Python objects are told apart exactly, whatever stands in the others."""
    column = Column(
        name="c", kind="categorical", dtype="Int64", categories=(0, 1, LARGE, LARGE + 1)
    )
    encoder = TableEncoder(Schema([column]))
    cells = [np.int64(LARGE + 1), 1.0, True, np.float64(0), LARGE, np.int64(1)]
    wanted = [3, 1, 1, 0, 2, 1]
    for order in (range(6), range(5, -1, -1), (2, 0, 4, 1, 5, 3)):
        frame = pd.DataFrame({"c": pd.Series([cells[i] for i in order], dtype=object)})
        assert encoder.to_index(frame)[:, 0].tolist() == [wanted[i] for i in order]


def test_decimals_are_exact_and_dates_are_refused_by_name(tmp_path: Path) -> None:
    path, schema = tmp_path / "t.parquet", Schema([READ_SCHEMA["code"]])
    codes = [Decimal(LARGE + 1), None, Decimal(LARGE)]
    pq.write_table(pa.table({"code": pa.array(codes, pa.decimal128(20, 2))}), path)
    result = read_table(path, schema)["code"]
    assert str(result.dtype) == "Int64" and result.tolist() == [LARGE + 1, pd.NA, LARGE]
    pq.write_table(pa.table({"code": [None, date(2020, 1, 2)]}), path)
    with pytest.raises(InputError, match=r"Column 'code': .*2020.* is not a whole number") as error:
        read_table(path, schema)
    assert "\n" not in str(error.value)


def test_the_index_of_pandas_is_no_column(tmp_path: Path) -> None:
    frame = pd.DataFrame({"code": pd.array([LARGE], dtype="Int64")}, index=pd.Index([7], name="id"))
    frame.to_parquet(tmp_path / "t.parquet")
    assert read_table(tmp_path / "t.parquet", Schema([READ_SCHEMA["code"]])).shape == (1, 1)
