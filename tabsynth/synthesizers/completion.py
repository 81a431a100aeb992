"""What a user knows of rows to be made: some of their cells."""

import numpy as np
import pandas as pd
import torch

from tabsynth._validate import one_of, shown
from tabsynth.encoding import TableEncoder
from tabsynth.encoding.table import column_to_index
from tabsynth.errors import InputError
from tabsynth.generators.mixture import Mixture
from tabsynth.schema import refuse_no_rows
from tabsynth.structural_zeros import refuse_impossible
from tabsynth.synthesizers.conditions import boxes_of
from tabsynth.tables import with_dtype

NULLS = ("fill", "keep")


def completed(
    generator: Mixture,
    encoder: TableEncoder,
    table: pd.DataFrame,
    nulls: str,
    for_codes: torch.Generator,
    for_cells: np.random.Generator,
) -> pd.DataFrame:
    """A partial table with its missing columns and cells filled in, as ``MargNet.complete`` says."""
    given = _partial_index(encoder, table, nulls)
    filled = generator.complete(given, for_codes, boxes=boxes_of(generator, encoder))
    left = (filled < 0).any(axis=1)
    if left.any():
        raise InputError(
            f"Row {shown(table.index[left.argmax()])} of the partial table has no completion: its"
            " cells have probability 0 in the model; correct them, or leave one missing."
        )
    return _with_given(encoder, table, given, filled, for_cells)


def _partial_index(encoder: TableEncoder, table: pd.DataFrame, nulls: str) -> np.ndarray:
    """Value numbers of a partial table, shape (rows, columns) int64; -1 where a cell is to be filled.

    Raises
    ------
    InputError
        If the table has a column or a value that the schema does not declare, or a row whose given
        cells it declares impossible.
    """
    one_of("nulls", nulls, NULLS)
    schema = encoder.schema
    schema.check_columns(table, "partial table", partial=True)
    refuse_no_rows(len(table), "partial table")
    index = np.full((len(table), len(schema.columns)), -1, dtype=np.int64)
    for j, column in enumerate(schema.columns):
        if column.name in table.columns:
            values = table[column.name]
            given = (
                np.ones(len(table), dtype=bool) if nulls == "keep" else values.notna().to_numpy()
            )
            if given.any():
                index[given, j] = column_to_index(column, values[given])
    refuse_impossible(schema.columns, encoder.zeros, index, "partial table")
    return index


def _with_given(
    encoder: TableEncoder,
    table: pd.DataFrame,
    partial: np.ndarray,
    filled: np.ndarray,
    rng: np.random.Generator,
) -> pd.DataFrame:
    """A whole table from filled value numbers, with the very numbers of the partial table's cells."""
    made = encoder.from_index(filled, rng)
    for j, column in enumerate(encoder.schema.columns):
        if column.kind != "numeric" or column.name not in table.columns:
            continue
        nulls = made[column.name].isna().to_numpy()
        given = (partial[:, j] >= 0) & ~nulls
        values = np.array(made[column.name], dtype=object)
        numbers = list(table[column.name][given])
        if column.clip:  # not by the table's own dtype, which may not hold the bounds
            numbers = [min(max(number, column.low), column.high) for number in numbers]
        values[given] = numbers
        made[column.name] = with_dtype(column, values, nulls)
    return made.set_axis(table.index, axis=0)
