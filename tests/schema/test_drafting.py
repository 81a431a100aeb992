"""Drafted schemas: what they make of a table, and what they tell a person to review."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tabsynth import InputError, Numeric, Schema, read_table, write_table
from tabsynth.drafting.drafts import draft_schema, review
from tabsynth.drafting.formats import ELSEWHERE, WORD
from tabsynth.drafting.partition import EACH
from tabsynth.encoding import TableEncoder
from tabsynth.tables.files import read_any


def drafted(values: object, **kwargs: object) -> tuple[str, str, bool]:
    table = pd.DataFrame({"a": pd.Series(values, **kwargs)})  # type: ignore[call-overload]
    column = draft_schema(table, min_count=1)["a"]
    assert column.provenance == "drafted"
    return column.kind, column.dtype, column.nulls


def test_kinds_and_dtypes() -> None:
    many = list(range(100)) * 2
    assert drafted(["x", "y", None]) == ("categorical", "str", True)
    assert drafted(["x"], dtype="string") == ("categorical", "string", False)
    assert drafted(["1", "2"]) == ("categorical", "int64", False)
    assert drafted(["1", None, "3", "2"]) == ("ordinal", "Int64", True)
    assert drafted(list(map(str, many))) == ("numeric", "int64", False)
    assert drafted(["007", "12"]) == ("categorical", "str", False)
    assert drafted(["1.5", "2"]) == ("numeric", "float64", False)
    assert drafted(["1", "x"]) == ("categorical", "str", False)
    assert drafted(many) == ("numeric", "int64", False)
    assert drafted([*many, None]) == ("numeric", "float64", True)
    assert drafted([*many, None], dtype=object) == ("numeric", "Int64", True)
    assert drafted([1, 2, 3], dtype="int8") == ("ordinal", "int8", False)
    assert drafted([1, None], dtype="Int64") == ("categorical", "Int64", True)
    assert drafted([0.5, 1.5], dtype="float32") == ("numeric", "float32", False)
    assert drafted([True, False]) == ("categorical", "bool", False)
    assert drafted([True, None], dtype="boolean") == ("categorical", "boolean", True)
    assert drafted(["b", "a"], dtype="category") == ("categorical", "category", False)
    order = pd.CategoricalDtype(["lo", "mid", "hi"], ordered=True)
    assert drafted(["hi", "lo"], dtype=order) == ("ordinal", "category", False)


def test_dates_of_python() -> None:
    days = [pd.Timestamp(f"2020-01-{day:02}").date() for day in range(1, 29)]
    assert draft_schema(pd.DataFrame({"a": days * 4}), min_count=1)["a"].kind == "date"


def test_a_list_of_ordered_categories_is_declared_unless_it_may_be_of_the_rows() -> None:
    """Rare ones, those without rows, and none that means null; pandas sorts those of the rows."""
    listed = ["lo", "n/a", "mid", "hi", "never"]
    ranked = pd.Categorical(["hi", "lo", "n/a"] * 40 + ["mid"], listed, ordered=True)
    table = pd.DataFrame({"ranked": ranked, "sorted": [*"abc"] * 40 + ["z"]})
    table["sorted"] = table["sorted"].astype("category").cat.as_ordered()
    schema = draft_schema(table, ("n/a",))
    assert (schema["ranked"].kind, schema["ranked"].other) == ("ordinal", None)
    assert schema["ranked"].categories == ("lo", "mid", "hi", "never")
    assert schema["sorted"].kind == "ordinal"
    assert schema["sorted"].categories == ("a", "b", "c", "other")


def test_facts() -> None:
    order = pd.CategoricalDtype(["lo", "mid", "hi"], ordered=True)
    table = pd.DataFrame(
        {
            "o": pd.Series(["hi", "lo"] * 40, dtype=order),
            "n": np.linspace(-1.25, 7.5, 80),
            "k": [*(np.arange(40) - 3)] * 2,
            "w": [*(np.arange(40) * 1.0)] * 2,
        }
    )
    schema = draft_schema(table, ("", "?"), min_count=1)
    assert schema["o"].categories == ("lo", "mid", "hi")
    assert (schema["n"].low, schema["n"].high, schema["n"].resolution) == (-1.25, 7.5, None)
    assert (schema["k"].low, schema["k"].high, schema["k"].resolution) == (-3, 36, 1)
    assert (schema["w"].dtype, schema["w"].resolution) == ("float64", 1)
    assert schema.null_values == ("", "?")


@pytest.mark.parametrize(
    ("table", "part"),
    [
        (pd.DataFrame({"a": []}), "has no rows"),
        (pd.DataFrame(index=[0]), "has no rows"),
        (pd.DataFrame([[1, 2]], columns=["a", "a"]), "column 'a' twice"),
        (pd.DataFrame([[1, 2]], columns=[1, "1"]), "column 1 whose name is no text"),
        (pd.DataFrame({"a": [None, None]}), "'a' because all of its values are missing"),
        (pd.DataFrame({"a": [1.5, np.inf]}), "Column 'a' holds an infinite value"),
        (pd.DataFrame({"a": [1j]}), "column 'a': dtype 'complex128"),
        (pd.DataFrame({"a": [1 + 2j]}), "column 'a': dtype 'complex128'"),
        (pd.DataFrame({"a": [b"x"]}), "column 'a'"),
        (
            pd.DataFrame({"a": ["x", 1]}, dtype=object),
            "some of its values are texts, and some are not",
        ),
        (pd.DataFrame({"a": ["x", ""]}), "category '', which null_values reads as null"),
    ],
)
def test_refusals_are_one_line(table: pd.DataFrame, part: str) -> None:
    with pytest.raises(InputError) as caught:
        draft_schema(table, min_count=1)
    assert part in str(caught.value) and "\n" not in str(caught.value)


def test_review_names_every_drafted_column() -> None:
    rows = 2_000
    table = pd.DataFrame(
        {
            "who": [f"p{i}" for i in range(rows)],
            "town": [f"t{i % 1_500}" for i in range(rows // 2)] * 2,
            "one": "x",
            "two": ["x", "y"] * (rows // 2),
            "n": np.linspace(0, 1, rows),
        }
    )
    schema = draft_schema(table)
    expected = {
        "who": "left out, it has more than one different value for every two rows",
        "town": "left out, none of its values is that of 10 rows or more",
        "one": "constant here",
        "two": "2 categories seen in this table (categorical)",
        "n": "bounds [0, 1] were read off this table, and values outside become the nearest bound",
    }
    lines = review(schema)
    assert len(lines) == len(expected)
    for name, part in expected.items():
        (line,) = [line for line in lines if line.startswith(f"{name!r}:")]
        assert part in line and "\n" not in line
    declared = Schema.from_dict(
        {
            **schema.to_dict(),
            "columns": [{**c.to_dict(), "provenance": "declared"} for c in schema.columns],
            "left_out": [],
        }
    )
    assert review(declared) == []


CELL = st.none() | st.sampled_from(["x", "y", "007", "1", "-2", "3.5", "1e3", "True", " ", "a,b"])


@pytest.mark.slow
@settings(
    max_examples=80,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(cells=st.lists(st.tuples(CELL, CELL), min_size=1, max_size=30))
def test_a_drafted_table_encodes_and_comes_back(
    cells: list[tuple[str | None, ...]], tmp_path: Path
) -> None:
    """What was drafted from a CSV file reads that file, and encodes it."""
    table = pd.DataFrame(cells, columns=["a", "b"], dtype="str")
    if table.isna().all().any():
        return
    write_table(table, tmp_path / "t.csv", overwrite=True)
    schema = draft_schema(read_any(tmp_path / "t.csv"), min_count=1)
    typed = read_table(tmp_path / "t.csv", schema)
    encoder = TableEncoder(schema)
    index = encoder.to_index(typed)
    back = encoder.from_index(index, np.random.default_rng(0))
    discrete = [c.name for c in schema.columns if c.kind != "numeric"]
    pd.testing.assert_frame_equal(back[discrete], typed[discrete])


def test_a_space_that_only_strip_knows() -> None:
    """Found by fuzzing: the unit separator is a space to str.strip, and to no reader of numbers."""
    schema = draft_schema(pd.DataFrame({"a": ["\x1f.5", "1.5"]}), min_count=1)
    assert (schema["a"].low, schema["a"].high) == (0.5, 1.5)


def skewed(rows: int = 4_000) -> pd.DataFrame:
    """Incomes with zeros and debts, an index with a top code, prices, few sizes, codes, and even columns."""
    rng = np.random.default_rng(5)
    income = np.round(np.exp(rng.normal(10, 1.2, rows)))
    income[rng.random(rows) < 0.1] = 0
    income[:40] = -np.round(rng.random(40) * 9_000)
    return pd.DataFrame(
        {
            "income": income,
            "index": np.minimum(rng.integers(0, 700, rows), 501),
            "price": np.round(np.exp(rng.normal(1, 1, rows)), 2),
            "density": rng.choice(np.exp(rng.normal(8, 1, 20)), rows),
            "industry": rng.choice(np.arange(170, 9_920, 60), rows),
            "real": np.exp(rng.normal(0, 1.5, rows)),
            "even": rng.normal(0, 1, rows),
            "age": rng.integers(0, 96, rows),
        }
    )


def test_cells_of_a_drafted_column_keep_what_it_holds() -> None:
    table = skewed()
    schema = draft_schema(table)
    skewed_names = {c.name for c in schema.columns if isinstance(c, Numeric) and c.breaks}
    assert skewed_names == {"income", "index", "real", "price"}
    assert schema["density"].kind == "ordinal" and schema["density"].size == 20
    assert schema["industry"].kind == "ordinal" and set(schema["industry"].categories) == set(
        table["industry"]
    )
    assert (schema["price"].resolution, schema["income"].resolution) == (0.01, 1)
    assert all(column.size <= EACH for column in schema.columns if column.kind == "numeric")
    assert {0, 1} < set(schema["income"].breaks) and min(schema["income"].breaks) < 0
    assert schema["index"].breaks[-1] == schema["index"].high == 501
    encoder = TableEncoder(schema)
    index = encoder.to_index(table)
    back = encoder.from_index(index, np.random.default_rng(0))
    np.testing.assert_array_equal(encoder.to_index(back), index)
    for name, value in (("income", 0), ("index", 501)):
        assert (back[name] == value).sum() == (table[name] == value).sum() > 300
    assert (back["price"].round(2) == back["price"]).all()
    for name in table:  # a twentieth each: what is lost within cells moves little across them
        cuts = np.unique(np.quantile(table[name], np.linspace(0, 1, 21)))[1:-1]
        shares = [np.bincount(np.searchsorted(cuts, t[name]), minlength=30) for t in (table, back)]
        assert np.abs(shares[0] - shares[1]).sum() / 2 < 0.05 * len(table), name
    line = next(line for line in review(schema) if line.startswith("'income'"))
    assert "breaks" in line


def test_equal_cells_where_they_do() -> None:
    """Whole numbers of few steps, even ones, and tables too small to tell."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame(
        {
            "age": rng.integers(0, 96, 300),
            "few": rng.integers(0, 60, 300),
            "normal": rng.normal(0, 1, 300),
        }
    )
    assert not any(column.breaks for column in draft_schema(table).columns)


