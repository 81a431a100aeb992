"""Linked tables to records of category codes, and back, by the linked schema alone.

A table is modelled by *records*. A record of a row holds the row's own codes, and for each child table the number of its
children. The record of a row of the root also holds the first child of each kind, so what both have to do with each other is
within one record. All other rows are drawn one after the other, each given its *context*:

- of a child of the root, the columns of the root, those of the first and of the previous child, and its position;
- of a row further down, the columns of its ancestors, those of the previous row of the same root in the table, those of the first
  row of each table beside it that comes before it in the schema, and its position among the rows of its parent.

Where codes repeat, the number of different codes that the root has before is in the context, too.

A root row with its records in the other tables is one unit of privacy, so its records in one table share a weight of 1: see
:meth:`LinkedEncoder.to_rows`.
"""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from tabsynth._validate import quote
from tabsynth.design import ambiguous_unit
from tabsynth.encoding.gaps import GAP, from_gaps, gaps_between, is_gap, with_gaps
from tabsynth.encoding.rows import Rows, SharedRows, names_of
from tabsynth.encoding.table import Block, Layout, TableEncoder, codebook
from tabsynth.errors import InputError, TableError
from tabsynth.schema.categorical import Ordinal
from tabsynth.schema.column import Column
from tabsynth.schema.hierarchical import Hierarchical
from tabsynth.schema.linked import LinkedSchema
from tabsynth.tables.frames import to_pandas

OWN, CHILDREN, ANCESTOR, FIRST, PREVIOUS = "own", "children", "ancestor", "first", "previous"
SIBLING, POSITION, BEFORE, STEP = "sibling", "position", "before", "step"
MORE = "more"
MOST_BEFORE = 40  # different codes before a row that are told apart; more are one class
SHOWN_ORPHANS = 10  # keys without a row that an error names
FARTHEST = 2  # codes apart: larger steps of an ordered column are counted together
GRID = 2**20  # weights of records are multiples of its inverse, which add up exactly in float64


@dataclass(frozen=True, kw_only=True)
class RecordColumn:
    """A column of a record: a modelled column of a table, a number of children, or a position.

    Attributes
    ----------
    role : str
        What the column is to the record.
    table : str
        The table that it is of.
    column : Column
    place : int
        Its number among the codes of a row of the table: modelled columns first, then numbers of children.
    optional : bool
        Whether a record may lack it, as that of a root row without children lacks a first child. A code after all others
        says so.
    """

    role: str
    table: str
    column: Column
    place: int
    optional: bool = False

    @property
    def name(self) -> str:
        """Unique within a record."""
        return f"{self.role} {self.table}: {self.column.name}"

    @property
    def size(self) -> int:
        """Number of codes."""
        return self.column.size + self.optional

    @property
    def ordered(self) -> bool:
        """True if its codes have an order, apart from the one of what a record lacks."""
        return bool(self.column.ordered)

    @property
    def absent(self) -> int:
        """The code that says that the record lacks it."""
        return self.column.size

    def groups(self, shares: np.ndarray, smallest: float, merged: float) -> np.ndarray:
        """Return groups as :meth:`tabsynth.schema.column.Column.groups` does; what a record lacks is a group by itself."""
        groups = self.column.groups(shares[: self.column.size], smallest, merged)
        return np.append(groups, groups.max() + 1) if self.optional else groups


def _farthest(column: RecordColumn) -> int:
    """Return the largest step of an ordered column that is counted by itself."""
    return max(1, min(FARTHEST, column.size - 1))


