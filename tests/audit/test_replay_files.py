"""The files of a fit are replayed too: a number of rows in a checkpoint or on a ledger is caught, and named."""

from dataclasses import fields
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch
from record_replay import neighbours, replay
from replayed_tables import EPSILON, SCHEMA, frame
from systems import make_tiny_model

from tabsynth import MargNet
from tabsynth.auditing.replay import ReplayResult, make_files, note_files
from tabsynth.errors import InputError
from tabsynth.privacy import ProjectLedger
from tabsynth.synthesizers.margnet.estimator import MargNetMethod
from tabsynth.training.checkpoint import Checkpoint

torch.set_num_threads(1)


def replayed(kind: type[MargNet], interrupted: int | None = None) -> ReplayResult:
    model = kind(**make_tiny_model("margnet", SCHEMA, epsilon=EPSILON).get_params(deep=False))
    pair = neighbours(frame(40), SCHEMA)[0]
    return replay(model, pair.table, pair.neighbour, seed=1, interrupted=interrupted)


def estimator_of(method: type[MargNetMethod]) -> type[MargNet]:
    """An estimator with another method, which knows the estimator."""

    class Leaking(MargNet):
        def make_method(self, schema: Any) -> MargNetMethod:
            right = super().make_method(schema)
            method.estimator = self  # type: ignore[attr-defined]
            return method(**{f.name: getattr(right, f.name) for f in fields(right)})

    return Leaking


class Listed(MargNetMethod):
    """The list of the checkpoint has the number of rows."""

    def train(self, rows: Any, spends: Any, ledger: Any, rng: Any, monitor: Any) -> Any:
        monitor.checkpoint._index["rows"] = len(rows)
        return super().train(rows, spends, ledger, rng, monitor)


class Kept(MargNetMethod):
    """A state that is gone when the fit has ended has it."""

    def train(self, rows: Any, spends: Any, ledger: Any, rng: Any, monitor: Any) -> Any:
        monitor.checkpoint._keep("stage", "first", {"rows": len(rows)}, 1)
        return super().train(rows, spends, ledger, rng, monitor)


class About(MargNetMethod):
    """A line of the ledger on what a run is has it."""

    def train(self, rows: Any, spends: Any, ledger: Any, rng: Any, monitor: Any) -> Any:
        ledger.journal.note_run("another", {"rows": len(rows)})
        return super().train(rows, spends, ledger, rng, monitor)


class Detailed(MargNetMethod):
    """The details of an account have it."""

    def train(self, rows: Any, spends: Any, ledger: Any, rng: Any, monitor: Any) -> Any:
        number = ledger.journal.open("another", "counts", {"mechanism": "none"}, 1, {})
        ledger.journal.close(number, 0)
        about = {"mechanism": "none"}
        number = ledger.journal.open("another", "counts", about, 1, {"rows": len(rows)})
        ledger.journal.close(number, 0)
        return super().train(rows, spends, ledger, rng, monitor)


class GoingOn(MargNetMethod):
    """Remembers the number of rows where it goes on, and only there."""

    estimator: ClassVar[Any]

    def train(self, rows: Any, spends: Any, ledger: Any, rng: Any, monitor: Any) -> Any:
        if monitor.checkpoint.resumes:
            self.estimator.rows_seen_ = len(rows)
        return super().train(rows, spends, ledger, rng, monitor)


class OnItsOwn(estimator_of(Detailed)):  # type: ignore[misc]
    """Has a checkpoint with a ledger of its own, because it has no project ledger."""

    warm_start = "of another table"


LEAKS: dict[str, tuple[type[MargNet], str]] = {
    "list": (estimator_of(Listed), "checkpoint.json: rows is 41, not 40"),
    "state": (estimator_of(Kept), "state-0.safetensors: the value is "),
    "run": (estimator_of(About), "project.ledger: [0][2].about.rows is 41, not 40"),
    "account": (estimator_of(Detailed), "project.ledger: [0][4].details.rows is 41, not 40"),
    "own ledger": (OnItsOwn, "ledger.jsonl: [0][3].details.rows is 41, not 40"),
}


@pytest.mark.slow
@pytest.mark.parametrize("leak", LEAKS)
def test_a_number_of_rows_is_named(leak: str) -> None:
    kind, message = LEAKS[leak]
    result = replayed(kind).first_difference or ""
    assert result.startswith(message), result


@pytest.mark.slow
def test_a_fit_that_goes_on_is_looked_at_too() -> None:
    assert replayed(estimator_of(GoingOn)).passes and replayed(MargNet, interrupted=2).passes
    result = replayed(estimator_of(GoingOn), interrupted=2).first_difference
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
        make_tiny_model("margnet", SCHEMA, epsilon=EPSILON).set_params(random_state=1).check(
            files["ledger"]
        )
    assert [run.ended for run in ledger.runs()] == [True]
