"""Conditions on rows to be sampled: what they allow of each column, and rows drawn until enough satisfy them."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pandas as pd

from tabsynth._validate import quote
from tabsynth.encoding import TableEncoder
from tabsynth.errors import InputError
from tabsynth.schema.cells import plain
from tabsynth.schema.column import Column
from tabsynth.schema.conditions import Restriction, condition_value, has_no
from tabsynth.schema.constraints import Derived
from tabsynth.schema.schema import Schema

# By default: rows in all, and for each row that is asked for.
MOST_DRAWS, DRAWS_EACH = 1_000_000, 100
LEAST_BATCH, LARGEST_BATCH = 1_000, 100_000  # rows that are drawn together
SPARE = 1.2  # rows drawn for each one that is expected to be needed


class Condition:
    """The condition that all rows are to satisfy, by column: a value, a range, or several, any of which will do.

    Attributes
    ----------
    box : dict of ndarray
        By number of a modelled column, the share of each code's values that it allows, shape (size,).
    within : dict
        By column, what limits the values that a code is decoded to: of a numeric column, its steps.
    stated : dict of list
        The condition as a certificate names it, JSON-ready.
    computed : list of str
        Columns that are not modelled and do not follow from one by a table: their values decide, and not codes.

    Raises
    ------
    InputError
        For an unknown column, an undeclared value, or a column that is not learned.
    """

    def __init__(self, schema: Schema, where: object) -> None:
        if not isinstance(where, Mapping):
            raise InputError(
                f"Expected where to be a dict of columns to values, got {quote(where)}."
            )
        self.box: dict[int, np.ndarray] = {}
        self.within: dict[str, Any] = {}
        self.stated: dict[str, list[Any]] = {}
        self.computed: list[str] = []
        self._restrictions: dict[str, tuple[Column, Restriction]] = {}
        for name, allowed in where.items():
            column, values = column_of(schema, name), _alternatives(allowed)
            if not values:
                raise InputError(
                    f"where gives column {quote(name)} no value; give one, or leave it out."
                )
            restriction = column.restriction(values)
            shares, within = restriction.shares, restriction.within
            self.stated[name] = [condition_value(column, value) for value in values]
            self._restrictions[name] = (column, restriction)
            modelled = name in schema.learned.names
            source = None if modelled else _source(schema, column)
            if source is not None:
                shares, within = _allowed_by(source, restriction), None
                column = source.sources[0]
            elif not modelled:
                self.computed.append(name)
                continue
            elif column.detail is not None and restriction.details is not None:
                self.box[schema.learned.names.index(column.detail.name)] = restriction.details
            number = schema.learned.names.index(column.name)
            self.box[number] = shares * self.box.get(number, 1)
            if within is not None:
                self.within[name] = within

    def leaves_details(self, schema: Schema) -> bool:
        """Return whether it allows whole codes of a column whose values a detail says."""
        names = [schema.learned.names[number] for number in self.box]
        return any(
            name in schema.names and schema[name].detail is not None and name not in self.within
            for name in names
        )

    def __str__(self) -> str:
        """Return it in words."""
        conditions = {n: v[0] if len(v) == 1 else v for n, v in self.stated.items()}
        return f"The condition {quote(conditions, 120)}"

    def allows_codes(self, index: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Return which rows of codes, shape (n, columns), satisfy it; bool, shape (n,).

        Where a part of a code's values does, the row is kept with that probability, and ``within`` decodes it to one.
        """
        share = np.ones(len(index))
        for number, shares in self.box.items():
            share *= shares[index[:, number]]
        return rng.random(len(index)) < share

    def allows(self, table: pd.DataFrame) -> np.ndarray:
        """Return which rows of a table satisfy it, by their values; bool, shape (n,)."""
        satisfied = np.ones(len(table), dtype=bool)
        for name, (column, restriction) in self._restrictions.items():
            satisfied &= restriction.allows(column, table[name])
        return satisfied


def _allowed_by(source: Derived, restriction: Restriction) -> np.ndarray:
    """Return which codes of its source give a derived column an allowed value; bool, shape (size,)."""
    column = source.sources[0]
    # A value of each code: the table says the same of all values of a code.
    each = column.decode(np.arange(column.size), np.random.default_rng(0))
    values = source.values(pd.DataFrame({column.name: each}))
    return restriction.allows(source.target, values)


def _source(schema: Schema, column: Column) -> Derived | None:
    """Return the rule of a column that follows from one modelled column by a table; None for one that is computed.

    Raises
    ------
    InputError
        For a column that is not learned at all.
    """
    maker = schema.makers.get(column.name)
    if maker is None:
        raise InputError(
            f"where: column {quote(column.name)} is not learned; put the condition on other columns."
        )
    if isinstance(maker, Derived) and maker.lookup is not None and len(maker.sources) == 1:
        return maker if maker.sources[0].name in schema.learned.names else None
    return None


