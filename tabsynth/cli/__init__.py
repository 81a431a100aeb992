"""The command line: parses, calls, prints. Errors take one line and exit code 2."""

import os
import sys

import typer

# Their commands, in the order of the help.
from tabsynth.cli import fit, plan, sample, counts, evaluate, audit, demo  # noqa: F401 # isort: skip
from tabsynth.cli import local_page, release, verify  # noqa: F401 # isort: skip
from tabsynth.cli.commands import app
from tabsynth.cli.console import UsageError, say_error, say_usage_error

__all__ = ["app", "main"]


def main() -> None:
    """Entry point."""
    # Before torch is imported: threads that wait for others on busy cores must leave these to them.
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    try:
        code = app(standalone_mode=False)
    except UsageError as error:
        say_usage_error(error)
        code = 2
    except typer.Abort:  # a question that nobody is there to answer
        say_error("Aborted.")
        code = 1
    sys.exit(code)
