"""The application of the command line, to which each module of this package adds its commands."""

import logging
from typing import Annotated

import typer

import tabsynth
from tabsynth.cli.console import Warnings, say
from tabsynth.cli.ledger import app as ledger_app
from tabsynth.cli.schema import app as schema_app

app = typer.Typer(
    help="Differentially private synthetic tables: fit, sample, evaluate, verify.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)
app.add_typer(schema_app, name="schema")
app.add_typer(ledger_app, name="ledger")


def _version(requested: bool) -> None:
    if requested:
        say(f"tabsynth {tabsynth.__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", help="Show the version and exit.", callback=_version, is_eager=True
        ),
    ] = False,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Log each step to stderr.")
    ] = False,
) -> None:
    """Differentially private synthetic tables."""
    handler: logging.Handler = Warnings()
    if verbose:
        from rich.console import Console
        from rich.logging import RichHandler

        handler = RichHandler(console=Console(stderr=True), show_path=False)
    level = logging.INFO if verbose else logging.WARNING
    # Configured before opacus, which would add a date to every line.
    logging.basicConfig(level=level, format="%(message)s", handlers=[handler])
