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

NOTE[DIFF] PMW^Pub (Liu et al. 2021, "Leveraging Public Data for Practical Private Query Release") weights public rows by
multiplicative weights, query by query, with public support alone. Here all noisy counts are taken at once, with their noise and the
drift, and the mixture has the combinations that no public row has.
NOTE[DIFF] JAM-PGM (Fuentes et al. 2024, arXiv:2403.07797) chooses in each round between a public and a noisy marginal, by a score
of private rows, whose sensitivity was wrong (arXiv:2602.17454). Here no score reads private rows: each count is noisy, and
public counts join it by their weight in the posterior.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
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
Columns = tuple[int, ...]


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
        scale, total, weights = self.rows / len(self.codes), 0.0, LEAST_WEIGHT
        for m in self.joint:
            expected = np.bincount(self.cells(m), minlength=m.counts.size) * scale
            drawn = self.rows - np.square(expected).sum() / self.rows  # the sum of c · (1 - c/n)
            variance = max(m.std, LEAST_STD) ** 2
            excess = np.square(m.counts.ravel() - expected).sum() - m.counts.size * variance
            spread = 2 * m.counts.size * variance**2 + 4 * variance * drawn
            # Of estimates excess/drawn with variances spread/drawn², the mean by precision.
            total, weights = total + drawn * excess / spread, weights + drawn**2 / spread
        return float(total / weights), float(1 / math.sqrt(weights))

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

        from scipy.optimize import minimize

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


def stated_use(prior: Posterior | None) -> JsonObject:
    """Return what a certificate says of the use of a public table: a function of it and of noisy counts."""
    if prior is None:
        return {"use": "none: its counts are too far from the noisy ones"}
    return {
        "use": "prior of all counts",
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
