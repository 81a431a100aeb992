"""Record and replay (R1): every method on every kind of neighbour, 20 seeds; every variant, one seed.

    python reports/audits/replays.py [--minutes M] [--seeds 20] [--variant-seeds 1] [--only NAME]

Results go to replays.json beside this script after each seed of a system. Seeds that are missing are measured, and a
system that is stale (:mod:`evidence`) begins again with its first seed, so that an interrupted run can be resumed. The
table is made up, 60 rows of four columns; networks are tiny and epsilon is 60, where accounting
is quick: a leak that a replay finds is one of control flow, whatever the size and the noise.
"""

import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import evidence
import torch
from evidence import CURRENT, REPLAYS

sys.path.append(str(Path(__file__).resolve().parents[2] / "tests"))
sys.path.append(str(Path(__file__).resolve().parents[2] / "tests" / "audit"))
from record_replay import neighbours, replay, replay_on_neighbours
from record_replay.linked import linked_neighbours
from systems import (
    linked_system_names,
    make_tiny_linked_model,
    make_tiny_model,
    system_names,
)

import tabsynth
from tabsynth._files import write_text
from tabsynth.auditing import linked_datasets
from tabsynth.auditing.replay_audit import ROWS, SCHEMA, make_table
from tabsynth.synthesizers.estimator import LINKED, METHODS

PUBLISHED = "evaluate(epsilon=…)"
# Systems whose rows are counted where they are, by the name of the form in which a table comes in.
COUNTED = {
    "margnet, counted by DuckDB": "DuckDB",
    "margnet, counted by Polars": "polars, lazy",
    "margnet, counted from Parquet": "Parquet folder",
}
EPSILON = 60.0
SEEDS, VARIANT_SEEDS = 20, 1
SECONDS = 10.0  # expected of a seed of a system of which no time is known


def replay_seed(system: str, seed: int) -> list[dict[str, Any]]:
    """Return a line for each neighbour of the table of that seed."""
    if system in linked_system_names():
        schema = linked_datasets.SCHEMA
        linked = make_tiny_linked_model(system, schema, epsilon=EPSILON)
        pairs = linked_neighbours(linked_datasets.make_tables(seed), schema, seed)
        listed = replay_on_neighbours(system, linked, pairs, seed)
        return [line.to_dict() for line in listed]
    if system in COUNTED:
        return found_by_counts(COUNTED[system], seed)
    if system != PUBLISHED:
        model = make_tiny_model(system, SCHEMA, epsilon=EPSILON)
        schema = model.schema or SCHEMA
        pairs = neighbours(make_table(seed), schema, seed=seed)
        listed = replay_on_neighbours(system, model, pairs, seed)
        return [line.to_dict() for line in listed]
    # Imported here: the other systems do not depend on the modules of the reports.
    from replay_published import replay_published

    model = make_tiny_model("margnet", SCHEMA, epsilon=EPSILON)  # not seeded: a release
    synthetic = model.fit(make_table(seed)).sample(ROWS)
    lines = []
    for pair in neighbours(make_table(seed), SCHEMA, seed=seed):
        result = replay_published(
            pair.table, pair.neighbour, synthetic, SCHEMA, epsilon=1.0, seed=seed
        )
        lines.append({"kind": pair.kind, "change": pair.change, **result.to_dict()})
    return lines


def found_by_counts(form: str, seed: int) -> list[dict[str, Any]]:
    """Return a line for each neighbour, where an engine or a reader of files counts the rows."""
    from replay_readers import FORMS

    lines = []
    for pair in neighbours(make_table(seed), SCHEMA, seed=seed):
        model = make_tiny_model("margnet", SCHEMA, epsilon=EPSILON)
        with tempfile.TemporaryDirectory() as folder:
            tables = []
            for name, table in (("table", pair.table), ("neighbour", pair.neighbour)):
                (Path(folder) / name).mkdir()
                tables.append(FORMS[form](table, SCHEMA, Path(folder) / name))
            result = replay(model, *tables, seed=seed)
        lines.append({"kind": pair.kind, "change": pair.change, **result.to_dict()})
    return lines


