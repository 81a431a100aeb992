"""Linked tables whose root has survey weights: a root counts as often as its weight says, with its other records."""

import json

import numpy as np
import pandas as pd
import pytest
from command_lines import refused, run
from linked_levels import SCHEMA, TWO, drawn, evaluated, frames

from tabsynth import InputError, LinkedSchema, Schema, evaluate
from tabsynth.evaluation.grouped import independent_children, weights_of_level, with_weight

CAP = 9.0
HOMES = SCHEMA.tables["homes"]
WEIGHTED = LinkedSchema(
    {**SCHEMA.tables, "homes": Schema(HOMES.columns, weight="w", max_weight=CAP)}, SCHEMA.keys
)


def weighted(seed, homes=120, least=0):
    """Houses weigh more than flats, and some homes nothing."""
    tables = frames(seed, homes)
    rng = np.random.default_rng([seed, 1])
    heavy = np.where(tables["homes"]["kind"] == "house", 4, 1)
    return changed(tables, w=np.maximum(least, heavy + rng.integers(-1, 4, homes)))


def changed(tables, **columns):
    return {**tables, "homes": tables["homes"].assign(**columns)}


def without(tables, *columns):
    return {**tables, "homes": tables["homes"].drop(columns=list(columns))}


def repeated(tables):
    """Each home, with its people, as often as its weight says."""
    homes, people = tables["homes"], tables["people"]
    parts = {"homes": [], "people": []}
    for copy in range(int(homes["w"].max())):
        kept = homes[homes["w"] > copy]
        parts["homes"].append(kept.assign(home=kept["home"] + f".{copy}").drop(columns="w"))
        of_them = people[people["home"].isin(kept["home"])]
        parts["people"].append(of_them.assign(home=of_them["home"] + f".{copy}"))
    return {name: pd.concat(part, ignore_index=True) for name, part in parts.items()}


def measured(real, synthetic, holdout=None, schema=WEIGHTED, **options):
    options = {"schema": schema, "tables": False, "m": 20, **options}
    return evaluated(real, synthetic, holdout, **options)


def of_groups(result):
    skipped = ("duplicate_keys", "orphans", "unordered")
    return [m for m in result.metrics if m.kind == "utility" and m.key.split(".")[1] not in skipped]


def test_weights_are_those_of_repeated_roots():
    real, made = weighted(0), weighted(1)
    carried = measured(real, made)
    alike = measured(real, without(made, "w"))
    of_rows = measured(repeated(real), repeated(made), schema=SCHEMA)
    of_real = measured(repeated(real), without(made, "w"), schema=SCHEMA)
    assert {"people.group_size", "people.transitions"} <= {m.key for m in of_groups(carried)}
    for metric in of_groups(carried):
        assert metric.value == pytest.approx(of_rows[metric.key].value, abs=1e-9), metric.key
        assert alike[metric.key].value == pytest.approx(of_real[metric.key].value, abs=1e-9)
    unweighted = measured(without(real, "w"), without(made, "w"), schema=SCHEMA)
    sizes = "people.group_size"
    assert abs(unweighted[sizes].value - alike[sizes].value) > 0.05
    assert alike.weights.population == real["homes"]["w"].sum()
    assert alike.weights.self_weighting and not carried.weights.self_weighting
    json.dumps(carried.to_dict(), allow_nan=False)


def test_the_hold_out_is_weighted_and_attacks_are_not():
    real, made, others = weighted(0), without(weighted(1, 800), "w"), weighted(2)
    result = measured(real, made, others)
    of_rows = measured(repeated(real), made, repeated(others), schema=SCHEMA)
    plain = (changed(real, w=1), made, changed(others, w=1))
    metrics = of_groups(result)
    # Both are corrected to equal numbers of roots, by factors that differ.
    factors = [m.holdout.value / of_rows[m.key].holdout.value for m in metrics]
    assert factors == pytest.approx([factors[0]] * len(metrics)) and 0 < factors[0] < 1
    assert result.weights.effective["holdout"] < 120
    attacked = [measured(*given, m=500) for given in ((real, made, others), plain)]
    numbers = [result["homes.presence"].n for result in attacked]
    assert numbers[0] == numbers[1]  # those that stand for nobody are people, too


