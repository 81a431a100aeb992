"""A column of a table from which a draft is made."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import pandas as pd

from tabsynth._typing import JsonObject
from tabsynth._validate import quote
from tabsynth.drafting.catalogue import CATALOGUE
from tabsynth.drafting.formats import format_counts
from tabsynth.drafting.time_formats import time_format
from tabsynth.schema.cells import base_dtype
from tabsynth.schema.column import Column
from tabsynth.schema.temporal import Temporal


class LeftOut(Exception):
    """Why a draft leaves a column out, in a clause that shows no value of a few rows."""


def not_numeric(texts: Mapping[str, int], min_count: int) -> LeftOut:
    """Return why some texts, by their numbers of rows, keep a column of numbers from being numeric."""
    common = [f"--null {quote(text)}" for text, rows in texts.items() if rows >= min_count]
    options = " ".join(common) if len(common) == len(texts) else "--null for each of them"
    return LeftOut(
        f"all but {len(texts)} of its values are numbers; if the others mean missing, draft again with {options}"
    )


def with_public_facts(column: Column, entry: str, public: Collection[str]) -> Column:
    """Return a drafted column of which the catalogue states some facts, and the others follow from the rows."""
    copied = [fact for fact in column.facts_from_rows if fact not in public]
    return replace(column, source=f"{CATALOGUE}{entry}", copied_from_private_rows=copied)


@dataclass(frozen=True, kw_only=True, eq=False)
class DraftSource:
    """A column of a table from which a draft is made.

    Attributes
    ----------
    name : str
    values : Series
        Without nulls. Texts that are all plain numbers were converted to numbers.
    dtype : str
        The pandas dtype that the drafted column declares.
    nulls : bool
        Whether the table's column has nulls.
    null_values : sequence of str
        Texts that stand for null in CSV files.
    min_count : int
        Number of rows that a value must have to be listed.
    leave_out : bool
        Whether to raise :class:`LeftOut` for columns that hardly any two rows share a value of.
    format : str
        How all numbers are written, ``"{}"`` or ``"{,}"`` where they have no sign.
    words : dict
        The number of rows of each text in place of a number, which ``values`` do not have.
    """

    name: str
    values: pd.Series
    dtype: str
    nulls: bool
    null_values: Sequence[str]
    min_count: int
    leave_out: bool
    format: str
    words: Mapping[str, int] = field(default_factory=dict)

    @property
    def facts(self) -> JsonObject:
        """The facts that a draft of every kind has."""
        facts = {"name": self.name, "dtype": self.dtype, "nulls": self.nulls}
        return {**facts, "provenance": "drafted"}

    @cached_property
    def time_format(self) -> tuple[type[Temporal], JsonObject] | None:
        """The kind and the facts of the format of dates or times in which all texts or numbers are."""
        base = base_dtype(self.dtype)
        texts = base == "text" and all(isinstance(value, str) for value in self.values)
        if not texts and base not in ("int", "float"):
            return None
        return time_format(format_counts(self.values, self.name), len(self.values))
