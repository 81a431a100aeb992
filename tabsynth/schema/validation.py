"""Everything in a table that a schema does not take, found at once.

The check is a local tool for whoever holds the table: what it returns shows values of the table, and no
privacy budget covers them.
"""

import re
from collections.abc import Callable, Hashable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from tabsynth._validate import native
from tabsynth.errors import InputError
from tabsynth.schema.cells import OtherObject, is_null
from tabsynth.schema.column import Column

MOST_VALUES = 10  # that are counted for each column
# In messages, which are alike but for them.
_VALUES = re.compile(r"'[^']*'|\"[^\"]*\"|-?\d[-+.\de]*")


@dataclass(frozen=True)
class Problem:
    """A problem: a part of a table that its schema does not take. Its text is the message.

    Attributes
    ----------
    column : str or None
        The name of the column; None for a problem of several columns or of the whole table.
    value : object
        The value that does not fit, or the first of several; None for a null, and where no single value is meant.
    message : str
        One line with the column, the value, the remedy, and how many other values have the same problem.
    """

    column: str | None
    value: Any
    message: str

    def __str__(self) -> str:
        """Return it in words."""
        return self.message


def value_problems(
    column: Column, values: pd.Series, read: Callable[[pd.Series], pd.Series]
) -> tuple[list[Problem], np.ndarray]:
    """Return a problem for each way in which values do not fit a column, and category codes.

    Parameters
    ----------
    column : Column
    values : Series, shape (n,)
    read : callable
        What makes values of the column's dtype of a Series, such as :meth:`Column.parse`.

    Returns
    -------
    problems : list of Problem
    codes : ndarray, shape (n,), int64
        -1 where the value is not taken.

    Notes
    -----
    A column works value by value. So the values that it refuses are found by halving the distinct ones, up to
    :data:`MOST_VALUES`. A problem says of its first value that the same holds for a number of others: at least so many where
    there are more.
    """
    try:
        return [], column.encode(read(values))
    except InputError:
        pass
    codes = np.full(len(values), -1, dtype=np.int64)
    rows, distinct = _distinct(values)
    alike: dict[str, list[Problem]] = {}
    parts = [np.arange(len(distinct))]
    while parts and sum(map(len, alike.values())) <= MOST_VALUES:
        part = parts.pop()
        try:
            part_codes = column.encode(read(distinct.iloc[part]))
        except InputError as error:
            if len(part) == 1:
                value = native(distinct.iloc[part[0]])
                if isinstance(value, OtherObject):
                    value = value.cell
                none = None if is_null(value) else value
                problem = Problem(column.name, none, str(error))
                alike.setdefault(_VALUES.sub("", str(error)), []).append(problem)
            else:
                half = len(part) // 2
                parts += [part[half:], part[:half]]
            continue
        codes_of = np.full(len(distinct), -1, dtype=np.int64)
        codes_of[part] = part_codes
        codes = np.where(codes_of[rows] >= 0, codes_of[rows], codes)
    least = "at least " * bool(parts)
    problems = []
    for first, *others in alike.values():
        more = f" The same holds for {least}{len(others)} other value{'s' * (len(others) > 1)}."
        problems.append(replace(first, message=first.message + more * bool(others)))
    return problems, codes


def _distinct(values: pd.Series) -> tuple[np.ndarray, pd.Series]:
    """Return the number of each row's value among the distinct ones, shape (n,); and these, by their first row."""
    if values.dtype != object:
        rows, _ = pd.factorize(values, use_na_sentinel=False)
    else:  # where 1, 1.0 and True are equal
        numbers: dict[Any, int] = {}
        rows = np.array([numbers.setdefault(_key(v), len(numbers)) for v in values], dtype=np.int64)
    _, first = np.unique(rows, return_index=True)
    return rows, values.iloc[first]


def _key(value: object) -> Hashable:
    if not isinstance(value, Hashable):
        return ("object", id(value))
    return None if is_null(value) else (type(value), value)
