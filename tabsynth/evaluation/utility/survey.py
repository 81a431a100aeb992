"""Estimates of a population with the intervals of the survey's design, and whether the synthetic ones are within.

A survey's rows are drawn with unequal probabilities, in strata and in clusters. Intervals that treat them as drawn
simply are then wrong. Two standard estimators of the variance are here:

* Taylor linearisation (Binder 1983; Särndal, Swensson & Wretman 1992, chapter 5): the weighted estimate is linearised,
  and the totals of the primary clusters within each stratum vary as if clusters were drawn with replacement. There is
  no finite population correction, so intervals are a little too wide where much of a stratum was drawn.
* Replicate weights (Wolter 2007, "Introduction to Variance Estimation"): the estimate is computed again with each
  column of weights, and the variance is a factor times the sum of squared differences from the estimate of all rows.
  The factor is 4/R for the successive difference replication of the American Community Survey, which has R = 80 (U.S.
  Census Bureau, "PUMS Accuracy of the Data"), 1/R for balanced repeated replication, 1/(R (1 − ρ)²) for Fay's variant,
  and (R − 1)/R for the jackknife that leaves out one of R clusters.

NOTE[DIFF]: the Census Bureau and R's ``survey`` take intervals from the normal distribution. Here they are by Student's
t, with the number of clusters less that of strata as degrees of freedom, or that of replicates less one. With few
clusters these are wider, with many they are equal.
"""

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Protocol

import numpy as np
from scipy import sparse, stats

from tabsynth.evaluation.definitions import Definition
from tabsynth.evaluation.metric import SHOWN_PARTS, Compared, Metric, Tables, worst_first
from tabsynth.evaluation.results import Estimate, SurveyEstimate, SurveyEstimates, mean_of_shares
from tabsynth.evaluation.utility.marginals import column_sets
from tabsynth.evaluation.utility.totals import population_scales
from tabsynth.evaluation.weighting import WeightedRows

LEAST_ROWS = 30  # training rows of a share that is judged: of fewer, no interval is reliable
MAX_PAIRS = 300  # of columns; of more, so many drawn at random
LISTED = 500  # estimates of a kind in the result
KINDS = {
    "share": "shares of values",
    "pair": "shares of pairs of values",
    "number": "means and totals",
}
WITHIN = Definition(
    name="Survey estimates within the interval",
    keys=("survey_share", "survey_pair", "survey_number"),
    meaning="Share of the synthetic estimates that lie within the 95% interval of the training table's weighted estimate."
    " The estimates are shares of values, shares of pairs of values, or means and totals of numbers.",
    range="0 to 1",
    better="higher",
    best=1.0,
    reference="Best is 1; of an independent sample as large, about 0.83 would lie within.",
    interval="The choice of estimates, as if they were independent; no drawing of rows",
    caveat="Shares of fewer than 30 training rows are not judged. The intervals say nothing about the uncertainty of"
    " synthetic estimates.",
    source="Binder 1983; Wolter 2007, Introduction to Variance Estimation",
)


class Design(Protocol):
    """The estimates of a population, and their standard errors, from the rows of a survey.

    Attributes
    ----------
    method : str
        How standard errors are estimated, in words.
    degrees : int
        Degrees of freedom.
    """

    method: str
    degrees: int

    def shares(self, places: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray]:
        """Return shares and their errors, shape (size,) each; ``places``, shape (rows,), is −1 for none of them."""

    def mean(self, numbers: np.ndarray) -> tuple[float, float]:
        """Return the mean of numbers, shape (rows,), over the rows that are not NaN, and its error."""

    def total(self, numbers: np.ndarray) -> tuple[float, float]:
        """Return the sum of numbers, shape (rows,), without NaN, and its error."""


