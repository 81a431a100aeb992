"""The catalogue of public knowledge by name: which names it knows, and what its entries say."""

import re
from datetime import date

import pytest

from tabsynth.drafting.catalogue import catalogue, words_of

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
        **{"age": (0, 120, None), "month": (1, 12, 1), "hour": (0, 23, 1), "hours per week": (0, 168, None)},
        **{"percentage": (0, 100, None), "proportion": (0, 1, None), "Apgar": (0, 10, 1), "flag": (0, 1, 1)},
        **{"Karnofsky": (0, 100, 10), "minute": (0, 59, 1), "latitude": (-90, 90, None), "day": (1, 31, 1)},
        **{"year": (1900, date.today().year, 1), "quarter": (1, 4, 1), "gcs": (3, 15, 1)},
    }  # fmt: skip
    for name, facts in wanted.items():
        hint = hint_of(name)
        assert hint is not None and (hint.low, hint.high, hint.step) == facts, name
    postal = hint_of("zip")
    assert postal is not None and postal.code and postal.low is None


def test_every_entry_is_complete() -> None:
    for name in ENTRIES.names:
        hint = ENTRIES.hint(name)
        assert hint.source and (hint.sets or hint.code or hint.low is not None), name
        assert (hint.low is None) == (hint.high is None), name
        if hint.low is not None and hint.high is not None:
            assert hint.low < hint.high and (hint.high - hint.low) % (hint.step or 0.5) == 0, name
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
