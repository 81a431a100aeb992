"""Rows that agree with declared tables, the mixture given their cells, and the loss of tables (R18)."""

import itertools
import math
from copy import copy
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from test_declared import SCHEMA, TABLE, frame, model

from tabsynth import MargNet, Schema, load
from tabsynth.errors import FileFormatError
from tabsynth.synthesizers import mixture as mixtures
from tabsynth.synthesizers.margnet import tabulated
from tabsynth.synthesizers.margnet.declared import KEPT_TABLES, TableCounts, declared_tables
from tabsynth.synthesizers.margnet.estimation import Tables
from tabsynth.synthesizers.margnet.tabulated import (
    TabulatedRows,
    _joint_counts,
    expected_table,
    fitted_tables,
    shared_sums,
)
from tabsynth.synthesizers.method import read_model, write_model
from tabsynth.synthesizers.mixture import Mixture

OTHERS = [("state", "group", "job"), ("pay", "sex")]


@pytest.fixture(scope="module")
def fitted() -> MargNet:
    return model(rows=800).fit(frame())


@pytest.fixture(scope="module")
def several() -> MargNet:
    return model(TABLE, *OTHERS, rows=800).fit(frame())


def deviations(made: MargNet, rows: pd.DataFrame) -> list[list[float]]:
    """Of each declared table and level the largest distance of the counts of rows from the fitted ones, scaled."""
    codes = made.model_.encoder.to_index(rows)
    out = []
    tables = made.model_.tables
    values = fitted_tables(tables, made.rows_, made.model_.generator, made.model_.encoder.zeros)
    for counts, wanted in zip(tables, values, strict=True):
        table = counts.table
        found = np.bincount(table.cells(codes), minlength=wanted.size).reshape(table.shape)
        scaled = table.sums(wanted * len(rows) / wanted.sum())
        levels = zip(table.sums(found.astype(float)), scaled, strict=True)
        out.append([float(np.abs(a - b).max()) for a, b in levels])
    return out


def test_fitted_tables_as_frames(several: MargNet) -> None:
    first, second, _ = several.fitted_tables()
    assert list(first.columns) == ["town", "group", "sex", "count"] and len(first) == 42
    assert first["count"].sum() == pytest.approx(800) == second["count"].sum()
    sample = several.sample(800)
    cells = sample.groupby(["town", "group", "sex"]).size().rename("rows").reset_index()
    both = first.merge(cells.astype({"sex": "str"}), how="left").fillna({"rows": 0})
    assert np.abs(both["rows"] - both["count"]).max() < 1


@pytest.mark.parametrize("rows", [1, 50, 1500])
def test_samples_agree_with_the_fitted_table(fitted: MargNet, rows: int) -> None:
    (levels,) = deviations(fitted, fitted.sample(rows))
    assert len(levels) == 4 and max(levels) < 1


def test_several_tables(several: MargNet) -> None:
    """The first agrees as alone; of one that shares its columns, and of one whose columns are its own, cells agree as well as these allow."""
    first, second, third = deviations(several, several.sample(3000))
    assert max(first) < 1 and max(second) < 3 and max(third) < 3


@pytest.mark.slow
def test_sums_over_the_hierarchy_of_a_further_table_agree(several: MargNet) -> None:
    """What rounding leaves of a state's counts is added to the next state's, so that those of all states are off by about a row."""
    samples = [several.sample(1500, random_state=seed) for seed in range(6)]
    assert np.mean([deviations(several, rows)[1][-1] for rows in samples]) < 1.1


