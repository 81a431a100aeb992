"""Rules between the columns of a table: public facts that every synthetic row satisfies.

A rule is written in the schema as a dict, in one of five forms:

* ``{"derive": NAME, "from": [NAMES], "table": [[VALUES…, VALUE], …]}``: a column that follows from others by a
  public table. Of one source the table may be a dict.
* ``{"derive": NAME, "expression": TEXT}``: a number, date or time that is computed (:class:`Expression`).
* ``{"order": [NAMES], "strict": BOOL}``: values that do not fall from column to column; ``strict``: that rise.
  ``"difference": {"high": 60, …}`` models the second of two columns by its difference to the first.
* ``{"sum": [NAMES], "at_most": NAME}``: parts that are together no more than a total. Parts that make up a total are
  modelled, and the total is derived by an expression. ``{"sum": [NAMES], "equals": NUMBER}``: columns whose codes are single
  numbers, such as 0 and 1, of which the sum is fixed.
* ``{"if": {NAME: VALUES, …}, "then": {NAME: VALUES, …}}``: what rows of one kind must have. Values are lists
  (None for null) or ranges, as in impossible combinations.

Derived columns are not modelled, and cost no budget.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields
from graphlib import CycleError, TopologicalSorter
from typing import Any, Protocol

import numpy as np
import pandas as pd

from tabsynth._typing import JsonMapping
from tabsynth._validate import quote, real
from tabsynth.errors import InputError
from tabsynth.schema.cells import plain
from tabsynth.schema.column import Column
from tabsynth.schema.expressions import Expression
from tabsynth.schema.numeric import Numeric

MAX_RULES = 10_000
MAX_LOOKUP = 2**24  # entries of the table of a derived column
VIOLATIONS = ("refuse", "drop", "repair")
TOLERANCE = 1e-6  # relative, of numbers that a rule computes


class Columns(Protocol):
    """The columns of a schema by name."""

    def __getitem__(self, name: str) -> Column:
        """Return the column of a name."""
        ...


class Rule:
    """A rule between columns."""

    columns: tuple[Column, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The columns that it is about, in its order."""
        return tuple(column.name for column in self.columns)

    @property
    def text(self) -> str:
        """The rule for people."""
        raise NotImplementedError

    def violations(self, table: pd.DataFrame) -> np.ndarray:
        """Return which rows of a table in the schema's dtypes break the rule, bool, shape (n,)."""
        raise NotImplementedError


@dataclass(frozen=True, eq=False)
class Derived(Rule):
    """A column that follows from others.

    Attributes
    ----------
    target : Column
    sources : tuple of Column
    lookup : ndarray or None
        Of a table: the code of the target by the codes of the sources.
    given : ndarray of object or None
        Of a table: the value of the target by the codes of the sources, None for null.
    expression : Expression or None
    """

    target: Column
    sources: tuple[Column, ...]
    lookup: np.ndarray | None = None
    given: np.ndarray | None = None
    expression: Expression | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """The sources, then the target."""
        return (*(column.name for column in self.sources), self.target.name)

    @property
    def text(self) -> str:
        """The rule, in words."""
        if self.expression is not None:
            return f"{self.target.name} = {self.expression.text}"
        return f"{self.target.name} follows from {', '.join(c.name for c in self.sources)}"

    def codes(self, codes: Sequence[np.ndarray]) -> np.ndarray:
        """Return codes of the target, shape (n,), by those of the sources."""
        assert self.lookup is not None
        return self.lookup[tuple(codes)]

    def values(self, table: pd.DataFrame) -> pd.Series:
        """Return values of the target, shape (n,), by those of the sources in a table."""
        if self.expression is not None:
            return self.target.from_amounts(self._amounts(table)).set_axis(table.index)
        assert self.given is not None
        values = self.given[tuple(c.encode(table[c.name]) for c in self.sources)]
        return self.target.convert(pd.Series(values, dtype=object)).set_axis(table.index)

    def _amounts(self, table: pd.DataFrame) -> np.ndarray:
        assert self.expression is not None
        amounts = {c.name: c.amounts(table[c.name]) for c in self.sources}
        result = self.expression(amounts)
        if not self.target.nulls and np.isnan(result).any():
            raise InputError(
                f"Column {quote(self.target.name)}: {self.expression.text} is undefined in some row, and the"
                " column has no nulls; declare nulls=true."
            )
        return result

    def violations(self, table: pd.DataFrame) -> np.ndarray:
        """See :meth:`Rule.violations`; of a computed number up to its resolution."""
        if self.expression is None:
            codes = self.codes([c.encode(table[c.name]) for c in self.sources])
            return np.asarray(codes != self.target.encode(table[self.target.name]))
        expected = self.target.amounts(self.values(table))
        actual = self.target.amounts(table[self.target.name])
        near = np.abs(expected - actual) <= TOLERANCE * np.maximum(1, np.abs(expected))
        return ~(near | (np.isnan(expected) & np.isnan(actual)))


