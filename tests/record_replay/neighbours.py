"""Neighbouring datasets: a table with one record more or less, or one unit, of the kinds that reveal leaks."""

from collections.abc import Mapping

import numpy as np
import pandas as pd

from tabsynth.auditing.replay import Neighbour
from tabsynth.design import Design
from tabsynth.encoding import TableEncoder
from tabsynth.errors import InputError
from tabsynth.schema.schema import Schema
from tabsynth.tables.frames import to_pandas

from .edge_cases import edge_cases

ADDED, REMOVED = "added", "removed"
EXCESS = 2  # rows of the unit beyond its bound
WEIGHTS = (2.0, 1.0, 0.95)  # of a record, over the cap
KINDS = (
    "outlier",
    "undeclared",
    "lowest",
    "highest",
    "null",
    "unique",
    "minority",
    "copy",
    "extreme",
)


def neighbours(table: object, schema: Schema, *, seed: int = 0) -> list[Neighbour]:
    """Return every kind of neighbour that table and schema allow, each added and removed.

    * ``outlier``: every column's rarest value, numbers at alternating bounds;
    * ``undeclared``: beyond the bounds and outside the categories, where the schema takes such values in;
    * ``lowest``, ``highest``: all numbers and ordered categories at their least, or at their most;
    * ``null``: nulls wherever they may be;
    * ``unique``: a category that nobody else has (rows that have it are left out of both tables);
    * ``minority``: one more of the rarest class of the column whose rarest class is the rarest;
    * ``copy``: one more of a record that is there;
    * ``extreme``: whole numbers that floats cannot hold and a text of 5,000 characters, where the schema takes
      such values in.

    Under a schema with a unit, the record is there several times, more often than the bound allows, as the rows of a
    new unit, at random places. The names of new units are of several types, so that the column's dtype changes. A new
    record weighs more than the cap, as much or less, by its kind, but for ``copy``.

    Parameters
    ----------
    table : DataFrame
        Of two rows or more. Where it lacks the unit or the weight of the schema, these are drawn.
    seed : int
        Draws which record is changed, and where it stands.
    """
    frame = to_pandas(table)
    names = [n for n in (*schema.names, *schema.design.names) if n in frame]
    frame = with_design(frame[names].reset_index(drop=True), schema.design, seed)
    encoder, rng = TableEncoder(schema), np.random.default_rng(seed)
    index = encoder.to_index(frame)
    if len(frame) < 2:
        raise InputError("Neighbours need a table of two rows or more.")
    pairs = []
    for kind in KINDS:
        base_and_record = _record(kind, frame, index, encoder, rng)
        if base_and_record is None:
            continue
        base, record = base_and_record
        with_record = _with_record(kind, base, record, schema.design, rng)
        pairs.append(Neighbour(kind=kind, change=ADDED, table=base, neighbour=with_record))
        pairs.append(Neighbour(kind=kind, change=REMOVED, table=with_record, neighbour=base))
    return pairs


