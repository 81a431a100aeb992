"""Values and ranges that conditions name."""

from typing import Any

import numpy as np
import pandas as pd

from tabsynth._validate import shown
from tabsynth.errors import InputError
from tabsynth.schema.cells import is_range


def code_of(column: Any, value: Any, argument: str = "where", null: str = "") -> int:
    """Return the code of one declared value.

    Raises
    ------
    InputError
        For an undeclared value; it names ``argument``, and ``null`` as what asks for a null.
    """
    cell = np.empty(1, dtype=object)
    cell[0] = value
    try:
        return int(column.strict().encode(pd.Series(cell, dtype=object))[0])
    except InputError:
        raise has_no(column, value, argument, null) from None


def has_no(column: Any, value: Any, argument: str = "where", null: str = "") -> InputError:
    """Return the error for an undeclared value or range of a condition."""
    null = f" (null: {null})" if null and column.nulls else ""
    what = f"value {shown(value)}"
    if is_range(value):
        what = f"value from {value['low']} to {value['high']}"
    return InputError(
        f"{argument}: column {shown(column.name)} has no {what}; it has {column.domain()}{null}."
    )


def undeclared(column: Any, value: Any, where: str) -> InputError:
    """Return the error for an undeclared value of a combination."""
    return InputError(f"{where}: it has no value {shown(value)}; it has {column.domain()}.")
