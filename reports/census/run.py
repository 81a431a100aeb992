"""The real run: ten census columns, epsilon in {inf, 1, 8, 20}, presets `default` and `source`.

    python reports/census/run.py            # fits what is missing, then writes README.md and pictures
    python reports/census/run.py --write    # only writes, from the results
    python reports/census/run.py --table nearest     # `source` on the excerpts' nearest columns
    python reports/census/run.py --table maryland    # … on the document's own columns; needs the network

Needs benchmark files of data/README.md: a census table and the evaluation protocol. Each run is seeded, so that it
can be repeated; its certificate therefore says "not private: seeded", and the epsilon shown is what the same run costs without a seed.
"""

import argparse
import copy
import hashlib
import json
import math
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from label_scores import label_scores
from matplotlib.figure import Figure
from other_tables import NEAREST, WHY, maryland, nearest

from tabsynth import DPWGAN, Schema, evaluate, read_table, write_table
from tabsynth.report import Report
from tabsynth.synthesizers.gan.autoencoder import Autoencoder
from tabsynth.synthesizers.gan.dpwgan import SOURCE_ROWS, source_wgan
from tabsynth.synthesizers.gan.estimator import Networks

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.append(str(ROOT / "data"))
from benchmark_data import PROTOCOL, data_file  # noqa: E402

SCHEMA = Schema.load(ROOT / "data" / "census.schema.json")
RESULTS = HERE / "results.json"
PAPER = ROOT / "docs" / "explanation" / "papers" / "dp-wgan-census.md"  # the page on the document
EPSILONS = (math.inf, 1.0, 8.0, 20.0)
# Three seeds of the default at ε = 1 and 8.
PRESETS = ("default", "source")
ABLATION = 8.0  # epsilon of the variants of `source`
# Runs that share an autoencoder (see ``SharedCoder``) follow each other.
RUNS = [
    *((system, ABLATION, 0) for system in ("source", "adaptive", "tight")),
    *(("source", epsilon, 0) for epsilon in (1.0, 20.0, math.inf)),
    ("one-hot", ABLATION, 0),
    *((system, ABLATION, seed) for seed in (1, 2) for system in ("source", "adaptive", "tight")),
    *(("one-hot", ABLATION, seed) for seed in (1, 2)),
    *(("source", epsilon, seed) for seed in (1, 2) for epsilon in (1.0, math.inf, 20.0)),
    *(("default", epsilon, 0) for epsilon in EPSILONS),
    *(("default", epsilon, seed) for seed in (1, 2) for epsilon in (1.0, 8.0, math.inf, 20.0)),
]
# What sets a variant of `source` apart. "rounded" is another sample of the fits of "one-hot"; "before", in
# the results alone, is the preset as it was until then.
VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    "source": ("`source`", {}),
    "one-hot": ("`source`, one-hot codes", {"encoding": "one-hot"}),
    "rounded": ("`source`, one-hot codes, sample rounded to expected counts", {}),
    "tight": (
        "`source`, C = 0.1, about the norm of a pair's gradient at first",
        {"config": replace(source_wgan(SOURCE_ROWS), max_norm=0.1)},
    ),
    "adaptive": (
        "`source`, bound that follows the median norm of generated rows",
        {"config": replace(source_wgan(SOURCE_ROWS), bound="public")},
    ),
    "before": (
        "all of these but C, real rows against the mean of generated ones: the preset before",
        {},
    ),
}
REPORT = "default-eps1-seed0"  # the run whose HTML report is kept
LABEL_SCORES = ("inception", "agreement")
# The document's Table 1: F1 of a classifier trained on real rows, then on synthetic ones at ε = ∞, 1, 8, 20.
TABLE_1 = {
    "HINCP": (0.316, 0.301, 0.172, 0.273, 0.286),
    "NP": (0.409, 0.265, 0.161, 0.216, 0.152),
    "AGEP": (0.042, 0.010, 0.008, 0.009, 0.009),
    "RAC1P": (0.716, 0.531, 0.422, 0.464, 0.414),
    "ESR": (0.803, 0.161, 0.315, 0.354, 0.252),
    "SEX": (0.541, 0.503, 0.498, 0.448, 0.490),
    "WIF": (0.560, 0.472, 0.452, 0.432, 0.460),
    "HUPAC": (0.638, 0.444, 0.272, 0.152, 0.148),
    "HHT": (0.759, 0.646, 0.512, 0.643, 0.648),
    "PUMA": (0.326, 0.212, 0.219, 0.200, 0.186),
}
# Its means as ratios to that of a classifier trained on real rows.
PUBLISHED = {math.inf: 0.69, 1.0: 0.59, 8.0: 0.62, 20.0: 0.60}


