"""MargNet's estimation: a network whose K outputs, each a product of distributions, are fitted to noisy counts.

What two columns have to do with each other is mostly a few strong directions of their table of counts, and
noise is spread over all directions alike.

After GEM (Liu, Vietri, Wu 2021, "Iterative Methods for Private Synthetic Data") and MargNet
(arXiv:2511.13893, 2025). All of it is post-processing of the noisy counts.

NOTE[DIFF] Pairs of columns are counted at once, with the budget ∝ cells^(2/3); the papers choose a few in
rounds, by the exponential mechanism, and weigh the last one most. Rare values are counted in groups. See
:mod:`tabsynth.synthesizers.margnet.selection`.
NOTE[DIFF] The first components are near the tree model of the noisy pairs, in place of independent columns, which takes a sixth of the
steps; or near their factor model, where that is nearer. See :mod:`tabsynth.synthesizers.margnet.tree` and
:mod:`tabsynth.synthesizers.margnet.factors`.
NOTE[DIFF] The loss of each cell is in units of its noise. Where it has come down to that noise, the fit goes
on for some times as long, as its rate falls to 0 and entropy weighs more; the papers take a fixed number of steps.
NOTE[DIFF] Where the network has not come down to the noise in ``NETWORK_STEPS``, the logits of its components go on by themselves, by L-BFGS: they take a
tenth of the steps. At first the network has the better fit: what it learns of one component holds for those that are near.
NOTE[DIFF] Where the loss rises to four times what it was, the fit goes back and halves its learning rate.
NOTE[DIFF] The fit goes half way from the noisy counts of pairs to counts of fewer directions, as said above.
NOTE[DIFF] Inputs are learned, and the entropy of the rows has a small weight in the loss: counts of pairs
leave the rest open, and sharp rows would fill it in with chance.
"""

import copy
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial, reduce
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tabsynth.encoding.table import Layout
from tabsynth.privacy.noise.counts import Groups, in_groups, number_of, probabilities
from tabsynth.schema.schema import Zero
from tabsynth.synthesizers.margnet.config import CLEAR_DEPENDENCE, MargNetConfig
from tabsynth.synthesizers.margnet.factors import FactorModel
from tabsynth.synthesizers.margnet.grids import GridCounts, begin_in_cells
from tabsynth.synthesizers.margnet.selection import LEAST_STD, Measurements
from tabsynth.synthesizers.margnet.tree import TreeModel
from tabsynth.synthesizers.mixture import Components, Mixture, MixtureNetwork, host, normalise
from tabsynth.training.loop import TrainingMonitor, run_steps
from tabsynth.training.networks import LBFGS, Adam

# Of the rows: the largest singular value of pure noise of pairs that are smoothed.
MAX_SMOOTHING_NOISE = 0.1
GRID_COMPONENTS = 800  # at least, where there are counts of grids


def shrink_noise(matrix: np.ndarray) -> np.ndarray:
    """Return a matrix plus noise of variance 1 in each cell, less most of the noise.

    The singular values are shrunk as is best in mean squared error for matrices of low rank: Gavish and
    Donoho (2017), "Optimal Shrinkage of Singular Values", IEEE Transactions on Information Theory 63(4),
    eq. 7. Those that noise alone would make become 0.

    Parameters
    ----------
    matrix : ndarray, shape (m, n)

    Returns
    -------
    ndarray, shape (m, n)
    """
    m, n = matrix.shape
    left_vectors, values, right_vectors = np.linalg.svd(matrix, full_matrices=False)
    squares = values**2
    above_noise = values > np.sqrt(m) + np.sqrt(n)
    inside = np.maximum((squares - m - n) ** 2 - 4 * m * n, 0)
    values = np.divide(np.sqrt(inside), values, out=np.zeros_like(values), where=above_noise)
    return (left_vectors * values) @ right_vectors


@dataclass(frozen=True, eq=False)
class Departure:
    """The departure of the counts of a pair from those of independent columns.

    Attributes
    ----------
    noisy, shrunk : ndarray, shape of the counts
        In rows, with the noise of the counts and with most of it shrunk.
    """

    noisy: np.ndarray
    shrunk: np.ndarray


Departures = Mapping[tuple[int, ...], Departure]


def departures(measured: Measurements, shares: Sequence[np.ndarray]) -> Departures:
    """Return the departures from independence of all counts of pairs.

    Parameters
    ----------
    measured : Measurements
        Those of two columns count.
    shares : sequence of ndarray, shape (size,)
        A distribution of the values of each column.
    """
    found: dict[tuple[int, ...], Departure] = {}
    for m in measured.counts:
        if len(m.columns) == 2:
            groups, std = measured.resolution.of(m.columns), max(m.std, LEAST_STD)
            first, second = (in_groups(shares[j], [groups[j]]) for j in m.columns)
            noisy = m.counts - measured.rows * np.outer(first, second)
            found[m.columns] = Departure(noisy, std * shrink_noise(noisy / std))
    return found


