"""The options that several commands share, and their conversion to arguments of a method."""

import re
from collections.abc import Collection
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from tabsynth._validate import one_of
from tabsynth.errors import InputError
from tabsynth.methods import LINKED, METHODS
from tabsynth.schema.number_texts import DECIMAL_MARKS
from tabsynth.schema.schema import DEFAULT_NULL_VALUES

METHOD_NAMES = tuple(METHODS)

DraftedUnlessGiven = Annotated[
    Path | None,
    typer.Option(
        "--schema",
        help="The schema of the table, a JSON file. Default: drafted privately, as a part of the budget.",
    ),
]
DraftedOfTables = Annotated[
    Path | None,
    typer.Option(
        "--schema",
        help="The schema of the table, a JSON file. Default: drafted from the compared tables, which --epsilon, folders"
        " and --decimal do not allow.",
    ),
]
DuckDBFile = Annotated[
    Path | None,
    typer.Option(
        "--duckdb",
        help="Instead of a table file, for margnet: a DuckDB file, which counts the rows of its table --table.",
    ),
]
SparkUrl = Annotated[
    str | None,
    typer.Option(
        "--spark",
        help="Instead of a table file, for margnet: the URL of a Spark cluster, such as local[2] or spark://host:7077,"
        " which counts the rows of its table --table.",
    ),
]
FitTables = Annotated[
    list[str] | None,
    typer.Option(
        "--table",
        help="For margnet: a table that must be accurate, COLUMN,COLUMN,…, such as PUMA,AGE_GROUP,SEX; its first column is counted at each"
        " level of its hierarchy. Repeatable. Needs --schema. With --duckdb or --spark, the first --table is the name of the table"
        " to fit, such as people.",
    ),
]
SaveSchema = Annotated[
    Path | None,
    typer.Option(help="Write the schema of the fit to this file, for evaluate and later fits."),
]
Seed = Annotated[
    int | None,
    typer.Option(
        help="Random seed for a reproducible result. A seeded fit is not private, and its certificate says so."
    ),
]
Weight = Annotated[
    str | None,
    typer.Option(
        help="The column of survey weights. Counts then estimate the population; the column is not learned."
    ),
]
MaxWeight = Annotated[
    float | None,
    typer.Option(
        help="The largest weight that counts, from public knowledge; larger weights are clipped to it."
    ),
]
Unit = Annotated[
    str | None,
    typer.Option(
        help="The column that says which unit a row is of, such as a person. Privacy then protects units; the column is"
        " neither learned nor sampled."
    ),
]
MaxRowsPerUnit = Annotated[
    int | None,
    typer.Option(help="The most rows of one unit that are used, from public knowledge."),
]
AuditKind = Annotated[
    str | None,
    typer.Option(
        help="Kind of audit: white-box, replay, black-box, one-run or all. Default: white-box and replay, about a"
        " minute."
    ),
]
AuditSeeds = Annotated[
    int,
    typer.Option(
        help="For replays: number of artificial tables. Each has two replays for every kind of neighbouring dataset."
    ),
]
AuditRuns = Annotated[
    int | None,
    typer.Option(
        help="Runs on each neighbouring dataset, at least 20; for one-run the number of canaries. More runs allow"
        " larger lower bounds. Default: 4000 white-box, 500 black-box, 1000 one-run."
    ),
]
AuditCase = Annotated[
    str,
    typer.Option(
        help="For black-box: average (rows of the census table) or worst (equal rows and one that differs)."
    ),
]
AuditedMethod = Annotated[
    str, typer.Option("--method", help=f"The synthesizer: {', '.join((*METHODS, *LINKED))}.")
]
Method = Annotated[str, typer.Option(help=f"The synthesizer: {', '.join(METHOD_NAMES)}.")]
Preset = Annotated[
    str | None,
    typer.Option(help="For dp-wgan: default, or source, the hyperparameters of the original."),
]
Variant = Annotated[
    str | None,
    typer.Option(help="For dp-gan: advanced (default), basic, ganobfuscator or advanced-clusters."),
]
AutoencoderOption = Annotated[
    str | None,
    typer.Option(
        help="For GANs, how the autoencoder is trained: dp-sgd, public (on --public), no-noise (not private) or none"
        " (no autoencoder). Default: preset, the choice of the preset."
    ),
]
Public = Annotated[
    Path | None,
    typer.Option(
        help="A table with the same schema that you declare public: margnet's prior, or for pre-training of GANs."
        " Its rows get no protection."
    ),
]
PublicSource = Annotated[
    str | None, typer.Option(help="The source of the public table, for the certificate.")
]
Overlap = Annotated[
    str | None,
    typer.Option(
        help="Whether the number of private rows that are also public is measured: charged (part of the budget) or"
        " declined."
    ),
]
WarmStart = Annotated[
    Path | None,
    typer.Option(
        help="A fitted model of the same private rows to start from. Its privacy cost is part of the budget."
    ),
]
Teachers = Annotated[
    str | None,
    typer.Option(
        help="For pate-gan and pate-acgan: marginals (default), which vote on two-way marginals without a discriminator,"
        " or networks, those of the paper."
    ),
]
TeacherCount = Annotated[
    int | None,
    typer.Option(
        help="For pate-gan and pate-acgan: number of teachers. Each has its own part of the rows."
    ),
]
Labels = Annotated[
    int | None,
    typer.Option(
        help="For pate-gan and pate-acgan: total number of questions that the teachers answer. More questions need more"
        " noise for each."
    ),
]
Label = Annotated[
    str | None,
    typer.Option(help="For pate-acgan, required: the column whose values are the classes."),
]
Mode = Annotated[
    str | None,
    typer.Option(
        help="For pate-acgan: what the teachers vote on, A, B or C. Default: C; B for --teachers networks."
    ),
]
SampledLabel = Annotated[
    str | None,
    typer.Option(
        "--label",
        help="For pate-acgan: the class of all sampled rows. Default: classes as estimated.",
    ),
]
Formulas = Annotated[
    str,
    typer.Option(
        help="Texts in CSV that a spreadsheet would run as formulas: refuse (stop with an error), escape (prefix an"
        " apostrophe) or keep."
    ),
]
StepRule = Annotated[
    str | None,
    typer.Option(
        help="For dp-wgan and dp-gan, the private optimizer: dp-sgd (default), dp-sat or bam."
    ),
]
Network = Annotated[
    str | None,
    typer.Option(
        "--network-encoding",
        help="For GANs, how category codes become network inputs: one-hot (default), ordinal (default of preset"
        " source), binary or base-N, e.g. base-3.",
    ),
]
Sep = Annotated[
    str | None,
    typer.Option(
        help="The separator of cells in a text file: one character, or tab. Default: as the header says."
    ),
]
WrittenSep = Annotated[
    str | None,
    typer.Option(
        "--sep",
        help="The separator of cells in a text file: , ; | or tab. Default: a tab in .tsv files, else a comma, or a"
        " semicolon with decimal commas.",
    ),
]
Encoding = Annotated[
    str | None,
    typer.Option(
        help="The encoding of a text file, e.g. latin-1. Default: by its byte order mark; else UTF-8, and Windows-1252"
        " for lines that are not."
    ),
]
Decimal = Annotated[
    str | None,
    typer.Option(
        help="The decimal mark of numbers in texts: . or ,. Default: that of the schema; without one, a text that may"
        " be two numbers, such as 1,234, is refused."
    ),
]
Sheet = Annotated[
    str | None, typer.Option(help="The sheet of an Excel workbook that has several sheets.")
]
Null = Annotated[
    list[str] | None,
    typer.Option(
        help="A text that marks a missing value, beside common ones such as NA; repeatable."
    ),
]
Rows = Annotated[
    int | None,
    typer.Option(
        help="The number of rows, if it is public. Default: some methods measure it with noise, at a privacy cost."
    ),
]
TimeLimit = Annotated[
    str | None,
    typer.Option(help="Stop training after this time, e.g. 90s, 10m or 2h. Default: no limit."),
]
CheckpointOption = Annotated[
    Path | None,
    typer.Option(
        help="A folder for checkpoints. Run the same command again to resume an interrupted fit. Keep it with the"
        " private table."
    ),
]
LedgerOption = Annotated[
    Path | None,
    typer.Option(
        "--ledger",
        help="A project ledger (tabsynth ledger create). The privacy cost is charged there, and exceeding its limit is"
        " refused.",
    ),
]
AcceptDrafted = Annotated[
    bool,
    typer.Option(
        "--accept-drafted-domain",
        help="Accept a schema that was drafted from a table. It contains real values of the table, so the privacy claim"
        " is conditional on these being public.",
    ),
]
LinkedOption = Annotated[
    Path | None,
    typer.Option(
        "--linked",
        help="A linked schema, a JSON file, in place of --schema. TABLE is then a folder with a file for each table, such as"
        " households.csv and persons.csv.",
    ),
]
Count = Annotated[
    list[str] | None,
    typer.Option(
        help="Release a number with noise, for a hundredth of the budget: of rows that break a rule (violations), of rows"
        " whose weight is above the largest one (clipped), of units with more rows than the bound (bounded), or of"
        " identifiers that several rows have (repeated). Repeatable. The certificate lists it. Default: none."
    ),
]
Where = Annotated[
    list[str] | None,
    typer.Option(
        help="A condition that all rows satisfy, COLUMN=VALUE, or COLUMN=LOW..HIGH for ordered values."
        " Repeatable; several values of one column are alternatives. margnet draws such rows directly; other methods"
        " draw rows until enough satisfy it. Of linked tables ROOT.COLUMN=VALUE, where ROOT is the table without a parent."
    ),
]
MaxDraws = Annotated[
    int | None,
    typer.Option(
        help="The largest number of rows to draw for --where. Default: 100 for each row of -n, at least 1,000,000."
    ),
]
RowsToDraw = Annotated[
    int | None,
    typer.Option(
        "-n",
        help="Number of synthetic rows to draw. Default: the declared number of rows, or the noisy one of the fit.",
    ),
]
Implicates = Annotated[
    int | None,
    typer.Option(
        "--implicates",
        help="Write so many tables, name-1.csv and on, that differ as much as the noise of MargNet's counts leaves open, for"
        " analyses that are combined by tabsynth.inference.pool. Default: one table.",
    ),
]
SampledWeights = Annotated[
    str | None,
    typer.Option(
        "--weights",
        help="population: add the column of survey weights, equal in all rows, whose sum is the noisy size of the"
        " population. Default: no column; synthetic rows are self-weighting.",
    ),
]
WorkloadOption = Annotated[
    list[str] | None,
    typer.Option(
        "--workload",
        help="For margnet: two or three columns, COLUMN,COLUMN, whose joint counts matter most; repeatable. An optional,"
        " data-independent hint.",
    ),
]
Target = Annotated[
    str | None,
    typer.Option(
        help="For margnet: the column that models will predict from the others. An optional, data-independent hint."
    ),
]

