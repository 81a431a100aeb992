"""MargNet by the rules of a leaderboard of verifiable privacy: NIST's national excerpt, 21 of its columns, scored by SDNist.

    TABSYNTH_DATA=FOLDER python reports/benchmark/leaderboard.py               # measures what is missing, then writes leaderboard.md
    TABSYNTH_DATA=FOLDER python reports/benchmark/leaderboard.py --only eps1-  --again

The excerpts are benchmark files of data/README.md; without them nothing is measured. SDNist is installed into an environment of its own, as
peers are. Every fit is a process of its own with one thread.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent), str(HERE.parents[1] / "data")]
os.environ["OMP_NUM_THREADS"] = "1"  # before torch is imported

import config as configs  # noqa: E402
import numpy as np  # noqa: E402
import pandas as pd  # noqa: E402
from benchmark_data import data_file, missing  # noqa: E402
from harness import Study, fill, mean_sd, table  # noqa: E402
from runner import Runner  # noqa: E402
from tables import census_rows  # noqa: E402

from tabsynth import MargNet, Schema  # noqa: E402
from tabsynth.evaluation.utility.marginals import (  # noqa: E402
    distance,
    marginal_sets,
    percentile_bins,
    to_bins,
)

SDNIST = configs.System("sdnist", "SDNist", package="sdnist==2.4", python="3.11")
SCHEMA = Schema.load(HERE / "leaderboard.schema.json")
FILES = ("census_national_2019.csv", "census_national_2018.csv", "census_data_dictionary.json")
GOALS = {1.0: 900, 10.0: 950}
DELTA, SEEDS = 1e-5, range(3)
SUBSAMPLE = 0.4
REFERENCES = {
    "fresh": "other persons: the excerpt of 2018",
    "subsample": f"a random {SUBSAMPLE:.0%} of the private rows",
}
SETTINGS: dict[str, tuple[float, int] | str] = {name: name for name in REFERENCES} | {
    f"eps{epsilon:g}-seed{seed}": (epsilon, seed) for epsilon in GOALS for seed in SEEDS
}


def measure(setting: tuple[float, int] | str) -> dict[str, Any] | None:
    """Return the figures of a reference, or of the synthetic table of a fit; None where it cannot be measured here."""
    if message := missing(*FILES):
        print(f"The leaderboard is left out. {message}", file=sys.stderr)
        return None
    python = Runner(configs.load(HERE / "config.toml")).peer_python(SDNIST)
    if python is None:
        return None
    rows, costs = census_rows(SCHEMA), {}
    if isinstance(setting, str):
        scored = reference(setting, rows)
    else:
        scored, costs = fit_and_sample(rows, *setting)
    return {**by_sdnist(python, scored), "ours": round(own_score(rows, scored), 2), **costs}


def reference(name: str, rows: pd.DataFrame) -> pd.DataFrame:
    """Return real rows to compare the score of a synthetic table with."""
    if name == "fresh":
        return census_rows(SCHEMA, FILES[1])
    return rows.sample(frac=SUBSAMPLE, random_state=0)


def fit_and_sample(
    rows: pd.DataFrame, epsilon: float, seed: int
) -> tuple[pd.DataFrame, dict[str, float]]:
    """Return as many synthetic rows as there are private ones, and what they cost; areas are what the leaderboard compares."""
    model = MargNet(SCHEMA, epsilon=epsilon, delta=DELTA, target="PUMA", random_state=seed)
    started = time.process_time()
    model.fit(rows)
    fitted = time.process_time()
    synthetic = model.sample(len(rows))
    return synthetic, {
        "cpu_seconds": round(fitted - started, 1),
        "sample_seconds": round(time.process_time() - fitted, 1),
        "spent": model.certificate()["epsilon"],
    }


def by_sdnist(python: Path, rows: pd.DataFrame) -> dict[str, Any]:
    """Return SDNist's score of rows, the columns that it scored, and the inconsistent rows that it counts."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "rows.csv")
        rows.to_csv(path, index=False, na_rep="N")  # as the excerpts write null
        command = [python, HERE / "sdnist_score.py", data_file(FILES[0]).parent, path]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])[0]


def own_score(rows: pd.DataFrame, scored: pd.DataFrame) -> float:
    """Return tabsynth's k-marginal score of rows, whose numbers are in the cells of the schema."""
    codes = [
        np.stack([column.encode(part[column.name]) for column in SCHEMA.columns], axis=1)
        for part in (rows, scored)
    ]
    bins = percentile_bins(codes[0], SCHEMA.sizes, [c.scores() for c in SCHEMA.columns])
    sizes = [int(np.max(group)) + 1 for group in bins]
    binned = [to_bins(part, bins) for part in codes]
    sets = marginal_sets(SCHEMA.names)
    return 1000 * (1 - distance(*binned, sets, SCHEMA.names, sizes).mean.value)


def page(rows: dict[str, dict[str, Any]]) -> str:
    """Return the page of all rows."""
    lines = []
    for epsilon, goal in GOALS.items():
        keys = [key for key, setting in SETTINGS.items() if setting[0] == epsilon]
        runs = [rows[key] for key in keys if key in rows]
        of = f"MargNet, ε = {epsilon:g}" + (f" ({len(runs)} seeds)" if runs else "")
        lines.append([of, *cells(runs), str(goal)])
    lines += [
        [of, *cells([rows[name]] if name in rows else []), "–"] for name, of in REFERENCES.items()
    ]
    head = ("rows", "SDNist", "tabsynth's own", "inconsistent rows", "CPU s of fit, sample", "goal")
    return fill(HERE / "leaderboard_template.md", {"SCORES": table(head, lines)})


def cells(runs: list[dict[str, Any]]) -> list[str]:
    """Return the figures of some runs: means, and all their inconsistent rows together."""
    if not runs:
        return ["not measured yet", "–", "–", "–"]
    scores = [mean_sd([run[name] for run in runs], 1) for name in ("k_marginal", "ours")]
    costs = [
        mean_sd([run[name] for run in runs if name in run], 0).split(" ")[0]
        for name in ("cpu_seconds", "sample_seconds")
    ]
    return [
        *scores,
        str(sum(run["inconsistent"] for run in runs)),
        ", ".join(costs) if costs[0] != "–" else "–",
    ]


STUDY = Study(script=Path(__file__), settings=SETTINGS, measure=measure, page=page, apart=True)

if __name__ == "__main__":
    STUDY.main()
