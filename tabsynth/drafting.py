"""A first schema, read off a table, and the list of what a person must review in it.

Everything here looks at the table itself, so a drafted schema is not public: its columns carry the
provenance ``drafted`` until a person has replaced what they say by facts from a public source.
"""

import math
import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from tabsynth._dtypes import base_dtype, check_dtype
from tabsynth._formulas import is_formula
from tabsynth._validate import shown
from tabsynth.cells import DEFAULT_BINS, equal_edges, steps_in
from tabsynth.columns import MAX_STEPS, Column
from tabsynth.errors import InputError
from tabsynth.schema import DEFAULT_NULL_VALUES, Schema, duplicates

FEW = 24  # whole numbers with at most this many values are drafted as codes, not as amounts
# Other numbers are, too, that have so many rows a value, and more values if those are sparse: such a part of all
# steps between the bounds.
OFTEN, CODES, SPARSE = 10, 256, 0.1
MANY = 1_000
ODD = 2  # texts among numbers that may mean a missing value
FINEST = 6  # decimals of a resolution
# Where cells of a skewed column begin, in each power of ten; the second where these are too many.
ROUND = (
    (1, 1.2, 1.4, 1.6, 1.8, 2, 2.5, 3, 3.5, 4, 4.5, 5, 6, 7, 8, 9),
    (1, 1.5, 2, 3, 4, 5, 6, 8),
)
SKEWED = 0.75  # of how uneven equal cells are: as even must round ones be, to take their place
# A single value has a cell of its own that has this share of the rows, so many rows, and so many times
# the rows of others.
SPIKE, SPIKE_ROWS, OFTENER = 0.02, 20, 5
RARE = 0.0005  # of the rows: a round cell with fewer is one with the next
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
            cells = f" and its {len(column.breaks)} breaks its own shape" if column.breaks else ""
            out.append(
                f"{name}: bounds [{column.low:g}, {column.high:g}] are this table's own extremes{cells};"
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
        if odd := _odd(column.categories):
            texts = " ".join(f"--null {shown(text)}" for text in odd)
            out.append(
                f"{name}: all of {size} values but {', '.join(map(shown, odd))} are numbers; if that means"
                f" missing, draft again with {texts}."
            )
        elif size > max(2, 0.5 * rows) and size > FEW:
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


def _odd(categories: tuple[Any, ...]) -> list[str]:
    """The few texts among a column's categories that keep it from being numbers."""
    texts = [v for v in categories if not (isinstance(v, str) and _REAL.fullmatch(v))]
    return texts if len(texts) <= ODD and len(categories) > FEW else []


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
    common: dict[str, Any] = {"name": name, "dtype": dtype, "nulls": nulls, "provenance": "drafted"}
    if base_dtype(dtype) in ("int", "float"):
        return _draft_numbers(known, common)
    if isinstance(known.dtype, pd.CategoricalDtype):
        kind: Any = "ordinal" if known.dtype.ordered else "categorical"
        return Column(kind=kind, categories=tuple(map(_native, known.dtype.categories)), **common)
    categories = sorted(map(_native, known.unique()), key=lambda v: (str(type(v)), str(v)))
    return Column(kind="categorical", categories=tuple(categories), **common)


def _draft_numbers(known: pd.Series, common: dict[str, Any]) -> Column:
    values = known.to_numpy(dtype=float)
    distinct = np.unique(values)
    if not np.isfinite(distinct).all():
        raise InputError(f"Column {shown(common['name'])} holds an infinite value; remove it.")
    low, high = float(distinct[0]), float(distinct[-1])
    decimals = _decimals(known, common["dtype"], high - low)
    step = None if decimals is None else float(f"1e-{decimals}")
    few = len(distinct) <= FEW or (len(distinct) <= CODES and _sparse(distinct, step))
    often = len(values) >= OFTEN * len(distinct)
    if few and (often or (decimals == 0 and len(distinct) <= FEW)):
        kind: Any = "ordinal" if len(distinct) > 2 else "categorical"
        return Column(kind=kind, categories=tuple(map(_native, sorted(known.unique()))), **common)
    if decimals is not None:  # in short floats the bounds are not quite on their step
        low, high = (round(end, decimals) if decimals else int(end) for end in (low, high))
    breaks = _breaks(values, low, high, step) if math.isfinite(high - low) else ()
    return Column(kind="numeric", low=low, high=high, resolution=step, breaks=breaks, **common)


def _sparse(distinct: np.ndarray, step: float | None) -> bool:
    low, high = float(distinct[0]), float(distinct[-1])
    return step is None or len(distinct) <= SPARSE * steps_in(low, high, step)


def _decimals(known: pd.Series, dtype: str, span: float) -> int | None:
    """How many decimals the numbers have; None if they are too many to be a step of the column."""
    if base_dtype(dtype) == "int":
        return 0
    numbers = np.unique(known.to_numpy(dtype=dtype.lower()))
    for decimals in range(FINEST + 1):
        if span * 10.0**decimals > MAX_STEPS:
            return None
        if (np.round(numbers, decimals) == numbers).all():
            return decimals
    return None


def _breaks(
    values: np.ndarray, low: float, high: float, step: float | None
) -> tuple[int | float, ...]:
    """Where the cells begin, if equally wide ones would lose what the table holds; else none.

    A value that many rows have, such as 0 or a top code, is kept apart; a skewed column has cells that
    widen away from 0.
    """
    if low == high or (step is not None and steps_in(low, high, step) <= DEFAULT_BINS):
        return ()
    spikes = np.empty(0) if step is None else _spikes(values)
    rest = values[~np.isin(values, spikes)]
    ladders = (_round_breaks(rest, low, high, step, ladder) for ladder in ROUND)
    starts = next((found for found in ladders if len(found) < DEFAULT_BINS), np.empty(0))
    equal = _unevenness(rest, equal_edges(low, high, step, None))
    skewed = _unevenness(rest, np.array([low, *starts, high])) <= SKEWED * equal
    if step is None:
        return tuple(starts.tolist()) if skewed else ()
    if not skewed:
        if not len(spikes):
            return ()
        starts = _every(low, high, step)
    steps = np.unique(np.round(np.concatenate([starts, spikes, spikes + step]) / step))
    found = np.round(steps * step, FINEST)
    found = found[(found > low) & (found <= high)]
    return tuple(found.astype(int).tolist() if step == 1 else found.tolist())


def _spikes(values: np.ndarray) -> np.ndarray:
    """Single values of many rows, and of many more than the others."""
    distinct, counts = np.unique(values, return_counts=True)
    least = max(SPIKE * len(values), SPIKE_ROWS, OFTENER * len(values) / len(distinct))
    return distinct[counts >= least]


def _round_breaks(
    values: np.ndarray, low: float, high: float, step: float | None, ladder: Sequence[float]
) -> np.ndarray:
    """Round numbers between the bounds, so many in each power of ten, of cells that are not rare."""
    sizes = np.abs(values[values != 0])
    if not len(sizes):
        return np.empty(0)
    least = max(float(np.quantile(sizes, 0.01)), step or 0.0)
    powers = range(_power(least), _power(max(abs(low), abs(high))) + 1)
    sizes = np.array([first * 10.0**power for power in powers for first in ladder])
    starts = np.concatenate([-sizes[::-1], [0.0], sizes])
    if step is not None:
        starts = np.round(starts / step) * step
    starts = np.unique(starts)
    starts = starts[(starts > low) & (starts < high)]
    below = np.searchsorted(np.sort(values), starts) / len(values)
    kept, last = [], 0.0
    for start, share in zip(starts.tolist(), below.tolist(), strict=True):
        if min(share - last, 1 - share) >= RARE:
            kept.append(start)
            last = share
    return np.array(kept)


def _power(number: float) -> int:
    return math.floor(math.log10(number))


def _every(low: float, high: float, step: float) -> np.ndarray:
    """Round numbers between the bounds, equally far from each other."""
    least = (high - low) / DEFAULT_BINS
    tens = 10.0 ** _power(least)
    width = max(step, next(n * tens for n in (1, 2, 5, 10) if n * tens >= least))
    return np.arange(math.floor(low / width) + 1, math.ceil(high / width)) * width


def _unevenness(values: np.ndarray, edges: np.ndarray) -> float:
    """How likely two values are to share a cell."""
    return float(np.square(np.histogram(values, edges)[0] / max(1, len(values))).sum())


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
