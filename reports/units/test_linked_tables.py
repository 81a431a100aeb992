"""Households and visits are rebuilt by a public rule, and the rule finds the households of made-up files."""

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

HERE = Path(__file__).parent


def load(name):
    spec = importlib.util.spec_from_file_location(f"units_{name}", HERE / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


linked_tables = load("linked_tables")
EXCERPTS = ("census_national_2018.csv", "census_national_2019.csv")


def test_households_of_a_made_up_file():
    """Children are listed last; two households share everything but the poverty ratio of their members."""
    rng = np.random.default_rng(0)
    people, truth = [], []
    for number in range(300):
        adults, children = int(rng.integers(1, 4)), int(rng.integers(0, 3))
        size = adults + children
        shared = {
            "PUMA": "one" if number < 150 else "two",
            "WGTP": int(rng.integers(1, 30)),
            "NPF": size if size > 1 else None,
            "NOC": children,
            "OWN_RENT": int(rng.integers(1, 3)),
            "POVPIP": int(rng.integers(0, 501)),
            "HOUSING_TYPE": 1,
        }
        for member in range(size):
            people.append({**shared, "AGEP": 40 if member < adults else 7})
            truth.append(number)
    people.append({**shared, "AGEP": 30, "HOUSING_TYPE": 2, "WGTP": 0})
    truth.append(-1)
    order = np.argsort([row["AGEP"] < 15 for row in people], kind="stable")
    found = linked_tables.household_numbers(pd.DataFrame([people[i] for i in order]))
    groups = pd.crosstab(np.array(truth)[order], found)
    assert found[np.array(truth)[order] == -1].tolist() == [-1]
    # Neighbours in the list that share everything cannot be told apart; there are few.
    assert (groups > 0).sum(axis=1).max() == 1
    assert ((groups > 0).sum(axis=0) > 1).sum() <= 2


@pytest.mark.data(*EXCERPTS, "diabetes_hospital_5000.csv")
@pytest.mark.parametrize("name", list(linked_tables.TABLES))
def test_tables_are_linked(name):
    made = linked_tables.TABLES[name]()
    for part in (made.train, made.holdout):
        for table, keys in made.schema.keys.items():
            if keys.parent is None:
                continue
            parents = part[keys.parent][keys.parent_key]
            assert parents.is_unique
            assert part[table][keys.parent_key].isin(parents).all()
            by_parent = part[table].groupby(keys.parent_key)[keys.order]
            assert (by_parent.diff().dropna() > 0).all()
            assert (by_parent.size() > keys.max_children).mean() < 0.005
    root = made.schema.root
    roots = [set(part[root][made.schema.keys[root].key]) for part in (made.train, made.holdout)]
    assert not roots[0] & roots[1]


@pytest.mark.data(EXCERPTS[1])
def test_families_are_complete():
    """NPF, which the rule does not use where what members share is enough, is the number of members of a family."""
    made = linked_tables.households(2019)
    sizes = made["persons"].groupby("household").size()
    roots = made["households"].set_index("household")
    known = roots[~roots["NPF"].isin(["none", "8 or more"])]
    missing = known["NPF"].astype(int) - sizes[known.index]
    assert (missing > 0).mean() < 0.001  # non-relatives may be more than the family
    assert (missing == 0).mean() > 0.93
    partners = made["persons"]
    married = partners[partners["MSP"] == "married, spouse present"].groupby("household").size()
    assert (married % 2 == 0).mean() > 0.95
    assert (made["persons"].groupby("household")["AGEP"].max() >= 15).all()


@pytest.mark.parametrize(
    ("code", "chapter"),
    [
        ("250.83", "diabetes"), ("251", "endocrine"), ("8", "infections"), ("428", "circulatory"), ("E909", "external causes"),
        ("V27", "other contacts"), ("?", "unknown"), ("786", "symptoms"), ("998", "injury"),
    ],
)  # fmt: skip
def test_chapters(code, chapter):
    assert linked_tables.chapter(code) == chapter
