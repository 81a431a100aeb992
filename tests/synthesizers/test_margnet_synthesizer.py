"""MargNet as a user meets it: what it reads, pays, refuses, releases (R1, R4, R7, R12, R14)."""

import math
from dataclasses import asdict
from pathlib import Path
from typing import Any

import dp_accounting as dpa
import numpy as np
import pandas as pd
import pytest
import torch
from dp_accounting import pld
from fitted_tables import SCHEMA, frame
from scipy.special import ndtr, ndtri

from tabsynth import InputError, MargNet, Schema, load
from tabsynth.privacy.accounting.accountants import gaussian_mu
from tabsynth.privacy.accounting.mechanisms import Gaussian
from tabsynth.privacy.ledger.ledger import Ledger, PrivateTable
from tabsynth.privacy.noise.counts import Measured, NoisyCounts
from tabsynth.schema import Column
from tabsynth.synthesizers.margnet import measurement as measuring
from tabsynth.synthesizers.margnet import selection
from tabsynth.synthesizers.margnet.config import MargNetConfig
from tabsynth.synthesizers.margnet.estimation import CountLoss, MargNetFit
from tabsynth.training.checkpoint import Checkpoint

torch.set_num_threads(1)
ROOT = Path(__file__).resolve().parents[2]
ONE_WAY, SCORES, SIGNS, JOINT = (
    "one-way counts",
    "scores of pairs",
    "sign interactions",
    "joint counts",
)
STAGES = [ONE_WAY, SIGNS, JOINT]


def config(**changes: Any) -> MargNetConfig:
    parameters = {"components": 20, "latent_dim": 5, "hidden": (8,), "steps": 12}
    return MargNetConfig(**{**parameters, **changes})


def small(schema: Schema = SCHEMA, **changes: Any) -> MargNet:
    return MargNet(schema, **{"epsilon": 2.0, "config": config(), **changes})


def by_pld(model: MargNet) -> float:
    """ε of what the certificate lists, by an accountant that is not ours."""
    accountant = pld.PLDAccountant(value_discretization_interval=1e-4)
    for item in model.certificate()["mechanisms"]:
        event = dpa.GaussianDpEvent(item["noise_multiplier"])
        accountant.compose(dpa.SelfComposedDpEvent(event, item["count"]))
    return accountant.get_epsilon(model.delta)


@pytest.mark.parametrize("epsilon", [0.1, 0.9, 8.0])
def test_it_spends_its_plan_and_no_more(epsilon: float) -> None:
    """R6, R7: a read and a Gaussian a stage, together exactly the ε asked for by two accountants."""
    model = small(epsilon=epsilon)
    plan = model.plan(estimate_time=False)
    assert [(s.purpose, s.count) for s in plan.spends] == [(stage, 1) for stage in STAGES]
    model.fit(frame())
    certificate = model.certificate()
    assert certificate["epsilon"] == pytest.approx(plan.epsilon, rel=1e-9)
    assert epsilon * (1 - 1e-6) < certificate["epsilon"] <= epsilon
    assert by_pld(model) == pytest.approx(epsilon, rel=2e-3)
    items = certificate["mechanisms"]
    assert all((item["count"], item["sampling_rate"]) == (1, 1.0) for item in items)
    first, second, third = (item["details"] for item in items)
    assert (first["columns"], second["triples"], third["pairs"]) == (4, 4, 6)


