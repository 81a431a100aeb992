"""Per-example gradients as factors: never formed, yet exact.

Row i's gradient of a layer's weight is a short sum of outer products, one for each use of the weight
on the way from the row to its loss:

- forward, z = Wa + b adds ∂L/∂z ⊗ [a; 1];
- backward, u = Wᵀv inside a gradient penalty (which differentiates the module with respect to its
  input, and is differentiated again) adds v ⊗ ∂L/∂u, and nothing to the bias.

Norms, inner products and weighted sums then take matrix products only (Goodfellow 2015, arXiv:1510.01799,
for the first kind). :mod:`tabsynth.training.trace` finds the factors.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

Losses = Callable[[nn.Module, Tensor], Tensor]
Layer = nn.Linear | nn.Embedding


def one_a_row(losses: Tensor, batch: int) -> Tensor:
    """The losses, if they are one a row: a batch's mean would make rows depend on each other (R13)."""
    if losses.shape != (batch,):
        raise TypeError(
            f"Expected losses of shape ({batch},), one a row; got {tuple(losses.shape)}."
        )
    return losses


class NotClosedForm(Exception):
    """The loss uses the module in a way whose per-example gradients have no short factors."""


@dataclass(frozen=True)
class Use:
    """One use of a weight: row i adds ``left[i] ⊗ right[i]`` to its gradient.

    ``left`` has shape (batch, out). ``right`` has shape (batch, in), or holds the row's category
    number, shape (batch,), for an embedding. ``bias``: whether the bias was added.
    """

    left: Tensor
    right: Tensor
    bias: bool

    def dot(self, other: "Use") -> Tensor:
        """Inner products of the two outer products, shape (batch,)."""
        left = (self.left * other.left).sum(1)
        if self.right.dim() == 1:
            return left * (self.right == other.right)
        return left * (self.right * other.right).sum(1)

    def norms(self) -> tuple[Tensor, Tensor]:
        """Norms of ``left`` and of the outer products, each of shape (batch,).

        Not squared: a short factor's square may vanish where the product does not.
        """
        left = torch.linalg.vector_norm(self.left, dim=1)
        if self.right.dim() == 1:
            return left, left
        return left, left * torch.linalg.vector_norm(self.right, dim=1)


@dataclass(frozen=True)
class Factors:
    """All uses of one layer: its per-example gradients."""

    layer: Layer
    uses: Sequence[Use]

    def first(self, rows: int) -> "Factors":
        """The factors of the first rows alone."""
        uses = [Use(u.left[:rows], u.right[:rows], u.bias) for u in self.uses]
        return Factors(self.layer, uses)

    def squares(self) -> dict[int, Tensor]:
        """Squared norms by parameter (its ``id``), each of shape (batch,)."""
        bias = getattr(self.layer, "bias", None)
        if len(self.uses) == 1 and self.uses[0].bias:  # one use: δ ⊗ [a; 1], and |δ| is wanted once
            left, whole = self.uses[0].norms()
            return {id(self.layer.weight): whole.square(), id(bias): left.square()}
        sizes = [use.norms()[1] for use in self.uses]
        total = torch.stack(sizes).square().sum(0)
        if len(self.uses) > 1:
            for k, one in enumerate(self.uses):
                for other in self.uses[:k]:
                    total = total + 2 * one.dot(other)
            # Products that cancel: what rounding may have hidden is added back, so that a norm is
            # never taken for smaller than it is.
            largest = torch.stack(sizes).sum(0).square()
            total = total.clamp_min(0) + 64 * torch.finfo(total.dtype).eps * largest
        out = {id(self.layer.weight): total}
        if bias is not None:
            out[id(bias)] = torch.linalg.vector_norm(self._biased(), dim=1).square()
        return out

    def _biased(self) -> Tensor:
        """Per-example gradients of the bias, shape (batch, out)."""
        lefts = [use.left for use in self.uses if use.bias]
        if not lefts:
            return torch.zeros_like(self.uses[0].left)
        return lefts[0] if len(lefts) == 1 else torch.stack(lefts).sum(0)

    def dots(self, reference: Mapping[int, Tensor]) -> dict[int, Tensor]:
        """Inner products with a reference gradient, by parameter, each of shape (batch,)."""
        weight = reference[id(self.layer.weight)]
        parts = []
        for use in self.uses:
            if use.right.dim() == 1:
                parts.append((use.left * weight[use.right]).sum(1))
            else:
                parts.append(((use.left @ weight) * use.right).sum(1))
        out = {id(self.layer.weight): parts[0] if len(parts) == 1 else torch.stack(parts).sum(0)}
        bias = getattr(self.layer, "bias", None)
        if bias is not None:
            out[id(bias)] = self._biased() @ reference[id(bias)]
        return out

    def weighted_sums(
        self, weights: Mapping[int, Tensor], blank: Tensor | None
    ) -> dict[int, Tensor]:
        """Σ wᵢ gᵢ by parameter; rows in ``blank`` are left out whatever they hold (0 · NaN is NaN)."""
        w = weights[id(self.layer.weight)][:, None]
        total = None
        for use in self.uses:
            left, right = use.left * w, use.right
            if blank is not None:
                left = left.masked_fill(blank[:, None], 0)
            if right.dim() == 1:
                part = torch.zeros_like(self.layer.weight).index_add_(0, right, left)
            else:
                if blank is not None:
                    right = right.masked_fill(blank[:, None], 0)
                part = left.T @ right
            total = part if total is None else total + part
        assert total is not None
        out = {id(self.layer.weight): total}
        bias = getattr(self.layer, "bias", None)
        if bias is not None:
            biased = self._biased()
            if blank is not None:
                biased = biased.masked_fill(blank[:, None], 0)
            out[id(bias)] = weights[id(bias)] @ biased
        return out
