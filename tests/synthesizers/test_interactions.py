"""Interactions of three columns that no pair shows: what sign interactions find, cost and decide (R1, R7, R12, R19)."""

import math
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from fitted_tables import fixed_counts
from hypothesis import given, settings
from hypothesis import strategies as st
from record_replay import neighbours, replay
from systems import make_tiny_model

from tabsynth import MargNet, Schema
from tabsynth.privacy.accounting.mechanisms import Gaussian
from tabsynth.privacy.ledger.ledger import Ledger, PrivateTable
from tabsynth.privacy.noise.counts import Measured, NoisyCounts
from tabsynth.schema import Column
from tabsynth.synthesizers.margnet import selection
from tabsynth.synthesizers.margnet.config import MargNetConfig
from tabsynth.synthesizers.margnet.measurement import INTERACTIONS, Task
from tabsynth.synthesizers.margnet.selection import (
    from_pairs,
    interactions,
    noise_of_pairs,
    sign_codes,
)

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


@pytest.fixture(autouse=True)
def _triples_chosen_by_signs_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selection, "TRIPLES_NOISE", 0.0)


def small(**changes: Any) -> MargNet:
    """A fit in which only the signs can choose triples."""
    parameters = {"components": 20, "latent_dim": 5, "hidden": (8,), "steps": 3}
    parameters |= {"interactions_share": 0.05}
    config = MargNetConfig(**{**parameters, **changes})  # type: ignore[arg-type]
    return MargNet(SCHEMA, epsilon=1.0, random_state=0, config=config)


def triples_of(model: MargNet) -> list[tuple[int, ...]]:
    assert model.model_.measured is not None
    return [m.columns for m in model.model_.measured.counts if len(m.columns) == 3]


def sum_modulo(k: int) -> np.ndarray:
    """The law of two even columns and their sum modulo k."""
    law = np.zeros((k, k, k))
    for a, b in np.ndindex(k, k):
        law[a, b, (a + b) % k] = 1 / k**2
    return law


def sums_of(law: np.ndarray, signs: list[np.ndarray], rows: float = 1.0) -> dict[Any, np.ndarray]:
    """Expected sums of products of signs of a law of several columns, by hand: of its pairs and triples."""
    sums = {}
    for columns in [s for m in (2, 3) for s in combinations(range(law.ndim), m)]:
        sums[columns] = np.zeros(len(signs[0]))
        for cell in np.ndindex(law.shape):
            products = np.prod([signs[j][:, cell[j]] for j in columns], axis=0)
            sums[columns] += rows * law[cell] * products
    return sums


def means_of(law: np.ndarray, signs: list[np.ndarray]) -> list[np.ndarray]:
    axes = range(law.ndim)
    return [of @ law.sum(tuple(a for a in axes if a != j)) for j, of in enumerate(signs)]


