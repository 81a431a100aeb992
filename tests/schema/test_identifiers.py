"""Columns that identify people: what a draft leaves out, and what a fit refuses whoever drafted it."""

import string
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import csv as arrow_csv

from tabsynth import InputError, MargNet, Schema, load, read_table
from tabsynth.drafting.drafts import MIN_COUNT, draft_schema, identifying, review
from tabsynth.drafting.identifiers import (
    FEW,
    MAX_DRAFTED_CATEGORIES,
    ROW_NAMES,
    are_record_numbers,
    named_for_one,
)
from tabsynth.encoding import TableEncoder
from tabsynth.schema import Column
from tabsynth.schema.schema import DEFAULT_NULL_VALUES
from tabsynth.synthesizers.margnet.config import MargNetConfig
from tabsynth.tables import ParquetCounter

IDENTIFIERS = (
    "mrn MRN ssn email e_mail E-Mail home_phone telephone name Name first_name LastName id ID IDs patient_id"
    " PatientID patientid encounter_id patient_nbr case_number medical_record_number SERIALNO dob birth_date"
    " date_of_birth uuid url ip_address street notes comment user_name patient_name Vorname geburtsdatum"
)
ORDINARY = (
    "sex age PUMA AGEP admission_type_id discharge_disposition_id has_email phone_service address_type"
    " number_inpatient num_medications birth_year drug_name diag_1 time_in_hospital grid valid acid income"
    " payer_code OWN_RENT DENSITY INDP_CAT education-num capital-gain height ap_hi id_type order case note"
)


@pytest.mark.parametrize("name", IDENTIFIERS.split())
def test_names_of_identifiers(name: str) -> None:
    assert named_for_one(name)


@pytest.mark.parametrize("name", ORDINARY.split())
def test_names_that_are_none(name: str) -> None:
    assert not named_for_one(name)


def texts(*values: Any, name: str = "a", provenance: Any = "drafted") -> Column:
    dtype = {str: "str", int: "int64", float: "float64"}[type(values[0])]
    return Column(
        name=name, kind="categorical", dtype=dtype, categories=values, provenance=provenance
    )


MANY = range(60)
SEEMING = {
    "e-mail addresses": texts("none", "ann@mail.example"),
    "web addresses": texts("https://x.example/1", "none"),
    "UUIDs": texts("5f0c3f5e-8a63-4d2f-9f43-1d2b8e0c5a77"),
    "IP addresses": texts("10.0.0.7"),
    "social security numbers": texts("078-05-1120"),
    "telephone numbers": texts("(555) 123-4567", "none"),
    "dates or times": texts(*(f"1960-01-{1 + i % 28:02}" for i in range(28))),
    "record numbers": texts(*(f"M{100_000 + i}" for i in MANY)),
    "numbers as record numbers": texts(*(7_000_000 + 13 * i for i in MANY)),
    "names of persons": texts(*(f"Ann {'XYZUV'[i % 5]}{'abcdefghijkl'[i // 5]}" for i in MANY)),
    "free text": texts(*(f"seen by the nurse on ward {i}" for i in MANY)),
    "more than 1,000 categories": texts(*map(str, range(MAX_DRAFTED_CATEGORIES + 1))),
    "more than 24 values": texts(*(f"c{i}" for i in MANY), name="ward_id"),
}
PLAIN = {
    "reals": texts(*(1.0 / (3 + i) for i in MANY)),
    "codes with hyphens": texts(*(f"24-{1_000 + i:05}" for i in MANY)),
    "diagnoses": texts(*(f"E{i}.{i}" for i in MANY)),
    "ages": texts("[0-10)", "[10-20)", "80+"),
    "towns": texts("New York", "Los Angeles", "Never Married"),
    "few dates": texts("2019-01-01", "2020-01-01"),
    "a list of codes": texts(*(f"c{i}" for i in range(FEW)), name="ward_id"),
    "amounts of 7 digits": Column(
        name="a", kind="numeric", dtype="int64", low=1_000_000, high=9_999_999, provenance="drafted"
    ),
    "long codes": texts(*(f"S{720_000 + i}A" for i in MANY), name="icd10_code"),
}


@pytest.mark.parametrize("reason", SEEMING)
def test_values_that_seem_to_identify(reason: str) -> None:
    result = identifying(SEEMING[reason])
    assert result is not None and reason.removeprefix("numbers as ") in result


