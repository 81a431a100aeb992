"""Columns of linked tables that are modelled by what they are to other rows of the same root: keys, dates and repeated codes.

The keys of a table (:class:`tabsynth.schema.linked.TableKeys`) may declare that

- a column repeats the key of an ancestor (``inherited``): it is written from it, and not modelled;
- a date is modelled by the days since another date, and perhaps until a third (``since``): of the same row, of an ancestor,
  or the last one of a table with the same parent. Synthetic dates are then in order;
- a column of the root is a year that is no later than dates of a child (``before``);
- codes repeat under a root (``repeats``): a code that the same root has in an earlier row is modelled as "again". How many
  roots have a code then follows from first records, of which each root has one for each code.

What a row becomes follows from the rows of its own root alone, so the guarantees of
:meth:`tabsynth.encoding.linked.LinkedEncoder.to_rows` hold for these tables as for others.
"""

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from tabsynth._validate import quote
from tabsynth.encoding.linked import CodedTable, LinkedEncoder, Repeated, refuse
from tabsynth.encoding.rows import names_of
from tabsynth.errors import InputError
from tabsynth.schema.column import Column
from tabsynth.schema.linked import LinkedSchema, TableKeys
from tabsynth.schema.numeric import Numeric
from tabsynth.schema.schema import Schema

DAYS = ": days since its reference"
SINGLE, GROWTH = 8, 1.25  # numbers with a cell each; cells of larger ones grow by this factor
Frames = dict[str, pd.DataFrame]


def encoder_of(schema: LinkedSchema) -> LinkedEncoder:
    """Return the encoder of a linked schema, of derived columns where it declares some."""
    derived = any(k.since or k.inherited or k.before or k.repeats for k in schema.keys.values())
    return DerivedEncoder(schema) if derived else LinkedEncoder(schema)


def growing_starts(last: int) -> list[int]:
    """Return the first number of each cell of the numbers from 0: small ones by themselves, and cells that grow, up to one from ``last`` on."""
    starts = [0]
    while starts[-1] < last:
        start = starts[-1]
        starts.append(max(start + 1, round(start * GROWTH) if start >= SINGLE else 0))
    return starts


def days_column(column: Column) -> Numeric:
    """Return the column of days that stands for a date."""
    lows, highs = column.code_amounts()
    span = int(np.nanmax(highs) - np.nanmin(lows))
    breaks = growing_starts(span)[1:]
    dtype = "Int64" if column.nulls else "int64"
    bounds: dict[str, Any] = {
        "low": 0,
        "high": max(span, 1),
        "breaks": tuple(b for b in breaks if b < span),
    }
    return Numeric(name=f"{column.name}{DAYS}", dtype=dtype, nulls=column.nulls, **bounds)


def _inner(schema: Schema, keys: TableKeys) -> Schema:
    """Return the schema of a table as it is modelled."""
    columns: list[Column] = []
    for column in schema.columns:
        if column.name in (keys.since or {}):
            columns.append(days_column(column))
        elif column.name == keys.repeats:
            columns.append(replace(column, nulls=True, dtype="Int64"))
        else:
            columns.append(column)
    return schema.replace(columns=columns)


