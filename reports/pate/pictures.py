"""Draw the picture of this report from the rows of the benchmark: ``python reports/pate/pictures.py``."""

import json
import sys
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

import style  # noqa: E402

ROWS = json.loads((HERE.parent / "benchmark" / "results.json").read_text("utf-8"))
TABLES = {"adult": "Adult: income", "hospital": "hospital: readmission"}
SYSTEMS = {
    "pate-gan": "PATE-GAN",
    "pate-acgan": "PATE-ACGAN",
    "dp-wgan": "DP-WGAN",
    "pate-gan-paper": "PATE-GAN, preset paper",
}
EPSILONS = (1, 8, 20)


def auroc(path: Path) -> None:
    """Draw the AUROC of classifiers that learn from synthetic rows, a panel for each table."""
    title = "Rows of the defaults predict the label, rows of preset paper do not"
    with style.plot(path, height=3.1, columns=2, title=title) as (figure, axes):
        for axis, (table, name) in zip(axes[0], TABLES.items(), strict=True):
            for colour, (system, label) in zip(style.COLOURS, SYSTEMS.items(), strict=False):
                values = [
                    [
                        ROWS[f"{table}-{system}-eps{epsilon}-seed{seed}"]["tstr_auroc"]
                        for seed in range(5)
                    ]
                    for epsilon in EPSILONS
                ]
                errors = np.std(values, axis=1, ddof=1)
                options = {"color": colour, "fmt": "-o", "ms": 5, "capsize": 3, "label": label}
                axis.errorbar(range(3), np.mean(values, axis=1), errors, **options)
            real = ROWS[f"{table}-real"]["tstr_auroc"]
            axis.axhline(real, color=style.REAL, lw=1.2, label="real rows")
            axis.axhline(0.5, color=style.BASELINE, ls="--", lw=1.2, label="random guess")
            axis.set_xticks(range(3), [f"ε = {epsilon}" for epsilon in EPSILONS])
            axis.set(title=name)
        axes[0, 0].set_ylabel("AUROC on real rows")
        figure.legend(*axes[0, 0].get_legend_handles_labels(), ncols=3, loc="outside lower center")


def main(folder: Path = HERE) -> None:
    """Draw all pictures."""
    auroc(folder / "auroc.png")


if __name__ == "__main__":
    main()
