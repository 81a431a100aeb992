"""`evaluate` on tables with keys: what is counted, what is refused, and attacks on whole roots."""

import json
import math

import numpy as np
import pytest
from linked_levels import SCHEMA, THREE, drawn, evaluated, frames

from tabsynth import InputError
from tabsynth.evaluation.attacks.roots import root_membership

REAL, OTHER, HOLDOUT = frames(0), frames(1), frames(2)


def measured(synthetic, real=REAL, holdout=HOLDOUT, **options):
    options = {"schema": SCHEMA, "tables": False, "m": 40, **options}
    return evaluated(real, synthetic, holdout, **options)


def changed(frames, table, **columns):
    return {**frames, table: frames[table].assign(**columns)}


def test_figures_of_real_tables_in_the_place_of_synthetic_ones():
    result = measured(OTHER)
    keys = [metric.key for metric in result.metrics]
    assert len(keys) == len(set(keys))
    assert {"people.orphans", "homes.duplicate_keys", "homes.presence"} <= set(keys)
    for key in ("sibling_pairs", "sibling_differences", "transitions", "position"):
        metric = result[f"people.{key}"]
        assert metric.value < metric.baseline.value, key
        assert metric.better == "lower" and not metric.below_baseline
    assert result["homes.presence"].low < 0.5 < result["homes.presence"].high
    assert result.rows["people"]["synthetic"] == len(OTHER["people"])
    assert result.left_out == {"homes": 0, "people": 0}
    json.dumps(result.to_dict(), allow_nan=False)
    again = measured(OTHER)
    assert [m.value for m in again.metrics] == [m.value for m in result.metrics]


def test_the_order_of_rows_and_the_names_of_keys_mean_nothing():
    """Attacks draw people by their place in the tables, and are not compared."""
    rng = np.random.default_rng(0)
    names = {key: i for i, key in enumerate(rng.permutation(OTHER["homes"]["home"]))}
    other = {
        name: table.assign(home=table["home"].map(names)).iloc[rng.permutation(len(table))]
        for name, table in OTHER.items()
    }
    before, after = measured(OTHER), measured(other)
    for metric in before.metrics:
        if metric.kind == "utility" and metric.key != "people.unordered":
            assert after[metric.key].value == pytest.approx(metric.value, abs=1e-12), metric.key
    assert before["people.unordered"].value == 0 < after["people.unordered"].value


def test_orphans_repeated_keys_and_undeclared_values_are_counted_and_left_out():
    homes, people = OTHER["homes"].copy(), OTHER["people"].copy()
    homes.loc[1, "home"] = homes.loc[0, "home"]  # so the people of home 1 have no parent
    people.loc[len(people) - 1, "sex"] = "x"
    lost = int((OTHER["people"]["home"] == OTHER["homes"]["home"][1]).sum())
    result = measured({"homes": homes, "people": people})
    assert result["homes.duplicate_keys"].value == 1 / len(homes)
    assert result["people.orphans"].value == pytest.approx(lost / len(people))
    assert result.left_out == {"homes": 1, "people": lost + 1}
    nothing = measured(OTHER)
    for key in ("homes.duplicate_keys", "people.orphans", "people.unordered"):
        assert nothing[key].value == 0 == nothing[key].holdout.value
        assert nothing[key].baseline is None


def test_parents_without_children_and_tables_without_rows():
    alone = {**OTHER, "people": OTHER["people"].iloc[:0]}
    result = measured(alone)
    sizes = REAL["people"].groupby("home").size()
    assert result["people.group_size"].value == pytest.approx((sizes > 0).mean())
    assert result["people.between_levels"].value == 1
    for key in ("people.orphans", "people.unordered"):
        assert result[key].value == 0
    assert result.tables == {}


@pytest.mark.parametrize(
    ("real", "says"),
    [
        ({"homes": REAL["homes"]}, "Table 'people' of the real tables is missing"),
        ({**REAL, "dogs": REAL["people"]}, "Table 'dogs' of the real tables is not in the schema"),
        (REAL["homes"], "Expected the real tables to be a dict of tables"),
        ({**REAL, "people": REAL["people"].drop(columns="home")}, "has no key column 'home'"),
        (changed(REAL, "people", home="nowhere"), "home='nowhere' has no row of homes"),
        (changed(REAL, "people", home=None), "has no row of homes"),
        (changed(REAL, "homes", home="one"), "the key home='one' is null or repeated"),
        (changed(REAL, "people", sex="x"), "table people of the real tables"),
        ({**REAL, "homes": REAL["homes"].iloc[:0], "people": REAL["people"].iloc[:0]}, "has no rows"),
    ],
)  # fmt: skip
def test_real_tables_that_are_refused(real, says):
    with pytest.raises(InputError, match=says) as caught:
        measured(OTHER, real=real)
    assert "\n" not in str(caught.value)


def test_other_arguments_that_are_refused():
    with pytest.raises(InputError, match="Expected schema to be a LinkedSchema"):
        measured(OTHER, schema=SCHEMA.tables["homes"])
    with pytest.raises(InputError, match="hold the rows of the real tables"):
        measured(OTHER, holdout=REAL)
    with pytest.raises(InputError, match="hold the rows of the synthetic tables"):
        measured(HOLDOUT)
    with pytest.raises(InputError, match="hold-out tables has no rows"):
        measured(OTHER, holdout={name: table.iloc[:0] for name, table in REAL.items()})
    with pytest.raises(InputError, match="without sampled_from"):
        measured(OTHER, sampled_from={"train": 9})


@pytest.mark.slow
def test_each_table_by_itself():
    stages = []
    result = measured(OTHER, tables=True, progress=lambda stage, share: stages.append(stage))
    assert list(result.tables) == ["homes", "people"]
    assert result.tables["people"].rows["synthetic"] == len(OTHER["people"])
    assert {"groups of people", "attacks on units"} <= set(stages)
    alone = {**OTHER, "people": OTHER["people"].iloc[:0]}
    assert list(measured(alone, tables=True).tables) == ["homes"]


def test_a_copy_of_some_households_is_found_and_fresh_ones_are_not():
    """Each person of a copied household is common; only the household as a whole is not."""
    rng = np.random.default_rng(0)
    train, holdout = drawn(rng, 300, THREE), drawn(rng, 300, THREE)
    fresh = drawn(rng, 300, THREE)
    for synthetic, found in ((train, True), (fresh, False)):
        metrics = {
            m.key: m
            for m in root_membership(
                train, synthetic, holdout, THREE, np.random.default_rng(1), m=100
            )
        }
        presence = metrics["homes.presence"]
        assert presence.beats_guessing() == found, presence.synthetic
        assert not math.isnan(presence.holdout.value) and abs(presence.holdout.value - 0.5) < 0.15
        assert "with their other records" in presence.title
    assert root_membership(train, fresh, None, THREE, rng) == []
