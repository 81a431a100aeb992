"""Gaps between rows of one parent: cells, what a row's gap follows from, and values that are put together again."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from linked_tables import TINY, schema, tables, without
from record_replay import replay
from record_replay.linked import linked_neighbours

from tabsynth import Date, InputError, LinkedMargNet, Numeric, Ordinal, Schema, load
from tabsynth.encoding.gaps import GAP, from_gaps, gap_column, gaps_between, with_gaps
from tabsynth.encoding.linked import LinkedEncoder
from tabsynth.schema.linked import LinkedSchema
from tabsynth.synthesizers.linked import network

DAY = Numeric(name="day", dtype="int64", low=0, high=99, bins=10, resolution=1)


def with_gap(**bounds):
    plain = schema(**bounds)
    keys = {name: dict(of.to_dict()) for name, of in plain.keys.items()}
    keys["stays"]["gaps"] = ["day"]
    return LinkedSchema(plain.tables, keys)


@pytest.fixture
def few_contexts(monkeypatch):
    monkeypatch.setattr(network, "CONTEXTS", 64)
    monkeypatch.setattr("tabsynth.synthesizers.linked.generator.GROUPS", 50)


def test_cells_follow_from_the_bounds_of_the_column():
    column = gap_column(DAY)
    assert (column.low, column.high, column.resolution, column.nulls) == (0, 99, 1, True)
    assert column.breaks[:31] == tuple(range(1, 32)) and column.breaks[31:34] == (32, 34, 36)
    date = Date(name="in", dtype="datetime64[s]", low="2020-01-01", high="2023-12-31", bins=24)
    assert gap_column(date).high == 1460 and gap_column(date).size <= 100
    real = Numeric(name="x", dtype="float64", low=-1.0, high=1.0, bins=4)
    assert gap_column(real).high == 2 and gap_column(real).resolution is None
    single = Numeric(name="x", dtype="int64", low=3, high=3)
    assert gap_column(single).size >= 2
    names = with_gaps(Schema([DAY]), ("day",)).names
    assert names == ("day", f"day{GAP}")


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 4), st.integers(-20, 130)), max_size=30), st.randoms())
def test_values_are_put_together_again(rows, random):
    """Sorted values within the bounds come back; a gap follows from the rows of its parent."""
    random.shuffle(rows)
    parent = np.array([p for p, _ in rows], dtype=np.int64)
    values = np.array([v for _, v in rows], dtype=float)
    gaps = gaps_between(DAY, values, parent, values)
    for p in set(parent):
        own = gaps_between(DAY, values[parent == p], parent[parent == p], values[parent == p])
        np.testing.assert_array_equal(gaps[parent == p], own)
    order = np.lexsort((np.arange(len(rows)), values, parent))
    place = pd.Series(parent[order]).groupby(parent[order]).cumcount().to_numpy()
    clipped = np.clip(values, 0, 99)[order]
    assert (np.isnan(gaps[order]) == (place == 0)).all() and (np.nan_to_num(gaps) >= 0).all()
    first = np.where(place == 0, clipped, -1.0)
    np.testing.assert_array_equal(from_gaps(DAY, first, gaps[order], parent[order], place), clipped)
    far = from_gaps(DAY, first, np.full(len(rows), 60.0), parent[order], place)
    assert (far <= 99).all()


def test_sums_of_gaps_depend_on_the_parent_alone():
    """Tenths are no floats: a sum over all rows, less what is before the parent, would be rounded by other parents' gaps."""
    column = Numeric(name="x", dtype="float64", low=0, high=1e6, resolution=0.1, bins=20)
    rng = np.random.default_rng(0)
    gaps = rng.integers(0, 200, 300) / 10
    parent, position = np.arange(300) // 3, np.arange(300) % 3
    amounts = np.where(position == 0, gaps, 0.0)
    whole = from_gaps(column, amounts, gaps, parent, position)
    first = [1e6 * rng.random(), 0.3, 7.7]
    more = from_gaps(
        column,
        np.concatenate([[0.1, 0.0, 0.0], amounts]),
        np.concatenate([first, gaps]),
        np.concatenate([[0] * 3, parent + 1]),
        np.concatenate([[0, 1, 2], position]),
    )
    assert (more[3:] == whole).all()


def test_gaps_beyond_the_last_value_are_shortened_in_proportion():
    """By hand: two gaps of 60 in the 9 that are left; of half a gap more than these, each is 3.6. The other parent stays."""
    parent, place = np.array([0, 0, 0, 1, 1]), np.array([0, 1, 2, 0, 1])
    first, gaps = np.array([90.0, -1, -1, 10, -1]), np.array([np.nan, 60, 60, np.nan, 60])
    made = from_gaps(DAY, first, gaps, parent, place)
    np.testing.assert_allclose(made, [90, 93.6, 97.2, 10, 70])


