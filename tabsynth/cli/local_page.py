"""``tabsynth app``: the local page of a steward."""

from pathlib import Path
from typing import Annotated

import typer

from tabsynth.cli.commands import app
from tabsynth.cli.console import cli_command, say


@app.command(name="app")
@cli_command
def app_command(
    table: Annotated[
        Path | None,
        typer.Argument(help="The private table to begin with. Default: chosen in the page."),
    ] = None,
    folder: Annotated[
        Path,
        typer.Option(
            help="The folder for all files that the page writes. Keep it with the private table."
        ),
    ] = Path("tabsynth-app"),
    port: Annotated[
        int, typer.Option(help="The port of 127.0.0.1 to serve the page at. Default: a free one.")
    ] = 0,
    browser: Annotated[
        bool,
        typer.Option("--browser/--no-browser", help="Whether to open the page in a browser."),
    ] = True,
) -> None:
    r"""Prepare a table in the browser: schema, plan, fit, report and release, on a page of this computer.

    The page is at 127.0.0.1 only, takes one browser that has the token of the address, and loads nothing from elsewhere.
    Needs pip install 'tabsynth\[app]'.
    """
    from tabsynth.app.run import run

    run(folder, table, port, browser, say)
