"""Fits of bootstrap tables from known populations; models are stored, so that methods are compared without fitting again."""

import sys
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "benchmark"))

from tables import CENSUS, TABLES, data_file  # noqa: E402

from tabsynth import MargNet, Schema, load, read_table  # noqa: E402
from tabsynth.synthesizers import MargNetConfig  # noqa: E402

CACHE = (
    HERE.resolve().parents[1] / "build" / "inference"
)  # models are large, and `make clean` removes them
ROWS = {"census": 19_077, "hospital": 4_999}
# A third of the time of a fit of 3,000 steps at ε = 8. On a table of the census population at ε = 8, 3,000, 1,000 and 500 steps have the same
# intervals (z scores of all classes within 0.02 in root mean square), for these follow from the counts.
CONFIG = MargNetConfig(components=200, steps=1000)


@dataclass(frozen=True)
class Population:
    """A known population, from which private tables are drawn with replacement.

    Attributes
    ----------
    table : DataFrame
    schema : Schema
    rows : int
        Of a private table.
    """

    table: pd.DataFrame
    schema: Schema
    rows: int

    def draw(self, seed: int) -> pd.DataFrame:
        """Draw a private table."""
        rng = np.random.default_rng([seed, 28])
        return self.table.iloc[rng.integers(0, len(self.table), self.rows)].reset_index(drop=True)


def population(name: str) -> Population:
    """Return the census excerpts of 2018 and 2019 together, or the hospital table."""
    if name == "census":
        files = [data_file(f"census_national_{year}.csv") for year in (2018, 2019)]
        texts = [pd.read_csv(path, dtype=str, keep_default_na=False) for path in files]
        table = pd.concat(texts, ignore_index=True)[list(CENSUS.names)]
        with tempfile.TemporaryDirectory() as scratch:
            path = Path(scratch) / "rows.csv"
            table.to_csv(path, index=False)
            return Population(read_table(path, CENSUS), CENSUS, ROWS[name])
    schema = TABLES[name].schema()
    return Population(TABLES[name].rows(schema).reset_index(drop=True), schema, ROWS[name])


def fit_or_load(name: str, epsilon: float, seed: int, people: Population) -> tuple[MargNet, float]:
    """Return the model of one private table, stored or fitted, and its CPU seconds (0 if it was stored)."""
    path = CACHE / f"{name}-{epsilon:g}-{seed}.safetensors"
    if path.exists():
        return load(path), 0.0
    started = time.process_time()
    model = MargNet(people.schema, epsilon=epsilon, random_state=seed, config=replace(CONFIG))
    model.fit(people.draw(seed))
    CACHE.mkdir(parents=True, exist_ok=True)
    model.save(path)
    return model, time.process_time() - started
