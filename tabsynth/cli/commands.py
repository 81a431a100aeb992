"""The commands for fits, plans, samples and reports. Each imports its modules itself: torch takes seconds."""

import logging
import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import tabsynth
from tabsynth._files import check_writable
from tabsynth.cli.console import Warnings, cli_command, say
from tabsynth.cli.ledger import app as ledger_app
from tabsynth.cli.options import (
    Compared,
    Draw,
    Engine,
    FitBudget,
    FitColumns,
    FitRequest,
    Measures,
    PlanDesign,
    PlanGrid,
    PlanRequest,
    PriorKnowledge,
    Publication,
    Reading,
    Running,
    Settings,
    Signing,
    Survey,
    SurveyDesign,
    Writing,
    check_prior,
    class_argument,
    condition,
    load_schema,
    null_texts,
    parse_tables,
    seconds,
    typed_options,
)
from tabsynth.cli.paths import check_folder, check_not_input, same_file
from tabsynth.cli.schema import app as schema_app
from tabsynth.cli.settings import arguments_of
from tabsynth.errors import InputError

if TYPE_CHECKING:
    from tabsynth.schema.schema import Schema

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


@app.command()
@cli_command
def fit(
    request: FitRequest,
    budget: FitBudget,
    columns: FitColumns,
    survey: Survey,
    settings: Settings,
    prior: PriorKnowledge,
    engine: Engine,
    reading: Reading,
    running: Running,
) -> None:
    """Fit a synthesizer to a table within a privacy budget.

    Without a schema, one is drafted from the table within the same budget: columns that identify people are left out.
    With one, the planned privacy cost is printed before the table is read.
    """
    started = time.monotonic()
    from tabsynth.cli.fit import fit_and_print
    from tabsynth.cli.linked import fit_linked
    from tabsynth.synthesizers import METHODS
    from tabsynth.synthesizers.violations import check_count

    _check_source(request, engine)
    parameters: dict[str, Any] = {"epsilon": request.epsilon, "delta": request.delta}
    parameters |= {"device": running.device, "random_state": running.seed, "rows": request.rows}
    parameters |= {"time_limit": request.time_limit and seconds(request.time_limit)}
    parameters |= {"accept_drafted_domain": columns.accept_drafted_domain}
    if columns.linked is not None:
        refused = {"schema": request.schema, "save_schema": request.save_schema, **asdict(survey)}
        refused |= {"count": budget.count, "null": columns.null, "tables": columns.tables}
        refused |= {**asdict(settings), **asdict(prior)}
        files = (request.table, columns.linked, request.out)
        fit_linked(files, parameters, refused, reading, running.checkpoint, budget.ledger, started)
        return
    check_count(budget.count or ())
    facts = load_schema(request.schema)
    _check_columns(request, columns, survey, reading)
    arguments = parameters | arguments_of(
        request.method,
        typed_options({"tables": parse_tables(columns.tables), **prior.options}),
        settings.read(),
    )
    arguments |= _read_prior(prior, facts, reading)
    if facts is None:
        arguments["draft_options"] = {
            "null_values": null_texts(columns.null),
            "decimal": reading.decimal,
            **survey.parameters,
        }
    synthesizer = METHODS[request.method](facts, **arguments)
    read: Callable[[], Any] = partial(_read_engine, engine)
    if request.table is not None:
        identifiers = "repeated" in (budget.count or ())
        nulls = null_texts(columns.null)
        read = partial(_read_rows, request.table, facts, nulls, reading, identifiers=identifiers)
    private = engine.duckdb if request.table is None else request.table
    inputs = (
        private,
        request.schema,
        settings.config,
        prior.public,
        prior.warm_start,
        budget.ledger,
    )
    check_not_input(request.out, *inputs)
    if prior.public is not None and private is not None and same_file(prior.public, private):
        raise InputError(
            f"{prior.public} is the private table itself; give a public table to --public."
        )
    check_writable(request.out)
    if request.save_schema is not None:
        check_not_input(request.save_schema, *inputs, request.out)
        check_writable(request.save_schema)
    fit_and_print(
        synthesizer,
        read,
        request.out,
        running.checkpoint,
        budget.ledger,
        started,
        budget.count or (),
    )
    say(f"Model: {request.out}")
    if request.save_schema is not None:
        synthesizer.schema_.save(request.save_schema)
        say(f"Schema: {request.save_schema}")


def _check_source(request: FitRequest, engine: Engine) -> None:
    """Refuse a command that names no private table, or several, or too little of one of an engine."""
    sources = (request.table, engine.duckdb, engine.spark)
    if sum(source is not None for source in sources) != 1:
        raise InputError("Name one private table: a file, a folder, --duckdb or --spark.")
    if request.table is not None:
        if engine.sql_table is not None:
            raise InputError("--sql-table goes with --duckdb or --spark; leave it out.")
        return
    for flag, value in (("--sql-table", engine.sql_table), ("--schema", request.schema)):
        if value is None:
            raise InputError(f"{engine.flag} needs {flag}; add it.")


