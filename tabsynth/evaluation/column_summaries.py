"""Each column by itself, in the training and the synthetic table: histogram, mean, deviation, quantiles.

Shares of a column of numbers, dates or times are those of intervals of an axis, so that a picture can divide them by
their widths.

Heaping is the preference for round numbers when people read a scale or state an amount: Roberts & Brewer 2001, "Measures
and tests of heaping in discrete quantitative distributions", Journal of Applied Statistics 28. What is compared here are
plain shares of multiples.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from tabsynth.evaluation.results import ColumnSummary, Heaping, Moments, Share
from tabsynth.evaluation.weighting import mean_share, quantiles, shares
from tabsynth.schema.column import Column
from tabsynth.schema.numeric import STEP_TOLERANCE, Numeric
from tabsynth.schema.schema import Schema

TOP_CATEGORIES = 30
MAX_STEPS = 100
FEW_VALUES = 32  # single values of equal distance that are a label each
TOLERANCE = 1e-6  # relative, of widths
# Single values are kept apart from an axis on which they would be so many times higher than all intervals, and if
# they have such a part of the rows; at most so many.
SPIKE, SPIKE_SHARE, MAX_APART = 3.0, 0.005, 6
QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
MULTIPLES = (0.5, 1.0, 5.0, 10.0, 50.0, 100.0, 1000.0)
# A column is clearly heaped at a multiple if, among its values that are multiples of the next finer one, the share e that
# would be multiples by chance is exceeded by e (1 - e), and by this much. Zero and the most common value do not count,
# since they may be common for other reasons.
MORE = 0.05
MIN_STEPS = 5  # multiples between the 1% and the 99% quantile
MIN_VALUES = 20


def column_summaries(
    schema: Schema,
    train: np.ndarray,
    synthetic: np.ndarray,
    scores: Sequence[np.ndarray | None] | None = None,
    heaped: Mapping[str, Heaping] | None = None,
    weights: tuple[np.ndarray | None, np.ndarray | None] = (None, None),
) -> tuple[ColumnSummary, ...]:
    """Return a summary of every column; tables as category codes, shape (rows, columns).

    ``scores`` as in :class:`tabsynth.evaluation.Tables`; without them there are no moments. ``heaped``: by column, as
    :func:`heaping` found it. ``weights``: of the rows of both tables.
    """
    out = []
    for j, column in enumerate(schema.columns):
        both = [
            (table[:, j], weight) for table, weight in zip((train, synthetic), weights, strict=True)
        ]
        summary = _summary_of(column, *(shares(codes, column.size, w) for codes, w in both))
        numbers = None if scores is None else scores[j]
        if numbers is not None and (axis := column.axis()) is not None:
            middles = (axis[1][:-1] + axis[1][1:]) / 2
            numbers = np.append(middles, np.full(column.size - column.cells, np.nan))
        if numbers is not None:
            real, drawn = (moments(numbers[codes], w) for codes, w in both)
            summary = replace(summary, moments=(real, drawn))
        out.append(replace(summary, heaping=(heaped or {}).get(column.name)))
    return tuple(out)


def moments(values: np.ndarray, weights: np.ndarray | None = None) -> Moments:
    """Return the moments of numbers, shape (rows,); NaN counts as null. Of weighted rows, the variance is times n / (n − 1) for n rows."""
    used = np.isfinite(values) if weights is None else np.isfinite(values) & (weights > 0)
    finite, each = values[used], None if weights is None else weights[used]
    n = len(finite)
    if n == 0:
        return Moments(math.nan, math.nan, (math.nan,) * len(QUANTILES))
    mean = float(np.average(finite, weights=each))
    variance = float(np.average((finite - mean) ** 2, weights=each)) * n / max(1, n - 1)
    deviation = math.sqrt(variance) if n > 1 else math.nan
    return Moments(mean, deviation, tuple(quantiles(finite, QUANTILES, each).tolist()))


def _summary_of(column: Column, real: np.ndarray, synthetic: np.ndarray) -> ColumnSummary:
    both = np.stack([real, synthetic])
    values, missing = both[:, : column.cells], both[:, column.cells :]
    axis, spans, folded = "", np.empty((0, 2)), 0
    if column.ordered:
        axis, edges = _axis(column)
        apart, joined = _spikes(column, values, edges) if axis == "number" else ([], [])
        labels, spans, values = _group_cells(column, edges, values, apart, joined)
    else:
        labels, values, folded = _top(column, values)
    labels += [column.label(code) for code in range(column.cells, column.size)]
    values = np.concatenate([values, missing], axis=1)
    return ColumnSummary(
        column.name,
        column.kind,
        column.description,
        tuple(labels),
        tuple(values[0].tolist()),
        tuple(values[1].tolist()),
        axis,
        tuple((low, high) for low, high in spans.tolist()),
        folded,
        column.size - column.cells,
        0.5 * float(np.abs(real - synthetic).sum()),
    )


def _axis(column: Column) -> tuple[str, np.ndarray]:
    """Return the kind of axis and the edges of the cells, shape (cells + 1,); ranks for a few single values."""
    axis = column.axis()
    if axis is not None:
        widths = np.diff(axis[1])
        even = bool(np.ptp(widths) <= TOLERANCE * widths.max())
        if not (column.cells <= FEW_VALUES and even and _single(column).all()):
            return axis
    return "rank", np.arange(column.cells + 1, dtype=float)


def _single(column: Column) -> np.ndarray:
    """Return which cells hold one value, bool, shape (cells,)."""
    lows, highs = column.code_amounts()
    return np.asarray(highs - lows < TOLERANCE * (column.amount_step or 0.0))


def _spikes(column: Column, shares: np.ndarray, edges: np.ndarray) -> tuple[list[int], list[int]]:
    """Return cells of one value each whose density would hide that of the others.

    Those with many rows are drawn beside the axis; the others are taken together with the next cell.
    """
    single = _single(column)
    if single.all() or not single.any():
        return [], []
    largest = shares.max(axis=0)
    densities = largest / np.diff(edges)
    spikes = np.flatnonzero(single & (densities > SPIKE * float(densities[~single].max())))
    common = spikes[largest[spikes] >= SPIKE_SHARE]
    apart = common[np.argsort(-largest[common], kind="stable")][:MAX_APART]
    return sorted(apart.tolist()), np.setdiff1d(spikes, apart).tolist()


def _top(column: Column, shares: np.ndarray) -> tuple[list[str], np.ndarray, int]:
    """Return the commonest categories in the schema's order, and the others as one."""
    cells = shares.shape[1]
    if cells <= TOP_CATEGORIES:
        return [column.label(i) for i in range(cells)], shares, 0
    order = np.argsort(-shares.sum(axis=0), kind="stable")
    keep = np.sort(order[:TOP_CATEGORIES])
    remainder = shares[:, order[TOP_CATEGORIES:]].sum(axis=1, keepdims=True)
    folded = cells - TOP_CATEGORIES
    labels = [column.label(int(i)) for i in keep] + [f"{folded} others"]
    return labels, np.concatenate([shares[:, keep], remainder], axis=1), folded


