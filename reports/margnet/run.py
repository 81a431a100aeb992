"""MargNet against AIM, MST and independent columns, on four public tables; and what each design choice gives.

    python reports/margnet/run.py                     # runs what is missing, then writes README.md
    python reports/margnet/run.py --write             # only writes, from the rows
    python reports/margnet/run.py --only census-mst

The comparison is a benchmark with a config of its own whose rows are those of reports/benchmark: one fit is
run once. Only variants of MargNet, with one choice or setting changed or with a hint, are kept here; ablations.py shows them. Runs are
seeded: the epsilon shown is what the same run costs without a seed.
"""

import math
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pandas as pd

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "census"), str(HERE.parent / "benchmark")]
import config as configs  # noqa: E402
import disclosure  # noqa: E402
import findings  # noqa: E402
import run as census  # noqa: E402  the command line and how figures are shown
import store  # noqa: E402
from ablations import draw, write_csv  # noqa: E402
from ours import (  # noqa: E402
    CLEAR_CELLS,
    FAST,
    HINTS,
    SETTINGS,
    SPEED,
    VARIANTS,
    WIDE_CELLS,
    WIDE_CHOICES,
    Variant,
)
from runner import Runner, independent_columns, means_of  # noqa: E402

from tabsynth import MargNet, Schema  # noqa: E402
from tabsynth.privacy.accounting.mechanisms import of_sum  # noqa: E402
from tabsynth.schema import Column  # noqa: E402
from tabsynth.synthesizers.margnet.measurement import SCORES  # noqa: E402

CONFIG = configs.load(HERE / "config.toml")
RESULTS = HERE / "results.json"
TABLES, EPSILONS = CONFIG.tables, CONFIG.epsilons
SETTINGS_AT = 1.0
WISHED_PAIR, WISHED_TARGET = {"PUMA", "AGEP"}, "PINCP_DECILE"
FIGURES = ("tvd1", "tvd2", "tvd3", "dwpre_macro_mean", "dwpre_weighted_mean")
# Training rows and columns of the tables of WIDE_CELLS, so that the page is written without their files.
WIDE_SHAPES = {"census-24": (19_077, 24), "hospital": (3_499, 48)}
WIDE, CONSTANT = "hospital", 0.99  # share of the rows that have a nearly constant column's value
CONSTANT_KEY = f"{WIDE}-constant-columns"
RUNS = [
    configs.Run(table, f"margnet:{name}", epsilon, seed)
    for seed in CONFIG.seeds
    for name, variant in (VARIANTS | SETTINGS | HINTS | SPEED | WIDE_CHOICES).items()
    for table, epsilon in variant.cells
]


def load_results() -> dict:
    """Variants, and the rows of the benchmark."""
    return store.load(RESULTS) | store.load(CONFIG.store)


def pair_distance(real: Path, synthetic: Path) -> float:
    """Total variation distance of the pair that a user named."""
    pair = sorted(WISHED_PAIR)
    shares = [pd.read_csv(path)[pair].value_counts(normalize=True) for path in (real, synthetic)]
    return round(float(shares[0].sub(shares[1], fill_value=0).abs().sum() / 2), 4)


def vary(runner: Runner, run: configs.Run, folder: Path) -> dict:
    """Fit a variant and score it, with what its user named."""
    out, variant = folder / "synthetic.csv", run.system.partition(":")[2]
    limit = CONFIG.limits["ours"]
    what = [sys.executable, HERE / "ours.py", run.table, run.epsilon, run.seed, variant, limit, out]
    result = runner.process(what, limit)
    if "stopped" in result:
        return result
    score = runner.scored(run.table, folder, out)[0]
    result |= means_of(score)
    predicted = score.get("dwpre_weighted", {})
    if predicted.keys() >= WISHED_PAIR:
        result["wished_target"] = predicted[WISHED_TARGET]
        result["wished_pair"] = pair_distance(folder / "train.csv", out)
    return result


