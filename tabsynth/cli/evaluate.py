"""The report of a command: measured with a progress bar, written both files or neither."""

import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tabsynth.cli.console import fractions, say, warn
from tabsynth.cli.paths import keep_apart, make_folder
from tabsynth.errors import InputError
from tabsynth.schema.schema import Schema

if TYPE_CHECKING:
    from tabsynth.privacy.certificate.verification import Verification
    from tabsynth.report import Report


def certificate_of(table: Path, key: Path | None = None) -> "Verification | None":
    """What is found of the certificate beside a table, if there is one and nothing contradicts it.

    Raises
    ------
    InputError
        If a ``key`` was given, and the certificate is not there, not consistent, or not signed by it.
    """
    from tabsynth.privacy.certificate.certificate import beside
    from tabsynth.privacy.certificate.verification import verify

    if not beside(table).exists():
        if key is not None:
            raise InputError(f"No certificate lies beside {table}; leave out --key.")
        say(f"No certificate beside {table}: the report claims no privacy.", error=True)
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
    """Both files of a report; the folder is made only now that there is something to put in it."""
    make_folder(folder)
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # both files or neither: it takes seconds
    try:
        for name, write in (("report.html", report.to_html), ("metrics.json", report.to_json)):
            keep_apart(folder / name, *inputs)
            write(folder / name)
    finally:
        signal.signal(signal.SIGINT, before)


def tell(report: "Report", lines: int | None = None) -> None:
    """The report's summary, a line each."""
    for line in report.summary()[:lines]:
        say(line)
