"""Fits and samples compute with as many threads as their steps are worth, and leave the user's settings as they were."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator

import pandas as pd
import pytest
import torch
from threadpoolctl import threadpool_info, threadpool_limits

from tabsynth import MargNet, Schema
from tabsynth import _threads as threads
from tabsynth._threads import NUMBERS, limit_threads
from tabsynth.schema import Categorical
from tabsynth.synthesizers.margnet.config import MargNetConfig
from tabsynth.synthesizers.margnet.estimation import MargNetFit
from tabsynth.synthesizers.mixture import Mixture
from tabsynth.training.loop import TrainingMonitor, run_steps


@pytest.fixture
def default_threads(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """Set the number of threads that torch takes by default, as on a machine of four cores."""
    for name in threads.SETTINGS:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(4)))
    torch.get_num_threads()  # at its first call, torch sets the number itself
    with threadpool_limits(4):
        yield 4


def threads_of_blas() -> list[int]:
    return [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]


def test_a_step_has_the_threads_that_it_is_worth(default_threads: int) -> None:
    blas = threads_of_blas()
    for numbers, expected in ((0, 1), (NUMBERS - 1, 1), (NUMBERS, 2), (100 * NUMBERS, 4)):
        with limit_threads(numbers):
            assert torch.get_num_threads() == expected
            assert numbers or set(threads_of_blas()) == {1}
        assert torch.get_num_threads() == default_threads and threads_of_blas() == blas


def test_an_inner_limit_takes_the_place_of_the_outer_one(default_threads: int) -> None:
    with limit_threads():
        with limit_threads(2 * NUMBERS):
            assert torch.get_num_threads() == 3
        assert torch.get_num_threads() == 1
    assert torch.get_num_threads() == default_threads


def test_the_threads_come_back_after_an_error(default_threads: int) -> None:
    with pytest.raises(ValueError), limit_threads():
        raise ValueError
    assert torch.get_num_threads() == default_threads
    with limit_threads():
        assert torch.get_num_threads() == 1


@pytest.mark.parametrize("name", threads.SETTINGS)
def test_what_the_environment_sets_stays(
    default_threads: int, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv(name, "4")
    with limit_threads():
        assert torch.get_num_threads() == 4


def test_what_the_user_sets_in_torch_stays(default_threads: int) -> None:
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(3)
        with limit_threads():
            assert torch.get_num_threads() == 3
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)


def test_steps_of_a_loop_are_limited(default_threads: int) -> None:
    used = []
    for numbers in (0, 3 * NUMBERS):
        run_steps(
            "stage",
            1,
            lambda _: used.append(torch.get_num_threads()),
            TrainingMonitor(),
            numbers=numbers,
        )
    assert used == [1, 4] and torch.get_num_threads() == default_threads


def test_a_fit_and_a_sample_of_a_small_table_have_one_thread(
    default_threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    used = set()

    def watched(function):
        def call(*args, **named):
            used.add(torch.get_num_threads())
            return function(*args, **named)

        return call

    for owner, name in ((MargNetFit, "__init__"), (MargNetFit, "step"), (Mixture, "sample")):
        monkeypatch.setattr(owner, name, watched(getattr(owner, name)))
    schema = Schema([Categorical(name=n, dtype="str", categories=("x", "y")) for n in "ab"])
    table = pd.DataFrame({"a": ["x", "y"] * 20, "b": ["x", "x", "y", "y"] * 10})
    fitted = MargNet(schema, epsilon=5.0, config=MargNetConfig(steps=3, components=5)).fit(table)
    fitted.sample(5)
    assert used == {1} and torch.get_num_threads() == default_threads


def test_threads_of_the_command_line_wait_without_work() -> None:
    """On busy cores a thread that waits actively keeps those from running for which it waits."""
    code = (
        "import os, sys; sys.argv = ['tabsynth', '--version']; from tabsynth.cli import main\n"
        "try: main()\n"
        "except SystemExit: print(__import__('json').dumps(os.environ.get('OMP_WAIT_POLICY')))"
    )
    for setting, expected in ((None, "passive"), ("active", "active")):
        environment = {k: v for k, v in os.environ.items() if k != "OMP_WAIT_POLICY"}
        environment |= {} if setting is None else {"OMP_WAIT_POLICY": setting}
        done = subprocess.run(
            [sys.executable, "-c", code],
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        )
        assert json.loads(done.stdout.splitlines()[-1]) == expected
