"""The completion of partial rows: missing entries are drawn from a mixture, given the others."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
import torch

from tabsynth._validate import one_of, quote
from tabsynth.encoding import TableEncoder
from tabsynth.errors import InputError
from tabsynth.schema.column import Column
from tabsynth.schema.constraints import Derived, Order
from tabsynth.schema.schema import refuse_impossible, refuse_no_rows
from tabsynth.synthesizers.method import FittedModel
from tabsynth.synthesizers.mixture import Box

COMPLETIONS = 200  # draws of a row until it satisfies the rules
NULLS = ("fill", "keep")


def complete_table(
    model: FittedModel[TableEncoder],
    boxes: Sequence[Box],
    table: pd.DataFrame,
    nulls: str,
    for_codes: torch.Generator,
    for_cells: np.random.Generator,
) -> pd.DataFrame:
    """Return a partial table with its missing columns and cells filled in, as ``MargNet.complete`` says.

    ``boxes`` are those of possible rows.
    """
    generator, encoder = model.generator, model.encoder
    codes = _partial_index(encoder, table, nulls)
    filled = generator.complete(codes, for_codes, boxes=boxes)
    if encoder.whole.has_rules:
        _check_completable(encoder)
        for _ in range(COMPLETIONS):
            complete_rows = np.flatnonzero((filled >= 0).all(axis=1))
            wrong = complete_rows[encoder.rules.violations(filled[complete_rows])]
            if not len(wrong):
                break
            filled[wrong] = generator.complete(codes[wrong], for_codes, boxes=boxes)
        else:
            filled[wrong] = -1
    incomplete = (filled < 0).any(axis=1)
    if incomplete.any():
        raise InputError(
            f"Row {quote(table.index[incomplete.argmax()])} of the partial table has no completion: its cells have"
            " probability 0 in the model, or break a rule; correct them, or leave one missing."
        )
    return _with_given(encoder, table, codes, filled, for_cells)


def _check_completable(encoder: TableEncoder) -> None:
    """Raise an InputError for a schema with columns that are modelled by a difference: a given value says too little of it."""
    for rule in encoder.whole.rules:
        if isinstance(rule, Order) and rule.difference is not None:
            raise InputError(
                f"A table cannot be completed where a column is modelled by a difference, as in {rule.text!r}; declare the"
                " order without a difference."
            )


def _partial_index(encoder: TableEncoder, table: pd.DataFrame, nulls: str) -> np.ndarray:
    """Return category codes of a partial table, shape (rows, columns) int64; -1 where a cell is to be filled.

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
            is_given = (
                np.ones(len(table), dtype=bool) if nulls == "keep" else values.notna().to_numpy()
            )
            if is_given.any():
                index[is_given, j] = column.encode(values[is_given])
    refuse_impossible(schema.columns, encoder.zeros, index, "partial table")
    return index


def _with_given(
    encoder: TableEncoder,
    table: pd.DataFrame,
    partial: np.ndarray,
    filled: np.ndarray,
    rng: np.random.Generator,
) -> pd.DataFrame:
    """Return a whole table from filled category codes, with the very numbers of the partial table's cells."""
    table_out = encoder.from_index(filled, rng)
    for j, column in enumerate(encoder.schema.columns):
        if column.name in table.columns:
            is_given = partial[:, j] >= 0
            table_out[column.name] = _put_back(
                column, table_out[column.name], table[column.name], is_given
            )
    for name, rule in encoder.whole.makers.items():
        if isinstance(rule, Derived):
            table_out[name] = rule.values(table_out)
    return table_out.set_axis(table.index, axis=0)


def _put_back(
    column: Column, decoded: pd.Series, values: pd.Series, is_given: np.ndarray
) -> pd.Series:
    """Return decoded values, with those of a table back where the mask ``is_given`` is True, clipped as a fit clips them.

    Of a column whose codes have no width the codes say all.
    """
    if column.axis() is None:
        return decoded
    amounts = column.amounts(values)
    back = is_given & ~np.isnan(amounts)
    (low, *_), (*_, high) = column.code_amounts()
    beyond = (amounts < low) | (amounts > high)
    cells = decoded.astype(object).to_numpy(copy=True)
    cells[back] = values.astype(object).to_numpy()[back]
    cells[back & beyond] = column.from_amounts(amounts[back & beyond]).astype(object).to_numpy()
    return column.convert(pd.Series(cells, index=decoded.index, name=column.name, dtype=object))
