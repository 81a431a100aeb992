"""Counts of measured tables: estimates and variances against independent computations, sums that agree, and intervals that cover."""

from itertools import combinations

import linked_tables
import numpy as np
import pandas as pd
import pytest
from small_fits import QUICK, SCHEMA, fit, rows

from tabsynth import DPWGAN, InputError, LinkedMargNet, MargNet, Schema, load, verify, write_table
from tabsynth.privacy.noise.counts import Measured, count_rows, in_groups
from tabsynth.schema import Column
from tabsynth.synthesizers.adversarial.critic import WGANConfig
from tabsynth.synthesizers.margnet.consistent import ConsistentCounts, frames, variance_of
from tabsynth.synthesizers.margnet.grids import GridCounts
from tabsynth.synthesizers.margnet.selection import Measurements, Resolution
from tabsynth.synthesizers.method import with_settings

SIZES = [4, 5, 3, 6]
VALUES = [np.arange(size) for size in SIZES]
PAIRS = [[0, 1, 1, 2], [0, 0, 1, 2, 3], [0, 1, 2], [0, 1, 2, 2, 3, 4]]
TRIPLES = [[0, 0, 1, 2], [0, 0, 1, 1, 2], [0, 1, 2], [0, 0, 1, 2, 3, 3]]
MEET = [[0, 0, 0, 1], [0, 0, 1, 1, 2], [0, 1, 2], [0, 0, 1, 1, 2, 2]]  # of both, worked out by hand
SETS = [(0,), (1,), (2,), (3,), *combinations(range(4), 2), (0, 1, 2), (0, 1, 3)]
STDS = [5, 4, 6, 3, 8, 7, 6, 5, 9, 5, 3, 4]
TRUTH = np.random.default_rng(0).poisson(30, SIZES).astype(float)


def resolution(*, equal):
    fine, coarse = (VALUES, VALUES) if equal else (map(np.array, PAIRS), map(np.array, TRIPLES))
    return Resolution(VALUES, list(fine), list(coarse))


def margin(columns, groups):
    others = tuple(j for j in range(len(SIZES)) if j not in columns)
    return in_groups(TRUTH.sum(axis=others), [groups[j] for j in columns])


def measurements(*, equal, change=None, whole=False):
    """Counts of the true table, with ``change`` added to each count in turn."""
    by, rest = resolution(equal=equal), iter(np.zeros(10_000) if change is None else change)
    counts = []
    for columns, std in zip(SETS, STDS, strict=True):
        exact = margin(columns, by.of(columns))
        added = np.array([next(rest) for _ in range(exact.size)]).reshape(exact.shape)
        counts.append(Measured(columns, exact + added, float(std)))
    grids = []
    if whole:
        added = np.array([next(rest) for _ in range(TRUTH.size)]).reshape(SIZES)
        grids = [GridCounts((0, 1, 2, 3), tuple(VALUES), TRUTH + added, 2.0, related=True)]
    return Measurements(counts, TRUTH.sum(), by, grids=grids)


def estimates(measured, rows=None):
    consistent = ConsistentCounts(measured, SIZES, rows)
    return consistent, [consistent.estimate(table) for table in consistent.tables]


def noise_of(consistent):
    """The variance of each count, as many times as there are cells."""
    each = [np.full(t.counts.size, variance_of(t.std)) for t in consistent.tables]
    return np.concatenate(each)


@pytest.mark.parametrize(("whole", "total"), [(False, None), (True, None), (False, 10_800)])
def test_estimates_are_generalised_least_squares(whole, total):
    """Of counts by value: they and their variances are those of a dense solution for the cells of the whole table.

    A number of rows that is public is a count without noise of all cells.
    """
    change = np.random.default_rng(1).normal(0, 5, 1000)
    measured = measurements(equal=True, change=change, whole=whole)
    consistent, estimated = estimates(measured, total)
    assert len(consistent.tables) == len(SETS) + whole and not consistent.alone
    cells = np.indices(SIZES).reshape(4, -1)
    designs = []
    for table in consistent.tables:
        of = np.ravel_multi_index(cells[list(table.columns)], table.counts.shape)
        designs.append((np.arange(table.counts.size)[:, None] == of).astype(float))
    roots = np.sqrt(noise_of(consistent))
    design = np.concatenate(designs) / roots[:, None]
    counts = np.concatenate([t.counts.ravel() for t in consistent.tables]) / roots
    if total is not None:
        design = np.concatenate([design, np.full((1, TRUTH.size), 1e4)])
        counts = np.append(counts, 1e4 * total)
    solution = np.linalg.lstsq(design, counts, rcond=None)[0]
    covariance = np.linalg.pinv(design.T @ design)
    for (values, variance), of in zip(estimated, designs, strict=True):
        assert np.allclose(values.ravel(), of @ solution)
        assert np.allclose(
            variance.ravel(), np.einsum("ij,jk,ik->i", of, covariance, of), atol=1e-5
        )
    assert consistent.total == pytest.approx(solution.sum())
    assert consistent.total_variance == pytest.approx(covariance.sum(), abs=1e-5)


