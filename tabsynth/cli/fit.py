"""``tabsynth fit``: read the settings of a method, print the planned privacy cost, read the table, fit, and print the privacy cost."""

import re
import time
import warnings
from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict, is_dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args, get_type_hints

from tabsynth._files import is_same_file
from tabsynth._progress import progress_bar
from tabsynth._validate import quote
from tabsynth.cli.commands import app
from tabsynth.cli.console import INTERRUPTED, as_typed, cli_command, fail, one_interrupt, say
from tabsynth.cli.ledger import ledger_status
from tabsynth.cli.options import (
    FitColumns,
    FitRequest,
    Outputs,
    PriorKnowledge,
    Reading,
    Running,
    Settings,
    Survey,
    column_names,
    load_schema,
    null_texts,
    refuse,
    typed_options,
)
from tabsynth.errors import ConvergenceWarning, DraftWarning, InputError, PlanWarning
from tabsynth.methods import METHODS

if TYPE_CHECKING:
    from tabsynth.schema.schema import Schema
    from tabsynth.synthesizers import Synthesizer
    from tabsynth.synthesizers.linked.estimator import LinkedMargNet

MOST_DOMAINS = 30  # of the columns of a draft that are printed


@app.command()
@cli_command
def fit(
    request: FitRequest,
    columns: FitColumns,
    survey: Survey,
    settings: Settings,
    prior: PriorKnowledge,
    reading: Reading,
    running: Running,
    outputs: Outputs,
) -> None:
    """Fit a synthesizer to a table within a privacy budget.

    Without a schema, one is drafted from the table within the same budget: columns that identify people are left out.
    With one, the planned privacy cost is printed before the table is read.
    """
    started = time.monotonic()
    from tabsynth.synthesizers import METHODS as ESTIMATORS
    from tabsynth.synthesizers.session import is_model_of

    if not request.table.exists():
        raise InputError(f"Cannot read table {request.table}: No such file or directory.")
    parameters: dict[str, Any] = {"epsilon": request.epsilon, "delta": request.delta}
    parameters |= {"device": running.device, "random_state": running.seed, "rows": request.rows}
    parameters |= {"time_limit": seconds(request.time_limit, "--time-limit")}
    own = {"time_budget": seconds(request.time_budget, "--time-budget")}
    parameters |= {"accept_drafted_domain": columns.accept_drafted_domain}
    synthesizer: Any
    read: Callable[[], Any]
    if columns.vocabulary is not None and not columns.omop:
        raise InputError("--vocabulary goes with --omop; add it, or leave --vocabulary out.")
    if columns.linked is not None or columns.omop:
        refused = {"schema": request.schema, "save_schema": request.save_schema, **asdict(survey)}
        refused |= {"null": columns.null, "tables": columns.tables}
        refused |= {"no_relations": columns.no_relations or None}
        what = "Linked tables"
        if columns.omop:
            what = "An OMOP database"
            del refused["save_schema"]
            refused |= {"linked": columns.linked, "checkpoint": running.checkpoint}
            refused |= reading.options
        refuse({**refused, **asdict(settings), **asdict(prior), **own}, what)
        if columns.linked is not None:
            synthesizer, read = _linked_fit(request.table, columns.linked, parameters, reading)
    else:
        facts = load_schema(request.schema)
        _check_columns(request, columns, survey, reading)
        tables = [column_names(text) for text in columns.tables or ()]
        arguments = parameters | arguments_of(
            request.method,
            typed_options({"tables": tables or None, **asdict(prior), **own}),
            settings.read(),
        )
        arguments |= _read_prior(prior, facts, reading)
        nulls = null_texts(columns.null)
        if facts is None:
            drafting = {"null_values": nulls, "decimal": reading.decimal, **survey.parameters}
            drafting |= {"relations": not columns.no_relations}
            arguments["draft_options"] = drafting
        synthesizer = ESTIMATORS[request.method](facts, **arguments)
        read = partial(_read_rows, request.table, facts, nulls, reading)
    inputs = [request.table, request.schema, columns.linked, columns.vocabulary, settings.config]
    inputs += [prior.public, request.ledger]
    if prior.public is not None and is_same_file(prior.public, request.table):
        raise InputError(
            f"{prior.public} is the private table itself; give a public table to --public."
        )
    if running.checkpoint is not None and is_model_of(running.checkpoint, request.out):
        outputs = replace(outputs, overwrite=True)
    outputs.check(*filter(None, (request.out, request.save_schema)), inputs=inputs)
    if columns.omop:
        synthesizer, read = _omop_fit(request, columns.vocabulary, parameters)
    fit_and_print(
        synthesizer,
        read,
        request.out,
        running.checkpoint,
        request.ledger,
        started,
        overwrite=outputs.overwrite,
    )
    for note in synthesizer.notes() if columns.linked is not None or columns.omop else ():
        say(note)
    say(f"Model: {request.out}")
    if request.save_schema is not None:
        synthesizer.schema_.save(request.save_schema, overwrite=outputs.overwrite)
        say(f"Schema: {request.save_schema}")


