"""The report of a command: evaluated with a progress bar, and written to two files."""

import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tabsynth.cli.console import fractions, say, warn
from tabsynth.cli.paths import check_not_input, make_folder
from tabsynth.errors import InputError
from tabsynth.schema.schema import Schema

if TYPE_CHECKING:
    from tabsynth.privacy.certificate.verification import Verification
    from tabsynth.report import Report


def certificate_of(table: Path, key: Path | None = None) -> "Verification | None":
    """Verify the certificate beside a table; None if there is none or if it is inconsistent.

    Raises
    ------
    InputError
        If a ``key`` was given, and the certificate is not there, not consistent, or not signed by it.
    """
    from tabsynth.privacy.certificate.certificate import beside
    from tabsynth.privacy.certificate.verification import verify

    if not beside(table).exists():
        if key is not None:
            raise InputError(f"There is no certificate beside {table}; leave out --key.")
        say(
            f"There is no certificate beside {table}, so the report makes no privacy claim.",
            error=True,
        )
        return None
    found = verify(table, key)
    if key is not None and not found.consistent:
        raise InputError(f"The certificate of {table} is refused: {'; '.join(found.problems)}.")
    for problem in found.problems:
        warn(f"the certificate of {table} is not used: {problem}.")
    return found if found.consistent else None


def measured(
    real: Any, synthetic: Any, holdout: Any, schema: Schema, certificate: Any, **asked: Any
) -> "Report":
    """Evaluate with a progress bar; ``asked`` as of :func:`tabsynth.evaluate`."""
    from tabsynth.report import evaluate as evaluate_tables

    with fractions() as progress:
        return evaluate_tables(
            real,
            synthetic,
            holdout,
            schema=schema,
            certificate=certificate,
            progress=progress,
            **asked,
        )


def write_report(report: "Report", folder: Path, *inputs: Path | None) -> None:
    """Write both files of a report; the folder is made only now."""
    make_folder(folder)
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # writes both files or neither
    try:
        for name, write in (("report.html", report.to_html), ("metrics.json", report.to_json)):
            check_not_input(folder / name, *inputs)
            write(folder / name)
    finally:
        signal.signal(signal.SIGINT, before)


def print_summary(report: "Report", lines: int | None = None) -> None:
    """Print the report's summary."""
    for line in report.summary()[:lines]:
        say(line)
