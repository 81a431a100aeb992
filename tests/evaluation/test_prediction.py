"""Dimension-wise prediction against scikit-learn, used as the yardstick uses it."""

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score
from sklearn.preprocessing import OneHotEncoder

from tabsynth.datasets import load_hospital
from tabsynth.encoding import TableEncoder
from tabsynth.evaluation import Columns
from tabsynth.evaluation.utility import prediction as rooms
from tabsynth.evaluation.utility.prediction import (
    bootstrap_weights,
    dimension_wise_prediction,
    f1_scores,
    logistic,
    one_hot,
    probabilities,
)

SIZES = (3, 4, 2)


def related(rng, rows):
    """Three columns that depend on each other."""
    a = rng.integers(0, 3, rows)
    b = np.where(rng.random(rows) < 0.7, a, rng.integers(0, 4, rows))
    c = np.where(rng.random(rows) < 0.8, a > 0, rng.integers(0, 2, rows)).astype(int)
    return np.stack([a, b, c], axis=1)


def run(train, synthetic, baseline, test, sizes=SIZES, **kwargs):
    baselines = baseline if isinstance(baseline, list) else [baseline, baseline]
    columns = Columns(names=tuple(f"c{j}" for j in range(len(sizes))), sizes=sizes)
    rng = np.random.default_rng(0)
    return dimension_wise_prediction(train, synthetic, baselines, test, columns, rng, **kwargs)


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 30), st.integers(1, 5))
def test_f1_is_that_of_scikit_learn(seed, rows, size):
    rng = np.random.default_rng(seed)
    truth, guess = rng.integers(0, size, (2, rows))
    weights = bootstrap_weights(rows, 3, rng)
    result = f1_scores(truth, guess, size, weights)
    occur = np.union1d(truth, guess)
    whole = f1_score(truth, guess, labels=occur, average=None, zero_division=0)
    for b in range(4):
        drawn = np.repeat(np.arange(rows), weights[:, b].astype(int))
        t, g = truth[drawn], guess[drawn]
        weighted = f1_score(t, g, average="weighted", zero_division=0)
        assert result[0, b] == pytest.approx(weighted)
        each = f1_score(t, g, labels=occur, average=None, zero_division=0)
        missed = ~np.isin(occur, np.union1d(t, g))
        assert result[1, b] == pytest.approx(np.where(missed, whole, each).mean())
    assert result[1, 0] == pytest.approx(f1_score(truth, guess, average="macro", zero_division=0))


def test_guesses_are_those_of_the_yardstick():
    rng = np.random.default_rng(0)
    fit, test = related(rng, 300), related(rng, 200)
    for column in range(3):
        others = [j for j in range(3) if j != column]
        encoder = OneHotEncoder(categories=[np.arange(SIZES[j]) for j in others])
        features = encoder.fit_transform(fit[:, others])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = LogisticRegression(max_iter=60, tol=1e-3).fit(features, fit[:, column])
        theirs = model.predict(encoder.transform(test[:, others]))
        ours = probabilities(logistic, fit, test, column, SIZES).argmax(1)
        for average in ("weighted", "macro"):
            assert f1_score(test[:, column], ours, average=average) == pytest.approx(
                f1_score(test[:, column], theirs, average=average), abs=0.01
            )


def test_one_hot_is_a_block_for_each_column():
    codes = one_hot(np.array([[0, 1], [2, 0]]), (3, 2)).toarray()
    np.testing.assert_array_equal(codes, [[1, 0, 0, 0, 1], [0, 0, 1, 1, 0]])


def test_a_table_against_itself_has_ratio_one():
    rng = np.random.default_rng(1)
    train, test = related(rng, 300), related(rng, 200)
    baseline = np.stack([rng.permutation(column) for column in train.T], axis=1)
    calls = []
    result = run(train, train, baseline, test, progress=calls.append)
    for row in (*result.columns, result.mean):
        for ratio in (row.ratio.weighted, row.ratio.macro):
            assert ratio.value == pytest.approx(1.0, abs=0.01)
    assert result.mean.gain.weighted.low > 0
    assert result.test_rows == 200 and not result.seen
    assert calls[-1] == 1.0 and calls == sorted(calls)
    first = result.columns[0].train.weighted
    assert first.low < first.value < first.high and first.n == 200


@pytest.mark.slow
def test_gain_allows_for_another_shuffle():
    """Ten shuffles against five of the same kind: hardly one may seem better than the others."""
    rng = np.random.default_rng(5)
    train, test = related(rng, 80), related(rng, 200)
    shuffles = [np.stack([rng.permutation(c) for c in train.T], axis=1) for _ in range(15)]
    gains = [run(train, one, shuffles[10:], test).mean.gain.macro for one in shuffles[:10]]
    assert sum(gain.low > 0 for gain in gains) <= 1
    spread = np.std([gain.value for gain in gains])
    assert all(gain.high - gain.low > 2 * spread for gain in gains)
    assert run(train, train, shuffles[10:], test).mean.gain.macro.low > 0