def smooth_counts(
    measured: Measurements, apart: Departures, config: MargNetConfig
) -> Mapping[tuple[int, ...], np.ndarray]:
    """Return counts of pairs, moved part of the way to those whose departure from independence is shrunk.

    Above ``MAX_SMOOTHING_NOISE`` hardly any direction differs from noise.

    Parameters
    ----------
    measured : Measurements
        Those of two columns count.
    apart : mapping
        Their departures from independence.
    config : MargNetConfig
        Its ``smoothing`` is the part, from 0, which moves none, to 1.

    Returns
    -------
    mapping of a pair to ndarray
        Of the pairs that are moved.
    """
    moved: dict[tuple[int, ...], np.ndarray] = {}
    for m in measured.counts if config.smoothing else ():
        hidden = m.std * sum(map(math.sqrt, m.counts.shape)) / measured.rows
        if len(m.columns) == 2 and 0 < hidden <= MAX_SMOOTHING_NOISE:
            change = apart[m.columns].shrunk - apart[m.columns].noisy
            moved[m.columns] = m.counts + config.smoothing * change
    return moved


def dependence_of(measured: Measurements, shares: Sequence[np.ndarray]) -> float:
    """Return how far counts of pairs and triples are from independence, beyond their noise: for each column, in its variances.

    Parameters
    ----------
    measured : Measurements
    shares : sequence of ndarray, shape (size,)
        A distribution of the values of each column.

    Returns
    -------
    float
        About 0 where the columns are independent; it may be below.
    """
    excess = 0.0
    for m in measured.counts:
        if len(m.columns) > 1:
            groups = measured.resolution.of(m.columns)
            expected = reduce(
                np.multiply.outer, (in_groups(shares[j], [groups[j]]) for j in m.columns)
            )
            errors = (m.counts - measured.rows * expected) / max(m.std, LEAST_STD)
            excess += float(np.square(errors).sum()) - errors.size
    return excess / len(shares)


Set = tuple[int, ...]


class Grouped:
    """Probabilities of groups of values: Q, shape (components, groups in all), of P.

    Parameters
    ----------
    layout : Layout
    groups : Groups
    """

    def __init__(self, layout: Layout, groups: Groups, device: torch.device | str) -> None:
        ends = np.cumsum([number_of(g) for g in groups])
        starts = [0, *ends[:-1].tolist()]
        self.spans = [slice(a, b) for a, b in zip(starts, ends.tolist(), strict=True)]
        spots = np.concatenate([g + at for g, at in zip(groups, starts, strict=True)])
        self.spots = torch.from_numpy(spots).to(device)
        self.width = int(ends[-1])
        self.same = np.array_equal(spots, np.arange(layout.width))

    def of(self, p: Tensor) -> Tensor:
        """Return Q of P."""
        return p if self.same else p.new_zeros(len(p), self.width).index_add_(1, self.spots, p)

    def back(self, gradient: Tensor) -> Tensor:
        """Return the gradient in P of a gradient in Q."""
        return gradient if self.same else gradient.index_select(1, self.spots)


@dataclass(frozen=True, eq=False)
class ScaledCounts:
    """Noisy counts of two or three columns, in units of their noise.

    Attributes
    ----------
    columns : tuple of int
        In rising order.
    slope : float
        What an expectation is scaled by.
    target : ndarray, shape (groups of each column)
        The noisy counts, scaled alike.
    aim : ndarray
        The counts that the way down leads to, scaled alike.
    """

    columns: tuple[int, ...]
    slope: float
    target: np.ndarray
    aim: np.ndarray


@dataclass(frozen=True, eq=False)
class Block:
    """Groups of the first column of some sets, in views of the tensors of :class:`GatheredCounts`.

    Attributes
    ----------
    factors, gradients : list of Tensor, shape (groups, components)
        Probabilities of the one column, or the two, before the last, and half the gradient of each.
    products, back : Tensor, shape (combinations of these groups, components)
    last, of_last : Tensor, shape (groups of the last columns of all sets, components)
        Scaled.
    error : Tensor, shape (combinations, groups of the last columns)
        Minus what is aimed at.
    """

    factors: list[Tensor]
    gradients: list[Tensor]
    products: Tensor
    back: Tensor
    last: Tensor
    of_last: Tensor
    error: Tensor

    def descend(self) -> None:
        """Add what is expected to the error, and add half the gradients."""
        if len(self.factors) == 1:
            self.error.addmm_(self.products, self.last.T)
            self.gradients[0].addmm_(self.error, self.last)
        else:
            first, second = self.factors[0][:, None], self.factors[1]
            shape = (len(first), *second.shape)
            torch.mul(first, second, out=self.products.view(shape))
            self.error.addmm_(self.products, self.last.T)
            back = torch.mm(self.error, self.last, out=self.back).view(shape)
            self.gradients[0].add_(torch.linalg.vecdot(back, second, dim=1))
            self.gradients[1].add_(torch.linalg.vecdot(back, first, dim=0))
        self.of_last.addmm_(self.error.T, self.products)


