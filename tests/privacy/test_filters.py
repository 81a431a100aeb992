"""R23: privacy filters hold whatever a later mechanism takes from earlier outputs."""

import itertools
import math
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from opacus.accountants.analysis.rdp import compute_rdp
from scipy.integrate import quad
from scipy.stats import norm

from tabsynth.errors import BudgetError, InputError
from tabsynth.privacy.accounting.accountants import (
    PrivacyFilter,
    Spend,
    epsilon_of,
    gaussian_epsilon,
    gaussian_mu,
    order_of,
    rdp,
    rdp_budget,
    rdp_epsilon,
    sampled_rdp,
)
from tabsynth.privacy.accounting.calibration import calibrate
from tabsynth.privacy.accounting.mechanisms import (
    Gaussian,
    NoisyVote,
    NoPrivacy,
    SubsampledGaussian,
)
from tabsynth.privacy.ledger.ledger import Ledger, as_earlier
from tabsynth.privacy.ledger.project import ProjectLedger

DELTA = 1e-5


def full(sigma: float) -> Gaussian:
    return Gaussian(noise_multiplier=sigma)


def sampled(sigma: float, rate: float) -> SubsampledGaussian:
    return SubsampledGaussian(noise_multiplier=sigma, sampling_rate=rate)


# The Rényi divergence of a sampled Gaussian.


@pytest.mark.parametrize("sigma", [0.1, 0.3, 0.7, 1.5, 6.0])
@pytest.mark.parametrize("rate", [1e-5, 0.003, 0.05, 0.4, 0.95])
def test_sampled_divergence_is_that_of_opacus(sigma: float, rate: float) -> None:
    """At whole orders the sum of Mironov et al. 2019 is exact; ours is never below it."""
    for order in (2, 3, 7, 25, 100):
        (exact,) = compute_rdp(q=rate, noise_multiplier=sigma, steps=1, orders=[float(order)])
        assert exact <= sampled_rdp(sigma, rate, float(order)) <= exact * (1 + 1e-8) + 1e-11


@pytest.mark.parametrize("order", [1.02, 1.3, 2.7, 6.4])
@pytest.mark.parametrize(("sigma", "rate"), [(0.25, 0.01), (0.8, 0.2), (2.0, 0.6)])
def test_sampled_divergence_in_both_directions(sigma: float, rate: float, order: float) -> None:
    """By another quadrature; the other direction is smaller, so that one bound serves both."""

    def log_ratio(x: float) -> float:
        return float(np.logaddexp(math.log1p(-rate), math.log(rate) + (2 * x - 1) / (2 * sigma**2)))

    def moment(power: float) -> float:
        def integrand(x: float) -> float:
            return math.exp(norm.logpdf(x, scale=sigma) + power * log_ratio(x))

        edges = (-15 * sigma, 0.0, 0.5, 1.0, order / 2, order, order + 15 * sigma)
        pieces = itertools.pairwise(edges)
        return math.fsum(quad(integrand, a, b, limit=500, epsrel=1e-11)[0] for a, b in pieces)

    # D_α(mixture ‖ N) and D_α(N ‖ mixture), both as moments of their ratio under N.
    first = math.log(moment(order)) / (order - 1)
    second = math.log(moment(1 - order)) / (order - 1)
    result = sampled_rdp(sigma, rate, order)
    assert first <= result + 1e-10 and result <= first * (1 + 1e-6) + 1e-9
    assert second <= result + 1e-9


def test_where_the_quadrature_would_be_too_long_sampling_counts_for_nothing() -> None:
    assert sampled_rdp(1e-3, 0.1, 5.0) == 5.0 / (2 * 1e-6)
    assert rdp(NoPrivacy(), 3.0) == math.inf
    assert rdp(full(2.0), 3.0) == 3 / 8 == rdp(sampled(2.0, 1.0), 3.0)
    vote = NoisyVote(noise=20.0, teachers=100)
    assert 0 < rdp(vote, 3.0) < rdp(NoisyVote(noise=20.0, teachers=100, accounting="gaussian"), 3.0)


# The filter.


def test_the_order_follows_from_the_budget_alone() -> None:
    """Not from what is spent: the best order of what came about is chosen by the outputs."""
    kept = PrivacyFilter.of(1.0, DELTA)
    assert kept.order == order_of(1.0, DELTA) and kept.order != order_of(2.0, DELTA)
    lists: Sequence[Sequence[Spend]] = (
        [(full(20.0), 1)],
        [(sampled(0.8, 0.001), 100)],
        [(sampled(3.0, 0.2), 10), (full(9.0), 2)],
        [(NoisyVote(noise=40.0, teachers=200), 20)],
    )
    for spends in lists:
        used = math.fsum(n * rdp(mechanism, kept.order) for mechanism, n in spends)
        assert kept.use_of(spends) == pytest.approx(used, rel=1e-12)
        assert kept.share(spends) == pytest.approx(used / rdp_budget(1.0, DELTA, kept.order))
        for other in (kept.order * 1.5, 2.0):  # where another order would have admitted more
            assert kept.accountant()["order"] == kept.order != other
    # A list that is within the budget at a higher order, and is refused all the same.
    tight = [(sampled(0.8, 1e-4), 100)]
    assert epsilon_of(tight, DELTA) < rdp_epsilon(tight, DELTA) < 1.0 and not kept.admits(tight)


