"""Tables of four and more columns: relations that signs show, and a target with several columns at once (R1, R2, R12, R19)."""

import copy
import json
import math
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from fitted_tables import fixed_counts
from record_replay import neighbours, replay
from systems import make_tiny_model

from tabsynth import InputError, MargNet, Schema, load
from tabsynth._random import Randomness
from tabsynth.privacy.accounting.mechanisms import Gaussian
from tabsynth.privacy.certificate.certificate import beside
from tabsynth.privacy.certificate.verification import verify
from tabsynth.privacy.ledger.ledger import Ledger, PrivateTable
from tabsynth.privacy.noise.counts import NoisyCounts, number_of, sums_of_parts
from tabsynth.schema import Column
from tabsynth.synthesizers.margnet import estimator, grids, measurement
from tabsynth.synthesizers.margnet.config import MargNetConfig
from tabsynth.synthesizers.margnet.grids import Grid, cut_values, target_grids, whole_grid
from tabsynth.synthesizers.margnet.measurement import AGAIN, DEPARTURE, JOINT
from tabsynth.synthesizers.margnet.selection import Measurements, high_interactions, largest_order
from tabsynth.synthesizers.mixture import Mixture
from tabsynth.training.loop import TrainingMonitor


def schema_of(sizes: dict[str, int]) -> Schema:
    return Schema(
        [
            Column(name=name, kind="ordinal", dtype="int64", categories=tuple(range(size)))
            for name, size in sizes.items()
        ]
    )


def parity(bits: int, others: int = 0, rows: int = 10_000, seed: int = 0) -> pd.DataFrame:
    """Fair bits whose sum is even, beside other columns, which depend on each other."""
    rng = np.random.default_rng(seed)
    index = rng.integers(2, size=(rows, bits))
    index[:, -1] = index[:, :-1].sum(axis=1) % 2
    shared = rng.normal(size=rows)
    beside = [(0.7 * shared + rng.normal(size=rows) > 0).astype(int) for _ in range(others)]
    frame = {f"b{i}": of for i, of in enumerate(index.T)}
    return pd.DataFrame(frame | {f"x{i}": of for i, of in enumerate(beside)})


def kept(table: pd.DataFrame, bits: int) -> float:
    return float((table[[f"b{i}" for i in range(bits)]].sum(axis=1) % 2 == 0).mean())


@pytest.mark.parametrize(("bits", "others"), [(2, 0), (4, 0), (7, 0), (7, 5)])
def test_a_parity_is_kept(bits: int, others: int) -> None:
    """At ε = 1 and 10,000 rows, by at least 95% of the synthetic rows; half of the rows of independent bits."""
    frame = parity(bits, others)
    model = MargNet(schema_of(dict.fromkeys(frame, 2)), epsilon=1.0, random_state=3).fit(frame)
    synthetic = model.sample(10_000)
    assert kept(synthetic, bits) >= 0.95
    assert np.abs(synthetic.mean() - frame.mean()).max() < 0.03


def test_a_parity_survives_the_model_file(tmp_path: Path) -> None:
    """The counts of its table are kept for implicates, and implicates keep it too."""
    frame = parity(5, rows=6000)
    model = MargNet(schema_of(dict.fromkeys(frame, 2)), epsilon=2.0, random_state=0).fit(frame)
    model.save(tmp_path / "model.pt")
    loaded = load(tmp_path / "model.pt")
    (before,), (after,) = (m.model_.measured.grids for m in (model, loaded))  # type: ignore[union-attr]
    assert before.columns == after.columns == (0, 1, 2, 3, 4)
    assert (before.counts == after.counts).all() and before.std == after.std
    assert all((a == b).all() for a, b in zip(before.groups, after.groups, strict=True))
    for implicate in loaded.sample(2000, implicates=2, random_state=1):
        assert kept(implicate, 5) > 0.9


@pytest.mark.parametrize(
    ("columns", "order"), [(2, 0), (3, 3), (12, 7), (13, 5), (16, 4), (19, 3), (20, 0)]
)
def test_the_largest_order_is_within_the_sums(columns: int, order: int) -> None:
    """By hand: three sums of each pair and triple, one of each larger set, 3,900 in all."""
    assert largest_order(columns) == order
    sizes = [math.comb(columns, k) * (3 if k < 4 else 1) for k in range(2, order + 2)]
    assert sum(sizes[:-1]) <= 3900
    assert order in (0, 7, columns) or sum(sizes) > 3900


