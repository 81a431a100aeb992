"""Linked tables: a schema for each table, and the keys by which rows of one belong to a row of another.

The tables form a tree: one root, such as patients, and tables whose rows each belong to a row of their parent, such as
stays and the events of a stay. The privacy unit is a row of the root with its records in the other tables. How many children of
one row are used is a public bound, ``max_children``.
"""

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any, TypeAlias

from tabsynth._files import parse_json, read_json_text, write_text
from tabsynth._shown import Shown, text_table
from tabsynth._typing import JsonMapping, JsonObject
from tabsynth._validate import check_text, integer, make_fields_native, one_of, quote
from tabsynth.design import Design
from tabsynth.errors import FileFormatError, InputError, TabsynthError
from tabsynth.schema.column import Column
from tabsynth.schema.numeric import Numeric
from tabsynth.schema.schema import Schema
from tabsynth.schema.temporal import Date, Temporal

FORMAT = "tabsynth-linked-schema/1"
REFUSE, DROP = "refuse", "drop"  # orphans
MOST_TABLES = 20
MOST_CHILDREN = 1_000  # of one row
MOST_ROWS = 2**16  # of a table that belong to one row of the root
# A name of a table is that of its file.
TABLE_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_ -]{0,63}")


@dataclass(frozen=True, kw_only=True)
class TableKeys(Shown):
    """The keys of one of several linked tables. All are public, and none is learned.

    Parameters
    ----------
    key : str or tuple of str, optional
        The column, or the columns together, that identify the table's rows. Required where another table refers to this one.
    parent : str, optional
        The table whose rows this table's rows belong to; None for the root.
    parent_key : str or tuple of str, optional
        The column with the key of the parent's row; of a key of several columns these, in the order of the parent's key.
    order : str, optional
        The column by which the rows of one parent are ordered; ties, and all rows where none is named, have the order of
        the table. If it is among the columns of the table's schema, synthetic values do not decrease within a parent;
        else they are 1, 2, 3, …
    increasing : tuple of str, optional
        Other columns of the table's schema, such as a date beside the number of a visit, whose synthetic values do not
        decrease within a parent, in the order of its rows. Real rows may decrease; they are used as they are.
    gaps : tuple of str, optional
        Columns of numbers, dates or times among ``order`` and ``increasing`` whose gaps are modelled: how far a row is from
        the one before of the same parent. Synthetic values are that of the row before and the gap.
    max_children : int, optional
        The most rows of one parent that are used, the first by their order: a public bound, from a codebook or a rule. It
        must not be read off the table.
    orphans : {"refuse", "drop"}
        What becomes of rows whose parent is in no row of its table, or null: the tables are refused, or these rows are left
        out. They are of no unit of privacy, and their number is not released.
    inherited : tuple of str, optional
        Columns that repeat the key of an ancestor further up, and have its name: they are written from it.
    since : dict, optional
        From a date column to one or two others, as ``column`` of the same row, or ``table.column`` of an ancestor or of a
        table with the same parent, whose last row counts. The date is modelled as days since the first. Synthetic dates are
        not before it, nor after the second; real dates are moved to lie so.
    before : dict, optional
        Of the root: from a column of years to dates of its children, ``table.column``, that synthetic years are not after.
    repeats : str, optional
        A column of whole numbers that are codes, of which rows of one root repeat earlier ones: they are modelled as such.
    events : dict, optional
        Of a child of the root: from a categorical column to values, such as the kind of a visit to those of stays in
        hospital. What a row of the root has by its first such row, and what follows on it, is counted by rows of the root.
    """

    key: str | tuple[str, ...] | None = None
    parent: str | None = None
    parent_key: str | tuple[str, ...] | None = None
    order: str | None = None
    increasing: tuple[str, ...] | None = None
    gaps: tuple[str, ...] | None = None
    max_children: int | None = None
    orphans: str = REFUSE
    inherited: tuple[str, ...] | None = None
    since: Mapping[str, Sequence[str]] | None = None
    before: Mapping[str, Sequence[str]] | None = None
    repeats: str | None = None
    events: Mapping[str, Sequence[str | int]] | None = None

    def __post_init__(self) -> None:
        """Check the values of the fields."""
        make_fields_native(self)
        for name in ("since", "before"):
            value = getattr(self, name)
            if value is None:
                continue
            lists = [*value.values()] if isinstance(value, Mapping) else [None]
            if not all(
                isinstance(r, list | tuple)
                and all(isinstance(t, str) for t in r)
                and 0 < len(r) <= 2
                for r in lists
            ):
                raise InputError(
                    f"Expected {name} of keys to be a dict from columns to one or two others, got {quote(value)}."
                )
            object.__setattr__(self, name, {str(c): tuple(r) for c, r in value.items()})
        if self.events is not None:
            listed = [*self.events.values()] if isinstance(self.events, Mapping) else []
            if len(listed) != 1 or not isinstance(listed[0], list | tuple) or not listed[0]:
                raise InputError(
                    f"Expected events of keys to be a dict from one column to a list of its values, got {quote(self.events)}."
                )
            events = {str(column): tuple(values) for column, values in self.events.items()}
            object.__setattr__(self, "events", events)
        for name in ("key", "parent", "parent_key", "order", "repeats"):
            value = getattr(self, name)
            parts = list(value) if isinstance(value, list | tuple) and "key" in name else [value]
            for part in parts if value is not None else ():
                if not isinstance(part, str) or not part:
                    raise InputError(f"Expected {name} of keys to be text, got {quote(value)}.")
                check_text(name, part)
            if len(set(parts)) != len(parts) or not parts:
                raise InputError(
                    f"Expected {name} of keys to be different columns, got {quote(value)}."
                )
            object.__setattr__(self, name, tuple(parts) if len(parts) > 1 else parts[0])
        one_of("orphans", self.orphans, (REFUSE, DROP))
        for name in ("increasing", "gaps", "inherited"):
            names = getattr(self, name)
            if names is None:
                continue
            if not isinstance(names, list | tuple) or not all(isinstance(n, str) for n in names):
                raise InputError(
                    f"Expected {name} of keys to be a list of columns, got {quote(names)}."
                )
            object.__setattr__(self, name, tuple(names))
        needed = ("parent_key", "max_children")
        if self.parent is None:
            own = ("order", "increasing", "gaps", "orphans", "inherited", "since", "repeats")
            for name in (*needed, *own, "events"):
                if getattr(self, name) not in (None, REFUSE):
                    raise InputError(
                        f"Keys with {name} need the parent; name it, or leave {name} out."
                    )
        else:
            for name in needed:
                if getattr(self, name) is None:
                    raise InputError(
                        f"Keys with parent={quote(self.parent)} need {name}; declare it from public knowledge."
                    )
            integer("max_children", self.max_children)
            if not 1 <= int(self.max_children or 0) <= MOST_CHILDREN:
                raise InputError(
                    f"Expected max_children from 1 to {MOST_CHILDREN:,}, got {self.max_children}."
                )
            if self.key is not None and {*self.key_columns} <= {*self.parent_columns}:
                raise InputError(
                    f"Column {quote(joined(self.key))} is key and parent_key of one table; each parent would have one row: name"
                    " another key, or join the tables."
                )

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the key and of the parent's key, as far as the table has them."""
        return tuple(dict.fromkeys((*self.key_columns, *self.parent_columns)))

    @property
    def key_columns(self) -> tuple[str, ...]:
        """The columns of the key."""
        return columns_of_key(self.key)

    @property
    def parent_columns(self) -> tuple[str, ...]:
        """The columns of the parent's key."""
        return columns_of_key(self.parent_key)

    @property
    def plain(self) -> "TableKeys":
        """The keys with one column in place of several, as :func:`tabsynth.encoding.keys.plain_tables` makes it."""
        key, parent_key = joined(self.key), joined(self.parent_key)
        return replace(self, key=key, parent_key=parent_key, orphans=REFUSE)

    def to_dict(self) -> JsonObject:
        """Return a JSON-ready mapping, without what is not declared."""
        return {
            name: list(value)
            if isinstance(value, tuple)
            else {c: list(r) for c, r in value.items()}
            if isinstance(value, dict)
            else value
            for name, value in asdict(self).items()
            if value is not None and (name, value) != ("orphans", REFUSE)
        }

    @classmethod
    def from_dict(cls, data: object, where: str) -> "TableKeys":
        """Return what a dict from :meth:`to_dict` describes."""
        if isinstance(data, cls):
            return data
        allowed = [field.name for field in fields(cls)]
        if not isinstance(data, Mapping) or set(data) - set(allowed):
            raise InputError(
                f"Expected the keys of {where} to be TableKeys or a dict with some of {', '.join(allowed)}, got"
                f" {quote(data)}."
            )
        try:
            return cls(**data)
        except InputError as error:
            raise InputError(f"Table {where}: {error}") from None


