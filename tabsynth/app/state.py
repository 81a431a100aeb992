"""The choices and results of one preparation. Nothing is computed here, and no row is read."""

import csv
import io
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tabsynth._files import check_output, writing
from tabsynth._validate import quote
from tabsynth.app.settings import Settings
from tabsynth.drafting.drafts import review
from tabsynth.errors import InputError
from tabsynth.schema.column import COPIED, Column, provenance_in_words
from tabsynth.schema.schema import Schema
from tabsynth.tables.files import suffix

if TYPE_CHECKING:
    from tabsynth.planning import ColumnError
    from tabsynth.report.page import Picture
    from tabsynth.synthesizers import Synthesizer

SCHEMA = "schema.json"
PROVENANCES = {
    "declared": "declared: a person says that it is public",
    "drafted": "read from the rows: not public",
    "released": "released with noise: its cost is counted",
}


@dataclass(frozen=True, kw_only=True)
class ColumnView:
    """The facts of a column that the page shows.

    Attributes
    ----------
    low, high, values : str or None
        As a person edits them; None where a column of its kind has none.
    words : str
        The provenance, for people.
    copied : tuple of (str, str)
        Facts that stand as they were read from the rows, with their values.
    others : tuple of (str, str)
        Further facts, which are shown and not edited.
    """

    name: str
    kind: str
    dtype: str
    domain: str
    low: str | None
    high: str | None
    values: str | None
    nulls: bool
    provenance: str
    words: str
    source: str
    copied: tuple[tuple[str, str], ...]
    others: tuple[tuple[str, str], ...]

    @classmethod
    def of(cls, column: Column) -> "ColumnView":
        """Return the facts of a column, as a schema file has them, for a form."""
        facts: Mapping[str, Any] = column.to_dict()
        shown_apart = {"name", "kind", "dtype", "nulls", "provenance", "source", "low", "high"}
        shown_apart |= {"categories", COPIED}
        texts = {**facts, "nulls": "yes" if column.nulls else "no"}
        if "categories" in facts:
            texts["categories"] = values_text(facts["categories"])
        unchanged = column.provenance == "declared" and column.facts_from_rows
        return cls(
            name=column.name,
            kind=column.kind,
            dtype=column.dtype,
            domain=column.domain(6),
            low=str(facts["low"]) if "low" in facts else None,
            high=str(facts["high"]) if "high" in facts else None,
            values=texts.get("categories"),
            nulls=column.nulls,
            provenance=column.provenance,
            words=provenance_in_words(column) if unchanged else PROVENANCES[column.provenance],
            source=column.source or "",
            copied=tuple((fact, str(texts.get(fact))) for fact in column.facts_from_rows),
            others=tuple((k, quote(v, 200)) for k, v in facts.items() if k not in shown_apart),
        )


@dataclass(frozen=True, kw_only=True)
class PlanView:
    """The planned cost of a fit, what it means for an attacker, and the expected error.

    All follow from the schema and from public numbers.
    """

    lines: tuple[str, ...]
    attacker: tuple[str, ...]
    one_count: float
    errors: tuple["ColumnError", ...]