def test_long_names_and_categories_take_no_time() -> None:
    """A schema may come from anybody: no pattern takes more than linear time in what is looked at."""
    long = [f"{i}{unit * 2_000}" for i in range(100) for unit in ("a.", "1-", "a ", "@a", ":0")]
    started = time.process_time()
    identifying(texts(*long, name="patient" * 1_000))
    identifying(texts(*long, name="x" * 9_000))
    assert time.process_time() - started < 2


@pytest.mark.parametrize("what", PLAIN)
def test_values_that_do_not(what: str) -> None:
    assert identifying(PLAIN[what]) is None


def drafted(values: Any, name: str = "a", min_count: int = MIN_COUNT) -> Column | str:
    """The column of a draft, or the reason why it is left out."""
    table = pd.DataFrame({name: values})
    table["kept"] = "x"
    schema = draft_schema(table, min_count=min_count)
    return schema.left_out[0]["reason"] if schema.left_out else schema[name]


def test_whole_numbers_of_records_and_amounts() -> None:
    """Both sides of the rule: numbers of records are left out, amounts are not."""
    rng = np.random.default_rng(1)
    rows = 3_000
    for numbers in (
        np.arange(rows),
        rng.choice(10**8, rows, replace=False),
        rng.choice(10**17, rows),
    ):
        assert isinstance(drafted(numbers), str)
        assert isinstance(drafted(numbers.astype(str)), str)
    for amounts in (
        np.round(rng.lognormal(10, 0.8, rows)),
        np.round(rng.lognormal(10, 0.8, rows), 2),
        rng.normal(50_000, 10_000, rows),
        rng.integers(0, 97, rows),
        rng.integers(10, 99, rows) * 10**6,  # budgets, all of one length
    ):
        result = drafted(amounts)
        assert isinstance(result, Column) and result.kind == "numeric" and result.clip


def test_noise_makes_no_record_numbers_of_amounts() -> None:
    assert are_record_numbers(660, 686, 20) and not are_record_numbers(660, 686)
    assert not are_record_numbers(574, 686, 160)  # days that patients were followed


def test_identifiers_of_many_rows_each_are_left_out() -> None:
    """Patients with forty visits each: no value is rare, and the form of the values or the name tells."""
    forms = {
        "contact": [f"p{i}@mail.example" for i in range(30)],
        "call": [f"555-{100 + i}-{1_000 + i}" for i in range(30)],
        "number": [f"P{100_000 + i}" for i in range(30)],
        "patient_id": [f"p{i}" for i in range(30)],
        "seen on": [f"{1 + i}.3.19" for i in range(30)],
        "remark": [f"comes again in {i} weeks with results" for i in range(30)],
        "who": [f"Ann X{a}{b}" for a in "abcdefgh" for b in "abcdefgh"],
    }
    for name, values in forms.items():
        reason = drafted([value for value in values for _ in range(40)], name)
        assert isinstance(reason, str) and not any(value in reason for value in values), name


@pytest.mark.parametrize("form", ["csv", "xlsx", "pandas", "renamed", "polars", "pyarrow"])
def test_a_first_column_without_a_name_is_left_out(form: str, tmp_path: Path) -> None:
    """Files that R writes with the names of rows have one."""
    rows = pd.DataFrame({"sex": ["f", "m"] * 500, "kids": [0, 1, 2, 1] * 250})
    path = tmp_path / ("t.xlsx" if form == "xlsx" else "t.csv")
    if form == "xlsx":
        pytest.importorskip("openpyxl", reason="openpyxl is not installed")
        rows.to_excel(path)
    else:
        rows.to_csv(path)
    table: Any
    if form in ("csv", "xlsx"):
        table = read_table(path)
    elif form == "polars":
        table = pytest.importorskip("polars", reason="polars is not installed").read_csv(path)
    elif form == "pyarrow":
        table = arrow_csv.read_csv(path)
    else:
        table = pd.read_csv(path)
        table = table.rename(columns={"Unnamed: 0": ""}) if form == "renamed" else table
    left_out = [{"name": "Unnamed: 0", "reason": ROW_NAMES}]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = MargNet(epsilon=20, config=MargNetConfig(steps=2)).fit(table)
    for schema in (draft_schema(table), model.schema_):
        assert schema.names == ("sex", "kids")
        assert list(schema.left_out) == left_out


