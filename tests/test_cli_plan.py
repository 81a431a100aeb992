"""tabsynth plan: what it prints, and what it refuses."""

import re
import time
from statistics import NormalDist

import pytest
from command_lines import make_schema, refused
from rich.console import Console
from typer.testing import CliRunner

from tabsynth import PATEACGAN, PATEGAN
from tabsynth.cli import app, console

PATE = ("plan", "--rows", "19077", "--method", "pate-gan", "--epsilon", "1")


def told(*words):
    done = CliRunner().invoke(app, [*map(str, words)])
    assert done.exit_code == 0, (done.output, done.exception)
    return done.stdout


def test_labels_are_told():
    """The plan of the fit, and how many of its labels are right."""
    text = told(*PATE)
    own = PATEGAN(make_schema(), epsilon=1.0, rows=19_077).plan(estimate_time=False)
    assert str(own) in text
    vote = own.spends[-1].mechanism
    agreed = (0.75 - 0.5) * vote.teachers / vote.noise
    assert f"{NormalDist().cdf(agreed):.3g} if 0.75 agree" in text


@pytest.mark.slow
def test_votes_on_classes_are_priced():
    """Networks vote on the class besides, on the same budget."""
    words = ("plan", "--rows", 9_000, "--method", "pate-acgan", "--epsilon", 2)
    text = told(*words, "--set", "teachers=networks")
    own = PATEACGAN(make_schema(), epsilon=2.0, rows=9_000, class_column="sex", teachers="networks")
    assert str(own.plan(estimate_time=False)) in text and "class votes" in text
    purposes = ["one-way counts", "autoencoder", "votes", "class votes"]
    assert [f"{purpose}: " in text for purpose in purposes] == [True] * 4
    assert [f"  {purpose}: " in told(*words) for purpose in purposes] == [True] * 3 + [False]


def test_a_preset_is_planned():
    words = ("plan", "--rows", "900", "--epsilon", "3", "--method", "dp-wgan")
    text = told(*words, "--set", "preset=source")
    assert text != told(*words) and "worse than independent columns" in text


def test_noise_is_told():
    text = told("plan", "--rows", "900", "--epsilon", "3", "--method", "dp-gan")
    assert "critic: " in text and "spends epsilon = " in text


@pytest.mark.slow
def test_a_tiny_budget_is_planned_within_seconds():
    start = time.process_time()
    words = ("--rows", 20_000, "--epsilon", 0.001, "--method", "dp-wgan")
    text = told("plan", *words)
    assert time.process_time() - start < 30
    spent = re.search(r"spends epsilon = ([\d.e-]+)", text)
    assert spent and 0.99e-3 <= float(spent[1]) <= 1e-3


def test_margnet_by_its_schema(tmp_path):
    make_schema().save(tmp_path / "schema.json")
    words = ("plan", "--rows", "900", "--epsilon", "3", "--method", "margnet")
    text = told(*words, "--schema", tmp_path / "schema.json")
    assert text.startswith("margnet:\n  one-way counts: 1 release, σ = ")
    refused(*words, cwd=tmp_path, says="--schema")


def test_a_table_on_a_terminal_is_ruled(monkeypatch, capsys):
    console.say_table(("a", "bb"), [("1", "2")])
    assert capsys.readouterr().out == "a  bb\n1   2\n"
    monkeypatch.setattr(console, "Console", lambda **_: Console(force_terminal=True, width=40))
    console.say_table(("a", "bb"), [("1", "2")])
    assert "┃" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--rows", "0", "--method", "pate-gan", "--epsilon", "1"), "rows"),
        (("--rows", "99", "--method", "pate-gan", "--epsilon", "inf"), "got inf"),
        (("--rows", "99", "--method", "pate-gan", "--epsilon", "nan"), "epsilon"),
        (("--rows", "99", "--method", "gan", "--epsilon", "1"), ["--method", "'gan'"]),
        ((*PATE[1:], "--schema", "nowhere.json"), "nowhere.json"),
        ((*PATE[1:], "--set", "mode=B"), "pate-gan has no setting 'mode'"),
        (
            ("--rows", "99", "--epsilon", "1", "--set", "preset=source"),
            "margnet has no setting 'preset'",
        ),
    ],
)
def test_what_cannot_be_planned(tmp_path, words, says):
    refused("plan", *words, cwd=tmp_path, says=says)


def test_epsilon_of_an_advantage_is_told():
    text = told("plan", "--max-advantage", 0.05, "--rows", 20_000)
    first, second, *_ = text.splitlines()
    assert first == "margnet: ε = 0.4358, by the privacy curve of its mechanisms"
    assert second == "any method: ε = 0.1, from ε and δ alone"
    assert "δ below" not in text
    assert "Choose δ below 1/rows" in told("plan", "--max-advantage", 0.05, "--rows", 200_000)


def test_a_plan_states_what_an_attacker_can_do():
    text = told(*PATE)
    advantage, belief = text.splitlines()[-2:]
    assert advantage.startswith("Attacker's advantage: at most 0.")
    assert "such as from 1% to" in belief


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--max-advantage", "1.5"), "--max-advantage in (0, 1), got 1.5"),
        (("--max-advantage", "1e-6"), "lower delta"),
        (("--max-advantage", "0.1", "--epsilon", "1"), "takes no --epsilon"),
        (("--max-advantage", "0.1", "--schema", "s.json"), "takes no --schema"),
        (("--max-advantage", "0.1", "--method", "dp-gan"), "takes no --method"),
        (("--epsilon", "1"), "--schema"),
        (("--method", "dp-gan"), "--epsilon, or --max-advantage"),
    ],
)
def test_plans_of_an_advantage_refuse(words, says, tmp_path):
    refused("plan", "--rows", 20_000, *words, cwd=tmp_path, says=says)
