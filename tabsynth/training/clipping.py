"""Per-example clipping: Σ wᵢ · min(1, C/‖gᵢ‖) · gᵢ, never a clipped mean.

In a layer z = Wa + b the gradient of one example is the outer product δ ⊗ [a; 1], so its squared norm
is |δ|²(|a|² + 1), and the clipped sum is one matrix product, (c·δ)ᵀ[a; 1] (Goodfellow 2015,
arXiv:1510.01799): per-example gradients of linear layers are never formed. A module with other
parameters goes through opacus' per-sample gradients.
"""

import logging
import warnings
from collections.abc import Callable

import torch
from opacus.grad_sample import GradSampleModule
from torch import Tensor, nn

logger = logging.getLogger(__name__)

Losses = Callable[[nn.Module, Tensor], Tensor]


class PerExampleClipper:
    """Clipped gradient sums of a module.

    Parameters
    ----------
    module : nn.Module
        Of layers that treat rows independently: no BatchNorm, no minibatch averages (R13).
    max_norm : float
        C, the L2 bound of one example's joint gradient over all parameters; ``math.inf`` clips
        nothing, for runs without privacy.

    Formal guarantees
    -----------------
    Adding or removing an example with weight 1 changes the sum by at most C in L2 norm. An example
    whose gradient is not finite contributes zero, and does not change what others contribute (R3).
    """

    def __init__(self, module: nn.Module, max_norm: float) -> None:
        for part in module.modules():
            if isinstance(part, nn.modules.batchnorm._BatchNorm):
                raise TypeError("BatchNorm couples the examples of a batch: not under DP-SGD (R13)")
        self.module = module
        self.max_norm = max_norm
        self.parameters = [p for p in module.parameters() if p.requires_grad]
        self.layers = [part for part in module.modules() if isinstance(part, nn.Linear)]
        owned = {id(p) for layer in self.layers for p in layer.parameters()}
        self.closed_form = all(id(p) in owned for p in self.parameters)
        if not self.closed_form:
            logger.info("not all parameters are in linear layers: opacus' per-sample gradients")

    def __call__(
        self, losses: Losses, inputs: Tensor, weights: Tensor | None = None
    ) -> list[Tensor]:
        """The weighted sum of clipped gradients, a tensor a parameter.

        Parameters
        ----------
        losses : callable
            ``losses(module, inputs)`` gives one loss a row, shape (batch,).
        inputs : Tensor, shape (batch, …)
            May be empty: then the sums are zero.
        weights : Tensor, shape (batch,), optional
            Default 1. The sensitivity to a row is C times its weight.
        """
        if len(inputs) == 0:
            return [torch.zeros_like(p) for p in self.parameters]
        road = self._closed if self.closed_form else self._per_sample
        return road(losses, inputs, weights)

    def _closed(self, losses: Losses, inputs: Tensor, weights: Tensor | None) -> list[Tensor]:
        seen: list[tuple[nn.Module, Tensor, Tensor]] = []

        def record(layer: nn.Module, args: tuple[Tensor, ...], output: Tensor) -> None:
            seen.append((layer, args[0].detach(), output))

        hooks = [layer.register_forward_hook(record) for layer in self.layers]
        try:
            total = losses(self.module, inputs).sum()
        finally:
            for hook in hooks:
                hook.remove()
        used = [layer for layer, _, _ in seen]
        if len(set(used)) < len(used):
            raise TypeError("a linear layer is used twice: its gradient has cross terms")
        deltas = torch.autograd.grad(total, [output for _, _, output in seen])
        squares = [
            (d * d).sum(1) * ((a * a).sum(1) + float(layer.bias is not None))
            for (layer, a, _), d in zip(seen, deltas, strict=True)
        ]
        scale, finite = self._scale(torch.stack(squares).sum(0).sqrt(), weights)
        found: dict[int, Tensor] = {}
        for (layer, a, _), d in zip(seen, deltas, strict=True):
            assert isinstance(layer, nn.Linear)
            if finite is not None:  # 0 · NaN is NaN: a bad row is blanked, not multiplied away
                a, d = a.masked_fill(~finite[:, None], 0), d.masked_fill(~finite[:, None], 0)
            scaled = d * scale[:, None]
            found[id(layer.weight)] = scaled.T @ a
            if layer.bias is not None:
                found[id(layer.bias)] = scaled.sum(0)
        return [found.get(id(p), torch.zeros_like(p)) for p in self.parameters]

    def _per_sample(self, losses: Losses, inputs: Tensor, weights: Tensor | None) -> list[Tensor]:
        engine = GradSampleModule(self.module, loss_reduction="sum")
        try:
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", message="Full backward hook is firing")
                losses(engine, inputs).sum().backward()
            grads = [p.grad_sample for p in self.parameters]  # type: ignore[attr-defined]
            norms = torch.stack([g.flatten(1).norm(dim=1) for g in grads]).norm(dim=0)
            scale, finite = self._scale(norms, weights)
            if finite is not None:
                scale, grads = scale[finite], [g[finite] for g in grads]
            return [torch.einsum("b,b...->...", scale, g) for g in grads]
        finally:
            for p in self.parameters:
                p.grad = None
            engine.remove_hooks()
            engine.del_grad_sample()

    def _scale(self, norms: Tensor, weights: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """Factor of each example; and which are finite, if not all are."""
        # The slack in C keeps rounding on the safe side.
        slack = 1 - 8 * torch.finfo(norms.dtype).eps
        scale = (self.max_norm * slack / norms.clamp_min(1e-30)).clamp_max(1.0)
        if weights is not None:
            scale = scale * weights
        finite = torch.isfinite(norms)
        if bool(finite.all()):
            return scale, None
        return scale.masked_fill(~finite, 0), finite
