"""R1, R14, R15 for PATE: a record is one teacher's for life, and only noisy answers come out of it."""

from typing import Any

import pandas as pd
import pytest
import torch
from record_replay import neighbours, replay
from replayed_tables import EPSILON, SCHEMA, checked, frame, pairs_of
from systems import make_tiny_model, system_names

from tabsynth.auditing.fixtures.pate import TEACHERS
from tabsynth.synthesizers.pate.features import MarginalTeachers
from tabsynth.synthesizers.pate.teachers import TeacherTrainer

torch.set_num_threads(1)
pytestmark = pytest.mark.usefixtures("accounting_in_no_time")
PATE = [name for name in system_names() if name.startswith("pate")]


class Teaching:
    """Keeps what every teacher knew, round by round: inside the fit, where nobody else sees it."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.known: list[list[torch.Tensor]] = []
        real_of, real_step = MarginalTeachers.of.__func__, TeacherTrainer.step  # type: ignore[attr-defined]

        def of(cls: Any, *args: Any) -> Any:
            result = real_of(cls, *args)
            self.known.append([result.means.clone()])
            return result

        def step(trainer: Any, *args: Any) -> None:
            real_step(trainer, *args)
            parameters = trainer.teachers.parameters()
            self.known.append([p.detach().clone() for p in parameters])

        patch.setattr(MarginalTeachers, "of", classmethod(of))
        patch.setattr(TeacherTrainer, "step", step)


def differing(taught: Teaching) -> set[int]:
    """Teachers of which any number was ever different in the replay, to the bit."""
    half = len(taught.known) // 2
    assert len(taught.known) == 2 * half > 0
    result: set[int] = set()
    for ours, theirs in zip(taught.known[:half], taught.known[half:], strict=True):
        for a, b in zip(ours, theirs, strict=True):
            result |= set(torch.nonzero((a != b).flatten(1).any(1)).flatten().tolist())
    return result


@pytest.mark.slow
@pytest.mark.parametrize("name", PATE)
def test_one_record_is_one_teacher(name: str) -> None:
    """Added or removed, it changes one teacher in all rounds, a vote by one, and nothing else."""
    for pair, interrupted in zip(pairs_of(name), (None, 4), strict=False):
        with pytest.MonkeyPatch.context() as patch:
            taught = Teaching(patch)
            result = checked(name, pair, interrupted)
        assert len(differing(taught)) == 1
        votes = [m for m in result.mechanisms if m.purpose == "votes"]
        assert [m.uses for m in votes] == [30, 30]
        for (
            m
        ) in result.mechanisms:  # one vote, or none; it goes from one class to another, or stays
            assert "votes" not in m.purpose or min(m.move, abs(m.move - 1)) < 1e-9


@pytest.mark.parametrize("name", ["pate-gan", "pate-gan, networks", "pate-acgan, networks"])
def test_a_copy_less_is_one_teacher(name: str) -> None:
    """Of two equal records the first is removed: the second is as it was, and so is its teacher."""
    table = pd.concat([frame(30)] * 2, ignore_index=True)
    fewer = table.drop(index=3).reset_index(drop=True)
    with pytest.MonkeyPatch.context() as patch:
        taught = Teaching(patch)
        assert replay(make_tiny_model(name, SCHEMA, epsilon=EPSILON), table, fewer, seed=1).passes
    assert len(differing(taught)) == 1


def test_equal_shards_would_be_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """R15's mistake: shards by place change many teachers, even where few votes move."""
    from tabsynth.synthesizers.pate import rounds as pate

    def by_place(rows: torch.Tensor, teachers: int, key: Any) -> tuple[torch.Tensor, torch.Tensor]:
        return rows, torch.arange(len(rows)) * teachers // len(rows)

    monkeypatch.setattr(pate, "deal", by_place)
    pair = neighbours(frame(60), SCHEMA)[0]
    for name in ("pate-gan", "pate-gan, networks"):
        result = replay(make_tiny_model(name, SCHEMA, epsilon=EPSILON), pair.table, pair.neighbour)
        assert (result.first_difference or "").endswith(f" of {TEACHERS} changed, not 1 at most")
        assert (result.first_difference or "").startswith("teachers, round 1: ")
