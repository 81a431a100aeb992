"""Pictures as inline SVG: they follow the page's colours, and each mark says what it is."""

import math
from collections.abc import Sequence

from markupsafe import Markup, escape

from tabsynth.evaluation.results import Distances, Marginal

MOST_COLUMNS = 40  # in a heat map: of wider tables, those with the worst pairs
CELL, GAP, LABEL = 22, 2, 150
LEVELS = 5  # shades: a class each, so that light and dark pages have their own


def heat_map(distances: Sequence[Distances], names: Sequence[str]) -> Markup | None:
    """The 2-way distance of every pair of columns; the diagonal is each column's own distance.

    None where there are no pairs.
    """
    by_order = {item.order: item.synthetic.marginals for item in distances}
    if 2 not in by_order:
        return None
    own = {marginal.columns[0]: marginal.value for marginal in by_order[1]}
    pairs = {marginal.columns: marginal.value for marginal in by_order[2]}
    shown = _worst_columns(by_order[2], names)
    top = max([*pairs.values(), 1e-12])
    side = len(shown) * CELL
    parts = []
    for row, a in enumerate(shown):
        parts.append(_text(LABEL - 6, LABEL + row * CELL + 15, a, "end"))
        parts.append(_text(0, 0, a, "start", LABEL + row * CELL + 15))
        for column, b in enumerate(shown[: row + 1]):
            value = own.get(a) if a == b else pairs.get((a, b), pairs.get((b, a)))
            if value is not None:
                label = a if a == b else f"{b} × {a}"
                place = LABEL + column * CELL, LABEL + row * CELL
                parts.append(_cell(place, value, value / top, label))
    size = LABEL + side + 4
    parts.append(_text(0, 12, f"strongest shade: {top:.3f}", "start"))
    worst = max(pairs, key=lambda pair: pairs[pair])
    about = (
        f"Heat map of the distance of {len(pairs)} pairs of columns, from 0 to {top:.3f};"
        f" the worst is {' × '.join(worst)}."
    )
    return Markup(
        '<svg class="heat" role="img" viewBox="0 0 {size} {size}" aria-label="{about}">'
        "<title>{about}</title>{cells}</svg>"
    ).format(size=size, about=about, cells=Markup("").join(parts))


def _worst_columns(pairs: Sequence[Marginal], names: Sequence[str]) -> list[str]:
    """All columns in their order, or those of the worst pairs of a wide table."""
    if len(names) <= MOST_COLUMNS:
        return list(names)
    kept: dict[str, None] = {}
    for pair in sorted(pairs, key=lambda item: -item.value):
        for name in pair.columns:
            if len(kept) < MOST_COLUMNS:
                kept[name] = None
    return [name for name in names if name in kept]


def _cell(place: tuple[int, int], value: float, share: float, label: str) -> Markup:
    level = min(LEVELS, math.floor(share * LEVELS) + 1) if value > 0 else 0
    return Markup(
        '<rect x="{x}" y="{y}" width="{s}" height="{s}" class="h{level}">'
        "<title>{label}: {value}</title></rect>"
    ).format(x=place[0], y=place[1], s=CELL - GAP, level=level, label=label, value=f"{value:.3f}")


def _text(x: float, y: float, text: str, anchor: str, column: float | None = None) -> Markup:
    """A label, turned upright where it heads a column."""
    text = " ".join(text.split())
    short = text if len(text) <= 24 else text[:23] + "…"
    turn = Markup("")
    if column is not None:
        turn = Markup(' transform="translate({x} {y}) rotate(-90)"').format(x=column, y=LABEL - 6)
    return Markup('<text x="{x}" y="{y}" text-anchor="{anchor}"{turn}>{short}</text>').format(
        x=x, y=y, anchor=anchor, turn=turn, short=short
    )


