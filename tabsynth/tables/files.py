"""Tables out of files as they are, CSV or Parquet, with limits on what a file may unpack to."""

import csv
import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any

import pandas as pd

from tabsynth._files import replacing, size_of
from tabsynth._validate import MAX_COLUMNS, one_of, shown
from tabsynth.errors import InputError, one_line
from tabsynth.schema.conforming import conformed
from tabsynth.schema.schema import DEFAULT_NULL_VALUES, Schema, duplicates
from tabsynth.tables.formulas import HANDLINGS, escape_formulas, refuse_formulas, unescaped
from tabsynth.tables.frames import table_from_arrow

MAX_TABLE_BYTES = 8 * 2**30  # of a file
MAX_ROW = 2**22  # characters of a row of a CSV file
# Of Parquet, where a few bytes may stand for any number of cells: so many cells, and so many bytes
# unpacked, are read in any case, and more only of a file that has this share of them.
FREE_CELLS, CELLS_PER_BYTE = 10_000_000, 100
FREE_BYTES, UNPACKED_PER_BYTE = 256 * 2**20, 200
MAX_CELLS = 2 * 10**9


def read_csv_text(path: str | Path, null_values: Sequence[str]) -> pd.DataFrame:
    """Read a CSV file, every column as text, ``null_values`` as nulls.

    Raises
    ------
    InputError
    """
    size_of(path, "table", MAX_TABLE_BYTES, InputError)
    try:
        nulls = sorted({"", *null_values})
        if len(_check_csv(path)) == 1:
            return _read_one_column(path, nulls)
        return pd.read_csv(
            path,
            dtype=str,
            keep_default_na=False,
            na_values=nulls,
            encoding="utf-8-sig",
            index_col=False,
        )
    except OSError as error:
        raise InputError(f"Cannot read {path}: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise InputError(f"{path} is not UTF-8 text; save the table as UTF-8 CSV.") from None
    except pd.errors.EmptyDataError:
        raise InputError(f"{path} is empty; a table has a header and at least one row.") from None
    except (pd.errors.ParserError, csv.Error) as error:
        raise InputError(f"{path} is not a CSV table: {one_line(error)}") from None


def _rows(file: IO[str], path: str | Path) -> Iterator[tuple[int, list[str]]]:
    """Rows that are not empty, each with the number of the line it ends in; none of them endless."""
    read = 0

    def lines() -> Iterator[str]:
        nonlocal read
        while line := file.readline(MAX_ROW + 1):
            read += len(line)
            if read > MAX_ROW:
                raise InputError(
                    f"{path}: a row has more than {MAX_ROW:,} characters; it is not a CSV table."
                )
            yield line

    rows = csv.reader(lines(), strict=True)
    for row in rows:
        read = 0
        if row:
            yield rows.line_num, row


def _read_one_column(path: str | Path, nulls: list[str]) -> pd.DataFrame:
    """A table of one column: there pandas drops a row that holds nothing but spaces."""
    with open(path, encoding="utf-8-sig", newline="") as file:
        name, *cells = (cell for _, (cell,) in _rows(file, path))
    texts = pd.Series(cells, dtype="str", name=name)
    return texts.where(~texts.isin(nulls)).to_frame()


def _check_csv(path: str | Path) -> list[str]:
    """The header. Refuses what pandas would mend by itself: short, long and renamed columns."""
    with open(path, encoding="utf-8-sig", newline="") as file:
        rows = _rows(file, path)
        _, header = next(rows, (0, []))
        if len(header) > MAX_COLUMNS:
            raise InputError(
                f"{path} has {len(header):,} columns; at most {MAX_COLUMNS:,} are read."
            )
        for name in duplicates(header):
            raise InputError(f"{path} has column {shown(name)} twice; rename or drop one.")
        if "" in header:
            raise InputError(f"{path}: column {header.index('') + 1} has no name; give it one.")
        if len(header) == 1 and re.search("[;\t]", header[0]):
            raise InputError(f"{path} is separated by semicolons or tabs; separate it by commas.")
        if any("\0" in name for name in header):
            raise InputError(f"{path}, line 1 holds a NUL; it is not a CSV table.")
        for number, row in rows:
            if len(row) != len(header):
                raise InputError(
                    f"{path}, line {number}: {len(row)} cells under a header of"
                    f" {len(header)}; add or remove cells, or quote those that hold a comma."
                )
            if any("\0" in cell for cell in row):
                raise InputError(f"{path}, line {number} holds a NUL; it is not a CSV table.")
    return header


def read_parquet(path: str | Path) -> pd.DataFrame:
    """Read a Parquet file of plain columns; see :func:`tabsynth.tables.frames.column_from_arrow` for the dtypes.

    Columns that pandas wrote as the index are left out.

    Raises
    ------
    InputError
    """
    size = size_of(path, "table", MAX_TABLE_BYTES, InputError)
    try:
        with open(path, "rb") as file:
            _check_parquet(file, path, size)
            return table_from_arrow(_rows_of(file))
    except InputError:
        raise
    except OSError as error:
        reason = error.strerror or one_line(error)
        raise InputError(f"Cannot read {path}: {reason}.") from None
    except Exception as error:  # pyarrow has no common base for "this is not Parquet"
        raise InputError(f"{path} is not a Parquet table: {one_line(error)}") from None


def _rows_of(file: IO[bytes]) -> Any:
    """The rows of a Parquet file that was checked, without the columns of a pandas index."""
    from pyarrow import parquet

    table = parquet.ParquetFile(file, thrift_string_size_limit=2**24, pre_buffer=False).read()
    written = json.loads((table.schema.metadata or {}).get(b"pandas", b"{}"))
    index = [name for name in written.get("index_columns", []) if name in table.column_names]
    return table.drop_columns(index)


def _check_parquet(file: IO[bytes], path: str | Path, size: int) -> None:
    """Refuse nested columns, and a file that unpacks to out of all proportion to its size."""
    import pyarrow as pa
    from pyarrow import parquet

    file_reader = parquet.ParquetFile(file, thrift_string_size_limit=2**24, pre_buffer=False)
    about, schema = file_reader.metadata, file_reader.schema_arrow
    if len(schema.names) > MAX_COLUMNS:
        raise InputError(
            f"{path} has {len(schema.names):,} columns; at most {MAX_COLUMNS:,} are read."
        )
    for field in schema:
        if not is_plain(field.type, pa.types):
            kind = shown(str(field.type))
            raise InputError(
                f"{path}: column {shown(field.name)} holds {kind}; unfold or convert it."
            )
    cells = about.num_rows * max(1, len(schema.names))
    groups = [about.row_group(i) for i in range(about.num_row_groups)]
    unpacked = sum(group.total_byte_size for group in groups)
    most_unpacked = max(FREE_BYTES, UNPACKED_PER_BYTE * size)
    too_much = InputError(
        f"{path}: {size:,} bytes that unpack to {cells:,} cells are no table that we read; write it as CSV."
    )
    if not 0 <= cells <= min(MAX_CELLS, max(FREE_CELLS, CELLS_PER_BYTE * size)):
        raise too_much
    if not 0 <= unpacked <= most_unpacked:
        raise too_much
    # A text may be written once and be meant in every row.
    texts = [f.name for f in schema if not pa.types.is_primitive(f.type)]
    coded = parquet.ParquetFile(file, metadata=about, read_dictionary=texts, pre_buffer=False)
    for name in dict.fromkeys(texts):
        for column in coded.read(columns=[name], use_threads=False).columns:
            unpacked += sum(_text_bytes(chunk) for chunk in column.chunks)
            if unpacked > most_unpacked:
                raise too_much


def is_plain(kind: Any, types: Any) -> bool:
    """Whether a pyarrow type is of single values: no list, struct or map."""
    if types.is_dictionary(kind):
        kind = kind.value_type
    texts = types.is_string(kind) or types.is_large_string(kind)
    return bool(types.is_primitive(kind) or types.is_null(kind) or types.is_decimal(kind) or texts)


def _text_bytes(chunk: Any) -> int:
    """Bytes of an array's texts, each as often as it occurs."""
    from pyarrow import compute, types

    if types.is_dictionary(chunk.type):
        if types.is_primitive(chunk.type.value_type):
            return int(chunk.nbytes)
        return int(
            compute.binary_length(chunk.dictionary).take(chunk.indices.drop_null()).sum().as_py()
            or 0
        )
    return int(chunk.nbytes)


SUFFIXES = (".csv", ".parquet")


def suffix(path: str | Path) -> str:
    """``.csv`` or ``.parquet``; anything else is refused."""
    ending = Path(path).suffix.lower()
    if ending not in SUFFIXES:
        raise InputError(f"{path}: tables are .csv or .parquet files, by their suffix.")
    return ending


def read_table(path: str | Path, schema: Schema) -> pd.DataFrame:
    """Read a table with the columns, dtypes and null texts of ``schema``, without identifiers and free text.

    A table may have no rows. What a row becomes follows from the schema, from the row and, in Parquet, from the
    types of the file's columns; never from another row.

    Raises
    ------
    InputError
        Naming the column and the value that do not fit.
    """
    as_text = suffix(path) == ".csv"
    frame = read_csv_text(path, schema.null_values) if as_text else read_parquet(path)
    if as_text:
        frame.columns = [unescaped(name, schema.names) for name in frame.columns]
    schema.check_columns(frame, str(path))
    read = [column for column in schema.columns if column.learned]
    frame = conformed(frame, schema)
    series = {
        c.name: frame[c.name]
        if c.provenance == "released"
        else (c.parse if as_text else c.convert)(frame[c.name])
        for c in read
    }
    return pd.DataFrame(series, columns=[column.name for column in read])


def read_any(path: str | Path, null_values: tuple[str, ...] = DEFAULT_NULL_VALUES) -> pd.DataFrame:
    """Read a table without a schema; the columns of a CSV file come as text.

    Columns of whole numbers and booleans without a null come in numpy's dtypes, so that a schema drafted from
    the table declares those.
    """
    if suffix(path) == ".csv":
        return read_csv_text(path, null_values)
    frame = read_parquet(path)
    columns = {j: _numpy_dtype(frame.iloc[:, j]) for j in range(frame.shape[1])}
    return pd.DataFrame(columns, index=frame.index).set_axis(frame.columns, axis=1)


def _numpy_dtype(values: pd.Series) -> pd.Series:
    dtype = str(values.dtype)
    nullable = dtype == "boolean" or re.fullmatch(r"U?Int\d+", dtype)
    if not nullable or values.isna().any():
        return values
    return values.astype("bool" if dtype == "boolean" else dtype.lower())


def write_table(table: pd.DataFrame, path: str | Path, *, formulas: str = "refuse") -> None:
    """Write a table as CSV or Parquet by suffix, whole or not at all.

    ``attrs`` are not written: a certificate belongs in a file of its own, beside the table and with its hash
    (:meth:`tabsynth.MargNet.sample_to`).

    Parameters
    ----------
    table : DataFrame
    path : path
    formulas : {"refuse", "escape", "keep"}
        What becomes of texts in a CSV file, column names too, that a spreadsheet would run as formulas: they
        begin with a tab or a line break, or a line of theirs begins with ``= + - @`` or a wide form of these,
        after white space and invisible characters or at once, and is no plain number. ``refuse``: the table is
        not written. ``escape``: an apostrophe comes before them, and before each such line;
        :func:`read_table` takes it off again.
        ``keep``: they are written as they are.

    Raises
    ------
    InputError
    """
    kind = suffix(path)
    one_of("formulas", formulas, HANDLINGS)
    if kind == ".csv" and formulas == "refuse":
        refuse_formulas(table)
    if kind == ".csv" and formulas == "escape":
        table = escape_formulas(table)
    with replacing(path) as temporary:
        if kind == ".csv":
            table.to_csv(temporary, index=False, na_rep="")
        else:
            bare = table.copy(deep=False)
            bare.attrs = {}  # pandas would write them into the file, unsigned
            bare.to_parquet(temporary, engine="pyarrow", index=False)
