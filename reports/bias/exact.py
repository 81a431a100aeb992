"""The exact gradient of the bias-aware objective: the reference that BAM approximates.

The objective of row i is L_BAO = L(θ; i) + λ‖gᵢ‖ with gᵢ = ∇L(θ; i) (Knolle et al. 2023, equation 10).
Its gradient is gᵢ + λ Hᵢ gᵢ/‖gᵢ‖, with Hᵢ the Hessian of the row's loss (equation 13). BAM takes
∇L(θ + λ gᵢ/‖gᵢ‖; i) in its place (equation 14): the first two terms of its Taylor series are the exact
gradient, so the two differ by a term of order λ² where the loss is smooth.

Two implementations of the exact gradient: :func:`hessian_rows` for any module takes the derivative along
gᵢ/‖gᵢ‖ forward, over the gradient in reverse (Pearlmutter 1994), as the paper's "BAM FWD-REV" does;
:func:`bias_aware` is the objective itself as a loss, for the closed form of the library's private step.
They belong to this study; the library offers BAM only.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from tabsynth.training.clipping import MaterializedGradients, PerExampleClipper, ascent_step
from tabsynth.training.factors import Losses

Values = dict[str, Tensor]


@dataclass(frozen=True, kw_only=True)
class ExactBAM:
    """The exact gradient of the bias-aware objective; ``radius`` is λ, in units of the weights."""

    radius: float
    name = "bam-exact"


def _row_gradient(module: nn.Module, losses: Losses) -> Callable[[Values, Tensor], Values]:
    """∇L at given weights, of one row."""

    def loss(values: Values, row: Tensor) -> Tensor:
        def called(inputs: Tensor) -> Tensor:
            return torch.func.functional_call(module, values, (inputs,))

        return losses(called, row[None])[0]

    return torch.func.grad(loss)


def _along(gradient: Values, length: float) -> Values:
    """The gradient with norm ``length``; zero where it has no direction."""
    squares = torch.stack([g.square().sum() for g in gradient.values()])
    step = ascent_step(squares[:, None], length)[0]
    return {name: step * g for name, g in gradient.items()}


def _by_row(module: nn.Module, rows: Tensor, row: Callable[[Values, Tensor], Values]) -> list:
    values = {name: p.detach() for name, p in module.named_parameters() if p.requires_grad}
    return list(torch.func.vmap(lambda one: row(values, one))(rows).values())


def plain_rows(
    module: nn.Module, losses: Losses, rows: Tensor, radius: float = 0.0
) -> list[Tensor]:
    """∇L of each row, each tensor of shape (batch, …), by torch.func."""
    return _by_row(module, rows, _row_gradient(module, losses))


def moved_rows(module: nn.Module, losses: Losses, rows: Tensor, radius: float) -> list[Tensor]:
    """BAM's gradients, ∇L(θ + λ gᵢ/‖gᵢ‖; i), each tensor of shape (batch, …), by torch.func."""
    gradient = _row_gradient(module, losses)

    def moved(values: Values, row: Tensor) -> Values:
        step = _along(gradient(values, row), radius)
        return gradient({name: values[name] + step[name] for name in values}, row)

    return _by_row(module, rows, moved)


def hessian_rows(module: nn.Module, losses: Losses, rows: Tensor, radius: float) -> list[Tensor]:
    """gᵢ + λ Hᵢ gᵢ/‖gᵢ‖, each tensor of shape (batch, …), by torch.func.

    Parameters
    ----------
    module : nn.Module
    losses : callable
        ``losses(module, rows)``: one loss a row.
    rows : Tensor, shape (batch, …)
    radius : float
        λ.
    """
    gradient = _row_gradient(module, losses)

    def exact(values: Values, row: Tensor) -> Values:
        own = gradient(values, row)
        _, turned = torch.func.jvp(lambda v: gradient(v, row), (values,), (_along(own, radius),))
        return {name: own[name] + turned[name] for name in own}

    return _by_row(module, rows, exact)


class FormedClipper(PerExampleClipper):
    """Per-example gradients that one of the functions above forms, with the clip of the library."""

    def __init__(self, module: nn.Module, gradients: Callable, radius: float = 0.0) -> None:
        super().__init__(module)
        self.gradients, self.radius = gradients, radius

    def _gradients(self, losses: Losses, inputs: Tensor) -> MaterializedGradients:
        return MaterializedGradients(self.gradients(self.module, losses, inputs, self.radius))


