"""Several synthetic tables of one schema, side by side."""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
from markupsafe import Markup

from tabsynth._files import write_text
from tabsynth._validate import shown
from tabsynth.errors import InputError
from tabsynth.evaluation import Metric
from tabsynth.evaluation.results import Estimate
from tabsynth.report.certificates import epsilon_text, is_conditional, is_private
from tabsynth.report.page import render_page
from tabsynth.report.report import Report
from tabsynth.report.scatter import Point, epsilon_axis, ladder, linear, scatter
from tabsynth.report.summary import NOTICE
from tabsynth.report.tabular import metrics_frame, table, with_interval

FORMAT = "tabsynth-comparison/1"
UTILITY_KEY, PRIVACY_KEY = "k_marginal", "attribute_disclosure"


@dataclass(frozen=True)
class SideBySide:
    """Reports of several synthetic tables. Computed from real data: confidential (R18)."""

    reports: tuple[Report, ...]

    @property
    def labels(self) -> tuple[str, ...]:
        """What the tables are called."""
        return tuple(report.label for report in self.reports)

    @property
    def epsilons(self) -> tuple[float, ...]:
        """What each certificate claims, authenticated or not; infinite where it claims no privacy, or only on a condition."""
        return tuple(_epsilon(report) for report in self.reports)

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
        wins = dict.fromkeys(self.labels, 0)
        apart = 0
        for metrics in self._rows():
            best, clear = _best(metrics)
            if best is not None:
                wins[self.labels[best]] += 1
                apart += clear
        told = "; ".join(f"{label} {count}" for label, count in wins.items())
        out.append(
            f"Figures of utility by which each is best: {told}. In {apart} of {sum(wins.values())} the"
            " best one's interval is clear of all others'."
        )
        out.append(
            f"Fresh real sample and shuffled columns are shown as the report of {self.labels[0]} has"
            " them; the others drew their own shuffles."
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

    def to_json(self, path: str | Path) -> None:
        """Write :meth:`to_dict` as JSON, whole or not at all."""
        text = json.dumps(self.to_dict(), indent=1, ensure_ascii=False, allow_nan=False)
        write_text(path, text + "\n")

    def to_markdown(self, path: str | Path | None = None) -> str:
        """A table with a column for each synthetic table; written to ``path`` if there is one."""
        rows = [[name, *cells] for name, cells, _ in self._table()]
        text = table(("Figure", *self.labels, "Fresh real", "Shuffled"), rows) + "\n"
        if path is not None:
            write_text(path, text)
        return text

    def to_html(self, path: str | Path) -> None:
        """Write a page with the pictures and the table, that loads nothing else."""
        header = ("Figure", *self.labels, "Fresh real", "Shuffled")
        page = render_page(
            "Side by side",
            "comparison",
            self.summary(),
            [(header, self._table())],
            self._pictures(),
            NOTICE,
        )
        write_text(path, page)

    def _rows(self) -> list[list[Metric]]:
        """The metrics that every report has, each with all tables' values."""
        known = [{m.key: m for m in report.evaluation.metrics} for report in self.reports]
        shared = [key for key in known[0] if all(key in metrics for metrics in known)]
        return [[metrics[key] for metrics in known] for key in shared]

    def _table(self) -> list[tuple[str, list[str], bool]]:
        out = []
        for metrics in self._rows():
            cells = [with_interval(metric.synthetic) for metric in metrics]
            cells += [with_interval(metrics[0].fresh), with_interval(metrics[0].floor)]
            out.append((metrics[0].title, cells, any(m.below_floor for m in metrics)))
        return out

    def _pictures(self) -> list[tuple[str, Markup]]:
        """Utility against what an attack gains, and against ε where some are finite, or alone."""
        rows = {metrics[0].key: metrics for metrics in self._rows()}
        utility = [metric.synthetic for metric in rows[UTILITY_KEY]]
        shown = [i for i, estimate in enumerate(utility) if math.isfinite(estimate.value)]
        if not shown:
            return []
        first = rows[UTILITY_KEY][0]
        known = [(first.fresh, "fresh real sample"), (first.floor, "shuffled columns")]
        lines = [(e.value, name) for e, name in known if e and math.isfinite(e.value)]
        y = linear(rows[UTILITY_KEY][0].title, utility, lines)
        out = []
        if PRIVACY_KEY in rows:
            leaks = [metric.synthetic for metric in rows[PRIVACY_KEY]]
            told = [with_interval(estimate) for estimate in leaks]
            x = linear("Leakage by attribute disclosure", leaks, [(0.0, "no leakage")])
            points = self._points(shown, leaks, utility, told)
            out.append(("Utility against leakage: up and left is better", scatter(points, x, y)))
        if any(math.isfinite(epsilon) for epsilon in self.epsilons):
            x, places = epsilon_axis(self.epsilons)
            unknown = [Estimate(place, math.nan, math.nan, 0) for place in places]
            told = [_epsilon_text(report) for report in self.reports]
            points = self._points(shown, unknown, utility, told)
            out.append(("Utility against ε: up and left is better", scatter(points, x, y)))
        if not out:
            named = [(self.labels[i], utility[i]) for i in shown]
            out.append(("Utility: right is better", ladder(named, y)))
        return out

    def _points(
        self,
        shown: Sequence[int],
        x: Sequence[Estimate],
        y: Sequence[Estimate],
        told: Sequence[str],
    ) -> list[Point]:
        """The tables that both axes know."""
        return [
            Point(i + 1, self.labels[i], x[i], y[i], told[i])
            for i in shown
            if math.isfinite(x[i].value)
        ]


def compare(reports: Sequence[Report]) -> SideBySide:
    """Put several reports side by side.

    Raises
    ------
    InputError
        If there are not two, two have one label, or their schemas, training tables or hold-outs
        differ.
    """
    found = tuple(reports)
    if len(found) < 2 or not all(isinstance(report, Report) for report in found):
        raise InputError(f"Expected two or more reports to compare, got {shown(reports)}.")
    first, labels = found[0], [report.label for report in found]
    for report in found[1:]:
        if labels.count(report.label) > 1:
            raise InputError(
                f"Two reports are called {shown(report.label)}; give each its own: evaluate(label=...)."
            )
        if report.schema_sha256 != first.schema_sha256:
            raise InputError(
                f"{shown(report.label)} and {shown(first.label)} have different schemas; only tables of"
                " one schema can be compared."
            )
        if report.real_sha256 != first.real_sha256:
            raise InputError(
                f"{shown(report.label)} and {shown(first.label)} were measured against other real rows;"
                " evaluate both with the same training table and hold-out."
            )
    return SideBySide(found)


def _epsilon(report: Report) -> float:
    if report.certificate is None or not is_private(report.certificate):
        return math.inf
    return float(report.certificate["epsilon"])


def _epsilon_text(report: Report) -> str:
    certificate, claimed = report.certificate, ""
    if certificate is None or not (is_private(certificate) or is_conditional(certificate)):
        return "without privacy"
    if not report.authenticated:
        claimed = " (claimed, not authenticated)"
    condition = "CONDITIONAL, " if is_conditional(certificate) else ""
    return f"{condition}ε = {epsilon_text(certificate.get('epsilon'))}{claimed}"


def _best(metrics: Sequence[Metric]) -> tuple[int | None, bool]:
    """Which table is best by a figure of utility, and whether its interval is clear of the others'."""
    sign = {"higher": 1, "lower": -1}.get(metrics[0].better)
    if metrics[0].kind != "utility" or sign is None:
        return None, False
    values = [sign * m.value if math.isfinite(m.value) else -math.inf for m in metrics]
    best = max(range(len(values)), key=values.__getitem__)
    if not math.isfinite(values[best]) or values.count(values[best]) > 1:
        return None, False
    others = [m for i, m in enumerate(metrics) if i != best]
    if sign > 0:
        return best, all(metrics[best].low > m.high for m in others)
    return best, all(metrics[best].high < m.low for m in others)
