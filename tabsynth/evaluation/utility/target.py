"""Train on synthetic, test on real, for one named column (Esteban, Hyland & Rätsch 2017).

A logistic regression of the column is fitted on each table and tested on the same real rows. AUROC and AUPRC
are means over the column's values, each against the others, weighted by how common they are.
"""

import math
from collections.abc import Callable, Sequence
from operator import attrgetter, itemgetter
from typing import NamedTuple

import numpy as np

from tabsynth.evaluation.definitions import definition_of
from tabsynth.evaluation.metric import (
    GROUPS,
    SHOWN_PARTS,
    Compared,
    Metric,
    Part,
    Tables,
    group_numbers,
    jackknife,
    worst_first,
)
from tabsynth.evaluation.results import Estimate
from tabsynth.evaluation.utility.prediction import (
    SEEN,
    fold_rare,
    logistic,
    probabilities,
    sample_rows,
)
from tabsynth.evaluation.weighting import WeightedRows, counts

MAX_FIT, MAX_TEST = 20_000, 10_000

Score = Callable[[np.ndarray, np.ndarray, np.ndarray | None], float]  # chances, truth, weights
AUROC = definition_of("target_auroc_*")
AUPRC = definition_of("target_auprc_*")


class _Scored(NamedTuple):
    """One classifier on the test rows."""

    means: tuple[Estimate, ...]  # AUROC and AUPRC
    each: np.ndarray  # AUROC and AUPRC of each value, shape (2, values)


def train_on_synthetic(
    tables: Tables,
    test: np.ndarray | WeightedRows,
    column: int,
    rng: np.random.Generator,
) -> list[Metric]:
    """Return the AUROC and AUPRC of a logistic regression of ``column``.

    Their parts are the same of each value against the others, unless there are so many
    values that rare ones were put together.

    Parameters
    ----------
    tables : Tables
        ``train`` and ``baseline`` must not hold the rows of ``test``.
    test : ndarray or WeightedRows
        Real rows: the half of the hold-out that ``tables.reference`` leaves. Without a hold-out, rows that
        the synthesizer was fitted on; the readings then say so.
    """
    tables_to_fit = [tables.weighted_train, *tables.weighted_beside_control]
    present = [sample_rows(t, MAX_FIT, rng) for t in tables_to_fit if t is not None]
    rows = test if isinstance(test, WeightedRows) else WeightedRows(test)
    present.append(sample_rows(rows, MAX_TEST, rng))
    folded, sizes = fold_rare([t.codes for t in present], tables.sizes, present[0].weights)
    *fits, tested = (WeightedRows(c, t.mean_one) for c, t in zip(folded, present, strict=True))
    groups = group_numbers(len(tested), rng)
    numbers = counts(tested.codes[:, column], sizes[column])
    named = sizes[column] == tables.sizes[column]  # its values are those of the table
    measured = []
    for table in fits:
        chances = probabilities(logistic, table.codes, tested.codes, column, sizes, table.weights)
        measured.append(_scores(chances, tested.codes[:, column], groups, tested.weights))
    train, *compared_scores = measured
    scores = tables.compared_beside_control.with_items(compared_scores)
    means = scores.map(attrgetter("means"))
    out = []
    for i, definition in enumerate((AUROC, AUPRC)):
        parts = _parts(i, scores, tables.labels[column], numbers) if named else ()
        reached = train.means[i].value
        defined = math.isfinite(reached)  # not where the test rows have one value
        stated = f"{reached:.3f}" if defined else "not known"
        seen = f" {SEEN}" if tables.holdout is None else ""
        out.append(
            Metric(
                definition,
                *means.map(itemgetter(i)),
                parts,
                key=definition.keys[0].replace("*", "logistic"),
                title=f"{definition.name.removesuffix('the target')}{tables.names[column]}, logistic regression",
                best=reached if defined else None,
                note=f"Of a classifier that is fitted on the training table: {stated}.{seen}",
            )
        )
    return out


