"""Private rows with what they stand for: category codes, survey weights, and the unit that each row is of."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from tabsynth.schema.design import Design

KEY_BYTES = 16


@dataclass(frozen=True, eq=False)
class Rows:
    """Encoded rows of a table with survey weights or units, after what one unit adds was bounded.

    Attributes
    ----------
    codes : ndarray, shape (n, columns), int64
        Category codes.
    weights : ndarray, shape (n,), float64, or None
        Multiples of 2⁻²⁰ from 0 to the cap; None: each row stands for itself.
    units : ndarray, shape (n,), uint64, or None
        Of each row, the keyed hash of its unit; None: each row is a unit.
    """

    codes: np.ndarray
    weights: np.ndarray | None = None
    units: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.codes)


PrivateRows = np.ndarray | Rows  # category codes alone, or with weights and units


def codes_of(rows: PrivateRows) -> np.ndarray:
    """The category codes, shape (n, columns)."""
    return rows.codes if isinstance(rows, Rows) else rows


def weights_of(rows: PrivateRows) -> np.ndarray | None:
    """The weights, shape (n,); None where each row stands for itself."""
    return rows.weights if isinstance(rows, Rows) else None


def hashed(values: pd.Series, key: bytes) -> np.ndarray:
    """SipHash of the texts of values under a secret key of 16 bytes, shape (n,), uint64."""
    texts = values.astype(object).map(str).to_numpy(dtype=object)
    return pd.util.hash_array(texts, hash_key=key.hex()[:KEY_BYTES], categorize=False)


def bounded(units: pd.Series, most: int, key: bytes) -> np.ndarray:
    """Which rows stay, bool, shape (n,): of each unit at most ``most``, chosen by a keyed hash.

    Formal guarantees
    -----------------
    The rows of a unit are numbered in their own order, and the choice among them follows from the unit's name, these
    numbers and the key alone: rows of other units change nothing.
    """
    place = units.groupby(units.to_numpy(), sort=False).cumcount()
    rank = hashed(units.astype(object).map(str) + "\0" + place.astype(str), key)
    order = np.lexsort((place.to_numpy(), rank))
    chosen = units.iloc[order].groupby(units.to_numpy()[order], sort=False).cumcount().to_numpy()
    kept = np.zeros(len(units), dtype=bool)
    kept[order] = chosen < most
    return kept


def rows_of(
    codes: np.ndarray, table: pd.DataFrame, design: Design, key: bytes, decimal: Any
) -> Rows:
    """Rows with their weights and units; at most so many of one unit as its bound says.

    Parameters
    ----------
    codes : ndarray, shape (n, columns)
        Category codes of the table's rows, in their order.
    table : DataFrame
        It has no problems: see :meth:`Design.problems`.
    design : Design
    key : bytes
        Secret, of 16 bytes.
    decimal : str, optional
        The decimal mark of weights that are texts.
    """
    weights = None if design.weight is None else design.weights(table, decimal)
    if design.unit is None:
        return Rows(codes, weights)
    names = [str(name) for name in table.columns]
    units = table.iloc[:, names.index(design.unit)].reset_index(drop=True).astype(object).map(str)
    kept = bounded(units, design.rows, key)
    numbers = hashed(units, key)[kept]
    return Rows(codes[kept], None if weights is None else weights[kept], numbers)
