"""Private rows with what they stand for: category codes, survey weights, and the unit that each row is of."""

import hashlib
import secrets
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from tabsynth.schema.column import with_plain_cells
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
        Multiples of :attr:`tabsynth.schema.design.Design.step` from 0 to the cap; None: each row stands for itself.
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


@dataclass(frozen=True, eq=False)
class SharedRows:
    """Rows that share the weight of the unit of privacy that they are of, such as all persons of a household.

    Attributes
    ----------
    codes : ndarray, shape (n, columns), int64
        Category codes.
    shares : ndarray, shape (n,), float64, or None
        What each row adds to a count: multiples of 2⁻²⁰, at most 1 for all rows of a unit together. None: each row is a
        unit.
    """

    codes: np.ndarray
    shares: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.codes)


def unweighted(rows: Any) -> Any:
    """The rows without their weights: each counts once. What has none stays as it is."""
    return replace(rows, weights=None) if isinstance(rows, Rows) else rows


def weights_of(rows: PrivateRows) -> np.ndarray | None:
    """The weights, shape (n,); None where each row stands for itself."""
    return rows.weights if isinstance(rows, Rows) else None


def units_of(rows: PrivateRows) -> tuple[np.ndarray, np.ndarray] | None:
    """The units in the order of their hashes, shape (units,), and the number of the unit of each row, shape (n,).

    None where each row is a unit.
    """
    if not isinstance(rows, Rows) or rows.units is None:
        return None
    names, unit_of_row = np.unique(rows.units, return_inverse=True)
    return names, unit_of_row


def name_of(unit: Any) -> str:
    """The text of a unit's value, by the value alone: 7 and 7.0 are one unit, whatever dtype its column has."""
    if isinstance(unit, float | np.floating) and float(unit).is_integer():
        return str(int(unit))
    return str(unit)


def names_of(units: pd.Series) -> np.ndarray:
    """Texts of the units of rows, shape (n,), object: each follows from the row's own value alone."""
    cells = with_plain_cells(units.astype(object))
    return np.array([name_of(cell) for cell in cells], dtype=object)


def hashed(texts: np.ndarray, key: bytes) -> np.ndarray:
    """SipHash of texts, shape (n,), uint64, under a secret key of 16 bytes, of which 7 bits each are used."""
    secret = bytes(byte & 127 for byte in key).decode("ascii")
    data = np.array([text.encode("utf-8", "surrogatepass") for text in texts], dtype=object)
    return pd.util.hash_array(data, hash_key=secret, categorize=False)


def key_of(seed: int | None) -> bytes:
    """A secret of 16 bytes, which chooses the rows of a unit that are used; of a seed always the same."""
    if seed is None:
        return secrets.token_bytes(KEY_BYTES)
    return hashlib.blake2b(f"rows of units {int(seed)}".encode(), digest_size=KEY_BYTES).digest()


def bounded(names: np.ndarray, most: int, key: bytes) -> np.ndarray:
    """Which rows stay, bool, shape (n,): of each unit at most ``most``, chosen by a keyed hash.

    Parameters
    ----------
    names : ndarray of str, shape (n,)
        The unit of each row.
    most : int
        Public.
    key : bytes
        Secret, of 16 bytes.

    Formal guarantees
    -----------------
    The rows of a unit are numbered in their own order, and the choice among them follows from the unit's name, these
    numbers and the key alone: rows of other units change nothing.
    """
    units = pd.Series(pd.factorize(names)[0])
    place = units.groupby(units).cumcount().to_numpy()
    rank = hashed(np.array([f"{n}\0{i}" for n, i in zip(names, place, strict=True)], object), key)
    order = np.lexsort((place, rank))
    kept = np.zeros(len(names), dtype=bool)
    ranked = units.iloc[order]
    kept[order] = ranked.groupby(ranked).cumcount().to_numpy() < most
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
    units = names_of(table.iloc[:, names.index(design.unit)])
    kept = bounded(units, design.rows, key)
    numbers = hashed(units[kept], key)
    return Rows(codes[kept], None if weights is None else weights[kept], numbers)
