"""Declared tables: what is counted and charged, least squares over the levels, and rounding (R1, R2, R7, R12, R18)."""

import math
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from tabsynth import Categorical, Hierarchical, InputError, MargNet, Schema
from tabsynth.privacy.noise.counts import NoisyCounts, number_of
from tabsynth.schema import Column
from tabsynth.schema.schema import Zero
from tabsynth.synthesizers.margnet.config import MargNetConfig
from tabsynth.synthesizers.margnet.declared import (
    DeclaredTable,
    TableCounts,
    declared_tables,
    least_squares,
    not_negative,
    project_values,
    round_within,
    variance_of_cells,
)
from tabsynth.synthesizers.margnet.measurement import TABLES, Task

TOWNS = {f"t{i}": "AABBBCC"[i] for i in range(7)}
REGIONS = {"A": "north", "B": "north", "C": "south"}


def group_of(age: int) -> str:
    return "child" if age < 3 else "adult" if age < 7 else "old"


def text(name: str, values: Any) -> Categorical:
    return Categorical(name=name, dtype="str", categories=tuple(sorted(set(values))))


def whole(name: str, size: int) -> Column:
    return Column(name=name, kind="ordinal", dtype="int64", categories=tuple(range(size)))


def derived(target: str, source: str, table: dict[Any, str]) -> dict[str, Any]:
    return {"derive": target, "from": source, "table": [[k, v] for k, v in table.items()]}


SCHEMA = Schema(
    [
        text("town", TOWNS),
        text("state", ["0 unused", *TOWNS.values()]),
        text("region", REGIONS.values()),
        text("coast", ["yes", "no"]),
        whole("age", 10),
        text("group", map(group_of, range(10))),
        whole("sex", 2),
        whole("job", 4),
        whole("pay", 6),
        Column(name="twice", kind="numeric", dtype="int64", low=0, high=12),
    ],
    constraints=[
        derived("state", "town", TOWNS),
        derived("region", "state", {"0 unused": "south", **REGIONS}),
        derived("coast", "town", {town: "yes" if town in ("t0", "t3") else "no" for town in TOWNS}),
        derived("group", "age", {age: group_of(age) for age in range(10)}),
        {"derive": "twice", "expression": "pay + pay"},
    ],
)
TABLE = ("town", "group", "sex")
SMALL = {"components": 30, "latent_dim": 5, "hidden": (8,), "steps": 30}


