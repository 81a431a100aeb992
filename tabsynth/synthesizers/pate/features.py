"""ψ: products of standardised functions of two columns, whose means are a table's two-way marginals; teachers by these means.

For each column a few functions φ of its code, linear in it, are orthonormal under the column's one-way
distribution p: mean 0, variance 1, uncorrelated. Ordered columns have polynomials of the rank, others
their most frequent values. Where two columns are independent, the mean of φ_a φ_b is 0; in general

    P(u, v) = p_a(u) p_b(v) (1 + Σ E[φ_a φ_b] φ_a(u) φ_b(v)),

exactly so with all functions of both columns, and else with what is left out taken as independent
(Lancaster 1958). So the means of ψ say how a table departs from independence, and nothing else.
"""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.polynomial.legendre import Legendre
from torch import Tensor

from tabsynth.encoding.table import Block, Layout
from tabsynth.schema.column import Column
from tabsynth.training.private_step import CodedInputs

# Of a function beside those before it: below, it is of few rows, and far out where it is not 0.
LEAST_NORM, LEAST_NORM_OF_LABEL = 0.1, 0.01
SWEEPS = 20  # of iterative proportional fitting
FLOOR = 1e-3  # of what independence gives a cell: no pair of values is ruled out


def functions_of(
    column: Column, block: Block, p: np.ndarray, max_functions: int, min_norm: float = LEAST_NORM
) -> np.ndarray:
    """Return functions φ of one column: weights of its code and a constant, shape (width + 1, functions).

    Parameters
    ----------
    column : Column
    block : Block
    p : ndarray, shape (size,)
        The column's distribution, strictly positive.
    max_functions : int
        The largest number of functions; fewer where the column has fewer values, or rare ones.
    min_norm : float
        Of a function's norm beside those before it.
    """
    ones = np.ones((block.size, 1))
    values = np.concatenate([block.codebook.astype(float), ones], axis=1)  # of every weight
    basis = [np.eye(values.shape[1])[-1]]
    for weights in _candidates(column, block, p, max_functions):
        for other in basis:
            weights = weights - (p * (values @ weights) * (values @ other)).sum() * other
        norm = np.sqrt((p * (values @ weights) ** 2).sum())
        if norm > min_norm and len(basis) <= max_functions:
            basis.append(weights / norm)
    return np.stack(basis[1:], axis=1) if len(basis) > 1 else np.zeros((values.shape[1], 0))


def _candidates(
    column: Column, block: Block, p: np.ndarray, max_functions: int
) -> list[np.ndarray]:
    """Return functions to make orthonormal, the most telling first; a few more than ``max_functions``."""
    width = block.stop - block.start
    unit = np.eye(width + 1)
    if block.head != "softmax":
        return list(unit[:width])
    if not column.ordered:
        return [unit[j] for j in np.argsort(-p, kind="stable")[: max_functions + 1]]
    cells = column.cells
    functions = [unit[code] for code in range(cells, block.size)]  # missing values
    rank = (np.cumsum(p[:cells]) - p[:cells] / 2) / p[:cells].sum()
    for degree in range(1, max_functions + 1):
        weights = np.zeros(width + 1)
        weights[:cells] = Legendre.basis(degree)(2 * rank - 1)
        functions.append(weights)
    return functions


