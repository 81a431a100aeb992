"""Counts of many sets of columns of category codes, a batch of rows at a time.

Columns of few codes are counted together, and the counts of single sets follow by sums: all pairs of 100 columns of ten
codes take 1,225 counts of four columns in place of 4,950.
"""

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Generic, TypeVar

import numpy as np

TOGETHER = (256, 64, 16, 1)  # cells of columns that are counted together, the first that has room
UNION_CELLS = 2**16  # of columns that are counted together for several sets
MOST_CELLS = 2**27  # of all counts that go beyond the sets: 1 GiB

K = TypeVar("K", bound=Hashable)


class Tallies(Generic[K]):
    """Counts of sets of columns, which grow by batches of rows.

    Parameters
    ----------
    sets : sequence of tuple
        Columns, by any keys.
    sizes : mapping of int
        The number of codes of each column: they are whole numbers from 0.
    """

    def __init__(self, sets: Sequence[tuple[K, ...]], sizes: Mapping[K, int]) -> None:
        self._sizes = sizes
        for cells in TOGETHER:
            self._union_of = self._unions(sets, cells)
            unions = list(dict.fromkeys(self._union_of.values()))
            if sum(self._cells_of(union) for union in unions) <= MOST_CELLS:
                break
        self._parts = list(dict.fromkeys(part for union in unions for part in union))
        self._counts = {union: np.zeros(self._cells_of(union), dtype=np.int64) for union in unions}

    def add(self, codes: Callable[[K], np.ndarray], threads: ThreadPoolExecutor) -> None:
        """Count a batch of rows; ``codes`` gives those of a column, shape (rows,), in the smallest type for its size."""

        def number(part: tuple[K, ...]) -> np.ndarray:
            return _one_number([codes(key) for key in part], [self._sizes[key] for key in part])

        numbers = dict(zip(self._parts, threads.map(number, self._parts), strict=True))

        def count(union: tuple[tuple[K, ...], ...]) -> None:
            cells = _one_number([numbers[part] for part in union], list(map(self._cells, union)))
            self._counts[union] += np.bincount(cells, minlength=len(self._counts[union]))

        for _ in threads.map(count, self._counts):
            pass

    def of(self, s: tuple[K, ...]) -> np.ndarray:
        """Return counts of a set of columns, shape (codes of each column), int64."""
        union = self._union_of[s]
        keys = [key for part in union for key in part]
        joint = self._counts[union].reshape([self._sizes[key] for key in keys])
        other_axes = tuple(axis for axis, key in enumerate(keys) if key not in s)
        in_set = [key for key in keys if key in s]
        return joint.sum(axis=other_axes).transpose([in_set.index(key) for key in s])

    def _cells(self, keys: Sequence[K]) -> int:
        return math.prod(self._sizes[key] for key in keys)

    def _cells_of(self, union: tuple[tuple[K, ...], ...]) -> int:
        return math.prod(map(self._cells, union))

    def _together_in(self, keys: Sequence[K], limit: int) -> list[tuple[K, ...]]:
        """Return columns in parts of at most ``most`` cells, but single columns may have more; first fit."""
        parts = list[list[K]]()
        for key in keys:
            room = (p for p in parts if self._cells([*p, key]) <= limit)
            part_with_room = next(room, None)
            if part_with_room is None:
                parts.append([key])
            else:
                part_with_room.append(key)
        return [tuple(part) for part in parts]

    def _unions(
        self, sets: Sequence[tuple[K, ...]], limit: int
    ) -> dict[tuple[K, ...], tuple[tuple[K, ...], ...]]:
        """Return the parts that are counted jointly for each set: whole ones where they have few cells, else its own columns."""
        parts = self._together_in(list(dict.fromkeys(key for s in sets for key in s)), limit)
        part_of = {key: part for part in parts for key in part}
        unions = dict[tuple[K, ...], tuple[tuple[K, ...], ...]]()
        for s in sets:
            joint = tuple(dict.fromkeys(part_of[key] for key in s))
            small = self._cells_of(joint) <= UNION_CELLS
            unions[s] = joint if small else tuple((key,) for key in s)
        return _without_parts_of_others(unions)


def _without_parts_of_others(
    unions: dict[tuple[K, ...], tuple[tuple[K, ...], ...]],
) -> dict[tuple[K, ...], tuple[tuple[K, ...], ...]]:
    """Return the unions, with a larger one in place of one whose columns it has as well."""
    keys = {union: frozenset(k for part in union for k in part) for union in unions.values()}
    having = dict[K, list[tuple[tuple[K, ...], ...]]]()
    for union, of in keys.items():
        for key in of:
            having.setdefault(key, []).append(union)
    largest = dict[tuple[tuple[K, ...], ...], tuple[tuple[K, ...], ...]]()
    for union, of in keys.items():
        candidates = min((having[key] for key in of), key=len)
        largest[union] = max(
            (other for other in candidates if of <= keys[other]), key=lambda other: len(keys[other])
        )
    return {s: largest[union] for s, union in unions.items()}


def _one_number(codes: Sequence[np.ndarray], sizes: Sequence[int]) -> np.ndarray:
    """Return one number for each row from several, below the product of ``sizes``."""
    if len(codes) == 1:
        return codes[0]
    small = np.min_scalar_type(math.prod(sizes))
    numbers = codes[0].astype(small)
    for further, size in zip(codes[1:], sizes[1:], strict=True):
        numbers *= small.type(size)
        numbers += further
    return numbers
