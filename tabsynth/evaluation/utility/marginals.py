"""Total variation distance of 1-, 2- and 3-way marginals.

Half the sum of absolute differences of the relative frequencies of a marginal's cells: the share of
rows that would have to move to make the two tables' marginals equal (e.g. Tao et al. 2021,
"Benchmarking differentially private synthetic data generation algorithms", arXiv:2112.09238).
"""

import itertools
import math
from collections.abc import Callable, Sequence

import numpy as np

from tabsynth.evaluation.definitions import TWO_TABLES, Definition
from tabsynth.evaluation.metric import SHOWN_PARTS, Metric, Part, worst_first
from tabsynth.evaluation.results import Z95, Distance, Distances, Estimate, Marginal
from tabsynth.evaluation.weighting import WeightedRows, shares, variance_of_mean

WAYS = {1: "single columns", 2: "pairs of columns", 3: "triples of columns"}
MAX_SETS = {1: 10_000, 2: 2_000, 3: 60}  # marginals of each order; more are subsampled
DENSE_CELLS = 1 << 17  # above it, only the cells that occur are numbered
_ENUMERABLE = 1_000_000
DISTANCE = Definition(
    name="Total variation distance",
    keys=("tvd1", "tvd2", "tvd3"),
    meaning="Share of rows that would have to move to make the counts of two tables equal. tvd1 compares single columns,"
    " tvd2 pairs and tvd3 triples of columns. The figure is the mean over all sets of columns; of very many sets, some"
    " are drawn at random (2,000 pairs, 60 triples).",
    formula="½ Σ |p(c) − q(c)| over all combinations c of values; p and q are shares of rows in the two tables",
    range="0 (equal) to 1 (disjoint)",
    better="lower",
    best=0.0,
    interval=f"{TWO_TABLES}, not that of sets of columns (delta method)",
    caveat="Few rows alone make it positive, so compare it with the hold-out reference. Independent columns have tvd1 = 0"
    " by construction.",
    source="Tao et al. 2021, arXiv:2112.09238",
    sampling_power=0.5,
)


def distances(
    train: np.ndarray | WeightedRows,
    compared_tables: tuple[
        np.ndarray | WeightedRows, np.ndarray | WeightedRows, np.ndarray | WeightedRows | None
    ],
    order: int,
    *,
    names: Sequence[str],
    sizes: Sequence[int],
    seed: int = 0,
    progress: Callable[[float], None] | None = None,
) -> Distances:
    """Return distances from ``train`` of the synthetic table, the baseline, and the hold-out (may be None).

    All three are compared on the same marginals: those of ``column_sets(columns, order, seed)``.
    """
    sets = column_sets(len(sizes), order, seed)
    done = []
    for i, other in enumerate(compared_tables):
        done.append(None if other is None else distance(train, other, sets, names, sizes))
        if progress is not None:
            progress((i + 1) / len(compared_tables))
    synthetic, baseline, holdout = done
    assert synthetic is not None and baseline is not None
    return Distances(order, synthetic, baseline, holdout)


def distance_metric(distances: Distances) -> Metric:
    """Return the mean total variation distance of the marginals of one order; the worst are its parts."""
    names = [" × ".join(marginal.columns) for marginal in distances.synthetic.marginals]
    holdout, baseline = _values(distances.holdout), _values(distances.baseline)
    parts = [
        Part(
            name, marginal.value, holdout[i] if holdout else None, baseline[i] if baseline else None
        )
        for i, (name, marginal) in enumerate(zip(names, distances.synthetic.marginals, strict=True))
    ]
    return Metric(
        DISTANCE,
        distances.synthetic.mean,
        None if distances.holdout is None else distances.holdout.mean,
        distances.baseline.mean,
        worst_first(parts, "lower", SHOWN_PARTS),
        key=f"tvd{distances.order}",
        title=f"Total variation distance, {WAYS[distances.order]}",
        of_relations=distances.order > 1,
        details=distances,
    )


