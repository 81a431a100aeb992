"""The second accountant: against exact formulas, brute force, and two other libraries."""

import math
import time
from itertools import pairwise, product

import dp_accounting as dpa
import numpy as np
import pytest
from dp_accounting import pld
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm

from tabsynth.errors import InputError
from tabsynth.privacy.accounting import pld as losses
from tabsynth.privacy.accounting.accountants import (
    PLD,
    PRV,
    accountant_of,
    epsilon_of,
    gaussian_delta,
    gaussian_epsilon,
    rdp_epsilon,
)
from tabsynth.privacy.accounting.mechanisms import (
    Gaussian,
    NoisyVote,
    NoPrivacy,
    SubsampledGaussian,
)
from tabsynth.privacy.accounting.pld import Atoms, SampledGaussian, pld_epsilon
from tabsynth.privacy.certificate.verification import second_epsilon

DELTA = 1e-5


def sampled(sigma: float, rate: float) -> SubsampledGaussian:
    return SubsampledGaussian(noise_multiplier=sigma, sampling_rate=rate)


def vote(noise: float, teachers: int, accounting: str = "exact-binary") -> NoisyVote:
    return NoisyVote(noise=noise, teachers=teachers, accounting=accounting)


def theirs(spends, delta=DELTA, interval=1e-4):
    events = []
    for mechanism, count in spends:
        one = dpa.GaussianDpEvent(mechanism.noise_multiplier)
        if mechanism.sampling_rate < 1:
            one = dpa.PoissonSampledDpEvent(mechanism.sampling_rate, one)
        events.append(dpa.SelfComposedDpEvent(one, count))
    accountant = pld.PLDAccountant(value_discretization_interval=interval)
    return accountant.compose(dpa.ComposedDpEvent(events)).get_epsilon(delta)


@pytest.mark.parametrize("delta", [0.1, 1e-5, 1e-12, 1e-30])
@pytest.mark.parametrize("sigma", [0.1, 0.5, 3.0, 200.0, 1e5])
def test_one_gaussian_exactly(sigma: float, delta: float) -> None:
    result = pld_epsilon([(Gaussian(noise_multiplier=sigma), 3)], delta)
    mu = math.sqrt(3) / sigma
    if result > 0:
        assert gaussian_delta(mu, result * (1 + 1e-9)) <= delta * (1 + 1e-6)
    assert result <= gaussian_epsilon(mu, delta) * (1 + 1e-3) + 2e-9


@pytest.mark.parametrize(
    ("spends", "interval"),
    [
        ([(sampled(1.0, 0.0134), 5000)], 3e-4),
        ([(sampled(0.8, 0.0034), 100)], 5e-4),
        ([(sampled(0.5, 0.2), 1)], 1e-3),
        ([(sampled(5.0, 0.2), 5000)], 1e-3),
        ([(sampled(40.0, 0.05), 300)], 1e-5),
        (
            [(Gaussian(noise_multiplier=2.0), 1), (sampled(0.9, 0.01), 700), (sampled(2, 0.1), 9)],
            1e-3,
        ),
    ],
)
def test_sampled_gaussians_against_dp_accounting(spends, interval) -> None:
    ours, other = pld_epsilon(spends, DELTA), theirs(spends, interval=interval)
    assert ours == pytest.approx(other, rel=3e-3, abs=2 * interval)
    assert ours > other * (1 - 1e-3) - 2 * interval  # an upper bound: theirs rounds up, too


def test_against_opacus() -> None:
    spends = [(sampled(1.1, 0.02), 1000)]
    assert accountant_of(spends, DELTA)["name"] == PRV[0]
    ours, prv = pld_epsilon(spends, DELTA), epsilon_of(spends, DELTA)
    assert prv * (1 - 0.01) < ours < prv


def curve(loss, epsilon: float) -> float:
    """Hockey-stick divergence of atoms at ε, by its definition."""
    return loss.infinite + float(loss.weights @ np.maximum(-np.expm1(epsilon - loss.losses), 0))


@pytest.mark.parametrize("removed", [True, False])
@pytest.mark.parametrize(("sigma", "rate"), [(0.7, 0.1), (2.0, 1.0), (1.0, 0.001)])
def test_a_step_on_a_grid_dominates_it(sigma: float, rate: float, removed: bool) -> None:
    """At grid points the curve is that of the pair itself; between them it is above."""
    loss = SampledGaussian(sigma, rate, removed)
    grid = np.arange(-300, 301) * 0.05
    masses, infinite = loss.masses(grid)
    assert masses.min() >= 0 and masses.sum() + infinite == pytest.approx(1, abs=1e-12)
    x = np.linspace(-12 * sigma, 1 + 12 * sigma, 400_001)
    zero, one = norm.pdf(x, 0, sigma), norm.pdf(x, 1, sigma)
    mixture = (1 - rate) * zero + rate * one
    p, q = (mixture, zero) if removed else (zero, mixture)
    for epsilon in (-0.5, 0.0, 0.02, 0.05, 0.33, 1.0):
        truth = np.maximum(p - math.exp(epsilon) * q, 0).sum() * (x[1] - x[0])
        result = curve(Atoms(grid, masses, infinite), epsilon)
        assert result >= truth - 1e-9
        if epsilon in (-0.5, 0.0, 0.05, 1.0):
            assert result == pytest.approx(truth, abs=2e-6)


