"""Metrics as rows: a data frame, and Markdown."""

import math
from collections.abc import Sequence

import pandas as pd

from tabsynth.evaluation.metric import Metric
from tabsynth.evaluation.results import Estimate
from tabsynth.report.page import format_number

COLUMNS = (
    *("kind", "title", "value", "low", "high", "n"),
    *("holdout", "holdout_low", "holdout_high", "baseline", "baseline_low", "baseline_high"),
    *("better", "best", "below_baseline", "citation"),
)
_NOTHING = Estimate(math.nan, math.nan, math.nan, 0)


def metrics_frame(metrics: Sequence[Metric]) -> pd.DataFrame:
    """Return a row per metric, by its key: value, interval, n, both references, citation."""
    rows = []
    for metric in metrics:
        holdout, baseline = metric.holdout or _NOTHING, metric.baseline or _NOTHING
        rows.append(
            {
                "kind": metric.kind,
                "title": metric.title,
                "value": metric.value,
                "low": metric.low,
                "high": metric.high,
                "n": metric.n,
                "holdout": holdout.value,
                "holdout_low": holdout.low,
                "holdout_high": holdout.high,
                "baseline": baseline.value,
                "baseline_low": baseline.low,
                "baseline_high": baseline.high,
                "better": metric.better,
                "best": math.nan if metric.best is None else metric.best,
                "below_baseline": metric.below_baseline,
                "citation": metric.citation,
            }
        )
    index = pd.Index([metric.key for metric in metrics], name="metric")
    return pd.DataFrame(rows, index=index, columns=list(COLUMNS))


def with_interval(estimate: Estimate | None, level: str = "") -> str:
    """Return ``0.412 (0.401 to 0.423)``, with ``level`` before the ends; an en dash where there is nothing."""
    if estimate is None or not math.isfinite(estimate.value):
        return "–"
    if not math.isfinite(estimate.low):
        return format_number(estimate.value, style="grouped")
    value, low, high = (
        format_number(part, style="grouped")
        for part in (estimate.value, estimate.low, estimate.high)
    )
    return f"{value} ({level}{low} to {high})"


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table; bars in cells are escaped."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(_cell(cell) for cell in line) + " |" for line in lines)


def _cell(text: str) -> str:
    """Return one line, with nothing in it that Markdown or HTML would act upon."""
    text = " ".join(text.split()).replace("&", "&amp;").replace("<", "&lt;").replace("\\", "\\\\")
    for sign in "|*_`[]":
        text = text.replace(sign, "\\" + sign)
    return text


def metrics_markdown(metrics: Sequence[Metric]) -> str:
    """Return every metric with its references, utility first, as Markdown tables."""
    parts = []
    for kind, title in (
        ("utility", "Utility"),
        ("privacy", "Attacks"),
        ("shown", "Distance to the nearest row (not a privacy metric)"),
    ):
        rows = [
            [
                metric.title,
                with_interval(metric.synthetic),
                with_interval(metric.holdout),
                with_interval(metric.baseline),
                metric.better,
                str(metric.n),
                metric.citation,
            ]
            for metric in metrics
            if metric.kind == kind
        ]
        header = (
            "Metric",
            "Synthetic",
            "Hold-out reference",
            "Independent columns",
            "Better",
            "n",
            "Citation",
        )
        if rows:
            parts.append(f"## {title}\n\n{table(header, rows)}")
    return "\n\n".join(parts)


def escape(text: str) -> str:
    """Return a text for a Markdown paragraph or heading."""
    return _cell(text).replace("\\|", "|").replace("#", "\\#")


def markdown_page(title: str, lines: Sequence[str], figures: str) -> str:
    """Return a title, the lines of a summary and a table of figures as Markdown."""
    parts = [f"# {escape(title)}", "", *(f"- {escape(line)}" for line in lines)]
    return "\n".join(parts) + "\n\n" + figures + "\n"
