"""The comparison of several synthetic tables of one schema: text, tables and plots."""

import math
from collections.abc import Sequence
from typing import Any

import pandas as pd
from markupsafe import Markup

from tabsynth.evaluation.claims import is_conditional, is_private
from tabsynth.evaluation.comparing import Comparison
from tabsynth.evaluation.metric import Evaluation
from tabsynth.evaluation.results import Estimate
from tabsynth.report import one_table
from tabsynth.report.certificates import epsilon_text
from tabsynth.report.definitions import definition_of, definitions_of
from tabsynth.report.page import render_page, with_link
from tabsynth.report.scatter import Point, epsilon_axis, forest_plot, linear, scatter
from tabsynth.report.summary import NOTICE
from tabsynth.report.tabular import metrics_frame, table, with_interval

FORMAT = "tabsynth-comparison/2"
UTILITY_KEY, PRIVACY_KEY = "k_marginal", "attribute_disclosure"


def summary(comparison: Comparison) -> list[str]:
    """Return the verdicts, and by how many metrics of utility each table is best."""
    out = [
        f"{item.label}: {item.verdict.text}, {_epsilon_text(item)}."
        for item in comparison.evaluations
    ]
    wins = comparison.wins
    counts = "; ".join(f"{label} {count}" for label, count in wins.items())
    out.append(
        f"Number of utility metrics by which each table is best: {counts}. In"
        f" {comparison.clear_wins} of {sum(wins.values())} the interval of the best table is clear of all others."
    )
    out.append(
        f"The hold-out reference and independent columns are those of the report of {comparison.labels[0]}; the"
        " other reports drew their own independent columns."
    )
    return out


def document(comparison: Comparison) -> dict[str, Any]:
    """Return everything, ready for JSON."""
    return {
        "format": FORMAT,
        "notice": NOTICE,
        "summary": summary(comparison),
        "reports": [one_table.document(item) for item in comparison.evaluations],
    }


def frame(comparison: Comparison) -> pd.DataFrame:
    """Return a row per table and metric, with ``label`` and ``epsilon``."""
    frames = []
    for evaluation, epsilon in zip(comparison.evaluations, comparison.epsilons, strict=True):
        frame = metrics_frame(evaluation.metrics).reset_index()
        frame.insert(0, "epsilon", epsilon)
        frame.insert(0, "label", evaluation.label)
        frames.append(frame)
    return pd.concat(frames, ignore_index=True).set_index(["label", "metric"])


def markdown(comparison: Comparison) -> str:
    """Return a table with a column for each synthetic table."""
    rows = [[name, *cells] for name, cells, _ in _rows(comparison)]
    return table(_header(comparison), rows) + "\n"


def page(comparison: Comparison) -> str:
    """Return the text of the HTML page."""
    keys = [compared.key for compared in comparison.metrics]
    rows = [
        (with_link(name, definition_of(key)), cells, worse)
        for key, (name, cells, worse) in zip(keys, _rows(comparison), strict=True)
    ]
    return render_page(
        comparison.label,
        "comparison",
        summary(comparison),
        [(_header(comparison), rows)],
        _pictures(comparison),
        NOTICE,
        definitions_of(keys),
    )


def _header(comparison: Comparison) -> tuple[str, ...]:
    return ("Figure", *comparison.labels, "Hold-out reference", "Independent columns")


def _rows(comparison: Comparison) -> list[tuple[str, list[str], bool]]:
    """Return the title of each metric, its cells, and whether a table is worse than its independent columns."""
    out = []
    for compared in comparison.metrics:
        first = compared.metrics[0]
        estimates = [metric.synthetic for metric in compared.metrics]
        cells = [with_interval(item) for item in (*estimates, first.holdout, first.baseline)]
        out.append((compared.title, cells, compared.below_baseline))
    return out


def _pictures(comparison: Comparison) -> list[tuple[str, Markup]]:
    """Draw utility against what an attack gains, and against ε where some are finite, or alone."""
    compared = comparison[UTILITY_KEY]
    utility = [metric.synthetic for metric in compared.metrics]
    shown = [i for i, estimate in enumerate(utility) if math.isfinite(estimate.value)]
    if not shown:
        return []
    first = compared.metrics[0]
    references = [
        (first.holdout, "hold-out reference"),
        (first.baseline, "independent columns"),
    ]
    lines = [(e.value, name) for e, name in references if e and math.isfinite(e.value)]
    y = linear(compared.title, utility, lines)
    out = []
    leaks = [metric.synthetic for metric in comparison[PRIVACY_KEY].metrics]
    if any(math.isfinite(leak.value) for leak in leaks):
        words = [with_interval(estimate) for estimate in leaks]
        x = linear("Leakage by attribute disclosure", leaks, [(0.0, "no evidence of leakage")])
        points = _points(comparison.labels, shown, leaks, utility, words)
        out.append(("Utility against leakage: up and left is better", scatter(points, x, y)))
    if any(math.isfinite(epsilon) for epsilon in comparison.epsilons):
        x, places = epsilon_axis(comparison.epsilons)
        unknown = [Estimate(place, math.nan, math.nan, 0) for place in places]
        words = [_epsilon_text(evaluation) for evaluation in comparison.evaluations]
        points = _points(comparison.labels, shown, unknown, utility, words)
        out.append(("Utility against ε: up and left is better", scatter(points, x, y)))
    if not out:
        named = [(comparison.labels[i], utility[i]) for i in shown]
        out.append(("Utility: right is better", forest_plot(named, y)))
    return out


def _points(
    labels: Sequence[str],
    shown: Sequence[int],
    x: Sequence[Estimate],
    y: Sequence[Estimate],
    words: Sequence[str],
) -> list[Point]:
    """Return the tables that have a place on both axes."""
    return [
        Point(i + 1, labels[i], x[i], y[i], words[i]) for i in shown if math.isfinite(x[i].value)
    ]


def _epsilon_text(evaluation: Evaluation) -> str:
    certificate, claimed = evaluation.certificate, ""
    if certificate is None or not (is_private(certificate) or is_conditional(certificate)):
        return "without privacy"
    if not evaluation.authenticated:
        claimed = " (claimed, not authenticated)"
    condition = "CONDITIONAL, " if is_conditional(certificate) else ""
    return f"{condition}ε = {epsilon_text(certificate.get('epsilon'))}{claimed}"