def constant_columns(runner: Runner, folder: Path) -> dict:
    """How many columns of a table have nearly one value, and what these make of the macro F1 of independent columns."""
    rows = pd.read_csv(folder / "train.csv")
    largest = {c: rows[c].value_counts(normalize=True).max() for c in rows}
    constant = [c for c, share in largest.items() if share >= CONSTANT]
    macro = runner.scored(folder.name, folder, independent_columns(folder))[0]["dwpre"]
    part = round(sum(macro[c] for c in constant) / len(macro), 3)
    return {"table": folder.name, "columns": len(macro), "constant": len(constant), "part": part}


def run_all(only: str | None) -> None:
    runner = Runner(CONFIG, only)
    runner.run()
    with tempfile.TemporaryDirectory() as scratch:
        for run in RUNS:
            if run.key in load_results() or (only and only not in run.key):
                continue
            result = vary(runner, run, runner.table(run.table, Path(scratch)))
            store.add(RESULTS, {run.key: vars(run) | result})
            print(run.key, result.get("tvd2"), result.get("stopped", ""), flush=True)
        if CONSTANT_KEY not in load_results() and (not only or only in CONSTANT_KEY):
            folder = runner.table(WIDE, Path(scratch))
            store.add(RESULTS, {CONSTANT_KEY: constant_columns(runner, folder)})


def of(table: str, system: str, epsilon: float) -> list[dict]:
    wanted = {"table": table, "system": system, "epsilon": epsilon}
    return [r for r in load_results().values() if wanted.items() <= r.items()]


def line(what: str, epsilon: float | None, rows: list[dict]) -> str:
    """A row of a table of figures: mean ± standard deviation over seeds."""
    head = f"| {what} | " + ("–" if epsilon is None else f"{epsilon:g}")
    ended = [r for r in rows if "stopped" not in r]
    if epsilon is not None and not ended:
        return f"{head} | {store.reason(rows[0], epsilon)} |" + " |" * (len(FIGURES) + 2)
    # A classifier of the test rows that is tested on them says nothing.
    shown = FIGURES[:3] if what == FRESH else FIGURES
    cells = [census.mean_sd([r[name] for r in ended]) for name in shown]
    cells += ["–"] * (len(FIGURES) - len(shown))
    timed = [r for r in ended if "cpu_seconds" in r]
    time = f"{np.mean([r['cpu_seconds'] for r in timed]):.0f}" if timed else "–"
    peak = f"{max(r['peak_mib'] for r in timed):.0f}" if timed else "–"
    return f"{head} | " + " | ".join([*cells, time, peak, str(len(ended))]) + " |"


FRESH = store.REFERENCES["fresh"]
HEAD = "| ε | tvd1 | tvd2 | tvd3 | F1 macro | F1 weighted | CPU s | MiB | seeds |"


def comparison(table: str) -> list[str]:
    lines = [f"| {TABLES[table].title} " + HEAD, "|" + "---|" * 10]
    results = load_results()
    for name, what in store.REFERENCES.items():
        if f"{table}-{name}" in results:
            lines.append(line(what, None, [results[f"{table}-{name}"]]))
    for epsilon in EPSILONS:
        for name, system in CONFIG.systems.items():
            result = of(table, name, epsilon)
            if not result and (
                row := store.stopped_by(results, configs.Run(table, name, epsilon, 0))
            ):
                result = [row]
            if result:
                lines.append(line(system.title, epsilon, result))
    return [*lines, "", codes(table), "", findings.not_run(CONFIG, results, table)]


def codes(table: str) -> str:
    """With which code MargNet was measured at each epsilon."""
    measured = dict[str, list[str]]()
    for epsilon in EPSILONS:
        for code in sorted({r.get("code", "") for r in of(table, "margnet", epsilon)}):
            measured.setdefault(code, []).append(f"{epsilon:g}")
    parts = [
        f"{f'`{code}`' if code else 'one whose hash was not kept'} at ε = {', '.join(epsilons)}"
        for code, epsilons in measured.items()
    ]
    return f"The code of MargNet, as certificates state it: {'; '.join(parts) or 'none yet'}."


