"""Hypothesis strategies: schemas, and tables that hold to them."""

import numpy as np
import pandas as pd
from hypothesis import strategies as st

from tabsynth import Schema
from tabsynth.schema import Column

NAMES = ["a", "b c", "é", "x,y", 'q"']
TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\0\r\n"), min_size=1, max_size=6)
INTS = {"int8": 127, "int16": 32_000, "Int32": 2**31 - 1, "int64": 2**40, "Int64": 2**40}
FLOATS = ["float32", "float64", "Float64"]


@st.composite
def discrete_columns(draw: st.DrawFn, name: str = "a") -> Column:
    base = draw(st.sampled_from(["text", "int", "float", "bool"]))
    size = draw(st.integers(1, 12))
    if base == "text":
        dtype = draw(st.sampled_from(["str", "string", "object", "category"]))
        values = draw(st.lists(TEXT, min_size=size, max_size=size, unique=True))
    elif base == "int":
        dtype = draw(st.sampled_from([*INTS, "category", "object"]))
        top = INTS.get(dtype, 1_000)
        values = draw(st.lists(st.integers(-top, top), min_size=size, max_size=size, unique=True))
    elif base == "float":
        dtype = draw(st.sampled_from([*FLOATS, "category", "object"]))
        numbers = st.floats(-1e6, 1e6, width=32).map(lambda value: value + 0.0)
        values = draw(st.lists(numbers, min_size=size, max_size=size, unique=True))
    else:
        dtype = draw(st.sampled_from(["bool", "boolean", "object", "category"]))
        values = draw(st.sampled_from([(False,), (True,), (False, True), (True, False)]))
    nulls = draw(st.booleans()) and dtype not in ("int8", "int16", "int64", "bool")
    return Column(
        name=name,
        kind=draw(st.sampled_from(["categorical", "ordinal"])),
        dtype=dtype,
        nulls=nulls,
        categories=tuple(values),
    )


@st.composite
def numeric_columns(draw: st.DrawFn, name: str = "a") -> Column:
    dtype = draw(st.sampled_from(["int8", "int64", "Int64", *FLOATS]))
    bins = draw(st.none() | st.integers(1, 40))
    nulls = draw(st.booleans()) and dtype not in ("int8", "int64")
    common = {"name": name, "kind": "numeric", "dtype": dtype, "bins": bins, "nulls": nulls}
    if "int" in dtype.lower():
        top = 127 if dtype == "int8" else 10**9
        low, high = sorted(draw(st.tuples(st.integers(-top, top), st.integers(-top, top))))
        if low < high and draw(st.booleans()):
            breaks = draw(st.sets(st.integers(low + 1, high), min_size=1, max_size=9))
            common |= {"bins": None, "breaks": tuple(sorted(breaks))}
        return Column(low=low, high=high, resolution=draw(st.sampled_from([None, 1])), **common)
    low = draw(st.integers(-1000, 1000)) / draw(st.sampled_from([1, 10, 8]))
    span = draw(st.integers(1, 1000)) / draw(st.sampled_from([1, 10]))
    resolution = draw(st.sampled_from([None, 1, 0.5, 0.1, 0.01]))
    if draw(st.booleans()):
        step = resolution or span / 50
        steps = st.integers(1, max(1, int(span / step - 1e-6)))
        taken = sorted(draw(st.sets(steps, min_size=1, max_size=9)))
        breaks = tuple(low + step * k for k in taken if low + step * k < low + span)
        common |= {"bins": None, "breaks": breaks} if breaks else {}
    return Column(low=low, high=low + span, resolution=resolution, **common)


@st.composite
def schemas(draw: st.DrawFn, numeric: bool = True) -> Schema:
    names = draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=4, unique=True))
    kinds = [discrete_columns, numeric_columns] if numeric else [discrete_columns]
    return Schema([draw(draw(st.sampled_from(kinds))(name=name)) for name in names], [""])


@st.composite
def tables(draw: st.DrawFn, schema: Schema) -> pd.DataFrame:
    """A valid table; values of numeric columns lie on their resolution."""
    rows = draw(st.integers(1, 20))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    return pd.DataFrame({c.name: _series(c, rows, rng) for c in schema.columns})


def _series(column: Column, rows: int, rng: np.random.Generator) -> pd.Series:
    if column.kind != "numeric":
        pool = np.empty(len(column.categories), dtype=object)
        pool[:] = column.categories
        values = pool[rng.integers(len(pool), size=rows)]
    else:
        low, high, step = column.low, column.high, column.step
        if step is None:
            numbers = rng.uniform(low, high, size=rows)
            numbers = np.where(rng.random(rows) < 0.2, rng.choice([low, high], size=rows), numbers)
        else:
            top = int((high - low) / step + 1e-9)
            numbers = np.round(low + step * rng.integers(0, top, size=rows, endpoint=True), 12)
        whole = "int" in column.dtype.lower()
        values = np.empty(rows, dtype=object)
        values[:] = [int(n) if whole else float(n) for n in np.clip(numbers, low, high)]
    nulls = (rng.random(rows) < 0.3) if column.nulls else np.zeros(rows, dtype=bool)
    return column.to_series(values, nulls)