def test_a_file_with_names_of_rows_is_read_by_a_schema_that_has_none(tmp_path: Path) -> None:
    rows = pd.DataFrame({"sex": ["f", "m"] * 50})
    rows.to_csv(tmp_path / "t.csv")
    schema = draft_schema(rows)
    with pytest.warns(UserWarning, match="its first column is left out"):
        assert read_table(tmp_path / "t.csv", schema).columns.tolist() == ["sex"]


def test_rare_values_become_one_category() -> None:
    rare = ["x", "y"]
    table = pd.DataFrame(
        {
            "text": ["f"] * 30 + ["m"] * 20 + rare,
            "code": [1] * 30 + [2] * 20 + [7, 9],
            "unsigned": np.array([1] * 30 + [255] * 20 + [7, 9], dtype="uint8"),
            "negative": [-1] * 30 + [-2] * 20 + [7, 9],
            "class": pd.Categorical(["f"] * 30 + ["m"] * 20 + rare),
            "ranked": pd.Categorical(["f"] * 30 + ["m"] * 20 + rare, list("fmxyz"), ordered=True),
            "flag": [True] * 50 + [False] * 2,
        }
    )
    schema = draft_schema(table)
    expected = {
        "text": (("f", "m", "other"), "other"),
        "code": ((-1, 1, 2), -1),
        "unsigned": ((254, 1, 255), 254),
        "negative": ((-3, -2, -1), -3),
        "class": (("f", "m", "other"), "other"),
        "ranked": (("f", "m", "other"), "other"),
        "flag": ((False, True), None),
    }
    assert {c.name: (c.categories, c.other) for c in schema.columns} == expected
    typed = pd.DataFrame({c.name: c.convert(table[c.name]) for c in schema.columns})
    index = TableEncoder(schema).to_index(typed)
    places = [c.categories.index(c.other) for c in schema.columns[:-1]]  # type: ignore[arg-type]
    np.testing.assert_array_equal(index[-2:, :-1], [places] * 2)
    line = next(line for line in review(schema) if line.startswith("Values of few rows"))
    assert "'text', 'code', 'unsigned'" in line and "'x'" not in line


def test_what_rare_texts_become_is_no_null_and_may_be_there() -> None:
    table = pd.DataFrame({"a": ["f"] * 30 + ["other"] * 20 + ["x"]})
    column = draft_schema(table)["a"]
    assert (column.categories, column.other) == (("f", "other"), "other")
    nulls = ("other", "(other)", "<other>", "other 2")
    column = draft_schema(pd.DataFrame({"a": ["f"] * 30 + ["x"]}), nulls)["a"]
    assert (column.categories, column.other) == (("f", "other 3"), "other 3")


# "nan" is no category but null: a draft that would list it is refused, as test_schema.py has it.
LETTERS = st.text(string.ascii_lowercase, min_size=1, max_size=3).filter(
    lambda text: text not in DEFAULT_NULL_VALUES
)


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(
    values=st.lists(LETTERS | st.integers(0, 99).map(str), min_size=1, max_size=60),
    times=st.lists(st.integers(1, 12), min_size=1, max_size=20),
    min_count=st.integers(2, 12),
)
def test_no_value_of_few_rows_is_in_a_draft(
    values: list[str], times: list[int], min_count: int
) -> None:
    rows = [value for i, value in enumerate(values) for _ in range(times[i % len(times)])]
    table = pd.DataFrame({"a": rows, "kept": ["~"] * len(rows)})
    try:
        schema = draft_schema(table, min_count=min_count)
    except InputError as error:
        assert "leaves out every column" in str(error)
        return
    counts = table["a"].value_counts()
    for column in schema.columns:
        if column.name == "a" and column.kind != "numeric":
            listed = {str(v) for v in column.categories if v != column.other}
            assert all(counts[value] >= min_count for value in listed)
            index = TableEncoder(schema).to_index(
                pd.DataFrame({c.name: c.parse(table[c.name]) for c in schema.columns})
            )
            assert index.shape == (len(rows), len(schema.columns))
    assert not any(identifying(column) for column in schema.columns)


