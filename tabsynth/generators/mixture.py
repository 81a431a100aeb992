"""A mixture of product distributions over value numbers: the network, the mixture, its whole rows."""

from collections.abc import Sequence
from itertools import combinations_with_replacement

import numpy as np
import torch
from torch import Tensor, nn

from tabsynth.columns import Column
from tabsynth.encoding.layout import Layout
from tabsynth.generators.conditions import EVERYTHING, Box, Restricted
from tabsynth.networks import mlp

LEAST_BUMP = 0.5  # in values: a narrower bump is a value by itself
CLOSEST = 8.0  # bumps are no closer than their width over this
LEAST_HEIGHT = (
    1e-9  # of a bump's peak; much less is not a normal float, and costs 100 times the time
)
CHUNK = 131_072  # rows that are drawn together
MAX_ROUNDED = 4_096  # width past which pair counts are not held: rows are then only stratified
NOT_ONE = 1e-3  # what the probabilities of a column may sum to, more or less than 1
MAX_PAIRED = 512  # columns past which their pairs are too many
SWEEPS = 12  # over all entries of the rows, at most, in rounding …
MOVES = 4e8  # … and as many as compare so many pairs of entries: some 20 seconds
BATCHES, LEAST_BATCH = 64, 16  # of a sweep over a column: rows of one batch move at once
COMMON = 10.0  # rows in which a value is expected: fewer, and its entries stay as they are drawn


