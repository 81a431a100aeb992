"""The report of one synthetic table: a summary, files, and one HTML page that fetches nothing from anywhere."""

import base64
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd
from markupsafe import Markup

from tabsynth._files import write_text
from tabsynth.evaluation.metric import Evaluation, Metric
from tabsynth.evaluation.prediction import MAX_CLASSES
from tabsynth.evaluation.results import Distances, Estimate, Marginal, plain
from tabsynth.report.certificates import privacy_panel
from tabsynth.report.figures import curve_figure, disclosure_figure, marginal_figure
from tabsynth.report.heatmap import heat_map, strip
from tabsynth.report.page import environment, packaged
from tabsynth.report.shown import ShownMarginal
from tabsynth.report.summary import NOTICE, summarise
from tabsynth.report.tabular import escaped, flat, metrics_frame, metrics_markdown

MAX_PICTURES = 64
KINDS = (
    (
        "utility",
        "Utility: every figure",
        "A fresh real sample is the ceiling: nobody can ask more of a synthetic table. Shuffled"
        " columns are the floor: they keep no relation between columns.",
    ),
    (
        "privacy",
        "Attacks: every figure",
        "Each attack is tried on people of the training table and on a control group. That an attack"
        " fails proves nothing; ε is what promises. A fresh real sample holds none of these"
        " people, so there the attack can only find nothing.",
    ),
    (
        "shown",
        "Shown, and evidence of nothing",
        "Distances to the nearest row are asked for. They prove no privacy, and are not part of any"
        " verdict here.",
    ),
)
WORST = 10
MAX_PAIRS = 500  # in the table beside the heat map


@dataclass(frozen=True)
class Picture:
    """An image as a data URI, with its title, what it shows in words, and a remark."""

    title: str
    source: str
    alt: str
    remark: str = ""


def render(report: "Report") -> str:
    """The HTML text of a :class:`tabsynth.report.Report`."""
    templates = environment()
    templates.filters["number"] = number
    templates.filters["interval"] = interval
    templates.filters["figure"] = figure
    evaluation = report.evaluation
    return templates.from_string(packaged("template.html")).render(
        report=report,
        css=Markup(packaged("style.css")),  # our own file, never data
        notice=NOTICE,
        evaluation=evaluation,
        panel=privacy_panel(
            report.certificate,
            evaluation.rows["synthetic"],
            report.schema_sha256,
            authenticated=report.authenticated,
        ),
        disclosure=_disclosure(evaluation),
        marginals=_marginals(report.marginals),
        max_classes=MAX_CLASSES,
        folded=any(item.classes > MAX_CLASSES for item in evaluation.prediction.columns),
        not_predicted=len(report.marginals) - len(evaluation.prediction.columns),
        left_out=max(0, len(report.marginals) - MAX_PICTURES),
        worst=[(item, worst(item)) for item in evaluation.distances],
        heat=heat_map(evaluation.distances, [item.column for item in report.marginals]),
        pairs=worst(evaluation.distances[1], MAX_PAIRS) if len(evaluation.distances) > 1 else (),
        kinds=[
            (title, note, [(m, _strip(m)) for m in evaluation.metrics if m.kind == kind])
            for kind, title, note in KINDS
        ],
        attacked=any(m.kind == "privacy" for m in evaluation.metrics),
        curves=_curves(report.certificate),
    )


def number(value: float, digits: int = 3) -> str:
    """Fixed digits; an en dash for what is not a number."""
    return f"{value:.{digits}f}" if math.isfinite(value) else "–"


def interval(estimate: Estimate, digits: int = 3) -> str:
    """The ends of an interval; "to" survives a minus sign where a dash would not."""
    return f"{number(estimate.low, digits)} to {number(estimate.high, digits)}"


def figure(value: float) -> str:
    """As :func:`number`, with fewer digits of large numbers."""
    return number(value, 1 if abs(value) >= 100 else 3)


def _strip(metric: Metric) -> Markup:
    """The metric and its references on one axis, which the best value is on too."""
    marks = [
        (name, estimate.value, estimate.low, estimate.high)
        for name, estimate in (
            ("floor", metric.floor),
            ("fresh", metric.fresh),
            ("synthetic", metric.synthetic),
        )
        if estimate is not None
    ]
    ends = [x for _, *three in marks for x in three if math.isfinite(x)]
    ends += [] if metric.best is None else [metric.best]
    return strip(min(ends, default=0.0), max(ends, default=1.0), marks)


def worst(distances: Distances, most: int = WORST) -> tuple[Marginal, ...]:
    """The marginals furthest from the training table's, furthest first."""
    order = sorted(distances.synthetic.marginals, key=lambda item: -item.value)
    return tuple(order[:most])


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


def _marginals(marginals: tuple[ShownMarginal, ...]) -> list[Picture]:
    """A picture for every column; of very wide tables, of those furthest apart."""
    furthest = sorted(marginals, key=lambda item: -item.distance)[:MAX_PICTURES]
    return [_marginal(item) for item in marginals if item in furthest]


