"""Train on synthetic, test on real, for one named column (Esteban, Hyland & Rätsch 2017).

Classifiers of the column are fitted on each table and tested on the same real rows. AUROC and AUPRC
are means over the column's values, each against the others, weighted by how common they are; the
calibration error is that of the guessed value's probability in ten groups (Guo et al. 2017).
"""

import math
import warnings
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from threadpoolctl import threadpool_limits

from tabsynth.evaluation.metric import (
    GROUPS,
    SHOWN_PARTS,
    UTILITY,
    Compared,
    Metric,
    Part,
    Tables,
    clipped,
    group_numbers,
    jackknifed,
    worst_first,
)
from tabsynth.evaluation.results import Estimate
from tabsynth.evaluation.utility.prediction import (
    MAX_ITERATIONS,
    TOLERANCE,
    fold_rare,
    one_hot,
    subsample,
)

CITATION = "Esteban et al. 2017, arXiv:1706.02633; interval over test rows: Kott 2001"
CALIBRATION = "Guo et al. 2017, arXiv:1706.04599; interval over test rows: Kott 2001"
MAX_FIT, MAX_TEST, BINS = 20_000, 10_000, 10
TREES, LEARNING_RATE = 60, 0.1

Fit = Callable[[np.ndarray, np.ndarray, np.ndarray, tuple[int, ...], int], np.ndarray]


class _Scored(NamedTuple):
    """One classifier on the test rows."""

    means: tuple[Estimate, ...]  # AUROC, AUPRC, calibration error
    each: np.ndarray  # AUROC and AUPRC of each value, shape (2, values)


def train_on_synthetic(
    tables: Tables,
    test: np.ndarray,
    column: int,
    rng: np.random.Generator,
    *,
    boosting: bool = False,
) -> list[Metric]:
    """AUROC, AUPRC and calibration of each classifier of ``column``.

    The parts of the first two are the same of each value against the others, unless there are so many
    values that rare ones were put together.

    Parameters
    ----------
    tables : Tables
        ``train`` and ``baseline`` must not hold the rows of ``test``.
    test : ndarray
        Real rows: the half of the hold-out that ``tables.reference`` leaves. Without a hold-out, rows that
        the synthesizer was fitted on; the readings then say so.
    boosting : bool
        Gradient boosted trees beside the logistic regression: slower.
    """
    tables_to_fit = [tables.train, *tables.compared_beside_control]
    present = [subsample(t, MAX_FIT, rng) for t in tables_to_fit if t is not None]
    folded, sizes = fold_rare([*present, subsample(test, MAX_TEST, rng)], tables.sizes)
    *fits, test = folded
    groups = group_numbers(len(test), rng)
    counts = np.bincount(test[:, column], minlength=sizes[column])
    named = sizes[column] == tables.sizes[column]  # its values are those of the table
    kinds: list[tuple[str, str, Fit]] = [("logistic", "logistic regression", logistic)]
    if boosting:
        kinds.append(("boosting", "gradient boosting", boosted))
    out = []
    for short, words, fit in kinds:
        measured = []
        for table in fits:
            chances = probabilities(fit, table, test, column, sizes)
            measured.append(_scores(chances, test[:, column], groups))
        train, *others = measured
        remaining = iter(others)
        scores = tables.compared_beside_control.map(lambda _, left=remaining: next(left))  # type: ignore[misc]
        for i in range(len(_KINDS)):
            parts = _parts(i, scores, tables.labels[column], counts) if named and i < 2 else ()
            means = scores.map(lambda scored, i=i: scored.means[i])  # type: ignore[misc]
            out.append(_metric(i, short, words, tables, column, train.means[i], means, parts))
    return out


def _parts(
    i: int, scores: Compared[_Scored], labels: Sequence[str], counts: np.ndarray
) -> tuple[Part, ...]:
    """AUROC or AUPRC of each value that some test rows have and some have not."""
    judged = np.flatnonzero(np.isfinite(scores.synthetic.each[i])).tolist()
    parts = [
        scores.part(labels[v], lambda scored, v=v: scored.each[i, v], int(counts[v]))  # type: ignore[misc]
        for v in judged
    ]
    return worst_first(parts, "higher", SHOWN_PARTS)


_KINDS = (
    ("auroc", "AUROC", "higher", CITATION),
    ("auprc", "AUPRC", "higher", CITATION),
    ("calibration", "Calibration error", "lower", CALIBRATION),
)


def _metric(
    i: int,
    short: str,
    words: str,
    tables: Tables,
    column: int,
    train: Estimate,
    estimates: Compared[Estimate],
    parts: tuple[Part, ...],
) -> Metric:
    key, title, better, citation = _KINDS[i]
    name = tables.names[column]
    defined = math.isfinite(train.value)  # not where the test rows have one value
    best = 0.0 if better == "lower" else train.value if defined else None
    reached = f"{train.value:.3f}" if defined else "not known"
    return Metric(
        f"target_{key}_{short}",
        f"{title} of {name}, {words}",
        UTILITY,
        *estimates,
        better,  # type: ignore[arg-type]
        best,
        f"Fitted on the table, tested on real rows; fitted on the training table: {reached}."
        + (_OF_VALUES if parts else "")
        + (_SEEN if tables.holdout is None else ""),
        citation,
        parts,
    )


_OF_VALUES = (
    " The mean over values, each against all others, weighted by how many test rows have it; what is"
    " commonly called the AUPRC of a rare value is the part of its name."
)
_SEEN = " For want of a hold-out the test rows are ones that the synthesizer was fitted on, which flatters it."


