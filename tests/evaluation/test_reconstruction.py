"""Attribute reconstruction: its score by hand, copies that it finds, and nothing where nothing is."""

from dataclasses import replace

import numpy as np
import pytest
from evaluated import tables
from sklearn.metrics import balanced_accuracy_score

from tabsynth.errors import InputError
from tabsynth.evaluation import Columns, EvaluationConfig, measure
from tabsynth.evaluation.attacks.gower import places
from tabsynth.evaluation.attacks.reconstruction import (
    ROUNDS,
    START,
    guess_columns,
    linkage_weights,
    nearest_rows,
    rarity,
    reconstruction,
    tree_chances,
    weighted_shares,
)
from tabsynth.evaluation.inputs import meaning
from tabsynth.schema import Column, Schema

SIZES = (12, 12, 12, 6, 4, 3)


def people(rng, rows):
    """Six columns: three that single people out, one that follows from two, one rare, one by chance."""
    known = np.stack([rng.integers(0, 12, rows) for _ in range(3)], axis=1)
    follows = (known[:, 0] + known[:, 1]) // 4
    rare = np.where(rng.random(rows) < 0.02, rng.integers(1, 4, rows), 0)
    return np.column_stack([known, follows, rare, rng.integers(0, 3, rows)])


def created(seed, share, rows=1500, numeric=False):
    """Tables of which the synthetic one is a copy of a share of the training rows, and fresh rows for the others."""
    rng = np.random.default_rng(seed)
    train, fresh, holdout = (people(rng, n) for n in (rows, rows, 2 * rows))
    copied = rng.random(rows) < share
    synthetic = np.where(copied[:, None], train, fresh)[rng.permutation(rows)]
    return tables(train, synthetic, holdout, sizes=SIZES, numeric=numeric)


def attacked(seed, share, **changes):
    (metric,) = reconstruction(created(seed, share, **changes), 1000, np.random.default_rng(seed))
    return metric


def test_a_copy_is_found_as_the_training_table_itself():
    metric, half = attacked(0, 1.0), attacked(0, 0.5)
    assert metric.kind == "privacy" and metric.n == 2000 and metric.baseline is None
    assert metric.low > 0.2 and abs(metric.value - metric.details.memorizing.value) < 0.03
    assert 0.25 * metric.value < half.value < 0.75 * metric.value and half.low > 0
    assert metric.holdout.low <= 0 <= metric.holdout.high
    assert metric.details.known == ("a", "b", "c")
    # What follows from known columns is guessed of everybody; what is by chance, of members alone.
    parts = {part.name: part.value for part in metric.parts}
    assert abs(parts["d"]) < 0.05 and parts["f"] > 0.3 and parts["e"] > 0.3
    assert metric.details.members - metric.details.controls == pytest.approx(metric.value)


def test_a_table_that_teaches_about_everybody_does_not_leak():
    metric = attacked(1, 0.0)
    assert metric.low <= 0 <= metric.high
    details = metric.details
    assert details.majority == pytest.approx(np.mean([1 / 6, 1 / 4, 1 / 3]))
    assert details.controls > details.majority + 0.2  # by the column that follows
    assert details.memorizing.low > 0.2  # whatever the synthetic table is


@pytest.mark.slow
def test_the_interval_covers_nothing():
    """Of 40 tables that leak nothing, 95% of the intervals should hold 0: 33 or fewer have a chance below 1%."""
    hits = [m.low <= 0 <= m.high for m in (attacked(seed, 0.0, rows=300) for seed in range(40))]
    assert sum(hits) >= 34


def test_members_and_others_are_of_equal_number_and_the_order_of_columns_is_kept():
    made = created(2, 1.0, rows=400)
    few = replace(made, control=made.control[:90])
    (metric,) = reconstruction(few, 1000, np.random.default_rng(0))
    assert metric.n == 180
    (metric,) = reconstruction(replace(made, known=(4, 0)), 50, np.random.default_rng(0))
    assert metric.details.known == ("e", "a") and metric.n == 100
    assert {part.name for part in metric.parts} == {"b", "c", "d", "f"}
    one = tables(*(made.train[:, :1] for _ in range(2)), made.holdout[:, :1], sizes=SIZES[:1])
    assert reconstruction(one, 50, np.random.default_rng(0)) == []


