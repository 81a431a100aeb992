"""Pictures as SVG texts, by matplotlib's object interface: no global figure, no display."""

import logging
import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from io import StringIO
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter
from matplotlib.figure import Figure
from matplotlib.ticker import (
    FuncFormatter,
    MaxNLocator,
    MultipleLocator,
)

from tabsynth.evaluation.results import Cell, ColumnSummary, Disclosure, Estimate
from tabsynth.report.page import abbreviate

REAL, SYNTHETIC, REFERENCE = "#3b6ea5", "#bd640c", "#6d7480"
INK, SOFT, EDGE, GRID = "#22272e", "#5c6570", "#9aa0a8", "#dfe3e8"
# The page's own colours: light, and what each is on a dark page.
DARK = {
    REAL: "#7fb0e6",
    SYNTHETIC: "#f0a354",
    REFERENCE: "#a9b0ba",
    INK: "#e3e7ec",
    SOFT: "#a4adb8",
    EDGE: "#6d7480",
    GRID: "#343b45",
}
BARS = 32  # more codes than this are drawn as steps
LABEL_LENGTH = 28
HEIGHT = 2.5  # of a picture, in inches
LETTERS = 65  # below an axis of values
CROWDED = 75  # letters of the labels of bars that have no room side by side
UPRIGHT = 8  # letters of a label that may stand upright
SHORT = 4  # letters of a label beside the axis that may lie
DAYS = ((1.0, "per day"), (7.0, "per week"), (30.4375, "per month"), (365.25, "per year"))
HOURS = ((1 / 60, "per minute"), (1.0, "per hour"), (24.0, "per day"), (168.0, "per week"))
DURATIONS = ((1 / 3600, "seconds"), (1 / 60, "minutes"), (1.0, "hours"), (24.0, "days"))
_STYLE: Any = {
    # Text stays text: smaller, and the reader's fonts know scripts that matplotlib's do not.
    "svg.fonttype": "none",
    "svg.hashsalt": "tabsynth",
    "text.parse_math": False,
    "text.usetex": False,
    "font.family": "sans-serif",
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": EDGE,
    "text.color": INK,
    "axes.labelcolor": INK,
    "xtick.color": SOFT,
    "ytick.color": SOFT,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "grid.color": GRID,
    "axes.axisbelow": True,
    "legend.frameon": False,
    "savefig.transparent": True,
}


@contextmanager
def _style() -> Iterator[None]:
    fonts = logging.getLogger("matplotlib.font_manager")
    level = fonts.level
    with mpl.rc_context(_STYLE), warnings.catch_warnings():
        # A missing glyph concerns matplotlib's measure of the text only: the reader's fonts draw it.
        warnings.filterwarnings("ignore", message=".*[Gg]lyph.*", category=UserWarning)
        fonts.setLevel(logging.ERROR)
        try:
            yield
        finally:
            fonts.setLevel(level)


def _svg(figure: Figure) -> str:
    out = StringIO()
    figure.savefig(out, format="svg", metadata={"Date": None})
    # The first style is matplotlib's: what the user wrote is escaped, and comes later.
    return out.getvalue().replace("</style>", _dark_style() + "</style>", 1)


def _dark_style() -> str:
    """Return a style by which an image follows the colour scheme of its page: each light colour gives way to its dark one."""
    rules = "".join(
        f'[style*="{kind}: {light}"]{{{kind}:{dark}!important}}'
        for light, dark in DARK.items()
        for kind in ("fill", "stroke")
    )
    return f"@media (prefers-color-scheme: dark){{{rules}}}"


def disclosure_figure(disclosure: Disclosure) -> str:
    """Draw figure 2 of the source: share of unknown attributes guessed right against s, a panel for each k."""
    neighbours = sorted({cell.k for cell in disclosure.cells})
    columns = min(4, len(neighbours))
    rows = math.ceil(len(neighbours) / columns)
    with _style():
        figure = Figure(figsize=(2.75 * columns + 0.4, 2.7 * rows + 0.4), layout="constrained")
        panels = np.atleast_1d(figure.subplots(rows, columns, sharex=True, sharey=True)).ravel()
        for axes, k in zip(panels, neighbours, strict=False):
            _disclosure_panel(axes, [c for c in disclosure.cells if c.k == k], disclosure.guess)
            axes.set_title(f"k = {k}", fontsize=10)
        for axes in panels[len(neighbours) :]:
            axes.set_visible(False)
        handles, labels = panels[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=4 if columns > 2 else 2)
        for axes in panels[max(0, len(neighbours) - columns) : len(neighbours)]:
            axes.set_xlabel("s, unknown attributes", fontsize=8)
        panels[0].set_ylabel("guessed right", fontsize=8)
        return _svg(figure)


