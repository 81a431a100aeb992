"""The public facts of a table: its columns, combinations of values that cannot occur, and who said so.

A combination is a dict from two or more columns to their values: a list of them (None for null), or,
in a numeric or ordinal column, a range ``{"low": a, "high": b}`` with both ends included.

A schema is public. Everything that is fitted before the ledger opens (encoders, layouts, networks)
is a function of the schema alone, so a fact in it must come from a codebook or a rule, not from the
private table; ``provenance`` records which.
"""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import KW_ONLY, asdict, dataclass, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from tabsynth._files import parse_json, position, read_json_text, write_text
from tabsynth._shown import LINES, Shown, html_table, text_table, wrapped
from tabsynth._typing import JsonMapping, JsonObject
from tabsynth._validate import MAX_COLUMNS, check_text, one_of, quote, quote_text
from tabsynth.design import Design, design_from, neighbour_of
from tabsynth.errors import InputError, TableError, TabsynthError
from tabsynth.privacy.accounting.mechanisms import NoPrivacy
from tabsynth.schema.cells import plain
from tabsynth.schema.column import COPIED, Column
from tabsynth.schema.constraints import (
    VIOLATIONS,
    Forbidden,
    Order,
    Rule,
    made_by,
    plainly,
    rules_from,
)
from tabsynth.schema.number_texts import DECIMAL_MARKS, with_plain_numbers
from tabsynth.schema.numeric import Numeric
from tabsynth.schema.schema_file import FORMAT, check_form, made_column
from tabsynth.schema.validation import Problem, value_problems
from tabsynth.tables.formulas import unescape
from tabsynth.tables.frames import to_pandas

MAX_COMBINATIONS = 10_000
MAX_NAMED = 100  # columns of a combination
SECRET = ". CONFIDENTIAL: it has facts of private rows"
SHOWN_COLUMNS = 60  # columns in the table of a notebook
MAX_MARKS = 2**26  # category codes marked, yes or no, by all combinations: a byte each

Zero = dict[int, np.ndarray]  # by column number, which of its category codes, bool (size,)


def combinations_from(columns: Sequence[Column], impossible: object) -> tuple[JsonObject, ...]:
    """Return the combinations with lists of values as tuples; refuse, in one line, what cannot be one."""
    if not isinstance(impossible, list | tuple):
        raise InputError(f"Expected impossible to be a list of dicts, got {quote(impossible)}.")
    if len(impossible) > MAX_COMBINATIONS:
        raise InputError(
            f"The schema has {len(impossible):,} impossible combinations; at most"
            f" {MAX_COMBINATIONS:,} are supported."
        )
    _check_marks(columns, impossible)
    combinations: list[JsonObject] = []
    for i, combination in enumerate(impossible):
        where = f"impossible[{i}]"
        if not isinstance(combination, Mapping) or len(combination) < 2:
            raise InputError(
                f"{where}: expected a dict of two or more columns to their values, got"
                f" {quote(combination)}; to exclude a single column's value, do not declare it."
            )
        combinations.append(
            {name: _native_values(values, where) for name, values in combination.items()}
        )
        _zero(columns, combinations[-1], where)
    return tuple(combinations)


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


def zeros(columns: Sequence[Column], impossible: Sequence[JsonMapping]) -> list[Zero]:
    """Return each combination by category codes: a row that is True in all its columns cannot occur."""
    return [_zero(columns, c, f"impossible[{i}]") for i, c in enumerate(impossible)]


def refuse_impossible(
    columns: Sequence[Column], zeros: Sequence[Zero], index: np.ndarray, what: str
) -> None:
    """Refuse rows of category codes, shape (rows, columns), that cannot occur; -1 is not known yet."""
    for zero in zeros:
        hit = np.ones(len(index), dtype=bool)
        for j, mask in zero.items():
            hit &= (index[:, j] >= 0) & mask[index[:, j]]
        if hit.any():
            row = index[hit.argmax()]
            text = ", ".join(f"{quote(columns[j].name)}: {columns[j].label(row[j])}" for j in zero)
            raise InputError(
                f"The {what} has a row with {{{text}}}, which the schema declares impossible; correct"
                " it, or take the combination out of the schema."
            )