def _check_columns(
    request: FitRequest, columns: FitColumns, survey: Survey, reading: Reading
) -> None:
    """Refuse options of reading that the table does not take, and facts that the schema declares."""
    from tabsynth.tables.files import suffix

    if request.table is not None and not request.table.is_dir():
        suffix(request.table)
    elif reading.options:
        source = (
            "A folder of Parquet files" if request.table is not None else "A table of an engine"
        )
        raise InputError(f"{source} takes no --{next(iter(reading.options))}; leave it out.")
    if request.schema is not None:
        survey.refuse("goes without --schema: a schema file declares its own unit and weight.")
        if columns.null:
            raise InputError(
                "--null goes without --schema: the schema's null_values list such texts."
            )


def _read_prior(prior: PriorKnowledge, facts: "Schema | None", reading: Reading) -> dict[str, Any]:
    """Read the public table and the fitted model that a fit starts from."""
    from tabsynth.synthesizers import load
    from tabsynth.tables.files import read_table, taken_by

    arguments: dict[str, Any] = {}
    if prior.public is not None:
        if facts is None:
            raise InputError("--public needs --schema, which both tables have.")
        options = taken_by(prior.public, reading.options)
        arguments["public"] = read_table(prior.public, facts, **options)
    if prior.warm_start is not None:
        arguments["warm_start"] = load(prior.warm_start)
    return arguments


def _read_engine(engine: Engine) -> Any:
    """Open the table of an engine, which counts its own rows."""
    from tabsynth.tables.databases import duckdb_table, spark_table

    warnings.filterwarnings("ignore", module="pyspark")  # of versions of pandas
    name = str(engine.sql_table)
    if engine.duckdb is None:
        return spark_table(str(engine.spark), name)
    return duckdb_table(engine.duckdb, name)


def _read_rows(
    table: Path,
    schema: "Schema | None",
    nulls: tuple[str, ...],
    reading: Reading,
    *,
    identifiers: bool,
) -> Any:
    """Read the rows of a file; the rows of a folder are counted in place."""
    from tabsynth.tables.files import read_any, read_table
    from tabsynth.tables.parquet_counter import ParquetCounter

    if table.is_dir():
        return ParquetCounter(table)
    if schema is None:
        return read_any(table, nulls, ask=True, **reading.as_texts)
    aside = schema.identifiers if identifiers else ()
    return read_table(table, schema, **reading.options, aside=aside)


@app.command()
@cli_command
def plan(request: PlanRequest, grid: PlanGrid, design: PlanDesign, settings: Settings) -> None:
    """Show the noise and the number of labels that a privacy budget allows, without a table.

    With --bounds, show what several bounds of the rows of a unit cost; with --caps, what several largest weights cost; with
    --table, the error of the cells of a table. With --max-advantage in place of --epsilon, show the ε that keeps the
    advantage of every attacker below a bound.
    """
    from tabsynth.cli import plan as printing

    facts = load_schema(request.schema)
    parameters = settings.read()
    compared: Mapping[str, Any] = typed_options(asdict(grid))
    if request.max_advantage is not None:
        refused = {**compared, "epsilon": request.epsilon, "prior": request.prior}
        refused |= {**asdict(design), "table": request.table, **asdict(settings)}
        return printing.print_advantage(request, facts, refused)
    check_prior(request.prior)
    if request.epsilon is None:
        raise InputError("A plan needs --epsilon, or --max-advantage; give it.")
    if request.table:
        refused = {**compared, **asdict(design), **asdict(settings)}
        return printing.print_tables(request, facts, refused)
    if design.bounds is None and (design.unit is not None or design.rows_per_unit is not None):
        raise InputError(
            "--unit and --rows-per-unit are for a plan of bounds; give --bounds, or leave them out."
        )
    if (design.caps is None) != (design.population is None):
        raise InputError("--caps and --population go together; give both, or leave them out.")
    if design.caps is not None:
        if design.bounds is not None:
            raise InputError("Give --bounds or --caps, not both.")
        return printing.print_caps(request, design, facts)
    if design.bounds is not None:
        return printing.print_bounds(request, design, facts)
    return printing.print_plan(request, facts, compared, parameters)


