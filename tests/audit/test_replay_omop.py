"""R1, R2, R12, R26, R28: an OMOP database of one person more or less, with all records of the person."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from linked_tables import TINY
from omop_database import LOCAL, database, vocabulary

from tabsynth import LinkedMargNet
from tabsynth.auditing.replay import replay_run
from tabsynth.encoding.derived import encoder_of
from tabsynth.omop import schema as of_schema
from tabsynth.omop.database import read_omop
from tabsynth.omop.schema import MOST_CONCEPTS, MOST_ITEMS, omop_schema
from tabsynth.synthesizers.linked import network

pytestmark = pytest.mark.usefixtures("accounting_in_no_time")
CONDITIONS, VISITS, PERSON = "condition_occurrence", "visit_occurrence", "person_id"
BOUNDS = {VISITS: 5, CONDITIONS: 3, "measurement": 3}


@pytest.fixture(scope="module")
def given():
    """A database of a few persons, one of whom has more visits and more different concepts than others."""
    tables = database(40, seed=2)
    heavy = tables[VISITS][PERSON].value_counts().index[0]
    visit = tables[VISITS].loc[tables[VISITS][PERSON] == heavy, "visit_occurrence_id"].iloc[-1]
    day = tables[VISITS].set_index("visit_occurrence_id").loc[visit, "visit_start_date"]
    more = pd.DataFrame({"condition_concept_id": LOCAL + np.arange(1_200)}).assign(
        condition_occurrence_id=10**6 + np.arange(1_200),
        condition_start_date=day,
        condition_type_concept_id=32817,
        condition_status_concept_id=0,
        visit_occurrence_id=visit,
        **{PERSON: heavy},
    )
    tables[CONDITIONS] = pd.concat([tables[CONDITIONS], more], ignore_index=True)
    return tables, heavy


def without(tables, person):
    return {name: t[t[PERSON] != person] if PERSON in t else t for name, t in tables.items()}


def persons(given):
    """By a name, a person: with the most records, with a few, and with none but those of the person's own row."""
    tables, heavy = given
    visits = tables[VISITS][PERSON].value_counts()
    few, alone = visits.index[-1], 99
    row = tables["person"].iloc[[0]].assign(person_id=alone)
    return tables | {"person": pd.concat([tables["person"], row])}, {
        "the most records": heavy,
        "few records": few,
        "no records": alone,
    }


KINDS = ("the most records", "few records", "no records")


@pytest.fixture
def wide(monkeypatch):
    monkeypatch.setattr(of_schema, "MAX_CATEGORIES", 500)


def selection(one, other, listed):
    """Replay the release of concepts, and the schema that follows from it."""

    def run(tables, note):
        read = read_omop(tables | (vocabulary() if listed else {}))
        schema = omop_schema(read, 20.0, random_state=3, max_children=BOUNDS)
        note("schema", schema.to_dict())

    return replay_run(run, one, other)


@pytest.mark.parametrize("direction", ["added", "removed"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("listed", [True, False])
def test_the_release_of_concepts(given, kind, direction, listed):
    tables, of = persons(given)
    pair = [tables, without(tables, of[kind])]
    result = selection(*(pair if direction == "removed" else pair[::-1]), listed)
    assert result.passes, result.first_difference
    assert [call.purpose for call in result.mechanisms] == ["schema: concepts of persons"]
    if (
        kind == "the most records"
    ):  # of more concepts than count fully the norm is 1 at most, and near it
        assert 0.9 < result.worst_move <= 1 + 1e-9
    assert result.worst_move <= 1 + 1e-9


@pytest.mark.parametrize("kind", KINDS)
def test_the_release_of_wide_columns(given, kind, wide):
    tables, of = persons(given)
    result = selection(tables, without(tables, of[kind]), True)
    assert result.passes, result.first_difference
    assert result.worst_move <= 1 + 1e-9


def test_no_person_has_more_items_than_the_threshold_is_made_for(given):
    tables, _ = given
    builder = of_schema._Builder(read_omop(tables), None, None)
    number = of_schema._items(builder).groupby("person").size()
    assert number.max() == MOST_ITEMS > MOST_CONCEPTS


@pytest.fixture(scope="module")
def fixed(given):
    """The database as it is read, and a schema that is public here."""
    tables, _ = persons(given)
    read = read_omop(tables | vocabulary())
    schema = omop_schema(read, 20.0, random_state=3, max_children=BOUNDS)
    return read.tables, schema


@pytest.mark.parametrize("kind", KINDS)
def test_a_person_adds_counts_of_one(given, fixed, kind):
    """In each table the records of others stay as they are, and those of the person add weights that sum to 1 at most."""
    tables, schema = fixed
    encoder = encoder_of(schema)
    person = persons(given)[1][kind]

    def counted(given_tables):
        rows = encoder.to_rows(encoder.to_tables(given_tables))
        out = {}
        for name, of in rows.items():
            weights = np.ones(len(of)) if of.shares is None else of.shares
            out[name] = (
                pd.Series(weights).groupby([of.codes[:, j] for j in range(of.codes.shape[1])]).sum()
            )
        return out

    whole, rest = counted(tables), counted(without(tables, person))
    assert {*whole} == {*schema.names} - {"death"}
    moved = {}
    for name, cells in whole.items():
        apart = cells.sub(rest[name], fill_value=0.0)
        assert (apart >= -1e-9).all(), name
        assert apart.sum() <= 1 + 1e-9 and np.square(apart).sum() <= 1 + 1e-9
        moved[name] = apart.sum()
    assert moved["person"] == 1
    if kind == "the most records":
        assert moved[CONDITIONS] > 0.3 and moved[VISITS] > 0.9


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "listed"), [*zip(KINDS, (True, False, True), strict=True)])
def test_a_fit_with_its_selection(given, kind, listed, monkeypatch):
    """Derived columns, too, follow from the records of each person alone: all else is the same to the bit."""
    monkeypatch.setattr(network, "CONTEXTS", 64)
    monkeypatch.setattr("tabsynth.synthesizers.linked.generator.GROUPS", 50)
    tables, of = persons(given)

    def run(database, note):
        read = read_omop(database | (vocabulary() if listed else {}))
        schema = omop_schema(read, 20.0, random_state=3, max_children=BOUNDS)
        config = replace(TINY, steps=2)
        model = LinkedMargNet(schema, epsilon=20.0, config=config, random_state=3, device="cpu")
        model.fit(read.tables)
        note("schema", schema.to_dict())
        note("notes", model.notes())
        note("mechanisms", model.certificate()["mechanisms"])
        for name, table in model.sample(20, random_state=1).items():
            note(name, table.to_csv())

    result = replay_run(run, tables, without(tables, of[kind]))
    assert result.passes, result.first_difference
    assert 0.5 < result.worst_move <= 1 + 1e-9
    assert len({call.purpose.split(":")[0] for call in result.mechanisms}) == 7
