"""Parquet files of plain columns, in and out, through pyarrow.

The dtypes of what is read follow from the types that a file declares: see :func:`tabsynth.tables.frames.column_from_arrow`.
"""

import json
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType
from typing import IO, TYPE_CHECKING

import pandas as pd

from tabsynth._validate import MAX_COLUMNS, quote
from tabsynth.errors import InputError, one_line
from tabsynth.tables.frames import period_texts, table_from_arrow
from tabsynth.tables.limits import Limits

if TYPE_CHECKING:
    import pyarrow as pa

SUFFIX = ".parquet"


def read_parquet(path: str | Path) -> pd.DataFrame:
    """Read a file, or all of a folder as one table. Columns that pandas wrote as the index are left out.

    Raises
    ------
    InputError
    """
    files = parquet_files(Path(path))
    parts = [_read_file(file) for file in files]
    for file, part in zip(files, parts, strict=True):
        if (types := part.dtypes.to_dict()) != parts[0].dtypes.to_dict():
            other = next(
                c for c in {**types, **parts[0].dtypes} if types.get(c) != parts[0].dtypes.get(c)
            )
            raise InputError(
                f"{file}: column {quote(str(other))} is of another type than in {files[0].name}, or in one of them alone;"
                " write the table again, with the same columns and types in all files."
            )
    return parts[0] if len(parts) == 1 else pd.concat(parts, ignore_index=True)


def parquet_files(path: Path) -> list[Path]:
    """Return the path itself, or all Parquet files in a folder, in order."""
    if not path.is_dir():
        return [path]
    files = sorted(
        file
        for file in path.rglob("*")
        if file.suffix.lower() == ".parquet"
        and file.is_file()
        # As other readers of such folders have it: what is not, or no longer, part of the table.
        and not any(part.startswith((".", "_")) for part in file.relative_to(path).parts)
    )
    if not files:
        raise InputError(f"{path} holds no .parquet file; name the folder of the table's files.")
    return files


def _read_file(path: str | Path) -> pd.DataFrame:
    from pyarrow import parquet

    limits = Limits(path)  # of a regular file: to open a pipe waits for ever
    try:
        with open(path, "rb") as file:
            _check_parquet(file, path, limits)
            reader = parquet.ParquetFile(file, thrift_string_size_limit=2**24, pre_buffer=False)
            return table_from_arrow(without_index(reader.read()))
    except InputError:
        raise
    except OSError as error:
        reason = error.strerror or one_line(error)
        if error.strerror is None:  # of pyarrow, for a damaged file
            raise InputError(f"{path} is not a Parquet table: {reason}") from None
        raise InputError(f"Cannot read {path}: {reason}.") from None
    except Exception as error:  # pyarrow has no common base for "this is not Parquet"
        raise InputError(f"{path} is not a Parquet table: {one_line(error)}") from None


def without_index(table: "pa.Table") -> "pa.Table":
    """Return a pyarrow Table without the columns that pandas wrote as the index."""
    written = json.loads((table.schema.metadata or {}).get(b"pandas", b"{}"))
    index = [name for name in written.get("index_columns", []) if name in table.column_names]
    return table.drop_columns(index)


def is_plain(kind: "pa.DataType", types: ModuleType) -> bool:
    """Return whether a pyarrow type is of single values: no list, struct or map."""
    if types.is_dictionary(kind):
        kind = kind.value_type
    texts = types.is_string(kind) or types.is_large_string(kind)
    return bool(types.is_primitive(kind) or types.is_null(kind) or types.is_decimal(kind) or texts)


def check_schema(path: str | Path, schema: "pa.Schema") -> None:
    """Refuse too many columns, and nested ones."""
    from pyarrow import types

    if len(schema.names) > MAX_COLUMNS:
        raise InputError(
            f"{path} has {len(schema.names):,} columns; at most {MAX_COLUMNS:,} are read."
        )
    for field in schema:
        if not is_plain(field.type, types):
            kind = quote(str(field.type))
            raise InputError(
                f"{path}: column {quote(field.name)} holds {kind}; unfold or convert it."
            )


