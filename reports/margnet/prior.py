"""MargNet with a public table as a prior: three tables and a public one of each, and two wrong ones.

    python reports/margnet/prior.py                     # runs what is missing, then writes prior.md
    python reports/margnet/prior.py --write             # only writes, from the rows
    python reports/margnet/prior.py --only census-margnet:with

Private are 70% of the 2019 excerpt of the nation, of that of Massachusetts, and of a half of Adult. Public are the excerpts of 2018 and
the other half. The rows are in prior.json.
"""

import sys
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "census"), str(HERE.parent / "benchmark")]
import config as configs  # noqa: E402
import run as census  # noqa: E402  the command line and how figures are shown
import store  # noqa: E402
from ours import OF_PRIOR, PRIORS, PUBLIC_OF, code  # noqa: E402
from runner import Runner, means_of  # noqa: E402
from tables import TABLES  # noqa: E402

from tabsynth.encoding import TableEncoder  # noqa: E402

CONFIG = configs.load(HERE / "prior.toml")
ROWS = CONFIG.store
FIGURES = ("tvd1", "tvd2", "tvd3", "dwpre_macro_mean", "dwpre_weighted_mean")
RUNS = [
    configs.Run(table, f"margnet:{name}", epsilon, seed)
    for seed in CONFIG.seeds
    for name, variant in (PRIORS | OF_PRIOR).items()
    for table, epsilon in variant.cells
]


def fit(runner: Runner, run: configs.Run, folder: Path) -> dict:
    """Fit and score one variant."""
    out, variant = folder / "synthetic.csv", run.system.partition(":")[2]
    limit = CONFIG.limits["ours"]
    what = [sys.executable, HERE / "ours.py", run.table, run.epsilon, run.seed, variant, limit, out]
    result = runner.process(what, limit)
    if "stopped" not in result:
        result |= means_of(runner.scored(run.table, folder, out)[0])
    return result


def public_itself(runner: Runner, table: str, folder: Path, seed: int | None = None) -> dict:
    """The figures of a public table, as if it were a synthetic one; with a seed, of a sample that is as large as the private one."""
    schema, private, _ = TABLES[table].split()
    codes = TableEncoder(schema).to_index(PUBLIC_OF[table](schema))
    if seed is not None:
        rows = min(len(private), len(codes))
        codes = codes[np.random.default_rng(seed).choice(len(codes), rows, replace=False)]
    pd.DataFrame(codes, columns=schema.names).to_csv(folder / "public.csv", index=False)
    return {"table": table} | means_of(runner.scored(table, folder, folder / "public.csv")[0])


def public_keys(table: str) -> dict[str, int | None]:
    """Rows of a public table itself, and the seeds of its samples."""
    return {f"{table}-public": None} | {f"{table}-public-sample-{s}": s for s in CONFIG.seeds}


def run_all(only: str | None) -> None:
    runner = Runner(CONFIG, only)
    with tempfile.TemporaryDirectory() as scratch:
        for table in PUBLIC_OF:
            for key, seed in public_keys(table).items():
                if key not in store.load(ROWS) and (not only or only in key):
                    folder = runner.table(table, Path(scratch))
                    store.add(ROWS, {key: public_itself(runner, table, folder, seed)})
        for run in RUNS:
            if run.key in store.load(ROWS) or (only and only not in run.key):
                continue
            result = fit(runner, run, runner.table(run.table, Path(scratch)))
            store.add(ROWS, {run.key: vars(run) | result})
            print(run.key, result.get("tvd2"), result.get("stopped", ""), flush=True)


def line(what: str, epsilon: float | None, rows: list[dict]) -> str:
    """A row of the table: mean ± standard deviation over seeds."""
    cells = [census.mean_sd([r[name] for r in rows]) for name in FIGURES]
    timed = [r["cpu_seconds"] for r in rows if "cpu_seconds" in r]
    shares = [(r.get("use") or {}).get("share_of_rows", 0.0) for r in rows]
    used = "–" if epsilon is None else f"{np.mean(shares):.2f}"
    time = f"{np.mean(timed):.0f}" if timed else "–"
    head = f"| {what} | " + ("–" if epsilon is None else f"{epsilon:g}")
    return f"{head} | " + " | ".join([*cells, used, time, str(len(rows))]) + " |"


def figures(table: str) -> list[str]:
    """The table of figures of one table, and what is missing."""
    rows = store.load(ROWS)
    head = "| ε | tvd1 | tvd2 | tvd3 | F1 macro | F1 weighted | public share | CPU s | seeds |"
    lines = [f"| {TABLES[table].title} {head}", "|" + "---|" * 10]
    itself, *samples = public_keys(table)
    if itself in rows:
        lines.append(line("the public table itself", None, [rows[itself]]))
    if sampled := [rows[key] for key in samples if key in rows]:
        lines.append(line("samples of it, as large as the private table", None, sampled))
    missing, earlier = list[str](), list[str]()
    for epsilon in CONFIG.epsilons:
        for name, variant in (PRIORS | OF_PRIOR).items():
            if (table, epsilon) not in variant.cells:
                continue
            runs = [configs.Run(table, f"margnet:{name}", epsilon, s) for s in CONFIG.seeds]
            done = [rows[r.key] for r in runs if "tvd2" in rows.get(r.key, {})]
            if done:
                lines.append(line(variant.title, epsilon, done))
            if any(row["code"] != code() for row in done):
                earlier.append(f"{variant.title}, ε = {epsilon:g}")
            if len(done) < len(runs):
                missing.append(f"{variant.title}, ε = {epsilon:g}: {len(runs) - len(done)} seeds")
    note = "Not run: " + "; ".join(missing) if missing else "All runs of this table were made"
    before = [f"With earlier sources: {'; '.join(earlier)}.", ""] if earlier else []
    return [*lines, "", note + ".", "", *before]


def write_page() -> None:
    page = (HERE / "prior-template.md").read_text("utf-8")
    lines = [text for table in PUBLIC_OF for text in figures(table)]
    (HERE / "prior.md").write_text(page.replace("<!-- FIGURES -->", "\n".join(lines)), "utf-8")


if __name__ == "__main__":
    census.command(__doc__.splitlines()[0], run_all, write_page)
