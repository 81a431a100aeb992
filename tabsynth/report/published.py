"""The report of `evaluate_private`, which may be published with its table: figures of private rows have charged noise."""

import math
from dataclasses import dataclass

from tabsynth._files import json_ready
from tabsynth._typing import JsonObject
from tabsynth.design import neighbour_of
from tabsynth.evaluation.metric import Metric
from tabsynth.evaluation.publishing import ALONE, PrivateEvaluation
from tabsynth.evaluation.results import Estimate
from tabsynth.privacy.certificate.certificate import conditional_of, epsilon_to_json, rounded_up
from tabsynth.privacy.noise.counts import stated_count
from tabsynth.report.certificates import condition_sentence, unauthenticated_claim
from tabsynth.report.page import Row, Table, View
from tabsynth.report.tabular import with_interval

FORMAT = "tabsynth-published-report/3"


def statement(evaluation: PrivateEvaluation) -> str:
    """Return the cost of the figures; under a project's ledger, first the budget that covers all fits and reports.

    A condition comes before it.
    """
    condition = condition_sentence(evaluation.certificate)
    unit = neighbour_of(evaluation.unit)
    cost = f"({rounded_up(evaluation.epsilon)}, {evaluation.delta:g})"
    figures_alone = (
        f"The figures alone cost {cost}-differential privacy for adding or removing {unit}."
    )
    if evaluation.project is None or evaluation.budget is None:
        stated = figures_alone
    elif math.isinf(evaluation.budget[0]):
        stated = f"{figures_alone} Ledger {evaluation.project['ledger']} counts them, but has no limit: it bounds no total."
    else:
        epsilon, delta = evaluation.budget
        stated = (
            f"All fits and reports under ledger {evaluation.project['ledger']}, these figures among them, are together within its"
            f" budget, ({rounded_up(epsilon)}, {delta:g})-differential privacy for adding or removing {unit}. The figures"
            f" alone cost {cost}."
        )
    return f"{condition} {stated}".lstrip()


def warnings(evaluation: PrivateEvaluation) -> tuple[str, ...]:
    """Return the texts that a reader must not overlook."""
    alone = (ALONE,) if evaluation.project is None else ()
    if evaluation.authenticated:
        return alone
    return (*alone, unauthenticated_claim(evaluation.certificate))


@dataclass(frozen=True)
class PublishedView(View):
    """The report of figures that may be published."""

    evaluation: PrivateEvaluation
    format = FORMAT
    kind = "published report"
    notice = ""

    def sentences(self) -> list[str]:
        """Return the findings in plain words; a conditional statement comes first, any other last."""
        evaluation = self.evaluation
        out = []
        for metric in evaluation.metrics:
            baseline = (
                ""
                if metric.baseline is None
                else f"; its independent columns {_figure_text(metric, metric.baseline)}"
            )
            out.append(f"{metric.title}: {_figure_text(metric, metric.synthetic)}{baseline}.")
        worse = [metric.title for metric in evaluation.metrics if metric.below_baseline]
        if worse:
            out.append(f"WORSE than its own independent columns by {'; '.join(worse)}.")
        warned = [f"Warning: {text}" for text in warnings(evaluation)]
        if conditional_of(evaluation.certificate.get("public")):
            return [statement(evaluation), *out, *warned]
        return [*out, statement(evaluation), *warned]

    def facts(self) -> JsonObject:
        """Return the cost, the figures and the certificate, ready for JSON."""
        evaluation = self.evaluation
        out: JsonObject = {
            "statement": statement(evaluation),
            "conditional": conditional_of(evaluation.certificate.get("public")),
            "epsilon": evaluation.epsilon,
            "delta": evaluation.delta,
            "warnings": list(warnings(evaluation)),
            "mechanisms": json_ready(list(evaluation.mechanisms)),
            "metrics": [metric.to_dict() for metric in evaluation.metrics],
            "certificate": json_ready(dict(evaluation.certificate)),
            "authenticated": evaluation.authenticated,
            "schema_sha256": evaluation.schema_sha256,
            "created": evaluation.created,
        }
        weight = {"column": evaluation.weight, "max": evaluation.max_weight}
        optional = {
            "unit": evaluation.unit,
            "weight": weight if evaluation.weight is not None else None,
            "project": json_ready(evaluation.project),
            "budget": evaluation.budget and [epsilon_to_json(x) for x in evaluation.budget],
        }
        return out | {name: value for name, value in optional.items() if value is not None}

    def tables(self) -> list[Table]:
        """Return every figure beside that of independent columns."""
        rows = [
            Row(
                m.title,
                [_figure_text(m, m.synthetic), _figure_text(m, m.baseline), m.better, m.citation],
                m.definition,
                m.below_baseline,
            )
            for m in self.evaluation.metrics
        ]
        header = ("Figure", "Synthetic", "Independent columns", "Better", "Citation")
        return [Table(header, rows)]


def _figure_text(metric: Metric, estimate: Estimate | None) -> str:
    """Return a figure with its 95% interval; an en dash where there is none."""
    if estimate is not None and metric.kind == "shown":  # a number of rows or people
        return stated_count(estimate.value, (estimate.low, estimate.high))
    return with_interval(estimate, "95%: ")
