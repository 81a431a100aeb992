"""Private rows with what they stand for: category codes, survey weights, and the unit that each row is of."""

import hashlib
import math
import secrets
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from tempfile import TemporaryFile, gettempdir
from typing import IO, TypeVar

import numpy as np
import pandas as pd

from tabsynth.design import Design
from tabsynth.errors import InputError, one_line
from tabsynth.schema.cells import with_plain_cells

R = TypeVar("R")
KEY_BYTES = 16


@dataclass(frozen=True, eq=False)
class Rows:
    """Encoded rows of a table with survey weights or units, after what one unit adds was bounded.

    Attributes
    ----------
    codes : ndarray, shape (n, columns)
        Category codes.
    weights : ndarray, shape (n,), float64, or None
        Multiples of :attr:`tabsynth.design.Design.step` from 0 to the cap; None: each row stands for itself.
    units : ndarray, shape (n,), uint64, or None
        Of each row, the keyed hash of its unit; None: each row is a unit.
    """

    codes: np.ndarray
    weights: np.ndarray | None = None
    units: np.ndarray | None = None

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.codes)


PrivateRows = np.ndarray | Rows  # category codes alone, or with weights and units


def codes_of(rows: PrivateRows) -> np.ndarray:
    """Return the category codes, shape (n, columns)."""
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
        """Return the number of rows."""
        return len(self.codes)


def without_weights(rows: R) -> R:
    """Return the rows without their weights: each counts once. What has none stays as it is."""
    return replace(rows, weights=None) if isinstance(rows, Rows) else rows


def weights_of(rows: PrivateRows) -> np.ndarray | None:
    """Return the weights, shape (n,); None where each row stands for itself."""
    return rows.weights if isinstance(rows, Rows) else None


def name_of(unit: object) -> str:
    """Return the text of a unit's value, by the value alone: 7, 7.0 and 7.00 are one unit, whatever type each has."""
    if isinstance(unit, bool | np.bool_ | float | np.floating) and float(unit).is_integer():
        return str(int(unit))
    if isinstance(unit, Decimal) and unit.is_finite():
        return str(int(unit)) if unit == int(unit) else f"{unit.normalize():f}"
    if (
        isinstance(unit, datetime)
        and unit.tzinfo is None
        and unit == datetime(*unit.timetuple()[:3])
    ):
        return str(unit.date())
    return str(unit)


def names_of(units: pd.Series) -> np.ndarray:
    """Return texts of the units of rows, shape (n,), object: each follows from the row's own value alone."""
    cells = with_plain_cells(units.astype(object))
    return np.array([name_of(cell) for cell in cells], dtype=object)


def hash_texts(texts: np.ndarray, key: bytes) -> np.ndarray:
    """Return SipHash of texts, shape (n,), uint64, under a secret key of 16 bytes, of which 7 bits each are used."""
    secret = bytes(byte & 127 for byte in key).decode("ascii")
    data = np.array([text.encode("utf-8", "surrogatepass") for text in texts], dtype=object)
    return pd.util.hash_array(data, hash_key=secret, categorize=False)


def key_of(seed: int | None) -> bytes:
    """Return a secret of 16 bytes, which chooses the rows of a unit that are used; of a seed always the same."""
    if seed is None:
        return secrets.token_bytes(KEY_BYTES)
    return hashlib.blake2b(f"rows of units {int(seed)}".encode(), digest_size=KEY_BYTES).digest()


