"""Clipping bounds of groups of parameters: fixed, from public rows, or from a noised quantile of the private ones."""

import logging
import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from tabsynth._typing import JsonObject
from tabsynth._validate import in_range, integer, one_of, positive
from tabsynth.training.clipping import PerExampleClipper
from tabsynth.training.factors import Losses
from tabsynth.training.sums import TensorNoise, noise_rounding

GROUPINGS = ("flat", "weight-bias", "clusters")


def group_count(grouping: str, clusters: int, module: nn.Module) -> int:
    """Return how many groups a module's parameters make: G, known before the first row is read."""
    if grouping == "weight-bias":
        return max(weight_bias_groups(module)) + 1
    parameters = sum(p.requires_grad for p in module.parameters())
    return min(clusters, parameters) if grouping == "clusters" else 1


def weight_bias_groups(module: nn.Module) -> list[int]:
    """Make every weight a group of its own; all biases together one more, the last."""
    names = [name for name, p in module.named_parameters() if p.requires_grad]
    biases = [name.rsplit(".", 1)[-1] == "bias" for name in names]
    weights = len(names) - sum(biases)
    numbers = iter(range(weights))
    return [weights if bias else next(numbers) for bias in biases]


def cluster_groups(norms: Sequence[float], clusters: int) -> list[int]:
    """Cluster parameters hierarchically by the size of their gradients.

    Parameters
    ----------
    norms : sequence of float
        Mean gradient norm of each parameter on public rows.
    clusters : int
        Groups to stop at.

    Notes
    -----
    The paper merges the pair (u, v) with the least √(1 + max/min), the most similar norms; the
    merged group has norm √(u² + v²).
    """
    groups = [([i], max(norm, 1e-30)) for i, norm in enumerate(norms)]
    while len(groups) > clusters:
        pairs = [(a, b) for a in range(len(groups)) for b in range(a)]
        a, b = min(pairs, key=lambda pair: abs(math.log(groups[pair[0]][1] / groups[pair[1]][1])))
        members, norm = groups.pop(a)
        other, size = groups.pop(b)
        groups.append((other + members, math.hypot(norm, size)))
    out = [0] * len(norms)
    for number, (members, _) in enumerate(sorted(groups, key=lambda group: min(group[0]))):
        for i in members:
            out[i] = number
    return out


logger = logging.getLogger(__name__)

BOUNDS = ("fixed", "public", "quantile")
STATISTICS = ("median", "mean")
# Norms below 1e-23 square to 0 in float32: under so small a bound a row would be left whole by mistake.
LEAST_BOUND = 1e-12
MOST_FOR_VOTES = 0.5  # of 1/σ², what a step may release in all


