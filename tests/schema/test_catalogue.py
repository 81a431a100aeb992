"""The catalogue of public knowledge by name: which names it knows, and what its entries say."""

import re
from datetime import date

import numpy as np
import pandas as pd
import pytest

from tabsynth.drafting.catalogue import catalogue, words_of
from tabsynth.drafting.drafts import draft_schema, review
from tabsynth.drafting.private_schema import draft_private

ENTRIES = catalogue()
hint_of = ENTRIES.hint_of


@pytest.mark.parametrize(
    ("entry", "names"),
    {
        "age": "age AGE AGEP ageAtDiagnosis age_at_diagnosis patient_age mother.age Age age1 age.in.years",
        "year": "year yob birth_year BirthYear YEAR admission_year year.of.birth",
        "heart rate": "hr heartRate HEART_RATE heart-rate pulse",
        "flag": "is_readmitted has_diabetes isActive icu_flag",
        "percentage": "pct percent pct_white percentage mortality_pct",
        "Apgar": "apgar apgar5 apgar_5_min",
        "Karnofsky": "ph.karno karno KPS",
        "postal code": "zip ZipCode zip_code home_zip",
        "hours per week": "hours.per.week hours_worked WKHP",
        "number of children": "kids nkids num_kids number_of_children kidslt6 kids618",
        "sex": "sex Sex GENDER patient_sex",
        "systolic blood pressure": "sbp sysBP systolic_bp SBP2",
    }.items(),
    ids=lambda value: value if " " not in value else "",
)
def test_names_of_an_entry(entry: str, names: str) -> None:
    hints = {name: hint_of(name) for name in names.split()}
    assert {name: hint and hint.name for name, hint in hints.items()} == dict.fromkeys(hints, entry)


@pytest.mark.parametrize(
    "name",
    [
        *("percentages_of", "average", "stage_fright", "age_group", "agegroup", "age80", "marriage", "log_age"),
        *("package", "AgeBand", "island", "hash", "years", "visits_per_year", "yearly", "months", "income", ""),
        *("age_at_diagnosis_group", "bmi_category", "weight_change", "mileage", "x", "42", "_"),
    ],
)  # fmt: skip
def test_names_of_no_entry(name: str) -> None:
    assert hint_of(name) is None


def test_names_are_read_alike_whatever_their_form() -> None:
    assert (
        words_of("ageAtDiagnosis") == words_of("age_at-diagnosis") == words_of("AGE AT DIAGNOSIS")
    )
    assert words_of("Größe") == ["grosse"] and words_of("apgar5min") == ["apgar", "5", "min"]


def test_facts_that_are_so_by_definition() -> None:
    wanted = {
        **{"age": (0, 120), "month": (1, 12), "hour": (0, 23), "hours per week": (0, 168)},
        **{"percentage": (0, 100), "proportion": (0, 1), "Apgar": (0, 10), "flag": (0, 1)},
        **{"Karnofsky": (0, 100), "minute": (0, 59), "latitude": (-90, 90), "day": (1, 31)},
        **{"year": (1900, date.today().year), "quarter": (1, 4), "gcs": (3, 15)},
    }  # fmt: skip
    for name, facts in wanted.items():
        hint = hint_of(name)
        assert hint is not None and hint.limits == facts, name
    postal = hint_of("zip")
    assert postal is not None and postal.code and postal.low is None


def test_every_entry_is_complete() -> None:
    for name in ENTRIES.names:
        hint = ENTRIES.hint(name)
        assert hint.source and (hint.sets or hint.code or hint.diagnosis or hint.low is not None), (
            name
        )
        assert (hint.low is None) == (hint.high is None), name
        if hint.low is not None and hint.high is not None:
            assert hint.low < hint.high, name
    for each in ENTRIES.sets:
        assert each.source and len({*each.texts}) == len(each.texts) >= 2, each.name


def test_no_name_is_listed_twice() -> None:
    """Of two entries with one name, the second would never be found."""
    names = [n for listed in ENTRIES.names.values() for n in listed]
    squeezed = [n if "*" in n else "".join(words_of(n)) for n in names]
    assert sorted({*squeezed}) == sorted(squeezed)
    for entry, listed in ENTRIES.names.items():  # each finds its own entry, also in capitals
        for name in listed:
            plain = name.replace("*", "patient").replace(" ", "_")
            found = hint_of(plain), hint_of(plain.upper())
            assert all(hint and hint.name == entry for hint in found), (name, entry)


def test_sets_have_each_form_of_their_texts() -> None:
    texts = {each.texts for each in ENTRIES.sets}
    assert {("no", "yes"), ("No", "Yes"), ("NO", "YES"), ("f", "m"), ("F", "M")} <= texts
    assert ("I", "II", "III") in texts and ("i", "ii", "iii") not in texts
    hint = hint_of("state")
    assert hint is not None and {len(each.texts) for each in hint.sets} == {51}
    countries = hint_of("country")
    assert countries is not None and len(countries.sets[0].texts) == 249
    assert all(re.fullmatch("[A-Z]{2}", code) for code in countries.sets[0].texts)
    assert not {*countries.sets} & {*ENTRIES.sets}  # only columns of such names are asked for them


def test_a_review_draft_takes_public_facts() -> None:
    """As far as the rows fit them: a set that they show, and limits beyond which hardly a row is."""
    rng = np.random.default_rng(0)
    hours = rng.integers(3, 167, 400)
    table = pd.DataFrame(
        {
            "smoker": ["no"] * 395 + ["yes"] * 5,
            "answer": ["no"] * 380 + ["perhaps"] * 20,
            "hours per week": [*hours[:397], 999, 999, 999],
            "hours week": [*hours[:380], *[180, 190] * 10],
        }
    )
    schema = draft_schema(table)
    smoker, answer, hours_per_week, beyond = schema.columns
    assert (smoker.categories, smoker.source) == (("no", "yes"), "catalogue: no, yes")
    assert set(smoker.facts_from_rows) == {"dtype", "nulls"}
    assert (answer.categories, answer.source) == (("no", "perhaps"), None)
    assert hours_per_week.to_dict()["high"] == 168 and "high" not in hours_per_week.facts_from_rows
    assert hours_per_week.source == "catalogue: hours per week" and beyond.source is None
    assert beyond.to_dict()["high"] >= 190
    assert any("'smoker'" in line and "catalogue: no, yes" in line for line in review(schema))


def test_digits_of_codes_are_texts_in_both_drafts() -> None:
    """Their leading zeros stay, also where few of them have one."""
    zips = [f"{code:05}" for code in (2139, 90210, 10001, 60601)]
    table = pd.DataFrame({"zip": zips * 300, "visits": [str(i % 7) for i in range(1_200)]})
    table.loc[:1, "zip"] = "10002"
    for schema in (draft_schema(table), draft_private(table, 3.0, random_state=0)):
        assert {*zips} <= {*schema["zip"].categories} and schema["zip"].dtype == "str"
    tens = pd.DataFrame({"zip": zips[1:] * 300, "amount": zips[1:] * 300})
    for schema in (draft_schema(tens), draft_private(tens, 3.0, random_state=0)):
        assert {*zips[1:]} <= {*schema["zip"].categories}
        assert schema["amount"].value_type == "int"
