"""dp-GAN: the paper's numbers, and that both variants learn."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from test_wgan import layout_of, pairs, rng

from tabsynth.errors import InputError
from tabsynth.privacy.accounting.mechanisms import NoPrivacy
from tabsynth.privacy.ledger.ledger import Ledger, PrivateTable
from tabsynth.synthesizers.gan.dpgan import VARIANTS, DPGANConfig
from tabsynth.synthesizers.gan.dpgan import DPGANTraining as DPGAN
from tabsynth.synthesizers.gan.generator import MomentPenalty, TableGenerator, mean_code
from tabsynth.training.loop import TrainingMonitor

torch.set_num_threads(1)


def test_the_papers_numbers() -> None:
    """Algorithm 1: λ = 10, n_critic = 4, Adam (.5, .9), one fixed bound, no help from elsewhere."""
    basic = VARIANTS["basic"]
    assert (basic.penalty, basic.critic_per_generator, basic.betas) == (10.0, 4, (0.5, 0.9))
    assert (basic.critic_optimizer, basic.generator_optimizer) == ("adam", "adam")
    assert (basic.bound, basic.grouping, basic.centred) == ("fixed", "flat", False)
    assert (basic.start_from_counts, basic.anchor, basic.averaging) == (False, 0.0, 0.0)
    assert (basic.warm_steps, basic.pair_anchor) == (0, 0.0)
    assert VARIANTS["advanced"].bound == "public" and VARIANTS["advanced"].grouping != "flat"
    assert VARIANTS["advanced"].warm_steps > 0
    assert {(v.critic_lr, v.generator_lr) for v in VARIANTS.values()} == {(3e-3, 5e-4)}
    advanced = VARIANTS["advanced"]
    assert (advanced.grouping, advanced.statistic, advanced.max_norm) == (
        "weight-bias",
        "median",
        0.5,
    )
    assert VARIANTS["ganobfuscator"] == replace(advanced, grouping="flat")
    assert VARIANTS["advanced-clusters"] == replace(advanced, grouping="clusters")


@pytest.mark.slow
@pytest.mark.parametrize("variant", ["basic", "advanced", "advanced-clusters"])
def test_it_learns_that_columns_agree(variant: str) -> None:
    """Without noise: the pair of columns comes closer than independent columns could."""
    size, n = 4, 300
    generator = np.random.default_rng(0)
    first = generator.choice(size, n, p=[0.4, 0.3, 0.2, 0.1])
    second = np.where(generator.random(n) < 0.9, first, generator.integers(0, size, n))
    index = np.stack([first, second], axis=1)
    layout = layout_of(size, size)
    config = replace(
        VARIANTS[variant],
        latent_dim=6,
        generator_hidden=(32,),
        critic_hidden=(32,),
        sampling_rate=0.25,
        critic_steps=400,
        critic_per_generator=2,
        critic_lr=1e-2,
        generator_lr=5e-3,
        averaging=0.9,
    )
    one_way = [np.bincount(column, minlength=size) / n for column in index.T]
    net = TableGenerator(layout, 6, (32,), rng(), norm=True)
    moment_penalty = MomentPenalty(layout, mean_code(layout, one_way), None, config.anchor, 0.0)
    model = DPGAN(config, net, rng(1), moment_penalty)
    ledger = Ledger(math.inf, 1e-5)
    account = ledger.open("critic", NoPrivacy(), 400)
    table = PrivateTable(torch.from_numpy(layout.encode(index)), ledger)
    model.fit(
        table, [account], float(n), private_rng=rng(2), public_rng=rng(3), monitor=TrainingMonitor()
    )
    synthetic = model.released.sample(4000, rng(9))
    floor = np.abs(pairs(index, size) - np.outer(*one_way).ravel()).sum() / 2
    assert np.abs(pairs(index, size) - pairs(synthetic, size)).sum() / 2 < 0.4 * floor


@pytest.mark.parametrize(
    "bad",
    [
        *({"penalty": v} for v in (0, -1, math.inf, "10")),
        *({"start_from_counts": v} for v in ("yes", None, 2)),
        *({"bound": v} for v in ("private", None)),
        *({"grouping": v} for v in ("layers", None)),
        *({"clusters": v} for v in (0, 1.5)),
        *({"statistic": v} for v in ("max", None)),
        *({"step_rule": v} for v in ("sgd", None)),
        {"step_rule": "bam", "radius": -1.0},
        *({"critic_optimizer": v} for v in ("adamw2", None)),
        {"generator_optimizer": "?"},
        *({"betas": v} for v in ((0.5, 1.0), (-0.1, 0.9))),
        *({"physical_batch": v} for v in (0, 1.5)),
        *({"warm_steps": v} for v in (-1, 1.5)),
        *({"pair_anchor": v} for v in (-1, math.inf)),
    ],
    ids=repr,
)
def test_configurations_that_are_none(bad: dict[str, Any]) -> None:
    with pytest.raises(InputError) as error:
        DPGANConfig(**bad)
    assert "\n" not in str(error.value)
