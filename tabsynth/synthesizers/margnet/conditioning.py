"""Conditions as blocks of a mixture, and the completion of partial rows."""

import logging
import math

import numpy as np
import pandas as pd
import torch

from tabsynth._validate import one_of, shown
from tabsynth.encoding import TableEncoder
from tabsynth.errors import InputError
from tabsynth.schema.constraints import Derived, Order
from tabsynth.schema.schema import refuse_impossible, refuse_no_rows
from tabsynth.synthesizers.conditions import Condition
from tabsynth.synthesizers.mixture import Box, Mixture, disjoint_boxes

COMPLETIONS = 200  # draws of a row until it satisfies the rules
POSSIBLE = 0.9  # share of possible rows below which leaving out the others is worth a warning
MOVED = 0.005  # of the distribution that impossible rows may have, to be left out in place of being exchanged
logger = logging.getLogger(__name__)


def boxes_of(
    generator: Mixture, encoder: TableEncoder, condition: Condition | None = None
) -> list[Box]:
    """Return the disjoint boxes that a condition and the schema's structural zeros leave.

    The condition's alone, where the zeros cut it into too many: impossible rows are then to be mended.

    Raises
    ------
    InputError
        For a condition that the schema declares impossible or that has probability 0 in the fitted
        mixture.
    """
    boxes = disjoint_boxes(encoder.zeros, None if condition is None else condition.box)
    if boxes is None:
        boxes = [{} if condition is None else condition.box]
    subject = "Every row" if condition is None else str(condition)
    if not boxes:
        raise InputError(f"{subject} is impossible by the schema; change one of its values.")
    if generator.log_probability(boxes) == -np.inf:
        raise InputError(
            f"{subject} is of probability 0 in the fitted model; give it fewer columns or more values."
        )
    return boxes


def boxes_to_sample(
    generator: Mixture, encoder: TableEncoder, condition: Condition | None
) -> list[Box]:
    """Return :func:`boxes_of`, or everything where there is no condition and leaving out zeros would move single columns.

    Of zeros with more than ``MOVED`` of the distribution, rows are drawn as well, and mended by exchanges of entries,
    which leave the distribution of each column as it is.
    """
    boxes = boxes_of(generator, encoder, condition)
    moved = 1 - math.exp(generator.log_probability(boxes))
    everything = condition is None or not condition.box
    return [{}] if everything and moved > MOVED else boxes


def warn_of_impossible(generator: Mixture, encoder: TableEncoder) -> None:
    """Say so where a mixture, as of a fit that was stopped early, holds many impossible rows."""
    boxes = disjoint_boxes(encoder.zeros)
    possible = 1.0 if boxes is None else math.exp(generator.log_probability(boxes))
    if possible < POSSIBLE:
        logger.warning(
            "%.0f%% of the fitted distribution is rows that the schema declares impossible. Entries of such rows are"
            " exchanged with others, so that relations of columns are off: give the fit more time.",
            100 * (1 - possible),
        )


NULLS = ("fill", "keep")


def complete_table(
    generator: Mixture,
    encoder: TableEncoder,
    table: pd.DataFrame,
    nulls: str,
    for_codes: torch.Generator,
    for_cells: np.random.Generator,
) -> pd.DataFrame:
    """Return a partial table with its missing columns and cells filled in, as ``MargNet.complete`` says."""
    codes = _partial_index(encoder, table, nulls)
    boxes = boxes_of(generator, encoder)
    filled = generator.complete(codes, for_codes, boxes=boxes)
    if encoder.whole.ruled:
        _check_completable(encoder)
        for _ in range(COMPLETIONS):
            complete_rows = np.flatnonzero((filled >= 0).all(axis=1))
            wrong = complete_rows[encoder.rules.broken(filled[complete_rows])]
            if not len(wrong):
                break
            filled[wrong] = generator.complete(codes[wrong], for_codes, boxes=boxes)
        else:
            filled[wrong] = -1
    incomplete = (filled < 0).any(axis=1)
    if incomplete.any():
        raise InputError(
            f"Row {shown(table.index[incomplete.argmax()])} of the partial table has no completion: its cells have"
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
            table_out[column.name] = column.keep_given(
                table_out[column.name], table[column.name], is_given
            )
    for name, rule in encoder.whole.makers.items():
        if isinstance(rule, Derived):
            table_out[name] = rule.values(table_out)
    return table_out.set_axis(table.index, axis=0)
