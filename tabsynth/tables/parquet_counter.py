"""Tables in Parquet files, counted a batch of rows at a time, and some of their rows."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from tabsynth._validate import quote
from tabsynth.errors import InputError, one_line
from tabsynth.schema.schema import Schema
from tabsynth.tables.batch_counter import BatchCounter, batch_rows
from tabsynth.tables.frames import table_from_arrow, value_type
from tabsynth.tables.parquet_files import check_schema, is_plain, parquet_files, without_index

if TYPE_CHECKING:
    import pyarrow as pa
    from pyarrow.dataset import FileSystemDataset

BUFFER = 2**20  # bytes of a column that are read at a time


class ParquetCounter(BatchCounter):
    """The rows of a Parquet file, or of all ``.parquet`` files in a folder, counted a batch at a time.

    Memory is that of a batch and of the counts, whatever the number of rows.

    Parameters
    ----------
    path : path
        Of a folder, folders in it count too; hidden files, and those that begin with ``_``, do not.
        Files that come later are not counted.

    Raises
    ------
    InputError
        If there is no such file, or one that is no Parquet table.

    Formal guarantees
    -----------------
    Those of :class:`BatchCounter`. The stamps of a table are the sizes and times of its files.
    """

    def __init__(self, path: str | Path) -> None:
        super().__init__()
        self._files = {file: _open_dataset(file) for file in parquet_files(Path(path))}

    def check(self, schema: Schema) -> None:
        """See :meth:`RowCounter.check`: each file has each column, of a plain kind that all share."""
        import pyarrow as pa

        shared, units = pa.schema([]), {}
        for file, rows in self._files.items():
            file_schema = rows.schema
            for name in (*schema.names, *schema.design.names):
                if name not in file_schema.names:
                    raise InputError(f"{file}: column {quote(name)} is missing; add it.")
            for name in schema.names:
                if not is_plain(file_schema.field(name).type, pa.types):
                    kind = quote(str(file_schema.field(name).type))
                    raise InputError(
                        f"{file}: column {quote(name)} holds {kind}; unfold or convert it."
                    )
            if schema.unit is not None:
                # One unit may have several texts in several types, such as 7 and 7.00.
                units[str(value_type(file_schema.field(schema.unit).type))] = file
                if len(units) > 1:
                    kinds_of_units = " and ".join(units)
                    raise InputError(
                        f"{file}: column {quote(schema.unit)}, the unit, holds {kinds_of_units} in different files, so that one"
                        " unit could count as several; convert it to one type."
                    )
            kinds = pa.schema(
                [(name, value_type(file_schema.field(name).type)) for name in schema.names]
            )
            try:
                shared = pa.unify_schemas([shared, kinds], promote_options="permissive")
            except pa.ArrowException as error:
                raise InputError(
                    f"{file} does not fit the files before it: {one_line(error)}; convert one."
                ) from None

    def stamps(self) -> object:
        """See :meth:`BatchCounter.stamps`."""
        stamps = list[tuple[int, ...]]()
        for file in self._files:
            try:
                about = file.stat()
            except OSError as error:
                raise _unreadable(file, error) from None
            stamps.append((about.st_ino, about.st_size, about.st_mtime_ns))
        return stamps

    def batches(self, names: Sequence[str], *, ordered: bool = True) -> Iterator["pa.RecordBatch"]:
        """See :meth:`BatchCounter.batches`: of all files."""
        import pyarrow as pa
        from pyarrow.fs import LocalFileSystem
        from pyarrow.parquet import ParquetFile

        rows = batch_rows(len(names))
        # pyarrow's scanner of datasets would be ahead by whole groups of rows: it holds three times as much.
        options = {"pre_buffer": False, "buffer_size": BUFFER}
        for file in self._files:
            try:
                with (
                    LocalFileSystem().open_input_file(str(file)) as source,
                    ParquetFile(source, **options) as table,
                ):
                    yield from table.iter_batches(batch_size=rows, columns=list(names))
            except (OSError, pa.ArrowException) as error:
                raise _unreadable(file, error) from None


def sampled_rows(path: Path, rows: int, seed: int) -> tuple[dict[Path, pd.DataFrame], int]:
    """Return some rows of a Parquet file, or of all in a folder, drawn uniformly; by file, and the number of all rows.

    Of a file with no drawn row there is an empty DataFrame, if it is the first one.
    """
    import pyarrow as pa
    from pyarrow.parquet import ParquetFile

    files = {file: _open_dataset(file) for file in parquet_files(path)}
    parts = dict[Path, pd.DataFrame]()
    file = path
    try:
        lengths = {file: table.count_rows() for file, table in files.items()}
        total = sum(lengths.values())
        chosen = np.random.default_rng(seed).choice(total, min(rows, total), replace=False)
        chosen.sort()
        start = 0
        for file, length in lengths.items():
            drawn = chosen[slice(*np.searchsorted(chosen, [start, start + length]))] - start
            start += length
            if not len(drawn) and parts:
                continue
            pieces, before = [], 0
            with ParquetFile(file, pre_buffer=False, buffer_size=BUFFER) as table:
                check_schema(file, table.schema_arrow)
                for batch in table.iter_batches(batch_size=batch_rows(len(table.schema_arrow))):
                    stop = before + len(batch)
                    here = drawn[slice(*np.searchsorted(drawn, [before, stop]))] - before
                    if len(here):
                        pieces.append(pa.Table.from_batches([batch]).take(here))
                    before = stop
                joined = pa.concat_tables(pieces or [table.schema_arrow.empty_table()])
            parts[file] = table_from_arrow(without_index(joined))
    except (OSError, pa.ArrowException) as error:
        raise _unreadable(file, error) from None
    return parts, total


def _open_dataset(file: Path) -> "FileSystemDataset":
    """Return a file as a dataset: its schema is read, and no row."""
    import pyarrow as pa
    import pyarrow.dataset as pads
    from pyarrow.fs import LocalFileSystem

    if not file.exists():
        raise InputError(f"Cannot read {file}: there is no such file or folder.")
    try:
        # A file system, so that no name is taken for an address.
        return pads.dataset(str(file), format="parquet", filesystem=LocalFileSystem())
    except (OSError, pa.ArrowException) as error:
        raise _unreadable(file, error) from None


def _unreadable(file: Path, error: Exception) -> InputError:
    reason = one_line(error)
    return InputError(f"Cannot read {file}: {reason}; write it again, or take it away.")
