"""R7: drafts of schemas under a project's ledger and in checkpoints: charged first, once, and never forgotten."""

import json
import math
import random
from collections import Counter
from pathlib import Path
from typing import Any

import killed_fits
import pandas as pd
import pytest
from fitted_tables import frame, small, wgan
from killed_fits import DRAFTED_ROWS, EPSILON, drafting, executed

from tabsynth import PATEACGAN, BudgetError, InputError, MargNet, Schema, draft_private, load
from tabsynth.drafting.relation_search import SELECTION
from tabsynth.privacy import ProjectLedger
from tabsynth.privacy.accounting.accountants import gaussian_delta
from tabsynth.privacy.accounting.mechanisms import ThresholdedGaussian
from tabsynth.privacy.certificate.verification import verify
from tabsynth.privacy.ledger.journal import Journal, _chain_hash, _line
from tabsynth.privacy.ledger.ledger import Ledger

DELTA = 1e-5
FORMATS = "schema: formats of columns"
VALUES, LAST = (f"schema: values of columns, round {n}" for n in (1, 5))


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    return frame(DRAFTED_ROWS)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    ProjectLedger.create(tmp_path / "project.ledger", epsilon=4.0)
    return tmp_path / "project.ledger"


def entries(project: Path | None, folder: Path) -> list[Any]:
    """The accounts as the files have them now."""
    if project is not None:
        return list(ProjectLedger.read(project).entries.values())
    path = folder / "ck" / "ledger.jsonl"
    if not path.exists():
        return []
    journal = Journal(path, EPSILON, DELTA)
    journal.release()
    return list(journal.entries.values())


def within(items: list[Any], epsilon: float) -> None:
    """All are Gaussians on the whole table, so that a closed form is the whole of the accounting, but for thresholds."""
    squared = sum(e.spent / e.mechanism.noise_multiplier**2 for e in items)
    thresholds = sum(e.spent * getattr(e.mechanism, "threshold_delta", 0.0) for e in items)
    assert gaussian_delta(math.sqrt(squared) or 1e-9, epsilon) + thresholds <= DELTA * (1 + 1e-6)


def test_draft_and_fit_are_on_the_project(project: Path, table: pd.DataFrame) -> None:
    """Two runs, which compose once: the draft is not in the fit's run, and the certificate has both."""
    model = drafting().fit(table, ledger=project)
    kept = ProjectLedger.read(project)
    assert [(r.what, r.ended) for r in kept.runs()] == [("schema", True), ("margnet", True)]
    items = entries(project, project)
    assert [e.purpose for e in items][:2] == [FORMATS, VALUES]
    assert all(e.spent == 1 for e in items if not e.purpose.endswith(SELECTION))
    drafted = [e for e in items if e.purpose.startswith("schema: ")]
    assert items[: len(drafted)] == drafted and items[len(drafted)].run != items[0].run
    assert len({e.run for e in drafted}) == 1
    certificate = model.certificate()
    assert certificate["epsilon"] == EPSILON and certificate["private"]
    listed = [(i["purpose"], i["noise_multiplier"]) for i in certificate["mechanisms"]]
    assert listed == [(e.purpose, e.mechanism.noise_multiplier) for e in items]
    earlier = [i.get("earlier", False) for i in certificate["mechanisms"]]
    assert earlier == [e.purpose.startswith("schema: ") for e in items]
    assert certificate["project"]["share"] == kept.share == kept.filter.share(kept.spends())
    within(items, EPSILON)
    model.sample_to(project.parent / "s.csv", 20)
    assert verify(project.parent / "s.csv").consistent


def test_the_whole_limit_covers_draft_and_fit(tmp_path: Path, table: pd.DataFrame) -> None:
    for composition in ("renyi", "gaussian"):
        path = tmp_path / composition
        ProjectLedger.create(path, epsilon=EPSILON, composition=composition)
        drafting().fit(table, ledger=path)
        assert 0.8 < ProjectLedger.read(path).share <= 1 + 1e-9


def test_what_would_exceed_the_limit_is_refused_before_the_draft(
    project: Path, table: pd.DataFrame, reads: list[str]
) -> None:
    """Neither a draft is charged for a fit that is refused, nor one by a method that the ledger does not take."""
    drafting().fit(table, ledger=project)
    before, count = project.read_bytes(), len(reads)
    with pytest.raises(BudgetError, match="the draft and the fit would exceed its limit of 4"):
        drafting().fit(table, ledger=project)
    with pytest.raises(BudgetError, match="the draft and the fit would exceed"):
        draft_private(table, 3.0, ledger=project)
    with pytest.raises(InputError, match="seeded draft is not private"):
        draft_private(table, 0.1, ledger=project, random_state=1)
    with pytest.raises(InputError, match="A seeded fit is not private"):
        drafting().set_params(random_state=1).fit(table, ledger=project)
    assert project.read_bytes() == before and len(reads) == count
    other = project.parent / "gaussian"
    ProjectLedger.create(other, epsilon=9.0, composition="gaussian")
    before = other.read_bytes()
    with pytest.raises(BudgetError, match="composition='renyi'"):
        small(config=wgan(rate=0.5)).set_params(schema=None).fit(table, ledger=other)
    assert other.read_bytes() == before and len(reads) == count


