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
from functools import cached_property

import torch
from torch import Tensor, nn

from tabsynth.training.sums import chunked_products, chunked_sum

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
        """Inner products of the two outer products, in float64, shape (batch,)."""
        left = _inner(self.left, other.left)
        if self.right.dim() == 1:
            return left * (self.right == other.right)
        return left * _inner(self.right, other.right)

    def norms(self) -> tuple[Tensor, Tensor]:
        """Norms of ``left`` and of ``right`` (1 for a category), as float64, each of shape (batch,)."""
        left = row_norms(self.left)
        return left, torch.ones_like(left) if self.right.dim() == 1 else row_norms(self.right)


def row_norms(rows: Tensor) -> Tensor:
    """Norms of the rows, never too small, as float64 of shape (batch,).

    In float32, longer by what it may round off, where no square overflows or vanishes; else in float64.
    """
    if rows.dtype == torch.float64:
        return torch.linalg.vector_norm(rows, dim=1)
    norms = torch.linalg.vector_norm(rows, dim=1)
    found = norms.double() * (1 + (rows.shape[1] + 4) * 2.0**-24)
    odd = ~((norms > 2.0**-40) & (norms < 2.0**40))
    if rows.device.type == "cpu" and not bool(odd.any()):
        return found
    return torch.where(odd, torch.linalg.vector_norm(rows, dim=1, dtype=torch.float64), found)


def _inner(one: Tensor, other: Tensor) -> Tensor:
    return (one.double() * other.double()).sum(1)


