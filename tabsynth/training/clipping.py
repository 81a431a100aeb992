"""Per-example clipping: Σ clip_C(gᵢ − r), never a clipped mean; r is a public reference.

In a layer z = Wa + b the gradient of one example is the outer product δ ⊗ [a; 1], so its squared norm
is |δ|²(|a|² + 1), its inner product with a reference R is δᵀR[a; 1], and a weighted sum is one matrix
product, (c·δ)ᵀ[a; 1] (Goodfellow 2015, arXiv:1510.01799): per-example gradients of linear layers are
never formed. A module with other parameters goes through opacus' per-sample gradients.
"""

import logging
import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from opacus.grad_sample import GradSampleModule
from torch import Tensor, nn

logger = logging.getLogger(__name__)

Losses = Callable[[nn.Module, Tensor], Tensor]


@dataclass(frozen=True)
class _Factors:
    """Per-example gradients of a linear layer, as factors: δ of shape (batch, out), a (batch, in)."""

    layer: nn.Linear
    delta: Tensor
    inputs: Tensor

    def squares(self) -> Tensor:
        """Squared norms, shape (batch,)."""
        bias = float(self.layer.bias is not None)
        return self.delta.square().sum(1) * (self.inputs.square().sum(1) + bias)

    def dot(self, reference: dict[int, Tensor]) -> Tensor:
        """Inner products with a reference gradient, shape (batch,)."""
        out = ((self.delta @ reference[id(self.layer.weight)]) * self.inputs).sum(1)
        if self.layer.bias is not None:
            out = out + self.delta @ reference[id(self.layer.bias)]
        return out

    def weighted_sum(self, weights: Tensor) -> dict[int, Tensor]:
        """Σ wᵢ gᵢ, by parameter. A row of weight 0 is blanked: 0 · NaN would be NaN."""
        blank = (weights == 0)[:, None]
        scaled = (self.delta * weights[:, None]).masked_fill(blank, 0)
        out = {id(self.layer.weight): scaled.T @ self.inputs.masked_fill(blank, 0)}
        if self.layer.bias is not None:
            out[id(self.layer.bias)] = scaled.sum(0)
        return out


