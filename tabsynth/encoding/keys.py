"""Keys of linked tables before they are encoded: columns of a composite key become one, and orphans may be left out."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from tabsynth._validate import quote
from tabsynth.design import ambiguous_unit
from tabsynth.encoding.rows import names_of
from tabsynth.errors import InputError
from tabsynth.schema.linked import LinkedSchema, TableKeys
from tabsynth.tables.frames import to_pandas


def plain_tables(schema: LinkedSchema, tables: object, *, orphans: bool = False) -> Any:
    """Return tables as ``schema.plain`` has them: with a column for each key, and without rows that ``orphans="drop"`` leaves out.

    What is no usable table is returned as it is, and is refused where tables are encoded. With ``orphans`` all rows stay.

    Formal guarantees
    -----------------
    A row is left out if no chain of keys leads from it to a row of the root. Such a row is of no unit of privacy, and those of
    a unit stay or go with the unit's own rows alone. So adding or removing a row of the root with its records changes the
    tables that are returned by these records alone, as it does where no row is left out.

    Raises
    ------
    InputError
        For a part of a key that may stand for several keys.
    """
    if not isinstance(tables, Mapping) or {*map(str, tables)} != {*schema.names}:
        return tables
    drops = not orphans and any(keys.orphans == "drop" for keys in schema.keys.values())
    if schema.plain is schema and not drops:
        return tables
    out: dict[str, pd.DataFrame] = {}
    known: dict[str, pd.Series] = {}  # the keys of the rows of each table, as texts
    for name, keys in schema.keys.items():
        frame, plain = to_pandas(tables[name], f"table {name}"), schema.plain.keys[name]
        names = [str(column) for column in frame.columns]
        if any(names.count(column) != 1 for column in keys.columns):
            return tables
        frame = frame.set_axis(names, axis=1)
        joined = {
            str(to): _join(name, frame, of)
            for of, to in ((keys.key, plain.key), (keys.parent_key, plain.parent_key))
            if isinstance(of, tuple)
        }
        staying = {*plain.columns, keys.order, *schema.tables[name].names}
        parts = [column for column in keys.columns if column not in staying]
        frame = frame.drop(columns=parts).assign(**joined)
        if keys.orphans == "drop" and not orphans:
            of_parent = _texts(frame[str(plain.parent_key)])
            frame = frame[of_parent.isin(known[str(keys.parent)]).to_numpy()]
        if plain.key is not None:
            known[name] = _texts(frame[str(plain.key)]).dropna()
        out[name] = frame
    return out


def _texts(values: pd.Series) -> pd.Series:
    """Return keys as texts, None for nulls."""
    return pd.Series(names_of(values), dtype=object).mask(values.isna().to_numpy(), None)


def _join(table: str, frame: pd.DataFrame, columns: tuple[str, ...]) -> np.ndarray:
    """Return one text for each combination of the parts of a key, None where a part is null; shape (n,), object."""
    parts = []
    for column in columns:
        value = ambiguous_unit(frame[column])
        if value is not None:
            raise InputError(
                f"Table {quote(table)} has {column}={quote(value)}, which may stand for several keys; give keys as whole"
                " numbers or texts."
            )
        texts = _texts(frame[column])
        # A comma of a part is marked, so that no two keys have one text.
        parts.append(texts.str.replace("\\", r"\\").str.replace(",", r"\,"))
    whole = parts[0].str.cat(parts[1:], sep=", ")
    return whole.astype(object).where(whole.notna(), None).to_numpy()


def split_keys(schema: LinkedSchema, frames: Mapping[str, pd.DataFrame]) -> dict[str, pd.DataFrame]:
    """Return drawn tables of ``schema.plain`` with the columns of composite keys.

    A part that the parent's key has, too, is that of the parent's row. Of the others the last one is numbered: 1, 2, 3, … among
    the rows of a parent, if the key has all parts of the parent's key, else over the table. All before it are 1.
    """
    if schema.plain is schema:
        return dict(frames)
    out: dict[str, pd.DataFrame] = {}
    for name, keys in schema.keys.items():
        frame, plain = frames[name].copy(), schema.plain.keys[name]
        made: dict[str, np.ndarray] = {}
        if isinstance(keys.parent_key, tuple):
            rows = frame.pop(str(plain.parent_key)).to_numpy() - 1
            above = schema.keys[str(keys.parent)].key
            for part, of in zip(keys.parent_key, above or (), strict=True):
                made[part] = out[str(keys.parent)][of].to_numpy()[rows]
        elif keys.parent_key is not None:
            made[keys.parent_key] = frame.pop(keys.parent_key).to_numpy()
        if isinstance(keys.key, tuple):
            frame.pop(str(plain.key))
            made |= _numbers(keys, made, len(frame))
        elif keys.key is not None:
            made[keys.key] = frame.pop(keys.key).to_numpy()
        first = [column for column in dict.fromkeys((*keys.columns, keys.order)) if column in made]
        kept = frame.drop(columns=[column for column in first if column in frame])
        of_keys = pd.DataFrame({column: made[column] for column in first}, index=kept.index)
        out[name] = pd.concat([of_keys, kept], axis=1)
    return out


def _numbers(keys: TableKeys, above: Mapping[str, np.ndarray], rows: int) -> dict[str, np.ndarray]:
    """Return the parts of a composite key that the parent's key does not have."""
    assert isinstance(keys.key, tuple)
    own = [part for part in keys.key if part not in above]
    number = np.arange(1, rows + 1)
    if above and {*above} <= {*keys.key}:
        number = pd.DataFrame(above).groupby(list(above)).cumcount().to_numpy() + 1
    return {part: np.ones(rows, dtype=np.int64) for part in own[:-1]} | {own[-1]: number}
