"""CONTRIBUTING.md, its pages, SECURITY.md and CITATION.cff name files that exist, in the package as it is."""

import re
import tomllib

import pytest
from mutants.patches import ROOT

PAGES = (
    "CONTRIBUTING.md",
    "docs/project/extending.md",
    "docs/project/documentation.md",
    "docs/project/tests-and-evidence.md",
    "SECURITY.md",
    "docs/design/privacy-rules.md",
)
TEXT = "".join((ROOT / page).read_text(encoding="utf-8") for page in PAGES[:4])
# Where a path on the page may begin: the page shortens those of the package.
BASES = (
    *("", "reports/benchmark", "reports/audits"),
    *("tabsynth", "tabsynth/evaluation", "tabsynth/privacy", "tabsynth/synthesizers"),
)


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page):
    path = ROOT / page
    targets = re.findall(r"\]\(([^)#:]+)[^)]*\)", path.read_text(encoding="utf-8"))
    assert targets and [t for t in targets if not (path.parent / t).exists()] == []


def test_files_that_contributors_are_sent_to_exist():
    """Every path and every module in backticks."""
    named = {*re.findall(r"`([\w.-]+/[\w./-]*|\w+\.py)`", TEXT)}
    assert len(named) > 60
    kept = {n for n in named if not n.startswith("build/")}  # build outputs are not in a checkout
    assert [n for n in kept if not any((ROOT / base / n).exists() for base in BASES)] == []


def test_names_that_contributors_are_sent_to_exist():
    """``NAME`` in `file`: a list, function or class that a new component is added to."""
    expected = {
        f"/{path.relative_to(ROOT)}": path.read_text(encoding="utf-8")
        for folder in ("tabsynth", "tests", "reports", "data")
        for path in (ROOT / folder).rglob("*.py")
    }
    pairs = re.findall(r"`(_?[A-Za-z]\w+)` (?:in|of)\s+`([\w/]+\.py)`", TEXT)
    assert len(pairs) > 12
    for name, file in pairs:
        texts = [text for path, text in expected.items() if path.endswith(f"/{file}")]
        defined = re.compile(rf"^(?:def |class )?{name}\b", re.MULTILINE)
        assert any(map(defined.search, texts)), f"{name} in {file}"


def test_every_package_is_in_the_layout():
    for path in (ROOT / "tabsynth").iterdir():
        if (path / "__init__.py").exists():
            assert f"| `{path.name}/` |" in TEXT


def test_the_citation_is_of_this_version():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    text = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert re.findall(r"^(?:version|license): (.*)$", text, re.MULTILINE) == [
        project["version"],
        project["license"],
    ]
    assert f"- name: {project['authors'][0]['name']}" in text
