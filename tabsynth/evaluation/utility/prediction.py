"""Dimension-wise prediction: how well a classifier fitted on the synthetic table predicts real rows.

Choi et al. 2017 (medGAN, arXiv:1703.06490), as in section 2.4 of Jutras-Dubé's DP-WGAN: each column
in turn is the label, a logistic regression is fitted on the other columns of a table, and scored on
a real test table. The closer to the same classifier fitted on the training table, the better.
"""

import math
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from scipy import sparse, stats
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from threadpoolctl import threadpool_limits

from tabsynth.evaluation.attacks.nearest import draw_rows, workers
from tabsynth.evaluation.definitions import definition_of
from tabsynth.evaluation.metric import SHOWN_PARTS, Columns, Metric, Part, worst_first
from tabsynth.evaluation.results import F1, Z95, ColumnPrediction, Estimate, Prediction, percentile
from tabsynth.evaluation.weighting import WeightedRows, counts, shares

MAX_ITERATIONS, TOLERANCE = 60, 1e-3
MAX_FIT_ROWS = 50_000
MAX_TEST_ROWS = 20_000
MAX_CLASSES = 100  # of a column: the rarer ones of the training table become one
MAX_TARGETS = 64  # columns that are predicted: of wider tables, so many drawn at random
MAX_WORK = 280_000_000  # rows × classes × columns, summed over the fits: about 20 s
MIN_FIT_ROWS = 1_000
REPLICATES = 200
SEEN = "The test rows are ones that the synthesizer was fitted on, so the figure is optimistic."

# fit(rows, labels, test, sizes, classes, weights): chances of each class for the test rows
Fit = Callable[
    [np.ndarray, np.ndarray, np.ndarray, tuple[int, ...], int, np.ndarray | None], np.ndarray
]

PREDICTION = definition_of("prediction_weighted")


