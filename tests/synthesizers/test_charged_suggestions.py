"""R7: suggestions of rules under a project's ledger: charged before a row is read, once, and never forgotten."""

import math
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from command_lines import refused, run

from tabsynth import BudgetError, Categorical, InputError, MargNet, Schema, draft_private
from tabsynth.drafting import suggest_constraints, suggestions
from tabsynth.privacy import ProjectLedger
from tabsynth.synthesizers import MargNetConfig

DECLARED = Schema(
    [
        Categorical(name="ward", dtype="str", categories=("x", "y", "z")),
        Categorical(name="house", dtype="str", categories=("A", "B")),
        Categorical(name="sex", dtype="str", categories=("f", "m")),
    ]
)
STAGES = [f"suggestions: {s}" for s in (suggestions.COLUMNS, suggestions.SELECTION)]
DRAFT = "schema: formats of columns"
TINY = MargNetConfig(steps=1, components=5)


def table(rows: int = 3_000) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    ward = rng.choice(["x", "y", "z"], rows)
    house = np.where(ward == "x", "A", "B")
    return pd.DataFrame({"ward": ward, "house": house, "sex": rng.choice(["f", "m"], rows)})


def margnet(schema: Schema, epsilon: float) -> MargNet:
    return MargNet(schema, epsilon=epsilon, config=TINY, device="cpu")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    ProjectLedger.create(tmp_path / "project.ledger", epsilon=6.0)
    return tmp_path / "project.ledger"


@pytest.mark.parametrize("drafted", [True, False])
def test_draft_suggestions_and_fit_are_each_on_the_project_once(
    project: Path, drafted: bool
) -> None:
    schema = draft_private(table(), 0.5, ledger=project) if drafted else DECLARED
    suggested = suggest_constraints(table(), schema, 0.5, ledger=project)
    suggested.save(project.parent / "schema.json")
    suggested = Schema.load(project.parent / "schema.json")
    assert suggested.suggested and suggested.columns == schema.columns
    what = "draft" if drafted else "run of suggestions"
    with pytest.raises(InputError, match=f"The {what} of the schema is on a project's ledger"):
        margnet(suggested, 3.0).fit(table())
    model = margnet(suggested, 3.0).fit(table(), ledger=project)
    kept = ProjectLedger.read(project)
    before = ["schema"] * drafted
    assert [r.what for r in kept.runs()] == [*before, "suggestions", "margnet"]
    assert all(r.ended for r in kept.runs())
    counted = Counter(e.purpose for e in kept.entries.values())
    assert counted[STAGES[0]] == counted[STAGES[1]] == 1 and counted[DRAFT] == drafted
    certificate = model.certificate()
    listed = Counter(i["purpose"] for i in certificate["mechanisms"])
    assert listed[STAGES[0]] == listed[STAGES[1]] == 1 and listed[DRAFT] == drafted
    assert certificate["epsilon"] <= 3.0
    assert certificate["project"]["share"] == kept.share == kept.filter.share(kept.spends())


def test_the_ledger_is_charged_what_the_suggestions_state(project: Path) -> None:
    for epsilon in (0.5, 1.0):
        suggest_constraints(table(), DECLARED, epsilon, ledger=project)
        assert ProjectLedger.read(project).runs()[-1].epsilon == pytest.approx(epsilon, rel=1e-3)


def test_what_the_ledger_cannot_count_is_refused_before_a_row_is_read(
    project: Path, reads: list[str]
) -> None:
    other = project.parent / "other.ledger"
    ProjectLedger.create(other, epsilon=6.0)
    units = project.parent / "units.ledger"
    ProjectLedger.create(units, epsilon=6.0, unit="who")
    on_it, elsewhere = draft_private(table(), 0.5, ledger=project), draft_private(table(), 0.5)
    without = suggest_constraints(table(), DECLARED, 0.5)
    files = {path: path.read_bytes() for path in (project, other, units)}
    count = len(reads)
    for schema, options, error, says in (
        (on_it, {}, InputError, "draft of the schema is on a project's ledger; give that"),
        (on_it, {"ledger": other}, InputError, "was not made under ledger other.ledger"),
        (elsewhere, {"ledger": project}, InputError, "was not made under ledger project.ledger"),
        (without, {"ledger": project}, InputError, "run of suggestions of the schema was not made"),
        (DECLARED, {"ledger": project, "random_state": 1}, InputError, "seeded run of suggestions"),
        (DECLARED, {"ledger": units}, InputError, "protects"),
        (DECLARED, {"ledger": project.parent / "no"}, InputError, "There is no ledger"),
        (DECLARED, {"ledger": project, "epsilon": 6.0}, BudgetError, "suggestions would exceed"),
        (DECLARED, {"ledger": project, "epsilon": math.inf}, BudgetError, "Nothing was read"),
    ):
        options = {"epsilon": 1.0, **options}
        with pytest.raises(error, match=says):
            suggest_constraints(table(), schema, **options)
    with pytest.raises(InputError, match="'w'"):
        suggest_constraints(table().replace("x", "w"), DECLARED, 1.0, ledger=project)
    assert {path: path.read_bytes() for path in files} == files and len(reads) == count


def test_what_was_read_stays_charged_where_suggestions_fail(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(suggestions.samplers, "noisy", fail)
    with pytest.raises(KeyboardInterrupt):
        suggest_constraints(table(), DECLARED, 1.0, ledger=project)
    (entry,) = ProjectLedger.read(project).entries.values()
    assert (entry.purpose, entry.spent, entry.closed) == (STAGES[0], 1, True)


def test_the_command_takes_the_ledger(project: Path) -> None:
    folder = project.parent
    table().to_csv(folder / "t.csv", index=False)
    draft = ("schema", "draft", "t.csv", "--epsilon", 0.5, "-o", "s.json")
    run(*draft, "--ledger", project.name, cwd=folder)
    words = ("schema", "suggest", "t.csv", "s.json", "--epsilon", 0.5, "-o", "r.json")
    refused(*words, cwd=folder, says="is on a project's ledger; give that as ledger")
    said = run(*words, "--ledger", project.name, cwd=folder)
    assert "Ledger project.ledger" in said.stdout
    assert [r.what for r in ProjectLedger.read(project).runs()] == ["schema", "suggestions"]
    assert Schema.load(folder / "r.json").released.keys() == {
        *("facts", "hidden", "mechanisms", "project", "public", "release", "run", "seeded"),
    }
