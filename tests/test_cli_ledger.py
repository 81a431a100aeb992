"""``tabsynth ledger``, and ``--ledger`` of fit and evaluate, end to end."""

import contextlib
import json
from typing import Any

import pytest
from command_lines import FIT, make_people, make_schema, refused
from typer.testing import CliRunner

from tabsynth.cli import app
from tabsynth.privacy import ProjectLedger

# Its counts come first: a short fit costs the same.
MARGNET = (*FIT, "--time-limit", "1s", "--rows", 300, "--overwrite")


@pytest.fixture
def folder(tmp_path):
    make_schema().save(tmp_path / "schema.json")
    make_people(300).to_csv(tmp_path / "people.csv", index=False)
    return tmp_path


def done(*words: Any, cwd: Any) -> str:
    with contextlib.chdir(cwd):
        result = CliRunner().invoke(app, [*map(str, words)])
    assert result.exit_code == 0, result.output
    return result.stdout


def test_a_project_end_to_end(folder, monkeypatch):
    create = ("ledger", "create", "project.ledger", "--epsilon", 1.5)
    done(*create, "--delta", "1e-5", "--table-name", "people", cwd=folder)
    refused(*create, cwd=folder, says="project.ledger already exists")
    under = ("--ledger", "project.ledger")
    said = done(*MARGNET, "--epsilon", 1, *under, cwd=folder)
    for text in (
        "together satisfy (1.5, 1e-05)-differential privacy by a Rényi filter",
        "Used: 0.0% of",
    ):
        assert text in said
    share = ProjectLedger.read(folder / "project.ledger").share
    assert 0.5 < share < 0.7 and f"Used: {share:.1%} of the budget" in said
    done("keygen", "key", cwd=folder)
    words = ("sample", "model.tabsynth", "-n", 200, "-o", "synthetic.csv")
    done(*words, "--sign", "key", cwd=folder)
    certificate = json.loads((folder / "synthetic.csv.certificate.json").read_text())
    assert certificate["project"]["ledger"] == "project.ledger"
    assert str(folder) not in json.dumps(certificate)
    done("verify", "synthetic.csv", "--key", "key.pub", cwd=folder)

    # Past the limit: exit code 2 in one line, before the table is read; nothing changes.
    before = (folder / "project.ledger").read_bytes()
    with monkeypatch.context() as patch:

        def read(*_: Any) -> None:
            raise AssertionError("the table was read")

        patch.setattr("tabsynth.tables.files.read_table", read)
        left = ProjectLedger.read(folder / "project.ledger").epsilon_left()
        says = ["exceed its limit of 1.5", f"about {left:.4g} is left", "Nothing was read"]
        refused(*MARGNET, "--epsilon", 1.4, *under, cwd=folder, says=says)
    assert (folder / "project.ledger").read_bytes() == before

    evaluated = ("evaluate", "--real", "people.csv", "--synthetic", "synthetic.csv")
    evaluated = (*evaluated, "--schema", "schema.json", "-o", "report", *under)
    refused(*evaluated, cwd=folder, says="--ledger goes with --epsilon")
    refused(*evaluated, "--epsilon", 1.4, cwd=folder, says="exceed its limit of 1.5")
    said = done(*evaluated, "--epsilon", 0.2, cwd=folder)
    assert "All fits and reports under ledger project.ledger, these figures among them" in said
    assert json.loads((folder / "report" / "metrics.json").read_text())["project"]["limit"] == 1.5

    result = json.loads(done("ledger", "show", "project.ledger", "--json", cwd=folder))
    runs = result["runs"]
    assert [r["what"] for r in runs] == ["margnet", "report"] and all(r["ended"] for r in runs)
    assert [r["epsilon"] for r in runs] == pytest.approx([1.0, 0.2], rel=0.01)
    assert (
        sum(r["share"] for r in runs) == pytest.approx(result["share"]) and result["limit"] == 1.5
    )
    assert result["composition"]["name"] == "Rényi filter" and result["composition"]["order"] > 1
    shown = done("ledger", "show", "project.ledger", cwd=folder)
    for text in ("Table: people", "margnet", "share of the budget", "Rényi filter", "cannot check"):
        assert text in shown


def test_what_is_no_ledger(folder):
    for words in (
        (*MARGNET, "--epsilon", 1, "--ledger", "none.ledger"),
        ("ledger", "show", "none.ledger"),
    ):
        refused(*words, cwd=folder, says="none.ledger; make one: tabsynth ledger create")
    for words in (
        (*MARGNET, "--epsilon", 1, "--ledger", "people.csv"),
        ("ledger", "show", "people.csv"),
    ):
        refused(*words, cwd=folder, says="people.csv is damaged")
    refused("ledger", "create", "l", "--epsilon", -1, cwd=folder, says="--epsilon > 0, got -1")
    refused("ledger", "create", "no/l", "--epsilon", 1, cwd=folder, says="no/l")
    done("ledger", "create", "l", "--epsilon", 1, cwd=folder)
    assert "Used: 0.0% of the budget" in done("ledger", "show", "l", cwd=folder)
    create = ("ledger", "create", "g", "--epsilon", 1, "--composition")
    refused(*create, "prv", cwd=folder, says="got 'prv'")
    done(*create, "gaussian", cwd=folder)
    assert "by a Gaussian filter. Used: 0.0%" in done("ledger", "show", "g", cwd=folder)
    words = (*MARGNET, "--epsilon", 1, "--ledger", "l")
    refused(*words, "--seed", 1, cwd=folder, says="seeded")
    with ProjectLedger(folder / "l"):
        refused(*words, cwd=folder, says="in use by another fit")
    refused(*words, "-o", "l", cwd=folder, says="l is read by this command")
