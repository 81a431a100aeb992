"""Drafts of columns of numbers."""

import math
from collections.abc import Callable

import numpy as np

from tabsynth._typing import JsonObject
from tabsynth._validate import quote
from tabsynth.drafting.catalogue import catalogue
from tabsynth.drafting.formats import ELSEWHERE, WORD, number_text
from tabsynth.drafting.identifiers import FEW, RECORD_NUMBERS, are_record_numbers, named_for_codes
from tabsynth.drafting.partition import EACH, SHAPE, cell_breaks, edges_of_numbers, split_far
from tabsynth.drafting.source import DraftSource, LeftOut, not_numeric, with_public_facts
from tabsynth.errors import InputError
from tabsynth.schema.cells import base_dtype
from tabsynth.schema.column import Column
from tabsynth.schema.numeric import DEFAULT_BINS, MAX_STEPS, Numeric, step_count

# Drafts. Whole numbers with at most FEW values are drafted as codes, not as amounts. Other numbers are, too, that
# have so many rows a value, and more values if those are sparse: such a part of all steps between the bounds.
OFTEN, MAX_CODES, SPARSE = 10, 256, 0.1
MOST_CODES = 3  # whole numbers next to each other that are taken to be codes
LONG_NUMBER = 10**6  # whole numbers that may be of people, even if they repeat: none is listed
CODED = 0.9  # of the rows: codes that so many rows have are worth listing
# Values beyond the outer hundredth of the rows by so many times its distance from the median are no bounds.
TAIL, STRAY = 0.01, 10
FINEST = 6  # decimals of a resolution
# A single value has a cell of its own that has this share of the rows, so many rows, and so many times
# the rows of others.
SPIKE, SPIKE_ROWS, OFTENER = 0.02, 20, 5
RARE = 0.0005  # of the rows: a round cell with fewer is one with the next


def draft_numeric(source: DraftSource) -> Column | None:
    """Draft a column of numbers, with rounded bounds and cells; None for numbers that are codes."""
    if base_dtype(source.dtype) not in ("int", "float"):
        return None
    min_count, values = source.min_count, source.values.to_numpy(dtype=float)
    distinct, counts = np.unique(values, return_counts=True)
    if not np.isfinite(distinct).all():
        raise InputError(f"Column {quote(source.name)} holds an infinite value; remove it.")
    different, signs = len(distinct), source.format not in ("{}", "{,}")
    far = [] if signs or min_count == 1 else _far(distinct, counts, min_count)
    near = ~np.isin(distinct, far)
    distinct, counts, values = distinct[near], counts[near], values[~np.isin(values, far)]
    if min_count > 1:
        distinct, counts = _without_stray(distinct, counts)
    low, high = _extremes(distinct, counts, min_count)
    decimals = _draft_decimals(source, high - low)
    step = None if decimals is None else float(f"1e-{decimals}")
    # Values outside the extremes are not counted: a typing error makes no list of codes.
    usual = int(((distinct >= low) & (distinct <= high)).sum())
    few = usual <= FEW or (usual <= MAX_CODES and _sparse(usual, low, high, step))
    often = len(values) >= OFTEN * usual
    listed = counts[counts >= min_count].sum() >= CODED * len(values)
    long = decimals == 0 and high >= LONG_NUMBER
    codes = few and listed and not long and (often or (decimals == 0 and usual <= FEW))
    counted = min_count > 1 and decimals == 0 and _are_counts(usual, low, high)
    has_sign = signs and step is not None
    if codes and not has_sign and (not counted or named_for_codes(source.name)):
        return None
    if source.words and (step is None or min(source.words.values()) < min_count):
        raise not_numeric(source.words, min_count)
    may_number_records = source.leave_out and decimals == 0 and not has_sign
    if may_number_records and are_record_numbers(different, len(values)):
        raise LeftOut(RECORD_NUMBERS)
    if may_number_records and high - low > MAX_STEPS:
        raise LeftOut("its whole numbers have too many digits")
    if len(values) < 2 * min_count and min_count > 1:
        raise LeftOut(f"fewer than {2 * min_count} rows have a value")
    if min_count > 1:
        low, high = _outwards(low, high, distinct, counts, min_count, step, source.dtype)
    if decimals is not None:  # in short floats the bounds are not quite on their step
        low, high = (round(end, decimals) if decimals else int(end) for end in (low, high))
    hint = catalogue().hint_of(source.name) if min_count > 1 else None
    public: JsonObject = {}
    if hint is not None and hint.limits is not None:
        lowest, highest = hint.limits
        if low < lowest <= high and (values < lowest).sum() < min_count:
            public["low"] = low = lowest
        if low <= highest < high and (values > highest).sum() < min_count:
            public["high"] = high = highest
    inside = np.clip(values, low, high)
    breaks = _draft_breaks(inside, low, high, step, min_count) if math.isfinite(high - low) else ()
    steps = 0 if step is None or breaks else step_count(low, high, step)
    of_text = {"dtype": "str", "format": source.format} if has_sign or source.words else {}
    codes_of_missing = (code for code in map(number_text, far) if code not in source.null_values)
    column = Numeric(
        low=low,
        high=high,
        resolution=step,
        bins=steps if DEFAULT_BINS < steps <= EACH else None,
        breaks=breaks,
        clip=min_count > 1,
        missing=dict.fromkeys(source.words, WORD) | dict.fromkeys(codes_of_missing, ELSEWHERE),
        copied_from_private_rows=(*Numeric.copied_facts, "dtype", "nulls", "missing"),
        **(source.facts | of_text),
    )
    return with_public_facts(column, hint.name, public) if hint and public else column


