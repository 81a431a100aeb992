"""BAM and the gradient of the objective that it approximates (Knolle et al. 2023, equations 10, 13 and 14).

The objective of row i is L(θ; i) + λ‖gᵢ‖ with gᵢ = ∇L(θ; i). Its exact gradient is gᵢ + λ Hᵢ gᵢ/‖gᵢ‖, with Hᵢ the Hessian
of the row's loss; BAM takes ∇L(θ + λ gᵢ/‖gᵢ‖; i) instead.
"""

from collections.abc import Callable

import pytest
import torch
from row_gradients import flat
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap
from torch.nn.functional import binary_cross_entropy_with_logits

from tabsynth.training.clipping import PerExampleClipper
from tabsynth.training.networks import mlp


def cross_entropies(module: Callable[[Tensor], Tensor], rows: Tensor) -> Tensor:
    """Return the loss of each row, whose last column is its label."""
    logits = module(rows[:, :-1]).squeeze(1)
    return binary_cross_entropy_with_logits(logits, rows[:, -1], reduction="none")


def labelled_rows(count: int) -> Tensor:
    rows = torch.randn(count, 6, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    rows[:, -1] = (rows[:, -1] > 0).double()
    return rows


def exact_gradients(module: nn.Module, rows: Tensor) -> tuple[Tensor, Tensor]:
    """Return the means of ∇L and of ∇‖∇L‖ over the rows, by automatic differentiation over all rows at once."""

    def loss(values: dict[str, Tensor], row: Tensor) -> Tensor:
        return cross_entropies(lambda x: functional_call(module, values, (x,)), row[None]).sum()

    def norm(values: dict[str, Tensor], row: Tensor) -> Tensor:
        return torch.cat([g.flatten() for g in grad(loss)(values, row).values()]).norm()

    values = {name: p.detach() for name, p in module.named_parameters()}
    first, second = (vmap(grad(of), (None, 0))(values, rows) for of in (loss, norm))
    return flat([g.mean(0) for g in first.values()]), flat([g.mean(0) for g in second.values()])


@pytest.mark.parametrize(("activation", "order"), [("tanh", 2), ("relu", 1)])
def test_bam_is_the_exact_gradient_to_first_order_where_the_loss_is_smooth(activation, order):
    """The error falls with λ² for tanh.

    For ReLU it falls with λ only, as what the penalty adds does: rows whose move crosses a kink are as many as λ is
    large, and the Hessian does not see the kink.
    """
    rows = labelled_rows(1500)
    module = mlp((5, 6, 4, 1), torch.Generator().manual_seed(0), activation=activation).double()
    loss, norm = exact_gradients(module, rows)
    errors = []
    for radius in (0.02, 0.01):
        clipper = PerExampleClipper(module, ascent=radius)
        bam = flat(clipper.clipped_sum(cross_entropies, rows, float("inf"))) / len(rows)
        errors.append(float((bam - loss - radius * norm).norm()) / radius**order)
    assert errors[1] == pytest.approx(errors[0], rel=0.1 if order == 2 else 0.25)
