"""Columns of a schema from noisy releases: what a private draft asks of a column, and what it makes of the answers.

Questions are functions of one row's value and of earlier releases alone; answers are noisy sums over the rows.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import pandas as pd

from tabsynth._typing import JsonObject
from tabsynth._validate import MAX_TEXT, quote
from tabsynth.drafting.catalogue import CATALOGUE
from tabsynth.drafting.categories import completed_bands, other_texts
from tabsynth.drafting.formats import Distinct
from tabsynth.drafting.identifiers import identifying_categories
from tabsynth.drafting.known_texts import KnownTexts
from tabsynth.schema.categorical import Categorical, Ordinal
from tabsynth.schema.column import Column

MOST_CATEGORIES = 4_000
CLEAR = 3.5  # standard deviations of its noise: a sum above is taken to be of rows
LIKELY = 1.5  # the same, of values that were not released, for a category of their own
FORMAT = 4.0  # the same, of formats
LIMIT = 2.0  # standard deviations of noise above a sum: a number of rows that is unlikely to be exceeded
AT_THIS_BUDGET = "to be released at this budget"  # ends each reason that a larger budget may change
TOO_FEW_VALUES = f"it has too few values {AT_THIS_BUDGET}"  # by the noisy counts of formats
TOLD = 0.2  # of the rows: values that were not released, above which a person is told
REPEATED_FROM = (
    2  # rounds, of which no text that looks like a name is released where names are of persons
)
DECLARED_ROWS = "number of rows"  # among what a draft takes as public
OF_VALUES = "of the rows with a value"  # of which the shares of notes are
FEW_REPEAT = 0.5  # of the rows: those with other values, above which such texts do not repeat
# Of the rows: those that may have other values where one alone is released, above which it is said, and the column is left out.
FEW_HIDDEN, MOST_HIDDEN = 0.1, 0.3


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


@dataclass(frozen=True)
class Rest:
    """Rows whose value was not released.

    Attributes
    ----------
    rows, noise : float
        Their noisy number, and the standard deviation of its noise.
    most : float
        A number that they are unlikely to be above.
    clear : bool
        Whether their number is clear of noise.
    share : tuple of float
        The 95% interval of their share of the rows with a value.
    """

    rows: float
    noise: float
    most: float
    clear: bool
    share: tuple[float, float] = (0.0, 1.0)

    @property
    def is_likely(self) -> bool:
        """True if there are likely to be such rows."""
        return self.clear or self.rows > LIKELY * self.noise


@dataclass(eq=False, kw_only=True)
class ColumnDraft:
    """The draft of a column: the questions about its values, and what was released of it so far.

    Attributes
    ----------
    rows, noise : float
        Noisy number of rows with a value, and the standard deviation of its noise.
    unreleased : Rest
        Rows with a value that was not released; unknown until they were counted.
    """

    name: str
    dtype: str
    nulls: bool
    null_values: tuple[str, ...]
    rows: float = 0.0
    noise: float = 0.0
    unreleased: Rest = Rest(0.0, 0.0, math.inf, True)
    sources: dict[str, list[str]] = field(default_factory=dict)

    def source(self, fact: str, purpose: str) -> None:
        """Note that a release, by its purpose on the ledger, says something of a fact."""
        if purpose not in self.sources.setdefault(fact, []):
            self.sources[fact].append(purpose)

    @property
    def counts_different(self) -> bool:
        """True if the number of different values decides something."""
        return False

    @property
    def facts(self) -> JsonObject:
        """The facts of the column that all kinds have; its source is what the catalogue says."""
        purposes = {name for names in self.sources.values() for name in names}
        entries = sorted(name for name in purposes if name.startswith(CATALOGUE))
        return {
            **({"source": "; ".join(entries)} if entries else {}),
            "name": self.name,
            "dtype": self.dtype,
            "nulls": self.nulls,
            "provenance": "released",
        }

    def begin(self, number: int) -> None:
        """Decide from earlier releases what round ``number`` asks; the first is 1."""

    def questions(self, column: Distinct, number: int) -> list[Question]:
        """Return what round ``number`` asks, after :meth:`begin`."""
        return []

    def learn(
        self, question: Question, sums: np.ndarray, std: float, clear: np.ndarray, purpose: str
    ) -> None:
        """Take an answer of the release ``purpose``: noisy sums of rows' weights, their noise, and which are clear of it, or past the threshold."""

    def end_rounds(self) -> None:
        """Complete what the rounds released by what it says itself."""

    def rest(self, column: Distinct) -> Question | None:
        """Return which rows have a value that was not released, if that is to be asked."""
        return None

    def learn_rest(self, remaining: Rest, purpose: str) -> None:
        """Take the answer of the release ``purpose``."""
        self.unreleased = remaining

    def column(self) -> Column | str:
        """Return the column, or why it is left out."""
        raise NotImplementedError

    def finish(self) -> Column | str:
        """Return the column, or why it is left out: also if it has one value alone and rows may well have others."""
        column = self.column()
        collapsed = not isinstance(column, str) and has_one_value(column) and not column.nulls
        if collapsed and self.unreleased.most > MOST_HIDDEN * self.rows:
            return f"only one of its values has enough rows {AT_THIS_BUDGET}"
        return column

    def note(self, column: Column) -> JsonObject | None:
        """Return what a person must know of a column that is kept: a clause, the share of rows with a value that it is about, and its interval."""
        unreleased, all_rows = self.unreleased, max(1.0, self.rows)
        if has_one_value(column) and self.may_hide_values:
            note = f"one value is kept; so many {OF_VALUES} have others at most"
            return {"note": note, "share": round(min(1.0, unreleased.most / all_rows), 2)}
        note_of_unreleased = self._note_of_unreleased(column)
        is_large = unreleased.is_likely and unreleased.rows > TOLD * self.rows
        if note_of_unreleased is None or not is_large:
            return None
        return {
            "note": note_of_unreleased,
            "share": round(min(1.0, unreleased.rows / all_rows), 4),
            "interval": [round(end, 4) for end in unreleased.share],
        }

    @property
    def may_hide_values(self) -> bool:
        """True if more than few rows may have a value that was not released."""
        return self.unreleased.most > FEW_HIDDEN * self.rows

    @property
    def hidden(self) -> float:
        """The largest share of the rows with a value that may become another one, or were null, as far as noise tells."""
        unreleased = max(0.0, self.unreleased.rows) + LIMIT * self.unreleased.noise
        return min(1.0, unreleased / max(1.0, self.rows))

    def _note_of_unreleased(self, column: Column) -> str | None:
        """Return what becomes of values that were not released; None if they are kept otherwise."""
        return f"values beyond the bounds become the nearest one, in so many {OF_VALUES}"

    def _missing(self, values: pd.Series) -> np.ndarray:
        """Return which distinct values are null, and null itself; shape (m + 1,)."""
        listed = values.isin(self.null_values) if values.dtype == object else values.isna()
        return np.append(listed.to_numpy(), True)


