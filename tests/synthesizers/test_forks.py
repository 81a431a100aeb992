"""R24: a fit belongs to one process: a fork in the middle of it is refused, and writes to no file."""

import os
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from fitted_tables import SCHEMA, frame, small

from tabsynth import MargNet
from tabsynth.errors import BudgetError, InputError
from tabsynth.privacy import ProjectLedger
from tabsynth.privacy.accounting.mechanisms import Gaussian
from tabsynth.privacy.ledger.journal import Journal
from tabsynth.privacy.ledger.ledger import Ledger, PrivateTable, exact
from tabsynth.privacy.noise.counts import NoisyCounts, count_sets
from tabsynth.privacy.noise.samplers import Keystream
from tabsynth.synthesizers.margnet.config import MargNetConfig

torch.set_num_threads(1)
pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
MODEL = "a model"


def forked(body: Callable[[], str], pipe: int) -> int:
    """A child that writes to the pipe what became of ``body``; returns its number to the parent, 0 to itself."""
    child = os.fork()
    if child == 0:
        sys.stdout = sys.stderr = open(os.devnull, "w")  # noqa: SIM115
        try:
            said = body()
        except (BudgetError, InputError) as error:
            said = f"{type(error).__name__}: {error}"
        except BaseException as error:
            said = f"unexpected {type(error).__name__}: {error}"
        os.write(pipe, said.encode())
        os._exit(0)
    return child


def child_says(body: Callable[[], str]) -> str:
    there, back = os.pipe()
    child = forked(body, back)
    os.close(back)
    os.waitpid(child, 0)
    with os.fdopen(there) as pipe:
        return pipe.read()


def test_neither_ledger_nor_journal_serves_a_forked_process(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "j", 3.0, 1e-5)
    ledger = Ledger(3.0, 1e-5, journal=journal, run="r")
    account = ledger.open("critic", Gaussian(noise_multiplier=9.0), 10)
    ledger.spend(account)
    before = (tmp_path / "j").read_bytes()
    calls: dict[str, Callable[[], Any]] = {
        "critic: process": lambda: ledger.spend(account),
        "more: process": lambda: ledger.open("more", Gaussian(noise_multiplier=9.0), 1),
        "the fit.s ledger: process": ledger.close,
        "was opened by process": lambda: journal.reserve(0, 2),
    }
    for says, call in calls.items():

        def body(call: Callable[[], Any] = call) -> str:
            call()
            return "done"

        said = child_says(body)
        assert re.search(says, said) and "forked from" in said and "\n" not in said
    assert (tmp_path / "j").read_bytes() == before
    # A child that closes the file does not let go of the parent's lock, nor does one that holds it keep it.
    assert child_says(lambda: journal.release() or "done") == "done"
    with pytest.raises(InputError, match="in use"):
        Journal(tmp_path / "j", 3.0, 1e-5)
    there, back = os.pipe()
    child = forked(lambda: os.read(there, 1).decode(), back)  # lives on, with the file open
    ledger.spend(account)
    ledger.close()
    journal.release()
    Journal(tmp_path / "j", 3.0, 1e-5).release()
    os.write(back, b"x")
    os.waitpid(child, 0)


@pytest.mark.slow
@pytest.mark.parametrize("checkpoint", [False, True])
@pytest.mark.parametrize(("stage", "step"), [("autoencoder", 2), ("critic", 1), ("critic", 8)])
def test_a_fork_inside_a_fit_has_no_model(
    stage: str, step: int, checkpoint: bool, tmp_path: Path
) -> None:
    """Also at its last private step, when nothing more is to be charged."""
    path = tmp_path / "project.ledger"
    ProjectLedger.create(path, epsilon=4.0)
    there, back = os.pipe()
    main = os.getpid()
    results: list[int] = []

    def fork(now: str, done: int, total: int) -> None:
        if (now, done) == (stage, step) and not results:
            results.append(os.fork())
            if results[0]:
                os.waitpid(results[0], 0)  # the child comes to its end first

    model = small(device="cpu")  # CUDA does not serve a forked process
    where = {"checkpoint": tmp_path / "ck"} if checkpoint else {}
    try:
        model.fit(frame(), ledger=path, progress=fork, **where)
        said = MODEL
    except BudgetError as error:
        said = str(error)
    except BaseException as error:
        said = f"unexpected {type(error).__name__}: {error}"
    if os.getpid() != main:
        os.write(back, said.encode())
        os._exit(0)
    assert said == MODEL
    os.close(back)
    with os.fdopen(there) as pipe:
        text = pipe.read()
    assert "was forked from" in text and "only process" in text and "\n" not in text
    entries = ProjectLedger.read(path).entries.values()
    assert {e.purpose: e.spent for e in entries} == {
        "one-way counts": 1,
        "autoencoder": 5,
        "critic": 8,
    }
    ProjectLedger(path).release()
    assert len(model.sample(3)) == 3
    # A model that is fitted may be sampled in another process: it reads no row.
    assert child_says(lambda: str(len(model.sample(4)))) == "4"


def test_a_fork_between_a_charge_and_its_noise() -> None:
    """The charge is there, the exact value too: noise is drawn for the process that began the fit alone."""
    ledger = Ledger(3.0, 1e-5)
    account = ledger.open("counts", Gaussian(noise_multiplier=9.0), 1)
    rows = np.zeros((5, 1), dtype=np.int64)
    said: list[str] = []

    def count(table: np.ndarray, sets: Any, groups: Any) -> list[np.ndarray]:
        return list(count_sets(table, sets, groups))

    def counting(table: np.ndarray, sets: Any, groups: Any) -> list[np.ndarray]:
        said.append(child_says(lambda: inner(table, sets, groups)))
        return count(table, sets, groups)

    counts: Any = NoisyCounts(PrivateTable(rows, ledger), (2,), counting)

    def inner(table: np.ndarray, sets: Any, groups: Any) -> str:
        exact(account, count(table, sets, groups), [1.0])
        return MODEL

    counts.measure(account, [(0,)], [1.0], Keystream(), [[np.arange(2)]])
    assert len(said) == 1 and "was forked from" in said[0]


def test_a_fit_in_a_forked_process_is_as_good_as_any() -> None:
    """Workers that are forked before a fit, as test runners do it, may fit."""
    config = MargNetConfig(components=5, hidden=(4,), steps=2)

    def body() -> str:
        model = MargNet(SCHEMA, epsilon=1.0, config=config, device="cpu")
        return str(len(model.fit(frame()).sample(2)))

    assert child_says(body) == "2"
