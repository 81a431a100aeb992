"""A public table as a prior of all counts: its rows are weighted again by what the noisy counts show.

The expected number of private rows like a public row is taken to be independent of that of others, with a variance that is
proportional to its mean. Then a count c that the public table expects has an error of variance φ · c, in every set of columns.
The drift φ is estimated from the noisy counts by the method of moments. The noise is known, so the squared distance of noisy
counts from expected ones, less the noise, is that of the prior. Public rows are then weighted so that their counts come near to
the noisy ones, at the least change of their weights: a calibration (Deville, Särndal 1992), penalised by the noise (empirical
Bayes). The weighted rows are the posterior of all sets of columns, whether they were measured or not.

Set by set, what the weighted rows cannot explain is given back: counts move towards the noisy ones by the estimator of James and
Stein (1961). A mixture is fitted to these counts, and the model is part weighted rows and part mixture. A prior that is
further from the noisy counts than a fit without it would be is not used at all.

All of it is a function of the public table and of noisy counts: it costs no privacy.

NOTE[DIFF] PMW^Pub (Liu et al. 2021, "Leveraging Public Data for Practical Private Query Release") weights public rows by
multiplicative weights, query by query, with public support alone. Here all noisy counts are taken at once, with their noise and the
drift, and the mixture has the combinations that no public row has.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from scipy.optimize import minimize

from tabsynth.privacy.noise.counts import Groups, Measured, number_of
from tabsynth.synthesizers.margnet.config import MargNetConfig
from tabsynth.synthesizers.margnet.measurement import Domain, Measurements
from tabsynth.synthesizers.margnet.selection import Resolution, groups_of, pairs_within
from tabsynth.synthesizers.mixture import Mixture

LEAST_STD = 0.1  # in counts: what exact counts are weighed by
LEAST_WEIGHT = 1e-9  # of all sets in the drift: those of one value say nothing
LARGEST_CHANGE = 30.0  # of the logarithm of a weight
SMALLEST_LEAF = 2  # rows that are not ordered further
Columns = tuple[int, ...]


def in_order(codes: np.ndarray) -> np.ndarray:
    """An order of rows in which neighbours are alike, shape (n,).

    Rows are halved again and again, by the value of the column that varies most among them.
    """
    out, stack = list[np.ndarray](), [np.arange(len(codes))]
    while stack:
        rows = stack.pop()
        split = _halved(codes[rows]) if len(rows) > SMALLEST_LEAF else None
        if split is None:
            out.append(rows)
        else:
            stack += [rows[~split], rows[split]]
    return np.concatenate(out)


def _halved(codes: np.ndarray) -> np.ndarray | None:
    """Which rows are in the first of two parts, bool (n,); None where all are equal."""
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
    measured : sequence of Measured
        Noisy counts.
    resolution : Resolution
        The groups that these are of.
    rows : float
        A public or privatised number of private rows.
    """

    codes: np.ndarray
    measured: Sequence[Measured]
    resolution: Resolution
    rows: float

    @property
    def joint(self) -> Sequence[Measured]:
        """Counts of pairs and triples, or of columns where there are no others."""
        return [m for m in self.measured if len(m.columns) > 1] or self.measured

    def cells(self, m: Measured) -> np.ndarray:
        """The cell of each public row in the counts of a set, shape (n,)."""
        return cells_in(self.codes, m.columns, self.resolution.of(m.columns))

    def drift(self) -> float:
        """φ: the excess squared distance of noisy counts from the public ones, over what a draw of the rows makes.

        Joint sets count by their precision, single columns where there are no others. It is at least what the draw of the public rows alone makes.
        """
        least = self.rows / len(self.codes)
        total, weights = 0.0, LEAST_WEIGHT
        for m in self.joint:
            expected = np.bincount(self.cells(m), minlength=m.counts.size) * least
            variance = max(m.std, LEAST_STD) ** 2
            excess = np.square(m.counts.ravel() - expected).sum() - m.counts.size * variance
            drawn = self.rows - np.square(expected).sum() / self.rows  # the sum of c · (1 - c/n)
            spread = 2 * m.counts.size * variance**2 + 4 * variance * drawn
            # Of estimates excess/drawn with variances spread/drawn², the mean by precision.
            total, weights = total + drawn * excess / spread, weights + drawn**2 / spread
        return float(max(least, total / weights))

    def drift_of_fit(self, config: MargNetConfig) -> float:
        """The same of a fit without the prior: that of a mixture, and what it leaves of the noise."""
        sets = [m for m in self.joint if len(m.columns) == 2] or self.joint
        noise = float(np.mean([m.counts.size * m.std**2 for m in sets]))
        return config.mixture_drift + config.residual_noise**2 * noise / self.rows

    def weights(self, drift: float, steps: int) -> np.ndarray:
        """Weights of the public rows, shape (n,), of sum 1: their posterior mode.

        The dual of a strictly convex problem: of each noisy count the price of its error, at no more than ``steps`` steps.
        """
        start = self.rows / len(self.codes)
        sizes = [m.counts.size for m in self.measured]
        cells = [self.cells(m) for m in self.measured]
        spots = [c + at for c, at in zip(cells, np.cumsum([0, *sizes[:-1]]), strict=True)]
        counts = np.concatenate([m.counts.ravel() for m in self.measured])
        std = np.repeat([max(m.std, LEAST_STD) for m in self.measured], sizes)

        def weighted(prices: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
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
            w, expected = weighted(prices)
            value = w.sum() / drift + prices @ counts + np.square(prices * std).sum() / 2
            return value, unit * (counts - expected + prices * std**2)

        found = minimize(
            dual,
            np.zeros(len(counts)),
            jac=True,
            method="L-BFGS-B",
            options={"maxiter": steps, "maxcor": 20},
        )
        w, _ = weighted(found.x * unit)
        return w / w.sum()


def cells_in(codes: np.ndarray, columns: Columns, groups: Groups) -> np.ndarray:
    """The number of the cell of each row in the counts of a set of columns, shape (n,)."""
    sizes = [number_of(groups[j]) for j in columns]
    return np.ravel_multi_index([groups[j][codes[:, j]] for j in columns], sizes)


def refined(one: Groups, other: Groups) -> Groups:
    """Of each column the coarsest groups that are within those of both."""
    return [
        np.unique(a * number_of(b) + b, return_inverse=True)[1]
        for a, b in zip(one, other, strict=True)
    ]


@dataclass(frozen=True, eq=False)
class Posterior:
    """What a fit is made from where a public table is used.

    Attributes
    ----------
    codes : ndarray, shape (n, columns), int64
        Public rows, neighbours alike.
    weights : ndarray, shape (n,)
        Of sum 1.
    share : float
        Of the public rows in the model; the rest is the mixture's.
    counts : list of Measured
        What the mixture is fitted to.
    resolution : Resolution
        The groups of these.
    drift : float
    """

    codes: np.ndarray
    weights: np.ndarray
    share: float
    counts: list[Measured]
    resolution: Resolution
    drift: float

    def with_rows(self, mixture: Mixture) -> Mixture:
        """A mixture of the public rows and the components of another."""
        components = len(mixture.probabilities)
        others = np.full(components, (1 - self.share) / components)
        shares = np.concatenate([self.share * self.weights, others])
        rows = torch.from_numpy(self.codes).to(mixture.probabilities.device)
        out = Mixture(mixture.layout, components, rows=rows).to(rows.device)
        return out.set(mixture.probabilities, torch.from_numpy(shares).float())


def used(prior: Posterior | None) -> dict[str, Any]:
    """What a certificate says of the use of a public table: a function of it and of noisy counts."""
    if prior is None:
        return {"use": "none: its counts are too far from the noisy ones"}
    return {"use": "prior of all counts", "drift": prior.drift, "share_of_rows": prior.share}


def with_public(
    public: np.ndarray, domain: Domain, measured: Measurements, config: MargNetConfig
) -> Posterior | None:
    """The posterior of a table of public codes and noisy counts; None where the table is too far from these.

    Of more than ``config.max_public`` public rows, so many are used, the same in each fit.
    """
    codes = np.asarray(public, dtype=np.int64)
    if len(codes) > config.max_public:
        some = np.random.default_rng(0).permutation(len(codes))[: config.max_public]
        codes = codes[some]
    codes = codes[in_order(codes)]
    shares = [
        np.bincount(c, minlength=n) / len(c) for c, n in zip(codes.T, domain.sizes, strict=True)
    ]
    fine = [
        groups_of(column, share, config.prior_group, 1.0, config.max_group)
        for column, share in zip(domain.columns, shares, strict=True)
    ]
    pairs = pairs_within(fine, config.max_cells, config.max_width)
    counts, rows = measured.counts, measured.rows
    return posterior(codes, counts, rows, measured.resolution, pairs, fine, config)


def posterior(
    codes: np.ndarray,
    measured: Sequence[Measured],
    rows: float,
    resolution: Resolution,
    pairs: Sequence[Columns],
    fine: Groups,
    config: MargNetConfig,
) -> Posterior | None:
    """The posterior of a public table and noisy counts; None where the table is too far from these to be of use.

    Parameters
    ----------
    codes : ndarray, shape (n, columns), int
        The public table, rows in the order of :func:`in_order`.
    measured : sequence of Measured
    rows : float
    resolution : Resolution
        Groups of ``measured``.
    pairs : sequence of (int, int)
        The pairs that the mixture is fitted to, measured or not.
    fine : Groups
        Their groups, as the public table allows.
    config : MargNetConfig
    """
    prior = PriorCounts(codes, measured, resolution, rows)
    drift, other = prior.drift(), prior.drift_of_fit(config)
    if drift > config.largest_drift * other:
        return None
    weights = prior.weights(drift, config.prior_steps)
    by = Resolution(resolution.values, refined(fine, resolution.pairs), resolution.triples)
    known = {m.columns: m for m in measured}
    sets = [m.columns for m in measured if len(m.columns) != 2]
    counts = [
        _target(codes, weights * rows, columns, by, resolution, known.get(columns), drift)
        for columns in [*sets, *pairs]
    ]
    share = config.prior_share * min(1.0, other / drift)
    return Posterior(codes, weights, share, counts, by, drift)


def _target(
    codes: np.ndarray,
    weights: np.ndarray,
    columns: Columns,
    by: Resolution,
    resolution: Resolution,
    noisy: Measured | None,
    drift: float,
) -> Measured:
    """The posterior counts of a set of columns, with the standard deviation of their error."""
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
    """What is added to expected counts to come nearer to noisy ones: nothing where noise explains their distance.

    The estimator of James and Stein (1961), its positive part.
    """
    distance = noisy.counts.ravel() - expected
    excess = np.square(distance).sum() - noisy.counts.size * noisy.std**2
    return distance * max(0.0, excess) / max(float(np.square(distance).sum()), LEAST_STD**2)
