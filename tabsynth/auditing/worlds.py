"""The tables of an audit: a small public one, and its neighbour with one row more, the canary."""

from dataclasses import dataclass

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from tabsynth.datasets import load_census
from tabsynth.encoding import TableEncoder
from tabsynth.schema.column import Column
from tabsynth.schema.schema import Schema

ROWS = 8  # of the small table
CASES = ("average", "worst")
COLUMNS = ("SEX", "MSP", "EDU", "OWN_RENT")  # of the census table, in audits of many fits


@dataclass(frozen=True, eq=False)
class Worlds:
    """Two neighbouring tables: one without the canary, one with it.

    Attributes
    ----------
    schema : Schema
    without : DataFrame
    canary : DataFrame
        One row. No value of it is in ``without``.
    """

    schema: Schema
    without: pd.DataFrame
    canary: pd.DataFrame

    def table(self, present: bool) -> pd.DataFrame:
        """One of the two; the canary comes last."""
        if not present:
            return self.without
        return pd.concat([self.without, self.canary], ignore_index=True)

    def index(self, table: pd.DataFrame) -> np.ndarray:
        """Value numbers, shape (rows, columns)."""
        return TableEncoder(self.schema).to_index(table)

    def code(self) -> Tensor:
        """The canary as the GANs see it, shape (width,)."""
        encoder = TableEncoder(self.schema)
        return torch.from_numpy(encoder.layout.encode(encoder.to_index(self.canary)))[0]


def small_worlds() -> Worlds:
    """Three columns and eight rows like each other; the canary differs from them in every column."""
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
    return Worlds(schema, without, canary)


def census_worlds(rows: int, case: str) -> Worlds:
    """Neighbours of four columns of the census table that ships.

    ``average``: rows of the table, always the same; the canary is the one of the others that has the
    fewest like it. ``worst``: all rows are the most common one, and the canary differs in every column.
    """
    table, facts = load_census()
    schema = Schema(
        [column for column in facts.columns if column.name in COLUMNS],
        null_values=facts.null_values,
    )
    names = [column.name for column in schema.columns]
    table = table[names].sample(frac=1, random_state=0).reset_index(drop=True)
    index = TableEncoder(schema).to_index(table)
    cells = np.ravel_multi_index(index.T, schema.sizes)
    alike = np.bincount(cells)[cells]
    if case == "average":
        others = np.arange(rows, len(table))
        canary = others[alike[rows:].argmin()]
        return Worlds(schema, table.iloc[:rows], table.iloc[[canary]])
    common = int(alike.argmax())
    apart = (index != index[common]).all(1)
    canary = int(np.where(apart, alike, len(table) + 1).argmin())
    without = table.iloc[[common] * rows].reset_index(drop=True)
    return Worlds(schema, without, table.iloc[[canary]])
