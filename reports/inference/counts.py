"""Coverage, error and time of the counts of measured tables, in fits of three tables with three seeds.

``OMP_NUM_THREADS=1 python reports/inference/counts.py`` is run by the harness. Times are CPU seconds of one thread.
"""

import statistics
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import torch

REPORTS = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(REPORTS), str(REPORTS / "benchmark")]

from harness import Row, Rows, Study, fill, mean_sd, releases, table  # noqa: E402
from tables import TABLES  # noqa: E402

from tabsynth import MargNet, load_census  # noqa: E402
from tabsynth.datasets import load_hospital  # noqa: E402
from tabsynth.privacy.noise.counts import count_rows  # noqa: E402
from tabsynth.synthesizers.margnet.consistent import ConsistentCounts  # noqa: E402
from tabsynth.synthesizers.margnet.grids import Grid  # noqa: E402

TITLES = {
    "census": "census, bundled",
    "hospital": "hospital, bundled",
    "census-24": TABLES["census-24"].title,
}
SETTINGS = {
    f"{name}-{epsilon:g}-{seed}": (name, epsilon, seed)
    for name in TITLES
    for epsilon in (1.0, 8.0)
    for seed in range(3)
}
KINDS = {1: "columns", 2: "pairs", 3: "triples"}
HEAD = ["table", "ε", "counts of", "tables", "cells", "coverage, %", "noisy", "estimate", "model"]
TIMES = ["table", "ε", "cells", "counts, s", "fit, s"]


def data(name: str) -> tuple[pd.DataFrame, object]:
    """Return a table and its schema."""
    if name == "census":
        return load_census()
    if name == "hospital":
        return load_hospital()
    schema = TABLES[name].schema()
    return TABLES[name].rows(schema), schema


def measure(setting: tuple[str, float, int]) -> Row:
    """Fit once, and compare each estimate with the exact count."""
    name, epsilon, seed = setting
    torch.set_num_threads(1)
    rows, schema = data(name)
    started = time.process_time()
    model = MargNet(schema, epsilon=epsilon, random_state=seed).fit(rows)
    fitted = time.process_time()
    counts = model.counts()
    seconds = time.process_time() - fitted
    encoder, measured = model.model_.encoder, model.model_.measured
    codes = encoder.to_index(rows)
    consistent = ConsistentCounts(measured, encoder.schema.sizes)
    results: dict[str, list[pd.DataFrame]] = {}
    place = 1  # after the number of rows
    for of in (*consistent.tables, *consistent.alone):
        groups = dict(zip(of.columns, of.groups, strict=True))
        grid = Grid(of.columns, of.groups, 1.0)
        part = counts.iloc[place : place + of.counts.size].assign(
            truth=count_rows(codes, of.columns, groups).ravel(),
            model=grid.expected(model.model_.generator, consistent.total).ravel(),
        )
        place += of.counts.size
        results.setdefault(KINDS.get(len(of.columns), "larger tables"), []).append(part)
    assert place == len(counts)
    return {
        "rows": len(codes),
        "fit": round(fitted - started, 1),
        "counts": round(seconds, 2),
        **{kind: figures(parts) for kind, parts in results.items()},
    }


def figures(parts: list[pd.DataFrame]) -> Row:
    """Return coverage and errors of the cells of some tables."""
    cells = pd.concat(parts)
    covered = (cells["low"] <= cells["truth"]) & (cells["truth"] <= cells["high"])
    errors = {of: cells[of] - cells["truth"] for of in ("noisy", "estimate", "model")}
    z = errors["estimate"] / cells["standard_error"]
    return {
        "tables": len(parts),
        "cells": len(cells),
        "covered": round(float(covered.mean()), 4),
        "z": round(float(np.sqrt(np.square(z).mean())), 3),
        **{of: round(float(np.sqrt(np.square(error).mean())), 2) for of, error in errors.items()},
    }


def lines(rows: Rows) -> Iterator[tuple[str, float, list[Row]]]:
    """Yield each table and ε with the rows of its seeds."""
    for name in TITLES:
        for epsilon in (1.0, 8.0):
            seeds = [rows[k] for k, s in SETTINGS.items() if s[:2] == (name, epsilon) and k in rows]
            if seeds:
                yield name, epsilon, seeds


def page(rows: Rows) -> str:
    """Return the page."""
    errors, times, lowest, kinds = [], [], 1.0, (*KINDS.values(), "larger tables")
    for name, epsilon, seeds in lines(rows):
        whole = [sum(row[kind]["cells"] for kind in kinds if kind in row) for row in seeds]
        times.append(
            [
                TITLES[name],
                f"{epsilon:g}",
                f"{statistics.mean(whole):,.0f}",
                mean_sd([row["counts"] for row in seeds], 2),
                mean_sd([row["fit"] for row in seeds], 0),
            ]
        )
        for kind in kinds:
            of = [row[kind] for row in seeds if kind in row]
            if of:
                lowest = min(lowest, *(each["covered"] for each in of))
                numbers = [
                    mean_sd([each[k] for each in of], 1) for k in ("noisy", "estimate", "model")
                ]
                covered = mean_sd([100 * each["covered"] for each in of], 1)
                number, cells = (
                    statistics.mean(each[k] for each in of) for k in ("tables", "cells")
                )
                errors.append(
                    [
                        TITLES[name],
                        f"{epsilon:g}",
                        kind,
                        f"{number:.0f}",
                        f"{cells:,.0f}",
                        covered,
                        *numbers,
                    ]
                )
    census = max(row["counts"] for key, row in rows.items() if key.startswith("census-8"))
    gains = [
        1 - row[kind]["estimate"] / row[kind]["noisy"]
        for row in rows.values()
        for kind in ("columns", "pairs")
    ]
    parts = {
        "ANSWER": f"At least {100 * lowest:.1f}% of the cells in each kind of table and fit are within their intervals.",
        "GAIN": f"The estimates' errors are {100 * min(gains):.0f} to {100 * max(gains):.0f}% smaller than those of the noisy counts of columns and pairs.",
        "ERRORS": table(HEAD, errors),
        "TIMES": table(TIMES, times),
        "CENSUS": f"The counts of the bundled census table take at most {census:.1f} s.",
        "RELEASE": releases(rows.values()),
    }
    return fill(Path(__file__).with_name("counts.template.md"), parts)


STUDY = Study(script=Path(__file__).resolve(), settings=SETTINGS, measure=measure, page=page)

if __name__ == "__main__":
    STUDY.main()
