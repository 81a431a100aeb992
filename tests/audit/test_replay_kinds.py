"""R1 for dates, times, heaped numbers, hierarchies, reasons for missing, and rules between columns."""

import numpy as np
import pandas as pd
import pytest
import torch
from record_replay import neighbours, replay
from systems import make_tiny_model

from tabsynth import (
    Categorical,
    Date,
    Datetime,
    Duration,
    Hierarchical,
    Identifier,
    Numeric,
    Period,
    Schema,
    Time,
)

torch.set_num_threads(1)
pytestmark = pytest.mark.usefixtures("accounting_in_no_time")
ROWS, EPSILON = 60, 60.0
CODES = tuple(f"{chapter}{number:03}" for chapter in "ABC" for number in range(700))
BERLIN = "datetime64[us, Europe/Berlin]"
COLUMNS = [
    Identifier(name="record", dtype="str", pattern="R-{6 digits}"),
    Date(name="admit", dtype="str", low="2020-01-01", high="2020-12-31", clip=True),
    Date(name="discharge", dtype="str", low="2020-01-01", high="2021-06-30", clip=True, nulls=True),
    Datetime(name="seen", dtype=BERLIN, low="2020-01-01", high="2020-12-31", clip=True),
    Time(name="triage", dtype="str"),
    Duration(name="surgery", dtype="timedelta64[us]", low="0h", high="8h", clip=True, nulls=True),
    Period(name="month", dtype="period[M]", low="2020-01", high="2020-12", clip=True),
    Numeric(name="systolic", dtype="int64", low=80, high=220, bins=20, clip=True, heaping=(10, 5)),
    Numeric(name="income", dtype="int64", low=0, high=900, clip=True, missing={"-8": "refused"}),
    Hierarchical(name="diagnosis", dtype="str", codes=CODES, levels=(1, 2), shorten=True, other="A000"),
    Categorical(name="ward", dtype="str", categories=("a", "b", "c", "other"), other="other"),
    Categorical(name="building", dtype="str", categories=("old", "new")),
    Categorical(name="sex", dtype="str", categories=("f", "m")),
    Categorical(name="pregnant", dtype="bool", categories=(False, True)),
]  # fmt: skip
RULES = [
    {"order": ["admit", "discharge"]},
    {"derive": "building", "from": "ward", "table": {"a": "old", "b": "old", "c": "new", "other": "new"}},
    {"if": {"pregnant": [True]}, "then": {"sex": ["f"]}},
]  # fmt: skip


def made_up(seed: int) -> pd.DataFrame:
    """Rows of all kinds, none of which breaks a rule."""
    rng = np.random.default_rng(seed)
    day = pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 300, ROWS), unit="D")
    stay = pd.to_timedelta(rng.integers(0, 60, ROWS), unit="D")
    hours = pd.Series(
        pd.to_timedelta(rng.integers(0, 480, ROWS), unit="min"), dtype=COLUMNS[5].dtype
    )
    ward = rng.choice(["a", "b", "c"], ROWS)
    sex = rng.choice(["f", "m"], ROWS)
    heaped = rng.integers(80, 200, ROWS)
    table = {
        "admit": pd.Series(day.strftime("%Y-%m-%d"), dtype="str"),
        "discharge": pd.Series((day + stay).strftime("%Y-%m-%d"), dtype="str"),
        "seen": pd.Series(day + pd.Timedelta("9h")).dt.tz_localize("UTC").astype(BERLIN),
        "triage": pd.Series([f"{h:02}:30" for h in rng.integers(0, 24, ROWS)], dtype="str"),
        "surgery": hours.mask(rng.random(ROWS) < 0.3),
        "month": pd.Series(day.to_period("M")),
        "systolic": np.where(rng.random(ROWS) < 0.7, heaped // 10 * 10, heaped),
        "income": np.where(rng.random(ROWS) < 0.2, -8, rng.integers(0, 900, ROWS)),
        "diagnosis": pd.Series(rng.choice(CODES, ROWS), dtype="str"),
        "ward": pd.Series(ward, dtype="str"),
        "building": pd.Series(np.where(ward == "c", "new", "old"), dtype="str"),
        "sex": pd.Series(sex, dtype="str"),
        "pregnant": (sex == "f") & (rng.random(ROWS) < 0.4),
    }  # fmt: skip
    return pd.DataFrame(table)


@pytest.mark.slow(cases=0)
@pytest.mark.parametrize(("name", "violations"), [("margnet", "repair"), ("dp-wgan", "drop")])
def test_replay_of_every_kind_and_rule(name: str, violations: str) -> None:
    """A record of unusual values of every kind, or one that breaks rules, moves noised inputs and nothing else."""
    schema = Schema(COLUMNS, constraints=RULES, violations=violations)
    table = made_up(0)
    broken = table.iloc[[0]].assign(
        admit="2020-12-31", discharge="2020-01-01", sex="m", pregnant=True
    )
    pairs = [
        (n.kind, pd.concat([n.table, broken]), pd.concat([n.neighbour, broken]))
        for n in neighbours(table, schema, seed=1)
    ]
    pairs.append(("breaks rules", table, pd.concat([table[:7], broken, table[7:]])))
    assert len(pairs) > 8
    for kind, one, other in [*pairs[:: 6 if name == "margnet" else 16], pairs[-1]]:
        model = make_tiny_model(name, schema, epsilon=EPSILON)
        tables = (one.reset_index(drop=True), other.reset_index(drop=True))
        result = replay(model, *tables, seed=3)
        assert result.passes, (kind, result.first_difference)
