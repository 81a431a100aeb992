"""The results of metrics: frozen values with their intervals, and their JSON form."""

import math
from dataclasses import dataclass, fields, is_dataclass

import numpy as np

from tabsynth._files import json_ready
from tabsynth._shown import Shown
from tabsynth._typing import JsonObject

Z95 = 1.959963984540054
# A picture shows a part of an axis if so few of the training and of the synthetic rows are outside of it, and if it is
# so much shorter.
OUTSIDE, SHORTER = (0.01, 0.05), 0.6
# A hold-out is suspicious if so much more of its rows than by chance are rows of the training table: a share of the
# rows, and a number of standard errors. It was taken out of that table if all are, which by chance is so improbable.
KNOWN_SHARE, SURE, IMPOSSIBLE = 0.05, 4.0, 1e-6


class Result(Shown):
    """Base of the result dataclasses: ``to_dict`` for JSON."""

    def to_dict(self) -> JsonObject:
        """Return plain dicts, lists, numbers and texts; no NaN: what is not a number becomes None."""
        assert is_dataclass(self)
        return {field.name: json_ready(getattr(self, field.name)) for field in fields(self)}


@dataclass(frozen=True)
class Estimate(Result):
    """A number with its 95% interval.

    Attributes
    ----------
    value, low, high : float
        The number and the ends of its interval.
    n : int
        How many units (rows, records) it was computed from.
    """

    value: float
    low: float
    high: float
    n: int

    def _repr_lines(self) -> list[str]:
        return [f"Estimate({self.value:.4g}, 95%: {self.low:.4g} to {self.high:.4g}, n={self.n})"]


@dataclass(frozen=True)
class F1(Result):
    """F1 scores of one classifier, or ratios or differences of two: weighted by class, and macro."""

    weighted: Estimate
    macro: Estimate


@dataclass(frozen=True)
class ColumnPrediction(Result):
    """Dimension-wise prediction of one column (or the mean over columns).

    Attributes
    ----------
    column : str
    classes : int
        Number of values that the column can take, null included.
    train, synthetic, baseline : F1
        Classifier fitted on the training table, the synthetic table, and independent columns (mean over
        several shuffles).
    ratio : F1
        synthetic / train.
    gain : F1
        synthetic − baseline; its interval allows for the chance of the shuffles.
    """

    column: str
    classes: int
    train: F1
    synthetic: F1
    baseline: F1
    ratio: F1
    gain: F1


@dataclass(frozen=True)
class Prediction(Result):
    """Dimension-wise prediction of every column.

    ``seen`` says that the test rows are not a hold-out but rows the synthesizer was fitted on.
    """

    columns: tuple[ColumnPrediction, ...]
    mean: ColumnPrediction
    test_rows: int
    seen: bool


@dataclass(frozen=True)
class Cell(Result):
    """Attribute disclosure with s unknown attributes and k neighbours.

    Attributes
    ----------
    target : Estimate
        Share of unknown attributes of training records that were guessed right.
    control : Estimate or None
        The same for records that the synthesizer never saw.
    leakage : Estimate or None
        target − control.
    exposed : Estimate
        As target, for an attacker who holds the training table itself: nothing could disclose more.
        NaN where this was not tried.
    """

    s: int
    k: int
    target: Estimate
    control: Estimate | None
    leakage: Estimate | None
    exposed: Estimate

    @property
    def leaks(self) -> bool:
        """True if training records are guessed better than control records, beyond the 95% interval."""
        return self.leakage is not None and self.leakage.low > 0


@dataclass(frozen=True)
class Disclosure(Result):
    """Attribute disclosure over the grid of s and k.

    Attributes
    ----------
    cells : tuple of Cell
        For every s in 1…d−1 and every k; empty for a table of one column.
    mean : Cell or None
        The mean over the grid of each record (s = k = 0).
    guess : float
        Share of right guesses of whoever always names each column's commonest synthetic value.
    targets, controls : int
        Number of records in each group.
    """

    cells: tuple[Cell, ...]
    mean: Cell | None
    guess: float
    targets: int
    controls: int