def with_design(frame: pd.DataFrame, design: Design, seed: int) -> pd.DataFrame:
    """Return the table with units and weights of rows drawn at random, where the design names some that it lacks."""
    rng = np.random.default_rng([seed, len(frame)])
    if design.unit is not None and design.unit not in frame:
        frame = frame.assign(**{design.unit: rng.integers(0, len(frame) // 2 + 1, len(frame))})
    if design.weight is not None and design.weight not in frame:
        weights = rng.uniform(0, 1.2 * float(design.max_weight or 0), len(frame))
        frame = frame.assign(**{design.weight: weights})
    return frame


def _with_record(
    kind: str,
    base: pd.DataFrame,
    record: pd.DataFrame,
    design: Design,
    rng: np.random.Generator,
) -> pd.DataFrame:
    """Return the table with the record, or with a unit of such records, at random places."""
    if design.weight is not None and kind != "copy":
        times = WEIGHTS[KINDS.index(kind) % len(WEIGHTS)]
        record = record.assign(**{design.weight: times * float(design.max_weight or 0)})
    if design.unit is not None:
        odd_units = {"undeclared": "a unit of its own", "null": 0.5, "extreme": 2**53 + 1}
        record = record.assign(**{design.unit: odd_units.get(kind, len(base) + 1_000)})
        record = pd.concat([record] * (design.rows + EXCESS), ignore_index=True)
    places = np.sort(rng.integers(0, len(base) + 1, len(record)))
    ends = [*places, len(base)]
    parts = [base[: places[0]]]
    for number, place in enumerate(places):
        parts += [record[number : number + 1], base[place : ends[number + 1]]]
    return pd.concat(parts, ignore_index=True)


def _record(
    kind: str,
    frame: pd.DataFrame,
    index: np.ndarray,
    encoder: TableEncoder,
    rng: np.random.Generator,
) -> tuple[pd.DataFrame, pd.DataFrame] | None:
    """Return the table without the record, and the record; None where the schema has no such."""
    schema = encoder.schema  # of the columns that the codes are of
    random_record = frame.iloc[[int(rng.integers(len(frame)))]].reset_index(drop=True)
    if kind == "copy":
        return frame, random_record
    if kind == "minority":
        j = _minority_column(schema, index)
        if j is None:
            return None
        counts = np.bincount(index[:, j], minlength=schema.sizes[j])
        rarest = np.flatnonzero(index[:, j] == np.where(counts, counts, counts.max() + 1).argmin())
        return frame, frame.iloc[[int(rng.choice(rarest))]].reset_index(drop=True)
    if kind == "unique":
        return _unique(frame, random_record, index, encoder)
    record = _edit_record(random_record, _edits(kind, schema, index, frame), encoder)
    return None if record is None else (frame, record)


def _edits(kind: str, schema: Schema, index: np.ndarray, frame: pd.DataFrame) -> dict[str, object]:
    """Return the cells of a record of that kind."""
    if kind == "null":
        return {c.name: None for c in schema.columns if c.nulls and c.name in frame}
    edits: dict[str, object] = {}
    for j, column in enumerate(schema.columns):
        counts = np.bincount(index[:, j], minlength=column.size)
        cases = edge_cases(column, counts, above=j % 2 == 0)
        if kind in cases and column.name in frame:
            edits[column.name] = cases[kind]
    return edits


def _unique(
    frame: pd.DataFrame, random_record: pd.DataFrame, index: np.ndarray, encoder: TableEncoder
) -> tuple[pd.DataFrame, pd.DataFrame] | None:
    """Return a record with the rarest category of all, and the rows without it."""
    best: tuple[int, int, int] | None = None
    for j, column in enumerate(encoder.schema.columns):
        if len(column.categories) > 1 and column.name in frame:  # no detail of a column
            counts = np.bincount(index[:, j], minlength=column.size)[: len(column.categories)]
            rarest = (int(counts.min()), j, int(counts.argmin()))
            best = rarest if best is None else min(best, rarest)
    if best is None:
        return None
    _, j, value = best
    without_value = frame[index[:, j] != value].reset_index(drop=True)
    column = encoder.schema.columns[j]
    record = _edit_record(random_record, {column.name: column.categories[value]}, encoder)
    return None if record is None or len(without_value) < 2 else (without_value, record)


def _minority_column(schema: Schema, index: np.ndarray) -> int | None:
    rarest = {}
    for j, column in enumerate(schema.columns):
        counts = np.bincount(index[:, j])
        if column.categories and np.count_nonzero(counts) > 1:
            rarest[j] = int(counts[counts > 0].min())
    return min(rarest, key=rarest.__getitem__) if rarest else None


def _edit_record(
    record: pd.DataFrame, edits: Mapping[str, object], encoder: TableEncoder
) -> pd.DataFrame | None:
    """Return the record with those cells that its dtypes hold and the schema allows; None if none of them."""
    changed = None
    for name, value in edits.items():
        dtype = record[name].dtype
        try:
            cell = pd.Series([value], dtype=dtype)
            if value is not None and bool(cell.isna()[0]):  # not a category of the dtype
                continue
            tried = record.assign(**{name: cell})
            encoder.to_index(tried)
        except (InputError, TypeError, ValueError, OverflowError):
            continue
        record = changed = tried
    return changed
