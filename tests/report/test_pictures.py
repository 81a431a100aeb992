"""The pictures: contrast, marks, intervals, references, labels that stay apart, all pairs as a table."""

import math
import re
from dataclasses import replace
from xml.etree import ElementTree

import numpy as np
import pytest
from report_tables import report, schema, table

from tabsynth import Schema, evaluate
from tabsynth.evaluation import EvaluationConfig, independent_columns
from tabsynth.evaluation.column_summaries import column_summaries
from tabsynth.evaluation.results import Estimate
from tabsynth.evaluation.utility.marginals import distance_metric, distances
from tabsynth.report import Report, figures
from tabsynth.report.heatmap import SHAPES, heat_map, strip
from tabsynth.report.page import packaged_text, render
from tabsynth.schema import Column

UNKNOWN = Estimate(math.nan, math.nan, math.nan, 0)


def palettes():
    """The colours of the light, the dark and the printed page, by name."""
    css = packaged_text("style.css")
    light, dark, printed = (dict(re.findall(r"--([\w-]+): (#\w+)", b)) for b in _blocks(css))
    return {"light": light, "dark": {**light, **dark}, "print": {**light, **printed}}


def _blocks(css):
    return [
        result for result in re.findall(r":root \{(.*?)\}", css, re.DOTALL) if "--ink" in result
    ]


def luminance(colour):
    """WCAG 2.2: relative luminance of sRGB."""
    digits = colour[1:] if len(colour) == 7 else "".join(2 * d for d in colour[1:])
    parts = [int(digits[i : i + 2], 16) / 255 for i in (0, 2, 4)]
    parts = [v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4 for v in parts]
    return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]


def contrast(one, other):
    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def test_contrast_by_the_formula():
    assert contrast("#fff", "#000000") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.005)  # a published example
    assert contrast("#e08a2e", "#fff") < 3  # the orange before this one


@pytest.mark.parametrize("name", ["light", "dark", "print"])
def test_every_colour_stands_out(name):
    colours = palettes()[name]
    for graphic in ("real", "synthetic", "grey"):
        assert contrast(colours[graphic], colours["paper"]) >= 3, graphic
    for text in ("ink", "soft"):
        for ground in ("paper", "page"):
            assert contrast(colours[text], colours[ground]) >= 4.5, (text, ground)
    for kind in ("warn", "bad", "good"):
        assert contrast(colours[f"{kind}-ink"], colours[kind]) >= 4.5, kind
    for level in range(6):  # the numbers in the cells of the heat map
        assert contrast(colours["paper" if level > 3 else "ink"], colours[f"h{level}"]) >= 4.5, (
            level
        )


def test_images_have_the_colours_of_the_page():
    result = palettes()
    for name, colour in (
        ("real", figures.REAL),
        ("synthetic", figures.SYNTHETIC),
        ("grey", figures.REFERENCE),
        ("ink", figures.INK),
        ("soft", figures.SOFT),
    ):
        assert (result["light"][name], result["dark"][name]) == (colour, figures.DARK[colour])
    (marginal,) = column_summaries(schema().select(["mean"]), *np.arange(60).reshape(2, 30, 1))
    svg = figures.marginal_figure(marginal)
    style = next(e.text for e in ElementTree.fromstring(svg).iter() if e.tag.endswith("}style"))
    assert "prefers-color-scheme: dark" in style and figures.DARK[figures.REAL] in style
    # No colour in the image that a dark page would leave as it is.
    used = set(re.findall(r"(?:fill|stroke): (#\w{6})", svg.replace(style, "")))
    assert used <= figures.DARK.keys() | {"#ffffff"}


def test_marks_differ_by_shape():
    assert len(set(SHAPES.values())) == 4
    marks = strip({name: Estimate(0.5, 0.4, 0.6, 9) for name in SHAPES}, 1.0)["marks"]
    assert [mark["name"] for mark in marks] == list(SHAPES)


def marks(svg, kind):
    """The elements of an image whose identifier begins with a kind of matplotlib's."""
    return [e for e in ElementTree.fromstring(svg).iter() if e.get("id", "").startswith(kind)]


def wide(columns):
    """Columns of the kinds whose pictures are the largest."""
    return Schema(
        [
            Column(
                name=f"c{i}", kind="numeric", dtype="float64", low=0, high=1, bins=200, nulls=True
            )
            if i % 2
            else Column(
                name=f"c{i}", kind="categorical", dtype="int64", categories=tuple(range(60))
            )
            for i in range(columns)
        ]
    )


def measured(columns, rng):
    """Distances of singles and pairs, and marginals, of tables of noise."""
    declared = wide(columns)
    train, other = (
        np.stack([rng.integers(0, size, 100) for size in declared.sizes], axis=1) for _ in "ab"
    )
    about = {"names": declared.names, "sizes": declared.sizes, "seed": 0}
    tables = (other, independent_columns(train, 100, rng), None)
    result = tuple(distances(train, tables, order, **about) for order in (1, 2))
    return result, column_summaries(declared, train, other)


@pytest.mark.slow
def test_wide_reports_are_small_and_name_the_worst_pairs(tmp_path):
    rng = np.random.default_rng(0)
    base = evaluate(
        table(60, 0), table(60, 1), schema=schema(), config=EvaluationConfig(m=5, k=(1,))
    )
    for columns, drawn, words in ((24, 24, "All 276 pairs"), (33, 1, "The worst 500 of 528 pairs")):
        result, marginals = measured(columns, rng)
        kept = [m for m in base.evaluation.metrics if not m.key.startswith("tvd")]
        evaluation = replace(
            base.evaluation,
            metrics=(*map(distance_metric, result), *kept),
            columns=marginals[:drawn],
        )
        Report(evaluation).to_html(tmp_path / "r.html", overwrite=True)
        text = (tmp_path / "r.html").read_text("utf-8")
        assert len(text.encode()) < 3_000_000 and words in text
        pairs = text.split('<details class="pairs">')[1].split("</details>")[0]
        shown = [float(value) for value in re.findall(r"<td>([\d.]+)</td>", pairs)]
        assert len(shown) == min(500, columns * (columns - 1) // 2)
        assert shown == sorted(shown, reverse=True)
    worst = max(result[1].synthetic.marginals, key=lambda item: item.value)
    assert f"{' × '.join(worst.columns)}</th><td>{worst.value:.3f}" in pairs


def test_a_heat_map_has_its_natural_width():
    result, marginals = measured(10, np.random.default_rng(1))
    evaluation = replace(
        report().evaluation, metrics=tuple(map(distance_metric, result)), columns=marginals
    )
    svg = ElementTree.fromstring(render("heat.svg", heat=heat_map(evaluation)))
    width, height = float(svg.get("width")), float(svg.get("height"))
    assert svg.get("viewBox") == f"0 0 {width:g} {height:g}" and width <= 320
