"""R2–R5, R10, R20: what one private step adds, divides by and pays, for every rule."""

import math

import numpy as np
import pytest
import torch
from private_steps import RULES, clipped_rows, engine, grads
from row_gradients import (
    LOSSES,
    drawn,
    flat,
    normal_rows,
    plain,
    row_gradients,
    scores,
    squared,
    trained,
)
from scipy import stats
from torch import Tensor, nn

from tabsynth.errors import BudgetError
from tabsynth.privacy.accounting.mechanisms import (
    Gaussian,
    Mechanism,
    NoisyVote,
    NoPrivacy,
    SubsampledGaussian,
)
from tabsynth.privacy.noise.samplers import Keystream, grid
from tabsynth.training import private_step
from tabsynth.training.networks import mlp
from tabsynth.training.private_step import minus_scores

torch.set_num_threads(1)


def silent(module: nn.Module, rows: Tensor) -> Tensor:
    return 0 * module(rows).sum(1)


@pytest.mark.slow
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize(
    ("sigma", "bound", "divisor", "rate", "public"),
    [
        (0.7, 3.0, 10.0, 1.0, False),
        (2.5, 0.1, 7.0, 1e-12, False),  # every batch empty
        (5.0, 2.0, 100.0, 1e-12, True),
        (1.3, 0.5, 3.0, 0.5, True),
    ],
)
def test_noise_law(
    sigma: float, bound: float, divisor: float, rate: float, public: bool, rule: str
) -> None:
    """R4: 10⁵ draws: N(0, (σC/B)²), independent over steps and tensors, on empty batches as well."""
    mechanism: Mechanism = Gaussian(noise_multiplier=sigma)
    if rate < 1:
        mechanism = SubsampledGaussian(noise_multiplier=sigma, sampling_rate=rate)
    module = mlp([31, 32, 31], torch.Generator().manual_seed(0))
    rows = torch.rand(9, 31, generator=torch.Generator().manual_seed(3))
    step, _, _ = engine(
        module,
        rows[:0] if public else rows[:3],
        mechanism,
        max_norm=bound,
        rate=rate,
        expected_batch=divisor,
        rule=RULES[rule],
        bound="public" if public else "fixed",
    )
    results = []
    for _ in range(52):
        step.gradient(scores if public else silent, rows if public else None)
        results.append(grads(module) * divisor / (sigma * float(step.bounds.now[0])))
    noise = np.array(results)
    assert noise.size > 1e5
    assert abs(noise.var() - 1) < 0.015
    # What is released lies on a grid; the law is that of the values that were rounded to it.
    size = sigma * float(step.bounds.now[0])
    apart = np.random.default_rng(0).uniform(-0.5, 0.5, noise.size) * grid(size) / size
    assert stats.kstest(noise.ravel() + apart, "norm").pvalue > 1e-4
    assert abs(np.corrcoef(noise[1:].ravel(), noise[:-1].ravel())[0, 1]) < 0.015
    first, second = noise[:, :990], noise[:, 1024:2014]  # the two weights, entry by entry
    assert abs(np.corrcoef(first.ravel(), second.ravel())[0, 1]) < 0.015


