"""Tables that count their own rows: all that MargNet needs of a table too large for memory.

A counter is asked for exact counts; the ledger is asked before, and the noise is added here. What answers may
be a database, a cluster, or a folder of files.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from tabsynth._validate import shown
from tabsynth.errors import InputError, one_line
from tabsynth.privacy.noise.counts import Groups, by_value, count_rows
from tabsynth.schema.schema import Schema
from tabsynth.tables.arrow_files import is_plain
from tabsynth.tables.frames import table_from_arrow, to_pandas, value_type

MOST_PROBLEMS = 5  # listed in one error


class RowCounter(ABC):
    """A private table that answers "how many rows have these values?".

    Subclasses define :meth:`count`, for instance as ``SELECT a, b, COUNT(*) … GROUP BY a, b``; :meth:`count_all`,
    where they answer many sets of columns faster together; and :meth:`check`, where they can determine before anything
    is charged that they will not answer.

    Formal guarantees
    -----------------
    None of its own: the guarantee of a fit holds if each record of the table is counted once in each
    answer, and the answers are of one unchanging table. Before anything is charged, :func:`check_values` asks for
    the values of each column by itself: nothing follows from the answers but that a table with an undeclared
    value is refused, as a DataFrame is. No row is seen here, so that combinations which the schema
    declares impossible are not refused.
    """

    most_cells: int | None = None  # that one answer may have; None: any number

    @abstractmethod
    def count(self, columns: tuple[str, ...]) -> Any:
        """Exact counts of the values of one, two or three columns.

        Parameters
        ----------
        columns : tuple of str

        Returns
        -------
        DataFrame
            These columns, by name, a row a combination of values that occurs, and a last column: the
            number of rows that have it. pandas, or any that narwhals reads.
        """

    def count_all(
        self,
        schema: Any,
        sets: Sequence[tuple[int, ...]],
        groups: Sequence[Groups] | None = None,
    ) -> list[np.ndarray]:
        """Exact counts of many sets of columns in category codes: all that one release needs.

        By default :meth:`count` is asked for each set. Subclasses that can answer all sets in one scan of their rows
        override this method.

        Parameters
        ----------
        schema : Schema
            Its columns encode values, as those of a DataFrame.
        sets : sequence of tuple of int
            Places of columns in the schema.
        groups : sequence of Groups, optional
            For each set the group of each code of *every* column of the schema. Default: each code by itself.

        Returns
        -------
        list of ndarray, shape (groups of each column of the set), float64

        Raises
        ------
        InputError
            If the table has undeclared values or cannot be counted: one error for the problems of all sets.
        """
        by = [by_value(schema.sizes)] * len(sets) if groups is None else groups
        problems, counts = list[str](), list[np.ndarray]()
        for columns, group in zip(sets, by, strict=True):
            try:
                counts.append(count_by(schema, self, columns, group))
            except InputError as error:
                problems.append(str(error))
        refuse_all(problems)
        return counts

    def check(self, schema: Schema) -> None:  # noqa: B027  (most have nothing to check)
        """Called before a fit spends: refuse here a table that the schema does not fit. Reads no row.

        Raises
        ------
        InputError
        """


class ParquetCounter(RowCounter):
    """The rows of a Parquet file, or of all ``.parquet`` files in a folder, counted a batch at a time.

    Memory is that of the distinct values of up to three columns: of columns of reals that hardly repeat, some
    200 bytes a row.

    Parameters
    ----------
    path : path
        Of a folder, folders in it count too; hidden files, and those that begin with ``_``, do not.
        Files that come later are not counted.

    Raises
    ------
    InputError
        If there is no such file, or one that is no Parquet table.
    """

    def __init__(self, path: str | Path) -> None:
        self._files = {file: _opened(file) for file in _parquet_files(Path(path))}

    def check(self, schema: Schema) -> None:
        """As :meth:`RowCounter.check`: each file has each column, of a plain kind that all share."""
        import pyarrow as pa

        shared = pa.schema([])
        for file, rows in self._files.items():
            own = rows.schema
            for name in schema.names:
                if name not in own.names:
                    raise InputError(f"{file}: column {shown(name)} is missing; add it.")
                if not is_plain(own.field(name).type, pa.types):
                    kind = shown(str(own.field(name).type))
                    raise InputError(
                        f"{file}: column {shown(name)} holds {kind}; unfold or convert it."
                    )
            kinds = pa.schema([(name, value_type(own.field(name).type)) for name in schema.names])
            try:
                shared = pa.unify_schemas([shared, kinds], promote_options="permissive")
            except pa.ArrowException as error:
                raise InputError(
                    f"{file} does not fit the files before it: {one_line(error)}; convert one."
                ) from None

    def count(self, columns: tuple[str, ...]) -> pd.DataFrame:
        """As :meth:`RowCounter.count`."""
        import pyarrow as pa

        # Names of our own: a column may be called as what pyarrow adds.
        places = [str(i) for i in range(len(columns))]
        parts: dict[Any, list[Any]] = {}
        for file, rows in self._files.items():
            try:
                for batch in rows.to_batches(columns=list(columns)):
                    part = pa.Table.from_batches([batch]).rename_columns(places)
                    once = part.group_by(places).aggregate([([], "count_all")])
                    kinds = pa.schema([(f.name, value_type(f.type)) for f in once.schema])
                    parts.setdefault(kinds, []).append(once.cast(kinds))
            except (OSError, pa.ArrowException) as error:
                raise _unreadable(file, error) from None
        # Files may hold a column in different types. They are never brought to one type, for whole numbers
        # would change where another file has the column as floats.
        counted = [_together(tables, places) for tables in parts.values()]
        if not counted:
            return pd.DataFrame(columns=[*columns, "count"])
        if len(counted) > 1:
            counted = [counts.astype(object) for counts in counted]
        return pd.concat(counted, ignore_index=True).set_axis([*columns, "count"], axis=1)


def _together(tables: Sequence[Any], places: Sequence[str]) -> pd.DataFrame:
    """Counts of tables of one schema, each combination of values once."""
    import pyarrow as pa

    counts = pa.concat_tables(tables).group_by(list(places)).aggregate([("count_all", "sum")])
    return table_from_arrow(counts)


def _parquet_files(path: Path) -> list[Path]:
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


def _opened(file: Path) -> Any:
    """A file as a dataset: its schema is read, and no row."""
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


def check_values(schema: Schema, rows: RowCounter) -> None:
    """Refuse a counter with values that the schema does not declare, before anything is charged.

    Each column is requested separately, and one error names all problems. The counts are not looked at, but that they are
    whole numbers. What a refusal reveals is what it reveals of a DataFrame: that some record has that value.

    Raises
    ------
    InputError
    """
    rows.count_all(schema, [(j,) for j in range(len(schema.columns))])


def refuse_all(problems: Sequence[str]) -> None:
    """One InputError for problems of several columns, if there are any."""
    different = list(dict.fromkeys(problems))
    if different:
        listed = different[:MOST_PROBLEMS]
        more = len(different) - len(listed)
        raise InputError(
            " ".join([*listed, *([f"And {more} more columns do not fit."] if more else [])])
        )


def count_by(
    schema: Schema, rows: RowCounter, columns: Sequence[int], groups: Groups
) -> np.ndarray:
    """Exact counts of groups of category codes, as :func:`tabsynth.privacy.noise.counts.count_rows` has them.

    Raises
    ------
    InputError
        If an answer is not of the asked form, or has a value that the schema does not declare.
    """
    index, times = _answer(schema, rows, columns)
    return count_rows(index, range(len(columns)), [groups[j] for j in columns], times)


def _answer(
    schema: Schema, rows: RowCounter, columns: Sequence[int]
) -> tuple[np.ndarray, np.ndarray]:
    """Category codes of the answer's rows, shape (rows, columns), and how often each occurs, shape (rows,)."""
    named = [schema.columns[j] for j in columns]
    names = tuple(column.name for column in named)
    answer = to_pandas(rows.count(names), "answer of count()")
    if answer.shape[1] != len(names) + 1:
        raise InputError(
            f"count({names}) must answer with {len(names) + 1} columns, the last of counts; got"
            f" {answer.shape[1]}."
        )
    answered = [str(name) for name in answer.columns[:-1]]
    if sorted(answered) != sorted(names):
        raise InputError(
            f"count({names}) must answer with columns of these names; got {shown(answered, 120)}."
        )
    times = pd.to_numeric(answer.iloc[:, -1], errors="coerce").to_numpy(
        dtype=float, na_value=np.nan
    )
    if not (np.isfinite(times) & (times >= 0) & (times % 1 == 0)).all():
        raise InputError(
            f"count({names}) must answer with whole numbers from 0 in its last column."
        )
    index = [
        column.encode(
            column.convert(answer.iloc[:, answered.index(column.name)].rename(column.name))
        )
        for column in named
    ]
    return np.stack(index, axis=1), times
