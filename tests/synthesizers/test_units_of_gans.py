"""GANs and PATE under a unit: its counts, its teacher, and what is refused.

The private steps are tested in tests/training/test_unit_steps.py, replays are in tests/audit.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from fitted_tables import SCHEMA, frame, small, small_acgan, small_dpgan, small_pate

from tabsynth import Schema
from tabsynth.errors import InputError
from tabsynth.synthesizers.estimator import Synthesizer
from tabsynth.synthesizers.pate.rounds import deal
from tabsynth.training.private_step import WeightedInputs, codes_of
from tabsynth.training.units import MOST_ROWS, UnitRows

torch.set_num_threads(1)
MOST = 3


def schema(most: int = MOST, weight: bool = False) -> Schema:
    facts = {**SCHEMA.to_dict(), "unit": {"column": "who", "max_rows": most}}
    if weight:
        facts["weight"] = {"column": "w", "max": 4.0}
    return Schema.from_dict(facts)


def visits(rows: int = 60, weight: bool = False) -> pd.DataFrame:
    rng = np.random.default_rng(5)
    table = frame(rows).assign(who=rng.integers(0, rows // 2, rows))
    return table.assign(w=rng.uniform(0, 6, rows)) if weight else table


MODELS: dict[str, Callable[..., Synthesizer]] = {
    "dp-wgan": small,
    "dp-gan": small_dpgan,
    "pate-gan": small_pate,
    "pate-acgan": small_acgan,
}


@pytest.mark.slow
@pytest.mark.parametrize("weight", [False, True])
@pytest.mark.parametrize("method", MODELS)
def test_fits_under_a_unit(method: str, weight: bool) -> None:
    """Neither unit nor weight is sampled; the certificate names the unit, and counts have its sensitivity."""
    declared = schema(weight=weight)
    model = MODELS[method](declared).fit(visits(weight=weight))
    assert list(model.sample(7).columns) == list(SCHEMA.names)
    certificate = model.certificate()
    assert certificate["epsilon"] <= 3.0 and "'who'" in certificate["statement"]
    of = {item["purpose"]: item["sensitivity"]["value"] for item in certificate["mechanisms"]}
    bound = MOST * (4.0 if weight else 1.0)
    assert declared.design.bound == bound
    assert of["one-way counts"] == pytest.approx(bound * math.sqrt(len(SCHEMA.names)))
    if method.startswith("pate"):
        votes = next(item for item in certificate["mechanisms"] if item["purpose"] == "votes")
        assert of["votes"] == 1 and "unit with all of its records" in str(votes)


def test_counts_of_rows_have_the_noise_of_a_unit() -> None:
    """Where there are no one-way counts: the number of rows."""
    model = small(
        schema(),
        preset="source",
        autoencoder=None,
        network_encoding="one-hot",
    ).fit(visits())
    of = {item["purpose"]: item for item in model.certificate()["mechanisms"]}
    assert of["row count"]["sensitivity"]["value"] == MOST
    ratio = of["row count"]["noise_added"]["standard_deviation"] / MOST
    assert ratio == pytest.approx(of["row count"]["noise_multiplier"])


@pytest.mark.parametrize(
    ("model", "what"),
    [
        (small(schema(MOST_ROWS + 1)), "max_rows_per_unit"),
        (small_pate(schema(MOST_ROWS + 1), autoencoder="dp-sgd"), "max_rows_per_unit"),
    ],
)
def test_what_private_steps_cannot_do_is_refused(model: Synthesizer, what: str) -> None:
    with pytest.raises(InputError, match=what) as refusal:
        model.fit(visits())
    assert "\n" not in str(refusal.value)
    assert not hasattr(model, "ledger_") or not model.ledger_.spends()


def test_what_needs_no_private_step_takes_more_rows() -> None:
    """Teachers do."""
    small_pate(schema(MOST_ROWS + 1), autoencoder=None).plan(estimate_time=False)
    with pytest.raises(InputError, match="leave the autoencoder out, or fit margnet"):
        small_pate(schema(MOST_ROWS + 1)).plan(estimate_time=False)


def test_a_trial_of_made_up_rows_takes_units() -> None:
    plan = small(schema(), rows=60).plan()
    assert plan.seconds is not None and plan.seconds > 0


Shards = list[list[tuple[float, ...]]]


def shards_of(inputs: Any, units: np.ndarray, key: np.ndarray, teachers: int = 7) -> Shards:
    rows, shard = deal(UnitRows(inputs, units, 5), teachers, key)
    parts: Shards = [[] for _ in range(teachers)]
    for row, teacher in zip(codes_of(rows).tolist(), shard.tolist(), strict=True):
        parts[teacher].append(tuple(row))
    return parts


@pytest.mark.parametrize("weighted", [False, True])
def test_a_unit_is_of_one_teacher(weighted: bool) -> None:
    """R15: all its rows; and a unit more or less changes the shard of this teacher alone, others not in order either."""
    rng, key = np.random.default_rng(1), np.arange(16, dtype=np.uint32)
    units = rng.integers(0, 2**63, 120).astype(np.uint64)[rng.integers(0, 120, 300)]
    cells = rng.integers(0, 3, (300, 2))
    codes = torch.from_numpy(np.column_stack([cells, units % 2**20])).float()
    parts = torch.from_numpy(rng.random(300))

    def inputs(kept: np.ndarray) -> Any:
        chosen = torch.from_numpy(kept)
        return WeightedInputs(codes[chosen], parts[chosen]) if weighted else codes[chosen]

    whole = shards_of(inputs(np.ones(300, dtype=bool)), units, key)
    owners = [{row[2] for row in shard} for shard in whole]
    assert sum(map(len, owners)) == len(set().union(*owners)) == len(np.unique(units))
    for unit in np.unique(units)[:12]:
        kept = units != unit
        fewer = shards_of(inputs(kept), units[kept], key)
        changed = [(a, b) for a, b in zip(whole, fewer, strict=True) if a != b]
        ((one, other),) = changed
        assert [row for row in one if row[2] != np.float32(unit % 2**20)] == other
        assert len(one) - len(other) == (~kept).sum()
    # The order of the table is nothing to them, nor what the units' names are hashed to.
    order = rng.permutation(300)
    moved = WeightedInputs(codes[order], parts[order]) if weighted else codes[order]
    renamed = np.unique(units, return_inverse=True)[1].astype(np.uint64) ^ np.uint64(12345)
    assert shards_of(moved, units[order], key) == whole
    assert shards_of(moved, renamed[order], key) == whole


def test_units_that_are_equal_are_dealt_apart() -> None:
    """R15: by their number among equals; the law is uniform."""
    key = np.arange(16, dtype=np.uint32)
    units = np.repeat(np.arange(5000), 2).astype(np.uint64)
    rows, shard = deal(UnitRows(torch.zeros(10_000, 1), units, 2), 10, key)
    counts = torch.bincount(shard, minlength=10)
    assert (counts % 2 == 0).all() and len(codes_of(rows)) == 10_000
    assert (counts / 2 - 500).abs().max() < 4.5 * (5000 * 0.09) ** 0.5
    fewer = torch.bincount(deal(UnitRows(torch.zeros(9998, 1), units[2:], 2), 10, key)[1])
    assert sorted((counts - fewer).tolist()) == [0] * 9 + [2]
