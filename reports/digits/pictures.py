"""Grids of digits, from results.json alone."""

from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from tables import DIGITS, LABEL, LEVELS, PIXELS, SIDE

SHOWN, ABREAST = 8, 3  # samples of each digit; panels side by side
SIGNS = "0123456789abcdefg"  # one for each level


def packed(table: pd.DataFrame) -> dict[str, list[str]]:
    """The first samples of each digit, in the order of the table: 64 signs an image."""
    out = {}
    for digit in map(str, range(DIGITS)):
        rows = table.loc[table[LABEL] == digit, PIXELS].head(SHOWN).to_numpy()
        out[digit] = ["".join(SIGNS[level] for level in row) for row in rows]
    return out


def picture(path: Path, panels: list[tuple[str, dict[str, list[str]]]]) -> None:
    """Panels, three abreast: a row a digit, by its label in the table, and a column a sample."""
    deep = -(-len(panels) // ABREAST)
    figure = Figure(figsize=(3.6 * ABREAST, 4.6 * deep), layout="constrained")
    axes = figure.subplots(deep, ABREAST, squeeze=False).ravel()
    for spare in axes[len(panels) :]:
        spare.set_axis_off()
    cell = SIDE + 2
    middles = cell * np.arange(DIGITS) + SIDE / 2
    for axis, (title, samples) in zip(axes, panels, strict=False):
        page = np.zeros((cell * DIGITS, cell * SHOWN))
        for row, digit in enumerate(map(str, range(DIGITS))):
            for column, text in enumerate(samples[digit]):
                image = np.array([SIGNS.index(sign) for sign in text]).reshape(SIDE, SIDE)
                top, left = row * cell, column * cell
                page[top : top + SIDE, left : left + SIDE] = image
        axis.imshow(page, cmap="gray_r", vmin=0, vmax=LEVELS - 1, interpolation="nearest")
        axis.set_title(title, fontsize=10)
        axis.set_xticks([])
        axis.set_yticks(middles, [str(d) for d in range(DIGITS)])
        axis.tick_params(length=0)
        axis.spines[:].set_visible(False)
    for axis in axes[::ABREAST]:
        axis.set_ylabel("label in the table")
    figure.savefig(path, dpi=110)
