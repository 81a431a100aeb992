"""Per-example gradients as factors: never formed, yet exact.

Row i's gradient of a layer's weight is a short sum of outer products, one for each use of the weight
on the way from the row to its loss:

- forward, z = Wa + b adds ∂L/∂z ⊗ [a; 1];
- backward, u = Wᵀv inside a gradient penalty (which differentiates the module with respect to its
  input, and is differentiated again) adds v ⊗ ∂L/∂u, and nothing to the bias.

Norms, inner products and weighted sums then take matrix products only (Goodfellow 2015, arXiv:1510.01799,
for the first kind).

Both factors of both kinds come out of one ordinary backward pass with the weights held fixed,
whatever the activations, shortcuts and losses between the layers.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import embedding_bag, linear

from tabsynth.training.sums import chunked_products, chunked_sum
from tabsynth.training.units import UnitPlaces, take_rows

Losses = Callable[[nn.Module, Tensor], Tensor]


def one_a_row(losses: Tensor, batch: int) -> Tensor:
    """Return the losses, if they are one a row: a batch's mean would make rows depend on each other."""
    if losses.shape != (batch,):
        raise TypeError(
            f"Expected losses of shape ({batch},), one a row; got {tuple(losses.shape)}."
        )
    return losses


@dataclass(frozen=True)
class OneHotRows:
    """Rows of as many ones each, and zeros.

    Attributes
    ----------
    values : Tensor, shape (batch, width)
    ones : LongTensor, shape (batch, columns)
        Where each row is 1.
    """

    values: Tensor
    ones: Tensor

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.values)

    @property
    def device(self) -> torch.device:
        """The device of the rows."""
        return self.values.device

    def split(self, size: int) -> Iterator["OneHotRows"]:
        """Yield the rows in parts, as :meth:`torch.Tensor.split` has them."""
        parts = zip(self.values.split(size), self.ones.split(size), strict=True)
        return (OneHotRows(values, ones) for values, ones in parts)


def inputs_of(rows: Tensor | OneHotRows) -> Tensor:
    """Return the network inputs of rows."""
    return rows.values if isinstance(rows, OneHotRows) else rows


class NotClosedForm(TypeError):
    """A network or a loss whose per-example gradients have no short factors."""


@dataclass(frozen=True)
class Use:
    """One use of a weight: row i adds ``left[i] ⊗ right[i]`` to its gradient.

    ``left`` has shape (batch, out), ``right`` shape (batch, in). ``bias``: whether the bias was added.
    ``ones``: where ``right`` is 1, if it is 0 everywhere else.
    """

    left: Tensor
    right: Tensor
    bias: bool
    ones: Tensor | None = None

    def dot(self, other: "Use") -> Tensor:
        """Return inner products of the two outer products, shape (batch,); infinite where one is not finite."""
        return _bound_products(_inner(self.left, other.left) * _inner(self.right, other.right))


def _bound_products(products: Tensor) -> Tensor:
    """Return inner products, infinite where one is not finite."""
    return products.nan_to_num(math.inf, math.inf, math.inf)


def row_norms(rows: Tensor) -> Tensor:
    """Return norms of the rows, never too small, as float64 of shape (batch,)."""
    return norms_of([rows])[0]


def norms_of(tensors: Sequence[Tensor]) -> Tensor:
    """Return norms of the rows of some tensors, never too small, as float64 of shape (tensors, batch).

    On a CPU in float32, longer by what it may round off, where no square overflows or vanishes; else in float64.
    """
    if tensors[0].device.type != "cpu" or all(rows.dtype == torch.float64 for rows in tensors):
        return torch.stack([_norms(rows) for rows in tensors])
    norms = torch.stack([torch.linalg.vector_norm(rows, dim=1) for rows in tensors])
    bounds = norms.double() * (1 + (max(rows.shape[1] for rows in tensors) + 4) * 2.0**-24)
    least, most = map(float, norms.aminmax()) if norms.numel() else (1.0, 1.0)
    if least > 2.0**-40 and most < 2.0**40:
        return bounds
    odd = ~((norms > 2.0**-40) & (norms < 2.0**40))
    each = zip(tensors, bounds, odd, strict=True)
    return torch.stack([torch.where(o, _norms(r), f) if o.any() else f for r, f, o in each])