def not_run(table: str, epsilon: float, variants: Mapping[str, Variant]) -> str:
    """Which runs of some variants of a cell are missing."""
    results = load_results()
    titles = {f"margnet:{name}": about.title for name, about in variants.items()}
    left = [
        run
        for run in RUNS
        if (run.table, run.epsilon) == (table, epsilon)
        and run.system in titles
        and run.key not in results
    ]
    return findings.listed_runs(left, titles)


def ablation() -> list[str]:
    """Which ablations are missing."""
    results = load_results()
    missing = [
        f"- {TABLES[table].title}, ε = {epsilon:g}: {not_run(table, epsilon, VARIANTS)}"
        for table, epsilon in dict.fromkeys((run.table, run.epsilon) for run in RUNS)
        if any(
            (run.table, run.epsilon) == (table, epsilon) and run.key not in results
            for run in RUNS
            if run.system.partition(":")[2] in VARIANTS
        )
    ]
    settings = [run for run in RUNS if run.system.partition(":")[2] in SETTINGS]
    done = [run for run in settings if run.key in results]
    return [
        *missing,
        f"- Settings: {len(done)} of {len(settings)} runs were made, of"
        f" {len({run.system for run in done})} of {len(SETTINGS)} variants.",
    ]


def hints() -> list[str]:
    """What a workload and a target do to the columns they name, and to the others."""
    lines = [
        "| census, ε = 1 | tvd of PUMA × AGEP | weighted F1 of PINCP_DECILE | tvd2 | F1 weighted | seeds |",
        "|" + "---|" * 6,
    ]
    names = ("wished_pair", "wished_target", "tvd2", "dwpre_weighted_mean")
    for variant, about in HINTS.items():
        if result := of("census", f"margnet:{variant}", 1.0):
            cells = [census.mean_sd([r[name] for r in result]) for name in names]
            lines.append(f"| {about.title} | " + " | ".join([*cells, str(len(result))]) + " |")
    return [*lines, "", not_run("census", 1.0, HINTS)]


def speed() -> list[str]:
    """Figures and times with components by the counts, and with the former number."""
    lines = [
        "| table | ε | components | tvd2 | tvd3 | F1 macro | F1 weighted | CPU s | seeds |",
        "|" + "---|" * 9,
    ]
    for table, epsilon in FAST:
        for name, about in SPEED.items():
            done = [r for r in of(table, f"margnet:{name}", epsilon) if "stopped" not in r]
            if done:
                cells = [census.mean_sd([r[figure] for r in done]) for figure in FIGURES[1:]]
                time = f"{np.mean([r['cpu_seconds'] for r in done]):.0f}"
                count = f"{about.title}: {np.mean([r['components'] for r in done]):.0f}"
                head = f"| {TABLES[table].title} | {epsilon:g} | {count} | "
                lines.append(head + " | ".join([*cells, time, str(len(done))]) + " |")
    runs = [run for run in RUNS if run.system.partition(":")[2] in SPEED]
    done = [run for run in runs if run.key in load_results()]
    return [*lines, "", f"{len(done)} of {len(runs)} runs were made."]


def wide() -> list[str]:
    """Figures of wide tables with the method as it is, and without each of the choices for them."""
    lines = [
        "| table | ε | | tvd2 | tvd3 | F1 macro | F1 weighted | seeds |",
        "|" + "---|" * 8,
    ]
    systems = {"margnet": "as it is"}
    systems |= {f"margnet:{name}": about.title for name, about in WIDE_CHOICES.items()}
    for table, epsilon in (*WIDE_CELLS, *CLEAR_CELLS):
        for system, title in systems.items():
            done = [r for r in of(table, system, epsilon) if "stopped" not in r]
            if done:
                cells = [census.mean_sd([r[figure] for r in done]) for figure in FIGURES[1:]]
                head = f"| {TABLES[table].title} | {epsilon:g} | {title} | "
                lines.append(head + " | ".join([*cells, str(len(done))]) + " |")
    runs = [run for run in RUNS if run.system.partition(":")[2] in WIDE_CHOICES]
    done = [run for run in runs if run.key in load_results()]
    return [*lines, "", f"{len(done)} of {len(runs)} runs were made."]


