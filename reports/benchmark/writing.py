"""The page of a benchmark, from its rows alone."""

import re
from collections.abc import Mapping
from pathlib import Path

import disclosure
import findings
import harness
import numpy as np
import pictures
import store
from config import Config, Run
from harness import UNNAMED
from ranks import (
    FIGURES,
    SHOWN,
    Block,
    Figure,
    blocks,
    cells_of,
    mean_ranks,
    ranked_systems,
    runs_of,
    values,
)

from tabsynth._files import write_text

TEMPLATE = Path(__file__).resolve().with_name("template.md")
# Of the test rows: a classifier of them that is tested on them says nothing.
NOT_OF_FRESH = ("dwpre_macro_mean", "dwpre_weighted_mean", "target_auroc")


def write(config: Config) -> None:
    """Write README.md, ranks.png and cost.png beside the config file."""
    results, folder = harness.load_rows(config.store), config.path.parent
    ranks, cells = {}, {}
    for figure in FIGURES:
        figures = values(config, results, figure)
        systems = ranked_systems(config, figures)
        ranks[figure.key] = mean_ranks(config, figures, systems)
        cells[figure.key] = len(cells_of(config, figures))
    pictures.draw_ranks(config, ranks, cells, folder / "ranks.png")
    pictures.draw_cost(config, results, folder / "cost.png")
    first = next(iter(config.systems))
    parts = {
        "MISSING": missing(config, results),
        "WINS": [findings.wins(config, results), f"{findings.fastest(config, results)}."],
        "LEADERS": findings.leaders(config, results),
        "LOSSES": findings.losses(config, results),
        "BASELINE": findings.below_baseline(config, results),
        "AGAINST": findings.against(config, results, first),
        "DELTA": [f"{config.delta:g}".replace("e-0", "e-")],
        "LIMIT": [f"{config.limit:,}"],
        "PEERS": peers(config),
        "RELEASE": [release_line(config, results)],
        "FIRST": [config.systems[first].title],
        "PAST_LIMIT": findings.past_limit(config, results),
        "DISCLOSURE": disclosure.by_system(config, results),
        "LACKING": missing_figures(config, results),
        "TABLES": [
            line
            for key in SHOWN[1:]
            for line in (*of_figure(config, results, findings.BY[key]), "")
        ],
        "CPU": cpu_table(config, results),
    }
    page = harness.fill(TEMPLATE, {name: "\n".join(lines) for name, lines in parts.items()})
    write_text(folder / "README.md", page, overwrite=True)


def missing(config: Config, results: Mapping[str, dict]) -> list[str]:
    """Return how many runs were made, and which are missing."""
    runs = config.runs()
    absent = store.missing_runs(config, results)
    measured = [run for run in runs if run.key in results and run not in absent]
    ended = [run for run in measured if "stopped" not in results[run.key]]
    text = (
        f"Of {len(runs)} runs {len(ended)} ended and {len(measured) - len(ended)} were stopped."
        f" For that reason {len(runs) - len(measured) - len(absent)} more were not tried."
    )
    if not absent:
        return [text]
    each = []
    for name, system in config.systems.items():
        count = sum(run.system == name for run in absent)
        if count:
            each.append(f"{system.title} {count}")
    are = "is" if len(absent) == 1 else "are"
    return [f"{text} **{len(absent)} {are} still to be made** ({', '.join(each)})."]


def peers(config: Config) -> list[str]:
    """Return the package of each peer, and the settings that differ from its defaults."""
    lines = [
        "| peer | package | settings that differ from its defaults |",
        "|" + "---|" * 3,
    ]
    for system in config.systems.values():
        if system.peer:
            options = ", ".join(f"{key} = {value}" for key, value in system.options.items())
            package = re.sub(r"@([0-9a-f]{12})[0-9a-f]{28}$", r"@\1", system.package)
            cells = [system.title, f"`{package}`", options or "none"]
            lines.append("| " + " | ".join(cells) + " |")
    return lines if len(lines) > 2 else ["This benchmark has no peers."]


def release_line(config: Config, results: Mapping[str, dict]) -> str:
    """Return which release of tabsynth the runs of its systems were measured on."""
    counts: dict[str, dict[str, int]] = {}
    for run in config.runs():
        row, system = results.get(run.key), config.systems[run.system]
        if row is not None and not system.peer:
            systems = counts.setdefault(row.get("release", UNNAMED), {})
            systems[system.title] = systems.get(system.title, 0) + 1
    return " ".join(
        f"Runs of tabsynth on release {release}: {', '.join(f'{name} {n}' for name, n in systems.items())}."
        for release, systems in sorted(counts.items())
    )