def test_large_tables_are_combined_in_parts(
    several: MargNet, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With room for few cells at a time the first table still agrees, and the others as well as in one part."""
    monkeypatch.setattr(tabulated, "CELLS", 60)
    first, second, third = deviations(several, several.sample(3000))
    assert max(first) < 1 and max(second) < 3 and max(third) < 3


def test_tables_agree_on_what_they_share(several: MargNet) -> None:
    counts = several.model_.tables
    first, second, third = fitted_tables(counts, 800.0, several.model_.generator)
    by_town = first.sum(axis=2)
    state = np.array([0, 0, 1, 1, 1, 2, 2])
    sums = np.zeros((3, 3))
    np.add.at(sums, state, by_town)
    np.testing.assert_allclose(second.sum(axis=2), sums, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(third.sum(axis=0), first.sum(axis=(0, 1)), rtol=1e-6)


def test_shared_sums_are_over_the_finest_common_groups() -> None:
    one, other = declared_tables(SCHEMA, [("town", "sex"), ("coast", "pay")], 1000)
    first, second = shared_sums(one, other)
    # The coast joins t0 and t3, which are in groups of their own here: town by town, two sums.
    codes = np.array([[t, 0, 0, 0, 0] for t in range(7)])
    coast = other.groups[0]
    assert first.shape == one.shape and second.shape == other.shape
    of_town = [int(first[one.groups[0][t], 0]) for t in range(7)]
    of_coast = [int(second[coast[t], 0]) for t in range(7)]
    assert of_town == of_coast and len(set(of_town)) == 2 and len(codes) == 7


@pytest.mark.slow
def test_samples_hold_rules_and_still_agree() -> None:
    """Rows that break a rule, or are impossible, are drawn again within their cells."""
    facts = SCHEMA.to_dict()
    rule = {"if": {"pay": [0, 1, 2]}, "then": {"job": [0, 1], "sex": [0, 1]}}
    zero = {"age": [0, 1, 2], "job": [1, 2, 3]}
    ruled = Schema.from_dict(
        {**facts, "constraints": [*facts["constraints"], rule], "impossible": [zero]}
    )
    rows = frame()
    rows.loc[rows.pay <= 2, "job"] %= 2
    made = model(schema=ruled, rows=800).fit(rows)
    sample = made.sample(1000)
    assert max(deviations(made, sample)[0]) < 1
    assert not ((sample.pay <= 2) & (sample.job > 1)).any()
    assert not ((sample.age < 3) & (sample.job > 0)).any()


def test_conditions_restrict_the_tables(fitted: MargNet) -> None:
    """Of a condition on its columns the cells are those of the table; of another one, those that the mixture gives."""
    counts = fitted.model_.tables[0]
    (values,) = fitted_tables([counts], 800, fitted.model_.generator)
    rows = fitted.sample(600, where={"town": "t4"})
    found = counts.table.cells(fitted.model_.encoder.to_index(rows))
    wanted = values[4] * 600 / values[4].sum()
    cells = np.bincount(found, minlength=values.size).reshape(values.shape)
    assert np.abs(cells[4] - wanted).max() < 1 and cells.sum() == cells[4].sum() == 600
    adults = fitted.sample(400, where={"group": "adult", "job": 2})
    assert set(adults.group) == {"adult"} and set(adults.job) == {2}
    ages = fitted.sample(400, where={"age": [4, 8]})
    assert set(ages.age) == {4, 8} and set(ages.group) == {"adult", "old"}


def test_a_condition_weighs_cells_by_the_mixture(fitted: MargNet) -> None:
    """The share of a cell under a condition, by enumeration of all rows of codes."""
    encoder, generator = fitted.model_.encoder, fitted.model_.generator
    sizes = encoder.schema.sizes
    job = encoder.schema.names.index("job")
    within = {job: np.array([0.0, 1.0, 0.0, 1.0])}
    draw = TabulatedRows(generator, encoder, fitted.model_.tables, 800, within)
    grid = np.indices(sizes).reshape(len(sizes), -1)
    starts = [block.start for block in generator.layout.blocks]
    p = generator.matrix()
    joint = np.prod([p[:, s + codes] for s, codes in zip(starts, grid, strict=True)], axis=0).mean(
        0
    )
    table = draw.tables[0]
    cells = table.cells(grid.T)
    whole = np.bincount(cells, joint, minlength=42)
    some = np.bincount(cells, joint * within[job][grid[job]], minlength=42)
    (values,) = fitted_tables(fitted.model_.tables, 800, fitted.model_.generator)
    np.testing.assert_allclose(draw.fitted[0].ravel(), values.ravel() * some / whole, rtol=1e-6)


@pytest.mark.parametrize(("number", "column"), [(1, "age"), (1, "job"), (3, "age")])
def test_components_of_cells_follow_bayes_rule(several: MargNet, number: int, column: str) -> None:
    """The probability of a component in the cells of tables, under a condition, by enumeration of all rows of codes."""
    encoder, generator = several.model_.encoder, several.model_.generator
    tables = several.model_.tables[:number]
    sizes, p = encoder.schema.sizes, generator.matrix()
    restricted = encoder.schema.names.index(column)
    within = {restricted: np.arange(sizes[restricted]) % 3 > 0.0}
    draw = TabulatedRows(generator, encoder, tables, 800, within)
    assigned = draw._cells(40, np.random.default_rng(0))
    grid = np.indices(sizes).reshape(len(sizes), -1)
    starts = [block.start for block in generator.layout.blocks]
    joint = np.prod([p[:, s + codes] for s, codes in zip(starts, grid, strict=True)], axis=0)
    joint *= within[restricted][grid[restricted]]
    found = draw._components(assigned, ())
    assert len(found) == len(assigned.counts) > 10
    for cell, probabilities in enumerate(found):
        box = assigned.box(cell)
        inside = np.all([box[j][grid[j]] > 0 for j in box], axis=0)
        masses = joint[:, inside].sum(axis=1)
        np.testing.assert_allclose(probabilities, masses / masses.sum(), rtol=1e-5, atol=1e-9)
    if (
        column == "job" and number == 1
    ):  # of a column that is yet to be assigned, the next table has the condition
        free = TabulatedRows(generator, encoder, tables, 800, {})
        next_ = draw._components(assigned, [restricted])
        np.testing.assert_allclose(next_, free._components(assigned, ()))


def all_counts(rows: list[int], columns: list[int], possible: np.ndarray) -> list[np.ndarray]:
    """All whole numbers with these sums that are 0 where they must, by brute force."""
    cells = np.argwhere(possible)
    upto = [range(min(rows[i], columns[j]) + 1) for i, j in cells]
    out = []
    for values in itertools.product(*upto):
        counts = np.zeros(possible.shape, int)
        counts[tuple(cells.T)] = values
        if (counts.sum(1) == rows).all() and (counts.sum(0) == columns).all():
            out.append(counts)
    return out


def test_joint_counts_have_their_sums_and_are_near_to_the_best() -> None:
    """Whole sums are kept; no counts with these sums are nearer to the fitted numbers by more than 1 in a cell."""
    rng = np.random.default_rng(0)
    rows, columns = [2, 2, 3], [3, 2, 2]
    every = all_counts(rows, columns, np.ones((3, 3), bool))
    for _ in range(30):
        weights = rng.random((3, 3)) ** 2
        fitted = weights.copy()
        for _ in range(300):
            fitted *= (rows / fitted.sum(axis=1))[:, None]
            fitted *= columns / fitted.sum(axis=0)
        counts = _joint_counts(weights, np.array(rows), np.array(columns, float), rng)
        assert any((counts == one).all() for one in every)
        best = min(np.abs(one - fitted).max() for one in every)
        assert np.abs(counts - fitted).max() < best + 1


def test_joint_counts_are_right_on_average() -> None:
    """Of independent weights the fitted numbers are products of the sums; fractions of columns are rounded at random."""
    rows, columns = np.array([7, 3, 12, 18]), np.array([3.3, 10.2, 6.5])
    draws = []
    for seed in range(200):
        counts = _joint_counts(np.ones((4, 3)), rows, columns, np.random.default_rng(seed))
        assert (counts.sum(axis=1) == rows).all()
        assert (np.abs(counts.sum(axis=0) - 2 * columns) < 1).all()
        draws.append(counts)
    np.testing.assert_allclose(np.mean(draws, axis=0), np.outer(rows, columns) / 20, atol=0.4)


def test_joint_counts_are_0_where_weights_are() -> None:
    possible = np.array([[True, True, False], [False, True, True]])
    (only,) = all_counts([3, 4], [1, 3, 3], possible)
    for seed in range(20):
        args = np.array([3, 4]), np.array([1.0, 3.0, 3.0]), np.random.default_rng(seed)
        np.testing.assert_array_equal(_joint_counts(possible.astype(float), *args), only)


def test_joint_counts_of_columns_without_rows_follow_the_weights() -> None:
    """Where the table has no row in any of its cells, only the mixture says how to spread the rows."""
    weights = np.array([[1.0, 3.0], [2.0, 2.0]])
    counts = _joint_counts(weights, np.array([40, 20]), np.zeros(2), np.random.default_rng(0))
    np.testing.assert_array_equal(counts, [[10, 30], [10, 10]])


def test_parts_of_a_stream_agree(fitted: MargNet) -> None:
    draw, rng = fitted.model_.stream_sampler(), torch.Generator().manual_seed(0)
    for rows in (400, 401):
        sample = fitted.model_.encoder.from_index(draw(rows, rng), np.random.default_rng(0))
        assert max(deviations(fitted, sample)[0]) < 1


@pytest.mark.slow
def test_implicates_differ_as_their_noise(fitted: MargNet) -> None:
    """Each agrees with its own tables, which differ from the fitted ones by noise of the same size."""
    (counts,) = fitted.model_.tables
    models = list(fitted.model_.implicates(2, 0))
    tables = [m.tables[0] for m in models]
    for each in models:
        one = copy(fitted)
        one.model_ = each
        sample = one.sample(800)
        assert max(deviations(one, sample)[0]) < 1
    for other in tables:
        errors = [
            (a - b).ravel() / s
            for a, b, s in zip(other.counts, counts.counts, counts.stds, strict=True)
        ]
        assert 0.6 < np.concatenate(errors).std() < 1.4


@pytest.mark.slow
def test_the_model_file_has_the_tables(several: MargNet, tmp_path: Path) -> None:
    several.save(tmp_path / "model")
    again = load(tmp_path / "model")
    pd.testing.assert_frame_equal(
        again.sample(300, random_state=1), several.sample(300, random_state=1)
    )
    facts, tensors = read_model(tmp_path / "model")
    kept = tensors[KEPT_TABLES]
    damages: list[tuple[dict[str, Any], dict[str, Any]]] = [
        (facts, {**tensors, KEPT_TABLES: kept[1:].clone()}),
        (facts, {name: t for name, t in tensors.items() if name != KEPT_TABLES}),
        ({**facts, "tables": {"noise": [[1.0]]}}, tensors),
        ({**facts, "tables": {"noise": [[-1.0] * 4, [1.0] * 3, [1.0] * 2]}}, tensors),
        ({**facts, "config": {**facts["config"], "tables": [["town", "nothing"]]}}, tensors),
    ]
    for number, (changed, weights) in enumerate(damages):
        write_model(tmp_path / str(number), changed, weights)
        with pytest.raises(FileFormatError, match="damaged"):
            load(tmp_path / str(number))


# The mixture.


@pytest.mark.parametrize("cells_at_once", [mixtures.CELLS, 8])
def test_rows_of_cells(monkeypatch: pytest.MonkeyPatch, cells_at_once: int) -> None:
    """Exactly so many rows in each cell, of one or two boxes, and the rest of the mixture given the cell."""
    monkeypatch.setattr(mixtures, "CELLS", cells_at_once)
    encoder_layout = model().fit(frame(50)).model_.encoder.layout
    generator = torch.Generator().manual_seed(0)
    sizes = encoder_layout.sizes
    p = torch.cat([torch.rand(4, n, generator=generator).pow(3).softmax(1) for n in sizes], 1)
    mixture = Mixture(encoder_layout, 4).set(p)
    town = [np.eye(7)[[0]].sum(0), np.eye(7)[[1, 2]].sum(0), np.eye(7)[[5]].sum(0)]
    boxes = [{0: town[0]}, {0: town[1], 1: np.arange(10) < 5}, {0: town[2]}]
    counts = np.array([3000, 5000])
    rows = mixture.sample_cells(
        boxes, np.array([0, 1, 1]), counts, np.random.default_rng(0), rounded=False
    )
    first = rows[:, 0] == 0
    assert first.sum() == 3000 and len(rows) == 8000 and not first[:3000].all()
    inside = np.isin(rows[:, 0], [1, 2]) & (rows[:, 1] < 5) | (rows[:, 0] == 5)
    assert (inside | first).all()
    m = p.double().numpy()
    starts = [block.start for block in encoder_layout.blocks]
    weight = m[:, starts[0]] / m[:, starts[0]].sum()
    job = m[:, starts[3] : starts[3] + 4]
    found = np.bincount(rows[first, 3], minlength=4) / 3000
    np.testing.assert_allclose(found, weight @ job, atol=0.03)
    one = m[:, starts[0] + 1 : starts[0] + 3].sum(1) * m[:, starts[1] : starts[1] + 5].sum(1)
    two = m[:, starts[0] + 5]
    share = two.sum() / (one + two).sum()
    assert (rows[~first, 0] == 5).mean() == pytest.approx(share, abs=0.03)


def test_the_loss_of_tables_is_by_enumeration() -> None:
    """Squared errors in units of the noise at each level, of all rows of codes; the gradient by differences."""
    encoder = model().fit(frame(50)).model_.encoder
    layout = encoder.layout
    tables = declared_tables(SCHEMA, [TABLE, ("pay",), ("job", "state", "age", "sex")], 10_000)
    rng = np.random.default_rng(0)
    counts = []
    for table in tables:
        shapes = [table.shape_at(level) for level in range(len(table.levels))]
        noisy = tuple(rng.normal(5, 3, shape) for shape in shapes)
        counts.append(TableCounts(table, noisy, tuple(1.0 + i for i in range(len(shapes)))))
    p = torch.cat([torch.rand(3, n, generator=torch.Generator().manual_seed(1)).softmax(1) for n in layout.sizes], 1)  # fmt: skip
    grid = np.indices(layout.sizes).reshape(len(layout.sizes), -1)
    starts = [block.start for block in layout.blocks]
    m = p.double().numpy()
    joint = np.prod([m[:, s + codes] for s, codes in zip(starts, grid, strict=True)], axis=0).sum(0)
    wanted = 0.0
    for noisy in counts:
        table = noisy.table
        expected = 7.0 * np.bincount(table.cells(grid.T), joint, minlength=math.prod(table.shape))
        levels = table.sums(expected.reshape(table.shape))
        for level, own, std in zip(levels, noisy.counts, noisy.stds, strict=True):
            wanted += float((np.square(level - own) / std**2).sum())
    grids = [grid for noisy in counts for grid in noisy.grids]
    loss = Tables(layout, grids, 7.0, "cpu")
    value, gradient = loss(p)
    assert float(value) == pytest.approx(wanted, rel=1e-5)
    assert loss.cells == sum(own.size for noisy in counts for own in noisy.counts)
    for k, j in ((0, 0), (1, starts[1] + 4), (2, starts[4])):
        up, down = p.clone(), p.clone()
        up[k, j] += 0.01
        down[k, j] -= 0.01
        slope = (float(loss(up)[0]) - float(loss(down)[0])) / 0.02
        assert 2 * float(gradient[k, j]) == pytest.approx(slope, rel=2e-2, abs=0.5)


@pytest.mark.slow
def test_the_mixture_is_near_to_declared_tables() -> None:
    """The fit's targets have their precision: with little noise the mixture expects the declared counts."""
    config = {"steps": 900, "components": 60}
    made = model(epsilon=200.0, config=config).fit(frame())
    table = made.model_.tables[0].table
    found = expected_table(table, made.model_.generator).ravel()
    real = np.bincount(table.cells(made.model_.encoder.to_index(frame())), minlength=42) / 800
    assert np.abs(found - real).sum() / 2 < 0.05


def test_expected_triples_of_many_boxes_are_those_of_each(
    fitted: MargNet, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the average of each component over the boxes, against the sum of all boxes; triples with three restricted columns are left out."""
    mixture = fitted.model_.generator
    assert isinstance(mixture, Mixture)
    sizes, rng = mixture.layout.sizes, np.random.default_rng(0)
    halves = [np.arange(sizes[j]) < sizes[j] // 2 for j in range(3)]
    sides = itertools.product(*[(half, ~half) for half in halves])
    boxes = [dict(enumerate(side)) for side in sides]
    counts = np.array([40, 5, 20, 35, 0, 9, 61, 30]) + 1
    restricted = mixtures.Restricted(
        mixture.matrix() + 1e-9, mixture.layout, boxes, None, (np.arange(8), counts)
    )
    each = mixtures._Triples.within(restricted, 208, 0)
    monkeypatch.setattr(mixtures, "MAX_PARTS", 3)
    many = mixtures._Triples.within(restricted, 208, 0)
    assert each is not None and many is not None
    wanted = {tuple(s): each.expected[a:b] for s, a, b in zip(each.sets.tolist(), each.starts, each.starts[1:], strict=False)}  # fmt: skip
    found = {tuple(s): many.expected[a:b] for s, a, b in zip(many.sets.tolist(), many.starts, many.starts[1:], strict=False)}  # fmt: skip
    assert sorted(found) == sorted(s for s in wanted if s != (0, 1, 2)) and (0, 1, 2) in wanted
    for columns, expected in found.items():
        np.testing.assert_allclose(expected, wanted[columns], atol=1e-9)
    assert mixtures._Triples.within(restricted, 208, 3) is None  # public rows are not averaged
    monkeypatch.setattr(mixtures, "HELD", len(mixture.matrix()) * max(sizes))
    few = mixtures._Triples.within(restricted, 208, 0)
    room = {s for s in found if len({0, 1, 2} & {*s}) < 2}
    assert few is not None and room <= {*map(tuple, few.sets.tolist())} < {*found}
    codes = mixture.sample_cells(boxes, np.arange(8), counts, rng)
    sides = [~half[codes[:, j]] for j, half in enumerate(halves)]
    assert np.bincount(4 * sides[0] + 2 * sides[1] + sides[2]).tolist() == counts.tolist()