@settings(max_examples=100, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    rare=st.lists(st.floats(1e4, 1e9) | st.floats(-1e9, -1e4), max_size=MIN_COUNT - 1),
    decimals=st.sampled_from([0, 2, 9]),
    least=st.sampled_from([-50.0, 0.0, 3.0]),
    width=st.sampled_from([1, 20, 40, 100]),
)
def test_a_numeric_draft_follows_no_few_rows(
    seed: int, rare: list[float], decimals: int, least: float, width: int
) -> None:
    """Fewer extreme rows than the count can be anything more extreme: the draft is the same."""
    rng = np.random.default_rng(seed)
    common = np.round(rng.uniform(least, least + width, 1_000), decimals)
    low, high = (sorted(x for x in rare if (x < 0) == below) for below in (True, False))
    base = np.concatenate([np.full(len(low), -9_000.0), common, np.full(len(high), 9_000.0)])
    moved = np.concatenate([low, common, high])
    first, second = (
        draft_schema(pd.DataFrame({"a": values}))["a"].to_dict() for values in (base, moved)
    )
    assert first == second
    if decimals == 9:  # all are different, and none is round
        assert not {first["low"], first["high"]} & set(common.tolist())


def test_few_rows_just_beyond_the_others_set_no_bounds() -> None:
    """They are not so far away that they are taken for typing errors."""
    common, bounds = np.linspace(0, 100, 1_001), []
    for beyond in (105, 119):
        drafted = draft_schema(pd.DataFrame({"a": np.append(common, [beyond] * 9)}))["a"]
        bounds.append((drafted.low, drafted.high))  # type: ignore[attr-defined]
    assert bounds == [(0, 100)] * 2


def schema_of(**changes: Any) -> Schema:
    columns = [
        texts("f", "m", name="sex"),
        texts("ann@mail.example", "b", name="contact", **changes),
        texts("a", "b", name="mrn", **changes),
    ]
    return Schema(columns)


@pytest.mark.parametrize("epsilon", [1.0, float("inf")])
def test_a_fit_refuses_drafted_identifiers_whatever_was_accepted(epsilon: float) -> None:
    table = pd.DataFrame({"sex": ["f"], "contact": ["b"], "mrn": ["a"]})
    model = MargNet(schema_of(), epsilon=epsilon, accept_drafted_domain=True)
    with pytest.raises(InputError, match="seem to identify people") as caught:
        model.fit(table)
    message = str(caught.value)
    assert "'contact' (its values look like e-mail addresses)" in message
    assert "'mrn' (its name is that of an identifier)" in message
    assert "\n" not in message and "ann@" not in message and not hasattr(model, "ledger_")
    declared = schema_of(provenance="declared")
    MargNet(declared, epsilon=1.0, accept_drafted_domain=True).check()


def test_a_refusal_names_no_more_columns_than_a_line_holds() -> None:
    schema = Schema([texts("a", "b", name=f"patient{i}_id") for i in range(50)])
    with pytest.raises(InputError, match="and 30 more"):
        MargNet(schema, epsilon=1.0).check()


@pytest.mark.slow
def test_tables_keep_their_identifiers_and_nothing_reads_them(tmp_path: Path) -> None:
    """A drafted schema fits the table that it was drafted from, whatever counts or completes it."""
    rows = 200
    table = pd.DataFrame(
        {"mrn": range(rows), "sex": ["f", "m"] * 100, "ward": ["a"] * 150 + ["b"] * 50}
    )
    schema = draft_schema(table)
    assert schema.names == ("sex", "ward") and schema.names_left_out == ("mrn",)
    table.to_parquet(tmp_path / "t.parquet", index=False)
    pd.testing.assert_frame_equal(
        read_table(tmp_path / "t.parquet", schema), table[["sex", "ward"]]
    )
    for private in (ParquetCounter(tmp_path / "t.parquet"), table):
        model = MargNet(schema, epsilon=5.0, rows=rows, accept_drafted_domain=True)
        model.set_params(config=MargNetConfig(steps=20)).fit(private)
        assert list(model.sample(5)) == ["sex", "ward"]
        model.save(tmp_path / "m", overwrite=True)
        certificate = load(tmp_path / "m").certificate()
        assert certificate["public"]["left_out"] == ["mrn"] and certificate["conditional"] == [
            "sex",
            "ward",
        ]


def test_a_table_of_identifiers_alone_is_refused_in_a_line() -> None:
    table = pd.DataFrame({"mrn": range(50), "note": [f"n{i}" for i in range(50)]})
    with pytest.raises(InputError, match="leaves out every column of the table, 'mrn' because"):
        draft_schema(table)
    with pytest.raises(InputError, match="min_count"):
        draft_schema(table, min_count=0)
