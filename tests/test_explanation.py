"""Pages of explanation and programs of the gallery: computed figures, diagrams, sections and public names."""

import ast
import importlib.util
import math
import re
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

import tabsynth

DOCS = Path(__file__).resolve().parent.parent / "docs"
EXPLANATION = DOCS / "explanation"
METHODS = sorted((EXPLANATION / "methods").glob("*.md"))
GALLERY = sorted((DOCS / "gallery").glob("plot_*.py"))


def program(path: Path):
    spec = importlib.util.spec_from_file_location(f"docs_{path.parent.name}_{path.stem}", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def figures():
    return program(EXPLANATION / "figures.py")


def test_the_page_for_stewards_has_the_computed_figures(figures):
    text = figures.PAGE.read_text("utf-8")
    assert figures.page(text) == text, "run: python docs/explanation/figures.py"
    # What its sentences quote.
    odds = {row.split(" | ")[0].strip("| "): row for row in figures.tables()["odds"].splitlines()}
    assert (
        odds["1"].split(" | ")[1] == "2.72" and "| 2.7% |" in odds["1"] and "| 74% |" in odds["1"]
    )
    assert (
        "factor of at most 2.72" in text
        and "come to 2.7%" in text
        and "come to 74% at most" in text
    )


def test_the_bounds_for_stewards_hold_against_independent_computations(figures):
    """Against randomised response, which attains ε, and a numerical test between two normal distributions."""
    for epsilon in figures.EPSILONS:
        truth = math.exp(epsilon) / (1 + math.exp(epsilon))  # probability of an honest answer
        assert figures.advantage(epsilon) == pytest.approx(truth - (1 - truth))
        for prior in figures.PRIORS:
            bayes = prior * truth / (prior * truth + (1 - prior) * (1 - truth))
            assert figures.posterior(prior, epsilon) == pytest.approx(bayes)
    # δ of two unit normals μ apart, by numerical integration of the excess of one density over e^ε times the other.
    epsilon = 1.0
    mu = figures.gaussian_mu(epsilon, figures.DELTA)
    grid = np.linspace(-12, 16, 400_001)
    excess = stats.norm.pdf(grid - mu) - math.exp(epsilon) * stats.norm.pdf(grid)
    delta = np.maximum(excess, 0).sum() * (grid[1] - grid[0])
    assert delta == pytest.approx(figures.DELTA, rel=1e-3)
    threshold = stats.norm.isf(0.05)
    assert figures.detected(epsilon, 0.05) == pytest.approx(stats.norm.sf(threshold - mu))
    assert figures.composed(1.0, 1) == pytest.approx(1.0, abs=1e-5)
    assert 1.0 < figures.composed(1.0, 4) < 4.0


def test_bounds_are_rounded_up(figures):
    for share in (0.0, 0.0027, 0.0501, 0.731, 0.9991, 0.99966, 0.5):
        shown = float(figures.percent(share).rstrip("%")) / 100
        assert share - 1e-9 <= shown <= share + 0.01


@pytest.mark.parametrize("path", METHODS, ids=lambda path: path.stem)
def test_a_page_on_a_method_has_its_parts(path):
    text = path.read_text("utf-8")
    headings = re.findall(r"^## (.*)$", text, re.MULTILINE)
    needed = ("How it works", "Where tabsynth departs", "Classes and parameters", "When to use it")
    for heading in needed:
        assert any(own.startswith(heading) for own in headings), heading
    assert "```text\n" in text, "pseudocode"
    assert "/reports/" in text, "measured results"
    images = re.findall(r"!\[([^\]]+)\]\(([\w-]+\.svg)\)", text)
    assert images and all(len(alternative) > 60 for alternative, _ in images)
    for name in re.findall(r"`([A-Z]\w*(?:GAN|Net|Config|Schema|Keys))\b", text):
        assert name in tabsynth.__all__, name


def test_every_method_has_a_page_and_every_diagram_its_program():
    from tabsynth.methods import LINKED
    from tabsynth.methods import METHODS as SINGLE

    assert {*SINGLE, *LINKED, "dp-sgd", "dp-sat", "bam"} == {path.stem for path in METHODS}
    drawn = program(EXPLANATION / "methods" / "figures.py")
    used = {
        name
        for path in METHODS
        for name in re.findall(r"\]\(([\w-]+)\.svg\)", path.read_text("utf-8"))
    }
    files = {path.stem for path in (EXPLANATION / "methods").glob("*.svg")}
    assert used == files
    for name, (boxes, arrows) in drawn.DIAGRAMS.items():
        svg = (EXPLANATION / "methods" / f"{name}.svg").read_text("utf-8")
        for _, _, text, _ in boxes.values():
            for line in text.split("\n"):
                assert f">{line}<" in svg, f"{name}.svg lacks {line}: run figures.py beside it"
        assert {end for pair in arrows for end in pair[:2]} <= set(boxes)


@pytest.mark.parametrize("path", GALLERY, ids=lambda path: path.stem)
def test_a_program_of_the_gallery_compiles_and_uses_public_names_only(path):
    """`make docs` runs them."""
    source = path.read_text("utf-8")
    tree = ast.parse(source)
    docstring = ast.get_docstring(tree)
    assert re.match(r".+\n=+\n", docstring) and "# %%" in source and "plt." in source
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module.split(".")[0] == "tabsynth":
            assert node.module == "tabsynth", f"{path.name} imports {node.module}"
            assert {alias.name for alias in node.names} <= set(tabsynth.__all__)
        if isinstance(node, ast.Import):
            assert all(alias.name.split(".")[0] != "tabsynth" for alias in node.names)
        if isinstance(node, ast.Attribute):
            assert not node.attr.startswith("_")
    for target in re.findall(r":doc:`[^<`]*</([^>]+)>`", source):
        assert (DOCS.parent / f"{target}.md").exists(), target


def test_the_gallery_has_its_topics():
    topics = (
        *("census", "hospital", "weights", "subgroups"),
        *("comparing_methods", "digits", "gradient_bias"),
    )
    assert {f"plot_{topic}" for topic in topics} <= {path.stem for path in GALLERY}