def _linked_fit(
    folder: Path, schema: Path, parameters: dict[str, Any], reading: Reading
) -> "tuple[LinkedMargNet, Callable[[], Any]]":
    """Return the synthesizer of linked tables, and a function that reads them from a folder."""
    from tabsynth.schema.linked import LinkedSchema
    from tabsynth.synthesizers.linked.estimator import LinkedMargNet
    from tabsynth.tables.files import read_linked

    facts = LinkedSchema.load(schema)
    read = partial(read_linked, folder, facts, **reading.options)
    return LinkedMargNet(facts, **parameters), read


def _omop_fit(
    request: FitRequest, vocabulary: Path | None, parameters: dict[str, Any]
) -> "tuple[LinkedMargNet, Callable[[], Any]]":
    """Read an OMOP database, select its concepts for a part of the budget, and return the synthesizer and its tables."""
    from tabsynth.omop.database import read_omop
    from tabsynth.omop.schema import SHARE, omop_schema
    from tabsynth.schema.column import MAX_CATEGORIES
    from tabsynth.synthesizers.linked.estimator import LinkedMargNet

    database = read_omop(request.table, vocabulary)
    source = "selected privately"
    if database.vocabulary is not None:
        source = f"known from CONCEPT, or selected privately in columns with more than {MAX_CATEGORIES:,}"
    say(f"Concepts are {source}; {SHARE:.0%} of the budget (in 1/σ²) counts persons with each.")
    budget = {name: parameters[name] for name in ("epsilon", "delta", "random_state")}
    schema = omop_schema(database, **budget, ledger=request.ledger)
    return LinkedMargNet(schema, **parameters), lambda: database.tables


def _check_columns(
    request: FitRequest, columns: FitColumns, survey: Survey, reading: Reading
) -> None:
    """Refuse options of reading that the table does not take, and facts that the schema declares."""
    from tabsynth.tables.files import suffix

    if not request.table.is_dir():
        suffix(request.table)
    else:
        _check_folder(request.table)
        for name in reading.options:
            raise InputError(f"A folder of Parquet files takes no --{name}; leave it out.")
    if request.schema is not None:
        survey.refuse("goes without --schema: a schema file declares its own unit and weight.")
        if columns.null:
            raise InputError(
                "--null goes without --schema: the schema's null_values list such texts."
            )
        if columns.no_relations:
            raise InputError(
                "--no-relations goes without --schema: the schema lists its constraints."
            )


def _check_folder(folder: Path) -> None:
    """Refuse a folder without Parquet files, which may be one of linked tables."""
    if not any(file.suffix.lower() == ".parquet" for file in folder.rglob("*")):
        raise InputError(
            f"{folder} holds no .parquet file; name the file of one table. A folder of linked tables, such as"
            " households.csv and persons.csv, needs their schema (--linked), and an OMOP database --omop."
        )


def _read_prior(prior: PriorKnowledge, facts: "Schema | None", reading: Reading) -> dict[str, Any]:
    """Read the public table that a fit starts from."""
    from tabsynth.tables.files import read_table, taken_by

    if prior.public is None:
        return {}
    if facts is None:
        raise InputError("--public needs --schema, which both tables have.")
    options = taken_by(prior.public, reading.options)
    return {"public": read_table(prior.public, facts, **options)}


def _read_rows(
    table: Path,
    schema: "Schema | None",
    nulls: tuple[str, ...],
    reading: Reading,
) -> Any:
    """Read the rows of a file; the rows of a folder are counted in place."""
    from tabsynth.tables.files import read_any, read_table
    from tabsynth.tables.parquet_counter import ParquetCounter

    if table.is_dir():
        return ParquetCounter(table)
    if schema is None:
        return read_any(table, nulls, ask=True, **reading.as_texts)
    return read_table(table, schema, **reading.options)


def seconds(text: str | None, option: str) -> float | None:
    """Parse ``90``, ``90s``, ``10m`` or ``2h`` of an option, if it was typed, as seconds."""
    if text is None:
        return None
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([smh]?)", text.strip())
    value = float(match[1]) * {"": 1, "s": 1, "m": 60, "h": 3600}[match[2]] if match else 0.0
    if value <= 0:
        raise InputError(f"Expected {option} like 90s, 10m or 2h, got {text!r}.")
    return value


