"""The commands for schemas, fits, plans, samples and reports. Each imports its modules itself: torch takes seconds."""

import logging
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.logging import RichHandler

import tabsynth
from tabsynth._files import check_writable
from tabsynth._validate import between, one_of
from tabsynth.cli.console import Warnings, guarded, say
from tabsynth.cli.evaluate import (
    certificate_of,
    is_linked_schema,
    measured,
    measured_privately,
    print_summary,
    read_tables,
    read_undeclared,
    write_linked,
    write_report,
)
from tabsynth.cli.fit import fit_and_print, population_text
from tabsynth.cli.ledger import app as ledger_app
from tabsynth.cli.options import (
    AcceptDrafted,
    AutoencoderOption,
    Batches,
    CheckpointOption,
    Consensus,
    Count,
    Decimal,
    DeclaredRows,
    DraftedOfTables,
    DraftedUnlessGiven,
    DuckDBFile,
    Encoding,
    Expires,
    FitTables,
    Flips,
    Formulas,
    Implicates,
    Label,
    Labels,
    LedgerOption,
    LinkedOption,
    MaxDraws,
    MaxRowsPerUnit,
    MaxWeight,
    Method,
    Mode,
    Network,
    Null,
    Overlap,
    PlannedAdvantage,
    PlannedBounds,
    PlannedCaps,
    PlannedMethod,
    PlannedPopulation,
    PlannedTables,
    PlannedUnit,
    Preset,
    Prior,
    Public,
    PublicSource,
    Rows,
    RowsPerUnit,
    RowsToDraw,
    SampledLabel,
    SampledWeights,
    SaveSchema,
    SchemaIfAny,
    Seed,
    Sep,
    Sheet,
    SparkUrl,
    StepRule,
    Steps,
    Target,
    TeacherCount,
    TeacherCounts,
    Teachers,
    TimeLimit,
    Unit,
    Variant,
    Wanted,
    WarmStart,
    Weight,
    Where,
    WorkloadOption,
    WrittenSep,
    class_argument,
    condition,
    null_texts,
    parse_tables,
    parse_workload,
    reading,
    seconds,
    taken,
    without_decimal,
)
from tabsynth.cli.paths import check_folder, check_not_input, private_key, same_file
from tabsynth.cli.schema import app as schema_app
from tabsynth.errors import InputError
from tabsynth.schema.design import Design
from tabsynth.schema.schema import Schema
from tabsynth.tables.files import read_any, read_table, suffix, taken_by
from tabsynth.tables.formulas import HANDLINGS

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
        handler = RichHandler(console=Console(stderr=True), show_path=False)
    level = logging.INFO if verbose else logging.WARNING
    # Configured before opacus, which would add a date to every line.
    logging.basicConfig(level=level, format="%(message)s", handlers=[handler])


