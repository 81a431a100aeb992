"""Grids of digits, from results.json alone."""

from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
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


def cost_curves(path: Path, tests: dict[int, list[dict]], every: int, critic_steps: int) -> None:
    """Costs over critic batches, a panel a test, as the document's Figures 3, 6 and 8; a line a seed."""
    figure = Figure(figsize=(3.6 * len(tests), 3.2), layout="constrained")
    axes = figure.subplots(1, len(tests), squeeze=False).ravel()
    for axis, (number, runs) in zip(axes, tests.items(), strict=True):
        for run in runs:
            for name, colour in (("critic", "C1"), ("generator", "C0")):
                values = np.array(run["costs"][name].split(), float)
                step = every if name == "critic" else critic_steps * every // 2
                label = f"{name}'s cost" if run is runs[0] else None
                places = step * np.arange(len(values))
                axis.plot(places, values, color=colour, alpha=0.6, linewidth=0.8, label=label)
        axis.set_title(f"test {number}", fontsize=10)
        axis.set_xlabel("critic batch")
        axis.grid(axis="y", linewidth=0.3)
    axes[0].set_ylabel("cost")
    axes[0].legend(fontsize=8)
    figure.savefig(path, dpi=110)


def strips(path: Path, rows: list[tuple[str, list[str], list[float] | None]]) -> None:
    """A row of images each: its title, the images as signs, and D(x) above each where there is one."""
    wide = len(rows[0][1])
    figure = Figure(figsize=(1.4 + 0.75 * wide, 0.95 * len(rows)), layout="constrained")
    axes = figure.subplots(len(rows), wide)
    for line, (title, images, scores) in zip(axes, rows, strict=True):
        for column, (axis, text) in enumerate(zip(line, images, strict=True)):
            _image(axis, text)
            if scores is not None:
                axis.set_title(f"{scores[column]:.2f}", fontsize=7, pad=2)
        line[0].set_ylabel(title, rotation=0, ha="right", va="center", fontsize=8)
    figure.savefig(path, dpi=110)


def _image(axis: Axes, text: str) -> None:
    image = np.array([SIGNS.index(sign) for sign in text]).reshape(SIDE, SIDE)
    axis.imshow(image, cmap="gray_r", vmin=0, vmax=LEVELS - 1, interpolation="nearest")
    axis.set_xticks([])
    axis.set_yticks([])