def test_a_score_is_balanced_accuracy():
    rng = np.random.default_rng(3)
    truth = np.stack(
        [rng.choice(4, 500, p=[0.9, 0.05, 0.03, 0.02]), rng.integers(0, 7, 500)], axis=1
    )
    worth = rarity(truth)
    np.testing.assert_allclose(worth.mean(axis=0), 1.0)
    guesses = np.where(rng.random(truth.shape) < 0.5, truth, 0)
    for j in range(2):
        score = (worth[:, j] * (guesses[:, j] == truth[:, j])).mean()
        assert score == pytest.approx(balanced_accuracy_score(truth[:, j], guesses[:, j]))
    # Weights are those of all attacked people: which group holds a rare value changes no weight.
    assert (rarity(truth[::-1]) == worth[::-1]).all()


def test_nearest_rows_and_their_shares_by_hand():
    table = np.array([[0, 0], [0, 0], [0, 1], [5, 1]])
    facts = np.array([[0, 0], [5, 0], [1, 1]])
    near = nearest_rows(facts, table, (np.linspace(0, 1, 6), None), np.random.default_rng(0))
    assert near.shape == (3, 4) and set(near[0, :2]) == {0, 1} and near[2, 0] == 2
    many = nearest_rows(facts, np.repeat(table, 50, axis=0), (None, None), np.random.default_rng(0))
    assert many.shape == (3, 100) and sorted(many[0]) == list(range(100))
    column, counts = np.array([2, 2, 0, 1]), np.array([1, 1, 2])
    near, weights = np.array([[0, 2], [3, 1]]), np.array([[3.0, 1.0], [0.5, 4.0]])
    shares = weighted_shares(near, weights, column, np.array([2, 0]), counts)
    # Value 2 is twice as common, so it counts half; value 1 is not among those that are guessed.
    np.testing.assert_allclose(shares, [[1.5, 1.0], [2.0, 0.0]])


def linkage_by_hand(facts, table, near, ordered):
    """Expectation maximisation in loops over people, rows and columns."""
    n, columns = len(table), range(facts.shape[1])

    def evidence(x, y, j):
        place = ordered[j]
        alike = [
            v == x or (place is not None and abs(place[v] - place[x]) <= 0.05) for v in table[:, j]
        ]
        close = y == x or (place is not None and abs(place[y] - place[x]) <= 0.05)
        same = n * (y == x) / max(1, sum(table[:, j] == x))
        return np.array([same, n * close / max(1, sum(alike)), 1.0])

    of = [
        [[evidence(x[j], table[r, j], j) for j in columns] for r in rows]
        for x, rows in zip(facts, near, strict=True)
    ]
    chances = [np.array(START) for _ in columns]

    def ratio(row):
        return np.prod([e @ c for e, c in zip(row, chances, strict=True)])

    for _ in range(ROUNDS):
        sums = [np.zeros(3) for _ in columns]
        for person in of:
            total = sum(ratio(row) for row in person)
            for row in person:
                for j, e in enumerate(row):
                    sums[j] += ratio(row) / total * e * chances[j] / (e @ chances[j])
        chances = [np.maximum(s / len(of), 1e-3) for s in sums]
    out = np.array([[ratio(row) for row in person] for person in of])
    for person, x, rows in zip(out, facts, near, strict=True):
        if any((table[r] == x).all() for r in rows):
            person[[(table[r] != x).any() for r in rows]] = 0
    return out, chances


def test_weights_of_rows_are_those_of_record_linkage():
    rng = np.random.default_rng(8)
    true = np.stack(
        [rng.integers(0, 40, 60), rng.choice(3, 60, p=[0.8, 0.15, 0.05]), rng.integers(0, 4, 60)],
        axis=1,
    )
    table = true.copy()
    table[:, 0] = np.clip(table[:, 0] + rng.integers(-1, 2, 60), 0, 39)  # moved by one
    table[:, 2] = rng.permutation(table[:, 2])  # tells nothing
    ordered = (np.linspace(0, 1, 40), None, None)
    facts = true[:25]
    near = nearest_rows(facts, table, ordered, rng)[:, :30]
    weights = linkage_weights(facts, table, near, ordered)
    expected, (moved, copied, drawn) = linkage_by_hand(facts, table, near, ordered)
    np.testing.assert_allclose(weights, expected, rtol=1e-8)
    assert moved[1] > 0.4 and copied[2] < 0.2 and drawn[2] > 0.5
    # Agreement in a rare value is worth more than in a common one.
    rare, common = (max(weights[facts[:, 1] == value].max(axis=1)) for value in (2, 0))
    assert rare > common