def _native_values(values: object, where: str) -> Any:
    """Return a list of values, or the ends of a range, in Python's own types, with None for each null."""
    if isinstance(values, Mapping):
        if set(values) != {"low", "high"}:
            raise InputError(
                f"{where}: expected a range to be {{'low': a, 'high': b}}, got {quote(dict(values))}."
            )
        return {"low": plain(values["low"]), "high": plain(values["high"])}
    if isinstance(values, list | tuple | range) and values:
        return tuple(plain(value) for value in values)
    raise InputError(f"{where}: expected a list of values or a range, got {quote(values)}.")


def _zero(columns: Sequence[Column], combination: JsonMapping, where: str) -> Zero:
    numbers = {column.name: j for j, column in enumerate(columns)}
    marked = {}
    for name, values in combination.items():
        if name not in numbers:
            raise InputError(f"{where}: the schema has no column {quote(name)}; correct the name.")
        column = columns[numbers[name]]
        marked[numbers[name]] = column.mask(values, where)
    return marked


LISTS = (
    "columns",
    "impossible",
    "constraints",
    "suggested",
    "left_out",
)  # of a schema file: an item a line
MOST_PROBLEMS = 100  # lines of an error
MAX_VALUES = 1_000_000  # categories and cells of all columns together
NOTICE = (
    "The columns with provenance 'drafted' hold values that were copied from the rows of a table. If that table"
    " is private, do not publish this file: replace these facts by public ones, take them out of"
    " 'copied_from_private_rows', and set provenance to 'declared'. Facts that are still listed there count as declared,"
    " unchanged from a draft of the rows, and certificates say so."
)
DEFAULT_NULL_VALUES = ("", "NA", "N/A", "NaN", "nan", "<NA>", "null", "NULL")


