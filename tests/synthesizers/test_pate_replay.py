"""R1, R8, R14–R16 for PATE: a record is in one shard for life, and only noisy answers come out of it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from fitted_tables import frame, row, small_acgan, small_pate
from replays import Tape, fitted, moved, same

from tabsynth.generators import pate as rounds
from tabsynth.generators import pate_networks, pate_witness
from tabsynth.generators.teachers import Classroom
from tabsynth.generators.witnesses import Witnesses
from tabsynth.synthesizers.base import Synthesizer

torch.set_num_threads(1)

SYSTEMS: dict[str, Callable[[int], Synthesizer]] = {
    "witness": lambda s: small_pate(random_state=s),
    "witness, binary codes": lambda s: small_pate(random_state=s, encoding="binary"),
    "witness, autoencoder": lambda s: small_pate(random_state=s, autoencoder="dp-sgd"),
    "network": lambda s: small_pate(random_state=s, config={"kind": "network"}),
    "paper": lambda s: small_pate(
        random_state=s, preset="paper", config={"kind": "network", "accounting": "laplace"}
    ),
    "acgan C": lambda s: small_acgan(random_state=s),
    "acgan B": lambda s: small_acgan(random_state=s, mode="B"),
    "acgan A": lambda s: small_acgan(random_state=s, mode="A"),
    "acgan C, network": lambda s: small_acgan(random_state=s, config={"kind": "network"}),
    "acgan B, network": lambda s: small_acgan(random_state=s, mode="B", config={"kind": "network"}),
}
NEIGHBOURS = {"outlier": row("z", 10**6, -1.0), "null": row("y", pd.NA)}


class Teaching:
    """Keeps what every teacher knew, round by round: inside the fit, where nobody else sees it."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.known: list[list[torch.Tensor]] = []
        real_of, real_step = Witnesses.of.__func__, Classroom.step  # type: ignore[attr-defined]

        def of(cls: Any, *args: Any) -> Any:
            found = real_of(cls, *args)
            self.known.append([found.means.clone()])
            return found

        def step(classroom: Any, *args: Any) -> None:
            real_step(classroom, *args)
            parameters = classroom.teachers.parameters()
            self.known.append([p.detach().clone() for p in parameters])

        patch.setattr(Witnesses, "of", classmethod(of))
        patch.setattr(Classroom, "step", step)


def differing(one: Teaching, other: Teaching) -> set[int]:
    """Teachers of which any number was ever different, to the bit."""
    assert len(one.known) == len(other.known) > 0
    found: set[int] = set()
    for ours, theirs in zip(one.known, other.known, strict=True):
        for a, b in zip(ours, theirs, strict=True):
            found |= set(torch.nonzero((a != b).flatten(1).any(1)).flatten().tolist())
    return found


@pytest.mark.parametrize("removed", [False, True])
@pytest.mark.parametrize("name", SYSTEMS)
def test_one_record_is_one_teacher(name: str, removed: bool, tmp_path: Path) -> None:
    """Added or removed, it changes one teacher in all rounds, a vote by one, and nothing else."""
    for seed, neighbour in enumerate(NEIGHBOURS.values()):
        tables = [frame(60), pd.concat([frame(60), neighbour], ignore_index=True)]
        if removed:
            tables.reverse()
        tape: Tape | None = None
        seen: list[Any] = []
        tapes: list[Tape] = []
        taught: list[Teaching] = []
        for table in tables:
            with pytest.MonkeyPatch.context() as patch:
                taught.append(Teaching(patch))
                tape, found = fitted(table, SYSTEMS[name](seed), tmp_path, tape)
            tapes.append(tape)
            seen.append(found)
        same(seen[0], seen[1])
        assert max(moved(*tapes), default=0) <= 1 + 1e-4
        assert len(differing(*taught)) == 1
        assert len(tapes[0].votes) == 2 and sum(map(len, tapes[0].votes)) == 60
        for one, other in zip(tapes[0].votes, tapes[1].votes, strict=True):
            assert np.abs(one - other).max() <= 1
        for one, other in zip(tapes[0].class_votes, tapes[1].class_votes, strict=True):
            assert np.linalg.norm(one - other, axis=1).max() <= 2**0.5 + 1e-9
            assert (one.sum(1) == 7).all()


