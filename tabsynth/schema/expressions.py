"""Arithmetic expressions over columns, in which a schema says how one column follows from others."""

import ast
import math
import operator
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tabsynth._validate import quote
from tabsynth.errors import InputError

MAX_LENGTH = 2_000  # characters
_OPERATORS: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: np.divide,
    ast.FloorDiv: np.floor_divide,
    ast.Mod: np.mod,
}
_COMPARISONS: dict[type, Callable[[Any, Any], Any]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
}


def _calendar(days: object) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return year, month and day of days since 1970."""
    days = np.asarray(days, dtype=float)
    dates = np.where(np.isnan(days), 0, days).astype("int64").astype("datetime64[D]")
    months = dates.astype("datetime64[M]").astype("int64")
    day = (dates - dates.astype("datetime64[M]")).astype("int64") + 1
    year, month, day = (
        np.where(np.isnan(days), np.nan, part)
        for part in (months // 12 + 1970, months % 12 + 1, day)
    )
    return year, month, day


def _years(days_from: object, days_to: object) -> np.ndarray:
    """Return whole years from one date to another, as ages are counted."""
    y0, m0, d0 = _calendar(days_from)
    y1, m1, d1 = _calendar(days_to)
    before = (m1 < m0) | ((m1 == m0) & (d1 < d0))
    return y1 - y0 - before


_FUNCTIONS: dict[str, tuple[int, Callable[..., Any]]] = {
    "floor": (1, np.floor),
    "ceil": (1, np.ceil),
    "round": (1, np.round),
    "abs": (1, np.abs),
    "min": (2, np.minimum),
    "max": (2, np.maximum),
    "where": (3, np.where),
    "year": (1, lambda days: _calendar(days)[0]),
    "month": (1, lambda days: _calendar(days)[1]),
    "years": (2, _years),
}


class Expression:
    """An expression of numbers, names of columns, ``+ - * / // %``, comparisons and a few functions.

    Columns whose names are no Python names are written ``col("a name")``. Dates are days, so that
    ``discharge - admit`` is a number of days; ``years(birth, visit)`` is an age in whole years; ``year(d)`` and
    ``month(d)`` are parts of a date. The other functions are ``floor``, ``ceil``, ``round``, ``abs``, ``min``,
    ``max`` and ``where(condition, a, b)``. Where a column of the expression is null, the result is.

    Parameters
    ----------
    text : str
    where : str
        How an error begins.

    Raises
    ------
    InputError
        For text that is no such expression.
    """

    def __init__(self, text: object, where: str) -> None:
        self.text, self._where = text, where
        if not isinstance(text, str) or not text or len(text) > MAX_LENGTH:
            raise InputError(f"{where}: expected an expression as text, got {quote(text)}.")
        try:
            self._tree = ast.parse(text.strip(), mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            raise InputError(f"{where}: {quote(text)} is no expression; correct it.") from None
        self.names: tuple[str, ...] = ()
        self._read(self._tree, 0)
        if not self.names:
            raise InputError(f"{where}: {quote(text)} names no column.")

    def _read(self, node: ast.AST, depth: int) -> None:
        """Note the columns of a part; InputError for what an expression may not have."""
        if depth > 50:
            raise InputError(f"{self._where}: {quote(self.text)} is nested too deeply.")
        if isinstance(node, ast.Name):
            self.names = tuple(dict.fromkeys((*self.names, node.id)))
            return
        if isinstance(node, ast.Constant):
            number = node.value
            finite = isinstance(number, int | float) and math.isfinite(number)
            if finite and not isinstance(number, bool):
                return
        elif isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
            self._read(node.left, depth + 1)
            return self._read(node.right, depth + 1)
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            return self._read(node.operand, depth + 1)
        elif isinstance(node, ast.Compare) and len(node.ops) == 1:
            if type(node.ops[0]) in _COMPARISONS:
                self._read(node.left, depth + 1)
                return self._read(node.comparators[0], depth + 1)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and not node.keywords:
            if node.func.id == "col":
                self.names = tuple(dict.fromkeys((*self.names, self._column_name(node))))
                return
            arity = _FUNCTIONS.get(node.func.id, (-1, None))[0]
            if len(node.args) == arity:
                for part in node.args:
                    self._read(part, depth + 1)
                return
        raise InputError(
            f"{self._where}: {quote(self.text)} has a part that is not supported; use numbers, columns,"
            f" + - * / // %, comparisons, col('a name') and {', '.join(sorted(_FUNCTIONS))}."
        )

    def _column_name(self, node: ast.Call) -> str:
        argument = node.args[0] if len(node.args) == 1 else None
        if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
            return argument.value
        raise InputError(f"{self._where}: write col('name of a column').")

    def __call__(self, columns: Mapping[str, np.ndarray]) -> np.ndarray:
        """Return the result for columns of numbers, shape (n,) each; NaN where one of them is, or nothing is defined."""
        with np.errstate(all="ignore"):
            result = np.asarray(self._of(self._tree, columns), dtype=float)
        nulls = np.any([np.isnan(columns[name]) for name in self.names], axis=0)
        return np.where(nulls | ~np.isfinite(result), np.nan, result)

    def _of(self, node: Any, columns: Mapping[str, np.ndarray]) -> Any:
        if isinstance(node, ast.Name):
            return columns[node.id]
        if isinstance(node, ast.Constant):
            return node.value
        if isinstance(node, ast.BinOp):
            first, second = self._of(node.left, columns), self._of(node.right, columns)
            return _OPERATORS[type(node.op)](first, second)
        if isinstance(node, ast.UnaryOp):
            return -self._of(node.operand, columns)
        if isinstance(node, ast.Compare):
            first, second = self._of(node.left, columns), self._of(node.comparators[0], columns)
            return _COMPARISONS[type(node.ops[0])](first, second)
        if node.func.id == "col":
            return columns[self._column_name(node)]
        return _FUNCTIONS[node.func.id][1](*(self._of(part, columns) for part in node.args))
