"""Ranks of systems over tables and epsilons, of runs that may be missing, with bootstrap intervals."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import store
from config import Config, Run
from scipy.stats import studentized_range

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
Block = tuple[str, float]  # table and epsilon
Found = dict[tuple[Block, str], list[float]]  # of each system the figures of its seeds, signed


@dataclass(frozen=True)
class Rank:
    """Mean rank with its 95% interval over tables and seeds; NaN where a pair never met."""

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


def pairwise_ranks(table: np.ndarray) -> np.ndarray:
    """Return the mean rank of each column, shape (systems,), from values, shape (blocks, systems), higher better.

    1 + Σ over the others of the share of blocks, among those that have both, in which the other is ahead;
    a tie counts half. Where no value is missing (NaN) this is the mean of ranks with ties averaged.
    """
    here = ~np.isnan(table)
    both = here[:, :, None] & here[:, None, :]
    ahead = (table[:, None, :] > table[:, :, None]) + 0.5 * (table[:, None, :] == table[:, :, None])
    met = both.sum(axis=0)
    with np.errstate(invalid="ignore"):
        share = (ahead * both).sum(axis=0) / met
    np.fill_diagonal(share, 0.0)
    return 1 + share.sum(axis=1)


def mean_ranks(config: Config, figures: Found, systems: Iterable[str]) -> dict[str, Rank]:
    """Return the ranks of the systems, with their intervals from resampled tables and, within each cell, seeds."""
    names, cells = list(systems), blocks(config)
    if not names:
        return {}

    point = pairwise_ranks(_means(figures, cells, names, None)[0])
    rng, tables, draws = np.random.default_rng(SEED), list(config.tables), []
    # A table that is drawn twice has other seeds the second time.
    copies = [_means(figures, cells, names, rng) for _ in tables]
    for draw in range(DRAWS):
        chosen = [
            copy[draw, [block[0] == tables[t] for block in cells]]
            for copy, t in zip(copies, rng.integers(len(tables), size=len(tables)), strict=True)
        ]
        draws.append(pairwise_ranks(np.concatenate(chosen)))
    # A draw in which a pair never met says nothing of either's rank.
    with np.errstate(all="ignore"):
        low, high = np.nanquantile(np.array(draws), [0.025, 0.975], axis=0)
    return {n: Rank(*map(float, each)) for n, *each in zip(names, point, low, high, strict=True)}


def ranked_systems(config: Config, figures: Found) -> list[str]:
    """Return the systems that met every other one on two tables at least; those that met fewest are left out first.

    Figures on one table are no evidence for the next.
    """
    names, required = list(config.systems), min(2, len(config.tables))
    here = {n: {block for block, system in figures if system == n} for n in names}

    def met(first: str, second: str) -> int:
        return len({table for table, _ in here[first] & here[second]})

    while names:
        alone = [n for n in names if any(met(n, m) < required for m in names)]
        if not alone:
            return names
        names.remove(
            min(alone, key=lambda n: (sum(met(n, m) >= required for m in names), len(here[n])))
        )
    return names


def _means(
    figures: Found, cells: list[Block], names: list[str], rng: np.random.Generator | None
) -> np.ndarray:
    """Return the means over the seeds of each cell, or over seeds drawn again; shape (draws, blocks, systems)."""
    out = np.full((1 if rng is None else DRAWS, len(cells), len(names)), math.nan)
    for i, block in enumerate(cells):
        for j, name in enumerate(names):
            if seeds := figures.get((block, name)):
                drawn = [seeds] if rng is None else rng.choice(seeds, (DRAWS, len(seeds)))
                out[:, i, j] = np.mean(drawn, axis=1)
    return out


def complete(config: Config, figures: Found, systems: Iterable[str]) -> int:
    """Return the number of blocks in which all systems have a figure."""
    names = list(systems)
    return sum(all((block, n) in figures for n in names) for block in blocks(config))


def critical_difference(systems: int, number: int, alpha: float = 0.05) -> float:
    """Return Nemenyi's least difference of mean ranks over ``number`` blocks (Demšar 2006, section 3.2.2)."""
    quantile = float(studentized_range.ppf(1 - alpha, systems, np.inf)) / math.sqrt(2)
    return quantile * math.sqrt(systems * (systems + 1) / (6 * number))
