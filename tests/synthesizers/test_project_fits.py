"""R7: fits under a project's ledger: they compose, are refused before a read, and go on after a crash."""

import json
import math
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from fitted_tables import SCHEMA, frame, small, small_acgan, small_dpgan, small_pate, stop_at

from tabsynth import BudgetError, InputError, MargNet, evaluate_private, load
from tabsynth.errors import FileFormatError
from tabsynth.privacy import ProjectLedger
from tabsynth.privacy.accounting.accountants import order_of
from tabsynth.privacy.certificate.verification import verify
from tabsynth.synthesizers.margnet.config import MargNetConfig

torch.set_num_threads(1)
DELTA = 1e-5


def margnet(epsilon: float = 1.0, **changes: Any) -> MargNet:
    config = MargNetConfig(components=20, hidden=(16,), steps=5, max_unscored=0)
    return MargNet(SCHEMA, epsilon=epsilon, config=config, **changes)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    ProjectLedger.create(tmp_path / "project.ledger", epsilon=4.0, table="the table")
    return tmp_path / "project.ledger"


def test_two_fits_compose(project: Path, tmp_path: Path) -> None:
    """Each keeps its own figure; of both together the limit is claimed, and the share that is used."""
    one = margnet(1.5).fit(frame(), ledger=project)
    other = small(epsilon=2.0).fit(frame(), ledger=str(project))
    project_ledger = ProjectLedger.read(project)
    first, second = (m.certificate()["epsilon"] for m in (one, other))
    assert first == pytest.approx(1.5, rel=1e-3) and 1.96 < second <= 2.0
    assert project_ledger.share == project_ledger.filter.share(project_ledger.spends())
    assert 0.3 < project_ledger.runs()[1].share < project_ledger.share < 0.6
    assert [(e.what, e.ended) for e in project_ledger.runs()] == [
        ("margnet", True),
        ("dp-wgan", True),
    ]
    assert [e.epsilon for e in project_ledger.runs()] == pytest.approx([first, second])
    # The certificate says both: its own, and that of the project so far.
    stated = [m.certificate()["project"] for m in (one, other)]
    shares = [e.share for e in project_ledger.runs()]
    assert [s["share"] for s in stated] == pytest.approx([shares[0], sum(shares)])
    kind = {"name": "Rényi filter", "order": project_ledger.filter.order}
    assert all(kind.items() <= s["composition"].items() and "epsilon" not in s for s in stated)
    for item, entry in zip(stated, project_ledger.runs(), strict=True):
        assert item["run"] == entry.run and item["chain"] in project_ledger.chains
        assert (item["ledger"], item["table"]) == ("project.ledger", "the table")
        assert (item["limit"], item["delta"], item["project"]) == (
            4.0,
            DELTA,
            project_ledger.project,
        )
    assert str(tmp_path) not in json.dumps(other.certificate())
    # … also after a file, and verify agrees.
    other.save(tmp_path / "m")
    loaded = load(tmp_path / "m")
    assert loaded.certificate()["project"] == stated[1]
    loaded.sample_to(tmp_path / "s.csv", 20)
    assert verify(tmp_path / "s.csv").consistent
    assert "project" not in margnet().fit(frame()).certificate()


@pytest.mark.parametrize("build", [small_dpgan, small_pate, small_acgan])
def test_every_method_takes_a_ledger(build: Any, project: Path) -> None:
    model = build().fit(frame(), ledger=project)
    project_ledger = ProjectLedger.read(project)
    (item,) = project_ledger.runs()
    assert item.what == model.method and item.ended
    assert item.epsilon == pytest.approx(model.certificate()["epsilon"])
    entries = project_ledger.entries.values()
    assert [(e.purpose, e.spent) for e in entries] == [
        (a.purpose, a.spent) for a in model.ledger_.accounts
    ]


