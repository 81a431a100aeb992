"""``tabsynth demo``: fit, sample and evaluate on a bundled table."""

from pathlib import Path
from typing import Annotated, Any

import typer

from tabsynth.cli.commands import app
from tabsynth.cli.console import guarded, say
from tabsynth.cli.evaluate import certificate_of, measured, print_summary, write_report
from tabsynth.cli.fit import fit_and_print
from tabsynth.cli.options import Seed
from tabsynth.cli.paths import make_folder
from tabsynth.tables.files import read_table

ROWS, SECONDS = 7_000, 60  # seconds at most for each fit


@app.command()
@guarded
def demo(
    out: Annotated[Path, typer.Option("-o", "--out", help="The folder for the results.")] = Path(
        "reports/demo"
    ),
    epsilon: Annotated[
        float,
        typer.Option(help="ε of the privacy budget of each fit, above 0; smaller is more private."),
    ] = 8.0,
    seed: Seed = None,
) -> None:
    """Fit MargNet and DP-WGAN to the bundled census table, sample and evaluate, in about three minutes."""
    import numpy as np

    from tabsynth.datasets import load_census
    from tabsynth.synthesizers import METHODS

    table, facts = load_census()
    order = np.random.default_rng(0).permutation(len(table))
    train, test = table.iloc[order[:ROWS]], table.iloc[order[ROWS:]]
    written: list[Path] = []
    folders = {"margnet": make_folder(out), "dp-wgan": make_folder(out / "dp-wgan")}
    for method, folder in folders.items():
        parameters: dict[str, Any] = {
            "epsilon": epsilon,
            "random_state": seed,
            "time_limit": SECONDS,
        }
        synthesizer = METHODS[method](facts, **parameters)
        fit_and_print(synthesizer, lambda: train, folder / "model.tabsynth")
        synthesizer.sample_to(synthetic := folder / "synthetic.csv", ROWS)
        synthetic_table, certificate = read_table(synthetic, facts), certificate_of(synthetic)
        report = measured(train, synthetic_table, test, facts, certificate)
        write_report(report, folder)
        print_summary(report, 3)
        say("")
        written += [folder / "report.html", synthetic]
    say("\n".join(f"  {path}" for path in written))