def _disclosure_panel(axes: Axes, cells: Sequence[Cell], guess: float) -> None:
    s = [cell.s for cell in cells]
    exposed = [cell.exposed for cell in cells]
    _band(axes, s, exposed, label="from the training table", color=REFERENCE)
    control = [cell.control for cell in cells if cell.control is not None]
    targets = [cell.target for cell in cells]
    _band(axes, s, targets, label="training records", color=SYNTHETIC, marker="o")
    if control:
        _band(axes, s, control, label="control records", color=REAL, linestyle="--", marker="s")
    axes.axhline(guess, color=INK, linestyle=":", linewidth=1, label="commonest value")
    axes.set_ylim(0, 1)
    axes.yaxis.set_major_formatter("{x:.0%}")
    step = max(1, math.ceil(len(s) / 10))
    axes.set_xticks(s[::step])


def _band(axes: Axes, x: Sequence[int], estimates: Sequence[Estimate], **style: Any) -> None:
    """Draw values as a line, and their intervals as a band about it."""
    value, low, high = np.array([(e.value, e.low, e.high) for e in estimates]).T
    axes.fill_between(x, low, high, color=style["color"], alpha=0.18, linewidth=0)
    axes.plot(x, value, linewidth=1.4, markersize=3.2, **style)


def marginal_figure(marginal: ColumnSummary) -> str:
    """Draw one column's marginal in both tables: bars of single values, or densities on an axis to scale.

    Beside it, with a scale of their own: values that are so common that they are kept apart from the axis; rare categories
    that are taken together; missing values where they are beside one of these or an axis.
    """
    bars = marginal.axis in ("", "rank") and len(marginal.labels) <= BARS
    first = len(marginal.spans)
    if bars:
        first = len(marginal.labels)
        if marginal.folded:
            first -= 1 + marginal.missing
    with _style():
        height = _height(marginal.labels[:first]) if bars else HEIGHT
        figure = Figure(figsize=(5.2, height), layout="constrained")
        apart = len(marginal.labels) - first
        if first and apart:
            ratio = (14, 1.1 * apart + (0.0 if apart > 1 else 0.3))
            axes, side_axes = figure.subplots(1, 2, width_ratios=ratio)
            _apart(side_axes, marginal, first)
        else:
            axes = figure.subplots()
        if bars:
            _bars(axes, marginal, first)
        else:
            _densities(axes, marginal)
        return _svg(figure)


def _shares(axis: Axis) -> None:
    """Set the ticks of an axis of shares."""
    axis.set_major_formatter(FuncFormatter(lambda share, _: f"{100 * share:g}%"))
    axis.set_major_locator(MaxNLocator(6))


def _lying(labels: Sequence[str]) -> bool:
    """Return whether bars lie, because their labels are too long to stand side by side or upright."""
    longest = max(len(_short(label)) for label in labels)
    return longest > UPRIGHT and len(labels) * (2 + longest) > CROWDED


def _height(labels: Sequence[str]) -> float:
    """Return the height of a picture with bars, in inches."""
    return max(1.6, 0.5 + 0.2 * len(labels)) if _lying(labels) else HEIGHT


def _bars(axes: Axes, marginal: ColumnSummary, count: int) -> None:
    """Draw a pair of bars for each of the first ``count`` labels."""
    labels = [_short(label) for label in marginal.labels[:count]]
    real, synthetic = marginal.real[:count], marginal.synthetic[:count]
    places = np.arange(count, dtype=float)
    values = len(marginal.labels) - marginal.missing
    if values:
        places[values:] += 0.6  # missing values a little apart
    size = 7 if count > 20 else 8
    lying = _lying(labels)
    _pairs(axes.barh if lying else axes.bar, places, real, synthetic)
    if lying:
        axes.set_yticks(places, labels, fontsize=size, parse_math=False)
        axes.invert_yaxis()
        axes.grid(visible=False, axis="y")
        axes.grid(visible=True, axis="x")
        _shares(axes.xaxis)
        axes.margins(y=0.01)
        axes.set_xlim(left=0)
        return
    crowded = count * (2 + max(map(len, labels))) > CROWDED
    axes.set_xticks(places, labels, rotation=90 if crowded else 0, fontsize=size, parse_math=False)
    _shares(axes.yaxis)
    axes.margins(x=0.01)
    axes.set_ylim(bottom=0)


def _pairs(
    draw: Callable[..., object], places: np.ndarray, real: Sequence[float], other: Sequence[float]
) -> None:
    """Draw the bars of both tables beside each other."""
    draw(places - 0.21, real, 0.4, color=REAL)
    draw(places + 0.21, other, 0.4, color=SYNTHETIC)


