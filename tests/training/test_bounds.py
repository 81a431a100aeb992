"""R10: bounds and groups, and the noise that they make."""

import math

import numpy as np
import pytest
import torch
from private_steps import bounds_of, clipped_rows, engine, grads
from row_gradients import (
    drawn,
    group_of_entries,
    normal_rows,
    plain,
    row_gradients,
    squared,
)
from scipy import stats
from torch import Tensor, nn

from tabsynth.errors import InputError
from tabsynth.privacy.accounting.mechanisms import Gaussian, NoPrivacy, SubsampledGaussian
from tabsynth.training.clipping import Clipping
from tabsynth.training.networks import mlp
from tabsynth.training.private_step import minus_scores

torch.set_num_threads(1)


GROUPINGS = {"flat": 1, "weight-bias": 4}  # and how many groups three layers make


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        *(("max_norm", v) for v in (0.0, -1.0, math.inf, math.nan)),
        ("bound", "adaptive"),
        ("grouping", "layers"),
    ],
)
def test_arguments_are_checked(argument: str, value: object) -> None:
    with pytest.raises(InputError, match=argument):
        Clipping(**{argument: value})  # type: ignore[arg-type]


@pytest.mark.parametrize("grouping", GROUPINGS)
def test_groups_share_one_noise(grouping: str) -> None:
    """R10: group j's noise is √G σ C_j, so that the concatenation of Σ_j / C_j, of sensitivity √G, gets
    N(0, G σ²): one composition. Without √G, G groups charged as one would have multiplier σ/√G."""
    public = normal_rows(5, "scores", 0).float()
    bounds = bounds_of(Clipping(grouping=grouping, max_norm=0.3, bound="public"))
    clipper = bounds.clipper
    assert clipper.group_count == len(bounds.now) == GROUPINGS[grouping]
    bounds.follow(clipper.norms(minus_scores, public))
    count = GROUPINGS[grouping]
    in_noise_units = math.sqrt(count) * 2.0 * (bounds.now / bounds.noise_scales())
    torch.testing.assert_close(in_noise_units, torch.ones(count), rtol=1e-6, atol=0)


@pytest.mark.slow
@pytest.mark.parametrize("rows", ["ordinary", "far"])
@pytest.mark.parametrize("grouping", ["weight-bias", "flat"])
def test_joint_sensitivity_in_noise_units(grouping: str, rows: str) -> None:
    """R10: one more row moves the noised sum, in standard deviations of its noise, by at most 1/σ, over
    all groups together; and by as much where it is long in each of them."""
    sigma, worst = 1.7, 0.0
    for seed in range(25):
        module, table = drawn(plain("tanh"), seed), normal_rows(9, "squares", seed)
        public = normal_rows(5, "squares", seed + 100)
        if rows == "far":
            table[8] *= 1e3
        results = []
        for k in (8, 9):
            step, _, _ = engine(
                module,
                table[:k],
                NoPrivacy(),
                expected_batch=1.0,
                max_norm=0.05 if rows == "far" else 0.5,
                grouping=grouping,
                bound="public",
            )
            step.private, step.bounds.noise_multiplier = True, sigma
            step.noisy_mean = lambda sums: sums  # type: ignore[method-assign]
            step.gradient(squared, public)
            results.append(torch.from_numpy(grads(module)))
        entries = group_of_entries(module, step.clipper.groups)
        apart = (results[0] - results[1]) / step.bounds.noise_scales()[entries]
        assert float(apart.norm()) <= (1 + 1e-9) / sigma
        worst = max(worst, float(apart.norm()) * sigma)
    assert worst > (0.9 if rows == "far" else 0.5)


@pytest.mark.slow
@pytest.mark.parametrize("sigma", [0.8, 3.0])
@pytest.mark.parametrize("grouping", ["weight-bias", "flat"])
def test_noise_law_with_groups(grouping: str, sigma: float) -> None:
    """R4, R10: 10⁵ draws of standard deviation √G σ C_j / B in group j, whatever the group."""
    module = mlp([31, 32, 31], torch.Generator().manual_seed(0))
    public = torch.rand(6, 31, generator=torch.Generator().manual_seed(1))
    mechanism = SubsampledGaussian(noise_multiplier=sigma, sampling_rate=1e-12)
    step, _, _ = engine(
        module,
        public[:0],
        mechanism,
        rate=1e-12,
        max_norm=0.7,
        expected_batch=6.0,
        bound="public",
        grouping=grouping,
    )
    drawn_noise = []
    for _ in range(52):
        step.gradient(minus_all, public)
        scales = step.bounds.now[group_of_entries(module, step.clipper.groups)].numpy()
        drawn_noise.append(grads(module) * 6.0 / scales)
    count = step.clipper.group_count
    assert count == {"flat": 1, "weight-bias": 3}[grouping]
    noise = np.array(drawn_noise) / (sigma * math.sqrt(count))
    assert noise.size > 1e5 and abs(noise.var() - 1) < 0.015
    for j in range(count):
        own = noise[:, group_of_entries(module, step.clipper.groups).numpy() == j]
        assert abs(own.var() - 1) < 6 * math.sqrt(2 / own.size)
    assert stats.kstest(noise.ravel(), "norm").pvalue > 1e-4
    assert abs(np.corrcoef(noise[1:].ravel(), noise[:-1].ravel())[0, 1]) < 0.015
    first, second = noise[:, :990], noise[:, 1024:2014]
    assert abs(np.corrcoef(first.ravel(), second.ravel())[0, 1]) < 0.015


def minus_all(module: nn.Module, rows: Tensor) -> Tensor:
    return -module(rows).sum(1)


@pytest.mark.parametrize("centred", [False, True])
@pytest.mark.parametrize("grouping", GROUPINGS)
def test_public_bounds_follow_public_rows(grouping: str, centred: bool) -> None:
    """C_j: so many times the median norm of public rows in the group, around their mean where
    that is subtracted; private rows have no say."""
    module, rows = drawn(plain("tanh"), 1), normal_rows(7, "squares", 1, 3.0)
    for seed in (2, 3):
        public = normal_rows(5, "squares", seed)
        step, _, _ = engine(
            module,
            rows,
            Gaussian(noise_multiplier=1e-13),
            max_norm=0.4,
            bound="public",
            grouping=grouping,
            centred=centred,
        )
        step.gradient(squared, public)
        entries = group_of_entries(module, step.clipper.groups)
        own = row_gradients(module, squared, public)
        own = own - own.mean(0) if centred else own
        for j in range(step.clipper.group_count):
            norms = own[:, entries == j].norm(dim=1)
            typical = norms.median()
            assert float(step.bounds.now[j]) == pytest.approx(0.4 * float(typical), rel=1e-9)
        wanted = clipped_rows(step, squared, rows, public).sum(0) / 10.0
        np.testing.assert_allclose(grads(module), wanted.numpy(), rtol=1e-8, atol=1e-10)


def test_public_bounds_need_public_rows() -> None:
    step, _, _ = engine(
        plain("tanh"), torch.ones(3, 5), Gaussian(noise_multiplier=1.0), bound="public"
    )
    with pytest.raises(ValueError, match="public rows"):
        step.gradient(minus_scores)
