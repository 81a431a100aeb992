"""Pages of explanation and programs of the gallery: computed figures, diagrams, sections and public names."""

import ast
import dataclasses
import importlib.util
import inspect
import json
import math
import re
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from mentions import PACKAGES, PUBLIC
from PIL import Image
from scipy import stats

import tabsynth
from tabsynth import InputError, LinkedSchema, Ordinal, Schema
from tabsynth.inference import influence
from tabsynth.methods import (
    AUTOENCODER,
    BY_EVENT,
    CLASS_VOTES,
    CONCEPTS,
    CRITIC,
    JOINT,
    LINKED,
    ONE_WAY,
    PROFILES,
    VOTES,
)
from tabsynth.methods import METHODS as SINGLE
from tabsynth.privacy.accounting.accountants import gaussian_epsilon
from tabsynth.privacy.accounting.attackers import percent, rounded_up
from tabsynth.synthesizers import MargNetConfig, PATEConfig
from tabsynth.synthesizers.adversarial.method import SHARES
from tabsynth.synthesizers.margnet.measurement import (
    AGAIN,
    DEPARTURE,
    INTERACTIONS,
    SCORES,
    TABLES,
    Task,
)
from tabsynth.synthesizers.margnet.selection import TREE_NOISE, largest_order
from tabsynth.synthesizers.margnet.weighting import (
    CLASSES,
    SWEEPS,
    WEIGHT_GROUPS,
    WeightClasses,
    _rake,
)

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


def test_sentences_on_odds_and_groups_have_the_figures_of_the_certificate(figures):
    """Each page quotes what a certificate of a Gaussian release states, by the function that computes it there."""
    bounds = figures.bounds(1.0)
    odds, exception = rounded_up(bounds.odds), rounded_up(bounds.exception)
    beliefs = {prior: percent(bounds.posterior(prior)) for prior in (0.01, 0.5)}
    of_contents = rounded_up(bounds.odds**2)
    beyond = rounded_up(bounds.exception * (1 + bounds.odds), 2)
    mu = figures.gaussian_mu(1.0, figures.DELTA)
    above = stats.norm.sf(1.0 / mu - mu / 2)  # of e^ε, which is not δ
    size = rounded_up(figures.group_epsilon(1.0, 5))
    delta = figures.group_delta(1.0, 5, 5.0)
    assert (odds, exception, beliefs[0.01], beliefs[0.5]) == ("2.99", "0.0001", "3%", "75%")
    assert (of_contents, beyond, size) == ("8.94", "0.0004", "6.17")
    assert above == pytest.approx(1.6e-4, rel=0.01) and delta == pytest.approx(3.04e-4, rel=0.01)
    mu_of_both = math.hypot(mu, figures.gaussian_mu(0.4, figures.DELTA))
    both = rounded_up(gaussian_epsilon(mu_of_both, figures.DELTA))
    quoted = {
        figures.PAGE: (
            f"grow by a factor of at most {odds}.",
            f"come to {beliefs[0.01]} at most",
            f"come to {beliefs[0.5]} at most",
            f"exceeded with a probability of {exception}, which is ten times δ",
            f"this is a factor of {of_contents}, except with probability {beyond}.",
            f"that probability is {above:.2g}.",
            f"{odds}, except with probability {exception}.",
            "at most a factor that the certificate states.",
            f"With 5 rows, ε is {size} at the same δ. At 5 times ε, δ is about {delta / 1e-5:.0f} times",
        ),
        DOCS / "tutorials" / "publishing-a-table.md": (f"together cost ε = {both}, which",),
        DOCS / "tutorials" / "first-table.md": (
            f"at most {odds} to 1",
            f"probability of {exception}",
        ),
        EXPLANATION / "sharp-edges" / "a-row-is-not-a-person.md": (f"[{size}](",),
        EXPLANATION / "threat-model.md": (
            f"the square is {of_contents}, except with probability {beyond}.",
        ),
        DOCS / "how-to" / "choose-epsilon-and-delta.md": (
            f"their odds by at most {odds}, except with probability {exception}",
            f"from 1% to {beliefs[0.01]}, or from 50% to {beliefs[0.5]}",
            f"With ε = 8 a belief of 1% can rise to {percent(figures.bounds(8.0).posterior(0.01))}",
            f"at most {rounded_up(bounds.advantage)}. Of two",
            f"in at most {bounds.share_of_right_guesses} of cases",
            f"of that factor: {of_contents} at ε = 1, except with probability {beyond}.",
            f"odds rise at most {odds}-fold, such as from 1% to {beliefs[0.01]}, from 10% to",
        ),
    }
    for path, sentences in quoted.items():
        text = " ".join(path.read_text("utf-8").split())
        assert [sentence for sentence in sentences if sentence not in text] == [], path.name


