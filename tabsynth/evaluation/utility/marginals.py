"""Total variation distance of 1-, 2- and 3-way marginals.

Half the sum of absolute differences of the relative frequencies of a marginal's cells: the share of
rows that would have to move to make the two tables' marginals equal (e.g. Tao et al. 2021,
"Benchmarking differentially private synthetic data generation algorithms", arXiv:2112.09238).

The k-marginal score of NIST: 1000 is equal, 0 is disjoint.

SDNist (Task et al. 2023, "SDNist: Benchmark data and evaluation tools for data synthesizers"; NIST
IR 8413 on its use): 500 · (2 − mean over marginals Σ_cells |p − q|). All pairs of columns where there
are fewer than 30, else 200 of them; numeric columns in the training table's 20 percentile groups;
a region joins each pair where there is one.

NOTE[DIFF]: of wide tables SDNist draws its 200 pairs with replacement, so that some count twice; here
they are different pairs.

With survey weights p and q are weighted shares, and the percentiles are the least values that reach a share of the
weights: interpolation would depend on their scale.
"""

import itertools
import math
from collections.abc import Callable, Sequence

import numpy as np

from tabsynth.evaluation.definitions import definition_of
from tabsynth.evaluation.metric import SHOWN_PARTS, Metric, Part, Tables, worst_first
from tabsynth.evaluation.results import Z95, Distance, Distances, Estimate, Marginal
from tabsynth.evaluation.weighting import WeightedRows, quantiles, shares, variance_of_mean

WAYS = {1: "single columns", 2: "pairs of columns", 3: "triples of columns"}
MAX_SETS = {1: 10_000, 2: 2_000, 3: 60}  # marginals of each order; more are subsampled
DENSE_CELLS = 1 << 17  # above it, only the cells that occur are numbered
_ENUMERABLE = 1_000_000
DISTANCE = definition_of("tvd1")
REGIONS = ("PUMA", "SECTOR", "FIPST")  # as SDNist: the first that there is joins every pair
ALL_PAIRS_BELOW, DRAWN, BINS = 30, 200, 20
SCORE = definition_of("k_marginal")


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


def k_marginal(tables: Tables, *, seed: int = 0) -> Metric:
    """Return the score of the synthetic table, of the hold-out, and of independent columns."""
    real = tables.weighted_train
    bins = percentile_bins(real.codes, tables.sizes, tables.scores, real.weights)
    sets = marginal_sets(tables.names, seed)
    sizes = [int(group.max()) + 1 for group in bins]

    def score(other: WeightedRows) -> Distance:
        binned, binned_other = (
            WeightedRows(to_bins(t.codes, bins), t.weights) for t in (real, other)
        )
        return distance(binned, binned_other, sets, tables.names, sizes)

    distances = tables.with_weights.map(score)
    parts = [
        Part(" × ".join(m.columns), 1000 * (1 - m.value), n=len(tables.synthetic))
        for m in distances.synthetic.marginals
    ]
    return Metric(
        SCORE,
        *distances.map(lambda item: score_of(item.mean)),
        worst_first(parts, "higher", SHOWN_PARTS),
    )


def score_of(mean: Estimate) -> Estimate:
    """Return a mean total variation distance as a score."""
    return Estimate(1000 * (1 - mean.value), 1000 * (1 - mean.high), 1000 * (1 - mean.low), mean.n)


def marginal_sets(names: Sequence[str], seed: int = 0) -> list[tuple[int, ...]]:
    """Return the pairs of columns that are scored, each with the region where the table has one."""
    region = next((names.index(name) for name in REGIONS if name in names), None)
    features = [j for j in range(len(names)) if j != region]
    pairs: list[tuple[int, ...]] = list(itertools.combinations(features, 2))
    if len(features) >= ALL_PAIRS_BELOW:
        chosen = np.random.default_rng(seed).choice(len(pairs), DRAWN, replace=False)
        pairs = [pairs[i] for i in chosen]
    if not pairs:
        pairs = [(j,) for j in features]
    sets = [pair if region is None else (region, *pair) for pair in pairs]
    return sets or [(0,)]


def percentile_bins(
    table: np.ndarray,
    sizes: Sequence[int],
    scores: Sequence[np.ndarray | None],
    weights: np.ndarray | None = None,
) -> list[np.ndarray]:
    """Return the bin of each category code of each column: 20 percentile groups of numbers, else each code by itself.

    Only columns of more than 20 numbers are binned. Null is a bin of its own.
    """
    bins_of_columns = []
    for j, size in enumerate(sizes):
        numbers = scores[j]
        if numbers is None or size <= BINS:
            bins_of_columns.append(np.arange(size))
            continue
        values = numbers[table[:, j]]
        finite_rows = np.isfinite(values)
        finite = values[finite_rows]
        ranks = np.linspace(0, 100, BINS + 1)[1:-1] / 100
        of_known = None if weights is None else weights[finite_rows]
        cuts = np.unique(quantiles(finite, ranks, of_known)) if len(finite) else np.empty(0)
        group = np.searchsorted(cuts, numbers, side="left")
        group[~np.isfinite(numbers)] = len(cuts) + 1
        bins_of_columns.append(np.unique(group, return_inverse=True)[1])
    return bins_of_columns


def to_bins(table: np.ndarray, bins: Sequence[np.ndarray]) -> np.ndarray:
    """Return the table by bins, shape (rows, columns)."""
    return np.stack([group[table[:, j]] for j, group in enumerate(bins)], axis=1)
