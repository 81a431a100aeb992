"""DPGAN as a user meets it: variants, files, refusals."""

import hashlib
import inspect
import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from fitted_tables import SCHEMA, facts, frame, row, small_dpgan
from record_replay import replay
from sklearn.base import clone
from systems.form import with_weight

from tabsynth import DPGAN, TabsynthError, load
from tabsynth.privacy.accounting.mechanisms import NoPrivacy
from tabsynth.privacy.certificate.verification import verify
from tabsynth.privacy.ledger.ledger import Ledger, PrivateTable
from tabsynth.privacy.noise.counts import interval
from tabsynth.synthesizers.adversarial.dpgan import VARIANTS
from tabsynth.synthesizers.adversarial.public import noisy_overlap
from tabsynth.synthesizers.settings import with_settings

torch.set_num_threads(1)


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_variant_fits_saves_and_comes_back(variant: str, tmp_path: Path) -> None:
    model = small_dpgan(variant=variant).fit(frame())
    certificate = model.certificate()
    assert certificate["method"] == "dp-gan" and 2.98 < certificate["epsilon"] <= 3.0
    listed = {item["purpose"]: item["count"] for item in certificate["mechanisms"]}
    counts = "row count" if variant == "basic" else "one-way counts"
    assert listed == {counts: 1, "critic": 8}
    model.sample_to(tmp_path / "t.csv", 30)
    assert verify(tmp_path / "t.csv").consistent
    model.save(tmp_path / "m")
    loaded = load(tmp_path / "m")
    assert isinstance(loaded, DPGAN) and loaded.variant == variant
    assert facts(loaded) == facts(model) and loaded.config == model.config
    pd.testing.assert_frame_equal(
        model.sample(20, random_state=1), loaded.sample(20, random_state=1)
    )
    SCHEMA.check_columns(loaded.sample(5))


def test_a_released_count_refuses_no_fit(caplog: pytest.LogCaptureFixture) -> None:
    """R25: how many rows there are is known after a charge. Too few for the noised quantile's own noise
    make that noise larger, and are no reason to stop."""
    model = small_dpgan(epsilon=0.2)
    model.config = with_settings(
        model.make_method(SCHEMA).learning.config,
        clipping__bound="quantile",
        clipping__max_norm=1.0,
        step__sampling_rate=0.1,
    )
    model.fit(frame(6))
    assert model.ledger_.spent <= 0.2 and "noised quantile" in caplog.text
    assert {a.purpose: a.spent for a in model.ledger_.accounts}["critic"] == 8


@pytest.mark.parametrize("autoencoder", ["preset", "dp-sgd", "public"])
def test_with_an_autoencoder(autoencoder: str) -> None:
    public = frame(20, seed=2) if autoencoder == "public" else None
    public_source = "made up" if autoencoder == "public" else None
    model = small_dpgan(autoencoder=autoencoder, public=public, public_source=public_source).fit(
        frame()
    )
    listed = [item["purpose"] for item in model.certificate()["mechanisms"]]
    assert ("autoencoder" in listed) == (autoencoder != "public")
    assert any(name.startswith("decoder") for name in model.model_.weights())


@pytest.mark.slow
@pytest.mark.parametrize(
    "config",
    [
        {"step__rule": "bam"},
        {"step__rule": "dp-sat", "step__radius": 0.1},
        {"clipping__grouping": "clusters", "clipping__clusters": 2},
        {"clipping__bound": "quantile", "clipping__max_norm": 1.0},
        {"critic__per_generator": "adaptive"},
        {"critic__optimizer": "nadam", "generator__optimizer": "sgd"},
        {"step__physical_batch": 7},
    ],
    ids=repr,
)
def test_configurations_train(config: dict[str, Any]) -> None:
    model = small_dpgan(config=config, rate=0.5, rows=60).fit(frame())
    assert 2.9 < model.certificate()["epsilon"] <= 3.0 and len(model.sample(5)) == 5


def test_a_physical_batch_changes_nothing() -> None:
    """Rows that go through in parts, or at once: the same fit up to rounding."""
    config = {"clipping__bound": "fixed", "penalty": 1e-9}  # whose partners play no part
    results = [
        small_dpgan(
            config={**config, "step__physical_batch": size}, rows=60, random_state=1, device="cpu"
        )
        .fit(frame())
        .model_.weights()
        for size in (None, 13)
    ]
    for name, weight in results[0].items():
        torch.testing.assert_close(weight, results[1][name], rtol=1e-3, atol=1e-4)


@pytest.mark.slow
def test_clones() -> None:
    """A clone is not fitted; its warm start is kept as it is."""
    warm = small_dpgan(epsilon=1.0).fit(frame())
    model = small_dpgan(warm_start=warm, epsilon=4.0).fit(frame())
    copy = clone(model)
    assert copy.warm_start is warm and not hasattr(copy, "ledger_")
    assert copy.get_params(deep=False).keys() == model.get_params(deep=False).keys()
    ours = model.get_params(deep=False)
    assert ours.keys() == inspect.signature(DPGAN).parameters.keys()
    for argument in ours:  # the constructor only stores
        assert getattr(DPGAN(**{**ours, argument: "?"}), argument) == "?"


