"""A column of a table from which a draft is made."""

from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd

from tabsynth._typing import JsonObject


class LeftOut(Exception):
    """Why a draft leaves a column out, in a clause that shows no value of a few rows."""


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
    """

    name: str
    values: pd.Series
    dtype: str
    nulls: bool
    null_values: Sequence[str]
    min_count: int
    leave_out: bool

    @property
    def facts(self) -> JsonObject:
        """The facts that a draft of every kind has."""
        facts = {"name": self.name, "dtype": self.dtype, "nulls": self.nulls}
        return {**facts, "provenance": "drafted"}