def moments_of(index: np.ndarray) -> tuple[dict[tuple[int, ...], float], list[float]]:
    """Sums of products of signs of all sets of columns, and mean signs, by hand."""
    signs, columns = 1 - 2 * index, range(index.shape[1])
    sets = [s for k in range(2, len(columns) + 1) for s in combinations(columns, k)]
    return {s: float(signs[:, s].prod(axis=1).sum()) for s in sets}, signs.mean(axis=0).tolist()


def test_only_a_relation_that_no_smaller_set_shows_is_one() -> None:
    """Strong pairs, rare values and products with an uneven column are none; a parity beside them is."""
    rng = np.random.default_rng(0)
    shared, rare = rng.random(20_000) < 0.3, rng.random((20_000, 3)) < 0.04
    pairs = np.stack([shared ^ (rng.random(20_000) < 0.05) for _ in range(5)], axis=1)
    found = [
        high_interactions(*(sums, 100.0, means), 20_000.0, 5.0, 0.1)
        for sums, means in (
            moments_of(np.concatenate(columns, axis=1).astype(int))
            for columns in (
                [pairs],
                [rare, pairs[:, :2]],
                [parity(4, rows=20_000).to_numpy(), rng.random((20_000, 1)) < 0.1],
            )
        )
    ]
    assert found == [[], [], [(0, 1, 2, 3)]]


def test_sums_of_the_parts_of_a_table_follow_from_it() -> None:
    table = np.random.default_rng(0).random((2, 3, 1))
    signs = [np.array([1.0, -1.0]), np.array([1.0, -1.0, 1.0]), np.array([-1.0])]
    sums = sums_of_parts(table, signs)
    for parts in np.ndindex(2, 2, 2):
        expected = sum(
            value * math.prod(of[i] for of, i, part in zip(signs, cell, parts, strict=True) if part)
            for cell, value in np.ndenumerate(table)
        )
        assert sums[parts] == pytest.approx(expected)


@pytest.mark.parametrize("ordered", [True, False])
def test_a_cut_is_where_chance_has_it(ordered: bool) -> None:
    """Between the quartiles, as near as values allow; of values with an order a threshold."""
    shares = np.full(50, 0.02)
    groups = [cut_values(shares, ordered, np.random.default_rng(i)) for i in range(40)]
    below = [1 - group.mean() for group in groups]
    assert min(below) >= 0.24 and max(below) <= 0.76 and np.std(below) > 0.1
    assert all((np.diff(group) >= 0).all() for group in groups) == ordered
    assert set(cut_values(np.array([0.99, 0.01]), ordered, np.random.default_rng(0))) == {0, 1}
    assert cut_values(np.ones(1), ordered, np.random.default_rng(0)).tolist() == [0]


