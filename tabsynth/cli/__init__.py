"""The command line: parses, calls, prints. Errors take one line and exit code 2."""

import sys

import typer

from tabsynth.cli import auditing, certifying, demonstrating  # noqa: F401  (their commands)
from tabsynth.cli.commands import app
from tabsynth.cli.console import UsageError, misused, say

__all__ = ["app", "main"]


def main() -> None:
    """Entry point."""
    try:
        sys.exit(app(standalone_mode=False))
    except UsageError as error:
        sys.exit(misused(error))
    except typer.Abort:  # what was asked for ended: there is nobody to answer
        say("error: Aborted.", error=True)
        sys.exit(1)