@pytest.mark.parametrize("delta", [1e-9, 1e-5, 1e-3])
@pytest.mark.parametrize("epsilon", [0.01, 0.3, 1.0, 8.0, 100.0, 1e4])
def test_the_order_lets_the_largest_gaussian_through(epsilon: float, delta: float) -> None:
    kept = PrivacyFilter.of(epsilon, delta)
    mu = kept.mu_left([])
    assert kept.order is not None and mu < gaussian_mu(epsilon, delta)
    assert mu / gaussian_mu(epsilon, delta) > 0.6
    for order in np.linspace(1.001, 3 * kept.order, 300):
        assert 2 * rdp_budget(epsilon, delta, order) / order <= mu**2 * 1.001
    edge = [(full(1 / mu), 1)]
    assert kept.admits(edge) and not kept.admits([(full(0.999 / mu), 1)])
    assert kept.claim(edge) == epsilon and gaussian_epsilon(mu, delta) < epsilon
    # Past its budget it says so, and continuously.
    assert kept.claim([(full(0.999 / mu), 1)]) == pytest.approx(epsilon, rel=5e-3)
    assert kept.claim([(full(0.999 / mu), 1)]) > epsilon


def test_a_gaussian_filter_loses_nothing_and_takes_only_gaussians() -> None:
    kept = PrivacyFilter.of(1.0, DELTA, "gaussian")
    mu = gaussian_mu(1.0, DELTA)
    assert kept.order is None and kept.mu_left([]) == pytest.approx(mu)
    parts: list[Spend] = [(full(3 / mu), 4), (sampled(3 / mu, 1.0), 5)]
    assert kept.share(parts) == pytest.approx(1.0) and kept.admits(parts)
    assert not kept.admits([*parts, (full(1e4), 1)])
    assert kept.admits([(NoisyVote(noise=9.0, teachers=30, accounting="gaussian"), 1)])
    for other in (sampled(50.0, 0.5), NoisyVote(noise=50.0, teachers=9)):
        with pytest.raises(BudgetError, match="composition='renyi'"):
            kept.share([(other, 1)])
    assert kept.share([(NoPrivacy(), 1)]) == math.inf == kept.claim([(NoPrivacy(), 1)])


def test_budgets_that_are_none() -> None:
    for wrong in ({"epsilon": 0.0}, {"delta": 1.0}, {"composition": "prv"}):
        with pytest.raises(InputError):
            PrivacyFilter.of(**{"epsilon": 1.0, "delta": DELTA, **wrong})  # type: ignore[arg-type]
    with pytest.raises(BudgetError, match="no order for epsilon=1e-09"):
        PrivacyFilter.of(1e-9, 1e-12)
    free = PrivacyFilter.of(math.inf, DELTA)
    assert free.admits([(NoPrivacy(), 1)]) and free.order is None and free.budget == math.inf


@pytest.mark.slow
@settings(max_examples=30, deadline=None)
@given(data=st.data())
def test_what_it_admits_the_other_accountants_allow(data: st.DataObject) -> None:
    """Of a list that was fixed before, its ε is an upper bound: never below RDP at the best order, or PRV."""
    kept = PrivacyFilter.of(data.draw(st.floats(0.2, 20)), DELTA)
    kinds = {
        "full": st.builds(full, st.floats(0.3, 50)),
        "sampled": st.builds(sampled, st.floats(0.5, 10), st.floats(1e-3, 0.9)),
    }
    spends = [
        (data.draw(kinds[data.draw(st.sampled_from(sorted(kinds)))]), data.draw(st.integers(1, 50)))
        for _ in range(data.draw(st.integers(1, 3)))
    ]
    if kept.admits(spends):
        assert (
            epsilon_of(spends, DELTA)
            <= kept.claim(spends) * (1 + 1e-9)
            == kept.epsilon * (1 + 1e-9)
        )


# An adversary who chooses the second mechanism by the first one's output.

LOSSES = np.linspace(-14.0, 14.0, 50_001)  # of the first output, in standard deviations


def gaussian_profile(mu: float, epsilon: np.ndarray) -> np.ndarray:
    """δ(ε) of a Gaussian mechanism, exact, at any ε."""
    upper = norm.sf(epsilon / mu - mu / 2)
    return np.asarray(upper - np.exp(epsilon + norm.logsf(epsilon / mu + mu / 2)))


