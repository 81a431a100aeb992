"""Metrics as a data frame, and estimates with their intervals as text."""

import math
from collections.abc import Sequence

import pandas as pd

from tabsynth.evaluation.metric import Metric
from tabsynth.evaluation.results import Estimate
from tabsynth.report.page import format_number


def metrics_frame(metrics: Sequence[Metric]) -> pd.DataFrame:
    """Return a row per metric, by its key: value, interval, n, both references, citation."""
    rows = [
        {
            "kind": metric.kind,
            "title": metric.title,
            "value": metric.value,
            "low": metric.low,
            "high": metric.high,
            "n": metric.n,
            **_columns("holdout", metric.holdout),
            **_columns("baseline", metric.baseline),
            "better": metric.better,
            "best": math.nan if metric.best is None else metric.best,
            "below_baseline": metric.below_baseline,
            "citation": metric.citation,
        }
        for metric in metrics
    ]
    return pd.DataFrame(rows, index=pd.Index([m.key for m in metrics], name="metric"))


def _columns(name: str, estimate: Estimate | None) -> dict[str, float]:
    value, low, high = (math.nan,) * 3
    if estimate is not None:
        value, low, high = estimate.value, estimate.low, estimate.high
    return {name: value, f"{name}_low": low, f"{name}_high": high}


def with_interval(estimate: Estimate | None, level: str = "") -> str:
    """Return ``0.412 (0.401 to 0.423)``, with ``level`` before the ends; an en dash where there is nothing."""
    if estimate is None or not math.isfinite(estimate.value):
        return "–"
    value, low, high = (
        format_number(part, style="grouped")
        for part in (estimate.value, estimate.low, estimate.high)
    )
    return f"{value} ({level}{low} to {high})" if math.isfinite(estimate.low) else value
