"""Bounds by a second road: brute force over counts, simulation, closed forms."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some
from scipy import stats

from tabsynth.auditing import lower_bounds as bounds
from tabsynth.privacy.accounting.accountants import gaussian_epsilon, gaussian_mu


@pytest.mark.parametrize(("count", "trials"), [(0, 10), (3, 10), (10, 10), (17, 500)])
@pytest.mark.parametrize("confidence", [0.9, 0.9995])
def test_clopper_pearson_inverts_the_binomial(count, trials, confidence):
    upper = bounds.rate_upper_bound(count, trials, confidence)
    if count == trials:
        assert upper == 1
    else:  # at the bound, so few successes have just the chance that is left
        assert stats.binom.cdf(count, trials, upper) == pytest.approx(1 - confidence, rel=1e-6)
    lower = bounds.rate_lower_bound(count, trials, confidence)
    expected = stats.binomtest(count, trials).proportion_ci(2 * confidence - 1, method="exact")
    assert (lower, upper) == pytest.approx((expected.low, expected.high), abs=1e-9)


@settings(max_examples=30, deadline=None)
@given(some.floats(0.01, 4), some.floats(-4, 4))
def test_mu_of_a_gaussian_mechanism_is_its_own(mu, threshold):
    rates = stats.norm.sf(threshold), stats.norm.cdf(threshold - mu)
    assert bounds.mu_from_rates(*rates) == pytest.approx(mu, abs=1e-6)


@pytest.mark.parametrize(("mu", "delta"), [(0.3, 1e-3), (1.0, 1e-5), (2.5, 1e-2)])
def test_best_threshold_of_a_gaussian_has_its_exact_epsilon(mu, delta):
    thresholds = np.linspace(-8, 12, 2000)
    pairs = zip(stats.norm.sf(thresholds), stats.norm.cdf(thresholds - mu), strict=True)
    best = max(bounds.epsilon_from_rates(float(a), float(b), delta) for a, b in pairs)
    exact = gaussian_epsilon(mu, delta)
    assert exact - 0.01 < best <= exact + 1e-6


def test_epsilon_by_enumeration_of_randomised_response():
    """Of a fair answer with chance e/(1 + e): ε = 1, whatever side errs."""
    p = math.e / (1 + math.e)
    assert bounds.epsilon_from_rates(1 - p, 1 - p, 0.0) == pytest.approx(1)
    assert bounds.epsilon_from_rates(0.0, 0.5, 0.0) == math.inf
    assert bounds.epsilon_from_rates(0.7, 0.7, 0.0) == 0
    assert bounds.mu_from_rates(1.0, 0.1) == 0


def test_a_true_claim_is_hardly_ever_refuted():
    """Coverage at 90%: of 150 audits of a mechanism with just the claimed μ, at most a tenth."""
    rng, wrong = np.random.default_rng(0), 0
    for _ in range(150):
        result = bounds.estimate_bounds(rng.normal(0, 1, 100), rng.normal(1, 1, 100), 1e-5, 0.9)
        wrong += result.mu > 1
    assert wrong <= 15 + 3 * 4


def test_power_is_what_simulation_says():
    """Noise 1.25 times too small at ε = 8 and 1,000 runs: found 19 times in 20 (R20)."""
    mu, runs = gaussian_mu(8.0, 1e-5), 1000
    said = bounds.power(1.25 * mu, mu, runs)
    rng = np.random.default_rng(0)
    rate = stats.norm.cdf(-1.25 * mu / 2)
    upper = bounds.rate_upper_bounds(rng.binomial(runs, rate, (20_000, 2)), runs, 0.9995)
    hits = stats.norm.isf(upper[:, 0]) - stats.norm.ppf(upper[:, 1]) > mu
    assert said == pytest.approx(hits.mean(), abs=0.01)
    assert 0.92 < said < 0.97
    assert bounds.power(mu, mu, runs) < 1e-3
    factor = bounds.detectable_noise_ratio(mu, runs)
    assert bounds.power(factor * mu, mu, runs) == pytest.approx(0.95, abs=1e-3)


def test_threshold_is_of_one_half_and_errors_of_the_other():
    without = np.concatenate([np.zeros(50), np.full(50, 5.0)])
    with_canary = np.concatenate([np.ones(50), np.full(50, -5.0)])
    result = bounds.estimate_bounds(without, with_canary, 0.0, 0.9)
    assert 0 <= result.threshold < 1
    assert result.errors == bounds.Errors(
        false_positives=50, runs_without=50, false_negatives=50, runs_with=50
    )
    assert result.mu == result.epsilon == 0


def test_ceiling_is_a_perfect_attack():
    zeros, ones = np.zeros(60), np.ones(60)
    assert bounds.estimate_bounds(zeros, ones, 1e-5).epsilon == pytest.approx(
        bounds.largest_bound(30, 1e-5)
    )


def test_separation():
    rng = np.random.default_rng(0)
    result = bounds.estimate_mu(rng.normal(1, 2, 50_000), rng.normal(4, 2, 50_000))
    assert result == pytest.approx(1.5, abs=0.03)
    assert bounds.estimate_mu(np.zeros(3), np.ones(3)) == math.inf
    assert bounds.estimate_mu(np.zeros(3), np.zeros(3)) == 0
