"""PATE-GAN and PATE-ACGAN beside DP-WGAN: train on synthetic rows, test on real ones.

    python reports/pate/run.py            # fits what is missing, then writes README.md
    python reports/pate/run.py --write    # only writes, from results.json
    python reports/pate/run.py --only adult-pate-gan-eps1

Needs the tables and the yardstick of ../shared. Each run is seeded, so that it can be repeated; its
certificate therefore says "not private: seeded", and the epsilon shown is what the same run costs
without a seed.
"""

import json
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "census"), str(HERE.parent / "benchmark"), str(HERE)]
import run as census  # noqa: E402  the split, the ruler and the schema of the census report
from literature import audited_table, published_table  # noqa: E402
from prediction import NAMES, scores  # noqa: E402
from tables import TABLES  # noqa: E402  of the benchmark

from tabsynth import DPWGAN, PATEACGAN, PATEGAN, Schema, read_table, write_table  # noqa: E402
from tabsynth.synthesizers import Synthesizer  # noqa: E402

RESULTS = HERE / "results.json"
EPSILONS, SEEDS = (1.0, 8.0, 20.0), range(5)
# The column to predict, and the values that count as yes.
LABELS = {"adult": ("income>50K", (1,)), "hospital": ("readmitted", ("<30", ">30"))}
Build = Callable[[Schema, str, float, int], Synthesizer]
SYSTEMS: dict[str, tuple[str, Build]] = {
    "pate-gan": ("PATE-GAN", lambda s, _, e, r: PATEGAN(s, epsilon=e, random_state=r)),
    "pate-gan-paper": (
        "PATE-GAN, `paper`",
        lambda s, _, e, r: PATEGAN(s, epsilon=e, preset="paper", random_state=r),
    ),
    "pate-acgan": (
        "PATE-ACGAN",
        lambda s, label, e, r: PATEACGAN(s, epsilon=e, label=label, random_state=r),
    ),
    "dp-wgan": ("DP-WGAN", lambda s, _, e, r: DPWGAN(s, epsilon=e, random_state=r)),
}
TEACHERS, TEACHER_SEEDS = (50, 190, 381, 763, 1907), range(3)
SHOWN = ("tvd1", "tvd2", "tvd3", "dwpre_macro_mean", "dwpre_weighted_mean")


def runs() -> list[tuple[str, ...]]:
    """Key of every run: (what, system or K, epsilon, seed), cells of a first seed first."""
    found = [
        (t, n, f"{e:g}", str(r)) for r in SEEDS for t in LABELS for n in SYSTEMS for e in EPSILONS
    ]
    return found + [
        ("census", str(k), f"{e:g}", str(r))
        for r in TEACHER_SEEDS
        for k in TEACHERS
        for e in (1.0, 8.0)
    ]


def name_of(run: tuple[str, ...]) -> str:
    what, system, epsilon, seed = run
    return f"{what}-{system}-eps{epsilon}-seed{seed}"


def fitted(model: Synthesizer, train: object) -> dict:
    started = time.perf_counter()
    model.fit(train)
    spent = model.certificate()["epsilon"]
    return {"spent": spent, "fit_seconds": round(time.perf_counter() - started, 1)}


def predicted(table: str, system: str, epsilon: float, seed: int) -> dict:
    """Fit, sample as many rows, train classifiers on them, test on real rows."""
    schema, train, test = TABLES[table].split()
    label, yes = LABELS[table]
    model = SYSTEMS[system][1](schema, label, epsilon, seed)
    found = fitted(model, train)
    return found | {"scores": scores(schema, label, yes, model.sample(len(train)), test)}


def taught(folder: Path, teachers: int, epsilon: float, seed: int) -> dict:
    """PATE-GAN of K teachers on the census table, by the yardstick."""
    train = read_table(folder / "train.csv", census.SCHEMA)
    model = PATEGAN(census.SCHEMA, epsilon=epsilon, teachers=teachers, random_state=seed)
    found = fitted(model, train)
    path = folder / f"{teachers}-{epsilon:g}-{seed}.csv"
    write_table(model.sample(len(train)), path)
    return found | {"yardstick": census.yardstick(folder, path)}


