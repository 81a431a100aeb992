"""R20 in small: what an attacker who knows everything but the noise sees of one row."""

import math

import numpy as np
import pytest
import torch
from private_steps import RULES, engine
from row_gradients import scores, trained
from scipy import stats
from torch import Tensor, nn

from tabsynth.privacy.accounting.mechanisms import Gaussian

torch.set_num_threads(1)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rule", "grouping", "public"),
    [
        ("dp-sgd", "flat", True),
        ("dp-sat", "flat", False),
        ("bam", "weight-bias", False),
    ],
)
def test_white_box_canary(rule: str, grouping: str, public: bool) -> None:
    """R20 in small: a canary that is as long as it may be, in every group, at every step, is as visible
    as μ = √T/σ says, and no more."""
    runs, steps, sigma = 200, 2, 0.7
    module = nn.Sequential(nn.Linear(6, 1)) if grouping != "flat" else nn.Linear(6, 1, bias=False)
    rows = torch.zeros(4, 6)
    fake = torch.rand(5, 6, generator=torch.Generator().manual_seed(0)) if public else None
    canary = torch.zeros(1, 6)
    canary[0, 2] = 100.0

    def losses(m: nn.Module, x: Tensor) -> Tensor:
        return scores(m, x) * (x.abs().sum(1) > 0)  # rows of zeros have no gradient, bias included

    def gradient_of(row: Tensor) -> list[Tensor]:
        return list(torch.autograd.grad(losses(module, row).mean(), trained(module)))

    shared = (
        gradient_of(fake) if fake is not None else [torch.zeros_like(p) for p in trained(module)]
    )
    parts = [g - r for g, r in zip(gradient_of(canary), shared, strict=True)]

    def statistics(table: Tensor, seed: int) -> np.ndarray:
        step, _, _ = engine(
            module,
            table,
            Gaussian(noise_multiplier=sigma),
            max_norm=0.5,
            seed=seed,
            grouping=grouping,
            rule=RULES[rule],
        )
        out = np.zeros(runs)
        for run in range(runs):
            for _ in range(steps):
                step.gradient(losses, fake)
                for p, part in zip(trained(module), parts, strict=True):
                    out[run] += float((p.grad * part).sum() / part.norm())
        return out

    without, with_canary = statistics(rows, 1), statistics(torch.cat([rows, canary]), 2)
    mu = math.sqrt(steps) / sigma
    spread = np.sqrt((without.var(ddof=1) + with_canary.var(ddof=1)) / 2)
    result = (with_canary.mean() - without.mean()) / spread
    # Its standard error is 6% of μ: groups or steps that are counted once too often make it 1.41 times μ.
    assert 0.8 * mu < result < 1.25 * mu
    # The threshold from one half, Clopper–Pearson on the other: never above μ.
    half = runs // 2
    threshold = (without[:half].mean() + with_canary[:half].mean()) / 2
    false = [(without[half:] > threshold).sum(), (with_canary[half:] <= threshold).sum()]
    upper = [stats.beta.ppf(0.9995, k + 1, half - k) for k in false]
    assert stats.norm.ppf(1 - upper[0]) - stats.norm.ppf(upper[1]) < mu