class PerExampleClipper:
    """Clipped gradient sums of a module.

    Parameters
    ----------
    module : nn.Module
        Of layers that treat rows independently: no BatchNorm, no minibatch averages (R13).

    Formal guarantees
    -----------------
    Adding or removing an example changes the sum by at most ``max_norm`` in L2 norm, whatever the
    (public) reference. An example whose gradient is not finite contributes zero, and does not change
    what others contribute (R3).
    """

    def __init__(self, module: nn.Module) -> None:
        for part in module.modules():
            if isinstance(part, nn.modules.batchnorm._BatchNorm):
                raise TypeError("BatchNorm couples the examples of a batch: not under DP-SGD (R13)")
        self.module = module
        self.parameters = [p for p in module.parameters() if p.requires_grad]
        self.layers = [part for part in module.modules() if isinstance(part, nn.Linear)]
        # Each parameter is the weight or the bias of one layer: not tied, not parametrized.
        owned = [id(p) for layer in self.layers for p in (layer.weight, layer.bias)]
        self.closed_form = all(owned.count(id(p)) == 1 for p in self.parameters)
        if not self.closed_form:
            logger.info("not all parameters are in linear layers: opacus' per-sample gradients")

    def clipped_sum(
        self,
        losses: Losses,
        inputs: Tensor,
        max_norm: float,
        reference: Sequence[Tensor] | None = None,
    ) -> list[Tensor]:
        """Σ clip(gᵢ − reference), a tensor a parameter.

        Parameters
        ----------
        losses : callable
            ``losses(module, inputs)`` gives one loss a row, shape (batch,).
        inputs : Tensor, shape (batch, …)
            May be empty: then the sums are zero.
        max_norm : float
            C, the bound of one example's joint contribution; ``math.inf`` clips nothing.
        reference : list of Tensor, optional
            A public gradient that is taken off each example's before clipping.
        """
        if len(inputs) == 0:
            return [torch.zeros_like(p) for p in self.parameters]
        if not self.closed_form:
            grads = self._per_sample(losses, inputs)
            if reference is not None:
                grads = [g - r for g, r in zip(grads, reference, strict=True)]
            scale = _scale(_joint_norms(grads), max_norm)
            kept = scale > 0
            return [torch.einsum("b,b...->...", scale[kept], g[kept]) for g in grads]
        factors = self._factors(losses, inputs)
        scale = _scale(self._norms(factors, reference), max_norm)
        sums = self._sum(factors, scale)
        if reference is None:
            return sums
        return [s - scale.sum() * r for s, r in zip(sums, reference, strict=True)]

    def reference(self, losses: Losses, inputs: Tensor) -> tuple[list[Tensor], float]:
        """The mean gradient of public rows, and the median norm of theirs around it."""
        if not self.closed_form:
            grads = self._per_sample(losses, inputs)
            mean = [g.mean(0) for g in grads]
            norms = _joint_norms([g - m for g, m in zip(grads, mean, strict=True)])
        else:
            factors = self._factors(losses, inputs)
            weights = factors[0].delta.new_full((len(inputs),), 1 / len(inputs))
            mean = self._sum(factors, weights)
            norms = self._norms(factors, mean)
        return mean, float(norms.median())

    def _factors(self, losses: Losses, inputs: Tensor) -> list[_Factors]:
        seen: list[tuple[nn.Module, Tensor, Tensor]] = []

        def record(layer: nn.Module, args: tuple[Tensor, ...], output: Tensor) -> None:
            seen.append((layer, args[0].detach(), output))

        hooks = [layer.register_forward_hook(record) for layer in self.layers]
        try:
            total = losses(self.module, inputs).sum()
        finally:
            for hook in hooks:
                hook.remove()
        if any(output.dim() != 2 for _, _, output in seen):
            raise TypeError("a linear layer sees more than one vector a row: not in closed form")
        if len({layer for layer, _, _ in seen}) < len(seen):
            raise TypeError("a linear layer is used twice: its gradient has cross terms")
        deltas = torch.autograd.grad(total, [output for _, _, output in seen])
        return [
            _Factors(layer, delta, a)
            for (layer, a, _), delta in zip(seen, deltas, strict=True)
            if isinstance(layer, nn.Linear)
        ]

    def _norms(self, factors: list[_Factors], reference: Sequence[Tensor] | None) -> Tensor:
        """‖gᵢ − reference‖ over all parameters, shape (batch,)."""
        squares = torch.stack([f.squares() for f in factors]).sum(0)
        if reference is not None:
            named = {id(p): r for p, r in zip(self.parameters, reference, strict=True)}
            own = sum(float(r.square().sum()) for r in reference)
            squares = squares - 2 * torch.stack([f.dot(named) for f in factors]).sum(0) + own
            # Differences of squares cancel: what rounding may have hidden is added back, so that a
            # norm is never taken for smaller than it is.
            eps = torch.finfo(squares.dtype).eps
            squares = squares.clamp_min(0) + 64 * eps * (squares.abs() + own)
        return squares.sqrt()

    def _sum(self, factors: list[_Factors], weights: Tensor) -> list[Tensor]:
        found: dict[int, Tensor] = {}
        for factor in factors:
            found.update(factor.weighted_sum(weights))
        return [found.get(id(p), torch.zeros_like(p)) for p in self.parameters]

    def _per_sample(self, losses: Losses, inputs: Tensor) -> list[Tensor]:
        """Gradients of shape (batch, …), a tensor a parameter, by opacus."""
        engine = GradSampleModule(self.module, loss_reduction="sum")
        try:
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", message="Full backward hook is firing")
                losses(engine, inputs).sum().backward()
            return [p.grad_sample.detach() for p in self.parameters]  # type: ignore[attr-defined]
        finally:
            for p in self.parameters:
                p.grad = None
            engine.remove_hooks()
            engine.del_grad_sample()


def _joint_norms(grads: Sequence[Tensor]) -> Tensor:
    return torch.stack([g.flatten(1).norm(dim=1) for g in grads]).norm(dim=0)


def _scale(norms: Tensor, max_norm: float) -> Tensor:
    """Factor of each example, in [0, 1]; 0 where the norm is not finite."""
    if math.isinf(max_norm):
        scale = torch.ones_like(norms)
    else:
        # The slack in C keeps the rounding of norms on the safe side.
        slack = 1 - 64 * torch.finfo(norms.dtype).eps
        scale = (max_norm * slack / norms.clamp_min(1e-30)).clamp_max(1.0)
    return scale.masked_fill(~torch.isfinite(norms), 0)
