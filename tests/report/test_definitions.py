"""Every figure that a page can show has a definition on that page, and the documentation has the same definitions."""

import importlib.util
import math
import re
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "evaluation"))

from linked_levels import SCHEMA, frames
from report_tables import certificate, schema, table
from test_degenerate import ALL, NAMES, SCORES, SIZES, mixed, weights

from tabsynth import compare, evaluate
from tabsynth.evaluation import EvaluationConfig, measure, shadow_membership
from tabsynth.evaluation.charged import charged_metrics, uses
from tabsynth.evaluation.utility.constraints import violations
from tabsynth.evaluation.utility.survey import Linearised
from tabsynth.privacy.accounting.mechanisms import Gaussian
from tabsynth.privacy.ledger.ledger import Ledger, PrivateTable
from tabsynth.report import Report
from tabsynth.report.definitions import DEFINITIONS, GROUPS, definition_of, definitions_of, of_group

ROOT = Path(__file__).resolve().parents[2]
# Keys of metrics, as far as the sources write them out; the measured tables below have those that are put together.
WRITTEN = re.compile(
    r'(?:Metric|_metric|_shown|_share_metric)\(\s*f?"(?:\{[\w.]+\}\.)?([a-z_0-9]+)"'
)
PAGE = re.compile(r'<a class="term" href="#([^"]+)">(.*?)</a>')


def test_every_key_that_the_code_writes_out_is_defined():
    keys: set[str] = set()
    for path in (ROOT / "tabsynth" / "evaluation").rglob("*.py"):
        keys |= set(WRITTEN.findall(path.read_text("utf-8")))
    assert {"k_marginal", "violations", "group_size", "singling_out", "rows", "orphans"} <= keys
    assert [key for key in keys if definition_of(key, GROUPS) is None] == []


def check(metrics, groups):
    """Each metric has one definition, which states its direction and, where it is fixed, its best value."""
    for metric in metrics:
        key = metric.key.rpartition(".")[2] if "linked" in groups else metric.key
        item = definition_of(key, groups)
        assert item is not None, f"{metric.key} has no definition"
        assert item.better == metric.better, metric.key
        if metric.best in (0.0, 0.5, 1.0, 1000.0) and not key.startswith(("prediction", "target")):
            assert re.search(rf"\b{metric.best:g}\b", item.best), metric.key


@pytest.mark.slow
def test_every_metric_of_one_table_is_defined():
    tables = (mixed(90), mixed(90, 1), mixed(60, 2))
    given = weights(*tables)
    measured = measure(
        *tables,
        replace(ALL, by=(0,), numbers=(3,)),
        weights=given,
        design=Linearised(given.train),
        config=EvaluationConfig(boosting=True, m=10, k=(1,)),
        extra=[violations(np.zeros((5, 0), dtype=bool), np.ones(5, dtype=bool), [], [])],
    )
    keys = {metric.key for metric in measured.metrics}
    assert {"survey_number", "subgroup_gap_a", "target_auprc_boosting", "ci_overlap"} <= keys
    check(measured.metrics, ("utility", "attacks"))


def test_every_attack_with_shadow_models_and_every_charged_figure_is_defined():
    rows = mixed(40)
    about = {"rows": 12, "shadows": 4, "trials": 4}
    check(
        [shadow_membership(lambda rows: rows[:10], rows, rows[:1], SIZES, **about)],
        ("utility", "attacks"),
    )
    ledger = Ledger(math.inf, 1e-5)
    figures = charged_metrics(
        PrivateTable(rows, ledger),
        ledger.open("report", Gaussian(noise_multiplier=5.0), uses(4)),
        mixed(30, 1),
        names=NAMES,
        sizes=SIZES,
        scores=SCORES,
        rng=np.random.default_rng(0),
    )
    assert {"rows", "tvd3", "k_marginal"} <= {metric.key for metric in figures}
    check(figures, ("published",))


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """Pages of a report, a comparison and linked tables, by name."""
    folder = tmp_path_factory.mktemp("pages")
    facts = {
        "schema": schema(),
        "config": EvaluationConfig(m=10, k=(1,)),
        "certificate": certificate(),
    }
    first = evaluate(table(120, 0), table(100, 1), table(80, 2), label="first", **facts)
    reports = [first, Report(replace(first.evaluation, label="second"))]
    linked = evaluate(
        *(frames(i, 40) for i in range(3)), schema=SCHEMA, config=EvaluationConfig(m=10)
    )
    check(linked.evaluation.metrics, ("linked", "attacks"))
    reports[0].to_html(folder / "report.html")
    compare(reports).to_html(folder / "comparison.html")
    linked.to_html(folder / "linked.html")
    titles = {
        "report": [m.title for m in reports[0].evaluation.metrics],
        "comparison": [m.title for m in reports[0].evaluation.metrics],
        "linked": [m.title for m in linked.evaluation.metrics],
    }
    return {name: ((folder / f"{name}.html").read_text("utf-8"), titles[name]) for name in titles}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["report", "comparison", "linked"])
def test_every_figure_of_a_page_links_to_its_definition_there(pages, name):
    text, titles = pages[name]
    ids = re.findall(r'\bid="([^"]+)"', text)
    links = PAGE.findall(text)
    assert len(ids) == len(set(ids))
    assert {anchor for anchor, _ in links} <= set(ids)
    linked = {title.replace("&#39;", "'") for _, title in links}
    assert [title for title in titles if title not in linked] == []
    for item in DEFINITIONS:
        if f'id="{item.anchor}"' in text:
            start = text.index(f'id="{item.anchor}"')
            entry = text[start : text.index("</section>", start)]
            for term in ("Definition", "Range", "Direction", "Caveat", "Source"):
                assert f"<dt>{term}</dt>" in entry, item.name
    if name == "report":
        of_page = {item.anchor for item in of_group("page")} - {
            definition_of(key, ("page",)).anchor for key in ("survey_estimate", "heaping", "rule")
        }
        assert of_page <= {anchor for anchor, _ in links}  # the other three: not in this table


def test_definitions_are_complete_and_have_anchors_of_their_own():
    anchors = [item.anchor for item in DEFINITIONS]
    assert len(anchors) == len(set(anchors)) and all(re.fullmatch(r"[\w-]+", a) for a in anchors)
    for item in DEFINITIONS:
        assert item.meaning.endswith(".") and item.best.endswith(".") and item.caveat.endswith(".")
        assert item.range and item.source and item.group in GROUPS and item.keys
        for text in (item.meaning, item.best, item.caveat):
            for sentence in re.split(r"(?<=[.;:]) ", text):
                assert len(sentence.split()) <= 27, f"{item.name}: {sentence}"
    assert [item.keys[0] for item in definitions_of(["tvd2", "tvd1", "nothing", "presence"])] == [
        "tvd1",
        "presence",
    ]
    assert definition_of("tvd1", ("published",)) is not definition_of("tvd1")


def test_the_documentation_has_these_definitions():
    path = ROOT / "docs" / "reference" / "figures.py"
    spec = importlib.util.spec_from_file_location("docs_figures", path)
    figures = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(figures)
    text = figures.PAGE.read_text("utf-8")
    assert figures.page(text) == text, "run: python docs/reference/figures.py"
    for item in DEFINITIONS:
        assert f"\n### {item.name}\n" in text and item.source in text
