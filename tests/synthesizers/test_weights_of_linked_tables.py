"""Survey weights of the root of linked tables: the population is estimated, and one root row moves counts by the cap at most."""

import json
import math
from typing import Any

import numpy as np
import pandas as pd
import pytest
from command_lines import refused, run
from record_replay import replay
from record_replay.linked import linked_neighbours

from tabsynth import (
    Categorical,
    InputError,
    LinkedMargNet,
    LinkedSchema,
    Ordinal,
    Schema,
    load,
    verify,
)
from tabsynth.encoding.linked import LinkedEncoder
from tabsynth.encoding.rows import Rows
from tabsynth.privacy.certificate.certificate import beside
from tabsynth.synthesizers import MargNetConfig
from tabsynth.synthesizers.linked import network

CAP = 40.0
HOUSEHOLDS = [Categorical(name="tenure", dtype="str", categories=("own", "rent"))]
PERSONS = [
    Ordinal(name="age", dtype="str", categories=("child", "adult", "old")),
    Categorical(name="sex", dtype="str", categories=("f", "m")),
]
KEYS = {
    "households": {"key": "hid"},
    "persons": {"parent": "households", "parent_key": "hid", "order": "place", "max_children": 4},
}
TINY = MargNetConfig(components=20, latent_dim=5, hidden=(8,), steps=5)


@pytest.fixture(autouse=True, scope="module")
def few_contexts():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(network, "CONTEXTS", 64)
        patch.setattr("tabsynth.synthesizers.linked.generator.GROUPS", 50)
        yield


def linked(root: dict[str, Any] | None = None, child: dict[str, Any] | None = None) -> Any:
    design = {"weight": "w", "max_weight": CAP} if root is None else root
    schemas = {
        "households": Schema(HOUSEHOLDS, **design),
        "persons": Schema(PERSONS, **child or {}),
    }
    return LinkedSchema(schemas, keys=KEYS)


def tables(households: int = 1500, seed: int = 0) -> dict[str, pd.DataFrame]:
    """Owners have larger households and heavier weights."""
    rng = np.random.default_rng(seed)
    tenure = rng.choice(["own", "rent"], households)
    own = tenure == "own"
    size = np.where(own, rng.integers(2, 5, households), rng.integers(1, 3, households))
    weight = np.where(own, rng.uniform(20, 40, households), rng.uniform(2, 10, households))
    of = np.repeat(np.arange(households), size)
    place = np.concatenate([np.arange(s) for s in size])
    second = np.where(place == 1, rng.choice(["adult", "old"], len(of)), "child")
    age = np.where(place == 0, "adult", second)
    root = pd.DataFrame({"hid": np.arange(households), "tenure": tenure, "w": weight.round(1)})
    persons = {"hid": of, "place": place, "age": age, "sex": rng.choice(["f", "m"], len(of))}
    return {"households": root, "persons": pd.DataFrame(persons)}


def model(**given: Any) -> LinkedMargNet:
    return LinkedMargNet(linked(), **{"epsilon": 2.0, "config": TINY, "device": "cpu", **given})


def shares(given: dict[str, pd.DataFrame], weights: pd.Series) -> dict[Any, float]:
    """Weighted shares of tenures and sizes of households, and of ages of persons."""
    root = given["households"].assign(weight=weights.to_numpy())
    size = given["persons"].groupby("hid").size().reindex(root["hid"]).fillna(0).astype(int)
    root["size"] = size.to_numpy()
    persons = given["persons"].merge(root[["hid", "weight"]], on="hid")
    out: dict[Any, float] = {}
    for table, column in ((root, "tenure"), (root, "size"), (persons, "age")):
        sums = table.groupby(column)["weight"].sum()
        out |= {(column, value): share for value, share in (sums / sums.sum()).items()}
    return out


@pytest.mark.slow
def test_samples_are_of_the_population() -> None:
    """Tenures, sizes and the ages of all persons, though only records of the root are counted by weight."""
    given = tables()
    config = MargNetConfig(components=60, latent_dim=8, hidden=(16,), steps=400)
    fitted = model(epsilon=4.0, config=config, random_state=0).fit(given)
    weights = given["households"]["w"]
    assert fitted.population_ == pytest.approx(weights.sum(), rel=0.1)
    assert fitted.rows_ == pytest.approx(len(weights), rel=0.03)
    made = fitted.sample(8_000)
    found = shares(made, pd.Series(np.ones(8_000)))
    of_people, of_rows = shares(given, weights), shares(given, weights * 0 + 1)
    assert max(abs(found.get(key, 0) - share) for key, share in of_people.items()) < 0.06
    assert max(abs(of_rows[key] - share) for key, share in of_people.items()) > 0.25


