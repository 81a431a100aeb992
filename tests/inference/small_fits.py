"""A small table whose columns depend on each other, and fits of it that take a second."""

import numpy as np
import pandas as pd

from tabsynth import MargNet, Schema
from tabsynth.schema import Column
from tabsynth.synthesizers import MargNetConfig

QUICK = MargNetConfig(steps=200, components=60, latent_dim=16, hidden=(32,))
SCHEMA = Schema(
    [
        Column(name="sex", kind="categorical", dtype="str", categories=("f", "m")),
        Column(
            name="region", kind="categorical", dtype="str", categories=("a", "b", "c"), nulls=True
        ),
        Column(name="age", kind="numeric", dtype="int64", low=0, high=9, resolution=1.0),
        Column(name="pay", kind="numeric", dtype="int64", low=0, high=5, resolution=1.0),
    ]
)


def rows(n: int = 4000, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    sex = rng.choice(["f", "m"], n, p=[0.6, 0.4])
    age = np.clip(rng.poisson(np.where(sex == "f", 5, 4)), 0, 9)
    region = np.where(rng.random(n) < 0.2 + 0.05 * age, "a", rng.choice(["b", "c"], n))
    pay = np.clip(rng.poisson(1 + 0.2 * age + (sex == "m")), 0, 5)
    region = pd.Series(region, dtype="str")
    region[rng.random(n) < 0.05] = pd.NA
    return pd.DataFrame(
        {"sex": pd.Series(sex, dtype="str"), "region": region, "age": age, "pay": pay}
    )


def fit(epsilon: float = float("inf"), seed: int = 1, n: int = 4000, **options) -> MargNet:
    model = MargNet(SCHEMA, epsilon=epsilon, random_state=seed, config=QUICK, **options)
    return model.fit(rows(n))
