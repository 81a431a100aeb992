"""``tabsynth refine``, end to end: from a fit that a time limit ended to a table that verifies."""

import json
import shutil

import pytest
from command_lines import FIT, make_people, make_schema, refused, run
from typer.testing import CliRunner

from tabsynth import load
from tabsynth.cli import app
from tabsynth.privacy import ProjectLedger

SHORT = ("--epsilon", 4, "--time-limit", "0.001s")
REACHED = "The distance of the model from the noisy counts is "


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("refine")
    make_schema().save(folder / "schema.json")
    make_people(2000).to_csv(folder / "people.csv", index=False)
    run("ledger", "create", "project.ledger", "--epsilon", 9, cwd=folder)
    done = run(*FIT, *SHORT, "--ledger", "project.ledger", cwd=folder)
    (folder / "said").write_text(done.stdout)
    return folder


@pytest.fixture
def folder(made, tmp_path):
    return shutil.copytree(made, tmp_path / "f")


def distance(path):
    return load(path).certificate()["training"]["distance"]


def test_a_limited_fit_is_refined_to_a_table_that_verifies(folder):
    """The distance is said, the project's ledger stays as it is, and the private table is not there any more."""
    reached = distance(folder / "model.tabsynth")
    said = (folder / "said").read_text()
    aim = "; a fit that is done comes to about 1" if reached > 1 else ""
    line = (
        f"Stopped early: time limit. {REACHED}{reached:.2f} times their noise{aim}."
        " To go on at no privacy cost: tabsynth refine model.tabsynth --overwrite.\n"
    )
    assert line in said
    (folder / "people.csv").unlink()
    charged = ProjectLedger.read(folder / "project.ledger").share
    first = (folder / "model.tabsynth").read_bytes()
    done = run("refine", "model.tabsynth", "-o", "refined.tabsynth", cwd=folder)
    after = distance(folder / "refined.tabsynth")
    assert after < reached and (folder / "model.tabsynth").read_bytes() == first
    lines = done.stdout.splitlines()
    aim = "; a fit that is done comes to about 1" if after > 1 else ""
    assert lines[0] == f"{REACHED}{after:.2f} times their noise{aim}."
    assert lines[1].startswith("Private: (") and lines[2] == "Model: refined.tabsynth"
    assert ProjectLedger.read(folder / "project.ledger").share == charged
    run("keygen", "key", cwd=folder)
    run("sample", "refined.tabsynth", "-o", "s.csv", "--sign", "key", cwd=folder)
    run("verify", "s.csv", "--key", "key.pub", cwd=folder)
    certificate = json.loads((folder / "s.csv.certificate.json").read_text())
    assert certificate["training"]["stopped"] is None
    assert certificate["epsilon"] == load(folder / "model.tabsynth").certificate()["epsilon"]


def test_a_model_is_replaced_only_when_asked(folder):
    before = (folder / "model.tabsynth").read_bytes()
    refused("refine", "model.tabsynth", cwd=folder, says=["model.tabsynth", "--overwrite"])
    refused("refine", "model.tabsynth", "-o", "schema.json", cwd=folder, says="schema.json")
    assert (folder / "model.tabsynth").read_bytes() == before
    done = run(
        "refine", "model.tabsynth", "-o", "a b.tabsynth", "--time-limit", "0.001s", cwd=folder
    )
    assert done.stdout.startswith(f"Stopped early: time limit. {REACHED}")
    command = " To go on at no privacy cost: tabsynth refine 'a b.tabsynth' --overwrite.\n"
    assert command in done.stdout  # as a shell takes it
    assert distance(folder / "a b.tabsynth") > 0
    run("refine", "a b.tabsynth", "--overwrite", cwd=folder)
    refused("refine", "a b.tabsynth", "--overwrite", cwd=folder, says="is done")


def test_what_is_no_model_of_counts_is_refused(folder):
    refused("refine", "people.csv", "-o", "m", cwd=folder, says="people.csv")
    refused("refine", "nowhere", "-o", "m", cwd=folder, says="nowhere")
    limit = ("refine", "model.tabsynth", "-o", "m", "--time-limit", "soon")
    refused(*limit, cwd=folder, says="--time-limit like 90s, 10m or 2h, got 'soon'")
    run(*FIT, *SHORT, "--method", "dp-wgan", "--overwrite", cwd=folder)
    refused("refine", "model.tabsynth", "-o", "m", cwd=folder, says="keeps no noisy counts")


def test_an_interrupt_leaves_the_model_so_far(folder, monkeypatch):
    from tabsynth.synthesizers import MargNet

    refine = MargNet.refine

    def pressed(self, **options):
        def press(stage, done, total):
            raise KeyboardInterrupt

        return refine(self, **{**options, "progress": press})

    monkeypatch.setattr(MargNet, "refine", pressed)
    monkeypatch.chdir(folder)
    done = CliRunner().invoke(app, ["refine", "model.tabsynth", "-o", "m"])
    assert done.exit_code == 130
    assert done.stderr == "error: Interrupted; the model so far is in m.\n"
    assert distance(folder / "m") <= distance(folder / "model.tabsynth") * (1 + 1e-6)
