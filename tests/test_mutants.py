"""The mutants of the gate (``make mutants``) fit the code as it is: none lies dead in its folder."""

import ast
from pathlib import Path

import pytest
from mutants.patches import ROOT, DoesNotApply, Edit, Mutant, mutants, there

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


@pytest.mark.parametrize("mutant", ALL, ids=lambda mutant: mutant.name)
def test_a_mutant_applies_and_compiles(mutant: Mutant) -> None:
    """Its text is there once, what comes out is Python and not what it was, and its tests exist."""
    changed = mutant.applied(ROOT)
    assert changed and all(name.startswith("tabsynth/") for name in changed)
    for name, text in changed.items():
        before = (ROOT / name).read_text(encoding="utf-8")
        assert ast.dump(ast.parse(text)) != ast.dump(ast.parse(before)), "it changes nothing"
    assert mutant.tests and mutant.rule.startswith("R") and mutant.mistake.endswith(".")
    assert all(map(there, mutant.tests)), "a test that it expects is not there"


def test_every_listed_mistake_is_made() -> None:
    assert {m.listed for m in ALL} - {""} == LISTED and len(ALL) >= 60
    assert len({m.mistake for m in ALL}) == len({m.edits for m in ALL}) == len(ALL)


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