def _norms(rows: Tensor) -> Tensor:
    return torch.linalg.vector_norm(rows, dim=1, dtype=torch.float64)


def _inner(first: Tensor, second: Tensor) -> Tensor:
    """Return inner products of the rows, added up in float64; each product is rounded to the working precision."""
    return (first * second).sum(1, dtype=torch.float64)


def own(layer: nn.Linear) -> list[Tensor]:
    """Return the weight of a layer, and its bias if it has one."""
    return [layer.weight] if layer.bias is None else [layer.weight, layer.bias]


class Reference(list[Tensor]):
    """A public gradient that is subtracted from each row's, a tensor a parameter."""

    @cached_property
    def norms(self) -> list[Tensor]:
        """The norm of each tensor, in float64."""
        return [torch.linalg.vector_norm(r, dtype=torch.float64) for r in self]


# The tensors of a reference with their norms, by the ``id`` of the parameter.
Measured = Mapping[int, tuple[Tensor, Tensor]]


def measure(factors: Sequence["Factors"]) -> None:
    """Find the norms of all layers at once."""
    rights = [use.right for f in factors for use in f.uses]
    lefts = [use.left for f in factors for use in f.uses]
    measured = iter(norms_of([*lefts, *rights]).unbind())
    of_lefts = [[next(measured) for _ in f.uses] for f in factors]
    for f, norms in zip(factors, of_lefts, strict=True):
        f.norms = [(left_norm, next(measured)) for left_norm in norms]


def row_squares(
    factors: Sequence["Factors"], reference: Measured | None = None
) -> dict[int, Tensor]:
    """Return the squared norms of the rows' gradients by parameter (its ``id``), in float64, each of shape (batch,).

    With a reference, those of the differences from it.
    ‖g − r‖² = ‖g‖² − 2⟨g, r⟩ + ‖r‖² cancels where g is near r. What the rounding of each part may
    have hidden is added back, so that no difference is taken for shorter than it is.
    """
    layers = [f.layer for f in factors]
    total = torch.stack([f.weight_squares for f in factors])
    biased = [f for f in factors if len(own(f.layer)) > 1]
    if reference is None:
        bias_norms = [f.bias_norm for f in biased]
    else:
        weights, lengths = zip(*(reference[id(layer.weight)] for layer in layers), strict=True)
        length = torch.stack(lengths)[:, None]
        length = length * (1 + max(weight.numel() for weight in weights) * 2.0**-53)
        dots = [f.weight_dots(weight) for f, weight in zip(factors, weights, strict=True)]
        total = (total - 2 * torch.stack(dots) + length.square()).clamp_min(0)
        # lₖW is an inner product of ``out`` terms in the working precision, or Wrₖ a sum over the ones of rₖ, and the
        # products with the other factor are rounded to it; numbers below 2⁻¹²⁶ may be lost altogether. All else is in
        # float64.
        size = torch.stack([f.size for f in factors])
        rights = torch.stack([sum(right for _, right in f.norms) for f in factors])  # type: ignore[misc]
        unit = (max(f.terms for f in factors) + 4) * torch.finfo(weights[0].dtype).eps
        lost = max(f.vanishing for f in factors) * (rights + 1)
        error = max(f.float64_error for f in factors)
        total = total + unit * length * size + lost + error * (size + length).square()
        apart = [f.bias_gradients - reference[id(f.layer.bias)][0] for f in biased]
        bias_norms = list(norms_of(apart).unbind()) if apart else []
    squares = dict(zip((id(layer.weight) for layer in layers), total.unbind(), strict=True))
    for f, bias_norm in zip(biased, bias_norms, strict=True):
        squares[id(f.layer.bias)] = bias_norm.square()
    return squares


