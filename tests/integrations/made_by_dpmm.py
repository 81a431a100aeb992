"""Tables of dpmm, which pins other versions than tabsynth takes; ``test_with_tables.py`` evaluates them.

Run in an environment of its own by ``environments.py``. dpmm 0.1.9 fails on dates, which are left out.
"""

import os
import sys
from importlib.metadata import version
from pathlib import Path

import numpy
import pandas as pd
from integrations.plugin_tables import patients

FOLDER = Path(os.environ["TABSYNTH_PLUGIN_TABLES"])
BOUNDS = {"age": {"lower": 0, "upper": 99}, "income": {"lower": 0, "upper": 200_000}}


def main() -> None:
    """Fit MST and write 400 rows as text and as Parquet."""
    from dpmm.pipelines import MSTPipeline

    print(f"Python {sys.version.split()[0]}, dpmm {version('dpmm')}", end=", ")
    print(f"numpy {numpy.__version__}, pandas {pd.__version__}")
    table = patients()[["age", "sex", "smoker", "income", "died"]]
    table = table.astype({"sex": "category", "died": "category"})
    pipeline = MSTPipeline(epsilon=2.0, delta=1e-5, proc_epsilon=0.3, n_jobs=1)
    pipeline.fit(table, BOUNDS)
    made = pipeline.generate(n_records=400)
    made.to_csv(FOLDER / "dpmm.csv", index=False)
    made.to_parquet(FOLDER / "dpmm.parquet")


if __name__ == "__main__":
    main()