@dataclass(frozen=True, eq=False)
class Order(Rule):
    """Values that do not fall, or rise, from column to column; nulls are passed over.

    Attributes
    ----------
    columns : tuple of Column
    strict : bool
    difference : Numeric or None
        The column that is modelled in place of the second: its difference to the first.
    """

    columns: tuple[Column, ...]
    strict: bool
    difference: Numeric | None = None

    @property
    def text(self) -> str:
        """The rule, in words."""
        return (" < " if self.strict else " <= ").join(self.names)

    def violations(self, table: pd.DataFrame) -> np.ndarray:
        """See :meth:`Rule.violations`."""
        last = np.full(len(table), -np.inf)
        wrong = np.zeros(len(table), dtype=bool)
        for column in self.columns:
            amounts = column.amounts(table[column.name])
            wrong |= (amounts <= last) if self.strict else (amounts < last)
            last = np.where(np.isnan(amounts), last, np.maximum(last, amounts))
        return wrong

    def repair(self, table: pd.DataFrame) -> pd.DataFrame:
        """Return a table whose broken rows have the values of these columns sorted; equal ones of a strict order stay."""
        wrong = self.violations(table)
        if not wrong.any():
            return table
        rows = table[wrong]
        amounts = np.stack([c.amounts(rows[c.name]) for c in self.columns], axis=1)
        for i, row in enumerate(amounts):
            present = ~np.isnan(row)
            amounts[i, present] = np.sort(row[present])
        table = table.copy()
        for j, column in enumerate(self.columns):
            series = column.from_amounts(amounts[:, j]).set_axis(rows.index)
            placed = wrong.copy()
            placed[np.flatnonzero(wrong)[np.isnan(amounts[:, j])]] = False  # missing stays as it is
            table[column.name] = table[column.name].where(~placed, series.reindex(table.index))
        return table

    def feasible(self, lows: np.ndarray, highs: np.ndarray) -> np.ndarray:
        """Return whether each row has values in its cells that satisfy the order.

        Parameters
        ----------
        lows, highs : ndarray, shape (n, columns)
            The least and the largest amount of each cell; NaN for null.
        """
        last = np.full(len(lows), -np.inf)
        possible = np.ones(len(lows), dtype=bool)
        for j, column in enumerate(self.columns):
            null = np.isnan(lows[:, j])
            minimum = self._after(column, last, lows[:, j])
            possible &= null | (minimum <= highs[:, j] + self._slack(column))
            last = np.where(null, last, minimum)
        return possible

    def draw_amounts(
        self, lows: np.ndarray, highs: np.ndarray, rng: np.random.Generator
    ) -> np.ndarray:
        """Return amounts in cells that satisfy the order, uniform from left to right; shape of ``lows``."""
        count, width = lows.shape
        # The largest amounts that leave room for the columns to the right.
        room = highs.copy()
        following = np.full(count, np.inf)
        for j in reversed(range(width)):
            null, least_step = np.isnan(lows[:, j]), self.columns[j].amount_step or 0.0
            room[:, j] = np.where(null, np.nan, np.minimum(highs[:, j], following))
            following = np.where(null, following, room[:, j] - (least_step if self.strict else 0.0))
        drawn = np.full(lows.shape, np.nan)
        last = np.full(count, -np.inf)
        for j, column in enumerate(self.columns):
            null = np.isnan(lows[:, j])
            minimum = self._after(column, last, lows[:, j])
            span = np.maximum(np.where(null, 0, room[:, j] - minimum), 0)
            step = column.amount_step
            if step is None:
                amounts = minimum + span * rng.random(count)
            else:
                amounts = minimum + step * np.floor(
                    rng.random(count) * (np.floor(span / step + 1e-9) + 1)
                )
            drawn[:, j] = np.where(null, np.nan, amounts)
            last = np.where(null, last, amounts)
        return drawn

    def _slack(self, column: Column) -> float:
        return 1e-9 * (column.amount_step or 1.0)

    def _after(self, column: Column, last: np.ndarray, lows: np.ndarray) -> np.ndarray:
        """Return the least amount of a column that is at least ``lows`` and may follow ``last``."""
        step = column.amount_step
        if step is None:
            follower = np.nextafter(last, np.inf) if self.strict else last
            return np.maximum(lows, follower)
        with np.errstate(invalid="ignore"):
            steps = (last - lows) / step
            count = np.floor(steps + TOLERANCE) + 1 if self.strict else np.ceil(steps - TOLERANCE)
        return lows + step * np.where(np.isfinite(count), np.maximum(count, 0), 0)


