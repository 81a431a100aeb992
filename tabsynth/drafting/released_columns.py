"""Columns of a schema from noisy releases: what a private draft asks of a column, and what it makes of the answers.

Questions are functions of one row's value and of earlier releases alone; answers are noisy sums over the rows.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from tabsynth._typing import JsonObject
from tabsynth._validate import MAX_TEXT
from tabsynth.drafting.categories import other_texts
from tabsynth.drafting.formats import Distinct
from tabsynth.schema.categorical import Categorical
from tabsynth.schema.column import Column

MOST_CATEGORIES = 4_000
CLEAR = 3.5  # standard deviations of its noise: a sum above is taken to be of rows
FORMAT = 4.0  # the same, of formats


@dataclass(frozen=True, eq=False)
class Question:
    """A question: which of ``size`` answers each distinct value of a column has, and null; -1 for none.

    Attributes
    ----------
    column : str
    keys : int array, shape (m + 1,)
    size : int
    values : list of str or float, optional
        The answers, where they are values of the rows and not known in advance.
    about : str
        What is asked.
    """

    column: str
    keys: np.ndarray
    size: int
    values: Sequence[str | float] | None = None
    about: str = ""


@dataclass(eq=False, kw_only=True)
class ColumnDraft:
    """The draft of a column: the questions about its values, and what was released of it so far.

    Drafts of this class ask whether there are nulls, and nothing else.
    """

    name: str
    dtype: str
    nulls: bool
    null_values: tuple[str, ...]
    make: Callable[[JsonObject], Column | str]
    sources: dict[str, list[str]] = field(default_factory=dict)

    def source(self, fact: str, purpose: str) -> None:
        """Note that a release, by its purpose on the ledger, says something of a fact."""
        if purpose not in self.sources.setdefault(fact, []):
            self.sources[fact].append(purpose)

    @property
    def facts(self) -> JsonObject:
        """The facts of the column that all kinds have."""
        return {
            "name": self.name,
            "dtype": self.dtype,
            "nulls": self.nulls,
            "provenance": "released",
        }

    def questions(self, column: Distinct, number: int) -> list[Question]:
        """Return what round ``number`` asks; the first is 1."""
        return []

    def learn(
        self, question: Question, sums: np.ndarray, std: float, clear: np.ndarray, purpose: str
    ) -> None:
        """Take an answer of the release ``purpose``: noisy sums of rows' weights, their noise, and which are clear of it, or past the threshold."""

    def column(self) -> Column | str:
        """Return the column, or why it is left out."""
        return self.make(self.facts)

    def _missing(self, values: pd.Series) -> np.ndarray:
        """Return which distinct values are null, and null itself; shape (m + 1,)."""
        listed = values.isin(self.null_values) if values.dtype == object else values.isna()
        return np.append(listed.to_numpy(), True)


@dataclass(eq=False, kw_only=True)
class TextDraft(ColumnDraft):
    """Texts that enough rows have become categories.

    The first in ``texts`` is the most common, for its round was the first and its sum the largest of that round. Rows with
    other values become a category of their own (``other``, if this does not mean null) if they are clearly any, else the
    most common one.
    """

    texts: dict[str, float] = field(default_factory=dict)
    others: bool = True

    def questions(self, column: Distinct, number: int) -> list[Question]:
        """See :meth:`ColumnDraft.questions`."""
        missing = self._missing(column.values)
        values = column.values.map(str)
        new = ~missing[:-1] & ~values.isin(self.texts).to_numpy()
        new &= values.map(len).to_numpy(dtype=int) <= MAX_TEXT  # longer ones are no categories
        keys = np.full(len(missing), -1)
        keys[:-1][new] = np.arange(new.sum())
        questions = [Question(self.name, keys, int(new.sum()), values[new].tolist())]
        if not self.nulls:
            questions.append(Question(self.name, np.where(missing, 0, -1), 1))
        return questions

    def learn(
        self, question: Question, sums: np.ndarray, std: float, clear: np.ndarray, purpose: str
    ) -> None:
        """See :meth:`ColumnDraft.learn`."""
        if question.values is None:
            self.nulls = bool(clear[0])
            self.source("nulls", purpose)
            return
        self.source("categories", purpose)
        largest = sorted(np.flatnonzero(clear).tolist(), key=lambda i: -sums[i])
        released = largest[: MOST_CATEGORIES - len(self.texts)]
        self.texts |= {str(question.values[i]): float(sums[i]) for i in released}

    def rest(self, column: Distinct) -> Question:
        """Return which rows have a value that was not released."""
        values, missing = column.values.map(str), self._missing(column.values)
        released = np.append(values.isin(self.texts).to_numpy(), False) | (missing & self.nulls)
        return Question(self.name, np.where(released, -1, 0), 1)

    def column(self) -> Column | str:
        """See :meth:`ColumnDraft.column`."""
        other = next(text for text in other_texts() if text not in self.null_values)
        texts = set(self.texts) | ({other} if self.others else set())
        if not texts - {other}:
            return "no value has enough rows to be released"
        other = other if other in texts else next(iter(self.texts))
        return Categorical(**self.facts, categories=tuple(sorted(texts)), other=other)