def test_grids_have_the_target_and_other_columns() -> None:
    sizes = [4, 9, 3, 7, 2, 5, 6, 8]
    shares = [np.full(size, 1 / size) for size in sizes]
    others = [j for j in range(8) if j != 3]
    made = target_grids(3, np.arange(7) // 2, others, shares, [True] * 8)
    assert len(made) == grids.GRIDS and math.fsum(grid.part for grid in made) == pytest.approx(1)
    for grid in made:
        assert len(grid.columns) == 7 and 3 in grid.columns == tuple(sorted(set(grid.columns)))
        at = dict(zip(grid.columns, map(number_of, grid.groups), strict=True))
        assert at.pop(3) == 4 and set(at.values()) == {2}
    assert target_grids(0, np.arange(2), [1, 2], [np.ones(2)] * 3, [True] * 3) == []


def test_what_a_mixture_expects_of_a_grid(monkeypatch: pytest.MonkeyPatch) -> None:
    """By all rows of the product distributions."""
    schema = schema_of({"a": 2, "b": 3, "c": 4})
    layout = MargNet(schema, epsilon=1.0).make_method(schema).encoder.layout
    p = np.random.default_rng(0).random((5, 9))
    p /= np.repeat(np.add.reduceat(p, [0, 2, 5], axis=1), [2, 3, 4], axis=1)
    import torch

    mixture = Mixture(layout, 5).set(torch.from_numpy(p).float())
    expected = np.zeros((2, 2))
    for row in p:
        for a, c in np.ndindex(2, 4):
            expected[a, c // 2] += 30 / 5 * row[a] * row[5 + c]
    grid = Grid((0, 2), (np.arange(2), np.arange(4) // 2), 1.0)
    assert grid.expected(mixture, 30.0) == pytest.approx(expected, rel=1e-5)
    monkeypatch.setattr(grids, "AT_ONCE", 9)  # two components, and one by itself
    assert grid.expected(mixture, 30.0) == pytest.approx(expected, rel=1e-5)


def test_the_mean_distance_has_the_noise_that_is_charged() -> None:
    """R2, R4: by hand; one record moves it by at most 1, and σ of noise is on it."""
    rng = np.random.default_rng(1)
    sizes, sets = (2, 3, 5), [(0, 1), (0, 1, 2), (0, 2)]
    groups = [[np.arange(2), np.array([0, 0, 1]), np.arange(5)]] * 3
    index = np.stack([rng.integers(size, size=40) for size in sizes], axis=1)
    expected = [np.full(shape, 1.25) for shape in ((2, 2), (2, 2, 5), (2, 5))]

    def released(rows: np.ndarray, seed: int, sigma: float, bound: float = 1.0) -> float:
        ledger = Ledger(math.inf, 1e-5)
        account = ledger.open("distance", Gaussian(noise_multiplier=sigma), 1)
        counts = NoisyCounts(PrivateTable(rows, ledger), sizes, bound=bound)
        return counts.mean_distance(account, sets, expected, np.random.default_rng(seed), groups)

    def exact(rows: np.ndarray) -> float:
        distances = []
        for columns, by, of in zip(sets, groups, expected, strict=True):
            counted = np.zeros(of.shape)
            for row in rows:
                counted[tuple(by[j][row[j]] for j in columns)] += 1
            distances.append(np.abs(counted - of).sum())
        return float(np.mean(distances))

    assert released(index, 0, 1e-12) == pytest.approx(exact(index))
    moves = [
        abs(released(np.vstack([index, more]), 0, 1e-12) - exact(index))
        for more in np.ndindex(*sizes)
    ]
    assert max(moves) <= 1 + 1e-9
    for bound in (1.0, 3.0):  # rows of a unit
        noise = [released(index, seed, 20.0, bound) - exact(index) for seed in range(3000)]
        assert np.std(noise) == pytest.approx(20 * bound, rel=0.05)


SIZES = {"a": 8, "b": 8, "c": 8, "d": 8, "class": 4}
SCHEMA = schema_of(SIZES)
STAGES = ["one-way counts", "sign interactions", JOINT, DEPARTURE, AGAIN]


def classes(related: bool, rows: int = 4000, seed: int = 0) -> pd.DataFrame:
    """Independent numbers; if ``related``, the class is whether two of them are high, and whether two others are alike."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({name: rng.integers(size, size=rows) for name, size in SIZES.items()})
    if related:
        high = frame[["a", "b", "c", "d"]] > 3
        frame["class"] = 2 * (high["a"] ^ high["b"]).astype(int) + (high["c"] ^ high["d"])
    return frame


def small(**parameters: Any) -> MargNet:
    config = MargNetConfig(components=20, latent_dim=5, hidden=(8,), steps=30)
    return MargNet(SCHEMA, epsilon=2.0, random_state=0, target="class", config=config, **parameters)


def test_the_stages_of_a_target() -> None:
    """R12: they follow from the schema and the hint; none for three columns, a public table, or no target."""
    shares = small().make_method(SCHEMA).task.stages
    assert list(shares) == STAGES and math.fsum(shares.values()) == pytest.approx(1)
    without = MargNet(SCHEMA, epsilon=2.0).make_method(SCHEMA).task.stages
    joint = without[JOINT]
    assert shares[AGAIN] == pytest.approx(0.7 * joint)
    assert shares[DEPARTURE] == pytest.approx(0.005 * joint)
    assert not {AGAIN, DEPARTURE} & set(without)
    narrow = schema_of({"a": 8, "b": 8, "class": 4})
    few = MargNet(narrow, epsilon=2.0, target="class").make_method(narrow).task
    assert AGAIN not in few.stages


@pytest.mark.parametrize("related", [True, False])
def test_a_target_is_counted_with_several_columns_where_pairs_leave_it(
    related: bool, reads: list[str]
) -> None:
    """R1, R7: each stage reads once and is in the certificate; else pairs are counted twice, as well as once for all."""
    model = small().fit(classes(related))
    certificate = model.certificate()
    assert [(m["purpose"], m["count"]) for m in certificate["mechanisms"]] == [
        (purpose, 1) for purpose in STAGES
    ]
    assert reads == STAGES and certificate["epsilon"] == pytest.approx(2.0)
    measured = model.model_.measured
    assert measured is not None
    assert len(measured.grids) == (grids.GRIDS if related else 0)
    (again,) = (m["details"] for m in certificate["mechanisms"] if m["purpose"] == AGAIN)
    assert ("pairs" not in again) == related
    noise = {m["purpose"]: m["noise_multiplier"] for m in certificate["mechanisms"]}
    together = (noise[JOINT] ** -2 + noise[AGAIN] ** -2) ** -0.5
    precision = sum(m.std**-2 for m in measured.counts if len(m.columns) > 1)
    columns = [m for m in measured.counts if len(m.columns) == 1]
    if not related and len(columns) == 5:
        assert precision <= together**-2 * (1 + 1e-9)
        assert precision >= 0.4 * together**-2


def test_the_classes_follow_the_columns() -> None:
    """A class by two exclusive ors of four columns: by a pair of columns it is a guess of one in four."""
    model = MargNet(SCHEMA, epsilon=3.0, random_state=0, target="class").fit(classes(related=True))
    synthetic = model.sample(4000)
    high = synthetic[["a", "b", "c", "d"]] > 3
    expected = 2 * (high["a"] ^ high["b"]).astype(int) + (high["c"] ^ high["d"])
    assert (synthetic["class"] == expected).mean() > 0.8


def test_frozen_releases_freeze_the_choice_of_grids() -> None:
    """R19: tables with or without a relation, and of other shares: the same sets are counted, in the same groups, with the same expectations."""
    seen = []
    for frame in (classes(related=True), classes(related=False), classes(related=True) // 2):
        asked: list[Any] = []

        def contrasts(
            self: Any, account: Any, sets: Any, signs: Any, bits: Any, wide: Any
        ) -> tuple[np.ndarray, np.ndarray]:
            self.table.read(account)
            return np.zeros((len(sets), 3)), np.zeros(len(wide))

        def mean_distance(
            self: Any,
            account: Any,
            sets: Any,
            expected: Any,
            bits: Any,
            groups: Any,
            asked: Any = asked,
        ) -> float:
            self.table.read(account)
            asked.append((sets, [of.tolist() for of in expected]))
            return 4000.0

        with pytest.MonkeyPatch.context() as patch:
            fixed = fixed_counts(asked, lambda size: np.full(size, 4000 / math.prod(size)), 5.0)
            patch.setattr(NoisyCounts, "measure", fixed)
            patch.setattr(NoisyCounts, "contrasts", contrasts)
            patch.setattr(NoisyCounts, "mean_distance", mean_distance)
            small().fit(frame)
        seen.append(asked)
    assert len(seen[0]) == 4 and len(seen[0][-1][0]) == grids.GRIDS
    assert seen[0] == seen[1] == seen[2]


@pytest.mark.parametrize("kind", ["outlier", "minority"])
def test_a_row_more_changes_releases_alone(kind: str) -> None:
    """R1: replayed on a neighbour; each release moves by no more than the sensitivity that is charged."""
    model = make_tiny_model("margnet, target", SCHEMA, epsilon=2.0)
    frame = classes(related=True, rows=150)
    pair = next(p for p in neighbours(frame, SCHEMA) if p.kind == kind)
    result = replay(model, pair.table, pair.neighbour, seed=1)
    assert result.passes, result.first_difference
    moves = {call.purpose: call.move for call in result.mechanisms}
    assert list(moves) == STAGES and max(moves.values()) <= 1 + 1e-9


def test_a_released_table_of_a_target_verifies(tmp_path: Path) -> None:
    """Each unit of the new releases is known, so that a smaller sensitivity is refused."""
    model = small().fit(classes(related=True))
    model.sample_to(tmp_path / "t.csv", 100)
    assert verify(tmp_path / "t.csv").problems == ()
    path = beside(tmp_path / "t.csv")
    data = json.loads(path.read_text("utf-8"))
    for purpose in (DEPARTURE, AGAIN):
        changed = copy.deepcopy(data)
        (item,) = (m for m in changed["mechanisms"] if m["purpose"] == purpose)
        item["details"]["l2_sensitivity"] = 0.5
        path.write_text(json.dumps(changed), "utf-8")
        assert any(purpose in problem for problem in verify(tmp_path / "t.csv").problems), purpose


@pytest.mark.parametrize(
    ("sizes", "noise", "counted"),
    [
        ([2] * 4, 0.0, True),
        ([9] * 10, 0.0, False),
        ([2] * 1100, 1.0, False),
        ([2] * 1100, 0.0, False),
    ],
)
def test_a_table_of_all_columns_has_few_cells(
    sizes: list[int], noise: float, counted: bool
) -> None:
    """Without noise too, where any number of cells would be worth it; the cells of many columns are no float."""
    grid = whole_grid(sizes, noise, 1000.0, 1_000_000)
    assert (grid is not None) == counted


def test_without_privacy_the_table_of_many_cells_is_not_counted() -> None:
    frame = pd.DataFrame(
        np.random.default_rng(0).integers(9, size=(60, 10)), columns=[*"abcdefghij"]
    )
    config = MargNetConfig(components=5, latent_dim=5, hidden=(8,), steps=2)
    model = MargNet(
        schema_of(dict.fromkeys(frame, 9)), epsilon=math.inf, random_state=0, config=config
    )
    assert len(model.fit(frame).sample(10)) == 10


@pytest.mark.parametrize(("sizes", "sets"), [([10, 10, 10, 2, 2], 3), ([10] * 4, 0)])
def test_larger_sets_are_those_whose_triples_all_have_signs(sizes: list[int], sets: int) -> None:
    """Three columns of 10 values have too many cells here: of five sets of four, two have that triple."""
    index = np.random.default_rng(0).integers(sizes, size=(500, len(sizes)))
    frame = pd.DataFrame(index, columns=[f"c{i}" for i in range(len(sizes))])
    config = MargNetConfig(components=5, latent_dim=5, hidden=(8,), steps=2, max_cells=500)
    schema = schema_of(dict(zip(frame, sizes, strict=True)))
    model = MargNet(schema, epsilon=5.0, random_state=0, config=config).fit(frame)
    (signs,) = (
        m["details"] for m in model.certificate()["mechanisms"] if m["purpose"] == STAGES[1]
    )
    assert signs.get("larger sets", 0) == sets


def test_shares_that_leave_nothing_for_the_joint_counts_are_refused() -> None:
    frame = parity(2, 10, rows=50)
    config = MargNetConfig(interactions_share=0.2)
    model = MargNet(schema_of(dict.fromkeys(frame, 2)), epsilon=1.0, config=config)
    with pytest.raises(
        InputError, match=r"lower one_way_share, scores_share or interactions_share"
    ):
        model.fit(frame)


def test_a_resumed_fit_counts_what_it_has_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its first fit may have gone on, so that it would choose others: the choice is that of the first time."""

    def crash(stage: str, done: int, total: int) -> None:
        if stage == "generator":
            raise RuntimeError

    frame = classes(related=True)
    with pytest.raises(RuntimeError):
        small().fit(frame, checkpoint=tmp_path / "half", progress=crash)
    monkeypatch.setattr(measurement, "chance_distance", lambda expected: 1e9)
    model = small().fit(frame, checkpoint=tmp_path / "half")
    assert model.model_.measured is not None
    assert len(model.model_.measured.grids) == grids.GRIDS


def test_a_first_fit_that_its_time_ends_does_not_end_the_model(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(estimator, "FIRST_TIME", 0.0)
    model = small(time_limit=1e6).fit(classes(related=True))
    assert model.certificate()["training"]["stopped"] is None


def test_an_interrupt_of_the_first_fit_leaves_what_it_has_learned() -> None:
    """As the model, with the counts of both: it may go on from there."""

    def press(stage: str, done: int, total: int) -> None:
        if done == 5:
            raise KeyboardInterrupt

    model = small()
    with pytest.raises(KeyboardInterrupt):
        model.fit(classes(related=True), progress=press)
    training = model.certificate()["training"]
    assert training["stopped"] == "interrupted" and training["steps"] == 5
    assert model.model_.measured is not None and model.model_.measured.grids


def test_a_trial_tells_the_steps_of_both_fits() -> None:
    """A plan takes the most steps for a stage of which a trial tells none."""
    method = small().make_method(SCHEMA)
    ledger, monitor = Ledger(math.inf, 1e-5), TrainingMonitor(trial_steps=3)
    rows = classes(related=True, rows=300).to_numpy()
    trial = method.train(rows, method.plan(Ledger(2.0, 1e-5)), ledger, Randomness(0), monitor)
    assert set(trial.likely_steps) == set(method.free_steps()) == {"first generator", "generator"}


@pytest.mark.parametrize(
    ("name", "changed"),
    [
        ("measured.counts", lambda counts: counts * math.nan),
        ("measured.grids", lambda groups: groups.double()),
        ("measured.pairs", lambda groups: groups.double()),
        ("measured.grids", lambda groups: groups + 1),
    ],
)
def test_damaged_counts_are_refused(name: str, changed: Any) -> None:
    """Here, and not where an analysis reads them."""
    frame = parity(4, rows=3000)
    model = MargNet(schema_of(dict.fromkeys(frame, 2)), epsilon=2.0, random_state=0).fit(frame)
    measured = model.model_.measured
    assert measured is not None and measured.grids
    facts, tensors = measured.facts(), measured.tensors()
    Measurements.of_file(facts, tensors, [2] * 4)
    with pytest.raises(ValueError, match=r"counts|groups"):
        Measurements.of_file(facts, tensors | {name: changed(tensors[name])}, [2] * 4)
