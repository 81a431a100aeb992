"""Conditions on linked tables, and dates that increase within a group."""

import math

import numpy as np
import pandas as pd
import pytest
from linked_tables import TINY

from tabsynth import (
    Categorical,
    Date,
    InputError,
    LinkedMargNet,
    Numeric,
    Ordinal,
    Schema,
    load,
    verify,
)
from tabsynth.schema.linked import LinkedSchema
from tabsynth.synthesizers import MargNetConfig
from tabsynth.synthesizers.linked import network

HOMES = Schema(
    [
        Ordinal(name="rooms", dtype="int64", categories=(1, 2, 3, 4)),
        Numeric(name="rent", dtype="int64", low=0, high=999, bins=4, resolution=1),
        Categorical(name="kind", dtype="str", categories=("flat", "house")),
    ],
    impossible=[{"rooms": [1], "kind": ["house"]}],
)
STAYS = Schema(
    [
        Date(name="in", dtype="datetime64[s]", low="2020-01-01", high="2023-12-31", bins=24),
        Categorical(name="ward", dtype="str", categories=("a", "b")),
    ]
)


def linked():
    return LinkedSchema(
        {"homes": HOMES, "stays": STAYS},
        keys={
            "homes": {"key": "home"},
            "stays": {
                **{"key": "stay", "parent": "homes", "parent_key": "home"},
                **{"order": "in", "max_children": 4},
            },
        },
    )


def given(homes=300):
    """Homes with as many stays as rooms, of which the first is in 2020 or 2021; the next follow after 30 to 300 days."""
    rng = np.random.default_rng(0)
    rooms = rng.integers(1, 5, homes)
    kind = np.where((rooms > 2) & (rng.random(homes) < 0.7), "house", "flat")
    first = rng.integers(0, 700, homes)
    rows = [
        (home, first[home] + stay * int(rng.integers(30, 250)), "a" if stay == 0 else "b")
        for home in range(homes)
        for stay in range(rooms[home])
    ]
    stays = pd.DataFrame(rows, columns=["home", "in", "ward"])
    stays["in"] = (pd.Timestamp("2020-01-01") + pd.to_timedelta(stays["in"], unit="D")).astype(
        "datetime64[s]"
    )
    table = pd.DataFrame(
        {
            "home": np.arange(homes),
            "rooms": rooms,
            "rent": rng.integers(0, 1000, homes),
            "kind": kind,
        }
    )
    return {"homes": table, "stays": stays.assign(stay=np.arange(len(stays))).sample(frac=1)}


@pytest.fixture(scope="module")
def fitted():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(network, "CONTEXTS", 256)
        patch.setattr("tabsynth.synthesizers.linked.generator.GROUPS", 300)
        config = MargNetConfig(components=100, steps=300, hidden=(32,), latent_dim=16)
        return LinkedMargNet(linked(), epsilon=math.inf, random_state=0, config=config).fit(given())


@pytest.mark.slow
def test_rows_of_the_root_satisfy_a_condition(fitted, tmp_path):
    where = {"homes": {"rooms": [3, 4], "rent": {"low": 100, "high": 180}}}
    made = fitted.sample(400, where=where, random_state=1)
    homes, stays = made["homes"], made["stays"]
    assert len(homes) == 400 and homes["rooms"].isin([3, 4]).all()
    assert homes["rent"].between(100, 180).all() and homes["rent"].nunique() > 40
    assert stays["home"].isin(homes["home"]).all() and homes["home"].is_unique
    for table in made.values():
        assert table.attrs["certificate"]["condition"] == {
            "homes.rooms": [3, 4],
            "homes.rent": [{"low": 100, "high": 180}],
        }
    # What hangs on a root row follows from it: homes of many rooms have as many stays.
    few = fitted.sample(400, where={"homes": {"rooms": 1}}, random_state=1)
    assert (few["homes"]["kind"] == "flat").all()  # one room in a house is impossible
    assert len(stays) > 2.5 * len(few["stays"])
    fitted.sample_to(tmp_path / "made", 20, where=where)
    assert verify(tmp_path / "made" / "homes.csv").certificate["condition"]["homes.rooms"] == [3, 4]
    assert len(fitted.sample(5, where={})["homes"]) == 5


@pytest.mark.slow
def test_a_condition_is_that_of_a_filtered_sample(fitted):
    """By Bayes' rule: the same as of many rows those that satisfy it."""
    drawn = fitted.sample(8000, random_state=2)
    kept = drawn["homes"]["kind"] == "house"
    direct = fitted.sample(5000, where={"homes": {"kind": "house"}}, random_state=3)
    for column in ("rooms", "rent"):
        one, other = drawn["homes"].loc[kept, column], direct["homes"][column]
        assert one.mean() == pytest.approx(other.mean(), abs=0.07 * one.std())
    sizes = drawn["stays"]["home"].isin(drawn["homes"].loc[kept, "home"]).sum() / kept.sum()
    assert len(direct["stays"]) / 5000 == pytest.approx(sizes, rel=0.05)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("where", "message"),
    [
        ({"rooms": 3}, "dict from the root, 'homes'"),
        ({"stays": {"ward": "a"}}, "dict from the root, 'homes'"),
        ({"homes": {"floor": 3}}, "which the schema lacks"),
        ({"homes": {"rooms": 9}}, "has no value 9"),
        ({"homes": {"rooms": 1, "kind": "house"}}, "is impossible by the schema"),
        ({"homes": 3}, "Expected where to be a dict"),
        ("rooms=3", "Expected where to be a dict from the root, 'homes'"),
    ],
)
def test_other_conditions_are_refused(fitted, where, message):
    with pytest.raises(InputError, match=message) as refused:
        fitted.sample(5, where=where)
    assert "\n" not in str(refused.value)