EXTREME = st.sampled_from(
    [0.0, -0.0, 5e-324, -1e-300, 1e-9, 0.1, 1.0, 1e15, 2.0**53, 1e300, -1e300]
)


@settings(max_examples=150, deadline=None)
@given(
    values=st.lists(
        EXTREME | st.floats(-1e9, 1e9) | st.integers(-(10**6), 10**6).map(float), min_size=1
    ),
    times=st.sampled_from([1, 30]),
    dtype=st.sampled_from(["float64", "Float64", "float32"]),
    min_count=st.sampled_from([1, 10]),
)
def test_any_numbers_are_drafted_and_encoded(
    values: list[float], times: int, dtype: str, min_count: int
) -> None:
    values = [v for v in values if dtype != "float32" or abs(v) < 1e30]
    common = [0.25, 0.5] * (15 if min_count > 1 else 0)
    table = pd.DataFrame({"a": pd.Series([*values, 0.5] * times + common, dtype=dtype)})
    schema = draft_schema(table, min_count=min_count)
    encoder = TableEncoder(schema)
    index = encoder.to_index(table)
    back = encoder.from_index(index, np.random.default_rng(0))
    if dtype != "float32":  # a cell may be finer than short floats
        np.testing.assert_array_equal(encoder.to_index(back), index)