@app.command()
@guarded
def fit(
    epsilon: Annotated[
        float,
        typer.Option(
            help="ε of the privacy budget, above 0; smaller is more private. inf adds no noise and is not private."
        ),
    ],
    out: Annotated[Path, typer.Option("-o", "--out", help="The model file to write.")],
    table: Annotated[
        Path | None,
        typer.Argument(
            help="The private table: a text file (.csv, .tsv, .csv.gz), .parquet, .xlsx or another format by its"
            " suffix, or for margnet a folder of .parquet files."
        ),
    ] = None,
    duckdb: DuckDBFile = None,
    spark: SparkUrl = None,
    tables: FitTables = None,
    schema: DraftedUnlessGiven = None,
    linked: LinkedOption = None,
    save_schema: SaveSchema = None,
    method: Method = "margnet",
    delta: Annotated[
        float,
        typer.Option(
            help="δ of (ε, δ)-differential privacy, between 0 and 1; choose it well below 1/rows."
        ),
    ] = 1e-5,
    preset: Preset = None,
    variant: Variant = None,
    autoencoder: AutoencoderOption = None,
    public: Public = None,
    public_source: PublicSource = None,
    overlap: Overlap = None,
    warm_start: WarmStart = None,
    step_rule: StepRule = None,
    teachers: Teachers = None,
    teacher_count: TeacherCount = None,
    labels: Labels = None,
    label: Label = None,
    mode: Mode = None,
    network_encoding: Network = None,
    workload: WorkloadOption = None,
    target: Target = None,
    rows: Rows = None,
    time_limit: TimeLimit = None,
    seed: Seed = None,
    device: Annotated[str, typer.Option(help="Device for training: auto, cpu or cuda.")] = "auto",
    checkpoint: CheckpointOption = None,
    ledger: LedgerOption = None,
    accept_drafted_domain: AcceptDrafted = False,
    sep: Sep = None,
    encoding: Encoding = None,
    decimal: Decimal = None,
    sheet: Sheet = None,
    null: Null = None,
    count: Count = None,
    unit: Unit = None,
    max_rows_per_unit: MaxRowsPerUnit = None,
    weight: Weight = None,
    max_weight: MaxWeight = None,
) -> None:
    """Fit a synthesizer to a table within a privacy budget.

    Without a schema, one is drafted from the table within the same budget: columns that identify people are left out.
    With one, the planned privacy cost is printed before the table is read.
    """
    started = time.monotonic()
    from tabsynth.cli.linked import fit_linked, refuse_for_linked
    from tabsynth.synthesizers import METHODS, load

    given: dict[str, Any] = {"preset": preset, "variant": variant, "autoencoder": autoencoder}
    given |= {"public": public, "provenance": public_source, "overlap": overlap}
    given |= {"warm_start": warm_start, "step_rule": step_rule, "rows": rows}
    given |= {"encoding": network_encoding}
    given |= {
        "teachers": teachers,
        "teacher_count": teacher_count,
        "labels": labels,
        "label": label,
        "mode": mode,
    }
    engine = duckdb is not None or spark is not None
    table_name, declared = parse_tables(tables, engine=engine)
    given |= {"workload": parse_workload(workload), "target": target, "tables": declared}
    given |= {"time_limit": None if time_limit is None else seconds(time_limit)}
    design: dict[str, Any] = {"unit": unit, "max_rows_per_unit": max_rows_per_unit}
    design |= {"weight": weight, "max_weight": max_weight}
    _check_source(table, duckdb, spark, table_name, with_schema=schema is not None)
    if linked is not None:
        if table is None:
            raise InputError("--linked takes a folder of tables, not --duckdb or --spark.")
        of_one = {"schema": schema, "save_schema": save_schema, "null": null, **given, **design}
        of_one |= {"count": count}
        refuse_for_linked(of_one, ("rows", "time_limit"))
        check_not_input(out, linked, ledger)
        parameters = {"epsilon": epsilon, "delta": delta, "device": device, "random_state": seed}
        parameters |= {"rows": rows, "time_limit": given["time_limit"]}
        parameters |= {"accept_drafted_domain": accept_drafted_domain}
        options = reading(sep, encoding, decimal, sheet)
        fit_linked(table, linked, out, parameters, options, checkpoint, ledger, started)
        return
    arguments = taken(method, {**given, "random_state": seed})
    facts = None if schema is None else Schema.load(schema)
    options = reading(sep, encoding, decimal, sheet)
    if table is not None and not table.is_dir():
        suffix(table)
    elif options:
        source = "A folder of Parquet files" if table is not None else "A table of an engine"
        raise InputError(f"{source} takes no --{next(iter(options))}; leave it out.")
    if null and facts is not None:
        raise InputError("--null goes without --schema: the schema's null_values list such texts.")
    if public is not None:
        if facts is None:
            raise InputError("--public needs --schema, which both tables have.")
        arguments["public"] = read_table(public, facts, **taken_by(public, options))
    if warm_start is not None:
        arguments["warm_start"] = load(warm_start)
    if autoencoder == "none":
        arguments["autoencoder"] = None
    arguments |= {"delta": delta, "device": device, "accept_drafted_domain": accept_drafted_domain}
    if facts is None:
        arguments["draft_options"] = {
            "null_values": null_texts(null),
            "decimal": decimal,
            **Design(**design).parameters(),
        }
    elif options_given := [name for name, value in design.items() if value is not None]:
        raise InputError(
            f"--{options_given[0].replace('_', '-')} goes without --schema: a schema file declares its own unit and weight."
        )
    synthesizer = METHODS[method](facts, epsilon=epsilon, **arguments)
    read: Callable[[], Any]
    if table is None:
        read = partial(_engine_table, duckdb, spark, str(table_name))
    else:
        read = partial(
            _rows_of,
            table,
            facts,
            null_texts(null),
            options,
            identifiers="repeated" in (count or ()),
        )
    private = duckdb if table is None else table
    check_not_input(out, private, schema, public, warm_start, ledger)
    if public is not None and private is not None and same_file(public, private):
        raise InputError(f"{public} is the private table itself; give a public table to --public.")
    check_writable(out)
    if save_schema is not None:
        check_not_input(save_schema, private, schema, public, warm_start, ledger, out)
        check_writable(save_schema)
    fit_and_print(synthesizer, read, out, checkpoint, ledger, started, count or ())
    say(f"Model: {out}")
    if save_schema is not None:
        synthesizer.schema_.save(save_schema)
        say(f"Schema: {save_schema}")


