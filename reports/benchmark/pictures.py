"""The two pictures of a benchmark: mean ranks, and figures against cost."""

import math
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from textwrap import shorten

import numpy as np
import style
from config import Config
from findings import BY, cpu, fastest, places
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from ranks import SHOWN, Rank, critical_difference

IN_COST = ("tvd2", "dwpre_weighted_mean")
OURS, PEER = style.COLOURS[:2]
short = partial(shorten, width=24, placeholder=" …")  # titles of a user's own systems may be longer


def group(config: Config, system: str) -> str:
    """Return the title under which a system is in the picture of costs: all of tabsynth but the first have one."""
    if not config.systems[system].peer:
        first = next(iter(config.systems))
        return config.systems[system].title if system == first else "others of tabsynth"
    peer = config.systems[system].peer
    return next(s.title for s in config.systems.values() if s.peer == peer)


def colours(config: Config) -> dict[str, str]:
    """Return the colour of each system, which is that of its group."""
    groups = list(dict.fromkeys(group(config, name) for name in config.systems))
    return {
        name: style.COLOURS[groups.index(group(config, name)) % len(style.COLOURS)]
        for name in config.systems
    }


def draw_ranks(
    config: Config,
    ranks: Mapping[str, Mapping[str, Rank]],
    cells: Mapping[str, int],
    path: Path,
) -> None:
    """Draw the mean ranks of each figure with intervals, with the same order of systems in all panels.

    ``cells`` are the numbers of cells of each figure.
    """
    shown = [key for key in SHOWN if len(ranks[key]) > 1]
    means = {
        name: np.mean([ranks[key][name].value for key in shown if name in ranks[key]])
        for name in config.systems
        if any(name in ranks[key] for key in shown)
    }
    order = sorted(means, key=lambda name: means[name])
    title = "No two systems ended in the same cells yet"
    if order:
        best = sum(min(ranks[key], key=lambda n: ranks[key][n].value) == order[0] for key in shown)
        title = f"{short(config.systems[order[0]].title)} has the best mean rank in {best} of {len(shown)} metrics"
    with style.plot(
        path,
        height=0.27 * max(2, len(order)) + 1.7,
        title=title,
        columns=max(1, len(shown)),
        sharey=True,
    ) as (figure, axes):
        for axis, key in zip(axes[0], shown, strict=False):
            for row, name in enumerate(order):
                if rank := ranks[key].get(name):
                    colour = PEER if config.systems[name].peer else OURS
                    axis.plot([rank.low, rank.high], [row, row], color=colour)
                    axis.plot(rank.value, row, "o", color=colour, markersize=6)
            near = critical_difference(len(ranks[key]), max(1, cells[key]))
            axis.plot([1, min(1 + near, len(order) + 0.3)], [-0.9, -0.9], color=style.BASELINE)
            axis.set_title(BY[key].title)
            axis.set(xlim=(0.7, len(order) + 0.3), ylim=(len(order) - 0.5, -1.3))
            axis.set_xticks(range(1, len(order) + 1))
            axis.set_yticks(range(len(order)), [short(config.systems[n].title) for n in order])
            axis.grid(visible=False, axis="y")
        figure.supxlabel(
            "mean rank, 1 is best, with its 95% interval; blue: tabsynth, orange: peers\n"
            "grey bar: ranks that are nearer than this do not differ by Nemenyi's test",
            fontsize=style.SMALLEST,
        )


def draw_cost(config: Config, results: Mapping[str, dict], path: Path) -> None:
    """Draw a panel for each table and figure: mean figure against mean CPU seconds, by system and epsilon."""
    tables, paint, handles = list(config.tables), colours(config), {}
    title = shorten(fastest(config, results), 76, placeholder=" …")
    with style.plot(path, height=5.2, title=title, rows=len(IN_COST), columns=len(tables)) as (
        figure,
        axes,
    ):
        for row, key in enumerate(IN_COST):
            better = "less" if BY[key].sign < 0 else "more"
            axes[row, 0].set_ylabel(f"{BY[key].title} ({better} is better)")
            for column, table in enumerate(tables):
                _cost_panel(axes[row, column], config, results, table, key)
        for column, table in enumerate(tables):
            axes[0, column].set_title(config.tables[table].title)
            axes[-1, column].set_xlabel("CPU seconds")
        for n in config.systems:
            handles[short(group(config, n))] = _handle(paint[n], _mark(config, n), 6)
        for i, e in enumerate(sorted(config.epsilons)):
            handles[f"ε = {e:g}"] = _handle(style.BASELINE, "o", _size(i))
        handles["private rows"] = Line2D([], [], color=style.REAL, linestyle="--")
        handles["independent columns"] = Line2D([], [], color=style.BASELINE, linestyle=":")
        figure.legend(handles.values(), handles, loc="outside lower center", ncols=3)


def _handle(colour: str, mark: str, size: float) -> Line2D:
    return Line2D([], [], color=colour, marker=mark, linestyle="", markersize=size)


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
    for reference, colour, dash in (("real", style.REAL, "--"), ("shuffled", style.BASELINE, ":")):
        if key in (row := results.get(f"{table}-{reference}", {})):
            axis.axhline(row[key], color=colour, linestyle=dash, linewidth=1.2)
    axis.set_xscale("log")
    axis.set_xlim(0.3, 3 * config.limit)


def _mark(config: Config, system: str) -> str:
    return "s" if config.systems[system].peer else "o"


def _size(place: int) -> float:
    return 5 + 3 * place