BAD: list[dict[str, Any]] = [
    *({"variant": v} for v in ("medium", None, ["basic"])),
    *({"config": v} for v in (5, {}, "advanced")),
    {"autoencoder": "public"},
    {"autoencoder": "no-noise"},
    {"public": frame(4)},
    {"public": frame(4), "public_source": ""},
    {"public": frame(4).assign(b="maybe"), "public_source": "x"},
    {"overlap": "charged"},
    {"overlap": "sometimes"},
    {"warm_start": 3},
    {"warm_start": small_dpgan()},  # not fitted
    {"epsilon": 0},
]


@pytest.mark.parametrize("change", BAD, ids=lambda change: repr(change)[:40].split("\n")[0])
@pytest.mark.parametrize("use", ["plan", "fit"])
def test_wrong_parameters_are_one_line(change: dict[str, Any], use: str) -> None:
    model = DPGAN(**{"schema": SCHEMA, "epsilon": 1.0, **change})
    with pytest.raises(TabsynthError) as error:
        model.plan(estimate_time=False) if use == "plan" else model.fit(frame(10))
    assert "\n" not in str(error.value) and len(str(error.value)) < 300
    assert not hasattr(model, "ledger_")


@pytest.mark.slow
def test_a_declared_public_table_is_not_compared_with_private_rows() -> None:
    """R25: that it equals the private table, or lacks one row of it, shows nowhere but in charged sums."""
    table, more = frame(), pd.concat([frame(), row("z", 20, 1.0)], ignore_index=True)
    model = small_dpgan(public=frame(), public_source="declared by its steward", epsilon=60.0)
    for one, other in ((table, more), (more, table)):
        result = replay(model, one, other)
        assert result.passes, result.first_difference
    public_facts = model.fit(table).certificate()["public"]["public_table"]
    index = np.ascontiguousarray(model.model_.encoder.to_index(frame()), dtype="<i8")
    assert public_facts == {
        "rows": len(table),
        "sha256_of_value_numbers": hashlib.sha256(index.tobytes()).hexdigest(),
        "provenance": "declared by its steward",
        "overlap": "declined: not counted",
    }


def exact_overlap(table: pd.DataFrame, public: pd.DataFrame) -> float:
    encoder = small_dpgan().fit(frame()).model_.encoder
    ledger = Ledger(math.inf, 1e-5)
    account = ledger.open("overlap", NoPrivacy(), 1)
    private = PrivateTable(encoder.to_index(table), ledger)
    return noisy_overlap(private, account, encoder.to_index(public), np.random.default_rng(0))


def test_the_overlap_is_a_count_of_sensitivity_1() -> None:
    """By pandas' own merge; and a row more changes it by 1 if it is public, else by 0."""
    table, public = frame(60), pd.concat([frame(60).iloc[:9], frame(30, seed=5)])
    public = pd.concat([public, public.iloc[:4]])  # doubles in the public table do not count twice
    result = exact_overlap(table, public)
    assert result >= 9 and result == exact_overlap(table, public.iloc[::-1])
    for extra, change in ((frame(60).iloc[:1], 1), (row("z", 20, 1.0), 0)):
        more = pd.concat([table, extra], ignore_index=True)
        assert exact_overlap(more, public) - result == change
    assert exact_overlap(table, row("z", 20, 1.0)) == 0


def test_the_overlap_on_the_certificate() -> None:
    public = pd.concat([frame(60).iloc[:20], frame(20, seed=5)], ignore_index=True)
    parameters = {"public": public, "public_source": "  the census of 1901  "}
    model = small_dpgan(**parameters, overlap="charged", epsilon=300.0).fit(frame())
    public_facts = model.certificate()["public"]["public_table"]
    assert public_facts["provenance"] == "  the census of 1901  " and public_facts["rows"] == 40
    count, noise = public_facts["overlap"]["noisy_count"], public_facts["overlap"]["noise_std"]
    assert abs(count - 20) < 6 * noise + 3  # 20, and a few by chance
    assert public_facts["overlap"]["interval"] == list(interval(count, noise, rounded=True))
    (spent,) = [
        item
        for item in model.certificate()["mechanisms"]
        if item["purpose"] == "overlap with the public table"
    ]
    assert (spent["count"], spent["noise_multiplier"]) == (1, noise)
    weighted = small_dpgan(with_weight(SCHEMA, 5.0), **parameters, overlap="charged", epsilon=300.0)
    low, high = weighted.fit(frame().assign(weight=5.0)).population_interval_
    assert low <= weighted.population_ <= high and high > 5 * 50
    declined = small_dpgan(**parameters).fit(frame()).certificate()
    assert declined["public"]["public_table"]["overlap"].startswith("declined")
    assert len(declined["mechanisms"]) == 2


@pytest.mark.slow
@pytest.mark.parametrize("rule", ["dp-sgd", "dp-sat", "bam"])
def test_step_rules_are_of_critic_and_autoencoder(rule: str) -> None:
    """One word for both; the price is the same, and the certificate says which."""
    model = DPGAN(SCHEMA, epsilon=3.0, step_rule=rule, autoencoder="dp-sgd")
    made = model.make_method(SCHEMA)
    assert (made.learning.config.step.rule, made.autoencoder.step.rule) == (rule, rule)
    plain = DPGAN(SCHEMA, epsilon=3.0, autoencoder="dp-sgd")
    assert model.plan(estimate_time=False).spends == plain.plan(estimate_time=False).spends