def test_a_fit_past_the_limit_reads_nothing(project: Path, reads: list[str]) -> None:
    margnet(3.0).fit(frame(), ledger=project)
    before, count = project.read_bytes(), len(reads)
    left = ProjectLedger.read(project).epsilon_left()
    for model in (margnet(3.5), small(epsilon=3.5), margnet(math.inf)):
        with pytest.raises(BudgetError) as error:
            model.fit(frame(), ledger=project)
        assert f"about {left:.4g} is left" in str(error.value) and "\n" not in str(error.value)
        assert "Nothing was read" in str(error.value) and not hasattr(model, "ledger_")
    assert len(reads) == count and project.read_bytes() == before
    margnet(left).fit(frame(), ledger=project)  # what is said to be left is left
    assert 0.99 < ProjectLedger.read(project).share <= 1.0
    with pytest.raises(BudgetError, match="exceed its limit"):
        margnet(0.5).check(project)


def test_what_cannot_be_counted_is_refused(project: Path, tmp_path: Path) -> None:
    before = project.read_bytes()
    for model, says in (
        (margnet(random_state=1), "seeded"),
        (margnet(3.0).fit(frame()), "fitted to was not"),
    ):
        with pytest.raises(InputError, match=says):
            model.fit(frame(), ledger=project)
    with pytest.raises(InputError, match="'b'"):  # a table that breaks the schema leaves no line
        margnet().fit(frame().assign(b="maybe"), ledger=project)
    with pytest.raises(InputError, match="There is no ledger"):
        margnet().fit(frame(), ledger=tmp_path / "other")
    assert project.read_bytes() == before


def test_one_fit_at_a_time(project: Path) -> None:
    refused: list[str] = []

    def meanwhile(stage: str, done: int, total: int) -> None:
        if (stage, done) == ("critic", 2):
            with pytest.raises(InputError) as error:
                margnet().fit(frame(), ledger=project)
            refused.append(str(error.value))
            assert ProjectLedger.read(project).share > 0  # but anyone may look

    small().fit(frame(), ledger=project, progress=meanwhile)
    assert len(refused) == 1 and "in use by another fit" in refused[0]
    margnet(0.2).fit(frame(), ledger=project)


def test_with_a_checkpoint(project: Path, tmp_path: Path, reads: list[str]) -> None:
    """The fit's accounts are in the project's file alone; others may fit while it is away."""
    where = {"checkpoint": tmp_path / "ck", "ledger": project}
    with pytest.raises(RuntimeError):
        small().fit(frame(), progress=stop_at("critic", 3), **where)
    assert not (tmp_path / "ck" / "ledger.jsonl").exists()
    first = [(e.purpose, e.spent) for e in ProjectLedger.read(project).entries.values()]
    assert first == [("one-way counts", 1), ("autoencoder", 5), ("critic", 3)]
    margnet(1.0).fit(frame(), ledger=project)
    count = len(reads)
    # Neither without the ledger nor with another one.
    ProjectLedger.create(tmp_path / "other.ledger", epsilon=9.0)
    for changes in ({"ledger": None}, {"ledger": tmp_path / "other.ledger"}):
        with pytest.raises(InputError, match="ledger is"):
            small().fit(frame(), **{**where, **changes})
    model = small().fit(frame(), **where)
    assert reads[count:] == ["critic"] * 5  # of eight
    own = [e for e in ProjectLedger.read(project).entries.values() if e.run == model.ledger_.run]
    assert [(e.purpose, e.spent) for e in own] == [(p, 8 if p == "critic" else n) for p, n in first]
    assert 2.9 < model.certificate()["epsilon"] <= 3.0
    assert all(item.ended for item in ProjectLedger.read(project).runs())
    # It has ended: its model is restored, and nothing is charged.
    before = project.read_bytes()
    second = small().fit(frame(), **where)
    assert second.certificate()["project"] == model.certificate()["project"]
    assert project.read_bytes() == before


