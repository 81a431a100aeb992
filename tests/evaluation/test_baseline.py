"""The baseline, the verdict, and the whole suite."""

import subprocess
import sys

import numpy as np
import pytest

import tabsynth
from tabsynth.evaluation import Columns, EvaluationConfig, independent_columns, measure
from tabsynth.evaluation.baseline import BETTER, NO_BETTER, NOTHING, PARTLY, verdict
from tabsynth.evaluation.results import Estimate, difference_of_shares, mean_of_shares

NAMES, SIZES = ("a", "b", "c", "d"), (3, 4, 2, 5)


def related(rng, rows):
    a = rng.integers(0, 3, rows)
    b = np.where(rng.random(rows) < 0.7, a, rng.integers(0, 4, rows))
    c = np.where(rng.random(rows) < 0.8, a > 0, rng.integers(0, 2, rows)).astype(int)
    d = np.where(rng.random(rows) < 0.6, b, rng.integers(0, 5, rows))
    return np.stack([a, b, c, d], axis=1)


def run(train, synthetic, holdout, **kwargs):
    about = {name: kwargs.pop(name) for name in ("names", "sizes") if name in kwargs}
    columns = Columns(**{"names": NAMES, "sizes": SIZES, **about})
    config = EvaluationConfig(**{"m": 100, "k": (1, 5), **kwargs})
    return measure(train, synthetic, holdout, columns, config=config)


@pytest.mark.parametrize("rows", [10, 50, 120])
def test_shuffling_keeps_marginals_only(rows):
    rng = np.random.default_rng(0)
    train = related(rng, 50)
    baseline = independent_columns(train, rows, rng)
    assert baseline.shape == (rows, 4)
    if rows == 50:
        np.testing.assert_array_equal(np.sort(baseline, axis=0), np.sort(train, axis=0))
        assert not np.array_equal(baseline, train)


def test_a_fresh_sample_is_better_than_shuffled_columns():
    rng = np.random.default_rng(0)
    train, fresh, holdout = (related(rng, 800) for _ in range(3))
    result = run(train, fresh, holdout)
    assert result.verdict.text == BETTER
    assert [c.better for c in result.verdict.comparisons] == [True] * 4
    assert result.rows == {"train": 800, "synthetic": 800, "test": 800, "holdout": 800}


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_shuffled_columns_are_no_better(seed):
    rng = np.random.default_rng(seed)
    train, holdout = related(rng, 500), related(rng, 300)
    result = run(train, independent_columns(train, 500, rng), holdout, random_state=seed, m=20)
    assert result.verdict.text == NO_BETTER


def test_only_some_metrics_better():
    rng = np.random.default_rng(0)
    train, holdout = related(rng, 600), related(rng, 600)
    # Relations are right, but every second row has values that the training table lacks.
    synthetic = related(rng, 600)
    synthetic[::2, 1], synthetic[::2, 3] = 3, 4
    result = run(train, synthetic, holdout)
    assert result.verdict.text == PARTLY


def test_a_table_against_itself():
    rng = np.random.default_rng(1)
    train, holdout = related(rng, 400), related(rng, 300)
    result = run(train, train, holdout)
    assert [item.synthetic.mean.value for item in result.distances] == [0, 0, 0]
    assert result.prediction.mean.ratio.weighted.value == pytest.approx(1, abs=0.01)
    assert result.distances[0].baseline.mean.value == 0 and result.verdict.text == BETTER


@pytest.mark.slow
def test_same_seed_same_numbers():
    rng = np.random.default_rng(2)
    train, holdout = related(rng, 200), related(rng, 100)
    first, second = run(train, train, holdout), run(train, train, holdout)
    assert first.to_dict() == second.to_dict()
    assert first.to_dict() != run(train, train, holdout, random_state=1).to_dict()


def test_global_random_state_is_left_alone():
    rng = np.random.default_rng(3)
    train = related(rng, 60)
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    run(train, train, train)
    np.testing.assert_array_equal(np.random.get_state()[1], before)  # noqa: NPY002


def test_without_holdout_the_test_rows_were_seen():
    rng = np.random.default_rng(4)
    train = related(rng, 200)
    stages = []
    result = run(train, train, None, progress=lambda *call: stages.append(call))
    assert result.prediction.seen and result.prediction.test_rows == 60
    assert result.disclosure.controls == 0 and result.distances[0].holdout is None
    names = dict.fromkeys(stage for stage, _ in stages)
    assert list(names) == [
        "1-way marginals",
        "2-way marginals",
        "3-way marginals",
        "relations",
        "prediction",
        "disclosure",
    ]
    assert all(0 <= share <= 1 for _, share in stages)


def test_one_column_and_two_columns():
    rng = np.random.default_rng(5)
    train = related(rng, 60)
    one = run(train[:, :1], train[:, :1], train[:, :1], names=("a",), sizes=(3,))
    assert one.verdict.text == NOTHING and len(one.distances) == 1 and one.disclosure.mean is None
    two = run(train[:, :2], train[:, :2], train[:, :2], names=("a", "b"), sizes=(3, 4))
    assert len(two.distances) == 2 and len(two.verdict.comparisons) == 3
    assert verdict(two.prediction, two.distances) == two.verdict


def test_estimates():
    shares = np.array([0.0, 0.5, 1.0, 0.5])
    estimate = mean_of_shares(shares)
    assert estimate.value == 0.5 and estimate.n == 4 and 0 <= estimate.low < 0.5 < estimate.high
    agreed = mean_of_shares(np.ones(50))
    assert agreed.low < 1.0 == agreed.high
    assert difference_of_shares(shares, shares).value == 0
    assert Estimate(float("nan"), 0.0, float("inf"), 1).to_dict() == {
        "value": None,
        "low": 0.0,
        "high": None,
        "n": 1,
    }


@pytest.mark.slow
def test_these_packages_need_no_torch():
    # A stand-in for the package, so that only what each of them imports is loaded.
    code = (
        "import importlib, sys, types; package = types.ModuleType('tabsynth');"
        f"package.__path__ = {list(tabsynth.__path__)!r}; sys.modules['tabsynth'] = package\n"
        "for name in ('evaluation', 'report', 'cli'):\n"
        "    importlib.import_module(f'tabsynth.{name}')\n"
        "    found = {'torch', 'opacus', 'tabsynth.synthesizers'} & set(sys.modules)\n"
        "    assert not found, (name, found)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
