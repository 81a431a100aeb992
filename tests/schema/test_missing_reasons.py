"""Reasons for missing are codes of their own, never amounts, and come back as they went in."""

import copy
import pickle
from dataclasses import replace

import command_lines as cl
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tabsynth import (
    DPWGAN,
    Categorical,
    Date,
    Datetime,
    Duration,
    Hierarchical,
    Identifier,
    Numeric,
    Ordinal,
    Period,
    Schema,
    Time,
    read_table,
    write_table,
)
from tabsynth.encoding import TableEncoder
from tabsynth.errors import FileFormatError, InputError
from tabsynth.schema import Column, hierarchical
from tabsynth.schema.conditions import condition_value
from tabsynth.synthesizers import AutoencoderConfig, WGANConfig
from tabsynth.training.private_step import StepConfig

RNG = np.random.default_rng(0)
TEXTS = {"N": "not applicable, a child", "-8": "refused"}
SENTINELS = {"-8": "refused", "-9": "not asked"}
DATES = {"9999-12-31": "still open", "9998-12-31": ""}
SPAN = {"low": "2019-01-01", "high": "2020-12-31"}
# Every kind with every dtype that it may have.
COLUMNS = [
    *(
        Numeric(name="a", dtype=d, low=0, high=99, missing=SENTINELS, nulls=d == "Int64")
        for d in ("int64", "int8", "Int64", "float64", "Float64", "float32")
    ),
    *(
        Numeric(name="a", dtype=d, low=0, high=9, resolution=r, missing=TEXTS, nulls=True)
        for d in ("object", "str", "string")
        for r in (1, 0.5)
    ),
    *(
        Categorical(name="a", dtype=d, categories=("f", "m"), missing=TEXTS, nulls=True)
        for d in ("str", "string", "object", "category")
    ),
    *(
        Ordinal(name="a", dtype=d, categories=(1, 2, 3), missing=SENTINELS)
        for d in ("int64", "Int64", "category", "object")
    ),
    Hierarchical(name="a", dtype="str", codes=("1.1", "1.2", "2"), levels=(1,), missing=TEXTS),
    Hierarchical(name="a", dtype="int64", codes=(11, 12, 2), levels=(1,), missing=SENTINELS),
    *(
        Date(name="a", dtype=d, missing=DATES, nulls=True, **SPAN)
        for d in ("datetime64[us]", "datetime64[s]", "str", "object")
    ),
    Datetime(name="a", dtype="datetime64[us, Europe/Berlin]", missing=DATES, **SPAN),
    Time(name="a", dtype="str", missing={"asleep": "asleep"}, nulls=True),
    Duration(name="a", dtype="timedelta64[us]", low="0h", high="9h", missing={"-1 days": "open"}),
    Period(name="a", dtype="period[M]", low="2019-01", high="2020-12", missing={"1900-01": "?"}),
]
IDS = [f"{c.kind}-{c.dtype}-{i}" for i, c in enumerate(COLUMNS)]


@pytest.mark.parametrize("column", COLUMNS, ids=IDS)
def test_every_kind_and_dtype_comes_back(column: Column, tmp_path) -> None:
    codes = np.repeat(np.arange(column.size), 3)
    values = column.decode(codes, RNG)
    assert str(values.dtype) == column.dtype
    np.testing.assert_array_equal(column.encode(values), codes)
    reasons = slice(3 * column.cells, 3 * column.cells + 3 * len(column.missing))
    assert np.isin(values[reasons].astype(object).map(str), [str(r) for r in column.reasons]).all()
    assert column.size == column.cells + len(column.missing) + column.nulls
    schema = Schema([column], null_values=[""])
    assert Schema.from_dict(schema.to_dict()) == schema
    # Through files, and again.
    for name in ("t.csv", "t.parquet"):
        if name == "t.parquet" and (column.dtype == "object" or column.kind == "period"):
            continue  # pyarrow writes no column of several types
        write_table(pd.DataFrame({"a": values}), tmp_path / name, formulas="escape", overwrite=True)
        read = read_table(tmp_path / name, schema)
        assert str(read["a"].dtype) == column.dtype
        np.testing.assert_array_equal(TableEncoder(schema).to_index(read)[:, 0], codes)


