"""White-box audits on mechanisms that are right, and on ones that are known to be broken (R20)."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from broken import quieter
from record_replay.units import census_neighbouring_datasets
from torch import Tensor

from tabsynth.auditing import canaries
from tabsynth.auditing.canaries import (
    StepObserver,
    audit_gan,
    log_likelihood_ratios,
    make_small_gan,
)
from tabsynth.auditing.canary_counts import audit_counts, make_claims, stack
from tabsynth.auditing.canary_votes import (
    ALL,
    ALL_CLASS,
    ONE,
    ONE_CLASS,
    audit_all_votes,
    audit_votes,
    plan_releases,
)
from tabsynth.auditing.neighbouring_datasets import (
    small_neighbouring_datasets,
)
from tabsynth.auditing.outcomes import INCONCLUSIVE, NOT_REFUTED, REFUTED, WHOLE
from tabsynth.auditing.request import AuditRequest
from tabsynth.privacy.accounting.mechanisms import Gaussian, NoisyVote, SubsampledGaussian
from tabsynth.privacy.noise.counts import NoisyCounts
from tabsynth.synthesizers.margnet.config import MargNetConfig
from tabsynth.synthesizers.margnet.measurement import PrivateMarginals
from tabsynth.synthesizers.method import PlannedSpend
from tabsynth.synthesizers.pate.rounds import NoisyAggregator
from tabsynth.training.clipping import Bounds, PerExampleClipper
from tabsynth.training.private_step import PrivateStep

RUNS = 1000  # on each dataset; half of them count errors


def by_part(results: list[Any]) -> dict[str, Any]:
    return {result.part: result for result in results}


@pytest.mark.slow
@pytest.mark.parametrize("method", ["dp-wgan", "dp-gan"])
def test_right_steps_show_what_the_theory_says(method: str) -> None:
    """μ̂ of critic, autoencoder, first counts and the whole fit: 0.9 of μ or more, and never refuted."""
    actual = by_part(audit_gan(AuditRequest(method=method, epsilon=8.0, runs=RUNS), fits=2))
    wanted = {"one-way counts", "critic", WHOLE} | (
        {"autoencoder"} if method == "dp-wgan" else set()
    )
    assert actual.keys() == wanted
    for result in actual.values():
        assert result.verdict == NOT_REFUTED, result.sentence
        slack = 4.5 * math.sqrt(2 / RUNS)
        assert 0.9 * result.mu_claimed - slack < result.mu_estimate < result.mu_claimed + slack
        assert result.mu_lower <= result.mu_claimed
        assert result.epsilon_lower <= result.epsilon_claimed
    whole = actual[WHOLE]
    assert whole.epsilon_claimed == pytest.approx(8.0, rel=0.01)
    assert whole.runs == RUNS // 2
    assert whole.mu_claimed == pytest.approx(
        math.sqrt(sum(r.mu_claimed**2 for r in actual.values() if r is not whole)), rel=1e-9
    )


@pytest.fixture(autouse=True)
def few_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(canaries, "STEPS", 4)
    monkeypatch.setattr(canaries, "HIDDEN", (8,))


def audited(runs: int = RUNS) -> dict[str, Any]:
    return by_part(audit_gan(AuditRequest(method="dp-gan", epsilon=8.0, runs=runs), fits=2))


@pytest.mark.slow
def test_noise_that_is_too_small_is_refuted(monkeypatch: pytest.MonkeyPatch) -> None:
    """1.25 times, at ε = 8: by 3,000 runs that count errors; by 1,000 it would be found 19 times in 20."""
    right = Bounds.noise_scales
    monkeypatch.setattr(Bounds, "noise_scales", lambda self: right(self) / 1.25)
    result = audited(6 * RUNS)
    assert result["critic"].verdict == REFUTED
    assert "Refuted" in result["critic"].sentence
    assert result["one-way counts"].verdict == NOT_REFUTED


def test_divisor_of_the_realised_batch_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    """The dataset with the canary has one row more: without a fixed divisor all known rows shift with it."""
    right, seen = PrivateStep.clipped_sums, []

    def sums(self: Any, losses: Any, batch: Tensor, keep: Any, *rest: Any) -> Any:
        if len(batch) > 1:  # all rows, and then those but the canary
            seen.append(int(keep.sum()))
        return right(self, losses, batch, keep, *rest)

    noised = PrivateStep.noisy_mean

    def divided(self: Any, clean: Any) -> Any:
        result = noised(self, clean)
        return [f * float(self.expected_batch) / max(seen[-2:]) for f in result]

    monkeypatch.setattr(PrivateStep, "clipped_sums", sums)
    monkeypatch.setattr(PrivateStep, "noisy_mean", divided)
    datasets = small_neighbouring_datasets()
    model = make_small_gan("dp-gan", datasets, 8.0, 1e-5, 1.0)
    result = StepObserver(datasets.encoded_canary(), True, 2000)
    with result.observe():
        model.fit(datasets.table(True))
    account = next(a for a in model.ledger_.accounts if a.purpose == "critic")
    mu = math.sqrt(account.spent) / account.noise_multiplier
    # The noise is divided by 9 rows, not by 8; where the known rows shift to is up to the weights.
    assert result.log_ratios["critic"].std() == pytest.approx(mu * 8 / 9, rel=0.06)


def test_canary_that_is_hardly_there_makes_the_audit_invalid(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An attack that sees nothing must not be taken for a mechanism that hides everything."""
    right = PerExampleClipper.clipped_sum

    def short(self: Any, *args: Any) -> Any:
        return [s / 2 for s in right(self, *args)]

    monkeypatch.setattr(PerExampleClipper, "clipped_sum", short)
    result = audited()
    assert result["critic"].verdict == INCONCLUSIVE
    assert "Inconclusive" in result["critic"].sentence


