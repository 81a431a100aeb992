"""A mixture of product distributions over value numbers: the network, the mixture, its whole rows."""

from collections.abc import Sequence
from itertools import combinations_with_replacement

import numpy as np
import torch
from torch import Tensor, nn

from tabsynth.columns import Column
from tabsynth.encoding.layout import Layout
from tabsynth.networks import mlp

LEAST_BUMP = 0.5  # in values: a narrower bump is a value by itself
CHUNK = 131_072  # rows that are drawn together
MAX_ROUNDED = 4_096  # width past which pair counts are not held: rows are then only stratified
SWEEPS = 12  # over all entries of the rows, at most, in rounding …
MOVES = 4e8  # … and as many as compare so many pairs of entries: some 20 seconds
BATCHES, LEAST_BATCH = 64, 16  # of a sweep over a column: rows of one batch move at once


def dictionary(column: Column, widths: Sequence[float]) -> np.ndarray | None:
    """The distributions that a column's distribution is mixed of, shape (atoms, size), if any.

    First each value by itself, then, for each width, a Gaussian bump at each value in the column's
    order. Null has no place in that order: it is an atom by itself. None where a column has no order,
    or too few values for bumps.
    """
    cells = column.size - int(column.nulls)
    used = [w * cells for w in widths if w * cells >= LEAST_BUMP]
    if column.kind == "categorical" or not used:
        return None
    distance = np.arange(cells)[:, None] - np.arange(cells)
    parts = [np.eye(column.size)]
    for width in used:
        bump = np.exp(-0.5 * (distance / width) ** 2)
        part = np.eye(column.size)
        part[:cells, :cells] = bump / bump.sum(axis=1, keepdims=True)
        parts.append(part)
    return np.concatenate(parts)