@dataclass
class Factors:
    """All uses of one layer: its per-example gradients."""

    layer: nn.Linear
    uses: Sequence[Use]

    def first(self, rows: int) -> "Factors":
        """Return the factors of the first rows alone."""
        uses = [Use(u.left[:rows], u.right[:rows], u.bias) for u in self.uses]
        return Factors(self.layer, uses)

    @cached_property
    def norms(self) -> list[tuple[Tensor, Tensor]]:
        """Norms of the two factors of each use, float64 of shape (batch,); see `measure`."""
        measure([self])
        return self.norms

    @cached_property
    def sizes(self) -> list[Tensor]:
        """‖lₖ‖‖rₖ‖ of each use, each of shape (batch,)."""
        return [left_norm * right_norm for left_norm, right_norm in self.norms]

    @cached_property
    def size(self) -> Tensor:
        """Σₖ ‖lₖ‖‖rₖ‖ of each row, shape (batch,): the norm of the weight's gradient where it is used once."""
        return sum(self.sizes[1:], self.sizes[0])

    @cached_property
    def weight_squares(self) -> Tensor:
        """Squared norms of the weight's gradients, in float64 and never too small, shape (batch,)."""
        if len(self.uses) == 1:
            return self.size.square() * (1 + self.float64_error)
        total = torch.stack(self.sizes).square().sum(0)
        for k, use in enumerate(self.uses):
            for other in self.uses[:k]:
                total = total + 2 * use.dot(other)
        # Products that cancel: what rounding may have hidden is added back. An inner product of n terms loses
        # a unit roundoff of its size, and n 2⁻¹²⁶ of numbers too small for the working precision.
        lefts, rights = (sum(norms) for norms in zip(*self.norms, strict=True))
        error = self.float64_error + 2 * torch.finfo(self.uses[0].left.dtype).eps
        lost = self.vanishing * (lefts * lefts + rights * rights + 1)
        return total.clamp_min(0) + error * self.size.square() + lost

    @property
    def float64_error(self) -> float:
        """The error of inner products of two outer products of this layer in float64, relative to their sizes."""
        return (sum(self.layer.weight.shape) + 8 + len(self.uses) ** 2) * 2.0**-52

    @property
    def terms(self) -> int:
        """The most terms of a sum in the working precision, in an inner product with a direction of the weight."""
        ones = (use.ones.shape[1] for use in self.uses if use.ones is not None)
        return max(len(self.layer.weight), *ones, 0)

    @property
    def vanishing(self) -> float:
        """The most that a sum of products in the working precision loses because they are below its smallest number."""
        return sum(self.layer.weight.shape) * 2.0**-110

    @property
    def bias_norm(self) -> Tensor:
        """Norms of the bias's gradients, in float64 and never too small, shape (batch,)."""
        alone = len(self.uses) == 1 and self.uses[0].bias
        return self.norms[0][0] if alone else row_norms(self.bias_gradients)

    def unit_squares(
        self,
        units: UnitPlaces,
        reference: Measured | None,
        parts: Tensor | None = None,
    ) -> dict[int, tuple[Tensor, Tensor]]:
        """Return the squared norms of sums over units, as :func:`row_squares`, and the sums of their terms' norms.

        Parameters
        ----------
        units : UnitPlaces
        reference : mapping, optional
            r by parameter and its norm, which is subtracted from each row's gradient.
        parts : float64 Tensor, shape (batch,), optional
            aⱼ, from 0 to 1: as how much of a row each row counts in the sum; by default 1.

        Returns
        -------
        dict of tuple of float64 Tensor, shape (batch,)
            By parameter, and the same at all places of a unit; the second one is of outer products before they are
            added up, and of biases with the reference subtracted.

        Notes
        -----
        A unit of m rows has m times the uses of a row (Li et al. 2022, arXiv:2110.05679, for positions of a sequence).
        With A = Σⱼ aⱼ, ‖Σⱼ aⱼ(gⱼ − r)‖² = Σⱼ aⱼ² ‖gⱼ‖² + 2 Σ_{j<k} aⱼ aₖ ⟨gⱼ, gₖ⟩ − 2A Σⱼ aⱼ ⟨gⱼ, r⟩ + A² ‖r‖². What
        the rounding of each part may have hidden is added back.
        """
        weight, count = self.layer.weight, units.count(parts)
        square = None if parts is None else parts.square()
        eps = torch.finfo(self.uses[0].left.dtype).eps
        error = self.float64_error + (len(self.uses) * units.members.shape[1]) ** 2 * 2.0**-52
        size = units.total(self.size, parts)
        lefts, rights = (units.total(sum(norms)) for norms in zip(*self.norms, strict=True))
        total = units.total(self.weight_squares, square)
        total = total + 2 * units.total(units.products(self._dots_with, parts), parts)
        hidden = 2 * eps * size.square() + self.vanishing * (lefts.square() + rights.square() + 1)
        reference_norm = torch.zeros_like(size)
        if reference is not None:
            r, norm = reference[id(weight)]
            reference_norm = norm * (1 + r.numel() * 2.0**-53) * count
            lost = self.vanishing * count * (rights + count)
            hidden = hidden + (self.terms + 4) * eps * reference_norm * size + lost
            total = (
                total
                - 2 * count * units.total(self.weight_dots(r), parts)
                + reference_norm.square()
            )
        out = {
            id(weight): (
                total.clamp_min(0) + hidden + error * (size + reference_norm).square(),
                size,
            )
        }
        bias = self.layer.bias
        if bias is not None:
            rows = (
                self.bias_gradients
                if reference is None
                else self.bias_gradients - reference[id(bias)][0]
            )
            norms = row_norms(rows)
            size = units.total(norms, parts)
            dots = units.products(
                lambda at: _bound_products(_inner(rows, take_rows(rows, at))), parts
            )
            total = units.total(norms.square(), square) + 2 * units.total(dots, parts)
            hidden = (2 * eps + error) * size.square() + self.vanishing
            out[id(bias)] = total.clamp_min(0) + hidden, size
        return out

    def _dots_with(self, at: Tensor) -> Tensor:
        """Return inner products of each row's gradient of the weight with that of the row at another place, shape (batch,)."""
        other_uses = [Use(take_rows(u.left, at), take_rows(u.right, at), u.bias) for u in self.uses]
        dots = [use.dot(other) for use in self.uses for other in other_uses]
        return sum(dots[1:], dots[0])

    def weight_dots(self, weight: Tensor) -> Tensor:
        """Return inner products with a direction of the weight; minus infinity where one is not finite."""
        dots = [_dot(use, weight) for use in self.uses]
        return sum(dots[1:], dots[0]).nan_to_num(-math.inf, -math.inf, -math.inf)

    @cached_property
    def bias_gradients(self) -> Tensor:
        """Per-example gradients of the bias, shape (batch, out)."""
        lefts = [use.left for use in self.uses if use.bias]
        if not lefts:
            return torch.zeros_like(self.uses[0].left)
        return sum(lefts[1:], lefts[0])

    def means(self) -> dict[int, Tensor]:
        """Return the mean over the rows by parameter, in the working precision: of public rows."""
        lefts = [use.left for use in self.uses]
        parts = self._products(lefts, lefts[0].dtype, lambda left, right: left.T @ right)
        total = parts[0] if len(parts) == 1 else torch.stack(parts).sum(0)
        out = {id(self.layer.weight): total / len(lefts[0])}
        if self.layer.bias is not None:
            out[id(self.layer.bias)] = self.bias_gradients.mean(0)
        return out

    def _products(
        self,
        lefts: Sequence[Tensor],
        dtype: torch.dtype,
        product: Callable[[Tensor, Tensor], Tensor],
    ) -> list[Tensor]:
        """Return the sum over the rows of leftᵢ ⊗ rightᵢ for each use of the weight.

        The sum over ones is taken in ``dtype``; any other is what ``product`` returns.
        """
        weight = self.layer.weight.detach()
        return [
            _add_at(use.ones, left.to(dtype), weight.shape[1])
            if use.ones is not None
            else product(left, use.right)
            for use, left in zip(self.uses, lefts, strict=True)
        ]

    def weighted_sums(
        self,
        scale: Mapping[int, Tensor],
        blank: Tensor | None,
        reference: Mapping[int, Tensor] | None,
        working: torch.dtype,
    ) -> dict[int, Tensor]:
        """Return Σ sᵢ (gᵢ − r) by parameter, in float64, with the rounding of :mod:`tabsynth.training.sums`.

        Parameters
        ----------
        scale : mapping to float64 Tensor, shape (batch,)
            sᵢ by parameter.
        blank : bool Tensor, shape (batch,), optional
            Rows that are left out whatever they hold (0 · NaN is NaN).
        reference : mapping to Tensor, optional
            r by parameter.
        working : dtype
            In which the products of a chunk are added up: that of the network, or float64.
        """
        weight, bias = self.layer.weight, self.layer.bias
        s = scale[id(weight)]
        lefts = [_weigh(use.left.to(working), s, blank) for use in self.uses]
        parts = self._products(
            lefts,
            s.dtype,
            lambda left, right: chunked_products(left, _without(right.to(working), blank)),
        )
        total = sum(parts[1:], parts[0])
        if reference is not None:
            total -= chunked_sum(s) * reference[id(weight)].double()
        if bias is None:
            return {id(weight): total}
        alone = len(self.uses) == 1 and self.uses[0].bias
        if reference is None:
            same = alone and scale[id(bias)] is s
            biased = self.bias_gradients.to(working)
            biased = lefts[0] if same else _weigh(biased, scale[id(bias)], blank)
            return {id(weight): total, id(bias): chunked_sum(biased)}
        biased = (self.bias_gradients - reference[id(bias)]).to(working)
        biased = _weigh(biased, scale[id(bias)], blank)
        # A reference that is not finite shows whatever the rows are.
        return {
            id(weight): total,
            id(bias): chunked_sum(biased) + 0 * reference[id(bias)].double(),
        }


