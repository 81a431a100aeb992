"""Per-example clipping: Σ clip_C(gᵢ − r), never a clipped mean; r is a public reference.

Networks of linear layers go by factors (:mod:`tabsynth.training.factors`): per-example
gradients are never formed. Any other network is refused.

Bounds C of groups of parameters are fixed, or follow public rows.
"""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeGuard

import torch
from torch import Tensor, nn

from tabsynth._typing import JsonObject
from tabsynth._validate import in_range, one_of, positive
from tabsynth.training.factors import (
    Factors,
    Losses,
    NotClosedForm,
    OneHotRows,
    Reference,
    Trace,
    own,
    row_squares,
)
from tabsynth.training.sums import (
    LARGEST_FACTOR,
    LEAST_SCALE,
    chunked_sum,
    largest_products,
    noise_rounding,
    rounding,
)
from tabsynth.training.units import UnitPlaces


def ascent_step(squares: Tensor, ascent: float) -> Tensor:
    """Return λ/‖gᵢ‖ from squares by parameter, shape (·, batch); 0 where there is no direction."""
    norms = squares.sum(0).sqrt()
    return torch.where(norms > 0, ascent / norms.clamp_min(1e-30), 0.0)


@contextmanager
def move_parameters(parameters: Sequence[Tensor], by: Sequence[Tensor]) -> Iterator[None]:
    """Move parameters, and move them back to the last bit, whatever happens meanwhile."""
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
    """The sizes of the rows' differences from a reference; of shape (batch, G), in float64.

    Of units, all of it is that of the whole unit, at each of its rows.

    Attributes
    ----------
    norms : Tensor
        ‖gᵢ − r‖ by group, never too small.
    products : Tensor
        Of a factored gradient, the norms of its products before they are added up; 0 of one that is formed. Of a unit,
        the norms of all terms of its sum.
    usable : bool Tensor, shape (batch,)
        Whether the row is finite, and neither its norm nor a factor of it is above ``LARGEST_FACTOR``.
    """

    norms: Tensor
    products: Tensor
    usable: Tensor


TYPICAL_ROWS = 256  # public rows whose norms say what is typical


