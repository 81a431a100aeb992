"""Per-example gradients that are formed, for networks without a closed form: slower, and as exact."""

import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from tabsynth.training.factors import Losses, one_a_row
from tabsynth.training.sums import CHUNK, LARGEST_FACTOR

if TYPE_CHECKING:
    from tabsynth.training.clipping import PerExampleClipper


class NeedsRowByRow(Exception):
    """The loss uses the module in a way that opacus' hooks do not allow."""


def hooked(module: nn.Module) -> bool:
    """Whether opacus' hooks are on the module: not so where nobody has imported opacus yet."""
    opacus = sys.modules.get("opacus.grad_sample")
    return opacus is not None and isinstance(module, opacus.GradSampleModule)


def mean_gradient(
    losses: Losses, module: nn.Module, inputs: Tensor, parameters: Sequence[Tensor]
) -> list[Tensor]:
    """The ordinary mean gradient; zero for a parameter that is not used."""
    total = one_a_row(losses(module, inputs), len(inputs)).mean()
    if not total.requires_grad:
        return [torch.zeros_like(p) for p in parameters]
    found = torch.autograd.grad(total, list(parameters), allow_unused=True)
    return [torch.zeros_like(p) if g is None else g for p, g in zip(parameters, found, strict=True)]


def made_up(like: Tensor) -> Tensor:
    """Rows of the shape and type of others that depend on nothing else: uniform in [0, 1); 0 for whole numbers."""
    rows = torch.zeros_like(like)
    if like.is_floating_point():
        rng = torch.Generator().manual_seed(0)
        rows.copy_(torch.rand(like.shape, generator=rng, dtype=like.dtype))
    return rows


def by_opacus(
    losses: Losses,
    module: nn.Module,
    inputs: Tensor,
    parameters: Sequence[Tensor],
    compared: bool = False,
) -> list[Tensor]:
    """Gradients of shape (batch, …), a tensor a parameter, by opacus.

    Parameters
    ----------
    compared : bool
        Whether their sum is compared with the ordinary gradient. The result is a choice of computation
        that follows from the values of the rows: for rows that are public only.

    Raises
    ------
    NeedsRowByRow
        Where opacus does not give one gradient a row, or the comparison fails.
    """
    from opacus.grad_sample import GradSampleModule  # seconds to import, and seldom needed

    engine = GradSampleModule(module, loss_reduction="sum")
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Full backward hook is firing")
            one_a_row(losses(engine, inputs), len(inputs)).sum().backward()
        found = [getattr(p, "grad_sample", None) for p in parameters]
        sums = [p.grad for p in parameters]
    finally:
        for p in parameters:
            p.grad = None
        engine.remove_hooks()
        engine.del_grad_sample()
    if any(g is not None and len(g) != len(inputs) for g in found):
        # Clipped apart, the several gradients of a row would add up to more than the bound.
        raise NeedsRowByRow("a layer sees other than one input a row")
    grads = [
        p.new_zeros(len(inputs), *p.shape) if g is None else g.detach()
        for p, g in zip(parameters, found, strict=True)
    ]
    for g, total in zip(grads, sums, strict=True) if compared else ():
        wanted = torch.zeros_like(g[0]) if total is None else total
        size = float(g.abs().sum().nan_to_num()) + 1e-30
        if not torch.allclose(g.sum(0), wanted, rtol=1e-3, atol=1e-3 * size, equal_nan=True):
            raise NeedsRowByRow("a parameter is used outside of its layer")
    return grads


def by_row(
    losses: Losses, module: nn.Module, inputs: Tensor, parameters: Sequence[Tensor], ascent: float
) -> list[Tensor]:
    """Gradients of shape (batch, …), one row at a time; ``ascent`` is BAM's λ."""
    rows = []
    for i in range(len(inputs)):
        row = inputs[i : i + 1]
        grads = mean_gradient(losses, module, row, parameters)
        if ascent:
            step = ascent_step(torch.stack([g.square().sum()[None] for g in grads]), ascent)
            with moved(parameters, [step * g for g in grads]):
                grads = mean_gradient(losses, module, row, parameters)
        rows.append(grads)
    return [torch.stack(column) for column in zip(*rows, strict=True)]


