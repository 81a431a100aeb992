"""The ablation rows as a table of figures (ablations.csv) and as a plot (ablations.png).

`run.py` makes the rows, one process and one row a fit, and skips those that exist. A row is compared with its
control: the same seeds, table and epsilon with one setting or design choice less changed.
"""

import csv
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from ours import REMOVED, SETTINGS, VARIANTS

FIGURES = {
    "tvd2": "tvd2",
    "tvd3": "tvd3",
    "f1_macro": "dwpre_macro_mean",
    "f1_weighted": "dwpre_weighted_mean",
}
COLUMNS = ("variant", "control", "table", "epsilon", "seed", *FIGURES, "cpu_seconds", "code")
ALL = VARIANTS | SETTINGS | REMOVED
EARLIER = "earlier"  # rows that were measured before the code's hash was kept
PANELS = {
    "tvd2": "tvd2 (lower is better)",
    "dwpre_weighted_mean": "F1, weighted (higher is better)",
}


def control_of(system: str) -> str:
    """The system whose rows a variant is compared with."""
    about = ALL[system.partition(":")[2]]
    return f"margnet:{about.control}" if about.control else "margnet"


def rows(results: Mapping[str, Mapping]) -> list[dict]:
    """One row a fit, in the columns of the CSV: every variant and every control."""
    systems = {f"margnet:{name}" for name in ALL} | {"margnet"}
    cells = {(r["table"], r["epsilon"]) for r in results.values() if ":" in r.get("system", "")}
    kept = [
        row
        for row in results.values()
        if row.get("system") in systems
        and (row["table"], row["epsilon"]) in cells
        and "stopped" not in row
    ]
    kept.sort(key=lambda r: (r["table"], r["epsilon"], r["system"], r["seed"]))
    return [
        {
            "variant": row["system"].partition(":")[2] or "default",
            "control": control_of(row["system"]).partition(":")[2] or "default"
            if ":" in row["system"]
            else "",
            "table": row["table"],
            "epsilon": row["epsilon"],
            "seed": row["seed"],
            **{name: row[key] for name, key in FIGURES.items()},
            "cpu_seconds": round(row["cpu_seconds"], 1),
            "code": row.get("code", EARLIER),
        }
        for row in kept
    ]


def write_csv(results: Mapping[str, Mapping], path: Path) -> None:
    with path.open("w", newline="", encoding="utf-8") as handle:
        writer = csv.DictWriter(handle, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows(results))


def changes(
    results: Mapping[str, Mapping], system: str, table: str, epsilon: float, figure: str
) -> np.ndarray:
    """Variant less control, one number for each seed that both have, shape (seeds,)."""
    by_seed = {
        name: {
            r["seed"]: r[figure]
            for r in results.values()
            if (r.get("system"), r.get("table"), r.get("epsilon")) == (name, table, epsilon)
            and figure in r
        }
        for name in (system, control_of(system))
    }
    ours, control = by_seed[system], by_seed[control_of(system)]
    return np.array([ours[seed] - control[seed] for seed in sorted(ours.keys() & control.keys())])


def draw(results: Mapping[str, Mapping], epsilon: float, path: Path) -> None:
    """Each variant's change of two figures at one epsilon: a dot a seed; the bar is the seeds' spread."""
    tables = sorted({r["table"] for r in results.values() if ":" in r.get("system", "")})
    abouts = ALL
    names = [
        n
        for n in abouts
        if any(len(changes(results, f"margnet:{n}", t, epsilon, "tvd2")) for t in tables)
    ]
    figure = Figure(figsize=(11, 1 + 0.32 * len(names)), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(1, len(PANELS), sharey=True)
    for axis, (key, title) in zip(axes, PANELS.items(), strict=True):
        for place, table in enumerate(tables):
            default = [
                r[key]
                for r in results.values()
                if (r.get("system"), r.get("table"), r.get("epsilon"))
                == ("margnet", table, epsilon)
            ]
            if len(default) > 1:
                spread = float(np.std(default, ddof=1))
                axis.axvspan(-spread, spread, color=f"C{place}", alpha=0.12, lw=0)
            for y, name in enumerate(names):
                result = changes(results, f"margnet:{name}", table, epsilon, key)
                heights = np.full(len(result), y + 0.2 * (place - (len(tables) - 1) / 2))
                axis.plot(result, heights, "o", ms=4, color=f"C{place}", alpha=0.8)
            axis.plot([], [], "o", color=f"C{place}", label=table)
        axis.axvline(0, color="black", lw=0.8)
        axis.set_title(f"Change of {title}", fontsize=10)
        axis.grid(axis="x", alpha=0.3)
    axes[0].set_yticks(range(len(names)), [abouts[name].title for name in names], fontsize=8)
    axes[0].invert_yaxis()
    axes[-1].legend(loc="lower right", fontsize=8)
    figure.savefig(path, dpi=110)