class TruthDraft(ColumnDraft):
    """Truth values, of which only the formats are asked."""

    def column(self) -> Column:
        """See :meth:`ColumnDraft.column`."""
        return Categorical(**self.facts, categories=(False, True))


@dataclass(eq=False, kw_only=True)
class OrderedDraft(ColumnDraft):
    """Categories that the dtype declares in their order, of which only nulls are asked. Rarer nulls become the first category."""

    categories: tuple[str, ...]

    def column(self) -> Column:
        """See :meth:`ColumnDraft.column`."""
        return Ordinal(**self.facts, categories=self.categories, other=self.categories[0])


@dataclass(eq=False, kw_only=True)
class TextDraft(ColumnDraft):
    """Texts that enough rows have become categories, and so do texts of the catalogue that complete them.

    The first in ``texts`` is the most common, for its round was the first and its sum the largest of that round. Rows with
    other values become a category of their own (``other``, if this does not mean null) if there are likely to be any, else the
    most common one. ``ordered``: the column declares that its sorted texts are in their order. ``must_repeat``: texts look like
    names of persons or free text, and are categories only if most rows have one that enough rows share.
    """

    reason: str  # why the column is left out, where no text is released
    texts: dict[str, float] = field(default_factory=dict)
    ordered: bool = False
    must_repeat: bool = False
    _first_round: str = ""

    @property
    def public_texts(self) -> frozenset[str]:
        """The texts that are not asked for, because a public list has them."""
        return frozenset()

    @cached_property
    def known_texts(self) -> KnownTexts:
        """The texts of the catalogue, and what was released of them."""
        return KnownTexts(self.name, self.null_values)

    def questions(self, column: Distinct, number: int) -> list[Question]:
        """See :meth:`ColumnDraft.questions`."""
        if self.must_repeat and not self.texts and number > REPEATED_FROM:
            return []
        missing = self._missing(column.values)
        values = column.values.map(str)
        new = ~missing[:-1] & ~values.isin({*self.texts, *self.public_texts}).to_numpy()
        places = np.append(np.where(new, self.known_texts.places(values), -1), -1)
        size = len(self.known_texts.texts)
        questions = [Question(self.name, places, size, about="texts of the catalogue")]
        new &= places[:-1] < 0
        new &= values.map(len).to_numpy(dtype=int) <= MAX_TEXT  # longer ones are no categories
        keys = np.full(len(missing), -1)
        keys[:-1][new] = np.arange(new.sum())
        questions.append(Question(self.name, keys, int(new.sum()), values[new].tolist()))
        if not self.nulls:
            questions.append(Question(self.name, np.where(missing, 0, -1), 1))
        return questions

    def learn(
        self, question: Question, sums: np.ndarray, std: float, clear: np.ndarray, purpose: str
    ) -> None:
        """See :meth:`ColumnDraft.learn`."""
        if question.about == "texts of the catalogue":
            self.source("categories", purpose)
            found = self.known_texts.learn(sums, std, self.texts)
            self._take(
                {text: float(sums[self.known_texts.texts.index(text)]) for text in found}, purpose
            )
        elif question.values is None:
            self.source("nulls", purpose)
            self.nulls = bool(clear[0])
        else:
            self.source("categories", purpose)
            largest = sorted(np.flatnonzero(clear).tolist(), key=lambda i: -sums[i])
            released = largest[: MOST_CATEGORIES - len(self.texts)]
            self._take({str(question.values[i]): float(sums[i]) for i in released}, purpose)

    def _take(self, sums: dict[str, float], purpose: str) -> None:
        """Take texts with their sums; those of the first round in the order of these."""
        if not self.texts:
            self._first_round = purpose
        self.texts |= sums
        if purpose == self._first_round:
            self.texts = dict(sorted(self.texts.items(), key=lambda text: -text[1]))

    def end_rounds(self) -> None:
        """See :meth:`ColumnDraft.end_rounds`: by texts of the catalogue, and bands of numbers."""
        self.texts |= dict.fromkeys(self.known_texts.completion(self.texts), 0.0)
        if (entry := self.known_texts.name_of(self.texts)) is not None:
            self.source("categories", CATALOGUE + entry)
        bands = completed_bands(self.name, self.texts)
        self.texts |= dict.fromkeys({*bands} - {*self.texts, *self.null_values}, 0.0)

    def rest(self, column: Distinct) -> Question:
        """See :meth:`ColumnDraft.rest`."""
        values, missing = column.values.map(str), self._missing(column.values)
        released = np.append(values.isin(self.texts).to_numpy(), False) | (missing & self.nulls)
        return Question(self.name, np.where(released, -1, 0), 1, about="rest")

    def learn_rest(self, remaining: Rest, purpose: str) -> None:
        """See :meth:`ColumnDraft.learn_rest`."""
        super().learn_rest(remaining, purpose)
        self.source("other", purpose)

    def column(self) -> Column | str:
        """See :meth:`ColumnDraft.column`."""
        other = next(text for text in other_texts() if text not in self.null_values)
        rest = self.unreleased
        has_others = rest.is_likely if len(self.texts) > 1 else rest.clear
        texts = {*self.texts, other} if has_others else {*self.texts}
        many_others = rest.rows > FEW_REPEAT * self.rows
        if not texts - {other} or (self.must_repeat and many_others):
            return self.reason
        if (reason := identifying_categories(self.name, [*texts], other)) is not None:
            return reason
        other = other if other in texts else next(iter(self.texts))
        if self.ordered:
            listed = (*sorted(self.texts), *sorted(texts - {*self.texts}))
            facts = self.facts | {"dtype": "category"}
            return Ordinal(**facts, categories=listed, other=other)
        return Categorical(**self.facts, categories=tuple(sorted(texts)), other=other)

    def _note_of_unreleased(self, column: Column) -> str:
        """See :meth:`ColumnDraft._note_of_unreleased`."""
        return f"rarer values become {quote(column.other)}, in so many {OF_VALUES}"


def has_one_value(column: Column) -> bool:
    """Return whether a column has one value at most, beside null."""
    return column.cells + len(column.missing) <= 1
