"""Structural zeros: combinations of values that cannot occur, a public fact of a schema.

A combination is a dict from two or more columns to their values: a list of them (None for null), or,
in a numeric or ordinal column, a range ``{"low": a, "high": b}`` with both ends included.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from tabsynth._dtypes import base_dtype
from tabsynth._validate import shown
from tabsynth.cells import off_steps
from tabsynth.columns import Column
from tabsynth.errors import InputError

MAX_COMBINATIONS = 1_000
MAX_NAMED = 100  # columns of a combination
MAX_MARKS = 2**26  # value numbers marked, yes or no, by all combinations: a byte each

Zero = dict[int, np.ndarray]  # by column number, which of its value numbers, bool (size,)


def checked(columns: Sequence[Column], impossible: Any) -> tuple[dict[str, Any], ...]:
    """The combinations with lists of values as tuples; refuses, in one line, what cannot be one."""
    if not isinstance(impossible, list | tuple):
        raise InputError(f"Expected impossible to be a list of dicts, got {shown(impossible)}.")
    if len(impossible) > MAX_COMBINATIONS:
        raise InputError(
            f"The schema has {len(impossible):,} impossible combinations; at most"
            f" {MAX_COMBINATIONS:,} are supported."
        )
    _check_marks(columns, impossible)
    found: list[dict[str, Any]] = []
    for i, combination in enumerate(impossible):
        where = f"impossible[{i}]"
        if not isinstance(combination, Mapping) or len(combination) < 2:
            raise InputError(
                f"{where}: expected a dict of two or more columns to their values, got"
                f" {shown(combination)}; to exclude a single column's value, do not declare it."
            )
        found.append({name: _plain(values, where) for name, values in combination.items()})
        _zero(columns, found[-1], where)
    return tuple(found)


def _check_marks(columns: Sequence[Column], impossible: Sequence[Any]) -> None:
    """Refuse combinations that together take too much memory, before any is worked out."""
    sizes, marks = {column.name: column.size for column in columns}, 0
    for i, combination in enumerate(impossible):
        named = combination if isinstance(combination, Mapping) else ()
        marks += sum(sizes.get(name, 0) for name in named)
        if len(named) > MAX_NAMED or marks > MAX_MARKS:
            raise InputError(
                f"impossible[{i}]: the schema's impossible combinations name too many columns or values;"
                f" at most {MAX_NAMED} columns in one, and {MAX_MARKS:,} of their values in all."
            )


def zeros(columns: Sequence[Column], impossible: Sequence[Mapping[str, Any]]) -> list[Zero]:
    """Each combination by value numbers: a row that is True in all its columns cannot occur."""
    return [_zero(columns, c, f"impossible[{i}]") for i, c in enumerate(impossible)]


def refuse_impossible(
    columns: Sequence[Column], found: Sequence[Zero], index: np.ndarray, what: str
) -> None:
    """Refuse rows of value numbers, shape (rows, columns), that cannot occur; -1 is not known yet."""
    for zero in found:
        hit = np.ones(len(index), dtype=bool)
        for j, mask in zero.items():
            hit &= (index[:, j] >= 0) & mask[index[:, j]]
        if hit.any():
            row = index[hit.argmax()]
            text = ", ".join(f"{shown(columns[j].name)}: {columns[j].label(row[j])}" for j in zero)
            raise InputError(
                f"The {what} has a row with {{{text}}}, which the schema declares impossible; correct"
                " it, or take the combination out of the schema."
            )


def domain(column: Column, limit: int = 8) -> str:
    """What values a column has, for people."""
    if column.kind == "numeric":
        whole = "whole " if base_dtype(column.dtype) == "int" else ""
        text = f"{whole}numbers from {column.low:.10g} to {column.high:.10g}"
        if column.resolution is not None and not (whole and column.step == 1):
            text += f" in steps of {column.resolution:.10g}"
    else:
        text = ", ".join(shown(value) for value in column.categories[:limit])
        if len(column.categories) > limit:
            text += f" and {len(column.categories) - limit} more"
    return f"{text} and None" if column.nulls else text


def _plain(values: Any, where: str) -> Any:
    """A tuple of plain values, None for each null, or a range as it is."""
    if isinstance(values, Mapping):
        if set(values) != {"low", "high"}:
            raise InputError(
                f"{where}: expected a range to be {{'low': a, 'high': b}}, got {shown(dict(values))}."
            )
        return {"low": plain(values["low"]), "high": plain(values["high"])}
    if isinstance(values, list | tuple | range) and values:
        return tuple(plain(value) for value in values)
    raise InputError(f"{where}: expected a list of values or a range, got {shown(values)}.")


def plain(value: Any) -> Any:
    """A value of Python's own types, None for null."""
    if isinstance(value, np.generic):
        value = value.item()
    nan = isinstance(value, float) and math.isnan(value)
    return None if value is pd.NA or nan else value