def _weigh(rows: Tensor, scale: Tensor, blank: Tensor | None) -> Tensor:
    """Return each row times its factor; zero where it is left out."""
    return _without(rows * scale[:, None].to(rows.dtype), blank)


def _without(rows: Tensor, blank: Tensor | None) -> Tensor:
    """Put zero where a row is left out.

    In memory the result lies row by row, whether there are such rows or not: the order of a matrix product's operations
    may follow from how its factors lie.
    """
    return (rows if blank is None else rows.masked_fill(blank[:, None], 0)).contiguous()


def _dot(use: Use, weight: Tensor) -> Tensor:
    """Return inner products of a use with a reference of its weight, shape (batch,)."""
    if use.ones is not None:
        return _inner(use.left, _sum_at(use.ones, weight))
    return _inner(use.left @ weight, use.right)


def _sum_at(ones: Tensor, weight: Tensor) -> Tensor:
    """Return Wa of rows a that are 1 at some inputs and 0 elsewhere, shape (batch, out)."""
    return embedding_bag(ones, weight.T.contiguous(), mode="sum")


def _add_at(ones: Tensor, left: Tensor, inputs: int) -> Tensor:
    """Return Σᵢ leftᵢ ⊗ aᵢ of such rows, row by row for one place of a 1 after the other; shape (out, inputs)."""
    total = left.new_zeros(inputs, left.shape[1])
    for at in ones.unbind(1):
        total.index_add_(0, at, left)
    return total.T