@dataclass(frozen=True)
class Reconstruction(Result):
    """Attribute reconstruction from a few known columns; scores are balanced accuracies, means over the guessed columns.

    Attributes
    ----------
    known : tuple of str
        The columns that the attacker knows.
    members, controls : float
        Scores of training people and of people who are in no table.
    majority : float
        Score of whoever always names the commonest value.
    memorizing : Estimate
        The difference that the training table itself shows in the place of the synthetic one.
    """

    known: tuple[str, ...]
    members: float
    controls: float
    majority: float
    memorizing: Estimate


@dataclass(frozen=True)
class Marginal(Result):
    """Total variation distance of one marginal, in [0, 1]."""

    columns: tuple[str, ...]
    value: float


@dataclass(frozen=True)
class Distance(Result):
    """Mean total variation distance of the marginals of one order, and each of them."""

    mean: Estimate
    marginals: tuple[Marginal, ...]

    def furthest(self, limit: int) -> tuple[Marginal, ...]:
        """Return at most so many of the marginals, the furthest apart first."""
        return tuple(sorted(self.marginals, key=lambda item: -item.value)[:limit])

    def furthest_columns(self, limit: int) -> set[str]:
        """Return at most so many columns: those of the marginals furthest apart."""
        chosen: dict[str, None] = {}
        for marginal in self.furthest(len(self.marginals)):
            for name in marginal.columns:
                if len(chosen) < limit:
                    chosen[name] = None
        return set(chosen)


@dataclass(frozen=True)
class Distances(Result):
    """Distances from the training table, of marginals of ``order`` columns.

    ``holdout`` is what the hold-out scores, at its own number of rows. It is None where no
    hold-out was given.
    """

    order: int
    synthetic: Distance
    baseline: Distance
    holdout: Distance | None


@dataclass(frozen=True)
class BaselineComparison(Result):
    """One metric of the synthetic table against independent columns.

    Attributes
    ----------
    metric : str
    synthetic, baseline, best : float
        ``best`` is what other real people reach: for a distance the hold-out reference, and 0 where there is none or it is
        not nearer than the baseline; for F1 the score of the classifier fitted on the training table.
    gap_closed : float
        Share of the gap between the baseline (0) and ``best`` (1) that the synthetic table closes.
    better : bool
        Whether it is above the baseline beyond its interval and a margin.
    conclusive : bool or None
        False where the hold-out reference is itself not nearer than the baseline (F1: worse than it): then not to be better counts
        for nothing. None without a hold-out, where this is unknown.
    """

    metric: str
    synthetic: float
    baseline: float
    best: float
    gap_closed: float
    better: bool
    conclusive: bool | None = None

    @property
    def inconclusive(self) -> bool:
        """True if it is not better, which counts for nothing: the hold-out reference is not, either."""
        return not self.better and self.conclusive is False

    @property
    def is_unknown(self) -> bool:
        """True if it is not better, and no hold-out shows whether real rows would be."""
        return not self.better and self.conclusive is None


@dataclass(frozen=True)
class Verdict(Result):
    """The verdict whether the synthetic table is any better than independent columns, overall and by metric."""

    text: str
    comparisons: tuple[BaselineComparison, ...]

    @property
    def better(self) -> tuple[str, ...]:
        """The names of the metrics by which the table is better."""
        return tuple(item.metric for item in self.comparisons if item.better)

    @property
    def not_better(self) -> tuple[str, ...]:
        """The names of the metrics that count, and by which it is not."""
        return tuple(
            item.metric for item in self.comparisons if not (item.better or item.inconclusive)
        )

    @property
    def inconclusive(self) -> tuple[str, ...]:
        """The names of the metrics that do not count."""
        return tuple(item.metric for item in self.comparisons if item.inconclusive)

    @property
    def is_unknown(self) -> bool:
        """True if it is unknown, for want of a hold-out, if some metric should count."""
        return any(item.is_unknown for item in self.comparisons)


