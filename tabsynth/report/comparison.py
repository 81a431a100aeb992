"""The comparison of several synthetic tables of one schema: text, tables and plots."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd
from markupsafe import Markup

from tabsynth._validate import shown
from tabsynth.errors import InputError
from tabsynth.evaluation.claims import is_conditional, is_private
from tabsynth.evaluation.comparing import Comparison, compare_evaluations
from tabsynth.evaluation.results import Estimate
from tabsynth.report.certificates import epsilon_text
from tabsynth.report.definitions import defined, definition_of
from tabsynth.report.page import render_page, with_link
from tabsynth.report.report import Report
from tabsynth.report.scatter import Point, epsilon_axis, forest_plot, linear, scatter
from tabsynth.report.summary import NOTICE
from tabsynth.report.tabular import metrics_frame, table, with_interval
from tabsynth.report.written import WrittenReport

FORMAT = "tabsynth-comparison/2"
UTILITY_KEY, PRIVACY_KEY = "k_marginal", "attribute_disclosure"


@dataclass(frozen=True)
class ComparisonReport(WrittenReport):
    """Reports of several synthetic tables. It is computed from real rows without noise: confidential."""

    reports: tuple[Report, ...]
    comparison: Comparison

    @property
    def labels(self) -> tuple[str, ...]:
        """What the tables are called."""
        return self.comparison.labels

    @property
    def epsilons(self) -> tuple[float, ...]:
        """What each certificate claims, authenticated or not; infinite where it claims no privacy, or only on a condition."""
        return self.comparison.epsilons

    def to_frame(self) -> pd.DataFrame:
        """A row per table and metric: as :meth:`Report.to_frame`, with ``label`` and ``epsilon``."""
        frames = []
        for report, epsilon in zip(self.reports, self.epsilons, strict=True):
            frame = metrics_frame(report.evaluation.metrics).reset_index()
            frame.insert(0, "epsilon", epsilon)
            frame.insert(0, "label", report.label)
            frames.append(frame)
        return pd.concat(frames, ignore_index=True).set_index(["label", "metric"])

    def summary(self) -> list[str]:
        """Verdicts, and which table is best by how many figures of utility."""
        out = [
            f"{report.label}: {report.verdict}, {_epsilon_text(report)}." for report in self.reports
        ]
        wins = self.comparison.wins
        counts = "; ".join(f"{label} {count}" for label, count in wins.items())
        out.append(
            f"Number of utility metrics by which each table is best: {counts}. In"
            f" {self.comparison.clear_wins} of {sum(wins.values())} the interval of the best table is clear of all others."
        )
        out.append(
            f"The hold-out reference and independent columns are those of the report of {self.labels[0]}; the"
            " other reports drew their own independent columns."
        )
        return out

    def to_dict(self) -> dict[str, Any]:
        """Everything, ready for JSON."""
        return {
            "format": FORMAT,
            "notice": NOTICE,
            "summary": self.summary(),
            "reports": [report.to_dict() for report in self.reports],
        }

    def _markdown(self) -> str:
        """Return a table with a column for each synthetic table."""
        rows = [[name, *cells] for name, cells, _ in self._table()]
        return table(self._header, rows) + "\n"

    def _html(self) -> str:
        keys = [compared.metrics[0].key for compared in self.comparison.metrics]
        rows = [
            (with_link(name, definition_of(key)), cells, worse)
            for key, (name, cells, worse) in zip(keys, self._table(), strict=True)
        ]
        return render_page(
            "Comparison",
            "comparison",
            self.summary(),
            [(self._header, rows)],
            self._pictures(),
            NOTICE,
            defined(keys),
        )

    @property
    def _header(self) -> tuple[str, ...]:
        return ("Figure", *self.labels, "Hold-out reference", "Independent columns")

    def _table(self) -> list[tuple[str, list[str], bool]]:
        out = []
        for compared in self.comparison.metrics:
            cells = [with_interval(metric.synthetic) for metric in compared.metrics]
            first = compared.metrics[0]
            cells += [with_interval(first.holdout), with_interval(first.baseline)]
            out.append((compared.title, cells, compared.below_baseline))
        return out

    def _pictures(self) -> list[tuple[str, Markup]]:
        """Utility against what an attack gains, and against ε where some are finite, or alone."""
        compared = self.comparison[UTILITY_KEY]
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
        leaks = [metric.synthetic for metric in self.comparison[PRIVACY_KEY].metrics]
        if any(math.isfinite(leak.value) for leak in leaks):
            words = [with_interval(estimate) for estimate in leaks]
            x = linear("Leakage by attribute disclosure", leaks, [(0.0, "no evidence of leakage")])
            points = self._points(shown, leaks, utility, words)
            out.append(("Utility against leakage: up and left is better", scatter(points, x, y)))
        if any(math.isfinite(epsilon) for epsilon in self.epsilons):
            x, places = epsilon_axis(self.epsilons)
            unknown = [Estimate(place, math.nan, math.nan, 0) for place in places]
            words = [_epsilon_text(report) for report in self.reports]
            points = self._points(shown, unknown, utility, words)
            out.append(("Utility against ε: up and left is better", scatter(points, x, y)))
        if not out:
            named = [(self.labels[i], utility[i]) for i in shown]
            out.append(("Utility: right is better", forest_plot(named, y)))
        return out

    def _points(
        self,
        shown: Sequence[int],
        x: Sequence[Estimate],
        y: Sequence[Estimate],
        words: Sequence[str],
    ) -> list[Point]:
        """The tables that both axes know."""
        return [
            Point(i + 1, self.labels[i], x[i], y[i], words[i])
            for i in shown
            if math.isfinite(x[i].value)
        ]


def compare(reports: Sequence[Report]) -> ComparisonReport:
    """Compare several synthetic tables of one schema, training table and hold-out.

    Raises
    ------
    InputError
        If there are not two, two have one label, or their schemas, training tables or hold-outs
        differ.
    """
    given = tuple(reports)
    if len(given) < 2 or not all(isinstance(report, Report) for report in given):
        raise InputError(f"Expected two or more reports to compare, got {shown(reports)}.")
    return ComparisonReport(given, compare_evaluations([report.evaluation for report in given]))


def _epsilon_text(report: Report) -> str:
    certificate, claimed = report.certificate, ""
    if certificate is None or not (is_private(certificate) or is_conditional(certificate)):
        return "without privacy"
    if not report.authenticated:
        claimed = " (claimed, not authenticated)"
    condition = "CONDITIONAL, " if is_conditional(certificate) else ""
    return f"{condition}ε = {epsilon_text(certificate.get('epsilon'))}{claimed}"