def _group_cells(
    column: Column,
    edges: np.ndarray,
    shares: np.ndarray,
    apart: Sequence[int],
    joined: Sequence[int],
) -> tuple[list[str], np.ndarray, np.ndarray]:
    """Return labels, spans and shares of cells in order, then those apart.

    Neighbours are taken together where there are many, and where a cell is to be ``joined`` with the next.
    """
    on_axis = np.setdiff1d(np.arange(shares.shape[1]), apart)
    runs = np.split(on_axis, np.flatnonzero(np.diff(on_axis) > 1) + 1)
    every = max(1, math.ceil(len(on_axis) / MAX_STEPS))
    groups: list[np.ndarray] = []
    for run in runs:
        parts = [run[i : i + every] for i in range(0, len(run), every)]
        for part in parts:
            if groups and part is not parts[0] and groups[-1][-1] in joined:
                groups[-1] = np.append(groups[-1], part)
            else:
                groups.append(part)
    labels = []
    for first, last in ((int(group[0]), int(group[-1])) for group in groups):
        low, high = column.label(first), column.label(last)
        if first != last:
            joint = " to " if " to " in low else "–"
            low = f"{low.split(joint)[0]}{joint}{high.split(joint)[-1]}"
        labels.append(low)
    spans = np.array([[edges[group[0]], edges[group[-1] + 1]] for group in groups])
    totals = [shares[:, group].sum(axis=1, keepdims=True) for group in groups]
    labels += [column.label(cell) for cell in apart]
    return labels, spans, np.concatenate([*totals, shares[:, list(apart)]], axis=1)


