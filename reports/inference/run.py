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
from fits import Population, fit_or_load, population
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
    """Return the name of a statistic as text."""
    parts = name if isinstance(name, tuple) else (name,)
    return "|".join("null" if pd.isna(part) else str(part) for part in parts)


def with_text_labels(values: Any) -> Any:
    """Return the same values under names that are texts."""
    return values.set_axis([label(name) for name in values.index], axis=0)


@lru_cache(maxsize=1)
def truths(name: str) -> list[tuple[pd.Series, pd.Series]]:
    """Return the true values of each analysis, and which are of rare cells or groups."""
    people, out = populations(name), []
    for statistic in STATISTICS[name]:
        truth = with_text_labels(statistic.naive(people.table)[0])
        rare = pd.Series(False, truth.index)
        if statistic.shares is not None:
            rare = with_text_labels(statistic.shares(people.table)) * people.rows < EXPECTED
        out.append((truth, rare.reindex(truth.index)))
    return out


@lru_cache(maxsize=2)
def populations(name: str) -> Population:
    """Return a population, which is read once."""
    return population(name)


@lru_cache(maxsize=2)
def private_table(name: str, seed: int) -> pd.DataFrame:
    """Return the private table of a fit."""
    return populations(name).draw(seed)


def coverage_by_class(
    statistic: Statistic, truth: pd.Series, rare: pd.Series, tables: dict[str, Any]
) -> Iterator[tuple[str, dict[str, list[Any]]]]:
    """Yield each class of statistics with the coverage of its intervals."""
    out = with_text_labels(statistic.intervals(tables["reference"])).reindex(truth.index)
    results = {
        name: naive_coverage(statistic, truth, tables[of])
        for name, of in (("control", "private"), ("naive", "synthetic"))
        if of in tables
    }
    if "population" in tables:
        oracle = with_text_labels(statistic.intervals(tables["population"])).reindex(truth.index)
        results["wider"] = out["standard_error"] / oracle["standard_error"]
    for kind, which in ((statistic.kind, ~rare), (f"{statistic.kind}, rare", rare)):
        if not which.any():
            continue
        part, true = out[which], truth[which]
        supported = part["estimate"].notna()
        covered = (part["low"] <= true) & (true <= part["high"])
        z = ((part["estimate"] - true) / part["standard_error"])[supported]
        row: dict[str, list[Any]] = {
            "covered": [
                "-" if not g else str(int(c)) for g, c in zip(supported, covered, strict=True)
            ],
            "z": z.round(3).tolist(),
        }
        for name in ("control", "naive"):
            if name in results:
                row[name] = [str(int(n)) for n in results[name][which]]
        if "wider" in results:
            row["wider"] = results["wider"][which].dropna().round(3).tolist()
        yield kind, row


def naive_coverage(statistic: Statistic, truth: pd.Series, table: pd.DataFrame) -> pd.Series:
    """Return which textbook intervals from one table cover."""
    try:
        values, errors = map(with_text_labels, statistic.naive(table))
    except np.linalg.LinAlgError:
        values = errors = pd.Series(dtype=float)
    fill = 0.0 if statistic.kind in CELLS else np.nan
    values, errors = (x.reindex(truth.index).fillna(fill) for x in (values, errors))
    return (values - truth).abs() <= Z * errors


def run(name: str, epsilon: float, seed: int) -> Row:
    """Return the intervals of one fit and, of the first fits, naive ones."""
    people = populations(name)
    model, seconds = fit_or_load(name, epsilon, seed, people)
    tables: dict[str, Any] = {
        "reference": Reference(model, random_state=seed),
        "private": private_table(name, seed),
    }
    if seed < NAIVE:
        tables["synthetic"] = model.sample(random_state=seed)
    if seed < ORACLES:
        tables["population"] = Reference(model, seed, people.table)
    classes: dict[str, dict[str, list[Any]]] = {}
    for statistic, (truth, rare) in zip(STATISTICS[name], truths(name), strict=True):
        for kind, row in coverage_by_class(statistic, truth, rare, tables):
            into = classes.setdefault(kind, {key: [] for key in row})
            for key, values in row.items():
                into[key] += values
    return {
        "classes": {kind: summary(results) for kind, results in classes.items()},
        "cpu_seconds": round(seconds, 1),
    }