class PairFeatures:
    """The features ψ of rows of codes, and the two-way marginals that means of ψ stand for.

    Parameters
    ----------
    layout : Layout
    columns : sequence of Column
    marginals : sequence of ndarray
        One-way distributions, released.
    max_functions : int
        The largest number of functions of a column.
    max_features : int
        The largest number of features: beyond, columns have fewer functions, and then some pairs of columns, drawn once
        and for all tables, have none.
    label : int, optional
        A column that keeps all its functions.

    Attributes
    ----------
    group : LongTensor, shape (features,)
        Number of the group of each feature: of one pair of columns, and of about one fineness.
    groups : int
    with_label : BoolTensor, shape (features,)
    """

    def __init__(
        self,
        layout: Layout,
        columns: Sequence[Column],
        marginals: Sequence[np.ndarray],
        max_functions: int,
        max_features: int,
        label: int | None = None,
    ) -> None:
        self.layout, self.marginals = layout, list(marginals)
        while True:
            self._functions = [
                functions_of(c, b, p, b.size, LEAST_NORM_OF_LABEL)
                if j == label
                else functions_of(c, b, p, max_functions)
                for j, (c, b, p) in enumerate(zip(columns, layout.blocks, marginals, strict=True))
            ]
            column = np.repeat(np.arange(len(columns)), [f.shape[1] for f in self._functions])
            first, second = np.triu_indices(len(column), 1)
            apart = column[first] != column[second]
            first, second = first[apart], second[apart]
            if len(first) <= max_features or max_functions == 1:
                break
            max_functions -= 1
        number = column[first] * len(columns) + column[second]
        pairs = np.random.default_rng(0).permutation(np.unique(number))
        if len(first) > max_features:
            chosen = np.isin(number, pairs[: max(1, max_features * len(pairs) // len(first))])
            if label is not None:
                chosen |= (column[first] == label) | (column[second] == label)
            first, second, number = first[chosen], second[chosen], number[chosen]
        self._first, self._second = torch.from_numpy(first), torch.from_numpy(second)
        order = np.concatenate([np.arange(f.shape[1]) for f in self._functions])
        level = np.maximum(order[first], order[second]) // 2
        different, numbered = np.unique(number * len(order) + level, return_inverse=True)
        self.group, self.groups = torch.from_numpy(numbered), len(different)
        self.with_label = torch.from_numpy((column[first] == label) | (column[second] == label))
        weights = np.zeros((layout.width, len(column)))
        # By code, the functions that go by it: those of its column, unless all its weights are 0.
        self._terms: list[tuple[int, int, int]] = []
        start = 0
        for block, functions in zip(layout.blocks, self._functions, strict=True):
            stop = start + functions.shape[1]
            weights[block.start : block.stop, start:stop] = functions[:-1]
            used = block.start + np.flatnonzero(functions[:-1].any(axis=1))
            self._terms += [(int(code), start, stop) for code in used]
            start = stop
        self._weights = torch.from_numpy(weights).float()
        constants = np.concatenate([f[-1] for f in self._functions])
        self._constants = torch.from_numpy(constants).float()

    def __len__(self) -> int:
        """Return the number of features."""
        return len(self.group)

    def to(self, device: torch.device) -> "PairFeatures":
        """Move all of it to ``device``."""
        for name, value in vars(self).items():
            if isinstance(value, Tensor):
                setattr(self, name, value.to(device))
        return self

    def __call__(self, codes: Tensor) -> Tensor:
        """Return ψ of each row, shape (rows, features).

        Of expected codes it is the expected ψ, where the columns of a row are independent of each other.
        """
        values = codes @ self._weights + self._constants
        # Twice as fast as by brackets.
        return values.index_select(1, self._first) * values.index_select(1, self._second)

    def of_rows(self, codes: Tensor) -> Tensor:
        """Return ψ of private rows, each a function of its own codes, to the bit.

        Parameters
        ----------
        codes : Tensor, shape (rows, width)

        Returns
        -------
        Tensor, shape (rows, features)
            Equal to :meth:`__call__` up to rounding.

        Formal guarantees
        -----------------
        What a row becomes depends on that row and on public weights alone: not on its place, nor on the
        number or the content of other rows, nor on the number of threads. Proof: an entry is
        made by additions and multiplications of single numbers, in an order that the public layout
        fixes, each of them an operation of its own on all rows. IEEE 754 rounds the result of one such
        operation by its two operands alone, so by induction every entry is a function of the row's codes.
        A product of matrices gives no such promise: it may add up the terms of an entry in an order that
        follows from the row's place and from the shape of all rows.
        """
        columns = codes.T.contiguous()
        values = self._constants[:, None].repeat(1, len(codes))
        for code, first, last in self._terms:
            values[first:last] += self._weights[code, first:last, None] * columns[code]
        return (values.index_select(0, self._first) * values.index_select(0, self._second)).T

    def second_moments(self, means: Tensor) -> Tensor:
        """Return two-way marginals, as second moments of codes, that have these means of ψ.

        Returns
        -------
        Tensor, shape (width, width)
            As :func:`tabsynth.synthesizers.adversarial.generator.second_moments`. Cells below 0 are cut off, and the
            one-way distributions restored by iterative proportional fitting.
        """
        departures = torch.zeros(len(self._constants), len(self._constants), dtype=torch.float64)
        departures[self._first.cpu(), self._second.cpu()] = means.detach().double().cpu()
        moments = np.zeros((self.layout.width, self.layout.width))
        bounds = np.cumsum([0, *(f.shape[1] for f in self._functions)])
        tables = [
            np.concatenate([b.codebook.astype(float), np.ones((b.size, 1))], axis=1) @ f
            for b, f in zip(self.layout.blocks, self._functions, strict=True)
        ]
        for b, two in enumerate(self.layout.blocks):
            for a, block in enumerate(self.layout.blocks[:b]):
                part = departures[bounds[a] : bounds[a + 1], bounds[b] : bounds[b + 1]].numpy()
                relative = 1 + tables[a] @ part @ tables[b].T
                joint = _fit_margins(relative, self.marginals[a], self.marginals[b])
                product = block.codebook.T @ joint @ two.codebook
                moments[block.start : block.stop, two.start : two.stop] = product
                moments[two.start : two.stop, block.start : block.stop] = product.T
        return torch.from_numpy(moments).to(self._constants)


def _fit_margins(relative: np.ndarray, p: np.ndarray, q: np.ndarray) -> np.ndarray:
    """Return a distribution of pairs with margins ``p`` and ``q``, near ``relative`` times their product."""
    joint = np.maximum(relative, FLOOR) * np.outer(p, q)
    for _ in range(SWEEPS):
        joint *= (p / joint.sum(axis=1))[:, None]
        joint *= q / joint.sum(axis=0)
    return joint


CHUNK = 2048  # rows at a time
# Features are rounded to multiples of 1 / SCALE before they are added up; those beyond LIMIT are cut to it.
SCALE, LIMIT = 2.0**20, 2.0**23
WEIGHT_STEPS = 2.0**16  # of a weight at its cap
ANSWERS = 2**24  # votes of all teachers at a time


class MarginalTeachers:
    """The teachers by mean differences: wᵢ = mean ψ of shard i; a row x scores ⟨wᵢ − c, ψ(x) − c⟩.

    c is the mean ψ of generated rows. That is the witness function of the distance between the means
    (Gretton et al. 2012), and what one step of gradient descent on the cross-entropy makes of a linear
    discriminator that starts from 0: with a score or so of rows, a second step only fits their noise.

    Parameters
    ----------
    means : Tensor, shape (K, features)
    empty : BoolTensor, shape (K,)
        Teachers without a record: they say yes to every other row, so that their votes are for nothing.

    Formal guarantees
    -----------------
    A record changes the numbers of its own teacher alone; those of all others stay as they are, to the bit.
    Proof: ψ of a record is a function of that record (:meth:`PairFeatures.of_rows`). It is rounded to a
    whole number of steps, by itself, and a teacher's sum is one of 64-bit integers: exact, or modulo 2**64, and
    so the same in every order and whatever rows of other teachers lie between. A mean is one division of that sum
    by the number of the teacher's own records. Scores are products of matrices whose shapes are public (the
    numbers of teachers, features and questions): teacher k has row k, whose entries are sums over its own
    mean, in an order that the shapes fix.
    """

    def __init__(self, means: Tensor, empty: Tensor) -> None:
        self.means, self.empty = means, empty

    @classmethod
    def of(
        cls,
        rows: Tensor | CodedInputs,
        shard: Tensor,
        teachers: int,
        features: PairFeatures,
        parts: Tensor | None = None,
    ) -> "MarginalTeachers":
        """Return the teachers of rows of codes, shape (n, width), each in its shard.

        ``parts``, shape (n,), from 0 to 1, weigh the rows of each mean: in whole numbers of 2⁻¹⁶, so that sums stay
        those of integers.
        """
        sums = torch.zeros(teachers, len(features), dtype=torch.int64)
        times = torch.ones(len(rows), dtype=torch.int64)
        if parts is not None:
            times = (parts.cpu() * WEIGHT_STEPS).ceil().long()  # a small weight is not none
        counts = torch.zeros(teachers, dtype=torch.int64).index_add_(0, shard, times)
        chunks = zip(rows.split(CHUNK), shard.split(CHUNK), times.split(CHUNK), strict=True)
        for part, where, weight in chunks:
            steps = _steps(features.of_rows(part)).cpu()
            sums.index_add_(0, where, steps * weight[:, None])
        means = (sums.double() / SCALE / counts.clamp_min(1)[:, None]).float()
        return cls(means.to(rows.device), (counts == 0).to(rows.device))

    def yes(
        self,
        questions: Tensor,
        centre: Tensor,
        heads: Sequence[Tensor],
        scale: Tensor,
        threshold: float,
    ) -> Tensor:
        """Count the teachers that say yes to each row: all heads' scaled scores are above ``threshold``.

        Parameters
        ----------
        questions : Tensor, shape (rows, features)
            ψ of each row, c subtracted.
        centre : Tensor, shape (features,)
        heads : sequence of BoolTensor, shape (features,)
            Which features each head goes by.
        scale : Tensor, shape (rows, heads)

        Returns
        -------
        LongTensor, shape (rows,)
        """
        weights = self.means - centre
        counts = []
        for part, size in zip(self._parts(questions), self._parts(scale), strict=True):
            says = torch.ones(len(weights), len(part), dtype=torch.bool, device=part.device)
            for h, head in enumerate(heads):
                scores = weights[:, head] @ part[:, head].T
                says &= scores * size[:, h] > threshold
            teachers, rows = (torch.arange(n, device=says.device) for n in says.shape)
            turns = (teachers[:, None] + rows) % 2 == 1
            counts.append(torch.where(self.empty[:, None], turns, says).sum(0))
        return torch.cat(counts)

    def _parts(self, rows: Tensor) -> Sequence[Tensor]:
        return rows.split(max(1, ANSWERS // len(self.means)))


def _steps(values: Tensor) -> Tensor:
    """Return numbers as whole numbers of steps of 1 / ``SCALE``, int64."""
    return values.double().clamp_(-LIMIT, LIMIT).mul_(SCALE).round_().long()
