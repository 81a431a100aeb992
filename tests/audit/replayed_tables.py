"""A small schema and its tables, for the tests of record and replay."""

import numpy as np
import pandas as pd

from tabsynth import Column, Schema

SCHEMA = Schema(
    [
        Column(
            name="k",
            kind="categorical",
            dtype="str",
            categories=("x", "y", "z", "rest"),
            other="rest",
        ),
        Column(name="v", kind="numeric", dtype="Int64", low=0, high=20, clip=True, nulls=True),
        Column(name="r", kind="numeric", dtype="float64", low=-1.0, high=1.0, bins=8, clip=True),
        Column(name="b", kind="ordinal", dtype="bool", categories=(False, True)),
    ]
)
EPSILON = 60.0  # where accounting is quick: a replay is of control flow, whatever the noise


def frame(rows: int = 60, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    v = pd.array(rng.integers(0, 21, rows), dtype="Int64")
    v[rng.random(rows) < 0.1] = pd.NA
    return pd.DataFrame(
        {
            "k": pd.Series(rng.choice(["x", "y"], rows, p=[0.8, 0.2]), dtype="str"),
            "v": v,
            "r": rng.uniform(-1, 1, rows),
            "b": rng.random(rows) < 0.5,
        }
    )
