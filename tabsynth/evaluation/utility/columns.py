"""The coverage of rare values of single columns."""

import math

import numpy as np

from tabsynth.evaluation.definitions import definition_of
from tabsynth.evaluation.metric import SHOWN_PARTS, Metric, Part, Tables, wilson
from tabsynth.evaluation.results import Estimate
from tabsynth.evaluation.weighting import WeightedRows, counts

RARE = 0.01  # share of the training rows: a rarer value counts as rare
COVERAGE = definition_of("rare_coverage")


def rare_coverage(tables: Tables) -> Metric:
    """Return the share of rare values of the training table that occur in the other table at all."""
    real = tables.weighted_train
    limit = RARE * (len(real) if real.weights is None else float(real.weights.sum()))
    rare = []
    for j, size in enumerate(tables.sizes):
        sums = counts(real.codes[:, j], size, real.weights)
        rare.append(np.flatnonzero((sums > 0) & (sums < limit)))

    def measure(other: WeightedRows) -> list[bool]:
        hits = (np.isin(values, other.codes[:, j]) for j, values in enumerate(rare))
        return [bool(hit) for column in hits for hit in column]

    coverage = tables.with_weights.map(measure)
    places = [(j, int(v)) for j, values in enumerate(rare) for v in values]
    missing = [
        Part(
            f"{tables.names[j]} = {tables.labels[j][v]}", 0.0, n=int((real.codes[:, j] == v).sum())
        )
        for (j, v), hit in zip(places, coverage.synthetic, strict=True)
        if not hit
    ]
    missing.sort(key=lambda part: -part.n)
    nothing = Estimate(math.nan, math.nan, math.nan, 0)
    shares = coverage.map(lambda hits: wilson(sum(hits), len(hits)) if hits else nothing)
    return Metric(COVERAGE, *shares, tuple(missing[:SHOWN_PARTS]), of_relations=False)