def below_baseline(table: str, key: str, title: str) -> str:
    """In which cells a table's figure, of which more is better, is below that of independent columns."""
    results = load_results()
    least, figure = results[f"{table}-shuffled"][key], findings.BY[key]
    cells = [
        (place, epsilon)
        for epsilon in EPSILONS
        for place in findings.places(CONFIG, results, (table, epsilon), figure)
    ]
    worse = [
        f"{CONFIG.systems[place.system].title} at ε = {epsilon:g} ({place.value:.3f})"
        for place, epsilon in cells
        if place.value < least
    ]
    if not worse:
        return (
            f"{title} is not below theirs ({least:.3f}) in any of {len(cells)} cells that were run"
        )
    return (
        f"{title} is below theirs ({least:.3f}) in {len(worse)} of {len(cells)} cells that were run:"
        f" {', '.join(worse)}"
    )


def noise_of_scores() -> str:
    """The noise of the scores of wide tables at the smallest epsilon, beside the number of rows that are fitted."""
    epsilon, parts = min(EPSILONS), []
    for table, (rows, columns) in WIDE_SHAPES.items():
        # The noise follows from the number of columns alone, whatever their values are.
        schema = Schema(
            [
                Column(name=f"c{j}", kind="categorical", dtype="int64", categories=(0, 1))
                for j in range(columns)
            ]
        )
        model = MargNet(schema, epsilon=epsilon, delta=CONFIG.delta)
        (spend,) = (s for s in model.plan(estimate_time=False).spends if s.purpose == SCORES)
        noise = of_sum(spend.mechanism).noise_multiplier * math.comb(columns, 2) ** 0.5
        parts.append(f"{noise:,.0f} of {rows:,} rows ({TABLES[table].title})")
    return f"At ε = {epsilon:g} its standard deviation is {' and '.join(parts)}."


def chance_in_macro(results: Mapping[str, dict]) -> str:
    """What nearly constant columns do to the macro F1 of the wide table."""
    row = results.get(CONSTANT_KEY)
    if row is None:
        return "How much nearly constant columns make of macro F1 was not measured yet."
    return (
        f"In {row['constant']} of its {row['columns']} columns, one value has at least {CONSTANT:.0%} of the rows. These columns"
        f" make {row['part']:.3f} of the macro F1 of independent columns. One wrong prediction in one of them may halve its macro"
        f" F1, which changes the mean by {0.5 / row['columns']:.3f}."
    )


def write_readme() -> None:
    results = load_results()
    page = (HERE / "template.md").read_text("utf-8")
    compared = [part for table in TABLES for part in ["", *comparison(table)]]
    page = page.replace("<!-- COMPARISON -->", "\n".join(compared))
    page = page.replace("<!-- ABLATION -->", "\n".join(ablation()))
    page = page.replace("<!-- HINTS -->", "\n".join(hints()))
    page = page.replace("<!-- WIDE -->", "\n".join(wide()))
    page = page.replace("<!-- SPEED -->", "\n".join(speed()))
    lines = disclosure.by_epsilon(CONFIG, results, "margnet")
    page = page.replace("<!-- DISCLOSURE -->", "\n".join(lines))
    page = page.replace("<!-- HIGHER -->", disclosure.verdict(CONFIG, results, "margnet"))
    page = page.replace("<!-- AGAINST -->", "\n".join(findings.against(CONFIG, results, "margnet")))
    page = page.replace("<!-- BEHIND -->", "\n".join(findings.behind(CONFIG, results, "margnet")))
    page = page.replace("<!-- SCORES -->", noise_of_scores())
    page = page.replace("<!-- CONSTANT -->", chance_in_macro(results))
    compared_with_baseline = [
        below_baseline("hospital", "dwpre_macro_mean", "Macro F1"),
        below_baseline("hospital", "dwpre_weighted_mean", "weighted F1"),
    ]
    page = page.replace("<!-- BASELINE -->", "; ".join(compared_with_baseline) + ".")
    (HERE / "README.md").write_text(page, "utf-8")
    write_csv(results, HERE / "ablations.csv")
    draw(results, SETTINGS_AT, HERE / "ablations.png")


if __name__ == "__main__":
    census.command(__doc__.splitlines()[0], run_all, write_readme)
