"""Options of the commands, and which of them a method takes."""

import re
from pathlib import Path
from typing import Annotated, Any

import typer

from tabsynth.errors import InputError
from tabsynth.methods import METHODS

METHOD_NAMES = tuple(METHODS)

SchemaOption = Annotated[Path, typer.Option("--schema", help="The table's schema (JSON).")]
Seed = Annotated[
    int | None, typer.Option(help="Reproducible; of a fit, the certificate then says: not private.")
]
AuditKind = Annotated[
    str | None,
    typer.Option(help="white-box, replay, black-box, one-run or all. By default the first two."),
]
AuditSeeds = Annotated[int, typer.Option(help="Of replays; each seed has 16 of them.")]
AuditRuns = Annotated[
    int | None, typer.Option(help="In each world; of one-run, canaries. More runs see more.")
]
AuditCase = Annotated[
    str, typer.Option(help="Of black-box: average (census rows) or worst (all rows alike but one).")
]
Method = Annotated[str, typer.Option(help=f"One of: {', '.join(METHOD_NAMES)}.")]
Preset = Annotated[
    str | None,
    typer.Option(
        help="default; or source of dp-wgan, paper of pate-gan and pate-acgan: the original's."
    ),
]
Variant = Annotated[str | None, typer.Option(help="Which of the method's variants.")]
AutoencoderOption = Annotated[
    str | None, typer.Option(help="preset, dp-sgd, public, no-noise, or none: how it is trained.")
]
Public = Annotated[
    Path | None,
    typer.Option(
        help="A table of the same schema that you declare public; not checked against rows."
    ),
]
PublicSource = Annotated[
    str | None, typer.Option(help="Where the public table is from, for the certificate.")
]
Overlap = Annotated[
    str | None,
    typer.Option(help="charged or declined: whether rows that are public too are counted."),
]
WarmStart = Annotated[
    Path | None, typer.Option(help="A model of the same private rows to start from; its ε counts.")
]
TeachersOption = Annotated[
    int | None, typer.Option("--teachers", help="Of PATE: K, each with a shard of its own; public.")
]
Labels = Annotated[int | None, typer.Option(help="Of PATE: questions to the teachers, in all.")]
Label = Annotated[
    str | None, typer.Option(help="Of pate-acgan: the column whose values are the classes.")
]
Mode = Annotated[str | None, typer.Option(help="Of pate-acgan: C, B or A: what is voted on.")]
SampledLabel = Annotated[
    str | None, typer.Option("--label", help="Rows of this class alone. Of pate-acgan.")
]
Formulas = Annotated[
    str,
    typer.Option(
        help="Of texts that a spreadsheet would run as formulas, in CSV: refuse, escape or keep them."
    ),
]
StepRule = Annotated[str | None, typer.Option(help="dp-sgd, dp-sat or bam.")]
Encoding = Annotated[
    str | None,
    typer.Option(help="one-hot (default), ordinal (that of preset source), binary or base-N."),
]
Rows = Annotated[int | None, typer.Option(help="The number of rows, if it is public.")]
TimeLimit = Annotated[str | None, typer.Option(help="Stop training in time: 90s, 10m, 2h.")]
CheckpointOption = Annotated[
    Path | None,
    typer.Option(help="A folder to go on from after a kill: run the same command again."),
]
LedgerOption = Annotated[
    Path | None,
    typer.Option(
        "--ledger", help="The project's ledger: what this spends composes there with all others."
    ),
]
AcceptDrafted = Annotated[
    bool,
    typer.Option(
        "--accept-drafted-domain",
        help="Fit on a schema drafted from a table: real values of the table leave as they are, and the"
        " claim is CONDITIONAL.",
    ),
]
Where = Annotated[
    list[str] | None,
    typer.Option(
        help="COLUMN=VALUE, or COLUMN=LOW..HIGH where values have an order, that all rows satisfy; repeatable, a"
        " column's values are alternatives. Of margnet."
    ),
]
WorkloadOption = Annotated[
    list[str] | None,
    typer.Option(
        "--workload", help="Two or three COLUMN,COLUMN that matter most; repeatable. Of margnet."
    ),
]
Target = Annotated[
    str | None, typer.Option(help="The column to be predicted from the others. Of margnet.")
]

