"""Fuzz every reader of files, and write reports/trust/fuzz.json.

    python reports/trust/fuzz.py [--inputs 110000] [--seed 1] [--only schema,csv] [--saved DIR]

Inputs are made from (reader, seed, number), so that any can be made again. What is not a clean refusal
or a success is a finding; its input is saved, and the exit code is 1.
"""

import argparse
import json
import platform
import shutil
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "tests" / "fuzz"))

from fuzzing import MEMORY, SECONDS, fuzz  # noqa: E402
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


def main() -> int:
    """Run, write, and say what was found."""
    words = argparse.ArgumentParser(description=__doc__)
    words.add_argument("--inputs", type=int, default=110_000)
    words.add_argument("--seed", type=int, default=1)
    words.add_argument("--only", default=",".join(SHARES))
    words.add_argument("--saved", type=Path, default=Path("fuzz-findings"))
    words.add_argument("--out", type=Path, default=HERE / "fuzz.json")
    asked = words.parse_args()
    shares = {name: SHARES[name] for name in asked.only.split(",")}
    memory = Path("/dev/shm")
    tallies = {}
    for name, share in shares.items():
        folder = Path(tempfile.mkdtemp(dir=memory if memory.is_dir() else None))
        try:
            reader = READERS[name](folder)
            count = -(-asked.inputs * share // sum(shares.values()))
            tally = fuzz(name, reader.make, reader.read, count, asked.seed, asked.saved)
        finally:
            shutil.rmtree(folder)
        tallies[name] = tally
        print(name, json.dumps(tally.to_dict()), flush=True)
        for finding in tally.findings[:20]:
            print(json.dumps(finding, indent=1), flush=True)
    readers = {name: tally.to_dict() for name, tally in tallies.items()}
    total = {
        key: sum(found[key] for found in readers.values())
        for key in ("inputs", "accepted", "refused", "findings")
    }
    facts = {
        "command": "python reports/trust/fuzz.py",
        "seed": asked.seed,
        "python": platform.python_version(),
        "limits": {"seconds_of_cpu": SECONDS, "bytes_of_memory": MEMORY},
        **total,
        "readers": readers,
    }
    asked.out.write_text(json.dumps(facts, indent=1) + "\n")
    return 1 if total["findings"] else 0


if __name__ == "__main__":
    sys.exit(main())
