"""The factors of per-example gradients, found on the way of one ordinary backward pass.

Both factors of both kinds (:mod:`tabsynth.training.factors`) come out of it with the weights held fixed,
whatever the activations, shortcuts and losses between the layers.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import embedding, linear

from tabsynth.training.factors import Factors, Layer, Losses, NotClosedForm, Use, one_a_row


class _Linear(torch.autograd.Function):
    """z = Wa + b with W held fixed, and a record of every backward pass that is itself differentiated.

    ``moves``: pairs (d, a) of another pass; row i sees W + sᵢ Σ dᵢ ⊗ [aᵢ; 1] in place of W.
    """

    @staticmethod
    def forward(
        ctx: Any, inputs: Tensor, layer: nn.Linear, trace: "Trace", *moves: Tensor
    ) -> Tensor:
        ctx.layer, ctx.trace = layer, trace
        ctx.save_for_backward(*moves)
        out = linear(inputs, layer.weight, layer.bias)
        for (left, right), biased in zip(_pairs(moves), trace.biased(layer), strict=True):
            along = (right * inputs).sum(1, keepdim=True)
            out.addcmul_(left, trace.step * (along + 1 if biased else along))
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (v,) = grads
        moves = ctx.saved_tensors
        out = v @ ctx.layer.weight.detach()
        for left, right in _pairs(moves):
            out = torch.addcmul(out, right, ctx.trace.step * (left * v).sum(1, keepdim=True))
        if torch.is_grad_enabled():
            # Zero, and added: its gradient is that of u = Wᵀv.
            if v.requires_grad:
                v.register_hook(_not_again)
            probe = torch.zeros_like(out).requires_grad_()
            ctx.trace.backward_uses.append((ctx.layer, v, probe))
            out = out + probe
        return (out, *([None] * (2 + len(moves))))


def _not_again(_: Tensor) -> None:
    """A pass that goes back through a backward pass, to be gone through once more, is not followed."""
    if torch.is_grad_enabled():
        raise NotClosedForm("the loss differentiates the module twice before its own gradient")


def _pairs(moves: Sequence[Tensor]) -> list[tuple[Tensor, Tensor]]:
    return list(zip(moves[::2], moves[1::2], strict=True))


class Trace:
    """Watches the layers of a module while a loss is computed, and finds the factors.

    Parameters
    ----------
    layers : sequence of Linear and Embedding layers
    batch : int
        Rows; every use must see one vector a row.
    moves : mapping, optional
        By layer, the uses of an earlier pass: row i sees its own weights, W + sᵢ Σ leftᵢ ⊗ rightᵢ.
    step : Tensor, shape (batch,), optional
        sᵢ, with ``moves``.
    """

    def __init__(
        self,
        layers: Sequence[Layer],
        batch: int,
        moves: Mapping[Layer, Sequence[Use]] | None = None,
        step: Tensor | None = None,
    ) -> None:
        self.layers, self.batch = layers, batch
        self.moves = moves or {}
        self.step = torch.zeros(batch, 1) if step is None else step[:, None]
        self.forward_uses: list[tuple[Layer, Tensor, Tensor, int]] = []
        self.backward_uses: list[tuple[Layer, Tensor, Tensor]] = []

    def biased(self, layer: Layer) -> list[bool]:
        """Whether each move of a layer moves its bias too."""
        return [use.bias for use in self.moves.get(layer, ())]

    @contextmanager
    def _watching(self) -> Iterator[None]:
        try:
            for layer in self.layers:
                watched = self._linear if isinstance(layer, nn.Linear) else self._embedding
                layer.forward = _bound(watched, layer)  # type: ignore[method-assign, assignment]
            yield
        finally:
            for layer in self.layers:
                layer.__dict__.pop("forward", None)

    def factors(self, losses: Losses, module: nn.Module, inputs: Tensor) -> list[Factors]:
        """The factors of each row's gradient of its loss, a :class:`Factors` a layer that is used."""
        try:
            return self._found(losses, module, inputs)
        finally:
            # The graph knows the trace: without this the two keep each other alive for ever.
            self.forward_uses.clear()
            self.backward_uses.clear()

    def _found(self, losses: Losses, module: nn.Module, inputs: Tensor) -> list[Factors]:
        with self._watching():
            total = one_a_row(losses(module, inputs), self.batch).sum()
        outputs = [out for _, _, out, _ in self.forward_uses]
        probes = [probe for _, _, probe in self.backward_uses]
        if any(out._version != version for _, _, out, version in self.forward_uses):
            raise NotClosedForm("a layer's output was changed in place")
        if not total.requires_grad:
            return []
        own = [p for layer in self.layers for p in layer.parameters(recurse=False)]
        grads = torch.autograd.grad(total, [*outputs, *probes, *own], allow_unused=True)
        if any(grad is not None for grad in grads[len(outputs) + len(probes) :]):
            raise NotClosedForm("a layer's weights are used outside of it")
        uses: dict[Layer, list[Use]] = {}
        for (layer, right, _, _), left in zip(self.forward_uses, grads, strict=False):
            if left is not None:
                parts = [Use(left, right, getattr(layer, "bias", None) is not None)]
                if isinstance(layer, nn.Embedding):
                    parts = _lookups(left, right)
                uses.setdefault(layer, []).extend(parts)
        rights = grads[len(outputs) : len(outputs) + len(probes)]
        for (layer, left, _), right in zip(self.backward_uses, rights, strict=True):
            if right is not None:
                uses.setdefault(layer, []).append(Use(left.detach(), right, False))
        return [Factors(layer, found) for layer, found in uses.items()]

    def _linear(self, layer: nn.Linear, inputs: Tensor) -> Tensor:
        if inputs.dim() != 2 or len(inputs) != self.batch:
            raise NotClosedForm("a linear layer sees other than one vector a row")
        moves = [t for use in self.moves.get(layer, ()) for t in (use.left, use.right)]
        right = inputs.detach()
        if not inputs.requires_grad:  # else what comes out would have no history of its own
            inputs = inputs.detach().requires_grad_()
        out = _Linear.apply(inputs, layer, self, *moves)
        assert isinstance(out, Tensor)
        return self._noted(layer, right, out)

    def _embedding(self, layer: nn.Embedding, inputs: Tensor) -> Tensor:
        if inputs.dim() not in (1, 2) or len(inputs) != self.batch:
            raise NotClosedForm("an embedding sees other than a row of categories a row")
        out = embedding(inputs, layer.weight.detach().requires_grad_())
        for use in self.moves.get(layer, ()):
            same = (inputs == use.right.view(-1, *[1] * (inputs.dim() - 1)))[..., None]
            left = self.step * use.left
            out = out + same * (left if inputs.dim() == 1 else left[:, None])
        return self._noted(layer, inputs, out)

    def _noted(self, layer: Layer, right: Tensor, out: Tensor) -> Tensor:
        if out.requires_grad:  # else a constant: nothing of it goes back to the weights
            self.forward_uses.append((layer, right, out, out._version))
        return out


def _bound(method: Callable[[Any, Tensor], Tensor], layer: Layer) -> Callable[[Tensor], Tensor]:
    return lambda inputs: method(layer, inputs)


def _lookups(left: Tensor, right: Tensor) -> list[Use]:
    """An embedding's uses: one a looked-up category."""
    if right.dim() == 1:
        return [Use(left, right, False)]
    return [Use(left[:, j], right[:, j], False) for j in range(right.shape[1])]