@dataclass(frozen=True)
class Group(Result):
    """One group of people: training rows, and the distance within it less what chance gives, in [0, 1]."""

    name: str
    rows: int
    distance: float


@dataclass(frozen=True)
class Subgroups(Result):
    """The comparison of the groups of a column, of which one may be further from the training table than another.

    Attributes
    ----------
    column : str
    groups : int
        Groups in the training table.
    worst, best : Group or None
        Of the groups that are large enough to be judged; None where there are fewer than two.
    too_small : tuple of str
        Groups with too few training rows to be judged.
    gap : Estimate
        Distance of the worst less that of the best.
    """

    column: str
    groups: int
    worst: Group | None
    best: Group | None
    too_small: tuple[str, ...]
    gap: Estimate

    @property
    def unequal(self) -> bool:
        """True if the 95% interval of the gap excludes 0."""
        return self.gap.low > 0


@dataclass(frozen=True)
class Moments(Result):
    """Mean, standard deviation and quantiles of a column of numbers in one table, nulls left out.

    A coarsened number counts as the midpoint of its cell. Dates count in days since 1970, times and durations in
    hours. The deviation has the divisor n − 1. All are NaN where no value is known.
    """

    mean: float
    deviation: float
    quantiles: tuple[float, ...]


@dataclass(frozen=True)
class Share(Result):
    """A share of the rows that have a value of a column, in the training and in the synthetic table."""

    label: str
    real: float
    synthetic: float


@dataclass(frozen=True)
class Heaping(Result):
    """The round numbers that the values of a column prefer.

    Attributes
    ----------
    multiples : tuple of Share
        Of multiples of a number, such as 10 and 5; the multiples of 10 are among those of 5.
    """

    multiples: tuple[Share, ...]

    @property
    def gap(self) -> float:
        """The largest difference of a share of multiples between the tables."""
        return max(abs(share.real - share.synthetic) for share in self.multiples)


@dataclass(frozen=True)
class RuleCheck(Result):
    """The numbers of rows that break one rule of the schema.

    Attributes
    ----------
    text : str
    synthetic, training : int
        Rows that break it; of the synthetic table, those with a value that the schema does not declare left out.
    synthetic_share, training_share : float
    """

    text: str
    synthetic: int
    training: int
    synthetic_share: float
    training_share: float


