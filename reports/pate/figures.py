"""The pictures of this report: ``python reports/style.py pate`` draws them."""

from pathlib import Path

import style

ROWS = style.load("benchmark")
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
                style.curve(axis, range(3), values, color=colour, label=label)
            real = ROWS[f"{table}-real"]["tstr_auroc"]
            axis.axhline(real, color=style.REAL, lw=1.2, label="real rows")
            axis.axhline(0.5, color=style.BASELINE, ls="--", lw=1.2, label="random guess")
            axis.set_xticks(range(3), [f"ε = {epsilon}" for epsilon in EPSILONS])
            axis.set(title=name)
        axes[0, 0].set_ylabel("AUROC on real rows")
        figure.legend(*axes[0, 0].get_legend_handles_labels(), ncols=3, loc="outside lower center")


PICTURES = (auroc,)
