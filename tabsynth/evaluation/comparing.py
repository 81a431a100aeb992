"""Several synthetic tables of one schema and one training table: may they be compared, and which is best?"""

import math
from collections.abc import Sequence

from tabsynth._validate import shown
from tabsynth.errors import InputError
from tabsynth.evaluation.inputs import is_private
from tabsynth.evaluation.metric import Evaluation, Metric
from tabsynth.evaluation.results import worse


def check_comparable(evaluations: Sequence[Evaluation]) -> None:
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
                f"Two reports are called {shown(item.label)}; give each its own: evaluate(label=...)."
            )
        if item.schema_sha256 != first.schema_sha256:
            raise InputError(
                f"{shown(item.label)} and {shown(first.label)} have different schemas; only tables of"
                " one schema can be compared."
            )
        if item.real_sha256 != first.real_sha256:
            raise InputError(
                f"{shown(item.label)} and {shown(first.label)} were measured against other real rows;"
                " evaluate both with the same training table and hold-out."
            )


def shared_metrics(evaluations: Sequence[Evaluation]) -> list[list[Metric]]:
    """The metrics that all tables have, each with the values of all tables."""
    by_key = [{metric.key: metric for metric in item.metrics} for item in evaluations]
    keys = [key for key in by_key[0] if all(key in metrics for metrics in by_key)]
    return [[metrics[key] for metrics in by_key] for key in keys]


def claimed_epsilon(evaluation: Evaluation) -> float:
    """ε that the certificate claims, authenticated or not; infinite without an unconditional claim."""
    if evaluation.certificate is None or not is_private(evaluation.certificate):
        return math.inf
    return float(evaluation.certificate["epsilon"])


def best_table(metrics: Sequence[Metric]) -> tuple[int | None, bool]:
    """Which table is best by a figure of utility, and whether its interval is clear of the others'."""
    first = metrics[0]
    if first.kind != "utility" or first.better == "neither":
        return None, False
    values = [_goodness(metric) if math.isfinite(metric.value) else -math.inf for metric in metrics]
    best = max(range(len(values)), key=values.__getitem__)
    if not math.isfinite(values[best]) or values.count(values[best]) > 1:
        return None, False
    others = [metric for i, metric in enumerate(metrics) if i != best]
    winner = metrics[best].synthetic
    return best, all(worse(metric.synthetic, winner, first.better, first.best) for metric in others)


def _goodness(metric: Metric) -> float:
    """The value, signed so that more is better."""
    if metric.better == "closest" and metric.best is not None:
        return -abs(metric.value - metric.best)
    return metric.value if metric.better == "higher" else -metric.value