def test_texts_among_numbers_are_reasons_for_missing() -> None:
    """A text of enough rows is one; a rarer one is not shown, and the column is left out."""
    incomes = [str(i * 37) for i in range(200)] * 2
    ys = ["y"] * 400
    rare = draft_schema(pd.DataFrame({"a": [*incomes, "N"], "b": ["x", *ys]}))
    assert rare.names == ("b",)
    assert "all but 1 of its values are numbers" in review(rare)[0]
    assert "--null for each of them" in review(rare)[0] and "'N'" not in review(rare)[0]
    common = draft_schema(pd.DataFrame({"a": [*incomes, *["N"] * 12], "b": [*ys, *["x"] * 12]}))
    assert common["a"].kind == "numeric" and dict(common["a"].missing) == {"N": WORD}
    assert "missing" in common["a"].facts_from_rows and "'N' means missing" in review(common)[0]
    second = draft_schema(pd.DataFrame({"a": [*incomes, None]}), ("N",))
    assert second["a"].kind == "numeric" and second["a"].nulls


def test_numbers_with_decimal_commas_and_codes_are_numeric(tmp_path: Path) -> None:
    """Texts and numbers far from all others mean missing; the values of the table come back with them."""
    rng = np.random.default_rng(3)
    rows = 2_000
    commas = np.array([f"{x:.1f}".replace(".", ",") for x in rng.normal(80, 15, rows)])
    heights = rng.integers(140, 200, rows)
    code = rng.random(rows) < 0.1
    table = pd.DataFrame(
        {
            "weight": np.where(code, "k. A.", commas),
            "crp": np.where(code, "<0,6", commas),
            "height": np.where(code, "-999", heights.astype(str)),
            "score": np.where(code, "9999", heights.astype(str)),
            "price": np.where(code, "k. A.", commas.astype(object) + " €"),
        }
    )
    table.loc[:4, "height"] = "1780"
    schema = draft_schema(table)
    assert {c.name: dict(c.missing) for c in schema.columns} == {
        "weight": {"k. A.": WORD},
        "crp": {"<0,6": WORD},
        "height": {"-999": ELSEWHERE},
        "score": {"9999": ELSEWHERE},
        "price": {"k. A.": WORD},
    }
    assert schema.decimal == "," and schema["price"].format == "{,} €"  # type: ignore[attr-defined]
    numbers = [column for column in schema.columns if isinstance(column, Numeric)]
    assert [column.resolution for column in numbers] == [0.1, 0.1, 1, 1, 0.1]
    assert [(column.low, column.high) for column in numbers[2:4]] == [(140, 199)] * 2
    assert "missing" not in draft_schema(table[["score"]][~code])["score"].facts_from_rows
    assert Schema.from_dict(schema.to_dict()) == schema
    write_table(table, tmp_path / "t.csv", sep=";")
    typed = read_table(tmp_path / "t.csv", schema)
    encoder = TableEncoder(schema)
    back = encoder.from_index(encoder.to_index(typed), np.random.default_rng(0))
    for name, key in (("weight", "k. A."), ("crp", "<0,6"), ("height", -999), ("price", "k. A.")):
        assert (back[name] == key).sum() == code[table[name] != "1780"].sum()
    assert back["weight"][~code].str.fullmatch(r"\d+,\d").all()


