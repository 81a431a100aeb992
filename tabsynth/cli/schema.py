"""``tabsynth schema``: draft, check, import and export schema files, edit them, and show their differences."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from tabsynth._files import check_writable, write_text
from tabsynth._validate import one_of, shown
from tabsynth.cli.console import fail, guarded, say
from tabsynth.cli.ledger import ledger_status
from tabsynth.cli.options import (
    Decimal,
    Encoding,
    MaxRowsPerUnit,
    MaxWeight,
    Null,
    Sep,
    Sheet,
    Unit,
    Weight,
    null_texts,
    reading,
    without_decimal,
)
from tabsynth.cli.paths import check_not_input
from tabsynth.drafting.drafts import MIN_COUNT
from tabsynth.errors import InputError
from tabsynth.schema.design import Design
from tabsynth.schema.schema import Schema
from tabsynth.tables.files import read_any, read_table, suffix

DEFAULT = "table"
DIFFERENT_CODE = 1

Drop = Annotated[
    list[str] | None,
    typer.Option(help="A column to leave out; repeatable. Tables may have it, and it is not read."),
]
Kind = Annotated[
    list[str] | None,
    typer.Option(help="COLUMN=KIND, a column's kind, e.g. age=numeric; repeatable."),
]
Dtype = Annotated[
    list[str] | None,
    typer.Option(help="COLUMN=DTYPE, a column's pandas dtype, e.g. age=Int64; repeatable."),
]
Bounds = Annotated[
    list[str] | None,
    typer.Option(help="COLUMN=LOW..HIGH, a column's bounds, both included; repeatable."),
]
Values = Annotated[
    list[str] | None,
    typer.Option(help="COLUMN=VALUE,VALUE, a column's categories; repeatable."),
]


class _SchemaGroup(TyperGroup):
    """``tabsynth schema TABLE …`` without the name of a command is the command ``table``."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if not args or args[0] not in self.commands:
            args = [DEFAULT, *args]
        return super().parse_args(ctx, args)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The name of the default command is not shown in usage lines."""
        name, command, rest = super().resolve_command(ctx, args)
        return ("" if name == DEFAULT else name), command, rest


app = typer.Typer(cls=_SchemaGroup, help="Draft, check, import and export schema files.")


@app.command(name=DEFAULT, hidden=True)
@guarded
def schema(
    file: Annotated[
        Path | None,
        typer.Argument(
            help="The table: a text file, .parquet, .xlsx or another format by its suffix; with --to, a schema file."
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("-o", "--out", help="The file to write (JSON).")
    ] = None,
    null: Null = None,
    sep: Sep = None,
    encoding: Encoding = None,
    decimal: Decimal = None,
    sheet: Sheet = None,
    min_count: Annotated[
        int,
        typer.Option(
            help="Minimum number of rows with a value for it to become a category; rarer values become 'other'."
        ),
    ] = MIN_COUNT,
    epsilon: Annotated[
        float | None,
        typer.Option(
            help="ε of a private draft: its facts are released with noise, and its cost counts in every fit that takes"
            " the schema."
        ),
    ] = None,
    delta: Annotated[float, typer.Option(help="δ of a private draft.")] = 1e-5,
    ledger: Annotated[
        Path | None,
        typer.Option(
            help="With --epsilon: a project's ledger, which tabsynth ledger create made. The draft or the suggestions are"
            " charged to it, and fits with the schema need it."
        ),
    ] = None,
    check: Annotated[
        Path | None,
        typer.Option(
            help="A schema file: list everything in the table that it does not take. Exit code 2 if there is"
            " anything."
        ),
    ] = None,
    given: Annotated[
        Path | None,
        typer.Option("--schema", help="The schema of the table, for --suggest-constraints."),
    ] = None,
    suggest: Annotated[
        bool,
        typer.Option(
            "--suggest-constraints",
            help="Add rules between columns that noisy counts of the table suggest to the schema of --schema. Needs"
            " --epsilon; its cost counts in every fit that takes the schema.",
        ),
    ] = False,
    source_file: Annotated[
        Path | None,
        typer.Option(
            "--from",
            help="A codebook or metadata of another program to make the schema from: SDV, frictionless, NIST, CSVW,"
            " DDI, SPSS, Stata or a codebook in CSV. Its content tells which.",
        ),
    ] = None,
    to: Annotated[
        str | None,
        typer.Option(help="Convert the schema file to this format: sdv, sdv-v2 or frictionless."),
    ] = None,
    drop: Drop = None,
    kind: Kind = None,
    dtype: Dtype = None,
    bounds: Bounds = None,
    values: Values = None,
    unit: Unit = None,
    max_rows_per_unit: MaxRowsPerUnit = None,
    weight: Weight = None,
    max_weight: MaxWeight = None,
    json_schema: Annotated[
        bool,
        typer.Option("--json-schema", help="Print the JSON Schema of schema files, for editors."),
    ] = False,
) -> None:
    """Draft a schema from a table, and list what you must review in it.

    Columns that identify people or records are left out. With --epsilon the draft is differentially private. Without,
    it contains real values of the table, so it is not public until you replace them.

    The options --drop, --kind, --dtype, --bounds and --values go with --from: they complete what a codebook lacks.
    tabsynth schema edit declares columns of a schema file, and tabsynth schema diff compares two files; see their --help.
    """
    actions = {"--check": check, "--from": source_file, "--to": to}
    chosen = [name for name, value in actions.items() if value is not None]
    if len(chosen) > 1:
        raise InputError(f"Give {' or '.join(chosen)}, not both.")
    if source_file is None and any((drop, kind, dtype, bounds, values)):
        raise InputError(
            "--drop, --kind, --dtype, --bounds and --values go with --from; tabsynth schema edit drops columns of a"
            " schema file and changes their kinds."
        )
    design = {"weight": weight, "max_weight": max_weight}
    design |= {"unit": unit, "max_rows_per_unit": max_rows_per_unit}
    if any(value is not None for value in design.values()) and (chosen or suggest or given):
        raise InputError(
            "--unit, --max-rows-per-unit, --weight and --max-weight go with the draft of a table; in a schema file,"
            " they are the keys unit and weight."
        )
    if json_schema:
        from tabsynth.schema.schema_file import json_schema as form

        return say(json.dumps(form(), indent=2, ensure_ascii=False))
    if source_file is not None:
        if file is not None:
            raise InputError(f"--from takes no table; leave {file} out.")
        return _import(source_file, _given(out), drop, kind, dtype, bounds, values)
    if to is not None:
        return _export(file, to, _given(out))
    if file is None:
        raise InputError("Name a table to draft a schema from; see tabsynth schema --help.")
    if check is not None:
        return _check(file, check, reading(sep, encoding, decimal, sheet))
    target, nulls, options = _given(out), null_texts(null), reading(sep, encoding, decimal, sheet)
    check_not_input(target, file, ledger)
    check_writable(target)
    if suggest or given is not None:
        if given is None or epsilon is None or not suggest:
            raise InputError(
                "--suggest-constraints needs --schema and --epsilon, and these go with it."
            )
        return _suggest(file, given, target, (epsilon, delta), ledger, options)
    if ledger is not None and epsilon is None:
        raise InputError("--ledger goes with --epsilon: only a private draft can be charged.")
    declared = Design(**design)  # type: ignore[arg-type]
    frame = read_any(file, nulls, ask=True, **without_decimal(options))
    for what, name in (("weights", declared.weight), ("units", declared.unit)):
        if name is not None and name not in frame.columns:
            raise InputError(f"{file} has no column {shown(name)}; name its column of {what}.")
    draft: dict[str, Any] = {"null_values": nulls, "decimal": decimal}
    if epsilon is not None:
        options_of_draft = {**draft, "ledger": ledger, **declared.parameters()}
        return _draft_private(file, frame, target, epsilon, delta, options_of_draft)
    frame = frame.drop(columns=list(declared.names))
    _draft(file, frame, target, {**draft, "min_count": min_count}, declared)


def _given(out: Path | None) -> Path:
    if out is None:
        raise InputError("Name the file to write with -o.")
    return out


def _draft(table: Path, frame: Any, out: Path, options: dict[str, Any], design: Design) -> None:
    from tabsynth.drafting.drafts import draft_schema, review

    drafted = _labelled(draft_schema(frame, **options), table).replace(**design.parameters())
    drafted.save(out)
    left = f", {len(drafted.left_out)} left out" if drafted.left_out else ""
    say(
        f"Drafted {out}: {len(drafted.columns)} columns{left}. It contains values that were copied from"
    )
    say(
        "the table, so it is not public. Replace each by a public fact and set provenance to declared:"
    )
    for line in review(drafted):
        say(f"  - {line}")


def _labelled(drafted: Schema, table: Path) -> Schema:
    """With the labels that an SPSS or Stata file has for its values: they are facts of the file, as names are."""
    from tabsynth.tables.labelled import SUFFIXES, with_labels

    return with_labels(drafted, table) if suffix(table) in SUFFIXES else drafted


def _draft_private(
    table: Path,
    frame: Any,
    out: Path,
    epsilon: float,
    delta: float,
    options: dict[str, Any],
) -> None:
    from tabsynth.drafting.private_schema import draft_private

    released = _labelled(draft_private(frame, epsilon, delta, **options), table)
    released.save(out)
    left = f", {len(released.left_out)} left out" if released.left_out else ""
    say(
        f"Drafted {out}: {len(released.columns)} columns{left}, with ({epsilon:g}, {delta:g})-differential"
    )
    whom = released.design.neighbour
    say(f"privacy for adding or removing {whom}. Its cost counts in every fit that takes it.")
    for item in released.left_out:
        say(f"  - {shown(item['name'])}: left out, {item['reason']}.")
    if options["ledger"] is not None:
        say(ledger_status(options["ledger"]))


def _suggest(
    table: Path,
    path: Path,
    out: Path,
    budget: tuple[float, float],
    ledger: Path | None,
    options: dict[str, Any],
) -> None:
    from tabsynth.drafting.suggestions import suggest_constraints
    from tabsynth.privacy.noise.counts import stated_share

    facts = Schema.load(path)
    released = facts.released is not None
    if released:
        rows = read_any(table, facts.null_values, **without_decimal(options))
    else:
        rows = read_table(table, facts, **options)
    suggested = suggest_constraints(rows, facts, *budget, ledger=ledger)
    suggested.save(out)
    new = len(suggested.suggested) - len(facts.suggested)
    epsilon, delta = budget
    say(
        f"Wrote {out}: {new} rule(s) suggested, with ({epsilon:g}, {delta:g})-differential privacy for adding or"
    )
    say(
        f"removing {facts.design.neighbour}. Their cost counts in every fit that takes the schema. They do not hold in samples"
    )
    say(
        "until you accept them: compare each with a codebook, then tabsynth schema edit --accept-suggested NUMBER."
    )
    listed = zip(suggested.suggested, suggested.suggested_rules, strict=True)
    for number, (item, rule) in enumerate(listed, 1):
        ends = item.get("interval")  # files of release 0.2 have none
        share = (
            f"about {item['share']:.2%}" if ends is None else stated_share(item["share"], ends, 2)
        )
        say(f"  {number}. {shown(rule.text, 120)}: broken by {share} of the rows.")
    if ledger is not None:
        say(ledger_status(ledger))


def _check(table: Path, path: Path, options: dict[str, str]) -> None:
    facts = Schema.load(path)
    facts = facts.replace(decimal=options.get("decimal") or facts.decimal)
    frame = read_any(table, facts.null_values, **without_decimal(options))
    problems = facts.validate(frame, parse=True)
    for problem in problems:
        say(problem.message)
    if problems:
        number = "1 problem" if len(problems) == 1 else f"{len(problems)} problems"
        fail(f"{table} does not fit {path}: {number}, listed above.")
    say(f"{table} fits {path}.")


def _import(
    source: Path, out: Path, drop: Any, kind: Any, dtype: Any, bounds: Any, values: Any
) -> None:
    from tabsynth.schema.importers import import_schema

    check_not_input(out, source)
    check_writable(out)
    imported = import_schema(source, _edit(drop, kind, dtype, bounds, values))
    imported.save(out)
    say(f"Imported {source} to {out}: {len(imported.columns)} columns.")
    for item in imported.left_out:
        say(f"  - {shown(item['name'])}: left out, {item['reason']}.")
    if imported.drafted:
        names = ", ".join(map(shown, imported.drafted))
        say(
            f"The file does not say that the values of {names} are public; compare them with a public document and"
            " set provenance to declared."
        )


def _export(path: Path | None, to: str, out: Path) -> None:
    from tabsynth.schema.exporters import EXPORTS

    if path is None:
        raise InputError("--to needs a schema file to convert; name it first.")
    one_of("--to", to, EXPORTS)
    check_not_input(out, path)
    facts = Schema.load(path)
    text = json.dumps(EXPORTS[to](facts), indent=2, ensure_ascii=False) + "\n"
    write_text(out, text, confidential=facts.confidential)
    say(f"Exported {path} to {out}.")
    if to == "sdv":
        say("SDV metadata V1 has no categories, bounds and null texts; keep the schema file.")


@app.command()
@guarded
def edit(
    file: Annotated[Path, typer.Argument(help="The schema file.")],
    out: Annotated[
        Path | None,
        typer.Option("-o", "--out", help="The file to write. Default: the schema file itself."),
    ] = None,
    declare_all: Annotated[
        bool,
        typer.Option(
            "--declare-all",
            help="Declare that the facts of all columns are public, as --source has them. No rule checks this. A fact that"
            " stands as a draft read it off a table stays marked in the schema, the certificate and its statement: declared,"
            " unchanged from a draft of the rows.",
        ),
    ] = False,
    declare: Annotated[
        list[str] | None,
        typer.Option(
            help="A column whose facts you declare to be public, as with --declare-all; repeatable."
        ),
    ] = None,
    source: Annotated[
        str | None,
        typer.Option(
            help="The public document that declared facts are from, e.g. 'codebook 2019'."
        ),
    ] = None,
    accept_suggested: Annotated[
        list[str] | None,
        typer.Option(
            help="The number of a suggested rule, from 1, or all: it becomes a constraint; repeatable."
        ),
    ] = None,
    drop: Drop = None,
    kind: Kind = None,
) -> None:
    """Declare columns of a schema file, drop columns, and change their kinds.

    Other facts are changed in the file itself, which is JSON with one column in each line.
    """
    from tabsynth.privacy.certificate.certificate import unchanged_facts, unchanged_of
    from tabsynth.schema.editing import Edit, differences
    from tabsynth.schema.editing import edit as edited

    facts = Schema.load(file)
    change = Edit(
        drop=drop or (),
        facts={name: {"kind": value} for name, value in _pairs("--kind", kind).items()},
        declare=facts.names if declare_all else declare or (),
        source=source,
        accept_suggested=_numbers(accept_suggested or (), len(facts.suggested)),
    )
    changed = edited(facts, change)
    target = file if out is None else out
    lines = differences(facts, changed)
    changed.save(target)
    say(f"Wrote {target}: {len(lines)} change(s).")
    for line in lines:
        say(f"  - {line}")
    if sentence := unchanged_of(unchanged_facts(changed.unchanged_facts)):
        say(f"{sentence} Certificates will say so.")


def _numbers(texts: Sequence[str], count: int) -> list[int]:
    """Return numbers of suggested rules; ``all`` stands for each of ``count``."""
    numbers: list[int] = []
    for text in texts:
        if text != "all" and not text.isdecimal():
            raise InputError(
                f"Expected --accept-suggested to be the number of a rule or all, got {shown(text)}."
            )
        numbers += range(1, count + 1) if text == "all" else [int(text)]
    return numbers


@app.command()
@guarded
def diff(
    first: Annotated[Path, typer.Argument(help="A schema file.")],
    second: Annotated[Path, typer.Argument(help="Another schema file.")],
) -> None:
    """Show what differs between two schema files. Exit code 0: nothing; 1: something."""
    from tabsynth.schema.editing import differences

    lines = differences(Schema.load(first), Schema.load(second))
    for line in lines:
        say(line)
    if lines:
        raise typer.Exit(DIFFERENT_CODE)
    say(f"{first} and {second} state the same.")


def _edit(drop: Any, kind: Any, dtype: Any, bounds: Any, values: Any) -> Any:
    from tabsynth.schema.editing import Edit, parse_bounds, parse_values

    facts: dict[str, dict[str, Any]] = {}
    for option, texts, parse in (
        ("--kind", kind, lambda text: {"kind": text}),
        ("--dtype", dtype, lambda text: {"dtype": text}),
        (
            "--bounds",
            bounds,
            lambda text: dict(zip(("low", "high"), parse_bounds(text), strict=True)),
        ),
        ("--values", values, lambda text: {"categories": parse_values(text)}),
    ):
        for name, text in _pairs(option, texts).items():
            facts.setdefault(name, {}).update(parse(text))
    return Edit(drop=tuple(drop or ()), facts=facts)


def _pairs(option: str, texts: list[str] | None) -> dict[str, str]:
    """``COLUMN=TEXT`` of each, split at the first sign."""
    out: dict[str, str] = {}
    for text in texts or ():
        name, sign, value = text.partition("=")
        if not sign or not name or not value:
            raise InputError(f"Expected {option} like COLUMN=VALUE, got {shown(text)}.")
        if name in out:
            raise InputError(f"{option} names column {shown(name)} twice; give it once.")
        out[name] = value
    return out
