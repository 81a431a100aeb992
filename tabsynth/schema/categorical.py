"""Categorical and ordinal columns: a list of values without an order, and in their order."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
import pandas as pd

from tabsynth._validate import check_text, native, quote
from tabsynth.errors import InputError
from tabsynth.schema.cells import base_dtype, check_range
from tabsynth.schema.column import (
    MAX_CATEGORIES,
    Column,
    JsonTypes,
    check_nulls,
    domain_with_missing,
    fill_missing,
    label_of,
)
from tabsynth.schema.facts import Value
from tabsynth.schema.reading import check_exact, each, outside

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
                raise InputError(f"{where}: category {quote(value)} is not text, number or bool.")
            if value in seen:
                raise InputError(f"{where}: category {quote(value)} is listed twice.")
            seen.add(value)
        self._check_types(where)
        if self.other is not None and self.other not in seen:
            raise InputError(f"{where}: other={quote(self.other)} is not among its categories.")

    def _check_types(self, where: str) -> None:
        """Raise InputError for categories that a Series of the declared dtype could not hold."""
        types = {_type_of(value) for value in self.categories}
        allowed = _HOLDS.get(base_dtype(self.dtype), set(_HOLDS))
        if self.dtype.lower() == "object":
            allowed = set(_HOLDS)
        wrong = [value for value in self.categories if _type_of(value) not in allowed]
        if wrong or ("text" in types and len(types) > 1):
            what = f"category {quote(wrong[0])}" if wrong else "a mix of text and numbers"
            raise InputError(
                f"{where}: dtype {self.dtype} cannot hold {what}; write the categories in the type"
                " of the dtype, or change the dtype."
            )
        if types == {"int"}:
            check_range(self.dtype, where, min(self.categories), max(self.categories))

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
        if code >= self.cells:
            return super().label(code)
        return label_of(self.labels, str(self.categories[code]))

    def domain(self, limit: int = 8) -> str:
        """Implement :meth:`Column.domain`."""
        text = ", ".join(quote(value) for value in self.categories[:limit])
        if len(self.categories) > limit:
            text += f" and {len(self.categories) - limit} more"
        return domain_with_missing(self, text, limit)

    def strict(self) -> Self:
        """Implement :meth:`Column.strict`: without ``other``."""
        return replace(self, other=None)

    def _encode(self, values: pd.Series) -> np.ndarray:
        """Implement :meth:`Column.encode`; an undeclared value has the code of ``other``, if there is one."""
        rows, distinct = self._distinct(values)
        short = _short_float(values.dtype)
        positions = {_key(value): i for i, value in enumerate(self._in_dtype(values.dtype))}
        other = None if self.other is None else self.categories.index(self.other)
        table = np.empty(len(distinct), dtype=np.int64)
        for i, value in enumerate(distinct):
            check_exact(self, native(value), short or "float64")
            code = positions.get(_key(value), other)
            if code is None:
                raise self._misfit(value)
            table[i] = code
        return table[rows]

    def _distinct(self, values: pd.Series) -> tuple[np.ndarray, Sequence[Any]]:
        """Return for each row the number of its value among the distinct ones; and these."""
        if values.dtype != object or pd.api.types.infer_dtype(values) == "string":
            return pd.factorize(values)
        # Values of several types: by Python's equality, which is exact between whole numbers and floats.
        numbers: dict[Any, int] = {}
        distinct: list[Any] = []
        rows = np.empty(len(values), dtype=np.int64)
        for row, value in enumerate(values):
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

    def _decode(
        self, codes: np.ndarray, rng: np.random.Generator, within: Any, details: np.ndarray | None
    ) -> pd.Series:
        """Implement :meth:`Column.decode`; nothing is drawn."""
        check_nulls(self, codes == self.cells)
        values = np.empty(self.cells + int(self.nulls), dtype=object)
        values[: self.cells] = self.categories
        listed = self.to_series(values, np.arange(len(values)) == self.cells)
        return listed.take(codes).reset_index(drop=True)

    # Amounts, for rules between columns.

    def from_amounts(self, amounts: np.ndarray) -> pd.Series:
        """Implement :meth:`Column.from_amounts`: the nearest listed number."""
        listed = self.code_amounts()[0]
        nulls = np.isnan(amounts)
        order = np.argsort(listed)
        middles = (listed[order][1:] + listed[order][:-1]) / 2
        codes = order[np.searchsorted(middles, np.where(nulls, listed[0], amounts))]
        codes = np.where(nulls, self.cells, codes)
        return self._decode(codes, np.random.default_rng(0), None, None)

    # Values of files and tables.

    def _convert(self, values: pd.Series, texts: bool) -> pd.Series:
        """Implement :meth:`Column.convert`."""
        if base_dtype(self.dtype) != "category" or texts:
            return super()._convert(values, texts)
        nulls = values.isna().to_numpy()
        cells = values.astype(object).to_numpy()
        if self.other is not None:  # pandas would make nulls of others
            listed = nulls | values.isin(list(self.categories)).to_numpy()
            cells = np.where(listed, cells, self.other)
        return self.to_series(cells, nulls)

    def to_series(self, values: np.ndarray, nulls: np.ndarray) -> pd.Series:
        """Implement :meth:`Column.to_series`."""
        if self.dtype != "category":
            return super().to_series(values, nulls)
        check_nulls(self, nulls)

        # pandas would turn an unknown value into a null, and whole numbers into floats where there is a
        # float among them.
        def code(value: Any) -> int:
            check_exact(self, value)
            place = self.positions.get(value, other)
            if place is None:
                raise outside(self, value)
            return place

        other = None if self.other is None else self.positions[self.other]
        codes = np.full(len(values), -1, dtype=np.int64)
        codes[~nulls] = each(self, values[~nulls], code)
        dtype = pd.CategoricalDtype(list(self.categories), ordered=self.ordered)
        return pd.Series(pd.Categorical.from_codes(codes, dtype=dtype), name=self.name)

    def _misfit(self, value: object) -> InputError:
        """Return the error for an undeclared value, which may be of another type."""
        text, base = isinstance(value, str), self.value_type
        if text != (base == "text") and base in ("text", "int", "float"):
            return InputError(
                f"Column {quote(self.name)} holds {quote(value)} where the schema declares"
                f" {'text' if base == 'text' else 'numbers'}; read the file with"
                " tabsynth.read_table, or convert the column with astype."
            )
        return outside(self, value)


@dataclass(frozen=True, kw_only=True)
class Ordinal(Categorical):
    """A column whose values are listed in their order, such as school grades.

    Parameters are those of :class:`~tabsynth.Categorical`; ``categories`` begins with the least value.
    """

    kind: str = "ordinal"

    ordered: ClassVar[bool] = True

    def scores(self) -> np.ndarray | None:
        """Return the values themselves where all are numbers, else their ranks; NaN for missing values."""
        if all(isinstance(v, int | float) and not isinstance(v, bool) for v in self.categories):
            return fill_missing(self, np.array(self.categories, dtype=float), np.nan)
        return super().scores()


def _type_of(value: Value) -> str:
    return {str: "text", bool: "bool", int: "int"}.get(type(value), "float")


def _short_float(dtype: object) -> str | None:
    """Return ``float16`` or ``float32``, for columns of such floats."""
    name = str(dtype).lower()
    return name if name in ("float16", "float32") else None


def _key(value: object) -> Any:
    """Return a value that is equal for values that are the same fact: 1, 1.0 and numpy's 1, but not the text "1"."""
    value = native(value)
    return value if isinstance(value, str) else ("number", value)
