"""Does a minority fare worse? Distances within each group of people."""

import math
from operator import itemgetter

import numpy as np

from tabsynth.evaluation.marginals import column_sets, distance
from tabsynth.evaluation.metric import UTILITY, Metric, Tables
from tabsynth.evaluation.results import Estimate, percentile

CITATION = "Bhanot et al. 2021, The problem of fairness in synthetic healthcare data, Entropy 23"
MAX_PAIRS = 60
LEAST_ROWS = 20  # of a group in the training table: smaller ones are not judged
REPLICATES = 20
READING = (
    "Mean total variation distance of pairs of columns within the group of {name} that fares worst,"
    " less that within the group that fares best. From each is taken what the drawing of so few"
    " rows would give by itself. 0: all fare alike. Parts: each group's distance less its noise."
)


def subgroup_gap(tables: Tables, column: int, rng: np.random.Generator) -> Metric | None:
    """Worst group's distance less the best one's; None where fewer than two groups can be judged.

    A group without synthetic rows is at distance 1. The interval is a percentile one over resampled rows of both tables.
    """
    counts = np.bincount(tables.train[:, column], minlength=tables.sizes[column])
    judged = np.flatnonzero(counts >= LEAST_ROWS)
    if len(judged) < 2 or len(tables.sizes) < 2:
        return None
    sets = _sets(len(tables.sizes), column, rng)

    def excess(real: np.ndarray, other: np.ndarray, value: int) -> float:
        a, b = real[real[:, column] == value], other[other[:, column] == value]
        if len(b) == 0 or len(a) == 0:
            return 1.0
        found = distance(a, b, sets, tables.names, tables.sizes).mean.value
        # Two tables of these sizes from the group's pooled rows: what chance alone would give.
        pool = np.concatenate([a, b])
        drawn = rng.permutation(len(pool))
        one, two = pool[drawn[: len(a)]], pool[drawn[len(a) :]]
        by_chance = distance(one, two, sets, tables.names, tables.sizes).mean.value
        return max(0.0, found - by_chance)  # nearer than chance is not worse than near

    def all_groups(other: np.ndarray) -> np.ndarray:
        return np.array([excess(tables.train, other, int(v)) for v in judged])

    found = tables.others.map(all_groups)
    spread = []
    for _ in range(REPLICATES):
        again = tables.synthetic[rng.integers(0, len(tables.synthetic), len(tables.synthetic))]
        spread.append(_gap(all_groups(again)))
    replicates = np.array(spread)
    value = _gap(found.synthetic)
    # Resampling adds noise of its own: its spread is used, not its centre.
    replicates += value - replicates.mean()
    estimate = percentile(value, replicates, len(tables.synthetic))
    parts = [
        found.part(tables.labels[column][int(v)], itemgetter(i), int(counts[v]))
        for i, v in enumerate(judged)
    ]
    name = tables.names[column]
    return Metric(
        f"subgroup_gap_{name}",
        f"Gap between the groups of {name}",
        UTILITY,
        estimate,
        None if found.fresh is None else _plain(_gap(found.fresh), tables.holdout),
        _plain(_gap(found.floor), tables.floor),
        "lower",
        0.0,
        READING.format(name=name),
        CITATION,
        tuple(sorted(parts, key=lambda part: -part.value)),
    )


def _sets(columns: int, column: int, rng: np.random.Generator) -> list[tuple[int, ...]]:
    """Pairs of the other columns, of many a random part; of one other column, itself."""
    others = [j for j in range(columns) if j != column]
    order = 2 if len(others) > 1 else 1
    sets = [tuple(others[i] for i in s) for s in column_sets(len(others), order)]
    if len(sets) > MAX_PAIRS:
        sets = [sets[i] for i in rng.choice(len(sets), MAX_PAIRS, replace=False)]
    return sets


def _gap(excesses: np.ndarray) -> float:
    return float(excesses.max() - excesses.min())


def _plain(value: float, table: np.ndarray | None) -> Estimate:
    return Estimate(value, math.nan, math.nan, 0 if table is None else len(table))