PlannedMethod = Annotated[str, typer.Option("--method", help=f"One of: {', '.join(METHOD_NAMES)}.")]
DeclaredRows = Annotated[
    int,
    typer.Option("--rows", help="The number of rows: declared, not counted in a private table."),
]
SchemaIfAny = Annotated[
    Path | None, typer.Option("--schema", help="The table's schema (JSON). Of margnet: needed.")
]
Consensus = Annotated[
    float | None,
    typer.Option(help="Of PATE: the share of teachers that agree, at which flips count: 0.75."),
]
Flips = Annotated[
    float | None,
    typer.Option(help="Of PATE: the share of answers that noise may flip there: 0.05."),
]
Wanted = Annotated[
    int | None, typer.Option("--labels", help="Of PATE: labels that the student should have: 5000.")
]
Teachers = Annotated[
    list[int] | None, typer.Option(help="Of PATE: a number of teachers to price; repeatable.")
]
Batches = Annotated[
    list[int] | None, typer.Option("--batch", help="Of DP-SGD: rows a batch; repeatable.")
]
Steps = Annotated[
    list[int] | None, typer.Option("--steps", help="Of DP-SGD: steps in all; repeatable.")
]

# Of the parameters that are called otherwise on the command line.
FLAGS = {"provenance": "--public-source"}


def check_method(method: str) -> None:
    """Refuse a method that there is not."""
    if method not in METHODS:
        names = ", ".join(METHODS)
        raise InputError(f"Expected --method to be one of {names}; got {method!r}.")


def taken(method: str, given: dict[str, Any]) -> dict[str, Any]:
    """The options that were given, as arguments of the method; ``given`` holds None for the others.

    Raises
    ------
    InputError
        If there is no such method, or it does not take an option that was given.
    """
    check_method(method)
    from tabsynth import synthesizers

    known = synthesizers.METHODS[method]._get_param_names()
    found = {name: value for name, value in given.items() if value is not None}
    for name in found:
        if name not in known:
            flag = FLAGS.get(name, f"--{name.replace('_', '-')}")
            raise InputError(
                f"Method {method} takes no {flag}; leave it out, or use another method."
            )
    if "label" in known and "label" not in found:
        raise InputError(f"Method {method} needs --label COLUMN: whose values are the classes.")
    return found


def of_class(synthesizer: Any, text: str) -> dict[str, Any]:
    """``--label`` as an argument of a synthesizer's sample; other methods than pate-acgan take none."""
    import pandas as pd

    from tabsynth.synthesizers import PATEACGAN
    from tabsynth.synthesizers.margnet.conditioning import parse_value

    if not isinstance(synthesizer, PATEACGAN):
        raise InputError(
            f"A model of method {synthesizer.method} takes no --label; leave it out, or use pate-acgan."
        )
    column = synthesizer.encoder_.schema[synthesizer.config_["label"]]
    value = parse_value(synthesizer.encoder_.schema, column, text, "--label")
    return {"label": pd.NA if value is None else value}


def condition(synthesizer: Any, texts: list[str]) -> dict[str, Any]:
    """``--where`` as an argument of a synthesizer's sample; other methods than margnet take none."""
    from tabsynth.synthesizers import MargNet
    from tabsynth.synthesizers.margnet.conditioning import parse_where

    if not isinstance(synthesizer, MargNet):
        raise InputError(
            f"A model of method {synthesizer.method} takes no --where; leave it out, or use margnet."
        )
    return {"where": parse_where(synthesizer.encoder_.schema, texts)}


def sets_of_columns(texts: list[str] | None) -> list[tuple[str, ...]] | None:
    """``--workload`` as an argument: names with commas in them are for Python only."""
    return None if not texts else [tuple(text.split(",")) for text in texts]


def seconds(text: str) -> float:
    """``90``, ``90s``, ``10m`` or ``2h`` in seconds."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([smh]?)", text.strip())
    value = float(found[1]) * {"": 1, "s": 1, "m": 60, "h": 3600}[found[2]] if found else 0.0
    if value <= 0:
        raise InputError(f"Expected --time-limit like 90s, 10m or 2h, got {text!r}.")
    return value