PlannedBounds = Annotated[
    str | None,
    typer.Option(
        "--bounds",
        help="Show what bounds of the rows of a unit cost, such as 1,2,3,5; the rest of the plan is left out.",
    ),
]
PlannedCaps = Annotated[
    str | None,
    typer.Option(
        "--caps",
        help="Show what caps of survey weights cost, such as 200,300,500; the rest of the plan is left out. Needs"
        " --population.",
    ),
]
PlannedTables = Annotated[
    list[str] | None,
    typer.Option(
        "--table",
        help="Show the standard error of the cells of this table, such as AGE,SEX, and what it is if the fit declares it, by the noise of"
        " margnet's counts. Needs --schema. May be given several times.",
    ),
]
PlannedPopulation = Annotated[
    float | None,
    typer.Option(
        "--population",
        help="With --caps: the size of the population that the rows stand for, a public number.",
    ),
]
PlannedUnit = Annotated[
    str | None,
    typer.Option("--unit", help="The unit of --bounds. Default: that of the schema."),
]
RowsPerUnit = Annotated[
    str | None,
    typer.Option(
        help="With --bounds, what you assume from public knowledge: shares of units by their number of rows, such as"
        " 1:0.75,2:0.15,3:0.1, or their mean number, such as 1.2 (geometric). Never count it in the private table.",
    ),
]
PlannedMethod = Annotated[
    str | None, typer.Option("--method", help=f"The synthesizer: {', '.join(METHOD_NAMES)}.")
]
PlannedAdvantage = Annotated[
    float | None,
    typer.Option(
        "--max-advantage",
        help="In place of --epsilon: show the largest ε at which no attacker's true positive rate exceeds the false positive"
        " rate by more than this, between 0 and 1.",
    ),
]
Prior = Annotated[
    float | None,
    typer.Option(
        help="The probability, between 0 and 1, that an attacker gives an event about one record before the release; what it"
        " becomes at most is shown. Default: 0.01, 0.1 and 0.5."
    ),
]
Expires = Annotated[
    datetime | None,
    typer.Option(
        formats=["%Y-%m-%d"],
        help="The last day on which the signature holds, such as 2027-12-31. Default: none.",
    ),
]
DeclaredRows = Annotated[
    int,
    typer.Option(
        "--rows", help="The number of rows of the table. Give a public number; no table is read."
    ),
]
SchemaIfAny = Annotated[
    Path | None,
    typer.Option("--schema", help="The schema of the table, a JSON file. Required for margnet."),
]
Consensus = Annotated[
    float | None,
    typer.Option(
        help="For PATE: the share of teachers that agree, in (0.5, 1], for which --flips holds. Default: 0.75."
    ),
]
Flips = Annotated[
    float | None,
    typer.Option(
        help="For PATE: the share of answers that noise may change at that consensus, in (0, 0.5). Default: 0.05."
    ),
]
Wanted = Annotated[
    int | None,
    typer.Option("--labels", help="For PATE: number of labels for the student. Default: 5000."),
]
TeacherCounts = Annotated[
    list[int] | None,
    typer.Option("--teacher-count", help="For PATE: a number of teachers to plan for; repeatable."),
]
Batches = Annotated[
    list[int] | None,
    typer.Option(
        "--batch", help="For dp-gan and dp-wgan: expected batch size in rows; repeatable."
    ),
]
Steps = Annotated[
    list[int] | None,
    typer.Option("--steps", help="For dp-gan and dp-wgan: total number of steps; repeatable."),
]

