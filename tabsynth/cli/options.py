"""The options of the commands in groups, and their conversion to arguments of the library.

A group is a dataclass whose fields are options. A command takes groups as its parameters (:func:`tabsynth.cli.console.guarded`), so
that an option is declared once, and commands that share a group spell it the same.
"""

import re
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass
from datetime import date, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tabsynth._validate import between, one_of
from tabsynth.cli.paths import private_key
from tabsynth.errors import InputError
from tabsynth.methods import METHODS

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    from tabsynth.schema.schema import Schema

METHOD_NAMES = tuple(METHODS)
OVERLAPPING = "Whether the number of private rows that are also public is measured"

# Panels of the help, by task.
_budget = partial(typer.Option, rich_help_panel="Budget and ledger")
_columns = partial(typer.Option, rich_help_panel="Schema and columns")
_survey = partial(typer.Option, rich_help_panel="Survey and units")
_method = partial(typer.Option, rich_help_panel="Method settings")
_files = partial(typer.Option, rich_help_panel="Files")
_running = partial(typer.Option, rich_help_panel="Running")
_signature = partial(typer.Option, rich_help_panel="Signature")

EPSILON = "ε of the privacy budget, above 0; smaller is more private."
DELTA = "δ of (ε, δ)-differential privacy, between 0 and 1; choose it well below 1/rows."
Seed = Annotated[
    int | None,
    _running(
        help="Random seed for a reproducible result. A seeded fit is not private, and its certificate says so."
    ),
]
Ledger = Annotated[
    Path | None,
    _budget(
        help="A project ledger (tabsynth ledger create). The privacy cost is charged there, and exceeding its limit is"
        " refused."
    ),
]
Expires = Annotated[
    datetime | None,
    _signature(
        formats=["%Y-%m-%d"],
        help="The last day on which the signature holds, such as 2027-12-31. Default: none.",
    ),
]
Prior = Annotated[
    float | None,
    typer.Option(
        help="The probability, between 0 and 1, that an attacker gives an event about one record before the release; what it"
        " becomes at most is shown. Default: 0.01, 0.1 and 0.5."
    ),
]


@dataclass(frozen=True, kw_only=True)
class Reading:
    """The options of reading files."""

    sep: Annotated[
        str | None,
        _files(
            help="The separator of cells in a text file: one character, or tab. Default: as the header says."
        ),
    ] = None
    encoding: Annotated[
        str | None,
        _files(
            help="The encoding of a text file, e.g. latin-1. Default: by its byte order mark; else UTF-8, and"
            " Windows-1252 for lines that are not."
        ),
    ] = None
    decimal: Annotated[
        str | None,
        _files(
            help="The decimal mark of numbers in texts: . or ,. Default: that of the schema; without one, a text that"
            " may be two numbers, such as 1,234, is refused."
        ),
    ] = None
    sheet: Annotated[
        str | None, _files(help="The sheet of an Excel workbook that has several sheets.")
    ] = None

    @property
    def options(self) -> dict[str, Any]:
        """The options that were typed, as arguments of :func:`tabsynth.read_table`."""
        return check_decimal(typed(asdict(self)))

    @property
    def as_texts(self) -> dict[str, Any]:
        """The same for :func:`tabsynth.tables.files.read_any`, which leaves numbers as texts."""
        return {name: value for name, value in self.options.items() if name != "decimal"}


