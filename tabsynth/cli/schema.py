"""``tabsynth schema``: draft, check, import and export schema files, edit them, and show their differences."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from tabsynth._files import check_writable
from tabsynth.cli.console import fail, guarded, say
from tabsynth.cli.paths import check_not_input
from tabsynth.errors import InputError
from tabsynth.schema.drafting import MIN_COUNT
from tabsynth.schema.schema import DEFAULT_NULL_VALUES, Schema
from tabsynth.tables.files import read_any

DEFAULT = "table"


class _SchemaGroup(TyperGroup):
    """``tabsynth schema TABLE …`` without the name of a command is the command ``table``."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if not args or args[0] not in self.commands:
            args = [DEFAULT, *args]
        return super().parse_args(ctx, args)


app = typer.Typer(cls=_SchemaGroup, help="Draft, check, import and export schema files.")


@app.command(name=DEFAULT, hidden=True)
@guarded
def schema(
    file: Annotated[
        Path | None,
        typer.Argument(help="The table, a .csv or .parquet file; with --to, a schema file."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("-o", "--out", help="The file to write (JSON).")
    ] = None,
    null: Annotated[
        list[str] | None,
        typer.Option(
            help="A text that marks a missing value; repeatable. Default: common ones, e.g. NA."
        ),
    ] = None,
    min_count: Annotated[
        int,
        typer.Option(
            help="Minimum number of rows with a value for it to become a category; rarer values become 'other'."
        ),
    ] = MIN_COUNT,
    check: Annotated[
        Path | None,
        typer.Option(
            help="A schema file: list everything in the table that it does not take. Exit code 2 if there is"
            " anything."
        ),
    ] = None,
    json_schema: Annotated[
        bool,
        typer.Option("--json-schema", help="Print the JSON Schema of schema files, for editors."),
    ] = False,
) -> None:
    """Draft a schema from a table, and list what you must review in it.

    Columns that identify people or records are left out. The draft contains real values of the table, so it is not
    public until you replace them.

    tabsynth schema edit changes a schema file, and tabsynth schema diff compares two; see their --help.
    """
    if json_schema:
        from tabsynth.schema.schema_file import json_schema as form

        return say(json.dumps(form(), indent=2, ensure_ascii=False))
    if file is None:
        raise InputError("Name a table to draft a schema from; see tabsynth schema --help.")
    if check is not None:
        return _check(file, check)
    _draft(file, _given(out), tuple(null) if null else DEFAULT_NULL_VALUES, min_count)


def _given(out: Path | None) -> Path:
    if out is None:
        raise InputError("Name the file to write with -o.")
    return out


def _draft(table: Path, out: Path, nulls: tuple[str, ...], min_count: int) -> None:
    from tabsynth.schema.drafting import draft_schema, review

    check_not_input(out, table)
    check_writable(out)
    frame = read_any(table, nulls)
    drafted = draft_schema(frame, nulls, min_count)
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


def _check(table: Path, path: Path) -> None:
    facts = Schema.load(path)
    problems = facts.validate(read_any(table, facts.null_values), parse=True)
    for problem in problems:
        say(problem.message)
    if problems:
        number = "1 problem" if len(problems) == 1 else f"{len(problems)} problems"
        fail(f"{table} does not fit {path}: {number}, listed above.")
    say(f"{table} fits {path}.")