def frame(rows: int = 800, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    town = pd.Series(rng.choice(list(TOWNS), rows, p=np.arange(1, 8) / 28), dtype="str")
    age = pd.Series(rng.integers(10, size=rows))
    pay = rng.integers(6, size=rows)
    job = np.where(age < 3, 0, rng.integers(4, size=rows))
    state = town.map(TOWNS)
    made = {"town": town, "state": state, "region": state.map(REGIONS)}
    made |= {"coast": town.isin(["t0", "t3"]).map({True: "yes", False: "no"}), "age": age}
    made |= {"group": age.map(group_of), "sex": rng.integers(2, size=rows)}
    return pd.DataFrame(made | {"job": job, "pay": pay, "twice": 2 * pay})


def model(*tables: Any, schema: Schema = SCHEMA, config: Any = None, **more: Any) -> MargNet:
    options = {"epsilon": 1.0, "random_state": 0, "tables": list(tables) or [TABLE]}
    return MargNet(
        schema, config=MargNetConfig(**{**SMALL, **(config or {})}), **{**options, **more}
    )


def a_table(*parents: list[int], others: int = 3) -> DeclaredTable:
    """A tree of groups of a first column, and a second one of so many values."""
    levels = [np.arange(len(parents[0]))]
    for parent in parents:
        levels.append(np.array(parent)[levels[-1]])
    names = tuple(f"level {i}" for i in range(len(levels)))
    labels = tuple(tuple(map(str, range(size))) for size in (len(levels[0]), others))
    groups = (levels[0], np.arange(others))
    return DeclaredTable(("a", "b"), (0, 1), groups, labels, tuple(levels), names)


TREE = a_table([0, 0, 0, 1, 1, 2], [0, 0, 0])
STDS = (2.0, 1.0, 3.0)


def noisy(table: DeclaredTable, stds: Any, seed: int, mean: float = 10.0) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    truth = rng.gamma(1.0, mean, table.shape)
    pairs = zip(table.sums(truth), stds, strict=True)
    return [level + std * rng.standard_normal(level.shape) for level, std in pairs]


# Least squares.


@pytest.mark.parametrize("tree", [TREE, a_table([0, 0]), a_table([0, 0, 1, 1], [0, 1], [0, 0])])
def test_least_squares_are_those_of_a_dense_system(tree: DeclaredTable) -> None:
    """Two passes over the tree against the normal equations of all cells with a Lagrange multiplier for the sum."""
    stds = (2.0, 1.0, 3.0, 0.5)[: len(tree.levels)]
    counts, rows = noisy(tree, stds, 0), 123.0
    cells, equations, right = math.prod(tree.shape), list[np.ndarray](), list[float]()
    for level, (own, std) in enumerate(zip(counts, stds, strict=True)):
        for group, other in np.ndindex(own.shape):
            row = np.zeros(tree.shape)
            row[tree.levels[level] == group, other] = 1 / std
            equations.append(row.ravel())
            right.append(own[group, other] / std)
    a = np.array(equations)
    system = np.block([[a.T @ a, np.ones((cells, 1))], [np.ones((1, cells)), np.zeros((1, 1))]])
    inverse = np.linalg.inv(system)
    dense = (inverse @ np.append(a.T @ np.array(right), rows))[:cells].reshape(tree.shape)
    estimates, _ = least_squares(counts, stds, tree.parents(), rows)
    for found, wanted in zip(estimates, tree.sums(dense), strict=True):
        np.testing.assert_allclose(found, wanted, atol=1e-9)
    assert variance_of_cells(tree, stds) == pytest.approx(np.diag(inverse)[:cells].mean())


@settings(max_examples=40, deadline=None)
@given(
    values=st.lists(st.floats(-5, 5), min_size=1, max_size=5),
    total=st.sampled_from([0.0, 0.5, 3.0, 40.0]),
    seed=st.integers(0, 10),
)
def test_the_projection_is_the_best_of_all_active_sets(
    values: list[float], total: float, seed: int
) -> None:
    """Every set of cells that are 0, with the others moved in proportion to their variances: the nearest that is feasible."""
    rng = np.random.default_rng(seed)
    z, v = np.array(values), rng.uniform(0.5, 2, len(values))
    allowed = rng.random(len(z)) < 0.8
    allowed[rng.integers(len(z))] = True
    best, nearest = math.inf, np.zeros(len(z))
    for chosen in product([False, True], repeat=len(z)):
        free = np.array(chosen) & allowed
        x = np.zeros(len(z))
        if free.any():
            x[free] = z[free] - v[free] * (z[free].sum() - total) / v[free].sum()
        if (x >= -1e-12).all() and math.isclose(x.sum(), total, abs_tol=1e-9):
            distance = float((np.square(x - z)[allowed] / v[allowed]).sum())
            if distance < best - 1e-12:
                best, nearest = distance, x
    found = project_values(z[:, None], v, np.array([total]), allowed[:, None])
    np.testing.assert_allclose(found[:, 0], nearest, atol=1e-7)


def test_fitted_tables_are_consistent_and_not_negative() -> None:
    """Level by level the nearest to the estimates, by a general solver; impossible cells are 0."""
    tree, rows = a_table([0, 0, 1], [0, 0], others=2), 20.0
    counts = noisy(tree, STDS, 3, mean=1.5)
    zeros: list[Zero] = [{0: np.array([True, False, False]), 1: np.array([True, False])}]
    fitted = TableCounts(tree, tuple(counts), STDS).fit(rows, zeros)
    assert fitted.sum() == pytest.approx(rows) and (fitted >= 0).all() and fitted[0, 0] == 0
    estimates, variances = least_squares(counts, STDS, tree.parents(), rows)
    possible = tree.possible(zeros)
    np.testing.assert_allclose(
        fitted, not_negative(estimates, variances, tree.parents(), rows, possible)
    )
    # The level of both groups together, by a general solver; then the leaves of each group.
    top = solved(estimates[2].ravel(), np.ones(2), rows, possible.any(axis=0))
    for other in range(2):
        middle = solved(estimates[1][:, other], variances[1], top[other], np.ones(2, dtype=bool))
        for group, leaves in ((0, [0, 1]), (1, [2])):
            wanted = solved(
                estimates[0][leaves, other],
                variances[0][leaves],
                middle[group],
                possible[leaves, other],
            )
            np.testing.assert_allclose(fitted[leaves, other], wanted, atol=2e-3)


def solved(z: np.ndarray, v: np.ndarray, total: float, allowed: np.ndarray) -> np.ndarray:
    """The nearest values that are not negative and have a sum, by a general solver."""
    bounds = [(0, None if ok else 0) for ok in allowed]
    sums = {"type": "eq", "fun": lambda x: x.sum() - total}
    first = np.full(len(z), total / len(z))
    found = minimize(
        lambda x: float((np.square(x - z) / v).sum()),
        first,
        bounds=bounds,
        constraints=sums,
        tol=1e-12,
    )
    return np.asarray(found.x)


def test_without_noise_the_table_is_as_it_is() -> None:
    truth = np.random.default_rng(0).integers(0, 9, TREE.shape).astype(float)
    exact = TableCounts(TREE, tuple(TREE.sums(truth)), (0.0, 0.0, 0.0))
    np.testing.assert_allclose(exact.fit(truth.sum()), truth)


# Rounding.


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10_000), rows=st.sampled_from([1, 7, 60, 1000]))
def test_each_count_of_each_level_is_rounded_down_or_up(seed: int, rows: int) -> None:
    rng = np.random.default_rng(seed)
    values = rng.gamma(0.4, 2.0, TREE.shape)
    counts = round_within(values, TREE, rows, rng)
    assert counts.sum() == rows and counts.min() >= 0
    scaled = values * rows / values.sum()
    for found, wanted in zip(TREE.sums(counts.astype(float)), TREE.sums(scaled), strict=True):
        assert np.abs(found - wanted).max() < 1 + 1e-9


