"""``tabsynth schema``: draft, check, import and declare schemas."""

import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from tabsynth._validate import quote
from tabsynth.cli.console import argument, as_typed, cli_command, fail, option, say
from tabsynth.cli.ledger import ledger_status
from tabsynth.cli.options import Ledger, Outputs, Reading, Survey, null_texts
from tabsynth.errors import DraftWarning, InputError

TablePath = Annotated[
    Path,
    typer.Argument(help="The table: a text file, .parquet, .xlsx or another format by its suffix."),
]
SchemaPath = Annotated[Path, typer.Argument(help="The schema file.")]
Out = Annotated[Path, typer.Option("-o", "--out", help="The file to write.")]
Drop = Annotated[
    list[str] | None,
    typer.Option(help="A column to leave out; repeatable. Tables may have it, and it is not read."),
]
Kind = Annotated[
    list[str] | None,
    typer.Option(help="COLUMN=KIND, a column's kind, e.g. age=numeric; repeatable."),
]

app = typer.Typer(help="Draft, check, import and declare schema files.", no_args_is_help=True)


@dataclass(frozen=True, kw_only=True)
class DraftRequest:
    """The options that a draft of a schema needs."""

    table: TablePath
    out: Out
    epsilon: float | None = option(
        "ε of a private draft: its facts are released with noise, and its cost counts in every fit that takes the schema."
        " Default: a draft for review, without noise."
    )
    delta: float = option("δ of a private draft.", default=1e-5)
    rows: int | None = option("The number of rows, if it is public; goes with --epsilon.")
    ledger: Ledger = None
    min_count: int = option(
        "Without --epsilon: minimum number of rows with a value for it to become a category; rarer values become 'other'.",
        default=10,
    )
    null: list[str] | None = option(
        "A text that marks a missing value, beside common ones such as NA; repeatable."
    )


@dataclass(frozen=True, kw_only=True)
class LinkedDraft:
    """The options that a draft of a linked schema needs."""

    linked: bool = option(
        "TABLE is a folder with a file for each table: draft a linked schema. Keys follow from the names of columns, such as"
        " visit_id of visits.csv, in all tables that refer to it.",
        default=False,
    )
    key: list[str] | None = option("TABLE=COLUMN, a table's key, with --linked; repeatable.")
    parent: list[str] | None = option(
        "TABLE=PARENT, the table whose rows a table's rows belong to, with --linked; repeatable."
    )
    max_children: list[str] | None = option(
        "TABLE=N, the most rows of one parent that are used, a public number; with --linked; repeatable. Default: 20."
    )

    def declared(self) -> dict[str, Any]:
        """Return the parameters of :func:`tabsynth.drafting.linked.draft_linked`."""
        most = _pairs("--max-children", self.max_children)
        for name, number in most.items():
            if not number.isdecimal():
                raise InputError(f"Expected --max-children like {name}=20, got {quote(number)}.")
        return {
            "keys": _pairs("--key", self.key),
            "parents": _pairs("--parent", self.parent),
            "max_children": {name: int(number) for name, number in most.items()},
        }


@app.command()
@cli_command
def draft(
    request: DraftRequest, linked: LinkedDraft, survey: Survey, reading: Reading, outputs: Outputs
) -> None:
    """Draft a schema from a table, and list what you must review in it.

    Columns that identify people or records are left out. With --epsilon the draft is differentially private. Without,
    it contains real values of the table, so it is not public until you replace them. With --linked, draft the schema of a
    folder of linked tables.
    """
    from tabsynth.design import Design
    from tabsynth.drafting.drafts import draft_schema, review
    from tabsynth.drafting.private_schema import check_design, draft_private
    from tabsynth.drafting.summary import summarize
    from tabsynth.tables.files import read_any
    from tabsynth.tables.labelled import with_labels

    outputs.check(request.out, inputs=(request.table, request.ledger))
    if request.ledger is not None and request.epsilon is None:
        raise InputError("--ledger goes with --epsilon: only a private draft can be charged.")
    nulls, design = null_texts(request.null), Design(**survey.parameters)
    if linked.linked:
        _draft_linked(request, linked, design, reading, outputs)
        return
    if any(linked.declared().values()):
        raise InputError("--key, --parent and --max-children go with --linked.")
    frame = read_any(request.table, nulls, ask=True, **reading.as_texts)
    check_design(frame, design, reading.decimal)
    options: dict[str, Any] = {"null_values": nulls, "decimal": reading.decimal}
    if request.epsilon is None:
        drafted = draft_schema(
            frame.drop(columns=[*design.names]), min_count=request.min_count, **options
        ).replace(**design.parameters())
    else:
        options |= {"ledger": request.ledger, "design": design, "rows": request.rows}
        warnings.simplefilter("ignore", DraftWarning)  # its summary is printed
        drafted = draft_private(frame, request.epsilon, request.delta, **options)
    drafted = with_labels(drafted, request.table)
    drafted.save(request.out, overwrite=outputs.overwrite)
    omitted = f", {len(drafted.left_out)} left out" if drafted.left_out else ""
    head = f"Drafted {request.out}: {len(drafted.columns)} columns{omitted}"
    if request.epsilon is None:
        say(f"{head}. It contains values that were copied from")
        say(
            "the table, so it is not public. Replace each by a public fact and set provenance to declared:"
        )
        for line in review(drafted):
            say(as_typed(f"  - {line}"))
        return
    unit = drafted.design.neighbour
    say(f"{head}, with ({request.epsilon:g}, {request.delta:g})-differential")
    say(f"privacy for adding or removing {unit}. Its cost counts in every fit that takes it.")
    for line in summarize(drafted, request.epsilon, request.delta, command=True):
        say(line)
    if request.ledger is not None:
        say(ledger_status(request.ledger))


