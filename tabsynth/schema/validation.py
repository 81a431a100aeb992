"""Everything in a table that a schema does not take, found at once.

The check is a local tool for whoever holds the table: what it returns shows values of the table, and no
privacy budget covers them.
"""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from tabsynth._validate import native, quote
from tabsynth.errors import InputError
from tabsynth.schema.cells import OtherObject, is_null
from tabsynth.schema.column import Column

MOST_VALUES = 10  # listed for each column


@dataclass(frozen=True)
class Problem:
    """A problem: a part of a table that its schema does not take. Its text is the message.

    Attributes
    ----------
    column : str or None
        The name of the column; None for a problem of several columns or of the whole table.
    value : object
        The value that does not fit; None for a null, and where no single value is meant.
    message : str
        One line with the column, the value and the remedy.
    """

    column: str | None
    value: Any
    message: str

    def __str__(self) -> str:
        """Return it in words."""
        return self.message


def column_problems(
    names: Sequence[str], declared: Sequence[str], optional: Sequence[str]
) -> list[Problem]:
    """Return columns of a table that are missing, unknown or there twice.

    Parameters
    ----------
    names : sequence of str
        The table's columns.
    declared, optional : sequence of str
        The columns that it must have, and others that it may have.
    """
    out = []
    for name in dict.fromkeys(names):
        if names.count(name) > 1:
            out.append((name, "is in the table twice; rename or drop one."))
        elif name not in declared and name not in optional:
            out.append((name, "is not in the schema; drop it, or declare it in the schema."))
    missing = "is missing from the table; add it, or take it out of the schema."
    out += [(name, missing) for name in declared if name not in names]
    return [Problem(name, None, f"Column {quote(name)} {text}") for name, text in out]


def value_problems(
    column: Column, values: pd.Series, read: Callable[[pd.Series], pd.Series]
) -> tuple[list[Problem], np.ndarray]:
    """Return values that a column does not take, each once and at most :data:`MOST_VALUES`; and category codes.

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
    A column works value by value. So the values that it refuses are found by halving the distinct ones.
    """
    try:
        return [], column.encode(read(values))
    except InputError:
        pass
    codes = np.full(len(values), -1, dtype=np.int64)
    rows, distinct = _distinct(values)
    problems: list[Problem] = []
    parts = [np.arange(len(distinct))]
    while parts and len(problems) <= MOST_VALUES:
        part = parts.pop()
        try:
            part_codes = column.encode(read(distinct.iloc[part]))
        except InputError as error:
            if len(part) == 1:
                value = native(distinct.iloc[part[0]])
                if isinstance(value, OtherObject):
                    value = value.cell
                none = None if is_null(value) else value
                problems.append(Problem(column.name, none, str(error)))
            else:
                half = len(part) // 2
                parts += [part[half:], part[:half]]
            continue
        codes_of = np.full(len(distinct), -1, dtype=np.int64)
        codes_of[part] = part_codes
        codes = np.where(codes_of[rows] >= 0, codes_of[rows], codes)
    if len(problems) > MOST_VALUES:
        message = f"Column {quote(column.name)}: more of its values do not fit the schema."
        problems[MOST_VALUES:] = [Problem(column.name, None, message)]
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