class Linearised:
    """Variances by linearisation; a :class:`Design`.

    Parameters
    ----------
    weights : ndarray, shape (rows,)
    strata : ndarray, shape (rows,), int64, optional
        The stratum of each row, numbered from 0. Default: one stratum.
    clusters : ndarray, shape (rows,), int64, optional
        The primary cluster of each row, numbered from 0; each is in one stratum. Default: each row is a cluster.
    """

    def __init__(
        self,
        weights: np.ndarray,
        strata: np.ndarray | None = None,
        clusters: np.ndarray | None = None,
    ) -> None:
        self.weights = weights
        rows = len(weights)
        self._cluster = np.arange(rows) if clusters is None else clusters
        of_rows = np.zeros(rows, dtype=np.int64) if strata is None else strata
        self._stratum = of_rows[np.unique(self._cluster, return_index=True)[1]]
        self._sizes = np.bincount(self._stratum)
        count, groups = len(self._stratum), len(self._sizes)
        self._members = sparse.csr_matrix(
            (np.ones(count), (self._stratum, np.arange(count))), shape=(groups, count)
        )
        self.degrees = count - groups
        names = ["rows" if clusters is None else f"{count:,} clusters"]
        names += [] if strata is None else [f"{groups:,} strata"]
        self.method = f"Taylor linearisation of {' in '.join(names)}, drawn with replacement"

    def shares(self, places: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray]:
        """Return shares and their errors, shape (size,) each; ``places``, shape (rows,), is −1 for none of them."""
        total, used = self.weights.sum(), places >= 0
        sums = sparse.csr_matrix(
            (self.weights[used], (self._cluster[used], places[used])),
            shape=(len(self._stratum), size),
        )
        share = np.asarray(sums.sum(axis=0)).ravel() / total
        of_clusters = np.bincount(self._cluster, self.weights, minlength=len(self._stratum))
        # Of a cluster: (its sum − share × its weights) / total, squared and added up within each stratum.
        squares = self._members @ sums.multiply(sums)
        products = self._members @ sums.multiply(of_clusters[:, None])
        within = squares.toarray() - 2 * share * products.toarray()
        within += share**2 * (self._members @ of_clusters**2)[:, None]
        totals = (self._members @ sums).toarray() - share * (self._members @ of_clusters)[:, None]
        return share, self._error(within, totals) / total

    def mean(self, numbers: np.ndarray) -> tuple[float, float]:
        """Return the mean of numbers, shape (rows,), over the rows that are not NaN, and its error."""
        finite = np.isfinite(numbers)
        weight = np.where(finite, self.weights, 0.0)
        if weight.sum() <= 0:
            return math.nan, math.nan
        mean = float(weight @ np.where(finite, numbers, 0.0) / weight.sum())
        return mean, self._of_rows(weight * np.where(finite, numbers - mean, 0.0)) / weight.sum()

    def total(self, numbers: np.ndarray) -> tuple[float, float]:
        """Return the sum of numbers, shape (rows,), without NaN, and its error."""
        values = self.weights * np.nan_to_num(numbers)
        return float(values.sum()), self._of_rows(values)

    def _of_rows(self, values: np.ndarray) -> float:
        """Return the error of the sum of values, shape (rows,)."""
        sums = np.bincount(self._cluster, values, minlength=len(self._stratum))
        within, totals = self._members @ sums**2, self._members @ sums
        return float(self._error(within[:, None], totals[:, None])[0])

    def _error(self, squares: np.ndarray, sums: np.ndarray) -> np.ndarray:
        """Return errors from sums of squares and sums over the clusters of each stratum, shape (strata, estimates)."""
        sizes = self._sizes[:, None]
        variances = sizes / (sizes - 1) * np.maximum(squares - sums**2 / sizes, 0)
        return np.asarray(np.sqrt(variances.sum(axis=0)))


class Replicated:
    """Variances by replicate weights; a :class:`Design`.

    Parameters
    ----------
    weights : ndarray, shape (rows,)
    replicates : ndarray, shape (rows, replicates)
        They may be negative; the sum of each replicate is above 0.
    factor : float, optional
        Of the sum of squared differences. Default: 4 over the number of replicates, for successive difference
        replication.
    """

    def __init__(
        self, weights: np.ndarray, replicates: np.ndarray, factor: float | None = None
    ) -> None:
        self.weights = weights
        # All rows first, as if they were another replicate.
        self._all = np.column_stack([weights, replicates])
        count = replicates.shape[1]
        self.factor = 4 / count if factor is None else factor
        self.degrees = count - 1
        kind = "successive difference replication" if factor is None else "replication"
        self.method = f"{kind} with {count} replicate weights and the factor {self.factor:.6g}"

    def shares(self, places: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray]:
        """Return shares and their errors, shape (size,) each; ``places``, shape (rows,), is −1 for none of them."""
        used = np.flatnonzero(places >= 0)
        member = sparse.csr_matrix(
            (np.ones(len(used)), (places[used], used)), shape=(size, len(places))
        )
        values = member @ self._all / self._all.sum(axis=0)
        return values[:, 0], self._error(values)

    def mean(self, numbers: np.ndarray) -> tuple[float, float]:
        """Return the mean of numbers, shape (rows,), over the rows that are not NaN, and its error."""
        finite = np.isfinite(numbers)
        below = self._all[finite].sum(axis=0)
        if below[0] <= 0:
            return math.nan, math.nan
        with np.errstate(divide="ignore", invalid="ignore"):
            values = numbers[finite] @ self._all[finite] / below
        return float(values[0]), float(self._error(values[None])[0])

    def total(self, numbers: np.ndarray) -> tuple[float, float]:
        """Return the sum of numbers, shape (rows,), without NaN, and its error."""
        values = np.nan_to_num(numbers) @ self._all
        return float(values[0]), float(self._error(values[None])[0])

    def _error(self, values: np.ndarray) -> np.ndarray:
        """Return errors of estimates, shape (estimates, 1 + replicates)."""
        squares = np.square(values[:, 1:] - values[:, :1]).sum(axis=1)
        return np.asarray(np.sqrt(self.factor * squares))


