"""Neighbouring datasets of the census table, and those that differ in a unit of several rows."""

import numpy as np
import pandas as pd

from tabsynth.auditing.neighbouring_datasets import (
    NeighbouringDatasets,
    small_neighbouring_datasets,
)
from tabsynth.datasets import load_census
from tabsynth.encoding import TableEncoder
from tabsynth.schema.schema import Schema

COLUMNS = ("SEX", "MSP", "EDU", "OWN_RENT")  # of the bundled census table


def as_unit(max_rows: int) -> NeighbouringDatasets:
    """Return the small datasets under a unit of which so many rows are used.

    Each row is a unit of its own, and the canary one of equal rows, two more than are used.
    """
    datasets = small_neighbouring_datasets()
    canary = pd.concat([datasets.canary] * (max_rows + 2), ignore_index=True).assign(unit="canary")
    without = datasets.without.assign(unit=range(len(datasets.without)))
    schema = datasets.schema.replace(unit="unit", max_rows_per_unit=max_rows)
    return NeighbouringDatasets(schema, without, canary)


def census_neighbouring_datasets(rows: int) -> NeighbouringDatasets:
    """Return neighbouring datasets with four columns of the bundled census table.

    The rows are the same random ones each time, and the canary is the rarest of the other rows.

    Parameters
    ----------
    rows : int
        Rows of the dataset without the canary.
    """
    table, public_schema = load_census()
    schema = Schema(
        [column for column in public_schema.columns if column.name in COLUMNS],
        null_values=public_schema.null_values,
    )
    names = [column.name for column in schema.columns]
    table = table[names].sample(frac=1, random_state=0).reset_index(drop=True)
    index = TableEncoder(schema).to_index(table)
    cells = np.ravel_multi_index(index.T, schema.sizes)
    alike = np.bincount(cells)[cells]
    other_rows = np.arange(rows, len(table))
    canary = other_rows[alike[rows:].argmin()]
    return NeighbouringDatasets(schema, table.iloc[:rows], table.iloc[[canary]])