@pytest.mark.parametrize("rule", ["dp-sgd", "bam"])
@pytest.mark.parametrize("extra", [0, 1, 20])
def test_public_rows_and_divisor_do_not_follow_the_batch(extra: int, rule: str) -> None:
    """R2, R5, R14: Σ clip(g − r) over the expected batch, whatever the number of private rows."""
    module = drawn(plain("tanh"), 0)
    public, rows = normal_rows(11, "scores", 1), normal_rows(8 + extra, "scores", 2, 3.0)
    quiet = {"expected_batch": 5.0, "max_norm": 0.7, "bound": "public", "rule": RULES[rule]}
    step, _, _ = engine(module, rows, Gaussian(noise_multiplier=1e-13), **quiet)
    correction = [torch.full_like(p, 0.25) for p in trained(module)]
    step.gradient(scores, public, correction=correction)
    wanted = clipped_rows(step, scores, rows, public).sum(0) / 5.0 + 0.25
    np.testing.assert_allclose(grads(module), wanted.numpy(), rtol=1e-8, atol=1e-10)
    mean = row_gradients(module, scores, public, step.clipper.ascent).mean(0)
    step.gradient(scores, public, correction=correction, restored=True)
    np.testing.assert_allclose(grads(module), (wanted + mean).numpy(), rtol=1e-8, atol=1e-10)
    # Another loss of the public rows: their mean gradient is that of theirs.
    step.gradient(squared, public, public_losses=lambda m, x: scores(m, x))
    ascent = step.clipper.ascent
    mean = row_gradients(module, scores, public, ascent).mean(0)
    apart = row_gradients(module, squared, rows, ascent) - mean
    short = (step.bounds.now / apart.norm(dim=1)).clamp_max(1)[:, None] * apart
    np.testing.assert_allclose(grads(module), short.sum(0).numpy() / 5.0, rtol=1e-8, atol=1e-10)
    free, _, _ = engine(module, rows, NoPrivacy(), **quiet)
    free.gradient(scores, public)
    mean = row_gradients(module, scores, public, ascent).mean(0)
    wanted = (row_gradients(module, scores, rows, ascent) - mean).sum(0) / 5.0
    np.testing.assert_allclose(grads(module), wanted.numpy(), rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("rule", RULES)
def test_empty_batches_are_steps(rule: str) -> None:
    """R5: an empty batch is paid, read and noised like any other."""
    module = mlp([4, 1], torch.Generator().manual_seed(0))
    mechanism = SubsampledGaussian(noise_multiplier=1.0, sampling_rate=0.01)
    step, account, table = engine(
        module, torch.ones(3, 4), mechanism, steps=50, rate=0.01, rule=RULES[rule]
    )
    plain_noise = 0
    for i in range(50):
        step.gradient(scores)
        assert account.spent == table.reads == i + 1
        result = grads(module)
        assert np.abs(result).max() > 0
        plain_noise += int(np.abs(result).max() < 0.5)
    assert plain_noise > 40
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
    with pytest.raises(BudgetError, match="pays for votes"):
        engine(module, rows, NoisyVote(noise=1.0, teachers=5, accounting="gaussian"), rate=1.0)


@pytest.mark.parametrize("grouping", ["flat", "weight-bias"])
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("loss", ["scores", "wgan-gp"])
def test_a_bad_row_does_not_spoil_a_step(rule: str, loss: str, grouping: str) -> None:
    """R3: a NaN row, an infinite one and one of 1e38: two steps are what they are without them."""
    module = plain("relu")
    rows = normal_rows(6, loss, 2).float()
    bad = torch.cat([rows, *(torch.full_like(rows[:1], x) for x in (math.nan, -math.inf, 1e38))])
    results = []
    for table in (rows, bad):
        step, _, _ = engine(
            module,
            table,
            Gaussian(noise_multiplier=1.0),
            seed=5,
            rule=RULES[rule],
            grouping=grouping,
        )
        step.gradient(LOSSES[loss])
        step.gradient(LOSSES[loss])
        results.append(grads(module))
    assert np.isfinite(results[1]).all()
    np.testing.assert_allclose(results[0], results[1], rtol=1e-4, atol=2e-6)


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [
        {"bound": "public", "grouping": "weight-bias"},
        {},
    ],
    ids=["weights", "fixed"],
)
@pytest.mark.parametrize("rule", RULES)
def test_a_step_goes_on_where_it_stopped(rule: str, options: dict[str, object]) -> None:
    """The state, and the random stream, are all that a later step needs; and the state is a copy."""
    public, rows = normal_rows(5, "scores", 1), normal_rows(20, "scores", 2)
    mechanism = SubsampledGaussian(noise_multiplier=1.0, sampling_rate=0.6)

    def steps(step: private_step.PrivateStep, module: nn.Module, count: int) -> list[np.ndarray]:
        out = []
        for _ in range(count):
            step.gradient(minus_scores, public)
            out.append(grads(module))
            with torch.no_grad():
                for p in module.parameters():
                    p.sub_(0.1 * p.grad)
        return out

    module = drawn(plain("tanh"), 0)
    step, _, _ = engine(module, rows, mechanism, rate=0.6, rule=RULES[rule], **options)
    empty = step.state_dict()
    steps(step, module, 3)
    state, step.noise.bits = step.state_dict(), Keystream(bytes(32))
    weights = {k: v.clone() for k, v in module.state_dict().items()}
    straight = steps(step, module, 4)
    for _ in range(2):  # twice from the same state: neither saving nor going on has changed it
        other = plain("tanh").double()
        other.load_state_dict(weights)
        resumed, _, _ = engine(other, rows, mechanism, rate=0.6, rule=RULES[rule], **options)
        resumed.load_state_dict(state)
        resumed.noise.bits = Keystream(bytes(32))
        for one, two in zip(straight, steps(resumed, other, 4), strict=True):
            np.testing.assert_array_equal(one, two)
    # From before the first step: groups are still to be formed.
    fresh, _, _ = engine(
        drawn(plain("tanh"), 0), rows, mechanism, rate=0.6, rule=RULES[rule], **options
    )
    fresh.load_state_dict(empty)
    fresh.gradient(minus_scores, public)
    assert fresh.clipper.groups == step.clipper.groups


def test_the_gradient_is_of_trained_parameters() -> None:
    """A frozen layer has no gradient, and takes no noise."""
    module = plain("tanh")
    module[0].requires_grad_(False)
    step, _, _ = engine(module, torch.ones(3, 5), Gaussian(noise_multiplier=1.0))
    step.gradient(minus_scores)
    assert module[0].weight.grad is None and len(step.clipper.parameters) == 4
    assert grads(module).shape == (flat(trained(module)).numel(),)
