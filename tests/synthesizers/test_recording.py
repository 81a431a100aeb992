"""On a device the critic's step is recorded once for the whole fit, whatever the GAN."""

import math
from typing import Any

import pytest
import torch
from contexts import context_of
from test_adversarial import LAYOUT, dpgan, rows_of
from test_wgan import rng, tiny

from tabsynth.privacy.accounting.mechanisms import Gaussian
from tabsynth.privacy.ledger.ledger import Ledger
from tabsynth.synthesizers.adversarial.critic import Adversarial
from tabsynth.synthesizers.adversarial.generator import TableGenerator
from tabsynth.training import private_step
from tabsynth.training.private_step import Captured


def build(kind: str) -> Adversarial:
    if kind == "wgan":
        config = tiny(step__count=12)
        return Adversarial(config, TableGenerator(LAYOUT, config.generator, rng()), rng(1))
    return dpgan(step__count=12, clipping__centred=kind == "centred", clipping__bound="public")


def fitted(model: Adversarial, device: str, standins: bool) -> dict[str, Any]:
    model.to(torch.device(device))
    ledger = Ledger(math.inf, 1e-5)
    account = ledger.open("critic", Gaussian(noise_multiplier=1.0), 12)
    codes = rows_of(60, 1).to(device)
    public = rows_of(30, 2).to(device) if standins else None
    model.fit(context_of(codes, account, ledger, 60.0, public_codes=public))
    return model.critic.state_dict()


@pytest.mark.slow
@pytest.mark.parametrize("standins", [False, True])
@pytest.mark.parametrize("kind", ["wgan", "centred", "paired"])
def test_one_recording_serves_all_steps(
    kind: str, standins: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And the step follows the generated rows of the day: held still, it would train otherwise."""
    created: list[Captured] = []

    class Noted(Captured):
        def __init__(self, *args: Any) -> None:
            super().__init__(*args)
            created.append(self)

    monkeypatch.setattr(private_step.PrivateStep, "_in_place", lambda self, rows: True)
    monkeypatch.setattr(private_step, "Captured", Noted)
    result = fitted(build(kind), "cpu", standins)
    assert [captured.calls for captured in created] == [12]
    second = fitted(build(kind), "cpu", standins)
    assert all(torch.equal(result[name], value) for name, value in second.items())
    monkeypatch.setattr(private_step.Terms, "take", lambda self, other: None)
    stale = fitted(build(kind), "cpu", standins)
    assert any(not torch.equal(result[name], value) for name, value in stale.items())


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here")
@pytest.mark.parametrize("standins", [False, True])
@pytest.mark.parametrize("kind", ["wgan", "centred", "paired"])
def test_a_gan_trains_on_cuda(kind: str, standins: bool) -> None:
    """All steps there, the recorded ones among them, leave finite weights that have moved."""
    model = build(kind)
    before = {name: value.clone() for name, value in model.critic.state_dict().items()}
    for name, value in fitted(model, "cuda", standins).items():
        assert value.is_cuda and torch.isfinite(value).all()
        assert not torch.equal(value.cpu(), before[name])
