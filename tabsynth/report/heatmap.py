"""Heat map and strips, which ``heat.svg`` and ``strip.svg`` draw as inline SVG without matplotlib.

On the report of the bundled census (10 columns, 20 metrics, one core) the heat map takes 7 kB and 24 ms, in
matplotlib 27 kB and 0.76 s; the strips take 14 kB and 29 ms, in matplotlib 64 kB and 3.6 s. Inline, the marks also
follow the colours of the page, their text can be selected, and each names itself to pointers and screen readers.
"""

import math
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tabsynth._typing import JsonObject
from tabsynth.evaluation.metric import Evaluation
from tabsynth.evaluation.results import Distance, Estimate
from tabsynth.report.page import abbreviate

MOST_COLUMNS = 40  # in a heat map: of wider tables, those with the worst pairs
CELL, SHADE = 22, 36  # pixels of a cell, and of a shade in the legend
MOST_LETTERS = 24
# Marks differ by shape as well as by colour; drawn about (0, 0).
SHAPES = {
    "synthetic": "M-4,0a4,4 0 1,0 8,0a4,4 0 1,0 -8,0z",
    "holdout": "M0,-5L5,0L0,5L-5,0z",
    "baseline": "M0,-4.5L4.8,4L-4.8,4z",
    "memorizing": "M-4,-4h8v8h-8z",
}
LIMITS = (1, 2, 5, 10, 20)  # percentage points, of the shades: the same in all reports
WIDTH, MARGIN = 200, 6  # of a strip


@dataclass(frozen=True)
class Gap:
    """The excess distance of the table from the training table over that of other real people, in a column or a pair.

    Attributes
    ----------
    columns : tuple of str
    points : float
        Total variation distance less that of the hold-out reference, 0 or more, in percentage points of rows; without a
        hold-out the distance itself.
    lost : bool
        Whether the table is no nearer than independent columns. With a hold-out, a pair counts only if that is nearer.
    """

    columns: tuple[str, ...]
    points: float
    lost: bool = False

    @property
    def name(self) -> str:
        """The names of the columns, and how much further the table is."""
        return f"{' × '.join(self.columns)} ({self.points:.1f} percentage points)"


def gaps(evaluation: Evaluation, order: int) -> list[Gap]:
    """Return the gap of each column (order 1) or pair (2), the largest first; empty where there are none."""
    item = next((item for item in evaluation.distances if item.order == order), None)
    if item is None:
        return []
    out = []
    for i, (marginal, baseline) in enumerate(
        zip(item.synthetic.marginals, item.baseline.marginals, strict=True)
    ):
        reached, holdout = 0.0, item.holdout
        if holdout is not None:
            reached = evaluation.reference_scale * holdout.marginals[i].value
        lost = order > 1 and reached < baseline.value <= marginal.value
        points = 100 * max(0.0, marginal.value - reached)
        out.append(Gap(marginal.columns, points, lost))
    return sorted(out, key=lambda gap: -gap.points)


def heat_map(evaluation: Evaluation) -> JsonObject | None:
    """Return a picture of the gap of every pair of columns; the diagonal is each column's own. None where there are no pairs."""
    columns, pairs = gaps(evaluation, 1), gaps(evaluation, 2)
    if not pairs:
        return None
    values = {frozenset(gap.columns): gap for gap in (*columns, *pairs)}
    distance = next(item.synthetic for item in evaluation.distances if item.order == 2)
    names = _shown_columns(distance, [item.column for item in evaluation.columns])
    cells = []
    for row, side in enumerate(names):
        for column, top in enumerate(names[: row + 1]):
            gap = values.get(frozenset((side, top)))
            if gap is not None:
                cells.append((row, column, bisect_left(LIMITS, gap.points), gap))
    margin = 16 + max(map(_wide, names))
    size = margin + len(names) * CELL
    near, far = (sum(level == end for *_, level, _ in cells) for end in (0, len(LIMITS)))
    holdout = evaluation.rows["holdout"]
    where = "further than other real people" if holdout else "from the training table"
    lost = sum(gap.lost for gap in pairs)
    return {
        "names": [abbreviate(name, MOST_LETTERS) for name in names],
        "cells": cells,
        "cell": CELL,
        "shade": SHADE,
        "shades": [f"≤ {limit}" for limit in LIMITS] + [f"> {LIMITS[-1]}"],
        "margin": margin,
        "width": max(size + 4, 300),
        "height": size + 44,
        "about": f"Map of {len(names)} columns and their pairs. Of {len(cells)} cells, {near} are at most {LIMITS[0]} percentage"
        f" point {where}, and {far} are more than {LIMITS[-1]} points. Furthest column: {columns[0].name}."
        f" Furthest pair: {pairs[0].name}. {lost} pairs are no nearer than independent columns.",
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
