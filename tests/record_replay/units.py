"""Neighbouring datasets that differ in a unit of several rows."""

import pandas as pd

from tabsynth.auditing.neighbouring_datasets import (
    NeighbouringDatasets,
    small_neighbouring_datasets,
)


def as_unit(max_rows: int, datasets: NeighbouringDatasets | None = None) -> NeighbouringDatasets:
    """Return datasets, by default the small ones, under a unit of which so many rows are used.

    Each row is a unit of its own, and the canary one of equal rows, two more than are used.
    """
    datasets = datasets or small_neighbouring_datasets()
    canary = pd.concat([datasets.canary] * (max_rows + 2), ignore_index=True).assign(unit="canary")
    without = datasets.without.assign(unit=range(len(datasets.without)))
    schema = datasets.schema.replace(unit="unit", max_rows_per_unit=max_rows)
    return NeighbouringDatasets(schema, without, canary)
