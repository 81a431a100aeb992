"""Pictures of the study, from its results alone."""

from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from plans import NAMES, RULES, Plans, Results, found, radii, values
from study import FOLDS

HERE = Path(__file__).resolve().parent
COLORS = {"dp-sgd": "C0", "dp-sat": "C1", "bam": "C2", "bam-exact": "C3"}
SHORT = {name: rule for rule, name in NAMES.items()}


def figure_2(results: Results, plans: Plans) -> None:
    figure = Figure(figsize=(12, 6.4), layout="constrained")
    for row, task in zip(figure.subplots(2, 3), ("classifier", "critic"), strict=True):
        for rule in RULES:
            runs = found(results, "run", plans[task, rule, 2.0])
            t = np.array(runs[0]["probes"]["t"])
            for axis, name in zip(row, ("bias", "cosine", "ascent"), strict=True):
                if name == "ascent" and rule == "dp-sgd":
                    continue
                y = np.array([run["probes"][name] for run in runs], dtype=float)
                mean, sd = y.mean(0), y.std(0, ddof=1)
                axis.plot(t, mean, color=COLORS[rule], label=NAMES[rule])
                axis.fill_between(t, mean - sd, mean + sd, color=COLORS[rule], alpha=0.15, lw=0)
                if name == "bias" and rule != "dp-sgd":
                    own = np.mean([run["probes"]["clipping_bias"] for run in runs], axis=0)
                    axis.plot(t, own, color=COLORS[rule], lw=1, linestyle=":")
        row[0].set(title=f"{task}: bias (dotted: by the clip)", ylim=(0, None))
        row[1].set(title=f"{task}: cos(ĝ_clip, ĝ)", ylim=(None, 1.02))
        row[2].set(title=f"{task}: cosine of the ascent with ĝ")
        row[2].axhline(0, color="black", lw=0.5)
        for axis in row:
            axis.set(xlabel="step")
        row[0].legend(fontsize=8)
        row[2].legend(fontsize=8)
    figure.savefig(HERE / "figure2.png", dpi=110)


def figure_3(ratios: dict[str, dict[int, np.ndarray]]) -> None:
    """The source's Figure 3, as ratios to the ordinary step."""
    figure = Figure(figsize=(7, 4), layout="constrained")
    axis = figure.subplots()
    for name, by_depth in ratios.items():
        y = np.array(list(by_depth.values()))
        style = "--" if "torch.func" in name else "-"
        color = COLORS[SHORT[name.split(",")[0]]]
        axis.errorbar(
            list(by_depth),
            y.mean(1),
            y.std(1, ddof=1),
            marker="o",
            ms=3,
            capsize=2,
            linestyle=style,
            color=color,
            label=name,
        )
    axis.axhline(1, color="black", lw=0.5)
    axis.set(yscale="log", xlabel="hidden layers of 64", ylabel="time / ordinary step")
    axis.legend(fontsize=8, ncols=2)
    figure.savefig(HERE / "figure3.png", dpi=110)


def figure_5(numbers: dict) -> None:
    """The source's Figures 5 and 6."""
    figure = Figure(figsize=(9, 3.6), layout="constrained")
    sizes = sorted(numbers["own bias"])
    for axis, name in zip(figure.subplots(1, 2), ("bias", "cosine"), strict=True):
        for key, label in (
            (f"own {name}", "training with batches of that size"),
            (name, "same weights (trained at 512)"),
        ):
            y = np.array([numbers[key][size] for size in sizes])
            axis.errorbar(
                sizes, y.mean(1), y.std(1, ddof=1), marker="o", ms=4, capsize=2, label=label
            )
        limit = numbers[name][0].mean()
        axis.axhline(limit, color="C1", linestyle=":", label="same weights, all public rows")
        title = "bias ‖ĝ_clip − ĝ‖" if name == "bias" else "cos(ĝ_clip, ĝ)"
        axis.set(xscale="log", xlabel="batch size", title=title)
        axis.set_xticks(sizes, [str(size) for size in sizes])
        axis.minorticks_off()
    figure.axes[0].set_ylim(0, None)
    figure.axes[0].legend(fontsize=8)
    figure.savefig(HERE / "figure5.png", dpi=110)


def figure_radii(results: Results, plans: Plans) -> None:
    """On public rows: what the radius does, ε by ε, next to DP-SGD (level lines)."""
    figure = Figure(figsize=(13, 3.4), layout="constrained")
    panels = (
        ("accuracy", "accuracy on public rows"),
        ("loss", "log-loss"),
        ("bias", "bias ‖ĝ_clip − ĝ‖"),
    )
    for axis, (name, title) in zip(figure.subplots(1, 3), panels, strict=True):
        for epsilon, style in ((1.0, ":"), (2.0, "--"), (10.0, "-")):
            plain = plans["classifier", "dp-sgd", epsilon]
            level = values(found(results, "tune", plain, range(FOLDS)), name).mean()
            axis.axhline(
                level,
                color=COLORS["dp-sgd"],
                linestyle=style,
                lw=1,
                label=f"DP-SGD, ε = {epsilon:g}",
            )
            for rule in RULES[1:]:
                tried = radii(plain, rule)
                y = [values(found(results, "tune", p, range(FOLDS)), name).mean() for p in tried]
                axis.plot(
                    [p.rule.radius for p in tried],
                    y,
                    color=COLORS[rule],
                    linestyle=style,
                    marker="o",
                    ms=3,
                    label=f"{NAMES[rule]}, ε = {epsilon:g}",
                )
        axis.set(xscale="log", xlabel="radius λ or ρ", title=title)
    figure.legend(*axis.get_legend_handles_labels(), loc="outside right center", fontsize=8)
    figure.savefig(HERE / "radii.png", dpi=110)