@dataclass(frozen=True)
class Schema(Shown):
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
    left_out : sequence of dict
        Columns that tables may have and that no synthesizer reads: each a dict with the ``name`` of the
        column and the ``reason``. Synthetic tables do not have them.
    constraints : sequence of dict
        Rules between columns that every synthetic row satisfies: see :mod:`tabsynth.schema.constraints`.
    violations : {"refuse", "drop", "repair"}
        What becomes of rows of a table to be fitted that break a rule or have an impossible combination: the table
        is refused; they are left out; or they are repaired, where values that break an order are sorted, a derived
        column is not read, and other rows are left out.
    released : dict, optional
        The mechanisms of the private draft that made the schema: their cost counts in every fit.
    suggested : sequence of dict
        Rules that release 0.2 suggested, as its files list them. They have no effect: a person moves those that are
        public facts to ``constraints``.
    decimal : {".", ","}, optional
        The decimal mark of numbers in text files, read and written. Without one, a text such as ``1,234``, which may be
        1234 or 1.234, is refused in a column of numbers.
    weight, max_weight : str and float, optional
        A column of survey weights, and the largest weight that counts, a public number: see
        :class:`tabsynth.design.Design`.
    unit, max_rows_per_unit : str and int, optional
        A column that says of which unit a row is, such as a person, and the most rows of one unit that are used, a
        public number. Privacy then protects units.

    Examples
    --------
    >>> from tabsynth import Schema
    >>> from tabsynth.schema import Column
    >>> schema = Schema([
    ...     Column(name="sex", kind="categorical", dtype="str", categories=("f", "m")),
    ...     Column(name="age", kind="numeric", dtype="int64", low=0, high=99),
    ... ])
    >>> schema.names
    ('sex', 'age')
    >>> schema["age"].size
    64
    """

    columns: Sequence[Column]
    null_values: Sequence[str] = DEFAULT_NULL_VALUES
    impossible: Sequence[JsonMapping] = ()
    left_out: Sequence[Mapping[str, str]] = ()
    constraints: Sequence[JsonMapping] = ()
    violations: str = "refuse"
    released: JsonMapping | None = None
    suggested: Sequence[JsonMapping] = ()
    decimal: str | None = None
    _: KW_ONLY
    weight: str | None = None
    max_weight: float | None = None
    unit: str | None = None
    max_rows_per_unit: int | None = None

    def __post_init__(self) -> None:
        """Check the values of the fields, and make tuples and dicts of them."""
        object.__setattr__(self, "columns", tuple(self.columns))
        # An empty cell is how CSV files are written, so it always reads as null.
        object.__setattr__(self, "null_values", tuple(dict.fromkeys(("", *self.null_values))))
        if not self.columns:
            raise InputError("A schema needs at least one column.")
        for name in duplicates(self.names):
            raise InputError(f"The schema lists column {quote(name)} twice; rename one of them.")
        self._check_size()
        nulls = set(self.null_values)
        for column in self.columns:
            for value in {*map(str, column.positions), *column.missing} & nulls:
                raise InputError(
                    f"Column {quote(column.name)} lists category {quote(value)}, which null_values"
                    " reads as null; take it out of one of the two."
                )
        object.__setattr__(self, "impossible", combinations_from(self.columns, self.impossible))
        object.__setattr__(self, "left_out", _left_out(self.names, self.left_out))
        if not isinstance(self.constraints, list | tuple):
            raise InputError(
                f"Expected constraints to be a list of dicts, got {quote(self.constraints)}."
            )
        object.__setattr__(self, "constraints", tuple(plainly(item) for item in self.constraints))
        one_of("violations", self.violations, VIOLATIONS)
        if self.released is not None:
            object.__setattr__(self, "released", dict(self.released))
        object.__setattr__(self, "suggested", tuple(plainly(item) for item in self.suggested))
        if self.decimal is not None:
            one_of("decimal", self.decimal, DECIMAL_MARKS)
            for column in self.columns:
                mark = getattr(column, "decimal", None)
                if mark not in (None, self.decimal):
                    raise InputError(
                        f"Column {quote(column.name)} has decimal mark {mark!r} by its format, and the table"
                        f" {self.decimal!r}; give both one mark. {{}} is a number with a point, {{,}} one with a comma."
                    )
        for name, value in asdict(self.design).items():
            object.__setattr__(self, name, value)
        self._check_design()
        self._check_released()
        for name in duplicates(self.learned.names if self.rules else self.names):
            raise InputError(
                f"A constraint makes a column {quote(name)}, which exists; rename that."
            )

    def _check_design(self) -> None:
        """Raise InputError if the weight or the unit would be learned."""
        learned = {column.name for column in self.columns if column.learned}
        generated = {c.name for c in self.columns if getattr(c, "is_generated", False)}
        for what, name, names in (
            ("weight", self.weight, learned | generated),
            ("unit", self.unit, learned),
        ):
            if name in names:
                raise InputError(
                    f"Column {quote(name)} is the {what} and among the columns that are learned; take it out of columns."
                )

    def _check_released(self) -> None:
        """Raise InputError unless the mechanisms of a private draft are listed where columns were released by one."""
        names = [column.name for column in self.columns if column.provenance == "released"]
        if self.released is not None and (of := self.released.get("unit")) != self.unit:
            raise InputError(
                f"The private draft of the schema protects {neighbour_of(of)}, and a fit with it would protect"
                f" {neighbour_of(self.unit)}; their privacy costs do not add up. Draft it with the same unit, or declare the"
                " columns by hand."
            )
        charged = (self.released or {}).get("max_rows_per_unit", self.max_rows_per_unit)
        if self.unit is not None and charged != self.max_rows_per_unit:
            raise InputError(
                f"The private draft of the schema used at most {quote(charged)} rows of each unit, and it declares"
                f" {self.max_rows_per_unit}; a certificate states one bound for all charges. Keep that bound, or draft again."
            )
        listed = (self.released or {}).get("mechanisms")
        if names and not (
            isinstance(listed, list) and all(isinstance(i, dict) for i in listed) and listed
        ):
            raise InputError(
                f"Column {quote(names[0])} has provenance 'released', and the schema does not list the mechanisms that"
                " released it; keep 'released' of the drafted file, or declare the column."
            )

    @cached_property
    def design(self) -> Design:
        """The design of the rows: the weight, the unit, and their bounds."""
        return Design(**{field.name: getattr(self, field.name) for field in fields(Design)})

    @property
    def contributions(self) -> Any:
        """The part of one unit that is used, which a certificate states for all its charges."""
        return self.design

    @cached_property
    def rules(self) -> tuple[Rule, ...]:
        """The rules that ``constraints`` declares."""
        return rules_from(self, self.constraints) if self.constraints else ()

    @cached_property
    def makers(self) -> dict[str, Rule]:
        """The rule that makes each column that a constraint makes, by its name, sources first."""
        return made_by(self.rules) if self.rules else {}

    @cached_property
    def learned(self) -> "Schema":
        """The columns that a synthesizer models; the schema itself where these are its columns.

        Identifiers, free text and derived columns are not modelled. A column that is modelled by a difference is
        replaced by that; a column with a detail, such as heaping, has that beside it.
        """
        columns: list[Column] = []
        for column in self.columns:
            rule = self.makers.get(column.name)
            if isinstance(rule, Order) and rule.difference is not None:
                columns.append(rule.difference)
            elif column.learned and rule is None:
                columns.append(column)
                if column.detail is not None:
                    columns.append(column.detail)
        if not columns:
            raise InputError(
                "The schema has no column that can be learned: all are identifiers, free text or derived from each"
                " other; declare one."
            )
        if columns == list(self.columns) and not self.constraints:
            return self
        names = {column.name for column in columns}
        impossible = [c for c in self.impossible if set(c) <= names]
        without: JsonObject = {"left_out": (), "constraints": ()}
        return self.replace(columns=columns, impossible=impossible, **without)

    @cached_property
    def comparable(self) -> "Schema":
        """The columns of a synthetic table whose values can be compared: all but identifiers and free text.

        Without constraints; the schema itself where nothing changes.
        """
        of_table = [
            replace(c, heaping=()) if isinstance(c, Numeric) and c.heaping else c
            for c in self.columns
        ]
        columns = [column for column in of_table if column.learned]
        if columns == list(self.columns) and not self.constraints:
            return self
        left_out = [
            *self.left_out,
            *(
                {"name": c.name, "reason": f"it is of kind {c.kind}"}
                for c in of_table
                if not c.learned
            ),
        ]
        return self.replace(columns=columns, left_out=left_out, constraints=())

    @cached_property
    def generated_columns(self) -> tuple[Column, ...]:
        """The columns of synthetic tables, in order."""
        return tuple(c for c in self.columns if c.learned or c.is_generated)  # type: ignore[attr-defined]

    @cached_property
    def row_rules(self) -> tuple[Rule, ...]:
        """All rules, impossible combinations among them."""
        forbidden = [
            Forbidden(
                tuple(self.columns[j] for j in zero),
                tuple(zero.values()),
                (),
                "never " + " and ".join(f"{n} in {_values(v)}" for n, v in combination.items()),
            )
            for combination, zero in zip(
                self.impossible, zeros(self.columns, self.impossible), strict=True
            )
        ]
        return (*self.rules, *forbidden)

    @property
    def has_rules(self) -> bool:
        """True if sampled rows may have to be changed, so that rules and details hold."""
        detailed = any(column.detail is not None for column in self.columns)
        return bool(detailed or self.constraints or self.impossible)

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
                    f" group those of column {quote(column.name)}, or drop it."
                )

    @property
    def names(self) -> tuple[str, ...]:
        """Column names, in order."""
        return tuple(column.name for column in self.columns)

    def _repr_table(self, limit: int) -> tuple[str, list[tuple[str, ...]]]:
        """Return what the schema is of, and a row for each of the first columns."""
        unit, number = self.design.unit, len(self.rules)
        about = f"Schema of {len(self.columns)} columns" + f", {number} constraint(s)" * bool(
            number
        )
        about += f", privacy unit {unit}" * bool(unit) + SECRET * self.confidential
        rows: list[tuple[str, ...]] = [
            ("column", "kind", "dtype", "values", "missing", "provenance")
        ]
        for column in self.columns[:limit]:
            facts = (column.dtype, column.domain(4), "yes" if column.nulls else "no")
            facts = ("–", "read from rows", "–") if column.facts_from_rows else facts
            rows.append((column.name, column.kind, *facts, column.provenance))
        return about, rows

    def _repr_lines(self) -> list[str]:
        about, rows = self._repr_table(LINES - 2)
        lines = [*wrapped([about]), *text_table(rows, (22, 12, 14, 30, 7, 10))]
        others = f"… {len(self.columns) - LINES + 3} more; schema.columns has all"
        return lines if len(lines) <= LINES else [*lines[: LINES - 1], others]

    def _repr_html_(self) -> str:
        """Return the columns as an HTML table."""
        about, rows = self._repr_table(SHOWN_COLUMNS)
        others = len(self.columns) - SHOWN_COLUMNS
        return html_table(about, rows, [f"… {others} more columns"] * (others > 0))

    @property
    def sizes(self) -> tuple[int, ...]:
        """Number of codes of each column, in order."""
        return tuple(column.size for column in self.columns)

    @property
    def drafted(self) -> tuple[str, ...]:
        """Names of the columns whose facts were read off a table rather than declared."""
        return tuple(c.name for c in self.columns if c.provenance == "drafted")

    @property
    def confidential(self) -> bool:
        """True if the schema has exact facts of private rows: drafted, or released without noise or with a seed."""
        released = self.released or {}
        exact = any(m["mechanism"] == NoPrivacy.name for m in released.get("mechanisms", ()))
        return bool(self.drafted or released.get("seeded") or exact)

    @property
    def unchanged_facts(self) -> dict[str, list[str]]:
        """The facts of declared columns that stand unchanged since a draft read them off a table, by name of the column."""
        declared = (c for c in self.columns if c.provenance == "declared" and c.facts_from_rows)
        return {column.name: list(column.facts_from_rows) for column in declared}

    @property
    def names_left_out(self) -> tuple[str, ...]:
        """Names of the columns that tables may have and that are not read."""
        return tuple(item["name"] for item in self.left_out)

    def __getitem__(self, name: str) -> Column:
        """Return the entry of a name."""
        for column in self.columns:
            if column.name == name:
                return column
        raise InputError(
            f"The schema has no column {quote(name)}; it has {quote([*self.names], 120)}."
        )

    def replace(self, **parameters: Any) -> "Schema":
        """Return the schema with other values of some parameters; all others, such as what was released, stay as they are.

        Every schema that is derived from another one is made here, so that none can lose a parameter.
        """
        return replace(self, **parameters)

    def with_decimal(self, decimal: str | None) -> "Schema":
        """Return the schema with a decimal mark, if one is given; it must be that of the formats of numbers."""
        return self.replace(decimal=decimal or self.decimal)

    def select(self, names: Sequence[str]) -> "Schema":
        """Return the schema of the given columns, in the given order.

        It keeps the impossible combinations that lie within these columns: of the others, the part
        that does is possible. Columns that are left out stay so.
        """
        combinations = [c for c in self.impossible if set(c) <= set(names)]
        rules = [
            c
            for c, rule in zip(self.constraints, self.rules, strict=True)
            if set(rule.names) <= set(names)
        ]
        columns = [self[name] for name in names]
        return self.replace(columns=columns, impossible=combinations, constraints=rules)

    def check_columns(self, frame: pd.DataFrame, what: str = "table") -> None:
        """Refuse a table whose columns are not the schema's (order apart). It may have no rows.

        It may have the columns that the schema leaves out.
        """
        for problem in self._column_problems([str(name) for name in frame.columns], what):
            raise InputError(problem.message)

    def _column_problems(self, names: Sequence[str], what: str) -> list[Problem]:
        """Return columns of a table that are there twice, missing or unknown."""
        known, present = {*self.names, *self.names_left_out, *self.design.names}, set(names)
        wrong = {
            name: f"The {what} has column {quote(name)} twice; rename or drop one."
            for name in duplicates(names)
        }
        for column in self.columns:
            if column.learned and column.name not in present:
                text = f"The {what} lacks column {quote(column.name)} of the schema; add it, or take it out of the schema."
                wrong[column.name] = text
        for name in names:
            if name not in known:
                text = f"The {what} has column {quote(name)} that the schema does not know; drop it, or declare it in the schema."
                wrong.setdefault(name, text)
        return [Problem(name, None, text) for name, text in wrong.items()]

    def validate(self, table: object, *, parse: bool = False) -> list[Problem]:
        """Return all that the schema does not take in a table; an empty list where it fits.

        Parameters
        ----------
        table : DataFrame
            Of pandas, or any that narwhals reads.
        parse : bool
            Whether texts are parsed and numbers converted to the declared dtypes first, as
            :func:`tabsynth.read_table` does with a file; else the table is taken as a fit takes it.

        Returns
        -------
        list of Problem
            Each with ``column``, ``value`` and ``message``: columns that are missing or unknown, then values by
            column, one for each way in which they do not fit, then combinations that cannot occur.

        Notes
        -----
        The problems show values of the table. They are for whoever holds it: no privacy budget covers them.
        """
        frame = to_pandas(table)
        names = [unescape(str(n), self.names) if parse else str(n) for n in frame.columns]
        problems = self._column_problems(names, "table")
        if len(frame) == 0:
            problems.append(
                Problem(None, None, "The table has no rows; give one with at least one.")
            )
        index = np.full((len(frame), len(self.columns)), -1, dtype=np.int64)
        for j, column in enumerate(self.columns):
            if names.count(column.name) == 1:
                values = frame.iloc[:, names.index(column.name)]
                refused, index[:, j] = value_problems(
                    column, values, _reader(column, values, parse, self.decimal)
                )
                problems += refused
        problems += [Problem(*item) for item in self.design.problems(frame, self.decimal)]
        for zero in zeros(self.columns, self.impossible):
            try:
                refuse_impossible(self.columns, [zero], index, "table")
            except InputError as error:
                problems.append(Problem(None, None, str(error)))
        if not problems:
            problems = self._broken_rules(frame.set_axis(names, axis=1), parse)
        return problems

    def refusal(
        self, table: pd.DataFrame, what: str, cause: InputError, *, parse: bool = False
    ) -> InputError:
        """Return the error for a table that was refused: with all of its problems, or ``cause`` where there is no other."""
        problems = [
            str(problem)
            for problem in self.validate(table, parse=parse)
            # Of other tables, rows that break a rule are no problem.
            if problem.column is not None or (self.violations == "refuse" and len(table))
        ]
        if len(problems) < 2:
            return next((InputError(p) for p in problems if p.startswith(str(cause))), cause)
        surplus = len(problems) - MOST_PROBLEMS
        if surplus > 0:
            problems[MOST_PROBLEMS:] = [f"And {surplus:,} more problems."]
        return TableError(what, problems, str(cause))

    def _broken_rules(self, frame: pd.DataFrame, parse: bool) -> list[Problem]:
        """Return the first row that breaks each rule, of a table whose values all fit."""
        read = {
            c.name: _reader(c, frame[c.name], parse, self.decimal)(frame[c.name])
            for c in self.columns
            if c.learned
        }
        values, problems = pd.DataFrame(read), []
        for rule in self.rules:
            broken = rule.violations(values)
            if broken.any():
                row = values.iloc[int(broken.argmax())]
                shown_values = ", ".join(f"{name}={quote_text(row[name])}" for name in rule.names)
                text = (
                    f"The table has a row with {shown_values}, which breaks the rule {quote(rule.text, 120)}; correct it, or"
                    " declare violations='drop' or 'repair'."
                )
                problems.append(Problem(None, None, text))
        return problems

    def fingerprint(self) -> str:
        """Return the SHA-256 of the canonical JSON, without what follows from other keys, hexadecimal."""
        text = json.dumps(self._facts(copied=False), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()

    def to_dict(self) -> JsonObject:
        """Return a JSON-ready mapping, without ``impossible`` and ``left_out`` where nothing is."""
        facts = self._facts(copied=True)
        return {"format": facts.pop("format"), COPIED: NOTICE, **facts} if self.drafted else facts

    def _facts(self, *, copied: bool) -> JsonObject:
        out: JsonObject = {
            "format": FORMAT,
            "null_values": list(self.null_values),
            "columns": [column.to_dict(copied=copied) for column in self.columns],
        }
        if self.impossible:
            out["impossible"] = [
                {n: dict(v) if isinstance(v, dict) else list(v) for n, v in c.items()}
                for c in self.impossible
            ]
        if self.constraints:
            out["constraints"] = [dict(item) for item in self.constraints]
        if self.violations != "refuse":
            out["violations"] = self.violations
        if self.suggested:
            out["suggested"] = [dict(item) for item in self.suggested]
        if self.released is not None:
            out["released"] = deepcopy(dict(self.released))
        if self.decimal is not None:
            out["decimal"] = self.decimal
        out |= self.design.to_dict()
        if self.left_out:
            out["left_out"] = [dict(item) for item in self.left_out]
        return out

    @classmethod
    def from_dict(cls, data: Any, where: str = "schema", text: str | None = None) -> "Schema":
        """Return what a dict from :meth:`to_dict` describes; refuse what it does not know.

        Parameters
        ----------
        data : dict
        where : str
            What errors begin with.
        text : str, optional
            The JSON text of ``data``: errors about its form then give line and column.

        Raises
        ------
        FileFormatError, InputError
        """
        items = data.get("columns") if isinstance(data, dict) else None
        _check_columns(len(items) if isinstance(items, list) else 0)  # before any is looked at
        check_form(data, where, text)
        columns = []
        for i, item in enumerate(data["columns"]):
            try:
                columns.append(made_column(item))
            except TabsynthError as error:
                if text is None:
                    raise
                line, _ = position(text, ["columns", i])
                message = str(error).removeprefix(f"{where}: ")
                raise type(error)(f"{where}, line {line}: {message}") from None
        return cls(
            columns,
            null_values=data.get("null_values", []),
            impossible=data.get("impossible", []),
            left_out=data.get("left_out", []),
            constraints=data.get("constraints", []),
            violations=data.get("violations", "refuse"),
            released=data.get("released"),
            suggested=data.get("suggested", []),
            decimal=data.get("decimal"),
            **design_from(data),
        )

    @classmethod
    def load(cls, path: str | Path) -> "Schema":
        """Read a schema from a JSON file."""
        text = read_json_text(path, "schema")
        return cls.from_dict(parse_json(text, path, "schema"), str(path), text)

    def to_json(self) -> str:
        """Return the text of the schema file: one column a line, so that it reads and diffs well."""
        facts = self.to_dict()
        lists = [(name, facts.pop(name)) for name in LISTS if name in facts]
        parts = [json.dumps(facts)[1:-1]]
        for name, items in lists:
            lines = ",\n    ".join(json.dumps(item, ensure_ascii=False) for item in items)
            parts.append(f'"{name}": [\n    {lines}\n  ]')
        return "{\n  " + ",\n  ".join(parts) + "\n}\n"

    def save(self, path: str | Path, *, overwrite: bool = False) -> None:
        """Write the schema as JSON, whole or not at all; only its owner may read one with exact facts of private rows.

        A file that is there already is replaced with ``overwrite`` only. A schema that a private draft released is then,
        and where the disk is full, kept in a temporary folder, which the error names.
        """
        write_text(
            path,
            self.to_json(),
            overwrite=overwrite,
            confidential=self.confidential,
            paid=self.released is not None,
        )


def _values(values: Any) -> str:
    """Return values of a combination for people."""
    if isinstance(values, Mapping):
        return f"{values['low']} to {values['high']}"
    texts = ["null" if value is None else str(value) for value in values[:4]]
    return ", ".join(texts) + ", …" * (len(values) > 4)


def _reader(
    column: Column, values: pd.Series, parse: bool, decimal: str | None
) -> Callable[[pd.Series], pd.Series]:
    """Return what makes values of a column's dtype of those of a table."""
    if not parse:
        return lambda series: series
    texts = pd.api.types.infer_dtype(values, skipna=True) in ("string", "empty")
    return lambda series: read_values(column, series, texts, decimal)


