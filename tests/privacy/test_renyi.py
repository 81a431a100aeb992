"""R6: what a noisy vote costs, against brute force, other accountants and its bounds."""

import math
import warnings
from itertools import pairwise

import mpmath
import numpy as np
import pytest
from dp_accounting import rdp
from dp_accounting.pld import privacy_loss_distribution as losses
from hypothesis import given, settings
from hypothesis import strategies as st
from opacus.accountants.analysis.rdp import get_privacy_spent

from tabsynth.errors import BudgetError
from tabsynth.privacy.accounting import accountants as accounting
from tabsynth.privacy.accounting import accountants as renyi
from tabsynth.privacy.accounting import calibration
from tabsynth.privacy.accounting.accountants import (
    Spend,
    accountant_of,
    epsilon_of,
    gaussian_epsilon,
    rdp_epsilon,
)
from tabsynth.privacy.accounting.calibration import calibrate
from tabsynth.privacy.accounting.mechanisms import (
    ACCOUNTINGS,
    Gaussian,
    NoisyVote,
    NoPrivacy,
    SubsampledGaussian,
    of_sum,
)
from tabsynth.privacy.ledger.ledger import Ledger
from tabsynth.privacy.noise.votes import chance_of_yes

DELTA = 1e-5
SOME_ORDERS = (1.001, 1.5, 2.0, 9.0, 40.0, 3000.0)


def vote(noise: float, teachers: int, accounting: str = "exact-binary") -> NoisyVote:
    return NoisyVote(noise=noise, teachers=teachers, accounting=accounting)


def divergence(p: mpmath.mpf, q: mpmath.mpf, order: float) -> mpmath.mpf:
    """D_order(Bern(p)‖Bern(q)), by its definition, in 200 digits."""
    a = mpmath.mpf(order)
    return mpmath.log(p**a * q ** (1 - a) + (1 - p) ** a * (1 - q) ** (1 - a)) / (a - 1)


@pytest.mark.parametrize(
    ("teachers", "noise"), [(1, 0.7), (2, 0.05), (5, 1.0), (12, 1.8), (30, 900.0), (9, 1e6)]
)
def test_exact_binary_is_the_worst_pair_of_the_grid(teachers: int, noise: float) -> None:
    """All K + 1 counts, both directions, every digit: never below the truth, and next to it."""
    with mpmath.workdps(200):
        p = [mpmath.ncdf((j - mpmath.mpf(teachers) / 2) / noise) for j in range(teachers + 1)]
        pairs = [*pairwise(p), *zip(p[1:], p[:-1], strict=True)]
        truth = [float(max(divergence(a, b, order) for a, b in pairs)) for order in SOME_ORDERS]
    result = renyi.vote_curve(vote(noise, teachers), SOME_ORDERS)
    assert (result >= np.array(truth)).all()
    # Of enormous noise rounding is all there is to see: there the Gaussian's bound is taken.
    assert result == pytest.approx(truth, rel=2e-5 if noise < 1e5 else 0.6)


@settings(max_examples=60, deadline=None)
@given(noise=st.floats(1e-3, 1e9), teachers=st.integers(1, 400))
def test_exact_binary_is_never_above_the_gaussian(noise: float, teachers: int) -> None:
    exact, plain = (
        renyi.vote_curve(vote(noise, teachers, a)) for a in ("exact-binary", "gaussian")
    )
    assert (exact <= plain).all() and (exact > 0).all()
    assert plain == pytest.approx(np.array(renyi.ORDERS) / (2 * noise**2))


def test_for_large_noise_it_is_two_thirds_of_the_gaussian() -> None:
    orders = (1.5, 2.0, 8.0, 20.0)
    exact, plain = (
        renyi.vote_curve(vote(300.0, 1974, a), orders) for a in ("exact-binary", "gaussian")
    )
    assert exact / plain == pytest.approx(2 / math.pi, rel=1e-3)


@settings(max_examples=60, deadline=None)
@given(noise=st.floats(0.05, 1e3), teachers=st.integers(1, 300), factor=st.floats(1.0, 3.0))
def test_curves_are_monotone(noise: float, teachers: int, factor: float) -> None:
    """More noise never costs more, two more teachers never less: their grid holds the old one."""
    for kind in ACCOUNTINGS:
        base = renyi.vote_curve(vote(noise, teachers, kind))
        assert (np.diff(base) >= -1e-12).all()  # RDP rises with its order
        assert (renyi.vote_curve(vote(noise * factor, teachers, kind)) <= base * 1.000001).all()
        assert (renyi.vote_curve(vote(noise, teachers + 2, kind)) >= base * 0.999999).all()


