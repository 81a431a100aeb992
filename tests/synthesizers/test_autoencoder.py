"""The medGAN autoencoder: it reconstructs, without batch statistics, at the document's widths."""

import math

import numpy as np
import pytest
import torch
from contexts import context_of

from tabsynth import Schema
from tabsynth.encoding import TableEncoder
from tabsynth.errors import InputError
from tabsynth.privacy.accounting.mechanisms import NoPrivacy
from tabsynth.privacy.ledger.ledger import Ledger
from tabsynth.schema import Column
from tabsynth.synthesizers.adversarial.autoencoder import (
    Autoencoder,
    AutoencoderConfig,
    source_autoencoder,
)
from tabsynth.synthesizers.method import with_settings
from tabsynth.training.private_step import StepConfig

torch.set_num_threads(1)


@pytest.mark.slow
@pytest.mark.parametrize("source", [False, True])
def test_it_reconstructs_a_structured_table(source: bool) -> None:
    """R11: trained without noise, over 95% of the cells come back (the document's widths as well)."""
    schema = Schema(
        [
            Column(name=f"c{i}", kind="categorical", dtype="int64", categories=tuple(range(4)))
            for i in range(6)
        ]
    )
    rng = np.random.default_rng(0)
    kind = rng.integers(0, 4, 300)
    index = np.stack([(kind + i) % 4 for i in range(5)] + [rng.integers(0, 4, 300)], axis=1)
    if source:
        config = AutoencoderConfig(
            hidden=(9, 16, 32),
            latent_dim=64,
            activation="relu",
            step=StepConfig(count=600, sampling_rate=0.5),
            lr=4e-3,
        )
    else:
        config = with_settings(AutoencoderConfig(), step__sampling_rate=0.2)
    layout = TableEncoder(schema).layout
    ledger = Ledger(math.inf, 1e-5)
    account = ledger.open("autoencoder", NoPrivacy(), config.step.count)
    model = Autoencoder(config, layout, torch.Generator().manual_seed(0))
    codes = torch.from_numpy(layout.encode(index))
    before = layout.decode(model(codes).detach().numpy())
    done = model.fit(
        context_of(codes, account, ledger, 300.0), account, torch.Generator().manual_seed(1), None
    )
    assert done == config.step.count == account.spent
    after = layout.decode(model(codes).detach().numpy())
    assert (before == index).mean() < 0.6 and (after == index).mean() > 0.95


def test_no_batch_statistics() -> None:
    """R11, R13."""
    layout = TableEncoder(
        Schema([Column(name="a", kind="categorical", dtype="str", categories=("x", "y"))])
    ).layout
    for config in (AutoencoderConfig(), source_autoencoder(500)):
        model = Autoencoder(config, layout, torch.Generator().manual_seed(0))
        assert not list(model.buffers())
        latents = model.encoder(torch.eye(2))
        assert latents.shape == (2, config.latent_dim) and latents.abs().max() <= 1


def test_source_numbers() -> None:
    """Appendix A: 9–16–32–64, Adam 1e-3, batches of 16, 50 epochs."""
    config = source_autoencoder(13_508)
    assert (*config.hidden, config.latent_dim) == (9, 16, 32, 64)
    assert config.lr == 1e-3
    assert config.step.sampling_rate * 13_508 == pytest.approx(16)
    assert config.step.count == 50 * 13_508 // 16
    assert source_autoencoder(5).step.sampling_rate == 1.0


@pytest.mark.parametrize(
    "bad",
    [
        {"hidden": (0,)},
        {"hidden": (1.5,)},
        {"latent_dim": 0},
        {"activation": "gelu"},
        {"step__sampling_rate": 0},
        {"step__sampling_rate": 1.1},
        {"step__count": 0},
        {"lr": 0},
        {"lr": math.nan},
        {"max_norm": -1},
        {"max_norm": math.inf},
        {"share": 0},
        {"share": 1},
    ],
)
def test_configurations_that_are_none(bad: dict[str, object]) -> None:
    with pytest.raises(InputError):
        with_settings(AutoencoderConfig(), **bad)