class DerivedEncoder(LinkedEncoder):
    """Encoder of linked tables whose keys declare derived columns.

    Parameters
    ----------
    schema : LinkedSchema

    Attributes
    ----------
    declared : LinkedSchema
        The schema of the tables; ``schema`` is that of the modelled columns.
    """

    def __init__(self, schema: LinkedSchema) -> None:
        plain: dict[str, Any] = {"since": None, "inherited": None, "before": None, "repeats": None}
        super().__init__(
            LinkedSchema(
                {name: _inner(of, schema.keys[name]) for name, of in schema.tables.items()},
                {name: replace(keys, **plain) for name, keys in schema.keys.items()},
            ),
            [name for name, keys in schema.keys.items() if keys.repeats is not None],
        )
        self.declared = self.whole = schema
        for name, keys in schema.keys.items():
            if keys.repeats is not None:
                place, codes = self.single_codes(name, keys.repeats)
                column = self.columns(name)[place]
                again = int(column.encode(pd.Series([pd.NA], dtype="Int64"))[0])
                shares, of = None, self._released(name)
                if any(share for share, _ in of.values()):
                    labels = column.encode(pd.Series([*of], dtype="Int64")).tolist()
                    by_code = dict(zip(labels, (share for share, _ in of.values()), strict=True))
                    shares = np.array([by_code.get(code, 0.0) for code in codes.tolist()])
                std = float((schema.released or {}).get("std", 0.0))
                self.once[name] = Repeated(place, again, codes, shares, std)

    def _released(self, name: str) -> dict[int, tuple[float, float]]:
        """Return the released shares of roots with each code of a table, and with it again, by code; empty without a release."""
        released = self.declared.released or {}
        place = f"{name}.{self.declared.keys[name].repeats}"
        try:
            of = {
                int(c): (float(has), float(again))
                for c, (has, again) in released.get(place, {}).items()
            }
            std = float(released.get("std", math.nan if of else 0.0))
            numbers = [std, *(x for pair in of.values() for x in pair)]
        except (AttributeError, TypeError, ValueError):
            numbers = [math.nan]
        if not all(0 <= number < math.inf for number in numbers):
            raise InputError(
                f"The released shares of {place} are damaged in the schema; take the schema as it was released."
            )
        return of

    # Real tables.

    def to_tables(self, tables: object) -> dict[str, CodedTable]:
        """See :meth:`LinkedEncoder.to_tables`."""
        frames, keys = self.checked_frames(tables)
        problems = self._missing(frames)
        refuse(problems)
        rows = _Rows(self.declared, keys)
        derived = {name: self._derive(name, frames, rows, problems) for name in frames}
        refuse(problems)
        return super().to_tables(derived)

    def _missing(self, frames: Frames) -> list[str]:
        """Return a line for each column that tables lack, of those that other columns are derived from."""
        needed: dict[tuple[str, str], None] = {}
        for name, keys in self.declared.keys.items():
            references = [r for c, of in (keys.since or {}).items() for r in (c, *of)]
            own = (*(keys.inherited or ()), *filter(None, [keys.repeats]))
            needed |= dict.fromkeys(
                [*((name, c) for c in own), *(_split(r, name) for r in references)]
            )
        return [
            f"Table {quote(name)} lacks column {quote(column)}; add it."
            for name, column in needed
            if column not in frames[name]
        ]

    def _derive(
        self, name: str, frames: Frames, rows: "_Rows", problems: list[str]
    ) -> pd.DataFrame:
        """Return a table as it is modelled."""
        schema, keys = self.declared.tables[name], self.declared.keys[name]
        frame = frames[name]
        for column in keys.inherited or ():
            ancestor = _ancestor_with(self.declared, name, column)
            own, theirs = (
                names_of(frame[column]),
                rows.values(name, ancestor, rows.keys[ancestor][column]),
            )
            if (wrong := own != theirs).any():
                at = int(wrong.argmax())
                problems.append(
                    f"Table {quote(name)} has {column}={quote(own[at])} in a row of {keys.parent_key}="
                    f"{quote(rows.keys[name][str(keys.parent_key)][at])}, which is of {quote(theirs[at])}; correct one of them."
                )
        out = frame.drop(columns=list(keys.inherited or ()))
        for column, references in (keys.since or {}).items():
            of = schema[column]
            try:
                of.encode(frame[column])
                start, *end = (self._reference(name, r, frames, rows) for r in references)
            except InputError as error:
                problems.append(f"Table {quote(name)}: {error}")
                continue
            amounts = of.amounts(frame[column])
            lows, highs = of.code_amounts()
            low, high = float(np.nanmin(lows)), float(np.nanmax(highs))
            start = np.where(np.isnan(start), low, start)
            days = np.clip(amounts - start, 0.0, high - low)
            if end:
                days = np.minimum(days, np.maximum(_latest(end[0]) - start, 0.0))
            values = pd.Series(days, index=frame.index).astype("Int64" if of.nulls else "int64")
            out = out.drop(columns=column).assign(**{f"{column}{DAYS}": values})
        if keys.repeats is not None:
            values = schema[keys.repeats].convert(frame[keys.repeats])
            again = self._again(name, values, frames, rows)
            out[keys.repeats] = values.astype("Int64").mask(again)
        return out

    def _reference(self, name: str, reference: str, frames: Frames, rows: "_Rows") -> np.ndarray:
        """Return the amounts of a reference for each row of a table: NaN where there is none."""
        table, column = _split(reference, name)
        amounts = self.declared.tables[table][column].amounts(frames[table][column])
        if table in self.declared.lineage(name):
            return rows.values(name, table, amounts)
        parent, key = self.declared.keys[name].parent, str(self.declared.keys[table].parent_key)
        last = pd.Series(amounts).groupby(rows.keys[table][key]).max()
        own = str(self.declared.keys[name].parent_key)
        assert parent == self.declared.keys[table].parent
        return last.reindex(rows.keys[name][own]).to_numpy(dtype=float)

    def _again(self, name: str, values: pd.Series, frames: Frames, rows: "_Rows") -> np.ndarray:
        """Return which rows have a code that an earlier row of the same root has."""
        parts = [np.arange(len(values))]
        for table in reversed(self.declared.lineage(name)[:-1]):
            row = rows.values(name, table, np.arange(len(frames[table])))
            order = self.declared.keys[table].order
            parts.append(row)
            if order is not None:
                amounts = self.declared.tables[table][order].amounts(frames[table][order])
                parts.append(rows.values(name, table, amounts))
        order_of_rows = np.lexsort(parts)
        pairs = pd.DataFrame({"root": parts[-1], "code": values.to_numpy()}).iloc[order_of_rows]
        again = np.zeros(len(values), dtype=bool)
        again[order_of_rows] = pairs.duplicated().to_numpy()
        return again

    # Synthetic tables.

    def from_tables(
        self,
        tables: Mapping[str, CodedTable],
        rng: np.random.Generator,
        within: Mapping[str, Any] | None = None,
    ) -> Frames:
        """See :meth:`LinkedEncoder.from_tables`."""
        frames = super().from_tables(tables, rng, within)
        declared = self.declared
        rows = _Rows(
            declared,
            {
                name: {c: frames[name][c].to_numpy() for c in declared.keys[name].columns}
                for name in frames
            },
        )
        # What refers to a table beside it comes last.
        order = sorted(declared.names, key=lambda name: self._beside(name))
        for name in order:
            keys, frame = declared.keys[name], frames[name]
            if keys.repeats is not None:
                frame[keys.repeats] = self._first_codes(name, frame[keys.repeats], rows, rng)
            for column, references in (keys.since or {}).items():
                of = declared.tables[name][column]
                start, *end = (self._reference(name, r, frames, rows) for r in references)
                lows, _ = of.code_amounts()
                amounts = np.where(np.isnan(start), np.nanmin(lows), start)
                amounts = amounts + frame.pop(f"{column}{DAYS}").to_numpy(
                    dtype=float, na_value=np.nan
                )
                if end:
                    amounts = np.minimum(amounts, _latest(end[0]))
                frame[column] = of.from_amounts(amounts)
            for column in keys.inherited or ():
                ancestor = _ancestor_with(declared, name, column)
                frame[column] = rows.values(name, ancestor, rows.keys[ancestor][column])
        self._hold_years(frames)
        return {name: frames[name][self._columns(name, frames[name])] for name in declared.names}

    def _beside(self, name: str) -> bool:
        references = [r for rs in (self.declared.keys[name].since or {}).values() for r in rs]
        return any(_split(r, name)[0] not in self.declared.lineage(name) for r in references)

    def _columns(self, name: str, frame: pd.DataFrame) -> list[str]:
        """Return the keys and then the columns in the order of the schema."""
        of, keys = self.declared.tables[name], self.declared.keys[name]
        keys_first = [
            c for c in (keys.key, keys.parent_key, *(keys.inherited or ())) if c is not None
        ]
        return [*dict.fromkeys([*keys_first, *(c for c in of.names if c in frame), *frame.columns])]

    def _hold_years(self, frames: Frames) -> None:
        """Lower years of the root to those of the dates that they must not be after."""
        root = self.declared.root
        for column, references in (self.declared.keys[root].before or {}).items():
            years = frames[root][column]
            key = str(self.declared.keys[root].key)
            for reference in references:
                table, date = _split(reference, root)
                first = pd.to_datetime(frames[table][date]).dt.year
                first = first.groupby(
                    frames[table][str(self.declared.keys[table].parent_key)]
                ).min()
                latest = first.reindex(frames[root][key]).to_numpy(dtype=float)
                years = years.mask(
                    years.to_numpy() > latest,
                    pd.Series(latest, index=years.index).fillna(0).astype(int),
                )
            frames[root][column] = years.astype(frames[root][column].dtype)

    def _first_codes(
        self, name: str, values: pd.Series, rows: "_Rows", rng: np.random.Generator
    ) -> pd.Series:
        """Return codes in place of "again": one that the same root has before, by the released shares of roots that have it again.

        A root without a code before gets one of another root.
        """
        root, column = (
            self.declared.root,
            self.declared.tables[name][str(self.declared.keys[name].repeats)],
        )
        roots = len(rows.keys[root][str(self.declared.keys[root].key)])
        of_root = rows.values(name, root, np.arange(roots)).tolist()
        weights = {code: again for code, (_, again) in self._released(name).items()}
        codes = values.to_numpy(dtype=float, na_value=np.nan)
        firsts = codes[~np.isnan(codes)].astype(np.int64)
        out, before = np.zeros(len(codes), dtype=np.int64), dict[int, dict[int, float]]()
        for i, (of, code) in enumerate(zip(of_root, codes.tolist(), strict=True)):
            known = before.setdefault(of, {})
            if code == code:
                out[i] = int(code)
            elif known:
                out[i] = _draw([*known], [*known.values()], rng)
            else:
                out[i] = rng.choice(firsts) if len(firsts) else next(iter(column.positions))
            known.setdefault(int(out[i]), weights.get(int(out[i]), 1.0))
        return pd.Series(out, index=values.index).astype(column.dtype)


