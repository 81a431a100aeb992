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
from tabsynth.schema.constraints import Derived, Order
from tabsynth.schema.schema import Schema, refuse_impossible, refuse_no_rows
from tabsynth.synthesizers.mixture import Box, Mixture, disjoint_boxes

COMPLETIONS = 200  # draws of a row until it satisfies the rules
POSSIBLE = 0.9  # share of possible rows below which leaving out the others is worth a warning
MOVED = 0.005  # of the distribution that impossible rows may have, to be left out in place of being exchanged
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
            source = _source(schema, column)
            if not values:
                raise InputError(
                    f"where gives column {shown(name)} no value; give one, or leave it out."
                )
            shares, within = column.restriction(values)
            if source is not None:
                shares, within, column = (
                    shares[source.codes([np.arange(source.sources[0].size)])],
                    None,
                    source.sources[0],
                )
            number = schema.learned.names.index(column.name)
            self.box[number] = shares * self.box.get(number, 1)
            if within is not None:
                self.within[name] = within
            self.stated[name] = [schema[name].stated(value) for value in values]


def boxes_of(
    generator: Mixture, encoder: TableEncoder, condition: Condition | None = None
) -> list[Box]:
    """The disjoint boxes that a condition and the schema's structural zeros leave.

    The condition's alone, where the zeros cut it into too many: impossible rows are then to be mended.

    Raises
    ------
    InputError
        For a condition that the schema declares impossible or that has probability 0 in the fitted
        mixture.
    """
    condition = condition or Condition(encoder.whole, {})
    boxes = disjoint_boxes(encoder.zeros, condition.box)
    if boxes is None:
        boxes = [condition.box]
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


def boxes_to_sample(generator: Mixture, encoder: TableEncoder, condition: Condition) -> list[Box]:
    """As :func:`boxes_of`; everything, where there is no condition and leaving out zeros would move single columns.

    Of zeros with more than ``MOVED`` of the distribution, rows are drawn as well, and mended by exchanges of entries,
    which leave the distribution of each column as it is.
    """
    boxes = boxes_of(generator, encoder, condition)
    moved = 1 - math.exp(generator.log_probability(boxes))
    return [{}] if not condition.box and moved > MOVED else boxes


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


def _source(schema: Schema, column: Column) -> Derived | None:
    """The rule of a column that follows from another one by a table; None for a modelled column.

    Raises
    ------
    InputError
        For any other column that is not modelled.
    """
    if column.name in schema.learned.names:
        return None
    maker = schema.makers.get(column.name)
    table = isinstance(maker, Derived) and maker.lookup is not None and len(maker.sources) == 1
    if isinstance(maker, Derived) and table and maker.sources[0].name in schema.learned.names:
        return maker
    what = "is not learned" if maker is None else f"is computed ({maker.text})"
    raise InputError(
        f"where: column {shown(column.name)} {what}; put the condition on other columns."
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
    boxes = boxes_of(generator, encoder)
    filled = generator.complete(given, for_codes, boxes=boxes)
    if encoder.whole.ruled:
        _check_completable(encoder)
        for _ in range(COMPLETIONS):
            whole = np.flatnonzero((filled >= 0).all(axis=1))
            wrong = whole[encoder.rules.broken(filled[whole])]
            if not len(wrong):
                break
            filled[wrong] = generator.complete(given[wrong], for_codes, boxes=boxes)
        else:
            filled[wrong] = -1
    left = (filled < 0).any(axis=1)
    if left.any():
        raise InputError(
            f"Row {shown(table.index[left.argmax()])} of the partial table has no completion: its cells have"
            " probability 0 in the model, or break a rule; correct them, or leave one missing."
        )
    return _with_given(encoder, table, given, filled, for_cells)


def _check_completable(encoder: TableEncoder) -> None:
    """InputError for a schema with columns that are modelled by a difference: a given value says too little of it."""
    for rule in encoder.whole.rules:
        if isinstance(rule, Order) and rule.difference is not None:
            raise InputError(
                f"A table cannot be completed where a column is modelled by a difference, as in {rule.text!r}; declare the"
                " order without a difference."
            )


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
    for name, rule in encoder.whole.makers.items():
        if isinstance(rule, Derived):
            table_out[name] = rule.values(table_out)
    return table_out.set_axis(table.index, axis=0)
