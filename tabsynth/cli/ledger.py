"""``tabsynth ledger``: make a project's ledger, and show what is on it."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tabsynth.cli.console import guarded, say, say_table

if TYPE_CHECKING:
    from tabsynth.privacy.ledger.project import ProjectLedger

app = typer.Typer(
    help="One budget for all fits and published reports of a table.", no_args_is_help=True
)
PROMISE = "Not checked: that every fit under it was of the same table, and that no fit was made without it."
LedgerPath = Annotated[Path, typer.Argument(help="The ledger's file.")]


@app.command()
@guarded
def create(
    path: LedgerPath,
    epsilon: Annotated[float, typer.Option(help="The limit of all fits and reports together.")],
    delta: Annotated[float, typer.Option(help="At which they are composed.")] = 1e-5,
    table_name: Annotated[
        str, typer.Option(help="What the table is called; certificates repeat it.")
    ] = "",
    composition: Annotated[
        str,
        typer.Option(
            help="The privacy filter: renyi takes every method; gaussian takes margnet and published reports"
            " only, with 5 to 10% less noise."
        ),
    ] = "renyi",
) -> None:
    """Make a project's ledger with its limit. Then give it to fit and evaluate: --ledger PATH."""
    from tabsynth.privacy.ledger.project import ProjectLedger

    ProjectLedger.create(
        path, epsilon=epsilon, delta=delta, table=table_name, composition=composition
    )
    say(f"Ledger: {path}. Fits and reports under it may spend epsilon={epsilon:g} together")
    say(f"(delta={delta:g}, add or remove one record). Keep it with the table: it is private, too.")


@app.command()
@guarded
def show(
    path: LedgerPath,
    as_json: Annotated[bool, typer.Option("--json", help="Print it as JSON.")] = False,
) -> None:
    """Each fit and report on a ledger, the share of its budget that is used, and what is left."""
    from tabsynth.privacy.certificate.certificate import number
    from tabsynth.privacy.ledger.project import ProjectLedger

    ledger = ProjectLedger.read(path)
    entered = ledger.entered()
    if as_json:
        facts = {
            "project": ledger.project,
            "table": ledger.table,
            "limit": number(ledger.epsilon),
            "delta": ledger.delta,
            "composition": ledger.filter.to_dict(),
            "share": ledger.share,
            "left": number(ledger.left()),
            "chain": ledger.journal.chain,
            "runs": [{**vars(e), "epsilon": number(e.epsilon)} for e in entered],
        }
        say(json.dumps(facts))
        return
    if ledger.table:
        say(f"Table: {ledger.table}")
    if entered:
        say_table(
            ("run", "what", "began (UTC)", "epsilon of its plan", "share of the budget", "ended"),
            [
                (
                    item.run,
                    item.what,
                    item.when[:16].replace("T", " "),
                    f"{item.epsilon:.4g}",
                    f"{item.share:.1%}",
                    "yes" if item.ended else "no: runs, or was killed",
                )
                for item in entered
            ],
        )
    say(_standing(ledger))
    say(PROMISE)


def standing_of(path: Path) -> str:
    """The limit, and the share of it that is used, in a line."""
    from tabsynth.privacy.ledger.project import ProjectLedger

    return _standing(ProjectLedger.read(path))


def _standing(ledger: "ProjectLedger") -> str:
    kind = ledger.filter.to_dict()
    order = "" if kind["order"] is None else f" of order {kind['order']:.4g}"
    return (
        f"Ledger {ledger.name}: all fits and reports under it are ({ledger.epsilon:g}, {ledger.delta:g})-"
        f"differentially private together, by a {kind['name']}{order}; {ledger.share:.1%} of its budget is"
        f" used, and about epsilon = {ledger.left():.4g} is left for one more fit."
    )