@pytest.mark.parametrize("column", COLUMNS, ids=IDS)
def test_copies_are_equal_and_facts_are_kept(column: Column) -> None:
    assert pickle.loads(pickle.dumps(column)) == column == copy.deepcopy(column)
    assert replace(column, description="x").missing == column.missing
    other = replace(column, missing={}, dtype=column.value_dtype)
    assert other.size == column.size - len(column.missing)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_what_a_row_becomes_does_not_depend_on_others(data: st.DataObject) -> None:
    column = data.draw(st.sampled_from(COLUMNS))
    codes = data.draw(st.lists(st.integers(0, column.size - 1), min_size=1, max_size=9))
    values = column.decode(np.array(codes), np.random.default_rng(1))
    alone = [int(column.encode(values.iloc[i : i + 1])[0]) for i in range(len(values))]
    assert alone == codes
    by_object = column.encode(values.astype(object))
    assert by_object.tolist() == codes


def test_reasons_are_no_amounts_and_have_no_order() -> None:
    column = COLUMNS[2]
    values = pd.Series([5, -8, -9, None], dtype="Int64")
    np.testing.assert_array_equal(column.amounts(values), [5, np.nan, np.nan, np.nan])
    assert np.isnan(column.scores()[column.cells :]).all() and len(column.scores()) == column.size
    groups = column.groups(np.full(column.size, 1 / column.size), 0.9, 1.0)
    assert groups[0] == groups[column.cells - 1] and len(set(groups)) == 4
    assert [column.label(c) for c in range(column.cells, column.size)] == [
        "-8 (refused)",
        "-9 (not asked)",
        "null",
    ]


@pytest.mark.parametrize(
    ("facts", "says"),
    [
        ({"missing": {"5": "x"}}, "'5' stands for a missing value and is a declared value"),
        ({"missing": {"N": "x"}}, "dtype int64 cannot hold 'N'"),
        ({"missing": {8: "x"}}, "expected missing to be a dict of texts"),
        ({"missing": {"": "x"}}, "expected missing to be a dict of texts"),
        ({"missing": TEXTS, "dtype": "object"}, "need a resolution"),
        ({"missing": {str(-i): "" for i in range(1, 200)}}, "at most 100 reasons"),
    ],
)
def test_what_cannot_be_a_reason_is_refused(facts, says) -> None:
    with pytest.raises(InputError, match=says) as caught:
        Numeric(**{"name": "a", "dtype": "int64", "low": 0, "high": 9, **facts})
    assert "\n" not in str(caught.value)


def test_other_refusals() -> None:
    with pytest.raises(InputError, match="not learned has no reasons"):
        Identifier(name="a", dtype="str", missing={"N": "x"})
    with pytest.raises(InputError, match="bool cannot hold"):
        Categorical(name="a", dtype="bool", categories=(True, False), missing={"N": "x"})
    column = Categorical(name="a", dtype="str", categories=("x",), missing={"NA": "not asked"})
    with pytest.raises(InputError, match="'NA', which null_values"):
        Schema([column])
    with pytest.raises(FileFormatError, match="missing"):
        Schema.from_dict(
            {
                **Schema([COLUMNS[0]]).to_dict(),
                "columns": [{**COLUMNS[0].to_dict(), "missing": {"a": 1}}],
            }
        )
    with pytest.raises(InputError, match="-7 is outside its declared bounds"):
        COLUMNS[0].encode(pd.Series([-8, -7]))


def test_conditions_and_rules_name_them() -> None:
    column = COLUMNS[0]
    part = column.restriction(["-8", {"low": 3, "high": 4}])
    codes = np.flatnonzero(part.shares)
    drawn = set(column.decode(np.repeat(codes, 30), RNG, part.within))
    assert drawn == {-8, 3, 4}
    assert column.mask([-8, "-9"], "rule").nonzero()[0].tolist() == [64, 65]
    assert condition_value(column, -8) == "-8"
    assert part.allows(column, pd.Series([-8, -9, 3, 5])).tolist() == [True, False, True, False]