def test_an_ordered_value_is_guessed_where_most_chance_is_near():
    """Of five equally frequent values near 10 and twice as many rows at 90, the guess is the middle of the five."""
    values = np.repeat([8, 9, 10, 11, 12, 90], [20, 20, 20, 20, 20, 20])
    column = np.concatenate([values, np.repeat(np.arange(100), 20)])
    known = np.repeat([0, 1], [120, 2000])
    rows = np.stack([known, column], axis=1)
    made = tables(rows, rows, rows, sizes=(2, 100), numeric=True)
    guess = guess_columns(rows[:1], rows, [0], [1], places(made), np.random.default_rng(0))
    assert 8 <= guess[0, 0] <= 12


def test_trees_find_what_no_nearest_row_shows_and_know_their_classes():
    rng = np.random.default_rng(4)
    features = rng.integers(0, 30, (3000, 2))
    column = np.array([7, 2, 5])[(features.sum(axis=1) // 20).clip(0, 2)]
    facts = np.array([[3, 3], [15, 14], [29, 29]])
    chances = tree_chances(facts, features, column, np.array([2, 5, 9, 7]))
    assert chances.argmax(axis=1).tolist() == [3, 0, 1] and (chances[:, 2] == 0).all()
    np.testing.assert_allclose(chances.sum(axis=1), 1.0)
    # Chances sum to the share of the rows that have one of the values.
    some = tree_chances(facts, features, column, np.array([2, 5]))
    np.testing.assert_allclose(some.sum(axis=1), np.isin(column, [2, 5]).mean())
    alone = tree_chances(facts, features, np.full(3000, 5), np.array([5, 2]))
    assert alone.tolist() == [[1.0, 0.0]] * 3


def test_rare_values_of_many_are_guessed_from_a_copy():
    """A column of 200 values, of which trees tell 20 apart: the nearest rows give the others away."""
    rng = np.random.default_rng(5)
    rows = np.stack([rng.permutation(600), rng.integers(0, 200, 600)], axis=1)
    made = tables(rows, rows, rows, sizes=(600, 200), numeric=False)
    guesses = guess_columns(rows[:100], rows, [0], [1], places(made), rng)
    assert (guesses[:, 0] == rows[:100, 1]).mean() > 0.95


@pytest.mark.slow
def test_it_finds_a_copy_with_moved_numbers():
    """Every value one cell up, down or where it was: equal values show nothing of it."""
    rng = np.random.default_rng(6)
    train, holdout = (rng.integers(0, 60, (n, 6)) for n in (400, 800))
    moved = np.clip(train + rng.integers(-1, 2, train.shape), 0, 59)
    made = tables(train, moved, holdout, sizes=(60,) * 6)
    (metric,) = reconstruction(made, 400, rng)
    assert metric.low > 0.3 and metric.holdout.high < 0.1


def test_the_suite_measures_it_with_known_columns_and_repeats_it():
    made = created(7, 1.0, rows=120)
    columns = Columns(names=made.names, sizes=SIZES, known=(0, 1, 2))

    def run(holdout):
        config = EvaluationConfig(m=60, k=(1,))
        return measure(made.train, made.synthetic, holdout, columns, config=config)

    first = run(made.holdout)
    assert first["reconstruction"].to_dict() == run(made.holdout)["reconstruction"].to_dict()
    assert first["reconstruction"] in first.attacks.successful
    assert "would show" in first["reconstruction"].reading
    with pytest.raises(KeyError):
        run(None)["reconstruction"]


def test_known_columns_are_checked():
    schema = Schema(
        [Column(name=name, kind="categorical", dtype="str", categories=("a", "b")) for name in "xy"]
    )
    assert meaning(schema, known=("y", "y")).known == (1,) and meaning(schema).known == ()
    with pytest.raises(InputError, match="known='z' is no column"):
        meaning(schema, known=("z",))
    with pytest.raises(InputError, match="leave out one or more"):
        meaning(schema, known=("x", "y"))
    with pytest.raises(InputError, match="names of columns"):
        EvaluationConfig(known="xy")
    assert EvaluationConfig(known=["x"]).known == ("x",)
