"""R1, R8, R12, R14, R18: a fit is a function of what its mechanisms released, and of nothing else.

A fit on D is recorded: every noisy count and noisy gradient. It is replayed on a neighbour D′ with
the same coins for each record and the recorded outputs frozen. All that comes out must be the same to
the bit, and what goes into each mechanism may differ by its sensitivity at most.
"""

import logging
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from fitted_tables import SCHEMA, coder, facts, frame, row, small, wgan

from tabsynth import DPWGAN
from tabsynth.encoding import TableEncoder
from tabsynth.synthesizers import dpwgan
from tabsynth.training import dpsgd
from tabsynth.training.clipping import PerExampleClipper
from tabsynth.training.dpsgd import DPSGD

torch.set_num_threads(1)
RATE = 0.2


@dataclass
class Tape:
    """What mechanisms were given (before noise) and what they released (after)."""

    inputs: list[tuple[float, np.ndarray]] = field(default_factory=list)  # (sensitivity, sum)
    outputs: list[Any] = field(default_factory=list)
    divisors: list[float] = field(default_factory=list)


class Recorder:
    """Stands between a fit and its mechanisms; with a tape it plays that back."""

    def __init__(self, patch: pytest.MonkeyPatch, replay: Tape | None = None) -> None:
        self.tape = Tape()
        self.replay = list(replay.outputs) if replay else None
        originals = dpwgan.noisy_marginals, dpwgan.noisy_row_count, DPSGD.gradient
        clipped_sum = PerExampleClipper.clipped_sum
        self.batches = 0

        def coins(n: int, rate: float, *_: Any) -> torch.Tensor:
            """The same coin for the same record in both worlds; those past the 60th are always in."""
            self.batches += 1
            drawn = torch.rand(60, generator=torch.Generator().manual_seed(self.batches))
            always = torch.zeros(max(0, n - 60))
            return torch.nonzero(torch.cat([drawn, always])[:n] < rate).squeeze(1)

        def marginals(table: Any, account: Any, sizes: Any, rng: Any) -> Any:
            silent = np.random.default_rng(0)
            exact = originals[0](table, account, sizes, silent)
            noise = np.random.default_rng(0)
            std = dpwgan.marginal_noise(account, len(sizes))
            exact = [c - std * noise.standard_normal(len(c)) for c in exact]
            self.tape.inputs.append((len(sizes) ** 0.5, np.concatenate(exact)))
            return self._out([c + std * rng.standard_normal(len(c)) for c in exact])

        def row_count(table: Any, account: Any, rng: Any) -> Any:
            return self._out(originals[1](table, account, rng))

        def gradient(step: DPSGD, *args: Any, **kwargs: Any) -> None:
            originals[2](step, *args, **kwargs)
            self.tape.divisors.append(step.expected_batch)
            found = self._out([p.grad.clone() for p in step.clipper.parameters])
            for parameter, value in zip(step.clipper.parameters, found, strict=True):
                parameter.grad = value.clone()

        def sums(clipper: Any, losses: Any, rows: Any, bound: float, reference: Any = None) -> Any:
            found = clipped_sum(clipper, losses, rows, bound, reference)
            flat = torch.cat([f.flatten() for f in found]).double().numpy()
            self.tape.inputs.append((bound, flat))
            return found

        patch.setattr(dpwgan, "noisy_marginals", marginals)
        patch.setattr(dpwgan, "noisy_row_count", row_count)
        patch.setattr(DPSGD, "gradient", gradient)
        patch.setattr(PerExampleClipper, "clipped_sum", sums)
        patch.setattr(dpsgd, "poisson_sample", coins)

    def _out(self, value: Any) -> Any:
        if self.replay is not None:
            value = self.replay.pop(0)
        self.tape.outputs.append(value)
        return value


def fitted(
    table: pd.DataFrame, model: DPWGAN, folder: Path, replay: Tape | None = None
) -> tuple[Tape, dict[str, Any]]:
    """The tape of a fit, and all that a person could see of it."""
    heard: list[tuple[str, int, int]] = []
    plan = str(model.plan(estimate_time=False))
    with pytest.MonkeyPatch.context() as patch:
        recorder = Recorder(patch, replay)
        model.fit(table, progress=lambda *told: heard.append(told))
    assert recorder.replay in (None, [])
    file = folder / "model.safetensors"
    model.save(file)
    return recorder.tape, {
        "plan": plan,
        "progress": heard,
        "weights": {k: v.numpy().tobytes() for k, v in model.trained_.weights().items()},
        "curves": model.trained_.curves,
        "certificate": facts(model),
        "file": file.read_bytes(),
        "sample": model.sample(40, random_state=3).to_csv(),
        "attributes": sorted(vars(model)),
        "layout": [(b.column, b.start, b.stop, b.head) for b in model.encoder_.layout.blocks],
    }


NEIGHBOURS = {
    "outlier": row("x", 20, 1.0),
    "clipped far outside": row("x", 10**6, -1e30),
    "category nobody else has": row("z", 3),
    "category nobody declared": row("unheard of", 3),
    "null": row("y", pd.NA),
}


def same(one: dict[str, Any], other: dict[str, Any]) -> None:
    for name in one:
        assert one[name] == other[name], name