def _draw(codes: list[int], weights: list[float], rng: np.random.Generator) -> int:
    """Return one of some codes by their weights."""
    if len(codes) == 1:
        return codes[0]
    sums = np.cumsum(weights)
    return codes[int(np.searchsorted(sums, rng.random() * sums[-1], side="right"))]


class _Rows:
    """The rows of ancestors for each row of a table.

    Parameters
    ----------
    schema : LinkedSchema
    keys : mapping of str to mapping of str to ndarray
        By table and column.
    """

    def __init__(self, schema: LinkedSchema, keys: Mapping[str, Mapping[str, np.ndarray]]) -> None:
        self.schema, self.keys = schema, keys

    def values(self, name: str, ancestor: str, values: np.ndarray) -> np.ndarray:
        """Return values of an ancestor's rows for each row of a table, shape (n,)."""
        at = name
        line = []
        while at != ancestor:
            line.append(at)
            at = str(self.schema.keys[at].parent)
        for table in reversed(line):
            of = self.schema.keys[table]
            index = pd.Index(self.keys[str(of.parent)][str(self.schema.keys[str(of.parent)].key)])
            values = values[index.get_indexer(pd.Index(self.keys[table][str(of.parent_key)]))]
        return values


def _latest(end: np.ndarray) -> np.ndarray:
    """Return the latest amount that a date may have, without a limit where the date that ends it is null."""
    return np.where(np.isnan(end), np.inf, end)


def _split(reference: str, name: str) -> tuple[str, str]:
    """Return the table and the column of a reference, which is of the same table where it names none."""
    table, dot, column = reference.rpartition(".")
    return (table, column) if dot else (name, reference)


def _ancestor_with(schema: LinkedSchema, name: str, key: str) -> str:
    """Return the ancestor of a table that has the key."""
    return next(table for table in schema.lineage(name)[:-1] if schema.keys[table].key == key)
