"""The commands. Each imports what it alone needs: torch takes seconds."""

import logging
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.logging import RichHandler

import tabsynth
from tabsynth._files import check_writable
from tabsynth._validate import one_of
from tabsynth.cli.console import Warnings, guarded, say
from tabsynth.cli.evaluate import certificate_of, measured, measured_privately, tell, write_report
from tabsynth.cli.fit import fit_and_tell
from tabsynth.cli.ledger import app as ledger_app
from tabsynth.cli.options import (
    AcceptDrafted,
    AutoencoderOption,
    Batches,
    CheckpointOption,
    Consensus,
    DeclaredRows,
    Encoding,
    Flips,
    Formulas,
    Label,
    Labels,
    LedgerOption,
    Method,
    Mode,
    Overlap,
    PlannedMethod,
    Preset,
    Public,
    PublicSource,
    Rows,
    SampledLabel,
    SchemaIfAny,
    SchemaOption,
    Seed,
    StepRule,
    Steps,
    Target,
    Teachers,
    TeachersOption,
    TimeLimit,
    Variant,
    Wanted,
    WarmStart,
    Where,
    WorkloadOption,
    condition,
    of_class,
    seconds,
    sets_of_columns,
    taken,
)
from tabsynth.cli.paths import check_folder, keep_apart, private_key, same_file
from tabsynth.errors import InputError
from tabsynth.schema.drafting import MIN_COUNT
from tabsynth.schema.schema import DEFAULT_NULL_VALUES, Schema
from tabsynth.tables.files import read_any, read_table, suffix
from tabsynth.tables.formulas import HANDLINGS

app = typer.Typer(
    help="Differentially private synthetic tables: fit, sample, evaluate, verify.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)
app.add_typer(ledger_app, name="ledger")


def _version(asked: bool) -> None:
    if asked:
        say(f"tabsynth {tabsynth.__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", help="Show the version and end.", callback=_version, is_eager=True
        ),
    ] = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Log what is done.")] = False,
) -> None:
    """Differentially private synthetic tables."""
    handler: logging.Handler = Warnings()
    if verbose:
        handler = RichHandler(console=Console(stderr=True), show_path=False)
    level = logging.INFO if verbose else logging.WARNING
    # Before opacus, which would have every line begin with a date.
    logging.basicConfig(level=level, format="%(message)s", handlers=[handler])


@app.command()
@guarded
def schema(
    table: Annotated[Path, typer.Argument(help="The table, .csv or .parquet.")],
    out: Annotated[Path, typer.Option("-o", "--out", help="Where to write the schema (JSON).")],
    null: Annotated[
        list[str] | None, typer.Option(help="A text that stands for a missing value; repeatable.")
    ] = None,
    min_count: Annotated[
        int,
        typer.Option(help="Rows that a value must have to be listed; rarer ones become 'other'."),
    ] = MIN_COUNT,
) -> None:
    """Draft a schema from a table, and list what a person must review in it.

    Columns that identify people or records are left out. What is listed are real values of the table.
    """
    from tabsynth.schema.drafting import draft_schema, review

    keep_apart(out, table)
    check_writable(out)
    nulls = tuple(null) if null else DEFAULT_NULL_VALUES
    frame = read_any(table, nulls)
    drafted = draft_schema(frame, nulls, min_count)
    drafted.save(out)
    left = f", {len(drafted.left_out)} left out" if drafted.left_out else ""
    say(
        f"Drafted {out}: {len(drafted.columns)} columns{left}. It holds values that were copied from the"
    )
    say(
        "table, so it is not public. Replace each fact by a public one and set provenance to declared:"
    )
    for line in review(drafted):
        say(f"  - {line}")


@app.command()
@guarded
def fit(
    table: Annotated[
        Path,
        typer.Argument(
            help="The private table, .csv or .parquet, or a folder of .parquet to count."
        ),
    ],
    schema: SchemaOption,
    epsilon: Annotated[float, typer.Option(help="The privacy budget; inf for a run without.")],
    out: Annotated[Path, typer.Option("-o", "--out", help="Where to write the model.")],
    method: Method = "margnet",
    delta: Annotated[float, typer.Option(help="The chance that epsilon does not hold.")] = 1e-5,
    preset: Preset = None,
    variant: Variant = None,
    autoencoder: AutoencoderOption = None,
    public: Public = None,
    public_source: PublicSource = None,
    overlap: Overlap = None,
    warm_start: WarmStart = None,
    step_rule: StepRule = None,
    teachers: TeachersOption = None,
    labels: Labels = None,
    label: Label = None,
    mode: Mode = None,
    encoding: Encoding = None,
    workload: WorkloadOption = None,
    target: Target = None,
    rows: Rows = None,
    time_limit: TimeLimit = None,
    seed: Seed = None,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    checkpoint: CheckpointOption = None,
    ledger: LedgerOption = None,
    accept_drafted_domain: AcceptDrafted = False,
) -> None:
    """Fit a synthesizer to a table under a privacy budget. Prints the price first."""
    from tabsynth.synthesizers import METHODS, load

    given: dict[str, Any] = {"preset": preset, "variant": variant, "autoencoder": autoencoder}
    given |= {"public": public, "provenance": public_source, "overlap": overlap}
    given |= {"warm_start": warm_start, "step_rule": step_rule, "encoding": encoding, "rows": rows}
    given |= {"teachers": teachers, "labels": labels, "label": label, "mode": mode}
    given |= {"workload": sets_of_columns(workload), "target": target}
    given |= {"time_limit": None if time_limit is None else seconds(time_limit)}
    arguments = taken(method, {**given, "random_state": seed})
    facts = Schema.load(schema)
    if not table.is_dir():
        suffix(table)
    if public is not None:
        arguments["public"] = read_table(public, facts)
    if warm_start is not None:
        arguments["warm_start"] = load(warm_start)
    if autoencoder == "none":
        arguments["autoencoder"] = None
    arguments |= {"delta": delta, "device": device, "accept_drafted_domain": accept_drafted_domain}
    synthesizer = METHODS[method](facts, epsilon=epsilon, **arguments)
    keep_apart(out, table, schema, public, warm_start, ledger)
    if public is not None and same_file(public, table):
        raise InputError(f"{public} is the table to fit itself; give one that is public.")
    check_writable(out)
    fit_and_tell(synthesizer, lambda: _rows_of(table, facts), out, checkpoint, ledger)
    say(f"Model: {out}")


