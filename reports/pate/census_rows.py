"""8,000 rows of the bundled census table, and distances from them."""

from functools import lru_cache

import numpy as np
import pandas as pd

from tabsynth.datasets import load_census
from tabsynth.encoding import TableEncoder
from tabsynth.evaluation.marginals import column_sets, distance
from tabsynth.schema import Schema

ROWS = 8000


@lru_cache(maxsize=1)
def frame() -> tuple[pd.DataFrame, Schema]:
    table, schema = load_census()
    drawn = np.random.default_rng(0).permutation(len(table))[:ROWS]
    return table.iloc[drawn].reset_index(drop=True), schema


@lru_cache(maxsize=1)
def _codes() -> tuple[np.ndarray, tuple[int, ...]]:
    table, schema = frame()
    encoder = TableEncoder(schema)
    return encoder.to_index(table), encoder.layout.sizes


def distances(index: np.ndarray) -> dict[str, float]:
    """tvd1 and tvd2 of category codes, shape (rows, columns)."""
    real, sizes = _codes()
    names = frame()[1].names
    return {
        f"tvd{order}": distance(
            real, index, column_sets(len(sizes), order), names, sizes
        ).mean.value
        for order in (1, 2)
    }


def shuffled() -> dict[str, float]:
    """Distances of independent columns."""
    rng = np.random.default_rng(1)
    return distances(np.stack([rng.permutation(column) for column in _codes()[0].T], axis=1))
