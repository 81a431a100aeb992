"""The time that privacy costs: a private training step compared with its own ordinary step.

    python reports/speed/run.py                     # measures what is missing
    python reports/speed/run.py --only peers --again
    python reports/speed/gpu.py                     # measures what the page shows of a GPU

Every step of a comparison takes its turn in one loop, so that whatever else the machine does falls on
all of them; the figures are medians, and the ratios have the quartiles of ratios within a turn. Both
sides draw a batch, compute, and step the optimiser; the private side adds its noise. Each part is measured on one thread,
in a process of its own.
"""

import platform
import statistics
import sys
import warnings
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

import torch

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]
import style  # noqa: E402
from engines import check_peers, engines  # noqa: E402
from harness import Row, Rows, Study, fill, load_rows, releases, table  # noqa: E402
from settings import Setting, settings, steps_of  # noqa: E402
from timing import ratio, turns  # noqa: E402

TURNS = 100


def steps() -> list[Row]:
    """Return each private step compared with its ordinary one."""
    out = []
    for name, setting in settings().items():
        each, pairs = steps_of(setting)
        count = max(8, round(TURNS * min(1.0, 1000 / setting.batch)))
        times = turns(each, count)
        for over, under in pairs:
            row = {"critic": name, "step": over, "turns": count}
            row["ordinary_ms"] = round(1e3 * statistics.median(times[under]), 2)
            out.append(row | ratio(times, over, under))
    return out


def peers() -> list[Row]:
    """Return the private step of other engines compared with that of tabsynth."""
    warnings.filterwarnings("ignore", message="Full backward hook is firing")
    check_peers()
    out = []
    for batch, count in ((512, TURNS // 5), (4096, TURNS // 15)):
        each = engines(Setting(64, batch))
        times = turns(each, count)
        for name in list(each)[1:]:
            row = {"batch": batch, "engine": name, "turns": count}
            out.append(row | ratio(times, name, "ours"))
    return out


def machine() -> str:
    """Return the machine and the version of torch."""
    cores = "two shared cores" if torch.get_num_interop_threads() <= 2 else "several cores"
    return f"torch {torch.__version__}, CPU ({platform.machine()}, {cores})"


def measure(part: Callable[[], list[Row]]) -> Row:
    """Return the rows of one part of the study, on one thread."""
    torch.set_num_threads(1)
    return {"machine": machine(), "rows": part()}


# Of each table of ratios: the part that it shows, and what names its lines and its columns.
RATIOS = {
    "STEPS": ("steps", "critic", "step"),
    "PEERS": ("peers", "engine", "batch"),
}


def page(rows: Rows) -> str:
    """Return the page."""
    parts = {
        "MACHINE": rows.get("steps", {}).get("machine", "–"),
        "RELEASE": _releases([rows["steps"]]),
        "EARLIER": _releases([rows["peers"]]),
        "ANSWER": _range(rows, "steps"),
    }
    for name, (key, line, column) in RATIOS.items():
        parts[name] = _ratios(rows.get(key, {}).get("rows", []), line, column)
    parts |= _on_gpu(load_rows(HERE / "gpu.json"))
    return fill(HERE / "template.md", parts)


def _on_gpu(parts: Rows) -> dict[str, str]:
    """Return what the page shows of a GPU."""
    steps = [row for key, part in parts.items() if key.startswith("steps") for row in part["rows"]]
    fits = [row for key, part in parts.items() if key.startswith("fit") for row in part["rows"]]
    steps.sort(key=lambda row: row["batch"])
    named = [row | {"step": f"{row['step']}, {row['both']}"} for row in steps]
    of_sgd = [r for r in steps if r["both"] == "recorded" and "DP-SGD" in r["step"]]
    columns = {"method": "method", "fit": "fit, seconds", "sample": "sample, seconds"}
    return {
        "GPU": next(iter(parts.values()))["machine"],
        "ON_GPU": _range({"recorded": {"rows": of_sgd}}, "recorded"),
        "GPU_STEPS": _ratios(named, "step", "batch"),
        "GPU_TIMES": ", ".join(
            f"{row['private_ms']:.2f} ms at {row['batch']:,}"
            for row in steps
            if row["both"] == "recorded" and row["step"].startswith("WGAN")
        ),
        "GPU_FITS": table(list(columns.values()), [_cells(row, columns) for row in fits]),
    }


def _releases(rows: Iterable[Row]) -> str:
    return releases(rows).removeprefix("Measured on ").removesuffix(".")


def draw(rows: Rows, folder: Path) -> None:
    """Draw the ratios of private steps over ordinary ones, with quartiles, by critic."""
    shown = rows.get("steps", {}).get("rows", [])
    critics = list(dict.fromkeys(row["critic"] for row in shown))
    kinds = list(dict.fromkeys(row["step"] for row in shown))
    title = f"A DP-SGD step takes {_range(rows, 'steps')} times an ordinary step"
    with style.plot(folder / "steps.png", height=3.4, title=title) as (figure, axes):
        for row in shown:
            i = kinds.index(row["step"])
            y = critics.index(row["critic"]) + 0.12 * (i - 2.5)
            axes[0, 0].plot([row["low"], row["high"]], [y, y], color=style.COLOURS[i])
            (mark,) = axes[0, 0].plot(row["ratio"], y, "o", color=style.COLOURS[i], markersize=4)
            if row["critic"] == critics[0]:
                mark.set_label(row["step"])
        axes[0, 0].axvline(1, color=style.REAL, linewidth=1)
        axes[0, 0].set(xlim=(0.8, None), ylim=(len(critics) - 0.5, -0.5))
        axes[0, 0].set_xlabel("time of a private step over its ordinary step, with quartiles")
        axes[0, 0].set_yticks(
            range(len(critics)), [c.replace(", batch", "\nbatch") for c in critics]
        )
        figure.legend(ncols=3, loc="outside lower center")


def _cells(row: Row, columns: dict[str, str]) -> list[str]:
    return [f"{row[k]:,}" if isinstance(row[k], int) else str(row[k]) for k in columns]


def _ratio(row: Row) -> str:
    return f"{row['ratio']:.2f} ({row['low']:.2f}–{row['high']:.2f})"


def _ratios(rows: list[Row], line: str, column: str) -> str:
    """Return ratios with their quartiles, a line and a column for each value of two keys."""
    by = {(row[line], row[column]): _ratio(row) for row in rows}
    lines, columns = (list(dict.fromkeys(key[i] for key in by)) for i in (0, 1))
    names = [f"{name:,}" if isinstance(name, int) else name for name in columns]
    head = [line, *(f"{column} {name}" if column == "batch" else name for name in names)]
    return table(head, [[name, *(by.get((name, each), "–") for each in columns)] for name in lines])


def _range(rows: Rows, key: str) -> str:
    """Return the range of the ratios of DP-SGD steps, as a text."""
    ratios = [r["ratio"] for r in rows.get(key, {}).get("rows", []) if "DP-SGD" in r["step"]]
    return f"{min(ratios):.2f} to {max(ratios):.2f}" if ratios else "–"


STUDY = Study(
    script=Path(__file__).resolve(),
    settings={"steps": partial(measure, steps), "peers": partial(measure, peers)},
    measure=lambda part: part(),
    page=page,
    draw=draw,
    apart=True,
)

if __name__ == "__main__":
    STUDY.main()
