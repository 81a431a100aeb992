"""What the metrics return: frozen values with their intervals, and their JSON form."""

import math
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

import numpy as np

from tabsynth._files import json_ready

Z95 = 1.959963984540054


class Result:
    """Base of the result dataclasses: ``to_dict`` for JSON."""

    def to_dict(self) -> dict[str, Any]:
        """Plain dicts, lists, numbers and texts; no NaN: what is not a number becomes None."""
        assert is_dataclass(self)
        return {field.name: plain(getattr(self, field.name)) for field in fields(self)}


def plain(value: Any) -> Any:
    """``value`` as JSON knows it: NaN and infinities become None."""
    return json_ready(value.to_dict() if isinstance(value, Result) else value)


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
    train, synthetic, floor : F1
        Classifier fitted on the training table, the synthetic table, and shuffled columns (mean over
        several shuffles).
    ratio : F1
        synthetic / train.
    gain : F1
        synthetic − floor; its interval allows for the chance of the shuffles.
    """

    column: str
    classes: int
    train: F1
    synthetic: F1
    floor: F1
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
class Marginal(Result):
    """Total variation distance of one marginal, in [0, 1]."""

    columns: tuple[str, ...]
    value: float


@dataclass(frozen=True)
class Distance(Result):
    """Mean total variation distance of the marginals of one order, and each of them."""

    mean: Estimate
    marginals: tuple[Marginal, ...]


@dataclass(frozen=True)
class Distances(Result):
    """Distances from the training table, of marginals of ``order`` columns.

    ``fresh`` is the hold-out: what a fresh real sample of its size would score. It is None where no
    hold-out was given.
    """

    order: int
    synthetic: Distance
    floor: Distance
    fresh: Distance | None


@dataclass(frozen=True)
class Comparison(Result):
    """One metric of the synthetic table against shuffled columns.

    ``share`` is how far it is on the way from the floor (0) to the reference (1), and ``better``
    says whether it is beyond doubt and margin above the floor. ``telling`` is false where a fresh real
    sample is itself worse than the floor: then not to be better counts for nothing. None: not known,
    for want of a hold-out.
    """

    metric: str
    synthetic: float
    floor: float
    reference: float
    share: float
    better: bool
    telling: bool | None = None


@dataclass(frozen=True)
class Verdict(Result):
    """Whether the synthetic table is any better than shuffled columns, overall and by metric."""

    text: str
    comparisons: tuple[Comparison, ...]


def fresh_scale(train: int, synthetic: int, fresh: int) -> float:
    """How much nearer a fresh sample of ``synthetic`` rows is than one of ``fresh`` rows; at most 1.

    What drawing n and m rows adds to a distance grows with √(1/n + 1/m), and more slowly where most
    cells hold a row or none: a larger sample is at least this near. Without it a hold-out of a few
    rows, which is far from everything, would excuse any table.
    """
    return min(1.0, math.sqrt((1 / train + 1 / synthetic) / (1 / train + 1 / fresh)))


def scaled(value: float, best: float | None, scale: float) -> float:
    """``value`` with its distance from ``best`` times ``scale``."""
    return value if best is None else best + scale * (value - best)


def worse(one: Estimate, other: Estimate, better: str) -> bool:
    """Whether ``one`` is worse than ``other``, beyond both intervals."""
    if better == "higher":
        return one.high < other.low
    return better == "lower" and one.low > other.high


def mean_of_shares(shares: np.ndarray) -> Estimate:
    """Mean of shares in [0, 1] with a normal interval; the records are the sampling unit.

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
    """Mean of ``a`` − mean of ``b``, two independent groups of records, with a normal interval."""
    value = float(a.mean() - b.mean())
    half = Z95 * math.sqrt(_variance_of_mean(a) + _variance_of_mean(b))
    return Estimate(value, value - half, value + half, len(a) + len(b))


def _variance_of_mean(shares: np.ndarray) -> float:
    spread = float(((shares - shares.mean()) ** 2).sum())
    return (spread + 0.5) / len(shares) ** 2


def percentile(value: float, replicates: np.ndarray, n: int) -> Estimate:
    """A value with the percentile interval of its bootstrap replicates (Efron & Tibshirani 1993)."""
    known = replicates[np.isfinite(replicates)]
    if len(known) == 0:
        return Estimate(value, math.nan, math.nan, n)
    low, high = np.percentile(known, [2.5, 97.5])
    return Estimate(value, float(low), float(high), n)
