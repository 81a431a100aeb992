"""The report of `evaluate_private`, which may be published with its table: figures of private rows have charged noise."""

import math
from typing import Any

from tabsynth._files import json_ready
from tabsynth.evaluation.metric import Metric
from tabsynth.evaluation.publishing import ALONE, PrivateEvaluation
from tabsynth.evaluation.results import Estimate
from tabsynth.privacy.certificate.certificate import conditional_of, epsilon_to_json, rounded_up
from tabsynth.privacy.noise.counts import stated_count
from tabsynth.report.certificates import condition_sentence, unauthenticated_claim
from tabsynth.report.definitions import definition_of, definitions_of
from tabsynth.report.page import render_page, with_link
from tabsynth.report.tabular import markdown_page, table, with_interval
from tabsynth.schema.design import neighbour_of

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


def summary(evaluation: PrivateEvaluation) -> list[str]:
    """Return the findings in plain words; a conditional statement comes first, any other last."""
    out: list[str] = []
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


def document(evaluation: PrivateEvaluation) -> dict[str, Any]:
    """Return everything, ready for JSON."""
    out: dict[str, Any] = {
        "format": FORMAT,
        "label": evaluation.label,
        "statement": statement(evaluation),
        "conditional": conditional_of(evaluation.certificate.get("public")),
        "summary": summary(evaluation),
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
    if evaluation.unit is not None:
        out["unit"] = evaluation.unit
    if evaluation.weight is not None:
        out["weight"] = {"column": evaluation.weight, "max": evaluation.max_weight}
    if evaluation.project is not None:
        out["project"] = json_ready(dict(evaluation.project))
    if evaluation.budget is not None:
        out["budget"] = [epsilon_to_json(x) for x in evaluation.budget]
    return out


def markdown(evaluation: PrivateEvaluation) -> str:
    """Return the summary and every figure as Markdown."""
    rows = [
        [m.title, _figure_text(m, m.synthetic), _figure_text(m, m.baseline), m.better, m.citation]
        for m in evaluation.metrics
    ]
    header = ("Figure", "Synthetic", "Independent columns", "Better", "Citation")
    return markdown_page(evaluation.label, summary(evaluation), table(header, rows))


def page(evaluation: PrivateEvaluation) -> str:
    """Return the text of the HTML page."""
    rows = [
        (
            with_link(metric.title, definition_of(metric.key, ("published",))),
            [_figure_text(metric, metric.synthetic), _figure_text(metric, metric.baseline)],
            metric.below_baseline,
        )
        for metric in evaluation.metrics
    ]
    return render_page(
        evaluation.label,
        "published report",
        summary(evaluation),
        [(("Figure", "Synthetic", "Independent columns"), rows)],
        definitions=definitions_of([metric.key for metric in evaluation.metrics], ("published",)),
    )


def _figure_text(metric: Metric, estimate: Estimate | None) -> str:
    """Return a figure with its 95% interval; an en dash where there is none."""
    if estimate is not None and metric.kind == "shown":  # a number of rows or people
        return stated_count(estimate.value, (estimate.low, estimate.high))
    return with_interval(estimate, "95%: ")
