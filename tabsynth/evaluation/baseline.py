"""The baseline of independent columns: the training table with each column permuted by itself.

It has the marginals of the training table and no relation between columns, and anyone can make it from the
histograms. A synthetic table that scores no better has kept no relation worth publishing. On single columns it
scores perfectly by construction, so it is a reference for relations only.

Its marginals are those of the training table without sampling error. Where columns are weakly related, a fresh
real sample can be further from the training table than this baseline. Such a metric is inconclusive, and it does
not count against a table.
"""

import math
from collections.abc import Sequence

import numpy as np

from tabsynth.evaluation.results import BaselineComparison, Distances, Prediction, Verdict

MARGIN = 0.05  # share of the gap to the best value: less is within the noise of two fits
BETTER = "better than independent columns"
PARTLY = "partly better than independent columns"
NO_BETTER = "no better than independent columns"
INCONCLUSIVE = "inconclusive against independent columns"
NOTHING = "nothing to compare: one column has no relations"


def independent_columns(
    train: np.ndarray, rows: int, rng: np.random.Generator, weights: np.ndarray | None = None
) -> np.ndarray:
    """Return a table of ``rows`` rows whose columns are independent shuffles of those of ``train``.

    Where more rows are asked for than there are, a column is several shuffles one after another. As
    many rows as the synthetic table has give both the same sampling noise. With survey weights, shape (rows,), each
    column is drawn in proportion to them, systematically along its values, so that every weighted share is right to
    within a row; the rows are self-weighting.
    """
    if weights is not None:
        drawn = [_drawn_by_weight(column, rows, rng, weights) for column in train.T]
        return np.stack(drawn, axis=1)
    repeats = -(-rows // len(train))
    columns = [
        np.concatenate([rng.permutation(column) for _ in range(repeats)])[:rows]
        for column in train.T
    ]
    return np.stack(columns, axis=1)


def _drawn_by_weight(
    column: np.ndarray, rows: int, rng: np.random.Generator, weights: np.ndarray
) -> np.ndarray:
    """Return ``rows`` values of a column, each as often as its weighted share, in random order."""
    order = np.argsort(column, kind="stable")
    return rng.permutation(column[order[drawn_by_weight(weights[order], rows, rng)]])


def drawn_by_weight(weights: np.ndarray, rows: int, rng: np.random.Generator) -> np.ndarray:
    """Return the numbers of ``rows`` rows that are drawn in proportion to their weights, systematically, in ascending order."""
    ends = np.cumsum(weights)
    places = (np.arange(rows) + rng.random()) * (ends[-1] / rows)
    return np.minimum(np.searchsorted(ends, places, side="right"), len(weights) - 1)


def verdict(
    prediction: Prediction, distances: Sequence[Distances], reference_scale: float = 1.0
) -> Verdict:
    """Compare with the baseline, by metric and overall.

    A metric is *better* when its interval excludes the baseline's value (F1: that of the gain excludes
    0; distance: both intervals are apart) and it closes at least 5% of the gap between the baseline and
    what other real people reach (F1: the classifier fitted on the training table; distance: the hold-out
    reference). Without a hold-out, and where it is not nearer than the baseline, the gap of a distance ends at 0.
    One-way marginals are not compared, since the baseline's are right by construction. A metric by which
    a hold-out is not nearer than the baseline (F1: the classifier fitted on the training table is worse than it)
    counts only in a table's favour. Without a hold-out that is not known of distances.
    ``reference_scale`` is that of :class:`tabsynth.evaluation.Metric`.
    """
    mean, out = prediction.mean, []

    def add(
        name: str,
        synthetic: float,
        baseline: float,
        best: float,
        clear: bool,
        conclusive: bool | None,
    ) -> None:
        closed = gap_closed(baseline, synthetic, best)
        better = clear and closed >= MARGIN
        out.append(BaselineComparison(name, synthetic, baseline, best, closed, better, conclusive))

    for kind in ("weighted", "macro") if len(prediction.columns) > 1 else ():
        train, synthetic, baseline = (
            getattr(f1, kind).value for f1 in (mean.train, mean.synthetic, mean.baseline)
        )
        clear = getattr(mean.gain, kind).low > 0
        add(f"F1 {kind}", synthetic, baseline, train, clear, train >= baseline)
    for item in distances:
        if item.order > 1:
            value, of_baseline = item.synthetic.mean, item.baseline.mean
            best, conclusive = 0.0, None
            if item.holdout is not None:
                reached = reference_scale * item.holdout.mean.value
                conclusive = reached < of_baseline.value
                best = reached if conclusive else 0.0
            name, clear = f"{item.order}-way distance", value.high < of_baseline.low
            add(name, value.value, of_baseline.value, best, clear, conclusive)
    return Verdict(_overall(out), tuple(out))


def _overall(comparisons: Sequence[BaselineComparison]) -> str:
    if not comparisons:
        return NOTHING
    counted = [c.better for c in comparisons if c.better or c.conclusive is not False]
    if not counted:
        return INCONCLUSIVE
    return BETTER if all(counted) else PARTLY if any(counted) else NO_BETTER


def gap_closed(baseline: float, value: float, best: float) -> float:
    """Return the share of the gap between baseline and best value that ``value`` closes; NaN where there is no gap."""
    if math.isclose(baseline, best, abs_tol=1e-12):
        return math.nan
    return (value - baseline) / (best - baseline)
