"""`Metric`, the one form of every figure of an evaluation, and the tables that it is computed from."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, Generic, NamedTuple, TypeVar

import numpy as np
from scipy import stats

from tabsynth._files import json_ready
from tabsynth._shown import Shown, wrapped
from tabsynth._typing import JsonObject
from tabsynth.evaluation.definitions import PRIVACY, UTILITY, Better, Definition, Kind
from tabsynth.evaluation.results import (
    Z95,
    ColumnSummary,
    Disclosure,
    Distances,
    Drafted,
    Estimate,
    Overlap,
    Prediction,
    Result,
    RuleCheck,
    Sampled,
    Subgroups,
    Verdict,
    WeightsUsed,
    reference_scale,
    scale_distance,
    worse,
)
from tabsynth.evaluation.weighting import WeightedRows, effective_rows, weighted_rows

Item = TypeVar("Item")
Other = TypeVar("Other")
GROUPS = 20  # of the jackknife
SHOWN_PARTS = 20  # of a metric, the worst first
IN_FILES = (
    *(
        "key",
        "title",
        "kind",
        "synthetic",
        "holdout",
        "baseline",
        "better",
        "best",
        "reading",
        "citation",
    ),
    *("parts", "of_relations", "reference_scale", "sampling_power", "details"),
)


@dataclass(frozen=True)
class Part(Result):
    """One column, pair, value or group of a metric, with the same figure of the two references."""

    name: str
    value: float
    holdout: float | None = None
    baseline: float | None = None
    n: int = 0


class Compared(NamedTuple, Generic[Item]):
    """The same figure, or whatever else, of a synthetic table and of its two references.

    Given as ``*compared`` where a :class:`Metric` takes ``synthetic, holdout, baseline``.
    """

    synthetic: Item
    holdout: Item | None
    baseline: Item

    def map(self, change: Callable[[Item], Other]) -> "Compared[Other]":
        """Return ``change`` of each that there is."""
        # In this order: a change may draw random numbers.
        synthetic = change(self.synthetic)
        holdout = None if self.holdout is None else change(self.holdout)
        return Compared(synthetic, holdout, change(self.baseline))

    def with_items(self, items: Iterable[Other]) -> "Compared[Other]":
        """Return items, in the order of the tables that there are, in the place of these."""
        remaining = iter(items)
        return self.map(lambda _: next(remaining))

    def part(self, name: str, pick: Callable[[Item], float], n: int = 0) -> Part:
        """Return a part of a metric, where ``pick`` takes its value out of each."""
        return Part(name, *self.map(lambda item: float(pick(item))), n)

    def parts(
        self,
        names: Sequence[str],
        pick: Callable[[Item], Sequence[float] | np.ndarray],
        counts: int | Sequence[int] | np.ndarray = 0,
    ) -> list[Part]:
        """Return a part for each name, where ``pick`` takes the values of all out of each; ``counts`` are their units."""
        values = self.map(lambda item: list(map(float, pick(item))))
        units = [counts] * len(names) if isinstance(counts, int) else list(map(int, counts))
        return [
            Part(name, value, None if values.holdout is None else values.holdout[i], other, n)
            for i, (name, value, other, n) in enumerate(
                zip(names, values.synthetic, values.baseline, units, strict=True)
            )
        ]


@dataclass(frozen=True)
class Metric(Result):
    """One figure of a synthetic table, with the same figure of its two reference tables.

    Attributes
    ----------
    definition : Definition
        The meaning of the figure: its kind, direction and source follow from it.
    synthetic : Estimate
        Value, 95% interval and number of units. The interval is NaN where it is unknown.
    holdout : Estimate or None
        The hold-out reference: the same figure of real rows that no synthesizer saw, as it is expected for as
        many rows as the synthetic table has (see :func:`at_equal_rows`). None without a hold-out.
    baseline : Estimate or None
        The same of independent columns. None where the figure means nothing of them.
    parts : tuple of Part
        What it is made of, worst first.
    key, title : str
        A short name for programs, and one for people. Default: those of the definition.
    best : float or None
        The value of a perfect table, where there is one. Default: that of the definition.
    note : str
        What is special about this figure, in sentences.
    of_relations : bool
        Whether relations between columns enter. If not, independent columns are right by construction, and
        they are no reference.
    reference_scale : float
        How far from ``best`` real rows are with as many rows as the synthetic table, as a share of how far
        they are with as many as the hold-out: see :func:`tabsynth.evaluation.results.reference_scale`.
    details : Result or None
        The full result that the figure summarises: marginals, columns predicted, the disclosure grid, or the
        comparison of groups.
    """

    definition: Definition
    synthetic: Estimate
    holdout: Estimate | None = None
    baseline: Estimate | None = None
    parts: tuple[Part, ...] = ()
    key: str = ""
    title: str = ""
    best: float | None = None
    note: str = ""
    of_relations: bool = True
    reference_scale: float = 1.0
    details: Result | None = None

    def __post_init__(self) -> None:
        """Take key, title and best value from the definition where none were given."""
        definition = self.definition
        object.__setattr__(self, "key", self.key or definition.keys[0])
        object.__setattr__(self, "title", self.title or definition.name)
        object.__setattr__(self, "best", definition.best if self.best is None else self.best)

    def _repr_lines(self) -> list[str]:
        compared = {"Hold-out reference": self.holdout, "Independent columns": self.baseline}
        references = [f"{name}: {item}" for name, item in compared.items() if item is not None]
        about = f"Metric {self.key}, {self.title}: {self.synthetic}. {self.reading}"
        return wrapped([about, *references])

    def to_dict(self) -> JsonObject:
        """Return the figure with the facts of its definition, ready for JSON."""
        return {name: json_ready(getattr(self, name)) for name in IN_FILES}

    @property
    def kind(self) -> Kind:
        """The kind of the figure: ``utility``, ``privacy`` or ``shown``."""
        return self.definition.kind

    @property
    def better(self) -> Better:
        """The direction in which the figure is better; see :class:`tabsynth.evaluation.Definition`."""
        return self.definition.better

    @property
    def sampling_power(self) -> float:
        """The power by which sampling error moves the figure of a real table."""
        return self.definition.sampling_power

    @property
    def reading(self) -> str:
        """The meaning of the figure, in sentences."""
        return f"{self.definition.meaning} {self.note}".rstrip()

    @property
    def citation(self) -> str:
        """The source of the definition."""
        return self.definition.source

    @property
    def value(self) -> float:
        """The value of the synthetic table."""
        return self.synthetic.value

    @property
    def low(self) -> float:
        """The lower end of its 95% interval."""
        return self.synthetic.low

    @property
    def high(self) -> float:
        """The upper end of its 95% interval."""
        return self.synthetic.high

    @property
    def n(self) -> int:
        """The number of units that it was computed from."""
        return self.synthetic.n

    @property
    def below_baseline(self) -> bool:
        """True if it is worse than independent columns, and this counts against the table.

        Worse means beyond both intervals. It does not count where the hold-out reference is worse than
        independent columns, too; without a hold-out this is unknown.
        """
        return self._past_baseline and not self._holdout_past_baseline

    @property
    def inconclusive(self) -> bool:
        """True if it is worse than independent columns, but the hold-out reference is, too.

        Independent columns have the marginals of the training table, without sampling error. Where columns
        are weakly related, sampling error is larger than what independence destroys.
        """
        return self._past_baseline and self._holdout_past_baseline

    @property
    def worse_than_holdout(self) -> bool:
        """True if it is worse than the hold-out reference, beyond both intervals."""
        return self.holdout is not None and worse(
            self.synthetic, self.holdout, self.better, self.best
        )

    def beats_guessing(self, attacks: int = 1) -> bool:
        """Return whether an attack does better than ``best``, beyond chance, at a level of 5% for all of so many attacks.

        Bonferroni: of many attacks on nothing, one interval at 95% excludes ``best`` too often, so the interval is
        widened to a level of 95% for all of them together.
        """
        if self.best is None:
            return False
        wider = float(stats.norm.ppf(1 - 0.025 / attacks)) / Z95
        return self.value - wider * (self.value - self.low) > self.best

    @property
    def _past_baseline(self) -> bool:
        if self.baseline is None or self.kind != UTILITY or not self.of_relations:
            return False
        return worse(self.synthetic, self.baseline, self.better, self.best)

    @property
    def _holdout_past_baseline(self) -> bool:
        # By the values: what real rows may well reach by chance does not count against a table.
        if self.holdout is None or self.baseline is None:
            return False
        value = self.holdout.value
        if self.sampling_power == 0:  # not corrected: a hold-out of few rows must excuse no table
            value = scale_distance(value, self.best, self.reference_scale)
        if self.better == "closest" and self.best is not None:
            return abs(value - self.best) > abs(self.baseline.value - self.best)
        return (
            value < self.baseline.value if self.better == "higher" else value > self.baseline.value
        )


def at_equal_rows(metric: Metric, scale: float) -> Metric:
    """Return the metric with its hold-out reference corrected to the number of rows of the synthetic table.

    Multiplies the distance of the reference, of its interval and of its parts from ``best`` by ``scale ** (2 ·
    sampling_power)``. On the bundled census (4,100 training rows, 1,757 hold-out rows, 4,100 other real rows in
    the place of the synthetic table; means of 5 splits) the corrected distance of one, two and three columns is 1.00,
    1.01 and 0.98 times the distance of the other real rows; uncorrected it is 1.29, 1.31 and 1.27 times as large.

    Parameters
    ----------
    scale : float
        Of :func:`tabsynth.evaluation.results.reference_scale`.
    """
    holdout, best, parts = metric.holdout, metric.best, metric.parts
    if holdout is not None and best is not None and metric.sampling_power > 0:
        factor = scale ** (2 * metric.sampling_power)
        value, low, high = (
            scale_distance(x, best, factor) for x in (holdout.value, holdout.low, holdout.high)
        )
        holdout = Estimate(value, low, high, holdout.n)
        parts = tuple(
            part
            if part.holdout is None
            else replace(part, holdout=scale_distance(part.holdout, best, factor))
            for part in parts
        )
    return replace(metric, holdout=holdout, parts=parts, reference_scale=scale)


@dataclass(frozen=True, kw_only=True)
class Weights:
    """Survey weights of the tables of one evaluation, shape (rows,) each, 0 or more; see :class:`Tables`.

    Attributes
    ----------
    train, holdout, reference, control : ndarray or None
    synthetic : ndarray or None
        None: the synthetic table is self-weighting, as the baseline is.
    """

    train: np.ndarray
    synthetic: np.ndarray | None = None
    holdout: np.ndarray | None = None
    reference: np.ndarray | None = None
    control: np.ndarray | None = None


@dataclass(frozen=True, kw_only=True)
class Columns(Shown):
    """The meaning of a table's category codes, and the columns that some metrics are about.

    Attributes
    ----------
    names : tuple of str
    sizes : tuple of int
        Number of category codes of each column.
    scores : tuple of (ndarray or None)
        For each column, the number that each category code stands for (NaN: null), shape (size,); None, the default,
        where the values have no order.
    labels : tuple of tuple of str
        For each column, what each category code stands for, for people. Default: their numbers.
    numbers : tuple of int
        Columns of numbers, whose means and totals are estimated.
    target : int or None
        The column that a user would predict and explain.
    by : tuple of int
        Columns whose groups are compared.
    known : tuple of int
        Columns that an attacker knows in attribute reconstruction. Default: the first ones.
    """

    names: tuple[str, ...]
    sizes: tuple[int, ...]
    scores: tuple[np.ndarray | None, ...] = ()
    labels: tuple[tuple[str, ...], ...] = ()
    numbers: tuple[int, ...] = ()
    target: int | None = None
    by: tuple[int, ...] = ()
    known: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        """Fill in scores and labels where none were given."""
        labels = tuple(tuple(map(str, range(size))) for size in self.sizes)
        object.__setattr__(self, "scores", self.scores or (None,) * len(self.sizes))
        object.__setattr__(self, "labels", self.labels or labels)


@dataclass(frozen=True, kw_only=True)
class Tables(Columns):
    """The tables of one evaluation as category codes, int64, shape (rows, columns).

    Attributes
    ----------
    baseline : ndarray
        The training table with its columns permuted independently.
    holdout : ndarray or None
        Real rows that the synthesizer never saw: at most as many as the synthetic table has. ``reference``
        and ``control`` are the halves of all of them, for metrics that need a real table and, besides, rows
        to try it on. These are None without a hold-out of two rows or more.
    weights : Weights or None
        Survey weights of the rows, for metrics of utility. None: all rows count the same.
    """

    train: np.ndarray
    synthetic: np.ndarray
    baseline: np.ndarray
    holdout: np.ndarray | None
    reference: np.ndarray | None
    control: np.ndarray | None
    weights: Weights | None = None

    def _rows_of(self, name: str) -> WeightedRows:
        weights = None if self.weights is None else getattr(self.weights, name)
        return weighted_rows(getattr(self, name), weights)

    @property
    def weighted_train(self) -> WeightedRows:
        """The training table with its weights."""
        return self._rows_of("train")

    @property
    def with_weights(self) -> Compared[WeightedRows]:
        """The compared tables, with the weights of their rows."""
        holdout = None if self.holdout is None else self._rows_of("holdout")
        return Compared(self._rows_of("synthetic"), holdout, WeightedRows(self.baseline))

    @property
    def weighted_control(self) -> WeightedRows:
        """The table ``control`` with its weights."""
        return self._rows_of("control")

    @property
    def weighted_beside_control(self) -> Compared[WeightedRows]:
        """The tables of ``compared_beside_control``, with the weights of their rows."""
        reference = None if self.reference is None else self._rows_of("reference")
        return Compared(self.with_weights.synthetic, reference, self.with_weights.baseline)

    @property
    def compared_beside_control(self) -> Compared[np.ndarray]:
        """The compared tables, with the half of the hold-out that leaves the other half for tests."""
        return Compared(self.synthetic, self.reference, self.baseline)


class Attacks(NamedTuple):
    """Attacks on one table: those that were tried, and those that succeed, beyond chance for all together."""

    tried: tuple[Metric, ...]
    successful: tuple[Metric, ...]


@dataclass(frozen=True, kw_only=True)
class Measured(Result):
    """The base of every evaluation: its metrics, and the tables that they are of.

    Attributes
    ----------
    metrics : tuple of Metric
    label : str
        The name of the synthetic table.
    certificate : dict or None
        The certificate of the table; nothing is claimed without one.
    authenticated : bool
        Whether the certificate's signature was checked against a key that the caller gave.
    schema_sha256 : str
        Digest of the schema.
    created : str
        UTC, ISO 8601.
    versions : dict
    """

    confidential: ClassVar[bool] = True  # whether a figure is of private rows without noise

    metrics: tuple[Metric, ...]
    label: str = "synthetic"
    certificate: Mapping[str, object] | None = None
    authenticated: bool = False
    schema_sha256: str = ""
    created: str = ""
    versions: Mapping[str, str] = field(default_factory=dict)

    def _repr_lines(self) -> list[str]:
        keys = ", ".join(metric.key for metric in self.metrics)
        secret = "CONFIDENTIAL: computed from real rows without noise. " * self.confidential
        return wrapped([f"{type(self).__name__} of {self.label}. {secret}Metrics: {keys}"])

    def __getitem__(self, key: str) -> Metric:
        """Return the metric of that key, such as ``"tvd2"``; KeyError if it was not measured."""
        for metric in self.metrics:
            if metric.key == key:
                return metric
        raise KeyError(key)

    @property
    def parts(self) -> Mapping[str, "Evaluation"]:
        """The evaluations of single tables that it consists of, by name."""
        return {}


@dataclass(frozen=True, kw_only=True)
class Evaluation(Measured):
    """The evaluation of one synthetic table.

    Attributes
    ----------
    rows : dict
        Rows of the ``train``, ``synthetic`` and ``holdout`` tables, and ``test`` rows of predictions.
    verdict : Verdict
        Against independent columns.
    overlap : Overlap or None
        Of the hold-out with the training table.
    columns : tuple of ColumnSummary
        Each column's histogram and moments in both tables.
    rules : tuple of RuleCheck
        How many rows of both tables break each rule of the schema.
    left_out : int
        Synthetic rows with a value that the schema does not declare: they are only in ``violations``.
    real_sha256 : str
        Digest of the rows of the training table and the hold-out.
    weights : WeightsUsed or None
        The survey weights that every metric of utility uses; None: all rows count the same.
    sampled : Sampled or None
        Of tables that are samples of larger ones.
    drafted : Drafted or None
        Of tables without a schema.
    """

    rows: dict[str, int]
    verdict: Verdict
    overlap: Overlap | None = None
    columns: tuple[ColumnSummary, ...] = ()
    rules: tuple[RuleCheck, ...] = ()
    left_out: int = 0
    real_sha256: str = ""
    weights: WeightsUsed | None = None
    sampled: Sampled | None = None
    drafted: Drafted | None = None

    @property
    def prediction(self) -> Prediction:
        """The dimension-wise prediction by logistic regression, column by column."""
        details = self["prediction_weighted"].details
        assert isinstance(details, Prediction)
        return details

    @property
    def distances(self) -> tuple[Distances, ...]:
        """The distances of the marginals of one, two and three columns, as far as the table has columns."""
        return tuple(
            metric.details for metric in self.metrics if isinstance(metric.details, Distances)
        )

    @property
    def disclosure(self) -> Disclosure:
        """The grid of attribute disclosure."""
        details = self["attribute_disclosure"].details
        assert isinstance(details, Disclosure)
        return details

    @property
    def subgroups(self) -> tuple[Subgroups, ...]:
        """The comparison of the groups of each column that was given as ``by``."""
        return tuple(
            metric.details for metric in self.metrics if isinstance(metric.details, Subgroups)
        )

    @property
    def attacks(self) -> Attacks:
        """The attacks beside attribute disclosure; empty without a control group."""
        tried = tuple(
            metric
            for metric in self.metrics
            if metric.kind == PRIVACY and metric.key != "attribute_disclosure"
        )
        return Attacks(tried, tuple(item for item in tried if item.beats_guessing(len(tried))))

    @property
    def has_attacks(self) -> bool:
        """True if some attack could be judged, which takes a control group."""
        return any(
            metric.kind == PRIVACY and math.isfinite(metric.value) for metric in self.metrics
        )

    @property
    def given_rows(self) -> int:
        """The number of rows of the synthetic table, those included that are left out of the metrics."""
        return self.rows["synthetic"] + self.left_out

    @property
    def reference_scale(self) -> float:
        """The factor of the expected sampling error by which the hold-out reference is corrected; at most 1."""
        if not self.rows["holdout"]:
            return 1.0
        rows: Mapping[str, float] = self.rows if self.weights is None else self.weights.effective
        return reference_scale(*(rows[name] for name in ("train", "synthetic", "holdout")))

    @property
    def columns_not_predicted(self) -> int:
        """The number of columns that were not predicted: of a wide table a part is drawn."""
        return len(self.columns) - len(self.prediction.columns)

    def furthest_columns(self, limit: int) -> tuple[ColumnSummary, ...]:
        """Return at most so many columns, those furthest apart, in the order of the table."""
        furthest = sorted(self.columns, key=lambda item: -item.distance)[:limit]
        return tuple(item for item in self.columns if item in furthest)


def halves(
    holdout: np.ndarray | None, rng: np.random.Generator
) -> tuple[np.ndarray | None, np.ndarray | None]:
    """Return a random half of the rows, and the other half; None where there are not two rows."""
    if holdout is None or len(holdout) < 2:
        return None, None
    order = rng.permutation(len(holdout))
    cut = len(holdout) // 2
    return holdout[order[:cut]], holdout[order[cut:]]


def group_numbers(rows: int, rng: np.random.Generator, groups: int = GROUPS) -> np.ndarray:
    """Return a random group for each row, sizes equal to one row; shape (rows,)."""
    return rng.permutation(np.arange(rows) % groups)


def jackknife(
    value: float,
    replicates: np.ndarray,
    n: int,
    low: float = -math.inf,
    high: float = math.inf,
) -> Estimate:
    """Return a value with the interval of its delete-a-group jackknife.

    Kott 2001, "The delete-a-group jackknife", Journal of Official Statistics 17: the replicates leave
    out one of G random groups of rows each; variance (G − 1)/G · Σ (replicate − value)², and Student's
    t with G − 1 degrees of freedom.

    Parameters
    ----------
    replicates : ndarray, shape (groups,)
    low, high : float
        The range of the figure, to which the interval is cut.
    """
    groups = len(replicates)
    if n < groups or groups < 2 or not np.isfinite(replicates).all() or not math.isfinite(value):
        return Estimate(value, math.nan, math.nan, n)
    variance = (groups - 1) / groups * float(((replicates - value) ** 2).sum())
    half = float(stats.t.ppf(0.975, groups - 1)) * math.sqrt(variance)
    return Estimate(value, max(low, value - half), min(high, value + half), n)


def wilson(successes: int, trials: int) -> Estimate:
    """Return a proportion with Wilson's score interval (1927); of no trials, NaN between 0 and 1."""
    if trials == 0:
        return Estimate(math.nan, 0.0, 1.0, 0)
    interval = stats.binomtest(successes, trials).proportion_ci(method="wilson")
    return Estimate(successes / trials, float(interval.low), float(interval.high), trials)


def weighted_wilson(hits: np.ndarray, weights: np.ndarray | None = None) -> Estimate:
    """Return a (weighted) proportion of rows with Wilson's interval, of the effective number of rows.

    Parameters
    ----------
    hits : ndarray of bool, shape (rows,)
    weights : ndarray, shape (rows,), optional
        0 or more, and not all 0.
    """
    if weights is None:
        return wilson(int(hits.sum()), len(hits))
    share, n = float(np.average(hits, weights=weights)), effective_rows(weights, len(hits))
    centre, wide = share + Z95**2 / (2 * n), 1 + Z95**2 / n
    half = Z95 * math.sqrt(share * (1 - share) / n + Z95**2 / (4 * n**2))
    ends = (
        max(0.0, min(share, (centre - half) / wide)),
        min(1.0, max(share, (centre + half) / wide)),
    )
    return Estimate(share, *ends, len(hits))


def worst_first(parts: Sequence[Part], better: str, limit: int) -> tuple[Part, ...]:
    """Return at most ``limit`` parts, the worst first; what is not a number comes last."""
    sign = 1.0 if better == "higher" else -1.0
    order = sorted(parts, key=lambda p: sign * p.value if math.isfinite(p.value) else math.inf)
    return tuple(order[:limit])
