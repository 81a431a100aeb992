"""The one loop: steps, a deadline, an interrupt; and where it goes on after each of them (R7)."""

from pathlib import Path

import numpy as np
import pytest
import torch
from trainings import FULL, Network, opened

from tabsynth.privacy.ledger.ledger import PrivateTable
from tabsynth.training.checkpoint import standing
from tabsynth.training.loop import INTERRUPTED, TIME_LIMIT, TrainingMonitor, run_steps


def test_all_steps_are_done_and_told():
    reported, done = [], []
    monitor = TrainingMonitor(progress=lambda *args: reported.append(args))
    assert run_steps("stage", 3, done.append, monitor) == 3
    assert done == [0, 1, 2]
    assert reported == [("stage", 1, 3), ("stage", 2, 3), ("stage", 3, 3)]
    assert monitor.stopped is None


def test_an_early_stage_leaves_time_to_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    """Half of the time for the first stage, the rest for the second, by a clock that each step moves."""
    clock = [0.0]
    monkeypatch.setattr("time.monotonic", lambda: clock[0])

    def step(i: int) -> None:
        clock[0] += 1

    monitor = TrainingMonitor(deadline=40.0)
    assert (
        run_steps("first", 10**6, step, monitor, share=0.5) == 20 and monitor.stopped == TIME_LIMIT
    )
    assert run_steps("second", 10**6, step, monitor) == 20
    assert run_steps("third", 10, step, monitor) == 0


def test_an_interrupt_ends_this_stage_and_all_that_follow():
    def step(i: int) -> None:
        if i == 2:
            raise KeyboardInterrupt

    monitor = TrainingMonitor()
    assert run_steps("first", 5, step, monitor) == 2
    assert monitor.stopped == INTERRUPTED
    assert run_steps("second", 5, step, monitor) == 0


@pytest.mark.parametrize("end", ["crash", "interrupt", "deadline"])
def test_steps_go_on_where_they_were_saved(
    end: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stopped anywhere, the state at the end is that of a run in one go, less the steps that are lost."""
    whole = Network()
    run_steps("s", 20, whole.step, TrainingMonitor())
    network, monitor = Network(), TrainingMonitor(checkpoint=opened(tmp_path / "c"))

    def step(i: int) -> None:
        if i == 7:
            if end == "crash":
                raise RuntimeError("power cut")
            if end == "interrupt":
                raise KeyboardInterrupt
            monitor.deadline = 0.0
        network.step(i)

    if end == "deadline":
        monkeypatch.setattr("time.monotonic", lambda: 1e9 if len(network.log) == 7 else 0.0)
        monitor.deadline = 1.0
    if end == "crash":
        with pytest.raises(RuntimeError):
            run_steps("s", 20, step, monitor, state=network)
    else:
        assert run_steps("s", 20, step, monitor, state=network) == 7
        assert monitor.stopped == {"interrupt": INTERRUPTED, "deadline": TIME_LIMIT}[end]
    assert monitor.checkpoint is not None
    monitor.checkpoint.release()
    monkeypatch.undo()

    second, reported = Network(), []
    checkpoint = opened(tmp_path / "c")
    after = TrainingMonitor(checkpoint=checkpoint, progress=lambda *a: reported.append(a))
    assert run_steps("s", 20, second.step, after, state=second) == 20
    assert second.log == list(range(20)) == whole.log
    assert reported[0] == ("s", 8, 20) and reported[-1] == ("s", 20, 20) and len(reported) == 13
    for one, other in zip(second.layer.parameters(), whole.layer.parameters(), strict=True):
        assert torch.equal(one, other)
    checkpoint.release()
    assert standing(tmp_path / "c") == [f"{tmp_path / 'c'}: resumes from s: 20 steps."]
    assert standing(tmp_path / "d") == []


def test_steps_of_unknown_outcome_are_gone(tmp_path: Path) -> None:
    """R7: those that were reserved or done since the last save are not done again."""
    checkpoint = opened(tmp_path / "c", every=1e9)
    ledger = checkpoint.ledger()
    account = ledger.open("s", FULL, 640)
    table, network = PrivateTable(np.arange(3), ledger), Network()

    def step(i: int) -> None:
        table.read(account)
        network.step(i)
        if i == 1:  # the one save is after the first step
            checkpoint._next_save = np.inf
        if i == 33:
            raise RuntimeError("power cut")

    with pytest.raises(RuntimeError):
        run_steps(
            "s", 640, step, TrainingMonitor(checkpoint=checkpoint), account=account, state=network
        )
    checkpoint.release()

    checkpoint = opened(tmp_path / "c", every=1e9)
    ledger = checkpoint.ledger()
    account = ledger.open("s", FULL, 640)
    assert account.spent == 40  # 34 steps, in blocks of 10
    second, table = Network(), PrivateTable(np.arange(3), ledger)

    def paid(i: int) -> None:
        table.read(account)
        second.step(i)

    done = run_steps(
        "s", 640, paid, TrainingMonitor(checkpoint=checkpoint), account=account, state=second
    )
    assert done == 1 + (640 - 40) and second.log == list(range(done))
    assert account.spent == 640
    checkpoint.release()


def test_a_stage_that_was_followed_is_not_taken_up_again(tmp_path: Path) -> None:
    first, second = Network(), Network()
    monitor = TrainingMonitor(checkpoint=opened(tmp_path / "c"))
    run_steps("first", 2, first.step, monitor, state=first)  # say, of 5: the time was up
    run_steps("second", 3, second.step, monitor, state=second)
    assert monitor.checkpoint is not None
    monitor.checkpoint.release()
    first, second = Network(), Network()
    monitor = TrainingMonitor(checkpoint=opened(tmp_path / "c"))
    assert run_steps("first", 5, first.step, monitor, state=first) == 2
    assert run_steps("second", 5, second.step, monitor, state=second) == 5
    assert first.log == [0, 1] and second.log == [0, 1, 2, 3, 4]
    assert monitor.checkpoint is not None
    monitor.checkpoint.release()
