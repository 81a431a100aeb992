"""The comparison of several synthetic tables of one schema: text, tables and a forest plot."""

import math
from dataclasses import dataclass

import pandas as pd

from tabsynth._typing import JsonObject
from tabsynth.evaluation.claims import is_conditional, is_private
from tabsynth.evaluation.comparing import Comparison
from tabsynth.evaluation.metric import Evaluation
from tabsynth.evaluation.results import Estimate
from tabsynth.report.certificates import epsilon_text
from tabsynth.report.figures import Panel, forest_plot
from tabsynth.report.one_table import TableView
from tabsynth.report.page import Picture, Row, Table, View
from tabsynth.report.tabular import metrics_frame, with_interval

UTILITY_KEY, PRIVACY_KEY = "k_marginal", "attribute_disclosure"


@dataclass(frozen=True)
class ComparisonView(View):
    """The report of several synthetic tables."""

    evaluation: Comparison
    format = "tabsynth-comparison/2"
    kind = "comparison"

    def sentences(self) -> list[str]:
        """Return the verdicts."""
        comparison = self.evaluation
        out = [
            f"{item.label}: {item.verdict.text}, {_epsilon_text(item)}."
            for item in comparison.evaluations
        ]
        out.append(
            f"The hold-out reference and independent columns are those of the report of {comparison.labels[0]}; the"
            " other reports drew their own independent columns."
        )
        return out

    def facts(self) -> JsonObject:
        """Return the reports, ready for JSON."""
        return {"reports": [TableView(item).document() for item in self.evaluation.evaluations]}

    def tables(self) -> list[Table]:
        """Return a table with a column for each synthetic table; a row warns of one below its independent columns."""
        rows = []
        for compared in self.evaluation.metrics:
            first = compared.metrics[0]
            estimates = [metric.synthetic for metric in compared.metrics]
            cells = [with_interval(item) for item in (*estimates, first.holdout, first.baseline)]
            rows.append(Row(compared.title, cells, first.definition, compared.below_baseline))
        labels = self.evaluation.labels
        return [Table(("Figure", *labels, "Hold-out reference", "Independent columns"), rows)]

    def pictures(self) -> list[Picture]:
        """Draw utility beside what an attack gains and beside ε, as far as these are known."""
        comparison = self.evaluation
        panels = []
        for key, direction in ((UTILITY_KEY, "right is better"), (PRIVACY_KEY, "left is better")):
            metrics = comparison[key].metrics
            references = {"hold-out reference": metrics[0].holdout}
            references |= {"independent columns": metrics[0].baseline}
            lines = {name: e.value for name, e in references.items() if e is not None}
            if key == PRIVACY_KEY:
                lines = {"no evidence of leakage": 0.0}
            estimates = [metric.synthetic for metric in metrics]
            panels.append(Panel(comparison[key].title, direction, estimates, lines))
        claims = [Estimate(epsilon, math.nan, math.nan, 0) for epsilon in comparison.epsilons]
        panels.append(Panel("ε", "left is better", claims, logarithmic=True))
        panels = [panel for panel in panels if panel.has_marks]
        if not panels:
            return []
        alt = "; ".join(
            f"{panel.title}: "
            + ", ".join(
                f"{label} {with_interval(estimate)}"
                for label, estimate in zip(comparison.labels, panel.estimates, strict=True)
            )
            for panel in panels
        )
        return [
            Picture(
                "Utility, leakage and ε of the tables",
                forest_plot(comparison.labels, panels),
                f"{alt}.",
            )
        ]


def comparison_frame(comparison: Comparison) -> pd.DataFrame:
    """Return a row per table and metric, with ``label`` and ``epsilon``."""
    frames = []
    for evaluation, epsilon in zip(comparison.evaluations, comparison.epsilons, strict=True):
        frame = metrics_frame(evaluation.metrics).reset_index()
        frame.insert(0, "epsilon", epsilon)
        frame.insert(0, "label", evaluation.label)
        frames.append(frame)
    return pd.concat(frames, ignore_index=True).set_index(["label", "metric"])


def _epsilon_text(evaluation: Evaluation) -> str:
    certificate, claimed = evaluation.certificate, ""
    if certificate is None or not (is_private(certificate) or is_conditional(certificate)):
        return "without privacy"
    if not evaluation.authenticated:
        claimed = " (claimed, not authenticated)"
    condition = "CONDITIONAL, " if is_conditional(certificate) else ""
    return f"{condition}ε = {epsilon_text(certificate.get('epsilon'))}{claimed}"
