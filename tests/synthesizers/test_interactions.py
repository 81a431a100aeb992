"""Interactions of three columns that no pair shows: what coarse counts of triples find, cost and decide (R1, R7, R12, R19)."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tabsynth import Column, MargNet, Schema
from tabsynth.privacy.ledger.ledger import PrivateTable
from tabsynth.privacy.noise.counts import Measured, NoisyCounts, number_of
from tabsynth.synthesizers.margnet.config import MargNetConfig
from tabsynth.synthesizers.margnet.interactions import (
    clear_groups,
    few_groups,
    from_pairs,
    interaction,
)
from tabsynth.synthesizers.margnet.measurement import INTERACTIONS, stages

STAGES = ["one-way counts", INTERACTIONS, "joint counts"]
SIZES = (2, 2, 2, 30, 30)
SCHEMA = Schema(
    [
        Column(name=f"c{j}", kind="ordinal", dtype="int64", categories=tuple(range(size)))
        for j, size in enumerate(SIZES)
    ]
)


def table(related: bool, rows: int = 3000, seed: int = 0) -> pd.DataFrame:
    """Independent columns; if ``related``, the third is the exclusive or of the first two."""
    rng = np.random.default_rng(seed)
    columns = [rng.integers(size, size=rows) for size in SIZES]
    if related:
        columns[2] = columns[0] ^ columns[1]
    return pd.DataFrame({f"c{j}": values for j, values in enumerate(columns)})


def small(**changes: Any) -> MargNet:
    """A fit in which only the coarse counts can choose triples."""
    parameters = {"components": 20, "latent_dim": 5, "hidden": (8,), "steps": 3}
    parameters |= {"triples_noise": 0.0, "interactions_share": 0.05}
    config = MargNetConfig(**{**parameters, **changes})  # type: ignore[arg-type]
    return MargNet(SCHEMA, epsilon=1.0, random_state=0, config=config)


def triples_of(model: MargNet) -> list[tuple[int, ...]]:
    assert model.trained_.measured is not None
    return [m.columns for m in model.trained_.measured.counts if len(m.columns) == 3]


def sum_modulo(k: int, rows: float) -> np.ndarray:
    """Counts of two even columns and their sum modulo k."""
    counts = np.zeros((k, k, k))
    for a, b in np.ndindex(k, k):
        counts[a, b, (a + b) % k] = rows / k**2
    return counts


def test_what_pairs_show_is_no_interaction() -> None:
    """A log-linear model of pairs alone is its own fit, and has no interaction; the sums of pairs are kept."""
    rng = np.random.default_rng(0)
    ab, ac, bc = (rng.uniform(0.5, 1.5, (3, 3)) for _ in range(3))
    counts = ab[:, :, None] * ac[:, None, :] * bc[None]
    counts *= 1000 / counts.sum()
    np.testing.assert_allclose(from_pairs(counts, 1000.0), counts, rtol=1e-6)
    with_sum = counts + sum_modulo(3, 200.0)
    fitted = from_pairs(with_sum, 1200.0)
    for axis in range(3):
        np.testing.assert_allclose(fitted.sum(axis), with_sum.sum(axis), rtol=1e-6)
    even = [np.full(3, 1 / 3)] * 3
    assert interaction(Measured((0, 1, 2), counts, 0.0), even, 1000.0, 0.0) == 0


@pytest.mark.parametrize("k", [2, 3, 4])
def test_the_size_of_an_exclusive_or(k: int) -> None:
    """A sum modulo k is 2(1 - 1/k) from independent columns, in L1 and shares; the estimate assumes a Gaussian difference."""
    measured = Measured((0, 1, 2), sum_modulo(k, 1e6), 0.0)
    size = interaction(measured, [np.full(k, 1 / k)] * 3, 1e6, 10.0) / 1e6
    assert size == pytest.approx(math.sqrt(2 / math.pi * (k - 1)), rel=1e-3)
    assert 0.75 < size / (2 * (1 - 1 / k)) < 1


@pytest.mark.parametrize("k", [2, 4])
def test_noise_is_rarely_clear_and_a_relation_is(k: int) -> None:
    """With the noise of 120 triples at ε = 1 and 20,000 rows, in which a tenth of the rows do not follow the relation."""
    rng = np.random.default_rng(k)
    even, rows, std = [np.full(k, 1 / k)] * 3, 20_000.0, 289.0
    independent = np.full((k, k, k), rows / k**3)
    related = 0.9 * sum_modulo(k, rows) + 0.1 * independent

    def clear(counts: np.ndarray) -> float:
        drawn = [counts + std * rng.standard_normal(counts.shape) for _ in range(300)]
        sizes = [interaction(Measured((0, 1, 2), c, std), even, rows, 10.0) for c in drawn]
        return float(np.mean(np.array(sizes) > 0))

    assert clear(independent) <= 0.01
    assert clear(related) == 1


@settings(max_examples=60, deadline=None)
@given(
    weights=st.lists(st.floats(0.001, 1), min_size=1, max_size=40),
    most=st.integers(2, 6),
)
def test_few_groups(weights: list[float], most: int) -> None:
    """Neighbours, at most so many groups, none empty; few values stay by themselves."""
    (groups,) = few_groups([np.array(weights) / sum(weights)], most)
    assert groups[0] == 0 and set(np.diff(groups)) <= {0, 1}
    assert number_of(groups) <= most
    if len(weights) <= most:
        assert number_of(groups) == len(weights)


def test_fewer_groups_where_noise_is_high() -> None:
    assert clear_groups(20_000, 1.0, 4, 10.0) == 4
    assert clear_groups(20_000, 289.0, 4, 10.0) == 4
    assert clear_groups(20_000, 753.0, 4, 10.0) == 2
    assert clear_groups(20_000, math.inf, 4, 10.0) == 2


def test_the_stage_follows_from_the_schema() -> None:
    """R12: by the share and the number of columns; its share is taken from the joint counts."""
    by_default, asked = (stages(SCHEMA, MargNetConfig(interactions_share=s)) for s in (0.0, 0.05))
    assert MargNetConfig().interactions_share == 0 and INTERACTIONS not in by_default
    assert list(asked) == STAGES
    assert math.fsum(asked.values()) == pytest.approx(1)
    assert by_default["joint counts"] - asked["joint counts"] == pytest.approx(0.05)
    limited = MargNetConfig(interactions_share=0.05, max_interactions=9)  # five columns have 10
    assert INTERACTIONS not in stages(SCHEMA, limited)


def test_an_exclusive_or_is_counted_and_charged(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """R1, R7: each stage reads once and is in the certificate; the triple is counted, with its pairs."""
    real, reads = PrivateTable.read, []

    def read(self: Any, account: Any, uses: int = 1) -> Any:
        reads.append(account.purpose)
        return real(self, account, uses)

    monkeypatch.setattr(PrivateTable, "read", read)
    model = small()
    planned = model.plan(estimate_time=False)
    model.fit(table(related=True), checkpoint=tmp_path / "checkpoint")
    certificate = model.certificate()
    listed = [(m["purpose"], m["count"]) for m in certificate["mechanisms"]]
    assert listed == [(purpose, 1) for purpose in STAGES] and reads == STAGES
    assert certificate["epsilon"] == planned.epsilon == pytest.approx(1.0)
    assert certificate["mechanisms"][1]["details"]["triples"] == 10
    assert triples_of(model) == [(0, 1, 2)]
    assert triples_of(small().fit(table(related=False))) == []
    assert triples_of(small(interactions_share=0.0).fit(table(related=True))) == []


def test_a_triple_whose_pairs_are_not_worth_counting() -> None:
    """Where pairs are scored, those of an exclusive or are counted with it."""
    model = small(max_unscored=0).fit(table(related=True))
    assert model.trained_.measured is not None
    counted = [m.columns for m in model.trained_.measured.counts]
    assert {(0, 1), (0, 2), (1, 2), (0, 1, 2)} <= set(counted)


def test_no_triple_is_charged_all_the_same() -> None:
    """A charge must not follow from a release: groups of values, which do, may leave no triple within the limit of cells."""
    model = small(max_cells=3).fit(table(related=True))
    mechanisms = {m["purpose"]: m for m in model.certificate()["mechanisms"]}
    assert mechanisms[INTERACTIONS]["count"] == 1
    assert mechanisms[INTERACTIONS]["details"]["triples"] == 0
    assert triples_of(model) == []


def test_frozen_counts_freeze_the_choice_of_triples() -> None:
    """R19: two tables of different relations, the same noisy counts: the same sets are counted, in the same groups."""
    seen = []
    for related in (True, False):
        asked: list[Any] = []

        def measure(
            self: Any,
            account: Any,
            sets: Any,
            shares: Any,
            bits: Any,
            groups: Any,
            asked: Any = asked,
        ) -> list[Measured]:
            self.table.read(account)
            asked.append((sets, [[g.tolist() for g in by] for by in groups]))
            sizes = [[number_of(by[j]) for j in s] for s, by in zip(sets, groups, strict=True)]
            return [
                Measured(tuple(s), np.full(size, 3000 / math.prod(size)), 5.0)
                for s, size in zip(sets, sizes, strict=True)
            ]

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(NoisyCounts, "measure", measure)
            small().fit(table(related))
        seen.append(asked)
    assert len(seen[0]) == len(STAGES)
    assert seen[0] == seen[1]
