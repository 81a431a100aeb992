"""How far a mixture of products is from noisy counts, and the way down, in closed form."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
import torch
from torch import Tensor

from tabsynth.encoding.layout import Layout
from tabsynth.errors import InputError
from tabsynth.generators.resolution import Resolution
from tabsynth.privacy.counts import Measured, number_of
from tabsynth.structural_zeros import Zero

LEAST_STD = 0.1  # in counts: what exact counts are weighed by
ZERO_STD = 5.0  # in counts: what rows are weighed by that the schema declares impossible
TINY = 1e-30
Prefix = tuple[int, int]


class Grouped:
    """Probabilities of groups of values: Q, shape (components, groups in all), of P.

    Parameters
    ----------
    layout : Layout
    columns : sequence of (int, ndarray)
        Columns, each once, and groups of their values, side by side.
    """

    def __init__(
        self, layout: Layout, columns: Sequence[tuple[int, np.ndarray]], device: torch.device | str
    ) -> None:
        groups = [group for _, group in columns]
        ends = np.cumsum([number_of(g) for g in groups])
        starts = [0, *ends[:-1].tolist()]
        self.spans = [slice(a, b) for a, b in zip(starts, ends.tolist(), strict=True)]
        spots = np.concatenate([g + at for g, at in zip(groups, starts, strict=True)])
        blocks = [layout.blocks[j] for j, _ in columns]
        values = np.concatenate([np.arange(b.start, b.stop) for b in blocks])
        self.spots, self.values = (torch.from_numpy(at).to(device) for at in (spots, values))
        self.width, self.wide = int(ends[-1]), layout.width
        self.once = np.array_equal(values, np.arange(layout.width))
        self.same = self.once and np.array_equal(spots, values)

    def of(self, p: Tensor) -> Tensor:
        """Q of P."""
        if self.same:
            return p
        each = p if self.once else p[:, self.values]
        return p.new_zeros(len(p), self.width).index_add_(1, self.spots, each)

    def back(self, gradient: Tensor) -> Tensor:
        """The gradient in P of a gradient in Q."""
        if self.same:
            return gradient
        each = gradient[:, self.spots]
        if self.once:
            return each
        return each.new_zeros(len(each), self.wide).index_add_(1, self.values, each)


class Zeros:
    """The counts of structural zeros, known to be 0: a mixture expects of each rows · P(zero).

    Parameters
    ----------
    layout : Layout
    zeros : sequence of Zero
        By column number, which of its values.
    scale : float
        Rows a component, over ``ZERO_STD``.
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
        masses = [(p[:, span] @ masks.T).clamp_min_(TINY) for span, _, masks in self.named]
        found = p.new_ones(len(p), self.number)
        for (_, which, _), mass in zip(self.named, masses, strict=True):
            found[:, which] *= mass
        found *= scale**2 * found.sum(0)
        for (span, which, masks), mass in zip(self.named, masses, strict=True):
            gradient[:, span].addmm_(found[:, which] / mass, masks)


@dataclass(frozen=True, eq=False)
class Thirds:
    """The columns c of all triples (a, b, c) that begin with the same pair, side by side.

    Attributes
    ----------
    spots : Tensor, shape (groups of all c,)
        Where these groups are in Q.
    slopes : Tensor, shape (groups of all c,)
        What an expectation is scaled by.
    target : Tensor, shape (groups of a * groups of b, groups of all c)
        The noisy counts, scaled alike.
    """

    spots: Tensor
    slopes: Tensor
    target: Tensor

    @classmethod
    def of(
        cls,
        spans: Sequence[slice],
        triples: Sequence[tuple[int, float, np.ndarray]],
        device: torch.device | str,
    ) -> Self:
        """Of each triple's c, slope and counts, shape (groups of a, groups of b, groups of c)."""
        held = [np.arange(spans[c].start, spans[c].stop) for c, _, _ in triples]
        slopes = [np.full(len(at), slope) for at, (_, slope, _) in zip(held, triples, strict=True)]
        target = [counts.reshape(-1, counts.shape[2]) for _, _, counts in triples]
        return cls(
            torch.from_numpy(np.concatenate(held)).to(device),
            torch.from_numpy(np.concatenate(slopes)).float().to(device),
            torch.from_numpy(np.concatenate(target, axis=1)).float().to(device),
        )


