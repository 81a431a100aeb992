"""What the GANs share: centred steps add up to the ordinary gradient, moment penalties are unbiased."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
import torch
from contexts import context_of, streams_of
from fitted_tables import second_moments
from test_wgan import layout_of, rng, tiny
from torch import Tensor

from tabsynth.privacy.accounting.mechanisms import Gaussian, NoPrivacy
from tabsynth.privacy.ledger.ledger import Ledger
from tabsynth.synthesizers.adversarial import critic as adversarial
from tabsynth.synthesizers.adversarial import critic as row_losses
from tabsynth.synthesizers.adversarial.critic import (
    Adversarial,
    DPGANConfig,
    RowLosses,
)
from tabsynth.synthesizers.adversarial.generator import (
    Curves,
    MomentPenalty,
    TableGenerator,
    mean_code,
)
from tabsynth.synthesizers.method import with_settings
from tabsynth.training.networks import mlp
from tabsynth.training.private_step import Places, PrivateStep

torch.set_num_threads(1)
LAYOUT = layout_of(3, 4)


def rows_of(n: int, seed: int) -> Tensor:
    """Codes of random rows."""
    index = np.random.default_rng(seed).integers(0, 3, (n, 2))
    return torch.from_numpy(LAYOUT.encode(index))


def dpgan(**changes: Any) -> Adversarial:
    parameters: dict[str, Any] = {"generator__latent_dim": 6, "generator__hidden": (16,)}
    parameters |= {"critic__hidden": (16, 8), "step__sampling_rate": 1.0, "step__count": 20}
    config = with_settings(DPGANConfig(), **{**parameters, **changes})
    plain = with_settings(config.generator, norm=False)
    return Adversarial(config, TableGenerator(LAYOUT, plain, rng()), rng(1))


def ordinary(critic: torch.nn.Module, real: Tensor, fake: Tensor, points: Tensor) -> list[Tensor]:
    """The gradient of WGAN-GP's critic loss, written out: no engine, no helper."""
    points = points.clone().requires_grad_()
    (slope,) = torch.autograd.grad(critic(points).sum(), points, create_graph=True)
    penalty = 10.0 * (slope.norm(dim=1) - 1).square().mean()
    loss = critic(fake).mean() - critic(real).mean() + penalty
    return list(torch.autograd.grad(loss, list(critic.parameters())))


class Tap:
    """Notes the draws of partners and ρ."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        original, self.coins = row_losses.pair_draws, {}

        def draws(rows: int, stream: torch.Generator) -> Tensor:
            result = original(rows, stream)
            self.coins[id(stream)] = result
            return result

        patch.setattr(row_losses, "pair_draws", draws)


@pytest.fixture
def float64() -> Iterator[None]:
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize("stand_ins", ["generated", "public"])
@pytest.mark.parametrize("grouping", ["flat", "weight-bias"])
def test_a_centred_step_adds_up_to_the_ordinary_gradient(
    stand_ins: str, grouping: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without clipping and noise, in float64: Σ(gᵢ − r)/B + r + F is WGAN-GP's gradient by autograd."""
    tap = Tap(monkeypatch)
    monkeypatch.setattr(Places, "draw", lambda self, count, bits: torch.arange(count))
    model = dpgan(step__count=1, clipping__grouping=grouping)
    real = rows_of(40, 1).double()
    ledger = Ledger(math.inf, 1e-5)
    private, public = rng(2), rng(3)
    seen: dict[str, Any] = {}
    before = [p.detach().clone() for p in model.critic.parameters()]

    def note(critic: torch.nn.Module, fake: Tensor) -> None:
        coins = tap.coins[id(private)][: len(real)]  # the places after them are blank
        partners = fake[(coins[:, 0] * len(fake)).long()]
        points = coins[:, 1:] * real + (1 - coins[:, 1:]) * partners
        seen["wanted"] = ordinary(critic, real, fake, points)

    codes = model._codes
    fakes: list[Tensor] = []

    def keep(batch: int, stream: torch.Generator) -> Tensor:
        fakes.append(codes(batch, stream).double())
        return fakes[-1]

    monkeypatch.setattr(model, "_codes", keep)
    monkeypatch.setattr(model, "clip_weights", lambda: None)
    account = ledger.open("critic", NoPrivacy(), 1)
    table = None if stand_ins == "generated" else rows_of(300, 4).double()
    streams = streams_of(private, public)
    model.fit(context_of(real, account, ledger, 40.0, streams=streams, public_codes=table))
    results = [p.grad.clone() for p in model.critic.parameters()]
    with torch.no_grad():
        for p, b in zip(model.critic.parameters(), before, strict=True):
            p.copy_(b)
    note(model.critic, fakes[0])
    for one, other in zip(results, seen["wanted"], strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-11)


