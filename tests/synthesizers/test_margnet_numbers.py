"""Conditions on numeric columns whose cells hold several numbers: exact to the number."""

import json
import math
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tabsynth import InputError, MargNet, Schema
from tabsynth.schema import Column
from tabsynth.synthesizers.conditions import Condition, parse_where
from tabsynth.synthesizers.margnet.config import MargNetConfig
from tabsynth.synthesizers.margnet.estimator import boxes_of

torch.set_num_threads(1)


def numeric(name: str, dtype: str, low: float, high: float, **changes: Any) -> Column:
    return Column(name=name, kind="numeric", dtype=dtype, low=low, high=high, **changes)


SCHEMA = Schema(
    [
        numeric("age", "int64", 0, 99),  # 64 cells
        numeric("hours", "Int64", 0, 97, resolution=5, bins=6, nulls=True),
        numeric("rate", "float32", 0.1, 2, resolution=0.1, bins=3),
        numeric("real", "float64", 0, 1, bins=4),
        Column(name="g", kind="categorical", dtype="str", categories=("a", "b")),
        Column(name="o", kind="ordinal", dtype="str", categories=("few", "some", "many")),
    ],
    impossible=[{"hours": {"low": 0, "high": 10}, "g": ["b"]}],
)
NUMBERS: dict[str, list[Any]] = {
    "age": list(range(100)),
    "hours": list(range(0, 96, 5)),
    "rate": [round(0.1 * i, 1) for i in range(1, 21)],
}


@pytest.fixture(scope="module")
def model() -> MargNet:
    """Of a mixture that is far from independent."""
    rng = np.random.default_rng(0)
    hours = pd.array(rng.choice(NUMBERS["hours"][3:], 200), dtype="Int64")
    columns = {
        "age": rng.integers(0, 100, 200),
        "hours": hours,
        "rate": rng.choice(NUMBERS["rate"], 200).astype("float32"),
        "real": rng.random(200),
        "g": rng.choice(["a", "b"], 200),
        "o": rng.choice(["few", "many"], 200),
    }
    config = MargNetConfig(components=6, latent_dim=3, hidden=(4,), steps=2)
    estimator = MargNet(SCHEMA, epsilon=2.0, random_state=0, config=config).fit(
        pd.DataFrame(columns)
    )
    generator = estimator.model_.generator
    logits = 2 * torch.randn(6, generator.layout.width, generator=torch.Generator().manual_seed(1))
    blocks = generator.layout.blocks
    parts = [torch.softmax(logits[:, b.start : b.stop], 1) for b in blocks]
    generator.set(torch.cat(parts, 1))
    return estimator


def asked_of(name: str, alternatives: list[Any]) -> set[Any]:
    """The numbers that are asked for, one by one; None for null."""
    result: set[Any] = set()
    for requested in alternatives:
        if isinstance(requested, dict):
            result |= {n for n in NUMBERS[name] if requested["low"] <= n <= requested["high"]}
        else:
            result.add(requested)
    return result


def numbers(column: pd.Series) -> list[Any]:
    return [None if pd.isna(n) else round(float(n), 5) for n in column]


@st.composite
def alternatives(draw: st.DrawFn, name: str) -> list[Any]:
    one = st.sampled_from(NUMBERS[name])
    ends = st.tuples(one, one).map(sorted)
    some = one | ends.map(lambda pair: {"low": pair[0], "high": pair[1]})
    if name == "hours":
        some |= st.none()
    return draw(st.lists(some, min_size=1, max_size=4))


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_rows_have_the_very_numbers(model: MargNet, data: st.DataObject) -> None:
    names = data.draw(st.sets(st.sampled_from(list(NUMBERS)), min_size=1))
    where = {name: data.draw(alternatives(name)) for name in sorted(names)}
    synthetic = model.sample(60, where=where)
    SCHEMA.check_columns(synthetic)
    for name, requested in where.items():
        assert set(numbers(synthetic[name])) <= asked_of(name, requested)
    low = (synthetic["hours"] <= 10).fillna(False)
    assert not (low & (synthetic["g"] == "b")).any()
    assert json.loads(json.dumps(synthetic.attrs["certificate"]["condition"])) == where


WHERES: dict[str, dict[str, Any]] = {
    "one of a pair": {"age": [37]},
    "across cells": {"age": [{"low": 10, "high": 20}, 37, 38, 40]},
    "parts of long cells": {"hours": [10, 15, 35, 40, {"low": 80, "high": 97}, None]},
    "two columns": {"age": [36, 90, 91, 92], "rate": [{"low": 0.5, "high": 1.4}]},
}
VALUES = {**NUMBERS, "hours": [*NUMBERS["hours"], None], "g": ["a", "b"]}


def joint(model: MargNet) -> np.ndarray:
    """The probability of every number of ``VALUES`` with every other, where the schema allows it."""
    generator = model.model_.generator
    p = generator.probabilities.cpu().double().numpy()
    parts = []
    for name, values in VALUES.items():
        block = next(b for b in generator.layout.blocks if b.column == name)
        cells = np.arange(len(values))
        if name in NUMBERS:
            edges = SCHEMA[name].edges()
            expected = [edges[-1] if value is None else value for value in values]
            cells = np.searchsorted(edges, expected, side="right") - 1
        parts.append(p[:, block.start + cells] / np.bincount(cells)[cells])  # alike in a cell
    result = np.einsum("ka,kh,kr,kg->ahrg", *parts) / len(p)
    result[:, :3, :, 1] = 0  # no hours up to 10 with g = "b"
    return result


