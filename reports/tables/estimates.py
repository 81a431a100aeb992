"""The time that a plan tells against the time that the fit takes, on the real tables.

``OMP_NUM_THREADS=1 python reports/tables/estimates.py`` measures what estimates.json lacks and writes estimates.md;
``--page`` writes the page alone. Both times are CPU seconds of one thread, so that other jobs do not count.
"""

import json
import sys
import time
from pathlib import Path
from typing import Any
from unittest import mock

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE.parent / "benchmark")]

import torch  # noqa: E402
from tables import TABLES  # noqa: E402

from tabsynth.privacy.certificate.certificate import code  # noqa: E402
from tabsynth.synthesizers import METHODS, timing  # noqa: E402

RESULTS = HERE / "estimates.json"
RUNS = [
    *(("margnet", t, 1.0) for t in ("hospital", "census", "census-24", "adult")),
    *(("dp-wgan", t, 1.0) for t in ("hospital", "census-24", "adult", "census")),
    *(("margnet", t, 8.0) for t in ("hospital", "census", "census-24", "adult")),
]
FACTOR = 2.0


def run(method: str, table: str, epsilon: float) -> dict[str, Any]:
    """Plan and fit once, with the number of rows declared."""
    schema, train, _ = TABLES[table].split()
    model = METHODS[method](schema, epsilon=epsilon, rows=len(train), random_state=0)
    # Progress of the trial is stamped with the CPU's clock.
    with mock.patch.object(timing.time, "monotonic", time.process_time):
        started = time.process_time()
        told = model.plan().seconds
        planned = time.process_time()
    model.fit(train)
    return {
        "rows": len(train),
        "told": round(told, 1),
        "taken": round(time.process_time() - planned, 1),
        "estimating": round(planned - started, 1),
        "code": code()["sha256"][:12],
    }


def page(results: dict[str, Any]) -> str:
    """The page of the results."""
    lines = [
        "# Estimates of time",
        "",
        "What `plan` tells before a fit, with the number of rows declared, and what the fit then takes: CPU seconds of one"
        " thread, one fit each. `python reports/tables/estimates.py` writes this page."
        " It needs [benchmark files](../../data/README.md#benchmark-files).",
        "",
        "| method | table | ε | rows | told, s | taken, s | told / taken | estimating, s |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for method, table, epsilon in RUNS:
        row = results.get(f"{method}-{table}-{epsilon:g}")
        if row:
            ratio = row["told"] / row["taken"]
            lines.append(
                f"| `{method}` | {TABLES[table].title} | {epsilon:g} | {row['rows']:,} | {row['told']:.0f} |"
                f" {row['taken']:.0f} | {ratio:.2f} | {row['estimating']:.1f} |"
            )
    ratios = [row["told"] / row["taken"] for row in results.values()]
    within = sum(1 / FACTOR <= ratio <= FACTOR for ratio in ratios)
    hashes = sorted({row["code"] for row in results.values()})
    lines += [
        "",
        f"{within} of {len(ratios)} estimates are within a factor of {FACTOR:g}. Measured with code {', '.join(hashes)}.",
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measure what is missing, then write the page."""
    torch.set_num_threads(1)
    results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    for one in [] if "--page" in sys.argv else RUNS:
        key = f"{one[0]}-{one[1]}-{one[2]:g}"
        if key not in results:
            results[key] = run(*one)
            RESULTS.write_text(json.dumps(results, indent=1, sort_keys=True) + "\n")
            print(key, results[key], flush=True)
    (HERE / "estimates.md").write_text(page(results))


if __name__ == "__main__":
    main()
