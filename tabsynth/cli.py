"""The command line: parses, calls, prints. Errors take one line and exit code 2."""

import functools
import json
import logging
import re
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, NoReturn

import numpy as np
import typer
from rich.console import Console
from rich.logging import RichHandler

from tabsynth._files import check_writable
from tabsynth._progress import progress_bar
from tabsynth.datasets import load_census
from tabsynth.drafting import draft_schema, review
from tabsynth.errors import InputError, TabsynthError
from tabsynth.privacy.certificate import beside, verify
from tabsynth.report import Report
from tabsynth.report import evaluate as evaluate_tables
from tabsynth.schema import DEFAULT_NULL_VALUES, Schema
from tabsynth.synthesizers import METHODS, Synthesizer, load
from tabsynth.tables import read_any, read_table, suffix

app = typer.Typer(
    help="Differentially private synthetic tables: fit, sample, evaluate, verify.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)
INTERRUPTED = 130
DEMO_ROWS = 7_000

SchemaOption = Annotated[Path, typer.Option("--schema", help="The table's schema (JSON).")]
Seed = Annotated[
    int | None, typer.Option(help="Reproducible; of a fit, the certificate then says: not private.")
]


def say(text: str, *, error: bool = False) -> None:
    """A line as it is: nothing in it is taken for markup, and it is not wrapped."""
    Console(stderr=error).print(text, markup=False, highlight=False, soft_wrap=True)


def fail(message: str, code: int = 2) -> NoReturn:
    """One line on stderr, and out."""
    say(f"error: {' '.join(message.split())}", error=True)
    raise typer.Exit(code)


def guarded(command: Callable[..., None]) -> Callable[..., None]:
    """Turn what a user can get wrong into one line and exit code 2."""

    @functools.wraps(command)
    def run(*args: Any, **kwargs: Any) -> None:
        try:
            command(*args, **kwargs)
        except TabsynthError as error:
            fail(str(error))
        except MemoryError:
            fail("Not enough memory; sample fewer rows at a time, or use fewer categories.")
        except KeyboardInterrupt:
            fail("Interrupted.", INTERRUPTED)

    return run


@app.callback()
def options(
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Log what is done.")] = False,
) -> None:
    """Differentially private synthetic tables."""
    if verbose:
        handler = RichHandler(console=Console(stderr=True), show_path=False)
        logging.basicConfig(level=logging.INFO, format="%(message)s", handlers=[handler])


@app.command()
@guarded
def schema(
    table: Annotated[Path, typer.Argument(help="The table, .csv or .parquet.")],
    out: Annotated[Path, typer.Option("-o", "--out", help="Where to write the schema (JSON).")],
    null: Annotated[
        list[str] | None, typer.Option(help="A text that stands for a missing value; repeatable.")
    ] = None,
) -> None:
    """Draft a schema from a table, and list what a person must review in it."""
    keep_apart(out, table)
    check_writable(out)
    nulls = tuple(null) if null else DEFAULT_NULL_VALUES
    frame = read_any(table, nulls)
    drafted = draft_schema(frame, nulls)
    drafted.save(out)
    say(f"Drafted {out}: {len(drafted.columns)} columns. It was read off the table, so it is not")
    say("public yet. Replace each fact by a public one and set provenance to declared:")
    for line in review(drafted, len(frame)):
        say(f"  - {line}")


@app.command()
@guarded
def fit(
    table: Annotated[Path, typer.Argument(help="The private table, .csv or .parquet.")],
    schema: SchemaOption,
    epsilon: Annotated[float, typer.Option(help="The privacy budget; inf for a run without.")],
    out: Annotated[Path, typer.Option("-o", "--out", help="Where to write the model.")],
    method: Annotated[str, typer.Option(help=f"One of: {', '.join(METHODS)}.")] = "dp-wgan",
    delta: Annotated[float, typer.Option(help="The chance that epsilon does not hold.")] = 1e-5,
    preset: Annotated[
        str, typer.Option(help="default, or source: the original paper's.")
    ] = "default",
    autoencoder: Annotated[
        str, typer.Option(help="preset, dp-sgd, public, no-noise, or none: how it is trained.")
    ] = "preset",
    public: Annotated[
        Path | None, typer.Option(help="A public table, for --autoencoder public.")
    ] = None,
    encoding: Annotated[str, typer.Option(help="one-hot, ordinal, binary or base-N.")] = "one-hot",
    rows: Annotated[int | None, typer.Option(help="The number of rows, if it is public.")] = None,
    time_limit: Annotated[
        str | None, typer.Option(help="Stop training in time: 90s, 10m, 2h.")
    ] = None,
    seed: Seed = None,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    accept_drafted_domain: Annotated[
        bool, typer.Option("--accept-drafted-domain", help="Fit on a schema drafted from a table.")
    ] = False,
) -> None:
    """Fit a synthesizer to a table under a privacy budget. Prints the price first."""
    if method not in METHODS:
        raise InputError(f"Expected --method to be one of {', '.join(METHODS)}; got {method!r}.")
    facts = Schema.load(schema)
    suffix(table)
    synthesizer = METHODS[method](
        facts,
        epsilon=epsilon,
        delta=delta,
        preset=preset,
        autoencoder=None if autoencoder == "none" else autoencoder,
        public=None if public is None else read_table(public, facts),
        encoding=encoding,
        rows=rows,
        time_limit=None if time_limit is None else seconds(time_limit),
        random_state=seed,
        device=device,
        accept_drafted_domain=accept_drafted_domain,
    )
    keep_apart(out, table, schema, *([] if public is None else [public]))
    if public is not None and same_file(public, table):
        raise InputError(f"{public} is the table to fit itself; give one that is public.")
    check_writable(out)
    fit_and_tell(synthesizer, lambda: read_table(table, facts), out)
    say(f"Model: {out}")


@contextmanager
def one_interrupt() -> Iterator[None]:
    """The first Ctrl-C counts; later ones wait until what was spent is written and said."""

    def first(number: int, frame: Any) -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, first)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def same_file(one: Path, other: Path) -> bool:
    """Whether two paths name one existing file."""
    return one.exists() and other.exists() and one.samefile(other)


