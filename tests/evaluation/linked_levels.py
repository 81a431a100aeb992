"""Linked tables for the tests of their metrics: category codes, and DataFrames with keys."""

import numpy as np
import pandas as pd

from tabsynth import Categorical, LinkedSchema, Numeric, Schema, evaluate
from tabsynth.evaluation import EvaluationConfig
from tabsynth.evaluation.grouped import Level, LevelColumns
from tabsynth.schema import TableKeys

HOMES = LevelColumns(
    names=("town", "kind"),
    sizes=(3, 2),
    scores=(None, None),
    labels=(tuple("abc"), tuple("xy")),
)
PEOPLE = LevelColumns(
    names=("age", "sex"),
    sizes=(6, 2),
    scores=(np.array([1.0, 2.0, 3.0, 4.0, 5.0, np.nan]), None),
    labels=(tuple("12345N"), tuple("fm")),
    parent="homes",
    ordered=True,
    most=4,
)
VISITS = LevelColumns(
    names=("code",),
    sizes=(4,),
    scores=(None,),
    labels=(tuple("pqrs"),),
    parent="people",
    ordered=False,
    most=3,
)
TWO = {"homes": HOMES, "people": PEOPLE}
THREE = {**TWO, "visits": VISITS}


def level(codes, parent, above=None):
    """A level whose rows are given in the order of their parents."""
    parent = np.asarray(parent, dtype=np.int64)
    root = parent if above is None else above.root[parent]
    return Level(
        codes=np.asarray(codes, dtype=np.int64).reshape(len(codes), -1 if len(codes) else 2),
        parent=parent,
        root=root,
    )


def drawn(rng, homes, columns=TWO, most=4):
    """Random levels; siblings are alike, and follow the home."""
    codes = np.stack([rng.integers(0, 3, homes), rng.integers(0, 2, homes)], axis=1)
    out = {"homes": level(codes, np.arange(homes))}
    sizes = rng.integers(0, most + 1, homes)
    parent = np.repeat(np.arange(homes), sizes)
    age = np.minimum(codes[parent, 0] + rng.integers(0, 4, len(parent)), 5)
    people = np.stack([age, (codes[parent, 1] + rng.integers(0, 2, len(parent))) // 2], axis=1)
    out["people"] = level(people, parent, out["homes"])
    if "visits" in columns:
        above = np.repeat(np.arange(len(parent)), rng.integers(0, 3, len(parent)))
        out["visits"] = level(rng.integers(0, 4, len(above)), above, out["people"])
    return out


SCHEMA = LinkedSchema(
    {
        "homes": Schema(
            [
                Categorical(name="town", dtype="str", categories=("a", "b", "c")),
                Categorical(name="kind", dtype="str", categories=("flat", "house")),
            ]
        ),
        "people": Schema(
            [
                Numeric(name="age", dtype="int64", low=0, high=99, bins=10),
                Categorical(name="sex", dtype="str", categories=("f", "m")),
            ]
        ),
    },
    {
        "homes": TableKeys(key="home"),
        "people": TableKeys(parent="homes", parent_key="home", order="number", max_children=4),
    },
)


def frames(seed, homes=300):
    """Homes and people: a first person, a second of about the same age, and children who are 25 years younger."""
    rng = np.random.default_rng(seed)
    town = rng.choice(["a", "b", "c"], homes)
    size = rng.integers(1, 5, homes)
    kind = np.where(size > 2, "house", "flat")
    first = rng.integers(30, 80, homes)
    home = np.repeat(np.arange(homes), size)
    number = np.concatenate([np.arange(1, n + 1) for n in size])
    age = np.where(
        number <= 2, first[home] + rng.integers(-3, 4, len(home)), first[home] - 25
    ).clip(0, 99)
    sex = np.where(number % 2 == 1, rng.choice(["f", "m"], len(home)), "f")
    keys = np.array([f"s{seed}-{i}" for i in range(homes)], dtype=object)
    return {
        "homes": pd.DataFrame({"home": keys, "town": town, "kind": kind}),
        "people": pd.DataFrame(
            {"home": keys[home], "number": number, "age": age.astype("int64"), "sex": sex}
        ),
    }


def evaluated(real, synthetic, holdout=None, *, schema, **options):
    """The evaluation of linked tables; ``options`` are weights and settings."""
    weights = options.pop("weights", None)
    settings = {"each_table": options.pop("tables", True), **options}
    report = evaluate(
        real,
        synthetic,
        holdout,
        schema=schema,
        weights=weights,
        config=EvaluationConfig(**settings),
    )
    return report.evaluation
