"""The pictures: contrast, marks, intervals, references, labels that stay apart, all pairs as a table."""

import math
import re
from dataclasses import replace
from xml.etree import ElementTree

import numpy as np
import pytest
from report_tables import schema, table

from tabsynth import Schema, compare, evaluate
from tabsynth.evaluation import EvaluationConfig, independent_columns
from tabsynth.evaluation.column_summaries import column_summaries
from tabsynth.evaluation.results import Estimate
from tabsynth.evaluation.utility.marginals import distance_metric, distances
from tabsynth.report import Report, figures
from tabsynth.report.comparison import _pictures
from tabsynth.report.heatmap import SHAPES, heat_map, strip
from tabsynth.report.page import packaged_text
from tabsynth.report.scatter import WIDTH, Point, epsilon_axis, forest_plot, linear, scatter
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
    assert len(set(SHAPES.values())) == 3
    text = strip(0, 1, [(name, 0.5, 0.4, 0.6) for name in SHAPES])
    assert all(shape in text for shape in SHAPES.values())


def test_round_ticks_hold_all_that_is_drawn():
    for low, high in ((-0.0576, 0.092), (612.3, 911.0), (3e-5, 9e-5), (0, 0)):
        axis = linear("t", [Estimate((low + high) / 2, low, high, 9)], [(0.0, "none")])
        values = [value for value, _ in axis.ticks]
        assert axis.low <= min(low, 0) and axis.high >= max(high, 0)
        assert [axis.low, axis.high] == [values[0], values[-1]] and 2 < len(values) <= 8
        for value, text in axis.ticks:
            assert float(text.replace("\N{MINUS SIGN}", "-")) == pytest.approx(value, abs=1e-12)
            assert len(text.strip("\N{MINUS SIGN}0.")) <= 3


def test_the_axis_of_epsilon_names_epsilons():
    axis, places = epsilon_axis([1.0, 0.5, 1.0, math.inf, 8.0])
    assert [text for _, text in axis.ticks] == ["0.5", "1", "8", "none"]
    assert places[1] == pytest.approx(math.log10(0.5)) and places[4] == pytest.approx(math.log10(8))
    assert places[0] < 0 < places[2] and places[0] + places[2] == pytest.approx(0)
    assert axis.low < min(places) and max(places) < axis.high and places[3] == max(places)


def test_intervals_references_and_numbers_that_stay_apart():
    rng = np.random.default_rng(0)
    values = rng.normal((0.02, 700), 0.01, (12, 2))
    points = [
        Point(
            i + 1, f"t<{i}>", Estimate(x, x - 0.03, x + 0.03, 9), Estimate(y, y - 9, y + 9, 9), ""
        )
        for i, (x, y) in enumerate(values)
    ]
    x = linear("leak", [p.x for p in points], [(0.0, "no leakage")])
    y = linear("score", [p.y for p in points], [(702.0, "holdout"), (701.9, "shuffled")])
    svg, key = scatter(points, x, y).split("<ol")
    tree = ElementTree.fromstring(svg)
    kinds = [element.get("class") for element in tree.iter()]
    assert kinds.count("whisker") == 24 and kinds.count("reference") == 3
    assert key.count("<li") == 12 and "t&lt;11&gt;" in key and "t&lt;11&gt;" in svg
    boxes = [
        (float(e.get("x")), float(e.get("y")))
        for e in tree.iter()
        if e.get("class") == "number" or e.text in ("holdout", "shuffled")
    ]
    for i, (a, b) in enumerate(boxes):
        assert 0 < a < WIDTH
        assert all(abs(a - c) > 12 or abs(b - d) > 12 for c, d in boxes[:i])


@pytest.mark.slow
def test_without_a_privacy_axis_utility_is_shown_alone(tmp_path):
    facts = {"schema": schema(), "config": EvaluationConfig(m=5, k=(1,))}
    created = [evaluate(table(90, 0), table(80, s), label=f"t{s}", **facts) for s in (1, 2)]
    both = compare(created)
    ((heading, picture),) = _pictures(both.evaluation)
    assert heading.startswith("Utility:") and picture.count('class="whisker"') == 2
    assert "independent columns" in picture and "t1" in picture and "t2" in picture
    both.to_html(tmp_path / "c.html")
    assert (tmp_path / "c.html").read_text("utf-8").count("<svg") == 1
    assert "–" in forest_plot([("x", UNKNOWN)], linear("t", [], [(0.0, "a"), (1.0, "b")]))


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
        Report(evaluation).to_html(tmp_path / "r.html")
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
    svg = ElementTree.fromstring(heat_map(result, [item.column for item in marginals]))
    width, height = float(svg.get("width")), float(svg.get("height"))
    assert svg.get("viewBox") == f"0 0 {width:g} {height:g}" and width <= 320
