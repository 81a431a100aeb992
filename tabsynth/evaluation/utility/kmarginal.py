"""The k-marginal score of NIST: 1000 is equal, 0 is disjoint.

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
from collections.abc import Sequence

import numpy as np

from tabsynth.evaluation.definitions import TWO_TABLES, Definition
from tabsynth.evaluation.metric import Metric, Part, Tables, worst_first
from tabsynth.evaluation.results import Distance, Estimate
from tabsynth.evaluation.utility.marginals import distance
from tabsynth.evaluation.weighting import WeightedRows, quantiles

REGIONS = ("PUMA", "SECTOR", "FIPST")  # as SDNist: the first that there is joins every pair
ALL_PAIRS_BELOW, DRAWN, BINS, SHOWN_PARTS = 30, 200, 20, 20
SCORE = Definition(
    name="k-marginal score",
    keys=("k_marginal",),
    meaning="Likeness of the counts of pairs of columns. Numbers are grouped by the 20 percentile groups of the training"
    " table. A column PUMA, SECTOR or FIPST joins every pair. Of 30 columns and more, 200 pairs are drawn.",
    formula="1000 · (1 − mean total variation distance of the pairs)",
    range="0 (disjoint) to 1000 (equal)",
    better="higher",
    best=1000.0,
    interval=f"{TWO_TABLES}, not that of pairs (delta method)",
    caveat="Scores on different columns or with different bins are not comparable.",
    source="Task et al. 2023, SDNist v2 (NIST)",
    sampling_power=0.5,
)


def k_marginal(tables: Tables, *, seed: int = 0) -> Metric:
    """Return the score of the synthetic table, of the hold-out, and of independent columns."""
    real = tables.weighted_train
    bins = percentile_bins(real.codes, tables.sizes, tables.scores, real.weights)
    sets = marginal_sets(tables.names, seed)
    sizes = [int(group.max()) + 1 for group in bins]

    def score(other: WeightedRows) -> Distance:
        one, two = (WeightedRows(to_bins(t.codes, bins), t.weights) for t in (real, other))
        return distance(one, two, sets, tables.names, sizes)

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
