"""Records of linked tables: what one root row adds to any counts, and that other root rows change nothing."""

import itertools
from collections import Counter

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from linked_tables import schema, tables, without

from tabsynth import InputError, LinkedSchema, Ordinal, Schema
from tabsynth.encoding.linked import LinkedEncoder


def records_of(given, **bounds):
    encoder = LinkedEncoder(schema(**bounds))
    return encoder, encoder.to_rows(encoder.to_tables(given))


def counts(rows, columns):
    """Weighted counts of a set of columns, counted row by row."""
    codes, weights = rows.codes, rows.shares
    out = Counter()
    for i, row in enumerate(codes[:, columns]):
        out[tuple(row)] += 1.0 if weights is None else weights[i]
    return out


@settings(max_examples=25)
@given(
    seed=st.integers(0, 10_000),
    stays=st.integers(1, 5),
    events=st.integers(1, 4),
    patient=st.integers(0, 7),
)
def test_one_root_row_with_all_that_hangs_on_it_moves_counts_by_one(seed, stays, events, patient):
    """R2: of every single column and pair, in L1 and so in L2, whatever the bounds; counts only grow."""
    whole = tables(8, seed, most=9)
    encoder, with_it = records_of(whole, stays=stays, events=events)
    _, others = records_of(without(whole, 1000 + patient), stays=stays, events=events)
    for name, records in encoder.records.items():
        width = len(records.columns)
        for size in (1, 2):
            for columns in itertools.combinations(range(width), size):
                one, other = (counts(r[name], list(columns)) for r in (with_it, others))
                moves = [one[cell] - other[cell] for cell in one | other]
                assert min(moves, default=0.0) >= 0
                assert sum(moves) <= 1
        weights = with_it[name].shares
        assert weights is None or (weights * 2**20 % 1 == 0).all()


def test_the_bound_is_reached():
    """A root row with many children has the whole weight, so noise is not scaled to less than it adds."""
    given = tables(1, seed=3, most=0)
    given["stays"] = pd.DataFrame(
        {"stay": range(4), "patient": 1000, "day": range(4), "ward": ["a", "b", "b", "c"]}
    )
    given["events"] = pd.DataFrame({"stay": [0, 0], "number": [1, 2], "code": ["u", "v"]})
    _, rows = records_of(given)
    assert rows["stays"].shares.sum() == pytest.approx(1, abs=1e-5)
    assert rows["events"].shares.tolist() == [1 / 2, 1 / 2]  # first rows are among the records


@settings(max_examples=15)
@given(seed=st.integers(0, 10_000), patient=st.integers(0, 7))
def test_rows_of_others_do_not_change_what_a_root_becomes(seed, patient):
    """R22: which children are used, their order, weights and codes follow from a root's own rows."""
    whole = tables(8, seed, most=9)
    _, with_it = records_of(whole)
    _, others = records_of(without(whole, 1000 + patient))

    def multiset(rows):
        codes, weights = rows.codes, rows.shares
        weights = np.ones(len(codes)) if weights is None else weights
        return Counter((row.tobytes(), w) for row, w in zip(codes, weights, strict=True))

    for name in with_it:
        assert multiset(others[name]) <= multiset(with_it[name])


def test_the_first_children_by_their_order_are_used_and_the_number_says_that_there_are_more():
    given = tables(1, most=0)
    given["stays"] = pd.DataFrame(
        {"stay": range(6), "patient": 1000, "day": [50, 10, 30, 20, 60, 40], "ward": "a"}
    )
    given["events"] = given["events"].iloc[:0]
    encoder = LinkedEncoder(schema(stays=4))
    coded = encoder.to_tables(given)
    days = encoder.encoders["stays"].schema["day"]
    assert (coded["stays"].codes[:, 0] == days.encode(pd.Series([10, 20, 30, 40]))).all()
    column = encoder.columns("patients")[-1]
    assert column.label(coded["patients"].codes[0, -1]).strip("'") == "more"


def test_a_tie_of_the_order_keeps_the_order_of_the_table():
    given = tables(1, most=0)
    given["stays"] = pd.DataFrame(
        {"stay": [7, 8, 9], "patient": 1000, "day": [5, 5, 5], "ward": ["c", "a", "b"]}
    )
    given["events"] = given["events"].iloc[:0]
    coded = LinkedEncoder(schema()).to_tables(given)
    assert coded["stays"].codes[:, 1].tolist() == [2, 0, 1]


def test_numbers_in_texts_are_ordered_as_numbers():
    """As they come from CSV files: 10 is after 9, whatever other rows hold."""
    given = tables(1, most=0)
    given["stays"] = pd.DataFrame({"stay": ["1"], "patient": "1000", "day": [5], "ward": ["a"]})
    given["events"] = pd.DataFrame(
        {"stay": "1", "number": ["10", "9", "x"], "code": ["u", "v", "w"]}
    )
    coded = LinkedEncoder(schema()).to_tables(given)
    assert coded["events"].codes[:, 0].tolist() == [1, 0, 2]


def test_no_key_is_in_a_record():
    """R26: other keys give the same records."""
    one = tables(20)
    other = {name: table.copy() for name, table in one.items()}
    for name, column in (
        ("patients", "patient"),
        ("stays", "patient"),
        ("stays", "stay"),
        ("events", "stay"),
    ):
        other[name][column] = "k" + (other[name][column] * 7919 % 104_729).astype(str)
    _, first = records_of(one)
    _, second = records_of(other)
    for name in first:
        assert (first[name].codes == second[name].codes).all()