def read_values(column: Column, values: pd.Series, texts: bool, decimal: str | None) -> pd.Series:
    """Return values of a file in the column's dtype: by :meth:`Column.parse` if they are ``texts``, else by its ``convert``.

    Texts of numbers are read by the declared ``decimal`` mark, or by that of the column's format.
    """
    if column.value_type in ("int", "float"):
        values = with_plain_numbers(values, decimal or getattr(column, "decimal", None))
    return column.parse(values) if texts else column.convert(values)


def _left_out(names: Sequence[str], items: object) -> tuple[dict[str, str], ...]:
    """Return the columns that are not read, each with its reason; refuse what cannot be one."""
    if not isinstance(items, list | tuple):
        raise InputError(f"Expected left_out to be a list of dicts, got {quote(items)}.")
    _check_columns(len(names) + len(items))
    columns: list[dict[str, str]] = []
    for i, item in enumerate(items):
        where = f"left_out[{i}]"
        if not isinstance(item, Mapping) or set(item) != {"name", "reason"}:
            raise InputError(
                f"{where}: expected a dict with the name of a column and the reason, got {quote(item)}."
            )
        for key, text in item.items():
            if not isinstance(text, str) or not text:
                raise InputError(f"{where}: expected {key} to be text, got {quote(text)}.")
            check_text(where, text)
        columns.append({"name": item["name"], "reason": item["reason"]})
        if item["name"] in names:
            raise InputError(
                f"{where}: column {quote(item['name'])} is among the schema's columns, too; take it out of"
                " left_out to use it, or out of columns."
            )
    for name in duplicates([item["name"] for item in columns]):
        raise InputError(f"left_out lists column {quote(name)} twice; take one out.")
    return tuple(columns)


def _check_columns(count: int) -> None:
    if count > MAX_COLUMNS:
        raise InputError(
            f"The schema has {count:,} columns; at most {MAX_COLUMNS:,} are supported."
        )


def refuse_no_rows(rows: int, what: str) -> None:
    """Refuse a table without rows, where nothing is promised that depends on its being taken.

    Not for a table that is to be fitted: the answer would distinguish it from a table with one row.
    """
    if rows == 0:
        raise InputError(f"The {what} has no rows; give one with at least one row.")


def duplicates(names: Sequence[str]) -> list[str]:
    """Return names that occur more than once, in order of their second occurrence."""
    seen: set[str] = set()
    repeated = []
    for name in names:
        if name in seen:
            repeated.append(name)
        seen.add(name)
    return repeated
