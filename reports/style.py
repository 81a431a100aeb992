"""The one style of the reports' plots: seven inches wide, as a page shows them, and no text below 9 points.

::

    with style.plot(path, height=3, columns=2, title="BAM lowers the bias") as (figure, axes):
        axes[0, 0].plot(steps, bias, color=style.COLOURS[0])

``python reports/style.py`` draws the pictures of all ``figures.py``, and ``python reports/style.py bias`` those of one
report. Such a program has a function of a path for each picture, named as the picture is, in ``PICTURES``.
"""

import json
import runpy
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.text import Text

REPORTS = Path(__file__).resolve().parent
WIDTH = 7.0  # inches: a page shows pictures at its full width, so that a point of a picture is one of the page
SMALLEST = 9  # points
# Six colours of Okabe & Ito 2008, which people who do not see all colours can tell apart.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
REAL, BASELINE = "#000000", "#777777"  # real rows; independent columns and other references
STYLE: dict[str, Any] = {
    "font.size": 9.5,
    "axes.labelsize": 9.5,
    "axes.titlesize": 10,
    "xtick.labelsize": 9.5,
    "ytick.labelsize": 9.5,
    "legend.fontsize": 9.5,
    "legend.frameon": False,
    "figure.titlesize": 11,
    "figure.titleweight": "bold",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": "#999999",
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#E3E3E3",
    "lines.linewidth": 1.8,
    "axes.prop_cycle": mpl.cycler(color=COLOURS),
}


@contextmanager
def plot(
    path: Path, *, height: float, title: str, rows: int = 1, columns: int = 1, **options: Any
) -> Iterator[tuple[Figure, np.ndarray]]:
    """Yield a figure and its axes, an array (rows, columns), and save the picture at the end.

    The title states the one message of the picture. ``height`` is in inches; ``options`` are those of
    ``Figure.subplots``.

    Raises
    ------
    ValueError
        If a text is smaller than 9 points, or the title or a legend is wider than the figure.
    """
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(WIDTH, height), layout="constrained")
        yield figure, figure.subplots(rows, columns, squeeze=False, **options)
        heading = figure.suptitle(title, x=0.01, ha="left")
        figure.draw_without_rendering()
        for artist in (heading, *figure.legends):
            box = artist.get_window_extent()
            if box.x0 < 0 or box.x1 > figure.bbox.width:
                raise ValueError(f"wider than the figure: {artist}")
        texts = [t for t in figure.findobj(Text) if t.get_text()]
        if small := [t.get_text() for t in texts if t.get_fontsize() < SMALLEST]:
            raise ValueError(f"texts below {SMALLEST} points: {', '.join(small)}")
        figure.savefig(path, dpi=150, metadata={"Software": None})


def curve(axis: Axes, x: Sequence[float], values: Any, **options: Any) -> None:
    """Draw the means of values (x, seeds), with their standard deviations as bars."""
    errors = np.std(values, axis=1, ddof=1)
    axis.errorbar(x, np.mean(values, axis=1), errors, fmt="-o", ms=5, capsize=3, **options)


def load(report: str) -> Any:
    """Return the rows of a report."""
    return json.loads((REPORTS / report / "results.json").read_text("utf-8"))


def draw(program: Path, folder: Path) -> None:
    """Draw the pictures of a program into a folder."""
    for picture in runpy.run_path(str(program))["PICTURES"]:
        picture(folder / f"{picture.__name__}.png")


if __name__ == "__main__":
    for program in sorted(REPORTS.glob("*/figures.py")):
        if sys.argv[1:] in ([], [program.parent.name]):
            draw(program, program.parent)
