"""R7: a folder from which a killed fit goes on: released once, never twice, never forgotten."""

import json
import os
import stat
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from torch import nn
from trainings import FIT, FULL, Network, opened

from tabsynth.errors import BudgetError, FileFormatError, InputError
from tabsynth.privacy.ledger.ledger import PrivateTable
from tabsynth.training.checkpoint import INDEX, LEDGER, Checkpoint, LostRelease, write_index
from tabsynth.training.loop import TrainingMonitor, run_steps


def test_a_release_is_computed_once(tmp_path: Path) -> None:
    rng, calls = np.random.default_rng(), []

    def compute() -> dict[str, Any]:
        calls.append(1)
        return {"a": rng.standard_normal((2, 3)), "b": rng.standard_normal(), "é": np.arange(3)}

    checkpoint = opened(tmp_path / "c")
    first = checkpoint.once("counts", compute)
    for _ in range(2):
        same = checkpoint.once("counts", compute)
        assert list(same) == ["a", "b", "é"] and same["a"].dtype == np.float64
        assert all(np.array_equal(first[k], same[k]) for k in first)
        checkpoint.release()
        checkpoint = opened(tmp_path / "c")
    other = checkpoint.once("others", compute)
    assert len(calls) == 2 and not np.array_equal(first["a"], other["a"])
    checkpoint.release()
    assert TrainingMonitor().once("counts", compute)["a"].shape == (2, 3) and len(calls) == 3


def test_a_release_that_was_paid_and_lost(tmp_path: Path) -> None:
    """R7: it is not computed again from the same grant; a new plan counts it as spent."""
    checkpoint = opened(tmp_path / "c")
    ledger = checkpoint.ledger()
    checkpoint.begin([{"purpose": "counts"}], seeded=False)
    account = ledger.open("counts", FULL, 1)
    table = PrivateTable(np.arange(3), ledger)
    table.read(account)  # and a crash: the result is not kept
    with pytest.raises(BudgetError):  # in the same process that is a mistake of ours
        checkpoint.once("counts", lambda: {"x": table.read(account)})
    checkpoint.release()

    checkpoint = opened(tmp_path / "c")
    assert (checkpoint.resumes, checkpoint.plan) == (1, [{"purpose": "counts"}])
    ledger = checkpoint.ledger()
    account = ledger.open("counts", FULL, 1)
    table = PrivateTable(np.arange(3), ledger)
    with pytest.raises(LostRelease, match="counts"):
        checkpoint.once("counts", lambda: {"x": table.read(account)})
    assert table.reads == 0
    run = checkpoint.run
    checkpoint.start_over()
    assert checkpoint.plan is None and checkpoint.run != run and checkpoint.resumes == 2
    ledger = checkpoint.ledger()
    assert [(a.purpose, a.spent, a.granted) for a in ledger.accounts] == [("counts", 1, 1)]
    second = ledger.open("counts", FULL, 1)
    assert second is not ledger.accounts[0]
    table = PrivateTable(np.arange(3), ledger)
    checkpoint.once("counts", lambda: {"x": table.read(second)})
    assert [a.spent for a in ledger.accounts] == [1, 1] and table.reads == 1
    checkpoint.release()


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"method": "other"}, "method is 'm' there and 'other' here"),
        ({"config": {"steps": 6, "hidden": [3, 4]}}, "config.steps is 5 there and 6 here"),
        ({"config": {"steps": 5, "hidden": [3]}}, "config.hidden is [3, 4] there and [3] here"),
        ({"rows": 7}, "rows is None there and 7 here"),
    ],
)
def test_a_checkpoint_of_another_fit_is_refused(
    change: dict[str, Any], says: str, tmp_path: Path
) -> None:
    opened(tmp_path / "c").release()
    before = {p.name: p.read_bytes() for p in (tmp_path / "c").iterdir()}
    with pytest.raises(InputError) as error:
        opened(tmp_path / "c", **change)
    assert says in str(error.value) and "\n" not in str(error.value)
    assert {p.name: p.read_bytes() for p in (tmp_path / "c").iterdir()} == before


def test_what_was_spent_before_is_bound_and_counted(tmp_path: Path) -> None:
    def with_earlier(count: int) -> Checkpoint:
        about = {"purpose": "p", "mechanism": "gaussian", "noise_multiplier": 9.0, "details": {}}
        item = {**about, "sampling_rate": 1.0, "count": count}
        return Checkpoint(tmp_path / "c", epsilon=5.0, delta=1e-5, fit=FIT, earlier=[item, item])

    for _ in range(2):  # noted once
        checkpoint = with_earlier(2)
        results = [(a.purpose, a.spent, a.granted) for a in checkpoint.ledger().accounts]
        assert results == [("p", 2, 2)] * 2
        checkpoint.release()
    with pytest.raises(InputError, match="belongs to another fit: earlier is"):
        with_earlier(1)