@dataclass(frozen=True, kw_only=True)
class Clipping:
    """The way in which per-row gradients are bounded. All of it is public.

    Attributes
    ----------
    max_norm : float
        C, the bound of one row in each group. With ``bound="public"`` it is in units of the
        ``statistic`` of public rows' norms in that group; with ``"quantile"`` it is the first bound.
    bound : {"fixed", "public", "quantile"}
        ``public``: follows the gradient norms of public or generated rows, step by step, at no cost.
        ``quantile``: follows a quantile of the private rows' norms, from a count that shares the
        step's noise (Andrew et al. 2021, arXiv:1905.03871).
    grouping : {"flat", "weight-bias", "clusters"}
        Parameters that share a bound: all; each weight, and all biases; or those whose gradients on
        public rows are of a size, merged until ``clusters`` are left.
    clusters : int
    statistic : {"median", "mean"}
    quantile : float
        γ, the share of rows to be left whole.
    quantile_lr : float
        η: bounds move by a factor exp(−η(share − γ)) a step.
    quantile_noise : float
        Standard deviation of the noise on the count, in shares of the expected batch. Where batches are
        so small that the count would take more than half of what a step may release, its noise is
        larger: σ/√2 rows.
    centred : bool
        Whether the mean gradient of public rows is taken off each private row's before the clip.
    """

    max_norm: float = 1.0
    bound: str = "fixed"
    grouping: str = "flat"
    clusters: int = 3
    statistic: str = "median"
    quantile: float = 0.5
    quantile_lr: float = 0.2
    quantile_noise: float = 0.05
    centred: bool = True

    def __post_init__(self) -> None:
        """Check the values of the fields."""
        for name in ("max_norm", "quantile_lr", "quantile_noise"):
            positive(name, getattr(self, name))
        in_range("max_norm", self.max_norm, LEAST_BOUND, math.inf)
        one_of("bound", self.bound, BOUNDS)
        one_of("grouping", self.grouping, GROUPINGS)
        one_of("statistic", self.statistic, STATISTICS)
        integer("clusters", self.clusters)
        in_range("quantile", self.quantile, 0, 1, low_open=True, high_open=True)

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
        groups = group_count(self.grouping, self.clusters, module)
        units = {
            "public": f"{self.statistic} gradient norm of {stand_ins} at each step",
            "fixed": "gradient norm",
            "quantile": "gradient norm at first, then moved with its bound by a noised quantile; the votes on"
            " it share the noise, so that of the sum is larger",
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
    by at most √G; with noise N(0, G s² I) on it, multiplied back, the release is *one* Gaussian of
    multiplier s. With a noised quantile the G votes of rows are released with it, +1/2 of a row that
    is left whole and −1/2 of one that is cut (a bare count of whole rows would move by 1, not 1/2):
    their sum has sensitivity √G/2, noise √G σ_b, and s = (σ⁻² − (2σ_b)⁻²)^(−1/2) keeps the joint
    release at multiplier σ. σ_b is at least σ/√2, whatever the expected batch is: that may follow from a
    released count of rows, when it is too late to refuse a fit.
    """

    def __init__(
        self, clipping: Clipping, clipper: PerExampleClipper, noise: float, expected_batch: float
    ) -> None:
        self.clipping, self.clipper = clipping, clipper
        self.expected_batch = expected_batch
        if clipping.grouping == "weight-bias":
            clipper.groups = weight_bias_groups(clipper.module)
        self.clustered = clipping.grouping != "clusters"
        self.charged = self.noise_multiplier = noise
        self.count_noise = clipping.quantile_noise * expected_batch  # σ_b, in rows
        if clipping.bound == "quantile" and noise:
            smallest_noise = noise / (2 * math.sqrt(MOST_FOR_VOTES))
            if self.count_noise < smallest_noise:
                logger.warning(
                    "The noised quantile is measured with a noise of %.3g rows, %.3g of a batch: %.3g of so"
                    " small a batch would cost too much.",
                    smallest_noise,
                    smallest_noise / expected_batch,
                    clipping.quantile_noise,
                )
                self.count_noise = smallest_noise
            precision = noise**-2 - (2 * self.count_noise) ** -2
            self.noise_multiplier = precision**-0.5
        first_parameter = clipper.parameters[0]
        self.now = first_parameter.detach().new_full((clipper.group_count,), clipping.max_norm)

    def cluster(self, losses: Losses, public: Tensor) -> None:
        """Form the groups from public rows, once.

        NOTE[DIFF] The paper's code clusters again at each step; groups that stay let every step be the
        same, and only the bounds follow the training.

        The norms are of the gradients as they are, not of what is clipped, their distance to the mean of
        public rows: by a critic's last bias all rows have the same gradient, and a group of distance 0
        would be one of the groups and cost noise.
        """
        if self.clustered:
            return
        each = range(len(self.clipper.parameters))
        norms = self.clipper.norms(losses, public, each).mean(0)
        self.clipper.groups = cluster_groups(norms.tolist(), self.clipping.clusters)
        self.now = self.now.new_full((self.clipper.group_count,), self.clipping.max_norm)
        self.clustered = True

    def follow(self, norms: Tensor) -> None:
        """Return bounds from the norms of public rows, shape (m, G)."""
        if self.clipping.bound == "public":
            typical = (
                norms.median(0).values if self.clipping.statistic == "median" else norms.mean(0)
            )
            self.now.copy_((self.clipping.max_norm * typical).clamp_min(LEAST_BOUND))

    def adapt(self, votes: Tensor, noise: TensorNoise) -> None:
        """Return bounds for the next step, from the noised votes: rows left whole less half of the rows."""
        if self.clipping.bound != "quantile":
            return
        # A constant of the recorded graph: nothing is copied from the host.
        std = votes.new_full((), self.votes_noise())
        share = noise.noisy(votes, std) / self.expected_batch + 0.5
        self.now.mul_(torch.exp(self.clipping.quantile_lr * (self.clipping.quantile - share)))
        self.now.clamp_min_(LEAST_BOUND)

    def votes_noise(self) -> float:
        """Return the standard deviation of the noise on each group's votes: √G σ_b."""
        return math.sqrt(len(self.now)) * self.count_noise

    def noise_rounding(self) -> float:
        """Return by how much of a bound the noise's reading of a sum can move it; see :mod:`tabsynth.training.sums`."""
        count = sum(p.numel() for p in self.clipper.parameters)
        return noise_rounding(count, math.sqrt(len(self.now)) * self.noise_multiplier)

    def units(self) -> list[float]:
        """Return how large the unit of :meth:`Clipping.facts` is: for each group's sum, and for the votes on bounds.

        In these units all that a step releases together has noise of one size, the one that is charged:
        √G σ ``max_norm``, and moves by √G ``max_norm`` at most.
        """
        unit = math.sqrt(len(self.now)) * self.charged * self.clipping.max_norm
        return [scale / unit for scale in (*self.noise_scales().tolist(), self.votes_noise())]

    def noise_scales(self) -> Tensor:
        """Return the standard deviation of the noise on a sum, for each group: √G s C, shape (G,)."""
        return math.sqrt(len(self.now)) * self.noise_multiplier * self.now