@dataclass(frozen=True)
class _Group:
    """Estimates of one column, pair or number, and their values in the tables that are compared; shape (estimates,)."""

    name: str
    estimates: tuple[SurveyEstimate, ...]
    values: Compared[np.ndarray]
    too_few: int = 0

    @property
    def inside(self) -> Compared[np.ndarray]:
        """The values as 1 within their intervals and 0 outside of them; shape (estimates,)."""
        return self.values.map(
            lambda values: np.array(
                [e.takes(float(x)) for e, x in zip(self.estimates, values, strict=True)], float
            )
        )


def survey_estimates(
    tables: Tables, design: Design, numbers: Sequence[int], *, seed: int = 0
) -> tuple[SurveyEstimates, list[Metric]]:
    """Return estimates with intervals, and the shares of those of other tables that are within.

    Parameters
    ----------
    tables : Tables
        With weights; ``train`` has the rows of the design.
    design : Design
    numbers : sequence of int
        Columns of numbers, of which means and totals are estimated.
    """
    groups = {
        "share": [_shares(tables, design, (j,)) for j in range(len(tables.sizes))],
        "pair": [_shares(tables, design, pair) for pair in _pairs(len(tables.sizes), seed)],
        "number": _numbers(tables, design, numbers),
    }
    listed, judged, inside, too_few, metrics = {}, {}, {}, {}, []
    for kind, parts in groups.items():
        estimates = [estimate for group in parts for estimate in group.estimates]
        judged[kind] = len(estimates)
        inside[kind] = sum(estimate.inside for estimate in estimates)
        too_few[kind] = sum(group.too_few for group in parts)
        estimates.sort(key=lambda estimate: -estimate.errors_away)
        listed[kind] = tuple(estimates[:LISTED])
        if estimates:
            metrics.append(_metric(kind, parts, design))
    result = SurveyEstimates(design.method, design.degrees, listed, judged, inside, too_few)
    return result, metrics


def _pairs(columns: int, seed: int) -> list[tuple[int, ...]]:
    pairs = column_sets(columns, 2, seed) if columns > 1 else []
    if len(pairs) > MAX_PAIRS:
        chosen = np.random.default_rng(seed).choice(len(pairs), MAX_PAIRS, replace=False)
        pairs = [pairs[i] for i in np.sort(chosen)]
    return pairs


def _shares(tables: Tables, design: Design, columns: tuple[int, ...]) -> _Group:
    """Return shares of the cells of one or two columns that have training rows enough."""

    def keys(codes: np.ndarray) -> np.ndarray:
        out = np.zeros(len(codes), dtype=np.int64)
        for j in columns:
            out = out * tables.sizes[j] + codes[:, j]
        return out

    cells, rows = np.unique(keys(tables.train), return_counts=True)
    enough = rows >= LEAST_ROWS
    judged = cells[enough]

    def places(codes: np.ndarray) -> np.ndarray:
        if not len(judged):
            return np.full(len(codes), -1)
        of_rows = keys(codes)
        place = np.searchsorted(judged, of_rows) % len(judged)
        return np.where(judged[place] == of_rows, place, -1)

    def shares_of(table: WeightedRows) -> np.ndarray:
        place = places(table.codes)
        used = place >= 0
        return np.bincount(place[used], table.each[used], len(judged)) / table.each.sum()

    labels = [[f"{tables.names[j]} = {label}" for label in tables.labels[j]] for j in columns]
    cell_names = [", ".join(parts) for parts in itertools.product(*labels)]
    estimates, errors = design.shares(places(tables.train), len(judged))
    values = tables.with_weights.map(shares_of)
    return _Group(
        " × ".join(tables.names[j] for j in columns),
        tuple(
            _with_interval(cell_names[cell], design, estimate, rows_of_cell, value, (0.0, 1.0))
            for cell, *estimate, rows_of_cell, value in zip(
                judged, estimates, errors, rows[enough], values.synthetic, strict=True
            )
        ),
        values,
        int((~enough).sum()),
    )


