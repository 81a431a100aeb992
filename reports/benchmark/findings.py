"""The findings of a benchmark, in sentences and small tables: every number is computed from the rows."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import store
from config import Config, Run
from ranks import FIGURES, Block, Figure, blocks, have_figure, runs_of, values

BY = {figure.key: figure for figure in FIGURES}
OF_RELATIONS = ("tvd2", "dwpre_weighted_mean")  # independent columns are bad at them


@dataclass(frozen=True)
class Place:
    """A system in a cell: its mean figure and its standard deviation over seeds (NaN of one seed)."""

    system: str
    value: float
    sd: float


def places(
    config: Config, results: Mapping[str, dict], block: Block, figure: Figure
) -> list[Place]:
    """Return the systems of a cell that ended, the best first; none where some of them lack the figure."""
    out: list[Place] = []
    if not have_figure(config, results, block, figure):
        return out
    for system in config.systems:
        rows = [r for r in runs_of(config, results, block, system) if figure.key in r]
        if rows:
            numbers = [row[figure.key] for row in rows]
            sd = float(np.std(numbers, ddof=1)) if len(numbers) > 1 else math.nan
            out.append(Place(system, float(np.mean(numbers)), sd))
    return sorted(out, key=lambda p: -figure.sign * p.value)


def format_figure(value: float, figure: Figure) -> str:
    """Return a figure with its digits."""
    return f"{value:.{figure.digits}f}"


def cell_name(config: Config, block: Block) -> str:
    """Return table and epsilon of a cell as text."""
    return f"{config.tables[block[0]].title}, ε = {block[1]:g}"


def short_name(config: Config, block: Block) -> str:
    """Return table and epsilon of a cell without the number of columns, where no other table has the same name."""
    names = [table.title.partition(",")[0] for table in config.tables.values()]
    name = config.tables[block[0]].title.partition(",")[0]
    return f"{name}, ε = {block[1]:g}" if names.count(name) == 1 else cell_name(config, block)


def leaders(config: Config, results: Mapping[str, dict]) -> list[str]:
    """Return by figure which system is ahead in each cell, and by how much of the next."""
    cells = blocks(config)
    lines = ["| figure | " + " | ".join(short_name(config, block) for block in cells) + " |"]
    lines.append("|" + "---|" * (len(cells) + 1))
    counts = [count_systems(config, results, block) for block in cells]
    lines.append("| systems that ended | " + " | ".join(counts) + " |")
    for figure in FIGURES:
        entries = [ahead(config, places(config, results, block, figure), figure) for block in cells]
        lines.append(f"| {figure.title} | " + " | ".join(entries) + " |")
    return lines


def ahead(config: Config, best: Sequence[Place], figure: Figure) -> str:
    """Return the first system of a cell, and its distance from the second."""
    if len(best) < 2:
        return "–"
    system = config.systems[best[0].system]
    gap = format_figure(abs(best[0].value - best[1].value), figure)
    title = f"*{system.title}*" if system.peer else system.title
    return f"{title} +{gap}{' ≈' if close(best[0], best[1]) else ''}"


def wins(config: Config, results: Mapping[str, dict]) -> str:
    """Return in how many cells of how many each system has the best mean, over all figures."""
    ranked = [places(config, results, block, f) for block in blocks(config) for f in FIGURES]
    first = [each[0].system for each in ranked if len(each) > 1]
    counts = sorted(((first.count(name), name) for name in set(first)), reverse=True)
    each = ", ".join(f"{config.systems[name].title} in {count}" for count, name in counts)
    return f"Of {len(first)} combinations of table, ε and metric, the best mean is of {each}."


def fastest(config: Config, results: Mapping[str, dict]) -> str:
    """Return in how many cells the first system of a benchmark takes the least CPU time."""
    first, cells = next(iter(config.systems)), []
    for block in blocks(config):
        times = {n: s for n in config.systems if (s := cpu(config, results, block, n)) > 0}
        cells.append(min(times, key=times.__getitem__, default="") == first)
    title = config.systems[first].title
    return f"{title} takes the least CPU time in {sum(cells)} of {len(cells)} cells"


def count_systems(config: Config, results: Mapping[str, dict], block: Block) -> str:
    """Return how many systems ended in a cell, and how many did not or were not tried."""
    rows = [row for name in config.systems for row in runs_of(config, results, block, name)[:1]]
    stopped = [store.was_tried(row, block[1]) for row in rows if "stopped" in row]
    return ", ".join(filter(None, [str(len(rows) - len(stopped)), count_ends(stopped)]))


def count_ends(was_tried: Sequence[bool]) -> str:
    """Return the number of cells without a table: those that were stopped, and those that were not tried for that."""
    counts = {"stopped": sum(was_tried), "not tried": len(was_tried) - sum(was_tried)}
    return ", ".join(f"{count} {what}" for what, count in counts.items() if count)


def cells_without_table(
    config: Config, results: Mapping[str, dict], system: str, begun_by: str | None = None
) -> str:
    """Return in how many cells a system ends without a table: of all, or of those in which another one was begun."""
    stopped = []
    for block in blocks(config):
        rows = runs_of(config, results, block, system)
        met = begun_by is None or runs_of(config, results, block, begun_by)
        if met and rows and "stopped" in rows[0]:
            stopped.append(store.was_tried(rows[0], block[1]))
    return count_ends(stopped)


def close(first: Place, second: Place) -> bool:
    """Return whether two systems are nearer than twice the deviation of seeds of their difference."""
    deviations = [p.sd for p in (first, second) if not math.isnan(p.sd)]
    if not deviations:
        return False
    # A system with one seed is taken to vary as the other does.
    spread = math.hypot(*deviations) if len(deviations) == 2 else math.sqrt(2) * deviations[0]
    return abs(first.value - second.value) < 2 * spread


def losses(config: Config, results: Mapping[str, dict]) -> list[str]:
    """Return every cell and figure in which a peer is ahead of the best system of tabsynth."""
    out = []
    for figure in FIGURES:
        cells = []
        for block in blocks(config):
            ranked = places(config, results, block, figure)
            ours = [p for p in ranked if not config.systems[p.system].peer]
            if ranked and ours and ranked[0] != ours[0]:
                best = ranked[0]
                cells.append(
                    f"{cell_name(config, block)}: {config.systems[best.system].title}"
                    f" {format_figure(best.value, figure)}, {config.systems[ours[0].system].title}"
                    f" {format_figure(ours[0].value, figure)}{' ≈' if close(best, ours[0]) else ''}"
                )
        if cells:
            out.append(f"- **{figure.title}**: {'; '.join(cells)}.")
    return out or ["- In no cell that a peer and one of ours both have."]


def below_baseline(config: Config, results: Mapping[str, dict]) -> list[str]:
    """Return the systems that are worse than the baseline of independent columns, with the figures of the test rows.

    Test rows have no F1: they would be tested on themselves.
    """
    out = []
    for key in OF_RELATIONS:
        figure = BY[key]
        for block in blocks(config):
            baseline = results.get(f"{block[0]}-shuffled", {}).get(key)
            fresh = results.get(f"{block[0]}-fresh", {}).get(key) if figure.sign < 0 else None
            ranked = places(config, results, block, figure)
            worse = [
                config.systems[p.system].title
                for p in ranked
                if baseline is not None and figure.sign * (p.value - baseline) < 0
            ]
            if worse:
                systems = (
                    "every system that ended" if len(worse) == len(ranked) else ", ".join(worse)
                )
                text = f"independent columns: {format_figure(baseline, figure)}"
                if fresh is not None:
                    so = ", **worse, too**" if fresh > baseline else ""
                    text += f"; test rows: {format_figure(fresh, figure)}{so}"
                cell = cell_name(config, block)
                out.append(f"- **{figure.title}**, {cell}: {systems} ({text}).")
    return out or ["- No system."]


def against(config: Config, results: Mapping[str, dict], first: str) -> list[str]:
    """Return the comparison of one system with each other one: cells won, mean gain and its range over the cells that both ended."""
    titles = [BY[key].title for key in OF_RELATIONS]
    lines = ["| against | " + " | ".join(titles) + " | CPU time, times | no table |"]
    lines.append("|" + "---|" * (len(titles) + 3))
    for other, system in config.systems.items():
        if other == first:
            continue
        cells = [gain(config, results, BY[key], first, other) for key in OF_RELATIONS]
        ratio = cost_ratio(config, results, first, other)
        without = cells_without_table(config, results, other, first)
        if mine := cells_without_table(config, results, first, other):
            without = "; ".join(filter(None, [without, f"{config.systems[first].title}: {mine}"]))
        lines.append(f"| {system.title} | " + " | ".join([*cells, ratio, without or "–"]) + " |")
    return lines


def gain(
    config: Config, results: Mapping[str, dict], figure: Figure, first: str, other: str
) -> str:
    """Return the cells won of those that both ended, the mean gain there, and its range where there are several."""
    figures = values(config, results, figure)
    pairs = [
        (np.mean(figures[block, first]), np.mean(figures[block, other]))
        for block in blocks(config)
        if (block, first) in figures and (block, other) in figures
    ]
    gaps = [a - b for a, b in pairs]
    if not gaps:
        return "–"
    text = f"{sum(gap > 0 for gap in gaps)} of {len(gaps)}; {np.mean(gaps):+.3f}"
    return text + (f" ({min(gaps):+.3f} to {max(gaps):+.3f})" if len(gaps) > 1 else "")


def cpu(config: Config, results: Mapping[str, dict], block: Block, system: str) -> float:
    """Return the mean CPU seconds of a cell, NaN where none was timed."""
    timed = [
        r["cpu_seconds"] for r in runs_of(config, results, block, system) if "cpu_seconds" in r
    ]
    return float(np.mean(timed)) if timed else math.nan


def cost_ratio(config: Config, results: Mapping[str, dict], first: str, other: str) -> str:
    """Return the CPU time of the other system over that of the first: geometric mean and range over cells that both ended in."""
    ratios = [
        cpu(config, results, block, other) / cpu(config, results, block, first)
        for block in blocks(config)
    ]
    ratios = [r for r in ratios if not math.isnan(r)]
    if not ratios:
        return "–"
    mean = math.exp(np.mean(np.log(ratios)))
    return f"{mean:.1f}" + (f" ({min(ratios):.1f} to {max(ratios):.1f})" if ratios[1:] else "")


def epsilons_and_seeds(runs: Iterable[Run]) -> str:
    """Return the runs of one system on one table as text: epsilons of the same seeds together."""
    seeds: dict[float, list[int]] = {}
    for run in runs:
        seeds.setdefault(run.epsilon, []).append(run.seed)
    alike: dict[tuple[int, ...], list[float]] = {}
    for epsilon, numbers in seeds.items():
        alike.setdefault(tuple(sorted(numbers)), []).append(epsilon)
    return "; ".join(
        f"ε = {', '.join(f'{e:g}' for e in sorted(epsilons))},"
        f" seed{'s' if len(numbers) > 1 else ''} {', '.join(map(str, numbers))}"
        for numbers, epsilons in sorted(alike.items(), key=lambda item: min(item[1]))
    )


def past_limit(config: Config, results: Mapping[str, dict]) -> list[str]:
    """Return the runs that ended under a longer limit, by system and table."""
    seconds: dict[str, list[float]] = {}
    for run in config.runs():
        row = store.row_of(config, results, run) or {}
        if "stopped" not in row and row.get("cpu_seconds", 0) > config.limit:
            title = f"{config.systems[run.system].title}, {config.tables[run.table].title}"
            seconds.setdefault(title, []).append(row["cpu_seconds"])
    return [
        f"- {title}: {len(times)}, the longest with {max(times):,.0f} CPU seconds."
        for title, times in seconds.items()
    ] or ["- None."]