def test_an_older_copy_of_the_ledger_is_refused(project: Path, tmp_path: Path) -> None:
    older = project.read_bytes()
    where = {"checkpoint": tmp_path / "ck", "ledger": project}
    with pytest.raises(RuntimeError):
        small().fit(frame(), progress=stop_at("critic", 3), **where)
    project.write_bytes(older)
    with pytest.raises(FileFormatError, match="its ledger lacks what was written"):
        small().fit(frame(), **where)
    assert project.read_bytes() == older


def test_others_took_the_rest(project: Path, tmp_path: Path, reads: list[str]) -> None:
    """A fit that was away has no claim on what it had not used: refused before a read, and kept."""
    where = {"checkpoint": tmp_path / "ck", "ledger": project}
    with pytest.raises(RuntimeError):
        small().fit(frame(), progress=stop_at("autoencoder", 1), **where)
    margnet(3.4).fit(frame(), ledger=project)
    before, count = project.read_bytes(), len(reads)
    with pytest.raises(BudgetError, match="exceed its limit of 4"):
        small().fit(frame(), **where)
    assert (project.read_bytes(), len(reads)) == (before, count)


def test_a_refit_of_one_object(project: Path) -> None:
    """It counts its own fits in its own budget, and on the project they stand once each."""
    model = margnet(1.0).fit(frame(), ledger=project)
    model.set_params(epsilon=2.0).fit(frame(), ledger=project)
    assert model.certificate()["epsilon"] == 2.0
    project_ledger = ProjectLedger.read(project)
    assert project_ledger.share == pytest.approx(
        project_ledger.filter.share(model.ledger_.spends())
    )
    assert len(project_ledger.runs()) == 2


def test_a_published_report_is_charged(project: Path, reads: list[str]) -> None:
    table = margnet(2.0).fit(frame(), ledger=project).sample(60)
    count = len(reads)
    report = evaluate_private(frame(), table, schema=SCHEMA, epsilon=0.5, ledger=project)
    project_ledger = ProjectLedger.read(project)
    assert [e.what for e in project_ledger.runs()] == ["margnet", "report"]
    assert project_ledger.runs()[1].epsilon == pytest.approx(report.evaluation.epsilon)
    assert (
        report.evaluation.project is not None
        and report.evaluation.project["run"] == project_ledger.runs()[1].run
    )
    # What is stated of all of them is the budget, which the ledger keeps, not what they have spent.
    assert report.evaluation.budget == (project_ledger.epsilon, project_ledger.delta) == (4.0, 1e-5)
    assert report.to_dict()["budget"] == [4.0, 1e-5]
    assert report.to_dict()["statement"].startswith(
        "All fits and reports under ledger project.ledger"
    )
    assert "within its budget, (4, 1e-05)-differential privacy" in report.to_dict()["statement"]
    assert not any(
        "neither the table nor any other" in text for text in report.to_dict()["warnings"]
    )
    assert report.to_dict()["project"]["share"] == project_ledger.share
    assert {*reads[count:]} == {"report"}
    before, count = project.read_bytes(), len(reads)
    for changes, says in (
        ({"epsilon": 3.9}, "exceed its limit of 4"),
        ({"epsilon": None}, "epsilon"),
        ({"synthetic": margnet().fit(frame()).sample(9)}, "was not made under"),
    ):
        parameters = {"synthetic": table, "epsilon": 0.1, **changes}
        reads.clear()
        with pytest.raises((BudgetError, InputError), match=says):
            evaluate_private(frame(), schema=SCHEMA, ledger=project, **parameters)
        assert reads == []
    assert project.read_bytes() == before