def fit_and_print(
    synthesizer: "Synthesizer",
    read: Callable[[], Any],
    out: Path,
    checkpoint: Path | None = None,
    ledger: Path | None = None,
    started: float | None = None,
    *,
    overwrite: bool = False,
) -> None:
    """Print the plan, then read the table, fit, save the model and print the privacy cost.

    A time limit counts from ``started``, a time of :func:`time.monotonic` and by default now: imports, the plan and the
    reading of the table are parts of it. ``overwrite`` is that of :meth:`Synthesizer.save`.
    """
    started = time.monotonic() if started is None else started
    from tabsynth.synthesizers.session import LEAST_LIMIT
    from tabsynth.training.checkpoint import standing

    drafts = synthesizer.schema is None
    stands = [] if checkpoint is None else standing(checkpoint)
    if not drafts:
        # A resumed fit is checked by its checkpoint's plan.
        synthesizer.check(None if stands else ledger)
        say(as_typed(str(synthesizer.plan(checkpoint=checkpoint))))
    # Errors of a draft come alone: only a fit that had begun has said something before.
    for line in [*stands, *([] if ledger is None or drafts else [ledger_status(ledger)])]:
        say(line)
    frame = read()
    if synthesizer.time_limit is not None:
        seconds = synthesizer.time_limit - (time.monotonic() - started)
        synthesizer.set_params(time_limit=max(seconds, LEAST_LIMIT))
    # What they say is printed: with the plan, or after the fit.
    for printed in (DraftWarning, ConvergenceWarning, *([] if drafts else [PlanWarning])):
        warnings.simplefilter("ignore", printed)
    with one_interrupt():
        try:
            with progress_bar(True) as progress:
                synthesizer.fit(frame, progress=progress, checkpoint=checkpoint, ledger=ledger)
        except KeyboardInterrupt:
            _end_interrupted(synthesizer, out, checkpoint, overwrite)
    synthesizer.save(out, overwrite=overwrite)
    if drafts:
        _print_draft(synthesizer)
    certificate = synthesizer.certificate()
    if synthesizer.population_ is not None:
        say(f"Population: {population_text(synthesizer)}.")
    if stopped := synthesizer.model_.stopped_text():
        say(as_typed(stopped))
    say(certificate["statement"])
    if ledger is not None:
        say(ledger_status(ledger))


def population_text(synthesizer: "Synthesizer") -> str:
    """Return the noisy total of the survey weights with its interval, in words."""
    from tabsynth.privacy.noise.counts import stated_count

    total, ends = synthesizer.population_, synthesizer.population_interval_
    assert total is not None
    if ends is None:
        return f"about {total:,.0f}, by noisy counts; its interval is unknown"
    return stated_count(total, ends)


def _print_draft(synthesizer: "Synthesizer") -> None:
    """Print what the private draft released, and what it left out."""
    from tabsynth.drafting.summary import group_names, summarize
    from tabsynth.synthesizers.method import design_notes

    schema = synthesizer.schema_
    say("No schema was given: it was drafted privately, as a part of the budget.")
    for line in design_notes(schema.design):
        say(as_typed(f"  {line}"))
    domains = group_names((c.name, f"{c.kind}, {c.domain(4)}") for c in schema.columns)
    lines = [f"  {names}: {domain}" for domain, names in domains.items()]
    for line in lines[:MOST_DOMAINS] + ["  …"] * (len(lines) > MOST_DOMAINS):
        say(line)
    for line in summarize(schema, synthesizer.epsilon, synthesizer.delta, command=True):
        say(line)


def _end_interrupted(
    synthesizer: "Synthesizer", out: Path, checkpoint: Path | None, overwrite: bool
) -> None:
    """Save the model if there is one, and print its privacy cost."""
    from tabsynth.synthesizers.session import interrupted_cost

    cost = interrupted_cost(synthesizer)
    resume = (
        "" if checkpoint is None else f" Run the same command again to resume from {checkpoint}."
    )
    if not hasattr(synthesizer, "model_"):
        fail(f"Interrupted before there was a model. {cost}{resume}", INTERRUPTED)
    synthesizer.save(out, overwrite=overwrite)
    said = synthesizer.model_.convergence()
    reached = f" {said}" if said else ""
    fail(f"Interrupted; the model so far is in {out}. {cost}{reached}{resume}", INTERRUPTED)


# Parameters of some estimators that have an option of their own, as those of all methods have.
OPTIONS = {
    "public": "--public",
    "public_source": "--public-source",
    "tables": "--table",
    "time_budget": "--time-budget",
}


