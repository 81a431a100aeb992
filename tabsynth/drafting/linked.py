"""Linked schemas that are drafted from a set of tables: keys by the names of columns, and a draft of each table.

A table ``visits`` has the key ``visit_id``, or ``visits_id``, or ``id``. Another table with a column of that name, or of
``visit_id`` where the key is ``id``, refers to it. The parent of a table is the one it refers to that lies below all others it
refers to. All of that follows from the names of tables and columns alone, which are public.
"""

import math
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pandas as pd

from tabsynth._typing import JsonObject
from tabsynth._validate import in_range, positive, quote
from tabsynth.design import Design
from tabsynth.drafting.drafts import MIN_COUNT, draft_schema
from tabsynth.drafting.private_schema import draft_on_ledger, open_ledger
from tabsynth.encoding.linked import LinkedEncoder
from tabsynth.errors import InputError, TabsynthError
from tabsynth.privacy.accounting.accountants import GAUSSIAN_FILTER, gaussian_mu
from tabsynth.privacy.accounting.mechanisms import THRESHOLD_SHARE
from tabsynth.privacy.ledger.ledger import new_name
from tabsynth.privacy.ledger.project import ProjectLedger
from tabsynth.schema.categorical import Ordinal
from tabsynth.schema.linked import LinkedSchema, TableKeys
from tabsynth.schema.schema import DEFAULT_NULL_VALUES, Schema
from tabsynth.tables.frames import to_pandas

USUAL_CHILDREN = 20  # of one row, where nobody says how many are used
Frames = dict[str, pd.DataFrame]


def draft_linked(
    tables: Mapping[str, Any],
    epsilon: float | None = None,
    delta: float = 1e-5,
    *,
    keys: Mapping[str, str] | None = None,
    parents: Mapping[str, str] | None = None,
    max_children: Mapping[str, int] | None = None,
    min_count: int = MIN_COUNT,
    null_values: Sequence[str] = DEFAULT_NULL_VALUES,
    ledger: str | Path | None = None,
    random_state: int | None = None,
) -> LinkedSchema:
    """Return a linked schema that is drafted from a set of tables, for review or with differential privacy.

    Parameters
    ----------
    tables : dict of str to DataFrame
    epsilon, delta : float
        The budget of a private draft, for adding or removing a row of the root with its records: as of :func:`draft_private`,
        of which each table has an equal part. None: a draft for review, as of :func:`draft_schema`.
    keys, parents : dict of str to str, optional
        By table its key and its parent, where the names of columns do not say so.
    max_children : dict of str to int, optional
        By table, the most rows of one parent that are used, from public knowledge. Default: 20 of each table.
    min_count, null_values, ledger, random_state
        As of :func:`draft_schema` and :func:`draft_private`.

    Raises
    ------
    InputError
        If the names of columns do not say which table is the parent of which, and for unsound keys and values that cannot
        be used. Nothing is charged.
    BudgetError
    """
    frames = {str(name): to_pandas(table, f"table {name}") for name, table in tables.items()}
    frames = {n: f.set_axis([str(c) for c in f.columns], axis=1) for n, f in frames.items()}
    of_tables = linked_keys(
        {n: list(f.columns) for n, f in frames.items()}, keys, parents, max_children
    )
    place = LinkedSchema(
        dict.fromkeys(frames, Schema([Ordinal(name="\0", dtype="str", categories=("0",))])),
        of_tables,
    )
    aside = {name: {*of.columns, *(of.inherited or ())} for name, of in place.keys.items()}
    values = {n: f.drop(columns=[c for c in f.columns if c in aside[n]]) for n, f in frames.items()}
    if epsilon is None:
        schemas = {
            n: _named(n, draft_schema, values[n], null_values, min_count) for n in place.names
        }
        return LinkedSchema(schemas, place.keys)
    positive("epsilon", epsilon, finite=False)
    in_range("delta", delta, 0, 1, low_open=True, high_open=True)
    _, texts = LinkedEncoder(place).checked_frames(frames)
    units = _units(place, texts)
    mu = math.inf if math.isinf(epsilon) else gaussian_mu(epsilon, delta * (1 - THRESHOLD_SHARE))
    schemas = {}
    with nullcontext() if ledger is None else ProjectLedger(ledger) as project:
        seeded = None if random_state is None else "A seeded draft"
        charges = open_ledger(project, epsilon, delta, place.unit, seeded)
        if project is not None:
            project.admit_draft(charges, mu, GAUSSIAN_FILTER)
        for number, name in enumerate(place.names):
            charges.drafts = len(place.names) - number
            design = Design(unit=place.unit, max_rows_per_unit=_most_rows(place, name))
            table = values[name].assign(**{place.unit: units[name]})
            part = mu / math.sqrt(len(place.names))
            options = (part, charges, null_values, random_state, GAUSSIAN_FILTER)
            schemas[name] = _named(name, draft_on_ledger, table, *options, design=design)
        facts: JsonObject = {"mechanisms": charges.to_list()}
    root: JsonObject = dict(schemas[place.root].released or {})
    facts["release"] = root.get("release") or new_name()
    facts |= {fact: root[fact] for fact in ("project", "run") if fact in root}
    for name, schema in schemas.items():
        own = {
            f: v
            for f, v in (schema.released or {}).items()
            if f in ("seeded", "public", "facts", "notes", "hidden")
        }
        schemas[name] = schema.replace(unit=None, max_rows_per_unit=None, released=own | facts)
    return LinkedSchema(schemas, place.keys)


