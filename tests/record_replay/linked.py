"""Neighbours of linked tables that differ by a whole root row."""

from collections.abc import Mapping

import numpy as np
import pandas as pd

from tabsynth.auditing.replay import Neighbour
from tabsynth.encoding.linked import LinkedEncoder
from tabsynth.schema.linked import LinkedSchema

EXCESS = 3  # children of a new root row beyond the bound
Tables = Mapping[str, pd.DataFrame]


def linked_neighbours(tables: Tables, schema: LinkedSchema, seed: int = 0) -> list[Neighbour]:
    """Return linked tables without a row of the root, and with one more; new rows have random codes.

    The new row of the root has no children, as many at every level as are used, or more.
    """
    rng = np.random.default_rng(seed)
    key = str(schema.keys[schema.root].key)
    gone = tables[schema.root][key].iloc[int(rng.integers(len(tables[schema.root])))]
    pairs = [("removed", "removed", _without(tables, schema, gone))]
    for kind, excess in (("alone", None), ("full", 0), ("beyond", EXCESS)):
        pairs.append((kind, "added", _with_root(tables, schema, excess, rng)))
    return [
        Neighbour(kind=f"root row {kind}", change=change, table=tables, neighbour=neighbour)
        for kind, change, neighbour in pairs
    ]


def _without(tables: Tables, schema: LinkedSchema, root: object) -> dict[str, pd.DataFrame]:
    gone = {schema.root: [root]}
    out = {}
    for name in schema.names:
        keys, table = schema.keys[name], tables[name]
        if keys.parent is None:
            lost = table[str(keys.key)].isin(gone[name])
        else:
            lost = table[str(keys.parent_key)].isin(gone[keys.parent])
        if keys.key is not None:
            gone[name] = list(table.loc[lost, keys.key])
        out[name] = table[~lost]
    return out


def _with_root(
    tables: Tables, schema: LinkedSchema, excess: int | None, rng: np.random.Generator
) -> dict[str, pd.DataFrame]:
    """Return the tables with one more root row; ``excess`` children beyond the bounds, or None for no children."""
    encoder, out = LinkedEncoder(schema), {}
    parents: dict[str, list[int]] = {}
    for name in schema.names:
        keys, coder = schema.keys[name], encoder.encoders[name]
        of = [None] if keys.parent is None else parents[keys.parent]
        each = 1 if keys.parent is None else 0 if excess is None else encoder.most(name) + excess
        rows = len(of) * each
        index = np.stack([rng.integers(0, c.size, rows) for c in coder.schema.columns], axis=1)
        records = coder.from_index(index, rng)
        if keys.key is not None:
            first = int(pd.to_numeric(tables[name][keys.key]).max()) + 1 if len(tables[name]) else 1
            records[keys.key] = parents[name] = list(range(first, first + rows))
        if keys.parent_key is not None:
            records[keys.parent_key] = np.repeat(np.array(of, dtype=np.int64), each)
        if keys.order is not None and keys.order not in records:
            records[keys.order] = rng.integers(0, 9, rows)
        design = schema.tables[name].design
        if design.weight is not None:  # of the root, above the cap
            records[design.weight] = 2.0 * float(design.max_weight or 0)
        at = int(rng.integers(len(tables[name]) + 1))  # anywhere among the others
        parts = [tables[name].iloc[:at], records, tables[name].iloc[at:]]
        out[name] = pd.concat(parts, ignore_index=True)[list(tables[name].columns)]
    return out
