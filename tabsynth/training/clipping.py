"""Per-example clipping: Σ clip_C(gᵢ − r), never a clipped mean; r is a public reference.

Networks of linear and embedding layers go by factors (:mod:`tabsynth.training.factors`): per-example
gradients are never formed. Any other network goes through opacus' per-sample gradients, or row by row
where even those do not apply.
"""

import logging
from collections.abc import Sequence
from typing import TypeGuard

import torch
from torch import Tensor, nn

from tabsynth.training.factors import Factors, Layer, Losses, NotClosedForm
from tabsynth.training.formed import (
    Formed,
    NeedsRowByRow,
    ascent_step,
    by_opacus,
    by_row,
    mean_gradient,
)
from tabsynth.training.trace import Trace

logger = logging.getLogger(__name__)

TYPICAL_ROWS = 256  # public rows whose norms say what is typical


class PerExampleClipper:
    """Clipped gradient sums of a module.

    Parameters
    ----------
    module : nn.Module
        Of layers that treat rows independently: no BatchNorm, no minibatch averages (R13).
    groups : sequence of int, optional
        The group of each parameter, 0 … G − 1, each with a bound of its own; by default one group.
    ascent : float
        λ of BAM: each row's gradient is taken at θ + λ gᵢ/‖gᵢ‖, its own weights moved along its own
        gradient. 0 takes it at θ.

    Formal guarantees
    -----------------
    Adding or removing an example changes group j of the sum by at most its bound in L2 norm, whatever
    the (public) reference. An example whose gradient is not finite contributes zero, and does not
    change what others contribute (R3).
    """

    def __init__(
        self, module: nn.Module, groups: Sequence[int] | None = None, ascent: float = 0.0
    ) -> None:
        for part in module.modules():
            if isinstance(part, nn.modules.batchnorm._BatchNorm):
                raise TypeError("BatchNorm couples the examples of a batch: not under DP-SGD (R13)")
        self.module, self.ascent = module, ascent
        self.parameters = [p for p in module.parameters() if p.requires_grad]
        self.groups = list(groups) if groups is not None else [0] * len(self.parameters)
        self.layers = [part for part in module.modules() if _plain(part)]
        # Each parameter is the weight or the bias of one layer: not tied, not parametrized.
        owned = [id(p) for layer in self.layers for p in layer.parameters(recurse=False)]
        in_place = any(getattr(part, "inplace", False) for part in module.modules())
        self.closed_form = not in_place and all(owned.count(id(p)) == 1 for p in self.parameters)
        self.row_by_row = False
        if not self.closed_form:
            self._say("not all parameters are in plain linear or embedding layers")

    def _say(self, why: str) -> None:
        road = "row by row" if self.row_by_row or self.ascent else "opacus' per-sample gradients"
        logger.warning("No closed form of per-example gradients: %s. Slower: %s.", why, road)

    @property
    def group_count(self) -> int:
        """G."""
        return max(self.groups) + 1

    def clipped_sum(
        self,
        losses: Losses,
        inputs: Tensor,
        bounds: Tensor | float,
        reference: Sequence[Tensor] | None = None,
        keep: Tensor | None = None,
    ) -> tuple[list[Tensor], Tensor]:
        """Σ clip(gᵢ − reference), a tensor a parameter, and how many rows each bound left whole.

        Parameters
        ----------
        losses : callable
            ``losses(module, inputs)`` gives one loss a row, shape (batch,).
        inputs : Tensor, shape (batch, …)
            May be empty: then the sums are zero.
        bounds : float or Tensor of shape (G,)
            C of each group; ``math.inf`` clips nothing.
        reference : list of Tensor, optional
            A public gradient that is taken off each example's before clipping.
        keep : bool Tensor, shape (batch,), optional
            Rows that count; others fill up a batch of fixed shape.

        Returns
        -------
        sums : list of Tensor
        whole : Tensor, shape (G,)
            Number of rows within the bound. It is private: a noised quantile adds noise to it.
        """
        if len(inputs) == 0:
            # 0 · r: a reference that is not finite shows in a batch without rows as in one with.
            like = (
                [torch.zeros_like(p) for p in self.parameters] if reference is None else reference
            )
            return [0 * r for r in like], like[0].new_zeros(self.group_count)
        grads = self._gradients(losses, inputs)
        norms = grads.norms(self, reference)
        if not isinstance(bounds, Tensor):
            bounds = norms.new_full((self.group_count,), bounds)
        scale = _scale(norms, bounds)
        bad = ~torch.isfinite(norms).all(1)
        whole = (norms <= bounds) & ~bad[:, None]
        if keep is not None:
            bad = bad | ~keep
            whole = whole & keep[:, None]
        scale = scale.masked_fill(bad[:, None], 0)
        sums = grads.weighted_sums(self, scale, _blank(bad))
        if reference is not None:
            taken = scale.sum(0).unbind()
            for total, r, j in zip(sums, reference, self.groups, strict=True):
                total.addcmul_(r, taken[j], value=-1)
        return sums, whole.to(norms.dtype).sum(0)

    def reference(self, losses: Losses, inputs: Tensor) -> tuple[list[Tensor], Tensor]:
        """The mean gradient of public rows, and the norms around it of the first ones, shape (m, G).

        m is at most ``TYPICAL_ROWS``: enough for what is typical.
        """
        grads = self._gradients(losses, inputs)
        weights = self.parameters[0].new_full((len(inputs), self.group_count), 1 / len(inputs))
        mean = grads.weighted_sums(self, weights, None)
        return mean, grads.first(TYPICAL_ROWS).norms(self, mean)

    def norms(self, losses: Losses, inputs: Tensor, groups: Sequence[int] | None = None) -> Tensor:
        """Norms of the per-example gradients by group, shape (batch, G); of public rows only."""
        own, self.groups = self.groups, list(groups) if groups is not None else self.groups
        try:
            return self._gradients(losses, inputs).norms(self, None)
        finally:
            self.groups = own

    def mean_gradient(self, losses: Losses, inputs: Tensor) -> list[Tensor]:
        """The ordinary mean gradient, of public rows only; zero for a parameter that is not used."""
        return mean_gradient(losses, self.module, inputs, self.parameters)

    def _gradients(self, losses: Losses, inputs: Tensor) -> "_Factored | Formed":
        if self.closed_form:
            try:
                return _Factored(self._factors(losses, inputs), len(inputs))
            except NotClosedForm as why:
                self.closed_form = False
                self._say(str(why))
        if not self.row_by_row and not self.ascent:
            try:
                return Formed(by_opacus(losses, self.module, inputs, self.parameters))
            except (NeedsRowByRow, RuntimeError, IndexError, AttributeError) as why:
                self.row_by_row = True
                self._say(f"nor do opacus' hooks apply: {why}")
        return Formed(by_row(losses, self.module, inputs, self.parameters, self.ascent))

    def _factors(self, losses: Losses, inputs: Tensor) -> list[Factors]:
        found = Trace(self.layers, len(inputs)).factors(losses, self.module, inputs)
        if not self.ascent or not found:
            return found
        squares = torch.stack([s for f in found for s in f.squares().values()])
        step = ascent_step(squares, self.ascent)
        moves = {f.layer: f.uses for f in found}
        return Trace(self.layers, len(inputs), moves, step).factors(losses, self.module, inputs)


