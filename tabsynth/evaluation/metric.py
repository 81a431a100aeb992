"""The one form in which a figure leaves the evaluation, and the tables that it is computed from."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Generic, Literal, NamedTuple, TypeVar

import numpy as np
from scipy import stats

from tabsynth.evaluation.overlap import Overlap
from tabsynth.evaluation.results import (
    Disclosure,
    Distances,
    Estimate,
    Prediction,
    Result,
    Verdict,
    scaled,
    worse,
)

Found = TypeVar("Found")
Other = TypeVar("Other")
GROUPS = 20  # of the jackknife
SHOWN_PARTS = 20  # of a metric, the worst first
UTILITY: Literal["utility"] = "utility"
PRIVACY: Literal["privacy"] = "privacy"
SHOWN: Literal["shown"] = "shown"


@dataclass(frozen=True)
class Part(Result):
    """One column, pair, value or group of a metric, with the same figure of the two references."""

    name: str
    value: float
    fresh: float | None = None
    floor: float | None = None
    n: int = 0


class Compared(NamedTuple, Generic[Found]):
    """The same figure, or whatever else, of a synthetic table and of its two references.

    Given as ``*compared`` where a :class:`Metric` takes ``synthetic, fresh, floor``.
    """

    synthetic: Found
    fresh: Found | None
    floor: Found

    def map(self, change: Callable[[Found], Other]) -> "Compared[Other]":
        """``change`` of each that there is."""
        # In this order: a change may draw random numbers.
        synthetic = change(self.synthetic)
        fresh = None if self.fresh is None else change(self.fresh)
        return Compared(synthetic, fresh, change(self.floor))

    def part(self, name: str, pick: Callable[[Found], float], n: int = 0) -> Part:
        """A part of a metric, where ``pick`` takes its value out of each."""
        value, fresh, floor = self.map(lambda found: float(pick(found)))
        return Part(name, value, fresh, floor, n)


@dataclass(frozen=True)
class Metric(Result):
    """One figure of a synthetic table between its two references.

    Attributes
    ----------
    key, title : str
        A short name for programs, and one for people.
    kind : {"utility", "privacy", "shown"}
        ``shown``: printed because people ask for it, and evidence of nothing.
    synthetic : Estimate
        Value, 95% interval and number of units. The interval is NaN where it cannot be known.
    fresh : Estimate or None
        The same of a fresh real sample (rows of the hold-out): the ceiling. None without a hold-out.
    floor : Estimate or None
        The same of independently shuffled columns. None where the figure means nothing of them.
    better : {"higher", "lower", "neither"}
    best : float or None
        The value of a perfect table, where there is one.
    reading : str
        What the figure says, in a sentence.
    citation : str
    parts : tuple of Part
        What it is made of, worst first.
    of_relations : bool
        Whether relations between columns enter. If not, shuffled columns are right by construction,
        and to be worse than they are is no verdict.
    fresh_scale : float
        How far from ``best`` a fresh sample of as many rows as the synthetic table would be, as a share
        of how far ``fresh`` is: see :func:`tabsynth.evaluation.results.fresh_scale`.
    """

    key: str
    title: str
    kind: Literal["utility", "privacy", "shown"]
    synthetic: Estimate
    fresh: Estimate | None
    floor: Estimate | None
    better: Literal["higher", "lower", "neither"]
    best: float | None
    reading: str
    citation: str
    parts: tuple[Part, ...] = field(default=())
    of_relations: bool = True
    fresh_scale: float = 1.0

    @property
    def value(self) -> float:
        """Of the synthetic table."""
        return self.synthetic.value

    @property
    def low(self) -> float:
        """Lower end of its 95% interval."""
        return self.synthetic.low

    @property
    def high(self) -> float:
        """Upper end of its 95% interval."""
        return self.synthetic.high

    @property
    def n(self) -> int:
        """Units that it was computed from."""
        return self.synthetic.n

    @property
    def below_floor(self) -> bool:
        """Whether it counts against the table that it is worse than shuffled columns.

        Beyond both intervals, where a fresh real sample is not worse than they are, too; without a
        hold-out, that is not known.
        """
        return self._past_floor and not self._fresh_past_floor

    @property
    def untold(self) -> bool:
        """Whether it is worse than shuffled columns, but a fresh real sample is, too.

        The floor has the training table's own marginals, without the noise of drawing rows. Where
        columns are weakly related, that noise is more than all that shuffling destroys.
        """
        return self._past_floor and self._fresh_past_floor

    @property
    def worse_than_fresh(self) -> bool:
        """Whether it is worse than a fresh real sample, beyond both intervals."""
        return self.fresh is not None and worse(self.synthetic, self.fresh, self.better)

    @property
    def _past_floor(self) -> bool:
        if self.floor is None or self.kind != UTILITY or not self.of_relations:
            return False
        return worse(self.synthetic, self.floor, self.better)

    @property
    def _fresh_past_floor(self) -> bool:
        # By the values: what a fresh sample may well reach by chance is not held against a table.
        if self.fresh is None or self.floor is None:
            return False
        fresh = scaled(self.fresh.value, self.best, self.fresh_scale)
        return fresh < self.floor.value if self.better == "higher" else fresh > self.floor.value


@dataclass(frozen=True, kw_only=True)
class Tables:
    """The tables of one evaluation as value numbers, int64, shape (rows, columns).

    Attributes
    ----------
    floor : ndarray
        The training table with its columns shuffled independently.
    holdout : ndarray or None
        Real rows that the synthesizer never saw; ``fresh`` and ``control`` are its halves, for
        metrics that need a fresh table and, besides, rows to try it on. Without a hold-out of two
        rows or more these are None.
    scores : tuple of (ndarray or None)
        For each column, the number that each value number stands for (NaN: null), shape (size,); None
        where the values have no order.
    labels : tuple of tuple of str
        For each column, what each value number stands for, for people.
    """

    train: np.ndarray
    synthetic: np.ndarray
    floor: np.ndarray
    holdout: np.ndarray | None
    fresh: np.ndarray | None
    control: np.ndarray | None
    names: tuple[str, ...]
    sizes: tuple[int, ...]
    scores: tuple[np.ndarray | None, ...]
    labels: tuple[tuple[str, ...], ...]

    @property
    def others(self) -> Compared[np.ndarray]:
        """What is held against the training table: synthetic, the whole hold-out, floor."""
        return Compared(self.synthetic, self.holdout, self.floor)

    @property
    def held(self) -> Compared[np.ndarray]:
        """As ``others``, with the half of the hold-out that leaves the other half for tests."""
        return Compared(self.synthetic, self.fresh, self.floor)


@dataclass(frozen=True)
class Evaluation(Result):
    """Everything that was measured of one synthetic table.

    ``metrics`` holds every figure in the one form; the other fields are what pages and tables of
    their own are made of.
    """

    rows: dict[str, int]
    metrics: tuple[Metric, ...]
    prediction: Prediction
    distances: tuple[Distances, ...]
    disclosure: Disclosure
    verdict: Verdict
    overlap: Overlap | None = None  # of hold-out and training table

    def __getitem__(self, key: str) -> Metric:
        """The metric of that key; KeyError if it was not measured."""
        for metric in self.metrics:
            if metric.key == key:
                return metric
        raise KeyError(key)


def halves(
    holdout: np.ndarray | None, rng: np.random.Generator
) -> tuple[np.ndarray | None, np.ndarray | None]:
    """A random half of the rows, and the other half; None where there are not two rows."""
    if holdout is None or len(holdout) < 2:
        return None, None
    order = rng.permutation(len(holdout))
    cut = len(holdout) // 2
    return holdout[order[:cut]], holdout[order[cut:]]


def group_numbers(rows: int, rng: np.random.Generator, groups: int = GROUPS) -> np.ndarray:
    """A random group for each row, sizes equal to one row; shape (rows,)."""
    return rng.permutation(np.arange(rows) % groups)


def jackknifed(value: float, replicates: np.ndarray, n: int) -> Estimate:
    """A value with the interval of its delete-a-group jackknife.

    Kott 2001, "The delete-a-group jackknife", Journal of Official Statistics 17: the replicates leave
    out one of G random groups of rows each; variance (G − 1)/G · Σ (replicate − value)², and Student's
    t with G − 1 degrees of freedom.

    Parameters
    ----------
    replicates : ndarray, shape (groups,)
    """
    groups = len(replicates)
    if n < groups or groups < 2 or not np.isfinite(replicates).all() or not math.isfinite(value):
        return Estimate(value, math.nan, math.nan, n)
    variance = (groups - 1) / groups * float(((replicates - value) ** 2).sum())
    half = float(stats.t.ppf(0.975, groups - 1)) * math.sqrt(variance)
    return Estimate(value, value - half, value + half, n)


def clipped(estimate: Estimate, low: float = -math.inf, high: float = math.inf) -> Estimate:
    """The estimate with its interval cut to where the figure can be; NaN stays."""
    if math.isnan(estimate.low):
        return estimate
    return Estimate(estimate.value, max(low, estimate.low), min(high, estimate.high), estimate.n)


def wilson(successes: int, trials: int) -> Estimate:
    """A proportion with Wilson's score interval (1927); of no trials, NaN between 0 and 1."""
    if trials == 0:
        return Estimate(math.nan, 0.0, 1.0, 0)
    interval = stats.binomtest(successes, trials).proportion_ci(method="wilson")
    return Estimate(successes / trials, float(interval.low), float(interval.high), trials)


def worst_first(parts: Sequence[Part], better: str, limit: int) -> tuple[Part, ...]:
    """At most ``limit`` parts, the worst first; what is not a number comes last."""
    sign = 1.0 if better == "higher" else -1.0
    order = sorted(parts, key=lambda p: sign * p.value if math.isfinite(p.value) else math.inf)
    return tuple(order[:limit])