@dataclass(frozen=True)
class Factors:
    """All uses of one layer: its per-example gradients."""

    layer: Layer
    uses: Sequence[Use]

    def first(self, rows: int) -> "Factors":
        """The factors of the first rows alone."""
        uses = [Use(u.left[:rows], u.right[:rows], u.bias) for u in self.uses]
        return Factors(self.layer, uses)

    @cached_property
    def norms(self) -> list[tuple[Tensor, Tensor]]:
        """Norms of the two factors of each use."""
        return [use.norms() for use in self.uses]

    @cached_property
    def size(self) -> Tensor:
        """Σₖ ‖lₖ‖‖rₖ‖ of each row, shape (batch,): the norm of the weight's gradient where it is used once."""
        return torch.stack([left * right for left, right in self.norms]).sum(0)

    @cached_property
    def weight_squares(self) -> Tensor:
        """Squared norms of the weight's gradients, in float64 and never too small, shape (batch,)."""
        total = torch.stack([left * right for left, right in self.norms]).square().sum(0)
        for k, one in enumerate(self.uses):
            for other in self.uses[:k]:
                total = total + 2 * one.dot(other)
        # Products that cancel: what rounding may have hidden is added back.
        return total.clamp_min(0) + self._float64_error * self.size.square()

    @property
    def _float64_error(self) -> float:
        """Of inner products of two outer products of this layer in float64, relative to their sizes."""
        return (sum(self.layer.weight.shape) + 8 + len(self.uses)) * 2.0**-52

    def squares(self) -> dict[int, Tensor]:
        """Squared norms by parameter (its ``id``), in float64, each of shape (batch,)."""
        out = {id(self.layer.weight): self.weight_squares}
        bias = getattr(self.layer, "bias", None)
        if bias is not None:
            alone = len(self.uses) == 1 and self.uses[0].bias
            left = self.norms[0][0] if alone else row_norms(self.biased)
            out[id(bias)] = left.square()
        return out

    def squares_from(self, reference: Mapping[int, Tensor]) -> dict[int, Tensor]:
        """Squared norms of the differences from a reference gradient, as :meth:`squares`.

        ‖g − r‖² = ‖g‖² − 2⟨g, r⟩ + ‖r‖² cancels where g is near r. What the rounding of each part may
        have hidden is added back, so that no difference is taken for shorter than it is.
        """
        weight = reference[id(self.layer.weight)]
        own = torch.linalg.vector_norm(weight, dtype=torch.float64)
        total = (self.weight_squares - 2 * self._weight_dots(weight) + own.square()).clamp_min(0)
        # lₖW is an inner product of ``out`` terms in the working precision, which may lose numbers
        # below 2⁻¹²⁶ altogether; all else is in float64.
        unit = torch.finfo(weight.dtype).eps
        lengths = torch.stack([right for _, right in self.norms]).sum(0)
        hidden = (len(weight) + 4) * unit * own * self.size + 2.0**-120 * lengths
        out = {
            id(self.layer.weight): total + hidden + self._float64_error * (self.size + own).square()
        }
        bias = getattr(self.layer, "bias", None)
        if bias is not None:
            out[id(bias)] = row_norms(self.biased - reference[id(bias)]).square()
        return out

    def dots(self, directions: Mapping[int, Tensor]) -> dict[int, Tensor]:
        """Inner products with a direction, by parameter, in float64, each of shape (batch,)."""
        out = {id(self.layer.weight): self._weight_dots(directions[id(self.layer.weight)])}
        bias = getattr(self.layer, "bias", None)
        if bias is not None:
            out[id(bias)] = self.biased.double() @ directions[id(bias)].double()
        return out

    def _weight_dots(self, weight: Tensor) -> Tensor:
        return torch.stack([_dot(use, weight) for use in self.uses]).sum(0)

    @cached_property
    def biased(self) -> Tensor:
        """Per-example gradients of the bias, shape (batch, out)."""
        lefts = [use.left for use in self.uses if use.bias]
        if not lefts:
            return torch.zeros_like(self.uses[0].left)
        return lefts[0] if len(lefts) == 1 else torch.stack(lefts).sum(0)

    def means(self) -> dict[int, Tensor]:
        """The mean over the rows by parameter, in the working precision: of public rows."""
        parts = []
        for use in self.uses:
            if use.right.dim() == 1:
                none = torch.zeros_like(self.layer.weight)
                parts.append(none.index_add_(0, use.right, use.left))
            else:
                parts.append(use.left.T @ use.right)
        rows = len(self.uses[0].left)
        out = {
            id(self.layer.weight): (parts[0] if len(parts) == 1 else torch.stack(parts).sum(0))
            / rows
        }
        bias = getattr(self.layer, "bias", None)
        if bias is not None:
            out[id(bias)] = self.biased.mean(0)
        return out

    def weighted_sums(
        self,
        scale: Mapping[int, Tensor],
        blank: Tensor | None,
        reference: Mapping[int, Tensor] | None,
    ) -> dict[int, Tensor]:
        """Σ sᵢ (gᵢ − r) by parameter, in float64, with the rounding of :mod:`tabsynth.training.sums`.

        Parameters
        ----------
        scale : mapping to float64 Tensor, shape (batch,)
            sᵢ by parameter.
        blank : bool Tensor, shape (batch,), optional
            Rows that are left out whatever they hold (0 · NaN is NaN).
        reference : mapping to Tensor, optional
            r by parameter.
        """
        s = scale[id(self.layer.weight)]
        factor = s[:, None].to(self.uses[0].left.dtype)
        total = s.new_zeros(self.layer.weight.shape)
        for use in self.uses:
            left, right = use.left * factor, use.right
            if blank is not None:
                left = left.masked_fill(blank[:, None], 0)
            if right.dim() == 1:
                total.index_add_(0, right, left.double())
                continue
            if blank is not None:
                right = right.masked_fill(blank[:, None], 0)
            total += chunked_products(left, right)
        if reference is not None:
            total.sub_(chunked_sum(s) * reference[id(self.layer.weight)].double())
        out = {id(self.layer.weight): total}
        bias = getattr(self.layer, "bias", None)
        if bias is not None:
            biased = self.biased if reference is None else self.biased - reference[id(bias)]
            biased = biased * scale[id(bias)][:, None].to(biased.dtype)
            if blank is not None:
                biased = biased.masked_fill(blank[:, None], 0)
            out[id(bias)] = chunked_sum(biased)
            if reference is not None:  # one that is not finite shows whatever the rows are
                out[id(bias)] += 0 * reference[id(bias)].double()
        return out


def _dot(use: Use, weight: Tensor) -> Tensor:
    """Inner products of a use with a reference of its weight, shape (batch,)."""
    if use.right.dim() == 1:
        return _inner(use.left, weight[use.right])
    return _inner(use.left @ weight, use.right)