@dataclass(frozen=True, eq=False)
class FixedSum(Rule):
    """Numbers that add up to one number in each row, such as the dummies of a category; a missing one counts 0.

    Attributes
    ----------
    columns : tuple of Column
        Each code of theirs is one number.
    total : float
    """

    columns: tuple[Column, ...]
    total: float

    @property
    def text(self) -> str:
        """The rule, in words."""
        return f"{' + '.join(self.names)} = {self.total:g}"

    def violations(self, table: pd.DataFrame) -> np.ndarray:
        """See :meth:`Rule.violations`; up to the rounding of a sum of floats."""
        return self.broken_amounts([column.amounts(table[column.name]) for column in self.columns])

    def broken_codes(self, codes: Sequence[np.ndarray]) -> np.ndarray:
        """Return which rows of codes, by column, break the rule; bool, shape (n,)."""
        numbers = [
            np.append(column.code_amounts()[0], np.zeros(column.size - column.cells))[of]
            for column, of in zip(self.columns, codes, strict=True)
        ]
        return self.broken_amounts(numbers)

    def broken_amounts(self, amounts: Sequence[np.ndarray]) -> np.ndarray:
        """Return which rows of amounts, by column, break the rule; bool, shape (n,)."""
        difference = np.sum([np.nan_to_num(of) for of in amounts], axis=0) - self.total
        return np.asarray(np.abs(difference) > TOLERANCE * max(1, abs(self.total)))


@dataclass(frozen=True, eq=False)
class Sum(Rule):
    """Parts that are together no more than a total; a missing part counts 0, and a missing total allows all.

    Attributes
    ----------
    columns : tuple of Column
        The parts, then the total.
    """

    columns: tuple[Column, ...]

    @property
    def text(self) -> str:
        """The rule, in words."""
        return f"{' + '.join(self.names[:-1])} <= {self.names[-1]}"

    def violations(self, table: pd.DataFrame) -> np.ndarray:
        """See :meth:`Rule.violations`; up to the rounding of a sum of floats."""
        *parts, total = (column.amounts(table[column.name]) for column in self.columns)
        part_sum = np.sum([np.nan_to_num(part) for part in parts], axis=0)
        return np.asarray(part_sum > total + self._rounding(total))

    def feasible(self, lows: np.ndarray, highs: np.ndarray) -> np.ndarray:
        """See :meth:`Order.feasible`."""
        part_sum, limit = np.nan_to_num(lows[:, :-1]).sum(axis=1), highs[:, -1]
        return ~(part_sum > limit + self._rounding(limit))

    def draw_amounts(
        self, lows: np.ndarray, highs: np.ndarray, rng: np.random.Generator
    ) -> np.ndarray:
        """See :meth:`Order.draw_amounts`: the total first, then each part within what the others leave."""
        null = np.isnan(lows)
        lows, highs = np.nan_to_num(lows), np.nan_to_num(highs)
        drawn = np.empty_like(lows)
        part_sum = lows[:, :-1].sum(axis=1)
        total = self.columns[-1]
        drawn[:, -1] = _on_steps(
            total, np.maximum(lows[:, -1], part_sum), lows[:, -1], highs[:, -1], rng
        )
        room = np.where(null[:, -1], np.inf, drawn[:, -1] - part_sum)
        for j in rng.permutation(len(self.columns) - 1):
            limit = np.minimum(highs[:, j], lows[:, j] + np.maximum(room, 0))
            drawn[:, j] = _on_steps(self.columns[j], lows[:, j], lows[:, j], limit, rng)
            room = room - (drawn[:, j] - lows[:, j])
        return np.where(null, np.nan, drawn)

    @staticmethod
    def _rounding(total: np.ndarray) -> np.ndarray:
        return TOLERANCE * np.maximum(1, np.abs(np.nan_to_num(total)))


