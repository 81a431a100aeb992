"""``tabsynth demo``: what it says before and after, and what it leaves."""

import json
import shlex
from pathlib import Path
from unittest import mock

import pytest
from command_lines import refused, run

from tabsynth import load_census
from tabsynth.cli import demo

pytestmark = pytest.mark.usefixtures("accounting_in_no_time", "few_attacks")

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture
def small():
    """The demo on a part of its table, with little time for each fit."""
    table, schema = load_census()
    names = ["SEX", "AGEP", "MSP"]
    part = table.loc[:899, names], schema.select(names)
    with (
        mock.patch("tabsynth.datasets.load_census", lambda: part),
        mock.patch.object(demo, "ROWS", 600),
        mock.patch.object(demo, "SECONDS", 1),
    ):
        yield


@pytest.mark.slow
def test_the_demo_says_what_its_table_is_and_what_to_do_next(small, tmp_path):
    text = run("demo", "-o", "results", "--epsilon", 4, cwd=tmp_path).stdout
    before, after = text[: text.index("one-way counts")], text[text.index("What to open") :]
    for words in ("synthetic and public", "900 rows", "No row is the record of a person"):
        assert words in before
    for words in ("600 rows", "300 rows", "ε = 4", "three minutes", "written to results"):
        assert words in before
    assert "error" not in text and "Private" not in before
    # Whatever else the machine does, the steps of DP-WGAN fit into its plan, and the whole budget is used.
    assert "Stopped early" not in text[text.index("dp-wgan:") :]
    text_of_gan = (tmp_path / "results/dp-wgan/synthetic.csv.certificate.json").read_text()
    assert 3.9 < json.loads(text_of_gan)["epsilon"] <= 4
    opened, following = after.split("What to do next:")
    files = [line.split()[0] for line in opened.splitlines() if line.startswith("  ")]
    assert len(files) == 3
    for file in files:
        assert (tmp_path / file).stat().st_size > 1000
    lines = [line.strip() for line in following.splitlines()]
    commands = [shlex.split(line)[1:] for line in lines if line.startswith("tabsynth")]
    assert [command[0] for command in commands] == ["verify", "fit"]
    run(*commands[0], cwd=tmp_path, code=4)
    pages = [word for line in lines for word in line.split() if word.endswith(".md")]
    assert len(pages) == 2
    for page in pages:
        assert (ROOT / page).is_file()


def test_a_demo_with_a_wrong_budget_makes_nothing(tmp_path):
    refused("demo", "--epsilon", "-1", "-o", "results", cwd=tmp_path, says="--epsilon > 0, got -1")
    (tmp_path / "file").write_text("")
    refused("demo", "-o", "file/results", cwd=tmp_path, says="file/results")


def test_the_help_says_how_long_the_demo_takes(tmp_path):
    assert "three minutes" in " ".join(run("demo", "--help", cwd=tmp_path).stdout.split())
