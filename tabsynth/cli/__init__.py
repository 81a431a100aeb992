"""The command line: parses, calls, prints. Errors take one line and exit code 2."""

from tabsynth.cli import auditing, certifying  # noqa: F401  (their commands)
from tabsynth.cli.commands import app

__all__ = ["app", "main"]


def main() -> None:
    """Entry point."""
    app()
