"""PATE-GAN and PATE-ACGAN beside DP-WGAN: train on synthetic rows, test on real ones.

    python reports/pate/run.py            # runs what is missing, then writes README.md
    python reports/pate/run.py --write    # only writes, from the rows
    python reports/pate/run.py --only adult-pate-gan-eps1

The comparison is a benchmark with a config of its own whose rows are those of reports/benchmark: one fit is
run once. The study of the number of teachers and the figures of 8,000 census rows are kept here. Runs are seeded: the epsilon shown is what
the same run costs without a seed.
"""

import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "census"), str(HERE.parent / "benchmark"), str(HERE)]
import config as configs  # noqa: E402
import findings  # noqa: E402
import presets  # noqa: E402
import run as census  # noqa: E402  the split, the evaluation and the schema of the census report
import store  # noqa: E402
import without_noise  # noqa: E402
from literature import audited_table, published_table  # noqa: E402
from prediction import NAMES  # noqa: E402
from ranks import runs_of  # noqa: E402
from runner import Runner  # noqa: E402

from tabsynth import PATEGAN, read_table, write_table  # noqa: E402
from tabsynth._files import write_text  # noqa: E402

CONFIG = configs.load(HERE / "config.toml")
RESULTS = HERE / "results.json"
WITHOUT_NOISE = HERE / "without_noise.json"
PRESETS = HERE / "presets.json"
TEACHERS, TEACHER_EPSILONS = (50, 190, 381, 763, 1907, 4769), (1.0, 8.0)
TEACHER_SEEDS = (0, 1, 2)
# The study's runs: the number of teachers stands where the system does.
STUDY = [
    configs.Run("census", str(teachers), epsilon, seed)
    for seed in TEACHER_SEEDS
    for teachers in TEACHERS
    for epsilon in TEACHER_EPSILONS
]
SHOWN = ("tvd1", "tvd2", "tvd3", "dwpre_macro_mean", "dwpre_weighted_mean")


def taught(folder: Path, run: configs.Run) -> dict:
    """PATE-GAN of K teachers on the census table, by the evaluation protocol."""
    train = read_table(folder / "train.csv", census.SCHEMA)
    model = PATEGAN(
        census.SCHEMA, epsilon=run.epsilon, teachers=int(run.system), random_state=run.seed
    )
    started = time.perf_counter()
    model.fit(train)
    seconds = round(time.perf_counter() - started, 1)
    path = folder / f"{run.key}.csv"
    write_table(model.sample(len(train)), path)
    spent = model.certificate()["epsilon"]
    return {
        "spent": spent,
        "fit_seconds": seconds,
        "yardstick": census.protocol_scores(folder, path),
    }


def run_all(only: str | None) -> None:
    presets.run_missing(PRESETS, only)
    without_noise.run_missing(WITHOUT_NOISE, only)
    Runner(CONFIG, only).run()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        census.split(folder)
        for run in STUDY:
            if run.key in store.load(RESULTS) or (only and only not in run.key):
                continue
            result = taught(folder, run)
            store.add(RESULTS, {run.key: result})
            print(run.key, result["yardstick"].get("tvd2"), flush=True)


def prediction_table(results: dict, table: str) -> list[str]:
    """Mean ± standard deviation over seeds of the classifiers' scores, then what was not run."""
    head = f"| {CONFIG.tables[table].title}: rows trained on | ε | {' | '.join(NAMES.values())} |"
    lines = [head + " CPU s | K | seeds |", "|" + "---|" * 8]
    for name in ("real", "shuffled"):
        if row := results.get(f"{table}-{name}"):
            cells = " | ".join(f"{row[figure]:.3f}" for figure in NAMES)
            lines.append(f"| {store.REFERENCES[name]} | – | {cells} | – | – | – |")
    for name, system in CONFIG.systems.items():
        for epsilon in sorted(CONFIG.epsilons):
            rows = runs_of(CONFIG, results, (table, epsilon), name)
            if rows:
                lines.append(f"| {system.title} | {epsilon:g} | {of_cell(rows, epsilon)} |")
    return [*lines, "", findings.not_run(CONFIG, results, table)]


def of_cell(rows: list[dict], epsilon: float) -> str:
    """What a cell of a system and an epsilon found, as cells of a row."""
    if "stopped" in rows[0]:
        return f"{store.reason(rows[0], epsilon)} |" + " |" * 4
    cells = [census.mean_sd([row[figure] for row in rows]) for figure in NAMES]
    cells.append(f"{np.mean([row['cpu_seconds'] for row in rows]):.0f}")
    teachers = {str(row["teachers"]) for row in rows if "teachers" in row}
    return " | ".join([*cells, ", ".join(sorted(teachers)) or "–", str(len(rows))])


