"""Conditions and structural zeros for columns of every dtype."""

import numpy as np
import pandas as pd
import pytest
import torch

from tabsynth import MargNet, Schema
from tabsynth.schema import Column
from tabsynth.synthesizers.margnet.config import MargNetConfig

torch.set_num_threads(1)
GRADES = ("lo", "mid", "hi")
SCHEMA = Schema(
    [
        Column(
            name="c", kind="ordinal", dtype="category", categories=GRADES, other="mid", nulls=True
        ),
        Column(name="f", kind="numeric", dtype="float32", low=0.1, high=0.9, bins=4, nulls=True),
        Column(
            name="F",
            kind="numeric",
            dtype="Float64",
            low=0,
            high=5,
            resolution=0.5,
            clip=True,
            nulls=True,
        ),
        Column(name="u", kind="numeric", dtype="uint8", low=0, high=255, clip=True),
        Column(name="B", kind="categorical", dtype="boolean", categories=(True, False), nulls=True),
    ],
    impossible=[
        {"c": {"low": "lo", "high": "mid"}, "f": {"low": 0.3, "high": 0.9}},
        {"B": [None], "F": [0, 0.5, 5]},
    ],
)


def graded(rows: int) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    grades = rng.choice(GRADES, rows)
    return pd.DataFrame(
        {
            "c": pd.Categorical(grades, categories=GRADES, ordered=True),
            "f": rng.uniform(0.1, 0.29, rows).astype("float32"),
            "F": pd.array(rng.integers(0, 11, rows) / 2, dtype="Float64"),
            "u": rng.integers(0, 256, rows).astype("uint8"),
            "B": pd.array(rng.random(rows) < 0.5, dtype="boolean"),
        }
    )


@pytest.fixture(scope="module")
def model() -> MargNet:
    config = MargNetConfig(components=20, latent_dim=5, hidden=(8,), steps=30)
    return MargNet(SCHEMA, epsilon=2.0, config=config, random_state=0).fit(graded(200))


def test_conditions_on_all_dtypes(model: MargNet) -> None:
    synthetic = model.sample(
        100, where={"c": ["hi", None], "F": (4.5, None), "u": 7, "B": True, "f": None}
    )
    assert set(synthetic["c"].dropna()) == {"hi"} and set(synthetic["F"].dropna()) == {4.5}
    assert (
        synthetic["f"].isna().all() and synthetic["u"].between(4, 7).all() and synthetic["B"].all()
    )
