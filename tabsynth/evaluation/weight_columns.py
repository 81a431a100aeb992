"""The column of a table that has the survey weights of its rows.

Of linked tables it is a column of the root, such as the weight of a household, which counts for its other records.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from tabsynth._validate import quote
from tabsynth.errors import InputError
from tabsynth.schema.linked import LinkedSchema
from tabsynth.schema.number_texts import numbers_of

Frames = Mapping[str, pd.DataFrame]
WeightsLike = str | np.ndarray | Sequence[float]


def checked_weights(weights: WeightsLike | None) -> str | np.ndarray | None:
    """Return the name of a column of weights, or an array of them, shape (rows,).

    Raises
    ------
    InputError
        If it is neither.
    """
    if weights is None or isinstance(weights, str):
        return weights
    try:
        array = np.asarray(weights, dtype=float)
    except (TypeError, ValueError):
        array = np.empty((0, 0))
    if array.ndim != 1:
        raise InputError(
            f"Expected weights to be the name of a column or a number for each row, got {quote(weights)}."
        )
    return array


def apart(
    frame: pd.DataFrame, weights: str | np.ndarray | None, declared: Sequence[str]
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return a table without the column of weights, unless the schema has it; and that column, where weights are named."""
    texts = [str(name) for name in frame.columns]
    of_weights = [isinstance(weights, str) and text == weights for text in texts]
    is_table = [
        not of_it or text in declared for of_it, text in zip(of_weights, texts, strict=True)
    ]
    aside = frame.loc[:, of_weights]
    aside = aside.set_axis([str(name) for name in aside.columns], axis=1).reset_index(drop=True)
    return frame.loc[:, is_table], aside


def weights_of(
    aside: pd.DataFrame, weights: str | np.ndarray, decimal: str | None, what: str
) -> np.ndarray:
    """Return the weights of the rows of a table, shape (rows,), from their column or as they were given.

    Raises
    ------
    InputError
        If there is no such column, or more than one, or if a value is no weight.
    """
    if isinstance(weights, str):
        count = list(aside.columns).count(weights)
        if count != 1:
            problem = "has no column" if count == 0 else "has more than one column"
            remedy = "name another column" if count == 0 else "rename or drop one"
            raise InputError(f"The {what} {problem} {quote(weights)} (weights); {remedy}.")
        name, values = f"column {weights!r}", aside[weights]
    else:
        name, values = "weights", pd.Series(weights)
        if len(values) != len(aside):
            raise InputError(
                f"weights has {len(values):,} numbers, and the {what} has {len(aside):,} rows; give one for each row."
            )
    numbers = numbers_of(values, decimal=decimal)
    wrong = ~(numbers >= 0)
    if wrong.any():
        value, count = values.iloc[int(wrong.argmax())], int(wrong.sum())
        example = "a null" if pd.isna(value) else quote(value)
        raise InputError(
            f"The {what} has {example} among the weights of {name} ({count:,} such row{'' if count == 1 else 's'}), and"
            " weights are numbers from 0; correct it, or take the row out."
        )
    if len(numbers) and numbers.sum() == 0:
        raise InputError(
            f"The {what} has only weights of 0 in {name}; give rows that stand for somebody."
        )
    return numbers


def column_of_root(schema: LinkedSchema, weights: str | np.ndarray | None) -> str | None:
    """Return the name of the root's column of weights, that of the schema by default; None without weights.

    Raises
    ------
    InputError
        If weights are no name.
    """
    if weights is not None and not isinstance(weights, str):
        raise InputError(
            f"Expected weights to be the name of a column of table {schema.root}, got numbers."
        )
    return weights if weights is not None else schema.design.weight


def weights_of_root(
    frames: Frames, schema: LinkedSchema, column: str | None, what: str, *, needed: bool = True
) -> np.ndarray | None:
    """Return the weights of the rows of the root, shape (rows,); None where it has none and none are ``needed``.

    Raises
    ------
    InputError
        As :func:`weights_of`.
    """
    root = schema.root
    if column is None or (not needed and column not in frames[root].columns):
        return None
    aside = apart(frames[root], column, ())[1]
    return weights_of(aside, column, schema.tables[root].decimal, f"table {root} of the {what}")


def weights_beside(frames: Frames, schema: LinkedSchema, column: str, table: str) -> pd.Series:
    """Return the column of weights of the root for each row of a table; rows without a root have a weight of 0."""
    weights = frames[schema.root][column].reset_index(drop=True)
    rows = _roots(frames, schema, table)
    return weights.reindex(rows).mask(rows < 0, 0).set_axis(frames[table].index)


def _roots(frames: Frames, schema: LinkedSchema, table: str) -> np.ndarray:
    """Return, for each row of a table, the number of the row of the root that it belongs to, −1 for none."""
    keys = schema.keys[table]
    if keys.parent is None:
        return np.arange(len(frames[table]))
    above = frames[keys.parent][schema.keys[keys.parent].key]
    place = pd.Series(_roots(frames, schema, keys.parent), index=above)
    place = place[place.index.notna() & ~place.index.duplicated()]
    return frames[table][keys.parent_key].map(place).fillna(-1).to_numpy(dtype=np.int64)