def _check_source(
    table: Path | None,
    duckdb: Path | None,
    spark: str | None,
    name: str | None,
    *,
    with_schema: bool,
) -> None:
    """Refuse a command that names no private table, or several, or too little of one of an engine."""
    if sum(source is not None for source in (table, duckdb, spark)) != 1:
        raise InputError("Name one private table: a file, a folder, --duckdb or --spark.")
    if table is not None:
        return
    option = "--duckdb" if spark is None else "--spark"
    if name is None or not with_schema:
        raise InputError(f"{option} needs {'--table' if name is None else '--schema'}; add it.")


def _engine_table(duckdb: Path | None, spark: str | None, name: str) -> Any:
    """The table of an engine, which counts its own rows."""
    from tabsynth.tables.databases import duckdb_table, spark_table

    warnings.filterwarnings("ignore", module="pyspark")  # of versions of pandas
    return spark_table(str(spark), name) if duckdb is None else duckdb_table(duckdb, name)


def _rows_of(
    table: Path,
    schema: Schema | None,
    nulls: tuple[str, ...],
    options: dict[str, Any],
    *,
    identifiers: bool = False,
) -> Any:
    """Read the rows of a file; the rows of a folder are counted in place."""
    from tabsynth.tables.parquet_counter import ParquetCounter

    if table.is_dir():
        return ParquetCounter(table)
    if schema is not None:
        return read_table(table, schema, **options, aside=schema.identifiers if identifiers else ())
    return read_any(table, nulls, ask=True, **without_decimal(options))


@app.command()
@guarded
def plan(
    rows: DeclaredRows,
    epsilon: Annotated[
        float | None,
        typer.Option(help="ε of the privacy budget, above 0; smaller is more private."),
    ] = None,
    max_advantage: PlannedAdvantage = None,
    prior: Prior = None,
    delta: Annotated[
        float,
        typer.Option(
            help="δ of (ε, δ)-differential privacy, between 0 and 1; choose it well below 1/rows."
        ),
    ] = 1e-5,
    method: PlannedMethod = None,
    schema: SchemaIfAny = None,
    consensus: Consensus = None,
    flips: Flips = None,
    labels: Wanted = None,
    teacher_count: TeacherCounts = None,
    mode: Mode = None,
    batch: Batches = None,
    steps: Steps = None,
    bounds: PlannedBounds = None,
    unit: PlannedUnit = None,
    rows_per_unit: RowsPerUnit = None,
    caps: PlannedCaps = None,
    population: PlannedPopulation = None,
    table: PlannedTables = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the plan as JSON.")] = False,
) -> None:
    """Show the noise and the number of labels that a privacy budget allows, without a table.

    With --bounds, show what several bounds of the rows of a unit cost; with --caps, what several largest weights cost; with
    --table, the error of the cells of a table. With --max-advantage in place of --epsilon, show the ε that keeps the
    advantage of every attacker below a bound.
    """
    from tabsynth.cli.plan import (
        print_advantage,
        print_bounds,
        print_caps,
        print_plan,
        print_tables,
    )

    given: dict[str, Any] = {
        "consensus": consensus,
        "flips": flips,
        "labels": labels,
        "teacher_count": teacher_count,
    }
    given |= {"mode": mode, "batches": batch, "steps": steps}
    given |= {"schema": None if schema is None else Schema.load(schema)}
    if max_advantage is not None:
        refused = {**given, "epsilon": epsilon, "bounds": bounds, "caps": caps, "prior": prior}
        refused |= {"table": table or None}
        print_advantage(max_advantage, rows, delta, method, refused, as_json)
        return
    if prior is not None:
        between("prior", prior, 0, 1, low_open=True, high_open=True)
    if epsilon is None:
        raise InputError("A plan needs --epsilon, or --max-advantage; give it.")
    budget: dict[str, Any] = {"rows": rows, "epsilon": epsilon, "delta": delta}
    if table:
        others = {**given, "bounds": bounds, "caps": caps}
        return print_tables(method or "margnet", table, budget, others, as_json)
    if bounds is None and (unit is not None or rows_per_unit is not None):
        raise InputError(
            "--unit and --rows-per-unit are for a plan of bounds; give --bounds, or leave them out."
        )
    if (caps is None) != (population is None):
        raise InputError("--caps and --population go together; give both, or leave them out.")
    if caps is not None and population is not None:
        if bounds is not None:
            raise InputError("Give --bounds or --caps, not both.")
        planned = given["schema"]
        most = 1 if planned is None else planned.design.rows
        return print_caps(caps, budget, population, most, as_json)
    if bounds is None:
        if method is None:
            raise InputError("A plan needs --method, or --table; give it.")
        return print_plan(method, budget, given, as_json, prior)
    declared = given["schema"]
    name = unit or (None if declared is None else declared.unit)
    if name is None:
        raise InputError(
            "--bounds needs the unit; give --unit COLUMN, or a schema that declares one (--schema)."
        )
    weight = None if declared is None else declared.max_weight
    print_bounds(bounds, budget, name, rows_per_unit, weight, as_json)