def test_variances_are_those_of_the_linear_map():
    """In other groups for triples than for pairs: each count is changed by itself, and what that does is added up."""
    exact, before = estimates(measurements(equal=False))
    for (values, _), table in zip(before, exact.tables, strict=True):
        assert np.allclose(values, table.counts)  # unbiased: of counts without noise, the counts
    noise, size = noise_of(exact), sum(t.counts.size for t in exact.tables)
    variances, total = [np.zeros(t.counts.shape) for t in exact.tables], 0.0
    for i in range(size):
        changed, after = estimates(measurements(equal=False, change=np.eye(size)[i]))
        for out, (new, _), (old, _) in zip(variances, after, before, strict=True):
            out += noise[i] * (new - old) ** 2
        total += noise[i] * (changed.total - exact.total) ** 2
    for out, (_, variance) in zip(variances, before, strict=True):
        assert np.allclose(out, variance, rtol=1e-6)
    assert total == pytest.approx(exact.total_variance)


@pytest.mark.parametrize("equal", [False, True])
def test_tables_have_the_same_sums(equal):
    """Over columns that only one of two tables has, in all groups that both have."""
    change = np.random.default_rng(2).normal(0, 9, 1000)
    consistent, estimated = estimates(measurements(equal=equal, change=change))
    by = {t.columns: values for t, (values, _) in zip(consistent.tables, estimated, strict=True)}
    meet = VALUES if equal else list(map(np.array, MEET))
    common = {2: resolution(equal=equal).pairs, 3: resolution(equal=equal).triples}

    def within(columns, kept, groups):
        """The sums of a table over some of its columns, in coarser groups of theirs."""
        own = common.get(len(columns), VALUES)
        coarser = []
        for j in kept:
            group = np.zeros(own[j].max() + 1, dtype=int)
            group[own[j]] = groups[j]
            coarser.append(group)
        others = tuple(i for i, j in enumerate(columns) if j not in kept)
        return in_groups(by[columns].sum(axis=others), coarser)

    checked = 0
    for first, second in combinations(by, 2):
        kept = tuple(sorted({*first} & {*second}))
        orders = {len(first), len(second)}
        groups = meet if orders == {2, 3} else common.get(max(orders), VALUES)
        if kept:
            assert np.allclose(within(first, kept, groups), within(second, kept, groups))
            checked += 1
        assert by[first].sum() == pytest.approx(consistent.total)
    assert checked > 40


def scores(model, table):
    """How far estimates are from the exact counts, in standard errors, cell by cell, and the frame."""
    encoder = model.model_.encoder
    codes = encoder.to_index(table)
    consistent = ConsistentCounts(model.model_.measured, encoder.schema.sizes)
    exact = [
        count_rows(
            codes, table.columns, dict(zip(table.columns, table.groups, strict=True))
        ).ravel()
        for table in (*consistent.tables, *consistent.alone)
    ]
    exact += [
        np.bincount(of.table.cells(codes), minlength=of.counts[0].size)
        for of in model.model_.tables
    ]
    out = model.counts()
    truth = np.concatenate([[len(codes)], *exact])
    return ((out["estimate"] - truth) / out["standard_error"]).to_numpy(), out, truth


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"target": "pay"},
        {"tables": [("region", "sex"), ("age", "sex")]},
        {"workload": [("sex", "region", "age")]},
    ],
    ids=["plain", "target", "tables", "workload"],
)
@pytest.mark.parametrize("epsilon", [0.5, 4.0])
@pytest.mark.filterwarnings("ignore::tabsynth.errors.ConvergenceWarning")
def test_intervals_cover(options, epsilon):
    """The distance from the exact counts is that of the standard errors, of tables counted once, twice and at levels."""
    squares, covered = [], []
    for seed in (1, 2, 3):
        model = fit(epsilon=epsilon, seed=seed, time_limit=0.2, **options)
        z, out, truth = scores(model, rows())
        squares.append(np.square(z).mean())
        covered.append(((out["low"] <= truth) & (truth <= out["high"])).mean())
        assert (out["standard_error"] <= out["noise"].fillna(np.inf) + 1e-3).all()
        assert {"measured"} <= {*out["source"]} <= {"measured", "measured, by itself"}
    assert 0.75 < np.mean(squares) < 1.25 and np.mean(covered) >= 0.93


