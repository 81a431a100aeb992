"""The report of a command: evaluated with a progress bar, and written to two files."""

import signal
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tabsynth._validate import quote
from tabsynth.cli.commands import app
from tabsynth.cli.console import cli_command, flag, fractions, say, warn
from tabsynth.cli.options import (
    Compared,
    Measures,
    Outputs,
    Publication,
    Reading,
    make_folder,
    typed_options,
)
from tabsynth.errors import InputError

if TYPE_CHECKING:
    from tabsynth.privacy.certificate.verification import Verification
    from tabsynth.report import Report
    from tabsynth.schema.linked import LinkedSchema
    from tabsynth.schema.schema import Schema


@app.command()
@cli_command
def evaluate(
    compared: Compared,
    measures: Measures,
    publication: Publication,
    reading: Reading,
    outputs: Outputs,
) -> None:
    """Compare a synthetic table with the real one, and write report.html and metrics.json.

    Without --epsilon the report contains exact figures of the real table: do not publish it. Tables of other programs need
    no schema: tabsynth drafts one from both tables, and says so in the report. The options --sep,
    --encoding, --decimal and --sheet are about the real tables. With the schema of linked tables, --real, --synthetic and
    --holdout are folders with a file for each table, and there is a page for each table besides.
    """
    from tabsynth.schema.linked import LinkedSchema, read_schema

    real, synthetic, holdout = compared.tables
    schema, out, key = compared.schema, compared.out, compared.key
    weights, charged = measures.weights, asdict(publication)
    options: dict[str, Any] = {
        "target": measures.target,
        "by": measures.by,
        "known": measures.known,
    }
    facts = None if schema is None else read_schema(schema)
    if isinstance(facts, LinkedSchema):
        refused = {**options, **charged}
        return write_linked(compared, facts, outputs, reading.options, weights, refused)
    outputs.check_folder(out, FILES, (*compared.tables, schema, key, publication.ledger))
    if facts is None:
        refused = {**charged, "decimal": reading.decimal}
        read = read_undeclared(compared.tables, reading.options, refused)
        certificate = certificate_of(synthetic, key)
        confidential = measure(read, None, certificate, weights=weights, **options)
        write_report(confidential, out, outputs)
        return print_summary(confidential)
    rows, epsilon, ledger = publication.sample_rows, publication.epsilon, publication.ledger
    if epsilon is not None and (rows is not None or real.is_dir() or synthetic.is_dir()):
        raise InputError(
            "A report with --epsilon is of whole tables; leave out --sample-rows, and give files in place of folders."
        )
    tables, totals = read_tables(compared.tables, facts, reading.options, weights, rows)
    certificate = certificate_of(synthetic, key)
    exact = {"holdout": holdout, "weights": weights, **options}
    report = measure_privately(
        tables[0], tables[1], facts, certificate, epsilon, ledger, exact
    ) or measure(tables, facts, certificate, totals, weights=weights, **options)
    write_report(report, out, outputs)
    return print_summary(report)


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
    verification = verify(table, key)
    if key is not None and not verification.consistent:
        raise InputError(
            f"The certificate of {table} is refused: {'; '.join(verification.problems)}."
        )
    for problem in verification.problems:
        warn(f"the certificate of {table} is not used: {problem}.")
    return verification if verification.consistent else None


FILES = ("report.html", "metrics.json")
SAMPLED = 100_000  # rows of a folder of Parquet files, where no other number is asked for
READ = ("train", "synthetic", "holdout")


def read_tables(
    paths: Sequence[Path | None],
    schema: "Schema",
    options: dict[str, Any],
    weights: str | None,
    sample_rows: int | None = None,
) -> tuple[list[Any], dict[str, int]]:
    """Read the real table, the synthetic one and the hold-out, with their columns of weights, where they are given.

    ``options`` of reading are of the real tables.
    Of a folder of Parquet files, and with ``sample_rows`` of a Parquet file, a sample is read. The second result is the
    number of all rows of tables that have more.
    """
    from tabsynth.tables.files import read_sample, read_table, taken_by

    aside = [name for name in (weights or schema.weight,) if name is not None]
    tables, totals = list[Any](), dict[str, int]()
    reading = {"train": options, "synthetic": dict[str, Any]()}
    for name, path in zip(READ, paths, strict=True):
        if path is None:
            tables.append(None)
        elif path.is_dir() or (sample_rows is not None and path.suffix.lower() == ".parquet"):
            rows = SAMPLED if sample_rows is None else sample_rows
            table, total = read_sample(path, schema, rows, aside=aside)
            totals |= {name: total} if total > len(table) else {}
            tables.append(table)
        else:
            how = reading[name] if name in reading else taken_by(path, options)
            tables.append(read_table(path, schema, aside=aside, **how))
    return tables, totals


