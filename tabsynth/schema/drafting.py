"""A first schema, read off a table, and the list of what a person must review in it.

Everything here looks at the table itself, so a drafted schema is not public: its columns carry the
provenance ``drafted`` until a person has replaced what they say by facts from a public source.

A draft limits what it copies. Columns that identify people or records are left out
(:mod:`tabsynth.schema.identifiers`); a category is listed only if at least ``min_count`` rows have it; a bound,
a break or a resolution does not follow fewer rows than that. This is no differential privacy.
"""

import math
import re
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from typing import Any

import numpy as np
import pandas as pd

from tabsynth._validate import integer, native, shown
from tabsynth.errors import InputError
from tabsynth.schema.column import (
    DEFAULT_BINS,
    MAX_STEPS,
    Column,
    base_dtype,
    check_dtype,
    equal_edges,
    steps_in,
)
from tabsynth.schema.identifiers import FEW, LONG, identifying, named_for_one
from tabsynth.schema.schema import DEFAULT_NULL_VALUES, Schema, duplicates
from tabsynth.tables.formulas import is_formula

# Whole numbers with at most FEW values are drafted as codes, not as amounts. Other numbers are, too, that
# have so many rows a value, and more values if those are sparse: such a part of all steps between the bounds.
OFTEN, CODES, SPARSE = 10, 256, 0.1
MIN_COUNT = 10  # rows that a category must have to be listed
CODED = 0.9  # of the rows: codes that so many rows have are worth listing
NEARLY_UNIQUE = 0.5  # different values for each row: of texts
ALL_DIFFERENT = 0.98  # of whole numbers, which may be amounts
ONE_LENGTH = 0.99  # of the rows: numbers of so many digits each are numbers of records
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
OTHER_TEXTS = (
    "other",
    "(other)",
    "<other>",
)  # what rare texts become: the first that is no null text
_REAL = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,3})?")
_WHOLE = re.compile(r"[+-]?(0|[1-9]\d*)")


class _LeftOut(Exception):
    """Why a column is not drafted, in a clause that shows no value of a few rows."""


def draft_schema(
    table: pd.DataFrame,
    null_values: Sequence[str] = DEFAULT_NULL_VALUES,
    min_count: int = MIN_COUNT,
) -> Schema:
    """Draft a schema from a table; texts that are all numbers become numbers.

    Parameters
    ----------
    table : DataFrame
    null_values : sequence of str
        Texts that mean null in CSV files.
    min_count : int
        Number of rows that a category must have to be listed. Rarer ones become ``other``; a column of
        which no category has so many rows is left out, and so is a numeric column with fewer than twice
        as many values. With 1 every category is listed, and bounds are exact extremes: of public tables
        only.

    Returns
    -------
    Schema
        Columns that identify people or records are not among its columns but in ``left_out``, each with
        the reason.

    Raises
    ------
    InputError
        For an empty table, duplicate columns, an all-null column or an unsupported dtype, and if every
        column would be left out.
    """
    integer("min_count", min_count)
    for name in duplicates([str(name) for name in table.columns]):
        raise InputError(f"The table has column {shown(name)} twice; rename or drop one.")
    if len(table) == 0 or len(table.columns) == 0:
        raise InputError("The table has no rows; give one with at least one row.")
    columns: list[Column] = []
    left_out: list[dict[str, str]] = []
    for label in table.columns:
        try:
            columns.append(_draft(str(label), table[label], tuple(null_values), min_count))
        except _LeftOut as reason:
            left_out.append({"name": str(label), "reason": str(reason)})
    if not columns:
        first = left_out[0]
        raise InputError(
            f"The draft leaves out every column of the table, {shown(first['name'])} because"
            f" {first['reason']}; declare by hand the columns that may be learned."
        )
    return Schema(columns, null_values, left_out=left_out)


def draft_public(values: pd.Series) -> Column:
    """A column as drafted from a table that is public: every value is listed, whatever it looks like."""
    return _column(str(values.name), values, DEFAULT_NULL_VALUES, 1)