def run_implicates(name: str, epsilon: float, seed: int) -> dict[str, Any]:
    """Return intervals that pool textbook analyses of the implicates of one fit: of statistics that the counts show, and of others."""
    model, _ = fit_or_load(name, epsilon, seed, populations(name))
    reference = Reference(model, random_state=seed)
    started = time.process_time()
    tables = model.sample(implicates=IMPLICATES, random_state=seed)
    seconds = time.process_time() - started
    classes: dict[str, list[str]] = {}
    for statistic, (truth, rare) in zip(STATISTICS[name], truths(name), strict=True):
        fill = 0.0 if statistic.kind in CELLS else np.nan
        try:
            results = [[with_text_labels(x) for x in statistic.naive(table)] for table in tables]
        except np.linalg.LinAlgError:
            continue
        values, errors = (
            [x.reindex(truth.index).fillna(fill) for x in part]
            for part in zip(*results, strict=True)
        )
        complete = ~rare & pd.concat(values + errors, axis=1).notna().all(axis=1)
        if not complete.any():
            continue
        out = pool([x[complete] for x in values], [x[complete] ** 2 for x in errors])
        covered = (out["low"] <= truth[complete]) & (truth[complete] <= out["high"])
        supported = (
            with_text_labels(statistic.intervals(reference))
            .reindex(truth.index)["estimate"]
            .notna()
        )
        row = classes.setdefault(statistic.kind, ["", ""])
        for i, which in enumerate((supported[complete], ~supported[complete])):
            row[i] += "".join(str(int(c)) for c in covered[which])
    return {"classes": classes, "cpu_seconds": round(seconds, 1)}


def run_cells_alone(name: str, epsilon: float, seed: int) -> dict[str, Any]:
    """Return :func:`run_implicates` of implicates that are fitted to the counts with equal weights, without sums of scores."""
    with patch.object(implicates, "SUMS_WEIGHT", 0.0):
        return run_implicates(name, epsilon, seed)


def run_plan(name: str, epsilon: float, seed: int) -> dict[str, Any]:
    """Return planned and realised errors of the tables of one fit."""
    people = populations(name)
    model, _ = fit_or_load(name, epsilon, seed, people)
    return {"tables": planned_rows(model, people, seed)}


def run_textbook(name: str, draws: int) -> dict[str, Any]:
    """Return how often logistic coefficients from private tables have no textbook interval, why, and how many intervals cover."""
    people, row = populations(name), {"draws": draws, "intervals": 0, "covered": 0}
    missing: dict[str, int] = {}  # tables without an estimate, by regressors
    constant: dict[str, int] = {}  # the same, by a category with one outcome
    for statistic, (truth, _) in zip(STATISTICS[name], truths(name), strict=True):
        if statistic.constant is None:
            continue
        regressors = ",".join(dict.fromkeys(c.partition("[")[0] for c in truth.index[1:]))
        for seed in range(draws):
            table = people.draw(seed)
            try:
                values, errors = (with_text_labels(x) for x in statistic.naive(table))
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
        sizes[category] = int((people.table[column].astype(str) == value).sum())
    results = {"missing": missing, "constant": constant, "sizes": sizes}
    return {**row, **results}


def summary(results: dict[str, list[Any]]) -> dict[str, Any]:
    """Return a row of the results.

    It has a letter for each statistic, how many of those with an interval have a naive one that covers, and moments of the errors.
    """
    z = np.array(results["z"])
    out = {
        "covered": "".join(results["covered"]),
        "z": [round(float(z.sum()), 3), round(float((z**2).sum()), 3)],
    }
    for name in ("control", "naive"):
        if name in results:
            out[name] = sum(
                n == "1" for n, c in zip(results[name], results["covered"], strict=True) if c != "-"
            )
    if results.get("wider"):
        wide = np.array(results["wider"])
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
