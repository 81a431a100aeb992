"""One fit of a system of tabsynth in a process of its own, so that its time and memory are its own.

    python fit.py CONFIG TABLE SYSTEM EPSILON SEED OUT

It writes the synthetic rows as category codes, and prints the cost of the fit.
"""

import inspect
import json
import resource
import sys
import time
from pathlib import Path
from typing import Any

import config as configs
import pandas as pd
from limits import limit_cpu
from tables import Table

import tabsynth
from tabsynth import Schema
from tabsynth.encoding import TableEncoder
from tabsynth.synthesizers import METHODS, Synthesizer


def build(system: configs.System, table: Table, schema: Schema, **budget: Any) -> Synthesizer:
    """Return the estimator, as a user gets it by default but for the system's options."""
    options = dict(system.options)
    method = METHODS[system.method]
    if "class_column" in inspect.signature(method).parameters:
        options.setdefault("class_column", table.target)
    return method(schema, **budget, **options)


def fit_and_sample(model: Synthesizer, train: pd.DataFrame, out: str) -> dict[str, Any]:
    """Fit, write as many rows as were fitted, and return the cost."""
    started, cpu = time.perf_counter(), time.process_time()
    model.fit(train)
    results = {"seconds": time.perf_counter() - started, "cpu_seconds": time.process_time() - cpu}
    rows = model.sample(len(train))
    sampled = time.perf_counter() - started - results["seconds"]
    codes = TableEncoder(model.schema).to_index(rows)
    pd.DataFrame(codes, columns=model.schema.names).to_csv(out, index=False)
    certificate = model.certificate()
    return {
        **results,
        "sample_seconds": sampled,
        "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "spent": certificate["epsilon"],
        "code": certificate["code"]["sha256"][:12],
        "release": tabsynth.__version__,
    }


def main(path: str, table: str, system: str, epsilon: str, seed: str, out: str) -> dict[str, Any]:
    """Fit one system on one table and return the cost."""
    config = configs.load(Path(path))
    limit_cpu(config.limit)
    chosen = config.tables[table]
    schema, train, _ = chosen.split()
    budget = {"epsilon": float(epsilon), "delta": config.delta, "random_state": int(seed)}
    return fit_and_sample(build(config.systems[system], chosen, schema, **budget), train, out)


if __name__ == "__main__":
    print(json.dumps(main(*sys.argv[1:])))