def test_no_page_has_another_statement_on_delta_or_groups():
    """e^ε alone bounds odds only where δ is 0, δ is no probability of its failure, and only one page has figures of groups."""
    wrong = re.compile(
        r"odds[^.]{0,80}at most e\^|e\^2ε|\bg·ε|\bg times |odds (may )?fail|bound to fail|epsilon does not hold"
        r"|with that chance|larger factor|the factor is larger|factor that ε and δ determine|what ε leaves out"
        r"|[Ee]ach has noise|every figure has|Each figure has|figures with noise only|[Ii]ts intervals cover the noise"
    )
    pages = [*DOCS.rglob("*.md"), DOCS.parent / "README.md"]
    sources = [
        p
        for p in (DOCS.parent / "tabsynth").rglob("*")
        if p.suffix in (".py", ".html", ".json", ".toml")
    ]
    found = {
        f"{path.relative_to(DOCS.parent)}: {match[0]}"
        for path in (*pages, *sources)
        for match in wrong.finditer(" ".join(path.read_text("utf-8").split()))
    }
    assert found == set()
    # The odds of two contents may change by more than the square, so each page that has it states how rarely.
    squares = re.compile(r"the square (?:of|is)(?!.{0,300}probability)")
    for path in pages:
        text = " ".join(path.read_text("utf-8").split())
        assert not ("odds" in text and squares.search(text)), path


def test_the_bounds_for_stewards_hold_against_independent_computations(figures):
    """Against a numerical test between two normal distributions."""
    # The odds of two contents of a record: one is taken out, another is put in, so that the means are 2μ apart.
    for epsilon in figures.EPSILONS:
        bounds, mu = figures.bounds(epsilon), figures.gaussian_mu(epsilon, figures.DELTA)
        assert bounds.advantage == pytest.approx(2 * stats.norm.cdf(mu / 2) - 1)
        assert stats.norm.sf(math.log(bounds.odds) / mu - mu / 2) <= bounds.exception
        beyond = stats.norm.sf(2 * math.log(bounds.odds) / (2 * mu) - mu)
        assert beyond <= bounds.exception * (1 + bounds.odds)
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


@pytest.mark.parametrize("path", METHODS, ids=lambda path: path.stem)
def test_a_page_on_a_method_has_its_parts(path):
    text = path.read_text("utf-8")
    headings = re.findall(r"^## (.*)$", text, re.MULTILINE)
    needed = ("How it works", "Where tabsynth departs", "Classes and parameters", "When to use it")
    for heading in needed:
        assert any(own.startswith(heading) for own in headings), heading
    assert "```pseudocode\n" in text
    assert "/reports/" in text, "measured results"
    images = re.findall(r"!\[([^\]]+)\]\(([\w-]+\.svg)\)", text)
    assert images and all(len(alternative) > 60 for alternative, _ in images)
    for name in re.findall(r"`([A-Z]\w*(?:GAN|Net|Config|Schema|Keys))\b", text):
        assert name in PUBLIC, name


def test_every_method_has_a_page_and_every_diagram_its_program():
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


def charged(method: str) -> set[str]:
    """The purposes of all mechanisms that plans of a method have, over its presets, variants, modes and options."""
    schema = Schema(
        Ordinal(name=name, dtype="int64", categories=range(3)) for name in ("a", "b", "c", "d")
    )
    if method in LINKED:
        low = {"key": "low", "parent": "top", "parent_key": "id", "max_children": 2}
        keys = {"top": {"key": "id"}, "low": {**low, "events": {"a": [1]}}}
        keys["deep"] = {"parent": "low", "parent_key": "low", "max_children": 2, "repeats": "a"}
        spent = {"purpose": CONCEPTS, "mechanism": "none", "count": 1}
        shares = {"mechanisms": [spent], "deep.a": {"1": [0.5, 0.1]}, "std": 0.01}
        top = Schema(schema.columns, released={**shares, "release": "made up"})
        schema = LinkedSchema({"top": top, "low": schema, "deep": schema}, keys=keys)
        makers = [partial(tabsynth.LinkedMargNet, schema)]
    else:
        weighted = Schema(schema.columns, weight="w", max_weight=9)
        makers = [
            partial(getattr(tabsynth, SINGLE[method].estimator), each)
            for each in (schema, weighted)
        ]
    table = pd.DataFrame({name: [0, 1, 2] for name in ("a", "b", "c", "d")})
    public = {"public": table, "public_source": "made up"}
    changes: list[dict[str, Any]] = [
        *({}, {"rows": 100}, public, {"tables": [("a", "b")]}, {"target": "a"}),
        *({"preset": "source"}, {"teachers": "networks"}, {"variant": "basic"}),
        *({"autoencoder": "dp-sgd", **change} for change in ({}, {"teachers": "networks"})),
        *({"autoencoder": "counts"}, {"config": MargNetConfig(max_unscored=0)}),
        {
            "teachers": "networks",
            "config": PATEConfig(start_from_counts=False),
            "autoencoder": "dp-sgd",
        },
    ]
    needed = {"epsilon": math.inf, **({"class_column": "a"} if method == "pate-acgan" else {})}
    purposes = set()
    for make, change in product(makers, changes):
        taken = inspect.signature(make).parameters
        if {*change} <= {*taken}:
            try:
                planned = make(**needed, **change).plan(estimate_time=False)
            except InputError:
                continue
            purposes |= {spend.purpose.rpartition(": ")[2] for spend in planned.spends}
    return purposes


