"""R6, R11: ε against dp_accounting, an independent accountant, and against printed figures."""

import math
from collections.abc import Callable, Sequence
from itertools import pairwise, product

import dp_accounting as dpa
import numpy as np
import pytest
from dp_accounting import pld, rdp
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.stats import norm

from tabsynth.errors import BudgetError, InputError
from tabsynth.privacy.accounting.accountants import (
    PRV_LIMIT,
    PrivacyFilter,
    Spend,
    epsilon_of,
    gaussian_delta,
    gaussian_epsilon,
    gaussian_mu,
    integrated_gaussian_epsilon,
    log_normal_cdf,
    rdp_epsilon,
)
from tabsynth.privacy.accounting.accountants import SUBSAMPLED_ORDERS as ORDERS
from tabsynth.privacy.accounting.calibration import LEAST_NOISE, calibrate, matching_noise
from tabsynth.privacy.accounting.mechanisms import (
    Gaussian,
    Mechanism,
    NoisyVote,
    NoPrivacy,
    SubsampledGaussian,
)

RATES = (0.001, 0.0034, 0.0134, 0.0537, 0.2, 1.0)
NOISES = (0.5, 0.8, 1.0, 2.0, 5.0)
COUNTS = (1, 100, 5000)
DELTA = 1e-5


def sampled(sigma: float, rate: float) -> Mechanism:
    return SubsampledGaussian(noise_multiplier=sigma, sampling_rate=rate)


def full(sigma: float) -> Mechanism:
    return Gaussian(noise_multiplier=sigma)


def event(spends: list[Spend]) -> dpa.DpEvent:
    events = []
    for mechanism, count in spends:
        one: dpa.DpEvent = dpa.GaussianDpEvent(mechanism.noise_multiplier)
        if mechanism.sampling_rate < 1:
            one = dpa.PoissonSampledDpEvent(mechanism.sampling_rate, one)
        events.append(dpa.SelfComposedDpEvent(one, count))
    return dpa.ComposedDpEvent(events)


def by_pld(spends: list[Spend], delta: float = DELTA, interval: float = 1e-3) -> float:
    accountant = pld.PLDAccountant(value_discretization_interval=interval)
    return accountant.compose(event(spends)).get_epsilon(delta)


def order_by_quadrature(sigma: float, rate: float, order: float) -> float:
    """RDP of one sampled Gaussian, by its definition: the integral that the series stands for."""

    def integrand(x: float) -> float:
        ratio = 1 - rate + rate * math.exp((2 * x - 1) / (2 * sigma**2))
        return norm.pdf(x, scale=sigma) * ratio**order

    top = order + 12 * sigma
    parts = np.linspace(-12 * sigma, top, 9)
    total = sum(quad(integrand, x, y, limit=200)[0] for x, y in pairwise(parts))
    return math.log(total) / (order - 1)


@pytest.mark.slow
@pytest.mark.parametrize("rate", RATES)
def test_rdp_against_dp_accounting(rate: float) -> None:
    """R6: 90 tuples against another implementation; its fractional orders are bounds or fail to
    converge, so those are integrated here."""
    for sigma in NOISES:
        orders, one = [], []
        for order in ORDERS:
            accountant = rdp.RdpAccountant(orders=[order])
            if order % 1:
                one.append(order_by_quadrature(sigma, rate, order))
            else:
                one.append(accountant.compose(event([(sampled(sigma, rate), 1)]))._rdp[0])
            orders.append(order)
        for count in COUNTS:
            theirs = rdp.compute_epsilon(orders, count * np.array(one), DELTA)[0]
            ours = rdp_epsilon([(sampled(sigma, rate), count)], DELTA)
            assert math.isfinite(ours) and ours >= 0
            assert ours == pytest.approx(theirs, rel=0.002, abs=1e-6), (sigma, count)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rate", "sigma", "count"),
    [
        (0.001, 0.5, 100),
        (0.001, 1.0, 5000),
        (0.0134, 0.5, 1),
        (0.0134, 2.0, 5000),
        (0.0537, 1.0, 100),
        (0.2, 0.8, 1),
        (0.2, 5.0, 5000),
    ],
)
def test_prv_against_pld(rate: float, sigma: float, count: int) -> None:
    """R6: our claim is an upper bound, and close to the other one (which is one too)."""
    spends = [(sampled(sigma, rate), count)]
    ours = epsilon_of(spends, DELTA)
    theirs = by_pld(spends, interval=1e-3 if ours > 2 else 1e-4)
    assert abs(ours - theirs) < max(0.05, 0.01 * theirs)
    # PLD rounds up by about its interval.
    assert ours > theirs * (1 - 1e-3) - 1e-3
    assert ours <= rdp_epsilon(spends, DELTA)


