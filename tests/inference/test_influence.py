"""Estimates from noisy counts against textbook formulas on the private rows, and against simulated noise."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize
from small_fits import QUICK, fit, rows

from tabsynth import DPWGAN, Categorical, InputError, MargNet, Numeric, Ordinal, Schema, load
from tabsynth.inference import (
    NOT_SUPPORTED,
    Reference,
    crosstab,
    influence,
    logit,
    mean,
    ols,
    proportion,
    quantile,
)
from tabsynth.privacy.noise.counts import count_rows

TABLE = rows()


@pytest.fixture(scope="module")
def exact():
    """Reference rows of a fit to exact counts: estimates are those of the private table itself."""
    return Reference(fit(), random_state=3)


@pytest.fixture(scope="module")
def noisy():
    return fit(epsilon=2.0)


def test_shares_of_exact_counts_are_those_of_the_table(exact):
    out = crosstab(exact, ["sex", "region"])
    true = TABLE.groupby(["sex", "region"], dropna=False).size() / len(TABLE)
    assert np.allclose(out["estimate"], true, atol=1e-4)
    textbook = np.sqrt(true * (1 - true) / len(TABLE))
    assert np.allclose(out["standard_error"], textbook, rtol=0.15)
    assert (out["note"] == "").all()
    assert out.index.names == ["sex", "region"]


def test_events_are_conditions(exact):
    out = proportion(exact, {"age": {"low": 3, "high": 5}, "sex": "f"})
    true = (TABLE["age"].between(3, 5) & (TABLE["sex"] == "f")).mean()
    assert np.allclose(out["estimate"], true, atol=1e-4)
    null = proportion(exact, {"region": [None, "a"]})["estimate"].iloc[0]
    assert null == pytest.approx(
        (TABLE["region"].isna() | (TABLE["region"] == "a")).mean(), abs=1e-4
    )
    by = proportion(exact, {"age": [8, 9]}, by="sex")
    share = TABLE.groupby("sex")["age"].apply(lambda a: (a >= 8).mean())
    assert np.allclose(by["estimate"], share, atol=2e-3)


def test_means_of_groups(exact):
    out = mean(exact, "age", by="region")
    grouped = TABLE.groupby("region", dropna=False)["age"]
    assert np.allclose(out["estimate"], grouped.mean(), atol=0.02)
    assert np.allclose(out["standard_error"], grouped.std() / np.sqrt(grouped.size()), rtol=0.1)


def test_least_squares(exact):
    out = ols(exact, "age", ["sex", "pay"])
    x = np.column_stack([np.ones(len(TABLE)), TABLE["sex"] == "m", TABLE["pay"]]).astype(float)
    y = TABLE["age"].to_numpy(dtype=float)
    beta, inverse = np.linalg.lstsq(x, y, rcond=None)[0], np.linalg.inv(x.T @ x)
    scores = x * (y - x @ beta)[:, None]
    errors = np.sqrt(np.diag(inverse @ scores.T @ scores @ inverse))
    assert list(out.index) == ["intercept", "sex[m]", "pay"]
    assert np.allclose(out["estimate"], beta, atol=0.02)
    assert np.allclose(out["standard_error"], errors, rtol=0.1)


def test_logistic_regression(exact):
    out = logit(exact, {"sex": "m"}, ["age"])
    y = (TABLE["sex"] == "m").to_numpy(dtype=float)
    x = np.column_stack([np.ones(len(TABLE)), TABLE["age"]])

    def loss(beta):
        return np.logaddexp(0, x @ beta).sum() - y @ (x @ beta)

    beta = minimize(loss, np.zeros(2)).x
    p = 1 / (1 + np.exp(-x @ beta))
    errors = np.sqrt(np.diag(np.linalg.inv((x * (p * (1 - p))[:, None]).T @ x)))
    assert np.allclose(out["estimate"], beta, atol=0.01)
    assert np.allclose(out["standard_error"], errors, rtol=0.1)


def test_quantiles(exact):
    out = quantile(exact, "age", 0.5, by="sex")
    assert np.array_equal(out["estimate"], TABLE.groupby("sex")["age"].median())
    assert (out["low"] <= out["estimate"]).all() and (out["estimate"] <= out["high"]).all()
    low = quantile(exact, "age", 0.01)["estimate"].iloc[0]
    assert low == TABLE["age"].quantile(0.01)


def test_what_no_count_shows_is_not_supported(noisy):
    measured = noisy.model_.measured
    pairs = [m for m in measured.counts if len(m.columns) < 3]  # as if no triple had been counted
    model = _with(noisy, replace(measured, counts=pairs))
    reference = Reference(model, random_state=0)
    out = crosstab(reference, ["sex", "region", "pay"])
    assert (out["note"] == NOT_SUPPORTED).mean() > 0.9
    assert out.loc[out["note"] == NOT_SUPPORTED, ["estimate", "low"]].isna().all(axis=None)
    without = [m for m in measured.counts if m.columns != (0, 2)]
    without = [m for m in without if not {0, 2} <= set(m.columns)]
    fewer = Reference(_with(noisy, replace(measured, counts=without)), random_state=0)
    assert (mean(fewer, "age", by="sex")["note"] == NOT_SUPPORTED).all()
    assert (mean(fewer, "age")["note"] == "").all()


def _with(model, measured):
    """The same model with other noisy counts."""
    from copy import copy

    out = copy(model)
    out.model_ = replace(model.model_, measured=measured)
    return out


@pytest.mark.slow
def test_standard_errors_are_those_of_simulated_noise(exact, noisy):
    """Counts are drawn again around their true values, with the noise that the fit states."""
    measured = noisy.model_.measured
    codes = noisy.model_.encoder.to_index(TABLE)
    truth = [
        count_rows(codes, m.columns, measured.resolution.of(m.columns)) for m in measured.counts
    ]
    rng = np.random.default_rng(0)
    found, errors = [], []
    reference = Reference(noisy, random_state=0)
    for _ in range(50):
        counts = [
            replace(m, counts=exact_counts + rng.normal(0, m.std, m.counts.shape))
            for m, exact_counts in zip(measured.counts, truth, strict=True)
        ]
        reference.measured = replace(measured, counts=counts)
        tables = [
            crosstab(reference, ["sex", "region"]),
            mean(reference, "age", "sex"),
        ]
        found.append(np.concatenate([t["estimate"] for t in tables]))
        errors.append(np.concatenate([t["standard_error"] for t in tables]))
    true = np.concatenate(
        [
            TABLE.groupby(["sex", "region"], dropna=False).size() / len(TABLE),
            TABLE.groupby("sex")["age"].mean(),
        ]
    )
    sampling = np.concatenate(
        [crosstab(exact, ["sex", "region"])["standard_error"], mean(exact, "age", "sex")["standard_error"]]
    )  # fmt: skip
    spread = np.std(found, axis=0)
    stated = np.sqrt(np.maximum(np.mean(errors, axis=0) ** 2 - sampling**2, 0))
    assert np.allclose(spread, stated, rtol=0.4)
    assert (np.abs(np.mean(found, axis=0) - true) < 4 * spread / np.sqrt(50) + 0.1 * np.mean(errors, axis=0)).all()  # fmt: skip


def test_counts_are_in_the_model_file(noisy, tmp_path):
    noisy.save(tmp_path / "model")
    loaded = load(tmp_path / "model")
    one, other = noisy.model_.measured, loaded.model_.measured
    for m, n in zip(one.counts, other.counts, strict=True):
        assert m.columns == n.columns and m.std == n.std and np.array_equal(m.counts, n.counts)
    columns = ["estimate", "standard_error", "low", "high"]
    again = [mean(Reference(m, 0), "age", "sex")[columns] for m in (noisy, loaded)]
    pd.testing.assert_frame_equal(*again)


def test_kept_counts_are_the_noisy_ones(noisy, tmp_path):
    """Of a model and of its file: they differ from the exact counts by noise of the size that is stated, cell by cell."""
    noisy.save(tmp_path / "model")
    codes = noisy.model_.encoder.to_index(TABLE)
    for model in (noisy, load(tmp_path / "model")):
        measured, apart = model.model_.measured, []
        for m in measured.counts:
            exact_counts = count_rows(codes, m.columns, measured.resolution.of(m.columns))
            apart.append(((m.counts - exact_counts) / m.std).ravel())
        every = np.concatenate(apart)
        assert 0.8 < every.std() < 1.2 and abs(every.mean()) < 0.3


def test_damaged_counts_are_refused(noisy):
    facts, tensors = noisy.model_.file_facts(), noisy.model_.file_tensors()
    for change in (
        {"sets": facts["measured"]["sets"][:-1]},
        {"sets": [[[0, 0], 1.0], *facts["measured"]["sets"][1:]]},
        {"sets": [[[7], 1.0], *facts["measured"]["sets"][1:]]},
        {"sets": [[[0], -1.0], *facts["measured"]["sets"][1:]]},
        {"rows": 0},
        {"sets": None},
    ):
        changed = {**facts, "measured": {**facts["measured"], **change}}
        with pytest.raises(Exception, match=r"model: the model's noisy counts are damaged\.$"):
            type(noisy).from_file(changed, dict(tensors), "model")
    groups = {**tensors, "measured.pairs": tensors["measured.pairs"] + 1}
    with pytest.raises(Exception, match="noisy counts are damaged"):
        type(noisy).from_file(facts, groups, "model")


def test_older_files_have_no_counts(noisy):
    facts, tensors = noisy.model_.file_facts(), noisy.model_.file_tensors()
    facts.pop("measured")
    kept = {name: t for name, t in tensors.items() if not name.startswith("measured")}
    old = type(noisy).from_file(facts, kept, "model")
    with pytest.raises(InputError, match="holds no noisy counts"):
        mean(old, "age")
    with pytest.raises(
        InputError, match="There are no implicates, as this model holds no noisy counts"
    ):
        old.sample(implicates=2)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda r: mean(r, "height"), "column 'height', which the table does not have"),
        (lambda r: mean(r, "sex"), "'sex' is not numeric"),
        (lambda r: mean(r, "age", by=["sex", "sex"]), "different columns"),
        (lambda r: mean(r, "age", confidence=1.0), "confidence"),
        (lambda r: proportion(r, {}), "Expected an event"),
        (lambda r: proportion(r, {"sex": "x"}), "'x'"),
        (lambda r: crosstab(r, []), "Expected columns of a table"),
        (lambda r: quantile(r, "age", 1.5), "q"),
        (lambda r: quantile(r, "age", confidence="x"), "confidence to be a number"),
    ],
)  # fmt: skip
def test_bad_input_is_one_line(exact, call, message):
    with pytest.raises(InputError, match=message) as error:
        call(exact)
    assert "\n" not in str(error.value)


def test_other_methods_have_no_counts():
    with pytest.raises(InputError, match="DPWGAN has none of; fit MargNet"):
        mean(DPWGAN(fit().schema, epsilon=1.0), "age")


def test_equations_are_solved_alike_by_iterations(noisy, monkeypatch):
    reference = Reference(noisy, random_state=0)
    direct = crosstab(reference, ["sex", "region"])
    monkeypatch.setattr(influence, "DENSE", 0)
    found = crosstab(reference, ["sex", "region"])
    apart = (found["estimate"] - direct["estimate"]) / direct["standard_error"]
    assert (
        apart.abs().max() < 0.3
    )  # what is not solved to the end uses the counts a little less well
    assert np.allclose(found["standard_error"], direct["standard_error"], rtol=0.05)


def test_distinct_rows_have_the_shares_of_all(noisy):
    """Against pandas, which counts the reference rows; every declared value is among the independent ones."""
    reference = Reference(noisy, random_state=1)
    rows = reference.distinct(["sex", "age"])
    count = reference.rows
    halves = [reference.table[:count], reference.table[count:]]
    first, other = (half.groupby(["sex", "age"]).size() / len(half) for half in halves)
    index = pd.MultiIndex.from_frame(rows.table)
    assert index.is_unique and set(index) == set(first.index) | set(other.index)
    assert np.allclose(rows.synthetic, first.reindex(index).fillna(0))
    assert np.allclose(rows.both, (first.reindex(index).fillna(0) + other.reindex(index).fillna(0)) / 2)  # fmt: skip
    for j, column in enumerate(reference.columns):
        assert set(reference.codes[count:, j]) == set(range(column.size))


def test_columns_that_a_rule_makes():
    """A derived column follows from its source, and one that is modelled by a difference from that and the other."""
    rng = np.random.default_rng(0)
    start = rng.integers(0, 5, 3000)
    table = pd.DataFrame({"start": start, "end": start + rng.poisson(1 + start / 3).clip(max=6)})
    table["late"] = pd.Series(np.where(start >= 3, "yes", "no"), dtype="str")
    columns = [
        Ordinal(name="start", dtype="int64", categories=tuple(range(5))),
        Numeric(name="end", dtype="int64", low=0, high=12, resolution=1.0),
        Categorical(name="late", dtype="str", categories=("no", "yes")),
    ]
    derived = {str(k): "yes" if k >= 3 else "no" for k in range(5)}
    rules = [{"derive": "late", "from": "start", "table": derived}]
    schema = Schema(columns, constraints=rules)
    model = MargNet(schema, epsilon=float("inf"), random_state=0, config=QUICK).fit(table)
    reference = Reference(model, random_state=0)
    share = proportion(reference, {"late": "yes"})["estimate"].iloc[0]
    assert share == pytest.approx((table["late"] == "yes").mean(), abs=1e-3)
    found = mean(reference, "end", by="late")
    assert np.allclose(found["estimate"], table.groupby("late")["end"].mean(), atol=0.02)
    assert (crosstab(reference, ["start", "late"])["note"] == "").all()


def test_a_public_prior_leaves_estimates_unbiased():
    """The noisy counts are those of the private rows, whatever the fit makes of an earlier table."""
    earlier = rows(3000, seed=9)
    model = fit(epsilon=4.0, public=earlier, public_source="a made-up table of another year")
    found = mean(Reference(model, 0), "age", by="sex")
    apart = (found["estimate"] - TABLE.groupby("sex")["age"].mean()) / found["standard_error"]
    assert (apart.abs() < 3.5).all()
    with pytest.raises(InputError, match="of a public table"):
        model.sample(implicates=2)
