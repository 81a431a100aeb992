"""Linked schemas that are drafted from tables: keys by the names of columns, drafts for review, and private drafts."""

import math

import numpy as np
import pandas as pd
import pytest

from tabsynth import InputError, LinkedMargNet, LinkedSchema
from tabsynth.drafting import draft_schema, linked
from tabsynth.drafting.linked import draft_linked, linked_keys
from tabsynth.errors import BudgetError
from tabsynth.privacy.accounting.accountants import gaussian_epsilon, gaussian_mu
from tabsynth.privacy.certificate.completeness import find_missing_mechanisms
from tabsynth.privacy.ledger.project import ProjectLedger
from tests.linked_tables import TINY

pytestmark = pytest.mark.filterwarnings("ignore")


def tables(people=400, seed=0):
    rng = np.random.default_rng(seed)
    person = pd.DataFrame(
        {"person_id": 500 + rng.permutation(people), "sex": rng.choice(["f", "m"], people)}
    )
    visits = person.loc[person.index.repeat(rng.integers(0, 5, people)), ["person_id"]].reset_index(
        drop=True
    )
    visits.insert(0, "visit_id", rng.permutation(len(visits)))
    visits["ward"] = rng.choice(["a", "b", "c"], len(visits))
    codes = visits.loc[
        visits.index.repeat(rng.integers(0, 4, len(visits))), ["visit_id", "person_id"]
    ]
    codes = codes.reset_index(drop=True).assign(code=lambda t: rng.choice(["u", "v", "w"], len(t)))
    return {"codes": codes, "persons": person, "visits": visits}


def test_a_second_fit_charges_the_draft_once():
    """It is the release that the first fit has charged."""
    model = LinkedMargNet(draft_linked(tables(), 2.0, random_state=1), epsilon=4.0, config=TINY)
    purposes = []
    for epsilon in (4.0, 9.0):
        model.epsilon = epsilon
        mechanisms = model.fit(tables()).certificate()["mechanisms"]
        purposes.append([m["purpose"] for m in mechanisms if m["purpose"].startswith("schema")])
    assert purposes[0] == purposes[1] != []


def test_keys_follow_from_names():
    found = linked_keys(
        {
            "codes": ["code_id", "visit_id", "person_id", "code"],
            "Visits": ["Visit_ID", "person_id", "ward"],
            "people_of_trial": ["id", "sex"],
            "persons": ["person_id", "people_of_trial_id"],
        }
    )
    assert found["people_of_trial"].to_dict() == {"key": "id"}
    assert found["persons"].to_dict() == {
        "key": "person_id", "parent": "people_of_trial", "parent_key": "people_of_trial_id", "max_children": 20,
    }  # fmt: skip
    assert found["Visits"].parent == "persons" and found["Visits"].key == "Visit_ID"
    codes = found["codes"]
    assert (codes.parent, codes.parent_key, codes.inherited) == (
        "Visits",
        "visit_id",
        ("person_id",),
    )


def test_keys_that_are_declared():
    columns = {
        "patients": ["subject", "sex"],
        "stays": ["hadm", "subject"],
        "labs": ["hadm", "subject", "value"],
    }
    with pytest.raises(
        InputError, match="the root; tables patients, stays, labs refer to no other"
    ):
        linked_keys(columns)
    keys = {"patients": "subject", "stays": "hadm"}
    found = linked_keys(columns, keys, max_children={"labs": 7})
    assert found["labs"].to_dict() == {
        "parent": "stays", "parent_key": "hadm", "max_children": 7, "inherited": ["subject"],
    }  # fmt: skip
    assert linked_keys(columns, keys, {"labs": "patients"})["labs"].parent == "patients"


@pytest.mark.parametrize(
    ("columns", "declared", "says"),
    [
        ({"a": ["a_id"], "b": ["b_id", "a_id"], "c": ["c_id", "a_id"], "d": ["b_id", "c_id"]}, {},
         "no clear parent: 'd' refers to b, c. Name the parent"),
        ({"a": ["a_id", "b_id"], "b": ["b_id", "a_id"]}, {}, "all refer to each other"),
        ({"a": ["a_id"], "b": ["b_id", "a_id"]}, {"keys": {"x": "a_id"}}, "keys names table 'x'; the tables are a, b"),
        ({"a": ["a_id"], "b": ["b_id", "a_id"]}, {"keys": {"a": "k"}}, "Table 'a' has no column 'k'"),
        ({"a": ["a_id"], "b": ["b_id", "a_id"]}, {"parents": {"a": "b"}}, "'a' has no column with the key of 'b'"),
    ],
)  # fmt: skip
def test_names_that_leave_it_open_are_refused(columns, declared, says):
    with pytest.raises(InputError, match=says):
        linked_keys(columns, **declared)