def bias_aware(losses: Losses, radius: float) -> Losses:
    """L_BAO of each row, L + λ‖gᵢ‖: the ordinary closed form of its gradient is the exact gradient.

    Row i's gradient of a layer is δᵢ ⊗ [aᵢ; 1], so that ‖gᵢ‖² is the sum of ‖δᵢ‖²(‖aᵢ‖² + 1) over the
    layers. The loss differentiates the module once to find the δᵢ, as a gradient penalty does, and the
    library's factors cover such losses. A row without gradient keeps its own loss.

    Parameters
    ----------
    losses : callable
        L of each row, shape (batch,), of a module whose weights are all in linear layers with biases,
        each used once.
    radius : float
        λ.
    """

    def objective(module: nn.Module, rows: Tensor) -> Tensor:
        seen: list[tuple[Tensor, Tensor]] = []
        linear = [part for part in module.modules() if isinstance(part, nn.Linear)]
        own = {id(p) for part in linear for p in part.parameters()}
        if {id(p) for p in module.parameters()} != own or any(p.bias is None for p in linear):
            raise TypeError("Expected a module whose weights are all in linear layers with biases.")
        hooks = [
            part.register_forward_hook(lambda _, inputs, out: seen.append((inputs[0], out)))
            for part in linear
        ]
        try:
            result = losses(module, rows)
        finally:
            for hook in hooks:
                hook.remove()
        if len(seen) != len(linear):
            raise TypeError("Expected losses that use every layer once.")
        lefts = torch.autograd.grad(result.sum(), [out for _, out in seen], create_graph=True)
        squares = [
            left.square().sum(1) * (right.square().sum(1) + 1)
            for left, (right, _) in zip(lefts, seen, strict=True)
        ]
        # The root's derivative at 0 is infinite; a tiny floor keeps such a row's gradient its own.
        return result + radius * (torch.stack(squares).sum(0) + 1e-30).sqrt()

    return objective


def _joined(tensors: list[Tensor]) -> Tensor:
    return torch.cat([t.detach().double().flatten() for t in tensors])


def _cosine(one: Tensor, other: Tensor) -> float:
    return float(one @ other / (one.norm() * other.norm()))


def bias_of(
    module: nn.Module,
    losses: Losses,
    trained: Losses,
    rows: Tensor,
    bounds: Tensor | float,
    public: Tensor | None = None,
) -> dict[str, float]:
    """The bias of the clipped mean gradient of ``trained``, without noise, for PUBLIC rows only.

    What :func:`tabsynth.training.diagnostics.gradient_bias` measures of the library's rules, under the
    same names; ĝ is the mean gradient of ``losses``.
    """
    clipper = PerExampleClipper(module)

    def mean(of: Losses, bound: Tensor | float) -> tuple[Tensor, Tensor]:
        taken = None if public is None else clipper.reference(of, public)[0]
        sums, whole = clipper.clipped_sum(of, rows, bound, taken)
        return _joined(sums) / len(rows), whole

    ordinary, _ = mean(losses, math.inf)
    unclipped, _ = mean(trained, math.inf)
    clipped, whole = mean(trained, bounds)
    return {
        "magnitude": float(clipped @ ordinary / (ordinary @ ordinary)),
        "norm": float(ordinary.norm()),
        "bias": float((clipped - ordinary).norm()),
        "clipping_bias": float((clipped - unclipped).norm()),
        "cosine": _cosine(clipped, ordinary),
        "clipped": 1 - float(whole.min()) / len(rows),
    }


def direction(
    module: nn.Module, losses: Losses, rows: Tensor, bound: float, radius: float
) -> dict[str, float]:
    """BAM's gradients beside the exact ones of the same rows at the same weights, for PUBLIC rows only.

    Returns
    -------
    dict
        ``rows``: mean cosine of a row's two gradients. ``clipped``: cosine of the two clipped means.
        ``turn``: cosine of what the rules add to the clipped mean of DP-SGD. ``error``: the distance of the
        two clipped means, as a share of what the exact gradient adds. ``size``: what the exact gradient
        adds, as a share of the norm of DP-SGD's clipped mean.
    """
    every = [
        torch.cat([g.flatten(1) for g in of(module, losses, rows, radius)], dim=1)
        for of in (plain_rows, moved_rows, hessian_rows)
    ]
    norms = [g.norm(dim=1) for g in every]
    plain, moved, exact = (
        (g * (bound / n.clamp_min(1e-30)).clamp_max(1)[:, None]).mean(0)
        for g, n in zip(every, norms, strict=True)
    )
    cosines = (every[1] * every[2]).sum(1) / (norms[1] * norms[2]).clamp_min(1e-30)
    added = (exact - plain).norm()
    return {
        "rows": float(cosines.mean()),
        "clipped": _cosine(moved, exact),
        "turn": _cosine(moved - plain, exact - plain),
        "error": float((moved - exact).norm() / added),
        "size": float(added / plain.norm()),
    }