def columns_of_key(key: str | tuple[str, ...] | None) -> tuple[str, ...]:
    """Return the columns of a key."""
    return () if key is None else key if isinstance(key, tuple) else (key,)


def joined(key: str | tuple[str, ...] | None) -> str | None:
    """Return the name of the column that stands for those of a key; of one column its own."""
    return None if key is None else ", ".join(columns_of_key(key))


class LinkedSchema(Shown):
    """The schemas of linked tables, and their keys.

    Parameters
    ----------
    tables : mapping of str to Schema, dict or path
        By the name of each table. Its columns are those that are learned: keys are not among them.
    keys : mapping of str to TableKeys or dict
        Of each table.

    Attributes
    ----------
    tables : dict of str to Schema
        Parents come before their children.
    keys : dict of str to TableKeys
    root : str
        The table whose rows, each with its records in the other tables, are the privacy unit.

    Raises
    ------
    InputError
        If there is no root or more than one, a cycle of tables, an unknown parent, a missing key, or a key among the
        columns that are learned.

    Examples
    --------
    >>> from tabsynth import LinkedSchema, Numeric, Ordinal, Schema
    >>> homes = Schema([Ordinal(name="rooms", dtype="int64", categories=(1, 2, 3))])
    >>> people = Schema([Numeric(name="age", dtype="int64", low=0, high=99)])
    >>> linked = LinkedSchema(
    ...     {"homes": homes, "people": people},
    ...     keys={
    ...         "homes": {"key": "home"},
    ...         "people": {"parent": "homes", "parent_key": "home", "max_children": 8},
    ...     },
    ... )
    >>> linked.root, linked.children("homes")
    ('homes', ('people',))
    """

    def __init__(self, tables: "Mapping[str, SchemaLike]", keys: JsonMapping) -> None:
        if not isinstance(tables, Mapping) or not 2 <= len(tables) <= MOST_TABLES:
            raise InputError(
                f"Expected tables to be a dict of 2 to {MOST_TABLES} schemas, got {quote(tables)}."
            )
        if not isinstance(keys, Mapping):
            raise InputError(f"Expected keys to be a dict by table, got {quote(keys)}.")
        schemas: dict[str, Schema] = {}
        for name in tables:
            if not isinstance(name, str) or not TABLE_NAME.fullmatch(name):
                raise InputError(
                    f"A table is called {quote(name)}; use up to 64 letters, digits, blanks, '-' and '_', for it names a"
                    " file."
                )
            try:
                schemas[name] = read_table_schema(tables[name])
            except TabsynthError as error:
                raise type(error)(f"Table {quote(name)}: {error}") from None
        if len({name.lower() for name in tables}) < len(tables):
            raise InputError("Two tables have names that differ in case only; rename one of them.")
        for name in (*keys, *tables):
            if name not in tables or name not in keys:
                lacks = "schema" if name not in tables else "keys"
                raise InputError(
                    f"Table {quote(name)} has no {lacks}; declare both for each table."
                )
        self.keys = {name: TableKeys.from_dict(keys[name], name) for name in tables}
        self.root = self._find_root()
        order = [self.root]
        for name in order:
            order += [child for child in tables if self.keys[child].parent == name]
        self._check_tree(order)
        self.tables = {name: schemas[name] for name in order}
        self.keys = {name: self.keys[name] for name in order}
        for name in order:
            self._check_table(name)
            self._check_derived(name)

    def _find_root(self) -> str:
        for name, keys in self.keys.items():
            if keys.parent is not None and keys.parent not in self.keys:
                raise InputError(
                    f"Table {quote(name)} has parent {quote(keys.parent)}, which is no table; the tables are"
                    f" {', '.join(self.keys)}."
                )
        roots = [name for name, keys in self.keys.items() if keys.parent is None]
        if not roots:
            raise InputError(
                f"The tables {', '.join(self.keys)} form a cycle: each has a parent; exactly one table, the root, has none."
            )
        if len(roots) > 1:
            raise InputError(
                f"Tables {', '.join(roots)} have no parent; exactly one table, the root, has none."
            )
        return roots[0]

    def _check_tree(self, order: list[str]) -> None:
        apart = [name for name in self.keys if name not in order]
        if apart:
            raise InputError(
                f"The tables {', '.join(apart)} form a cycle that does not lead to {self.root}; each table needs a chain of"
                " parents to the root."
            )
        for name in order:
            rows = 1
            for table in self.lineage(name):
                rows *= self.keys[table].max_children or 1
            if rows > MOST_ROWS:
                raise InputError(
                    f"Up to {rows:,} rows of table {quote(name)} may belong to one row of {quote(self.root)}; at most"
                    f" {MOST_ROWS:,} are supported: lower max_children."
                )

    def _check_table(self, name: str) -> None:
        schema, keys = self.tables[name], self.keys[name]
        where = f"Table {quote(name)}"
        if self.children(name) and keys.key is None:
            raise InputError(
                f"{where} has children and no key; name the column that they refer to."
            )
        if keys.parent is not None:
            above = self.keys[keys.parent].key
            if above and len(columns_of_key(above)) != len(keys.parent_columns):
                raise InputError(
                    f"{where}: parent_key {quote(joined(keys.parent_key))} has not as many columns as the key"
                    f" {quote(joined(above))} of table {quote(keys.parent)}; name one for each."
                )
        for column in (*keys.columns, *keys.plain.columns):
            if column in schema.names:
                raise InputError(
                    f"{where}: column {quote(column)} is a key and among the columns that are learned; take it out of the"
                    " schema."
                )
        if keys.order in schema.names:
            learned = [c for c in schema.learned.columns if c.name == keys.order]
            if not learned or not learned[0].ordered or learned[0].nulls:
                raise InputError(
                    f"{where}: order names column {quote(keys.order)}, which is not a learned column with an order and"
                    " without nulls; name another, or leave order out."
                )
        for column in keys.increasing or ():
            self._check_increasing(column, schema, keys, where)
        for column in keys.gaps or ():
            self._check_gaps(column, schema, keys, where)
        if schema.violations == "drop":
            raise InputError(
                f"{where}: violations='drop' would leave out rows that others refer to; declare 'refuse' or 'repair'."
            )
        releases = [(of.released or {}).get("release") for of in (schema, self.tables[self.root])]
        if schema.released is not None and (releases[0] is None or releases[0] != releases[1]):
            raise InputError(
                f"{where} has a schema that was drafted privately by itself, whose cost linked fits do not count; declare its"
                " columns."
            )
        if schema.unit is not None:
            raise InputError(
                f"{where} declares a unit, which linked tables do not take; their unit is the row of {quote(self.root)} with"
                " its records in the other tables."
            )
        if schema.weight is not None and name != self.root:
            raise InputError(
                f"{where} declares weight {quote(schema.weight)}, which only the root may; declare the weight of table"
                f" {quote(self.root)}, which is that of their records in the other tables."
            )
        if schema.weight in (*keys.columns, keys.order) and schema.weight is not None:
            raise InputError(
                f"{where}: column {quote(schema.weight)} is the weight and among the keys; name another."
            )

    def _check_increasing(self, name: str, schema: Schema, keys: TableKeys, where: str) -> None:
        learned = [c for c in schema.learned.columns if c.name == name]
        if name == keys.order or not learned or not learned[0].ordered or learned[0].nulls:
            raise InputError(
                f"{where}: increasing names column {quote(name)}, which is not a learned column with an order and without"
                " nulls beside the column of the order; name another, or leave it out."
            )
        _refuse_rules(name, schema, f"{where}: column {quote(name)} is increasing and in")

    def _check_gaps(self, name: str, schema: Schema, keys: TableKeys, where: str) -> None:
        if name not in (keys.order, *(keys.increasing or ())) or name not in schema.names:
            raise InputError(
                f"{where}: gaps names column {quote(name)}, which is neither the column of the order nor increasing;"
                " declare it so, or leave it out."
            )
        column = schema[name]
        if not isinstance(column, Numeric | Temporal) or column.detail is not None:
            raise InputError(
                f"{where}: gaps names column {quote(name)} of kind {column.kind}, which is not one of numbers, dates or times"
                " alone; leave it out."
            )
        _refuse_reasons(column, f"{where}: gaps names column {quote(name)}")
        _refuse_rules(name, schema, f"{where}: column {quote(name)} has gaps and is in")

    def _check_derived(self, name: str) -> None:
        """Refuse derived columns whose columns or references are not there."""
        schema, keys, where = self.tables[name], self.keys[name], f"Table {quote(name)}"
        for column in keys.inherited or ():
            if column not in [self.keys[t].key for t in self.lineage(name)[:-2]]:
                raise InputError(
                    f"{where}: inherited names column {quote(column)}, which is no key of a table above it; leave it out."
                )
        for fact in ("since", "before"):
            for column, references in (getattr(keys, fact) or {}).items():
                for reference in (column, *references):
                    table, dot, of = reference.rpartition(".")
                    of_table = self.tables.get(table if dot else name)
                    kind = None if of_table is None or of not in of_table.names else of_table[of]
                    if not isinstance(kind, Date) and not (
                        fact == "before" and reference == column
                    ):
                        raise InputError(
                            f"{where}: {fact} names column {quote(reference)}, which is no date of these tables; correct it."
                        )
                    if isinstance(kind, Date):
                        _refuse_reasons(kind, f"{where}: {fact} names column {quote(reference)}")
        if keys.repeats is not None:
            listed = keys.repeats in schema.names and schema[keys.repeats]
            if not listed or listed.nulls or listed.value_type != "int":
                raise InputError(
                    f"{where}: repeats names column {quote(keys.repeats)}, which is not one of whole numbers without nulls."
                )

        for column, values in (keys.events or {}).items():
            if keys.parent != self.root:
                raise InputError(
                    f"{where}: events are of a child of {quote(self.root)}; leave them out here."
                )
            declared: Any = schema[column] if column in schema.names else None
            known = getattr(declared, "codes", ()) or getattr(declared, "categories", ())
            for value in values:
                if value not in known:
                    raise InputError(
                        f"{where}: events names {column}={quote(value)}, which is no value of a categorical column; correct it."
                    )

    @property
    def released(self) -> JsonMapping | None:
        """The charges of a private release of concepts, and its results; as of :class:`tabsynth.Schema`."""
        return self.tables[self.root].released

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the tables; parents come before their children."""
        return tuple(self.tables)

    def _repr_lines(self) -> list[str]:
        rows = [("table", "columns", "parent", "most rows of one parent")]
        for name, schema in self.tables.items():
            keys, columns = self.keys[name], str(len(schema.columns))
            rows.append((name, columns, keys.parent or "–", str(keys.max_children or "–")))
        return [f"LinkedSchema of {len(self.tables)} tables", *text_table(rows, (30, 7, 30, 24))]

    def children(self, name: str) -> tuple[str, ...]:
        """Return the tables whose rows belong to rows of a table."""
        return tuple(child for child, keys in self.keys.items() if keys.parent == name)

    def lineage(self, name: str) -> tuple[str, ...]:
        """Return the tables from the root down to a table, both included."""
        line = [name]
        while (parent := self.keys[line[0]].parent) is not None:
            line.insert(0, parent)
        return tuple(line)

    @property
    def drafted(self) -> tuple[str, ...]:
        """Columns, as ``table.column``, whose facts were read off a table rather than declared."""
        return tuple(f"{name}.{c}" for name, schema in self.tables.items() for c in schema.drafted)

    @property
    def unchanged_facts(self) -> dict[str, list[str]]:
        """The facts of :attr:`tabsynth.Schema.unchanged_facts`, by ``table.column``."""
        return {
            f"{name}.{column}": facts
            for name, schema in self.tables.items()
            for column, facts in schema.unchanged_facts.items()
        }

    @property
    def unit(self) -> str:
        """The column whose values are the units of privacy: the key of the root."""
        return str(joined(self.keys[self.root].key))

    @cached_property
    def plain(self) -> "LinkedSchema":
        """The schema with :attr:`TableKeys.plain` keys; the schema itself where none has several columns."""
        if not any(isinstance(keys.key, tuple) for keys in self.keys.values()):
            return self
        return LinkedSchema(self.tables, {name: keys.plain for name, keys in self.keys.items()})

    @property
    def design(self) -> Design:
        """The design of the rows of the root: each is a unit, and may have a weight."""
        weights = {**self.tables[self.root].design.parameters(), "unit": self.unit}
        return Design(**{**weights, "max_rows_per_unit": 1})

    @property
    def contributions(self) -> Any:
        """The part of one unit that is used, which a certificate states for all its charges: its weight, and rows of each table."""
        rows = {name: (keys.parent, keys.max_children) for name, keys in self.keys.items()}
        return self.design, rows

    def to_dict(self) -> JsonObject:
        """Return a JSON-ready mapping."""
        return {
            "format": FORMAT,
            "tables": {
                name: {"keys": self.keys[name].to_dict(), "schema": schema.to_dict()}
                for name, schema in self.tables.items()
            },
        }

    @classmethod
    def from_dict(cls, data: object, where: str = "linked schema") -> "LinkedSchema":
        """Return what a dict from :meth:`to_dict` describes; refuse what it does not know.

        Raises
        ------
        FileFormatError, InputError
        """
        if not isinstance(data, dict) or data.get("format") != FORMAT:
            form = data.get("format") if isinstance(data, dict) else type(data).__name__
            raise FileFormatError(f"{where}: expected format {FORMAT!r}, got {quote(form)}.")
        tables = data.get("tables")
        if set(data) - {"format", "tables"} or not isinstance(tables, dict):
            raise FileFormatError(f"{where}: expected 'tables', a dict by table, and nothing else.")
        schemas, keys = {}, {}
        for name, item in tables.items():
            if not isinstance(item, dict) or set(item) != {"keys", "schema"}:
                raise FileFormatError(
                    f"{where}: expected table {quote(name)} to have 'keys' and 'schema', and nothing else."
                )
            schemas[name] = Schema.from_dict(item["schema"], f"{where}, table {quote(name)}")
            keys[name] = item["keys"]
        try:
            return cls(schemas, keys)
        except TabsynthError as error:
            raise type(error)(f"{where}: {error}") from None

    @classmethod
    def load(cls, path: str | Path) -> "LinkedSchema":
        """Read a linked schema from a JSON file."""
        text = read_json_text(path, "linked schema")
        return cls.from_dict(parse_json(text, path, "linked schema"), str(path))

    def to_json(self) -> str:
        """Return the text of the file: one table after the other, each schema as a schema file has it."""
        parts = []
        for name, schema in self.tables.items():
            text = schema.to_json().rstrip().replace("\n", "\n      ")
            keys = json.dumps(self.keys[name].to_dict())
            parts.append(
                f'    {json.dumps(name)}: {{\n      "keys": {keys},\n      "schema": {text}\n    }}'
            )
        tables = ",\n".join(parts)
        return f'{{\n  "format": "{FORMAT}",\n  "tables": {{\n{tables}\n  }}\n}}\n'

    def save(self, path: str | Path, *, overwrite: bool = False) -> None:
        """Write the schemas as JSON, whole or not at all; only its owner may read exact facts of private rows.

        A file that is there already is replaced with ``overwrite`` only.
        """
        confidential = any(schema.confidential for schema in self.tables.values())
        write_text(path, self.to_json(), overwrite=overwrite, confidential=confidential)

    @cached_property
    def _fingerprint(self) -> str:
        facts = {
            name: [self.keys[name].to_dict(), schema.fingerprint()]
            for name, schema in self.tables.items()
        }
        text = json.dumps(facts, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()

    def fingerprint(self) -> str:
        """Return the SHA-256 of keys and of the fingerprints of the schemas, hexadecimal."""
        return self._fingerprint


SchemaLike: TypeAlias = Schema | JsonMapping | str | Path
AnySchemaLike: TypeAlias = SchemaLike | LinkedSchema


def read_schema(schema: AnySchemaLike) -> Schema | LinkedSchema:
    """Return a schema that is given as such, as a dict or as the path of its file, of one table or of linked tables.

    Raises
    ------
    FileFormatError, InputError
    """
    if isinstance(schema, Schema | LinkedSchema):
        return schema
    if isinstance(schema, Mapping):
        facts, where, text = dict(schema), "schema", None
    elif isinstance(schema, str | Path):
        text, where = read_json_text(schema, "schema"), str(schema)
        facts = parse_json(text, schema, "schema")
    else:
        raise InputError(f"Expected schema to be a Schema, a dict or a path, got {quote(schema)}.")
    if isinstance(facts, dict) and facts.get("format") == FORMAT:
        return LinkedSchema.from_dict(facts, where)
    return Schema.from_dict(facts, where, text)


def _refuse_reasons(column: Column, problem: str) -> None:
    """Raise InputError if a column has reasons for missing values, of which a difference is not defined; ``problem`` names it."""
    if column.missing:
        raise InputError(
            f"{problem}, which has reasons for missing values; leave it out, or declare the column without them."
        )


def _refuse_rules(name: str, schema: Schema, problem: str) -> None:
    """Raise InputError if a column is in a rule of its table; ``problem`` says where and what it is besides."""
    for rule in schema.rules:
        if name in rule.names:
            raise InputError(
                f"{problem} the rule {quote(rule.text)}, which may not hold then; leave out one of them."
            )


def read_table_schema(schema: AnySchemaLike) -> Schema:
    """Return the schema of one table as :func:`read_schema` does; refuse one of linked tables."""
    of_table = read_schema(schema)
    if not isinstance(of_table, Schema):
        raise InputError("Expected schema to be of one table, got one of linked tables.")
    return of_table
