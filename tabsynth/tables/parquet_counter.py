"""Tables in Parquet files, counted a batch of rows at a time: many sets of columns in one scan.

A value becomes its category code as in a DataFrame, by :meth:`Column.convert` and :meth:`Column.encode`: of each batch
these see the distinct values of a column. :mod:`tabsynth.tables.tallies` counts the codes.
"""

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from tabsynth._validate import quote
from tabsynth.errors import InputError, one_line
from tabsynth.privacy.noise.counts import Groups, by_value, number_of
from tabsynth.schema.column import Column
from tabsynth.schema.schema import Schema
from tabsynth.tables.arrow_files import check_schema, is_plain, without_index
from tabsynth.tables.counter import RowCounter, refuse_all
from tabsynth.tables.frames import column_from_arrow, table_from_arrow, value_type
from tabsynth.tables.tallies import Tallies

if TYPE_CHECKING:
    import pyarrow as pa
    from pyarrow.dataset import FileSystemDataset

BATCH_CELLS = 2**24  # values of all columns of a batch
BATCH_ROWS = 2**20  # of a batch, at most
BUFFER = 2**20  # bytes of a column that are read at a time
TRIED = 1_024  # values of a batch by which it is seen whether they repeat
CHANGED = "The files changed while they were counted; fit a copy of them."