class _Factored:
    """Per-example gradients of a batch as factors."""

    def __init__(self, factors: list[Factors], batch: int) -> None:
        self.factors, self.batch = factors, batch

    def first(self, rows: int) -> "_Factored":
        """The gradients of the first rows alone."""
        return _Factored([f.first(rows) for f in self.factors], min(rows, self.batch))

    def norms(self, clipper: PerExampleClipper, reference: Sequence[Tensor] | None) -> Tensor:
        """‖gᵢ − reference‖ by group, shape (batch, G)."""
        squares: list[Tensor | None] = [None] * clipper.group_count
        named = _named(clipper, reference) if reference is not None else {}
        group = {id(p): j for p, j in zip(clipper.parameters, clipper.groups, strict=True)}
        for factor in self.factors:
            dots = factor.dots(named) if reference is not None else {}
            for key, square in factor.squares().items():
                value = square - 2 * dots[key] if reference is not None else square
                before = squares[group[key]]
                squares[group[key]] = value if before is None else before + value
        none = clipper.parameters[0].new_zeros(self.batch)
        out = torch.stack([none if s is None else s for s in squares], dim=1)
        if reference is not None:
            own = _by_group(clipper.groups, torch._foreach_norm(list(reference))).square()
            # Differences of squares cancel: what rounding may have hidden is added back, so that a
            # norm is never taken for smaller than it is.
            out = (out + own).clamp_min(0) + 64 * torch.finfo(out.dtype).eps * (out.abs() + 2 * own)
        return out.sqrt()

    def weighted_sums(
        self, clipper: PerExampleClipper, scale: Tensor, blank: Tensor | None
    ) -> list[Tensor]:
        """Σ scaleᵢ gᵢ, a tensor a parameter."""
        group = {id(p): j for p, j in zip(clipper.parameters, clipper.groups, strict=True)}
        found: dict[int, Tensor] = {}
        for factor in self.factors:
            weights = {
                id(p): scale[:, group[id(p)]] for p in factor.layer.parameters() if id(p) in group
            }
            found.update(factor.weighted_sums(weights, blank))
        return [found.get(id(p), torch.zeros_like(p)) for p in clipper.parameters]


def _plain(part: nn.Module) -> TypeGuard[Layer]:
    """Whether a layer is a linear map of its input and nothing else, and all of it is trained."""
    own = dict(part.named_parameters(recurse=False))
    if not own.keys() <= {"weight", "bias"} or not all(p.requires_grad for p in own.values()):
        return False
    if type(part) is nn.Embedding:
        odd = (part.padding_idx, part.max_norm)
        return odd == (None, None) and not part.scale_grad_by_freq and not part.sparse
    return type(part) is nn.Linear


def _named(clipper: PerExampleClipper, tensors: Sequence[Tensor]) -> dict[int, Tensor]:
    return {id(p): t for p, t in zip(clipper.parameters, tensors, strict=True)}


def _by_group(groups: Sequence[int], norms: Sequence[Tensor]) -> Tensor:
    """Joint norms of the parameters of each group, shape (G,)."""
    if len(set(groups)) == 1:
        return torch.stack(list(norms)).norm()[None]
    parts = [
        [n for n, j in zip(norms, groups, strict=True) if j == g] for g in range(max(groups) + 1)
    ]
    return torch.stack([torch.stack(part).norm() for part in parts])


def _blank(bad: Tensor) -> Tensor | None:
    """Rows to leave out, or None if there are none, where looking does not stall the device."""
    if bad.device.type == "cpu" and not bool(bad.any()):
        return None
    return bad


def _scale(norms: Tensor, bounds: Tensor) -> Tensor:
    """Factor of each example and group, in [0, 1], shape (batch, G)."""
    # The slack in C keeps the rounding of norms on the safe side.
    slack = 1 - 64 * torch.finfo(norms.dtype).eps
    return (bounds * slack / norms.clamp_min(1e-30)).clamp_max(1.0)
