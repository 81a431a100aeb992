"""The HTML file: self-contained, escaped, accessible, with everything on its face."""

import base64
import re
from dataclasses import replace
from html.parser import HTMLParser
from xml.etree import ElementTree

import numpy as np
import pytest
from report_tables import HOSTILE, MATH, PATH, certificate, page, report, schema, table

from tabsynth import Schema
from tabsynth.evaluation.column_summaries import column_summaries
from tabsynth.report import Report, evaluate
from tabsynth.report.certificates import NO_CERTIFICATE, privacy_panel
from tabsynth.report.page import NOTICE
from tabsynth.schema import Column

VOID = {"meta", "img", "br", "hr", "link", "input"}


class Page(HTMLParser):
    """Tags, attributes and texts; unbalanced tags are errors."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.open, self.tags, self.texts = [], [], []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)

    @property
    def text(self):
        return " ".join(" ".join(self.texts).split())

    def pictures(self):
        for tag, attrs in self.tags:
            if tag == "img":
                yield attrs["alt"], base64.b64decode(attrs["src"].split(",")[1]).decode()


def html(tmp_path, **changes):
    return page(report(**changes), tmp_path)


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    return html(tmp_path_factory.mktemp("html"), label=PATH + HOSTILE, certificate=certificate())


@pytest.mark.slow
def test_it_has_every_section(text):
    parsed = Page(text)
    for words in (
        NOTICE,
        "Better than independent columns".lower(),
        "Privacy",
        "Predicting each column from the others",
        "Attribute disclosure",
        "Every column",
        "All 6 pairs as a table",
        "Distances of marginals",
        "subsampled-gaussian",
        "0.997",
        "PRV (opacus 1.6.0)",
        "add or remove one record",
        "clip: 1",
        "rows: 500",
    ):
        assert words in parsed.text, words
    assert sum(tag == "table" for tag, _ in parsed.tags) >= 6


def test_what_does_not_count_is_not_called_worse(tmp_path):
    created = report()
    requests = [
        replace(created.evaluation.verdict.comparisons[0], better=better, conclusive=conclusive)
        for better, conclusive in ((True, False), (False, True), (False, None), (False, False))
    ]
    verdict = replace(created.evaluation.verdict, comparisons=tuple(requests))
    text = page(Report(replace(created.evaluation, verdict=verdict)), tmp_path)
    rows = re.search(r"Against the baseline.*?</table>", text, re.S)
    assert re.findall(r"<td>(yes|no|inconclusive)</td>", rows[0]) == [
        "yes",
        "no",
        "no",
        "inconclusive",
    ]


def test_a_statistician_finds_the_context(text):
    parsed = Page(text)
    anchors = {attrs["href"][1:] for tag, attrs in parsed.tags if tag == "a"}
    ids = [attrs["id"] for _, attrs in parsed.tags if "id" in attrs]
    assert anchors and anchors <= set(ids) and len(ids) == len(set(ids))
    for words in (
        "150 rows · 4 columns · method dp-wgan · evaluated on 20",
        "by every metric used here (F1 weighted, F1 macro, 2-way distance, 3-way distance)",
        "It has 100 rows and the synthetic table 150",
        "a reference for relations only",
        "0 by construction",
        "Closest to 1.000 is best",
        "about one case of twenty",
        "Standard deviation",
        "What may be published",
        "Not this page",
        "are too small",
        "Glossary",
    ):
        assert words in parsed.text, words
    assert not re.search(r"\(R\d+\)", parsed.text)


def test_moments_are_those_of_the_tables(tmp_path):
    real, synthetic = table(200, 0)["mean"], table(150, 1)["mean"]
    summary = next(item for item in report().evaluation.columns if item.column == "mean")
    for moments, column in zip(summary.moments, (real, synthetic), strict=True):
        expected = column.dropna().astype(float)
        # A coarsened number counts as the midpoint of its cell of up to two years.
        assert moments.mean == pytest.approx(expected.mean(), abs=1)
        assert moments.deviation == pytest.approx(expected.std(), rel=0.05)
        assert moments.quantiles[2] == pytest.approx(expected.median(), abs=2)
    assert next(i for i in report().evaluation.columns if i.column == HOSTILE).moments is None


def test_it_loads_nothing(text):
    parsed = Page(text)
    assert "http://" not in text and "https://" not in text
    names = {tag for tag, _ in parsed.tags}
    assert not names & {"script", "link", "iframe", "object", "embed", "base", "form"}
    for _, attrs in parsed.tags:
        assert not any(name.startswith("on") for name in attrs)
        for name in ("src", "href", "srcset", "action", "background"):
            assert attrs.get(name, "data:").startswith(("data:", "#"))
    assert "url(" not in text and "@import" not in text
    policy = next(attrs for _, attrs in parsed.tags if "http-equiv" in attrs)
    assert policy["content"].startswith("default-src 'none'")
    assert len(text) < 3_000_000


def test_names_and_categories_are_text(text):
    parsed = Page(text)
    # As text it is escaped: between &lt; and &gt;, or in an attribute that is one value.
    assert "<script" not in text
    assert "onerror=alert" not in re.sub(r"alt=\"[^\"]*\"|&lt;.*?&gt;", "", text)
    assert HOSTILE in parsed.text and PATH in parsed.text and "日本" in parsed.text
    pictures = list(parsed.pictures())
    assert all(alt for alt, _ in pictures)
    assert any("<img src=x" in alt for alt, _ in pictures)
    for _, svg in pictures:
        tree = ElementTree.fromstring(svg)  # well-formed
        results = {element.tag.split("}")[1] for element in tree.iter()}
        assert not results & {"script", "foreignObject", "image", "a"}
        assert not any(
            "href" in name and not value.startswith("#")
            for element in tree.iter()
            for name, value in element.attrib.items()
        )
    svgs = "".join(svg for _, svg in pictures)
    assert MATH in svgs and "値1" in svgs  # mathtext is off; text stays text


def test_inline_pictures_name_their_marks(text):
    parsed = Page(text)
    svgs = [attrs for tag, attrs in parsed.tags if tag == "svg"]
    assert all(attrs["role"] == "img" and attrs["aria-label"] for attrs in svgs)
    heat = next(attrs for attrs in svgs if attrs["class"] == "heat")
    assert "Map of 4 columns and their pairs. Of 10 cells" in heat["aria-label"]
    shades = [a["class"] for tag, a in parsed.tags if tag == "rect" and a["class"] != "lost"]
    assert len(shades) == 10 + 6  # cells, and the legend
    assert re.search(rf"{re.escape(PATH)} × mean \(\d+\.\d percentage points\)", parsed.text)
    assert sum(attrs["class"] == "strip" for attrs in svgs) >= 15
    for words in ("prefers-color-scheme: dark", "@media print", ":focus-visible"):
        assert words in text
    assert "Linkability risk" in parsed.text


def test_what_scrolls_is_reached_by_the_keyboard(text):
    """Boxes of wide tables and pictures are regions with a name that take the focus."""
    boxes = re.findall(r'<\w+ class="scroll"[^>]*>', text)
    assert len(boxes) > 5
    for box in boxes:
        assert re.search(r' tabindex="0" role="region" aria-label="[^"]+">', box), box


def test_without_controls_attacks_are_not_judged(tmp_path):
    assert (
        "No control group, so no attack could be judged" in Page(html(tmp_path, holdout=False)).text
    )


def test_pictures_of_every_column(text):
    pictures = list(Page(text).pictures())
    assert len(pictures) == 1 + 4
    assert "s=1, k=1" in pictures[0][0]


def test_without_certificate_nothing_is_claimed(tmp_path):
    text = html(tmp_path, holdout=False)
    parsed = Page(text)
    assert NO_CERTIFICATE in parsed.text and ("p", {"class": "loud"}) in parsed.tags
    assert "no hold-out was given" in parsed.text and "no hold-out" in parsed.text


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"private": False, "epsilon": "inf"}, "NOT PRIVATE: ε is infinite"),
        ({"private": True, "epsilon": "inf"}, "NOT PRIVATE"),
        ({"private": True, "epsilon": "nonsense"}, "NOT PRIVATE"),
        ({"private": True, "seeded": True}, "The fit was seeded"),
        ({"public": {"accepted_drafted_domain": True}}, "read off the private table"),
        ({"public": {"schema_sha256": "00"}}, "another schema"),
        ({"table": {"rows": 7}}, "a table of 7 rows; this one has 150"),
        ({"noise": {"exact": False, "law": "nearly so"}}, "is accounted for: nearly so"),
        ({"audit": [{"method": "canary", "verdict": "refuted"}]}, "(canary) REFUTED the claim"),
        (
            {"audit": [{"method": "c", "epsilon_lower_bound": 2}]},
            "REFUTED the claim: ε is at least 2",
        ),
    ],
)
def test_what_weakens_the_claim_is_a_warning(changes, words):
    panel = privacy_panel(certificate(**changes), 150, schema().fingerprint())
    assert any(words in warning for warning in panel.warnings)


@pytest.mark.slow
@pytest.mark.parametrize("statement", ["CONDITIONAL: if.", "Private: forged.", None])
def test_a_claim_on_drafted_columns_is_a_warning_and_never_private(tmp_path, statement):
    public = {"drafted": [HOSTILE, PATH], "accepted_drafted_domain": True, "left_out": ["mrn"]}
    stated = certificate(public=public, private=False, statement=statement)
    parsed = Page(html(tmp_path, certificate=stated))
    assert parsed.tags.count(("p", {"class": "conditional"})) == 1
    assert parsed.tags.count(("p", {"class": "line wait"})) == 1
    assert "The synthetic table may be published only on a condition. CONDITIONAL" in parsed.text
    assert ("p", {"class": "statement"}) not in parsed.tags
    assert "CONDITIONAL: ε holds only if what the schema says of columns" in parsed.text
    assert "NOT PRIVATE" not in parsed.text and "Private" not in parsed.text
    facts = dict(privacy_panel(stated, 150, "").facts)
    assert facts["Columns left out"] == "mrn" and PATH in facts["Drafted columns, copied from rows"]
    claimed = privacy_panel({**stated, "private": True}, 150, "")
    assert not claimed.private and claimed.condition


def test_public_wishes_are_shown():
    public = {"target": "age", "class_shares": [0.5, 0.5], "workload": None}
    facts = dict(privacy_panel(certificate(public=public), 150, "").facts)
    assert facts["Public: target"] == "age" and facts["Public: class shares"] == "[0.5, 0.5]"
    assert "Public: workload" not in facts


def test_what_a_reader_can_hold_the_claim_against_is_shown():
    audit = {"method": "canary", "verdict": "not refuted", "epsilon_lower_bound": 0.5}
    changes = {
        "audit": [{**audit, "confidence": 0.999, "date": "2026-11-21"}, {"method": "replay"}],
        "code": {"sha256": "cd" * 32, "files": 9},
        "project": {
            "ledger": "p.ledger",
            "limit": 3.0,
            "share": 0.7,
            "composition": {"name": "Rényi filter", "order": 9.0, "source": "s"},
        },
        "noise": {"generator": "g", "law": "l", "exact": True},
        "signature": {"algorithm": "Ed25519", "public_key": "ef" * 32, "value": "00" * 64},
    }
    panel = privacy_panel(certificate(**changes), 150, schema().fingerprint())
    facts = dict(panel.facts)
    assert panel.warnings == ()
    assert facts["Audit: canary"] == "not refuted, ε is at least 0.5 (0.999 confidence), 2026-11-21"
    assert facts["Audit: replay"] == "no result"
    assert facts["Code of tabsynth, SHA-256"] == "cd" * 32
    assert facts["ε of all fits under its ledger"] == "3, kept by a Rényi filter, p.ledger"
    assert (facts["Noise from"], facts["Noise is"]) == ("g", "l")
    assert facts["Signature"].startswith("by key " + "ef" * 32)
    assert dict(privacy_panel(certificate(), 150, "").facts)["Signature"] == "none"


def test_votes_are_shown_in_votes():
    listed = {"mechanism": "noisy-vote", "noise": 57.91, "teachers": 381, "count": 9}
    listed |= {"purpose": "labels", "accounting": "exact-binary"}
    panel = privacy_panel(certificate(mechanisms=[listed]), 150, "")
    assert panel.mechanisms == (
        {
            **{"purpose": "labels", "mechanism": "noisy-vote, exact-binary accounting"},
            **{"noise": "57.91 of 381 votes", "rate": "–", "count": "9", "details": ""},
        },
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    "damaged",
    [
        {},
        {"mechanisms": "none", "public": 3, "training": [], "accountant": None, "versions": 1},
        {"mechanisms": [3, {}], "training": {"curves": {"x": 1, "y": {"step": [1], "value": []}}}},
        {"training": {"curves": {"x": {"step": ["a"], "value": [None]}}}, "epsilon": [1]},
    ],
)
def test_damaged_certificates_are_shown_as_they_are(tmp_path, damaged):
    parsed = Page(html(tmp_path, certificate=damaged))
    assert "NOT PRIVATE" in parsed.text and ("p", {"class": "loud"}) in parsed.tags


def test_one_column_and_one_row(tmp_path):
    narrow = schema().select([PATH])
    one = table(1, 0)[[PATH]]
    evaluation = evaluate(one, one, None, schema=narrow)
    evaluation.to_html(tmp_path / "report.html")
    parsed = Page((tmp_path / "report.html").read_text("utf-8"))
    assert "needs two columns or more" in parsed.text


def test_wide_columns_are_folded():
    wide = Schema(
        [
            Column(name="c", kind="categorical", dtype="int64", categories=tuple(range(800))),
            Column(name="o", kind="ordinal", dtype="int64", categories=tuple(range(800))),
            Column(name="x", kind="numeric", dtype="float64", low=0, high=1, bins=500, nulls=True),
            Column(name="n", kind="numeric", dtype="int64", low=0, high=99),
            Column(name="b", kind="numeric", dtype="int64", low=0, high=10**6, breaks=(1, 10, 999)),
        ]
    )
    rng = np.random.default_rng(0)
    index = np.stack([rng.integers(0, size, 3000) for size in wide.sizes], axis=1)
    c, o, x, n, b = column_summaries(wide, index, index[:100])
    assert len(c.labels) == 31 and c.labels[-1] == "770 others" and c.folded == 770
    assert len(o.labels) == 100 and o.labels[0] == "0–7" and o.spans[-1][1] == 800
    assert (
        len(x.labels) == 101
        and x.labels[-1] == "null"
        and x.missing == 1
        and x.spans[-1] == (0.99, 1)
    )
    assert len(n.labels) == 64 and {high - low for low, high in n.spans} == {1, 2}
    assert n.spans[0][0] == -0.5 and n.spans[-1][1] == 99.5
    assert b.labels == ("1–9", "10–998", "999–1000000", "0")
    assert b.spans == ((0.5, 9.5), (9.5, 998.5), (998.5, 1_000_000.5))
    for item in (c, o, x, n, b):
        assert sum(item.real) == pytest.approx(1) and sum(item.synthetic) == pytest.approx(1)
