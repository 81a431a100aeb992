"""Seeded fits of every method and option, as hashes: a change of structure alone leaves them equal.

    python tests/seeded_outputs.py RECORD            # compares with a record, a JSON file
    python tests/seeded_outputs.py RECORD --write    # records the outputs of the present code

A record has, for each of ``systems`` and each of two seeds, the SHA-256 of a seeded sample, ε and the
mechanisms. Hashes depend on the versions of torch and numpy and on the processor, so no test reads them: record on the
machine on which you compare. Before a change of structure, record; after it, compare.
"""

import argparse
import hashlib
import json
import os
import sys
import warnings
from pathlib import Path
from typing import Any

os.environ["OMP_NUM_THREADS"] = "1"  # before torch is imported

import numpy as np
import pandas as pd
from systems import (
    DRAFTS,
    SYSTEMS,
    linked_system_names,
    list_systems,
    make_tiny_linked_model,
)
from systems.form import Request, draw_rows

from tabsynth.auditing import linked_datasets
from tabsynth.schema.column import Column
from tabsynth.schema.schema import Schema
from tabsynth.synthesizers.estimator import METHODS

SEEDS = (1, 2)
ROWS, EPSILON, DRAFT_EPSILON = 60, 3.0, 50.0
SCHEMA = Schema(
    [
        Column(name="sex", kind="categorical", dtype="str", categories=("f", "m")),
        Column(name="region", kind="categorical", dtype="str", categories=tuple("abcd"), nulls=True),
        Column(name="grade", kind="ordinal", dtype="int64", categories=(1, 2, 3)),
        Column(name="age", kind="numeric", dtype="int64", low=0, high=99, bins=10),
        Column(name="wage", kind="numeric", dtype="float64", low=0, high=1000, bins=8, nulls=True, resolution=0.01),
        Column(name="since", kind="date", dtype="datetime64[us]", low="2000-01-01", high="2009-12-31", clip=True),
    ]
)  # fmt: skip


def digest(tables: dict[str, pd.DataFrame]) -> str:
    """Return the SHA-256 of tables as CSV, with their dtypes."""
    parts = [f"{name}\n{t.dtypes.to_dict()}\n{t.to_csv(index=False)}" for name, t in tables.items()]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def entry(model: Any, tables: dict[str, pd.DataFrame]) -> dict[str, Any]:
    """Return what is recorded of a fitted model and its sample."""
    certificate = model.certificate()
    return {
        "sample": digest(tables),
        "epsilon": certificate["epsilon"],
        "mechanisms": model.ledger_.to_list(),
    }


def fit_system(name: str, seed: int) -> dict[str, Any]:
    """Fit a system of a method of single tables, and draw a sample."""
    method, options = list_systems()[name]
    options = dict(options)
    drafts = options.pop(DRAFTS, False)
    epsilon = DRAFT_EPSILON if drafts else EPSILON
    request = Request(schema=SCHEMA, epsilon=epsilon)
    schema, parameters = SYSTEMS[method].tiny(options, request)
    table = draw_rows(schema, 400 if drafts else ROWS, 0)
    rng = np.random.default_rng(5)
    if schema.unit is not None:
        table[schema.unit] = rng.integers(0, ROWS // 3, len(table))
    if schema.weight is not None:
        table[schema.weight] = rng.uniform(0.1, 40, len(table))
    model = METHODS[method](
        None if drafts else schema,
        epsilon=epsilon,
        random_state=seed,
        accept_drafted_domain=True,
        device="cpu",
        **parameters,
    ).fit(table)
    return entry(model, {"": model.sample(200, random_state=seed + 10)})


def fit_linked(name: str, seed: int) -> dict[str, Any]:
    """Fit a system of linked tables, and draw a sample."""
    model = make_tiny_linked_model(name, linked_datasets.SCHEMA, epsilon=EPSILON)
    model.set_params(random_state=seed).fit(linked_datasets.make_tables(0))
    return entry(model, model.sample(50, random_state=seed + 10))


def record() -> dict[str, dict[str, Any]]:
    """Return the outputs of the present code, by system and seed."""
    out = {}
    for names, fit in ((list_systems(), fit_system), (linked_system_names(), fit_linked)):
        for name in names:
            for seed in SEEDS:
                out[f"{name}, seed {seed}"] = fit(name, seed)
                print(name, seed, file=sys.stderr)
    return out


def main() -> int:
    """Record or compare; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("record", type=Path, help="file with the outputs, as JSON")
    parser.add_argument("--write", action="store_true", help="record in place of comparing")
    warnings.simplefilter("ignore")
    arguments = parser.parse_args()
    outputs = record()
    if arguments.write:
        arguments.record.write_text(json.dumps(outputs, indent=1) + "\n", "utf-8")
        return 0
    before = json.loads(arguments.record.read_text("utf-8"))
    changed = [
        name for name in sorted({*before, *outputs}) if before.get(name) != outputs.get(name)
    ]
    print(f"{len(outputs) - len(changed)} of {len(outputs)} outputs are equal.")
    for name in changed:
        print(f"changed: {name}")
    return bool(changed)


if __name__ == "__main__":
    sys.exit(main())
