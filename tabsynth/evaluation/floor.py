"""The floor: the training table with its columns shuffled independently of each other.

It has the right marginals and no relation between columns, and anyone can make it from the
histograms alone. A synthetic table that scores no better has kept no relation worth publishing.

Its marginals are the training table's own, without the noise of drawing rows. Where columns are so
weakly related that a fresh real sample is further from the training table than its shuffled columns
are, a metric tells nothing of relations, and it is not held against a table.
"""

import math
from collections.abc import Sequence

import numpy as np

from tabsynth.evaluation.results import Comparison, Distances, Prediction, Verdict

MARGIN = 0.05  # of the way from floor to reference: less is within the noise of two fits
BETTER = "better than shuffled columns"
PARTLY = "partly better than shuffled columns"
NO_BETTER = "no better than shuffled columns"
UNTOLD = "not to be told from shuffled columns"
NOTHING = "nothing to compare: one column has no relations"


def shuffled(train: np.ndarray, rows: int, rng: np.random.Generator) -> np.ndarray:
    """A table of ``rows`` rows whose columns are independent shuffles of those of ``train``.

    Where more rows are asked for than there are, a column is several shuffles one after another. As
    many rows as the synthetic table has give both the same sampling noise.
    """
    repeats = -(-rows // len(train))
    columns = [
        np.concatenate([rng.permutation(column) for _ in range(repeats)])[:rows]
        for column in train.T
    ]
    return np.stack(columns, axis=1)


def verdict(
    prediction: Prediction, distances: Sequence[Distances], fresh_scale: float = 1.0
) -> Verdict:
    """Compare with the floor, by metric and overall.

    A metric is *better* when its interval excludes the floor's value (F1: that of the gain excludes
    0; distance: both intervals are apart) and it has covered at least 5% of the way from
    the floor to the reference (F1: the classifier fitted on the training table; distance: 0).
    One-way marginals are not compared, since the floor's are right by construction. A metric by which
    a fresh real sample (F1: the classifier fitted on the training table) is itself worse than the
    floor counts only in a table's favour. Without a hold-out that is not known of distances.
    ``fresh_scale`` is that of :class:`tabsynth.evaluation.Metric`.
    """
    mean, out = prediction.mean, []
    if len(prediction.columns) > 1:
        for kind in ("weighted", "macro"):
            train, synthetic, floor = (
                getattr(f1, kind).value for f1 in (mean.train, mean.synthetic, mean.floor)
            )
            share = _share(floor, synthetic, train)
            better = getattr(mean.gain, kind).low > 0 and share >= MARGIN
            telling = train >= floor
            out.append(Comparison(f"F1 {kind}", synthetic, floor, train, share, better, telling))
    for distance in distances:
        if distance.order == 1:
            continue
        synthetic, floor = distance.synthetic.mean, distance.floor.mean
        share = _share(floor.value, synthetic.value, 0.0)
        better = synthetic.high < floor.low and share >= MARGIN
        fresh = None if distance.fresh is None else fresh_scale * distance.fresh.mean.value
        known = None if fresh is None else fresh <= floor.value
        name = f"{distance.order}-way distance"
        out.append(Comparison(name, synthetic.value, floor.value, 0.0, share, better, known))
    return Verdict(_overall(out), tuple(out))


def _overall(comparisons: Sequence[Comparison]) -> str:
    if not comparisons:
        return NOTHING
    found = [c.better for c in comparisons if c.better or c.telling is not False]
    if not found:
        return UNTOLD
    return BETTER if all(found) else PARTLY if any(found) else NO_BETTER


def _share(floor: float, value: float, reference: float) -> float:
    """How far ``value`` is on the way from floor to reference; NaN where there is no way to go."""
    if math.isclose(floor, reference, abs_tol=1e-12):
        return math.nan
    return (value - floor) / (reference - floor)
