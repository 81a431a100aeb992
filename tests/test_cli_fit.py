"""``tabsynth fit``: which options a method takes, interrupts, kills, and going on after them."""

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import time

import pages
import pytest
from command_lines import FIT_GAN as FIT
from command_lines import TABSYNTH, make_people, make_schema, refused, run, start
from typer.testing import CliRunner

from tabsynth import load
from tabsynth.cli import app
from tabsynth.cli.options import METHOD_NAMES
from tabsynth.privacy import ProjectLedger
from tabsynth.privacy.certificate.certificate import interrupted_claim, rounded_up
from tabsynth.privacy.ledger.journal import Journal
from tabsynth.synthesizers import METHODS


@pytest.fixture
def folder(tmp_path):
    make_schema().save(tmp_path / "schema.json")
    make_people().to_csv(tmp_path / "people.csv", index=False)
    make_people(seed=1).to_csv(tmp_path / "holdout.csv", index=False)
    return tmp_path


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--epsilon", "0"), "epsilon"),
        (("--epsilon", "-1"), "got -1"),
        (("--epsilon", "nan"), "got nan"),
        (("--epsilon", "1", "--delta", "1"), "delta"),
        (("--epsilon", "1", "--delta", "1.5"), "got 1.5"),
        (("--epsilon", "1", "--method", "magic"), "magic"),
        (("--epsilon", "1", "--set", "preset=magic"), "magic"),
        (("--epsilon", "1", "--set", "network_encoding=magic"), "magic"),
        (("--epsilon", "1", "--set", "autoencoder=no-noise"), "no-noise"),
        (("--epsilon", "1", "--set", "autoencoder=public"), "public"),
        (("--epsilon", "1", "--device", "tpu"), "tpu"),
        (("--epsilon", "1", "--time-limit", "soon"), "soon"),
        (("--epsilon", "1", "--rows", "0"), "rows"),
        (("--epsilon", "1", "--seed", "-1"), "--seed"),
        # Options that another method has.
        (
            ("--epsilon", "1", "--set", "variant=basic"),
            ["dp-wgan", "no setting 'variant'", "preset"],
        ),
        (
            ("--epsilon", "1", "--method", "dp-gan", "--set", "preset=source"),
            ["dp-gan", "no setting 'preset'"],
        ),
        (
            ("--epsilon", "1", "--method", "margnet", "--set", "autoencoder=none"),
            "no setting 'autoencoder'",
        ),
        (
            ("--epsilon", "1", "--method", "margnet", "--public-source", "x"),
            "--public-source goes with a public table",
        ),
        (
            ("--epsilon", "1", "--method", "margnet", "--public", "holdout.csv"),
            "needs --public-source",
        ),
        (
            [
                "--epsilon",
                "1",
                "--method",
                "margnet",
                "--public",
                "people.csv",
                "--public-source",
                "x",
            ],
            "is the private table itself",
        ),
        (
            ("--epsilon", "1", "--method", "pate-gan", "--public-source", "a census"),
            "--public-source goes with a public table: give --public.",
        ),
        (
            ("--epsilon", "1", "--method", "margnet", "--set", "network_encoding=one-hot"),
            "no setting 'network_encoding'",
        ),
        (
            ("--epsilon", "1", "--method", "margnet", "--set", "target=town"),
            "target names column 'town'",
        ),
        (
            ("--epsilon", "1", "--method", "margnet", "--set", 'workload=[["sex"]]'),
            "two or three different",
        ),
        (
            ("--epsilon", "1", "--method", "margnet", "--set", 'workload=[["sex", "town"]]'),
            "'town'",
        ),
        (("--epsilon", "1", "--set", "target=job"), ["dp-wgan", "no setting 'target'"]),
        (("--epsilon", "1", "--method", "dp-gan", "--set", "variant=magic"), "magic"),
        (("--epsilon", "1", "--public", "holdout.csv"), "--public-source"),
        (("--epsilon", "1", "--checkpoint", "people.csv"), "people.csv"),
        (("--epsilon", "1", "--checkpoint", "no/such/folder"), "no/such/folder"),
    ],
)
def test_bad_parameters(folder, words, says):
    refused(*FIT, *words, cwd=folder, says=says)


