"""Conditions on rows to be sampled, and the completion of partial rows."""

import logging
import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import torch

from tabsynth._validate import one_of, shown
from tabsynth.encoding import TableEncoder
from tabsynth.encoding.table import Runs, column_to_index, steps_between, steps_of_cells
from tabsynth.errors import InputError
from tabsynth.schema.column import Column
from tabsynth.schema.schema import (
    Schema,
    declared_number,
    domain,
    plain,
    refuse_impossible,
    refuse_no_rows,
    whole_range,
)
from tabsynth.synthesizers.mixture import Box, Mixture, disjoint_boxes
from tabsynth.tables.frames import parse_text, with_dtype

POSSIBLE = 0.9  # share of possible rows below which leaving out the others is worth a warning
logger = logging.getLogger(__name__)


class Condition:
    """What all rows are to satisfy, by column: a value, a range, or several, any of which will do.

    Attributes
    ----------
    box : Box
        What it allows of each value number: of a cell, the share of its numbers that are asked for.
    asked : dict of Runs
        By column, the steps that are asked for, where a column has a step.
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
        self.asked: dict[str, Runs] = {}
        self.stated: dict[str, list[Any]] = {}
        for name, given in where.items():
            column, values = _column(schema, name), _alternatives(given)
            if not values:
                raise InputError(
                    f"where gives column {shown(name)} no value; give one, or leave it out."
                )
            allowed, runs = _allowed(column, values)
            self.box[schema.names.index(name)] = allowed
            if runs is not None:
                self.asked[name] = runs
            self.stated[name] = stated(column, values)


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
    asked = {n: v[0] if len(v) == 1 else v for n, v in condition.stated.items()}
    return f"The condition {shown(asked, 120)} is" if asked else "Every row is"


def stated(column: Column, values: list[Any]) -> list[Any]:
    """Alternatives as a certificate names them, JSON-ready: None for null.

    A number of a column without steps stands for its cell, whose bounds are named.
    """
    found: list[Any] = []
    for value in values:
        if _is_range(value):
            found.append(dict(zip(("low", "high"), _ends(value), strict=True)))
        elif column.kind == "numeric" and column.step is None and not _is_null(value):
            edges, cell = column.edges(), value_number(column, value)
            high = min(edges[cell + 1], column.high)
            found.append({"low": float(edges[cell]), "high": float(high)})
        else:
            found.append(None if _is_null(value) else plain(value))
    return found


def _allowed(column: Column, values: list[Any]) -> tuple[np.ndarray, Runs | None]:
    """What is allowed of each value number, and the steps that are asked for, if the column has steps."""
    allowed = np.zeros(column.size, dtype=bool)
    runs: list[tuple[float, float]] = []
    stepped = column.kind == "numeric" and column.step is not None
    for value in values:
        if stepped and not _is_null(value):
            runs.append(_run(column, value))
        elif _is_range(value):
            first, last = whole_range(column, *_ends(value), f"where: column {shown(column.name)}")
            allowed[first : last + 1] = True
        else:
            allowed[value_number(column, value)] = True
    if not runs:
        return allowed, None
    asked = Runs(runs)
    begin, count = steps_of_cells(column)
    shares = (asked.below(begin + count) - asked.below(begin)) / count
    return np.append(shares, allowed[len(shares) :]), asked


def _run(column: Column, value: Any) -> tuple[float, float]:
    """The first and the last step of a range or a number; one without any is refused."""
    if _is_range(value):
        where = f"where: column {shown(column.name)}"
        low, high = (declared_number(column, end, where) for end in _ends(value))
    else:
        value_number(column, value)
        low = high = float(value)
    first, last = steps_between(column, low, high)
    if first > last:
        raise _no_value(column, value)
    return first, last


def _is_range(value: Any) -> bool:
    return isinstance(value, Mapping) and set(value) == {"low", "high"}


def _ends(value: Mapping[str, Any]) -> tuple[Any, Any]:
    return plain(value["low"]), plain(value["high"])


def _is_null(value: Any) -> bool:
    return bool(pd.api.types.is_scalar(value) and pd.isna(value))


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
    what = f"value {shown(value)}"
    if _is_range(value):
        what = f"value from {value['low']} to {value['high']}"
    return InputError(
        f"{name}: column {shown(column.name)} has no {what}; it has {domain(column)}{null}."
    )


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
        if dots and column.kind != "categorical" and value not in column.positions:
            known: Any = {"low": _parsed(column, low), "high": _parsed(column, high)}
        else:
            known = parse_value(schema, column, value)
        where.setdefault(name, []).append(known)
    return where


def parse_value(schema: Schema, column: Column, text: str, name: str = "where") -> Any:
    """The value of a column that a text stands for, None for null; an undeclared one is refused."""
    if text not in schema.null_values:
        return _parsed(column, text, name)
    if column.nulls:
        return None
    raise InputError(
        f"{name}: column {shown(column.name)} has no value {shown(text)}, which stands for null; it has"
        f" {domain(column)}."
    )


def _parsed(column: Column, text: str, name: str = "where") -> Any:
    strict = replace(column, other=None)
    try:
        return plain(parse_text(strict, pd.Series([text], dtype=object)).iloc[0])
    except InputError:
        raise _no_value(column, text, name) from None


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