class PerExampleClipper:
    """Clipped gradient sums of a module.

    Parameters
    ----------
    module : nn.Module
        Of linear layers, whose parameters are all trained and used in no other way.
    groups : sequence of int, optional
        The group of each parameter, 0 … G − 1, each with a bound of its own; by default one group.
    ascent : float
        λ of BAM: each row's gradient is taken at θ + λ gᵢ/‖gᵢ‖, its own weights moved along its own
        gradient. 0 takes it at θ.
    rows : int
        The most rows of a unit, m: where it is more than 1, an example is a unit, and its gradient the sum of its rows'.
        With ``ascent`` each row's is taken at its own weights, so that a unit's follows from that unit alone.

    Formal guarantees
    -----------------
    Adding or removing an example changes group j of the sum by at most its bound in L2 norm, whatever
    the (public) reference, the number of examples and the scale of weights and inputs: rows are clipped
    to a norm below the bound by what rounding can add, for which :mod:`tabsynth.training.sums` has the
    proof. It holds for neighbouring batches of the same number of rows, in which the example that one of
    them lacks is a row that ``keep`` leaves out; :class:`tabsynth.training.private_step.Places` lays batches
    out that way. An example whose gradient is not finite, or has a factor of norm above 2⁸⁰, contributes
    zero, and does not change what others contribute. All rows of a unit have one factor, which follows from that unit:
    its sum is clipped.
    """

    def __init__(
        self,
        module: nn.Module,
        groups: Sequence[int] | None = None,
        ascent: float = 0.0,
        rows: int = 1,
    ) -> None:
        for part in module.modules():
            if isinstance(part, nn.modules.batchnorm._BatchNorm):
                raise TypeError(
                    "BatchNorm couples the rows of a batch, so they cannot be clipped one by one; use another layer."
                )
        self.module, self.ascent, self.rows = module, ascent, rows
        self.parameters = [p for p in module.parameters() if p.requires_grad]
        self.groups = list(groups) if groups is not None else [0] * len(self.parameters)
        self.layers = self._find_layers()
        self.uses = 1  # how often the losses were seen to use a weight for a row, at most
        self._looked_up = False  # True of one-hot rows, which are added up by themselves
        whose = {id(layer.weight) for layer in self.layers}
        example = self.parameters[0] if self.parameters else torch.empty(0)
        self._are_weights = example.new_tensor([float(id(p) in whose) for p in self.parameters])

    def _find_layers(self) -> list[nn.Linear]:
        """Return the linear layers, which must hold all that is trained."""
        layers = [part for part in self.module.modules() if _plain(part)]
        # Each parameter is the weight or the bias of one layer: not tied, not parametrized.
        owned = [id(p) for layer in layers for p in layer.parameters(recurse=False)]
        in_place = any(getattr(part, "inplace", False) for part in self.module.modules())
        if in_place or not all(owned.count(id(p)) == 1 for p in self.parameters):
            raise NotClosedForm("not all trained parameters are in plain linear layers")
        return layers

    @property
    def group_count(self) -> int:
        """G."""
        return max(self.groups) + 1

    def clipped_sum(
        self,
        losses: Losses,
        inputs: Tensor | OneHotRows,
        bounds: Tensor | float,
        reference: Sequence[Tensor] | None = None,
        keep: Tensor | None = None,
        parts: Tensor | None = None,
        units: UnitPlaces | None = None,
    ) -> list[Tensor]:
        """Return Σ aᵢ clip(gᵢ − reference), a float64 tensor a parameter.

        Parameters
        ----------
        losses : callable
            ``losses(module, inputs)`` gives one loss a row, shape (batch,).
        inputs : Tensor, shape (batch, …), or OneHotRows
            May be empty: then the sums are zero. A layer that takes rows of zeros and ones reads and adds up only what
            belongs to the ones.
        bounds : float or Tensor of shape (G,)
            C of each group; ``math.inf`` clips nothing.
        reference : list of Tensor, optional
            A public gradient that is subtracted from each example's before clipping.
        keep : bool Tensor, shape (batch,), optional
            Rows that count; others fill up a batch of fixed shape.
        parts : float64 Tensor, shape (batch,), optional
            aᵢ, from 0 to 1, as how much of a row each row counts; by default 1.
        units : UnitPlaces, optional
            Where the rows of each unit lie, if an example is a unit of up to ``rows`` rows: then gᵢ − reference is
            the sum over its rows, each as much as its part, and it is this that is clipped. ``keep`` takes or leaves
            all rows of a unit.

        Formal guarantees
        -----------------
        A row adds aᵢ sᵢ(gᵢ − r), with sᵢ the factor that clips it: of norm at most aᵢ C ≤ C. So the sum has the
        sensitivity of one without parts. The product aᵢ sᵢ is rounded to at most sᵢ, for rounding is monotone. A unit
        adds s Σⱼ aⱼ(gⱼ − r), with s the factor that clips this sum.

        Notes
        -----
        A row is multiplied by min(1, C′/‖gᵢ − r‖), and also scaled down where a layer that is used several
        times, or by several rows of a unit, has products so large that their rounding would pass what C′ sets
        aside for it.
        """
        if len(inputs) == 0:
            # 0 · r: a reference that is not finite shows in a batch without rows as in one with.
            like = (
                [torch.zeros_like(p) for p in self.parameters] if reference is None else reference
            )
            return [0 * r.double() for r in like]
        if reference is not None:
            reference = as_reference(reference)
        grads = self.gradients(losses, inputs)
        sizes = grads.sizes(self, reference, units, parts)
        if not isinstance(bounds, Tensor):
            bounds = self._empty().new_full((self.group_count,), bounds)
        bounds = bounds.double()
        slack, largest = self.rounding(bounds, reference, len(inputs))
        # A reference so large that its rounding could pass the bound leaves nothing of a row.
        within = (bounds - slack).clamp_min(0)
        scale = _scale(sizes, within, largest if self._several else None)
        bad = ~sizes.usable
        counted = ~bad if keep is None else keep & ~bad
        scale = scale.masked_fill(~counted[:, None], 0)
        if parts is not None:
            scale = scale * parts[:, None]
            if self.rows == 1:  # the products of units of several rows are rounded in float64
                scale = scale.masked_fill(scale < LEAST_SCALE, 0)
        return grads.weighted_sums(self, scale, _blank(bad), reference)

    def rounding(
        self, bounds: Tensor, reference: Sequence[Tensor] | None, places: int
    ) -> tuple[Tensor, Tensor]:
        """Return ηC and M of :mod:`tabsynth.training.sums`, each in float64 and of shape (G,)."""
        none = torch.zeros_like(bounds)
        subtracted, weights = none, none
        if reference is not None:
            norms = torch.stack(as_reference(reference).norms)
            norms = norms * (
                self.rows * (1 + 2.0**-20)
            )  # more than a sum of so many squares can err
            subtracted = _by_group(self.groups, norms.unbind())
            weights = _by_group(self.groups, (norms * self._are_weights.to(norms)).unbind())
        slack = rounding(
            bounds,
            weights,
            subtracted,
            places=places,
            uses=self.uses,
            looked_up=self._looked_up,
            working=self.working,
            rows=self.rows,
        )
        # Without a bound nothing is clipped, and nothing has to be set aside.
        slack = torch.where(torch.isfinite(bounds), slack, none)
        return slack, largest_products(bounds, weights, self._several, self.working)

    @property
    def working(self) -> torch.dtype:
        """The precision in which a chunk of rows is added up."""
        return torch.float64 if self.rows > 1 else self.parameters[0].dtype

    @property
    def _several(self) -> bool:
        """True if a weight's gradient of an example is a sum of several products, which may cancel."""
        return self.uses > 1 or self.rows > 1

    def _empty(self) -> Tensor:
        return self.parameters[0].new_empty(0, dtype=torch.float64)

    def reference(self, losses: Losses, inputs: Tensor) -> tuple[Reference, Tensor]:
        """Return the mean gradient of public rows, and the norms around it of the first ones, shape (m, G).

        m is at most ``TYPICAL_ROWS``: enough for what is typical.
        """
        grads = self.gradients(losses, inputs)
        mean = Reference(grads.means(self))
        return mean, grads.first(TYPICAL_ROWS).sizes(self, mean).norms

    def norms(self, losses: Losses, inputs: Tensor) -> Tensor:
        """Return norms of the per-example gradients by group, shape (batch, G); of public rows only."""
        return self.gradients(losses, inputs).sizes(self, None).norms

    def gradients(self, losses: Losses, inputs: Tensor | OneHotRows) -> "FactoredGradients":
        """Return the gradients of all rows."""
        self._looked_up |= isinstance(inputs, OneHotRows)
        factors = self._factors(losses, inputs)
        self.uses = max([self.uses, *(len(f.uses) for f in factors)])
        return FactoredGradients(factors, len(inputs))

    def _factors(self, losses: Losses, inputs: Tensor | OneHotRows) -> list[Factors]:
        factors = Trace(self.layers, len(inputs)).factors(losses, self.module, inputs)
        if not self.ascent or not factors:
            return factors
        squares = torch.stack(list(row_squares(factors).values()))
        step = ascent_step(squares, self.ascent).to(factors[0].uses[0].left)
        moves = {f.layer: f.uses for f in factors}
        return Trace(self.layers, len(inputs), moves, step).factors(losses, self.module, inputs)