def _numbers(tables: Tables, design: Design, numbers: Sequence[int]) -> list[_Group]:
    """Return the population, and means and totals of columns of numbers."""
    scales, out = population_scales(tables), []

    def add(
        name: str,
        real: tuple[float, float],
        rows: int,
        value_of: Callable[[WeightedRows, float], float],
        lower_limit: float,
    ) -> None:
        """Add one estimate: ``value_of`` a table and the factor that makes its sums totals of the population."""
        factors = iter(scale for scale in scales if scale is not None)
        values = tables.with_weights.map(lambda table: np.array([value_of(table, next(factors))]))
        limits = (lower_limit, math.inf)
        estimate = _with_interval(name, design, real, rows, values.synthetic[0], limits)
        out.append(_Group(name, (estimate,), values))

    if tables.weights is not None and tables.weights.synthetic is not None:
        count = len(tables.train)
        real = design.total(np.ones(count))
        add("population", real, count, lambda table, scale: scale * table.each.sum(), 0.0)
    for j in numbers:
        scores = tables.scores[j]
        assert scores is not None
        values = scores[tables.train[:, j]]
        rows = int(np.isfinite(values).sum())
        if rows < LEAST_ROWS:
            continue
        lower_limit = 0.0 if np.nanmin(scores) >= 0 else -math.inf
        mean, total = partial(_mean, scores=scores, j=j), partial(_total, scores=scores, j=j)
        add(f"mean of {tables.names[j]}", design.mean(values), rows, mean, lower_limit)
        add(f"total of {tables.names[j]}", design.total(values), rows, total, lower_limit)
    return out


def _mean(table: WeightedRows, scale: float, scores: np.ndarray, j: int) -> float:
    del scale
    numbers = scores[table.codes[:, j]]
    finite = np.isfinite(numbers)
    weight = table.each[finite]
    return float(weight @ numbers[finite] / weight.sum()) if finite.any() else math.nan


def _total(table: WeightedRows, scale: float, scores: np.ndarray, j: int) -> float:
    return float(scale * (table.each @ np.nan_to_num(scores[table.codes[:, j]])))


def _with_interval(
    name: str,
    design: Design,
    estimate: Sequence[float],
    rows: int,
    synthetic: float,
    limits: tuple[float, float],
) -> SurveyEstimate:
    """Return one estimate, given with its error, with the interval of the design."""
    value, error = map(float, estimate)
    half = _quantile(design.degrees) * error
    real = Estimate(value, max(limits[0], value - half), min(limits[1], value + half), int(rows))
    return SurveyEstimate(name, real, error, float(synthetic))


@cache
def _quantile(degrees: int) -> float:
    return float(stats.t.ppf(0.975, degrees))


def _metric(kind: str, groups: Sequence[_Group], design: Design) -> Metric:
    """Return the share of estimates that are within the interval, and of each column, pair or number."""
    judged = [group for group in groups if group.estimates]
    inside = [group.inside for group in judged]
    synthetic, holdout, baseline = (
        None if hits[0] is None else mean_of_shares(np.concatenate(hits))
        for hits in zip(*inside, strict=True)
    )
    assert synthetic is not None
    parts = [
        hits.part(group.name, lambda hit: hit.mean(), len(group.estimates))
        for group, hits in zip(judged, inside, strict=True)
    ]
    return Metric(
        WITHIN,
        synthetic,
        holdout,
        baseline,
        worst_first(parts, "higher", SHOWN_PARTS),
        key=f"survey_{kind}",
        title=f"Survey estimates within the interval: {KINDS[kind]}",
        note=f"The intervals are by {design.method}.",
        of_relations=kind == "pair",
    )