@app.command()
@cli_command
def sample(
    model: Annotated[Path, typer.Argument(help="A model file that tabsynth fit wrote.")],
    out: Annotated[
        Path,
        typer.Option(
            "-o",
            "--out",
            help="The table to write, of a format by its suffix: .csv, .tsv, .csv.gz, .parquet, .xlsx, … Of linked tables the"
            " folder to write, with a .csv file for each table.",
        ),
    ],
    draw: Draw,
    writing: Writing,
    signing: Signing,
) -> None:
    """Draw synthetic rows, and write their privacy certificate beside them.

    Sampling has no further privacy cost.
    """
    from tabsynth.cli.fit import population_text
    from tabsynth.cli.linked import is_linked, sample_linked
    from tabsynth.privacy.certificate.certificate import certify
    from tabsynth.privacy.certificate.completeness import check_complete
    from tabsynth.synthesizers import load
    from tabsynth.synthesizers.sampling import numbered_paths
    from tabsynth.tables.files import suffix

    written = writing.options
    check_not_input(out, model, signing.sign)
    key, last = signing.read()
    synthesizer = load(model)
    if is_linked(synthesizer):
        return sample_linked(synthesizer, out, draw, written, key, last)
    suffix(out, writing=True)
    if key is not None:
        check_complete(synthesizer.certificate(), f"The certificate of {model}")
    options = condition(synthesizer, draw.where) if draw.where else {}
    if draw.class_value is not None:
        options |= class_argument(synthesizer, draw.class_value)
    options |= typed_options(
        {"max_draws": draw.max_draws, "weights": draw.weights, "implicates": draw.implicates}
    )
    result = synthesizer.sample_to(out, draw.n, random_state=draw.seed, **written, **options)
    n = synthesizer.rows_ if draw.n is None else draw.n
    pairs = (
        [(out, result)]
        if draw.implicates is None
        else zip(numbered_paths(out, draw.implicates), result, strict=True)
    )
    for table, certificate in pairs:
        if key is not None:
            certify(table, key=key, expires=last)
        say(f"Table: {table} ({n:,} rows)")
        say(f"Certificate: {certificate}")
    if draw.weights is not None:
        say(f"Population, the sum of the weights: {population_text(synthesizer)}.")
    claim = synthesizer.certificate()
    if claim["conditional"]:
        say(claim["statement"])


@app.command()
@cli_command
def evaluate(
    compared: Compared,
    measures: Measures,
    survey: SurveyDesign,
    publication: Publication,
    reading: Reading,
) -> None:
    """Compare a synthetic table with the real one, and write report.html and metrics.json.

    Without --epsilon the report contains exact figures of the real table: do not publish it. Tables of other programs need
    no schema: tabsynth drafts one from both tables, and says so in the report. The options --sep,
    --encoding, --decimal and --sheet are about the real tables. With the schema of linked tables, --real, --synthetic and
    --holdout are folders with a file for each table, and there is a page for each table besides.
    """
    from tabsynth.cli import evaluate as reporting

    real, synthetic, holdout = compared.tables
    schema, out, key = compared.schema, compared.out, compared.key
    design, charged = survey.options, asdict(publication)
    options: dict[str, Any] = {"target": measures.target, "by": measures.by}
    settings: dict[str, Any] = {"boosting": measures.boosting}
    if schema is not None and reporting.is_linked_schema(schema):
        # Each row of the root is a cluster.
        of_root = {k: design[k] for k in ("weights", "replicate_weights", "replicate_factor")}
        refused = {name: value for name, value in design.items() if name not in of_root}
        refused |= {**options, **settings, **charged}
        return reporting.write_linked(compared, reading.options, of_root, refused)
    facts = load_schema(schema)
    check_folder(out)
    if facts is None:
        refused = {**charged, "decimal": reading.decimal}
        read = reporting.read_undeclared(compared.tables, reading.options, refused)
        certificate = reporting.certificate_of(synthetic, key)
        confidential = reporting.measure(read, None, certificate, design, settings, **options)
        reporting.write_report(confidential, out, *compared.tables)
        return reporting.print_summary(confidential)
    rows, epsilon, ledger = publication.sample_rows, publication.epsilon, publication.ledger
    if epsilon is not None and (rows is not None or real.is_dir() or synthetic.is_dir()):
        raise InputError(
            "A report with --epsilon is of whole tables; leave out --sample-rows, and give files in place of folders."
        )
    tables, totals = reporting.read_tables(compared.tables, facts, reading.options, design, rows)
    certificate = reporting.certificate_of(synthetic, key)
    exact = {"holdout": holdout, **options, **design, **settings}
    report = reporting.measure_privately(
        tables[0], tables[1], facts, certificate, epsilon, ledger, exact
    ) or reporting.measure(
        tables, facts, certificate, design, {**settings, "sampled_from": totals}, **options
    )
    reporting.write_report(report, out, real, synthetic, schema, holdout, ledger)
    return reporting.print_summary(report)
