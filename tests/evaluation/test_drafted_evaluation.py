"""Tables without a schema: drafted from both, with the types that other programs write, and said so."""

import numpy as np
import pandas as pd
import pytest

from tabsynth import InputError, evaluate
from tabsynth.evaluation import EvaluationConfig
from tabsynth.evaluation.drafted import drafted_for
from tabsynth.report.one_table import TableView

NAMES = ("training table", "synthetic table")


def real(rows=240, seed=0):
    rng = np.random.default_rng(seed)
    age = rng.integers(0, 90, rows)
    return pd.DataFrame(
        {
            "patient_id": [f"P{i:06d}" for i in range(rows)],
            "age": age,
            "sex": rng.choice(["F", "M"], rows),
            "smoker": rng.random(rows) < 0.3,
            "income": np.where(rng.random(rows) < 0.1, np.nan, np.round(rng.lognormal(9, 1, rows))),
            "admitted": pd.Timestamp("2020-01-01")
            + pd.to_timedelta(rng.integers(0, 400, rows), "D"),
            "died": (rng.random(rows) < age / 150).astype(int),
        }
    )


def like_sdv(table):
    """Texts for keys, reals with a fraction, dates in microseconds; SDV 2.0."""
    keys = [f"sdv-id-{i}" for i in range(len(table))]
    dates = table["admitted"].astype("datetime64[us]")
    return table.assign(patient_id=keys, income=table["income"] + 0.25, admitted=dates)


def like_dpmm(table):
    """Categorical columns, and reals for whole numbers; no key; dpmm 0.1."""
    out = table.drop(columns="patient_id").astype({"sex": "category", "died": "category"})
    return out.assign(age=table["age"] + np.linspace(0, 0.9, len(table)))


def like_synthcity(table):
    """Whole numbers as reals, truth values as 0 and 1; synthcity 0.2."""
    return table.astype({"age": "float64", "smoker": "int64", "died": "float64"})


@pytest.mark.parametrize("program", [like_sdv, like_dpmm, like_synthcity])
def test_every_row_of_every_table_has_codes(program):
    train, made = real(), program(real(150, seed=1))
    schema, tables, drafted = drafted_for([train, made], NAMES)
    assert set(schema.names) == set(train.columns) - {"patient_id"}
    assert "patient_id" in drafted.left_out
    for table, given in zip(tables, (train, made), strict=True):
        codes = {c.name: c.encode(table[c.name]) for c in schema.columns}
        assert all(len(values) == len(given) for values in codes.values())
    ages = pd.Series(made["age"], dtype="float64")
    assert np.allclose(pd.to_numeric(tables[1]["age"]).astype(float), ages)


def test_whole_numbers_stay_whole_and_truth_values_become_numbers():
    schema, tables, _ = drafted_for([real(), like_synthcity(real(150, seed=1))], NAMES)
    assert schema["age"].value_type == "int"
    assert schema["smoker"].value_type == "int"
    assert set(tables[0]["smoker"].dropna()) == {0, 1}


def test_texts_of_one_file_meet_the_types_of_another():
    train = real()
    texts = train.astype({"age": str, "died": str, "smoker": str})
    texts["admitted"] = train["admitted"].dt.strftime("%Y-%m-%d")
    schema, tables, _ = drafted_for([texts, like_sdv(train)], NAMES)
    assert schema["age"].value_type == "int"
    assert schema["admitted"].kind == "date"
    assert tables[0]["age"].tolist() == tables[1]["age"].tolist()
    assert (
        schema["admitted"].encode(tables[0]["admitted"])
        == schema["admitted"].encode(tables[1]["admitted"])
    ).all()


def test_a_value_that_only_the_synthetic_table_has_counts_as_a_difference():
    train = pd.DataFrame({"a": ["x", "y"] * 60, "b": [0, 1, 2] * 40})
    report = evaluate(train, train.replace({"a": {"y": "invented"}}))
    assert report.evaluation.left_out == 0
    assert report.evaluation.columns[0].distance == pytest.approx(0.5)


@pytest.mark.slow
def test_the_report_says_that_the_schema_was_drafted_and_what_is_not_compared():
    train = real().assign(ward=["a", "b", "c"] * 80, note=[f"n{i % 70}" for i in range(240)])
    made = like_sdv(real(200, seed=1)).assign(extra=1, note=[f"n{i % 60}" for i in range(200)])
    few = {"config": EvaluationConfig(m=5, k=(1,))}
    report = evaluate(train, made, **few)
    told = [line for line in report.summary() if "drafted" in line or "Not compared" in line]
    assert len(told) == 2
    assert "'ward' (the synthetic table lacks it)" in told[1]
    assert "'extra' (the training table lacks it)" in told[1]
    assert "'patient_id'" in told[1] and "P0" not in told[1]
    assert "No schema was given" in TableView(report.evaluation).page()
    assert report.to_dict()["evaluation"]["drafted"]["left_out"].keys() >= {"ward", "extra"}


def test_what_cannot_be_compared_is_refused_in_one_line():
    table = real()
    for wrong, says in (
        ([table, table[["age"]].rename(columns={"age": "years"})], "no column in common"),
        ([table, table.head(0)], "synthetic table has no rows"),
        ([pd.concat([table, table[["age"]]], axis=1), table], "column 'age' twice"),
    ):
        with pytest.raises(InputError, match=says) as error:
            drafted_for(wrong, NAMES)
        assert "\n" not in str(error.value)
