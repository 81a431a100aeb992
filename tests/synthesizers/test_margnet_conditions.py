"""MargNet's rows under a condition, completed, and without what the schema declares impossible."""

import json
import math
from copy import deepcopy
from dataclasses import replace
from itertools import combinations, count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from fitted_tables import SCHEMA, facts, frame
from fitted_tables import small as small_gan
from hypothesis import given, settings
from hypothesis import strategies as st

from tabsynth import InputError, MargNet, Schema, load
from tabsynth.encoding import TableEncoder
from tabsynth.privacy.noise.counts import Measured, by_value, count_rows
from tabsynth.schema import Column
from tabsynth.synthesizers.conditions import parse_where
from tabsynth.synthesizers.margnet.config import MargNetConfig
from tabsynth.synthesizers.margnet.estimation import MargNetFit
from tabsynth.synthesizers.margnet.estimator import boxes_of
from tabsynth.synthesizers.margnet.selection import Measurements, Resolution
from tabsynth.synthesizers.mixture import Components, disjoint_boxes
from tabsynth.training import loop
from tabsynth.training.loop import TrainingMonitor

torch.set_num_threads(1)

ZEROS = Schema(
    SCHEMA.columns,
    impossible=[
        {"k": ["x"], "v": {"low": 0, "high": 9}},
        {"v": [*range(10, 21), None], "r": {"low": -1, "high": 0}, "b": [True]},
        {"k": ["z", "rest"], "b": [False]},
    ],
)


def net(schema: Schema = SCHEMA, **changes: Any) -> MargNet:
    config = MargNetConfig(components=20, latent_dim=5, hidden=(8,), steps=30)
    return MargNet(schema, **{"epsilon": 2.0, "config": config, **changes})


def allowed(table: pd.DataFrame) -> pd.Series:
    """Which rows break no combination of ZEROS, from the values themselves."""
    v = table["v"]
    one = (table["k"] == "x") & (v <= 9).fillna(False)
    two = ((v >= 10).fillna(False) | v.isna()) & (table["r"] < 0) & table["b"]
    three = table["k"].isin(["z", "rest"]) & ~table["b"]
    return ~(one | two | three)


@pytest.fixture(scope="module")
def free() -> MargNet:
    return net(random_state=0).fit(frame(300))


@pytest.fixture(scope="module")
def bound() -> MargNet:
    table = frame(600)
    table.loc[::6, "k"] = "z"
    return net(ZEROS, random_state=0).fit(table[allowed(table)])


def test_a_condition_holds_in_all_rows(free: MargNet) -> None:
    assert set(free.sample(50, where={"k": "z"})["k"]) == {"z"}
    synthetic = free.sample(200, where={"k": ["x", "y"], "b": (True,), "v": [3, None]})
    SCHEMA.check_columns(synthetic)
    assert set(synthetic["k"]) == {"x", "y"} and synthetic["b"].all()
    assert synthetic["v"].isna().any() and set(synthetic["v"].dropna()) == {3}
    # A real number stands for its cell: 0.3 for 0.25 to 0.5. Numpy's values are values too.
    synthetic = free.sample(100, where={"r": 0.3, "v": np.int64(7), "b": np.bool_(False)})
    assert synthetic["r"].between(0.25, 0.5).all() and synthetic["r"].nunique() > 50
    assert set(synthetic["v"]) == {7} and not synthetic["b"].any()
    condition = {"r": [{"low": 0.25, "high": 0.5}], "v": [7], "b": [False]}
    stated = {
        k: v for k, v in synthetic.attrs["certificate"].items() if k not in ("created", "table")
    }
    assert stated == {**facts(free), "condition": condition}
    json.dumps(synthetic.attrs["certificate"])
    none = free.sample(9, where={"v": pd.NA})
    assert none["v"].isna().all() and none.attrs["certificate"]["condition"] == {"v": [None]}
    pd.testing.assert_frame_equal(free.sample(30, where={}), free.sample(30))


@pytest.mark.parametrize("several", [np.array, pd.Series, set, frozenset, pd.Index, tuple])
def test_alternatives_of_any_kind(free: MargNet, several: Any) -> None:
    synthetic = free.sample(60, where={"k": several(["x", "y"])})
    assert set(synthetic["k"]) == {"x", "y"}
    assert sorted(synthetic.attrs["certificate"]["condition"]["k"]) == ["x", "y"]