def _on_steps(
    column: Column,
    low: np.ndarray,
    origin: np.ndarray,
    high: np.ndarray,
    rng: np.random.Generator,
) -> np.ndarray:
    """Return amounts from ``low`` to ``high``, uniform over the column's steps, of which ``origin`` is one; shape (n,)."""
    step = column.amount_step
    if step is None:
        return low + np.maximum(high - low, 0) * rng.random(len(low))
    first = np.ceil((low - origin) / step - TOLERANCE)
    last = np.maximum(np.floor((high - origin) / step + TOLERANCE), first)
    return origin + step * (first + np.floor(rng.random(len(low)) * (last - first + 1)))


@dataclass(frozen=True, eq=False)
class Implication(Rule):
    """A rule that rows with some values have certain other values.

    Attributes
    ----------
    columns : tuple of Column
        Of the condition, then of the consequence.
    conditions, consequences : tuple of ndarray
        Which codes of each column are meant, bool, shape (size,).
    words : str
        The rule for people.
    """

    columns: tuple[Column, ...]
    conditions: tuple[np.ndarray, ...]
    consequences: tuple[np.ndarray, ...]
    words: str

    @property
    def text(self) -> str:
        """The rule, in words."""
        return self.words

    def broken_codes(self, codes: Sequence[np.ndarray]) -> np.ndarray:
        """Return which rows of codes, by column, break the rule; bool, shape (n,)."""
        split = len(self.conditions)
        met = [m[c] for m, c in zip(self.conditions, codes[:split], strict=True)]
        holds = [m[c] for m, c in zip(self.consequences, codes[split:], strict=True)]
        return np.all(met, axis=0) & ~np.all(holds, axis=0)

    def violations(self, table: pd.DataFrame) -> np.ndarray:
        """See :meth:`Rule.violations`."""
        return self.broken_codes([c.encode(table[c.name]) for c in self.columns])


@dataclass(frozen=True, eq=False)
class Forbidden(Implication):
    """A combination of values that cannot occur: all masks are of the condition, and nothing satisfies it."""

    def broken_codes(self, codes: Sequence[np.ndarray]) -> np.ndarray:
        """See :meth:`Implication.broken_codes`."""
        return np.all([m[c] for m, c in zip(self.conditions, codes, strict=True)], axis=0)


def rules_from(columns: Columns, constraints: Sequence[Any]) -> tuple[Rule, ...]:
    """Return the rules of a schema's ``constraints``.

    Raises
    ------
    InputError
        For one that is not understood, contradicts the columns or another one.
    """
    if len(constraints) > MAX_RULES:
        raise InputError(f"The schema has {len(constraints):,} constraints; at most {MAX_RULES:,}.")
    rules = [rule_from(columns, item, f"constraints[{i}]") for i, item in enumerate(constraints)]
    made_by(rules)  # which refuses rules that contradict each other
    return tuple(rules)


_FORMS = {
    "derive": ({"derive", "from", "table"}, {"derive", "expression"}),
    "order": (
        {"order"},
        {"order", "strict"},
        {"order", "difference"},
        {"order", "strict", "difference"},
    ),
    "sum": ({"sum", "at_most"}, {"sum", "equals"}),
    "if": ({"if", "then"},),
}