@pytest.mark.parametrize("name", ["witness", "network", "acgan B, network"])
def test_a_twin_less_is_one_teacher(name: str, tmp_path: Path) -> None:
    """Of two equal records the first is removed: the second is as it was, and so is its teacher."""
    for seed in range(3):
        table = pd.concat([frame(30, seed=seed)] * 2, ignore_index=True)
        tape: Tape | None = None
        tapes, taught = [], []
        for part in (table, table.drop(index=seed).reset_index(drop=True)):
            with pytest.MonkeyPatch.context() as patch:
                taught.append(Teaching(patch))
                tape, _ = fitted(part, SYSTEMS[name](seed), tmp_path, tape)
            tapes.append(tape)
        assert len(differing(*taught)) == 1
        for one, other in zip(tapes[0].votes, tapes[1].votes, strict=True):
            assert np.abs(one - other).max() <= 1


def test_the_replay_is_not_blind(tmp_path: Path) -> None:
    """Without frozen answers, more rows of another kind do show."""
    more = pd.concat([frame(60), *[row("z", 20, 1.0)] * 40], ignore_index=True)
    seen = [
        fitted(table, small_pate(random_state=1, epsilon=200.0), tmp_path)[1]
        for table in (frame(60), more)
    ]
    assert seen[0]["weights"] != seen[1]["weights"]


@pytest.mark.parametrize("name", ["witness", "network"])
def test_a_tenth_more_rows(name: str, tmp_path: Path) -> None:
    """R14: the number of rows enters nothing but the shards."""
    tape, seen = fitted(frame(60), SYSTEMS[name](3), tmp_path)
    more = pd.concat([frame(60), frame(6, seed=5)], ignore_index=True)
    _, replayed = fitted(more, SYSTEMS[name](3), tmp_path, tape)
    same(seen, replayed)


def test_shards_are_coins_of_the_records() -> None:
    """R15: a record more or less, wherever it stands, is one record of one shard; the law is uniform."""
    key = np.arange(16, dtype=np.uint32)
    rows = torch.from_numpy(np.random.default_rng(0).integers(0, 4, (300, 3))).float()
    assert len(rows.unique(dim=0)) <= 64  # most records have equals

    def shards(table: torch.Tensor) -> list[list[bytes]]:
        found: list[list[bytes]] = [[] for _ in range(7)]
        for record, k in zip(*rounds.deal(table, 7, key), strict=True):
            found[k].append(record.numpy().tobytes())
        return found

    whole = shards(rows)
    assert shards(rows[torch.randperm(300, generator=torch.Generator().manual_seed(0))]) == whole
    for i in (0, 1, 150, 299):
        fewer = shards(torch.cat([rows[:i], rows[i + 1 :]]))
        changed = [([*a], b) for a, b in zip(whole, fewer, strict=True) if a != b]  # in order, too
        ((one, other),) = changed
        one.remove(rows[i].numpy().tobytes())
        assert one == other
    alike = torch.zeros(20_000, 2)
    _, drawn = rounds.deal(alike, 10, key)
    counts = torch.bincount(drawn, minlength=10)
    assert len(counts) == 10 and (counts - 2000).abs().max() < 4.5 * (20_000 * 0.09) ** 0.5
    _, others = rounds.deal(alike, 10, key + 1)
    assert 0.08 < (others == drawn).double().mean() < 0.12


@pytest.mark.parametrize(
    ("module", "kind"),
    [(pate_witness.PATEWitness, "witness"), (pate_networks.PATENetworks, "network")],
)
def test_the_generator_step_reads_the_student_alone(
    module: Any, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R8: in a generator step neither teachers nor rows are there to be read."""
    real = module.move

    def move(self: Any, *args: Any) -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(rounds.Booth, "open", None)
            if kind == "network":
                patch.setattr(self, "_teachers", None)
                patch.setattr(self, "_classroom", None)
            real(self, *args)

    monkeypatch.setattr(module, "move", move)
    made = small_pate(config={"kind": kind}).fit(frame(40))
    assert len(made.sample(5)) == 5


def test_frozen_answers_freeze_the_model(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """R16: of two quite different tables, the same answers make the same model."""
    for kind in ("witness", "network"):
        seen = []
        for table in (frame(40), frame(55, seed=8)):
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(
                    rounds, "majority", lambda counts, *_: np.arange(len(counts)) % 3 == 0
                )
                patch.setattr(
                    "tabsynth.synthesizers.counting.noisy_marginals",
                    lambda *a: [np.ones(s) * 10 for s in a[2]],
                )
                # Batches of the student so large that it learns from every row that was asked about.
                config = {"kind": kind, "student_batch": 300}
                made = small_pate(random_state=0, config=config).fit(table)
            weights = made.trained_.weights().values()
            seen.append(([w.numpy().tobytes() for w in weights], made.trained_.curves))
        assert seen[0] == seen[1]
