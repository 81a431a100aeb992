"""Fits and samples of linked tables, which are folders with a file for each table."""

from collections.abc import Mapping
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tabsynth._files import check_writable
from tabsynth._validate import quote
from tabsynth.cli.console import say
from tabsynth.cli.options import Draw, Reading, refuse
from tabsynth.cli.paths import check_not_input
from tabsynth.errors import InputError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    from tabsynth.schema.linked import LinkedSchema

OF_FIT = [
    "epsilon",
    "delta",
    "rows",
    "time_limit",
    "seed",
    "device",
    "checkpoint",
    "ledger",
    "accept_drafted_domain",
    "linked",
    "out",
    "sep",
    "encoding",
    "decimal",
    "sheet",
]
OF_SAMPLE = [
    "n",
    "where",
    "max_draws",
    "weights",
    "seed",
    "formulas",
    "sep",
    "decimal",
    "sign",
    "expires",
    "out",
]


def fit_linked(
    files: tuple[Path | None, Path, Path],
    parameters: dict[str, Any],
    refused: Mapping[str, Any],
    reading: Reading,
    checkpoint: Path | None,
    ledger: Path | None,
    started: float,
) -> None:
    """Fit the tables of a folder, save the model and print the privacy cost.

    ``files`` are the folder, the linked schema and the model; ``refused`` are the options that linked tables do not take.
    """
    from tabsynth.cli.fit import fit_and_print
    from tabsynth.schema.linked import LinkedSchema
    from tabsynth.synthesizers.linked.estimator import LinkedMargNet
    from tabsynth.tables.files import read_linked

    folder, schema, out = files
    if folder is None:
        raise InputError("--linked takes a folder of tables, not --duckdb or --spark.")
    refuse(refused, "Linked tables", OF_FIT)
    check_not_input(out, schema, ledger)
    facts = LinkedSchema.load(schema)
    model = LinkedMargNet(facts, **parameters)
    check_writable(out)
    tables, options = folder, reading.options
    fit_and_print(
        model, lambda: read_linked(tables, facts, **options), out, checkpoint, ledger, started
    )
    for note in model.notes():
        say(note)
    say(f"Model: {out}")


def is_linked(synthesizer: Any) -> bool:
    """Return whether a model is of linked tables."""
    from tabsynth.methods import LINKED

    return synthesizer.method in LINKED


def parse_where_of_tables(schema: "LinkedSchema", texts: list[str]) -> dict[str, Any]:
    """Return conditions by table from texts ``TABLE.COLUMN=VALUE``."""
    from tabsynth.synthesizers.conditions import parse_where

    by_table: dict[str, list[str]] = {}
    for text in texts:
        table, dot, condition = text.partition(".")
        if not dot or table not in schema.names:
            raise InputError(
                f"Expected --where TABLE.COLUMN=VALUE with a table of {', '.join(schema.names)}, got {quote(text)}."
            )
        by_table.setdefault(table, []).append(condition)
    return {table: parse_where(schema.tables[table], texts) for table, texts in by_table.items()}


def sample_linked(
    synthesizer: Any,
    out: Path,
    draw: Draw,
    written: Mapping[str, str],
    key: "Ed25519PrivateKey | None",
    expires: date | None,
) -> None:
    """Write a folder of synthetic tables, each with its certificate."""
    from tabsynth.cli.fit import population_text
    from tabsynth.privacy.certificate.certificate import certify

    refuse(vars(draw), "Linked tables", OF_SAMPLE)
    where = parse_where_of_tables(synthesizer.schema_, draw.where) if draw.where else None
    options = {"where": where, "max_draws": draw.max_draws, "weights": draw.weights}
    synthesizer.sample_to(out, draw.n, random_state=draw.seed, **options, **written)
    for name in synthesizer.schema_.names:
        if key is not None:
            certify(out / f"{name}.csv", key=key, expires=expires)
        say(f"Table: {out / name}.csv")
    say(f"Certificates: beside each table in {out}")
    if draw.weights is not None:
        say(f"Population, the sum of the weights: {population_text(synthesizer)}.")
    claim = synthesizer.certificate()
    if claim["conditional"]:
        say(claim["statement"])
