"""Record and replay: a fit's mechanisms, taped on one table and played back on its neighbour."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from fitted_tables import facts

from tabsynth.generators import pate, row_losses
from tabsynth.privacy import noise
from tabsynth.synthesizers import counting
from tabsynth.synthesizers.base import Synthesizer
from tabsynth.training import private_step
from tabsynth.training.clipping import PerExampleClipper
from tabsynth.training.private_step import PrivateStep


@dataclass
class Tape:
    """What mechanisms were given (before noise) and what they released (after)."""

    inputs: list[tuple[float, np.ndarray]] = field(default_factory=list)  # (sensitivity, sum)
    outputs: list[Any] = field(default_factory=list)
    divisors: list[float] = field(default_factory=list)
    bounds: list[list[float]] = field(default_factory=list)
    votes: list[np.ndarray] = field(default_factory=list)  # clean counts of yes
    class_votes: list[np.ndarray] = field(default_factory=list)  # and of classes


class Recorder:
    """Stands between a fit and its mechanisms; with a tape it plays that back.

    Each record keeps its coins: the first 60 toss theirs for every batch and partner, by position; a
    record added after them has coins of its own.
    """

    def __init__(self, patch: pytest.MonkeyPatch, replay: Tape | None = None) -> None:
        self.tape = Tape()
        self.replay = list(replay.outputs) if replay else None
        self.tosses = 0
        self.private: torch.Generator | None = None
        self._counts(patch)
        self._steps(patch)
        self._votes(patch)

    def _toss(self, n: int, columns: int) -> torch.Tensor:
        self.tosses += 1
        drawn = torch.rand(100, columns, generator=torch.Generator().manual_seed(self.tosses))
        return drawn[:n]

    def _counts(self, patch: pytest.MonkeyPatch) -> None:
        originals = counting.noisy_marginals, counting.noisy_row_count, counting.noisy_overlap
        noisy = noise.noisy
        clean: list[np.ndarray] = []  # what is on its way to the noise

        def seen(values: Any, *rest: Any, **options: Any) -> Any:
            clean.append(np.array(values, dtype=float).ravel())
            return noisy(values, *rest, **options)

        def taped(sensitivity: float) -> None:
            self.tape.inputs.append((sensitivity, np.concatenate(clean)))
            clean.clear()

        def marginals(table: Any, account: Any, sizes: Any, bits: Any) -> Any:
            found = originals[0](table, account, sizes, bits)
            taped(len(sizes) ** 0.5)
            return self._out(found)

        def row_count(table: Any, account: Any, bits: Any) -> Any:
            found = originals[1](table, account, bits)
            clean.clear()
            return self._out(found)

        def overlap(table: Any, account: Any, public: Any, bits: Any) -> Any:
            found = originals[2](table, account, public, bits)
            taped(1.0)
            return self._out(found)

        patch.setattr(noise, "noisy", seen)
        patch.setattr(counting, "noisy_marginals", marginals)
        patch.setattr(counting, "noisy_row_count", row_count)
        patch.setattr(counting, "noisy_overlap", overlap)

    def _steps(self, patch: pytest.MonkeyPatch) -> None:
        originals = PrivateStep.gradient, PerExampleClipper.clipped_sum, row_losses.pair_draws

        def coins(n: int, rate: float, *_: Any) -> torch.Tensor:
            drawn = self._toss(n, 1)[:, 0]
            drawn[60:] = 0  # those past the 60th are always in
            return torch.nonzero(drawn < rate).squeeze(1)

        def pairs(rows: int, rng: torch.Generator) -> torch.Tensor:
            return self._toss(rows, 2) if rng is self.private else originals[2](rows, rng)

        def gradient(step: PrivateStep, *args: Any, **kwargs: Any) -> None:
            self.private = step.generator
            originals[0](step, *args, **kwargs)
            self.tape.divisors.append(step.expected_batch)
            found = self._out([p.grad.clone() for p in step.clipper.parameters])
            for parameter, value in zip(step.clipper.parameters, found, strict=True):
                parameter.grad = value.clone()
            if step._previous is not None:  # DP-SAT goes by what was released
                step._previous = [value.clone() for value in found]

        def sums(clipper: Any, losses: Any, rows: Any, bounds: Any, *rest: Any) -> Any:
            found, whole = originals[1](clipper, losses, rows, bounds, *rest)
            # In noise units: each group over its bound; together they move by √G at most.
            bounds = torch.as_tensor(bounds).expand(clipper.group_count)
            flat = [(f / bounds[j]).flatten() for f, j in zip(found, clipper.groups, strict=True)]
            self.tape.inputs.append((len(bounds) ** 0.5, torch.cat(flat).double().numpy()))
            self.tape.bounds.append(bounds.tolist())
            return found, whole

        patch.setattr(row_losses, "pair_draws", pairs)
        patch.setattr(PrivateStep, "gradient", gradient)
        patch.setattr(PerExampleClipper, "clipped_sum", sums)
        patch.setattr(private_step, "poisson_sample", coins)

    def _votes(self, patch: pytest.MonkeyPatch) -> None:
        originals = pate.majority, pate.Booth.classes

        def answers(counts: Any, mechanism: Any, rng: Any) -> Any:
            self.tape.votes.append(counts.copy())
            return self._out(originals[0](counts, mechanism, rng))

        def classes(booth: Any, votes: Any) -> Any:
            self.tape.class_votes.append(votes.numpy().copy())
            return self._out(originals[1](booth, votes))

        patch.setattr(pate, "majority", answers)
        patch.setattr(pate.Booth, "classes", classes)

    def _out(self, value: Any) -> Any:
        if self.replay is not None:
            value = self.replay.pop(0)
        self.tape.outputs.append(value)
        return value


def fitted(
    table: pd.DataFrame, model: Synthesizer, folder: Path, replay: Tape | None = None
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


def moved(tape: Tape, again: Tape) -> list[float]:
    """How far each mechanism's input moved, in its own sensitivity."""
    assert tape.bounds == again.bounds and len(tape.inputs) == len(again.inputs)
    return [
        float(np.linalg.norm(one - other)) / bound
        for (bound, one), (_, other) in zip(tape.inputs, again.inputs, strict=True)
    ]


def same(one: dict[str, Any], other: dict[str, Any]) -> None:
    for name in one:
        assert one[name] == other[name], name