def name_of(preset: str, epsilon: float, seed: int) -> str:
    return f"{preset}-eps{epsilon:g}-seed{seed}"


def split(folder: Path) -> None:
    protocol("split", folder, data_file("census_national_2019.csv"))


def protocol_scores(folder: Path, table: Path) -> dict:
    """The one JSON line of the independent evaluation."""
    return json.loads(protocol("score", folder, table).splitlines()[-1])


def protocol(*arguments: str | Path) -> str:
    """Run a command of the evaluation protocol and return what it prints."""
    command = [sys.executable, data_file(PROTOCOL), *arguments]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


class SharedCoder:
    """Within it, variants of `source` that differ in the critic only share the autoencoder of a seed.

    The autoencoder is trained before the critic, on random streams of its own, so that fits of the same seed,
    codes and budget train the same one twice. The second takes the weights of the first, its streams go on
    where they were, and its ledger is charged as if it had trained.
    """

    def __init__(self) -> None:
        self.kept: dict[str, tuple[Any, Any, Any]] = {}
        self.train = Networks._train_autoencoder

    def __enter__(self) -> None:
        def train(
            networks: Networks, table: Any, account: Any, rows: float, *rest: Any
        ) -> Autoencoder | None:
            streams = rest[2]
            drawn = (streams.init, streams.private)
            before = [stream.get_state().numpy().tobytes() for stream in drawn]
            settings = (networks.autoencoder, networks.layout.width, account, rows)
            key = f"{settings} {hashlib.sha256(b''.join(before)).hexdigest()}"
            if account is None or key not in self.kept:
                model = self.train(networks, table, account, rows, *rest)
                after = tuple(stream.get_state() for stream in drawn)
                self.kept = {key: (copy.deepcopy(model), *after)}  # of the last seed alone
                return model
            model, *after = self.kept[key]
            table.ledger.spend(account, account.granted)
            for stream, state in zip(drawn, after, strict=True):
                stream.set_state(state)
            return copy.deepcopy(model)

        Networks._train_autoencoder = train

    def __exit__(self, *_: object) -> None:
        Networks._train_autoencoder = self.train


def fitted(
    schema: Schema, system: str, epsilon: float, seed: int, train: pd.DataFrame
) -> tuple[DPWGAN, float]:
    """A preset, or a variant of `source`, and the seconds of its fit."""
    preset = system if system in PRESETS else "source"
    changes = VARIANTS.get(system, ("", {}))[1]
    model = DPWGAN(schema, epsilon=epsilon, preset=preset, random_state=seed, **changes)
    started = time.perf_counter()
    return model.fit(train), time.perf_counter() - started


def scored(folder: Path, model: DPWGAN, rows: int, name: str) -> tuple[pd.DataFrame, dict]:
    """A sample, and what the evaluation protocol and the label scores say of it."""
    table = model.sample(rows)
    path = folder / f"{name}.csv"
    write_table(table, path)
    labels = label_scores(folder / "train.csv", path)
    return table, {"yardstick": protocol_scores(folder, path), "labels": labels}


def row_of(
    model: DPWGAN, system: str, epsilon: float, seed: int, seconds: float, measured: dict
) -> dict:
    """One run, JSON-ready."""
    certificate = model.certificate()
    return {
        "preset": system,
        "epsilon": key(epsilon),
        "seed": seed,
        "spent": certificate["epsilon"],
        "code": certificate["code"]["sha256"][:12],
        "fit_seconds": round(seconds, 1),
        **measured,
    }


