"""A time limit is kept by every method, and what the fit gives is valid: model, sample and certificate."""

import itertools
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from command_lines import FIT, make_people, make_schema, run

from tabsynth import Categorical, MargNet, Numeric, Schema
from tabsynth.cli import fit as command
from tabsynth.privacy.certificate.verification import verify
from tabsynth.synthesizers import METHODS, MargNetConfig
from tabsynth.synthesizers.session import LEAST_LIMIT, FitSession
from tabsynth.training.loop import TrainingMonitor

torch.set_num_threads(1)

LATE = 10.0  # seconds: of 15% of the limit and this, the larger is allowed
COLUMNS = [
    *(Categorical(name=f"c{j}", dtype="int64", categories=tuple(range(30))) for j in range(6)),
    *(Numeric(name=f"n{j}", dtype="int64", low=0, high=999) for j in range(6)),
]


def wide(rows: int = 3_000) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    table = {f"c{j}": rng.integers(0, 30, rows) for j in range(6)}
    return pd.DataFrame(table | {f"n{j}": rng.integers(0, 1000, rows) for j in range(6)})


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
def test_every_method_keeps_a_time_limit(method: str, tmp_path: Path) -> None:
    """In CPU seconds, which other jobs do not change; the limit itself is of the clock."""
    classes = {"class_column": "c0"} if method == "pate-acgan" else {}
    model = METHODS[method](Schema(COLUMNS), epsilon=1.0, rows=3_000, time_limit=0.02, **classes)
    table, started = wide(), time.process_time()
    model.fit(table)
    assert time.process_time() - started < 0.02 + LATE
    certificate = model.certificate()
    assert certificate["training"]["stopped"] == "time limit"
    assert 0 < certificate["epsilon"] <= 1.0
    model.sample_to(tmp_path / "t.csv", 50)
    assert verify(tmp_path / "t.csv").consistent
    assert len(pd.read_csv(tmp_path / "t.csv")) == 50


def test_a_command_counts_its_imports_its_plan_and_its_reading(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of 30 s, 12.5 are over when the table is read; of 3 s none are left, and the model is valid all the same."""
    make_schema().save(tmp_path / "schema.json")
    make_people().to_csv(tmp_path / "people.csv", index=False)
    moments = itertools.cycle([100.0, 112.5])  # the start of a command, and when its table is read
    monkeypatch.setattr(command, "time", SimpleNamespace(monotonic=lambda: next(moments)))
    limits: list[float] = []
    own = MargNet.fit

    def fit(self: MargNet, *args: Any, **kwargs: Any) -> MargNet:
        limits.append(self.time_limit or 0.0)
        self.time_limit = min(self.time_limit or 0.0, 0.2)
        return own(self, *args, **kwargs)

    monkeypatch.setattr(MargNet, "fit", fit)
    for limit in ("30s", "3s"):
        done = run(*FIT, "--epsilon", 1, "--time-limit", limit, "--overwrite", cwd=tmp_path)
        assert f"stops at the time limit of {limit[:-1]} s" in done.stdout
    assert limits == [pytest.approx(17.5), LEAST_LIMIT]
    assert "Stopped early: time limit" in done.stdout
    run("sample", "model.tabsynth", "-n", 5, "-o", "s.csv", cwd=tmp_path)


def test_a_draft_is_a_part_of_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """By a clock of which the draft takes 4 s of 5."""
    clock = [0.0]
    drafted = FitSession.draft

    def slow(self: FitSession, *args: Any) -> Schema:
        clock[0] += 4
        return drafted(self, *args)

    monkeypatch.setattr(
        "tabsynth.synthesizers.session.time", SimpleNamespace(monotonic=lambda: clock[0])
    )
    monkeypatch.setattr(FitSession, "draft", slow)
    left: list[float] = []
    train = FitSession.train

    def timed(self: FitSession, method: Any, rows: Any, monitor: TrainingMonitor) -> Any:
        left.append(monitor.deadline - clock[0])
        monitor.deadline = None
        return train(self, method, rows, monitor)

    monkeypatch.setattr(FitSession, "train", timed)
    config = MargNetConfig(components=5, latent_dim=3, hidden=(4,), steps=3)
    MargNet(epsilon=8.0, config=config, time_limit=5.0).fit(make_people(2_000))
    assert left == [pytest.approx(1.0)]
