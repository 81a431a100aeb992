"""R1, R8, R12, R14, R18: a fit is a function of what its mechanisms released, and of nothing else.

A fit on D is recorded: every noisy count and noisy gradient. It is replayed on a neighbour D′ with
the same coins for each record and the recorded outputs frozen. All that comes out must be the same to
the bit, and what goes into each mechanism may differ by its sensitivity at most.
"""

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from fitted_tables import SCHEMA, coder, facts, frame, row, small, small_dpgan, wgan
from replays import fitted, moved, same

from tabsynth import DPWGAN
from tabsynth.encoding import TableEncoder
from tabsynth.synthesizers import counting
from tabsynth.synthesizers.base import Synthesizer
from tabsynth.training.private_step import PrivateStep

torch.set_num_threads(1)
RATE = 0.2


NEIGHBOURS = {
    "outlier": row("x", 20, 1.0),
    "clipped far outside": row("x", 10**6, -1e30),
    "category nobody else has": row("z", 3),
    "category nobody declared": row("unheard of", 3),
    "null": row("y", pd.NA),
}


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
    found = moved(tape, again)
    assert len(found) == 1 + 5 + 8 and max(found) <= 1 + 1e-4 and max(found) > 0.5


@pytest.fixture(scope="module")
def warm() -> DPWGAN:
    """A table of the same schema, released before."""
    return small(epsilon=1.0, random_state=8).fit(frame(60, seed=7))


# Each with the number of its mechanisms: counts, autoencoder, critic.
OTHERS: dict[str, tuple[Callable[[Any], Synthesizer], int]] = {
    "basic": (lambda _: small_dpgan(variant="basic", rate=RATE, rows=60), 8),
    "advanced": (lambda _: small_dpgan(rate=RATE), 1 + 8),
    "clusters": (lambda _: small_dpgan(rate=RATE, config={"grouping": "clusters"}), 1 + 8),
    "ganobfuscator": (lambda _: small_dpgan(variant="ganobfuscator", rate=RATE), 1 + 8),
    "adaptive pace": (
        lambda _: small_dpgan(rate=RATE, config={"critic_per_generator": "adaptive"}),
        1 + 8,
    ),
    "bam": (lambda _: small_dpgan(rate=RATE, config={"step_rule": "bam"}), 1 + 8),
    "bam, basic": (
        lambda _: small_dpgan(variant="basic", rate=RATE, rows=60, config={"step_rule": "bam"}),
        8,
    ),
    "dp-sat": (lambda _: small_dpgan(rate=RATE, config={"step_rule": "dp-sat"}), 1 + 8),
    "public, overlap counted": (
        lambda _: small_dpgan(
            rate=RATE, public=frame(25, seed=3), provenance="made up", overlap="charged"
        ),
        1 + 1 + 8,
    ),
    "warm start": (lambda w: small_dpgan(rate=RATE, warm_start=w, rows=60), 8),
    # The autoencoder takes steps too, on rows that cost nothing.
    "warm start of DPWGAN": (
        lambda w: small(rate=RATE, warm_start=w, rows=60, autoencoder="public"),
        5 + 8,
    ),
    "DPWGAN by BAM and DP-SAT": (
        lambda _: small(
            wgan_config=wgan(RATE, step_rule="bam"),
            autoencoder_config=coder(RATE, step_rule="dp-sat"),
        ),
        1 + 5 + 8,
    ),
}


@pytest.mark.parametrize("name", OTHERS)
def test_replay_of_the_other_systems(name: str, warm: DPWGAN, tmp_path: Path) -> None:
    """R1, R2, R9, R10: variants, step rules, groups, public tables and warm starts."""
    build, mechanisms = OTHERS[name]
    more = pd.concat([frame(60), NEIGHBOURS["outlier"]], ignore_index=True)
    tape, seen = fitted(frame(60), build(warm).set_params(random_state=2), tmp_path)
    again, replayed = fitted(more, build(warm).set_params(random_state=2), tmp_path, tape)
    same(seen, replayed)
    assert tape.divisors == again.divisors
    found = moved(tape, again)
    assert len(found) == mechanisms and max(found) <= 1 + 1e-4 and max(found) > 0.2


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
            rate=RATE,
            preset=preset,
            autoencoder=autoencoder,
            public=public,
            provenance=None if public is None else "made up",
            random_state=4,
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

            def zero(step: PrivateStep, *_: Any, **__: Any) -> None:
                step.table.read(step.account)
                for p in step.clipper.parameters:
                    p.grad = torch.zeros_like(p)

            patch.setattr(PrivateStep, "gradient", zero)
            patch.setattr(counting, "noisy_marginals", lambda *a: [np.ones(s) * 10 for s in a[2]])
            model = small(random_state=0, wgan_config=wgan(), autoencoder_config=coder())
            model.fit(table)
        found.append([w.numpy().tobytes() for w in model.trained_.weights().values()])
    assert found[0] == found[1]