@pytest.mark.parametrize("epsilon", [0.7, 50.0])
def test_the_noise_is_what_the_ledger_says(epsilon: float) -> None:
    """R4 end to end: counts that the fit saw, less the exact ones, in units of their noise."""
    seen: list[list[tuple[Measured, Any]]] = []
    with pytest.MonkeyPatch.context() as patch:
        original = NoisyCounts.measure

        def measure(
            self: Any, account: Any, sets: Any, shares: Any, rng: Any, groups: Any, *rest: Any
        ) -> Any:
            result = original(self, account, sets, shares, rng, groups, *rest)
            seen.append(list(zip(result, groups, strict=True)))
            return result

        patch.setattr(NoisyCounts, "measure", measure)
        model = small(epsilon=epsilon, random_state=0).fit(frame(500))
    index = model.model_.encoder.to_index(frame(500))
    widths = {len(m.columns) for m, _ in seen[1]}
    # Triples where the noise leaves them clear, columns again where it is high.
    assert widths == ({1, 2} if epsilon < 1 else {2, 3})
    noise = []
    items = [m for m in model.certificate()["mechanisms"] if m["purpose"] != SIGNS]
    for stage, item in zip(seen, items, strict=True):
        scale = 0.0
        for m, groups in stage:
            exact = np.zeros([int(groups[j].max()) + 1 for j in m.columns])
            np.add.at(exact, tuple(groups[j][index[:, j]] for j in m.columns), 1)
            gap = (m.counts - exact).ravel()  # rounded after the noise: spread over its bin again
            away, place = np.abs(gap), np.random.default_rng(0).random(gap.shape)
            low, high = ndtr((-0.5 - away) / m.std), ndtr((0.5 - away) / m.std)
            z = ndtri(low + place * (high - low))
            noise.append(np.where(gap > 0, -z, z))
            scale += 1 / m.std**2
        # A record moves one cell a set: together, in units of the noise, by 1/σ.
        assert math.sqrt(scale) == pytest.approx(1 / item["noise_multiplier"])
    flat = np.concatenate(noise)
    assert abs(flat.mean()) < 4 / math.sqrt(len(flat))
    assert abs(flat.std() - 1) < 4 / math.sqrt(2 * len(flat))
    assert not model.certificate()["private"] and len(flat) > 100


def test_without_privacy_it_learns() -> None:
    """ε = ∞: pairs of a correlated table come out, numeric cells and nulls included."""
    schema = Schema(
        [
            Column(name="a", kind="categorical", dtype="str", categories=("x", "y", "z")),
            Column(name="n", kind="numeric", dtype="Int64", low=0, high=29, nulls=True),
        ]
    )
    rng = np.random.default_rng(0)
    a = rng.choice(["x", "y", "z"], 2000)
    centre = pd.Series(a).map({"x": 5, "y": 15, "z": 25}).to_numpy()
    n = pd.array(np.clip(np.round(rng.normal(centre, 2)), 0, 29).astype(int), dtype="Int64")
    n[(a == "z") & (rng.random(2000) < 0.5)] = pd.NA
    table = pd.DataFrame({"a": pd.Series(a, dtype="str"), "n": n})
    settings = MargNetConfig(steps=1000)
    model = small(schema, epsilon=math.inf, config=settings, random_state=0).fit(table)
    synthetic = model.sample(2000)
    for value in ("x", "y", "z"):
        ours, theirs = (
            synthetic.loc[synthetic["a"] == value, "n"],
            table.loc[table["a"] == value, "n"],
        )
        assert abs(len(ours) - len(theirs)) < 40
        assert ours.mean() == pytest.approx(theirs.mean(), abs=0.5)
        assert ours.std() == pytest.approx(theirs.std(), abs=1.2)  # of 9 without their relation
        assert ours.isna().mean() == pytest.approx(theirs.isna().mean(), abs=0.05)
    assert model.certificate()["epsilon"] == "inf" and model.certificate()["private"] is False