def rule_from(columns: Columns, item: Any, where: str) -> Rule:
    """Return one rule; ``where`` is what errors begin with."""
    form = next((f for f in _FORMS if isinstance(item, Mapping) and f in item), None)
    if form is None or set(item) not in _FORMS[form]:
        raise InputError(
            f"{where}: expected derive with from and table, derive with expression, order, sum with at_most or equals, or if with"
            " then;"
            f" got {quote(item)}."
        )
    make = {"derive": _derivation, "order": _order, "sum": _sum, "if": _implication}[form]
    return make(columns, item, where)


def _column(columns: Columns, name: Any, where: str) -> Column:
    try:
        column = columns[name]
    except (InputError, KeyError, TypeError):
        raise InputError(
            f"{where}: the schema has no column {quote(name)}; correct the name."
        ) from None
    if not column.learned:
        raise InputError(
            f"{where}: column {quote(name)} is of kind {column.kind}, which is not learned; leave it out of"
            " the rule."
        )
    return column


def _derivation(columns: Columns, item: JsonMapping, where: str) -> Rule:
    target = _column(columns, item["derive"], where)
    if "expression" in item:
        expression = Expression(item["expression"], where)
        sources = tuple(_column(columns, name, where) for name in expression.names)
        for column in sources:
            column.code_amounts()  # InputError for texts
        target.from_amounts(np.empty(0))
        return Derived(target, sources, expression=expression)
    given_names = item["from"]
    if not isinstance(given_names, str | list | tuple):
        raise InputError(
            f"{where}: expected from to be a column or a list of columns, got {quote(given_names)}."
        )
    names = [given_names] if isinstance(given_names, str) else list(given_names)
    sources = tuple(_column(columns, name, where) for name in names)
    if target.name in names or not names:
        raise InputError(f"{where}: column {quote(target.name)} cannot follow from itself.")
    shape = tuple(column.size for column in sources)
    if np.prod(shape, dtype=float) > MAX_LOOKUP:
        raise InputError(f"{where}: the table would have more than {MAX_LOOKUP:,} entries.")
    lookup, values = np.full(shape, -1, dtype=np.int64), np.full(shape, None, dtype=object)
    table = item["table"]
    if isinstance(table, Mapping):
        if len(sources) != 1:
            raise InputError(f"{where}: a table as a dict is for one source; list rows instead.")
        table = [[*pair] for pair in table.items()]
    if not isinstance(table, list | tuple):
        raise InputError(f"{where}: expected table to be a dict or a list of rows.")
    for row in table:
        if not isinstance(row, list | tuple) or len(row) != len(sources) + 1:
            raise InputError(
                f"{where}: a row of the table needs {len(sources) + 1} values, got {quote(row)}."
            )
        key = tuple(_code(c, value, where) for c, value in zip(sources, row[:-1], strict=True))
        code, value = _target_code(target, row[-1], where)
        if lookup[key] not in (-1, code):
            keys = ", ".join(quote(value) for value in row[:-1])
            raise InputError(
                f"{where}: the table gives {keys} two values, {target.label(int(lookup[key]))} and"
                f" {target.label(code)}; keep one."
            )
        lookup[key], values[key] = code, value
    if target.nulls and len(sources) == 1 and sources[0].nulls and lookup[-1] < 0:
        lookup[-1] = target.size - 1
    if (lookup < 0).any() and target.other is not None:
        values[lookup < 0] = target.other
        lookup[lookup < 0] = target.positions[target.other]
    if (lookup < 0).any():
        missing = np.argwhere(lookup < 0)[0]
        keys = ", ".join(
            f"{c.name}={c.label(int(j))}" for c, j in zip(sources, missing, strict=True)
        )
        raise InputError(
            f"{where}: the table says nothing for {keys}; give every declared value of the sources a value."
        )
    return Derived(target, sources, lookup, values)


def _target_code(column: Column, value: object, where: str) -> tuple[int, Any]:
    """Return the code of a value of the derived column, and the value as the column has it."""
    if value is None or (isinstance(value, float) and np.isnan(value)):
        return _code(column, None, where), None
    where = f"{where}, column {quote(column.name)}"
    try:
        if isinstance(value, str):
            read = column.strict().parse(pd.Series([value], dtype=object))
        else:
            read = column.strict().convert(pd.Series([value]))
        return int(column.strict().encode(read)[0]), plain(read.iloc[0])
    except InputError as error:
        raise InputError(f"{where}: {error}") from None