class _Linear(torch.autograd.Function):
    """z = Wa + b with W held fixed, and a record of every backward pass that is itself differentiated.

    ``ones``: where the inputs are 1, if they are 0 everywhere else.
    ``moves``: pairs (d, a) of another pass; row i sees W + sᵢ Σ dᵢ ⊗ [aᵢ; 1] in place of W.
    """

    @staticmethod
    def forward(
        ctx: Any,
        inputs: Tensor,
        ones: Tensor | None,
        layer: nn.Linear,
        trace: "Trace",
        *moves: Tensor,
    ) -> Tensor:
        ctx.layer, ctx.trace = layer, trace
        ctx.save_for_backward(*moves)
        if ones is None:
            out = linear(inputs, layer.weight, layer.bias)
        else:
            out = _sum_at(ones, layer.weight)
            if layer.bias is not None:
                out += layer.bias
        for (left, right), biased in zip(_pairs(moves), trace.moves_bias(layer), strict=True):
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
        return (out, *([None] * (3 + len(moves))))


def _not_again(_: Tensor) -> None:
    """Refuse to follow a pass through a backward pass that is to be gone through once more."""
    if torch.is_grad_enabled():
        raise NotClosedForm("the loss differentiates the module twice before its own gradient")


def _pairs(moves: Sequence[Tensor]) -> list[tuple[Tensor, Tensor]]:
    return list(zip(moves[::2], moves[1::2], strict=True))