def test_what_can_be_refused_is_refused_before_the_draft(
    table: pd.DataFrame, reads: list[str]
) -> None:
    for model, says in (
        (MargNet(epsilon=1, rows=-1), "rows"),
        (MargNet(epsilon=1, config=5), "config"),  # type: ignore[arg-type]
        (MargNet(epsilon=1, workload=[("k", "none")]), "none"),
        (PATEACGAN(epsilon=1, class_column="none"), "class_column"),
        (
            PATEACGAN(epsilon=1, class_column="k", class_shares={"x": 1.0}),
            "class_shares needs a schema",
        ),
        (small(public=table, public_source="a").set_params(schema=None), "public needs a schema"),
    ):
        with pytest.raises(InputError, match=says):
            model.fit(table)
    assert reads == []


def test_a_draft_alone_on_a_project(project: Path, table: pd.DataFrame) -> None:
    """Fits with the schema are made under the ledger, which has the draft once; no other takes it."""
    schema = draft_private(table, 0.5, ledger=project)
    schema.save(project.parent / "schema.json")
    schema = Schema.load(project.parent / "schema.json")
    assert schema.released is not None and schema.released["project"]
    config = drafting().config
    for epsilon in (1.0, 1.5):
        model = MargNet(schema, epsilon=epsilon, config=config).fit(table, ledger=project)
        purposes = [i["purpose"] for i in model.certificate()["mechanisms"]]
        assert purposes[:2] == [FORMATS, VALUES]  # in the fit's own budget, too
    kept = ProjectLedger.read(project)
    assert [r.what for r in kept.runs()] == ["schema", "margnet", "margnet"]
    assert Counter(e.purpose for e in entries(project, project))[VALUES] == 1
    assert kept.runs()[0].epsilon == pytest.approx(0.5, rel=0.02)
    with pytest.raises(InputError, match="draft of the schema is on a project's ledger"):
        MargNet(schema, epsilon=1.0, config=config).fit(table)
    other = draft_private(table, 0.5)
    with pytest.raises(InputError, match="draft of the schema was not made under ledger"):
        MargNet(other, epsilon=1.0, config=config).fit(table, ledger=project)


def test_thresholds_of_all_drafts_keep_to_their_part_of_delta(
    project: Path, table: pd.DataFrame
) -> None:
    for _ in range(4):
        draft_private(table, 0.2, ledger=project)
    taken: dict[str, float] = {}
    for entry in entries(project, project):
        threshold = getattr(entry.mechanism, "threshold_delta", 0.0)
        taken[entry.run] = taken.get(entry.run, 0.0) + threshold
    parts = [DELTA / 20, DELTA / 40, DELTA / 80, DELTA / 160]
    assert list(taken.values()) == pytest.approx(parts)
    kept = ProjectLedger.read(project)
    assert sum(taken.values()) < kept.threshold_delta == pytest.approx(0.1 * DELTA)
    assert kept.filter.delta + kept.threshold_delta == pytest.approx(DELTA)
    large = ThresholdedGaussian(noise_multiplier=100.0, threshold_delta=0.1 * DELTA)
    with ProjectLedger(project) as held, pytest.raises(BudgetError, match="for the threshold"):
        held.check("x", [(large, 1)])


def test_a_ledger_of_before_sets_nothing_aside(
    project: Path, table: pd.DataFrame, reads: list[str]
) -> None:
    line = json.loads(project.read_text())
    del line["chain"], line["threshold_delta"]
    project.write_bytes(_line(line, _chain_hash("", line)))
    with pytest.raises(BudgetError, match="No part of delta is left for the draft"):
        drafting().fit(table, ledger=project)
    assert reads == []
    small().fit(frame(), ledger=project)  # and other fits have all of δ


