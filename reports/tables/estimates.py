"""The time that a plan estimates, compared with the time that the fit takes, on real tables.

``OMP_NUM_THREADS=1 python reports/tables/estimates.py`` is run by the harness. Both times are CPU seconds of one thread, so
that other jobs do not count.
"""

import sys
import time
from pathlib import Path
from unittest import mock

REPORTS = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(REPORTS), str(REPORTS / "benchmark")]

import torch  # noqa: E402
from harness import Row, Rows, Study, fill, releases, table  # noqa: E402
from tables import TABLES  # noqa: E402

from tabsynth.synthesizers import METHODS  # noqa: E402
from tabsynth.synthesizers import plan as planning  # noqa: E402

RUNS = [
    *(("margnet", t, 1.0) for t in ("hospital", "census", "census-24", "adult")),
    *(("dp-wgan", t, 1.0) for t in ("hospital", "census-24", "adult", "census")),
    *(("margnet", t, 8.0) for t in ("hospital", "census", "census-24", "adult")),
]
SETTINGS = {
    f"{method}-{name}-{epsilon:g}": (method, name, epsilon) for method, name, epsilon in RUNS
}
FACTOR = 2.0
HEAD = ["method", "table", "ε", "rows", "estimate, s", "fit, s", "estimate / fit", "estimating, s"]


def measure(setting: tuple[str, str, float]) -> Row:
    """Plan and fit once, with the number of rows declared."""
    method, name, epsilon = setting
    torch.set_num_threads(1)
    schema, train, _ = TABLES[name].split()
    model = METHODS[method](schema, epsilon=epsilon, rows=len(train), random_state=0)
    # Progress of the trial is stamped with the CPU's clock.
    with mock.patch.object(planning.time, "monotonic", time.process_time):
        started = time.process_time()
        estimate = model.plan().seconds
        planned = time.process_time()
    model.fit(train)
    return {
        "rows": len(train),
        "told": round(estimate, 1),
        "taken": round(time.process_time() - planned, 1),
        "estimating": round(planned - started, 1),
    }


def page(rows: Rows) -> str:
    """Return the page."""
    cells = [
        [
            f"`{method}`",
            TABLES[name].title,
            f"{epsilon:g}",
            f"{row['rows']:,}",
            f"{row['told']:.0f}",
            f"{row['taken']:.0f}",
            f"{row['told'] / row['taken']:.2f}",
            f"{row['estimating']:.1f}",
        ]
        for key, (method, name, epsilon) in SETTINGS.items()
        if (row := rows.get(key))
    ]
    ratios = [row["told"] / row["taken"] for row in rows.values()]
    within = sum(1 / FACTOR <= ratio <= FACTOR for ratio in ratios)
    parts = {
        "TABLE": table(HEAD, cells),
        "WITHIN": f"{within} of {len(ratios)} estimates are within a factor of {FACTOR:g}.",
        "RELEASE": releases(rows.values()),
    }
    return fill(Path(__file__).with_name("estimates.template.md"), parts)


STUDY = Study(script=Path(__file__).resolve(), settings=SETTINGS, measure=measure, page=page)

if __name__ == "__main__":
    STUDY.main()
