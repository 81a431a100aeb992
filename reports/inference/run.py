"""Coverage of the intervals of ``tabsynth.inference`` over many fits of private tables from known populations.

``python reports/inference/run.py`` adds fits until every setting has ``--fits`` of them (default 200), writes results.json and
README.md, and can be stopped at any time; ``--only KEY`` runs the keys that begin with it; ``--fresh`` drops rows of other code
first; ``--page`` writes the page alone.
"""

import argparse
import json
import time
from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pandas as pd
from analysed import CELLS, STATISTICS, Statistic, Z
from coverage_page import page
from fits import Population, fitted, population
from planned import planned_rows

from tabsynth.inference import Reference, pool
from tabsynth.privacy.certificate.certificate import code
from tabsynth.synthesizers.margnet import implicates

HERE = Path(__file__).parent
RESULTS = HERE / "results.json"
SETTINGS = [("census", 1.0), ("hospital", 1.0), ("census", 8.0), ("hospital", 8.0)]
ORACLES = 5  # fits whose intervals are compared in width with those of an oracle
POOLED, IMPLICATES = 10, 10  # fits whose implicates are pooled, and implicates of each
PLANS = 3  # fits whose errors are compared with planned ones
NAIVE = 20  # fits with a synthetic table, for naive intervals
EXPECTED = 20  # rows of a cell, below which it is reported as rare


def label(name: Any) -> str:
    """The name of a statistic as text."""
    parts = name if isinstance(name, tuple) else (name,)
    return "|".join("null" if pd.isna(part) else str(part) for part in parts)


def labelled(values: Any) -> Any:
    """The same values under names that are texts."""
    return values.set_axis([label(name) for name in values.index], axis=0)


@lru_cache(maxsize=1)
def truths(name: str) -> list[tuple[pd.Series, pd.Series]]:
    """Of each analysis the true values, and which are of rare cells or groups."""
    known, out = populations(name), []
    for statistic in STATISTICS[name]:
        truth = labelled(statistic.naive(known.table)[0])
        rare = pd.Series(False, truth.index)
        if statistic.shares is not None:
            rare = labelled(statistic.shares(known.table)) * known.rows < EXPECTED
        out.append((truth, rare.reindex(truth.index)))
    return out


@lru_cache(maxsize=2)
def populations(name: str) -> Population:
    """A population, read once."""
    return population(name)


@lru_cache(maxsize=2)
def drawn(name: str, seed: int) -> pd.DataFrame:
    """The private table of a fit."""
    return populations(name).draw(seed)


def measured(
    statistic: Statistic, truth: pd.Series, rare: pd.Series, tables: dict[str, Any]
) -> Iterator[tuple[str, dict[str, list[Any]]]]:
    """By class of statistics, what their intervals are."""
    out = labelled(statistic.intervals(tables["reference"])).reindex(truth.index)
    found = {
        name: _naive(statistic, truth, tables[of])
        for name, of in (("control", "private"), ("naive", "synthetic"))
        if of in tables
    }
    if "population" in tables:
        oracle = labelled(statistic.intervals(tables["population"])).reindex(truth.index)
        found["wider"] = out["standard_error"] / oracle["standard_error"]
    for kind, which in ((statistic.kind, ~rare), (f"{statistic.kind}, rare", rare)):
        if not which.any():
            continue
        part, true = out[which], truth[which]
        given = part["estimate"].notna()
        covered = (part["low"] <= true) & (true <= part["high"])
        z = ((part["estimate"] - true) / part["standard_error"])[given]
        row: dict[str, list[Any]] = {
            "covered": ["-" if not g else str(int(c)) for g, c in zip(given, covered, strict=True)],
            "z": z.round(3).tolist(),
        }
        for name in ("control", "naive"):
            if name in found:
                row[name] = [str(int(n)) for n in found[name][which]]
        if "wider" in found:
            row["wider"] = found["wider"][which].dropna().round(3).tolist()
        yield kind, row


