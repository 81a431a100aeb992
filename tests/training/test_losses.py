"""Losses of critics: by hand, by finite differences, and one row at a time."""

import pytest
import torch
from row_gradients import drawn, normal_rows, plain, row_gradient
from torch import nn

from tabsynth.training.private_step import critic_scores, gradient_penalty, minus_scores

torch.set_num_threads(1)


def test_scores_are_one_a_row() -> None:
    module, rows = drawn(plain("tanh"), 0), normal_rows(5, "scores", 0)
    assert critic_scores(module, rows).shape == (5,)
    assert torch.equal(critic_scores(module, rows), module(rows)[:, 0])
    assert torch.equal(minus_scores(module, rows), -module(rows)[:, 0])
    assert critic_scores(module, rows[:1]).shape == (1,)


def test_penalty_of_a_linear_critic_by_hand() -> None:
    """f(x) = w·x + b: λ(‖w‖ − 1)² whatever x, with gradient 2λ(‖w‖ − 1) w/‖w‖ and nothing for b."""
    layer, rows = nn.Linear(3, 1).double(), torch.randn(4, 3, dtype=torch.float64)
    with torch.no_grad():
        layer.weight.copy_(torch.tensor([[3.0, 0.0, 4.0]]))
    losses = gradient_penalty(layer, rows, 7.0)
    torch.testing.assert_close(losses, torch.full((4,), 7.0 * 16).double(), rtol=1e-12, atol=0)
    grad = row_gradient(layer, lambda m, x: gradient_penalty(m, x, 7.0), rows[:1])
    wanted = 2 * 7 * 4 * torch.tensor([0.6, 0.0, 0.8, 0.0], dtype=torch.float64)
    torch.testing.assert_close(grad, wanted, rtol=1e-12, atol=1e-12)


def test_rows_do_not_depend_on_each_other() -> None:
    """R13: alone or in company, a row's penalty is the same."""
    module, rows = drawn(plain("leaky-relu"), 3), normal_rows(6, "penalty", 3)
    together = gradient_penalty(module, rows, 10.0)
    alone = torch.cat([gradient_penalty(module, rows[i : i + 1], 10.0) for i in range(6)])
    torch.testing.assert_close(together, alone, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_flat_critic_has_a_finite_gradient(dtype: torch.dtype) -> None:
    """The root's derivative at 0 is infinite: a dead ReLU critic would become NaN."""
    module = plain("relu").to(dtype)
    with torch.no_grad():
        for p in module.parameters():
            p.zero_()
    losses = gradient_penalty(module, torch.ones(2, 5, dtype=dtype), 10.0)
    torch.testing.assert_close(losses, torch.full((2,), 10.0, dtype=dtype), rtol=1e-5, atol=0)
    grads = torch.autograd.grad(losses.sum(), list(module.parameters()), allow_unused=True)
    assert all(g is None or bool(torch.isfinite(g).all()) for g in grads)


def test_points_are_not_changed() -> None:
    module, points = plain("tanh"), torch.ones(2, 5)
    gradient_penalty(module, points, 1.0)
    assert not points.requires_grad and points.grad is None
