"""How far a mixture of products is from noisy counts, and the way down, in closed form."""

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from tabsynth.encoding.layout import Layout
from tabsynth.errors import InputError
from tabsynth.generators.count_terms import Grouped, Prefix, Strong, StrongPairs, Triples
from tabsynth.generators.resolution import Resolution
from tabsynth.privacy.counts import Measured
from tabsynth.structural_zeros import Zero

LEAST_STD = 0.1  # in counts: what exact counts are weighed by
ZERO_STD = 5.0  # in counts: what rows are weighed by that the schema declares impossible
TINY = 1e-30


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
        self.scale = rows / components
        self.zeros = Zeros(layout, zeros, self.scale / ZERO_STD, device) if zeros else None
        by = resolution or Resolution.by_value(layout.sizes)
        self.pairs = Grouped(layout, by.pairs, device)
        self.cells = sum(m.counts.size for m in measured)
        # What is expected is slope · QᵀQ; slope is 0 where nothing was measured.
        pairs = np.zeros((2, self.pairs.width, self.pairs.width), dtype=np.float32)
        singles = np.zeros((2, layout.width), dtype=np.float32)
        aims = aims or {}
        away = np.zeros_like(pairs[0]) if aims else None
        strong, begun = list[Strong](), dict[Prefix, list[tuple[int, float, np.ndarray]]]()
        for m in measured:
            std = max(m.std, LEAST_STD)
            slope, target = self.scale / std, m.counts / std
            if len(m.columns) == 1:
                block = layout.blocks[m.columns[0]]
                singles[0, block.start : block.stop] = slope
                singles[1, block.start : block.stop] = target
            elif m.columns in by.strong:
                held = (target, (m.counts - aims.get(m.columns, m.counts)) / std)
                tensors = (torch.from_numpy(x).float().to(device) for x in held)
                strong.append(Strong(m.columns, slope, *tensors))
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
        self.terms: list[StrongPairs | Triples] = []
        if strong:
            self.terms.append(StrongPairs(Grouped(layout, by.fine, device), strong))
        if begun:
            self.terms.append(Triples(Grouped(layout, by.triples, device), begun, memory, device))
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
        for term in self.terms:
            more, slopes = term(p)
            loss += more
            gradient.add_(slopes)
        if self.zeros and zeros:
            self.zeros.add(p, gradient, zeros)
        return float(loss) / self.cells, gradient.mul_(2 / self.cells)
