"""One fit of one of ours in a process of its own, so that its time and memory are its own.

    python fit.py CONFIG TABLE SYSTEM EPSILON SEED OUT

Writes the synthetic rows as value numbers, and prints what the fit cost.
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


def build(system: configs.System, table: Table, schema: Schema, **price: Any) -> Synthesizer:
    """The estimator, as a user gets it by default but for the system's options."""
    options = dict(system.options)
    method = METHODS[system.method]
    if "label" in inspect.signature(method).parameters:
        options.setdefault("label", table.target)
    return method(schema, **price, **options)


def fitted(model: Synthesizer, train: pd.DataFrame, out: str) -> dict[str, Any]:
    """Fit, write as many rows as were fitted, say what it cost."""
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
        "release": tabsynth.__version__,
    }


def main(path: str, table: str, system: str, epsilon: str, seed: str, out: str) -> dict[str, Any]:
    config = configs.load(Path(path))
    limit_cpu(config.limit(system))
    chosen = config.tables[table]
    schema, train, _ = chosen.split()
    price = {"epsilon": float(epsilon), "delta": config.delta, "random_state": int(seed)}
    return fitted(build(config.systems[system], chosen, schema, **price), train, out)


if __name__ == "__main__":
    print(json.dumps(main(*sys.argv[1:])))