class FactoredGradients:
    """Per-example gradients of a batch as factors."""

    def __init__(self, factors: list[Factors], batch: int) -> None:
        self.factors, self.batch = factors, batch

    def first(self, rows: int) -> "FactoredGradients":
        """Return the gradients of the first rows alone."""
        return FactoredGradients([f.first(rows) for f in self.factors], min(rows, self.batch))

    def sizes(
        self,
        clipper: PerExampleClipper,
        reference: Sequence[Tensor] | None,
        units: UnitPlaces | None = None,
        parts: Tensor | None = None,
    ) -> Sizes:
        """Return how large each row's difference from the reference is, or each unit's sum of them, by their parts."""
        group = dict(zip(map(id, clipper.parameters), clipper.groups, strict=True))
        measured = None
        if reference is not None:
            pairs = zip(reference, as_reference(reference).norms, strict=True)
            measured = dict(zip(group, pairs, strict=True))
        none = clipper._empty().new_zeros(self.batch)
        squares = [[none] for _ in range(clipper.group_count)]
        products = [[none] for _ in range(clipper.group_count)]
        if units is not None:
            for factor in self.factors:
                of_units = factor.unit_squares(units, measured, parts)
                for key, (square, size) in of_units.items():
                    squares[group[key]].append(square)
                    products[group[key]].append(size.square())
        elif self.factors:
            for key, square in row_squares(self.factors, measured).items():
                squares[group[key]].append(square)
            for factor in self.factors:
                products[group[id(factor.layer.weight)]].append(factor.size.square())
        if measured is not None:  # a parameter that the losses do not use has gradient zero
            used = {id(p) for f in self.factors for p in own(f.layer)}
            for key in measured.keys() - used:
                times = 1.0 if units is None else units.count(parts).square()
                squares[group[key]].append(none + measured[key][1].square() * times)
        norms = _sums(squares).sqrt() * (1 + 2.0**-40)
        factors = [norm for f in self.factors for pair in f.norms for norm in pair]
        usable = torch.stack([none, *factors]).amax(0) <= LARGEST_FACTOR
        if units is not None:
            usable = usable & ~units.any(~usable)
        usable = usable & torch.isfinite(norms).all(1)
        return Sizes(norms, _sums(products).sqrt(), usable)

    def means(self, clipper: PerExampleClipper) -> list[Tensor]:
        """Return the mean gradient, a tensor a parameter, in the working precision."""
        gradients: dict[int, Tensor] = {}
        for factor in self.factors:
            gradients.update(factor.means())
        return [gradients.get(id(p), torch.zeros_like(p)) for p in clipper.parameters]

    def weighted_sums(
        self,
        clipper: PerExampleClipper,
        scale: Tensor,
        blank: Tensor | None,
        reference: Sequence[Tensor] | None,
    ) -> list[Tensor]:
        """Return Σ scaleᵢ (gᵢ − reference) in float64, a tensor a parameter."""
        group = {id(p): j for p, j in zip(clipper.parameters, clipper.groups, strict=True)}
        named = None if reference is None else _by_parameter(clipper, reference)
        scales = scale.unbind(1)
        sums: dict[int, Tensor] = {}
        for factor in self.factors:
            weights = {id(p): scales[group[id(p)]] for p in own(factor.layer)}
            sums.update(factor.weighted_sums(weights, blank, named, clipper.working))
        for p in clipper.parameters:
            if id(p) not in sums:
                subtracted = 0.0 if named is None else named[id(p)].double()
                total = chunked_sum(scales[group[id(p)]])
                sums[id(p)] = torch.zeros_like(p, dtype=torch.float64) - total * subtracted
        return [sums[id(p)] for p in clipper.parameters]


