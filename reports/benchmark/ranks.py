"""Ranks of the systems that ended in every cell, with bootstrap intervals."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import store
from config import Config, Run
from scipy.stats import rankdata, studentized_range

DRAWS, SEED = 500, 0


@dataclass(frozen=True)
class Figure:
    """One figure of a run; ``sign`` is +1 where more is better."""

    key: str
    title: str
    sign: int
    digits: int = 3


FIGURES = (
    Figure("tvd1", "tvd1", -1),
    Figure("tvd2", "tvd2", -1),
    Figure("tvd3", "tvd3", -1),
    Figure("dwpre_macro_mean", "F1 macro", 1),
    Figure("dwpre_weighted_mean", "F1 weighted", 1),
    Figure("target_auroc", "AUROC of target", 1),
    Figure("k_marginal", "k-marginal", 1, 0),
    Figure("pmse_tree", "pMSE ratio", -1, 1),
)
SHOWN = ("tvd1", "tvd2", "dwpre_weighted_mean", "target_auroc")  # in plots and in tables of figures
Block = tuple[str, float]  # table and epsilon
Found = dict[tuple[Block, str], list[float]]  # of each system the figures of its seeds, signed


@dataclass(frozen=True)
class Rank:
    """Mean rank with its 95% interval over tables and seeds."""

    value: float
    low: float
    high: float


def blocks(config: Config) -> list[Block]:
    """Return the cells of a benchmark: table and epsilon."""
    return [(table, epsilon) for table in config.tables for epsilon in sorted(config.epsilons)]


def runs_of(config: Config, results: Mapping[str, dict], block: Block, system: str) -> list[dict]:
    """Return the rows of a cell over seeds, those that stand for runs that stop included."""
    rows = [store.row_of(config, results, Run(block[0], system, block[1], s)) for s in config.seeds]
    available = [row for row in rows if row is not None]
    ended = [row for row in available if "stopped" not in row]
    return ended or available[:1]


def have_figure(config: Config, results: Mapping[str, dict], block: Block, figure: Figure) -> bool:
    """Return whether every system that ended in a cell has the figure; otherwise they cannot be compared."""
    rows = [row for name in config.systems for row in runs_of(config, results, block, name)[:1]]
    cells = {row["system"] for row in rows if "stopped" not in row}
    having = {
        name
        for name in cells
        if any(figure.key in row for row in runs_of(config, results, block, name))
    }
    return cells == having


def values(config: Config, results: Mapping[str, dict], figure: Figure) -> Found:
    """Return signed figures by block and system, of runs that ended: higher is better."""
    figures: Found = {}
    for block in blocks(config):
        if not have_figure(config, results, block, figure):
            continue
        for system in config.systems:
            rows = runs_of(config, results, block, system)
            seeds = [figure.sign * row[figure.key] for row in rows if figure.key in row]
            if seeds:
                figures[block, system] = seeds
    return figures


def mean_ranks(config: Config, figures: Found, systems: Iterable[str]) -> dict[str, Rank]:
    """Return the mean ranks of the systems, ties averaged, with intervals from resampled tables and, within each cell, seeds."""
    names, cells = list(systems), cells_of(config, figures)
    if not names:
        return {}

    def ranked(means: np.ndarray) -> np.ndarray:
        return rankdata(-means, axis=1).mean(axis=0)

    point = ranked(_means(figures, cells, names, None)[0])
    rng, tables, draws = np.random.default_rng(SEED), list(dict.fromkeys(t for t, _ in cells)), []
    # A table that is drawn twice has other seeds the second time.
    copies = [_means(figures, cells, names, rng) for _ in tables]
    for draw in range(DRAWS):
        chosen = [
            copy[draw, [block[0] == tables[t] for block in cells]]
            for copy, t in zip(copies, rng.integers(len(tables), size=len(tables)), strict=True)
        ]
        draws.append(ranked(np.concatenate(chosen)))
    low, high = np.quantile(np.array(draws), [0.025, 0.975], axis=0)
    return {n: Rank(*map(float, each)) for n, *each in zip(names, point, low, high, strict=True)}


def cells_of(config: Config, figures: Found) -> list[Block]:
    """Return the cells in which a figure was measured."""
    return [block for block in blocks(config) if any(cell == block for cell, _ in figures)]


def ranked_systems(config: Config, figures: Found) -> list[str]:
    """Return the systems that ended in every cell in which any other one did; the others cannot be ranked."""
    cells = cells_of(config, figures)
    return [n for n in config.systems if cells and all((block, n) in figures for block in cells)]


def _means(
    figures: Found, cells: list[Block], names: list[str], rng: np.random.Generator | None
) -> np.ndarray:
    """Return the means over the seeds of each cell, or over seeds drawn again; shape (draws, blocks, systems)."""
    out = np.empty((1 if rng is None else DRAWS, len(cells), len(names)))
    for i, block in enumerate(cells):
        for j, name in enumerate(names):
            seeds = figures[block, name]
            drawn = [seeds] if rng is None else rng.choice(seeds, (DRAWS, len(seeds)))
            out[:, i, j] = np.mean(drawn, axis=1)
    return out


def critical_difference(systems: int, number: int, alpha: float = 0.05) -> float:
    """Return Nemenyi's least difference of mean ranks over ``number`` blocks (Demšar 2006, section 3.2.2)."""
    quantile = float(studentized_range.ppf(1 - alpha, systems, np.inf)) / math.sqrt(2)
    return quantile * math.sqrt(systems * (systems + 1) / (6 * number))