def sampled_profile(sigma: float, rate: float, epsilon: np.ndarray) -> np.ndarray:
    """δ(ε) of one step of a sampled Gaussian, the record being removed, exact, at any ε."""
    out = -np.expm1(epsilon)
    high = epsilon > math.log1p(-rate) + 1e-12
    e = epsilon[high]
    x = sigma**2 * np.log((np.exp(e) - 1 + rate) / rate) + 0.5  # where the loss is e
    mixture = (1 - rate) * norm.sf(x / sigma) + rate * norm.sf((x - 1) / sigma)
    out[high] = mixture - np.exp(e + norm.logsf(x / sigma))
    return np.asarray(out)


def worst_delta(epsilon: float, first: float, gaussian: float, step: tuple[float, float]) -> float:
    """δ(ε) of a Gaussian of μ = ``first``, then what its output makes worse: a Gaussian or a sampled step."""
    mean, weight = first**2 / 2, norm.pdf(LOSSES) * (LOSSES[1] - LOSSES[0])
    left = epsilon - (mean + first * LOSSES)
    either = np.maximum(gaussian_profile(gaussian, left), sampled_profile(*step, left))
    return float((weight * either).sum())


def alone_delta(epsilon: float, first: float, step: tuple[float, float]) -> float:
    """The same where the second mechanism was fixed before: exact composition."""
    left = epsilon - (first**2 / 2 + first * LOSSES)
    weight = norm.pdf(LOSSES) * (LOSSES[1] - LOSSES[0])
    return float((weight * sampled_profile(*step, left)).sum())


def largest(admitted: Callable[[float], bool], low: float = 1e-12, high: float = 0.9) -> float:
    for _ in range(60):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if admitted(middle) else (low, middle)
    return low


@pytest.mark.slow
@pytest.mark.parametrize("sigma", [0.2, 0.25, 0.3])
@pytest.mark.parametrize("epsilon", [0.3, 0.5, 0.7])
def test_an_adaptive_adversary_stays_within_the_filter(epsilon: float, sigma: float) -> None:
    """Both choices as large as the filter lets them be; and as the exact composition of each list let them be."""
    kept = PrivacyFilter.of(1.0, DELTA)
    first = gaussian_mu(epsilon, DELTA)
    spent: list[Spend] = [(full(1 / first), 1)]
    second = kept.mu_left(spent)
    rate = largest(lambda q: kept.admits([*spent, (sampled(sigma, q), 1)]))
    assert worst_delta(1.0, first, second, (sigma, rate)) <= DELTA
    # The rule before: each list by itself, exactly composed, is (1, 1e-5), and the adversary is past it.
    loose = math.sqrt(gaussian_mu(1.0, DELTA) ** 2 - first**2)
    rate = largest(lambda q: alone_delta(1.0, first, (sigma, q)) <= DELTA)
    assert epsilon_of([*spent, (full(1 / loose), 1)], DELTA) == pytest.approx(1.0)
    assert worst_delta(1.0, first, loose, (sigma, rate)) > 1.3 * DELTA


def test_the_product_admits_no_such_choice(tmp_path: Path) -> None:
    """A ledger of (1, 1e-5), a fit at 0.7; then either the Gaussian that is left, or one step at a tiny rate."""
    ProjectLedger.create(tmp_path / "l", epsilon=1.0, delta=DELTA)
    first, rate = gaussian_mu(0.7, DELTA), 1.9e-5
    with ProjectLedger(tmp_path / "l") as project:
        ledger = project.ledger(0.7, DELTA)
        project.check(ledger.run, [(full(1 / first), 1)])
        project.begin(ledger.run, "margnet")
        ledger.spend(ledger.open("counts", full(1 / first * (1 + 1e-9)), 1))
        ledger.close()
        left = project.epsilon_left()
        project.check("a", [(full(1 / gaussian_mu(left, DELTA)), 1)])
        # What passed before: by PRV the realised list is within (1, 1e-5).
        step = sampled(0.2, rate)
        assert epsilon_of([*ledger.spends(), (step, 1)], DELTA) < 1.0
        with pytest.raises(BudgetError, match="would exceed its limit"):
            project.check("b", [(step, 1)])
        # The same fit planned again, on top of the first, is calibrated by the filter, and harmless.
        warm = Ledger.from_list(1.0, DELTA, as_earlier(ledger.to_list()))
        sigma = calibrate(
            lambda s: [*warm.spends(), (sampled(s, rate), 1)], 1.0, DELTA, project.filter
        )
        project.check("b", [(sampled(sigma, rate), 1)])
    assert worst_delta(1.0, first, gaussian_mu(left, DELTA), (sigma, rate)) <= DELTA
    assert worst_delta(1.0, first, gaussian_mu(0.667, DELTA), (0.2, rate)) > 1.3 * DELTA
