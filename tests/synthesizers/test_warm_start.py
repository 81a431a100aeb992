"""Warm starts: what was spent before counts, its samples are free, and nothing is counted twice."""

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from fitted_tables import SCHEMA, coder, facts, frame, small, small_dpgan, stop_at
from test_budget import by_pld

from tabsynth import DPGAN, DPWGAN, BudgetError, InputError, MargNet, Schema, load
from tabsynth.privacy.accounting.accountants import PrivacyFilter
from tabsynth.privacy.certificate.verification import verify
from tabsynth.privacy.ledger.ledger import PrivateTable, as_earlier
from tabsynth.schema import Column
from tabsynth.synthesizers.adversarial import public as released
from tabsynth.synthesizers.adversarial.critic import WGANConfig
from tabsynth.synthesizers.margnet.config import MargNetConfig

torch.set_num_threads(1)


@pytest.fixture(scope="module")
def margnet() -> MargNet:
    config = MargNetConfig(components=30, steps=20, hidden=(16,))
    return MargNet(SCHEMA, epsilon=2.0, config=config).fit(frame())


def test_fewer_rows_of_a_wide_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(released, "RELEASED_ROWS", 50_000)
    assert released.released_rows(100) == 50_000
    assert released.released_rows(2_500) == 10_000
    assert released.released_rows(10**7) == 1_000


@pytest.mark.slow
@pytest.mark.parametrize("build", [small, small_dpgan])
@pytest.mark.parametrize("rate", [1.0, 0.3])
def test_the_same_total(build: Any, rate: float, margnet: MargNet, tmp_path: Path) -> None:
    """R7, R23: MargNet at 2 of 3, the rest for private steps, composed to 3 by a filter that 3 fixes."""
    model = build(rate=rate, warm_start=margnet)
    plan = model.plan(estimate_time=False)
    model.fit(frame())
    certificate = model.certificate()
    assert certificate["epsilon"] == plan.epsilon == 3.0 and plan.accountant == "Rényi filter"
    kept = PrivacyFilter.of(3.0, 1e-5)
    assert 0.99 < kept.share(model.ledger_.spends()) <= 1 + 1e-9
    assert 2.7 < by_pld(model) < 3.0
    assert certificate["accountant"]["order"] == kept.order
    first, second, third, *own = certificate["mechanisms"]
    counted = margnet.certificate()["mechanisms"]
    for ours, theirs in zip((first, second, third), counted, strict=True):
        assert ours["purpose"] == theirs["purpose"]
        assert ours["noise_multiplier"] == theirs["noise_multiplier"]
        assert ours["details"]["warm_start"] == "margnet"
    assert [i["purpose"] for i in own] == ["row count", "critic"]
    warm_start = certificate["public"]["warm_start"]
    assert (
        warm_start["method"] == "margnet"
        and warm_start["public"] == margnet.certificate()["public"]
    )
    assert first["details"]["sha256_of_weights"] == warm_start["sha256_of_weights"]
    model.sample_to(tmp_path / "t.csv", 20)
    assert verify(tmp_path / "t.csv").consistent


def test_the_released_table_is_free(margnet: MargNet) -> None:
    """As many reads of private rows as uses on the ledger: none by the autoencoder or the warm-up."""
    reads: list[str] = []
    stages: set[str] = set()
    with pytest.MonkeyPatch.context() as patch:
        original = PrivateTable.read

        def read(table: PrivateTable[Any], account: Any) -> Any:
            if math.isfinite(table.ledger.epsilon):
                reads.append(account.purpose)
            return original(table, account)

        patch.setattr(PrivateTable, "read", read)
        model = small(warm_start=margnet, autoencoder="public").fit(
            frame(), progress=lambda stage, *_: stages.add(stage)
        )
    assert stages == {"autoencoder", "released marginals", "warm start", "critic"}
    assert sorted(reads) == ["critic"] * 8 + ["row count"]
    assert {i["purpose"]: i["count"] for i in model.certificate()["mechanisms"][3:]} == {
        "row count": 1,
        "critic": 8,
    }
    assert any("warm start" in name for name in model.model_.curves)


@pytest.mark.slow
def test_what_the_presets_do_after_one(margnet: MargNet) -> None:
    """No autoencoder, and fewer private steps; a public table trains one, and changes no number."""
    for model in (
        DPWGAN(SCHEMA, epsilon=3.0, warm_start=margnet),
        DPGAN(SCHEMA, epsilon=3.0, warm_start=margnet),
    ):
        spends = {s.purpose: s.count for s in model.plan(estimate_time=False).spends}
        assert spends == {"row count": 1, "critic": 400}
    model = DPWGAN(SCHEMA, epsilon=3.0, public=frame(5), public_source="made up")
    spends = {s.purpose: s.count for s in model.plan(estimate_time=False).spends}
    assert spends == {"one-way counts": 1, "critic": WGANConfig().step.count}
    assert {"autoencoder", "warm start"} <= {*model.make_method(SCHEMA).free_steps()}


def test_a_loaded_model_is_a_warm_start(margnet: MargNet, tmp_path: Path) -> None:
    margnet.save(tmp_path / "m")
    model = small_dpgan(warm_start=load(tmp_path / "m")).fit(frame())
    assert model.certificate()["epsilon"] == 3.0
    model.save(tmp_path / "n")
    loaded = load(tmp_path / "n")
    assert facts(loaded) == facts(model)
    with pytest.raises(BudgetError, match="already spent"):
        loaded.fit(frame())