def _densities(axes: Axes, marginal: ColumnSummary) -> None:
    """Draw shares divided by widths as steps, on an axis of values to scale."""
    spans = np.array(marginal.spans)
    low, high = marginal.window
    edges, cells = _steps(spans)
    real, synthetic = (
        np.append(np.array(shares[: len(spans)]) / np.ptp(spans, axis=1), 0.0)[cells]
        for shares in (marginal.real, marginal.synthetic)
    )
    unit, name = _unit(marginal.axis, high - low, float(max(real.max(), synthetic.max())))
    real, synthetic = unit * real, unit * synthetic
    axes.stairs(real, edges, fill=True, color=REAL, alpha=0.55)
    axes.stairs(synthetic, edges, color=SYNTHETIC, linewidth=1.4)
    axes.set_xlim(low, high)
    axes.set_ylabel(name, fontsize=8)
    _shares(axes.yaxis)
    axes.set_ylim(bottom=0)
    _value_ticks(axes, marginal, low, high)


def _steps(spans: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return edges of steps without gaps, and the span of each step; the number of spans where there is none."""
    edges, cells = [spans[0, 0]], []
    for cell, (low, high) in enumerate(spans.tolist()):
        if low > edges[-1]:
            cells.append(len(spans))
            edges.append(low)
        cells.append(cell)
        edges.append(high)
    return np.array(edges), np.array(cells)


def _unit(axis: str, length: float, density: float) -> tuple[float, str]:
    """Return the length that densities are stated for, and its name: at most an eighth of the axis; no density is above 100%."""
    if axis == "rank":
        return 1.0, "per value"
    longest = min(length / 8, 1 / max(density, 1e-300))
    if axis == "number":
        power = math.floor(math.log10(longest))
        return 10.0**power, f"per {10.0**power:,.10g}"
    units = DAYS if axis == "date" else HOURS
    return max((unit for unit in units if unit[0] <= longest), default=units[0])


def _value_ticks(axes: Axes, marginal: ColumnSummary, low: float, high: float) -> None:
    """Set the ticks of an axis of numbers, dates, times, durations or ranks."""
    axes.tick_params(axis="x", labelsize=8)
    if marginal.axis == "date":
        locator = AutoDateLocator(minticks=3, maxticks=7)
        axes.xaxis.set_major_locator(locator)
        axes.xaxis.set_major_formatter(ConciseDateFormatter(locator))
    elif marginal.axis == "time":
        step = next((hours for hours in (1, 2, 3, 4) if (high - low) / hours <= 7), 6)
        axes.xaxis.set_major_locator(MultipleLocator(step))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda hour, _: f"{hour:02.0f}:00"))
    elif marginal.axis == "duration":
        scale, name = max(u for u in DURATIONS if u[0] <= max((high - low) / 4, DURATIONS[0][0]))
        axes.xaxis.set_major_locator(MultipleLocator(scale * _round_step((high - low) / scale)))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda hours, _: f"{hours / scale:,.6g}"))
        axes.set_xlabel(name, fontsize=8)
    elif marginal.axis == "number":
        axes.xaxis.set_major_locator(MaxNLocator(6))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.10g}"))
    else:
        short = [_short(label) for label in marginal.labels[: len(marginal.spans)]]
        room = max(2, min(7, LETTERS // (3 + max(map(len, short)))))
        chosen = np.unique(np.linspace(0, len(short) - 1, room).round().astype(int)).tolist()
        places = np.array(marginal.spans).mean(axis=1)[chosen].tolist()
        axes.set_xticks(places, [short[i] for i in chosen], fontsize=8, parse_math=False)


def _round_step(length: float) -> float:
    """Return a round step of which an axis of some length has about five."""
    power = 10.0 ** math.floor(math.log10(length / 5))
    return next(power * n for n in (1, 2, 5, 10) if length / (power * n) <= 7)


def _apart(axes: Axes, marginal: ColumnSummary, first: int) -> None:
    """Draw bars of the labels from ``first`` on, beside the others."""
    labels = [_short(label) for label in marginal.labels[first:]]
    places = np.arange(len(labels))
    _pairs(axes.bar, places, marginal.real[first:], marginal.synthetic[first:])
    axes.yaxis.tick_right()
    axes.spines[["left", "right"]].set_visible(False)
    upright = max(map(len, labels)) > SHORT
    axes.set_xticks(places, labels, rotation=90 if upright else 0, fontsize=8, parse_math=False)
    _shares(axes.yaxis)
    axes.set_ylim(bottom=0)


def _short(label: str) -> str:
    """Return a text on one line, of at most ``LABEL_LENGTH`` characters, without those that no SVG may hold."""
    label = abbreviate(label, LABEL_LENGTH)
    return "".join(sign if sign.isprintable() else "�" for sign in label)