def test_full_batches_are_exact() -> None:
    """R6: q = 1 at every σ and T is one Gaussian, to nine digits below PLD's bound."""
    for sigma, count in product(NOISES, COUNTS):
        ours = epsilon_of([(sampled(sigma, 1.0), count)], DELTA)
        mu = math.sqrt(count) / sigma
        assert gaussian_delta(mu, ours) <= DELTA < gaussian_delta(mu, ours * (1 - 1e-6))
        if ours < 100:
            interval = 1e-3 if ours > 1 else 1e-4
            theirs = by_pld([(full(sigma), count)], interval=interval)
            assert theirs - 1e-2 < ours <= theirs + 1e-6


def test_gaussian_delta_is_the_integral() -> None:
    """R6: δ(ε) = ∫ (p − e^ε q)₊, by numerical integration."""
    for mu, epsilon in product((0.2, 1.0, 3.0), (0.0, 0.5, 2.0)):

        def excess(x: float, mu: float = mu, epsilon: float = epsilon) -> float:
            return max(norm.pdf(x - mu) - math.exp(epsilon) * norm.pdf(x), 0.0)

        start = epsilon / mu + mu / 2  # below it the integrand is zero
        result = quad(excess, start, start + 12, limit=200)[0]
        assert gaussian_delta(mu, epsilon) == pytest.approx(result, rel=1e-6)


@pytest.mark.parametrize("delta", [1e-9, 1e-5, 1e-2])
@pytest.mark.parametrize("epsilon", [0.01, 0.5, 1.0, 8.0, 20.0, 200.0])
def test_gaussian_mu_is_the_inverse(epsilon: float, delta: float) -> None:
    assert gaussian_epsilon(gaussian_mu(epsilon, delta), delta) == pytest.approx(epsilon, rel=1e-6)


def test_goldens() -> None:
    """R6: figures printed elsewhere."""
    assert epsilon_of([(full(3.7306), 1)], DELTA) == pytest.approx(1.0, abs=2e-4)
    assert rdp_epsilon([(sampled(1.5, 0.04), 2250)], DELTA) == pytest.approx(7.3291, abs=2e-3)


def test_composition_is_one_accountant_not_a_sum() -> None:
    """R11: an autoencoder at 2.52 and a GAN at 5.52 compose to 6.16."""
    rate = 256 / 19077
    first, second = (sampled(1.0, rate), 1000), (sampled(0.9, rate), 3000)
    assert epsilon_of([first], DELTA) == pytest.approx(2.52, abs=0.02)
    assert epsilon_of([second], DELTA) == pytest.approx(5.52, abs=0.02)
    best = epsilon_of([first, second], DELTA)
    assert best == pytest.approx(6.16, abs=0.025)
    assert by_pld([first, second]) - 2e-3 < best < rdp_epsilon([first, second], DELTA)
    assert best == epsilon_of([second, first], DELTA)


@pytest.mark.parametrize("mu", [0.01, 0.3, 2.0, 30.0])
@pytest.mark.parametrize("delta", [1e-9, 1e-5, 0.01])
def test_the_exact_epsilon_is_that_of_an_integral_and_of_scipy(mu: float, delta: float) -> None:
    epsilon = gaussian_epsilon(mu, delta)
    assert integrated_gaussian_epsilon(mu, delta) == pytest.approx(epsilon, rel=1e-4, abs=1e-8)
    upper = norm.cdf(mu / 2 - epsilon / mu)
    assert upper - np.exp(epsilon + norm.logcdf(-mu / 2 - epsilon / mu)) <= delta * (1 + 1e-9)
    assert gaussian_mu(max(epsilon, 1e-4), delta) >= mu * (1 - 1e-4)


