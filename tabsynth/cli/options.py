"""The options of the commands in groups, and their conversion to arguments of the library.

A group is a dataclass whose fields are options. A command takes groups as its parameters (:func:`tabsynth.cli.console.cli_command`), so
that an option is declared once, and commands that share a group spell it the same.
"""

import csv
import os
import tomllib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import MISSING, asdict, dataclass
from datetime import date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tabsynth._files import check_output, read_json_text, writing
from tabsynth._validate import one_of, quote
from tabsynth.cli.console import argument, flag, option
from tabsynth.errors import FileFormatError, InputError
from tabsynth.methods import METHODS

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    from tabsynth.schema.schema import Schema

METHOD_NAMES = tuple(METHODS)
# An environment variable, which does not enter the history of a shell.
PASSPHRASE = "TABSYNTH_PASSPHRASE"

# Panels of the help, by task.
BUDGET, COLUMNS, SURVEY = "Budget and ledger", "Schema and columns", "Survey and units"
METHOD, FILES, RUNNING = "Method settings", "Files", "Running"
SIGNATURE, MEASURED = "Signature", "What is measured"

EPSILON = "ε of the privacy budget, above 0; smaller is more private."
DELTA = "δ of (ε, δ)-differential privacy, between 0 and 1; choose it well below 1/rows."
TIME_BUDGET = (
    "For dp-wgan and dp-gan: take as many private steps as training can take in this time, e.g. 60s or 10m, at most those of"
    " the settings, and plan the noise for them. Their speed is measured on made-up rows. Default: the steps of the settings."
)
Seed = Annotated[
    int | None,
    typer.Option(
        help="Random seed for a reproducible result. A seeded fit is not private, and its certificate says so.",
        rich_help_panel=RUNNING,
    ),
]
Ledger = Annotated[
    Path | None,
    typer.Option(
        help="A project ledger (tabsynth ledger create). The privacy cost is charged there, and exceeding its limit is"
        " refused.",
        rich_help_panel=BUDGET,
    ),
]
Expires = Annotated[
    datetime | None,
    typer.Option(
        formats=["%Y-%m-%d"],
        help="The last day on which the signature holds, such as 2027-12-31. Default: none.",
        rich_help_panel=SIGNATURE,
    ),
]


@dataclass(frozen=True, kw_only=True)
class Reading:
    """The options of reading files."""

    sep: str | None = option(
        "The separator of cells in a text file: one character, or tab. Default: as the header says.",
        panel=FILES,
    )
    encoding: str | None = option(
        "The encoding of a text file, e.g. latin-1. Default: by its byte order mark; else UTF-8, and"
        " Windows-1252 for lines that are not.",
        panel=FILES,
    )
    decimal: str | None = option(
        "The decimal mark of numbers in texts: . or ,. Default: that of the schema; without one, a text that"
        " may be two numbers, such as 1,234, is refused.",
        panel=FILES,
    )
    sheet: str | None = option(
        "The sheet of an Excel workbook that has several sheets.", panel=FILES
    )

    @property
    def options(self) -> dict[str, Any]:
        """The options that were typed, as arguments of :func:`tabsynth.read_table`."""
        return check_decimal(typed_options(asdict(self)))

    @property
    def as_texts(self) -> dict[str, Any]:
        """The same for :func:`tabsynth.tables.files.read_any`, which leaves numbers as texts."""
        return {name: value for name, value in self.options.items() if name != "decimal"}