@pytest.mark.parametrize("method", [*SINGLE, *LINKED])
def test_a_page_and_its_diagram_have_all_reads_that_the_method_plans(method):
    text = (EXPLANATION / "methods" / f"{method}.md").read_text("utf-8")
    section = re.search(r"^### Reads of private rows\n(.*?)(?=^#)", text, re.MULTILINE | re.DOTALL)
    listed = re.findall(r"^\| `([^`]+)` \|", section[1], re.MULTILINE)
    assert sorted(listed) == sorted(charged(method))
    drawn = program(EXPLANATION / "methods" / "figures.py")
    reads = drawn.READS[method]
    boxes = drawn.DIAGRAMS[method][0]
    assert {*reads} == {name for name, box in boxes.items() if box[3] == drawn.RELEASED}
    assert {read for box in reads.values() for read in box} == {*listed}
    assert not re.search(r"only (?:reads|.*reads private rows)", text)


def test_settings_on_a_page_are_the_defaults():
    configurations = [PUBLIC[name] for name in PUBLIC if "Config" in name]
    defaults = {
        field.name: field.default for each in configurations for field in dataclasses.fields(each)
    }
    stated = [
        (name, value)
        for path in [*METHODS, DOCS / "reference" / "methods.md"]
        for code in re.findall(r"(?<!`)`([^`\n]+)`(?!`)", path.read_text("utf-8"))
        for name, value in re.findall(r"\b(\w+)=([\d.]+)", code)
        if name in defaults
    ]
    assert stated
    assert [(name, value) for name, value in stated if float(value) != defaults[name]] == []
    margnet = " ".join((EXPLANATION / "methods" / "margnet.md").read_text("utf-8").split())
    assert f"with {100 * defaults['interactions_share']:g}% of the budget" in margnet
    rows = re.findall(
        r"\| (\d+)(?: to (\d+))? \| ([^|]*) \| ([\d.]+)%(?: to ([\d.]+)%)? \|", margnet
    )
    names = {
        "all columns, at most seven": 7,
        "five columns": 5,
        "four columns": 4,
        "three columns": 3,
    }
    for first, last, order, *shares in rows:
        for columns, share in zip(
            (first, last or first), (shares[0], shares[1] or shares[0]), strict=True
        ):
            columns_of = [
                Ordinal(name=f"c{j}", dtype="int64", categories=(0, 1)) for j in range(int(columns))
            ]
            task = Task(domain=Schema(columns_of), config=MargNetConfig())
            assert task.order == min(names[order], int(columns))
            assert 100 * task.stages[INTERACTIONS] == pytest.approx(float(share), abs=0.05)
    assert (rows[0][0], rows[-1][1], largest_order(20)) == ("3", "19", 0)
    assert f"a mean noise of more than {100 * TREE_NOISE:g}% of the rows" in margnet


def test_the_formulas_of_inference_and_weights_have_the_constants_of_the_code():
    page = (EXPLANATION / "valid-inference.md").read_text("utf-8")
    misfit, carried = influence.MISFIT, influence.CARRIED
    assert misfit == 10 and "10^2 \\cdot M (" in page
    assert f"{carried}^2 \\operatorname{{Var}}_Q(r)" in page and f"\\le {carried}$" in page
    assert f"\\ge {influence.SUPPORT}" in page
    page = (EXPLANATION / "survey-weights.md").read_text("utf-8")
    cap = 1000.0
    classes = WeightClasses(cap)
    k = np.arange(CLASSES)
    assert classes.means[:-1] == pytest.approx(cap / 2 * (k**2 + (k + 1) ** 2) / 1600)
    assert np.diff(classes.bounds, axis=0)[0, :-1] / 2 == pytest.approx(cap * (2 * k + 1) / 3200)
    assert classes.means[-1] == cap and classes.size == 41
    assert f"{np.linalg.norm(classes.means) / cap:.1f}\\, \\sigma_1 W" in page
    assert f"merged into {WEIGHT_GROUPS} groups" in page and f"{SWEEPS} sweeps" in page


