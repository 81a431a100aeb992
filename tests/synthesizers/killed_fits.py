"""Fits in processes of their own that are killed (SIGKILL) at a chosen point, for tests of resuming."""

import json
import os
import signal
from collections import Counter
from pathlib import Path
from typing import Any

import forked
import numpy as np
import torch
from fitted_tables import coder, frame, small, wgan

from tabsynth import MargNet
from tabsynth.privacy.ledger import ledger
from tabsynth.privacy.ledger.ledger import PrivateTable
from tabsynth.synthesizers.margnet.config import MargNetConfig
from tabsynth.training import checkpoint as checkpoints
from tabsynth.training.loop import TrainingMonitor

EPSILON = 3.0
STEPS = {"autoencoder": 5, "critic": 16}
DRAFTED_ROWS = 1_000  # of fits that draft their schema
BLOCKS = 8  # so that the critic's steps are reserved two at a time


def model(**changes: Any) -> Any:
    critic = wgan(step__count=STEPS["critic"])
    parameters = {"config": critic, "autoencoder_config": coder(step__count=STEPS["autoencoder"])}
    return small(**{"epsilon": EPSILON, **parameters, **changes})


def drafting() -> MargNet:
    """A small fit that drafts its schema."""
    config = MargNetConfig(components=10, hidden=(8,), steps=3, max_unscored=0)
    return MargNet(epsilon=EPSILON, config=config)


class Kill:
    """Counts the moments that matter, and kills this process at one of them.

    Moments are before and after each read of the private rows, and around each call of the operating
    system that a crash could come between.
    """

    def __init__(self, at: float, read: str | None) -> None:
        self.moments, self.at, self.read = 0, at, read

    def moment(self) -> None:
        self.moments += 1
        if self.moments >= self.at:
            os.kill(os.getpid(), signal.SIGKILL)

    def around(self, owner: Any, name: str) -> None:
        real = getattr(owner, name)

        def call(*args: Any, **kwargs: Any) -> Any:
            self.moment()
            result = real(*args, **kwargs)
            self.moment()
            return result

        setattr(owner, name, call)


def fit(folder: str, at: float, read: str | None, every: float, changes: dict[str, Any]) -> None:
    """Fit with a checkpoint; log every step that takes place, and every release that is used."""
    torch.set_num_threads(1)
    place = Path(folder)
    log = os.open(place / "executed", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    kill = Kill(at, read)
    real_read, real_once = PrivateTable.read, TrainingMonitor.once

    def logged(table: Any, account: Any, uses: int = 1) -> Any:
        kill.moment()
        rows = real_read(table, account, uses)
        if account.number is not None:  # that of a public table is on no ledger
            os.write(log, f"{account.purpose}\n".encode())
        if account.purpose == read:
            os.kill(os.getpid(), signal.SIGKILL)
        kill.moment()
        return rows

    def once(monitor: TrainingMonitor, name: str, compute: Any) -> Any:
        result = real_once(monitor, name, compute)
        if monitor.checkpoint is not None:
            line = {"run": monitor.checkpoint.run, "name": name}
            line["values"] = [float(v) for a in result.values() for v in np.ravel(a)]
            with open(place / "released", "a") as file:
                file.write(json.dumps(line) + "\n")
        return result

    PrivateTable.read, TrainingMonitor.once = logged, once  # type: ignore[method-assign]
    for name in ("fsync", "pwrite", "replace", "ftruncate", "unlink"):
        kill.around(os, name)
    checkpoints.EVERY, ledger.BLOCKS = every, BLOCKS
    project = changes.pop("ledger", None)
    if changes.pop("drafts", False):
        estimator, table = drafting(), frame(DRAFTED_ROWS)
    else:
        estimator, table = model(**changes), frame()
    fitted = estimator.fit(table, checkpoint=place / "ck", ledger=project)
    fitted.save(place / "model", overwrite=True)  # of an earlier try that ended
    (place / "moments").write_text(str(kill.moments))


def run(
    folder: Path,
    at: float = float("inf"),
    *,
    read: str | None = None,
    every: float = 1e-9,
    **changes: Any,
) -> int | None:
    """The exit code of :func:`fit` in a process of its own: −9 if it was killed.

    ``changes`` of the model's parameters; ``drafts=True`` fits :func:`drafting` in its place, ``ledger`` is a project's.
    """
    process = forked.CONTEXT.Process(target=fit, args=(str(folder), at, read, every, changes))
    process.start()
    process.join(120)
    return process.exitcode


def executed(folder: Path) -> Counter[str]:
    """How often each purpose read the private rows, in all processes so far."""
    path = folder / "executed"
    return Counter(path.read_text().split("\n")[:-1] if path.exists() else [])
