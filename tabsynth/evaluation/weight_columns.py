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


def apart(
    frame: pd.DataFrame, weights: str | None, declared: Sequence[str]
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return a table without the column of weights, unless the schema has it; and that column, where weights are named."""
    texts = [str(name) for name in frame.columns]
    of_weights = [text == weights for text in texts]
    is_table = [
        not of_it or text in declared for of_it, text in zip(of_weights, texts, strict=True)
    ]
    aside = frame.loc[:, of_weights]
    aside = aside.set_axis([str(name) for name in aside.columns], axis=1).reset_index(drop=True)
    return frame.loc[:, is_table], aside


def weights_of(aside: pd.DataFrame, weights: str, decimal: str | None, what: str) -> np.ndarray:
    """Return the weights of the rows of a table, shape (rows,), from their column.

    Raises
    ------
    InputError
        If there is no such column, or more than one, or if a value is no weight.
    """
    count = list(aside.columns).count(weights)
    if count != 1:
        problem = "has no column" if count == 0 else "has more than one column"
        remedy = "name another column" if count == 0 else "rename or drop one"
        raise InputError(f"The {what} {problem} {quote(weights)} (weights); {remedy}.")
    values = aside[weights]
    numbers = numbers_of(values, decimal=decimal)
    wrong = ~(numbers >= 0)
    if wrong.any():
        value, count = values.iloc[int(wrong.argmax())], int(wrong.sum())
        example = "a null" if pd.isna(value) else quote(value)
        raise InputError(
            f"The {what} has {example} among the weights of column {weights!r} ({count:,} such row{'' if count == 1 else 's'}), and"
            " weights are numbers from 0; correct it, or take the row out."
        )
    if len(numbers) and numbers.sum() == 0:
        raise InputError(
            f"The {what} has only weights of 0 in column {weights!r}; give rows that stand for somebody."
        )
    return numbers


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
