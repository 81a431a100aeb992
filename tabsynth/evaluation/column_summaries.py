"""Each column by itself, in the training and the synthetic table: histogram, mean, deviation, quantiles."""

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from tabsynth.evaluation.results import ColumnSummary, Moments
from tabsynth.evaluation.utility.marginals import histogram
from tabsynth.schema.column import Column
from tabsynth.schema.schema import Schema

TOP_CATEGORIES = 30
MAX_STEPS = 100
QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)


def column_summaries(
    schema: Schema,
    train: np.ndarray,
    synthetic: np.ndarray,
    scores: Sequence[np.ndarray | None] | None = None,
) -> tuple[ColumnSummary, ...]:
    """A summary of every column; tables as category codes, shape (rows, columns).

    ``scores`` as in :class:`tabsynth.evaluation.Tables`; without them there are no moments.
    """
    out = []
    for j, column in enumerate(schema.columns):
        codes = train[:, j], synthetic[:, j]
        summary = _shown(column, *(histogram(part, column.size) for part in codes))
        numbers = None if scores is None else scores[j]
        if numbers is not None:
            summary = replace(
                summary, moments=(moments(numbers[codes[0]]), moments(numbers[codes[1]]))
            )
        out.append(summary)
    return tuple(out)


def moments(values: np.ndarray) -> Moments:
    """Of numbers, shape (rows,); NaN counts as null."""
    finite = values[np.isfinite(values)]
    if len(finite) == 0:
        return Moments(math.nan, math.nan, (math.nan,) * len(QUANTILES))
    deviation = float(finite.std(ddof=1)) if len(finite) > 1 else math.nan
    quantiles = tuple(np.quantile(finite, QUANTILES).tolist())
    return Moments(float(finite.mean()), deviation, quantiles)


def _shown(column: Column, real: np.ndarray, synthetic: np.ndarray) -> ColumnSummary:
    cells = column.cells
    shares = np.stack([real[:cells], synthetic[:cells]])
    folded = 0
    if column.ordered:
        labels, shares, widths = _grouped(column, shares)
    else:
        labels, shares, folded = _top(column, shares)
        widths = [1.0] * len(labels)
    for code in range(cells, column.size):  # reasons for missing, and null
        labels.append(column.label(code))
        widths.append(1.0)
        shares = np.concatenate([shares, [[real[code]], [synthetic[code]]]], axis=1)
    return ColumnSummary(
        column.name,
        column.kind,
        column.description,
        tuple(labels),
        tuple(shares[0].tolist()),
        tuple(shares[1].tolist()),
        tuple(widths),
        folded,
        column.nulls,
        0.5 * float(np.abs(real - synthetic).sum()),
    )


def _top(column: Column, shares: np.ndarray) -> tuple[list[str], np.ndarray, int]:
    """The commonest categories in the schema's order, and the others as one."""
    cells = shares.shape[1]
    if cells <= TOP_CATEGORIES:
        return [column.label(i) for i in range(cells)], shares, 0
    order = np.argsort(-shares.sum(axis=0), kind="stable")
    keep = np.sort(order[:TOP_CATEGORIES])
    rest = shares[:, order[TOP_CATEGORIES:]].sum(axis=1, keepdims=True)
    folded = cells - TOP_CATEGORIES
    labels = [column.label(int(i)) for i in keep] + [f"{folded} others"]
    return labels, np.concatenate([shares[:, keep], rest], axis=1), folded


def _grouped(column: Column, shares: np.ndarray) -> tuple[list[str], np.ndarray, list[float]]:
    """Codes in order, neighbours taken together where there are many; and each group's width."""
    cells = shares.shape[1]
    starts = np.unique(np.linspace(0, cells, min(cells, MAX_STEPS) + 1).astype(int))
    labels = []
    for first, last in zip(starts[:-1].tolist(), (starts[1:] - 1).tolist(), strict=True):
        low, high = column.label(first), column.label(last)
        labels.append(low if first == last else f"{low.split('–')[0]}–{high.split('–')[-1]}")
    widths = np.add.reduceat(column.code_widths(), starts[:-1])
    return labels, np.add.reduceat(shares, starts[:-1], axis=1), widths.tolist()
