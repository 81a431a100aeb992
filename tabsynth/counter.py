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
from tabsynth.encoding.table import column_to_index
from tabsynth.errors import InputError
from tabsynth.privacy.counts import Groups, count_rows
from tabsynth.schema import Schema
from tabsynth.tables import as_declared, to_pandas


class RowCounter(ABC):
    """A private table that answers "how many rows have these values?".

    Subclasses define :meth:`count`, for instance as ``SELECT a, b, COUNT(*) … GROUP BY a, b``.

    Formal guarantees
    -----------------
    None of its own: the guarantee of a fit holds if each record of the table is counted once in each
    answer, and the answers are of one unchanging table. No row is seen here, so that combinations which
    the schema declares impossible are not refused, as they are of a DataFrame.
    """

    @abstractmethod
    def count(self, columns: tuple[str, ...]) -> Any:
        """Exact counts of the values of one, two or three columns.

        Parameters
        ----------
        columns : tuple of str

        Returns
        -------
        DataFrame
            These columns, in this order, a row a combination of values that occurs, and a last column:
            the number of rows that have it. pandas, or any that narwhals reads.
        """


class ParquetCounter(RowCounter):
    """The rows of a Parquet file, or of all that are in a folder, counted a batch at a time.

    Parameters
    ----------
    path : path
    """

    def __init__(self, path: str | Path) -> None:
        import pyarrow.dataset as pads

        try:
            self._rows = pads.dataset(str(path), format="parquet")
        except (OSError, ValueError) as error:
            raise InputError(f"Cannot read {path}: {str(error).splitlines()[0]}") from None

    def count(self, columns: tuple[str, ...]) -> pd.DataFrame:
        """As :meth:`RowCounter.count`."""
        import pyarrow as pa

        if missing := [name for name in columns if name not in self._rows.schema.names]:
            raise InputError(
                f"Column {shown(missing[0])} is missing from the counted table; add it."
            )
        parts = []
        for batch in self._rows.to_batches(columns=list(columns)):
            rows = pa.Table.from_batches([batch])
            parts.append(rows.group_by(list(columns)).aggregate([([], "count_all")]))
        if not parts:
            return pd.DataFrame(columns=[*columns, "count"])
        once = pa.concat_tables(parts, promote_options="permissive")
        found = once.group_by(list(columns)).aggregate([("count_all", "sum")])
        counted: pd.DataFrame = found.to_pandas()
        return counted


def count_by(
    schema: Schema, rows: RowCounter, columns: Sequence[int], groups: Groups
) -> np.ndarray:
    """Exact counts of groups of value numbers, as :func:`tabsynth.privacy.counts.count_rows` has them.

    Raises
    ------
    InputError
        If an answer is not of the asked form, or has a value that the schema does not declare.
    """
    named = [schema.columns[j] for j in columns]
    names = tuple(column.name for column in named)
    found = to_pandas(rows.count(names), "answer of count()")
    if found.shape[1] != len(names) + 1:
        raise InputError(
            f"count({names}) must answer with {len(names) + 1} columns, the last of counts; got"
            f" {found.shape[1]}."
        )
    times = pd.to_numeric(found.iloc[:, -1], errors="coerce").to_numpy(dtype=float, na_value=np.nan)
    if not (np.isfinite(times) & (times >= 0) & (times % 1 == 0)).all():
        raise InputError(
            f"count({names}) must answer with whole numbers from 0 in its last column."
        )
    index = [
        column_to_index(column, as_declared(column, found.iloc[:, i].rename(column.name)))
        for i, column in enumerate(named)
    ]
    asked = range(len(named))
    return count_rows(np.stack(index, axis=1), asked, [groups[j] for j in columns], times)