@pytest.mark.slow
@pytest.mark.parametrize("where", WHERES.values(), ids=WHERES)
def test_rows_follow_bayes_number_by_number(model: MargNet, where: dict[str, Any]) -> None:
    wanted = joint(model)
    for axis, (name, values) in enumerate(VALUES.items()):
        if name in where:
            inside = np.isin(np.arange(len(values)), positions(name, where[name]))
            wanted = wanted * np.expand_dims(inside, [i for i in range(4) if i != axis])
    boxes = boxes_of(model.model_.generator, model.model_.encoder, Condition(SCHEMA, where))
    log_probability = model.model_.generator.log_probability(boxes)
    assert log_probability == pytest.approx(math.log(wanted.sum()), abs=1e-5)
    synthetic = model.sample(20_000, where=where, random_state=0)
    for axis, (name, values) in enumerate(VALUES.items()):
        shares = wanted.sum(tuple(i for i in range(4) if i != axis)) / wanted.sum()
        column = (
            synthetic[name] if name == "g" else pd.Series(numbers(synthetic[name]), dtype=object)
        )
        results = [(column.isna() if v is None else column == v).mean() for v in values]
        np.testing.assert_allclose(results, shares, atol=0.015)


def positions(name: str, alternatives: list[Any]) -> list[int]:
    requested = asked_of(name, alternatives)
    return [i for i, value in enumerate(VALUES[name]) if value in requested]


def test_a_number_without_steps_is_its_cell(model: MargNet) -> None:
    """The certificate says so; a range fills whole cells."""
    synthetic = model.sample(200, where={"real": 0.3})
    assert synthetic["real"].between(0.25, 0.5).all() and synthetic["real"].nunique() > 100
    assert synthetic.attrs["certificate"]["condition"] == {"real": [{"low": 0.25, "high": 0.5}]}
    synthetic = model.sample(
        200, where={"real": {"low": 0.5, "high": 1}, "o": {"low": "few", "high": "some"}}
    )
    assert synthetic["real"].ge(0.5).all() and set(synthetic["o"]) == {"few", "some"}
    assert synthetic.attrs["certificate"]["condition"] == {
        "real": [{"low": 0.5, "high": 1}],
        "o": [{"low": "few", "high": "some"}],
    }


def test_numbers_of_samples_can_be_asked_for(model: MargNet) -> None:
    """As they are, in whatever type: 0.3 in float32 is a little more."""
    synthetic = model.sample(20)
    for rate in synthetic["rate"]:
        assert set(model.sample(5, where={"rate": rate})["rate"]) == {rate}
    for age in (synthetic["age"].iloc[0], np.int8(3), 3.0):
        assert set(model.sample(5, where={"age": age})["age"]) == {age}


def test_a_range_of_very_many_numbers() -> None:
    column = numeric("cents", "float64", 0, 1e9, resolution=0.01)
    condition = Condition(Schema([column]), {"cents": {"low": 0.005, "high": 1e8}})
    (shares,) = condition.box.values()
    assert shares.sum() == pytest.approx(6.4) and condition.within.keys() == {"cents"}


@pytest.mark.parametrize(
    ("where", "part"),
    [
        ({"age": 37.5}, "column 'age' has no value 37.5; it has whole numbers from 0 to 99."),
        ({"age": {"low": 90, "high": 100}}, "column 'age' has no value 100; it has whole"),
        ({"age": {"low": 5, "high": 4}}, "column 'age': low=5 is above high"),
        ({"age": {"low": "5", "high": 9}}, "column 'age' has no value '5'; it has whole"),
        ({"age": {"low": None, "high": 9}}, "column 'age' has no value None; it has whole"),
        ({"age": [[5, 6]]}, "column 'age' has no value [5, 6]; it has"),
        ({"age": {"low": 5}}, "column 'age' has no value {'low': 5}; it has"),
        ({"hours": 37}, "has no value 37; it has whole numbers from 0 to 97 in steps of 5 and None."),
        ({"hours": 97}, "has no value 97; it has"),
        ({"hours": {"low": 36, "high": 39.5}}, "has no value from 36 to 39.5; it has"),
        ({"rate": 0.34}, "column 'rate' has no value 0.34; it has numbers from 0.1 to 2 in steps of 0.1."),
        ({"real": {"low": 0.3, "high": 1}}, "the nearest of whole cells is 0.25 to 1"),
        ({"real": {"low": 0.25, "high": 0.25}}, "the nearest of whole cells is 0 to 0.25"),
        ({"real": {"low": 0.25, "high": 0.3}}, "the nearest of whole cells is 0.25 to 0.5"),
        ({"real": {"low": 0.2, "high": 0.25}}, "the nearest of whole cells is 0 to 0.25"),
        ({"age": 10**400}, "column 'age' has no value 1"),
        ({"real": {"low": 1, "high": 0}}, "where: column 'real': low=1 is above high"),
        ({"o": {"low": "many", "high": "few"}}, "low='many' is above high"),
        ({"g": {"low": "a", "high": "b"}}, "column 'g': a categorical column has no order; list the"),
    ],
)  # fmt: skip
def test_wrong_numbers_are_one_line(model: MargNet, where: Any, part: str) -> None:
    with pytest.raises(InputError) as error:
        model.sample(5, where=where)
    assert part in str(error.value) and "\n" not in str(error.value)


def test_ranges_in_texts() -> None:
    texts = ["age=10..19", "age=37", "rate=0.5..1", "hours=35..40", "hours=", "o=few"]
    assert parse_where(SCHEMA, texts) == {
        "age": [{"low": 10, "high": 19}, 37],
        "rate": [{"low": 0.5, "high": 1.0}],
        "hours": [{"low": 35, "high": 40}, None],
        "o": ["few"],
    }
    with pytest.raises(InputError, match="column 'age' has no value '1e'; it has whole numbers"):
        parse_where(SCHEMA, ["age=1e..3"])
