"""The public facts of a table: its columns, their kinds, categories and bounds, and who said so.

A schema is public. Everything that is fitted before the ledger opens (encoders, layouts, networks)
is a function of the schema alone, so a fact in it must come from a codebook or a rule, not from the
private table; ``provenance`` records which (rule R12 of the privacy rules: the domain is public or
paid for).
"""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from tabsynth._files import read_json, write_text
from tabsynth._validate import MAX_COLUMNS, check_text, shown
from tabsynth.columns import Column, column_from
from tabsynth.errors import FileFormatError, InputError
from tabsynth.structural_zeros import checked

FORMAT = "tabsynth-schema/1"
MAX_VALUES = 1_000_000  # categories and cells of all columns together
DEFAULT_NULL_VALUES = ("", "NA", "N/A", "NaN", "nan", "<NA>", "null", "NULL")


@dataclass(frozen=True)
class Schema:
    """The columns of a table in their order, and the texts that stand for null in its CSV files.

    Parameters
    ----------
    columns : iterable of Column
    null_values : sequence of str
    impossible : sequence of dict
        Structural zeros: combinations of values that cannot occur. Each is a dict from two or more
        columns to a list of values (None for null) or, in a numeric or ordinal column, a range
        ``{"low": a, "high": b}``, both ends included. A row with one of the values in each of those
        columns is refused in tables, and no synthesizer that takes the schema makes one. In a
        numeric column the values must fill whole cells, for a cell is impossible as a whole or not.

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
    impossible: tuple[dict[str, Any], ...] = ()

    def __init__(
        self,
        columns: Iterable[Column],
        null_values: Sequence[str] = DEFAULT_NULL_VALUES,
        impossible: Sequence[Mapping[str, Any]] = (),
    ) -> None:
        object.__setattr__(self, "columns", tuple(columns))
        # An empty cell is how CSV files are written, so it always reads as null.
        object.__setattr__(self, "null_values", tuple(dict.fromkeys(("", *null_values))))
        if not self.columns:
            raise InputError("A schema needs at least one column.")
        for name in duplicates(self.names):
            raise InputError(f"The schema lists column {shown(name)} twice; rename one of them.")
        self._check_size()
        nulls = set(self.null_values)
        for column in self.columns:
            for value in {str(value) for value in column.categories} & nulls:
                raise InputError(
                    f"Column {shown(column.name)} lists category {shown(value)}, which null_values"
                    " reads as null; take it out of one of the two."
                )
        object.__setattr__(self, "impossible", checked(self.columns, impossible))

    def _check_size(self) -> None:
        for text in self.null_values:
            check_text("null_values", text)
        _check_columns(len(self.columns))
        values = 0
        for column in self.columns:
            values += column.size
            if values > MAX_VALUES:
                raise InputError(
                    f"The schema's columns have more than {MAX_VALUES:,} categories and cells together;"
                    f" group those of column {shown(column.name)}, or drop it."
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
        """The schema of the given columns, in the given order.

        It keeps the impossible combinations that lie within these columns: of the others, the part
        that does is possible.
        """
        kept = [c for c in self.impossible if set(c) <= set(names)]
        return Schema([self[name] for name in names], self.null_values, kept)

    def check_columns(
        self, frame: pd.DataFrame, what: str = "table", *, partial: bool = False
    ) -> None:
        """Refuse a table whose columns are not the schema's (order apart). It may have no rows.

        ``partial``: some may be missing.
        """
        found = [str(name) for name in frame.columns]
        for name in duplicates(found):
            raise InputError(f"The {what} has column {shown(name)} twice; rename or drop one.")
        known, given = set(self.names), set(found)
        missing = [name for name in self.names if name not in given]
        if missing and not partial:
            raise InputError(
                f"The {what} lacks column {shown(missing[0])} of the schema"
                f"{_more(missing)}; add it, or take it out of the schema."
            )
        extra = [name for name in found if name not in known]
        if extra:
            raise InputError(
                f"The {what} has column {shown(extra[0])} that the schema does not know"
                f"{_more(extra)}; drop it, or declare it in the schema."
            )

    def fingerprint(self) -> str:
        """SHA-256 of the canonical JSON, hexadecimal."""
        text = json.dumps(self.to_dict(), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready; without ``impossible`` where nothing is."""
        out = {
            "format": FORMAT,
            "null_values": list(self.null_values),
            "columns": [column.to_dict() for column in self.columns],
        }
        if self.impossible:
            out["impossible"] = [
                {n: dict(v) if isinstance(v, dict) else list(v) for n, v in c.items()}
                for c in self.impossible
            ]
        return out

    @classmethod
    def from_dict(cls, data: Any, where: str = "schema") -> "Schema":
        """Inverse of :meth:`to_dict`; refuses what it does not know."""
        if not isinstance(data, dict) or data.get("format") != FORMAT:
            found = data.get("format") if isinstance(data, dict) else type(data).__name__
            raise FileFormatError(f"{where}: expected format {FORMAT!r}, got {shown(found)}.")
        items, nulls = data.get("columns"), data.get("null_values", [])
        if not isinstance(items, list) or not isinstance(nulls, list):
            raise FileFormatError(f"{where}: 'columns' and 'null_values' must be lists.")
        _check_columns(len(items))  # before any is made
        if not all(isinstance(text, str) for text in nulls):
            raise FileFormatError(f"{where}: 'null_values' must be texts.")
        columns = []
        for item in items:
            if not isinstance(item, dict):
                raise FileFormatError(f"{where}: a column must be an object, got {shown(item)}.")
            columns.append(column_from(item, where))
        impossible = data.get("impossible", [])
        if not isinstance(impossible, list):
            raise FileFormatError(f"{where}: 'impossible' must be a list.")
        return cls(columns, nulls, impossible)

    @classmethod
    def load(cls, path: str | Path) -> "Schema":
        """Read a schema from a JSON file."""
        return cls.from_dict(read_json(path, "schema"), str(path))

    def to_json(self) -> str:
        """The text of the schema file: one column a line, so that it reads and diffs well."""
        facts = self.to_dict()
        lists = [(name, facts.pop(name)) for name in ("columns", "impossible") if name in facts]
        parts = [json.dumps(facts)[1:-1]]
        for name, items in lists:
            lines = ",\n    ".join(json.dumps(item, ensure_ascii=False) for item in items)
            parts.append(f'"{name}": [\n    {lines}\n  ]')
        return "{\n  " + ",\n  ".join(parts) + "\n}\n"

    def save(self, path: str | Path) -> None:
        """Write the schema as JSON (to a temporary file, then renamed)."""
        write_text(path, self.to_json())


def _check_columns(count: int) -> None:
    if count > MAX_COLUMNS:
        raise InputError(
            f"The schema has {count:,} columns; at most {MAX_COLUMNS:,} are supported."
        )


def refuse_no_rows(rows: int, what: str) -> None:
    """Refuse a table without rows, where nothing is promised that depends on its being taken.

    Not for a table that is to be fitted: of a table with one row that would be told apart.
    """
    if rows == 0:
        raise InputError(f"The {what} has no rows; give one with at least one row.")


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