def missing_figures(config: Config, results: Mapping[str, dict]) -> list[str]:
    """Return which runs lack figures that other rows of their table have, and how to measure them."""
    keys = {f.key: f.title for f in FIGURES} | {"cpu_seconds": "CPU time and memory"}
    had: dict[str, set[str]] = {}
    for row in results.values():
        had.setdefault(row["table"], set()).update(row)
    ended = [r for r in config.runs() if "stopped" not in results.get(r.key, {"stopped": ""})]
    alike: dict[tuple[str, ...], list[Run]] = {}
    for run in ended:
        row = results[run.key]
        if lacks := tuple(k for k in keys if k in had[run.table] and k not in row):
            alike.setdefault(lacks, []).append(run)
    if not alike:
        return ["Every run that ended has all figures that others of its table have."]
    lines = []
    for lacks, runs in alike.items():
        lines.append(
            f"- {', '.join(keys[k] for k in lacks)}: {len(runs)} run{'s' if len(runs) > 1 else ''}"
        )
        for name, system in config.systems.items():
            if mine := [run for run in runs if run.system == name]:
                each = "; ".join(
                    f"`{table}`, {findings.epsilons_and_seeds(here)}"
                    for table in config.tables
                    if (here := [run for run in mine if run.table == table])
                )
                lines.append(f"  - {system.title} {len(mine)}: {each}")
    count, key = sum(map(len, alike.values())), next(iter(alike.values()))[0].key
    return [
        f"**{count} of the {len(ended)} runs that ended lack figures** that others of their table have:",
        "",
        *lines,
        "",
        "`python reports/benchmark/run.py --only KEY --again` measures such a run again. KEY is the key of"
        f" its row, such as `{key}`.",
    ]


def head_of_cells(config: Config, title: str) -> list[str]:
    """Return the head of a table with a column for each cell."""
    cells = [findings.short_name(config, block) for block in blocks(config)]
    return [f"| {title} | " + " | ".join(cells) + " |", "|" + "---|" * (len(cells) + 1)]


def of_figure(config: Config, results: Mapping[str, dict], figure: Figure) -> list[str]:
    """Return the means of a figure over seeds, of references and systems in every cell, and their largest deviation."""
    lines, deviations = head_of_cells(config, figure.title), [0.0]
    for name, title in store.REFERENCES.items():
        rows = [results.get(f"{table}-{name}", {}) for table, _ in blocks(config)]
        if (name == "fresh" and figure.key in NOT_OF_FRESH) or (name == "real" and figure.sign < 0):
            continue
        cells = [
            findings.format_figure(row[figure.key], figure) if figure.key in row else "–"
            for row in rows
        ]
        lines.append(f"| *{title}* | " + " | ".join(cells) + " |")
    for name, system in config.systems.items():
        cells = []
        for block in blocks(config):
            numbers, text = measured(config, results, block, name, figure.key)
            cells.append(text or findings.format_figure(float(np.mean(numbers)), figure))
            if len(numbers) > 1:
                deviations.append(float(np.std(numbers, ddof=1)))
        lines.append(f"| {system.title} | " + " | ".join(cells) + " |")
    largest = findings.format_figure(max(deviations), figure)
    return [*lines, "", f"The standard deviation over seeds is at most {largest}."]


def cpu_table(config: Config, results: Mapping[str, dict]) -> list[str]:
    """Return the mean CPU seconds of fits in every cell, and the largest peak memory of each system."""
    lines = head_of_cells(config, "CPU seconds")
    lines = [lines[0] + " MiB |", lines[1] + "---|"]
    for name, system in config.systems.items():
        cells, peaks = [], []
        for block in blocks(config):
            numbers, text = measured(config, results, block, name, "cpu_seconds")
            cells.append(text or f"{np.mean(numbers):,.0f}")
            peaks += measured(config, results, block, name, "peak_mib")[0]
        peak = f"{max(peaks):,.0f}" if peaks else "–"
        lines.append(f"| {system.title} | " + " | ".join([*cells, peak]) + " |")
    return lines


def measured(
    config: Config, results: Mapping[str, dict], block: Block, system: str, key: str
) -> tuple[list[float], str]:
    """Return the values of a key over the seeds of a cell, or no value and why there is none."""
    rows = runs_of(config, results, block, system)
    if not rows:
        return [], "not run yet"
    if "stopped" in rows[0]:
        return [], store.reason(rows[0], block[1])
    numbers = [row[key] for row in rows if key in row]
    return numbers, "" if numbers else "–"
