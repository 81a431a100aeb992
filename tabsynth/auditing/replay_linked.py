"""Record and replay of a fit of linked tables, with neighbours that differ by a whole root row."""

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.base import clone

from tabsynth._typing import JsonObject
from tabsynth.auditing.linked_datasets import SCHEMA, make_tables
from tabsynth.auditing.replay import (
    SAMPLED,
    NeighbourReplay,
    Note,
    ReplayResult,
    find_misprint,
    fit_with_files,
    replay_run,
    visible_outputs,
)
from tabsynth.encoding.linked import LinkedEncoder
from tabsynth.schema.linked import LinkedSchema
from tabsynth.synthesizers.linked.estimator import LinkedMargNet
from tabsynth.training.loop import Progress

REMOVED, ALONE, FULL, BEYOND = "removed", "alone", "full", "beyond"
EXCESS = 3  # children of a new root row beyond the bound
Tables = Mapping[str, pd.DataFrame]


@dataclass(frozen=True, kw_only=True)
class LinkedNeighbour:
    """Linked tables, and the same with or without one root row and its records in the other tables.

    Attributes
    ----------
    kind : {"removed", "alone", "full", "beyond"}
        A root row of the tables is removed; or one is added without children, with as many children at every level as are
        used, or with more.
    tables, neighbour : mapping of str to DataFrame
    """

    kind: str
    tables: Tables
    neighbour: Tables


def linked_neighbours(tables: Tables, schema: LinkedSchema, seed: int = 0) -> list[LinkedNeighbour]:
    """Return neighbours of every kind; new rows have random codes."""
    rng = np.random.default_rng(seed)
    key = str(schema.keys[schema.root].key)
    gone = tables[schema.root][key].iloc[int(rng.integers(len(tables[schema.root])))]
    out = [LinkedNeighbour(kind=REMOVED, tables=tables, neighbour=_without(tables, schema, gone))]
    for kind, excess in ((ALONE, None), (FULL, 0), (BEYOND, EXCESS)):
        added = _with_root(tables, schema, excess, rng)
        out.append(LinkedNeighbour(kind=kind, tables=tables, neighbour=added))
    return out


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


def replay_linked(
    model: LinkedMargNet, pair: LinkedNeighbour, *, seed: int = 0, interrupted: int | None = None
) -> ReplayResult:
    """Fit a clone of a model of linked tables, and replay the fit on neighbouring tables.

    Parameters
    ----------
    model : LinkedMargNet
        With finite epsilon and no time limit.
    pair : LinkedNeighbour
    seed : int
        Replaces the model's ``random_state``.
    interrupted : int, optional
        Interrupt the fit after so many reports of progress, and resume it from its checkpoint.
    """
    certificates: list[JsonObject] = []

    def fit(tables: object, note: Note) -> None:
        def inspect(fitted: LinkedMargNet) -> None:
            for what, value in visible_outputs(fitted, SAMPLED):
                note(what, value)
            certificates.append(fitted.certificate())

        def fresh() -> LinkedMargNet:
            return clone(model).set_params(random_state=seed)

        fit_with_files(fresh, tables, place, note, interrupted=interrupted, inspect=inspect)

    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "fit"
        result = replay_run(fit, pair.tables, pair.neighbour)
    if not result.passes:
        return result
    return replace(result, first_difference=find_misprint(certificates[-1], result.mechanisms, 1.0))


def replay_linked_neighbours(
    name: str, model: LinkedMargNet, seed: int, *, progress: Progress | None = None
) -> list[NeighbourReplay]:
    """Replay a model on every kind of neighbour of made-up linked tables.

    Parameters
    ----------
    name : str
        Under which the results list the model.
    model : LinkedMargNet
        For tables of ``SCHEMA``, unfitted.
    seed : int
        Of the tables, the neighbours and the fit.
    """
    pairs, replays = linked_neighbours(make_tables(seed), SCHEMA, seed), []
    for pair in pairs:
        result = replay_linked(model, pair, seed=seed)
        change = "removed" if pair.kind == REMOVED else "added"
        kind = f"root row {pair.kind}"
        line = NeighbourReplay(method=name, kind=kind, change=change, seed=seed, result=result)
        replays.append(line)
        if progress is not None:
            progress("replay", len(replays), len(pairs))
    return replays