def test_folders_that_are_no_checkpoint(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine.txt").write_text("x")
    for name, says in (("file", "Cannot make"), ("full", "not a checkpoint"), ("a/b", "Cannot")):
        with pytest.raises(InputError, match=says):
            opened(tmp_path / name)
    assert sorted(p.name for p in tmp_path.rglob("*")) == ["file", "full", "mine.txt"]
    (tmp_path / "empty").mkdir()
    checkpoint = opened(tmp_path / "empty")
    with pytest.raises(InputError, match="in use by another fit"):
        opened(tmp_path / "empty")
    checkpoint.release()


def damaged(folder: Path, what: str) -> None:
    index, ledger = folder / INDEX, folder / LEDGER
    if what == "index":
        index.write_text(index.read_text().replace('"resumes": 0', '"resumes": 7'))
    elif what == "runs":  # with a checksum that is right
        result = json.loads(index.read_text())
        del result["sha256"]
        write_index(index, {**result, "given_up": 4})
    elif what == "not JSON":
        index.write_text("{")
    elif what == "no index":
        index.unlink()
    elif what == "no ledger":
        ledger.unlink()
    elif what == "shorter ledger":  # whole lines are gone: the chain of what is left is right
        ledger.write_bytes(b"".join(ledger.read_bytes().splitlines(keepends=True)[:-1]))
    else:
        (state,) = folder.glob("state-*")
        state.write_bytes(state.read_bytes()[:-1] + b"\x00\x01")


@pytest.mark.parametrize(
    "what", ["index", "runs", "not JSON", "no index", "no ledger", "shorter ledger", "state"]
)
def test_damage_is_refused(what: str, tmp_path: Path) -> None:
    checkpoint = opened(tmp_path / "c")
    ledger = checkpoint.ledger()
    account = ledger.open("p", FULL, 4)
    ledger.spend(account)
    run_steps(
        "p", 2, (network := Network()).step, TrainingMonitor(checkpoint=checkpoint), state=network
    )
    checkpoint.release()
    damaged(tmp_path / "c", what)
    with pytest.raises(FileFormatError) as error:
        opened(tmp_path / "c").restore("p", network)
    assert "\n" not in str(error.value) and str(tmp_path / "c") in str(error.value)


def test_a_state_of_another_version_is_one_line(tmp_path: Path) -> None:
    checkpoint = opened(tmp_path / "c")
    run_steps(
        "p", 2, (network := Network()).step, TrainingMonitor(checkpoint=checkpoint), state=network
    )
    network.layer = nn.Linear(5, 5)
    with pytest.raises(FileFormatError, match=r"'p' of checkpoint .* does not fit this version"):
        checkpoint.restore("p", network)
    checkpoint.release()


def test_how_often(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As often as takes 2% of the time, and every so many seconds whatever it takes."""
    now, cost, saves = [0.0], [0.05], []
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    monkeypatch.setattr(Checkpoint, "_keep", lambda *a: (saves.append(now[0]), tick(cost[0])))

    def tick(seconds: float) -> None:
        now[0] += seconds

    for cost[0], wanted in ((0.05, 2.5), (1.0, 10.0), (0.0, 0.1)):
        checkpoint = opened(tmp_path / f"c{cost[0]}", every=10.0)
        saves.clear()
        network = Network()
        monitor = TrainingMonitor(checkpoint=checkpoint)
        run_steps("s", 300, lambda i: tick(0.1), monitor, state=network)
        gaps = np.diff(saves[:-1])
        assert np.allclose(gaps, wanted + cost[0], atol=0.11), gaps
        checkpoint.release()


def test_leftovers_of_a_crash_are_cleared_away(tmp_path: Path) -> None:
    checkpoint = opened(tmp_path / "c")
    kept = checkpoint.once("counts", lambda: {"x": np.arange(3)})
    checkpoint.release()
    for name in ("state-7.safetensors", "state-8.safetensors.tmp", INDEX + ".tmp"):
        (tmp_path / "c" / name).write_text("half")
    checkpoint = opened(tmp_path / "c")
    names = {p.name for p in (tmp_path / "c").iterdir()}
    assert names == {INDEX, LEDGER, "state-0.safetensors"}
    assert np.array_equal(checkpoint.once("counts", dict)["x"], kept["x"])
    checkpoint.release()


def test_nobody_else_may_read_it(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        checkpoint = opened(tmp_path / "c")
        checkpoint.once("counts", lambda: {"x": np.arange(3)})
        checkpoint.finish(lambda path: path.write_bytes(b"model"))
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "c").stat().st_mode) == 0o700
    files = {p.name: stat.S_IMODE(p.stat().st_mode) for p in (tmp_path / "c").iterdir()}
    assert files == {INDEX: 0o600, LEDGER: 0o600, "model.tabsynth": 0o600}
    assert checkpoint.is_finished and checkpoint.model().read_bytes() == b"model"
    checkpoint.model().write_bytes(b"other")
    with pytest.raises(FileFormatError, match="not the model"):
        checkpoint.model()
    assert json.loads((tmp_path / "c" / INDEX).read_text())["kept"] == []
    checkpoint.release()
