"""Linked schemas: which trees of tables are taken, and their files."""

import json

import pytest
from linked_tables import EVENTS, PATIENTS, STAYS, schema

from tabsynth import InputError, LinkedSchema, Schema
from tabsynth.errors import FileFormatError
from tabsynth.schema import TableKeys

ROOT = {"key": "patient"}
CHILD = {"key": "stay", "parent": "patients", "parent_key": "patient", "max_children": 3}


def linked(**keys):
    tables = {"patients": PATIENTS, "stays": STAYS, "events": EVENTS}
    return LinkedSchema({name: tables[name] for name in keys}, keys)


def test_parents_come_first_and_the_file_says_it_all(tmp_path):
    given = LinkedSchema({"stays": STAYS, "patients": PATIENTS}, {"stays": CHILD, "patients": ROOT})
    assert given.names == ("patients", "stays") and given.root == given.names[0]
    assert given.keys["stays"] == TableKeys(**CHILD)
    given.save(tmp_path / "linked.json")
    again = LinkedSchema.load(tmp_path / "linked.json")
    assert again.to_dict() == given.to_dict() and again.fingerprint() == given.fingerprint()


def test_a_bound_is_a_fact_of_the_schema():
    assert schema(stays=3).fingerprint() != schema(stays=4).fingerprint()


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"patients": ROOT, "stays": {**CHILD, "parent": "wards"}}, "has parent 'wards', which is no table"),
        ({"patients": {**CHILD, "parent": "stays"}, "stays": CHILD}, "form a cycle: each has a parent"),
        ({"patients": ROOT, "stays": {**CHILD, "parent": "events"}, "events": {**CHILD, "parent": "stays"}},
         "stays, events form a cycle that does not lead to patients"),
        ({"patients": ROOT, "stays": {"key": "stay"}}, "patients, stays have no parent"),
        ({"patients": {}, "stays": CHILD}, "'patients' has children and no key"),
        ({"patients": ROOT, "stays": {**CHILD, "max_children": None}}, "need max_children"),
        ({"patients": ROOT, "stays": {**CHILD, "max_children": 0}}, "Expected max_children to be"),
        ({"patients": ROOT, "stays": {**CHILD, "key": "ward"}}, "'ward' is a key and among the columns"),
        ({"patients": ROOT, "stays": {**CHILD, "key": "patient"}}, "is key and parent_key"),
        ({"patients": {"key": "sex"}, "stays": CHILD}, "'sex' is a key and among the columns"),
        ({"patients": ROOT, "stays": {**CHILD, "first": 1}}, "Expected the keys of stays"),
        ({"patients": {**ROOT, "order": "sex"}, "stays": CHILD}, "Keys with order need the parent"),
        ({"patients": ROOT, "stays": {**CHILD, "max_children": 1000},
          "events": {"parent": "stays", "parent_key": "stay", "max_children": 1000}}, "at most 65,536"),
    ],
)  # fmt: skip
def test_what_is_no_tree_is_refused_in_one_line(keys, message):
    with pytest.raises(InputError, match=message) as caught:
        linked(**keys)
    assert "\n" not in str(caught.value)


def test_an_order_without_an_order_is_refused():
    tables = {"patients": PATIENTS, "events": EVENTS}
    keys = {"parent": "patients", "parent_key": "patient", "max_children": 2, "order": "code"}
    with pytest.raises(InputError, match="not a learned column with an order"):
        LinkedSchema(tables, {"patients": ROOT, "events": keys})


def test_rows_that_others_refer_to_are_not_left_out():
    dropping = Schema(PATIENTS.columns, violations="drop")
    with pytest.raises(InputError, match="would leave out rows that others refer to"):
        LinkedSchema({"patients": dropping, "stays": STAYS}, {"patients": ROOT, "stays": CHILD})


@pytest.mark.parametrize("damage", ["format", "tables", "keys"])
def test_damaged_files_are_refused(tmp_path, damage):
    data = json.loads(schema().to_json())
    if damage == "keys":
        del data["tables"]["stays"]["keys"]
    else:
        data[damage] = "other"
    (tmp_path / "linked.json").write_text(json.dumps(data))
    with pytest.raises(FileFormatError, match=r"linked\.json"):
        LinkedSchema.load(tmp_path / "linked.json")
