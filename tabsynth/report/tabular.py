"""Metrics as a data frame, and tables as Markdown."""

import math
from collections.abc import Sequence

import pandas as pd

from tabsynth.evaluation.metric import Metric
from tabsynth.evaluation.results import Estimate
from tabsynth.report.page import Table, View, format_number


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


def markdown_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table; bars in cells are escaped."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(_cell(cell) for cell in line) + " |" for line in lines)


def _cell(text: str) -> str:
    """Return one line, with nothing in it that Markdown or HTML would act upon."""
    text = " ".join(text.split()).replace("&", "&amp;").replace("<", "&lt;").replace("\\", "\\\\")
    for sign in "|*_`[]":
        text = text.replace(sign, "\\" + sign)
    return text


def escape(text: str) -> str:
    """Return a text for a Markdown paragraph or heading."""
    return _cell(text).replace("\\|", "|").replace("#", "\\#")


def to_markdown(view: View) -> str:
    """Return the title of a report, the lines of its summary and its tables as Markdown."""
    parts = [f"# {escape(view.title)}", "\n".join(f"- {escape(line)}" for line in view.sentences())]
    parts += [_table_text(table) for table in view.tables() if table.rows]
    return "\n\n".join(parts) + "\n"


def _table_text(table: Table) -> str:
    rows = [[row.name, *row.cells] for row in table.rows]
    return f"## {escape(table.header[0])}\n\n{markdown_table(table.header, rows)}"
