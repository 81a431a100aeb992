"""MargNet against AIM, MST and shuffled columns, on four public tables; and what each design choice gives.

    python reports/margnet/run.py                     # runs what is missing, then writes README.md
    python reports/margnet/run.py --write             # only writes, from results.json
    python reports/margnet/run.py --only census-mst

Needs the tables and the yardstick of ../shared. The peers are installed into an environment of their own
in the folder for temporary files; nothing of them touches this one. Every fit is a process of its own, with
one thread; several of these commands may run at once. All systems get the same rows and the same public
domain, and are scored on the same value numbers. Runs are seeded: the epsilon shown is what the same run
costs without a seed.
"""

import json
import os
import resource
import subprocess
import sys
import tempfile
import venv
import warnings
from pathlib import Path

import numpy as np
import pandas as pd

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "census"))
import run as census  # noqa: E402  the command line and how figures are shown
from ours import VARIANTS, WISHES  # noqa: E402
from tables import DATA, TABLES  # noqa: E402

from tabsynth.encoding import TableEncoder  # noqa: E402

RESULTS = HERE / "results.json"
YARDSTICK = census.SHARED / "yardstick"
PEERS = Path(tempfile.gettempdir()) / "tabsynth-peers"
PEER_PACKAGE = "dpmm==0.1.9"
DELTA = 1e-5
EPSILONS = (0.5, 1.0, 2.0, 8.0)
SEEDS = (0, 1, 2)
LIMIT = 600  # CPU seconds of a fit: what we allow ourselves …
PEER_LIMIT = 1200  # … and the peers
ABLATED = [("census", 1.0), ("census", 8.0), ("hospital", 1.0)]
WISHED_PAIR, WISHED_TARGET = {"PUMA", "AGEP"}, "PINCP_DECILE"
FIGURES = ("tvd1", "tvd2", "tvd3", "dwpre_macro_mean", "dwpre_weighted_mean")


def key_of(table: str, system: str, epsilon: float, seed: int) -> str:
    return f"{table}-{system}-eps{epsilon:g}-seed{seed}"


RUNS = [
    *((t, "margnet", e, s) for s in SEEDS for t in TABLES for e in EPSILONS),
    *((t, "mst", e, s) for s in SEEDS for t in TABLES for e in EPSILONS),
    *((t, "aim", e, s) for s in SEEDS for t in TABLES for e in EPSILONS),
    *((t, f"margnet:{v}", e, s) for v in VARIANTS for t, e in ABLATED for s in SEEDS),
    *(("census", f"margnet:{v}", 1.0, s) for v in WISHES for s in SEEDS),
]


def load_results() -> dict:
    return json.loads(RESULTS.read_text()) if RESULTS.exists() else {}


def store(key: str, found: dict) -> None:
    # Read again: another process may have added a run meanwhile.
    results = dict(sorted((load_results() | {key: found}).items()))
    scratch = RESULTS.with_suffix(f".{os.getpid()}")
    scratch.write_text(json.dumps(results, indent=1) + "\n")
    scratch.replace(RESULTS)


def prepare(folder: Path, table: str) -> None:
    """The split of a table as value numbers, and its public sizes."""
    schema, *parts = TABLES[table].split()
    encoder = TableEncoder(schema)
    for name, rows in zip(("train", "test"), parts, strict=True):
        codes = pd.DataFrame(encoder.to_index(rows), columns=schema.names)
        codes.to_csv(folder / f"{name}.csv", index=False)
    sizes = dict(zip(schema.names, schema.sizes, strict=True))
    (folder / "sizes.json").write_text(json.dumps(sizes))


def score(folder: Path, table: Path) -> dict:
    """The yardstick's figures, its functions called one by one: predictions of wide tables take long."""
    sys.path.insert(0, str(YARDSTICK))
    import yardstick

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of predictors that have not converged
        found = yardstick.score(folder, table)
    kept = {k: v for k, v in found.items() if k in FIGURES or k.startswith(("disclose", "control"))}
    if found["dwpre_weighted"].keys() >= WISHED_PAIR:
        kept["wished_target"] = found["dwpre_weighted"][WISHED_TARGET]
        kept["wished_pair"] = pair_distance(folder / "train.csv", table)
    return kept


