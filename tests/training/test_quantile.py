"""R4, R10: bounds that follow a noised quantile, and what it costs."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from private_steps import bounds_of, engine, grads
from row_gradients import (
    drawn,
    group_of_entries,
    normal_rows,
    plain,
    row_gradients,
    squared,
)
from scipy import stats
from torch import Tensor

from tabsynth.privacy.accounting.mechanisms import Gaussian, SubsampledGaussian
from tabsynth.training.bounds import Clipping
from tabsynth.training.networks import mlp
from tabsynth.training.private_step import minus_scores

torch.set_num_threads(1)


@settings(max_examples=60, deadline=None)
@given(
    sigma=st.floats(0.3, 20),
    share=st.floats(0.02, 0.5),
    batch=st.floats(10, 5000),
    groups=st.sampled_from(["flat", "weight-bias"]),
)
def test_a_quantile_is_paid_from_the_step(
    sigma: float, share: float, batch: float, groups: str
) -> None:
    """R10: votes (±1/2 a group) and gradient together are one Gaussian of the account's multiplier:
    G/(√G s)² + (G/4)/(√G σ_b)² = 1/σ². The votes take at most half of it, however few rows there are."""
    clipping = Clipping(bound="quantile", quantile_noise=share, grouping=groups)
    bounds = bounds_of(clipping, sigma, batch)
    count = len(bounds.now)
    noise_units = count / (math.sqrt(count) * bounds.noise_multiplier) ** 2
    assert bounds.count_noise == max(share * batch, sigma / math.sqrt(2))
    noise_units += count / 4 / (math.sqrt(count) * bounds.count_noise) ** 2
    assert noise_units == pytest.approx(sigma**-2, rel=1e-9)
    assert sigma < bounds.noise_multiplier <= sigma * math.sqrt(2) * (1 + 1e-9)  # never for free
    fixed = bounds_of(Clipping(grouping=groups), sigma, batch)
    assert fixed.noise_multiplier == sigma


@pytest.mark.parametrize("grouping", ["flat", "weight-bias"])
@pytest.mark.parametrize("kind", ["whole", "cut", "mixed", "nan"])
def test_joint_sensitivity_of_sum_and_votes(kind: str, grouping: str) -> None:
    """R10: what leaves a step with a quantile, the sums and the votes, moves by one more row by at most
    1/σ in units of its noise: computed from what is noised, not from what is said of it."""
    module, rows = drawn(plain("tanh"), 1), normal_rows(7, "squares", 1)
    sigma, batch = 1.3, 20.0
    norms = row_gradients(module, squared, rows)
    entries = torch.zeros(norms.shape[1], dtype=torch.int64)
    bound = {"whole": 1e6, "cut": 1e-6, "nan": 0.5}.get(kind, float(norms.norm(dim=1).median()))
    if kind == "nan":
        rows[6] = math.nan
    worst = 0.0
    results: list[tuple[Tensor, Tensor]] = []
    for k in (6, 7):
        step, _, _ = engine(
            module,
            rows[:k],
            Gaussian(noise_multiplier=sigma),
            expected_batch=batch,
            max_norm=bound,
            bound="quantile",
            grouping=grouping,
        )
        released: list[Tensor] = []
        step.bounds.adapt = lambda votes, _: released.append(votes)  # type: ignore[method-assign, misc]  # noqa: B023
        step.noisy_mean = lambda sums: released.extend(sums) or sums  # type: ignore[func-returns-value, method-assign]  # noqa: B023
        step.gradient(squared)
        results.append((torch.cat([s.flatten() for s in released[:-1]]), released[-1]))
    entries, count = group_of_entries(module, step.clipper.groups), step.clipper.group_count
    in_sums = ((results[1][0] - results[0][0]) / step.bounds.noise_scales()[entries]).norm()
    votes_noise = math.sqrt(count) * step.bounds.count_noise
    assert step.bounds.count_noise == pytest.approx(0.05 * batch)
    in_votes = ((results[1][1] - results[0][1]) / votes_noise).norm()
    worst = float(torch.stack([in_sums, in_votes]).norm())
    assert worst <= (1 + 1e-9) / sigma
    # A vote is a half, for or against, in each group.
    assert ((results[1][1] - results[0][1]).abs() == 0.5).all()
    if kind == "cut":
        # Rows are clipped below their bound by what rounding may add: in float64 very little.
        assert worst == pytest.approx(1 / sigma, rel=1e-8)


@pytest.mark.slow
@pytest.mark.parametrize("grouping", ["flat", "weight-bias"])
def test_noise_law_of_the_votes(grouping: str) -> None:
    """R4, R10: the votes that move the bounds have N(0, G σ_b²) on them, on empty batches as well, and
    the sums their own."""
    module, batch = mlp([11, 20, 1], torch.Generator().manual_seed(0)), 30.0
    mechanism = SubsampledGaussian(noise_multiplier=1.0, sampling_rate=1e-12)
    step, _, _ = engine(
        module,
        torch.ones(3, 11),
        mechanism,
        rate=1e-12,
        expected_batch=batch,
        bound="quantile",
        quantile=0.4,
        quantile_lr=0.1,
        quantile_noise=0.2,
        grouping=grouping,
    )
    count, moves, sums = step.clipper.group_count, [], []
    for _ in range(500):
        before = step.bounds.now.double()
        scales = step.bounds.noise_scales()[group_of_entries(module, step.clipper.groups)]
        step.gradient(minus_scores)
        moves.append((step.bounds.now.double() / before).log().numpy())
        sums.append(grads(module) * batch / scales.numpy())
        step.bounds.now = torch.ones(count)
    # log C moves by −η(share − γ): share = 1/2 + noise/B on an empty batch.
    shares = 0.4 - np.array(moves) / 0.1
    noise = (shares - 0.5) * batch / (math.sqrt(count) * 0.2 * batch)
    assert abs(noise.var() - 1) < 6 * math.sqrt(2 / noise.size)
    assert stats.kstest(noise.ravel(), "norm").pvalue > 1e-4
    drawn_sums = np.array(sums)
    assert drawn_sums.size > 1e5 and abs(drawn_sums.var() - 1) < 0.015
    for k in range(0, drawn_sums.shape[1], 9):
        assert abs(np.corrcoef(drawn_sums[:, k], noise[:, 0])[0, 1]) < 6 / math.sqrt(500)


@pytest.mark.slow
@pytest.mark.parametrize("quantile", [0.2, 0.7])
def test_bounds_find_the_quantile(quantile: float) -> None:
    """Andrew et al.: with little noise the bound settles where a share γ of rows is left whole."""
    module, rows = drawn(plain("tanh"), 1), normal_rows(200, "squares", 1)
    step, account, table = engine(
        module,
        rows,
        Gaussian(noise_multiplier=0.5),
        expected_batch=200.0,
        max_norm=50.0,
        bound="quantile",
        quantile=quantile,
        quantile_noise=0.02,
    )
    for _ in range(150):
        step.gradient(squared)
    norms = row_gradients(module, squared, rows).norm(dim=1)
    share = float((norms <= step.bounds.now).double().mean())
    assert share == pytest.approx(quantile, abs=0.06)
    assert (
        account.spent == table.reads == 150
    )  # the votes are in the step's price, and nothing else