def _values(distance: Distance | None) -> list[float] | None:
    return None if distance is None else [marginal.value for marginal in distance.marginals]


def column_sets(columns: int, order: int, seed: int = 0) -> list[tuple[int, ...]]:
    """Return all sets of ``order`` columns, or a random sample of them (60 triples), the same per seed."""
    limit = MAX_SETS[order]
    rng = np.random.default_rng(seed)
    total = math.comb(columns, order)
    if total <= _ENUMERABLE:
        sets = list(itertools.combinations(range(columns), order))
        if total > limit:
            sets = [sets[i] for i in rng.choice(total, limit, replace=False)]
        return sets
    chosen: set[tuple[int, ...]] = set()
    while len(chosen) < limit:
        chosen.add(tuple(sorted(rng.choice(columns, order, replace=False).tolist())))
    return sorted(chosen)


def distance(
    a: np.ndarray | WeightedRows,
    b: np.ndarray | WeightedRows,
    sets: Sequence[tuple[int, ...]],
    names: Sequence[str],
    sizes: Sequence[int],
) -> Distance:
    """Return total variation distance of the marginals ``sets`` of two tables, and their mean.

    It is 1 where only one table has rows; its interval is then unknown.

    The interval is normal, from the distance's influence function (delta method; van der Vaart
    1998, chapter 20): row i of ``a`` moves a marginal's distance by ½ sign(p − q) at its cell, and
    a row of ``b`` by the opposite, over the number of rows. It covers the drawing of rows; note
    that sampling noise itself makes the distance of two samples of one population positive, which
    is what the hold-out reference shows.

    Parameters
    ----------
    a, b : ndarray, shape (rows, columns), int64, or WeightedRows
    """
    a, b = (t if isinstance(t, WeightedRows) else WeightedRows(t) for t in (a, b))
    labels = [tuple(names[j] for j in columns) for columns in sets]
    if not len(a) or not len(b):
        value = float(len(a) != len(b))
        nothing = Estimate(value, math.nan, math.nan, len(b))
        return Distance(nothing, tuple(Marginal(label, value) for label in labels))
    values = []
    influence_a, influence_b = np.zeros(len(a)), np.zeros(len(b))
    for columns in sets:
        cells_a, cells_b, size = cell_numbers(a.codes, b.codes, columns, sizes)
        gap = shares(cells_a, size, a.weights) - shares(cells_b, size, b.weights)
        values.append(0.5 * float(np.abs(gap).sum()))
        sign = 0.5 * np.sign(gap)
        influence_a += sign[cells_a]
        influence_b -= sign[cells_b]
    variance = sum(
        variance_of_mean(part / len(sets), table.weights, table.clusters)
        for part, table in ((influence_a, a), (influence_b, b))
    )
    mean, half = float(np.mean(values)), Z95 * math.sqrt(variance)
    marginals = tuple(Marginal(label, value) for label, value in zip(labels, values, strict=True))
    estimate = Estimate(mean, max(0.0, mean - half), min(1.0, mean + half), len(b))
    return Distance(estimate, marginals)


def cell_numbers(
    a: np.ndarray, b: np.ndarray, columns: Sequence[int], sizes: Sequence[int]
) -> tuple[np.ndarray, np.ndarray, int]:
    """Return the cell of each row in the marginal of ``columns``, for both tables, and how many cells.

    Small marginals number all their cells, large ones only those that occur.
    """
    keys = [np.zeros(len(a), dtype=np.int64), np.zeros(len(b), dtype=np.int64)]
    cells = 1
    for j in columns:
        keys = [key * sizes[j] + table[:, j] for key, table in zip(keys, (a, b), strict=True)]
        cells *= sizes[j]
        if cells > DENSE_CELLS:
            # Renumbering after each column keeps the numbers below rows × size: no overflow.
            occupied, inverse = np.unique(np.concatenate(keys), return_inverse=True)
            keys, cells = [inverse[: len(a)], inverse[len(a) :]], len(occupied)
    return keys[0], keys[1], cells