@pytest.mark.parametrize(
    ("table", "change", "message"),
    [
        ("stays", lambda t: t.assign(patient=[5, *t["patient"][1:]]), "patient='5', which is no key of table 'patients'"),
        ("patients", lambda t: pd.concat([t, t[:1]]), "has key patient='.*' twice"),
        ("stays", lambda t: t.assign(stay=[None, *t["stay"][1:]]), "has a null in column 'stay' of its keys"),
        ("stays", lambda t: t.assign(patient=t["patient"] + 2.0**53), "may stand for several keys"),
        ("stays", lambda t: t.drop(columns="patient"), "lacks column 'patient' of its keys"),
        ("stays", lambda t: t.assign(ward="z"), "ward"),
    ],
)  # fmt: skip
def test_bad_keys_and_values_are_refused(table, change, message):
    given = tables(12)
    given[table] = change(given[table])
    with pytest.raises(InputError, match=message):
        LinkedEncoder(schema()).to_tables(given)


def test_all_problems_of_all_tables_are_told_together():
    given = tables(12)
    given["patients"] = given["patients"].assign(sex="x")
    given["events"] = given["events"].drop(columns="stay")
    with pytest.raises(
        InputError, match=r"(?s)'events' lacks column 'stay'.*Table 'patients': Column 'sex'"
    ):
        LinkedEncoder(schema()).to_tables(given)


def test_parents_without_children_are_taken():
    given = tables(5, most=0)
    _, rows = records_of(given)
    assert len(rows["patients"].codes) == 5 and len(rows["stays"].codes) == 0


def test_children_stay_with_parents_that_an_order_moves():
    """Stays of one cell are put in the order of their days, and their events, which are ordered too, go with them."""
    events = Schema(
        [
            Ordinal(name="hour", dtype="int64", categories=(1, 2, 3)),
            Ordinal(name="code", dtype="str", categories=("a", "b", "c")),
        ]
    )
    linked = LinkedSchema(
        {**schema().tables, "events": events},
        keys={
            **schema().keys,
            "events": {
                **{"parent": "stays", "parent_key": "stay", "order": "hour"},
                **{"max_children": 3},
            },
        },
    )
    rng = np.random.default_rng(0)
    patients = pd.DataFrame({"patient": range(40), "sex": "f"})
    stays = pd.DataFrame(
        {
            "stay": range(120),
            "patient": np.repeat(range(40), 3),
            "day": 15,
            "ward": list("abc") * 40,
        }
    )
    # A stay on ward a has one event, on b two, on c three, all of the ward's code.
    of = np.repeat(range(120), [1, 2, 3] * 40)
    table = pd.DataFrame({"stay": of, "hour": rng.integers(1, 4, len(of))})
    table["code"] = stays["ward"].to_numpy()[of]
    encoder = LinkedEncoder(linked)
    made = encoder.from_tables(
        encoder.to_tables({"patients": patients, "stays": stays, "events": table}), rng
    )
    assert (made["stays"].groupby("patient")["day"].diff().dropna() >= 0).all()
    assert (made["stays"]["ward"].to_numpy() != stays["ward"].to_numpy()).any()  # some moved
    joined = made["events"].merge(made["stays"], on="stay")
    assert len(joined) == len(of) and (joined["code"] == joined["ward"]).all()
    assert (made["events"].groupby("stay")["hour"].diff().dropna() >= 0).all()


def test_categories_have_their_declared_order():
    """Of texts and of numbers: that of the categories, as the codes of synthetic rows have it."""
    for dtype, categories in (("str", ("late", "early")), ("int64", (3, 1))):
        stays = Schema([Ordinal(name="ward", dtype=dtype, categories=categories)])
        linked = LinkedSchema(
            {"patients": schema().tables["patients"], "stays": stays},
            keys={
                "patients": {"key": "patient"},
                "stays": {
                    **{"parent": "patients", "parent_key": "patient", "order": "ward"},
                    **{"max_children": 2},
                },
            },
        )
        given = {
            "patients": pd.DataFrame({"patient": [1], "sex": ["f"]}),
            "stays": pd.DataFrame(
                {"patient": [1, 1, 1], "ward": [*categories[::-1], categories[1]]}
            ),
        }
        encoder = LinkedEncoder(linked)
        coded = encoder.to_tables(given)
        assert coded["stays"].codes[:, 0].tolist() == [0, 1]  # the first two in order
        made = encoder.from_tables(coded, np.random.default_rng(0))["stays"]
        assert made["ward"].tolist() == list(categories)


def test_a_record_says_how_its_codes_follow_from_those_of_the_previous_child():
    given = tables(1, most=0)
    given["stays"] = pd.DataFrame(
        {
            "stay": range(4),
            "patient": 1000,
            "day": [10, 20, 25, 60],
            "ward": ["a", "a", "c", "a"],
        }
    )
    given["events"] = given["events"].iloc[:0]
    encoder, rows = records_of(given, stays=4)
    records = encoder.records["stays"]
    names = records.names[len(records.context) + len(records.drawn) :]
    steps = rows["stays"].codes[:, -len(names) :]
    assert names == ("step stays: day", "step stays: ward")
    assert steps.tolist() == [
        [3, 2],
        [2, 4],
        [4, 0],
    ]  # ordered columns: 2 is the same, 4 two higher or more
