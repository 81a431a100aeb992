"""Hamming distances of records to the rows of a table, and the nearest rows, a record at a time.

Of one-hot codes the Euclidean distance is a monotone image of it. A column is one contiguous array of the
narrowest integers, so that a comparison of a million rows takes tens of microseconds; from one
set of unknown attributes to the next only the newly unknown columns are subtracted.
"""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np

CHUNK = 32  # records a task: fixed, so that results do not depend on the number of threads
KEPT = 2**26  # bytes of comparisons that a searched table keeps
THREADED = 150_000  # rows of a table: in a shorter one, threads wait for each other longer than they compute


class HammingSearch:
    """A table that is searched: ``columns[j]`` is contiguous, of the narrowest unsigned integers.

    Records share values: a column is compared with each of them once, as far as 64 MiB hold.

    Parameters
    ----------
    table : ndarray, shape (rows, columns), int64
    sizes : sequence of int
        Number of values of each column.
    """

    def __init__(self, table: np.ndarray, sizes: Sequence[int]) -> None:
        self.rows = len(table)
        self.kind: np.dtype = np.dtype(np.uint8 if len(sizes) < 255 else np.uint16)
        self.columns = [
            np.ascontiguousarray(table[:, j], dtype=np.min_scalar_type(max(size - 1, 0)))
            for j, size in enumerate(sizes)
        ]
        self._kept: dict[tuple[int, int], np.ndarray] = {}

    def differs(self, record: np.ndarray) -> list[np.ndarray]:
        """Return, for each column, how far the row's value is from the record's; not to be written to."""
        out = []
        for key in enumerate(record.tolist()):
            mismatches = self._kept.get(key)
            if mismatches is None:
                mismatches = self.compare(*key)
                if (len(self._kept) + 1) * self.rows <= KEPT:
                    self._kept[key] = mismatches
            out.append(mismatches)
        return out

    def compare(self, column: int, value: int) -> np.ndarray:
        """Return 1 where the row has another value in this column; uint8, shape (rows,)."""
        return (self.columns[column] != value).view(np.uint8)

    def distance(self, differs: Sequence[np.ndarray]) -> np.ndarray:
        """Return the number of columns that differ, shape (rows,), of type ``kind``."""
        total = np.zeros(self.rows, dtype=self.kind)
        for part in differs:
            total += part
        return total


def draw_rows(table: np.ndarray, limit: int, rng: np.random.Generator) -> np.ndarray:
    """Return at most so many rows of a table, drawn at random."""
    if len(table) <= limit:
        return table
    return table[rng.choice(len(table), limit, replace=False)]


def distance_limit(distance: np.ndarray, k: int, start: int | None = None) -> int:
    """Return the least t such that k rows or more are within distance t.

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
    """Return positions of the k nearest rows, nearest first, ties in random order; and their `distance_limit`.

    Of a table of fewer rows, all of them.
    """
    k = min(k, len(distance))
    limit = distance_limit(distance, k, start)
    within = (distance <= limit).nonzero()[0]
    keys = distance[within] + rng.random(len(within))  # of whole numbers: orders ties only
    first = keys.argpartition(k - 1)[:k]
    return within[first[keys[first].argsort()]], limit


def in_chunks(
    records: np.ndarray,
    work: Callable[[np.ndarray, np.random.Generator], np.ndarray],
    rng: np.random.Generator,
    rows: int,
    progress: Callable[[float], None] | None = None,
) -> np.ndarray:
    """Return the results of ``work`` for every 32 records, each with a generator of its own; concatenated.

    ``rows`` of the table searched: on all cores where numpy computes longer on it than Python takes in between.
    """
    parts = [records[i : i + CHUNK] for i in range(0, len(records), CHUNK)]
    generators = rng.spawn(len(parts))
    out = []
    with ThreadPoolExecutor(workers()) as pool:
        results = (pool.map if rows >= THREADED else map)(work, parts, generators)
        for done, chunk_result in enumerate(results, start=1):
            out.append(chunk_result)
            if progress is not None:
                progress(done / len(parts))
    return np.concatenate(out)


def workers() -> int:
    """Return threads to use: cores that this process may run on, at most 8."""
    return min(8, len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 2)
