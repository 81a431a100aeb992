"""DPGAN as a user meets it: variants, files, refusals."""

import hashlib
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from fitted_tables import SCHEMA, frame, row, small_dpgan
from record_replay import replay

from tabsynth import DPGAN, TabsynthError

torch.set_num_threads(1)


def test_other_optimizers_train() -> None:
    config = {"critic__optimizer": "nadam", "generator__optimizer": "sgd"}
    assert len(small_dpgan(config=config, rows=60).fit(frame()).sample(5)) == 5


BAD: list[dict[str, Any]] = [
    *({"variant": v} for v in ("medium", None, ["basic"])),
    *({"config": v} for v in (5, {}, "advanced")),
    {"public": frame(4).assign(b="maybe"), "public_source": "x"},
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
