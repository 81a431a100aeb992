"""Attribute reconstruction: boosted trees and the nearest rows guess the columns of a person from a few known ones.

"SoK: Reconstruction Attacks on Synthetic Tabular Data (Insights from Winning the NIST CRC)", 2026, arXiv:2606.08372: the attacks of the team that won NIST's red-team exercise of 2025, and their memorisation test. That test
compares the score on people of the training table with the score on other people. Only the difference is leakage.

A guess adds two estimates of the chance of each value, both with classes of equal weight: that of gradient-boosted trees,
fitted on the synthetic table, and the shares among the synthetic rows that are nearest by the known columns. Trees find what
the table teaches about everyone, and a nearest row that is a copy of a person gives its values away.

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
MAX_VALUES, TREE_VALUES = (
    250,
    20,
)  # the commonest values that are guessed, and those that trees tell apart
NEAREST = 20  # rows at the same least distance, drawn from all of them
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
    near = nearest_rows(facts, table[:, known], tuple(ordered[j] for j in known), rng)
    fitted = draw_rows(table, MAX_FITTED, rng)
    out = np.empty((len(people), len(targets)), dtype=np.int64)
    for i, j in enumerate(targets):
        counts = np.bincount(table[:, j])
        values = np.argsort(-counts, kind="stable")[: min(MAX_VALUES, np.count_nonzero(counts))]
        chances = near_shares(near, table[:, j], values, counts)
        chances[:, :TREE_VALUES] += tree_chances(
            facts, fitted[:, known], fitted[:, j], values[:TREE_VALUES]
        )
        out[:, i] = values[chances.argmax(axis=1)]
    return out


def nearest_rows(
    facts: np.ndarray, table: np.ndarray, ordered: Places, rng: np.random.Generator
) -> np.ndarray:
    """Return up to 20 of the rows at the least distance from each person, -1 in place of others; shape (people, 20)."""
    sizes = (np.concatenate([facts, table]).max(axis=0) + 1).tolist()
    searched = GowerSearch(table, sizes, ordered)

    def work(part: np.ndarray, generator: np.random.Generator) -> np.ndarray:
        out = np.full((len(part), NEAREST), -1)
        for i, record in enumerate(part):
            distance = searched.distance(searched.differs(record))
            rows, _ = nearest(distance, NEAREST, generator)
            rows = rows[distance[rows] == distance[rows[0]]]
            out[i, : len(rows)] = rows
        return out

    return in_chunks(facts, work, rng, searched.rows)


def near_shares(
    near: np.ndarray, column: np.ndarray, values: np.ndarray, counts: np.ndarray
) -> np.ndarray:
    """Return the shares of values among the nearest rows of each person, with values of equal weight; (people, values).

    Parameters
    ----------
    near : ndarray, shape (people, 20)
        As :func:`nearest_rows` returns.
    column : ndarray, shape (rows,)
    values : ndarray, shape (values,)
    counts : ndarray
        Rows of each category code.
    """
    position = np.full(len(counts), -1)
    position[values] = np.arange(len(values))
    votes = np.where(near < 0, -1, position[column[near]])
    person, vote = np.nonzero(votes >= 0)
    shares = np.zeros((len(near), len(values)))
    np.add.at(shares, (person, votes[person, vote]), 1.0)
    shares /= counts[values]
    return shares / np.maximum(shares.sum(axis=1, keepdims=True), 1e-300)


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