def test_scores_of_no_pair_are_charged_all_the_same(
    tmp_path: Path, reads: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """R23: whether there is a pair to score follows from noisy counts; what is charged must not."""
    monkeypatch.setattr(measuring, "pairs_within", lambda *_: [])
    for where in ({}, {"checkpoint": tmp_path / "ck"}):
        reads.clear()
        model = small(config=config(max_unscored=0))
        planned = model.plan(estimate_time=False)
        model.fit(frame(), **where)
        certificate = model.certificate()
        listed = [
            (m["purpose"], m["noise_multiplier"], m["count"]) for m in certificate["mechanisms"]
        ]
        assert listed == [
            (s.purpose, s.mechanism.noise_multiplier, 1)  # type: ignore[union-attr]
            for s in planned.spends
        ]
        assert [purpose for purpose, *_ in listed] == [ONE_WAY, SCORES, SIGNS, JOINT]
        assert certificate["epsilon"] == planned.epsilon == pytest.approx(2.0)
        assert reads == [ONE_WAY, JOINT]  # nothing is read that nobody asks for


def test_declared_rows_scale_the_counts(caplog: pytest.LogCaptureFixture) -> None:
    """R14: rows= is what expected counts are scaled to; else, or where they refute it, the noisy counts."""
    for epsilon, declared, refuted in ((1000.0, 6000, True), (0.1, 90, False)):
        results = []
        for rows in (None, declared):
            caplog.clear()
            model = small(random_state=0, rows=rows, epsilon=epsilon).fit(frame(60))
            (curve,) = model.model_.curves.values()
            results.append(curve["value"][0])
            assert model.certificate()["public"]["rows"] == rows
        assert (results[0] == results[1]) == refuted
        assert (f"rows={declared} is declared, but the noisy" in caplog.text) == refuted


@pytest.mark.slow
def test_hospital_schema() -> None:
    """48 columns: pairs are scored, those worth their noise counted, and the fit's time told first."""
    schema = Schema.load(ROOT / "data" / "hospital.schema.json")
    rng = np.random.default_rng(0)
    index = np.stack([rng.integers(0, size, 3000) for size in schema.sizes], axis=1)
    binary = [j for j, size in enumerate(schema.sizes) if size == 2][:2]
    index[:, binary[1]] = index[:, binary[0]]
    from tabsynth.encoding import TableEncoder

    table = TableEncoder(schema).from_index(index, rng)
    model = small(schema, epsilon=1.0, rows=3000, random_state=0)
    plan = model.plan()
    assert plan.seconds is not None and 0 < plan.seconds < 60
    counted = []
    with pytest.MonkeyPatch.context() as patch:
        original = NoisyCounts.measure

        def measure(*given: Any) -> list[Measured]:
            counted.append(given[2])
            return original(*given)

        patch.setattr(NoisyCounts, "measure", measure)
        model.fit(table)
    stages = {m["purpose"]: m["details"] for m in model.certificate()["mechanisms"]}
    assert list(stages) == [ONE_WAY, SCORES, JOINT]  # too many triples
    assert stages[SCORES]["pairs"] == 48 * 47 // 2
    # Of all the independent columns the two that agree are found, and what noise makes look worth it.
    pairs = [columns for columns in counted[-1] if len(columns) == 2]
    assert tuple(binary) in pairs and len(pairs) == stages[JOINT]["pairs"] < 0.4 * 48 * 47 / 2
    assert stages[JOINT]["columns"] == 48  # counted again: ε is small for 3,000 rows
    assert by_pld(model) == pytest.approx(1.0, rel=2e-3)
    schema.check_columns(model.sample(100))


def test_where_no_pair_is_worth_it_columns_are_counted_again() -> None:
    """The whole budget is spent, and the one-way counts have the noise of all of it but that of scores and signs."""
    columns = [
        Column(name=f"c{i}", kind="categorical", dtype="int64", categories=tuple(range(20)))
        for i in range(13)
    ]
    rng = np.random.default_rng(0)
    table = pd.DataFrame({c.name: rng.integers(0, 20, 4000) for c in columns})
    seen = []
    with pytest.MonkeyPatch.context() as patch:
        original = MargNetFit.__init__

        def init(self: Any, *given: Any) -> None:
            seen.extend(given[2].counts)
            original(self, *given)

        patch.setattr(MargNetFit, "__init__", init)
        patch.setattr(measuring, "worth_counting", lambda *_: [])  # the noise makes it so by chance
        model = small(Schema(columns), epsilon=1.0, random_state=0).fit(table)
    assert model.certificate()["epsilon"] == pytest.approx(1.0, rel=1e-6)
    assert [m.columns for m in seen] == [(j,) for j in range(13)]
    mu = gaussian_mu(1.0, 1e-5)
    signs = 0.005 * (1 + (math.comb(13, 4) + math.comb(13, 5)) / 500)
    assert seen[0].std == pytest.approx(math.sqrt(13 / (1 - 0.025 - signs)) / mu, rel=1e-6)
    off = [
        (m.counts - np.bincount(table.iloc[:, j], minlength=20)) / m.std for j, m in enumerate(seen)
    ]
    assert abs(np.std(off) - 1) < 4 / math.sqrt(2 * 260)


@pytest.mark.parametrize("stage", [ONE_WAY, SCORES, SIGNS, JOINT])
def test_a_crash_between_stages_spends_nothing_twice(stage: str, tmp_path: Path) -> None:
    """R7: what was kept is not read again; the same ε in the end."""
    settings = config(max_unscored=0)

    def crash(self: Any, name: str, compute: Any) -> Any:
        result = original(self, name, compute)
        if name == stage:
            raise RuntimeError("power cut")
        return result

    with pytest.MonkeyPatch.context() as patch:
        original = Checkpoint.once
        patch.setattr(Checkpoint, "once", crash)
        with pytest.raises(RuntimeError):
            small(config=settings).fit(frame(), checkpoint=tmp_path / "c")
    certificate = small(config=settings).fit(frame(), checkpoint=tmp_path / "c").certificate()
    assert [item["count"] for item in certificate["mechanisms"]] == [1, 1, 1, 1]
    assert certificate["epsilon"] == pytest.approx(2.0, rel=1e-6) and certificate["epsilon"] <= 2.0


def test_scores_have_the_noise_that_is_charged() -> None:
    """R2, R4: a record moves each distance by at most 1; √pairs σ of noise on each."""
    index = np.random.default_rng(1).integers(0, 3, (40, 3))
    sets = [(0, 1), (0, 2), (1, 2)]
    expected = {pair: np.full((3, 3), 5.0) for pair in sets}

    def distances(rows: np.ndarray, seed: int, sigma: float) -> np.ndarray:
        ledger = Ledger(math.inf, 1e-5)
        account = ledger.open("scores", Gaussian(noise_multiplier=sigma), 1)
        counts = NoisyCounts(PrivateTable(rows, ledger), (3, 3, 3))
        return counts.distances(account, sets, expected.__getitem__, np.random.default_rng(seed))

    exact = distances(index, 0, 1e-12)
    by_hand = [
        np.abs(np.histogram2d(*index[:, pair].T, bins=3)[0] - 5).sum() for pair in map(list, sets)
    ]
    np.testing.assert_allclose(exact, by_hand, atol=1e-9)
    for more in np.ndindex(3, 3, 3):
        moved = distances(np.vstack([index, more]), 0, 1e-12) - exact
        assert np.abs(moved).max() <= 1 + 1e-9
    noise = np.array([distances(index, seed, 2.0) - exact for seed in range(3000)])
    assert noise.std() == pytest.approx(2 * math.sqrt(3), rel=0.03)
    assert np.abs(np.corrcoef(noise.T) - np.eye(3)).max() < 0.08


def test_a_workload_is_counted_in_any_case(tmp_path: Path) -> None:
    """Where the noise leaves nothing clear, the named pairs and triples are all that is counted."""
    names = list(SCHEMA.names)
    workload = [(names[3], names[0]), tuple(names[:3])]
    seen: list[Any] = []
    with pytest.MonkeyPatch.context() as patch:
        original = NoisyCounts.measure

        def measure(*given: Any) -> list[Measured]:
            loaded = original(*given)
            seen.append({m.columns: m.std for m in loaded if len(m.columns) > 1})
            return loaded

        patch.setattr(NoisyCounts, "measure", measure)
        settings = config(max_unscored=0)
        original_choice = measuring.worth_counting
        patch.setattr(
            measuring, "worth_counting", lambda p, d, *more: original_choice(p, -abs(d), *more)
        )
        model = small(epsilon=0.01, config=settings, workload=workload).fit(frame())
        assert set(seen[-1]) == {(0, 3), (0, 1), (0, 2), (1, 2), (0, 1, 2)}
        patch.setattr(measuring, "worth_counting", lambda *_: [])  # the noise makes it so by chance
        small(epsilon=0.01, config=settings).fit(frame())
        assert not seen[-1]
        # All pairs counted: those of the target have less noise than others of as many cells.
        small(epsilon=9.0, target=names[0]).fit(frame())
        target = dict(seen[-1])
        small(epsilon=9.0).fit(frame())
    assert all(target[0, j] < seen[-1][0, j] for j in (1, 2, 3)) and target[1, 2] > seen[-1][1, 2]
    model.save(tmp_path / "m")
    loaded = load(tmp_path / "m")
    assert isinstance(loaded, MargNet) and loaded.workload == [list(names) for names in workload]
    assert model.certificate()["mechanisms"][-1]["details"]["triples"] == 1


@pytest.mark.parametrize(
    ("wishes", "says"),
    [
        ({"config": {"steps": 3}}, "config"),
        ({"target": "age of majority"}, "target names column 'age of majority'"),
        ({"workload": [("a", "nobody")]}, "workload names column"),
        ({"workload": "ab"}, "workload to be a list"),
        ({"workload": [SCHEMA.names[0]]}, "two or three different columns"),
        ({"workload": [(SCHEMA.names[0], SCHEMA.names[0])]}, "two or three different columns"),
        ({"workload": [SCHEMA.names[:2]], "config": config(max_cells=3)}, "past max_cells=3"),
        ({"workload": [SCHEMA.names[:3]], "config": config(triples_share=0)}, "leaves no budget"),
    ],
)
def test_wrong_wishes_are_one_line(wishes: dict[str, Any], says: str) -> None:
    model = small(**wishes)
    for use in (lambda: model.plan(estimate_time=False), lambda: model.fit(frame(10))):
        with pytest.raises(InputError, match=says) as error:
            use()
        assert "\n" not in str(error.value)
    assert not hasattr(model, "ledger_")


def test_no_triples_without_a_share_of_the_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    """Though each is clear; pairs are counted, and named ones as well."""
    monkeypatch.setattr(selection, "TRIPLES_NOISE", 1e6)
    for share, triples in ((0.0, 0), (0.3, 4)):
        settings = config(triples_share=share)
        model = small(epsilon=50.0, config=settings, workload=[SCHEMA.names[:2]]).fit(frame())
        details = model.certificate()["mechanisms"][-1]["details"]
        assert (details["triples"], details["pairs"]) == (triples, 6)


def test_a_workload_names_modelled_columns() -> None:
    """A column that is modelled by a difference, or derived, is refused with what to name in its place."""
    numbers = [Column(name=name, kind="numeric", dtype="int64", low=0, high=9) for name in "abcd"]
    rules = [
        {"order": ["a", "b"], "difference": {"high": 9}},
        {"derive": "d", "expression": "a + c"},
    ]
    schema = Schema(numbers, constraints=rules)
    assert MargNet(schema, epsilon=1.0, workload=[("b - a", "c")]).plan(estimate_time=False).spends
    for hints, says in (
        ({"workload": [("b", "c")]}, "'b', which is modelled by a difference; name 'b - a'."),
        ({"target": "b"}, "'b', which is modelled by a difference; name 'b - a'."),
        ({"workload": [("d", "b - a")]}, "'d', which follows from others by a rule; name 'a' and 'c'."),
    ):  # fmt: skip
        with pytest.raises(InputError) as error:
            MargNet(schema, epsilon=1.0, **hints).plan(estimate_time=False)
        assert says in str(error.value)


def test_no_matrix_is_held_of_columns_that_no_pair_has(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three columns of 1,000 codes, with memory for pairs of groups by the hundred."""
    widths = list[int]()
    original = CountLoss.__init__

    def init(self: CountLoss, *given: Any, **named: Any) -> None:
        original(self, *given, **named)
        widths.append(self.terms[0].groups.width)

    monkeypatch.setattr(CountLoss, "__init__", init)
    rng = np.random.default_rng(0)
    table = pd.DataFrame({c: rng.integers(0, 1000, 3000) for c in "abc"})
    table = table.assign(x=rng.integers(0, 2, 3000), y=rng.integers(0, 2, 3000))
    columns = [
        Column(name=c, kind="categorical", dtype="int64", categories=tuple(range(size)))
        for c, size in zip("abcxy", (1000, 1000, 1000, 2, 2), strict=True)
    ]
    MargNet(Schema(columns), epsilon=10_000.0, config=config(memory=1)).fit(table)
    assert {*widths} == {3 + 2 + 2}


def test_wide_columns_are_counted_alone() -> None:
    """A limit on cells decides; the certificate says how many pairs were counted."""
    seen: list[Measured] = []
    with pytest.MonkeyPatch.context() as patch:
        original = NoisyCounts.measure

        def measure(*given: Any) -> list[Measured]:
            seen[:] = original(*given)
            return seen

        patch.setattr(NoisyCounts, "measure", measure)
        model = small(epsilon=50.0, random_state=0, config=config(max_cells=30)).fit(frame())
    pairs = [m for m in seen if len(m.columns) == 2]
    assert model.certificate()["mechanisms"][-1]["details"]["pairs"] == len(pairs) < 6
    assert all(m.counts.size <= 30 for m in seen if len(m.columns) > 1)
    with pytest.raises(InputError, match=r"too many for one-hot.* with 'other' for the rest"):
        wide = Column(name="w", kind="categorical", dtype="int64", categories=tuple(range(5000)))
        small(Schema([wide])).plan(estimate_time=False)


def test_settings_of_earlier_files_are_left_out() -> None:
    settings = asdict(MargNetConfig())
    config = {**settings, "interaction_groups": 4, "workload": None, "target": None}
    parameters = MargNet.parameters_from(SCHEMA, {"config": config})
    assert parameters == {"workload": None, "target": None, "config": MargNetConfig()}
