"""Coverage of the intervals of ``tabsynth.inference`` over many fits of private tables from known populations.

``python reports/inference/run.py`` adds fits until every setting has ``--fits`` of them (default 200), writes results.json and
README.md, and can be stopped at any time; ``--only KEY`` runs the keys that begin with it; ``--page`` writes the page alone.
"""

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from analysed import CELLS, STATISTICS, Statistic, Z
from coverage_page import page
from fits import Population, fitted, population

from tabsynth.inference import Reference
from tabsynth.privacy.certificate.certificate import code

HERE = Path(__file__).parent
RESULTS = HERE / "results.json"
SETTINGS = [("census", 1.0), ("hospital", 1.0), ("census", 8.0), ("hospital", 8.0)]
ORACLES = 5  # fits whose intervals are compared in width with those of an oracle
EXPECTED = 20  # rows of a cell, below which it is reported as rare


def label(name: Any) -> str:
    """The name of a statistic as text."""
    parts = name if isinstance(name, tuple) else (name,)
    return "|".join("null" if pd.isna(part) else str(part) for part in parts)


def labelled(values: Any) -> Any:
    """The same values under names that are texts."""
    return values.set_axis([label(name) for name in values.index], axis=0)


def measured(
    statistic: Statistic, truth: pd.Series, tables: dict[str, Any], rows: int
) -> Iterator[tuple[str, dict[str, list[Any]]]]:
    """By class of statistics, what their intervals are."""
    out = labelled(statistic.intervals(tables["reference"])).reindex(truth.index)
    try:
        values, errors = map(labelled, statistic.naive(tables["synthetic"]))
    except np.linalg.LinAlgError:
        values = errors = pd.Series(dtype=float)
    fill = 0.0 if statistic.kind in CELLS else np.nan
    values, errors = (x.reindex(truth.index).fillna(fill) for x in (values, errors))
    wider = pd.Series(np.nan, truth.index)
    if "population" in tables:
        oracle = labelled(statistic.intervals(tables["population"])).reindex(truth.index)
        wider = out["standard_error"] / oracle["standard_error"]
    rare = (truth * rows < EXPECTED) & (statistic.kind in CELLS)
    for kind, which in ((statistic.kind, ~rare), (f"{statistic.kind}, rare", rare)):
        if not which.any():
            continue
        part, true = out[which], truth[which]
        given = part["estimate"].notna()
        covered = (part["low"] <= true) & (true <= part["high"])
        naive = ((values - truth).abs() <= Z * errors)[which]
        z = ((part["estimate"] - true) / part["standard_error"])[given]
        yield (
            kind,
            {
                "covered": [
                    "-" if not g else str(int(c)) for g, c in zip(given, covered, strict=True)
                ],
                "naive": [str(int(n)) for n in naive],
                "z": z.round(3).tolist(),
                "wider": wider[which].dropna().round(3).tolist(),
            },
        )


def run(name: str, epsilon: float, seed: int, known: Population) -> dict[str, Any]:
    """One fit, its intervals and naive ones."""
    model, seconds = fitted(name, epsilon, seed, known)
    tables: dict[str, Any] = {
        "reference": Reference(model, random_state=seed),
        "synthetic": model.sample(random_state=seed),
    }
    if seed < ORACLES:
        tables["population"] = Reference.of_table(model, known.table, seed)
    classes: dict[str, dict[str, list[Any]]] = {}
    for statistic in STATISTICS[name]:
        truth = labelled(statistic.naive(known.table)[0])
        for kind, found in measured(statistic, truth, tables, known.rows):
            held = classes.setdefault(kind, {key: [] for key in found})
            for key, values in found.items():
                held[key] += values
    return {
        "classes": {kind: summary(found) for kind, found in classes.items()},
        "cpu_seconds": round(seconds, 1),
        "code": code()["sha256"][:12],
    }


def summary(found: dict[str, list[Any]]) -> dict[str, Any]:
    """A row of the results: a letter for each statistic, and moments of the errors."""
    z = np.array(found["z"])
    out = {
        "covered": "".join(found["covered"]),
        "naive": "".join(found["naive"]),
        "z": [round(float(z.sum()), 3), round(float((z**2).sum()), 3)],
    }
    if found["wider"]:
        wide = np.array(found["wider"])
        out["wider"] = [round(float(x), 3) for x in (np.median(wide), np.quantile(wide, 0.95))]
    return out


def main() -> None:
    """Run what is missing and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fits", type=int, default=200)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--only", default="")
    parser.add_argument("--page", action="store_true")
    given = parser.parse_args()
    known: dict[str, Population] = {}
    for seed in range(given.first, given.fits):
        for name, epsilon in SETTINGS:
            key = f"{name}-{epsilon:g}-{seed}"
            if given.page or not key.startswith(given.only) or key in results():
                continue
            if name not in known:
                known[name] = population(name)
            write({key: run(name, epsilon, seed, known[name])})
            print(key, flush=True)
    (HERE / "README.md").write_text(page(results()))


def results() -> dict[str, Any]:
    """The rows so far; another run may add to them meanwhile."""
    return json.loads(RESULTS.read_text()) if RESULTS.exists() else {}


def write(rows: dict[str, Any]) -> None:
    """Add rows."""
    merged = {**results(), **rows}
    lines = [f"{json.dumps(key)}: {json.dumps(merged[key])}" for key in sorted(merged)]
    RESULTS.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()