@dataclass(frozen=True, kw_only=True)
class Survey:
    """The design of the rows: units of privacy and survey weights."""

    unit: Annotated[
        str | None,
        _survey(
            help="The column that says which unit a row is of, such as a person. Privacy then protects units; the"
            " column is neither learned nor sampled."
        ),
    ] = None
    max_rows_per_unit: Annotated[
        int | None,
        _survey(help="The most rows of one unit that are used, from public knowledge."),
    ] = None
    weight: Annotated[
        str | None,
        _survey(
            help="The column of survey weights. Counts then estimate the population; the column is not learned."
        ),
    ] = None
    max_weight: Annotated[
        float | None,
        _survey(
            help="The largest weight that counts, from public knowledge; larger weights are clipped to it."
        ),
    ] = None

    @property
    def parameters(self) -> dict[str, Any]:
        """The options that were typed, as parameters of a schema, after a check."""
        from tabsynth.schema.design import Design

        return Design(**asdict(self)).parameters()

    def refuse(self, reason: str) -> None:
        """Raise InputError if an option was typed."""
        for name in typed(asdict(self)):
            raise InputError(f"{flag(name)} {reason}")


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The settings of one method."""

    set: Annotated[
        list[str] | None,
        _method(
            help="NAME=VALUE: a setting of the method, such as steps=500; repeatable. A dotted name is of settings within"
            " settings, such as step.count=2000 of dp-wgan. VALUE is text, or as TOML has it. The error for an unknown NAME lists the settings."
        ),
    ] = None
    config: Annotated[
        Path | None,
        _method(help="A TOML file with settings of the method; --set takes precedence."),
    ] = None

    def read(self) -> dict[str, Any]:
        """Read the settings that were typed, by name."""
        from tabsynth.cli.settings import read_settings

        return read_settings(self.config, self.set or ())


@dataclass(frozen=True, kw_only=True)
class FitRequest:
    """The options that a fit needs first."""

    epsilon: Annotated[float, typer.Option(help=f"{EPSILON} inf adds no noise and is not private.")]
    out: Annotated[Path, typer.Option("-o", "--out", help="The model file to write.")]
    table: Annotated[
        Path | None,
        typer.Argument(
            help="The private table: a text file (.csv, .tsv, .csv.gz), .parquet, .xlsx or another format by its"
            " suffix, or a folder of .parquet files."
        ),
    ] = None
    schema: Annotated[
        Path | None,
        typer.Option(
            help="The schema of the table, a JSON file. Default: drafted privately, as a part of the budget."
        ),
    ] = None
    save_schema: Annotated[
        Path | None,
        typer.Option(help="Write the schema of the fit to this file, for evaluate and later fits."),
    ] = None
    method: Annotated[str, typer.Option(help=f"The synthesizer: {', '.join(METHOD_NAMES)}.")] = (
        "margnet"
    )
    delta: Annotated[float, typer.Option(help=DELTA)] = 1e-5
    rows: Annotated[
        int | None,
        typer.Option(
            help="The number of rows, if it is public. Default: some methods measure it with noise, at a privacy cost."
        ),
    ] = None
    time_limit: Annotated[
        str | None,
        typer.Option(help="Stop training after this time, e.g. 90s, 10m or 2h. Default: no limit."),
    ] = None


@dataclass(frozen=True, kw_only=True)
class FitBudget:
    """The options of the budget and the ledger."""

    ledger: Ledger = None
    count: Annotated[
        list[str] | None,
        _budget(
            help="Release a number with noise, for a hundredth of the budget: of rows that break a rule (violations), of"
            " rows whose weight is above the largest one (clipped), of units with more rows than the bound (bounded), or"
            " of identifiers that several rows have (repeated). Repeatable. The certificate lists it. Default: none."
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class FitColumns:
    """The options of the columns of a fit."""

    linked: Annotated[
        Path | None,
        _columns(
            help="A linked schema, a JSON file, in place of --schema. TABLE is then a folder with a file for each table,"
            " such as households.csv and persons.csv."
        ),
    ] = None
    tables: Annotated[
        list[str] | None,
        _columns(
            "--table",
            help="For margnet: a table that must be accurate, COLUMN,COLUMN,…, such as PUMA,AGE_GROUP,SEX; its first column"
            " is counted at each level of its hierarchy. Repeatable. Needs --schema.",
        ),
    ] = None
    accept_drafted_domain: Annotated[
        bool,
        _columns(
            "--accept-drafted-domain",
            help="Accept a schema that was drafted from a table. It contains real values of the table, so the privacy"
            " claim is conditional on these being public.",
        ),
    ] = False
    null: Annotated[
        list[str] | None,
        _columns(
            help="A text that marks a missing value, beside common ones such as NA; repeatable."
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class PriorKnowledge:
    """The options from which a fit may start."""

    public: Annotated[
        Path | None,
        _method(
            help="A table with the same schema that you declare public: margnet's prior, or for pre-training of GANs."
            " Its rows get no protection."
        ),
    ] = None
    public_source: Annotated[
        str | None, _method(help="The source of the public table, for the certificate.")
    ] = None
    overlap: Annotated[
        str | None,
        _method(help=f"{OVERLAPPING}: charged (part of the budget) or declined."),
    ] = None
    warm_start: Annotated[
        Path | None,
        _method(
            help="A fitted model of the same private rows to start from. Its privacy cost is part of the budget."
        ),
    ] = None

    @property
    def options(self) -> dict[str, Any]:
        """The options, by the parameters that they set."""
        return {
            "public": self.public,
            "public_source": self.public_source,
            "overlap": self.overlap,
            "warm_start": self.warm_start,
        }


@dataclass(frozen=True, kw_only=True)
class Engine:
    """A table that an engine counts, in place of a file."""

    duckdb: Annotated[
        Path | None,
        _files(help="In place of TABLE: a DuckDB file, of which the table --sql-table is fitted."),
    ] = None
    spark: Annotated[
        str | None,
        _files(
            help="For margnet, in place of TABLE: the URL of a Spark cluster, such as local[2] or spark://host:7077,"
            " which counts the rows of its table --sql-table."
        ),
    ] = None
    sql_table: Annotated[
        str | None,
        _files(help="With --duckdb or --spark: the name of the table to fit, such as people."),
    ] = None

    @property
    def flag(self) -> str | None:
        """The option that names the engine."""
        return "--duckdb" if self.duckdb is not None else "--spark" if self.spark else None


@dataclass(frozen=True, kw_only=True)
class Running:
    """The options of running a fit."""

    seed: Seed = None
    device: Annotated[str, _running(help="Device for training: auto, cpu or cuda.")] = "auto"
    checkpoint: Annotated[
        Path | None,
        _running(
            help="A folder for checkpoints. Run the same command again to resume an interrupted fit. Keep it with the"
            " private table."
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class PlanRequest:
    """The options that a plan needs first."""

    rows: Annotated[
        int,
        typer.Option(
            help="The number of rows of the table. Give a public number; no table is read."
        ),
    ]
    epsilon: Annotated[float | None, typer.Option(help=EPSILON)] = None
    max_advantage: Annotated[
        float | None,
        typer.Option(
            help="In place of --epsilon: show the largest ε at which no attacker's true positive rate exceeds the false"
            " positive rate by more than this, between 0 and 1."
        ),
    ] = None
    prior: Prior = None
    delta: Annotated[float, typer.Option(help=DELTA)] = 1e-5
    method: Annotated[
        str | None, typer.Option(help=f"The synthesizer: {', '.join(METHOD_NAMES)}.")
    ] = None
    schema: Annotated[
        Path | None,
        typer.Option(help="The schema of the table, a JSON file. Required for margnet."),
    ] = None
    table: Annotated[
        list[str] | None,
        typer.Option(
            help="Show the standard error of the cells of this table, such as AGE,SEX, and what it is if the fit declares"
            " it, by the noise of margnet's counts. Needs --schema. Repeatable."
        ),
    ] = None
    as_json: Annotated[bool, typer.Option("--json", help="Print the plan as JSON.")] = False


_compared = partial(typer.Option, rich_help_panel="Values to compare")


@dataclass(frozen=True, kw_only=True)
class PlanGrid:
    """Values of settings that a plan compares."""

    teacher_count: Annotated[
        list[int] | None, _compared(help="For PATE: a number of teachers; repeatable.")
    ] = None
    queries: Annotated[
        int | None,
        _compared(
            help="For PATE: number of queries that the student should have answered. Default: 5000."
        ),
    ] = None
    consensus: Annotated[
        float | None,
        _compared(
            help="For PATE: the share of teachers that agree, in (0.5, 1], for which --flips holds. Default: 0.75."
        ),
    ] = None
    flips: Annotated[
        float | None,
        _compared(
            help="For PATE: the share of answers that noise may change at that consensus, in (0, 0.5). Default: 0.05."
        ),
    ] = None
    batches: Annotated[
        list[int] | None,
        _compared(
            "--batch", help="For dp-gan and dp-wgan: expected batch size in rows; repeatable."
        ),
    ] = None
    steps: Annotated[
        list[int] | None,
        _compared(help="For dp-gan and dp-wgan: total number of steps; repeatable."),
    ] = None


@dataclass(frozen=True, kw_only=True)
class PlanDesign:
    """Bounds and caps that a plan compares."""

    bounds: Annotated[
        str | None,
        _survey(
            help="Show what bounds of the rows of a unit cost, such as 1,2,3,5; the rest of the plan is left out."
        ),
    ] = None
    unit: Annotated[
        str | None, _survey(help="The unit of --bounds. Default: that of the schema.")
    ] = None
    rows_per_unit: Annotated[
        str | None,
        _survey(
            help="With --bounds, what you assume from public knowledge: shares of units by their number of rows, such as"
            " 1:0.75,2:0.15,3:0.1, or their mean number, such as 1.2 (geometric). Never count it in the private table."
        ),
    ] = None
    caps: Annotated[
        str | None,
        _survey(
            help="Show what caps of survey weights cost, such as 200,300,500; the rest of the plan is left out. Needs"
            " --population."
        ),
    ] = None
    population: Annotated[
        float | None,
        _survey(
            help="With --caps: the size of the population that the rows stand for, a public number."
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class Draw:
    """The options of the rows to draw."""

    n: Annotated[
        int | None,
        typer.Option(
            "-n",
            help="Number of synthetic rows to draw. Default: the declared number of rows, or the noisy one of the fit.",
        ),
    ] = None
    where: Annotated[
        list[str] | None,
        typer.Option(
            help="A condition that all rows satisfy, COLUMN=VALUE, or COLUMN=LOW..HIGH for ordered values."
            " Repeatable; several values of one column are alternatives. margnet draws such rows directly; other methods"
            " draw rows until enough satisfy it. Of linked tables ROOT.COLUMN=VALUE, where ROOT is the table without a"
            " parent."
        ),
    ] = None
    max_draws: Annotated[
        int | None,
        typer.Option(
            help="The largest number of rows to draw for --where. Default: 100 for each row of -n, at least 1,000,000."
        ),
    ] = None
    class_value: Annotated[
        str | None,
        typer.Option(
            help="For pate-acgan: the class of all sampled rows, a value of its class_column. Default: classes as"
            " estimated."
        ),
    ] = None
    weights: Annotated[
        str | None,
        typer.Option(
            help="population: add the column of survey weights, equal in all rows, whose sum is the noisy size of the"
            " population. Default: no column; synthetic rows are self-weighting."
        ),
    ] = None
    implicates: Annotated[
        int | None,
        typer.Option(
            help="Write so many tables, name-1.csv and on, that differ as much as the noise of MargNet's counts leaves"
            " open, for analyses that are combined by tabsynth.inference.pool. Default: one table."
        ),
    ] = None
    seed: Seed = None


@dataclass(frozen=True, kw_only=True)
class Writing:
    """The options of writing files."""

    formulas: Annotated[
        str,
        _files(
            help="Texts in CSV that a spreadsheet would run as formulas: refuse (stop with an error), escape (prefix an"
            " apostrophe) or keep."
        ),
    ] = "refuse"
    sep: Annotated[
        str | None,
        _files(
            help="The separator of cells in a text file: , ; | or tab. Default: a tab in .tsv files, else a comma, or a"
            " semicolon with decimal commas."
        ),
    ] = None
    decimal: Annotated[
        str | None,
        _files(help="The decimal mark of numbers in texts: . or ,. Default: that of the schema."),
    ] = None

    @property
    def options(self) -> dict[str, Any]:
        """The options, as arguments of :func:`tabsynth.write_table`."""
        from tabsynth.tables.formulas import HANDLINGS

        one_of("--formulas", self.formulas, HANDLINGS)
        return check_decimal(typed(asdict(self)))


@dataclass(frozen=True, kw_only=True)
class Signing:
    """The key that signs a certificate, and how long the signature holds."""

    sign: Annotated[
        Path | None,
        _signature(help="A private key of tabsynth keygen, to sign the certificate with."),
    ] = None
    expires: Expires = None

    def read(self) -> "tuple[Ed25519PrivateKey | None, date | None]":
        """Read the key, and return it with the last day."""
        if self.expires is not None and self.sign is None:
            raise InputError("--expires is of a signature; give --sign, or leave it out.")
        key = None if self.sign is None else private_key(self.sign)
        return key, None if self.expires is None else self.expires.date()


@dataclass(frozen=True, kw_only=True)
class Compared:
    """The tables that a report compares."""

    real: Annotated[
        Path,
        typer.Option(
            help="The real table to which the model was fitted; of linked tables the folder."
        ),
    ]
    synthetic: Annotated[
        Path, typer.Option(help="The synthetic table; of linked tables the folder.")
    ]
    out: Annotated[
        Path, typer.Option("-o", "--out", help="The folder for report.html and metrics.json.")
    ]
    schema: Annotated[
        Path | None,
        typer.Option(
            help="The schema of the table, a JSON file. Default: drafted from the compared tables, which --epsilon,"
            " folders and --decimal do not allow."
        ),
    ] = None
    holdout: Annotated[
        Path | None,
        typer.Option(
            help="Real rows that were not fitted, as test rows and as controls for the attacks."
        ),
    ] = None
    key: Annotated[
        Path | None,
        typer.Option(
            help="The public key of a signer whom you trust. The certificate of the synthetic table must be signed"
            " with it."
        ),
    ] = None

    @property
    def tables(self) -> tuple[Path, Path, Path | None]:
        """The files or folders of the tables."""
        return self.real, self.synthetic, self.holdout


_measured = partial(typer.Option, rich_help_panel="What is measured")


@dataclass(frozen=True, kw_only=True)
class Measures:
    """The options of further measures of a report."""

    target: Annotated[
        str | None, _measured(help="A column that models predict from the others.")
    ] = None
    by: Annotated[
        list[str] | None,
        _measured(help="A column whose groups are compared with each other; repeatable."),
    ] = None
    boosting: Annotated[
        bool, _measured("--boosting", help="Also predict by gradient boosting; slower.")
    ] = False


@dataclass(frozen=True, kw_only=True)
class Publication:
    """The privacy cost of a report that may be published, and the rows that a confidential one samples."""

    epsilon: Annotated[
        float | None,
        _budget(
            help="ε of a report without exact figures of the real rows, which may be published. Default: exact figures of"
            " the real table, which are private information."
        ),
    ] = None
    ledger: Ledger = None
    sample_rows: Annotated[
        int | None,
        _files(
            help="Compare a uniform sample of at most so many rows of each Parquet file or folder of Parquet files."
            " Default: 100,000 of a folder, and the whole of a file."
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class SurveyDesign:
    """The design of a survey, for its estimates and intervals."""

    weights: Annotated[
        str | None,
        _survey(
            "--weight",
            help="A column of survey weights, of the real tables and perhaps of the synthetic one, for every metric of"
            " utility. Default: the weight of the schema.",
        ),
    ] = None
    replicate_weights: Annotated[
        list[str] | None,
        _survey(
            help="The text before the numbers of the columns of replicate weights, such as PWGTP; or each column, if"
            " repeated. For intervals of the survey's design.",
        ),
    ] = None
    replicate_factor: Annotated[
        float | None,
        _survey(
            help="The factor of the squared differences of replicates. Default: 4 over their number, as in the"
            " American Community Survey."
        ),
    ] = None
    strata: Annotated[
        str | None,
        _survey(help="A column with the stratum of each real row, for intervals by linearisation."),
    ] = None
    clusters: Annotated[
        str | None,
        _survey(help="A column with the primary cluster of each real row, within its stratum."),
    ] = None

    @property
    def options(self) -> dict[str, Any]:
        """The options, as arguments of :func:`tabsynth.evaluate`."""
        columns = self.replicate_weights or None
        one = columns[0] if columns is not None and len(columns) == 1 else columns
        return {**asdict(self), "replicate_weights": one}


# Parameters with another name on the command line.
FLAGS = {
    "tables": "--table",
    "batches": "--batch",
    "n": "-n",
}


def flag(name: str) -> str:
    """Return the option of a parameter."""
    return FLAGS.get(name, f"--{name.replace('_', '-')}")


def typed(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of options that were typed: 0 is one, False and an empty list are none."""
    return {
        name: value
        for name, value in values.items()
        if value is not None and value is not False and value != []
    }


