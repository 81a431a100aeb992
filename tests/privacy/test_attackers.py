"""What an attacker can do at most: against riskcal, against exact attacks, and against formulas of the papers."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm

from tabsynth import InputError
from tabsynth.planning import bounds_of, plan, plan_advantage
from tabsynth.privacy.accounting.accountants import (
    GAUSSIAN_FILTER,
    PrivacyFilter,
    epsilon_of,
    gaussian_delta,
    gaussian_epsilon,
    gaussian_mu,
)
from tabsynth.privacy.accounting.attackers import (
    CURVE,
    EXACT,
    ORDER,
    POINT,
    attack_bounds,
    claimed_bounds,
    epsilon_of_advantage,
    percent,
    rounded_up,
)
from tabsynth.privacy.accounting.mechanisms import (
    Gaussian,
    NoisyVote,
    NoPrivacy,
    SubsampledGaussian,
    ThresholdedGaussian,
)
from tabsynth.privacy.accounting.pld import pld_delta, pld_epsilon
from tabsynth.privacy.ledger.ledger import Ledger

DELTA = 1e-5
SAMPLED = [(1.0, 0.01, 1000), (0.8, 0.02, 3000), (1.5, 0.005, 200), (30.0, 0.01, 100)]


def steps(sigma, rate, count):
    return [(SubsampledGaussian(noise_multiplier=sigma, sampling_rate=rate), count)]


@pytest.mark.slow
@pytest.mark.parametrize(("sigma", "rate", "count"), SAMPLED)
def test_the_advantage_is_that_of_riskcal(sigma, rate, count):
    """By the losses of dp_accounting, which share no code with ours."""
    riskcal = pytest.importorskip("riskcal", reason="the independent implementation")
    module = pytest.importorskip("dp_accounting.pld.privacy_loss_distribution")
    spends = steps(sigma, rate, count)
    epsilon = epsilon_of(spends, DELTA)
    bounds = attack_bounds(spends, epsilon, DELTA)
    loss = module.from_gaussian_mechanism(
        sigma, sampling_prob=rate, value_discretization_interval=1e-4
    ).self_compose(count)
    expected = riskcal.analysis.get_advantage_from_pld(loss)
    assert bounds.basis == CURVE
    assert bounds.advantage == pytest.approx(expected, rel=1e-2)
    assert bounds.advantage < claimed_bounds(epsilon, DELTA).advantage


def test_of_one_gaussian_and_of_epsilon_alone():
    riskcal = pytest.importorskip("riskcal", reason="the independent implementation")
    for sigma in (0.5, 2.0, 10.0):
        spends = [(Gaussian(noise_multiplier=2 * sigma), 4)]  # as one of σ
        bounds = attack_bounds(spends, gaussian_epsilon(1 / sigma, DELTA), DELTA)
        assert bounds.basis == EXACT
        expected = riskcal.analysis.get_advantage_from_gdp(1 / sigma)
        assert bounds.advantage == pytest.approx(expected, rel=1e-9)
    for epsilon, delta in itertools.product((0.01, 1.0, 8.0), (1e-9, 1e-3)):
        expected = riskcal.analysis.get_advantage_from_adp(epsilon, delta)
        assert claimed_bounds(epsilon, delta).advantage == pytest.approx(expected, rel=1e-9)


def test_randomised_response_reaches_the_bound():
    """It is the worst of all (ε, 0) mechanisms: the bound is met exactly, for the advantage and for odds."""
    for epsilon in (0.1, 1.0, 3.0):
        right = math.exp(epsilon) / (1 + math.exp(epsilon))
        bounds = claimed_bounds(epsilon, 0.0)
        assert bounds.advantage == pytest.approx(right - (1 - right))
        assert bounds.odds == pytest.approx(math.exp(epsilon)) and bounds.exception == 0.0


def test_posterior_probabilities_are_those_of_the_primer():
    """Wood et al. 2018: for pure ε, p becomes at most p e^ε/(1 − p + p e^ε)."""
    one = claimed_bounds(1.0, 0.0)
    assert one.posterior(0.01) == pytest.approx(0.0267, abs=5e-5)
    assert one.posterior(0.5) == pytest.approx(0.7311, abs=5e-5)
    assert claimed_bounds(0.01, 0.0).posterior(0.5) == pytest.approx(0.5025, abs=5e-5)
    for prior in (0.0, 1.0, math.nan, "x"):
        with pytest.raises(InputError, match="prior"):
            one.posterior(prior)


@pytest.mark.parametrize("mu", [0.1, 0.5, 1.0, 3.0])
def test_odds_rise_further_as_rarely_as_is_said(mu):
    """Of a Gaussian the loss is N(μ²/2, μ²), so how often odds pass the factor is known exactly."""
    bounds = attack_bounds(
        [(Gaussian(noise_multiplier=1 / mu), 1)], gaussian_epsilon(mu, DELTA), DELTA
    )
    passed = norm.sf(math.log(bounds.odds) / mu - mu / 2)
    assert passed <= bounds.exception == pytest.approx(10 * DELTA)
    assert passed >= bounds.exception / 100, "and the factor is not needlessly large"


def test_an_attack_stays_below():
    """The best test of a sampled batch, played 200,000 times: its advantage is below the bound, and near it."""
    rng = np.random.default_rng(0)
    sigma, rate, count, n = 0.7, 0.2, 5, 200_000
    spends = steps(sigma, rate, count)
    bounds = attack_bounds(spends, epsilon_of(spends, DELTA), DELTA)

    def losses(present):
        x = sigma * rng.standard_normal((n, count))
        if present:
            x += rng.random((n, count)) < rate
        return np.log1p(rate * np.expm1((2 * x - 1) / (2 * sigma**2))).sum(axis=1)

    best = np.mean(losses(True) > 0) - np.mean(losses(False) > 0)
    assert best < bounds.advantage + 0.005 and best > 0.9 * bounds.advantage


@settings(max_examples=8, deadline=None)
@given(st.floats(0.5, 20), st.sampled_from([0.001, 0.01, 0.1, 1.0]), st.integers(1, 500))
def test_the_curve_is_the_inverse_of_epsilon(sigma, rate, count):
    spends = steps(sigma, rate, count)
    epsilon = pld_epsilon(spends, 1e-4)
    if math.isfinite(epsilon) and epsilon > 0:
        (delta,) = pld_delta(spends, np.array([epsilon]), near=1e-4)
        assert 0.999e-4 < delta < 1.000001e-4  # ε is rounded up
    points = np.linspace(0, epsilon if math.isfinite(epsilon) else 1.0, 9)
    deltas = pld_delta(spends, points, near=1e-4)
    assert (np.diff(deltas) <= 1e-12).all() and ((deltas >= 0) & (deltas <= 1)).all()


def test_the_curve_of_a_gaussian():
    points = np.array([0.0, 0.1, 0.5, 1.0, 2.0])
    exact = np.array([gaussian_delta(0.5, e) for e in points])
    found = pld_delta([(Gaussian(noise_multiplier=2.0), 1)], points, near=1e-3)
    assert (found >= exact).all() and found == pytest.approx(exact, rel=1e-3)
    free = [(NoPrivacy(), 1)]
    assert (pld_delta(free, points, near=1e-3) == 1).all()
    assert (pld_delta([], points, near=1e-3) == 0).all()


def test_votes_and_thresholds():
    vote = [(NoisyVote(noise=40.0, teachers=250), 300)]
    bounds = attack_bounds(vote, epsilon_of(vote, DELTA), DELTA)
    assert bounds.basis == CURVE and 0 < bounds.advantage < 0.3
    plain = [(Gaussian(noise_multiplier=4.0), 1)]
    drafted = [(ThresholdedGaussian(noise_multiplier=4.0, threshold_delta=1e-3), 1)]
    one, other = (attack_bounds(s, epsilon_of(s, 1e-2), 1e-2) for s in (plain, drafted))
    assert other.advantage == pytest.approx(one.advantage + 1e-3)


def test_a_plan_that_followed_outputs_has_the_bounds_of_its_filter():
    """The curve of the mechanisms that came about says nothing there: how much was spent is an output too."""
    items = [
        {"purpose": "a", **Gaussian(noise_multiplier=20.0).to_dict(), "count": 1, "details": {}},
        {"purpose": "b", **Gaussian(noise_multiplier=20.0).to_dict(), "count": 1, "details": {}},
    ]
    fixed = Ledger.from_list(2.0, DELTA, items)
    adaptive = Ledger.from_list(2.0, DELTA, [{**items[0], "earlier": True}, items[1]])
    assert adaptive.adaptive and not fixed.adaptive and adaptive.spent == 2.0
    small, bounds = fixed.attack_bounds(), adaptive.attack_bounds()
    assert bounds.basis == ORDER and bounds.advantage > 5 * small.advantage
    assert bounds.advantage <= claimed_bounds(2.0, DELTA).advantage
    # A Gaussian filter is as good as the exact composition of its whole budget.
    kept = PrivacyFilter.of(2.0, DELTA, GAUSSIAN_FILTER)
    gaussian = attack_bounds(adaptive.spends(), 2.0, DELTA, kept)
    expected = gaussian_delta(math.sqrt(kept.budget), 0.0)
    assert gaussian.basis == EXACT and gaussian.advantage == pytest.approx(expected)


def test_noise_that_is_not_exact_is_added():
    spends = [(Gaussian(noise_multiplier=4.0), 1)]
    one, other = (attack_bounds(spends, 1.0, DELTA, inexact=x) for x in (0.0, 2**-13))
    assert other.advantage - one.advantage == pytest.approx(2**-12)


def test_nothing_spent_and_nothing_promised():
    assert attack_bounds([], 0.0, DELTA).basis == POINT
    assert attack_bounds([(NoPrivacy(), 1)], math.inf, DELTA) is None
    assert claimed_bounds(900.0, DELTA).advantage == 1.0
    assert claimed_bounds(1.0, 0.2).odds == math.inf


def test_numbers_are_never_rounded_down():
    assert rounded_up(0.12301) == "0.124" and rounded_up(0.0) == "0"
    assert rounded_up(1234.5) == "1,240" and rounded_up(math.inf) == "inf"
    assert percent(0.1231) == "12.4%" and percent(0.5) == "50%"
    assert percent(0.99999) == "99.999%" and percent(1.0) == "100%"


def test_lines_state_both_bounds():
    spends = [(Gaussian(noise_multiplier=4.0), 1)]
    bounds = attack_bounds(spends, gaussian_epsilon(0.25, DELTA), DELTA)
    first, second = bounds.lines("one record")
    assert "at most 0.0995. " in first and "one record" in first
    assert "in at most 55% of cases; guessing is right in 50%" in first  # (1 + 0.0995)/2 = 54.97%
    assert f"from 50% to {percent(bounds.posterior(0.5))}, except with probability 0.0001" in second


@pytest.mark.parametrize(
    ("delta", "clause"),
    [(1e-5, "0.0001"), (1.44e-5, "0.000144"), (1e-8, "1e-07"), (0.0, None)],
)
def test_the_probability_of_an_exception_is_not_rounded_down(delta, clause):
    bounds = claimed_bounds(1.0, delta)
    expected = "" if clause is None else f", except with probability {clause}"
    assert bounds.exception_clause == expected
    assert bounds.lines()[1].endswith(f"from 50% to {percent(bounds.posterior(0.5))}{expected}")


def test_delta_is_not_the_probability_that_a_factor_fails():
    """Why the statement has a factor of its own: e^ε is exceeded sixteen times as often as δ says."""
    mu = gaussian_mu(1.0, DELTA)
    beyond = norm.sf(1.0 / mu - mu / 2)
    assert beyond == pytest.approx(1.6e-4, rel=0.01)
    bounds = attack_bounds([(Gaussian(noise_multiplier=1 / mu), 1)], 1.0, DELTA)
    assert bounds.odds == pytest.approx(2.99, abs=0.005) and bounds.exception < beyond


@pytest.mark.parametrize("most", [0.01, 0.05, 0.3])
def test_epsilon_of_an_advantage(most):
    alone = epsilon_of_advantage(most, DELTA)
    assert claimed_bounds(alone, DELTA).advantage == pytest.approx(most)
    exact = epsilon_of_advantage(most, DELTA, gaussian=True)
    mu = gaussian_mu(exact, DELTA)
    assert gaussian_delta(mu, 0.0) <= most and gaussian_delta(mu, 0.0) > 0.99 * most
    assert exact > 2 * alone


def test_a_fit_of_the_planned_epsilon_keeps_the_advantage():
    from command_lines import make_schema

    planned = plan_advantage(0.05, 20_000)
    assert planned.margnet > planned.epsilon > 0.09
    own = plan("margnet", 20_000, planned.margnet, schema=make_schema())
    assert 0.045 < bounds_of(own).advantage <= 0.05
    with pytest.raises(InputError, match="lower delta"):
        plan_advantage(1e-5, 20_000)
    with pytest.raises(InputError, match="max_advantage"):
        plan_advantage(1.5, 20_000)


def test_odds_of_the_worse_direction():
    """With a record in the table, odds may rise further than without it: δ(ε) by an integral, for each direction."""
    sigma, rate = 1.0, 0.2
    x = np.linspace(-12, 13, 400_001)
    none = norm.pdf(x, scale=sigma)
    mixture = (1 - rate) * none + rate * norm.pdf(x, loc=1, scale=sigma)
    points = np.array([0.1, 0.3, 0.6])
    exact = [
        [np.trapezoid(np.maximum(p - math.exp(e) * q, 0), x) for e in points]
        for p, q in ((mixture, none), (none, mixture))
    ]
    found = pld_delta(steps(sigma, rate, 1), points, near=0.01)
    assert found == pytest.approx(np.max(exact, axis=0), rel=2e-3)
    assert exact[0][2] > 2 * exact[1][2]
