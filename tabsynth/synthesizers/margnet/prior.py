"""A public table as a prior of all counts: its rows are weighted again by what the noisy counts show.

The expected number of private rows like a public row is taken to be independent of that of others, with a variance that is
proportional to its mean. Then a count c that the public table expects has an error of variance φ · c, in every set of columns.
The drift φ is estimated from the noisy counts by the method of moments. The noise is known, so the squared distance of noisy
counts from expected ones, less the noise, is that of the prior. Public rows are then weighted so that their counts come near to
the noisy ones, at the least change of their weights: a calibration (Deville, Särndal 1992), penalised by the noise (empirical
Bayes). The weighted rows are the posterior of all sets of columns, whether they were measured or not.

The weighted rows hold the chance of their own draw in all sets of columns. A latent class model of them is without most of it: a
mixture of few products of distributions, by expectation and maximisation (Dempster, Laird, Rubin 1977; Goodman 1974). Its error
is another, so part of the model is weighted rows, and part is their classes.

Set by set, what the weighted rows cannot explain is given back: counts move towards the noisy ones by the estimator of James and
Stein (1961). A mixture is fitted to these counts, and is a part of the model that grows with what the noisy counts show. A prior
that is further from the noisy counts than a fit without it would be is not used at all.

All of it is a function of the public table and of noisy counts: it costs no privacy.

The privacy budget of joint counts may follow the prior: sets that it predicts well get less of it. Noise of variance σ² leaves a
posterior error of √(φcσ²/(φc + σ²)) in a count, and the budget holds Σ 1/σ² fixed. Shares are those of the least sum of these errors.
Without a prior (φ → ∞) they are ∝ (w · cells)^(2/3), as of :func:`tabsynth.privacy.noise.counts.shares_by_cells`, and each set keeps a
part of that share. The budget follows a public table only where noisy sums of signs of pairs and triples show that it has their
associations: one-way counts cannot.

NOTE[DIFF] PMW^Pub (Liu et al. 2021, "Leveraging Public Data for Practical Private Query Release") weights public rows by
multiplicative weights, query by query, with public support alone. Here all noisy counts are taken at once, with their noise and the
drift, and the mixture has the combinations that no public row has.
NOTE[DIFF] JAM-PGM (Fuentes et al. 2024, arXiv:2403.07797) chooses in each round between a public and a noisy marginal, by a score
of private rows, whose sensitivity was wrong (arXiv:2602.17454). Here no score reads private rows: each count is noisy, and
public counts join it by their weight in the posterior.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from scipy.optimize import minimize
from torch import Tensor

from tabsynth._typing import JsonObject
from tabsynth.privacy.noise.counts import Groups, Measured, number_of
from tabsynth.synthesizers.margnet.config import MargNetConfig
from tabsynth.synthesizers.margnet.selection import (
    LEAST_STD,
    MAX_GROUP,
    Domain,
    Measurements,
    Resolution,
    groups_of,
    pairs_within,
)
from tabsynth.synthesizers.mixture import Mixture

PRIOR_GROUP = 0.002  # share of the public rows that groups of values hold at least
PRIOR_CLASSES = 100  # latent classes of public rows
PRIOR_STEPS = 150  # at most, in which public rows are weighted
MIXTURE_DRIFT = 3.0  # the drift that the error of a mixture without noise is comparable to
LARGEST_CHANGE = 30.0  # of the logarithm of a weight
SMALLEST_LEAF = 2  # rows that are not ordered further
LEAST_CLARITY = 0.1  # with less, a mixture that is fitted to the counts is not worth its time
CLASS_STEPS = 25  # of expectation and maximisation
NEAR_FIRST = 0.2  # the share of its first row in a class that begins
MAX_PUBLIC = 50_000  # public rows that are used, drawn at random where there are more
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
            Of pairs and triples of columns, as of :func:`tabsynth.synthesizers.margnet.selection.interactions`.
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
    gains = np.empty_like(shares)  # decrease of each set's error by a little more budget
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
    shares_found = shares_of(high)
    return list(shares_found / shares_found.sum())


def in_order(codes: np.ndarray) -> np.ndarray:
    """Return an order of rows in which neighbours are alike, shape (n,).

    Rows are halved again and again, by the value of the column that varies most among them.
    """
    out, stack = list[np.ndarray](), [np.arange(len(codes))]
    while stack:
        rows = stack.pop()
        split = _split_rows(codes[rows]) if len(rows) > SMALLEST_LEAF else None
        if split is None:
            out.append(rows)
        else:
            stack += [rows[~split], rows[split]]
    return np.concatenate(out)


def _split_rows(codes: np.ndarray) -> np.ndarray | None:
    """Return which rows are in the first of two parts, bool (n,); None where all are equal."""
    best, split = 0.0, None
    for column in codes.T:
        counts = np.bincount(column)
        half = min(int(np.searchsorted(counts.cumsum(), len(column) / 2)), len(counts) - 1)
        for first in (column <= half, column < half):
            share = first.mean()
            spread = share * (1 - share) * (1 - np.square(counts / len(column)).sum())
            if spread > best:
                best, split = spread, first
    return split


@dataclass(frozen=True, eq=False)
class PriorCounts:
    """Public rows and the cells of measured sets that they are in.

    Parameters
    ----------
    codes : ndarray, shape (n, columns), int
    measured : Measurements
        Noisy counts.
    """

    codes: np.ndarray
    measured: Measurements

    @property
    def rows(self) -> float:
        """The number of private rows, public or privatised."""
        return self.measured.rows

    @property
    def joint(self) -> Sequence[Measured]:
        """Counts of pairs and triples, or of columns where there are no others."""
        counts = self.measured.counts
        return [m for m in counts if len(m.columns) > 1] or counts

    def cells(self, m: Measured) -> np.ndarray:
        """Return the cell of each public row in the counts of a set, shape (n,)."""
        return cells_in(self.codes, m.columns, self.measured.resolution.of(m.columns))

    def drift(self) -> float:
        """Return φ: its estimate less the standard error, and at least the drift of two samples of one population.

        Where noise hides the drift, the public table is trusted.
        """
        estimate, error = self.estimated_drift()
        return max(1 + self.rows / len(self.codes), estimate - error)

    def estimated_drift(self) -> tuple[float, float]:
        """Return the excess squared distance of noisy counts from the public ones, over what a draw of the rows makes; and its standard error.

        Joint sets count by their precision, single columns where there are no others.
        """
        scale = self.rows / len(self.codes)
        return drift_by(
            [
                Distance.of_counts(
                    m, np.bincount(self.cells(m), minlength=m.counts.size) * scale, self.rows
                )
                for m in self.joint
            ]
        )

    def clarity(self, drift: float) -> float:
        """Return the share of the drift's variance that noisy counts take away, from 0 to 1: the mean over rows and joint sets.

        Below ``LEAST_CLARITY`` it counts as 0.
        """
        shares = []
        for m in self.joint:
            p = np.bincount(self.cells(m), minlength=m.counts.size) / len(self.codes)
            variance = drift * self.rows * p
            shares.append(float(p @ (variance / (variance + max(m.std, LEAST_STD) ** 2))))
        mean = float(np.mean(shares))
        return mean if mean >= LEAST_CLARITY else 0.0

    def drift_of_fit(self, config: MargNetConfig) -> float:
        """Return the same of a fit without the prior: that of a mixture, and what it leaves of the noise."""
        sets = [m for m in self.joint if len(m.columns) == 2] or self.joint
        noise = float(np.mean([m.counts.size * m.std**2 for m in sets]))
        return MIXTURE_DRIFT + config.residual_noise**2 * noise / self.rows

    def weights(self, drift: float, steps: int) -> np.ndarray:
        """Return weights of the public rows, shape (n,), of sum 1: their posterior mode.

        The dual of a strictly convex problem: of each noisy count the price of its error, at no more than ``steps`` steps.
        """
        start = self.rows / len(self.codes)
        measured = self.measured.counts
        sizes = [m.counts.size for m in measured]
        cells = [self.cells(m) for m in measured]
        spots = [c + at for c, at in zip(cells, np.cumsum([0, *sizes[:-1]]), strict=True)]
        counts = np.concatenate([m.counts.ravel() for m in measured])
        std = np.repeat([max(m.std, LEAST_STD) for m in measured], sizes)

        def weights_at(prices: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            change = np.zeros(len(self.codes))
            for spot in spots:
                change -= prices[spot]
            w = start * np.exp(np.clip(drift * change, -LARGEST_CHANGE, LARGEST_CHANGE))
            return w, np.concatenate(
                [np.bincount(c, w, size) for c, size in zip(cells, sizes, strict=True)]
            )

        # Prices in units in which the curvature is about 1.
        public = np.concatenate(
            [np.bincount(c, minlength=size) for c, size in zip(cells, sizes, strict=True)]
        )
        unit = 1 / (std * np.sqrt(drift * public * start / std**2 * len(sizes) / 4 + 1))

        def dual(x: np.ndarray) -> tuple[float, np.ndarray]:
            prices = x * unit
            w, expected = weights_at(prices)
            value = w.sum() / drift + prices @ counts + np.square(prices * std).sum() / 2
            return value, unit * (counts - expected + prices * std**2)

        solution = minimize(
            dual,
            np.zeros(len(counts)),
            jac=True,
            method="L-BFGS-B",
            options={"maxiter": steps, "maxcor": 20},
        )
        w, _ = weights_at(solution.x * unit)
        return w / w.sum()


def common_groups(first: Groups, second: Groups) -> Groups:
    """Return for each column the coarsest groups that are within those of both."""
    return [
        np.unique(a * number_of(b) + b, return_inverse=True)[1]
        for a, b in zip(first, second, strict=True)
    ]


def latent_classes(
    codes: np.ndarray, weights: np.ndarray, sizes: Sequence[int], classes: int
) -> tuple[Tensor, Tensor]:
    """Return classes of rows within which columns are independent, by expectation and maximisation.

    They begin near rows that are drawn at random, the same in each fit. The distributions of the columns in a class have a Dirichlet
    prior: those of all rows, with the weight of one row.

    Parameters
    ----------
    codes : ndarray, shape (n, columns), int
    weights : ndarray, shape (n,)
        Of sum 1.
    sizes : sequence of int
    classes : int
        At most one for each row.

    Returns
    -------
    probabilities : Tensor, shape (classes, values of all columns)
    shares : Tensor, shape (classes,)
        Of sum 1.
    """
    n, classes = len(codes), min(classes, len(codes))
    spots = torch.from_numpy((codes + np.cumsum([0, *sizes[:-1]])).T.copy())
    of_rows = torch.from_numpy(n * weights).float()[:, None]
    columns = [
        (n * np.bincount(column, weights, size) + 1 / size) / (n + 1)
        for column, size in zip(codes.T, sizes, strict=True)
    ]
    overall = torch.from_numpy(np.concatenate(columns)).float()[:, None]
    first = torch.from_numpy(np.random.default_rng(0).choice(n, classes, replace=False))
    p = (1 - NEAR_FIRST) * overall.repeat(1, classes)
    for column in spots:
        p[column[first], torch.arange(classes)] += NEAR_FIRST
    shares = torch.full((classes,), 1 / classes)
    for _ in range(CLASS_STEPS):
        logs, of_classes = p.log(), shares.log().repeat(n, 1)
        for column in spots:
            of_classes += logs[column]
        of_classes = torch.softmax(of_classes, dim=1) * of_rows
        counts = torch.zeros_like(p)
        for column in spots:
            counts.index_add_(0, column, of_classes)
        mass = of_classes.sum(dim=0)
        p, shares = (counts + overall) / (mass + 1), (mass + LEAST_WEIGHT) / (n + LEAST_WEIGHT)
    return p.T.contiguous(), shares / shares.sum()


@dataclass(frozen=True, eq=False)
class Posterior:
    """The weighted public rows from which a fit is made where a public table is used.

    Attributes
    ----------
    codes : ndarray, shape (n, columns), int64
        Public rows, neighbours alike.
    weights : ndarray, shape (n,)
        Of sum 1.
    share : float
        Of the public rows in the model; the rest is of their classes and of the mixture.
    classes : Tensor, shape (classes, values of all columns)
        Probabilities of the values in each latent class of the weighted rows.
    class_shares : Tensor, shape (classes,)
        Of sum 1.
    clarity : float
        The mixture's part of the rest, from 0 to 1.
    counts : list of Measured
        What the mixture is fitted to.
    resolution : Resolution
        The groups of these.
    drift : float
    """

    codes: np.ndarray
    weights: np.ndarray
    share: float
    classes: Tensor
    class_shares: Tensor
    clarity: float
    counts: list[Measured]
    resolution: Resolution
    drift: float

    def with_rows(self, mixture: Mixture) -> Mixture:
        """Return a mixture of the public rows, their classes and the components of another."""
        components, remaining = mixture.probabilities[: None if self.clarity else 0], 1 - self.share
        rows = torch.from_numpy(self.codes).to(components.device)
        of_rows = torch.from_numpy(self.share * self.weights).float()
        of_classes = remaining * (1 - self.clarity) * self.class_shares
        component_shares = torch.full(
            (len(components),), remaining * self.clarity / max(1, len(components))
        )
        out = Mixture(mixture.layout, len(self.classes) + len(components), rows=rows).to(
            components.device
        )
        shares = torch.cat([of_rows, of_classes, component_shares])
        return out.set(torch.cat([self.classes.to(components.device), components]), shares)


def stated_use(prior: Posterior | None, followed: bool) -> JsonObject:
    """Return what a certificate says of the use of a public table: a function of it and of noisy counts."""
    budget = "follows the public table" if followed else "as without a public table"
    if prior is None:
        return {"use": "none: its counts are too far from the noisy ones", "budget": budget}
    return {
        "use": "prior of all counts",
        "budget": budget,
        "drift": prior.drift,
        "share_of_rows": prior.share,
        "share_of_mixture": (1 - prior.share) * prior.clarity,
    }


def with_public(
    public: np.ndarray, domain: Domain, measured: Measurements, config: MargNetConfig
) -> Posterior | None:
    """Return the posterior of a table of public codes and noisy counts; None where the table is too far from these.

    Of more than ``MAX_PUBLIC`` public rows, so many are used, the same in each fit.
    """
    codes = public_rows(public)
    codes = codes[in_order(codes)]
    shares = [
        np.bincount(c, minlength=n) / len(c) for c, n in zip(codes.T, domain.sizes, strict=True)
    ]
    fine = [
        groups_of(column, share, PRIOR_GROUP, 1.0, MAX_GROUP)
        for column, share in zip(domain.columns, shares, strict=True)
    ]
    pairs = pairs_within(fine, config.max_cells, config.max_width)
    return posterior(codes, measured, pairs, fine, config)


def posterior(
    codes: np.ndarray,
    measured: Measurements,
    pairs: Sequence[Columns],
    fine: Groups,
    config: MargNetConfig,
) -> Posterior | None:
    """Return the posterior of a public table and noisy counts; None where the table is too far from these to be of use.

    Parameters
    ----------
    codes : ndarray, shape (n, columns), int
        The public table, rows in the order of :func:`in_order`.
    measured : Measurements
    pairs : sequence of (int, int)
        The pairs that the mixture is fitted to, measured or not.
    fine : Groups
        Their groups, as the public table allows.
    config : MargNetConfig
    """
    prior, resolution = PriorCounts(codes, measured), measured.resolution
    drift, other = prior.drift(), prior.drift_of_fit(config)
    if drift > config.largest_drift * other:
        return None
    weights = prior.weights(drift, PRIOR_STEPS)
    by = Resolution(resolution.values, common_groups(fine, resolution.pairs), resolution.triples)
    measured_sets = {m.columns: m for m in measured.counts}
    sets = [columns for columns in measured_sets if len(columns) != 2]
    counts = [
        _target(
            codes,
            weights * measured.rows,
            columns,
            by,
            resolution,
            measured_sets.get(columns),
            drift,
        )
        for columns in [*sets, *pairs]
    ]
    sizes = [len(values) for values in resolution.values]
    classes = latent_classes(codes, weights, sizes, PRIOR_CLASSES)
    clarity = prior.clarity(drift)
    return Posterior(codes, weights, config.prior_share, *classes, clarity, counts, by, drift)


def _target(
    codes: np.ndarray,
    weights: np.ndarray,
    columns: Columns,
    by: Resolution,
    resolution: Resolution,
    noisy: Measured | None,
    drift: float,
) -> Measured:
    """Return the posterior counts of a set of columns, with the standard deviation of their error."""
    groups, coarse = by.of(columns), resolution.of(columns)
    sizes = tuple(number_of(groups[j]) for j in columns)
    counts = np.bincount(cells_in(codes, columns, groups), weights, math.prod(sizes))
    variance = drift * float(counts.mean())
    if noisy is not None:
        within = np.indices(sizes).reshape(len(columns), -1)
        parents = []
        for j, at in zip(columns, within, strict=True):
            parent = np.zeros(number_of(groups[j]), dtype=np.int64)
            parent[groups[j]] = coarse[j]
            parents.append(parent[at])
        cell = np.ravel_multi_index(parents, noisy.counts.shape)
        sums = np.bincount(cell, counts, noisy.counts.size)
        moved = np.clip(sums + given_back(noisy, sums), 0, None)
        evenly = moved / np.bincount(cell, minlength=noisy.counts.size)
        ratio = np.divide(moved, sums, out=np.ones_like(sums), where=sums > 0)
        counts = np.where(sums[cell] > 0, counts * ratio[cell], evenly[cell])
        noise = noisy.std**2 * noisy.counts.size / counts.size
        variance = variance * noise / (variance + noise) if noise else 0.0
    return Measured(columns, counts.reshape(sizes), math.sqrt(variance))


def given_back(noisy: Measured, expected: np.ndarray) -> np.ndarray:
    """Return what is added to expected counts to come nearer to noisy ones: nothing where noise explains their distance.

    The estimator of James and Stein (1961), its positive part.
    """
    distance = noisy.counts.ravel() - expected
    excess = np.square(distance).sum() - noisy.counts.size * noisy.std**2
    return distance * max(0.0, excess) / max(float(np.square(distance).sum()), LEAST_STD**2)