def dimension_wise_prediction(
    train: np.ndarray | WeightedRows,
    synthetic: np.ndarray | WeightedRows,
    baselines: Sequence[np.ndarray],
    test: np.ndarray | WeightedRows,
    columns: Columns,
    rng: np.random.Generator,
    *,
    progress: Callable[[float], None] | None = None,
) -> Prediction:
    """Return F1 of every column on ``test``, for classifiers fitted on each of the other tables.

    The intervals are bootstrap percentiles over the test rows, the same draws for all columns and
    tables, so that ratios are paired. The gain over the baseline (the mean over ``baselines``) also allows
    for what another shuffle would have scored.

    To bound the time: fits use at most 50,000 rows (in wide tables fewer, but 1,000), tests 20,000;
    at most 64 columns are predicted; and of a column with more than 100 values, all but the 99
    commonest of the training table are one value.

    Parameters
    ----------
    train, synthetic, test : ndarray, shape (rows, columns), int64, or WeightedRows
        Category codes, null being one of them. Classifiers are fitted with the weights of the rows, scaled to a mean of 1, and scores are those of weighted test rows.
    baselines : sequence of two such tables or more
        Shuffles of the training table's columns.
    columns : Columns
    progress : callable, optional
        Called with the finished share of the fits, in [0, 1].
    """
    classes = columns.sizes
    weighted = [
        t if isinstance(t, WeightedRows) else WeightedRows(t)
        for t in (train, synthetic, *baselines, test)
    ]
    folded, sizes = fold_rare([t.codes for t in weighted], classes, weighted[0].weights)
    *tables, tested = (
        WeightedRows(codes, t.mean_one) for codes, t in zip(folded, weighted, strict=True)
    )
    targets = np.sort(rng.permutation(len(sizes))[:MAX_TARGETS]).tolist()
    work = len(sizes) * sum(sizes[j] for j in targets) * len(tables)  # of a row of every table
    rows = min(MAX_FIT_ROWS, max(MIN_FIT_ROWS, MAX_WORK // work))
    tables = [sample_rows(table, rows, rng) for table in tables]
    tested = sample_rows(tested, MAX_TEST_ROWS, rng)
    test = tested.codes
    guesses = _fit_all(tables, test, sizes, targets, progress)
    weights = bootstrap_weights(len(test), REPLICATES, rng)
    if tested.weights is not None:
        weights *= tested.weights[:, None]
    scores = np.stack(
        [
            [f1_scores(test[:, j], guess[:, j], sizes[j], weights) for guess in guesses]
            for j in targets
        ]
    )
    predicted = tuple(
        _column(columns.names[j], classes[j], score, len(test))
        for j, score in zip(targets, scores, strict=True)
    )
    mean = _column("mean", 0, scores.mean(axis=0), len(test))
    return Prediction(predicted, mean, len(test), seen=False)


def folded_columns(prediction: Prediction) -> tuple[str, ...]:
    """Return the columns predicted that have so many values that the rarer ones count as one."""
    return tuple(item.column for item in prediction.columns if item.classes > MAX_CLASSES)


def prediction_metrics(prediction: Prediction) -> list[Metric]:
    """Return the mean F1 over columns, weighted and macro.

    The hold-out reference is the training table itself: the rows that all are tested on are not in it.
    """
    out = []
    for average in ("weighted", "macro"):
        parts = [
            Part(
                column.column,
                getattr(column.synthetic, average).value,
                getattr(column.train, average).value,
                getattr(column.baseline, average).value,
                prediction.test_rows,
            )
            for column in prediction.columns
        ]
        mean = prediction.mean
        out.append(
            Metric(
                PREDICTION,
                getattr(mean.synthetic, average),
                getattr(mean.train, average),
                getattr(mean.baseline, average),
                worst_first(parts, "higher", SHOWN_PARTS),
                key=f"prediction_{average}",
                title=f"Dimension-wise prediction, {average} F1, logistic regression",
                best=getattr(mean.train, average).value,
                note=SEEN if prediction.seen else "",
                details=prediction if average == "weighted" else None,
            )
        )
    return out


def sample_rows(table: WeightedRows, limit: int, rng: np.random.Generator) -> WeightedRows:
    """Return ``limit`` rows without replacement, with their weights."""
    return table if len(table) <= limit else table.at(draw_rows(np.arange(len(table)), limit, rng))


def fold_rare(
    tables: Sequence[np.ndarray], sizes: Sequence[int], weights: np.ndarray | None = None
) -> tuple[list[np.ndarray], tuple[int, ...]]:
    """Return tables and sizes with at most 100 values a column: the 99 commonest of the first, and others.

    ``weights``, shape (rows,): of the rows of the first table.
    """
    wide = [j for j, size in enumerate(sizes) if size > MAX_CLASSES]
    folded = [table.copy() for table in tables] if wide else list(tables)
    for j in wide:
        rows = counts(tables[0][:, j], sizes[j], weights)
        name = np.full(sizes[j], MAX_CLASSES - 1)
        name[np.argsort(-rows, kind="stable")[: MAX_CLASSES - 1]] = np.arange(MAX_CLASSES - 1)
        for table in folded:
            table[:, j] = name[table[:, j]]
    return folded, tuple(min(size, MAX_CLASSES) for size in sizes)


def _fit_all(
    tables: list[WeightedRows],
    test: np.ndarray,
    sizes: tuple[int, ...],
    targets: Sequence[int],
    progress: Callable[[float], None] | None,
) -> list[np.ndarray]:
    """Return predictions of the target columns by every table; a list of arrays, shape (test rows, columns)."""
    out = [np.empty_like(test) for _ in tables]
    # The widest first, so that no thread is left alone with it at the end.
    widest = sorted(targets, key=lambda j: -sizes[j])
    tasks = [(i, j) for j in widest for i in range(len(tables))]

    def run(task: tuple[int, int]) -> None:
        i, j = task
        chances = probabilities(logistic, tables[i].codes, test, j, sizes, tables[i].weights)
        out[i][:, j] = chances.argmax(axis=1)

    # One BLAS thread in each of ours: more of them wait for each other longer than they compute.
    with (
        warnings.catch_warnings(),
        threadpool_limits(1),
        ThreadPoolExecutor(workers()) as pool,
    ):
        # Stopping at MAX_ITERATIONS is part of the metric's definition.
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.filterwarnings("ignore", message="The number of unique classes")
        for done, _ in enumerate(pool.map(run, tasks), start=1):
            if progress is not None:
                progress(done / len(tasks))
    return out


def probabilities(
    fit: Fit,
    table: np.ndarray,
    test: np.ndarray,
    column: int,
    sizes: tuple[int, ...],
    weights: np.ndarray | None = None,
) -> np.ndarray:
    """Return the estimated chance of every value of the column for each test row, shape (rows, size).

    A table that has one value of the column, or no other column, gives that table's shares.
    """
    labels = table[:, column]
    predictors = [j for j in range(len(sizes)) if j != column]
    of_values = shares(labels, sizes[column], weights)
    if np.count_nonzero(of_values) < 2 or not predictors:
        return np.tile(of_values, (len(test), 1))
    with threadpool_limits(1):
        return fit(
            table[:, predictors],
            labels,
            test[:, predictors],
            tuple(sizes[j] for j in predictors),
            sizes[column],
            weights,
        )


def logistic(
    rows: np.ndarray,
    labels: np.ndarray,
    test: np.ndarray,
    sizes: tuple[int, ...],
    classes: int,
    weights: np.ndarray | None = None,
) -> np.ndarray:
    """Return the chances of the evaluation protocol's logistic regression on one-hot codes.

    Its settings: L2 with C = 1, L-BFGS of at most 60 iterations, tolerance 1e-3.
    """
    model = LogisticRegression(C=1.0, max_iter=MAX_ITERATIONS, tol=TOLERANCE)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.filterwarnings("ignore", message="The number of unique classes")
        model.fit(one_hot(rows, sizes), labels, weights)
    out = np.zeros((len(test), classes))
    out[:, model.classes_] = model.predict_proba(one_hot(test, sizes))
    return out


def one_hot(index: np.ndarray, sizes: Sequence[int]) -> sparse.csr_matrix:
    """Return one-hot codes of category codes: sparse float32, shape (rows, sum of sizes)."""
    rows, columns = index.shape
    starts = np.concatenate([[0], np.cumsum(sizes)])
    places = (index + starts[:-1]).ravel().astype(np.int32)
    pointers = np.arange(0, rows * columns + 1, columns, dtype=np.int32)
    ones = np.ones(rows * columns, dtype=np.float32)
    return sparse.csr_matrix((ones, places, pointers), shape=(rows, int(starts[-1])))


def bootstrap_weights(rows: int, replicates: int, rng: np.random.Generator) -> np.ndarray:
    """Return how often each row was drawn, shape (rows, 1 + replicates); first: each row once."""
    weights = np.ones((rows, 1 + replicates))
    for b in range(1, 1 + replicates):
        weights[:, b] = np.bincount(rng.integers(0, rows, rows), minlength=rows)
    return weights


def f1_scores(truth: np.ndarray, guess: np.ndarray, size: int, weights: np.ndarray) -> np.ndarray:
    """Return weighted and macro F1 under every column of row weights; shape (2, weights).

    As in scikit-learn: F1 of a class is 2·TP / (true + guessed), the macro mean is over the classes
    that occur in truth or guess, the weighted mean has the true counts as weights. "Occur" is by the
    first column of weights, for all of them: if a rare class that is never guessed right left the mean of
    each resample that misses it, all resamples would score above the whole. A class that a resample
    misses has there the F1 of the first column.

    Parameters
    ----------
    truth, guess : ndarray, shape (rows,)
    weights : ndarray, shape (rows, replicates)
        The first: each row once, or its survey weight.
    """
    true = _class_sums(truth, np.ones(len(truth)), size, weights)
    guessed = _class_sums(guess, np.ones(len(truth)), size, weights)
    hits = _class_sums(truth, truth == guess, size, weights)
    both = true + guessed
    occur = both[:, 0] > 0
    true, both, hits = true[occur], both[occur], hits[occur]
    first = 2 * hits[:, :1] / both[:, :1]
    f1 = np.divide(2 * hits, both, out=np.repeat(first, both.shape[1], axis=1), where=both > 0)
    weighted = (f1 * true).sum(axis=0) / true.sum(axis=0)
    macro = f1.mean(axis=0)
    return np.stack([weighted, macro])


def _class_sums(
    labels: np.ndarray, values: np.ndarray, size: int, weights: np.ndarray
) -> np.ndarray:
    """Return the sum of value × weight over the rows of each class; shape (size, replicates), float64."""
    rows = np.arange(len(labels))
    member = sparse.csr_matrix(
        (values.astype(np.float64), (labels, rows)), shape=(size, len(labels))
    )
    return member @ weights


def _column(name: str, classes: int, scores: np.ndarray, n: int) -> ColumnPrediction:
    """Return scores of shape (tables, 2 averages, 1 + replicates) as estimates."""
    train, synthetic, baselines = scores[0], scores[1], scores[2:]
    baseline = baselines.mean(axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(train > 0, synthetic / train, np.nan)
    return ColumnPrediction(
        name,
        classes,
        train=_f1(train, n),
        synthetic=_f1(synthetic, n),
        baseline=_f1(baseline, n),
        ratio=_f1(ratio, n),
        gain=F1(*(_gain(synthetic[i], baselines[:, i], n) for i in range(2))),
    )


def _f1(scores: np.ndarray, n: int) -> F1:
    return F1(*(percentile(float(row[0]), row[1:], n) for row in scores))


def _gain(synthetic: np.ndarray, baselines: np.ndarray, n: int) -> Estimate:
    """Return synthetic − mean of baselines, given as (1 + replicates,) and (baselines, 1 + replicates).

    Its interval adds up the bootstrap over test rows and a prediction interval for one more baseline,
    by Student's t over the baselines there are: two fits on noise never score quite the same.
    """
    gains = synthetic - baselines.mean(axis=0)
    count = len(baselines)
    spread = float(baselines[:, 0].std(ddof=1)) * math.sqrt(1 + 1 / count)
    half = math.hypot(Z95 * float(gains[1:].std()), stats.t.ppf(0.975, count - 1) * spread)
    return Estimate(float(gains[0]), float(gains[0]) - half, float(gains[0]) + half, n)
