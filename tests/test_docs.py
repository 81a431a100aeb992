"""The pages of the site: each is listed, links and anchors are right, and what they say of the code is so.

`make docs` builds the site, where a warning is an error. These tests need no Sphinx, but for the last ones.
"""

import ast
import importlib
import importlib.util
import inspect
import json
import os
import re
from functools import cache
from pathlib import Path
from types import ModuleType

import jinja2
import pytest

import tabsynth
from tabsynth.drafting.catalogue import catalogue
from tabsynth.synthesizers import method as model

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
REFERENCE = DOCS / "reference"
SCHEMA_OF_CERTIFICATES = "tabsynth/privacy/certificate/certificate.schema.json"
GENERATED = {DOCS / "examples", REFERENCE / "api"}  # by `make docs`
LINK = r"\]\(([^)\s]+)\)"


def pages(folder: Path = DOCS) -> list[Path]:
    return [path for path in folder.rglob("*.md") if not GENERATED & set(path.parents)]


def written() -> list[Path]:
    """Return every Markdown page."""
    folders = ROOT.glob("*.md"), (ROOT / "data").glob("*.md"), (ROOT / "reports").glob("*/*.md")
    return [*(path for folder in folders for path in folder), *pages()]


def without_code(text: str) -> str:
    return re.sub(r"```.*?```", "", text, flags=re.DOTALL)


@cache
def anchors(path: Path) -> set[str]:
    """What GitHub makes of headings: lower case, spaces as hyphens, other punctuation dropped."""
    found = re.findall(r"^#+ (.*)$", without_code(path.read_text("utf-8")), re.MULTILINE)
    plain = (re.sub(r"[^\w\- ]", "", heading.replace("`", "").lower()) for heading in found)
    return {heading.replace(" ", "-") for heading in plain}


@pytest.mark.parametrize("path", written(), ids=lambda path: str(path.relative_to(ROOT)))
def test_links_and_anchors_lead_somewhere(path):
    links = re.findall(LINK, re.sub(r"`[^`\n]*`", "", without_code(path.read_text("utf-8"))))
    if path == ROOT / "README.md":
        assert 10 < len(links) < 25
    for link in links:
        if re.match(r"\w+:", link) or "<" in link:
            continue
        file, _, anchor = link.partition("#")
        target = path.parent / file if file else path
        assert target.exists(), f"{link} leads nowhere"
        inside = Path(os.path.normpath(target)).is_relative_to(ROOT)
        assert inside, f"{link} leads out of the repository"
        if path not in {ROOT / "README.md", ROOT / "CONTRIBUTING.md"}:
            assert not target.is_dir(), (
                f"{link}: a folder has no page in the site; link a file of it"
            )
        if anchor:
            assert anchor in anchors(target), f"{link}: no such heading"


def listed() -> set[Path]:
    """What the lists and tables of every ``index.md`` link, of which the site makes its tables of contents."""
    result = {DOCS / "index.md"}
    for index in DOCS.rglob("index.md"):
        text = index.read_text("utf-8")
        links = re.findall(r"^(?:- |\| )\[.*?\]\(([^)#:]+)\)", text, re.MULTILINE)
        result |= {(index.parent / link).resolve() for link in links}
    return result


def test_every_page_is_in_an_index():
    templates = (*ROOT.glob("reports/*/*template.md"),)
    others = (*(ROOT / "notebooks").glob("*.ipynb"), *(DOCS / "gallery").glob("plot_*.py"))
    assert {*written(), *others} - {*templates, *listed()} == set()


def test_every_section_is_on_the_home_page():
    sections = {path.parent for path in DOCS.glob("*/index.md")}
    assert {path.parent for path in listed() if path.name == "index.md"} == {*sections, DOCS}