def test_a_text_beside_few_numbers_keeps_them_from_being_numeric() -> None:
    """The review says so; other texts are no reason to say it, and neither are codes."""
    grades = ["1", "2", "3", "k. A."] * 20
    schema = draft_schema(pd.DataFrame({"grade": grades, "plz": grades, "other": [*"abcd"] * 20}))
    assert [column.categories[-1] for column in schema.columns] == ["k. A.", "k. A.", "d"]
    lines = [line for line in review(schema) if "--null" in line]
    assert len(lines) == 1 and lines[0].startswith("'grade': all but 1 of its values are numbers")
    assert "--null 'k. A.'" in lines[0]


def test_a_reason_for_many_values_is_true_of_people_with_several_rows() -> None:
    people = [f"P{i // 2:07}x" for i in range(400)]
    people[1] = "P0000400x"
    (left_out,) = draft_schema(pd.DataFrame({"person": people, "b": ["x", "y"] * 200})).left_out
    assert left_out["reason"] == "it has more than one different value for every two rows"


def test_whole_numbers_that_their_name_calls_codes_are_listed() -> None:
    numbers = [1, 2, 3, 4, 5, 6, 8] * 40
    schema = draft_schema(pd.DataFrame({"admission_type_id": numbers, "visits": numbers}))
    assert schema["admission_type_id"].kind == "ordinal"
    assert schema["admission_type_id"].categories == (1, 2, 3, 4, 5, 6, 8)
    assert schema["visits"].kind == "numeric" and not schema.left_out


def test_few_whole_numbers_are_no_identifiers_whatever_their_name() -> None:
    table = pd.DataFrame({"education-num": list(range(1, 17)) * 40, "no": list(range(640))})
    schema = draft_schema(table)
    assert schema.names == ("education-num",) and schema.names_left_out == ("no",)
