"""A small hospital-like table for the tests with other packages; it needs pandas and numpy of any version."""

import numpy as np
import pandas as pd

METADATA = {
    "METADATA_SPEC_VERSION": "V1",
    "tables": {
        "table": {
            "primary_key": "patient_id",
            "columns": {
                "patient_id": {"sdtype": "id"},
                "age": {"sdtype": "numerical"},
                "sex": {"sdtype": "categorical"},
                "smoker": {"sdtype": "boolean"},
                "income": {"sdtype": "numerical"},
                "admitted": {"sdtype": "datetime"},
                "died": {"sdtype": "categorical"},
            },
        }
    },
    "relationships": [],
}


def patients(rows=600, seed=0):
    """Seven columns; the last depends on the age."""
    rng = np.random.default_rng(seed)
    age = rng.integers(0, 90, rows)
    admitted = pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 400, rows), unit="D")
    return pd.DataFrame(
        {
            "patient_id": [f"P{i:06d}" for i in range(rows)],
            "age": age,
            "sex": rng.choice(["F", "M"], rows),
            "smoker": rng.random(rows) < 0.3,
            "income": np.where(
                rng.random(rows) < 0.1, np.nan, np.round(rng.lognormal(9, 1, rows), -2)
            ),
            "admitted": admitted.astype("datetime64[ns]"),
            "died": (rng.random(rows) < age / 150).astype(int),
        }
    )