def test_logarithms_far_in_the_tail_are_those_of_scipy() -> None:
    for x in (3.0, 0.0, -7.0, -29.9, -30.1, -50.0, -1e4):
        assert log_normal_cdf(x) == pytest.approx(norm.logcdf(x), rel=1e-11)


def test_gaussians_merge_exactly() -> None:
    """Full-batch Gaussians add up as μ², alone and beside other mechanisms."""
    parts = [(full(3.0), 4), (full(5.0), 25)]
    merged = (full(1 / math.sqrt(4 / 9 + 1)), 1)
    assert epsilon_of(parts, DELTA) == pytest.approx(epsilon_of([merged], DELTA), rel=1e-9)
    beside = [(sampled(1.0, 0.2), 3)]
    assert rdp_epsilon([*parts, *beside], DELTA) == pytest.approx(
        rdp_epsilon([merged, *beside], DELTA), rel=1e-9
    )
    halves = [(sampled(1.0, 0.2), 1), (sampled(1.0, 0.2), 2)]
    assert epsilon_of(halves, DELTA) == epsilon_of(beside, DELTA)


def test_mixtures_against_pld() -> None:
    """R6: counts, autoencoder and critic together, as a fit spends them."""
    spends = [(full(4.0), 1), (sampled(2.0, 0.05), 40), (sampled(1.2, 0.1), 60)]
    for delta in (1e-6, 1e-3):
        theirs = by_pld(spends, delta)
        assert theirs * (1 - 1e-3) - 1e-3 < epsilon_of(spends, delta) < theirs * 1.01 + 0.01


def test_nothing_and_everything() -> None:
    assert epsilon_of([], DELTA) == 0 == epsilon_of([(full(1.0), 0), (NoPrivacy(), 0)], DELTA)
    assert epsilon_of([(full(9.0), 1), (NoPrivacy(), 1)], DELTA) == math.inf
    for delta in (0, 1, -1, math.nan):
        with pytest.raises(InputError, match="delta"):
            epsilon_of([(full(1.0), 1)], delta)


@pytest.mark.slow
@settings(max_examples=20, deadline=None)
@given(
    rate=st.floats(1e-6, 1.0),
    sigma=st.floats(0.05, 1e4),
    count=st.integers(1, 10**6),
    delta=st.sampled_from([1e-12, 1e-5, 1e-2]),
)
def test_rdp_is_monotone_and_a_number(rate: float, sigma: float, count: int, delta: float) -> None:
    """R6: more rows a batch, less noise, more steps or a smaller δ never cost less."""

    def result(rate: float, sigma: float, count: int, delta: float = delta) -> float:
        value = rdp_epsilon([(sampled(sigma, rate), count)], delta)
        assert math.isfinite(value) and value >= 0
        return value

    base = result(rate, sigma, count) * (1 - 1e-6) - 1e-9
    assert result(min(1.0, rate * 1.3), sigma, count) >= base
    assert result(rate, sigma / 1.3, count) >= base
    assert result(rate, sigma, count * 2) >= base
    assert result(rate, sigma, count, delta / 10) >= base


@pytest.mark.slow
def test_best_is_monotone() -> None:
    """R6: the same of PRV, within its error."""

    def result(rate: float = 0.1, sigma: float = 1.0, count: int = 30) -> float:
        return epsilon_of([(sampled(sigma, rate), count)], DELTA)

    for name, values in {"rate": (0.03, 0.1, 1.0), "count": (3, 30, 300)}.items():
        series = [result(**{name: value}) for value in values]
        assert series == sorted(series) and series[0] > 0
    series = [result(sigma=value) for value in (4.0, 2.0, 1.0, 0.5)]
    assert series == sorted(series)


