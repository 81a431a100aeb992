"""The files of a fit are replayed too: a number of rows in a checkpoint or on a ledger is caught, and named."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from replayed_tables import EPSILON, SCHEMA, frame
from systems import make_tiny_model

from tabsynth import MargNet
from tabsynth.auditing.replay import ReplayResult, make_files, note_files, replay
from tabsynth.auditing.replay_neighbours import neighbours
from tabsynth.errors import InputError
from tabsynth.privacy import ProjectLedger
from tabsynth.training.checkpoint import Checkpoint

torch.set_num_threads(1)


def replayed(kind: type[MargNet], interrupted: int | None = None) -> ReplayResult:
    model = kind(**make_tiny_model("margnet", SCHEMA, epsilon=EPSILON).get_params(deep=False))
    pair = neighbours(frame(40), SCHEMA)[0]
    return replay(model, pair.table, pair.neighbour, seed=1, interrupted=interrupted)


class Listed(MargNet):
    """The list of the checkpoint has the number of rows."""

    def _train(self, index: np.ndarray, spends: Any, ledger: Any, rng: Any, monitor: Any) -> Any:  # type: ignore[override]
        monitor.checkpoint._index["rows"] = len(index)
        return super()._train(index, spends, ledger, rng, monitor)


class Kept(MargNet):
    """A state that is gone when the fit has ended has it."""

    def _train(self, index: np.ndarray, spends: Any, ledger: Any, rng: Any, monitor: Any) -> Any:  # type: ignore[override]
        monitor.checkpoint._keep("stage", "first", {"rows": len(index)}, 1)
        return super()._train(index, spends, ledger, rng, monitor)


class About(MargNet):
    """A line of the ledger on what a run is has it."""

    def _train(self, index: np.ndarray, spends: Any, ledger: Any, rng: Any, monitor: Any) -> Any:  # type: ignore[override]
        ledger.journal.begin("another", {"rows": len(index)})
        return super()._train(index, spends, ledger, rng, monitor)


class Detailed(MargNet):
    """The details of an account have it."""

    def _train(self, index: np.ndarray, spends: Any, ledger: Any, rng: Any, monitor: Any) -> Any:  # type: ignore[override]
        number = ledger.journal.open("another", "counts", {"mechanism": "none"}, 1, {})
        ledger.journal.close(number, 0)
        about = {"mechanism": "none"}
        number = ledger.journal.open("another", "counts", about, 1, {"rows": len(index)})
        ledger.journal.close(number, 0)
        return super()._train(index, spends, ledger, rng, monitor)


class Own(Detailed):
    """As before, in a checkpoint with a ledger of its own."""

    warm_start = "of another table"


class GoingOn(MargNet):
    """Remembers the number of rows where it goes on, and only there."""

    def _train(self, index: np.ndarray, spends: Any, ledger: Any, rng: Any, monitor: Any) -> Any:  # type: ignore[override]
        if monitor.checkpoint.resumes:
            self.rows_seen_ = len(index)
        return super()._train(index, spends, ledger, rng, monitor)


LEAKS: dict[str, tuple[type[MargNet], str]] = {
    "list": (Listed, "checkpoint.json: rows is 41, not 40"),
    "state": (Kept, "state-0.safetensors: the value is "),
    "run": (About, "project.ledger: [0][2].about.rows is 41, not 40"),
    "account": (Detailed, "project.ledger: [0][4].details.rows is 41, not 40"),
    "own ledger": (Own, "ledger.jsonl: [0][3].details.rows is 41, not 40"),
}


@pytest.mark.slow
@pytest.mark.parametrize("leak", LEAKS)
def test_a_number_of_rows_is_named(leak: str) -> None:
    kind, message = LEAKS[leak]
    result = replayed(kind).first_difference or ""
    assert result.startswith(message), result


@pytest.mark.slow
def test_a_fit_that_goes_on_is_looked_at_too() -> None:
    assert replayed(GoingOn).passed and replayed(MargNet, interrupted=2).passed
    result = replayed(GoingOn, interrupted=2).first_difference
    assert result == "model: rows_seen_ is 41, not 40"


def test_all_files_are_noted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a checkpoint leaves beside its own files as well; and the time shows nowhere."""
    real = Checkpoint.finish

    def finish(self: Checkpoint, save: Any) -> None:
        real(self, save)
        (self.path / "notes.txt").write_text("x")

    monkeypatch.setattr(Checkpoint, "finish", finish)
    model, noted = make_tiny_model("margnet", SCHEMA, epsilon=EPSILON), {}
    files = make_files(model, tmp_path / "fit")
    model.fit(frame(40), **files)
    note_files(tmp_path / "fit", noted.__setitem__)
    names = ["checkpoint.json", "model.tabsynth", "notes.txt"]
    assert noted["files"] == [*(f"checkpoint/{name}" for name in names), "project.ledger"]
    assert list(noted) == ["files", "project.ledger", *names]
    assert noted["notes.txt"] == [None, b"x"]
    # Outside of a replay names are random, the time is told, and a seed is refused.
    lines, _ = noted["project.ledger"]
    assert int(lines[0]["project"], 16) > 2**32 and "1970" not in lines[1]["about"]["when"]
    ledger = ProjectLedger.read(files["ledger"])
    with pytest.raises(InputError, match="seeded"):
        make_tiny_model("margnet", SCHEMA, epsilon=EPSILON).set_params(
            random_state=1
        )._check_project(files["ledger"])
    assert [run.ended for run in ledger.runs()] == [True]
