"""Configuration of the documentation site: `make docs` builds it from the whole repository, offline.

The source folder is the root of the repository, so that a relative link is right on a code host and in the site.
Every ``index.md`` gets a table of contents from its lists of links. Comments of the form ``<!-- site: NAME -->`` in
a page are replaced by what the code says at the time of the build, such as the commands.
"""

import ast
import json
import re
import sys
import tomllib
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import typer
from docutils.nodes import SkipNode, comment, image, paragraph
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from numpydoc.docscrape import NumpyDocString
from pygments.lexers.special import TextLexer
from sphinx.util.logging import getLogger
from sphinx.util.nodes import make_refnode
from typer.cli import get_docs_for_click

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import tabsynth  # noqa: E402  (this folder's, not an installed one)
from tabsynth.cli import app as command_line  # noqa: E402
from tabsynth.drafting.catalogue import catalogue  # noqa: E402
from tabsynth.report.definitions import GLOSSARY  # noqa: E402

project = "tabsynth"
author = copyright = "The tabsynth developers"
version = release = tabsynth.__version__
root_doc = "docs/index"
source_suffix = {".rst": "restructuredtext", ".md": "markdown", ".ipynb": "markdown"}
include_patterns = [
    "*.md",
    "docs/**",
    "notebooks/*.ipynb",
    "data/README.md",
    "reports/*/*.md",
]
exclude_patterns = [
    "**/*template.md",
    "docs/static/**",
    "docs/templates/**",
    "docs/gallery/GALLERY_HEADER.rst",
    "docs/examples/*.ipynb",
    "docs/examples/*.py",
    "docs/examples/*.md5",
    "docs/examples/*.zip",
    "docs/examples/*.json",
    "docs/examples/index.rst",  # docs/gallery/index.md takes its place
]
extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.viewcode",
    "numpydoc",
    "sphinx_gallery.gen_gallery",
]

# Pages
myst_heading_anchors = 6
myst_enable_extensions = ["dollarmath"]
html_math_renderer = "mathml"  # which browsers show by themselves, without a network
linkcheck_timeout = 30
linkcheck_retries = 2

# Docstrings
autosummary_generate = True
autodoc_typehints = "none"  # numpydoc shows types beside the parameters
autodoc_member_order = "bysource"
numpydoc_show_class_members = False  # the template of a class lists them
NumpyDocString.sections["Formal Guarantees"] = []  # a section of ours; `guarantees` below shows it
templates_path = [str(ROOT / "docs" / "templates")]
toc_object_entries_show_parents = "hide"
nitpicky = True
smartquotes_action = "qe"  # two hyphens begin an option

# Gallery
sphinx_gallery_conf = {
    "examples_dirs": ["docs/gallery"],
    "gallery_dirs": ["docs/examples"],
    "abort_on_example_error": True,
    "download_all_examples": False,
    "min_reported_time": 1,
    "write_computation_times": False,
    "backreferences_dir": "build/backreferences",
    "doc_module": ("tabsynth",),
    "reset_modules": ("matplotlib",),
}

