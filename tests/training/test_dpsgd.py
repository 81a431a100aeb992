"""R2, R4, R5, R20: what one private step adds, divides by and pays."""

import math

import numpy as np
import pytest
import torch
from scipy import stats
from torch import Tensor, nn

from tabsynth.errors import BudgetError
from tabsynth.networks import mlp
from tabsynth.privacy.guard import PrivateTable
from tabsynth.privacy.ledger import Account, Ledger
from tabsynth.privacy.mechanisms import Gaussian, Mechanism, NoPrivacy, SubsampledGaussian
from tabsynth.training.dpsgd import DPSGD

torch.set_num_threads(1)


def scores(module: nn.Module, rows: Tensor) -> Tensor:
    return -module(rows).sum(1)


def silent(module: nn.Module, rows: Tensor) -> Tensor:
    return 0 * module(rows).sum(1)


def engine(
    module: nn.Module,
    rows: Tensor,
    mechanism: Mechanism,
    *,
    steps: int = 10**6,
    max_norm: float = 1.0,
    rate: float = 1.0,
    expected_batch: float = 10.0,
    seed: int = 0,
) -> tuple[DPSGD, Account, PrivateTable[Tensor]]:
    ledger = Ledger(math.inf, 1e-5)
    account = ledger.open("critic", mechanism, steps)
    table = PrivateTable(rows, ledger)
    step = DPSGD(
        module,
        max_norm=max_norm,
        table=table,
        account=account,
        rate=rate,
        expected_batch=expected_batch,
        generator=torch.Generator().manual_seed(seed),
    )
    return step, account, table


def grads(module: nn.Module) -> np.ndarray:
    return torch.cat([p.grad.flatten() for p in module.parameters()]).numpy().copy()


def row_gradients(module: nn.Module, rows: Tensor) -> Tensor:
    out = []
    for row in rows:
        found = torch.autograd.grad(scores(module, row[None]).sum(), list(module.parameters()))
        out.append(torch.cat([g.flatten() for g in found]))
    return torch.stack(out)


def clipped(grads: Tensor, bound: float) -> Tensor:
    return grads * (bound / grads.norm(dim=1)).clamp_max(1.0)[:, None]


@pytest.mark.parametrize(
    ("sigma", "bound", "divisor", "rate", "public"),
    [
        (0.7, 3.0, 10.0, 1.0, False),
        (2.5, 0.1, 7.0, 1e-12, False),  # every batch empty
        (5.0, 2.0, 100.0, 1e-12, True),
        (1.3, 0.5, 3.0, 0.5, True),
    ],
)
def test_noise_law(sigma: float, bound: float, divisor: float, rate: float, public: bool) -> None:
    """R4: 10⁵ draws: N(0, (σC/B)²), independent over steps and tensors, on empty batches as well."""
    mechanism = Gaussian(noise_multiplier=sigma)
    if rate < 1:
        mechanism = SubsampledGaussian(noise_multiplier=sigma, sampling_rate=rate)
    module = mlp([15, 16, 15], torch.Generator().manual_seed(0))
    if public:  # the bound follows the median norm of generated rows around their mean
        rows = torch.rand(9, 15, generator=torch.Generator().manual_seed(3))
        centred = row_gradients(module, rows)
        centred = centred - centred.mean(0)
        median = float(centred.norm(dim=1).median())
        step, _, _ = engine(
            module, rows[:0], mechanism, max_norm=bound, rate=rate, expected_batch=divisor
        )
        scale = sigma * bound * median / divisor
    else:
        rows = torch.rand(3, 15)
        step, _, _ = engine(
            module, rows, mechanism, max_norm=bound, rate=rate, expected_batch=divisor
        )
        scale = sigma * bound / divisor
    drawn = []
    for _ in range(210):
        step.gradient(scores if public else silent, rows if public else None)
        drawn.append(grads(module) / scale)
    noise = np.array(drawn)
    assert noise.size > 1e5
    assert abs(noise.var() - 1) < 0.015
    assert stats.kstest(noise.ravel(), "norm").pvalue > 1e-4
    assert abs(np.corrcoef(noise[1:].ravel(), noise[:-1].ravel())[0, 1]) < 0.015
    first, second = noise[:, :240], noise[:, 256:496]  # the two weights, entry by entry
    assert abs(np.corrcoef(first.ravel(), second.ravel())[0, 1]) < 0.015


def test_noise_is_added_to_a_full_batch_too() -> None:
    """R4: what is left after the clipped sum is taken off has the same law."""
    module = mlp([15, 16, 15], torch.Generator().manual_seed(0))
    rows = torch.rand(30, 15, generator=torch.Generator().manual_seed(1))
    total = clipped(row_gradients(module, rows), 0.5).sum(0).numpy()
    step, _, _ = engine(module, rows, Gaussian(noise_multiplier=2.0), max_norm=0.5)
    left = []
    for _ in range(210):
        step.gradient(scores)
        left.append(grads(module) * 10.0 - total)
    assert abs(np.var(left) - 1) < 0.015
    assert stats.kstest(np.ravel(left), "norm").pvalue > 1e-4


