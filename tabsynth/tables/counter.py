"""Tables that count their own rows: all that MargNet needs of a table too large for memory.

A counter is asked for exact counts; the ledger is asked before, and the noise is added here. What answers may
be a database, a cluster, or a folder of files.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd

from tabsynth._validate import quote
from tabsynth.errors import InputError
from tabsynth.privacy.noise.counts import Groups, by_value, count_rows, number_of
from tabsynth.schema.column import Column
from tabsynth.schema.conforming import conform
from tabsynth.schema.schema import Schema
from tabsynth.tables.frames import to_pandas

MOST_PROBLEMS = 5  # listed in one error


class RowCounter:
    """A private table that answers "how many rows have these values?".

    Subclasses define :meth:`count`, for instance as ``SELECT a, b, COUNT(*) … GROUP BY a, b``, or :meth:`count_all`,
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

    def count(self, columns: tuple[str, ...]) -> object:
        """Return exact counts of the values of one, two or three columns.

        Parameters
        ----------
        columns : tuple of str

        Returns
        -------
        DataFrame
            These columns, by name, a row a combination of values that occurs, and a last column: the
            number of rows that have it. pandas, or any that narwhals reads.
        """
        raise NotImplementedError(f"{type(self).__name__} defines neither count nor count_all.")

    def count_all(
        self,
        schema: Schema,
        sets: Sequence[tuple[int, ...]],
        groups: Sequence[Groups] | None = None,
    ) -> list[np.ndarray]:
        """Return exact counts of many sets of columns in category codes: all that one release needs.

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
                counts.append(_count(schema, self, columns, group))
            except InputError as error:
                problems.append(str(error))
        refuse_all(problems)
        return counts

    def parts(self, names: Sequence[str]) -> Iterator[pd.DataFrame]:
        """Yield the columns of these names of all rows, a part at a time, for methods that train on rows.

        Raises
        ------
        InputError
            If the table gives counts alone.
        """
        raise InputError(
            f"{type(self).__name__} gives counts and no rows; fit margnet, or fit a DataFrame or Parquet files."
        )

    def rows(self, schema: Schema) -> Iterator[pd.DataFrame]:
        """Yield all rows, a part at a time and with the schema's dtypes, as an encoder takes them.

        Raises
        ------
        InputError
            If the table does not fit the schema, or gives counts alone.
        """
        self.check(schema)
        design = [name for name in (schema.weight, schema.unit) if name is not None]
        for part in self.parts([*dict.fromkeys([*schema.names, *design])]):
            values = conform(part, schema)
            yield values.assign(**{c.name: c.convert(values[c.name]) for c in schema.columns})

    def check(self, schema: Schema) -> None:
        """Refuse a table that the schema does not fit, before a fit spends. No row is read.

        Raises
        ------
        InputError
        """


@dataclass(frozen=True, eq=False)
class GroupedColumn:
    """A column whose codes are counted in some groups."""

    column: Column
    group: np.ndarray

    @cached_property
    def size(self) -> int:
        """Number of groups."""
        return number_of(self.group)

    @cached_property
    def by_value(self) -> bool:
        """True if each code is a group of its own."""
        return np.array_equal(self.group, np.arange(len(self.group)))


def grouped_columns(
    schema: Schema, sets: Sequence[tuple[int, ...]], groups: Sequence[Groups] | None
) -> list[tuple[GroupedColumn, ...]]:
    """Return what :meth:`RowCounter.count_all` counts: for each set its columns, the same ones in the same groups once."""
    by = [by_value(schema.sizes)] * len(sets) if groups is None else groups
    grouped = dict[tuple[int, bytes], GroupedColumn]()
    return [
        tuple(
            grouped.setdefault((j, group[j].tobytes()), GroupedColumn(schema.columns[j], group[j]))
            for j in columns
        )
        for columns, group in zip(sets, by, strict=True)
    ]


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
    """Return one InputError for problems of several columns, if there are any."""
    different = list(dict.fromkeys(problems))
    if different:
        listed = different[:MOST_PROBLEMS]
        unlisted = len(different) - len(listed)
        raise InputError(
            " ".join([*listed, *([f"And {unlisted} more columns do not fit."] if unlisted else [])])
        )


def _count(schema: Schema, rows: RowCounter, columns: Sequence[int], groups: Groups) -> np.ndarray:
    """Return exact counts of groups of category codes, as :func:`tabsynth.privacy.noise.counts.count_rows` has them.

    Raises
    ------
    InputError
        If an answer is not of the asked form, or has a value that the schema does not declare.
    """
    named = [schema.columns[j] for j in columns]
    names = tuple(column.name for column in named)
    answer = to_pandas(rows.count(names), "answer of count()")
    must = f"count({names}) must answer with"
    if answer.shape[1] != len(names) + 1:
        raise InputError(
            f"{must} {len(names) + 1} columns, the last of counts; got {answer.shape[1]}."
        )
    answered = [str(name) for name in answer.columns[:-1]]
    if sorted(answered) != sorted(names):
        raise InputError(f"{must} columns of these names; got {quote(answered, 120)}.")
    times = pd.to_numeric(answer.iloc[:, -1], errors="coerce").to_numpy(float, na_value=np.nan)
    if not (np.isfinite(times) & (times >= 0) & (times % 1 == 0)).all():
        raise InputError(f"{must} whole numbers from 0 in its last column.")
    index = [
        c.encode(c.convert(answer.iloc[:, answered.index(c.name)].rename(c.name))) for c in named
    ]
    of_columns = [groups[j] for j in columns]
    return count_rows(np.stack(index, axis=1), range(len(columns)), of_columns, times)
