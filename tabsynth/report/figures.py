"""Pictures as SVG texts, by matplotlib's object interface: no global figure, no display."""

import logging
import math
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from io import StringIO
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from tabsynth.evaluation.results import Cell, ColumnSummary, Disclosure, Estimate
from tabsynth.report.page import shortened

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
MAX_POINTS = 600
LABEL_LENGTH = 22
LETTERS = 65  # below an axis of values
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
    """An image follows the colour scheme of its page: each light colour gives way to its dark one."""
    rules = "".join(
        f'[style*="{kind}: {light}"]{{{kind}:{dark}!important}}'
        for light, dark in DARK.items()
        for kind in ("fill", "stroke")
    )
    return f"@media (prefers-color-scheme: dark){{{rules}}}"


def disclosure_figure(disclosure: Disclosure) -> str:
    """Figure 2 of the source: share of unknown attributes guessed right against s, a panel for each k."""
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
    _band(axes, s, exposed, "from the training table", REFERENCE, "-", "")
    control = [cell.control for cell in cells if cell.control is not None]
    _band(axes, s, [cell.target for cell in cells], "training records", SYNTHETIC, "-", "o")
    if control:
        _band(axes, s, control, "control records", REAL, "--", "s")
    axes.axhline(guess, color=INK, linestyle=":", linewidth=1, label="commonest value")
    axes.set_ylim(0, 1)
    axes.yaxis.set_major_formatter("{x:.0%}")
    step = max(1, math.ceil(len(s) / 10))
    axes.set_xticks(s[::step])


def _band(
    axes: Axes,
    x: Sequence[int],
    estimates: Sequence[Estimate],
    label: str,
    colour: str,
    line: str,
    marker: str,
) -> None:
    axes.fill_between(
        x,
        [e.low for e in estimates],
        [e.high for e in estimates],
        color=colour,
        alpha=0.18,
        linewidth=0,
    )
    values = [e.value for e in estimates]
    axes.plot(
        x,
        values,
        label=label,
        color=colour,
        linestyle=line,
        linewidth=1.4,
        marker=marker,
        markersize=3.2,
    )


def marginal_figure(marginal: ColumnSummary) -> str:
    """Figures 3 and 4 of the source: one column's marginal in both tables, side by side."""
    with _style():
        figure = Figure(figsize=(5.2, 2.5), layout="constrained")
        if len(marginal.labels) <= BARS:
            _bars(figure.subplots(), marginal)
        elif marginal.null:
            # Shares per value and the share of null have scales of their own.
            axes, beside = figure.subplots(1, 2, width_ratios=(14, 1))
            _steps(axes, marginal)
            _null(beside, marginal)
        else:
            _steps(figure.subplots(), marginal)
        for axes in figure.axes:
            axes.yaxis.set_major_formatter(FuncFormatter(lambda share, _: f"{100 * share:g}%"))
            axes.yaxis.set_major_locator(MaxNLocator(6))
            axes.margins(x=0.01)
            axes.set_ylim(bottom=0)
        return _svg(figure)


def _positions(marginal: ColumnSummary) -> np.ndarray:
    """Where the bars stand; null a little apart from the values."""
    count = len(marginal.labels)
    places = np.arange(count, dtype=float)
    if marginal.null and count > 1:
        places[-1] += 0.6
    return places


def _bars(axes: Axes, marginal: ColumnSummary) -> None:
    places = _positions(marginal)
    axes.bar(places - 0.21, marginal.real, 0.4, color=REAL)
    axes.bar(places + 0.21, marginal.synthetic, 0.4, color=SYNTHETIC)
    labels = [_short(label) for label in marginal.labels]
    crowded = len(labels) * (2 + max(map(len, labels))) > 75
    rotation = 90 if crowded else 0
    size = 7 if len(labels) > 20 else 8
    axes.set_xticks(places, labels, rotation=rotation, fontsize=size, parse_math=False)


def _steps(axes: Axes, marginal: ColumnSummary) -> None:
    """Shares per value as steps, on an axis of values; null left out."""
    values = len(marginal.labels) - int(marginal.null)
    widths = np.array(marginal.widths[:values])
    edges = np.concatenate([[0.0], np.cumsum(widths)])
    axes.stairs(marginal.real[:values] / widths, edges, fill=True, color=REAL, alpha=0.55)
    axes.stairs(marginal.synthetic[:values] / widths, edges, color=SYNTHETIC, linewidth=1.4)
    short = [_short(label) for label in marginal.labels[:values]]
    room = max(2, min(7, LETTERS // (3 + max(map(len, short)))))
    chosen = np.unique(np.linspace(0, values - 1, room).round().astype(int)).tolist()
    places = ((edges[:-1] + edges[1:]) / 2)[chosen].tolist()
    labels = [short[i] for i in chosen]
    axes.set_xticks(places, labels, fontsize=8, parse_math=False)
    if widths.max() > 1:
        axes.set_ylabel("per value", fontsize=8)


def _null(axes: Axes, marginal: ColumnSummary) -> None:
    axes.bar([0], marginal.real[-1], 0.9, color=REAL)
    axes.bar([1], marginal.synthetic[-1], 0.9, color=SYNTHETIC)
    axes.yaxis.tick_right()
    axes.spines[["left", "right"]].set_visible(False)
    axes.set_xticks([0.5], ["null"], fontsize=8)


def _short(label: str) -> str:
    """On one line, of at most ``LABEL_LENGTH`` characters, without those that no SVG may hold."""
    label = shortened(label, LABEL_LENGTH)
    return "".join(sign if sign.isprintable() else "�" for sign in label)


def curve_figure(name: str, curve: Mapping[str, Any]) -> str | None:
    """One training curve of a certificate, or None if it is not two lists of numbers."""
    try:
        steps = np.asarray(curve["step"], dtype=float)
        values = np.asarray(curve["value"], dtype=float)
    except (KeyError, TypeError, ValueError):
        return None
    if steps.ndim != 1 or steps.shape != values.shape or not np.isfinite(values).any():
        return None
    every = max(1, len(steps) // MAX_POINTS)
    with _style():
        figure = Figure(figsize=(5.2, 2.3), layout="constrained")
        axes = figure.subplots()
        axes.plot(steps[::every], values[::every], color=SYNTHETIC, linewidth=1.2)
        axes.set_xlabel("step")
        axes.set_ylabel(_short(name), parse_math=False)
        return _svg(figure)