def _plain(part: nn.Module) -> TypeGuard[nn.Linear]:
    """Return whether a layer is a linear map of its input and nothing else, and all of it is trained."""
    names = dict(part.named_parameters(recurse=False))
    if not names.keys() <= {"weight", "bias"} or not all(p.requires_grad for p in names.values()):
        return False
    return type(part) is nn.Linear


def as_reference(reference: Sequence[Tensor]) -> Reference:
    """Return a public gradient that keeps its norms."""
    return reference if isinstance(reference, Reference) else Reference(reference)


def _sums(values: Sequence[Sequence[Tensor]]) -> Tensor:
    """Return the sum of the values of each group, each of shape (batch,): shape (batch, G)."""
    return torch.stack([torch.stack(list(of_group)).sum(0) for of_group in values], dim=1)


def _by_parameter(clipper: PerExampleClipper, tensors: Sequence[Tensor]) -> dict[int, Tensor]:
    return {id(p): t for p, t in zip(clipper.parameters, tensors, strict=True)}


def _by_group(groups: Sequence[int], norms: Sequence[Tensor]) -> Tensor:
    """Return joint norms of the parameters of each group, shape (G,)."""
    if len(set(groups)) == 1:
        return torch.stack(list(norms)).norm()[None]
    parts = [
        [n for n, j in zip(norms, groups, strict=True) if j == g] for g in range(max(groups) + 1)
    ]
    return torch.stack([torch.stack(part).norm() for part in parts])


def _blank(bad: Tensor) -> Tensor | None:
    """Return rows to leave out, or None if there are none, where looking does not stall the device."""
    if bad.device.type == "cpu" and not bool(bad.any()):
        return None
    return bad


def _scale(sizes: Sizes, bounds: Tensor, largest: Tensor | None) -> Tensor:
    """Return the factor of each example and group, in [0, 1], shape (batch, G)."""
    scale = (bounds / sizes.norms.clamp_min(1e-300)).clamp_max(1.0)
    if largest is not None:
        scale = torch.minimum(scale, largest / sizes.products.clamp_min(1e-300))
    return scale.masked_fill(scale < LEAST_SCALE, 0)


GROUPINGS = ("flat", "weight-bias")


def weight_bias_groups(module: nn.Module) -> list[int]:
    """Make every weight a group of its own; all biases together one more, the last."""
    names = [name for name, p in module.named_parameters() if p.requires_grad]
    biases = [name.rsplit(".", 1)[-1] == "bias" for name in names]
    weights = len(names) - sum(biases)
    numbers = iter(range(weights))
    return [weights if bias else next(numbers) for bias in biases]