def test_rounding_is_unbiased() -> None:
    rng = np.random.default_rng(0)
    values = rng.gamma(0.5, 2.0, TREE.shape)
    mean = np.mean([round_within(values, TREE, 40, rng) for _ in range(4000)], axis=0)
    np.testing.assert_allclose(mean, values * 40 / values.sum(), atol=0.04)


# What is declared.


def test_levels_follow_from_the_schema() -> None:
    """Derived columns of the first column, also by way of others, that nest; of those that do not, the finer ones."""
    town, age = declared_tables(SCHEMA, [TABLE, ("age", "state")], 1000)
    assert town.level_names == ("town", "state", "region", "all") and town.shape == (7, 3, 2)
    assert [number_of(level) for level in town.levels] == [7, 3, 2, 1]
    assert [parent.tolist() for parent in town.parents()] == [
        [0, 0, 1, 1, 1, 2, 2],
        [0, 0, 1],
        [0, 0],
    ]
    assert age.level_names == ("age", "group", "all") and age.shape == (10, 3)
    assert town.labels[1:] == (("adult", "child", "old"), ("0", "1"))
    (state,) = declared_tables(SCHEMA, [("state",)], 1000)
    assert state.labels == (("A", "B", "C"),)
    assert state.level_names == ("state", "region", "all")


