"""Private drafts of columns with codes of diagnoses, and of bands of numbers."""

import numpy as np
import pandas as pd
import pytest

from tabsynth.drafting.catalogue import catalogue
from tabsynth.drafting.categories import completed_bands
from tabsynth.drafting.code_lists import FORMS, forms_of, list_of
from tabsynth.drafting.formats import distinct
from tabsynth.drafting.private_schema import draft_private
from tabsynth.errors import InputError
from tabsynth.schema import Hierarchical
from tabsynth.schema.conforming import conform

ROWS = 6_000
YEARS = [f"{year}-{year + 9}" for year in range(1901, 1981, 10)] + ["1991-2000"]


def diagnoses(codes: list[str]) -> pd.DataFrame:
    """A table of diagnoses, the first of which are common."""
    rng = np.random.default_rng(0)
    shares = 1 / np.arange(1, len(codes) + 1)
    drawn = rng.choice(codes, ROWS, p=shares / shares.sum())
    return pd.DataFrame({"diagnosis": drawn, "sex": rng.choice(["f", "m"], ROWS)})


def test_lists_have_the_categories_of_their_classifications() -> None:
    icd_10, icd_9 = catalogue().codes_of("ICD-10"), catalogue().codes_of("ICD-9")
    assert {"A00", "C50", "E11", "I21", "J18", "S72", "U07", "Z51"} < {*icd_10}
    assert not {"A10", "C29", "E17", "W19", "Y40"} & {*icd_10}
    assert {"001", "250", "428", "999", "V57", "E812"} < {*icd_9}
    assert not {"000", "V00", "V92", "E100"} & {*icd_9}
    for codes in (icd_10, icd_9):
        assert len(codes) == len({*codes}) < 2_000


@pytest.mark.parametrize(
    ("text", "form"),
    [
        *(("E11", 0), ("E11.9", 0), ("I2510", 0), ("S72.001A", 0), ("C4A", 0)),
        *(("250", 1), ("250.83", 1), ("V57", 1), ("E812", 1), ("428.0", 1)),
        *(("038", 2), ("038.9", 2), ("8", 3), ("38.9", 3)),
        *(("none", 4), ("e11", 4), ("12345", 4), ("E11.9 ?", 4), ("", 4)),
    ],
)
def test_form_of_a_code(text: str, form: int) -> None:
    assert forms_of(distinct(pd.Series([text]))).tolist() == [form, len(FORMS)]


@pytest.mark.parametrize(
    ("counts", "name", "first"),
    [
        ([900, 0, 0, 0, 100], "ICD-10", "A00"),
        ([30, 900, 20, 0, 50], "ICD-9", "001"),
        ([30, 900, 0, 60, 10], "ICD-9", "1"),
        ([700, 0, 0, 0, 300], None, None),
        ([0, 300, 0, 690, 10], None, None),  # numbers, of which some have three digits
        ([0, 0, 0, 1000, 0], None, None),
    ],
)
def test_list_of_most_rows(counts: list[float], name: str | None, first: str | None) -> None:
    found = list_of(np.array(counts, dtype=float), 1_000.0, 40.0)
    assert (found and found.name) == name
    assert found is None or found.codes[0] == first


@pytest.mark.parametrize(
    ("codes", "entry"),
    [
        (["I10", "E11.9", "J18.9", "I21.4", "C50.9", "N39.0", "A41.9", "Q90"], "ICD-10"),
        (["428", "414.01", "786", "250.83", "V57", "038", "276", "E888"], "ICD-9"),
    ],
)
def test_codes_of_a_list_are_known_however_rare(codes: list[str], entry: str) -> None:
    schema = draft_private(diagnoses(codes).astype("str"), 1.0, random_state=0)
    column = schema["diagnosis"]
    assert isinstance(column, Hierarchical) and column.source == f"catalogue: {entry}"
    public = {*catalogue().codes_of(entry), "other"}
    assert public < {*column.codes} | {"other"}
    assert {*column.codes} - public <= {*codes}
    assert (
        codes[1] in column.codes
    )  # which enough rows have, though it is longer than those of the list
    values = pd.Series([*codes, "no code"])
    categories = [code if code in column.codes else code[:3] for code in codes]
    rng = np.random.default_rng(0)
    assert column.decode(column.encode(values), rng).tolist() == [*categories, "other"]