@pytest.mark.slow(cases=0)
def test_sampled_steps_have_a_bound_alone() -> None:
    result = by_part(
        audit_gan(AuditRequest(method="dp-gan", epsilon=8.0, runs=2 * RUNS), fits=2, rate=0.3)
    )
    critic = result["critic"]
    assert critic.mu_claimed is None and critic.verdict == NOT_REFUTED
    assert 0.1 < critic.epsilon_lower <= critic.epsilon_claimed


def test_ratios_by_their_definition() -> None:
    z, sigma, rate = np.linspace(-3, 4, 9), 0.8, 0.3
    density = lambda at: np.exp(-((z - at) ** 2) / (2 * sigma**2))  # noqa: E731
    mixed = rate * density(1) + (1 - rate) * density(0)
    assert log_likelihood_ratios(z, sigma, rate) == pytest.approx(np.log(mixed / density(0)))
    assert log_likelihood_ratios(z, sigma, 1.0) == pytest.approx(np.log(density(1) / density(0)))


def test_lanes_have_the_law_of_single_steps() -> None:
    """Along the canary: mean 0 or 1, standard deviation σ, each step; and the fit itself is not disturbed."""
    datasets, replicates = small_neighbouring_datasets(), 2000
    for present in (False, True):
        model = make_small_gan("dp-wgan", datasets, 8.0, 1e-5, 1.0)
        before = PrivateStep.clipped_sums, PrivateStep.noisy_mean
        seen = StepObserver(datasets.encoded_canary(), present, replicates)
        with seen.observe():
            model.fit(datasets.table(present))
        assert (PrivateStep.clipped_sums, PrivateStep.noisy_mean) == before
        account = next(a for a in model.ledger_.accounts if a.purpose == "autoencoder")
        assert isinstance(account.mechanism, SubsampledGaussian)
        mu = math.sqrt(account.spent) / account.mechanism.noise_multiplier
        z = seen.log_ratios["autoencoder"]  # Σ (z − ½)/σ²: N(±μ²/2, μ²)
        assert z.mean() == pytest.approx((1 if present else -1) * mu**2 / 2, abs=5 * mu / 44)
        assert z.std() == pytest.approx(mu, rel=0.08)


# MargNet's counts.


