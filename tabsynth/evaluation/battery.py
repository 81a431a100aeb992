"""All metrics on one synthetic table, in order, from the tables' value numbers."""

from collections.abc import Callable, Sequence

import numpy as np

from tabsynth.evaluation.disclosure import attribute_disclosure
from tabsynth.evaluation.floor import shuffled, verdict
from tabsynth.evaluation.marginals import distances
from tabsynth.evaluation.prediction import dimension_wise_prediction
from tabsynth.evaluation.results import Evaluation

Progress = Callable[[str, float], None]
FLOORS = 4  # shuffles fitted in prediction, to know what chance alone scores
TEST_SHARE = 0.3  # of the training table, where there is no hold-out


def measure(
    train: np.ndarray,
    synthetic: np.ndarray,
    holdout: np.ndarray | None,
    *,
    names: Sequence[str],
    sizes: Sequence[int],
    m: int = 1000,
    k: Sequence[int] = (1, 5, 10, 100),
    seed: int = 0,
    progress: Progress | None = None,
) -> Evaluation:
    """Marginal distances, dimension-wise prediction, attribute disclosure, and the verdict.

    Without a hold-out, prediction is tested on 30% of the training table: the classifiers of the
    training table and the floor do not see these rows, but the synthesizer did.

    Parameters
    ----------
    train, synthetic, holdout : ndarray, shape (rows, columns), int64
        Value numbers; ``sizes[j]`` of them in column j. ``holdout`` may be None.
    m : int
        Records in each group of attribute disclosure.
    seed : int
        Seeds all draws of the evaluation: the same tables give the same numbers.
    progress : callable, optional
        Called with a stage's name and its finished share in [0, 1].
    """
    rng = np.random.default_rng(seed)
    floors = [shuffled(train, len(synthetic), rng) for _ in range(FLOORS)]
    ways = tuple(
        distances(
            train,
            (synthetic, floors[0], holdout),
            order,
            names=names,
            sizes=sizes,
            seed=seed,
            progress=_stage(progress, f"{order}-way marginals"),
        )
        for order in range(1, min(3, len(sizes)) + 1)
    )
    fit, test = _fit_and_test(train, holdout, rng)
    if holdout is None:
        floors = [shuffled(fit, len(synthetic), rng) for _ in range(FLOORS)]
    predicted = dimension_wise_prediction(
        fit,
        synthetic,
        floors,
        test,
        names=names,
        sizes=sizes,
        rng=rng,
        seen=holdout is None,
        progress=_stage(progress, "prediction"),
    )
    disclosed = attribute_disclosure(
        train,
        synthetic,
        holdout,
        sizes=sizes,
        k=k,
        m=m,
        rng=rng,
        progress=_stage(progress, "disclosure"),
    )
    rows = {"train": len(train), "synthetic": len(synthetic), "test": len(test)}
    rows["holdout"] = 0 if holdout is None else len(holdout)
    return Evaluation(rows, predicted, ways, disclosed, verdict(predicted, ways))


def _fit_and_test(
    train: np.ndarray, holdout: np.ndarray | None, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """The rows that the train classifier is fitted on, and those that all are tested on."""
    if holdout is not None:
        return train, holdout
    order = rng.permutation(len(train))
    cut = round(TEST_SHARE * len(train))
    if cut == 0 or cut == len(train):  # a table of one row has nothing to split
        return train, train
    return train[order[cut:]], train[order[:cut]]


def _stage(progress: Progress | None, name: str) -> Callable[[float], None] | None:
    if progress is None:
        return None
    return lambda share: progress(name, share)