@dataclass(frozen=True)
class ColumnSummary(Result):
    """One column in the training and the synthetic table: a histogram, moments of numbers, and heaping.

    Attributes
    ----------
    labels : tuple of str
    real, synthetic : tuple of float
        Shares of rows, one per label; they sum to 1.
    axis : str
        What the values are on: ``number``; ``date``, days since 1970; ``time``, hours since midnight; ``duration``,
        hours; ``rank``, places in an order. Empty for values without an order.
    spans : tuple of (float, float)
        From where to where on the axis each label reaches. The last labels may have none: values that are so
        common that they are kept apart, and missing values.
    folded : int
        How many rare categories the last label but those of missing values stands for; 0 if none.
    missing : int
        How many of the last labels stand for missing values: reasons, and null.
    distance : float
        Total variation distance of the whole marginal, before anything was folded.
    moments : tuple of (Moments, Moments) or None
        Of the training and of the synthetic table; None for a column without numbers.
    heaping : Heaping or None
        Of a column of numbers that is declared to be heaped, or whose training values clearly are.
    """

    column: str
    kind: str
    description: str | None
    labels: tuple[str, ...]
    real: tuple[float, ...]
    synthetic: tuple[float, ...]
    axis: str
    spans: tuple[tuple[float, float], ...]
    folded: int
    missing: int
    distance: float
    moments: tuple[Moments, Moments] | None = None
    heaping: Heaping | None = None

    def largest(self, limit: int) -> list[tuple[str, float, float]]:
        """Return at most so many labels with both shares, those commonest in the training table first."""
        shares = zip(self.real, self.synthetic, self.labels, strict=True)
        ordered = sorted(shares, reverse=True)[:limit]
        return [(label, real, synthetic) for real, synthetic, label in ordered]

    @property
    def window(self) -> tuple[float, float]:
        """The ends of the part of the axis that a picture shows, (0, 0) without one.

        It is the whole axis, or the part outside of which the tables have few rows, if that is much shorter.
        """
        if not self.spans:
            return 0.0, 0.0
        spans, count = np.array(self.spans), len(self.spans)
        start, end = float(spans[0, 0]), float(spans[-1, 1])
        if self.axis == "rank":
            return start, end
        from_below, from_above = np.zeros((2, count), dtype=bool)
        for shares, outside in zip((self.real, self.synthetic), OUTSIDE, strict=True):
            cell_shares = np.array(shares[:count])
            from_below |= cell_shares.cumsum() > outside / 2
            from_above |= cell_shares[::-1].cumsum()[::-1] > outside / 2
        inside = from_below & from_above
        if not inside.any():
            return start, end
        low, high = float(spans[inside][0, 0]), float(spans[inside][-1, 1])
        return (low, high) if high - low < SHORTER * (end - start) else (start, end)

    @property
    def outside(self) -> tuple[float, float]:
        """The shares of the training and of the synthetic rows that are on the axis and outside of :attr:`window`."""
        low, high = self.window
        out = [i for i, span in enumerate(self.spans) if span[1] <= low or span[0] >= high]
        return sum(self.real[i] for i in out), sum(self.synthetic[i] for i in out)


@dataclass(frozen=True)
class Overlap(Result):
    """The numbers of rows of each table that equal a row of the training table; of that itself, another row.

    In a fresh sample of the same population both are alike common.
    """

    holdout: int
    in_training: int
    training: int
    repeated: int

    @property
    def share(self) -> float:
        """The share of the hold-out's rows that equal a row of the training table."""
        return self.in_training / self.holdout

    @property
    def expected_share(self) -> float:
        """The share that a fresh sample has by chance."""
        return self.repeated / self.training

    @property
    def suspicious(self) -> bool:
        """True if the hold-out has more of them than chance gives."""
        spread = (
            self.expected_share * (1 - self.expected_share) * (1 / self.holdout + 1 / self.training)
        )
        excess = self.share - self.expected_share
        return excess > KNOWN_SHARE + SURE * math.sqrt(spread)

    @property
    def all_known(self) -> bool:
        """True if the hold-out can only have been taken out of the training table."""
        return self.in_training == self.holdout and self.expected_share**self.holdout < IMPOSSIBLE


@dataclass(frozen=True)
class SampledDistance(Result):
    """The mean distance of marginals of one order, of tables that are samples of larger ones.

    Attributes
    ----------
    order : int
        Number of columns of each marginal.
    value : float
        Of the sampled rows.
    standard_error : float
        By the drawing of rows: of other samples of these tables.
    by_chance : float
        What samples of this size of two equal tables have on average: as far is also a perfect table.
    """

    order: int
    value: float
    standard_error: float
    by_chance: float


@dataclass(frozen=True)
class Sampled(Result):
    """The numbers of rows that were compared, and the error of the distances by their drawing.

    Attributes
    ----------
    rows : dict
        Of ``train``, ``synthetic`` and ``holdout``: sampled rows and rows of the whole table.
    distances : tuple of SampledDistance
    """

    rows: dict[str, tuple[int, int]]
    distances: tuple[SampledDistance, ...]


@dataclass(frozen=True)
class Drafted(Result):
    """The remarks for a reader on a schema that was drafted from the compared tables themselves.

    Attributes
    ----------
    left_out : dict
        From each column that is not compared to the reason.
    grouped : tuple of str
        Columns whose rare values are taken together.
    min_count : int
        Values of fewer rows of all tables are rare.
    """

    left_out: dict[str, str]
    grouped: tuple[str, ...]
    min_count: int


