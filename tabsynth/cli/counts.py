"""``tabsynth counts``: the tables that a fit counted with noise, with standard errors."""

from pathlib import Path

from tabsynth.cli.commands import app
from tabsynth.cli.console import argument, cli_command, option, say, say_table
from tabsynth.cli.options import Outputs, Writing, column_names

SHOWN = 50  # cells that are printed


@app.command()
@cli_command
def counts(
    *,
    model: Path = argument("A model file that tabsynth fit wrote, of margnet."),
    by: str | None = option(
        "The columns of one table, separated by commas, e.g. AGE,SEX; a name with a comma is in double quotes. Default: all measured tables."
    ),
    out: Path | None = option(
        "The table to write, of a format by its suffix: .csv, .tsv, .csv.gz, .parquet, … Default: the table of --by is printed, at"
        " most 50 of its cells; without --by, which tables were measured.",
        "-o",
        "--out",
    ),
    writing: Writing,
    outputs: Outputs,
) -> None:
    """Write the tables that margnet counted with noise: consistent estimates with standard errors and 95% intervals.

    It reads no private row and has no further privacy cost. A table that was not measured is the model's, without standard errors.
    """
    from tabsynth.privacy.certificate.certificate import beside
    from tabsynth.report.certificates import relations
    from tabsynth.synthesizers import load
    from tabsynth.tables.files import suffix, write_table

    written = writing.options
    if out is not None:
        suffix(out, writing=True)
        outputs.check(out, beside(out), inputs=(model,))
    synthesizer = load(model)
    table = synthesizer.counts(None if by is None else column_names(by))
    certificate = synthesizer.certificate()
    if out is not None:
        mark = synthesizer.schema_.with_decimal(writing.decimal).decimal
        write_table(table, out, overwrite=outputs.overwrite, **{**written, "decimal": mark})
        say(f"Table: {out} ({len(table):,} cells)")
        say(f"Certificate: {beside(out)}")
    elif by is not None:
        rows = table.head(SHOWN).astype(object).where(table.notna(), "").to_numpy()
        say_table(list(table), [[str(cell) for cell in row] for row in rows])
        if len(table) > SHOWN:
            say(f"{len(table) - SHOWN:,} more cells; -o writes all of them.")
    else:
        for term, text in relations(certificate, synthesizer.model_.encoder.schema.names):
            say(f"{term}: {text}.")
        tables = table["table"].nunique()
        say(f"{tables:,} tables of {len(table):,} cells in all; -o writes them, --by prints one.")
    say(certificate["statement"])