def test_levels_of_codes_are_their_nodes() -> None:
    codes = ("A10", "A11", "A2", "B10", "B11")
    coded = Hierarchical(name="code", dtype="str", codes=codes, levels=(1, 2), nulls=True)
    (table,) = declared_tables(Schema([coded, whole("sex", 2)]), [("code", "sex")], 1000)
    assert [number_of(level) for level in table.levels] == [6, 4, 3, 1]
    assert [level.tolist() for level in table.levels[1:3]] == [
        [0, 0, 1, 2, 2, 3],
        [0, 0, 0, 1, 1, 2],
    ]


@pytest.mark.parametrize(
    ("tables", "message"),
    [
        ("town", "Expected tables to be a list"),
        (["town"], "'town' must be a list of columns"),
        ([()], "must be a list of columns"),
        ([("town", "x")], "'town,x' names column 'x', which the schema does not have"),
        ([("town", "sex", "town")], "names column 'town' twice"),
        ([("sex", "twice")], "'twice', which is not modelled"),
        ([("age", "group")], "'age' and 'group', which follow from the same column"),
        ([("town", "age", "sex", "job", "pay")], "has 3,360 cells, past the limit of 1,000"),
        ([("sex",), ("town", "age", "sex")], "has 140 cells, past the limit of 100"),
    ],
)  # fmt: skip
def test_bad_tables_are_refused_before_anything_is_spent(tables: Any, message: str) -> None:
    declared = model(tables=tables, config={"max_cells": 1000})
    with pytest.raises(InputError, match=message) as error:
        declared.fit(frame())
    assert "\n" not in str(error.value) and not hasattr(declared, "ledger_")


def test_what_declared_tables_do_not_go_with() -> None:
    weighted = Schema([whole("a", 2), whole("b", 2)], weight="w", max_weight=5.0)
    with pytest.raises(InputError, match="count once"):
        model(("a", "b"), schema=weighted).plan(estimate_time=False)
    both = model(public=frame(seed=1), public_source="a survey")
    with pytest.raises(InputError, match="tables or a public table, not both") as error:
        both.fit(frame())
    assert "\n" not in str(error.value) and not hasattr(both, "ledger_")
    with pytest.raises(InputError, match="tables needs a schema"):
        MargNet(epsilon=1.0, tables=[("town", "sex")]).fit(frame())


# Charges.


def test_the_stage_has_its_share() -> None:
    """R12: of the budget, whatever the rows; the other stages share the rest as before."""
    config = MargNetConfig(tables_share=0.25)
    tables = declared_tables(SCHEMA, [("town", "sex")], 1000)
    without, declared = (
        Task(domain=SCHEMA.learned, config=config, tables=some).stages for some in ((), tables)
    )
    assert list(declared) == [TABLES, *without] and math.fsum(declared.values()) == pytest.approx(1)
    assert all(declared[stage] == pytest.approx(0.75 * share) for stage, share in without.items())


def test_declared_tables_are_read_once_and_charged(reads: list[str], tmp_path: Path) -> None:
    """R1, R2, R7: one charge for all levels of all tables. A record is in each level, so that their noise adds up to the charge."""
    fitted = model(TABLE, ("state", "job"))
    planned = fitted.plan(estimate_time=False)
    fitted.fit(frame(), checkpoint=tmp_path / "checkpoint")
    listed = [(m["purpose"], m["count"]) for m in fitted.certificate()["mechanisms"]]
    expected = [TABLES, "one-way counts", "sign interactions", "joint counts"]
    assert listed == [(stage, 1) for stage in expected]
    assert reads == [purpose for purpose, _ in listed]
    certificate = fitted.certificate()
    assert certificate["epsilon"] == planned.epsilon == pytest.approx(1.0)
    assert certificate["public"]["tables"] == [list(TABLE), ["state", "job"]]
    assert certificate["mechanisms"][0]["details"]["levels"] == 7
    charged = certificate["mechanisms"][0]["noise_multiplier"]
    stds = [std for counts in fitted.model_.tables for std in counts.stds]
    assert math.fsum(std**-2 for std in stds) == pytest.approx(charged**-2)


