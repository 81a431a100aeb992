"""Mixtures of product distributions over category codes: sampling, and conditioning on a union of boxes, exactly.

A box allows, column by column, some values, or of some a share: a cell of five numbers of which two are
asked for counts by two fifths. A condition is one box, and what structural zeros leave is a union of
disjoint ones. A product distribution restricted to a box is a product distribution again, so
the conditional mixture is a mixture as well. Its parts are all pairs of a box and a component; Bayes'
rule gives their shares.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations, combinations_with_replacement, groupby
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from tabsynth.encoding.table import Layout
from tabsynth.schema.schema import Zero
from tabsynth.training.networks import mlp

# By column, what share of each of its values is allowed, bool or float in [0, 1], shape (size,); the other
# columns are free. Disjoint boxes share a condition: where several allow some of a value, it is as much.
Box = Mapping[int, np.ndarray]
EVERYTHING: tuple[Box, ...] = ({},)
MAX_BOXES = 1024
CELLS = 4_194_304  # numbers that are held at a time: 32 MiB
HELD = 16_777_216  # numbers of a column's cumulative probabilities that are kept: 128 MiB


def disjoint_boxes(zeros: Sequence[Zero], within: Box | None = None) -> list[Box] | None:
    """Return disjoint boxes that hold all rows within a box which are in none of ``zeros``.

    None if there are more than ``MAX_BOXES``: zeros that share no column multiply them.
    """
    # Columns that many zeros name are split first: zeros then share the pieces.
    named = Counter(j for zero in zeros for j in zero)
    boxes: list[Box] = [within or {}]
    for zero in zeros:
        columns = sorted(zero, key=lambda j: (-named[j], j))
        pieces: list[Box] = []
        for box in boxes:
            pieces += _without(box, zero, columns)
            if len(pieces) > MAX_BOXES:
                return None
        boxes = pieces
    return boxes


def _without(box: Box, zero: Zero, columns: Sequence[int]) -> list[Box]:
    """Return disjoint pieces of a box outside ``zero``."""
    allowed = {j: box.get(j, np.ones_like(zero[j])) for j in columns}
    if not all((allowed[j] * zero[j]).any() for j in columns):
        return [box]
    pieces: list[Box] = []
    remainder = dict(box)
    for j in columns:
        outside = allowed[j] * ~zero[j]
        if outside.any():
            pieces.append({**remainder, j: outside})
        remainder[j] = allowed[j] * zero[j]
    return pieces


class Restricted:
    """A mixture conditioned on a union of disjoint boxes.

    Parameters
    ----------
    mixture : ndarray, shape (K, layout.width)
        A row a component, float64.
    layout : Layout
    boxes : sequence of Box
    prior : ndarray, shape (K,), optional
        The shares of the components. None: all have the same.
    cells : (ndarray, ndarray), optional
        Cells of boxes: the cell of each box, in rising order from 0, and the number of rows of each cell. These take the place of the
        probabilities of the boxes; in each cell Bayes' rule gives the shares.

    Attributes
    ----------
    shares : ndarray, shape (boxes * K,)
        The probability of each part, given the boxes; part ``b * K + k`` is component k in box b.
    log_probability : float
        Of the boxes; -inf where no part has any, and then ``shares`` are not usable.
    """

    def __init__(
        self,
        mixture: np.ndarray,
        layout: Layout,
        boxes: Sequence[Box],
        prior: np.ndarray | None = None,
        cells: tuple[np.ndarray, np.ndarray] | None = None,
    ) -> None:
        self.mixture, self.cells = mixture, cells
        self._log_prior = np.zeros(len(mixture)) if prior is None else _log(prior * len(mixture))
        self.starts = np.array([block.start for block in layout.blocks])
        self.sizes = np.array(layout.sizes)
        self._allowed, self._which = [], []
        self._cumulative: list[np.ndarray | None] = []
        logs = np.tile(self._log_prior, (len(boxes), 1))
        for j, size in enumerate(self.sizes):
            allowed = [box.get(j, np.ones(size, dtype=bool)) for box in boxes]
            distinct, which = np.unique(
                np.reshape(allowed, (len(boxes), size)), axis=0, return_inverse=True
            )
            values = mixture[:, self.starts[j] : self.starts[j] + size]
            self._allowed.append(distinct)
            self._which.append(which.ravel())
            precomputed = len(distinct) * values.size <= HELD
            self._cumulative.append(
                (values * distinct[:, None]).cumsum(axis=2) if precomputed else None
            )
            logs += _log(distinct @ values.T)[self._which[j]]
        top = logs.max(initial=-np.inf)
        shares = np.exp(logs.ravel() - (top if np.isfinite(top) else 0.0))
        self.shares = shares / max(shares.sum(), 1.0)
        self.log_probability = float(top + _log(shares.sum() / len(mixture)))
        if cells is not None:
            of, rows = cells
            starts = np.flatnonzero(np.diff(of, prepend=-1))
            shares = np.exp(logs - np.maximum.reduceat(logs.max(axis=1), starts)[of][:, None])
            shares *= (rows / np.add.reduceat(shares.sum(axis=1), starts))[of][:, None]
            self.shares = shares.ravel() / rows.sum()

    def values(self, j: int, part: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Return values of column ``j``, one drawn for each of some parts, shape (n,)."""
        box, component = np.divmod(part, len(self.mixture))
        cumulative, which = self._cumulative[j], self._which[j][box]
        if cumulative is None:
            return self._redrawn_values(j, which, component, rng)
        size = cumulative.shape[2]
        first = (which * len(self.mixture) + component) * size  # of each row, in a flat view
        flat = cumulative.reshape(-1)
        level = _level(flat[first + size - 1], rng)
        # Binary search, all rows at once.
        low = np.zeros(len(part), dtype=np.int64)
        high = np.full(len(part), size - 1)
        while (low < high).any():
            middle = (low + high) // 2
            right = flat[first + middle] <= level
            low, high = np.where(right, middle + 1, low), np.where(right, high, middle)
        return low

    def _redrawn_values(
        self, j: int, which: np.ndarray, component: np.ndarray, rng: np.random.Generator
    ) -> np.ndarray:
        """Draw values as :meth:`values`, where there is too much for all their cumulative probabilities."""
        values = self.mixture[:, self.starts[j] : self.starts[j] + self.sizes[j]]
        values_drawn = np.empty(len(which), dtype=np.int64)
        pieces = len(which) * self.sizes[j] // CELLS + 1
        for part in np.array_split(np.arange(len(which)), pieces):
            upto = (values[component[part]] * self._allowed[j][which[part]]).cumsum(axis=1)
            level = _level(upto[:, -1], rng)
            values_drawn[part] = (upto <= level[:, None]).sum(axis=1)
        return values_drawn

    def expect(self, rows: np.ndarray) -> np.ndarray:
        """Return expected counts of all pairs of codes, shape (width, width), for so many rows of each part.

        The diagonal holds single codes.
        """
        width = self.mixture.shape[1]
        pairs, single = np.zeros((width, width)), np.zeros(width)
        parts = np.flatnonzero(rows)
        counts = rows[parts]
        boxes, components = np.divmod(parts, len(self.mixture))
        for box in np.unique(boxes):
            here = boxes == box
            p, weights = self.distributions(box, components[here]), counts[here]
            pairs += (p * weights[:, None]).T @ p
            single += weights @ p
        np.fill_diagonal(pairs, single)
        return pairs

    def distributions(self, box: int, components: np.ndarray) -> np.ndarray:
        """Return components restricted to a box, shape (components, width); each column sums to 1."""
        allowed = [a[w[box]] for a, w in zip(self._allowed, self._which, strict=True)]
        p = self.mixture[components] * np.concatenate(allowed)
        return p / np.repeat(np.add.reduceat(p, self.starts, axis=1), self.sizes, axis=1)

    def cut(self) -> list[int]:
        """Return the columns that some box restricts."""
        return [j for j, allowed in enumerate(self._allowed) if (allowed < 1).any()]

    def average(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the distributions of each component, of which there is any, over all boxes, shape (n, width), and their shares.

        In a component, columns that boxes restrict depend on each other by the boxes: see :meth:`joint`.
        """
        of_boxes = self.shares.reshape(-1, len(self.mixture))
        total = np.zeros_like(self.mixture)
        for box, shares in enumerate(of_boxes):
            here = np.flatnonzero(shares)
            total[here] += shares[here, None] * self.distributions(box, here)
        shares = of_boxes.sum(axis=0)
        positive = shares > 0
        return total[positive] / shares[positive, None], shares[positive]

    def joint(self, a: int, b: int) -> np.ndarray:
        """Return the share of each component, over all boxes, with each pair of values of two columns, shape (K, values of a, values of b)."""
        total = np.zeros((len(self.mixture), self.sizes[a], self.sizes[b]))
        of_boxes = self.shares.reshape(-1, len(self.mixture))
        # Boxes that allow the same values of both columns are one.
        alike = np.stack([self._which[a], self._which[b]], axis=1)
        distinct, which = np.unique(alike, axis=0, return_inverse=True)
        for number, allowed in enumerate(distinct):
            shares = of_boxes[which.ravel() == number].sum(axis=0)
            here, values = np.flatnonzero(shares), []
            for j, of in zip((a, b), allowed, strict=True):
                p = self.mixture[here, self.starts[j] : self.starts[j] + self.sizes[j]]
                p = p * self._allowed[j][of]
                values.append(p / p.sum(axis=1, keepdims=True))
            first, second = values
            total[here] += (shares[here, None] * first)[:, :, None] * second[:, None]
        return total


def _level(total: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Draw uniform numbers below each total: a file's rows may not sum to 1, nor do restricted ones."""
    return np.minimum(rng.random(len(total)) * total, np.nextafter(total, 0))


def _log(x: np.ndarray) -> np.ndarray:
    """Return the logarithm, and -inf for 0."""
    with np.errstate(divide="ignore"):
        return np.log(x)


CHUNK = 131_072  # rows that are drawn together
MAX_ROUNDED = 4_096  # width past which pair counts are not held: rows are then only stratified
NOT_ONE = 1e-3  # what the probabilities of a column may sum to, more or less than 1
MAX_PAIRED = 512  # columns past which their pairs are too many
SWEEPS = 2  # over all entries of the rows, in rounding: further ones bring the counts no nearer to those of real rows …
MOVES = 4e8  # … or fewer: those that compare so many pairs of entries, some 10 seconds
TRIPLED_MOVES = 2e8  # triples of all sweeps up to which they count, some 2 seconds; with more in one sweep, pairs alone, but for rows of a public table
NEAR = 0.003  # of the public rows: how far from a row those are that may take its place
MAX_TRIPLED = 32  # columns past which their triples are too many …
MAX_TRIPLE_CELLS = 8_388_608  # … of which those of the fewest cells count, so many cells in all …
MAX_PARTS = 16  # … and boxes
LEAST_CHANCE = 1e-12  # of a value in a component, where rows are drawn in cells: none is impossible
TRIPLES_WEIGHT = 15.0  # of the squared error of a triple of values, over √(expected rows + 1); a pair has weight 1
SEEN = 0.5  # rows in which values are expected together: fewer do not count in the choice of public rows, nor in triples
BATCHES, LEAST_BATCH = 64, 32  # of a sweep over a column: rows of one batch move at once
# Of a value in a component at the start of a fit: its probability over that of the column.
LEAST_LIFT = 0.01
ADJUSTMENTS = 5  # of the start of a fit to the distribution of each column
SMALLEST_MEAN = 1e-30
LEAST_SQUARE = 1e-6  # of a direction of the logits of a component, at the start of a fit
LEAST_DIRECTION = 0.01  # of the hidden layer's values at the start, as a share of the strongest
COMMON = 10.0  # rows in which a value is expected: fewer, and its entries stay as they are drawn


class MixtureNetwork(nn.Module):
    """K learned inputs → MLP → a softmax over the values of each column."""

    def __init__(
        self,
        layout: Layout,
        components: int,
        latent_dim: int,
        hidden: Sequence[int],
        rng: torch.Generator,
    ) -> None:
        super().__init__()
        self.sizes = [block.size for block in layout.blocks]
        self.inputs = nn.Parameter(torch.randn(components, latent_dim, generator=rng))
        self.body = mlp([latent_dim, *hidden, sum(self.sizes)], rng)

    @torch.no_grad()
    def start_from(self, marginals: Sequence[np.ndarray], probabilities: np.ndarray) -> None:
        """Set inputs and last layer so that the components are near those of a mixture.

        The inputs are the strongest directions of its logits, and the last layer their regression on the hidden layer.

        Parameters
        ----------
        marginals : sequence of ndarray, shape (size,)
            All entries are positive. Values of a component are taken to be at least ``LEAST_LIFT`` times as likely.
        probabilities : ndarray, shape (components, values of all columns)
        """
        last = self.body[-1]
        assert isinstance(last, nn.Linear)
        weights = np.concatenate(marginals)
        logits = np.log(np.maximum(probabilities / weights, LEAST_LIFT))
        starts = np.cumsum([0, *self.sizes[:-1]])
        means = np.add.reduceat(logits * weights, starts, axis=1)
        logits -= np.repeat(means, self.sizes, axis=1)
        squares, directions = np.linalg.eigh(logits * weights @ logits.T)
        strong = directions[:, squares > LEAST_SQUARE * len(logits)][:, -self.inputs.shape[1] :]
        inputs = torch.from_numpy(strong * math.sqrt(len(logits)))
        self.inputs[:, : strong.shape[1]] = inputs
        features = self.body[:-1](self.inputs).numpy()
        features = np.column_stack([features, np.ones_like(features[:, :1])])
        solution = np.linalg.lstsq(features, logits, LEAST_DIRECTION)[0]
        last.weight.copy_(torch.from_numpy(solution[:-1].T))
        logs = torch.from_numpy(np.log(weights))
        last.bias.copy_(logs + torch.from_numpy(solution[-1]))
        for _ in range(ADJUSTMENTS):
            last.bias.add_(logs - self().mean(dim=0).clamp_min_(SMALLEST_MEAN).log_())

    def forward(self) -> Tensor:
        """Return probabilities, shape (components, layout.width)."""
        return normalise(self.body(self.inputs), self.sizes)


def normalise(logits: Tensor, sizes: Sequence[int]) -> Tensor:
    """Return the probabilities of the values of each column, by their logits."""
    columns = logits.split(list(sizes), dim=1)
    return torch.cat([torch.softmax(column, dim=1) for column in columns], dim=1)


class Components(nn.Module):
    """The components of a mixture by themselves: a logit of each value in each of them.

    Parameters
    ----------
    logits : Tensor, shape (components, values of all columns)
    sizes : sequence of int
    """

    def __init__(self, logits: Tensor, sizes: Sequence[int]) -> None:
        super().__init__()
        self.sizes, self.inputs = sizes, nn.Parameter(logits)

    def forward(self) -> Tensor:
        """Return probabilities, shape (components, layout.width)."""
        return normalise(self.inputs, self.sizes)


class Mixture(nn.Module):
    """K rows of probabilities: row k says, for each column by itself, how likely each value is.

    A synthetic row picks a k, uniformly or by shares, then each column by itself. The first components may be rows
    of a public table, of which each value is certain.

    Parameters
    ----------
    layout : Layout
        One-hot.
    components : int
        K. A mixture of none takes as many as the state that it loads has.
    shared : bool
        Whether components have shares of their own.
    rows : Tensor, shape (rows, columns), int64, optional
        Category codes of public rows. They are components, before the K others, and then all have shares.
    """

    probabilities: Tensor
    shares: Tensor | None
    rows: Tensor | None

    def __init__(
        self,
        layout: Layout,
        components: int = 0,
        *,
        shared: bool = False,
        rows: Tensor | None = None,
    ) -> None:
        super().__init__()
        self.layout = layout
        count = components + (0 if rows is None else len(rows))
        shared = shared or rows is not None
        self.register_buffer("shares", torch.zeros(count) if shared else None)
        self.register_buffer("rows", rows)
        self.register_buffer("probabilities", torch.zeros(components, layout.width))

    def load_state_dict(self, state_dict: Mapping[str, Any], *args: Any, **named: Any) -> Any:
        """Load weights; a mixture of no components takes those that there are, at least one, and public rows."""
        probabilities = state_dict.get("probabilities")
        if (
            not len(self.probabilities)
            and probabilities is not None
            and probabilities.ndim == 2
            and len(probabilities)
        ):
            self.probabilities = self.probabilities.new_zeros(len(probabilities), self.layout.width)
            count, rows = len(probabilities), state_dict.get("rows")
            if rows is not None and rows.ndim == 2:
                device = self.probabilities.device
                self.rows = torch.zeros(
                    len(rows), len(self.layout.blocks), dtype=torch.int64, device=device
                )
                count += len(rows)
            if self.shares is not None or rows is not None:
                self.shares = self.probabilities.new_zeros(count)
        return super().load_state_dict(state_dict, *args, **named)

    @torch.no_grad()
    def set(self, probabilities: Tensor, shares: Tensor | None = None) -> "Mixture":
        """Take on probabilities, shape (K, layout.width), and shares of all components, public rows before the others.

        Without shares, all components have the same.
        """
        self.probabilities.copy_(probabilities)
        if self.shares is not None:
            uniform = torch.full_like(self.shares, 1 / len(self.shares))
            self.shares.copy_(uniform if shares is None else shares)
        return self

    def sound(self) -> bool:
        """Return whether they are probabilities: not so of a file that was tampered with."""
        parts = self.probabilities.split([block.size for block in self.layout.blocks], dim=1)
        off = max(float((part.sum(dim=1) - 1).abs().max()) for part in parts)
        if self.shares is not None:
            off = max(off, abs(float(self.shares.sum()) - 1))
            if not bool((self.shares >= 0).all()):
                return False
        if self.rows is not None:
            sizes = torch.tensor(self.layout.sizes, device=self.rows.device)
            if not bool(((self.rows >= 0) & (self.rows < sizes)).all()):
                return False
        return bool((self.probabilities >= 0).all()) and off < NOT_ONE

    def matrix(self) -> np.ndarray:
        """Return the probabilities of all components, shape (components, layout.width), float64."""
        probabilities = self.probabilities.cpu().double().numpy()
        if self.rows is None:
            return probabilities
        codes = self.rows.cpu().numpy()
        certain = np.zeros((len(codes), self.layout.width))
        starts = np.array([block.start for block in self.layout.blocks])
        np.put_along_axis(certain, codes + starts, 1.0, axis=1)
        return np.concatenate([certain, probabilities])

    def log_probability(self, boxes: Sequence[Box]) -> float:
        """Return the log of the probability of a row in one of the disjoint boxes; -inf where there is none."""
        return self._restrict(boxes).log_probability

    def sample(
        self,
        rows: int,
        rng: torch.Generator,
        *,
        rounded: bool = True,
        boxes: Sequence[Box] = EVERYTHING,
    ) -> np.ndarray:
        """Return category codes of ``rows`` rows, shape (rows, columns) int64.

        Parameters
        ----------
        rounded : bool
            Move entries, each to a value drawn from its own component, wherever that brings the
            counts of values and pairs of values, and of triples where there is time, closer to those expected of the mixture. A count
            that is expected to be below a half is closest at 0: so values that are expected in fewer
            than ``COMMON`` of the rows are neither moved nor moved to, and a table of a few rows is a
            plain draw; rare pairs of common values do get a little rarer. False: draws that are
            independent given the component.
        boxes : sequence of Box
            Disjoint boxes, of positive probability: rows are drawn from the mixture conditioned on
            lying in one of them. Moves stay within the row's box.
        """
        restricted, generator = self._restrict(boxes), host(rng)
        sweeps, tripled = self._sweeps(rows)
        parts = []
        for start in range(0, rows, CHUNK):
            certain = 0 if self.rows is None else len(self.rows)
            draw = _Draw(restricted, min(CHUNK, rows - start), generator, certain)
            if rounded and sweeps and self._roundable():
                draw.round(sweeps, tripled)
            parts.append(draw.index)
        return np.concatenate(parts)

    def sample_cells(
        self,
        boxes: Sequence[Box],
        cells: np.ndarray,
        counts: np.ndarray,
        rng: np.random.Generator,
        *,
        rounded: bool = True,
    ) -> np.ndarray:
        """Return category codes of rows of which a given number lies in each of some cells, in random order.

        Parameters
        ----------
        boxes : sequence of Box
            Disjoint.
        cells : ndarray, shape (boxes,)
            The cell of each box, in rising order from 0.
        counts : ndarray, shape (cells,), int
            At least 1.
        rounded : bool
            As of :meth:`sample`; moves stay within the row's box.
        """
        matrix, prior = np.maximum(self.matrix(), LEAST_CHANCE), self.prior()
        # As many cells at a time as there is room for, at least one.
        boxes_upto = np.searchsorted(cells, np.arange(len(counts)), side="right")
        rows_upto = counts.cumsum()
        parts, start, first, before = list[np.ndarray](), 0, 0, 0
        while start < len(counts):
            room = first + max(1, CELLS // len(matrix)), before + CHUNK
            fits = (
                np.searchsorted(u, r, "right")
                for u, r in zip((boxes_upto, rows_upto), room, strict=True)
            )
            stop = max(start + 1, int(min(fits)))
            last = int(boxes_upto[stop - 1])
            part = cells[first:last] - start, counts[start:stop]
            restricted = Restricted(matrix, self.layout, boxes[first:last], prior, part)
            rows = int(rows_upto[stop - 1]) - before
            draw = _Draw(restricted, rows, rng)
            sweeps, tripled = self._sweeps(rows)
            if rounded and sweeps and self._roundable():
                draw.round(sweeps, tripled)
            parts.append(draw.index)
            start, first, before = stop, last, before + rows
        index = np.concatenate(parts)
        return index if len(parts) == 1 else rng.permutation(index)

    def _sweeps(self, rows: int) -> tuple[int, bool]:
        """Return how many sweeps rounding takes, and whether triples count in them."""
        columns = len(self.layout.blocks)
        triples = rows * columns * math.comb(columns - 1, 2)
        if self.rows is None and triples <= TRIPLED_MOVES:
            return min(SWEEPS, int(TRIPLED_MOVES / max(triples, 1))), True
        return min(SWEEPS, int(MOVES / (rows * columns**2))), self.rows is not None

    def _roundable(self) -> bool:
        """Return whether the counts of all pairs can be held, and be taken pair by pair."""
        return self.layout.width <= MAX_ROUNDED and len(self.layout.blocks) <= MAX_PAIRED

    def _restrict(self, boxes: Sequence[Box]) -> Restricted:
        return Restricted(self.matrix(), self.layout, boxes, self.prior())

    def prior(self) -> np.ndarray | None:
        """Return the shares of the components, of sum 1; None where all have the same."""
        shares = None if self.shares is None else self.shares.cpu().double().numpy()
        return None if shares is None else shares / shares.sum()


def host(rng: torch.Generator) -> np.random.Generator:
    """Return a stream of numpy's, drawn from one of torch's."""
    seed = torch.randint(2**63 - 1, (), generator=rng, device=rng.device)
    return np.random.default_rng(int(seed))


class _Triples:
    """Expected counts of the values of triples of columns, by which public rows are chosen and entries are moved.

    Attributes
    ----------
    sets : ndarray, shape (triples, 3)
    expected : ndarray, shape (cells of all triples,)
    weights : ndarray, shape (cells of all triples,)
        Of the squared errors of counts: ∝ 1/√c, about the expected distance of a count that chance moves by √c; 0 where
        fewer than ``SEEN`` rows are expected.
    """

    def __init__(self, mixture: Restricted, rows: int, certain: int, sets: np.ndarray) -> None:
        sizes = mixture.sizes
        self.sets = sets
        cells = sizes[self.sets].prod(axis=1)
        self.starts = np.cumsum([0, *cells])
        self.strides = np.stack(
            [sizes[self.sets[:, 1]] * sizes[self.sets[:, 2]], sizes[self.sets[:, 2]]], axis=1
        )
        self._with = [self._of_column(j, len(sizes)) for j in range(len(sizes))]
        self.expected = np.zeros(self.starts[-1])
        if _many_parts(mixture):
            self._expect_on_average(mixture, rows)
        else:
            self._expect_by_box(mixture, rows, certain)
        # In place: there are many cells.
        self.weights = np.maximum(self.expected, 0.0)
        self.weights += 1
        np.sqrt(self.weights, out=self.weights)
        np.divide(TRIPLES_WEIGHT, self.weights, out=self.weights)
        self.weights[self.expected < SEEN] = 0.0

    def _expect_by_box(self, mixture: Restricted, rows: int, certain: int) -> None:
        """Add the expected counts of each box."""
        boxes, components = np.divmod(np.arange(len(mixture.shares)), len(mixture.mixture))
        every = range(len(self.sets))
        for box in np.unique(boxes):
            here = (boxes == box) & (mixture.shares > 0)
            p = mixture.distributions(box, components[here])
            weights = rows * mixture.shares[here]
            public = components[here] < certain
            index = np.nonzero(p[public])[1].reshape(-1, len(mixture.sizes)) - mixture.starts
            self._count(index, self.expected, weights[public])
            self._expect(every, mixture, p[~public], weights[~public])

    def _expect_on_average(self, mixture: Restricted, rows: int) -> None:
        """Add the expected counts of all boxes together: of two columns that boxes restrict, by their joint distribution."""
        cut = set(mixture.cut())
        restricted = [tuple(j for j in columns if j in cut) for columns in self.sets.tolist()]
        together = {columns for columns in restricted if len(columns) == 2}
        p, shares = mixture.average()
        alone = [i for i, columns in enumerate(restricted) if columns not in together]
        self._expect(alone, mixture, p, rows * shares)
        for pair in sorted(together):
            of_pair = rows * mixture.joint(*pair)
            self._expect_joint(
                [i for i, p in enumerate(restricted) if p == pair], mixture, pair, of_pair
            )

    def _expect(
        self, which: Iterable[int], mixture: Restricted, p: np.ndarray, weights: np.ndarray
    ) -> None:
        """Add the counts of some triples that independent columns with the distributions ``p`` expect, ``weights`` rows each."""
        blocks = [p[:, a : a + n] for a, n in zip(mixture.starts, mixture.sizes, strict=True)]
        for (a, b), triples in groupby(which, lambda i: tuple(self.sets[i, :2])):
            both = (weights[:, None] * blocks[a])[:, :, None] * blocks[b][:, None]
            pairs = both.reshape(len(p), mixture.sizes[a] * mixture.sizes[b]).T
            for i in triples:
                counts = pairs @ blocks[self.sets[i, 2]]
                self.expected[self.starts[i] : self.starts[i + 1]] += counts.ravel()

    def _expect_joint(
        self, which: Iterable[int], mixture: Restricted, pair: tuple[int, ...], of_pair: np.ndarray
    ) -> None:
        """Add the expected counts of some triples with a pair of columns, of which each component expects ``of_pair``."""
        for i in which:
            (c,) = {*self.sets[i].tolist()} - {*pair}
            q = mixture.mixture[:, mixture.starts[c] : mixture.starts[c] + mixture.sizes[c]]
            counts = np.tensordot(of_pair, q / q.sum(axis=1, keepdims=True), axes=(0, 0))
            counts = counts.transpose(np.argsort([*pair, c]))
            self.expected[self.starts[i] : self.starts[i + 1]] += counts.ravel()

    @classmethod
    def within(cls, mixture: Restricted, rows: int, certain: int) -> "_Triples | None":
        """Select those whose cells expect ``SEEN`` rows on average, of the fewest cells first, as many as there is room for; None where there is none.

        Of many boxes, those with at most two columns that the boxes restrict, whose joint distribution there is room for.
        """
        sizes, many = mixture.sizes, _many_parts(mixture)
        if len(sizes) > MAX_TRIPLED or (many and certain):
            return None
        sets = np.array(list(combinations(range(len(sizes)), 3)), dtype=np.int64).reshape(-1, 3)
        if many:
            cut = np.isin(sets, mixture.cut())
            cell_count = len(mixture.mixture) * np.where(cut, sizes[sets], 1).prod(axis=1)
            sets = sets[(cut.sum(axis=1) <= 2) & (cell_count <= HELD)]
        cells = sizes[sets].prod(axis=1)
        order = np.argsort(cells, kind="stable")
        fits = (cells[order].cumsum() <= MAX_TRIPLE_CELLS) & (cells[order] * SEEN <= rows)
        sets = sets[np.sort(order[fits])]
        return cls(mixture, rows, certain, sets) if len(sets) else None

    def _of_column(self, j: int, columns: int) -> tuple[np.ndarray, np.ndarray]:
        """Return of the triples with column ``j`` where their cells start, and the step of each column's code, shape (columns, triples)."""
        which = np.flatnonzero((self.sets == j).any(axis=1))
        steps = np.zeros((columns, len(which)))
        ones = np.ones(len(which))
        steps[self.sets[which].T, np.arange(len(which))] = [*self.strides[which].T, ones]
        return self.starts[which], steps

    def cells(self, index: np.ndarray) -> np.ndarray:
        """Return where rows of codes are counted, shape (n, triples)."""
        first, second, third = (index[:, self.sets[:, i]] for i in range(3))
        return self.starts[:-1] + first * self.strides[:, 0] + second * self.strides[:, 1] + third

    def moves(self, j: int, index: np.ndarray, new: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the cells that lose a row, and that gain one, where column ``j`` of rows takes on other codes, shape (n, triples with j)."""
        starts, steps = self._with[j]
        # A product of floats, which are exact here, is several times as fast as one of integers.
        down = (index.astype(float) @ steps).astype(np.int64) + starts
        return down, down + (new - index[:, j])[:, None] * steps[j].astype(np.int64)

    def start(self, index: np.ndarray) -> None:
        """Count rows of codes, whose moves are then compared."""
        error = -self.expected
        self._count(index, error)
        self._losing = ((error - 0.5) * self.weights).astype(np.float32)
        self._winning = ((error + 0.5) * self.weights).astype(np.float32)

    def gains(self, lost: np.ndarray, won: np.ndarray) -> np.ndarray:
        """Return half of what moves of a row from some cells to others subtract from the weighted squared error, cell by cell."""
        # The cells are in range: "clip" saves a check.
        return self._losing.take(lost, mode="clip") - self._winning.take(won, mode="clip")

    def enter(self, lost: np.ndarray, won: np.ndarray) -> None:
        """Move rows from some cells to others."""
        for cells, sign in ((lost.ravel(), -1), (won.ravel(), 1)):
            change = (sign * self.weights[cells]).astype(np.float32)
            for of_cells in (self._losing, self._winning):
                np.add.at(of_cells, cells, change)

    def _count(
        self, index: np.ndarray, onto: np.ndarray, weights: np.ndarray | None = None
    ) -> None:
        """Add the counts of rows of codes, in place."""
        for start, stop, (a, b, c), (first_step, second_step) in zip(
            self.starts[:-1], self.starts[1:], self.sets, self.strides, strict=True
        ):
            cells = index[:, a] * first_step + index[:, b] * second_step + index[:, c]
            onto[start:stop] += np.bincount(cells, weights, stop - start)


def _many_parts(mixture: Restricted) -> bool:
    """Return whether the boxes are too many for the expected counts of each."""
    return len(mixture.shares) > MAX_PARTS * len(mixture.mixture)


class _Draw:
    """Rows drawn from a restricted mixture: ``index``, shape (rows, columns).

    The first ``certain`` components are rows of a public table, neighbours alike.
    """

    def __init__(
        self, mixture: Restricted, rows: int, rng: np.random.Generator, certain: int = 0
    ) -> None:
        self.rng = rng
        self.rows = rows
        self.mixture, self.certain = mixture, certain
        # Each part gets its share of the rows, rounded down or up: less spread than drawing it. Of neighbours that are
        # alike about as many rows are drawn as are expected, so they keep their order.
        order = rng.permutation(len(mixture.shares))
        if certain:
            order = np.concatenate(
                [order[~self._is_certain(order)], np.flatnonzero(self._is_certain())]
            )
        if mixture.cells is None:
            upto = mixture.shares[order].cumsum()
            upto = upto / upto[-1] * rows
        else:
            order, upto = _within_cells(mixture, rng)
        repeats = np.empty(len(order), dtype=np.int64)
        repeats[order] = np.diff(np.ceil(upto - rng.random()), prepend=0)
        self.part = rng.permutation(np.repeat(np.arange(len(order)), repeats))
        columns = [mixture.values(j, self.part, rng) for j in range(len(mixture.starts))]
        self.index = np.stack(columns, axis=1)

    def round(self, sweeps: int, tripled: bool) -> None:
        """Sweep over all entries, accepting the moves that shrink the squared error of the counts: of pairs, and triples if ``tripled``."""
        starts = self.mixture.starts
        codes = self.index + starts  # positions in a row of one-hot codes
        d = len(starts)
        counts = np.bincount(self.part, minlength=len(self.mixture.shares))
        expected = self.mixture.expect(
            self.mixture.shares * self.rows
            if self.certain or self.mixture.cells is not None
            else counts
        )
        common = expected.diagonal() >= COMMON
        if not common.any():
            return
        error = self._counts() - expected
        triples = _Triples.within(self.mixture, self.rows, self.certain) if tripled else None
        if triples is not None:
            triples.start(self.index)
        for _ in range(sweeps):
            if self.certain:
                self._exchange(codes, error, expected >= SEEN, triples)
            for j in self.rng.permutation(d):
                self._sweep(j, codes, error, common, triples)
        self.index = codes - starts

    def _is_certain(self, part: np.ndarray | None = None) -> np.ndarray:
        """Return which parts, by default of all, are rows of a public table."""
        part = np.arange(len(self.mixture.shares)) if part is None else part
        return part % len(self.mixture.mixture) < self.certain

    def _exchange(
        self,
        codes: np.ndarray,
        error: np.ndarray,
        seen: np.ndarray,
        triples: _Triples | None,
    ) -> None:
        """Propose to take another public row in the place of each that was drawn: one near it, by its share.

        No row is taken more often than its share of the rows, rounded up.
        """
        mixture, d, width = self.mixture, codes.shape[1], len(error)
        certain = np.flatnonzero(self._is_certain())
        upto = mixture.shares[certain].cumsum()
        drawn = np.flatnonzero(self._is_certain(self.part))
        if not len(drawn):
            return
        order = self.rng.permutation(drawn)
        place = np.searchsorted(certain, self.part[order])
        level = upto[place] + upto[-1] * NEAR * (2 * self.rng.random(len(order)) - 1)
        new = certain[np.searchsorted(upto[:-1], np.abs(level) % upto[-1], side="right")]
        used = np.bincount(self.part, minlength=len(mixture.shares))
        room = np.ceil(mixture.shares * self.rows)
        first, second = np.triu_indices(
            d
        )  # codes rise with the column: above the diagonal of ``error``
        of_pairs = error.reshape(-1), seen.reshape(-1)
        starts = mixture.starts
        for batch in np.array_split(np.arange(len(order)), BATCHES):
            proposed = new[batch]
            _, once = np.unique(proposed, return_index=True)
            batch = batch[once]
            batch = batch[used[new[batch]] < room[new[batch]]]
            old, rows = order[batch], self._codes_of(new[batch])
            before, after = codes[old], rows
            down, up = (c[:, first] * width + c[:, second] for c in (before, after))
            gain = _gain(down, up, *of_pairs)
            if triples is not None:
                lost, won = (triples.cells(c - starts) for c in (before, after))
                gain += (triples.gains(lost, won) * (lost != won)).sum(axis=1)
            accepted = gain > 0
            _enter(down[accepted], up[accepted], of_pairs[0])
            if triples is not None:
                triples.enter(lost[accepted], won[accepted])
            used[self.part[old[accepted]]] -= 1
            used[new[batch[accepted]]] += 1
            self.part[old[accepted]] = new[batch[accepted]]
            codes[old[accepted]] = rows[accepted]

    def _codes_of(self, part: np.ndarray) -> np.ndarray:
        """Return positions of the values of public rows in a row of one-hot codes, shape (n, columns)."""
        rows = self.mixture.mixture[part % len(self.mixture.mixture)]
        return np.nonzero(rows)[1].reshape(len(part), len(self.mixture.starts))

    def _counts(self) -> np.ndarray:
        """Count all pairs of codes, shape (width, width); the diagonal holds single codes."""
        starts, sizes = self.mixture.starts, self.mixture.sizes
        pair_counts = np.zeros((sizes.sum(), sizes.sum()))
        for a, b in combinations_with_replacement(range(len(sizes)), 2):
            cells = self.index[:, a] * sizes[b] + self.index[:, b]
            counts = np.bincount(cells, minlength=sizes[a] * sizes[b]).reshape(sizes[a], sizes[b])
            first, second = (slice(starts[j], starts[j] + sizes[j]) for j in (a, b))
            pair_counts[first, second] = counts
            if a != b:
                pair_counts[second, first] = counts.T
        return pair_counts

    def _sweep(
        self,
        j: int,
        codes: np.ndarray,
        error: np.ndarray,
        common: np.ndarray,
        triples: _Triples | None,
    ) -> None:
        """Propose to move every entry of a column, batch by batch, in a random order."""
        order = self.rng.permutation(self.rows)
        order = order[~self._is_certain(self.part[order])]
        current = codes[order, j]
        new = self.mixture.values(j, self.part[order], self.rng) + self.mixture.starts[j]
        movable = (new != current) & common[current] & common[new]
        # Where the pairs of this column's codes with the others' lie above the diagonal of ``error``.
        width = len(error)
        scale = np.where(np.arange(codes.shape[1]) < j, 1, width)
        pairs = codes * np.where(scale == 1, width, 1)
        scale[j], pairs[:, j] = width + 1, 0  # a code with itself
        flat, starts = error.reshape(-1), self.mixture.starts
        batches = min(BATCHES, -(-len(order) // LEAST_BATCH))
        for batch in np.array_split(np.arange(len(order)), max(1, batches)):
            batch = batch[movable[batch]]
            neighbours = pairs[order[batch]]
            down, up = (code[batch, None] * scale + neighbours for code in (current, new))
            gain = (flat[down] - flat[up] - 1).sum(axis=1)
            if triples is not None:
                lost, won = triples.moves(j, codes[order[batch]] - starts, new[batch] - starts[j])
                gain += triples.gains(lost, won).sum(axis=1)
            moved = gain > 0
            _enter(down[moved], up[moved], flat)
            if triples is not None:
                triples.enter(lost[moved], won[moved])
            codes[order[batch[moved]], j] = new[batch[moved]]


def _within_cells(mixture: Restricted, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return parts in a random order within their cells, and the rows of all parts up to each: of a whole cell exactly its number."""
    assert mixture.cells is not None
    of, rows = mixture.cells
    cell = np.repeat(of, len(mixture.mixture))
    order = np.lexsort(
        (rng.random(len(cell)), cell)
    )  # parts of a cell are side by side before, too
    upto = mixture.shares[order].cumsum()
    last = np.searchsorted(cell, np.arange(len(rows)), side="right") - 1
    before = np.append(0.0, upto[last[:-1]])
    within = (upto - before[cell]) / (upto[last] - before)[cell]
    return order, (rows.cumsum() - rows)[cell] + np.minimum(within, 1.0) * rows[cell]


def _gain(down: np.ndarray, up: np.ndarray, error: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return half of what each move subtracts from the weighted squared error of the cells, shape (n,)."""
    change = (error[down] - 0.5) * weights[down] - (error[up] + 0.5) * weights[up]
    return (change * (down != up)).sum(axis=1)


def _enter(down: np.ndarray, up: np.ndarray, error: np.ndarray) -> None:
    """Move rows from some cells to others."""
    np.add.at(error, up.ravel(), 1.0)
    np.add.at(error, down.ravel(), -1.0)