def worst_choice(vote: NoisyVote, uses: int, alpha: float) -> float:
    """sup over adaptive choices of the pair of P(S) − αQ(S): all histories, no grid."""
    p = norm.cdf((np.arange(vote.teachers + 1) - vote.teachers / 2) / vote.noise)

    def value(a: float, b: float, left: int) -> float:
        if left == 0:
            return max(a - alpha * b, 0.0)
        return max(
            value(a * up, b * low, left - 1) + value(a * (1 - up), b * (1 - low), left - 1)
            for low, up in pairwise(p)
        )

    return value(1.0, 1.0, uses)


@pytest.mark.parametrize(("noise", "teachers", "uses"), [(1.0, 4, 3), (0.4, 3, 2), (9.0, 5, 3)])
def test_votes_are_the_worst_adaptive_choice(noise: float, teachers: int, uses: int) -> None:
    mechanism = vote(noise, teachers)
    ((block, count),) = losses.binary_votes(mechanism, uses)
    assert count == 1
    for part in (-0.5, 0.0, 0.3, 0.7, 1.5):
        epsilon = part / noise
        truth = worst_choice(mechanism, uses, math.exp(epsilon))
        result = curve(block, epsilon)
        assert truth * (1 - 1e-9) <= result <= truth * 1.02 + 1e-12


@pytest.mark.parametrize(
    ("noise", "teachers", "count"),
    [(7.6, 50, 222), (57.9, 381, 1500), (1.0, 7, 3), (900.0, 2, 64)],
)
def test_votes_stay_below_rdp_and_above_the_best_fixed_choice(noise, teachers, count) -> None:
    mechanism = vote(noise, teachers)
    result = pld_epsilon([(mechanism, count)], DELTA)
    assert result <= rdp_epsilon([(mechanism, count)], DELTA)
    fixed = [norm.cdf(z / noise) for z in (-0.5 * (teachers % 2), 1 - 0.5 * (teachers % 2))]
    low, up = np.array([1 - fixed[0], fixed[0]]), np.array([1 - fixed[1], fixed[1]])
    centre = pld.privacy_loss_distribution.from_two_probability_mass_functions(
        {i: math.log(x) for i, x in enumerate(low)},
        {i: math.log(x) for i, x in enumerate(up)},
        value_discretization_interval=0.01 / noise,
        pessimistic_estimate=False,  # a lower bound
    ).self_compose(count)
    assert result >= centre.get_epsilon_for_delta(DELTA)
    assert pld_epsilon([(vote(noise, teachers, "gaussian"), count)], DELTA) == pytest.approx(
        gaussian_epsilon(math.sqrt(count) / noise, DELTA), rel=1e-4
    )


def test_groups_of_counts_dominate_each_count() -> None:
    """Of many teachers, counts are taken in groups: three outcomes dominate each of their pairs."""
    noise, teachers = 400.0, 1000
    groups, weights = losses._groups(noise, teachers)
    assert len(groups) < 100 and weights.min() >= 0
    assert weights.sum(axis=1) == pytest.approx(1, abs=1e-9)
    p = norm.cdf((np.arange(teachers + 1) - teachers / 2) / noise)
    for epsilon in np.array([-3, -1, -0.2, 0, 0.1, 1, 2]) / noise:
        pairs = np.maximum(p[1:] - math.exp(epsilon) * p[:-1], 0)
        pairs += np.maximum(1 - p[1:] - math.exp(epsilon) * (1 - p[:-1]), 0)
        result = (weights * np.maximum(-np.expm1(epsilon - groups), 0)).sum(axis=1)
        assert result.max() >= pairs.max() * (1 - 1e-9)


