"""The two pictures of a benchmark: mean ranks, and figures against cost."""

import math
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from config import Config
from findings import BY, cpu, places
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas
from matplotlib.lines import Line2D
from ranks import FIGURES, Rank, critical_difference

# Okabe & Ito 2008: told apart by people who do not see all colours.
COLOURS = ("#D55E00", "#0072B2", "#56B4E9", "#009E73", "#CC79A7", "#E69F00", "#000000", "#777777")
GREY = "#666666"
IN_COST = ("tvd2", "dwpre_weighted_mean")


def colours(config: Config) -> dict[str, str]:
    """Return the colour of each system."""
    return {name: COLOURS[i % len(COLOURS)] for i, name in enumerate(config.systems)}


def draw_ranks(
    config: Config,
    ranks: Mapping[str, Mapping[str, Rank]],
    cells: Mapping[str, int],
    path: Path,
) -> None:
    """Draw the mean ranks of each figure with intervals, with the same order of systems in all panels.

    ``cells`` are the blocks of each figure in which all that are ranked ran.
    """
    shown = [f for f in FIGURES if len(ranks[f.key]) > 1]
    means = {
        name: np.mean([ranks[f.key][name].value for f in shown if name in ranks[f.key]])
        for name in config.systems
        if any(name in ranks[f.key] for f in shown)
    }
    order = sorted(means, key=lambda name: means[name])
    tall = max(1, math.ceil(len(shown) / 4))
    wide = max(1, math.ceil(len(shown) / tall))
    canvas = Canvas(
        figsize=(3.1 * wide + 1, (0.32 * max(2, len(order)) + 1.1) * tall), layout="constrained"
    )
    axes = np.atleast_1d(canvas.subplots(tall, wide, sharey=True, squeeze=False)).ravel()
    paint = colours(config)
    for axis, figure in zip(axes, shown, strict=False):
        for row, name in enumerate(order):
            rank = ranks[figure.key].get(name)
            if rank is not None:
                face = "white" if config.systems[name].peer else paint[name]
                axis.plot([rank.low, rank.high], [row, row], color=paint[name], linewidth=2)
                axis.plot(
                    rank.value, row, "o", color=paint[name], markerfacecolor=face, markersize=7
                )
        if cells[figure.key] > 1:
            near = critical_difference(len(ranks[figure.key]), cells[figure.key])
            ends = [1, min(1 + near, len(order) + 0.3)]
            axis.plot(ends, [-0.9, -0.9], color=GREY, linewidth=3, alpha=0.5)
        axis.set_title(figure.title, fontsize=10)
        _plain(axis)
        axis.set(xlim=(0.7, len(order) + 0.3), ylim=(len(order) - 0.5, -1.3))
        axis.set_xticks(range(1, len(order) + 1))
        axis.set_yticks(range(len(order)), [config.systems[n].title for n in order])
        axis.grid(axis="x", color="#DDDDDD", linewidth=0.6)
    for axis in axes[len(shown) :]:
        axis.axis("off")
    if not shown:
        axes[0].set_title("No two systems ran on the same two tables yet.", fontsize=10)
    canvas.supxlabel(
        "mean rank (1 is best), 95% interval; open: peers; grey bar: Nemenyi's critical difference",
        fontsize=9,
    )
    canvas.savefig(path, dpi=120)


def draw_cost(config: Config, results: Mapping[str, dict], path: Path) -> None:
    """Draw a panel for each table and figure: mean figure against mean CPU seconds, by system and epsilon."""
    tables = list(config.tables)
    canvas = Canvas(figsize=(3.6 * len(tables) + 0.6, 6.4), layout="constrained")
    axes = canvas.subplots(len(IN_COST), len(tables), squeeze=False)
    paint, epsilons = colours(config), sorted(config.epsilons)
    for row, key in enumerate(IN_COST):
        for column, table in enumerate(tables):
            axis = axes[row, column]
            _cost_panel(axis, config, results, table, key)
            axis.set_title(config.tables[table].title if row == 0 else "", fontsize=10)
            better = "less" if BY[key].sign < 0 else "more"
            axis.set_ylabel(
                f"{BY[key].title} ({better} is better)" if column == 0 else "", fontsize=9
            )
            axis.set_xlabel("CPU s" if row == len(IN_COST) - 1 else "", fontsize=9)
    handles = [
        Line2D([], [], color=paint[n], marker=_mark(config, n), linestyle="", label=s.title)
        for n, s in config.systems.items()
    ]
    handles += [
        Line2D(
            [], [], color=GREY, marker="o", linestyle="", markersize=_size(i), label=f"ε = {e:g}"
        )
        for i, e in enumerate(epsilons)
    ]
    handles.append(Line2D([], [], color=GREY, linestyle="--", label="private rows"))
    handles.append(Line2D([], [], color=GREY, linestyle=":", label="independent columns"))
    canvas.legend(handles=handles, loc="outside lower center", ncols=6, fontsize=8, frameon=False)
    canvas.savefig(path, dpi=120)


def _cost_panel(axis: Axes, config: Config, results: Mapping, table: str, key: str) -> None:
    paint, epsilons = colours(config), sorted(config.epsilons)
    for name in config.systems:
        points = []
        for i, epsilon in enumerate(epsilons):
            block = (table, epsilon)
            here = [p for p in places(config, results, block, BY[key]) if p.system == name]
            seconds = cpu(config, results, block, name)
            if here and not math.isnan(seconds):
                points.append((seconds, here[0].value, _size(i)))
        if points:
            axis.plot(
                [p[0] for p in points], [p[1] for p in points], color=paint[name], linewidth=1
            )
        for x, y, size in points:
            axis.plot(x, y, _mark(config, name), color=paint[name], markersize=size)
    for reference, style in (("real", "--"), ("shuffled", ":")):
        if key in (row := results.get(f"{table}-{reference}", {})):
            axis.axhline(row[key], color=GREY, linestyle=style, linewidth=1)
    axis.set_xscale("log")
    axis.set_xlim(1, 2 * config.limit)
    _plain(axis)
    axis.grid(color="#E6E6E6", linewidth=0.6)


def _mark(config: Config, system: str) -> str:
    return "s" if config.systems[system].peer else "o"


def _size(place: int) -> float:
    return 5 + 3 * place


def _plain(axis: Axes) -> None:
    axis.spines[["top", "right"]].set_visible(False)
    axis.tick_params(labelsize=8)
    axis.set_axisbelow(True)
