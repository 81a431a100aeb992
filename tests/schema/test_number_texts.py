"""Numbers as files write them: one text at a time, and never by a guess."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tabsynth import InputError, MargNet, Numeric, Schema, draft_private, read_table, verify
from tabsynth.drafting.drafts import draft_schema, review
from tabsynth.encoding import TableEncoder
from tabsynth.schema import Column
from tabsynth.schema.conforming import conform
from tabsynth.schema.number_texts import (
    decimal_mark,
    numbers_of,
    one_group,
    plain_number,
    with_plain_numbers,
)
from tabsynth.schema.schema import read_values


@pytest.mark.parametrize(
    ("text", "number", "mark"),
    [
        ("1,234.50", 1234.5, "."),
        ("$1,234.50", 1234.5, "."),
        ("1.234,50", 1234.5, ","),
        ("1,5", 1.5, ","),
        ("12 %", 12, None),
        ("12%", 12, None),
        ("€ 3,40", 3.4, ","),
        ("3,40 €", 3.4, ","),
        ("-5 EUR", -5, None),
        ("$-5", -5, None),
        ("−5", -5, None),
        ("1,234,567", 1234567, "."),
        ("1.234.567", 1234567, ","),
        ("1'234.50", 1234.5, "."),
        ("1 234,567", 1234.567, ","),
        ("1\u202f234", 1234, None),
        ("0,123", 0.123, ","),
        ("1234,567", 1234.567, ","),
        ("12.5", 12.5, "."),
    ],
)
def test_texts_with_one_meaning(text, number, mark):
    for declared in (None, ".", ","):
        assert float(plain_number(text, declared)) == number
    assert decimal_mark(text) == mark


@pytest.mark.parametrize(
    "text",
    [
        *("", "a", "1,2,3", "1,23,456", "1.2.3", "--5", "-$-5", "$5€", "5 kg", "1,", "1e5"),
        *("0,123,456", "12:30", "2020-01-01", "1" * 65, "²", "٣,٣"),
    ],
)
def test_texts_that_are_no_numbers(text):
    assert {plain_number(text, declared) for declared in (None, ".", ",")} == {None}


def test_a_text_with_two_meanings_is_read_by_the_declared_mark_only():
    assert [plain_number("1,234", mark) for mark in (None, ".", ",")] == [None, "1234", "1.234"]
    assert [plain_number("1.234", mark) for mark in (None, ".", ",")] == ["1.234", "1.234", "1234"]
    assert one_group("-€ 1,234") == "," and one_group("1,234.5") is None


@given(
    number=st.integers(-(10**12), 10**12),
    decimals=st.integers(0, 6),
    decimal=st.sampled_from(".,"),
    signs=st.sampled_from([("", ""), ("$", ""), ("", " €"), ("", "%")]),
)
def test_what_is_written_with_marks_is_read_back(number, decimals, decimal, signs):
    written = f"{abs(number) / 10**decimals:,.{decimals}f}"
    if decimal == ",":
        written = written.translate({ord("."): ",", ord(","): "."})
    text = "-" * (number < 0) + signs[0] + written + signs[1]
    assert float(plain_number(text, decimal)) == round(number / 10**decimals, decimals)


MARKED = pd.Series(["1,5", "$1,234.50", None, "12 %", "7"])


def numeric(**facts):
    return Numeric(name="x", dtype="float64", low=0, high=2000, nulls=True, **facts)


def test_a_declared_column_reads_marks():
    schema = Schema([numeric()], [""])
    assert schema.validate(MARKED.to_frame("x"), parse=True) == []
    (problem,) = schema.validate(pd.DataFrame({"x": ["1,234", "5"]}), parse=True)
    assert "'1,234' may be a whole number or a fraction" in str(problem)
    for mark in ",.":
        declared = Schema([numeric()], [""], decimal=mark)
        assert declared.validate(pd.DataFrame({"x": ["1,234", "5"]}), parse=True) == []
        assert Schema.from_dict(declared.to_dict()) == declared
        assert declared.select(["x"]).decimal == declared.comparable.decimal == mark
    with pytest.raises(InputError, match="decimal"):
        Schema([numeric()], decimal=";")


def test_numbers_of_released_columns():
    values = pd.Series(["1,5", "1,234", "x", None, 2])
    assert np.array_equal(numbers_of(values, []), [1.5, np.nan, np.nan, np.nan, 2], equal_nan=True)
    assert numbers_of(values, [], ",")[1] == 1.234 and numbers_of(values, [], ".")[1] == 1234


RNG = np.random.default_rng(0)
WEIGHTS = RNG.uniform(40, 120, 800).round(1)
COMMAS = pd.Series([f"{w:.1f}".replace(".", ",") for w in WEIGHTS])
THOUSANDS = pd.Series([f"{w:,.0f}" for w in RNG.uniform(5, 900, 800).round() * 100])


def test_a_review_draft_reads_decimal_commas():
    schema = draft_schema(
        pd.DataFrame({"weight": COMMAS, "pay": [f"{i % 9}.000" for i in range(800)]})
    )
    assert schema["weight"].kind == "numeric" and schema["weight"].resolution == 0.1
    assert schema.decimal == "," and any("decimal mark" in line for line in review(schema))


def test_a_review_draft_reads_thousands():
    schema = draft_schema(pd.DataFrame({"pay": THOUSANDS}))
    assert schema["pay"].kind == "numeric" and schema["pay"].dtype == "int64"
    assert schema.decimal == "." and schema["pay"].high > 50_000
    assert draft_schema(pd.DataFrame({"pay": THOUSANDS}), decimal=",").decimal == ","


def test_identifiers_with_points_are_no_numbers():
    table = pd.DataFrame(
        {"host": ["192.168.100.200", "192.168.100.201"] * 20, "x": ["a", "b"] * 20}
    )
    assert draft_schema(table).names == ("x",)


@pytest.mark.parametrize(("values", "mark"), [(COMMAS, ","), (THOUSANDS, ".")])
def test_a_private_draft_reads_marks(values, mark):
    schema = draft_private(pd.DataFrame({"x": values}), epsilon=20, random_state=1)
    assert schema["x"].kind == "numeric" and schema.decimal == mark
    # All numbers with thousands marks are multiples of a hundred.
    assert schema["x"].resolution == (0.1 if mark == "," else 100)
    assert schema["x"].high <= (150 if mark == "," else 200_000)
    assert schema["x"].high >= 100


def test_a_private_draft_takes_the_declared_mark():
    table = pd.DataFrame({"x": [f"{i % 7 + 1},{i % 90 + 100}" for i in range(800)]})
    draft = [draft_private(table, 20, random_state=0, decimal=mark)["x"] for mark in ".,"]
    assert draft[0].dtype == "int64" and draft[0].high >= 5000
    assert draft[1].dtype == "float64" and draft[1].high < 10


def test_categories_that_are_numbers_are_read_with_marks():
    column = Column(name="x", kind="categorical", dtype="float64", categories=(0.5, 1.5))
    assert Schema([column]).validate(pd.DataFrame({"x": ["0,5", "1,5"]}), parse=True) == []


def test_one_row_decides_no_mark_of_a_private_draft():
    """A row with a decimal comma in 60 columns of plain numbers: no draft takes the comma as decimal mark."""
    plain = {f"c{i}": [str(j % 9) for j in range(900)] for i in range(60)}
    one = pd.DataFrame(plain)
    one.iloc[0] = "1,5"
    for seed in range(3):
        assert draft_private(one, 1.0, random_state=seed).decimal is None


def test_a_number_is_read_by_itself():
    cells = [
        "-5",
        "18446744073709551615",
        "abc",
        " 12",
        "1e400",
        "nan",
        "1_000",
        10**400,
        True,
        None,
        [1],
        1j,
        np.timedelta64(1, "s"),
    ]
    values = np.empty(len(cells), dtype=object)
    values[:] = cells
    found = numbers_of(pd.Series(values, dtype=object), [], None)
    assert np.array_equal(
        found, [-5, 2.0**64, np.nan, 12, *[np.nan] * 4, 1, *[np.nan] * 4], equal_nan=True
    )
    for cell, number in zip(cells, found, strict=True):
        alone = pd.Series([None], dtype=object)
        alone.iat[0] = cell
        assert np.array_equal(numbers_of(alone, [], None), [number], equal_nan=True)


SIGNED = pd.DataFrame(
    {
        "rate": [f"{x:.1f}%" for x in RNG.uniform(0, 30, 1_500)],
        "pay": [f"-${x:,.0f}" if i % 9 == 0 else f"${x:,.0f}" for i, x in enumerate(RNG.lognormal(10, 0.5, 1_500))],
        "cost": [f"{x:,.2f} EUR".replace(",", " ") for x in RNG.lognormal(8, 0.5, 1_500)],
        "mixed": [f"{i % 90}%" if i % 3 == 0 else f"{i % 90}" for i in range(1_500)],
    }
)  # fmt: skip


@pytest.mark.parametrize("private", [True, False])
def test_signs_come_back(private):
    table = SIGNED if private else SIGNED.drop(columns="mixed")
    schema = draft_private(table, 2.0, random_state=0) if private else draft_schema(table)
    formats = {c.name: c.format for c in schema.columns if c.dtype == "str"}
    assert formats == {"rate": "{}%", "pay": "${}", "cost": "{} EUR"}
    assert Schema.from_dict(schema.to_dict()) == schema
    assert ("format" in schema["rate"].facts_from_rows) != private
    rows = conform(table, schema) if private else parsed(table, schema)
    encoder = TableEncoder(schema)
    codes = encoder.to_index(rows)
    back = encoder.from_index(codes, np.random.default_rng(0))
    for name, form in {"rate": r"\d+\.\d%", "pay": r"-?\$\d+", "cost": r"\d+\.\d\d EUR"}.items():
        assert rows[name].str.fullmatch(form).all() and back[name].str.fullmatch(form).all()
    assert np.array_equal(encoder.to_index(back), codes)
    assert rows["rate"].tolist()[5:] != back["rate"].tolist()[5:] and "-$" in "".join(back["pay"])


def parsed(table, schema):
    """As a file with these texts is read."""
    plain = {name: with_plain_numbers(table[name], schema.decimal) for name in table}
    return pd.DataFrame({name: schema[name].parse(texts) for name, texts in plain.items()})


def test_a_sign_stands_beside_reasons_for_missing():
    column = Numeric(
        name="x", dtype="str", low=0, high=99, resolution=1, format="{}%", missing={"refused": ""}
    )
    values = pd.Series(["5%", "refused", "99%"], name="x")
    codes = column.encode(values)
    assert column.decode(codes, np.random.default_rng(0))[1] == "refused"
    assert column.amounts(values)[[0, 2]].tolist() == [5, 99]
    for wrong in ({"format": "{} kg"}, {"format": "${}%"}, {"format": "{;}"}, {"dtype": "float64"}):
        facts = {"dtype": "str", "format": "{}%"} | wrong
        with pytest.raises(InputError, match="sign of a currency or of percent"):
            Numeric(name="x", low=0, high=9, resolution=1, **facts)


def german(number, decimals):
    """Return a number with a decimal comma and points between thousands."""
    return f"{number:,.{decimals}f}".translate({ord(","): ".", ord("."): ","})


GERMAN = pd.DataFrame(
    {
        "euro": [german(x, 2) + " €" for x in RNG.lognormal(8, 0.5, 1_500)],
        "share": [german(x, 1) + " %" for x in RNG.uniform(0, 30, 1_500)],
        "whole": [german(x, 0) + " %" for x in RNG.uniform(1_000, 9_000, 1_500)],
        "plain": [german(x, 2) for x in RNG.lognormal(8, 0.5, 1_500)],
    }
)


@pytest.mark.parametrize("private", [True, False])
def test_signed_numbers_keep_the_decimal_comma(private, tmp_path):
    """From a file to a file, with a certificate that verifies."""
    real, file = tmp_path / "real.csv", tmp_path / "synthetic.csv"
    GERMAN.to_csv(real, sep=";", index=False)
    if private:
        fitted = MargNet(epsilon=2.0, random_state=0).fit(read_table(real))
    else:
        schema = draft_schema(read_table(real))
        options = {"accept_drafted_domain": True, "random_state": 0}
        fitted = MargNet(schema, epsilon=2.0, **options).fit(read_table(real, schema))
    schema = fitted.schema_
    assert [schema[name].format for name in GERMAN] == ["{,} €", "{,} %", "{,} %", None]
    fitted.sample_to(file, 500)
    written = pd.read_csv(file, sep=";", dtype=str)
    for name, form in {"euro": r"\d+,\d\d €", "share": r"\d+,\d %", "whole": r"\d{4} %"}.items():
        assert written[name].str.fullmatch(form).all()
    assert verify(file).consistent
    back = read_table(file, schema)
    assert back["euro"].tolist() == written["euro"].tolist()
    amounts = [float(text[:-2].replace(",", ".")) for text in written["euro"]]
    assert schema["euro"].amounts(back["euro"]).tolist() == amounts
    assert conform(back, schema).equals(back)
    with pytest.raises(InputError, match="'euro' has decimal mark ',' by its format"):
        fitted.sample_to(tmp_path / "points.csv", 5, decimal=".")
    assert not (tmp_path / "points.csv").exists()


def test_the_mark_of_a_format_tells_thousands_from_decimals():
    column = Numeric(name="x", dtype="str", low=0, high=9_999, resolution=0.001, format="{,} €")
    texts = pd.Series(["3,842 €", "3.842 €", "3.842,5 €", "€ 7"], name="x")
    amounts = [3.842, 3842, 3842.5, 7]
    assert column.amounts(texts).tolist() == amounts
    schema = Schema([column])
    frame = texts.to_frame()
    for read in (schema, schema.replace(decimal=",")):
        values = read_values(read["x"], frame["x"], True, read.decimal)
        assert values.tolist() == ["3,842 €", "3842,000 €", "3842,500 €", "7,000 €"]
        assert column.amounts(values).tolist() == amounts
    with pytest.raises(InputError, match="'x' has decimal mark ','"):
        schema.replace(decimal=".")
    # Without a sign, beside reasons; whole numbers have no mark.
    column = replace(column, resolution=0.5, format="{,}", missing={"k. A.": "not stated"})
    values = column.parse(pd.Series(["12", "k. A.", "1.234,5"], name="x"))
    assert values.tolist() == ["12,0", "k. A.", "1234,5"]
    assert column.encode(values).tolist() == column.encode(column.convert(values)).tolist()
    assert Schema([replace(column, resolution=1)], decimal=".")["x"].format == "{,}"