def test_every_public_name_is_in_the_reference_once():
    top, *others = re.split(r"^## Settings of methods$", page("api"), flags=re.MULTILINE)
    assert sorted(re.findall(r"^   (\w+)$", top, re.MULTILINE)) == sorted(tabsynth.__all__)
    blocks = re.findall(r"currentmodule:: ([\w.]+)\n.*?:toctree: api\n\n(.*?)```", others[0], re.S)
    names = [f"{module}.{name}" for module, block in blocks for name in block.split()]
    assert len(names) > 15
    for name in names:
        module, _, attribute = name.rpartition(".")
        assert inspect.getdoc(getattr(importlib.import_module(module), attribute)), name


def page(name: str) -> str:
    return (REFERENCE / f"{name}.md").read_text("utf-8")


@pytest.mark.slow
def test_quoted_error_messages_are_those_of_the_code():
    """With ``…`` for what the code fills in."""
    quoted = re.findall(r"^\| `([^`]+)` \| [A-Z]", page("error-messages"), re.MULTILINE)
    texts = []
    for path in (ROOT / "tabsynth").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            parts = node.values if isinstance(node, ast.JoinedStr) else [node]
            constants = [part.value if isinstance(part, ast.Constant) else "…" for part in parts]
            texts.append("".join(text for text in constants if isinstance(text, str)))
    assert len(quoted) >= 20
    assert [message for message in quoted if not any(message in text for text in texts)] == []


def test_the_classes_of_errors_are_those_of_the_code():
    text = page("error-messages")
    kinds = re.findall(r"^\| `(\w+Error)` \|", text, re.MULTILINE)
    assert {name for name in tabsynth.__all__ if name.endswith("Error")} <= {
        *kinds,
        "TabsynthError",
    }


def test_the_page_on_model_files_names_every_fact():
    table = page("model-file").partition("## Facts")[2]
    for function in (
        model.FittedModel.file_facts,
        model.FittedModel.schema_facts,
        model.certificate_facts,
    ):
        for key in re.findall(r"\"(\w+)\"", inspect.getsource(function)):
            assert f"`{key}`" in table, key


# From here on with Sphinx.