@pytest.mark.slow(cases=0)
def test_counts_show_what_the_theory_says() -> None:
    result = by_part(audit_counts(AuditRequest(method="margnet", epsilon=8.0, runs=300)))
    assert result.keys() == {"one-way counts", "sign interactions", "joint counts", WHOLE}
    whole = result[WHOLE]
    assert whole.verdict == NOT_REFUTED and whole.epsilon_claimed == pytest.approx(8.0)
    assert abs(whole.mu_estimate - whole.mu_claimed) < 0.35
    scored = by_part(
        audit_counts(
            AuditRequest(method="margnet", epsilon=8.0, runs=20),
            config=MargNetConfig(max_unscored=0),
        )
    )
    assert "scores of pairs" in scored
    assert scored["scores of pairs"].mu_lower <= scored["scores of pairs"].mu_claimed


def test_counts_of_a_target_show_what_the_theory_says() -> None:
    """The canary moves what pairs leave by nearly the bound, and no release by more than is charged."""
    datasets = census_neighbouring_datasets(200)
    request = AuditRequest(method="margnet", epsilon=500.0, runs=150, datasets=datasets)
    result = by_part(audit_counts(request, target="EDU"))
    for name in ("departure from the pairs", "joint counts again"):
        part = result[name]
        assert part.verdict == NOT_REFUTED and part.mu_claimed is not None
        assert part.mu_estimate == pytest.approx(part.mu_claimed, abs=0.15 * part.mu_claimed + 0.3)
        assert part.mu_lower > 0


def test_a_stage_that_releases_nothing_has_no_result() -> None:
    """Without a pair of at most 1 cell there is nothing to score, and no triple."""
    config = MargNetConfig(max_cells=1, max_unscored=0)
    result = by_part(
        audit_counts(AuditRequest(method="margnet", epsilon=8.0, runs=20), config=config)
    )
    assert result.keys() == {"one-way counts", "joint counts", WHOLE}
    assert result[WHOLE].epsilon_claimed == pytest.approx(8.0)


def test_a_run_in_which_a_stage_releases_nothing_has_a_ratio_of_0() -> None:
    both, one = {WHOLE: 3.0, "a": 1.0, "b": 2.0}, {WHOLE: 4.0, "a": 4.0}
    mechanism = Gaussian(noise_multiplier=2.0)
    planned = [PlannedSpend(purpose=part, mechanism=mechanism, count=1) for part in "abc"]
    runs = ([both, one], [one, one])
    claims = make_claims(planned, 1e-5, runs)
    assert list(claims) == [WHOLE, "a", "b"]
    assert claims[WHOLE].mu == pytest.approx(math.sqrt(3) / 2) and claims["b"].mu == 0.5
    without, with_canary = stack(runs, claims)
    assert {part: list(ratios) for part, ratios in without.items()} == {
        WHOLE: [3.0, 4.0],
        "a": [1.0, 4.0],
        "b": [2.0, 0.0],
    }
    assert list(with_canary["b"]) == [0.0, 0.0]


class Quiet(NoisyCounts[np.ndarray]):
    """Noise half as large as is charged."""

    def measure(
        self, account: Any, sets: Any, shares: Any, rng: Any, groups: Any = None, *rest: Any
    ) -> Any:
        measured = super().measure(account, sets, shares, rng, groups, *rest)
        return quieter(self, measured, groups, 2)


class QuietMarginals(PrivateMarginals):
    def __init__(self, task: Any, table: Any, *rest: Any) -> None:
        super().__init__(task, table, *rest)
        self.counts = Quiet(table, task.domain.sizes)


@pytest.mark.slow
def test_counts_with_half_the_noise_are_refuted() -> None:
    result = by_part(
        audit_counts(
            AuditRequest(method="margnet", epsilon=8.0, runs=240), measuring=QuietMarginals
        )
    )
    assert result[WHOLE].verdict == result["joint counts"].verdict == REFUTED


# PATE's votes.


@pytest.mark.parametrize("method", ["pate-gan", "pate-acgan"])
def test_votes_have_the_chances_of_the_law(method: str) -> None:
    result = by_part(
        audit_votes(AuditRequest(method=method, epsilon=8.0, runs=600), samples=200_000)
    )
    one, whole = result[ONE], result[ALL]
    assert one.verdict == whole.verdict == NOT_REFUTED
    assert 0.7 * one.epsilon_claimed < one.epsilon_lower <= one.epsilon_claimed
    assert whole.mu_estimate == pytest.approx(whole.details["mu_expected"], abs=0.2)
    yes_probabilities, yes = one.details["yes_probabilities"], one.details["yes"]
    assert np.array(yes) / 200_000 == pytest.approx(yes_probabilities, abs=0.006)
    fit, counts = result[WHOLE], result["one-way counts"]
    assert fit.verdict == counts.verdict == NOT_REFUTED
    mu = math.hypot(whole.details["mu_expected"], counts.mu_claimed)
    assert fit.mu_estimate == pytest.approx(mu, abs=0.26)