def heaping(
    column: Numeric,
    real: pd.Series,
    synthetic: pd.Series,
    weights: tuple[np.ndarray | None, np.ndarray | None] = (None, None),
) -> Heaping | None:
    """Return the heaping of a column in two tables; None where it is neither declared nor clear in the real values.

    Parameters
    ----------
    column : Numeric
    real, synthetic : Series, shape (rows,) each
        In the column's dtype; nulls are left out.
    weights : tuple of (ndarray or None)
        Of the rows of both.
    """
    numbers, each = [], []
    for values, weight in zip((real, synthetic), weights, strict=True):
        amounts = column.amounts(values)
        used = np.isfinite(amounts) if weight is None else np.isfinite(amounts) & (weight > 0)
        numbers.append(amounts[used])
        each.append(None if weight is None else weight[used])
    chosen = column.heaping or clear_multiples(numbers[0], column.step, each[0])
    if not chosen or not all(map(len, numbers)):
        return None
    both = list(zip(numbers, each, strict=True))
    multiples = [
        Share(f"multiples of {multiple:g}", *(_share(part, multiple, w) for part, w in both))
        for multiple in chosen
    ]
    return Heaping(tuple(multiples))


def clear_multiples(
    numbers: np.ndarray, step: float | None, weights: np.ndarray | None = None
) -> tuple[float, ...]:
    """Return the numbers whose multiples are clearly preferred among some values, the coarsest first."""

    def those(chosen_rows: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
        return values[chosen_rows], None if each is None else each[chosen_rows]

    values, each = numbers, weights
    values, each = those(values != 0)
    if len(values) < MIN_VALUES:
        return ()
    distinct, of_values = _shares(values, each)
    values, each = those(values != distinct[of_values.argmax()])
    if not len(values):
        return ()
    low, high = quantiles(values, (0.01, 0.99), each)
    finest, clear = step or 0.0, [0.0]
    for multiple in MULTIPLES:
        finer = clear[-1] or finest
        nested = finer == 0 or bool(_is_multiple(np.array([multiple]), finer)[0])
        if multiple <= finer or not nested or (high - low) / multiple < MIN_STEPS:
            continue
        among, of_among = those(_is_multiple(values, finer)) if finer else (values, each)
        even = finer / multiple
        if len(among) and _share(among, multiple, of_among) > even + max(MORE, even * (1 - even)):
            clear.append(multiple)
    return tuple(clear[:0:-1])


def _share(numbers: np.ndarray, multiple: float, weights: np.ndarray | None) -> float:
    return mean_share(_is_multiple(numbers, multiple), weights)


def _shares(numbers: np.ndarray, weights: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """Return the different numbers, and the (weighted) share of each."""
    distinct, inverse = np.unique(numbers, return_inverse=True)
    return distinct, shares(inverse, len(distinct), weights)


def _is_multiple(numbers: np.ndarray, multiple: float) -> np.ndarray:
    ratio = numbers / multiple
    return np.asarray(np.abs(ratio - np.round(ratio)) < STEP_TOLERANCE)
