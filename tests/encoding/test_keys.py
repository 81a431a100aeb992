"""Keys of linked tables: several columns that are one key, and rows without a parent."""

import numpy as np
import pandas as pd
import pytest

from tabsynth import (
    Categorical,
    InputError,
    LinkedMargNet,
    LinkedSchema,
    Numeric,
    Schema,
    evaluate,
    load,
)
from tabsynth.encoding.keys import plain_tables, split_keys
from tabsynth.encoding.linked import LinkedEncoder
from tabsynth.evaluation import EvaluationConfig
from tests.linked_tables import TINY, without
from tests.linked_tables import schema as schema_of_one_column
from tests.linked_tables import tables as tables_of_one_column

TABLES = {
    "people": Schema([Categorical(name="sex", dtype="str", categories=("f", "m"))]),
    "stays": Schema([Numeric(name="days", dtype="int64", low=0, high=9)]),
    "events": Schema([Categorical(name="code", dtype="str", categories=("u", "v"))]),
}


def schema(orphans="refuse", **changed):
    """Persons of several hospitals, their numbered stays, and events of a stay."""
    keys = {
        "people": {"key": ["clinic", "person"]},
        "stays": {
            "key": ["clinic", "person", "number"], "parent": "people", "parent_key": ["clinic", "person"],
            "order": "number", "max_children": 4, "orphans": orphans,
        },
        "events": {
            "parent": "stays", "parent_key": ["clinic", "patient", "stay"], "max_children": 3, "orphans": orphans,
        },
    }  # fmt: skip
    for name, facts in changed.items():
        keys[name] = keys[name] | facts
    return LinkedSchema(TABLES, keys)


def tables(seed=0, people=40):
    """The same tables as those of one key column, with keys of several columns in their place."""
    rng = np.random.default_rng(seed)
    person = pd.DataFrame(
        {"clinic": rng.choice(["a", "b"], people), "person": rng.permutation(people)}
    )
    person["sex"] = rng.choice(["f", "m"], people)
    stays = person.loc[person.index.repeat(rng.integers(0, 6, people)), ["clinic", "person"]]
    stays = stays.reset_index(drop=True)
    stays["number"] = stays.groupby(["clinic", "person"]).cumcount() + 1
    stays["days"] = rng.integers(0, 10, len(stays))
    events = stays.loc[
        stays.index.repeat(rng.integers(0, 5, len(stays))), ["clinic", "person", "number"]
    ]
    events = events.reset_index(drop=True).set_axis(["clinic", "patient", "stay"], axis=1)
    events["code"] = rng.choice(["u", "v"], len(events))
    return {"people": person, "stays": stays, "events": events}


def of_numbers(given):
    """The same tables and schema with whole numbers as keys, made by merges."""
    people = given["people"].assign(key=range(len(given["people"])))
    stays = (
        given["stays"]
        .merge(people[["clinic", "person", "key"]], how="left")
        .rename(columns={"key": "above"})
    )
    stays["key"] = range(len(stays))
    renamed = stays[["clinic", "person", "number", "key"]].set_axis(
        ["clinic", "patient", "stay", "above"], axis=1
    )
    events = given["events"].merge(renamed, how="left")
    one = LinkedSchema(
        TABLES,
        {
            "people": {"key": "key"},
            "stays": {"key": "key", "parent": "people", "parent_key": "above", "order": "number", "max_children": 4},
            "events": {"parent": "stays", "parent_key": "above", "max_children": 3},
        },
    )  # fmt: skip
    return one, {
        "people": people[["key", "sex"]],
        "stays": stays[["key", "above", "number", "days"]],
        "events": events[["above", "code"]],
    }


def test_rows_are_linked_as_by_numbers():
    given = tables()
    several = LinkedEncoder(schema().plain).to_tables(plain_tables(schema(), given))
    one, numbered = of_numbers(given)
    single = LinkedEncoder(one).to_tables(numbered)
    for name in TABLES:
        for fact in ("codes", "parent", "position"):
            assert (getattr(several[name], fact) == getattr(single[name], fact)).all()


def test_parts_with_commas_are_different_keys():
    given = tables(people=3)
    given["people"]["clinic"], given["people"]["person"] = (
        ["a, b", "a", "a\\"],
        ["c", "b, c", ", c"],
    )
    given["stays"], given["events"] = given["stays"][:0], given["events"][:0]
    joined = plain_tables(schema(), given)["people"]["clinic, person"]
    assert joined.nunique() == 3


def test_synthetic_keys_are_unique_and_those_of_parents():
    rng = np.random.default_rng(2)
    encoder = LinkedEncoder(schema().plain)
    coded = encoder.to_tables(plain_tables(schema(), tables()))
    made = split_keys(schema(), encoder.from_tables(coded, rng))
    assert [*made["people"]] == ["clinic", "person", "sex"]
    assert [*made["stays"]] == ["clinic", "person", "number", "days"]
    assert [*made["events"]] == ["clinic", "patient", "stay", "code"]
    assert not made["people"].duplicated(["clinic", "person"]).any()
    assert not made["stays"].duplicated(["clinic", "person", "number"]).any()
    expected = made["stays"].groupby(["clinic", "person"]).cumcount() + 1
    assert (made["stays"]["number"] == expected).all()
    of = made["events"].merge(
        made["stays"],
        left_on=["clinic", "patient", "stay"],
        right_on=["clinic", "person", "number"],
    )
    assert len(of) == len(made["events"]) > 0
    # The same groups as in the coded tables.
    sizes = made["stays"].groupby(["clinic", "person"]).size()
    assert sorted(sizes) == sorted(
        np.bincount(coded["stays"].parent)[np.unique(coded["stays"].parent)]
    )