def _text_bytes(chunk: "pa.Array") -> int:
    """Return bytes of an array's texts, each as often as it occurs."""
    from pyarrow import compute, types

    if types.is_dictionary(chunk.type):
        if types.is_primitive(chunk.type.value_type):
            return int(chunk.nbytes)
        return int(
            compute.binary_length(chunk.dictionary).take(chunk.indices.drop_null()).sum().as_py()
            or 0
        )
    return int(chunk.nbytes)


def _check_parquet(file: IO[bytes], path: str | Path, limits: Limits) -> None:
    """Refuse nested columns, and a file that unpacks to out of all proportion to its size."""
    import pyarrow as pa
    from pyarrow import parquet

    file_reader = parquet.ParquetFile(file, thrift_string_size_limit=2**24, pre_buffer=False)
    about, schema = file_reader.metadata, file_reader.schema_arrow
    check_schema(path, schema)
    groups = [about.row_group(i) for i in range(about.num_row_groups)]
    unpacked = sum(group.total_byte_size for group in groups)
    limits.check(cells=about.num_rows * max(1, len(schema.names)))
    limits.check(unpacked=unpacked)
    # A text may be written once and be meant in every row.
    texts = [f.name for f in schema if not pa.types.is_primitive(f.type)]
    coded = parquet.ParquetFile(file, metadata=about, read_dictionary=texts, pre_buffer=False)
    for name in dict.fromkeys(texts):
        for column in coded.read(columns=[name], use_threads=False).columns:
            unpacked += sum(_text_bytes(chunk) for chunk in column.chunks)
            limits.check(unpacked=unpacked)


def write_parquet(table: pd.DataFrame, path: Path) -> None:
    """Write a DataFrame without its index and ``attrs``.

    Raises
    ------
    InputError
        For a dtype that the format lacks.
    """
    import pyarrow as pa
    from pyarrow import parquet

    bare = _without_periods(table)
    bare.attrs = {}  # pandas would write them into the file, unsigned
    try:
        parquet.write_table(pa.Table.from_pandas(bare, preserve_index=False), path)
    except (pa.ArrowException, pa.ArrowNotImplementedError) as error:
        raise _not_written(error) from None


def _not_written(error: Exception) -> InputError:
    return InputError(
        f"The table cannot be written as Parquet: {one_line(error)}; write .csv, or declare another dtype."
    )


def _without_periods(table: pd.DataFrame) -> pd.DataFrame:
    """Return a copy of a table with its periods as texts."""
    copy = table.copy(deep=False)
    for j, dtype in enumerate(table.dtypes):
        if isinstance(dtype, pd.PeriodDtype):
            copy.isetitem(j, period_texts(table.iloc[:, j]))
    return copy


def write_parquet_parts(parts: Iterable[pd.DataFrame], path: Path) -> None:
    """Write the rows of DataFrames of the same dtypes to one Parquet file, a group of rows from each.

    The file's types are those of the first part.

    Raises
    ------
    InputError
        For a dtype that Parquet lacks.
    """
    import pyarrow as pa
    from pyarrow import parquet

    writer = None
    try:
        for part in parts:
            kinds = None if writer is None else writer.schema
            arrow = pa.Table.from_pandas(_without_periods(part), schema=kinds, preserve_index=False)
            if writer is None:
                fields = [
                    f.with_type(pa.string()) if pa.types.is_null(f.type) else f
                    for f in arrow.schema
                ]
                arrow = arrow.cast(pa.schema(fields, arrow.schema.metadata))
                writer = parquet.ParquetWriter(path, arrow.schema)
            writer.write_table(arrow)
    except pa.ArrowException as error:
        raise _not_written(error) from None
    finally:
        if writer is not None:
            writer.close()