def test_past_the_limit_the_bound_holds() -> None:
    """Past ε = 40 RDP takes over: looser, never absent."""
    for sigma, rate, count in ((0.3, 0.1, 10), (1e-3, 0.5, 5), (1e-40, 0.5, 1), (0.8, 0.5, 10**9)):
        result = epsilon_of([(sampled(sigma, rate), count)], DELTA)
        assert PRV_LIMIT < result < math.inf
        assert result <= epsilon_of([(full(sigma), count)], DELTA) * 1.6


@pytest.mark.parametrize(
    "sigma", [0.0, -1.0, math.nan, math.inf, "1", True, 1e-200, 1e200, 10**400]
)
def test_noise_that_no_accountant_can_judge_is_refused(sigma: float) -> None:
    for kind in (full, lambda s: sampled(s, 0.5)):
        with pytest.raises(InputError, match="noise_multiplier"):
            kind(sigma)


@pytest.mark.parametrize("rate", [0.0, -0.1, 1.1, math.nan])
def test_rates_outside_are_refused(rate: float) -> None:
    with pytest.raises(InputError, match="sampling_rate"):
        sampled(1.0, rate)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("epsilon", "fixed"), [(0.5, True), (1.0, False), (8.0, True), (20.0, False)]
)
def test_calibration_by_an_independent_accountant(epsilon: float, fixed: bool) -> None:
    """R6: PLD finds no more than ε, and at least 99% of it, with and without fixed parts."""
    part: list[Spend] = [(full(2 / gaussian_mu(epsilon, DELTA)), 1)] if fixed else []

    def build(sigma: float) -> list[Spend]:
        return [*part, (sampled(sigma, 0.2), 12)]

    sigma = calibrate(build, epsilon, DELTA)
    assert epsilon * 0.99 < epsilon_of(build(sigma), DELTA) <= epsilon
    theirs = by_pld(build(sigma), interval=1e-4 if epsilon < 8 else 1e-3)
    assert epsilon * 0.98 < theirs < epsilon + 1e-3
    assert by_pld(build(sigma * 0.97), interval=1e-3) > epsilon * 0.995


@settings(max_examples=15, deadline=None)
@given(epsilon=st.floats(0.05, 500), share=st.floats(0.01, 0.9), count=st.integers(1, 10**5))
def test_calibration_of_full_batches_never_passes(epsilon: float, share: float, count: int) -> None:
    """R6: rounded towards more privacy, by the exact formula."""
    mu = gaussian_mu(epsilon, DELTA)
    sigma = calibrate(
        lambda s: [(full(1 / (mu * math.sqrt(share))), 1), (full(s), count)], epsilon, DELTA
    )
    total = math.sqrt(mu**2 * share + count / sigma**2)
    assert gaussian_delta(total, epsilon) <= DELTA
    if sigma > LEAST_NOISE:
        assert gaussian_epsilon(total, DELTA) > 0.98 * epsilon


PLANS: dict[str, Callable[[float], Sequence[Spend]]] = {
    "one release": lambda s: [(full(s), 1)],
    "full batches": lambda s: [(full(s), 2000)],
    "batches": lambda s: [(sampled(s, 0.05), 100)],
    "after counts": lambda s: [(full(2000.0), 1), (sampled(s, 0.01), 300)],
    "votes": lambda s: [(NoisyVote(noise=s, teachers=50), 40)],
    "one batch of one row": lambda s: [(sampled(s, 1e-6), 1)],
    "few rows": lambda s: [(sampled(s, 1e-4), 1)],
}