def _parts(
    i: int, scores: Compared[_Scored], labels: Sequence[str], counts: np.ndarray
) -> tuple[Part, ...]:
    """Return the AUROC or AUPRC of each value that some test rows have and some have not."""
    judged = np.flatnonzero(np.isfinite(scores.synthetic.each[i])).tolist()
    parts = scores.parts(
        [labels[v] for v in judged], lambda scored: scored.each[i, judged], counts[judged]
    )
    return worst_first(parts, "higher", SHOWN_PARTS)


def _scores(
    chances: np.ndarray, truth: np.ndarray, groups: np.ndarray, weights: np.ndarray | None
) -> _Scored:
    """Return the AUROC and AUPRC with jackknife intervals over the test rows."""
    out = []
    for score in (auroc, auprc):
        value = score(chances, truth, weights)
        without_groups = [groups != g for g in range(GROUPS)] if len(truth) >= GROUPS else []
        replicates = np.array(
            [
                score(chances[k], truth[k], None if weights is None else weights[k])
                for k in without_groups
            ]
        )
        out.append(jackknife(value, replicates, len(truth), 0.0, 1.0))
    both = (area_under_roc, average_precision)
    each = [of_values(chances, truth, score, weights) for score in both]
    return _Scored(tuple(out), np.array(each))


def of_values(
    chances: np.ndarray, truth: np.ndarray, score: Score, weights: np.ndarray | None = None
) -> np.ndarray:
    """Return the score of each value against the others; NaN of one that all test rows have, or none."""
    rows = counts(truth, chances.shape[1])
    judged = (rows > 0) & (rows < len(truth))
    return np.array(
        [
            score(chances[:, v], truth == v, weights) if judged[v] else np.nan
            for v in range(len(rows))
        ]
    )


def _mean_over_values(
    chances: np.ndarray, truth: np.ndarray, score: Score, weights: np.ndarray | None
) -> float:
    """Return the mean over values that some rows have and some have not, weighted by how many have."""
    values = of_values(chances, truth, score, weights)
    judged = np.isfinite(values)
    if not judged.any():
        return float("nan")
    return float(np.average(values[judged], weights=counts(truth, len(values), weights)[judged]))


def auroc(chances: np.ndarray, truth: np.ndarray, weights: np.ndarray | None = None) -> float:
    """Return the area under the ROC curve (ties count half), mean over values; NaN where there is one value."""
    return _mean_over_values(chances, truth, area_under_roc, weights)


def auprc(chances: np.ndarray, truth: np.ndarray, weights: np.ndarray | None = None) -> float:
    """Return the average precision, mean over values as in :func:`auroc`."""
    return _mean_over_values(chances, truth, average_precision, weights)


def area_under_roc(
    score: np.ndarray, positive: np.ndarray, weights: np.ndarray | None = None
) -> float:
    """Return the chance that a positive scores higher than a negative, ties half (Mann & Whitney 1947)."""
    values, inverse = np.unique(score, return_inverse=True)
    of_score = [
        counts(inverse[rows], len(values), None if weights is None else weights[rows])
        for rows in (positive, ~positive)
    ]
    ones, zeros = of_score
    below = np.cumsum(zeros) - zeros / 2
    return float((ones * below).sum() / (ones.sum() * zeros.sum()))


def average_precision(
    score: np.ndarray, positive: np.ndarray, weights: np.ndarray | None = None
) -> float:
    """Return the sum of precision × gain in recall over thresholds, ties taken together."""
    order = np.argsort(-score, kind="stable")
    each = np.ones(len(score)) if weights is None else weights[order]
    hits, ranked = np.cumsum(each * positive[order]), np.cumsum(each)
    ends = np.flatnonzero(np.append(np.diff(score[order]) != 0, True))
    precision = hits[ends] / ranked[ends]
    recall = hits[ends] / hits[-1]
    return float((precision * np.diff(recall, prepend=0.0)).sum())
