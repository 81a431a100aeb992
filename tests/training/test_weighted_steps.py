"""Private steps over weighted rows: Σ aᵢ clip(gᵢ), in which a row moves the sum by its part of the bound."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from row_gradients import row_gradients

from tabsynth.privacy.accounting.mechanisms import Gaussian
from tabsynth.privacy.ledger.ledger import Ledger, PrivateTable
from tabsynth.privacy.noise.samplers import Keystream
from tabsynth.training.clipping import Clipping, PerExampleClipper
from tabsynth.training.networks import mlp
from tabsynth.training.private_step import (
    PARTS_STEP,
    Batches,
    PrivateStep,
    WeightedInputs,
    minus_scores,
)

torch.set_num_threads(1)
BOUND = 0.05


def net(seed: int = 0) -> torch.nn.Module:
    return mlp([6, 5, 1], torch.Generator().manual_seed(seed)).double()


@settings(max_examples=25, deadline=None)
@given(st.lists(st.floats(0, 1), min_size=1, max_size=12), st.floats(1e-3, 1e3), st.integers(0, 99))
def test_sums_weigh_clipped_rows(parts: list[float], scale: float, seed: int) -> None:
    """R2: against brute force; without one row the sum moves by at most its part of the bound."""
    rng, module = torch.Generator().manual_seed(seed), net(seed)
    rows = scale * torch.randn(len(parts), 6, generator=rng, dtype=torch.float64)
    a = torch.tensor(parts, dtype=torch.float64)
    grads = row_gradients(module, minus_scores, rows)
    clipped = grads * (BOUND / grads.norm(dim=1, keepdim=True)).clamp_max(1)

    def summed(keep: torch.Tensor) -> torch.Tensor:
        clipper = PerExampleClipper(module)
        sums = clipper.clipped_sum(minus_scores, rows, BOUND, None, keep, a)
        return torch.cat([s.flatten() for s in sums])

    everything = torch.ones(len(parts), dtype=torch.bool)
    total = summed(everything)
    assert torch.allclose(total, (a[:, None] * clipped).sum(0), rtol=1e-6, atol=1e-9 * BOUND)
    without = summed(everything & (torch.arange(len(parts)) > 0))
    assert float((total - without).norm()) <= parts[0] * BOUND * (1 + 1e-9)


def test_parts_are_weights_over_the_cap_in_exact_steps() -> None:
    inputs = WeightedInputs.of(torch.zeros(4, 1), np.array([0.0, 1.0, 299.9, 300.0]), 300.0)
    assert inputs.parts.tolist() == pytest.approx([0, 1 / 300, 299.9 / 300, 1], abs=PARTS_STEP)
    assert ((inputs.parts / PARTS_STEP) % 1 == 0).all() and inputs.parts.max() == 1


def test_a_step_is_a_weighted_mean_over_the_expected_parts() -> None:
    """With all rows in the batch, a bound that cuts nothing and no noise to speak of."""
    rng = torch.Generator().manual_seed(0)
    rows = torch.randn(30, 6, generator=rng, dtype=torch.float64)
    weights = np.linspace(1, 100, 30)
    module = net()
    ledger = Ledger(math.inf, 1e-5)
    account = ledger.open("critic", Gaussian(noise_multiplier=1e-12), 1)
    inputs = WeightedInputs.of(rows, weights, 100.0)
    step = PrivateStep(
        module,
        table=PrivateTable(inputs, ledger),
        account=account,
        batches=Batches(
            rate=1.0,
            expected_batch=float(inputs.parts.sum()),
            expected_rows=30.0,
        ),
        generator=rng,
        clipping=Clipping(max_norm=1e3),
        bits=Keystream(bytes(32)),
    )
    step.gradient(minus_scores)
    found = torch.cat([p.grad.flatten() for p in module.parameters()])
    expected = (torch.from_numpy(weights)[:, None] * row_gradients(module, minus_scores, rows)).sum(
        0
    )
    assert torch.allclose(found, expected / weights.sum(), atol=1e-5)


def test_the_noise_on_weighted_sums_is_that_of_the_bound() -> None:
    """R4: σC on the sum, whatever the weights; here of rows that weigh nothing."""
    rng = torch.Generator().manual_seed(0)
    module, sigma, uses = net(), 1.3, 300
    ledger = Ledger(math.inf, 1e-5)
    account = ledger.open("critic", Gaussian(noise_multiplier=sigma), uses)
    inputs = WeightedInputs.of(torch.randn(20, 6, generator=rng, dtype=torch.float64), np.zeros(20), 5.0)  # fmt: skip
    step = PrivateStep(
        module,
        table=PrivateTable(inputs, ledger),
        account=account,
        batches=Batches(rate=1.0, expected_batch=4.0, expected_rows=20.0),
        generator=rng,
        clipping=Clipping(max_norm=BOUND),
        bits=Keystream(bytes(32)),
    )
    drawn = []
    for _ in range(uses):
        step.gradient(minus_scores)
        drawn.append(torch.cat([p.grad.flatten() for p in module.parameters()]))
    noise = torch.stack(drawn) * 4.0 / (sigma * BOUND)
    assert abs(float(noise.mean())) < 0.04 and float(noise.std()) == pytest.approx(1, abs=0.03)