def review(schema: Schema) -> list[str]:
    """What a person must check in a drafted schema, a line each; columns that were left out come first.

    No line shows a value of a column that was left out.
    """
    out = [
        f"{shown(item['name'])}: left out, {item['reason']}. To use it, declare the column by hand."
        for item in schema.left_out
    ]
    grouped = [c.name for c in schema.columns if c.provenance == "drafted" and c.other is not None]
    if grouped:
        out.append(
            f"Values of few rows are not listed, and taken together as 'other', in {len(grouped)} of the"
            f" columns: {', '.join(map(shown, grouped))}."
        )
    for column in schema.columns:
        if column.provenance != "drafted":
            continue
        name = shown(column.name)
        if column.kind == "numeric":
            cells = f" and its {len(column.breaks)} breaks" if column.breaks else ""
            clipped = ", and values outside become the nearest bound" if column.clip else ""
            out.append(
                f"{name}: bounds [{column.low:g}, {column.high:g}]{cells} were read off this table{clipped};"
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
        if size == 1:
            out.append(f"{name}: constant here; list the categories it may take elsewhere.")
        else:
            out.append(
                f"{name}: {size} categories seen in this table ({column.kind}); list those of the"
                " codebook, in their order if they have one."
            )
    return out


def _draft(name: str, values: pd.Series, null_values: Sequence[str], least: int) -> Column:
    """A column of a table, or why it is left out."""
    if named_for_one(name):
        raise _LeftOut("its name is that of an identifier")
    column = _column(name, values, null_values, least, by_rows=True)
    reason = identifying(column)
    if reason is not None:
        raise _LeftOut(reason)
    return column


def _column(
    name: str, values: pd.Series, null_values: Sequence[str], least: int, by_rows: bool = False
) -> Column:
    """``by_rows``: whether to leave out what hardly any two rows share."""
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
        return _draft_numbers(known, common, least, by_rows)
    if base_dtype(dtype) == "bool":  # its values are those of the dtype, not of the rows
        return Column(kind="categorical", categories=(False, True), **common)
    if isinstance(known.dtype, pd.CategoricalDtype):  # it may list values that no row has
        kind, found = "ordinal" if known.dtype.ordered else "categorical", known.value_counts()
        rows = {native(v): int(found[v]) for v in known.dtype.categories if found[v] or least == 1}
    else:
        kind, found = "categorical", known.map(native).value_counts()
        rows = dict(sorted(found.items(), key=lambda item: (str(type(item[0])), str(item[0]))))
    if by_rows and (reason := _unique(rows, len(known), least)):
        raise _LeftOut(reason)
    return _discrete(kind, rows, common, null_values, least)


def _unique(rows: dict[Any, int], known: int, least: int) -> str | None:
    """Why a column of texts has too many different values for a list of categories, if it has."""
    if len(rows) <= FEW:
        return None
    texts = [v for v in rows if not (isinstance(v, str) and _REAL.fullmatch(v))]
    if 0 < len(texts) <= ODD:
        known_nulls = " ".join(f"--null {shown(text)}" for text in texts if rows[text] >= least)
        return (
            f"all but {len(texts)} of its values are numbers; if the others mean missing, draft again with"
            f" {known_nulls or '--null for each of them'}"
        )
    return "nearly every row has a value of its own" if len(rows) > NEARLY_UNIQUE * known else None


def _discrete(
    kind: Any, rows: dict[Any, int], common: dict[str, Any], null_values: Sequence[str], least: int
) -> Column:
    """A column of categories from the number of rows of each, in their order."""
    kept = [value for value, number in rows.items() if number >= least or least == 1]
    if not kept or (len(kept) < len(rows) and isinstance(kept[0], bool)):
        raise _LeftOut(f"none of its values is that of {least} rows or more")
    if len(kept) == len(rows):
        return Column(kind=kind, categories=tuple(kept), **common)
    other = _other(kept, common["dtype"], null_values)
    first = [] if isinstance(other, str) or other in kept else [other]
    last = [] if first or other in kept else [other]
    return Column(kind=kind, categories=(*first, *kept, *last), other=other, **common)


def _other(kept: list[Any], dtype: str, null_values: Sequence[str]) -> Any:
    """What stands for rare values: a function of the listed categories alone."""
    if isinstance(kept[0], str):
        return next(text for text in _other_texts() if text not in null_values)
    if dtype.lower().startswith("uint"):
        most = int(np.iinfo(dtype.lower()).max)
        return next(most - i for i in range(len(kept) + 1) if most - i not in kept)
    markers = (type(kept[0])(-1 - i) for i in range(len(kept) + 1))
    return next(number for number in markers if number not in kept)


def _other_texts() -> Iterator[str]:
    yield from OTHER_TEXTS
    yield from (f"other {i}" for i in count(2))


def _draft_numbers(known: pd.Series, common: dict[str, Any], least: int, by_rows: bool) -> Column:
    values = known.to_numpy(dtype=float)
    distinct, counts = np.unique(values, return_counts=True)
    if not np.isfinite(distinct).all():
        raise InputError(f"Column {shown(common['name'])} holds an infinite value; remove it.")
    low, high = _extremes(distinct, counts, least)
    decimals = _decimals(known, common["dtype"], high - low, least)
    step = None if decimals is None else float(f"1e-{decimals}")
    usual = int(
        ((distinct >= low) & (distinct <= high)).sum()
    )  # a typing error makes no list of codes
    few = usual <= FEW or (usual <= CODES and _sparse(usual, low, high, step))
    often = len(values) >= OFTEN * usual
    listed = counts[counts >= least].sum() >= CODED * len(values)
    if few and listed and (often or (decimals == 0 and usual <= FEW)):
        kind: Any = "ordinal" if len(distinct) > 2 else "categorical"
        rows = {
            native(value): number for value, number in known.value_counts().sort_index().items()
        }
        return _discrete(kind, rows, common, (), least)
    if by_rows and decimals == 0 and _numbered(values, len(distinct)):
        raise _LeftOut("nearly every row has a whole number of its own")
    if by_rows and decimals == 0 and high - low > MAX_STEPS:
        raise _LeftOut("its whole numbers have too many digits")
    if len(values) < 2 * least and least > 1:
        raise _LeftOut(f"fewer than {2 * least} rows have a value")
    if least > 1:
        low, high = _outwards(low, high, distinct, counts, least, step, common["dtype"])
    if decimals is not None:  # in short floats the bounds are not quite on their step
        low, high = (round(end, decimals) if decimals else int(end) for end in (low, high))
    inside = np.clip(values, low, high)
    breaks = _breaks(inside, low, high, step, least) if math.isfinite(high - low) else ()
    return Column(
        kind="numeric", low=low, high=high, resolution=step, breaks=breaks, clip=least > 1, **common
    )


def _numbered(values: np.ndarray, distinct: int) -> bool:
    """Whether whole numbers seem to number people or records: all different, or of one length."""
    if distinct > max(FEW, ALL_DIFFERENT * len(values)):
        return True
    if distinct <= max(FEW, NEARLY_UNIQUE * len(values)):
        return False
    least, most = np.quantile(values, (1 - ONE_LENGTH, ONE_LENGTH), method="nearest")
    return bool(least >= 10 ** (LONG - 2) and _power(least) == _power(most))


def _extremes(distinct: np.ndarray, counts: np.ndarray, least: int) -> tuple[float, float]:
    """The ``least``-th smallest and the ``least``-th largest value; the extremes, if these have crossed."""
    up, down = np.cumsum(counts), np.cumsum(counts[::-1])
    last = len(distinct) - 1
    low = float(distinct[min(int(np.searchsorted(up, least)), last)])
    high = float(distinct[last - min(int(np.searchsorted(down, least)), last)])
    return (low, high) if low <= high else (high, low)


def _outwards(
    low: float,
    high: float,
    distinct: np.ndarray,
    counts: np.ndarray,
    least: int,
    step: float | None,
    dtype: str,
) -> tuple[float, float]:
    """Bounds of two significant digits, but for an end that ``least`` rows hold: a zero or a top code."""
    span = high - low
    if not 0 < span < math.inf:
        return low, high
    power = _power(span) - 1
    if step is not None:
        power = max(power, round(math.log10(step)))
    common = dict(zip(distinct.tolist(), (counts >= least).tolist(), strict=True))
    if not common[low]:
        low = _rounded(low, power, math.floor)
    if not common[high]:
        high = _rounded(high, power, math.ceil)
    if base_dtype(dtype) == "int":
        limits = np.iinfo(dtype.lower())
        low, high = max(low, float(limits.min)), min(high, float(limits.max))
    return low, high


def _rounded(number: float, power: int, way: Callable[[float], int]) -> float:
    unit = 10.0 ** abs(power)
    return float(way(number * unit) / unit if power < 0 else way(number / unit) * unit)


def _sparse(distinct: int, low: float, high: float, step: float | None) -> bool:
    return step is None or distinct <= SPARSE * steps_in(low, high, step)


def _decimals(known: pd.Series, dtype: str, span: float, least: int) -> int | None:
    """How many decimals the numbers of all but fewer than ``least`` rows have; None if they have too many."""
    if base_dtype(dtype) == "int":
        return 0
    numbers = known.to_numpy(dtype=dtype.lower())
    for decimals in range(FINEST + 1):
        if span * 10.0**decimals > MAX_STEPS:
            return None
        if (np.round(numbers, decimals) != numbers).sum() < least:
            return decimals
    return None


def _breaks(
    values: np.ndarray, low: float, high: float, step: float | None, rows: int
) -> tuple[int | float, ...]:
    """Where the cells begin, if equally wide ones would lose what the table holds; else none.

    A value that many rows have, such as 0 or a top code, is kept apart; a skewed column has cells that
    widen away from 0. No value is kept apart, and no cell begun, for fewer than ``rows`` rows.
    """
    if low == high or (step is not None and steps_in(low, high, step) <= DEFAULT_BINS):
        return ()
    spikes = np.empty(0) if step is None else _spikes(values, rows)
    rest = values[~np.isin(values, spikes)]
    ladders = (_round_breaks(rest, low, high, step, ladder, rows) for ladder in ROUND)
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


def _spikes(values: np.ndarray, rows: int) -> np.ndarray:
    """Single values of many rows, and of many more than the others."""
    distinct, counts = np.unique(values, return_counts=True)
    least = max(SPIKE * len(values), SPIKE_ROWS, rows, OFTENER * len(values) / len(distinct))
    return distinct[counts >= least]


def _round_breaks(
    values: np.ndarray,
    low: float,
    high: float,
    step: float | None,
    ladder: Sequence[float],
    rows: int,
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
    rare = max(RARE, rows / len(values)) if rows > 1 else RARE
    kept, last = [], 0.0
    for start, share in zip(starts.tolist(), below.tolist(), strict=True):
        if min(share - last, 1 - share) >= rare:
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
    """Texts that are all plain numbers become numbers; leading zeros (postcodes) and long ones stay text."""
    distinct = texts.unique()
    if not all(isinstance(value, str) for value in distinct):
        return texts
    if all(_WHOLE.fullmatch(value) and len(value) < 16 for value in distinct):
        return texts.astype("int64")
    if any(re.fullmatch(r"[+-]?(0\d+|\d{16,})", value) for value in distinct):
        return texts
    if not all(_REAL.fullmatch(value.strip()) for value in distinct):
        return texts
    # strip() takes off spaces that neither float() nor numpy knows.
    return texts.map({value: float(value.strip()) for value in distinct}).astype("float64")