def test_a_paired_loss_is_algorithm_1() -> None:
    """Each row: D(x̃) − D(x) + λ(‖∇D(x̂)‖ − 1)², with its own partner and ρ, by hand."""
    critic = mlp([LAYOUT.width, 9, 1], rng(), activation="tanh").double()
    real, pool = rows_of(7, 1).double(), rows_of(5, 2).double() * 0.9
    losses = RowLosses(rng(6), penalty=3.0, paired=True).against(pool)
    result = losses(critic, real)
    second = losses(critic, real)  # BAM's second pass: the same partners
    torch.testing.assert_close(result, second, rtol=0, atol=0)
    coins = torch.rand(7, 2, generator=rng(6))
    for i in range(7):
        partner = pool[int(coins[i, 0] * 5)]
        point = (coins[i, 1] * real[i] + (1 - coins[i, 1]) * partner).requires_grad_()
        (slope,) = torch.autograd.grad(critic(point), point)
        wanted = critic(partner) - critic(real[i]) + 3.0 * (slope.norm() - 1) ** 2
        assert float(result[i].detach()) == pytest.approx(float(wanted.detach()), rel=1e-6)


def test_the_pair_anchor_s_gradient_is_that_of_autograd() -> None:
    """The distance written out, of an odd number of rows, of which the last is in no half."""
    target = second_moments(LAYOUT, rows_of(100, 3)).double()
    rows = torch.rand(9, 7, generator=rng(), dtype=torch.float64, requires_grad=True)
    result = MomentPenalty(LAYOUT, None, target, 1.0, 2.0).loss(rows)
    off = [second_moments(LAYOUT, half) - target for half in (rows[:4], rows[4:8])]
    wanted = 2.0 * (off[0] * off[1] / (target + 1e-3)).sum() / 2
    torch.testing.assert_close(result, wanted)
    torch.testing.assert_close(
        torch.autograd.grad(3 * result, rows)[0], torch.autograd.grad(3 * wanted, rows)[0]
    )


@pytest.mark.slow
def test_a_warm_up_learns_what_the_table_says() -> None:
    """Ordinary training with the pair anchor: columns that agree in the table agree in the rows."""
    index = np.repeat(np.arange(3), 200)[:, None].repeat(2, 1)
    codes = torch.from_numpy(LAYOUT.encode(index))
    p = [np.array([1, 1, 1]) / 3, np.array([1, 1, 1, 1e-3]) / 3.001]
    config = tiny(
        generator__hidden=(32,),
        generator__lr=5e-3,
        generator__averaging=0.9,
        weight_clip=0.1,
        critic__per_generator=1,
        warm_start_steps=250,
    )
    generator = TableGenerator(LAYOUT, config.generator, rng())
    moment_penalty = MomentPenalty(
        LAYOUT, mean_code(LAYOUT, p), second_moments(LAYOUT, codes), 1.0, 20.0
    )
    model = Adversarial(config, generator, rng(1), moment_penalty)
    ledger = Ledger(math.inf, 1e-5)
    context = context_of(codes, None, ledger, 200.0, seeds=(0, 2), public_codes=codes)
    assert model.warm_up(context) == 250
    synthetic = model.final_generator.sample(3000, rng(3))
    assert (synthetic[:, 0] == synthetic[:, 1]).mean() > 0.8
    assert set(model.curves) == {"critic's score of generated rows (warm start)"}


def test_public_draws_do_not_follow_the_private_batch() -> None:
    """R1: generated rows are the same whatever the number of private rows in the batches."""
    states: list[Tensor] = []
    for n in (5, 50):
        model = dpgan(step__count=6, step__sampling_rate=0.5, critic__lr=1e-12, generator__lr=1e-12)
        ledger = Ledger(math.inf, 1e-5)
        account = ledger.open("critic", NoPrivacy(), 6)
        stream = rng(3)
        free, streams = rows_of(30, 9), streams_of(rng(2), stream)
        context = context_of(
            rows_of(n, 1), account, ledger, 20.0, streams=streams, public_codes=free
        )
        model.fit(context)
        states.append(stream.get_state())
    assert torch.equal(*states)


def test_no_private_step_is_in_tf32(monkeypatch: pytest.MonkeyPatch) -> None:
    """R2: what is public may be rounded to 11 bits on a GPU; norms and sums of private rows may not."""
    inside, entered, steps = [0], [0], list[int]()
    real = PrivateStep.gradient

    @contextmanager
    def tf32(_: torch.device) -> Iterator[None]:
        inside[0], entered[0] = inside[0] + 1, entered[0] + 1
        yield
        inside[0] -= 1

    def gradient(step: PrivateStep, *args: Any, **kwargs: Any) -> None:
        steps.append(inside[0])
        real(step, *args, **kwargs)

    monkeypatch.setattr(adversarial, "tf32", tf32)
    monkeypatch.setattr(PrivateStep, "gradient", gradient)
    ledger = Ledger(math.inf, 1e-5)
    account = ledger.open("critic", Gaussian(noise_multiplier=1.0), 4)
    dpgan(step__count=4).fit(context_of(rows_of(9, 1), account, ledger, 9.0))
    assert steps == [0] * 4 and entered[0] >= 4


