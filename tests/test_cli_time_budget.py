"""``--time-budget``: a fit that plans its private steps for a time, its plan, and what a time limit says in its place."""

import json
import re
from unittest import mock

import command_lines as cl
import pytest
from command_lines import FIT_GAN, refused, run

from tabsynth.synthesizers import plan

TINY = ("--set", "generator.hidden=[8]", "--set", "critic.hidden=[8]", "--set", "step.count=40")


@pytest.fixture
def folder(tmp_path):
    cl.make_schema().save(tmp_path / "schema.json")
    cl.make_people(300).to_csv(tmp_path / "people.csv", index=False)
    return tmp_path


def certificate_of(folder):
    run("sample", "model.tabsynth", "-n", 10, "-o", "s.csv", "--overwrite", cwd=folder)
    run("verify", "s.csv", cwd=folder, code=4)
    return json.loads((folder / "s.csv.certificate.json").read_text())


def steps(text):
    taken, most = re.search(r"takes ([\d,]+) of ([\d,]+) steps of the critic", text).groups()
    return int(taken.replace(",", "")), int(most.replace(",", ""))


def test_a_fit_takes_the_steps_of_its_printed_plan(folder):
    """However short the time is: the least number of steps, for which the noise is planned."""
    for method, taken, most in (("dp-wgan", 100, 120), ("dp-gan", 600, 620)):
        words = ("fit", "people.csv", "--schema", "schema.json", "--epsilon", 2, "--method", method)
        words = (*words, "--set", "autoencoder=none", "--rows", 300, "-o", "model.tabsynth")
        words = (*words, *TINY[:-1], f"step.count={most}", "--time-budget", "0.001s")
        done = run(*words, "--overwrite", cwd=folder)
        assert steps(done.stdout) == (taken, most)
        assert "of 0.001 s (the least; they take longer), by a trial on 300 made-up" in done.stdout
        assert "Stopped early" not in done.stdout
        certificate = certificate_of(folder)
        counts = {item["purpose"]: item["count"] for item in certificate["mechanisms"]}
        assert counts["critic"] == taken and 1.96 < certificate["epsilon"] <= 2
        assert certificate["settings"]["time_budget"] == 0.001


def test_a_resumed_fit_prints_the_plan_that_it_follows(folder):
    """The machine is ten times as fast when the same command runs again, and has no limit."""
    words = (*FIT_GAN, "--epsilon", 2, *TINY[:-1], "step.count=400", "--time-budget", "100s")
    words = (*words, "--checkpoint", "c", "--overwrite")
    for seconds, limit in ((200, ("--time-limit", "0.001s")), (20, ())):
        speed = mock.Mock(return_value=plan.Speed(seconds, 0.0))
        with mock.patch.object(plan, "measure_speed", speed):
            done = run(*words, *limit, cwd=folder)
        assert steps(done.stdout) == (200, 400)
        assert ("c: resumes from" in done.stdout) == (not limit)
        assert ("0 of 200 steps of the critic were taken" in done.stdout) == bool(limit)
    certificate = certificate_of(folder)
    counts = {item["purpose"]: item["count"] for item in certificate["mechanisms"]}
    assert counts["critic"] == 200 and 1.96 < certificate["epsilon"] <= 2


def test_a_long_time_takes_all_steps_of_the_settings(folder):
    done = run(*FIT_GAN, "--epsilon", 2, *TINY, "--time-budget", "10h", cwd=folder)
    assert steps(done.stdout) == (40, 40)


def test_a_plan_takes_a_time_budget_with_a_schema(folder):
    words = ("plan", "--rows", 300, "--epsilon", 2, "--method", "dp-gan", "--time-budget", "10h")
    done = run(*words, *TINY, "--schema", "schema.json", cwd=folder)
    assert steps(done.stdout) == (40, 40) and "critic: 40 releases" in done.stdout
    refused(*words, cwd=folder, says=["--time-budget needs the columns", "--schema"])
    tables = ("plan", "--rows", 300, "--epsilon", 2, "--schema", "schema.json", "--table", "sex")
    refused(*tables, "--time-budget", "1m", cwd=folder, says="of --table takes no --time-budget")


@pytest.mark.parametrize("method", ["margnet", "pate-gan"])
def test_other_methods_take_none(folder, method):
    fit = ("fit", "people.csv", "--schema", "schema.json", "--epsilon", 2, "-o", "m")
    words = ("--method", method, "--time-budget", "60s")
    refused(*fit, *words, cwd=folder, says=f"Method {method} takes no --time-budget; leave it out")
    planned = ("plan", "--rows", 300, "--epsilon", 2, "--schema", "schema.json")
    refused(*planned, *words, cwd=folder, says=f"Method {method} takes no --time-budget")
    refused(*FIT_GAN, "--epsilon", 2, "--time-budget", "soon", cwd=folder,
            says="--time-budget like 90s, 10m or 2h, got 'soon'")  # fmt: skip


def test_a_time_limit_says_how_many_planned_steps_it_left(folder):
    done = run(*FIT_GAN, "--epsilon", 2, *TINY, "--time-limit", "0.001s", cwd=folder)
    said = "0 of 40 steps of the critic were taken, and the noise was planned for all of them"
    assert f"Stopped early: time limit. {said}; --time-budget plans the steps." in done.stdout
    assert certificate_of(folder)["epsilon"] < 1.9
