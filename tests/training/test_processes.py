"""Private training over two processes, which meet by Gloo: sums, noise, batches, charges, replay, canary, lost processes."""

import json
import math
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from row_gradients import WIDTH  # noqa: F401  (its folder is on the path that rank_runs.py gets)

from tabsynth import MargNet, load
from tabsynth._random import Randomness
from tabsynth.auditing.lower_bounds import estimate_bounds
from tabsynth.errors import InputError
from tabsynth.privacy.accounting.accountants import epsilon_of
from tabsynth.privacy.accounting.mechanisms import Gaussian
from tabsynth.privacy.certificate.certificate import code  # noqa: F401
from tabsynth.training.private_step import WeightedInputs
from tabsynth.training.processes import divided
from tabsynth.training.units import UnitRows

HERE = Path(__file__).parent
ENVIRONMENT = {
    **os.environ,
    "OMP_NUM_THREADS": "1",
    "PYTHONPATH": os.pathsep.join([str(HERE), *sys.path]),
}


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """What both ranks of one run of ``rank_runs.py`` measured, and the folder with their models."""
    place = tmp_path_factory.mktemp("ranks")
    command = [sys.executable, str(HERE / "rank_runs.py")]
    ranks = [
        subprocess.Popen(
            [*command, str(rank), str(place / "meeting"), str(place)],
            env=ENVIRONMENT,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for rank in range(2)
    ]
    said = [process.communicate(timeout=200)[0] for process in ranks]
    assert [process.returncode for process in ranks] == [0, 0], said
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
    assert first["rate"]["charges"] == 600


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
    assert load(place / "model1.tabsynth").certificate()["epsilon"] == pytest.approx(
        first["fits"]["spent"]
    )


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
    from rank_runs import SCHEMA, people

    monkeypatch.setattr(torch.distributed, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.distributed, "get_world_size", lambda: 2)
    with pytest.raises(InputError, match=r"is fitted by one process, and torch\.distributed has 2"):
        MargNet(SCHEMA, epsilon=1.0).fit(people(20))


@pytest.mark.slow
@pytest.mark.parametrize("lost", [1, 0])
def test_a_lost_process_ends_the_fit_in_one_line_and_the_checkpoint_resumes(tmp_path, lost):
    """The command under the variables of torchrun, whose own messages would hide ours."""
    from rank_runs import SCHEMA, people

    SCHEMA.save(tmp_path / "schema.json")
    people(60).to_csv(tmp_path / "people.csv", index=False)
    words = "fit people.csv --schema schema.json --epsilon 4 --method dp-wgan --rows 60 -o model.tabsynth"
    started = start(tmp_path, f"{words} --checkpoint kept", 29611 + lost)
    journal = tmp_path / "kept" / "ledger.jsonl"
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and not any(
        f.name.startswith("state-1") for f in (tmp_path / "kept").glob("*")
    ):
        time.sleep(0.05)
    assert journal.exists()
    started[lost].kill()
    said = [process.communicate(timeout=60) for process in started]
    left = 1 - lost
    assert started[left].returncode == 2
    assert "Another process of the fit ended" in said[left][1]
    assert "Traceback" not in said[left][1]
    if lost == 0:
        return
    charged = journal.read_text().count('"reserve"')
    resumed = start(tmp_path, f"{words} --checkpoint kept --time-limit 7s", 29621)
    said = [process.communicate(timeout=90) for process in resumed]
    assert [process.returncode for process in resumed] == [0, 0], said
    assert "resumes from" in said[0][0]
    assert said[1][0] == ""
    assert journal.read_text().count('"reserve"') >= charged
    assert load(tmp_path / "model.tabsynth").certificate()["epsilon"] <= 4.0


def start(place, words, port):
    """Both ranks of the command, as torchrun starts them."""
    shared = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": "2"}
    return [
        subprocess.Popen(
            [sys.executable, "-m", "tabsynth", *words.split()],
            cwd=place,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={
                **ENVIRONMENT,
                **shared,
                "RANK": str(rank),
                "LOCAL_RANK": str(rank),
                "TORCHELASTIC_RUN_ID": "test",
            },
        )
        for rank in range(2)
    ]