@pytest.mark.slow
def test_wishes_of_a_fit(folder):
    words = ("fit", "people.csv", "--schema", "schema.json", "--epsilon", 1, "-o", "m")
    workload = 'workload=[["sex", "job"], ["age", "sex", "job"]]'
    wishes = ("--set", workload, "--set", "target=job")
    with contextlib.chdir(folder):
        done = CliRunner().invoke(app, [*map(str, (*words, *wishes))])
    assert done.exit_code == 0, done.output
    model = load(folder / "m")
    assert (model.workload, model.target) == ([["sex", "job"], ["age", "sex", "job"]], "job")


@pytest.mark.slow
def test_a_public_table_is_told_by_its_name_and_not_compared(folder):
    """The very same file is refused, whatever it holds; of a copy nobody looks whether the rows are the same."""
    words = (*FIT, "--epsilon", 1, "--rows", 10, "--set", "autoencoder=public")
    words = (*words, "--public-source", "a census of another year", "--public")
    refused(*words, "people.csv", cwd=folder, says="is the private table itself")
    shutil.copy(folder / "people.csv", folder / "copy.csv")
    run(*words, "copy.csv", "--time-limit", "1s", cwd=folder)
    public_facts = load(folder / "model.tabsynth").certificate()["public"]["public_table"]
    assert public_facts["provenance"] == "a census of another year"
    assert (
        public_facts["overlap"] == "declined: not counted"
        and len(public_facts["sha256_of_value_numbers"]) == 64
    )


@pytest.mark.slow
def test_warnings_are_lines(folder):
    """In a process that imports opacus itself, which would put a date before each."""
    words = [TABSYNTH, *FIT[:-2], "--epsilon", "1", "--rows", "4000", "--time-limit", "1"]
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=True)
    output = [
        line for line in done.stderr.splitlines() if line.startswith("warning: --rows 4000 is")
    ]
    assert len(output) == 1 and "correct --rows, or leave it out" in output[0]


SHORT = ("--set", "preset=source", "--set", "autoencoder=none", "--rows", 400, "--epsilon", 4)


def spent(folder, ledger="ck/ledger.jsonl"):
    """Uses that are written off in the checkpoint's ledger, or in a project's."""
    path = folder / ledger
    lines = path.read_text().split("\n")[:-1] if path.exists() else []
    return max([json.loads(line).get("spent", 0) for line in lines], default=0)


def training(folder, words, ledger="ck/ledger.jsonl"):
    """The command in a process of its own, which has taken a hundred of its 625 steps."""
    process = start(*words, cwd=folder, told=folder)
    until = time.monotonic() + 300
    while spent(folder, ledger) < 100 and process.is_alive() and time.monotonic() < until:
        time.sleep(0.01)
    assert spent(folder, ledger) >= 100
    return process


@pytest.mark.parametrize("presses", [1, 2])
def test_interrupt_leaves_a_model_and_says_what_was_spent(folder, presses):
    """Ctrl-C in the middle of the steps, once and twice in a row."""
    process = training(folder, ["-v", *FIT, *SHORT, "--checkpoint", "ck"])
    for _ in range(presses):
        os.kill(process.pid, signal.SIGINT)
        time.sleep(0.005)
    process.join(300)
    errors = (folder / "stderr").read_text("utf-8")
    assert process.exitcode == 130, errors
    assert "Traceback" not in errors and "Interrupted" in errors and "epsilon=" in errors
    run("sample", "model.tabsynth", "-n", 5, "-o", "s.csv", cwd=folder)
    run("verify", "s.csv", cwd=folder, code=4)  # it is not signed
    certificate = json.loads((folder / "s.csv.certificate.json").read_text())
    assert certificate["training"]["stopped"] == "interrupted"
    assert 0 < certificate["epsilon"] <= 4