def test_fit_sample_evaluate_and_load(tmp_path):
    given = tables()
    model = LinkedMargNet(schema(), epsilon=5.0, random_state=1, config=TINY).fit(given)
    assert model.schema_.unit == "clinic, person"
    made = model.sample(25)
    report = evaluate(given, made, schema=schema(), config=EvaluationConfig(each_table=False))
    keys = (
        "people.duplicate_keys",
        "stays.duplicate_keys",
        "stays.orphans",
        "events.orphans",
        "stays.unordered",
    )
    assert [report.evaluation[key].value for key in keys] == [0] * 5
    model.save(tmp_path / "model")
    again = load(tmp_path / "model")
    assert again.schema_.to_dict() == schema().to_dict()
    for name, table in again.sample(25, random_state=3).items():
        pd.testing.assert_frame_equal(table, model.sample(25, random_state=3)[name])


def with_orphans(given):
    """Tables with rows of persons that are not there, one with a value that is not declared, and events below them."""
    lost = pd.DataFrame(
        {
            "clinic": ["z", None, "a"],
            "person": [900, 901, 902],
            "number": [1, 1, 1],
            "days": [3, 4, 99],
        }
    )
    below = pd.DataFrame(
        {"clinic": ["z", "a"], "patient": [900, 905], "stay": [1, 7], "code": ["u", "x"]}
    )
    return given | {
        "stays": pd.concat([lost, given["stays"]], ignore_index=True),
        "events": pd.concat([given["events"], below], ignore_index=True),
    }  # fmt: skip


def test_orphans_that_are_dropped_change_nothing():
    given = tables()
    dropping = schema("drop")
    whole = plain_tables(dropping, given)
    fewer = plain_tables(dropping, with_orphans(given))
    for name, table in whole.items():
        pd.testing.assert_frame_equal(
            fewer[name].reset_index(drop=True), table.reset_index(drop=True), check_dtype=False
        )


def test_a_unit_that_leaves_takes_its_own_rows_alone_where_orphans_are_dropped():
    linked = schema_of_one_column()
    keys = {
        n: k.to_dict() | ({} if k.parent is None else {"orphans": "drop"})
        for n, k in linked.keys.items()
    }
    dropping = LinkedSchema(linked.tables, keys)
    given = tables_of_one_column()
    extra = pd.DataFrame({"stay": [7, 8], "patient": [5, None], "day": [1, 2], "ward": ["a", "b"]})
    given["stays"] = pd.concat([given["stays"], extra], ignore_index=True)
    for patient in given["patients"]["patient"][:5]:
        fewer = plain_tables(dropping, without(given, patient))
        expected = without(plain_tables(dropping, given), patient)
        for name in linked.names:
            pd.testing.assert_frame_equal(fewer[name], expected[name])


def test_orphans_are_refused_all_together():
    given = with_orphans(tables())
    given["stays"] = given["stays"].dropna()
    with pytest.raises(InputError) as caught:
        LinkedEncoder(schema().plain).to_tables(plain_tables(schema(), given))
    text = " ".join(caught.value.problems)
    assert (
        "Table 'stays' has clinic, person='z, 900', 'a, 902', which are no keys of table 'people'"
        in text
    )
    assert (
        "Table 'events' has clinic, patient, stay='a, 905, 7', which is no key of table 'stays'"
        in text
    )
    many = tables_of_one_column()
    many["stays"]["patient"] = range(5000, 5000 + len(many["stays"]))
    with pytest.raises(
        InputError, match=r"'5009' and \d+ more, which are no keys .* or declare orphans='drop'"
    ):
        LinkedEncoder(schema_of_one_column()).to_tables(many)


def test_a_fit_and_its_plan_leave_orphans_out():
    fitted = LinkedMargNet(schema("drop"), epsilon=5.0, random_state=1, config=TINY)
    assert "rows of stays, events without a row of their parent are left out" in str(fitted.plan())
    fitted.fit(with_orphans(tables()))
    report = evaluate(
        with_orphans(tables()),
        fitted.sample(20),
        schema=schema("drop"),
        config=EvaluationConfig(each_table=False),
    )
    assert report.evaluation["stays.orphans"].value == 0


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"people": {"key": ["clinic", "clinic"]}}, "to be different columns"),
        ({"people": {"key": []}}, "to be different columns"),
        ({"people": {"key": ["clinic", ""]}}, "Expected key of keys to be text"),
        (
            {"stays": {"parent_key": "person"}},
            "has not as many columns as the key 'clinic, person'",
        ),
        ({"stays": {"key": ["person", "clinic"]}}, "is key and parent_key of one table"),
        ({"stays": {"orphans": "keep"}}, "Expected orphans to be one of refuse, drop"),
        ({"people": {"orphans": "drop"}}, "Keys with orphans need the parent"),
        (
            {"events": {"parent_key": ["clinic", "code", "stay"]}},
            "'code' is a key and among the columns",
        ),
    ],
)
def test_declarations_that_cannot_be(changed, says):
    with pytest.raises(InputError, match=says):
        schema(**changed)


def test_a_part_that_may_stand_for_several_keys_is_refused():
    given = tables()
    given["people"]["person"] = given["people"]["person"] + 2.0**53
    with pytest.raises(
        InputError, match=r"Table 'people' has person=.* which may stand for several keys"
    ):
        plain_tables(schema(), given)


def test_the_declarations_survive_a_file(tmp_path):
    schema("drop").save(tmp_path / "linked.json")
    again = LinkedSchema.load(tmp_path / "linked.json")
    assert again.to_dict() == schema("drop").to_dict()
    assert again.fingerprint() != schema().fingerprint()
    assert "orphans" not in schema().keys["stays"].to_dict()
