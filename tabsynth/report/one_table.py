"""The report of one synthetic table: words, JSON, Markdown, and one HTML page that loads nothing else."""

import base64
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from markupsafe import Markup

from tabsynth.evaluation.column_summaries import QUANTILES
from tabsynth.evaluation.metric import Evaluation, Metric
from tabsynth.evaluation.results import ColumnSummary, Estimate
from tabsynth.evaluation.utility.prediction import MAX_CLASSES, folded_columns
from tabsynth.evaluation.utility.survey import LEAST_ROWS
from tabsynth.report.certificates import privacy_panel
from tabsynth.report.definitions import definition_of, definitions_of, of_group
from tabsynth.report.figures import curve_figure, disclosure_figure, marginal_figure
from tabsynth.report.glossary import GLOSSARY, SECTIONS
from tabsynth.report.heatmap import heat_map, strip
from tabsynth.report.page import environment, format_number, packaged_text, shorten, with_link
from tabsynth.report.summary import (
    NOTICE,
    STANDARD_ERRORS,
    SURVEY_KINDS,
    equal_rows,
    subtitle,
    summarise,
)
from tabsynth.report.tabular import markdown_page, metrics_markdown

FORMAT = "tabsynth-report/4"
MAX_PICTURES = 64
KINDS = (
    (
        "utility",
        "Utility: every metric",
        "The hold-out reference is the same figure of real rows that no synthesizer saw. A synthetic table at the"
        " reference is as good as other real rows; it can be nearer to the training table than the reference, because"
        " it was fitted to that table. Independent columns keep no relation between columns. On single columns they are"
        " right by construction, so there they are no reference.",
    ),
    (
        "privacy",
        "Attacks: every metric",
        "Each attack is tried on people of the training table and on a control group. An attack that fails is no"
        " evidence of leakage, but it proves nothing; the guarantee is ε. The hold-out reference and independent"
        " columns hold no row of these people, so there an attack can only find chance: its 95% interval excludes"
        " the best value in about one case of twenty.",
    ),
    (
        "shown",
        "Distance to the nearest row (not a privacy metric)",
        "Readers ask for distances to the nearest row. They are no evidence of privacy, and they are in no verdict.",
    ),
)
ANCHORS = {"utility": "utility", "privacy": "attacks", "shown": "nearest"}
WORST = 10
MAX_PAIRS = 500  # in the table beside the heat map
SHOWN_ESTIMATES = 20  # of each kind, of the population
CAPTION = 200  # letters of a column's description


@dataclass(frozen=True)
class Picture:
    """An image as a data URI, with its title, what it shows in words, a remark and a caption."""

    title: str
    source: str
    alt: str
    remark: str = ""
    caption: str = ""


def summary(evaluation: Evaluation) -> list[str]:
    """Return the results in plain words, a sentence or a few for each."""
    return summarise(evaluation)


def document(evaluation: Evaluation) -> dict[str, Any]:
    """Return everything, ready for JSON."""
    return {
        "format": FORMAT,
        "notice": NOTICE,
        "label": evaluation.label,
        "verdict": evaluation.verdict.text,
        "summary": summarise(evaluation),
        "evaluation": evaluation.to_dict(),
    }


def markdown(evaluation: Evaluation) -> str:
    """Return the summary and every metric as Markdown."""
    return markdown_page(
        evaluation.label, summarise(evaluation), metrics_markdown(evaluation.metrics)
    )