def ascent_step(squares: Tensor, ascent: float) -> Tensor:
    """λ/‖gᵢ‖ from squares by parameter, shape (·, batch); 0 where there is no direction."""
    norms = squares.sum(0).sqrt()
    return torch.where(norms > 0, ascent / norms.clamp_min(1e-30), 0.0)


@contextmanager
def moved(parameters: Sequence[Tensor], by: Sequence[Tensor]) -> Iterator[None]:
    """Parameters moved, and back to the last bit, whatever happens meanwhile."""
    before = [p.detach().clone() for p in parameters]
    try:
        with torch.no_grad():
            for p, step in zip(parameters, by, strict=True):
                p.add_(step.reshape(p.shape))
        yield
    finally:
        with torch.no_grad():
            for p, b in zip(parameters, before, strict=True):
                p.copy_(b)


@dataclass(frozen=True)
class Sizes:
    """How large the rows' differences from a reference are; of shape (batch, G), in float64.

    Attributes
    ----------
    norms : Tensor
        ‖gᵢ − r‖ by group, never too small.
    products : Tensor
        Of a factored gradient, the norms of its products before they are added up; 0 of one that is formed.
    usable : bool Tensor, shape (batch,)
        Whether the row is finite, and neither its norm nor a factor of it is above ``LARGEST_FACTOR``.
    """

    norms: Tensor
    products: Tensor
    usable: Tensor


class Formed:
    """Per-example gradients of a batch, each tensor of shape (batch, …)."""

    def __init__(self, grads: Sequence[Tensor]) -> None:
        self.grads = grads

    def first(self, rows: int) -> "Formed":
        """The gradients of the first rows alone."""
        return Formed([g[:rows] for g in self.grads])

    def sizes(self, clipper: "PerExampleClipper", reference: Sequence[Tensor] | None) -> Sizes:
        """How large each row's difference from the reference is."""
        columns: list[list[Tensor]] = [[] for _ in range(clipper.group_count)]
        for g, j in zip(self._apart(reference), clipper.groups, strict=True):
            flat = g.reshape(len(g), -1)
            columns[j].append(torch.linalg.vector_norm(flat, dim=1, dtype=torch.float64))
        norms = torch.stack([torch.stack(c).norm(dim=0) for c in columns], dim=1)
        # A root of a sum of so many squares in float64 errs by no more than that.
        norms = norms * (1 + (sum(g[0].numel() for g in self.grads) + 8) * 2.0**-53)
        return Sizes(norms, torch.zeros_like(norms), (norms <= LARGEST_FACTOR).all(1))

    def means(self, clipper: "PerExampleClipper") -> list[Tensor]:
        """The mean gradient, a tensor a parameter, in the working precision."""
        return [g.mean(0) for g in self.grads]

    def weighted_sums(
        self,
        clipper: "PerExampleClipper",
        scale: Tensor,
        blank: Tensor | None,
        reference: Sequence[Tensor] | None,
    ) -> list[Tensor]:
        """Σ scaleᵢ (gᵢ − reference) in float64, a tensor a parameter."""
        sums = []
        for g, j in zip(self._apart(reference), clipper.groups, strict=True):
            total = torch.zeros_like(g[0], dtype=torch.float64)
            chunks = zip(g.split(CHUNK), scale[:, j].split(CHUNK), _split(blank, g), strict=True)
            for part, s, out in chunks:
                terms = part.double() * s.view(-1, *[1] * (g.dim() - 1))
                if out is not None:
                    terms = terms.masked_fill(out.view(-1, *[1] * (g.dim() - 1)), 0)
                total += terms.sum(0)
            sums.append(total)
        if reference is not None:  # one that is not finite shows whatever the rows are
            sums = [total + 0 * r.double() for total, r in zip(sums, reference, strict=True)]
        return sums

    def _apart(self, reference: Sequence[Tensor] | None) -> Sequence[Tensor]:
        """gᵢ − reference as rounded: each row's norm and its part of the sum are of the same numbers."""
        if reference is None:
            return self.grads
        return [g - r for g, r in zip(self.grads, reference, strict=True)]


def _split(blank: Tensor | None, like: Tensor) -> Sequence[Tensor | None]:
    if blank is None:
        return [None] * len(like.split(CHUNK))
    return blank.split(CHUNK)
