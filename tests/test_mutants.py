"""The mutants of the gate (``make mutants``) fit the code as it is: none lies dead in its folder."""

import ast
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest
from mutants.patches import ROOT, DoesNotApply, Edit, Mutant, Patch, mutants, there

ALL = mutants()
# The design's list of known mistakes; each is made by one mutant or more.
LISTED = {
    "noise scale with `10 ^ delta`",
    "Laplace scale λ for 1/λ",
    "every teacher sees the last shard",
    "partition redrawn each round",
    "`exp(2λl+1)` for `exp(2λ(l+1))`",
    "uncharged batches",
    "student sees a real row",
    "min/max from data",
    "categories from data",
    "shuffled batches under Poisson accounting",
    "drop_last",
    "realised-batch divisor",
    "missing clip",
    "clip after averaging",
    "groups charged once",
    "autoencoder off the ledger",
    "BatchNorm in the critic",
    "minibatch averaging",
    "budget checked after spending",
    "batch-mean BAM ascent",
    "data-dependent ε reported",
    "`array_split` shards",
    "class ratios read raw",
    "n used for the output size",
}


@cache
def before(name: str) -> str:
    """The syntax tree of a file without a mutant, as text."""
    return ast.dump(ast.parse((ROOT / name).read_text(encoding="utf-8")))


@pytest.mark.parametrize("mutant", ALL, ids=lambda mutant: mutant.name)
def test_a_mutant_applies_and_compiles(mutant: Mutant) -> None:
    """Its text is there once, what comes out is Python and not what it was, and its tests exist."""
    changed = mutant.applied(ROOT)
    assert changed and all(name.startswith("tabsynth/") for name in changed)
    for name, text in changed.items():
        assert ast.dump(ast.parse(text)) != before(name), "it changes nothing"
    assert mutant.tests and mutant.rule.startswith("R") and mutant.mistake.endswith(".")
    assert all(map(there, mutant.tests)), "a test that it expects is not there"


def test_a_mutant_uses_names_that_its_module_has(tmp_path: Path) -> None:
    """A name that is gone ends the run with a NameError: nobody has noticed the mistake then."""
    for mutant in ALL:
        for name, text in mutant.applied(ROOT).items():
            file = tmp_path / mutant.name / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
    command = [sys.executable, "-m", "ruff", "check", "--isolated", "--select", "F821", tmp_path]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def test_every_listed_mistake_is_made() -> None:
    assert {m.listed for m in ALL} - {""} == LISTED and len(ALL) >= 60
    assert len({m.mistake for m in ALL}) == len({(m.edits, m.patches) for m in ALL}) == len(ALL)


def test_a_mutant_that_no_longer_applies_is_loud(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("x = 1\nx = 1\ny = 2\n")

    def mutant(*edits: Edit) -> Mutant:
        return Mutant("07-gone", "R7", "It.", "", ("tests",), edits)

    for old, times in (("x = 1", 2), ("x = 3", 0)):
        with pytest.raises(DoesNotApply, match=f"07-gone no longer applies: .* {times} times"):
            mutant(Edit("a.py", old, "")).applied(tmp_path)
    with pytest.raises(DoesNotApply, match="0 times in b"):
        mutant(Edit("b.py", "x", "")).applied(tmp_path)
    both = mutant(Edit("a.py", "y = 2", "y = 3"), Edit("a.py", "y = 3", "y = 4"))
    assert both.applied(tmp_path) == {"a.py": "x = 1\nx = 1\ny = 4\n"}
    assert (tmp_path / "a.py").read_text().endswith("y = 2\n")  # the copy at hand is left as it is


def test_a_patch_replaces_a_definition_whatever_the_text_around_it(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(
        "LIMIT = 1\n\nclass Box:\n    def open(self, n):\n        return n\n\n"
        "    @property\n    def size(self):\n        return LIMIT\n\n"
        "def half(n):\n    return n / 2\n\ndef both(n):\n    return half(n), open\n"
    )

    def run(*patches: Patch) -> dict:
        mutant = Mutant("07", "R7", "It.", "", ("tests",), patches=patches)
        (text,) = mutant.applied(tmp_path).values()
        namespace: dict = {}
        exec(text, namespace)
        return namespace

    result = run(
        Patch("a:Box.open", "def open(self, n):\n    return n + 1\n"),
        Patch("a:half", "def half(n):\n    return n\n"),
        Patch("a:LIMIT", "LIMIT = 5\n"),
        Patch("a:Box.size", "@property\ndef size(self):\n    return LIMIT + 1\n"),
    )
    assert (result["Box"]().open(1), result["Box"]().size) == (2, 6)
    assert result["both"](4) == (4, open)  # the method did not become a function of the module


@pytest.mark.parametrize(
    ("target", "new", "message"),
    [
        ("a:Box.shut", "def shut(self):\n    pass\n", "a:Box.shut: it is not defined there"),
        ("b:half", "def half(n):\n    return n\n", "b:half: it is not defined there"),
        ("a:half", "def half(n, m):\n    return n\n", "its parameters are"),
        ("a:half", "def half(n):\n    return n / 2\n", "the new definition is the same"),
        ("a:half", "half = 3\n", "one of them is a function"),
    ],
)
def test_a_patch_that_no_longer_applies_is_loud(
    tmp_path: Path, target: str, new: str, message: str
) -> None:
    (tmp_path / "a.py").write_text(
        'class Box:\n    pass\n\ndef half(n):\n    """Of n."""\n    return n / 2\n'
    )
    mutant = Mutant("07-gone", "R7", "It.", "", ("tests",), patches=(Patch(target, new),))
    with pytest.raises(DoesNotApply, match=f"07-gone no longer applies: .*{message}"):
        mutant.applied(tmp_path)