def read_undeclared(
    paths: Sequence[Path | None], options: dict[str, Any], refused: dict[str, Any]
) -> tuple[Any, Any, Any]:
    """Read the real table, the synthetic one and the hold-out as their files have them, for a schema that is drafted.

    Raises
    ------
    InputError
        If options of ``refused``, which need a declared schema, were given; or for a folder.
    """
    from tabsynth.tables.files import read_any, taken_by

    flags = [*map(flag, typed_options(refused))]
    if flags:
        raise InputError(
            f"{', '.join(flags)} need{'s' if len(flags) == 1 else ''} --schema: a schema that is drafted from the tables is"
            " not public, and reads whole tables."
        )
    for path in paths:
        if path is not None and path.is_dir():
            raise InputError(f"{path} is a folder, which needs --schema; name one.")
    say("No --schema: one is drafted from the compared tables, for this report only.", error=True)
    real, synthetic, holdout = (
        None if path is None else read_any(path, **({} if i == 1 else taken_by(path, options)))
        for i, path in enumerate(paths)
    )
    return real, synthetic, holdout


def measure(
    tables: Sequence[Any],
    schema: "Schema | LinkedSchema | None",
    certificate: Any,
    sampled_from: Mapping[str, int] | None = None,
    known: Sequence[str] | None = None,
    **options: Any,
) -> "Report":
    """Evaluate the real, the synthetic and the hold-out table with a progress bar.

    ``known`` is of the configuration; ``options`` are arguments of :func:`tabsynth.evaluate`.
    """
    from tabsynth.evaluation import EvaluationConfig
    from tabsynth.report import evaluate as evaluate_tables

    with fractions() as progress:
        return evaluate_tables(
            *tables,
            schema=schema,
            certificate=certificate,
            config=EvaluationConfig(
                progress=progress, sampled_from=sampled_from, known=known or ()
            ),
            **options,
        )


def measure_privately(
    real: Any,
    synthetic: Any,
    schema: "Schema",
    certificate: Any,
    epsilon: float | None,
    ledger: Path | None,
    confidential: dict[str, Any],
) -> "Report | None":
    """Return figures with noise for ``epsilon``; None without it.

    Raises
    ------
    InputError
        If ``confidential`` options, which go into a confidential report only, were given with it, or a
        ledger without it; and if the weights are others than those of the schema, whose cap is public.
    """
    from tabsynth.report import evaluate_private

    if epsilon is None:
        if ledger is not None:
            raise InputError(
                "--ledger goes with --epsilon: a report without noise is confidential, and on no ledger."
            )
        return None
    weights = confidential.get("weights")
    if weights not in (None, schema.weight):
        raise InputError(
            f"--epsilon takes survey weights with a public cap; declare {quote(weights)} in the schema, as its key"
            " weight."
        )
    flags = [flag(name) for name in typed_options(confidential) if name != "weights"]
    if flags:
        raise InputError(
            f"--epsilon releases figures of counts only; leave out {', '.join(flags)}, which are for a"
            " confidential report."
        )
    return evaluate_private(
        real, synthetic, schema=schema, epsilon=epsilon, certificate=certificate, ledger=ledger
    )


def write_linked(
    compared: Compared,
    facts: "LinkedSchema",
    outputs: Outputs,
    reading: dict[str, str],
    weights: str | None,
    refused: dict[str, Any],
) -> None:
    """Evaluate folders of linked tables, write their report and a page for each table, and print the summary.

    Raises
    ------
    InputError
        If options of ``refused``, which linked tables do not take, were given; and as :func:`tabsynth.evaluate`.
    """
    from tabsynth.omop.database import is_omop, read_omop
    from tabsynth.privacy.certificate.certificate import beside
    from tabsynth.tables.files import linked_file, read_linked

    real, synthetic, holdout = compared.tables
    schema, out, key = compared.schema, compared.out, compared.key
    flags = [*map(flag, typed_options(refused))]
    if flags:
        raise InputError(
            f"Linked tables are evaluated without {', '.join(flags)}; leave these options out."
        )
    pages = {name: f"table-{name}.html" for name in facts.names}
    outputs.check_folder(out, (*FILES, *pages.values()), (schema, key))
    aside = [name for name in (weights or facts.design.weight,) if name is not None]

    def read(folder: Path) -> Any:
        if is_omop(facts) and not reading:
            return read_omop(folder).tables
        return read_linked(folder, facts, aside=aside, **reading)

    first, held = read(real), None if holdout is None else read(holdout)
    tables = [first, read_linked(synthetic, facts, aside=aside), held]
    files = [linked_file(synthetic, name) for name in facts.names]
    certificates = [
        certificate_of(file, key) for file in files if key is not None or beside(file).exists()
    ]
    complete = len(certificates) == len(facts.names) and all(certificates)
    if certificates and not complete:
        warn(f"not every table of {synthetic} has a consistent certificate, so none is used.")
    report = measure(tables, facts, certificates[0] if complete else None, weights=weights)
    parts = {pages[name]: part for name, part in report.reports.items()}
    write_report(report, out, outputs, parts)
    print_summary(report)


def write_report(
    report: "Report",
    folder: Path,
    outputs: Outputs,
    pages: "Mapping[str, Report] | None" = None,
) -> None:
    """Write both files of a report, and the further ``pages`` by name; the folder is made only now."""
    make_folder(folder)
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # writes all files or none
    try:
        files = dict(zip(FILES, (report.to_html, report.to_json), strict=True))
        files |= {name: page.to_html for name, page in (pages or {}).items()}
        for name, write in files.items():
            write(folder / name, overwrite=outputs.overwrite)
    finally:
        signal.signal(signal.SIGINT, before)


def print_summary(report: "Report", lines: int | None = None) -> None:
    """Print the report's summary."""
    for line in report.summary()[:lines]:
        say(line)