@app.command()
@guarded
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
    n: RowsToDraw = None,
    where: Where = None,
    max_draws: MaxDraws = None,
    label: SampledLabel = None,
    weights: SampledWeights = None,
    implicates: Implicates = None,
    seed: Seed = None,
    formulas: Formulas = "refuse",
    sep: WrittenSep = None,
    decimal: Decimal = None,
    sign: Annotated[
        Path | None,
        typer.Option(help="A private key of tabsynth keygen, to sign the certificate with."),
    ] = None,
    expires: Expires = None,
) -> None:
    """Draw synthetic rows, and write their privacy certificate beside them.

    Sampling has no further privacy cost.
    """
    from tabsynth.cli.linked import is_linked, sample_linked
    from tabsynth.privacy.certificate.certificate import certify, check_complete
    from tabsynth.synthesizers import load
    from tabsynth.synthesizers.base import numbered

    one_of("--formulas", formulas, HANDLINGS)
    written = {"formulas": formulas, **reading(sep, None, decimal, None)}
    check_not_input(out, model, sign)
    if expires is not None and sign is None:
        raise InputError("--expires is of a signature; give --sign, or leave it out.")
    key, last = None if sign is None else private_key(sign), expires and expires.date()
    synthesizer = load(model)
    if is_linked(synthesizer):
        given = {"label": label, "implicates": implicates}
        sample_linked(
            synthesizer, out, n, seed, written, where, key, last, weights, max_draws, given
        )
        return
    suffix(out, writing=True)
    if key is not None:
        check_complete(synthesizer.certificate(), f"The certificate of {model}")
    options = condition(synthesizer, where) if where else {}
    options |= class_argument(synthesizer, label) if label is not None else {}
    options |= {} if max_draws is None else {"max_draws": max_draws}
    options |= {} if weights is None else {"weights": weights}
    several: dict[str, Any] = {} if implicates is None else {"implicates": implicates}
    result = synthesizer.sample_to(out, n, random_state=seed, **written, **options, **several)
    n = synthesizer.rows_ if n is None else n
    pairs = (
        [(out, result)]
        if implicates is None
        else zip(numbered(out, implicates), result, strict=True)
    )
    for table, certificate in pairs:
        if key is not None:
            certify(table, key=key, expires=last)
        say(f"Table: {table} ({n:,} rows)")
        say(f"Certificate: {certificate}")
    if weights is not None:
        say(f"Population, the sum of the weights: {population_text(synthesizer)}.")
    claim = synthesizer.certificate()
    if claim["conditional"]:
        say(claim["statement"])