@pytest.mark.parametrize("scale", [0.3, 2.0, 25.0])
def test_laplace_is_the_moments_bound_of_the_paper(scale: float) -> None:
    """algorithms.md §5: α(l) = 2λ²l(l + 1), capped by the pure 2λ; and it bounds every pair."""
    rate = 1 / scale
    whole = np.arange(1, 60)
    curve = renyi.vote_curve(vote(scale, 50, "laplace"), tuple(whole + 1.0))
    moments = 2 * rate**2 * whole * (whole + 1)
    assert whole * curve == pytest.approx(np.minimum(moments, 2 * rate * whole))
    p = chance_of_yes(np.arange(51), vote(scale, 50, "laplace"))
    for order in (2.0, 7.0, 60.0):
        bound = renyi.vote_curve(vote(scale, 50, "laplace"), (order,))[0]
        for a, b in (*pairwise(p), *zip(p[1:], p[:-1], strict=True)):
            if min(a, b) > 1e-12 and max(a, b) < 1 - 1e-12:
                assert float(divergence(mpmath.mpf(a), mpmath.mpf(b), order)) <= bound


@pytest.mark.parametrize(("scale", "count"), [(5.4, 1), (16.0, 30), (300.0, 700)])
def test_laplace_composes_as_the_paper_says(scale: float, count: int) -> None:
    """ε̂ = min_l (α(l) + ln(1/δ))/l of the paper bounds ours; pure composition does too."""
    rate = 1 / scale
    papers = min(
        (count * 2 * rate**2 * order * (order + 1) + math.log(1 / DELTA)) / order
        for order in range(1, 2000)
    )
    ours = epsilon_of([(vote(scale, 100, "laplace"), count)], DELTA)
    # Balle et al.'s conversion at its best order, by hand.
    rho, x = count * 2 * rate**2, np.geomspace(1e-3, 1e5, 10**6)
    tight = (1 + x) * rho + (math.log(1 / DELTA) - np.log1p(x)) / x + np.log(x / (1 + x))
    assert ours <= min(papers, 2 * rate * count) * (1 + 1e-9)
    assert ours == pytest.approx(min(tight.min(), 2 * rate * count), rel=3e-4)


def test_the_conversion_is_that_of_opacus() -> None:
    """And within a hair of the other library's."""
    orders = np.array(accounting.SUBSAMPLED_ORDERS)
    for curve in (orders / 800, np.minimum(orders / 20, 0.3), orders):
        ours = renyi.epsilon_of_curve(curve, orders, DELTA)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            theirs = get_privacy_spent(orders=orders, rdp=curve, delta=DELTA)[0]
        assert ours == pytest.approx(theirs)
        assert ours == pytest.approx(rdp.compute_epsilon(orders, curve, DELTA)[0], rel=0.02)
    assert renyi.epsilon_of_curve(orders * math.inf, orders, DELTA) == math.inf
    assert renyi.epsilon_of_curve(orders * 0, orders, 0.9) == 0.0


@pytest.mark.parametrize(("teachers", "noise", "count"), [(20, 3.0, 12), (50, 7.6, 40)])
def test_never_below_the_exact_composition_of_any_pair(
    teachers: int, noise: float, count: int
) -> None:
    """PLD of two worlds that differ by one vote in every query: a lower bound, and not far below."""
    ours = epsilon_of([(vote(noise, teachers), count)], DELTA)
    results = []
    p = chance_of_yes(np.arange(teachers + 1), vote(noise, teachers))
    for j in range(0, teachers, 2):
        upper, lower = ({0: 1 - p[i], 1: p[i]} for i in (j + 1, j))
        log = {k: {v: math.log(m) for v, m in d.items()} for k, d in (("u", upper), ("l", lower))}
        pld = losses.from_two_probability_mass_functions(
            log["u"], log["l"], value_discretization_interval=1e-4, pessimistic_estimate=False
        )
        results.append(pld.self_compose(count).get_epsilon_for_delta(DELTA))
    assert max(results) <= ours <= 1.25 * max(results)


def test_a_vote_by_gaussian_accounting_is_one_more_gaussian() -> None:
    """It composes exactly with others, and by PRV with sampled ones."""
    plain = vote(40.0, 200, "gaussian")
    spends: list[Spend] = [(plain, 300), (Gaussian(noise_multiplier=8.0), 2)]
    mu = math.sqrt(300 / 40**2 + 2 / 64)
    assert epsilon_of(spends, DELTA) == gaussian_epsilon(mu, DELTA)
    assert accountant_of(spends, DELTA)["name"] == "exact Gaussian"
    sampled = (SubsampledGaussian(noise_multiplier=2.0, sampling_rate=0.1), 20)
    as_gaussian: Spend = (Gaussian(noise_multiplier=40.0), 300)
    assert epsilon_of([*spends, sampled], DELTA) == epsilon_of(
        [as_gaussian, spends[1], sampled], DELTA
    )
    assert accountant_of([*spends, sampled], DELTA)["name"] == "PRV"