@dataclass(frozen=True, kw_only=True)
class Survey:
    """The design of the rows: units of privacy and survey weights."""

    unit: str | None = option(
        "The column that says which unit a row is of, such as a person. Privacy then protects units; the"
        " column is neither learned nor sampled.",
        panel=SURVEY,
    )
    max_rows_per_unit: int | None = option(
        "The most rows of one unit that are used, from public knowledge.", panel=SURVEY
    )
    weight: str | None = option(
        "The column of survey weights. Counts then estimate the population; the column is not learned.",
        panel=SURVEY,
    )
    max_weight: float | None = option(
        "The largest weight that counts, from public knowledge; larger weights are clipped to it.",
        panel=SURVEY,
    )

    @property
    def parameters(self) -> dict[str, Any]:
        """The options that were typed, as parameters of a schema, after a check."""
        from tabsynth.design import Design

        return Design(**asdict(self)).parameters()

    def refuse(self, reason: str) -> None:
        """Raise InputError if an option was typed."""
        for name in typed_options(asdict(self)):
            raise InputError(f"{flag(name)} {reason}")


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The settings of one method."""

    set: list[str] | None = option(
        "NAME=VALUE: a setting of the method, such as steps=500; repeatable. A dotted name is of settings within"
        " settings, such as step.count=2000 of dp-wgan. VALUE is text, or as TOML has it. The error for an unknown NAME lists the settings.",
        panel=METHOD,
    )
    config: Path | None = option(
        "A TOML file with settings of the method; --set takes precedence.", panel=METHOD
    )

    def read(self) -> dict[str, Any]:
        """Read the settings that were typed, by name."""
        return read_settings(self.config, self.set or ())


@dataclass(frozen=True, kw_only=True)
class FitRequest:
    """The options that a fit needs first."""

    epsilon: float = option(f"{EPSILON} inf adds no noise and is not private.", default=MISSING)
    out: Path = option("The model file to write.", "-o", "--out", default=MISSING)
    table: Path = argument(
        "The private table: a text file (.csv, .tsv, .csv.gz), .parquet, .xlsx or another format by its"
        " suffix, or a folder of .parquet files."
    )
    schema: Path | None = option(
        "The schema of the table, a JSON file. Default: drafted privately, as a part of the budget."
    )
    save_schema: Path | None = option(
        "Write the schema of the fit to this file, for evaluate and later fits."
    )
    method: str = option(f"The synthesizer: {', '.join(METHOD_NAMES)}.", default="margnet")
    delta: float = option(DELTA, default=1e-5)
    rows: int | None = option(
        "The number of rows, if it is public. A fit without a schema then keeps more columns of a small table. Default: some"
        " methods measure it with noise, at a privacy cost."
    )
    time_limit: str | None = option(
        "Stop training after this time, e.g. 90s, 10m or 2h. Default: no limit."
    )
    time_budget: str | None = option(TIME_BUDGET)
    ledger: Ledger = None


@dataclass(frozen=True, kw_only=True)
class FitColumns:
    """The options of the columns of a fit."""

    linked: Path | None = option(
        "A linked schema, a JSON file, in place of --schema. TABLE is then a folder with a file for each table,"
        " such as households.csv and persons.csv, or a folder of Parquet files for each.",
        panel=COLUMNS,
    )
    omop: bool = option(
        "TABLE is a database in the OMOP Common Data Model 5.4: a folder with a file, or a folder of Parquet files, for each"
        " table; or a DuckDB file. No schema is needed. A part of the budget selects concepts.",
        "--omop",
        panel=COLUMNS,
        default=False,
    )
    vocabulary: Path | None = option(
        "With --omop: a folder with the files CONCEPT and CONCEPT_ANCESTOR of an Athena download, which are public. Default: the"
        " database's own, where it has them.",
        panel=COLUMNS,
    )
    tables: list[str] | None = option(
        "For margnet: a table that must be accurate, COLUMN,COLUMN,…, such as PUMA,AGE_GROUP,SEX; its first column"
        " is counted at each level of its hierarchy. A name with a comma is in double quotes. Repeatable. Needs --schema.",
        "--table",
        panel=COLUMNS,
    )
    accept_drafted_domain: bool = option(
        "Accept a schema that was drafted from a table. It contains real values of the table, so the privacy"
        " claim is conditional on these being public.",
        "--accept-drafted-domain",
        panel=COLUMNS,
        default=False,
    )
    null: list[str] | None = option(
        "A text that marks a missing value, beside common ones such as NA; repeatable.",
        panel=COLUMNS,
    )
    no_relations: bool = option(
        "Without --schema: do not look for relations between columns, such as a date that is never before another. The search"
        " takes 5% of the budget.",
        "--no-relations",
        panel=COLUMNS,
        default=False,
    )


@dataclass(frozen=True, kw_only=True)
class PriorKnowledge:
    """The options from which a fit may start."""

    public: Path | None = option(
        "A table with the same schema that you declare public: margnet's prior, or for pre-training of GANs."
        " Its rows get no protection.",
        panel=METHOD,
    )
    public_source: str | None = option(
        "The source of the public table, for the certificate.", panel=METHOD
    )


@dataclass(frozen=True, kw_only=True)
class Running:
    """The options of running a fit."""

    seed: Seed = None
    device: str = option("Device for training: auto, cpu or cuda.", panel=RUNNING, default="auto")
    checkpoint: Path | None = option(
        "A folder for checkpoints. Run the same command again to resume an interrupted fit. Keep it with the"
        " private table.",
        panel=RUNNING,
    )


@dataclass(frozen=True, kw_only=True)
class PlanRequest:
    """The options that a plan needs first."""

    rows: int = option(
        "The number of rows of the table. Give a public number; no table is read.", default=MISSING
    )
    epsilon: float | None = option(EPSILON)
    max_advantage: float | None = option(
        "In place of --epsilon: show the largest ε at which no attacker's true positive rate exceeds the false"
        " positive rate by more than this, between 0 and 1."
    )
    delta: float = option(DELTA, default=1e-5)
    method: str = option(f"The synthesizer: {', '.join(METHOD_NAMES)}.", default="margnet")
    schema: Path | None = option(
        "The schema of the table, a JSON file. Required for margnet and for --table."
    )
    time_budget: str | None = option(f"{TIME_BUDGET} Needs --schema.")
    table: list[str] | None = option(
        "Show the standard error of the cells of this table, such as AGE,SEX, and what it is if the fit declares"
        " it, by the noise of margnet's counts. Needs --schema. Repeatable."
    )


@dataclass(frozen=True, kw_only=True)
class Draw:
    """The options of the rows to draw."""

    n: int | None = option(
        "Number of synthetic rows to draw. Default: the declared number of rows, or the noisy one of the fit.",
        "-n",
    )
    where: list[str] | None = option(
        "A condition that all rows satisfy, COLUMN=VALUE, or COLUMN=LOW..HIGH for ordered values."
        " Repeatable; several values of one column are alternatives. margnet draws such rows directly; other methods"
        " draw rows until enough satisfy it. Of linked tables ROOT.COLUMN=VALUE, where ROOT is the table without a"
        " parent."
    )
    max_draws: int | None = option(
        "The largest number of rows to draw for --where. Default: 100 for each row of -n, at least 1,000,000."
    )
    weights: str | None = option(
        "population: add the column of survey weights, equal in all rows, whose sum is the noisy size of the"
        " population. Default: no column; synthetic rows are self-weighting."
    )
    implicates: int | None = option(
        "Write so many tables, name-1.csv and on, that differ as much as the noise of MargNet's counts leaves"
        " open, for analyses that are combined by tabsynth.inference.pool. Default: one table."
    )
    seed: Seed = None


@dataclass(frozen=True, kw_only=True)
class Writing:
    """The options of writing files."""

    formulas: str = option(
        "Texts in CSV that a spreadsheet would run as formulas: refuse (stop with an error), escape (prefix an"
        " apostrophe) or keep.",
        panel=FILES,
        default="refuse",
    )
    sep: str | None = option(
        "The separator of cells in a text file: , ; | or tab. Default: a tab in .tsv files, else a comma, or a"
        " semicolon with decimal commas.",
        panel=FILES,
    )
    decimal: str | None = option(
        "The decimal mark of numbers in texts: . or ,. Default: that of the schema.", panel=FILES
    )

    @property
    def options(self) -> dict[str, Any]:
        """The options, as arguments of :func:`tabsynth.write_table`."""
        from tabsynth.tables.formulas import HANDLINGS

        one_of("--formulas", self.formulas, HANDLINGS)
        return check_decimal(typed_options(asdict(self)))


@dataclass(frozen=True, kw_only=True)
class Outputs:
    """The choice to replace files, and the check of those that a command writes, before it does anything else."""

    overwrite: bool = option(
        "Replace output files that are there already. Default: they are refused. A file that the command reads is never"
        " replaced.",
        "--overwrite",
        panel=FILES,
        default=False,
    )

    def check(self, *paths: Path, inputs: Iterable[Path | None] = ()) -> None:
        """Refuse files that cannot be written, that are read, that are named twice, or that may not be replaced."""
        others = [*inputs]
        for path in paths:
            check_output(path, overwrite=self.overwrite, others=others)
            others.append(path)

    def check_folder(
        self, folder: Path, names: Iterable[str], inputs: Iterable[Path | None] = ()
    ) -> None:
        """Refuse a folder that cannot be made or written to, or of whose files one is refused by :meth:`check`."""
        if folder.is_dir():
            return self.check(*(folder / name for name in names), inputs=inputs)
        place = next(p for p in (folder, *folder.absolute().parents) if p.exists())
        within = place / folder.name
        return check_output(within / "report.html" if within.is_dir() else within, overwrite=True)


@dataclass(frozen=True, kw_only=True)
class Signing:
    """The key that signs a certificate, and how long the signature holds."""

    sign: Path | None = option(
        "A private key of tabsynth keygen, to sign the certificate with.", panel=SIGNATURE
    )
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

    real: Path = option(
        "The real table to which the model was fitted; of linked tables the folder.",
        default=MISSING,
    )
    synthetic: Path = option("The synthetic table; of linked tables the folder.", default=MISSING)
    out: Path = option(
        "The folder for report.html and metrics.json.", "-o", "--out", default=MISSING
    )
    schema: Path | None = option(
        "The schema of the table, a JSON file. Default: drafted from the compared tables, which --epsilon,"
        " folders and --decimal do not allow."
    )
    holdout: Path | None = option(
        "Real rows that were not fitted, as test rows and as controls for the attacks."
    )
    key: Path | None = option(
        "The public key of a signer whom you trust. The certificate of the synthetic table must be signed"
        " with it."
    )

    @property
    def tables(self) -> tuple[Path, Path, Path | None]:
        """The files or folders of the tables."""
        return self.real, self.synthetic, self.holdout


@dataclass(frozen=True, kw_only=True)
class Measures:
    """The options of further measures of a report."""

    target: str | None = option("A column that models predict from the others.", panel=MEASURED)
    by: list[str] | None = option(
        "A column whose groups are compared with each other; repeatable.", panel=MEASURED
    )
    known: list[str] | None = option(
        "A column that an attacker knows of a person, for attribute reconstruction; repeatable. Name quasi-identifiers. Default: the"
        " first 7 columns, or the first half of fewer than 14.",
        panel=MEASURED,
    )
    weights: str | None = option(
        "A column of survey weights, of the real tables and perhaps of the synthetic one, for every metric of"
        " utility. Default: the weight of the schema.",
        "--weight",
        panel=MEASURED,
    )


@dataclass(frozen=True, kw_only=True)
class Publication:
    """The privacy cost of a report that may be published, and the rows that a confidential one samples."""

    epsilon: float | None = option(
        "ε of a report without exact figures of the real rows, which may be published. Default: exact figures of"
        " the real table, which are private information.",
        panel=BUDGET,
    )
    ledger: Ledger = None
    sample_rows: int | None = option(
        "Compare a uniform sample of at most so many rows of each Parquet file or folder of Parquet files."
        " Default: 100,000 of a folder, and the whole of a file.",
        panel=FILES,
    )


def column_names(text: str) -> list[str]:
    """Return the names in a list of columns, separated by commas; a name with a comma is in double quotes."""
    names = next(csv.reader([text], skipinitialspace=True)) if text else [text]
    return [name.strip() for name in names]


def typed_options(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of options that were typed: 0 is one, False and an empty list are none."""
    return {
        name: value
        for name, value in values.items()
        if value is not None and value is not False and value != []
    }