def test_a_public_number_of_rows_is_the_total():
    """And narrows other intervals; where the noisy counts refute it, it is none."""
    table = rows(2000)
    by = {
        n: MargNet(SCHEMA, epsilon=1.0, rows=n, random_state=0, config=QUICK)
        for n in (None, 2000, 400)
    }
    for model in by.values():
        model.fit(table)
    free, fixed, refuted = (by[n].counts() for n in by)
    assert (fixed["estimate"][0], fixed["standard_error"][0]) == (2000, 0)
    assert free["standard_error"][0] > 0 and refuted["standard_error"][0] > 0
    sums = fixed[fixed["table"] == "sex × age"]["estimate"].sum()
    assert sums == pytest.approx(2000, abs=0.1)
    assert fixed["standard_error"].mean() < free["standard_error"].mean()


@pytest.mark.parametrize("tables", [(), [("sex", "region")]])
def test_impossible_cells_are_zero(tables):
    """In all tables, also in those of the model and in declared ones; no other cell is."""
    schema = Schema(SCHEMA.columns, impossible=[{"sex": ["f"], "region": ["a", "b"]}])
    table = rows(2000)
    table = table[~((table["sex"] == "f") & table["region"].isin(["a", "b"]))]
    model = MargNet(schema, epsilon=1.0, random_state=0, tables=tables, config=QUICK).fit(table)
    for by in (["sex", "region"], ["sex", "region", "age", "pay"]):
        counts = model.counts(by)
        zero = (counts["sex"] == "f") & counts["region"].isin(["a", "b", "a | b"])
        assert zero.any() and (counts["estimate"][zero] == 0).all()
        if by == ["sex", "region"]:
            assert (counts.loc[zero, ["standard_error", "low", "high"]] == 0).all(axis=None)
            assert (counts.loc[~zero, "standard_error"] > 0).all()


def test_counts_without_noise_are_exact():
    model = fit()
    _, out, truth = scores(model, rows())
    assert np.allclose(out["estimate"], truth) and (out["standard_error"] == 0).all()


def unit_fit(epsilon=2.0):
    schema = Schema(SCHEMA.columns, unit="who", max_rows_per_unit=2)
    table = rows(2000).assign(who=np.repeat(np.arange(1000), 2))
    return MargNet(schema, epsilon=epsilon, random_state=3, config=QUICK).fit(table), table


def test_counts_of_units_have_their_noise():
    model, table = unit_fit()
    z, out, _ = scores(model, table)
    assert 0.8 < np.square(z).mean() < 1.25
    record = MargNet(SCHEMA, epsilon=2.0, random_state=3, config=QUICK).fit(
        table.drop(columns="who")
    )
    ages = out["noise"][out["table"] == "age"].iloc[0]
    assert ages == pytest.approx(2 * record.counts("age")["noise"].iloc[0], rel=0.1)


@pytest.fixture(scope="module")
def model():
    return fit(epsilon=2.0, tables=[("region", "sex")])


def test_one_table_is_that_of_all(model, tmp_path):
    whole, pair = model.counts(), model.counts(["age", "sex"])
    assert list(pair)[:2] == ["age", "sex"] and set(pair["source"]) == {"measured"}
    same = whole[whole["table"] == "sex × age"]
    numbers = ["noisy", "noise", "estimate", "standard_error", "low", "high"]
    assert np.array_equal(pair[numbers], same[numbers])
    assert list(same["value_1"]) == list(pair["sex"]) and list(same["value_2"]) == list(pair["age"])
    assert set(same["column_1"]) == {"sex"} and same["noise"].nunique() == 1
    single = model.counts("region")
    assert list(single["region"]) == ["a", "b", "c", "null"]
    assert "a | b" not in set(single["region"])
    declared = model.counts(["sex", "region"])
    assert set(declared["source"]) == {"measured, by itself"} and len(declared) == 8
    model.save(tmp_path / "m")
    pd.testing.assert_frame_equal(load(tmp_path / "m").counts(), whole)


def test_a_table_that_was_not_measured_is_the_models(model):
    table = model.counts(["sex", "region", "age", "pay"])
    assert set(table["source"]) == {"model"}
    assert table[["noisy", "noise", "standard_error", "low", "high"]].isna().all(axis=None)
    assert table["estimate"].sum() == pytest.approx(model.counts()["estimate"][0], abs=1)
    women = table.groupby("sex")["estimate"].sum()["f"]
    assert women == pytest.approx(model.counts("sex")["estimate"][0], rel=0.1)