def check_method(method: str, registered: Collection[str] = METHODS) -> None:
    """Reject a method that is not among those of a command."""
    if method not in registered:
        names = ", ".join(registered)
        raise InputError(f"Expected --method to be one of {names}; got {method!r}.")


def arguments_of(
    method: str,
    options: Mapping[str, Any],
    settings: Mapping[str, Any],
    *,
    complete: bool = True,
) -> dict[str, Any]:
    """Return the options and the settings that were typed as arguments of a method.

    Unless ``complete``, as for a plan without a schema, what a fit must have may lack.

    Raises
    ------
    InputError
        For a method that is none, an option or a setting that it does not take, and a value that its configuration
        refuses.
    """
    check_method(method)
    from tabsynth import synthesizers

    estimator = synthesizers.METHODS[method]
    hints = get_type_hints(estimator)
    names = {*estimator.parameter_names()} - {*synthesizers.Synthesizer.parameter_names()}
    for name in options:
        if name not in names:
            takes = ", ".join(flag for option_name, flag in OPTIONS.items() if option_name in names)
            raise InputError(
                f"Method {method} takes no {OPTIONS[name]}; leave it out, or use another method. Its own options are"
                f" {takes}, and --set NAME=VALUE for its settings."
            )
    config = _dataclass(hints.get("config"))
    defaults = {} if config is None else vars(config())
    # What a group of settings is called too, a critic in Python, cannot be typed.
    parts = {name for name, value in defaults.items() if is_dataclass(value)}
    parameters = names - {"config", *OPTIONS} - parts
    arguments: dict[str, Any] = dict(options)
    configured: dict[str, Any] = {}
    for name, value in settings.items():
        if name in parameters:
            arguments[name] = _argument(name, hints[name], value)
        elif name in defaults:
            configured[name] = value
        else:
            groups = parts | {n for n in parameters if _dataclass(hints[n]) is not None}
            single = sorted((parameters | set(defaults)) - groups)
            dotted = ", ".join(f"{group}.NAME" for group in sorted(groups))
            also = f", and groups of settings: {dotted}" * bool(groups)
            raise InputError(
                f"Method {method} has no setting {name!r}; it has {', '.join(single)}{also}."
            )
    if configured:
        if arguments.get("preset", "default") != "default":
            raise InputError(
                f"preset={arguments['preset']} states {', '.join(configured)} itself; leave out preset or the settings."
            )
        arguments["config"] = _with_settings(config(), configured)
    if complete and "class_column" in parameters and "class_column" not in arguments:
        raise InputError(
            f"Method {method} needs --set class_column=COLUMN, the column whose values are the classes."
        )
    return arguments


def _with_settings(config: Any, settings: Mapping[str, Any], within: str = "") -> Any:
    """Return a configuration with other settings, which it checks; those of a group are a dict."""
    changes: dict[str, Any] = {}
    for name, value in settings.items():
        if name not in vars(config):
            raise InputError(
                f"There is no setting {within}{name}; {within.rstrip('.')} has {', '.join(vars(config))}."
            )
        present = getattr(config, name)
        if is_dataclass(present):
            changes[name] = _with_settings(
                present, _group(value, present, f"{within}{name}"), f"{within}{name}."
            )
        elif isinstance(value, dict):
            raise InputError(
                f"Setting {within}{name} is a single value, which has no setting {next(iter(value), '')!r}."
            )
        else:
            changes[name] = _tuple(value)
    return replace(config, **changes)


def _group(value: Any, config: Any, name: str) -> Mapping[str, Any]:
    """Return the settings of a group; refuse a value that is none."""
    if not isinstance(value, dict):
        raise InputError(
            f"Setting {name} is a group of settings, got {quote(value)}; set {name}.NAME=VALUE, with a NAME of"
            f" {', '.join(vars(config))}."
        )
    return value


def _tuple(value: Any) -> Any:
    """Return the lists of TOML as tuples."""
    return tuple(map(_tuple, value)) if isinstance(value, list) else value


def _argument(name: str, hint: Any, value: Any) -> Any:
    """Return a value of TOML as a parameter: tables as configurations, and the text none as None where that is one."""
    if value == "none" and type(None) in get_args(hint):
        return None
    config = _dataclass(hint)
    if config is None:
        return _tuple(value)
    return _with_settings(config(), _group(value, config(), name), f"{name}.")


def _dataclass(hint: Any) -> Any:
    """Return the dataclass of a type hint such as ``Config | None``; None where it has none."""
    return next((kind for kind in (hint, *get_args(hint)) if is_dataclass(kind)), None)
