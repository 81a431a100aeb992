"""The pictures of this report: ``python reports/style.py gans`` draws them."""

from pathlib import Path

import numpy as np
import style

FIGURES = {"tvd2": "mean distance of pairs (0 is best)", "dwpre_weighted_mean": "weighted F1"}


def systems(path: Path) -> None:
    """Draw both figures of each system at two ε, between independent columns and real rows."""
    census, gans = style.load("census"), style.load("gans")
    found = {
        "MargNet": (style.load("benchmark"), "census-margnet"),
        "DP-WGAN": (census["runs"], "default"),
        "DP-GAN advanced": (gans, "dp-gan-advanced"),
        "DP-GAN basic": (gans, "dp-gan-basic"),
    }
    title = "MargNet is ahead of every GAN, and DP-WGAN of DP-GAN"
    with style.plot(path, height=2.6, columns=2, sharey=True, title=title) as (figure, axes):
        for axis, (key, label) in zip(axes[0], FIGURES.items(), strict=True):
            for colour, epsilon in zip(style.COLOURS, (1, 8), strict=False):
                means = []
                for rows, name in found.values():
                    seeds = [rows[f"{name}-eps{epsilon}-seed{seed}"] for seed in range(3)]
                    means.append(np.mean([row.get("yardstick", row)[key] for row in seeds]))
                axis.plot(means, range(4), "o", ms=7, color=colour, label=f"ε = {epsilon}")
            for kind, name, line in (
                ("real", "real rows", "-"),
                ("shuffled", "independent columns", "--"),
            ):
                value = census["reference"][kind][key]
                colour = style.REAL if kind == "real" else style.BASELINE
                axis.axvline(value, color=colour, ls=line, lw=1.2, label=name)
            axis.set(xlabel=label, xlim=(0, None), ylim=(3.5, -0.5))
        axes[0, 0].set_yticks(range(4), list(found))
        figure.legend(*axes[0, 0].get_legend_handles_labels(), ncols=4, loc="outside lower center")


PICTURES = (systems,)
