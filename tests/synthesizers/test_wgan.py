"""DP-Adversarial: what the paper and the document say of it, and that it learns."""

import math
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from contexts import context_of

from tabsynth import DPWGAN, Schema
from tabsynth.encoding import Layout, TableEncoder
from tabsynth.privacy.accounting.mechanisms import Gaussian, NoPrivacy, SubsampledGaussian
from tabsynth.privacy.ledger.ledger import Ledger
from tabsynth.schema import Column
from tabsynth.synthesizers.adversarial.critic import Adversarial, WGANConfig
from tabsynth.synthesizers.adversarial.dpwgan import source_wgan
from tabsynth.synthesizers.adversarial.generator import (
    GeneratorConfig,
    MomentPenalty,
    TableGenerator,
    mean_code,
)
from tabsynth.synthesizers.method import with_settings
from tabsynth.training.loop import TrainingMonitor
from tabsynth.training.networks import mlp

torch.set_num_threads(1)
SMALL = GeneratorConfig(latent_dim=4, hidden=(8,), norm=False)


def layout_of(*sizes: int) -> Layout:
    columns = [
        Column(name=f"c{i}", kind="categorical", dtype="int64", categories=tuple(range(size)))
        for i, size in enumerate(sizes)
    ]
    return TableEncoder(Schema(columns)).layout


