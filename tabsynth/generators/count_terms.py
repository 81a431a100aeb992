"""Groups of values, and what of MargNet's loss one matrix of all pairs does not hold: strong pairs and triples."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
import torch
from torch import Tensor

from tabsynth.encoding.layout import Layout
from tabsynth.privacy.counts import Groups, number_of

Prefix = tuple[int, int]


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
        """Q of P."""
        return p if self.same else p.new_zeros(len(p), self.width).index_add_(1, self.spots, p)

    def back(self, gradient: Tensor) -> Tensor:
        """The gradient in P of a gradient in Q."""
        return gradient if self.same else gradient[:, self.spots]


@dataclass(frozen=True, eq=False)
class Strong:
    """A pair in finer groups than the others.

    Attributes
    ----------
    columns : tuple of int
    slope : float
        What an expectation is scaled by.
    target, away : Tensor, shape (groups of one, groups of the other)
        The noisy counts, scaled alike, and how far the aims are below them.
    """

    columns: tuple[int, ...]
    slope: float
    target: Tensor
    away: Tensor


class StrongPairs:
    """Pairs that have a small GEMM each."""

    def __init__(self, groups: Grouped, pairs: Sequence[Strong]) -> None:
        self.groups, self.pairs = groups, pairs

    def __call__(self, p: Tensor) -> tuple[Tensor, Tensor]:
        """Squared error, and half the way up."""
        q = self.groups.of(p)
        loss, gradient = p.new_zeros(()), torch.zeros_like(q)
        for pair in self.pairs:
            a, b = (self.groups.spans[j] for j in pair.columns)
            error = (q[:, a].T @ q[:, b]).mul_(pair.slope).sub_(pair.target)
            loss += error.square().sum()
            error.add_(pair.away).mul_(pair.slope)
            gradient[:, a] += q[:, b] @ error.T
            gradient[:, b] += q[:, a] @ error
        return loss, self.groups.back(gradient)


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


class Triples:
    """Triples, in as many GEMMs as there are pairs (a, b) that begin one.

    Parameters
    ----------
    groups : Grouped
    begun : mapping of (a, b) to a sequence of (int, float, ndarray)
        Of each c: its number, slope, and counts, shape (groups of a, groups of b, groups of c).
    memory : int
        As in :class:`tabsynth.generators.count_loss.CountLoss`.
    """

    def __init__(
        self,
        groups: Grouped,
        begun: Mapping[Prefix, Sequence[tuple[int, float, np.ndarray]]],
        memory: int,
        device: torch.device | str,
    ) -> None:
        self.groups, self.memory = groups, memory
        self.begun = {
            prefix: Thirds.of(groups.spans, found, device) for prefix, found in begun.items()
        }

    def __call__(self, p: Tensor) -> tuple[Tensor, Tensor]:
        """Squared error, and half its gradient."""
        q = self.groups.of(p)
        loss, gradient = p.new_zeros(()), torch.zeros_like(q)
        for (a, b), thirds in self.begun.items():
            start, stop = self.groups.spans[a].start, self.groups.spans[a].stop
            second = self.groups.spans[b]
            groups = second.stop - second.start
            each = 2 * 4 * groups * (len(q) + len(thirds.spots))
            at_once = max(1, self.memory // each)
            for begin in range(start, stop, at_once):
                block = slice(begin, min(begin + at_once, stop))
                cells = slice((block.start - start) * groups, (block.stop - start) * groups)
                loss += _add_block(q, gradient, block, second, thirds, cells)
        return loss, self.groups.back(gradient)


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
