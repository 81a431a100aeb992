"""Private training over two processes, which meet by Gloo: sums, noise, batches, charges, replay, canary, lost processes."""

import json
import math
import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import forked
import numpy as np
import pytest
import torch
from command_lines import run
from rank_runs import SCHEMA, main, people, voting

import tabsynth
from tabsynth import MargNet, load
from tabsynth._random import Randomness
from tabsynth.auditing.lower_bounds import estimate_bounds
from tabsynth.errors import InputError
from tabsynth.privacy.accounting.accountants import epsilon_of
from tabsynth.privacy.accounting.mechanisms import Gaussian
from tabsynth.synthesizers.pate.aggregation import deal
from tabsynth.synthesizers.pate.ensembles import grouped
from tabsynth.training.private_step import WeightedInputs
from tabsynth.training.processes import divided
from tabsynth.training.units import UnitRows

STARTED = 300  # seconds that a process of two has, on a machine with other work


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """What both ranks of one run of ``rank_runs.py`` measured, and the folder with their models."""
    place = tmp_path_factory.mktemp("ranks")
    ranks = [forked.CONTEXT.Process(target=main, args=(rank, str(place))) for rank in range(2)]
    for process in ranks:
        process.start()
    for process in ranks:
        process.join(timeout=200)
    assert [process.exitcode for process in ranks] == [9, 0]  # the first ends itself, last of all
    return place, *(json.loads((place / f"out{rank}.json").read_text()) for rank in range(2))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["rows", "weighted", "units"])
def test_the_sum_is_that_of_all_rows_one_by_one(measured, kind):
    _, first, _ = measured
    assert first["sums"][kind] < 1e-5
    assert first["sums"][f"{kind} charges"] == 1


@pytest.mark.slow
@pytest.mark.parametrize("case", ["noise", "empty first", "no rows"])
def test_the_noise_of_the_sum_is_that_of_one_process(measured, case):
    """Also where the first rank, or any, has no row; 3,000 draws or more."""
    _, first, _ = measured
    draws = first[case]["steps"] * 50
    assert abs(first[case]["variance"] - 1) < 5 * math.sqrt(2 / draws)
    assert abs(first[case]["next"]) < 5 / math.sqrt(draws)
    assert first[case]["charges"] == first[case]["steps"]


@pytest.mark.slow
def test_batches_are_poisson_samples_of_the_whole_at_the_rate(measured):
    """Of 100 rows at 0.3: mean 30, variance 21; ranks that draw the same numbers have a larger one."""
    _, first, _ = measured
    assert abs(first["rate"]["mean"] - 30) < 5 * math.sqrt(21 / 600)
    assert abs(first["rate"]["variance"] - 21) < 5 * 21 * math.sqrt(2 / 600)
    assert first["rate"]["charges"] == 30


@pytest.mark.slow
def test_a_canary_is_as_visible_as_the_theory_says(measured):
    _, first, _ = measured
    without, with_canary = (np.array(first["canary"][name]) for name in ("without", "with"))
    mu = 1 / 0.7
    spread = np.sqrt((without.var(ddof=1) + with_canary.var(ddof=1)) / 2)
    assert 0.85 * mu < (with_canary.mean() - without.mean()) / spread < 1.15 * mu
    bound = estimate_bounds(without, with_canary, 1e-5)
    assert bound.mu < mu
    assert bound.epsilon < epsilon_of([(Gaussian(noise_multiplier=0.7), 1)], 1e-5)


@pytest.mark.slow
def test_without_a_charge_no_other_rank_gets_a_row(measured):
    assert measured[1]["refused"] == {"sent": [], "refused": True}


@pytest.mark.slow
def test_a_fit_is_charged_once_and_is_one_model(measured):
    """The plan's uses, once, whatever the number of ranks; only the first has written a checkpoint."""
    place, first, second = measured
    assert first["fits"]["charges"] == {"one-way counts": 1, "autoencoder": 4, "critic": 6}
    assert second["fits"]["charges"] == first["fits"]["charges"]
    assert second["fits"]["spent"] == first["fits"]["spent"] <= 4.0
    assert (place / "sample0").read_text() == (place / "sample1").read_text()
    assert second["fits"]["saved"] == first["fits"]["spent"]


@pytest.mark.slow
def test_replay_on_two_ranks(measured):
    """A row more changes the inputs of mechanisms alone, by their sensitivity at most; the other rank has a part of them."""
    result = measured[1]["fits"]["replay"]
    assert result["passed"], result["first_difference"]
    assert 0.1 < result["worst_move"] <= 1 + 1e-6
    assert result["mechanisms"] == 11


@pytest.mark.slow
def test_more_processes_than_rows_are_refused_by_all(measured):
    for out in measured[1:]:
        assert (
            out["fits"]["too many"]
            == "Expected at most rows=1 processes, got 2: each needs a row; start fewer."
        )