def _marginal(item: ShownMarginal) -> Picture:
    largest = sorted(zip(item.real, item.synthetic, item.labels, strict=True), reverse=True)[:5]
    shares = "; ".join(f"{label}: {real:.1%} and {other:.1%}" for real, other, label in largest)
    alt = (
        f"Shares of the values of {item.column} in the training and the synthetic table, the"
        f" largest being {shares}. Distance {item.distance:.3f}."
    )
    remark = f"distance {item.distance:.3f}"
    if item.folded:
        remark += f"; {item.folded} rarer categories taken together"
    return Picture(item.column, _uri(marginal_figure(item)), alt, remark)


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


FORMAT = "tabsynth-report/2"


@dataclass(frozen=True, kw_only=True)
class Report:
    """What was measured of one synthetic table. Computed from real data: confidential (R18).

    Attributes
    ----------
    label : str
        What the synthetic table is called.
    evaluation : Evaluation
    marginals : tuple of ShownMarginal
    certificate : dict or None
        What came with the table; nothing is claimed without one.
    authenticated : bool
        Whether its signature was checked against a key that the reader gave. What is not authenticated is
        shown as a claim that nobody vouches for.
    schema_sha256 : str
    real_sha256 : str, of the training table's and the hold-out's rows
    created : str, UTC, ISO 8601
    versions : dict
    left_out : int
        Synthetic rows with a value that the schema does not declare: in no figure but violations.
    """

    label: str
    evaluation: Evaluation
    marginals: tuple[ShownMarginal, ...]
    certificate: Mapping[str, Any] | None
    schema_sha256: str
    real_sha256: str
    created: str
    versions: Mapping[str, str] = field(default_factory=dict)
    left_out: int = 0
    authenticated: bool = False

    @property
    def verdict(self) -> str:
        """``better than``, ``partly better than``, ``no better than`` or ``not to be told from``
        ``shuffled columns``."""
        return self.evaluation.verdict.text

    def summary(self) -> list[str]:
        """The findings in plain words, a sentence or a few for each."""
        return summarise(
            self.evaluation, self.certificate, self.left_out, authenticated=self.authenticated
        )

    def to_dict(self) -> dict[str, Any]:
        """Everything, ready for JSON: no NaN, no infinity."""
        return {
            "format": FORMAT,
            "notice": NOTICE,
            "label": self.label,
            "created": self.created,
            "verdict": self.verdict,
            "summary": self.summary(),
            "evaluation": self.evaluation.to_dict(),
            "marginals": [marginal.to_dict() for marginal in self.marginals],
            "left_out": self.left_out,
            "schema_sha256": self.schema_sha256,
            "real_sha256": self.real_sha256,
            "certificate": None if self.certificate is None else plain(dict(self.certificate)),
            "authenticated": self.authenticated,
            "versions": plain(dict(self.versions)),
        }

    def to_json(self, path: str | Path) -> None:
        """Write :meth:`to_dict` as JSON, whole or not at all."""
        text = json.dumps(self.to_dict(), indent=1, ensure_ascii=False, allow_nan=False)
        write_text(path, text + "\n")

    def to_html(self, path: str | Path) -> None:
        """Write the report as one HTML file that loads nothing else, whole or not at all."""
        write_text(path, render(self))

    def to_frame(self) -> pd.DataFrame:
        """A row per metric: value, interval, n, a fresh real sample, shuffled columns, citation."""
        return metrics_frame(self.evaluation.metrics)

    def to_markdown(self, path: str | Path | None = None) -> str:
        """The summary and every metric as Markdown; written to ``path`` if there is one."""
        parts = [f"# {escaped(self.label)}", "", *(f"- {escaped(line)}" for line in self.summary())]
        text = "\n".join(parts) + "\n\n" + metrics_markdown(self.evaluation.metrics) + "\n"
        if path is not None:
            write_text(path, text)
        return text

    def prediction_frame(self) -> pd.DataFrame:
        """Table 1: a row per column, F1 by table, ratio and gain, each with its interval.

        Columns are ``{train,synthetic,floor,ratio,gain}_{weighted,macro}`` and the same with
        ``_low`` and ``_high``; the last row is the mean.
        """
        rows: dict[int, dict[str, float]] = {}
        prediction = self.evaluation.prediction
        # A column of the table may itself be called "mean": rows are told apart by position.
        for item in (*prediction.columns, prediction.mean):
            row: dict[str, float] = {}
            for name in ("train", "synthetic", "floor", "ratio", "gain"):
                row |= flat(name, getattr(item, name))
            rows[len(rows)] = row
        frame = pd.DataFrame.from_dict(rows, orient="index")
        names = [item.column for item in prediction.columns]
        return frame.set_axis(pd.Index([*names, "mean"], name="column"), axis=0)