@pytest.mark.parametrize("extra", [0, 1, 20])
def test_public_rows_and_divisor_do_not_follow_the_batch(extra: int) -> None:
    """R2, R5, R14: Σ clip(g − r) over the expected batch, whatever the number of private rows."""
    module = mlp([4, 6, 1], torch.Generator().manual_seed(0)).double()
    rng = torch.Generator().manual_seed(1)
    public = torch.rand(11, 4, generator=rng, dtype=torch.float64)
    rows = 3 * torch.rand(8 + extra, 4, generator=rng, dtype=torch.float64)
    mean = row_gradients(module, public).mean(0)
    bound = 0.7 * float((row_gradients(module, public) - mean).norm(dim=1).median())
    wanted = clipped(row_gradients(module, rows) - mean, bound).sum(0) / 5.0
    step, _, _ = engine(
        module, rows, Gaussian(noise_multiplier=1e-12), max_norm=0.7, expected_batch=5.0
    )
    step.gradient(scores, public)
    np.testing.assert_allclose(grads(module), wanted.numpy(), rtol=1e-5, atol=1e-8)
    free, _, _ = engine(module, rows, NoPrivacy(), max_norm=0.7, expected_batch=5.0)
    free.gradient(scores, public)
    wanted = (row_gradients(module, rows) - mean).sum(0) / 5.0
    np.testing.assert_allclose(grads(module), wanted.numpy(), rtol=1e-8, atol=1e-10)


def test_empty_batches_are_steps() -> None:
    """R5: an empty batch is paid, read and noised like any other."""
    module = mlp([4, 1], torch.Generator().manual_seed(0))
    mechanism = SubsampledGaussian(noise_multiplier=1.0, sampling_rate=0.01)
    step, account, table = engine(module, torch.ones(3, 4), mechanism, steps=50, rate=0.01)
    plain = 0
    for i in range(50):
        step.gradient(scores)
        assert account.spent == table.reads == i + 1
        found = grads(module)
        assert np.abs(found).min() > 0
        plain += int(np.abs(found).max() < 0.5)
    assert plain > 40
    with pytest.raises(BudgetError, match="all 50 uses"):
        step.gradient(scores)
    assert table.reads == 50


def test_a_batch_is_paid_at_its_own_rate() -> None:
    """R5: the rate that is drawn is the rate that is accounted, to the last bit."""
    module, rows = nn.Linear(2, 1), torch.ones(3, 2)
    mechanism = SubsampledGaussian(noise_multiplier=1.0, sampling_rate=0.1)
    for rate in (math.nextafter(0.1, 1), 0.2, 1.0):
        with pytest.raises(BudgetError, match="rate"):
            engine(module, rows, mechanism, rate=rate)
    with pytest.raises(BudgetError, match="rate"):
        engine(module, rows, Gaussian(noise_multiplier=1.0), rate=0.1)


def test_a_bad_row_does_not_spoil_a_step() -> None:
    """R3: one NaN row and one of 1e38: the step is what it is without them."""
    module = mlp([4, 6, 1], torch.Generator().manual_seed(0))
    rows = torch.rand(6, 4, generator=torch.Generator().manual_seed(2))
    bad = torch.cat([rows, torch.full((1, 4), float("nan")), torch.full((1, 4), 1e38)])
    found = []
    for table in (rows, bad):
        step, _, _ = engine(module, table, Gaussian(noise_multiplier=1.0), seed=5)
        step.gradient(scores)
        found.append(grads(module))
    np.testing.assert_allclose(found[0], found[1], rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("public", [False, True])
def test_white_box_canary(public: bool) -> None:
    """R20 in small: a norm-C canary at every step is as visible as μ = √T/σ says, and no more."""
    runs, steps, sigma = (400 if public else 1000), 10, 2.0
    module = nn.Linear(6, 1, bias=False)
    rows = torch.zeros(4, 6)  # zero gradients
    fake = torch.rand(5, 6, generator=torch.Generator().manual_seed(0)) if public else None
    canary = torch.zeros(1, 6)
    canary[0, 2] = 100.0
    reference = -fake.mean(0) if public else torch.zeros(6)
    unit = -canary[0] - reference
    unit = unit / unit.norm()

    def statistics(table: Tensor, seed: int) -> np.ndarray:
        step, _, _ = engine(
            module, table, Gaussian(noise_multiplier=sigma), max_norm=0.5, seed=seed
        )
        out = np.zeros(runs)
        for run in range(runs):
            for _ in range(steps):
                step.gradient(scores, fake)
                out[run] += float(module.weight.grad[0] @ unit)
        return out

    without, with_canary = statistics(rows, 1), statistics(torch.cat([rows, canary]), 2)
    mu = math.sqrt(steps) / sigma
    spread = np.sqrt((without.var(ddof=1) + with_canary.var(ddof=1)) / 2)
    found = (with_canary.mean() - without.mean()) / spread
    assert 0.85 * mu < found < 1.1 * mu
    # The threshold from one half, Clopper–Pearson on the other: never above μ.
    half = runs // 2
    threshold = (without[:half].mean() + with_canary[:half].mean()) / 2
    false = [(without[half:] > threshold).sum(), (with_canary[half:] <= threshold).sum()]
    upper = [stats.beta.ppf(0.9995, k + 1, half - k) for k in false]
    assert stats.norm.ppf(1 - upper[0]) - stats.norm.ppf(upper[1]) < mu
