"""Neighbouring datasets for audits: a public table, and the same table with one more row, the canary."""

import secrets
from dataclasses import dataclass

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from tabsynth.encoding import TableEncoder
from tabsynth.encoding.rows import KEY_BYTES, PrivateRows
from tabsynth.schema.column import Column
from tabsynth.schema.schema import Schema

ROWS = 8  # of the small dataset


@dataclass(frozen=True, eq=False)
class NeighbouringDatasets:
    """Two datasets that differ in one record, the canary, or in the records of one unit.

    Attributes
    ----------
    schema : Schema
    without : DataFrame
        The dataset without the canary.
    canary : DataFrame
        One row, or those of a unit.
    """

    schema: Schema
    without: pd.DataFrame
    canary: pd.DataFrame

    def table(self, present: bool) -> pd.DataFrame:
        """Return the dataset with the canary as its last row or rows if ``present``, else the one without it."""
        if not present:
            return self.without
        return pd.concat([self.without, self.canary], ignore_index=True)

    def rows(self, table: pd.DataFrame) -> PrivateRows:
        """Return what a fit reads of a table: of each unit at most as many rows as its bound says."""
        key = bytes(KEY_BYTES) if self.schema.unit is None else secrets.token_bytes(KEY_BYTES)
        return TableEncoder(self.schema).to_rows(table, key)

    def codes(self, table: pd.DataFrame) -> np.ndarray:
        """Return category codes, shape (rows, columns)."""
        return TableEncoder(self.schema).to_index(table)

    def encoded_canary(self) -> Tensor:
        """Return the canary as a network input of the GANs, shape (width,)."""
        encoder = TableEncoder(self.schema)
        return torch.from_numpy(encoder.layout.encode(encoder.to_index(self.canary)))[0]


def small_neighbouring_datasets() -> NeighbouringDatasets:
    """Return eight similar rows of three columns, and a canary that differs from them in every column."""
    schema = Schema(
        [
            Column(name="colour", kind="categorical", dtype="str", categories=tuple("abcdef")),
            Column(name="grade", kind="ordinal", dtype="int64", categories=(1, 2, 3, 4)),
            Column(name="age", kind="numeric", dtype="int64", low=0, high=99, bins=10),
        ]
    )
    without = pd.DataFrame(
        {
            "colour": [*"abab" * (ROWS // 4)],
            "grade": [1, 2, 2, 1] * (ROWS // 4),
            "age": [15, 25, 35, 15] * (ROWS // 4),
        }
    )
    canary = pd.DataFrame({"colour": ["f"], "grade": [4], "age": [95]})
    return NeighbouringDatasets(schema, without, canary)
