"""What a user knows of rows to be made: a condition on their columns, or some of their cells."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from tabsynth._validate import one_of, shown
from tabsynth.columns import Column
from tabsynth.encoding import TableEncoder
from tabsynth.encoding.table import column_to_index
from tabsynth.errors import InputError
from tabsynth.generators.conditions import Box, disjoint_boxes
from tabsynth.generators.mixture import Mixture
from tabsynth.schema import Schema
from tabsynth.structural_zeros import domain, refuse_impossible
from tabsynth.tables import parse_text, with_dtype

NULLS = ("fill", "keep")


def boxes_of(generator: Mixture, encoder: TableEncoder, where: Any = None) -> list[Box]:
    """The disjoint boxes that a condition and the schema's structural zeros leave.

    Raises
    ------
    InputError
        For an unknown column, an undeclared value, a condition that the schema declares impossible or
        that has probability 0 in the fitted mixture.
    """
    boxes = disjoint_boxes(encoder.zeros, _box(encoder.schema, {} if where is None else where))
    if not boxes:
        raise InputError(f"{_subject(where)} impossible by the schema; change one of its values.")
    if generator.log_probability(boxes) == -np.inf:
        raise InputError(
            f"{_subject(where)} of probability 0 in the fitted model; give it fewer columns or more"
            " values."
        )
    return boxes


def stated(where: Mapping[str, Any]) -> dict[str, list[Any]]:
    """A condition as a certificate names it, JSON-ready: columns to lists of values, None for null."""
    lists = {str(name): _alternatives(given) for name, given in where.items()}
    return {
        name: [None if pd.isna(v) else getattr(v, "item", lambda v=v: v)() for v in values]
        for name, values in lists.items()
    }


def _subject(where: Any) -> str:
    return f"The condition {shown(dict(where), 120)} is" if where else "Every row is"


def _box(schema: Schema, where: Any) -> Box:
    """Which value numbers a condition allows."""
    if not isinstance(where, Mapping):
        raise InputError(f"Expected where to be a dict of columns to values, got {shown(where)}.")
    box = {}
    for name, given in where.items():
        column = _column(schema, name)
        values = _alternatives(given)
        if not values:
            raise InputError(
                f"where gives column {shown(name)} no value; give one, or leave it out."
            )
        mask = np.zeros(column.size, dtype=bool)
        for value in values:
            mask[value_number(column, value)] = True
        box[schema.names.index(name)] = mask
    return box


def _alternatives(given: Any) -> list[Any]:
    several = pd.api.types.is_list_like(given) and not isinstance(given, Mapping)
    return list(given) if several else [given]


def _column(schema: Schema, name: Any) -> Column:
    if name not in schema.names:
        raise InputError(f"where names column {shown(name)}, which the schema lacks; correct it.")
    return schema[name]


def value_number(column: Column, value: Any, name: str = "where", null: str = "") -> int:
    """The number of a value that the caller calls ``name``; an undeclared one is refused.

    ``null`` is what asks for a null where None does not.
    """
    # A condition means the value itself, not what a table's undeclared values turn into.
    strict = replace(column, other=None, clip=False)
    cell = np.empty(1, dtype=object)
    cell[0] = value
    try:
        return int(column_to_index(strict, pd.Series(cell, dtype=object))[0])
    except InputError:
        raise _no_value(column, value, name, null) from None


def _no_value(column: Column, value: Any, name: str = "where", null: str = "") -> InputError:
    null = f" (null: {null})" if null and column.nulls else ""
    return InputError(
        f"{name}: column {shown(column.name)} has no value {shown(value)}; it has"
        f" {domain(column)}{null}."
    )


def parse_where(schema: Schema, texts: list[str]) -> dict[str, list[Any]]:
    """A condition from texts ``COLUMN=VALUE``; those of one column are alternatives."""
    where: dict[str, list[Any]] = {}
    for text in texts:
        if "=" not in text:
            raise InputError(f"Expected --where COLUMN=VALUE, got {shown(text)}.")
        named = (name for name in schema.names if text.startswith(f"{name}="))
        name = max(named, key=len, default=text.partition("=")[0])
        value = text[len(name) + 1 :]
        column = _column(schema, name)
        known = None
        if value not in schema.null_values:
            try:
                strict = replace(column, other=None)
                known = parse_text(strict, pd.Series([value], dtype=object)).iloc[0]
            except InputError:
                raise _no_value(column, value) from None
        plain = known.item() if isinstance(known, np.generic) else known
        where.setdefault(name, []).append(plain)
    return where


def partial_index(encoder: TableEncoder, table: pd.DataFrame, nulls: str) -> np.ndarray:
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


def with_given(
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
        numbers = table[column.name][given]
        if column.clip:
            numbers = numbers.clip(column.low, column.high)
        values[given] = numbers.astype(object).to_numpy()
        made[column.name] = with_dtype(column, values, nulls)
    return made.set_axis(table.index, axis=0)