BOUNDS = ("fixed", "public")
# Norms below 1e-23 square to 0 in float32: under so small a bound a row would be left whole by mistake.
LEAST_BOUND = 1e-12


@dataclass(frozen=True, kw_only=True)
class Clipping:
    """The way in which per-row gradients are bounded. All of it is public.

    Attributes
    ----------
    max_norm : float
        C, the bound of one row in each group. With ``bound="public"`` it is in units of the median of public rows' norms
        in that group.
    bound : {"fixed", "public"}
        ``public``: follows the gradient norms of public or generated rows, step by step, at no cost.
    grouping : {"flat", "weight-bias"}
        Parameters that share a bound: all; or each weight, and all biases.
    centred : bool
        Whether the mean gradient of public rows is subtracted from each private row's before the clip.
    """

    max_norm: float = 1.0
    bound: str = "fixed"
    grouping: str = "flat"
    centred: bool = True

    def __post_init__(self) -> None:
        """Check the values of the fields."""
        positive("max_norm", self.max_norm)
        in_range("max_norm", self.max_norm, LEAST_BOUND, math.inf)
        one_of("bound", self.bound, BOUNDS)
        one_of("grouping", self.grouping, GROUPINGS)

    def facts(self, module: nn.Module, stand_ins: str = "public rows") -> JsonObject:
        """Return what a certificate says of the steps of a module: JSON-ready, and public before the first of them.

        With G groups of bounds C_j = ``max_norm`` · u_j, the sum in units of u_j has L2 sensitivity √G
        ``max_norm``: its ``unit`` says what u_j is, and :meth:`Bounds.units` has it as a number.

        Parameters
        ----------
        module : nn.Module
            Its parameters say how many groups there are; their sizes do not matter.
        stand_ins : str
            Whose gradient norms a bound of kind ``public`` follows.
        """
        groups = max(weight_bias_groups(module)) + 1 if self.grouping == "weight-bias" else 1
        units = {
            "public": f"median gradient norm of {stand_ins} at each step",
            "fixed": "gradient norm",
        }
        each = ", group by group" if groups > 1 and self.bound != "fixed" else ""
        return {
            "l2_sensitivity": math.sqrt(groups) * self.max_norm,
            "unit": units[self.bound] + each,
            "bound": self.bound,
            "max_norm": self.max_norm,
            "grouping": self.grouping,
            "groups": groups,
        }


class Bounds:
    """The bounds of a module's groups as they stand, and what they make of the noise.

    Formal guarantees
    -----------------
    Each group's sum is divided by its bound, so that one row changes the concatenation of G groups
    by at most √G; with noise N(0, G σ² I) on it, multiplied back, the release is *one* Gaussian of
    multiplier σ.
    """

    def __init__(self, clipping: Clipping, clipper: PerExampleClipper, noise: float) -> None:
        self.clipping, self.clipper = clipping, clipper
        if clipping.grouping == "weight-bias":
            clipper.groups = weight_bias_groups(clipper.module)
        self.noise_multiplier = noise
        first_parameter = clipper.parameters[0]
        self.now = first_parameter.detach().new_full((clipper.group_count,), clipping.max_norm)

    def follow(self, norms: Tensor) -> None:
        """Return bounds from the norms of public rows, shape (m, G)."""
        if self.clipping.bound == "public":
            typical = norms.median(0).values
            self.now.copy_((self.clipping.max_norm * typical).clamp_min(LEAST_BOUND))

    def noise_rounding(self) -> float:
        """Return by how much of a bound the noise's reading of a sum can move it; see :mod:`tabsynth.training.sums`."""
        count = sum(p.numel() for p in self.clipper.parameters)
        return noise_rounding(count, math.sqrt(len(self.now)) * self.noise_multiplier)

    def units(self) -> list[float]:
        """Return how large the unit of :meth:`Clipping.facts` is for each group's sum.

        In these units all that a step releases together has noise of one size, the one that is charged:
        √G σ ``max_norm``, and moves by √G ``max_norm`` at most.
        """
        return (self.now / self.clipping.max_norm).tolist()

    def noise_scales(self) -> Tensor:
        """Return the standard deviation of the noise on a sum, for each group: √G σ C, shape (G,)."""
        return math.sqrt(len(self.now)) * self.noise_multiplier * self.now
