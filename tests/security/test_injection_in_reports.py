"""Names, categories and labels that are markup stay text on every page and in every Markdown file."""

import base64
import re
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest

from tabsynth import Schema, evaluate, evaluate_private
from tabsynth.evaluation import EvaluationConfig
from tabsynth.privacy.accounting.mechanisms import Gaussian
from tabsynth.privacy.certificate.certificate import make_certificate
from tabsynth.privacy.ledger.ledger import Ledger
from tabsynth.report.page import Row, Table, render_page
from tabsynth.schema import Column

PAYLOADS = (
    "<script>alert(1)</script>",
    '"onmouseover="alert(1)" x="',
    "</style></title><img src=x onerror=alert(1)>",
    "{{7*7}}{% for x in y %}",
    "javascript:alert(1)",
    "'--><svg/onload=alert(1)>]]>",
    "[x](javascript:alert(1)) \\[y](z) ![i](u)",
    "&lt;b&gt;&#60;\x01\x1b[31m\u202e",
)
HARMLESS = tuple(f"n{i}" for i in range(len(PAYLOADS)))


class Elements(HTMLParser):
    """How often each element occurs with each set of attributes; scripts, styles and pictures apart."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.found: Counter[tuple[str, tuple[str, ...]]] = Counter()
        self.pictures: list[str] = []
        self.texts: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.found[tag, tuple(sorted(given))] += 1
        assert tag not in ("script", "iframe", "object", "embed", "link", "base", "form")
        for name, value in given.items():
            assert not name.startswith("on") and name not in ("style", "srcdoc")
            # The only links are to sections and definitions of the same page.
            assert name != "href" or (tag == "a" and re.fullmatch(r"#[\w-]+", str(value)))
            assert name != "src" or str(value).startswith("data:image/svg+xml;base64,")
        if tag == "img":
            source = str(given["src"]).split(",", 1)[1]
            self.pictures.append(base64.b64decode(source).decode())

    def handle_data(self, data: str) -> None:
        self.texts.append(data)

    def handle_comment(self, data: str) -> None:
        raise AssertionError(data)

    def handle_decl(self, decl: str) -> None:
        assert decl == "DOCTYPE html"

    handle_pi = unknown_decl = handle_comment


def parts(texts: tuple[str, ...]) -> tuple[Schema, pd.DataFrame, pd.DataFrame, dict[str, Any]]:
    one: dict[str, Any] = {"kind": "categorical", "dtype": "str"}
    schema = Schema(
        [
            Column(name=texts[0], categories=texts[:4], **one),
            Column(name=texts[1], categories=texts[4:], labels={texts[5]: texts[2]}, **one),
            Column(name=texts[2], kind="numeric", dtype="int64", low=0, high=9),
            Column(name=texts[6], categories=texts, **one),
        ]
    )

    def rows(seed: int) -> pd.DataFrame:
        rng = np.random.default_rng(seed)
        a = rng.integers(0, 4, 60)
        columns = {texts[0]: np.array(texts, dtype=object)[a]}
        columns[texts[1]] = np.array(texts, dtype=object)[4 + (a + rng.integers(0, 2, 60)) % 4]
        columns[texts[2]] = (2 * a + rng.integers(0, 3, 60)) % 10
        columns[texts[6]] = np.array(texts, dtype=object)[rng.integers(0, len(texts), 60)]
        return pd.DataFrame(columns).astype({texts[i]: "str" for i in (0, 1, 6)})

    ledger = Ledger(5.0, 1e-5)
    account = ledger.open(texts[0], Gaussian(noise_multiplier=9.0), 1, {texts[1]: texts[2]})
    ledger.spend(account)
    for purpose in ("one-way counts", "joint counts"):  # what a fit of margnet charges
        ledger.spend(ledger.open(purpose, Gaussian(noise_multiplier=9.0), 1))
    certificate = make_certificate(
        ledger,
        {
            "public": {"schema_sha256": schema.fingerprint(), "target": texts[4]},
            "versions": {"tabsynth": "0.2.0", texts[5]: texts[6]},
            "training": {
                "stopped": texts[7],
                "curves": {texts[0]: {"step": [1, 2], "value": [1, 2]}},
            },
        },
        method=texts[3],
        seeded=False,
    )
    return schema, rows(0), rows(1), certificate


def pages(texts: tuple[str, ...], folder: Path) -> dict[str, str]:
    """The page of each kind of report, with texts as names, categories, labels and file names."""
    schema, real, synthetic, certificate = parts(texts)
    parameters: dict[str, Any] = {"schema": schema, "certificate": certificate}
    report = evaluate(
        real,
        synthetic,
        label=texts[0],
        by=texts[0],
        **parameters,
        config=EvaluationConfig(m=5, k=(1,)),
    )
    parameters["certificate"] = {
        **certificate,
        "method": "margnet",
    }  # of an unknown one nothing is published
    public = evaluate_private(real, synthetic, epsilon=1.0, label=texts[1], **parameters)
    out = {}
    for name, page in (("report", report), ("published", public)):
        page.to_html(folder / "page.html", overwrite=True)
        out[name] = (folder / "page.html").read_text("utf-8")
    return out


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, str]]:
    folder = tmp_path_factory.mktemp("pages")
    return {"hostile": pages(PAYLOADS, folder), "harmless": pages(HARMLESS, folder)}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["report", "published"])
def test_no_page_gains_an_element_or_an_attribute(
    name: str, made: dict[str, dict[str, str]]
) -> None:
    """By a parser: the same elements with the same attributes as under harmless names."""
    hostile, harmless = (Elements(made[kind][name]) for kind in ("hostile", "harmless"))
    assert hostile.found == harmless.found
    shown = "".join(hostile.texts)
    seen = [text for text in PAYLOADS if text in shown]
    assert seen, "the page shows some of them, as they are"
    if name == "report":
        assert "{{7*7}}" in shown and "<script>alert(1)</script>" in shown
    assert len(hostile.pictures) == len(harmless.pictures)
    for one, other in zip(hostile.pictures, harmless.pictures, strict=True):
        assert _tags(one) == _tags(other)


def _tags(svg: str) -> Counter[str]:
    """Elements of a picture; it is well-formed, whatever the names hold."""
    tree = ElementTree.fromstring(svg)
    result = Counter(element.tag.split("}")[1] for element in tree.iter())
    assert not result.keys() & {"script", "foreignObject", "image", "a", "animate", "set"}
    for element in tree.iter():
        assert not any(name.startswith("on") for name in element.attrib)
    # How many ticks and letters' shapes there are depends on the labels' length alone.
    return Counter({tag: count for tag, count in result.items() if tag in ("text", "style", "svg")})


@pytest.mark.slow
@pytest.mark.parametrize("payload", PAYLOADS)
def test_plain_pages_and_curves(payload: str) -> None:
    page, other = (
        render_page(x, x, [x], [Table([x, x], [Row(x, [x], warning=True)])], x)
        for x in (payload, "x")
    )
    assert Elements(page).found == Elements(other).found
