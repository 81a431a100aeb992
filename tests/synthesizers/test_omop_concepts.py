"""The schema of an OMOP database: concepts by noisy numbers of persons, which a fit counts, and groups of a vocabulary."""

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from omop_database import LOCAL, database, vocabulary

from tabsynth import InputError, LinkedMargNet
from tabsynth.encoding.derived import DerivedEncoder
from tabsynth.omop.database import cdm, read_omop
from tabsynth.omop.schema import MOST_CONCEPTS, omop_schema, weights_of
from tabsynth.omop.vocabulary import Vocabulary
from tabsynth.privacy.accounting.accountants import epsilon_of
from tabsynth.privacy.accounting.mechanisms import mechanism_from
from tabsynth.privacy.ledger.project import ProjectLedger

CONDITIONS = "condition_occurrence"


@pytest.fixture(scope="module")
def given():
    """The tables of a few persons, and a vocabulary."""
    return read_omop(database(120, seed=1) | vocabulary())


def schema_of(given, epsilon=3.0, **options):
    return omop_schema(given, epsilon, random_state=0, **options)


def test_the_facts_are_those_of_the_tables():
    facts = cdm()
    assert facts["version"] == "5.4" and len(facts["tables"]) == 7
    for of in facts["tables"].values():
        left_out = [c for listed in of["left_out"].values() for c in listed]
        assert not {*left_out} & {*of["columns"]} and {*of["left_out"]} <= {*facts["reasons"]}
        assert not any("source_value" in c or c == "sig" for c in of["columns"])


def test_a_person_adds_a_norm_of_one_at_most():
    for count in (1, 2, MOST_CONCEPTS - 1, MOST_CONCEPTS, MOST_CONCEPTS + 1, 1_001):
        weights = weights_of(pd.Series([count] * count), 2**16) / 2**16
        assert math.sqrt(np.square(weights).sum()) <= 1


def test_a_concept_of_one_person_is_not_selected(given):
    tables = dict(given.tables)
    own = tables[CONDITIONS].drop_duplicates("visit_occurrence_id")
    tables[CONDITIONS] = own.assign(condition_concept_id=LOCAL + np.arange(len(own)))
    assert len(own) > 800
    schema = schema_of(replace(given, tables=tables, vocabulary=None))
    assert schema.tables[CONDITIONS]["condition_concept_id"].categories == (0,)


def test_common_concepts_are_selected_without_a_vocabulary(given):
    schema = schema_of(replace(given, vocabulary=None), epsilon=math.inf)
    listed = schema.tables[CONDITIONS]["condition_concept_id"].categories
    assert {*listed} == {0, *given.tables[CONDITIONS]["condition_concept_id"]}
    released = schema.released[f"{CONDITIONS}.condition_concept_id"]
    persons = given.tables[CONDITIONS].groupby("condition_concept_id")["person_id"].nunique()
    shares = {int(code): share for code, (share, _) in released.items()}
    assert max(abs(shares[c] - n / 120) for c, n in persons.items()) < 0.01


def test_a_concept_outside_the_vocabulary_is_refused_before_a_charge(given, tmp_path):
    tables = {name: table.copy() for name, table in given.tables.items()}
    tables[CONDITIONS].loc[0, "condition_concept_id"] = 4711
    path = tmp_path / "ledger.jsonl"
    ProjectLedger.create(path, epsilon=9.0, delta=1e-5, unit="person_id")
    before = path.read_bytes()
    with pytest.raises(InputError, match="condition_concept_id=4711, which is no standard concept"):
        omop_schema(replace(given, tables=tables), 3.0, ledger=path)
    assert path.read_bytes() == before


def test_two_persons_with_one_id_are_refused_before_a_charge(given, tmp_path):
    person = given.tables["person"]
    tables = given.tables | {"person": pd.concat([person, person[:1]], ignore_index=True)}
    path = tmp_path / "ledger.jsonl"
    ProjectLedger.create(path, epsilon=9.0, delta=1e-5, unit="person_id")
    before = path.read_bytes()
    with pytest.raises(InputError, match="has key person_id='10001' twice"):
        omop_schema(replace(given, tables=tables), 3.0, ledger=path)
    assert path.read_bytes() == before


