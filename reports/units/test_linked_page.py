"""The page of linked tables is what its results make, and flattening loses no row that has a slot."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tabsynth import Categorical, LinkedSchema, Schema
from tabsynth.schema import TableKeys

HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def linked(modules_of):
    with modules_of("units") as modules:
        yield modules["linked"]


def test_page_is_what_the_results_make(linked):
    results = json.loads(linked.RESULTS.read_text())
    assert linked.page(results) == linked.PAGE.read_text()


def test_all_synthetic_keys_match(linked):
    results = json.loads(linked.RESULTS.read_text())
    found = {
        (key, metric): values[0]
        for key, row in results.items()
        for metric, values in row.get("metrics", {}).items()
        if metric.split(".")[-1] in ("orphans", "duplicate_keys")
    }
    assert found and set(found.values()) == {0.0}


def test_a_page_of_half_of_the_results(linked):
    """Rows that were stopped, and methods without a row, are an en dash; targets take what there is."""
    results = json.loads(linked.RESULTS.read_text())
    some = {key: row for key, row in results.items() if key.endswith("-0") and "aim" not in key}
    some["visits-flat-aim-0"] = {"stopped": "ended by -24", "code": "0"}
    page = linked.page(some)
    assert "Stopped: ended by -24" in page and "half of flattened AIM" not in page
    assert "| visits.group_size |" in page


def test_flattened_tables_come_back(linked):
    rng = np.random.default_rng(0)
    schema = LinkedSchema(
        {
            "homes": Schema([Categorical(name="town", dtype="str", categories=("a", "b"))]),
            "people": Schema([Categorical(name="sex", dtype="str", categories=("f", "m"))]),
        },
        {
            "homes": TableKeys(key="home"),
            "people": TableKeys(parent="homes", parent_key="home", order="number", max_children=3),
        },
    )
    sizes = rng.integers(0, 5, 50)
    home = np.repeat(np.arange(1, 51), sizes)
    number = np.concatenate([np.arange(1, n + 1) for n in sizes])
    tables = {
        "homes": pd.DataFrame({"home": np.arange(1, 51), "town": rng.choice(["a", "b"], 50)}),
        "people": pd.DataFrame(
            {"home": home, "number": number, "sex": rng.choice(["f", "m"], len(home))}
        ),
    }
    wide, columns = linked.flattened(schema, tables)
    assert wide.codes.shape == (50, 5)  # town, number of people, three slots
    back = linked.unflattened(schema, wide, columns, wide.codes, 0)
    kept = tables["people"][tables["people"]["number"] <= 3]
    for name, table in (("homes", tables["homes"]), ("people", kept)):
        names = sorted(table)
        pd.testing.assert_frame_equal(
            back[name][names], table[names].reset_index(drop=True), check_dtype=False
        )


def test_distances_of_ages(linked):
    persons = pd.DataFrame(
        {
            "household": [1, 1, 1, 2, 2, 3],
            "person": [1, 2, 3, 1, 2, 1],
            "AGEP": [40, 43, 10, 50, 17, 60],
            "MSP": ["married, spouse present"] * 2 + ["under 15", "widowed", "never married", "married, spouse present"],
        }
    )  # fmt: skip
    found = linked.ages({"persons": persons})
    assert found["partners"].tolist() == [3] and found["parent and child"].tolist() == [30, 33]
    assert linked.apart(np.array([1, 2, 3, 4]), np.array([3, 4, 5, 6])) == 0.5
    assert linked.apart(np.array([1]), np.array([])) == 1