@pytest.mark.slow
@pytest.mark.parametrize("checkpoint", [(), ("--checkpoint", "ck")], ids=["", "checkpoint"])
def test_an_interrupt_under_a_ledger_is_told_alike_everywhere(folder, checkpoint):
    """Message, certificate, verify and ledger: the ε of the whole plan, and the share of what was charged."""
    run("ledger", "create", "l", "--epsilon", 9, cwd=folder)
    process = training(folder, [*FIT, *SHORT, "--ledger", "l", *checkpoint], "l")
    os.kill(process.pid, signal.SIGINT)
    process.join(300)
    message = " ".join((folder / "stderr").read_text("utf-8").split())
    assert process.exitcode == 130, message
    run("sample", "model.tabsynth", "-n", 5, "-o", "s.csv", cwd=folder)
    verified = run("verify", "s.csv", cwd=folder, code=4)
    certificate = json.loads((folder / "s.csv.certificate.json").read_text())
    ledger = ProjectLedger.read(folder / "l")
    (of_run,) = ledger.runs()
    # The plan is 625 steps, of which some hundred were taken.
    assert [item["count"] for item in certificate["mechanisms"]] == [625]
    assert certificate["epsilon"] == pytest.approx(of_run.epsilon) and 3.9 < of_run.epsilon <= 4
    assert certificate["project"]["share"] == ledger.share == of_run.share
    (entry,) = ledger.entries.values()
    assert (entry.granted, ledger.share) == (
        625,
        ledger.filter.share([(entry.mechanism, entry.spent)]),
    )
    assert 64 <= entry.spent < 600
    claim = interrupted_claim(certificate["epsilon"], certificate["project"])
    assert f"epsilon={rounded_up(certificate['epsilon'])}, that of its whole plan" in claim
    assert f"and {ledger.share:.1%} of its budget is used" in claim
    assert f"model.tabsynth. I{claim[1:]}." in message
    if checkpoint:  # as docs/how-to/resume-a-fit.md has it, with other names and numbers
        page = pages.path_of("docs/how-to/resume-a-fit").read_text("utf-8")
        (words,) = [block.text for block in pages.blocks(page) if "Interrupted;" in block.text]
        for name, other in (("night.tabsynth", "model.tabsynth"), ("night.checkpoint", "ck")):
            words = words.replace(name, other)
        assert re.search(pages.pattern(words.replace("project.ledger", "l")), message), message
    assert f"its fit was interrupted: {claim}" in " ".join(verified.stdout.split())
    shown = run("ledger", "show", "l", cwd=folder).stdout
    assert f"{of_run.epsilon:.4g}" in shown and f"{ledger.share:.1%}" in shown
    assert "a fit that was interrupted claims its whole plan" in " ".join(shown.split())
    assert of_run.ended is not bool(checkpoint)


@pytest.mark.slow
def test_kill_and_the_same_command_again(folder):
    """Kill -9 in the middle of the steps: the same command goes on, and a third one spends nothing."""
    words = [*FIT, *SHORT, "--checkpoint", "ck"]
    process = training(folder, words)
    process.kill()
    process.join(300)
    assert process.exitcode == -signal.SIGKILL
    assert not (folder / "model.tabsynth").exists()
    killed = spent(folder)
    assert 100 <= killed < 625

    done = run(*words, cwd=folder)
    assert "ck: resumes from critic: " in done.stdout
    first = load(folder / "model.tabsynth")
    assert [(a.purpose, a.spent) for a in first.ledger_.accounts] == [("critic", 625)]
    assert first.certificate()["epsilon"] <= 4 and first.certificate()["private"] is True
    journal = Journal(folder / "ck" / "ledger.jsonl", 4.0, 1e-5)
    assert [(e.purpose, e.spent, e.closed) for e in journal.entries.values()] == [
        ("critic", 625, True)
    ]
    journal.release()

    content = (folder / "model.tabsynth").read_bytes()
    done = run(*words, cwd=folder)
    assert "its model is restored, and nothing is charged" in done.stdout
    assert (folder / "model.tabsynth").read_bytes() == content
    refused(*words, "--epsilon", 5, cwd=folder, says=["ck", "epsilon is 4.0 there and 5.0 here"])


def test_options_reach_the_method(folder, monkeypatch):
    """In this process: what is built is what was asked for; what was not given is the method's own."""
    built = []
    monkeypatch.setattr(
        "tabsynth.cli.fit.fit_and_print", lambda model, *rest, **_: built.append((model, rest[2]))
    )
    for words in (
        ("--epsilon", 2, "--set", "autoencoder=none", "--delta", 1e-6, "--seed", 3),
        ("--epsilon", 2, "--method", "dp-gan", "--set", "variant=basic", "--checkpoint", "ck"),
        ("--epsilon", 2, "--public", "holdout.csv", "--public-source", "a survey"),
    ):
        with contextlib.chdir(folder):
            done = CliRunner().invoke(app, [*FIT, *map(str, words)])
        assert done.exit_code == 0, done.output
    (one, _), (two, checkpoint), (three, _) = built
    assert (one.autoencoder, one.delta, one.random_state, one.preset) == (None, 1e-6, 3, "default")
    assert (two.method, two.variant, str(checkpoint)) == ("dp-gan", "basic", "ck")
    assert (three.public_source, len(three.public)) == ("a survey", 400)


def test_help_names_every_method():
    assert tuple(METHODS) == METHOD_NAMES