def _rows_of(table: Path, schema: Schema) -> Any:
    """A file's rows; a folder's are counted where they lie."""
    from tabsynth.tables.counter import ParquetCounter

    return ParquetCounter(table) if table.is_dir() else read_table(table, schema)


@app.command()
@guarded
def plan(
    rows: DeclaredRows,
    method: PlannedMethod,
    epsilon: Annotated[float, typer.Option(help="The privacy budget.")],
    delta: Annotated[float, typer.Option(help="The chance that epsilon does not hold.")] = 1e-5,
    schema: SchemaIfAny = None,
    consensus: Consensus = None,
    flips: Flips = None,
    labels: Wanted = None,
    teachers: Teachers = None,
    mode: Mode = None,
    batch: Batches = None,
    steps: Steps = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the plan as JSON.")] = False,
) -> None:
    """What a budget buys, before there is a table: noisy labels of PATE, or noise of the others."""
    from tabsynth.cli.plan import plan_and_tell

    given: dict[str, Any] = {
        "consensus": consensus,
        "flips": flips,
        "labels": labels,
        "teachers": teachers,
    }
    given |= {"mode": mode, "batches": batch, "steps": steps}
    given |= {"schema": None if schema is None else Schema.load(schema)}
    budget = {"rows": rows, "epsilon": epsilon, "delta": delta}
    plan_and_tell(method, budget, given, as_json)


@app.command()
@guarded
def sample(
    model: Annotated[Path, typer.Argument(help="A model that fit wrote.")],
    n: Annotated[int, typer.Option("-n", help="Number of rows.")],
    out: Annotated[Path, typer.Option("-o", "--out", help="Where to write, .csv or .parquet.")],
    where: Where = None,
    label: SampledLabel = None,
    seed: Seed = None,
    formulas: Formulas = "refuse",
    sign: Annotated[
        Path | None, typer.Option(help="A private key, of keygen, to sign the certificate with.")
    ] = None,
) -> None:
    """Draw synthetic rows, and write their certificate beside them."""
    from tabsynth.privacy.certificate.certificate import certify, check_complete
    from tabsynth.synthesizers import load

    suffix(out)
    one_of("--formulas", formulas, HANDLINGS)
    keep_apart(out, model, sign)
    key = None if sign is None else private_key(sign)
    synthesizer = load(model)
    if key is not None:
        check_complete(synthesizer.certificate(), f"The certificate of {model}")
    options = condition(synthesizer, where) if where else {}
    options |= of_class(synthesizer, label) if label is not None else {}
    certificate = synthesizer.sample_to(out, n, random_state=seed, formulas=formulas, **options)
    if key is not None:
        certify(out, key=key)
    say(f"Table: {out} ({n:,} rows)")
    say(f"Certificate: {certificate}")
    claim = synthesizer.certificate()
    if claim["conditional"]:
        say(claim["statement"])


@app.command()
@guarded
def evaluate(
    real: Annotated[Path, typer.Option(help="The table that was fitted.")],
    synthetic: Annotated[Path, typer.Option(help="The synthetic table.")],
    schema: SchemaOption,
    out: Annotated[Path, typer.Option("-o", "--out", help="A folder for the report.")],
    holdout: Annotated[
        Path | None, typer.Option(help="Real rows that were never fitted: tests and controls.")
    ] = None,
    target: Annotated[str | None, typer.Option(help="A column to predict and explain.")] = None,
    by: Annotated[
        list[str] | None, typer.Option(help="A column whose groups are compared; repeatable.")
    ] = None,
    weights: Annotated[str | None, typer.Option(help="The column of survey weights.")] = None,
    boosting: Annotated[
        bool, typer.Option("--boosting", help="Gradient boosting beside logistic regression.")
    ] = False,
    epsilon: Annotated[
        float | None,
        typer.Option(
            help="Release only figures with noise, at this privacy cost, which may be published."
        ),
    ] = None,
    ledger: LedgerOption = None,
    key: Annotated[
        Path | None,
        typer.Option(
            help="The public key of a signer whom you trust: the synthetic table's certificate must be"
            " signed by it."
        ),
    ] = None,
) -> None:
    """Measure a synthetic table against the real one: report.html and metrics.json."""
    facts = Schema.load(schema)
    check_folder(out)
    frames = [read_table(path, facts) for path in (real, synthetic)]
    held = None if holdout is None else read_table(holdout, facts)
    options = {"target": target, "by": by, "weights": weights, "boosting": boosting}
    certificate = certificate_of(synthetic, key)
    report = measured_privately(
        *frames, facts, certificate, epsilon, ledger, {"holdout": holdout, **options}
    ) or measured(*frames, held, facts, certificate, **options)
    write_report(report, out, real, synthetic, schema, holdout, ledger)
    tell(report)