def test_constant_labels_give_the_constant():
    fit = np.array([[1, 0, 0], [1, 2, 1], [1, 3, 0]])
    test = np.array([[0, 0, 0], [1, 1, 1]])
    np.testing.assert_array_equal(probabilities(logistic, fit, test, 0, SIZES).argmax(1), [1, 1])


def test_classes_unseen_in_training_are_missed_not_refused():
    rng = np.random.default_rng(2)
    train = related(rng, 100)
    test = train.copy()
    test[:50, 0] = 2
    result = run(train[train[:, 0] < 2], train, train, test)
    assert 0 < result.columns[0].train.macro.value < 1


def test_one_row_and_one_column():
    row = np.array([[0, 0, 0]])
    result = run(row, row, row, row)
    assert result.mean.train.macro.value == 1.0
    single = run(row[:, :1], row[:, :1], row[:, :1], row[:, :1], sizes=(1,))
    assert single.mean.ratio.weighted.value == 1.0


def test_no_score_of_the_training_table_gives_no_ratio():
    train, test = np.array([[0, 0, 0]]), np.array([[1, 1, 1]])
    result = run(train, test, train, test)
    assert np.isnan(result.mean.ratio.macro.value)
    assert result.to_dict()["mean"]["ratio"]["macro"]["value"] is None


def test_rows_and_columns_are_capped(monkeypatch):
    rng = np.random.default_rng(3)
    train = related(rng, 500)
    monkeypatch.setattr(rooms, "MAX_TEST_ROWS", 40)
    monkeypatch.setattr(rooms, "MAX_FIT_ROWS", 60)
    monkeypatch.setattr(rooms, "MAX_TARGETS", 2)
    assert len(run(related(rng, 90), train, train, train).columns) == 2
    monkeypatch.setattr(rooms, "MAX_WORK", 300)
    monkeypatch.setattr(rooms, "MIN_FIT_ROWS", 5)
    assert run(train, train, train, train).test_rows == 40


def test_rare_values_become_one():
    tables = [np.repeat(np.arange(300), np.arange(300))[:, None], np.array([[0], [200], [299]])]
    tables = [np.concatenate([t, t % 2], axis=1) for t in tables]
    (first, second), sizes = rooms.fold_rare(tables, (300, 2))
    assert sizes == (100, 2)
    np.testing.assert_array_equal(second[:, 0], [99, 99, 0])  # 299 is the commonest
    np.testing.assert_array_equal(second[:, 1], [0, 0, 1])
    assert set(first[tables[0][:, 0] > 200, 0]) == set(range(99))
    assert set(first[tables[0][:, 0] <= 200, 0]) == {99}
    assert tables[1][1, 0] == 200  # the tables given are left alone


def test_interval_covers_the_drawing_of_test_rows():
    """A fixed classifier of known F1: about 95% of the bootstrap intervals must hold it."""
    covered = []
    for seed in range(150):
        rng = np.random.default_rng(seed)
        truth = rng.integers(0, 2, 200)
        guess = np.where(rng.random(200) < 0.8, truth, 1 - truth)  # F1 of both classes: 0.8
        scores = f1_scores(truth, guess, 2, bootstrap_weights(200, 200, rng))[1, 1:]
        low, high = np.percentile(scores, [2.5, 97.5])
        covered.append(low <= 0.8 <= high)
    assert 0.88 <= np.mean(covered) <= 0.99


@pytest.mark.slow
def test_rare_classes_leave_the_value_in_its_interval():
    """Diagnoses and the like: many classes of a few rows each, most of them never guessed right."""
    frame, schema = load_hospital()
    names = ["age", "medical_specialty", "diag_1", "diag_2"]
    names = [name for name in schema.names if name in names] or list(schema.names[7:11])
    places = [schema.names.index(name) for name in names]
    index = TableEncoder(schema).to_index(frame)[:, places]
    sizes = tuple(schema.sizes[j] for j in places)
    baseline = [
        np.stack([np.roll(c, 7 * i) for i, c in enumerate(index[s:700].T)], 1) for s in (0, 1)
    ]
    result = run(index[:700], index[700:1_400], baseline, index[1_400:2_000], sizes)
    for column in (*result.columns, result.mean):
        for table in ("train", "synthetic", "baseline", "ratio"):
            for estimate in vars(getattr(column, table)).values():
                assert estimate.low <= estimate.value + 1e-12
                assert estimate.value <= estimate.high + 1e-12


def test_a_class_that_is_never_guessed_right_stays_in_the_mean():
    truth, guess = np.array([0] * 60 + [1] * 2 + [2]), np.zeros(63, dtype=int)
    scores = f1_scores(truth, guess, 3, bootstrap_weights(63, 200, np.random.default_rng(0)))[1]
    assert scores[0] == pytest.approx(2 * 60 / (60 + 63) / 3)
    low, high = np.percentile(scores[1:], [2.5, 97.5])
    assert low < scores[0] < high < 0.334
