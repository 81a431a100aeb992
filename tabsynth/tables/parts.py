"""A table in two parts: rows for a fit, and others that are kept apart for its evaluation."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from tabsynth.schema.schema import Schema
from tabsynth.tables.files import write_table


def keep_apart(
    table: pd.DataFrame, share: float, seed: int, unit: str | None = None
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the rows for a fit, and those that are kept apart, each in the order of the table.

    Parameters
    ----------
    table : DataFrame, shape (n, columns)
    share : float
        The expected share of the rows that are kept apart, a public number from 0 to 1.
    seed : int
        Drawn anew for each table and kept with it.
    unit : str, optional
        A column that says of which unit a row is. All rows of a unit are in one part.

    Formal guarantees
    -----------------
    Each record, or unit, is drawn by itself. So tables that differ by one record have, for the same draws of the others,
    parts that differ by at most that record, and the (ε, δ) of a fit of one part is that of the whole table.
    """
    places = np.arange(len(table)) if unit is None else pd.factorize(table[unit])[0]
    drawn = np.random.default_rng(seed).random(places.max(initial=-1) + 2) < share
    return table[~drawn[places]], table[drawn[places]]


def write_parts(
    table: pd.DataFrame,
    schema: Schema,
    files: Sequence[Any],
    share: float,
    seed: int,
    *,
    overwrite: bool = False,
) -> None:
    """Write both parts of :func:`keep_apart` to text files that only the owner can read."""
    for part, file in zip(keep_apart(table, share, seed, schema.unit), files, strict=True):
        write_table(part, file, formulas="keep", decimal=schema.decimal, overwrite=overwrite)
        Path(file).chmod(0o600)


def are_parts(table: pd.DataFrame, parts: Sequence[pd.DataFrame]) -> bool:
    """Return whether the rows of a table are those of its parts together, in any order."""
    hashes = [pd.util.hash_pandas_object(t, index=False) for t in (table, pd.concat(parts))]
    first, second = map(np.sort, hashes)
    return np.array_equal(first, second)