def test_weights_are_clipped_and_are_those_of_their_rows() -> None:
    given = tables(30)
    given["households"].loc[4, "w"] = 900.0
    encoder = LinkedEncoder(linked())
    rows = encoder.to_rows(encoder.to_tables(given))
    root = rows["households"]
    assert isinstance(root, Rows) and root.weights is not None and root.units is None
    expected = given["households"]["w"].clip(upper=CAP)
    assert np.allclose(root.weights, expected, atol=1e-4) and root.weights.max() == CAP
    assert not isinstance(rows["persons"], Rows)


@pytest.mark.parametrize("kind", ["removed", "alone", "beyond"])
def test_a_root_row_more_or_less_changes_releases_alone(kind: str) -> None:
    """R1: a new root row has twice the largest weight; counts by weight move by the cap."""
    pairs = {p.kind.split()[-1]: p for p in linked_neighbours(tables(25), linked(), seed=1)}
    pair = pairs[kind]
    result = replay(model(epsilon=3.0), pair.table, pair.neighbour, seed=2)
    assert result.passes, result.first_difference
    assert 0.3 < result.worst_move <= 1 + 1e-9


def test_certificates_state_the_weight_and_samples_may_carry_it(tmp_path: Any) -> None:
    fitted = model().fit(tables(80))
    fitted.save(tmp_path / "m")
    again = load(tmp_path / "m")
    assert again.population_ == fitted.population_
    again.sample_to(tmp_path / "out", 50, weights="population")
    root = pd.read_csv(tmp_path / "out" / "households.csv")
    assert list(root) == ["hid", "tenure", "w"]
    assert root["w"].sum() == pytest.approx(fitted.population_) and root["w"].nunique() == 1
    for name in ("households", "persons"):
        assert verify(tmp_path / "out" / f"{name}.csv").consistent
    design = json.loads(beside(tmp_path / "out" / "households.csv").read_text())["public"]["design"]
    assert design == {
        "weight": {"column": "w", "max": CAP},
        "unit": {"column": "hid", "max_rows": 1},
        "largest_contribution": CAP,
        "weights_in_table": True,
    }
    assert "w" not in fitted.sample(20)["households"]
    assert "weighted by 'w', clipped at 40" in str(model().plan())


def test_what_has_no_weight_is_refused() -> None:
    with pytest.raises(InputError, match="'persons' declares weight 'w', which only the root may"):
        linked(child={"weight": "w", "max_weight": 3.0})
    with pytest.raises(InputError, match="declares a unit, which linked tables do not take"):
        linked(root={"unit": "x", "max_rows_per_unit": 3})
    with pytest.raises(InputError, match="'hid' is the weight and among the keys"):
        linked(root={"weight": "hid", "max_weight": 3.0})
    given = tables(40)
    for wrong, message in (
        (given["households"].drop(columns="w"), "lacks column 'w', the weight of the schema"),
        (given["households"].assign(w=-1.0), "has weight -1.0, and weights are numbers from 0"),
    ):
        with pytest.raises(InputError, match=f"Table 'households': .*{message}"):
            model().fit({**given, "households": wrong})
    with pytest.raises(InputError, match="released no total of survey weights"):
        plain = {**given, "households": given["households"].drop(columns="w")}
        LinkedMargNet(linked(root={}), epsilon=2.0, config=TINY).fit(plain).sample(
            5, weights="population"
        )
    assert math.isfinite(model().plan().epsilon)


@pytest.mark.slow
def test_the_command_line(tmp_path: Any) -> None:
    (tmp_path / "real").mkdir()
    given = tables(60)
    for name, table in given.items():
        table.to_csv(tmp_path / "real" / f"{name}.csv", index=False)
    linked().save(tmp_path / "linked.json")
    words = ("fit", "real", "--linked", "linked.json", "--epsilon", 2, "--time-limit", "1s")
    said = run(*words, "-o", "model", cwd=tmp_path).stdout
    assert "weighted by 'w', clipped at 40" in said
    run("sample", "model", "-o", "made", "-n", 30, "--weights", "population", cwd=tmp_path)
    assert "w" in pd.read_csv(tmp_path / "made" / "households.csv")
    run("verify", "made", cwd=tmp_path, code=4)
    broken = given["households"].assign(w=["-3", *given["households"]["w"][1:].astype(str)])
    broken.to_csv(tmp_path / "real" / "households.csv", index=False)
    refused(*words, "-o", "n", cwd=tmp_path, says="Column 'w' has weight '-3'")