def test_a_draft_for_review_is_that_of_each_table_without_its_keys():
    given = tables()
    drafted = draft_linked(given)
    assert drafted.names == ("persons", "visits", "codes") and drafted.drafted
    for name, keys in (("persons", ["person_id"]), ("visits", ["visit_id", "person_id"])):
        alone = draft_schema(given[name].drop(columns=keys))
        assert drafted.tables[name].to_dict() == alone.to_dict()


def test_a_private_draft_is_charged_as_a_whole(tmp_path):
    drafted = draft_linked(tables(), 2.0, random_state=1)
    listed = drafted.released["mechanisms"]
    assert len({m["purpose"] for m in listed}) < len(listed)  # each table has its own
    spent = sum(m["noise_multiplier"] ** -2 * m["count"] for m in listed)
    assert {m["details"]["composition"] for m in listed} == {"gaussian"}
    whole = gaussian_mu(2.0, 0.9e-5)
    assert 0.5 * whole**2 < spent <= whole**2 * (1 + 1e-9)
    thresholds = sum(m.get("threshold_delta", 0.0) * m["count"] for m in listed)
    assert 0 < thresholds <= 1e-6 * (1 + 1e-9)
    assert all(t.released["mechanisms"] == listed for t in drafted.tables.values())
    drafted.save(tmp_path / "linked.json")
    drafted = LinkedSchema.load(tmp_path / "linked.json")
    model = LinkedMargNet(drafted, epsilon=3.0, config=TINY, random_state=1).fit(tables())
    certificate = model.certificate()
    assert certificate["epsilon"] <= 3.0 and not find_missing_mechanisms(certificate)
    of_drafts = [m for m in certificate["mechanisms"] if m["purpose"].startswith("schema: ")]
    certificate["mechanisms"] = [m for m in certificate["mechanisms"] if m not in of_drafts]
    assert find_missing_mechanisms(certificate)
    with pytest.raises(BudgetError):
        LinkedMargNet(drafted, epsilon=1.0, config=TINY, random_state=1).fit(tables())


def test_a_project_ledger_has_the_whole_draft(tmp_path):
    path = tmp_path / "ledger"
    ProjectLedger.create(path, epsilon=5.0, unit="person_id")
    drafted = draft_linked(tables(), 2.0, ledger=path)
    left = gaussian_mu(5.0, 0.9e-5) ** 2 - gaussian_mu(2.0, 0.9e-5) ** 2
    expected = gaussian_epsilon(left**0.5, 0.9e-5)
    with ProjectLedger(path) as project:
        assert project.epsilon_left() == pytest.approx(expected, rel=0.1)
    LinkedMargNet(drafted, epsilon=3.0, config=TINY).fit(tables(), ledger=path)


def test_rows_are_of_the_unit_of_their_root(monkeypatch):
    """The draft of each table is one of units, of which at most as many rows are used as bounds allow."""
    given, seen = tables(), []
    draft_on_ledger = linked.draft_on_ledger

    def note(table, mu, *more, design):
        seen.append((table, mu, design))
        return draft_on_ledger(table, mu, *more, design=design)

    monkeypatch.setattr(linked, "draft_on_ledger", note)
    draft_linked(given, 2.0, random_state=1, max_children={"visits": 4, "codes": 3})
    for (table, mu, design), name, rows in zip(
        seen, ("persons", "visits", "codes"), (1, 4, 12), strict=True
    ):
        assert (design.unit, design.rows) == ("person_id", rows)
        assert mu == pytest.approx(gaussian_mu(2.0, 0.9e-5) / 3**0.5)
        assert (table["person_id"] == given[name]["person_id"].astype(str)).all()
        assert not {"visit_id"} & {*table}


def test_keys_that_are_unsound_are_refused_before_anything_is_charged(tmp_path):
    path = tmp_path / "ledger"
    ProjectLedger.create(path, epsilon=5.0, unit="person_id")
    given = tables()
    given["visits"].loc[0, "person_id"] = 1
    with pytest.raises(InputError, match="person_id='1', which is no key of table 'persons'"):
        draft_linked(given, 2.0, ledger=path)
    with ProjectLedger(path) as project:
        assert project.epsilon_left() == pytest.approx(5.0)
    with pytest.raises(InputError, match="epsilon"):
        draft_linked(tables(), -1.0)
    assert math.isfinite(draft_linked(tables(), 2.0).keys["codes"].max_children)