@pytest.mark.slow
def test_dates_increase_within_a_group(fitted, tmp_path):
    """By the order column, in the file of a model too; other columns go with their dates."""
    fitted.save(tmp_path / "m")
    for model in (fitted, load(tmp_path / "m")):
        made = model.sample(500, random_state=4)["stays"]
        gaps = made.groupby("home")["in"].diff().dropna().dt.days
        assert len(gaps) > 300 and (gaps >= 0).all() and (gaps > 0).mean() > 0.9
        real = given()["stays"].sort_values("in").groupby("home")["in"].diff().dropna().dt.days
        assert gaps.mean() == pytest.approx(real.mean(), rel=0.4)
        first = made.groupby("home")["ward"].first()
        assert (first == "a").mean() > 0.9 and (made["ward"] == "b").mean() > 0.4


def test_dates_increase_in_a_fit_of_a_moment(monkeypatch):
    """Whatever the model has learned."""
    monkeypatch.setattr(network, "CONTEXTS", 64)
    monkeypatch.setattr("tabsynth.synthesizers.linked.generator.GROUPS", 50)
    made = LinkedMargNet(linked(), epsilon=1.0, config=TINY).fit(given(40)).sample(200)["stays"]
    gaps = made.groupby("home")["in"].diff().dropna().dt.days
    assert len(gaps) and (gaps >= 0).all()


def visits(stays=STAYS, **keys):
    """Stays that have a number, which orders them, and a date, which rises with it."""
    numbers = {"order": "visit", "increasing": ["in"], **keys}
    return LinkedSchema(
        {"homes": HOMES, "stays": stays},
        keys={
            "homes": {"key": "home"},
            "stays": {
                **{"key": "stay", "parent": "homes", "parent_key": "home", "max_children": 4},
                **numbers,
            },
        },
    )


@pytest.mark.parametrize("order", ["visit", "ward"])
def test_dates_beside_an_order_increase(order, monkeypatch, tmp_path):
    """Of a column that is not modelled, and of one that is; the file of the schema keeps what was declared."""
    monkeypatch.setattr(network, "CONTEXTS", 64)
    monkeypatch.setattr("tabsynth.synthesizers.linked.generator.GROUPS", 50)
    tables = given(60)
    stays = tables["stays"].sort_values("in")
    tables["stays"] = stays.assign(visit=stays.groupby("home").cumcount() + 1)
    schema, real = visits(), tables
    if order == "ward":
        ordered = Ordinal(name="ward", dtype="str", categories=("a", "b"))
        schema = visits(Schema([STAYS.columns[0], ordered]), order="ward")
        real = {**tables, "stays": tables["stays"].drop(columns="visit")}
    schema.save(tmp_path / "s")
    assert LinkedSchema.load(tmp_path / "s").keys["stays"].increasing == ("in",)
    model = LinkedMargNet(schema, epsilon=1.0, config=TINY).fit(real)
    made = model.sample(300)["stays"]
    gaps = made.groupby("home")["in"].diff().dropna().dt.days
    assert len(gaps) > 100 and (gaps >= 0).all() and (gaps > 0).any()
    assert made["in"].between("2020-01-01", "2023-12-31").all()
    if order == "visit":
        assert (made["visit"] == made.groupby("home").cumcount() + 1).all()
    else:
        assert (made.groupby("home")["ward"].apply(lambda w: w.is_monotonic_increasing)).all()


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"increasing": ["ward"]}, "not a learned column with an order"),
        ({"increasing": ["gone"]}, "not a learned column with an order"),
        ({"increasing": ["in"], "order": "in"}, "beside the column of the order"),
        ({"increasing": "in"}, "Expected increasing of keys to be a list of columns"),
    ],
)
def test_other_increasing_columns_are_refused(keys, message):
    with pytest.raises(InputError, match=message) as refused:
        visits(**keys)
    assert "\n" not in str(refused.value)


def test_an_increasing_column_in_a_rule_is_refused():
    out = Date(name="out", dtype="datetime64[s]", low="2020-01-01", high="2024-12-31", bins=24)
    ruled = Schema([*STAYS.columns, out], constraints=[{"order": ["in", "out"]}])
    with pytest.raises(InputError, match="is increasing and in the rule"):
        LinkedSchema({"homes": HOMES, "stays": ruled}, keys=visits().keys)