class ParquetCounter(RowCounter):
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
    Each row is counted once in each answer, and encoded as :meth:`tabsynth.schema.column.Column.encode` does it.
    Answers are of one unchanging table as far as the sizes and times of its files tell: where they differ from
    those of the last comparison with the schema, the fit ends. What was charged before stays charged. That
    comparison is also the scan that counts single columns: the fit takes these counts once they are charged.
    """

    def __init__(self, path: str | Path) -> None:
        self._files = {file: _open_dataset(file) for file in parquet_files(Path(path))}
        self._stamps: list[tuple[int, ...]] = []  # of the files, when they were last compared
        self._first: dict[int, tuple[Column, np.ndarray]] = {}  # counts of single columns then

    def check(self, schema: Schema) -> None:
        """See :meth:`RowCounter.check`: each file has each column, of a plain kind that all share."""
        import pyarrow as pa

        shared, units = pa.schema([]), {}
        for file, rows in self._files.items():
            file_schema = rows.schema
            for name in schema.names:
                if name not in file_schema.names:
                    raise InputError(f"{file}: column {quote(name)} is missing; add it.")
                if not is_plain(file_schema.field(name).type, pa.types):
                    kind = quote(str(file_schema.field(name).type))
                    raise InputError(
                        f"{file}: column {quote(name)} holds {kind}; unfold or convert it."
                    )
            for name in schema.design.names:
                if name not in file_schema.names:
                    raise InputError(f"{file}: column {quote(name)} is missing; add it.")
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

    def count_all(
        self,
        schema: Schema,
        sets: Sequence[tuple[int, ...]],
        groups: Sequence[Groups] | None = None,
    ) -> list[np.ndarray]:
        """See :meth:`RowCounter.count_all`, in one scan on all cores.

        Without ``groups`` the files may be others than before, and the values of every column are compared
        with the schema again. With them the files must be those of that comparison.
        """
        stamps = _stamps(self._files)
        if groups is None:
            self._stamps, self._first = stamps, {}
        elif self._stamps and stamps != self._stamps:
            raise InputError(CHANGED)
        by = [by_value(schema.sizes)] * len(sets) if groups is None else groups
        keys = dict[tuple[int, bytes], _Key]()
        key_sets = list[tuple[_Key, ...]]()
        for columns, group in zip(sets, by, strict=True):
            for j in columns:
                if (j, group[j].tobytes()) not in keys:
                    keys[j, group[j].tobytes()] = _Key(schema.columns[j], j, group[j])
            key_sets.append(tuple(keys[j, group[j].tobytes()] for j in columns))
        counts: dict[tuple[_Key, ...], np.ndarray] = {
            s: self._first[s[0].place][1] for s in key_sets if len(s) == 1 and self._has(s[0])
        }
        scan = _Scan(list(dict.fromkeys(s for s in key_sets if s not in counts)))
        if scan.sets:
            counts |= scan.run(self._batches(scan.names))
        if _stamps(self._files) != stamps:
            raise InputError(CHANGED)
        for s, c in counts.items():
            if groups is None and len(s) == 1:
                self._first[s[0].place] = s[0].column, c
        return [counts[s].astype(np.float64) for s in key_sets]

    def parts(self, names: Sequence[str]) -> Iterator[pd.DataFrame]:
        """Yield the rows of all files, as :meth:`RowCounter.parts`."""
        import pyarrow as pa

        stamps = _stamps(self._files)
        for batch in self._batches(names):
            yield table_from_arrow(pa.Table.from_batches([batch]))
        if _stamps(self._files) != stamps:
            raise InputError(CHANGED)

    def _has(self, key: "_Key") -> bool:
        """Return whether the values of a column were counted one by one when they were compared with the schema."""
        column, _ = self._first.get(key.place, (None, None))
        return column == key.column and key.by_value

    def _batches(self, names: Sequence[str]) -> Iterator["pa.RecordBatch"]:
        """Return batches of rows of all files, with columns in the order of ``names``."""
        import pyarrow as pa
        from pyarrow.fs import LocalFileSystem
        from pyarrow.parquet import ParquetFile

        rows = max(1, min(BATCH_ROWS, BATCH_CELLS // len(names)))
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


@dataclass(frozen=True, eq=False)
class _Key:
    """A column whose codes are counted in some groups."""

    column: Column
    place: int
    group: np.ndarray

    @cached_property
    def size(self) -> int:
        """Number of groups."""
        return number_of(self.group)

    @cached_property
    def by_value(self) -> bool:
        """True if each code is a group of its own."""
        return np.array_equal(self.group, np.arange(len(self.group)))


class _Scan:
    """Counts of sets of columns, which grow by batches of rows.

    Parameters
    ----------
    sets : sequence of tuple of _Key
    """

    def __init__(self, sets: Sequence[tuple[_Key, ...]]) -> None:
        self.sets = sets
        self._tallies = Tallies(sets, {key: key.size for s in sets for key in s})
        columns = {key.place: key.column for s in sets for key in s}
        self._columns = list(columns.values())
        self.names = [column.name for column in self._columns]
        self._problems: list[InputError | None] = [None] * len(self.names)

    def run(self, batches: Iterator["pa.RecordBatch"]) -> dict[tuple[_Key, ...], np.ndarray]:
        """Return the counts of each set, shape (groups of each column), int64.

        Raises
        ------
        InputError
            For all columns with a value that the schema does not take.
        """
        import pyarrow as pa

        with ThreadPoolExecutor(pa.cpu_count()) as threads:
            for batch in batches:
                self._add(batch, threads)
        refuse_all([str(problem) for problem in self._problems if problem is not None])
        return {s: self._tallies.of(s) for s in self.sets}

    def _add(self, batch: "pa.RecordBatch", threads: ThreadPoolExecutor) -> None:
        def encode(i: int) -> np.ndarray | None:
            if self._problems[i] is None:
                try:
                    return _codes(self._columns[i], batch.column(self.names[i]))
                except InputError as error:
                    self._problems[i] = error
            return None

        codes = threads.map(encode, range(len(self.names)))
        of_column = {n: c for n, c in zip(self.names, codes, strict=True) if c is not None}
        if any(self._problems):
            return  # the table is refused, once all its columns were compared with the schema
        self._tallies.add(lambda key: _in_group(of_column[key.column.name], key), threads)


def _codes(column: Column, values: "pa.Array") -> np.ndarray:
    """Return category codes of the values of a batch, shape (n,), in the smallest type that has them."""
    import pyarrow as pa

    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    places = None
    try:
        tried = values.slice(0, TRIED)
        if 2 * len(tried.dictionary_encode("encode").dictionary) <= len(tried):
            values = values.dictionary_encode("encode")
            places, values = values.indices.to_numpy(), values.dictionary
    except pa.ArrowNotImplementedError:
        pass  # of a type that pyarrow does not compare
    series = column_from_arrow(pa.chunked_array([values]), column.name)
    codes = column.encode(column.convert(series)).astype(np.min_scalar_type(column.size))
    return codes if places is None else np.take(codes, places)


def _in_group(codes: np.ndarray, key: _Key) -> np.ndarray:
    if key.by_value:
        return codes
    return np.take(key.group.astype(np.min_scalar_type(key.size)), codes)


def _stamps(files: Iterable[Path]) -> list[tuple[int, ...]]:
    """Return what tells a file from a later one of the same name."""
    stamps = list[tuple[int, ...]]()
    for file in files:
        try:
            about = file.stat()
        except OSError as error:
            raise _unreadable(file, error) from None
        stamps.append((about.st_ino, about.st_size, about.st_mtime_ns))
    return stamps


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
                width = max(1, len(table.schema_arrow))
                size = max(1, min(BATCH_ROWS, BATCH_CELLS // width))
                for batch in table.iter_batches(batch_size=size):
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