def measure(folder: Path, system: str, epsilon: float, seed: int) -> dict[str, dict]:
    """Fit, sample as many rows as were fitted, score; of the presets by our own evaluation too.

    Runs by name: a fit with one-hot codes is sampled twice, plainly and rounded.
    """
    train, test = (read_table(folder / f"{part}.csv", SCHEMA) for part in ("train", "test"))
    model, seconds = fitted(SCHEMA, system, epsilon, seed, train)
    name = name_of(system, epsilon, seed)
    table, scores_of_run = scored(folder, model, len(train), name)
    runs = {name: row_of(model, system, epsilon, seed, seconds, scores_of_run)}
    if system == "one-hot":
        other = name_of("rounded", epsilon, seed)
        model.trained_.generator.rounded = True
        scores_of_run = scored(folder, model, len(train), other)[1]
        runs[other] = row_of(model, "rounded", epsilon, seed, seconds, scores_of_run)
    if system not in PRESETS:
        return runs
    report = evaluate(real=train, synthetic=table, holdout=test, schema=SCHEMA)
    if name == REPORT:
        report.to_html(HERE / "default-eps1.html")
    runs[name] |= {
        "verdict": report.verdict,
        "disclosure": disclosure(report),
        "counts": value_counts(table) if seed == 0 else None,
    }
    return runs


def value_counts(table: pd.DataFrame) -> dict[str, dict[str, int]]:
    """How often each value occurs, by column."""
    return {
        column: table[column].astype("string").fillna("null").value_counts().to_dict()
        for column in SCHEMA.names
    }


def disclosure(report: Report) -> list[dict]:
    """The grid, to four decimals: what Figure 2 draws."""
    cells = report.evaluation.disclosure.to_dict()["cells"]
    out = []
    for cell in cells:
        row = {"s": cell["s"], "k": cell["k"]}
        for name in ("target", "control", "leakage"):
            row[name] = {part: round(cell[name][part], 4) for part in ("value", "low", "high")}
        out.append(row)
    return out


def reference(folder: Path) -> dict:
    """The real table scored against itself, and the baseline of independent columns."""
    train, test = (read_table(folder / f"{part}.csv", SCHEMA) for part in ("train", "test"))
    itself = evaluate(real=train, synthetic=train, holdout=test, schema=SCHEMA)
    return {
        "real": protocol_scores(folder, folder / "train.csv"),
        "shuffled": protocol_scores(folder, shuffled(folder)),
        "disclosure": disclosure(itself),
        "counts": value_counts(train),
        "rows": len(train),
    }


def label_reference(folder: Path) -> dict:
    """The label scores of held-out real rows, and of the baseline of independent columns."""
    train = folder / "train.csv"
    return {
        "real": label_scores(train, folder / "test.csv"),
        "shuffled": label_scores(train, shuffled(folder)),
    }


def shuffled(folder: Path) -> Path:
    """The training table with each column shuffled by itself."""
    train, path = read_table(folder / "train.csv", SCHEMA), folder / "shuffled.csv"
    rng = np.random.default_rng(0)
    table = pd.DataFrame({c: train[c].to_numpy()[rng.permutation(len(train))] for c in train})
    write_table(table.astype(train.dtypes), path)
    return path


def load_results() -> dict:
    return json.loads(RESULTS.read_text()) if RESULTS.exists() else {"runs": {}}


def store(results: dict) -> None:
    RESULTS.write_text(json.dumps(results, indent=1) + "\n")


def run_all(only: str | None) -> None:
    with tempfile.TemporaryDirectory() as scratch, SharedCoder():
        folder = Path(scratch)
        split(folder)
        if "reference" not in load_results():
            measured = reference(folder)
            store(load_results() | {"reference": measured})
        if "labels" not in load_results():
            measured = label_reference(folder)
            store(load_results() | {"labels": measured})
        for system, epsilon, seed in RUNS:
            name = name_of(system, epsilon, seed)
            if name in load_results()["runs"] or (only and only not in name):
                continue
            measured = measure(folder, system, epsilon, seed)
            # Read again: another process may have added a run meanwhile.
            results = load_results()
            results["runs"] |= measured
            store(results)
            for run, row in measured.items():
                weighted = row["yardstick"]["dwpre_weighted_mean"]
                print(f"{run}: weighted {weighted}, {row['fit_seconds']} s", flush=True)


