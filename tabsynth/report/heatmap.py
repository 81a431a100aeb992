"""Heat map and strips, which ``heat.svg`` and ``strip.svg`` draw as inline SVG without matplotlib.

On the report of the bundled census (10 columns, 20 metrics, one core) the heat map takes 7 kB and 24 ms, in
matplotlib 27 kB and 0.76 s; the strips take 14 kB and 29 ms, in matplotlib 64 kB and 3.6 s. Inline, the marks also
follow the colours of the page, their text can be selected, and each names itself to pointers and screen readers.
"""

import math
from collections.abc import Mapping, Sequence

from tabsynth._typing import JsonObject
from tabsynth.evaluation.results import Distance, Distances, Estimate
from tabsynth.report.page import abbreviate

MOST_COLUMNS = 40  # in a heat map: of wider tables, those with the worst pairs
CELL = 22
MOST_LETTERS = 24
# Marks differ by shape as well as by colour; drawn about (0, 0).
SHAPES = {
    "synthetic": "M-4,0a4,4 0 1,0 8,0a4,4 0 1,0 -8,0z",
    "holdout": "M0,-5L5,0L0,5L-5,0z",
    "baseline": "M0,-4.5L4.8,4L-4.8,4z",
}
LEVELS = 5  # shades: a class each, so that light and dark pages have their own
WIDTH, MARGIN = 200, 6  # of a strip


def heat_map(distances: Sequence[Distances], names: Sequence[str]) -> JsonObject | None:
    """Return a picture of the 2-way distance of every pair of columns; the diagonal is each column's own distance.

    None where there are no pairs. Shades are 0, and fifths of the way to the worst pair.
    """
    by_order = {item.order: item.synthetic for item in distances}
    if 2 not in by_order:
        return None
    values = {(marginal.columns[0],) * 2: marginal.value for marginal in by_order[1].marginals}
    for marginal in by_order[2].marginals:
        first, second = marginal.columns
        values[first, second] = values[second, first] = marginal.value
    columns = _shown_columns(by_order[2], names)
    pairs = [marginal.value for marginal in by_order[2].marginals]
    worst = max([*pairs, 1e-12])
    cells = []
    for row, side in enumerate(columns):
        for column, top in enumerate(columns[: row + 1]):
            value = values.get((side, top))
            if value is not None:
                level = min(LEVELS, math.floor(value / worst * LEVELS) + 1) if value > 0 else 0
                name = side if side == top else f"{top} × {side}"
                cells.append((row, column, level, name, value))
    margin = 16 + max(map(_wide, columns))
    size = margin + len(columns) * CELL
    (furthest,) = by_order[2].furthest(1)
    return {
        "names": [abbreviate(name, MOST_LETTERS) for name in columns],
        "cells": cells,
        "cell": CELL,
        "levels": LEVELS,
        "top": worst,
        "margin": margin,
        "width": max(size + 4, 300),
        "height": size + 44,
        "about": f"Heat map of the distance of {len(pairs)} pairs of columns, from 0 to {worst:.3f};"
        f" the worst is {' × '.join(furthest.columns)}.",
    }


def _shown_columns(pairs: Distance, names: Sequence[str]) -> list[str]:
    """Return all columns in their order, or those of the worst pairs of a wide table."""
    if len(names) <= MOST_COLUMNS:
        return list(names)
    shown = pairs.furthest_columns(MOST_COLUMNS)
    return [name for name in names if name in shown]


def _wide(text: str) -> int:
    """Return about how many pixels a label takes."""
    return sum(7 if letter.isascii() else 12 for letter in abbreviate(text, MOST_LETTERS))


def strip(estimates: Mapping[str, Estimate], best: float | None) -> JsonObject:
    """Return one axis with a mark and interval for each estimate, by the class of its mark; it holds the best value."""
    ends = [end for e in estimates.values() for end in (e.value, e.low, e.high)]
    ends = [end for end in (*ends, best) if end is not None and math.isfinite(end)]
    low, high = min(ends, default=0.0), max(ends, default=1.0)
    span = high - low if high > low else 1.0

    def place(value: float) -> float:
        return round(MARGIN + (value - low) / span * (WIDTH - 2 * MARGIN), 1)

    marks = [
        {
            "name": name,
            "value": e.value,
            "place": place(e.value),
            "interval": (place(e.low), place(e.high)) if math.isfinite(e.low + e.high) else None,
        }
        for name, e in estimates.items()
        if math.isfinite(e.value)
    ]
    return {"width": WIDTH, "axis": (MARGIN, WIDTH - MARGIN), "marks": marks, "shapes": SHAPES}