BUDGETS = [0.01, 0.3, 4.0, 30.0, 90.0, 1000.0, 10_000.0]
# Where PRV is slow, each budget for one plan of many batches and for one of a single batch.
NOT_REPEATED = {
    "batches": (0.01, 4.0),
    "after counts": (0.3, 30.0),
    "one batch of one row": (0.01, 4.0),
    "few rows": (0.3, 30.0),
}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("epsilon", "plan"),
    [(e, plan) for e in BUDGETS for plan in PLANS if e not in NOT_REPEATED.get(plan, ())],
)
def test_every_budget_is_spent_or_a_warning_says_what_is_left(
    plan: str, epsilon: float, caplog: pytest.LogCaptureFixture
) -> None:
    """R6: to 99% at least. Some batches are so small that no noise spends the budget: then it is said."""
    build = PLANS[plan]
    sigma = calibrate(build, epsilon, DELTA)
    spent = epsilon_of(build(sigma), DELTA)
    assert spent <= epsilon
    said = [record.getMessage() for record in caplog.records]
    if spent >= 0.99 * epsilon:
        assert said == []
        return
    assert plan in ("one batch of one row", "few rows", "votes")
    assert len(said) == 1 and f"{1 - spent / epsilon:.1%} of epsilon={epsilon:g}" in said[0]
    assert "\n" not in said[0]


def test_small_noise_is_found_and_what_no_noise_spends_is_said(
    caplog: pytest.LogCaptureFixture,
) -> None:
    sigma = calibrate(PLANS["one release"], 1000.0, DELTA)
    assert 0.02 < sigma < 0.03 and gaussian_epsilon(1 / sigma, DELTA) > 995
    assert caplog.records == []
    # A row is in with chance 1e-6 < delta: what it then shows, delta covers.
    sigma = calibrate(PLANS["one batch of one row"], 0.3, DELTA)
    (record,) = caplog.records
    assert "cannot be spent" in record.getMessage() and record.levelname == "WARNING"


def test_calibration_within_a_filter() -> None:
    """R23: fixed parts were spent before the rest was planned: all of the filter's budget is used, no more."""
    kept, before = PrivacyFilter.of(2.0, DELTA), (full(2.5), 1)
    for rate, steps in ((1.0, 10), (0.05, 300), (0.001, 50)):

        def build(s: float, rate: float = rate, steps: int = steps) -> list[Spend]:
            return [before, (sampled(s, rate), steps)]

        sigma = calibrate(build, 2.0, DELTA, kept)
        assert 0.998 < kept.share(build(sigma)) <= 1 + 1e-9
        assert 0.7 * 2.0 < epsilon_of(build(sigma), DELTA) < 2.0
    with pytest.raises(BudgetError, match="leaves nothing of epsilon=2"):
        calibrate(lambda s: [(full(0.5), 1), (full(s), 5)], 2.0, DELTA, kept)


def test_calibration_refuses_what_no_noise_can_keep() -> None:
    """R6, R7: the fixed parts alone pass ε."""
    with pytest.raises(BudgetError, match="No noise"):
        calibrate(lambda s: [(full(0.5), 1), (full(s), 5)], 1.0, DELTA)
    with pytest.raises(BudgetError, match="No noise"):
        calibrate(lambda s: [(NoPrivacy(), 1), (full(s), 5)], 1.0, DELTA)
    for epsilon in (0, -1, math.nan, math.inf, "1"):
        with pytest.raises(InputError):
            calibrate(lambda s: [(full(s), 5)], epsilon, DELTA)


@pytest.mark.parametrize("share", [0.01, 0.1, 0.5])
def test_matching_noise_costs_its_share(share: float) -> None:
    mu = gaussian_mu(3.0, DELTA) * math.sqrt(share)
    sigma = matching_noise(lambda s: sampled(s, 0.05), 300, mu, DELTA)
    ours = rdp_epsilon([(sampled(sigma, 0.05), 300)], DELTA)
    wanted = rdp_epsilon([(full(1 / mu), 1)], DELTA)
    assert 0.99 * wanted < ours <= wanted * (1 + 1e-9)


@pytest.mark.slow
def test_shared_random_plans_keep_the_bound() -> None:
    """R6: random compositions, ours never below PLD."""
    rng = np.random.default_rng(3)
    for _ in range(2):
        spends: list[Spend] = [(full(float(rng.uniform(1, 6))), 1)]
        for _ in range(2):
            sigma, rate = float(rng.uniform(0.7, 4)), float(rng.uniform(0.01, 0.5))
            spends.append((sampled(sigma, rate), int(rng.integers(1, 30))))
        theirs = by_pld(spends)
        assert epsilon_of(spends, DELTA) > theirs * (1 - 1e-3) - 1e-3
