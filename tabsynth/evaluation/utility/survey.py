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

import math
from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np
from scipy import sparse, stats

from tabsynth.evaluation.definitions import Definition
from tabsynth.evaluation.metric import SHOWN_PARTS, Metric, Part, Tables, worst_first
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
        own = np.bincount(self._cluster, self.weights, minlength=len(self._stratum))
        # Of a cluster: (its sum − share × its weights) / total, squared and added up within each stratum.
        squares = self._members @ sums.multiply(sums)
        products = self._members @ sums.multiply(own[:, None])
        within = squares.toarray() - 2 * share * products.toarray()
        within += share**2 * (self._members @ own**2)[:, None]
        totals = (self._members @ sums).toarray() - share * (self._members @ own)[:, None]
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
        known = np.isfinite(numbers)
        below = self._all[known].sum(axis=0)
        if below[0] <= 0:
            return math.nan, math.nan
        with np.errstate(divide="ignore", invalid="ignore"):
            values = numbers[known] @ self._all[known] / below
        return float(values[0]), float(self._error(values[None])[0])

    def total(self, numbers: np.ndarray) -> tuple[float, float]:
        """Return the sum of numbers, shape (rows,), without NaN, and its error."""
        values = np.nan_to_num(numbers) @ self._all
        return float(values[0]), float(self._error(values[None])[0])

    def _error(self, values: np.ndarray) -> np.ndarray:
        """Return errors of estimates, shape (estimates, 1 + replicates)."""
        squares = np.square(values[:, 1:] - values[:, :1]).sum(axis=1)
        return np.asarray(np.sqrt(self.factor * squares))


class _Group(NamedTuple):
    """Estimates of one column, pair or number, and those of the tables that are compared, in their order."""

    name: str
    estimates: tuple[SurveyEstimate, ...]
    others: tuple[np.ndarray | None, ...]  # synthetic, hold-out, baseline; shape (estimates,)
    too_few: int = 0


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
    judged_cells = cells[enough]

    def places(codes: np.ndarray) -> np.ndarray:
        own = keys(codes)
        place = np.searchsorted(judged_cells, own)
        place[place == len(judged_cells)] = 0
        return (
            np.where(judged_cells[place] == own, place, -1)
            if len(judged_cells)
            else np.full(len(own), -1)
        )

    def of_other(table: WeightedRows) -> np.ndarray:
        place = places(table.codes)
        return (
            np.bincount(place[place >= 0], table.each[place >= 0], len(judged_cells))
            / table.each.sum()
        )

    names = []
    for cell in judged_cells.tolist():
        parts = []
        for j in reversed(columns):
            cell, code = divmod(cell, tables.sizes[j])
            parts.append(f"{tables.names[j]} = {tables.labels[j][code]}")
        names.append(", ".join(reversed(parts)))
    values, errors = design.shares(places(tables.train), len(judged_cells))
    others = tuple(None if t is None else of_other(t) for t in tables.weighted)
    estimates = _with_intervals(names, values, errors, rows[enough], others[0], design, (0.0, 1.0))
    name = " × ".join(tables.names[j] for j in columns)
    return _Group(name, estimates, others, int((~enough).sum()))


def _numbers(tables: Tables, design: Design, numbers: Sequence[int]) -> list[_Group]:
    """Return the population, and means and totals of columns of numbers."""
    scales = population_scales(tables)
    out = []
    tables_given = [tables.weighted.synthetic, tables.weighted.holdout, tables.weighted.baseline]

    def others(of_table) -> tuple[np.ndarray | None, ...]:  # type: ignore[no-untyped-def]
        return tuple(
            None if t is None else np.array([of_table(t, scale)])
            for t, scale in zip(tables_given, scales, strict=True)
        )

    def group(name: str, real: tuple[float, float], rows: int, given, low: float) -> None:  # type: ignore[no-untyped-def]
        arrays = (np.array([part]) for part in (*real, rows))
        value, error, count = arrays
        limits = (low, math.inf)
        out.append(
            _Group(
                name, _with_intervals([name], value, error, count, given[0], design, limits), given
            )
        )

    if tables.weights is not None and tables.weights.synthetic is not None:
        real = design.total(np.ones(len(tables.train)))
        given = others(lambda t, scale: scale * t.each.sum())
        group("population", real, len(tables.train), given, 0.0)
    for j in numbers:
        scores = tables.scores[j]
        assert scores is not None
        values = scores[tables.train[:, j]]
        rows = int(np.isfinite(values).sum())
        if rows < LEAST_ROWS:
            continue
        least = 0.0 if np.nanmin(scores) >= 0 else -math.inf

        def mean(t: WeightedRows, scale: float, scores: np.ndarray = scores, j: int = j) -> float:
            del scale
            own = scores[t.codes[:, j]]
            known = np.isfinite(own)
            weight = t.each[known]
            return float(weight @ own[known] / weight.sum()) if known.any() else math.nan

        def total(t: WeightedRows, scale: float, scores: np.ndarray = scores, j: int = j) -> float:
            return float(scale * (t.each @ np.nan_to_num(scores[t.codes[:, j]])))

        group(f"mean of {tables.names[j]}", design.mean(values), rows, others(mean), least)
        group(f"total of {tables.names[j]}", design.total(values), rows, others(total), least)
    return out


def _with_intervals(
    names: Sequence[str],
    values: np.ndarray,
    errors: np.ndarray,
    rows: np.ndarray,
    synthetic: np.ndarray | None,
    design: Design,
    limits: tuple[float, float],
) -> tuple[SurveyEstimate, ...]:
    quantile = float(stats.t.ppf(0.975, design.degrees))
    assert synthetic is not None
    out = []
    for name, value, error, n, other in zip(names, values, errors, rows, synthetic, strict=True):
        ends = (max(limits[0], value - quantile * error), min(limits[1], value + quantile * error))
        real = Estimate(float(value), float(ends[0]), float(ends[1]), int(n))
        out.append(SurveyEstimate(name, real, float(error), float(other)))
    return tuple(out)


def _metric(kind: str, groups: Sequence[_Group], design: Design) -> Metric:
    """Return the share of estimates that are within the interval, and of each column, pair or number."""

    def within(group: _Group, table: int) -> np.ndarray:
        others = group.others[table]
        assert others is not None
        return np.array(
            [estimate.takes(float(x)) for estimate, x in zip(group.estimates, others, strict=True)],
            dtype=float,
        )

    judged = [group for group in groups if group.estimates]

    def share(table: int) -> Estimate | None:
        if judged[0].others[table] is None:
            return None
        return mean_of_shares(np.concatenate([within(group, table) for group in judged]))

    parts = []
    for group in judged:
        figures = [
            None if group.others[table] is None else float(within(group, table).mean())
            for table in range(3)
        ]
        assert figures[0] is not None
        parts.append(Part(group.name, figures[0], figures[1], figures[2], len(group.estimates)))
    synthetic = share(0)
    assert synthetic is not None
    return Metric(
        WITHIN,
        synthetic,
        share(1),
        share(2),
        worst_first(parts, "higher", SHOWN_PARTS),
        key=f"survey_{kind}",
        title=f"Survey estimates within the interval: {KINDS[kind]}",
        note=f"The intervals are by {design.method}.",
        of_relations=kind == "pair",
    )