def rows_of(kind):
    codes = torch.arange(300.0).view(100, 3)
    if kind == "rows":
        return codes
    if kind == "weighted":
        return WeightedInputs(codes, torch.ones(100, dtype=torch.float64))
    return UnitRows(codes, np.arange(100, dtype=np.uint64) // 4, 4)


@pytest.mark.parametrize("kind", ["rows", "weighted", "units"])
def test_each_row_is_on_one_rank_and_a_unit_whole(kind):
    shards = divided(rows_of(kind), 3, Randomness(0).noise())
    inputs = [s.inputs if kind == "units" else s for s in shards]
    codes = [s.codes if kind == "weighted" else s for s in inputs]
    assert sorted(torch.cat(codes)[:, 0].tolist()) == [3.0 * n for n in range(100)]
    assert min(map(len, codes)) > 10
    if kind == "units":
        owners = [set(s.units.tolist()) for s in shards]
        assert not (owners[0] & owners[1] or owners[0] & owners[2] or owners[1] & owners[2])


def test_a_row_more_leaves_all_others_where_they_are():
    rows = torch.arange(61.0).view(61, 1)
    before, after = (divided(r, 2, Randomness(4).noise()) for r in (rows[:-1], rows))
    for ours, theirs in zip(before, after, strict=True):
        assert set(ours[:, 0].tolist()) == set(theirs[:, 0].tolist()) - {60.0}


def test_what_one_process_fits_is_refused_under_several(monkeypatch):
    monkeypatch.setattr(torch.distributed, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.distributed, "get_world_size", lambda: 2)
    with pytest.raises(InputError, match=r"is fitted by one process, and torch\.distributed has 2"):
        MargNet(SCHEMA, epsilon=1.0).fit(people(20))


@pytest.mark.slow
def test_the_white_box_audit_of_two_ranks(measured):
    """With the noise and the bounds of a fit of both; the canary may be on either of them."""
    result = measured[1]["audit"]
    assert set(result) == {"one-way counts", "critic", "whole fit"}
    for part in result.values():
        assert part["verdict"] == "not refuted", part["sentence"]
        slack = 4.5 * math.sqrt(2 / 800)
        assert 0.9 * part["mu_claimed"] - slack < part["mu_estimate"] < part["mu_claimed"] + slack


@pytest.mark.slow
def test_votes_of_two_ranks_are_those_of_one(measured):
    """All of a seeded fit is the same, so that the noise was added to the same sums of votes, once."""
    _, first, second = measured
    alone, both = first["one process"], first["teachers"]["witness"]
    assert alone["counts"] == both["counts"] and len(both["counts"]) == 4
    assert alone["sample"] == both["sample"] == second["teachers"]["witness"]["sample"]
    assert both["charges"] == alone["charges"]
    assert both["public"] == {**alone["public"], "processes": 2}


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["witness", "network"])
def test_votes_are_charged_once_whatever_the_number_of_ranks(measured, kind):
    _, first, second = measured
    charges = {"one-way counts": 1, "votes": 60, "class votes": 60}
    for out in (first, second):
        assert out["teachers"][kind]["charges"] == charges
    assert first["teachers"][kind]["sample"] == second["teachers"][kind]["sample"]
    yes = np.concatenate(first["teachers"][kind]["counts"][::2])
    assert len(yes) == 60 and 0 <= yes.min() < yes.max() <= 7
    each = np.concatenate(first["teachers"][kind]["counts"][1::2])
    assert (each.sum(axis=1) == 7).all()


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["witness", "network", "autoencoder"])
def test_replay_of_teachers_on_two_ranks(measured, kind):
    """A row more is one teacher on one rank, in all rounds, and moves a vote by one."""
    result = measured[1]["teachers"][f"{kind} replay"]
    assert result["passed"], result["first_difference"]
    assert 0.1 < result["worst_move"] <= 1 + 1e-6


@pytest.mark.parametrize("kind", ["rows", "weighted"])
def test_a_row_more_is_one_row_of_one_group_of_teachers(kind):
    """How many teachers a process has follows from public numbers, and which rows from their teachers."""

    def groups(count):
        rows = rows_of(kind) if kind == "weighted" else rows_of("rows")
        codes = rows.codes if kind == "weighted" else rows
        some = (
            WeightedInputs(codes[:count], rows.parts[:count])
            if kind == "weighted"
            else codes[:count]
        )
        dealt, shard = deal(some, 11, np.arange(16, dtype=np.uint32))
        return dealt, shard, grouped(dealt, shard, 11, 3)

    dealt, shard, before = groups(99)
    assert [(g.first, g.count) for g in before] == [(0, 3), (3, 4), (7, 4)]
    codes = dealt.codes if kind == "weighted" else dealt
    for group in before:
        of_group = group.rows.codes if kind == "weighted" else group.rows
        for k in range(group.count):
            assert torch.equal(of_group[group.shard == k], codes[shard == group.first + k])
    assert sum(len(g.rows) for g in before) == 99
    *_, after = groups(100)
    changed = [(a, b) for a, b in zip(before, after, strict=True) if len(a.rows) != len(b.rows)]
    ((fewer, more),) = changed
    assert len(more.rows) == len(fewer.rows) + 1
    assert [(g.first, g.count) for g in after] == [(g.first, g.count) for g in before]