@dataclass(frozen=True, eq=False)
class Strong:
    """A pair in finer groups than the others.

    Attributes
    ----------
    one, other : slice
        Its columns' groups in Q.
    slope : float
        What an expectation is scaled by.
    target, away : Tensor, shape (groups of one, groups of the other)
        The noisy counts, scaled alike, and how far the aims are below them.
    """

    one: slice
    other: slice
    slope: float
    target: Tensor
    away: Tensor


class CountLoss:
    """Mean squared error of the counts that a mixture expects, cell by cell in units of their noise.

    All pairs of columns are blocks of QᵀQ, one GEMM, and the gradient is another; strong ones, in finer
    groups, have a small GEMM each. Triples are as many GEMMs as there are pairs (a, b) that begin one:
    (Q_a ⊗ Q_b)ᵀ Q_c of all their c, with coarser groups, and in blocks of groups of a where that is too large.

    Parameters
    ----------
    layout : Layout
    measured : sequence of Measured
        Counts of columns, value by value; of pairs and triples, group by group.
    rows : float
        A public or privatised estimate of n.
    components : int
        Rows of P.
    resolution : Resolution, optional
        None: each value by itself.
    zeros : sequence of Zero
        Structural zeros: combinations of values that no row has.
    aims : mapping of a pair to ndarray, optional
        Counts that the way down leads to, where these are others than the noisy ones that the loss is of.
    memory : int
        Bytes for Q_a ⊗ Q_b, the counts of its triples, and the gradients of both; at least one group of
        a is taken at once.
    """

    def __init__(
        self,
        layout: Layout,
        measured: Sequence[Measured],
        rows: float,
        components: int,
        resolution: Resolution | None = None,
        device: torch.device | str = "cpu",
        *,
        zeros: Sequence[Zero] = (),
        aims: Mapping[tuple[int, ...], np.ndarray] | None = None,
        memory: int = 2**30,
    ) -> None:
        self.memory, self.scale = memory, rows / components
        self.zeros = Zeros(layout, zeros, self.scale / ZERO_STD, device) if zeros else None
        by = resolution or Resolution.by_value(layout.sizes)
        self.pairs, self.triples = (
            Grouped(layout, list(enumerate(groups)), device) for groups in (by.pairs, by.triples)
        )
        columns = sorted({j for pair in by.strong for j in pair})
        self.fine = Grouped(layout, [(j, by.fine[j]) for j in columns], device) if columns else None
        self.strong: list[Strong] = []
        self.cells = sum(m.counts.size for m in measured)
        # What is expected is slope · QᵀQ; slope is 0 where nothing was measured.
        pairs = np.zeros((2, self.pairs.width, self.pairs.width), dtype=np.float32)
        singles = np.zeros((2, layout.width), dtype=np.float32)
        aims = aims or {}
        away = np.zeros_like(pairs[0]) if aims else None
        begun: dict[Prefix, list[tuple[int, float, np.ndarray]]] = {}
        for m in measured:
            std = max(m.std, LEAST_STD)
            slope, target = self.scale / std, m.counts / std
            if len(m.columns) == 1:
                block = layout.blocks[m.columns[0]]
                singles[0, block.start : block.stop] = slope
                singles[1, block.start : block.stop] = target
            elif self.fine and m.columns in by.strong:
                one, other = (self.fine.spans[columns.index(j)] for j in m.columns)
                held = (target, (m.counts - aims.get(m.columns, m.counts)) / std)
                tensors = (torch.from_numpy(x).float().to(device) for x in held)
                self.strong.append(Strong(one, other, slope, *tensors))
            elif len(m.columns) == 2:
                one, other = (self.pairs.spans[j] for j in m.columns)
                pairs[0, one, other], pairs[1, one, other] = slope, target
                pairs[:, other, one] = pairs[:, one, other].transpose(0, 2, 1)
                if away is not None and m.columns in aims:
                    away[one, other] = (m.counts - aims[m.columns]) / std
                    away[other, one] = away[one, other].T
            elif len(m.columns) == 3:
                a, b, c = m.columns
                begun.setdefault((a, b), []).append((c, slope, target))
            else:
                raise InputError(f"Expected counts of one to three columns, got {len(m.columns)}.")
        self.begun = {
            prefix: Thirds.of(self.triples.spans, found, device) for prefix, found in begun.items()
        }
        self.slope, self.target = torch.from_numpy(pairs).to(device)
        self.away = None if away is None else torch.from_numpy(away).to(device)
        self.slope1, self.target1 = torch.from_numpy(singles).to(device)

    @torch.no_grad()
    def __call__(self, p: Tensor, zeros: float = 0.0) -> tuple[float, Tensor]:
        """The loss of probabilities ``p``, shape (components, layout.width), and the way up.

        That is its gradient, but for the pairs that have other aims: there it is the gradient of the
        distance from these.
        ``zeros`` is the weight of impossible rows, from 0 to 1; they are in the gradient alone.
        """
        q = self.pairs.of(p)
        error = (q.T @ q).mul_(self.slope).sub_(self.target)
        error1 = p.sum(0) * self.slope1 - self.target1
        # Each pair of columns is in the matrix twice.
        loss = error.square().sum() / 2 + error1.square().sum()
        if self.away is not None:
            error.add_(self.away)
        gradient = self.pairs.back(q @ error.mul_(self.slope))
        gradient = gradient.add_(error1 * self.slope1)
        for terms in (self._of_strong_pairs, self._of_triples):
            more = terms(p)
            if more is not None:
                loss += more[0]
                gradient.add_(more[1])
        if self.zeros and zeros:
            self.zeros.add(p, gradient, zeros)
        return float(loss) / self.cells, gradient.mul_(2 / self.cells)

    def _of_strong_pairs(self, p: Tensor) -> tuple[Tensor, Tensor] | None:
        """Squared error of the pairs in finer groups, and half the way up."""
        if self.fine is None:
            return None
        q = self.fine.of(p)
        loss, gradient = p.new_zeros(()), torch.zeros_like(q)
        for pair in self.strong:
            one, other = q[:, pair.one], q[:, pair.other]
            error = (one.T @ other).mul_(pair.slope).sub_(pair.target)
            loss += error.square().sum()
            error.add_(pair.away).mul_(pair.slope)
            gradient[:, pair.one] += other @ error.T
            gradient[:, pair.other] += one @ error
        return loss, self.fine.back(gradient)

    def _of_triples(self, p: Tensor) -> tuple[Tensor, Tensor] | None:
        """Squared error of triples, and half its gradient."""
        if not self.begun:
            return None
        q = self.triples.of(p)
        loss, gradient = p.new_zeros(()), torch.zeros_like(q)
        for (a, b), thirds in self.begun.items():
            start, stop = self.triples.spans[a].start, self.triples.spans[a].stop
            second = self.triples.spans[b]
            groups = second.stop - second.start
            each = 2 * 4 * groups * (len(q) + len(thirds.spots))
            at_once = max(1, self.memory // each)
            for begin in range(start, stop, at_once):
                block = slice(begin, min(begin + at_once, stop))
                cells = slice((block.start - start) * groups, (block.stop - start) * groups)
                loss += _add_block(q, gradient, block, second, thirds, cells)
        return loss, self.triples.back(gradient)


def _add_block(
    q: Tensor, gradient: Tensor, one: slice, other: slice, thirds: Thirds, cells: slice
) -> Tensor:
    """Squared error of the triples that begin with a block of groups; half its gradient is added."""
    first, second, third = q[:, one], q[:, other], q[:, thirds.spots]
    both = (first[:, :, None] * second[:, None, :]).flatten(1)
    error = (both.T @ third).mul_(thirds.slopes).sub_(thirds.target[cells])
    loss = error.square().sum()
    error.mul_(thirds.slopes)
    gradient.index_add_(1, thirds.spots, both @ error)
    back = (third @ error.T).unflatten(1, (first.shape[1], second.shape[1]))
    gradient[:, one] += torch.bmm(back, second[:, :, None]).squeeze(2)
    gradient[:, other] += torch.bmm(first[:, None, :], back).squeeze(1)
    return loss