def test_class_votes_have_the_chances_of_two_noisy_counts() -> None:
    """Against numpy's noise on both counts, √2 times the multiplier that is charged; and networks are audited."""
    actual = audit_all_votes(
        AuditRequest(method="pate-acgan", epsilon=8.0, runs=600), samples=200_000
    )
    assert [r.part for r in actual if r.part.endswith("networks")] == [
        f"{part}, networks" for part in (WHOLE, "one-way counts", ALL, ALL_CLASS, ONE, ONE_CLASS)
    ]
    assert all(result.verdict == NOT_REFUTED for result in actual)
    (_, planned), rng = (
        plan_releases("pate-acgan", 8.0, 1e-5, "networks").votes,
        np.random.default_rng(0),
    )
    std = math.sqrt(2) * planned.mechanism.noise_multiplier
    for more, yes in enumerate(by_part(actual)[f"{ONE_CLASS}, networks"].details["yes"]):
        count = planned.teachers // 2 + more
        noisy = np.array([planned.teachers - count, count]) + rng.normal(0, std, (200_000, 2))
        assert yes / 200_000 == pytest.approx((noisy[:, 1] > noisy[:, 0]).mean(), abs=0.008)
    assert by_part(actual)[f"{WHOLE}, networks"].epsilon_claimed == pytest.approx(8.0, rel=0.01)


class HalfClasses(NoisyAggregator):
    """Half of the noise on class votes alone."""

    def noise(self, account: int = 0) -> float:
        return super().noise(account) / (1 + account)


def test_class_votes_with_half_the_noise_are_refuted() -> None:
    request = AuditRequest(method="pate-acgan", epsilon=8.0, runs=100)
    result = by_part(
        audit_votes(request, samples=1_000_000, teachers="networks", aggregator=HalfClasses)
    )
    assert result[f"{ONE_CLASS}, networks"].verdict == REFUTED
    assert result[f"{ONE}, networks"].verdict == NOT_REFUTED


class Loud(NoisyAggregator):
    """Votes without noise."""

    def binary(self, yes: Tensor, teachers: int) -> Tensor:
        return yes > teachers / 2


class Soft(NoisyAggregator):
    """Noise 1.25 times too small: counts are pulled from the tie before they are noised."""

    def binary(self, yes: Tensor, teachers: int) -> Tensor:
        account = self._accounts[0]
        vote = account.mechanism
        assert isinstance(vote, NoisyVote)
        account.mechanism = NoisyVote(noise=vote.noise / 1.25, teachers=vote.teachers)
        return super().binary(yes, teachers)


@pytest.mark.parametrize("aggregator", [Loud, Soft])
def test_votes_with_too_little_noise_are_refuted(aggregator: type[NoisyAggregator]) -> None:
    epsilon = 1.0 if aggregator is Loud else 8.0
    result = by_part(
        audit_votes(
            AuditRequest(method="pate-gan", epsilon=epsilon, runs=400),
            samples=1_000_000,
            aggregator=aggregator,
        )
    )
    assert result[ONE].verdict == REFUTED
    if aggregator is Loud:
        assert result[ALL].verdict == REFUTED


def test_worlds_are_neighbours() -> None:
    for datasets in (
        small_neighbouring_datasets(),
        census_neighbouring_datasets(50),
    ):
        with_canary = datasets.table(True)
        assert len(with_canary) == len(datasets.without) + 1
        assert (
            with_canary.iloc[:-1]
            .reset_index(drop=True)
            .equals(datasets.without.reset_index(drop=True))
        )
        canary = datasets.codes(datasets.canary)[0]
        same = datasets.codes(datasets.without) == canary
        assert not same.all(1).any()
    assert torch.equal(
        small_neighbouring_datasets().encoded_canary(),
        small_neighbouring_datasets().encoded_canary(),
    )