class Trace:
    """Watches the layers of a module while a loss is computed, and finds the factors.

    Parameters
    ----------
    layers : sequence of Linear layers
    batch : int
        Rows; every use must see one vector a row.
    moves : mapping, optional
        By layer, the uses of an earlier pass: row i sees its own weights, W + sᵢ Σ leftᵢ ⊗ rightᵢ.
    step : Tensor, shape (batch,), optional
        sᵢ, with ``moves``.
    """

    def __init__(
        self,
        layers: Sequence[nn.Linear],
        batch: int,
        moves: Mapping[nn.Linear, Sequence[Use]] | None = None,
        step: Tensor | None = None,
    ) -> None:
        self.layers, self.batch = layers, batch
        self.one_hot: OneHotRows | None = None
        self.moves = moves or {}
        self.step = torch.zeros(batch, 1) if step is None else step[:, None]
        self.forward_uses: list[tuple[nn.Linear, Tensor, Tensor | None, Tensor, int]] = []
        self.backward_uses: list[tuple[nn.Linear, Tensor, Tensor]] = []

    def moves_bias(self, layer: nn.Linear) -> list[bool]:
        """Return whether each move of a layer moves its bias too."""
        return [use.bias for use in self.moves.get(layer, ())]

    @contextmanager
    def _watching(self) -> Iterator[None]:
        try:
            for layer in self.layers:
                layer.forward = partial(self._linear, layer)  # type: ignore[method-assign]
            yield
        finally:
            for layer in self.layers:
                layer.__dict__.pop("forward", None)

    def factors(
        self, losses: Losses, module: nn.Module, inputs: Tensor | OneHotRows
    ) -> list[Factors]:
        """Return the factors of each row's gradient of its loss, a :class:`Factors` a layer that is used."""
        self.one_hot = inputs if isinstance(inputs, OneHotRows) else None
        try:
            return self._found(losses, module, inputs_of(inputs))
        finally:
            # The graph knows the trace: without this the two keep each other alive for ever.
            self.forward_uses.clear()
            self.backward_uses.clear()

    def _found(self, losses: Losses, module: nn.Module, inputs: Tensor) -> list[Factors]:
        with self._watching():
            total = one_a_row(losses(module, inputs), self.batch).sum()
        outputs = [use[3] for use in self.forward_uses]
        probes = [probe for _, _, probe in self.backward_uses]
        if any(out._version != version for *_, out, version in self.forward_uses):
            raise NotClosedForm("a layer's output was changed in place")
        if not total.requires_grad:
            return []
        parameters = [p for layer in self.layers for p in own(layer)]
        grads = torch.autograd.grad(total, [*outputs, *probes, *parameters], allow_unused=True)
        if any(grad is not None for grad in grads[len(outputs) + len(probes) :]):
            raise NotClosedForm("a layer's weights are used outside of it")
        uses: dict[nn.Linear, list[Use]] = {}
        for (layer, right, ones, *_), left in zip(self.forward_uses, grads, strict=False):
            if left is not None:
                use = Use(left, right, layer.bias is not None, ones)
                uses.setdefault(layer, []).append(use)
        rights = grads[len(outputs) : len(outputs) + len(probes)]
        for (layer, left, _), right in zip(self.backward_uses, rights, strict=True):
            if right is not None:
                uses.setdefault(layer, []).append(Use(left.detach(), right, False))
        return [Factors(layer, layer_uses) for layer, layer_uses in uses.items()]

    def _linear(self, layer: nn.Linear, inputs: Tensor) -> Tensor:
        if inputs.dim() != 2 or len(inputs) != self.batch:
            raise NotClosedForm("a linear layer sees other than one vector a row")
        moves = [t for use in self.moves.get(layer, ()) for t in (use.left, use.right)]
        right = inputs.detach()
        ones = None
        if self.one_hot is not None and inputs is self.one_hot.values:
            ones = self.one_hot.ones
        if not inputs.requires_grad:  # else what comes out would have no history of its own
            inputs = inputs.detach().requires_grad_()
        out = _Linear.apply(inputs, ones, layer, self, *moves)
        assert isinstance(out, Tensor)
        return self._note(layer, right, out, ones)

    def _note(self, layer: nn.Linear, right: Tensor, out: Tensor, ones: Tensor | None) -> Tensor:
        if out.requires_grad:  # else a constant: nothing of it goes back to the weights
            self.forward_uses.append((layer, right, ones, out, out._version))
        return out