def pair_distance(real: Path, synthetic: Path) -> float:
    """Total variation distance of the pair that a user wished for."""
    pair = sorted(WISHED_PAIR)
    shares = [pd.read_csv(path)[pair].value_counts(normalize=True) for path in (real, synthetic)]
    return round(float(shares[0].sub(shares[1], fill_value=0).abs().sum() / 2), 4)


def peer_python() -> Path:
    """The peers' interpreter; their environment is made first where it is not there."""
    python = PEERS / "bin" / "python"
    if not python.exists():
        venv.create(PEERS, with_pip=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", PEER_PACKAGE], check=True)
    return python


def fit(folder: Path, table: str, system: str, epsilon: float, seed: int, out: Path) -> dict:
    """One fit in a process of its own; {"stopped": reason} where it did not end."""
    name, _, variant = system.partition(":")
    if name == "margnet":
        command = [
            sys.executable,
            HERE / "ours.py",
            table,
            epsilon,
            seed,
            variant or "default",
            out,
        ]
    else:
        command = [peer_python(), HERE / "peers.py", name, folder, epsilon, DELTA, seed, out]
    limit = LIMIT if name == "margnet" else PEER_LIMIT
    threads = {f"{library}_NUM_THREADS": "1" for library in ("OMP", "MKL", "OPENBLAS")}
    done = subprocess.run(
        [str(part) for part in command],
        capture_output=True,
        text=True,
        env={**os.environ, **threads},
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (limit, limit + 5)),
    )
    if done.returncode < 0:
        return {"stopped": f"not done after {limit} CPU s"}
    if done.returncode:
        return {"stopped": (done.stderr.strip().splitlines() or ["failed"])[-1][:200]}
    return json.loads(done.stdout.splitlines()[-1])


def references(folder: Path, table: str) -> None:
    """The private rows themselves, the test rows, and shuffled columns."""
    if f"{table}-shuffled" in load_results():
        return
    rows = pd.read_csv(folder / "train.csv")
    rng = np.random.default_rng(0)
    shuffled = pd.DataFrame({c: rows[c].to_numpy()[rng.permutation(len(rows))] for c in rows})
    shuffled.to_csv(folder / "shuffled.csv", index=False)
    for name, file in (("real", "train"), ("fresh", "test"), ("shuffled", "shuffled")):
        store(f"{table}-{name}", {"table": table, **score(folder, folder / f"{file}.csv")})


def run_all(only: str | None) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        for table, system, epsilon, seed in RUNS:
            key = key_of(table, system, epsilon, seed)
            if key in load_results() or (only and only not in key):
                continue
            folder = Path(scratch) / table
            if not folder.exists():
                folder.mkdir()
                prepare(folder, table)
                references(folder, table)
            out = folder / "synthetic.csv"
            found = fit(folder, table, system, epsilon, seed, out)
            if "stopped" not in found:
                found |= score(folder, out)
            run = {"table": table, "system": system, "epsilon": epsilon, "seed": seed}
            store(key, {**run, **found})
            print(
                key,
                found.get("tvd2"),
                found.get("cpu_seconds"),
                found.get("stopped", ""),
                flush=True,
            )


def of(table: str, system: str, epsilon: float) -> list[dict]:
    wanted = {"table": table, "system": system, "epsilon": epsilon}
    return [r for r in load_results().values() if wanted.items() <= r.items()]


