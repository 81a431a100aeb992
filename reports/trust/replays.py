"""Record and replay (R1): every method on every kind of neighbour, 20 seeds; every variant, one seed.

    python reports/trust/replays.py [--seeds 20] [--variant-seeds 1] [--only NAME]

Results go to replays.json beside this script after each seed of a system, and a second run goes on from
there. The table is made up, 60 rows of four columns; networks are tiny and epsilon is 60, where accounting
is quick: a leak that a replay finds is one of control flow, whatever the size and the noise.
"""

import argparse
import json
import time
from pathlib import Path
from typing import Any

import torch

from tabsynth._files import write_text
from tabsynth._progress import progress_bar
from tabsynth.audit.replay import audit_replay
from tabsynth.audit.replay_audit import ROWS, SCHEMA, made_up_table
from tabsynth.audit.replay_neighbours import neighbours
from tabsynth.audit.replay_published import replay_published
from tabsynth.audit.replay_systems import systems, tiny
from tabsynth.synthesizers import released
from tabsynth.synthesizers.loading import METHODS

HERE = Path(__file__).resolve().parent
PUBLISHED = "evaluate(epsilon=…)"
EPSILON = 60.0


def found(system: str, seed: int) -> list[dict[str, Any]]:
    """A line for each neighbour of that seed's table."""
    if system != PUBLISHED:
        listed = audit_replay(system, made_up_table(seed), SCHEMA, EPSILON, [seed])
        return [line.to_dict() for line in listed]
    model = tiny("margnet", SCHEMA, epsilon=EPSILON)  # not seeded: a release
    made = model.fit(made_up_table(seed), announce=False).sample(ROWS)
    lines = []
    for pair in neighbours(made_up_table(seed), SCHEMA, seed=seed):
        result = replay_published(pair.table, pair.neighbour, made, SCHEMA, epsilon=1.0, seed=seed)
        lines.append({"kind": pair.kind, "change": pair.change, **result.to_dict()})
    return lines


def merged(known: dict[str, Any], lines: list[dict[str, Any]], seed: int) -> dict[str, Any]:
    """A system's results with those of one more seed."""
    cells = known.setdefault("neighbours", {})
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
    known.setdefault("seeds", []).append(seed)
    known["compared"] = known.get("compared", 0) + sum(line["compared"] for line in lines)
    return known


def main() -> None:
    """Run what is not there yet."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=20, help="of each method's default")
    parser.add_argument("--variant-seeds", type=int, default=1, help="of every other system")
    parser.add_argument("--only", help="names of systems begin so")
    parser.add_argument("--output", type=Path, default=HERE / "replays.json")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    released.RELEASED_ROWS = 1000  # a warm start draws fewer rows
    results = json.loads(asked.output.read_text("utf-8")) if asked.output.exists() else {}
    known = results.setdefault("systems", {})
    results |= {"epsilon": EPSILON, "rows": ROWS}
    names = [n for n in (*systems(), PUBLISHED) if not asked.only or n.startswith(asked.only)]
    names.sort(key=lambda name: name not in METHODS)  # the methods' defaults first
    plan = [  # a first seed of all, then a second …
        (name, seed)
        for seed in range(max(asked.seeds, asked.variant_seeds))
        for name in names
        if seed < (asked.seeds if name in (*METHODS, PUBLISHED) else asked.variant_seeds)
    ]
    with progress_bar(True) as shown:
        for done, (name, seed) in enumerate(plan, 1):
            if seed not in known.get(name, {}).get("seeds", []):
                started = time.process_time()
                known[name] = merged(known.get(name, {}), found(name, seed), seed)
                spent = time.process_time() - started
                known[name]["cpu_seconds"] = round(known[name].get("cpu_seconds", 0) + spent, 1)
                write_text(asked.output, json.dumps(results, indent=1, ensure_ascii=False) + "\n")
            if shown is not None:
                shown("replays", done, len(plan))
    cells = [cell for system in known.values() for cell in system["neighbours"].values()]
    failed = sum(cell["runs"] - cell["passed"] for cell in cells)
    print(f"{sum(cell['runs'] for cell in cells)} replays, {failed} failed")


if __name__ == "__main__":
    main()
