"""Plots of a comparison, points and a forest plot, as inline SVG.

Inline for the reasons that :mod:`tabsynth.report.heatmap` measures. Numbers are placed clear of points, intervals and
each other, which matplotlib leaves to the caller.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product

from markupsafe import Markup
from matplotlib.ticker import MaxNLocator

from tabsynth.evaluation.results import Estimate
from tabsynth.report.page import shorten
from tabsynth.report.tabular import with_interval

WIDTH, HEIGHT = 800, 430
LEFT, RIGHT, TOP, BOTTOM = 72, 122, 26, 52  # names of references stand in the margins
ROW, NAMES = 30, 230  # of a picture with a row for each table
MOST_LETTERS = 32

Box = tuple[float, float, float, float]  # left, top, right, bottom, in pixels


@dataclass(frozen=True)
class Axis:
    """The scale of one side of the picture.

    Attributes
    ----------
    title : str
    low, high : float
    ticks : tuple of (value, text)
    references : tuple of (value, name)
        Lines across the picture.
    """

    title: str
    low: float
    high: float
    ticks: tuple[tuple[float, str], ...]
    references: tuple[tuple[float, str], ...] = ()

    def share(self, value: float) -> float:
        """Return how far along the axis a value is, in [0, 1]."""
        return (min(max(value, self.low), self.high) - self.low) / (self.high - self.low)


@dataclass(frozen=True)
class Point:
    """A table: its number, its name, where it lies, and in words where along the x axis."""

    number: int
    name: str
    x: Estimate
    y: Estimate
    words: str


def linear(
    title: str, estimates: Sequence[Estimate], references: Sequence[tuple[float, str]]
) -> Axis:
    """Return an axis with round ticks that holds all intervals and references."""
    ends = [end for e in estimates for end in (e.value, e.low, e.high)]
    ends = [end for end in (*ends, *(value for value, _ in references)) if math.isfinite(end)]
    low, high = min(ends), max(ends)
    if high == low:
        low, high = low - (abs(low) * 0.1 or 0.1), high + (abs(high) * 0.1 or 0.1)
    places = [float(v) for v in MaxNLocator(6, steps=[1, 2, 5, 10]).tick_values(low, high)]
    digits = max(0, math.ceil(-math.log10(places[1] - places[0]) - 1e-9))
    ticks = tuple((place, _tick_label(place, digits)) for place in places)
    return Axis(title, places[0], places[-1], ticks, tuple(references))


def epsilon_axis(epsilons: Sequence[float]) -> tuple[Axis, list[float]]:
    """Return a logarithmic axis of ε, and each table's place; tables without ε stand at its right end.

    Tables of one ε stand a little apart. At least one ε must be finite.
    """
    finite = {epsilon: math.log10(epsilon) for epsilon in epsilons if math.isfinite(epsilon)}
    smallest, greatest = min(finite.values()), max(finite.values())
    room = max(greatest - smallest, 1.0)
    at = {**finite, math.inf: greatest + 0.25 * room}
    high = max(at[epsilon] for epsilon in epsilons) + 0.12 * room
    low = smallest - 0.12 * room
    ticks: list[tuple[float, str]] = []
    for epsilon in sorted(set(epsilons)):
        text = f"{epsilon:.3g}" if math.isfinite(epsilon) else "none"
        if not ticks or at[epsilon] - ticks[-1][0] > 0.06 * (high - low):
            ticks.append((at[epsilon], text))
    places, seen = [], dict.fromkeys(epsilons, 0)
    for epsilon in epsilons:
        offset = seen[epsilon] - (epsilons.count(epsilon) - 1) / 2
        places.append(at[epsilon] + 0.02 * (high - low) * offset)
        seen[epsilon] += 1
    return Axis("ε, on a logarithmic scale", low, high, tuple(ticks)), places


def scatter(points: Sequence[Point], x: Axis, y: Axis) -> Markup:
    """Return numbered points with both intervals, the references, and the numbers' meaning below."""

    def place(along: float, up: float) -> tuple[float, float]:
        return _across(x, along), _down(y, up)

    parts = [*_sides(x, y), *_references(x, y)]
    whiskers: list[Box] = []
    for point in points:
        for start, end in _ends(point):
            box = *place(*start), *place(*end)
            parts.append(_line("whisker", *box))
            whiskers.append(_sorted(box))
    centres = [place(point.x.value, point.y.value) for point in points]
    spots = _beside(centres, whiskers)
    for point, (left, top), (beside, above) in zip(points, centres, spots, strict=True):
        if math.hypot(beside - left, above - top) > 22:
            parts.append(_line("leader", left, top, beside, above))
        parts.append(_dot(left, top, f"{point.number} {_description(point)}"))
        parts.append(_text(beside, above + 4, str(point.number), "middle", "number"))
    about = f"{y.title} against {x.title}: " + "; ".join(map(_description, points))
    items = [Markup('<li value="{}">{}</li>').format(point.number, point.name) for point in points]
    key = Markup('<ol class="key">{}</ol>').format(Markup("").join(items))
    return _svg("scatter", HEIGHT, about, parts) + key


