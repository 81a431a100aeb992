"""The pictures of this report: ``python reports/style.py bias`` draws them."""

from pathlib import Path

import numpy as np
import style

ROWS = style.load("bias")
RULES = {"dp-sgd": "DP-SGD", "dp-sat": "DP-SAT", "bam": "BAM"}
COLOURS = dict(zip(RULES, style.COLOURS, strict=False))
SIZES = (64, 128, 256, 512, 1024, 2048)


def rows(start: str) -> list[dict]:
    """Return the rows of all seeds of a setting."""
    found = [row for key, row in ROWS.items() if key.startswith(f"{start} seed")]
    assert found, start
    return found


def training(path: Path) -> None:
    """Draw the bias during training, a panel for each task."""
    settings = {
        "classifier, C = 3": ("classifier eps2", "lr0.01 C3", (0, 0.03, 0.003)),
        "critic": ("critic eps2", "lr0.001 C0.5", (0, 0.3, 0.003)),
    }
    title = "BAM lowers the bias of the classifier, DP-SAT raises it"
    with style.plot(path, height=2.8, columns=2, title=title) as (_, axes):
        for axis, (name, (task, bound, radii)) in zip(axes[0], settings.items(), strict=True):
            for rule, radius in zip(RULES, radii, strict=True):
                found = [row["probes"] for row in rows(f"run {task} {rule} r{radius} {bound} B512")]
                bias = np.mean([probes["bias"] for probes in found], axis=0)
                line = "--" if rule == "bam" else "-"
                axis.plot(found[0]["t"], bias, line, color=COLOURS[rule], label=RULES[rule])
            axis.set(title=name, xlabel="step", ylim=(0, None))
        axes[0, 0].set_ylabel("bias ‖ĝ_clip − ĝ‖")
        axes[0, 1].legend()


def radius(path: Path) -> None:
    """Draw what the radius and the clipping bound do to log-loss and bias on public rows."""
    panels = {"loss": "log-loss", "bias": "bias ‖ĝ_clip − ĝ‖"}
    title = "A wider clipping bound lowers log-loss and bias more than any rule"
    with style.plot(path, height=3.1, columns=2, title=title) as (figure, axes):
        for axis, (key, label) in zip(axes[0], panels.items(), strict=True):
            for bound, line in (("lr0.01 C3", "-"), ("lr0.003 C10", "--")):
                wide = bound.rpartition("C")[2]
                level = np.mean(
                    [row[key] for row in rows(f"tune classifier eps2 dp-sgd r0 {bound} B512")]
                )
                axis.axhline(level, ls=line, color=COLOURS["dp-sgd"], label=f"DP-SGD, C = {wide}")
                for rule, radii in (
                    ("dp-sat", (0.01, 0.03, 0.1, 0.3)),
                    ("bam", (0.003, 0.01, 0.03, 0.1)),
                ):
                    found = [rows(f"tune classifier eps2 {rule} r{r} {bound} B512") for r in radii]
                    means = [np.mean([row[key] for row in each]) for each in found]
                    style_of = {"color": COLOURS[rule], "ls": line, "marker": "o", "ms": 4}
                    axis.plot(radii, means, **style_of, label=f"{RULES[rule]}, C = {wide}")
            axis.set(title=label, xlabel="radius λ or ρ", xscale="log")
        figure.legend(*axes[0, 0].get_legend_handles_labels(), ncols=3, loc="outside lower center")


def batch(path: Path) -> None:
    """Draw bias and cosine against the size of the batch."""
    same = [row["probes"] for row in rows("sizes classifier eps2 dp-sgd r0 lr0.01 C3 B512")]
    title = "Larger batches have less bias, and no better direction"
    with style.plot(path, height=2.8, columns=2, title=title) as (_, axes):
        panels = {"bias": "bias", "cosine": "cosine with the mean gradient"}
        for axis, (key, label) in zip(axes[0], panels.items(), strict=True):
            own = [
                [
                    np.mean(row["probes"][key])
                    for row in rows(f"size classifier eps2 dp-sgd r0 lr0.01 C3 B{size}")
                ]
                for size in SIZES
            ]
            fixed = [
                [np.mean(np.array(p[key])[np.array(p["size"]) == size]) for p in same]
                for size in SIZES
            ]
            named = {"own training": own, "same weights": fixed}
            for colour, (name, values) in zip(style.COLOURS, named.items(), strict=False):
                style.curve(axis, SIZES, values, color=colour, label=name)
            axis.set(xlabel="rows in a batch", ylabel=label, xscale="log", ylim=(0, None))
            axis.set_xticks(SIZES, map(str, SIZES))
            axis.minorticks_off()
        axes[0, 0].legend()


PICTURES = (training, radius, batch)
