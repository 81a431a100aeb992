"""The form of a method's systems, and what methods share in making them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from tabsynth.encoding import TableEncoder
from tabsynth.errors import InputError
from tabsynth.schema.schema import Schema

Parameters = dict[str, Any]  # of an estimator, without the schema and the budget


@dataclass(frozen=True, kw_only=True)
class Request:
    """The schema and the budget of a replay.

    Attributes
    ----------
    schema : Schema or LinkedSchema
    epsilon, delta : float
    """

    schema: Any
    epsilon: float
    delta: float = 1e-5


def _unchanged(options: Mapping[str, Any], request: Request) -> tuple[Any, Parameters]:
    return request.schema, dict(options)


@dataclass(frozen=True, kw_only=True)
class Systems:
    """The systems of a method: every way to a private model that it has.

    Attributes
    ----------
    options : mapping of str to mapping
        By a name that begins with the method's, the options that set a system apart. The first is the method's default.
    tiny : callable
        From the options of a system and a request to the schema and the parameters of a fit that takes a moment.
    full_batches : callable
        From a schema to parameters of a fit of a second that uses every mechanism of the method without subsampling.
    charges : int
        Charges to the ledger in a fit with ``full_batches``.
    """

    options: Mapping[str, Mapping[str, Any]]
    tiny: Callable[[Mapping[str, Any], Request], tuple[Any, Parameters]] = _unchanged
    full_batches: Callable[[Any], Parameters] = lambda schema: {}
    charges: int = 1


def with_unit(schema: Schema, rows: int, name: str = "unit") -> Schema:
    """Return the schema with a unit, a column of that name, of which so many rows are used."""
    return schema.replace(unit=name, max_rows_per_unit=rows)


def with_weight(schema: Schema, cap: float, name: str = "weight") -> Schema:
    """Return the schema with survey weights, a column of that name, clipped at the cap."""
    return schema.replace(weight=name, max_weight=cap)


def draw_rows(schema: Schema, rows: int, seed: int) -> pd.DataFrame:
    """Draw uniform category codes that the schema allows; the rows describe no person."""
    rng, encoder = np.random.default_rng(seed), TableEncoder(schema)
    tables: list[pd.DataFrame] = []
    for _ in range(1000 * rows):
        index = np.array([[rng.integers(size) for size in schema.sizes]])
        table = encoder.from_index(index, rng)
        try:
            encoder.to_index(table)
        except InputError:  # an impossible row
            continue
        tables.append(table)
        if len(tables) == rows:
            return pd.concat(tables, ignore_index=True)
    raise InputError("The schema declares almost all rows impossible.")
