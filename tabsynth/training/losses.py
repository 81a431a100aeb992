"""Losses of critics, one a row."""

import torch
from torch import Tensor, nn

from tabsynth.training.formed import NeedsRowByRow, hooked


def critic_scores(critic: nn.Module, rows: Tensor) -> Tensor:
    """f(x), shape (batch,)."""
    return critic(rows).squeeze(1)


def minus_scores(critic: nn.Module, rows: Tensor) -> Tensor:
    """−f(x), a real row's loss, shape (batch,)."""
    return -critic_scores(critic, rows)


def gradient_penalty(critic: nn.Module, points: Tensor, weight: float) -> Tensor:
    """λ(‖∇ₓf(x̂)‖ − 1)², shape (batch,) (Gulrajani et al. 2017, arXiv:1704.00028).

    Parameters
    ----------
    points : Tensor, shape (batch, width)
        x̂: for privacy, a row of it may depend on one private row only.
    weight : float
        λ.
    """
    if hooked(critic):
        raise NeedsRowByRow("a gradient penalty")
    points = points.detach().requires_grad_()
    scores = critic_scores(critic, points).sum()
    (slope,) = torch.autograd.grad(scores, points, create_graph=True)
    # The root's derivative at 0 is infinite; a tiny floor keeps a flat critic's gradient finite.
    norm = (slope.square().sum(1) + 1e-20).sqrt()
    return weight * (norm - 1).square()
