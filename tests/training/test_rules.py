"""R9: where each rule takes a row's gradient, and what of it is free of charge."""

import copy
import math

import pytest
import torch
from private_steps import RULES, clipped_rows, engine, grads
from row_gradients import LOSSES, clip_rows, drawn, flat, normal_rows, plain, row_gradients, trained
from torch import Tensor, nn

from tabsynth.errors import InputError
from tabsynth.privacy.accounting.mechanisms import Gaussian
from tabsynth.training.clipping import PerExampleClipper
from tabsynth.training.private_step import (
    BAM,
    DPSAT,
    DPSGD,
    STEP_RULES,
    PrivateStep,
    minus_scores,
    step_rule,
)

torch.set_num_threads(1)


def test_rules_by_name() -> None:
    assert set(STEP_RULES) == {"dp-sgd", "dp-sat", "bam"}
    assert step_rule("dp-sgd") == step_rule("dp-sgd", 0.5) == DPSGD()
    assert step_rule("dp-sat") == DPSAT(radius=0.03) and step_rule("bam") == BAM(radius=0.01)
    assert step_rule("dp-sat", 0.1) == DPSAT(radius=0.1) and step_rule("bam", 0.2) == BAM(
        radius=0.2
    )
    for name, cls in STEP_RULES.items():
        assert type(step_rule(name)) is cls
    with pytest.raises(InputError, match="step_rule"):
        step_rule("sam")
    for name in ("dp-sat", "bam"):
        for radius in (0.0, -1.0, math.nan, math.inf):
            with pytest.raises(InputError, match="radius"):
                step_rule(name, radius)


def bowl(module: nn.Module, rows: Tensor) -> Tensor:
    """a z² + b z of a row (a, b), with z the module's only weight."""
    z = module(torch.ones_like(rows[:, :1])).squeeze(1)
    return rows[:, 0] * z.square() + rows[:, 1] * z


def by_batch_mean(module: nn.Module, rows: Tensor, radius: float, bound: float) -> Tensor:
    """What BAM must not be: one ascent along the batch's mean gradient, then a clip a row."""
    mean, moved = row_gradients(module, bowl, rows).mean(0), copy.deepcopy(module)
    weights = nn.utils.parameters_to_vector(trained(module)).detach()
    nn.utils.vector_to_parameters(weights + radius * mean / mean.norm(), trained(moved))
    return clip_rows(row_gradients(moved, bowl, rows), bound).sum(0)


