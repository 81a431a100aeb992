"""Parquet, Feather, Arrow and ORC files of plain columns, in and out, through pyarrow.

The dtypes of what is read follow from the types that a file declares: see :func:`tabsynth.tables.frames.column_from_arrow`.
"""

import json
import struct
from collections.abc import Callable, Iterable
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

NAMES = {".parquet": "Parquet", ".feather": "Feather", ".arrow": "Arrow", ".orc": "ORC"}
MAGIC = b"ARROW1\0\0"  # of an Arrow file; a stream begins at once
BATCH = 256  # rows of an ORC file at a time, where texts may be long


def read_arrow(path: str | Path, ending: str) -> pd.DataFrame:
    """Read a file of one of :data:`NAMES`. Columns that pandas wrote as the index are left out.

    Raises
    ------
    InputError
    """
    limits = Limits(path)
    try:
        table = _READERS[ending](path, limits)
        return table_from_arrow(without_index(table))
    except InputError:
        raise
    except OSError as error:
        reason = error.strerror or one_line(error)
        if error.strerror is None:  # of pyarrow, for a damaged file
            raise InputError(f"{path} is not a {NAMES[ending]} table: {reason}") from None
        raise InputError(f"Cannot read {path}: {reason}.") from None
    except Exception as error:  # pyarrow has no common base for "this is not Parquet"
        raise InputError(f"{path} is not a {NAMES[ending]} table: {one_line(error)}") from None


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


# Parquet.


def _read_parquet(path: str | Path, limits: Limits) -> "pa.Table":
    from pyarrow import parquet

    with open(path, "rb") as file:
        _check_parquet(file, path, limits)
        reader = parquet.ParquetFile(file, thrift_string_size_limit=2**24, pre_buffer=False)
        return reader.read()


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


# Feather and Arrow: record batches, whose buffers may be compressed.


def _read_ipc(path: str | Path, limits: Limits) -> "pa.Table":
    import pyarrow as pa

    with open(path, "rb") as file:
        start = len(MAGIC) if file.read(len(MAGIC)) == MAGIC else 0
        file.seek(start)
        _check_messages(file, limits)
        file.seek(start)
        with pa.ipc.open_stream(file) as reader:
            check_schema(path, reader.schema)
            table = reader.read_all()
    table.validate(full=True)  # places of texts that lie outside the file
    limits.check(
        unpacked=sum(_text_bytes(chunk) for column in table.columns for chunk in column.chunks)
    )
    return table


def _check_messages(file: IO[bytes], limits: Limits) -> None:
    """Refuse record batches that state too many rows, or buffers that unpack to too much, before any is unpacked."""
    import pyarrow as pa

    cells = unpacked = 0
    for message in pa.ipc.MessageReader.open_stream(file):
        if message.type not in ("record batch", "dictionary"):
            continue
        rows, columns, buffers = _batch_facts(message.metadata.to_pybytes(), message.type)
        cells += rows * max(1, columns) if message.type == "record batch" else rows
        body = message.body
        for place, length in buffers:
            # A compressed buffer begins with its size unpacked; else these are eight bytes of values.
            unpacked += max(length, _first_integer(body, place, length) if length >= 8 else 0)
        limits.check(cells=cells)
        limits.check(unpacked=unpacked)


def _batch_facts(metadata: bytes, kind: str) -> tuple[int, int, list[tuple[int, int]]]:
    """Return rows, columns, and place and length of each buffer, that a message states (Arrow's Message.fbs).

    Buffers are listed only where they are compressed.
    """
    root = _Table(metadata, struct.unpack_from("<I", metadata, 0)[0])
    batch = root.table(2)
    if kind == "dictionary":
        batch = batch.table(1)
    compressed = batch.place(3) is not None
    buffers = batch.pairs(2) if compressed else []
    rows = batch.integer(0)
    return rows, len(batch.pairs(1)), buffers


