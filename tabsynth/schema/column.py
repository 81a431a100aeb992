"""One column's public facts: its kind and dtype, categories or bounds, cells of numbers, nulls, and who said so."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any, Literal

import numpy as np
import pandas as pd

from tabsynth._validate import check_text, integer, one_of, positive, real, shown
from tabsynth.errors import FileFormatError, InputError


def base_dtype(dtype: str) -> str:
    """``"int"``, ``"float"``, ``"bool"``, ``"text"`` or ``"category"`` for a pandas dtype name."""
    name = dtype.lower()
    if name.startswith(("int", "uint")):
        return "int"
    if name.startswith(("float", "double")):
        return "float"
    if name.startswith("bool"):
        return "bool"
    if name == "category":
        return "category"
    if name in ("str", "string", "object"):
        return "text"
    return "unsupported"


def check_dtype(dtype: Any, where: str) -> None:
    """Refuse a dtype that tables of this library cannot have."""
    if not isinstance(dtype, str) or len(dtype) > 40 or base_dtype(dtype) == "unsupported":
        raise InputError(
            f"{where}: dtype {shown(str(dtype))} is not supported; use text, whole numbers, reals,"
            " bool or category (turn a date into a year, or into text)."
        )
    if not _known_to_pandas(dtype):
        raise InputError(f"{where}: pandas knows no dtype {shown(dtype)}.")


def check_range(dtype: str, where: str, low: Any, high: Any) -> None:
    """Refuse values between ``low`` and ``high`` that a dtype of whole numbers cannot hold."""
    match = re.match(r"(u?)int(\d+)", dtype.lower())
    if match is None:
        return
    limits = np.iinfo(match[0])
    if low < limits.min or high > limits.max:
        raise InputError(
            f"{where}: dtype {dtype} holds [{limits.min}, {limits.max}], and its values"
            f" are declared in [{low}, {high}]; use a wider dtype."
        )


@lru_cache(maxsize=256)
def _known_to_pandas(dtype: str) -> bool:
    try:
        pd.Series([], dtype=dtype)
    except TypeError:
        return False
    return True


DEFAULT_BINS = 64
DUST = 1e-9  # of a step: by how much less there may be of the last one
OFF = 1e-6  # of a step: from here on a number lies on none


def steps_in(low: float, high: float, step: float) -> int:
    """How many values there are between the bounds, both included."""
    return math.floor((high - low) / step + DUST) + 1


def off_steps(numbers: np.ndarray, low: float, step: float) -> np.ndarray:
    """Which numbers are no steps above ``low``; the shape of ``numbers``, bool."""
    ranks = (numbers - low) / step
    return np.abs(ranks - np.round(ranks)) > OFF


def equal_edges(low: float, high: float, step: float | None, bins: int | None) -> np.ndarray:
    """Edges of cells of one width, or, where their values are steps, of whole steps."""
    if step is None:
        return np.linspace(low, max(high, np.nextafter(low, np.inf)), (bins or DEFAULT_BINS) + 1)
    steps = steps_in(low, high, step)
    cells = min(bins or DEFAULT_BINS, steps)
    return _between_steps(low, step, np.round(np.linspace(0, steps, cells + 1)))


def edges_at(low: float, high: float, step: float | None, breaks: Sequence[float]) -> np.ndarray:
    """Edges of cells of which the first begins at ``low`` and each other one at a break."""
    if step is None:
        return np.array([low, *breaks, high], dtype=np.float64)
    first = np.round((np.array(breaks) - low) / step)
    return _between_steps(low, step, np.array([0, *first, steps_in(low, high, step)]))


def _between_steps(low: float, step: float, first: np.ndarray) -> np.ndarray:
    """Cells start and end between two steps of the grid, so that no value lies on an edge."""
    return low + step * (first - 0.5)


def check_breaks(
    where: str, low: float, high: float, step: float | None, breaks: Sequence[float]
) -> None:
    """InputError unless they rise from ``low`` to ``high`` and lie on the steps, if there are any."""
    before = low
    for number in (real(f"breaks of {where}", number) for number in breaks):
        if not before < number <= high or (step is None and number == high):
            raise InputError(
                f"{where}: breaks must rise above low={low:g} and not pass high={high:g}; got"
                f" {number:g} after {before:g}."
            )
        if step is not None and off_steps(np.array(number), low, step):
            raise InputError(
                f"{where}: a cell cannot begin at {number:g}, which is no step of {step:g} above {low:g};"
                " move the break, or change the resolution."
            )
        before = number


KINDS = ("categorical", "ordinal", "numeric")
PROVENANCES = ("declared", "drafted")
COPIED = "copied_from_private_rows"  # of a schema file: it follows from the other keys
MAX_CATEGORIES = 100_000
MAX_STEPS = 2.0**52  # of the resolution between the bounds: past it, floats skip some

Value = str | int | float | bool


@dataclass(frozen=True, kw_only=True)
class Column:
    """One column of a table.

    Parameters
    ----------
    name : str
    kind : {"categorical", "ordinal", "numeric"}
    dtype : str
        The pandas dtype of the column in every table that comes out, e.g. ``"str"``, ``"int64"``,
        ``"Int64"``, ``"float64"``, ``"bool"``, ``"category"``.
    nulls : bool
        Whether the column may hold nulls.
    categories : tuple
        The domain of a categorical or ordinal column (an ordinal one in its order), nulls excluded.
    other : value, optional
        The category that takes every value outside ``categories``; without it they are refused.
    low, high : float
        Bounds of a numeric column, both included.
    bins : int, optional
        Equal-width cells between the bounds. Default: one cell for each step of ``resolution`` where
        there are at most 64 of them, else 64.
    breaks : tuple of float, optional
        Instead of ``bins``: where cells begin, in rising order, besides the first, which begins at ``low``.
        For columns that are skewed, and for single values that many rows have: in whole numbers from -500
        on, (0, 1, 1000) keeps 0 apart from what is below it and from 1 to 999.
    resolution : float, optional
        The step of the values (1 for whole numbers): values are multiples of it above ``low``.
    clip : bool
        Whether a numeric value outside the bounds is moved to the nearest one; else it is refused.
    provenance : {"declared", "drafted"}
        ``declared``: from a public source, named in ``source``. ``drafted``: read off a table; the schema
        file then lists, as ``copied_from_private_rows``, which of the facts were.
    description, labels : optional
        What the column and its categories mean, for people and reports.
    """

    name: str
    kind: Literal["categorical", "ordinal", "numeric"]
    dtype: str
    nulls: bool = False
    categories: tuple[Value, ...] = ()
    other: Value | None = None
    low: float | None = None
    high: float | None = None
    bins: int | None = None
    breaks: tuple[float, ...] = ()
    resolution: float | None = None
    clip: bool = False
    provenance: Literal["declared", "drafted"] = "declared"
    source: str | None = None
    description: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        where = f"column {shown(self.name)}"
        if not isinstance(self.name, str) or not self.name:
            raise InputError(f"A column's name must be text, got {shown(self.name)}.")
        one_of(f"kind of {where}", self.kind, KINDS)
        one_of(f"provenance of {where}", self.provenance, PROVENANCES)
        check_dtype(self.dtype, where)
        if self.nulls and (re.fullmatch(r"u?int\d+", self.dtype) or self.dtype == "bool"):
            raise InputError(
                f"{where}: dtype {self.dtype} cannot hold the nulls that it declares; use"
                f" {'boolean' if self.dtype == 'bool' else self.dtype.replace('int', 'Int')}."
            )
        object.__setattr__(self, "categories", tuple(self.categories))
        object.__setattr__(self, "breaks", tuple(self.breaks))
        self._check_texts(where)
        if self.kind == "numeric":
            self._check_numeric(where)
        else:
            self._check_categories(where)

    def _check_texts(self, where: str) -> None:
        if len(self.categories) > MAX_CATEGORIES:
            raise InputError(
                f"{where}: {len(self.categories)} categories; at most {MAX_CATEGORIES} are supported,"
                " so group them or drop the column."
            )
        labels = [text for pair in self.labels.items() for text in pair]
        for text in (self.name, self.source, self.description, *self.categories, *labels):
            check_text(where, text)

    def _check_categories(self, where: str) -> None:
        if not self.categories:
            raise InputError(f"{where}: declare at least one category.")
        seen: set[Any] = set()
        for value in self.categories:
            # An infinity minus itself is no number either.
            if not isinstance(value, str | int | float | bool) or (
                isinstance(value, float) and value - value != 0
            ):
                raise InputError(f"{where}: category {shown(value)} is not text, number or bool.")
            if value in seen:
                raise InputError(f"{where}: category {shown(value)} is listed twice.")
            seen.add(value)
        self._check_values(where)
        if self.other is not None and self.other not in seen:
            raise InputError(f"{where}: other={shown(self.other)} is not among its categories.")

    def _check_values(self, where: str) -> None:
        """Refuse categories that a Series of the declared dtype could not hold."""
        found = {_kind_of(value) for value in self.categories}
        allowed = _HOLDS.get(base_dtype(self.dtype), set(_HOLDS))
        if self.dtype.lower() == "object":
            allowed = set(_HOLDS)
        wrong = [value for value in self.categories if _kind_of(value) not in allowed]
        if wrong or ("text" in found and len(found) > 1):
            what = f"category {shown(wrong[0])}" if wrong else "a mix of text and numbers"
            raise InputError(
                f"{where}: dtype {self.dtype} cannot hold {what}; write the categories in the type"
                " of the dtype, or change the dtype."
            )
        if found == {"int"}:
            check_range(self.dtype, where, min(self.categories), max(self.categories))

    def _check_numeric(self, where: str) -> None:
        if base_dtype(self.dtype) not in ("int", "float"):
            raise InputError(f"{where}: a numeric column cannot have dtype {shown(self.dtype)}.")
        if self.low is None or self.high is None:
            raise InputError(f"{where}: declare finite bounds, low and high.")
        low, high = real(f"low of {where}", self.low), real(f"high of {where}", self.high)
        if not math.isfinite(high - low):
            raise InputError(f"{where}: declare finite bounds, low and high.")
        if low > high:
            raise InputError(f"{where}: low={low:g} is above high={high:g}.")
        if low < -(2**63) or high >= 2**64:  # whole numbers that numpy has no dtype for
            object.__setattr__(self, "low", low)
            object.__setattr__(self, "high", high)
        if self.resolution is not None:
            step = positive(f"resolution of {where}", self.resolution)
            if (high - low) / step > MAX_STEPS:
                raise InputError(
                    f"{where}: resolution={step:g} is too fine for bounds [{low:g}, {high:g}]; declare"
                    " a coarser one, or none."
                )
        if self.bins is not None and integer(f"bins of {where}", self.bins) > MAX_CATEGORIES:
            raise InputError(f"{where}: expected bins in [1, {MAX_CATEGORIES}], got {self.bins}.")
        if base_dtype(self.dtype) == "int":
            if any(number % 1 for number in (low, high, self.step or 1)):
                raise InputError(
                    f"{where}: low, high and resolution of a column of whole numbers must be whole,"
                    f" got {low:g}, {high:g} and {self.step:g}; or use dtype float64."
                )
            check_range(self.dtype, where, self.low, self.high)
        if self.breaks:
            if self.bins is not None:
                raise InputError(f"{where}: declare bins or breaks, not both.")
            if len(self.breaks) >= MAX_CATEGORIES:
                raise InputError(f"{where}: expected fewer than {MAX_CATEGORIES} breaks.")
            check_breaks(where, self.low, self.high, self.step, self.breaks)

    @property
    def step(self) -> float | None:
        """The declared resolution; 1 for whole numbers; None for reals without one."""
        if self.resolution is None and base_dtype(self.dtype) == "int":
            return 1.0
        return self.resolution

    def edges(self) -> np.ndarray:
        """Edges of the cells of a numeric column, shape (cells + 1,)."""
        assert self.low is not None and self.high is not None
        if self.breaks:
            return edges_at(self.low, self.high, self.step, self.breaks)
        return equal_edges(self.low, self.high, self.step, self.bins)

    @cached_property
    def positions(self) -> dict[Value, int]:
        """The value number of each category."""
        return {value: number for number, value in enumerate(self.categories)}

    @property
    def size(self) -> int:
        """Number of codes: categories or cells, and one more for null where nulls are allowed."""
        cells = len(self.edges()) - 1 if self.kind == "numeric" else len(self.categories)
        return cells + int(self.nulls)

    def label(self, code: int) -> str:
        """What code ``code`` stands for, for people: null comes last."""
        cells = self.size - int(self.nulls)
        if code == cells:
            return "null"
        if self.kind == "numeric":
            edges = self.edges()
            low, high = edges[code], edges[code + 1]
            step = self.step
            if step is not None:
                low, high = low + step / 2, high - step / 2
            return f"{low:.10g}" if low == high else f"{low:.10g}–{high:.10g}"
        value = self.categories[code]
        return self.labels.get(str(value), str(value))

    @property
    def copied(self) -> tuple[str, ...]:
        """The facts of a drafted column that were read off the rows of a table; none of a declared one."""
        if self.provenance != "drafted":
            return ()
        facts = (
            ("low", "high", "breaks", "resolution") if self.kind == "numeric" else ("categories",)
        )
        return (
            *(name for name in facts if getattr(self, name) not in (None, ())),
            "dtype",
            "nulls",
        )

    def to_dict(self, *, copied: bool = True) -> dict[str, Any]:
        """JSON-ready, defaults left out; ``copied``: with :attr:`copied` of a drafted column."""
        out: dict[str, Any] = {}
        for name, default in _DEFAULTS.items():
            value = getattr(self, name)
            if isinstance(value, tuple):
                value = list(value)
            if name in ("name", "kind", "dtype", "provenance") or value != default:
                out[name] = dict(value) if name == "labels" else value
        if copied and self.copied:
            out[COPIED] = list(self.copied)
        return out


# The kinds of category that a column of a base dtype holds (object and category: any).
_HOLDS = {"text": {"text"}, "int": {"int"}, "float": {"int", "float"}, "bool": {"bool"}}

_DEFAULTS: dict[str, Any] = {
    "name": None,
    "kind": None,
    "dtype": None,
    "nulls": False,
    "categories": [],
    "other": None,
    "low": None,
    "high": None,
    "bins": None,
    "breaks": [],
    "resolution": None,
    "clip": False,
    "provenance": "declared",
    "source": None,
    "description": None,
    "labels": {},
}


def _kind_of(value: Value) -> str:
    return {str: "text", bool: "bool", int: "int"}.get(type(value), "float")


def column_from(item: dict[str, Any], where: str) -> Column:
    """Inverse of :meth:`Column.to_dict`; refuses what it does not know.

    ``copied_from_private_rows`` is not read: it follows from the provenance.
    """
    item = {key: value for key, value in item.items() if key != COPIED}
    unknown = set(item) - set(_DEFAULTS)
    if unknown:
        raise FileFormatError(
            f"{where}: column {shown(item.get('name'))} has unknown key"
            f" {shown(sorted(unknown)[0])}; known are {', '.join(_DEFAULTS)}."
        )
    expected: dict[str, type | tuple[type, ...]] = {
        "nulls": bool,
        "clip": bool,
        "categories": list,
        "labels": dict,
        "bins": int,
        "breaks": list,
        "low": (int, float),
        "high": (int, float),
        "resolution": (int, float),
        "source": str,
        "description": str,
        "other": (str, int, float, bool),
    }
    for key, kind in expected.items():
        value = item.get(key)
        wrong = not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool)
        if value is not None and wrong and not (key == "other" and isinstance(value, bool)):
            raise FileFormatError(
                f"{where}: column {shown(item.get('name'))} has {key}={shown(value)}, of a wrong type."
            )
    for key in ("name", "kind", "dtype"):
        if not isinstance(item.get(key), str):
            raise FileFormatError(f"{where}: a column lacks {key!r}: {shown(item)}.")
    if not all(isinstance(text, str) for text in (item.get("labels") or {}).values()):
        raise FileFormatError(f"{where}: labels of column {shown(item['name'])} must be texts.")
    values = {key: value for key, value in item.items() if value is not None}
    for key in ("categories", "breaks"):
        values[key] = tuple(values.get(key, ()))
    for value in values["categories"]:
        if not isinstance(value, str | int | float | bool):
            raise FileFormatError(
                f"{where}: column {shown(item['name'])} has category {shown(value)},"
                " which is not text, number or bool."
            )
    return Column(**values)