@dataclass(frozen=True)
class WeightsUsed(Result):
    """The survey weights that every metric of utility uses.

    Attributes
    ----------
    name : str
        The column that holds them.
    population : float
        Sum of the weights of the training table: the estimated size of the population.
    effective : dict
        Effective numbers of rows of the ``train``, ``synthetic`` and ``holdout`` tables, (Σw)² / Σw².
    self_weighting : bool
        Whether the rows of the synthetic table all count the same.
    """

    name: str
    population: float
    effective: dict[str, float]
    self_weighting: bool


def reference_scale(train: float, synthetic: float, holdout: float) -> float:
    """Return how much nearer a real sample of ``synthetic`` rows is than one of ``holdout`` rows; at most 1.

    What drawing n and m rows adds to a distance grows with √(1/n + 1/m), and more slowly where most
    cells hold a row or none: a larger sample is at least this near. Without it a hold-out of a few
    rows, which is far from everything, would excuse any table.
    """
    return min(1.0, math.sqrt((1 / train + 1 / synthetic) / (1 / train + 1 / holdout)))


def scale_distance(value: float, best: float | None, scale: float) -> float:
    """Return ``value`` with its distance from ``best`` times ``scale``."""
    return value if best is None else best + scale * (value - best)


def worse(estimate: Estimate, other: Estimate, better: str, best: float | None = None) -> bool:
    """Return whether ``estimate`` is worse than ``other``, beyond both intervals.

    ``better`` as in :class:`tabsynth.evaluation.Metric`; "closest" compares distances from ``best``.
    """
    if better == "closest" and best is not None:
        estimate, other, better = (
            _distance_from(estimate, best),
            _distance_from(other, best),
            "lower",
        )
    if better == "higher":
        return estimate.high < other.low
    return better == "lower" and estimate.low > other.high


def _distance_from(estimate: Estimate, best: float) -> Estimate:
    """Return |value − best| with the range that it has over the interval."""
    ends = abs(estimate.low - best), abs(estimate.high - best)
    low = 0.0 if estimate.low <= best <= estimate.high else min(ends)
    return Estimate(abs(estimate.value - best), low, max(ends), estimate.n)


def mean_of_shares(shares: np.ndarray) -> Estimate:
    """Return the mean of shares in [0, 1] with a normal interval; the records are the sampling unit.

    Half a unit of pseudo-variation keeps the interval open where all records agree, in the spirit of
    Agresti & Coull (1998), "Approximate is better than exact".

    Parameters
    ----------
    shares : ndarray, shape (records,)
    """
    value = float(shares.mean())
    half = Z95 * math.sqrt(_variance_of_mean(shares))
    return Estimate(value, max(0.0, value - half), min(1.0, value + half), len(shares))


def difference_of_shares(a: np.ndarray, b: np.ndarray) -> Estimate:
    """Return the mean of ``a`` − mean of ``b``, two independent groups of records, with a normal interval."""
    value = float(a.mean() - b.mean())
    half = Z95 * math.sqrt(_variance_of_mean(a) + _variance_of_mean(b))
    return Estimate(value, value - half, value + half, len(a) + len(b))


def _variance_of_mean(shares: np.ndarray) -> float:
    spread = float(((shares - shares.mean()) ** 2).sum())
    return (spread + 0.5) / len(shares) ** 2


def percentile(value: float, replicates: np.ndarray, n: int) -> Estimate:
    """Return a value with the percentile interval of its bootstrap replicates (Efron & Tibshirani 1993)."""
    finite = replicates[np.isfinite(replicates)]
    if len(finite) == 0:
        return Estimate(value, math.nan, math.nan, n)
    low, high = np.percentile(finite, [2.5, 97.5])
    return Estimate(value, float(low), float(high), n)