def forest_plot(points: Sequence[tuple[str, Estimate]], x: Axis) -> Markup:
    """Return one figure alone: a row for each table, with its interval and the references."""
    head = TOP + 14 * len(x.references)
    bottom = head + ROW * len(points) + 6

    def across(value: float) -> float:
        return NAMES + x.share(value) * (WIDTH - NAMES - RIGHT)

    parts = [_line("axis", NAMES, bottom, WIDTH - RIGHT, bottom)]
    for value, text in x.ticks:
        parts.append(_line("axis", across(value), bottom, across(value), bottom + 4))
        parts.append(_text(across(value), bottom + 18, text, "middle", "tick"))
    parts.append(_text((NAMES + WIDTH - RIGHT) / 2, bottom + 40, x.title, "middle"))
    for row, (value, name) in enumerate(x.references):
        side = 1 if x.share(value) < 0.5 else -1
        top = TOP + 14 * row
        parts.append(_line("reference", across(value), top - 8, across(value), bottom))
        anchor = "start" if side > 0 else "end"
        parts.append(_text(across(value) + 5 * side, top, name, anchor, "tick"))
    for row, (name, estimate) in enumerate(points):
        top = head + ROW * row + 14
        parts.append(_text(NAMES - 14, top + 4, shorten(name, MOST_LETTERS), "end"))
        if math.isfinite(estimate.low) and math.isfinite(estimate.high):
            parts.append(_line("whisker", across(estimate.low), top, across(estimate.high), top))
        parts.append(_dot(across(estimate.value), top, f"{name}: {with_interval(estimate)}"))
    about = f"{x.title}: " + "; ".join(f"{name} {with_interval(e)}" for name, e in points)
    return _svg("scatter", bottom + BOTTOM, about, parts)


def _across(x: Axis, value: float) -> float:
    """Return the place of a value from left to right, in pixels."""
    return LEFT + x.share(value) * (WIDTH - LEFT - RIGHT)


def _down(y: Axis, value: float) -> float:
    """Return the place of a value from top to bottom, in pixels."""
    return HEIGHT - BOTTOM - y.share(value) * (HEIGHT - TOP - BOTTOM)


def _ends(point: Point) -> Iterator[tuple[tuple[float, float], tuple[float, float]]]:
    """Return both ends of both intervals, where they are known."""
    if math.isfinite(point.x.low) and math.isfinite(point.x.high):
        yield (point.x.low, point.y.value), (point.x.high, point.y.value)
    if math.isfinite(point.y.low) and math.isfinite(point.y.high):
        yield (point.x.value, point.y.low), (point.x.value, point.y.high)


def _sides(x: Axis, y: Axis) -> list[Markup]:
    """Return both axes with their ticks and titles."""
    right, bottom = WIDTH - RIGHT, HEIGHT - BOTTOM
    parts = [_line("axis", LEFT, bottom, right, bottom), _line("axis", LEFT, TOP, LEFT, bottom)]
    for value, text in x.ticks:
        left = _across(x, value)
        parts.append(_line("axis", left, bottom, left, bottom + 4))
        parts.append(_text(left, bottom + 18, text, "middle", "tick"))
    for value, text in y.ticks:
        top = _down(y, value)
        parts.append(_line("axis", LEFT - 4, top, LEFT, top))
        parts.append(_text(LEFT - 8, top + 4, text, "end", "tick"))
    parts.append(_text((LEFT + right) / 2, HEIGHT - 10, x.title, "middle"))
    turned = Markup(
        '<text transform="translate(16 {}) rotate(-90)" text-anchor="middle">{}</text>'
    ).format((TOP + bottom) / 2, y.title)
    return [*parts, turned]


