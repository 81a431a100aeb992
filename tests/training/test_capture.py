"""Steps that stay in place: the same results, and nothing in them that waits for the device."""

import gc
import math
import warnings
import weakref
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from tabsynth.privacy.accounting.mechanisms import SubsampledGaussian
from tabsynth.privacy.ledger.ledger import Ledger, PrivateTable
from tabsynth.training.clipping import Clipping
from tabsynth.training.networks import mlp
from tabsynth.training.private_step import (
    BAM,
    DPSAT,
    DPSGD,
    Batches,
    Captured,
    Places,
    PrivateStep,
    Slots,
    StepRule,
    gradient_penalty,
    minus_scores,
    no_collection,
)
from tabsynth.training.sums import TensorNoise

torch.set_num_threads(1)
RATE, ROWS = 0.1, 500
TABLE = torch.rand(ROWS, 8, generator=torch.Generator().manual_seed(3)).double()
FAKE = torch.rand(40, 8, generator=torch.Generator().manual_seed(4)).double()


def penalised(critic: nn.Module, rows: Tensor) -> Tensor:
    return minus_scores(critic, rows) + gradient_penalty(critic, 0.5 * rows + 0.2, 10.0)


def private_step(rule: StepRule, rules: Clipping, device: str = "cpu") -> PrivateStep:
    module = mlp([8, 16, 16, 1], torch.Generator().manual_seed(0), activation="tanh")
    module = module.double().to(device)
    ledger = Ledger(math.inf, 1e-5)
    mechanism = SubsampledGaussian(noise_multiplier=1e-9, sampling_rate=RATE)
    return PrivateStep(
        module,
        table=PrivateTable(TABLE.to(device), ledger),
        account=ledger.open("critic", mechanism, 100),
        batches=Batches(rate=RATE, expected_batch=RATE * ROWS),
        generator=torch.Generator(device).manual_seed(1),
        rule=rule,
        clipping=rules,
    )


def trained(step: PrivateStep, losses: Any, public: Tensor | None, lr: float = 0.1) -> Tensor:
    """The weights after some steps."""
    step.noise.bits = np.random.default_rng(2)
    parameters = step.clipper.parameters
    optimizer = torch.optim.SGD(parameters, lr=lr)
    for _ in range(8):
        step.gradient(losses, public)
        optimizer.step()
    return torch.cat([p.detach().flatten() for p in parameters]).cpu()


KINDS = [
    (DPSGD(), Clipping(max_norm=0.3)),
    (DPSAT(radius=0.5), Clipping(bound="public")),
    (BAM(radius=0.1), Clipping(bound="public", grouping="weight-bias")),
    (DPSGD(), Clipping(bound="public", grouping="weight-bias", centred=False)),
]


