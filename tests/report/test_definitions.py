"""Every figure that a page can show has a definition on that page, and the documentation has the same definitions."""

import importlib.util
import math
import re
import sys
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "evaluation"))

from linked_levels import SCHEMA, frames
from report_tables import certificate, schema, table
from test_degenerate import ALL, NAMES, SCORES, SIZES, mixed, weights

from tabsynth import evaluate
from tabsynth.evaluation import Columns, EvaluationConfig, measure
from tabsynth.evaluation.charged import charged_metrics, uses
from tabsynth.evaluation.definitions import DEFINITIONS, definition_of
from tabsynth.evaluation.utility.constraints import violations
from tabsynth.privacy.accounting.mechanisms import Gaussian
from tabsynth.privacy.ledger.ledger import Ledger, PrivateTable

ROOT = Path(__file__).resolve().parents[2]
EACH = [item for items in DEFINITIONS.values() for item in items]
PAGE = DEFINITIONS["page"]
METRICS = {part: items for part, items in DEFINITIONS.items() if part != "page"}
LINK = re.compile(r'<a class="term" href="#([^"]+)">(.*?)</a>')


@pytest.fixture(scope="module")
def linked():
    parts = (frames(i, 40) for i in range(3))
    return evaluate(*parts, schema=SCHEMA, config=EvaluationConfig(m=10))


def metrics_of_one_table():
    """Every metric of one table that :func:`tabsynth.evaluate` can return."""
    tables = (mixed(90), mixed(90, 1), mixed(60, 2))
    given = weights(*tables)
    measured = measure(
        *tables,
        replace(ALL, by=(0,), numbers=(3,)),
        weights=given,
        config=EvaluationConfig(m=10, k=(1,)),
        extra=[
            violations(np.zeros((5, 0), dtype=bool), np.ones(5, dtype=bool), [], []),
        ],
    )
    return measured.metrics


def charged_figures():
    """Every figure that :func:`tabsynth.evaluate_private` can return."""
    ledger = Ledger(math.inf, 1e-5)
    return charged_metrics(
        PrivateTable(mixed(40), ledger),
        ledger.open("report", Gaussian(noise_multiplier=5.0), uses(4)),
        mixed(30, 1),
        Columns(names=NAMES, sizes=SIZES, scores=SCORES),
        rng=np.random.default_rng(0),
    )


def test_each_metric_has_one_definition_and_each_definition_a_metric(linked):
    seen = set()
    for groups, metrics in (
        (("utility", "attacks"), metrics_of_one_table()),
        (("linked", "attacks"), linked.evaluation.metrics),
        (("published",), charged_figures()),
    ):
        definitions = [item for group in groups for item in METRICS[group]]
        for metric in metrics:
            key = metric.key.rpartition(".")[2] if "linked" in groups else metric.key
            covering = [
                item for item in definitions for pattern in item.keys if fnmatchcase(key, pattern)
            ]
            assert covering == [metric.definition], metric.key
            seen.add(metric.definition.name)
    assert seen == {item.name for items in METRICS.values() for item in items}


@pytest.fixture(scope="module")
def pages(tmp_path_factory, linked):
    """Pages of a report and of linked tables, by name."""
    folder = tmp_path_factory.mktemp("pages")
    facts = {
        "schema": schema(),
        "config": EvaluationConfig(m=10, k=(1,)),
        "certificate": certificate(),
    }
    first = evaluate(table(120, 0), table(100, 1), table(80, 2), label="first", **facts)
    first.to_html(folder / "report.html")
    linked.to_html(folder / "linked.html")
    titles = {
        "report": [m.title for m in first.evaluation.metrics],
        "linked": [m.title for m in linked.evaluation.metrics],
    }
    return {name: ((folder / f"{name}.html").read_text("utf-8"), titles[name]) for name in titles}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["report", "linked"])
def test_every_figure_of_a_page_links_to_its_definition_there(pages, name):
    text, titles = pages[name]
    ids = re.findall(r'\bid="([^"]+)"', text)
    links = LINK.findall(text)
    assert len(ids) == len(set(ids))
    assert {anchor for anchor, _ in links} <= set(ids)
    linked = {title.replace("&#39;", "'") for _, title in links}
    assert [title for title in titles if title not in linked] == []
    for item in EACH:
        if f'id="{item.anchor}"' in text:
            start = text.index(f'id="{item.anchor}"')
            entry = text[start : text.index("</section>", start)]
            for term in ("Definition", "Range", "Direction", "Caveat", "Source"):
                assert f"<dt>{term}</dt>" in entry, item.name
    if name == "report":
        absent = ("heaping", "rule")
        of_page = {item.anchor for item in PAGE} - {definition_of(key).anchor for key in absent}
        assert of_page <= {anchor for anchor, _ in links}


def test_definitions_are_complete_and_have_anchors_of_their_own():
    anchors = [item.anchor for item in EACH]
    assert len(anchors) == len(set(anchors)) and all(re.fullmatch(r"[\w-]+", a) for a in anchors)
    for item in EACH:
        assert item.meaning.endswith(".") and item.caveat.endswith(".")
        assert item.reference.endswith(".") or item.best is not None
        assert item.range and item.source and item.keys
        for text in (item.meaning, item.reference, item.caveat):
            for sentence in re.split(r"(?<=[.;:]) ", text):
                assert len(sentence.split()) <= 25, f"{item.name}: {sentence}"


def test_the_documentation_has_these_definitions():
    path = ROOT / "docs" / "reference" / "figures.py"
    spec = importlib.util.spec_from_file_location("docs_figures", path)
    figures = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(figures)
    texts = {path: path.read_text("utf-8") for path in figures.PAGES}
    for path, sections in figures.PAGES.items():
        assert figures.page(texts[path], sections) == texts[path], (
            "run: python docs/reference/figures.py"
        )
    text = "".join(texts.values())
    for item in EACH:
        assert f"\n### {item.name}\n" in text and item.source in text
        assert figures.plain(item.meaning.removesuffix(".")) in text
        assert figures.plain(item.caveat) in text
