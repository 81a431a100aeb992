"""Rows are chosen so that noisy counts hold: calibration by a logistic model, and exchanges."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.special import expit

from tabsynth.synthesizers.linked.calibration import choose, fit_chances


def drawn(rows=6_000, seed=0):
    """Rows with four flags, of which some go together."""
    rng = np.random.default_rng(seed)
    flags = rng.random((rows, 4)) < [0.5, 0.2, 0.1, 0.05]
    flags[:, 3] |= flags[:, 2] & (rng.random(rows) < 0.5)
    return sp.csr_matrix(flags.astype(float))


def test_exact_counts_are_met():
    """As the equations of a calibration estimator say."""
    features, wanted = drawn(), np.array([700.0, 700.0, 300.0, 250.0])
    theta = fit_chances(features, wanted, np.zeros(4), 2_000)
    chances = expit(np.column_stack([np.ones(6_000), features.toarray()]) @ theta)
    assert chances.sum() == pytest.approx(2_000, abs=0.5)
    np.testing.assert_allclose(features.T @ chances, wanted, atol=0.5)


def test_noisy_counts_are_met_as_far_as_their_noise_says():
    features, wanted = drawn(), np.array([700.0, 700.0, 300.0, 250.0])
    apart = []
    for std in (0.0, 100.0, 10_000.0):
        theta = fit_chances(features, wanted, np.full(4, std), 2_000)
        chances = expit(np.column_stack([np.ones(6_000), features.toarray()]) @ theta)
        apart.append(np.abs(features.T @ chances - wanted).max())
    as_drawn = np.abs(np.asarray(features.sum(axis=0)).ravel() / 3 - wanted).max()
    assert apart[0] < 1 < apart[1] < apart[2] == pytest.approx(as_drawn, rel=0.02)


@pytest.mark.parametrize("number", [1, 7, 2_000])
def test_so_many_different_rows_are_chosen(number):
    features = drawn(3 * number, seed=number)
    theta = np.array([0.0, 0.5, -0.5, 1.0, 0.0])
    chosen = choose(features, theta, number, np.random.default_rng(0))
    assert len(set(chosen.tolist())) == number and (np.diff(chosen) > 0).all()


def test_sums_of_chosen_rows_are_nearer_than_those_of_independent_draws():
    features, wanted = drawn(), np.array([700.0, 700.0, 300.0, 250.0])
    theta = fit_chances(features, wanted, np.zeros(4), 2_000)
    apart = []
    for seed in range(5):
        chosen = choose(features, theta, 2_000, np.random.default_rng(seed))
        apart.append(np.asarray(features[chosen].sum(axis=0)).ravel() - wanted)
    # A sum of independent draws has a standard deviation of 13 to 21 here.
    assert np.sqrt(np.mean(np.square(apart))) < 8


def test_every_row_has_its_chance():
    """Exchanges are between rows of about the same chance, so that shares follow the model's."""
    features, theta = drawn(600), np.array([0.0, 1.0, -1.0, 0.0, 0.0])
    times = np.zeros(600)
    for seed in range(60):
        times[choose(features, theta, 200, np.random.default_rng(seed))] += 1
    odds = np.column_stack([np.ones(600), features.toarray()]) @ theta
    likely = odds > np.median(odds)
    constant = np.linspace(-10, 10, 20_001)
    shift = constant[np.argmin([abs(expit(odds + c).sum() - 200) for c in constant[::20]]) * 20]
    expected = expit(odds + shift)
    assert times[likely].mean() / 60 == pytest.approx(expected[likely].mean(), abs=0.03)
    assert times[~likely].mean() / 60 == pytest.approx(expected[~likely].mean(), abs=0.03)


def test_exact_counts_that_no_choice_meets_leave_chances_that_are_usable():
    """No row has the last flag, and more than all rows are asked to have the first: without bounds, log-odds grow without end."""
    features = sp.csr_matrix(drawn().toarray() * [1, 1, 1, 0])
    wanted = np.array([9_000.0, 700.0, 300.0, 250.0])
    theta = fit_chances(features, wanted, np.zeros(4), 2_000)
    assert np.abs(theta[1:]).max() <= 10.01
    chosen = choose(features, theta, 2_000, np.random.default_rng(0))
    assert len(chosen) == 2_000
    assert features[chosen].sum(axis=0)[0, 0] > 1_700  # 1,000 as drawn
