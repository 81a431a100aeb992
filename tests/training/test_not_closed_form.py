"""R2, R13: networks, and uses of a module, that the factors would miss are refused."""

import copy
from collections.abc import Callable

import pytest
import torch
from row_gradients import (
    WIDTH,
    Losses,
    drawn,
    flat,
    network,
    normal_rows,
    plain,
    trained,
)
from torch import Tensor, nn

from tabsynth.training.clipping import PerExampleClipper
from tabsynth.training.factors import NotClosedForm

torch.set_num_threads(1)


def sequence(module: nn.Module, rows: Tensor) -> Tensor:
    return module(rows[:, None]).sum((1, 2))


def longer_batch(module: nn.Module, rows: Tensor) -> Tensor:
    return module(torch.cat([rows, rows + 1])).view(2, -1).sum(0)


def weight_outside(module: nn.Module, rows: Tensor) -> Tensor:
    (first, *_) = trained(module)
    return module(rows).squeeze(1) * (rows @ first.T).sum(1)


def in_place(module: nn.Module, rows: Tensor) -> Tensor:
    first, *others = module.children()
    h = first(rows)
    h += 1
    return nn.Sequential(*others)(h).squeeze(1)


def twice(module: nn.Module, rows: Tensor) -> Tensor:
    points = rows.detach().requires_grad_()
    (one,) = torch.autograd.grad(module(points).sum(), points, create_graph=True)
    (two,) = torch.autograd.grad(one.square().sum(), points, create_graph=True)
    return two.square().sum(1)


OUTSIDE = [sequence, longer_batch, weight_outside, in_place, twice]


@pytest.mark.parametrize("ascent", [0.0, 0.1])
@pytest.mark.parametrize("losses", OUTSIDE, ids=lambda f: f.__name__)
def test_what_has_no_factors_is_refused(losses: Losses, ascent: float) -> None:
    """R2: uses that the factors would miss are noticed, and leave the module as it was."""
    module, rows = drawn(plain("tanh"), 1), normal_rows(5, "scores", 1)
    before = copy.deepcopy(module.state_dict())
    with pytest.raises(NotClosedForm):
        PerExampleClipper(module, ascent=ascent).clipped_sum(losses, rows, 0.5)
    assert not any("forward" in part.__dict__ for part in module.modules())
    for name, value in module.state_dict().items():
        assert torch.equal(value, before[name])


def half_frozen() -> nn.Module:
    module = network([5, 4, 1])
    module[0].bias.requires_grad_(False)
    return module


def tied() -> nn.Module:
    module = network([5, 5, 5])
    module[2].weight = module[0].weight
    return module


class Scaled(nn.Module):
    """A parameter that hangs on a linear layer, and is not the layer's."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(5, 2)
        self.layer.register_parameter("scale", nn.Parameter(torch.ones(2)))


class Doubled(nn.Linear):
    """A linear layer by its type only."""


ODD: dict[str, Callable[[], nn.Module]] = {
    "half frozen": half_frozen,
    "tied": tied,
    "a parameter on a layer": Scaled,
    "subclass": lambda: Doubled(3, 2),
    "embedding": lambda: nn.Embedding(3, 2),
    "another layer": lambda: nn.Sequential(nn.Linear(5, 4), nn.LayerNorm(4)),
    "in place": lambda: nn.Sequential(nn.Linear(5, 4), nn.ReLU(inplace=True), nn.Linear(4, 1)),
    "weight norm": lambda: nn.utils.parametrizations.weight_norm(nn.Linear(5, 2)),
}


@pytest.mark.parametrize("name", ODD)
def test_odd_networks_are_refused(name: str) -> None:
    """R2: a network that the closed form does not cover."""
    with pytest.raises(NotClosedForm, match="plain linear"):
        PerExampleClipper(ODD[name]())


@pytest.mark.parametrize("ascent", [0.0, 0.1])
def test_losses_are_one_a_row(ascent: float) -> None:
    """R13, R5: a batch's mean would make rows depend on each other, and on how many there are."""
    module, rows = drawn(plain("tanh"), 1), normal_rows(5, "scores", 1)
    clipper = PerExampleClipper(module, ascent=ascent)
    for losses in (lambda m, x: m(x).mean(), lambda m, x: m(x)):
        with pytest.raises(TypeError, match="one a row"):
            clipper.clipped_sum(losses, rows, 1.0)


def test_a_loss_that_raises_leaves_no_trace() -> None:
    module, rows = drawn(plain("tanh"), 1), normal_rows(5, "scores", 1)

    def broken(m: nn.Module, x: Tensor) -> Tensor:
        m(x)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        PerExampleClipper(module).clipped_sum(broken, rows, 1.0)
    assert not any("forward" in part.__dict__ for part in module.modules())
    assert module(rows).shape == (5, 1) and rows.shape == (5, WIDTH)


def test_a_loss_without_gradient_is_a_sum_of_zeros() -> None:
    module, rows = drawn(plain("tanh"), 1), normal_rows(5, "scores", 1)
    for ascent in (0.0, 0.1):
        clipper = PerExampleClipper(module, ascent=ascent)
        for losses in (lambda m, x: m(x).detach().squeeze(1), lambda m, x: 0 * m(x).squeeze(1)):
            sums = clipper.clipped_sum(losses, rows, 1.0)
            assert float(flat(sums).norm()) == 0