def add_seed(stored: dict[str, Any], lines: list[dict[str, Any]], seed: int) -> dict[str, Any]:
    """Return the results of a system with those of one more seed."""
    cells = stored.setdefault("neighbours", {})
    for line in lines:
        cell = cells.setdefault(
            f"{line['kind']}, {line['change']}",
            {"runs": 0, "passed": 0, "worst_move": 0.0, "first_differences": []},
        )
        cell["runs"] += 1
        cell["passed"] += line["passed"]
        cell["worst_move"] = max(cell["worst_move"], float(line["worst_move"]))
        if not line["passed"]:
            cell["first_differences"].append(f"seed {seed}: {line['first_difference']}")
    stored.setdefault("seeds", []).append(seed)
    stored["compared"] = stored.get("compared", 0) + sum(line["compared"] for line in lines)
    return stored


def plan(seeds: int, variant_seeds: int) -> list[tuple[str, int]]:
    """Return the systems with their seeds: a first seed of all, then a second; what imports further modules comes last."""
    defaults = (*METHODS, *LINKED)
    names = [*system_names(), *COUNTED, *linked_system_names()]
    names = sorted(names, key=lambda name: name not in defaults)  # the methods' defaults first
    dealt = [
        (name, seed)
        for seed in range(max(seeds, variant_seeds))
        for name in names
        if seed < (seeds if name in defaults else variant_seeds)
    ]
    return dealt + [(PUBLISHED, seed) for seed in range(seeds)]


def missing(
    record: dict[str, Any], seeds: int = SEEDS, variant_seeds: int = VARIANT_SEEDS
) -> list[str]:
    """Return the systems of which the record lacks a seed."""
    rows = REPLAYS.rows(record)
    absent = [
        name
        for name, seed in plan(seeds, variant_seeds)
        if seed not in rows.get(name, {}).get("seeds", [])
    ]
    return list(dict.fromkeys(absent))


def main() -> None:
    """Measure what is missing or stale."""
    parser = evidence.parser_of(REPLAYS, __doc__)
    parser.add_argument("--seeds", type=int, default=SEEDS, help="of each method's default")
    parser.add_argument(
        "--variant-seeds", type=int, default=VARIANT_SEEDS, help="of every other system"
    )
    parser.add_argument("--only", default="", help="names of systems begin so")
    options = parser.parse_args()
    torch.set_num_threads(1)
    module_hashes = evidence.ModuleHashes(Path(tabsynth.__file__).parent)
    planned = plan(options.seeds, options.variant_seeds)
    record = read_record(options.out, planned)
    stored = record["systems"]
    # Earlier results of these are dropped when their first seed is measured.
    restarted = {
        name
        for name, row in stored.items()
        if options.again or evidence.state(record, row, module_hashes.before) != CURRENT
    }
    remaining = {
        (name, seed): seconds(stored.get(name, {}))
        for name, seed in planned
        if name.startswith(options.only)
        if name in restarted or seed not in stored.get(name, {}).get("seeds", [])
    }
    for name, seed in evidence.Clock("replays", options.minutes).each(remaining):
        started = time.process_time()
        lines = replay_seed(name, seed)
        record = read_record(options.out, planned)  # another process may have added to it
        row = {} if name in restarted else record["systems"].get(name, {})
        modules = evidence.modules_of_row(record, row) | module_hashes.of(
            evidence.imported_modules()
        )
        spent = row.get("cpu_seconds", 0.0) + time.process_time() - started
        row = {**add_seed(row, lines, seed), "cpu_seconds": round(spent, 1)}
        evidence.set_modules(record, row, modules)
        record["systems"][name] = row
        restarted.discard(name)
        write_text(options.out, evidence.text_of(REPLAYS, record), overwrite=True)
    cells = [cell for row in record["systems"].values() for cell in row["neighbours"].values()]
    failed = sum(cell["runs"] - cell["passed"] for cell in cells)
    print(f"{sum(cell['runs'] for cell in cells)} replays, {failed} failed")
    print(evidence.sentence(REPLAYS, record, module_hashes.before))


def read_record(path: Path, planned: list[tuple[str, int]]) -> dict[str, Any]:
    """Return the record, without systems that are no longer measured."""
    record = evidence.read(path)
    rows, names = REPLAYS.rows(record), dict.fromkeys(name for name, _ in planned)
    stored = {name: rows[name] for name in names if name in rows}
    return {**record, "epsilon": EPSILON, "rows": ROWS, "systems": stored}


def seconds(row: dict[str, Any]) -> float:
    """Return the expected CPU seconds of one seed of a system."""
    return row.get("cpu_seconds", SECONDS) / max(1, len(row.get("seeds", [])))


if __name__ == "__main__":
    main()