def page(evaluation: Evaluation) -> str:
    """Return the text of the HTML page."""
    templates = environment()
    templates.filters["number"] = format_number
    templates.filters["interval"] = interval
    templates.filters["share"] = percentage
    templates.filters["with_link"] = with_link
    templates.globals["value_on"] = value_on
    templates.globals["definition"] = partial(definition_of, groups=("utility", "attacks", "page"))
    templates.filters["figure"] = partial(format_number, style="scaled")
    return templates.from_string(packaged_text("template.html")).render(
        sentences=summarise(evaluation),
        css=Markup(packaged_text("style.css")),  # our own file, never data
        notice=NOTICE,
        evaluation=evaluation,
        panel=privacy_panel(
            evaluation.certificate,
            evaluation.rows["synthetic"],
            evaluation.schema_sha256,
            authenticated=evaluation.authenticated,
        ),
        disclosure=_disclosure(evaluation),
        marginals=[_marginal(item) for item in evaluation.furthest_columns(MAX_PICTURES)],
        max_classes=MAX_CLASSES,
        folded=folded_columns(evaluation.prediction),
        not_predicted=evaluation.unpredicted,
        left_out=max(0, len(evaluation.columns) - MAX_PICTURES),
        worst=[(item, item.synthetic.furthest(WORST)) for item in evaluation.distances],
        heat=heat_map(evaluation.distances, [item.column for item in evaluation.columns]),
        pairs=evaluation.distances[1].synthetic.furthest(MAX_PAIRS)
        if len(evaluation.distances) > 1
        else (),
        kinds=[
            (
                ANCHORS[kind],
                title,
                note,
                [(metric, _strip(metric)) for metric in evaluation.metrics if metric.kind == kind],
            )
            for kind, title, note in KINDS
        ],
        attacked=evaluation.attacked,
        moments=[item for item in evaluation.columns if item.moments is not None],
        heaped=[item for item in evaluation.columns if item.heaping is not None],
        standard_errors=STANDARD_ERRORS,
        subtitle=subtitle(evaluation),
        sections=[item for item in SECTIONS if item[0] != "survey" or evaluation.survey],
        survey=evaluation.survey,
        survey_kinds=SURVEY_KINDS,
        least_rows=LEAST_ROWS,
        shown_estimates=SHOWN_ESTIMATES,
        glossary=GLOSSARY,
        definitions=[
            *definitions_of([metric.key for metric in evaluation.metrics]),
            *of_group("page"),
        ],
        quantiles=[f"{100 * q:g}%" for q in QUANTILES],
        equal_rows=equal_rows(evaluation),
        curves=_curves(evaluation.certificate),
    )


def interval(estimate: Estimate, digits: int = 3) -> str:
    """Return the ends of an interval; "to" survives a minus sign where a dash would not."""
    return f"{format_number(estimate.low, digits)} to {format_number(estimate.high, digits)}"


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


def percentage(share: float) -> str:
    """Return a share of rows with one decimal; one that is not 0 never looks like it."""
    return "<0.1%" if 0 < share < 0.0005 else f"{share:.1%}"


def _strip(metric: Metric) -> Markup:
    """Return the metric and its references on one axis, which the best value is on too."""
    marks = [
        (name, estimate.value, estimate.low, estimate.high)
        for name, estimate in (
            ("baseline", metric.baseline if metric.of_relations else None),
            ("holdout", metric.holdout),
            ("synthetic", metric.synthetic),
        )
        if estimate is not None
    ]
    ends = [x for _, *three in marks for x in three if math.isfinite(x)]
    ends += [] if metric.best is None else [metric.best]
    return strip(min(ends, default=0.0), max(ends, default=1.0), marks)


def _uri(svg: str) -> str:
    return "data:image/svg+xml;base64," + base64.b64encode(svg.encode()).decode()


def _disclosure(evaluation: Evaluation) -> Picture | None:
    disclosure = evaluation.disclosure
    if disclosure.mean is None:
        return None
    parts = []
    for cell in disclosure.cells:
        control = "" if cell.control is None else f" (control {cell.control.value:.0%})"
        parts.append(f"s={cell.s}, k={cell.k}: {cell.target.value:.0%}{control}")
    alt = "Share of unknown attributes guessed right. " + "; ".join(parts) + "."
    return Picture("Attribute disclosure", _uri(disclosure_figure(disclosure)), alt)


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
    caption = shorten(item.description or "", CAPTION)
    return Picture(item.column, _uri(marginal_figure(item)), alt, remark, caption)


def _curves(certificate: Mapping[str, Any] | None) -> list[Picture]:
    training = (certificate or {}).get("training")
    curves = training.get("curves") if isinstance(training, Mapping) else None
    out = []
    for name, curve in curves.items() if isinstance(curves, Mapping) else ():
        svg = curve_figure(str(name), curve) if isinstance(curve, Mapping) else None
        if svg is not None:
            last = f"Training curve of {name}, {len(curve['value'])} points."
            out.append(Picture(str(name), _uri(svg), last))
    return out
