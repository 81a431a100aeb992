"""Draw the picture of the README by a program of the gallery: ``python docs/epsilon.py``; `make pictures` does so, too.

The file states the values of its lines, which ``tests/test_explanation.py`` compares with another run.
"""

import json
import runpy
from pathlib import Path
from unittest import mock

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.figure import Figure

HERE = Path(__file__).resolve().parent
PICTURE = HERE / "epsilon.png"


def draw() -> Figure:
    """Return the figure of the program on ε."""
    with mock.patch.object(plt, "show"):
        runpy.run_path(str(HERE / "gallery" / "plot_epsilon.py"))
    return plt.gcf()


def values(figure: Figure) -> dict[str, dict[str, list[float]]]:
    """Return the values of each line by the title of its panel and its label."""
    return {
        axis.get_title(): {
            str(line.get_label()): [round(float(y), 2) for y in line.get_ydata()]
            for line in axis.lines
        }
        for axis in figure.axes
    }


if __name__ == "__main__":
    drawn = draw()
    text = json.dumps(values(drawn), ensure_ascii=True)
    drawn.savefig(PICTURE, dpi=100, metadata={"Description": text})
