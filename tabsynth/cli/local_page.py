"""``tabsynth app``: the local page of a steward."""

from pathlib import Path

from tabsynth.cli.commands import app
from tabsynth.cli.console import argument, cli_command, option, say


@app.command(name="app")
@cli_command
def app_command(
    table: Path | None = argument(
        "The private table to begin with. Default: chosen in the page.", default=None
    ),
    folder: Path = option(
        "The folder for all files that the page writes. Keep it with the private table.",
        default=Path("tabsynth-app"),
    ),
    port: int = option(
        "The port of 127.0.0.1 to serve the page at. Default: a free one.", default=0
    ),
    browser: bool = option(
        "Whether to open the page in a browser.", "--browser/--no-browser", default=True
    ),
) -> None:
    """Prepare a table in the browser: schema, plan, fit, report and release, on a page of this computer.

    The page is at 127.0.0.1 only, takes one browser that has the token of the address, and loads nothing from elsewhere.
    Needs pip install 'tabsynth[app]'.
    """
    from tabsynth.app.server import run

    run(folder, table, port, browser, say)
