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
from harness import UNNAMED, mean_sd
from ranks import (
    FIGURES,
    Rank,
    blocks,
    complete,
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
        cells[figure.key] = complete(config, figures, systems)
    pictures.draw_ranks(config, ranks, cells, folder / "ranks.png")
    pictures.draw_cost(config, results, folder / "cost.png")
    first = next(iter(config.systems))
    parts = {
        "MISSING": missing(config, results),
        "SUMMARY": summary(config, results, ranks, first),
        "RANKS": rank_table(config, results, ranks),
        "LEADERS": findings.leaders(config, results),
        "LOSSES": findings.losses(config, results),
        "BASELINE": findings.below_baseline(config, results),
        "AGAINST": findings.against(config, results, first),
        "DELTA": [f"{config.delta:g}".replace("e-0", "e-")],
        "LIMIT": [f"{config.limit:,}"],
        "PEERS": peers(config),
        "RELEASE": [release_line(config, results)],
        "FIRST": [config.systems[first].title],
        "NOTDONE": findings.not_done(config, results),
        "DISCLOSURE": disclosure.by_system(config, results),
        "LACKING": missing_figures(config, results),
        "TABLES": [
            line for table in config.tables for line in (*of_table(config, results, table), "")
        ],
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
        f"Of {len(runs)} runs {len(ended)} ended, {len(measured) - len(ended)} were stopped,"
        f" {len(runs) - len(measured) - len(absent)} more were not tried for that."
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
    parts = [
        f"{release}: {', '.join(f'{name} {n}' for name, n in systems.items())}"
        for release, systems in sorted(counts.items())
    ]
    return f"- Runs of tabsynth were measured on release {'; on release '.join(parts)}."


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
        "They count as made, so that `make bench` leaves them as they are. `python"
        " reports/benchmark/run.py --only KEY --again` fits and scores such a run afresh and replaces its"
        f" row, KEY being that of the row (`{key}`; every run whose key contains it is made again), then"
        " `--write` writes this page.",
    ]


def summary(
    config: Config, results: Mapping[str, dict], ranks: Mapping[str, Mapping[str, Rank]], first: str
) -> list[str]:
    """Return which system is first by mean rank, how often, and the share of the private rows' figure that it keeps."""
    lines = []
    for figure in FIGURES:
        by_cell = {
            block: findings.places(config, results, block, figure) for block in blocks(config)
        }
        won = [p[0].system for p in by_cell.values() if len(p) > 1]
        if not won:
            continue
        counts = sorted(((won.count(n), n) for n in set(won)), reverse=True)
        each = ", ".join(f"{config.systems[n].title} {c}" for c, n in counts)
        best = min(ranks[figure.key].items(), key=lambda item: item[1].value, default=None)
        text = f"- **{figure.title}**, {len(won)} cells won: {each}."
        if best:
            rank = best[1]
            text += (
                f" Best mean rank of {len(ranks[figure.key])}: {config.systems[best[0]].title},"
                f" {rank.value:.1f} ({rank.low:.1f} to {rank.high:.1f})."
            )
        lines.append(text)
    return [*lines, *retained_f1(config, results, first)]


def retained_f1(config: Config, results: Mapping[str, dict], first: str) -> list[str]:
    """Return the share of the private rows' weighted F1 that the systems keep."""
    lines = []
    figure = findings.BY["dwpre_weighted_mean"]
    for epsilon in sorted(config.epsilons):
        each = []
        for name, system in config.systems.items():
            ratios = []
            for table in config.tables:
                real = results.get(f"{table}-real", {}).get(figure.key)
                here = findings.places(config, results, (table, epsilon), figure)
                ratios += [p.value / real for p in here if p.system == name and real]
            if len(ratios) == len(config.tables):
                each.append(f"{system.title} {100 * min(ratios):.0f}–{100 * max(ratios):.0f}%")
        if each:
            lines.append(
                f"- **Of the private rows' weighted F1** is kept at ε = {epsilon:g}, over the tables: "
                + ", ".join(each)
                + "."
            )
    return lines


def rank_table(
    config: Config, results: Mapping[str, dict], ranks: Mapping[str, Mapping[str, Rank]]
) -> list[str]:
    """Return the table of mean ranks, with the cells that ended."""
    lines = ["| system | " + " | ".join(f.title for f in FIGURES) + " | cells that ended |"]
    lines.append("|" + "---|" * (len(FIGURES) + 2))
    for name, system in config.systems.items():
        cells = []
        for figure in FIGURES:
            rank = ranks[figure.key].get(name)
            cells.append(f"{rank.value:.1f} ({rank.low:.1f} to {rank.high:.1f})" if rank else "–")
        runs = [rows for b in blocks(config) if (rows := runs_of(config, results, b, name))]
        ended = sum("stopped" not in rows[0] for rows in runs)
        cells.append(
            ", ".join(
                filter(None, [str(ended), findings.cells_without_table(config, results, name)])
            )
        )
        lines.append(f"| {system.title} | " + " | ".join(cells) + " |")
    return lines


def of_table(config: Config, results: Mapping[str, dict], table: str) -> list[str]:
    """Return every figure of one data table: mean ± standard deviation over seeds."""
    titles = " | ".join(f.title for f in FIGURES)
    lines = [f"| {config.tables[table].title} | ε | {titles} | CPU s | MiB | seeds |"]
    lines.append("|" + "---|" * (len(FIGURES) + 5))
    for name, title in store.REFERENCES.items():
        if row := results.get(f"{table}-{name}"):
            lines.append(line(title, None, [row], fresh=name == "fresh"))
    for epsilon in sorted(config.epsilons):
        for name, system in config.systems.items():
            rows = runs_of(config, results, (table, epsilon), name)
            lines.append(line(system.title, epsilon, rows))
    return lines


def line(title: str, epsilon: float | None, rows: list[dict], *, fresh: bool = False) -> str:
    """Return the line of a system, or of a reference, in the table of all figures."""
    head = f"| {title} | " + ("–" if epsilon is None else f"{epsilon:g}")
    wide = len(FIGURES) + 2
    if not rows:
        return f"{head} | not run yet |" + " |" * wide
    if epsilon is not None and "stopped" in rows[0]:
        return f"{head} | {store.reason(rows[0], epsilon)} |" + " |" * wide
    cells = [
        "–"
        if fresh and f.key in NOT_OF_FRESH
        else mean_sd([r[f.key] for r in rows if f.key in r], f.digits)
        for f in FIGURES
    ]
    timed = [r for r in rows if "cpu_seconds" in r]
    cells.append(f"{np.mean([r['cpu_seconds'] for r in timed]):.0f}" if timed else "–")
    cells.append(f"{max(r['peak_mib'] for r in timed):.0f}" if timed else "–")
    return f"{head} | " + " | ".join([*cells, str(len(rows))]) + " |"