@pytest.mark.parametrize("removed", [False, True])
@pytest.mark.parametrize("neighbour", NEIGHBOURS)
def test_replay_on_a_neighbour(
    neighbour: str, removed: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """R1: counts, autoencoder and critic, on Poisson batches; a row added or removed."""
    caplog.set_level(logging.DEBUG, "tabsynth")
    tables = [frame(60), pd.concat([frame(60), NEIGHBOURS[neighbour]], ignore_index=True)]
    if removed:
        tables.reverse()
    seed = len(neighbour)
    logs = []
    tape, seen = fitted(tables[0], small(rate=RATE, random_state=seed), tmp_path)
    logs.append([r.getMessage() for r in caplog.records])
    caplog.clear()
    again, replayed = fitted(tables[1], small(rate=RATE, random_state=seed), tmp_path, tape)
    logs.append([r.getMessage() for r in caplog.records])
    same(seen, replayed)
    assert logs[0] == logs[1]
    assert tape.divisors == again.divisors
    # R2: the inputs of each mechanism are neighbours too (in float32, as they were computed).
    assert len(tape.inputs) == len(again.inputs) == 1 + 5 + 8
    moved = [
        float(np.linalg.norm(one - other)) / bound
        for (bound, one), (same_bound, other) in zip(tape.inputs, again.inputs, strict=True)
        if bound == same_bound
    ]
    assert len(moved) == 14 and max(moved) <= 1 + 1e-4 and max(moved) > 0.5


def test_replay_can_fail(tmp_path: Path) -> None:
    """Without frozen outputs the neighbour does show: the comparison above is not blind."""
    tape, seen = fitted(frame(60), small(rate=RATE, random_state=1), tmp_path)
    more = pd.concat([frame(60), row("z", 20, 1.0)], ignore_index=True)
    _, free = fitted(more, small(rate=RATE, random_state=1), tmp_path)
    for name in ("weights", "curves", "file"):
        assert seen[name] != free[name]
    assert len(tape.outputs) == 14


@pytest.mark.parametrize("autoencoder", ["dp-sgd", "public", None])
@pytest.mark.parametrize("preset", ["default", "source"])
def test_a_tenth_more_rows(autoencoder: str | None, preset: str, tmp_path: Path) -> None:
    """R14: the number of rows enters nothing: divisors, steps, plan, results."""
    public = frame(20, seed=9) if autoencoder == "public" else None

    def model() -> DPWGAN:
        return small(
            rate=RATE, preset=preset, autoencoder=autoencoder, public=public, random_state=4
        )

    tape, seen = fitted(frame(60), model(), tmp_path)
    more = pd.concat([frame(60), frame(6, seed=5)], ignore_index=True)
    again, replayed = fitted(more, model(), tmp_path, tape)
    same(seen, replayed)
    assert tape.divisors == again.divisors
    private = tape.divisors[-8:]
    assert len(set(private)) == 1


def test_declared_rows_are_the_divisor(tmp_path: Path) -> None:
    """R14: rows= takes the place of the measured count, wherever a number of rows is used."""
    for preset in ("default", "source"):
        model = small(rate=RATE, rows=500, preset=preset, random_state=4)
        tape, seen = fitted(frame(60), model, tmp_path)
        assert set(tape.divisors) == {100}
        listed = [item["purpose"] for item in seen["certificate"]["mechanisms"]]
        assert ("row count" in listed) is False
        assert seen["certificate"]["public"]["rows"] == 500


@pytest.mark.parametrize("edge", [row("x", -1), row("x", 21), row("new"), row("x", 3, 1.0001)])
def test_domain_does_not_follow_the_rows(edge: pd.DataFrame) -> None:
    """R12: a row past the bounds or outside the categories changes neither layout nor spends."""
    plain, edged = small(random_state=0), small(random_state=0)
    plain.fit(frame(30))
    edged.fit(pd.concat([frame(30), edge], ignore_index=True))
    for one, other in zip(plain.encoder_.layout.blocks, edged.encoder_.layout.blocks, strict=True):
        assert (one.column, one.start, one.stop, one.head) == (
            other.column,
            other.start,
            other.stop,
            other.head,
        )
        np.testing.assert_array_equal(one.codebook, other.codebook)
    assert facts(plain)["mechanisms"] == facts(edged)["mechanisms"]
    encoder = TableEncoder(SCHEMA)
    both = encoder.to_index(pd.concat([frame(30), edge], ignore_index=True))
    np.testing.assert_array_equal(both[:-1], encoder.to_index(frame(30)))


def test_the_generator_step_reads_no_row() -> None:
    """R8: with the critic's gradients frozen at zero the table is irrelevant."""
    found = []
    for table in (frame(40), frame(55, seed=8)):
        with pytest.MonkeyPatch.context() as patch:

            def zero(step: DPSGD, *_: Any, **__: Any) -> None:
                step.table.read(step.account)
                for p in step.clipper.parameters:
                    p.grad = torch.zeros_like(p)

            patch.setattr(DPSGD, "gradient", zero)
            patch.setattr(dpwgan, "noisy_marginals", lambda *a: [np.ones(s) * 10 for s in a[2]])
            model = small(random_state=0, wgan_config=wgan(), autoencoder_config=coder())
            model.fit(table)
        found.append([w.numpy().tobytes() for w in model.trained_.weights().values()])
    assert found[0] == found[1]
