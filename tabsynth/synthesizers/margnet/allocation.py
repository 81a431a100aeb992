"""The privacy budget of joint counts where a public table is their prior: sets that it predicts well get less of it.

A count c that the public table predicts is off by a variance of φ · c, as in :mod:`tabsynth.synthesizers.margnet.prior`. Noise of
variance σ² leaves a posterior error of √(φcσ²/(φc + σ²)) in it, and the budget holds Σ 1/σ² fixed. Shares are those of the least sum
of these errors. Without a prior (φ → ∞) they are ∝ (w · cells)^(2/3), as of
:func:`tabsynth.privacy.noise.counts.shares_by_cells`, and each set keeps a part of that share.

The budget follows a public table only where noisy sums of signs of pairs and triples show that it has their associations: one-way
counts cannot. All of it is a function of public rows and of earlier releases, and costs no privacy.

NOTE[DIFF] JAM-PGM (Fuentes et al. 2024, arXiv:2403.07797) chooses in each round between a public and a noisy marginal, by a score
of private rows, whose sensitivity was wrong (arXiv:2602.17454). Here no score reads private rows: each count is noisy, and
public counts join it by their weight in the posterior.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tabsynth.privacy.noise.counts import Groups, Measured, number_of

MAX_PUBLIC = 50_000  # public rows that are used, drawn at random where there are more
LEAST_STD = 0.1  # in counts: what exact counts are weighed by
LEAST_WEIGHT = 1e-9  # of all sets in the drift: those of one value say nothing
STEPS = 60  # of shares in the grid, and of bisection
LEAST_SHARE = 1e-6  # in the grid
Columns = tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Distance:
    """Noisy values less expected ones.

    Attributes
    ----------
    values : ndarray, shape (cells,)
    std : float
        Of the noise.
    drawn : float
        The sum of the variances of the exact values by a draw of the rows.
    """

    values: np.ndarray
    std: float
    drawn: float

    @classmethod
    def of_counts(cls, noisy: Measured, expected: np.ndarray, rows: float) -> "Distance":
        """Measure the distance of the counts of a set of columns from expected ones of the same sum."""
        drawn = rows - np.square(expected).sum() / rows  # the sum of c · (1 - c/n)
        return cls(noisy.counts.ravel() - expected, noisy.std, float(drawn))


def drift_by(distances: Sequence[Distance]) -> tuple[float, float]:
    """Return φ: the excess of squared distances over noise, in variances of a draw of the rows; and its standard error.

    The method of moments. Distances count by their precision.
    """
    total, weights = 0.0, LEAST_WEIGHT
    for d in distances:
        variance = max(d.std, LEAST_STD) ** 2
        excess = np.square(d.values).sum() - d.values.size * variance
        spread = 2 * d.values.size * variance**2 + 4 * variance * d.drawn
        # Of estimates excess/drawn with variances spread/drawn², the mean by precision.
        total, weights = total + d.drawn * excess / spread, weights + d.drawn**2 / spread
    return float(total / weights), float(1 / math.sqrt(weights))


def public_rows(codes: np.ndarray) -> np.ndarray:
    """Return the rows of a public table that are used: of more than ``MAX_PUBLIC`` so many, the same in each fit."""
    codes = np.asarray(codes, dtype=np.int64)
    if len(codes) <= MAX_PUBLIC:
        return codes
    return codes[np.random.default_rng(0).permutation(len(codes))[:MAX_PUBLIC]]


def cells_in(codes: np.ndarray, columns: Columns, groups: Groups) -> np.ndarray:
    """Return the number of the cell of each row in the counts of a set of columns, shape (n,)."""
    sizes = [number_of(groups[j]) for j in columns]
    return np.ravel_multi_index([groups[j][codes[:, j]] for j in columns], sizes)


@dataclass(frozen=True, eq=False)
class PublicCounts:
    """Counts that public rows predict.

    Parameters
    ----------
    codes : ndarray, shape (n, columns), int
        Of the public rows.
    rows : float
        A public or privatised number of private rows.
    """

    codes: np.ndarray
    rows: float

    def expect(self, columns: Columns, groups: Groups) -> np.ndarray:
        """Return expected counts of a set of columns, shape (cells,)."""
        cells = math.prod(number_of(groups[j]) for j in columns)
        counts = np.bincount(cells_in(self.codes, columns, groups), minlength=cells)
        return counts * (self.rows / len(self.codes))

    def drift(self, one_way: Sequence[Measured], values: Groups) -> float:
        """Return φ by one-way counts, less its standard error, and at least that of two samples of one population."""
        distances = [
            Distance.of_counts(m, self.expect(m.columns, values), self.rows) for m in one_way
        ]
        estimate, error = drift_by(distances)
        return max(1 + self.rows / len(self.codes), estimate - error)

    def explains(
        self,
        sums: Mapping[Columns, np.ndarray],
        std: float,
        signs: Sequence[np.ndarray],
        means: Sequence[np.ndarray],
        max_unexplained: float,
    ) -> bool:
        """Return whether noisy sums of signs are nearer to the public ones than to those of independent columns.

        Their drift, 0 at least, and its standard error must together be at most the share ``max_unexplained`` of the drift of independent
        columns. Where noise hides both, they show nothing, and the answer is no.

        Parameters
        ----------
        sums : dict of ndarray, shape (codes,)
            Of pairs and triples of columns, as of :func:`tabsynth.synthesizers.margnet.interactions.interactions`.
        std : float
            Standard deviation of the noise on each.
        signs : sequence of ndarray, shape (codes, values)
            Of every column.
        means : sequence of ndarray, shape (codes,)
            The mean signs of every column, from one-way counts.
        max_unexplained : float
        """
        of_rows = [of[:, self.codes[:, j]] for j, of in enumerate(signs)]
        public, independent = list[Distance](), list[Distance]()
        for columns, noisy in sums.items():
            products = np.prod([of_rows[j] for j in columns], axis=0).mean(axis=1)
            alone = np.prod([means[j] for j in columns], axis=0)
            for out, mean in ((public, products), (independent, alone)):
                drawn = self.rows * float(np.clip(1 - np.square(mean), 0, None).sum())
                out.append(Distance(noisy - self.rows * mean, std, drawn))
        (drift, error), (other, _) = drift_by(public), drift_by(independent)
        return other > 0 and max(0.0, drift) + error <= max_unexplained * other


@dataclass(frozen=True, eq=False)
class Following:
    """The public counts by which a budget is allocated that follows a public table.

    Attributes
    ----------
    public : PublicCounts
    drift : float
        φ.
    least : float
        The part of its share without a public table that a set gets at least, from 0 to 1.
    """

    public: PublicCounts
    drift: float
    least: float

    def shares(
        self,
        sets: Sequence[Columns],
        groups: Groups,
        noise: float,
        importance: np.ndarray,
        default: Sequence[float],
    ) -> list[float]:
        """Return shares of the budget of some sets, of sum 1, that minimise the sum of w · posterior errors.

        Parameters
        ----------
        sets : sequence of tuple of int
        groups : Groups
            What they are counted in.
        noise : float
            Standard deviation of counts that would have the whole budget, in rows.
        importance : ndarray, shape (sets,)
            w.
        default : sequence of float
            The shares without a public table.
        """
        variances = [self.drift * self.public.expect(s, groups) for s in sets]
        return least_errors(variances, noise, importance, self.least * np.asarray(default))


def least_errors(
    variances: Sequence[np.ndarray], noise: float, importance: np.ndarray, least_shares: np.ndarray
) -> list[float]:
    """Return shares a, of sum 1 and each of ``least_shares``, of the least Σ wᵢ Σ √(v σ²/(aᵢv + σ²)) over the cells of all sets.

    With a share a, noise has the variance σ²/a. The sum is convex in the shares, so at the least all of them gain as much
    (Lagrange), but those of ``least_shares`` that gain less. That gain is found by bisection, on a grid of shares.

    Parameters
    ----------
    variances : sequence of ndarray, shape (cells,)
        v: what the prior is off by in each cell.
    noise : float
        σ.
    importance : ndarray, shape (sets,)
        w.
    least_shares : ndarray, shape (sets,)
        Of a sum below 1, or of 1: then they are the shares.
    """
    shares = np.geomspace(np.maximum(least_shares, LEAST_SHARE), 1.0, STEPS)
    gains = np.empty_like(shares)  # what a little more of the budget takes off each set's error
    for i, v in enumerate(variances):
        in_noise = v.ravel() / noise**2
        gains[:, i] = [
            importance[i] * ((in_noise / (a * in_noise + 1)) ** 1.5).sum() for a in shares[:, i]
        ]
    logs = np.log(np.maximum(gains, np.finfo(float).tiny))[::-1], np.log(shares)[::-1]

    def shares_of(gain: float) -> np.ndarray:
        return np.exp([np.interp(gain, g, a) for g, a in zip(*(x.T for x in logs), strict=True)])

    low, high = float(logs[0].min()), float(logs[0].max())
    for _ in range(STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if shares_of(middle).sum() > 1 else (low, middle)
    found = shares_of(high)
    return list(found / found.sum())
