"""The time of an evaluation: every metric of a wide table, and the disclosure grid of a long one."""

import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd

from tabsynth import evaluate
from tabsynth.evaluation import EvaluationConfig
from tabsynth.evaluation.attacks.disclosure import attribute_disclosure, unknown_levels

sys.path.append(str(Path(__file__).resolve().parents[1] / "benchmark"))  # behind this folder
from tables import TABLES

TABLE = "census-24"
LONG, TARGETS, NEIGHBOURS = (1_000_000, 10), 1000, (1, 5, 10, 100)
SEARCHED = 20  # records that the plain search is timed on


def stages() -> list[dict]:
    """Return the seconds of each stage of ``evaluate`` on all rows of the 24 census columns."""
    schema, train, test = TABLES[TABLE].split()
    rng = np.random.default_rng(0)
    drawn = train.iloc[rng.integers(0, len(train), len(train))]
    synthetic = pd.DataFrame(
        {c: drawn[c].to_numpy()[_partly_shuffled(len(drawn), rng)] for c in drawn}
    )
    synthetic = synthetic.astype(train.dtypes.to_dict())
    reached: list[tuple[str, float]] = []
    started = time.perf_counter()
    report = evaluate(
        train,
        synthetic,
        test,
        schema=schema,
        config=EvaluationConfig(
            progress=lambda name, _: reached.append((name, time.perf_counter() - started))
        ),
    )
    with tempfile.TemporaryDirectory() as folder:
        report.to_html(Path(folder) / "report.html")
    total = time.perf_counter() - started
    reached.append(("the page", total))
    last = dict(
        reached
    )  # when each stage reported for the last time; it began where the one before ended
    ends = [0.0, *last.values()]
    rows = [
        {"stage": name, "seconds": round(end - before, 1)}
        for (name, end), before in zip(last.items(), ends[:-1], strict=True)
    ]
    what = f"all: {len(train):,} rows fitted, as many synthetic, {len(test):,} held out"
    return [*rows, {"stage": what, "seconds": round(total, 1)}]


def _partly_shuffled(rows: int, rng: np.random.Generator) -> np.ndarray:
    """Return the order of rows, a fifth of them shuffled, so that the table is near the real one."""
    order = np.arange(rows)
    moved = rng.choice(rows, rows // 5, replace=False)
    order[moved] = moved[rng.permutation(len(moved))]
    return order


def grid() -> list[dict]:
    """Return the time of the disclosure grid of a long table, and the ratio of a plain search to it.

    The plain search compares each record with the table again for every number of unknown attributes,
    and picks the nearest by partition; it is timed on 20 records and scaled.
    """
    rng = np.random.default_rng(0)
    rows, columns = LONG
    sizes = [int(size) for size in rng.integers(2, 60, columns)]
    table = np.stack([rng.integers(0, size, rows) for size in sizes], axis=1)
    people, controls = (
        np.stack([rng.integers(0, size, TARGETS) for size in sizes], axis=1) for _ in range(2)
    )
    started = time.perf_counter()
    attribute_disclosure(
        people,
        table,
        controls,
        sizes=sizes,
        k=NEIGHBOURS,
        m=TARGETS,
        rng=rng,
        exposed=False,
    )
    seconds = time.perf_counter() - started
    started = time.perf_counter()
    for record in people[:SEARCHED]:
        for s in unknown_levels(columns):
            known_columns = rng.permutation(columns)[s:]
            distance = (table[:, known_columns] != record[known_columns]).sum(axis=1)
            np.argpartition(distance, max(NEIGHBOURS))
    plain = (time.perf_counter() - started) / SEARCHED * 2 * TARGETS
    return [
        {
            "rows": rows,
            "columns": columns,
            "people": 2 * TARGETS,
            "seconds": round(seconds, 1),
            "ratio": round(plain / seconds, 1),
        }
    ]
