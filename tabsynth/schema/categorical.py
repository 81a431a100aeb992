"""Categorical columns: a list of values without an order."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
import pandas as pd

from tabsynth._validate import check_text, native, shown
from tabsynth.errors import FileFormatError, InputError
from tabsynth.schema.column import (
    MAX_CATEGORIES,
    Column,
    JsonTypes,
    Value,
    labelled,
)
from tabsynth.schema.conditions import undeclared
from tabsynth.schema.dtypes import base_dtype, check_range
from tabsynth.schema.placing import Listed
from tabsynth.schema.reading import each, outside

# The types of category that a column of a base dtype holds (object and category: any).
_HOLDS = {"text": {"text"}, "int": {"int"}, "float": {"int", "float"}, "bool": {"bool"}}


@dataclass(frozen=True, kw_only=True)
class Categorical(Column):
    """A column whose values are listed, in no order.

    Parameters
    ----------
    name, kind, dtype, nulls, provenance, source, description, labels
        As of :class:`~tabsynth.schema.Column`.
    categories : tuple
        The values, nulls excluded: text, whole numbers, reals or bool, as the dtype holds them. At most 100,000.
    other : value, optional
        The category that takes every value outside ``categories``; without it they are refused.

    Examples
    --------
    >>> from tabsynth import Categorical
    >>> Categorical(name="sex", dtype="str", categories=("f", "m"), nulls=True).size
    3
    """

    kind: str = "categorical"
    categories: tuple[Value, ...] = ()
    other: Value | None = None

    dtypes: ClassVar[tuple[str, ...]] = ("text", "int", "float", "bool", "category")
    json_types: ClassVar[JsonTypes] = {"categories": list, "other": (str, int, float, bool)}
    copied_facts: ClassVar[tuple[str, ...]] = ("categories",)

    def _check(self, where: str) -> None:
        object.__setattr__(self, "categories", tuple(self.categories))
        if len(self.categories) > MAX_CATEGORIES:
            raise InputError(
                f"{where}: {len(self.categories)} categories; at most {MAX_CATEGORIES} are supported,"
                " so group them or drop the column."
            )
        if not self.categories:
            raise InputError(f"{where}: declare at least one category.")
        seen: set[Any] = set()
        for value in self.categories:
            check_text(where, value)
            # An infinity minus itself is no number either.
            if not isinstance(value, str | int | float | bool) or (
                isinstance(value, float) and value - value != 0
            ):
                raise InputError(f"{where}: category {shown(value)} is not text, number or bool.")
            if value in seen:
                raise InputError(f"{where}: category {shown(value)} is listed twice.")
            seen.add(value)
        self._check_types(where)
        if self.other is not None and self.other not in seen:
            raise InputError(f"{where}: other={shown(self.other)} is not among its categories.")

    def _check_types(self, where: str) -> None:
        """Raise InputError for categories that a Series of the declared dtype could not hold."""
        types = {_type_of(value) for value in self.categories}
        allowed = _HOLDS.get(base_dtype(self.dtype), set(_HOLDS))
        if self.dtype.lower() == "object":
            allowed = set(_HOLDS)
        wrong = [value for value in self.categories if _type_of(value) not in allowed]
        if wrong or ("text" in types and len(types) > 1):
            what = f"category {shown(wrong[0])}" if wrong else "a mix of text and numbers"
            raise InputError(
                f"{where}: dtype {self.dtype} cannot hold {what}; write the categories in the type"
                " of the dtype, or change the dtype."
            )
        if types == {"int"}:
            check_range(self.dtype, where, min(self.categories), max(self.categories))

    @classmethod
    def _check_json(cls, item: Any, where: str) -> None:
        for value in item.get("categories", ()):
            if not isinstance(value, str | int | float | bool):
                raise FileFormatError(
                    f"{where} has category {shown(value)}, which is not text, number or bool."
                )

    @property
    def cells(self) -> int:
        """Number of categories."""
        return len(self.categories)

    @property
    def value_type(self) -> str:
        """The :attr:`Column.value_type`; for dtypes ``category`` and ``object``, by the categories."""
        base = base_dtype(self.dtype)
        if base != "category" and self.dtype.lower() != "object":
            return base
        types = {type(value) for value in self.categories}
        return next((t.__name__ for t in (float, int, bool) if t in types), "text")

    def label(self, code: int) -> str:
        """Return the category or what ``labels`` says of it."""
        if code == self.cells:
            return "null"
        return labelled(self.labels, str(self.categories[code]))

    def domain(self, limit: int = 8) -> str:
        """Implement :meth:`Column.domain`."""
        text = ", ".join(shown(value) for value in self.categories[:limit])
        if len(self.categories) > limit:
            text += f" and {len(self.categories) - limit} more"
        return f"{text} and None" if self.nulls else text

    def strict(self) -> Self:
        """Implement :meth:`Column.strict`: without ``other``."""
        return replace(self, other=None)

    def encode(self, values: pd.Series) -> np.ndarray:
        """Implement :meth:`Column.encode`; an undeclared value has the code of ``other``, if there is one."""
        nulls = self.check_nulls(values.isna().to_numpy())
        rows, distinct = self._distinct(values, nulls)
        short = _short_float(values.dtype)
        positions = {_key(value): i for i, value in enumerate(self._in_dtype(values.dtype))}
        other = None if self.other is None else self.categories.index(self.other)
        table = np.empty(len(distinct) + 1, dtype=np.int64)
        table[-1] = self.cells  # factorize marks a null by -1
        for i, value in enumerate(distinct):
            self.check_exact(native(value), short or "float64")
            code = positions.get(_key(value), other)
            if code is None:
                raise self._misfit(value)
            table[i] = code
        return table[rows]

    def placing(self, held: str) -> Listed | None:
        """Implement :meth:`Column.placing`: where the type holds just what is listed."""
        types = {"text": str, "int": int, "bool": bool}
        if held not in types or any(type(v) is not types[held] for v in self.categories):
            return None
        if held != self.value_type:
            return None
        other = None if self.other is None else self.positions[self.other]
        return Listed(self.positions, other)

    def _distinct(self, values: pd.Series, nulls: np.ndarray) -> tuple[np.ndarray, Sequence[Any]]:
        """Return for each row the number of its value among the distinct ones, -1 for null; and these."""
        if values.dtype != object or pd.api.types.infer_dtype(values, skipna=True) == "string":
            return pd.factorize(values, use_na_sentinel=True)
        # Values of several types: by Python's equality, which is exact between whole numbers and floats.
        numbers: dict[Any, int] = {}
        distinct: list[Any] = []
        rows = np.full(len(values), -1, dtype=np.int64)
        cells = values.to_numpy()
        for row in np.flatnonzero(~nulls):
            value = cells[row]
            if not isinstance(value, Hashable):
                raise self._misfit(value)
            rows[row] = numbers.setdefault(_key(value), len(distinct))
            if rows[row] == len(distinct):
                distinct.append(value)
        return rows, distinct

    def _in_dtype(self, dtype: Any) -> list[Any]:
        """Return the categories as the table's dtype has them: 0.1 is another number in float32."""
        if _short_float(dtype):
            return [v if isinstance(v, str) else dtype.type(v) for v in self.categories]
        return list(self.categories)

    def decode(self, codes: np.ndarray, rng: np.random.Generator, within: Any = None) -> pd.Series:
        """Implement :meth:`Column.decode`; nothing is drawn."""
        self.check_nulls(codes == self.cells)
        values = np.empty(self.cells + int(self.nulls), dtype=object)
        values[: self.cells] = self.categories
        listed = self.to_series(values, np.arange(len(values)) == self.cells)
        return listed.take(codes).reset_index(drop=True)

    def declared_code(self, value: Any, where: str) -> int:
        """Implement :meth:`Column.declared_code`."""
        if isinstance(value, str | int | float) and value in self.positions:
            return self.positions[value]
        raise undeclared(self, value, where)

    # Amounts, for rules between columns.

    def from_amounts(self, amounts: np.ndarray) -> pd.Series:
        """Implement :meth:`Column.from_amounts`: the nearest listed number."""
        listed = self.code_amounts()[0]
        nulls = np.isnan(amounts)
        order = np.argsort(listed)
        middles = (listed[order][1:] + listed[order][:-1]) / 2
        codes = order[np.searchsorted(middles, np.where(nulls, listed[0], amounts))]
        return self.decode(np.where(nulls, self.cells, codes), np.random.default_rng(0))

    # Values of files and tables.

    def convert(self, values: pd.Series) -> pd.Series:
        """Implement :meth:`Column.convert`."""
        if base_dtype(self.dtype) != "category":
            return super().convert(values)
        nulls = values.isna().to_numpy()
        cells = values.astype(object).to_numpy()
        if self.other is not None:  # pandas would make nulls of others
            listed = nulls | values.isin(list(self.categories)).to_numpy()
            cells = np.where(listed, cells, self.other)
        return self.to_series(cells, nulls)

    def _as_dtype(self, values: np.ndarray, nulls: np.ndarray) -> pd.Series:
        if self.dtype != "category":
            return super()._as_dtype(values, nulls)

        # pandas would turn an unknown value into a null, and whole numbers into floats where there is a
        # float among them.
        def code(value: Any) -> int:
            self.check_exact(value)
            place = self.positions.get(value, self.positions.get(self.other))  # type: ignore[arg-type]
            if place is None:
                raise outside(self, value)
            return place

        codes = np.full(len(values), -1, dtype=np.int64)
        codes[~nulls] = each(self, values[~nulls], code)
        dtype = pd.CategoricalDtype(list(self.categories), ordered=self.ordered)
        return pd.Series(pd.Categorical.from_codes(codes, dtype=dtype), name=self.name)

    def check_exact(self, value: Any, dtype: str = "float64") -> None:
        """Raise InputError for a float that may be the rounding of another whole number than the category it equals.

        From 2**53 on, floats skip whole numbers (from 2**24 on in float32): where a table was read into floats,
        different categories have become one. ``dtype`` is that of the table's floats.
        """
        if not isinstance(value, float) or value - value != 0:
            return
        short = np.dtype(dtype).type
        if abs(value) < 2.0 ** (np.finfo(short).nmant + 1) or self.value_type != "int":
            return
        with np.errstate(over="ignore"):
            near = any(short(number) == value for number in self.categories)
        if near:
            raise InputError(
                f"Column {shown(self.name)}: {shown(value)} is a float so large that it may stand for"
                " several whole numbers; read the column as Int64, or as text, not as floats."
            )

    def _misfit(self, value: Any) -> InputError:
        """Return the error for an undeclared value, which may be of another type."""
        text, base = isinstance(value, str), self.value_type
        if text != (base == "text") and base in ("text", "int", "float"):
            return InputError(
                f"Column {shown(self.name)} holds {shown(value)} where the schema declares"
                f" {'text' if base == 'text' else 'numbers'}; read the file with"
                " tabsynth.read_table, or convert the column with astype."
            )
        return outside(self, value)


def _type_of(value: Value) -> str:
    return {str: "text", bool: "bool", int: "int"}.get(type(value), "float")


def _short_float(dtype: Any) -> str | None:
    """Return ``float16`` or ``float32``, for columns of such floats."""
    name = str(dtype).lower()
    return name if name in ("float16", "float32") else None


def _key(value: Any) -> Any:
    """Return a value that is equal for values that are the same fact: 1, 1.0 and numpy's 1, but not the text "1"."""
    value = native(value)
    return value if isinstance(value, str) else ("number", value)
