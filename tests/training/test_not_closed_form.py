"""R2, R13: uses of a module that the factors would miss are noticed."""

import copy

import pytest
import torch
from row_gradients import (
    WIDTH,
    clip_rows,
    drawn,
    flat,
    normal_rows,
    plain,
    row_gradients,
    trained,
)
from torch import Tensor, nn

from tabsynth.training.clipping import PerExampleClipper
from tabsynth.training.factors import NotClosedForm, Trace

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


@pytest.mark.parametrize("losses", OUTSIDE, ids=lambda f: f.__name__)
def test_what_has_no_factors_is_noticed(losses: object, caplog: pytest.LogCaptureFixture) -> None:
    """R2: uses that the factors would miss are refused by the trace, said, and done another way."""
    module, rows = drawn(plain("tanh"), 1), normal_rows(5, "scores", 1)
    layers = [part for part in module.modules() if isinstance(part, nn.Linear)]
    with pytest.raises(NotClosedForm):
        Trace(layers, len(rows)).factors(losses, module, rows)  # type: ignore[arg-type]
    assert not any("forward" in part.__dict__ for part in module.modules())
    before = copy.deepcopy(module.state_dict())
    for ascent in (0.0, 0.1):
        caplog.clear()
        clipper = PerExampleClipper(module, ascent=ascent)
        grads = row_gradients(module, losses, rows, ascent)  # type: ignore[arg-type]
        gradient = flat(clipper.clipped_sum(losses, rows, 0.5)[0])  # type: ignore[arg-type]
        wanted = clip_rows(grads, 0.5).sum(0)
        torch.testing.assert_close(gradient, wanted, rtol=1e-9, atol=1e-10)
        assert not clipper.closed_form and "No closed form" in caplog.text
        assert all(record.levelname == "WARNING" for record in caplog.records)
    for name, value in module.state_dict().items():
        assert torch.equal(value, before[name])


@pytest.mark.parametrize("ascent", [0.0, 0.1])
def test_losses_are_one_a_row(ascent: float) -> None:
    """R13, R5: a batch's mean would make rows depend on each other, and on how many there are."""
    module, rows = drawn(plain("tanh"), 1), normal_rows(5, "scores", 1)
    clipper = PerExampleClipper(module, ascent=ascent)
    for closed, row_by_row in ((True, False), (False, False), (False, True)):
        clipper.closed_form, clipper.row_by_row = closed, row_by_row
        with pytest.raises(TypeError, match="one a row"):
            clipper.clipped_sum(lambda m, x: m(x).mean(), rows, 1.0)
        with pytest.raises(TypeError, match="one a row"):
            clipper.clipped_sum(lambda m, x: m(x), rows, 1.0)


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
            sums, whole = clipper.clipped_sum(losses, rows, 1.0)
            assert float(flat(sums).norm()) == 0 and whole.tolist() == [5]
