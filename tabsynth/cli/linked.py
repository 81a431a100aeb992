"""Fits and samples of linked tables, which are folders with a file for each table."""

from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tabsynth._files import check_writable
from tabsynth._validate import shown
from tabsynth.cli.console import say
from tabsynth.cli.fit import fit_and_print, population_text
from tabsynth.cli.options import FLAGS
from tabsynth.errors import InputError
from tabsynth.schema.linked import LinkedSchema
from tabsynth.tables.files import read_linked

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey


def fit_linked(
    folder: Path,
    schema: Path,
    out: Path,
    parameters: dict[str, Any],
    reading: dict[str, Any],
    checkpoint: Path | None,
    ledger: Path | None,
    started: float,
) -> None:
    """Fit the tables of a folder, save the model and print the privacy cost."""
    from tabsynth.synthesizers.linked.estimator import LinkedMargNet

    facts = LinkedSchema.load(schema)
    model = LinkedMargNet(facts, **parameters)
    check_writable(out)
    fit_and_print(
        model, lambda: read_linked(folder, facts, **reading), out, checkpoint, ledger, started
    )
    for note in model.notes():
        say(note)
    say(f"Model: {out}")


def refuse_for_linked(options: dict[str, Any], taken: tuple[str, ...] = ()) -> None:
    """Refuse options that were given and that linked tables do not take."""
    for name, value in options.items():
        given = value is not None and value is not False and value != []  # 0 was given
        if given and name not in taken:
            flag = FLAGS.get(name, f"--{name.replace('_', '-')}")
            raise InputError(f"Linked tables take no {flag}; leave it out.")


def is_linked(synthesizer: Any) -> bool:
    """Whether a model is of linked tables."""
    from tabsynth.methods import LINKED

    return synthesizer.method in LINKED


def parse_where_of_tables(schema: LinkedSchema, texts: list[str]) -> dict[str, Any]:
    """Conditions by table from texts ``TABLE.COLUMN=VALUE``."""
    from tabsynth.synthesizers.conditions import parse_where

    by_table: dict[str, list[str]] = {}
    for text in texts:
        table, dot, rest = text.partition(".")
        if not dot or table not in schema.names:
            raise InputError(
                f"Expected --where TABLE.COLUMN=VALUE with a table of {', '.join(schema.names)}, got {shown(text)}."
            )
        by_table.setdefault(table, []).append(rest)
    return {table: parse_where(schema.tables[table], rest) for table, rest in by_table.items()}


def sample_linked(
    synthesizer: Any,
    out: Path,
    n: int | None,
    seed: int | None,
    written: dict[str, str],
    where: list[str] | None,
    key: "Ed25519PrivateKey | None",
    expires: date | None,
    weights: str | None,
    max_draws: int | None,
    options: dict[str, Any],
) -> None:
    """Write a folder of synthetic tables, each with its certificate."""
    from tabsynth.privacy.certificate.certificate import certify

    refuse_for_linked(options)
    condition = parse_where_of_tables(synthesizer.schema_, where) if where else None
    given = {"where": condition, "max_draws": max_draws, "weights": weights}
    synthesizer.sample_to(out, n, random_state=seed, **given, **written)
    for name in synthesizer.schema_.names:
        if key is not None:
            certify(out / f"{name}.csv", key=key, expires=expires)
        say(f"Table: {out / name}.csv")
    say(f"Certificates: beside each table in {out}")
    if weights is not None:
        say(f"Population, the sum of the weights: {population_text(synthesizer)}.")
    claim = synthesizer.certificate()
    if claim["conditional"]:
        say(claim["statement"])