class _Table:
    """A table of a flatbuffer: fields by their number. Raises struct.error beyond the end."""

    def __init__(self, data: bytes, place: int) -> None:
        self._data, self._start = data, place
        self._fields = place - struct.unpack_from("<i", data, place)[0]

    def place(self, field: int) -> int | None:
        """Return where a field is, or None where it has its default."""
        if 4 + 2 * field >= struct.unpack_from("<H", self._data, self._fields)[0]:
            return None
        offset = struct.unpack_from("<H", self._data, self._fields + 4 + 2 * field)[0]
        return self._start + offset if offset else None

    def integer(self, field: int) -> int:
        place = self.place(field)
        return 0 if place is None else int(struct.unpack_from("<q", self._data, place)[0])

    def _target(self, field: int) -> int:
        place = self.place(field)
        if place is None:
            raise ValueError("a message lacks a part")
        return place + int(struct.unpack_from("<I", self._data, place)[0])

    def table(self, field: int) -> "_Table":
        return _Table(self._data, self._target(field))

    def pairs(self, field: int) -> list[tuple[int, int]]:
        """Return a vector of pairs of 64-bit integers."""
        if self.place(field) is None:
            return []
        start = self._target(field)
        (count,) = struct.unpack_from("<I", self._data, start)
        return [*struct.iter_unpack("<qq", self._data[start + 4 : start + 4 + 16 * count])]


def _first_integer(body: "pa.Buffer", place: int, length: int) -> int:
    """Return the first eight bytes of a buffer as a signed integer; -1 says that it is not compressed after all."""
    return int(struct.unpack("<q", body.slice(place, 8).to_pybytes())[0])


# ORC.


def _read_orc(path: str | Path, limits: Limits) -> "pa.Table":
    import pyarrow as pa
    from pyarrow import dataset, orc

    with open(path, "rb") as file:
        rows = orc.ORCFile(file).nrows
    source = dataset.dataset(str(path), format="orc")
    check_schema(path, source.schema)
    limits.check(cells=rows * max(1, len(source.schema.names)))
    texts = any(not pa.types.is_primitive(field.type) for field in source.schema)
    batches, unpacked = [], 0
    size = BATCH if texts else 2**16
    for batch in source.to_batches(batch_size=size, batch_readahead=0, use_threads=False):
        unpacked += batch.nbytes
        limits.check(unpacked=unpacked)
        batches.append(batch)
    return pa.Table.from_batches(batches, source.schema).combine_chunks()


_READERS: dict[str, Callable[[str | Path, Limits], "pa.Table"]] = {
    ".parquet": _read_parquet,
    ".feather": _read_ipc,
    ".arrow": _read_ipc,
    ".orc": _read_orc,
}


# Out.


def write_arrow(table: pd.DataFrame, path: Path, ending: str) -> None:
    """Write a DataFrame without its index and ``attrs``.

    Raises
    ------
    InputError
        For a dtype that the format lacks.
    """
    import pyarrow as pa
    from pyarrow import feather, orc, parquet

    bare = _without_periods(table)
    bare.attrs = {}  # pandas would write them into the file, unsigned
    try:
        arrow = pa.Table.from_pandas(bare, preserve_index=False)
        if ending == ".parquet":
            parquet.write_table(arrow, path)
        elif ending == ".orc":
            orc.write_table(_for_orc(arrow), path, compression="zlib")
        else:
            feather.write_feather(arrow, str(path), compression="lz4")
    except (pa.ArrowException, pa.ArrowNotImplementedError) as error:
        raise InputError(
            f"The table cannot be written as {NAMES[ending]}: {one_line(error)}; write Parquet."
        ) from None


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
        raise InputError(
            f"The table cannot be written as Parquet: {one_line(error)}; write .csv, or declare another dtype."
        ) from None
    finally:
        if writer is not None:
            writer.close()


def _for_orc(table: "pa.Table") -> "pa.Table":
    """Return the table in types that ORC has: dictionaries decoded, whole numbers without a sign as wider ones, nulls as texts."""
    import pyarrow as pa

    replacements = {
        **{pa.uint8(): pa.int16(), pa.uint16(): pa.int32(), pa.uint32(): pa.int64()},
        pa.null(): pa.string(),
    }
    fields = []
    for field in table.schema:
        kind = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
        fields.append(field.with_type(replacements.get(kind, kind)))
    return table.cast(pa.schema(fields))
