"""No step waits for its device, and nothing of a step stays behind."""

import gc
import weakref

import pytest
import torch
from private_steps import RULES, engine
from row_gradients import LOSSES, normal_rows, plain, trained
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from tabsynth.privacy.accounting.mechanisms import Gaussian, SubsampledGaussian
from tabsynth.training import clipping
from tabsynth.training.factors import Trace
from tabsynth.training.private_step import BAM

torch.set_num_threads(1)


# What would have to wait for a device: its numbers on the host, a size that depends on them.
WAITS = ("_local_scalar_dense", "is_nonzero", "nonzero", "masked_select", "_unique2", "equal")


class Waits(TorchDispatchMode):
    """Notes every operator for which the host would have to wait for another device."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        kwargs, name = kwargs or {}, str(func).split(".")[1]
        given = [a.device.type for a in args if isinstance(a, Tensor)]
        if name in WAITS and "meta" in given:
            self.found.append(name)
        if name == "_to_copy" and kwargs.get("device") is not None:
            crosses = torch.device(kwargs["device"]).type != given[0]
            if crosses and not kwargs.get("non_blocking"):
                self.found.append(name)
        if name == "copy_" and len(set(given)) > 1 and not (args[2:3] or [False])[0]:
            self.found.append(name)
        return func(*args, **kwargs)


BOUNDS = [("fixed", "flat"), ("public", "weight-bias"), ("fixed", "weight-bias")]


# Every rule with every bound, and each of both with both losses.
@pytest.mark.slow
@pytest.mark.parametrize(
    ("rule", "loss", "bound", "grouping"),
    [
        (rule, ("scores", "wgan-gp")[(i + j) % 2], *bound)
        for i, rule in enumerate(RULES)
        for j, bound in enumerate(BOUNDS)
    ],
)
def test_no_step_waits_for_its_device(rule: str, loss: str, bound: str, grouping: str) -> None:
    """On a device without values: whatever asks for one raises there. The batch's row numbers go over,
    and are not waited for."""
    module = plain("leaky-relu").to("meta")
    rows = normal_rows(12, loss, 0).float().to("meta")
    step, account, _ = engine(
        module,
        rows,
        SubsampledGaussian(noise_multiplier=1.0, sampling_rate=0.5),
        rate=0.5,
        rule=RULES[rule],
        bound=bound,
        grouping=grouping,
    )
    correction = [torch.zeros_like(p) for p in trained(module)]
    with Waits() as waits:
        for _ in range(2):
            step.gradient(LOSSES[loss], rows[:4], correction=correction)
    assert account.spent == 2 and waits.found == []
    assert all(p.grad is not None and p.grad.is_meta for p in trained(module))


def test_waits_are_seen() -> None:
    """The test above can fail: values and sizes are not to be had, and copies are noted."""
    away = torch.ones(3, device="meta")
    requests = [lambda: bool(away.any()), away.sum().item, lambda: away[away > 0], away.nonzero]
    with Waits() as waits:
        for question in requests:
            with pytest.raises((RuntimeError, NotImplementedError)):
                question()
        torch.ones(3).to("meta", non_blocking=True)
        torch.ones(3).to("meta")
        away.copy_(torch.ones(3))
    assert waits.found == ["_local_scalar_dense"] * 2 + ["nonzero", "_to_copy", "copy_"]


def test_a_step_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of a step waits for the garbage collector: the graph and its record are no cycle."""
    module, rows = plain("tanh"), normal_rows(12, "wgan-gp", 0).float()
    step, _, _ = engine(module, rows, Gaussian(noise_multiplier=1.0), rule=BAM(radius=0.1))
    traces: list[weakref.ref[Trace]] = []

    def traced(*args: object) -> Trace:
        trace = Trace(*args)  # type: ignore[arg-type]
        traces.append(weakref.ref(trace))
        return trace

    monkeypatch.setattr(clipping, "Trace", traced)
    gc.disable()
    try:
        step.gradient(LOSSES["wgan-gp"])
        assert len(traces) == 2 and all(ref() is None for ref in traces)
    finally:
        gc.enable()
