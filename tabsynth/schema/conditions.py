"""Values and ranges that conditions and rules name."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from tabsynth._validate import quote
from tabsynth.errors import InputError
from tabsynth.schema.cells import is_null, is_range, plain, range_ends
from tabsynth.schema.facts import ColumnFacts
from tabsynth.schema.missing import reason_place


@dataclass(frozen=True, eq=False)
class Restriction:
    """The part of a column that a condition leaves, which is any of some values and ranges.

    Attributes
    ----------
    shares : ndarray, shape (size,)
        The share of each code's values that it allows: bool, or float in [0, 1].
    partly : ndarray, shape (size,), bool
        The codes of which it allows some values and others not.
    within : object
        What limits the values that codes are decoded to; None where each code is allowed as a whole or not.
    details : ndarray or None
        Which codes of :attr:`tabsynth.schema.column.Column.detail` it allows; None for all.
    admits : callable or None
        From values to those that it allows, bool, where it allows a part of a code.
    """

    shares: np.ndarray
    partly: np.ndarray
    within: Any = None
    details: np.ndarray | None = None
    admits: Callable[[pd.Series], np.ndarray] | None = None

    def allows(self, column: ColumnFacts, values: pd.Series) -> np.ndarray:
        """Return which values of a column, all of them declared, it allows; bool, shape (n,)."""
        allowed = self.shares[column.encode(values)] > 0
        return allowed if self.admits is None else allowed & self.admits(values)


def restriction_by_code(column: ColumnFacts, values: Sequence[object], where: str) -> Restriction:
    """Return the restriction to values and ranges of which each fills codes; shape (cells and that of null,)."""
    shares = np.zeros(column.cells + column.nulls, dtype=bool)
    places = {value: code for code, value in enumerate(column.categories)}
    strict = column.strict()

    def code(value: object) -> int:
        if type(value) in (str, int) and value in places:
            return places[value]
        return code_of(strict, value, where)

    for value in values:
        if not is_range(value):
            shares[min(code(value), column.cells)] = True
            continue
        if not column.ordered:
            raise InputError(
                f"{where}: column {quote(column.name)}: a {column.kind} column has no order; list the values."
            )
        low, high = range_ends(value)
        first, last = code(low), code(high)
        if first > last:
            raise InputError(
                f"{where}: column {quote(column.name)}: low={quote(low)} is above high."
            )
        shares[first : last + 1] = True
    return Restriction(shares, np.zeros(len(shares), dtype=bool))


def code_of(column: ColumnFacts, value: object, argument: str = "where") -> int:
    """Return the code of one declared value.

    Raises
    ------
    InputError
        For an undeclared value; it names ``argument``.
    """
    cell = np.empty(1, dtype=object)
    cell[0] = value
    try:
        return int(column.strict().encode(pd.Series(cell, dtype=object))[0])
    except InputError:
        raise has_no(column, value, argument) from None


def has_no(column: ColumnFacts, value: object, argument: str = "where") -> InputError:
    """Return the error for an undeclared value or range of a condition."""
    what = f"value {quote(value)}"
    if is_range(value):
        what = f"value from {value['low']} to {value['high']}"
    return InputError(
        f"{argument}: column {quote(column.name)} has no {what}; it has {column.domain()}."
    )


def condition_value(column: ColumnFacts, value: object) -> Any:
    """Return a value or range of a condition as a certificate names it, JSON-ready: None for null.

    A reason for missing is named by its text, and a number of a column without steps by the range that it stands for.
    """
    if is_range(value):
        ends = zip(("low", "high"), range_ends(value), strict=True)
        return {name: _json_value(end) for name, end in ends}
    if is_null(value):
        return None
    if (place := reason_place(column, value)) >= 0:
        return list(column.missing)[place]
    if column.quantitative and column.amount_step is None:
        code = code_of(column, value)
        low, high = (float(ends[code]) for ends in column.code_amounts())
        return {"low": low, "high": high}
    return _json_value(value)


def _json_value(value: object) -> object:
    value = plain(value)
    return value if isinstance(value, str | int | float | None) else str(value)
