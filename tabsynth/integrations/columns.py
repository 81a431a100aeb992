"""The columns of another program's table, which expects a synthetic table of the same columns and types."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import pandas as pd

from tabsynth._validate import quote
from tabsynth.errors import InputError


@dataclass(frozen=True)
class Columns:
    """Names and dtypes of a table, which are public, as for every fit without a schema; nothing of its rows.

    Attributes
    ----------
    dtypes : dict
        From the name of each column to its pandas dtype, in the order of the table.
    keys : frozenset of str
        Columns that identify records. They are not learned, and synthetic rows get new keys.
    """

    dtypes: dict[str, str]
    keys: frozenset[str] = frozenset()

    @classmethod
    def of(cls, table: pd.DataFrame, keys: Collection[str] = ()) -> "Columns":
        """Make it of a table whose columns have texts as names.

        Raises
        ------
        InputError
        """
        if not isinstance(table, pd.DataFrame):
            raise InputError(f"Expected a pandas DataFrame, got {quote(table)}.")
        for name in table.columns:
            if not isinstance(name, str):
                raise InputError(f"Column {quote(name)} has no text as its name; rename it.")
        named = zip(table.columns, table.dtypes, strict=True)
        # The categories of a categorical column would be values of rows.
        dtypes = {
            name: "object" if isinstance(dtype, pd.CategoricalDtype) else str(dtype)
            for name, dtype in named
        }
        return cls(dtypes, frozenset(keys) & dtypes.keys())

    @property
    def learned_columns(self) -> list[str]:
        """The columns that are no keys."""
        return [name for name in self.dtypes if name not in self.keys]

    def complete(self, sample: pd.DataFrame) -> pd.DataFrame:
        """Return a sample with all columns of the table, in its order and, where the values allow it, its dtypes.

        Keys are numbered again. A column that the fit left out is missing in every row.
        """
        series = {}
        for name, dtype in self.dtypes.items():
            if name in self.keys:
                series[name] = _row_numbers(sample.index, dtype)
            elif name in sample.columns:
                series[name] = _as(sample[name], dtype)
            else:
                series[name] = pd.Series(None, index=sample.index, dtype=object)
        return pd.DataFrame(series, columns=[*self.dtypes])


def _row_numbers(index: pd.Index, dtype: str) -> pd.Series:
    numbers = pd.Series(range(len(index)), index=index)
    if dtype.lower().startswith(("int", "uint", "float")):
        return _as(numbers, dtype)
    return "synthetic-" + numbers.astype(str)


def _as(values: pd.Series, dtype: Any) -> pd.Series:
    """Return values in a dtype; as they are where one of them has no place in it, such as a missing whole number."""
    try:
        return values.astype(dtype)
    except (TypeError, ValueError, OverflowError):
        return values