def _draft_linked(
    request: DraftRequest, linked: LinkedDraft, design: Any, reading: Reading, outputs: Outputs
) -> None:
    """Draft a linked schema from a folder, and list its tables and what is to be reviewed."""
    from tabsynth.drafting.drafts import review
    from tabsynth.drafting.linked import draft_linked
    from tabsynth.tables.files import read_folder

    if design or request.rows is not None or reading.decimal is not None:
        raise InputError(
            "--linked takes no --decimal, --rows, weight or unit; the unit is a row of the root with its records."
        )
    nulls = null_texts(request.null)
    frames = read_folder(request.table, nulls, **reading.as_texts)
    warnings.simplefilter("ignore", DraftWarning)  # what it left out is in the file
    drafted = draft_linked(
        frames,
        request.epsilon,
        request.delta,
        min_count=request.min_count,
        null_values=nulls,
        ledger=request.ledger,
        **linked.declared(),
    )
    drafted.save(request.out, overwrite=outputs.overwrite)
    say(f"Drafted {request.out}: {len(drafted.names)} tables.")
    for name, keys in drafted.keys.items():
        schema = drafted.tables[name]
        omitted = f", {len(schema.left_out)} left out" if schema.left_out else ""
        above = "the root"
        if keys.parent is not None:
            above = f"at most {keys.max_children} rows of one row of {keys.parent}, by {keys.parent_key}"
        columns = f"{len(schema.columns)} column{'s' * (len(schema.columns) > 1)}"
        say(f"  - {name}: {above}; {columns}{omitted}")
    say(
        "Bounds of rows are public numbers: set max_children from what is known without the tables."
    )
    if request.epsilon is None:
        say(
            "The file contains values that were copied from the tables, so it is not public. Replace each by a public"
        )
        say("fact and set provenance to declared:")
        for name, schema in drafted.tables.items():
            for line in review(schema):
                say(as_typed(f"  - {name}: {line}"))
        return
    say(
        f"The draft has ({request.epsilon:g}, {request.delta:g})-differential privacy for adding or removing a row of"
    )
    say(
        f"{drafted.root} with its records in the other tables. Its cost counts in every fit that takes it."
    )
    if request.ledger is not None:
        say(ledger_status(request.ledger))


@app.command()
@cli_command
def check(table: TablePath, schema: SchemaPath, reading: Reading) -> None:
    """List everything in a table that a schema does not take. Exit code 2 if there is anything."""
    from tabsynth.schema.schema import Schema
    from tabsynth.tables.files import read_any

    facts = Schema.load(schema).with_decimal(reading.options.get("decimal"))
    frame = read_any(table, facts.null_values, **reading.as_texts)
    problems = facts.validate(frame, parse=True)
    for problem in problems:
        say(problem.message)
    if problems:
        number = "1 problem" if len(problems) == 1 else f"{len(problems)} problems"
        fail(f"{table} does not fit {schema}: {number}, listed above.")
    say(f"{table} fits {schema}.")