def test_names_with_an_equals_sign() -> None:
    texts = Column(name="a=b", kind="categorical", dtype="str", categories=("y", "n"))
    schema = Schema([texts, replace(texts, name="a", categories=("b=y", "n"))])
    assert parse_where(schema, ["a=b=y", "a=n"]) == {"a=b": ["y"], "a": ["n"]}
    with pytest.raises(InputError, match="names column 'c'"):
        parse_where(schema, ["c=b=y"])


def test_a_conditional_share_is_that_of_bayes(free: MargNet) -> None:
    """The share of b, given k and v, by hand from the mixture's probabilities."""
    p = free.model_.generator.probabilities.cpu().double().numpy()
    k, v, b = 0, 4 + 3, 4 + 22 + 8 + 1  # positions of k = "x", v = 3, b = True in a row of codes
    both = (p[:, k] * p[:, v]).sum()
    wanted = (p[:, k] * p[:, v] * p[:, b]).sum() / both
    result = free.sample(20_000, where={"k": "x", "v": 3})["b"].mean()
    assert result == pytest.approx(wanted, abs=0.005)


@pytest.mark.parametrize(
    ("where", "part"),
    [
        (5, "Expected where to be a dict of columns to values, got 5"),
        (["k"], "Expected where to be a dict"),
        ({"job": 1}, "where names column 'job', which the schema lacks"),
        ({3: 1}, "where names column 3"),
        ({"k": []}, "gives column 'k' no value"),
        (
            {"k": "unheard of"},
            "column 'k' has no value 'unheard of'; it has 'x', 'y', 'z', 'rest'.",
        ),
        ({"k": ["x", 1]}, "column 'k' has no value 1;"),
        ({"k": None}, "column 'k' has no value None;"),
        ({"k": {"x": 1}}, "column 'k' has no value {'x': 1};"),
        ({"k": [["x"]]}, "column 'k' has no value ['x'];"),
        ({"v": 21}, "column 'v' has no value 21; it has whole numbers from 0 to 20 and None."),
        ({"v": 2.5}, "column 'v' has no value 2.5;"),
        ({"v": "3"}, "column 'v' has no value '3';"),
        ({"r": math.inf}, "column 'r' has no value inf;"),
        ({"b": "yes"}, "column 'b' has no value 'yes'; it has False, True."),
    ],
)
def test_wrong_conditions_are_one_line(free: MargNet, where: Any, part: str) -> None:
    with pytest.raises(InputError) as error:
        free.sample(5, where=where)
    assert part in str(error.value)
    assert "\n" not in str(error.value) and len(str(error.value)) < 300


def test_a_condition_of_probability_0() -> None:
    model = net(random_state=0).fit(frame(50))
    p = model.model_.generator.probabilities
    p[:, 2] = 0  # k = "z"
    with pytest.raises(
        InputError, match=r"condition \{'k': 'z'\} is of probability 0 in the fitted"
    ):
        model.sample(5, where={"k": "z"})


def test_impossible_rows_are_never_made(bound: MargNet, tmp_path: Path) -> None:
    synthetic = bound.sample(3000)
    assert allowed(synthetic).all() and synthetic["k"].nunique() >= 3
    assert allowed(bound.sample(500, where={"b": True, "v": [2, 15, None]})).all()
    bound.save(tmp_path / "m")
    loaded = load(tmp_path / "m")
    assert loaded.schema == ZEROS
    pd.testing.assert_frame_equal(
        loaded.sample(40, random_state=1), bound.sample(40, random_state=1)
    )


@pytest.mark.slow
def test_the_fit_knows_what_is_impossible() -> None:
    """A skip pattern: if only samples knew of it, children would be rare, whose rows it breaks most."""
    rng = np.random.default_rng(0)
    age = rng.choice(30, 2000, p=np.r_[np.full(5, 0.03), np.full(25, 0.034)])
    answer = [rng.choice(["p", "q", "r"], 2000) for _ in "wxyz"]
    table = pd.DataFrame(
        {c: np.where(age < 5, None, a) for c, a in zip("wxyz", answer, strict=True)}
    )
    columns = [Column(name="age", kind="numeric", dtype="int64", low=0, high=29)]
    columns += [
        Column(name=c, kind="categorical", dtype="str", categories=("p", "q", "r"), nulls=True)
        for c in "wxyz"
    ]
    zeros = [{"age": {"low": 0, "high": 4}, c: ["p", "q", "r"]} for c in "wxyz"]
    zeros += [{"age": {"low": 5, "high": 29}, c: [None]} for c in "wxyz"]
    model = MargNet(Schema(columns, impossible=zeros), epsilon=0.3, random_state=1)
    synthetic = model.fit(table.assign(age=age)).sample(2000, random_state=1)
    generator = model.model_.generator
    assert generator.log_probability(boxes_of(generator, model.model_.encoder)) > math.log(0.97)
    assert abs((synthetic["age"] < 5).mean() - 0.15) < 0.05
    assert model.make_method(model.schema).free_steps() == {
        "generator": 3000,
        "structural zeros": 200,
    }