def dictionary(column: Column, widths: Sequence[float]) -> np.ndarray | None:
    """The distributions that a column's distribution is mixed of, shape (atoms, size), if any.

    First each value by itself, then, for each width, a Gaussian bump at each value in the column's
    order, or at every so many where bumps are wide: closer ones are all but the same. Null has no place in
    that order: it is an atom by itself. None where a column has no order, or too few values for bumps.
    """
    cells = column.size - int(column.nulls)
    used = [w * cells for w in widths if w * cells >= LEAST_BUMP]
    if column.kind == "categorical" or not used:
        return None
    distance = np.arange(cells)[:, None] - np.arange(cells)
    parts = [np.eye(column.size)]
    for width in used:
        bump = np.exp(-0.5 * (distance / width) ** 2)
        bump[bump < LEAST_HEIGHT] = 0
        part = np.eye(column.size)
        part[:cells, :cells] = bump / bump.sum(axis=1, keepdims=True)
        apart = max(1, int(width / CLOSEST))
        parts.append(part[np.r_[apart // 2 : cells : apart, cells : column.size]])
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
        """Set the last bias to log p, of a bump to that of its middle; p is strictly positive."""
        parts = []
        for j, p in enumerate(marginals):
            book = self.get_buffer(f"book{j}")
            parts.append(np.log(p) if book is None else np.log(p)[book.argmax(dim=1).numpy()])
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

    def sound(self) -> bool:
        """Whether they are probabilities: not so of a file that was tampered with."""
        parts = self.probabilities.split([block.size for block in self.layout.blocks], dim=1)
        off = max(float((part.sum(dim=1) - 1).abs().max()) for part in parts)
        return bool((self.probabilities >= 0).all()) and off < NOT_ONE

    def log_probability(self, boxes: Sequence[Box]) -> float:
        """Log of the probability of a row in one of the disjoint boxes; -inf where there is none."""
        return self._restricted(boxes).log_probability

    def sample(
        self,
        rows: int,
        rng: torch.Generator,
        *,
        rounded: bool = True,
        boxes: Sequence[Box] = EVERYTHING,
    ) -> np.ndarray:
        """Value numbers of ``rows`` rows, shape (rows, columns) int64.

        Parameters
        ----------
        rounded : bool
            Move entries, each to a value drawn from its own component, wherever that brings the
            counts of values and pairs of values closer to those expected of the mixture. A count
            that is expected to be below a half is closest at 0: so values that are expected in fewer
            than ``COMMON`` of the rows are neither moved nor moved to, and a table of a few rows is a
            plain draw; rare pairs of common values do get a little rarer. False: draws that are
            independent given the component.
        boxes : sequence of Box
            Disjoint boxes, of positive probability: rows are drawn from the mixture conditioned on
            lying in one of them. Moves stay within the row's box.
        """
        restricted, generator = self._restricted(boxes), _host(rng)
        sweeps = min(SWEEPS, int(MOVES / (rows * len(self.layout.blocks) ** 2)))
        parts = []
        for start in range(0, rows, CHUNK):
            draw = _Draw(restricted, min(CHUNK, rows - start), generator)
            if rounded and sweeps and self._roundable():
                draw.round(sweeps)
            parts.append(draw.index)
        return np.concatenate(parts)

    def _roundable(self) -> bool:
        """Whether the counts of all pairs can be held, and be taken pair by pair."""
        return self.layout.width <= MAX_ROUNDED and len(self.layout.blocks) <= MAX_PAIRED

    def complete(
        self, index: np.ndarray, rng: torch.Generator, *, boxes: Sequence[Box] = EVERYTHING
    ) -> np.ndarray:
        """Rows with their missing entries drawn from the mixture, given the others and the boxes.

        Parameters
        ----------
        index : ndarray, shape (rows, columns)
            Value numbers, -1 where one is missing.

        Returns
        -------
        ndarray, shape (rows, columns) int64
            A row whose known entries have probability 0 keeps its -1.
        """
        return self._restricted(boxes).complete(index, _host(rng))

    def _restricted(self, boxes: Sequence[Box]) -> Restricted:
        return Restricted(self.probabilities.cpu().double().numpy(), self.layout, boxes)


def _host(rng: torch.Generator) -> np.random.Generator:
    """A stream of numpy's, drawn from one of torch's."""
    seed = torch.randint(2**63 - 1, (), generator=rng, device=rng.device)
    return np.random.default_rng(int(seed))


class _Draw:
    """Rows drawn from a restricted mixture: ``index``, shape (rows, columns)."""

    def __init__(self, mixture: Restricted, rows: int, rng: np.random.Generator) -> None:
        self.rng = rng
        self.rows = rows
        self.mixture = mixture
        # Each part gets its share of the rows, rounded down or up: less spread than drawing it.
        order = rng.permutation(len(mixture.shares))
        upto = mixture.shares[order].cumsum()
        repeats = np.empty(len(order), dtype=np.int64)
        repeats[order] = np.diff(np.ceil(upto / upto[-1] * rows - rng.random()), prepend=0)
        self.part = rng.permutation(np.repeat(np.arange(len(order)), repeats))
        columns = [mixture.values(j, self.part, rng) for j in range(len(mixture.starts))]
        self.index = np.stack(columns, axis=1)

    def round(self, sweeps: int) -> None:
        """Sweep over all entries, accepting the moves that shrink the squared error of the counts."""
        starts = self.mixture.starts
        codes = self.index + starts  # positions in a row of one-hot codes
        d = len(starts)
        expected = self.mixture.expected(self.part)
        common = expected.diagonal() >= COMMON
        if not common.any():
            return
        error = self._counts() - expected
        for _ in range(sweeps):
            for j in self.rng.permutation(d):
                self._sweep(j, codes, error, common)
        self.index = codes - starts

    def _counts(self) -> np.ndarray:
        """Of all pairs of codes, shape (width, width); the diagonal holds single codes."""
        starts, sizes = self.mixture.starts, self.mixture.sizes
        found = np.zeros((sizes.sum(), sizes.sum()))
        for a, b in combinations_with_replacement(range(len(sizes)), 2):
            cells = self.index[:, a] * sizes[b] + self.index[:, b]
            counts = np.bincount(cells, minlength=sizes[a] * sizes[b]).reshape(sizes[a], sizes[b])
            one, other = (slice(starts[j], starts[j] + sizes[j]) for j in (a, b))
            found[one, other] = counts
            if a != b:
                found[other, one] = counts.T
        return found

    def _sweep(self, j: int, codes: np.ndarray, error: np.ndarray, common: np.ndarray) -> None:
        """Propose to move every entry of a column, batch by batch, in a random order."""
        order = self.rng.permutation(self.rows)
        now = codes[order, j]
        new = self.mixture.values(j, self.part[order], self.rng) + self.mixture.starts[j]
        movable = (new != now) & common[now] & common[new]
        # Where the pairs of this column's codes with the others' lie above the diagonal of ``error``.
        width = len(error)
        scale = np.where(np.arange(codes.shape[1]) < j, 1, width)
        pairs = codes * np.where(scale == 1, width, 1)
        scale[j], pairs[:, j] = width + 1, 0  # a code with itself
        for batch in np.array_split(
            np.arange(self.rows), min(BATCHES, -(-self.rows // LEAST_BATCH))
        ):
            batch = batch[movable[batch]]
            beside = pairs[order[batch]]
            down, up = (code[batch, None] * scale + beside for code in (now, new))
            taken = batch[_moved(down, up, error.reshape(-1))]
            codes[order[taken], j] = new[taken]


def _moved(down: np.ndarray, up: np.ndarray, error: np.ndarray) -> np.ndarray:
    """Which moves of a batch shrink the squared error, bool (n,); those are entered into it.

    Parameters
    ----------
    down, up : ndarray, shape (n, columns)
        The cells that lose a row by each move, and those that gain one.
    error : ndarray, shape (cells,)
        Flat: numpy gathers and adds several times as fast in one dimension.
    """
    # (e+1)² − e² at the new cells, (e−1)² − e² at the old ones.
    taken = (error[down] - error[up] - 1).sum(axis=1) > 0
    np.add.at(error, up[taken].ravel(), 1.0)
    np.add.at(error, down[taken].ravel(), -1.0)
    return taken