def rows_within_bound(names: np.ndarray, bound: int, key: bytes) -> np.ndarray:
    """Return which rows stay, bool, shape (n,): of each unit at most ``bound``, chosen by a keyed hash.

    Parameters
    ----------
    names : ndarray of str, shape (n,)
        The unit of each row.
    bound : int
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
    rank = hash_texts(
        np.array([f"{n}\0{i}" for n, i in zip(names, place, strict=True)], object), key
    )
    order = np.lexsort((place, rank))
    used = np.zeros(len(names), dtype=bool)
    ranked = units.iloc[order]
    used[order] = ranked.groupby(ranked).cumcount().to_numpy() < bound
    return used


@dataclass(frozen=True, eq=False)
class Records:
    """Encoded rows of a part of a table, before what one unit adds is bounded.

    Attributes
    ----------
    codes : ndarray, shape (n, columns)
        Category codes.
    weights : ndarray, shape (n,), float64, or None
        As of :class:`Rows`.
    names : ndarray of str, shape (n,), or None
        The name of the unit of each row, where the schema declares units.
    """

    codes: np.ndarray
    weights: np.ndarray | None = None
    names: np.ndarray | None = None

    def within_bound(self, design: Design, key: bytes) -> PrivateRows:
        """Return the rows: at most so many of one unit as the design says, which the secret ``key`` of 16 bytes chooses."""
        if self.names is None:
            return self.codes if self.weights is None else Rows(self.codes, self.weights)
        used = rows_within_bound(self.names, design.rows, key)
        weights = None if self.weights is None else self.weights[used]
        return Rows(self.codes[used], weights, hash_texts(self.names[used], key))


def records_of(
    codes: np.ndarray, table: pd.DataFrame, design: Design, decimal: str | None
) -> Records:
    """Return category codes with the weights and the names of units of the rows that they are of.

    Parameters
    ----------
    codes : ndarray, shape (n, columns)
        Category codes of the table's rows, in their order.
    table : DataFrame
        It has no problems: see :meth:`Design.problems`.
    design : Design
    decimal : str, optional
        The decimal mark of weights that are texts.
    """
    weights = None if design.weight is None else design.weights(table, decimal)
    if design.unit is None:
        return Records(codes, weights)
    columns = [str(name) for name in table.columns]
    return Records(codes, weights, names_of(table.iloc[:, columns.index(design.unit)]))


def rows_of(
    codes: np.ndarray, table: pd.DataFrame, design: Design, key: bytes, decimal: str | None
) -> PrivateRows:
    """Return rows with their weights and units, as :func:`records_of` and :meth:`Records.within_bound` have them."""
    return records_of(codes, table, design, decimal).within_bound(design, key)


def store_records(parts: Iterable[Records], sizes: Sequence[int], design: Design) -> Records:
    """Return the records of all parts of a table; codes and weights are in temporary files that are mapped to memory.

    The files are in the folder that ``TMPDIR`` names. They have mode 0600 and no name, so that the system frees them
    with the rows, however the process ends. Codes take the smallest unsigned integer type that has those of all columns.

    Parameters
    ----------
    parts : iterable of Records
        In the order of the rows.
    sizes : sequence of int
        The number of codes of each column.
    design : Design
        Whether there are weights and names of units follows from it, also where there is no row.

    Raises
    ------
    InputError
        If there is no room for the files.
    """
    dtype = np.min_scalar_type(max(sizes) - 1)
    rows, names = 0, [np.empty(0, dtype=object)]
    with _room_on_disk():
        codes, weights = TemporaryFile(), TemporaryFile()  # noqa: SIM115
    with codes, weights:
        for part in parts:
            with _room_on_disk():
                codes.write(np.ascontiguousarray(part.codes, dtype=dtype).data)
                if part.weights is not None:
                    weights.write(np.ascontiguousarray(part.weights).data)
            rows += len(part.codes)
            if part.names is not None:
                names.append(part.names)
        with _room_on_disk():
            codes.flush()
            weights.flush()
        return Records(
            _map_file(codes, dtype, (rows, len(sizes))),
            None if design.weight is None else _map_file(weights, np.dtype(np.float64), (rows,)),
            None if design.unit is None else np.concatenate(names),
        )


@contextmanager
def _room_on_disk() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise InputError(
            f"Cannot write category codes to {gettempdir()}: {one_line(error)}; make room, or set TMPDIR to another"
            " folder."
        ) from None


def _map_file(file: IO[bytes], dtype: np.dtype, shape: tuple[int, ...]) -> np.ndarray:
    """Return what a file holds, as an array that is mapped to it."""
    if not math.prod(shape):  # nothing can be mapped
        return np.empty(shape, dtype)
    return np.memmap(file, dtype, "r+", shape=shape)