def _zero(columns: Sequence[Column], combination: Mapping[str, Any], where: str) -> Zero:
    numbers = {column.name: j for j, column in enumerate(columns)}
    found = {}
    for name, values in combination.items():
        if name not in numbers:
            raise InputError(f"{where}: the schema has no column {shown(name)}; correct the name.")
        column = columns[numbers[name]]
        found[numbers[name]] = _mask(column, values, f"{where}, column {shown(name)}")
    return found


def _mask(column: Column, values: Any, where: str) -> np.ndarray:
    """Which value numbers are meant, bool (size,)."""
    mask = np.zeros(column.size, dtype=bool)
    if isinstance(values, Mapping):
        first, last = whole_range(column, values["low"], values["high"], where)
        mask[first : last + 1] = True
        return mask
    known = [value for value in values if value is not None]
    if len(known) < len(values):
        if not column.nulls:
            raise InputError(f"{where}: it has no nulls; take None out, or declare nulls=true.")
        mask[-1] = True
    if column.kind == "numeric" and known:
        mask[_whole_cells(column, known, where)] = True
    elif known:
        mask[[_position(column, value, where) for value in known]] = True
    return mask


def _position(column: Column, value: Any, where: str) -> int:
    if isinstance(value, str | int | float) and value in column.positions:
        return column.positions[value]
    raise InputError(f"{where}: it has no value {shown(value)}; it has {domain(column)}.")


def declared_number(column: Column, value: Any, where: str) -> float:
    """A number within the column's bounds; what is none is refused."""
    assert column.low is not None and column.high is not None
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or not column.low <= value <= column.high:
        raise InputError(f"{where}: it has no value {shown(value)}; it has {domain(column)}.")
    return float(value)


def whole_range(column: Column, low: Any, high: Any, where: str) -> tuple[int, int]:
    """The first and the last value number of a range, which cuts through no cell."""
    if column.kind == "categorical":
        raise InputError(f"{where}: a categorical column has no order; list the values.")
    known = _position if column.kind == "ordinal" else declared_number
    first, last = known(column, low, where), known(column, high, where)
    if first > last:
        raise InputError(f"{where}: low={shown(low)} is above high.")
    if column.kind == "ordinal":
        return int(first), int(last)
    return _cells_between(column, first, last, where)


def _cells_between(column: Column, low: float, high: float, where: str) -> tuple[int, int]:
    firsts, lasts = _ends(column)
    lasts[-1] = column.high
    first, last = int(np.abs(firsts - low).argmin()), int(np.abs(lasts - high).argmin())
    if first > last:  # both ends are nearest to one inner edge
        first = last = int((np.abs(firsts - low) + np.abs(lasts - high)).argmin())
    dust = 1e-6 * np.diff(column.edges())
    if abs(firsts[first] - low) > dust[first] or abs(lasts[last] - high) > dust[last]:
        raise InputError(
            f"{where}: the range {low:.10g} to {high:.10g} cuts through a cell of the column; the"
            f" nearest of whole cells is {firsts[first]:.10g} to {lasts[last]:.10g}. Use it, or"
            " change bins or breaks."
        )
    return first, last


def _ends(column: Column) -> tuple[np.ndarray, np.ndarray]:
    """The least and the largest value of each cell of a numeric column, shape (cells,)."""
    edges, half = column.edges(), (column.step or 0.0) / 2
    return edges[:-1] + half, edges[1:] - half


def _whole_cells(column: Column, values: Sequence[Any], where: str) -> np.ndarray:
    """The cells that the numbers fill; a cell is impossible only if all its numbers are."""
    numbers = np.unique([declared_number(column, value, where) for value in values])
    step = column.step
    if step is None:
        raise InputError(
            f"{where}: its cells hold more than single numbers; give a range"
            " {'low': a, 'high': b} of whole cells."
        )
    assert column.low is not None
    if off_steps(numbers, column.low, step).any():
        raise InputError(f"{where}: its values are steps of {step:g} above {column.low:g}.")
    edges = column.edges()
    cells, counts = np.unique(np.searchsorted(edges, numbers, side="right") - 1, return_counts=True)
    partly = counts < np.round((edges[cells + 1] - edges[cells]) / step)
    if partly.any():
        raise InputError(
            f"{where}: only a part of the cell {column.label(int(cells[partly.argmax()]))} is listed;"
            " list all of its numbers, give a range of whole cells, or change bins or breaks."
        )
    return cells
