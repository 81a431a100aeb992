"""ε in terms of cell suppression: no decision between two counts is surer than the statement says."""

import math

import numpy as np
import pytest
from scipy import optimize, stats

from tabsynth.dossier.statement import suppression_threshold
from tabsynth.privacy.accounting.accountants import gaussian_delta, gaussian_epsilon
from tabsynth.privacy.accounting.attackers import claimed_bounds, rounded_up


def right_by_gaussian(mu, k):
    """The share of right decisions between N(0, 1) and N(kμ, 1), by integration of the larger density."""
    x = np.linspace(-12, 12 + k * mu, 400_001)
    larger = np.maximum(stats.norm.pdf(x), stats.norm.pdf(x, loc=k * mu))
    return np.trapezoid(larger, x) / 2


def right_by_geometric(epsilon, k):
    """The same between counts c and c + k with two-sided geometric noise of pure ε-differential privacy."""
    p = math.exp(-epsilon)
    z = np.arange(-4_000, 4_000 + k)
    first, second = ((1 - p) / (1 + p) * p ** np.abs(z - shift) for shift in (0, k))
    return np.maximum(first, second).sum() / 2


@pytest.mark.parametrize("epsilon", [0.1, 0.5, 1.0, 2.0, 4.0])
def test_no_decision_between_counts_is_surer(epsilon):
    mu = optimize.brentq(lambda m: gaussian_epsilon(m, 1e-5) - epsilon, 1e-3, 9)
    gaussian = suppression_threshold(float(rounded_up(gaussian_delta(mu, 0.0))))
    pure = suppression_threshold(float(rounded_up(claimed_bounds(epsilon, 0.0).advantage)))
    for threshold, right in ((gaussian, right_by_gaussian), (pure, right_by_geometric)):
        parameter = mu if right is right_by_gaussian else epsilon
        assert threshold >= 1
        for k in range(threshold):  # differences of 0 to N − 1
            assert right(parameter, k) <= 0.95 + 1e-6
    # It is no empty bound: of Gaussian noise, three times the difference is told apart.
    assert right_by_gaussian(mu, 3 * gaussian) > 0.95


@pytest.mark.parametrize(
    ("advantage", "threshold"),
    [(0.05, 19), (0.1, 10), (0.107, 9), (0.3, 4), (0.45, 3), (0.9, 2), (0.901, 1), (1.0, 1)],
)
def test_thresholds(advantage, threshold):
    assert suppression_threshold(advantage) == threshold
    k = threshold - 1
    assert k * advantage <= 0.9 + 1e-12 < (k + 1) * advantage
