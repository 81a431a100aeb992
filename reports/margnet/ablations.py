"""Draw ablations.png from the fits of ablations.csv: ``python reports/margnet/ablations.py``."""

import csv
import sys
from collections import defaultdict
from pathlib import Path
from statistics import stdev

HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE.parent))
import style  # noqa: E402

SHOWN = {
    "no-entropy": "no weight on entropy",
    "iid": "rows drawn independently",
    "no-smoothing": "pairs not smoothed",
    "equal-shares": "equal budget for all pairs",
    "no-groups": "no groups of rare values",
    "no-stop": "all steps, whatever the noise",
    "at-noise": "stopped at the noise level",
    "few-rows": "200 components",
    "once": "one-way counts once only",
    "unscored": "all pairs counted",
}
TABLES = {"census": "census, 10 columns", "hospital": "hospital, 48 columns"}
FIGURES = {
    "tvd2": "change of tvd2 (right: worse)",
    "f1_weighted": "change of weighted F1 (left: worse)",
}


def fits() -> dict[tuple[str, str], dict[str, dict[str, float]]]:
    """Return the figures of each fit at ε = 1, by variant and table, then by seed."""
    out = defaultdict(dict)
    with (HERE / "ablations.csv").open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            if row["epsilon"] == "1.0":
                values = {figure: float(row[figure]) for figure in FIGURES}
                out[row["variant"], row["table"]][row["seed"]] = values
    return out


def draw(path: Path) -> None:
    """Draw a dot for each fit without one part of the method, less the default with the same seed."""
    runs = fits()
    title = "Entropy, rounding and repeated one-way counts help tvd2 most"
    with style.plot(path, height=4.3, title=title, columns=2, sharey=True) as (figure, axes):
        for axis, (key, label) in zip(axes[0], FIGURES.items(), strict=True):
            for i, (table, name) in enumerate(TABLES.items()):
                default = runs["default", table]
                spread = stdev(each[key] for each in default.values())
                axis.axvspan(-spread, spread, color=style.COLOURS[i], alpha=0.12, linewidth=0)
                for row, variant in enumerate(SHOWN):
                    seeds = runs[variant, table]
                    x = [seeds[seed][key] - default[seed][key] for seed in seeds]
                    y = [row + 0.28 * (i - 0.5)] * len(x)
                    marks = axis.plot(
                        x, y, "os"[i], color=style.COLOURS[i], markersize=4, linestyle=""
                    )
                if key == "tvd2":
                    marks[0].set_label(name)
            axis.axvline(0, color=style.REAL, linewidth=1)
            axis.set_xlabel(label)
            axis.set_yticks(range(len(SHOWN)), list(SHOWN.values()))
            axis.set_ylim(len(SHOWN) - 0.4, -0.6)
        figure.legend(loc="outside lower center", ncols=2)


if __name__ == "__main__":
    draw(HERE / "ablations.png")
