"""``tabsynth ledger``: make a project ledger, and show its runs."""

import json
from dataclasses import MISSING
from pathlib import Path
from typing import Annotated

import typer

from tabsynth._validate import quote
from tabsynth.cli.console import cli_command, option, say, say_table

app = typer.Typer(
    help="One privacy budget for all fits and published reports of a table.", no_args_is_help=True
)
UNCHECKED = "tabsynth cannot check that all these runs used the same table, and that no run on it was made without this ledger."
SHARES = (
    "The planned ε is that of all that a run was granted, by itself; a fit that was interrupted claims its whole plan. The"
    " share counts the uses that were charged."
)
LedgerPath = Annotated[Path, typer.Argument(help="The ledger file.")]


@app.command()
@cli_command
def create(
    path: LedgerPath,
    epsilon: float = option(
        "ε of all fits and reports together, above 0; inf records without a limit.", default=MISSING
    ),
    delta: float = option("δ of all fits and reports together, between 0 and 1.", default=1e-5),
    table_name: str = option("A label for the table; certificates contain it.", default=""),
    composition: str = option(
        "The privacy filter that composes all runs: renyi (every method) or gaussian (only margnet and published"
        " reports, with 5 to 10% less noise).",
        default="renyi",
    ),
    unit: str | None = option(
        "The column that says which unit a row is of, such as a person. The ledger then takes only fits of schemas"
        " with this unit. Default: each row is a unit."
    ),
) -> None:
    """Make a project ledger with a limit. Give it to fit and evaluate as --ledger PATH."""
    from tabsynth.design import neighbour_of
    from tabsynth.privacy.ledger.project import ProjectLedger

    ProjectLedger.create(
        path, epsilon=epsilon, delta=delta, table=table_name, composition=composition, unit=unit
    )
    say(f"Ledger: {path}. Limit of all fits and reports together: ε = {epsilon:g}, δ = {delta:g}")
    say(
        f"(add or remove {neighbour_of(unit)}). Keep the ledger with the table; it is private information, too."
    )


@app.command()
@cli_command
def show(
    path: LedgerPath,
    as_json: bool = option("Print the ledger as JSON.", "--json", default=False),
) -> None:
    """Show the fits and reports on a ledger, the used share of its budget, and the remaining ε."""
    from tabsynth.privacy.certificate.certificate import epsilon_to_json
    from tabsynth.privacy.ledger.project import ProjectLedger

    ledger = ProjectLedger.read(path)
    runs = ledger.runs()
    if as_json:
        facts = {
            "project": ledger.project,
            "table": ledger.table,
            "unit": ledger.unit,
            "limit": epsilon_to_json(ledger.epsilon),
            "delta": ledger.delta,
            "composition": ledger.filter.to_dict(),
            "share": ledger.share,
            "left": epsilon_to_json(ledger.epsilon_left()),
            "chain": ledger.chain,
            "runs": [{**vars(e), "epsilon": epsilon_to_json(e.epsilon)} for e in runs],
        }
        say(json.dumps(facts))
        return
    if ledger.table:
        say(f"Table: {ledger.table}")
    if ledger.unit:
        say(f"Privacy unit: all records of one {quote(ledger.unit)}")
    say(ledger.in_words())
    if runs:
        say_table(
            ("run", "method", "started (UTC)", "planned ε", "share of the budget", "ended"),
            [
                (
                    item.run,
                    item.what,
                    item.when[:16].replace("T", " "),
                    f"{item.epsilon:.4g}",
                    f"{item.share:.1%}",
                    "yes" if item.ended else "no: running or interrupted",
                )
                for item in runs
            ],
        )
        say(SHARES)
    say(UNCHECKED)


def ledger_status(path: Path) -> str:
    """Return the limit and its used share in one line."""
    from tabsynth.privacy.ledger.project import ProjectLedger

    return ProjectLedger.read(path).in_words()