def test_more_processes_than_teachers_are_refused():
    with pytest.raises(InputError, match="Expected at most teachers=7 processes, got 8"):
        voting("witness")._check_processes(8)
    voting("witness")._check_processes(7)


@pytest.mark.slow
def test_a_first_process_that_is_lost_ends_the_fit_in_one_line(measured):
    assert measured[2]["gone"].startswith("Another process of the fit ended, or did not answer")
    assert "\n" not in measured[2]["gone"]


# The real launcher. It is slow, so its runs test several things.

TORCHRUN = [sys.executable, "-m", "torch.distributed.run"]
WORDS = "fit people.csv --schema schema.json --epsilon 4 --method dp-wgan -o model.tabsynth"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("launched")
    SCHEMA.save(place / "schema.json")
    people(60).to_csv(place / "people.csv", index=False)
    return place


@contextmanager
def launched(place, words):
    """``torchrun --nproc-per-node 2 -m tabsynth WORDS``, at a free port."""
    launcher = subprocess.Popen(
        [*TORCHRUN, "--standalone", "--nproc-per-node", "2", "-m", "tabsynth", *words.split()],
        cwd=place,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    try:
        yield launcher
    finally:
        launcher.terminate()  # nothing, of one that has ended
        launcher.communicate()


def errors_of(said):
    """Lines of tabsynth among those of torchrun, which prints how each process ended, and a traceback of its own."""
    assert str(Path(tabsynth.__file__).parent) not in said[1], said
    return [line for line in said[1].splitlines() if line.startswith("error:")]


def process_of(launcher, rank):
    """The number of the process of a rank."""
    for task in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((task / "stat").read_text().rpartition(")")[2].split()[1])
            if parent == launcher.pid and f"\0RANK={rank}\0" in (task / "environ").read_text():
                return int(task.name)
        except (OSError, ValueError):  # it ended
            continue
    raise AssertionError(f"no process of rank {rank}")


@pytest.mark.slow
def test_torchrun_after_a_lost_process_resumes_and_its_sample_is_verified(folder):
    words = f"{WORDS} --rows 60 --checkpoint kept --time-limit"
    journal, deadline = folder / "kept" / "ledger.jsonl", time.monotonic() + STARTED
    # The limit ends no fit before its process is lost, however slow the machine is.
    with launched(folder, f"{words} 2h") as launcher:
        while time.monotonic() < deadline and not reserved(journal, "autoencoder"):
            assert launcher.poll() is None, launcher.communicate()
            time.sleep(0.05)
        os.kill(process_of(launcher, 1), signal.SIGKILL)
        said = launcher.communicate(timeout=STARTED)
    (line,) = errors_of(said)
    assert "nded" in line and "what was charged stays charged" in line
    assert launcher.returncode == 1 and "exitcode  : 2" in said[1]  # the first's; 1 is torchrun's
    before = reserved(journal, "autoencoder")
    assert not (folder / "model.tabsynth").exists()

    with launched(folder, f"{words} 1s") as launcher:
        said = launcher.communicate(timeout=STARTED)
    assert launcher.returncode == 0, said
    assert "resumes from" in said[0] and said[0].count("Model: model.tabsynth") == 1
    certificate = load(folder / "model.tabsynth").certificate()
    spent = {item["purpose"]: item["count"] for item in certificate["mechanisms"]}
    assert spent["autoencoder"] >= before >= 1 and certificate["epsilon"] <= 4.0
    run("sample", "model.tabsynth", "-n", 30, "-o", "sample.csv", cwd=folder)
    done = run("verify", "sample.csv", cwd=folder, code=4)
    assert "2 processes trained it, each with a part of the rows" in done.stdout
    stated = folder / "sample.csv.certificate.json"
    stated.write_text(stated.read_text().replace('"processes": 2', '"processes": 61'))
    assert "it states 61 processes, and a fit of its figures has 60" in str(
        run("verify", "sample.csv", cwd=folder, code=2)
    )


def reserved(journal, purpose):
    """How many uses of a purpose are written off on disk."""
    purposes, uses = {}, 0
    for line in journal.read_text().split("\n")[:-1] if journal.exists() else ():
        record = json.loads(line)
        if record["record"] == "open":
            purposes[record["account"]] = record["purpose"]
        elif purposes.get(record.get("account")) == purpose:
            uses = record["spent"]
    return uses