def _references(x: Axis, y: Axis) -> list[Markup]:
    """Draw lines across, each with its name in the margin beyond its end."""
    right, bottom = WIDTH - RIGHT, HEIGHT - BOTTOM
    parts = []
    for value, name in x.references:
        left = _across(x, value)
        parts.append(_line("reference", left, TOP, left, bottom))
        parts.append(_text(left, TOP - 8, name, "middle", "tick"))
    base = -math.inf
    for value, name in sorted(y.references, reverse=True):
        top = _down(y, value)
        base = max(top + 4, base + 14)  # names of lines close together stay apart
        parts.append(_line("reference", LEFT, top, right, top))
        parts.append(_text(right + 6, base, name, "start", "tick"))
    return parts


def _beside(
    centres: Sequence[tuple[float, float]], whiskers: Sequence[Box]
) -> list[tuple[float, float]]:
    """Return the place of each point's number: clear of points and numbers, and of intervals if it can be."""
    taken = [(x - 6, y - 6, x + 6, y + 6) for x, y in centres]
    positions = []
    for x, y in centres:
        spots = [
            (x + radius * math.cos(turn), y - radius * math.sin(turn))
            for radius, turn in product((21, 32, 43, 54), _TURNS)
        ]
        inside = [
            (a, b)
            for a, b in spots
            if LEFT + 8 < a < WIDTH - RIGHT - 8 and TOP < b < HEIGHT - BOTTOM
        ]
        clear = [spot for spot in inside if not _meets(_around(spot), taken)]
        free = [spot for spot in clear if not _meets(_around(spot), whiskers)]
        best = (free or clear or inside)[0]
        positions.append(best)
        taken.append(_around(best))
    return positions


_TURNS = tuple(math.pi * eighth / 8 for eighth in (2, 6, 14, 10, 1, 7, 3, 5, 9, 15, 11, 13))


def _around(spot: tuple[float, float]) -> Box:
    return spot[0] - 8, spot[1] - 7, spot[0] + 8, spot[1] + 7


def _meets(box: Box, boxes: Sequence[Box]) -> bool:
    left, top, right, bottom = box
    return any(a <= right and left <= c and b <= bottom and top <= d for a, b, c, d in boxes)


def _sorted(box: Box) -> Box:
    a, b, c, d = box
    return min(a, c), min(b, d), max(a, c), max(b, d)


def _description(point: Point) -> str:
    return f"{point.name}: {point.words}, {with_interval(point.y)}"


def _tick_label(value: float, digits: int) -> str:
    """Return a label of an axis: fixed decimals, a typographic minus sign, and "0" without a sign."""
    text = f"{value:.{digits}f}"
    return "0" if float(text) == 0 else text.replace("-", "\N{MINUS SIGN}")


def _line(kind: str, x1: float, y1: float, x2: float, y2: float) -> Markup:
    return Markup('<line class="{}" x1="{}" y1="{}" x2="{}" y2="{}"/>').format(
        kind, *(round(value, 1) for value in (x1, y1, x2, y2))
    )


def _dot(x: float, y: float, about: str) -> Markup:
    return Markup(
        '<circle class="synthetic" cx="{}" cy="{}" r="4.5"><title>{}</title></circle>'
    ).format(round(x, 1), round(y, 1), about)


def _text(x: float, y: float, text: str, anchor: str, kind: str = "label") -> Markup:
    return Markup('<text class="{}" x="{}" y="{}" text-anchor="{}">{}</text>').format(
        kind, round(x, 1), round(y, 1), anchor, text
    )


def _svg(kind: str, height: float, about: str, parts: Sequence[Markup]) -> Markup:
    return Markup(
        '<svg class="{}" role="img" width="{w}" height="{h}" viewBox="0 0 {w} {h}"'
        ' aria-label="{about}">{}</svg>'
    ).format(kind, Markup("").join(parts), w=WIDTH, h=round(height), about=about)