def refuse(values: Mapping[str, Any], what: str, taken: Collection[str]) -> None:
    """Raise InputError if an option was typed that ``what`` does not take, with the options that it takes."""
    for name in typed(values):
        if name not in taken:
            options = ", ".join(map(flag, sorted(taken)))
            raise InputError(
                f"{what} take{'' if what.endswith('s') else 's'} no {flag(name)}; leave it out. Options here: {options}."
            )


def class_argument(synthesizer: Any, text: str) -> dict[str, Any]:
    """Convert ``--class-value`` to an argument of ``sample``; only pate-acgan takes it."""
    import pandas as pd

    from tabsynth.synthesizers import PATEACGAN
    from tabsynth.synthesizers.conditions import parse_value

    if not isinstance(synthesizer, PATEACGAN):
        raise InputError(
            f"A model of method {synthesizer.method} takes no --class-value; leave it out, or use pate-acgan."
        )
    column = synthesizer.model_.encoder.schema[synthesizer.model_.config["class_column"]]
    value = parse_value(synthesizer.model_.encoder.schema, column, text, "--class-value")
    return {"class_value": pd.NA if value is None else value}


def condition(synthesizer: Any, texts: list[str]) -> dict[str, Any]:
    """Convert ``--where`` to an argument of ``sample``."""
    from tabsynth.synthesizers.conditions import parse_where

    return {"where": parse_where(synthesizer.model_.encoder.whole, texts)}


