"""The command line: parses, calls, prints. Errors take one line and exit code 2."""

import sys

import typer

from tabsynth.cli import audit, demo, local_page, release, verify  # noqa: F401  (their commands)
from tabsynth.cli.commands import app
from tabsynth.cli.console import UsageError, say_error, say_usage_error

__all__ = ["app", "main"]


def main() -> None:
    """Entry point."""
    try:
        code = app(standalone_mode=False)
    except UsageError as error:
        say_usage_error(error)
        code = 2
    except typer.Abort:  # a question that nobody is there to answer
        say_error("Aborted.")
        code = 1
    sys.exit(code)
