"""Conditions of every method: rows are drawn until enough satisfy them, and all rules stay."""

import inspect
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from fitted_tables import SCHEMA, frame, small, small_acgan, small_dpgan, small_pate
from hypothesis import given, settings
from hypothesis import strategies as st

from tabsynth import (
    DPWGAN,
    Categorical,
    Date,
    Identifier,
    InputError,
    MargNet,
    Numeric,
    Schema,
    load,
)
from tabsynth.synthesizers import METHODS, MargNetConfig, conditions
from tabsynth.synthesizers.conditions import Condition

torch.set_num_threads(1)

HOSPITAL = Schema(
    [
        Categorical(name="ward", dtype="str", categories=("a", "b", "c")),
        Categorical(name="wing", dtype="str", categories=("left", "right")),
        Numeric(name="dbp", dtype="int64", low=30, high=159, bins=13),
        Numeric(name="sbp", dtype="int64", low=60, high=239, bins=18),
        Date(name="birth", dtype="str", low="1950-01-01", high="1989-12-31", bins=8),
        Date(name="visit", dtype="str", low="2019-01-01", high="2019-12-31", bins=12),
        Numeric(name="age", dtype="int64", low=0, high=100),
        Identifier(name="mrn", dtype="str", pattern="M{6 digits}"),
    ],
    constraints=[
        {"derive": "wing", "from": "ward", "table": {"a": "left", "b": "left", "c": "right"}},
        {"derive": "age", "expression": "years(birth, visit)"},
        {"order": ["dbp", "sbp"], "strict": True},
    ],
)


def patients(rows: int = 300) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    ward = pd.Series(rng.choice(["a", "b", "c"], rows))
    birth = pd.Timestamp("1950-01-01") + pd.to_timedelta(rng.integers(0, 14_600, rows), "D")
    visit = pd.Timestamp("2019-01-01") + pd.to_timedelta(rng.integers(0, 365, rows), "D")
    before = (visit.month < birth.month) | ((visit.month == birth.month) & (visit.day < birth.day))
    dbp = rng.integers(60, 110, rows)
    return pd.DataFrame(
        {
            "ward": ward,
            "wing": ward.map({"a": "left", "b": "left", "c": "right"}),
            "dbp": dbp,
            "sbp": dbp + rng.integers(1, 60, rows),
            "birth": birth.strftime("%Y-%m-%d"),
            "visit": visit.strftime("%Y-%m-%d"),
            "age": (visit.year - birth.year - before).astype("int64"),
            "mrn": [f"M{i:06}" for i in range(rows)],
        }
    )


@pytest.fixture(scope="module", params=["margnet", "dp-wgan"])
def hospital(request: pytest.FixtureRequest) -> Any:
    if request.param == "margnet":
        config = MargNetConfig(components=20, latent_dim=5, hidden=(8,), steps=30)
        return MargNet(HOSPITAL, epsilon=math.inf, config=config).fit(patients())
    return small(HOSPITAL, epsilon=math.inf, autoencoder=None).fit(patients())


def test_every_method_has_the_same_signature() -> None:
    own = {"implicates"}  # of margnet
    for method in METHODS.values():
        parameters = inspect.signature(method.sample).parameters
        names = [name for name in parameters if name not in own]
        assert names == ["self", "n", "where", "max_draws", "random_state", "dataframe", "weights"]


@pytest.mark.parametrize("make", [small, small_dpgan, small_pate, small_acgan])
def test_all_rows_satisfy_a_condition(make: Any, tmp_path: Path) -> None:
    model = make(random_state=0).fit(frame())
    where = {"k": ["x", "y"], "b": True, "v": [{"low": 3, "high": 12}, None], "r": 0.3}
    made = model.sample(40, where=where, random_state=5)
    SCHEMA.check_columns(made)
    assert len(made) == 40 and made.index.equals(pd.RangeIndex(40))
    assert made["k"].isin(["x", "y"]).all() and made["b"].all()
    assert made["r"].between(0.25, 0.5).all()
    assert (made["v"].between(3, 12) | made["v"].isna()).all() and made["v"].nunique() > 3
    assert made.attrs["certificate"]["condition"] == {
        "k": ["x", "y"],
        "b": [True],
        "v": [{"low": 3, "high": 12}, None],
        "r": [{"low": 0.25, "high": 0.5}],
    }
    json.dumps(made.attrs["certificate"])
    pd.testing.assert_frame_equal(model.sample(40, where=where, random_state=5), made)
    assert not model.sample(40, where=where, random_state=6).equals(made)
    model.save(tmp_path / "m")
    again = load(tmp_path / "m").sample(40, where=where, random_state=5)
    pd.testing.assert_frame_equal(again, made)


@pytest.mark.slow
def test_rejection_keeps_the_distribution_of_the_other_columns() -> None:
    """Rows of a condition are those that an unconditional sample has."""
    model = small(random_state=0, epsilon=math.inf).fit(frame(200))
    every = model.sample(30_000, random_state=1)
    every = every[(every["k"] == "x") & every["v"].between(3, 6).fillna(False)]
    made = model.sample(5_000, where={"k": "x", "v": {"low": 3, "high": 6}}, random_state=2)
    assert made["b"].mean() == pytest.approx(every["b"].mean(), abs=0.04)
    shares, wanted = (t["v"].value_counts(normalize=True) for t in (made, every))
    assert (shares - wanted).abs().max() < 0.04