def test_counts_have_the_noise_that_they_state() -> None:
    """Noisy counts are around the exact ones, with their standard deviation, at each level; and none is exact."""
    fitted = model(epsilon=0.5, random_state=None, config={"steps": 1}).fit(frame())
    (counts,) = fitted.model_.tables
    codes = fitted.model_.encoder.to_index(frame())
    exact = np.bincount(counts.table.cells(codes), minlength=42).reshape(counts.table.shape)
    errors = [
        (found - wanted).ravel() / std
        for found, wanted, std in zip(
            counts.counts, counts.table.sums(exact.astype(float)), counts.stds, strict=True
        )
    ]
    assert all(np.abs(e).max() > 0.01 for e in errors)
    assert 0.6 < np.concatenate(errors).std() < 1.4


def test_frozen_counts_freeze_the_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    """R19: two tables of rows, the same noisy counts: the same fitted tables, mixture and samples."""

    def measure(self: Any, account: Any, sets: Any, shares: Any, bits: Any, groups: Any) -> Any:
        from tabsynth.privacy.noise.counts import Measured, by_value, cells_of

        self.table.read(account)
        by = groups or [by_value(self.sizes)] * len(sets)
        shapes = [[number_of(g[j]) for j in s] for s, g in zip(sets, by, strict=True)]
        return [
            Measured(tuple(s), np.full(shape, 800 / cells_of(s, g)), 3.0)
            for s, g, shape in zip(sets, by, shapes, strict=True)
        ]

    monkeypatch.setattr(NoisyCounts, "measure", measure)
    one, other = (model(rows=800).fit(frame(seed=seed)).sample(50) for seed in (1, 2))
    pd.testing.assert_frame_equal(one, other)


def test_the_number_of_rows_follows_from_all_counts() -> None:
    """Declared tables have less noise than one-way counts, and each level shows the number of rows."""
    errors = [
        [abs(MargNet(SCHEMA, epsilon=0.2, random_state=seed, tables=tables, config=MargNetConfig(**SMALL | {"steps": 1, "one_way_share": 0.08})).fit(frame()).model_.rows - 800) for seed in range(24)]
        for tables in (None, [TABLE])
    ]  # fmt: skip
    assert np.mean(errors[1]) < np.mean(errors[0])


def test_counts_move_to_a_model_as_far_as_noise_explains() -> None:
    """The empirical Bayes estimate: all the way to a model that is right, hardly to one that is far off; better than either."""
    rng = np.random.default_rng(2)
    tree = a_table([0] * 10 + [1] * 20, [0, 0], others=20)
    truth = rng.gamma(2.0, 10.0, tree.shape)
    errors: dict[float, list[list[float]]] = {}
    for off in (0.0, 3.0, 60.0):
        for _ in range(20):
            counts = [c + 6 * rng.standard_normal(c.shape) for c in tree.sums(truth)]
            near = np.clip(truth + off * rng.standard_normal(tree.shape), 0, None)
            near *= truth.sum() / near.sum()
            noisy_table = TableCounts(tree, tuple(counts), (6.0, 6.0, 6.0))
            found = [noisy_table.fit(truth.sum(), (), e) for e in (None, near)]
            squares = [float(np.square(x - truth).mean()) for x in (*found, near)]
            errors.setdefault(off, []).append(squares)
    without, moved, model_itself = np.mean(errors[3.0], axis=0)
    assert moved < 0.5 * without and moved < 0.95 * model_itself
    assert np.mean(errors[0.0], axis=0)[1] < 0.05 * without
    without, moved, _ = np.mean(errors[60.0], axis=0)
    assert moved < 1.02 * without


def test_levels_do_not_follow_from_the_rows() -> None:
    """R12: a table of rows of one region is counted at the level of regions all the same."""
    rows = frame()
    fitted = model(config={"steps": 1}).fit(rows[rows.region == "south"])
    certificate = fitted.certificate()
    assert certificate["mechanisms"][0]["details"]["levels"] == 4
    assert len(fitted.model_.tables[0].counts) == 4