# Parameters with another name on the command line.
FLAGS = {"provenance": "--public-source", "encoding": "--network-encoding", "tables": "--table"}


def check_method(method: str, registered: Collection[str] = METHODS) -> None:
    """Reject a method that is not among those of a command."""
    if method not in registered:
        names = ", ".join(registered)
        raise InputError(f"Expected --method to be one of {names}; got {method!r}.")


def taken(method: str, given: dict[str, Any]) -> dict[str, Any]:
    """Return the given options as arguments of the method; ``given`` has None for all others.

    Raises
    ------
    InputError
        If there is no such method, or it does not take an option that was given.
    """
    check_method(method)
    from tabsynth import synthesizers

    parameters = synthesizers.METHODS[method]._get_param_names()
    arguments = {name: value for name, value in given.items() if value is not None}
    for name in arguments:
        if name not in parameters:
            flag = FLAGS.get(name, f"--{name.replace('_', '-')}")
            raise InputError(
                f"Method {method} takes no {flag}; leave it out, or use another method."
            )
    if "label" in parameters and "label" not in arguments:
        raise InputError(
            f"Method {method} needs --label COLUMN, the column whose values are the classes."
        )
    return arguments


def class_argument(synthesizer: Any, text: str) -> dict[str, Any]:
    """Convert ``--label`` to an argument of ``sample``; only pate-acgan takes it."""
    import pandas as pd

    from tabsynth.synthesizers import PATEACGAN
    from tabsynth.synthesizers.conditions import parse_value

    if not isinstance(synthesizer, PATEACGAN):
        raise InputError(
            f"A model of method {synthesizer.method} takes no --label; leave it out, or use pate-acgan."
        )
    column = synthesizer.encoder_.schema[synthesizer.config_["label"]]
    value = parse_value(synthesizer.encoder_.schema, column, text, "--label")
    return {"label": pd.NA if value is None else value}