def _code(column: Column, value: object, where: str) -> int:
    """Return the code of a value of a table, which as the key of a JSON object is text."""
    if value is None or (isinstance(value, float) and np.isnan(value)):
        value = None
    if isinstance(value, str) and column.value_type not in ("text", "category"):
        with suppress(InputError):
            value = plain(column.strict().parse(pd.Series([value], dtype=object)).iloc[0])
    return int(column.mask([value], where).argmax())


def _order(columns: Columns, item: JsonMapping, where: str) -> Rule:
    names = item["order"]
    if (
        not isinstance(names, list | tuple)
        or len(names) < 2
        or len(set(map(str, names))) < len(names)
    ):
        raise InputError(f"{where}: expected order to list two or more different columns.")
    ordered = tuple(_column(columns, name, where) for name in names)
    strict = item.get("strict", False)
    if not isinstance(strict, bool):
        raise InputError(f"{where}: expected strict to be true or false, got {quote(strict)}.")
    units = {(c.kind, getattr(c, "resolution", None)) for c in ordered if hasattr(c, "units")}
    if len(units) > 1 or (
        units and len(units) == 1 and not all(hasattr(c, "units") for c in ordered)
    ):
        raise InputError(
            f"{where}: {', '.join(names)} are of different kinds or units; they have no order."
        )
    _check_possible(Order(ordered, strict), where)
    if "difference" not in item:
        return Order(ordered, strict)
    reasons = next((c.name for c in ordered if c.missing), None)
    if reasons is not None:
        raise InputError(
            f"{where}: column {quote(reasons)} has reasons for missing, which a difference does not keep apart; leave"
            " one of them out."
        )
    if len(ordered) != 2:
        raise InputError(f"{where}: a difference is of two columns; write a rule for each pair.")
    declared = item["difference"]
    facts = {"low": 1 if strict else 0, **(declared if isinstance(declared, Mapping) else {})}
    first, second = ordered
    allowed = {f.name for f in fields(Numeric)} - {
        "name",
        "kind",
        "dtype",
        "nulls",
        "labels",
        "heaping",
    }
    if set(facts) - allowed or "high" not in facts:
        raise InputError(
            f"{where}: expected difference to be a dict with high, and low, bins, breaks, resolution or clip."
        )
    if not isinstance(facts.get("breaks", ()), list | tuple):
        raise InputError(
            f"{where}: expected breaks of the difference to be a list, got {quote(facts['breaks'])}."
        )
    try:
        real("low", facts["low"])
    except InputError:
        raise InputError(
            f"{where}: expected low of the difference to be a number, got {quote(facts['low'])}."
        ) from None
    if facts["low"] < 0 or (strict and facts["low"] <= 0):
        raise InputError(f"{where}: low of the difference contradicts the order; leave it out.")
    is_whole = first.amount_step == second.amount_step == 1
    facts["breaks"] = tuple(facts.get("breaks", ()))
    difference = Numeric(
        name=f"{second.name} - {first.name}",
        dtype="Int64" if is_whole else "Float64",
        nulls=first.nulls or second.nulls,
        **facts,
    )
    return Order(ordered, strict, difference)


def _sum(columns: Columns, item: JsonMapping, where: str) -> Rule:
    parts, totals = item["sum"], [item["at_most"]] if "at_most" in item else []
    names = [*parts, *totals] if isinstance(parts, list | tuple) else []
    if len(names) < 2 or len(set(map(str, names))) < len(names):
        raise InputError(
            f"{where}: expected sum to list different columns, and at_most to name another."
        )
    summed = tuple(_column(columns, name, where) for name in names)
    kinds = {(c.kind, getattr(c, "resolution", None)) for c in summed if hasattr(c, "units")}
    durations = len(kinds) == 1 and all(c.kind == "duration" for c in summed)
    if kinds and not durations:
        raise InputError(
            f"{where}: {', '.join(map(str, names))} have no sum; give numbers, or durations."
        )
    if not totals:
        return _fixed_sum(summed, real(f"{where}: equals", item["equals"]), where)
    rule = Sum(summed)
    _check_possible(rule, where)
    return rule


