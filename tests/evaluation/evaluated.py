"""Tables for the tests of metrics."""

from dataclasses import replace

import numpy as np

from tabsynth.evaluation import Tables, independent_columns
from tabsynth.evaluation.metric import Weights, halves

NAMES, SIZES = ("a", "b", "c", "d"), (3, 4, 2, 30)


def related(rng, rows):
    a = rng.integers(0, 3, rows)
    b = np.where(rng.random(rows) < 0.7, a, rng.integers(0, 4, rows))
    c = np.where(rng.random(rows) < 0.8, a > 0, rng.integers(0, 2, rows)).astype(int)
    d = np.clip(8 * a + rng.integers(0, 10, rows) + 2 * b, 0, 29)
    return np.stack([a, b, c, d], axis=1)


def tables(train, synthetic, holdout=None, *, sizes=SIZES, numeric=True, seed=0):
    rng = np.random.default_rng(seed)
    reference, control = halves(holdout, rng)
    scores = [np.arange(s, dtype=float) if numeric and s > 2 else None for s in sizes]
    return Tables(
        train=train,
        synthetic=synthetic,
        baseline=independent_columns(train, len(synthetic), rng),
        holdout=holdout,
        reference=reference,
        control=control,
        names=tuple("abcdefgh"[: len(sizes)]),
        sizes=tuple(sizes),
        scores=tuple(scores),
        labels=tuple(tuple(map(str, range(s))) for s in sizes),
    )


def weighted(train, synthetic, holdout, weights, **about):
    """Tables with the weights of the training, the synthetic and the hold-out table; None: they have none."""
    created = tables(train, synthetic, holdout, **about)
    rng = np.random.default_rng(1)
    return replace(
        created,
        baseline=independent_columns(train, len(synthetic), rng, weights[0]),
        weights=Weights(train=weights[0], synthetic=weights[1], holdout=weights[2]),
    )


def drawn(seed=0, rows=(600, 600, 600)):
    """Three samples of one population."""
    rng = np.random.default_rng(seed)
    return tables(*(related(rng, n) for n in rows))
