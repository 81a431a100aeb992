"""Conditions on rows to be sampled, and the completion of partial rows."""

import logging
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
import torch

from tabsynth._validate import one_of, shown
from tabsynth.encoding import TableEncoder
from tabsynth.errors import InputError
from tabsynth.schema.column import Column, plain
from tabsynth.schema.schema import Schema, refuse_impossible, refuse_no_rows
from tabsynth.synthesizers.mixture import Box, Mixture, disjoint_boxes

POSSIBLE = 0.9  # share of possible rows below which leaving out the others is worth a warning
logger = logging.getLogger(__name__)


class Condition:
    """What all rows are to satisfy, by column: a value, a range, or several, any of which will do.

    Attributes
    ----------
    box : Box
        By column, the share of each code's values that it allows.
    within : dict
        By column, what limits the values that a code is decoded to: of a numeric column, its steps.
    stated : dict of list
        The condition as a certificate names it, JSON-ready.

    Raises
    ------
    InputError
        For an unknown column or an undeclared value.
    """

    def __init__(self, schema: Schema, where: Any) -> None:
        if not isinstance(where, Mapping):
            raise InputError(
                f"Expected where to be a dict of columns to values, got {shown(where)}."
            )
        self.box: dict[int, np.ndarray] = {}
        self.within: dict[str, Any] = {}
        self.stated: dict[str, list[Any]] = {}
        for name, given in where.items():
            column, values = _column(schema, name), _alternatives(given)
            if not values:
                raise InputError(
                    f"where gives column {shown(name)} no value; give one, or leave it out."
                )
            shares, within = column.restriction(values)
            self.box[schema.names.index(name)] = shares
            if within is not None:
                self.within[name] = within
            self.stated[name] = [column.stated(value) for value in values]


def boxes_of(
    generator: Mixture, encoder: TableEncoder, condition: Condition | None = None
) -> list[Box]:
    """The disjoint boxes that a condition and the schema's structural zeros leave.

    Raises
    ------
    InputError
        For a condition that the schema declares impossible or that has probability 0 in the fitted
        mixture.
    """
    condition = condition or Condition(encoder.schema, {})
    boxes = disjoint_boxes(encoder.zeros, condition.box)
    if not boxes:
        raise InputError(
            f"{_subject(condition)} impossible by the schema; change one of its values."
        )
    if generator.log_probability(boxes) == -np.inf:
        raise InputError(
            f"{_subject(condition)} of probability 0 in the fitted model; give it fewer columns or more"
            " values."
        )
    return boxes


def warn_of_impossible(generator: Mixture, encoder: TableEncoder) -> None:
    """Say so where a mixture, as of a fit that was stopped early, holds many impossible rows."""
    possible = math.exp(generator.log_probability(disjoint_boxes(encoder.zeros)))
    if possible < POSSIBLE:
        logger.warning(
            "%.0f%% of the fitted distribution is rows that the schema declares impossible. They are never drawn,"
            " so that the rest is off: give the fit more time.",
            100 * (1 - possible),
        )


def _subject(condition: Condition) -> str:
    conditions = {n: v[0] if len(v) == 1 else v for n, v in condition.stated.items()}
    return f"The condition {shown(conditions, 120)} is" if conditions else "Every row is"


def _alternatives(given: Any) -> list[Any]:
    several = pd.api.types.is_list_like(given) and not isinstance(given, Mapping)
    return list(given) if several else [given]


def _column(schema: Schema, name: Any) -> Column:
    if name not in schema.names:
        raise InputError(f"where names column {shown(name)}, which the schema lacks; correct it.")
    return schema[name]


def parse_where(schema: Schema, texts: list[str]) -> dict[str, list[Any]]:
    """A condition from texts ``COLUMN=VALUE``, or ``COLUMN=LOW..HIGH`` where an order is declared.

    Those of one column are alternatives.
    """
    where: dict[str, list[Any]] = {}
    for text in texts:
        if "=" not in text:
            raise InputError(f"Expected --where COLUMN=VALUE, got {shown(text)}.")
        named = (name for name in schema.names if text.startswith(f"{name}="))
        name = max(named, key=len, default=text.partition("=")[0])
        value = text[len(name) + 1 :]
        column = _column(schema, name)
        low, dots, high = value.partition("..")
        if dots and column.ordered and value not in column.positions:
            condition: Any = {"low": _parsed(column, low), "high": _parsed(column, high)}
        else:
            condition = parse_value(schema, column, value)
        where.setdefault(name, []).append(condition)
    return where


def parse_value(schema: Schema, column: Column, text: str, name: str = "where") -> Any:
    """The value of a column that a text stands for, None for null; an undeclared one is refused."""
    if text not in schema.null_values:
        return _parsed(column, text, name)
    if column.nulls:
        return None
    raise InputError(
        f"{name}: column {shown(column.name)} has no value {shown(text)}, which stands for null; it has"
        f" {column.domain()}."
    )


def _parsed(column: Column, text: str, name: str = "where") -> Any:
    try:
        return plain(column.strict().parse(pd.Series([text], dtype=object)).iloc[0])
    except InputError:
        raise column.has_no(text, name) from None


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
    """Category codes of a partial table, shape (rows, columns) int64; -1 where a cell is to be filled.

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
                index[given, j] = column.encode(values[given])
    refuse_impossible(schema.columns, encoder.zeros, index, "partial table")
    return index


def _with_given(
    encoder: TableEncoder,
    table: pd.DataFrame,
    partial: np.ndarray,
    filled: np.ndarray,
    rng: np.random.Generator,
) -> pd.DataFrame:
    """A whole table from filled category codes, with the very numbers of the partial table's cells."""
    table_out = encoder.from_index(filled, rng)
    for j, column in enumerate(encoder.schema.columns):
        if column.name in table.columns:
            given = partial[:, j] >= 0
            table_out[column.name] = column.keep_given(
                table_out[column.name], table[column.name], given
            )
    return table_out.set_axis(table.index, axis=0)
