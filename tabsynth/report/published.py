"""The report of `evaluate_private`, which may be published with its table: what is of private rows has charged noise."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import pandas as pd

from tabsynth._files import json_ready
from tabsynth.evaluation import publishing
from tabsynth.evaluation.metric import Metric
from tabsynth.evaluation.publishing import ALONE, PrivateEvaluation
from tabsynth.evaluation.results import Estimate
from tabsynth.privacy.certificate.certificate import conditional_of, epsilon_to_json, rounded_up
from tabsynth.privacy.noise.counts import stated_count
from tabsynth.report.certificates import condition_sentence, unauthenticated
from tabsynth.report.definitions import defined, definition_of
from tabsynth.report.page import render_page, with_link
from tabsynth.report.tabular import metrics_frame, table, with_interval
from tabsynth.report.written import WrittenReport, as_report, markdown
from tabsynth.schema.design import neighbour_of

FORMAT = "tabsynth-published-report/3"


@dataclass(frozen=True)
class PublishedReport(WrittenReport):
    """What :func:`tabsynth.evaluate_private` measured, to be read and written."""

    confidential: ClassVar[bool] = False
    evaluation: PrivateEvaluation

    @property
    def label(self) -> str:
        """The name of the synthetic table."""
        return self.evaluation.label

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """Every figure: with noise, or of the synthetic table alone."""
        return self.evaluation.metrics

    @property
    def epsilon(self) -> float:
        """Privacy cost of the figures alone."""
        return self.evaluation.epsilon

    @property
    def delta(self) -> float:
        """δ of that cost."""
        return self.evaluation.delta

    @property
    def mechanisms(self) -> tuple[dict[str, Any], ...]:
        """The mechanisms of the figures, as a certificate lists them."""
        return self.evaluation.mechanisms

    @property
    def certificate(self) -> Mapping[str, Any]:
        """The certificate of the table."""
        return self.evaluation.certificate

    @property
    def authenticated(self) -> bool:
        """Whether its signature was checked against a key that the caller gave."""
        return self.evaluation.authenticated

    @property
    def project(self) -> Mapping[str, Any] | None:
        """The statement of the project ledger, if the figures were charged to one."""
        return self.evaluation.project

    @property
    def budget(self) -> tuple[float, float] | None:
        """(epsilon, delta) of that ledger."""
        return self.evaluation.budget

    @property
    def conditional(self) -> list[str]:
        """The columns on which the claim depends, as the table's certificate has them."""
        return conditional_of(self.certificate.get("public"))

    @property
    def statement(self) -> str:
        """The cost of the figures; under a project's ledger, first the budget that covers all fits and reports.

        A condition comes before it.
        """
        condition = condition_sentence(self.certificate)
        unit = neighbour_of(self.evaluation.unit)
        cost = f"({rounded_up(self.epsilon)}, {self.delta:g})"
        figures_alone = (
            f"The figures alone cost {cost}-differential privacy for adding or removing {unit}."
        )
        if self.project is None or self.budget is None:
            stated = figures_alone
        elif math.isinf(self.budget[0]):
            stated = f"{figures_alone} Ledger {self.project['ledger']} counts them, but has no limit: it bounds no total."
        else:
            epsilon, delta = self.budget
            stated = (
                f"All fits and reports under ledger {self.project['ledger']}, these figures among them, are together within its"
                f" budget, ({rounded_up(epsilon)}, {delta:g})-differential privacy for adding or removing {unit}. The figures"
                f" alone cost {cost}."
            )
        return f"{condition} {stated}".lstrip()

    @property
    def warnings(self) -> tuple[str, ...]:
        """What a reader must not overlook, a text each."""
        alone = (ALONE,) if self.project is None else ()
        return alone if self.authenticated else (*alone, unauthenticated(self.certificate))

    def summary(self) -> list[str]:
        """The findings in plain words; a conditional statement comes first, any other last."""
        out: list[str] = []
        for metric in self.metrics:
            baseline = (
                ""
                if metric.baseline is None
                else f"; its independent columns {_stated(metric, metric.baseline)}"
            )
            out.append(f"{metric.title}: {_stated(metric, metric.synthetic)}{baseline}.")
        worse = [metric.title for metric in self.metrics if metric.below_baseline]
        if worse:
            out.append(f"WORSE than its own independent columns by {'; '.join(worse)}.")
        warned = [f"Warning: {text}" for text in self.warnings]
        if self.conditional:
            return [self.statement, *out, *warned]
        return [*out, self.statement, *warned]

    def to_dict(self) -> dict[str, Any]:
        """Everything, ready for JSON."""
        return {
            "format": FORMAT,
            "label": self.label,
            "statement": self.statement,
            "conditional": self.conditional,
            "summary": self.summary(),
            "epsilon": self.epsilon,
            "delta": self.delta,
            **({} if self.evaluation.unit is None else {"unit": self.evaluation.unit}),
            **self._weight(),
            "warnings": list(self.warnings),
            "mechanisms": json_ready(list(self.mechanisms)),
            "metrics": [metric.to_dict() for metric in self.metrics],
            "certificate": json_ready(dict(self.certificate)),
            "authenticated": self.authenticated,
            "schema_sha256": self.evaluation.schema_sha256,
            "created": self.evaluation.created,
            **({} if self.project is None else {"project": json_ready(dict(self.project))}),
            **(
                {} if self.budget is None else {"budget": [epsilon_to_json(x) for x in self.budget]}
            ),
        }

    def _weight(self) -> dict[str, Any]:
        """The survey weights of the figures, as a schema file has them."""
        column, most = self.evaluation.weight, self.evaluation.max_weight
        return {} if column is None else {"weight": {"column": column, "max": most}}

    def to_frame(self) -> pd.DataFrame:
        """A row per metric, as :meth:`tabsynth.report.Report.to_frame`."""
        return metrics_frame(self.metrics)

    def _markdown(self) -> str:
        rows = [
            [m.title, _stated(m, m.synthetic), _stated(m, m.baseline), m.better, m.citation]
            for m in self.metrics
        ]
        header = ("Figure", "Synthetic", "Independent columns", "Better", "Citation")
        return markdown(self.label, self.summary(), table(header, rows))

    def _html(self) -> str:
        frame = [
            (
                with_link(metric.title, definition_of(metric.key, ("published",))),
                [_stated(metric, metric.synthetic), _stated(metric, metric.baseline)],
                metric.below_baseline,
            )
            for metric in self.metrics
        ]
        header = ("Figure", "Synthetic", "Independent columns")
        return render_page(
            self.label,
            "published report",
            self.summary(),
            [(header, frame)],
            [],
            definitions=defined([metric.key for metric in self.metrics], ("published",)),
        )


def _stated(metric: Metric, estimate: Estimate | None) -> str:
    """A figure with its 95% interval; an en dash where there is none."""
    if estimate is not None and metric.kind == "shown":  # a number of rows or people
        return stated_count(estimate.value, (estimate.low, estimate.high))
    return with_interval(estimate, "95%: ")


evaluate_private = as_report(publishing.evaluate_private, PublishedReport)