@pytest.mark.parametrize(
    ("make", "most", "generated"), [("dp-wgan", 4, 4), ("dp-wgan", 100, 9), ("dp-gan", 4, 9)]
)
def test_steps_take_no_more_generated_rows_than_are_of_use(
    monkeypatch: pytest.MonkeyPatch, make: str, most: int, generated: int
) -> None:
    """And no more than real ones are expected; the divisor of the private sum is that of real rows."""
    monkeypatch.setattr(adversarial, "GENERATED_ROWS", most)
    ledger, drawn = Ledger(math.inf, 1e-5), list[int]()
    account = ledger.open("critic", Gaussian(noise_multiplier=1.0), 4)
    config = tiny(step__count=4)
    plain = Adversarial(config, TableGenerator(LAYOUT, config.generator, rng()), rng(1))
    model = dpgan(step__count=4) if make == "dp-gan" else plain
    noise = model.generator.noise

    def count(rows: int, rng: torch.Generator) -> torch.Tensor:
        drawn.append(rows)
        return noise(rows, rng)

    divisors = list[float]()
    real = PrivateStep.gradient

    def gradient(step: PrivateStep, *args: Any, **kwargs: Any) -> None:
        divisors.append(float(step.expected_batch))
        real(step, *args, **kwargs)

    monkeypatch.setattr(model.generator, "noise", count)
    monkeypatch.setattr(PrivateStep, "gradient", gradient)
    model.fit(context_of(rows_of(9, 1), account, ledger, 9.0))
    steps = 4 + 4 // model.config.critic.per_generator
    assert drawn.count(generated) >= 4 and set(drawn) == {generated, 9} and len(drawn) == steps
    assert divisors == [9.0] * 4


def test_curves_leave_out_what_diverged() -> None:
    curves = Curves()
    for step, value in enumerate([1.0, math.nan, torch.tensor(2.0), torch.tensor(math.inf)]):
        curves.note("score", step, value)
    assert curves.to_dict() == {"score": {"step": [0, 2], "value": [1.0, 2.0]}}
    second = Curves()
    second.load_state_dict(curves.state_dict())
    second.note("score", 7, 3.0)
    assert second.to_dict()["score"]["step"] == [0, 2, 7]


def test_state_of_a_stage(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stage that is set back to a saved state does what the first one did from there."""
    holdout: dict[str, Any] = {}

    def whole(name: str, steps: int, step: Any, *_: Any, state: Any, **__: Any) -> int:
        for i in range(steps):
            if i == 2:
                holdout["saved"] = _copied(state.state_dict())
            step(i)
        holdout["end"] = _copied(state.state_dict())
        return steps

    def rest(name: str, steps: int, step: Any, *_: Any, state: Any, **__: Any) -> int:
        state.load_state_dict(holdout["saved"])
        for i in range(2, steps):
            step(i)
        holdout["again"] = _copied(state.state_dict())
        return steps

    for run, first in ((whole, 0), (rest, 2)):
        model = dpgan(critic__per_generator=2, warm_start_steps=4)
        monkeypatch.setattr(adversarial, "run_steps", run)
        monkeypatch.setattr(model, "_codes", _codes_of_steps(first))
        codes, ledger = rows_of(20, 1), Ledger(math.inf, 1e-5)
        model.warm_up(context_of(codes, None, ledger, 20.0, seeds=(0, 5), public_codes=codes))
    _same(holdout["end"], holdout["again"])
    assert set(holdout["end"]) >= {"critic", "generator", "average", "curves"}


def _codes_of_steps(first: int) -> Any:
    """Generated rows that follow from the number of the step alone: streams are not saved."""
    calls = [first]

    def codes(batch: int, stream: torch.Generator) -> Tensor:
        calls[0] += 1
        stream.manual_seed(calls[0])
        return torch.softmax(torch.randn(batch, LAYOUT.width, generator=stream), 1)

    return codes


def _copied(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _copied(v) for k, v in value.items()}
    if isinstance(value, list):
        return [_copied(v) for v in value]
    return value.clone() if isinstance(value, Tensor) else value


def _same(one: Any, other: Any) -> None:
    if isinstance(one, dict):
        assert one.keys() == other.keys()
        for key in one:
            _same(one[key], other[key])
    elif isinstance(one, list):
        for a, b in zip(one, other, strict=True):
            _same(a, b)
    elif isinstance(one, Tensor):
        torch.testing.assert_close(one, other, equal_nan=True, rtol=0, atol=0)
    else:
        assert one == other


@pytest.mark.parametrize(
    "changes",
    [
        {"clipping__bound": "fixed"},
        {"clipping__bound": "public"},
        {"clipping__grouping": "weight-bias"},
        {"clipping__centred": False},
    ],
)
def test_every_step_is_paid(changes: dict[str, Any]) -> None:
    model = dpgan(step__count=3, **changes)
    ledger = Ledger(math.inf, 1e-5)
    account = ledger.open("critic", Gaussian(noise_multiplier=1.0), 3)
    context = context_of(rows_of(20, 1), account, ledger, 20.0)
    done = model.fit(context)
    assert done == account.spent == context.table.reads == 3