class Preparation:
    """The choices and the results of one preparation, from the table to the release.

    Parameters
    ----------
    folder : Path
        The folder of all files. It is made when the first file is.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.table: Path | None = None
        self.reading: dict[str, str] = {}
        self.confirmed = False
        self.schema: Schema | None = None
        self.settings: Settings | None = None
        self.planned: PlanView | None = None
        self.model: Synthesizer | None = None
        self.key: Path | None = None
        self.synthetic: Path | None = None
        self.summary: list[str] = []
        self.picture: Picture | None = None
        self.released: Path | None = None
        self.written: set[Path] = set()

    # Files

    def replaces(self, path: Path) -> bool:
        """Return whether a file is one that this preparation wrote, which it may replace.

        Raises
        ------
        InputError
            If another run wrote it.
        """
        if path in self.written:
            return True
        if path.exists():
            raise InputError(
                f"{path} is there already; plan the fit under another name, or start tabsynth app with another --folder."
            )
        return False

    @property
    def schema_path(self) -> Path:
        """The schema file that all later steps take."""
        return self.folder / SCHEMA

    def file(self, ending: str) -> Path:
        """Return a file of the present fit."""
        name = "fit" if self.settings is None else self.settings.name
        return self.folder / f"{name}{ending}"

    @property
    def holdout(self) -> Path | None:
        """The rows that are kept apart from the fit; None where it reads all."""
        return self._part("holdout")

    @property
    def training(self) -> tuple[Path, dict[str, str]]:
        """The table that the fit reads, and the options of reading it."""
        part = self._part("train")
        return (self.need_confirmed(), self.reading) if part is None else (part, {})

    def _part(self, name: str) -> Path | None:
        share = 0 if self.settings is None else self.settings.holdout
        return self.file(f"-{name}-{100 * share:g}.csv") if share else None

    @property
    def report_folder(self) -> Path:
        """The folder of the confidential report."""
        return self.file("-report")

    @property
    def public_key(self) -> Path | None:
        """The public key beside the private one that signed the table."""
        path = None if self.key is None else self.key.with_name(self.key.name + ".pub")
        return path if path is not None and path.is_file() else None

    def make_folder(self) -> None:
        """Make the folder, for its owner alone."""
        if self.folder.is_dir():
            check_output(self.schema_path, overwrite=True)
        else:
            with writing(self.folder):
                self.folder.mkdir(mode=0o700)

    # What was chosen and made, each of which makes later results void

    def take_table(self, path: str, reading: Mapping[str, str]) -> None:
        """Take the table of a path. It is not read.

        Raises
        ------
        InputError
            For a path that cannot be one of a table.
        """
        if not path:
            raise InputError("Name a file, such as people.csv.")
        table = Path(path).expanduser()
        suffix(table)
        if not table.is_file():
            raise InputError(f"There is no file {quote(path)}; correct the path.")
        if not os.access(table, os.R_OK):
            raise InputError(f"The file {quote(path)} cannot be read; ask for the permission.")
        self.settings = None
        self.take_schema(None)
        self.table, self.reading = table, dict(reading)

    def take_schema(self, schema: Schema | None) -> None:
        """Take another schema, or none."""
        self.schema, self.planned = schema, None
        self.take_model(None)

    def take_model(self, model: "Synthesizer | None") -> None:
        """Take another fitted synthesizer, or none."""
        self.model = model
        self.take_synthetic(None)

    def take_synthetic(self, synthetic: Path | None) -> None:
        """Take another synthetic table, or none."""
        self.synthetic, self.released, self.summary = synthetic, None, []

    # What a step needs

    def need_table(self) -> Path:
        """Return the table, which a person has chosen."""
        if self.table is None:
            raise InputError("Choose a table first.")
        return self.table

    def need_confirmed(self) -> Path:
        """Return the table, whose statistics may be shown from now on.

        Raises
        ------
        InputError
            Before a table is chosen and the screen is confirmed to be confidential.
        """
        table = self.need_table()
        if not self.confirmed:
            raise InputError("Confirm first that this screen is confidential.")
        return table

    def need_schema(self) -> Schema:
        """Return the schema, if there is one and it may be shown."""
        self.need_confirmed()
        if self.schema is None:
            raise InputError("Make or take a schema first.")
        return self.schema

    def need_plan(self) -> tuple[Schema, Settings]:
        """Return the schema and the settings of a planned fit."""
        schema = self.need_schema()
        if self.planned is None or self.settings is None:
            raise InputError("Plan the privacy cost first.")
        return schema, self.settings

    def need_model(self) -> "Synthesizer":
        """Return the fitted synthesizer."""
        self.need_confirmed()
        if self.model is None:
            raise InputError("Fit a synthesizer first.")
        return self.model

    def need_synthetic(self) -> Path:
        """Return the synthetic table."""
        self.need_model()
        if self.synthetic is None:
            raise InputError("Draw the synthetic table first.")
        return self.synthetic

    # What the page shows of the schema

    def columns(self) -> list[ColumnView]:
        """Return the columns of the schema."""
        return [ColumnView.of(column) for column in self.need_schema().columns]

    def review(self) -> list[str]:
        """Return what a person must check in the schema."""
        schema = self.need_schema()
        return review(schema) if schema.drafted else []


def values_text(values: Sequence[Any]) -> str:
    """Return values in one line as ``--values`` takes them: those with a comma are in double quotes."""
    line = io.StringIO()
    csv.writer(line, lineterminator="").writerow(values)
    return line.getvalue()