def teacher_table() -> list[str]:
    lines = ["| ε | K | rows each | tvd1 | tvd2 | tvd3 | F1 macro | F1 weighted | fit s | seeds |"]
    lines.append("|" + "---|" * 10)
    reference, results = census.load_results()["reference"], store.load(RESULTS)
    for name in ("real", "shuffled"):
        cells = " | ".join(f"{reference[name][n]:.3f}" for n in SHOWN)
        lines.append(f"| {name} | – | – | {cells} | – | – |")
    for epsilon in TEACHER_EPSILONS:
        for teachers in TEACHERS:
            cell = (str(teachers), epsilon)
            collected = [
                results[run.key]
                for run in STUDY
                if (run.system, run.epsilon) == cell and run.key in results
            ]
            if not collected:
                continue
            cells = [census.mean_sd([r["yardstick"][n] for r in collected]) for n in SHOWN]
            seconds = np.mean([r["fit_seconds"] for r in collected])
            each = reference["rows"] // teachers if "rows" in reference else "–"
            lines.append(
                f"| {epsilon:g} | {teachers:,} | {each} | {' | '.join(cells)} | {seconds:.0f}"
                f" | {len(collected)} |"
            )
    titles = {str(teachers): f"K = {teachers:,}" for teachers in TEACHERS}
    left = [run for run in STUDY if run.key not in results]
    return [*lines, "", findings.listed_runs(left, titles)]


def seeds_behind(results: dict) -> str:
    """On how many seeds what is found rests, while runs are missing."""
    if not store.lacking(CONFIG, results):
        return ""
    cells = [
        runs_of(CONFIG, results, (table, epsilon), name)
        for table in CONFIG.tables
        for name in CONFIG.systems
        for epsilon in CONFIG.epsilons
    ]
    counts = [sum("stopped" not in row for row in cell) for cell in cells if cell]
    if not counts:
        return (
            "**What is said of prediction below rests on no run of the tables above**, but on 23 older ones,"
            " one or two seeds a cell, that this report made before it shared the benchmark's rows; those had"
            " no other figure and are no longer kept."
        )
    return (
        f"**What is said of prediction below rests on {len(counts)} of {len(cells)} cells (table, system, ε),"
        f" with {span(counts)} of {len(CONFIG.seeds)} seeds each.**"
    )


def span(counts: Iterable[int]) -> str:
    least, most = min(counts), max(counts)
    return f"{least}" if least == most else f"{least} to {most}"


def ahead(results: dict, one: str, other: str) -> str:
    """In how many cells that both have one system's mean AUROC is above another's, table by table."""
    texts = []
    for table, about in CONFIG.tables.items():
        gains = []
        for epsilon in CONFIG.epsilons:
            rows = [runs_of(CONFIG, results, (table, epsilon), name) for name in (one, other)]
            if all(part and "stopped" not in part[0] for part in rows):
                means = [np.mean([row["tstr_auroc"] for row in part]) for part in rows]
                gains.append(means[0] - means[1])
        if gains:
            won = sum(gain > 0 for gain in gains)
            texts.append(
                f"{about.title}: ahead at {won} of {len(gains)} ε, by {np.mean(gains):+.3f} AUROC on average"
            )
    who = f"{CONFIG.systems[one].title} against {CONFIG.systems[other].title}"
    return f"- {who}: " + ("; ".join(texts) or "no cell that both have yet") + "."


def write_readme() -> None:
    from writing import missing  # matplotlib takes its time

    results = store.known(CONFIG)
    kept, noiseless = store.load(PRESETS), store.load(WITHOUT_NOISE)
    pairs = [("pate-gan", "pate-gan-paper"), ("pate-acgan", "pate-gan"), ("pate-gan", "dp-wgan")]
    parts = {
        "MISSING": missing(CONFIG, results),
        "ADULT": prediction_table(results, "adult"),
        "HOSPITAL": prediction_table(results, "hospital"),
        "TEACHERS": teacher_table(),
        "WITHOUT": without_noise.lines(noiseless),
        "PRESETS": presets.lines(kept, without_noise.gans(noiseless)),
        "CLASSIFIERS": presets.classifier_lines(kept),
        "PUBLISHED": published_table(),
        "AUDITED": audited_table(),
        "SEEDS": [seeds_behind(results)],
        "AHEAD": [ahead(results, *pair) for pair in pairs],
    }
    page = (HERE / "template.md").read_text("utf-8")
    for name, lines in parts.items():
        page = page.replace(f"<!-- {name} -->", "\n".join(lines))
    write_text(HERE / "README.md", page)


if __name__ == "__main__":
    census.command(__doc__.splitlines()[0], run_all, write_readme)