def run_table(
    name: str, table: pd.DataFrame, schema: Schema, epsilons: list[float], seeds: list[int]
) -> None:
    """`source` on another table of ten columns, split and scored in the same way; results in ``name``.json."""
    path = HERE / f"{name}.json"
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        order = np.random.default_rng(0).permutation(len(table))
        cut = int(0.7 * len(table))
        for part, rows in (("train", order[:cut]), ("test", order[cut:])):
            write_table(table.iloc[rows].reset_index(drop=True), folder / f"{part}.csv")
        results = json.loads(path.read_text()) if path.exists() else {"runs": {}}
        if "real" not in results:
            results |= {"rows": len(table), "columns": list(schema.names)}
            results["real"] = protocol_scores(folder, folder / "train.csv")
        for seed in seeds:
            for epsilon in epsilons:
                run = name_of("source", epsilon, seed)
                if run in results["runs"]:
                    continue
                train = read_table(folder / "train.csv", schema)
                model, seconds = fitted(schema, "source", epsilon, seed, train)
                write_table(model.sample(len(train)), folder / "synthetic.csv")
                scores_of_run = {"yardstick": protocol_scores(folder, folder / "synthetic.csv")}
                results["runs"][run] = row_of(
                    model, "source", epsilon, seed, seconds, scores_of_run
                )
                path.write_text(json.dumps(results, indent=1) + "\n")
                print(f"{name}, {run}: {seconds:.0f} s", flush=True)


def key(epsilon: float) -> str | float:
    return "inf" if math.isinf(epsilon) else epsilon


def runs_of(results: dict, preset: str, epsilon: float) -> list[dict]:
    runs = results["runs"].values()
    return [r for r in runs if r["preset"] == preset and r["epsilon"] == key(epsilon)]


def mean_sd(values: list[float]) -> str:
    if len(values) == 1:
        return f"{values[0]:.3f}"
    return f"{np.mean(values):.3f} ± {np.std(values, ddof=1):.3f}"


def shown(epsilon: float) -> str:
    return "∞" if math.isinf(epsilon) else f"{epsilon:g}"


def ratio_table(results: dict) -> list[str]:
    real = results["reference"]["real"]["dwpre_weighted_mean"]
    baseline = results["reference"]["shuffled"]["dwpre_weighted_mean"] / real
    lines = [
        "| ε | document, published | `source`, measured | `default`, measured |",
        "|---|---|---|---|",
    ]
    for epsilon in EPSILONS:
        cells = []
        for preset in ("source", "default"):
            runs = runs_of(results, preset, epsilon)
            ratios = [r["yardstick"]["dwpre_weighted_mean"] / real for r in runs]
            cells.append(mean_sd(ratios) if ratios else "–")
        published = f"{PUBLISHED[epsilon]:.2f}"
        lines.append(f"| {shown(epsilon)} | {published} | {cells[0]} | **{cells[1]}** |")
    return [*lines, "", f"The baseline of independent columns keeps {baseline:.3f}."]


def leakage_line(results: dict, preset: str) -> str:
    """How often the gap to the control is past its interval, over all runs of a preset."""
    gaps = {
        epsilon: [c["leakage"] for r in runs_of(results, preset, epsilon) for c in r["disclosure"]]
        for epsilon in (1.0, 8.0, 20.0, math.inf)
    }
    cells = [gap for values in gaps.values() for gap in values]
    if not cells:
        return f"`{preset}` was not run."
    past = sum(gap["low"] > 0 for gap in cells)
    mean = np.mean([gap["value"] for gap in cells])
    each = ", ".join(
        f"{100 * np.mean([gap['value'] for gap in values]):.1f} at ε = {shown(epsilon)}"
        for epsilon, values in gaps.items()
        if values
    )
    return (
        f"Over all runs of `{preset}`, the 95% interval of the gap lies above 0 in {past} of {len(cells)}"
        f" cells (chance alone gives 2.5%), and the mean gap is {100 * mean:.1f} points: {each}."
    )


def summary_table(results: dict) -> list[str]:
    head = "| table | seeds | ε spent | tvd1 | tvd2 | tvd3 | F1 macro | F1 weighted | verdict | fit s |"
    lines = [head, "|" + "---|" * 10]
    for name, what in (("real", "real rows"), ("shuffled", "independent columns")):
        lines.append(f"| {what} | – | – | {scores([results['reference'][name]])} | – | – |")
    for preset in PRESETS:
        for epsilon in EPSILONS:
            runs = runs_of(results, preset, epsilon)
            if not runs:
                continue
            spent = runs[0]["spent"]
            text = "∞" if spent == "inf" else f"{spent:.3f}"
            verdicts = ", ".join(sorted({r["verdict"] for r in runs}))
            seconds = np.mean([r["fit_seconds"] for r in runs])
            lines.append(
                f"| `{preset}` ε = {shown(epsilon)} | {len(runs)} | {text} | {scores([r['yardstick'] for r in runs])}"
                f" | {verdicts} | {seconds:.0f} |"
            )
    return lines