def _naive(statistic: Statistic, truth: pd.Series, table: pd.DataFrame) -> pd.Series:
    """Which textbook intervals from one table cover."""
    try:
        values, errors = map(labelled, statistic.naive(table))
    except np.linalg.LinAlgError:
        values = errors = pd.Series(dtype=float)
    fill = 0.0 if statistic.kind in CELLS else np.nan
    values, errors = (x.reindex(truth.index).fillna(fill) for x in (values, errors))
    return (values - truth).abs() <= Z * errors


def run(name: str, epsilon: float, seed: int) -> dict[str, Any]:
    """One fit, its intervals and, of the first fits, naive ones."""
    known = populations(name)
    model, seconds = fitted(name, epsilon, seed, known)
    tables: dict[str, Any] = {
        "reference": Reference(model, random_state=seed),
        "private": drawn(name, seed),
    }
    if seed < NAIVE:
        tables["synthetic"] = model.sample(random_state=seed)
    if seed < ORACLES:
        tables["population"] = Reference.of_table(model, known.table, seed)
    classes: dict[str, dict[str, list[Any]]] = {}
    for statistic, (truth, rare) in zip(STATISTICS[name], truths(name), strict=True):
        for kind, row in measured(statistic, truth, rare, tables):
            held = classes.setdefault(kind, {key: [] for key in row})
            for key, values in row.items():
                held[key] += values
    return {
        "classes": {kind: summary(found) for kind, found in classes.items()},
        "cpu_seconds": round(seconds, 1),
        "code": code()["sha256"][:12],
    }


def run_implicates(name: str, epsilon: float, seed: int) -> dict[str, Any]:
    """Intervals that pool textbook analyses of the implicates of one fit: of statistics that the counts show, and of others."""
    model, _ = fitted(name, epsilon, seed, populations(name))
    reference = Reference(model, random_state=seed)
    started = time.process_time()
    tables = model.sample(implicates=IMPLICATES, random_state=seed)
    seconds = time.process_time() - started
    classes: dict[str, list[str]] = {}
    for statistic, (truth, rare) in zip(STATISTICS[name], truths(name), strict=True):
        fill = 0.0 if statistic.kind in CELLS else np.nan
        try:
            found = [[labelled(x) for x in statistic.naive(table)] for table in tables]
        except np.linalg.LinAlgError:
            continue
        values, errors = (
            [x.reindex(truth.index).fillna(fill) for x in part] for part in zip(*found, strict=True)
        )
        whole = ~rare & pd.concat(values + errors, axis=1).notna().all(axis=1)
        if not whole.any():
            continue
        out = pool([x[whole] for x in values], [x[whole] ** 2 for x in errors])
        covered = (out["low"] <= truth[whole]) & (truth[whole] <= out["high"])
        given = labelled(statistic.intervals(reference)).reindex(truth.index)["estimate"].notna()
        row = classes.setdefault(statistic.kind, ["", ""])
        for i, which in enumerate((given[whole], ~given[whole])):
            row[i] += "".join(str(int(c)) for c in covered[which])
    return {"classes": classes, "cpu_seconds": round(seconds, 1), "code": code()["sha256"][:12]}


def run_cells_alone(name: str, epsilon: float, seed: int) -> dict[str, Any]:
    """As :func:`run_implicates`, of implicates that are fitted to the counts with equal weights, without sums of scores."""
    with patch.object(implicates, "SUMS_WEIGHT", 0.0):
        return run_implicates(name, epsilon, seed)


def run_plan(name: str, epsilon: float, seed: int) -> dict[str, Any]:
    """Planned and realised errors of the tables of one fit."""
    known = populations(name)
    model, _ = fitted(name, epsilon, seed, known)
    return {"tables": planned_rows(model, known, seed), "code": code()["sha256"][:12]}