def _scores(chances: np.ndarray, truth: np.ndarray, groups: np.ndarray) -> _Scored:
    """AUROC, AUPRC, calibration error with jackknife intervals over the test rows."""
    out = []
    for score in (auroc, auprc, calibration_error):
        value = score(chances, truth)
        replicates = np.array(
            [score(chances[groups != g], truth[groups != g]) for g in range(GROUPS)]
            if len(truth) >= GROUPS
            else []
        )
        out.append(clipped(jackknifed(value, replicates, len(truth)), 0.0, 1.0))
    each = [of_values(chances, truth, score) for score in (area_under_roc, average_precision)]
    return _Scored(tuple(out), np.array(each))


def probabilities(
    fit: Fit, table: np.ndarray, test: np.ndarray, column: int, sizes: tuple[int, ...]
) -> np.ndarray:
    """Estimated chance of every value of the column for each test row, shape (rows, size).

    A table that has one value of the column, or no other column, gives that table's shares.
    """
    labels = table[:, column]
    others = [j for j in range(len(sizes)) if j != column]
    shares = np.bincount(labels, minlength=sizes[column]) / len(labels)
    if np.count_nonzero(shares) < 2 or not others:
        return np.tile(shares, (len(test), 1))
    with threadpool_limits(1):
        return fit(
            table[:, others],
            labels,
            test[:, others],
            tuple(sizes[j] for j in others),
            sizes[column],
        )


def logistic(
    rows: np.ndarray, labels: np.ndarray, test: np.ndarray, sizes: tuple[int, ...], classes: int
) -> np.ndarray:
    """The yardstick's logistic regression on one-hot codes."""
    model = LogisticRegression(C=1.0, max_iter=MAX_ITERATIONS, tol=TOLERANCE)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.filterwarnings("ignore", message="The number of unique classes")
        model.fit(one_hot(rows, sizes), labels)
    return _spread(model.predict_proba(one_hot(test, sizes)), model.classes_, classes)


def boosted(
    rows: np.ndarray, labels: np.ndarray, test: np.ndarray, sizes: tuple[int, ...], classes: int
) -> np.ndarray:
    """Gradient boosted trees on category codes, those of unordered columns taken as they are."""
    del sizes
    model = HistGradientBoostingClassifier(
        max_iter=TREES, learning_rate=LEARNING_RATE, early_stopping=False, random_state=0
    )
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The number of unique classes")
        model.fit(rows, labels)
    return _spread(model.predict_proba(test), model.classes_, classes)


def _spread(probabilities: np.ndarray, seen: np.ndarray, classes: int) -> np.ndarray:
    out = np.zeros((len(probabilities), classes))
    out[:, seen] = probabilities
    return out


def of_values(
    chances: np.ndarray, truth: np.ndarray, score: Callable[[np.ndarray, np.ndarray], float]
) -> np.ndarray:
    """The score of each value against the others; NaN of one that all test rows have, or none."""
    counts = np.bincount(truth, minlength=chances.shape[1])
    judged = (counts > 0) & (counts < len(truth))
    return np.array(
        [score(chances[:, v], truth == v) if judged[v] else np.nan for v in range(len(counts))]
    )


def _weighted(
    chances: np.ndarray, truth: np.ndarray, score: Callable[[np.ndarray, np.ndarray], float]
) -> float:
    """Mean over values that some rows have and some have not, weighted by how many have."""
    values = of_values(chances, truth, score)
    judged = np.isfinite(values)
    if not judged.any():
        return float("nan")
    counts = np.bincount(truth, minlength=len(values))
    return float(np.average(values[judged], weights=counts[judged]))


def auroc(chances: np.ndarray, truth: np.ndarray) -> float:
    """Area under the ROC curve (ties count half), mean over values; NaN where there is one value."""
    return _weighted(chances, truth, area_under_roc)


def auprc(chances: np.ndarray, truth: np.ndarray) -> float:
    """Average precision, mean over values as in :func:`auroc`."""
    return _weighted(chances, truth, average_precision)


def area_under_roc(score: np.ndarray, positive: np.ndarray) -> float:
    """Chance that a positive scores higher than a negative, ties half (Mann & Whitney 1947)."""
    _, inverse, counts = np.unique(score, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    ranks = (ends - (counts - 1) / 2)[inverse]
    ones = int(positive.sum())
    zeros = len(positive) - ones
    return float((ranks[positive].sum() - ones * (ones + 1) / 2) / (ones * zeros))


def average_precision(score: np.ndarray, positive: np.ndarray) -> float:
    """Sum of precision × gain in recall over thresholds, ties taken together."""
    order = np.argsort(-score, kind="stable")
    hits = np.cumsum(positive[order])
    ends = np.flatnonzero(np.append(np.diff(score[order]) != 0, True))
    precision = hits[ends] / (ends + 1)
    recall = hits[ends] / hits[-1]
    return float((precision * np.diff(recall, prepend=0.0)).sum())


def calibration_error(chances: np.ndarray, truth: np.ndarray) -> float:
    """Expected calibration error of the likeliest value's chance, in ten groups of equal width."""
    guess = chances.argmax(axis=1)
    sure = chances[np.arange(len(chances)), guess]
    bins = np.minimum((sure * BINS).astype(int), BINS - 1)
    gap = np.bincount(bins, sure - (guess == truth), minlength=BINS)
    return float(np.abs(gap).sum() / len(truth))