def line(what: str, epsilon: str, found: list[dict]) -> str:
    """A row of a table of figures: mean ± standard deviation over seeds."""
    ended = [r for r in found if "stopped" not in r]
    if not ended:
        reason = found[0]["stopped"]
        return f"| {what} | {epsilon} | {reason} |" + " |" * (len(FIGURES) + 2)
    # A classifier of the test rows that is tested on them says nothing.
    shown = FIGURES[:3] if what == FRESH else FIGURES
    cells = [census.mean_sd([r[name] for r in ended]) for name in shown]
    cells += ["–"] * (len(FIGURES) - len(shown))
    time = [
        f"{np.mean([r['cpu_seconds'] for r in ended]):.0f}" if "cpu_seconds" in ended[0] else "–"
    ]
    peak = [f"{max(r['peak_mib'] for r in ended):.0f}" if "peak_mib" in ended[0] else "–"]
    return f"| {what} | {epsilon} | " + " | ".join([*cells, *time, *peak, str(len(ended))]) + " |"


FRESH = "the test rows"
HEAD = "| ε | tvd1 | tvd2 | tvd3 | F1 macro | F1 weighted | CPU s | MiB | seeds |"


def comparison(table: str) -> list[str]:
    lines = [f"| {TABLES[table].title} " + HEAD, "|" + "---|" * 10]
    results = load_results()
    for name, what in (
        ("real", "the private rows themselves"),
        ("fresh", FRESH),
        ("shuffled", "columns shuffled"),
    ):
        if f"{table}-{name}" in results:
            lines.append(line(what, "–", [results[f"{table}-{name}"]]))
    names = {"margnet": "**MargNet**", "aim": "AIM", "mst": "MST"}
    for epsilon in EPSILONS:
        for system, what in names.items():
            if found := of(table, system, epsilon):
                lines.append(line(what, f"{epsilon:g}", found))
    return lines


def ablation() -> list[str]:
    lines = []
    for table, epsilon in ABLATED:
        if not of(table, "margnet:default", epsilon):
            continue
        lines += ["", f"| {TABLES[table].title} " + HEAD, "|" + "---|" * 10]
        for variant, about in VARIANTS.items():
            if found := of(table, f"margnet:{variant}", epsilon):
                lines.append(line(about.title, f"{epsilon:g}", found))
    return lines


def wishes() -> list[str]:
    """What a workload and a target do to what they name, and to the rest."""
    lines = [
        "| census, ε = 1 | tvd of PUMA × AGEP | weighted F1 of PINCP_DECILE | tvd2 | F1 weighted | seeds |",
        "|" + "---|" * 6,
    ]
    names = ("wished_pair", "wished_target", "tvd2", "dwpre_weighted_mean")
    for variant, about in (VARIANTS | WISHES).items():
        found = of("census", f"margnet:{variant}", 1.0)
        if variant in ("default", *WISHES) and found:
            cells = [census.mean_sd([r[name] for r in found]) for name in names]
            lines.append(f"| {about.title} | " + " | ".join([*cells, str(len(found))]) + " |")
    return lines


def disclosure() -> str:
    """Guesses about private records against those about records that were never fitted."""
    cells = []
    for run in load_results().values():
        if run.get("system") == "margnet" and "stopped" not in run:
            for name, value in run.items():
                if name.startswith("disclose"):
                    cells.append(value - run[name.replace("disclose", "control")])
    gaps = np.array(cells)
    return (
        f"Over {len(gaps)} cells (table, ε, seed, s, k) of 300 records each, MargNet's guesses of private"
        f" records' attributes are right {100 * gaps.mean():+.1f} points more often than of controls (standard"
        f" error of a cell about 3 points, largest {100 * gaps.max():.1f})."
    )


def write_readme() -> None:
    page = (HERE / "template.md").read_text("utf-8")
    compared = [part for table in TABLES for part in ["", *comparison(table)]]
    page = page.replace("<!-- COMPARISON -->", "\n".join(compared))
    page = page.replace("<!-- ABLATION -->", "\n".join(ablation()))
    page = page.replace("<!-- WISHES -->", "\n".join(wishes()))
    page = page.replace("<!-- DISCLOSURE -->", disclosure())
    (HERE / "README.md").write_text(page, "utf-8")


if __name__ == "__main__":
    if "--write" not in sys.argv and not DATA.exists():
        sys.exit(f"{DATA} is missing: this report needs the shared folder beside the checkout.")
    census.command(__doc__.splitlines()[0], run_all, write_readme)