def run_textbook(name: str, draws: int) -> dict[str, Any]:
    """Textbook intervals of logistic coefficients from private tables alone: how often there are none, why, and how many cover."""
    known, row = populations(name), {"draws": draws, "intervals": 0, "covered": 0}
    missing: dict[str, int] = {}  # tables without an estimate, by regressors
    constant: dict[str, int] = {}  # the same, by a category with one outcome
    for statistic, (truth, _) in zip(STATISTICS[name], truths(name), strict=True):
        if statistic.constant is None:
            continue
        regressors = ",".join(dict.fromkeys(c.partition("[")[0] for c in truth.index[1:]))
        for seed in range(draws):
            table = known.draw(seed)
            try:
                values, errors = (labelled(x) for x in statistic.naive(table))
            except np.linalg.LinAlgError:
                missing[regressors] = missing.get(regressors, 0) + 1
                for category in statistic.constant(table):
                    constant[category] = constant.get(category, 0) + 1
                continue
            row["intervals"] += len(values)
            row["covered"] += int(((values - truth[values.index]).abs() <= Z * errors).sum())
    sizes = {}
    for category in constant:
        column, _, value = category.rstrip("]").partition("[")
        sizes[category] = int((known.table[column].astype(str) == value).sum())
    found = {"missing": missing, "constant": constant, "sizes": sizes}
    return {**row, **found, "code": code()["sha256"][:12]}


def summary(found: dict[str, list[Any]]) -> dict[str, Any]:
    """A row of the results: a letter for each statistic, how many of those with an interval have a naive one that covers, and
    moments of the errors."""
    z = np.array(found["z"])
    out = {
        "covered": "".join(found["covered"]),
        "z": [round(float(z.sum()), 3), round(float((z**2).sum()), 3)],
    }
    for name in ("control", "naive"):
        if name in found:
            out[name] = sum(
                n == "1" for n, c in zip(found[name], found["covered"], strict=True) if c != "-"
            )
    if found.get("wider"):
        wide = np.array(found["wider"])
        out["wider"] = [round(float(x), 3) for x in (np.median(wide), np.quantile(wide, 0.95))]
    return out


KINDS: dict[str, Callable[..., dict[str, Any]]] = {
    "": run,
    "implicates-": run_implicates,
    "cells-": run_cells_alone,
    "plan-": run_plan,
}


def runs(first: int, fits: int) -> Iterator[tuple[str, str, float, int]]:
    """Kind, table, epsilon and seed of each row."""
    for seed in range(first, fits):
        for name, epsilon in SETTINGS:
            yield "", name, epsilon, seed
            if seed < POOLED:
                yield "implicates-", name, epsilon, seed
                yield "cells-", name, epsilon, seed
            if seed < PLANS and name == "census":
                yield "plan-", name, epsilon, seed


def main() -> None:
    """Run what is missing and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fits", type=int, default=200)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--only", default="")
    parser.add_argument("--page", action="store_true")
    parser.add_argument("--fresh", action="store_true")
    given = parser.parse_args()
    if given.fresh:
        mine = code()["sha256"][:12]
        write({}, {key: row for key, row in results().items() if row["code"] == mine})
    for kind, name, epsilon, seed in runs(given.first, given.fits):
        key = f"{kind}{name}-{epsilon:g}-{seed}"
        if given.page or not key.startswith(given.only) or key in results():
            continue
        write({key: KINDS[kind](name, epsilon, seed)})
        print(key, flush=True)
    for name in STATISTICS:
        key = f"textbook-{name}-{given.fits}"
        if not given.page and key.startswith(given.only) and key not in results():
            write({key: run_textbook(name, given.fits)})
    (HERE / "README.md").write_text(page(results()))


def results() -> dict[str, Any]:
    """The rows so far; another run may add to them meanwhile."""
    return json.loads(RESULTS.read_text()) if RESULTS.exists() else {}


def write(rows: dict[str, Any], kept: dict[str, Any] | None = None) -> None:
    """Add rows to those that are kept: by default all."""
    merged = {**(results() if kept is None else kept), **rows}
    lines = [f"{json.dumps(key)}: {json.dumps(merged[key])}" for key in sorted(merged)]
    RESULTS.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()
