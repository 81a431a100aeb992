"""Small linked tables for tests: patients, their stays, and the events of a stay."""

import numpy as np
import pandas as pd

from tabsynth import Categorical, LinkedSchema, Numeric, Ordinal, Schema
from tabsynth.synthesizers import MargNetConfig

TINY = MargNetConfig(components=20, latent_dim=5, hidden=(8,), steps=5)
PATIENTS = Schema([Categorical(name="sex", dtype="str", categories=("f", "m"))])
STAYS = Schema(
    [
        Numeric(name="day", dtype="int64", low=0, high=99, bins=10, resolution=1),
        Ordinal(name="ward", dtype="str", categories=("a", "b", "c")),
    ]
)
EVENTS = Schema([Categorical(name="code", dtype="str", categories=("u", "v", "w", "x"))])


def schema(stays=4, events=3, order="day"):
    """Three tables; at most so many stays of a patient, and events of a stay."""
    return LinkedSchema(
        {"patients": PATIENTS, "stays": STAYS, "events": EVENTS},
        keys={
            "patients": {"key": "patient"},
            "stays": {
                "key": "stay", "parent": "patients", "parent_key": "patient", "order": order, "max_children": stays,
            },
            "events": {"parent": "stays", "parent_key": "stay", "order": "number", "max_children": events},
        },
    )  # fmt: skip


def tables(patients=30, seed=0, most=6):
    """Tables of so many patients, with up to ``most`` stays each and up to five events of a stay, in any order."""
    rng = np.random.default_rng(seed)
    owner = np.repeat(np.arange(patients), rng.integers(0, most + 1, patients))
    stay = np.repeat(np.arange(len(owner)), rng.integers(0, 6, len(owner)))
    out = {
        "patients": pd.DataFrame(
            {"patient": 1000 + np.arange(patients), "sex": rng.choice(["f", "m"], patients)}
        ),
        "stays": pd.DataFrame(
            {
                "stay": 50 + np.arange(len(owner)),
                "patient": 1000 + owner,
                "day": rng.integers(0, 100, len(owner)),
                "ward": rng.choice(["a", "b", "c"], len(owner)),
            }
        ),
        "events": pd.DataFrame(
            {
                "stay": 50 + stay,
                "number": rng.integers(0, 9, len(stay)),
                "code": rng.choice(["u", "v", "w", "x"], len(stay)),
            }
        ),
    }
    return {name: table.sample(frac=1, random_state=seed) for name, table in out.items()}


def without(given, patient):
    """The tables without a patient and its records in the other tables."""
    stays = given["stays"][given["stays"]["patient"] == patient]["stay"]
    return {
        "patients": given["patients"][given["patients"]["patient"] != patient],
        "stays": given["stays"][given["stays"]["patient"] != patient],
        "events": given["events"][~given["events"]["stay"].isin(stays)],
    }
