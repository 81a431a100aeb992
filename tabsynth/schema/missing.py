"""Several reasons for missing in one column, kept apart: "not applicable, a child", "refused".

A column that declares ``missing`` is of a class that extends its kind's by :class:`WithReasons`. It leaves its values to
a column without reasons, ``inner``, and has a category code for each reason: after those of the values, before that
of null. In tables a reason is a text or a sentinel such as -8, and comes back as it went in.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
import pandas as pd

from tabsynth._validate import check_text, native, shown
from tabsynth.errors import InputError
from tabsynth.schema.cells import is_null, plain
from tabsynth.schema.dtypes import base_dtype, in_dtype
from tabsynth.schema.placing import Cells, Listed, Placing

MOST_REASONS = 100
NUMBERS = ("int", "float")
EXACT = 2**53  # up to it, whole numbers are floats


@lru_cache(maxsize=64)
def with_reasons(kind: Any) -> Any:
    """Return the class of columns of a kind that have reasons for missing."""
    if issubclass(kind, WithReasons):
        return kind
    # A column of numbers may hold texts beside them, such as "N".
    dtypes = (*kind.dtypes, "text") if kind.dtypes == NUMBERS else kind.dtypes
    facts = {
        "__doc__": kind.__doc__,
        "__module__": kind.__module__,
        "dtypes": dtypes,
        "plain_kind": kind,
    }
    return type(kind.__name__, (WithReasons, kind), facts)


def _column(kind: Any, facts: dict[str, Any]) -> Any:
    return kind(**facts)


class WithReasons:
    """The methods of columns with reasons for missing, in place of those of their kind.

    Formal guarantees
    -----------------
    Value by value, as :class:`tabsynth.schema.Column` promises: whether a value is a reason follows from the schema and from
    that value.
    """

    plain_kind: Any
    name: str
    dtype: str
    nulls: bool
    provenance: str
    missing: Mapping[str, str]
    learned: bool

    def _facts(self) -> dict[str, Any]:
        return {f.name: getattr(self, f.name) for f in fields(self)}  # type: ignore[arg-type]

    def __reduce__(self) -> Any:
        """Return the parts for pickle."""
        return _column, (self.plain_kind, self._facts())

    def _check(self, where: str) -> None:
        if not self.learned:
            raise InputError(f"{where}: a column that is not learned has no reasons for missing.")
        if self.provenance == "released":
            raise InputError(
                f"{where}: a column that a private draft released has no reasons for missing; declare the column."
            )
        if len(self.missing) > MOST_REASONS:
            raise InputError(f"{where}: at most {MOST_REASONS} reasons for missing are supported.")
        for key, text in self.missing.items():
            if not isinstance(key, str) or not isinstance(text, str) or not key:
                raise InputError(
                    f"{where}: expected missing to be a dict of texts, such as {{'-8': 'refused'}}; got"
                    f" {shown(key)}: {shown(text)}."
                )
            check_text(where, key)
            check_text(where, text)
        for name, value in self._facts().items():  # as the kind's own check has written them
            if name not in ("dtype", "missing", "nulls"):
                object.__setattr__(self, name, getattr(self.inner, name, value))
        for key, value in zip(self.missing, self.reasons, strict=True):
            try:
                self.inner.strict().encode(self._inner_values(_series([value])))
            except InputError:
                continue
            raise InputError(
                f"{where}: {shown(key)} stands for a missing value and is a declared value, too; take it out of one"
                " of the two, or narrow the bounds."
            )

    @cached_property
    def inner(self) -> Any:
        """The column of the values, without reasons."""
        facts = {**self._facts(), "missing": {}}
        if base_dtype(self.dtype) not in self.plain_kind.dtypes:  # numbers beside texts
            numbers = [facts["low"], facts["high"], facts["resolution"]]
            if facts["resolution"] is None:
                raise InputError(
                    f"column {shown(self.name)}: numbers of dtype {self.dtype} need a resolution, such as 1 for whole"
                    " numbers."
                )
            whole = all(n is None or float(n).is_integer() for n in numbers)
            facts["dtype"] = "Int64" if whole else "Float64"
        return self.plain_kind(**facts)

    @cached_property
    def reasons(self) -> tuple[Any, ...]:
        """The values that stand for each reason in tables, in the type of the dtype."""
        return tuple(self._value(key) for key in self.missing)

    def _value(self, key: str) -> Any:
        base = base_dtype(self.dtype)
        try:
            if base == "int":
                return int(key)
            if base == "float":
                return float(key)
            if base == "datetime":
                return pd.Series([key], dtype="str").astype(self.dtype).iloc[0]
            if base == "timedelta":
                return pd.Timedelta(key)
            if base == "period":
                return pd.Period(key, freq=self.dtype[len("period[") : -1])
            if self.inner.value_type in NUMBERS and self.dtype.lower() in ("object", "category"):
                return int(key) if float(key).is_integer() else float(key)
        except ValueError:
            if base not in ("text", "category"):
                raise InputError(
                    f"column {shown(self.name)}: dtype {self.dtype} cannot hold {shown(key)}, which stands for a"
                    " missing value; declare dtype object, or a sentinel of the dtype."
                ) from None
        if base == "bool":
            raise InputError(
                f"column {shown(self.name)}: dtype {self.dtype} cannot hold reasons for missing; declare dtype object."
            )
        return key

    # Which values are reasons.

    def reason_codes(self, values: pd.Series) -> np.ndarray:
        """Return the place of the reason that each value stands for, shape (n,); -1 for other values and null."""
        out = np.full(len(values), -1, dtype=np.int64)
        if base_dtype(str(values.dtype)) not in ("text", "category", "unsupported"):
            for place, reason in enumerate(self.reasons):
                if not isinstance(reason, str):
                    same = (values == reason).to_numpy(dtype=bool, na_value=False)
                    out[same] = place
            return out
        cells = values.astype(object).to_numpy()
        known: dict[Any, int] = {}
        for row, cell in enumerate(cells):
            try:
                kind_and_cell = (type(cell), cell)
                if kind_and_cell not in known:
                    known[kind_and_cell] = self._reason_of(cell)
                out[row] = known[kind_and_cell]
            except TypeError:  # a list, for example, which the kind refuses
                continue
        return out

    def _reason_of(self, cell: Any) -> int:
        cell = native(cell)
        if is_null(cell) or isinstance(cell, bool):
            return -1
        for place, (key, reason) in enumerate(zip(self.missing, self.reasons, strict=True)):
            if str(cell) == key or (not isinstance(cell, str) and _equal(cell, reason)):
                return place
            if (
                isinstance(cell, str)
                and not isinstance(reason, str)
                and _equal(_number(cell), reason)
            ):
                return place
        return -1

    def _inner_values(self, values: pd.Series) -> pd.Series:
        """Return values that are no reasons as ``inner`` encodes them."""
        if self.inner.dtype == self.dtype:
            return values
        inner: pd.Series = self.inner.convert(values)
        return inner

    def _joined(self, made: pd.Series, marks: np.ndarray) -> pd.Series:
        """Return values of ``inner`` and, where ``marks`` is not -1, reasons; in the column's dtype."""
        cells = np.empty(len(marks), dtype=object)
        reasons = np.empty(len(self.reasons) + 1, dtype=object)
        reasons[:-1] = self.reasons
        cells[:] = reasons[marks]
        values = made.astype(object).to_numpy()
        if base_dtype(self.dtype) == "text" and self.inner.dtype != self.dtype:
            values = np.array([_written(v, self.dtype) for v in values] + [None], dtype=object)[:-1]
        cells[marks < 0] = values
        if self.dtype == "category":
            listed = [*self.inner.categories, *self.reasons]
            dtype = pd.CategoricalDtype(listed, ordered=self.inner.ordered)
            cells[pd.isna(cells)] = None
            return pd.Series(pd.Categorical(cells, dtype=dtype), name=self.name)
        return in_dtype(pd.Series(cells, dtype=object, name=self.name), self.dtype)

    def _split(self, codes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the place of the reason of each code, or -1; and the codes of ``inner`` of the others."""
        cells = self.inner.cells
        marks = np.where((codes >= cells) & (codes < cells + len(self.missing)), codes - cells, -1)
        rest = codes[marks < 0]
        return marks, np.where(rest >= cells, cells, rest)

    def _outer(self, by_code: np.ndarray, reasons: np.ndarray) -> np.ndarray:
        """Return values for each code from those of ``inner``'s codes, shape (inner.size, …), and of the reasons."""
        cells = self.inner.cells
        return np.concatenate([by_code[:cells], reasons, by_code[cells:]])

    # Codes.

    @property
    def cells(self) -> int:
        """Number of codes of values."""
        return int(self.inner.cells)

    @property
    def size(self) -> int:
        """Number of codes."""
        return self.cells + len(self.missing) + int(self.nulls)

    @property
    def value_type(self) -> str:
        """The type of the values."""
        return str(self.inner.value_type)

    @property
    def written(self) -> tuple[Any, ...]:
        """The :attr:`Column.written`."""
        return (*self.inner.written, *self.missing)

    def label(self, code: int) -> str:
        """Implement :meth:`Column.label`; of a reason what it means."""
        place = code - self.cells
        if 0 <= place < len(self.missing):
            key = list(self.missing)[place]
            return f"{key} ({self.missing[key]})" if self.missing[key] else key
        return str(self.inner.label(min(code, self.cells)))

    def domain(self, limit: int = 8) -> str:
        """Implement :meth:`Column.domain`."""
        keys = ", ".join(shown(key) for key in list(self.missing)[:limit])
        return f"{self.inner.domain(limit)}, and for missing values {keys}"

    def scores(self) -> np.ndarray | None:
        """Implement :meth:`Column.scores`; NaN for reasons."""
        scores = self.inner.scores()
        return None if scores is None else self._outer(scores, np.full(len(self.missing), np.nan))

    def axis(self) -> tuple[str, np.ndarray] | None:
        """Implement :meth:`Column.axis`."""
        axis: tuple[str, np.ndarray] | None = self.inner.axis()
        return axis

    def groups(self, shares: np.ndarray, least: float, merged: float) -> np.ndarray:
        """Implement :meth:`Column.groups`; each reason is a group of its own."""
        own = np.delete(shares, np.arange(self.cells, self.cells + len(self.missing)))
        groups = self.inner.groups(own, least, merged)
        return self._outer(groups, groups.max() + 1 + np.arange(len(self.missing)))

    def encode(self, values: pd.Series) -> np.ndarray:
        """Implement :meth:`Column.encode`."""
        marks = self.reason_codes(values)
        codes = self.cells + marks
        rest = marks < 0
        own = self.inner.encode(self._inner_values(values[rest]))
        codes[rest] = np.where(own >= self.cells, self.size - 1, own)
        return codes

    def placing(self, held: str) -> Placing | None:
        """Implement :meth:`Column.placing`: where reasons are numbers among numbers, or texts among texts."""
        inner = self.inner.placing(held)
        codes = {reason: self.cells + place for place, reason in enumerate(self.reasons)}
        if held == "text" and isinstance(inner, Listed) and all(isinstance(r, str) for r in codes):
            return Listed({**inner.codes, **codes}, inner.other)
        exact = all(type(r) in (int, float) and abs(r) <= EXACT for r in codes)
        if base_dtype(self.dtype) not in NUMBERS or not exact:
            return None
        if held == "int" and isinstance(inner, Listed) and base_dtype(self.dtype) == "int":
            return Listed({**inner.codes, **codes}, inner.other)
        if held in ("int", "float64") and isinstance(inner, Cells):
            return replace(inner, apart=codes)
        return None

    def decode(self, codes: np.ndarray, rng: np.random.Generator, within: Any = None) -> pd.Series:
        """Implement :meth:`Column.decode`."""
        marks, own = self._split(codes)
        return self._joined(self.inner.decode(own, rng, within), marks)

    def keep_given(self, decoded: pd.Series, given: pd.Series, where: np.ndarray) -> pd.Series:
        """Implement :meth:`Column.keep_given`; reasons are kept."""
        marks = self.reason_codes(decoded)
        rest = marks < 0
        own, kept = (
            self._inner_values(part[rest].reset_index(drop=True))
            for part in (decoded.reset_index(drop=True), given.reset_index(drop=True))
        )
        return self._joined(self.inner.keep_given(own, kept, where[rest]), marks)

    # The detail: that of a reason is the last one.

    @property
    def detail(self) -> Any:
        """The :attr:`Column.detail`."""
        return self.inner.detail

    def detail_codes(self, values: pd.Series) -> np.ndarray:
        """Implement :meth:`Column.detail_codes`."""
        marks = self.reason_codes(values)
        codes = np.full(len(values), self.detail.size - 1, dtype=np.int64)
        codes[marks < 0] = self.inner.detail_codes(self.inner.convert(values[marks < 0]))
        return codes

    def detail_possible(self) -> np.ndarray:
        """Implement :meth:`Column.detail_possible`."""
        last = np.zeros((len(self.missing), self.detail.size), dtype=bool)
        last[:, -1] = True
        return self._outer(self.inner.detail_possible(), last)

    def decode_detailed(
        self, codes: np.ndarray, details: np.ndarray, rng: np.random.Generator, within: Any = None
    ) -> pd.Series:
        """Implement :meth:`Column.decode_detailed`."""
        marks, own = self._split(codes)
        return self._joined(self.inner.decode_detailed(own, details[marks < 0], rng, within), marks)

    def detail_restriction(self, values: Sequence[Any]) -> np.ndarray | None:
        """Implement :meth:`Column.detail_restriction`."""
        codes, rest = self._named(values)
        details: np.ndarray | None = self.inner.detail_restriction(rest) if rest else None
        if details is not None and codes:
            details[-1] = True
        return details

    # Amounts: reasons have none.

    def amounts(self, values: pd.Series) -> np.ndarray:
        """Implement :meth:`Column.amounts`; NaN for reasons."""
        amounts = np.full(len(values), np.nan)
        rest = self.reason_codes(values) < 0
        amounts[rest] = self.inner.amounts(self._inner_values(values[rest]))
        return amounts

    def from_amounts(self, amounts: np.ndarray) -> pd.Series:
        """Implement :meth:`Column.from_amounts`."""
        return self._joined(self.inner.from_amounts(amounts), np.full(len(amounts), -1))

    def code_amounts(self) -> tuple[np.ndarray, np.ndarray]:
        """Implement :meth:`Column.code_amounts`."""
        lows, highs = self.inner.code_amounts()
        return lows, highs

    @property
    def amount_step(self) -> float | None:
        """The :attr:`Column.amount_step`."""
        step: float | None = self.inner.amount_step
        return step

    # Conditions and combinations of values.

    def _named(self, values: Sequence[Any]) -> tuple[list[int], list[Any]]:
        """Return the codes of the reasons among some values of a condition, and the other values."""
        places = [-1 if isinstance(value, Mapping) else self._reason_of(value) for value in values]
        rest = [v for v, place in zip(values, places, strict=True) if place < 0]
        return [self.cells + place for place in places if place >= 0], rest

    def declared_code(self, value: Any, where: str) -> int:
        """Implement :meth:`Column.declared_code`."""
        codes, rest = self._named([value])
        return int(self.inner.declared_code(value, where)) if rest else codes[0]

    def declared_codes(self, values: Sequence[Any], where: str) -> np.ndarray:
        """Implement :meth:`Column.declared_codes`."""
        codes, rest = self._named(values)
        own = self.inner.declared_codes(rest, where) if rest else np.empty(0, dtype=np.int64)
        return np.concatenate([own, np.array(codes, dtype=np.int64)])

    def code_range(self, low: Any, high: Any, where: str) -> tuple[int, int]:
        """Implement :meth:`Column.code_range`: of values."""
        first, last = self.inner.code_range(low, high, where)
        return first, last

    def mask(self, values: Any, where: str) -> np.ndarray:
        """Implement :meth:`Column.mask`."""
        codes, rest = ([], values) if isinstance(values, Mapping) else self._named(values)
        nothing = np.zeros(self.inner.size, dtype=bool)
        own = self.inner.mask(rest, where) if rest else nothing
        mask = self._outer(own, np.zeros(len(self.missing), dtype=bool))
        mask[codes] = True
        return mask

    def restriction(self, values: Sequence[Any]) -> tuple[np.ndarray, Any]:
        """Implement :meth:`Column.restriction`."""
        codes, rest = self._named(values)
        nothing = np.zeros(self.inner.size, dtype=bool), None
        own, within = self.inner.restriction(rest) if rest else nothing
        shares = self._outer(own, np.zeros(len(self.missing), dtype=bool))
        shares[codes] = 1
        return shares, within

    def satisfies(self, values: pd.Series, shares: np.ndarray, within: Any) -> np.ndarray:
        """Implement :meth:`Column.satisfies`."""
        marks = self.reason_codes(values)
        kept = shares[self.cells + np.maximum(marks, 0)] > 0
        own = np.delete(shares, np.arange(self.cells, self.cells + len(self.missing)))
        rest = marks < 0
        kept[rest] = self.inner.satisfies(self._inner_values(values[rest]), own, within)
        return np.asarray(kept)

    def stated(self, value: Any) -> Any:
        """Implement :meth:`Column.stated`; of a reason what stands for it."""
        codes, rest = self._named([value])
        return self.inner.stated(value) if rest else list(self.missing)[codes[0] - self.cells]

    # Values of files and tables.

    def parse(self, texts: pd.Series) -> pd.Series:
        """Implement :meth:`Column.parse`."""
        return self._read(texts, self.inner.parse)

    def convert(self, values: pd.Series) -> pd.Series:
        """Implement :meth:`Column.convert`."""
        if str(values.dtype) == self.dtype and base_dtype(self.dtype) not in ("text", "category"):
            return values
        return self._read(values, self.inner.convert)

    def _read(self, values: pd.Series, read: Callable[[pd.Series], pd.Series]) -> pd.Series:
        marks = self.reason_codes(values)
        return self._joined(read(values[marks < 0]), marks).set_axis(values.index)

    def to_series(self, values: np.ndarray, nulls: np.ndarray) -> pd.Series:
        """Implement :meth:`Column.to_series`."""
        marks = self.reason_codes(_series(values))
        rest = marks < 0
        return self._joined(self.inner.to_series(values[rest], nulls[rest]), marks)


def _series(values: Any) -> pd.Series:
    cells = np.empty(len(values), dtype=object)
    cells[:] = values
    return pd.Series(cells, dtype=object)


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _equal(cell: Any, reason: Any) -> bool:
    """Return whether a cell that is no text is the value of a reason."""
    try:
        return bool(cell is not None and not isinstance(reason, str) and cell == reason)
    except (TypeError, ValueError):
        return False


def _written(value: Any, dtype: str) -> Any:
    """Return a number in a column of texts, or of any values where the dtype is ``object``."""
    value = plain(value)
    if value is None or dtype == "object":
        return value
    return f"{value:.15g}" if isinstance(value, float) else str(value)