def test_nothing_left_is_one_line(margnet: MargNet) -> None:
    for epsilon in (1.0, 2.0, 2.02):
        model = small_dpgan(warm_start=margnet, epsilon=epsilon)
        with pytest.raises(BudgetError, match="nothing is left for private steps") as error:
            model.fit(frame())
        assert "\n" not in str(error.value) and not hasattr(model, "ledger_")
    free = small(epsilon=math.inf).fit(frame())
    with pytest.raises(BudgetError, match="epsilon=inf"):
        small_dpgan(warm_start=free, epsilon=100.0).fit(frame())
    assert small_dpgan(warm_start=free, epsilon=math.inf).fit(frame()).ledger_.spent == math.inf


def test_a_refit_counts_the_warm_start_once(margnet: MargNet) -> None:
    """R7: it is on the ledger of the first fit already; another warm start comes on top."""
    model = small_dpgan(warm_start=margnet).fit(frame())
    first = model.certificate()["mechanisms"]
    with pytest.raises(BudgetError, match="already spent"):
        model.fit(frame())
    model.set_params(epsilon=5.0).fit(frame())
    listed = model.certificate()["mechanisms"]
    assert listed[: len(first)] == as_earlier(first) and len(listed) == len(first) + 2
    assert PrivacyFilter.of(5.0, 1e-5).share(model.ledger_.spends()) > 0.99
    assert 4.5 < by_pld(model) < 5.0 == model.certificate()["epsilon"]
    config = MargNetConfig(components=30, steps=20, hidden=(16,))
    other = MargNet(SCHEMA, epsilon=2.0, config=config).fit(frame())
    model.set_params(epsilon=8.0, warm_start=other).fit(frame())
    second = model.certificate()["mechanisms"]
    assert len(second) == len(listed) + 5
    assert sum(i["details"].get("warm_start") == "margnet" for i in second) == 6
    assert by_pld(model) < 8.0 == model.certificate()["epsilon"]


def test_a_seeded_warm_start_marks_the_certificate() -> None:
    """R17: whoever knows the seed can subtract the noise of the first release."""
    seeded = small(epsilon=1.0, random_state=3).fit(frame())
    model = small_dpgan(warm_start=seeded).fit(frame())
    assert model.certificate()["private"] is False and model.certificate()["seeded"] is True
    assert small_dpgan(warm_start=small(epsilon=1.0).fit(frame())).fit(frame()).seeded_ is False


def test_other_schemas_and_sources_are_refused(margnet: MargNet) -> None:
    columns = [*SCHEMA.columns[:3], Column(name="b", kind="ordinal", dtype="bool", categories=(True, False))]  # fmt: skip
    for schema in (Schema(columns), Schema(SCHEMA.columns[:2])):
        with pytest.raises(InputError, match="another schema"):
            small_dpgan(schema, warm_start=margnet).plan()
    with pytest.raises(InputError, match="not both"):
        small_dpgan(warm_start=margnet, public=frame(5), public_source="x").plan()


def test_a_plan_with_times(margnet: MargNet) -> None:
    plan = small(warm_start=margnet, autoencoder_config=coder(step__count=20)).plan()
    assert plan.seconds is not None and 0 < plan.seconds < 60


@pytest.mark.parametrize("encoding", ["binary", "ordinal"])
def test_another_encoding_than_the_warm_start(encoding: str, margnet: MargNet) -> None:
    model = small_dpgan(warm_start=margnet, network_encoding=encoding).fit(frame())
    assert len(model.sample(4)) == 4


@pytest.mark.slow
@pytest.mark.parametrize("stage", ["released marginals", "warm start", "critic"])
def test_a_killed_fit_goes_on(stage: str, margnet: MargNet, tmp_path: Path) -> None:
    """From a checkpoint, with what each stage keeps; the warm start counts once."""
    config = {"step__rule": "dp-sat"}

    with pytest.raises(RuntimeError):
        small_dpgan(warm_start=margnet, config=config).fit(
            frame(), checkpoint=tmp_path / "c", progress=stop_at(stage, 2)
        )
    model = small_dpgan(warm_start=margnet, config=config)
    model.fit(frame(), checkpoint=tmp_path / "c")
    listed = {i["purpose"]: i["count"] for i in model.certificate()["mechanisms"]}
    assert listed["row count"] == 1 and listed["critic"] == 8 and len(listed) == 5
    assert 2.7 < by_pld(model) < 3.0 == model.certificate()["epsilon"]
    other = small_dpgan(warm_start=small(epsilon=1.0).fit(frame()), config=config)
    with pytest.raises(InputError):
        other.fit(frame(), checkpoint=tmp_path / "c")


def test_a_fit_is_not_resumed_from_another_warm_start(margnet: MargNet, tmp_path: Path) -> None:
    """R7: the object that began the fit may resume it; the charges of another warm start would be on no ledger."""
    other = MargNet(SCHEMA, epsilon=2.0, config=margnet.config).fit(frame(7))

    model = small_dpgan(warm_start=margnet)
    with pytest.raises(RuntimeError):
        model.fit(frame(), checkpoint=tmp_path / "c", progress=stop_at("critic", 2))
    model.set_params(warm_start=other)
    with pytest.raises(InputError, match="another fit"):
        model.fit(frame(), checkpoint=tmp_path / "c")
    model.set_params(warm_start=margnet).fit(frame(), checkpoint=tmp_path / "c")
    assert model.certificate()["epsilon"] == 3.0