class GatheredCounts:
    """Pairs, or triples: GEMMs of a column, or of two, with the last columns of all sets that begin with these.

    Tensors are made once: small ones take longer to make than to compute.

    Parameters
    ----------
    groups : Grouped
    sets : sequence of ScaledCounts
        All of two columns, or all of three.
    components, memory : int
        As in :class:`CountLoss`.
    """

    def __init__(
        self,
        groups: Grouped,
        sets: Sequence[ScaledCounts],
        components: int,
        memory: int,
        device: torch.device | str,
    ) -> None:
        self.groups = groups
        # On a CPU, blocks that stay in its cache take half the time.
        memory = min(memory, CACHE) if torch.device(device).type == "cpu" else memory
        sizes = [span.stop - span.start for span in groups.spans]
        by_first = dict[Set, list[ScaledCounts]]()
        for counts in sets:
            by_first.setdefault(counts.columns[:-1], []).append(counts)
        gathered = list(by_first.values())
        ends = [(counts.columns[-1], counts.slope) for alike in gathered for counts in alike]
        spots = np.concatenate([np.arange(sizes[j]) + groups.spans[j].start for j, _ in ends])
        slopes = np.concatenate([np.full((sizes[j], 1), slope) for j, slope in ends])
        target = _side_by_side([[counts.target for counts in alike] for alike in gathered])
        aims = _side_by_side([[counts.aim for counts in alike] for alike in gathered])
        self.spots = torch.from_numpy(spots).to(device)
        self.slopes = torch.from_numpy(slopes).float().to(device)
        self.aims = torch.from_numpy(aims).float().to(device)
        self.away = torch.from_numpy(target - aims).float().to(device)
        self.error = torch.empty_like(self.aims)
        self.q, self.gradient = torch.empty(2, groups.width, components, device=device)
        self.last, self.of_last = torch.empty(2, len(spots), components, device=device)
        # By the columns before the last: combinations of groups of those but the first, and groups of the last columns.
        shapes = {
            first: (
                math.prod(sizes[j] for j in first[1:]),
                sum(sizes[c.columns[-1]] for c in alike),
            )
            for first, alike in by_first.items()
        }
        at_once = {
            first: min(sizes[first[0]], max(1, memory // (8 * second * (components + width))))
            for first, (second, width) in shapes.items()
        }
        most = max(at_once[first] * second for first, (second, _) in shapes.items())
        products, back = torch.empty(2, most, components, device=device)
        self.blocks = list[Block]()
        cell = last = 0
        for first, (second, width) in shapes.items():
            spans = [groups.spans[j] for j in first]
            for start in range(spans[0].start, spans[0].stop, at_once[first]):
                spans[0] = slice(start, min(start + at_once[first], groups.spans[first[0]].stop))
                rows = (spans[0].stop - start) * second
                factors = [self.q[span] for span in spans]
                self.blocks.append(
                    Block(
                        factors,
                        [self.gradient[span] for span in spans],
                        products[:rows] if len(first) > 1 else factors[0],
                        back[:rows],
                        self.last[last : last + width],
                        self.of_last[last : last + width],
                        self.error[cell : cell + rows * width].view(rows, width),
                    )
                )
                cell += rows * width
            last += width

    def aim_at(self, p: Tensor) -> None:
        """Take the counts that ``p`` expects as aims."""
        self.away += self.aims
        self.aims.zero_()
        self(p)
        self.aims.copy_(self.error)
        self.away -= self.aims

    def __call__(self, p: Tensor) -> tuple[Tensor, Tensor]:
        """Return the squared error, and half its gradient, or that of the distance from other aims."""
        self.q.copy_(self.groups.of(p).T)
        torch.mul(self.q.index_select(0, self.spots), self.slopes, out=self.last)
        self.gradient.zero_()
        self.of_last.zero_()
        torch.neg(self.aims, out=self.error)
        for block in self.blocks:
            block.descend()
        self.gradient.index_add_(0, self.spots, self.of_last.mul_(self.slopes))
        return (self.error - self.away).square().sum(), self.groups.back(
            self.gradient.T.contiguous()
        )


def _side_by_side(tables: Sequence[Sequence[np.ndarray]]) -> np.ndarray:
    """Return the cells of tables whose rows are alike, row by row."""
    rows = [[table.reshape(-1, table.shape[-1]) for table in alike] for alike in tables]
    return np.concatenate([np.concatenate(alike, axis=1).ravel() for alike in rows])


class Tables:
    """Grids, and declared tables at each of their levels: products of the groups of any number of columns.

    The columns of a table are in two parts, of about as many cells each, and the table is one GEMM of both.

    Parameters
    ----------
    layout : Layout
    grids : sequence of GridCounts
    scale : float
        Rows for each component.
    """

    def __init__(
        self,
        layout: Layout,
        grids: Sequence[GridCounts],
        scale: float,
        device: torch.device | str,
    ) -> None:
        self.layout, self.levels = (
            layout,
            list[tuple[list[tuple[slice, Tensor]], int, float, Tensor]](),
        )
        self.cells = sum(grid.counts.size for grid in grids)
        for grid in grids:
            std, sizes = max(grid.std, LEAST_STD), grid.counts.shape
            factors = list[tuple[slice, Tensor]]()
            for j, group, size in zip(grid.columns, grid.groups, sizes, strict=True):
                block = layout.blocks[j]
                onto = torch.eye(size)[torch.from_numpy(group)].to(device)
                factors.append((slice(block.start, block.stop), onto))
            parts = [math.prod(sizes[:i]) + math.prod(sizes[i:]) for i in range(len(sizes))]
            first = int(np.argmin(parts))
            target = torch.from_numpy(grid.counts / std).float().to(device)
            target = target.reshape(math.prod(sizes[:first]), -1)
            self.levels.append((factors, first, scale / std, target))

    def __call__(self, p: Tensor) -> tuple[Tensor, Tensor]:
        """Return the squared error, and half its gradient."""
        with torch.enable_grad():
            q = p.detach().requires_grad_()
            loss = q.new_zeros(())
            for factors, first, slope, target in self.levels:
                first_part, second_part = (
                    _products(q, part) for part in (factors[:first], factors[first:])
                )
                loss = loss + (slope * (first_part.T @ second_part) - target).square().sum()
            (gradient,) = torch.autograd.grad(loss, q)
        return loss.detach(), gradient / 2


def _products(p: Tensor, factors: Sequence[tuple[slice, Tensor]]) -> Tensor:
    """Return the probabilities of all combinations of groups in each component, shape (components, combinations)."""
    out = p.new_ones(len(p), 1)
    for span, onto in factors:
        out = (out[:, :, None] * (p[:, span] @ onto)[:, None, :]).flatten(1)
    return out


CACHE = 5 * 2**18  # bytes
SMALLEST_MASS = 1e-30


class Zeros:
    """The counts of structural zeros, known to be 0: a mixture expects of each rows · P(zero).

    Parameters
    ----------
    layout : Layout
    zeros : sequence of Zero
        By column number, which of its values.
    scale : float
        Rows for each component.
    """

    def __init__(
        self, layout: Layout, zeros: Sequence[Zero], scale: float, device: torch.device | str
    ) -> None:
        self.scale, self.number = scale, len(zeros)
        self.named: list[tuple[slice, Tensor, Tensor]] = []  # a column's block, which zeros, masks
        for j in sorted({j for zero in zeros for j in zero}):
            which = [i for i, zero in enumerate(zeros) if j in zero]
            masks = torch.from_numpy(np.stack([zeros[i][j] for i in which])).float().to(device)
            block = layout.blocks[j]
            self.named.append(
                (slice(block.start, block.stop), torch.tensor(which, device=device), masks)
            )

    def add(self, p: Tensor, gradient: Tensor, weight: float) -> None:
        """Add half the gradient of their squared error; ``weight`` is that of an error."""
        scale = self.scale * weight
        # No mass is quite 0, so that the others' product is a quotient.
        masses = [(p[:, span] @ masks.T).clamp_min_(SMALLEST_MASS) for span, _, masks in self.named]
        products = p.new_ones(len(p), self.number)
        for (_, which, _), mass in zip(self.named, masses, strict=True):
            products[:, which] *= mass
        products *= scale**2 * products.sum(0)
        for (span, which, masks), mass in zip(self.named, masses, strict=True):
            gradient[:, span].addmm_(products[:, which] / mass, masks)


class CountLoss:
    """Mean squared error of the counts that a mixture expects, cell by cell in units of their noise.

    Pairs of columns are products of a column with its partners (:class:`GatheredCounts`). Triples are as many GEMMs as there are pairs (a, b) that begin one:
    (Q_a ⊗ Q_b)ᵀ Q_c of all their c, with coarser groups, and in blocks of groups of a where that is too large.

    Parameters
    ----------
    layout : Layout
    measured : Measurements
        Counts of columns, value by value; of pairs and triples, group by group; of declared tables.
    components : int
        Rows of P.
    aims : mapping of a pair to ndarray, optional
        Counts that the way down leads to, where these are others than the noisy ones that the loss is of.
    memory : int
        Bytes for Q_a ⊗ Q_b, the counts of its triples, and the gradients of both; at least one group of
        a is taken at once.
    zeros : sequence of Zero
        Structural zeros: combinations of values that no row has. Errors of their counts are in rows.
    """

    def __init__(
        self,
        layout: Layout,
        measured: Measurements,
        components: int,
        device: torch.device | str = "cpu",
        *,
        aims: Mapping[Set, np.ndarray] | None = None,
        memory: int = 2**30,
        zeros: Sequence[Zero] = (),
    ) -> None:
        self.scale = measured.rows / components
        self.zeros = Zeros(layout, zeros, self.scale, device) if zeros else None
        groups = Grouped(layout, measured.resolution.pairs, device)
        # What is expected is slope · P; slope is 0 where nothing was measured.
        singles = np.zeros((2, layout.width), dtype=np.float32)
        pairs, triples = list[ScaledCounts](), list[ScaledCounts]()
        for m in measured.counts:
            std, aim = max(m.std, LEAST_STD), (aims or {}).get(m.columns, m.counts)
            scaled = ScaledCounts(m.columns, self.scale / std, m.counts / std, aim / std)
            if len(m.columns) == 1:
                block = layout.blocks[m.columns[0]]
                singles[0, block.start : block.stop] = scaled.slope
                singles[1, block.start : block.stop] = scaled.target
            else:
                (pairs if len(m.columns) == 2 else triples).append(scaled)
        self.slope1, self.target1 = torch.from_numpy(singles).to(device)
        self.aim1 = self.target1
        self.terms = list[GatheredCounts | Tables]()
        if pairs:
            self.terms.append(GatheredCounts(groups, pairs, components, memory, device))
        self.cells = sum(m.counts.size for m in measured.counts)
        if triples:
            coarse = Grouped(layout, measured.resolution.triples, device)
            self.terms.append(GatheredCounts(coarse, triples, components, memory, device))
        grids = [*measured.grids, *(grid for t in measured.tables for grid in t.grids)]
        if grids:
            tables = Tables(layout, grids, self.scale, device)
            self.cells += tables.cells
            self.terms.append(tables)

    @torch.no_grad()
    def aim_at(self, p: Tensor) -> None:
        """Lead the way down to the counts that ``p`` expects in place of the noisy ones, but for those of declared tables."""
        self.aim1 = p.sum(0) * self.slope1
        for term in self.terms:
            if isinstance(term, GatheredCounts):
                term.aim_at(p)

    @torch.no_grad()
    def __call__(self, p: Tensor, zeros: float = 0.0) -> tuple[float, Tensor]:
        """Return the loss of probabilities ``p``, shape (components, layout.width), and its gradient.

        For the pairs that have other aims, the gradient is that of the distance from these. ``zeros`` is the
        weight of impossible rows, from 0 to 1; they are in the gradient alone.
        """
        expected1 = p.sum(0) * self.slope1
        loss = (expected1 - self.target1).square().sum()
        gradient = ((expected1 - self.aim1) * self.slope1).expand_as(p).clone()
        for term in self.terms:
            of_term, slopes = term(p)
            loss += of_term
            gradient.add_(slopes)
        if self.zeros and zeros:
            self.zeros.add(p, gradient, zeros)
        return float(loss) / self.cells, gradient.mul_(2 / self.cells)


STAGE = "generator"
ZEROS = "structural zeros"
ZERO_STEPS = 200  # against rows that the schema declares impossible: without them, values with many such rows become rare
ZERO_RATE = 0.3  # the highest learning rate of these steps, as a share of the others'
OF_LOGITS = 10.0  # times the rate, of components by themselves
# Share of a time limit for the other steps, where the schema declares impossible rows.
COUNTS_TIME = 0.7
# The fit goes on so many times the steps to the noise level, and at least ``FURTHER_STEPS``; 0 of both end it there.
CONTINUATION, FURTHER_STEPS = 3.0, 40
# Where the error is not down to the noise after these steps of the network, the components go on by themselves: …
NETWORK_STEPS = 200
COMPONENT_STEPS = 150  # … at least so many steps past the noise, or as many as to it, …
LEVELS, LEAST_ENTROPY = (
    3,
    0.6,
)  # … in which the weight of entropy falls in so many levels to this part.
PATIENCE, LEAST_GAIN = (
    30,
    0.99,
)  # steps, and the part of the error that they leave where nothing more is learned
WARM_UP = 100  # steps in which the learning rate grows
# The weight of the mean entropy of the components in the loss falls linearly to 0 with the last step, and is up to twice as
# large past the noise level. Where counts show less than ``CLEAR_DEPENDENCE`` it is smaller, down to ``MIN_ENTROPY``.
ENTROPY, MIN_ENTROPY = 0.6, 0.1
NOISY_DEPENDENCE = 50_000.0  # as ``CLEAR_DEPENDENCE``: with more, entropy weighs less than twice as much past the noise level
STEPS_TO_NOISE, STEPS_BY_ERROR = 45, 0.6
# Errors of fits that converge rise to 1.5 times at most, at ε = 1,000 to 3 times; see MargNetFit._is_stable.
LARGEST_RISE, LEAST_FALL, SMALLER_RATE = 4.0, 0.95, 0.5
MOST_WAITED = 100  # steps
TREE_COMPONENTS = 4096  # of a mixture that is the tree model: with more its error is hardly smaller
TINY = 1e-9  # probability below which entropy is flat


def rate_at(i: int, steps: int) -> float:
    """Return the learning rate over its highest at step ``i`` of ``steps``: it grows in ``WARM_UP`` steps, and falls to 0 with the last one."""
    return min(1.0, (i + 1) / WARM_UP) * (1 + math.cos(math.pi * i / steps)) / 2


class MargNetFit:
    """The fit of a mixture to noisy counts.

    Parameters
    ----------
    layout : Layout
        One-hot.
    config : MargNetConfig
    measured : Measurements
        All one-way counts, and some of two and three columns, group by group.
    rng : torch.Generator
        On the CPU; draws the network.
    zeros : sequence of Zero
        Combinations of values that the schema declares impossible.
    start : ndarray, shape (components, layout.width), optional
        The probabilities of a fitted mixture to go on from. Default: those of the tree model, or of the factor model.
    taken : int
        The steps that led to it: where the network was left, its components go on as they are.
    """

    network_steps = NETWORK_STEPS  # 0: all

    def __init__(
        self,
        layout: Layout,
        config: MargNetConfig,
        measured: Measurements,
        rng: torch.Generator,
        device: torch.device | str = "cpu",
        zeros: Sequence[Zero] = (),
        start: np.ndarray | None = None,
        taken: int = 0,
    ) -> None:
        self.config, self.layout, self.measured = config, layout, measured
        columns = len(layout.blocks)
        single = {m.columns[0]: m for m in measured.counts if len(m.columns) == 1}
        shares = [
            probabilities(m.counts.ravel(), measured.rows, m.std)
            for m in (single[j] for j in range(columns))
        ]
        self.dependence = dependence_of(measured, shares)
        self.tree: TreeModel | None = None
        self._start = start
        self.components = self._number_of_components(columns) if start is None else len(start)
        self.departures = departures(measured, shares)
        self.network = self._make_network(shares, rng).to(device)
        self.loss = CountLoss(
            layout,
            measured,
            self.components,
            device,
            aims=smooth_counts(measured, self.departures, config),
            memory=config.memory * 2**20,
            zeros=zeros,
        )
        self.optimizer: Adam | LBFGS = Adam(self.network.parameters())
        if start is not None and 0 < self.network_steps <= taken:
            self.network_steps = 0
            self._leave_network(torch.from_numpy(start).float().to(device))
        self.errors: list[float] = []
        self.noise_step: int | None = None  # the step whose loss was at the noise level
        self.trial = False
        self.rate = config.learning_rate
        self.best: dict[str, Any] | None = None  # the state at the least error, or nearly so
        self.aim: Tensor | None = None  # the mixture that steps against impossible rows keep near

    def _number_of_components(self, columns: int) -> int:
        """Return the number of rows of probabilities that the network gives."""
        most = self.config.rows_of_mixture(columns, self.dependence)
        grids = bool(self.measured.grids) and self.config.components is None
        return max(most, GRID_COMPONENTS) if grids else most

    def _make_network(self, shares: Sequence[np.ndarray], rng: torch.Generator) -> Any:
        """Return a network whose components are near those of the start, by default of the tree model of the counts or, if nearer, of their factor model."""
        config, groups, rows = self.config, self.measured.resolution.pairs, self.measured.rows
        make = partial(MixtureNetwork, latent_dim=config.latent_dim, hidden=config.hidden, rng=rng)
        network = make(self.layout, self.components)
        shrunk = {pair: d.shrunk / rows for pair, d in self.departures.items()}
        self.tree = TreeModel.of(shares, groups, shrunk)
        drawn = host(rng)
        start = self.tree.components(self.components, drawn)
        for grid in self.measured.grids:
            if grid.related:
                cells = probabilities(grid.counts.ravel(), rows, grid.std)
                blocks = [block.start for block in self.layout.blocks]
                begin_in_cells(start, blocks, grid, cells.reshape(grid.counts.shape), drawn)
        if self._start is not None:
            start = self._start
        else:
            noisy = {pair: d.noisy / rows for pair, d in self.departures.items()}
            noise = {m.columns: max(m.std, LEAST_STD) / rows for m in self.measured.counts}
            factors = FactorModel.of(shares, groups, noisy, noise, config.latent_dim)
            # Without a factor all components would be alike, and steps against impossible rows could not tell them apart.
            if factors.means.size and self._nearer(factors.components(len(start), drawn), start):
                self.components = config.rows_of_mixture(len(shares))
                start = factors.components(self.components, drawn)
                network = make(self.layout, self.components)
        network.start_from(shares, start)
        return network

    def _nearer(self, first: np.ndarray, second: np.ndarray) -> bool:
        """Return whether the first of two mixtures of as many components is nearer to the counts."""
        memory = self.config.memory * 2**20
        loss = CountLoss(self.layout, self.measured, len(first), memory=memory)
        errors = [loss(torch.from_numpy(p).float())[0] for p in (first, second)]
        return errors[0] < errors[1]

    def fit(
        self,
        monitor: TrainingMonitor,
        of: str = "",
        share: float = 1.0,
    ) -> int:
        """Fit to the noise level and beyond, to the last step or the deadline; returns the steps done.

        Steps after that do nothing, except in a trial, whose steps are to take their time. Then come
        those that make impossible rows rare: before the components differ, the shortest way would be to make
        one side of each combination rare in all of them.

        Stages are named ``of`` what, and may use that ``share`` of the time that is left, where a fit has several.
        """
        self.trial = monitor.trial_steps is not None
        steps = monitor.limit_steps(self.config.steps)
        counts_share = share * (COUNTS_TIME if self.loss.zeros else 1.0)
        numbers = self.components * self.layout.width
        run = partial(run_steps, monitor=monitor, state=self, numbers=numbers)
        done = run(
            of + STAGE,
            steps,
            lambda i: self.step(i, steps),
            share=counts_share,
            may_stop=self._reaches_tree,
        )
        if done < steps:
            self._take_best()
        if self.loss.zeros:
            few = monitor.limit_steps(ZERO_STEPS)
            run(of + ZEROS, few, lambda i: self.step_from_zeros(i, few), share=share)
        return done

    def _reaches_tree(self) -> bool:
        """Return whether the error is at most that of the tree model, or of the noise: a time limit waits ``MOST_WAITED`` steps for it."""
        if self.tree is None or len(self.errors) >= MOST_WAITED:
            return True
        if not self.errors:
            return False
        kept = self.errors[-1] if self.best is None else self.best["loss"]
        return self._at_noise(min(self.errors[-1], kept)) or bool(kept <= self._tree_error)

    @cached_property
    def _tree_error(self) -> float:
        """The error of the tree model, as a mixture of many components."""
        assert self.tree is not None
        memory, device = self.config.memory * 2**20, self.network.inputs.device
        count = max(self.components, min(TREE_COMPONENTS, memory // (16 * self.layout.width)))
        components = torch.from_numpy(self.tree.components(count, np.random.default_rng(0)))
        loss = CountLoss(self.layout, self.measured, count, device, memory=memory)
        return loss(components.float().to(device))[0]

    @torch.no_grad()
    def _take_best(self) -> None:
        """Go back to the state of the least error where the present one is of a larger error."""
        adam = isinstance(self.optimizer, Adam)  # L-BFGS takes no step that makes it larger
        if adam and self.best is not None and not self.error() <= self.best["loss"]:
            self._set_weights(copy.deepcopy(self.best))

    @torch.no_grad()
    def error(self) -> float:
        """Return the mean squared error of the counts over the variance of their noise, as the network is now."""
        return self.loss(self.network())[0]

    def reached(self) -> dict[str, float]:
        """Return the steps, and the distance from the counts, that a certificate states."""
        return {"steps": len(self.errors), "distance": math.sqrt(self.error())}

    def step(self, i: int, steps: int) -> None:
        """Take step ``i`` of ``steps`` towards the counts."""
        if i >= self._last(steps):
            return
        if isinstance(self.optimizer, LBFGS):
            self._step_of_components(i, steps, self.optimizer)
            return
        p = self.network()
        loss, gradient = self.loss(p)
        self.errors.append(loss)
        if not self._is_stable(loss):
            return
        if self.noise_step is None and not self.trial and self._at_noise(loss):
            self.noise_step = i
        last = self._last(steps)
        if i < last:
            rate, entropy = rate_at(i, steps), 1 - i / steps
            if self.noise_step is not None:
                remaining = (last - i) / (last - self.noise_step)
                rate = rate_at(self.noise_step, steps) * (1 - math.cos(math.pi * remaining)) / 2
                entropy = self.late_entropy * (1 - self.noise_step / steps) * remaining
            self._descend(p, gradient, rate * self.rate, entropy)
        if i + 1 == self.network_steps and self.noise_step is None:
            self._leave_network(self.network())

    @torch.no_grad()
    def _leave_network(self, p: Tensor) -> None:
        """Go on with the logits of components in place of the network's weights."""
        logits = p.clamp_min(TINY).log_()
        self.network = Components(logits, self.layout.sizes)
        self.optimizer = LBFGS(logits.view(-1))

    def _step_of_components(self, i: int, steps: int, optimizer: LBFGS) -> None:
        """Take a step of the components by themselves, until the error is that of the noise, or falls no further, and some more with less entropy."""
        entropy = self._entropy_of_components(i, steps)
        if entropy != self._entropy_of_components(i - 1, steps):
            optimizer.change_function()
        logits = optimizer.trial.view(self.components, -1).requires_grad_()
        p = normalise(logits, self.layout.sizes)
        loss, gradient = self.loss(p.detach())
        self.errors.append(loss)
        value = loss + self._add_entropy(p, gradient, entropy)
        slope = torch.dot(p.flatten(), gradient.flatten())
        (gradient,) = torch.autograd.grad(slope, logits)
        optimizer.step(value, gradient.reshape(-1))
        if self.noise_step is None and not self.trial:
            waited = len(self.errors) - self.network_steps > PATIENCE
            stalled = waited and loss > LEAST_GAIN * self.errors[-PATIENCE]
            if stalled or self._at_noise(loss):
                self.noise_step = i

    def _entropy_of_components(self, i: int, steps: int) -> float:
        """Return the weight of entropy: as after the last step of the network, and past the noise level falling in ``LEVELS``."""
        entropy = 1 - self.network_steps / steps
        if self.noise_step is None or i <= self.noise_step:
            return entropy
        further = self._last(steps) - self.noise_step
        level = (i - self.noise_step - 1) * LEVELS // further
        return entropy * self.late_entropy * (1 - (1 - LEAST_ENTROPY) * level / (LEVELS - 1))

    def _is_stable(self, loss: float) -> bool:
        """Return whether the error has not risen far; where it has, the fit goes back to a step of less, with a smaller learning rate.

        Where some counts are much clearer than others, steps may be too large, and the error rises to many times what it was.
        """
        if self.best is None or loss < LEAST_FALL * self.best["loss"]:
            self.best = {"loss": loss, **copy.deepcopy(self._weights())}
        if loss <= LARGEST_RISE * self.best["loss"]:
            return True
        self._set_weights(copy.deepcopy(self.best))
        self.rate *= SMALLER_RATE
        return False

    def _at_noise(self, loss: float) -> bool:
        """Return whether the mean squared error is no more than the noise's variance."""
        return loss <= 1

    def _last(self, steps: int) -> int:
        """Return the first of ``steps`` that does nothing."""
        if self.noise_step is None:
            return steps
        further = max(FURTHER_STEPS, int(CONTINUATION * self.entropy_share * self.noise_step))
        if isinstance(self.optimizer, LBFGS):
            further = max(COMPONENT_STEPS, self.noise_step - self.network_steps)
        return min(steps, self.noise_step + further)

    def likely_steps(self) -> dict[str, int]:
        """Return the steps that a fit will likely take, by a trial of its first ones.

        How many steps lead to the noise was measured on the tables of reports/tables, at ε = 1 and 8: it
        grows with the first error, of independent columns.
        """
        to_noise = STEPS_TO_NOISE * self.errors[0] ** STEPS_BY_ERROR
        steps = to_noise * (1 + CONTINUATION * self.entropy_share)
        if 0 < self.network_steps < to_noise:
            steps = to_noise + max(COMPONENT_STEPS, to_noise - self.network_steps)
        return {STAGE: min(self.config.steps, round(steps))}

    def step_from_zeros(self, i: int, steps: int) -> None:
        """Take step ``i`` of ``steps`` away from impossible rows, whose weight grows to that of counts.

        The counts are those of the mixture before these steps: with noisy ones, the steps would go on to fit the noise.
        """
        p = self.network()
        if self.aim is None:
            self._keep_near(p.detach())
        _, gradient = self.loss(p, (i + 1) / steps)
        rate = ZERO_RATE * self.rate * min(1.0, 3 * (1 - i / steps))
        if isinstance(self.network, Components):
            rate *= OF_LOGITS
            if isinstance(self.optimizer, LBFGS):
                self.optimizer = Adam(self.network.parameters())
        entropy = LEAST_ENTROPY
        if self.noise_step is None:
            entropy = 1 - min(1.0, len(self.errors) / self.config.steps)
        self._descend(p, gradient, rate, entropy)

    def _keep_near(self, p: Tensor) -> None:
        """Lead the following steps to the counts of a mixture."""
        self.aim = p
        self.loss.aim_at(p)

    def _descend(self, p: Tensor, gradient: Tensor, rate: float, entropy: float) -> None:
        self._add_entropy(p, gradient, entropy)
        # The gradient of a number: where torch is given one of ``p``, it imports sympy.
        slope = torch.dot(p.flatten(), gradient.flatten())
        optimizer = self.optimizer
        assert isinstance(optimizer, Adam)
        optimizer.step(torch.autograd.grad(slope, optimizer.parameters), rate)

    @torch.no_grad()
    def _add_entropy(self, p: Tensor, gradient: Tensor, entropy: float) -> float:
        """Add the slopes of the entropy of the components to a gradient, with a weight; returns what it adds to the loss."""
        if not ENTROPY:
            return 0.0
        logs = p.clamp_min(TINY).log_()
        weight = ENTROPY * self.entropy_share * entropy / len(self.layout.blocks) / self.components
        gradient.add_(logs, alpha=weight)
        return weight * float(torch.dot(p.flatten(), logs.flatten()))

    @property
    def entropy_share(self) -> float:
        """Part of its weight that entropy has, by how far the counts are from independence."""
        share = self.dependence / CLEAR_DEPENDENCE
        return min(1.0, max(MIN_ENTROPY, share))

    @property
    def late_entropy(self) -> float:
        """The factor of that weight after the noise level: from 2 to 1, by the same distance."""
        return 1 + NOISY_DEPENDENCE / max(self.dependence, NOISY_DEPENDENCE)

    @torch.no_grad()
    def mixture(self) -> Mixture:
        """Return the mixture as it is now."""
        return (
            Mixture(self.layout, self.components).to(self.network.inputs.device).set(self.network())
        )

    @property
    def curves(self) -> dict[str, dict[str, list[float]]]:
        """The loss over the steps: a function of the noisy counts, so public."""
        every = max(1, self.config.steps // 100)
        steps = [i for i in range(0, len(self.errors), every) if math.isfinite(self.errors[i])]
        curve = {"step": [float(i) for i in steps], "value": [self.errors[i] for i in steps]}
        return {"squared error of a count over its noise's variance": curve}

    def _weights(self) -> dict[str, Any]:
        return {"network": self.network.state_dict(), "optimizer": self.optimizer.state_dict()}

    def _set_weights(self, state: Mapping[str, Any]) -> None:
        if len(state["network"]) == 1 and not isinstance(self.network, Components):
            self._leave_network(self.network())
        if "means" in state["optimizer"] and isinstance(self.optimizer, LBFGS):
            self.optimizer = Adam(self.network.parameters())
        self.network.load_state_dict(state["network"])
        self.optimizer.load_state_dict(state["optimizer"])

    def state_dict(self) -> dict[str, Any]:
        """Return weights, the optimiser's moments and the losses so far, and the state that the fit goes back to."""
        return {
            **self._weights(),
            "errors": torch.tensor(self.errors, dtype=torch.float64),
            "noise_step": torch.tensor(-1 if self.noise_step is None else self.noise_step),
            "rate": torch.tensor(self.rate, dtype=torch.float64),
            "best": self.best or {},
            "aim": torch.empty(0) if self.aim is None else self.aim,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Invert :meth:`state_dict`."""
        self._set_weights(state)
        self.errors = state["errors"].tolist()
        noise_step = int(state["noise_step"])
        self.noise_step = None if noise_step < 0 else noise_step
        self.rate, self.best = float(state["rate"]), state["best"] or None
        if len(state["aim"]):
            self._keep_near(state["aim"].to(self.loss.slope1.device))