@pytest.mark.slow
@pytest.mark.parametrize(("rule", "rules"), KINDS)
@pytest.mark.parametrize("losses", [minus_scores, penalised])
def test_a_batch_of_fixed_size_is_the_same_step(
    rule: StepRule, rules: Clipping, losses: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R2, R5: rows that fill a batch up contribute nothing, whatever the rule and the bounds."""
    public = FAKE if rules.bound == "public" else None
    wanted = trained(private_step(rule, rules), losses, public)
    step = private_step(rule, rules)
    monkeypatch.setattr(step, "_in_place", lambda rows: True)
    torch.testing.assert_close(trained(step, losses, public), wanted, rtol=1e-7, atol=1e-8)
    assert step._recorded is not None
    assert not torch.allclose(
        wanted, trained(private_step(rule, Clipping(max_norm=9.0)), losses, None)
    )


def test_a_batch_without_room_takes_the_ordinary_road(monkeypatch: pytest.MonkeyPatch) -> None:
    step, ordinary = private_step(*KINDS[0]), private_step(*KINDS[0])
    monkeypatch.setattr(step, "_in_place", lambda rows: True)
    step.places = ordinary.places = Places(0.0)  # sixteen places, for fifty rows or so
    torch.testing.assert_close(
        trained(step, minus_scores, None), trained(ordinary, minus_scores, None)
    )
    assert step._recorded is None


class Replayed(Captured):
    """As on a device: from the fourth call on, all that a call does is to write to the same tensors."""

    def __call__(self, device: torch.device) -> list[Tensor]:
        self.calls += 1
        if self.calls <= 4:
            self.outputs = self.body()
        else:
            for place, value in zip(self.outputs, self.body(), strict=True):
                place.copy_(value)
        return self.outputs


@pytest.mark.parametrize(("rule", "rules"), KINDS[:3])
def test_a_step_without_room_amid_replays(
    rule: StepRule, rules: Clipping, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One batch that finds no room takes the ordinary road; the replays after it are not of the past."""
    public = FAKE if rules.bound == "public" else None
    wanted = trained(private_step(rule, rules), minus_scores, public)
    step, requested, layout = private_step(rule, rules), [], Places.layout

    def laid_out(self: Places, picked: Tensor, places: Tensor) -> Tensor:
        requested.append(len(picked))
        own = layout(self, picked, places)
        return own if len(requested) != 6 else torch.cat([own, torch.full_like(own, -1)])

    monkeypatch.setattr(step, "_in_place", lambda rows: True)
    monkeypatch.setattr(Places, "layout", laid_out)
    monkeypatch.setattr("tabsynth.training.private_step.Captured", Replayed)
    torch.testing.assert_close(trained(step, minus_scores, public), wanted, rtol=1e-7, atol=1e-8)
    assert len(requested) == 8


def test_where_recording_fails_steps_go_on_without(monkeypatch: pytest.MonkeyPatch) -> None:
    """From the fourth call on, which would record: with one warning, and the body once a call."""

    def refuse() -> None:
        raise RuntimeError("CUDA driver is too old\nand more")

    monkeypatch.setattr(torch.cuda, "CUDAGraph", refuse)
    calls: list[int] = []

    def body() -> list[Tensor]:
        calls.append(len(calls))
        return [torch.full((1,), float(len(calls)))]

    captured = Captured(body, [])
    captured.calls = 3  # the ordinary calls are made
    with pytest.warns(RuntimeWarning, match="without a CUDA graph.*: CUDA driver is too old$"):
        (first,) = captured(torch.device("cuda"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        (second,) = captured(torch.device("cuda"))
    assert (float(first), float(second), calls) == (1.0, 2.0, [0, 1])


def test_recording_can_be_switched_off(monkeypatch: pytest.MonkeyPatch) -> None:
    class OnDevice(list[int]):
        device = torch.device("cuda")

    rows: Any = OnDevice([1, 2])
    assert private_step(*KINDS[0])._in_place(rows)
    monkeypatch.setenv("TABSYNTH_CUDA_GRAPHS", "0")
    assert not private_step(*KINDS[0])._in_place(rows)


def test_slots() -> None:
    slots, layout = Slots(6, torch.device("cpu")), torch.tensor([-1, 7, 0, -1, 3, -1])
    slots.fill(layout)
    assert slots.keep.tolist() == [False, True, True, False, True, False]
    assert slots.rows[slots.keep].tolist() == [7, 0, 3]


def test_the_body_runs_once_a_call_off_cuda() -> None:
    calls: list[int] = []
    captured = Captured(lambda: calls.append(1) or [torch.ones(1)], [torch.Generator()])
    for _ in range(7):
        assert captured(torch.device("cpu")) == [torch.ones(1)]
    assert len(calls) == 7 and captured.graph is None


def test_nothing_is_collected_in_a_recording() -> None:
    class Cycle:
        def __init__(self) -> None:
            self.itself = self

    lost = weakref.ref(Cycle())
    with no_collection():
        assert lost() is None  # before it, so that no recording of another step is left
        now = weakref.ref(Cycle())
        assert not gc.isenabled() and now() is not None
    assert gc.isenabled()


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here")
def test_a_lost_recording_does_not_spoil_another() -> None:
    """Two private fits in one process: the first is garbage when the second is recorded."""
    gc.collect()
    gc.disable()
    thresholds = gc.get_threshold()
    try:
        first = private_step(*KINDS[0], "cuda")
        trained(first, minus_scores, None)
        first.itself = first  # type: ignore[attr-defined]
        del first
        gc.set_threshold(1, 1, 1)
        gc.enable()
        second = private_step(*KINDS[0], "cuda")
        trained(second, minus_scores, None)
        assert second._recorded is not None and second._recorded[1].graph is not None
    finally:
        gc.set_threshold(*thresholds)
        gc.enable()


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here")
@pytest.mark.parametrize(("rule", "rules"), KINDS)
@pytest.mark.parametrize("losses", [minus_scores, penalised])
def test_cuda_is_the_cpu(
    rule: StepRule, rules: Clipping, losses: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The recorded step on the device, against the ordinary one on the CPU; all noise is negligible."""
    # Noise on a device leaves the host's random bits to the batches, which are then other ones.
    monkeypatch.setattr(TensorNoise, "noisy", TensorNoise._elsewhere)
    public = FAKE if rules.bound == "public" else None
    # Steps so small that what noise there is does not grow.
    wanted = trained(private_step(rule, rules), losses, public, lr=1e-3)
    step = private_step(rule, rules, "cuda")
    result = trained(step, losses, None if public is None else public.cuda(), lr=1e-3)
    torch.testing.assert_close(result, wanted, rtol=1e-6, atol=1e-7)
    assert step._recorded is not None and step._recorded[1].graph is not None
