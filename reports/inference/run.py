"""Coverage of the intervals of ``tabsynth.inference`` over many fits of private tables from known populations.

``python reports/inference/run.py`` is run by the harness. Each of the four settings has 200 fits; models are stored in
build/inference.
"""

import sys
import time
from collections.abc import Callable, Iterator
from functools import lru_cache, partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pandas as pd

sys.path.append(str(Path(__file__).resolve().parents[1]))
from analysed import CELLS, STATISTICS, Statistic, Z
from coverage_page import page
from fits import Population, fitted, population
from harness import Row, Study
from planned import planned_rows

from tabsynth.inference import Reference, pool
from tabsynth.synthesizers.margnet import implicates

TABLES = [("census", 1.0), ("hospital", 1.0), ("census", 8.0), ("hospital", 8.0)]
FITS = 200  # of each setting
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


def run(name: str, epsilon: float, seed: int) -> Row:
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
    return {"classes": classes, "cpu_seconds": round(seconds, 1)}


def run_cells_alone(name: str, epsilon: float, seed: int) -> dict[str, Any]:
    """As :func:`run_implicates`, of implicates that are fitted to the counts with equal weights, without sums of scores."""
    with patch.object(implicates, "SUMS_WEIGHT", 0.0):
        return run_implicates(name, epsilon, seed)


def run_plan(name: str, epsilon: float, seed: int) -> dict[str, Any]:
    """Planned and realised errors of the tables of one fit."""
    known = populations(name)
    model, _ = fitted(name, epsilon, seed, known)
    return {"tables": planned_rows(model, known, seed)}


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
    return {**row, **found}


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


KINDS: dict[str, Callable[..., Row]] = {
    "": run,
    "implicates-": run_implicates,
    "cells-": run_cells_alone,
    "plan-": run_plan,
}


def settings() -> Iterator[tuple[str, Callable[[], Row]]]:
    """Yield the key of each row, and what measures it."""
    for seed in range(FITS):
        for name, epsilon in TABLES:
            kinds = [""]
            kinds += ["implicates-", "cells-"] if seed < POOLED else []
            kinds += ["plan-"] if seed < PLANS and name == "census" else []
            for kind in kinds:
                yield f"{kind}{name}-{epsilon:g}-{seed}", partial(KINDS[kind], name, epsilon, seed)
    for name in STATISTICS:
        yield f"textbook-{name}-{FITS}", partial(run_textbook, name, FITS)


STUDY = Study(
    script=Path(__file__).resolve(),
    settings=dict(settings()),
    measure=lambda function: function(),
    page=page,
)

if __name__ == "__main__":
    STUDY.main()
