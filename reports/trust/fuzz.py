"""Fuzz every reader of files, and write reports/trust/fuzz.json.

    python reports/trust/fuzz.py [--inputs 110000] [--seed 1] [--only schema,csv] [--saved DIR]

Inputs are made from (reader, seed, number), so that any can be made again; with --only, the figures of
the other readers stay as they are in the file. What is not a clean refusal
or a success is a finding; its input is saved, and the exit code is 1.
"""

import argparse
import json
import platform
import shutil
import sys
import tempfile
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "tests" / "fuzz"))

from fuzzing import MEMORY, SECONDS, Tally, fuzz  # noqa: E402
from readers import READERS  # noqa: E402

# Shares of the inputs; those of slow readers are smaller.
SHARES = {
    "schema": 30,
    "csv": 22,
    "ledger": 14,
    "model": 12,
    "parquet": 10,
    "certificate": 7,
    "checkpoint": 5,
}


def run(name: str, inputs: int, seed: int, saved: Path) -> Tally:
    """Fuzz one reader in a folder of its own, in memory where there is one."""
    memory = Path("/dev/shm")
    folder = Path(tempfile.mkdtemp(dir=memory if memory.is_dir() else None))
    try:
        reader = READERS[name](folder)
        return fuzz(name, reader.make, reader.read, inputs, seed, saved)
    finally:
        shutil.rmtree(folder)


def main() -> int:
    """Run, write, and say what was found."""
    words = argparse.ArgumentParser(description=__doc__)
    words.add_argument("--inputs", type=int, default=110_000)
    words.add_argument("--seed", type=int, default=1)
    words.add_argument("--only", default=",".join(SHARES))
    words.add_argument("--workers", type=int, default=2)
    words.add_argument("--saved", type=Path, default=Path("fuzz-findings"))
    words.add_argument("--out", type=Path, default=HERE / "fuzz.json")
    asked = words.parse_args()
    shares = {name: SHARES[name] for name in asked.only.split(",")}
    tallies = {}
    with ProcessPoolExecutor(asked.workers, mp_context=get_context("spawn")) as pool:
        waiting = {
            pool.submit(
                run, name, -(-asked.inputs * share // sum(SHARES.values())), asked.seed, asked.saved
            ): name
            for name, share in shares.items()
        }
        for done in as_completed(waiting):
            name = waiting[done]
            tallies[name] = done.result()
            print(name, json.dumps(tallies[name].to_dict()), flush=True)
            for finding in tallies[name].findings[:20]:
                print(json.dumps(finding, indent=1), flush=True)
    facts = together({name: tally.to_dict() for name, tally in tallies.items()}, asked)
    asked.out.write_text(json.dumps(facts, indent=1) + "\n")
    return 1 if any(tally.findings for tally in tallies.values()) else 0


def together(new: dict[str, Any], asked: argparse.Namespace) -> dict[str, Any]:
    """All readers' figures: those of this run, and of earlier runs of the same inputs for the others."""
    about = {
        "command": f"python reports/trust/fuzz.py --inputs {asked.inputs} --seed {asked.seed}",
        "python": platform.python_version(),
        "limits": {"seconds_of_cpu": SECONDS, "bytes_of_memory": MEMORY},
    }
    before = json.loads(asked.out.read_text()) if asked.out.exists() else {}
    kept = before.get("readers", {}) if before.get("command") == about["command"] else {}
    readers = {name: {**kept, **new}[name] for name in SHARES if name in {**kept, **new}}
    counted = ("inputs", "accepted", "refused", "findings")
    total = {key: sum(found[key] for found in readers.values()) for key in counted}
    return {**about, **total, "readers": readers}


if __name__ == "__main__":
    sys.exit(main())
