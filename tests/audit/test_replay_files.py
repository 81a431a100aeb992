"""The files of a fit are replayed too: a number of rows in a checkpoint or on a ledger is caught, and named."""

from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

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


Leak = Callable[
    [MargNet, int, Any, Any], object
]  # of the estimator, the number of rows, the ledger and the monitor


def leaking(leak: Leak, **attributes: Any) -> type[MargNet]:
    """An estimator whose method leaks the number of rows, and then trains."""

    class LeakingMethod(MargNetMethod):
        def train(self, rows: Any, spends: Any, ledger: Any, rng: Any, monitor: Any) -> Any:
            leak(type(self).estimator, len(rows), ledger, monitor)  # type: ignore[attr-defined]
            return super().train(rows, spends, ledger, rng, monitor)

    class Leaking(MargNet):
        def make_method(self, schema: Any) -> MargNetMethod:
            right = super().make_method(schema)
            LeakingMethod.estimator = self  # type: ignore[attr-defined]
            return LeakingMethod(**{f.name: getattr(right, f.name) for f in fields(right)})

    return type("Leaking", (Leaking,), attributes)


def in_details(_: MargNet, rows: int, ledger: Any, __: Any) -> None:
    about = {"mechanism": "none"}
    for details in ({}, {"rows": rows}):
        number = ledger.journal.open("another", "counts", about, 1, details)
        ledger.journal.close(number, 0)


def where_it_goes_on(estimator: Any, rows: int, _: Any, monitor: Any) -> None:
    if monitor.checkpoint.resumes:
        estimator.rows_seen_ = rows


def in_the_list(_: MargNet, rows: int, __: Any, monitor: Any) -> None:
    monitor.checkpoint._index["rows"] = rows


LEAKS: dict[str, tuple[type[MargNet], str]] = {
    "list": (leaking(in_the_list), "checkpoint.json: rows is 41, not 40"),
    "state": (
        leaking(
            lambda _, rows, __, monitor: monitor.checkpoint._keep(
                "stage", "first", {"rows": rows}, 1
            )
        ),
        "state-0.safetensors: the value is ",
    ),
    "run": (
        leaking(lambda _, rows, ledger, __: ledger.journal.note_run("another", {"rows": rows})),
        "project.ledger: [0][2].about.rows is 41, not 40",
    ),
    "account": (leaking(in_details), "project.ledger: [0][4].details.rows is 41, not 40"),
}


@pytest.mark.slow
@pytest.mark.parametrize("leak", LEAKS)
def test_a_number_of_rows_is_named(leak: str) -> None:
    kind, message = LEAKS[leak]
    result = replayed(kind).first_difference or ""
    assert result.startswith(message), result


@pytest.mark.slow
def test_a_fit_that_goes_on_is_looked_at_too() -> None:
    assert replayed(leaking(where_it_goes_on)).passes and replayed(MargNet, interrupted=2).passes
    result = replayed(leaking(where_it_goes_on), interrupted=2).first_difference
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