def keep_apart(out: Path, *inputs: Path) -> None:
    """Refuse to write over what is read."""
    for path in inputs:
        if same_file(out, path):
            raise InputError(f"{out} is read by this command; write to another file.")


def fit_and_tell(synthesizer: Synthesizer, read: Callable[[], Any], out: Path) -> None:
    """Print the plan, then read the table, fit, save and say what was spent."""
    synthesizer.check_domain()
    say(str(synthesizer.plan()))
    frame = read()
    with one_interrupt():
        try:
            with progress_bar(True) as progress:
                synthesizer.fit(frame, progress=progress, announce=False)
        except KeyboardInterrupt:
            ledger = getattr(synthesizer, "ledger_", None)
            spent = "nothing" if ledger is None else f"epsilon={ledger.spent:.4g}"
            if not hasattr(synthesizer, "trained_"):
                fail(f"Interrupted before there was a model; spent: {spent}.", INTERRUPTED)
            synthesizer.save(out)
            fail(f"Interrupted; the model as far as it came ({spent}) is in {out}.", INTERRUPTED)
    synthesizer.save(out)
    certificate = synthesizer.certificate()
    if certificate["training"]["stopped"]:
        say(f"Stopped early: {certificate['training']['stopped']}.")
    say(certificate["statement"])


@app.command()
@guarded
def sample(
    model: Annotated[Path, typer.Argument(help="A model that fit wrote.")],
    n: Annotated[int, typer.Option("-n", help="Number of rows.")],
    out: Annotated[Path, typer.Option("-o", "--out", help="Where to write, .csv or .parquet.")],
    seed: Seed = None,
    formulas: Annotated[
        bool, typer.Option("--formulas", help="Write texts that a spreadsheet runs as formulas.")
    ] = False,
) -> None:
    """Draw synthetic rows, and write their certificate beside them."""
    suffix(out)
    keep_apart(out, model)
    synthesizer = load(model)
    certificate = synthesizer.sample_to(out, n, random_state=seed, formulas=formulas)
    say(f"Table: {out} ({n:,} rows)")
    say(f"Certificate: {certificate}")


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
) -> None:
    """Measure a synthetic table against the real one: report.html and metrics.json."""
    facts = Schema.load(schema)
    check_folder(out)
    frames = [read_table(path, facts) for path in (real, synthetic)]
    held = None if holdout is None else read_table(holdout, facts)
    report = measured(frames[0], frames[1], held, facts, certificate_of(synthetic))
    write_report(report, out, real, synthetic, schema, *([] if holdout is None else [holdout]))
    tell(report)