def test_a_root_row_more_changes_no_other_record_and_counts_by_one():
    """R2, R12: the gap of a row follows from the rows of its root."""
    whole = tables(8, 3, most=9)
    encoder = LinkedEncoder(with_gap())
    rows, others = (
        encoder.to_rows(encoder.to_tables(t)) for t in (whole, without(whole, 1000 + 2))
    )
    for name, records in encoder.records.items():
        for j, size in enumerate(records.sizes):
            one, other = (
                np.bincount(r[name].codes[:, j], r[name].shares, minlength=size)
                for r in (rows, others)
            )
            assert (one - other >= 0).all() and (one - other).sum() <= 1
    for seed in range(5):
        whole = tables(8, seed, most=9)
        one = encoder.to_rows(encoder.to_tables(whole))["patients"].codes
        for at, patient in enumerate(whole["patients"]["patient"]):
            other = encoder.to_rows(encoder.to_tables(without(whole, patient)))["patients"].codes
            np.testing.assert_array_equal(np.delete(one, at, axis=0), other)
    names = [c.name for c in encoder.records["stays"].drawn]
    codes = rows["stays"].codes[:, len(encoder.records["stays"].context) :]
    column = encoder.records["stays"].drawn[names.index(f"own stays: day{GAP}")]
    later = codes[:, names.index(f"own stays: day{GAP}")]
    assert (later < column.size - 1).all()  # null is for first children alone


@pytest.mark.slow
def test_replay_of_a_whole_root_row_with_gaps(few_contexts, accounting_in_no_time):
    pair = linked_neighbours(tables(12), with_gap(), seed=1)[-1]
    model = LinkedMargNet(with_gap(), epsilon=3.0, config=TINY, device="cpu")
    result = replay(model, pair.table, pair.neighbour, seed=3)
    assert result.passes, result.first_difference
    assert 0.5 < result.worst_move <= 1 + 1e-9


@pytest.mark.slow
def test_synthetic_values_are_that_of_the_row_before_and_the_gap(few_contexts, tmp_path):
    """Weekly stays: all gaps are 7 days, which no cell of ten days could tell."""
    rng = np.random.default_rng(0)
    patient = np.repeat(np.arange(300), rng.integers(1, 5, 300))
    number = pd.Series(patient).groupby(patient).cumcount()
    stays = pd.DataFrame(
        {
            "stay": np.arange(len(patient)),
            "patient": patient,
            "day": rng.integers(0, 60, 300)[patient] + 7 * number,
            "ward": "a",
        }
    )
    real = {
        "patients": pd.DataFrame({"patient": np.arange(300), "sex": "f"}),
        "stays": stays.sample(frac=1, random_state=0),
        "events": pd.DataFrame({"stay": [0], "number": [1], "code": ["u"]}),
    }
    with_gap().save(tmp_path / "s.json")
    linked = LinkedSchema.load(tmp_path / "s.json")
    assert linked.keys["stays"].gaps == ("day",) and linked.fingerprint() != schema().fingerprint()
    few = {**vars(TINY), "components": 60, "steps": 150}
    model = LinkedMargNet(linked, epsilon=20.0, config=type(TINY)(**few)).fit(real)
    model.save(tmp_path / "m")
    for fitted in (model, load(tmp_path / "m")):
        made = fitted.sample(300, random_state=1)["stays"]
        assert list(made) == ["stay", "patient", "day", "ward"] and made["day"].dtype == "int64"
        gaps = made.groupby("patient")["day"].diff().dropna()
        assert len(gaps) > 200 and (gaps == 7).mean() > 0.9


@pytest.mark.parametrize(
    ("keys", "says"),
    [
        ({"gaps": ["ward"]}, "neither the column of the order nor increasing"),
        ({"gaps": ["ward"], "increasing": ["ward"]}, "not one of numbers, dates or times"),
        ({"gaps": "day"}, "Expected gaps of keys to be a list of columns"),
        ({"gaps": ["number"], "order": "number"}, "neither the column of the order nor"),
    ],
)
def test_gaps_that_cannot_be_are_refused(keys, says):
    plain = schema()
    given_keys = {name: dict(of.to_dict()) for name, of in plain.keys.items()}
    given_keys["stays"] |= keys
    with pytest.raises(InputError, match=says) as refused:
        LinkedSchema(plain.tables, given_keys)
    assert "\n" not in str(refused.value)
    with pytest.raises(InputError, match="need the parent"):
        LinkedSchema(plain.tables, {**given_keys, "patients": {"key": "patient", "gaps": ["x"]}})


def test_a_column_with_gaps_has_no_reasons_for_missing_values():
    table = Schema([Numeric(name="t", dtype="int64", low=0, high=99, missing={"-9": "unknown"})])
    keys = {
        "people": {"key": "p"},
        "stays": {"parent": "people", "parent_key": "p", "max_children": 3, "order": "t", "gaps": ["t"]},
    }  # fmt: skip
    people = Schema([Numeric(name="age", dtype="int64", low=0, high=99)])
    with pytest.raises(InputError, match=r"gaps names column 't', which has reasons for missing"):
        LinkedSchema({"people": people, "stays": table}, keys)


def test_a_column_with_gaps_in_a_rule_is_refused():
    out = Numeric(name="out", dtype="int64", low=0, high=200, bins=10, resolution=1)
    ward = Ordinal(name="ward", dtype="str", categories=("a", "b", "c"))
    ruled = Schema([DAY, out, ward], constraints=[{"order": ["day", "out"]}])
    with pytest.raises(InputError, match="has gaps and is in the rule"):
        LinkedSchema({**with_gap().tables, "stays": ruled}, with_gap().keys)