def test_a_copied_checkpoint_is_charged_or_refused(project: Path, tmp_path: Path) -> None:
    """R24: under a ledger both copies draw on the accounts of one run, whichever goes on first."""
    where = {"checkpoint": tmp_path / "ck", "ledger": project}
    with pytest.raises(RuntimeError):
        small().fit(frame(), progress=stop_at("critic", 3), **where)
    shutil.copytree(tmp_path / "ck", tmp_path / "copy")
    small().fit(frame(), **where)
    before = project.read_bytes()
    with pytest.raises(BudgetError, match="above the budget of 3"):
        small().fit(frame(), **{**where, "checkpoint": tmp_path / "copy"})
    assert project.read_bytes() == before


def test_a_gaussian_ledger_takes_margnet_and_reports_alone(
    tmp_path: Path, reads: list[str]
) -> None:
    """Fits of 3 and what is left make 5 to the last bit; other methods are refused before a read."""
    path = tmp_path / "g.ledger"
    ProjectLedger.create(path, epsilon=5.0, composition="gaussian")
    model = margnet(3.0).fit(frame(), ledger=path)
    count, lines = len(reads), path.read_bytes()
    with pytest.raises(BudgetError, match=r"Ledger g\.ledger: .*composition='renyi'"):
        small(rate=0.2).fit(frame(), ledger=path)
    assert (len(reads), path.read_bytes()) == (count, lines)
    evaluate_private(frame(), model.sample(20), schema=SCHEMA, epsilon=0.5, ledger=path)
    left = ProjectLedger.read(path).epsilon_left()
    rest = margnet(left).fit(frame(), ledger=path)
    assert 0.999 < ProjectLedger.read(path).share <= 1 + 1e-9
    stated = rest.certificate()["project"]
    assert stated["composition"]["name"] == "Gaussian filter"
    assert stated["composition"]["order"] is None
    rest.sample_to(tmp_path / "s.csv", 20)
    assert not verify(tmp_path / "s.csv").problems
    # A certificate whose project claims less than this fit takes, or another filter, contradicts itself.
    beside = tmp_path / "s.csv.certificate.json"
    sound = beside.read_text()
    for changes, says in (
        ({"share": 0.01}, "of its budget, and it alone takes"),
        ({"limit": 0.5}, "past its project's limit"),
        ({"composition": {**stated["composition"], "order": 3.0}}, "not the filter of its limit"),
        ({"delta": 0.0}, "does not admit it"),
        ({"limit": 1e-300}, "past its project's limit"),
        ({"share": 1.5}, "1.5 times its budget"),
    ):
        data = json.loads(sound)
        data["project"] = {**stated, **changes}
        beside.write_text(json.dumps(data))
        assert any(says in problem for problem in verify(tmp_path / "s.csv").problems)


def test_a_filter_s_claim_is_recomputed(tmp_path: Path) -> None:
    """Neither a smaller ε nor another accountant or order passes for what was planned after outputs were seen."""
    model = margnet(1.0).fit(frame())
    model.set_params(epsilon=2.0).fit(frame()).sample_to(tmp_path / "s.csv", 20)
    assert not verify(tmp_path / "s.csv").problems
    beside = tmp_path / "s.csv.certificate.json"
    sound = json.loads(beside.read_text())
    assert sound["epsilon"] == 2.0 and sound["accountant"]["order"] == order_of(2.0, DELTA)
    assert sound["composition"].startswith("fully adaptive")
    exact = {"name": "exact Gaussian", "library": "tabsynth", "version": "0"}
    for changes, says in (
        ({"epsilon": 1.9}, "the mechanisms give epsilon=2"),
        (
            {"accountant": {**sound["accountant"], "order": 99.0}},
            "its accountant must be Rényi filter",
        ),
        ({"accountant": exact}, "its accountant must be Rényi filter"),
        (
            {
                "mechanisms": [
                    {k: v for k, v in m.items() if k != "earlier"} for m in sound["mechanisms"]
                ]
            },
            "its accountant must be exact Gaussian",
        ),
    ):
        beside.write_text(json.dumps({**sound, **changes}))
        problems = verify(tmp_path / "s.csv").problems
        assert any(says in problem for problem in problems), (changes, problems)