def test_orders_pass_over_reasons_and_keep_them() -> None:
    low, high = (replace(COLUMNS[0], name=name) for name in ("dbp", "sbp"))
    schema = Schema([low, high], constraints=[{"order": ["dbp", "sbp"]}], violations="repair")
    table = pd.DataFrame({"dbp": [80, -8, 90, 99], "sbp": [90, 70, -9, 5]})
    encoder = TableEncoder(schema)
    index = encoder.to_index(table)
    assert index[1, 0] == index[2, 1] - 1 == 64 and len(index) == 4
    made = encoder.from_index(index, RNG)
    assert made["dbp"][1] == -8 and made["sbp"][2] == -9
    assert made["dbp"][3] <= made["sbp"][3]
    with pytest.raises(InputError, match="which a difference does not keep apart"):
        rule = {"order": ["dbp", "sbp"], "difference": {"high": 60}}
        Schema([low, high], constraints=[rule]).rules  # noqa: B018


@pytest.mark.slow(cases=0)
def test_a_fit_keeps_reasons_apart_at_the_command_line(tmp_path) -> None:
    rng = np.random.default_rng(0)
    age = rng.integers(0, 80, 800)
    income = np.where(age < 15, "N", rng.integers(0, 100, 800).astype(str)).astype(object)
    income[rng.random(800) < 0.1] = "refused"
    income[rng.random(800) < 0.05] = ""
    score = np.where(rng.random(800) < 0.2, -8, rng.integers(0, 10, 800))
    pd.DataFrame({"age": age, "income": income, "score": score}).to_csv(
        tmp_path / "t.csv", index=False
    )
    reasons = {"N": "a child", "refused": ""}
    columns = [
        Numeric(name="age", dtype="int64", low=0, high=80),
        Numeric(
            name="income", dtype="object", low=0, high=99, resolution=1, nulls=True, missing=reasons
        ),
        Numeric(name="score", dtype="int64", low=0, high=9, missing={"-8": "not scored"}),
    ]
    Schema(columns).save(tmp_path / "s.json")
    words = ("fit", "t.csv", "--schema", "s.json", "--epsilon", 30, "-o", "m.tabsynth")
    cl.run(*words, cwd=tmp_path)
    cl.run("sample", "m.tabsynth", "-n", 800, "-o", "out.csv", cwd=tmp_path)
    out = pd.read_csv(tmp_path / "out.csv", dtype=str, keep_default_na=False)
    real = pd.read_csv(tmp_path / "t.csv", dtype=str, keep_default_na=False)
    for value in ("N", "refused", ""):
        shares = [(table["income"] == value).mean() for table in (real, out)]
        assert abs(shares[0] - shares[1]) < 0.06
    assert abs((out["score"] == "-8").mean() - 0.2) < 0.07
    children = out["age"].astype(int) < 15
    assert (
        (out["income"] == "N")[children].mean()
        > 0.6
        > 0.1
        > (out["income"] == "N")[~children].mean()
    )
    cl.run("sample", "m.tabsynth", "-n", 50, "--where", "income=N", "-o", "n.csv", cwd=tmp_path)
    assert (pd.read_csv(tmp_path / "n.csv", dtype=str)["income"] == "N").all()
    cl.refused(
        *["sample", "m.tabsynth", "-n", "5", "--where", "score=-9", "-o", "x.csv"],
        cwd=tmp_path,
        says="has no value",
    )


@pytest.mark.slow
def test_a_network_makes_long_hierarchies_and_reasons(monkeypatch) -> None:
    monkeypatch.setattr(hierarchical, "MODELLED", 4)
    codes = tuple(f"{c}{end}" for c in (100, 110, 111) for end in ("", ".0", ".1"))
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"d": rng.choice(codes, 300), "a": rng.choice([-8, -9, 3, 99], 300)})
    schema = Schema([Hierarchical(name="d", dtype="str", codes=codes, levels=(1, 3)), COLUMNS[0]])
    assert len(schema.learned.columns) == 3
    model = DPWGAN(
        schema,
        epsilon=3,
        config=WGANConfig(step=StepConfig(count=4), warm_start_steps=2),
        autoencoder_config=AutoencoderConfig(step=StepConfig(count=2)),
        random_state=0,
    )
    sample = model.fit(table).sample(100, random_state=1)
    assert sample["d"].isin(codes).all() and sample["a"].dtype == "int64"
    assert {-8, -9} < set(sample["a"]) and sample["a"].isin([-8, -9, *range(100)]).all()
    some = model.sample(20, where={"d": "110", "a": "-8"}, random_state=1)
    assert some["d"].str.startswith("110").all() and (some["a"] == -8).all()
