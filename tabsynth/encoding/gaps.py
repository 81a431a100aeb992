"""Gaps between the rows of one parent: how far a date or a number is from that of the row before.

A table whose keys declare gaps of a column has one more column for each, which is modelled like any other: the difference
from the row before of the same parent, in cells that follow from the column's bounds. In synthetic rows the value of a row
is then that of the row before and the gap.

On 2,000 made-up roots with up to five dates, half of them after 7, 14, 28 or 90 days and up to two more, cells of a month give
a total variation distance of gaps of 0.43 at ε = 8 and 0.44 at ε = 1. With columns of gaps it is 0.05 and 0.32.
"""

import numpy as np

from tabsynth.schema.column import Column
from tabsynth.schema.numeric import Numeric
from tabsynth.schema.schema import Schema

GAP = ": since the row before"
RELATIVE = 16  # cells of large gaps are this part of where they begin
HALVINGS = 12  # of the range, to the finest cells of gaps of a column without steps


def is_gap(name: str) -> bool:
    """Return whether a column is one of gaps, by its name."""
    return name.endswith(GAP)


def gap_column(column: Column) -> Numeric:
    """Return the column of gaps of an ordered column: null in the first row of a parent.

    Cells are single steps of the column below 32 steps, and a sixteenth of where they begin from there on. A column without
    steps has cells like that of its range over 2¹².
    """
    lows, highs = column.code_amounts()
    span = float(np.nanmax(highs) - np.nanmin(lows))
    step = column.amount_step
    unit = step or span / 2**HALVINGS
    multiples = [1.0]
    while multiples[-1] * unit < span:
        multiples.append(multiples[-1] + max(1.0, multiples[-1] // RELATIVE))
    breaks = tuple(unit * m for m in multiples if unit * m < span)
    return Numeric(
        name=f"{column.name}{GAP}",
        dtype="float64",
        nulls=True,
        low=0.0,
        high=max(span, unit),
        breaks=breaks,
        resolution=step,
    )


def with_gaps(schema: Schema, names: tuple[str, ...]) -> Schema:
    """Return the schema with the columns of gaps of some of its columns, in their order, as the last ones."""
    if not names:
        return schema
    return schema.replace(columns=[*schema.columns, *(gap_column(schema[name]) for name in names)])


def gaps_between(
    column: Column, amounts: np.ndarray, parent: np.ndarray, place: np.ndarray
) -> np.ndarray:
    """Return how far each amount is from that of the row before of the same parent, shape (n,); NaN for first rows.

    Amounts beyond the column's bounds count as these, and a decrease as 0. A gap follows from the rows of its parent alone.

    Parameters
    ----------
    amounts : ndarray, shape (n,)
    parent : ndarray, shape (n,)
        The number of each row's parent.
    place : ndarray, shape (n,)
        By what rows of one parent are ordered; ties keep the order of the table.
    """
    lows, highs = column.code_amounts()
    order = np.lexsort((np.arange(len(parent)), place, parent))
    sorted_amounts = np.clip(amounts, np.nanmin(lows), np.nanmax(highs))[order]
    sorted_parent = parent[order]
    gaps = np.diff(sorted_amounts, prepend=np.nan)
    gaps[np.diff(sorted_parent, prepend=-1) != 0] = np.nan
    out = np.full(len(parent), np.nan)
    out[order] = np.maximum(gaps, 0.0)
    return out


def from_gaps(
    column: Column, amounts: np.ndarray, gaps: np.ndarray, parent: np.ndarray, position: np.ndarray
) -> np.ndarray:
    """Return amounts of which each, but the first of a parent, is that of the row before and the gap.

    Where the gaps of a parent lead beyond the upper bound, all of them are shorter in proportion, and leave half a gap after the
    last row. Rows of one parent follow each other in the order of their positions. The amounts of a parent depend on its own rows alone.
    """
    highest = float(np.nanmax(column.code_amounts()[1]))
    starts = np.flatnonzero(position == 0)
    if not len(starts):
        return amounts.copy()
    number = np.diff(np.append(starts, len(amounts)))
    # Sums of each parent by itself: differences of one sum of all rows would be rounded by the gaps of other parents.
    after = np.zeros(len(amounts))
    for place in range(1, int(number.max())):
        at = starts[number > place] + place
        after[at] = after[at - 1] + gaps[at]
    room, last = highest - amounts[starts], after[starts + number - 1]
    within = room * (number - 1) / (number - 0.5)
    shorter = np.divide(within, last, np.ones(len(starts)), where=last > np.maximum(room, 0.0))
    first = np.minimum(np.repeat(amounts[starts], number), highest)
    return np.minimum(first + after * np.repeat(shorter.clip(0.0, 1.0), number), highest)