def rng(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def build(
    config: WGANConfig, layout: Layout, marginals: list[np.ndarray] | None = None, seed: int = 0
) -> Adversarial:
    generator = TableGenerator(layout, config.generator, rng(seed))
    if marginals is not None:
        generator.start_from(marginals)
    mean = None if marginals is None else mean_code(layout, marginals)
    moment_penalty = MomentPenalty(layout, mean, None, config.generator.anchor, 0.0)
    return Adversarial(config, generator, rng(seed + 1), moment_penalty)


def train(
    model: Adversarial, index: np.ndarray, *, noise: float | None = None, monitor: Any = None
) -> int:
    layout = model.generator.heads.layout
    ledger = Ledger(math.inf, 1e-5)
    mechanism = NoPrivacy() if noise is None else Gaussian(noise_multiplier=noise)
    account = ledger.open("critic", mechanism, model.config.step.count)
    codes = torch.from_numpy(layout.encode(index))
    more = {} if monitor is None else {"monitor": monitor}
    return model.fit(context_of(codes, account, ledger, float(len(index)), **more))


def pairs(index: np.ndarray, size: int) -> np.ndarray:
    return np.bincount(index[:, 0] * size + index[:, 1], minlength=size * size) / len(index)


def tiny(**changes: Any) -> WGANConfig:
    parameters = {
        "generator__latent_dim": 6,
        "generator__hidden": (16,),
        "critic__hidden": (16,),
        "step__sampling_rate": 1.0,
        "step__count": 20,
    }
    return with_settings(WGANConfig(), **{**parameters, **changes})


def test_critic_weights_stay_clipped() -> None:
    """In [−c_p, c_p] from the first step to the last, under noise that would carry them away."""
    config = tiny(weight_clip=0.02, critic__lr=0.1)
    model = build(config, layout_of(3, 2))
    seen: list[float] = []

    def look(*_: Any) -> None:
        seen.append(max(float(p.detach().abs().max()) for p in model.critic.parameters()))

    look()
    index = np.random.default_rng(0).integers(0, 2, (50, 2))
    train(model, index, noise=5.0, monitor=TrainingMonitor(progress=look))
    assert len(seen) == 21 and max(seen) == pytest.approx(0.02)


def test_start_from_marginals() -> None:
    """Rows of an untrained generator follow the one-way counts, null and rare values included."""
    layout = layout_of(3, 5)
    wanted = [np.array([0.7, 0.29, 0.01]), np.array([0.05, 0.05, 0.1, 0.2, 0.6])]
    generator = TableGenerator(layout, SMALL, rng())
    with torch.no_grad():
        generator.body[-1].weight.mul_(1e-3)
    generator.start_from(wanted)
    synthetic = generator.sample(20_000, rng(1))
    assert synthetic.shape == (20_000, 2) and synthetic.dtype == np.int64
    for j, p in enumerate(wanted):
        np.testing.assert_allclose(
            np.bincount(synthetic[:, j], minlength=len(p)) / 20_000, p, atol=0.02
        )


def test_start_from_marginals_through_a_decoder() -> None:
    layout = layout_of(3)
    decoder = mlp([2, 4, 3], rng())
    with torch.no_grad():
        decoder[-1].weight.mul_(0.0)
    generator = TableGenerator(layout, SMALL, rng(), decoder=decoder, decoder_inputs=2)
    generator.start_from([np.array([0.6, 0.3, 0.1])])
    result = generator.sample(20_000, rng(1))[:, 0]
    np.testing.assert_allclose(np.bincount(result) / 20_000, [0.6, 0.3, 0.1], atol=0.02)
    assert generator.body(torch.zeros(1, 4)).abs().max() <= 1  # latents, as the encoder makes them


def test_averaging_is_an_exponential_mean() -> None:
    """By hand from the weights after each generator step."""
    index = np.random.default_rng(0).integers(0, 2, (40, 2))
    model = build(tiny(generator__averaging=0.7, critic__per_generator=4), layout_of(3, 2))
    states = [{k: v.double().clone() for k, v in model.generator.state_dict().items()}]

    def look(stage: str, done: int, total: int) -> None:
        if done % 4 == 0:
            states.append({k: v.double().clone() for k, v in model.generator.state_dict().items()})

    train(model, index, monitor=TrainingMonitor(progress=look))
    assert len(states) == 6
    weights = [
        0.7 ** (5 - i) for i in range(1, 6)
    ]  # and none for the weights before the first step
    mean = {
        k: sum(w * state[k] for w, state in zip(weights, states[1:], strict=True)) / sum(weights)
        for k in states[0]
    }
    for name, value in model.final_generator.state_dict().items():
        if value.is_floating_point():
            torch.testing.assert_close(value.double(), mean[name], rtol=1e-5, atol=1e-6)
    last = build(tiny(generator__averaging=0.0), layout_of(3, 2))
    train(last, index)
    assert last.final_generator is last.generator


def test_curves_are_of_generator_steps() -> None:
    model = build(tiny(step__count=33, critic__per_generator=3), layout_of(3, 2))
    train(model, np.zeros((20, 2), dtype=np.int64))
    (curve,) = model.curves.values()
    assert curve["step"] == list(range(3, 34, 3)) and len(curve["value"]) == 11
    assert all(math.isfinite(value) for value in curve["value"])


def test_the_generator_moves_the_decoder_too() -> None:
    """R11: the decoder is tuned through the critic, as in medGAN."""
    layout = layout_of(3, 2)
    decoder = mlp([4, 6, layout.width], rng())
    before = [p.detach().clone() for p in decoder.parameters()]
    config = tiny(generator__lr=1e-2)
    plain = with_settings(config.generator, hidden=(8,), norm=False)
    generator = TableGenerator(layout, plain, rng(), decoder=decoder, decoder_inputs=4)
    train(Adversarial(config, generator, rng(1)), np.zeros((20, 2), dtype=np.int64))
    assert all(not torch.equal(a, b) for a, b in zip(before, decoder.parameters(), strict=True))


@pytest.mark.slow
def test_the_anchor_holds_the_columns() -> None:
    """Under a critic that is noise, anchored columns stay nearer to their one-way counts."""
    wanted = [np.array([0.8, 0.15, 0.05]), np.array([0.3, 0.7])]
    index = np.random.default_rng(0).integers(0, 2, (60, 2))
    distance = {}
    for anchor in (0.0, 30.0):
        config = tiny(
            step__count=150, critic__per_generator=2, generator__lr=5e-3, weight_clip=0.3,
            generator__anchor=anchor, generator__averaging=0.9, critic__lr=5e-3,
        )  # fmt: skip
        model = build(config, layout_of(3, 2), wanted)
        train(model, index, noise=500.0)
        synthetic = model.final_generator.sample(4000, rng(4))
        distance[anchor] = sum(
            np.abs(np.bincount(synthetic[:, j], minlength=len(p)) / 4000 - p).sum() / 2
            for j, p in enumerate(wanted)
        )
    assert distance[30.0] < 0.5 * distance[0.0] and distance[30.0] < 0.2


def test_no_batch_norm_in_the_critic() -> None:
    """R13."""
    model = build(WGANConfig(), layout_of(3, 2))
    assert not list(model.critic.buffers()) and list(model.generator.buffers())


def test_source_numbers() -> None:
    """Appendix A of the document: z 100, hidden 128 and 64, RMSProp 1e-5, c_p .01, n_d 5, batch 16,
    25 epochs."""
    config = source_wgan(13_508)
    generator, critic, step = config.generator, config.critic, config.step
    assert (generator.latent_dim, generator.hidden, critic.hidden) == (100, (128,), (64,))
    assert critic.lr == generator.lr == 1e-5
    assert (config.weight_clip, critic.per_generator) == (0.01, 5)
    assert step.sampling_rate * 13_508 == pytest.approx(16)
    assert step.count == 25 * 13_508 // 16
    assert (generator.norm, generator.averaging, generator.anchor) == (False, 0.0, 0.0)
    assert (config.clipping.bound, config.clipping.centred) == ("fixed", False)
    assert not generator.rounded
    assert source_wgan(3).step.sampling_rate == 1.0 and source_wgan(3).step.count == 4


def test_source_asks_for_its_rows() -> None:
    """Its batches are of 16 rows where the number is declared; else a plan and a fit say so."""
    schema = Schema([Column(name="c", kind="categorical", dtype="str", categories=("a", "b"))])
    undeclared = DPWGAN(schema, epsilon=8.0, preset="source").plan(estimate_time=False)
    declared = DPWGAN(schema, epsilon=8.0, preset="source", rows=4000).plan(estimate_time=False)
    assert "declare rows=" in str(undeclared) and "declare rows=" not in str(declared)
    critic = declared.spends[-1]
    assert isinstance(critic.mechanism, SubsampledGaussian)
    assert critic.mechanism.sampling_rate * 4000 == pytest.approx(16)
    assert critic.count == 25 * 4000 // 16


def test_the_fixed_bound_of_source_cuts_nothing_of_ten_columns() -> None:
    """Lemma 1 with numbers: c_p √64 √((d + 1)² + d + 1) holds whatever weights of at most c_p, and is nearly met."""
    columns, config = 10, source_wgan(13_508)
    c_g = config.weight_clip * math.sqrt(64 * ((columns + 1) ** 2 + columns + 1))
    assert 0.9 < c_g < config.clipping.max_norm
    critic = mlp([columns, 64, 1], rng())
    worst = 0.0
    for seed in range(40):
        draw = rng(seed)
        with torch.no_grad():
            for parameter in critic.parameters():
                corner = torch.sign(torch.rand(parameter.shape, generator=draw) - 0.5 * (seed > 0))
                parameter.copy_(config.weight_clip * corner)
        real = torch.rand(1, columns, generator=draw).round() if seed else torch.ones(1, columns)
        fake = torch.rand(1, columns, generator=draw) if seed else torch.zeros(1, columns)
        loss = (critic(fake) - critic(real)).sum()
        grads = torch.autograd.grad(loss, list(critic.parameters()))
        worst = max(worst, float(torch.cat([g.flatten() for g in grads]).norm()))
    assert 0.8 * c_g < worst <= c_g * (1 + 1e-6)


@pytest.mark.parametrize("rows", [1.0, 19.9, 30.0, 400.4])
def test_the_divisor_follows_the_estimate(rows: float) -> None:
    """R14: q · rows, rounded, and never so small that BatchNorm in the generator fails."""
    model = build(tiny(step__sampling_rate=0.05), layout_of(3, 2))
    ledger = Ledger(math.inf, 1e-5)
    account = ledger.open("critic", NoPrivacy(), 6)
    codes = torch.from_numpy(layout_of(3, 2).encode(np.zeros((7, 2), dtype=np.int64)))
    model.fit(context_of(codes, account, ledger, rows, seeds=(0, 0)))
    assert account.spent == 6
    frame = pd.DataFrame(model.final_generator.sample(3, rng()))
    assert frame.shape == (3, 2)