@pytest.fixture(scope="module")
def conf() -> ModuleType:
    pytest.importorskip("sphinx_gallery", reason="the site needs the extra docs (make docs)")
    spec = importlib.util.spec_from_file_location("tabsynth_docs_conf", DOCS / "conf.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
def test_every_placeholder_is_filled(conf):
    names = {n for path in pages() for n in re.findall(r"<!-- site: (\w+) -->", path.read_text())}
    assert names == set(conf.GENERATED)
    assert all(conf.GENERATED[name]() for name in names)


@pytest.mark.slow
def test_the_page_of_the_catalogue_has_every_entry_with_its_source(conf):
    text, entries = conf.public_facts(), catalogue()
    for entry in entries.names:
        assert re.search(
            rf"^\| {re.escape(entry)} \| .*{re.escape(entries.hint(entry).source)} \|$", text, re.M
        )
    assert "| 0 to 120 |" in text and "| digits are a code |" in text
    assert "| no, yes | no, yes |" in text and "| us states | alabama, " in text.lower()


@pytest.mark.slow
def test_the_page_of_certificates_has_every_field_with_its_description(conf):
    text = conf.certificate_fields()
    schema = json.loads((ROOT / SCHEMA_OF_CERTIFICATES).read_text("utf-8"))

    def walk(node, names=""):
        for name, item in node.get("properties", {}).items():
            assert f"| `{names}{name}` | {item['description']} |" in text
            walk(item, f"{names}{name}.")
            walk(item.get("items", {}), f"{names}{name}.")

    walk(schema)
    assert "| `mechanisms.details.max_norm` | Of private steps: the clipping bound" in text
    assert text.count("\n### ") == 4 and "∣" not in text


@pytest.mark.slow
def test_the_page_of_commands_has_every_command_with_its_whole_help(conf):
    text = conf.commands()
    for name in ("fit", "schema declare", "ledger create"):
        assert f"`tabsynth {name}`" in text
    assert "--accept-drafted-domain" in text and not re.search(r"^\* .*\.\.\.$", text, re.M)
    assert (
        "* `plan`: Show the noise and the number of uses of each mechanism that a privacy budget allows"
        in text
    )


FORMULA = re.compile(r"(?<!\\)(\$\$?)(.+?)(?<!\\)\1", re.DOTALL)


@pytest.mark.slow
def test_a_figure_and_its_spread_stay_on_one_line(conf):
    assert conf.unbroken("| 0.116 ± 0.003 | a ± b |") == "| 0.116\xa0±\xa00.003 | a ± b |"


def test_formulas_of_pages_become_mathml(conf):
    """By the translator that the build uses, so that a page shows them without a network."""
    for path in written():
        text = re.sub(r"`[^`\n]*`", "", without_code(path.read_text("utf-8")))
        for sign, tex in FORMULA.findall(text):
            made = conf.formula(tex, sign == "$$")
            assert re.fullmatch(
                r"(<div class=\"formula\" tabindex=\"0\">)?<math .*</math>(</div>)?", made, re.S
            ), tex
    assert "<mfrac>" in conf.formula(r"\frac{1}{2}", False)
    with pytest.raises(conf.MathError):
        conf.formula(r"\nosuchcommand{1}", False)


@pytest.mark.slow
def test_notebooks_become_markdown(conf):
    text = conf.notebook(
        '{"cells": [{"cell_type": "markdown", "source": ["# A\\n", "b"]}, {"cell_type": "code", "source": ["1 + 1"],'
        ' "outputs": [{"data": {"text/plain": ["2"]}}, {"name": "stdout", "text": ["three\\n"]},'
        ' {"data": {"image/png": "aaaa\\n", "text/plain": ["<Figure>"]}},'
        ' {"data": {"text/html": ["<table><th></th></table>"], "text/plain": ["t"]}}]}]}'
    )
    assert text.split("\n\n") == [
        "# A\nb",
        "```python\n1 + 1\n```",
        "```text\n2\n```",
        "```text\nthree\n```",
        "![Output of the cell above](data:image/png;base64,aaaa)",
        '```{raw} html\n<div class="pst-scrollable-table-container">\n<table><td></td></table>\n</div>\n```',
    ]


def luminance(colour: str) -> float:
    """Of WCAG 2.2; the colour is six hexadecimal digits."""
    parts = [int(colour[i : i + 2], 16) / 255 for i in (0, 2, 4)]
    linear = [x / 12.92 if x <= 0.04045 else ((x + 0.055) / 1.055) ** 2.4 for x in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize(("mode", "surface"), [("light", "f3f4f5"), ("dark", "29313d")])
def test_code_has_the_contrast_of_wcag(conf, mode, surface):
    """At least 4.5 : 1 for every kind of token, on the background that the theme gives to code."""
    styles = importlib.import_module("pygments.styles")
    style = styles.get_style_by_name(conf.html_theme_options[f"pygments_{mode}_style"])
    for token, look in style:
        if look["color"]:
            pair = sorted([luminance(look["color"]), luminance(look["bgcolor"] or surface)])
            assert (pair[1] + 0.05) / (pair[0] + 0.05) >= 4.5, token


def test_tables_scroll_in_the_box_of_the_theme_only():
    """Which its script lets the keyboard reach; a table that scrolls by itself is not reached."""
    text = (DOCS / "static" / "site.css").read_text("utf-8")
    rules = re.findall(r"([^{}]*)\{([^{}]*)\}", text)
    assert [
        names for names, rule in rules if re.search(r"\btable\b", names) and "overflow" in rule
    ] == []


def test_buttons_of_the_navigation_have_names(conf):
    """As the theme writes them, with a picture only."""
    text = '<a class="reference" href="api.html">API</a><details open="open"><summary><i></i></summary></details>'
    assert conf.named_toggles(text).count('<summary aria-label="Pages of API"><i>') == 1
    assert conf.named_toggles(text.partition("<details")[0]) == text.partition("<details")[0]


def test_the_readme_is_named_by_the_list_that_links_it(conf):
    assert conf.entry("In brief", "../../README.md") == "In brief <../../README.md>"
    assert conf.entry("GANs", "../../reports/gans/README.md") == "../../reports/gans/README.md"


@pytest.mark.slow
def test_formal_guarantees_stay_in_docstrings(conf):
    lines = inspect.getdoc(tabsynth.MargNet).split("\n")
    conf.guarantees(None, "class", "MargNet", None, None, lines)
    text = "\n".join(lines)
    assert "Notes\n-----\n**Formal guarantees.** Private rows are read by" in text
    both = ["A.", "", "Formal guarantees", "-----------------", "None.", "", "Notes", "-----", "B."]
    conf.guarantees(None, "class", "Some", None, None, both)
    assert both == ["A.", "", "Notes", "-----", "**Formal guarantees.** None.", "", "B."]


@pytest.mark.slow
def test_pictures_of_programs_have_their_alternative_text(conf):
    core = importlib.import_module("docutils.core")
    page = ".. alt: What\n   is seen.\n\n.. image:: a.png\n   :alt: A title\n"
    tree = core.publish_doctree(page)
    conf.describe_pictures(None, tree)
    assert [image["alt"] for image in tree.findall() if image.tagname == "image"] == [
        "What is seen."
    ]
    tree = core.publish_doctree(page.partition("\n\n")[2])
    conf.describe_pictures(None, tree)
    assert [image["alt"] for image in tree.findall() if image.tagname == "image"] == ["A title"]


def test_a_picture_that_stands_alone_scrolls(conf):
    """In the box that the keyboard reaches; one within a sentence does not."""
    core = importlib.import_module("docutils.core")
    page = ".. |in| image:: a.png\n\nA |in| sentence.\n\n.. |alone| image:: b.png\n\n|alone|\n"
    tree = core.publish_doctree(page)
    conf.scroll_pictures(None, tree)
    boxes = [p["classes"] for p in tree.findall() if p.tagname == "paragraph"]
    assert boxes == [[], ["pst-scrollable-table-container"]]


def test_links_to_programs_lead_to_their_pages(conf):
    for link, page in (
        ("plot_epsilon.py", "../examples/plot_epsilon.rst"),  # in docs/gallery
        ("gallery/plot_epsilon.py", "examples/plot_epsilon.rst"),  # in docs
        ("../gallery/plot_epsilon.py", "../examples/plot_epsilon.rst"),
        ("docs/gallery/plot_epsilon.py", "docs/examples/plot_epsilon.rst"),
        ("epsilon.py", "epsilon.py"),
    ):
        assert conf.example(link) == page


@pytest.mark.slow
def test_a_page_of_the_site_names_its_file(conf):
    """As a link where the project states its repository, which then is where a reader proposes a change."""
    assert "source-file" in conf.html_theme_options["secondary_sidebar_items"]
    template = jinja2.Template((DOCS / "templates" / "source-file.html").read_text("utf-8"))
    for name, suffix, file in (
        ("docs/how-to/files", ".md", "docs/how-to/files.md"),
        ("docs/examples/plot_epsilon", ".rst", "docs/gallery/plot_epsilon.py"),
    ):
        facts = {"pagename": name, "page_source_suffix": suffix}
        assert (ROOT / file).exists() and f"<code>{file}</code>" in template.render(facts)
        linked = template.render(facts | {"repository": "https://example.org/tabsynth"})
        assert f'href="https://example.org/tabsynth/edit/main/{file}"' in linked
    generated = {"pagename": "docs/reference/api/tabsynth.MargNet", "page_source_suffix": ".rst"}
    assert template.render(generated).strip() == ""