def test_a_cause_of_death_may_be_of_any_domain(given):
    """The CDM names none for it; a concept that is no condition counts as 0, and one of no vocabulary is refused."""
    drug, condition = (
        int(given.tables[n][c].iloc[0])
        for n, c in (("drug_exposure", "drug_concept_id"), (CONDITIONS, "condition_concept_id"))
    )
    codes = pd.Series([drug, condition, 0], dtype="int64")
    death = given.tables["death"][:3].assign(cause_concept_id=codes)
    assert len(death) == 3
    schema = schema_of(replace(given, tables=given.tables | {"death": death}), epsilon=math.inf)
    column = schema.tables["death"]["cause_concept_id"]
    first, second, third = column.encode(codes).tolist()
    assert first == third != second
    unknown = {"death": death.assign(cause_concept_id=4711)}
    with pytest.raises(InputError, match="cause_concept_id=4711, which is no standard concept in"):
        schema_of(replace(given, tables=given.tables | unknown))


def test_a_fit_counts_the_selection(given):
    schema = schema_of(given)
    (selection,) = schema.released["mechanisms"]
    plan = LinkedMargNet(schema, epsilon=3.0).plan()
    spends = [(mechanism_from(selection), selection["count"])]
    spends += [(s.mechanism, s.count) for s in plan.spends]
    assert 2.9 < epsilon_of(spends, 1e-5) <= 3.0


def test_dates_have_the_years_that_many_persons_have():
    """One person with a visit in 1990 does not show; declared bounds are taken as they are."""
    given = read_omop(database(900, seed=2) | vocabulary())
    visits = given.tables["visit_occurrence"].copy()
    first = visits.index[visits["person_id"] == visits["person_id"].iloc[0]]
    visits.loc[first, ["visit_start_date", "visit_end_date"]] = "1990-05-05"
    given = replace(given, tables={**given.tables, "visit_occurrence": visits})
    column = schema_of(given).tables["visit_occurrence"]["visit_start_date"]
    assert (column.low, column.high) == ("2019-01-01", "2022-12-31")
    assert column.provenance == "released"
    declared = ("1990-01-01", "2025-12-31")
    column = schema_of(given, dates=declared).tables["visit_occurrence"]["visit_start_date"]
    assert (column.low, column.high) == declared and column.provenance == "declared"


def test_concepts_of_a_vocabulary_are_single_or_in_groups(given):
    column = schema_of(given, epsilon=math.inf).tables[CONDITIONS]["condition_concept_id"]
    assert column.size < len(column.codes) and set(column.modelled) <= set(column.codes)
    codes = np.arange(column.size).repeat(50)
    drawn = column.decode(codes, np.random.default_rng(0))
    assert (column.encode(drawn) == codes).all()


def test_the_tree_is_that_of_the_ancestors_or_of_vocabulary_and_class():
    tables = vocabulary()
    codes = Vocabulary(tables["CONCEPT"], tables["CONCEPT_ANCESTOR"], "here").codes(
        "Condition", "c"
    )
    tops = Vocabulary(tables["CONCEPT"], tables["CONCEPT_ANCESTOR"], "here").parents(codes)
    assert tops[str(LOCAL)] == str(LOCAL + 900_000)  # A00 is under A
    by_class = Vocabulary(tables["CONCEPT"], None, "here").parents(codes)
    assert by_class[str(LOCAL)] == "Local Test A00"
    assert all(top is None or top in by_class for top in by_class.values())


def test_dates_beyond_the_usual_years_count_as_the_nearest_of_them(given):
    early = given.tables["visit_occurrence"].assign(visit_start_date="1975-05-01")
    people = given.tables["person"].assign(year_of_birth=1950)
    schema = schema_of(
        replace(given, tables=given.tables | {"visit_occurrence": early, "person": people})
    )
    column = schema.tables["visit_occurrence"]["visit_start_date"]
    assert column.encode(early["visit_start_date"]).max() == 0


def test_dates_and_bounds_are_public_options(given):
    schema = schema_of(given, dates=("2018-01-01", "2023-12-31"), max_children={"measurement": 3})
    visit = schema.tables["visit_occurrence"]["visit_start_date"]
    assert (visit.low, visit.high) == ("2018-01-01", "2023-12-31")
    assert schema.keys["measurement"].max_children == 3
    assert isinstance(DerivedEncoder(schema), DerivedEncoder)
    for options, says in (
        ({"dates": ("2020", "now")}, "two dates such as 2015-01-01"),
        ({"dates": ("2020-01-01", "2019-01-01")}, "dates in their order"),
        ({"max_children": {"person": 2}}, "table of max_children"),
        ({"dates": ("2021-01-01", "2023-12-31")}, "is outside its declared bounds"),
    ):
        with pytest.raises(InputError, match=says):
            schema_of(given, **options)