def scores(items: list[dict]) -> str:
    names = ("tvd1", "tvd2", "tvd3", "dwpre_macro_mean", "dwpre_weighted_mean")
    return " | ".join(mean_sd([item[name] for item in items]) for name in names)


def table_1(results: dict) -> list[str]:
    """The document's Table 1 with our columns: weighted F1 for each column."""
    real = results["reference"]["real"]["dwpre_weighted"]
    head, rule = "| column | train |", "|---|---|"
    columns = [(p, e) for p in PRESETS for e in EPSILONS if runs_of(results, p, e)]
    for preset, epsilon in columns:
        head += f" `{preset}` ε = {shown(epsilon)} |"
        rule += "---|"
    lines = [head, rule]
    for column in SCHEMA.names:
        cells = [
            mean_sd([r["yardstick"]["dwpre_weighted"][column] for r in runs_of(results, p, e)])
            for p, e in columns
        ]
        lines.append(f"| {column} | {real[column]:.3f} | {' | '.join(cells)} |")
    return lines


def drawable(results: dict, preset: str) -> list[float]:
    """The epsilons whose run of seed 0 is there."""
    return [e for e in EPSILONS if name_of(preset, e, 0) in results["runs"]]


def figure_2(results: dict, preset: str, path: Path) -> None:
    """Disclosure against s for each k: the training table itself, then a preset at each epsilon."""
    panels = [("training table itself", results["reference"]["disclosure"])]
    for epsilon in drawable(results, preset):
        run = results["runs"][name_of(preset, epsilon, 0)]
        panels.append((f"{preset}, ε = {shown(epsilon)}", run["disclosure"]))
    figure = Figure(figsize=(15, 3.4), layout="constrained")
    axes = figure.subplots(1, len(panels), sharey=True, squeeze=False)[0]
    for axis, (title, cells) in zip(axes, panels, strict=True):
        for number, k in enumerate(sorted({cell["k"] for cell in cells})):
            mine = [cell for cell in cells if cell["k"] == k]
            s = [cell["s"] for cell in mine]
            axis.plot(s, [c["target"]["value"] for c in mine], color=f"C{number}", label=f"k = {k}")
            control = [c["control"]["value"] for c in mine]
            axis.plot(s, control, color=f"C{number}", linestyle=":")
        axis.set(title=title, xlabel="s unknown attributes", ylim=(0, 1))
    axes[0].set_ylabel("share guessed right")
    axes[0].legend(title="dotted: control", fontsize=8)
    figure.savefig(path, dpi=110)


def figure_3(results: dict, preset: str, path: Path) -> None:
    """One-way marginals: real, and a preset at epsilon inf, 8 and 1."""
    figure = Figure(figsize=(15, 6), layout="constrained")
    axes = figure.subplots(2, 5).ravel()
    tables = [("real", results["reference"]["counts"])]
    for epsilon in drawable(results, preset):
        if epsilon != 20.0:  # the document draws it for infinity and 1
            run = results["runs"][name_of(preset, epsilon, 0)]
            tables.append((f"{preset}, ε = {shown(epsilon)}", run["counts"]))
    for axis, column in zip(axes, SCHEMA.names, strict=True):
        facts = SCHEMA[column]
        if facts.kind == "numeric":
            values = [str(v) for v in range(int(facts.low or 0), int(facts.high or 0) + 1)]
        else:
            values = [str(v) for v in facts.categories] + ["null"] * facts.nulls
        for name, counts in tables:
            total = sum(counts[column].values())
            shares = [counts[column].get(v, 0) / total for v in values]
            style = {"color": "black", "linewidth": 1.6} if name == "real" else {"linewidth": 1}
            axis.step(range(len(values)), shares, where="mid", label=name, **style)
        axis.set(title=column, ylim=(0, None))
        axis.set_xticks([])
    axes[0].legend(fontsize=8)
    figure.savefig(path, dpi=110)