def refuse(values: Mapping[str, Any], what: str, supported: Collection[str] = ()) -> None:
    """Raise InputError if an option was typed that ``what`` does not take, with those of ``values`` that it takes."""
    for name in typed_options(values):
        if name not in supported:
            options = ", ".join(map(flag, sorted(supported)))
            listed = f" Options here: {options}." * bool(supported)
            takes = f"{what} take{'' if what.endswith('s') else 's'}"
            raise InputError(f"{takes} no {flag(name)}; leave it out.{listed}")


def check_decimal(options: dict[str, Any]) -> dict[str, Any]:
    """Refuse a decimal mark that is none, and return the options."""
    from tabsynth.schema.number_texts import DECIMAL_MARKS

    if "decimal" in options:
        one_of("--decimal", options["decimal"], DECIMAL_MARKS)
    return options


def null_texts(texts: Collection[str] | None) -> tuple[str, ...]:
    """Return the texts that mark missing values: common ones, and those of ``--null``."""
    from tabsynth.schema.schema import DEFAULT_NULL_VALUES

    return tuple(dict.fromkeys((*DEFAULT_NULL_VALUES, *(texts or ()))))


def load_schema(path: Path | None) -> "Schema | None":
    """Read a schema file, if one is named."""
    from tabsynth.schema.schema import Schema

    return None if path is None else Schema.load(path)


