"""The pictures of this report: ``python reports/style.py census`` draws them."""

from pathlib import Path

import numpy as np
import style

RESULTS = style.load("census")
REFERENCE = RESULTS["reference"]
PUBLISHED = {"1": 0.59, "8": 0.62, "20": 0.60, "inf": 0.69}  # by the document
PRESETS = {"default": style.COLOURS[0], "source": style.COLOURS[1]}


def runs(preset: str, epsilon: str) -> list[dict]:
    """Return the runs of three seeds."""
    return [RESULTS["runs"][f"{preset}-eps{epsilon}-seed{seed}"] for seed in range(3)]


def f1(path: Path) -> None:
    """Draw the share of the real F1 that a synthetic table keeps."""
    real = REFERENCE["real"]["dwpre_weighted_mean"]
    title = "Default keeps most of the real F1, source about as much as the baseline"
    with style.plot(path, height=2.8, title=title) as (figure, ((axis,),)):
        at = range(len(PUBLISHED))
        for preset, colour in PRESETS.items():
            shares = [
                [run["yardstick"]["dwpre_weighted_mean"] / real for run in runs(preset, epsilon)]
                for epsilon in PUBLISHED
            ]
            style.curve(axis, at, shares, color=colour, label=preset)
        options = {"color": style.COLOURS[2], "marker": "s", "ms": 5, "ls": ""}
        axis.plot(at, list(PUBLISHED.values()), **options, label="published by the document")
        level = REFERENCE["shuffled"]["dwpre_weighted_mean"] / real
        axis.axhline(level, color=style.BASELINE, ls="--", label="independent columns")
        axis.set_xticks(at, [f"ε = {epsilon.replace('inf', '∞')}" for epsilon in PUBLISHED])
        axis.set(ylabel="share of the real F1", ylim=(0, 1))
        figure.legend(loc="outside right center")


def disclosure(path: Path) -> None:
    """Draw the share of unknown attributes that are guessed right, of training records and of controls."""
    panels = {"training table itself": [REFERENCE["disclosure"]]}
    for epsilon, name in (("1", "ε = 1"), ("inf", "ε = ∞")):
        panels[f"default, {name}"] = [run["disclosure"] for run in runs("default", epsilon)]
    title = "The training table discloses attributes, rows of default hardly do"
    with style.plot(path, height=3.3, columns=3, sharey=True, title=title) as (figure, axes):
        for axis, (name, found) in zip(axes[0], panels.items(), strict=True):
            for colour, k in zip(style.COLOURS, (1, 10), strict=False):
                for who, kind, line in (
                    ("target", "training records", "-"),
                    ("control", "others", "--"),
                ):
                    means = [
                        np.mean(
                            [
                                cell[who]["value"]
                                for run in found
                                for cell in run
                                if (cell["s"], cell["k"]) == (s, k)
                            ]
                        )
                        for s in range(1, 10)
                    ]
                    axis.plot(range(1, 10), means, line, color=colour, label=f"{kind}, k = {k}")
            axis.set(title=name, xlabel="unknown attributes", ylim=(0, 1), xticks=range(1, 10, 2))
        axes[0, 0].set_ylabel("share guessed right")
        figure.legend(*axes[0, 0].get_legend_handles_labels(), ncols=2, loc="outside lower center")


def marginals(path: Path) -> None:
    """Draw the shares of the values of three columns, seed 0."""
    tables = {"real": REFERENCE["counts"]}
    tables |= {preset: runs(preset, "1")[0]["counts"] for preset in PRESETS}
    colours = (style.REAL, *PRESETS.values())
    title = "At ε = 1 default keeps the columns, and source does not"
    with style.plot(path, height=3.0, columns=3, title=title) as (figure, axes):
        for axis, column in zip(axes[0], ("MSP", "EDU", "PINCP_DECILE"), strict=True):
            values = sorted(
                REFERENCE["counts"][column], key=lambda v: (not v.isdigit(), v.zfill(3))
            )
            for colour, (name, counts) in zip(colours, tables.items(), strict=True):
                total = sum(counts[column].values())
                shares = [counts[column].get(value, 0) / total for value in values]
                axis.plot(range(len(values)), shares, "-o", ms=4, color=colour, label=name)
            ticks = range(len(values) - 1, -1, -2)
            axis.set_xticks(ticks, [values[tick] for tick in ticks])
            axis.set(title=column, xlabel="value", ylim=(0, None))
        axes[0, 0].set_ylabel("share of rows")
        figure.legend(*axes[0, 0].get_legend_handles_labels(), ncols=3, loc="outside lower center")


PICTURES = (f1, disclosure, marginals)