def strip(low: float, high: float, marks: Sequence[tuple[str, float, float, float]]) -> Markup:
    """A small multiple: one axis with a dot and interval for each of (class, value, low, high)."""
    width, height, pad = 200, 26, 6
    span = high - low if high > low else 1.0

    def x(value: float) -> float:
        share = (min(max(value, low), high) - low) / span
        return round(pad + share * (width - 2 * pad), 1)

    parts = [
        Markup('<line class="axis" x1="{a}" x2="{b}" y1="13" y2="13"/>').format(
            a=pad, b=width - pad
        )
    ]
    said = []
    for name, value, start, end in marks:
        if not math.isfinite(value):
            continue
        said.append(f"{name} {value:.3f}")
        if math.isfinite(start) and math.isfinite(end):
            parts.append(
                Markup('<line class="bar {name}" x1="{a}" x2="{b}" y1="13" y2="13"/>').format(
                    name=name, a=x(start), b=x(end)
                )
            )
        parts.append(
            Markup(
                '<circle class="{name}" cx="{x}" cy="13" r="4"><title>{name}: {value}</title></circle>'
            ).format(name=name, x=x(value), value=f"{value:.4g}")
        )
    return Markup(
        '<svg class="strip" role="img" viewBox="0 0 {w} {h}" aria-label="{about}">{parts}</svg>'
    ).format(w=width, h=height, about=escape("; ".join(said)), parts=Markup("").join(parts))


def scatter(points: Sequence[tuple[str, float, float]], x_title: str, y_title: str) -> Markup:
    """Named points with a title each: x and y on axes from their least to their greatest."""
    known = [p for p in points if math.isfinite(p[1]) and math.isfinite(p[2])]
    width, height, pad = 640, 400, 62
    xs, ys = [p[1] for p in known] or [0.0], [p[2] for p in known] or [0.0]
    x_low, x_high, y_low, y_high = *_padded(xs), *_padded(ys)
    parts = _axes((x_low, x_high, x_title), (y_low, y_high, y_title), width, height, pad)
    for name, x, y in known:
        left = pad + (x - x_low) / (x_high - x_low) * (width - pad - 10)
        top = height - pad - (y - y_low) / (y_high - y_low) * (height - pad - 10)
        end = left > width - 160
        parts.append(
            Markup(
                '<circle class="synthetic" cx="{x:.1f}" cy="{y:.1f}" r="5">'
                "<title>{n}: {a}, {b}</title></circle>"
                '<text x="{tx:.1f}" y="{ty:.1f}" text-anchor="{anchor}">{n}</text>'
            ).format(
                x=left,
                y=top,
                n=name,
                a=f"{x:.4g}",
                b=f"{y:.4g}",
                tx=left + (-9 if end else 9),
                ty=top + 4,
                anchor="end" if end else "start",
            )
        )
    about = f"{y_title} against {x_title}: " + "; ".join(
        f"{n} {x:.3g}, {y:.3g}" for n, x, y in known
    )
    return Markup(
        '<svg class="scatter" role="img" viewBox="0 0 {w} {h}" aria-label="{about}">{parts}</svg>'
    ).format(w=width, h=height, about=about, parts=Markup("").join(parts))


def _axes(
    of_x: tuple[float, float, str],
    of_y: tuple[float, float, str],
    width: int,
    height: int,
    pad: int,
) -> list[Markup]:
    """Two lines, five numbers on each, and their titles; each axis is (least, greatest, title)."""
    (x_low, x_high, x_title), (y_low, y_high, y_title) = of_x, of_y
    parts = [
        Markup('<line class="axis" x1="{p}" x2="{w}" y1="{h}" y2="{h}"/>').format(
            p=pad, w=width - 10, h=height - pad
        ),
        Markup('<line class="axis" x1="{p}" x2="{p}" y1="10" y2="{h}"/>').format(
            p=pad, h=height - pad
        ),
        Markup('<text x="{x}" y="{y}" text-anchor="middle">{t}</text>').format(
            x=(width + pad) / 2, y=height - 12, t=x_title
        ),
        Markup(
            '<text transform="translate(16 {y}) rotate(-90)" text-anchor="middle">{t}</text>'
        ).format(y=(height - pad) / 2, t=y_title),
    ]
    for i in range(5):
        x_at, y_at = x_low + i / 4 * (x_high - x_low), y_low + i / 4 * (y_high - y_low)
        parts.append(
            Markup('<text class="tick" x="{x}" y="{y}" text-anchor="middle">{t}</text>').format(
                x=pad + i / 4 * (width - pad - 10), y=height - pad + 18, t=f"{x_at:.3g}"
            )
        )
        parts.append(
            Markup('<text class="tick" x="{x}" y="{y}" text-anchor="end">{t}</text>').format(
                x=pad - 6, y=height - pad - i / 4 * (height - pad - 10) + 4, t=f"{y_at:.3g}"
            )
        )
    return parts


def _padded(values: Sequence[float]) -> tuple[float, float]:
    low, high = min(values), max(values)
    room = 0.08 * (high - low) or max(abs(high) * 0.1, 0.1)
    return low - room, high + room