def check_decimal(options: dict[str, Any]) -> dict[str, Any]:
    """Refuse a decimal mark that is none, and return the options."""
    from tabsynth.schema.number_texts import DECIMAL_MARKS

    if "decimal" in options:
        one_of("--decimal", options["decimal"], DECIMAL_MARKS)
    return options


def check_prior(prior: float | None) -> None:
    """Refuse a prior that is no probability between 0 and 1."""
    if prior is not None:
        between("prior", prior, 0, 1, low_open=True, high_open=True)


def null_texts(texts: Collection[str] | None) -> tuple[str, ...]:
    """Return the texts that mark missing values: common ones, and those of ``--null``."""
    from tabsynth.schema.schema import DEFAULT_NULL_VALUES

    return tuple(dict.fromkeys((*DEFAULT_NULL_VALUES, *(texts or ()))))


def load_schema(path: Path | None) -> "Schema | None":
    """Read a schema file, if one is named."""
    from tabsynth.schema.schema import Schema

    return None if path is None else Schema.load(path)


def parse_tables(texts: Collection[str] | None) -> list[list[str]] | None:
    """Convert ``--table`` to tables of columns."""
    return [[column.strip() for column in text.split(",")] for text in texts or ()] or None


def seconds(text: str) -> float:
    """Parse ``90``, ``90s``, ``10m`` or ``2h`` as seconds."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([smh]?)", text.strip())
    value = float(match[1]) * {"": 1, "s": 1, "m": 60, "h": 3600}[match[2]] if match else 0.0
    if value <= 0:
        raise InputError(f"Expected --time-limit like 90s, 10m or 2h, got {text!r}.")
    return value