@pytest.mark.parametrize("bound", [0.1, 0.5])
def test_an_ascent_along_a_row_is_free_along_the_mean_it_is_not(bound: float) -> None:
    """R9, at B = 32: one more row moves BAM's sum by the bound and no more. An ascent along the mean
    lets it turn all other rows round: 65 bounds.

    The 32 rows are at the bottom of a bowl, a little to the right; the one more pulls to the left.
    """
    module = nn.Linear(1, 1, bias=False).double()
    nn.init.constant_(module.weight, 0.01)
    rows = torch.tensor([[1.0, 0.0]] * 32 + [[0.0, -1000.0]]).double()
    clipper = PerExampleClipper(module, ascent=0.5)
    sums = [flat(clipper.clipped_sum(bowl, rows[:k], bound)) for k in (32, 33)]
    assert float((sums[0] - sums[1]).norm()) / bound == pytest.approx(1.0, abs=1e-9)
    wrong = [by_batch_mean(module, rows[:k], 0.5, bound) for k in (32, 33)]
    assert float((wrong[0] - wrong[1]).norm()) / bound == pytest.approx(65.0, rel=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("loss", LOSSES)
def test_every_rule_and_loss(rule: str, loss: str) -> None:
    """Three steps with next to no noise are brute force: at the weights, at the weights moved along the
    previous step, and at each row's own."""
    module, rows = drawn(plain("tanh"), 1), normal_rows(7, loss, 1, 2.0)
    public = normal_rows(4, loss, 2)
    step, _, _ = engine(
        module, rows, Gaussian(noise_multiplier=1e-13), rule=RULES[rule], max_norm=0.6
    )
    previous = None
    for _ in range(3):
        weights = nn.utils.parameters_to_vector(module.parameters()).detach().clone()
        at = weights
        if rule == "dp-sat" and previous is not None:
            at = weights + 0.3 * previous / previous.norm()
        nn.utils.vector_to_parameters(at, module.parameters())
        wanted = clipped_rows(step, LOSSES[loss], rows, public).sum(0) / 10.0
        nn.utils.vector_to_parameters(weights, module.parameters())
        step.gradient(LOSSES[loss], public)
        previous = torch.from_numpy(grads(module))
        torch.testing.assert_close(previous, wanted, rtol=1e-8, atol=1e-10)
        with torch.no_grad():
            for p in module.parameters():
                p.sub_(0.1 * p.grad)


class Watched:
    """A loss that keeps the weights it is evaluated at."""

    def __init__(self) -> None:
        self.seen: list[Tensor] = []
        self.broken = False

    def __call__(self, module: nn.Module, rows: Tensor) -> Tensor:
        self.seen.append(flat(trained(module)).clone())
        if self.broken:
            raise RuntimeError("broken")
        return minus_scores(module, rows)


def step_and_loss(rule: DPSAT | BAM | DPSGD) -> tuple[nn.Module, PrivateStep, Watched]:
    module = plain("tanh")
    rows = normal_rows(7, "scores", 1).float()
    step, _, _ = engine(module, rows, Gaussian(noise_multiplier=1.0), rule=rule)
    return module, step, Watched()


def test_dp_sat_goes_by_the_previous_private_gradient() -> None:
    """R9, to the last bit: the first step at θ; later ones at θ + ρ ĝ/‖ĝ‖, with ĝ what the step before
    released, noise and correction included, whatever an optimiser made of it; the weights are back."""
    module, step, losses = step_and_loss(DPSAT(radius=0.3))
    public = normal_rows(3, "scores", 2).float()
    correction = [torch.full_like(p, 0.01) for p in module.parameters()]
    released = None
    for _ in range(4):
        before = flat(trained(module)).clone()
        losses.seen.clear()
        step.gradient(losses, public, correction=correction)
        assert len(losses.seen) == 2  # public rows and private ones at the same weights
        wanted = before
        if released is not None:
            norm = torch.stack([g.norm() for g in released]).norm()
            pieces = zip(trained(module), released, strict=True)
            wanted = flat([p.detach() + g * (0.3 / norm) for p, g in pieces])
            assert float((wanted - before).norm()) == pytest.approx(0.3, rel=1e-4)
        assert all(torch.equal(seen, wanted) for seen in losses.seen)
        assert torch.equal(flat(trained(module)), before)
        released = [p.grad.clone() for p in trained(module)]
        with torch.no_grad():
            for p in trained(module):
                p.sub_(0.1 * p.grad)
                p.grad.zero_()  # an optimiser may do as it likes with it


@pytest.mark.parametrize("rule", [DPSGD(), BAM(radius=0.3)])
def test_other_rules_do_not_move_the_weights(rule: DPSGD | BAM) -> None:
    """BAM's moves are each row's own: the module's weights stay where they are."""
    module, step, losses = step_and_loss(rule)
    before = flat(trained(module)).clone()
    for _ in range(3):
        step.gradient(losses)
    assert len(losses.seen) == (6 if isinstance(rule, BAM) else 3)
    assert all(torch.equal(seen, before) for seen in losses.seen)


def test_weights_are_back_when_a_loss_raises() -> None:
    module, step, losses = step_and_loss(DPSAT(radius=0.3))
    step.gradient(losses)
    before, losses.broken = flat(trained(module)).clone(), True
    with pytest.raises(RuntimeError, match="broken"):
        step.gradient(losses)
    assert not torch.equal(losses.seen[-1], before)
    assert torch.equal(flat(trained(module)), before)


def test_dp_sat_without_a_direction_stays() -> None:
    """A previous gradient of zero has none."""
    module, step, losses = step_and_loss(DPSAT(radius=0.3))
    step.gradient(losses)
    step._previous = [torch.zeros_like(p) for p in trained(module)]
    before = flat(trained(module)).clone()
    step.gradient(losses)
    assert torch.equal(losses.seen[-1], before)
