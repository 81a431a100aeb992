"""The report of one synthetic table: words, JSON, Markdown, and one HTML page that loads nothing else."""

import math
from dataclasses import dataclass

import numpy as np

from tabsynth._typing import JsonObject
from tabsynth.evaluation.column_summaries import QUANTILES
from tabsynth.evaluation.definitions import DEFINITIONS, definition_of
from tabsynth.evaluation.metric import Compared, Evaluation, Metric
from tabsynth.evaluation.results import ColumnSummary, Reconstruction
from tabsynth.evaluation.utility.prediction import MAX_CLASSES, folded_columns
from tabsynth.report.definitions import GLOSSARY, SECTIONS
from tabsynth.report.figures import disclosure_figure, marginal_figure
from tabsynth.report.first_screen import first_screen, panel_of
from tabsynth.report.heatmap import heat_map, strip
from tabsynth.report.page import (
    Picture,
    View,
    abbreviate,
    format_number,
    packaged_text,
    percentage,
    render,
)
from tabsynth.report.summary import (
    STANDARD_ERRORS,
    equal_rows,
    findings,
    subtitle,
    summarise,
)

MAX_PICTURES = 64
KINDS = {  # anchors and titles
    "utility": ("utility", "Utility"),
    "privacy": ("attacks", "Attacks"),
}
DIFFERENCES = {  # of attribute reconstruction: marks and titles
    "synthetic": "synthetic table",
    "holdout": "hold-out reference",
    "memorizing": "training table itself",
}
LIMITS = {
    "pictures": MAX_PICTURES,
    "classes": MAX_CLASSES,
    "worst": 10,  # sets of columns
    "pairs": 500,  # in the table beside the heat map
}
SVG = "http://www.w3.org/2000/svg"
CAPTION = 200  # letters of a column's description


@dataclass(frozen=True)
class TableView(View):
    """The report of one synthetic table."""

    evaluation: Evaluation
    format = "tabsynth-report/5"
    kind = "report"

    def sentences(self) -> list[str]:
        """Return the results in plain words, a sentence or a few for each."""
        return summarise(self.evaluation)

    def facts(self) -> JsonObject:
        """Return the verdict and the evaluation, ready for JSON."""
        return {
            "verdict": self.evaluation.verdict.text,
            "evaluation": self.evaluation.to_dict(),
        }

    def pictures(self) -> list[Picture]:
        """Return the map of the distances of columns and pairs, as an image with a style of its own."""
        heat = heat_map(self.evaluation)
        if heat is None:
            return []
        svg = render("heat.svg", heat=heat).replace("<svg", f'<svg xmlns="{SVG}"', 1)
        style = f"<style>{packaged_text('style.css')}</style></svg>"
        return [Picture("", svg.replace("</svg>", style), heat["about"])]

    def page(self) -> str:
        """Return the text of the HTML page."""
        evaluation = self.evaluation
        metrics, panel = evaluation.metrics, panel_of(evaluation)
        return render(
            "template.html",
            evaluation=evaluation,
            lines=first_screen(evaluation, panel),
            findings=findings(evaluation),
            notice=self.notice,
            panel=panel,
            subtitle=subtitle(evaluation),
            equal_rows=equal_rows(evaluation),
            standard_errors=STANDARD_ERRORS,
            sections=SECTIONS,
            kinds=KINDS,
            strip=metric_strip,
            limits=LIMITS,
            folded=folded_columns(evaluation.prediction),
            disclosure=_disclosure(evaluation),
            reconstruction=_reconstruction(evaluation),
            marginals=[_marginal(item) for item in evaluation.furthest_columns(MAX_PICTURES)],
            quantiles=[f"{100 * q:g}%" for q in QUANTILES],
            value_on=value_on,
            heat=heat_map(evaluation),
            glossary=GLOSSARY,
            definition_of=definition_of,
            definitions=[
                *dict.fromkeys(metric.definition for metric in metrics),
                *DEFINITIONS["page"],
            ],
        )


def value_on(axis: str, value: float, *, length: bool = False) -> str:
    """Return a value on an axis, or a length on it, for a table of moments."""
    if not math.isfinite(value) or axis not in ("date", "time", "duration"):
        return format_number(value, style="scaled")
    if axis == "duration" or length:
        return f"{value:,.1f} {'days' if axis == 'date' else 'h'}"
    if axis == "date":
        return str(np.datetime64(math.floor(value), "D"))
    minutes = round(60 * value)
    return f"{minutes // 60:02}:{minutes % 60:02}"


def metric_strip(metric: Metric) -> JsonObject:
    """Return the metric and its references on one axis, which the best value is on too."""
    estimates = {
        "baseline": metric.baseline if metric.of_relations else None,
        "holdout": metric.holdout,
        "synthetic": metric.synthetic,
    }
    return strip({name: e for name, e in estimates.items() if e is not None}, metric.best)


def _disclosure(evaluation: Evaluation) -> Picture | None:
    disclosure = evaluation.disclosure
    if disclosure.mean is None:
        return None
    parts = []
    for cell in disclosure.cells:
        control = "" if cell.control is None else f" (control {cell.control.value:.0%})"
        parts.append(f"s={cell.s}, k={cell.k}: {cell.target.value:.0%}{control}")
    alt = "Share of unknown attributes guessed right. " + "; ".join(parts) + "."
    return Picture("Attribute disclosure", disclosure_figure(disclosure), alt)


def _reconstruction(evaluation: Evaluation) -> JsonObject | None:
    """Return the result of attribute reconstruction, and its differences with their strips on one axis; None without it."""
    metric = next((item for item in evaluation.metrics if item.key == "reconstruction"), None)
    if metric is None or not isinstance(metric.details, Reconstruction):
        return None
    compared = Compared(metric.synthetic, metric.holdout, metric.details.memorizing)
    estimates = {n: e for n, e in zip(DIFFERENCES, compared, strict=True) if e is not None}
    axis = strip(estimates, metric.best)
    marks = {mark["name"]: {**axis, "marks": [mark]} for mark in axis["marks"]}
    rows = [(DIFFERENCES[name], e, marks.get(name, axis)) for name, e in estimates.items()]
    return {"result": metric.details, "people": metric.n // 2, "rows": rows}


def _marginal(item: ColumnSummary) -> Picture:
    shares = "; ".join(
        f"{label}: {real:.1%} and {other:.1%}" for label, real, other in item.largest(5)
    )
    alt = (
        f"Shares of the values of {item.column} in the training and the synthetic table, the"
        f" largest being {shares}. Distance {item.distance:.3f}."
    )
    remark = f"distance {item.distance:.3f}"
    if item.folded:
        remark += f"; {item.folded} rarer categories taken together"
    if any(item.outside):
        real, synthetic = map(percentage, item.outside)
        remark += f"; not shown: {real} of the training and {synthetic} of the synthetic rows"
    caption = abbreviate(item.description or "", CAPTION)
    return Picture(item.column, marginal_figure(item), alt, remark, caption)