@settings(max_examples=5, deadline=None)
@given(
    st.floats(0.4, 50),
    st.floats(1e-4, 1.0),
    st.integers(1, 300),
    st.floats(1.05, 3),
    st.floats(1e-9, 1e-2),
)
def test_monotone(sigma, rate, count, factor, delta) -> None:
    """Noise lowers ε; steps, sampling and a smaller δ raise it, but for the grid's own error."""
    base = pld_epsilon([(sampled(sigma, rate), count)], delta)
    slack = 1 + 2e-3
    assert pld_epsilon([(sampled(sigma * factor, rate), count)], delta) <= base * slack
    assert pld_epsilon([(sampled(sigma, rate / factor), count)], delta) <= base * slack
    assert pld_epsilon([(sampled(sigma, rate), math.ceil(count * factor))], delta) >= base / slack
    assert pld_epsilon([(sampled(sigma, rate), count)], delta * factor) <= base * slack
    assert 0 <= base <= rdp_epsilon([(sampled(sigma, rate), count)], delta) * slack + 1e-9


@pytest.mark.parametrize("epsilon", [1e-4, 1e-2, 1.0, 50.0])
def test_small_and_large_answers_come_soon(epsilon: float) -> None:
    sigma = 3e-3 * math.sqrt(5000) * 8 / epsilon if epsilon < 1 else {1.0: 1.2, 50.0: 0.36}[epsilon]
    start = time.process_time()
    result = pld_epsilon([(sampled(sigma, 0.003), 5000)], DELTA)
    assert time.process_time() - start < 2
    assert math.isfinite(result) and result < 200


def test_edges() -> None:
    assert pld_epsilon([], DELTA) == 0
    assert pld_epsilon([(sampled(1, 0.5), 0)], DELTA) == 0
    assert pld_epsilon([(NoPrivacy(), 1)], DELTA) == math.inf
    assert pld_epsilon([(sampled(0.01, 0.5), 1)], DELTA) == math.inf
    assert pld_epsilon([(vote(1e-3, 9), 1)], DELTA) == math.inf
    assert pld_epsilon([(vote(1e-3, 9, "laplace"), 1)], DELTA) == math.inf
    assert pld_epsilon([(sampled(1e6, 0.01), 1000)], DELTA) == 0  # below δ altogether
    assert math.isfinite(pld_epsilon([(sampled(3.0, 1e-6), 10**12)], DELTA))
    for delta, count in product((0, 1, -1, math.nan), (0, 1)):
        with pytest.raises(InputError):
            pld_epsilon([(sampled(1, 0.5), count)], delta)


def test_laplace_votes_are_randomised_response() -> None:
    mechanism, count = vote(40.0, 99, "laplace"), 500
    yes = 1 / (1 + math.exp(-2 / 40))
    low, high = (
        pld.privacy_loss_distribution.from_randomized_response(
            2 * (1 - yes), 2, value_discretization_interval=1e-4, pessimistic_estimate=pessimistic
        )
        .self_compose(count)
        .get_epsilon_for_delta(DELTA)
        for pessimistic in (False, True)
    )
    result = pld_epsilon([(mechanism, count)], DELTA)
    assert low <= result <= high and result == pytest.approx(low, rel=0.01)


@pytest.mark.parametrize(
    "spends",
    [
        [(Gaussian(noise_multiplier=3.0), 2)],
        [(sampled(1.0, 0.02), 500)],
        [(vote(15.0, 100), 50), (Gaussian(noise_multiplier=9.0), 1)],
        [(vote(15.0, 100, "laplace"), 5)],
        [(sampled(400.0, 0.05), 300)],
        [(sampled(0.01, 0.02), 500)],
        [(NoPrivacy(), 1)],
    ],
)
def test_a_second_accountant_never_contradicts(spends) -> None:
    first, second = epsilon_of(spends, DELTA), second_epsilon(spends, DELTA)
    assert second.name.split()[0] != accountant_of(spends, DELTA)["name"] or first > 100
    assert second.epsilon <= first * (1 + 2e-3) + second.error
    assert second.epsilon >= first * 0.85 or math.isinf(first)


def test_small_budgets_are_accounted_by_pld() -> None:
    spends = [(sampled(2000.0, 0.05), 3000)]
    assert accountant_of(spends, DELTA)["name"] == PLD[0]
    assert epsilon_of(spends, DELTA) < 0.9 * rdp_epsilon(spends, DELTA)


@pytest.mark.parametrize("delta", [1e-12, 1e-13])
def test_small_deltas_are_not_left_to_an_untilted_fft(delta: float) -> None:
    """opacus' PRV says 2.8076 and 2.9825 here: below what a finer road has."""
    spends = [(SubsampledGaussian(noise_multiplier=0.8, sampling_rate=0.001), 10_000)]
    finer = {1e-12: 2.9375, 1e-13: 3.3044}[delta]  # FFT in 80 bits, step 2.5e-4
    assert finer <= epsilon_of(spends, delta) <= 1.001 * finer
    assert accountant_of(spends, delta)["name"] == "PLD"