def _alternatives(condition: Any) -> list[Any]:
    several = pd.api.types.is_list_like(condition) and not isinstance(condition, Mapping)
    return list(condition) if several else [condition]


def column_of(schema: Schema, name: Any) -> Column:
    """Return the column that a condition names; InputError where the schema lacks it."""
    if name not in schema.names:
        raise InputError(f"where names column {quote(name)}, which the schema lacks; correct it.")
    return schema[name]


def rows_where(
    condition: Condition,
    n: int,
    max_draws: int | None,
    encoder: TableEncoder,
    draw: Callable[[int], np.ndarray],
    rng: np.random.Generator,
    *,
    exact: bool,
) -> pd.DataFrame:
    """Return rows that satisfy a condition: rows are drawn until ``n`` do.

    Parameters
    ----------
    condition : Condition
    n : int
    max_draws : int, optional
        The largest number of rows to draw; by default 100 for each row that is asked for, and 1,000,000 at least.
    encoder : TableEncoder
    draw : callable
        From a number to as many rows of codes, which satisfy the rules of the schema.
    rng : Generator
        Decides, where a condition allows a part of a code's values, and draws the values.
    exact : bool
        Whether the codes are drawn given the condition, so that it is checked on values alone.

    Raises
    ------
    InputError
        If fewer rows satisfy it; the message says how many were drawn and found.
    """
    max_draws = max(MOST_DRAWS, DRAWS_EACH * n) if max_draws is None else max_draws
    parts: list[pd.DataFrame] = []
    drawn = satisfying = 0
    while satisfying < n:
        if drawn >= max_draws:
            raise InputError(
                f"{condition} is too rare: of {drawn:,} rows that were drawn {satisfying:,} satisfy it, and {n:,} were asked"
                " for. Ask for fewer rows or a wider condition, or raise max_draws="
                f"{'' if exact else '; margnet draws such rows directly'}."
            )
        batch = n - satisfying
        if not exact or drawn:
            expected = SPARE * batch * (drawn + 1) / (satisfying + 1)
            batch = int(min(max(expected, LEAST_BATCH), LARGEST_BATCH))
        batch = min(batch, max_draws - drawn)
        index = draw(batch)
        drawn += batch
        if not exact:
            index = index[condition.allows_codes(index, rng)]
        table = encoder.from_index(index, rng, condition.within)
        # An order between columns may have moved values within their cells; other columns are computed.
        table = table[condition.allows(table)]
        parts.append(table)
        satisfying += len(table)
    table = parts[0] if len(parts) == 1 else pd.concat([p for p in parts if len(p)])
    table = table.iloc[:n].reset_index(drop=True)
    for column in encoder.whole.generated_columns:
        if not column.learned and len(parts) > 1:  # identifiers are different in all parts
            table[column.name] = column.decode(np.zeros(n, dtype=np.int64), rng)
    return table


def parse_where(schema: Schema, texts: list[str]) -> dict[str, list[Any]]:
    """Return a condition from texts ``COLUMN=VALUE``, or ``COLUMN=LOW..HIGH`` where an order is declared.

    Those of one column are alternatives.
    """
    where: dict[str, list[Any]] = {}
    for text in texts:
        if "=" not in text:
            raise InputError(f"Expected --where COLUMN=VALUE, got {quote(text)}.")
        named = (name for name in schema.names if text.startswith(f"{name}="))
        name = max(named, key=len, default=text.partition("=")[0])
        value = text[len(name) + 1 :]
        column = column_of(schema, name)
        low, dots, high = value.partition("..")
        if dots and column.ordered and value not in column.positions:
            condition: Any = {"low": _parse(column, low), "high": _parse(column, high)}
        else:
            condition = _parse_or_null(schema, column, value)
        where.setdefault(name, []).append(condition)
    return where


def _parse_or_null(schema: Schema, column: Column, text: str) -> Any:
    """Return the value of a column that a text stands for, None for null; an undeclared one is refused."""
    if text not in schema.null_values:
        return _parse(column, text)
    if column.nulls:
        return None
    raise InputError(
        f"where: column {quote(column.name)} has no value {quote(text)}, which stands for null; it has"
        f" {column.domain()}."
    )


def _parse(column: Column, text: str) -> Any:
    try:
        return plain(column.strict().parse(pd.Series([text], dtype=object)).iloc[0])
    except InputError:
        raise has_no(column, text) from None
