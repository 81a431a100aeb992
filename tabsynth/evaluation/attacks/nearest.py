"""Hamming distances of records to the rows of a table, and the nearest rows, a record at a time.

Of one-hot codes the Euclidean distance is a monotone image of it. A column is one contiguous array of the
narrowest integers, so that a comparison of a million rows takes tens of microseconds; from one
set of unknown attributes to the next only the newly unknown columns are subtracted.
"""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

CHUNK = 32  # records a task: fixed, so that results do not depend on the number of threads


class Searched:
    """A table that is searched: ``columns[j]`` is contiguous, of the narrowest unsigned integers.

    Parameters
    ----------
    table : ndarray, shape (rows, columns), int64
    sizes : sequence of int
        Number of values of each column.
    """

    def __init__(self, table: np.ndarray, sizes: Sequence[int]) -> None:
        self.rows = len(table)
        self.kind: Any = np.uint8 if len(sizes) < 255 else np.uint16
        self.columns = [
            np.ascontiguousarray(table[:, j], dtype=np.min_scalar_type(max(size - 1, 0)))
            for j, size in enumerate(sizes)
        ]

    def differs(self, record: np.ndarray) -> list[np.ndarray]:
        """For each column, 1 where the row's value is not the record's; arrays of shape (rows,)."""
        return [
            (column != value).view(np.uint8)
            for column, value in zip(self.columns, record, strict=True)
        ]

    def distance(self, differs: Sequence[np.ndarray]) -> np.ndarray:
        """The number of columns that differ, shape (rows,), of type ``kind``."""
        total = np.zeros(self.rows, dtype=self.kind)
        for part in differs:
            total += part
        return total


def threshold(distance: np.ndarray, k: int, start: int | None = None) -> int:
    """The least t such that k rows or more are within distance t.

    ``start``: a distance known to be enough, from which to search downwards.
    """
    if start is None:
        low = int(distance.min())
        high = low if k == 1 else int(distance.max())
        while low < high:  # bisection: each count is one pass over the rows, without a copy
            middle = (low + high) // 2
            if np.count_nonzero(distance <= middle) >= k:
                high = middle
            else:
                low = middle + 1
        return low
    while start > 0 and np.count_nonzero(distance < start) >= k:
        start -= 1
    return start


def nearest(
    distance: np.ndarray, k: int, rng: np.random.Generator, start: int | None = None
) -> tuple[np.ndarray, int]:
    """Positions of the k nearest rows, nearest first, ties in random order; and their `threshold`.

    Of a table of fewer rows, all of them.
    """
    k = min(k, len(distance))
    limit = threshold(distance, k, start)
    inside = np.flatnonzero(distance < limit) if limit else np.empty(0, dtype=np.intp)
    ties = np.flatnonzero(distance == limit)
    need = k - len(inside)
    chosen = ties[rng.choice(len(ties), need, replace=False)]
    if len(inside) > 1:
        inside = inside[rng.permutation(len(inside))]
        inside = inside[np.argsort(distance[inside], kind="stable")]
    return np.concatenate([inside, chosen]), limit


def in_chunks(
    records: np.ndarray,
    work: Callable[[np.ndarray, np.random.Generator], np.ndarray],
    rng: np.random.Generator,
    progress: Callable[[float], None] | None = None,
) -> np.ndarray:
    """``work`` of every 32 records, each with a generator of its own, on all cores; concatenated."""
    parts = [records[i : i + CHUNK] for i in range(0, len(records), CHUNK)]
    generators = rng.spawn(len(parts))
    out = []
    with ThreadPoolExecutor(workers()) as pool:
        for done, found in enumerate(pool.map(work, parts, generators), start=1):
            out.append(found)
            if progress is not None:
                progress(done / len(parts))
    return np.concatenate(out)


def workers() -> int:
    """Threads to use: cores that this process may run on, at most 8."""
    return min(8, len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 2)