def ablation_table(results: dict) -> list[str]:
    """`source` and its variants at one epsilon."""
    head = "| variant | seeds | tvd1 | tvd2 | tvd3 | F1 macro | F1 weighted |"
    lines = [head, "|" + "---|" * 7]
    for system, (title, _) in VARIANTS.items():
        runs = runs_of(results, system, ABLATION)
        cells = scores([r["yardstick"] for r in runs]) if runs else " | ".join("–" * 5)
        lines.append(f"| {title} | {len(runs)} | {cells} |")
    return lines


def label_table(results: dict) -> list[str]:
    """Label scores, mean over the ten columns, beside weighted F1."""
    lines = [
        "| table | seeds | inception, nats | agreement, nats | F1 weighted |",
        "|" + "---|" * 5,
    ]
    for name, title in (("real", "held-out real rows"), ("shuffled", "independent columns")):
        cells = [mean_sd([mean_of(results["labels"][name], kind)]) for kind in LABEL_SCORES]
        f1 = results["reference"][name]["dwpre_weighted_mean"]
        lines.append(f"| {title} | – | {cells[0]} | {cells[1]} | {f1:.3f} |")
    for preset in PRESETS:
        for epsilon in EPSILONS:
            runs = [r for r in runs_of(results, preset, epsilon) if "labels" in r]
            if not runs:
                continue
            cells = [mean_sd([mean_of(r["labels"], kind) for r in runs]) for kind in LABEL_SCORES]
            f1 = mean_sd([r["yardstick"]["dwpre_weighted_mean"] for r in runs])
            title = f"`{preset}` ε = {shown(epsilon)}"
            lines.append(f"| {title} | {len(runs)} | {cells[0]} | {cells[1]} | {f1} |")
    return lines


def mean_of(labels: dict[str, dict[str, float]], kind: str) -> float:
    return float(np.mean([score[kind] for score in labels.values()]))


def inception_of_baseline(results: dict) -> str:
    """The inception score of independent columns as a share of that of real rows."""
    real, apart = (mean_of(results["labels"][name], "inception") for name in ("real", "shuffled"))
    return f"{100 * apart / real:.0f}%"


def label_columns(results: dict) -> list[str]:
    """The label scores of real rows, column by column."""
    lines = [
        "| column | inception, real | agreement, real | agreement, independent columns |",
        "|---|---|---|---|",
    ]
    real, baseline_labels = results["labels"]["real"], results["labels"]["shuffled"]
    for column in SCHEMA.names:
        cells = f"{real[column]['inception']:.2f} | {real[column]['agreement']:.2f}"
        lines.append(f"| {column} | {cells} | {baseline_labels[column]['agreement']:.2f} |")
    return lines


def other_table(name: str, titles: dict[str, str], why: dict[str, str]) -> list[str]:
    """Table 1 of another table beside the document's; ``titles``: our column for each of the document's."""
    path = HERE / f"{name}.json"
    if not path.exists():
        return ["Not run."]
    results = json.loads(path.read_text())
    columns = [e for e in EPSILONS if runs_of(results, "source", e)]
    head = "| document's column | ours | document: train | ∞ | 1 | 8 | 20 | ours, weighted: train |"
    head += "".join(f" {shown(e)} |" for e in columns) + " ours, macro: train |"
    lines = [head, "|" + "---|" * (9 + len(columns))]
    for column, published in TABLE_1.items():
        ours = titles[column]
        cells = [
            mean_sd([r["yardstick"]["dwpre_weighted"][ours] for r in runs_of(results, "source", e)])
            for e in columns
        ]
        theirs = " | ".join(f"{value:.3f}" for value in published)
        real = results["real"]
        lines.append(
            f"| {column} | {ours} | {theirs} | {real['dwpre_weighted'][ours]:.3f} | {' | '.join(cells)}"
            f" | {real['dwpre'][ours]:.3f} |"
        )
    means = [f"{np.mean(values):.3f}" for values in zip(*TABLE_1.values(), strict=True)]
    cells = [
        mean_sd([r["yardstick"]["dwpre_weighted_mean"] for r in runs_of(results, "source", e)])
        for e in columns
    ]
    lines.append(
        f"| mean | | {' | '.join(means)} | {results['real']['dwpre_weighted_mean']:.3f} |"
        f" {' | '.join(cells)} | {results['real']['dwpre_macro_mean']:.3f} |"
    )
    seeds = {e: len(runs_of(results, "source", e)) for e in columns}
    counted = ", ".join(f"ε = {shown(e)}: {n}" for e, n in seeds.items())
    lines += ["", f"{results['rows']:,} rows; seeds at {counted}.", ""]
    return [*lines, *(f"- {column}: {text}." for column, text in why.items() if text != "the same")]