def test_counts_cost_nothing_and_carry_their_claim(model, tmp_path):
    before = model.model_.ledger.to_list()
    table = model.counts()
    assert model.model_.ledger.to_list() == before
    stated = table.attrs["certificate"]
    assert stated["mechanisms"] == model.certificate()["mechanisms"] and stated["counts"] is True
    write_table(table, tmp_path / "counts.csv")
    done = verify(tmp_path / "counts.csv")
    assert not done.problems and done.certificate["counts"] is True


@pytest.mark.parametrize(
    ("by", "message"),
    [
        ("height", "Table 'height' names column 'height', which the schema does not have"),
        (["sex", "sex"], "Table 'sex,sex' names column 'sex' twice"),
        ([], "must be a list of columns"),
        (3, "Table 3 must be a list of columns"),
    ],
)
def test_columns_that_are_none(model, by, message):
    with pytest.raises(InputError, match=message) as refused:
        model.counts(by)
    assert "\n" not in str(refused.value)


def test_a_column_with_the_name_of_a_number():
    column = Column(name="source", kind="categorical", dtype="str", categories=("x", "y"))
    table = pd.DataFrame({"source": ["x", "y"] * 50})
    named = MargNet(Schema([column]), epsilon=1.0, config=QUICK).fit(table)
    with pytest.raises(InputError, match="Column 'source' has the name of a column of the result"):
        named.counts("source")
    assert set(named.counts()["table"]) == {"all rows", "source"}


@pytest.mark.filterwarnings("ignore::tabsynth.errors.ConvergenceWarning")
def test_models_without_counts_say_so():
    config = with_settings(WGANConfig(), step__sampling_rate=1.0, step__count=2, warm_start_steps=1)
    gan = DPWGAN(SCHEMA, epsilon=2.0, config=config, autoencoder=None).fit(rows(200))
    linked = LinkedMargNet(
        linked_tables.schema(), epsilon=4.0, config=linked_tables.TINY, time_limit=0.01
    )
    weighted = MargNet(
        Schema(SCHEMA.columns, weight="w", max_weight=3.0),
        epsilon=2.0,
        config=QUICK,
        random_state=0,
    )
    for fitted, says in (
        (gan, "There are no counts, as method dp-wgan keeps no noisy counts; fit margnet."),
        (linked.fit(linked_tables.tables()), "method linked-margnet keeps no noisy counts"),
        (weighted.fit(rows(500).assign(w=1.5)), "it has survey weights"),
    ):
        with pytest.raises(InputError, match=says) as refused:
            fitted.counts()
        assert "\n" not in str(refused.value)


def test_names_of_groups():
    """Neighbours in order are a range, others are listed."""
    labels = {*fit(epsilon=0.2).counts()["value_2"].dropna()}
    assert any(" to " in label for label in labels), labels


def test_tables_of_cut_values_have_estimates_by_themselves():
    model = fit(epsilon=4.0, target="pay")
    consistent = ConsistentCounts(model.model_.measured, model.model_.encoder.schema.sizes)
    every = len(consistent.tables) + len(consistent.alone)
    assert len(list(frames(model.model_, consistent))) == every > len(consistent.tables)
    for table in consistent.alone:
        assert len(table.columns) > 3


def test_declared_tables_are_least_squares_of_their_levels():
    """Against a dense solution: cells of a tree of three levels, each with its noise."""
    model = fit(epsilon=2.0, tables=[("region", "sex")])
    (of,) = model.model_.tables
    parents, cells = of.table.parents(), of.counts[0].size
    leaf = np.arange(len(of.counts[0]))
    designs, levels = [np.eye(cells)], [leaf]
    for parent in parents:
        levels.append(parent[levels[-1]])
        row = levels[-1][:, None] * of.counts[0].shape[1] + np.arange(of.counts[0].shape[1])
        designs.append((np.arange(row.max() + 1)[:, None] == row.ravel()).astype(float))
    roots = np.concatenate(
        [
            np.full(c.size, variance_of(std) ** 0.5)
            for c, std in zip(of.counts, of.stds, strict=True)
        ]
    )
    design = np.concatenate(designs) / roots[:, None]
    counts = np.concatenate([c.ravel() for c in of.counts]) / roots
    table = model.counts(["region", "sex"])
    assert np.allclose(table["estimate"], np.linalg.lstsq(design, counts, rcond=None)[0], atol=1e-3)
    errors = np.sqrt(np.diag(np.linalg.inv(design.T @ design)))
    assert np.allclose(table["standard_error"], errors, atol=1e-3)
