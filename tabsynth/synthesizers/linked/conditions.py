"""Conditions on linked tables: on rows of the root, and on rows of which each root is to have one at least.

The mixture of the root's records is restricted to the root's condition, exactly (:func:`boxes_of`). What further children
are is drawn by networks, so whether one of them satisfies a condition has no closed form: roots are drawn, with all that
hangs on them, until enough have such a row. The kept roots have exactly the law of the model given the condition.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pandas as pd

from tabsynth._validate import quote
from tabsynth.encoding.linked import LinkedEncoder
from tabsynth.errors import InputError
from tabsynth.schema.linked import LinkedSchema
from tabsynth.synthesizers.conditions import DRAWS_EACH, LEAST_BATCH, SPARE, Condition

Tables = dict[str, pd.DataFrame]
MOST_DRAWS, LARGEST_BATCH = 100_000, 20_000  # roots in all, by default, and together


class LinkedCondition:
    """The conditions that all sampled roots satisfy, by table.

    A condition on the root is on its row. One on another table says that at least one row of it belongs to the root and
    satisfies all of the table's conditions; those of two tables need not be on rows of one parent.

    Attributes
    ----------
    by_table : dict of Condition
    stated : dict of list
        As a certificate names it, JSON-ready.

    Raises
    ------
    InputError
        As :class:`Condition`, and for an unknown table.
    """

    def __init__(self, schema: LinkedSchema, where: Any) -> None:
        if not isinstance(where, Mapping):
            raise InputError(
                f"Expected where to be a dict from tables, such as {quote(schema.root)}, to conditions, got {quote(where)}."
            )
        self.schema = schema
        self.by_table: dict[str, Condition] = {}
        self.stated: dict[str, list[Any]] = {}
        for name, condition in where.items():
            if name not in schema.names:
                raise InputError(
                    f"where names no table by {quote(name)}; the tables are {', '.join(schema.names)}."
                )
            self.by_table[name] = Condition(schema.tables[name], condition)
            of = f"{name}." if name == schema.root else f"some row of {name}: "
            self.stated |= {f"{of}{c}": v for c, v in self.by_table[name].stated.items()}

    @property
    def root(self) -> Condition | None:
        """The condition on the root."""
        return self.by_table.get(self.schema.root)

    def roots(self, tables: Tables) -> np.ndarray:
        """Return which roots of sampled tables satisfy it, bool, shape (roots,)."""
        satisfied = np.ones(len(tables[self.schema.root]), dtype=bool)
        for name, condition in self.by_table.items():
            rows = np.flatnonzero(condition.allows(tables[name]))
            for table in reversed(self.schema.lineage(name)[1:]):  # sampled keys are 1, 2, 3, …
                rows = np.unique(tables[table][self.schema.keys[table].parent_key].iloc[rows] - 1)
            there = np.zeros(len(satisfied), dtype=bool)
            there[rows] = True
            satisfied &= there
        return satisfied

    def __str__(self) -> str:
        """Return it in words."""
        return f"The condition {quote(self.stated, 120)}"


def tables_where(
    condition: LinkedCondition,
    n: int,
    max_draws: int | None,
    encoder: LinkedEncoder,
    draw: Callable[[int], Tables],
    rng: np.random.Generator,
) -> Tables:
    """Return tables of ``n`` roots that satisfy a condition: roots are drawn until so many do.

    Parameters
    ----------
    condition : LinkedCondition
    n : int
    max_draws : int, optional
        The largest number of roots to draw; by default 100 for each that is asked for, and 100,000 at least.
    encoder : LinkedEncoder
    draw : callable
        From a number to the tables of as many roots, whose condition on the root holds, but for what is computed.
    rng : Generator
        Draws identifiers again, which differ in all rows.

    Raises
    ------
    InputError
        If fewer roots satisfy it; the message says how many were drawn and found.
    """
    schema = condition.schema
    max_draws = max(MOST_DRAWS, DRAWS_EACH * n) if max_draws is None else max_draws
    parts: list[Tables] = []
    rows = dict.fromkeys(schema.names, 0)
    drawn = number_satisfied = 0
    while number_satisfied < n:
        if drawn >= max_draws:
            raise InputError(
                f"{condition} is too rare: of {drawn:,} rows of {schema.root} that were drawn {number_satisfied:,} satisfy it, and"
                f" {n:,} were asked for. Ask for fewer rows or a wider condition, or raise max_draws=."
            )
        batch = n - number_satisfied
        if drawn:
            expected = SPARE * batch * (drawn + 1) / (number_satisfied + 1)
            batch = int(min(max(expected, LEAST_BATCH), LARGEST_BATCH))
        batch = min(batch, max_draws - drawn)
        tables = draw(batch)
        drawn += batch
        chosen = np.flatnonzero(condition.roots(tables))[: n - number_satisfied]
        parts.append(of_roots(tables, schema, chosen, rows))
        number_satisfied += len(chosen)
        rows = {name: rows[name] + len(parts[-1][name]) for name in rows}
    if len(parts) == 1:
        return parts[0]
    out = {name: _together([part[name] for part in parts]) for name in schema.names}
    for name, table in out.items():
        for column in encoder.encoders[name].whole.generated_columns:
            if not column.learned:
                table[column.name] = column.decode(np.zeros(len(table), dtype=np.int64), rng)
    return out


def of_roots(
    tables: Tables, schema: LinkedSchema, roots: np.ndarray, before: Mapping[str, int]
) -> Tables:
    """Return sampled tables of some roots, by their numbers in ascending order; keys go on after so many rows ``before``."""
    out: Tables = {}
    chosen: dict[str, np.ndarray] = {}
    for name in schema.names:
        keys, table = schema.keys[name], tables[name]
        rows = roots
        if keys.parent is not None:
            place = np.full(len(tables[keys.parent]), -1)
            place[chosen[keys.parent]] = np.arange(len(chosen[keys.parent]))
            parents = place[table[keys.parent_key].to_numpy() - 1]
            rows = np.flatnonzero(parents >= 0)
        part = table.iloc[rows].reset_index(drop=True)
        if keys.parent is not None:
            part[keys.parent_key] = parents[rows] + 1 + before[keys.parent]
        if keys.key is not None:
            part[keys.key] = np.arange(1, len(part) + 1) + before[name]
        out[name], chosen[name] = part, rows
    return out


def _together(parts: list[pd.DataFrame]) -> pd.DataFrame:
    filled = [part for part in parts if len(part)]
    return pd.concat(filled, ignore_index=True) if filled else parts[0]
