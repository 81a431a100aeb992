"""The public facts of a table: its columns, their kinds, categories and bounds, and who said so.

A schema is public. Everything that is fitted before the ledger opens (encoders, layouts, networks)
is a function of the schema alone, so a fact in it must come from a codebook or a rule, not from the
private table; ``provenance`` records which (rule R12 of the privacy rules: the domain is public or
paid for).
"""

import hashlib
import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd

from tabsynth._files import write_text
from tabsynth._validate import integer, one_of, positive, real, shown
from tabsynth.errors import FileFormatError, InputError

KINDS = ("categorical", "ordinal", "numeric")
PROVENANCES = ("declared", "drafted")
FORMAT = "tabsynth-schema/1"
DEFAULT_BINS = 64
MAX_CATEGORIES = 100_000
MAX_FILE_BYTES = 64 * 2**20
DEFAULT_NULL_VALUES = ("", "NA", "N/A", "NaN", "nan", "<NA>", "null", "NULL")

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
    resolution : float, optional
        The step of the values (1 for whole numbers): values are multiples of it above ``low``.
    clip : bool
        Whether a numeric value outside the bounds is moved to the nearest one; else it is refused.
    provenance : {"declared", "drafted"}
        ``declared``: from a public source, named in ``source``. ``drafted``: read off a table.
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
        if self.kind == "numeric":
            self._check_numeric(where)
        else:
            self._check_categories(where)

    def _check_categories(self, where: str) -> None:
        if not self.categories:
            raise InputError(f"{where}: declare at least one category.")
        if len(self.categories) > MAX_CATEGORIES:
            raise InputError(
                f"{where}: {len(self.categories)} categories; at most {MAX_CATEGORIES} are supported,"
                " so group them or drop the column."
            )
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
            self._check_range(where, min(self.categories), max(self.categories))

    def _check_range(self, where: str, low: Any, high: Any) -> None:
        match = re.match(r"(u?)int(\d+)", self.dtype.lower())
        if match is None:
            return
        limits = np.iinfo(match[0])
        if low < limits.min or high > limits.max:
            raise InputError(
                f"{where}: dtype {self.dtype} holds [{limits.min}, {limits.max}], and its values"
                f" are declared in [{low}, {high}]; use a wider dtype."
            )

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
        if self.resolution is not None:
            positive(f"resolution of {where}", self.resolution)
        if self.bins is not None and integer(f"bins of {where}", self.bins) > MAX_CATEGORIES:
            raise InputError(f"{where}: expected bins in [1, {MAX_CATEGORIES}], got {self.bins}.")
        if base_dtype(self.dtype) == "int":
            if any(number % 1 for number in (low, high, self.step or 1)):
                raise InputError(
                    f"{where}: low, high and resolution of a column of whole numbers must be whole,"
                    f" got {low:g}, {high:g} and {self.step:g}; or use dtype float64."
                )
            self._check_range(where, self.low, self.high)

    @property
    def step(self) -> float | None:
        """The declared resolution; 1 for whole numbers; None for reals without one."""
        if self.resolution is None and base_dtype(self.dtype) == "int":
            return 1.0
        return self.resolution

    def edges(self) -> np.ndarray:
        """Edges of the cells of a numeric column, shape (cells + 1,)."""
        assert self.low is not None and self.high is not None
        step = self.step
        steps = None if step is None else math.floor((self.high - self.low) / step + 1e-9) + 1
        cells = self.bins or min(steps or DEFAULT_BINS, DEFAULT_BINS)
        if step is None or steps is None:
            return np.linspace(self.low, max(self.high, np.nextafter(self.low, np.inf)), cells + 1)
        # Cells start and end between two steps of the grid, so that no value lies on an edge.
        cuts = np.round(np.linspace(0, steps, min(cells, steps) + 1))
        return self.low + step * (cuts - 0.5)

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

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready, defaults left out."""
        out: dict[str, Any] = {}
        for name, default in _DEFAULTS.items():
            value = getattr(self, name)
            if isinstance(value, tuple):
                value = list(value)
            if name in ("name", "kind", "dtype", "provenance") or value != default:
                out[name] = dict(value) if name == "labels" else value
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
    "resolution": None,
    "clip": False,
    "provenance": "declared",
    "source": None,
    "description": None,
    "labels": {},
}


def _kind_of(value: Value) -> str:
    return {str: "text", bool: "bool", int: "int"}.get(type(value), "float")


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
    if not isinstance(dtype, str) or base_dtype(dtype) == "unsupported":
        raise InputError(
            f"{where}: dtype {shown(str(dtype))} is not supported; use text, whole numbers, reals,"
            " bool or category (turn a date into a year, or into text)."
        )
    try:
        pd.Series([], dtype=dtype)
    except TypeError:
        raise InputError(f"{where}: pandas knows no dtype {shown(dtype)}.") from None


@dataclass(frozen=True)
class Schema:
    """The columns of a table in their order, and the texts that stand for null in its CSV files.

    Examples
    --------
    >>> from tabsynth import Column, Schema
    >>> schema = Schema([
    ...     Column(name="sex", kind="categorical", dtype="str", categories=("f", "m")),
    ...     Column(name="age", kind="numeric", dtype="int64", low=0, high=99),
    ... ])
    >>> schema.names
    ('sex', 'age')
    >>> schema["age"].size
    64
    """

    columns: tuple[Column, ...]
    null_values: tuple[str, ...] = DEFAULT_NULL_VALUES

    def __init__(
        self, columns: Iterable[Column], null_values: Sequence[str] = DEFAULT_NULL_VALUES
    ) -> None:
        object.__setattr__(self, "columns", tuple(columns))
        # An empty cell is how CSV files are written, so it always reads as null.
        object.__setattr__(self, "null_values", tuple(dict.fromkeys(("", *null_values))))
        if not self.columns:
            raise InputError("A schema needs at least one column.")
        for name in duplicates(self.names):
            raise InputError(f"The schema lists column {shown(name)} twice; rename one of them.")
        for column in self.columns:
            for value in {str(value) for value in column.categories} & set(self.null_values):
                raise InputError(
                    f"Column {shown(column.name)} lists category {shown(value)}, which null_values"
                    " reads as null; take it out of one of the two."
                )

    @property
    def names(self) -> tuple[str, ...]:
        """Column names, in order."""
        return tuple(column.name for column in self.columns)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Number of codes of each column, in order."""
        return tuple(column.size for column in self.columns)

    @property
    def drafted(self) -> tuple[str, ...]:
        """Names of the columns whose facts were read off a table rather than declared."""
        return tuple(c.name for c in self.columns if c.provenance == "drafted")

    def __getitem__(self, name: str) -> Column:
        for column in self.columns:
            if column.name == name:
                return column
        raise InputError(f"The schema has no column {shown(name)}; it has {_list(self.names)}.")

    def select(self, names: Sequence[str]) -> "Schema":
        """The schema of the given columns, in the given order."""
        return Schema([self[name] for name in names], self.null_values)

    def check_columns(self, frame: pd.DataFrame, what: str = "table") -> None:
        """Refuse a table that is empty or whose columns are not the schema's (order apart)."""
        found = [str(name) for name in frame.columns]
        for name in duplicates(found):
            raise InputError(f"The {what} has column {shown(name)} twice; rename or drop one.")
        missing = [name for name in self.names if name not in found]
        if missing:
            raise InputError(
                f"The {what} lacks column {shown(missing[0])} of the schema"
                f"{_more(missing)}; add it, or take it out of the schema."
            )
        extra = [name for name in found if name not in self.names]
        if extra:
            raise InputError(
                f"The {what} has column {shown(extra[0])} that the schema does not know"
                f"{_more(extra)}; drop it, or declare it in the schema."
            )
        if len(frame) == 0:
            raise InputError(f"The {what} has no rows; give one with at least one row.")

    def fingerprint(self) -> str:
        """SHA-256 of the canonical JSON, hexadecimal."""
        text = json.dumps(self.to_dict(), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return {
            "format": FORMAT,
            "null_values": list(self.null_values),
            "columns": [column.to_dict() for column in self.columns],
        }

    @classmethod
    def from_dict(cls, data: Any, where: str = "schema") -> "Schema":
        """Inverse of :meth:`to_dict`; refuses what it does not know."""
        if not isinstance(data, dict) or data.get("format") != FORMAT:
            found = data.get("format") if isinstance(data, dict) else type(data).__name__
            raise FileFormatError(f"{where}: expected format {FORMAT!r}, got {shown(found)}.")
        items, nulls = data.get("columns"), data.get("null_values", [])
        if not isinstance(items, list) or not isinstance(nulls, list):
            raise FileFormatError(f"{where}: 'columns' and 'null_values' must be lists.")
        if not all(isinstance(text, str) for text in nulls):
            raise FileFormatError(f"{where}: 'null_values' must be texts.")
        columns = []
        for item in items:
            if not isinstance(item, dict):
                raise FileFormatError(f"{where}: a column must be an object, got {shown(item)}.")
            unknown = set(item) - set(_DEFAULTS)
            if unknown:
                raise FileFormatError(
                    f"{where}: column {shown(item.get('name'))} has unknown key"
                    f" {shown(sorted(unknown)[0])}; known are {_list(_DEFAULTS)}."
                )
            columns.append(_column(item, where))
        return cls(columns, nulls)

    @classmethod
    def load(cls, path: str | Path) -> "Schema":
        """Read a schema from a JSON file."""
        file = Path(path)
        try:
            if file.stat().st_size > MAX_FILE_BYTES:
                raise FileFormatError(f"{file}: larger than {MAX_FILE_BYTES} bytes; not a schema.")
            data = json.loads(file.read_text("utf-8-sig"))
        except OSError as error:
            raise FileFormatError(f"Cannot read schema {file}: {error.strerror}.") from None
        except (ValueError, RecursionError) as error:
            if isinstance(error, FileFormatError):
                raise
            raise FileFormatError(f"{file} is not a schema: not valid JSON.") from None
        return cls.from_dict(data, str(file))

    def to_json(self) -> str:
        """The text of the schema file: one column a line, so that it reads and diffs well."""
        head = json.dumps({"format": FORMAT, "null_values": list(self.null_values)})[1:-1]
        lines = ",\n    ".join(json.dumps(c.to_dict(), ensure_ascii=False) for c in self.columns)
        return f'{{\n  {head},\n  "columns": [\n    {lines}\n  ]\n}}\n'

    def save(self, path: str | Path) -> None:
        """Write the schema as JSON (to a temporary file, then renamed)."""
        write_text(path, self.to_json())


def _column(item: dict[str, Any], where: str) -> Column:
    expected: dict[str, type | tuple[type, ...]] = {
        "nulls": bool,
        "clip": bool,
        "categories": list,
        "labels": dict,
        "bins": int,
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
    values["categories"] = tuple(values.get("categories", ()))
    for value in values["categories"]:
        if not isinstance(value, str | int | float | bool):
            raise FileFormatError(
                f"{where}: column {shown(item['name'])} has category {shown(value)},"
                " which is not text, number or bool."
            )
    return Column(**values)


def duplicates(names: Sequence[str]) -> list[str]:
    """Names that occur more than once, in order of their second occurrence."""
    seen: set[str] = set()
    found = []
    for name in names:
        if name in seen:
            found.append(name)
        seen.add(name)
    return found


def _list(names: Iterable[str], limit: int = 8) -> str:
    items = list(names)
    text = ", ".join(map(repr, items[:limit]))
    return text if len(items) <= limit else f"{text} and {len(items) - limit} more"


def _more(names: Sequence[str]) -> str:
    return f" (and {len(names) - 1} more)" if len(names) > 1 else ""
