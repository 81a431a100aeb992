"""The comparison of several synthetic tables of one schema and one training table."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from tabsynth._shown import Shown
from tabsynth._validate import quote
from tabsynth.errors import InputError
from tabsynth.evaluation.claims import claimed_epsilon
from tabsynth.evaluation.metric import Evaluation, Metric


@dataclass(frozen=True)
class ComparedMetric(Shown):
    """One metric of several synthetic tables.

    Attributes
    ----------
    metrics : tuple of Metric
        One for each table.
    """

    metrics: tuple[Metric, ...]

    @property
    def key(self) -> str:
        """The key of the metric."""
        return self.metrics[0].key

    @property
    def title(self) -> str:
        """The title of the metric."""
        return self.metrics[0].title

    @property
    def below_baseline(self) -> bool:
        """True if some table is worse than its independent columns."""
        return any(metric.below_baseline for metric in self.metrics)


@dataclass(frozen=True)
class Comparison(Shown):
    """Several synthetic tables of one schema, training table and hold-out, by the metrics that all have.

    Attributes
    ----------
    evaluations : tuple of Evaluation
    metrics : tuple of ComparedMetric
    """

    confidential: ClassVar[bool] = True
    label: ClassVar[str] = "Comparison"

    evaluations: tuple[Evaluation, ...]
    metrics: tuple[ComparedMetric, ...]

    @property
    def labels(self) -> tuple[str, ...]:
        """The names of the tables."""
        return tuple(item.label for item in self.evaluations)

    @property
    def epsilons(self) -> tuple[float, ...]:
        """The claim of each certificate, authenticated or not; infinite without an unconditional claim."""
        return tuple(claimed_epsilon(item.certificate) for item in self.evaluations)

    @property
    def parts(self) -> Mapping[str, Evaluation]:
        """The evaluations by their labels."""
        return dict(zip(self.labels, self.evaluations, strict=True))

    def __getitem__(self, key: str) -> ComparedMetric:
        """Return the metric of that key; KeyError if not all tables have it."""
        for metric in self.metrics:
            if metric.key == key:
                return metric
        raise KeyError(key)


def compare_evaluations(evaluations: Sequence[Evaluation]) -> Comparison:
    """Compare two or more synthetic tables.

    Raises
    ------
    InputError
        If two tables have one label, or their schemas, training tables or hold-outs differ.
    """
    _check_comparable(evaluations)
    by_key = [{metric.key: metric for metric in item.metrics} for item in evaluations]
    keys = [key for key in by_key[0] if all(key in metrics for metrics in by_key)]
    shared = [tuple(metrics[key] for metrics in by_key) for key in keys]
    return Comparison(
        tuple(evaluations),
        tuple(map(ComparedMetric, shared)),
    )


def _check_comparable(evaluations: Sequence[Evaluation]) -> None:
    """Refuse tables that were not measured against the same real rows under one schema.

    Raises
    ------
    InputError
        If two tables have one label, or their schemas, training tables or hold-outs differ.
    """
    first, labels = evaluations[0], [item.label for item in evaluations]
    for item in evaluations[1:]:
        if labels.count(item.label) > 1:
            raise InputError(
                f"Two reports are called {quote(item.label)}; give each its own: evaluate(label=...)."
            )
        if item.schema_sha256 != first.schema_sha256:
            raise InputError(
                f"{quote(item.label)} and {quote(first.label)} have different schemas; only tables of"
                " one schema can be compared."
            )
        if item.weights != first.weights and (
            item.weights is None
            or first.weights is None
            or item.weights.population != first.weights.population
        ):
            raise InputError(
                f"{quote(item.label)} and {quote(first.label)} were measured with other survey weights; evaluate both"
                " with the same."
            )
        if item.real_sha256 != first.real_sha256:
            raise InputError(
                f"{quote(item.label)} and {quote(first.label)} were measured against other real rows;"
                " evaluate both with the same training table and hold-out."
            )