def test_impossible_rows_have_their_part_of_a_time_limit(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """By a clock of which each look takes a second."""
    table, ticks, taken = frame(600), count(), list[int]()
    monkeypatch.setattr(loop, "time", SimpleNamespace(monotonic=lambda: float(next(ticks))))
    step = MargNetFit.step_from_zeros
    monkeypatch.setattr(MargNetFit, "step_from_zeros", lambda *a: (taken.append(a[1]), step(*a))[1])
    layout = TableEncoder(ZEROS).layout
    singles = [
        Measured((j,), np.full(size, 600 / size), 2.0) for j, size in enumerate(layout.sizes)
    ]
    measured = Measurements(singles, 600.0, Resolution.by_value(layout.sizes))
    config, rng = MargNetConfig(components=20, hidden=(8,)), torch.Generator().manual_seed(0)
    fit = MargNetFit(layout, config, measured, rng, zeros=TableEncoder(ZEROS).zeros)
    steps = fit.fit(TrainingMonitor(deadline=100.0))
    assert 0 < len(fit.errors) <= steps < 75 and len(taken) > 20
    monkeypatch.undo()
    with caplog.at_level("WARNING"):
        net(ZEROS, random_state=0, time_limit=1e-9).fit(table[allowed(table)])
    assert "rows that the schema declares impossible" in caplog.text
    caplog.clear()
    with caplog.at_level("WARNING"):
        net(ZEROS, random_state=0).fit(table[allowed(table)])
    assert "impossible" not in caplog.text


def test_impossible_rows_become_rare_in_components_by_themselves(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of uniform columns, of which half the rows are impossible."""
    monkeypatch.setattr(MargNetFit, "network_steps", 5)
    monkeypatch.setattr(MargNetFit, "_at_noise", lambda *_: False)
    encoder = TableEncoder(ZEROS)
    sizes = encoder.layout.sizes
    counts = [Measured((j,), np.full(size, 600 / size), 2.0) for j, size in enumerate(sizes)]
    measured = Measurements(counts, 600.0, Resolution.by_value(sizes))
    config, rng = MargNetConfig(components=60, steps=30), torch.Generator().manual_seed(0)
    fit = MargNetFit(encoder.layout, config, measured, rng, zeros=encoder.zeros)
    boxes = disjoint_boxes(encoder.zeros)
    assert boxes is not None
    before = fit.mixture().log_probability(boxes)
    fit.fit(TrainingMonitor())
    after = fit.mixture().log_probability(boxes)
    assert isinstance(fit.network, Components)
    assert before < math.log(0.6) and after > math.log(0.95)


@pytest.mark.parametrize("seed", [0, 1])
def test_what_is_impossible_brings_the_fit_nearer_to_the_rows(seed: int) -> None:
    """Six columns of one factor, counts of pairs with noise: the triples of a fit that knows a fact more are no further from the rows."""
    rng, size, columns = np.random.default_rng(seed), 8, 6
    factor = rng.normal(size=(4000, 1))
    rows = np.clip(2 * (factor + rng.normal(size=(4000, columns))) + 4, 0, 7).astype(np.int64)
    rows = rows[(rows[:, 0] > 2) | (rows[:, 1] < 4)]
    names = [f"c{j}" for j in range(columns)]
    declared = [
        Column(name=name, kind="categorical", dtype="int64", categories=tuple(range(size)))
        for name in names
    ]
    groups = by_value([size] * columns)
    sets = [*combinations(range(columns), 1), *combinations(range(columns), 2)]
    noise = {s: rng.normal(0, 20, [size] * len(s)) for s in sets}
    counts = [Measured(s, count_rows(rows, s, groups) + noise[s], 20.0) for s in sets]
    away = []
    for zeros in ([], [{"c0": [0, 1, 2], "c1": [4, 5, 6, 7]}]):
        encoder = TableEncoder(Schema(declared, impossible=zeros))
        measured = Measurements(counts, float(len(rows)), Resolution.by_value(encoder.layout.sizes))
        config, start = MargNetConfig(components=200), torch.Generator().manual_seed(0)
        fit = MargNetFit(encoder.layout, config, measured, start, zeros=encoder.zeros)
        fit.fit(TrainingMonitor())
        p = fit.mixture().probabilities.double().numpy().reshape(-1, columns, size)
        shares = [
            np.einsum("ka,kb,kc->abc", *(p[:, j] for j in triple)) / len(p)
            - count_rows(rows, triple, groups) / len(rows)
            for triple in combinations(range(columns), 3)
        ]
        away.append(np.abs(shares).sum() / 2 / len(shares))
    assert away[0] < 0.2 and away[1] < 1.01 * away[0]


def test_steps_against_impossible_rows_go_on_from_a_checkpoint() -> None:
    """They keep near the mixture that they began at, not the one that was saved."""
    encoder = TableEncoder(ZEROS)
    sizes = encoder.layout.sizes
    counts = [Measured((j,), np.full(size, 600 / size), 2.0) for j, size in enumerate(sizes)]
    measured = Measurements(counts, 600.0, Resolution.by_value(sizes))

    def make_fit() -> MargNetFit:
        rng = torch.Generator().manual_seed(0)
        config = MargNetConfig(components=30)
        return MargNetFit(encoder.layout, config, measured, rng, zeros=encoder.zeros)

    first, second = make_fit(), make_fit()
    for i in range(10):
        first.step_from_zeros(i, 20)
    second.load_state_dict(deepcopy(first.state_dict()))
    for fit in (first, second):
        for i in range(10, 20):
            fit.step_from_zeros(i, 20)
    assert torch.equal(first.mixture().probabilities, second.mixture().probabilities)


VALUES: dict[str, Any] = {
    "k": st.sampled_from(["x", "y", "z", "rest"]),
    "v": st.none() | st.integers(0, 20),
    "r": st.floats(-1, 1),
    "b": st.booleans(),
}


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_conditions_and_zeros_hold_together(bound: MargNet, data: st.DataObject) -> None:
    """Any condition: its rows satisfy it and are possible, or one line says that there are none."""
    names = data.draw(st.sets(st.sampled_from(list(VALUES)), max_size=3))
    where = {n: data.draw(st.lists(VALUES[n], min_size=1, max_size=3)) for n in sorted(names)}
    try:
        synthetic = bound.sample(40, where=where)
    except InputError as error:
        assert "impossible by the schema" in str(error) and "\n" not in str(error)
        return
    assert allowed(synthetic).all()
    index, column = (
        bound.model_.encoder.to_index(synthetic),
        {n: j for j, n in enumerate(ZEROS.names)},
    )
    for name, values in where.items():
        if name == "r":
            cells = {min(math.floor(value * 4) + 4, 7) for value in values}
            assert set(index[:, column[name]]) <= cells
        else:
            assert set(synthetic[name].astype(object).where(synthetic[name].notna(), None)) <= set(
                values
            )


def test_what_the_schema_declares_impossible_is_refused(bound: MargNet) -> None:
    """A condition, a private table: one line that names it, and nothing spent."""
    says = r"The condition \{'k': 'x', 'v': \[3, 4\]\} is impossible by the schema"
    with pytest.raises(InputError, match=says):
        bound.sample(5, where={"k": "x", "v": [3, 4]})
    model = net(ZEROS)
    with pytest.raises(
        InputError, match=r"The table has a row with \{.*declares impossible; correct"
    ):
        model.fit(frame(300))
    assert not hasattr(model, "ledger_")
    columns = [Column(name=n, kind="ordinal", dtype="int64", categories=(1,)) for n in "ab"]
    nothing = Schema(columns, impossible=[{"a": [1], "b": [1]}])
    with pytest.raises(InputError, match="declares all rows impossible"):
        net(nothing).plan(estimate_time=False)


def test_gans_hold_impossible_combinations() -> None:
    dropping = Schema(ZEROS.columns, impossible=ZEROS.impossible, violations="drop")
    model = small_gan(dropping).fit(frame(60))
    TableEncoder(ZEROS).to_index(model.sample(500))  # refuses impossible rows