@app.command()
@guarded
def evaluate(
    real: Annotated[
        Path,
        typer.Option(
            help="The real table to which the model was fitted; of linked tables the folder."
        ),
    ],
    synthetic: Annotated[
        Path, typer.Option(help="The synthetic table; of linked tables the folder.")
    ],
    out: Annotated[
        Path, typer.Option("-o", "--out", help="The folder for report.html and metrics.json.")
    ],
    schema: DraftedOfTables = None,
    holdout: Annotated[
        Path | None,
        typer.Option(
            help="Real rows that were not fitted, as test rows and as controls for the attacks."
        ),
    ] = None,
    target: Annotated[
        str | None, typer.Option(help="A column that models predict from the others.")
    ] = None,
    by: Annotated[
        list[str] | None,
        typer.Option(help="A column whose groups are compared with each other; repeatable."),
    ] = None,
    weights: Annotated[
        str | None,
        typer.Option(
            help="A column of survey weights, of the real tables and perhaps of the synthetic one, for every metric of"
            " utility. Default: the weight of the schema."
        ),
    ] = None,
    replicate_weights: Annotated[
        list[str] | None,
        typer.Option(
            help="The text before the numbers of the columns of replicate weights, such as PWGTP; or each column, if"
            " repeated. For intervals of the survey's design."
        ),
    ] = None,
    replicate_factor: Annotated[
        float | None,
        typer.Option(
            help="The factor of the squared differences of replicates. Default: 4 over their number, as in the"
            " American Community Survey."
        ),
    ] = None,
    strata: Annotated[
        str | None,
        typer.Option(
            help="A column with the stratum of each real row, for intervals by linearisation."
        ),
    ] = None,
    clusters: Annotated[
        str | None,
        typer.Option(
            help="A column with the primary cluster of each real row, within its stratum."
        ),
    ] = None,
    boosting: Annotated[
        bool, typer.Option("--boosting", help="Also predict by gradient boosting; slower.")
    ] = False,
    epsilon: Annotated[
        float | None,
        typer.Option(
            help="ε of a report without exact figures of the real rows, which may be published. Default: exact figures of the real"
            " table, which are private information."
        ),
    ] = None,
    ledger: LedgerOption = None,
    key: Annotated[
        Path | None,
        typer.Option(
            help="The public key of a signer whom you trust. The certificate of the synthetic table must be signed"
            " with it."
        ),
    ] = None,
    sep: Sep = None,
    encoding: Encoding = None,
    decimal: Decimal = None,
    sheet: Sheet = None,
    sample_rows: Annotated[
        int | None,
        typer.Option(
            help="Compare a uniform sample of at most so many rows of each Parquet file or folder of Parquet files."
            " Default: 100,000 of a folder, and the whole of a file."
        ),
    ] = None,
) -> None:
    """Compare a synthetic table with the real one, and write report.html and metrics.json.

    Without --epsilon the report contains exact figures of the real table: do not publish it. Tables of other programs need
    no schema: tabsynth drafts one from both tables, and says so in the report. The options --sep,
    --encoding, --decimal and --sheet are about the real tables. With the schema of linked tables, --real, --synthetic and
    --holdout are folders with a file for each table, and there is a page for each table besides.
    """
    listed = replicate_weights or []
    survey: dict[str, Any] = {
        "weights": weights,
        "replicate_weights": None if not listed else listed[0] if len(listed) == 1 else listed,
        "replicate_factor": replicate_factor,
        "strata": strata,
        "clusters": clusters,
    }
    options: dict[str, Any] = {"target": target, "by": by}
    settings: dict[str, Any] = {"boosting": boosting}
    if schema is not None and is_linked_schema(schema):
        # Each row of the root is a cluster.
        of_root = {k: survey[k] for k in ("weights", "replicate_weights", "replicate_factor")}
        refused = {
            **options,
            **{name: value for name, value in survey.items() if name not in of_root},
            **settings,
            "epsilon": epsilon is not None,
            "ledger": ledger,
            "sample_rows": sample_rows,
        }
        given = reading(sep, encoding, decimal, sheet)
        write_linked(real, synthetic, holdout, schema, out, key, given, of_root, refused)
        return
    facts = None if schema is None else Schema.load(schema)
    check_folder(out)
    given = reading(sep, encoding, decimal, sheet)
    if facts is None:
        refused = {"epsilon": epsilon is not None, "ledger": ledger, "sample_rows": sample_rows}
        paths = (real, synthetic, holdout)
        read = read_undeclared(paths, given, {**refused, "decimal": decimal})
        certificate = certificate_of(synthetic, key)
        confidential = measured(read, None, certificate, survey, settings, **options)
        write_report(confidential, out, *paths)
        print_summary(confidential)
        return
    if epsilon is not None and (sample_rows is not None or real.is_dir() or synthetic.is_dir()):
        raise InputError(
            "A report with --epsilon is of whole tables; leave out --sample-rows, and give files in place of folders."
        )
    tables, totals = read_tables((real, synthetic, holdout), facts, given, survey, sample_rows)
    certificate = certificate_of(synthetic, key)
    exact = {"holdout": holdout, **options, **survey, **settings}
    report = measured_privately(
        tables[0], tables[1], facts, certificate, epsilon, ledger, exact
    ) or measured(
        tables, facts, certificate, survey, {**settings, "sampled_from": totals}, **options
    )
    write_report(report, out, real, synthetic, schema, holdout, ledger)
    print_summary(report)
