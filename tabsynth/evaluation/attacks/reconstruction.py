"""Attribute reconstruction: boosted trees and the nearest rows guess the columns of a person from a few known ones.

"SoK: Reconstruction Attacks on Synthetic Tabular Data (Insights from Winning the NIST CRC)", 2026, arXiv:2606.08372: the attacks of the team that won NIST's red-team exercise of 2025, and their memorisation test. That test
compares the score on people of the training table with the score on other people. Only the difference is leakage.

A guess adds two estimates of the chance of each value. Gradient-boosted trees that are fitted on the synthetic table find what it
teaches about everyone. The 100 nearest rows find copies. Each is weighted as in record linkage: by how much likelier its known
columns are in a copy of the person than in another row, so that agreement in a rare value counts more. Where rows equal the person
in all known columns, only these count. The guess is the value with the highest expected score.

Fellegi & Sunter 1969, "A Theory for Record Linkage"; Winkler 1988, "Using the EM Algorithm for Weight Computation in the
Fellegi-Sunter Model of Record Linkage".

The score is that of NIST: a right guess counts in inverse proportion to the frequency of the true value, which is balanced
accuracy.

NOTE[DIFF]: NIST counts equal values alone; here a guess of an ordered value is right within 5% of its column's range, as in
the attacks by Gower's distance. The paper combines other classifiers, and its test takes five samples of a table; here both
groups are people of one evaluation, with equal numbers, and frequencies of values are those of both groups together.
"""

import numpy as np
from threadpoolctl import threadpool_limits

from tabsynth.evaluation.attacks.gower import MAX_TABLE, GowerSearch, Places, places, right
from tabsynth.evaluation.attacks.nearest import draw_rows, in_chunks, nearest
from tabsynth.evaluation.definitions import definition_of
from tabsynth.evaluation.metric import Compared, Metric, Part, Tables, worst_first
from tabsynth.evaluation.results import Reconstruction, difference_of_shares

KNOWN = 7  # columns, as many as in NIST's exercise; of a narrow table half of the columns
MAX_TARGETS = 32  # columns that are guessed: of a wider table some are drawn
MAX_FITTED = 20_000  # rows that the trees are fitted on
MAX_VALUES = 250  # the commonest values that are guessed
TREE_VALUES = 20  # the commonest values that trees tell apart
NEAREST = 100  # rows that may be a copy of a person
LINKED = 1000  # people by which the weights of rows are estimated
ROUNDS = 15  # of the estimation
START = (0.7, 0.1, 0.2)  # chances that a copy has the same value, one within 5%, and another row's
OTHERS = 0.1  # weight of the trees' chances, as a share of the rows of the table
FEWEST = 3  # rows for each value that trees tell apart
TREES = {"max_iter": 5, "learning_rate": 0.5, "max_leaf_nodes": 15, "min_samples_leaf": 5}
RECONSTRUCTION = definition_of("reconstruction")