def condition(synthesizer: Any, texts: list[str]) -> dict[str, Any]:
    """Convert ``--where`` to an argument of ``sample``."""
    from tabsynth.synthesizers.conditions import parse_where

    return {"where": parse_where(synthesizer.encoder_.whole, texts)}


def reading(
    sep: str | None, encoding: str | None, decimal: str | None, sheet: str | None
) -> dict[str, Any]:
    """The options of reading files that were given, as arguments of :func:`tabsynth.read_table`."""
    given = {"sep": sep, "encoding": encoding, "decimal": decimal, "sheet": sheet}
    if decimal is not None:
        one_of("--decimal", decimal, DECIMAL_MARKS)
    return {name: value for name, value in given.items() if value is not None}


def without_decimal(options: dict[str, Any]) -> dict[str, Any]:
    """The options as :func:`tabsynth.tables.files.read_any` takes them, which leaves numbers as texts."""
    return {name: value for name, value in options.items() if name != "decimal"}


def null_texts(given: list[str] | None) -> tuple[str, ...]:
    """Texts that mark missing values: common ones, and those of ``--null``."""
    return tuple(dict.fromkeys((*DEFAULT_NULL_VALUES, *(given or ()))))


def parse_tables(
    texts: list[str] | None, *, engine: bool
) -> tuple[str | None, list[list[str]] | None]:
    """Convert ``--table`` of a fit to the name of a table of an engine, if the fit is of one, and declared tables."""
    given = list(texts or ())
    name = given.pop(0) if engine and given else None
    return name, [[column.strip() for column in text.split(",")] for text in given] or None


def parse_workload(texts: list[str] | None) -> list[tuple[str, ...]] | None:
    """Convert ``--workload`` to an argument; column names with commas can be given in Python only."""
    return None if not texts else [tuple(text.split(",")) for text in texts]


def seconds(text: str) -> float:
    """Parse ``90``, ``90s``, ``10m`` or ``2h`` as seconds."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([smh]?)", text.strip())
    value = float(match[1]) * {"": 1, "s": 1, "m": 60, "h": 3600}[match[2]] if match else 0.0
    if value <= 0:
        raise InputError(f"Expected --time-limit like 90s, 10m or 2h, got {text!r}.")
    return value