def test_codes_outside_of_the_list_are_counted() -> None:
    table = diagnoses(["I10", "E11", "J18", "I21"])
    table.loc[: ROWS // 4, "diagnosis"] = [f"V{place % 90 + 10}" for place in range(ROWS // 4 + 1)]
    schema = draft_private(table.astype("str"), 1.0, random_state=0)
    note = schema.released["notes"]["diagnosis"]
    assert "rarer values become 'other'" in note["note"]
    assert note["share"] == pytest.approx(0.25, abs=0.1)


def test_a_fit_sees_longer_codes_as_those_of_the_list() -> None:
    """What is fitted are categories, also of codes that are all longer, and of those with blanks behind."""
    chapters = [f"{letter}{place}" for letter in "EIJ" for place in (10, 11, 12, 13)]
    table = diagnoses([f"{code}.{place} " for code in chapters for place in range(9)])
    table.loc[:9, "diagnosis"] = "no code"
    schema = draft_private(table.astype("str"), 1.0, random_state=0)
    column = schema["diagnosis"]
    assert isinstance(column, Hierarchical)
    fitted = conform(table.astype("str"), schema)["diagnosis"]
    codes = {*column.codes}
    assert fitted.tolist() == ["other"] * 10 + [
        code if code in codes else code[:3] for code in table["diagnosis"][10:]
    ]


@pytest.mark.parametrize("cell", [None, "", "half \ud800", "E11\ud800", "x" * 20_000, b"E11", 3.5])
def test_a_fit_takes_any_cell_of_a_column_of_codes(cell: object) -> None:
    """One row with an odd cell, or an empty one where no nulls were released, refuses nothing."""
    table = diagnoses(["I10", "E11.9", "J18.9"]).astype(object)
    table.loc[0, "diagnosis"] = cell
    schema = draft_private(table, 1.0, random_state=0)
    column = schema["diagnosis"]
    assert isinstance(column, Hierarchical) and not column.nulls
    fitted = conform(table, schema)["diagnosis"]
    assert fitted[0] in ("other", "E11") and {*fitted[1:]} <= {*column.codes}


@pytest.mark.parametrize("null", ["999", "250", "other"])
def test_a_code_of_the_list_that_means_null_is_no_category(null: str) -> None:
    table = diagnoses(["428", "414.01", "786", "250.83", "V57", "038", "276", "E888"])
    schema = draft_private(table.astype("str"), 1.0, random_state=0, null_values=[null])
    column = schema["diagnosis"]
    assert isinstance(column, Hierarchical)
    assert null not in column.codes and len(column.codes) > 1_000 and column.other in column.codes


@pytest.mark.parametrize("seed", range(8))
def test_no_list_is_of_a_column_without_values(seed: int) -> None:
    """With a public number of rows, noise of the forms decides nothing where all cells are empty."""
    table = pd.DataFrame({"diagnosis": [""] * 500}).astype("str")
    with pytest.raises(InputError, match="could release no column"):
        draft_private(table, 1.0, random_state=seed, rows=500)


def test_a_diagnosis_of_few_numbers_has_no_list() -> None:
    table = diagnoses(["0", "1"])
    assert draft_private(table.astype("str"), 1.0, random_state=0)["diagnosis"].dtype == "int64"


@pytest.mark.parametrize(
    ("name", "texts", "added"),
    [
        ("wage", ["20-29", "30-39", "50-59", "other"], ["40-49"]),
        ("wage", ["[20-30)", "[30-40)", "[40-50)"], []),
        ("wage", ["20-29", "30-39"], []),  # two alone may be anything
        ("wage", ["20-29", "30-39", "45-54"], []),
        ("wage", ["20-29", "30-44", "45-59"], []),
        ("wage", ["2020-01-02", "2020-01-03", "2020-01-04"], []),
        ("age_group", ["0-29", "30-59", "90-119"], ["60-89"]),
        ("year", ["1981-1990", "2001-2010", "2011-2020"], YEARS),
        ("wage", ["1-2", "2-3", "500000000-500000001"], []),
        ("age_group", ["60-79", "80-99", "20-39"], ["0-19", "40-59", "100-119"]),
    ],
)
def test_bands_are_completed(name: str, texts: list[str], added: list[str]) -> None:
    assert [text for text in completed_bands(name, texts) if text not in texts] == added