@dataclass(frozen=True)
class Records:
    """The columns of the records of one table: context, what is drawn given the context, and what follows from both.

    Attributes
    ----------
    table : str
    context, drawn : tuple of RecordColumn
    repeats : tuple of (int, int)
        The number of a column among ``context``, that of the previous child, and of the same one among ``drawn``. After all
        other columns there is one for each that says how the code of the child follows from that of the previous one.
    """

    table: str
    context: tuple[RecordColumn, ...]
    drawn: tuple[RecordColumn, ...]
    repeats: tuple[tuple[int, int], ...] = ()

    @cached_property
    def columns(self) -> tuple[RecordColumn, ...]:
        """All columns, in order."""
        steps = []
        for _, j in self.repeats:
            drawn_column = self.drawn[j]
            names: tuple[str, ...] = ("other", "same")
            if drawn_column.ordered:
                farthest = _farthest(drawn_column)
                inner = (f"{step:+d}" for step in range(1 - farthest, farthest))
                names = (f"{-farthest} or less", *inner, f"+{farthest} or more")
            column = Ordinal(name=drawn_column.column.name, dtype="str", categories=names)
            steps.append(
                RecordColumn(
                    role=STEP, table=drawn_column.table, column=column, place=drawn_column.place
                )
            )
        return (*self.context, *self.drawn, *steps)

    @cached_property
    def steps(self) -> tuple[np.ndarray, ...]:
        """The step from each code of the previous child to each code, for each of ``repeats``, shape (size, size), int64.

        Of an ordered column it is how many codes higher the new one is, from -2 or less to 2 or more, as 0 to 4; a column of
        two codes has -1 to 1. Of others it is 1 where both are the same, else 0.
        """
        out = []
        for _, j in self.repeats:
            codes = np.arange(self.drawn[j].size)
            apart = codes - codes[:, None]
            farthest = _farthest(self.drawn[j])
            step = (
                apart.clip(-farthest, farthest) + farthest if self.drawn[j].ordered else apart == 0
            )
            out.append(step.astype(np.int64))
        return tuple(out)

    @property
    def names(self) -> tuple[str, ...]:
        """Their names."""
        return tuple(column.name for column in self.columns)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Their numbers of codes."""
        return tuple(column.size for column in self.columns)

    @cached_property
    def layout(self) -> Layout:
        """One-hot codes of the columns, side by side."""
        blocks, start = [], 0
        for column in self.columns:
            book, head = codebook(column.size, "one-hot")
            blocks.append(Block(column.name, start, start + column.size, head, book))
            start += column.size
        return Layout(tuple(blocks))


@dataclass(frozen=True, eq=False)
class Repeated:
    """A column of codes that rows of one root repeat (``repeats`` of the keys).

    Attributes
    ----------
    place : int
        Its number among the codes of a row.
    again : int
        The code that says that the root has the row's code in an earlier row.
    codes : ndarray
        The codes that stand for one value each, which no root has twice.
    shares : ndarray, shape (codes,), or None
        The released share of the root's rows that has each, 0 where it is not known; None: none is released.
    std : float
        The standard deviation of the noise on each share.
    """

    place: int
    again: int
    codes: np.ndarray
    shares: np.ndarray | None = None
    std: float = 0.0


@dataclass(eq=False)
class CodedTable:
    """Rows of one of the linked tables, as codes.

    Attributes
    ----------
    codes : ndarray, shape (n, modelled columns + child tables), int64
        The codes of modelled columns, then for each child table the number of children, of which the last code says that
        there are more than are used.
    parent : ndarray, shape (n,), int64
        The number of the parent's row in its table; zeros for the root.
    position : ndarray, shape (n,), int64
        The place among the children of that parent, from 0.
    first : dict of str to ndarray, shape (n,), int64
        By child table the number of the first child's row; -1 where there is none.
    weights : ndarray, shape (n,), float64, or None
        Of rows of the root whose schema declares a weight.
    """

    codes: np.ndarray
    parent: np.ndarray
    position: np.ndarray
    first: dict[str, np.ndarray] = field(default_factory=dict)
    weights: np.ndarray | None = None


NANOSECONDS = {"ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9}


def _sortable(value: Any) -> tuple[int, int | float | str]:
    """Return what a value of an order column is compared by, whatever other rows hold: numbers come before times and texts."""
    if isinstance(value, pd.Timestamp | pd.Timedelta):
        return 1, int(value.asm8.astype("int64")) * NANOSECONDS[value.unit]
    try:
        number = (
            int(value) if re.fullmatch(r"\s*[+-]?[0-9]{1,400}\s*", str(value)) else float(value)
        )
        if math.isfinite(number):
            return 0, number
    except (TypeError, ValueError):
        pass
    return 2, str(value)


def _rising(column: Column, values: pd.Series) -> np.ndarray:
    """Return what decoded values of an ordered column are ordered by, shape (n,): of categories their declared order."""
    ranks = column.encode(values) if column.categories else column.amounts(values)
    return np.asarray(ranks, dtype=float)


class LinkedEncoder:
    """Encoder of the tables of one linked schema; like :class:`tabsynth.encoding.table.TableEncoder` it has no ``fit``.

    Parameters
    ----------
    schema : LinkedSchema
    repeated : sequence of str
        Tables with a column of codes that repeat.

    Attributes
    ----------
    encoders : dict of str to TableEncoder
    records : dict of str to Records
        Of each table but those of which a root row has at most one row.
    once : dict of str to Repeated
        By table.
    events : tuple of (str, int, ndarray), or None
        The table of the rows that matter, the number of a column among the codes of its rows, and the codes of it that they have.
    whole : LinkedSchema
        The schema as it was declared, of which ``schema`` may be the :attr:`LinkedSchema.plain` one.
    """

    def __init__(self, schema: LinkedSchema, repeated: Sequence[str] = ()) -> None:
        self.schema = self.whole = schema
        self.repeated = repeated
        self.gaps = {name: keys.gaps or () for name, keys in schema.keys.items()}
        self.encoders = {
            name: TableEncoder(with_gaps(s, self.gaps[name])) for name, s in schema.tables.items()
        }
        self.sizes = {name: self._sizes(name) for name in schema.names}
        self.once: dict[str, Repeated] = {}
        self.events: tuple[str, int, np.ndarray] | None = None
        for name, keys in schema.keys.items():
            for column, values in (keys.events or {}).items():
                self.events = name, *self.single_codes(name, column, values)
        self.records: dict[str, Records] = {}
        for name in schema.names:
            if name == schema.root:
                self.records[name] = Records(name, (), self._record(name))
            elif self.most(name) > 1 or self.is_deep(name):
                context, drawn = self._context(name), tuple(self._row(name, OWN))
                repeats = tuple(
                    (j, c.place)
                    for j, c in enumerate(context)
                    if c.role == PREVIOUS and not c.optional
                    if drawn[c.place].role == OWN and not is_gap(c.column.name)
                )
                self.records[name] = Records(name, context, drawn, repeats)

    def single_codes(
        self, name: str, column: str, values: Sequence[Any] | None = None
    ) -> tuple[int, np.ndarray]:
        """Return a column's number among the codes of a row, and the codes of its values, by default all, that do not stand for a group."""
        place = self.encoders[name].schema.names.index(column)
        of = self.encoders[name].schema.columns[place]
        listed = of.modelled if isinstance(of, Hierarchical) else of.categories
        alone = [value for value in listed if values is None or value in values]
        return place, of.encode(pd.Series(alone, dtype=of.dtype)) if alone else np.zeros(0, int)

    def is_deep(self, name: str) -> bool:
        """Return whether a table's rows are further down than children of the root."""
        return len(self.schema.lineage(name)) > 2

    def earlier_siblings(self, name: str) -> list[str]:
        """Return the tables with the same parent that come before one."""
        children = self.schema.children(str(self.schema.keys[name].parent))
        return list(children[: children.index(name)])

    def most(self, name: str) -> int:
        """Return the most children of one row that are used."""
        return int(self.schema.keys[name].max_children or 1)

    def columns(self, name: str) -> tuple[Column, ...]:
        """Return the columns of a table's codes: modelled ones, and numbers of children."""
        return (*self.encoders[name].schema.columns, *self.sizes[name])

    def _sizes(self, name: str) -> tuple[Column, ...]:
        """Return numbers of children as columns: 0, 1, …, most, more."""
        return tuple(
            Ordinal(
                name=f"number of {child}",
                dtype="str",
                categories=(*map(str, range(self.most(child) + 1)), MORE),
            )
            for child in self.schema.children(name)
        )

    def _row(self, name: str, role: str, optional: bool = False) -> list[RecordColumn]:
        """Return the columns of a row of a table."""
        modelled = len(self.encoders[name].schema.columns)
        return [
            RecordColumn(
                role=CHILDREN if role == OWN and place >= modelled else role,
                table=name,
                column=column,
                place=place,
                optional=optional,
            )
            for place, column in enumerate(self.columns(name))
        ]

    def _record(self, name: str) -> tuple[RecordColumn, ...]:
        """Return the columns of a row of the root, and of its first child of each kind."""
        columns = self._row(name, OWN)
        for child in self.schema.children(name):
            columns += self._row(child, OWN, optional=True)
        return tuple(columns)

    def _context(self, name: str) -> tuple[RecordColumn, ...]:
        columns, deep = list[RecordColumn](), self.is_deep(name)
        for ancestor in self.schema.lineage(name)[:-1]:
            columns += self._row(ancestor, ANCESTOR)
        if not deep:
            columns += self._row(name, FIRST)
        columns += self._row(name, PREVIOUS, optional=deep)
        for other in self.earlier_siblings(name) if deep else ():
            columns += self._row(other, SIBLING, optional=True)
        positions = tuple(map(str, range(1 if deep else 2, self.most(name) + 1)))
        if len(positions) > 1:
            position = Ordinal(name="position", dtype="str", categories=positions)
            columns.append(RecordColumn(role=POSITION, table=name, column=position, place=0))
        if name in self.repeated:
            numbers = tuple(map(str, range(MOST_BEFORE + 1)))
            before = Ordinal(name="different codes", dtype="str", categories=numbers)
            columns.append(RecordColumn(role=BEFORE, table=name, column=before, place=0))
        return tuple(columns)

    # Tables to records.

    def to_tables(self, tables: object) -> dict[str, CodedTable]:
        """Return codes of all tables, of children those that are used.

        Parameters
        ----------
        tables : mapping of str to DataFrame

        Raises
        ------
        InputError
            With the problems of all tables: values and columns that a schema does not declare; keys that are null, occur
            twice, or refer to no row.
        """
        names = self.schema.names
        frames = self._frames(tables)
        problems: list[str] = []
        keys = {name: self._keys(name, frames[name], problems) for name in names}
        codes: dict[str, np.ndarray] = {}
        for name in names:
            try:
                codes[name] = self._codes(name, frames[name])
            except InputError as error:
                found_problems = error.problems if isinstance(error, TableError) else [str(error)]
                problems += [f"Table {quote(name)}: {problem}" for problem in found_problems]
            schema = self.schema.tables[name]
            wrong = schema.design.problems(frames[name], schema.decimal, needed=True)
            problems += [f"Table {quote(name)}: {message}" for *_, message in wrong]
        for name in names:
            self._check_keys(name, keys, problems)
        refuse(problems)
        return self._link(frames, keys, codes)

    def _frames(self, tables: object) -> dict[str, pd.DataFrame]:
        """Return the tables of a dict by name; refuse one that lacks a table, or has others."""
        names = self.schema.names
        if not isinstance(tables, Mapping):
            raise InputError(f"Expected a dict of tables {', '.join(names)}, got {quote(tables)}.")
        for name in (*names, *map(str, tables)):
            if name not in tables or name not in names:
                what = "has no table" if name not in tables else "knows no table"
                who = "The dict of tables" if name not in tables else "The linked schema"
                raise InputError(f"{who} {what} {quote(name)}; the tables are {', '.join(names)}.")
        return {name: to_pandas(tables[name], f"table {name}") for name in names}

    def checked_frames(
        self, tables: object
    ) -> tuple[dict[str, pd.DataFrame], dict[str, dict[str, np.ndarray]]]:
        """Return the tables by name, and their keys as texts by column, all of which are sound; else refuse as :meth:`to_tables`."""
        frames, problems = self._frames(tables), list[str]()
        keys = {name: self._keys(name, frame, problems) for name, frame in frames.items()}
        for name in frames:
            self._check_keys(name, keys, problems)
        refuse(problems)
        return frames, keys

    def _keys(self, name: str, frame: pd.DataFrame, problems: list[str]) -> dict[str, np.ndarray]:
        """Return the keys of a table as texts, by column."""
        out = {}
        names = [str(column) for column in frame.columns]
        keys = self.schema.keys[name]
        aside = [keys.order] if keys.order is not None else []
        for column in dict.fromkeys((*keys.columns, *aside)):
            if names.count(column) != 1:
                lacks = "lacks" if column not in names else "has twice"
                problems.append(
                    f"Table {quote(name)} {lacks} column {quote(column)} of its keys; correct it."
                )
                continue
            values = frame.iloc[:, names.index(column)]
            if values.isna().any():
                problems.append(
                    f"Table {quote(name)} has a null in column {quote(column)} of its keys; fill it in, or take the row out."
                )
            elif column in keys.columns:
                value = ambiguous_unit(values)
                if value is not None:
                    problems.append(
                        f"Table {quote(name)} has {column}={quote(value)}, which may stand for several keys; give keys as"
                        " whole numbers or texts."
                    )
                out[column] = names_of(values)
        return out

    def _codes(self, name: str, frame: pd.DataFrame) -> np.ndarray:
        """Return codes of the modelled columns of a table, without keys."""
        schema, keys = self.schema.tables[name], self.schema.keys[name]
        aside = {*keys.columns, keys.order} - {*schema.names, *schema.names_left_out}
        learned = frame[[column for column in frame.columns if str(column) not in aside]]
        if self.gaps[name]:
            learned = self._with_gaps(name, frame, learned)
        index = self.encoders[name].to_index(learned, f"table {name}")
        if len(index) < len(frame):  # rows that cannot be repaired would be left out
            raise InputError(
                f"Table {quote(name)} has a row that breaks a rule and cannot be repaired; correct it."
            )
        return index

    def _with_gaps(self, name: str, frame: pd.DataFrame, learned: pd.DataFrame) -> pd.DataFrame:
        """Return values of a table beside the gaps of its columns; refuses values as they are refused without gaps."""
        schema, keys = self.schema.tables[name], self.schema.keys[name]
        codes = TableEncoder(schema).to_index(learned, f"table {name}")
        names = [str(column) for column in frame.columns]
        if len(codes) < len(frame) or not {keys.parent_key, keys.order} <= {*names, None}:
            return learned.assign(**{f"{column}{GAP}": math.nan for column in self.gaps[name]})
        parents = pd.factorize(names_of(frame.iloc[:, names.index(str(keys.parent_key))]))[0]
        place, values = self._places(name, frame, codes), {}
        for column in self.gaps[name]:
            amounts = schema[column].amounts(frame.iloc[:, names.index(column)])
            values[f"{column}{GAP}"] = gaps_between(schema[column], amounts, parents, place)
        return learned.assign(**values)

    def _check_keys(
        self, name: str, keys: Mapping[str, Mapping[str, np.ndarray]], problems: list[str]
    ) -> None:
        """Return keys that occur twice, and keys without a parent; of columns without another problem."""
        of = self.schema.keys[name]
        if of.key in keys[name]:
            values = keys[name][str(of.key)]
            twice = pd.Series(values).duplicated().to_numpy()
            if twice.any():
                problems.append(
                    f"Table {quote(name)} has key {of.key}={quote(values[twice.argmax()])} twice; each row needs a key of its"
                    " own."
                )
        above = None if of.parent is None else str(self.schema.keys[of.parent].key)
        if of.parent is not None and of.parent_key in keys[name] and above in keys[of.parent]:
            values, parents = keys[name][str(of.parent_key)], keys[of.parent][str(above)]
            orphan = ~pd.Series(values, dtype=object).isin(parents).to_numpy()
            if orphan.any():
                lost = list(dict.fromkeys(values[orphan]))
                shown = ", ".join(quote(value) for value in lost[:SHOWN_ORPHANS])
                more = (
                    f" and {len(lost) - SHOWN_ORPHANS:,} more" if len(lost) > SHOWN_ORPHANS else ""
                )
                which = "is no key" if len(lost) == 1 else "are no keys"
                problems.append(
                    f"Table {quote(name)} has {of.parent_key}={shown}{more}, which {which} of table {quote(of.parent)}; add the"
                    " rows there, take these out, or declare orphans='drop'."
                )

    def _link(
        self,
        frames: Mapping[str, pd.DataFrame],
        keys: Mapping[str, Mapping[str, np.ndarray]],
        codes: Mapping[str, np.ndarray],
    ) -> dict[str, CodedTable]:
        """Return the rows that are used, by parent and order; and how many children each has."""
        out: dict[str, CodedTable] = {}
        rows: dict[
            str, pd.Series
        ] = {}  # of each table, from keys to the numbers of rows that are used
        for name in self.schema.names:
            of = self.schema.keys[name]
            if of.parent is None:
                used_rows = np.arange(len(codes[name]))
                parent = position = np.zeros(len(used_rows), dtype=np.int64)
            else:
                of_parent = pd.Series(keys[name][str(of.parent_key)], dtype=object).map(
                    rows[of.parent]
                )
                used = np.flatnonzero(of_parent.notna().to_numpy())
                parent = of_parent.to_numpy(dtype=float)[used].astype(np.int64)
                place = self._places(name, frames[name], codes[name])[used]
                order = np.lexsort((used, place, parent))
                used, parent = used[order], parent[order]
                position = np.arange(len(used)) - np.searchsorted(parent, parent)
                number = np.bincount(parent, minlength=len(out[of.parent].codes))
                child = self.schema.children(of.parent).index(name)
                column = len(self.encoders[of.parent].schema.columns) + child
                out[of.parent].codes[:, column] = np.minimum(number, self.most(name) + 1)
                few = position < self.most(name)
                used_rows, parent, position = used[few], parent[few], position[few]
            width = len(self.columns(name))
            table = np.zeros((len(used_rows), width), dtype=np.int64)
            table[:, : codes[name].shape[1]] = codes[name][used_rows]
            out[name] = CodedTable(table, parent, position)
            schema = self.schema.tables[name]
            if schema.weight is not None:  # of the root, whose rows are all used
                out[name].weights = schema.design.weights(frames[name], schema.decimal)
            if of.key is not None:
                rows[name] = pd.Series(
                    np.arange(len(used_rows)), index=keys[name][str(of.key)][used_rows]
                )
        for name in self.schema.names[1:]:
            self.enter_first(name, out)
        return out

    def _places(self, name: str, frame: pd.DataFrame, codes: np.ndarray) -> np.ndarray:
        """Return what rows of one parent are ordered by: ranks of the order column; all alike where there is none."""
        order = self.schema.keys[name].order
        if order is None:
            return np.zeros(len(frame))
        values = frame.iloc[:, [str(c) for c in frame.columns].index(order)]
        schema = self.schema.tables[name]
        if order in schema.names:
            column = schema[order]
            if column.categories:  # by their declared order
                return codes[:, schema.learned.names.index(order)].astype(float)
            return np.asarray(column.amounts(values), dtype=float)
        keys = [_sortable(value) for value in values]
        rank = {key: i for i, key in enumerate(sorted(set(keys)))}
        return np.array([rank[key] for key in keys], dtype=float)

    def enter_first(self, name: str, tables: dict[str, CodedTable]) -> None:
        """Enter the numbers of first children into the parents' table."""
        parent = str(self.schema.keys[name].parent)
        first = np.full(len(tables[parent].codes), -1, dtype=np.int64)
        at = tables[name].position == 0
        first[tables[name].parent[at]] = np.flatnonzero(at)
        tables[parent].first[name] = first

    def to_rows(self, tables: Mapping[str, CodedTable]) -> dict[str, Rows | SharedRows]:
        """Return the records of each table that has some, with their weights; those of the root with survey weights if declared.

        Formal guarantees
        -----------------
        A record of the root has the weight 1. Of another table, a record of a root row that has k of them has the weight 1/k,
        rounded down to a multiple of 2⁻²⁰. So in each table the weights of the records of one root row sum to 1 at most. A
        record adds its weight to one cell of the counts of a set of columns. Adding or removing a root row, with its other
        records, changes counts of that set by non-negative amounts that sum to 1 at most: an L1 and L2 sensitivity of 1,
        whatever the bounds ``max_children``. Records of other root rows are the same, since bounds, orders, gaps and
        weights follow from a root's own rows.

        Where rows of the root have survey weights, these are beside the codes; no record of other tables has one.
        """
        return {name: self.rows_of(name, tables) for name in self.records}

    def rows_of(self, name: str, tables: Mapping[str, CodedTable]) -> Rows | SharedRows:
        """Return the records of one table, as :meth:`to_rows` has them."""
        records, table = self.records[name], tables[name]
        rows, weights = np.arange(len(table.codes)), None
        context = np.zeros((len(rows), 0), dtype=np.int64)
        if name != self.schema.root:
            roots, previous = self.roots(name, tables), rows - 1
            if self.is_deep(name):
                previous[np.flatnonzero(np.diff(roots, prepend=-1))] = -1  # first rows of roots
            else:
                rows = rows[table.position > 0]
            weights = (GRID // np.bincount(roots[rows], minlength=1)[roots[rows]]) / GRID
            places = (table.parent[rows], previous[rows], table.position[rows])
            context = self.context(name, *places, tables, self._before(name, tables)[rows])
        drawn = self._record_codes(name, rows, tables)
        steps = [
            step[context[:, i], drawn[:, j]]
            for (i, j), step in zip(records.repeats, records.steps, strict=True)
        ]
        codes = np.column_stack([context, drawn, *steps]).astype(np.int64)
        survey = table.weights
        return SharedRows(codes, weights) if survey is None else Rows(codes, survey)

    def _before(self, name: str, tables: Mapping[str, CodedTable]) -> np.ndarray:
        """Return how many different codes the root of each row of a table has in rows before it, shape (n,); zeros where none repeat."""
        codes, roots = tables[name].codes, self.roots(name, tables)
        if name not in self.once or not len(codes):
            return np.zeros(len(codes), dtype=np.int64)
        of = self.once[name]
        new = (codes[:, of.place] != of.again).astype(np.int64)
        before = np.cumsum(new) - new
        return before - before[np.searchsorted(roots, roots)]

    def roots(self, name: str, tables: Mapping[str, CodedTable]) -> np.ndarray:
        """Return the number of the root's row of each row of a table, shape (n,)."""
        at = np.arange(len(tables[name].codes))
        for table in reversed(self.schema.lineage(name)[1:]):
            at = tables[table].parent[at]
        return at

    def context(
        self,
        name: str,
        parent: np.ndarray,
        previous: np.ndarray,
        position: np.ndarray,
        tables: Mapping[str, CodedTable],
        before: np.ndarray,
    ) -> np.ndarray:
        """Return the context of rows of a table, shape (n, context columns).

        Parameters
        ----------
        name : str
        parent, previous : ndarray, shape (n,), int64
            The numbers of the parent's row, and of the previous row of the table; -1 where there is none.
        position : ndarray, shape (n,), int64
            The place among the rows of that parent, from 0.
        tables : dict of str to CodedTable
        before : ndarray, shape (n,), int64
            How many different codes the root has before, where codes repeat.
        """
        lines, at = dict[str, np.ndarray](), parent
        for ancestor in reversed(self.schema.lineage(name)[:-1]):
            lines[ancestor], at = at, tables[ancestor].parent[at]
        above, parts = tables[str(self.schema.keys[name].parent)], list[np.ndarray]()
        for ancestor, rows in reversed(lines.items()):
            parts.append(self._row_codes(ancestor, rows, tables))
        if not self.is_deep(name):
            parts.append(self._row_codes(name, above.first[name][parent], tables))
        parts.append(self._row_codes(name, previous, tables))
        for other in self.earlier_siblings(name) if self.is_deep(name) else ():
            parts.append(self._row_codes(other, above.first[other][parent], tables))
        roles = [column.role for column in self.records[name].context]
        if POSITION in roles:
            parts.append((position if self.is_deep(name) else position - 1)[:, None])
        if BEFORE in roles:
            parts.append(np.minimum(before, MOST_BEFORE)[:, None])
        return np.concatenate(parts, axis=1)

    def _row_codes(
        self, name: str, rows: np.ndarray, tables: Mapping[str, CodedTable]
    ) -> np.ndarray:
        """Return the codes of rows of a table, and those that say that there is none where a number is -1."""
        codes = tables[name].codes
        absent = np.array([column.size for column in self.columns(name)])
        return np.where(rows[:, None] >= 0, codes[rows] if len(codes) else absent, absent)

    def _record_codes(
        self, name: str, rows: np.ndarray, tables: Mapping[str, CodedTable]
    ) -> np.ndarray:
        """Return the records of rows of a table: their codes, and of the root those of their first children."""
        parts = [self._row_codes(name, rows, tables)]
        for child in self.schema.children(name) if name == self.schema.root else ():
            parts.append(self._row_codes(child, tables[name].first[child][rows], tables))
        return np.concatenate(parts, axis=1)

    def take(self, tables: Mapping[str, CodedTable], roots: np.ndarray) -> dict[str, CodedTable]:
        """Return some rows of the root with their rows in the other tables.

        Parameters
        ----------
        tables : dict of str to CodedTable
        roots : ndarray
            Numbers of rows of the root, in rising order.
        """
        out, numbers = dict[str, CodedTable](), dict[str, np.ndarray]()
        for name in self.schema.names:
            table, parent = tables[name], self.schema.keys[name].parent
            rows = roots
            if parent is not None:
                rows = np.flatnonzero(numbers[parent][table.parent] >= 0)
            numbers[name] = np.full(len(table.codes), -1)
            numbers[name][rows] = np.arange(len(rows))
            above = table.parent[rows] if parent is None else numbers[parent][table.parent[rows]]
            out[name] = CodedTable(table.codes[rows], above, table.position[rows])
            if parent is not None:
                self.enter_first(name, out)
        return out

    def join(self, parts: Sequence[Mapping[str, CodedTable]]) -> dict[str, CodedTable]:
        """Return the rows of several sets of tables, one after the other."""
        out = dict[str, CodedTable]()
        for name in self.schema.names:
            of, parent = [part[name] for part in parts], self.schema.keys[name].parent
            before = [0] * len(parts) if parent is None else [len(p[parent].codes) for p in parts]
            shifts = np.cumsum([0, *before])
            out[name] = CodedTable(
                np.concatenate([table.codes for table in of]),
                np.concatenate([t.parent + shift for t, shift in zip(of, shifts, strict=False)]),
                np.concatenate([table.position for table in of]),
            )
            if parent is not None:
                self.enter_first(name, out)
        return out

    # Records to tables.

    def from_tables(
        self,
        tables: Mapping[str, CodedTable],
        rng: np.random.Generator,
        within: Mapping[str, Any] | None = None,
    ) -> dict[str, pd.DataFrame]:
        """Return DataFrames of drawn codes, with keys that match: 1, 2, 3, … in each table.

        ``within``, of columns of the root, as of :meth:`tabsynth.encoding.table.TableEncoder.from_index`.
        """
        out: dict[str, pd.DataFrame] = {}
        for name in self.schema.names:
            table, encoder, keys = tables[name], self.encoders[name], self.schema.keys[name]
            index = table.codes[:, : len(encoder.schema.columns)]
            if len(index) and encoder.whole.has_rules and encoder.rules.violations(index).any():
                index = encoder.rules.hold(index, rng)
            frame = encoder.from_index(index, rng, within if keys.parent is None else None)
            numbers: dict[str, np.ndarray] = {}
            parent, position = table.parent, table.position
            for column in self.gaps[name]:
                of, gaps = encoder.whole[column], frame.pop(f"{column}{GAP}").to_numpy(dtype=float)
                frame[column] = of.from_amounts(
                    from_gaps(of, of.amounts(frame[column]), gaps, parent, position)
                )
            if keys.order is not None and keys.order in encoder.whole.names:
                amounts = _rising(encoder.whole[keys.order], frame[keys.order])
                order = np.lexsort((table.position, amounts, table.parent))
                frame, parent = frame.iloc[order].reset_index(drop=True), parent[order]
                position = np.arange(len(frame))
                if any(len(tables[child].codes) for child in self.schema.children(name)):
                    _renumber(self.schema.children(name), tables, order)
            elif keys.order is not None and keys.order != keys.key:
                numbers[keys.order] = table.position + 1
            for column in keys.increasing or ():
                # Cells do not decrease already; values of one cell are exchanged.
                values = frame[column]
                amounts = _rising(encoder.whole[column], values)
                at, rising = np.lexsort((position, parent)), np.lexsort((amounts, parent))
                source = np.empty(len(frame), dtype=np.int64)
                source[at] = rising
                frame[column] = values.iloc[source].reset_index(drop=True)
            if keys.parent_key is not None:
                numbers[str(keys.parent_key)] = parent + 1
            if keys.key is not None:
                numbers[str(keys.key)] = np.arange(1, len(frame) + 1)
            aside = [
                column for column in (keys.key, keys.parent_key, keys.order) if column in numbers
            ]
            for place, name_of_key in enumerate(dict.fromkeys(aside)):
                frame.insert(place, name_of_key, numbers[name_of_key])
            out[name] = frame
        return out


def refuse(problems: list[str], what: str = "the set of tables") -> None:
    """Raise an error with all problems of a set of tables, if there are some."""
    if len(problems) == 1:
        raise InputError(problems[0])
    if problems:
        raise TableError(what, problems, problems[0])


def _renumber(children: Sequence[str], tables: Mapping[str, CodedTable], order: np.ndarray) -> None:
    """Let children follow their parents, whose rows are put in another order."""
    new = np.empty(len(order), dtype=np.int64)
    new[order] = np.arange(len(order))
    for child in children:
        tables[child].parent = new[tables[child].parent]
