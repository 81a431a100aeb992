"""``tabsynth demo``: fit, sample and evaluate on a bundled table."""

from pathlib import Path
from typing import Any

from tabsynth.cli.commands import app
from tabsynth.cli.console import cli_command, option, say
from tabsynth.cli.options import Outputs, Seed, make_folder

MODEL, TABLE = "model.tabsynth", "synthetic.csv"
# The seconds are the limit of MargNet, whose ε does not depend on them, and the time budget of DP-WGAN.
ROWS, SECONDS = 7_000, 60
BEFORE = """\
The table of this demo is synthetic and public: {table:,} rows that tabsynth drew from a private model of census data (American
Community Survey 2019). No row is the record of a person. Here it stands for a table that you would have to protect.

Two methods, MargNet and DP-WGAN, are fitted to {train:,} rows, each with ε = {epsilon:g}. The other {test:,} rows test the results.
This takes about three minutes on two processors, and needs no network. All files are written to {out}.
"""
AFTER = """\
What to open:
  {out}/report.html             what the table of MargNet keeps, where it fails, and what its certificate claims
  {out}/synthetic.csv           the synthetic table; its certificate is beside it
  {out}/dp-wgan/report.html     the same report on the table of DP-WGAN
Scores on a table that is itself synthetic are optimistic. Expect lower ones for real data.

What to do next:
  tabsynth verify {out}/synthetic.csv
      checks the certificate; it ends in exit code 4, because nobody has signed it
  tabsynth fit YOUR-TABLE.csv --epsilon 1 -o your.model
      fits a table of your own, and drafts a schema within the same privacy budget
  docs/tutorials/first-table.md and docs/tutorials/your-own-table.md
      explain each step, from a first table to one that you may publish"""


@app.command()
@cli_command
def demo(
    *,
    out: Path = option("The folder for the results.", "-o", "--out", default=Path("reports/demo")),
    epsilon: float = option(
        "ε of the privacy budget of each fit, above 0; smaller is more private.", default=8.0
    ),
    seed: Seed = None,
    outputs: Outputs,
) -> None:
    """Fit MargNet and DP-WGAN to a bundled synthetic table, sample and evaluate, in about three minutes."""
    import numpy as np

    from tabsynth.cli.evaluate import FILES, certificate_of, measure, print_summary, write_report
    from tabsynth.cli.fit import fit_and_print
    from tabsynth.datasets import load_census
    from tabsynth.privacy.certificate.certificate import beside
    from tabsynth.synthesizers import METHODS
    from tabsynth.tables.files import read_table

    table, facts = load_census()
    order = np.random.default_rng(0).permutation(len(table))
    train, test = table.iloc[order[:ROWS]], table.iloc[order[ROWS:]]
    parameters: dict[str, Any] = {"epsilon": epsilon, "rows": ROWS, "random_state": seed}
    times = {"margnet": "time_limit", "dp-wgan": "time_budget"}
    synthesizers = {
        method: METHODS[method](facts, **{**parameters, time: SECONDS})
        for method, time in times.items()
    }
    synthesizers["margnet"].check()
    folders = {"margnet": out, "dp-wgan": out / "dp-wgan"}
    for folder in folders.values():
        outputs.check_folder(folder, (MODEL, TABLE, beside(TABLE).name, *FILES))
    rows = {"table": len(table), "train": len(train), "test": len(test)}
    say(BEFORE.format(out=out, epsilon=epsilon, **rows))
    for method, synthesizer in synthesizers.items():
        folder = make_folder(folders[method])
        fit_and_print(synthesizer, lambda: train, folder / MODEL, overwrite=outputs.overwrite)
        synthetic = folder / TABLE
        synthesizer.sample_to(synthetic, ROWS, overwrite=outputs.overwrite)
        synthetic_table, certificate = read_table(synthetic, facts), certificate_of(synthetic)
        report = measure((train, synthetic_table, test), facts, certificate)
        write_report(report, folder, outputs)
        print_summary(report, 3)
        say("")
    say(AFTER.format(out=out))
