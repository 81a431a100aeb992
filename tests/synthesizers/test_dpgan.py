"""dp-GAN: the paper's numbers, and that its variants and DP-WGAN learn."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from contexts import context_of
from test_wgan import layout_of, pairs, rng

from tabsynth.errors import InputError
from tabsynth.privacy.accounting.mechanisms import NoPrivacy
from tabsynth.privacy.ledger.ledger import Ledger
from tabsynth.synthesizers.adversarial.critic import Adversarial, DPGANConfig, WGANConfig
from tabsynth.synthesizers.adversarial.dpgan import VARIANTS
from tabsynth.synthesizers.adversarial.generator import (
    BETAS,
    GeneratorConfig,
    MomentPenalty,
    TableGenerator,
    mean_code,
)
from tabsynth.synthesizers.method import with_settings

torch.set_num_threads(1)


def test_the_papers_numbers() -> None:
    """Algorithm 1: λ = 10, n_critic = 4, Adam (.5, .9), one fixed bound, no help from elsewhere."""
    basic = VARIANTS["basic"]
    assert (basic.penalty, basic.critic.per_generator, BETAS) == (10.0, 4, (0.5, 0.9))
    assert (basic.critic.optimizer, basic.generator.optimizer) == ("adam", "adam")
    clipping = basic.clipping
    assert (clipping.bound, clipping.grouping, clipping.centred) == ("fixed", "flat", False)
    assert not basic.start_from_counts
    assert (basic.generator.anchor, basic.generator.averaging) == (0.0, 0.0)
    assert basic.warm_start_steps == 0
    advanced = VARIANTS["advanced"]
    assert advanced.warm_start_steps > 0
    assert {(v.critic.lr, v.generator.lr) for v in VARIANTS.values()} == {(3e-3, 5e-4)}
    clipping = advanced.clipping
    assert (clipping.bound, clipping.grouping) == ("public", "weight-bias")
    assert clipping.max_norm == 0.5
    flat = with_settings(advanced, clipping__grouping="flat")
    assert VARIANTS["ganobfuscator"] == flat


LEARNING: dict[str, tuple[Any, float]] = {
    "dp-wgan": (WGANConfig(weight_clip=0.1), 2e-3),
    **{name: (VARIANTS[name], 1e-2) for name in ("basic", "advanced")},
}


@pytest.mark.slow(cases=2)
@pytest.mark.parametrize("name", LEARNING)
def test_it_learns_that_columns_agree(name: str) -> None:
    """Without noise: the pair of columns comes closer than independent columns could."""
    size, n = 4, 300
    generator = np.random.default_rng(0)
    first = generator.choice(size, n, p=[0.4, 0.3, 0.2, 0.1])
    second = np.where(generator.random(n) < 0.9, first, generator.integers(0, size, n))
    index = np.stack([first, second], axis=1)
    layout = layout_of(size, size)
    start, rate = LEARNING[name]
    config = with_settings(
        start,
        generator__latent_dim=6,
        generator__hidden=(64,),
        critic__hidden=(64,),
        step__sampling_rate=0.25,
        step__count=400,
        critic__per_generator=2,
        critic__lr=rate,
        generator__lr=min(rate, 5e-3),
        generator__averaging=0.9,
    )
    one_way = [np.bincount(column, minlength=size) / n for column in index.T]
    net = TableGenerator(layout, config.generator, rng())
    mean, anchor = mean_code(layout, one_way), config.generator.anchor
    moment_penalty = MomentPenalty(layout, mean, None, anchor, 0.0)
    model = Adversarial(config, net, rng(1), moment_penalty)
    ledger = Ledger(math.inf, 1e-5)
    account = ledger.open("critic", NoPrivacy(), 400)
    codes = torch.from_numpy(layout.encode(index))
    model.fit(context_of(codes, account, ledger, float(n)))
    synthetic = model.final_generator.sample(4000, rng(9))
    floor = np.abs(pairs(index, size) - np.outer(*one_way).ravel()).sum() / 2
    assert np.abs(pairs(index, size) - pairs(synthetic, size)).sum() / 2 < 0.4 * floor


@pytest.mark.parametrize(
    "bad",
    [
        *({"penalty": v} for v in (0, -1, math.inf, "10")),
        *({"critic__per_generator": v} for v in (0, 1.5, "often", True, None)),
        *({"start_from_counts": v} for v in ("yes", None, 2)),
        *({"clipping__bound": v} for v in ("private", None)),
        *({"clipping__grouping": v} for v in ("layers", None)),
        *({"step__rule": v} for v in ("sgd", None)),
        {"step__rule": "bam", "step__radius": -1.0},
        *({"critic__optimizer": v} for v in ("adamw2", None)),
        {"generator__optimizer": "?"},
        {"betas": (0.5, 0.9)},
        {"penalty__hidden": 1},
        {"critic": GeneratorConfig()},
        *({"warm_start_steps": v} for v in (-1, 1.5)),
        *({"generator__pair_anchor": v} for v in (-1, math.inf)),
    ],
    ids=repr,
)
def test_configurations_that_are_none(bad: dict[str, Any]) -> None:
    with pytest.raises(InputError) as error:
        with_settings(DPGANConfig(), **bad)
    assert "\n" not in str(error.value)
