"""8,000 rows of the bundled census table, and distances from them."""

from functools import lru_cache

import numpy as np
import pandas as pd

from tabsynth.datasets import load_census
from tabsynth.encoding import TableEncoder
from tabsynth.evaluation.utility.marginals import column_sets, distance
from tabsynth.schema.schema import Schema

ROWS = 8000


@lru_cache(maxsize=1)
def _shuffled() -> tuple[pd.DataFrame, Schema]:
    table, schema = load_census()
    drawn = np.random.default_rng(0).permutation(len(table))
    return table.iloc[drawn].reset_index(drop=True), schema


@lru_cache(maxsize=1)
def frame() -> tuple[pd.DataFrame, Schema]:
    """The rows that are fitted, and their schema."""
    table, schema = _shuffled()
    return table[:ROWS], schema


@lru_cache(maxsize=1)
def codes() -> np.ndarray:
    """Category codes of the rows that are fitted, shape (rows, columns)."""
    table, schema = frame()
    return TableEncoder(schema).to_index(table)


def held_out(rows: int) -> np.ndarray:
    """Category codes of rows that are not fitted, shape (rows, columns)."""
    table, schema = _shuffled()
    return TableEncoder(schema).to_index(table[ROWS : ROWS + rows])


def distances(index: np.ndarray) -> dict[str, float]:
    """tvd1 and tvd2 of category codes, shape (rows, columns)."""
    schema = frame()[1]
    real, names, sizes = codes(), schema.names, schema.sizes
    return {
        f"tvd{order}": distance(
            real, index, column_sets(len(sizes), order), names, sizes
        ).mean.value
        for order in (1, 2)
    }


def shuffled() -> dict[str, float]:
    """Distances of independent columns."""
    rng = np.random.default_rng(1)
    return distances(np.stack([rng.permutation(column) for column in codes().T], axis=1))
