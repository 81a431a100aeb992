"""``tabsynth sample``: draw synthetic tables, and write their certificates beside them."""

from dataclasses import MISSING
from pathlib import Path
from typing import Any

from tabsynth._validate import quote
from tabsynth.cli.commands import app
from tabsynth.cli.console import argument, cli_command, option, say
from tabsynth.cli.options import Draw, Outputs, Signing, Writing, refuse, typed_options
from tabsynth.errors import InputError
from tabsynth.methods import LINKED

OF_LINKED = (
    "n",
    "where",
    "weights",
    "seed",
    "formulas",
    "sep",
    "decimal",
    "sign",
    "expires",
    "out",
)


@app.command()
@cli_command
def sample(
    *,
    model: Path = argument("A model file that tabsynth fit wrote."),
    out: Path = option(
        "The table to write, of a format by its suffix: .csv, .tsv, .csv.gz, .parquet, … Of linked tables the"
        " folder to write, with a .csv file for each table.",
        "-o",
        "--out",
        default=MISSING,
    ),
    draw: Draw,
    writing: Writing,
    signing: Signing,
    outputs: Outputs,
) -> None:
    """Draw synthetic rows, and write their privacy certificate beside them.

    Sampling has no further privacy cost.
    """
    from tabsynth.cli.fit import population_text
    from tabsynth.privacy.certificate.certificate import beside, certify
    from tabsynth.privacy.certificate.completeness import check_complete
    from tabsynth.synthesizers import load

    written = writing.options
    key, last = signing.read()
    synthesizer = load(model)
    claim = synthesizer.certificate()
    if key is not None:
        check_complete(claim, f"The certificate of {model}")
    linked = synthesizer.method in LINKED
    if linked:
        refuse({**vars(draw), **vars(outputs)}, "Linked tables", OF_LINKED)
        options = _linked_options(synthesizer, draw)
    else:
        options = _table_options(synthesizer, draw, out) | {"overwrite": outputs.overwrite}
        tables = _tables_of(synthesizer, draw, out)
        outputs.check(*tables, *map(beside, tables), inputs=(model, signing.sign))
    options |= typed_options({"max_draws": draw.max_draws, "weights": draw.weights})
    synthesizer.sample_to(out, draw.n, random_state=draw.seed, **written, **options)
    rows = "" if linked else f" ({synthesizer.rows_ if draw.n is None else draw.n:,} rows)"
    for table in _tables_of(synthesizer, draw, out):
        if key is not None:
            certify(table, key=key, expires=last)
        say(f"Table: {table}{rows}")
        if not linked:
            say(f"Certificate: {beside(table)}")
    if linked:
        say(f"Certificates: beside each table in {out}")
    if draw.weights is not None:
        say(f"Population, the sum of the weights: {population_text(synthesizer)}.")
    if claim["conditional"]:
        say(claim["statement"])


def _tables_of(synthesizer: Any, draw: Draw, out: Path) -> list[Path]:
    """Return the files of the tables that a sample writes."""
    from tabsynth.synthesizers.sampling import numbered_paths

    if synthesizer.method in LINKED:
        return [out / f"{name}.csv" for name in synthesizer.schema_.names]
    return [out] if draw.implicates is None else numbered_paths(out, draw.implicates)


def _table_options(synthesizer: Any, draw: Draw, out: Path) -> dict[str, Any]:
    """Return the options of the sample of a single table as arguments of ``sample_to``."""
    from tabsynth.synthesizers.conditions import parse_where
    from tabsynth.tables.files import suffix

    suffix(out, writing=True)
    options = typed_options({"implicates": draw.implicates})
    if draw.where:
        options |= {"where": parse_where(synthesizer.model_.encoder.whole, draw.where)}
    return options


def _linked_options(synthesizer: Any, draw: Draw) -> dict[str, Any]:
    """Return the condition on the root of linked tables, ``ROOT.COLUMN=VALUE``, as arguments of ``sample_to``."""
    from tabsynth.synthesizers.conditions import parse_where

    if not draw.where:
        return {}
    root, texts = synthesizer.schema_.root, []
    for text in draw.where:
        table, _, condition = text.partition(".")
        if table != root:
            raise InputError(f"Expected --where {root}.COLUMN=VALUE, got {quote(text)}.")
        texts.append(condition)
    return {"where": {root: parse_where(synthesizer.schema_.tables[root], texts)}}