def test_votes_compose_with_gaussians_by_rdp() -> None:
    """Order by order, with sampled Gaussians as another library has them."""
    votes, counts = (vote(30.0, 190), 60), (Gaussian(noise_multiplier=6.0), 1)
    steps = (SubsampledGaussian(noise_multiplier=1.2, sampling_rate=0.05), 40)
    orders = [float(order) for order in range(2, 64)]
    theirs = np.array(
        [40 * rdp.rdp_privacy_accountant._compute_rdp_poisson_subsampled_gaussian(0.05, 1.2, [a])[0] for a in orders]
    )  # fmt: skip
    alpha = np.array(orders)
    total = theirs + alpha / 72 + 60 * renyi.vote_curve(votes[0], tuple(orders))
    spends: list[Spend] = [votes, counts, steps]
    wanted = renyi.epsilon_of_curve(total, orders, DELTA)
    assert epsilon_of(spends, DELTA) == pytest.approx(wanted, rel=2e-3)
    assert (
        epsilon_of(spends, DELTA) == epsilon_of(spends[::-1], DELTA) == rdp_epsilon(spends, DELTA)
    )
    halves = [(votes[0], 25), counts, (votes[0], 35), steps]
    assert epsilon_of(halves, DELTA) == epsilon_of(spends, DELTA)
    # Without the steps there are finer orders; counts alone cost less than with votes.
    both = epsilon_of([votes, counts], DELTA)
    assert epsilon_of([counts], DELTA) < both < epsilon_of(spends, DELTA)
    assert both == pytest.approx(
        renyi.epsilon_of_curve(
            np.array(renyi.ORDERS) / 72 + 60 * renyi.vote_curve(votes[0]), renyi.ORDERS, DELTA
        )
    )
    assert epsilon_of([votes, (NoPrivacy(), 1)], DELTA) == math.inf


@pytest.mark.parametrize(
    ("spends", "name", "library"),
    [
        ([], "none", None),
        ([(NoPrivacy(), 1)], "none", None),
        ([(Gaussian(noise_multiplier=3.0), 2)], "exact Gaussian", "tabsynth"),
        ([(SubsampledGaussian(noise_multiplier=2.0, sampling_rate=0.1), 9)], "PRV", "opacus"),
        ([(SubsampledGaussian(noise_multiplier=0.3, sampling_rate=0.1), 99)], "RDP", "opacus"),
        ([(vote(9.0, 50), 2), (Gaussian(noise_multiplier=3.0), 1)], "RDP", "tabsynth"),
    ],
)
def test_the_accountant_that_was_used_is_named(
    spends: list[Spend], name: str, library: str | None
) -> None:
    result = accountant_of(spends, DELTA)
    assert (result["name"], result.get("library")) == (name, library)


@settings(max_examples=25, deadline=None)
@given(
    epsilon=st.floats(0.1, 30),
    teachers=st.integers(10, 300),
    count=st.integers(1, 20_000),
    kind=st.sampled_from(ACCOUNTINGS),
    fixed=st.booleans(),
)
def test_calibrated_noise_never_overshoots(
    epsilon: float, teachers: int, count: int, kind: str, fixed: bool
) -> None:
    part: list[Spend] = [(Gaussian(noise_multiplier=40 / epsilon), 1)] if fixed else []

    def build(noise: float) -> list[Spend]:
        return [*part, (vote(noise, teachers, kind), count)]

    noise = calibrate(build, epsilon, DELTA)
    assert epsilon_of(build(noise), DELTA) <= epsilon
    ledger = Ledger(epsilon, DELTA)
    for mechanism, uses in build(noise):
        ledger.open("p", mechanism, uses)
    if noise > calibration.LEAST_NOISE:
        assert epsilon_of(build(noise * 0.98), DELTA) > epsilon * 0.99


def test_an_account_of_votes_pays_for_no_sum() -> None:
    """It would be charged for less than a noised sum releases."""
    for kind in ACCOUNTINGS:
        with pytest.raises(BudgetError, match="pays for votes"):
            of_sum(vote(5.0, 10, kind))
        with pytest.raises(BudgetError, match="pays for votes"):
            _ = Ledger(9.0, DELTA).open("labels", vote(50.0, 10, kind), 1).noise_multiplier