def _named(name: str, draft: Any, *values: Any, **options: Any) -> Schema:
    """Return the draft of one table; errors name the table."""
    try:
        schema: Schema = draft(*values, **options)
    except TabsynthError as error:
        raise type(error)(f"Table {quote(name)}: {error}") from None
    return schema


def _most_rows(schema: LinkedSchema, name: str) -> int:
    """Return the most rows of a table that belong to one row of the root."""
    return math.prod(schema.keys[table].max_children or 1 for table in schema.lineage(name))


def _units(schema: LinkedSchema, texts: Mapping[str, Mapping[str, Any]]) -> dict[str, pd.Series]:
    """Return the key of the root's row for each row of each table."""
    out: dict[str, pd.Series] = {}
    for name, keys in schema.keys.items():
        if keys.parent is None:
            out[name] = pd.Series(texts[name][str(keys.key)], dtype=object)
            continue
        above = texts[keys.parent][str(schema.keys[keys.parent].key)]
        of_parent = pd.Series(out[keys.parent].to_numpy(), index=above)
        out[name] = of_parent.reindex(texts[name][str(keys.parent_key)]).reset_index(drop=True)
    return out


def linked_keys(
    columns: Mapping[str, Sequence[str]],
    keys: Mapping[str, str] | None = None,
    parents: Mapping[str, str] | None = None,
    max_children: Mapping[str, int] | None = None,
) -> dict[str, TableKeys]:
    """Return the keys of each table, by the names of tables and columns and what is declared.

    Raises
    ------
    InputError
        If a table that is declared is none, and where names leave the parent of a table open: of all such tables together.
    """
    for what, declared in (("keys", keys), ("parents", parents), ("max_children", max_children)):
        for name in declared or {}:
            if name not in columns:
                raise InputError(
                    f"{what} names table {quote(name)}; the tables are {', '.join(columns)}."
                )
    key, named = dict[str, str](), dict[str, set[str]]()
    for name, of in columns.items():
        declared_key = (keys or {}).get(name)
        if declared_key is not None and declared_key not in of:
            raise InputError(
                f"Table {quote(name)} has no column {quote(declared_key)}; name its key."
            )
        usual = [f"{one}_id".lower() for one in dict.fromkeys((name, *_singular(name)))]
        found = declared_key or next((c for c in of if c.lower() in (*usual, "id")), None)
        if found is not None:
            key[name] = found
            named[name] = {found.lower()} if found.lower() != "id" else set(usual)
    refers = {
        name: {
            other: next(c for c in of if c.lower() in named[other] and c != key.get(name))
            for other in key
            if other != name and any(c.lower() in named[other] and c != key.get(name) for c in of)
        }
        for name, of in columns.items()
    }
    ancestors = {name: _reached(name, refers) for name in columns}
    out, open_tables = {}, []
    for name, above in refers.items():
        lowest = [other for other in above if {*above} <= {other, *ancestors[other]}]
        parent = (parents or {}).get(name) or (lowest[0] if len(lowest) == 1 else None)
        if parent is not None and parent not in above:
            raise InputError(
                f"Table {quote(name)} has no column with the key of {quote(parent)}; name the key of {quote(parent)}."
            )
        if parent is None and above:
            open_tables.append(f"{quote(name)} refers to {', '.join(above)}")
        facts: JsonObject = {"key": key.get(name)}
        if parent is not None:
            most = (max_children or {}).get(name, USUAL_CHILDREN)
            facts |= {"parent": parent, "parent_key": above[parent], "max_children": most}
            further = [c for other, c in above.items() if other != parent and c == key[other]]
            facts["inherited"] = [
                c for c in further if c not in (key.get(name), above[parent])
            ] or None
        out[name] = facts
    roots = [name for name, facts in out.items() if "parent" not in facts]
    if open_tables:
        raise InputError(
            f"Tables have no clear parent: {'; '.join(open_tables)}. Name the parent of each, and the keys of the others."
        )
    if len(roots) != 1:
        which = (
            f"tables {', '.join(roots)} refer to no other" if roots else "all refer to each other"
        )
        raise InputError(
            f"Expected one table that refers to no other, the root; {which} by the names of their columns. Name keys and"
            " parents."
        )
    return {name: TableKeys(**facts) for name, facts in out.items()}


def _singular(name: str) -> list[str]:
    """Return what one row of a table with a plural name may be called."""
    endings = (("ies", "y"), ("ses", "s"), ("xes", "x"), ("s", ""))
    return [name[: -len(old)] + new for old, new in endings if name.lower().endswith(old)]


def _reached(name: str, refers: Mapping[str, Mapping[str, str]]) -> set[str]:
    """Return the tables that one refers to, and those that they refer to, and so on."""
    out, new = set[str](), {*refers[name]}
    while new:
        out |= new
        new = {other for of in new for other in refers[of]} - out
    return out
