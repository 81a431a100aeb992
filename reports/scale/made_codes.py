"""Made-up tables of whole numbers with dependencies, of any number of rows and columns, in Parquet files.

The tables are public: anyone can make them again. Column j has one of ten sizes in turn. The first column is skewed;
each other one follows the column before it in six rows of ten, and is drawn by itself in the others.
"""

import os
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tabsynth import Schema
from tabsynth.schema import Column

SIZES = (2, 5, 10, 16, 100, 8, 12, 3, 50, 6)
FOLLOWS = 0.6  # the share of rows in which a column follows the one before it
CELLS = 50_000_000  # of one file
GROUP = 2**20  # rows of a row group
DRAWN = 2**16  # random numbers of 16 bits


def sizes(columns: int) -> list[int]:
    """Return the number of values of each column."""
    return [SIZES[j % len(SIZES)] for j in range(columns)]


def schema(columns: int) -> Schema:
    """Return the schema, in which each value is a category."""
    return Schema(
        [
            Column(name=f"c{j}", kind="categorical", dtype="int32", categories=tuple(range(size)))
            for j, size in enumerate(sizes(columns))
        ]
    )


def rows(n: int, columns: int, part: int) -> pa.Table:
    """Draw the rows of one part of a table."""
    rng = np.random.default_rng([20_261, columns, part])
    columns_so_far, before, size_before = list[np.ndarray](), np.zeros(n, dtype=np.int32), 1
    for size in sizes(columns):
        skewed = (size * (np.arange(DRAWN) / DRAWN) ** 1.5).astype(np.int32)
        values = skewed[rng.integers(0, DRAWN, n, dtype=np.uint16)]
        if columns_so_far:
            follows = rng.integers(0, DRAWN, n, dtype=np.uint16) < FOLLOWS * DRAWN
            image = (np.arange(size_before) * size // size_before).astype(np.int32)
            np.copyto(values, image[before], where=follows)
        columns_so_far.append(values)
        before, size_before = values, size
    return pa.table({f"c{j}": values for j, values in enumerate(columns_so_far)})


def _write(folder: Path, columns: int, lengths: list[int], part: int) -> None:
    path = folder / f"part-{part:05d}.parquet"
    if not path.exists():
        temporary = path.with_suffix(".new")
        pq.write_table(rows(lengths[part], columns, part), temporary, row_group_size=GROUP)
        os.replace(temporary, path)


def write(folder: Path, n: int, columns: int) -> Path:
    """Write a folder of Parquet files with ``n`` rows, where they are not there, and return it."""
    folder.mkdir(parents=True, exist_ok=True)
    rows_of_file = CELLS // columns
    lengths = [rows_of_file] * (n // rows_of_file) + (
        [n % rows_of_file] if n % rows_of_file else []
    )
    with ProcessPoolExecutor(2) as processes:
        list(processes.map(partial(_write, folder, columns, lengths), range(len(lengths))))
    return folder