def fitted(law: np.ndarray) -> np.ndarray:
    """The law of most entropy with the same pairs, by iterative proportional fitting."""
    result = np.full(law.shape, 1 / law.size)
    for _ in range(2000):
        for axis in range(3):
            result *= np.expand_dims(law.sum(axis) / result.sum(axis), axis)
    return result


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_what_pairs_show_is_no_interaction(seed: int) -> None:
    """The mean product that pairs leave is that of iterative proportional fitting."""
    law = np.random.default_rng(seed).uniform(0.01, 1, (2, 2, 2))
    law /= law.sum()
    signs = [np.array([[1.0, -1.0]])] * 3

    def moments(of: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
        sums = sums_of(of, signs)
        twos = np.array([sums[pair][0] for pair in combinations(range(3), 2)])
        return np.concatenate(means_of(of, signs)), twos, float(sums[0, 1, 2][0])

    ones, twos, three = moments(fitted(law))
    assert from_pairs(ones, twos) == pytest.approx(three, abs=1e-6)
    several = from_pairs(np.tile(ones, (4, 2, 1)), np.tile(twos, (4, 2, 1)))
    assert several == pytest.approx(np.full((4, 2), three), abs=1e-6)


def test_pairs_that_no_table_has() -> None:
    """Noise may contradict itself: the result is a mean of signs."""
    for twos in ([1.2, 1.2, -1.2], [3.0, -3.0, 3.0], [-0.9, -0.9, -0.9]):
        assert abs(from_pairs(np.zeros(3), np.array(twos))) <= 1


@pytest.mark.parametrize("std", [0.01, 0.1, 0.4])
def test_the_noise_that_pairs_pass_on(std: float) -> None:
    """Of columns that depend on each other, some of whose cells are nearly empty: not far below what draws show."""
    rng = np.random.default_rng(0)
    signs = np.array(list(np.ndindex(2, 2, 2))).T * -2.0 + 1
    products = np.array([signs[a] * signs[b] for a, b in combinations(range(3), 2)])
    law = np.exp(rng.normal(size=(2000, 3)) @ signs + rng.normal(0, 1.5, (2000, 3)) @ products)
    law /= law.sum(-1, keepdims=True)
    ones, twos = law @ signs.T, law @ products.T
    exact = law @ signs.prod(0)
    noisy = twos + std * rng.standard_normal(twos.shape)
    error = from_pairs(ones, noisy) - exact
    stated = np.hypot(std, noise_of_pairs(ones, noisy, std))
    z = (error + std * rng.standard_normal(2000)) / stated
    assert 0.6 < z.std() < 1.1 and (np.abs(z) > 5).mean() < 0.002


def test_the_noise_of_even_columns_comes_from_their_sum_alone() -> None:
    """Products of pairs of even columns tell nothing of that of all three, to first order."""
    assert noise_of_pairs(np.zeros(3), np.zeros(3), 0.1) == pytest.approx(0, abs=1e-6)


def test_codes_of_few_and_many_values() -> None:
    even = [np.full(size, 1 / size) for size in (1, 2, 3, 4, 8)]
    shown = [
        "/".join("".join("-+"[int(s > 0)] for s in code) for code in sign_codes(e)) for e in even
    ]
    assert shown == [
        "+/+/+", "+-/+-/+-", "++-/+--/+-+", "++--/+--+/+-+-", "++++----/++----++/+-+-+-+-",
    ]  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(weights=st.lists(st.floats(0.001, 1), min_size=5, max_size=40))
def test_groups_of_codes_are_of_neighbours_with_even_shares(weights: list[float]) -> None:
    """Low and high values: no value more or less makes the shares more even by more than its own share."""
    share = np.array(weights) / sum(weights)
    low, outer, parity = sign_codes(share)
    assert set(np.diff(low)) <= {0, -2} and (np.diff(outer) != 0).sum() <= 2
    assert (parity == 1 - 2 * (np.arange(len(share)) % 2)).all()
    border = int((low > 0).sum())
    if 0 < border < len(share):
        beside = max(share[border - 1], share[border])
        assert abs(low @ share) <= 2 * beside + 1e-9


@pytest.mark.parametrize("k", [2, 3, 4, 8])
def test_the_size_of_a_sum_modulo_k(k: int) -> None:
    """Without noise: the largest coefficient by hand, which is no more than the distance from independence, 2(1 - 1/k)."""
    law, signs = sum_modulo(k), [sign_codes(np.full(k, 1 / k))] * 3
    sums = sums_of(law, signs, 1e6)
    found = interactions(sums, 0.0, means_of(law, signs), 1e6, 5.0, 0.1)
    independent = np.einsum("a,b,c->abc", *[law.sum((1, 2)), law.sum((0, 2)), law.sum((0, 1))])
    by_chance = sums_of(independent, signs, 1e6)[0, 1, 2]
    assert list(found) == [(0, 1, 2)]
    assert found[0, 1, 2] == pytest.approx(np.abs(sums[0, 1, 2] - by_chance).max())
    assert 0.5 < found[0, 1, 2] / 1e6 <= 2 * (1 - 1 / k) + 1e-9
    assert interactions(sums, 0.0, means_of(law, signs), 1e6, 5.0, 0.5001) == {}


@pytest.mark.parametrize("k", [2, 3, 4])
def test_noise_is_rarely_clear_and_a_relation_is(k: int) -> None:
    """With the noise of 10 columns at ε = 1 and 20,000 rows, in which a tenth of the rows do not follow the relation."""
    rng = np.random.default_rng(k)
    signs, rows, std = [sign_codes(np.full(k, 1 / k))] * 3, 20_000.0, 1174.0
    independent = np.full((k, k, k), 1 / k**3)

    def clear(law: np.ndarray) -> float:
        exact, means = sums_of(law, signs, rows), means_of(law, signs)
        found = 0
        for _ in range(80):
            noisy = {s: sums + std * rng.standard_normal(sums.shape) for s, sums in exact.items()}
            found += len(interactions(noisy, std, means, rows, 5.0, 0.1))
        return found / 80

    assert clear(independent) == 0
    assert clear(0.9 * sum_modulo(k) + 0.1 * independent) >= 0.95


def test_the_sums_have_the_noise_that_is_charged() -> None:
    """R2, R4: sums by hand; a record moves each by 1; √sums σ of noise on each."""
    rng = np.random.default_rng(1)
    sizes, sets = (2, 3, 5), [(0, 1), (0, 2), (1, 2), (0, 1, 2)]
    signs = [sign_codes(np.full(size, 1 / size)) for size in sizes]
    index = np.stack([rng.integers(size, size=40) for size in sizes], axis=1)

    def released(rows: np.ndarray, seed: int, sigma: float) -> np.ndarray:
        ledger = Ledger(math.inf, 1e-5)
        account = ledger.open("signs", Gaussian(noise_multiplier=sigma), 1)
        counts = NoisyCounts(PrivateTable(rows, ledger), sizes)
        sums, of_wide = counts.contrasts(
            account, sets, signs, np.random.default_rng(seed), [(0, 1, 2), (1, 2)]
        )
        return np.concatenate([sums.ravel(), of_wide])

    exact = released(index, 0, 1e-12)
    products = [(s, r) for s in sets for r in range(3)] + [((0, 1, 2), 0), ((1, 2), 0)]
    assert exact.tolist() == [
        sum(np.prod([signs[j][r, row[j]] for j in s]) for row in index) for s, r in products
    ]
    for more in np.ndindex(*sizes):
        moved = released(np.vstack([index, more]), 0, 1e-12) - exact
        assert (np.abs(moved) == 1).all()
    noise = np.array([released(index, seed, 20.0) - exact for seed in range(3000)])
    assert noise.std() == pytest.approx(20 * math.sqrt(14), rel=0.03)
    assert np.abs(np.corrcoef(noise.T) - np.eye(14)).max() < 0.09


def test_the_stage_follows_from_the_schema(monkeypatch: pytest.MonkeyPatch) -> None:
    """R12: by the share and the number of columns; its share is taken from the joint counts."""

    def stages(**settings: float) -> dict[str, float]:
        return Task(domain=SCHEMA, config=MargNetConfig(**settings)).stages

    without, with_signs = (stages(interactions_share=share) for share in (0.0, 0.05))
    assert INTERACTIONS not in without
    assert list(with_signs) == list(stages()) == STAGES
    assert math.fsum(with_signs.values()) == pytest.approx(1)
    # Six sets of four and five columns: 500 double the share.
    share = 0.05 * (1 + 6 / 500)
    assert with_signs[INTERACTIONS] == pytest.approx(share)
    assert without["joint counts"] - with_signs["joint counts"] == pytest.approx(share)
    monkeypatch.setattr(selection, "MAX_SUMS", 59)  # three for each of ten pairs and ten triples
    assert INTERACTIONS not in stages(interactions_share=0.05)


def test_an_exclusive_or_is_counted_and_charged(reads: list[str], tmp_path: Path) -> None:
    """R1, R7: each stage reads once and is in the certificate; the triple is counted, with its pairs."""
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


def test_no_triple_is_charged_all_the_same() -> None:
    """A charge must not follow from a release: groups of values, which do, may leave no triple within the limit of cells."""
    model = small(max_cells=3).fit(table(related=True))
    mechanisms = {m["purpose"]: m for m in model.certificate()["mechanisms"]}
    assert mechanisms[INTERACTIONS]["count"] == 1
    assert mechanisms[INTERACTIONS]["details"]["triples"] == 0
    assert triples_of(model) == []


def test_all_pairs_of_the_columns_of_a_triple_are_counted() -> None:
    """Where pairs are scored, too: those of an exclusive or with other columns, which are independent of it."""
    model = small(max_unscored=0).fit(table(related=True))
    assert model.model_.measured is not None
    counted = {m.columns for m in model.model_.measured.counts}
    assert (0, 1, 2) in counted
    assert {pair for pair in combinations(range(5), 2) if pair != (3, 4)} <= counted


def test_the_rows_of_a_unit_move_the_sums_by_its_bound() -> None:
    """R2: a unit of many rows has the weight of as many as its bound, and the noise is that of the bound."""
    rng = np.random.default_rng(0)
    schema = Schema(SCHEMA.columns, unit="person", max_rows_per_unit=3)
    frame = table(related=False).assign(person=[str(i) for i in rng.integers(1500, size=3000)])
    config = MargNetConfig(components=5, steps=1)
    seen: list[tuple[np.ndarray, float]] = []
    original = NoisyCounts.contrasts

    def contrasts(self: Any, account: Any, *more: Any) -> tuple[np.ndarray, np.ndarray]:
        assert self.bound == 3
        sums = original(self, account, *more)
        seen.append((np.concatenate([sums[0].ravel(), sums[1]]), account.noise_multiplier))
        return sums

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(NoisyCounts, "contrasts", contrasts)
        MargNet(schema, epsilon=1.0, random_state=0, config=config).fit(frame)
    ((sums, noise),) = seen
    spread = 3 * noise * math.sqrt(sums.size)  # what independent columns add is a tenth of it
    assert 0.7 * spread < np.sqrt(np.square(sums).mean()) < 1.4 * spread


def test_the_codes_follow_from_noisy_counts() -> None:
    """R12: with the same one-way counts, the codes of two tables are the same, however their values are spread."""
    seen: list[Any] = []
    spread, original = table(related=False), NoisyCounts.measure
    for frame in (spread, spread.assign(c3=spread["c3"] // 4, c4=29 - spread["c4"] // 3)):
        noisy: list[Measured] = []

        def measure(self: Any, account: Any, sets: Any, *more: Any, noisy: Any = noisy) -> Any:
            result = original(self, account, sets, *more)
            if len(sets[0]) > 1 or noisy:
                return result
            noisy += [
                Measured(m.columns, np.full(m.counts.shape, 3000 / m.counts.size), m.std)
                for m in result
            ]
            return noisy

        def contrasts(
            self: Any, account: Any, sets: Any, signs: Any, bits: Any, wide: Any
        ) -> tuple[np.ndarray, np.ndarray]:
            self.table.read(account)
            seen.append([of.tolist() for of in signs])
            return np.zeros((len(sets), len(signs[0]))), np.zeros(len(wide))

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(NoisyCounts, "measure", measure)
            patch.setattr(NoisyCounts, "contrasts", contrasts)
            small().fit(frame)
    assert len(seen) == 2 and seen[0] == seen[1]


def test_frozen_counts_freeze_the_choice_of_triples() -> None:
    """R19: two tables of different relations, the same noisy counts: the same sets are counted, in the same groups."""
    seen = []
    for related in (True, False):
        asked: list[Any] = []

        def contrasts(
            self: Any, account: Any, sets: Any, signs: Any, bits: Any, wide: Any, asked: Any = asked
        ) -> tuple[np.ndarray, np.ndarray]:
            self.table.read(account)
            asked.append((sets, wide, [of.tolist() for of in signs]))
            sums, of_wide = np.zeros((len(sets), 3)), np.zeros(len(wide))
            sums[sets.index((1, 2, 3))] = 2500.0
            of_wide[wide.index((0, 1, 3, 4))] = 2500.0
            return sums, of_wide

        with pytest.MonkeyPatch.context() as patch:
            fixed = fixed_counts(asked, lambda size: np.full(size, 3000 / math.prod(size)), 5.0)
            patch.setattr(NoisyCounts, "measure", fixed)
            patch.setattr(NoisyCounts, "contrasts", contrasts)
            asked.append(triples_of(small().fit(table(related))))
        seen.append(asked)
    assert len(seen[0]) == len(STAGES) + 1 and seen[0][-1] == [(1, 2, 3)]
    assert (0, 1, 3, 4) in seen[0][-2][0]
    assert seen[0] == seen[1]


@pytest.mark.parametrize("kind", ["outlier", "minority"])
def test_a_row_more_changes_releases_alone(kind: str) -> None:
    """R1: replayed on a neighbour, with triples chosen; the sums move by the sensitivity that is charged."""
    model = make_tiny_model("margnet, triples chosen by signs", SCHEMA, epsilon=2.0)
    frame = table(related=True, rows=150)
    pair = next(p for p in neighbours(frame, SCHEMA) if p.kind == kind)
    result = replay(model, pair.table, pair.neighbour, seed=1)
    assert result.passes, result.first_difference
    moves = {call.purpose: call.move for call in result.mechanisms}
    assert list(moves) == STAGES and moves[INTERACTIONS] == pytest.approx(1)