def review_numeric(column: Numeric) -> list[str]:
    """Return what a person must check in a draft of numbers, a line each."""
    cells = f" and its {len(column.breaks)} breaks" if column.breaks else ""
    clipped = ", and values outside become the nearest bound" if column.clip else ""
    missing = "".join(f", {quote(key)} means missing" for key in column.missing)
    return [
        f"{quote(column.name)}: bounds [{column.low:g}, {column.high:g}]{cells} were read off this"
        f" table{missing}{clipped}; declare those of the questionnaire or codebook."
    ]


def _far(distinct: np.ndarray, counts: np.ndarray, min_count: int) -> list[float]:
    """Return values of at least ``min_count`` rows that are far from all others, by those near nearly all others."""
    near, rows = _without_stray(distinct, counts)
    near, rows = near[rows < min_count], rows[rows < min_count]
    ends = _extremes(near, rows, min_count) if rows.sum() >= 2 * min_count else ()
    return split_far(distinct[counts >= min_count].tolist(), ends)[1]


def _without_stray(distinct: np.ndarray, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return values and their counts without those that are so far from nearly all others that they may be typing errors."""
    shares = np.cumsum(counts) / counts.sum()
    few, half, many = (
        float(distinct[np.searchsorted(shares, share)]) for share in (TAIL, 0.5, 1 - TAIL)
    )
    low = few - STRAY * (half - few) if few < half else -math.inf
    high = many + STRAY * (many - half) if half < many else math.inf
    near = (distinct >= low) & (distinct <= high)
    return distinct[near], counts[near]


def _extremes(distinct: np.ndarray, counts: np.ndarray, min_count: int) -> tuple[float, float]:
    """Return the ``least``-th smallest and the ``least``-th largest value; the extremes, if these have crossed."""
    up, down = np.cumsum(counts), np.cumsum(counts[::-1])
    last = len(distinct) - 1
    low = float(distinct[min(int(np.searchsorted(up, min_count)), last)])
    high = float(distinct[last - min(int(np.searchsorted(down, min_count)), last)])
    return (low, high) if low <= high else (high, low)


def _outwards(
    low: float,
    high: float,
    distinct: np.ndarray,
    counts: np.ndarray,
    min_count: int,
    step: float | None,
    dtype: str,
) -> tuple[float, float]:
    """Return bounds of two significant digits, but for an end that ``least`` rows hold: a zero or a top code."""
    span = high - low
    if not 0 < span < math.inf:
        return low, high
    power = _power(span) - 1
    if step is not None:
        power = max(power, round(math.log10(step)))
    common = dict(zip(distinct.tolist(), (counts >= min_count).tolist(), strict=True))
    if not common[low]:
        low = _round_to(low, power, math.floor)
    if not common[high]:
        high = _round_to(high, power, math.ceil)
    if base_dtype(dtype) == "int":
        limits = np.iinfo(dtype.lower())
        low, high = max(low, float(limits.min)), min(high, float(limits.max))
    return low, high


def _round_to(number: float, power: int, way: Callable[[float], int]) -> float:
    unit = 10.0 ** abs(power)
    return float(way(number * unit) / unit if power < 0 else way(number / unit) * unit)


def _sparse(distinct: int, low: float, high: float, step: float | None) -> bool:
    return step is None or distinct <= SPARSE * step_count(low, high, step)


def _are_counts(distinct: int, low: float, high: float) -> bool:
    """Return whether few whole numbers may be counts or grades: more than half of those from the least to the largest.

    Another table has others of them. As codes these would be refused, and as numbers they become the nearest bound.
    """
    return distinct > MOST_CODES and distinct > (high - low + 1) / 2


def _draft_decimals(source: DraftSource, span: float) -> int | None:
    """Return decimals of the numbers of all but fewer than ``min_count`` rows; None if they have too many."""
    if base_dtype(source.dtype) == "int":
        return 0
    numbers = source.values.to_numpy(dtype=source.dtype.lower())
    for decimals in range(FINEST + 1):
        if span * 10.0**decimals > MAX_STEPS:
            return None
        if (np.round(numbers, decimals) != numbers).sum() < source.min_count:
            return decimals
    return None


def _draft_breaks(
    values: np.ndarray, low: float, high: float, step: float | None, rows: int
) -> tuple[float, ...]:
    """Return where the cells begin, if equally wide ones would lose what the table holds; else none.

    A value that many rows have, such as 0 or a top code, is kept apart. No value is kept apart, and no cell begun, for fewer than
    ``rows`` rows.
    """
    spikes = np.empty(0) if step is None else _spikes(values, rows)
    edges = edges_of_numbers(step, SHAPE)
    edges = np.unique([low, *edges[(edges > low) & (edges < high)], high])
    sums = np.histogram(values[~np.isin(values, spikes)], edges)[0]
    shape = edges, np.where(sums >= max(rows, RARE * len(values)), sums, 0)
    breaks = cell_breaks(shape, low, high, spikes.tolist(), step)
    return tuple(map(int, breaks)) if step == 1 else breaks


def _spikes(values: np.ndarray, rows: int) -> np.ndarray:
    """Return single values of many rows, and of many more than the others."""
    distinct, counts = np.unique(values, return_counts=True)
    threshold = max(SPIKE * len(values), SPIKE_ROWS, rows, OFTENER * len(values) / len(distinct))
    return distinct[counts >= threshold]


def _power(number: float) -> int:
    return math.floor(math.log10(number))