# Theme
html_theme = "pydata_sphinx_theme"
html_title = "tabsynth"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_copy_source = False
REPOSITORY = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"].get("urls", {})
html_context = {"repository": REPOSITORY.get("Repository", ""), "default_mode": "auto"}
html_theme_options = {
    "logo": {"text": f"tabsynth {release}"},
    "header_links_before_dropdown": 5,
    "show_prev_next": True,
    "secondary_sidebar_items": ["page-toc", "source-file"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "pygments_light_style": "a11y-high-contrast-light",  # contrast of at least 4.5 : 1
    "pygments_dark_style": "a11y-high-contrast-dark",
}


def commands() -> str:
    """Return markdown with every command, its arguments and options, from the command line itself."""
    command = typer.main.get_command(command_line)
    context = typer.Context(command, info_name="tabsynth")
    text = get_docs_for_click(obj=command, ctx=context, name="tabsynth")
    text = text.partition("**Commands**:")[2]  # the page has its own title and introduction
    whole = first_sentences(command)  # typer cuts those of its lists of commands
    return re.sub(
        r"^(\* `[a-z][\w-]*`: ).*$", lambda line: line[1] + next(whole), text, flags=re.MULTILINE
    )


def first_sentences(command: Any) -> Iterator[str]:
    """Return the first sentences of all commands, in the order in which typer lists them."""
    nested = getattr(command, "commands", {}).values()
    for one in nested:
        yield one.get_short_help_str(limit=200)
    for one in nested:
        yield from first_sentences(one)


def glossary() -> str:
    """Return the terms that the report defines."""
    return "\n\n".join(f"### {term}\n\n{definition}" for term, definition in GLOSSARY)


def certificate_fields() -> str:
    """Return tables of the fields of certificates, as their JSON Schema describes them."""
    path = ROOT / "tabsynth" / "privacy" / "certificate" / "certificate.schema.json"
    schema = json.loads(path.read_text("utf-8"))

    def rows(node: Any, names: str = "") -> Iterator[str]:
        for name, item in {**node.get("properties", {}), **properties(node.get("items"))}.items():
            yield f"| `{names}{name}` | {item['description'].replace('|', '∣')} |"
            if names or name not in LONG_FIELDS:
                yield from rows(item, f"{names}{name}.")

    def properties(node: Any) -> dict[str, Any]:
        return {} if node is None else node.get("properties", {})

    def table(node: Any, names: str = "") -> str:
        return "\n".join(["| field | meaning |", "|---|---|", *rows(node, names)])

    parts = [table(schema)]
    for name in LONG_FIELDS:
        parts += [f"### {name}", table(schema["properties"][name], f"{name}.")]
    return "\n\n".join(parts)


def public_facts() -> str:
    """Return tables of the entries of the catalogue: what names of columns say, and the sets of texts."""
    entries = catalogue()
    lines = [
        "## By name of the column",
        "",
        "| entry | names | what they say | source |",
        "|---|---|---|---|",
    ]
    for entry, names in entries.names.items():
        hint = entries.hint(entry)
        limits = "" if hint.limits is None else "{:g} to {:g}".format(*hint.limits)
        facts = [
            limits,
            "digits are a code" * hint.code,
            "codes of ICD-10 or ICD-9" * hint.diagnosis,
            *dict.fromkeys(each.name for each in hint.sets),
        ]
        cells = (entry, f"`{', '.join(names)}`", "; ".join(filter(None, facts)), hint.source)
        lines.append(f"| {' | '.join(cells)} |")
    lines += ["", "## Sets of texts", "", "| set | texts | source |", "|---|---|---|"]
    sets = [*entries.sets, *(each for entry in entries.names for each in entries.hint(entry).sets)]
    for each in {each.name: each for each in reversed(sets)}.values():
        lines.append(f"| {each.name} | {', '.join(each.texts)} | {each.source} |")
    return "\n".join(lines)


def notebook(source: str) -> str:
    """Return markdown of a notebook: its texts, its code and its outputs."""
    parts = []
    for cell in json.loads(source)["cells"]:
        text = "".join(cell["source"])
        parts.append(text if cell["cell_type"] == "markdown" else f"```python\n{text}\n```")
        for output in cell.get("outputs", ()):
            if output.get("name") == "stderr":
                continue
            data = output.get("data", {"text/plain": output.get("text", "")})
            if "image/png" in data:
                picture = "".join(data["image/png"]).replace("\n", "")
                parts.append(f"![Output of the cell above](data:image/png;base64,{picture})")
            elif "text/html" in data:
                parts.append("```{raw} html\n" + scrollable("".join(data["text/html"])) + "\n```")
            else:
                parts.append("```text\n" + "".join(data["text/plain"]).rstrip("\n") + "\n```")
    return "\n\n".join(parts)


def scrollable(html: str) -> str:
    """Return a table of pandas in the box that the theme makes scrollable by mouse and keyboard."""
    html = html.replace("<th></th>", "<td></td>")  # the corner is no heading
    return f'<div class="pst-scrollable-table-container">\n{html}\n</div>'


LONG_FIELDS = ("mechanisms", "settings", "public", "project")  # of certificates: a table each
GENERATED: dict[str, Callable[[], str]] = {
    "catalogue": public_facts,
    "certificate": certificate_fields,
    "commands": commands,
    "glossary": glossary,
    "gallery": lambda: "```{eval-rst}\n.. minigallery:: docs/gallery/plot_*.py\n```",
}


def read(app: Any, docname: str, source: list[str]) -> None:
    """Return complete the Markdown of a page as it is read."""
    path = Path(app.env.doc2path(docname))
    text = notebook(source[0]) if path.suffix == ".ipynb" else source[0]
    if path.suffix not in (".ipynb", ".md"):
        return
    if path.name == "index.md":
        links = re.findall(
            r"^(?:- |\| )\[(.*?)\]\(([^)#:]+\.(?:md|ipynb|py))\)", text, re.MULTILINE
        )
        entries = "\n".join(dict.fromkeys(entry(*link) for link in links))
        text += f"\n\n```{{toctree}}\n:hidden:\n\n{entries}\n```\n"
    text = re.sub(r"(?<=\]\()[^)]*\bplot_\w+\.py(?=\))", lambda link: example(link[0]), text)
    text = re.sub(r"<!-- site: (\w+) -->", lambda name: GENERATED[name[1]](), text)
    source[0] = unbroken(text)


def unbroken(text: str) -> str:
    """Return a text whose figures with a spread, as 0.116 ± 0.003, stay on one line."""
    return re.sub(r"(?<=\d) ± (?=\d)", "\N{NO-BREAK SPACE}±\N{NO-BREAK SPACE}", text)


def entry(title: str, link: str) -> str:
    """Return a line of a table of contents; only the README, whose title is the project's, is named by the list."""
    readme = re.fullmatch(r"(\.\./)+README\.md", link)
    return f"{title} <{link}>" if readme else example(link)


def example(link: str) -> str:
    """Return the page of a program of the gallery; any other link as it is."""
    return re.sub(
        r"^(?:(.*?)gallery/)?(plot_\w+)\.py$",
        lambda m: f"{'../' if m[1] is None else m[1]}examples/{m[2]}.rst",
        link,
    )


def guarantees(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Return our section "Formal guarantees", which numpydoc does not know, as the start of the section "Notes"."""
    text = "\n".join(lines)
    found = re.search(r"^Formal guarantees\n-+\n(.*?)(?=^\S[^\n]*\n---+\n|\Z)", text, re.M | re.S)
    if found:
        text = text[: found.start()] + text[found.end() :]
        title, _, rest = text.partition("Notes\n-----\n")
        section = f"**Formal guarantees.** {found[1].strip()}\n\n"
        lines[:] = f"{title.rstrip()}\n\nNotes\n-----\n{section}{rest}".split("\n")


def describe_pictures(app: Any, doctree: Any) -> None:
    """Give the picture of a program its alternative text: the comment ``alt: …`` before it."""
    text = ""
    for node in doctree.findall():
        if isinstance(node, comment) and node.astext().startswith("alt: "):
            text = " ".join(node.astext().removeprefix("alt: ").split())
        elif node.tagname in ("image", "imgsgnode") and text:
            node["alt"] = text


def scroll_pictures(app: Any, doctree: Any) -> None:
    """Put each picture that stands alone in the theme's scrollable box: on phones it is wider than the page."""
    for node in doctree.findall(image):
        if isinstance(node.parent, paragraph) and len(node.parent) == 1:
            node.parent["classes"].append("pst-scrollable-table-container")


def defined() -> set[str]:
    """Return names that tabsynth defines anywhere: of modules, classes, functions, attributes and constants."""
    names = set()
    for path in (ROOT / "tabsynth").rglob("*.py"):
        names |= {path.stem, path.parent.name}
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                names.add(node.name)
            elif isinstance(node, ast.AnnAssign | ast.Assign):
                targets = [node.target] if isinstance(node, ast.AnnAssign) else node.targets
                names.update(
                    t.attr if isinstance(t, ast.Attribute) else getattr(t, "id", "")
                    for t in targets
                )
    return names


def reference(app: Any, env: Any, node: Any, text: Any) -> Any:
    """Return the page of what a docstring names by another path; plain text for what has no page, but is defined."""
    if node.get("refdomain") != "py":
        return None
    target = node["reftarget"]
    name = target.rpartition(".")[2]
    documented = env.get_domain("py").objects
    found = [full for full in documented if full.endswith(f".{name}")]
    known = [full for full in found if full.count(".") == 1] or found
    if len(known) == 1:
        entry = documented[known[0]]
        return make_refnode(
            app.builder, node["refdoc"], entry.docname, entry.node_id, text, known[0]
        )
    return text if name in DEFINED or find_spec(target.partition(".")[0]) else None


DEFINED = defined()


def formula(tex: str, block: bool) -> str:
    """Return MathML of a formula in LaTeX."""
    made: str = tex2mathml(tex, as_block=block)
    return f'<div class="formula" tabindex="0">{made}</div>' if block else made


def write_formula(writer: Any, node: Any) -> None:
    """Write a formula of a page; one that cannot be translated is a warning, which ends the build."""
    try:
        text = formula(node.astext(), node.tagname == "math_block")
    except MathError as error:
        getLogger(__name__).warning("No formula: %s: %s", error, node.astext(), location=node)
    else:
        writer.body.append(text)
    raise SkipNode


def named_toggles(navigation: str) -> str:
    """Return the navigation with the buttons named that show or hide the pages of a section."""
    return re.sub(
        r"(<a [^>]*>)([^<]+)(</a>\s*<details[^>]*>\s*<summary)(?=>)",
        r'\1\2\3 aria-label="Pages of \2"',
        navigation,
    )


def name_toggles(app: Any, page: str, template: str, context: dict[str, Any], tree: Any) -> None:
    """Let the theme's navigation name its buttons."""
    make = context["generate_toctree_html"]
    context["generate_toctree_html"] = lambda kind, **options: (
        named_toggles(str(make(kind, **options))) if kind == "sidebar" else make(kind, **options)
    )


def redirect(app: Any, exception: Exception | None) -> None:
    """Lead from the first page of the folder to that of the site."""
    if exception is None and app.builder.format == "html":
        target = f"{root_doc}.html"
        page = f'<!doctype html><meta http-equiv="refresh" content="0; url={target}"><a href="{target}">tabsynth</a>\n'
        (Path(app.outdir) / "index.html").write_text(page, "utf-8")


def setup(app: Any) -> None:
    """Connect the site's own steps to Sphinx."""
    for language in ("csv", "pseudocode"):
        app.add_lexer(language, TextLexer)
    app.add_html_math_renderer("mathml", (write_formula, None), (write_formula, None))
    app.connect("source-read", read)
    app.connect("doctree-read", describe_pictures)
    app.connect("doctree-read", scroll_pictures)
    app.connect("missing-reference", reference)
    app.connect("autodoc-process-docstring", guarantees, priority=400)  # before numpydoc
    app.connect("html-page-context", name_toggles, priority=900)  # after the theme
    app.connect("build-finished", redirect)
