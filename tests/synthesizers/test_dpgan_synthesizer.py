"""DPGAN as a user meets it: variants, files, refusals."""

import hashlib
import math
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from fitted_tables import SCHEMA, frame, row, small_dpgan
from record_replay import replay
from sklearn.base import clone
from systems.form import with_weight

from tabsynth import DPGAN, TabsynthError
from tabsynth.privacy.accounting.mechanisms import NoPrivacy
from tabsynth.privacy.ledger.ledger import Ledger, PrivateTable
from tabsynth.privacy.noise.counts import interval
from tabsynth.synthesizers.adversarial.public import noisy_overlap

torch.set_num_threads(1)


def test_other_optimizers_train() -> None:
    config = {"critic__optimizer": "nadam", "generator__optimizer": "sgd"}
    assert len(small_dpgan(config=config, rows=60).fit(frame()).sample(5)) == 5


def test_a_clone_keeps_its_warm_start() -> None:
    warm = small_dpgan(epsilon=1.0).fit(frame())
    assert clone(small_dpgan(warm_start=warm, epsilon=4.0)).warm_start is warm


BAD: list[dict[str, Any]] = [
    *({"variant": v} for v in ("medium", None, ["basic"])),
    *({"config": v} for v in (5, {}, "advanced")),
    {"public": frame(4).assign(b="maybe"), "public_source": "x"},
    {"warm_start": small_dpgan()},  # not fitted
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
