"""Planned errors of tables against dense least squares, and against the noise that a fit states."""

import math

import numpy as np
import pandas as pd
import pytest
from command_lines import refused, run

from tabsynth import Categorical, InputError, MargNet, Schema
from tabsynth.privacy.accounting.accountants import gaussian_mu
from tabsynth.synthesizers import MargNetConfig
from tabsynth.table_errors import plan_tables


def schema(*sizes: int) -> Schema:
    return Schema(
        [
            Categorical(name=f"c{i}", dtype="str", categories=tuple(f"v{k:02}" for k in range(n)))
            for i, n in enumerate(sizes)
        ]
    )


def test_one_column_has_the_noise_of_the_whole_budget():
    (plan,) = plan_tables([["c0"]], schema(8), 5000, 1.0)
    assert plan.standard_error == pytest.approx(1 / gaussian_mu(1.0, 1e-5), rel=1e-6)
    assert plan.cells == plan.counted == 8
    assert plan.relative == pytest.approx(plan.standard_error / (5000 / 8))
    assert plan.margins == {"c0": pytest.approx(plan.relative)}


def test_a_table_is_estimated_from_all_counts_that_show_it():
    """Least squares of all cells of three columns from the counts of a fit to uniform rows, written out."""
    sizes, rows = (2, 3, 4), 24_000
    declared = schema(*sizes)
    every = np.array(list(np.ndindex(*sizes)))
    codes = np.repeat(every, rows // len(every), axis=0)
    table = pd.DataFrame(
        {c.name: pd.Series([c.categories[k] for k in codes[:, j]], dtype="str") for j, c in enumerate(declared.columns)}
    )  # fmt: skip
    config = MargNetConfig(steps=1, components=2, triples_share=0.0)
    model = MargNet(declared, epsilon=1.0, rows=rows, random_state=0, config=config).fit(table)
    information = np.zeros((len(every), len(every)))
    sets = [m for m in model.model_.measured.counts if len(m.columns) < 3]
    for m in sets:
        cell = np.ravel_multi_index(every[:, m.columns].T, m.counts.shape)
        indicator = np.eye(m.counts.size)[:, cell]
        information += indicator.T @ indicator / m.std**2
    covariance = np.linalg.pinv(information)
    of_pair = np.eye(6)[:, np.ravel_multi_index(every[:, :2].T, (2, 3))]
    dense = np.sqrt(np.diag(of_pair @ covariance @ of_pair.T).mean())
    of_one = np.eye(2)[:, every[:, 0]]
    margin = np.sqrt(np.diag(of_one @ covariance @ of_one.T).mean()) / (rows / 2)
    # The plan counts the triple as well; take its part of the budget out by planning with the same sets.
    from tabsynth.synthesizers.margnet.selection import Resolution
    from tabsynth.table_errors import Counted, _error

    counted = [Counted(m.columns, m.std, m.counts.size) for m in sets]
    plan = _error(declared, rows, (0, 1), counted, Resolution.by_value(sizes))
    assert plan.standard_error == pytest.approx(dense, rel=1e-6)
    assert plan.margins["c0"] == pytest.approx(margin, rel=1e-6)


def test_a_plan_has_the_noise_of_a_fit_to_uniform_rows():
    """What a plan takes to be counted is what a fit counts, where all values are equally frequent."""
    from tabsynth.table_errors import _counts_of_fit

    rows, declared = 6000, schema(3, 4, 5, 2)
    rng = np.random.default_rng(0)
    table = pd.DataFrame({c.name: rng.choice(c.categories, rows) for c in declared.columns}).astype(
        "str"
    )
    config = MargNetConfig(steps=1, components=2)
    model = MargNet(declared, epsilon=1.0, rows=rows, random_state=0, config=config).fit(table)
    planned, _ = _counts_of_fit(declared, rows, 1.0, 1e-5, [(0, 1)])
    joint = {c.columns: c.std for c in planned if len(c.columns) > 1}
    measured = model.model_.measured
    fitted = {m.columns: m.std for m in measured.counts if len(m.columns) > 1}
    fitted |= {grid.columns: grid.std for grid in measured.grids}
    assert (0, 1, 2, 3) in fitted  # 120 cells, which are counted whole
    assert joint.keys() == fitted.keys()
    assert all(joint[s] == pytest.approx(fitted[s], rel=1e-6) for s in joint)


def test_more_budget_and_more_rows_are_less_error():
    declared = schema(*[4] * 13)  # 78 pairs: they are scored first
    plans = [
        plan_tables([["c0", "c5"]], declared, n, e)[0]
        for n, e in ((5000, 1.0), (5000, 4.0), (50_000, 1.0))
    ]
    assert plans[1].standard_error < plans[0].standard_error
    assert plans[2].relative < plans[0].relative
    assert all(p.counted == p.cells == 16 for p in plans)


def test_a_triple_that_is_not_counted_has_no_error():
    (plan,) = plan_tables([["c0", "c1", "c2"]], schema(9, 9, 9, 9), 300, 0.1)
    assert plan.standard_error is None and plan.relative is None
    assert all(math.isfinite(error) for error in plan.margins.values())


@pytest.mark.parametrize(
    ("tables", "message"),
    [
        ([], "got none"),
        ([["c0", "x"]], "names column 'x', which is not among the modelled columns: c0, c1, c2, c3"),
        ([["c0", "c0"]], "one or more different columns"),
        ([[]], "one or more different columns"),
        ([["c0", "c1", "c2"]], "past 1,000,000"),
        ([["c0", "c1", "c2", "c3"]], "past the limit of 1,000,000"),
    ],
)  # fmt: skip
def test_bad_tables_are_refused(tables, message):
    with pytest.raises(InputError, match=message) as error:
        plan_tables(tables, schema(200, 200, 200, 2), 1000, 1.0)
    assert "\n" not in str(error.value)
    with pytest.raises(InputError, match="epsilon=inf"):
        plan_tables([["c0"]], schema(2), 1000, math.inf)


def test_the_command_line(tmp_path):
    schema(200, 30, 200, 2).save(tmp_path / "schema.json")
    words = ("plan", "--rows", 10_000, "--epsilon", 1)
    given = (*words, "--schema", "schema.json")
    out = run(*given, "--table", "c1,c3", "--table", "c1", cwd=tmp_path).stdout
    assert "Counts of synthetic rows have other errors" in out
    assert "No table was read." in out and "c1,c3" in out and " rows " in out
    assert "c1,c3" in run(*given, "--table", "c3, c1", cwd=tmp_path).stdout
    refused(*given, "--table", "c1,x", cwd=tmp_path, says="'x'")
    refused(*given, "--table", "c0,c1,c2", cwd=tmp_path, says="past 1,000,000")
    refused(*words, "--table", "c1,c3", cwd=tmp_path, says="--schema")
    refused(*given, "--table", "c1", "--method", "dp-gan", cwd=tmp_path, says="counts of margnet")


def test_a_declared_table_has_the_error_of_least_squares():
    """Of all levels of all declared tables, by the normal equations of the cells of one, whose sum is given."""
    declared = schema(4, 3, 2)
    tables = [["c0", "c1"], ["c1", "c2"]]
    (plan, _) = plan_tables(tables, declared, 5000, 1.0)
    share = MargNetConfig().tables_share
    std = 1 / gaussian_mu(1.0, 1e-5) / math.sqrt(share) * math.sqrt(4)  # two levels of each
    cells = [(a, b) for a in range(4) for b in range(3)]
    rows = [np.eye(12)[i] for i in range(12)]
    rows += [np.array([float(b == k) for _, b in cells]) for k in range(3)]
    information = np.array(rows).T @ np.array(rows) / std**2
    system = np.block([[information, np.ones((12, 1))], [np.ones((1, 12)), np.zeros((1, 1))]])
    dense = math.sqrt(np.diag(np.linalg.inv(system))[:12].mean())
    assert plan.declared == pytest.approx(dense, rel=1e-6)