def _fixed_sum(columns: tuple[Column, ...], total: float, where: str) -> Rule:
    for column in columns:
        lows, highs = column.code_amounts()
        if not np.array_equal(lows, highs):
            raise InputError(
                f"{where}: column {quote(column.name)} has cells of several numbers, and a fixed sum is of columns whose cells are"
                " single numbers; derive it by an expression."
            )
    rule = FixedSum(columns, total)
    ends = [column.code_amounts()[0] for column in columns]
    least, largest = (sum(float(end(numbers)) for numbers in ends) for end in (np.min, np.max))
    if not least - TOLERANCE <= total <= largest + TOLERANCE:
        raise InputError(
            f"{where}: the bounds of the columns allow no values with {rule.text}; correct the bounds or the rule."
        )
    return rule


def _check_possible(rule: Order | Sum, where: str) -> None:
    """Raise InputError for texts, and where the bounds of the columns allow no values that satisfy the rule."""
    ends = [column.code_amounts() for column in rule.columns]
    lows, highs = (
        np.array([[np.nanmin(e[0]) for e in ends]]),
        np.array([[np.nanmax(e[1]) for e in ends]]),
    )
    if not any(column.nulls for column in rule.columns) and not rule.feasible(lows, highs)[0]:
        raise InputError(
            f"{where}: the bounds of the columns allow no values with {rule.text}; correct the bounds or the rule."
        )


def _implication(columns: Columns, item: JsonMapping, where: str) -> Rule:
    sides = []
    for key in ("if", "then"):
        side = item[key]
        if not isinstance(side, Mapping) or not side:
            raise InputError(
                f"{where}: expected {key} to be a dict of columns to values, got {quote(side)}."
            )
        masks = {}
        for name, values in side.items():
            column = _column(columns, name, where)
            side_values = values if isinstance(values, list | tuple | Mapping) else [values]
            masks[name] = column.mask(side_values, where)
        sides.append(masks)
    if not all(mask.any() for mask in sides[1].values()):
        raise InputError(f"{where}: then allows no value; list some.")
    names = [*sides[0], *sides[1]]
    return Implication(
        tuple(columns[name] for name in names),
        tuple(sides[0].values()),
        tuple(sides[1].values()),
        f"if {_words(item['if'])} then {_words(item['then'])}",
    )


def _words(side: JsonMapping) -> str:
    def side_words(values: object) -> str:
        if isinstance(values, Mapping):
            low, high = values["low"], values["high"]
            return str(low) if low == high else f"{low} to {high}"
        items = values if isinstance(values, list | tuple) else [values]
        texts = ["null" if v is None else str(v) for v in items]
        return " or ".join(texts[:4]) + (" or …" if len(texts) > 4 else "")

    return " and ".join(f"{name} is {side_words(values)}" for name, values in side.items())


def made_by(rules: Sequence[Rule]) -> dict[str, Rule]:
    """Return the rule that makes each column that is not modelled, by its name, sources first.

    Raises
    ------
    InputError
        For rules that derive a column twice, or in a circle.
    """
    makers: dict[str, Rule] = {}
    for rule in rules:
        if isinstance(rule, Derived) or (isinstance(rule, Order) and rule.difference is not None):
            target = rule.names[-1]
            if target in makers:
                raise InputError(f"Two constraints derive column {quote(target)}; keep one.")
            makers[target] = rule
    sources = {
        target: [name for name in rule.names[:-1] if name in makers]
        for target, rule in makers.items()
    }
    try:
        return {name: makers[name] for name in TopologicalSorter(sources).static_order()}
    except CycleError as error:
        raise InputError(
            f"The constraints derive column {quote(error.args[1][0])} from itself, by way of others; leave one out."
        ) from None


def plainly(item: object) -> Any:
    """Return a constraint as JSON writes it: lists for tuples, Python's own numbers."""
    if isinstance(item, Mapping):
        return {str(key): plainly(value) for key, value in item.items()}
    if isinstance(item, list | tuple | range):
        return [plainly(value) for value in item]
    return plain(item)