class MixtureNetwork(nn.Module):
    """K learned inputs → MLP → a softmax a column, over its values or its dictionary's atoms."""

    def __init__(
        self,
        layout: Layout,
        columns: Sequence[Column],
        components: int,
        latent_dim: int,
        hidden: Sequence[int],
        bumps: Sequence[float],
        rng: torch.Generator,
    ) -> None:
        super().__init__()
        self.inputs = nn.Parameter(torch.randn(components, latent_dim, generator=rng))
        self.atoms = []
        for j, (column, block) in enumerate(zip(columns, layout.blocks, strict=True)):
            book = dictionary(column, bumps)
            held = None if book is None else torch.tensor(book, dtype=torch.float32)
            self.register_buffer(f"book{j}", held, persistent=False)
            self.atoms.append(block.size if held is None else len(held))
        self.body = mlp([latent_dim, *hidden, sum(self.atoms)], rng)

    @torch.no_grad()
    def start_from(self, marginals: Sequence[np.ndarray]) -> None:
        """Set the last bias to log p, for each width of bumps alike; p is strictly positive."""
        parts = [
            np.tile(np.log(p), atoms // len(p))
            for p, atoms in zip(marginals, self.atoms, strict=True)
        ]
        last = self.body[-1]
        assert isinstance(last, nn.Linear)
        last.bias.copy_(torch.as_tensor(np.concatenate(parts)))

    def forward(self) -> Tensor:
        """Probabilities, shape (components, layout.width)."""
        parts = []
        for j, logits in enumerate(self.body(self.inputs).split(self.atoms, dim=1)):
            weights, book = torch.softmax(logits, dim=1), self.get_buffer(f"book{j}")
            parts.append(weights if book is None else weights @ book)
        return torch.cat(parts, dim=1)


class Mixture(nn.Module):
    """K rows of probabilities: row k says, for each column by itself, how likely each value is.

    A synthetic row picks a k uniformly, then each column by itself.

    Parameters
    ----------
    layout : Layout
        One-hot.
    components : int
        K.
    """

    probabilities: Tensor

    def __init__(self, layout: Layout, components: int) -> None:
        super().__init__()
        self.layout = layout
        self.register_buffer("probabilities", torch.zeros(components, layout.width))

    @torch.no_grad()
    def set(self, probabilities: Tensor) -> "Mixture":
        """Take on probabilities, shape (components, layout.width)."""
        self.probabilities.copy_(probabilities)
        return self

    def sample(self, rows: int, rng: torch.Generator, *, rounded: bool = True) -> np.ndarray:
        """Value numbers of ``rows`` rows, shape (rows, columns) int64.

        Parameters
        ----------
        rounded : bool
            Move entries, each to a value drawn from its own component, wherever that brings the
            counts of values and pairs of values closer to those expected of the mixture. False:
            draws that are independent given the component.
        """
        seed = torch.randint(2**63 - 1, (), generator=rng, device=rng.device)
        generator = np.random.default_rng(int(seed))
        mixture = self.probabilities.cpu().double().numpy()
        sweeps = min(SWEEPS, int(MOVES / (rows * len(self.layout.blocks) ** 2)))
        parts = []
        for start in range(0, rows, CHUNK):
            draw = _Draw(mixture, self.layout, min(CHUNK, rows - start), generator)
            if rounded and sweeps and self.layout.width <= MAX_ROUNDED:
                draw.round(sweeps)
            parts.append(draw.index)
        return np.concatenate(parts)


class _Draw:
    """Rows drawn from a mixture: ``index``, shape (rows, columns)."""

    def __init__(
        self, mixture: np.ndarray, layout: Layout, rows: int, rng: np.random.Generator
    ) -> None:
        self.rng = rng
        self.rows = rows
        self.starts = [b.start for b in layout.blocks]
        components = len(mixture)
        # Each component gets rows/K rows, rounded down or up: less spread than drawing it.
        extra = rng.permutation(components)[: rows % components]
        repeats = np.full(components, rows // components)
        repeats[extra] += 1
        self.component = rng.permutation(np.repeat(np.arange(components), repeats))
        self.mixture = mixture
        self.cumulative = [mixture[:, b.start : b.stop].cumsum(1) for b in layout.blocks]
        everyone = np.arange(rows)
        columns = [self._values(j, everyone) for j in range(len(layout.blocks))]
        self.index = np.stack(columns, axis=1)

    def _values(self, j: int, which: np.ndarray) -> np.ndarray:
        """Values of column ``j`` for some rows, drawn from their components."""
        cumulative = self.cumulative[j]
        component = self.component[which]
        # A file's rows may not sum to 1: the last sum is what is drawn up to.
        level = self.rng.random(len(which)) * cumulative[component, -1]
        # Binary search, all rows at once.
        low = np.zeros(len(which), dtype=np.int64)
        high = np.full(len(which), cumulative.shape[1] - 1)
        while (low < high).any():
            middle = (low + high) // 2
            right = cumulative[component, middle] <= level
            low, high = np.where(right, middle + 1, low), np.where(right, high, middle)
        return low

    def round(self, sweeps: int) -> None:
        """Sweep over all entries, accepting the moves that shrink the squared error of the counts."""
        starts = np.array(self.starts)
        codes = self.index + starts  # positions in a row of one-hot codes
        d = len(starts)
        error = self._error()
        for _ in range(sweeps):
            for j in self.rng.permutation(d):
                order = self.rng.permutation(self.rows)
                for batch in np.array_split(order, min(BATCHES, -(-self.rows // LEAST_BATCH))):
                    self._move(j, batch, codes, error)
        self.index = codes - starts

    def _error(self) -> np.ndarray:
        """Counts of all pairs of codes less those expected; the diagonal holds single codes."""
        mixture, width = self.mixture, self.mixture.shape[1]
        weights = np.bincount(self.component, minlength=len(mixture))
        error = -(mixture * weights[:, None]).T @ mixture
        np.fill_diagonal(error, -(weights @ mixture))
        sizes = np.diff([*self.starts, width])
        for a, b in combinations_with_replacement(range(len(sizes)), 2):
            cells = self.index[:, a] * sizes[b] + self.index[:, b]
            counts = np.bincount(cells, minlength=sizes[a] * sizes[b]).reshape(sizes[a], sizes[b])
            one, other = (slice(self.starts[j], self.starts[j] + sizes[j]) for j in (a, b))
            error[one, other] += counts
            if a != b:
                error[other, one] += counts.T
        return error

    def _move(self, j: int, batch: np.ndarray, codes: np.ndarray, error: np.ndarray) -> None:
        now = codes[batch, j]
        new = self._values(j, batch) + self.starts[j]
        batch, now, new = (x[new != now] for x in (batch, now, new))
        # (e+1)² − e² at the new cells, (e−1)² − e² at the old ones.
        others = codes[batch]
        gain = error[now[:, None], others] - error[new[:, None], others] - 1
        gain[:, j] = error[now, now] - error[new, new] - 1
        take = gain.sum(1) > 0
        batch, now, new, others = batch[take], now[take], new[take], others[take]
        others = np.delete(others, j, axis=1)
        np.add.at(error, (new[:, None], others), 1)
        np.add.at(error, (others, new[:, None]), 1)
        np.add.at(error, (now[:, None], others), -1)
        np.add.at(error, (others, now[:, None]), -1)
        np.add.at(error, (new, new), 1)
        np.add.at(error, (now, now), -1)
        codes[batch, j] = new