def reconstruction(tables: Tables, count: int, rng: np.random.Generator) -> list[Metric]:
    """Return how much better the attack reconstructs training people than others; empty where no column is left to guess.

    Parameters
    ----------
    count : int
        The number of people in each group; as many as there are of a smaller table.
    """
    assert tables.control is not None
    columns = range(len(tables.sizes))
    known = list(tables.known or columns[: min(KNOWN, len(columns) // 2)])
    targets = [j for j in columns if j not in known]
    if not known or not targets:
        return []
    targets = sorted(rng.permutation(targets)[:MAX_TARGETS].tolist())
    n = min(count, len(tables.train), len(tables.control))
    people = np.concatenate([draw_rows(t, n, rng) for t in (tables.train, tables.control)])
    truth, ordered = people[:, targets], places(tables)
    worth = rarity(truth)

    def attack(table: np.ndarray) -> np.ndarray:
        guesses = guess_columns(people, table, known, targets, ordered, rng)
        hits = [
            right(ordered[j], guess, true)
            for j, guess, true in zip(targets, guesses.T, truth.T, strict=True)
        ]
        return worth * np.stack(hits, axis=1)

    # The training table itself is what a table that memorises everything shows.
    scores = Compared(tables.synthetic, tables.reference, tables.train).map(attack)
    differences = scores.map(
        lambda score: difference_of_shares(score[:n].mean(axis=1), score[n:].mean(axis=1))
    )
    by_column = scores.map(lambda score: score[:n].mean(axis=0) - score[n:].mean(axis=0))
    parts = [
        Part(
            tables.names[j],
            float(by_column.synthetic[i]),
            None if by_column.holdout is None else float(by_column.holdout[i]),
            n=2 * n,
        )
        for i, j in enumerate(targets)
    ]
    details = Reconstruction(
        tuple(tables.names[j] for j in known),
        float(scores.synthetic[:n].mean()),
        float(scores.synthetic[n:].mean()),
        float(np.mean([1 / len(np.unique(column)) for column in truth.T])),
        differences.baseline,
    )
    return [
        Metric(
            RECONSTRUCTION,
            differences.synthetic,
            differences.holdout,
            parts=worst_first(parts, "lower", MAX_TARGETS),
            note=f"The training table itself would show {details.memorizing.value:.3f}.",
            details=details,
        )
    ]


def rarity(truth: np.ndarray) -> np.ndarray:
    """Return what a right guess counts: rows / (rows of the value · values of the column); its mean is 1 in each column.

    Parameters
    ----------
    truth : ndarray, shape (rows, columns), int64
    """
    worth = np.empty(truth.shape)
    for j, column in enumerate(truth.T):
        values, index, counts = np.unique(column, return_inverse=True, return_counts=True)
        worth[:, j] = len(column) / (counts[index] * len(values))
    return worth


def guess_columns(
    people: np.ndarray,
    table: np.ndarray,
    known: list[int],
    targets: list[int],
    ordered: Places,
    rng: np.random.Generator,
) -> np.ndarray:
    """Return the guess of each target column of each person, from a table of category codes; shape (people, targets)."""
    facts, table = people[:, known], draw_rows(table, MAX_TABLE, rng)
    of_known = tuple(ordered[j] for j in known)
    near = nearest_rows(facts, table[:, known], of_known, rng)
    weights = linkage_weights(facts, table[:, known], near, of_known)
    fitted = draw_rows(table, MAX_FITTED, rng)
    out = np.empty((len(people), len(targets)), dtype=np.int64)
    for i, j in enumerate(targets):
        counts = np.bincount(table[:, j])
        values = np.argsort(-counts, kind="stable")[: min(MAX_VALUES, np.count_nonzero(counts))]
        score = weighted_shares(near, weights, table[:, j], values, counts)
        chances = tree_chances(facts, fitted[:, known], fitted[:, j], values[:TREE_VALUES])
        # From equal weights of classes to their frequencies; the sum of chances stays.
        rows = chances @ counts[values[:TREE_VALUES]] / len(table) / chances.sum(axis=1)
        score[:, :TREE_VALUES] += OTHERS * chances / rows[:, None]
        if ordered[j] is not None:
            score = score @ right(ordered[j], values[:, None], values[None])
        out[:, i] = values[score.argmax(axis=1)]
    return out


def nearest_rows(
    facts: np.ndarray, table: np.ndarray, ordered: Places, rng: np.random.Generator
) -> np.ndarray:
    """Return the 100 rows that are nearest to each person, or all of a smaller table; shape (people, rows)."""
    sizes = (np.concatenate([facts, table]).max(axis=0) + 1).tolist()
    searched = GowerSearch(table, sizes, ordered)

    def work(part: np.ndarray, generator: np.random.Generator) -> np.ndarray:
        distances = (searched.distance(searched.differs(record)) for record in part)
        return np.stack([nearest(distance, NEAREST, generator)[0] for distance in distances])

    return in_chunks(facts, work, rng, searched.rows)


def linkage_weights(
    facts: np.ndarray, table: np.ndarray, near: np.ndarray, ordered: Places
) -> np.ndarray:
    """Return how much likelier each row is as a copy of the person than as another row; shape of ``near``.

    In each column a copy has the person's value, one within 5% of an ordered column's range, or one that is drawn from the column.
    These chances are estimated by expectation maximisation, from at most 1,000 people and their nearest rows. Where rows equal a
    person in all columns, the weight of others is 0.
    """
    least, columns = 1 / len(table), []
    for values, column, place in zip(facts.T, table.T, ordered, strict=True):
        share = np.bincount(column, minlength=values.max() + 1) / len(table)
        unique, index = np.unique(values, return_inverse=True)
        codes = np.arange(len(share))
        alike = np.array([share[right(place, codes, value)].sum() for value in unique])[index]
        same, close = column[near] == values[:, None], right(place, column[near], values[:, None])
        same = same / np.maximum(share[values], least)[:, None]
        close = close / np.maximum(alike, least)[:, None]
        columns.append(np.stack([same, close, np.ones(same.shape)], axis=-1))
    chances, step = np.tile(START, (len(columns), 1)), -(-len(facts) // LINKED)
    for _ in range(ROUNDS):
        ratios = [of[::step] @ chance for of, chance in zip(columns, chances, strict=True)]
        logs = np.log(ratios).sum(axis=0)
        copy = np.exp(logs - logs.max(axis=1, keepdims=True))
        copy /= copy.sum(axis=1, keepdims=True) * len(copy)
        for chance, of, ratio in zip(chances, columns, ratios, strict=True):
            chance *= np.einsum("prk,pr->k", of[::step], copy / ratio)
            np.maximum(chance, 1e-3, out=chance)
    logs = sum(np.log(of @ chance) for of, chance in zip(columns, chances, strict=True))
    equal = np.logical_and.reduce([of[:, :, 0] > 0 for of in columns])
    counted = equal | ~equal.any(axis=1, keepdims=True)
    return np.where(counted, np.exp(np.minimum(logs, 500.0)), 0.0)


def weighted_shares(
    near: np.ndarray,
    weights: np.ndarray,
    column: np.ndarray,
    values: np.ndarray,
    counts: np.ndarray,
) -> np.ndarray:
    """Return the weight of the rows of each value near each person, divided by the rows of the value; (people, values).

    Parameters
    ----------
    near, weights : ndarray, shape (people, rows)
        As :func:`nearest_rows` and :func:`linkage_weights` return.
    column : ndarray, shape (rows of the table,)
    values : ndarray, shape (values,)
    counts : ndarray
        Rows of each category code.
    """
    position = np.full(len(counts), len(values))
    position[values] = np.arange(len(values))
    cells = np.arange(len(near))[:, None] * (len(values) + 1) + position[column[near]]
    sums = np.bincount(cells.ravel(), weights.ravel(), len(near) * (len(values) + 1))
    return sums.reshape(len(near), -1)[:, :-1] / counts[values]


def tree_chances(
    facts: np.ndarray, features: np.ndarray, column: np.ndarray, values: np.ndarray
) -> np.ndarray:
    """Return the chance of each value by boosted trees with classes of equal weight; shape (people, values).

    They sum to the share of rows that have one of the values. A column of one value, or of hardly more rows than values,
    teaches trees nothing: its values have equal chances.
    """
    from sklearn.ensemble import HistGradientBoostingClassifier

    chances = np.zeros((len(facts), len(values)))
    taken = np.isin(column, values)
    present = np.isin(values, column)
    if present.sum() < 2 or taken.sum() < FEWEST * present.sum():
        chances[:, present] = 1 / max(1, present.sum())
        return chances * taken.mean()
    order = np.flatnonzero(present)
    order = order[values[order].argsort()]  # as the classifier sorts its classes
    trees = HistGradientBoostingClassifier(
        **TREES, class_weight="balanced", early_stopping=False, random_state=0
    )
    with threadpool_limits(1):  # small trees: threads would wait for each other
        trees.fit(features[taken], column[taken])
        chances[:, order] = trees.predict_proba(facts)
    return chances * taken.mean()