def make_folder(path: Path) -> Path:
    """Make a folder if it is missing."""
    with writing(path):
        path.mkdir(parents=True, exist_ok=True)
    return path


def private_key(path: Path) -> "Ed25519PrivateKey":
    """Read a private key; its passphrase comes from the environment."""
    from tabsynth.privacy.certificate.signing import read_private

    return read_private(path, os.environ.get(PASSPHRASE))


def read_settings(path: Path | None, texts: Sequence[str]) -> dict[str, Any]:
    """Return the settings of a TOML file and of ``NAME=VALUE`` texts, which take precedence.

    Raises
    ------
    InputError
        For a text without a name or a value.
    FileFormatError
        For a file that is not TOML.
    """
    settings: dict[str, Any] = {}
    if path is not None:
        try:
            settings = tomllib.loads(read_json_text(path, "settings"))
        except (tomllib.TOMLDecodeError, RecursionError) as error:
            raise FileFormatError(f"{path} is not valid TOML: {error}.") from None
    for text in texts:
        name, sign, value = text.partition("=")
        *parents, last = (part.strip().replace("-", "_") for part in name.split("."))
        if not sign or not all((*parents, last)):
            raise InputError(f"Expected --set like NAME=VALUE, got {quote(text)}.")
        level = settings
        for part in parents:
            level = level.setdefault(part, {})
            if not isinstance(level, dict):
                raise InputError(f"--set {quote(name)} is within {part}, which is a value.")
        level[last] = _value(value.strip())
    return settings


def _value(text: str) -> Any:
    """Return a value as TOML has it, or the text where it is none, such as a word without quotes."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except (tomllib.TOMLDecodeError, RecursionError):
        return text