def test_a_checkpoint_keeps_the_draft(
    table: pd.DataFrame, tmp_path: Path, reads: list[str]
) -> None:
    """A fit that was interrupted after its draft goes on with the schema that it has released."""

    def progress(stage: str, done: int, total: int) -> None:
        raise RuntimeError("power cut")

    one = drafting()
    with pytest.raises(RuntimeError):
        one.fit(table, checkpoint=tmp_path / "ck", progress=progress)
    assert one.schema is None and one.ledger_.spent > 0
    state = json.loads((tmp_path / "ck" / "checkpoint.json").read_text())
    assert state["kept"][0]["kind"] == "schema" and len(state["given_up"]) == 1
    count = len(reads)
    assert reads[:2] == [FORMATS, VALUES]
    for model in (drafting(), one):  # another object, and the same one
        model.fit(table, checkpoint=tmp_path / "ck")
        assert len(reads) == count  # all counts were released before the first step
        certificate = model.certificate()
        assert certificate["epsilon"] == EPSILON and certificate["private"]
        purposes = [i["purpose"] for i in certificate["mechanisms"]]
        assert purposes[:2] == [FORMATS, VALUES] and Counter(purposes).most_common(1)[0][1] == 1
    assert drafting().fit(table, checkpoint=tmp_path / "ck").schema_ == one.schema_
    with pytest.raises(InputError, match="belongs to another fit: target"):
        drafting().set_params(target="k").fit(table, checkpoint=tmp_path / "ck")
    with pytest.raises(InputError, match="belongs to another fit"):
        MargNet(one.schema_, epsilon=EPSILON, config=one.config).fit(
            table, checkpoint=tmp_path / "ck"
        )


def finished(folder: Path, project: Path | None) -> dict[str, Any]:
    """Go on to the end, and check what all parts of the fit came to."""
    assert killed_fits.run(folder, drafts=True, ledger=project) == 0
    items, used = entries(project, folder), executed(folder)
    certificate = load(folder / "model").certificate()
    assert certificate["epsilon"] == EPSILON and certificate["private"]
    total: Counter[str] = Counter()
    for item in certificate["mechanisms"]:
        total[item["purpose"]] += item["count"]
    spent: Counter[str] = Counter()
    for item in items:
        spent[item.purpose] += item.spent
    assert total == spent and all(total[purpose] >= count for purpose, count in used.items())
    within(items, EPSILON)
    return certificate


@pytest.mark.slow
@pytest.mark.parametrize("under_project", [False, True])
def test_killed_within_a_draft(under_project: bool, tmp_path: Path) -> None:
    """A kill between charge and result counts as spent, and the draft is made again for what is left."""
    project = None
    if under_project:
        project = tmp_path / "project.ledger"
        ProjectLedger.create(project, epsilon=EPSILON)
    for kill, drafts in ((FORMATS, 1), (LAST, 2), ("one-way counts", 3)):
        assert killed_fits.run(tmp_path, read=kill, drafts=True, ledger=project) == -9
        assert executed(tmp_path)[kill] >= 1
        spent = Counter(e.purpose for e in entries(project, tmp_path) if e.spent)
        assert all(spent[p] >= n for p, n in executed(tmp_path).items())
        within(entries(project, tmp_path), EPSILON)
        assert spent[FORMATS] == drafts
    certificate = finished(tmp_path, project)
    counts = Counter(i["purpose"] for i in certificate["mechanisms"])
    # Two drafts were lost; the third was kept when its fit lost its counts.
    assert [counts[p] for p in (FORMATS, VALUES, LAST, "one-way counts")] == [3, 2, 2, 2]
    thresholds = [i["threshold_delta"] for i in certificate["mechanisms"] if "threshold_delta" in i]
    assert sum(thresholds) <= 0.1 * DELTA


@pytest.mark.slow
def test_killed_at_random_points_of_a_draft(tmp_path: Path) -> None:
    """Kill -9 around any call of the operating system, from the making of the checkpoint to the plan of the fit."""
    for number, point in enumerate(random.sample(range(1, 120), 4)):
        folder = tmp_path / str(number)
        folder.mkdir()
        assert killed_fits.run(folder, point, drafts=True) == -9, point
        spent = Counter(e.purpose for e in entries(None, folder) if e.spent)
        assert all(spent[p] >= n for p, n in executed(folder).items()), point
        finished(folder, None)


def test_a_lost_draft_leaves_a_ledger_that_still_adds_up() -> None:
    """Two drafts and a fit: the filter has δ without what is set aside, however much of that was taken."""
    mechanism = ThresholdedGaussian(noise_multiplier=9.0, threshold_delta=DELTA / 20)
    item = {"purpose": VALUES, **mechanism.to_dict(), "count": 1, "earlier": True}
    ledger = Ledger.from_list(EPSILON, DELTA, [item, item])
    assert ledger.filter.delta == pytest.approx(0.9 * DELTA)
    assert Ledger(EPSILON, DELTA).filter.delta == DELTA
    item["threshold_delta"] = 0.6 * DELTA
    assert Ledger.from_list(EPSILON, DELTA, [item]).filter.delta == pytest.approx(0.4 * DELTA)
    with pytest.raises(BudgetError, match="takes all of delta"):
        _ = Ledger.from_list(EPSILON, DELTA, [item, item]).filter
