"""BAM and the gradient of the objective that it approximates (Knolle et al. 2023, equations 10, 13 and 14).

The objective of row i is L(θ; i) + λ‖gᵢ‖ with gᵢ = ∇L(θ; i). Its exact gradient is gᵢ + λ Hᵢ gᵢ/‖gᵢ‖, with Hᵢ the Hessian
of the row's loss; BAM takes ∇L(θ + λ gᵢ/‖gᵢ‖; i) instead.
"""

import pytest
import torch
from row_gradients import flat, row_gradients
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits

from tabsynth.training.clipping import PerExampleClipper
from tabsynth.training.networks import mlp


def cross_entropies(module: nn.Module, rows: Tensor) -> Tensor:
    """Return the loss of each row, whose last column is its label."""
    logits = module(rows[:, :-1]).squeeze(1)
    return binary_cross_entropy_with_logits(logits, rows[:, -1], reduction="none")


def labelled_rows(count: int) -> Tensor:
    rows = torch.randn(count, 6, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    rows[:, -1] = (rows[:, -1] > 0).double()
    return rows


def exact_gradients(module: nn.Module, rows: Tensor, radius: float) -> Tensor:
    """Return ∇(L + λ‖∇L‖) of each row by a second backward pass, shape (rows, parameters)."""
    parameters, out = list(module.parameters()), []
    for row in rows:
        loss = cross_entropies(module, row[None]).sum()
        first = torch.autograd.grad(loss, parameters, create_graph=True)
        norm = torch.cat([g.flatten() for g in first]).norm()
        both = torch.autograd.grad(loss + radius * norm, parameters)
        out.append(torch.cat([g.flatten() for g in both]))
    return torch.stack(out)


@pytest.mark.parametrize(("activation", "order"), [("tanh", 2), ("relu", 1)])
def test_bam_is_the_exact_gradient_to_first_order_where_the_loss_is_smooth(activation, order):
    """The error falls with λ² for tanh.

    For ReLU it falls with λ only, as what the penalty adds does: rows whose move crosses a kink are as many as λ is
    large, and the Hessian does not see the kink.
    """
    rows = labelled_rows(1500)
    module = mlp((5, 6, 4, 1), torch.Generator().manual_seed(0), activation=activation).double()
    errors = []
    for radius in (0.02, 0.01):
        clipper = PerExampleClipper(module, ascent=radius)
        bam = flat(clipper.clipped_sum(cross_entropies, rows, float("inf"))[0]) / len(rows)
        torch.testing.assert_close(
            bam, row_gradients(module, cross_entropies, rows, radius).mean(0), rtol=1e-8, atol=1e-8
        )
        exact = exact_gradients(module, rows, radius).mean(0)
        errors.append(float((bam - exact).norm()) / radius**order)
    assert errors[1] == pytest.approx(errors[0], rel=0.1 if order == 2 else 0.25)