def test_rules_hold_and_computed_columns_are_conditions(hospital: Any) -> None:
    where = {"wing": "left", "age": {"low": 40, "high": 49}, "sbp": [{"low": 70, "high": 104}, 110]}
    made = hospital.sample(60, where=where)
    assert len(made) == 60 and set(made["wing"]) == {"left"} and set(made["ward"]) <= {"a", "b"}
    assert made["age"].between(40, 49).all() and not (made["dbp"] >= made["sbp"]).any()
    assert (made["sbp"].between(70, 104) | (made["sbp"] == 110)).all()
    assert not any(rule.violations(made).any() for rule in HOSPITAL.rules)
    assert made["mrn"].is_unique and made["mrn"].str.fullmatch(r"M\d{6}").all()
    assert made.attrs["certificate"]["condition"]["age"] == [{"low": 40, "high": 49}]
    dates = hospital.sample(20, where={"visit": {"low": "2019-03-05", "high": "2019-03-20"}})
    assert dates["visit"].between("2019-03-05", "2019-03-20").all()
    with pytest.raises(InputError, match="column 'mrn' is not learned"):
        hospital.sample(5, where={"mrn": "M000001"})


def test_a_value_that_an_order_moves_is_not_kept(hospital: Any) -> None:
    """Both values are drawn in one cell, and drawn again where they break the order: then the condition does, too."""
    made = hospital.sample(30, where={"sbp": 105, "dbp": {"low": 100, "high": 109}})
    assert set(made["sbp"]) == {105} and made["dbp"].between(100, 104).all()


@pytest.mark.parametrize("most", [1, 700, 2_500])
def test_a_rare_condition_is_one_line(most: int) -> None:
    model = small().fit(frame())
    where = {"k": "z", "v": 3, "b": True, "r": {"low": -1, "high": -0.75}}
    with pytest.raises(InputError) as error:
        model.sample(2_000, where=where, max_draws=most)
    text = str(error.value)
    assert "\n" not in text and f"of {most:,} rows that were drawn" in text
    for part in ("is too rare", "2,000 were asked for", "max_draws=", "margnet"):
        assert part in text
    found = int(text.split(" satisfy it")[0].split()[-1].replace(",", ""))
    assert 0 <= found < most
    for wrong in (0, -1, 1.5, "9"):
        with pytest.raises(InputError, match="max_draws to be a whole number"):
            model.sample(5, where=where, max_draws=wrong)  # type: ignore[arg-type]


def test_by_default_a_hundred_rows_are_drawn_for_each(monkeypatch: pytest.MonkeyPatch) -> None:
    model = small().fit(frame())
    monkeypatch.setattr(conditions, "MOST_DRAWS", 3_000)
    never = {"k": "z", "v": 3, "r": 0.3, "b": True}
    with pytest.raises(InputError, match="of 10,000 rows that were drawn"):
        model.sample(100, where=never)
    with pytest.raises(InputError, match="of 3,000 rows that were drawn"):
        model.sample(7, where={**never, "r": [-0.9, -0.4]})


@settings(max_examples=40, deadline=None)
@given(
    numbers=st.lists(st.integers(0, 20), min_size=1, max_size=4),
    ends=st.tuples(st.integers(0, 20), st.integers(0, 20)),
    null=st.booleans(),
    bins=st.integers(1, 21),
)
def test_values_satisfy_what_codes_allow(
    numbers: list[int], ends: tuple[int, int], null: bool, bins: int
) -> None:
    """Any numbers, a range and null, in cells of any width: by codes and by values, against plain Python."""
    column = Numeric(name="v", dtype="Int64", low=0, high=20, bins=bins, nulls=True)
    low, high = min(ends), max(ends)
    where = {"v": [*numbers, {"low": low, "high": high}, *([None] if null else [])]}
    condition = Condition(Schema([column]), where)
    values = pd.Series([*range(21), None], dtype="Int64")
    wanted = [v in numbers or low <= v <= high for v in range(21)] + [null]
    assert condition.allows(pd.DataFrame({"v": values})).tolist() == wanted
    codes = column.encode(values)
    share = pd.Series(wanted).groupby(codes).mean()
    np.testing.assert_allclose(condition.box[0].astype(float), share.to_numpy(), atol=1e-9)
    rng = np.random.default_rng(0)
    index = np.repeat(codes, 20)[:, None]
    kept = index[condition.allows_codes(index, rng)][:, 0]
    decoded = column.decode(kept, rng, condition.within.get("v"))
    assert condition.allows(pd.DataFrame({"v": decoded})).all()


def test_conditions_of_a_loaded_gan_in_a_file(tmp_path: Path) -> None:
    model: DPWGAN = small().fit(frame())
    model.sample_to(tmp_path / "t.parquet", 20, where={"k": "y"}, random_state=4)
    made = pd.read_parquet(tmp_path / "t.parquet")
    assert set(made["k"]) == {"y"} and len(made) == 20
    beside = json.loads((tmp_path / "t.parquet.certificate.json").read_text())
    assert beside["condition"] == {"k": ["y"]}
