"""Fuzz every reader of files, and write reports/audits/fuzz.json.

    python reports/audits/fuzz.py [--minutes M] [--inputs 114000] [--seed 1] [--only schema,csv] [--saved DIR]

Inputs are made from (reader, seed, number), so that any can be made again. Readers that are missing or stale
(:mod:`evidence`) are measured, each in a process of its own; the figures of the others stay as they are in the file,
if they are of as many inputs and the same seed. What is not a clean refusal
or a success is a finding; its input is saved, and the exit code is 1.
"""

import json
import platform
import shutil
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "tests" / "fuzz"))

import evidence  # noqa: E402
from evidence import CURRENT, FUZZ  # noqa: E402
from fuzzing import MEMORY, SECONDS, Tally, fuzz  # noqa: E402
from readers import READERS  # noqa: E402

import tabsynth  # noqa: E402
from tabsynth._files import write_text  # noqa: E402

INPUTS, SEED = 114_000, 1
# Shares of the inputs; those of slow readers are smaller.
SHARES = {
    "schema": 30,
    "csv": 22,
    "ledger": 14,
    "model": 12,
    "parquet": 10,
    "certificate": 7,
    "checkpoint": 5,
    "linked schema": 5,
    "linked tables": 4,
    "survey table": 4,
}


def run(
    name: str, inputs: int, seed: int, saved: Path, last: float | None
) -> tuple[Tally, list[str]] | None:
    """Fuzz one reader in a folder of its own, in memory where there is one.

    Returns
    -------
    tuple or None
        What became of the inputs, and the modules that this process has imported; None if it is later than
        ``last``, in seconds of :func:`time.time`.
    """
    if last is not None and time.time() > last:
        return None
    memory = Path("/dev/shm")
    folder = Path(tempfile.mkdtemp(dir=memory if memory.is_dir() else None))
    try:
        reader = READERS[name](folder)
        return fuzz(
            name, reader.make, reader.read, inputs, seed, saved
        ), evidence.imported_modules()
    finally:
        shutil.rmtree(folder)


def missing(record: dict[str, Any]) -> list[str]:
    """Return the readers that the record does not have."""
    return [name for name in SHARES if name not in FUZZ.rows(record)]


def main() -> int:
    """Measure what is missing or stale, write it, and print what was found."""
    words = evidence.parser_of(FUZZ, __doc__)
    words.add_argument("--inputs", type=int, default=INPUTS)
    words.add_argument("--seed", type=int, default=SEED)
    words.add_argument("--only", default=",".join(SHARES))
    words.add_argument("--workers", type=int, default=2)
    words.add_argument("--saved", type=Path, default=Path("fuzz-findings"))
    options = words.parse_args()
    module_hashes = evidence.ModuleHashes(Path(tabsynth.__file__).parent)
    record = read_record(options.out, options.inputs, options.seed)
    rows = FUZZ.rows(record)
    remaining = [
        name
        for name in options.only.split(",")
        if options.again
        or evidence.state(record, rows.get(name, {}), module_hashes.before) != CURRENT
    ]
    last = None if options.minutes is None else time.time() + 60 * options.minutes
    clock = evidence.Clock("fuzz")
    any_finding, context = False, get_context("spawn")
    with ProcessPoolExecutor(options.workers, mp_context=context, max_tasks_per_child=1) as pool:
        waiting = {
            pool.submit(
                run, name, inputs_of(name, options.inputs), options.seed, options.saved, last
            ): name
            for name in remaining
        }
        ended = as_completed(waiting)
        for _ in clock.each({name: SHARES[name] for name in remaining}):
            done = next(ended)
            name, result = waiting[done], done.result()
            if result is None:
                print(f"{name}: the time is up; the same command measures it.", flush=True)
                continue
            tally, names = result
            row = tally.to_dict()
            # Another process may have added to it.
            record = read_record(options.out, options.inputs, options.seed)
            evidence.set_modules(record, row, module_hashes.of(names))
            text = evidence.text_of(FUZZ, together(record, name, row))
            write_text(options.out, text, overwrite=True)
            evidence.clear_line()
            print(name, json.dumps(tally.to_dict()), flush=True)
            for finding in tally.findings[:20]:
                print(json.dumps(finding, indent=1), flush=True)
            any_finding = any_finding or bool(tally.findings)
    print(evidence.sentence(FUZZ, evidence.read(options.out), module_hashes.before))
    return 1 if any_finding else 0


def inputs_of(name: str, inputs: int) -> int:
    """Return how many of all inputs one reader gets."""
    return -(-inputs * SHARES[name] // sum(SHARES.values()))


def read_record(path: Path, inputs: int, seed: int) -> dict[str, Any]:
    """Return the record; an empty one if that in the file is of other inputs."""
    record = evidence.read(path)
    command = f"python reports/audits/fuzz.py --inputs {inputs} --seed {seed}"
    return record if record.get("command") == command else {"command": command}


def together(record: dict[str, Any], name: str, row: dict[str, Any]) -> dict[str, Any]:
    """Return the record with the figures of one reader, and with the sums over all readers."""
    rows = {**FUZZ.rows(record), name: row}
    readers = {reader: rows[reader] for reader in SHARES if reader in rows}
    counted = ("inputs", "accepted", "refused", "findings")
    total = {key: sum(result[key] for result in readers.values()) for key in counted}
    about = {
        "python": platform.python_version(),
        "limits": {"seconds_of_cpu": SECONDS, "bytes_of_memory": MEMORY},
    }
    return {**record, **about, **total, "readers": readers}


if __name__ == "__main__":
    sys.exit(main())