def code_line(results: dict) -> str:
    """Which runs are of which code."""
    codes: dict[str, list[str]] = {}
    for name, run in results["runs"].items():
        codes.setdefault(run.get("code", ""), []).append(name)
    parts = []
    for code, names in codes.items():
        of = f"code `{code}`" if code else "older code, whose hash was not kept"
        systems = sorted({results["runs"][n]["preset"] for n in names})
        parts.append(f"{len(names)} runs ({', '.join(f'`{s}`' for s in systems)}) are of {of}")
    return "; ".join(parts) + "."


def write_readme() -> None:
    results = load_results()
    for preset, tail in (("default", ""), ("source", "-source")):
        figure_2(results, preset, HERE / f"figure2{tail}.png")
        figure_3(results, preset, HERE / f"figure3{tail}.png")
    parts = {
        "RATIOS": ratio_table(results),
        "SUMMARY": summary_table(results),
        "ABLATION": ablation_table(results),
        "TABLE1": table_1(results),
        "LABELS": label_table(results),
        "LABEL_COLUMNS": label_columns(results),
        "NEAREST": other_table("nearest", NEAREST, WHY),
        "MARYLAND": other_table("maryland", {c: c for c in TABLE_1}, {}),
        "LEAKAGE": [leakage_line(results, preset) for preset in PRESETS],
        "CODE": [code_line(results)],
        "INCEPTION_BASELINE": [inception_of_baseline(results)],
    }
    for template, page in (("template.md", HERE / "README.md"), ("paper.md", PAPER)):
        text = (HERE / template).read_text()
        for name, lines in parts.items():
            text = text.replace(f"<!-- {name} -->", "\n".join(lines))
        page.write_text(text)


def command(
    what: str, run_all: Callable[[str | None], None], write_readme: Callable[[], None]
) -> None:
    """The command line of a report whose runs are kept in a file."""
    parser = options_of(what)
    start(parser.parse_args(), run_all, write_readme)


def options_of(what: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=what)
    parser.add_argument("--write", action="store_true", help="only write, from results.json")
    parser.add_argument("--only", help="only runs whose name contains this")
    return parser


def start(
    options: argparse.Namespace,
    run_all: Callable[[str | None], None],
    write_readme: Callable[[], None],
) -> None:
    if not options.write:
        run_all(options.only)
    if not options.only:
        write_readme()


def main() -> None:
    parser = options_of(__doc__.splitlines()[0])
    parser.add_argument(
        "--table",
        choices=("census", "nearest", "maryland"),
        default="census",
        help="census: the ten columns of this report; nearest: those of the excerpts that are nearest to"
        " the document's; maryland: the document's own, downloaded. The latter two: `source` alone",
    )
    parser.add_argument(
        "--year", type=int, default=2019, help="of the Maryland files (default 2019)"
    )
    parser.add_argument(
        "--period", default="5-Year", help="1-Year or 5-Year (default), of the same"
    )
    parser.add_argument("--pumas", nargs="+", help="areas of the same; default: the first four")
    parser.add_argument("--cache", type=Path, help="a folder that keeps the downloaded files")
    parser.add_argument(
        "--epsilons", nargs="+", type=float, default=EPSILONS, help="of those tables"
    )
    parser.add_argument("--seeds", nargs="+", type=int, default=(0, 1, 2), help="of those tables")
    options = parser.parse_args()
    if options.table == "census" or options.write:
        start(options, run_all, write_readme)
        return
    if options.table == "nearest":
        table, schema = nearest(SCHEMA)
    else:
        table, schema = maryland(options.year, options.period, options.pumas, options.cache)
    run_table(options.table, table, schema, options.epsilons, options.seeds)
    write_readme()


if __name__ == "__main__":
    main()