@app.command(name="import")
@cli_command
def import_command(
    *,
    source: Path = argument(
        "A codebook or metadata of another program: DDI, SPSS, Stata or a codebook"
        " in CSV. Its content tells which."
    ),
    out: Out,
    drop: Drop = None,
    kind: Kind = None,
    dtype: list[str] | None = option(
        "COLUMN=DTYPE, a column's pandas dtype, e.g. age=Int64; repeatable."
    ),
    bounds: list[str] | None = option(
        "COLUMN=LOW..HIGH, a column's bounds, both included; repeatable."
    ),
    values: list[str] | None = option("COLUMN=VALUE,VALUE, a column's categories; repeatable."),
    outputs: Outputs,
) -> None:
    """Make a schema from a codebook or metadata of another program; options complete what it lacks."""
    from tabsynth.drafting.summary import group_reasons
    from tabsynth.schema.importers import import_schema

    outputs.check(out, inputs=(source,))
    imported = import_schema(source, _edit(drop, kind, dtype, bounds, values))
    imported.save(out, overwrite=outputs.overwrite)
    say(f"Imported {source} to {out}: {len(imported.columns)} columns.")
    for line in group_reasons(imported.left_out):
        say(f"  - {line}.")
    if imported.drafted:
        names = ", ".join(map(quote, imported.drafted))
        say(
            f"The file does not say that the values of {names} are public; compare them with a public document and"
            " set provenance to declared."
        )


@app.command()
@cli_command
def declare(
    *,
    schema: SchemaPath,
    out: Path | None = option("The file to write. Default: the schema file itself.", "-o", "--out"),
    all_columns: bool = option(
        "Declare that the facts of all columns are public, as --source has them. No rule checks this. A fact that"
        " stands as a draft read it off a table stays marked in the schema, the certificate and its statement: declared,"
        " unchanged from a draft of the rows.",
        "--all",
        default=False,
    ),
    column: list[str] | None = option(
        "A column whose facts you declare to be public, as with --all; repeatable."
    ),
    source: str | None = option(
        "The public document that declared facts are from, e.g. 'codebook 2019'."
    ),
    drop: Drop = None,
    kind: Kind = None,
    outputs: Outputs,
) -> None:
    """Declare columns of a schema file, drop columns, and change their kinds.

    Other facts are changed in the file itself, which is JSON with one column in each line.
    """
    from tabsynth.privacy.certificate.certificate import unchanged_facts, unchanged_of
    from tabsynth.schema.editing import Edit, differences, edit
    from tabsynth.schema.schema import Schema

    target, in_place = schema if out is None else out, out is None
    if not in_place:
        outputs.check(target, inputs=(schema,))
    facts = Schema.load(schema)
    change = Edit(
        drop=drop or (),
        facts={name: {"kind": value} for name, value in _pairs("--kind", kind).items()},
        declare=facts.names if all_columns else column or (),
        source=source,
    )
    changed = edit(facts, change)
    lines = differences(facts, changed)
    changed.save(target, overwrite=in_place or outputs.overwrite)
    say(f"Wrote {target}: {len(lines)} change(s).")
    for line in lines:
        say(f"  - {line}")
    if sentence := unchanged_of(unchanged_facts(changed.unchanged_facts)):
        say(f"{sentence} Certificates will say so.")


def _edit(drop: Any, kind: Any, dtype: Any, bounds: Any, values: Any) -> Any:
    from tabsynth.schema.editing import Edit, parse_bounds, parse_values

    facts: dict[str, dict[str, Any]] = {}
    for flag, texts, parse in (
        ("--kind", kind, lambda text: {"kind": text}),
        ("--dtype", dtype, lambda text: {"dtype": text}),
        (
            "--bounds",
            bounds,
            lambda text: dict(zip(("low", "high"), parse_bounds(text), strict=True)),
        ),
        ("--values", values, lambda text: {"categories": parse_values(text)}),
    ):
        for name, text in _pairs(flag, texts).items():
            facts.setdefault(name, {}).update(parse(text))
    return Edit(drop=tuple(drop or ()), facts=facts)


def _pairs(option: str, texts: list[str] | None) -> dict[str, str]:
    """Return the text of each column from ``COLUMN=TEXT``, split at the first sign."""
    out: dict[str, str] = {}
    for text in texts or ():
        name, sign, value = text.partition("=")
        if not sign or not name or not value:
            raise InputError(f"Expected {option} like COLUMN=VALUE, got {quote(text)}.")
        if name in out:
            raise InputError(f"{option} names column {quote(name)} twice; give it once.")
        out[name] = value
    return out
