"""The step of Huat's document, which clips the mean gradient of a batch, is not private.

``docs/explanation/papers/dp-gan.md`` has the proof.
"""

import math

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from tabsynth.privacy.accounting.accountants import gaussian_delta, gaussian_epsilon
from tabsynth.training.clipping import PerExampleClipper

BATCH, BOUND = 64, 1.0


def clipped_and_noised(gradient: Tensor, sigma: float, rng: torch.Generator) -> Tensor:
    """Return the document's step on one variable: its mean gradient, clipped at C, plus N(0, (σC)²)."""
    clipped = gradient / max(1.0, float(gradient.norm()) / BOUND)
    return clipped + sigma * BOUND * torch.randn(gradient.shape, generator=rng)


def neighbouring_batches() -> tuple[Tensor, Tensor]:
    """Return two batches that differ in one row; for D(x) = w·x the gradient of a row's loss −D(x) is −x."""
    rows = torch.zeros(BATCH, 3)
    rows[:, 0] = -BOUND
    neighbour = rows.clone()
    neighbour[-1, 0] = 2 * BATCH * BOUND
    return rows, neighbour


def mean_gradient(rows: Tensor) -> Tensor:
    layer = nn.Linear(3, 1, bias=False)
    (gradient,) = torch.autograd.grad(-layer(rows).mean(), layer.weight)
    return gradient


def test_one_row_reverses_a_clipped_batch_mean() -> None:
    """It moves by 2C, where the mean of clipped rows moves by 2C / batch."""
    rng = torch.Generator()
    one, neighbour = (
        clipped_and_noised(mean_gradient(rows), 0.0, rng) for rows in neighbouring_batches()
    )
    assert float((one - neighbour).norm()) == pytest.approx(2 * BOUND)
    clipper = PerExampleClipper(nn.Linear(3, 1, bias=False))
    sums = [
        clipper.clipped_sum(lambda m, x: -m(x)[:, 0], rows, BOUND)[0]
        for rows in neighbouring_batches()
    ]
    moved = float((sums[0] - sums[1]).norm())
    assert moved <= 2 * BOUND  # of the sum, and so 2C / batch of the mean
    assert moved == pytest.approx(2 * BOUND, rel=0.01)


@pytest.mark.slow
def test_the_epsilon_of_its_sigma_does_not_hold() -> None:
    """20,000 steps on each of two batches that differ in one row, with σ = 1.

    Under (ε, δ) no event is more likely than e^ε times its likelihood on the neighbouring batch, plus δ. The ε of a
    multiplier of 1 is 4.4 at δ = 1e-5. A change of 2C under noise of σC is a multiplier of σ / 2.
    """
    claimed, rng = gaussian_epsilon(1.0, 1e-5), torch.Generator().manual_seed(0)
    means = sorted(map(mean_gradient, neighbouring_batches()), key=lambda mean: float(mean[0, 0]))
    low, high = (
        np.array([float(clipped_and_noised(mean, 1.0, rng)[0, 0]) for _ in range(20_000)])
        for mean in means
    )
    assert low.mean() == pytest.approx(-BOUND, abs=0.05)
    assert high.mean() == pytest.approx(BOUND, abs=0.05)
    least = claimed / 2  # beyond it exp(2x), the ratio of N(1, 1) to N(−1, 1), exceeds e^ε
    excess = (high > least).mean() - math.exp(claimed) * (low > least).mean()
    assert excess == pytest.approx(gaussian_delta(2.0, claimed), abs=0.05)
    assert excess > 1000 * 1e-5