def test_independent_children_have_the_weighted_shares():
    rng = np.random.default_rng(0)
    levels = drawn(rng, 4000)
    heavy = np.where(levels["homes"].codes[:, 0] == 2, 10.0, 1.0)
    levels["homes"] = type(levels["homes"])(**{**vars(levels["homes"]), "weights": heavy})
    dealt = independent_children(levels, TWO, rng)

    def shares(some):
        weights = weights_of_level(some, "people")
        return np.bincount(some["people"].codes[:, 0], weights, 6) / weights.sum()

    plain = np.bincount(levels["people"].codes[:, 0], minlength=6) / len(levels["people"])
    assert np.abs(shares(dealt) - shares(levels)).max() < 0.02
    assert np.abs(shares(dealt) - plain).max() > 0.05
    kept = with_weight(levels, TWO)
    assert kept is levels


def test_roots_that_stand_for_nobody_are_left_out():
    real, made = weighted(0), without(weighted(1), "w")
    nobody = real["homes"]["w"] == 0
    assert nobody.sum() > 5
    homes = real["homes"][~nobody]
    people = real["people"][real["people"]["home"].isin(homes["home"])]
    some = measured({"homes": homes, "people": people}, made)
    for metric in of_groups(measured(real, made)):
        assert metric.value == pytest.approx(some[metric.key].value, abs=1e-12)


@pytest.mark.slow
def test_each_table_is_weighted_by_its_roots():
    real, made = weighted(0, least=1), without(weighted(1), "w")
    result = measured(real, made, tables=True)
    sizes = real["people"]["home"].map(real["homes"].set_index("home")["w"])
    people = result.tables["people"]
    assert people.weights.population == sizes.sum()
    rows = real["people"][["age", "sex"]]
    repeat = rows.loc[rows.index.repeat(sizes)].reset_index(drop=True)
    alone = evaluate(repeat, made["people"][["age", "sex"]], schema=SCHEMA.tables["people"])
    assert people["tvd2"].value == pytest.approx(alone.evaluation["tvd2"].value)


def test_weights_that_cannot_be_used_are_refused():
    real, made = weighted(0), weighted(1)
    cases = [
        (changed(real, w=-1), made, {}, "table homes of the real tables has -1 among the weights"),
        (changed(real, w=None), made, {}, "table homes of the real tables has a null"),
        (changed(real, w=0), made, {}, "has only weights of 0"),
        (without(real, "w"), made, {}, r"has no column 'w' \(weights\)"),
        (real, changed(made, w="x"), {}, "table homes of the synthetic tables has 'x' among"),
        (real, changed(made, w=0), {}, "table homes of the synthetic tables has only weights of 0"),
        (real, made, {"weights": [1.0]}, r"weights to be the name of a column, got \[1.0\]"),
    ]
    for one, other, options, says in cases:
        with pytest.raises(InputError, match=says):
            measured(one, other, **options)
    with pytest.raises(InputError, match=r"hold-out tables has no column 'w'"):
        measured(real, made, frames(2, 50))


@pytest.fixture
def folders(tmp_path):
    real = weighted(0, 60)
    for name, tables in (("real", real), ("made", without(weighted(1, 60), "w"))):
        (tmp_path / name).mkdir()
        for table, frame in tables.items():
            frame.to_csv(tmp_path / name / f"{table}.csv", index=False)
    WEIGHTED.save(tmp_path / "linked.json")
    SCHEMA.save(tmp_path / "plain.json")
    return tmp_path


WORDS = ("evaluate", "--real", "real", "--synthetic", "made", "-o", "out", "--schema")


@pytest.mark.slow
def test_the_command_line(folders):
    done = run(*WORDS, "plain.json", "--weight", "w", cwd=folders)
    says = "the survey weights of w, which count for a row of homes and its other records"
    assert says in done.stdout
    found = json.loads((folders / "out" / "metrics.json").read_text())["evaluation"]
    homes = pd.read_csv(folders / "real" / "homes.csv")
    assert found["weights"]["population"] == homes["w"].sum()
    page = (folders / "out" / "table-people.html").read_text()
    assert "homes.w" in page


def test_a_column_of_weights_that_is_missing_is_refused_in_one_line(folders):
    says = "table homes of the real tables has no column 'none'"
    refused(*WORDS, "linked.json", "--weight", "none", cwd=folders, says=says)