def test_raking_does_not_move_away_from_the_population():
    """The decomposition of the page on weights, for a population whose margins are known."""
    rng = np.random.default_rng(0)
    rows = [rng.dirichlet(np.ones(size), 6) for size in (3, 4)]
    base = np.einsum("ka,kb->ab", *rows) / 6
    population = base * rng.uniform(0.1, 3.0, base.shape)
    population /= population.sum()
    blocks, shares = _rake(rows, [population.sum(axis=1), population.sum(axis=0)])
    raked = np.einsum("k,ka,kb->ab", shares, *blocks)

    def divergence(p, q):
        return float((p * np.log(p / q)).sum())

    assert divergence(population, base) == pytest.approx(
        divergence(population, raked) + divergence(raked, base)
    )
    assert divergence(population, raked) > 0.01


def test_the_autoencoder_of_dp_wgan_is_what_the_page_says():
    """It learns from noisy counts by default, in the preset of a document by its steps, and from a public table if there is one."""
    schema = Schema([Ordinal(name="a", dtype="int64", categories=range(3))])
    page = (EXPLANATION / "methods" / "dp-wgan.md").read_text("utf-8")
    rows = dict(re.findall(r'^\| `"([a-z-]+)"` \| .* \| (.*) \|$', page, flags=re.MULTILINE))
    options = {
        "in the preset `default`": {},
        "in the preset `source`": {"preset": "source", "rows": 100},
        "if there is one": {"public": pd.DataFrame({"a": [1]}), "public_source": "made up"},
    }
    for used, parameters in options.items():
        model = tabsynth.DPWGAN(schema, epsilon=1.0, **parameters)
        assert rows[model.make_method(schema).training] == used


def test_every_purpose_is_a_read_of_some_method():
    """So that the options above reach all of them."""
    names = {*SHARES, AUTOENCODER, CRITIC, VOTES, CLASS_VOTES, PROFILES, BY_EVENT}
    names |= {ONE_WAY, SCORES, INTERACTIONS, TABLES, JOINT, DEPARTURE, AGAIN}
    drawn = program(EXPLANATION / "methods" / "figures.py").READS.values()
    assert {read for boxes in drawn for box in boxes.values() for read in box} == names


@pytest.mark.parametrize("path", GALLERY, ids=lambda path: path.stem)
def test_a_program_of_the_gallery_compiles_and_uses_public_names_only(path):
    """`make docs` runs them."""
    source = path.read_text("utf-8")
    tree = ast.parse(source)
    docstring = ast.get_docstring(tree)
    assert re.match(r".+\n=+\n", docstring) and "# %%" in source and "plt." in source
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module.split(".")[0] == "tabsynth":
            assert node.module in PACKAGES, f"{path.name} imports {node.module}"
            assert {alias.name for alias in node.names} <= {*PUBLIC, "inference"}
        if isinstance(node, ast.Import):
            assert all(alias.name.split(".")[0] != "tabsynth" for alias in node.names)
        if isinstance(node, ast.Attribute):
            assert not node.attr.startswith("_")
    for target in re.findall(r":doc:`[^<`]*</([^>]+)>`", source):
        assert (DOCS.parent / f"{target}.md").exists(), target
    # One picture, whose alternative text says what is seen.
    (alternative,) = re.findall(r"^# \.\. alt: (.*\n(?:#    .*\n)*)", source, re.MULTILINE)
    assert source.count("plt.show()") == 1 and 20 < len(alternative.split()) < 60


def test_the_gallery_has_its_topics():
    topics = (
        *("census", "hospital", "weights", "subgroups", "epsilon", "intervals", "linked"),
        *("comparing_methods", "digits", "gradient_bias"),
    )
    assert {f"plot_{topic}" for topic in topics} <= {path.stem for path in GALLERY}


@pytest.mark.slow
def test_the_picture_of_the_readme_shows_what_its_program_draws():
    """Each line is near that of another run, and a relation that is lost at ε = 0.1 is kept at ε = 1, as the title says."""
    epsilon = program(DOCS / "epsilon.py")
    with Image.open(epsilon.PICTURE) as picture:
        shown = json.loads(picture.text["Description"])
    drawn = epsilon.values(epsilon.draw())
    plt.close("all")
    assert [*shown] == [*drawn] == ["ε = 0.1", "ε = 1", "ε = 10"]
    distances = {}
    for panel, lines in shown.items():
        assert [*lines] == [*drawn[panel]]
        for label, line in lines.items():
            allowed = 0.01 if label.endswith("real") else 0.4
            assert np.abs(np.subtract(line, drawn[panel][label])).mean() < allowed, label
            real = lines[label.replace("synthetic", "real")]
            distances[panel, label] = np.abs(np.subtract(line, real)).mean()
    for label in ("men, synthetic", "women, synthetic"):
        assert 2 * distances["ε = 1", label] < distances["ε = 0.1", label]
        assert distances["ε = 10", label] < 0.2