def references(table: str) -> dict:
    """Classifiers of real rows, and of columns shuffled apart: ceiling and floor."""
    schema, train, test = TABLES[table].split()
    rng = np.random.default_rng(0)
    shuffled = train.apply(lambda c: c.array[rng.permutation(len(c))]).astype(train.dtypes)
    rows = {"real": train, "shuffled": shuffled}
    return {name: scores(schema, *LABELS[table], part, test) for name, part in rows.items()}


def load_results() -> dict:
    return json.loads(RESULTS.read_text()) if RESULTS.exists() else {}


def store(key: str, found: dict) -> None:
    # Read again: another process may have added a run meanwhile.
    RESULTS.write_text(json.dumps(load_results() | {key: found}, indent=1) + "\n")


def run_all(only: str | None) -> None:
    for table in LABELS:
        if f"{table}-reference" not in load_results():
            store(f"{table}-reference", references(table))
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        census.split(folder)
        for run in runs():
            key, (what, system, epsilon, seed) = name_of(run), run
            if key in load_results() or (only and only not in key):
                continue
            if what == "census":
                found = taught(folder, int(system), float(epsilon), int(seed))
            else:
                found = predicted(what, system, float(epsilon), int(seed))
            store(key, found)
            print(key, found, flush=True)


def of_cell(*cell: str) -> list[dict]:
    """Results of all seeds of (what, system or K, epsilon)."""
    results = load_results()
    keys = [name_of(run) for run in runs() if run[:3] == cell]
    return [results[key] for key in keys if key in results]


def prediction_table(table: str) -> list[str]:
    lines = [f"| rows trained on | ε | {' | '.join(NAMES)} | fit s | seeds |", "|" + "---|" * 7]
    known = load_results().get(f"{table}-reference", {})
    for name in ("real", "shuffled"):
        if name in known:
            cells = " | ".join(f"{known[name][n]:.3f}" for n in NAMES)
            lines.append(f"| {name} | – | {cells} | – | – |")
    for system, (title, _) in SYSTEMS.items():
        for epsilon in EPSILONS:
            found = of_cell(table, system, f"{epsilon:g}")
            if not found:
                continue
            cells = " | ".join(census.mean_sd([r["scores"][n] for r in found]) for n in NAMES)
            seconds = np.mean([r["fit_seconds"] for r in found])
            lines.append(f"| {title} | {epsilon:g} | {cells} | {seconds:.0f} | {len(found)} |")
    return lines


def teacher_table() -> list[str]:
    lines = ["| ε | K | rows each | tvd1 | tvd2 | tvd3 | F1 macro | F1 weighted | fit s | seeds |"]
    lines.append("|" + "---|" * 10)
    reference = census.load_results()["reference"]
    for name in ("real", "shuffled"):
        cells = " | ".join(f"{reference[name][n]:.3f}" for n in SHOWN)
        lines.append(f"| {name} | – | – | {cells} | – | – |")
    for epsilon in ("1", "8"):
        for teachers in TEACHERS:
            found = of_cell("census", str(teachers), epsilon)
            if not found:
                continue
            cells = [census.mean_sd([r["yardstick"][n] for r in found]) for n in SHOWN]
            seconds = np.mean([r["fit_seconds"] for r in found])
            each = reference["rows"] // teachers if "rows" in reference else "–"
            lines.append(
                f"| {epsilon} | {teachers:,} | {each} | {' | '.join(cells)} | {seconds:.0f}"
                f" | {len(found)} |"
            )
    return lines


def write_readme() -> None:
    page = (HERE / "template.md").read_text("utf-8")
    parts = {
        "ADULT": prediction_table("adult"),
        "HOSPITAL": prediction_table("hospital"),
        "TEACHERS": teacher_table(),
        "PUBLISHED": published_table(),
        "AUDITED": audited_table(),
    }
    for name, lines in parts.items():
        page = page.replace(f"<!-- {name} -->", "\n".join(lines) or "Not measured yet.")
    missing = sum(name_of(run) not in load_results() for run in runs())
    told = f"**{missing} of {len(runs())} runs are still to be made.**" if missing else ""
    (HERE / "README.md").write_text(page.replace("<!-- MISSING -->", told), "utf-8")


if __name__ == "__main__":
    census.command(__doc__.splitlines()[0], run_all, write_readme)