def certificate_of(table: Path) -> dict[str, Any] | None:
    """The certificate beside a table, if there is one and nothing contradicts it."""
    if not beside(table).exists():
        say(f"No certificate beside {table}: the report claims no privacy.", error=True)
        return None
    found = verify(table)
    for problem in found.problems:
        say(f"warning: the certificate of {table} is not used: {problem}.", error=True)
    return found.certificate if found.valid else None


def measured(real: Any, synthetic: Any, holdout: Any, schema: Schema, certificate: Any) -> Report:
    """Evaluate with a progress bar."""
    with fractions() as progress:
        return evaluate_tables(
            real, synthetic, holdout, schema=schema, certificate=certificate, progress=progress
        )


def write_report(report: Report, folder: Path, *inputs: Path) -> None:
    """Both files of a report; the folder is made only now that there is something to put in it."""
    make_folder(folder)
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # both files or neither: it takes seconds
    try:
        for name, write in (("report.html", report.to_html), ("metrics.json", report.to_json)):
            keep_apart(folder / name, *inputs)
            write(folder / name)
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def fractions() -> Iterator[Any]:
    """A progress bar for callbacks ``(stage, fraction)``."""
    with progress_bar(True) as bar:
        if bar is None:
            yield None
        else:
            yield lambda stage, fraction: bar(stage, round(100 * fraction), 100)


def tell(report: Report, lines: int | None = None) -> None:
    """The report's summary, a line each."""
    for line in report.summary()[:lines]:
        say(line)


def check_folder(path: Path) -> None:
    """Refuse early a folder that cannot be made or written."""
    place = next((p for p in (path, *path.absolute().parents) if p.exists()), path)
    check_writable(place / "report.html" if place.is_dir() else place / path.name)


def make_folder(path: Path) -> Path:
    """A folder to write into, made if it is missing."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"Cannot make folder {path}: {error.strerror}.") from None
    check_writable(path / "report.html")
    return path


@app.command(name="verify")
@guarded
def verify_command(
    table: Annotated[
        Path, typer.Argument(help="A synthetic table with its certificate beside it.")
    ],
    as_json: Annotated[bool, typer.Option("--json", help="Print what was found as JSON.")] = False,
) -> None:
    """Check a table's certificate: its hash, and epsilon recomputed from the mechanisms."""
    found = verify(table)
    if as_json:
        facts = {"valid": found.valid, "epsilon": str(found.epsilon), "problems": found.problems}
        say(json.dumps(facts))
    if not found.valid:
        fail(f"{table} does not agree with its certificate: {'; '.join(found.problems)}.")
    if not as_json:
        say(f"{table} agrees with its certificate.")
        say(str(found.certificate.get("statement", "")))


@app.command()
@guarded
def demo(
    out: Annotated[Path, typer.Option("-o", "--out", help="A folder for the results.")] = Path(
        "reports/demo"
    ),
    epsilon: Annotated[float, typer.Option(help="The privacy budget.")] = 8.0,
    seed: Seed = None,
) -> None:
    """The main job on the census table that ships: fit, sample, evaluate. Under three minutes."""
    folder = make_folder(out)
    table, facts = load_census()
    order = np.random.default_rng(0).permutation(len(table))
    train, test = table.iloc[order[:DEMO_ROWS]], table.iloc[order[DEMO_ROWS:]]
    synthesizer = METHODS["dp-wgan"](facts, epsilon=epsilon, random_state=seed)
    fit_and_tell(synthesizer, lambda: train, folder / "model.tabsynth")
    synthetic = folder / "synthetic.csv"
    certificate = synthesizer.sample_to(synthetic, DEMO_ROWS)
    made = read_table(synthetic, facts)
    report = measured(train, made, test, facts, certificate_of(synthetic))
    write_report(report, folder)
    say("")
    tell(report, 3)
    for path in (folder / "report.html", synthetic, certificate):
        say(f"  {path}")


def seconds(text: str) -> float:
    """``90``, ``90s``, ``10m`` or ``2h`` in seconds."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([smh]?)", text.strip())
    value = float(found[1]) * {"": 1, "s": 1, "m": 60, "h": 3600}[found[2]] if found else 0.0
    if value <= 0:
        raise InputError(f"Expected --time-limit like 90s, 10m or 2h, got {text!r}.")
    return value


def main() -> None:
    """Entry point."""
    app()
