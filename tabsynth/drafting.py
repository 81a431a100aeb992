"""A first schema, read off a table, and the list of what a person must review in it.

Everything here looks at the table itself, so a drafted schema is not public: its columns carry the
provenance ``drafted`` until a person has replaced what they say by facts from a public source.
"""

import math
import re
from typing import Any

import numpy as np
import pandas as pd

from tabsynth._dtypes import base_dtype, check_dtype
from tabsynth._formulas import is_formula
from tabsynth._validate import shown
from tabsynth.columns import Column
from tabsynth.errors import InputError
from tabsynth.schema import DEFAULT_NULL_VALUES, Schema, duplicates

FEW = 24  # whole numbers with at most this many values are drafted as codes, not as amounts
MANY = 1_000
_REAL = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,3})?")
_WHOLE = re.compile(r"[+-]?(0|[1-9]\d*)")


def draft_schema(table: pd.DataFrame, null_values: tuple[str, ...] = DEFAULT_NULL_VALUES) -> Schema:
    """Draft a schema from a table; texts that are all numbers become numbers.

    Raises
    ------
    InputError
        For an empty table, duplicate columns, an all-null column or an unsupported dtype.
    """
    for name in duplicates([str(name) for name in table.columns]):
        raise InputError(f"The table has column {shown(name)} twice; rename or drop one.")
    if len(table) == 0 or len(table.columns) == 0:
        raise InputError("The table has no rows; give one with at least one row.")
    return Schema([_draft(str(n), table[n]) for n in table.columns], null_values)


def review(schema: Schema, rows: int) -> list[str]:
    """What a person must check in a schema before a private fit, a line each."""
    out = []
    for column in schema.columns:
        if column.provenance != "drafted":
            continue
        name = shown(column.name)
        if column.kind == "numeric":
            out.append(
                f"{name}: bounds [{column.low:g}, {column.high:g}] are this table's own extremes;"
                " declare those of the questionnaire or codebook."
            )
            continue
        size = len(column.categories)
        formula = next((v for v in column.categories if isinstance(v, str) and is_formula(v)), None)
        if formula is not None:
            out.append(
                f"{name}: a spreadsheet would run {shown(formula)} as a formula; tables with it are"
                " written as CSV only with --formulas escape, or keep."
            )
        if size > max(2, 0.5 * rows) and size > FEW:
            out.append(f"{name}: {size} different values in {rows} rows: an identifier? Drop it.")
        elif size > MANY:
            out.append(f"{name}: {size} categories; group them, or set 'other'.")
        elif size == 1:
            out.append(f"{name}: constant here; list the categories it may take elsewhere.")
        else:
            out.append(
                f"{name}: {size} categories seen in this table ({column.kind}); list those of the"
                " codebook, in their order if they have one."
            )
    return out


def _draft(name: str, values: pd.Series) -> Column:
    known = values.dropna()
    if any(isinstance(value, list | dict | np.ndarray) for value in known.head(1)):
        raise InputError(f"Column {shown(name)} holds lists or records; unfold it into columns.")
    nulls = bool(values.isna().any())
    if len(known) == 0:
        raise InputError(
            f"Column {shown(name)} holds only nulls; drop it, or declare its categories by hand."
        )
    if base_dtype(str(values.dtype)) == "text":
        known = _numbers(known.infer_objects())
    dtype = str(known.dtype) if known.dtype != values.dtype else str(values.dtype)
    if nulls and re.fullmatch(r"u?int\d+|bool", dtype):
        dtype = "boolean" if dtype == "bool" else dtype.replace("int", "Int").replace("uI", "UI")
    check_dtype(dtype, f"column {shown(name)}")
    whole = base_dtype(dtype) == "float" and bool((known % 1 == 0).all())
    common: dict[str, Any] = {"name": name, "dtype": dtype, "nulls": nulls, "provenance": "drafted"}
    if base_dtype(dtype) in ("int", "float"):
        distinct = np.unique(known.to_numpy(dtype=float))
        if not np.isfinite(distinct).all():
            raise InputError(f"Column {shown(name)} holds an infinite value; remove it.")
        if not (len(distinct) <= FEW and (whole or base_dtype(dtype) == "int")):
            step = 1.0 if whole or base_dtype(dtype) == "int" else None
            low, high = float(distinct[0]), float(distinct[-1])
            if step:
                low, high = math.floor(low), math.ceil(high)
            return Column(kind="numeric", low=low, high=high, resolution=step, **common)
        kind: Any = "ordinal" if len(distinct) > 2 else "categorical"
        return Column(kind=kind, categories=tuple(map(_native, sorted(known.unique()))), **common)
    if isinstance(known.dtype, pd.CategoricalDtype):
        kind = "ordinal" if known.dtype.ordered else "categorical"
        return Column(kind=kind, categories=tuple(map(_native, known.dtype.categories)), **common)
    categories = sorted(map(_native, known.unique()), key=lambda v: (str(type(v)), str(v)))
    return Column(kind="categorical", categories=tuple(categories), **common)


def _numbers(texts: pd.Series) -> pd.Series:
    """Texts that are all plain numbers become numbers; leading zeros (postcodes) stay text."""
    distinct = texts.unique()
    if not all(isinstance(value, str) for value in distinct):
        return texts
    if all(_WHOLE.fullmatch(value) and len(value) < 16 for value in distinct):
        return texts.astype("int64")
    if any(re.fullmatch(r"[+-]?0\d+", value) for value in distinct):
        return texts
    if not all(_REAL.fullmatch(value.strip()) for value in distinct):
        return texts
    # strip() takes off spaces that neither float() nor numpy knows.
    return texts.map({value: float(value.strip()) for value in distinct}).astype("float64")


def _native(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value
